/*
 * tests/unit/durable/sequence.h: a random sequence of operations, made from its seed and the oracle
 * alone.
 */
#ifndef SC_TESTS_SEQUENCE_H
#define SC_TESTS_SEQUENCE_H

#include <stdlib.h>

#include "../check.h"
#include "oracle.h"

#define EVERY_MS 600000ll

static uint64_t rng;

static inline unsigned roll(unsigned sides)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (unsigned)((rng >> 11) % sides);
}

enum op_kind { PUT, POST, DELETE, TRIM, SEAL, READ, HEAD, CLOCK, UPKEEP, COMPARE, REOPEN, CRASH };

struct op {
	enum op_kind kind;
	int path, group;
	struct o_put put;
	struct o_post post;
	uint64_t at;
	int64_t step_us;
	int offset; /* of a READ: 0 -1, 1 now, 2 at */
	bool in_flight;
	unsigned delay_us;
	bool spell_zero;
	bool keep; /* a write: handed over with the next one */
};

static inline struct o_message random_message(bool json)
{
	struct o_message m;

	m.len = snprintf(m.text, sizeof(m.text), json ? "{\"n\": %u}" : "m%u", roll(100000));
	return m;
}

static inline struct o_body random_body(bool json)
{
	struct o_body body = { .count = 0 };

	if (roll(8) == 0)
		return body;
	if (json && roll(10) == 0) {
		body.broken = true;
		return body;
	}
	if (json) {
		body.array = roll(2);
		body.count = body.array ? (int)roll(4) : 1;
	} else {
		body.count = 1;
	}
	for (int i = 0; i < body.count; i++)
		body.messages[i] = random_message(json);
	return body;
}

static inline uint64_t random_offset(struct oracle *o, int path)
{
	struct o_stream *s = o_get(o, path);

	if (!s)
		return roll(3) * 6;
	switch (roll(10)) {
	case 0:
		return o_tail(s) + roll(2) * 3;
	case 1:
		return roll((unsigned)o_tail(s) + 1);
	default:
		return o_offset(s, (int)roll((unsigned)s->count + 1));
	}
}

static inline int random_type(void)
{
	return roll(3) ? T_JSON : T_TEXT;
}

static inline void random_put(struct oracle *o, struct op *op)
{
	struct o_put *put = &op->put;
	struct o_stream *there = o_get(o, op->path), *source;

	put->path = op->path;
	put->config = (struct o_config){ .from = NONE };
	put->closed = roll(8) == 0;
	if (there && roll(2)) {
		put->config = there->asked; /* the same again, or nearly */
		put->closed = there->closed;
		if (roll(3))
			return;
	}
	put->config.type = random_type();
	if (roll(3) == 0) {
		put->config.life = roll(2) ? L_TTL : L_EXPIRY;
		put->config.expires_us = o->now_us + 900 * 1000000ll * (1 + roll(2));
	}
	if (roll(2) == 0) {
		put->config.from = (int)roll(PATHS);
		put->config.offset_kind = (int)roll(3);
		put->config.offset = random_offset(o, put->config.from);
		put->config.sub = roll(3) ? 0 : (int)roll(5);
		if (roll(2))
			put->config.type = T_NONE;
	}
	source = put->config.from == NONE ? NULL : o_get(o, put->config.from);
	put->body = random_body(put->config.type == T_NONE ? source && source->json
							   : put->config.type == T_JSON);
}

static inline void random_post(struct oracle *o, struct op *op)
{
	struct o_post *post = &op->post;
	struct o_stream *s = o_get(o, op->path);

	post->path = op->path;
	post->type = s && roll(10) ? (s->json ? T_JSON : T_TEXT) : (int)roll(3);
	post->closed = roll(14) == 0;
	post->has_producer = roll(2);
	post->producer = (int)roll(2);
	if (post->has_producer && s && s->producers[post->producer].known) {
		post->epoch = s->producers[post->producer].epoch + (roll(8) ? 0 : (int)roll(3) - 1);
		post->seq_no = s->producers[post->producer].seq + (roll(4) ? 1 : (int)roll(4) - 1);
		if (roll(12) == 0)
			post->seq_no = 0;
	} else {
		post->epoch = (int)roll(2);
		post->seq_no = roll(4) == 0;
	}
	if (post->epoch < 0)
		post->epoch = 0;
	if (post->seq_no < 0)
		post->seq_no = 0;
	if (roll(4) == 0)
		snprintf(post->seq, sizeof(post->seq), "%u", roll(1000));
	post->body = random_body(s ? s->json : roll(2));
	if (s && s->count + 4 > MESSAGES)
		post->body = (struct o_body){ .count = 0 };
}

static inline struct op random_op(struct oracle *o)
{
	struct op op = { .path = (int)roll(PATHS) };
	unsigned what = roll(1000);

	op.spell_zero = roll(2);
	op.keep = roll(4);
	if (what < 160) {
		op.kind = PUT;
		random_put(o, &op);
	} else if (what < 560) {
		op.kind = POST;
		random_post(o, &op);
	} else if (what < 610) {
		op.kind = DELETE;
	} else if (what < 660) {
		op.kind = TRIM;
		op.at = random_offset(o, op.path);
	} else if (what < 662) {
		op.kind = SEAL;
		op.group = (int)roll(3);
	} else if (what < 820) {
		op.kind = READ;
		op.offset = (int)roll(4);
		op.at = random_offset(o, op.path);
	} else if (what < 860) {
		op.kind = HEAD;
	} else if (what < 920) {
		op.kind = CLOCK;
		/* no step may bring a deadline near an access that a crash can lose (a tenth) */
		op.step_us = roll(4) ? 1000000 : EVERY_MS * 1000;
	} else if (what < 945) {
		op.kind = UPKEEP;
	} else if (what < 975) {
		op.kind = COMPARE;
	} else if (what < 985) {
		op.kind = REOPEN;
	} else {
		op.kind = CRASH;
		op.in_flight = roll(2);
		op.delay_us = roll(3000);
		random_post(o, &op);
	}
	return op;
}

#endif
