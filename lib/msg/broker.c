/* msg/broker.c: nodes and what they send. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "msg/broker_internal.h"

#define SCRATCH_MAX ((size_t)1 << 24)

void sc_broker_options_init(struct sc_broker_options *o)
{
	*o = (struct sc_broker_options){
		.queue_size = 100000,
		.memory_max = (uint64_t)512 << 20,
		.order = SC_MSG_DOCUMENT,
		.channels_max = 10000,
		.endpoints_max = 10000,
		.subscriptions_max = 1000,
	};
}

int sc_broker_new(const struct sc_broker_options *options, const struct sc_broker_hooks *hooks,
		  void *arg, struct sc_broker **ret_broker, struct sc_err *err)
{
	struct sc_broker *b = sc_calloc(1, sizeof(*b));

	if (!b)
		return sc_err_nomem(err, "cannot start the broker");
	b->o = *options;
	b->hooks = *hooks;
	b->arg = arg;
	b->started_us = INT64_MIN;
	sc_bytes_init(&b->scratch, SCRATCH_MAX);
	sc_bytes_init(&b->data, SCRATCH_MAX);
	sc_broker_list_init(&b->channel_list);
	sc_broker_list_init(&b->endpoint_list);
	sc_broker_list_init(&b->node_list);
	sc_broker_list_init(&b->held_list);
	sc_broker_list_init(&b->dirty_list);
	*ret_broker = b;
	return 0;
}

void sc_broker_free(struct sc_broker *b)
{
	if (!b)
		return;
	while (!sc_broker_list_empty(&b->node_list)) {
		struct sc_broker_node *node = SC_BROKER_OF(b->node_list.next, struct sc_broker_node,
							   link);

		sc_broker_list_drop(&node->link);
		free(node);
	}
	while (!sc_broker_list_empty(&b->endpoint_list))
		sc_broker_endpoint_free(b, SC_BROKER_OF(b->endpoint_list.next,
							struct sc_broker_endpoint, link));
	while (!sc_broker_list_empty(&b->channel_list))
		sc_broker_channel_free(b, SC_BROKER_OF(b->channel_list.next,
						       struct sc_broker_channel, used));
	sc_table_done(&b->channels);
	sc_table_done(&b->endpoints);
	sc_table_done(&b->awaits);
	sc_router_done(&b->patterns);
	sc_heap_done(&b->waiting);
	sc_heap_done(&b->expiries);
	sc_bytes_done(&b->scratch);
	sc_bytes_done(&b->data);
	free(b->targets);
	free(b);
}

void sc_broker_time(struct sc_broker *b, int64_t wall_us, int64_t mono_us)
{
	b->wall_us = wall_us;
	b->mono_us = mono_us;
	if (b->started_us == INT64_MIN)
		b->started_us = mono_us;
}

struct sc_ulid sc_broker_uid(struct sc_broker *b)
{
	return sc_ulid_make(&b->ulids, b->wall_us / 1000);
}

bool sc_broker_admits(const struct sc_broker *b, struct sc_span endpoint)
{
	return !b->stopping &&
	       (b->endpoints.count < b->o.endpoints_max || sc_broker_endpoint_find(b, endpoint));
}

const struct sc_ulid *sc_broker_node_uid(const struct sc_broker_node *node)
{
	return &node->uid;
}

int sc_broker_join(struct sc_broker *b, struct sc_span endpoint, const struct sc_ulid *uid,
		   bool admin, void *user, struct sc_broker_node **ret_node)
{
	struct sc_broker_node *node = sc_calloc(1, sizeof(*node));
	int rc;

	if (!node)
		return SC_E_NOMEM;
	node->user = user;
	node->uid = *uid;
	node->admin = admin;
	node->order = b->o.order;
	rc = sc_broker_endpoint_need(b, endpoint, &node->endpoint);
	if (rc == 0) {
		rc = sc_broker_slot_take(node->endpoint, node);
		if (rc < 0)
			sc_broker_endpoint_settle(b, node->endpoint);
	}
	if (rc < 0) {
		b->event_count = 0;
		free(node);
		return rc;
	}
	sc_broker_hold(b, sizeof(*node));
	b->count.nodes++;
	sc_broker_list_add(&b->node_list, &node->link);
	sc_broker_node_judge(b, node);
	*ret_node = node;
	sc_broker_note(b, SC_MSG_NODE_JOINED, node->endpoint->by_name.key, &node->uid);
	sc_broker_tell_events(b);
	sc_broker_dispatch(b);
	return 0;
}

/* The message that a node held is settled: acknowledged, or lost. */
static void settle_held(struct sc_broker_node *node)
{
	if (!node->holding)
		return;
	node->holding = false;
	node->endpoint->waiting_ack--;
	sc_broker_list_drop(&node->held);
}

