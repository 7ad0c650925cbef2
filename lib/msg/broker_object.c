/* msg/broker_object.c: channels and endpoints, and the nodes of an endpoint. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "msg/broker_internal.h"

#define CHANNEL_IDLE_US ((int64_t)3600 * SC_BROKER_US)

/* Names. */

static void name_it(struct sc_table *table, struct sc_table_entry *entry, char *copy,
		    struct sc_span name)
{
	memcpy(copy, name.data, name.len);
	entry->key = sc_span(copy, name.len);
	entry->hash = sc_table_hash(entry->key);
	sc_table_add(table, entry);
}

struct sc_broker_channel *sc_broker_channel_find(const struct sc_broker *b, struct sc_span name)
{
	struct sc_table_entry *e = sc_table_find(&b->channels, name);

	return e ? SC_BROKER_OF(e, struct sc_broker_channel, by_name) : NULL;
}

struct sc_broker_endpoint *sc_broker_endpoint_find(const struct sc_broker *b, struct sc_span name)
{
	struct sc_table_entry *e = sc_table_find(&b->endpoints, name);

	return e ? SC_BROKER_OF(e, struct sc_broker_endpoint, by_name) : NULL;
}

/* Channels. */

int sc_broker_channel_need(struct sc_broker *b, struct sc_span name,
			   struct sc_broker_channel **ret_channel)
{
	struct sc_broker_channel *c = sc_broker_channel_find(b, name);

	if (!c) {
		if (b->channels.count >= b->o.channels_max)
			return SC_E_BUSY;
		if (sc_heap_reserve(&b->waiting, b->channels.count + 1) < 0)
			return SC_E_NOMEM;
		c = sc_calloc(1, sizeof(*c) + name.len);
		if (!c)
			return SC_E_NOMEM;
		sc_broker_hold(b, sizeof(*c) + name.len);
		name_it(&b->channels, &c->by_name, c->name, name);
		sc_queue_init(&c->queue, &b->totals, b->o.queue_size);
		sc_broker_list_add(&b->channel_list, &c->used);
		c->used_us = b->mono_us;
		sc_broker_note(b, SC_MSG_CHANNEL_CREATED, c->by_name.key, NULL);
	}
	*ret_channel = c;
	return 0;
}

void sc_broker_channel_free(struct sc_broker *b, struct sc_broker_channel *c)
{
	sc_table_remove(&b->channels, &c->by_name);
	sc_broker_list_drop(&c->used);
	sc_heap_remove(&b->waiting, &c->waiting);
	sc_queue_done(&c->queue);
	sc_broker_unhold(b, sizeof(*c) + c->by_name.key.len);
	free(c);
}

void sc_broker_channel_touch(struct sc_broker *b, struct sc_broker_channel *c)
{
	c->used_us = b->mono_us;
	sc_broker_list_drop(&c->used);
	sc_broker_list_add(&b->channel_list, &c->used);
}

void sc_broker_channel_wait(struct sc_broker *b, struct sc_broker_channel *c)
{
	const struct sc_parcel *oldest = sc_queue_peek(&c->queue);

	/* the highest priority first, then by arrival; there is room for every channel */
	if (oldest)
		(void)sc_heap_put(&b->waiting, &c->waiting, SC_QUEUE_SYSTEM - (uint64_t)c->priority,
				  oldest->seq);
	else
		sc_heap_remove(&b->waiting, &c->waiting);
}

/* Those that nobody has used for an hour, and that nothing needs. */
static void forget_channels(struct sc_broker *b)
{
	while (!sc_broker_list_empty(&b->channel_list)) {
		struct sc_broker_channel *c = SC_BROKER_OF(b->channel_list.next,
							   struct sc_broker_channel, used);

		if (b->mono_us - c->used_us < CHANNEL_IDLE_US)
			break;
		if (c->kept || c->queue.count || sc_broker_channel_wanted(b, c->by_name.key))
			sc_broker_channel_touch(b, c);
		else
			sc_broker_channel_free(b, c);
	}
}

