/*
 * tests/fuzz/line.c: any bytes as a line, and as a message that is wrapped and must come back.
 */
#include <stdlib.h>

#include "base/base64.h"
#include "json/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

static bool same(const struct sc_bytes *a, struct sc_span b)
{
	return a->len == b.len && (!b.len || memcmp(a->data, b.data, b.len) == 0);
}

static void check_line(struct sc_span text)
{
	struct sc_line line, trusted;
	struct sc_json value;

	if (!sc_line_parse(text, false, &line))
		return;
	must(sc_json_scan(text, &value, NULL) == 0 && value.kind == SC_JSON_ARRAY);
	must(sc_line_parse(text, true, &trusted));
	must(trusted.offset == line.offset && trusted.null_offset == line.null_offset);
	must(trusted.msg.data == line.msg.data && trusted.msg.len == line.msg.len);
	must(sc_json_scan(line.msg, &value, NULL) == 0);
}

static void check_message(struct sc_span message, bool binary)
{
	struct sc_bytes line, back;
	struct sc_json value;
	int rc;

	sc_bytes_init(&line, 8 * message.len + 64);
	sc_bytes_init(&back, message.len + 64);
	must(sc_wrap_message(message, binary, &line) == 0);
	must(!memchr(line.data, '\n', line.len) &&
	     sc_json_scan(sc_span(line.data, line.len), &value, NULL) == 0);
	rc = sc_unwrap_message(sc_span(line.data, line.len), &back);
	must(rc == 0 || rc == 1);
	if (rc == 1) {
		must(same(&back, message));
	} else {
		must(!binary && sc_json_scan(message, &value, NULL) == 0);
		must(sc_json_put_line(&value, &back) == 0 &&
		     same(&back, sc_span(line.data, line.len)));
	}
	sc_bytes_done(&line);
	sc_bytes_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span text = sc_span((const char *)data, size);
	struct sc_bytes out, again;

	check_line(text);
	check_message(text, false);
	check_message(text, true);
	sc_bytes_init(&out, size + 64);
	sc_bytes_init(&again, 2 * size + 64);
	sc_unwrap_message(text, &out);
	sc_bytes_clear(&out);
	if (sc_base64_get(&out, text) == 0)
		must(sc_base64_put(&again, sc_span(out.data, out.len)) == 0 && same(&again, text));
	sc_bytes_done(&out);
	sc_bytes_done(&again);
	return 0;
}
