/* client/subscription.c: subscribe over any number of connections, and deliver the rows. */
#include "client/subscription.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "client/catchup.h"
#include "client/protocol.h"
#include "net/loop.h"
#include "net/url.h"

#define FAULTS_MAX 3      /* faults of the peer in a row, without a row between */
#define END_QUIET_MS 5000 /* rows below the end that do not come for so long are not there */

struct subscription {
	const struct sc_subscription_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_session *session;
	struct sc_delivery *delivery;
	struct sc_ending *ending; /* the delivery's */
	struct sc_events *events;
	struct sc_catchup *catchup; /* NULL: not asked for */
	struct sc_timer *end_timer;
	struct sc_bytes url; /* up to the target */
	struct sc_bytes target, full;
	/* where is the archive? */
	bool asked;          /* a connection was made for that alone */
	bool peeking;        /* this is the one */
	bool peeked;         /* and it has told; it is being closed */
	uint64_t fault_rows; /* rows when the peer last broke the protocol */
	unsigned faults;
};

static bool ending(const struct subscription *s)
{
	return sc_ending_is_begun(s->ending);
}

static void on_ending(void *arg)
{
	struct subscription *s = arg;

	sc_timer_stop(s->end_timer);
	sc_catchup_stop(s->catchup);
	if (sc_client_paused(s->client))
		sc_client_resume(s->client);
	sc_client_close(s->client, 1000, "");
}

static void on_end_quiet(void *arg)
{
	struct subscription *s = arg;
	uint64_t end = sc_session_awaits_end(s->session);

	if (end > sc_session_resume(s->session))
		sc_events_gap(s->events, true, sc_session_resume(s->session), end - 1);
	sc_ending_begin(s->ending);
}

/* The timers that watch for rows; they rest while the consumer is busy, or the archive is read. */
static void watch_rows(struct subscription *s, bool on)
{
	on = on && !sc_catchup_active(s->catchup);
	sc_delivery_watch(s->delivery, on);
	if (on && sc_session_greeted(s->session) && sc_session_awaits_end(s->session))
		sc_timer_start(s->end_timer, END_QUIET_MS);
	else
		sc_timer_stop(s->end_timer);
}

/* Rows come from the archive, or from the server. */
static void pause_rows(struct subscription *s)
{
	if (sc_catchup_active(s->catchup))
		sc_catchup_pause(s->catchup);
	else
		sc_client_pause(s->client);
	watch_rows(s, false);
}

static void resume_rows(struct subscription *s)
{
	if (sc_catchup_active(s->catchup))
		sc_catchup_resume(s->catchup);
	sc_client_resume(s->client);
	watch_rows(s, true);
}

static bool rows_paused(const struct subscription *s)
{
	return sc_catchup_active(s->catchup) ? sc_catchup_paused(s->catchup)
					     : sc_client_paused(s->client);
}

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct subscription *s = arg;

	sc_ending_place(s->ending, "at stream", opened->place); /* the session knows no server */
	sc_session_connected(s->session);
	sc_events_connected(s->events, opened);
}

static int deliver(struct subscription *s, const struct sc_data *row, struct sc_err *err)
{
	uint64_t lines;
	int rc = sc_delivery_row(s->delivery, row, row->has_offset ? row->offset : 0, &lines, err);

	if (rc == 0)
		sc_session_delivered(s->session, lines);
	return rc;
}

/* After a row or a greeting: is that all, or too much for now? */
static void look_on(struct subscription *s)
{
	struct sc_gap gap;

	if (sc_session_gap(s->session, &gap))
		sc_events_gap(s->events, gap.known, gap.first, gap.last);
	if (sc_session_finished(s->session))
		sc_ending_begin(s->ending);
	else if (sc_delivery_full(s->delivery))
		pause_rows(s);
}

/* The first message of a connection that is made for it alone. */
static void peek(struct subscription *s, const struct sc_client_message *message)
{
	struct sc_err err;

	if (sc_session_peeked(s->session, message->payload, message->binary, &err) < 0) {
		sc_ending_give_up(s->ending, &err);
		return;
	}
	s->peeking = false;
	s->peeked = true;
	sc_client_reconnect(s->client); /* on_ended knows what comes next */
}

static void on_message(void *arg, const struct sc_client_message *message)
{
	struct subscription *s = arg;
	enum sc_session_step step;
	struct sc_data row;
	struct sc_err err;

	if (ending(s) || sc_ending_has_failed(s->ending) || s->peeked)
		return;
	if (s->peeking) {
		peek(s, message);
		return;
	}
	if (sc_session_message(s->session, message->payload, message->binary, &step, &row, &err) <
	    0) {
		sc_ending_give_up(s->ending, &err);
		return;
	}
	if (step == SC_STEP_GREETED) {
		sc_client_proved(s->client);
	} else if (step == SC_STEP_ROW && deliver(s, &row, &err) < 0) {
		sc_ending_give_up(s->ending, &err);
		return;
	}
	look_on(s);
}

