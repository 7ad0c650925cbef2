/*
 * Goal    the client comes back as it should, bears what a peer and its own user do meanwhile, and
 *         never stops answering pings.
 * Method  a peer in a thread plays each case over a loopback socket; the hooks' words are compared.
 */
#include <linux/sockios.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#include "client_run.h"
#include "net/dial.h"

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

static atomic_bool both_sent;

static void script_unread(struct peer *p)
{
	char payload[126];
	size_t len;

	PEER_CHECK(p, peer_accept_upgrade(p));
	PEER_CHECK(p, peer_text(p, "one"));
	for (int i = 0; i < 12;
	     i++) /* 12 pings, 300 ms: none is answered, as none of it would be read */
		PEER_CHECK(p, peer_read_frame(p, payload, &len) == 0x89);
	PEER_CHECK(p, peer_text(p, "two"));
	atomic_store(&both_sent, true);
	while (peer_read_frame(p, payload, &len) != 0x88)
		;
	PEER_CHECK(p, peer_frame(p, 0x88, payload, len));
}

static void unread_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open")) {
		sc_client_pause(on->client);
		sc_timer_start(on->tick, 20);
	} else if (!strcmp(word, "t:two")) {
		sc_client_close(on->client, 1000, NULL);
	}
}

static void unread_resume(void *arg)
{
	struct watcher *on = arg;

	if (atomic_load(&both_sent))
		sc_client_resume(on->client);
	else
		sc_timer_start(on->tick, 20);
}

TEST(limits_rest_while_nothing_is_read)
{
	begin(script_unread);
	w.o.ahead_max = 1;
	w.o.ping_ms = 25;
	w.o.pong_ms = 100;
	w.o.silence_ms = 200;
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
