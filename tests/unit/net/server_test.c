/*
 * Goal    every peer is served or refused as the contract says, whatever it sends, and nobody else
 *         notices.
 * Method  a server in a thread, raw sockets against it; memory, descriptors and processor time are
 *         looked at.
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "server_peer.h"

/* What memory may grow by in a test: the sanitizers keep what was freed. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define GROWTH_MAX (400u << 20)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define GROWTH_MAX (400u << 20)
#endif
#endif
#ifndef GROWTH_MAX
#define GROWTH_MAX (8u << 20)
#endif

static struct peer peer, other;

static void check_serves(void)
{
	peer_open(&other, "/echo");
	peer_frame(&other, 0x81, "still here", 10);
	peer_expect(&other, 0x81, "still here", 10);
	peer_close(&other);
}

static void request(const char *text, size_t len)
{
	peer_init(&peer, peer_dial());
	peer_put(&peer, text, len);
}

#define REQUEST(TEXT) request(TEXT, sizeof(TEXT) - 1)

/* HTTP. */

TEST(a_target_comes_as_it_was_sent)
{
	const char *all;

	app_options();
	app_start();
	REQUEST("GET /a%2Fb%00//./../x+y?q=%20&z#f HTTP/1.1\r\nHost: t\r\n\r\n");
	all = peer_all(&peer);
	CHECK(strncmp(all, "HTTP/1.1 200 OK\r\n", 17) == 0);
	CHECK(strstr(all, "\r\nContent-Length: 29\r\n") &&
	      strstr(all, "\r\nConnection: close\r\n"));
	CHECK_STR(strstr(all, "\r\n\r\n") + 4, "/a%2Fb%00//./../x+y?q=%20&z#f");
	peer_close(&peer);
	REQUEST("HEAD /a HTTP/1.1\r\nHost: t\r\n\r\n");
	all = peer_all(&peer);
	CHECK(strstr(all, "\r\nContent-Length: 2\r\n"));
	CHECK_STR(strstr(all, "\r\n\r\n"), "\r\n\r\n");
	peer_close(&peer);
	REQUEST("GET /old HTTP/1.0\r\n\r\n");
	CHECK(strncmp(peer_all(&peer), "HTTP/1.1 200", 12) == 0);
	peer_close(&peer);
	app_end();
}

TEST(one_answer_a_connection_and_then_its_end)
{
	const char *all;

	app_options();
	app_start();
	REQUEST("GET /1 HTTP/1.1\r\nHost: t\r\n\r\nGET /2 HTTP/1.1\r\nHost: t\r\n\r\nPOST /3 "
		"HTTP/1.1\r\n"
		"Content-Length: 5\r\n\r\nhello");
	all = peer_all(&peer);
	CHECK(strstr(all, "/1"));
	CHECK(!strstr(strstr(all, "/1"), "HTTP/1.1"));
	peer_close(&peer);
	check_serves();
	app_end();
}

static void refused(const char *text, size_t len, int status)
{
	char want[32];
	const char *all;

	snprintf(want, sizeof(want), "HTTP/1.1 %d ", status);
	request(text, len);
	all = peer_all(&peer);
	if (strncmp(all, want, strlen(want)) != 0 || !strstr(all, "Connection: close"))
		FAIL("wanted %d for '%.60s', got '%.60s'", status, text, all);
	if (status == 405)
		CHECK(strstr(all, "Allow: GET, HEAD"));
	peer_close(&peer);
}

#define REFUSED(TEXT, STATUS) refused(TEXT, sizeof(TEXT) - 1, STATUS)

