/*
 * tests/bench/limit.c: the limit of fan-out over loopback TCP on this machine, against which
 * sc-serve is measured.
 *
 * Plain epoll, one thread. All messages lie once, already framed as WebSocket
 * text frames, in one ring; each subscriber is only a cursor into it; each
 * send() hands the kernel a chunk of the ring as it is. Nothing is copied or
 * formatted per subscriber, so what is left is the kernel.
 *
 * Messages come from itself (as fast as possible or --rate), from standard
 * input (--stdin: one line, one message) or from a WebSocket client on /pub
 * (--relay), which makes it comparable with brokers that take a publisher.
 */
#include "bench.h"
#include <sys/epoll.h>
#include <sys/sendfile.h>

struct conn {
	int fd;
	bool hs, pub, writable, dead;
	uint64_t cur;
	struct buf in;
	struct conn *next;
};

static int port = 9001, waitn = 1, sndbuf = 0;
static size_t ring_sz = 8u << 20, ring_len, lag, chunk = 65536, size = 100;
static double rate = 0, secs = 0;
static enum fmt fmt = FMT_PAIR;
static bool use_stdin, relay, wrap, use_sendfile, canned;
static uint64_t max_msgs = 0;
static int memfd;
static unsigned char *ring;
static uint64_t head, msgs, deliveries_bytes, sends, eagains, short_sends;
static struct conn *list;
static int nsub, ep;
static bool pub_gone, had_pub;
static struct buf line;
static volatile sig_atomic_t stop;

static void on_sig(int s)
{
	(void)s;
	stop = 1;
}

static void help(void)
{
	puts("usage: limit [options]\n"
	     "WebSocket multicaster at the kernel's limit; prints one JSON line when it ends.\n"
	     "  --port N       on 127.0.0.1 (9001)\n"
	     "  --wait N       start when N subscribers are there (1)\n"
	     "  --secs S       produce for S seconds     --msgs K  or K messages\n"
	     "  --rate R       messages per second; 0 is as fast as the slowest subscriber (0)\n"
	     "  --stdin        messages are the lines of standard input, until its end\n"
	     "  --wrap         ... each sent as [N,LINE]\n"
	     "  --relay        messages are the text frames a client sends on path /pub, until it "
	     "leaves\n"
	     "  --format F     pair | trade | fill (pair; see pubbench --help)   --size B (100)\n"
	     "  --canned       make the messages once and send the same ring of them over and "
	     "over: the\n"
	     "                 kernel alone, without the cost of making messages (no --rate, no "
	     "offsets)\n"
	     "  --ring N       bytes shared by all (8M)  --chunk N  most bytes per send (64k)\n"
	     "  --lag N        most bytes made ahead of the slowest subscriber's cursor (half the "
	     "ring)\n"
	     "  --sndbuf N     SO_SNDBUF (kernel's own)\n"
	     "  --sendfile     sendfile() from the ring's memfd instead of send(): one copy less.\n"
	     "                 The kernel then holds references into the ring until the client has "
	     "read: the\n"
	     "                 ring must exceed --lag and all socket buffers (--ring 64M --lag "
	     "4M), or be an\n"
	     "                 append-only file");
	exit(0);
}

static uint64_t slowest(void)
{
	uint64_t s = head;
	for (struct conn *c = list; c; c = c->next)
		if (c->hs && !c->pub && !c->dead && c->cur < s)
			s = c->cur;
	return s;
}

/* Starts a frame of len payload bytes at the head; returns where they go. */
static inline unsigned char *frame(size_t len)
{
	unsigned char *p = ring + head % ring_sz;
	size_t h = ws_header(p, 1, len, false);
	head += h + len;
	msgs++;
	return p + h;
}

static void put_line(const unsigned char *p, size_t n)
{
	if (wrap) {
		char pre[32];
		size_t k = 1;
		pre[0] = '[';
		k += put_u64(pre + 1, msgs);
		pre[k++] = ',';
		unsigned char *o = frame(n + k + 1);
		memcpy(o, pre, k);
		memcpy(o + k, p, n);
		o[k + n] = ']';
	} else
		memcpy(frame(n), p, n);
}

