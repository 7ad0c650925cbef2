/*
 * tests/bench/fanbench.c: N subscribers on loopback, counted and timed.
 *
 * One program for every server that is compared, so that the client's cost is the same in each row
 * of a table: WebSocket (sc-serve, limit, others), NATS (TCP and inside WebSocket), Redis pub/sub
 * and stream reads, MQTT 3.1.1.
 */
#include "bench.h"
#include <pthread.h>
#include <sys/epoll.h>

enum proto { P_WS, P_NATS, P_NATSWS, P_REDIS, P_REDISX, P_MQTT };
static const char *const proto_names[] = { "ws",           "nats", "nats-ws", "redis",
					   "redis-stream", "mqtt", NULL };

enum { CL_EOF, CL_RESET, CL_NOCODE, CL_REFUSED, CL_PROTOCOL, CL_NKIND };
static const char *const cl_names[] = { "eof", "reset", "nocode", "refused", "protocol" };

struct conn {
	int fd;
	int ix;
	bool up, closed, stall, counted_done;
	int close_code; /* 0: none seen */
	uint64_t frames, bytes, frames0, bytes0;
	uint64_t next; /* expected offset, when checking */
	bool have_next;
	struct buf in; /* bytes of an unfinished frame */
	struct buf l2; /* nats-ws: unfinished NATS text; ws: fragments */
	/* redis-stream reply state */
	int xpos;
	uint64_t xleft;
	char xid[64];
	bool xdone;
};

struct worker {
	pthread_t th;
	int ep, n0, n1;
	unsigned char *rb;
	size_t rcap;
	struct hist lat;
	uint64_t gaps, back, bad, first, last_off;
	bool have_first;
	_Atomic uint64_t min_recv;
	uint64_t t_first, t_last;
	double cpu0, cpu1;
	int ndone;
	uint64_t reads;
};

static enum proto proto = P_WS;
static const char *host = "127.0.0.1", *path = "/", *subject = "bench", *ready_file, *pub_cmd;
static const char *credit_file, *js_stream, *xcmd = "xread", *check_key, *label, *subproto;
static int port = 9001, nconns = 1, nthreads = 1, nstall = 0, js_fc = 1;
static double secs = 0, max_secs = 60, idle_s = 3, warmup = 0;
static uint64_t want_msgs = 0, xcount = 10000;
static bool check, greeting, latency, discard, parse_payload, quiet;
static size_t rbsize = 64 * 1024, frame_bytes = 0;
static int rcvbuf = 0;
static struct conn *conns;
static struct worker *workers;
static struct credit *credit;
static _Atomic int go_measure, stop_all, n_up, n_closed, n_done;
static _Atomic uint64_t g_first, g_warm_done;
static _Atomic uint64_t errors_close[CL_NKIND];
static _Atomic uint64_t close_codes[5000];
static char first_err[256];
static pthread_mutex_t err_mx = PTHREAD_MUTEX_INITIALIZER;

static void note_err(const char *s, size_t n)
{
	pthread_mutex_lock(&err_mx);
	if (!first_err[0]) {
		size_t k = 0;
		for (size_t i = 0; i < n && k < sizeof first_err - 1; i++)
			if (s[i] >= ' ' && s[i] < 127 && s[i] != '"' && s[i] != '\\')
				first_err[k++] = s[i];
	}
	pthread_mutex_unlock(&err_mx);
}

static void help(void)
{
	puts("usage: fanbench [options]\n"
	     "N subscribers on loopback; prints one JSON line.\n"
	     "\n"
	     "what to connect to\n"
	     "  --proto P       ws | nats | nats-ws | redis | redis-stream | mqtt (ws)\n"
	     "  --host A        loopback IPv4 address (127.0.0.1)   --port N (9001)\n"
	     "  --path /x       WebSocket URL path (/); %d in it becomes the connection's number\n"
	     "  --subproto S    Sec-WebSocket-Protocol to ask for (none)\n"
	     "  --greeting      ws: a subscriber is ready when its greeting (sc-serve) came; it "
	     "counts as no message\n"
	     "  --subject S     NATS subject, Redis channel or stream key, MQTT topic (bench)\n"
	     "  --conns N       subscribers (1)   --threads N  client threads (1)\n"
	     "  --js-replay S   nats: replay JetStream stream S from its start (push, no acks)\n"
	     "  --js-fc 0|1     ... with flow control (1)\n"
	     "  --xcmd C        redis-stream: xread | xrange | xrange-all (xread)   --count N "
	     "(10000)\n"
	     "when to stop (whichever is first)\n"
	     "  --secs S        S seconds after the first message\n"
	     "  --msgs K        each connection has K messages\n"
	     "  --pub CMD       run CMD (sh -c) when all have subscribed; stop when it has ended "
	     "and\n"
	     "                  each connection has as many messages as its JSON's \"published\"\n"
	     "  --idle S        nothing came for S seconds after the first message (3)\n"
	     "  --max-secs S    in any case (60)\n"
	     "what to measure\n"
	     "  --warmup S      leave out the first S seconds after the first message (0)\n"
	     "  --check         the JSON pair's first number ([N,...) grows by one on each "
	     "connection\n"
	     "  --check-key K   the same for the member \"K\":N anywhere in the message\n"
	     "  --latency       now - \"t_ns\" of each message: CLOCK_MONOTONIC nanoseconds, an "
	     "integer\n"
	     "  --pid NAME=PID  CPU seconds of that process in the measured interval (repeatable)\n"
	     "  --discard       count bytes only and let the kernel drop them (no copy to user "
	     "space);\n"
	     "                  frames = bytes / --frame-bytes N\n"
	     "how\n"
	     "  --credit FILE   share what the slowest subscriber has received (pubbench "
	     "--credit)\n"
	     "  --stall K       the first K subscribers never read once they have subscribed\n"
	     "  --ready-file F  create F when all have subscribed\n"
	     "  --rbuf N        bytes per read (64k)   --rcvbuf N  SO_RCVBUF (kernel's own)\n"
	     "  --label S       copied into the result   --quiet  no progress on stderr");
	exit(0);
}

