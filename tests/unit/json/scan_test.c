/*
 * Goal: the scanner's answers, its words, and what is read from a scanned value. Method: tables of
 * texts; strings with a special byte at every distance from both ends, since the fast paths work in
 * blocks; bytes that were never scanned in front of a page that nobody may read.
 */
#include "json/scan.h"
#include "../check.h"

#include <sys/mman.h>
#include <unistd.h>

static void refused(const char *text, size_t len, const char *reason)
{
	struct sc_err err = { 0 };
	struct sc_json value = { .kind = SC_JSON_NULL };

	CHECK_INT(sc_json_scan(sc_span(text, len), &value, &err), SC_E_DATA);
	CHECK_STR(err.reason, reason);
	CHECK(value.text.data == NULL);
}

TEST(says_what_is_wrong_and_where)
{
	static const struct {
		const char *text, *reason;
	} cases[] = {
		{ "", "not JSON: there is no JSON value at byte 0" },
		{ "  ", "not JSON: there is no JSON value at byte 2" },
		{ "\xef\xbb\xbf{}", "not JSON: it begins with a byte order mark at byte 0" },
		{ "[1,]", "not JSON: expected a value, found ']' at byte 3" },
		{ "{\"a\":1,}", "not JSON: expected a key in quotes, found '}' at byte 7" },
		{ "{\"a\" 1}", "not JSON: expected ':' after a key, found '1' at byte 5" },
		{ "[1 2]", "not JSON: expected ',' or the closing bracket, found '2' at byte 3" },
		{ "[1", "not JSON: the text ends inside a value at byte 2" },
		{ "1 2", "not JSON: expected nothing after the value, found '2' at byte 2" },
		{ "NaN", "not JSON: expected a value, found 'N' at byte 0" },
		{ "nul", "not JSON: expected true, false or null at byte 0" },
		{ "01", "not JSON: a number has a leading zero at byte 0" },
		{ "[-01]", "not JSON: a number has a leading zero at byte 2" },
		{ "[1.]", "not JSON: a number needs a digit here, found ']' at byte 3" },
		{ "[1e+]", "not JSON: a number needs a digit here, found ']' at byte 4" },
		{ "[-]", "not JSON: a number needs a digit here, found ']' at byte 2" },
		{ "-", "not JSON: the text ends inside a value at byte 1" },
		{ "+1", "not JSON: expected a value, found '+' at byte 0" },
		{ "\"a\nb\"", "not JSON: a string holds a control character that must be escaped: "
			      "byte 0x0a at byte 2" },
		{ "\"\\x\"",
		  "not JSON: a string holds a backslash that is followed by 'x' at byte 2" },
		{ "\"\\u12g4\"",
		  "not JSON: \\u is not followed by four hexadecimal digits at byte 1" },
		{ "\"\\ud800\"",
		  "not JSON: a string holds a surrogate without its partner at byte 1" },
		{ "\"\\udc00\\ud800\"",
		  "not JSON: a string holds a surrogate without its partner at byte 1" },
		{ "\"\\ud800\\ue000\"",
		  "not JSON: a string holds a surrogate without its partner at byte 1" },
		{ "\"\\udc00\\udc00\"",
		  "not JSON: a string holds a surrogate without its partner at byte 1" },
		{ "\"ab\xff\"", "not JSON: a string holds invalid UTF-8, byte 0xff at byte 3" },
		{ "\"ab", "not JSON: the text ends inside a value at byte 3" },
		{ "\"ab\\", "not JSON: the text ends inside a value at byte 4" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		refused(cases[i].text, strlen(cases[i].text), cases[i].reason);
	refused("[1]\0", 4,
		"not JSON: expected nothing after the value, found byte 0x00 at byte 3");
}

TEST(depth_is_limited)
{
	char text[2 * (SC_JSON_DEPTH_MAX + 1)];
	struct sc_err err = { 0 };
	struct sc_json value;

	memset(text, '[', SC_JSON_DEPTH_MAX + 1);
	memset(text + SC_JSON_DEPTH_MAX + 1, ']', SC_JSON_DEPTH_MAX + 1);
	CHECK_OK(sc_json_scan(sc_span(text + 1, 2 * SC_JSON_DEPTH_MAX), &value, &err), &err);
	refused(text, sizeof(text),
		"not JSON: arrays and objects are nested too deeply at byte 512");
}

TEST(kinds)
{
	static const struct {
		const char *text;
		enum sc_json_kind kind;
	} cases[] = {
		{ "null", SC_JSON_NULL },
		{ "true", SC_JSON_TRUE },
		{ "false", SC_JSON_FALSE },
		{ "-0", SC_JSON_INTEGER },
		{ "18446744073709551615", SC_JSON_INTEGER },
		{ "1.0", SC_JSON_NUMBER },
		{ "1e2", SC_JSON_NUMBER },
		{ "1E-2", SC_JSON_NUMBER },
		{ "-0.0e+10", SC_JSON_NUMBER },
		{ "\"\"", SC_JSON_STRING },
		{ "[]", SC_JSON_ARRAY },
		{ "{}", SC_JSON_OBJECT },
		{ "{\"a\":{\"b\":[]}}", SC_JSON_OBJECT },
	};
	struct sc_err err = { 0 };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char padded[64];
		struct sc_json value;

		snprintf(padded, sizeof(padded), " \t%s\r\n", cases[i].text);
		CHECK_OK(sc_json_scan(sc_span_str(padded), &value, &err), &err);
		CHECK_INT(value.kind, cases[i].kind);
		CHECK_SPAN(value.text, cases[i].text);
		CHECK(!value.newlines);
	}
}

/* Each special thing at every place of a string of up to 70 bytes, the text ending at the end of
 * its memory. */
TEST(blocks_and_tails)
{
	static const struct {
		const char *bytes;
		bool good;
	} things[] = {
		{ "\\n", true },
		{ "\xc3\xa9", true },
		{ "\xe2\x82\xac", true },
		{ "\xf0\x9f\x98\x80", true },
		{ "\\ud83d\\ude00", true },
		{ "\x7f", true },
		{ "\x1f", false },
		{ "\"", false },
		{ "\xc0\x80", false },
		{ "\xed\xa0\x80", false },
		{ "\xf4\x90\x80\x80", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xc3", false },
		{ "\x80", false },
		{ "\xe2\x82", false },
		{ "\\", false },
		{ "\\u00g", false },
		{ "\\ud83dx", false },
	};

	for (size_t t = 0; t < sizeof(things) / sizeof(things[0]); t++) {
		size_t len = strlen(things[t].bytes);

		for (size_t before = 0; before < 34; before++) {
			for (size_t after = 0; after < 34; after++) {
				size_t size = before + len + after + 2;
				char *text = malloc(size);
				struct sc_json value;
				int rc;

				memset(text, 'a', size);
				text[0] = text[size - 1] = '"';
				memcpy(text + 1 + before, things[t].bytes, len);
				rc = sc_json_scan(sc_span(text, size), &value, NULL);
				free(text);
				if ((rc == 0) != things[t].good)
					FAIL("thing %zu with %zu before and %zu after", t, before,
					     after);
			}
		}
	}
}

TEST(digits_of_every_length)
{
	for (size_t digits = 1; digits < 70; digits++) {
		static const char ends[] = " .eE,]/:;\x80\x2f\x3a";

		for (size_t e = 0; e < sizeof(ends) - 1; e++) {
			char *text = malloc(digits + 2);
			struct sc_json value;
			bool good = ends[e] == ' ';

			memset(text, '7', digits);
			text[digits] = ends[e];
			text[digits + 1] = '9';
			if (sc_json_scan(sc_span(text, digits + 1), &value, NULL) == 0) {
				CHECK(good);
				CHECK_INT(value.text.len, digits);
			} else {
				CHECK(!good);
			}
			good = ends[e] == '.' || ends[e] == 'e' || ends[e] == 'E';
			CHECK_INT(sc_json_scan(sc_span(text, digits + 2), &value, NULL) == 0, good);
			free(text);
		}
	}
}

TEST(walking)
{
	const char *text =
		"{ \"a\" : 1 , \"b\\\"\" :[1,\n{\"x\":\"]\"} ], \"a\":-2.5e3,\"\":\"q\\\\\" }";
	struct sc_json value, member;
	struct sc_json_walk walk;
	struct sc_err err = { 0 };
	struct sc_span key;

	CHECK_OK(sc_json_scan(sc_span_str(text), &value, &err), &err);
	CHECK(value.newlines);
	sc_json_walk_init(&walk, &value);
	CHECK(sc_json_walk_next(&walk, &key, &member));
	CHECK_SPAN(key, "a");
	CHECK_SPAN(member.text, "1");
	CHECK(sc_json_walk_next(&walk, &key, &member));
	CHECK_SPAN(key, "b\\\"");
	CHECK_SPAN(member.text, "[1,\n{\"x\":\"]\"} ]");
	CHECK(member.newlines);
	CHECK(sc_json_walk_next(&walk, &key, &member));
	CHECK_INT(member.kind, SC_JSON_NUMBER);
	CHECK(!member.newlines);
	CHECK(sc_json_walk_next(&walk, &key, &member));
	CHECK_INT(key.len, 0);
	CHECK_SPAN(member.text, "\"q\\\\\"");
	CHECK(!sc_json_walk_next(&walk, &key, &member));
	CHECK(!sc_json_walk_next(&walk, &key, &member));
	CHECK(sc_json_get(&value, "a", &member));
	CHECK_SPAN(member.text, "-2.5e3");
	CHECK(sc_json_get(&value, "b\"", &member));
	CHECK(!sc_json_get(&value, "c", &member));
	CHECK(!sc_json_get(&member, "c", &member));
	CHECK_OK(sc_json_scan(SC_SPAN("[ ]"), &value, &err), &err);
	sc_json_walk_init(&walk, &value);
	CHECK(!sc_json_walk_next(&walk, &key, &member));
	CHECK_OK(sc_json_scan(SC_SPAN("[1,[2],\"3\"]"), &value, &err), &err);
	sc_json_walk_init(&walk, &value);
	for (int i = 0; i < 3; i++)
		CHECK(sc_json_walk_next(&walk, NULL, &member));
	CHECK_SPAN(member.text, "\"3\"");
	CHECK(!sc_json_walk_next(&walk, NULL, &member));
}

TEST(escapes)
{
	struct sc_bytes out;
	const char *raw = "\"a\\\"\\\\\\/"
			  "\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\xc3\xa9\\u0000z\"";

	sc_bytes_init(&out, 100);
	CHECK_INT(sc_json_unescape(sc_span_str(raw), &out), 0);
	CHECK_INT(out.len, 23);
	CHECK(memcmp(out.data, "a\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9\0z",
		     23) == 0);
	CHECK(sc_json_key_is(sc_span(raw + 1, strlen(raw) - 2), sc_span(out.data, out.len)));
	CHECK(!sc_json_key_is(sc_span(raw + 1, strlen(raw) - 2), sc_span(out.data, out.len - 1)));
	CHECK(sc_json_key_is(SC_SPAN("pr\\u0069ce"), SC_SPAN("price")));
	CHECK(!sc_json_key_is(SC_SPAN("pr\\u0069ce"), SC_SPAN("pri")));
	CHECK(sc_json_key_is(SC_SPAN(""), SC_SPAN("")));
	out.max = out.len = out.cap;
	CHECK_INT(sc_json_unescape(SC_SPAN("\"x\""), &out), SC_E_NOMEM);
	CHECK(out.full);
	sc_bytes_clear(&out);
	CHECK_INT(sc_json_put_string(SC_SPAN("\"\\/\b\f\n\r\t\x01\x1f\x7f\xc3\xa9\xe2\x80\xa8"),
				     &out),
		  0);
	CHECK_SPAN(sc_span(out.data, out.len),
		   "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xc3\xa9\xe2\x80\xa8\"");
	sc_bytes_done(&out);
}

static bool as_i64(const char *text, int64_t *ret_value)
{
	struct sc_json value;

	return sc_json_scan(sc_span_str(text), &value, NULL) == 0 && sc_json_i64(&value, ret_value);
}

static bool as_u64(const char *text, uint64_t *ret_value)
{
	struct sc_json value;

	return sc_json_scan(sc_span_str(text), &value, NULL) == 0 && sc_json_u64(&value, ret_value);
}

TEST(integers_are_exact)
{
	int64_t i;
	uint64_t u;

	CHECK(as_i64("9223372036854775807", &i) && i == INT64_MAX);
	CHECK(as_i64("-9223372036854775808", &i) && i == INT64_MIN);
	CHECK(as_i64("9007199254740993", &i) && i == 9007199254740993);
	CHECK(as_i64("-0", &i) && i == 0);
	CHECK(!as_i64("9223372036854775808", &i));
	CHECK(!as_i64("-9223372036854775809", &i));
	CHECK(!as_i64("1.0", &i));
	CHECK(!as_i64("\"1\"", &i));
	CHECK(as_u64("18446744073709551615", &u) && u == UINT64_MAX);
	CHECK(as_u64("-0", &u) && u == 0);
	CHECK(!as_u64("18446744073709551616", &u));
	CHECK(!as_u64("-1", &u));
	CHECK(!as_u64("99999999999999999999999", &u));
}

static void put_line(const char *text, const char *want)
{
	struct sc_bytes out;
	struct sc_json value;
	struct sc_err err = { 0 };

	sc_bytes_init(&out, 1000);
	CHECK_OK(sc_json_scan(sc_span_str(text), &value, &err), &err);
	CHECK_INT(sc_json_put_line(&value, &out), 0);
	CHECK_SPAN(sc_span(out.data, out.len), want);
	CHECK_INT(sc_json_put_line(&value, &out), 0);
	CHECK_INT(out.len, 2 * strlen(want));
	sc_bytes_done(&out);
}

TEST(newlines_go_and_other_white_space_stays)
{
	put_line("{ \"a\" :\t1 }", "{ \"a\" :\t1 }");
	put_line("{\n  \"a\": 1,\r\n\t\"b\" : [ 2 ] \n}\n", "{\"a\": 1,\"b\" : [ 2 ]}");
	put_line("[\"a\\n b\\\\\",\n\"\\\" , \" ]", "[\"a\\n b\\\\\",\"\\\" , \" ]");
}

TEST(utf8)
{
	CHECK(sc_utf8_valid(SC_SPAN("")));
	CHECK(sc_utf8_valid(SC_SPAN("abcdefgh\xc3\xa9"
				    "abcdefghijklmnop\xf4\x8f\xbf\xbf")));
	CHECK(!sc_utf8_valid(SC_SPAN("abcdefghijklmnop\xf5\x80\x80\x80")));
	CHECK(!sc_utf8_valid(SC_SPAN("\xe2\x82")));
	CHECK(!sc_utf8_valid(SC_SPAN("a\xc3")));
	CHECK(sc_utf8_valid(sc_span("a\0b", 3)));
	CHECK_SPAN(sc_json_trim(SC_SPAN(" \t\r\n a b \n")), "a b");
	CHECK_INT(sc_json_trim(SC_SPAN(" \n")).len, 0);
}

/* All that can be asked of it; nothing of what is answered is looked at. */
static void ask(const struct sc_json *value, struct sc_bytes *out, int depth)
{
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	uint64_t u64;
	int64_t i64;
	size_t count = 0;

	sc_bytes_clear(out);
	sc_json_unescape(value->text, out);
	sc_json_key_is(value->text, SC_SPAN("ab"));
	sc_json_u64(value, &u64);
	sc_json_i64(value, &i64);
	sc_json_put_line(value, out);
	sc_json_get(value, "ab", &member);
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, &key, &member)) {
		CHECK(++count <= value->text.len);
		CHECK(key.len <= value->text.len && member.text.len <= value->text.len);
		sc_json_unescape(key, out);
		sc_json_key_is(key, SC_SPAN("ab"));
		if (depth < 4)
			ask(&member, out, depth + 1);
	}
}

/* Rows of a file that somebody made up are walked without being scanned: any answer will do, as
 * long as there is one. */
TEST(walks_of_what_was_never_scanned_stay_inside)
{
	static const char alphabet[] = "{}[]\"\"\"\\\\,:uud8c019abe-. \n\x01\xff";
	static const enum sc_json_kind kinds[] = { SC_JSON_OBJECT, SC_JSON_ARRAY, SC_JSON_STRING,
						   SC_JSON_INTEGER, SC_JSON_NUMBER };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			   0),
	     *end = pages + page;
	uint64_t seed = 1;
	struct sc_bytes out;

	CHECK(pages != MAP_FAILED);
	CHECK(mprotect(end, page, PROT_NONE) == 0);
	sc_bytes_init(&out, 1 << 16);
	for (int round = 0; round < 400000; round++) {
		size_t len = 1 + (size_t)round % 14;

		for (size_t i = 1; i <= len; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			end[-(ptrdiff_t)i] = alphabet[(seed >> 33) % (sizeof(alphabet) - 1)];
		}
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
			struct sc_json value = { kinds[k], sc_span(end - len, len), true };

			ask(&value, &out, 0);
		}
	}
	sc_bytes_done(&out);
	munmap(pages, 2 * page);
}
