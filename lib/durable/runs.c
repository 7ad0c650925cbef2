/*
 * runs.c: messages read through a chain of forks. What is below a fork's fork_at is its source's;
 * each stream of the chain holds its own part as runs of whole frames, without a gap.
 */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "durable/engine_internal.h"

#define SPARE_BYTES 256u

#define NEAR_LINKS 8u /* of a chain, without memory of their own */

/* A stream of a chain: what is below fork_at is its source's. */
struct link {
	uint64_t sid, source, fork_at;
};

struct walk {
	struct sc_kv_txn *txn;
	const struct sc_ds_stream *stream;
	struct sc_kv_cursor *cursor;
	struct link near[NEAR_LINKS],
		*chain;        /* from the stream on; chain: instead of near, or NULL */
	size_t known;          /* of the chain */
	uint64_t owner, upper; /* who holds what is at `at`, and up to where */
	uint64_t at;           /* a boundary, once found */
	struct sc_span run;    /* the rest of the run from `at` on; empty: look for it */
};

static struct link *link_at(struct walk *w, size_t at)
{
	return w->chain ? &w->chain[at] : &w->near[at];
}

/* One more of the chain: each is looked up once a read, however often the owner changes. */
static int look_up(struct walk *w, struct sc_err *err)
{
	struct sc_ds_stream source;
	uint64_t sid = link_at(w, w->known - 1)->source;
	int rc = sc_ds_load_sid(w->txn, sid, &source, err);

	if (rc == 0 || (rc == 1 && w->known > SC_DS_FORK_DEPTH_MAX))
		return sc_ds_damaged(
			err, rc ? "it is its own source" : "a fork's source is missing", sid);
	if (rc == 1 && w->known == NEAR_LINKS) {
		w->chain = sc_malloc((SC_DS_FORK_DEPTH_MAX + 1) * sizeof(*w->chain));
		if (!w->chain)
			return sc_err_nomem(err, "cannot read a stream");
		memcpy(w->chain, w->near, sizeof(w->near));
	}
	if (rc == 1)
		*link_at(w, w->known++) = (struct link){ source.sid, source.source_sid,
							 source.fork_at };
	return rc < 0 ? rc : 0;
}

/* Whose part AT is in. */
static int find_owner(struct walk *w, struct sc_err *err)
{
	size_t i = 0;

	w->upper = w->stream->tail;
	while (link_at(w, i)->source && w->at < link_at(w, i)->fork_at) {
		if (link_at(w, i)->fork_at < w->upper)
			w->upper = link_at(w, i)->fork_at;
		if (++i == w->known) {
			int rc = look_up(w, err);

			if (rc < 0)
				return rc;
		}
	}
	w->owner = link_at(w, i)->sid;
	w->run = sc_span(NULL, 0);
	return 0;
}

static void done(struct walk *w)
{
	sc_kv_cursor_close(w->cursor);
	free(w->chain);
}

/* The run that holds w->at: 1 = w->run begins there; 0 = it is inside a message. */
static int find_run(struct walk *w, struct sc_err *err)
{
	struct sc_span key, run, message;
	struct sc_ds_key want;
	uint64_t start, skip;
	int rc;

	sc_ds_key2(&want, w->owner, w->at);
	rc = sc_kv_cursor_floor(w->cursor, sc_ds_key_span(&want), &key, &run, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || key.len != 16 || sc_ds_get_be64(key.data) != w->owner)
		return sc_ds_damaged(err, "messages are missing", w->owner);
	start = sc_ds_get_be64(key.data + 8);
	skip = w->at - start;
	if (skip >= run.len)
		return sc_ds_damaged(err, "messages are missing", w->owner);
	sc_kv_fetch(run);
	while (skip > 0) {
		if (!sc_ds_frame_first(run, &message))
			return sc_ds_damaged(err, "a run of messages is torn", w->owner);
		if (SC_DS_FRAME_HEAD + message.len > skip)
			return 0;
		skip -= SC_DS_FRAME_HEAD + message.len;
		run = sc_span(message.data + message.len, run.len - SC_DS_FRAME_HEAD - message.len);
	}
	w->run = run;
	return 1;
}

static int start(struct walk *w, struct sc_kv_txn *txn, const struct sc_ds_stream *stream,
		 uint64_t at, struct sc_err *err)
{
	int rc;

	*w = (struct walk){ .txn = txn, .stream = stream, .at = at, .known = 1 };
	w->near[0] = (struct link){ stream->sid, stream->source_sid, stream->fork_at };
	rc = sc_kv_cursor_open(txn, SC_DS_RUNS, &w->cursor, err);
	return rc < 0 ? rc : find_owner(w, err);
}

/* The next run of the same owner is the next row; or another owner's turn comes. */
static int next_run(struct walk *w, struct sc_err *err)
{
	struct sc_span key, run;
	int rc;

	if (w->at >= w->upper) {
		rc = find_owner(w, err);
		return rc < 0 ? rc : find_run(w, err);
	}
	rc = sc_kv_cursor_move(w->cursor, SC_KV_NEXT, &key, &run, err);
	if (rc < 0)
		return rc;
	if (rc == 0 || key.len != 16 || sc_ds_get_be64(key.data) != w->owner ||
	    sc_ds_get_be64(key.data + 8) != w->at)
		return sc_ds_damaged(err, "messages are missing", w->owner);
	sc_kv_fetch(run);
	w->run = run;
	return 1;
}