/* ---- one message ----------------------------------------------------------- */

static inline bool get_u64(const unsigned char *p, const unsigned char *e, uint64_t *v)
{
	while (p < e && (*p == ' ' || *p == '\t' || *p == '\n'))
		p++;
	if (p == e || *p < '0' || *p > '9')
		return false;
	uint64_t x = 0;
	for (; p < e && *p >= '0' && *p <= '9'; p++)
		x = x * 10 + (uint64_t)(*p - '0');
	*v = x;
	return true;
}

static void look(struct worker *w, struct conn *c, const unsigned char *p, size_t n, uint64_t t)
{
	const unsigned char *e = p + n;
	if (check) {
		uint64_t v = 0;
		bool ok = false;
		if (check_key) {
			size_t kl = strlen(check_key);
			const unsigned char *q = memmem(p, n, check_key, kl);
			ok = q && get_u64(q + kl, e, &v);
		} else {
			const unsigned char *q = p;
			while (q < e && (*q == ' ' || *q == '\n'))
				q++;
			ok = q < e && *q == '[' && get_u64(q + 1, e, &v);
		}
		if (!ok)
			w->bad++;
		else {
			if (c->have_next && v != c->next) {
				if (v < c->next)
					w->back++;
				else
					w->gaps++;
			}
			c->have_next = true;
			c->next = v + 1;
			if (!w->have_first || v < w->first)
				w->first = v;
			w->have_first = true;
			if (v > w->last_off)
				w->last_off = v;
		}
	}
	if (latency) {
		uint64_t v;
		const unsigned char *q = memmem(p, n, "\"t_ns\":", 7);
		if (q && get_u64(q + 7, e, &v) && v <= t)
			hist_add(&w->lat, t - v);
		else
			w->bad++;
	}
}

static void conn_up(struct conn *c);

static inline void message(struct worker *w, struct conn *c, const unsigned char *p, size_t n,
			   uint64_t t)
{
	if (greeting && !c->up) {
		conn_up(c);
		return;
	}
	c->frames++;
	if (parse_payload)
		look(w, c, p, n, t);
}

/* ---- protocols: each eats what is complete and returns where it stopped ------ */

static void send_small(struct conn *c, const void *p, size_t n)
{
	if (write_all(c->fd, p, n))
		note_err("write", 5);
}

static void send_text(struct conn *c, const char *s, size_t n)
{
	if (proto == P_NATSWS) {
		unsigned char h[16];
		struct buf b = { 0 };
		size_t l = ws_header(h, 2, n, true);
		buf_put(&b, h, l);
		buf_put(&b, s, n);
		send_small(c, b.p, b.n);
		free(b.p);
	} else
		send_small(c, s, n);
}

static void conn_up(struct conn *c)
{
	if (!c->up) {
		c->up = true;
		atomic_fetch_add(&n_up, 1);
	}
}

static unsigned char *feed_nats(struct worker *w, struct conn *c, unsigned char *p,
				unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *nl = memchr(p, '\n', (size_t)(e - p));
		if (!nl)
			break;
		if (e - p > 4 && (!memcmp(p, "MSG ", 4) || !memcmp(p, "HMSG", 4))) {
			bool h = *p == 'H';
			unsigned char *q = nl;
			while (q > p && (q[-1] == '\r' || q[-1] == '\n'))
				q--;
			unsigned char *le = q;
			while (q > p && q[-1] != ' ')
				q--;
			uint64_t len = 0;
			if (!get_u64(q, le, &len))
				len = 0;
			if ((uint64_t)(e - (nl + 1)) < len + 2)
				break;
			unsigned char *body = nl + 1;
			if (js_stream && !h && nl - p > 11 && !memcmp(p + 4, "fb.api ", 7)) {
				if (memmem(body, len, "\"error\"",
					   7)) /* the answer to our request */
					note_err((char *)body, len);
			} else if (!h)
				message(w, c, body, (size_t)len, t);
			else {
				/* HMSG subj sid [reply] hlen total; a status line (flow control)
				 * has no body */
				uint64_t hlen = 0;
				unsigned char *z = q - 1;
				while (z > p && z[-1] != ' ')
					z--;
				get_u64(z, q, &hlen);
				if (hlen < len || !(len > 11 && !memcmp(body, "NATS/1.0 1", 10)))
					message(w, c, body + hlen, (size_t)(len - hlen), t);
				else {
					/* fields between HMSG and hlen: subject sid [reply] */
					char line[512], *f[6], *sv = NULL;
					int k = 0;
					size_t ll = (size_t)(le - p);
					if (ll < sizeof line) {
						memcpy(line, p, ll);
						line[ll] = 0;
						for (char *s = strtok_r(line, " ", &sv); s && k < 6;
						     s = strtok_r(NULL, " ", &sv))
							f[k++] = s;
						if (k == 6) {
							char o[600];
							int ol = snprintf(o, sizeof o,
									  "PUB %s 0\r\n\r\n", f[3]);
							send_text(c, o, (size_t)ol);
						}
					}
				}
			}
			p = body + len + 2;
			continue;
		}
		if (e - p >= 4 && !memcmp(p, "PING", 4))
			send_text(c, "PONG\r\n", 6);
		else if (e - p >= 4 && !memcmp(p, "PONG", 4))
			conn_up(c);
		else if (*p == '-')
			note_err((char *)p, (size_t)(nl - p));
		p = nl + 1;
	}
	return p;
}

