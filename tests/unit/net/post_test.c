/*
 * post_test: one request and its answer, over TCP and TLS, and where it may not go.
 *
 * Goal    an answer is told once, whole or cut, whatever its framing and however it is cut into
 *         pieces; TLS checks the name; an address that is not allowed is never connected to.
 * Method  a thread with a socket is the other end, with a certificate made by openssl(1).
 */
#include "net/post.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"
#include "net/address.h"

struct peer {
	int fd;
	uint16_t port;
	pthread_t thread;
	const char *says;
	size_t piece; /* bytes a write, 0: all at once */
	bool keeps;   /* open, until the other side ends */
	bool repeats; /* what it says, until the other side ends */
	struct sc_tls_context *tls;
	atomic_int came;
	char heard[4096];
};

/* The socket blocks: nothing has to be waited for. */
static void serve_tls(struct peer *p, int fd)
{
	struct sc_tls *tls = NULL;
	size_t len = strlen(p->says);

	if (sc_tls_accept(p->tls, fd, &tls, NULL) == 0 && sc_tls_handshake(tls, NULL) == 0 &&
	    sc_tls_read(tls, p->heard, sizeof(p->heard) - 1, NULL) > 0 &&
	    sc_tls_write(tls, p->says, len, NULL) == (ssize_t)len)
		sc_tls_end(tls);
	sc_tls_free(tls);
	close(fd);
}

static void *serve(void *arg)
{
	struct peer *p = arg;
	size_t len = strlen(p->says), got = 0;
	int fd = accept(p->fd, NULL, NULL);
	char rest[512];

	if (fd < 0)
		return NULL;
	atomic_fetch_add(&p->came, 1);
	if (p->tls) {
		serve_tls(p, fd);
		return NULL;
	}
	while (got < sizeof(p->heard) - 1) {
		ssize_t n = recv(fd, p->heard + got, sizeof(p->heard) - 1 - got, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
		p->heard[got] = 0;
		if (strstr(p->heard, "\r\n\r\nhello"))
			break;
	}
	for (size_t at = 0; at < len; at += p->piece ? p->piece : len) {
		size_t n = p->piece && p->piece < len - at ? p->piece : len - at;

		if (send(fd, p->says + at, n, MSG_NOSIGNAL) < 0)
			break;
		if (p->piece)
			usleep(200);
	}
	while (p->repeats && send(fd, p->says, len, MSG_NOSIGNAL) > 0)
		;
	while (p->keeps && recv(fd, rest, sizeof(rest), 0) > 0)
		;
	close(fd);
	return NULL;
}

static void peer_start(struct peer *p)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(p->fd >= 0 && bind(p->fd, (struct sockaddr *)&in, len) == 0);
	CHECK(listen(p->fd, 5) == 0 && getsockname(p->fd, (struct sockaddr *)&in, &len) == 0);
	p->port = ntohs(in.sin_port);
	CHECK(pthread_create(&p->thread, NULL, serve, p) == 0);
}

static void peer_end(struct peer *p)
{
	shutdown(p->fd, SHUT_RDWR);
	pthread_join(p->thread, NULL);
	close(p->fd);
}

struct result {
	struct sc_loop *loop;
	struct sc_post *post;
	int told, status, code;
	bool cut;
	char body[256];
	char why[1200];
};

static void on_done(void *arg, const struct sc_post_answer *answer, const struct sc_err *err)
{
	struct result *r = arg;

	r->told++;
	r->status = answer ? answer->status : 0;
	if (answer) {
		r->cut = answer->cut;
		snprintf(r->body, sizeof(r->body), "%.*s", (int)answer->body.len,
			 answer->body.data ? answer->body.data : "");
	} else {
		r->code = err->code;
		sc_err_line(err, r->why, sizeof(r->why));
	}
	sc_post_free(r->post); /* it may be freed here */
	r->post = NULL;
	sc_loop_stop(r->loop);
}

static bool none(void *arg, const struct sockaddr *address)
{
	(void)arg;
	return sc_address_public(address);
}

