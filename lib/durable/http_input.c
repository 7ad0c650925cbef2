/* http_input.c: what comes in: heads and bodies. */
#include <errno.h>

#include "base/clock.h"
#include "durable/http_internal.h"

#define HEAD_MAX 16384
#define BODY_RATE 65536    /* bytes a second: the least a sender must give */
#define DIRECT_MIN 16384   /* of a body that is left: read to its place */
#define TURN_BYTES 4194304 /* of a body, before others get their turn */

/* Up to SIZE bytes to TO. SC_DS_GO_ON with *ret_len (0: the peer sends no more). */
static enum sc_ds_step receive(struct sc_ds_conn *conn, char *to, size_t size, size_t *ret_len)
{
	ssize_t n;

	if (!conn->readable)
		return SC_DS_STOP;
	if (conn->tls) {
		n = sc_tls_read(conn->tls, to, size, NULL);
		if (n == SC_TLS_READ)
			conn->readable = false;
		if (n == SC_TLS_READ || n == SC_TLS_WRITE)
			return SC_DS_STOP;
	} else {
		do
			n = recv(conn->fd, to, size, MSG_DONTWAIT);
		while (n < 0 && errno == EINTR);
		if (n < 0 && errno == EAGAIN) {
			conn->readable = false;
			return SC_DS_STOP;
		}
		/* a short read has emptied the socket: epoll tells when there is more */
		if (n > 0 && (size_t)n < size && !conn->hung_up)
			conn->readable = false;
	}
	if (n < 0)
		return SC_DS_END;
	*ret_len = (size_t)n;
	return SC_DS_GO_ON;
}

static void set_method(struct sc_ds_conn *conn, struct sc_span method)
{
	size_t len = method.len < sizeof(conn->method) ? method.len : sizeof(conn->method) - 1;

	memcpy(conn->method, method.data, len);
	conn->method[len] = 0;
}

/* What came is no request that can be read. */
static enum sc_ds_step refuse_unread(struct sc_ds_conn *conn, int status, const char *why)
{
	conn->started_us = sc_mono_us();
	set_method(conn, sc_span("?", 1));
	conn->target = sc_span("", 0);
	conn->close_after = true;
	sc_ds_conn_refuse(conn, status, why);
	return sc_ds_conn_reply(conn);
}

enum sc_ds_step sc_ds_conn_handshake(struct sc_ds_conn *conn)
{
	int rc = sc_tls_handshake(conn->tls, NULL);

	if (rc == 0)
		conn->phase = SC_DS_AT_HEAD;
	if (rc == SC_TLS_READ || rc == SC_TLS_WRITE)
		return SC_DS_STOP;
	if (rc == 0)
		return SC_DS_GO_ON;
	if (sc_tls_heard(conn->tls) != SC_TLS_FOREIGN)
		return SC_DS_END;
	/* in plain text, as its sender can read no other */
	sc_tls_free(conn->tls);
	conn->tls = NULL;
	return refuse_unread(conn, 400, SC_HTTP_WANTS_TLS);
}

/* How long LEN bytes may take, at the least rate that is borne; a body longer than any may be is
 * refused, whatever it declares. */
static int64_t patience_us(const struct sc_ds_conn *conn, uint64_t len)
{
	const struct sc_ds_http_options *o = &conn->shard->http->o;

	if (len > o->body_max)
		len = o->body_max;
	return o->idle_ms * 1000 + (int64_t)(len / BODY_RATE) * 1000000;
}

/* The head is LEN bytes of the input. */
static enum sc_ds_step begin(struct sc_ds_conn *conn, size_t len)
{
	struct sc_http_head head = { .count = 0 };
	uint64_t size;
	int status;

