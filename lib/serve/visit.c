/* serve/visit.c: one connection: who it is, what it wants, what it gets. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "net/http.h"
#include "serve/app.h"
#include "wire/refusal.h"
#include "wire/where.h"

#define RUNS_MAX 8       /* runs of frames to one subscriber before the others get their turn */
#define MESSAGES_MAX 512 /* the same where each message is written by itself */
#define SLOW_MS 10000    /* a dropped subscriber may take what was sent before for so long */

struct sc_target_rules sc_visit_rules(const struct sc_app *app)
{
	return (struct sc_target_rules){ .wire = app->o->stream.wire ? app->o->stream.wire : 1,
					 .publish = app->o->stream.publish };
}

unsigned sc_visit_allow(struct sc_app *app, const struct sc_request *request,
			struct sc_reply *reply)
{
	struct sc_err err;
	unsigned may;

	if (!app->tokens)
		return SC_MAY_READ | SC_MAY_PUBLISH;
	if (sc_tokens_refresh(app->tokens, &err) < 0) {
		char line[1200];

		sc_err_line(&err, line, sizeof(line));
		sc_app_say(app, SC_WARNING, "%s; the old tokens stay", line);
	}
	may = request->authorization.data ? sc_tokens_allow(app->tokens, request->authorization)
					  : 0;
	if (may)
		return may;
	reply->status = 401;
	reply->fields = "WWW-Authenticate: Bearer realm=\"sc-serve\"\r\nWWW-Authenticate: Basic "
			"realm=\"sc-serve\"\r\n";
	reply->body = request->authorization.data
			      ? SC_SPAN("the token is not known here\n")
			      : SC_SPAN("a token is needed: Authorization: Bearer TOKEN\n");
	return 0;
}

int sc_visit_new(struct sc_app *app, struct sc_conn *conn, enum sc_visit_kind kind,
		 struct sc_visit **ret_visit)
{
	struct sc_visit *v = sc_calloc(1, sizeof(*v));

	if (!v)
		return SC_E_NOMEM;
	v->app = app;
	v->conn = conn;
	v->kind = kind;
	sc_bytes_init(&v->out, SIZE_MAX / 4);
	sc_conn_set_user(conn, v);
	*ret_visit = v;
	return 0;
}

void sc_visit_weigh(struct sc_visit *v)
{
	sc_conn_holds(v->conn, v->filter_bytes + v->out.cap);
}

bool sc_visit_fits(struct sc_visit *v, const struct sc_target *target, struct sc_reply *reply)
{
	if (!target->where.len)
		return true;
	v->filter_bytes = SC_WHERE_BYTES(target->where.len);
	if (sc_conn_has_room(v->conn, v->filter_bytes)) {
		sc_visit_weigh(v);
		return true;
	}
	sc_conn_refused(v->conn);
	reply->status = 503;
	reply->fields = "Retry-After: 5\r\n";
	reply->body = SC_SPAN("connections hold as much as they may (--max-memory); try again "
			      "later\n");
	return false;
}

static void refuse(struct sc_visit *v, const struct sc_refusal *refusal)
{
	v->kind = SC_VISIT_REFUSED;
	v->close.code = sc_refusal_code(refusal);
	v->close.len = sc_refusal_reason(refusal, v->close.reason);
}

/* Ours is the fault: 1011, the reason on stderr. */
static void break_off(struct sc_visit *v, const struct sc_err *err)
{
	char line[1200];

	sc_err_line(err, line, sizeof(line));
	sc_app_say(v->app, SC_WARNING, "%s was cut off: %s", sc_conn_peer(v->conn), line);
	v->kind = SC_VISIT_REFUSED;
	v->close.code = SC_CLOSE_FAILED;
	v->close.len = (size_t)snprintf(v->close.reason, sizeof(v->close.reason),
					"the server failed");
}

static void subscribe(struct sc_visit *v, const struct sc_target *target)
{
	struct sc_refusal refusal;
	struct sc_err err;
	int rc = sc_host_attach(v->host, target, v, &v->subscriber, &refusal, &err);

	if (rc == 0)
		v->kind = SC_VISIT_SUBSCRIBER;
	else if (rc == 1)
		refuse(v, &refusal);
	else
		break_off(v, &err);
}

static void publish(struct sc_visit *v, const struct sc_target *target)
{
	struct sc_refusal refusal;
	struct sc_err err;

	if (target->producer.len && !v->host->writer) { /* nothing there remembers it */
		sc_refusal_init(&refusal, SC_REFUSAL_BAD_REQUEST);
		sc_refusal_detail(&refusal, "a stream without a log knows no producers");
		refuse(v, &refusal);
		return;
	}
	v->kind = SC_VISIT_PUBLISHER;
	if (v->host->writer && sc_publisher_new(v->host->writer, target->producer, target->epoch, v,
						&v->publisher, &err) < 0)
		break_off(v, &err);
}

