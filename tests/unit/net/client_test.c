/*
 * Goal    the client tells whole messages and true ends, and refuses what breaks the protocol.
 * Method  a peer in a thread plays each case over a loopback socket; the hooks' words are compared.
 */
#include "client_run.h"

/* The request and its messages. */

static void script_request(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_upgrade(p, "Sec-WebSocket-Protocol: b\r\n"));
	PEER_CHECK(p, !strncmp(p->request, "GET /t?offset=5 HTTP/1.1\r\n", 26));
	PEER_CHECK(p, peer_asked(p, "Origin: https://o"));
	PEER_CHECK(p, peer_asked(p, "User-Agent: me"));
	PEER_CHECK(p, peer_asked(p, "Sec-WebSocket-Protocol: a, b"));
	PEER_CHECK(p, peer_asked(p, "Sec-WebSocket-Version: 13"));
	PEER_CHECK(p, peer_asked(p, "Authorization: Basic dTpwdw=="));
	PEER_CHECK(p, peer_asked(p, "X-One: 1"));
	PEER_CHECK(p, strstr(p->request, "Host: 127.0.0.1:"));
	PEER_CHECK(p, !strstr(p->request, "Extensions"));
	PEER_CHECK(p, peer_close(p, 1000, "done"));
}

TEST(the_request_says_what_was_asked_for)
{
	static const char *const headers[] = { "X-One: 1" };

	begin(script_request);
	w.o.origin = "https://o";
	w.o.user_agent = "me";
	w.o.subprotocol = "a, b";
	w.o.headers = headers;
	w.o.header_count = 1;
	w.o.compress = false;
	snprintf(url, sizeof(url), "ws://u:pw@127.0.0.1:%d/t?offset=5", peer.port);
	watcher_run(&w, url);
	finish("open lost:1000 end:unavailable");
	CHECK_STR(w.opened_sub, "b");
	CHECK_STR(w.close_reason, "done");
	CHECK(w.clean);
	CHECK(!strstr(w.reason, "pw") && !strstr(w.where, "pw"));
}

static void script_token(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_asked(p, "Authorization: Bearer one"));
	PEER_CHECK(p, peer_text(p, "x"));
	PEER_CHECK(p, peer_close(p, 1001, ""));
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_asked(p, "Authorization: Bearer two"));
	PEER_CHECK(p, peer_close(p, 1001, ""));
}

static char token_path[] = "/tmp/sc-client-test-XXXXXX";

static void write_token(const char *text)
{
	FILE *f = fopen(token_path, "w");

	CHECK(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void token_act(struct watcher *on, const char *word)
{
	(void)on;
	if (!strcmp(word, "t:x"))
		write_token("two\n");
}

static void script_nothing(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	while (!peer_at_end(p))
		;
}

TEST(a_file_with_what_is_no_header_is_refused)
{
	static const char lines[][8] = { "X\0Y: aaa", "X Y: aaa", ": aaaaaa", "X: a\0bbb",
					 "X aaaaaa" };
	static const char *const files[] = { token_path };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		FILE *f;
		int fd = mkstemp(token_path);

		CHECK(fd >= 0 && (f = fdopen(fd, "w")) != NULL);
		CHECK(fwrite(lines[i], 8, 1, f) && fclose(f) == 0);
		begin(script_nothing);
		w.o.header_files = files;
		w.o.header_file_count = 1;
		watcher_run(&w, url);
		finish("fail:0 end:configuration");
		CHECK(unlink(token_path) == 0);
		strcpy(token_path + strlen(token_path) - 6, "XXXXXX");
	}
}

TEST(a_token_is_read_again_for_each_connection)
{
	int fd = mkstemp(token_path);

	CHECK(fd >= 0);
	close(fd);
	write_token(" one \n");
	begin(script_token);
	w.o.token_file = token_path;
	w.o.retry.tries = 1;
	w.act = token_act;
	watcher_run(&w, url);
	unlink(token_path);
	finish("open t:x lost:1001 open lost:1001 end:unavailable");
}

static void script_messages(struct peer *p)
{
	static const char euro[] = "\xe2\x82\xac";

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_frame(p, 0x01, euro, 1));
	PEER_CHECK(p, peer_frame(p, 0x89, "ping", 4));
	PEER_CHECK(p, peer_expect(p, 0x8a, "ping", 4));
	PEER_CHECK(p, peer_frame(p, 0x00, euro + 1, 1));
	PEER_CHECK(p, peer_frame(p, 0x80, euro + 2, 1));
	PEER_CHECK(p, peer_frame(p, 0x82, "\0\1\2", 3));
	PEER_CHECK(p, peer_text(p, ""));
	PEER_CHECK(p, peer_close(p, 4429, "{\"error\":\"too_slow\"}"));
	PEER_CHECK(p, peer_at_end(p) || true);
}

