/* msg/broker_subscription.c: who wants what. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "msg/broker_internal.h"
#include "msg/pattern.h"

/* To channels. */

static struct sc_broker_pattern *pattern_of(struct sc_router_entry *e)
{
	return SC_BROKER_OF(e, struct sc_broker_pattern, entry);
}

static struct sc_broker_subject *subject_of(struct sc_router_entry *e)
{
	return SC_BROKER_OF(e, struct sc_broker_subject, entry);
}

static struct sc_broker_pattern *need_pattern(struct sc_broker *b, struct sc_span text)
{
	struct sc_router_entry *found = sc_router_find(&b->patterns, text);
	struct sc_broker_pattern *p;

	if (found)
		return pattern_of(found);
	p = sc_calloc(1, sizeof(*p) + text.len);
	if (!p)
		return NULL;
	memcpy(p->text, text.data, text.len);
	p->entry.pattern = sc_span(p->text, text.len);
	if (sc_router_add(&b->patterns, &p->entry) < 0) {
		free(p);
		return NULL;
	}
	sc_broker_hold(b, sizeof(*p) + text.len);
	return p;
}

static void settle_pattern(struct sc_broker *b, struct sc_broker_pattern *p)
{
	if (p->subjects.table.count)
		return;
	sc_router_remove(&b->patterns, &p->entry);
	sc_broker_unhold(b, sizeof(*p) + p->entry.pattern.len);
	free(p);
}

static struct sc_broker_subject *need_subject(struct sc_broker *b, struct sc_broker_pattern *p,
					      struct sc_span text)
{
	struct sc_router_entry *found = sc_router_find(&p->subjects, text);
	struct sc_broker_subject *s;

	if (found)
		return subject_of(found);
	s = sc_calloc(1, sizeof(*s) + text.len);
	if (!s)
		return NULL;
	memcpy(s->text, text.data, text.len);
	s->entry.pattern = sc_span(s->text, text.len);
	s->channel = p;
	sc_broker_list_init(&s->subscriptions);
	if (sc_router_add(&p->subjects, &s->entry) < 0) {
		free(s);
		return NULL;
	}
	sc_broker_hold(b, sizeof(*s) + text.len);
	return s;
}

static void settle_subject(struct sc_broker *b, struct sc_broker_subject *s)
{
	struct sc_broker_pattern *p = s->channel;

	if (!sc_broker_list_empty(&s->subscriptions))
		return;
	sc_router_remove(&p->subjects, &s->entry);
	sc_broker_unhold(b, sizeof(*s) + s->entry.pattern.len);
	free(s);
	settle_pattern(b, p);
}

static bool has(const struct sc_broker_endpoint *e, const struct sc_broker_subject *s)
{
	const struct sc_broker_link *at = e->subscriptions.next;

	for (; at != &e->subscriptions; at = at->next) {
		if (SC_BROKER_OF(at, struct sc_broker_subscription, of_endpoint)->subject == s)
			return true;
	}
	return false;
}

static int add(struct sc_broker *b, struct sc_broker_endpoint *e, struct sc_broker_subject *s)
{
	struct sc_broker_subscription *sub;

	if (has(e, s))
		return 0;
	if (e->subscription_count >= b->o.subscriptions_max)
		return SC_E_BUSY;
	sub = sc_calloc(1, sizeof(*sub));
	if (!sub)
		return SC_E_NOMEM;
	sc_broker_hold(b, sizeof(*sub));
	sub->subject = s;
	sub->endpoint = e;
	sc_broker_list_add(&s->subscriptions, &sub->of_subject);
	sc_broker_list_add(&e->subscriptions, &sub->of_endpoint);
	e->subscription_count++;
	b->count.subscriptions++;
	return 0;
}

int sc_broker_subscribe(struct sc_broker *b, struct sc_broker_endpoint *e, struct sc_span channel,
			struct sc_span subject)
{
	struct sc_broker_pattern *p = need_pattern(b, channel);
	struct sc_broker_subject *s = p ? need_subject(b, p, subject) : NULL;
	int rc = s ? add(b, e, s) : SC_E_NOMEM;

