/* net/server_ws.c: what each frame of a client does. */
#include <string.h>

#include "net/server_internal.h"

static void fail(struct sc_conn *c, int code, const struct sc_err *err)
{
	c->server->stats.protocol_errors++;
	if (c->state == SC_CONN_CLOSING) {
		sc_conn_kill(c, code);
		return;
	}
	c->code = code;
	c->reason_len = (uint8_t)strnlen(err->reason, sizeof(c->reason));
	memcpy(c->reason, err->reason, c->reason_len);
	sc_conn_begin_close(c);
	/* What follows cannot be read as frames any more. */
	sc_conn_finish(c);
}

static void got_close(struct sc_conn *c, const struct sc_frame *f)
{
	if (c->state == SC_CONN_CLOSING) {
		sc_conn_finish(c);
		return;
	}
	c->by_peer = true;
	c->code = f->close_code;
	c->reason_len = (uint8_t)(f->payload.len < sizeof(c->reason) ? f->payload.len
								     : sizeof(c->reason));
	if (c->reason_len)
		memcpy(c->reason, f->payload.data, c->reason_len);
	sc_conn_begin_close(c);
	sc_conn_finish(c);
}

static void got_ping(struct sc_conn *c, struct sc_span payload)
{
	/* Only the last of several waiting pings is answered (RFC 6455, 5.5.3): a flood needs no
	 * memory. */
	c->pong_len = (uint8_t)payload.len;
	if (payload.len)
		memcpy(c->pong, payload.data, payload.len);
	c->pong_due = true;
	sc_conn_kick(c);
}

static void got_pong(struct sc_conn *c)
{
	if (!c->ping_sent)
		return;
	c->ping_sent = false;
	sc_timer_start(c->timer, c->server->options.ping_ms);
}

static void got_message(struct sc_conn *c, const struct sc_frame *f)
{
	struct sc_server *s = c->server;
	struct sc_span data = f->payload;
	struct sc_err err;
	uint16_t code = 0;

	c->messages_in++;
	s->stats.messages_in++;
	if (c->discard || !s->hooks.message)
		return;
	if (f->compressed) {
		if (!s->inflate &&
		    sc_inflate_new(false, s->options.message_max_bytes, &s->inflate, &err) < 0) {
			fail(c, 1011, &err);
			return;
		}
		if (sc_inflate_message(s->inflate, data, &data, &code, &err) < 0) {
			/* It serves all clients and is now in the middle of a bad message. */
			sc_inflate_free(s->inflate);
			s->inflate = NULL;
			fail(c, code, &err);
			return;
		}
		if (f->kind == SC_FRAME_TEXT && !sc_frame_utf8(data.data, data.len)) {
			sc_err_set(&err, SC_E_PROTOCOL, "cannot read a message",
				   "a text message is not UTF-8");
			fail(c, 1007, &err);
			return;
		}
	}
	s->hooks.message(s->arg, c, f->kind == SC_FRAME_TEXT ? SC_TEXT : SC_BINARY, data);
}

/* Whether a Close is among these frames of a client. */
static bool holds_close(const unsigned char *p, size_t len)
{
	while (len >= 2) {
		uint64_t n = p[1] & 127;
		size_t more = n == 126 ? 2 : n == 127 ? 8 : 0, head = 2 + more + 4;

		if ((p[0] & 15) == 8)
			return true;
		if (len < head)
			return false;
		if (more)
			n = 0;
		for (size_t i = 0; i < more; i++)
			n = n << 8 | p[2 + i];
		if (n > len - head)
			return false;
		p += head + (size_t)n;
		len -= head + (size_t)n;
	}
	return false;
}

bool sc_conn_leaves(struct sc_conn *c)
{
	if (c->state != SC_CONN_OPEN)
		return true;
	if (c->ahead.len == 0)
		return false;
	if (!c->ahead_known) { /* once a read: a Close that is there stays ahead */
		c->ahead_known = true;
		c->close_ahead = holds_close((const unsigned char *)c->ahead.data, c->ahead.len);
	}
	return c->close_ahead;
}

size_t sc_server_frames(struct sc_conn *c, char *data, size_t len)
{
	size_t at = 0;

	c->ahead_known = false;
	while (!c->paused && (c->state == SC_CONN_OPEN || c->state == SC_CONN_CLOSING)) {
		struct sc_frame f;
		struct sc_err err;
		size_t used = 0;
		int rc = sc_frame_read(&c->reader, data + at, len - at, &used, &f, &err);

		at += used;
		if (rc < 0) {
			fail(c, c->reader.close_code, &err);
			break;
		}
		if (rc == 0)
			break;
		if (f.kind == SC_FRAME_CLOSE)
			got_close(c, &f);
		else if (f.kind == SC_FRAME_PONG)
			got_pong(c);
		else if (c->state == SC_CONN_CLOSING)
			continue;
		else if (f.kind == SC_FRAME_PING)
			got_ping(c, f.payload);
		else {
			c->ahead = sc_span(data + at, len - at);
			got_message(c, &f);
		}
		/* A large message's memory is not kept for the next. */
		if (c->reader.whole.cap > SC_CONN_OUT_BATCH &&
		    c->reader.message_kind == SC_FRAME_NONE)
			sc_bytes_done(&c->reader.whole);
	}
	c->ahead.len = 0;
	return at;
}
