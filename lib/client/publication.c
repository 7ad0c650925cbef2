/* client/publication.c: publish lines over any number of connections. */
#include "client/publication.h"

#include <stdio.h>
#include <string.h>

#include "client/outbox.h"
#include "client/protocol.h"
#include "client/publines.h"
#include "net/loop.h"
#include "wire/greeting.h"
#include "wire/publish.h"
#include "wire/refusal.h"

#define FAULTS_MAX 3  /* lost connections in a row without a frame stored between */
#define LATER_MS 1000 /* before what a server could not store is sent again */
#define LATER_MAX_MS 30000

static const char tried[] = "cannot publish";

struct publication {
	const struct sc_publication_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_events *events;
	struct sc_outbox *box;
	struct sc_publines *lines;
	struct sc_ending *ending; /* the lines' */
	struct sc_timer *later_timer;
	struct sc_bytes url, store;
	uint64_t epoch;
	bool adopted;                         /* the epoch is the server's: once */
	struct sc_publication_result *result; /* the lines' */
	bool greeted, closing;
	bool asked; /* we end the connection to make another one: nobody is told */
	int64_t later_ms;
	uint64_t fault_moved;
	unsigned faults;
};

static bool ending(const struct publication *p)
{
	return sc_ending_is_begun(p->ending);
}

static void close_connection(struct publication *p)
{
	if (p->closing)
		return;
	p->closing = true;
	if (sc_client_paused(p->client))
		sc_client_resume(p->client);
	sc_client_close(p->client, SC_CLOSE_NORMAL, "");
}

static void on_ending(void *arg)
{
	struct publication *p = arg;

	sc_timer_stop(p->later_timer);
	if (sc_outbox_empty(p->box) || !p->greeted)
		close_connection(p);
}

/* Nothing more is taken in. NOW: nor is a reply waited for. */
static void begin_end(struct publication *p, bool now)
{
	sc_ending_begin(p->ending);
	if (now)
		close_connection(p);
}

static void give_up(struct publication *p, const struct sc_err *err)
{
	sc_ending_note(p->ending, err);
	begin_end(p, true);
}

/* Frames that may go now, go. */
static void send_frames(struct publication *p)
{
	struct sc_span frame;
	struct sc_err err;
	int rc;

	while (p->greeted && !p->closing && !sc_timer_runs(p->later_timer) &&
	       sc_client_is_open(p->client)) {
		rc = sc_outbox_next(p->box, &frame, &err);
		if (rc == 1) {
			rc = sc_client_send(p->client, frame, false, &err);
			if (rc == SC_E_BUSY || rc == SC_E_UNAVAILABLE)
				return; /* on_drained, or the next connection */
			if (rc == 0) {
				sc_outbox_sent(p->box);
				continue;
			}
		}
		if (rc < 0)
			give_up(p, &err);
		return;
	}
}

static void check_done(struct publication *p)
{
	if (p->closing || !sc_outbox_empty(p->box))
		return;
	if (ending(p) || (p->greeted && sc_publines_ended(p->lines)))
		begin_end(p, true);
}

/* Lines into the outbox, as long as it takes them. */
static void take_lines(struct publication *p)
{
	struct sc_publines_row row;
	struct sc_err err;

	if (!p->greeted || ending(p))
		return;
	while (!sc_outbox_full(p->box) && sc_publines_take(p->lines, &row))
		if (sc_outbox_put(p->box, row.text, row.line, row.number, &err) < 0)
			sc_publines_refuse(p->lines, &err);
	sc_publines_want(p->lines, !sc_outbox_full(p->box));
	send_frames(p);
	if (sc_publines_refused(p->lines))
		begin_end(p, false);
	else
		check_done(p);
}

static void on_ready(void *arg)
{
	struct publication *p = arg;

	if (sc_publines_refused(p->lines))
		begin_end(p, false);
	else
		take_lines(p);
}

static void on_left(void *arg)
{
	struct publication *p = arg;

	if (!p->closing)
		sc_client_resume(p->client);
}

/* The acknowledged rows as lines. */
static int print(struct publication *p, struct sc_err *err)
{
	struct sc_outbox_row row;
	int rc = 0;

	for (size_t i = 0; rc == 0 && sc_outbox_stored(p->box, i, &row); i++)
		rc = sc_publines_stored(p->lines, row.text, row.offset, row.number, err);
	sc_publines_print(p->lines);
	sc_outbox_drop(p->box);
	return rc;
}

