/* net/server_conn.c: the bytes of one connection: the order of writing, turns, time-outs, the
 * end. */
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/server_internal.h"

enum { TLS_PART = 16384, KEEP_MAX = 4096 };

void sc_conn_kick(struct sc_conn *c)
{
	sc_task_queue(c->server->loop, &c->task);
}

void sc_conn_kill(struct sc_conn *c, int code)
{
	if (c->state == SC_CONN_DEAD)
		return;
	if (!c->code)
		c->code = code;
	c->state = SC_CONN_DEAD;
	sc_conn_kick(c);
}

/* Memory. */

void sc_conn_weigh(struct sc_conn *c)
{
	size_t now = c->in.cap + c->out.cap + c->reader.whole.cap + c->held;

	c->server->stats.memory_bytes += now;
	c->server->stats.memory_bytes -= c->weighed;
	c->weighed = now;
}

void sc_conn_holds(struct sc_conn *c, size_t bytes)
{
	c->held = bytes;
	sc_conn_weigh(c);
}

bool sc_conn_has_room(const struct sc_conn *c, size_t bytes)
{
	const struct sc_server *s = c->server;

	return s->options.memory_max_bytes == 0 || bytes <= SC_CONN_FREE ||
	       s->stats.memory_bytes + bytes <= s->options.memory_max_bytes;
}

void sc_conn_refused(struct sc_conn *c)
{
	c->server->stats.refused_memory++;
}

void sc_conn_lose(struct sc_conn *c)
{
	sc_conn_refused(c);
	sc_conn_kill(c, 1013);
}

/* Writing. */

/* As much as the socket takes; 0 when it takes nothing or the connection broke. */
static size_t raw_send(struct sc_conn *c, const char *data, size_t len)
{
	ssize_t n;

	if (!c->can_write || c->state == SC_CONN_DEAD)
		return 0;
	do
		n = send(c->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0) {
		c->can_write = false;
		if (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS)
			sc_conn_kill(c, 1006);
		return 0;
	}
	if ((size_t)n < len)
		c->can_write = false; /* full: the edge comes */
	c->bytes_out += (uint64_t)n;
	c->server->stats.bytes_out += (uint64_t)n;
	return (size_t)n;
}

static size_t tls_waiting(struct sc_conn *c)
{
	const char *data;

	return c->tls ? sc_server_tls_waiting(c->tls, &data) : 0;
}

bool sc_conn_tls_flush(struct sc_conn *c)
{
	const char *data;
	size_t len;

	while ((len = sc_server_tls_waiting(c->tls, &data)) > 0) {
		size_t n = raw_send(c, data, len);

		if (n == 0)
			return false;
		sc_server_tls_sent(c->tls, n);
	}
	return true;
}

/* Plain bytes to the peer: how many were taken. Those that TLS took may still wait in it. */
static size_t put_through(struct sc_conn *c, const char *data, size_t len)
{
	size_t done = 0;

	if (!c->tls)
		return raw_send(c, data, len);
	while (done < len && c->can_write && c->state != SC_CONN_DEAD && sc_conn_tls_flush(c)) {
		size_t part = len - done < TLS_PART ? len - done : TLS_PART;

		if (!sc_server_tls_ready(c->tls))
			break;
		if (sc_server_tls_write(c->tls, data + done, part) < 0) {
			sc_conn_kill(c, 1006);
			break;
		}
		done += part;
		(void)sc_conn_tls_flush(c);
	}
	return done;
}

/* True when nothing waits any more. */
static bool flush(struct sc_conn *c)
{
	if (c->tls && !sc_conn_tls_flush(c))
		return false;
	while (c->out.len > 0) {
		size_t n = put_through(c, c->out.data, c->out.len);

		if (n == 0)
			return false;
		sc_bytes_drop(&c->out, n);
	}
	if (c->out.cap > KEEP_MAX)
		sc_bytes_done(&c->out);
	return !c->tls || tls_waiting(c) == 0;
}

/* `out` ends at a frame's end always, so a control frame put there is never inside another
 * frame. */
static void put_control(struct sc_conn *c)
{
	int rc = 0;

	if (c->state != SC_CONN_OPEN)
		return;
	if (c->pong_due)
		rc = sc_frame_put(&c->out, SC_FRAME_PONG, true, false, false,
				  sc_span((const char *)c->pong, c->pong_len));
	if (rc == 0 && c->ping_due)
		rc = sc_frame_put(&c->out, SC_FRAME_PING, true, false, false, sc_span("", 0));
	c->pong_due = c->ping_due = false;
	if (rc < 0)
		sc_conn_kill(c, 1011);
}

