/* net/server_input.c: what comes on a connection: off the socket, out of TLS, to the head or the
 * frames. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/server_internal.h"

/* Of what TLS says by itself, answers to key updates above all: so much may wait for a peer. */
enum { TLS_UNHEARD_MAX = 65536 };

/* It has brought more than there is room for. What it sent before is with its reader; the rest of
 * that message is not taken. */
static void refuse_more(struct sc_conn *c)
{
	static const char why[] = "messages hold as much as they may (--max-memory); try again "
				  "later";

	if (c->state == SC_CONN_CLOSING) {
		sc_conn_lose(c);
		return;
	}
	if (c->state != SC_CONN_HEAD && c->state != SC_CONN_OPEN)
		return;
	sc_conn_refused(c);
	if (c->state == SC_CONN_HEAD) {
		sc_server_refuse(c, 503, "Retry-After: 5\r\n",
				 "connections hold as much as they may (--max-memory); try again "
				 "later\n");
		sc_bytes_done(&c->in);
		return;
	}
	sc_conn_close(c, 1013, SC_SPAN(why));
	sc_conn_finish(c); /* no more is read as frames */
	sc_bytes_done(&c->in);
	sc_frame_reader_done(&c->reader);
}

static bool over(const struct sc_server *s)
{
	return s->options.memory_max_bytes && s->stats.memory_bytes > s->options.memory_max_bytes;
}

/* After what was read last. A message that came whole is in no memory of its own, however full that
 * is. */
static void look_at_room(struct sc_conn *c)
{
	sc_conn_weigh(c);
	if (!over(c->server))
		return;
	if (c->reader.message_kind == SC_FRAME_NONE)
		sc_bytes_done(&c->reader.whole);
	if (c->in.cap + c->reader.whole.cap > SC_CONN_FREE)
		refuse_more(c);
	sc_conn_weigh(c);
}

static void take_frames(struct sc_conn *c, char *data, size_t len)
{
	size_t used = 0;

	if (len == 0)
		return;
	if (!c->paused && c->in.len == 0)
		used = sc_server_frames(c, data, len);
	if (used < len && (c->state == SC_CONN_OPEN || c->state == SC_CONN_CLOSING) &&
	    sc_bytes_put(&c->in, data + used, len - used) < 0)
		sc_conn_kill(c, 1011);
}

/* What came while it was paused. */
static void take_kept(struct sc_conn *c)
{
	struct sc_bytes kept = c->in;

	if (kept.len == 0 || c->paused || (c->state != SC_CONN_OPEN && c->state != SC_CONN_CLOSING))
		return;
	sc_bytes_init(&c->in, SIZE_MAX / 2);
	take_frames(c, kept.data, kept.len);
	sc_bytes_done(&kept);
}

static void take_head(struct sc_conn *c, char *data, size_t len)
{
	size_t room = c->server->options.head_max_bytes - c->in.len, n = len < room ? len : room,
	       end;
	struct sc_bytes head;

	if (sc_bytes_put(&c->in, data, n) < 0) {
		sc_conn_kill(c, 1011);
		return;
	}
	end = sc_http_head_end(c->in.data, c->in.len, c->in_seen);
	c->in_seen = c->in.len;
	if (end == 0 && !sc_http_begins(c->in.data[0])) {
		sc_server_refuse(c, 400, NULL, "this is no HTTP request\n");
		return;
	}
	if (end == 0 && c->in.len < c->server->options.head_max_bytes)
		return;
	if (end == 0) {
		bool line = memmem(c->in.data, c->in.len, "\r\n", 2) != NULL;

		sc_server_refuse(c, line ? 431 : 414, NULL,
				 line ? "the request's head is too large\n"
				      : "the request's target is too long\n");
		return;
	}
	sc_server_request(c, end);
	/* What followed the head: the first frames, or a pipelined request that nobody will
	 * answer. */
	head = c->in;
	sc_bytes_init(&c->in, SIZE_MAX / 2);
	take_frames(c, head.data + end, head.len - end);
	take_frames(c, data + n, len - n);
	sc_bytes_done(&head);
}

