/* serve/events.c: a stream as server-sent events, for clients without a WebSocket. */
#include <stdio.h>
#include <stdlib.h>

#include "serve/app.h"
#include "wire/refusal.h"

#define MESSAGES_MAX 512
#define BATCH_BYTES (32u << 10) /* of events in one write */
#define HEADERS "Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n"

/* What is not taken waits; true: nothing waits. */
static bool flush(struct sc_visit *v)
{
	if (v->out_at < v->out.len)
		v->out_at += sc_conn_write_stream(v->conn, v->out.data + v->out_at,
						  v->out.len - v->out_at);
	if (v->out_at < v->out.len)
		return false;
	if (v->out.cap > 2 * BATCH_BYTES) /* a long message: its memory is not kept */
		sc_bytes_done(&v->out);
	sc_bytes_clear(&v->out);
	v->out_at = 0;
	sc_visit_weigh(v);
	return true;
}

/* A payload holds no newline: it is a line of a log, or a greeting of ours. */
static int put_event(struct sc_bytes *out, const struct sc_delivery *d)
{
	int rc = 0;

	if (d->greeting)
		rc = sc_bytes_puts(out, "event: greeting\n");
	else if (d->has_offset)
		rc = sc_bytes_putf(out, "id: %llu\n", (unsigned long long)d->offset);
	if (rc == 0)
		rc = sc_bytes_puts(out, "data: ");
	if (rc == 0)
		rc = sc_bytes_put(out, d->payload.data, d->payload.len);
	return rc < 0 ? rc : sc_bytes_puts(out, "\n\n");
}

static int put_close(struct sc_bytes *out, const struct sc_close *c)
{
	int rc = sc_bytes_putf(out, "event: close\ndata: {\"code\":%d,\"reason\":", c->code);

	if (rc == 0)
		rc = sc_bytes_put_json(out, sc_span(c->reason, c->len));
	return rc < 0 ? rc : sc_bytes_puts(out, "}\n\n");
}

/* The end, after what waits. */
static void end(struct sc_visit *v)
{
	v->ended = true;
	if (put_close(&v->out, sc_subscriber_close(v->subscriber)) < 0 || flush(v))
		sc_conn_end_stream(v->conn);
	else
		sc_conn_want_write(v->conn);
}

/* Events into `out`, as many as one write should have. */
static enum sc_next gather(struct sc_visit *v, int *left)
{
	struct sc_err err;

	sc_err_clear(&err);
	while (v->out.len < BATCH_BYTES && (*left)-- > 0) {
		struct sc_delivery d;
		enum sc_next next = sc_subscriber_message(v->subscriber, &d, &err);

		if (next == SC_NEXT_CLOSE && err.code)
			sc_visit_failed(v, &err);
		if (next != SC_NEXT_DATA)
			return next;
		if (d.payload.len > BATCH_BYTES && !sc_conn_has_room(v->conn, d.payload.len)) {
			sc_conn_lose(v->conn);
			return SC_NEXT_IDLE;
		}
		if (put_event(&v->out, &d) < 0) {
			sc_conn_abort(v->conn);
			return SC_NEXT_IDLE;
		}
		sc_visit_weigh(v);
		sc_subscriber_sent(v->subscriber);
	}
	return SC_NEXT_DATA;
}

void sc_events_writable(struct sc_visit *v)
{
	int left = MESSAGES_MAX;

	while (flush(v)) {
		enum sc_next next = SC_NEXT_AGAIN;

		if (v->ended) {
			sc_conn_end_stream(v->conn);
			return;
		}
		if (left > 0)
			next = gather(v, &left);
		if (next == SC_NEXT_CLOSE) {
			end(v);
			return;
		}
		if (next == SC_NEXT_IDLE && flush(v))
			return;
		if (next != SC_NEXT_DATA)
			break;
	}
	sc_conn_want_write(v->conn);
}

