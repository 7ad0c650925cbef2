/* tests/bench/msgbench/lockstep.c: one thing after the other: what counts is how long each
 * takes. */
#include "../bench.h"
#include "modes.h"

static void expect(const struct peer *p, const struct heard *h, uint64_t number)
{
	if (h->number != number)
		die("%s: message %" PRIu64 " came in place of %" PRIu64, p->name, h->number,
		    number);
}

static void subscribe(struct peer *p, const char *channel, const char *subject)
{
	struct heard h;

	p->wire->subscribe(p, channel, subject);
	peer_send(p);
	peer_await(p, HEARD_ACK, &h);
}

/* The next message, acknowledged. */
static void take(struct peer *p, uint64_t number, struct heard *ret_heard)
{
	peer_await(p, HEARD_MESSAGE, ret_heard);
	expect(p, ret_heard, number);
	p->wire->ack(p, ret_heard);
}

void mode_one(struct task *t)
{
	struct peer from, to;
	struct heard h;
	uint64_t number = 0, sent;

	peer_open(&to, t->wire, "to", t->size, t->port);
	if (!t->bare)
		subscribe(&to, "orders", "submitted");
	peer_open(&from, t->wire, "from", t->size, t->port);
	task_begin(t);
	while (task_goes_on(t, sent = now_ns())) {
		t->wire->publish(&from, "orders", "submitted", number, NULL);
		peer_send(&from);
		take(&to, number++, &h);
		hist_add(t->lat, now_ns() - sent);
		peer_send(&to);
		peer_await(&from, HEARD_ACK, &h);
		task_count(t, 1);
	}
	task_end(t);
	peer_close(&from);
	peer_close(&to);
}

void mode_pong(struct task *t)
{
	struct peer to;
	struct heard h;
	uint64_t sent;

	peer_open(&to, t->wire, "one", t->size, t->port);
	t->wire->publish(&to, "orders", "submitted", 0, NULL); /* it comes back, again and again */
	peer_send(&to);
	task_begin(t);
	while (task_goes_on(t, sent = now_ns())) {
		take(&to, 0, &h);
		hist_add(t->lat, now_ns() - sent);
		peer_send(&to);
		task_count(t, 1);
	}
	task_end(t);
	peer_close(&to);
}

void mode_request(struct task *t)
{
	struct peer caller, worker;
	struct heard request, reply;
	uint64_t number = 0, sent;

	if (t->await && !t->wire->await)
		die("%s has no subscription to one reply", t->wire->name);
	peer_open(&worker, t->wire, "worker", t->size, t->port);
	subscribe(&worker, "order", "submitted");
	peer_open(&caller, t->wire, "caller", t->size, t->port);
	if (!t->await) /* a channel of its own: the published server heeds no subjects */
		subscribe(&caller, "reply", "created");
	task_begin(t);
	while (task_goes_on(t, sent = now_ns())) {
		if (t->await) {
			t->wire->await(&caller, number);
			peer_send(&caller);
			peer_await(&caller, HEARD_ACK, &reply);
		}
		t->wire->publish(&caller, "order", "submitted", number, NULL);
		peer_send(&caller);
		take(&worker, number, &request);
		t->wire->publish(&worker, "reply", "created", number, &request);
		peer_send(&worker);
		take(&caller, number++, &reply);
		hist_add(t->lat, now_ns() - sent);
		peer_send(&caller);
		task_count(t, 1);
	}
	task_end(t);
	peer_close(&caller);
	peer_close(&worker);
}