static struct result ask(const char *url, struct sc_tls_context *tls, bool only_public,
			 int64_t limit_ms)
{
	struct sc_post_request request = { .fields = "X-Mine: 1\r\n",
					   .body = SC_SPAN("hello"),
					   .limit_ms = limit_ms,
					   .answer_max = 100,
					   .tls = tls,
					   .allow = only_public ? none : NULL };
	struct result r = { .told = 0 };
	struct sc_url parsed;
	struct sc_err err;

	CHECK_OK(sc_loop_new(&r.loop, &err), &err);
	CHECK_OK(sc_url_parse(url, &parsed, &err), &err);
	request.url = &parsed;
	CHECK_OK(sc_post_new(r.loop, &request, on_done, &r, &r.post, &err), &err);
	sc_url_done(&parsed);
	CHECK_INT(r.told, 0);
	CHECK_OK(sc_loop_run(r.loop, &err), &err);
	CHECK_INT(r.told, 1);
	sc_loop_free(r.loop);
	return r;
}

static struct result exchange(const char *says, size_t piece, bool keeps)
{
	struct peer p = { .says = says, .piece = piece, .keeps = keeps };
	struct result r;
	char url[64];

	peer_start(&p);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/x?y=1", p.port);
	r = ask(url, NULL, false, 5000);
	peer_end(&p);
	CHECK(strncmp(p.heard, "POST /x?y=1 HTTP/1.1\r\n", 22) == 0);
	CHECK(strstr(p.heard, "\r\nHost: 127.0.0.1:"));
	CHECK(strstr(p.heard, "\r\nContent-Length: 5\r\n") && strstr(p.heard, "\r\nX-Mine: 1\r\n"));
	return r;
}