static void on_batch(void *arg)
{
	struct subscription *s = arg;

	if (!sc_delivery_flush(s->delivery) || ending(s))
		return;
	if (rows_paused(s) && !sc_delivery_full(s->delivery))
		resume_rows(s);
	else
		watch_rows(s, !rows_paused(s));
}

static int aim(struct subscription *s, struct sc_err *err)
{
	int rc = s->peeking ? sc_session_peek_target(s->session, &s->target, err)
			    : sc_session_target(s->session, &s->target, err);

	if (rc < 0)
		return rc;
	sc_bytes_clear(&s->full);
	if (sc_bytes_put(&s->full, s->url.data, s->url.len) < 0 ||
	    sc_bytes_put(&s->full, s->target.data, s->target.len) < 0 || !sc_bytes_str(&s->full))
		return sc_err_nomem(err, "cannot subscribe");
	return s->client ? sc_client_set_url(s->client, s->full.data, err) : 0;
}

/* The same fault of the peer again and again at the same row (one that is larger than we take,
 * say): it will not go away. */
static bool stuck(struct subscription *s, const struct sc_err *err)
{
	if (!err || err->code != SC_E_PROTOCOL)
		return false;
	if (sc_session_rows(s->session) != s->fault_rows)
		s->faults = 0;
	s->fault_rows = sc_session_rows(s->session);
	return ++s->faults >= FAULTS_MAX;
}

/* The server does not go back so far: to the archive, once it is known where that is. */
static int go_back(struct subscription *s, enum sc_client_next *ret_next, struct sc_err *err)
{
	s->peeked = false;
	if (!sc_catchup_located(s->catchup) && !s->asked) {
		s->peeking = s->asked = true;
		*ret_next = SC_CLIENT_AT_ONCE;
		return aim(s, err);
	}
	sc_catchup_begin(s->catchup); /* what goes wrong ends it: on_caught_up */
	watch_rows(s, false);
	*ret_next = SC_CLIENT_REST;
	return 0;
}

/* What the end of a connection means, and what comes next. */
static enum sc_client_next judge(struct subscription *s, const struct sc_client_ended *ended)
{
	enum sc_session_verdict verdict = s->peeked ? SC_VERDICT_CATCH_UP : SC_VERDICT_AGAIN;
	enum sc_client_next next = SC_CLIENT_STANDARD;
	struct sc_err err;
	int rc = 0;

	sc_err_clear(&err);
	if (!s->peeked && ended->was_open)
		verdict = sc_session_closed(s->session, ended->close_code, ended->close_reason,
					    &err);
	if (verdict == SC_VERDICT_AGAIN || (verdict == SC_VERDICT_CATCH_UP && s->peeking))
		rc = aim(s, &err);
	else if (verdict == SC_VERDICT_CATCH_UP)
		rc = go_back(s, &next, &err);
	else if (verdict == SC_VERDICT_FAIL)
		rc = err.code;
	if (rc < 0)
		sc_ending_give_up(s->ending, &err); /* what came before it is still delivered */
	else if (verdict == SC_VERDICT_END)
		sc_ending_begin(s->ending);
	else if (err.code && verdict == SC_VERDICT_AGAIN)
		sc_events_slow(s->events, &err, sc_session_resume(s->session));
	return next;
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct subscription *s = arg;
	enum sc_client_next next = SC_CLIENT_STANDARD;
	struct sc_client_ended told = *ended;
	struct sc_err refused;

	sc_timer_stop(s->end_timer);
	if (!ending(s) && ended->was_open && stuck(s, ended->err))
		sc_ending_give_up(s->ending, ended->err);
	refused = *ended->err;
	if (!ending(s) && !ended->was_open && sc_protocol_other(ended->headers, &refused))
		sc_ending_give_up(s->ending, &refused);
	if (!ending(s))
		next = judge(s, ended);
	if (ending(s) || next != SC_CLIENT_STANDARD)
		told.wait_ms = -1; /* whatever the policy would do */
	sc_events_ended(s->events, &told, sc_session_resume(s->session));
	return ending(s) ? SC_CLIENT_END : next;
}

static int on_archived(void *arg, enum sc_session_step step, const struct sc_data *row,
		       struct sc_err *err)
{
	struct subscription *s = arg;
	int rc = 0;

	if (step == SC_STEP_ROW)
		rc = deliver(s, row, err);
	else if (step == SC_STEP_DROPPED) /* finished once the rows before it are */
		rc = sc_delivery_skip(s->delivery, row->offset, err);
	if (rc == 0)
		look_on(s);
	return rc;
}

