/* net/client_link.c: one connection: bytes in and out, frames, time limits, the end. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/client_internal.h"

enum { READS_A_TURN = 4, COMPACT_AT = 1 << 20, CONTROL_ROOM = 1 << 20 };

static void io(struct sc_link *l);

/* Ends. */

void sc_link_cause(struct sc_link *l, const struct sc_err *err)
{
	if (l->caused)
		return;
	l->caused = true;
	l->cause = *err;
	if (err->code != SC_OK && err->object[0] == '\0' && l->where[0])
		sc_err_on(&l->cause, "server", l->where);
	sc_link_scheme_doubt(l, &l->cause);
}

void sc_link_over(struct sc_link *l)
{
	if (l->state == SC_LINK_OVER)
		return;
	l->state = SC_LINK_OVER;
	sc_dial_free(l->dial);
	l->dial = NULL;
	sc_timer_stop(l->timer);
	sc_task_cancel(&l->again);
	if (l->top && !l->write_errnum)
		sc_tls_end(l->top);
	sc_watch_free(l->watch);
	l->watch = NULL;
	sc_close(&l->fd);
	sc_client_link_over(l->client);
}

void sc_link_fail(struct sc_link *l, const struct sc_err *err)
{
	sc_link_cause(l, err);
	sc_link_over(l);
}

static void drain(struct sc_link *l)
{
	int64_t wait_ms = l->client->o.close_ms;

	l->state = SC_LINK_DRAINING;
	l->deadline_us = sc_mono_us() + (wait_ms > 0 ? wait_ms : 0) * 1000;
	sc_link_arm(l);
}

/* We found a fault: say so in a close frame, then leave. */
static void fault(struct sc_link *l, uint16_t code, const struct sc_err *err)
{
	sc_link_cause(l, err);
	if (l->client->o.raw) {
		sc_link_over(l);
		return;
	}
	if (!l->close_sent &&
	    sc_frame_put_close(&l->out, true, code, sc_span_str(err->reason)) == 0)
		l->close_sent = true;
	drain(l);
}

/* Bytes. */

ssize_t sc_link_read(struct sc_link *l, void *data, size_t size, struct sc_err *err)
{
	ssize_t n;

	if (l->top) {
		n = sc_tls_read(l->top, data, size, err);
		l->read_wants_write = n == SC_TLS_WRITE;
		return n;
	}
	do
		n = recv(l->fd, data, size, 0);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return SC_TLS_READ;
	return sc_err_sys(err, SC_E_UNAVAILABLE, errno, "lost the connection to");
}

/* Bytes, SC_TLS_READ or _WRITE, or a failure. */
static ssize_t write_some(struct sc_link *l, struct sc_err *err)
{
	const char *data = l->out.data + l->out_at;
	size_t len = l->out.len - l->out_at;
	ssize_t n;

	if (l->top) {
		n = sc_tls_write(l->top, data, len, err);
		l->write_wants_read = n == SC_TLS_READ;
		return n;
	}
	do
		n = send(l->fd, data, len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK)
		return SC_TLS_WRITE;
	return sc_err_sys(err, SC_E_UNAVAILABLE, errno, "lost the connection to");
}

int sc_link_flush(struct sc_link *l, struct sc_err *err)
{
	while (l->out_at < l->out.len) {
		ssize_t n = write_some(l, err);

		if (n == SC_TLS_READ || n == SC_TLS_WRITE)
			break;
		if (n < 0)
			return (int)n;
		l->out_at += (size_t)n;
		if (l->state ==
		    SC_LINK_CLOSING) { /* what waits goes out first, as long as it moves */
			l->deadline_us = sc_mono_us() + l->client->o.close_ms * 1000;
			sc_link_arm(l);
		}
	}
	if (l->out_at == l->out.len) {
		sc_bytes_clear(&l->out);
		l->out_at = 0;
	} else if (l->out_at >= COMPACT_AT) {
		sc_bytes_drop(&l->out, l->out_at);
		l->out_at = 0;
	}
	return 0;
}

bool sc_link_reading(const struct sc_link *l)
{
	if (l->state == SC_LINK_OPEN)
		return l->in_at == l->in_len && !sc_client_full(l->client);
	return l->state != SC_LINK_DIAL && l->state != SC_LINK_OVER;
}

