/*
 * streamsbench: load for a Durable Streams server over HTTP/1.1, so that the client is not the
 * limit: one thread, epoll, connections that stay open, requests made beforehand. One JSON line on
 * stdout.
 *
 * append   FLIGHT connections, one append in flight on each, to STREAMS streams by turns
 * latency  from the first byte of an append to the last byte of the long-poll that it wakes
 * read     a stream of TOTAL bytes, read from its beginning to its end again and again
 * create   STREAMS empty streams, which stay
 */
#include <sys/epoll.h>

#include "bench.h"

enum { HEAD_MAX = 8192 };

/* One reply, as it comes. */
struct reply {
	char head[HEAD_MAX];
	size_t head_len;
	bool in_body, chunked, in_size; /* in_size: reading a chunk's first line */
	uint64_t left, body;            /* bytes left of the body or chunk; bytes of body seen */
	int status;
	bool up_to_date, last_chunk;
	char next[64];
};

struct conn {
	int fd;
	const char *out;
	size_t out_len, out_at;
	uint64_t sent_ns;
	struct reply in;
};

static int port, flight = 75, streams = 1, count = 2000;
static size_t size = 100, total = 256u << 20;
static double secs = 3;
static const char *base = "/v1/stream/bench";
static char scratch[1 << 20];

static const char *field(const struct reply *r, const char *name)
{
	const char *at = strcasestr(r->head, name);

	return at ? at + strlen(name) : NULL;
}

static void head_done(struct reply *r)
{
	const char *value;

	r->head[r->head_len] = 0;
	if (sscanf(r->head, "HTTP/1.1 %d", &r->status) != 1)
		die("no status line: %.60s", r->head);
	r->in_body = true;
	value = field(r, "\r\ncontent-length:");
	r->left = value ? strtoull(value, NULL, 10) : 0;
	value = field(r, "\r\ntransfer-encoding:");
	r->chunked = r->in_size = value != NULL;
	r->up_to_date = field(r, "\r\nstream-up-to-date:") != NULL;
	value = field(r, "\r\nstream-next-offset:");
	r->next[0] = 0;
	if (value)
		sscanf(value, " %63[0-9_]", r->next);
	r->head_len = 0;
}

/* Bytes of a chunk's first line, or of the empty line behind it, gather in head. */
static bool chunk_line(struct reply *r, char c)
{
	if (r->head_len < HEAD_MAX - 1)
		r->head[r->head_len++] = c;
	if (c != '\n')
		return false;
	r->head[r->head_len] = 0;
	r->head_len = 0;
	if (r->last_chunk)
		return r->head[0] == '\r';
	if (r->head[0] == '\r')
		return false; /* the end of the chunk before */
	r->left = strtoull(r->head, NULL, 16);
	if (r->left == 0)
		r->last_chunk = true;
	else
		r->in_size = false;
	return false;
}

static size_t head_bytes(struct reply *r, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (r->head_len + 1 >= HEAD_MAX)
			die("a head of more than %d bytes", HEAD_MAX);
		r->head[r->head_len++] = p[i];
		if (p[i] == '\n' && r->head_len >= 4 &&
		    !memcmp(r->head + r->head_len - 4, "\r\n\r\n", 4)) {
			head_done(r);
			return i + 1;
		}
	}
	return n;
}

/* True when the reply is whole. */
static bool reply_feed(struct reply *r, const char *p, size_t n)
{
	while (n > 0 || (r->in_body && !r->chunked && r->left == 0)) {
		size_t took;

		if (!r->in_body) {
			took = head_bytes(r, p, n);
		} else if (r->chunked && r->in_size) {
			took = 1;
			if (chunk_line(r, *p))
				return true;
		} else {
			took = n < r->left ? n : (size_t)r->left;
			r->left -= took;
			r->body += took;
			if (r->left == 0 && !r->chunked)
				return true;
			r->in_size = r->left == 0;
		}
		p += took;
		n -= took;
	}
	return false;
}

