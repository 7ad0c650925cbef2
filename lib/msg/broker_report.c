/* msg/broker_report.c: what the broker itself sends: acks, errors, events, numbers. */
#include <stdarg.h>
#include <stdio.h>

#include "msg/broker_internal.h"
#include "msg/pack.h"

#define PER_ENDPOINT_BYTES 262144u /* of stats: so that it fits where a message may have 1 MiB */

static const struct sc_span nil = { "\xc0", 1 };

void sc_broker_notice(struct sc_broker *b, struct sc_broker_node *node, const char *subject,
		      struct sc_span uid, struct sc_span data)
{
	struct sc_ulid own = sc_broker_uid(b);
	struct sc_msg msg = { .uid = sc_ulid_span(&own),
			      .channel = SC_SPAN(SC_MSG_SYSTEM),
			      .subject = sc_span_str(subject),
			      .reference = uid,
			      .data = data };

	if (node->closing)
		return;
	sc_bytes_clear(&b->scratch);
	if (sc_msg_write(&b->scratch, &msg, node->order) < 0)
		sc_broker_close_node(b, node, 1011, "the broker is out of memory");
	else
		b->hooks.control(b->arg, node->user, sc_span(b->scratch.data, b->scratch.len));
}

void sc_broker_ack(struct sc_broker *b, struct sc_broker_node *node, struct sc_span uid,
		   int64_t count)
{
	struct sc_span data = nil;

	sc_bytes_clear(&b->data);
	if (count >= 0 && !b->o.plain_acks && sc_pack_i64(&b->data, count) == 0)
		data = sc_span(b->data.data, b->data.len);
	sc_broker_notice(b, node, "ack", uid, data);
}

void sc_broker_error(struct sc_broker *b, struct sc_broker_node *node, struct sc_span uid,
		     enum sc_msg_fault code, const char *text, ...)
{
	char words[300];
	va_list args;
	int rc;

	b->count.refused++;
	va_start(args, text);
	vsnprintf(words, sizeof(words), text, args);
	va_end(args);
	sc_bytes_clear(&b->data);
	rc = sc_pack_array(&b->data, 2);
	if (rc == 0)
		rc = sc_pack_str(&b->data, sc_span_str(sc_msg_fault_word(code)));
	if (rc == 0)
		rc = sc_pack_str(&b->data, sc_span_str(words));
	if (rc < 0)
		sc_broker_close_node(b, node, 1011, "the broker is out of memory");
	else
		sc_broker_notice(b, node, SC_MSG_ERROR_SUBJECT, uid,
				 sc_span(b->data.data, b->data.len));
}

/* Events, and commands that succeeded. They are given up where memory is full: nobody can be
 * told to send less of them. */
void sc_broker_tell(struct sc_broker *b, const struct sc_msg *msg, enum sc_msg_order order)
{
	if (!sc_broker_has_room(b, sc_parcel_cost(msg)))
		b->totals.dropped_full++;
	else if (sc_broker_route(b, msg, NULL, SC_QUEUE_SYSTEM, order) < 0)
		b->totals.dropped_full++;
}

void sc_broker_note(struct sc_broker *b, enum sc_msg_event event, struct sc_span name,
		    const struct sc_ulid *node)
{
	b->events[b->event_count++] = (struct sc_broker_event){ event, name, node };
}

static void tell_event(struct sc_broker *b, const struct sc_broker_event *event)
{
	struct sc_ulid uid = sc_broker_uid(b);
	struct sc_msg msg = { .uid = sc_ulid_span(&uid),
			      .channel = SC_SPAN(SC_MSG_SYSTEM),
			      .subject = sc_span_str(sc_msg_event_subject(event->event)) };
	int rc;

	sc_bytes_clear(&b->data);
	rc = sc_pack_array(&b->data, event->node ? 2 : 1);
	if (rc == 0)
		rc = sc_pack_str(&b->data, event->name);
	if (rc == 0 && event->node)
		rc = sc_pack_bin(&b->data, sc_ulid_span(event->node));
	msg.data = sc_span(b->data.data, b->data.len);
	if (rc < 0)
		b->totals.dropped_full++;
	else
		sc_broker_tell(b, &msg, b->o.order);
}