	if (s)
		settle_subject(b, s);
	else if (p)
		settle_pattern(b, p);
	return rc;
}

bool sc_broker_subscribed(const struct sc_broker *b, const struct sc_broker_endpoint *e,
			  struct sc_span channel, struct sc_span subject)
{
	struct sc_router_entry *p = sc_router_find(&b->patterns, channel);
	struct sc_router_entry *s = p ? sc_router_find(&pattern_of(p)->subjects, subject) : NULL;

	return s && has(e, subject_of(s));
}

static void drop(struct sc_broker *b, struct sc_broker_subscription *sub)
{
	sc_broker_list_drop(&sub->of_subject);
	sc_broker_list_drop(&sub->of_endpoint);
	sub->endpoint->subscription_count--;
	b->count.subscriptions--;
	settle_subject(b, sub->subject);
	sc_broker_unhold(b, sizeof(*sub));
	free(sub);
}

void sc_broker_unsubscribe(struct sc_broker *b, struct sc_broker_endpoint *e,
			   struct sc_span pattern)
{
	struct sc_broker_link *at = e->subscriptions.next, *next;

	for (; at != &e->subscriptions; at = next) {
		struct sc_broker_subscription *sub = SC_BROKER_OF(at, struct sc_broker_subscription,
								  of_endpoint);
		struct sc_span text = sub->subject->channel->entry.pattern;

		next = at->next;
		if ((text.len == pattern.len && memcmp(text.data, pattern.data, text.len) == 0) ||
		    sc_pattern_match(pattern, text))
			drop(b, sub);
	}
}

bool sc_broker_channel_wanted(const struct sc_broker *b, struct sc_span name)
{
	struct sc_router_entry *e = sc_router_find(&b->patterns, name);

	return e && e->literal;
}

/* To references. */

static struct sc_broker_await *await_of(struct sc_table_entry *e)
{
	return SC_BROKER_OF(e, struct sc_broker_await, by_uid);
}

static struct sc_broker_await *find_await(const struct sc_broker *b,
					  const struct sc_broker_endpoint *endpoint,
					  struct sc_span uid)
{
	struct sc_table_entry *e = sc_table_find(&b->awaits, uid);

	while (e && await_of(e)->endpoint != endpoint)
		e = sc_table_find_next(e);
	return e ? await_of(e) : NULL;
}

bool sc_broker_awaits(const struct sc_broker *b, const struct sc_broker_endpoint *e,
		      struct sc_span uid)
{
	return find_await(b, e, uid) != NULL;
}

static void drop_await(struct sc_broker *b, struct sc_broker_await *a)
{
	sc_table_remove(&b->awaits, &a->by_uid);
	sc_heap_remove(&b->expiries, &a->expiry);
	sc_broker_list_drop(&a->of_endpoint);
	a->endpoint->subscription_count--;
	b->count.subscriptions--;
	sc_broker_unhold(b, sizeof(*a) + a->by_uid.key.len);
	free(a);
	if (b->expiries.count == 0)
		sc_heap_done(&b->expiries);
}

/* Those that are over do not count. */
static void drop_expired(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	struct sc_broker_link *at = e->awaits.next, *next;

	for (; at != &e->awaits; at = next) {
		struct sc_broker_await *a = SC_BROKER_OF(at, struct sc_broker_await, of_endpoint);

		next = at->next;
		if (a->expires_us <= b->wall_us)
			drop_await(b, a);
	}
}

