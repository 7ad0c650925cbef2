/* msg/broker_route.c: from channels to endpoints, and from endpoints to nodes. */
#include <string.h>

#include "msg/broker_internal.h"

#define FORWARD_MAX 1000 /* messages out of channels before the caller gets its turn */

/* From a message to the queues of endpoints. */

static struct sc_parcel *wrap(struct sc_broker *b, const struct sc_msg *msg,
			      enum sc_msg_order order)
{
	struct sc_parcel *p = sc_parcel_new(&b->totals, msg, order);

	if (p) {
		p->seq = ++b->seq;
		p->accepted_us = b->mono_us;
	}
	return p;
}

void sc_broker_dirty(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	if (!e->dirty.next)
		sc_broker_list_add(&b->dirty_list, &e->dirty);
}

static int64_t put_to_targets(struct sc_broker *b, struct sc_parcel *p, unsigned priority)
{
	int64_t got = 0;

	for (size_t i = 0; i < b->target_count; i++) {
		struct sc_broker_endpoint *e = b->targets[i];
		int rc = sc_queue_push(&e->queue, priority, p);

		if (rc > 0)
			got++;
		else if (rc < 0)
			b->totals.dropped_full++;
		if (e->queue.count)
			sc_broker_dirty(b, e);
		else
			sc_broker_endpoint_settle(b, e);
	}
	return got;
}

int64_t sc_broker_route(struct sc_broker *b, const struct sc_msg *msg, struct sc_parcel *parcel,
			unsigned priority, enum sc_msg_order order)
{
	struct sc_parcel *own = NULL;
	int64_t got;

	sc_broker_targets(b, msg);
	if (b->target_count == 0)
		return 0;
	if (!parcel)
		parcel = own = wrap(b, msg, order);
	if (!parcel)
		return -1;
	got = put_to_targets(b, parcel, priority);
	sc_parcel_unref(own);
	return got;
}

/* From the queues of endpoints to nodes. */

static void hold(struct sc_broker *b, struct sc_broker_node *node, const struct sc_parcel *p)
{
	node->holding = true;
	node->held_len = (unsigned char)p->msg.uid.len;
	memcpy(node->held_uid, p->msg.uid.data, p->msg.uid.len);
	node->held_us = b->mono_us;
	sc_broker_list_add(&b->held_list, &node->held);
	node->endpoint->waiting_ack++;
	node->endpoint->last_slot = node->slot;
	sc_broker_node_judge(b, node);
}

static void serve(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	struct sc_broker_node *node;
	struct sc_parcel *p;

	if (b->o.max_age_us)
		sc_queue_expire(&e->queue, b->mono_us - b->o.max_age_us);
	while (e->queue.count && (node = sc_broker_node_next(e))) {
		if (b->hooks.leaves && b->hooks.leaves(b->arg, node->user)) {
			node->leaving = true; /* its last ack was no wish for more */
			sc_broker_node_judge(b, node);
			continue;
		}
		p = sc_queue_pop(&e->queue, NULL);
		hold(b, node, p);
		b->count.delivered++;
		if (b->hooks.deliver(b->arg, node->user, p, node->order) < 0) {
			node->closing = true;
			sc_broker_node_judge(b, node);
		}
		sc_parcel_unref(p);
	}
}

void sc_broker_dispatch(struct sc_broker *b)
{
	while (!sc_broker_list_empty(&b->dirty_list)) {
		struct sc_broker_endpoint *e = SC_BROKER_OF(b->dirty_list.next,
							    struct sc_broker_endpoint, dirty);

		sc_broker_list_drop(&e->dirty);
		if (!b->paused && !b->stopping)
			serve(b, e);
	}
}

/* From nodes to channels, and from there on. */

void sc_broker_forward(struct sc_broker *b)
{
	struct sc_heap_item *first;

	for (int i = 0; i < FORWARD_MAX && sc_broker_busy(b); i++) {
		struct sc_broker_channel *c;
		struct sc_parcel *p;

		first = sc_heap_first(&b->waiting);
		c = SC_BROKER_OF(first, struct sc_broker_channel, waiting);
		if (b->o.max_age_us)
			sc_queue_expire(&c->queue, b->mono_us - b->o.max_age_us);
		p = sc_queue_pop(&c->queue, NULL);
		sc_broker_channel_wait(b, c);
		if (p) {
			(void)sc_broker_route(b, &p->msg, p, c->priority, SC_MSG_DOCUMENT);
			b->count.unrouted += b->target_count == 0;
		}
		sc_parcel_unref(p);
	}
}

/* It waits in its channel: negative without memory. */
static int park(struct sc_broker *b, struct sc_broker_channel *c, const struct sc_msg *msg,
		enum sc_msg_order order)
{
	struct sc_parcel *p = wrap(b, msg, order);
	int rc = p ? sc_queue_push(&c->queue, 0, p) : SC_E_NOMEM;

	sc_parcel_unref(p);
	sc_broker_channel_wait(b, c);
	return rc < 0 ? rc : 0;
}

void sc_broker_publish(struct sc_broker *b, struct sc_broker_node *node, const struct sc_msg *msg)
{
	struct sc_broker_channel *c;
	int64_t got = -1;
	int rc;

	if (!sc_broker_has_room(b, sc_parcel_cost(msg))) {
		sc_broker_error(b, node, msg->uid, SC_MSG_LIMIT,
				"the broker holds as much as it may (--max-memory)");
		return;
	}
	rc = sc_broker_channel_need(b, msg->channel, &c);
	if (rc < 0) {
		sc_broker_error(b, node, msg->uid, SC_MSG_LIMIT, "%s",
				rc == SC_E_BUSY ? "there are as many channels as there may be"
						: "the broker is out of memory");
		return;
	}
	sc_broker_tell_events(b);
	sc_broker_channel_touch(b, c);
	if (b->paused || b->stopping || b->waiting.count) {
		rc = park(b, c, msg, node->order);
	} else {
		got = sc_broker_route(b, msg, NULL, c->priority, node->order);
		rc = got < 0 ? SC_E_NOMEM : 0;
		b->count.unrouted += b->target_count == 0;
	}
	if (rc < 0)
		sc_broker_error(b, node, msg->uid, SC_MSG_LIMIT, "the broker is out of memory");
	else
		sc_broker_ack(b, node, msg->uid, got);
}
