/*
 * Goal: lines are told from bare rows; any bytes turn into one line and back. Method: tables, and
 * random bytes drawn from an alphabet that hits every special case.
 */
#include "json/line.h"
#include "../check.h"
#include "base/base64.h"

TEST(heads)
{
	char text[SC_LINE_HEAD_MAX];

	CHECK_MEM(text, sc_line_head(text, 1), "[1,");
	CHECK_MEM(text, sc_line_head(text, UINT64_MAX), "[18446744073709551615,");
}

TEST(lines_and_bare_rows)
{
	static const struct {
		const char *text;
		uint64_t offset;
		bool null;
		const char *msg;
	} lines[] = {
		{ "[1,{\"a\":1}]", 1, false, "{\"a\":1}" },
		{ " [ 18446744073709551615 , [1,2] ] \r\n", UINT64_MAX, false, "[1,2]" },
		{ "[null,null]", 0, true, "null" },
		{ "[7,1]", 7, false, "1" },
	};
	static const char *const rows[] = {
		"",
		"1",
		"[]",
		"[1]",
		"[1,]",
		"[1,2,3]",
		"[0,1]",
		"[01,1]",
		"[-1,1]",
		"[1.0,1]",
		"[\"1\",1]",
		"[nul,1]",
		"[18446744073709551616,1]",
		"[1 2]",
		"[1,2",
		"[1,{]",
		"{\"a\":1}",
		"[null]",
		"[nullx,1]",
		"[1,2]]",
		"[1,\"\xff\"]",
		"[[1],2]",
	};
	struct sc_line line;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		for (int trusted = 0; trusted < 2; trusted++) {
			CHECK(sc_line_parse(sc_span_str(lines[i].text), trusted, &line));
			CHECK(line.offset == lines[i].offset);
			CHECK_INT(line.null_offset, lines[i].null);
			CHECK_SPAN(line.msg, lines[i].msg);
		}
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		if (sc_line_parse(sc_span_str(rows[i]), false, &line))
			FAIL("'%s' was taken for a line", rows[i]);
	}
}

static void wrapped(const char *message, size_t len, bool binary, const char *want)
{
	struct sc_bytes out, back;

	sc_bytes_init(&out, 1000);
	sc_bytes_init(&back, 1000);
	CHECK_INT(sc_wrap_message(sc_span(message, len), binary, &out), 0);
	CHECK_SPAN(sc_span(out.data, out.len), want);
	if (sc_unwrap_message(sc_span(out.data, out.len), &back) == 1)
		CHECK(back.len == len && (!len || memcmp(back.data, message, len) == 0));
	else
		CHECK(want[0] != '{' || want[1] != '"' || want[2] != '$');
	sc_bytes_done(&out);
	sc_bytes_done(&back);
}

TEST(wrapping)
{
	wrapped("{\"a\": 1}", 8, false, "{\"a\": 1}");
	wrapped("{\"a\":\n1}", 8, false, "{\"a\":1}");
	wrapped("pong", 4, false, "{\"$text\":\"pong\"}");
	wrapped("", 0, false, "{\"$text\":\"\"}");
	wrapped("a\nb\"\\\x01\0z", 8, false, "{\"$text\":\"a\\nb\\\"\\\\\\u0001\\u0000z\"}");
	wrapped("{\"$text\":\"x\"}", 13, false, "{\"$text\":\"{\\\"$text\\\":\\\"x\\\"}\"}");
	wrapped("{\"\\u0024base64\":1}", 18, false, "{\"$text\":\"{\\\"\\\\u0024base64\\\":1}\"}");
	wrapped("{\"a\":1,\"$text\":2}", 17, false, "{\"a\":1,\"$text\":2}");
	wrapped("\xff\x00\x01", 3, false, "{\"$base64\":\"/wAB\"}");
	wrapped("{}", 2, true, "{\"$base64\":\"e30=\"}");
	wrapped("", 0, true, "{\"$base64\":\"\"}");
}

TEST(what_is_not_wrapped)
{
	static const char *const msgs[] = {
		"{\"$text\":1}",
		"{\"$text\":\"a\",\"b\":1}",
		"{\"$base64\":\"e30\"}",
		"{\"$base64\":\"e31=\"}",
		"[\"$text\"]",
		"{\"$base64\":\"e30=e30=\"}",
		"{\"text\":\"aaaaaa\"}",
		"{\"$text\":\"\\ud800\"}",
		"{}",
		"",
	};
	struct sc_bytes out;

	sc_bytes_init(&out, 1000);
	for (size_t i = 0; i < sizeof(msgs) / sizeof(msgs[0]); i++) {
		if (sc_unwrap_message(sc_span_str(msgs[i]), &out) != 0 || out.len)
			FAIL("'%s' was unwrapped", msgs[i]);
	}
	sc_bytes_done(&out);
}

