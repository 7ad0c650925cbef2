/*
 * Goal    the client tells whole messages and true ends, comes back as it should, and never stops
 *         answering pings.
 * Method  a peer in a thread plays each case over a loopback socket; the hooks' words are compared.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "net/dial.h"
#include "peer.h"
#include "watcher.h"

static struct peer peer;
static struct watcher w;
static char url[200];

static void begin(void (*script)(struct peer *p))
{
	peer_start(&peer, script);
	watcher_init(&w);
	snprintf(url, sizeof(url), "ws://127.0.0.1:%d/t?offset=5", peer.port);
}

static void finish(const char *words)
{
	peer_stop(&peer);
	watcher_done(&w);
	CHECK_STR(w.words, words);
}

static void run(void (*script)(struct peer *p), const char *words)
{
	begin(script);
	watcher_run(&w, url);
	finish(words);
}

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

static const char *refusal;

static void script_refuse(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	PEER_CHECK(p, peer_puts(p, refusal));
}

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

static void script_silent_upgrade(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	while (!peer_at_end(p))
		;
}

TEST(a_slow_upgrade_is_left)
{
	begin(script_silent_upgrade);
	w.o.upgrade_ms = 30;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable");
	CHECK(strstr(w.reason, "30 ms"));
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

/* Ends of the transport. */

static void script_reset(struct peer *p)
{
	struct linger hard = { 1, 0 };

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "one"));
	PEER_CHECK(p, peer_expect(p, 0x81, "ok", 2));
	setsockopt(p->conn, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static void ok_act(struct watcher *on, const char *word)
{
	if (!strncmp(word, "t:", 2))
		sc_client_send(on->client, SC_SPAN("ok"), false, NULL);
}

TEST(a_reset_is_a_reported_end)
{
	begin(script_reset);
	w.act = ok_act;
	watcher_run(&w, url);
	finish("open t:one lost:1006 end:unavailable");
	CHECK(strstr(w.reason, "reset"));
}

TEST(refused_connections_wait_longer_each_time)
{
	begin(script_refuse);
	refusal = "";
	w.o.retry.tries = 3;
	/* a port that nobody listens on: bound, not listening */
	{
		struct sockaddr_in in = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(in);
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char dead[100];

		CHECK(bind(fd, (struct sockaddr *)&in, sizeof(in)) == 0);
		CHECK(getsockname(fd, (struct sockaddr *)&in, &len) == 0);
		snprintf(dead, sizeof(dead), "ws://127.0.0.1:%d/", ntohs(in.sin_port));
		watcher_run(&w, dead);
		close(fd);
	}
	shutdown(peer.listener, SHUT_RDWR);
	pthread_join(peer.thread, NULL);
	close(peer.listener);
	watcher_done(&w);
	CHECK_STR(w.words, "fail:0 fail:0 fail:0 fail:0 end:unavailable");
	CHECK(strstr(w.reason, "refused"));
}

TEST(waits_double_with_jitter_up_to_the_ceiling)
{
	struct sc_client_retry r = { .start_ms = 1000, .ceiling_ms = 30000 };
	int64_t most = 0;

	CHECK_INT(sc_client_backoff_ms(&r, 1, 0), 100);
	CHECK_INT(sc_client_backoff_ms(&r, 1, 900), 1000);
	CHECK_INT(sc_client_backoff_ms(&r, 2, 1800), 2000);
	CHECK_INT(sc_client_backoff_ms(&r, 5, 0), 1600);
	CHECK_INT(sc_client_backoff_ms(&r, 6, 27000), 30000);
	CHECK_INT(sc_client_backoff_ms(&r, 1000000, 27000), 30000);
	for (uint64_t i = 0; i < 100000; i++) {
		int64_t wait = sc_client_backoff_ms(&r, 9, i * 0x9e3779b97f4a7c15u);

		CHECK(wait >= 3000 && wait <= 30000);
		most = wait > most ? wait : most;
	}
	CHECK(most > 29000);
	r = (struct sc_client_retry){ .start_ms = 1, .ceiling_ms = INT64_MAX };
	CHECK(sc_client_backoff_ms(&r, INT64_MAX, UINT64_MAX) > 0);
}

static void script_three(struct peer *p)
{
	for (int i = 0; i < 3; i++) {
		PEER_CHECK(p, peer_accept_upgrade(p));
		if (i < 2)
			PEER_CHECK(p, peer_text(p, "good"));
		PEER_CHECK(p, peer_close(p, 1012, ""));
	}
}

static void proved_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "t:good"))
		sc_client_proved(on->client);
}

