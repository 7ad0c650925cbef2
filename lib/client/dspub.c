/* client/dspub.c: see client/dspub.h. */
#include "client/dspub_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/url.h"

#define ANSWER_MS 60000 /* for an answer: a loaded server's commit takes its time */
#define STATE_MAX 4096

static const char tried[] = "cannot publish";

static bool ending(const struct sc_dspub *p)
{
	return sc_ending_is_begun(p->ending);
}

static void close_connection(struct sc_dspub *p)
{
	if (p->closing)
		return;
	p->closing = true;
	sc_timer_stop(p->later_timer);
	sc_timer_stop(p->answer_timer);
	sc_client_close(p->client, 1000, "");
}

static void on_ending(void *arg)
{
	struct sc_dspub *p = arg;

	if (!p->asking)
		close_connection(p);
}

/* Nothing more is taken in. NOW: nor is an answer waited for. */
void sc_dspub_begin_end(struct sc_dspub *p, bool now)
{
	sc_ending_begin(p->ending);
	if (now)
		close_connection(p);
}

void sc_dspub_give_up(struct sc_dspub *p, const struct sc_err *err)
{
	sc_ending_note(p->ending, err);
	sc_dspub_begin_end(p, true);
}

/* The state file: what a producer does next, before it does it. */

static int load_state(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_bytes text;
	int rc;

	if (!p->d->state)
		return 0;
	rc = sc_cursor_open(p->d->state, &p->state_lock, err); /* keeps a second process out */
	if (rc < 0) {
		sc_err_on(err, "state file", p->d->state);
		if (rc == SC_E_BUSY)
			sc_err_next(err, "end the other one, or publish as another producer with "
					 "a file of its own");
		return rc;
	}
	sc_bytes_init(&text, STATE_MAX);
	rc = sc_read_file(p->d->state, &text, err);
	if (rc == SC_E_NOLOG || (rc == 0 && !text.len)) {
		rc = 0;
	} else if (rc == 0) {
		rc = sc_dspost_state_parse(sc_span(text.data, text.len), p->o->producer, &p->state,
					   err);
		p->has_state = rc == 0;
		if (rc < 0)
			sc_err_on(err, "state file", p->d->state);
	}
	sc_bytes_done(&text);
	return rc;
}

int sc_dspub_save_state(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_dspost_state state;

	if (!p->d->state || !p->post)
		return 0;
	sc_dspost_state(p->post, &state);
	sc_bytes_clear(&p->text);
	if (sc_dspost_state_put(&p->text, p->o->producer, &state) < 0)
		return sc_err_nomem(err, tried);
	return sc_replace_file(p->d->state, p->text.data, p->text.len, 0666, true, err);
}

int sc_dspub_last(const char *file, const char *producer, uint64_t *ret_number, struct sc_err *err)
{
	struct sc_dspost_state state = { 0 };
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, STATE_MAX);
	rc = sc_read_file(file, &text, err);
	if (rc == 0 && text.len)
		rc = sc_dspost_state_parse(sc_span(text.data, text.len), producer, &state, err);
	if (rc == SC_E_DATA)
		sc_err_on(err, "state file", file);
	sc_bytes_done(&text);
	if (rc < 0 && rc != SC_E_NOLOG)
		return rc;
	*ret_number = state.after;
	return 0;
}

/* A producer of the first run, or one that takes over, needs an epoch above all before: time is. */
static int choose_epoch(struct sc_dspub *p, struct sc_err *err)
{
	if (!p->o->producer)
		return 0;
	if (!p->o->has_epoch && p->has_state)
		return 0;
	if (p->has_state && p->o->epoch != p->state.epoch && p->state.last > p->state.after) {
		sc_err_set(err, SC_E_CONFIG, "cannot use --epoch",
			   "rows %llu to %llu are on their way under epoch %llu",
			   (unsigned long long)p->state.after + 1,
			   (unsigned long long)p->state.last, (unsigned long long)p->state.epoch);
		return sc_err_next(err, "run once without --epoch");
	}
	if (p->o->has_epoch && p->has_state && p->o->epoch == p->state.epoch)
		return 0;
	p->state.epoch = p->o->has_epoch ? p->o->epoch : (uint64_t)(sc_wall_us() / 1000);
	p->state.seq = 0;
	return 0;
}

