/* http_reply.c: answers, through the library and past it. */
#include <errno.h>
#include <stdlib.h>

#include "durable/http_internal.h"

#define COPY_MAX 4096   /* a body up to this is copied, so that its buffer stays */
#define SEND_RATE 16384 /* bytes a second: the least a reader must take */
#define HEAD_MAX 16384

void sc_ds_conn_charge(struct sc_ds_conn *conn)
{
	uint64_t now = conn->call.answer.body.cap;

	if (now <= COPY_MAX)
		now = 0;
	atomic_fetch_add_explicit(&conn->shard->http->held_out, now - conn->held_out,
				  memory_order_relaxed);
	conn->held_out = now;
}

void sc_ds_conn_uncharge(struct sc_ds_conn *conn)
{
	atomic_fetch_sub_explicit(&conn->shard->http->held_out, conn->held_out,
				  memory_order_relaxed);
	conn->held_out = 0;
}

/* http://HOST/PATH of what was created; NULL where nobody says which host. */
static const char *location(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_span host = conn->host, scheme = SC_SPAN("http"), path = conn->call.request.path;
	struct sc_bytes *text = &conn->location;

	if (http->cert)
		scheme = SC_SPAN("https");
	if (http->o.trust_forwarded && sc_ds_filled(conn->forwarded_host))
		host = conn->forwarded_host;
	if (http->o.trust_forwarded && sc_span_is(conn->forwarded_proto, "https"))
		scheme = SC_SPAN("https");
	if (http->o.trust_forwarded && sc_span_is(conn->forwarded_proto, "http"))
		scheme = SC_SPAN("http");
	if (!sc_ds_filled(host) || !sc_ds_value_clean(host))
		host = sc_span_str(http->listen.count ? http->listen.sockets[0].name : "localhost");
	sc_bytes_clear(text);
	if (sc_bytes_put(text, scheme.data, scheme.len) < 0 || sc_bytes_puts(text, "://") < 0 ||
	    sc_bytes_put(text, host.data, host.len) < 0 ||
	    sc_bytes_put(text, path.data, path.len) < 0)
		return NULL;
	return sc_bytes_str(text);
}

/* An error without a body gets its words. */
static void word_it(struct sc_ds_answer *answer)
{
	const char *words = answer->error ? answer->error : sc_ds_reason(answer->status);

	if (answer->body.len || answer->status < 400)
		return;
	if (sc_bytes_puts(&answer->body, words) == 0)
		(void)sc_bytes_putc(&answer->body, '\n');
}

static void make_fields(struct sc_ds_conn *conn, struct sc_ds_fields *ret_fields)
{
	struct sc_ds_answer *answer = &conn->call.answer;

	sc_ds_fields_make(ret_fields, &conn->shard->http->face, answer,
			  answer->created ? location(conn) : NULL);
	if (conn->close_after || atomic_load(&conn->shard->http->stopping))
		sc_ds_fields_add(ret_fields, "Connection", "close");
}

static ssize_t no_body(void *cls, uint64_t at, char *buffer, size_t max)
{
	(void)cls;
	(void)at;
	(void)buffer;
	(void)max;
	return MHD_CONTENT_READER_END_OF_STREAM;
}

/*
 * libmicrohttpd 0.9.75 gives each answer but a 204 a length, and Content-Length: 0 would be a lie
 * in a 304 and in the answer to a HEAD. It leaves the length out where it knows none, and the end
 * of the connection is the end of the body; chunks it would end with a chunk, body or not.
 */
static struct MHD_Response *make_bodiless(void)
{
	struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 1024,
									  no_body, NULL, NULL);

	if (response)
		MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
	return response;
}

/* The answer's body goes into the response, and out of the answer when it is large. */
static struct MHD_Response *make_response(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_bytes *body = &answer->body;
	struct MHD_Response *response;

	if (answer->status == 304 ||
	    (answer->status == 200 && conn->call.request.method == SC_DS_HEAD && !body->len))
		return make_bodiless();
	conn->sent_bytes = body->len;
	if (body->len <= COPY_MAX)
		return MHD_create_response_from_buffer(body->len, body->data ? body->data : "",
						       MHD_RESPMEM_MUST_COPY);
	response = MHD_create_response_from_buffer_with_free_callback_cls(body->len, body->data,
									  free, body->data);
	if (response)
		sc_bytes_init(body, body->max);
	return response;
}

enum MHD_Result sc_ds_conn_reply(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_http *http = conn->shard->http;
	struct MHD_Response *response;
	struct sc_ds_fields fields;
	enum MHD_Result rc = MHD_YES;

	word_it(answer);
	make_fields(conn, &fields);
	response = make_response(conn);
	if (!response)
		return MHD_NO;
	for (size_t i = 0; rc == MHD_YES && i < fields.count; i++)
		rc = MHD_add_response_header(response, fields.items[i].name, fields.items[i].value);
	conn->phase = SC_DS_AT_SENDING;
	conn->status = answer->status;
	sc_ds_conn_due(conn, conn->shard->now_us + http->o.idle_ms * 1000 +
				     (int64_t)(conn->sent_bytes / SEND_RATE) * 1000000);
	if (rc == MHD_YES)
		rc = MHD_queue_response(conn->mhd, (unsigned)answer->status, response);
	MHD_destroy_response(response);
	return rc;
}

/* All of it or, when the socket takes less, what fits: nothing else was sent yet. */
static void send_whole(int fd, const struct sc_bytes *text)
{
	ssize_t n;

	do
		n = send(fd, text->data, text->len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
}

void sc_ds_conn_cut(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_ds_fields fields;
	struct sc_bytes text;

	word_it(answer);
	sc_ds_fields_make(&fields, &conn->shard->http->face, answer, NULL);
	sc_bytes_init(&text, HEAD_MAX);
	if (sc_ds_fields_put(&fields, answer->status, sc_span(answer->body.data, answer->body.len),
			     &text) == 0)
		send_whole(conn->fd, &text);
	sc_bytes_done(&text);
	conn->status = answer->status;
}

void sc_ds_send_busy(struct sc_ds_http *http, int fd)
{
	struct sc_ds_answer answer;
	struct sc_ds_fields fields;
	struct sc_bytes text;

	if (http->cert)
		return; /* there is no TLS to say it in */
	sc_ds_answer_init(&answer);
	sc_ds_answer_busy(&answer, "there are too many connections");
	word_it(&answer);
	sc_ds_fields_make(&fields, &http->face, &answer, NULL);
	sc_bytes_init(&text, HEAD_MAX);
	if (sc_ds_fields_put(&fields, answer.status, sc_span(answer.body.data, answer.body.len),
			     &text) == 0)
		send_whole(fd, &text);
	sc_bytes_done(&text);
	sc_ds_answer_done(&answer);
}