static void take_plain(struct sc_conn *c, char *data, size_t len)
{
	if (c->state == SC_CONN_HEAD)
		take_head(c, data, len);
	else if (c->state == SC_CONN_OPEN || c->state == SC_CONN_CLOSING)
		take_frames(c, data, len);
}

static void take_end(struct sc_conn *c)
{
	c->eof = true;
	c->can_read = false;
	/* An answer may still go to a peer that has only shut its own side. */
	if (c->state != SC_CONN_FLUSH)
		sc_conn_kill(c, 1006);
}

/* Everything that TLS can give, unless paused. */
static void take_tls(struct sc_conn *c)
{
	const char *unheard;

	while (!c->paused && c->state != SC_CONN_DEAD && c->state != SC_CONN_LINGER) {
		bool end, ready = sc_server_tls_ready(c->tls);
		ssize_t n = sc_server_tls_read(c->tls, c->server->plain, SC_CONN_SCRATCH, &end);

		if (n > 0) {
			take_plain(c, c->server->plain, (size_t)n);
			continue;
		}
		if (!sc_conn_tls_flush(c) && /* handshake, alerts, key updates */
		    sc_server_tls_waiting(c->tls, &unheard) > TLS_UNHEARD_MAX)
			sc_conn_kill(c, 1006);
		if (n < 0) {
			if (!ready)
				c->server->stats.tls_failures++;
			if (end)
				take_end(c);
			else
				sc_conn_kill(c, 1006);
		}
		return;
	}
}

/* The first bytes where TLS is spoken. A request in plain text gets an answer in plain text, as its
 * sender can read no other. */
static void take_first(struct sc_conn *c, const char *data, size_t len)
{
	if (data[0] >= 'A' && data[0] <= 'Z') {
		c->server->stats.tls_failures++;
		sc_server_tls_end(c->tls);
		c->tls = NULL;
		sc_server_refuse(c, 400, NULL, SC_HTTP_WANTS_TLS "\n");
	} else if (sc_server_tls_feed(c->tls, data, len) < 0) {
		sc_conn_kill(c, 1011);
	} else {
		take_tls(c);
	}
}

void sc_conn_input(struct sc_conn *c)
{
	char *scratch = c->server->scratch;

	take_kept(c);
	if (c->tls)
		take_tls(c);
	for (int i = 0;
	     i < SC_CONN_READ_TURN && c->can_read && !c->paused && c->state != SC_CONN_DEAD; i++) {
		ssize_t n = recv(c->fd, scratch, SC_CONN_SCRATCH, MSG_DONTWAIT);
		bool first;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			c->can_read = false;
			break;
		}
		if (n < 0) {
			sc_conn_kill(c, 1006);
			break;
		}
		if (n == 0) {
			take_end(c);
			break;
		}
		/* Fewer bytes than there was room for: there are no more, and the edge comes with
		 * the next (epoll(7)). An end that has come already has no edge any more. */
		if ((size_t)n < SC_CONN_SCRATCH && !c->ends)
			c->can_read = false;
		first = c->bytes_in == 0;
		c->bytes_in += (uint64_t)n;
		c->server->stats.bytes_in += (uint64_t)n;
		if (c->state == SC_CONN_FLUSH || c->state == SC_CONN_LINGER ||
		    c->state == SC_CONN_STREAM)
			continue;
		if (!c->tls)
			take_plain(c, scratch, (size_t)n);
		else if (first)
			take_first(c, scratch, (size_t)n);
		else if (sc_server_tls_feed(c->tls, scratch, (size_t)n) < 0)
			sc_conn_kill(c, 1011);
		else
			take_tls(c);
		look_at_room(c);
	}
}
