/* net/server_http.c: one request head a connection: a WebSocket, a stream, an answer or a
 * refusal. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "net/server_internal.h"

struct sc_span sc_request_field(const struct sc_request *request, const char *name)
{
	return sc_http_field(request->fields, name);
}

/* Head and body go out, then the connection ends. */
static void answer(struct sc_conn *c, int status, const char *type, const char *fields,
		   struct sc_span body)
{
	int rc;

	if (!sc_conn_has_room(c, body.len)) {
		sc_conn_refused(c);
		status = 503;
		type = NULL;
		fields = "Retry-After: 5\r\n";
		body = SC_SPAN("connections hold as much as they may (--max-memory); try again "
			       "later\n");
	}
	rc = sc_http_put_head(&c->out, status, type ? type : "text/plain; charset=utf-8", fields,
			      (int64_t)body.len);
	if (rc == 0 && !c->head_only)
		rc = sc_bytes_put(&c->out, body.data, body.len);
	if (rc < 0) {
		sc_conn_kill(c, 1011);
		return;
	}
	c->server->stats.answers++;
	sc_conn_finish(c);
}

void sc_server_refuse(struct sc_conn *c, int status, const char *fields, const char *why)
{
	if (status == 503)
		c->server->stats.refused_limit++;
	else if (status == 403)
		c->server->stats.refused_origin++;
	else
		c->server->stats.bad_requests++;
	answer(c, status, NULL, fields, sc_span_str(why));
}

/* What a hook said instead of taking the request. */
static void answer_reply(struct sc_conn *c, const struct sc_reply *reply)
{
	if (reply->status == 401 || reply->status == 403)
		c->server->stats.refused_auth++;
	answer(c, reply->status ? reply->status : 404, reply->type, reply->fields, reply->body);
}

static bool room_for_client(const struct sc_server *s)
{
	return !s->options.clients_max || s->stats.clients < s->options.clients_max;
}

static void refuse_full(struct sc_conn *c)
{
	sc_server_refuse(c, 503, "Retry-After: 5\r\n", "too many connections; try again later\n");
}

/* What is wrong with any request, whatever it asks for. */
static bool refuse_shape(struct sc_conn *c, const struct sc_http_head *head)
{
	struct sc_span length = sc_http_field(head, "content-length");
	size_t hosts = sc_http_field_count(head, "host");

	if (c->refuse) {
		refuse_full(c);
	} else if (!sc_span_is(head->method, "GET") && !sc_span_is(head->method, "HEAD")) {
		sc_server_refuse(c, 405, "Allow: GET, HEAD\r\n",
				 "only GET and HEAD are answered here\n");
	} else if (sc_http_field_count(head, "transfer-encoding") ||
		   (length.data && (!sc_span_is(length, "0") ||
				    sc_http_field_count(head, "content-length") > 1))) {
		sc_server_refuse(c, 413, NULL, "a request has no body here\n");
	} else if (hosts > 1 || (hosts == 0 && head->minor > 0)) {
		sc_server_refuse(c, 400, NULL, "a request names one Host\n");
	} else {
		return false;
	}
	return true;
}

static bool origin_ok(const struct sc_server *s, struct sc_span origin)
{
	if (!s->options.origin_count || !origin.data)
		return true;
	for (size_t i = 0; i < s->options.origin_count; i++)
		if (sc_http_is(origin, s->options.origins[i]))
			return true;
	return false;
}

static void upgrade_answer(struct sc_conn *c, const struct sc_http_head *head,
			   const struct sc_reply *reply, const char *accept)
{
	char extension[128];
	int rc;

	rc = sc_bytes_putf(&c->out,
			   "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
			   "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
			   accept);
	if (rc == 0 && reply->protocol)
		rc = sc_bytes_putf(&c->out, "Sec-WebSocket-Protocol: %s\r\n", reply->protocol);
	if (rc == 0 && reply->fields)
		rc = sc_bytes_puts(&c->out, reply->fields);
	if (c->server->options.deflate && !reply->plain)
		c->deflate = sc_server_deflate_agree(head, extension);
	if (rc == 0 && c->deflate)
		rc = sc_bytes_putf(&c->out, "Sec-WebSocket-Extensions: %s\r\n", extension);
	if (rc == 0)
		rc = sc_bytes_puts(&c->out, "\r\n");
	if (rc < 0) {
		sc_conn_kill(c, 1011);
		return;
	}
	sc_frame_reader_init(&c->reader, true, c->server->options.message_max_bytes);
	c->reader.may_compress = c->deflate != NULL;
	if (c->discard)
		sc_conn_discard(c);
	sc_conn_open(c, SC_CONN_OPEN);
	c->server->hooks.open(c->server->arg, c);
}

