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
	conn->malformed = conn->close_after = true;
}

void sc_ds_conn_target(struct sc_ds_conn *conn, const char *target)
{
	const char *query;

	sc_bytes_clear(&conn->target);
	conn->malformed = !target || sc_bytes_puts(&conn->target, target) < 0;
	query = conn->malformed ? NULL : memchr(conn->target.data, '?', conn->target.len);
	if (query)
		conn->query = sc_span(query + 1,
				      conn->target.len - 1 - (size_t)(query - conn->target.data));
	conn->call.request.path = sc_span(
		conn->target.data, query ? (size_t)(query - conn->target.data) : conn->target.len);
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
	drop(&conn->body);
	drop(&answer.body);
	drop(&conn->target);
	drop(&conn->scratch);
	sc_ds_answer_clear(&answer);
	conn->call = (struct sc_ds_call){ .answer = answer };
	conn->method = NULL;
	conn->query = conn->host = conn->authorization = conn->forwarded_host =
		conn->forwarded_proto = (struct sc_span){ NULL, 0 };
	conn->declared = conn->discarded = conn->held = conn->sent_bytes = 0;
	conn->lengths = conn->codings = conn->hosts = 0;
	conn->chunked = conn->expects = conn->malformed = conn->collects = conn->close_after =
		conn->live = conn->over = conn->resumed = conn->sane_length = false;
	conn->status = 0;
	conn->sent = 0;
	conn->waiter = (struct sc_ds_waiter){ .woken = NULL };
	sc_ds_reader_init(&conn->reader);
	conn->log_reader = (struct sc_ds_log_reader){ .started = false };
}

static bool is(struct sc_span a, const char *text)
{
	return a.len == strlen(text) && strncasecmp(a.data, text, a.len) == 0;
}

/* The fields that say where the body ends, and others that are the face's own. */
static void take_own(struct sc_ds_conn *conn, struct sc_span name, struct sc_span value,
		     size_t raw_len)
{
	if (is(name, "Host")) {
		conn->hosts++;
		conn->host = value;
	} else if (is(name, "Content-Length")) {
		conn->lengths++;
		conn->sane_length = sc_u64_parse(value, &conn->declared);
	} else if (is(name, "Transfer-Encoding")) {
		conn->codings++;
		/* the library looks at the very bytes */
		conn->chunked = is(value, "chunked") && raw_len == value.len;
	} else if (is(name, "Expect")) {
		conn->expects = is(value, "100-continue");
	} else if (is(name, "Authorization") && !conn->authorization.data) {
		conn->authorization = value;
	} else if (is(name, "X-Forwarded-Host") && !conn->forwarded_host.data) {
		conn->forwarded_host = value;
	} else if (is(name, "X-Forwarded-Proto") && !conn->forwarded_proto.data) {
		conn->forwarded_proto = value;
	}
}

static enum MHD_Result each_field(void *cls, enum MHD_ValueKind kind, const char *key,
				  size_t key_len, const char *text, size_t len)
{
	struct sc_ds_conn *conn = cls;
	struct sc_span name = sc_span(key, key_len);
	struct sc_span value = sc_ds_trim(sc_span(text ? text : "", text ? len : 0));
	struct sc_span *known = sc_ds_request_field(&conn->call.request, name);

	(void)kind;
	if (memchr(value.data, 0, value.len))
		conn->malformed = true;
	if (!known)
		take_own(conn, name, value, len);
	else if (!known->data)
		*known = value; /* the first of repeated ones */
	return MHD_YES;
}

/* What would let two readers of these bytes disagree about where the request ends. */
static void check_framing(struct sc_ds_conn *conn, const char *url, const char *version)
{
	bool old = strcmp(version, "HTTP/1.0") == 0;

	if (conn->malformed || version != url + conn->target.len + 1)
		refuse_framing(conn, "the request line or a field is malformed");
	else if (conn->codings && conn->lengths)
		refuse_framing(conn, "Content-Length and Transfer-Encoding are both there");
	else if (conn->codings > 1 || (conn->codings && (!conn->chunked || old)))
		refuse_framing(conn, "the only Transfer-Encoding known here is chunked");
	else if (conn->lengths > 1 || (conn->lengths && !conn->sane_length))
		refuse_framing(conn, "Content-Length is there twice, or is no number");
	else if (conn->hosts > 1 || (!conn->hosts && !old))
		refuse_framing(conn, "a request names one Host");
	if (!conn->codings)
		conn->chunked = false;
}

/* Methods. */

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

/* Routes. */

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

	if (!sc_ds_conn_may(conn, reads ? SC_DS_MAY_READ : SC_DS_MAY_WRITE))
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
		conn->route = SC_DS_ROUTE_RESERVED; /* who may is told there */
	else if (!known)
		sc_ds_conn_refuse(conn, 405, "a stream knows no such method");
	else
		route_stream(conn, name);
	if (conn->route == SC_DS_ROUTE_RESERVED)
		conn->collects = true;
}

void sc_ds_conn_head(struct sc_ds_conn *conn, const char *url, const char *method,
		     const char *version)
{
	conn->method = method;
	conn->route = SC_DS_ROUTE_STREAM;
	MHD_get_connection_values_n(conn->mhd, MHD_HEADER_KIND, each_field, conn);
	check_framing(conn, url, version);
	if (conn->route != SC_DS_ROUTE_REFUSED)
		route(conn);
}