TEST(a_connection_that_worked_starts_the_count_anew)
{
	begin(script_three);
	w.o.retry.tries = 1;
	w.act = proved_act;
	watcher_run(&w, url);
	finish("open t:good lost:1012 open t:good lost:1012 open lost:1012 end:unavailable");
}

static void script_closes(struct peer *p)
{
	while (peer_accept(p))
		if (peer_read_head(p))
			(void)peer_puts(p, "HTTP/1.1 503 Busy\r\n\r\n");
}

TEST(it_gives_up_after_the_time_asked_for)
{
	int64_t from, ms;

	begin(script_closes);
	w.o.retry.tries = -1;
	w.o.retry.for_ms = 300;
	w.o.retry.start_ms = 100;
	w.o.retry.ceiling_ms = 10000;
	from = sc_mono_us();
	watcher_run(&w, url);
	ms = (sc_mono_us() - from) / 1000;
	shutdown(peer.listener, SHUT_RDWR);
	peer_stop(&peer);
	watcher_done(&w);
	CHECK(strstr(w.words, "fail:503 fail:503"));
	CHECK(strstr(w.words, "end:unavailable"));
	CHECK(ms >= 300 && ms < 3000); /* not at the last wait that would pass it */
	CHECK_INT(w.wait_ms, -1);
}

static void script_twice(struct peer *p)
{
	for (int i = 0; i < 2; i++) {
		PEER_CHECK(p, peer_accept_upgrade(p));
		PEER_CHECK(p, strstr(p->request, i ? "GET /next?offset=9 " : "GET /t?offset=5 "));
		PEER_CHECK(p, peer_text(p, i ? "two" : "one"));
		if (i == 0)
			PEER_CHECK(p, peer_expect(p, 0x88, "\x03\xe8", 2) &&
					      peer_frame(p, 0x88, "\x03\xe8", 2));
		else
			PEER_CHECK(p, peer_close(p, 1000, ""));
		peer_hang_up(p);
	}
}

static void next_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "t:one")) {
		char next[100];

		snprintf(next, sizeof(next), "ws://127.0.0.1:%d/next?offset=9", peer.port);
		CHECK_OK(sc_client_set_url(on->client, next, &err), &err);
		sc_client_reconnect(on->client);
	}
}

TEST(another_url_for_the_next_connection)
{
	begin(script_twice);
	w.act = next_act;
	watcher_run(&w, url);
	finish("open t:one lost:1000 open t:two lost:1000 end:unavailable");
}

static void free_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "t:one")) {
		sc_client_free(on->client);
		on->client = NULL;
		sc_loop_stop(on->loop);
	}
}

static void script_one_and_end(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_write(p, "\x81\x03one\x81\x03two", 10));
	while (!peer_at_end(p))
		;
}

TEST(the_client_may_be_freed_in_a_hook)
{
	begin(script_one_and_end);
	w.act = free_act;
	watcher_run(&w, url);
	finish("open t:one");
}

/* Backpressure: the peer floods; paused, pings are answered until the buffer is full, and nothing
 * is lost. */

enum { FLOOD = 20000 };

static void script_flood(struct peer *p)
{
	char text[101];

	memset(text, 'a', 100);
	text[100] = '\0';
	PEER_CHECK(p, peer_accept_upgrade(p));
	for (int i = 0; i < 100; i++)
		PEER_CHECK(p, peer_text(p, text));
	PEER_CHECK(p, peer_frame(p, 0x89, "alive", 5));
	PEER_CHECK(p, peer_expect(p, 0x8a, "alive", 5)); /* answered while the client is paused */
	for (int i = 0; i < FLOOD - 100; i++)
		PEER_CHECK(p, peer_text(p, text));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void flood_tick(void *arg)
{
	struct watcher *on = arg;

	/* Paused 5 ms of 6: each resume takes what is there. */
	if (sc_client_paused(on->client)) {
		sc_client_resume(on->client);
		sc_timer_start(on->tick, 1);
	} else {
		sc_client_pause(on->client);
		sc_timer_start(on->tick, 5);
	}
}

static void flood_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open")) {
		sc_client_pause(on->client);
		sc_timer_start(on->tick, 50);
	}
}

