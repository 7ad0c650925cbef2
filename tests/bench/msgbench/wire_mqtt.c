/* tests/bench/msgbench/wire_mqtt.c: MQTT 3.1.1, publishing with QoS 1. */
#include "../bench.h"
#include "wire.h"

/* The head of a packet of LEN bytes behind it. */
static void put_head(struct peer *p, unsigned char first, size_t len)
{
	unsigned char head[5] = { first };
	size_t n = 1;

	do {
		head[n] = len & 127;
		len >>= 7;
		if (len)
			head[n] |= 128;
		n++;
	} while (len);
	peer_put(&p->out, head, n);
}

static void put_u16(struct peer *p, unsigned value)
{
	unsigned char bytes[2] = { (unsigned char)(value >> 8), (unsigned char)value };

	peer_put(&p->out, bytes, 2);
}

static void put_text(struct peer *p, const char *text)
{
	put_u16(p, (unsigned)strlen(text));
	peer_put(&p->out, text, strlen(text));
}

/* 1 to 65535, and again */
static void put_number(struct peer *p)
{
	put_u16(p, p->packets++ % 65535 + 1);
}

static void hello(struct peer *p, int port)
{
	struct heard h;

	(void)port;
	put_head(p, 0x10, 12 + strlen(p->name));
	peer_put(&p->out, "\0\4MQTT\4\2\0\0", 10);
	put_text(p, p->name);
	peer_send(p);
	do
		(void)peer_read(p, true);
	while (!peer_hear(p, &h));
}

static void subscribe(struct peer *p, const char *channel, const char *subject)
{
	char topic[80];

	snprintf(topic, sizeof(topic), "%s/%s", channel, subject);
	put_head(p, 0x82, 5 + strlen(topic));
	put_number(p);
	put_text(p, topic);
	peer_put(&p->out, p->wire == &wire_mqtt ? "\1" : "\0", 1);
}

static void publish(struct peer *p, const char *channel, const char *subject, uint64_t number,
		    const struct heard *re)
{
	struct sc_span text = peer_text(p, number);
	char topic[80];

	(void)re; /* the topic tells who asked */
	snprintf(topic, sizeof(topic), "%s/%s", channel, subject);
	put_head(p, 0x32, 4 + strlen(topic) + text.len);
	put_text(p, topic);
	put_number(p);
	peer_put(&p->out, text.data, text.len);
}

static void ack(struct peer *p, const struct heard *message)
{
	if (message->id_len == 0)
		return;
	put_head(p, 0x40, 2);
	peer_put(&p->out, message->id, message->id_len);
}

static void read_publish(const struct peer *p, unsigned flags, struct sc_span body,
			 struct heard *ret_heard)
{
	const unsigned char *at = (const unsigned char *)body.data;
	size_t topic = body.len >= 2 ? (size_t)at[0] << 8 | at[1] : SIZE_MAX / 2;
	size_t id = flags & 6 ? 2 : 0;

	if (topic + 2 + id > body.len)
		die("%s: this is no PUBLISH", p->name);
	if (flags & 8)
		die("%s: a message came twice", p->name);
	ret_heard->kind = HEARD_MESSAGE;
	ret_heard->id_len = id;
	memcpy(ret_heard->id, at + 2 + topic, id);
	ret_heard->number = peer_number(
		sc_span(body.data + 2 + topic + id, body.len - 2 - topic - id));
}

static size_t hear(const struct peer *p, struct sc_span data, struct heard *ret_heard)
{
	const unsigned char *at = (const unsigned char *)data.data;
	size_t len = 0, n = 1;

	do {
		if (n == data.len || n == 5)
			return 0;
		len |= (size_t)(at[n] & 127) << 7 * (n - 1);
	} while (at[n++] & 128);
	if (data.len - n < len)
		return 0;
	ret_heard->kind = HEARD_OTHER;
	if (at[0] >> 4 == 3)
		read_publish(p, at[0] & 15, sc_span(data.data + n, len), ret_heard);
	else if (at[0] >> 4 == 4 || at[0] >> 4 == 9) /* PUBACK, SUBACK */
		ret_heard->kind = HEARD_ACK;
	else if (at[0] >> 4 == 2 && (len < 2 || at[n + 1]))
		die("%s: the server refuses with %d", p->name, len < 2 ? -1 : at[n + 1]);
	return n + len;
}

const struct wire wire_mqtt = { "mqtt", hello, subscribe, publish, NULL, ack, hear };
const struct wire wire_mqtt0 = { "mqtt-qos0", hello, subscribe, publish, NULL, ack, hear };