static unsigned char *feed_ws(struct worker *w, struct conn *c, unsigned char *p, unsigned char *e,
			      uint64_t t)
{
	while (e - p >= 2) {
		uint64_t len = p[1] & 127;
		size_t hl = 2;
		if (len == 126) {
			if (e - p < 4)
				break;
			len = (uint64_t)p[2] << 8 | p[3];
			hl = 4;
		} else if (len == 127) {
			if (e - p < 10)
				break;
			len = 0;
			for (int i = 2; i < 10; i++)
				len = len << 8 | p[i];
			hl = 10;
		}
		if (p[1] & 0x80 || p[0] & 0x70 || len > 1u << 30) {
			atomic_fetch_add(&errors_close[CL_PROTOCOL], 1);
			note_err("bad ws frame", 12);
			c->close_code = -1;
			return e;
		}
		if ((uint64_t)(e - p) < hl + len)
			break;
		unsigned char *b = p + hl;
		switch (p[0]) {
		case 0x81:
		case 0x82:
			if (proto == P_NATSWS) {
				if (c->l2.n) {
					buf_put(&c->l2, b, len);
					unsigned char *q = feed_nats(w, c, c->l2.p,
								     c->l2.p + c->l2.n, t);
					size_t left = (size_t)(c->l2.p + c->l2.n - q);
					memmove(c->l2.p, q, left);
					c->l2.n = left;
				} else {
					unsigned char *q = feed_nats(w, c, b, b + len, t);
					if (q < b + len)
						buf_put(&c->l2, q, (size_t)(b + len - q));
				}
			} else
				message(w, c, b, len, t);
			break;
		case 0x01:
		case 0x02:
		case 0x00:
			buf_put(&c->l2, b, len);
			break;
		case 0x80:
			buf_put(&c->l2, b, len);
			message(w, c, c->l2.p, c->l2.n, t);
			c->l2.n = 0;
			break;
		case 0x88:
			c->close_code = len >= 2 ? b[0] << 8 | b[1] : 1005;
			break;
		case 0x89: {
			unsigned char o[140];
			if (len <= 125) {
				size_t l = ws_header(o, 10, len, true);
				memcpy(o + l, b, len);
				send_small(c, o, l + len);
			}
			break;
		}
		default:
			break;
		}
		p = b + len;
	}
	return p;
}

static unsigned char *crlf(unsigned char *p, unsigned char *e)
{
	unsigned char *n = memchr(p, '\n', (size_t)(e - p));
	return n ? n + 1 : NULL;
}

static unsigned char *feed_redis(struct worker *w, struct conn *c, unsigned char *p,
				 unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *s = p;
		if (*p == '-') {
			unsigned char *n = crlf(p, e);
			if (!n)
				break;
			note_err((char *)p, (size_t)(n - p));
			p = n;
			continue;
		}
		if (*p != '*') { /* simple replies */
			unsigned char *n = crlf(p, e);
			if (!n)
				break;
			p = n;
			continue;
		}
		uint64_t k = 0, len = 0;
		if (!(p = crlf(p, e)) || !get_u64(s + 1, p, &k))
			return s;
		unsigned char *kind = NULL, *last = NULL;
		size_t kl = 0, ll = 0;
		for (uint64_t i = 0; i < k; i++) {
			if (p >= e)
				return s;
			if (*p == '$') {
				unsigned char *n = crlf(p, e);
				if (!n)
					return s;
				if (p[1] == '-') {
					p = n;
					continue;
				}
				get_u64(p + 1, n, &len);
				if ((uint64_t)(e - n) < len + 2)
					return s;
				if (!i)
					kind = n, kl = len;
				last = n;
				ll = len;
				p = n + len + 2;
			} else {
				unsigned char *n = crlf(p, e);
				if (!n)
					return s;
				p = n;
			}
		}
		if (kl == 7 && !memcmp(kind, "message", 7))
			message(w, c, last, ll, t);
		else if (kl == 9 && !memcmp(kind, "subscribe", 9))
			conn_up(c);
	}
	return p;
}

static void x_request(struct conn *c)
{
	char b[512], id[80];
	int n;
	if (!strcmp(xcmd, "xread"))
		n = snprintf(b, sizeof b, "XREAD COUNT %" PRIu64 " STREAMS %s %s\r\n", xcount,
			     subject, c->xid[0] ? c->xid : "0");
	else if (!strcmp(xcmd, "xrange")) {
		snprintf(id, sizeof id, c->xid[0] ? "(%s" : "-", c->xid);
		n = snprintf(b, sizeof b, "XRANGE %s %s + COUNT %" PRIu64 "\r\n", subject, id,
			     xcount);
	} else if (!c->xid[0])
		n = snprintf(b, sizeof b, "XRANGE %s - +\r\n", subject);
	else {
		c->xdone = true;
		return;
	}
	c->xpos = 0;
	send_small(c, b, (size_t)n);
}

