/* tests/fuzz/packed.c: any bytes are safe for the msgpack scanner; what it takes is written again as
 * it came, in the other order and back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "msg/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Read again, it is the same message. */
static void through(const struct sc_msg *msg, enum sc_msg_order order)
{
	struct sc_msg_reading r;
	struct sc_bytes out;

	sc_bytes_init(&out, SIZE_MAX / 2);
	if (sc_msg_write(&out, msg, order) < 0)
		abort();
	must(out.len == sc_msg_size(msg));
	must(sc_msg_read(sc_span(out.data, out.len), &r) == SC_MSG_OK && r.order == order);
	must(r.msg.uid.len == msg->uid.len && !memcmp(r.msg.uid.data, msg->uid.data, msg->uid.len));
	must(r.msg.channel.len == msg->channel.len && r.msg.subject.len == msg->subject.len);
	must((r.msg.reference.data != NULL) == (msg->reference.data != NULL) &&
	     r.msg.reference.len == msg->reference.len);
	must(r.msg.data.len == msg->data.len &&
	     !memcmp(r.msg.data.data, msg->data.data, msg->data.len));
	sc_bytes_done(&out);
}

/* Every item of a value that was taken can be walked. */
static void walk(struct sc_span data)
{
	struct sc_packed item;
	size_t len;

	if (sc_packed_value(data, &len) != SC_PACKED_OK)
		return;
	must(len > 0 && len <= data.len);
	for (data.len = len; data.len > 0;)
		must(sc_packed_next(&data, &item));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span bytes = sc_span((const char *)data, size);
	struct sc_msg_reading r;
	enum sc_msg_fault fault = sc_msg_read(bytes, &r);

	walk(bytes);
	if (fault == SC_MSG_OK) {
		through(&r.msg, SC_MSG_DOCUMENT);
		through(&r.msg, SC_MSG_REFERENCE);
	} else {
		must(r.reason[0] != '\0' && strlen(r.reason) <= 123);
	}
	return 0;
}
