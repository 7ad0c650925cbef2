/* client/session.c: one consumer's subscription over any number of connections. */
#include "client/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "json/line.h"
#include "wire/target.h"
#include "wire/where.h"

struct sc_session {
	struct sc_session_options o;
	struct sc_bytes path;  /* the target up to '?' */
	struct sc_bytes query; /* its query without an offset; may be empty */
	bool has_next;         /* next: where to resume, 0 = earliest */
	uint64_t next;
	uint64_t rows, delivered;
	bool past; /* a row beyond the range came: it is complete */
	bool greeted, ever_greeted;
	struct sc_bytes store;     /* the greeting's texts */
	struct sc_bytes stream_id; /* the first greeting's: another one means another log */
	struct sc_greeting greeting;
	struct sc_data_order order;
	bool has_end;
	uint64_t end; /* until_end: stop below this */
	bool has_gap;
	struct sc_gap gap;
	unsigned slow; /* times dropped as too slow since the last progress */
	uint64_t slow_rows;
	/* catching up */
	unsigned round;            /* since the last connection that was accepted */
	struct sc_refusal refusal; /* the one that began the round */
	struct sc_bytes archive;   /* where the server says that the archive is */
	bool where_known;
	struct sc_where *where; /* the filter in the URL, for archived rows; NULL: none */
};

/* Take "offset=" out of the query: it is ours to say from the second connection on. false: there
 * are two. */
static int split_target(struct sc_session *s, const char *target, struct sc_span *ret_offset)
{
	const char *question = strchr(target, '?');
	size_t path_len = question ? (size_t)(question - target) : strlen(target);
	int rc = sc_bytes_put(&s->path, target, path_len);

	*ret_offset = sc_span(NULL, 0);
	for (const char *at = question ? question + 1 : ""; rc == 0 && *at;) {
		size_t len = strcspn(at, "&");

		if (len >= 7 && !memcmp(at, "offset=", 7)) {
			*ret_offset = sc_span(at + 7, len - 7);
		} else if (len > 0) {
			if (s->query.len > 0)
				rc = sc_bytes_putc(&s->query, '&');
			if (rc == 0)
				rc = sc_bytes_put(&s->query, at, len);
		}
		at += len + (at[len] == '&');
	}
	return rc;
}

static int take_url_offset(struct sc_session *s, struct sc_span text, struct sc_err *err)
{
	char digits[SC_REASON_MAX + 1];
	bool negative;

	if (s->o.has_offset) {
		sc_err_set(err, SC_E_USAGE, "cannot subscribe",
			   "the URL names an offset, and so does an option");
		return sc_err_next(err, "leave one of them out");
	}
	if (!sc_target_integer(text, &negative, &s->next, digits, sizeof(digits)) ||
	    (negative && s->next)) {
		sc_err_set(err, SC_E_USAGE, "cannot subscribe",
			   "the URL's offset '%.*s' is no offset",
			   (int)(text.len < 60 ? text.len : 60), text.data);
		return sc_err_next(err, "give a number of 1 or more, or 0 for the earliest");
	}
	s->has_next = true;
	return 0;
}

int sc_session_new(const struct sc_session_options *options, struct sc_session **ret_session,
		   struct sc_err *err)
{
	struct sc_session *s = sc_calloc(1, sizeof(*s));
	struct sc_span offset;
	int rc;

	if (!s)
		return sc_err_nomem(err, "cannot set up a subscription");
	s->o = *options;
	sc_bytes_init(&s->path, 1 << 20);
	sc_bytes_init(&s->query, 1 << 20);
	sc_bytes_init(&s->store, 1 << 20);
	sc_bytes_init(&s->stream_id, 1024);
	sc_bytes_init(&s->archive, 1 << 16);
	s->has_next = options->has_offset;
	s->next = options->offset;
	if (split_target(s, options->target, &offset) < 0 || !sc_bytes_str(&s->path))
		rc = sc_err_nomem(err, "cannot set up a subscription");
	else
		rc = offset.data ? take_url_offset(s, offset, err) : 0;
	if (rc < 0) {
		sc_session_free(s);
		return rc;
	}
	*ret_session = s;
	return 0;
}

void sc_session_free(struct sc_session *s)
{
	if (!s)
		return;
	sc_bytes_done(&s->path);
	sc_bytes_done(&s->query);
	sc_bytes_done(&s->store);
	sc_bytes_done(&s->stream_id);
	sc_bytes_done(&s->archive);
	sc_where_free(s->where);
	free(s);
}

