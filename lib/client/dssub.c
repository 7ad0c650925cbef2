/* client/dssub.c: see client/dssub.h. */
#include "client/dssub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/cursor.h"
#include "client/ending.h"
#include "client/rows.h"
#include "client/sink.h"
#include "net/httpanswer.h"
#include "net/loop.h"
#include "net/url.h"

#define SAVE_MS 1000
#define WAITS_MS 120000 /* for an answer that waits for messages: servers give up long before */
#define QUICK_MS 50     /* an answer without messages that came sooner was no wait: */
#define PAUSE_MS 500    /* the next request is held back */
#define PAGE_ROOM (4u << 20) /* of a page, besides one message */
#define FAULTS_MAX 3
#define BACK_MAX 20 /* answers that the stream ends before our offset: 10 s */

struct mark { /* offsets that are no numbers: which key stands for which */
	struct mark *next;
	uint64_t key;
	char offset[SC_DS_OFFSET_MAX];
};

struct dssub {
	const struct sc_dssub_options *d;
	const struct sc_subscription_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_dsread *read;
	struct sc_cursor *cursor;
	struct sc_sink *sink;
	struct sc_rows *rows;
	struct sc_events *events;
	struct sc_ending *ending;
	struct sc_timer *idle_timer, *save_timer, *answer_timer, *later_timer;
	struct sc_httpanswer answer;
	struct sc_sse sse;
	enum sc_dsread_kind kind;
	struct sc_bytes in;       /* bytes of the answer that wait for the consumer */
	size_t in_at, piece_left; /* taken up to; of that, bytes of body that still wait */
	struct sc_bytes body, target, head, lines;
	struct mark *first_mark, **end_mark;
	uint64_t keys; /* given to offsets that are no numbers */
	char place[192];
	struct sc_subscription_result result;
	int rc;
	struct sc_err err;
	bool asking, refused, page_due, asked_reconnect, consumer_failed;
	int64_t asked_us, wait_ms;
	uint64_t rows_before;
	unsigned refusals, faults;
	uint64_t fault_rows;
};

bool sc_dssub_is_url(const char *url)
{
	static const char prefix[] = "/v1/stream/";
	const char *host = !strncmp(url, "http://", 7)    ? url + 7
			   : !strncmp(url, "https://", 8) ? url + 8
							  : NULL;
	const char *path = host ? strpbrk(host, "/?#") : NULL;

	return path && !strncmp(path, prefix, sizeof(prefix) - 1);
}

static bool ending(const struct dssub *s)
{
	return sc_ending_is_begun(s->ending);
}

static void note_error(struct dssub *s, const struct sc_err *err)
{
	if (s->rc < 0)
		return;
	s->rc = err->code;
	s->err = *err;
	if (!s->err.object[0] && s->place[0])
		sc_err_on(&s->err, "stream", s->place);
}

static void fail(struct dssub *s, const struct sc_err *err)
{
	note_error(s, err);
	sc_loop_stop(s->loop);
}

/* No more messages can be had: what came before is still delivered. */
static void give_up(struct dssub *s, const struct sc_err *err)
{
	note_error(s, err);
	sc_ending_begin(s->ending);
}

/* The offset behind the last message that the consumer has finished; NULL: not moved. */
static const char *finished_offset(struct dssub *s, char text[SC_DS_OFFSET_MAX])
{
	uint64_t done = sc_sink_done(s->sink);
	const char *found = NULL;

	if (!done)
		return NULL;
	s->result.done = done;
	if (!s->keys) {
		sc_ds_position_text(done, text);
		return text;
	}
	while (s->first_mark && s->first_mark->key <= done) {
		struct mark *m = s->first_mark;

		memcpy(text, m->offset, sizeof(m->offset));
		found = text;
		s->first_mark = m->next;
		if (!s->first_mark)
			s->end_mark = &s->first_mark;
		free(m);
	}
	return found;
}

static int save(struct dssub *s, struct sc_err *err)
{
	char text[SC_DS_OFFSET_MAX];
	const char *offset;
	int rc;

	if (!s->cursor)
		return 0;
	rc = sc_sink_settle(s->sink, err);
	if (rc < 0)
		return rc;
	offset = finished_offset(s, text);
	return offset ? sc_cursor_move_text(s->cursor, offset, err) : 0;
}

