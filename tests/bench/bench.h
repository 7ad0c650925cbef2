/*
 * tests/bench/bench.h: what the load tools share: clocks, histograms, frames, options. libc and
 * pthread only, Linux.
 */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* ---- time and CPU ------------------------------------------------------ */

static inline uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static UNUSED double clock_s(clockid_t c)
{
	struct timespec t;
	if (clock_gettime(c, &t))
		return -1;
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static UNUSED double self_cpu_s(void)
{
	return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

static UNUSED void sleep_until_ns(uint64_t t)
{
	struct timespec ts = { (time_t)(t / 1000000000u), (long)(t % 1000000000u) };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Whole-process CPU seconds (all threads) of another process; -1 when gone. */
static UNUSED double pid_cpu_s(pid_t pid)
{
	clockid_t c;
	if (clock_getcpuclockid(pid, &c))
		return -1;
	return clock_s(c);
}

/* Whole machine: busy CPU seconds (all but idle and iowait, without steal), and stolen. */
static UNUSED void machine_cpu_s(double *busy, double *steal)
{
	unsigned long long v[8] = { 0 };
	FILE *f = fopen("/proc/stat", "r");
	*busy = *steal = 0;
	if (!f)
		return;
	if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
		   &v[4], &v[5], &v[6], &v[7]) == 8) {
		double hz = (double)sysconf(_SC_CLK_TCK);
		*busy = (double)(v[0] + v[1] + v[2] + v[5] + v[6]) / hz;
		*steal = (double)v[7] / hz;
	}
	fclose(f);
}

/* ---- errors and arguments ---------------------------------------------- */


static UNUSED __attribute__((noreturn, format(printf, 1, 2))) void die(const char *f, ...)
{
	va_list ap;
	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(ap, f);
	vfprintf(stderr, f, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(2);
}

static UNUSED void *xrealloc(void *p, size_t n)
{
	p = realloc(p, n ? n : 1);
	if (!p)
		die("out of memory");
	return p;
}

/* "64k", "8M", "1e6" are understood. */
static UNUSED double num_arg(const char *opt, const char *s)
{
	char *e;
	if (!s)
		die("%s needs a value", opt);
	double v = strtod(s, &e);
	if (e == s)
		die("%s: not a number: %s", opt, s);
	if (*e == 'k' || *e == 'K')
		v *= 1024, e++;
	else if (*e == 'm' || *e == 'M')
		v *= 1024 * 1024, e++;
	else if (*e == 'g' || *e == 'G')
		v *= 1024.0 * 1024 * 1024, e++;
	if (*e)
		die("%s: not a number: %s", opt, s);
	return v;
}

/* The index of V in WORDS, which end with NULL. */
static UNUSED int word_arg(const char *opt, const char *v, const char *const words[])
{
	int k = 0;

	while (words[k] && strcmp(words[k], v))
		k++;
	if (!words[k])
		die("%s: %s is not known", opt, v);
	return k;
}

/* In the loop of a main over its arguments: A is the one at hand, I its index, V the next one. */
#define OPT(s) if (!strcmp(a, s))
#define VAL (i++, v ? v : (die("%s needs a value", a), ""))

static UNUSED void raise_nofile(void)
{
	struct rlimit r;
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
}

/* ---- log-linear histogram (128 steps per power of two: < 0.8 % error) --- */

#define HIST_SUB 7
#define HIST_N ((64 - HIST_SUB + 1) << HIST_SUB)
struct hist {
	uint64_t n, min, max;
	double sum;
	uint64_t b[HIST_N];
};

static inline unsigned hist_ix(uint64_t v)
{
	if (v < (1u << HIST_SUB))
		return (unsigned)v;
	unsigned e = 63u - (unsigned)__builtin_clzll(v);
	return ((e - HIST_SUB + 1) << HIST_SUB) +
	       (unsigned)((v >> (e - HIST_SUB)) & ((1u << HIST_SUB) - 1));
}

static inline void hist_add(struct hist *h, uint64_t v)
{
	h->b[hist_ix(v)]++;
	if (!h->n || v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
	h->n++;
	h->sum += (double)v;
}

static UNUSED void hist_merge(struct hist *a, const struct hist *b)
{
	if (!b->n)
		return;
	for (unsigned i = 0; i < HIST_N; i++)
		a->b[i] += b->b[i];
	if (!a->n || b->min < a->min)
		a->min = b->min;
	if (b->max > a->max)
		a->max = b->max;
	a->n += b->n;
	a->sum += b->sum;
}

static UNUSED double hist_pct(const struct hist *h, double p)
{
	if (!h->n)
		return 0;
	uint64_t want = (uint64_t)(p / 100.0 * (double)h->n + 0.5), s = 0;
	if (want < 1)
		want = 1;
	for (unsigned i = 0; i < HIST_N; i++) {
		s += h->b[i];
		if (s >= want) {
			unsigned g = i >> HIST_SUB, sub = i & ((1u << HIST_SUB) - 1);
			double lo, w;
			if (!g) {
				lo = sub;
				w = 0;
			} else {
				w = (double)(1ull << (g - 1));
				lo = (double)((1ull << HIST_SUB) + sub) * w;
			}
			double v = lo + w / 2;
			return v > (double)h->max ? (double)h->max : v;
		}
	}
	return (double)h->max;
}

/* prints "name":{"n":..,"p50":..} in microseconds from a histogram of ns */
static UNUSED void hist_json_us(FILE *o, const char *name, const struct hist *h)
{
	fprintf(o,
		"\"%s\":{\"n\":%" PRIu64 ",\"min\":%.1f,\"mean\":%.1f,\"p50\":%.1f,"
		"\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f}",
		name, h->n, (double)h->min / 1e3, h->n ? h->sum / (double)h->n / 1e3 : 0,
		hist_pct(h, 50) / 1e3, hist_pct(h, 90) / 1e3, hist_pct(h, 99) / 1e3,
		hist_pct(h, 99.9) / 1e3, (double)h->max / 1e3);
}

/* ---- CPU of watched processes ------------------------------------------ */

#define WATCH_MAX 8
struct watch {
	char name[32];
	pid_t pid;
	double t0, last;
};
static struct watch watches[WATCH_MAX];
static int nwatch;

/* NAME=PID or PID (then the name is "server") */
static UNUSED void watch_arg(const char *s)
{
	if (!s || nwatch == WATCH_MAX)
		die("--pid needs NAME=PID or PID, %d at most", WATCH_MAX);
	struct watch *w = &watches[nwatch++];
	const char *q = strchr(s, '=');
	snprintf(w->name, sizeof w->name, "%.*s", q ? (int)(q - s) : 6, q ? s : "server");
	w->pid = (pid_t)atoi(q ? q + 1 : s);
	if (w->pid <= 0 || pid_cpu_s(w->pid) < 0)
		die("--pid %s: no such process", s);
}

static UNUSED void watch_start(void)
{
	for (int i = 0; i < nwatch; i++) {
		double c = pid_cpu_s(watches[i].pid);
		watches[i].t0 = watches[i].last = c < 0 ? 0 : c;
	}
}

static UNUSED void watch_sample(void)
{
	for (int i = 0; i < nwatch; i++) {
		double c = pid_cpu_s(watches[i].pid);
		if (c > watches[i].last)
			watches[i].last = c;
	}
}

static UNUSED void watch_json(FILE *o)
{
	fprintf(o, "\"cpu\":{");
	for (int i = 0; i < nwatch; i++)
		fprintf(o, "%s\"%s\":%.3f", i ? "," : "", watches[i].name,
			watches[i].last - watches[i].t0);
	fprintf(o, "}");
}

/* ---- credit page shared between fanbench and a publisher ---------------- */
/* recv = messages received by the slowest live subscriber                   */

struct credit {
	_Atomic uint64_t recv;
	_Atomic uint64_t stop;
};

static UNUSED struct credit *credit_open(const char *path, bool create)
{
	int fd = open(path, create ? O_RDWR | O_CREAT | O_TRUNC : O_RDWR, 0600);
	if (fd < 0)
		die("credit file %s: %s", path, strerror(errno));
	if (create && ftruncate(fd, 4096))
		die("credit file %s: %s", path, strerror(errno));
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		die("credit file %s: %s", path, strerror(errno));
	return p;
}

/* ---- sockets ------------------------------------------------------------ */

static UNUSED int tcp_connect(const char *host, int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
		die("host must be an IPv4 address: %s", host);
	if ((ntohl(a.sin_addr.s_addr) >> 24) != 127)
		die("only loopback (127.0.0.0/8) is allowed: %s", host);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket: %s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
		close(fd);
		return -1;
	}
	int one = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	return fd;
}

static UNUSED void set_nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* Blocking write of everything, also on a non-blocking descriptor. */
static UNUSED int write_all(int fd, const void *b, size_t n)
{
	const char *p = b;
	while (n) {
		ssize_t w = write(fd, p, n);
		if (w < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN) {
				struct pollfd f = { .fd = fd, .events = POLLOUT };
				poll(&f, 1, 1000);
				continue;
			}
			return -1;
		}
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* ---- growing byte buffer ------------------------------------------------- */

struct buf {
	unsigned char *p;
	size_t n, cap;
};

static UNUSED unsigned char *buf_room(struct buf *b, size_t n)
{
	if (b->cap - b->n < n) {
		size_t c = b->cap ? b->cap : 256;
		while (c - b->n < n)
			c *= 2;
		b->p = xrealloc(b->p, c);
		b->cap = c;
	}
	return b->p + b->n;
}

static UNUSED void buf_put(struct buf *b, const void *p, size_t n)
{
	memcpy(buf_room(b, n), p, n);
	b->n += n;
}

static UNUSED __attribute__((format(printf, 2, 3))) void buf_printf(struct buf *b, const char *f,
								    ...)
{
	va_list ap;
	va_start(ap, f);
	int n = vsnprintf((char *)buf_room(b, 1024), 1024, f, ap);
	va_end(ap);
	if (n < 0 || n >= 1024)
		die("buf_printf");
	b->n += (size_t)n;
}

/* ---- WebSocket framing --------------------------------------------------- */

/* Header of a frame; masked ones (client) get the all-zero key, which is
 * legal on the wire and leaves the payload as it is. Returns its length. */
static UNUSED size_t ws_header(unsigned char *h, unsigned op, size_t len, bool mask)
{
	size_t n = 2;
	unsigned char m = mask ? 0x80 : 0;
	h[0] = (unsigned char)(0x80 | op);
	if (len < 126) {
		h[1] = (unsigned char)(m | len);
	} else if (len < 65536) {
		h[1] = m | 126;
		h[2] = (unsigned char)(len >> 8);
		h[3] = (unsigned char)len;
		n = 4;
	} else {
		h[1] = m | 127;
		for (int i = 0; i < 8; i++)
			h[2 + i] = (unsigned char)((uint64_t)len >> (56 - 8 * i));
		n = 10;
	}
	if (mask) {
		memset(h + n, 0, 4);
		n += 4;
	}
	return n;
}

/* The length of the head of the frame at P, without the mask, and of what follows; 0: not all of
 * the head is there. */
static inline size_t ws_head(const unsigned char *p, const unsigned char *e, uint64_t *len)
{
	if (e - p < 2)
		return 0;
	*len = p[1] & 127;
	if (*len < 126)
		return 2;
	if (*len == 126) {
		if (e - p < 4)
			return 0;
		*len = (uint64_t)p[2] << 8 | p[3];
		return 4;
	}
	if (e - p < 10)
		return 0;
	*len = 0;
	for (int i = 2; i < 10; i++)
		*len = *len << 8 | p[i];
	return 10;
}

static UNUSED size_t ws_request(char *b, size_t cap, const char *path, int port)
{
	int n = snprintf(b, cap,
			 "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\n"
			 "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
			 "Sec-WebSocket-Version: 13\r\n\r\n",
			 path, port);
	if (n < 0 || (size_t)n >= cap)
		die("path too long");
	return (size_t)n;
}

/* SHA-1 and base64, for Sec-WebSocket-Accept only. */
static UNUSED void sha1(const unsigned char *m, size_t len, unsigned char out[20])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char blk[192] = { 0 };
	size_t tot = ((len + 8) / 64 + 1) * 64;
	if (tot > sizeof blk)
		die("sha1: too long");
	memcpy(blk, m, len);
	blk[len] = 0x80;
	for (int i = 0; i < 8; i++)
		blk[tot - 1 - (size_t)i] = (unsigned char)((uint64_t)len * 8 >> (8 * i));
	for (size_t o = 0; o < tot; o += 64) {
		uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
		for (int i = 0; i < 16; i++)
			w[i] = (uint32_t)blk[o + (size_t)i * 4] << 24 |
			       (uint32_t)blk[o + (size_t)i * 4 + 1] << 16 |
			       (uint32_t)blk[o + (size_t)i * 4 + 2] << 8 |
			       blk[o + (size_t)i * 4 + 3];
		for (int i = 16; i < 80; i++) {
			uint32_t x = w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16];
			w[i] = x << 1 | x >> 31;
		}
		for (int i = 0; i < 80; i++) {
			uint32_t f, k;
			if (i < 20)
				f = (b & c) | (~b & d), k = 0x5a827999;
			else if (i < 40)
				f = b ^ c ^ d, k = 0x6ed9eba1;
			else if (i < 60)
				f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
			else
				f = b ^ c ^ d, k = 0xca62c1d6;
			uint32_t t = (a << 5 | a >> 27) + f + e + k + w[i];
			e = d;
			d = c;
			c = b << 30 | b >> 2;
			b = a;
			a = t;
		}
		h[0] += a;
		h[1] += b;
		h[2] += c;
		h[3] += d;
		h[4] += e;
	}
	for (int i = 0; i < 20; i++)
		out[i] = (unsigned char)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static UNUSED void b64(const unsigned char *p, size_t n, char *o)
{
	static const char t[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);
		*o++ = t[v >> 18];
		*o++ = t[v >> 12 & 63];
		*o++ = i + 1 < n ? t[v >> 6 & 63] : '=';
		*o++ = i + 2 < n ? t[v & 63] : '=';
	}
	*o = 0;
}

/* Accept value for the key found in a request; out is >= 32 bytes. */
static UNUSED int ws_accept(const char *req, char *out)
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	const char *k = strcasestr(req, "\nSec-WebSocket-Key:");
	if (!k)
		return -1;
	k += 19;
	while (*k == ' ')
		k++;
	size_t n = strcspn(k, " \r\n");
	char m[128];
	if (n + sizeof guid > sizeof m)
		return -1;
	memcpy(m, k, n);
	memcpy(m + n, guid, sizeof guid - 1);
	unsigned char d[20];
	sha1((unsigned char *)m, n + sizeof guid - 1, d);
	b64(d, 20, out);
	return 0;
}