TEST(wrong_requests_are_refused_in_http_1_1)
{
	static char big[40000];

	app_options();
	app_start();
	REFUSED("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
		405);
	REFUSED("PUT / HTTP/1.1\r\nHost: t\r\n\r\n", 405);
	REFUSED("OPTIONS * HTTP/1.1\r\nHost: t\r\n\r\n", 405);
	REFUSED("BREW / HTTP/1.1\r\nHost: t\r\n\r\n", 405);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\n\r\nx", 413);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", 413);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nContent-Length: -0\r\n\r\n", 413);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413);
	REFUSED("GET / HTTP/1.1\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\n folded: x\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nno colon\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost : t\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nX: a\0b\r\n\r\n", 400);
	REFUSED("GET / HTTP/1.1\r\nHost: t\nX: y\r\n\r\n", 400);
	REFUSED("GET /a\0b HTTP/1.1\r\nHost: t\r\n\r\n", 400);
	REFUSED("GET  / HTTP/1.1\r\nHost: t\r\n\r\n", 400);
	REFUSED("GET /\r\nHost: t\r\n\r\n", 400);
	REFUSED("\x16\x03\x01\x02\r\n\r\n", 400);
	REFUSED("GET / HTTP/9.9\r\nHost: t\r\n\r\n", 505);
	REFUSED("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
	memset(big, 'a', sizeof(big));
	memcpy(big, "GET /", 5);
	refused(big, sizeof(big), 414);
	memcpy(big, "GET / HTTP/1.1\r\nX: ", 19);
	refused(big, sizeof(big), 431);
	for (size_t i = 16, n = 0; n < 120; i += 6, n++)
		memcpy(big + i, "X: y\r\n", 6);
	memcpy(big + 16 + 720, "\r\n", 2);
	refused(big, 16 + 722, 431);
	CHECK(app_stats().bad_requests >= 20);
	check_serves();
	app_end();
}

TEST(a_refusal_arrives_though_the_body_was_not_read)
{
	static char body[3000000];

	app_options();
	app_start();
	REQUEST("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 3000000\r\n\r\n");
	peer_put(&peer, body, sizeof(body));
	CHECK(strstr(peer_head(&peer), "405 Method Not Allowed"));
	/* A clean end: a reset could have overtaken the answer. */
	for (ssize_t n = 1; n > 0;) {
		n = recv(peer.fd, peer.in, sizeof(peer.in), 0);
		CHECK(n >= 0);
	}
	peer_close(&peer);
	app_end();
}

#define WS "GET / HTTP/1.1\r\nHost: t\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"

TEST(wrong_upgrades_are_refused)
{
	app_options();
	app_start();
	REFUSED(WS "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", 426);
	REFUSED(WS
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n\r\n",
		426);
	REFUSED(WS "Sec-WebSocket-Version: 13\r\n\r\n", 400);
	REFUSED(WS "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n", 400);
	REFUSED(WS
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ!!\r\n\r\n",
		400);
	REFUSED("GET / HTTP/1.1\r\nHost: t\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		400);
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/refuse", ""), "HTTP/1.1 403 Forbidden"));
	CHECK_STR(peer_all(&peer), "not you\n");
	peer_close(&peer);
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/echo", "Sec-WebSocket-Protocol: two, one\r\n"),
		     "\r\nSec-WebSocket-Protocol: one"));
	peer_close(&peer);
	app_end();
}

TEST(tokens_and_origins)
{
	static const char *const origins[] = { "https://good.example" };

	app_options();
	app.options.origins = origins;
	app.options.origin_count = 1;
	app_start();
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/secret", ""), "401 Unauthorized\r\n"));
	CHECK_STR(peer_all(&peer), "a token is needed\n");
	peer_close(&peer);
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/secret", "authorization:  Bearer open \r\n"), " 101 "));
	peer_close(&peer);
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/", "Origin: https://evil.example\r\n"), " 403 "));
	peer_close(&peer);
	peer_init(&peer, peer_dial());
	CHECK(strstr(peer_upgrade(&peer, "/", "Origin: https://good.example\r\n"), " 101 "));
	peer_close(&peer);
	CHECK_INT(app_stats().refused_auth, 1);
	CHECK_INT(app_stats().refused_origin, 1);
	app_end();
}

TEST(events_are_streamed)
{
	const char *all;

	app_options();
	app_start();
	REQUEST("GET /sse?3 HTTP/1.1\r\nHost: t\r\n\r\n");
	all = peer_all(&peer);
	CHECK(strstr(all, "\r\nContent-Type: text/event-stream\r\n") &&
	      !strstr(all, "Content-Length"));
	CHECK_STR(strstr(all, "\r\n\r\n") + 4, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 1000);
	REQUEST("GET /sse?999999999 HTTP/1.1\r\nHost: t\r\n\r\n");
	(void)peer_head(&peer);
	peer_close(&peer);
	WAIT_FOR(app.closed == 2);
	CHECK_INT(app.last_code, 1006);
	app_end();
}