	conn->started_us = conn->shard->now_us = sc_mono_us();
	sc_bytes_clear(&conn->text);
	if (sc_bytes_put(&conn->text, conn->in.data, len) < 0)
		return SC_DS_END;
	sc_bytes_drop(&conn->in, len);
	conn->looked = 0;
	status = sc_http_parse(conn->text.data, conn->text.len, &head);
	set_method(conn, status ? sc_span("?", 1) : head.method);
	conn->phase = SC_DS_AT_BODY;
	if (status) {
		conn->target = sc_span("", 0);
		conn->close_after = true;
		sc_ds_conn_refuse(conn, status,
				  status == 505   ? "only HTTP/1.1 is spoken here"
				  : status == 431 ? "the request's head has too many fields"
						  : "the request's head is malformed");
		return sc_ds_conn_reply(conn);
	}
	sc_ds_conn_head(conn, &head);
	conn->body_left = conn->chunked ? 0 : conn->declared;
	size = conn->chunked ? conn->shard->http->o.body_max : conn->declared;
	sc_ds_conn_due(conn, conn->started_us + patience_us(conn, size));
	if ((conn->chunked || conn->declared) && !sc_ds_conn_body_fits(conn))
		return sc_ds_conn_reply(conn);
	if (conn->expects && !conn->old && conn->in.len == 0 && (conn->chunked || conn->declared) &&
	    sc_bytes_puts(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n") < 0)
		return SC_DS_END;
	return SC_DS_GO_ON;
}

/* A line break or two before a request are borne (RFC 9112 2.2). */
static void skip_breaks(struct sc_ds_conn *conn)
{
	size_t n = 0;

	while (conn->looked == 0 && n < conn->in.len &&
	       (conn->in.data[n] == '\r' || conn->in.data[n] == '\n'))
		n++;
	if (n)
		sc_bytes_drop(&conn->in, n);
}

enum sc_ds_step sc_ds_conn_read_head(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;

	for (;;) {
		enum sc_ds_step step;
		size_t len, room;

		skip_breaks(conn);
		len = sc_http_head_end(conn->in.data, conn->in.len, conn->looked);
		if (len && len <= HEAD_MAX)
			return begin(conn, len);
		if (len || conn->in.len > HEAD_MAX)
			return refuse_unread(conn, 431, "the request's head is too large");
		if (conn->in.len && !sc_http_begins(conn->in.data[0]))
			return refuse_unread(conn, 400, "this is no HTTP request");
		/* the time for a head begins with its first byte */
		if (conn->in.len && conn->looked == 0)
			sc_ds_conn_due(conn, sc_mono_us() + shard->http->o.head_ms * 1000);
		conn->looked = conn->in.len;
		step = receive(conn, shard->input, SC_DS_INPUT_BYTES, &room);
		if (step != SC_DS_GO_ON)
			return step;
		if (room == 0 || sc_bytes_put(&conn->in, shard->input, room) < 0)
			return SC_DS_END;
	}
}

/* What lies in the input already. SC_DS_GO_ON: the body is whole; SC_DS_STOP: it is not. */
static enum sc_ds_step take_input(struct sc_ds_conn *conn, struct sc_span *input)
{
	struct sc_span data;
	int rc = 0;

	if (!conn->chunked) {
		size_t len = input->len < conn->body_left ? input->len : (size_t)conn->body_left;

		if (len && !sc_ds_conn_body(conn, input->data, len))
			return SC_DS_END;
		conn->body_left -= len;
		*input = sc_span(input->data + len, input->len - len);
		return conn->body_left ? SC_DS_STOP : SC_DS_GO_ON;
	}
	while ((rc = sc_chunks_next(&conn->chunks, input, &data)) == 1)
		if (!sc_ds_conn_body(conn, data.data, data.len))
			return SC_DS_END;
	if (rc < 0) {
		conn->close_after = true;
		sc_ds_conn_refuse(conn, 400, "the body is not in chunks, as its head says");
		return SC_DS_END;
	}
	return conn->chunks.done ? SC_DS_GO_ON : SC_DS_STOP;
}

/* A long body of a known length goes to its place without a copy. */
static enum sc_ds_step read_direct(struct sc_ds_conn *conn)
{
	enum sc_ds_step step;
	size_t size = 0, len;
	char *room = sc_ds_conn_body_room(conn, &size);

	if (!room)
		return SC_DS_END;
	step = receive(conn, room, size, &len);
	if (step != SC_DS_GO_ON)
		return step;
	if (len == 0)
		conn->close_after = conn->hung_up = true;
	conn->body_left -= len;
	sc_ds_conn_body_came(conn, len);
	return SC_DS_GO_ON;
}

/* The body is refused in its midst: that is the answer, and the end. */
static enum sc_ds_step stop_body(struct sc_ds_conn *conn)
{
	return conn->route == SC_DS_ROUTE_REFUSED ? sc_ds_conn_reply(conn) : SC_DS_END;
}

enum sc_ds_step sc_ds_conn_read_body(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;
	size_t turn = 0;

	for (;;) {
		struct sc_span input = sc_span(conn->in.data, conn->in.len);
		enum sc_ds_step step = take_input(conn, &input);
		size_t len;

		sc_bytes_drop(&conn->in, conn->in.len - input.len);
		if (step == SC_DS_GO_ON)
			return sc_ds_conn_work(conn);
		if (step == SC_DS_END)
			return stop_body(conn);
		step = sc_ds_conn_flush(conn); /* the interim answer */
		if (step != SC_DS_GO_ON)
			return step;
		if (turn > TURN_BYTES) {
			atomic_store(&conn->noted, true);
			sc_ds_shard_note(shard, &conn->note);
			return SC_DS_STOP;
		}
		if (!conn->chunked && conn->collects && conn->body_left >= DIRECT_MIN) {
			uint64_t left = conn->body_left;

			step = read_direct(conn);
			if (step == SC_DS_END)
				return stop_body(conn);
			if (step == SC_DS_STOP)
				return step;
			if (conn->body_left == left)
				return SC_DS_END; /* the peer left in its midst */
			turn += (size_t)(left - conn->body_left);
			continue;
		}
		step = receive(conn, shard->input, SC_DS_INPUT_BYTES, &len);
		if (step != SC_DS_GO_ON)
			return step;
		if (len == 0 || sc_bytes_put(&conn->in, shard->input, len) < 0)
			return SC_DS_END;
		turn += len;
	}
}