static void on_save(void *arg)
{
	struct dssub *s = arg;
	struct sc_err err;

	if (save(s, &err) < 0)
		fail(s, &err);
	else
		sc_timer_start(s->save_timer, SAVE_MS);
}

static void on_moved(void *arg)
{
	struct dssub *s = arg;
	struct sc_err err;

	if (save(s, &err) < 0)
		fail(s, &err);
}

static void on_ending(void *arg)
{
	struct dssub *s = arg;

	sc_timer_stop(s->idle_timer);
	sc_timer_stop(s->answer_timer);
	sc_timer_stop(s->later_timer);
	sc_client_resume(s->client);
	sc_client_close(s->client, 1000, "");
}

static void on_idle(void *arg)
{
	sc_ending_begin(((struct dssub *)arg)->ending);
}

static void watch_rows(struct dssub *s)
{
	if (s->o->idle_ms >= 0 && !ending(s))
		sc_timer_start(s->idle_timer, s->o->idle_ms);
}

/* Messages. */

static int add_mark(struct dssub *s, uint64_t *ret_key, struct sc_err *err)
{
	struct sc_span offset = sc_dsread_offset(s->read);
	struct mark *m;

	*ret_key = ++s->keys;
	if (!s->cursor)
		return 0;
	m = sc_calloc(1, sizeof(*m));
	if (!m)
		return sc_err_nomem(err, "cannot keep an offset");
	m->key = s->keys;
	memcpy(m->offset, offset.data, offset.len);
	*s->end_mark = m;
	s->end_mark = &m->next;
	return 0;
}

static int deliver(struct dssub *s, const struct sc_ds_message *m, struct sc_err *err)
{
	struct sc_data row = { .has_offset = m->position != 0,
			       .offset = m->position,
			       .msg = m->msg,
			       .newlines = m->newlines };
	uint64_t key = m->position, lines;
	int rc = 0;

	s->result.rows++;
	if (m->position)
		s->result.last = s->result.resume = m->position;
	else if (m->last)
		rc = add_mark(s, &key, err);
	sc_bytes_clear(&s->lines);
	if (rc == 0)
		rc = sc_rows_lines(s->rows, &row, &s->lines, &lines, err);
	if (rc == 0)
		rc = sc_sink_put(s->sink, sc_span(s->lines.data, s->lines.len), key, err);
	if (rc < 0)
		return rc;
	s->result.lines += lines;
	watch_rows(s);
	return 0;
}

static bool enough(const struct dssub *s)
{
	return s->o->session.count && s->result.lines >= s->o->session.count;
}

/* Of the messages that are there, as many as the consumer takes: true when none is left. */
static bool deliver_some(struct dssub *s)
{
	struct sc_ds_message m;
	struct sc_err err;

	while (!ending(s) && !sc_sink_full(s->sink)) {
		if (!sc_dsread_next(s->read, &m)) {
			if (sc_dsread_finished(s->read))
				sc_ending_begin(s->ending);
			return !ending(s);
		}
		if (deliver(s, &m, &err) < 0)
			give_up(s, &err);
		else if (enough(s))
			sc_ending_begin(s->ending);
	}
	return false;
}

/* Requests. */

static void ask(struct dssub *s)
{
	static const struct sc_span lines = SC_SPAN("Accept: */*\r\n\r\n");
	bool waits = sc_dsread_waits(s->read);
	int64_t limit_ms = waits ? WAITS_MS : s->o->connection.upgrade_ms;
	struct sc_err err;

	if (s->asking || ending(s) || !sc_client_is_open(s->client) ||
	    sc_timer_runs(s->later_timer) || sc_sink_full(s->sink))
		return;
	sc_bytes_clear(&s->head);
	if (sc_dsread_target(s->read, &s->target, &err) < 0 ||
	    sc_client_head(s->client, "GET", sc_span(s->target.data, s->target.len), lines,
			   &s->head, &err) < 0 ||
	    sc_client_send(s->client, sc_span(s->head.data, s->head.len), true, &err) < 0) {
		give_up(s, &err);
		return;
	}
	explicit_bzero(s->head.data, s->head.len);
	sc_httpanswer_begin(&s->answer, false);
	sc_sse_begin(&s->sse);
	sc_bytes_clear(&s->body);
	s->kind = SC_DS_NOTHING;
	s->asking = true;
	s->refused = s->page_due = false;
	s->asked_us = sc_mono_us();
	s->rows_before = s->result.rows;
	if (limit_ms > 0)
		sc_timer_start(s->answer_timer, limit_ms);
}

