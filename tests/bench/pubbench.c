/*
 * tests/bench/pubbench.c: a publisher at a fixed rate or as fast as possible.
 *
 * Rows on stdout (`pubbench --rate 1000 | sc-log append LOG`), or messages by WebSocket, NATS,
 * Redis or MQTT; with acknowledgements it measures their durable append (Redis XADD, NATS
 * JetStream).
 */
#include "bench.h"

enum proto { P_STDOUT, P_WS, P_NATS, P_REDIS, P_MQTT };
static const char *const proto_names[] = { "stdout", "ws", "nats", "redis", "mqtt", NULL };

static enum proto proto = P_STDOUT;
static const char *host = "127.0.0.1", *path = "/pub", *subject = "bench", *credit_file, *json_file,
		  *label, *js_stream;
static int port = 9001;
static double rate = 0, secs = 0;
static uint64_t msgs = 0, window = 8192, acks = 0, first = 0, seed = 1;
static size_t size = 100, batch = 65536;
static enum fmt fmt = FMT_TRADE;
static bool xadd, js, fixed_time, intended, wrap;
static int fd = 1;

static void help(void)
{
	puts("usage: pubbench [options]\n"
	     "Publishes made-up rows; prints one JSON line (on stdout, or on stderr when the rows\n"
	     "themselves go to stdout; --json FILE sends it elsewhere).\n"
	     "\n"
	     "where to\n"
	     "  --proto P     stdout | ws | nats | redis | mqtt (stdout)\n"
	     "  --host A      loopback IPv4 address (127.0.0.1)   --port N (9001)\n"
	     "  --path /x     WebSocket URL path (/pub)\n"
	     "  --subject S   NATS subject, Redis channel or stream key, MQTT topic (bench)\n"
	     "  --xadd        redis: XADD S * d ROW instead of PUBLISH S ROW\n"
	     "  --js          nats: ask for JetStream's ack of each message (implies --acks 1)\n"
	     "  --js-stream N nats: first create JetStream stream N (file storage) on the subject\n"
	     "how much\n"
	     "  --rate R      rows per second, evenly spaced; 0 is as fast as possible (0)\n"
	     "  --secs S      stop after S seconds     --msgs K  stop after K rows\n"
	     "  --credit FILE never be more than --window N rows (8192) ahead of the slowest\n"
	     "                subscriber of a fanbench run with the same --credit FILE\n"
	     "  --acks N      at most N unanswered requests (redis, nats --js); 1 is synchronous.\n"
	     "                Reports the time from sending to the answer.\n"
	     "  --batch N     bytes per write when as fast as possible (64k)\n"
	     "what\n"
	     "  --format F    trade (six columns): "
	     "{\"event_ts\":µs,\"price\":P,\"amount\":A,\"side\":0|1,\"seq\":N,\"t_ns\":T}\n"
	     "                pair: [N,{\"t_ns\":T,\"pad\":\"xx\"}]   fill: bytes 'x'   (trade)\n"
	     "  --size B      bytes of a pair or fill message (100)\n"
	     "  --wrap        trade rows as [N,ROW]\n"
	     "  --first N     first number (0)   --seed N  of the made-up prices (1)\n"
	     "  --fixed-time  t_ns made from the row number: the same rows in every run\n"
	     "  --intended    t_ns is when the row was due, not when it was made (fixed rate "
	     "only)\n"
	     "t_ns is CLOCK_MONOTONIC in nanoseconds, an integer.");
	exit(0);
}

static struct buf out; /* bytes not yet written */
static size_t out_off;
static struct buf in;
static uint64_t replies;  /* redis replies, nats acks */
static uint64_t *sent_at; /* ring of send times, when acks are timed */
static size_t ring_mask;
static struct hist lat;
static bool pong, dead, leaving;
static char err[200];

static void fail(const char *s, size_t n)
{
	if (err[0] || leaving)
		return;
	size_t k = 0;
	for (size_t i = 0; i < n && k < sizeof err - 1; i++)
		if (s[i] >= ' ' && s[i] < 127 && s[i] != '"' && s[i] != '\\')
			err[k++] = s[i];
}

static inline void ack(uint64_t t)
{
	if (sent_at)
		hist_add(&lat, t - sent_at[replies & ring_mask]);
	replies++;
}