static int put_target(struct sc_session *s, bool offset, struct sc_bytes *out, struct sc_err *err)
{
	int rc;

	sc_bytes_clear(out);
	rc = sc_bytes_put(out, s->path.data, s->path.len);
	if (rc == 0 && s->query.len > 0)
		rc = sc_bytes_putc(out, '?');
	if (rc == 0)
		rc = sc_bytes_put(out, s->query.data, s->query.len);
	if (rc == 0 && offset) {
		rc = sc_bytes_puts(out, s->query.len > 0 ? "&offset=" : "?offset=");
		if (rc == 0)
			rc = sc_bytes_put_u64(out, s->next);
	}
	return rc < 0 ? sc_err_nomem(err, "cannot subscribe") : 0;
}

int sc_session_target(struct sc_session *s, struct sc_bytes *out, struct sc_err *err)
{
	return put_target(s, s->has_next, out, err);
}

int sc_session_peek_target(struct sc_session *s, struct sc_bytes *out, struct sc_err *err)
{
	return put_target(s, false, out, err);
}

void sc_session_connected(struct sc_session *s)
{
	s->greeted = false;
}

static bool same_id(const struct sc_session *s, struct sc_span id)
{
	return s->stream_id.len == id.len && !memcmp(s->stream_id.data, id.data, id.len);
}

/* The same log as before? A server that was rebuilt gives offsets that mean other rows. */
static int check_identity(struct sc_session *s, struct sc_err *err)
{
	struct sc_span id = s->greeting.stream_id;

	if (id.len == 0 || id.len > 512)
		return 0;
	if (s->stream_id.len == 0)
		return sc_bytes_put(&s->stream_id, id.data, id.len) < 0
			       ? sc_err_nomem(err, "cannot subscribe")
			       : 0;
	if (same_id(s, id))
		return 0;
	sc_err_set(err, SC_E_REFUSED, "cannot resume",
		   "the server has another log now (stream id %.*s, before %.*s)", (int)id.len,
		   id.data, (int)s->stream_id.len, s->stream_id.data);
	sc_err_field_str(err, "why", "other_log");
	return sc_err_next(
		err, "its offsets are not those of before: start again with --offset earliest");
}

/* The texts stay in s->store until the next one. */
static int parse_greeting(struct sc_session *s, struct sc_span message, bool binary,
			  struct sc_err *err)
{
	struct sc_span at;
	int rc;

	if (binary) {
		sc_err_set(err, SC_E_PROTOCOL, "cannot subscribe",
			   "the first message is binary, not a greeting");
		return sc_err_next(err,
				   "is this a streamcast server? use sc-capture for other feeds");
	}
	rc = sc_greeting_parse(message, &s->store, &s->greeting, err);
	if (rc < 0)
		return rc;
	at = s->greeting.sc_archive.len ? s->greeting.sc_archive : s->greeting.archive;
	if (at.len && !memchr(at.data, 0, at.len)) {
		sc_bytes_clear(&s->archive);
		if (sc_bytes_put(&s->archive, at.data, at.len) < 0 || !sc_bytes_str(&s->archive))
			return sc_err_nomem(err, "cannot subscribe");
	}
	return check_identity(s, err);
}

static void note_end(struct sc_session *s)
{
	if (!s->o.until_end || s->has_end)
		return;
	s->has_end = true;
	s->end = s->greeting.has_end ? s->greeting.end_offset : 0;
}

static int take_greeting(struct sc_session *s, struct sc_span message, bool binary,
			 struct sc_err *err)
{
	uint64_t next = s->next;
	int rc = parse_greeting(s, message, binary, err);

	if (rc < 0)
		return rc;
	s->round = 0;
	s->order.triples = sc_wire_triples(s->greeting.wire);
	if (!s->greeting.durable && s->ever_greeted) { /* what was sent meanwhile is gone */
		s->has_gap = true;
		s->gap = (struct sc_gap){ false, 0, 0 };
	}
	if (s->greeting.durable && s->greeting.has_end) {
		if (!s->has_next) { /* live: what comes from here on must not be missed by a reconnect */
			s->has_next = true;
			s->next = s->greeting.end_offset;
		} else if (next == 0 && s->greeting.has_replay) {
			s->next = s->greeting.replay_first;
		}
	}
	note_end(s);
	s->greeted = s->ever_greeted = true;
	return 0;
}

