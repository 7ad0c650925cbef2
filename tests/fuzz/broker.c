/* tests/fuzz/broker.c: whatever nodes send, come, go and hold, the broker stays whole: each message but
 * an ack is answered once, a window holds one, and nothing is left when all is gone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "msg/broker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NODES 4

static struct peer {
	struct sc_broker_node *node;
	struct sc_parcel *held;
	int answers;
	bool closed;
} peers[NODES];

static void must(bool holds)
{
	if (!holds)
		abort();
}

static int peer_of(void *user)
{
	return (int)((struct peer *)user - peers);
}

static void on_control(void *arg, void *user, struct sc_span bytes)
{
	struct sc_msg_reading r;

	(void)arg;
	must(sc_msg_read(bytes, &r) == SC_MSG_OK && sc_span_is(r.msg.channel, "system"));
	if (sc_span_is(r.msg.subject, "ack") || sc_span_is(r.msg.subject, "error"))
		peers[peer_of(user)].answers++;
}

static int on_deliver(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order)
{
	int i = peer_of(user);
	struct sc_msg_reading r;

	(void)arg;
	must(!peers[i].held && !peers[i].closed);
	must(sc_msg_read(sc_parcel_form(parcel, order), &r) == SC_MSG_OK && r.order == order);
	peers[i].held = sc_parcel_ref(parcel);
	return 0;
}

static void on_close(void *arg, void *user, int code, const char *reason)
{
	(void)arg;
	must(code == 1007 && reason[0] && strlen(reason) < 124);
	peers[peer_of(user)].closed = true;
}

static const struct sc_broker_hooks hooks = { .control = on_control,
					      .deliver = on_deliver,
					      .close = on_close };

static void go(struct sc_broker *b, int i)
{
	sc_broker_leave(b, peers[i].node);
	sc_parcel_unref(peers[i].held);
	memset(&peers[i], 0, sizeof(peers[i]));
}

static void come(struct sc_broker *b, int i)
{
	static const char *const endpoints[] = { "a", "a", "b", "c" };
	struct sc_ulid uid = sc_broker_uid(b);

	must(sc_broker_join(b, sc_span_str(endpoints[i]), &uid, i == 0, &peers[i],
			    &peers[i].node) == 0);
}

static void say(struct sc_broker *b, int i, struct sc_span bytes)
{
	struct sc_msg_reading r;
	enum sc_msg_fault fault = sc_msg_read(bytes, &r);
	bool is_ack = fault == SC_MSG_OK && sc_msg_is_ack(&r.msg);
	bool was_closed = peers[i].closed;
	struct sc_parcel *held = peers[i].held;

	if (is_ack && held && r.msg.reference.len == held->msg.uid.len &&
	    !memcmp(r.msg.reference.data, held->msg.uid.data, held->msg.uid.len)) {
		sc_parcel_unref(held);
		peers[i].held = NULL;
	}
	peers[i].answers = 0;
	sc_broker_input(b, peers[i].node, bytes);
	must(peers[i].answers == (fault != SC_MSG_MALFORMED && !is_ack && !was_closed));
	must(was_closed || peers[i].closed == (fault == SC_MSG_MALFORMED));
}

static void ack(struct sc_broker *b, int i)
{
	struct sc_bytes out;
	struct sc_msg msg = { .uid = SC_SPAN("A"),
			      .channel = SC_SPAN("system"),
			      .subject = SC_SPAN("ack"),
			      .data = SC_SPAN("\xc0") };

	if (!peers[i].held || peers[i].closed)
		return;
	msg.reference = peers[i].held->msg.uid;
	sc_bytes_init(&out, 4096);
	must(sc_msg_write(&out, &msg, SC_MSG_DOCUMENT) == 0);
	say(b, i, sc_span(out.data, out.len));
	sc_bytes_done(&out);
}

/* Each step: a byte that says what, and a byte with a length or a time. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_broker_options options;
	struct sc_broker_stats stats;
	struct sc_broker *b;
	int64_t now = 1000000;

	sc_broker_options_init(&options);
	options.queue_size = 8;
	options.memory_max = 20000;
	options.max_age_us = 200000000;
	options.channels_max = options.endpoints_max = options.subscriptions_max = 6;
	options.admins = size && data[0] & 1;
	must(sc_broker_new(&options, &hooks, NULL, &b, NULL) == 0);
	sc_broker_time(b, 1764435591000000 + now, now);
	memset(peers, 0, sizeof(peers));
	for (size_t at = 1; at + 2 <= size;) {
		int what = data[at] & 7, i = data[at] >> 3 & 3;
		size_t len = data[at + 1];

		at += 2;
		if (what < 4 && peers[i].node) {
			len = len < size - at ? len : size - at;
			say(b, i, sc_span((const char *)data + at, len));
			at += len;
		} else if (what == 4 && peers[i].node) {
			go(b, i);
		} else if (what < 5 && !sc_broker_stopping(b)) {
			come(b, i);
		} else if (what == 5) {
			ack(b, i);
		} else if (what == 6 && peers[i].node) {
			sc_broker_blocked(b, peers[i].node, len & 1);
		} else {
			now += (int64_t)len * 300000;
			sc_broker_time(b, 1764435591000000 + now, now);
			sc_broker_tick(b);
			sc_broker_work(b);
		}
		sc_broker_stats(b, &stats);
		must(stats.queued_bytes <= options.memory_max + 16384);
	}
	for (int i = 0; i < NODES; i++) {
		if (peers[i].node)
			go(b, i);
	}
	sc_broker_free(b);
	return 0;
}
