/*
 * Goal    every request, upgrade and frame is served or refused as the contract says, and nobody
 *         else notices.
 * Method  a server in a thread, raw sockets against it.
 */
#include "server_run.h"

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
	for (size_t i = 16, n = 0; n < 220; i += 6, n++)
		memcpy(big + i, "X: y\r\n", 6);
	memcpy(big + 16 + 1320, "\r\n", 2);
	refused(big, 16 + 1322, 431);
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

TEST(a_message_in_a_hurry_is_sent_from_within_a_hook)
{
	app_options();
	app_start();
	peer_open(&other, "/told");
	peer_open(&peer, "/hold");
	WAIT_FOR(app.opened == 2);
	peer_frame(&peer, 0x81, "now", 3);
	WAIT_FOR(app.holding);
	peer_expect(&other, 0x81, "now", 3);
	CHECK_INT(app.holding, 1);
	app.holding = 0;
	peer_close(&other);
	peer_close(&peer);
	app_end();
}

/* The server learns of the bytes and of the end at once: a short read is not all there is. */
TEST(an_end_right_behind_the_last_bytes_is_seen)
{
	app_options();
	app.options.ping_ms = 3600000;
	app_start();
	peer_open(&other, "/echo");
	peer_open(&peer, "/hold");
	peer_frame(&peer, 0x81, "stand still", 11);
	WAIT_FOR(app.holding);
	peer_frame(&other, 0x81, "the last", 8);
	CHECK(shutdown(other.fd, SHUT_WR) == 0);
	app.holding = 0;
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 1006);
	peer_close(&other);
	peer_close(&peer);
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