/* Endpoints. */

int sc_broker_endpoint_need(struct sc_broker *b, struct sc_span name,
			    struct sc_broker_endpoint **ret_endpoint)
{
	struct sc_broker_endpoint *e = sc_broker_endpoint_find(b, name);

	if (!e) {
		if (b->endpoints.count >= b->o.endpoints_max)
			return SC_E_BUSY;
		e = sc_calloc(1, sizeof(*e) + name.len);
		if (!e)
			return SC_E_NOMEM;
		sc_broker_hold(b, sizeof(*e) + name.len);
		name_it(&b->endpoints, &e->by_name, e->name, name);
		sc_queue_init(&e->queue, &b->totals, b->o.queue_size);
		sc_broker_list_add(&b->endpoint_list, &e->link);
		sc_broker_list_init(&e->subscriptions);
		sc_broker_list_init(&e->awaits);
		e->alone_us = b->mono_us;
		sc_broker_note(b, SC_MSG_ENDPOINT_CREATED, e->by_name.key, NULL);
	}
	*ret_endpoint = e;
	return 0;
}

void sc_broker_endpoint_free(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	sc_broker_subscriptions_drop(b, e);
	sc_table_remove(&b->endpoints, &e->by_name);
	sc_broker_list_drop(&e->link);
	sc_broker_list_drop(&e->dirty);
	sc_queue_done(&e->queue);
	free(e->slots);
	free(e->ready);
	sc_broker_unhold(b, sizeof(*e) + e->by_name.key.len);
	free(e);
}

void sc_broker_endpoint_settle(struct sc_broker *b, struct sc_broker_endpoint *e)
{
	if (e->node_count == 0 && e->subscription_count == 0 && e->queue.count == 0 && !e->kept)
		sc_broker_endpoint_free(b, e);
}

static void tick_endpoints(struct sc_broker *b)
{
	struct sc_broker_link *at = b->endpoint_list.next, *next;

	for (; at != &b->endpoint_list; at = next) {
		struct sc_broker_endpoint *e = SC_BROKER_OF(at, struct sc_broker_endpoint, link);

		next = at->next;
		if (b->o.max_age_us && e->queue.count)
			sc_queue_expire(&e->queue, b->mono_us - b->o.max_age_us);
		if (b->o.endpoint_idle_us && e->node_count == 0 && !e->kept &&
		    b->mono_us - e->alone_us >= b->o.endpoint_idle_us)
			sc_broker_endpoint_free(b, e);
		else
			sc_broker_endpoint_settle(b, e);
	}
}

static void age_channels(struct sc_broker *b)
{
	struct sc_broker_link *at = b->channel_list.next;

	for (; at != &b->channel_list; at = at->next) {
		struct sc_broker_channel *c = SC_BROKER_OF(at, struct sc_broker_channel, used);

		if (c->queue.count == 0)
			continue;
		sc_queue_expire(&c->queue, b->mono_us - b->o.max_age_us);
		sc_broker_channel_wait(b, c);
	}
}

void sc_broker_objects_tick(struct sc_broker *b)
{
	forget_channels(b);
	if (b->o.max_age_us)
		age_channels(b);
	if (b->o.max_age_us || b->o.endpoint_idle_us)
		tick_endpoints(b);
}

/* Nodes of an endpoint. */

static int more_slots(struct sc_broker_endpoint *e)
{
	uint32_t cap = e->slot_cap ? e->slot_cap * 2 : 1;
	uint32_t words = (cap + 63) / 64, had = (e->slot_cap + 63) / 64;
	struct sc_broker_node **slots = sc_realloc(e->slots, cap * sizeof(struct sc_broker_node *));
	uint64_t *ready;

	if (!slots)
		return SC_E_NOMEM;
	e->slots = slots;
	ready = sc_realloc(e->ready, words * sizeof(*ready));
	if (!ready)
		return SC_E_NOMEM;
	e->ready = ready;
	memset(slots + e->slot_cap, 0, (cap - e->slot_cap) * sizeof(struct sc_broker_node *));
	memset(ready + had, 0, (words - had) * sizeof(*ready));
	e->slot_cap = cap;
	return 0;
}