/* Frames. */

TEST(messages_come_whole)
{
	static char big[1 << 20];

	app_options();
	app_start();
	peer_open(&peer, "/echo");
	peer_frame(&peer, 0x81, "", 0);
	peer_expect(&peer, 0x81, "", 0);
	peer_frame(&peer, 0x01, "fr\xc3", 3); /* split inside a letter, a ping in between */
	peer_frame(&peer, 0x89, "hello", 5);
	peer_expect(&peer, 0x8a, "hello", 5);
	peer_frame(&peer, 0x00, "\xa4g", 2);
	peer_frame(&peer, 0x80, "ment", 4);
	peer_expect(&peer, 0x81, "fr\xc3\xa4gment", 9);
	memset(big, 'b', sizeof(big));
	for (int i = 0; i < 3; i++) {
		peer_frame(&peer, 0x82, big, sizeof(big) - 14);
		peer_expect(&peer, 0x82, big, sizeof(big) - 14);
	}
	/* byte by byte */
	for (size_t i = 0; i < 14; i++)
		peer_put(&peer,
			 &"\x81\x88\x00\x00\x00\x00"
			  "abcdefgh"[i],
			 1);
	peer_expect(&peer, 0x81, "abcdefgh", 8);
	peer_frame(&peer, 0x88,
		   "\x03\xe8"
		   "bye",
		   5);
	peer_expect_close(&peer, 1000);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 1000);
	CHECK_INT(app.last_by_peer, 1);
	CHECK_STR(app.last_reason, "bye");
	app_end();
}

static void broken(const void *data, size_t len, int code)
{
	peer_open(&peer, "/echo");
	peer_put(&peer, data, len);
	peer_expect_close(&peer, code);
	peer_close(&peer);
	WAIT_FOR(app.closed == app.opened);
	CHECK_INT(app.last_code, code);
}

#define BROKEN(TEXT, CODE) broken(TEXT, sizeof(TEXT) - 1, CODE)

TEST(malformed_frames_end_their_own_connection)
{
	unsigned char out[64];

	app_options();
	app_start();
	BROKEN("\x81\x01"
	       "a",
	       1002);                                     /* not masked */
	BROKEN("\xc1\x81\1\2\3\4x", 1002);                /* RSV1 without compression */
	BROKEN("\x83\x80\1\2\3\4", 1002);                 /* reserved opcode */
	BROKEN("\x80\x80\1\2\3\4", 1002);                 /* continues nothing */
	BROKEN("\x01\x80\1\2\3\4\x81\x80\1\2\3\4", 1002); /* message inside a message */
	BROKEN("\x09\x80\1\2\3\4", 1002);                 /* ping in fragments */
	BROKEN("\x89\xfe\x00\x7e\1\2\3\4", 1002);         /* ping too long */
	BROKEN("\x82\xfe\x00\x05\1\2\3\4", 1002);         /* length not shortest */
	BROKEN("\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\2\3\4", 1002);
	BROKEN("\x82\xff\x3f\xff\xff\xff\xff\xff\xff\xff\1\2\3\4", 1009);
	BROKEN("\x82\xff\x00\x00\x00\x00\x00\x10\x00\x01\1\2\3\4",
	       1009);                             /* one over 1 MiB, not a byte of it sent */
	BROKEN("\x88\x81\0\0\0\0\3", 1002);       /* half a code */
	BROKEN("\x88\x82\0\0\0\0\x03\xed", 1002); /* 1005 may not be sent */
	broken(out, frame_make(out, 0x81, "a\xff", 2, 2), 1007);
	broken(out, frame_make(out, 0x81, "\xed\xa0\x80", 3, 3), 1007);
	broken(out, frame_make(out, 0x88, "\x03\xe8\xff", 3, 3), 1007);
	CHECK_INT(app_stats().protocol_errors, 16);
	check_serves();
	app_end();
}