TEST(paused_it_answers_pings_and_loses_nothing)
{
	begin(script_flood);
	w.o.ahead_max = 20000;
	w.o.ping_ms = 0;
	w.act = flood_act;
	w.count_only = true;
	CHECK_OK(sc_timer_new(w.loop, flood_tick, &w, &w.tick, &err), &err);
	watcher_run(&w, url);
	finish("open lost:1000 end:unavailable");
	CHECK_INT(w.count, FLOOD);
}

static void script_five(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_write(p, "\x81\1a\x81\1b\x81\1c\x81\1d\x81\1e", 15));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void one_act(struct watcher *on, const char *word)
{
	if (!strncmp(word, "t:", 2)) {
		sc_client_pause(on->client);
		sc_timer_start(on->tick, 1);
	}
}

static void resume_tick(void *arg)
{
	struct watcher *on = arg;

	sc_client_resume(on->client);
}

TEST(each_message_may_pause)
{
	begin(script_five);
	w.act = one_act;
	CHECK_OK(sc_timer_new(w.loop, resume_tick, &w, &w.tick, &err), &err);
	watcher_run(&w, url);
	finish("open t:a t:b t:c t:d t:e lost:1000 end:unavailable");
}

static void script_pong_between(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_write(p, "\x81\1a\x81\1b\x8a\x08\1\0\0\0\0\0\0\0\x81\1c", 19));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void pong_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "t:a"))
		sc_client_pause(on->client);
	else if (!strcmp(word, "pong"))
		sc_client_resume(on->client);
}

TEST(resumed_in_a_hook_the_order_stays)
{
	begin(script_pong_between);
	w.act = pong_act;
	watcher_run(&w, url);
	finish("open t:a pong t:b t:c lost:1000 end:unavailable");
}

static void script_unread(struct peer *p)
{
	char payload[126];
	size_t len;

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "one"));
	for (int i = 0; i < 12;
	     i++) /* 12 pings, 60 ms: none is answered, as none of it would be read */
		PEER_CHECK(p, peer_read_frame(p, payload, &len) == 0x89);
	PEER_CHECK(p, peer_text(p, "two"));
	while (peer_read_frame(p, payload, &len) != 0x88)
		;
	PEER_CHECK(p, peer_frame(p, 0x88, payload, len));
}

static void unread_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open")) {
		sc_client_pause(on->client);
		sc_timer_start(on->tick, 200);
	} else if (!strcmp(word, "t:two")) {
		sc_client_close(on->client, 1000, NULL);
	}
}

static void unread_resume(void *arg)
{
	struct watcher *on = arg;

	sc_client_resume(on->client);
}

TEST(limits_rest_while_nothing_is_read)
{
	begin(script_unread);
	w.o.ahead_max = 1;
	w.o.ping_ms = 5;
	w.o.pong_ms = 20;
	w.o.silence_ms = 50;
	w.act = unread_act;
	CHECK_OK(sc_timer_new(w.loop, unread_resume, &w, &w.tick, &err), &err);
	watcher_run(&w, url);
	finish("open t:one t:two lost:1000 end:ok");
}

static void script_send_and_reset(struct peer *p)
{
	struct linger hard = { 1, 0 };
	int unsent = 1;

	PEER_CHECK(p, peer_accept_upgrade(p));
	for (int i = 0; i < 1000; i++)
		PEER_CHECK(p, peer_text(p, "0123456789"));
	PEER_CHECK(p, peer_expect(p, 0x81, "gone", 4));
	/* A reset throws away what the other kernel has not got. */
	for (int i = 0; i < 5000 && unsent; i++) {
		PEER_CHECK(p, ioctl(p->conn, SIOCOUTQ, &unsent) == 0);
		if (unsent)
			usleep(1000);
	}
	setsockopt(p->conn, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

static clock_t cpu_at_pause;

static void late_resume(void *arg)
{
	struct watcher *on = arg;

	CHECK((clock() - cpu_at_pause) * 1000 / CLOCKS_PER_SEC <
	      70); /* the hung-up socket keeps nobody busy */
	if (on->client && sc_client_is_open(on->client) && !peer.fault[0])
		sc_client_resume(on->client);
}

static void pause_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open")) {
		sc_client_pause(on->client);
		sc_client_send(on->client, SC_SPAN("gone"), false, NULL);
		cpu_at_pause = clock();
		sc_timer_start(on->tick, 150);
	}
}