/* 1 = a message; 0 = the end of the stream. Only after a find_run that said 1. */
static int next(struct walk *w, struct sc_span *ret_message, struct sc_err *err)
{
	int rc;

	if (w->at >= w->stream->tail)
		return 0;
	if (w->at >= w->upper || !w->run.len) {
		rc = next_run(w, err);
		if (rc <= 0)
			return rc < 0 ? rc
				      : sc_ds_damaged(err, "a fork begins inside a message",
						      w->owner);
	}
	if (!sc_ds_frame_first(w->run, ret_message))
		return sc_ds_damaged(err, "a run of messages is torn", w->owner);
	w->at += SC_DS_FRAME_HEAD + ret_message->len;
	w->run = sc_span(ret_message->data + ret_message->len,
			 w->run.len - SC_DS_FRAME_HEAD - ret_message->len);
	return 1;
}

/* Where a read has got to. */
struct sink {
	const struct sc_ds_pages *to;
	uint64_t at;   /* bytes so far */
	bool has_room; /* for what is likely to come, REST bytes of the stream at most */
	uint64_t rest;
};

static int copy(struct sink *s, const char *mark, struct sc_span message)
{
	struct sc_bytes *body = s->to->body;
	uint64_t more = s->rest < s->to->limit ? s->rest : s->to->limit;
	size_t len = message.len + s->to->json;
	int rc;

	if (!s->has_room)
		sc_bytes_reserve(body, more + SPARE_BYTES); /* without it, it comes in steps */
	s->has_room = true;
	rc = sc_bytes_reserve(body, len + 1);
	if (rc < 0)
		return rc;
	if (s->to->json)
		body->data[body->len] = *mark;
	memcpy(body->data + body->len + s->to->json, message.data, message.len);
	body->len += len;
	if (s->to->loan)
		sc_ds_loan_copied(s->to->loan, len);
	return 0;
}

static int lend(struct sink *s, const char *mark, struct sc_span message)
{
	int rc = 0;

	if (s->to->json) {
		rc = sc_bytes_put(s->to->body, mark, 1);
		sc_ds_loan_copied(s->to->loan, 1);
	}
	sc_ds_loan_lend(s->to->loan, message);
	return rc;
}

static int take(struct walk *w, struct sink *s, struct sc_err *err)
{
	struct sc_span message;
	int rc;

	while ((rc = next(w, &message, err)) == 1) {
		const char *mark = s->at ? "," : "[";
		bool stays = s->to->loan && sc_ds_loan_may(s->to->loan, message);

		s->rest = w->stream->tail - w->at + message.len;
		if ((stays ? lend(s, mark, message) : copy(s, mark, message)) < 0)
			return sc_err_nomem(err, "cannot read a stream");
		s->at += message.len + s->to->json;
		if (s->at >= s->to->limit)
			break;
	}
	return rc;
}

/* The end of an array. */
static int put_end(struct sink *s)
{
	struct sc_span end = s->at ? SC_SPAN("]") : SC_SPAN("[]");

	if (!s->to->json)
		return 0;
	if (s->to->loan)
		sc_ds_loan_copied(s->to->loan, end.len);
	return sc_bytes_put(s->to->body, end.data, end.len);
}

int sc_ds_runs_read(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t from,
		    const struct sc_ds_pages *pages, uint64_t *ret_end, struct sc_err *err)
{
	struct walk w = { .cursor = NULL };
	struct sink s = { .to = pages };
	int rc = 1;

	if (from < stream->tail) {
		rc = start(&w, txn, stream, from, err);
		if (rc == 0)
			rc = find_run(&w, err);
		if (rc == 1) {
			rc = take(&w, &s, err);
			rc = rc < 0 ? rc : 1;
		}
	} else {
		w.at = from;
	}
	if (rc == 1 && put_end(&s) < 0)
		rc = sc_err_nomem(err, "cannot read a stream");
	if (rc == 1)
		*ret_end = w.at;
	done(&w);
	return rc;
}

int sc_ds_runs_point(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t at,
		     bool json, uint64_t count, struct sc_ds_point *ret_point, struct sc_err *err)
{
	struct sc_ds_point point = { .boundary = true, .json_at = at };
	struct walk w = { .cursor = NULL };
	struct sc_span message;
	int rc = 1;

	/* at the tail there is nothing to look at, and what was trimmed may be away */
	if (at < stream->tail && at >= stream->first) {
		rc = start(&w, txn, stream, at, err);
		if (rc == 0)
			rc = find_run(&w, err);
		point.boundary = rc == 1;
		if (rc == 1 && count && !json && (rc = next(&w, &message, err)) == 1)
			point.message = message;
		for (; rc == 1 && json && count; count--)
			rc = next(&w, &message, err);
		point.json_at = w.at;
	}
	point.json_reached = json && rc == 1 && count == 0;
	done(&w);
	if (rc >= 0)
		*ret_point = point;
	return rc < 0 ? rc : 0;
}

int sc_ds_runs_boundary(struct sc_kv_txn *txn, const struct sc_ds_stream *stream, uint64_t at,
			struct sc_err *err)
{
	struct sc_ds_point point;
	int rc = sc_ds_runs_point(txn, stream, at, false, 0, &point, err);

	return rc < 0 ? rc : point.boundary;
}