static void upgrade(struct sc_conn *c, const struct sc_http_head *head,
		    const struct sc_request *request)
{
	struct sc_server *s = c->server;
	struct sc_reply reply = { 0 };
	char accept[SC_HTTP_ACCEPT_TEXT];

	if (!sc_span_is(head->method, "GET") || head->minor < 1 ||
	    !sc_http_lists(head, "connection", "upgrade")) {
		sc_server_refuse(
			c, 400, NULL,
			"a WebSocket is opened by GET, HTTP/1.1 and Connection: Upgrade\n");
		return;
	}
	if (!sc_span_is(sc_http_field(head, "sec-websocket-version"), "13")) {
		sc_server_refuse(c, 426, "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
				 "only version 13 of the WebSocket protocol is spoken here\n");
		return;
	}
	if (!sc_http_accept(sc_http_field(head, "sec-websocket-key"), accept)) {
		sc_server_refuse(c, 400, NULL, "Sec-WebSocket-Key must be 16 bytes in base64\n");
		return;
	}
	if (!room_for_client(s)) {
		refuse_full(c);
		return;
	}
	s->hooks.upgrade(s->arg, c, request, &reply);
	c->told = reply.status == 0;
	if (c->state == SC_CONN_DEAD)
		return;
	if (reply.status != 0) {
		answer_reply(c, &reply);
		return;
	}
	upgrade_answer(c, head, &reply, accept);
}

static void plain(struct sc_conn *c, const struct sc_request *request)
{
	struct sc_server *s = c->server;
	struct sc_reply reply = { 0 };

	if (!s->hooks.http) {
		sc_server_refuse(c, 404, NULL, "there is nothing of that name\n");
		return;
	}
	s->hooks.http(s->arg, c, request, &reply);
	c->told = reply.stream;
	if (c->state == SC_CONN_DEAD)
		return;
	if (!reply.stream) {
		answer_reply(c, &reply);
		return;
	}
	if (!room_for_client(s)) {
		refuse_full(c);
		return;
	}
	if (sc_http_put_head(&c->out, 200, reply.type, reply.fields, -1) < 0) {
		sc_conn_kill(c, 1011);
	} else if (c->head_only) {
		c->code = 1000;
		sc_conn_finish(c);
	} else {
		sc_conn_open(c, SC_CONN_STREAM);
	}
}

void sc_server_request(struct sc_conn *c, size_t head_len)
{
	struct sc_server *s = c->server;
	struct sc_http_head head;
	struct sc_request r;
	struct sc_reply reply = { 0 };
	int status = sc_http_parse(c->in.data, head_len, &head);

	if (status != 0) {
		sc_server_refuse(c, status, NULL,
				 status == 431   ? "the request's head has too many fields\n"
				 : status == 505 ? "only HTTP/1.1 is spoken here\n"
						 : "the request's head is malformed\n");
		return;
	}
	c->head_only = sc_span_is(head.method, "HEAD");
	if (refuse_shape(c, &head))
		return;
	r = (struct sc_request){
		.method = head.method,
		.target = head.target,
		.peer = c->peer,
		.tls = c->tls != NULL,
		.fields = &head,
		.authorization = sc_http_field(&head, "authorization"),
		.origin = sc_http_field(&head, "origin"),
		.host = sc_http_field(&head, "host"),
		.user_agent = sc_http_field(&head, "user-agent"),
		.accept = sc_http_field(&head, "accept"),
		.protocols = sc_http_field(&head, "sec-websocket-protocol"),
		.last_event_id = sc_http_field(&head, "last-event-id"),
		.upgrade = sc_http_lists(&head, "upgrade", "websocket"),
	};
	if (!origin_ok(s, r.origin)) {
		sc_server_refuse(c, 403, NULL, "this Origin is not let in\n");
		return;
	}
	if (s->hooks.authorise)
		s->hooks.authorise(s->arg, &r, &reply);
	if (reply.status != 0) {
		answer_reply(c, &reply);
	} else if (r.upgrade) {
		upgrade(c, &head, &r);
	} else {
		plain(c, &r);
	}
}