TEST(what_came_before_a_reset_is_told_after_a_pause)
{
	begin(script_send_and_reset);
	w.o.ahead_max = 1; /* stop at the first one */
	w.act = pause_act;
	w.count_only = true;
	CHECK_OK(sc_timer_new(w.loop, late_resume, &w, &w.tick, &err), &err);
	watcher_run(&w, url);
	finish("open lost:1006 end:unavailable");
	CHECK_INT(w.count, 1000);
}

/* A queue that is full. */

static void script_slow_reader(struct peer *p)
{
	static char big[1 << 16];
	size_t got = 0;
	ssize_t n;

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "go"));
	PEER_CHECK(p, peer_text(p, "wait"));
	usleep(20000); /* let the queue fill: a shorter time only makes the test weaker */
	while (got < 1000 && (n = recv(p->conn, big, sizeof(big), 0)) > 0)
		got += (size_t)n;
	while ((n = recv(p->conn, big, sizeof(big), 0)) > 0)
		if (memmem(big, (size_t)n, "\x88\x82", 2))
			break;
}

static void fill_act(struct watcher *on, const char *word)
{
	static char text[10000];

	if (!strcmp(word, "t:go")) {
		int rc = 0;

		for (int i = 0; i < 10000 && rc == 0; i++)
			rc = sc_client_send(on->client, sc_span(text, sizeof(text)), true, &err);
		CHECK_INT(rc, SC_E_BUSY);
		CHECK(sc_client_unsent(on->client) <= 100000);
		CHECK_INT(sc_client_send(on->client, sc_span(text, 0), true, &err), 0);
	} else if (!strcmp(word, "drained")) {
		sc_client_close(on->client, 1000, NULL);
	}
}

TEST(a_full_queue_is_busy_and_says_when_it_drained)
{
	begin(script_slow_reader);
	w.o.send_max = 100000;
	w.o.close_ms = 300;
	w.act = fill_act;
	watcher_run(&w, url);
	peer_stop(&peer);
	watcher_done(&w);
	CHECK(strstr(w.words, "drained"));
	CHECK(strstr(w.words, "end:ok"));
}

/* Addresses. */

static int dead_port;

static int two_addresses(const char *host, uint16_t port, struct sockaddr_storage *ret, size_t max)
{
	CHECK(max >= 2);
	if (strcmp(host, "two.test"))
		return -1;
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in *in = (struct sockaddr_in *)&ret[i];

		in->sin_family = AF_INET;
		in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		in->sin_port = htons((uint16_t)(i == 0 ? dead_port : port));
	}
	return 2;
}

static void script_close(struct peer *p)
{
	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

/* A listener whose queue is full drops what comes, as an address that nobody answers at. */
static int black_hole(int fds[4])
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(fds[0], (struct sockaddr *)&in, sizeof(in)) == 0);
	CHECK(getsockname(fds[0], (struct sockaddr *)&in, &len) == 0);
	CHECK(listen(fds[0], 0) == 0);
	for (int i = 1; i < 4; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)!connect(fds[i], (struct sockaddr *)&in, sizeof(in));
	}
	return ntohs(in.sin_port);
}

TEST(a_dead_address_delays_by_less_than_a_second)
{
	int fds[4];

	dead_port = black_hole(fds);
	sc_dial_set_resolver(two_addresses);
	begin(script_close);
	snprintf(url, sizeof(url), "ws://two.test:%d/", peer.port);
	watcher_run(&w, url);
	sc_dial_set_resolver(NULL);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	finish("open lost:1000 end:unavailable");
	CHECK(w.took_ms >= SC_DIAL_STAGGER_MS && w.took_ms < 1000);
}

