/* subscription.c: the life of a subscription's wakes, and patterns of paths. */
#include "durable/subscription.h"

#include <string.h>

#include "durable/text.h"

static void end_wake(struct sc_ds_sub *sub)
{
	sub->phase = SC_DS_SUB_IDLE;
	sub->wake_id[0] = 0;
	sub->holder = sc_span(NULL, 0);
	sub->attempts = 0;
	sub->lease_us = sub->attempt_us = INT64_MAX;
}

void sc_ds_sub_wake(struct sc_ds_sub *sub, const char wake_id[SC_DS_WAKE_ID_TEXT], int64_t now_us)
{
	end_wake(sub);
	sub->phase = SC_DS_SUB_WOKEN;
	sub->generation++;
	memcpy(sub->wake_id, wake_id, SC_DS_WAKE_ID_TEXT);
	if (sub->type == SC_DS_WEBHOOK)
		sub->attempt_us = now_us;
}

bool sc_ds_sub_lapse(struct sc_ds_sub *sub, int64_t now_us)
{
	if (sub->phase != SC_DS_SUB_HELD || now_us < sub->lease_us)
		return false;
	end_wake(sub);
	return true;
}

void sc_ds_sub_extend(struct sc_ds_sub *sub, int64_t now_us)
{
	sub->phase = SC_DS_SUB_HELD;
	sub->attempts = 0;
	sub->attempt_us = INT64_MAX;
	sub->lease_us = now_us + (int64_t)sub->lease_ms * 1000;
}

void sc_ds_sub_hold(struct sc_ds_sub *sub, struct sc_span worker, int64_t now_us)
{
	sub->holder = worker;
	sc_ds_sub_extend(sub, now_us);
}

bool sc_ds_sub_current(const struct sc_ds_sub *sub, uint64_t generation, struct sc_span wake_id)
{
	return sub->phase != SC_DS_SUB_IDLE && generation == sub->generation &&
	       sc_span_is(wake_id, sub->wake_id);
}

void sc_ds_sub_release(struct sc_ds_sub *sub)
{
	end_wake(sub);
}

void sc_ds_sub_failed(struct sc_ds_sub *sub, uint64_t jitter, int64_t now_us)
{
	uint64_t shift = sub->attempts < 6 ? sub->attempts : 6;
	int64_t delay_ms = (int64_t)1000 << shift;

	if (sub->phase != SC_DS_SUB_WOKEN)
		return;
	if (delay_ms > SC_DS_RETRY_MAX_MS)
		delay_ms = SC_DS_RETRY_MAX_MS;
	sub->attempts++;
	/* 80 to 120 percent */
	sub->attempt_us = now_us + delay_ms * 800 + (int64_t)(jitter % ((uint64_t)delay_ms * 400));
}

/* -- patterns -- */

/* The segment at the front of *rest, which moves behind it and its slash. */
static struct sc_span next_segment(struct sc_span *rest, bool *more)
{
	const char *slash = rest->len ? memchr(rest->data, '/', rest->len) : NULL;
	struct sc_span segment = sc_span(rest->data,
					 slash ? (size_t)(slash - rest->data) : rest->len);

	*more = slash != NULL;
	*rest = slash ? sc_span(slash + 1, rest->len - segment.len - 1)
		      : sc_span(rest->data + rest->len, 0);
	return segment;
}

static bool is_star(struct sc_span text, size_t at)
{
	return text.len - at >= 3 && text.data[at] == '%' && text.data[at + 1] == '2' &&
	       (text.data[at + 2] | 0x20) == 'a';
}

static bool same_segment(struct sc_span pattern, struct sc_span segment)
{
	size_t k = 0;

	if (sc_span_is(pattern, "*") ||
	    (pattern.len == segment.len &&
	     (!pattern.len || memcmp(pattern.data, segment.data, pattern.len) == 0)))
		return true;
	for (size_t i = 0; i < pattern.len; i++, k++) {
		char c = pattern.data[i];

		if (is_star(pattern, i)) {
			c = '*';
			i += 2;
		}
		if (k >= segment.len || segment.data[k] != c)
			return false;
	}
	return k == segment.len;
}

/* A place in a text of segments: before its next one, or behind all. */
struct place {
	struct sc_span rest;
	bool more;
};

static struct sc_span step(struct place *place)
{
	return next_segment(&place->rest, &place->more);
}

/* After a "**" the shortest run is tried first, and made longer by one segment when what follows
 * does not fit; only the last "**" need ever grow. */
bool sc_ds_glob_match(struct sc_span pattern, struct sc_span path)
{
	struct place p = { pattern, pattern.len > 0 }, s = { path, path.len > 0 };
	struct place again_p = p, again_s = s;
	bool many = false;

	while (s.more) {
		bool has = p.more;
		struct sc_span wanted = has ? step(&p) : sc_span(NULL, 0);

		if (has && sc_span_is(wanted, "**")) {
			many = true;
			again_p = p;
			again_s = s;
			continue;
		}
		if (has && same_segment(wanted, step(&s)))
			continue;
		if (!many)
			return false;
		p = again_p;
		(void)step(&again_s);
		s = again_s;
	}
	while (p.more)
		if (!sc_span_is(step(&p), "**"))
			return false;
	return true;
}

struct sc_span sc_ds_glob_literal(struct sc_span pattern, size_t max)
{
	struct place p = { pattern, pattern.len > 0 };
	size_t len = 0;

	while (p.more) {
		struct sc_span segment = step(&p);
		size_t end = (size_t)(segment.data - pattern.data) + segment.len;
		bool literal = !sc_span_is(segment, "*") && !sc_span_is(segment, "**");

		for (size_t i = 0; literal && i < segment.len; i++)
			literal = !is_star(segment, i);
		if (!literal || end > max)
			break;
		len = end;
	}
	return sc_span(pattern.data, len);
}

/* -- links -- */

bool sc_ds_link_may_ack(const struct sc_ds_link *link, uint64_t tail, struct sc_span offset,
			uint64_t *ret_position)
{
	enum sc_ds_offset_kind kind;
	uint64_t position;

	if (!sc_ds_offset_parse(offset, &kind, &position) || kind != SC_DS_OFFSET_AT ||
	    position < link->acked || position > tail)
		return false;
	*ret_position = position;
	return true;
}

void sc_ds_link_ack(struct sc_ds_link *link, uint64_t position)
{
	if (position >= link->acked) {
		link->acked = position;
		link->fresh = false;
	}
}

void sc_ds_link_restart(struct sc_ds_link *link)
{
	link->fresh = true;
	link->acked = link->told = link->told_generation = 0;
}