/* Frames that are mostly right, with bytes changed; then half of them reset the connection. */
TEST(random_frames_hurt_nobody_else)
{
	static const char *const targets[] = { "/echo", "/discard", "/pause", "/messages?100000",
					       "/frames?100000" };
	static unsigned char run[70000];

	app_options();
	app.options.deflate = true;
	app.options.close_ms = 100;
	app_start();
	for (int i = 0; i < 400; i++) {
		struct linger reset = { 1, 0 };
		size_t len = 0;

		peer_init(&peer, peer_dial());
		(void)peer_upgrade(&peer, targets[i % 5],
				   i & 1 ? "Sec-WebSocket-Extensions: permessage-deflate\r\n" : "");
		for (int k = 0; k < 20; k++) {
			static const unsigned char firsts[] = { 0x81, 0x82, 0x01, 0x80,
								0x89, 0x8a, 0xc1, 0x88 };
			static char text[3000];
			size_t n = sc_random_below(k % 5 ? 120 : 3000);

			memset(text, 'a' + k, sizeof(text));
			len += frame_make(run + len, firsts[sc_random_below(k < 12 ? 7 : 8)], text,
					  n, n);
		}
		for (uint64_t k = sc_random_below(4); k > 0; k--)
			run[sc_random_below(len)] ^= (unsigned char)(1 << sc_random_below(8));
		(void)send(peer.fd, run, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sc_random_below(2))
			setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		else if (sc_random_below(2))
			(void)recv(peer.fd, run, sizeof(run), 0);
		peer_close(&peer);
		if (i % 50 == 0)
			check_serves();
	}
	WAIT_FOR(app_stats().connections == 0);
	CHECK_INT(app.closed, app.opened);
	app.order_faults = 0; /* /pause counts what is not its own pattern */
	app_end();
}

TEST(the_server_closes_with_code_and_reason)
{
	unsigned first;
	struct sc_span payload;
	size_t whole;

	app_options();
	app.options.close_ms = 200;
	app_start();
	peer_open(&peer, "/close?4404");
	CHECK(peer_look(&peer, &first, &payload, &whole));
	CHECK_INT(first, 0x88);
	CHECK_MEM(payload.data, payload.len, "\x11\x34{\"error\":\"no_such_stream\"}");
	peer_expect_close(&peer, 4404);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 4404);
	CHECK_INT(app.last_by_peer, 0);
	/* One that never answers is cut after the limit. */
	peer_open(&peer, "/close?4400");
	while (peer_fill(&peer) > 0)
		;
	WAIT_FOR(app.closed == 2);
	peer_close(&peer);
	/* Aborted: no Close. */
	peer_open(&peer, "/echo");
	peer_frame(&peer, 0x81, "abort", 5);
	CHECK(!peer_look(&peer, &first, &payload, &whole));
	peer_close(&peer);
	app_end();
}

static size_t rss(void)
{
	char text[4096] = "", *at;
	FILE *f = fopen("/proc/self/status", "r");
	size_t n = fread(text, 1, sizeof(text) - 1, f);

	fclose(f);
	text[n] = '\0';
	at = strstr(text, "VmRSS:");
	return at ? strtoull(at + 6, NULL, 10) * 1024 : 0;
}

/* Frames numbered from 0 to COUNT, in order and intact, with pings of the client's own in
 * between. */
static void read_frames(struct peer *p, uint64_t count, uint64_t *ret_pongs)
{
	uint64_t next = 0, pongs = 0, pings = 0;
	size_t at = 0;

	while (next < count) {
		/* Whole frames from the front of p->in. */
		at = 0;
		while (next < count && p->in_len - at >= 2 &&
		       p->in_len - at >= 2u + p->in[at + 1]) {
			char want[FRAME_TEXT_MAX];
			size_t n = p->in[at + 1];

			if (p->in[at] == 0x8a) {
				CHECK_INT(n, 7);
				CHECK(memcmp(p->in + at + 2, "ping me", 7) == 0);
				pongs++;
			} else {
				CHECK_INT(p->in[at], 0x81);
				CHECK_INT(n, frame_text(next, want));
				CHECK(memcmp(p->in + at + 2, want, n) == 0);
				next++;
			}
			at += 2 + n;
		}
		peer_drop(p, at);
		if (next < count) {
			peer_frame(p, 0x89, "ping me", 7);
			pings++;
			CHECK(peer_fill(p) > 0);
		}
	}
	CHECK(pongs <= pings);
	*ret_pongs = pongs;
}

