/*
 * tests/unit/net/server_peer.h: a server under test in a thread of its own, and a raw client that
 * can do wrong.
 *
 * The server's application does what the request target says; see app_* below. The client's calls
 * block, with a limit, and fail the test when it passes.
 */
#ifndef SC_TESTS_SERVER_PEER_H
#define SC_TESTS_SERVER_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/server.h"
#include "../check.h"

enum { FRAME_TEXT_MAX = 64 };

/* What one connection of the application is. */
struct app_conn {
	enum { ECHO, FRAMES, DISCARD, PAUSE, CLOSER, SSE, MESSAGES, TOLD, HOLD, KEEP } kind;
	uint64_t next, end;       /* FRAMES, MESSAGES, SSE: numbers of what is sent */
	uint64_t got;             /* PAUSE: messages */
	struct sc_timer *timer;
	struct sc_conn *conn;
};

static struct {
	struct sc_loop *loop;
	struct sc_server *server;
	struct sc_server_options options;
	pthread_t thread;
	struct sc_wake *wake;
	struct sc_err err;
	_Atomic int command;              /* for the wake */
	_Atomic int command_done;
	_Atomic int opened, closed, last_code, last_by_peer, stopped;
	_Atomic int holding;              /* the loop stands still until it is 0 */
	struct sc_conn *told;             /* who gets the message of a HOLD */
	_Atomic size_t waiting_max;
	_Atomic uint64_t order_faults;
	char last_reason[128];
	struct sc_server_stats stats;
	int64_t grace_ms;
} app;

enum { CMD_STOP = 1, CMD_STATS, CMD_RELOAD, CMD_ABORT_ALL };

/* Frames "[N,xxxx...]" of changing length; the same text for the same number. */
static inline size_t frame_text(uint64_t n, char *out)
{
	size_t len = (size_t)sprintf(out, "[%" PRIu64 ",\"", n), pad = (size_t)(n * 7 % 40);

	memset(out + len, 'a' + (int)(n % 26), pad);
	memcpy(out + len + pad, "\"]", 3);
	return len + pad + 2;
}

static inline void app_authorise(void *arg, const struct sc_request *r, struct sc_reply *reply)
{
	(void)arg;
	if (r->target.len >= 7 && memcmp(r->target.data, "/secret", 7) == 0 &&
	    !sc_span_is(r->authorization, "Bearer open")) {
		reply->status = 401;
		reply->fields = "WWW-Authenticate: Bearer\r\n";
		reply->body = SC_SPAN("a token is needed\n");
	}
}

static inline bool target_is(const struct sc_request *r, const char *start)
{
	return r->target.len >= strlen(start) && memcmp(r->target.data, start, strlen(start)) == 0;
}

static inline uint64_t target_number(const struct sc_request *r)
{
	const char *q = memchr(r->target.data, '?', r->target.len);
	uint64_t n = 0;

	if (q)
		(void)sc_u64_parse(sc_span(q + 1, (size_t)(r->target.data + r->target.len - q - 1)), &n);
	return n;
}

static inline void app_resume(void *arg)
{
	struct app_conn *a = arg;

	sc_conn_resume(a->conn);
}

static inline struct app_conn *app_new(struct sc_conn *conn, int kind, uint64_t end)
{
	struct app_conn *a = calloc(1, sizeof(*a));

	a->kind = kind;
	a->conn = conn;
	a->end = end;
	sc_conn_set_user(conn, a);
	return a;
}

static inline void app_upgrade(void *arg, struct sc_conn *conn, const struct sc_request *r, struct sc_reply *reply)
{
	(void)arg;
	if (target_is(r, "/refuse")) {
		reply->status = 403;
		reply->body = SC_SPAN("not you\n");
		return;
	}
	if (target_is(r, "/frames"))
		app_new(conn, FRAMES, target_number(r));
	else if (target_is(r, "/messages"))
		app_new(conn, MESSAGES, target_number(r));
	else if (target_is(r, "/discard"))
		app_new(conn, DISCARD, 0);
	else if (target_is(r, "/pause"))
		app_new(conn, PAUSE, 0);
	else if (target_is(r, "/close"))
		app_new(conn, CLOSER, target_number(r));
	else if (target_is(r, "/told"))
		app_new(conn, TOLD, 0);
	else if (target_is(r, "/hold"))
		app_new(conn, HOLD, 0);
	else if (target_is(r, "/keep"))
		app_new(conn, KEEP, target_number(r));
	else
		app_new(conn, ECHO, 0);
	if (r->protocols.data)
		reply->protocol = "one";
}