/* 0 top, 1 "*2", 2 key, 3 "*N", 4 "*2" of an entry, 5 id, 6 "*2", 7 field, 8 value */
static unsigned char *feed_redisx(struct worker *w, struct conn *c, unsigned char *p,
				  unsigned char *e, uint64_t t)
{
	while (p < e) {
		unsigned char *n = crlf(p, e);
		if (!n)
			break;
		if (*p == '-') {
			note_err((char *)p, (size_t)(n - p));
			c->xdone = true;
			return n;
		}
		if ((*p == '*' || *p == '$') && p[1] == '-') {
			c->xdone = true;
			return n;
		}
		uint64_t v = 0;
		get_u64(p + 1, n, &v);
		if (*p == '*') {
			if (c->xpos == 0 && !strcmp(xcmd, "xread"))
				c->xpos = 1;
			else if (c->xpos == 1)
				c->xpos = 2;
			else if (c->xpos == 0 || c->xpos == 3) {
				c->xleft = v;
				if (!v) {
					c->xdone = true;
					return n;
				}
				c->xpos = 4;
			} else if (c->xpos == 4)
				c->xpos = 5;
			else if (c->xpos == 6)
				c->xpos = 7;
			p = n;
			continue;
		}
		if (*p != '$')
			die("redis: unexpected reply");
		if ((uint64_t)(e - n) < v + 2)
			break;
		if (c->xpos == 2)
			c->xpos = 3;
		else if (c->xpos == 5) {
			if (c->xleft == 1 && v < sizeof c->xid) {
				memcpy(c->xid, n, v);
				c->xid[v] = 0;
			}
			c->xpos = 6;
		} else if (c->xpos == 7)
			c->xpos = 8;
		else if (c->xpos == 8) {
			message(w, c, n, (size_t)v, t);
			c->xpos = 4;
			if (!--c->xleft)
				x_request(c);
		}
		p = n + v + 2;
	}
	return p;
}

static unsigned char *feed_mqtt(struct worker *w, struct conn *c, unsigned char *p,
				unsigned char *e, uint64_t t)
{
	while (e - p >= 2) {
		uint64_t len = 0;
		unsigned sh = 0;
		unsigned char *q = p + 1;
		bool done = false;
		while (q < e && sh <= 21) {
			len |= (uint64_t)(*q & 127) << sh;
			sh += 7;
			if (!(*q++ & 128)) {
				done = true;
				break;
			}
		}
		if (!done || (uint64_t)(e - q) < len)
			break;
		switch (*p >> 4) {
		case 3: {
			size_t tl = (size_t)q[0] << 8 | q[1];
			size_t o = 2 + tl + (*p & 6 ? 2 : 0);
			if (o <= len)
				message(w, c, q + o, len - o, t);
			break;
		}
		case 9:
			conn_up(c);
			break;
		case 2:
			if (q[1])
				note_err("mqtt connack refused", 20);
			break;
		default:
			break;
		}
		p = q + len;
	}
	return p;
}

static unsigned char *feed(struct worker *w, struct conn *c, unsigned char *p, unsigned char *e,
			   uint64_t t)
{
	switch (proto) {
	case P_WS:
	case P_NATSWS:
		return feed_ws(w, c, p, e, t);
	case P_NATS:
		return feed_nats(w, c, p, e, t);
	case P_REDIS:
		return feed_redis(w, c, p, e, t);
	case P_REDISX:
		return feed_redisx(w, c, p, e, t);
	default:
		return feed_mqtt(w, c, p, e, t);
	}
}

/* ---- connecting --------------------------------------------------------------- */

