/* http_body.c: bodies of requests, as they come, within the limits. */
#include "durable/http_internal.h"

#define DISCARD_MAX 262144 /* of a body that nobody wants: read, so that the connection goes on */
#define FIRST_BYTES 65536

static bool refused(const struct sc_ds_conn *conn)
{
	return conn->route == SC_DS_ROUTE_REFUSED;
}

static void too_large(struct sc_ds_conn *conn)
{
	sc_ds_conn_refuse(conn, 413, "the body is too large");
	conn->close_after = true;
}

static void too_much(struct sc_ds_conn *conn)
{
	sc_ds_conn_refuse(conn, 503, "too many bodies are on their way");
	conn->call.answer.retry_after_s = 1;
	conn->close_after = true;
}

bool sc_ds_conn_body_fits(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	uint64_t held = atomic_load_explicit(&http->held, memory_order_relaxed);
	bool long_one = conn->declared > DISCARD_MAX;

	if (!refused(conn) && conn->declared > (conn->collects ? http->o.body_max : DISCARD_MAX))
		too_large(conn);
	else if (!refused(conn) && conn->collects &&
		 (held >= http->o.held_max || conn->declared > http->o.held_max - held))
		too_much(conn);
	if (refused(conn))
		conn->collects = false;
	conn->linger = refused(conn) &&
		       (conn->close_after || conn->chunked || conn->expects || long_one);
	return !conn->linger;
}

/* Room for MORE bytes, counted. The buffer grows with what comes, whatever was declared. */
static bool make_room(struct sc_ds_conn *conn, size_t more)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_bytes *body = &conn->body;
	size_t need = body->len + more, want = body->cap * 2, old = body->cap;
	uint64_t held;

	if (need <= body->cap && conn->held >= body->cap)
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
	if (held + want - old > http->o.held_max || sc_bytes_reserve(body, want - body->len) < 0)
		return false;
	atomic_fetch_add_explicit(&http->held, body->cap - conn->held, memory_order_relaxed);
	conn->held = body->cap;
	return true;
}

/* The answer is made in the middle of the body, where the library takes none. */
static bool stop_reading(struct sc_ds_conn *conn)
{
	conn->collects = false;
	sc_bytes_done(&conn->body);
	if (conn->shard->http->cert)
		return true; /* inside TLS it has to wait for the end */
	conn->linger = true;
	sc_ds_conn_cut(conn);
	return false;
}

bool sc_ds_conn_body(struct sc_ds_conn *conn, const char *data, size_t len)
{
	struct sc_ds_http *http = conn->shard->http;

	atomic_fetch_add_explicit(&conn->shard->counts.received_bytes, len, memory_order_relaxed);
	if (!conn->collects) {
		conn->discarded += len;
		return conn->discarded <= (conn->close_after ? http->o.body_max : DISCARD_MAX);
	}
	if (conn->body.len + len > http->o.body_max) {
		too_large(conn);
		return stop_reading(conn);
	}
	if (!make_room(conn, len)) {
		too_much(conn);
		return stop_reading(conn);
	}
	return sc_bytes_put(&conn->body, data, len) == 0;
}