void sc_events_keep_alive(struct sc_app *app)
{
	for (struct sc_visit *v = app->events; v; v = v->next)
		if (v->out_at == v->out.len && !v->ended && sc_bytes_puts(&v->out, ":\n\n") == 0 &&
		    !flush(v))
			sc_conn_want_write(v->conn);
}

/* A refusal of a WebSocket as an HTTP answer: the same JSON, the status that says the same. */
static void refuse(struct sc_app *app, const struct sc_refusal *refusal, struct sc_reply *reply)
{
	char reason[SC_REASON_MAX + 1];
	size_t len = sc_refusal_reason(refusal, reason);

	switch (sc_refusal_code(refusal)) {
	case SC_CLOSE_NO_SUCH_STREAM:
		reply->status = 404;
		break;
	case SC_CLOSE_NOT_REPLAYABLE:
		reply->status = 416;
		break;
	default:
		reply->status = 400;
	}
	reply->type = "application/json";
	sc_bytes_clear(&app->body);
	if (sc_bytes_put(&app->body, reason, len) == 0 && sc_bytes_putc(&app->body, '\n') == 0)
		reply->body = sc_span(app->body.data, app->body.len);
}

/* A browser that reconnects names the last event it has: that counts more than the offset of its
 * first request. */
static void take_last_id(const struct sc_request *request, struct sc_target *target)
{
	uint64_t last;

	if (!request->last_event_id.data || !sc_u64_parse(request->last_event_id, &last) ||
	    last == UINT64_MAX)
		return;
	target->has_offset = true;
	target->offset = last + 1;
	target->offset_digits[0] = 0;
}

static void attach(struct sc_app *app, struct sc_conn *conn, struct sc_host *host,
		   const struct sc_target *target, struct sc_reply *reply)
{
	struct sc_refusal refusal;
	struct sc_visit *v;
	struct sc_err err;
	int rc;

	if (sc_visit_new(app, conn, SC_VISIT_EVENTS, &v) < 0) {
		reply->status = 503;
		return;
	}
	rc = sc_visit_fits(v, target, reply)
		     ? sc_host_attach(host, target, v, &v->subscriber, &refusal, &err)
		     : SC_E_BUSY;
	if (rc != 0) {
		sc_conn_holds(conn, 0);
		sc_conn_set_user(conn, NULL);
		free(v);
		reply->status = 503;
		if (rc == 1)
			refuse(app, &refusal, reply);
		return;
	}
	v->host = host;
	v->next = app->events;
	v->link = &app->events;
	if (v->next)
		v->next->link = &v->next;
	app->events = v;
	reply->status = 200;
	reply->type = "text/event-stream";
	reply->fields = HEADERS;
	reply->stream = true;
	sc_conn_want_write(conn);
}

void sc_events_answer(struct sc_app *app, struct sc_conn *conn, const struct sc_request *request,
		      struct sc_reply *reply)
{
	struct sc_target_rules rules = sc_visit_rules(app);
	struct sc_target target;
	struct sc_refusal refusal;
	struct sc_host *host;
	struct sc_err err;
	int parsed = sc_target_parse(request->target, &rules, &target, &refusal, &err);

	host = parsed < 0 ? NULL : sc_app_host(app, target.name);
	if (parsed < 0) {
		reply->status = 503;
	} else if (!host) {
		sc_refusal_init(&refusal, SC_REFUSAL_NO_SUCH_STREAM);
		refusal.serves = app->names;
		refusal.serves_count = app->host_count;
		refusal.has |= SC_HAS_SERVES;
		refuse(app, &refusal, reply);
	} else if (parsed == 1) {
		refuse(app, &refusal, reply);
	} else if (target.publish) {
		reply->status = 400;
		reply->body = SC_SPAN("publishing needs a WebSocket\n");
	} else {
		/* a HEAD too: it gets the head, and is closed behind it */
		take_last_id(request, &target);
		attach(app, conn, host, &target, reply);
	}
	sc_target_done(&target);
}