static void ready(void *arg, int events)
{
	struct sc_link *l = arg;
	struct sc_client *c = l->client;

	sc_client_enter(c);
	if ((events & SC_HANGUP) && !sc_link_reading(l)) {
		/* It would be told again and again. What the peer sent before is read after
		 * sc_client_resume. */
		sc_watch_free(l->watch);
		l->watch = NULL;
		l->hung = true;
	} else if (l->state < SC_LINK_OPEN) {
		sc_link_advance(l);
	} else {
		io(l);
	}
	sc_client_leave(c);
}

void sc_link_watch(struct sc_link *l)
{
	struct sc_err err;
	int events = 0;

	if (l->fd < 0 || l->state == SC_LINK_OVER)
		return;
	if (sc_link_reading(l))
		events |= SC_READABLE;
	else if (l->hung)
		return;
	if ((l->out_at < l->out.len && !l->write_wants_read && !l->write_errnum) ||
	    l->read_wants_write)
		events |= SC_WRITABLE;
	if (l->watch)
		sc_watch_set(l->watch, events);
	else if (sc_watch_new(l->client->loop, l->fd, events, ready, l, &l->watch, &err) < 0)
		sc_link_fail(l, &err);
}

/* Frames. */

static void got_close(struct sc_link *l, const struct sc_frame *f)
{
	struct sc_err err;

	l->close_got = true;
	l->close_code = f->close_code;
	l->close_reason_len = f->payload.len;
	memcpy(l->close_reason, f->payload.data, f->payload.len);
	if (!l->close_sent && sc_frame_put_close(&l->out, true, f->close_code, sc_span("", 0)) == 0)
		l->close_sent = true;
	if (f->close_code == 1005)
		sc_err_set(&err, SC_E_UNAVAILABLE, "lost the connection to",
			   "the server closed it without a code");
	else if (f->payload.len)
		sc_err_set(&err, SC_E_UNAVAILABLE, "lost the connection to",
			   "the server closed it with %u '%.*s'", f->close_code,
			   (int)f->payload.len, f->payload.data);
	else
		sc_err_set(&err, SC_E_UNAVAILABLE, "lost the connection to",
			   "the server closed it with %u", f->close_code);
	sc_err_field_int(&err, "close_code", f->close_code);
	sc_link_cause(l, &err);
	if (l->state == SC_LINK_CLOSING)
		sc_link_over(l); /* we asked for it: there is nothing to wait for */
	else
		drain(l);
}

static void got_pong(struct sc_link *l, const struct sc_frame *f)
{
	struct sc_client *c = l->client;
	int64_t sent, now = sc_mono_us();

	if (f->payload.len != sizeof(sent) || !c->hooks.pong)
		return;
	memcpy(&sent, f->payload.data,
	       sizeof(sent)); /* since the link began: our clock is nobody's business */
	if (sent > 0 && sent <= now - l->begun_us)
		c->hooks.pong(c->arg, now - l->begun_us - sent);
}

static void got_message(struct sc_link *l, const struct sc_frame *f)
{
	struct sc_client_message m = { f->payload, f->kind == SC_FRAME_BINARY, l->wall_us };
	uint16_t code = 1011;
	struct sc_err err;

	if (f->compressed) {
		if (sc_inflate_message(l->inflate, f->payload, &m.payload, &code, &err) < 0) {
			fault(l, code, &err);
			return;
		}
		if (!m.binary && !sc_frame_utf8(m.payload.data, m.payload.len)) {
			sc_err_set(&err, SC_E_PROTOCOL, "cannot read the message from",
				   "a text message is not UTF-8");
			fault(l, 1007, &err);
			return;
		}
	}
	l->messages++;
	l->bytes += m.payload.len;
	if (sc_client_take_message(l->client, &m, &err) < 0)
		fault(l, 1011, &err);
}