static void on_later(void *arg)
{
	struct publication *p = arg;

	sc_outbox_resend(p->box);
	send_frames(p);
}

/* The server cannot store rows now. */
static void wait_for_server(struct publication *p)
{
	p->later_ms = p->later_ms ? 2 * p->later_ms : LATER_MS;
	if (p->later_ms > LATER_MAX_MS)
		p->later_ms = LATER_MAX_MS;
	sc_timer_start(p->later_timer, p->later_ms);
	sc_events_warning(p->events, "the server cannot store rows now; they are sent again");
}

static void take_step(struct publication *p, enum sc_outbox_step step)
{
	switch (step) {
	case SC_OUTBOX_LATER:
		wait_for_server(p);
		break;
	case SC_OUTBOX_RECONNECT:
		p->greeted = false;
		p->asked = true;
		sc_client_reconnect(p->client);
		break;
	case SC_OUTBOX_STORED:
	case SC_OUTBOX_WAIT:
		break;
	}
}

static void take_reply(struct publication *p, struct sc_span text)
{
	enum sc_outbox_step step;
	struct sc_err err;
	int rc = sc_outbox_reply(p->box, text, &step, &err);

	if (rc == 0 && step == SC_OUTBOX_STORED) {
		p->later_ms = 0;
		sc_client_proved(p->client);
		rc = print(p, &err);
		if (rc == 0)
			rc = sc_outbox_settle(p->box, &step, &err);
	}
	if (rc < 0)
		give_up(p, &err);
	else
		take_step(p, step);
}

/* Append a query parameter's value. */
static int put_encoded(struct sc_bytes *out, const char *text)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || (c && strchr("-._~", c));
		char code[3] = { '%', hex[c >> 4], hex[c & 15] };

		if (sc_bytes_put(out, plain ? text : code, plain ? 1 : 3) < 0)
			return SC_E_NOMEM;
	}
	return 0;
}

static bool has_key(const char *query, size_t len, const char *key)
{
	size_t n = strlen(key);

	for (size_t at = 0; at < len;) {
		const char *end = memchr(query + at, '&', len - at);
		size_t item = end ? (size_t)(end - query) - at : len - at;

		if (item >= n && !memcmp(query + at, key, n) && (item == n || query[at + n] == '='))
			return true;
		at += item + 1;
	}
	return false;
}

/* The URL with what makes us a publisher. */
static int make_url(struct publication *p, struct sc_err *err)
{
	const char *text = p->o->connection.url;
	size_t len = strcspn(text, "#");
	const char *mark = memchr(text, '?', len);
	size_t query = mark ? (size_t)(mark - text) + 1 : len;
	struct sc_bytes *url = &p->url;
	int rc;

	if (has_key(text + query, len - query, "producer") ||
	    has_key(text + query, len - query, "epoch")) {
		sc_err_set(err, SC_E_USAGE, tried, "the URL names a producer or an epoch");
		return sc_err_next(err, "use --producer and --epoch");
	}
	sc_bytes_clear(url);
	rc = sc_bytes_put(url, text, len);
	if (rc == 0 && !has_key(text + query, len - query, "publish")) {
		rc = sc_bytes_puts(url, !mark ? "?" : query < len ? "&" : "");
		if (rc == 0)
			rc = sc_bytes_puts(url, "publish");
	}
	if (rc == 0 && p->o->producer) {
		rc = sc_bytes_puts(url, "&producer=");
		if (rc == 0)
			rc = put_encoded(url, p->o->producer);
		if (rc == 0)
			rc = sc_bytes_putf(url, "&epoch=%llu", (unsigned long long)p->epoch);
	}
	return rc < 0 || !sc_bytes_str(url) ? sc_err_nomem(err, tried) : 0;
}

/* Somebody has published under a higher epoch: at the start it is ours too, later he took over. */
static int check_epoch(struct publication *p, const struct sc_greeting *g, struct sc_err *err)
{
	int rc;

	if (!g->has_producer || g->producer_epoch <= p->epoch)
		return 0;
	if (p->o->has_epoch || p->adopted || p->result->rows) {
		sc_err_set(err, SC_E_REFUSED, tried,
			   "the producer was taken over by another process with epoch %llu, ours "
			   "is %llu",
			   (unsigned long long)g->producer_epoch, (unsigned long long)p->epoch);
		sc_err_field_str(err, "why", SC_PUBLISH_FENCED);
		sc_err_field_u64(err, "epoch", g->producer_epoch);
		return sc_err_next(err, "let that one go on, or take over with a higher --epoch");
	}
	p->adopted = true;
	p->epoch = g->producer_epoch;
	rc = make_url(p, err);
	if (rc == 0)
		rc = sc_client_set_url(p->client, p->url.data, err);
	if (rc < 0)
		return rc;
	p->asked = true;
	sc_client_reconnect(p->client);
	return 1;
}

