/* client/dssub_answer.c: requests, one at a time, and their answers: pages and events. */
#include <string.h>

#include "base/clock.h"
#include "client/dssub_internal.h"

#define WAITS_MS 120000 /* for an answer that waits for messages: servers give up long before */
#define QUICK_MS 50     /* an answer without messages that came sooner was no wait: */
#define PAUSE_MS 500    /* the next request is held back */
#define BACK_MAX 20     /* answers that the stream ends before our offset: 10 s */

static void ask(struct sc_dssub *s)
{
	static const struct sc_span lines = SC_SPAN("Accept: */*\r\n\r\n");
	bool waits = sc_dsread_waits(s->read);
	int64_t limit_ms = waits ? WAITS_MS : s->o->connection.upgrade_ms;
	struct sc_err err;

	if (s->asking || sc_dssub_ending(s) || !sc_client_is_open(s->client) ||
	    sc_timer_runs(s->later_timer) || sc_delivery_full(s->delivery))
		return;
	sc_bytes_clear(&s->head);
	if (sc_dsread_target(s->read, &s->target, &err) < 0 ||
	    sc_client_head(s->client, "GET", sc_span(s->target.data, s->target.len), lines,
			   &s->head, &err) < 0 ||
	    sc_client_send(s->client, sc_span(s->head.data, s->head.len), true, &err) < 0) {
		sc_ending_give_up(s->ending, &err);
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

void sc_dssub_late(void *arg)
{
	struct sc_dssub *s = arg;

	sc_events_warning(s->events, "the server did not answer in time");
	sc_client_reconnect(s->client);
}

void sc_dssub_later(void *arg)
{
	ask(arg);
}

/* A refusal that may pass: the server is overloaded, or whoever runs us says so. */
static bool may_pass(const struct sc_dssub *s, int rc)
{
	return rc == SC_E_BUSY ||
	       (s->o->connection.retry.refused && (rc == SC_E_NOAUTH || rc == SC_E_NOLOG));
}

/* The same request again, with growing waits. */
static void refuse(struct sc_dssub *s, const struct sc_err *err)
{
	const struct sc_client_retry *retry = &s->o->connection.retry;
	int64_t after = sc_httphead_retry_ms(&s->answer.head, sc_wall_us());
	uint64_t random;

	s->refusals++;
	if (retry->tries >= 0 && (int64_t)s->refusals > retry->tries) {
		sc_ending_give_up(s->ending, err);
		return;
	}
	sc_random(&random, sizeof(random));
	s->wait_ms = sc_client_backoff_ms(retry, s->refusals, random);
	if (after > s->wait_ms)
		s->wait_ms = after;
	s->refused = true;
	sc_events_warning(s->events, err->reason);
}

static void take_head(struct sc_dssub *s)
{
	struct sc_err err;
	int rc = sc_dsread_head(s->read, &s->answer.head, &s->kind, &err);

	if (may_pass(s, rc)) {
		s->kind = SC_DS_NOTHING;
		refuse(s, &err);
	} else if (rc < 0) {
		sc_ending_give_up(s->ending, &err);
	} else {
		s->refusals = 0;
		sc_client_proved(s->client);
		if (s->kind == SC_DS_EVENTS)
			sc_timer_stop(s->answer_timer); /* silence is its nature: --idle judges */
	}
}

/* A piece of body: how much of it was taken. */
static int take_body(struct sc_dssub *s, struct sc_span piece, size_t *ret_used, struct sc_err *err)
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
static void wait_for_end(struct sc_dssub *s)
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
	sc_ending_give_up(s->ending, &err);
}

/* The answer is whole. */
static void answered(struct sc_dssub *s)
{
	int64_t took_ms = (sc_mono_us() - s->asked_us) / 1000;

	s->asking = false;
	sc_timer_stop(s->answer_timer);
	if (sc_dssub_ending(s))
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

int sc_dssub_page(struct sc_dssub *s, struct sc_err *err)
{
	struct sc_span body = sc_span(s->body.data ? s->body.data : "", s->body.len);

	return sc_dsread_page(s->read, body, err);
}

/* The next step: a piece of body that is there, or more of the answer. */
static int take_some(struct sc_dssub *s, struct sc_err *err)
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
			rc = sc_dssub_page(s, err);
	}
	return rc;
}

/* As far as the bytes go and the consumer takes messages. */
void sc_dssub_process(struct sc_dssub *s)
{
	struct sc_err err;

	for (;;) {
		if (!sc_dssub_deliver(s))
			break;
		if (s->page_due) {
			s->page_due = false;
			answered(s);
		}
		if (!s->asking ||
		    (s->in_at == s->in.len && !s->piece_left && s->answer.state != SC_ANSWER_OVER))
			break;
		if (take_some(s, &err) < 0) {
			sc_ending_give_up(s->ending, &err);
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
	if (sc_dssub_ending(s))
		return;
	if (sc_delivery_full(s->delivery) && !sc_client_paused(s->client)) {
		sc_client_pause(s->client);
		sc_delivery_watch(s->delivery, false); /* it is the consumer that is idle */
	} else if (!sc_delivery_full(s->delivery) && sc_client_paused(s->client)) {
		sc_client_resume(s->client);
		sc_delivery_watch(s->delivery, true);
	}
	ask(s);
}