TEST(fragments_are_whole_messages_with_pings_between)
{
	run(script_messages, "open t:\xe2\x82\xac b:3 t: lost:4429 end:unavailable");
	CHECK_STR(w.close_reason, "{\"error\":\"too_slow\"}");
	CHECK_INT(w.messages, 3);
}

static void script_data_behind_head(struct peer *p)
{
	char head[1000];
	unsigned char digest[EVP_MAX_MD_SIZE], text[64];
	char both[128];
	unsigned len;

	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	snprintf(both, sizeof(both), "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11",
		 strstr(p->request, "Sec-WebSocket-Key: ") + 19);
	EVP_Digest(both, strlen(both), digest, &len, EVP_sha1(), NULL);
	EVP_EncodeBlock(text, digest, (int)len);
	snprintf(head, sizeof(head),
		 "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 101 x\r\nUpgrade: WEBSOCKET\r\nConnection: "
		 "upgrade\r\n"
		 "Sec-WebSocket-Accept: %s\r\n\r\n\x81\x02hi\x81\x03you",
		 text);
	PEER_CHECK(p, peer_puts(p, head));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

TEST(data_right_behind_the_head_is_not_lost)
{
	run(script_data_behind_head, "open t:hi t:you lost:1000 end:unavailable");
}

static void send_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open")) {
		CHECK_OK(sc_client_send(on->client, SC_SPAN("one"), false, &err), &err);
		CHECK_OK(sc_client_send(on->client, SC_SPAN("two"), true, &err), &err);
	} else if (!strcmp(word, "t:bye")) {
		sc_client_close(on->client, 1000, "enough");
	}
}

static void script_ours(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_expect(p, 0x81, "one", 3));
	PEER_CHECK(p, peer_expect(p, 0x82, "two", 3));
	PEER_CHECK(p, peer_text(p, "bye"));
	PEER_CHECK(p, peer_expect(p, 0x88,
				  "\x03\xe8"
				  "enough",
				  8));
	PEER_CHECK(p, peer_text(p, "thrown away"));
	PEER_CHECK(p, peer_frame(p, 0x88, "\x03\xe8", 2));
	PEER_CHECK(p, peer_at_end(p));
}

TEST(messages_go_out_in_order_and_our_close_waits_for_its_echo)
{
	begin(script_ours);
	w.act = send_act;
	watcher_run(&w, url);
	finish("open t:bye lost:1000 end:ok");
	CHECK(w.clean);
	CHECK(w.lasted_ms < 900); /* having the echo, it does not wait for the peer's end */
	CHECK_INT(w.wait_ms, -1);
}

static void script_deaf_to_close(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "bye"));
	while (!peer_at_end(p))
		;
}

TEST(a_close_without_an_echo_ends_in_time)
{
	begin(script_deaf_to_close);
	w.act = send_act;
	w.o.close_ms = 50;
	watcher_run(&w, url);
	finish("open t:bye lost:1006 end:ok");
	CHECK(!w.clean);
}

/* Breaches by the peer: our close frame carries the code. */

static const char *breach;
static size_t breach_len;
static int breach_code;

static void script_breach(struct peer *p)
{
	char payload[126];
	size_t len;

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "good"));
	PEER_CHECK(p, peer_write(p, breach, breach_len));
	PEER_CHECK(p, peer_read_frame(p, payload, &len) == 0x88);
	PEER_CHECK(p, len > 2 && ((unsigned char)payload[0] << 8 | (unsigned char)payload[1]) ==
					 breach_code);
}

static void breached(const char *bytes, size_t len, int code, const char *reason)
{
	breach = bytes;
	breach_len = len;
	breach_code = code;
	begin(script_breach);
	w.o.message_max = 1000;
	watcher_run(&w, url);
	finish("open t:good lost:1006 end:protocol");
	if (!strstr(w.reason, reason))
		FAIL("'%s' without '%s'", w.reason, reason);
}

TEST(breaches_are_answered_with_their_code)
{
	breached("\x81\x02\xc3\x28", 4, 1007, "UTF-8");
	breached("\x01\x01\xc3\x80\x00", 5, 1007, "UTF-8");
	breached("\xc1\x01x", 3, 1002, "reserved bit");
	breached("\x83\x00", 2, 1002, "opcode");
	breached("\x81\x81\1\2\3\4x", 7, 1002, "masked");
	breached("\x81\x7e\x03\xe9", 4, 1009, "1000 bytes");
	breached("\x88\x02\x03\xed", 4, 1002, "code");
}