static void on_late(void *arg)
{
	struct dssub *s = arg;

	sc_events_warning(s->events, "the server did not answer in time");
	sc_client_reconnect(s->client);
}

static void on_later(void *arg)
{
	ask(arg);
}

/* A refusal that may pass: the server is overloaded, or whoever runs us says so. */
static bool may_pass(const struct dssub *s, int rc)
{
	return rc == SC_E_BUSY ||
	       (s->o->connection.retry.refused && (rc == SC_E_NOAUTH || rc == SC_E_NOLOG));
}

/* The same request again, with growing waits. */
static void refuse(struct dssub *s, const struct sc_err *err)
{
	const struct sc_client_retry *retry = &s->o->connection.retry;
	int64_t after = sc_httphead_retry_ms(&s->answer.head, sc_wall_us());
	uint64_t random;

	s->refusals++;
	if (retry->tries >= 0 && (int64_t)s->refusals > retry->tries) {
		give_up(s, err);
		return;
	}
	sc_random(&random, sizeof(random));
	s->wait_ms = sc_client_backoff_ms(retry, s->refusals, random);
	if (after > s->wait_ms)
		s->wait_ms = after;
	s->refused = true;
	sc_events_warning(s->events, err->reason);
}

static void take_head(struct dssub *s)
{
	struct sc_err err;
	int rc = sc_dsread_head(s->read, &s->answer.head, &s->kind, &err);

	if (may_pass(s, rc)) {
		s->kind = SC_DS_NOTHING;
		refuse(s, &err);
	} else if (rc < 0) {
		give_up(s, &err);
	} else {
		s->refusals = 0;
		sc_client_proved(s->client);
		if (s->kind == SC_DS_EVENTS)
			sc_timer_stop(s->answer_timer); /* silence is its nature: --idle judges */
	}
}

/* A piece of body: how much of it was taken. */
static int take_body(struct dssub *s, struct sc_span piece, size_t *ret_used, struct sc_err *err)
{
	struct sc_sse_event event;
	int rc;

	*ret_used = piece.len;
	if (s->kind == SC_DS_NOTHING)
		return 0;
	if (s->kind == SC_DS_PAGE) {
		if (sc_bytes_put(&s->body, piece.data, piece.len) == 0)
			return 0;
		if (!s->body.full)
			return sc_err_nomem(err, "cannot read");
		sc_err_set(err, SC_E_PROTOCOL, "cannot read", "the answer is longer than %zu bytes",
			   s->body.max);
		return sc_err_next(err, "allow longer messages with --max-message");
	}
	rc = sc_sse_read(&s->sse, piece.data, piece.len, ret_used, &event, err);
	return rc == 1 ? sc_dsread_event(s->read, &event, err) : rc;
}

/* A server that lags behind itself says for a moment that the stream ends before our offset; one
 * whose stream was made anew goes on saying it. */
static void wait_for_end(struct dssub *s)
{
	struct sc_err err;

	if (sc_dsread_back(s->read) < BACK_MAX) {
		sc_timer_start(s->later_timer, PAUSE_MS);
		return;
	}
	sc_err_set(&err, SC_E_REFUSED, "cannot read", "it ends before the offset %.*s",
		   (int)sc_dsread_offset(s->read).len, sc_dsread_offset(s->read).data);
	sc_err_field_str(&err, "why", "other_log");
	sc_err_next(&err, "was it made anew? begin with --offset earliest");
	give_up(s, &err);
}