TEST(no_answer_to_a_connect_is_left_in_time)
{
	int fds[4];

	dead_port = black_hole(fds);
	watcher_init(&w);
	w.o.connect_ms = 50;
	snprintf(url, sizeof(url), "ws://127.0.0.1:%d/", dead_port);
	watcher_run(&w, url);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
	watcher_done(&w);
	CHECK_STR(w.words, "fail:0 end:unavailable");
	CHECK(strstr(w.reason, "50 ms"));
}

TEST(names_are_looked_up_in_the_background)
{
	begin(script_close);
	snprintf(url, sizeof(url), "ws://localhost:%d/", peer.port);
	watcher_run(&w, url);
	finish("open lost:1000 end:unavailable");
	watcher_init(&w);
	watcher_run(&w, "ws://does-not-exist.invalid/");
	watcher_done(&w);
	CHECK_STR(w.words, "fail:0 end:unavailable");
}

TEST(a_look_up_can_be_given_up)
{
	watcher_init(&w);
	w.o.url = "ws://does-not-exist.invalid/";
	CHECK_OK(sc_client_new(w.loop, &w.o, &w.hooks, &w, &w.client, &err), &err);
	sc_client_close(w.client, 1000, NULL);
	watcher_go(&w);
	watcher_done(&w);
	CHECK_STR(w.words, "end:ok");
}

TEST(unix_sockets)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/sc-client-test-%d.sock", (int)getpid());
	unlink(path);
	peer_start_at(&peer, script_close, path);
	watcher_init(&w);
	snprintf(url, sizeof(url), "ws+unix:%s:/t", path);
	watcher_run(&w, url);
	finish("open lost:1000 end:unavailable");
	CHECK(strstr(w.where, "unix:/tmp/sc-client-test"));
	CHECK(!strncmp(peer.request, "GET /t ", 7));
	CHECK(peer_asked(&peer, "Host: localhost"));
}

/* Many small messages. */

enum { MANY = 2000000 };

static void script_many(struct peer *p)
{
	enum { A_WRITE = 2560 };
	static char frames[A_WRITE * 102];

	for (size_t i = 0; i < A_WRITE; i++) {
		memset(frames + i * 102, 'a', 102);
		memcpy(frames + i * 102, "\x81\x64", 2);
	}
	PEER_CHECK(p, peer_accept_upgrade(p));
	for (int sent = 0; sent < MANY; sent += A_WRITE) {
		int n = MANY - sent < A_WRITE ? MANY - sent : A_WRITE;

		PEER_CHECK(p, peer_write(p, frames, (size_t)n * 102));
	}
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

TEST(many_small_messages_are_fast)
{
	int64_t from, us;

	begin(script_many);
	w.count_only = true;
	from = sc_mono_us();
	watcher_run(&w, url);
	us = sc_mono_us() - from;
	finish("open lost:1000 end:unavailable");
	CHECK_INT(w.count, MANY);
	printf("messages of 100 bytes over loopback: %.2f million/s\n", (double)MANY / (double)us);
}

/* What sc_client_new refuses. */

TEST(options_that_cannot_be_used)
{
	struct sc_client *c = NULL;

	watcher_init(&w);
	w.o.url = "gopher://x";
	CHECK_INT(sc_client_new(w.loop, &w.o, &w.hooks, &w, &c, &err), SC_E_USAGE);
	w.o.url = "wss://x";
	w.o.ca = "/nonexistent/ca.pem";
	CHECK_INT(sc_client_new(w.loop, &w.o, &w.hooks, &w, &c, &err), SC_E_CONFIG);
	CHECK(strstr(err.object, "/nonexistent/ca.pem"));
	w.o.ca = NULL;
	w.o.origin = "a\r\nb";
	CHECK_INT(sc_client_new(w.loop, &w.o, &w.hooks, &w, &c, &err), SC_E_USAGE);
	w.o.origin = NULL;
	w.o.proxy = "x://y";
	CHECK_INT(sc_client_new(w.loop, &w.o, &w.hooks, &w, &c, &err), SC_E_USAGE);
	CHECK(c == NULL);
	watcher_done(&w);
}

static const char *const bad_headers[] = { "no colon" };

TEST(a_header_that_cannot_be_sent_ends_it)
{
	begin(script_silent_upgrade);
	w.o.headers = bad_headers;
	w.o.header_count = 1;
	w.o.retry.tries = -1;
	watcher_run(&w, url);
	finish("fail:0 end:configuration");
}