/* Refusals. */

static void refused(const char *answer, const char *words, int64_t wait_min_ms, int64_t wait_max_ms)
{
	refusal = answer;
	begin(script_refuse);
	w.o.retry.tries = -1;
	w.stop = "fail";
	watcher_run(&w, url);
	if (w.wait_ms < 0) /* it ends */
		CHECK(strstr(w.words, "end:"));
	finish(words);
	CHECK(w.wait_ms >= wait_min_ms && w.wait_ms <= wait_max_ms);
}

TEST(refused_upgrades)
{
	refused("HTTP/1.1 401 Unauthorized\r\n\r\n", "fail:401 end:not_authorised", -1, -1);
	refused("HTTP/1.1 403 No\r\n\r\nyour token is old", "fail:403 end:not_authorised", -1, -1);
	CHECK(strstr(w.reason, "403 No") && strstr(w.reason, "your token is old"));
	refused("HTTP/1.1 404 Not Found\r\n\r\n", "fail:404 end:not_found", -1, -1);
	refused("HTTP/1.1 302 Found\r\nLocation: wss://x/y\r\n\r\n", "fail:302 end:unavailable", -1,
		-1);
	refused("HTTP/1.1 200 OK\r\n\r\n<html>", "fail:200 end:protocol", -1, -1);
	refused("HTTP/1.1 429 Slow\r\nRetry-After: 7\r\n\r\n", "fail:429", 7000, 7000);
	refused("HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n", "fail:503", 1000, 1000);
	refused("HTTP/1.1 500 Oops\r\n\r\n", "fail:500", 0, 20);
	refused("SSH-2.0-OpenSSH\r\n", "fail:0", 0, 20);
	refused("HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: "
		"Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n",
		"fail:0", 0, 20);
	CHECK(strstr(w.reason, "Sec-WebSocket-Accept"));
	refused("", "fail:0", 0, 20);
}

/* A finished hook after the last "fail" stops the loop: give it the turn. */

static void script_401_then_open(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p) && peer_read_head(p));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 401 x\r\n\r\n"));
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

TEST(a_refusal_is_tried_again_when_asked_for)
{
	begin(script_401_then_open);
	w.o.retry.refused = true;
	w.o.retry.tries = 1;
	watcher_run(&w, url);
	finish("fail:401 open lost:1000 end:unavailable");
}

TEST(the_hook_may_overrule_the_policy)
{
	begin(script_401_then_open);
	w.o.retry.tries = 1;
	w.next = SC_CLIENT_AGAIN;
	watcher_run(&w, url);
	finish("fail:401 open lost:1000 end:unavailable");
}

/* Limits of time. */

TEST(a_slow_upgrade_is_left)
{
	begin(script_silent_upgrade);
	w.o.upgrade_ms = 30;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable");
	CHECK(strstr(w.reason, "30 ms"));
}

static void script_endless_103(struct peer *p)
{
	static char text[60000];

	for (size_t at = 0; at + 30 < sizeof(text);)
		at += (size_t)sprintf(text + at, "HTTP/1.1 103 \r\n\r\n");
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	while (peer_write(p, text, strlen(text)))
		;
}

TEST(answers_before_the_answer_do_not_hold_the_time)
{
	int64_t began = sc_mono_us();

	begin(script_endless_103);
	w.o.upgrade_ms = 100;
	watcher_run(&w, url);
	CHECK(sc_mono_us() - began < 1500000);
	finish("fail:0 end:unavailable");
	CHECK(strstr(w.reason, "100 ms"));
}

static void script_silence(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "one"));
	while (!peer_at_end(p))
		;
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "two"));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

TEST(silence_connects_anew)
{
	begin(script_silence);
	w.o.silence_ms = 50;
	w.o.retry.tries = 1;
	watcher_run(&w, url);
	finish("open t:one lost:1006 open t:two lost:1000 end:unavailable");
}

static void script_no_pong(struct peer *p)
{
	char payload[126];
	size_t len;

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_read_frame(p, payload, &len) == 0x89);
	PEER_CHECK(p, peer_frame(p, 0x8a, payload, len));
	while (!peer_at_end(p))
		;
}

TEST(a_peer_that_answers_no_ping_is_left)
{
	begin(script_no_pong);
	w.o.ping_ms = 20;
	w.o.pong_ms = 60;
	watcher_run(&w, url);
	finish("open pong lost:1006 end:unavailable");
	CHECK(strstr(w.reason, "ping"));
	CHECK(w.lasted_ms >= 80 && w.lasted_ms < 2000);
}