static void on_caught_up(void *arg, const struct sc_err *err)
{
	struct subscription *s = arg;
	struct sc_err late;

	if (ending(s))
		return;
	if (err->code) {
		sc_ending_give_up(s->ending, err);
	} else if (aim(s, &late) < 0) {
		sc_ending_give_up(s->ending, &late);
	} else {
		sc_client_reconnect(s->client);
		watch_rows(s, true);
	}
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct subscription *s = arg;

	watch_rows(s, false);
	sc_delivery_closed(s->delivery, err);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct subscription *)arg)->events, text);
}

static void on_room(void *arg)
{
	resume_rows(arg);
}

/* The URL in front of its target, however it was written. */
static int split_url(struct subscription *s, struct sc_session_options *session, struct sc_url *url,
		     struct sc_err *err)
{
	const char *text = s->o->connection.url;
	size_t len = strcspn(text, "#"), target_len;
	int rc = sc_url_parse(text, url, err);

	if (rc < 0)
		return rc;
	session->target = url->target;
	target_len = strlen(url->target);
	if (target_len <= len && !memcmp(text + len - target_len, url->target, target_len))
		len -= target_len;
	else if (target_len > 1 &&
		 target_len - 1 <= len && /* "ws://host?query": the slash was added */
		 !memcmp(text + len - (target_len - 1), url->target + 1, target_len - 1))
		len -= target_len - 1;
	return sc_bytes_put(&s->url, text, len) < 0 ? sc_err_nomem(err, "cannot subscribe") : 0;
}

static int set_up_session(struct subscription *s, struct sc_err *err)
{
	struct sc_session_options session = s->o->session;
	struct sc_url url = { 0 };
	uint64_t offset;
	struct sc_cursor *cursor = sc_delivery_cursor(s->delivery);
	int rc;

	if (cursor && sc_cursor_unusable(cursor))
		sc_events_warning(s->events, "the cursor file holds no offset: starting as "
					     "if it were not there");
	rc = split_url(s, &session, &url, err);
	if (rc == 0 && cursor && !session.has_offset && sc_cursor_value(cursor, &offset)) {
		session.has_offset = true;
		session.offset = offset + 1;
	}
	if (rc == 0)
		rc = sc_session_new(&session, &s->session, err);
	if (rc == 0)
		rc = aim(s, err);
	sc_url_done(&url);
	return rc;
}

static int set_up_catchup(struct subscription *s, struct sc_err *err)
{
	struct sc_catchup_options o = {
		.archive = s->o->archive,
		.store = s->o->store,
		.row = on_archived,
		.batch = on_batch,
		.done = on_caught_up,
		.arg = s,
	};

	return s->o->session.rounds
		       ? sc_catchup_new(s->loop, &o, s->session, s->events, &s->catchup, err)
		       : 0;
}

static int set_up(struct subscription *s, struct sc_err *err)
{
	static const struct sc_delivery_hooks delivery = { .ending = on_ending, .room = on_room };
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
		rc = sc_loop_new(&s->loop, err);
	if (rc == 0)
		rc = sc_delivery_new(s->loop, &s->o->delivery, &delivery, s, &s->delivery, err);
	if (rc < 0)
		return rc;
	s->ending = sc_delivery_ending(s->delivery);
	rc = set_up_session(s, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, on_end_quiet, s, &s->end_timer, err);
	if (rc == 0)
		rc = set_up_catchup(s, err);
	connection.url = s->full.data;
	if (rc == 0)
		rc = sc_client_new(s->loop, &connection, &hooks, s, &s->client, err);
	return rc;
}

static void tear_down(struct subscription *s)
{
	sc_client_free(s->client);
	sc_catchup_free(s->catchup);
	sc_timer_free(s->end_timer);
	sc_session_free(s->session);
	sc_delivery_free(s->delivery);
	sc_loop_free(s->loop);
	sc_events_close(s->events);
	sc_bytes_done(&s->url);
	sc_bytes_done(&s->target);
	sc_bytes_done(&s->full);
}

int sc_subscription_run(const struct sc_subscription_options *options,
			struct sc_subscription_result *ret_result, struct sc_err *err)
{
	struct subscription s = { .o = options };
	int rc;

	*ret_result = (struct sc_subscription_result){ 0 };
	sc_bytes_init(&s.url, 1 << 20);
	sc_bytes_init(&s.target, 1 << 20);
	sc_bytes_init(&s.full, 2 << 20);
	rc = set_up(&s, err);
	if (rc == 0) {
		watch_rows(&s, true);
		rc = sc_delivery_run(s.delivery, err);
		*ret_result = (struct sc_subscription_result){
			.rows = sc_session_rows(s.session),
			.lines = sc_delivery_lines(s.delivery),
			.last = sc_session_last(s.session),
			.resume = sc_session_resume(s.session),
			.signo = sc_ending_signo(s.ending),
		};
	}
	tear_down(&s);
	return rc;
}