/* ---- fast decimal ---------------------------------------------------------- */

static UNUSED size_t put_u64(char *o, uint64_t v)
{
	char t[20];
	size_t n = 0;
	do
		t[n++] = (char)('0' + v % 10);
	while (v /= 10);
	for (size_t i = 0; i < n; i++)
		o[i] = t[n - 1 - i];
	return n;
}

/* A message generator: what pubbench and limit send. ------------------------- */
/*
 * pair : [SEQ,{"t_ns":T,"pad":"xxxx"}]      exactly `size` bytes, SEQ from `first`
 * trade: {"event_ts":µs,"price":P,"amount":A,"side":S,"seq":SEQ,"t_ns":T}
 * fill : SEQ-less 'x' bytes
 */
enum fmt { FMT_PAIR, FMT_TRADE, FMT_FILL };
struct gen {
	enum fmt fmt;
	size_t size;
	uint64_t seq, rng;
	int64_t cents;
	uint64_t event0; /* fixed epoch µs at start, so rows can be made the same again */
	bool fixed_time;
};

static UNUSED void gen_init(struct gen *g, enum fmt f, size_t size, uint64_t first, uint64_t seed)
{
	memset(g, 0, sizeof *g);
	g->fmt = f;
	g->size = size;
	g->seq = first;
	g->rng = seed * 0x9e3779b97f4a7c15u + 1;
	g->cents = 6412345;
	g->event0 = 1750000000000000u;
	if (f == FMT_PAIR && size < 64)
		die("format pair needs --size >= 64");
}

