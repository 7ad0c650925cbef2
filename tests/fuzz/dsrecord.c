/* tests/fuzz/dsrecord.c: any bytes as a record of a stream, of a producer, as a run of messages:
 * what is taken is written the same way ever after, and has no place outside the bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "durable/messages.h"
#include "durable/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(struct sc_span part, struct sc_span whole)
{
	if (part.data && (part.data < whole.data || part.len > whole.len ||
			  part.data + part.len > whole.data + whole.len))
		abort();
}

static void stream(struct sc_span record)
{
	struct sc_ds_stream s, again;
	struct sc_bytes out, same;

	if (sc_ds_stream_decode(record, &s, NULL) < 0)
		return;
	within(s.path, record);
	within(s.type, record);
	within(s.closer, record);
	within(s.seq, record);
	within(s.asked.type, record);
	within(s.asked.forked_from, record);
	if (s.first > s.tail || s.fork_at > s.tail || !s.sid)
		abort();
	(void)sc_ds_stream_deadline(&s);
	sc_bytes_init(&out, 1 << 20);
	sc_bytes_init(&same, 1 << 20);
	if (sc_ds_stream_encode(&s, &out) < 0 ||
	    sc_ds_stream_decode(sc_span(out.data, out.len), &again, NULL) < 0 ||
	    sc_ds_stream_encode(&again, &same) < 0)
		abort();
	if (out.len != same.len || memcmp(out.data, same.data, out.len) || out.len > record.len ||
	    sc_ds_stream_deadline(&again) != sc_ds_stream_deadline(&s))
		abort();
	sc_bytes_done(&out);
	sc_bytes_done(&same);
}

static void producer(struct sc_span record)
{
	char again[SC_DS_PRODUCER_RECORD];
	struct sc_ds_producer p;

	if (!sc_ds_producer_decode(record, &p))
		return;
	sc_ds_producer_encode(&p, again);
	if (memcmp(again, record.data, sizeof(again)))
		abort();
}

static void run(struct sc_span whole)
{
	struct sc_span rest = whole, message;

	while (sc_ds_frame_first(rest, &message)) {
		size_t len = SC_DS_FRAME_HEAD + message.len;

		within(message, rest);
		if (!sc_ds_frame_boundary(whole, (uint64_t)(rest.data - whole.data)))
			abort();
		rest = sc_span(rest.data + len, rest.len - len);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span bytes = sc_span((const char *)data, size);

	if (!size)
		return 0;
	stream(bytes);
	producer(bytes);
	run(bytes);
	return 0;
}