/* xorshift: the same bytes in every run */
static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

TEST(any_bytes_come_back)
{
	static const char *const pieces[] = {
		"{",           "}",
		"[",           "]",
		",",           ":",
		"\"",          "\\",
		"\n",          "\r",
		" ",           "\t",
		"$text",       "$base64",
		"\"$text\":",  "1",
		"-0",          "1e5",
		"\xc3\xa9",    "\xff",
		"\x80",        "\xed\xa0\x80",
		"\\u0024text", "null",
		"a",           "\x7f",
		"\x01",        "\xf0\x9f\x98\x80",
	};
	struct sc_bytes message, out, back;
	int wraps = 0;

	sc_bytes_init(&message, 10000);
	sc_bytes_init(&out, 100000);
	sc_bytes_init(&back, 10000);
	for (int round = 0; round < 200000; round++) {
		int count = (int)(next_random() % 9);
		bool binary = next_random() % 8 == 0;
		struct sc_json value;

		sc_bytes_clear(&message);
		sc_bytes_clear(&out);
		sc_bytes_clear(&back);
		if (next_random() % 4 == 0)
			sc_bytes_puts(&message, "{\"$text\":\"");
		for (int i = 0; i < count; i++)
			sc_bytes_puts(&message,
				      pieces[next_random() % (sizeof(pieces) / sizeof(pieces[0]))]);
		if (next_random() % 8 == 0)
			sc_bytes_putc(&message, 0);
		CHECK_INT(sc_wrap_message(sc_span(message.data, message.len), binary, &out), 0);
		CHECK(!memchr(out.data, '\n', out.len) && !memchr(out.data, '\r', out.len));
		CHECK_INT(sc_json_scan(sc_span(out.data, out.len), &value, NULL), 0);
		if (sc_unwrap_message(sc_span(out.data, out.len), &back) == 1) {
			wraps++;
			CHECK(back.len == message.len);
			CHECK(!back.len || memcmp(back.data, message.data, back.len) == 0);
			continue;
		}
		/* not wrapped: a JSON text, of which at most white space is gone */
		CHECK_INT(sc_json_scan(sc_span(message.data, message.len), &value, NULL), 0);
		CHECK_INT(sc_json_put_line(&value, &back), 0);
		CHECK(back.len == out.len && memcmp(back.data, out.data, out.len) == 0);
	}
	CHECK(wraps > 100000 && wraps < 200000);
	sc_bytes_done(&message);
	sc_bytes_done(&out);
	sc_bytes_done(&back);
}

TEST(base64)
{
	static const struct {
		const char *plain, *coded;
	} cases[] = {
		{ "", "" },        { "f", "Zg==" },          { "fo", "Zm8=" },
		{ "foo", "Zm9v" }, { "foobar", "Zm9vYmFy" }, { "\xfb\xff\xfe", "+//+" },
	};
	static const char *const wrong[] = { "Zg",       "Zg=",  "Z===", "Zh==",   "Zm9=",
					     "Zg==Zg==", "Zm 9", "====", "Zm9v\n", "Z_-v" };
	struct sc_bytes out;

	sc_bytes_init(&out, 1000);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		sc_bytes_clear(&out);
		CHECK_INT(sc_base64_put(&out, sc_span_str(cases[i].plain)), 0);
		CHECK_SPAN(sc_span(out.data, out.len), cases[i].coded);
		sc_bytes_clear(&out);
		CHECK_INT(sc_base64_get(&out, sc_span_str(cases[i].coded)), 0);
		CHECK_SPAN(sc_span(out.data, out.len), cases[i].plain);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		sc_bytes_clear(&out);
		CHECK_INT(sc_base64_get(&out, sc_span_str(wrong[i])), SC_E_DATA);
		CHECK_INT(out.len, 0);
	}
	sc_bytes_done(&out);
}

TEST(a_full_buffer_is_left_as_it_was)
{
	static const char *const messages[] = { "pong\n", "\xff\xff\xff", "{\"a\":\n[1]}" };

	for (size_t i = 0; i < 3; i++) {
		for (size_t room = 0; room < 8; room++) {
			struct sc_bytes out;

			sc_bytes_init(&out, 2 + room);
			CHECK_INT(sc_bytes_puts(&out, "ab"), 0);
			if (sc_wrap_message(sc_span_str(messages[i]), false, &out) == 0)
				FAIL("message %zu fits in %zu", i, room);
			CHECK_SPAN(sc_span(out.data, out.len), "ab");
			CHECK(out.full);
			sc_bytes_done(&out);
		}
	}
}
