/* http_request.c: the head of a request: its fields, its framing, and where it goes. */
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "durable/http_internal.h"

#define KEEP_BYTES 4096 /* of a buffer, for the next request */

void sc_ds_conn_refuse(struct sc_ds_conn *conn, int status, const char *error)
{
	sc_ds_answer_error(&conn->call.answer, status, error);
	conn->route = SC_DS_ROUTE_REFUSED;
}

/* Refused, and nothing that follows on the connection can be trusted. */
static void refuse_framing(struct sc_ds_conn *conn, const char *error)
{
	sc_ds_conn_refuse(conn, 400, error);
	conn->close_after = true;
}

static void drop(struct sc_bytes *bytes)
{
	if (bytes->cap > KEEP_BYTES)
		sc_bytes_done(bytes);
	else
		sc_bytes_clear(bytes);
}

void sc_ds_conn_forget_request(struct sc_ds_conn *conn)
{
	struct sc_ds_answer answer = conn->call.answer;

	atomic_fetch_sub_explicit(&conn->shard->http->held, conn->held, memory_order_relaxed);
	sc_ds_conn_uncharge(conn);
	sc_ds_reserved_forget(conn);
	drop(&conn->body);
	drop(&answer.body);
	drop(&conn->text);
	drop(&conn->scratch);
	drop(&conn->out);
	if (conn->in.len == 0)
		drop(&conn->in);
	sc_ds_answer_clear(&answer);
	conn->call = (struct sc_ds_call){ .answer = answer };
	conn->method[0] = 0;
	conn->target = conn->query = conn->host = conn->authorization = conn->forwarded_host =
		conn->forwarded_proto = (struct sc_span){ NULL, 0 };
	conn->out_body = conn->out_tail = (struct sc_span){ NULL, 0 };
	conn->chunks = (struct sc_chunks){ .state = 0 };
	conn->declared = conn->discarded = conn->body_left = conn->held = conn->sent_bytes = 0;
	conn->old = conn->chunked = conn->expects = conn->collects = conn->close_after =
		conn->live = conn->over = conn->resumed = false;
	conn->status = 0;
	conn->sent = 0;
	conn->waiter = (struct sc_ds_waiter){ .woken = NULL };
	sc_ds_reader_init(&conn->reader);
	conn->log_reader = (struct sc_ds_log_reader){ .started = false };
}

/* The path and the query of a target; of one with scheme and authority (RFC 9112 3.2.2) these are
 * passed over. */
static void split_target(struct sc_ds_conn *conn, struct sc_span target)
{
	size_t scheme = target.len > 7 && strncasecmp(target.data, "http://", 7) == 0    ? 7
			: target.len > 8 && strncasecmp(target.data, "https://", 8) == 0 ? 8
											 : 0;
	const char *slash = scheme ? memchr(target.data + scheme, '/', target.len - scheme) : NULL;
	const char *mark;

	conn->target = target;
	if (slash)
		target = sc_span(slash, target.len - (size_t)(slash - target.data));
	mark = memchr(target.data, '?', target.len);
	conn->call.request.path = sc_span(target.data,
					  mark ? (size_t)(mark - target.data) : target.len);
	if (mark)
		conn->query = sc_span(mark + 1, target.len - conn->call.request.path.len - 1);
}

/* What would let two readers of these bytes disagree about where the request ends. */
static void check_framing(struct sc_ds_conn *conn, const struct sc_http_head *head)
{
	size_t lengths = sc_http_field_count(head, "Content-Length");
	size_t codings = sc_http_field_count(head, "Transfer-Encoding");
	size_t hosts = sc_http_field_count(head, "Host");

	conn->chunked = sc_http_is(sc_http_field(head, "Transfer-Encoding"), "chunked");
	if (codings && lengths)
		refuse_framing(conn, "Content-Length and Transfer-Encoding are both there");
	else if (codings > 1 || (codings && (!conn->chunked || conn->old)))
		refuse_framing(conn, "the only Transfer-Encoding known here is chunked");
	else if (lengths > 1 ||
		 (lengths && !sc_u64_parse(sc_http_field(head, "Content-Length"), &conn->declared)))
		refuse_framing(conn, "Content-Length is there twice, or is no number");
	else if (hosts > 1 || (!hosts && !conn->old))
		refuse_framing(conn, "a request names one Host");
}

/* The first of repeated ones counts. */
static void take_fields(struct sc_ds_conn *conn, const struct sc_http_head *head)
{
	for (size_t i = 0; i < head->count; i++) {
		struct sc_span *known = sc_ds_request_field(&conn->call.request,
							    head->fields[i].name);

		if (known && !known->data)
			*known = head->fields[i].value;
	}
	conn->host = sc_http_field(head, "Host");
	conn->authorization = sc_http_field(head, "Authorization");
	conn->forwarded_host = sc_http_field(head, "X-Forwarded-Host");
	conn->forwarded_proto = sc_http_field(head, "X-Forwarded-Proto");
	conn->expects = sc_http_is(sc_http_field(head, "Expect"), "100-continue");
	conn->close_after = conn->old || sc_http_lists(head, "Connection", "close");
}