static void sub_close(struct conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	if (c->pub)
		pub_gone = true;
	else if (c->hs)
		nsub--;
	epoll_ctl(ep, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
}

static void on_read(struct conn *c)
{
	for (;;) {
		if (c->pub && head - slowest() > lag)
			return; /* level-triggered: comes again */
		ssize_t r = read(c->fd, buf_room(&c->in, 65536), 65536);
		if (r == 0 || (r < 0 && errno != EAGAIN)) {
			sub_close(c);
			return;
		}
		if (r < 0)
			return;
		c->in.n += (size_t)r;
		if (!c->hs) {
			*buf_room(&c->in, 1) = 0;
			char *e = memmem(c->in.p, c->in.n, "\r\n\r\n", 4);
			if (!e)
				continue;
			char acc[40], o[256];
			if (ws_accept((char *)c->in.p, acc)) {
				sub_close(c);
				return;
			}
			c->pub = relay && c->in.n > 9 && !memcmp(c->in.p, "GET /pub ", 9);
			int n = snprintf(o, sizeof o,
					 "HTTP/1.1 101 Switching Protocols\r\nUpgrade: "
					 "websocket\r\nConnection: "
					 "Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
					 acc);
			write_all(c->fd, o, (size_t)n);
			size_t used = (size_t)(e + 4 - (char *)c->in.p);
			c->in.n -= used;
			memmove(c->in.p, c->in.p + used, c->in.n);
			c->hs = true;
			c->cur = head;
			struct epoll_event ev = { .events = c->pub ? EPOLLIN
								   : EPOLLIN | EPOLLOUT | EPOLLET,
						  .data.ptr = c };
			epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
			if (c->pub)
				had_pub = true;
			else
				nsub++;
		}
		unsigned char *p = c->in.p, *e = p + c->in.n;
		for (;;) { /* masked client frames */
			uint64_t l;
			size_t h = ws_head(p, e, &l);
			if (!h || (uint64_t)(e - p) < h + 4 + l)
				break;
			unsigned char *k = p + h, *b = p + h + 4;
			unsigned op = p[0] & 15;
			if (op == 1 && c->pub) {
				uint32_t key;
				memcpy(&key, k, 4);
				unsigned char *o = frame(l);
				if (!key)
					memcpy(o, b, l);
				else
					for (size_t i = 0; i < l; i++)
						o[i] = b[i] ^ k[i & 3];
			} else if (op == 8) {
				sub_close(c);
				return;
			} else if (op == 9 && l < 126) {
				unsigned char o[140];
				size_t n = ws_header(o, 10, l, false);
				for (size_t i = 0; i < l; i++)
					o[n + i] = b[i] ^ k[i & 3];
				if (c->pub) /* subscribers are in the middle of frames */
					write_all(c->fd, o, n + l);
			}
			p = b + l;
		}
		c->in.n = (size_t)(e - p);
		memmove(c->in.p, p, c->in.n);
	}
}

static void on_stdin(bool *eof)
{
	while (head - slowest() <= lag) {
		ssize_t r = read(0, buf_room(&line, 65536), 65536);
		if (r == 0) {
			*eof = true;
			return;
		}
		if (r < 0)
			return;
		line.n += (size_t)r;
		unsigned char *p = line.p, *e = p + line.n, *n;
		while ((n = memchr(p, '\n', (size_t)(e - p)))) {
			put_line(p, (size_t)(n - p));
			p = n + 1;
		}
		line.n = (size_t)(e - p);
		memmove(line.p, p, line.n);
		if (r < 4096)
			return;
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		OPT("--help") help();
		else OPT("--port") port = (int)num_arg(a, VAL);
		else OPT("--wait") waitn = (int)num_arg(a, VAL);
		else OPT("--secs") secs = num_arg(a, VAL);
		else OPT("--msgs") max_msgs = (uint64_t)num_arg(a, VAL);
		else OPT("--rate") rate = num_arg(a, VAL);
		else OPT("--stdin") use_stdin = true;
		else OPT("--relay") relay = true;
		else OPT("--wrap") wrap = true;
		else OPT("--size") size = (size_t)num_arg(a, VAL);
		else OPT("--format")
		{
			const char *x = VAL;
			fmt = !strcmp(x, "trade")  ? FMT_TRADE
			      : !strcmp(x, "fill") ? FMT_FILL
						   : FMT_PAIR;
		}
		else OPT("--ring") ring_sz = (size_t)num_arg(a, VAL);
		else OPT("--chunk") chunk = (size_t)num_arg(a, VAL);
		else OPT("--sndbuf") sndbuf = (int)num_arg(a, VAL);
		else OPT("--lag") lag = (size_t)num_arg(a, VAL);
		else OPT("--sendfile") use_sendfile = true;
		else OPT("--canned") canned = true;
		else die("unknown option %s (see --help)", a);
	}
	if (!use_stdin && !relay && secs <= 0 && !max_msgs)
		die("say --secs, --msgs, --stdin or --relay");
	if (ring_sz & (ring_sz - 1) || ring_sz < 65536 || size > ring_sz / 8)
		die("--ring must be a power of two, much larger than a message");
	if (canned && (use_stdin || relay || rate > 0))
		die("--canned goes with as fast as possible only");
	ring_len = ring_sz;
	if (!lag)
		lag = ring_sz / 2;
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, on_sig);
	signal(SIGTERM, on_sig);
	raise_nofile();
	memfd = memfd_create("ring", MFD_CLOEXEC);
	if (memfd < 0 || ftruncate(memfd, (off_t)ring_sz))
		die("memfd: %s", strerror(errno));
	ring = mmap(NULL, ring_sz * 2, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED ||
	    mmap(ring, ring_sz, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
		 memfd, 0) == MAP_FAILED ||
	    mmap(ring + ring_sz, ring_sz, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED | MAP_POPULATE, memfd, 0) == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	int ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
	setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(ls, (struct sockaddr *)&a, sizeof a) || listen(ls, 4096))
		die("port %d: %s", port, strerror(errno));
	ep = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = NULL };
	epoll_ctl(ep, EPOLL_CTL_ADD, ls, &ev);
	struct conn stdin_conn = { .fd = 0 };
	bool stdin_file = false, stdin_armed = false, eof = false;
	if (use_stdin) {
		set_nonblock(0);
		fcntl(0, F_SETPIPE_SZ, 1 << 20);
	}
	struct gen g;
	gen_init(&g, fmt, size, 0, 1);
	size_t flen = 0;
	if (canned) { /* whole frames only, so that the ring can be repeated */
		unsigned char h[16];
		char *m = xrealloc(NULL, size + 1024);
		size_t n = gen_msg(&g, m, 0), hl = ws_header(h, 1, n, false);
		flen = hl + n;
		for (ring_len = 0; ring_len + flen <= ring_sz; ring_len += flen) {
			memcpy(ring + ring_len, h, hl);
			memcpy(ring + ring_len + hl, m, n);
		}
		free(m);
	}
	uint64_t t0 = 0, tend = 0;
	double cpu0 = 0;
	double gap = rate > 0 ? 1e9 / rate : 0;
	struct epoll_event evs[512];
	bool finished = false;
	while (!stop) {
		uint64_t t = now_ns();
		bool started = t0 != 0;
		if (!started && nsub >= waitn) {
			t0 = t;
			cpu0 = self_cpu_s();
			tend = secs > 0 ? t0 + (uint64_t)(secs * 1e9) : UINT64_MAX;
			started = true;
			if (use_stdin && !stdin_armed) {
				struct epoll_event e0 = { .events = EPOLLIN,
							  .data.ptr = &stdin_conn };
				stdin_file = epoll_ctl(ep, EPOLL_CTL_ADD, 0, &e0) != 0;
				stdin_armed = true;
			}
		}
		uint64_t slow = slowest(), wake = UINT64_MAX;
		bool may_produce = false;
		if (started && !finished && !use_stdin && !relay) {
			if (t >= tend || (max_msgs && msgs >= max_msgs))
				finished = true;
			else {
				uint64_t lim = max_msgs ? max_msgs - msgs : UINT64_MAX;
				if (rate > 0) {
					uint64_t due = (uint64_t)((double)(t - t0) / gap) + 1;
					uint64_t k = due > msgs ? due - msgs : 0;
					if (k < lim)
						lim = k;
					wake = t0 + (uint64_t)((double)(msgs + lim) * gap);
				}
				uint64_t h0 = head;
				if (canned) {
					uint64_t k = head - slow < lag
							     ? (lag - (head - slow)) / flen
							     : 0;
					if (k > lim)
						k = lim;
					head += k * flen;
					msgs += k;
					lim = 0;
				}
				while (lim && lim-- && head - slow < lag &&
				       head - h0 < (1u << 18)) {
					/* the length, and so the header's, is known after */
					unsigned char *p = ring + head % ring_sz, h[16];
					size_t n = gen_msg(&g, (char *)p + 10,
							   rate > 0 ? now_ns() : t),
					       hl = ws_header(h, 1, n, false);
					if (hl != 10)
						memmove(p + hl, p + 10, n);
					memcpy(p, h, hl);
					head += hl + n;
					msgs++;
				}
				may_produce = rate <= 0 && head - slow < lag;
			}
		}
		if (use_stdin && started && stdin_file && !eof)
			on_stdin(&eof);
		if ((use_stdin && eof) || (relay && had_pub && pub_gone))
			finished = true;
		bool pending = false;
		for (struct conn *c = list; c; c = c->next) {
			if (!c->hs || c->pub || c->dead || !c->writable || c->cur == head)
				continue;
			size_t n = head - c->cur < chunk ? (size_t)(head - c->cur) : chunk;
			size_t at = (size_t)(c->cur % ring_len);
			ssize_t w;
			sends++;
			if ((use_sendfile || canned) && at + n > ring_len)
				n = ring_len - at;
			if (use_sendfile) {
				off_t o = (off_t)at;
				w = sendfile(c->fd, memfd, &o, n);
			} else
				w = send(c->fd, ring + at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
			if (w < 0) {
				if (errno == EAGAIN) {
					eagains++;
					c->writable = false;
				} else
					sub_close(c);
				continue;
			}
			if ((size_t)w < n)
				short_sends++;
			c->cur += (uint64_t)w;
			deliveries_bytes += (uint64_t)w;
			if (c->cur < head)
				pending = true;
		}
		if (finished && !pending &&
		    (slowest() == head || now_ns() - (tend == UINT64_MAX ? t : tend) > 5000000000u))
			break;
		if (started && !nsub)
			break;
		struct timespec ts = { 0, 0 };
		bool zero = pending || may_produce ||
			    (use_stdin && stdin_file && started && !eof && head - slowest() <= lag);
		if (!zero) {
			uint64_t d = 100000000u;
			t = now_ns();
			if (wake != UINT64_MAX)
				d = wake > t ? wake - t : 0;
			if (d > 100000000u)
				d = 100000000u;
			ts.tv_nsec = (long)d;
		}
		int k = epoll_pwait2(ep, evs, 512, &ts, NULL);
		for (int i = 0; i < k; i++) {
			struct conn *c = evs[i].data.ptr;
			if (!c) {
				for (;;) {
					int fd = accept4(ls, NULL, NULL,
							 SOCK_NONBLOCK | SOCK_CLOEXEC);
					if (fd < 0)
						break;
					setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
					if (sndbuf)
						setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &sndbuf,
							   sizeof sndbuf);
					c = calloc(1, sizeof *c);
					c->fd = fd;
					c->writable = true;
					c->next = list;
					list = c;
					struct epoll_event e = { .events = EPOLLIN, .data.ptr = c };
					epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
				}
				continue;
			}
			if (c == &stdin_conn) {
				on_stdin(&eof);
				if (eof)
					epoll_ctl(ep, EPOLL_CTL_DEL, 0, NULL);
				continue;
			}
			if (c->dead)
				continue;
			if (evs[i].events & EPOLLOUT)
				c->writable = true;
			if (evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				on_read(c);
		}
	}
	double el = t0 ? (double)(now_ns() - t0) / 1e9 : 0, cpu = self_cpu_s() - cpu0;
	int subs = nsub;
	for (struct conn *c = list; c; c = c->next)
		if (c->hs && !c->pub && !c->dead && c->cur == head) {
			unsigned char o[4] = { 0x88, 2, 1000 >> 8, 1000 & 255 };
			if (send(c->fd, o, 4, MSG_NOSIGNAL | MSG_DONTWAIT) == 4)
				shutdown(c->fd, SHUT_WR);
		}
	printf("{\"tool\":\"limit\",\"mode\":\"%s\",\"subs\":%d,\"secs\":%.3f,\"published\":"
	       "%" PRIu64 ",\"msgs_s\":%.0f,"
	       "\"deliveries_s\":%.0f,\"bytes\":%" PRIu64 ",\"mb_s\":%.1f,\"sends\":%" PRIu64
	       ",\"eagain\":%" PRIu64 ",\"short\":%" PRIu64 ",\"cpu_s\":%.3f}\n",
	       use_stdin ? "stdin"
	       : relay   ? "relay"
			 : "self",
	       subs, el, msgs, el > 0 ? (double)msgs / el : 0,
	       el > 0 && head ? (double)msgs * ((double)deliveries_bytes / (double)head) / el : 0,
	       deliveries_bytes, el > 0 ? (double)deliveries_bytes / el / 1e6 : 0, sends, eagains,
	       short_sends, cpu);
	fflush(stdout);
	usleep(200000); /* let the clients read the close */
	return 0;
}