/* An offset that is not the next one: a gap is noted, a step back is a fault. */
static int note_gap(struct sc_session *s, uint64_t offset, struct sc_err *err)
{
	if (!s->has_next || s->next == 0 || offset == s->next)
		return 0;
	if (offset > s->next && s->greeting.where.len > 0)
		return 0; /* the server's filter leaves rows out */
	if (offset < s->next) {
		sc_err_set(err, SC_E_PROTOCOL, "cannot go on",
			   "offset %llu came, below %llu which was asked for",
			   (unsigned long long)offset, (unsigned long long)s->next);
		return sc_err_next(err, "the server repeats rows: report it to whoever runs it");
	}
	s->has_gap = true;
	s->gap = (struct sc_gap){ true, s->next, offset - 1 };
	if (!s->o.contiguous)
		return 0;
	sc_err_set(err, SC_E_PROTOCOL, "cannot go on", "offset %llu came where %llu was due",
		   (unsigned long long)offset, (unsigned long long)s->next);
	sc_err_field_u64(err, "offset", offset);
	sc_err_field_u64(err, "expected", s->next);
	return sc_err_next(err, "offsets may leave some out after a restore: without --contiguous "
				"they are let pass");
}

/* A row that is due: is it what was asked for? */
static int take_row(struct sc_session *s, const struct sc_data *row, enum sc_session_step *ret_step,
		    struct sc_err *err)
{
	int rc;

	if ((s->o.to && row->offset > s->o.to) || (s->has_end && row->offset >= s->end)) {
		s->past = true;
		*ret_step = SC_STEP_PAST;
		return 0;
	}
	rc = note_gap(s, row->offset, err);
	if (rc < 0)
		return rc;
	s->has_next = true;
	s->next = row->offset + 1;
	*ret_step = SC_STEP_ROW;
	return 0;
}

int sc_session_message(struct sc_session *s, struct sc_span message, bool binary,
		       enum sc_session_step *ret_step, struct sc_data *ret_row, struct sc_err *err)
{
	int rc;

	if (!s->greeted) {
		rc = take_greeting(s, message, binary, err);
		if (rc == 0)
			*ret_step = SC_STEP_GREETED;
		return rc;
	}
	rc = sc_data_parse(&s->order, message, ret_row, err);
	if (rc < 0)
		return rc;
	*ret_step = SC_STEP_ROW;
	rc = ret_row->has_offset ? take_row(s, ret_row, ret_step, err) : 0;
	if (rc == 0 && *ret_step == SC_STEP_ROW)
		s->rows++;
	return rc;
}

bool sc_session_gap(struct sc_session *s, struct sc_gap *ret_gap)
{
	if (!s->has_gap)
		return false;
	s->has_gap = false;
	*ret_gap = s->gap;
	return true;
}

static enum sc_session_verdict judge_slow(struct sc_session *s, const struct sc_refusal *refusal,
					  struct sc_err *err)
{
	if (s->rows != s->slow_rows)
		s->slow = 0;
	s->slow_rows = s->rows;
	s->slow++;
	sc_refusal_err(refusal, "cannot keep up", err);
	if (sc_session_resume(s))
		sc_err_field_u64(err, "resume", sc_session_resume(s));
	return s->slow >= SC_SLOW_LIMIT ? SC_VERDICT_FAIL : SC_VERDICT_AGAIN;
}

/* The server does not go back so far. */
static enum sc_session_verdict judge_old(struct sc_session *s, const struct sc_refusal *refusal,
					 struct sc_err *err)
{
	sc_refusal_err(refusal, "cannot subscribe", err);
	if (!s->o.rounds) {
		sc_err_next(err,
			    "read them from the archive with --catch-up, or accept the loss and "
			    "begin %s",
			    refusal->why == SC_WHY_EVICTED ? "with --offset earliest"
							   : "without an offset");
		return SC_VERDICT_FAIL;
	}
	if (s->round == s->o.rounds) {
		struct sc_err last = *err;

		sc_err_set(err, SC_E_REFUSED, "cannot catch up",
			   "the archive was read up to offset %llu in %u rounds, and still %s",
			   (unsigned long long)(s->next ? s->next - 1 : 0), s->round, last.reason);
		memcpy(err->fields, last.fields, sizeof(err->fields));
		sc_err_next(err, "the stream is written faster than it is archived: archive more "
				 "often, or raise --max-replay of the server or --catch-up-rounds");
		sc_err_field_int(err, "rounds", s->round);
		return SC_VERDICT_FAIL;
	}
	s->round++;
	s->refusal = *refusal;
	if (refusal->archive[0]) {
		sc_bytes_clear(&s->archive);
		if (sc_bytes_puts(&s->archive, refusal->archive) < 0 ||
		    !sc_bytes_str(&s->archive)) {
			sc_err_nomem(err, "cannot catch up");
			return SC_VERDICT_FAIL;
		}
	}
	return SC_VERDICT_CATCH_UP;
}

