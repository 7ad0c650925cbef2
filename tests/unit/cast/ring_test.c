/*
 * The ring against a plain array of messages: random sizes, ring sizes, runs, single steps and
 * look-ups. Whatever is read must be whole frames of exactly the messages in order, and what the
 * ring says that it holds must be readable.
 */
#include "../check.h"
#include "cast/ring.h"
#include "wire/head.h"

static uint64_t seed;

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static uint64_t payload_of(uint64_t number, uint64_t max, unsigned spread)
{
	uint64_t h = (number + 1) * 0x9e3779b97f4a7c15u;

	h ^= h >> 29;
	return 24 + (h % spread == 0 ? h % (max - 24) : h % 200 % (max - 24));
}

struct model {
	struct sc_ring *ring;
	uint64_t *offsets; /* of message i */
	uint64_t count, next, max;
	unsigned spread;
};

static void publish(struct model *m)
{
	uint64_t size = payload_of(m->count, m->max, m->spread);
	char *p = sc_ring_begin(m->ring, size), head[32];
	int n;

	CHECK(p != NULL);
	m->next += rnd(5) == 0 ? rnd(4) : 0;
	n = snprintf(head, sizeof(head), "[%" PRIu64 ",", m->next);
	memset(p, 'a' + (int)(m->count % 26), size);
	memcpy(p, head, (size_t)n);
	p[size - 1] = ']';
	m->offsets[m->count++] = m->next;
	sc_ring_commit(m->ring, m->next++);
}

/* FRAMES must be messages FROM, FROM+1... */
static uint64_t check_frames(struct model *m, struct sc_span frames, uint64_t from)
{
	const unsigned char *p = (const unsigned char *)frames.data, *end = p + frames.len;

	while (p < end) {
		size_t head;
		uint64_t size = sc_head_payload(p, &head);

		CHECK(from < m->count);
		CHECK_INT(size, payload_of(from, m->max, m->spread));
		CHECK(p + head + size <= end);
		p += head;
		CHECK_INT(sc_ring_offset_of((const char *)p, (size_t)size), m->offsets[from]);
		CHECK_INT(p[size - 1], ']');
		if (size > 30)
			CHECK_INT(p[size - 2], 'a' + (int)(from % 26));
		p += size;
		from++;
	}
	CHECK(p == end);
	return from;
}

static void check_find(struct model *m)
{
	const struct sc_ring_at *tail = sc_ring_tail(m->ring), *head = sc_ring_head(m->ring);
	uint64_t offset = tail->last + rnd(head->last - tail->last + 3);
	struct sc_ring_at at;
	bool found = sc_ring_find(m->ring, offset, &at);

	CHECK_INT(found, offset > tail->last);
	if (!found)
		return;
	CHECK(at.number == m->count || m->offsets[at.number] >= offset);
	CHECK(at.number == tail->number || m->offsets[at.number - 1] < offset);
	CHECK_INT(at.last, at.number ? m->offsets[at.number - 1] : at.last);
	if (at.number < m->count) {
		struct sc_ring_at after;
		struct sc_span payload;

		CHECK(sc_ring_message(m->ring, &at, &payload, &after));
		CHECK_INT(after.number, at.number + 1);
		CHECK_INT(after.last, m->offsets[at.number]);
	}
}