static void conn_close(struct worker *w, struct conn *c, int kind)
{
	if (c->closed)
		return;
	c->closed = true;
	if (c->close_code > 0 && c->close_code < 5000)
		atomic_fetch_add(&close_codes[c->close_code], 1);
	else if (c->close_code == 0)
		atomic_fetch_add(&errors_close[kind], 1);
	epoll_ctl(w->ep, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	atomic_fetch_add(&n_closed, 1);
}

static void nats_hello(struct conn *c)
{
	char b[1024];
	int n = snprintf(
		b, sizeof b,
		"CONNECT "
		"{\"verbose\":false,\"pedantic\":false,\"headers\":true,\"no_responders\":false,"
		"\"name\":\"fanbench\",\"lang\":\"c\",\"version\":\"1\",\"protocol\":1}\r\n"
		"SUB %s 1\r\nPING\r\n",
		js_stream ? "fb.deliver" : subject);
	send_text(c, b, (size_t)n);
}

static bool read_until(int fd, struct buf *b, const char *mark, double timeout)
{
	uint64_t end = now_ns() + (uint64_t)(timeout * 1e9);
	for (;;) {
		if (b->n && memmem(b->p, b->n, mark, strlen(mark)))
			return true;
		struct pollfd f = { .fd = fd, .events = POLLIN };
		uint64_t t = now_ns();
		if (t >= end || poll(&f, 1, (int)((end - t) / 1000000) + 1) < 0)
			return false;
		if (!f.revents)
			continue;
		ssize_t r = read(fd, buf_room(b, 4096), 4096);
		if (r <= 0)
			return false;
		b->n += (size_t)r;
	}
}

/* Connects, and finishes the part of the greeting that needs an answer first. */
static void conn_open(struct worker *w, struct conn *c)
{
	c->fd = -1;
	for (int i = 0; i < 200 && c->fd < 0; i++) {
		c->fd = tcp_connect(host, port);
		if (c->fd < 0)
			usleep(20000);
	}
	if (c->fd < 0)
		die("cannot connect to %s:%d: %s", host, port, strerror(errno));
	if (rcvbuf)
		setsockopt(c->fd, SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
	struct buf b = { 0 };
	if (proto == P_WS || proto == P_NATSWS) {
		char rq[2048], pa[1024];
		const char *d = strstr(path, "%d");
		if (d)
			snprintf(pa, sizeof pa, "%.*s%d%s", (int)(d - path), path, c->ix, d + 2);
		else
			snprintf(pa, sizeof pa, "%s", path);
		size_t n = ws_request(rq, sizeof rq, pa, port);
		if (subproto)
			n = n - 2 +
			    (size_t)snprintf(rq + n - 2, sizeof rq - n + 2,
					     "Sec-WebSocket-Protocol: %s\r\n\r\n", subproto);
		if (write_all(c->fd, rq, n) || !read_until(c->fd, &b, "\r\n\r\n", 10) || b.n < 12 ||
		    memcmp(b.p + 8, " 101", 4)) {
			note_err(b.n ? (char *)b.p : "no answer",
				 b.n ? strcspn((char *)b.p, "\r") : 9);
			atomic_fetch_add(&errors_close[CL_REFUSED], 1);
			c->closed = true;
			atomic_fetch_add(&n_closed, 1);
			close(c->fd);
			free(b.p);
			return;
		}
		unsigned char *q = memmem(b.p, b.n, "\r\n\r\n", 4);
		size_t used = (size_t)(q + 4 - b.p);
		if (b.n > used) {
			buf_put(&c->in, b.p + used, b.n - used);
			c->bytes += b.n - used;
		}
		if (proto == P_NATSWS)
			nats_hello(c);
		else if (!greeting)
			conn_up(c);
		else if (c->in.n) {
			unsigned char *r = feed(w, c, c->in.p, c->in.p + c->in.n, now_ns());

			c->in.n = (size_t)(c->in.p + c->in.n - r);
			memmove(c->in.p, r, c->in.n);
		}
	} else if (proto == P_NATS) {
		if (!read_until(c->fd, &b, "\r\n", 10))
			die("nats: no INFO");
		nats_hello(c);
	} else if (proto == P_REDIS) {
		buf_printf(&b, "*2\r\n$9\r\nSUBSCRIBE\r\n$%zu\r\n%s\r\n", strlen(subject), subject);
		send_small(c, b.p, b.n);
	} else if (proto == P_REDISX) {
		conn_up(c);
	} else {
		unsigned char m[512];
		size_t n = 0, sl = strlen(subject);
		char id[32];
		int il = snprintf(id, sizeof id, "fb%d-%d", (int)getpid(), c->ix);
		m[n++] = 0x10;
		m[n++] = (unsigned char)(12 + il);
		memcpy(m + n, "\0\4MQTT\4\2\0\0", 10);
		n += 10;
		m[n++] = 0;
		m[n++] = (unsigned char)il;
		memcpy(m + n, id, (size_t)il);
		n += (size_t)il;
		if (sl > 100)
			die("subject too long");
		m[n++] = 0x82;
		m[n++] = (unsigned char)(5 + sl);
		m[n++] = 0;
		m[n++] = 1;
		m[n++] = 0;
		m[n++] = (unsigned char)sl;
		memcpy(m + n, subject, sl);
		n += sl;
		m[n++] = 0;
		send_small(c, m, n);
	}
	free(b.p);
	set_nonblock(c->fd);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = c };
	if (epoll_ctl(w->ep, EPOLL_CTL_ADD, c->fd, &ev))
		die("epoll_ctl: %s", strerror(errno));
}

/* One read of one connection. Returns bytes got. */
static ssize_t pump(struct worker *w, struct conn *c)
{
	if (discard && c->up) {
		ssize_t r = recv(c->fd, NULL, 1u << 20, MSG_TRUNC | MSG_DONTWAIT);
		if (r > 0) {
			c->bytes += (uint64_t)r;
			if (frame_bytes)
				c->frames = c->bytes / frame_bytes;
		} else if (r == 0 || errno != EAGAIN)
			conn_close(w, c, r ? CL_RESET : CL_EOF);
		return r;
	}
	size_t left = c->in.n;
	if (w->rcap < left + rbsize) {
		w->rcap = (left + rbsize) * 2;
		w->rb = xrealloc(w->rb, w->rcap);
	}
	ssize_t r = read(c->fd, w->rb + left, rbsize);
	if (r <= 0) {
		if (r < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		conn_close(w, c, r ? CL_RESET : CL_EOF);
		return -1;
	}
	w->reads++;
	if (left)
		memcpy(w->rb, c->in.p, left);
	c->bytes += (uint64_t)r;
	unsigned char *e = w->rb + left + r;
	uint64_t t = latency ? now_ns() : 0;
	unsigned char *q = feed(w, c, w->rb, e, t);
	c->in.n = 0;
	if (q < e)
		buf_put(&c->in, q, (size_t)(e - q));
	if (c->close_code) {
		if (c->close_code > 0) { /* answer the close, then leave */
			unsigned char o[8] = { 0x88,
					       0x82,
					       0,
					       0,
					       0,
					       0,
					       (unsigned char)(c->close_code >> 8),
					       (unsigned char)c->close_code };
			if (send(c->fd, o, 8, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
				note_err("close answer", 12);
		}
		conn_close(w, c, CL_PROTOCOL);
	}
	return r;
}

static void js_start(struct conn *c)
{
	char j[512], b[1024];
	int jl = snprintf(
		j, sizeof j,
		"{\"stream_name\":\"%s\",\"config\":{\"deliver_subject\":\"fb.deliver\",\"deliver_"
		"policy\":\"all\","
		"\"ack_policy\":\"none\",\"replay_policy\":\"instant\",\"mem_storage\":true%s}}",
		js_stream, js_fc ? ",\"flow_control\":true,\"idle_heartbeat\":5000000000" : "");
	int n = snprintf(
		b, sizeof b,
		"SUB fb.api 2\r\nUNSUB 2 1\r\nPUB $JS.API.CONSUMER.CREATE.%s fb.api %d\r\n%s\r\n",
		js_stream, jl, j);
	send_text(c, b, (size_t)n);
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	w->rcap = rbsize * 2;
	w->rb = xrealloc(NULL, w->rcap);
	w->ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev[256];
	/* connect in waves, so that a server's listen backlog of 100 is never full */
	for (int i = w->n0; i < w->n1; i++) {
		conn_open(w, &conns[i]);
		int k;
		while ((k = epoll_wait(w->ep, ev, 256, (i - w->n0) % 32 == 31 ? 1 : 0)) > 0) {
			for (int j = 0; j < k; j++)
				pump(w, ev[j].data.ptr);
			if (k < 256)
				break;
		}
	}
	for (;;) { /* wait for the rest of the subscriptions */
		int up = 0;
		for (int i = w->n0; i < w->n1; i++)
			up += conns[i].up || conns[i].closed;
		if (up == w->n1 - w->n0)
			break;
		int k = epoll_wait(w->ep, ev, 256, 50);
		for (int j = 0; j < k; j++)
			pump(w, ev[j].data.ptr);
		if (atomic_load(&stop_all))
			return NULL;
	}
	for (int i = w->n0; i < w->n1; i++)
		if (conns[i].stall && !conns[i].closed)
			epoll_ctl(w->ep, EPOLL_CTL_DEL, conns[i].fd, NULL);
	while (!atomic_load(&go_measure) && !atomic_load(&stop_all))
		usleep(200);
	w->cpu0 = clock_s(CLOCK_THREAD_CPUTIME_ID);
	for (int i = w->n0; i < w->n1; i++) {
		struct conn *c = &conns[i];
		if (c->closed)
			continue;
		if (proto == P_REDISX)
			x_request(c);
		if (js_stream)
			js_start(c);
		if (c->in.n) { /* frames that came with the handshake's answer */
			struct buf b = c->in;
			c->in = (struct buf){ 0 };
			unsigned char *q = feed(w, c, b.p, b.p + b.n, now_ns());
			buf_put(&c->in, q, (size_t)(b.p + b.n - q));
			free(b.p);
		}
	}
	bool warm = warmup <= 0;
	uint64_t last_min = 0;
	while (!atomic_load(&stop_all)) {
		int k = epoll_wait(w->ep, ev, 256, 20);
		if (k <= 0) {
			if (k < 0 && errno != EINTR)
				die("epoll_wait: %s", strerror(errno));
			continue;
		}
		bool got = false;
		for (int j = 0; j < k; j++) {
			struct conn *c = ev[j].data.ptr;
			uint64_t f0 = c->frames;
			pump(w, c);
			if (c->frames != f0)
				got = true;
			if (!c->counted_done &&
			    ((want_msgs && c->frames >= want_msgs) || c->xdone)) {
				c->counted_done = true;
				atomic_fetch_add(&n_done, 1);
			}
		}
		if (got) {
			w->t_last = now_ns();
			if (!w->t_first) {
				w->t_first = w->t_last;
				uint64_t z = 0;
				atomic_compare_exchange_strong(&g_first, &z, w->t_first);
			}
			if (!warm && atomic_load(&g_warm_done)) {
				warm = true;
				w->t_first = w->t_last;
				w->cpu0 = clock_s(CLOCK_THREAD_CPUTIME_ID);
				memset(&w->lat, 0, sizeof w->lat);
				for (int i = w->n0; i < w->n1; i++) {
					conns[i].frames0 = conns[i].frames;
					conns[i].bytes0 = conns[i].bytes;
				}
			}
		}
		if (credit) {
			uint64_t m = UINT64_MAX;
			for (int i = w->n0; i < w->n1; i++)
				if (!conns[i].closed && !conns[i].stall && conns[i].frames < m)
					m = conns[i].frames;
			atomic_store_explicit(&w->min_recv, m, memory_order_release);
			if (nthreads > 1)
				for (int i = 0; i < nthreads; i++) {
					uint64_t x = atomic_load_explicit(&workers[i].min_recv,
									  memory_order_acquire);
					if (x < m)
						m = x;
				}
			if (m != UINT64_MAX && m != last_min) {
				last_min = m;
				atomic_store_explicit(&credit->recv, m, memory_order_release);
			}
		}
	}
	w->cpu1 = clock_s(CLOCK_THREAD_CPUTIME_ID);
	return NULL;
}

/* ---- main --------------------------------------------------------------------- */

static pid_t start_pub(int *out)
{
	int pp[2];
	if (pipe2(pp, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	pid_t p = fork();
	if (p < 0)
		die("fork: %s", strerror(errno));
	if (!p) {
		dup2(pp[1], 1);
		execl("/bin/sh", "sh", "-c", pub_cmd, (char *)NULL);
		_exit(127);
	}
	close(pp[1]);
	set_nonblock(pp[0]);
	*out = pp[0];
	return p;
}

static bool get_published(struct buf *b, uint64_t *v)
{
	*buf_room(b, 1) = 0;
	char *k = b->n ? strstr((char *)b->p, "\"published\":") : NULL;
	if (k)
		*v = strtoull(k + 12, NULL, 10);
	return k != NULL;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
#define OPT(s) if (!strcmp(a, s))
#define VAL (i++, v ? v : (die("%s needs a value", a), ""))
		OPT("--help") help();
		else OPT("--proto")
		{
			const char *x = VAL;
			int k = 0;
			while (proto_names[k] && strcmp(proto_names[k], x))
				k++;
			if (!proto_names[k])
				die("--proto: %s is not known", x);
			proto = (enum proto)k;
		}
		else OPT("--host") host = VAL;
		else OPT("--port") port = (int)num_arg(a, VAL);
		else OPT("--path") path = VAL;
		else OPT("--subproto") subproto = VAL;
		else OPT("--subject") subject = VAL;
		else OPT("--conns") nconns = (int)num_arg(a, VAL);
		else OPT("--threads") nthreads = (int)num_arg(a, VAL);
		else OPT("--js-replay") js_stream = VAL;
		else OPT("--js-fc") js_fc = (int)num_arg(a, VAL);
		else OPT("--xcmd") xcmd = VAL;
		else OPT("--count") xcount = (uint64_t)num_arg(a, VAL);
		else OPT("--secs") secs = num_arg(a, VAL);
		else OPT("--msgs") want_msgs = (uint64_t)num_arg(a, VAL);
		else OPT("--pub") pub_cmd = VAL;
		else OPT("--idle") idle_s = num_arg(a, VAL);
		else OPT("--max-secs") max_secs = num_arg(a, VAL);
		else OPT("--warmup") warmup = num_arg(a, VAL);
		else OPT("--check") check = true;
		else OPT("--greeting") greeting = true;
		else OPT("--check-key")
		{
			char *k = NULL;
			check = true;
			if (asprintf(&k, "\"%s\":", VAL) < 0)
				die("out of memory");
			check_key = k;
		}
		else OPT("--latency") latency = true;
		else OPT("--pid") watch_arg(VAL);
		else OPT("--discard") discard = true;
		else OPT("--frame-bytes") frame_bytes = (size_t)num_arg(a, VAL);
		else OPT("--credit") credit_file = VAL;
		else OPT("--stall") nstall = (int)num_arg(a, VAL);
		else OPT("--ready-file") ready_file = VAL;
		else OPT("--rbuf") rbsize = (size_t)num_arg(a, VAL);
		else OPT("--rcvbuf") rcvbuf = (int)num_arg(a, VAL);
		else OPT("--label") label = VAL;
		else OPT("--quiet") quiet = true;
		else die("unknown option %s (see --help)", a);
	}
	if (nconns < 1 || nconns > 60000 || nthreads < 1 || nthreads > nconns || nstall >= nconns ||
	    rbsize < 4096)
		die("--conns, --threads, --stall or --rbuf makes no sense");
	if (discard && (check || latency))
		die("--discard cannot look into messages");
	parse_payload = check || latency;
	signal(SIGPIPE, SIG_IGN);
	raise_nofile();
	conns = calloc((size_t)nconns, sizeof *conns);
	workers = calloc((size_t)nthreads, sizeof *workers);
	if (!conns || !workers)
		die("out of memory");
	if (credit_file)
		credit = credit_open(credit_file, true);
	for (int i = 0; i < nconns; i++) {
		conns[i].ix = i;
		conns[i].stall = i < nstall;
	}
	uint64_t t_start = now_ns();
	for (int i = 0; i < nthreads; i++) {
		struct worker *w = &workers[i];
		w->n0 = (int)((long)nconns * i / nthreads);
		w->n1 = (int)((long)nconns * (i + 1) / nthreads);
		if (pthread_create(&w->th, NULL, worker_main, w))
			die("pthread_create");
	}
	while (atomic_load(&n_up) + atomic_load(&n_closed) < nconns) {
		usleep(500);
		if (now_ns() - t_start > 30000000000u) {
			atomic_store(&stop_all, 1);
			die("only %d of %d subscribed within 30 s (%s)", atomic_load(&n_up), nconns,
			    first_err);
		}
	}
	int up = atomic_load(&n_up);
	double setup_s = (double)(now_ns() - t_start) / 1e9;
	if (!quiet)
		fprintf(stderr, "fanbench: %d of %d subscribed in %.2f s\n", up, nconns, setup_s);
	watch_start();
	double cpu_total0 = self_cpu_s(), mb0, ms0, mb1, ms1;
	machine_cpu_s(&mb0, &ms0);
	atomic_store(&go_measure, 1);
	if (ready_file) {
		int fd = open(ready_file, O_CREAT | O_WRONLY | O_TRUNC, 0644);
		if (fd < 0)
			die("%s: %s", ready_file, strerror(errno));
		close(fd);
	}
	int pubfd = -1, pubstat = 0;
	pid_t pub = 0;
	bool pub_done = false;
	uint64_t pub_end = 0, published = 0;
	bool have_published = false;
	struct buf pubout = { 0 };
	struct rusage pubru = { 0 };
	if (pub_cmd)
		pub = start_pub(&pubfd);
	uint64_t t_go = now_ns(), last_sum = 0, t_change = 0;
	const char *why = "max-secs";
	bool warm = warmup <= 0;
	for (;;) {
		usleep(2000);
		uint64_t t = now_ns(), f = atomic_load(&g_first);
		watch_sample();
		if (!warm && f && t - f >= (uint64_t)(warmup * 1e9)) {
			warm = true;
			watch_start();
			cpu_total0 = self_cpu_s();
			machine_cpu_s(&mb0, &ms0);
			atomic_store(&g_warm_done, 1);
		}
		if (pub && !pub_done) {
			ssize_t r;
			while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
				pubout.n += (size_t)r;
			if (wait4(pub, &pubstat, WNOHANG, &pubru) == pub) {
				while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
					pubout.n += (size_t)r;
				pub_done = true;
				pub_end = t;
				have_published = get_published(&pubout, &published);
			}
		}
		uint64_t sum = 0;
		bool all = true;
		for (int i = 0; i < nconns; i++) {
			sum += conns[i].frames;
			if (!conns[i].closed && !conns[i].stall && conns[i].frames < published)
				all = false;
		}
		if (sum != last_sum) {
			last_sum = sum;
			t_change = t;
		}
		if (atomic_load(&n_closed) >= nconns) {
			why = "all closed";
			break;
		}
		if (secs > 0 && f && t - f >= (uint64_t)(secs * 1e9)) {
			why = "secs";
			break;
		}
		if (atomic_load(&n_done) >= up - nstall) {
			why = "msgs";
			break;
		}
		if (pub_done && have_published && all) {
			why = "published";
			break;
		}
		if (t_change && t - t_change > (uint64_t)(idle_s * 1e9) && (!pub || pub_done)) {
			why = "idle";
			break;
		}
		if (pub_done && !f && t - pub_end > (uint64_t)(idle_s * 1e9)) {
			why = "nothing came";
			break;
		}
		if (t - t_go > (uint64_t)(max_secs * 1e9))
			break;
	}
	watch_sample();
	double cpu_total = self_cpu_s() - cpu_total0;
	machine_cpu_s(&mb1, &ms1);
	if (credit)
		atomic_store(&credit->stop, 1);
	atomic_store(&stop_all, 1);
	for (int i = 0; i < nthreads; i++)
		pthread_join(workers[i].th, NULL);
	if (pub && !pub_done) { /* credit->stop ends pubbench; else end it ourselves */
		for (int i = 0; i < 200 && !pub_done; i++) {
			usleep(10000);
			ssize_t r;
			while ((r = read(pubfd, buf_room(&pubout, 4096), 4096)) > 0)
				pubout.n += (size_t)r;
			if (wait4(pub, &pubstat, WNOHANG, &pubru) == pub)
				pub_done = true;
		}
		if (!pub_done) {
			kill(pub, SIGTERM);
			wait4(pub, &pubstat, 0, &pubru);
		}
		have_published = get_published(&pubout, &published);
	}
	/* result */
	struct worker *m = &workers[0];
	uint64_t frames = 0, bytes = 0, fmin = UINT64_MAX, fmax = 0, t0 = 0, t1 = 0;
	double cpu_thr = m->cpu1 - m->cpu0;
	for (int i = 0; i < nthreads; i++) {
		struct worker *w = &workers[i];
		if (w->t_first && (!t0 || w->t_first < t0))
			t0 = w->t_first;
		if (w->t_last > t1)
			t1 = w->t_last;
		if (i) {
			hist_merge(&m->lat, &w->lat);
			m->gaps += w->gaps;
			m->back += w->back;
			m->bad += w->bad;
			if (w->have_first && (!m->have_first || w->first < m->first))
				m->first = w->first;
			if (w->last_off > m->last_off)
				m->last_off = w->last_off;
			m->reads += w->reads;
			cpu_thr += w->cpu1 - w->cpu0;
		}
	}
	uint64_t lost = 0;
	for (int i = 0; i < nconns; i++) {
		struct conn *c = &conns[i];
		if (c->stall)
			continue;
		uint64_t x = c->frames - c->frames0;
		frames += x;
		bytes += c->bytes - c->bytes0;
		if (x < fmin)
			fmin = x;
		if (x > fmax)
			fmax = x;
		if (have_published && c->frames < published)
			lost += published - c->frames;
	}
	double el = t1 > t0 ? (double)(t1 - t0) / 1e9 : 0;
	printf("{\"tool\":\"fanbench\",\"label\":\"%s\",\"proto\":\"%s\",\"conns\":%d,\"up\":%d,"
	       "\"stalled\":%d,\"setup_s\":%.3f,"
	       "\"end\":\"%s\",\"secs\":%.3f,\"frames\":%" PRIu64
	       ",\"frames_s\":%.0f,\"bytes\":%" PRIu64 ",\"mb_s\":%.2f,"
	       "\"total_s\":%.3f,\"per_conn_min\":%" PRIu64 ",\"per_conn_max\":%" PRIu64
	       ",\"reads\":%" PRIu64 ",",
	       label ? label : "", proto_names[proto], nconns, up, nstall, setup_s, why, el, frames,
	       el > 0 ? (double)frames / el : 0, bytes, el > 0 ? (double)bytes / el / 1e6 : 0,
	       t1 > t_go ? (double)(t1 - t_go) / 1e9 : 0, fmin == UINT64_MAX ? 0 : fmin, fmax,
	       m->reads);
	printf("\"closed\":%d,\"close_codes\":{", atomic_load(&n_closed));
	bool comma = false;
	for (int i = 1; i < 5000; i++)
		if (close_codes[i]) {
			printf("%s\"%d\":%" PRIu64, comma ? "," : "", i, (uint64_t)close_codes[i]);
			comma = true;
		}
	for (int i = 0; i < CL_NKIND; i++)
		if (errors_close[i]) {
			printf("%s\"%s\":%" PRIu64, comma ? "," : "", cl_names[i],
			       (uint64_t)errors_close[i]);
			comma = true;
		}
	printf("},");
	if (check)
		printf("\"check\":{\"gaps\":%" PRIu64 ",\"back\":%" PRIu64 ",\"bad\":%" PRIu64
		       ",\"first\":%" PRIu64 ",\"last\":%" PRIu64 "},",
		       m->gaps, m->back, m->bad, m->first, m->last_off);
	if (latency) {
		hist_json_us(stdout, "lat_us", &m->lat);
		printf(",");
	}
	if (first_err[0])
		printf("\"error\":\"%s\",", first_err);
	printf("\"client_cpu_s\":%.3f,\"client_sub_cpu_s\":%.3f,\"machine_busy_s\":%.2f,\"machine_"
	       "steal_s\":%.2f,",
	       cpu_total, cpu_thr, mb1 - mb0, ms1 - ms0);
	watch_json(stdout);
	if (pub_cmd) {
		/* the publisher's last line, if it looks like JSON */
		char *js = NULL;
		while (pubout.n && (pubout.p[pubout.n - 1] == '\n' || pubout.p[pubout.n - 1] == 0))
			pubout.n--;
		*buf_room(&pubout, 1) = 0;
		if (pubout.n) {
			js = strrchr((char *)pubout.p, '\n');
			js = js ? js + 1 : (char *)pubout.p;
		}
		printf(",\"published\":%" PRIu64 ",\"lost\":%" PRIu64
		       ",\"pub_status\":%d,\"pub_cpu_s\":%.3f,\"pub\":%s",
		       published, lost,
		       WIFEXITED(pubstat) ? WEXITSTATUS(pubstat) : 128 + WTERMSIG(pubstat),
		       (double)(pubru.ru_utime.tv_sec + pubru.ru_stime.tv_sec) +
			       (double)(pubru.ru_utime.tv_usec + pubru.ru_stime.tv_usec) / 1e6,
		       js && *js == '{' ? js : "null");
	}
	printf("}\n");
	return 0;
}