int sc_dspub_make_post(struct sc_dspub *p, bool json, struct sc_err *err)
{
	struct sc_dspost_options o = { .batch = p->o->batch, .json = json, .state = p->state };

	if (p->post)
		return 0;
	if (p->o->producer)
		sc_pubrow_stored(sc_publines_rows(p->lines), p->state.after);
	return sc_dspost_new(&o, &p->post, err);
}

/* Requests. */

/* What may have been stored may not be sent again. */
bool sc_dspub_in_doubt(const struct sc_dspub *p)
{
	return !p->o->producer && !p->o->again && p->d->seq != SC_DSPUB_SEQ_SKIP;
}

static void put_who(struct sc_dspub *p)
{
	struct sc_dspost_state state;

	sc_dspost_state(p->post, &state);
	if (p->d->seq && p->step == STEP_POST)
		sc_bytes_putf(&p->fields, "Stream-Seq: %020llu\r\n",
			      (unsigned long long)state.last);
	if (!p->o->producer)
		return;
	sc_bytes_putf(&p->fields,
		      "Producer-Id: %s\r\nProducer-Epoch: %llu\r\nProducer-Seq: %llu\r\n",
		      p->o->producer, (unsigned long long)state.epoch,
		      (unsigned long long)state.seq);
}

/* What each step says: its method, its header lines, its body. */
static const char *method_of(struct sc_dspub *p, struct sc_span *ret_body)
{
	*ret_body = sc_span("", 0);
	sc_bytes_clear(&p->fields);
	switch (p->step) {
	case STEP_CREATE:
		sc_bytes_putf(&p->fields, "Content-Type: %s\r\n", p->d->create);
		break;
	case STEP_LOOK:
		sc_bytes_puts(&p->fields, "\r\n");
		return "HEAD";
	case STEP_POST:
		*ret_body = sc_dspost_body(p->post);
		sc_bytes_putf(&p->fields, "Content-Type: %s\r\n", sc_bytes_str(&p->type));
		put_who(p);
		break;
	case STEP_CLOSE:
		sc_bytes_puts(&p->fields, "Stream-Closed: true\r\n");
		put_who(p);
		break;
	}
	sc_bytes_putf(&p->fields, "Content-Length: %zu\r\n\r\n", ret_body->len);
	return p->step == STEP_CREATE ? "PUT" : "POST";
}

static void ask(struct sc_dspub *p)
{
	struct sc_span body;
	const char *method;
	struct sc_err err;
	int rc;

	if (p->asking || p->closing || !sc_client_is_open(p->client) ||
	    sc_timer_runs(p->later_timer))
		return;
	method = method_of(p, &body);
	sc_bytes_clear(&p->request);
	rc = sc_client_head(p->client, method, sc_span(p->target.data, p->target.len),
			    sc_span(p->fields.data, p->fields.len), &p->request, &err);
	if (rc == 0 && sc_bytes_put(&p->request, body.data, body.len) < 0)
		rc = sc_err_nomem(&err, tried);
	if (rc == 0)
		rc = sc_client_send(p->client, sc_span(p->request.data, p->request.len), true,
				    &err);
	if (rc < 0) {
		sc_dspub_give_up(p, &err);
		return;
	}
	sc_httpanswer_begin(&p->answer, p->step == STEP_LOOK);
	p->words_len = 0;
	p->asking = true;
	p->headed = false;
	sc_timer_start(p->answer_timer, ANSWER_MS);
}

static void on_late(void *arg)
{
	struct sc_dspub *p = arg;

	sc_events_warning(p->events, "the server did not answer in time");
	sc_client_reconnect(p->client);
}

static void on_later(void *arg)
{
	ask(arg);
}

/* Input. */

static void take_lines(struct sc_dspub *p)
{
	struct sc_publines_row row;
	struct sc_err err;

	while (!ending(p) && !sc_dspost_full(p->post) && !sc_publines_full(p->lines) &&
	       sc_publines_take(p->lines, &row))
		if (sc_dspost_put(p->post, row.text, row.line, row.number, &err) < 0)
			sc_publines_refuse(p->lines, &err); /* what stands before it is published */
	sc_publines_want(p->lines,
			 !ending(p) && !sc_dspost_full(p->post) && !sc_publines_full(p->lines));
}

static void on_ready(void *arg)
{
	sc_dspub_next(arg);
}