/* Eats the server's side of the talk. */
static void on_input(void)
{
	unsigned char *p = in.p, *e = in.p + in.n;
	uint64_t t = now_ns();
	switch (proto) {
	case P_REDIS:
		while (p < e) {
			unsigned char *n = memchr(p, '\n', (size_t)(e - p));
			if (!n)
				break;
			if (*p == '$') {
				long l = atol((char *)p + 1);
				if (e - (n + 1) < l + 2)
					break;
				n += l + 2;
			} else if (*p == '-')
				fail((char *)p, (size_t)(n - p));
			ack(t);
			p = n + 1;
		}
		break;
	case P_NATS:
		while (p < e) {
			unsigned char *n = memchr(p, '\n', (size_t)(e - p));
			if (!n)
				break;
			if (!memcmp(p, "MSG ", 4)) {
				unsigned char *q = n - 1;
				while (q > p && q[-1] != ' ')
					q--;
				long l = atol((char *)q);
				if (e - (n + 1) < l + 2)
					break;
				if (memmem(n + 1, (size_t)l, "\"error\"", 7))
					fail((char *)n + 1, (size_t)l);
				ack(t);
				p = n + 1 + l + 2;
				continue;
			}
			if (!memcmp(p, "PING", 4))
				buf_put(&out, "PONG\r\n", 6);
			else if (!memcmp(p, "PONG", 4))
				pong = true;
			else if (*p == '-')
				fail((char *)p, (size_t)(n - p));
			p = n + 1;
		}
		break;
	case P_WS:
		for (;;) {
			uint64_t l;
			size_t h = ws_head(p, e, &l);
			if (!h || (uint64_t)(e - p) < h + l)
				break;
			if ((p[0] & 15) == 9 && l < 126) {
				unsigned char hd[16];
				size_t n = ws_header(hd, 10, l, true);
				buf_put(&out, hd, n);
				buf_put(&out, p + h, l);
			} else if ((p[0] & 15) == 10)
				pong = true;
			else if ((p[0] & 15) == 8) {
				fail("close frame", 11);
				dead = true;
			}
			p += h + l;
		}
		break;
	case P_MQTT:
		while (e - p >= 2) {
			size_t l = p[1];
			if (l > 127 || (size_t)(e - p) < 2 + l)
				break;
			if (*p >> 4 == 13)
				pong = true;
			p += 2 + l;
		}
		break;
	default:
		p = e;
	}
	in.n = (size_t)(e - p);
	memmove(in.p, p, in.n);
}

static void do_read(void)
{
	for (;;) {
		ssize_t r = read(fd, buf_room(&in, 65536), 65536);
		if (r > 0) {
			in.n += (size_t)r;
			on_input();
			if (r < 65536)
				return;
			continue;
		}
		if (r == 0 || (errno != EAGAIN && errno != EINTR)) {
			const char *s = r ? strerror(errno) : "server closed the connection";
			fail(s, strlen(s));
			dead = true;
		}
		return;
	}
}

/* Writes what it can; waits for room (reading meanwhile) when `all`. */
static void do_write(bool all)
{
	while (out_off < out.n && !dead) {
		ssize_t w = write(fd, out.p + out_off, out.n - out_off);
		if (w > 0) {
			out_off += (size_t)w;
			continue;
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) {
			struct pollfd f = { .fd = fd,
					    .events = POLLOUT | (proto == P_STDOUT ? 0 : POLLIN) };
			poll(&f, 1, 100);
			if (f.revents & POLLIN)
				do_read();
			if (!all)
				break;
			continue;
		}
		const char *s = strerror(errno);
		fail(s, strlen(s));
		dead = true;
	}
	if (out_off >= out.n)
		out.n = out_off = 0;
}