enum sc_session_verdict sc_session_closed(struct sc_session *s, int code, struct sc_span reason,
					  struct sc_err *err)
{
	struct sc_refusal refusal;

	if (sc_session_finished(s))
		return SC_VERDICT_END;
	sc_refusal_parse(code, reason, &refusal);
	if (refusal.kind == SC_REFUSAL_TOO_SLOW)
		return judge_slow(s, &refusal, err);
	if (refusal.kind == SC_REFUSAL_NOT_REPLAYABLE &&
	    (refusal.why == SC_WHY_TOO_OLD || refusal.why == SC_WHY_EVICTED))
		return judge_old(s, &refusal, err);
	if (refusal.kind != SC_REFUSAL_NONE) {
		sc_refusal_err(&refusal, "cannot subscribe", err);
		return SC_VERDICT_FAIL;
	}
	/* 1000: the stream itself has ended; 1001 is a server that will be back, anything else an
	 * accident */
	return code == SC_CLOSE_NORMAL && s->greeted ? SC_VERDICT_END : SC_VERDICT_AGAIN;
}

int sc_session_peeked(struct sc_session *s, struct sc_span message, bool binary, struct sc_err *err)
{
	int rc = parse_greeting(s, message, binary, err);

	if (rc == 0)
		note_end(s);
	return rc;
}

const char *sc_session_archive(const struct sc_session *s)
{
	return s->archive.len ? s->archive.data : "";
}

const char *sc_session_stream(const struct sc_session *s)
{
	return s->path.data + (*s->path.data == '/');
}

/* The filter that the server would have applied. */
static int know_where(struct sc_session *s, struct sc_err *err)
{
	const struct sc_target_rules rules = { .wire = 5 };
	struct sc_refusal refusal;
	struct sc_target target;
	struct sc_bytes text;
	int rc;

	if (s->where_known)
		return 0;
	sc_bytes_init(&text, 2 << 20);
	rc = put_target(s, false, &text, err);
	if (rc == 0) {
		rc = sc_target_parse(sc_span(text.data, text.len), &rules, &target, &refusal, err);
		if (rc == 1)
			rc = sc_err_set(err, SC_E_USAGE, "cannot catch up",
					"the URL's query is not understood, so the archive's rows "
					"cannot be filtered as the server's are");
		if (rc == 0 && target.has_where)
			rc = sc_where_parse(target.where, NULL, &s->where, err);
		sc_target_done(&target);
	}
	sc_bytes_done(&text);
	s->where_known = rc == 0;
	return rc;
}

static int refuse_gap(const struct sc_session *s, const struct sc_session_kept *kept, uint64_t next,
		      struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, "cannot catch up",
		   "neither the server nor the archive '%s' has the rows from offset %llu to %llu",
		   kept->archive, (unsigned long long)s->next, (unsigned long long)next - 1);
	sc_err_next(err, "accept the loss with --offset %llu", (unsigned long long)next);
	sc_err_field_str(err, "why", "gap");
	sc_err_field_u64(err, "first", s->next);
	sc_err_field_u64(err, "last", next - 1);
	return SC_E_REFUSED;
}

/* The archive ends at or below what is wanted. */
static int refuse_end(const struct sc_session *s, const struct sc_session_kept *kept,
		      struct sc_err *err)
{
	const struct sc_refusal *r = &s->refusal;

