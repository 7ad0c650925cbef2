/* sc_stream_attach, sc_stream_greet: how a connection begins. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cast/stream_internal.h"
#include "wire/greeting.h"
#include "wire/head.h"

/* Rows in the archive are counted by their distance: to look would be to ask it. */
static int64_t count_from(void *arg, uint64_t offset)
{
	struct sc_stream *s = arg;
	struct sc_log_state state;
	uint64_t rows, below = 0;

	if (sc_log_state(s->log, &state, NULL) < 0)
		return -1;
	if (offset < state.first_offset) {
		below = state.first_offset - offset;
		offset = state.first_offset;
	}
	if (sc_log_count_from(s->log, offset, &rows, NULL) < 0)
		return -1;
	return rows + below > INT64_MAX ? INT64_MAX : (int64_t)(rows + below);
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
	rc = sc_log_reload(s->log, err); /* others may change the schema */
	if (rc >= 0)
		rc = sc_log_state(s->log, ret_state, err);
	if (rc < 0)
		return rc;
	g->durable = true;
	g->has_end = true;
	g->end_offset = ret_state->next_offset;
	g->stream_id = sc_span_str(sc_log_stream_id(s->log));
	if (s->archive_shown)
		g->sc_archive = sc_span_str(s->archive_shown);
	if (sc_log_schema(s->log))
		g->schema = sc_schema_text(sc_log_schema(s->log));
	return 0;
}

/* 1: refused; else *ret_start. Rows are held from FIRST on. */
static int decide(struct sc_stream *s, uint64_t offset, uint64_t first,
		  const struct sc_log_state *state, uint64_t *ret_start, struct sc_refusal *r)
{
	struct sc_resume at = {
		.durable = s->log != NULL,
		.bounded = s->settings.bounded_replay,
		.wire = s->wire,
		.first_offset = first,
		.end_offset = state->next_offset,
		.max_replay = s->settings.max_replay,
	};

	if (sc_resume_decide(&at, offset, count_from, s, ret_start, r))
		return 0;
	s->stats.refused[r->why]++;
	return 1;
}

static void tell_replay(struct sc_greeting *g, const struct sc_log_state *state, uint64_t start)
{
	g->has_replay = true;
	g->replay_first = start;
	g->replay_end = state->next_offset;
}

/* 1: refused. */
static int resume(struct sc_stream *s, const struct sc_target *target,
		  const struct sc_log_state *state, struct sc_greeting *g,
		  struct sc_subscriber *sub, struct sc_refusal *r, struct sc_err *err)
{
	uint64_t first = state->first_offset, start;
	bool below = target->offset ? target->offset < first : state->floor > 1;
	int rc;

	if (below && sc_stream_replays_archive(s)) {
		/* Unless it is too old for any archive, that one is asked what it has. */
		rc = target->offset ? decide(s, target->offset, 1, state, &start, r) : 0;
		if (rc == 0)
			rc = sc_subscriber_enter_archive(sub, target->offset, false, err);
		sub->asking = true;
		sub->asked = sub->want = target->offset;
		return rc;
	}
	rc = decide(s, target->offset, first, state, &start, r);
	if (rc == 0) {
		sub->want = start;
		tell_replay(g, state, start);
	} else if (r->why == SC_WHY_AHEAD) {
		/* An offset beyond 64 bits is named as it came. */
		memcpy(r->offset_digits, target->offset_digits, sizeof(r->offset_digits));
	}
	return rc;
}

/* With room for the frame's head in front. */
static int build(struct sc_subscriber *sub, const struct sc_greeting *g, struct sc_err *err)
{
	static const char room[SC_HEAD_MAX];

	if (sc_bytes_put(&sub->greeting, room, sizeof(room)) == 0 &&
	    sc_greeting_build(g, &sub->greeting) == 0)
		return 0;
	sc_bytes_done(&sub->greeting);
	return sc_err_nomem(err, "cannot take a subscriber");
}

int sc_subscriber_begin(struct sc_subscriber *sub, uint64_t first, struct sc_refusal *ret_refusal,
			struct sc_err *err)
{
	struct sc_log_state state;
	struct sc_greeting g;
	uint64_t start;
	int rc = describe(sub->stream, &g, &state, err);

	if (rc == 0)
		rc = decide(sub->stream, sub->asked, first, &state, &start, ret_refusal);
	if (rc != 0)
		return rc;
	if (sub->where)
		g.where = sc_where_text(sub->where);
	tell_replay(&g, &state, start);
	sub->want = start;
	return build(sub, &g, err);
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
	int rc;

	if (!sub)
		return sc_err_nomem(err, tried);
	sub->stream = s;
	sub->arg = arg;
	sub->place = SC_PLACE_LOG;
	sc_bytes_init(&sub->greeting, SIZE_MAX);
	sc_bytes_init(&sub->kept, SIZE_MAX);
	rc = describe(s, &g, &state, err);
	if (rc == 0 && target->has_where)
		rc = filter(s, target, &g, sub, ret_refusal, err);
	sub->want = state.next_offset;
	if (rc == 0 && target->has_offset)
		rc = resume(s, target, &state, &g, sub, ret_refusal, err);
	if (rc == 0 && !sub->asking)
		rc = build(sub, &g, err);
	if (rc != 0) {
		sc_subscriber_leave_archive(sub);
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

int sc_stream_greet(struct sc_stream *s, struct sc_span producer, struct sc_bytes *out,
		    struct sc_err *err)
{
	struct sc_log_produced produced = { 0 };
	struct sc_log_state state;
	struct sc_greeting g;
	int rc = describe(s, &g, &state, err);

	if (rc == 0 && s->log && producer.len) {
		rc = sc_log_producer(s->log, producer, &produced, err);
		g.tells_producer = true;
		g.has_producer = rc == 1;
		g.producer_epoch = produced.epoch;
		g.producer_seq = produced.seq_last;
		rc = rc < 0 ? rc : 0;
	}
	if (rc == 0 && sc_greeting_build(&g, out) < 0)
		rc = sc_err_nomem(err, "cannot take a publisher");
	return rc;
}
