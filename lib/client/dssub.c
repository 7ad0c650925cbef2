/* client/dssub.c: see client/dssub.h. */
#include "client/dssub_internal.h"

#include <stdio.h>
#include <string.h>

#include "net/url.h"

#define PAGE_ROOM (4u << 20) /* of a page, besides one message */
#define FAULTS_MAX 3

static void on_ending(void *arg)
{
	struct sc_dssub *s = arg;

	sc_timer_stop(s->answer_timer);
	sc_timer_stop(s->later_timer);
	sc_client_resume(s->client);
	sc_client_close(s->client, 1000, "");
}

/* The client. */

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct sc_dssub *s = arg;

	sc_ending_place(s->ending, "stream", opened->place);
	if (!s->asked_reconnect)
		sc_events_connected(s->events, opened);
	s->asked_reconnect = false;
	sc_dssub_process(s);
}

static void on_message(void *arg, const struct sc_client_message *m)
{
	struct sc_dssub *s = arg;
	struct sc_err err;

	if (sc_dssub_ending(s))
		return;
	if (!s->asking) {
		sc_err_set(&err, SC_E_PROTOCOL, "cannot read", "more than an answer came");
		sc_ending_give_up(s->ending, &err);
		return;
	}
	if (s->in_at > s->piece_left) {
		sc_bytes_drop(&s->in, s->in_at - s->piece_left);
		s->in_at = s->piece_left;
	}
	if (sc_bytes_put(&s->in, m->payload.data, m->payload.len) < 0) {
		sc_err_nomem(&err, "cannot read");
		sc_ending_give_up(s->ending, &err);
		return;
	}
	sc_dssub_process(s);
}

static void on_batch(void *arg)
{
	struct sc_dssub *s = arg;

	if (sc_delivery_flush(s->delivery) && !sc_dssub_ending(s))
		sc_dssub_process(s);
}

static bool stuck(struct sc_dssub *s, const struct sc_err *err)
{
	if (s->result.rows != s->fault_rows)
		s->faults = 0;
	s->fault_rows = s->result.rows;
	return err->code == SC_E_PROTOCOL && ++s->faults >= FAULTS_MAX;
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct sc_dssub *s = arg;
	bool was_asking = s->asking;
	struct sc_client_ended told = *ended;

	sc_timer_stop(s->answer_timer);
	s->asking = false;
	sc_bytes_clear(&s->in);
	s->in_at = s->piece_left = 0;
	if (sc_dssub_ending(s)) {
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
		if (sc_dssub_page(s, &err) < 0)
			sc_ending_give_up(s->ending, &err);
		return sc_dssub_ending(s) ? SC_CLIENT_END : SC_CLIENT_AT_ONCE;
	} else if (ended->was_open && stuck(s, ended->err)) {
		sc_ending_give_up(s->ending, ended->err);
		told.wait_ms = -1;
	}
	sc_events_ended(s->events, &told, 0);
	return sc_dssub_ending(s) ? SC_CLIENT_END : SC_CLIENT_STANDARD;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	sc_delivery_closed(((struct sc_dssub *)arg)->delivery, err);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct sc_dssub *)arg)->events, text);
}

static void on_room(void *arg)
{
	struct sc_dssub *s = arg;

	sc_dssub_process(s);
	(void)sc_delivery_flush(s->delivery);
}

/* Setting up. */

static const char *begin_at(struct sc_dssub *s)
{
	struct sc_cursor *cursor = sc_delivery_cursor(s->delivery);

	if (s->d->offset)
		return s->d->offset;
	if (cursor && sc_cursor_text(cursor)[0])
		return sc_cursor_text(cursor);
	return "now";
}

static int set_up_read(struct sc_dssub *s, struct sc_err *err)
{
	struct sc_dsread_options o = { .live = s->d->live,
				       .until_end = s->o->session.until_end,
				       .held_max = s->body.max };
	struct sc_url url = { 0 };
	int rc = sc_url_parse(s->o->connection.url, &url, err);

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

static int set_up(struct sc_dssub *s, struct sc_err *err)
{
	static const struct sc_delivery_hooks delivery = { .ending = on_ending,
							   .room = on_room,
							   .keep = sc_dssub_keep };
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
	rc = set_up_read(s, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, sc_dssub_late, s, &s->answer_timer, err);
	if (rc == 0)
		rc = sc_timer_new(s->loop, sc_dssub_later, s, &s->later_timer, err);
	connection.raw = true;
	if (rc == 0)
		rc = sc_client_new(s->loop, &connection, &hooks, s, &s->client, err);
	return rc;
}

static void tear_down(struct sc_dssub *s)
{
	sc_client_free(s->client);
	sc_timer_free(s->later_timer);
	sc_timer_free(s->answer_timer);
	sc_dsread_free(s->read);
	sc_delivery_free(s->delivery);
	sc_loop_free(s->loop);
	sc_events_close(s->events);
	sc_httpanswer_done(&s->answer);
	sc_sse_done(&s->sse);
	sc_dssub_forget(s);
	sc_bytes_done(&s->in);
	sc_bytes_done(&s->body);
	sc_bytes_done(&s->target);
	sc_bytes_done(&s->head);
}

int sc_dssub_run(const struct sc_dssub_options *options, struct sc_subscription_result *ret_result,
		 struct sc_err *err)
{
	struct sc_dssub s = { .d = options, .o = options->common };
	size_t page_max = (size_t)s.o->connection.message_max + PAGE_ROOM;
	int rc;

	s.end_mark = &s.first_mark;
	sc_httpanswer_init(&s.answer);
	sc_sse_init(&s.sse, page_max);
	sc_bytes_init(&s.in, SIZE_MAX / 4); /* bounded: the client is paused while messages wait */
	sc_bytes_init(&s.body, page_max);
	sc_bytes_init(&s.target, 1 << 20);
	sc_bytes_init(&s.head, 2 << 20);
	rc = set_up(&s, err);
	if (rc == 0) {
		sc_delivery_watch(s.delivery, true);
		rc = sc_delivery_run(s.delivery, err);
		s.result.lines = sc_delivery_lines(s.delivery);
		s.result.signo = sc_ending_signo(s.ending);
	}
	tear_down(&s);
	*ret_result = s.result;
	return rc;
}
