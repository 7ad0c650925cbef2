/* msg/queue.c: messages that many queues share, and queues that drop their oldest. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "msg/queue.h"

/* Parcels. */

static size_t form_cost(size_t size)
{
	return SC_PARCEL_ROOM + size;
}

size_t sc_parcel_cost(const struct sc_msg *msg)
{
	return sizeof(struct sc_parcel) + form_cost(sc_msg_size(msg));
}

static int make_form(struct sc_parcel *p, const struct sc_msg *msg, enum sc_msg_order order,
		     struct sc_msg *ret_copy)
{
	size_t size = sc_msg_size(msg);
	struct sc_bytes form;

	sc_bytes_init(&form, form_cost(size));
	if (sc_bytes_reserve(&form, form_cost(size)) < 0)
		return SC_E_NOMEM;
	form.len = SC_PARCEL_ROOM;
	(void)sc_msg_copy(&form, msg, order, ret_copy); /* there is room */
	p->forms[order] = sc_span(form.data + SC_PARCEL_ROOM, size);
	p->totals->bytes += form_cost(size);
	return 0;
}

struct sc_parcel *sc_parcel_new(struct sc_queue_totals *totals, const struct sc_msg *msg,
				enum sc_msg_order order)
{
	struct sc_parcel *p = sc_calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->totals = totals;
	p->refs = 1;
	if (make_form(p, msg, order, &p->msg) < 0) {
		free(p);
		return NULL;
	}
	totals->bytes += sizeof(*p);
	return p;
}

struct sc_parcel *sc_parcel_ref(struct sc_parcel *p)
{
	p->refs++;
	return p;
}

void sc_parcel_unref(struct sc_parcel *p)
{
	if (!p || --p->refs > 0)
		return;
	for (int i = 0; i < 2; i++) {
		if (p->forms[i].data) {
			p->totals->bytes -= form_cost(p->forms[i].len);
			free((char *)p->forms[i].data - SC_PARCEL_ROOM);
		}
	}
	p->totals->bytes -= sizeof(*p);
	free(p);
}

struct sc_span sc_parcel_form(struct sc_parcel *p, enum sc_msg_order order)
{
	struct sc_msg copy;

	if (!p->forms[order].data)
		(void)make_form(p, &p->msg, order, &copy);
	return p->forms[order];
}

/* Queues. */

void sc_queue_init(struct sc_queue *q, struct sc_queue_totals *totals, uint32_t size)
{
	*q = (struct sc_queue){ .totals = totals, .size = size };
}

static void free_ring(struct sc_queue *q, struct sc_queue_lane *lane)
{
	q->totals->bytes -= lane->cap * sizeof(struct sc_parcel *);
	free(lane->ring);
	lane->ring = NULL;
	lane->cap = 0;
}

static void free_lanes(struct sc_queue *q)
{
	q->totals->bytes -= (uint64_t)q->lane_cap * sizeof(*q->lanes);
	free(q->lanes);
	q->lanes = NULL;
	q->lane_cap = 0;
}

void sc_queue_done(struct sc_queue *q)
{
	struct sc_parcel *p;

	while ((p = sc_queue_pop(q, NULL)))
		sc_parcel_unref(p);
	free_lanes(q);
}

/* The lane of a priority, or where it belongs. */
static uint32_t lane_at(const struct sc_queue *q, unsigned priority)
{
	uint32_t at = q->lane_count;

	while (at > 0 && q->lanes[at - 1].priority >= priority)
		at--;
	return at;
}

static int add_lane(struct sc_queue *q, uint32_t at, unsigned priority)
{
	if (q->lane_count == q->lane_cap) {
		uint32_t cap = q->lane_cap ? q->lane_cap * 2 : 1;
		struct sc_queue_lane *grown = sc_realloc(q->lanes, cap * sizeof(*grown));

		if (!grown)
			return SC_E_NOMEM;
		q->totals->bytes += (uint64_t)(cap - q->lane_cap) * sizeof(*grown);
		q->lanes = grown;
		q->lane_cap = cap;
	}
	memmove(&q->lanes[at + 1], &q->lanes[at], (q->lane_count - at) * sizeof(*q->lanes));
	q->lanes[at] = (struct sc_queue_lane){ .priority = (unsigned char)priority };
	q->lane_count++;
	return 0;
}

static void drop_lane(struct sc_queue *q, uint32_t at)
{
	free_ring(q, &q->lanes[at]);
	q->lane_count--;
	memmove(&q->lanes[at], &q->lanes[at + 1], (q->lane_count - at) * sizeof(*q->lanes));
	if (q->lane_count == 0)
		free_lanes(q);
}