static void got_frame(struct sc_link *l, const struct sc_frame *f)
{
	switch (f->kind) {
	case SC_FRAME_TEXT:
	case SC_FRAME_BINARY:
		if (l->state == SC_LINK_OPEN)
			got_message(l, f);
		break;
	case SC_FRAME_PING:
		/* A peer that pings and does not read gets no memory of ours: full, its pings go
		 * unanswered. */
		if (!l->close_sent &&
		    l->out.len - l->out_at < l->client->o.send_max + CONTROL_ROOM / 2)
			(void)sc_frame_put(&l->out, SC_FRAME_PONG, true, false, true, f->payload);
		break;
	case SC_FRAME_PONG:
		got_pong(l, f);
		break;
	case SC_FRAME_CLOSE:
		got_close(l, f);
		break;
	default:
		break;
	}
}

/* Not a WebSocket: what was read is told as it is. */
static void got_bytes(struct sc_link *l)
{
	struct sc_client_message m = { sc_span(l->in + l->in_at, l->in_len - l->in_at), true,
				       l->wall_us };
	struct sc_err err;

	if (sc_link_scheme_wrong(l, m.payload, &err)) {
		sc_link_fail(l, &err);
		return;
	}
	l->client->ever_open = true;
	l->in_at = l->in_len;
	l->messages++;
	l->bytes += m.payload.len;
	if (sc_client_take_message(l->client, &m, &err) < 0)
		fault(l, 1011, &err);
}

/* Until the bytes are used up, or no more may be taken. */
static void process(struct sc_link *l)
{
	struct sc_client *c = l->client;
	uint64_t before = l->messages;
	struct sc_frame f;
	struct sc_err err;

	while (l->in_at < l->in_len && !c->freed) {
		size_t used = 0;
		int rc;

		if (l->state != SC_LINK_OPEN && l->state != SC_LINK_CLOSING) {
			l->in_at = l->in_len;
			break;
		}
		if (l->state == SC_LINK_OPEN && sc_client_full(c))
			break;
		if (c->o.raw) {
			got_bytes(l);
			continue;
		}
		rc = sc_frame_read(&l->reader, l->in + l->in_at, l->in_len - l->in_at, &used, &f,
				   &err);
		l->in_at += used;
		if (rc < 0)
			fault(l, l->reader.close_code, &err);
		else if (rc > 0)
			got_frame(l, &f);
	}
	if (l->in_at == l->in_len)
		l->in_at = l->in_len = 0;
	if (l->messages != before) {
		l->last_message_us = l->last_read_us;
		sc_client_batch(c);
	}
}

static void lost(struct sc_link *l, ssize_t n, struct sc_err *err)
{
	if (n == 0)
		sc_err_set(err, SC_E_UNAVAILABLE, "lost the connection to",
			   l->client->o.raw ? "the server ended it"
					    : "the server ended it without a close frame");
	sc_link_fail(l, err);
}

/* Read and process; false when the socket has no more for now. */
static bool read_some(struct sc_link *l)
{
	struct sc_err err;
	ssize_t n;

	process(l);
	for (int i = 0; i < READS_A_TURN; i++) {
		if (l->client->freed || !sc_link_reading(l))
			return true;
		n = sc_link_read(l, l->in, SC_CLIENT_READ_SIZE, &err);
		if (n == SC_TLS_READ || n == SC_TLS_WRITE)
			return false;
		if (n <= 0) {
			lost(l, n, &err);
			return true;
		}
		l->last_read_us = sc_mono_us();
		l->wall_us = sc_wall_us();
		l->in_at = 0;
		l->in_len = (size_t)n;
		process(l);
		if (!l->top && (size_t)n < SC_CLIENT_READ_SIZE && !l->write_errnum)
			return false;
	}
	if (l->top ||
	    l->write_errnum) /* the library may hold bytes that the socket knows nothing of */
		sc_task_queue(l->client->loop, &l->again);
	return true;
}

static void tell_drained(struct sc_link *l)
{
	struct sc_client *c = l->client;

	if (!l->told_busy || l->state != SC_LINK_OPEN || l->out.len - l->out_at > c->o.send_max / 2)
		return;
	l->told_busy = false;
	if (c->hooks.drained)
		c->hooks.drained(c->arg);
}

static void flush(struct sc_link *l)
{
	struct sc_err err;

	if (l->write_errnum || l->state == SC_LINK_OVER)
		return;
	if (sc_link_flush(l, &err) < 0) {
		l->write_errnum = err.errnum ? err.errnum : EPIPE;
		sc_bytes_clear(&l->out);
		l->out_at = 0;
	} else {
		tell_drained(l);
	}
}