static int take_greeting(struct publication *p, const struct sc_client_message *m,
			 struct sc_err *err)
{
	struct sc_greeting g;
	uint64_t stored;
	int rc;

	if (m->binary)
		return sc_err_set(err, SC_E_PROTOCOL, tried,
				  "the first message is binary, not a greeting");
	rc = sc_greeting_parse(m->payload, &p->store, &g, err);
	if (rc < 0)
		return rc;
	if (p->o->producer && !g.tells_producer) {
		sc_err_set(err, SC_E_PROTOCOL, tried, "the server knows no producers");
		return sc_err_next(err, "leave --producer out");
	}
	rc = check_epoch(p, &g, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	stored = g.has_producer ? g.producer_seq : 0;
	rc = sc_outbox_connected(p->box, stored, err);
	if (rc == 0)
		rc = sc_pubrow_schema(sc_publines_rows(p->lines), g.schema, err);
	if (rc < 0)
		return rc;
	sc_pubrow_stored(sc_publines_rows(p->lines), stored);
	if (stored > p->result->last_number)
		p->result->last_number = stored;
	p->greeted = true;
	if (p->o->ask)
		begin_end(p, true);
	send_frames(p);
	take_lines(p);
	return 0;
}

static void on_message(void *arg, const struct sc_client_message *m)
{
	struct publication *p = arg;
	struct sc_err err;

	if (p->closing)
		return;
	if (p->greeted)
		take_reply(p, m->payload);
	else if (take_greeting(p, m, &err) < 0)
		give_up(p, &err);
	if (sc_publines_full(p->lines) && !p->closing)
		sc_client_pause(p->client);
}

/* After the messages of one read. */
static void on_batch(void *arg)
{
	struct publication *p = arg;

	if (!sc_publines_flush(p->lines))
		return;
	if (!p->closing && sc_client_paused(p->client) && !sc_publines_full(p->lines))
		sc_client_resume(p->client);
	if (p->closing)
		return;
	send_frames(p);
	take_lines(p);
	check_done(p);
}

static void on_drained(void *arg)
{
	send_frames(arg);
}

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct publication *p = arg;

	p->greeted = false;
	sc_ending_place(p->ending, "to stream", opened->place);
	if (!p->asked)
		sc_events_connected(p->events, opened);
	p->asked = false;
}

/* The peer closed, or the connection is lost: may it be made again? */
static int judge(struct publication *p, const struct sc_client_ended *ended, struct sc_err *err)
{
	struct sc_refusal refusal;
	uint64_t first, last;
	int rc;

	if (!ended->was_open) {
		*err = *ended->err;
		return sc_protocol_other(ended->headers, err) ? err->code : 0;
	}
	sc_refusal_parse(ended->close_code, ended->close_reason, &refusal);
	/* protocol 1 has no word for it: the key is not known */
	if (refusal.kind == SC_REFUSAL_BAD_REQUEST && strstr(refusal.detail, "unknown query") &&
	    strstr(refusal.detail, "publish"))
		refusal.kind = SC_REFUSAL_PUBLISH_DISABLED;
	if (refusal.kind != SC_REFUSAL_NONE) {
		rc = sc_refusal_err(&refusal, tried, err);
		if (refusal.kind == SC_REFUSAL_BAD_REQUEST && strstr(refusal.detail, "producer"))
			sc_err_next(err, "the server knows no producers: leave --producer out");
		return rc;
	}
	if (ended->close_code == SC_CLOSE_TOO_BIG && sc_outbox_in_doubt(p->box, &first, &last)) {
		sc_err_set(err, SC_E_DATA, tried,
			   "one of the lines %llu to %llu is longer than the server takes",
			   (unsigned long long)first, (unsigned long long)last);
		sc_err_field_u64(err, "line", first);
		sc_err_field_u64(err, "last_line", last);
		return sc_err_next(err, "the server's limit is its --max-message");
	}
	rc = sc_outbox_lost(p->box, err);
	if (rc < 0)
		return rc;
	/* Lost again and again at the same frame: it will not go away. */
	if (sc_outbox_moved(p->box) != p->fault_moved)
		p->faults = 0;
	p->fault_moved = sc_outbox_moved(p->box);
	if (ended->err->code == SC_E_PROTOCOL && ++p->faults >= FAULTS_MAX) {
		*err = *ended->err;
		return err->code;
	}
	return 0;
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct publication *p = arg;
	struct sc_client_ended told = *ended;
	struct sc_err err;

	p->greeted = false;
	sc_timer_stop(p->later_timer);
	sc_err_clear(&err);
	if (!p->closing && !p->asked && judge(p, ended, &err) < 0) {
		p->closing = true;
		sc_ending_give_up(p->ending, &err);
	}
	if (p->closing)
		told.wait_ms = -1;
	if (!p->asked)
		sc_events_ended(p->events, &told, 0);
	return p->closing ? SC_CLIENT_END : SC_CLIENT_STANDARD;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct publication *p = arg;
	struct sc_err last = *err;

	if (!p->closing && err->code) {
		sc_err_field_u64(&last, "stored_line", sc_outbox_line(p->box));
		sc_ending_note(p->ending, &last);
	}
	p->closing = true;
	sc_publines_closed(p->lines);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct publication *)arg)->events, text);
}