static void add_msg(const char *m, size_t n)
{
	char h[400];
	static char red_head[300], nats_head[300];
	static size_t red_l, nats_l;
	size_t sl = strlen(subject);
	switch (proto) {
	case P_STDOUT:
		buf_put(&out, m, n);
		buf_put(&out, "\n", 1);
		return;
	case P_WS: {
		size_t l = ws_header((unsigned char *)h, 1, n, true);
		buf_put(&out, h, l);
		buf_put(&out, m, n);
		return;
	}
	case P_NATS:
		if (!nats_l)
			nats_l = (size_t)snprintf(nats_head, sizeof nats_head, "PUB %s %s", subject,
						  js ? "pb.ack " : "");
		memcpy(h, nats_head, nats_l);
		{
			size_t l = nats_l + put_u64(h + nats_l, n);
			h[l++] = '\r';
			h[l++] = '\n';
			buf_put(&out, h, l);
		}
		break;
	case P_REDIS:
		if (!red_l)
			red_l = (size_t)(xadd ? snprintf(red_head, sizeof red_head,
							 "*5\r\n$4\r\nXADD\r\n$%zu\r\n%s\r\n$1\r\n*"
							 "\r\n$1\r\nd\r\n$",
							 sl, subject)
					      : snprintf(red_head, sizeof red_head,
							 "*3\r\n$7\r\nPUBLISH\r\n$%zu\r\n%s\r\n$",
							 sl, subject));
		memcpy(h, red_head, red_l);
		{
			size_t l = red_l + put_u64(h + red_l, n);
			h[l++] = '\r';
			h[l++] = '\n';
			buf_put(&out, h, l);
		}
		break;
	case P_MQTT: {
		size_t rem = 2 + sl + n, l = 1;
		h[0] = 0x30;
		do {
			h[l++] = (char)((rem & 127) | (rem > 127 ? 128 : 0));
			rem >>= 7;
		} while (rem);
		h[l++] = (char)(sl >> 8);
		h[l++] = (char)sl;
		buf_put(&out, h, l);
		buf_put(&out, subject, sl);
		buf_put(&out, m, n);
		return;
	}
	}
	buf_put(&out, m, n);
	buf_put(&out, "\r\n", 2);
}

static void wait_input(const char *mark)
{
	uint64_t end = now_ns() + 10000000000u;
	while (!memmem(in.p ? in.p : (unsigned char *)"", in.n, mark, strlen(mark))) {
		struct pollfd f = { .fd = fd, .events = POLLIN };
		if (now_ns() > end)
			die("no greeting from the server");
		poll(&f, 1, 100);
		if (!f.revents)
			continue;
		ssize_t r = read(fd, buf_room(&in, 4096), 4096);
		if (r <= 0)
			die("the server closed during the greeting");
		in.n += (size_t)r;
	}
}