static void io(struct sc_link *l)
{
	struct sc_err err;
	bool more;

	l->in_io = true;
	flush(l);
	more = read_some(l);
	if (l->client->freed || l->state == SC_LINK_OVER)
		return;
	flush(l);
	l->in_io = false;
	if (l->write_errnum && !more && sc_link_reading(l)) {
		sc_err_sys(&err, SC_E_UNAVAILABLE, l->write_errnum, "lost the connection to");
		sc_link_fail(l, &err);
		return;
	}
	sc_link_watch(l);
}

static void again_run(void *arg)
{
	struct sc_link *l = arg;
	struct sc_client *c = l->client;

	sc_client_enter(c);
	if (l->state < SC_LINK_OPEN)
		sc_link_advance(l);
	else
		io(l);
	sc_client_leave(c);
}

/* Time. */

void sc_link_arm(struct sc_link *l)
{
	int64_t due = l->deadline_us, now;

	if (l->state == SC_LINK_OVER)
		return;
	if (l->state == SC_LINK_OPEN) {
		const struct sc_client_options *o = &l->client->o;

		due = o->ping_ms > 0 ? l->next_ping_us : INT64_MAX;
		if (l->ping_waits && o->pong_ms > 0 && l->ping_us + o->pong_ms * 1000 < due)
			due = l->ping_us + o->pong_ms * 1000;
		if (o->silence_ms > 0 && l->last_message_us + o->silence_ms * 1000 < due)
			due = l->last_message_us + o->silence_ms * 1000;
	}
	if (due == INT64_MAX) {
		sc_timer_stop(l->timer);
		return;
	}
	now = sc_mono_us();
	sc_timer_start(l->timer, due > now ? (due - now + 999) / 1000 : 1);
}

static void dead(struct sc_link *l, const char *what, int64_t limit_ms)
{
	struct sc_err err;

	sc_err_set(&err, SC_E_TIMEOUT, "lost the connection to", "%s within %lld ms", what,
		   (long long)limit_ms);
	sc_link_fail(l, &err);
}

static void tick_open(struct sc_link *l, int64_t now)
{
	const struct sc_client_options *o = &l->client->o;
	int64_t stamp = now - l->begun_us;

	if (!sc_link_reading(l)) { /* what the peer says waits unread: no judgement */
		l->ping_waits = false;
		l->last_message_us = now;
	}
	if (l->ping_waits && l->last_read_us >= l->ping_us)
		l->ping_waits = false;
	if (o->silence_ms > 0 && now >= l->last_message_us + o->silence_ms * 1000) {
		dead(l, "silence: no message", o->silence_ms);
		return;
	}
	if (l->ping_waits && o->pong_ms > 0 && now >= l->ping_us + o->pong_ms * 1000) {
		dead(l, "nothing came back for a ping", o->pong_ms);
		return;
	}
	if (o->ping_ms > 0 && now >= l->next_ping_us) {
		l->next_ping_us = now + o->ping_ms * 1000;
		if (!l->ping_waits) {
			l->ping_us = now;
			l->ping_waits = true;
		}
		if (l->out.len - l->out_at < o->send_max + CONTROL_ROOM / 2)
			(void)sc_frame_put(&l->out, SC_FRAME_PING, true, false, true,
					   sc_span((const char *)&stamp, sizeof(stamp)));
		flush(l);
	}
}

static void due(void *arg)
{
	struct sc_link *l = arg;
	struct sc_client *c = l->client;
	int64_t now = sc_mono_us();

	sc_client_enter(c);
	if (l->state == SC_LINK_OPEN)
		tick_open(l, now);
	else if (now >= l->deadline_us && l->state >= SC_LINK_CLOSING)
		sc_link_over(l);
	else if (now >= l->deadline_us)
		sc_link_late(l);
	sc_link_arm(l);
	sc_link_watch(l);
	sc_client_leave(c);
}

/* The face to client.c. */