/* The missing stream is told before anything else about the target. */
static void decide(struct sc_visit *v, const struct sc_target *target, int parsed,
		   const struct sc_refusal *refusal, const struct sc_err *err)
{
	struct sc_refusal missing;

	if (parsed < 0) {
		break_off(v, err);
		return;
	}
	v->host = sc_app_host(v->app, target->name);
	if (!v->host) {
		sc_refusal_init(&missing, SC_REFUSAL_NO_SUCH_STREAM);
		missing.serves = v->app->names;
		missing.serves_count = v->app->host_count;
		missing.has |= SC_HAS_SERVES;
		refuse(v, &missing);
	} else if (parsed == 1) {
		refuse(v, refusal);
	} else if (target->publish) {
		publish(v, target);
	} else {
		subscribe(v, target);
	}
}

static void on_upgrade(void *arg, struct sc_conn *conn, const struct sc_request *request,
		       struct sc_reply *reply)
{
	struct sc_app *app = arg;
	unsigned may = sc_visit_allow(app, request, reply);
	struct sc_target_rules rules = sc_visit_rules(app);
	struct sc_target target;
	struct sc_refusal refusal;
	struct sc_visit *v;
	struct sc_err err;
	int parsed;

	if (!may)
		return;
	parsed = sc_target_parse(request->target, &rules, &target, &refusal, &err);
	if (parsed == 0 && !(may & (target.publish ? SC_MAY_PUBLISH : SC_MAY_READ))) {
		reply->status = 403;
		reply->body = target.publish ? SC_SPAN("this token may not publish\n")
					     : SC_SPAN("this token may not read\n");
	} else if (sc_visit_new(app, conn, SC_VISIT_REFUSED, &v) < 0) {
		reply->status = 503;
	} else if (!sc_visit_fits(v, &target, reply)) {
		sc_conn_holds(conn, 0);
		sc_conn_set_user(conn, NULL);
		free(v);
	} else {
		decide(v, &target, parsed, &refusal, &err);
	}
	sc_target_done(&target);
}

static void on_open(void *arg, struct sc_conn *conn)
{
	struct sc_visit *v = sc_conn_user(conn);

	(void)arg;
	switch (v->kind) {
	case SC_VISIT_SUBSCRIBER:
		sc_conn_discard(conn);
		sc_conn_want_write(conn);
		break;
	case SC_VISIT_PUBLISHER:
		sc_publish_open(v);
		break;
	default:
		sc_conn_discard(conn);
		sc_app_say(v->app, SC_INFO, "%s was refused: %d %.*s", sc_conn_peer(conn),
			   v->close.code, (int)v->close.len, v->close.reason);
		sc_conn_close(conn, v->close.code, sc_span(v->close.reason, v->close.len));
	}
}

static void on_message(void *arg, struct sc_conn *conn, enum sc_message kind, struct sc_span data)
{
	struct sc_visit *v = sc_conn_user(conn);

	(void)arg;
	(void)kind; /* original publishers send either */
	if (v->kind == SC_VISIT_PUBLISHER)
		sc_publish_message(v, data);
}

void sc_visit_failed(struct sc_visit *v, const struct sc_err *err)
{
	char line[1200];

	if (sc_subscriber_in_archive(v->subscriber)) {
		sc_host_archive_failed(v->host, err);
		sc_app_say(v->app, SC_INFO, "%s was cut off", sc_conn_peer(v->conn));
		return;
	}
	sc_err_line(err, line, sizeof(line));
	sc_app_say(v->app, SC_WARNING, "%s was cut off: %s", sc_conn_peer(v->conn), line);
}

static void close_subscriber(struct sc_visit *v, const struct sc_err *err)
{
	const struct sc_close *c = sc_subscriber_close(v->subscriber);

	if (c->code == SC_CLOSE_FAILED && err->code)
		sc_visit_failed(v, err);
	else
		sc_app_say(v->app, SC_INFO, "%s is closed: %d %.*s", sc_conn_peer(v->conn), c->code,
			   (int)c->len, c->reason);
	sc_conn_close(v->conn, c->code, sc_span(c->reason, c->len));
}

/* Ready-made frames, many at a time, straight from the ring. */
static void write_frames(struct sc_visit *v)
{
	struct sc_err err;

	sc_err_clear(&err);
	for (int run = 0; run < RUNS_MAX; run++) {
		struct sc_span frames;
		enum sc_next next = sc_subscriber_next(v->subscriber, SC_SUBSCRIBER_RUN, &frames,
						       &err);
		size_t taken;

		if (next == SC_NEXT_IDLE)
			return;
		if (next == SC_NEXT_CLOSE) {
			close_subscriber(v, &err);
			return;
		}
		if (next == SC_NEXT_AGAIN)
			break;
		taken = sc_conn_write_frames(v->conn, frames.data, frames.len);
		if (taken < frames.len) {
			sc_subscriber_sent_part(v->subscriber, taken);
			break;
		}
		sc_subscriber_sent(v->subscriber);
	}
	sc_conn_want_write(v->conn);
}