static inline void app_open(void *arg, struct sc_conn *conn)
{
	struct app_conn *a = sc_conn_user(conn);

	(void)arg;
	app.opened++;
	if (a->kind == FRAMES || a->kind == MESSAGES)
		sc_conn_want_write(conn);
	if (a->kind == DISCARD)
		sc_conn_discard(conn);
	if (a->kind == TOLD)
		app.told = conn;
	if (a->kind == KEEP)
		sc_conn_holds(conn, a->end);
	if (a->kind == PAUSE)
		(void)sc_timer_new(app.loop, app_resume, a, &a->timer, NULL);
	if (a->kind == CLOSER)
		sc_conn_close(conn, (int)a->end, SC_SPAN("{\"error\":\"no_such_stream\"}"));
}

static inline void app_message(void *arg, struct sc_conn *conn, enum sc_message kind, struct sc_span data)
{
	struct app_conn *a = sc_conn_user(conn);

	(void)arg;
	if (a->kind == PAUSE) {
		char want[FRAME_TEXT_MAX];
		size_t len = frame_text(a->got++, want);

		if (len != data.len || memcmp(want, data.data, len) != 0)
			app.order_faults++;
		sc_conn_pause(conn);
		sc_timer_start(a->timer, 0);
		if (a->got % 100 != 0)
			return;
	}
	if (a->kind == HOLD) {
		if (app.told && sc_conn_write_message(app.told, kind, data))
			sc_conn_hurry(app.told);
		app.holding = 1;
		while (app.holding)
			usleep(200);
		return;
	}
	if (sc_span_is(data, "abort"))
		sc_conn_abort(conn);
	else if (!sc_conn_write_message(conn, kind, data))
		sc_conn_close(conn, 1013, SC_SPAN("slow"));
}

static inline void send_frames(struct sc_conn *conn, struct app_conn *a)
{
	static unsigned char run[131072];
	static size_t ends[131072 / 8];
	size_t len = 0, count = 0, taken;

	while (len + FRAME_TEXT_MAX + 2 < sizeof(run) && a->next + count < a->end) {
		size_t n = frame_text(a->next + count, (char *)run + len + 2);

		run[len] = 0x81;
		run[len + 1] = (unsigned char)n;
		len += n + 2;
		ends[count++] = len;
	}
	taken = sc_conn_write_frames(conn, run, len);
	for (size_t i = 0; i < count && ends[i] <= taken; i++)
		a->next++;
	if (a->next == a->end)
		sc_conn_close(conn, 1000, SC_SPAN("done"));
	else
		sc_conn_want_write(conn);
}

static inline void app_writable(void *arg, struct sc_conn *conn)
{
	struct app_conn *a = sc_conn_user(conn);
	struct sc_conn_stats st;
	char text[FRAME_TEXT_MAX];

	(void)arg;
	sc_conn_stats(conn, &st);
	if (st.waiting_bytes)
		app.order_faults++;
	if (a->kind == FRAMES) {
		send_frames(conn, a);
	} else if (a->kind == MESSAGES) {
		while (a->next < a->end && sc_conn_write_message(conn, SC_TEXT, sc_span(text, frame_text(a->next, text))))
			a->next++;
		if (a->next == a->end)
			sc_conn_close(conn, 1000, SC_SPAN("done"));
		else
			sc_conn_want_write(conn);
	} else if (a->kind == SSE) {
		size_t n;

		if (a->next == a->end) {
			sc_conn_end_stream(conn);
			return;
		}
		n = (size_t)sprintf(text, "data: %" PRIu64 "\n\n", a->next);
		if (sc_conn_write_stream(conn, text, n) == n)
			a->next++;
		sc_conn_want_write(conn);
	}
	sc_conn_stats(conn, &st);
	if (st.waiting_bytes > app.waiting_max)
		app.waiting_max = st.waiting_bytes;
}

static inline void app_closed(void *arg, struct sc_conn *conn, int code, struct sc_span reason, bool by_peer)
{
	struct app_conn *a = sc_conn_user(conn);

	(void)arg;
	app.last_code = code;
	app.last_by_peer = by_peer;
	snprintf(app.last_reason, sizeof(app.last_reason), "%.*s", (int)reason.len, reason.data);
	if (app.told == conn)
		app.told = NULL;
	sc_timer_free(a->timer);
	free(a);
	app.closed++;
}

static inline void app_http(void *arg, struct sc_conn *conn, const struct sc_request *r, struct sc_reply *reply)
{
	(void)arg;
	if (target_is(r, "/sse")) {
		app_new(conn, SSE, target_number(r));
		reply->stream = true;
		reply->type = "text/event-stream";
		sc_conn_want_write(conn);
		return;
	}
	reply->status = 200;
	reply->body = r->target; /* borrowed as long as the hook's request */
	if (target_is(r, "/long")) {
		static char text[1 << 20];

		reply->body = sc_span(text, target_number(r));
	}
}