void sc_link_opened(struct sc_link *l, const struct sc_httphead *head, bool compressed,
		    bool takeover)
{
	struct sc_client *c = l->client;
	struct sc_err err;
	int64_t now = sc_mono_us();

	l->compressed = compressed;
	l->reader.may_compress = compressed;
	if (compressed && sc_inflate_new(takeover, l->reader.whole.max, &l->inflate, &err) < 0) {
		sc_link_fail(l, &err);
		return;
	}
	l->state = SC_LINK_OPEN;
	l->opened_us = l->last_read_us = l->last_message_us = now;
	l->wall_us = sc_wall_us();
	l->next_ping_us = now + c->o.ping_ms * 1000;
	sc_link_arm(l);
	sc_client_link_opened(c, head);
	if (!c->freed)
		io(l);
}

void sc_link_resume(struct sc_link *l)
{
	if (l->state != SC_LINK_OPEN)
		return;
	l->last_message_us = l->last_read_us = sc_mono_us();
	sc_link_arm(l);
	io(l);
}

int sc_link_send(struct sc_link *l, struct sc_span payload, bool binary, struct sc_err *err)
{
	size_t waiting = l->out.len - l->out_at, max = l->client->o.send_max;

	if (payload.len > max)
		return sc_err_set(err, SC_E_DATA, "cannot send a message",
				  "it is larger than %zu bytes", max);
	if (payload.len + 14 > max - (waiting < max ? waiting : max) && waiting) {
		l->told_busy = true;
		return sc_err_set(err, SC_E_BUSY, "cannot send a message", "%zu bytes wait already",
				  waiting);
	}
	if (l->client->o.raw ? sc_bytes_put(&l->out, payload.data, payload.len) < 0
			     : sc_frame_put(&l->out, binary ? SC_FRAME_BINARY : SC_FRAME_TEXT, true,
					    false, true, payload) < 0)
		return sc_err_nomem(err, "cannot send a message");
	if (!l->in_io) /* an answer to what was read goes out with it */
		sc_link_watch(l);
	return 0;
}

void sc_link_close(struct sc_link *l, uint16_t code, const char *reason)
{
	struct sc_err none;

	sc_err_clear(&none);
	if (l->state < SC_LINK_OPEN || l->client->o.raw) {
		sc_link_fail(l, &none);
	} else if (l->state == SC_LINK_OPEN) {
		sc_link_cause(l, &none);
		if (sc_frame_put_close(&l->out, true, code, sc_span_str(reason ? reason : "")) <
		    0) {
			sc_link_over(l);
			return;
		}
		l->close_sent = true;
		l->state = SC_LINK_CLOSING;
		l->deadline_us = sc_mono_us() +
				 (l->client->o.close_ms > 0 ? l->client->o.close_ms : 0) * 1000;
		sc_link_arm(l);
		/* In the next turn: what was read and is thrown away, and a socket that hung up
		 * while paused. */
		sc_task_queue(l->client->loop, &l->again);
	}
}

int sc_link_new(struct sc_client *c, struct sc_link **ret_link, struct sc_err *err)
{
	struct sc_link *l = sc_calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return sc_err_nomem(err, "cannot connect");
	l->client = c;
	l->fd = -1;
	l->in = c->in;
	l->begun_us = sc_mono_us();
	l->deadline_us = INT64_MAX;
	l->retry_after_ms = -1;
	l->again = (struct sc_task){ .run = again_run, .arg = l };
	sc_bytes_init(&l->out, c->o.send_max + CONTROL_ROOM + (1 << 20));
	sc_frame_reader_init(&l->reader, false, c->o.message_max);
	rc = sc_timer_new(c->loop, due, l, &l->timer, err);
	if (rc < 0) {
		sc_link_free(l);
		return rc;
	}
	*ret_link = l;
	return 0;
}

void sc_link_free(struct sc_link *l)
{
	if (!l)
		return;
	sc_dial_free(l->dial);
	sc_task_cancel(&l->again);
	sc_timer_free(l->timer);
	sc_watch_free(l->watch);
	sc_tls_free(l->tls);
	sc_tls_free(l->proxy_tls);
	sc_close(&l->fd);
	if (l->talking)
		sc_proxy_talk_done(&l->talk);
	if (l->out.data)
		explicit_bzero(l->out.data, l->out.cap);
	sc_bytes_done(&l->out);
	sc_frame_reader_done(&l->reader);
	sc_inflate_free(l->inflate);
	sc_proxy_done(&l->proxy);
	sc_url_done(&l->url);
	free(l);
}