	if (r->why == SC_WHY_EVICTED && (r->has & SC_HAS_EARLIEST) && r->earliest > s->next)
		return refuse_gap(s, kept, r->earliest, err);
	sc_err_set(err, SC_E_REFUSED, "cannot catch up",
		   "neither the server nor the archive '%s' gives offset %llu: the archive ends at "
		   "%llu",
		   kept->archive, (unsigned long long)s->next, (unsigned long long)kept->next);
	if (r->has & SC_HAS_MAX_REPLAY)
		sc_err_next(err,
			    "the server replays at most %llu rows: raise that, or archive "
			    "more often",
			    (unsigned long long)r->max_replay);
	sc_err_field_str(err, "why", "gap");
	sc_err_field_u64(err, "first", s->next);
	sc_err_field_u64(err, "archive_end", kept->next);
	return SC_E_REFUSED;
}

int sc_session_archive_begin(struct sc_session *s, const struct sc_session_kept *kept,
			     struct sc_err *err)
{
	struct sc_span id = sc_span_str(kept->stream_id);
	bool other = s->stream_id.len && !same_id(s, id);

	if (other && !kept->trusted) {
		sc_err_set(err, SC_E_CONFIG, "cannot catch up",
			   "the archive '%s' is that of another log: its stream id is %s, the "
			   "server's %.*s",
			   kept->archive, kept->stream_id, (int)s->stream_id.len,
			   s->stream_id.data);
		return sc_err_next(err, "name the right one with --archive");
	}
	if (!s->stream_id.len && !kept->trusted && id.len &&
	    sc_bytes_put(&s->stream_id, id.data, id.len) < 0)
		return sc_err_nomem(err, "cannot catch up");
	if (!s->next && kept->first < kept->next)
		s->next = kept->first;
	if (!s->next) {
		sc_err_set(err, SC_E_REFUSED, "cannot catch up", "the archive '%s' holds no row",
			   kept->archive);
		sc_err_field_str(err, "why", "gap");
		return SC_E_REFUSED;
	}
	if (kept->next <= s->next)
		return refuse_end(s, kept, err);
	if (kept->first > s->next)
		return refuse_gap(s, kept, kept->first, err);
	return other;
}

int sc_session_archived(struct sc_session *s, struct sc_span line, enum sc_session_step *ret_step,
			struct sc_data *ret_row, struct sc_err *err)
{
	struct sc_data row = { .has_offset = true, .is_line = true };
	struct sc_line parsed;
	int rc = know_where(s, err);

	if (rc < 0)
		return rc;
	if (!sc_line_parse(line, true, &parsed))
		return sc_err_set(err, SC_E_DATA, "cannot catch up",
				  "a line of the archive is not [offset,msg]");
	row.offset = parsed.offset;
	row.msg = parsed.msg;
	rc = take_row(s, &row, ret_step, err);
	if (rc < 0 || *ret_step == SC_STEP_PAST)
		return rc;
	s->order.has_last = true;
	s->order.last = row.offset;
	*ret_row = row;
	if (s->where) {
		rc = sc_where_match(s->where, row.msg);
		if (rc < 0)
			return sc_err_nomem(err, "cannot catch up");
		if (rc == 0) {
			*ret_step = SC_STEP_DROPPED;
			return 0;
		}
	}
	s->rows++;
	return 0;
}

int sc_session_archive_end(struct sc_session *s, uint64_t next, struct sc_err *err)
{
	int rc = 0;

	if (next > s->next && !(s->o.to && s->next > s->o.to)) {
		rc = note_gap(s, next, err);
		s->next = rc < 0 ? s->next : next;
	}
	return rc;
}

void sc_session_delivered(struct sc_session *s, uint64_t lines)
{
	s->delivered += lines;
}

bool sc_session_finished(const struct sc_session *s)
{
	if (s->past || (s->o.count && s->delivered >= s->o.count))
		return true;
	if (s->o.to && s->has_next && s->next > s->o.to)
		return true;
	return s->has_end && (s->end == 0 || (s->has_next && s->next >= s->end));
}

bool sc_session_greeted(const struct sc_session *s)
{
	return s->greeted;
}

uint64_t sc_session_last(const struct sc_session *s)
{
	return s->rows && s->order.has_last ? s->order.last : 0;
}

uint64_t sc_session_rows(const struct sc_session *s)
{
	return s->rows;
}

uint64_t sc_session_resume(const struct sc_session *s)
{
	return s->has_next ? s->next : 0;
}

uint64_t sc_session_awaits_end(const struct sc_session *s)
{
	return s->has_end && !sc_session_finished(s) ? s->end : 0;
}