static void run(uint64_t bytes, unsigned spread, uint64_t steps)
{
	struct model m = { .spread = spread, .next = 1 + rnd(1000) };
	struct sc_ring_at cursors[8];
	struct sc_err err;

	CHECK_OK(sc_ring_new(bytes, m.next, &m.ring, &err), &err);
	m.max = sc_ring_payload_max(m.ring);
	m.offsets = calloc(steps + 1, sizeof(*m.offsets));
	CHECK(m.offsets != NULL);
	for (int i = 0; i < 8; i++)
		cursors[i] = *sc_ring_head(m.ring);
	for (uint64_t step = 0; step < steps; step++) {
		struct sc_ring_at *c = &cursors[rnd(8)], after;
		struct sc_span span;
		size_t max = rnd(10) ? rnd(sc_ring_bytes(m.ring)) : SIZE_MAX;

		if (rnd(3) == 0)
			publish(&m);
		if (rnd(16) == 0)
			check_find(&m);
		if (!sc_ring_holds(m.ring, c))
			*c = rnd(2) ? *sc_ring_tail(m.ring) : *sc_ring_head(m.ring);
		CHECK_INT(c->number <= m.count, 1);
		if (!sc_ring_run(m.ring, c, max, &span, &after)) {
			CHECK_INT(c->number, m.count);
			continue;
		}
		CHECK(span.len > 0);
		CHECK_INT(check_frames(&m, span, c->number), after.number);
		CHECK(span.len <= max || after.number == c->number + 1);
		CHECK_INT(after.pos, c->pos + span.len);
		CHECK_INT(after.last, m.offsets[after.number - 1]);
		*c = after;
	}
	sc_ring_free(m.ring);
	free(m.offsets);
}

TEST(random_rings)
{
	seed = 88172645463325252u;
	run(SC_RING_MIN, 4, 200000);
	run(SC_RING_MIN, 1000, 200000);
	run(64 << 10, 50, 200000);
	run(1 << 20, 300, 200000);
}

/* Wherever a run begins, it ends at one of few places: just after the start of a granule of 32
 * KiB. */
TEST(runs_are_long_and_end_at_the_same_places)
{
	struct sc_ring_at at, after;
	struct sc_span span;
	struct sc_ring *ring;
	struct sc_err err;

	CHECK_OK(sc_ring_new(1 << 20, 1, &ring, &err), &err);
	for (uint64_t i = 1; i <= 8000; i++) {
		memset(sc_ring_begin(ring, 100), '1', 100);
		sc_ring_commit(ring, i);
	}
	for (uint64_t skip = 0; skip < 300; skip += 7) {
		unsigned runs = 0;

		at = *sc_ring_tail(ring);
		at.pos += skip * 102;
		at.number += skip;
		for (; sc_ring_run(ring, &at, 128 << 10, &span, &after); at = after) {
			if (after.pos == sc_ring_head(ring)->pos)
				break;
			CHECK(span.len > 96u << 10 && span.len <= 128u << 10);
			CHECK(after.pos % (32 << 10) < 102);
			runs++;
		}
		CHECK(runs <= 9);
	}
	sc_ring_free(ring);
}

TEST(limits)
{
	struct sc_ring_at old;
	struct sc_ring *ring;
	struct sc_err err;
	char *payload;

	CHECK_INT(sc_ring_new(SC_RING_MAX + 1, 1, &ring, &err), SC_E_CONFIG);
	CHECK_OK(sc_ring_new(20000, 7, &ring, &err), &err);
	CHECK_INT(sc_ring_bytes(ring), 32768);
	CHECK(sc_ring_begin(ring, sc_ring_payload_max(ring) + 1) == NULL);
	payload = sc_ring_begin(ring, sc_ring_payload_max(ring));
	CHECK(payload != NULL);
	memcpy(payload, "[7,", 3);
	sc_ring_commit(ring, 7);
	CHECK(!sc_ring_find(ring, 6, &old));
	CHECK(sc_ring_find(ring, 7, &old));
	sc_ring_restart(ring, 100);
	CHECK(!sc_ring_holds(ring, &old));
	CHECK(!sc_ring_find(ring, 99, &old));
	CHECK(sc_ring_find(ring, 100, &old));
	CHECK(sc_ring_holds(ring, &old));
	for (uint64_t i = 100; i < 2000; i++) {
		memset(sc_ring_begin(ring, 100), '1', 100);
		sc_ring_commit(ring, i);
	}
	CHECK(!sc_ring_holds(ring, &old));
	sc_ring_free(ring);
	sc_ring_free(NULL);
}