TEST(answers_of_every_framing_in_pieces_of_every_size)
{
	static const struct {
		const char *says, *body;
		bool keeps;
		int status;
	} rows[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "abc", true, 200 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abc", true, 200 },
		{ "HTTP/1.1 204 No\r\n\r\n", "", true, 204 },
		{ "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "", true, 500 },
		{ "HTTP/1.0 200 OK\r\n\r\nabc", "abc", false, 200 },
		{ "HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 201 OK\r\n"
		  "Content-Length: 1\r\n\r\nx",
		  "x", true, 201 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;e=1\r\nab\r\n1\r\nc\r\n"
		  "0\r\nT: v\r\n\r\n",
		  "abc", true, 200 },
		{ "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
		  "", true, 302 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (size_t piece = 0; piece < 4; piece++) {
			struct result r = exchange(rows[i].says, piece, rows[i].keeps);

			CHECK_INT(r.status, rows[i].status);
			CHECK_STR(r.body, rows[i].body);
			CHECK(!r.cut);
		}
}

TEST(a_long_answer_is_cut)
{
	static char text[70000];
	size_t at = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n\r\n");
	struct result r;

	memset(text + at, 'z', sizeof(text) - at - 1);
	r = exchange(text, 0, true);
	CHECK_INT(r.status, 200);
	CHECK(r.cut);
	CHECK_INT(strlen(r.body), 100);
}

TEST(what_is_no_answer)
{
	static const char *const rows[] = {
		"",
		"HTTP/1.1 200 OK\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nq\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"HTTP/1.1 101 Switching\r\n\r\n",
		"hello\r\n\r\n",
		"HTTP/2 200\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct result r = exchange(rows[i], i % 3, false);

		if (r.status)
			FAIL("'%s' is taken for an answer", rows[i]);
		CHECK(r.code == SC_E_PROTOCOL || r.code == SC_E_UNAVAILABLE);
	}
}

TEST(there_is_a_limit_of_time)
{
	struct peer p = { .says = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", .keeps = true };
	int64_t began = sc_mono_us();
	struct result r;
	char url[64];

	peer_start(&p);
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", p.port);
	r = ask(url, NULL, false, 300);
	peer_end(&p);
	CHECK_INT(r.code, SC_E_TIMEOUT);
	CHECK(sc_mono_us() - began >= 290000);
}

TEST(answers_before_the_answer_do_not_hold_the_time)
{
	static char text[60000];
	struct peer p = { .says = text, .repeats = true };
	struct result r;
	int64_t began;
	char url[64];

	for (size_t at = 0; at + 30 < sizeof(text);)
		at += (size_t)sprintf(text + at, "HTTP/1.1 102 \r\n\r\n");
	peer_start(&p);
	began = sc_mono_us();
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", p.port);
	r = ask(url, NULL, false, 100);
	CHECK(sc_mono_us() - began < 1500000);
	peer_end(&p);
	CHECK_INT(r.code, SC_E_TIMEOUT);
}

static int to_loopback(const char *host, uint16_t port, struct sockaddr_storage *ret, size_t max)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	(void)max;
	if (strcmp(host, "inner.test") != 0)
		return 0;
	memcpy(&ret[0], &in, sizeof(in));
	in.sin_addr.s_addr = htonl(0x0a000001);
	memcpy(&ret[1], &in, sizeof(in));
	return 2;
}

TEST(an_address_that_is_not_allowed_is_never_connected_to)
{
	struct peer p = { .says = "HTTP/1.1 204 No\r\n\r\n" };
	struct result r;
	char url[64];

	peer_start(&p);
	sc_dial_set_resolver(to_loopback);
	snprintf(url, sizeof(url), "http://inner.test:%u/", p.port);
	r = ask(url, NULL, true, 5000);
	CHECK_INT(r.code, SC_E_NOAUTH);
	CHECK(strstr(r.why, "none that may be used here"));
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/", p.port);
	r = ask(url, NULL, true, 5000);
	CHECK_INT(r.code, SC_E_NOAUTH);
	CHECK_INT(atomic_load(&p.came), 0);
	snprintf(url, sizeof(url), "http://inner.test:%u/", p.port);
	r = ask(url, NULL, false, 5000);
	CHECK_INT(r.status, 204); /* without the limit it is reached */
	CHECK_INT(atomic_load(&p.came), 1);
	sc_dial_set_resolver(NULL);
	peer_end(&p);
}

/* -- TLS -- */

static struct result ask_tls(struct sc_tls_context *server, struct sc_tls_context *client,
			     const char *host)
{
	struct peer p = { .says = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", .tls = server };
	struct result r;
	char url[96];

	peer_start(&p);
	snprintf(url, sizeof(url), "https://%s:%u/", host, p.port);
	r = ask(url, client, false, 5000);
	peer_end(&p);
	return r;
}

TEST(tls_with_the_right_name_only)
{
	struct sc_tls_context *server = NULL, *trusting = NULL, *usual = NULL;
	char dir[] = "/tmp/sc-post-XXXXXX", cert[64], key[64], command[512];
	struct sc_tls_files files = { .cert = cert, .key = key };
	struct result r;
	struct sc_err err;

	CHECK(mkdtemp(dir));
	snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
	snprintf(key, sizeof(key), "%s/key.pem", dir);
	snprintf(command, sizeof(command),
		 "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		 "-days 2 -subj /CN=x -addext subjectAltName=DNS:localhost -keyout %s -out %s "
		 "2>%s/log",
		 key, cert, dir);
	CHECK_INT(system(command), 0);
	CHECK_OK(sc_tls_server_context_new(&files, &server, &err), &err);
	files = (struct sc_tls_files){ .ca = cert };
	CHECK_OK(sc_tls_context_new(&files, &trusting, &err), &err);
	files.ca = NULL;
	CHECK_OK(sc_tls_context_new(&files, &usual, &err), &err);
	r = ask_tls(server, trusting, "localhost");
	CHECK_INT(r.status, 200);
	CHECK_STR(r.body, "hi");
	r = ask_tls(server, usual, "localhost"); /* nobody that is known has signed it */
	CHECK_INT(r.code, SC_E_UNAVAILABLE);
	r = ask_tls(server, trusting, "127.0.0.1"); /* another name */
	CHECK_INT(r.code, SC_E_UNAVAILABLE);
	sc_tls_context_free(server);
	sc_tls_context_free(trusting);
	sc_tls_context_free(usual);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	CHECK_INT(system(command), 0);
}
