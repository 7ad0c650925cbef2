/* http_body.c: bodies of requests, as they come, within the limits. */
#include "durable/http_internal.h"

#define DISCARD_MAX 262144 /* of a body that nobody wants: read, so that the connection goes on */
#define FIRST_BYTES 65536
#define PIECE_MAX 1048576 /* of a body, in one read */

static bool refused(const struct sc_ds_conn *conn)
{
	return conn->route == SC_DS_ROUTE_REFUSED;
}

static void too_large(struct sc_ds_conn *conn)
{
	bool reserved = conn->route == SC_DS_ROUTE_RESERVED;

	sc_ds_conn_refuse(conn, 413, "the body is too large");
	if (reserved)
		sc_ds_sub_refuse_long(&conn->call.answer);
	conn->close_after = true;
}

/* The longest body that is taken. */
static uint64_t body_max(const struct sc_ds_conn *conn)
{
	uint64_t max = conn->shard->http->o.body_max;

	return conn->route == SC_DS_ROUTE_RESERVED && max > SC_DS_SUB_BODY_MAX ? SC_DS_SUB_BODY_MAX
									       : max;
}

static void too_much(struct sc_ds_conn *conn)
{
	sc_ds_conn_refuse(conn, 503, "too many bodies are on their way");
	conn->call.answer.retry_after_s = 1;
	conn->close_after = true;
}

/* The syntax of a PUT is looked at before its length. */
static bool has_syntax(struct sc_ds_conn *conn)
{
	struct sc_ds_create create;

	if (conn->route != SC_DS_ROUTE_STREAM || conn->call.request.method != SC_DS_PUT ||
	    sc_ds_create_parse(&conn->call.request, &create, &conn->call.answer))
		return true;
	conn->route = SC_DS_ROUTE_REFUSED;
	conn->close_after = true;
	return false;
}

bool sc_ds_conn_body_fits(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	uint64_t held = atomic_load_explicit(&http->held, memory_order_relaxed);
	bool long_one = conn->declared > DISCARD_MAX;
	bool large = conn->declared > (conn->collects ? body_max(conn) : DISCARD_MAX);
	bool much = conn->collects &&
		    (held >= http->o.held_max || conn->declared > http->o.held_max - held);

	if (!refused(conn) && (large || much) && has_syntax(conn)) {
		if (large)
			too_large(conn);
		else
			too_much(conn);
	}
	if (refused(conn))
		conn->collects = false;
	if (!refused(conn))
		return true;
	/* what is short is read, so that the connection goes on */
	conn->close_after = conn->close_after || conn->chunked || conn->expects || long_one;
	return !conn->close_after;
}

static void add_received(struct sc_ds_conn *conn, size_t len)
{
	atomic_fetch_add_explicit(&conn->shard->counts.received_bytes, len, memory_order_relaxed);
}

/* Room for MORE bytes, counted. The buffer grows with what comes, whatever was declared. */
static bool make_room(struct sc_ds_conn *conn, size_t more)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_bytes *body = &conn->body;
	size_t need = body->len + more, want = (size_t)conn->held * 2;
	uint64_t held;

	if (need <= conn->held)
		return true;
	if (want < FIRST_BYTES)
		want = FIRST_BYTES;
	if (conn->declared && want > conn->declared)
		want = (size_t)conn->declared;
	if (want > http->o.body_max)
		want = (size_t)http->o.body_max;
	if (want < need)
		want = need;
	held = atomic_load_explicit(&http->held, memory_order_relaxed);
	if (held + want - conn->held > http->o.held_max ||
	    sc_bytes_reserve(body, want - body->len) < 0)
		return false;
	atomic_fetch_add_explicit(&http->held, want - conn->held, memory_order_relaxed);
	conn->held = want;
	return true;
}

/* Refused in its midst. */
static bool stop_reading(struct sc_ds_conn *conn)
{
	conn->collects = false;
	sc_bytes_done(&conn->body);
	return false;
}

bool sc_ds_conn_body(struct sc_ds_conn *conn, const char *data, size_t len)
{
	if (!conn->collects) {
		conn->discarded += len;
		if (conn->discarded > DISCARD_MAX && !refused(conn))
			too_large(conn);
		conn->close_after = conn->close_after || conn->discarded > DISCARD_MAX;
		return conn->discarded <= DISCARD_MAX;
	}
	if (conn->body.len + len > body_max(conn)) {
		too_large(conn);
		return stop_reading(conn);
	}
	if (!make_room(conn, len)) {
		too_much(conn);
		return stop_reading(conn);
	}
	if (sc_bytes_put(&conn->body, data, len) < 0)
		return false;
	add_received(conn, len);
	return true;
}

char *sc_ds_conn_body_room(struct sc_ds_conn *conn, size_t *ret_len)
{
	size_t len = conn->body_left < PIECE_MAX ? (size_t)conn->body_left : PIECE_MAX;

	/* it was looked at when its length was told */
	if (!make_room(conn, len)) {
		too_much(conn);
		(void)stop_reading(conn);
		return NULL;
	}
	*ret_len = len;
	return conn->body.data + conn->body.len;
}

void sc_ds_conn_body_came(struct sc_ds_conn *conn, size_t len)
{
	conn->body.len += len;
	add_received(conn, len);
}
