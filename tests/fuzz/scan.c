/*
 * tests/fuzz/scan.c: any bytes through the scanner; what it accepts must walk, unescape and print
 * to the same value.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "json/scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

/* A string and its unescaped form are the same characters. */
static void check_string(struct sc_span raw)
{
	struct sc_bytes plain, again;
	struct sc_json value;

	sc_bytes_init(&plain, raw.len + 1);
	sc_bytes_init(&again, 8 * raw.len + 16);
	must(sc_json_unescape(raw, &plain) == 0);
	must(sc_utf8_valid(sc_span(plain.data, plain.len)));
	must(sc_json_key_is(raw, sc_span(plain.data, plain.len)));
	must(sc_json_put_string(sc_span(plain.data, plain.len), &again) == 0);
	must(sc_json_scan(sc_span(again.data, again.len), &value, NULL) == 0);
	must(value.kind == SC_JSON_STRING &&
	     sc_json_key_is(value.text, sc_span(plain.data, plain.len)));
	sc_bytes_done(&plain);
	sc_bytes_done(&again);
}

static void check_value(const struct sc_json *value, int depth)
{
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	int64_t integer;

	must(depth <= SC_JSON_DEPTH_MAX);
	if (value->kind == SC_JSON_STRING)
		check_string(value->text);
	if (sc_json_i64(value, &integer))
		must(value->kind == SC_JSON_INTEGER);
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, &key, &member)) {
		must(member.text.data >= value->text.data &&
		     member.text.data + member.text.len < value->text.data + value->text.len);
		if (value->kind == SC_JSON_OBJECT)
			check_string(key);
		check_value(&member, depth + 1);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span text = sc_span((const char *)data, size);
	struct sc_json value, again, member;
	struct sc_err err = { 0 };
	struct sc_bytes line;

	if (sc_json_scan(text, &value, &err) < 0) {
		must(err.code == SC_E_DATA && err.reason[0]);
		return 0;
	}
	must(sc_utf8_valid(text));
	check_value(&value, 0);
	sc_json_get(&value, "a", &member);
	sc_bytes_init(&line, size);
	must(sc_json_put_line(&value, &line) == 0);
	must(!memchr(line.data, '\n', line.len) && !memchr(line.data, '\r', line.len));
	must(sc_json_scan(sc_span(line.data, line.len), &again, NULL) == 0);
	must(again.kind == value.kind && !again.newlines);
	must(value.newlines || (again.text.len == value.text.len &&
				memcmp(again.text.data, value.text.data, value.text.len) == 0));
	sc_bytes_done(&line);
	return 0;
}