static inline uint64_t gen_rand(struct gen *g)
{
	uint64_t x = g->rng;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return g->rng = x;
}

/* Writes one message at o (room for size+256), returns its length. */
static UNUSED size_t gen_msg(struct gen *g, char *o, uint64_t t_ns)
{
	char *s = o;
	uint64_t seq = g->seq++;
#define LIT(x) (memcpy(o, x, sizeof(x) - 1), o += sizeof(x) - 1)
	if (g->fmt == FMT_FILL) {
		memset(o, 'x', g->size);
		return g->size;
	}
	if (g->fmt == FMT_PAIR) {
		LIT("[");
		o += put_u64(o, seq);
		LIT(",{\"t_ns\":");
		o += put_u64(o, t_ns);
		LIT(",\"pad\":\"");
		size_t used = (size_t)(o - s) + 3;
		size_t pad = g->size > used ? g->size - used : 0;
		memset(o, 'x', pad);
		o += pad;
		LIT("\"}]");
		return (size_t)(o - s);
	}
	uint64_t r = gen_rand(g);
	g->cents += (int64_t)(r % 41) - 20;
	uint64_t lots = 1 + (r >> 8) % ((r >> 40) % 8 ? 50000 : 5000000);
	uint64_t ev = g->event0 + seq * 937 + (r >> 32) % 937;
	LIT("{\"event_ts\":");
	o += put_u64(o, ev);
	LIT(",\"price\":");
	o += put_u64(o, (uint64_t)g->cents / 100);
	*o++ = '.';
	*o++ = (char)('0' + g->cents / 10 % 10);
	*o++ = (char)('0' + g->cents % 10);
	LIT(",\"amount\":");
	o += put_u64(o, lots / 100000);
	*o++ = '.';
	uint64_t frac = lots % 100000;
	for (uint64_t d = 10000; d; d /= 10)
		*o++ = (char)('0' + frac / d % 10);
	LIT(",\"side\":");
	*o++ = (char)('0' + (r >> 20) % 2);
	LIT(",\"seq\":");
	o += put_u64(o, seq);
	LIT(",\"t_ns\":");
	o += put_u64(o, g->fixed_time ? ev * 1000 : t_ns);
	LIT("}");
	return (size_t)(o - s);
#undef LIT
}

#endif