static bool refused(const struct sc_dspub *p)
{
	return sc_publines_refused(p->lines);
}

/* All that came in is stored: close the stream, or end. */
static void all_stored(struct sc_dspub *p)
{
	struct sc_err err;

	if (!refused(p) && !ending(p) && sc_dspost_ended(p->post, &err) < 0) {
		sc_dspub_give_up(p, &err);
		return;
	}
	if (sc_dspub_save_state(p, &err) < 0) {
		sc_dspub_give_up(p, &err);
	} else if (p->d->close && p->step != STEP_CLOSE && !ending(p) && !refused(p)) {
		p->step = STEP_CLOSE;
		ask(p);
	} else {
		sc_dspub_begin_end(p, true);
	}
}

/* What is to be done now? */
void sc_dspub_next(struct sc_dspub *p)
{
	struct sc_span body;
	struct sc_err err;
	int rc;

	if (p->closing)
		return;
	if (p->step != STEP_POST) {
		ask(p);
		return;
	}
	take_lines(p);
	if (p->asking)
		return;
	if (!sc_dspost_open(p->post)) {
		rc = ending(p) && !refused(p) ? 0 : sc_dspost_begin(p->post, &body, &err);
		if (rc == 1 && sc_dspub_save_state(p, &err) < 0)
			rc = err.code;
		if (rc < 0) {
			sc_dspub_give_up(p, &err);
			return;
		}
		if (rc == 0) {
			if (ending(p) || refused(p) || sc_publines_ended(p->lines))
				all_stored(p);
			return;
		}
		take_lines(p);
	}
	ask(p);
}

static void on_message(void *arg, const struct sc_client_message *m)
{
	struct sc_dspub *p = arg;
	size_t at = 0, used;
	struct sc_err err;

	while (!p->closing) {
		enum sc_httpanswer_step step;
		struct sc_span piece;

		if (!p->asking) {
			if (at < m->payload.len) {
				sc_err_set(&err, SC_E_PROTOCOL, tried, "more than an answer came");
				sc_dspub_give_up(p, &err);
			}
			return;
		}
		if (sc_httpanswer_read(&p->answer, m->payload.data + at, m->payload.len - at, &used,
				       &step, &piece, &err) < 0) {
			sc_dspub_give_up(p, &err);
			return;
		}
		at += used;
		if (step == SC_ANSWER_MORE)
			return;
		if (step == SC_ANSWER_BODY && p->answer.head.status >= 300)
			sc_dspub_keep_words(p, piece);
		if (step == SC_ANSWER_DONE)
			sc_dspub_answered(p);
	}
}

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct sc_dspub *p = arg;

	sc_ending_place(p->ending, "to stream", opened->place);
	if (!p->reconnects)
		sc_events_connected(p->events, opened);
	p->reconnects = false;
	sc_dspub_next(p);
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct sc_dspub *p = arg;
	struct sc_client_ended told = *ended;
	bool was_asking = p->asking;
	struct sc_err err;

	sc_timer_stop(p->answer_timer);
	p->asking = false;
	if (p->reconnects)
		return SC_CLIENT_STANDARD;
	if (!p->closing && ended->was_open && was_asking && sc_httpanswer_ends(&p->answer)) {
		p->reconnects = true; /* its body was up to the end of the connection */
		sc_dspub_answered(p);
		return p->closing ? SC_CLIENT_END : SC_CLIENT_AT_ONCE;
	}
	if (!p->closing && ended->was_open && !was_asking && !ending(p)) {
		p->reconnects = true; /* an idle connection may be closed at any time */
		return SC_CLIENT_AT_ONCE;
	}
	if (!p->closing && was_asking && p->step == STEP_POST && sc_dspub_in_doubt(p)) {
		sc_dspost_doubt(p->post, &err);
		p->closing = true;
		sc_ending_give_up(p->ending, &err);
	}
	p->sent_before |= was_asking && p->step == STEP_POST;
	if (ending(p))
		p->closing = true;
	if (p->closing)
		told.wait_ms = -1;
	sc_events_ended(p->events, &told, 0);
	return p->closing ? SC_CLIENT_END : SC_CLIENT_STANDARD;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct sc_dspub *p = arg;

	if (!p->closing && err->code)
		sc_ending_note(p->ending, err);
	p->closing = true;
	sc_publines_closed(p->lines);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct sc_dspub *)arg)->events, text);
}