static void greet(void)
{
	char b[2048];
	for (int i = 0; i < 100; i++) {
		fd = tcp_connect(host, port);
		if (fd >= 0)
			break;
		usleep(20000);
	}
	if (fd < 0)
		die("cannot connect to %s:%d", host, port);
	if (proto == P_WS) {
		size_t n = ws_request(b, sizeof b, path, port);
		write_all(fd, b, n);
		wait_input("\r\n\r\n");
		if (in.n < 12 || memcmp(in.p + 8, " 101", 4))
			die("ws: not 101: %.60s", (char *)in.p);
		unsigned char *q = (unsigned char *)memmem(in.p, in.n, "\r\n\r\n", 4) + 4;
		in.n -= (size_t)(q - in.p);
		memmove(in.p, q, in.n);
	} else if (proto == P_NATS) {
		wait_input("\r\n");
		in.n = 0;
		int n = snprintf(b, sizeof b,
				 "CONNECT "
				 "{\"verbose\":false,\"pedantic\":false,\"name\":\"pubbench\","
				 "\"lang\":\"c\",\"version\":\"1\",\"protocol\":1}\r\n%sPING\r\n",
				 js ? "SUB pb.ack 1\r\n" : "");
		write_all(fd, b, (size_t)n);
		wait_input("PONG\r\n");
		in.n = 0;
		if (js_stream) {
			char j[600];
			int jl = snprintf(
				j, sizeof j,
				"{\"name\":\"%s\",\"subjects\":[\"%s\"],\"retention\":\"limits\","
				"\"storage\":\"file\","
				"\"num_replicas\":1,\"discard\":\"old\",\"max_consumers\":-1,\"max_"
				"msgs\":-1,\"max_bytes\":-1,\"max_age\":0,"
				"\"max_msg_size\":-1}",
				js_stream, subject);
			n = snprintf(b, sizeof b,
				     "SUB pb.api 2\r\nPUB $JS.API.STREAM.CREATE.%s pb.api "
				     "%d\r\n%s\r\nUNSUB 2 1\r\n",
				     js_stream, jl, j);
			write_all(fd, b, (size_t)n);
			wait_input("stream_create_response");
			usleep(100000);
			struct pollfd f = { .fd = fd, .events = POLLIN };
			while (poll(&f, 1, 0) > 0) {
				ssize_t r = read(fd, buf_room(&in, 4096), 4096);
				if (r <= 0)
					break;
				in.n += (size_t)r;
			}
			if (memmem(in.p, in.n, "\"error\"", 7))
				die("nats: stream not created: %.*s", (int)in.n, (char *)in.p);
			in.n = 0;
		}
	} else if (proto == P_MQTT) {
		char id[32];
		int il = snprintf(id, sizeof id, "pb%d", (int)getpid());
		b[0] = 0x10;
		b[1] = (char)(12 + il);
		memcpy(b + 2, "\0\4MQTT\4\2\0\0", 10);
		b[12] = 0;
		b[13] = (char)il;
		memcpy(b + 14, id, (size_t)il);
		write_all(fd, b, (size_t)(14 + il));
		wait_input(" \2"); /* CONNACK */
		in.n = 0;
	}
	set_nonblock(fd);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
		OPT("--help") help();
		else OPT("--proto") proto = (enum proto)word_arg(a, VAL, proto_names);
		else OPT("--host") host = VAL;
		else OPT("--port") port = (int)num_arg(a, VAL);
		else OPT("--path") path = VAL;
		else OPT("--subject") subject = VAL;
		else OPT("--xadd") xadd = true;
		else OPT("--js") js = true;
		else OPT("--js-stream") js_stream = VAL;
		else OPT("--rate") rate = num_arg(a, VAL);
		else OPT("--secs") secs = num_arg(a, VAL);
		else OPT("--msgs") msgs = (uint64_t)num_arg(a, VAL);
		else OPT("--credit") credit_file = VAL;
		else OPT("--window") window = (uint64_t)num_arg(a, VAL);
		else OPT("--acks") acks = (uint64_t)num_arg(a, VAL);
		else OPT("--batch") batch = (size_t)num_arg(a, VAL);
		else OPT("--format")
		{
			const char *x = VAL;
			if (!strcmp(x, "pair"))
				fmt = FMT_PAIR;
			else if (!strcmp(x, "trade"))
				fmt = FMT_TRADE;
			else if (!strcmp(x, "fill"))
				fmt = FMT_FILL;
			else
				die("--format: %s is not known", x);
		}
		else OPT("--size") size = (size_t)num_arg(a, VAL);
		else OPT("--wrap") wrap = true;
		else OPT("--first") first = (uint64_t)num_arg(a, VAL);
		else OPT("--seed") seed = (uint64_t)num_arg(a, VAL);
		else OPT("--fixed-time") fixed_time = true;
		else OPT("--intended") intended = true;
		else OPT("--json") json_file = VAL;
		else OPT("--label") label = VAL;
		else die("unknown option %s (see --help)", a);
	}
	if (!msgs && secs <= 0)
		die("say --secs or --msgs");
	if (js && !acks)
		acks = 1;
	if (acks && !((proto == P_REDIS) || (proto == P_NATS && js)))
		die("--acks needs --proto redis, or nats with --js");
	if (strlen(subject) > 100)
		die("--subject too long");
	signal(SIGPIPE, SIG_IGN);
	struct gen g;
	gen_init(&g, fmt, size, first, seed);
	g.fixed_time = fixed_time;
	struct credit *cr = credit_file ? credit_open(credit_file, false) : NULL;
	char *m = xrealloc(NULL, size + 1024);
	if (proto == P_STDOUT)
		fcntl(1, F_SETPIPE_SZ, 1 << 20);
	else
		greet();
	/* redis answers PUBLISH too: bound what is unanswered, but do not time it */
	uint64_t inflight = acks ? acks : proto == P_REDIS ? 65536 : UINT64_MAX;
	if (acks) {
		size_t c = 2;
		while (c <= acks)
			c *= 2;
		sent_at = xrealloc(NULL, c * sizeof *sent_at);
		ring_mask = c - 1;
	}
	uint64_t t0 = now_ns(), end = secs > 0 ? t0 + (uint64_t)(secs * 1e9) : UINT64_MAX;
	uint64_t sent = 0, bytes = 0, stalls = 0, late_max = 0;
	double gap = rate > 0 ? 1e9 / rate : 0;
	double cpu0 = self_cpu_s();
	while (!dead) {
		uint64_t t = now_ns();
		if (t >= end || (msgs && sent >= msgs))
			break;
		if (cr && atomic_load_explicit(&cr->stop, memory_order_acquire))
			break;
		uint64_t can = msgs ? msgs - sent : UINT64_MAX;
		if (rate > 0) {
			uint64_t due = (uint64_t)((double)(t - t0) / gap) + 1;
			if (due <= sent) {
				uint64_t at = t0 + (uint64_t)((double)sent * gap);
				if (at >= end)
					at = end;
				if (proto != P_STDOUT) { /* sleep, but answer the server */
					struct pollfd f = { .fd = fd, .events = POLLIN };
					struct timespec ts = { (time_t)((at - t) / 1000000000u),
							       (long)((at - t) % 1000000000u) };
					if (ppoll(&f, 1, &ts, NULL) > 0)
						do_read();
					do_write(false);
				} else
					sleep_until_ns(at);
				continue;
			}
			if (due - sent < can)
				can = due - sent;
			uint64_t late = t - (t0 + (uint64_t)((double)sent * gap));
			if (late > late_max)
				late_max = late;
		}
		if (cr) {
			uint64_t got = atomic_load_explicit(&cr->recv, memory_order_acquire);
			uint64_t ahead = sent > got ? sent - got : 0;
			if (ahead >= window) {
				stalls++;
				if (proto != P_STDOUT)
					do_read();
				do_write(false);
				struct timespec ts = { 0, 20000 };
				nanosleep(&ts, NULL);
				continue;
			}
			if (window - ahead < can)
				can = window - ahead;
		}
		if (inflight != UINT64_MAX) {
			uint64_t open_rq = sent - replies;
			if (open_rq >= inflight) {
				do_write(true);
				struct pollfd f = { .fd = fd, .events = POLLIN };
				poll(&f, 1, 100);
				do_read();
				continue;
			}
			if (inflight - open_rq < can)
				can = inflight - open_rq;
		}
		while (can-- && out.n - out_off < batch) {
			uint64_t ts = t;
			if (rate > 0)
				ts = intended ? t0 + (uint64_t)((double)sent * gap) : now_ns();
			size_t n;
			if (wrap && fmt == FMT_TRADE) {
				size_t k = 1;
				m[0] = '[';
				k += put_u64(m + 1, g.seq);
				m[k++] = ',';
				k += gen_msg(&g, m + k, ts);
				m[k++] = ']';
				n = k;
			} else
				n = gen_msg(&g, m, ts);
			add_msg(m, n);
			if (sent_at)
				sent_at[sent & ring_mask] = now_ns();
			sent++;
			bytes += n;
		}
		do_write(false);
		if (proto == P_REDIS || (proto == P_NATS && js))
			do_read();
	}
	do_write(true);
	uint64_t wait_end = now_ns() + 20000000000u;
	if (proto == P_NATS)
		buf_put(&out, "PING\r\n", 6);
	else if (proto == P_MQTT)
		buf_put(&out, "\xc0\0", 2);
	else if (proto == P_WS) {
		unsigned char h[16];
		size_t l = ws_header(h, 9, 0, true);
		buf_put(&out, h, l);
	}
	do_write(true);
	while (proto != P_STDOUT && !dead && now_ns() < wait_end) {
		if (proto == P_REDIS ? replies >= sent : pong && (!js || replies >= sent))
			break;
		struct pollfd f = { .fd = fd, .events = POLLIN };
		poll(&f, 1, 100);
		if (f.revents)
			do_read();
		do_write(true);
	}
	double el = (double)(now_ns() - t0) / 1e9;
	if (proto == P_MQTT)
		write_all(fd, "\xe0\0", 2);
	else if (proto == P_WS && !dead) { /* close 1000, and wait a little for the answer */
		unsigned char h[16];
		size_t l = ws_header(h, 8, 2, true);
		h[l++] = 1000 >> 8;
		h[l++] = 1000 & 255;
		leaving = true;
		write_all(fd, h, l);
		for (int i = 0; i < 10 && !dead; i++) {
			struct pollfd f = { .fd = fd, .events = POLLIN };
			if (poll(&f, 1, 50) > 0)
				do_read();
		}
	}
	FILE *o = json_file ? fopen(json_file, "w") : proto == P_STDOUT ? stderr : stdout;
	if (!o)
		die("%s: %s", json_file, strerror(errno));
	fprintf(o,
		"{\"tool\":\"pubbench\",\"label\":\"%s\",\"proto\":\"%s\",\"published\":%" PRIu64
		",\"secs\":%.3f,\"msgs_s\":%.0f,"
		"\"bytes\":%" PRIu64 ",\"mb_s\":%.2f,\"credit_waits\":%" PRIu64
		",\"late_max_us\":%.1f,\"cpu_s\":%.3f",
		label ? label : "", proto_names[proto], sent, el, (double)sent / el, bytes,
		(double)bytes / el / 1e6, stalls, (double)late_max / 1e3, self_cpu_s() - cpu0);
	if (acks) {
		fprintf(o, ",\"acked\":%" PRIu64 ",\"inflight\":%" PRIu64 ",", replies, acks);
		hist_json_us(o, "ack_us", &lat);
	}
	if (err[0])
		fprintf(o, ",\"error\":\"%s\"", err);
	fprintf(o, "}\n");
	fflush(o);
	return err[0] ? 1 : 0;
}
