/* http_reserved.c: PREFIX/__ds: never a stream; subscriptions, when they are served. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/http_internal.h"

#define BASE_MAX 4096

void sc_ds_reserved_forget(struct sc_ds_conn *conn)
{
	if (!conn->sub)
		return;
	sc_ds_sub_request_done(conn->sub);
	free(conn->sub);
	conn->sub = NULL;
}

/* The answer is made, as an error in JSON. */
static void refuse(struct sc_ds_conn *conn, enum sc_ds_sub_code code, int status, const char *why)
{
	sc_ds_sub_refuse(&conn->call.answer, code, why);
	if (status)
		conn->call.answer.status = status;
	conn->route = SC_DS_ROUTE_REFUSED;
}

static void no_method(struct sc_ds_conn *conn)
{
	refuse(conn, SC_DS_SUB_INVALID_REQUEST, 405, "there is no such method here");
}

static void nothing_here(struct sc_ds_conn *conn)
{
	refuse(conn, SC_DS_SUB_NOT_FOUND, 0, "there is nothing at this path");
}

static void no_memory(struct sc_ds_conn *conn)
{
	sc_ds_answer_busy(&conn->call.answer, "out of memory");
	conn->route = SC_DS_ROUTE_REFUSED;
}

static void show_keys(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;

	if (strcmp(conn->method, "GET") != 0) {
		no_method(conn);
		return;
	}
	answer->status = 200;
	answer->cache = SC_DS_CACHE_KEYS;
	if (sc_bytes_puts(&answer->type, "application/jwk-set+json") < 0 ||
	    sc_ds_keys_put_set(sc_ds_subs_keys(conn->shard->http->ds), &answer->body) < 0)
		no_memory(conn);
	conn->route = SC_DS_ROUTE_REFUSED;
}

/* What the token file must allow. The workers' have tokens of their own. */
static unsigned need(enum sc_ds_sub_op op)
{
	switch (op) {
	case SC_DS_SUB_GET:
		return SC_DS_MAY_READ;
	case SC_DS_SUB_CLAIM:
		return SC_DS_MAY_WRITE;
	case SC_DS_SUB_PUT:
	case SC_DS_SUB_DELETE:
	case SC_DS_SUB_LINK:
	case SC_DS_SUB_UNLINK:
		return SC_DS_MAY_ADMIN;
	default:
		return 0;
	}
}

/* A stranger's body is not taken. Whether the token is of this subscription, and of the wake that
 * runs, is for the engine to say. */
static bool may(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_sub_request *r = conn->sub;
	unsigned wanted = need(r->op);
	uint64_t generation;

	if (wanted) {
		if (sc_ds_conn_may(conn, wanted))
			return true;
		/* refused as a stream would be: the same in JSON */
		refuse(conn, SC_DS_SUB_TOKEN_INVALID, answer->status, answer->error);
		return false;
	}
	if (!sc_ds_sub_take_token(r, conn->authorization, answer)) {
		conn->route = SC_DS_ROUTE_REFUSED;
		return false;
	}
	if (sc_ds_token_check(sc_ds_subs_keys(conn->shard->http->ds), sc_span(NULL, 0), r->token,
			      sc_wall_us(), &generation) != SC_DS_TOKEN_INVALID)
		return true;
	refuse(conn, SC_DS_SUB_TOKEN_INVALID, 0, "the token is none of this server");
	return false;
}

void sc_ds_reserved_head(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_span path = conn->call.request.path, below;
	size_t skip = http->prefix.len + 5; /* "__ds/" */
	bool other_method;

	if (!http->webhooks || path.len <= skip) {
		nothing_here(conn);
		return;
	}
	below = sc_span(path.data + skip, path.len - skip);
	if (sc_span_is(below, "jwks.json")) {
		show_keys(conn);
		return;
	}
	conn->sub = sc_calloc(1, sizeof(*conn->sub));
	if (!conn->sub) {
		no_memory(conn);
	} else if (!sc_ds_sub_route(below, conn->method, conn->sub, &other_method)) {
		if (other_method)
			no_method(conn);
		else
			nothing_here(conn);
	} else if (may(conn)) {
		conn->route = SC_DS_ROUTE_RESERVED;
		conn->collects = conn->sub->op != SC_DS_SUB_GET &&
				 conn->sub->op != SC_DS_SUB_DELETE &&
				 conn->sub->op != SC_DS_SUB_UNLINK;
	}
}

static enum sc_ds_step out_of_memory(struct sc_ds_conn *conn)
{
	no_memory(conn);
	return sc_ds_conn_reply(conn);
}

static enum sc_ds_step get(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_err err;

	if (sc_ds_subs_get(conn->shard->http->ds, conn->sub, answer, &err) < 0) {
		sc_ds_conn_say(conn, &err);
		sc_ds_answer_busy(answer, "the subscription cannot be read now");
	}
	sc_ds_conn_charge(conn);
	return sc_ds_conn_reply(conn);
}

enum sc_ds_step sc_ds_reserved(struct sc_ds_conn *conn)
{
	struct sc_ds_sub_request *r = conn->sub;
	struct sc_bytes *base = &conn->location;
	int rc;

	r->prefix = conn->shard->http->prefix;
	sc_bytes_clear(base);
	if (sc_ds_conn_put_base(conn, base) < 0 || base->len > BASE_MAX)
		return out_of_memory(conn);
	r->base = sc_span(base->data, base->len);
	rc = sc_ds_sub_parse(r, sc_span(conn->body.data ? conn->body.data : "", conn->body.len),
			     &conn->call.answer);
	if (rc < 0)
		return out_of_memory(conn);
	if (rc == 0)
		return sc_ds_conn_reply(conn);
	if (r->op == SC_DS_SUB_GET)
		return get(conn);
	sc_ds_subs_call(&conn->call, r);
	return sc_ds_conn_submit(conn);
}