/* The answer is whole. */
static void answered(struct dssub *s)
{
	int64_t took_ms = (sc_mono_us() - s->asked_us) / 1000;

	s->asking = false;
	sc_timer_stop(s->answer_timer);
	if (ending(s))
		return;
	if (s->refused)
		sc_timer_start(s->later_timer, s->wait_ms);
	else if (sc_dsread_back(s->read))
		wait_for_end(s);
	else if (sc_dsread_waits(s->read) && s->result.rows == s->rows_before &&
		 took_ms < QUICK_MS && !sc_dsread_finished(s->read) && s->kind != SC_DS_PAGE)
		sc_timer_start(s->later_timer, PAUSE_MS);
	if (s->answer.closes) {
		s->asked_reconnect = true;
		sc_client_reconnect(s->client);
	} else {
		ask(s);
	}
}

/* The next step: a piece of body that is there, or more of the answer. */
static int take_some(struct dssub *s, struct sc_err *err)
{
	enum sc_httpanswer_step step;
	struct sc_span piece = sc_span(s->in.data + s->in_at - s->piece_left, s->piece_left);
	size_t used = 0;
	int rc;

	if (piece.len) {
		rc = take_body(s, piece, &used, err);
		s->piece_left -= rc < 0 ? 0 : used;
		return rc;
	}
	rc = sc_httpanswer_read(&s->answer, s->in.data + s->in_at, s->in.len - s->in_at, &used,
				&step, &piece, err);
	s->in_at += used;
	if (rc < 0)
		return rc;
	if (step == SC_ANSWER_BEGUN) {
		take_head(s);
	} else if (step == SC_ANSWER_BODY) {
		s->piece_left = piece.len; /* it is what was used last */
	} else if (step == SC_ANSWER_DONE) {
		s->page_due = true;
		if (s->kind == SC_DS_PAGE)
			rc = sc_dsread_page(s->read,
					    sc_span(s->body.data ? s->body.data : "", s->body.len),
					    err);
	}
	return rc;
}

/* As far as the bytes go and the consumer takes messages. */
static void process(struct dssub *s)
{
	struct sc_err err;

	for (;;) {
		if (!deliver_some(s))
			break;
		if (s->page_due) {
			s->page_due = false;
			answered(s);
		}
		if (!s->asking ||
		    (s->in_at == s->in.len && !s->piece_left && s->answer.state != SC_ANSWER_OVER))
			break;
		if (take_some(s, &err) < 0) {
			give_up(s, &err);
			break;
		}
		if (s->kind == SC_DS_EVENTS && sc_dsread_back(s->read)) {
			s->asked_reconnect = true; /* what would come of it may be here already */
			sc_client_reconnect(s->client);
			wait_for_end(s);
			return;
		}
	}
	if (s->in_at == s->in.len && !s->piece_left) {
		sc_bytes_clear(&s->in);
		s->in_at = 0;
	}
	if (ending(s))
		return;
	if (sc_sink_full(s->sink) && !sc_client_paused(s->client))
		sc_client_pause(s->client);
	else if (!sc_sink_full(s->sink) && sc_client_paused(s->client))
		sc_client_resume(s->client);
	ask(s);
}

/* The client. */

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct dssub *s = arg;
	size_t len = strcspn(strchr(s->o->connection.url + 8, '/'), "?#");

	snprintf(s->place, sizeof(s->place), "%s%.*s", opened->where, (int)len,
		 strchr(s->o->connection.url + 8, '/'));
	if (!s->asked_reconnect)
		sc_events_connected(s->events, opened);
	s->asked_reconnect = false;
	process(s);
}

static void on_message(void *arg, const struct sc_client_message *m)
{
	struct dssub *s = arg;
	struct sc_err err;

	if (ending(s))
		return;
	if (!s->asking) {
		sc_err_set(&err, SC_E_PROTOCOL, "cannot read", "more than an answer came");
		give_up(s, &err);
		return;
	}
	if (s->in_at > s->piece_left) {
		sc_bytes_drop(&s->in, s->in_at - s->piece_left);
		s->in_at = s->piece_left;
	}
	if (sc_bytes_put(&s->in, m->payload.data, m->payload.len) < 0) {
		sc_err_nomem(&err, "cannot read");
		give_up(s, &err);
		return;
	}
	process(s);
}