int sc_broker_await(struct sc_broker *b, struct sc_broker_endpoint *e, struct sc_span uid,
		    int64_t expires_us, bool once)
{
	struct sc_broker_await *a = find_await(b, e, uid);
	bool fresh = !a;

	if (fresh) {
		if (e->subscription_count >= b->o.subscriptions_max)
			drop_expired(b, e);
		if (e->subscription_count >= b->o.subscriptions_max)
			return SC_E_BUSY;
		a = sc_calloc(1, sizeof(*a) + uid.len);
		if (!a)
			return SC_E_NOMEM;
	}
	if (sc_heap_put(&b->expiries, &a->expiry, (uint64_t)expires_us, 0) < 0) {
		free(a); /* only a fresh one can fail */
		return SC_E_NOMEM;
	}
	a->expires_us = expires_us;
	a->once = once;
	if (!fresh)
		return 0;
	sc_broker_hold(b, sizeof(*a) + uid.len);
	a->endpoint = e;
	memcpy(a->uid, uid.data, uid.len);
	a->by_uid.key = sc_span(a->uid, uid.len);
	a->by_uid.hash = sc_table_hash(a->by_uid.key);
	sc_table_add(&b->awaits, &a->by_uid);
	sc_broker_list_add(&e->awaits, &a->of_endpoint);
	e->subscription_count++;
	b->count.subscriptions++;
	return 0;
}

void sc_broker_unawait(struct sc_broker *b, struct sc_broker_endpoint *e, struct sc_span uid)
{
	struct sc_broker_await *a = find_await(b, e, uid);

	if (a)
		drop_await(b, a);
}

void sc_broker_awaits_tick(struct sc_broker *b)
{
	struct sc_heap_item *first;

	while ((first = sc_heap_first(&b->expiries))) {
		struct sc_broker_await *a = SC_BROKER_OF(first, struct sc_broker_await, expiry);
		struct sc_broker_endpoint *e = a->endpoint;

		if (a->expires_us > b->wall_us)
			break;
		drop_await(b, a);
		sc_broker_endpoint_settle(b, e);
	}
}

void sc_broker_subscriptions_drop(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	while (!sc_broker_list_empty(&e->subscriptions))
		drop(b, SC_BROKER_OF(e->subscriptions.next, struct sc_broker_subscription,
				     of_endpoint));
	while (!sc_broker_list_empty(&e->awaits))
		drop_await(b, SC_BROKER_OF(e->awaits.next, struct sc_broker_await, of_endpoint));
}

/* Who wants a message. */

struct search {
	struct sc_broker *b;
	struct sc_span subject;
	bool system;
};

static void found(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	if (e->mark == b->mark)
		return;
	e->mark = b->mark;
	if (b->target_count == b->target_cap) {
		size_t cap = b->target_cap ? b->target_cap * 2 : 64;
		struct sc_broker_endpoint **grown = sc_realloc(
			b->targets, cap * sizeof(struct sc_broker_endpoint *));

		if (!grown) {
			b->totals.dropped_full++;
			return;
		}
		b->targets = grown;
		b->target_cap = cap;
	}
	b->targets[b->target_count++] = e;
}

static void found_subject(void *arg, struct sc_router_entry *entry)
{
	struct search *s = arg;
	struct sc_broker_subject *subject = subject_of(entry);
	struct sc_broker_link *at = subject->subscriptions.next;

	for (; at != &subject->subscriptions; at = at->next)
		found(s->b, SC_BROKER_OF(at, struct sc_broker_subscription, of_subject)->endpoint);
}

static void found_channel(void *arg, struct sc_router_entry *entry)
{
	struct search *s = arg;

	if (!s->system || !sc_pattern_leads_wild(entry->pattern))
		sc_router_match(&pattern_of(entry)->subjects, s->subject, found_subject, s);
}

static void find_awaits(struct sc_broker *b, struct sc_span reference)
{
	struct sc_table_entry *e = sc_table_find(&b->awaits, reference), *next;

	for (; e; e = next) {
		struct sc_broker_await *a = await_of(e);

		next = sc_table_find_next(e);
		if (a->expires_us <= b->wall_us)
			continue;
		found(b, a->endpoint);
		if (a->once)
			drop_await(b, a);
	}
}

void sc_broker_targets(struct sc_broker *b, const struct sc_msg *msg)
{
	struct search s = { b, msg->subject, sc_span_is(msg->channel, SC_MSG_SYSTEM) };

	b->mark++;
	b->target_count = 0;
	sc_router_match(&b->patterns, msg->channel, found_channel, &s);
	if (msg->reference.len && b->awaits.count)
		find_awaits(b, msg->reference);
}