/* True when the peer can be given more. */
static bool push(struct sc_conn *c)
{
	if (!flush(c))
		return false;
	if (c->pong_due || c->ping_due) {
		put_control(c);
		if (!flush(c))
			return false;
	}
	return c->can_write && c->state != SC_CONN_DEAD;
}

/* Where the frame ends that holds byte AT - 1. */
static size_t frame_end(const unsigned char *p, size_t len, size_t at)
{
	size_t end = 0;

	while (end < at) {
		uint64_t n = len - end >= 2 ? p[end + 1] & 127 : 0;
		size_t head = n == 126 ? 4 : n == 127 ? 10 : 2;

		if (len - end < head)
			return len;
		if (n >= 126) {
			n = 0;
			for (size_t i = 2; i < head; i++)
				n = n << 8 | p[end + i];
		}
		if (n > len - end - head)
			return len;
		end += head + (size_t)n;
	}
	return end;
}

size_t sc_conn_write_frames(struct sc_conn *c, const void *data, size_t len)
{
	size_t n, end;

	if (c->state != SC_CONN_OPEN || len == 0 || !push(c))
		return 0;
	n = put_through(c, data, len);
	if (n == 0 || n == len)
		return n;
	end = frame_end(data, len, n);
	/* There is no other place to stop than the frame's end. */
	if (end - n > SC_CONN_OUT_BATCH && !sc_conn_has_room(c, end - n))
		sc_conn_lose(c);
	else if (sc_bytes_put(&c->out, (const char *)data + n, end - n) < 0)
		sc_conn_kill(c, 1011);
	sc_conn_weigh(c);
	return end;
}

bool sc_conn_write_message(struct sc_conn *c, enum sc_message kind, struct sc_span data)
{
	struct sc_span payload = data;

	if (c->state != SC_CONN_OPEN)
		return false;
	if (c->out.len > 0 &&
	    (c->out.len >= SC_CONN_OUT_BATCH || data.len > SC_CONN_OUT_BATCH - c->out.len))
		(void)flush(c);
	if (c->state != SC_CONN_OPEN)
		return false;
	if (c->out.len > 0 &&
	    (c->out.len >= SC_CONN_OUT_BATCH || data.len > SC_CONN_OUT_BATCH - c->out.len))
		return false;
	if (c->deflate)
		payload = sc_server_deflate_message(c->deflate, data);
	if (payload.data && payload.len > SC_CONN_OUT_BATCH && !sc_conn_has_room(c, payload.len)) {
		sc_conn_lose(c);
		return false;
	}
	if (!payload.data ||
	    sc_frame_put(&c->out, kind == SC_TEXT ? SC_FRAME_TEXT : SC_FRAME_BINARY, true,
			 c->deflate != NULL, false, payload) < 0) {
		sc_conn_kill(c, 1011);
		return false;
	}
	if (c->deflate)
		sc_server_deflate_trim(c->deflate);
	sc_conn_weigh(c);
	if (!c->turning)
		sc_conn_kick(c);
	return true;
}

void sc_conn_hurry(struct sc_conn *c)
{
	if (c->state == SC_CONN_OPEN && !c->turning)
		(void)push(c);
}

size_t sc_conn_write_stream(struct sc_conn *c, const void *data, size_t len)
{
	return c->state == SC_CONN_STREAM && push(c) ? put_through(c, data, len) : 0;
}

void sc_conn_want_write(struct sc_conn *c)
{
	if (c->state != SC_CONN_OPEN && c->state != SC_CONN_STREAM && c->state != SC_CONN_HEAD)
		return;
	c->want = true;
	if (c->can_write)
		sc_conn_kick(c);
}

/* The end. */

void sc_conn_finish(struct sc_conn *c)
{
	if (c->state == SC_CONN_DEAD || c->state == SC_CONN_LINGER)
		return;
	c->state = SC_CONN_FLUSH;
	c->want = c->paused = false;
	sc_timer_start(c->timer,
		       c->close_sent ? c->server->options.close_ms : c->server->options.idle_ms);
	sc_conn_kick(c);
}

void sc_conn_begin_close(struct sc_conn *c)
{
	if (sc_frame_put_close(&c->out, false, (uint16_t)c->code,
			       sc_span(c->reason, c->reason_len)) < 0) {
		sc_conn_kill(c, 1011);
		return;
	}
	c->close_sent = true;
	c->state = SC_CONN_CLOSING;
	c->want = c->paused = false;
	sc_timer_start(c->timer, c->server->options.close_ms);
	sc_conn_kick(c);
}