static bool method_of(const char *text, enum sc_ds_method *ret_method)
{
	static const struct {
		const char *name;
		enum sc_ds_method method;
	} methods[] = {
		{ "GET", SC_DS_GET },   { "POST", SC_DS_POST },     { "PUT", SC_DS_PUT },
		{ "HEAD", SC_DS_HEAD }, { "DELETE", SC_DS_DELETE },
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (strcmp(methods[i].name, text) == 0) {
			*ret_method = methods[i].method;
			return true;
		}
	return false;
}

static unsigned allowed(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	unsigned may;

	if (!http->tokens)
		return SC_DS_MAY_READ | SC_DS_MAY_WRITE | SC_DS_MAY_ADMIN;
	if (!conn->authorization.data)
		return 0;
	pthread_rwlock_rdlock(&http->tokens_lock);
	may = sc_tokens_allow(http->tokens, conn->authorization);
	pthread_rwlock_unlock(&http->tokens_lock);
	return may;
}

bool sc_ds_conn_may(struct sc_ds_conn *conn, unsigned need)
{
	unsigned may = allowed(conn);

	if (may & need)
		return true;
	if (may)
		sc_ds_conn_refuse(conn, 403, "the token does not allow this");
	else if (conn->authorization.data)
		sc_ds_conn_refuse(conn, 401, "the token is not known here");
	else
		sc_ds_conn_refuse(conn, 401, "a token is needed: Authorization: Bearer TOKEN");
	return false;
}

static bool begins(struct sc_span text, struct sc_span with)
{
	return text.len >= with.len && memcmp(text.data, with.data, with.len) == 0;
}

static bool page(struct sc_ds_conn *conn, bool known)
{
	struct sc_span path = conn->call.request.path;
	bool reads = known && (conn->call.request.method == SC_DS_GET ||
			       conn->call.request.method == SC_DS_HEAD);

	if (reads && sc_span_is(path, "/health"))
		conn->route = SC_DS_ROUTE_HEALTH;
	else if (reads && sc_span_is(path, "/metrics"))
		conn->route = SC_DS_ROUTE_METRICS;
	else
		return false;
	if (conn->route == SC_DS_ROUTE_METRICS)
		(void)sc_ds_conn_may(conn, SC_DS_MAY_ADMIN);
	return true;
}

static bool is_reserved(struct sc_span name)
{
	return begins(name, SC_SPAN("__ds")) && (name.len == 4 || name.data[4] == '/');
}

static void route_stream(struct sc_ds_conn *conn, struct sc_span name)
{
	enum sc_ds_method method = conn->call.request.method;
	bool reads = method == SC_DS_GET || method == SC_DS_HEAD;
	/* whoever appends is told what HEAD tells */
	unsigned may = method == SC_DS_HEAD ? SC_DS_MAY_READ | SC_DS_MAY_WRITE
		       : reads              ? SC_DS_MAY_READ
					    : SC_DS_MAY_WRITE;

	if (!sc_ds_conn_may(conn, may))
		return;
	conn->route = SC_DS_ROUTE_STREAM;
	if (!sc_ds_logs_find(&conn->shard->http->logs, name, &conn->log_at)) {
		conn->collects = method == SC_DS_PUT || method == SC_DS_POST;
		return;
	}
	conn->route = SC_DS_ROUTE_LOG;
	if (!reads)
		sc_ds_conn_refuse(conn, 403, "this stream is a log that is served to read only");
}

static void route(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_span path = conn->call.request.path, name;
	bool known = method_of(conn->method, &conn->call.request.method);

	if (page(conn, known))
		return;
	if (!begins(path, http->prefix) || path.len == http->prefix.len) {
		sc_ds_conn_refuse(conn, 404, "there is nothing at this path");
		return;
	}
	name = sc_span(path.data + http->prefix.len, path.len - http->prefix.len);
	if (path.len > http->o.path_max)
		sc_ds_conn_refuse(conn, 414, "the path is too long");
	else if (strcmp(conn->method, "OPTIONS") == 0)
		conn->route = SC_DS_ROUTE_OPTIONS;
	else if (is_reserved(name))
		sc_ds_reserved_head(conn);
	else if (!known)
		sc_ds_conn_refuse(conn, 405, "a stream knows no such method");
	else
		route_stream(conn, name);
}

void sc_ds_conn_head(struct sc_ds_conn *conn, const struct sc_http_head *head)
{
	conn->old = head->minor == 0;
	conn->route = SC_DS_ROUTE_STREAM;
	split_target(conn, head->target);
	take_fields(conn, head);
	check_framing(conn, head);
	if (conn->route != SC_DS_ROUTE_REFUSED)
		route(conn);
}
