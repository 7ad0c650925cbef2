/*
 * Goal: a msgpack value printed as JSON loses nothing, and what JSON says is packed exactly or
 * refused with words. Method: vectors made by another implementation (tests/data/msgpack-json.tsv)
 * both ways; the limits by hand.
 */
#include "msg/json.h"

#include "../check.h"
#include "msg/pack.h"
#include "msg/scan.h"

static struct sc_bytes out, back;

static void start(void)
{
	sc_bytes_done(&out);
	sc_bytes_done(&back);
	sc_bytes_init(&out, 1 << 24);
	sc_bytes_init(&back, 1 << 24);
}

static struct sc_span print(const void *packed, size_t len)
{
	struct sc_err err;

	sc_bytes_clear(&out);
	CHECK_OK(sc_msg_json_print(sc_span(packed, len), &out, &err), &err);
	return sc_span(out.data, out.len);
}

/* The packed bytes of JSON text. */
static struct sc_span pack(struct sc_span text)
{
	struct sc_json value;
	struct sc_err err;

	CHECK_OK(sc_json_scan(text, &value, &err), &err);
	sc_bytes_clear(&back);
	CHECK_OK(sc_msg_json_pack(&value, &back, &err), &err);
	return sc_span(back.data, back.len);
}

static void refused(const char *text, const char *words)
{
	struct sc_json value;
	struct sc_err err;
	char line[1200];

	start();
	CHECK_OK(sc_json_scan(sc_span_str(text), &value, &err), &err);
	CHECK_OK(sc_bytes_puts(&back, "before"), &err);
	CHECK_INT(sc_msg_json_pack(&value, &back, &err), SC_E_DATA);
	CHECK_MEM(back.data, back.len, "before");
	sc_err_line(&err, line, sizeof(line));
	CHECK_STR(line, words);
}

static size_t unhex(const char *hex, size_t len, unsigned char *ret_bytes)
{
	for (size_t i = 0; i < len / 2; i++) {
		unsigned value;

		CHECK(sscanf(hex + 2 * i, "%2x", &value) == 1);
		ret_bytes[i] = (unsigned char)value;
	}
	return len / 2;
}

static void check_vector(char *line, size_t len)
{
	static unsigned char packed[1 << 16];
	char *tab = memchr(line, '\t', len), *end = line + len;
	char *last = memrchr(line, '\t', len);
	struct sc_span text, again;
	size_t n;

	CHECK(tab && last > tab && (size_t)(tab - line) / 2 <= sizeof(packed));
	n = unhex(line, (size_t)(tab - line), packed);
	text = print(packed, n);
	if (text.len != (size_t)(last - tab - 1) || memcmp(text.data, tab + 1, text.len) != 0)
		FAIL("%.*s prints as %.*s", (int)(end - line), line, (int)text.len, text.data);
	again = pack(text);
	if (strncmp(last + 1, "same", (size_t)(end - last - 1)) == 0) {
		if (again.len != n || memcmp(again.data, packed, n) != 0)
			FAIL("%.*s is packed otherwise", (int)text.len, text.data);
	} else {
		text = print(again.data, again.len);
		CHECK(text.len == (size_t)(last - tab - 1) &&
		      memcmp(text.data, tab + 1, text.len) == 0);
	}
}

TEST(vectors_of_another_implementation)
{
	FILE *f = fopen("tests/data/msgpack-json.tsv", "r");
	char *line = NULL;
	size_t size = 0, count = 0;
	ssize_t len;

	start();
	CHECK(f != NULL);
	while ((len = getline(&line, &size, f)) > 0) {
		CHECK(line[len - 1] == '\n');
		check_vector(line, (size_t)len - 1);
		count++;
	}
	free(line);
	fclose(f);
	CHECK(count > 140);
}

TEST(what_json_cannot_say_is_refused)
{
	refused("18446744073709551616",
		"cannot send data: the integer 18446744073709551616 is not in -2^63 to 2^64-1; "
		"send it as a string, or with a fraction as a float");
	refused("[-9223372036854775809]",
		"cannot send data: the integer -9223372036854775809 is not in -2^63 to 2^64-1; "
		"send it as a string, or with a fraction as a float");
	refused("1e999",
		"cannot send data: the number 1e999 is beyond a double; send it as a string");
	refused("{\"$bin\":5}",
		"cannot send data: {\"$bin\":..} takes base64 in a string; an object that only "
		"looks like it is written {\"$map\":[[\"$bin\",..]]}");
	refused("{\"$str\":\"a\"}",
		"cannot send data: {\"$str\":..} takes base64 in a string; an object that only "
		"looks like it is written {\"$map\":[[\"$str\",..]]}");
	refused("{\"$ext\":[128,\"\"]}",
		"cannot send data: {\"$ext\":..} takes [TYPE,BASE64] with a type from -128 to "
		"127; an object that only looks like it is written {\"$map\":[[\"$ext\",..]]}");
	refused("{\"$ext\":[1,\"\",2]}",
		"cannot send data: {\"$ext\":..} takes [TYPE,BASE64] with a type from -128 to "
		"127; an object that only looks like it is written {\"$map\":[[\"$ext\",..]]}");
	refused("{\"$float\":\"NaN\"}",
		"cannot send data: {\"$float\":..} takes \"nan\", \"inf\" or \"-inf\"; an object "
		"that only looks like it is written {\"$map\":[[\"$float\",..]]}");
	refused("{\"$map\":[[1]]}",
		"cannot send data: {\"$map\":..} takes an array of [KEY,VALUE]; an object that "
		"only looks like it is written {\"$map\":[[\"$map\",..]]}");
	refused("{\"$map\":{}}",
		"cannot send data: {\"$map\":..} takes an array of [KEY,VALUE]; an object that "
		"only looks like it is written {\"$map\":[[\"$map\",..]]}");
}