static void on_batch(void *arg)
{
	struct dssub *s = arg;
	struct sc_err err;

	if (s->consumer_failed)
		return;
	if (sc_sink_flush(s->sink, &err) < 0)
		fail(s, &err);
	else if (!ending(s))
		process(s);
}

static bool stuck(struct dssub *s, const struct sc_err *err)
{
	if (s->result.rows != s->fault_rows)
		s->faults = 0;
	s->fault_rows = s->result.rows;
	return err->code == SC_E_PROTOCOL && ++s->faults >= FAULTS_MAX;
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct dssub *s = arg;
	bool was_asking = s->asking;
	struct sc_client_ended told = *ended;

	sc_timer_stop(s->answer_timer);
	s->asking = false;
	sc_bytes_clear(&s->in);
	s->in_at = s->piece_left = 0;
	if (ending(s)) {
		told.wait_ms = -1;
	} else if (s->asked_reconnect) {
		return SC_CLIENT_STANDARD;
	} else if (ended->was_open && !was_asking) {
		s->asked_reconnect = true; /* an idle connection may be closed at any time */
		return SC_CLIENT_AT_ONCE;
	} else if (was_asking && sc_httpanswer_ends(&s->answer) && s->kind == SC_DS_EVENTS &&
		   s->result.rows > s->rows_before) {
		s->asked_reconnect = true; /* that is how such a stream of events ends */
		return SC_CLIENT_AT_ONCE;
	} else if (was_asking && sc_httpanswer_ends(&s->answer) && s->kind == SC_DS_PAGE) {
		struct sc_err err;

		s->asked_reconnect = true;
		if (sc_dsread_page(s->read, sc_span(s->body.data ? s->body.data : "", s->body.len),
				   &err) < 0)
			give_up(s, &err);
		return ending(s) ? SC_CLIENT_END : SC_CLIENT_AT_ONCE;
	} else if (ended->was_open && stuck(s, ended->err)) {
		give_up(s, ended->err);
		told.wait_ms = -1;
	}
	sc_events_ended(s->events, &told, 0);
	return ending(s) ? SC_CLIENT_END : SC_CLIENT_STANDARD;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct dssub *s = arg;

	if (!ending(s) && err->code)
		note_error(s, err);
	if (s->rc == 0 && !sc_ending_signo(s->ending))
		sc_sink_finish(s->sink);
	sc_ending_closed(s->ending);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct dssub *)arg)->events, text);
}

static void on_room(void *arg)
{
	struct dssub *s = arg;
	struct sc_err err;

	if (ending(s))
		return;
	process(s);
	if (sc_sink_flush(s->sink, &err) < 0)
		fail(s, &err);
}

static void on_sink_failed(void *arg, const struct sc_err *err)
{
	((struct dssub *)arg)->consumer_failed = true;
	fail(arg, err);
}

/* Setting up. */

static const char *begin_at(struct dssub *s)
{
	if (s->d->offset)
		return s->d->offset;
	if (s->cursor && sc_cursor_text(s->cursor)[0])
		return sc_cursor_text(s->cursor);
	return "now";
}

static int set_up_read(struct dssub *s, struct sc_err *err)
{
	struct sc_dsread_options o = { .live = s->d->live,
				       .until_end = s->o->session.until_end,
				       .held_max = s->body.max };
	struct sc_url url = { 0 };
	int rc = sc_url_parse(s->o->connection.url, &url, err);

	if (rc == 0 && s->o->cursor)
		rc = sc_cursor_open(s->o->cursor, &s->cursor, err);
	if (rc == 0) {
		o.target = url.target;
		o.offset = begin_at(s);
		if (strcmp(o.offset, "-1") != 0 && strcmp(o.offset, "now") != 0 &&
		    !sc_ds_offset_valid(sc_span_str(o.offset))) {
			sc_err_set(err, SC_E_DATA, "cannot begin", "'%.60s' is no offset",
				   o.offset);
			rc = sc_err_next(err, "mend or remove the cursor file");
		}
	}
	if (rc == 0)
		rc = sc_dsread_new(&o, &s->read, err);
	sc_url_done(&url);
	return rc;
}