TEST(every_frame_is_intact_while_the_client_pings)
{
	uint64_t pongs, count = getenv("SC_TEST_FRAMES")
					? strtoull(getenv("SC_TEST_FRAMES"), NULL, 10)
					: 4000000; /* 110 MB */
	char target[64];

	app_options();
	app_start();
	snprintf(target, sizeof(target), "/frames?%" PRIu64, count);
	peer_open(&peer, target);
	read_frames(&peer, count, &pongs);
	CHECK(pongs > 10);
	peer_expect_close(&peer, 1000);
	peer_close(&peer);
	CHECK(app.waiting_max < FRAME_TEXT_MAX + 2); /* the end of one frame, never more */
	app_end();
}

static void frames_over(int fd)
{
	uint64_t pongs;

	peer_limits(fd);
	peer_init(&peer, fd);
	CHECK(strstr(peer_upgrade(&peer, "/frames?300000", ""), " 101 "));
	read_frames(&peer, 300000, &pongs);
	peer_expect_close(&peer, 1000);
	peer_close(&peer);
}

TEST(ipv6_and_unix_sockets_serve_the_same)
{
	static const char *listen_on[2] = { "[::1]:0" };
	char dir[] = "/tmp/sc-server-XXXXXX", address[64];
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	CHECK(mkdtemp(dir));
	snprintf(address, sizeof(address), "unix:%s/s", dir);
	listen_on[1] = address;
	app_options();
	app.options.listen = listen_on;
	app.options.listen_count = 2;
	app_start();
	CHECK_STR(sc_server_address(app.server, 1), address);
	CHECK(!sc_server_address(app.server, 2));
	in6.sin6_port = htons((uint16_t)peer_port);
	fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(fd, (struct sockaddr *)&in6, sizeof(in6)) == 0);
	frames_over(fd);
	strcpy(un.sun_path, address + 5);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0);
	frames_over(fd);
	app_end();
	CHECK(access(un.sun_path, F_OK) < 0);
	CHECK(rmdir(dir) == 0);
}

TEST(a_client_that_pings_and_does_not_read_costs_nothing)
{
	static unsigned char pings[131 * 500];
	unsigned char text[125];
	size_t len = 0, before;
	int64_t until;

	app_options();
	app.options.sndbuf_bytes = 4096;
	app_start();
	memset(text, 'p', sizeof(text));
	for (int i = 0; i < 500; i++)
		len += frame_make(pings + len, 0x89, text, 125, 125);
	peer_open(&peer, "/frames?100000000");
	before = rss();
	/* While it writes: nothing may pile up in the server. */
	until = sc_mono_us() + 400000;
	while (sc_mono_us() < until)
		peer_put(&peer, pings, len);
	CHECK(rss() < before + GROWTH_MAX);
	CHECK(app_stats().bytes_in > 10 << 20);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	app_end();
}

TEST(messages_of_a_subscriber_are_thrown_away)
{
	static char big[60000];
	size_t before;

	app_options();
	app_start();
	memset(big, 'x', sizeof(big));
	peer_open(&peer, "/discard");
	before = rss();
	for (int i = 0; i < 1000; i++)
		peer_frame(&peer, 0x81, big, sizeof(big));
	peer_frame(&peer, 0x89, "?", 1);
	peer_expect(&peer, 0x8a, "?", 1);
	CHECK(rss() < before + GROWTH_MAX);
	CHECK_INT(app_stats().messages_in, 1000);
	peer_frame(&peer, 0x01, big, sizeof(big));
	peer_frame(&peer, 0x80, big, sizeof(big)); /* over 64 KiB together */
	peer_expect_close(&peer, 1009);
	peer_close(&peer);
	app_end();
}