static void reply_clear(struct reply *r)
{
	r->head_len = 0;
	r->in_body = r->chunked = r->in_size = r->last_chunk = r->up_to_date = false;
	r->left = r->body = 0;
	r->status = 0;
}

static void conn_open(struct conn *c)
{
	int one = 1;

	c->fd = tcp_connect("127.0.0.1", port);
	if (c->fd < 0)
		die("connect: %s", strerror(errno));
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	reply_clear(&c->in);
}

/* One request and its reply, waiting. */
static void conn_ask(struct conn *c, const char *request, size_t len)
{
	ssize_t n;

	reply_clear(&c->in);
	if (write_all(c->fd, request, len) < 0)
		die("send: %s", strerror(errno));
	do {
		n = read(c->fd, scratch, sizeof(scratch));
		if (n <= 0)
			die("the server hung up");
	} while (!reply_feed(&c->in, scratch, (size_t)n));
}

static size_t make_request(char **ret, const char *method, const char *path, const char *query,
			   size_t body)
{
	size_t cap = 512 + strlen(path) + strlen(query) + body;
	char *text = xrealloc(NULL, cap);
	int n = snprintf(
		text, cap,
		"%s %s%s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\n",
		method, path, query);

	if (method[0] == 'P')
		n += snprintf(text + n, cap - (size_t)n, "Content-Length: %zu\r\n", body);
	n += snprintf(text + n, cap - (size_t)n, "\r\n");
	memset(text + n, 'x', body);
	*ret = text;
	return (size_t)n + body;
}

static void stream_path(char path[256], int number)
{
	snprintf(path, 256, "%s/%d", base, number);
}

static void make_streams(struct conn *c, int n)
{
	for (int i = 0; i < n; i++) {
		char path[256], *request;
		size_t len;

		stream_path(path, i);
		len = make_request(&request, "PUT", path, "", 0);
		conn_ask(c, request, len);
		if (c->in.status != 201 && c->in.status != 200)
			die("PUT %s: status %d", path, c->in.status);
		free(request);
	}
}

/* ---- many connections, one request each in flight ---------------------- */

struct load {
	int ep;
	struct conn *conns;
	char **requests; /* of each stream */
	size_t *lens;
	uint64_t done, end_ns, measure_ns;
	int waiting;      /* replies that are out */
	long limit, sent; /* with limit: as many requests and no more */
	struct hist lat;
};

static void load_write(struct load *l, struct conn *c)
{
	while (c->out_at < c->out_len) {
		ssize_t n = write(c->fd, c->out + c->out_at, c->out_len - c->out_at);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0)
			die("send: %s", strerror(errno));
		c->out_at += (size_t)n;
	}
	struct epoll_event e = { .events = EPOLLIN | (c->out_at < c->out_len ? EPOLLOUT : 0),
				 .data.ptr = c };

	if (epoll_ctl(l->ep, EPOLL_CTL_MOD, c->fd, &e) < 0)
		die("epoll_ctl: %s", strerror(errno));
}

static void load_next(struct load *l, struct conn *c, int stream)
{
	c->out = l->requests[stream];
	c->out_len = l->lens[stream];
	c->out_at = 0;
	c->sent_ns = now_ns();
	reply_clear(&c->in);
	l->waiting++;
	l->sent++;
	load_write(l, c);
}

static void load_read(struct load *l, struct conn *c)
{
	ssize_t n = read(c->fd, scratch, sizeof(scratch));
	uint64_t now;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0)
		die("the server hung up");
	if (!reply_feed(&c->in, scratch, (size_t)n))
		return;
	if (c->in.status / 100 != 2)
		die("status %d", c->in.status);
	now = now_ns();
	l->waiting--;
	if (now >= l->measure_ns && now < l->end_ns) {
		l->done++;
		hist_add(&l->lat, now - c->sent_ns);
	}
	if (l->limit ? l->sent < l->limit : now < l->end_ns)
		load_next(l, c, l->limit ? (int)l->sent : (int)(c - l->conns) % streams);
}