void sc_conn_close(struct sc_conn *c, int code, struct sc_span reason)
{
	size_t n = reason.len < SC_CONN_REASON_MAX ? reason.len : SC_CONN_REASON_MAX;

	if (c->state == SC_CONN_STREAM) {
		sc_conn_end_stream(c);
		return;
	}
	if (c->state != SC_CONN_OPEN)
		return;
	while (n > 0 && n < reason.len && ((unsigned char)reason.data[n] & 0xc0) == 0x80)
		n--;
	c->code = code;
	c->reason_len = (uint8_t)n;
	if (n)
		memcpy(c->reason, reason.data, n);
	sc_conn_begin_close(c);
}

void sc_conn_end_stream(struct sc_conn *c)
{
	if (c->state != SC_CONN_STREAM)
		return;
	c->code = 1000;
	sc_conn_finish(c);
}

void sc_conn_abort(struct sc_conn *c)
{
	sc_conn_kill(c, 1006);
}

/* All is with the kernel: shut our side and wait for the peer's, so that a reset does not eat our
 * last words. */
static void linger(struct sc_conn *c)
{
	if (c->tls) {
		sc_server_tls_bye(c->tls);
		(void)sc_conn_tls_flush(c);
	}
	c->state = SC_CONN_LINGER;
	if (c->eof || shutdown(c->fd, SHUT_WR) < 0) {
		sc_conn_kill(c, 1006);
		return;
	}
	sc_timer_start(c->timer, SC_CONN_LINGER_MS);
}

/* Its turn. */

static void turn(void *arg)
{
	struct sc_conn *c = arg;

	c->turning = true;
	if (c->state != SC_CONN_DEAD)
		sc_conn_input(c);
	if (c->state != SC_CONN_DEAD) {
		bool clear = push(c);

		if (c->state == SC_CONN_FLUSH && c->out.len == 0 && tls_waiting(c) == 0)
			linger(c);
		if (clear && c->want && (c->state == SC_CONN_OPEN || c->state == SC_CONN_STREAM)) {
			c->want = false;
			c->server->hooks.writable(c->server->arg, c);
			if (c->out.len > 0 && c->state != SC_CONN_DEAD)
				(void)flush(c);
		}
	}
	if (c->state == SC_CONN_DEAD) {
		sc_server_forget(c);
		sc_conn_free(c);
		return;
	}
	sc_conn_weigh(c);
	c->turning = false;
	if ((c->can_read && !c->paused) || (c->out.len > 0 && c->can_write) ||
	    (c->can_write && c->state == SC_CONN_OPEN && (c->want || c->pong_due || c->ping_due)) ||
	    (c->can_write && c->state == SC_CONN_STREAM && c->want))
		sc_conn_kick(c);
}

static void ready(void *arg, int events)
{
	struct sc_conn *c = arg;

	if (events & SC_READABLE)
		c->can_read = true;
	if (events & SC_WRITABLE)
		c->can_write = true;
	if (events & SC_ENDS)
		c->ends = true;
	if ((events & SC_HANGUP) && c->paused)
		sc_conn_kill(c, 1006); /* nobody reads, so nobody would notice */
	sc_conn_kick(c);
}

/* Time-outs. */

enum flow { FLOW_NONE, FLOW_MOVES, FLOW_STUCK };

/* Is something on its way to the peer, and has it taken any of it since the last look? */
static enum flow look(struct sc_conn *c)
{
	int queued = 0;
	int64_t acked;
	bool moved;

	if (ioctl(c->fd, SIOCOUTQ, &queued) < 0)
		queued = 0;
	acked = (int64_t)c->bytes_out - queued;
	moved = acked > c->acked;
	c->acked = acked;
	if (queued == 0 && c->out.len == 0 && tls_waiting(c) == 0)
		return FLOW_NONE;
	return moved ? FLOW_MOVES : FLOW_STUCK;
}

static void keepalive(struct sc_conn *c)
{
	static const char why[] = "keepalive ping timeout";
	const struct sc_server_options *o = &c->server->options;
	enum flow flow = look(c);

	if (!c->ping_sent) {
		c->ping_sent = c->ping_due = true;
		sc_timer_start(c->timer, o->pong_ms);
		sc_conn_kick(c);
		return;
	}
	/* A slow reader that still reads is alive: its pong is behind what it has not read yet.
	 * From one that is paused no pong can come: it is alive as long as it takes what it is
	 * sent. */
	if (flow == FLOW_MOVES || (c->paused && flow == FLOW_NONE)) {
		sc_timer_start(c->timer, o->pong_ms);
		return;
	}
	c->server->stats.keepalive_drops++;
	c->code = 1011;
	c->reason_len = sizeof(why) - 1;
	memcpy(c->reason, why, sizeof(why) - 1);
	sc_conn_begin_close(c);
	(void)flush(c);
	sc_conn_kill(c, 1011);
}