TEST(a_paused_connection_loses_nothing)
{
	static unsigned char run[1000 * 80];
	size_t len = 0;

	app_options();
	app_start();
	peer_open(&peer, "/pause");
	for (uint64_t i = 0; i < 1000; i++) {
		char text[FRAME_TEXT_MAX];
		size_t n = frame_text(i, text);

		len += frame_make(run + len, 0x81, text, n, n);
	}
	peer_put(&peer, run, len);
	for (uint64_t i = 100; i <= 1000; i += 100) {
		char text[FRAME_TEXT_MAX];

		peer_expect(&peer, 0x81, text, frame_text(i - 1, text));
	}
	peer_frame(&peer, 0x88, "\x03\xe8", 2);
	peer_expect_close(&peer, 1000);
	peer_close(&peer);
	app_end();
}

/* Time-outs and limits. */

TEST(slow_heads_and_silent_peers_are_cut)
{
	app_options();
	app.options.handshake_ms = 150;
	app_start();
	peer_init(&other, peer_dial());
	REQUEST("GET / HTTP/1.1\r\nHos");
	CHECK(strncmp(peer_all(&peer), "HTTP/1.1 408 ", 13) == 0);
	CHECK_INT(peer_fill(&other), 0);
	peer_close(&peer);
	peer_close(&other);
	CHECK_INT(app_stats().handshake_timeouts, 2);
	app_end();
}

TEST(dead_peers_are_dropped_and_live_ones_kept)
{
	int64_t until;

	app_options();
	app.options.ping_ms = 50;
	app.options.pong_ms = 200;
	app_start();
	peer_open(&other, "/echo"); /* never answers */
	peer_open(&peer, "/echo");
	until = sc_mono_us() + 700000;
	while (sc_mono_us() < until) {
		peer_expect(&peer, 0x89, "", 0);
		peer_frame(&peer, 0x8a, "", 0);
	}
	peer_expect_close(&other, 1011);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 1011);
	CHECK_STR(app.last_reason, "keepalive ping timeout");
	peer_frame(&peer, 0x81, "x", 1);
	while (peer.in_len && peer.in[0] == 0x89)
		peer_drop(&peer, 2);
	peer_close(&peer);
	peer_close(&other);
	app_end();
}

TEST(a_slow_reader_that_reads_is_alive_and_a_stalled_one_is_not)
{
	int64_t until;

	app_options();
	app.options.ping_ms = 50;
	app.options.pong_ms = 200;
	app.options.sndbuf_bytes = 65536;
	app_start();
	peer_open(&peer, "/frames?100000000");
	peer_open(&other, "/frames?100000000");
	until = sc_mono_us() + 1500000;
	while (sc_mono_us() < until) {
		char some[32768];

		CHECK(recv(peer.fd, some, sizeof(some), 0) > 0);
		usleep(1000);
	}
	WAIT_FOR(app.closed == 1); /* the other */
	CHECK_INT(app.last_code, 1011);
	CHECK_INT(app_stats().keepalive_drops, 1);
	CHECK_INT(app_stats().clients, 1);
	peer_close(&peer);
	peer_close(&other);
	app_end();
}

TEST(clients_over_the_limit_get_503)
{
	static struct peer third;

	app_options();
	app.options.clients_max = 2;
	app_start();
	peer_open(&peer, "/echo");
	peer_open(&other, "/echo");
	peer_init(&third, peer_dial());
	CHECK(strstr(peer_upgrade(&third, "/echo", ""), "HTTP/1.1 503 Service Unavailable"));
	peer_close(&third);
	peer_init(&third, peer_dial());
	peer_puts(&third, "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"); /* is told nevertheless */
	CHECK(strstr(peer_head(&third), " 200 "));
	peer_close(&third);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	peer_open(&peer, "/echo");
	CHECK_INT(app_stats().refused_limit, 1);
	peer_close(&peer);
	peer_close(&other);
	app_end();
}

