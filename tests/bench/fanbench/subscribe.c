/* subscribe.c: connections, and the thread that reads a part of them. */
#include "fan.h"

#include <sys/epoll.h>

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

void *worker_main(void *arg)
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