static void due(void *arg)
{
	struct sc_conn *c = arg;

	switch (c->state) {
	case SC_CONN_HEAD:
		c->server->stats.handshake_timeouts++;
		if (c->in.len > 0)
			sc_server_refuse(c, 408, NULL, "the request's head took too long\n");
		else
			sc_conn_kill(c, 1006);
		break;
	case SC_CONN_OPEN:
		keepalive(c);
		break;
	case SC_CONN_STREAM:
		if (look(c) == FLOW_STUCK)
			sc_conn_kill(c, 1006);
		else
			sc_timer_start(c->timer, c->server->options.idle_ms);
		break;
	case SC_CONN_FLUSH:
	case SC_CONN_CLOSING:
		if (look(c) == FLOW_MOVES)
			sc_timer_start(c->timer, c->server->options.close_ms);
		else
			sc_conn_kill(c, 1006);
		break;
	case SC_CONN_LINGER:
	case SC_CONN_DEAD:
		sc_conn_kill(c, 1006);
		break;
	}
}

void sc_conn_open(struct sc_conn *c, enum sc_conn_state state)
{
	const struct sc_server_options *o = &c->server->options;

	c->state = state;
	c->counted = true;
	c->server->stats.clients++;
	c->server->stats.opened++;
	if (state == SC_CONN_STREAM)
		sc_timer_start(c->timer, o->idle_ms);
	else if (o->ping_ms >= 0)
		sc_timer_start(c->timer, o->ping_ms);
	else
		sc_timer_stop(c->timer);
	sc_conn_kick(c);
}

/* Birth and death. */

int sc_conn_new(struct sc_server *s, int fd, const struct sockaddr *peer, socklen_t len,
		bool refuse, struct sc_conn **ret_conn)
{
	struct sc_conn *c = sc_calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return SC_E_NOMEM;
	}
	*c = (struct sc_conn){ .server = s,
			       .fd = fd,
			       .state = SC_CONN_HEAD,
			       .refuse = refuse,
			       .opened_us = sc_wall_us() };
	c->task = (struct sc_task){ .run = turn, .arg = c };
	sc_bytes_init(&c->in, SIZE_MAX / 2);
	sc_bytes_init(&c->out, SIZE_MAX / 2);
	sc_listen_name(peer, len, c->peer, sizeof(c->peer));
	if (s->tls)
		c->tls = sc_server_tls_begin(s->tls);
	if ((s->tls && !c->tls) || sc_timer_new(s->loop, due, c, &c->timer, NULL) < 0 ||
	    sc_watch_new(s->loop, fd, SC_READABLE | SC_WRITABLE | SC_EDGE, ready, c, &c->watch,
			 NULL) < 0) {
		sc_conn_free(c);
		return SC_E_NOMEM;
	}
	sc_timer_start(c->timer, s->options.handshake_ms);
	*ret_conn = c;
	return 0;
}

void sc_conn_free(struct sc_conn *c)
{
	sc_task_cancel(&c->task);
	sc_timer_free(c->timer);
	sc_watch_free(c->watch);
	sc_server_tls_end(c->tls);
	sc_server_deflate_free(c->deflate);
	sc_frame_reader_done(&c->reader);
	sc_bytes_done(&c->in);
	sc_bytes_done(&c->out);
	close(c->fd);
	free(c);
}

void sc_conn_set_user(struct sc_conn *c, void *user)
{
	c->user = user;
}

void *sc_conn_user(const struct sc_conn *c)
{
	return c->user;
}

const char *sc_conn_peer(const struct sc_conn *c)
{
	return c->peer;
}

bool sc_conn_compressed(const struct sc_conn *c)
{
	return c->deflate != NULL;
}

void sc_conn_pause(struct sc_conn *c)
{
	if (c->state == SC_CONN_OPEN)
		c->paused = true;
}

void sc_conn_resume(struct sc_conn *c)
{
	if (!c->paused)
		return;
	c->paused = false;
	sc_conn_kick(c);
}

void sc_conn_discard(struct sc_conn *c)
{
	struct sc_bytes *whole = &c->reader.whole;

	c->discard = true;
	if (whole->max > SC_CONN_DISCARD_MAX)
		whole->max = whole->len > SC_CONN_DISCARD_MAX ? whole->len : SC_CONN_DISCARD_MAX;
}

void sc_conn_stats(const struct sc_conn *c, struct sc_conn_stats *ret)
{
	*ret = (struct sc_conn_stats){ .bytes_in = c->bytes_in,
				       .bytes_out = c->bytes_out,
				       .messages_in = c->messages_in,
				       .opened_us = c->opened_us,
				       .waiting_bytes = c->out.len };
}