TEST(connections_from_one_address_over_the_limit_get_503)
{
	app_options();
	app.options.per_address_max = 1;
	app_start();
	peer_open(&peer, "/echo");
	peer_init(&other, peer_dial());
	CHECK(strstr(peer_upgrade(&other, "/echo", ""), "HTTP/1.1 503 "));
	peer_close(&other);
	peer_close(&peer);
	WAIT_FOR(app_stats().connections == 0);
	check_serves();
	app_end();
}

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(two_thousand_connects_and_leaves)
{
	int before, ended = 0;
	size_t memory = 0;

	app_options();
	app_start();
	check_serves();
	WAIT_FOR(app_stats().connections == 0);
	before = open_files();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 1000; i++) {
			struct linger reset = { 1, 0 };

			peer_init(&peer, peer_dial());
			if (i % 4 == 1)
				peer_puts(&peer, "GET / HT");
			if (i % 4 >= 2) {
				(void)peer_upgrade(&peer, i % 8 < 4 ? "/echo" : "/frames?100000",
						   "");
				ended++;
			}
			if (i % 2)
				setsockopt(peer.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
			peer_close(&peer);
		}
		WAIT_FOR(app_stats().connections == 0);
		malloc_trim(0);
		if (round == 0)
			memory = rss();
	}
	CHECK_INT(app.opened, ended + 1);
	CHECK_INT(app.closed, app.opened);
	CHECK_INT(open_files(), before);
	CHECK(rss() < memory + GROWTH_MAX / 2);
	CHECK_INT(app_stats().clients, 0);
	app_end();
}

static int64_t cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec +
	       u.ru_stime.tv_usec;
}

TEST(without_descriptors_it_waits_and_does_not_spin)
{
	int fds[200], n = 0;
	struct rlimit was, low;
	int64_t before;

	app_options();
	app_start();
	getrlimit(RLIMIT_NOFILE, &was);
	for (; n < 40; n++)
		fds[n] = peer_dial();
	WAIT_FOR(app_stats().connections == 40);
	low = was;
	low.rlim_cur = (rlim_t)open_files() + 20;
	setrlimit(RLIMIT_NOFILE, &low);
	for (; n < 60; n++) { /* each takes two, here and in the server, so that these run out */
		fds[n] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[n] < 0)
			break;
		struct sockaddr_in a = { .sin_family = AF_INET,
					 .sin_port = htons((uint16_t)peer_port),
					 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		CHECK(connect(fds[n], (struct sockaddr *)&a, sizeof(a)) == 0);
	}
	WAIT_FOR(app_stats().accept_failures > 0);
	before = cpu_us();
	usleep(300000);
	CHECK(cpu_us() - before < 100000);
	setrlimit(RLIMIT_NOFILE, &was);
	check_serves();
	while (n-- > 0)
		close(fds[n]);
	app_end();
}

TEST(a_hundred_idle_subscribers_cost_no_time)
{
	static struct peer many[1];
	int fds[100];
	int64_t before;

	app_options();
	app_start();
	for (int i = 0; i < 100; i++) {
		peer_open(&many[0], "/discard");
		fds[i] = many[0].fd;
	}
	before = cpu_us();
	usleep(300000);
	CHECK(cpu_us() - before < 15000);
	for (int i = 0; i < 100; i++)
		close(fds[i]);
	app_end();
}

TEST(shutdown_says_1001_to_all)
{
	static struct peer sse;

	app_options();
	app.grace_ms = 300;
	app_start();
	peer_open(&peer, "/echo");
	peer_open(&other, "/echo"); /* never answers: cut when the grace is over */
	peer_init(&sse, peer_dial());
	peer_puts(&sse, "GET /sse?99999999 HTTP/1.1\r\nHost: t\r\n\r\n");
	(void)peer_head(&sse);
	app_command(CMD_STOP);
	peer_expect_close(&peer, 1001);
	for (;;) {
		ssize_t n = recv(sse.fd, sse.in, sizeof(sse.in), 0);

		if (n <= 0)
			break;
	}
	CHECK(pthread_join(app.thread, NULL) == 0);
	CHECK_INT(app.stopped, 1);
	CHECK_INT(app.closed, 3);
	sc_server_free(app.server);
	sc_loop_free(app.loop);
	peer_close(&peer);
	peer_close(&other);
	peer_close(&sse);
}