/* Another size of ring: larger for one more, or smaller when it is hardly used. */
static int set_cap(struct sc_queue *q, struct sc_queue_lane *lane, uint32_t cap)
{
	struct sc_parcel **ring = sc_malloc(cap * sizeof(struct sc_parcel *));

	if (!ring)
		return SC_E_NOMEM;
	for (uint32_t i = 0; i < lane->count; i++)
		ring[i] = lane->ring[(lane->head + i) & (lane->cap - 1)];
	free(lane->ring);
	q->totals->bytes += (uint64_t)cap * sizeof(struct sc_parcel *);
	q->totals->bytes -= (uint64_t)lane->cap * sizeof(struct sc_parcel *);
	lane->ring = ring;
	lane->cap = cap;
	lane->head = 0;
	return 0;
}

static struct sc_parcel *lane_head(const struct sc_queue_lane *lane)
{
	return lane->ring[lane->head];
}

/* The oldest of a lane, with its reference; a lane that is empty then goes. */
static struct sc_parcel *take(struct sc_queue *q, uint32_t at)
{
	struct sc_queue_lane *lane = &q->lanes[at];
	struct sc_parcel *p = lane_head(lane);

	lane->head = (lane->head + 1) & (lane->cap - 1);
	lane->count--;
	q->count--;
	q->totals->queued--;
	if (lane->count == 0 && (lane->cap > 8 || q->lane_count > 1 || q->lane_cap > 4))
		drop_lane(q, at);
	else if (lane->cap > 64 && lane->count < lane->cap / 4)
		(void)set_cap(q, lane, lane->cap / 2); /* without memory it stays large */
	return p;
}

static void drop_lowest(struct sc_queue *q)
{
	sc_parcel_unref(take(q, 0));
	q->dropped_full++;
	q->totals->dropped_full++;
}

static int append(struct sc_queue *q, unsigned priority, struct sc_parcel *parcel)
{
	uint32_t at = lane_at(q, priority);
	struct sc_queue_lane *lane;
	bool fresh = at == q->lane_count || q->lanes[at].priority != priority;

	if (fresh && add_lane(q, at, priority) < 0)
		return SC_E_NOMEM;
	lane = &q->lanes[at];
	if (lane->count == lane->cap && set_cap(q, lane, lane->cap ? lane->cap * 2 : 4) < 0) {
		if (fresh)
			drop_lane(q, at);
		return SC_E_NOMEM;
	}
	lane->ring[(lane->head + lane->count++) & (lane->cap - 1)] = sc_parcel_ref(parcel);
	q->count++;
	q->totals->queued++;
	return 0;
}

/* A lane that was kept for its ring alone. */
static void drop_empty(struct sc_queue *q)
{
	if (q->lane_count == 1 && q->lanes[0].count == 0)
		drop_lane(q, 0);
}

int sc_queue_push(struct sc_queue *q, unsigned priority, struct sc_parcel *parcel)
{
	int rc;

	if (q->count == 0 && q->lane_count == 1 && q->lanes[0].priority != priority)
		drop_empty(q);
	if (q->count >= q->size && priority < q->lanes[0].priority) {
		q->dropped_full++;
		q->totals->dropped_full++;
		return 0;
	}
	rc = append(q, priority, parcel);
	if (rc < 0)
		return rc;
	while (q->count > q->size)
		drop_lowest(q);
	return 1;
}

struct sc_parcel *sc_queue_pop(struct sc_queue *q, unsigned *ret_priority)
{
	if (q->count == 0) {
		drop_empty(q);
		return NULL;
	}
	if (ret_priority)
		*ret_priority = q->lanes[q->lane_count - 1].priority;
	return take(q, q->lane_count - 1);
}

const struct sc_parcel *sc_queue_peek(const struct sc_queue *q)
{
	return q->count ? lane_head(&q->lanes[q->lane_count - 1]) : NULL;
}

void sc_queue_resize(struct sc_queue *q, uint32_t size)
{
	q->size = size;
	while (q->count > size)
		drop_lowest(q);
}

void sc_queue_expire(struct sc_queue *q, int64_t before_us)
{
	for (uint32_t at = q->lane_count; at-- > 0;) {
		while (at < q->lane_count && q->lanes[at].count > 0 &&
		       lane_head(&q->lanes[at])->accepted_us < before_us) {
			bool last = q->lanes[at].count == 1;

			sc_parcel_unref(take(q, at));
			q->dropped_age++;
			q->totals->dropped_age++;
			if (last)
				break;
		}
	}
}

int sc_queue_each(const struct sc_queue *q,
		  int (*each)(void *arg, unsigned priority, struct sc_parcel *parcel), void *arg)
{
	for (uint32_t at = q->lane_count; at-- > 0;) {
		const struct sc_queue_lane *lane = &q->lanes[at];

		for (uint32_t i = 0; i < lane->count; i++) {
			int rc = each(arg, lane->priority,
				      lane->ring[(lane->head + i) & (lane->cap - 1)]);

			if (rc < 0)
				return rc;
		}
	}
	return 0;
}