TEST(numbers_keep_their_kind)
{
	static const struct {
		const char *text, *packed;
	} cases[] = {
		{ "-0", "0" },
		{ "-0.0", "-0.0" },
		{ "1e2", "100.0" },
		{ "1.50", "1.5" },
		{ "1e-999", "0.0" },
		{ "0.1", "0.1" },
		{ "2.0", "2.0" },
		{ "9007199254740993", "9007199254740993" },
		{ "1e22", "1e+22" },
		{ "123456789012345680.0", "1.2345678901234568e+17" },
		{ "{\"\\u0024bin\":\"\"}", "{\"$bin\":\"\"}" },
		{ "{\"a\":1,\"a\":2}", "{\"$map\":[[\"a\",1],[\"a\",2]]}" },
		{ "{\"$bin\":\"\",\"b\":1}", "{\"$bin\":\"\",\"b\":1}" },
		{ " [ 1 , { } ] ", "[1,{}]" },
		{ "{\"$map\":[]}", "{}" },
		{ "{\"$str\":\"YQ==\"}", "\"a\"" },
	};

	start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_span packed = pack(sc_span_str(cases[i].text));

		CHECK_SPAN(print(packed.data, packed.len), cases[i].packed);
	}
}

TEST(every_double_comes_back)
{
	uint64_t bits = 0x123456789abcdefull;
	struct sc_bytes packed;

	start();
	sc_bytes_init(&packed, 64);
	for (int i = 0; i < 100000; i++) {
		double value;
		struct sc_span again;

		bits = bits * 6364136223846793005ull + 1442695040888963407ull;
		memcpy(&value, &bits, sizeof(value));
		if (value != value)
			continue;
		sc_bytes_clear(&packed);
		CHECK(sc_pack_f64(&packed, value) == 0);
		again = pack(print(packed.data, packed.len));
		CHECK(again.len == packed.len && memcmp(again.data, packed.data, again.len) == 0);
	}
	sc_bytes_done(&packed);
}

/* DEPTH maps, each the value (or the key) of the one around it. */
static void nested(struct sc_bytes *packed, int depth, bool in_key)
{
	sc_bytes_clear(packed);
	for (int i = 0; i < depth; i++) {
		CHECK(sc_pack_map(packed, 1) == 0);
		if (!in_key)
			CHECK(sc_pack_u64(packed, 7) == 0);
	}
	CHECK(sc_pack_nil(packed) == 0);
	for (int i = 0; in_key && i < depth; i++)
		CHECK(sc_pack_nil(packed) == 0);
}

TEST(the_deepest_value_comes_back_and_a_deeper_one_is_refused)
{
	struct sc_bytes packed, text;
	struct sc_err err;

	start();
	sc_bytes_init(&packed, 1 << 16);
	sc_bytes_init(&text, 1 << 16);
	for (int in_key = 0; in_key < 2; in_key++) {
		struct sc_span again;

		nested(&packed, SC_PACKED_DEPTH_MAX, in_key);
		again = pack(print(packed.data, packed.len));
		CHECK(again.len == packed.len && memcmp(again.data, packed.data, again.len) == 0);
		nested(&packed, SC_PACKED_DEPTH_MAX + 1, in_key);
		CHECK_INT(sc_msg_json_print(sc_span(packed.data, packed.len), &out, &err),
			  SC_E_DATA);
	}
	for (int i = 0; i <= SC_PACKED_DEPTH_MAX; i++)
		CHECK(sc_bytes_putc(&text, '[') == 0);
	for (int i = 0; i <= SC_PACKED_DEPTH_MAX; i++)
		CHECK(sc_bytes_putc(&text, ']') == 0);
	refused(sc_bytes_str(&text), "cannot send data: arrays and objects are nested too deeply; "
				     "the limit is 128 levels");
	pack(sc_span(text.data + 1, text.len - 2));
	sc_bytes_done(&packed);
	sc_bytes_done(&text);
}

TEST(what_is_no_value_is_refused_and_leaves_the_buffer)
{
	static const char *const bad[] = { "",
					   "\xc1",
					   "\xa2"
					   "a",
					   "\x92\x01",
					   "\x01\x02",
					   "\x81\xa1"
					   "k" };
	struct sc_err err;

	start();
	CHECK_OK(sc_bytes_puts(&out, "before"), &err);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_INT(sc_msg_json_print(sc_span_str(bad[i]), &out, &err), SC_E_DATA);
	CHECK_MEM(out.data, out.len, "before");
}

TEST(a_full_buffer_is_told_and_left_as_it_was)
{
	struct sc_json value;
	struct sc_bytes little;
	struct sc_err err;
	struct sc_span packed;

	start();
	packed = pack(SC_SPAN("{\"a\":[1,2,{\"$bin\":\"AAAA\"}],\"$map\":{\"b\":1.5}}"));
	for (size_t max = 0; max < 44; max++) {
		sc_bytes_init(&little, max);
		CHECK_INT(sc_msg_json_print(packed, &little, &err), SC_E_NOMEM);
		CHECK_INT(little.len, 0);
		sc_bytes_done(&little);
	}
	CHECK_OK(sc_json_scan(SC_SPAN("{\"a\":[1,2,{\"$bin\":\"AAAA\"}]}"), &value, &err), &err);
	for (size_t max = 0; max < 10; max++) {
		sc_bytes_init(&little, max);
		CHECK_INT(sc_msg_json_pack(&value, &little, &err), SC_E_NOMEM);
		CHECK_INT(little.len, 0);
		sc_bytes_done(&little);
	}
}