void sc_broker_leave(struct sc_broker *b, struct sc_broker_node *node)
{
	struct sc_broker_endpoint *endpoint = node->endpoint;

	if (node->holding)
		b->count.lost_unacked++;
	settle_held(node);
	sc_broker_slot_leave(node);
	if (endpoint->node_count == 0)
		endpoint->alone_us = b->mono_us;
	sc_broker_list_drop(&node->link);
	b->count.nodes--;
	sc_broker_note(b, SC_MSG_NODE_LEFT, endpoint->by_name.key, &node->uid);
	sc_broker_tell_events(b);
	sc_broker_endpoint_settle(b, endpoint);
	sc_broker_unhold(b, sizeof(*node));
	free(node);
	sc_broker_dispatch(b);
}

void sc_broker_close_node(struct sc_broker *b, struct sc_broker_node *node, int code,
			  const char *reason)
{
	if (node->closing)
		return;
	node->closing = true;
	sc_broker_node_judge(b, node);
	b->hooks.close(b->arg, node->user, code, reason);
}

void sc_broker_refuse(struct sc_broker *b, struct sc_broker_node *node, int code,
		      const char *reason)
{
	if (node->closing)
		return;
	b->count.received++;
	b->count.refused++;
	sc_broker_close_node(b, node, code, reason);
}

void sc_broker_blocked(struct sc_broker *b, struct sc_broker_node *node, bool blocked)
{
	node->blocked = blocked;
	sc_broker_node_judge(b, node);
	if (!blocked)
		sc_broker_dispatch(b);
}

static void take_ack(struct sc_broker *b, struct sc_broker_node *node, const struct sc_msg *msg)
{
	if (!node->holding || msg->reference.len != node->held_len ||
	    memcmp(msg->reference.data, node->held_uid, node->held_len) != 0) {
		b->count.stray_acks++;
		return;
	}
	settle_held(node);
	b->count.acked++;
	sc_broker_node_judge(b, node);
}

void sc_broker_input(struct sc_broker *b, struct sc_broker_node *node, struct sc_span bytes)
{
	struct sc_msg_reading r;
	enum sc_msg_fault fault;

	if (node->closing)
		return;
	b->count.received++;
	fault = sc_msg_read(bytes, &r);
	if (r.ordered)
		node->order = r.order;
	if (fault == SC_MSG_MALFORMED) {
		b->count.refused++;
		sc_broker_close_node(b, node, 1007, r.reason);
	} else if (fault != SC_MSG_OK) {
		sc_broker_error(b, node, r.msg.uid, fault, "%s", r.reason);
	} else if (sc_msg_is_ack(&r.msg)) {
		take_ack(b, node, &r.msg);
	} else if (sc_span_is(r.msg.channel, SC_MSG_SYSTEM)) {
		sc_broker_command(b, node, &r.msg);
	} else {
		sc_broker_publish(b, node, &r.msg);
	}
	sc_broker_dispatch(b);
}

void sc_broker_stop(struct sc_broker *b)
{
	struct sc_broker_link *at;

	if (b->stopping)
		return;
	b->stopping = true;
	for (at = b->node_list.next; at != &b->node_list; at = at->next) {
		struct sc_broker_node *node = SC_BROKER_OF(at, struct sc_broker_node, link);

		if (!node->closing)
			sc_broker_notice(b, node, SC_MSG_STOPPING_SUBJECT,
					 (struct sc_span){ NULL, 0 }, SC_SPAN("\xc0"));
	}
}

bool sc_broker_stopping(const struct sc_broker *b)
{
	return b->stopping;
}

static void close_late(struct sc_broker *b)
{
	struct sc_broker_link *at = b->held_list.next, *next;

	for (; b->o.ack_timeout_us && at != &b->held_list; at = next) {
		struct sc_broker_node *node = SC_BROKER_OF(at, struct sc_broker_node, held);

		next = at->next;
		if (b->mono_us - node->held_us < b->o.ack_timeout_us)
			break;
		sc_broker_close_node(b, node, 1008, "ack timeout");
	}
}

void sc_broker_tick(struct sc_broker *b)
{
	close_late(b);
	sc_broker_awaits_tick(b);
	sc_broker_objects_tick(b);
}

bool sc_broker_busy(const struct sc_broker *b)
{
	return b->waiting.count > 0 && !b->paused && !b->stopping;
}

void sc_broker_work(struct sc_broker *b)
{
	sc_broker_forward(b);
	sc_broker_dispatch(b);
}