static void load_run(struct load *l)
{
	struct epoll_event got[256];

	l->ep = epoll_create1(EPOLL_CLOEXEC);
	l->conns = xrealloc(NULL, (size_t)flight * sizeof(*l->conns));
	for (int i = 0; i < flight; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = &l->conns[i] };

		conn_open(&l->conns[i]);
		set_nonblock(l->conns[i].fd);
		if (epoll_ctl(l->ep, EPOLL_CTL_ADD, l->conns[i].fd, &e) < 0)
			die("epoll_ctl: %s", strerror(errno));
	}
	for (int i = 0; i < flight && (!l->limit || l->sent < l->limit); i++)
		load_next(l, &l->conns[i], l->limit ? i : i % streams);
	while (l->waiting > 0) {
		int n = epoll_wait(l->ep, got, 256, 30000);

		if (n == 0)
			die("no reply for 30 s");
		for (int i = 0; i < n; i++) {
			if (got[i].events & EPOLLOUT)
				load_write(l, got[i].data.ptr);
			if (got[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
				load_read(l, got[i].data.ptr);
		}
	}
}

static void bench_append(void)
{
	static struct load l;
	struct conn c;
	uint64_t start;

	conn_open(&c);
	make_streams(&c, streams);
	l.requests = xrealloc(NULL, (size_t)streams * sizeof(*l.requests));
	l.lens = xrealloc(NULL, (size_t)streams * sizeof(*l.lens));
	for (int i = 0; i < streams; i++) {
		char path[256];

		stream_path(path, i);
		l.lens[i] = make_request(&l.requests[i], "POST", path, "", size);
	}
	start = now_ns();
	l.measure_ns = start + (uint64_t)(secs * 0.2e9);
	l.end_ns = l.measure_ns + (uint64_t)(secs * 1e9);
	load_run(&l);
	printf("{\"tool\":\"streamsbench\",\"appends_s\":%.0f,\"mb_s\":%.2f,\"cpu_s\":%.3f,",
	       (double)l.done / secs, (double)l.done * (double)size / secs / 1e6, self_cpu_s());
	hist_json_us(stdout, "append_us", &l.lat);
	printf("}\n");
}

static void bench_create(void)
{
	static struct load l;
	uint64_t start = now_ns();

	l.requests = xrealloc(NULL, (size_t)streams * sizeof(*l.requests));
	l.lens = xrealloc(NULL, (size_t)streams * sizeof(*l.lens));
	for (int i = 0; i < streams; i++) {
		char path[256];

		stream_path(path, i);
		l.lens[i] = make_request(&l.requests[i], "PUT", path, "", 0);
	}
	l.limit = streams;
	l.end_ns = UINT64_MAX;
	load_run(&l);
	printf("{\"tool\":\"streamsbench\",\"streams\":%d,\"creates_s\":%.0f}\n", streams,
	       streams / ((double)(now_ns() - start) / 1e9));
}

/* ---- an append and the long-poll that it wakes ------------------------- */

static void bench_latency(void)
{
	static struct hist lat;
	struct conn writer, waiter;
	char path[256], *post, *poll_request, query[128], next[64];
	size_t post_len, poll_len;
	ssize_t n;

	conn_open(&writer);
	conn_open(&waiter);
	streams = 1;
	make_streams(&writer, 1);
	stream_path(path, 0);
	snprintf(next, sizeof(next), "%s", writer.in.next);
	post_len = make_request(&post, "POST", path, "", size);
	for (int i = 0; i < count + count / 10; i++) {
		uint64_t start;

		snprintf(query, sizeof(query), "?offset=%s&live=long-poll", next);
		poll_len = make_request(&poll_request, "GET", path, query, 0);
		reply_clear(&waiter.in);
		if (write_all(waiter.fd, poll_request, poll_len) < 0)
			die("send: %s", strerror(errno));
		free(poll_request);
		sleep_until_ns(now_ns() + 1000000); /* that it waits */
		reply_clear(&writer.in);
		start = now_ns();
		if (write_all(writer.fd, post, post_len) < 0)
			die("send: %s", strerror(errno));
		do {
			n = read(waiter.fd, scratch, sizeof(scratch));
			if (n <= 0)
				die("the server hung up");
		} while (!reply_feed(&waiter.in, scratch, (size_t)n));
		if (i >= count / 10)
			hist_add(&lat, now_ns() - start);
		if (waiter.in.status != 200 || waiter.in.body != size)
			die("the long-poll gave status %d, %" PRIu64 " bytes", waiter.in.status,
			    waiter.in.body);
		snprintf(next, sizeof(next), "%s", waiter.in.next);
		do {
			n = read(writer.fd, scratch, sizeof(scratch));
			if (n <= 0)
				die("the server hung up");
		} while (!reply_feed(&writer.in, scratch, (size_t)n));
	}
	free(post);
	printf("{\"tool\":\"streamsbench\",");
	hist_json_us(stdout, "latency_us", &lat);
	printf("}\n");
}

/* ---- catch-up ---------------------------------------------------------- */

static void bench_read(void)
{
	struct conn c;
	char path[256], *request, query[128], next[64] = "-1";
	uint64_t bytes = 0, start, end, rounds = 0;
	size_t len;

	conn_open(&c);
	make_streams(&c, 1);
	stream_path(path, 0);
	len = make_request(&request, "POST", path, "", size);
	for (size_t put = 0; put < total; put += size) {
		conn_ask(&c, request, len);
		if (c.in.status / 100 != 2)
			die("POST: status %d", c.in.status);
	}
	free(request);
	start = now_ns();
	end = start + (uint64_t)(secs * 1e9);
	do {
		snprintf(query, sizeof(query), "?offset=%s", next);
		len = make_request(&request, "GET", path, query, 0);
		conn_ask(&c, request, len);
		free(request);
		if (c.in.status != 200)
			die("GET: status %d", c.in.status);
		bytes += c.in.body;
		rounds += c.in.up_to_date;
		snprintf(next, sizeof(next), "%s", c.in.up_to_date ? "-1" : c.in.next);
	} while (now_ns() < end);
	printf("{\"tool\":\"streamsbench\",\"read_mb_s\":%.1f,\"rounds\":%" PRIu64 "}\n",
	       (double)bytes / ((double)(now_ns() - start) / 1e9) / 1e6, rounds);
}

static void help(void)
{
	printf("usage: streamsbench append|latency|read|create --port N [--base PATH] [--flight N] "
	       "[--streams N] [--size BYTES] [--secs S]\n"
	       "       [--count N] [--total BYTES]\n"
	       "Load for a Durable Streams server on 127.0.0.1; one JSON line on stdout.\n");
	exit(0);
}

static void options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(a, "--help"))
			help();
		if (a[0] != '-')
			continue;
		if (!value)
			die("%s needs a value", a);
		if (!strcmp(a, "--port"))
			port = (int)num_arg(a, value);
		else if (!strcmp(a, "--base"))
			base = value;
		else if (!strcmp(a, "--flight"))
			flight = (int)num_arg(a, value);
		else if (!strcmp(a, "--streams"))
			streams = (int)num_arg(a, value);
		else if (!strcmp(a, "--size"))
			size = (size_t)num_arg(a, value);
		else if (!strcmp(a, "--total"))
			total = (size_t)num_arg(a, value);
		else if (!strcmp(a, "--count"))
			count = (int)num_arg(a, value);
		else if (!strcmp(a, "--secs"))
			secs = num_arg(a, value);
		else
			die("there is no option %s", a);
		i++;
	}
	if (!port || flight < 1 || streams < 1 || size < 1)
		die("see --help");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = { { "append", bench_append },
		      { "latency", bench_latency },
		      { "read", bench_read },
		      { "create", bench_create } };

	options(argc, argv);
	raise_nofile();
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			return 0;
		}
	die("give append, latency, read or create first; see --help");
}