static void on_room(void *arg)
{
	sc_dspub_next(arg);
}

/* Setting up. */

static int set_up_target(struct sc_dspub *p, struct sc_err *err)
{
	struct sc_url url = { 0 };
	int rc = sc_url_parse(p->o->connection.url, &url, err);

	if (rc == 0 && (sc_bytes_puts(&p->target, url.target) < 0 || !sc_bytes_str(&p->target)))
		rc = sc_err_nomem(err, tried);
	sc_url_done(&url);
	return rc;
}

static int set_up_client(struct sc_dspub *p, struct sc_err *err)
{
	static const struct sc_client_hooks hooks = {
		.opened = on_opened,
		.message = on_message,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	struct sc_client_options connection = p->o->connection;

	connection.raw = true;
	/* the last run's request may be larger than --batch makes them now */
	connection.send_max = SIZE_MAX / 8;
	return sc_client_new(p->loop, &connection, &hooks, p, &p->client, err);
}

static int set_up(struct sc_dspub *p, struct sc_err *err)
{
	static const struct sc_publines_hooks lines = {
		.ending = on_ending,
		.ready = on_ready,
		.room = on_room,
	};
	int rc = sc_events_open(&p->o->events, &p->events, err);

	if (rc == 0)
		rc = set_up_target(p, err);
	if (rc == 0)
		rc = load_state(p, err);
	if (rc == 0)
		rc = choose_epoch(p, err);
	if (rc == 0)
		rc = sc_loop_new(&p->loop, err);
	if (rc == 0)
		rc = sc_timer_new(p->loop, on_late, p, &p->answer_timer, err);
	if (rc == 0)
		rc = sc_timer_new(p->loop, on_later, p, &p->later_timer, err);
	if (rc == 0)
		rc = sc_publines_new(p->loop, p->o, &lines, p, &p->lines, err);
	if (rc < 0)
		return rc;
	p->ending = sc_publines_ending(p->lines);
	p->result = sc_publines_result(p->lines);
	p->step = p->d->create ? STEP_CREATE : STEP_LOOK;
	return set_up_client(p, err);
}

static void tear_down(struct sc_dspub *p)
{
	sc_client_free(p->client);
	sc_publines_free(p->lines);
	sc_timer_free(p->later_timer);
	sc_timer_free(p->answer_timer);
	sc_loop_free(p->loop);
	sc_dspost_free(p->post);
	sc_cursor_close(p->state_lock);
	sc_events_close(p->events);
	sc_httpanswer_done(&p->answer);
	if (p->request.data)
		explicit_bzero(p->request.data, p->request.cap); /* it may hold a password */
	sc_bytes_done(&p->target);
	sc_bytes_done(&p->type);
	sc_bytes_done(&p->request);
	sc_bytes_done(&p->fields);
	sc_bytes_done(&p->text);
}

/* Ended while a request was on its way: which lines are they? */
static void tell_doubt(struct sc_dspub *p)
{
	uint64_t first, last;

	if (!p->post || !sc_dspost_open(p->post))
		return;
	sc_dspost_lines(p->post, &first, &last);
	sc_events_in_doubt(p->events, first, last);
}

int sc_dspub_run(const struct sc_dspub_options *options, struct sc_publication_result *ret_result,
		 struct sc_err *err)
{
	struct sc_dspub p = { .d = options, .o = options->common };
	int rc;

	*ret_result = (struct sc_publication_result){ 0 };
	sc_httpanswer_init(&p.answer);
	sc_bytes_init(&p.target, 1 << 20);
	sc_bytes_init(&p.type, 1 << 16);
	sc_bytes_init(&p.request, SIZE_MAX / 8);
	sc_bytes_init(&p.fields, 1 << 17);
	sc_bytes_init(&p.text, 2 * STATE_MAX);
	rc = set_up(&p, err);
	if (rc == 0)
		rc = sc_loop_run(p.loop, err);
	if (rc == 0) {
		rc = sc_ending_result(p.ending, err);
		if (rc == 0)
			tell_doubt(&p);
	}
	if (p.result) {
		*ret_result = *p.result;
		ret_result->signo = sc_ending_signo(p.ending);
	}
	tear_down(&p);
	return rc;
}