static void on_room(void *arg)
{
	struct publication *p = arg;

	if (!p->closing)
		sc_client_resume(p->client);
}

static int set_up_connection(struct publication *p, struct sc_err *err)
{
	static const struct sc_client_hooks hooks = {
		.opened = on_opened,
		.message = on_message,
		.batch = on_batch,
		.drained = on_drained,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	struct sc_client_options connection = p->o->connection;
	int rc = make_url(p, err);

	if (rc < 0)
		return rc;
	connection.url = p->url.data;
	/* One frame is as long as a row may be, or as many rows are. */
	connection.send_max = p->o->connection.message_max + 2 * SC_OUTBOX_FRAME_BYTES;
	if (connection.send_max < SC_OUTBOX_HELD_BYTES)
		connection.send_max = SC_OUTBOX_HELD_BYTES;
	return sc_client_new(p->loop, &connection, &hooks, p, &p->client, err);
}

static int set_up(struct publication *p, struct sc_err *err)
{
	static const struct sc_publines_hooks lines = {
		.ending = on_ending,
		.ready = on_ready,
		.room = on_room,
		.left = on_left,
	};
	struct sc_outbox_options box = {
		.window = p->o->window,
		.batch = p->o->batch,
		.producer = p->o->producer != NULL,
		.again = p->o->again,
	};
	int rc = sc_events_open(&p->o->events, &p->events, err);

	if (rc == 0)
		rc = sc_outbox_new(&box, &p->box, err);
	if (rc == 0)
		rc = sc_loop_new(&p->loop, err);
	if (rc == 0)
		rc = sc_timer_new(p->loop, on_later, p, &p->later_timer, err);
	if (rc == 0)
		rc = sc_publines_new(p->loop, p->o, &lines, p, &p->lines, err);
	if (rc < 0)
		return rc;
	p->ending = sc_publines_ending(p->lines);
	p->result = sc_publines_result(p->lines);
	return set_up_connection(p, err);
}

static void tear_down(struct publication *p)
{
	sc_client_free(p->client);
	sc_publines_free(p->lines);
	sc_timer_free(p->later_timer);
	sc_loop_free(p->loop);
	sc_outbox_free(p->box);
	sc_events_close(p->events);
	if (p->url.data)
		explicit_bzero(p->url.data, p->url.len); /* it may hold a password */
	sc_bytes_done(&p->url);
	sc_bytes_done(&p->store);
}

int sc_publication_run(const struct sc_publication_options *options,
		       struct sc_publication_result *ret_result, struct sc_err *err)
{
	struct publication p = { .o = options, .epoch = options->epoch };
	uint64_t first, last;
	int rc;

	*ret_result = (struct sc_publication_result){ 0 };
	sc_bytes_init(&p.url, 1 << 20);
	sc_bytes_init(&p.store, 16 << 20);
	rc = set_up(&p, err);
	if (rc == 0)
		rc = sc_loop_run(p.loop, err);
	if (rc == 0) { /* ended before all replies came, maybe: which lines are they? */
		rc = sc_ending_result(p.ending, err);
		if (rc == 0 && sc_outbox_in_doubt(p.box, &first, &last))
			sc_events_in_doubt(p.events, first, last);
	}
	if (p.result) {
		*ret_result = *p.result;
		ret_result->signo = sc_ending_signo(p.ending);
	}
	tear_down(&p);
	return rc;
}