/* One message at a time: each is compressed for this connection alone. */
static void write_messages(struct sc_visit *v)
{
	struct sc_err err;

	sc_err_clear(&err);
	for (int i = 0; i < MESSAGES_MAX; i++) {
		struct sc_delivery d;
		enum sc_next next = sc_subscriber_message(v->subscriber, &d, &err);

		if (next == SC_NEXT_IDLE)
			return;
		if (next == SC_NEXT_CLOSE) {
			close_subscriber(v, &err);
			return;
		}
		if (next == SC_NEXT_AGAIN || !sc_conn_write_message(v->conn, SC_TEXT, d.payload))
			break;
		sc_subscriber_sent(v->subscriber);
	}
	sc_conn_want_write(v->conn);
}

static void on_writable(void *arg, struct sc_conn *conn)
{
	struct sc_visit *v = sc_conn_user(conn);

	(void)arg;
	switch (v->kind) {
	case SC_VISIT_SUBSCRIBER:
		if (sc_conn_compressed(conn))
			write_messages(v);
		else
			write_frames(v);
		break;
	case SC_VISIT_PUBLISHER:
		sc_publish_writable(v);
		break;
	case SC_VISIT_EVENTS:
		sc_events_writable(v);
		break;
	case SC_VISIT_REFUSED:
		break;
	}
}

static void on_closed(void *arg, struct sc_conn *conn, int code, struct sc_span reason,
		      bool by_peer)
{
	struct sc_visit *v = sc_conn_user(conn);

	(void)arg;
	(void)reason;
	if (!v)
		return;
	if (code == 1013 && !by_peer)
		sc_app_say(v->app, SC_INFO,
			   "%s was cut off: connections hold as much as they may (--max-memory)",
			   sc_conn_peer(conn));
	else
		sc_app_say(v->app, SC_DEBUG, "%s left: %d%s", sc_conn_peer(conn), code,
			   by_peer ? " (it closed)" : "");
	sc_subscriber_free(v->subscriber);
	sc_publisher_free(v->publisher);
	sc_timer_free(v->slow);
	sc_bytes_done(&v->out);
	if (v->link) {
		*v->link = v->next;
		if (v->next)
			v->next->link = v->link;
	}
	sc_conn_set_user(conn, NULL);
	free(v);
}

void sc_visit_wake(void *arg)
{
	sc_conn_want_write(((struct sc_visit *)arg)->conn);
}

static void on_slow(void *arg)
{
	sc_conn_abort(((struct sc_visit *)arg)->conn);
}

void sc_visit_dropped(void *arg)
{
	struct sc_visit *v = arg;

	sc_conn_want_write(v->conn);
	if (!v->slow && sc_timer_new(v->app->loop, on_slow, v, &v->slow, NULL) == 0)
		sc_timer_start(v->slow, SLOW_MS);
}

/* Small answers, and a stream for those without a WebSocket. */
static void on_http(void *arg, struct sc_conn *conn, const struct sc_request *request,
		    struct sc_reply *reply)
{
	struct sc_app *app = arg;
	struct sc_bytes *body = &app->body; /* borrowed by the server until this returns */
	struct sc_span path = sc_http_path(request->target);
	bool wants_events = request->accept.data &&
			    memmem(request->accept.data, request->accept.len, "text/event-stream",
				   17) != NULL;
	int rc = 0;

	if (sc_span_is(path, "/healthz")) { /* for machines that watch: no token */
		reply->status = app->ending ? 503 : 200;
		reply->type = "application/json";
		reply->body = app->ending ? SC_SPAN("{\"status\":\"ending\"}\n")
					  : SC_SPAN("{\"status\":\"ok\"}\n");
		return;
	}
	if (!(sc_visit_allow(app, request, reply) & SC_MAY_READ)) {
		if (!reply->status)
			reply->status = 403;
		return;
	}
	sc_bytes_clear(body);
	reply->status = 200;
	if (sc_span_is(path, "/metrics")) {
		reply->type = "text/plain; version=0.0.4; charset=utf-8";
		rc = sc_report_metrics(app, body);
	} else if (sc_span_is(path, "/stats")) {
		reply->type = "application/json";
		rc = sc_report_stats(app, body);
	} else if (sc_span_is(path, "/") && !wants_events) {
		reply->type = "text/html; charset=utf-8";
		rc = sc_report_page(app, body);
	} else {
		sc_events_answer(app, conn, request, reply);
		return;
	}
	if (rc < 0)
		reply->status = 503;
	else
		reply->body = sc_span(body->data, body->len);
}

const struct sc_server_hooks sc_visit_hooks = {
	.upgrade = on_upgrade,
	.open = on_open,
	.message = on_message,
	.writable = on_writable,
	.closed = on_closed,
	.http = on_http,
};