static inline void app_stopped(void *arg)
{
	(void)arg;
	app.stopped = 1;
	sc_loop_stop(app.loop);
}

static inline void app_woken(void *arg)
{
	(void)arg;
	switch ((int)app.command) {
	case CMD_STOP:
		sc_server_shutdown(app.server, 1001, "server shutting down", app.grace_ms, app_stopped, NULL);
		break;
	case CMD_STATS:
		sc_server_stats(app.server, &app.stats);
		break;
	case CMD_RELOAD:
		if (sc_server_reload_tls(app.server, &app.err) < 0)
			app.order_faults++;
		break;
	}
	app.command_done = 1;
}

static inline void *app_thread(void *arg)
{
	(void)arg;
	(void)sc_loop_run(app.loop, NULL);
	return NULL;
}

static int peer_port;
static const char *peer_address = "127.0.0.1:0";

static inline void app_options(void)
{
	memset(&app, 0, sizeof(app));
	sc_server_options_init(&app.options);
	app.grace_ms = 5000;
	app.options.listen = &peer_address;
	app.options.listen_count = 1;
}

static inline void app_start(void)
{
	static const struct sc_server_hooks hooks = {
		app_authorise, app_upgrade, app_open, app_message, app_writable, app_closed, app_http,
	};

	CHECK_OK(sc_loop_new(&app.loop, &app.err), &app.err);
	CHECK_OK(sc_server_new(app.loop, &app.options, &hooks, NULL, &app.server, &app.err), &app.err);
	CHECK_OK(sc_wake_new(app.loop, app_woken, NULL, &app.wake, &app.err), &app.err);
	peer_port = sc_server_port(app.server);
	CHECK(pthread_create(&app.thread, NULL, app_thread, NULL) == 0);
}

static inline void app_command(int command)
{
	app.command = command;
	app.command_done = 0;
	sc_wake_up(app.wake);
	while (!app.command_done)
		usleep(200);
}

#define WAIT_FOR(COND) \
	do { \
		int64_t end_ = sc_mono_us() + 10000000; \
		while (!(COND)) { \
			if (sc_mono_us() > end_) \
				FAIL("never: %s", #COND); \
			usleep(1000); \
		} \
	} while (0)

static inline struct sc_server_stats app_stats(void)
{
	app_command(CMD_STATS);
	return app.stats;
}

static inline void app_end(void)
{
	app_command(CMD_STOP);
	CHECK(pthread_join(app.thread, NULL) == 0);
	CHECK_INT(app.stopped, 1);
	sc_server_free(app.server);
	sc_loop_free(app.loop);
	CHECK_INT(app.closed, app.closed);
	CHECK_INT(app.order_faults, 0);
}

/* The raw client. */

struct peer {
	int fd;
	ssize_t (*send)(struct peer *p, const void *data, size_t len);
	ssize_t (*recv)(struct peer *p, void *data, size_t len);
	void *ssl;
	unsigned char in[1 << 20];
	size_t in_len;
};

static inline ssize_t peer_send_fd(struct peer *p, const void *data, size_t len)
{
	return send(p->fd, data, len, MSG_NOSIGNAL);
}

static inline ssize_t peer_recv_fd(struct peer *p, void *data, size_t len)
{
	return recv(p->fd, data, len, 0);
}

static inline void peer_limits(int fd)
{
	struct timeval limit = { .tv_sec = 10 };
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static inline int peer_dial(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)peer_port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	peer_limits(fd);
	if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		FAIL("connect: %s", strerror(errno));
	return fd;
}

static inline void peer_init(struct peer *p, int fd)
{
	p->fd = fd;
	p->send = peer_send_fd;
	p->recv = peer_recv_fd;
	p->ssl = NULL;
	p->in_len = 0;
}

static inline void peer_put(struct peer *p, const void *data, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = p->send(p, (const char *)data + at, len - at);

		if (n <= 0)
			FAIL("send: %s", strerror(errno));
		at += (size_t)n;
	}
}

static inline void peer_puts(struct peer *p, const char *text)
{
	peer_put(p, text, strlen(text));
}

/* More bytes; 0 at the end. A reset counts as an end. */
static inline size_t peer_fill(struct peer *p)
{
	size_t room = sizeof(p->in) - p->in_len;
	ssize_t n = p->recv(p, p->in + p->in_len, room < 65536 ? room : 65536);

	if (n < 0 && (errno == ECONNRESET || errno == EPIPE))
		return 0;
	if (n < 0)
		FAIL("recv: %s", strerror(errno));
	p->in_len += (size_t)n;
	return (size_t)n;
}

static inline void peer_drop(struct peer *p, size_t n)
{
	p->in_len -= n;
	memmove(p->in, p->in + n, p->in_len);
}

