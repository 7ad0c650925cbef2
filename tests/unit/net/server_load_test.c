/*
 * Goal    load, silence, limits and a great many peers cost what the contract says, and nobody else
 *         notices.
 * Method  a server in a thread, raw sockets against it; memory, descriptors and processor time are
 *         looked at.
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "server_run.h"

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