void sc_broker_tell_events(struct sc_broker *b)
{
	for (int i = 0; i < b->event_count; i++)
		tell_event(b, &b->events[i]);
	b->event_count = 0;
}

/* Numbers. */

void sc_broker_stats(const struct sc_broker *b, struct sc_broker_stats *ret_stats)
{
	struct sc_broker_stats s = b->count;

	s.uptime_s = b->started_us == INT64_MIN
			     ? 0
			     : (uint64_t)(b->mono_us - b->started_us) / SC_BROKER_US;
	s.channels = b->channels.count;
	s.endpoints = b->endpoints.count;
	s.queued = b->totals.queued;
	s.queued_bytes = b->totals.bytes;
	s.memory_bytes = sc_broker_memory(b);
	s.dropped_full = b->totals.dropped_full;
	s.dropped_age = b->totals.dropped_age;
	*ret_stats = s;
}

int sc_broker_each_endpoint(const struct sc_broker *b,
			    int (*each)(void *arg, const struct sc_broker_endpoint_stats *stats),
			    void *arg)
{
	const struct sc_broker_link *at = b->endpoint_list.next;

	for (; at != &b->endpoint_list; at = at->next) {
		const struct sc_broker_endpoint *e = SC_BROKER_OF(at, struct sc_broker_endpoint,
								  link);
		struct sc_broker_endpoint_stats stats = {
			.name = e->by_name.key,
			.nodes = e->node_count,
			.queued = e->queue.count,
			.waiting_ack = e->waiting_ack,
			.dropped_full = e->queue.dropped_full,
			.dropped_age = e->queue.dropped_age,
		};
		int rc = each(arg, &stats);

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int put_count(struct sc_bytes *out, const char *name, uint64_t value)
{
	int rc = sc_pack_str(out, sc_span_str(name));

	return rc < 0 ? rc : sc_pack_u64(out, value);
}

struct listing {
	struct sc_bytes *out;
	uint32_t count; /* that fit */
	size_t from;
	bool measure; /* only how many fit */
	uint32_t most;
};

static int list_endpoint(void *arg, const struct sc_broker_endpoint_stats *s)
{
	struct listing *l = arg;
	int rc;

	if (l->measure) {
		l->from += s->name.len + 60;
		l->count += l->from <= PER_ENDPOINT_BYTES;
		return 0;
	}
	if (l->count++ >= l->most)
		return 0;
	rc = sc_pack_str(l->out, s->name);
	if (rc == 0)
		rc = sc_pack_map(l->out, 3);
	if (rc == 0)
		rc = put_count(l->out, "nodes", s->nodes);
	if (rc == 0)
		rc = put_count(l->out, "queued", s->queued);
	return rc < 0 ? rc : put_count(l->out, "waiting_ack", s->waiting_ack);
}

int sc_broker_stats_data(struct sc_broker *b, struct sc_bytes *out)
{
	struct sc_broker_stats s;
	struct listing sizes = { .measure = true }, list = { .out = out };
	int rc;

	sc_broker_stats(b, &s);
	(void)sc_broker_each_endpoint(b, list_endpoint, &sizes);
	list.most = sizes.count;
#define X(name, help, grows) +1
	rc = sc_pack_map(out, 2 SC_BROKER_COUNTERS(X));
#undef X
	if (rc == 0)
		rc = put_count(out, "uptime_s", s.uptime_s);
#define X(name, help, grows) \
	if (rc == 0) \
		rc = put_count(out, #name, s.name);
	SC_BROKER_COUNTERS(X)
#undef X
	if (rc == 0)
		rc = sc_pack_str(out, SC_SPAN("per_endpoint"));
	if (rc == 0)
		rc = sc_pack_map(out, list.most);
	return rc < 0 ? rc : sc_broker_each_endpoint(b, list_endpoint, &list);
}
