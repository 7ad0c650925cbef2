/* http_reserved.c: PREFIX/__ds: never a stream; subscriptions, when they are served. */
#include <stdlib.h>

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

static enum sc_ds_step nothing_here(struct sc_ds_conn *conn)
{
	sc_ds_sub_refuse(&conn->call.answer, SC_DS_SUB_NOT_FOUND, "there is nothing at this path");
	return sc_ds_conn_reply(conn);
}

static enum sc_ds_step no_method(struct sc_ds_conn *conn)
{
	sc_ds_sub_refuse(&conn->call.answer, SC_DS_SUB_INVALID_REQUEST,
			 "there is no such method here");
	conn->call.answer.status = 405;
	return sc_ds_conn_reply(conn);
}

static enum sc_ds_step no_memory(struct sc_ds_conn *conn)
{
	sc_ds_answer_busy(&conn->call.answer, "out of memory");
	return sc_ds_conn_reply(conn);
}

static enum sc_ds_step send_keys(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	const struct sc_ds_keys *keys = sc_ds_subs_keys(conn->shard->http->ds);

	if (strcmp(conn->method, "GET") != 0)
		return no_method(conn);
	answer->status = 200;
	answer->cache = SC_DS_CACHE_KEYS;
	if (sc_bytes_puts(&answer->type, "application/jwk-set+json") < 0 ||
	    sc_ds_keys_put_set(keys, &answer->body) < 0)
		return no_memory(conn);
	return sc_ds_conn_reply(conn);
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

/* It was refused as a stream would be: the same in JSON. */
static enum sc_ds_step not_allowed(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	int status = answer->status;
	const char *why = answer->error;

	sc_ds_sub_refuse(answer, SC_DS_SUB_TOKEN_INVALID, why);
	answer->status = status;
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

static enum sc_ds_step ask(struct sc_ds_conn *conn)
{
	struct sc_ds_sub_request *r = conn->sub;
	struct sc_bytes *base = &conn->location;
	int rc;

	r->prefix = conn->shard->http->prefix;
	sc_bytes_clear(base);
	if (sc_ds_conn_put_base(conn, base) < 0 || base->len > BASE_MAX)
		return no_memory(conn);
	r->base = sc_span(base->data, base->len);
	rc = sc_ds_sub_parse(r, conn->authorization,
			     sc_span(conn->body.data ? conn->body.data : "", conn->body.len),
			     &conn->call.answer);
	if (rc < 0)
		return no_memory(conn);
	if (rc == 0)
		return sc_ds_conn_reply(conn);
	if (r->op == SC_DS_SUB_GET)
		return get(conn);
	sc_ds_subs_call(&conn->call, r);
	return sc_ds_conn_submit(conn);
}

enum sc_ds_step sc_ds_reserved(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_span path = conn->call.request.path, below;
	size_t skip = http->prefix.len + 5; /* "__ds/" */
	bool other_method;

	if (!http->webhooks || path.len <= skip)
		return nothing_here(conn);
	below = sc_span(path.data + skip, path.len - skip);
	if (sc_span_is(below, "jwks.json"))
		return send_keys(conn);
	conn->sub = sc_calloc(1, sizeof(*conn->sub));
	if (!conn->sub)
		return no_memory(conn);
	if (!sc_ds_sub_route(below, conn->method, conn->sub, &other_method))
		return other_method ? no_method(conn) : nothing_here(conn);
	if (need(conn->sub->op) && !sc_ds_conn_may(conn, need(conn->sub->op)))
		return not_allowed(conn);
	return ask(conn);
}