static int set_up_loop(struct dssub *s, struct sc_err *err)
{
	struct sc_sink_options sink = {
		.fd = s->o->fd,
		.name = "standard output",
		.exec = s->o->exec,
		.exec_rows = s->o->exec_rows,
		.ack_fd = s->o->ack_fd,
		.room = on_room,
		.moved = on_moved,
		.failed = on_sink_failed,
		.arg = s,
	};
	int rc = sc_loop_new(&s->loop, err);

	if (rc == 0)
		rc = sc_sink_new(s->loop, &sink, &s->sink, err);
	if (rc == 0)
		rc = sc_ending_new(s->loop, s->sink, on_ending, s, &s->ending, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, on_idle, s, &s->idle_timer, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, on_save, s, &s->save_timer, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, on_late, s, &s->answer_timer, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, on_later, s, &s->later_timer, err);
	return rc;
}

static int set_up(struct dssub *s, struct sc_err *err)
{
	static const struct sc_client_hooks hooks = {
		.opened = on_opened,
		.message = on_message,
		.batch = on_batch,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	struct sc_client_options connection = s->o->connection;
	int rc = sc_events_open(&s->o->events, &s->events, err);

	if (rc == 0)
		rc = sc_rows_new(s->o->filter, s->o->payload, &s->rows, err);
	if (rc == 0)
		rc = set_up_read(s, err);
	if (rc == 0)
		rc = set_up_loop(s, err);
	connection.raw = true;
	if (rc == 0)
		rc = sc_client_new(s->loop, &connection, &hooks, s, &s->client, err);
	return rc;
}

static void tear_down(struct dssub *s)
{
	sc_client_free(s->client);
	sc_timer_free(s->later_timer);
	sc_timer_free(s->answer_timer);
	sc_timer_free(s->save_timer);
	sc_timer_free(s->idle_timer);
	sc_ending_free(s->ending);
	sc_sink_free(s->sink);
	sc_loop_free(s->loop);
	sc_dsread_free(s->read);
	sc_cursor_close(s->cursor);
	sc_rows_free(s->rows);
	sc_events_close(s->events);
	sc_httpanswer_done(&s->answer);
	sc_sse_done(&s->sse);
	while (s->first_mark) {
		struct mark *m = s->first_mark;

		s->first_mark = m->next;
		free(m);
	}
	sc_bytes_done(&s->in);
	sc_bytes_done(&s->body);
	sc_bytes_done(&s->target);
	sc_bytes_done(&s->head);
	sc_bytes_done(&s->lines);
}

int sc_dssub_run(const struct sc_dssub_options *options, struct sc_subscription_result *ret_result,
		 struct sc_err *err)
{
	struct dssub s = { .d = options, .o = options->common };
	size_t page_max = (size_t)s.o->connection.message_max + PAGE_ROOM;
	struct sc_err late;
	int rc;

	s.end_mark = &s.first_mark;
	sc_httpanswer_init(&s.answer);
	sc_sse_init(&s.sse, page_max);
	sc_bytes_init(&s.in, SIZE_MAX / 4); /* bounded: the client is paused while messages wait */
	sc_bytes_init(&s.body, page_max);
	sc_bytes_init(&s.target, 1 << 20);
	sc_bytes_init(&s.head, 2 << 20);
	sc_bytes_init(&s.lines, SIZE_MAX / 4);
	rc = set_up(&s, err);
	if (rc == 0) {
		watch_rows(&s);
		if (s.cursor)
			sc_timer_start(s.save_timer, SAVE_MS);
		rc = sc_loop_run(s.loop, err);
		if (rc == 0 && s.rc < 0) {
			rc = s.rc;
			if (err)
				*err = s.err;
		}
		s.result.signo = sc_ending_signo(s.ending);
		if (save(&s, &late) < 0 && rc == 0) {
			rc = late.code;
			if (err)
				*err = late;
		}
	}
	tear_down(&s);
	*ret_result = s.result;
	return rc;
}
