/*
 * Goal: any msgpack value prints as JSON that packs to the same value, and any JSON that packs
 * prints as such. Method: the input is read as msgpack, then as JSON; each way is gone there, back
 * and there again, which must be the same.
 */
#include <stdlib.h>
#include <string.h>

#include "msg/json.h"
#include "msg/line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sc_span span_of(const struct sc_bytes *b)
{
	return sc_span(b->len ? b->data : "", b->len);
}

static void pack(struct sc_span text, struct sc_bytes *out)
{
	struct sc_json value;
	struct sc_err err;

	sc_bytes_clear(out);
	if (sc_json_scan(text, &value, &err) < 0 || memchr(text.data, '\n', text.len) ||
	    sc_msg_json_pack(&value, out, &err) < 0)
		abort();
}

static void same(const struct sc_bytes *a, const struct sc_bytes *b)
{
	if (a->len != b->len || (a->len && memcmp(a->data, b->data, a->len)))
		abort();
}

/* BYTES, one packed value: printed, packed, printed. */
static void round_trip(struct sc_span bytes, struct sc_bytes *text, struct sc_bytes *packed,
		       struct sc_bytes *again)
{
	struct sc_err err;

	if (sc_msg_json_print(bytes, text, &err) < 0)
		return;
	pack(span_of(text), packed);
	if (sc_msg_json_print(span_of(packed), again, &err) < 0)
		abort();
	same(text, again);
	/* shortest forms stay as they are */
	sc_bytes_clear(again);
	pack(span_of(text), again);
	same(packed, again);
}

static void as_line(struct sc_span bytes, struct sc_bytes *store, struct sc_bytes *text)
{
	struct sc_msg msg;
	struct sc_err err;
	bool ack;

	sc_bytes_clear(store);
	sc_bytes_clear(text);
	if (sc_msg_line_parse(bytes, store, &msg, &ack, &err) < 0 || ack)
		return;
	if (!msg.uid.len)
		msg.uid = SC_SPAN("0123456789abcdef");
	if (sc_msg_line_print(&msg, SC_MSG_OBJECT, text, &err) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span bytes = sc_span((const char *)data, size);
	struct sc_bytes text, packed, again;
	struct sc_json value;
	struct sc_err err;

	sc_bytes_init(&text, SIZE_MAX / 2);
	sc_bytes_init(&packed, SIZE_MAX / 2);
	sc_bytes_init(&again, SIZE_MAX / 2);
	round_trip(bytes, &text, &packed, &again);
	sc_bytes_clear(&packed);
	if (sc_json_scan(bytes, &value, &err) == 0 &&
	    sc_msg_json_pack(&value, &packed, &err) == 0) {
		struct sc_bytes first = packed;

		sc_bytes_init(&packed, SIZE_MAX / 2);
		sc_bytes_clear(&text);
		sc_bytes_clear(&again);
		round_trip(span_of(&first), &text, &packed, &again);
		same(&first, &packed);
		sc_bytes_done(&first);
	}
	as_line(bytes, &packed, &text);
	sc_bytes_done(&text);
	sc_bytes_done(&packed);
	sc_bytes_done(&again);
	return 0;
}