int sc_broker_slot_take(struct sc_broker_endpoint *e, struct sc_broker_node *node)
{
	uint32_t slot = 0;

	if (e->node_count == e->slot_cap && more_slots(e) < 0)
		return SC_E_NOMEM;
	while (e->slots[slot])
		slot++;
	if (e->node_count == 0)
		e->last_slot = UINT32_MAX; /* the rotation begins with the first */
	e->slots[slot] = node;
	e->node_count++;
	node->slot = slot;
	return 0;
}

/* Half as many, for an endpoint that most of its nodes have left: those that are there move up, and
 * the one served last stays the last. */
static void fewer_slots(struct sc_broker_endpoint *e)
{
	uint32_t cap = e->slot_cap / 2, at = 0, last = UINT32_MAX;
	struct sc_broker_node **slots = sc_calloc(cap, sizeof(struct sc_broker_node *));
	uint64_t *ready = sc_calloc((cap + 63) / 64, sizeof(*ready));

	if (!slots || !ready) { /* it stays large */
		free(slots);
		free(ready);
		return;
	}
	for (uint32_t i = 0; i < e->slot_cap; i++) {
		if (!e->slots[i])
			continue;
		if (i <= e->last_slot && e->last_slot != UINT32_MAX)
			last = at;
		if (e->ready[i / 64] >> i % 64 & 1)
			ready[at / 64] |= (uint64_t)1 << at % 64;
		e->slots[i]->slot = at;
		slots[at++] = e->slots[i];
	}
	free(e->slots);
	free(e->ready);
	e->slots = slots;
	e->ready = ready;
	e->slot_cap = cap;
	e->last_slot = last;
}

static bool is_ready(const struct sc_broker_node *node)
{
	return node->endpoint->ready[node->slot / 64] >> node->slot % 64 & 1;
}

static void set_ready(struct sc_broker_node *node, bool ready)
{
	struct sc_broker_endpoint *e = node->endpoint;

	if (ready == is_ready(node))
		return;
	e->ready[node->slot / 64] ^= (uint64_t)1 << node->slot % 64;
	e->ready_count += ready ? 1 : (uint32_t)-1;
}

void sc_broker_slot_leave(struct sc_broker_node *node)
{
	struct sc_broker_endpoint *e = node->endpoint;

	set_ready(node, false);
	e->slots[node->slot] = NULL;
	e->node_count--;
	if (e->slot_cap > 64 && e->node_count < e->slot_cap / 4)
		fewer_slots(e);
}

void sc_broker_node_judge(struct sc_broker *b, struct sc_broker_node *node)
{
	bool ready = !node->holding && !node->blocked && !node->closing && !node->leaving;

	set_ready(node, ready);
	if (ready && node->endpoint->queue.count)
		sc_broker_dirty(b, node->endpoint);
}

/* The first ready slot from FROM on, or slot_cap. */
static uint32_t ready_from(const struct sc_broker_endpoint *e, uint32_t from)
{
	while (from < e->slot_cap) {
		uint64_t word = e->ready[from / 64] >> from % 64;

		if (word)
			return from + (uint32_t)__builtin_ctzll(word);
		from = (from / 64 + 1) * 64;
	}
	return e->slot_cap;
}

struct sc_broker_node *sc_broker_node_next(const struct sc_broker_endpoint *e)
{
	uint32_t slot;

	if (e->ready_count == 0)
		return NULL;
	slot = ready_from(e, e->last_slot + 1);
	if (slot >= e->slot_cap)
		slot = ready_from(e, 0);
	return e->slots[slot];
}
