/* sc_stream_attach, sc_stream_greet: how a connection begins. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cast/stream_internal.h"
#include "wire/greeting.h"
#include "wire/head.h"

static int64_t count_from(void *arg, uint64_t offset)
{
	struct sc_stream *s = arg;
	uint64_t rows;

	if (sc_log_count_from(s->log, offset, &rows, NULL) < 0)
		return -1;
	return rows > INT64_MAX ? INT64_MAX : (int64_t)rows;
}

/* What all greetings of the stream say; *ret_state is the frontier of this moment. */
static int describe(struct sc_stream *s, struct sc_greeting *g, struct sc_log_state *ret_state,
		    struct sc_err *err)
{
	int rc;

	memset(g, 0, sizeof(*g));
	memset(ret_state, 0, sizeof(*ret_state));
	g->wire = s->wire;
	g->stream = sc_span_str(s->name);
	g->group_commit = s->settings.publish && s->log;
	if (!s->log)
		return 0;
	rc = sc_log_state(s->log, ret_state, err);
	if (rc < 0)
		return rc;
	g->durable = true;
	g->has_end = true;
	g->end_offset = ret_state->next_offset;
	g->stream_id = sc_span_str(sc_log_stream_id(s->log));
	if (sc_log_schema(s->log))
		g->schema = sc_schema_text(sc_log_schema(s->log));
	return 0;
}

/* 1: refused. */
static int resume(struct sc_stream *s, const struct sc_target *target,
		  const struct sc_log_state *state, struct sc_greeting *g,
		  struct sc_subscriber *sub, struct sc_refusal *r)
{
	struct sc_resume at = {
		.durable = s->log != NULL,
		.bounded = s->settings.bounded_replay,
		.wire = s->wire,
		.first_offset = state->first_offset,
		.end_offset = state->next_offset,
		.max_replay = s->settings.max_replay,
	};
	uint64_t start;

	if (!sc_resume_decide(&at, target->offset, count_from, s, &start, r)) {
		/* An offset beyond 64 bits is named as it came. */
		if (r->why == SC_WHY_AHEAD)
			memcpy(r->offset_digits, target->offset_digits, sizeof(r->offset_digits));
		s->stats.refused[r->why]++;
		return 1;
	}
	sub->want = start;
	g->has_replay = true;
	g->replay_first = start;
	g->replay_end = state->next_offset;
	return 0;
}

static int filter(struct sc_stream *s, const struct sc_target *target, struct sc_greeting *g,
		  struct sc_subscriber *sub, struct sc_refusal *r, struct sc_err *err)
{
	struct sc_err why;
	int rc;

	sc_err_clear(&why);
	rc = sc_where_parse(target->where, s->log ? sc_log_schema(s->log) : NULL, &sub->where,
			    &why);
	if (rc == SC_E_DATA) {
		sc_refusal_init(r, SC_REFUSAL_BAD_REQUEST);
		r->wire = s->wire;
		sc_refusal_detail(r, "where: %s", why.reason);
		s->stats.refused_bad++;
		return 1;
	}
	if (rc < 0)
		return sc_err_nomem(err, "cannot take a subscriber");
	g->where = sc_where_text(sub->where);
	return 0;
}

int sc_stream_attach(struct sc_stream *s, const struct sc_target *target, void *arg,
		     struct sc_subscriber **ret_subscriber, struct sc_refusal *ret_refusal,
		     struct sc_err *err)
{
	static const char tried[] = "cannot take a subscriber";
	struct sc_subscriber *sub = sc_calloc(1, sizeof(*sub));
	struct sc_log_state state;
	struct sc_greeting g;
	static const char room[SC_HEAD_MAX];
	int rc;

	if (!sub)
		return sc_err_nomem(err, tried);
	sub->stream = s;
	sub->arg = arg;
	sc_bytes_init(&sub->greeting, SIZE_MAX);
	rc = describe(s, &g, &state, err);
	if (rc == 0 && target->has_where)
		rc = filter(s, target, &g, sub, ret_refusal, err);
	sub->want = state.next_offset;
	if (rc == 0 && target->has_offset)
		rc = resume(s, target, &state, &g, sub, ret_refusal);
	if (rc == 0 && (sc_bytes_put(&sub->greeting, room, sizeof(room)) < 0 ||
			sc_greeting_build(&g, &sub->greeting) < 0))
		rc = sc_err_nomem(err, tried);
	if (rc != 0) {
		sc_where_free(sub->where);
		sc_bytes_done(&sub->greeting);
		free(sub);
		return rc;
	}
	if (!s->log) {
		sub->place = SC_PLACE_RING;
		sub->at = *sc_ring_head(s->ring);
		sub->was_live = true;
	}
	sub->all.next = s->all;
	if (s->all)
		s->all->all.prev = sub;
	s->all = sub;
	s->stats.subscribers++;
	s->stats.attached++;
	*ret_subscriber = sub;
	return 0;
}

int sc_stream_greet(struct sc_stream *s, struct sc_bytes *out, struct sc_err *err)
{
	struct sc_log_state state;
	struct sc_greeting g;
	int rc = describe(s, &g, &state, err);

	if (rc == 0 && sc_greeting_build(&g, out) < 0)
		rc = sc_err_nomem(err, "cannot take a publisher");
	return rc;
}
