/* tests/bench/msgbench/wire_wsmsg.c: wsmsg, in both orders of its elements. */
#include "../bench.h"
#include "msg/message.h"
#include "msg/pack.h"
#include "wire.h"

static enum sc_msg_order order_of(const struct peer *p)
{
	return p->wire == &wire_reference ? SC_MSG_REFERENCE : SC_MSG_DOCUMENT;
}

/* 16 bytes, another each time; that of a message has its number in it. */
static void make_uid(const struct peer *p, char kind, uint64_t number, char ret_uid[ID_MAX])
{
	memset(ret_uid, 0, ID_MAX);
	memcpy(ret_uid, p->name, strnlen(p->name, 7));
	ret_uid[7] = kind;
	for (int i = 0; i < 8; i++)
		ret_uid[8 + i] = (char)(number >> 8 * (7 - i));
}

static void put_frame(struct peer *p, const struct sc_msg *msg)
{
	unsigned char head[16];

	peer_put(&p->out, head, ws_header(head, 2, sc_msg_size(msg), true));
	if (sc_msg_write(&p->out, msg, order_of(p)) < 0)
		die("out of memory");
}

/* On the channel system, with what is in p->data. */
static void put_system(struct peer *p, const char *subject, struct sc_span reference)
{
	struct sc_msg msg = { .channel = SC_SPAN("system"),
			      .subject = sc_span_str(subject),
			      .reference = reference,
			      .data = sc_span(p->data.data, p->data.len) };
	char uid[ID_MAX];

	make_uid(p, 's', p->uids++, uid);
	msg.uid = sc_span(uid, ID_MAX);
	put_frame(p, &msg);
}

static void put_command(struct peer *p, const char *subject)
{
	put_system(p, subject, (struct sc_span){ NULL, 0 });
}

static void hello(struct peer *p, int port)
{
	char request[512], path[40];
	const char *end;

	snprintf(path, sizeof(path), "/%s", p->name);
	peer_put(&p->out, request, ws_request(request, sizeof(request), path, port));
	peer_send(p);
	do
		(void)peer_read(p, true);
	while (!(end = memmem(p->in.data, p->in.len, "\r\n\r\n", 4)));
	if (memcmp(p->in.data, "HTTP/1.1 101", 12) != 0)
		die("no WebSocket at /%s: %.40s", p->name, p->in.data);
	p->at = (size_t)(end + 4 - p->in.data);
}

static void subscribe(struct peer *p, const char *channel, const char *subject)
{
	sc_bytes_clear(&p->data);
	(void)sc_pack_array(&p->data, 3);
	(void)sc_pack_str(&p->data, sc_span_str(p->name));
	(void)sc_pack_str(&p->data, sc_span_str(channel));
	(void)sc_pack_str(&p->data, sc_span_str(subject));
	put_command(p, "subscribe.channel");
}

/* For one answer. */
static void await(struct peer *p, uint64_t number)
{
	char uid[ID_MAX];

	make_uid(p, 'm', number, uid);
	sc_bytes_clear(&p->data);
	(void)sc_pack_array(&p->data, 2);
	(void)sc_pack_str(&p->data, sc_span_str(p->name));
	(void)sc_pack_bin(&p->data, sc_span(uid, ID_MAX));
	put_command(p, "subscribe.message");
}

static void publish(struct peer *p, const char *channel, const char *subject, uint64_t number,
		    const struct heard *re)
{
	struct sc_msg msg = { .channel = sc_span_str(channel), .subject = sc_span_str(subject) };
	char uid[ID_MAX];

	make_uid(p, 'm', number, uid);
	msg.uid = sc_span(uid, ID_MAX);
	if (re)
		msg.reference = sc_span((const char *)re->id, re->id_len);
	sc_bytes_clear(&p->data);
	if (sc_pack_str(&p->data, peer_text(p, number)) < 0)
		die("out of memory");
	msg.data = sc_span(p->data.data, p->data.len);
	put_frame(p, &msg);
}

static void ack(struct peer *p, const struct heard *message)
{
	sc_bytes_clear(&p->data);
	(void)sc_pack_nil(&p->data);
	put_system(p, "ack", sc_span((const char *)message->id, message->id_len));
}

static void read_message(const struct peer *p, struct sc_span bytes, struct heard *ret_heard)
{
	struct sc_msg_reading r;
	struct sc_packed text;

	if (sc_msg_read(bytes, &r) != SC_MSG_OK || r.order != order_of(p))
		die("%s: this is no message: %s", p->name, r.reason);
	if (sc_msg_is_ack(&r.msg)) {
		ret_heard->kind = HEARD_ACK;
		return;
	}
	if (sc_span_is(r.msg.channel, "system"))
		die("%s: the server sent '%.*s'", p->name, (int)r.msg.subject.len,
		    r.msg.subject.data);
	if (!sc_packed_next(&r.msg.data, &text) || text.kind != SC_PACKED_STR ||
	    r.msg.uid.len != ID_MAX)
		die("%s: a message came that nobody sent", p->name);
	ret_heard->kind = HEARD_MESSAGE;
	ret_heard->number = peer_number(text.bytes);
	ret_heard->id_len = r.msg.uid.len;
	memcpy(ret_heard->id, r.msg.uid.data, r.msg.uid.len);
}

static size_t hear(const struct peer *p, struct sc_span data, struct heard *ret_heard)
{
	const unsigned char *at = (const unsigned char *)data.data;
	uint64_t len = data.len >= 2 ? at[1] & 127 : 0;
	size_t head = len == 126 ? 4 : len == 127 ? 10 : 2;

	if (data.len < head)
		return 0;
	for (size_t i = 2, n = 0; i < head; i++)
		len = n = n << 8 | at[i];
	if (data.len - head < len)
		return 0;
	ret_heard->kind = HEARD_OTHER;
	if ((at[0] & 15) == 8)
		die("%s: the server closed with %d", p->name,
		    len >= 2 ? at[head] << 8 | at[head + 1] : 1005);
	if (at[0] == 0x82)
		read_message(p, sc_span(data.data + head, len), ret_heard);
	return head + len;
}

const struct wire wire_wsmsg = { "wsmsg", hello, subscribe, publish, await, ack, hear };
const struct wire wire_reference = {
	"wsmsg-reference", hello, subscribe, publish, await, ack, hear
};