/* All until the end, as text. */
static inline const char *peer_all(struct peer *p)
{
	while (peer_fill(p) > 0)
		CHECK(p->in_len < sizeof(p->in) - 1);
	p->in[p->in_len] = '\0';
	return (const char *)p->in;
}

static inline void peer_close(struct peer *p)
{
	close(p->fd);
	p->fd = -1;
}

/* Returns the answer's head, NUL-terminated; what follows stays in p->in. */
static inline const char *peer_head(struct peer *p)
{
	static char head[8192];
	char *end;

	while (!(end = memmem(p->in, p->in_len, "\r\n\r\n", 4)))
		if (peer_fill(p) == 0)
			FAIL("no answer head, only '%.*s'", (int)p->in_len, p->in);
	snprintf(head, sizeof(head), "%.*s", (int)(end - (char *)p->in), p->in);
	peer_drop(p, (size_t)(end + 4 - (char *)p->in));
	return head;
}

static inline const char *peer_upgrade(struct peer *p, const char *target, const char *fields)
{
	char text[2048];

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%s\r\n", target, fields);
	peer_puts(p, text);
	return peer_head(p);
}

static inline void peer_open(struct peer *p, const char *target)
{
	const char *head;

	peer_init(p, peer_dial());
	head = peer_upgrade(p, target, "");
	if (!strstr(head, "HTTP/1.1 101 ") || !strstr(head, "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
		FAIL("not upgraded: %s", head);
}

/* A client's frame; first: FIN, RSV and opcode. announce: the length to claim, or len. */
static inline size_t frame_make(unsigned char *out, unsigned first, const void *data, size_t len, uint64_t announce)
{
	static const unsigned char mask[4] = { 0x12, 0x34, 0x56, 0x78 };
	size_t n = 0;

	out[n++] = (unsigned char)first;
	if (announce < 126) {
		out[n++] = (unsigned char)(0x80 | announce);
	} else if (announce < 65536) {
		out[n++] = 0x80 | 126;
		out[n++] = (unsigned char)(announce >> 8);
		out[n++] = (unsigned char)announce;
	} else {
		out[n++] = 0x80 | 127;
		for (int i = 56; i >= 0; i -= 8)
			out[n++] = (unsigned char)(announce >> i);
	}
	memcpy(out + n, mask, 4);
	n += 4;
	for (size_t i = 0; i < len; i++)
		out[n++] = ((const unsigned char *)data)[i] ^ mask[i & 3];
	return n;
}

static inline void peer_frame(struct peer *p, unsigned first, const void *data, size_t len)
{
	unsigned char *out = malloc(len + 14);

	peer_put(p, out, frame_make(out, first, data, len, len));
	free(out);
}

/* The next frame whole at the front of p->in: its payload; *ret_first its first byte. Drop with
 * peer_drop. */
static inline bool peer_look(struct peer *p, unsigned *ret_first, struct sc_span *ret_payload, size_t *ret_whole)
{
	for (;;) {
		size_t head = 2;
		uint64_t n;

		if (p->in_len >= 2) {
			n = p->in[1];
			CHECK(n < 128); /* a server does not mask */
			head = n == 126 ? 4 : n == 127 ? 10 : 2;
			if (p->in_len >= head) {
				if (n >= 126) {
					n = 0;
					for (size_t i = 2; i < head; i++)
						n = n << 8 | p->in[i];
				}
				if (p->in_len >= head + n) {
					*ret_first = p->in[0];
					*ret_payload = sc_span((char *)p->in + head, n);
					*ret_whole = head + n;
					return true;
				}
				CHECK(head + n <= sizeof(p->in));
			}
		}
		if (peer_fill(p) == 0)
			return false;
	}
}

static inline void peer_expect(struct peer *p, unsigned first, const void *data, size_t len)
{
	unsigned got;
	struct sc_span payload;
	size_t whole;

	if (!peer_look(p, &got, &payload, &whole))
		FAIL("the connection ended");
	CHECK_INT(got, first);
	CHECK_INT(payload.len, len);
	CHECK(len == 0 || memcmp(payload.data, data, len) == 0);
	peer_drop(p, whole);
}

/* A Close frame with that code comes (after anything else), and then the end. */
static inline void peer_expect_close(struct peer *p, int code)
{
	unsigned got;
	struct sc_span payload;
	size_t whole;

	for (;;) {
		if (!peer_look(p, &got, &payload, &whole))
			FAIL("ended without Close %d", code);
		if (got == 0x88)
			break;
		peer_drop(p, whole);
	}
	CHECK(payload.len >= 2);
	CHECK_INT((unsigned char)payload.data[0] << 8 | (unsigned char)payload.data[1], code);
	peer_drop(p, whole);
	(void)p->send(p, "\x88\x80\1\2\3\4", 6);
	while (peer_fill(p) > 0)
		p->in_len = 0;
}

#endif
