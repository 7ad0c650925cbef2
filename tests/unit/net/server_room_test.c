/*
 * Goal    what all connections hold together has a bound: beyond it who wants more is told so, and
 *         small things go on.
 * Method  a server in a thread with little room, raw sockets that send halves and take nothing.
 */
#include <stdlib.h>

#include "server_run.h"

#define ROOM ((2u << 20) + 100000u)

static struct peer peers[6];
static char text[900000];
static unsigned char frame_rest[900000];

static void start(uint64_t room)
{
	app_options();
	app.options.memory_max_bytes = room;
	app_start();
	memset(text, 'x', sizeof(text));
}

/* The first PART bytes of a message of LEN. */
static void put_half(struct peer *p, size_t part, size_t len)
{
	static unsigned char frame[sizeof(text) + 14];

	peer_put(p, frame, frame_make(frame, 0x82, text, part, len));
}

static void put_rest(struct peer *p, size_t part, size_t len)
{
	static const unsigned char mask[4] = { 0x12, 0x34, 0x56, 0x78 };

	for (size_t i = part; i < len; i++)
		frame_rest[i - part] = (unsigned char)text[i] ^ mask[i & 3];
	peer_put(p, frame_rest, len - part);
}

static void expect_small(struct peer *p)
{
	peer_frame(p, 0x82, "small", 5);
	peer_expect(p, 0x82, "small", 5);
}

TEST(halves_of_messages_have_a_bound)
{
	start(ROOM);
	for (int i = 0; i < 4; i++) {
		peer_open(&peers[i], i == 0 ? "/hold" : "/echo");
		put_half(&peers[i], 400000, 500000);
	}
	WAIT_FOR(app_stats().bytes_in > 4 * 400000);
	CHECK(app_stats().memory_bytes >= 4 * 400000 && app_stats().memory_bytes <= ROOM);
	peer_open(&peers[4], "/echo");
	expect_small(&peers[4]);
	put_half(&peers[4], 100000, 500000);
	peer_expect_close(&peers[4], 1013);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app.last_code, 1013);
	CHECK(strstr(app.last_reason, "--max-memory"));
	CHECK(app_stats().memory_bytes <= ROOM + 131072);
	CHECK_INT(app_stats().refused_memory, 1);
	/* what was begun can be finished, and others are served */
	app.holding = 0;
	put_rest(&peers[0], 400000, 500000);
	WAIT_FOR(app.holding);
	app.holding = 0;
	peer_open(&peers[5], "/echo");
	expect_small(&peers[5]);
	put_half(&peers[5], 100000, 200000);
	put_rest(&peers[5], 100000, 200000);
	peer_expect(&peers[5], 0x82, text, 200000);
	for (int i = 0; i < 6; i++)
		peer_close(&peers[i]);
	WAIT_FOR(app.closed == 6);
	CHECK_INT(app_stats().memory_bytes, 0);
	app_end();
}

/* The status that TARGET gets. */
static int get(const char *target)
{
	char head[300];

	peer_init(&other, peer_dial());
	snprintf(head, sizeof(head), "GET %s HTTP/1.1\r\nHost: t\r\n\r\n", target);
	peer_puts(&other, head);
	snprintf(head, sizeof(head), "%.299s", peer_head(&other));
	(void)peer_all(&other);
	peer_close(&other);
	return atoi(head + 9);
}

TEST(long_answers_and_heads_have_the_same_bound)
{
	static char target[9000];

	start(44000);
	peer_open(&peer, "/echo");
	put_half(&peer, 30000, 100000);
	WAIT_FOR(app_stats().memory_bytes >= 30000);
	CHECK_INT(get("/long?5000"), 200);
	CHECK_INT(get("/long?12000"), 503);
	CHECK(strstr((char *)other.in, "--max-memory"));
	CHECK_INT(app_stats().refused_memory, 1);
	peer_init(&other, peer_dial());
	snprintf(target, sizeof(target), "GET /%08500d", 1); /* and no end */
	peer_puts(&other, target);
	CHECK(strstr(peer_all(&other), " 503 "));
	peer_close(&other);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(get("/long?12000"), 200);
	WAIT_FOR(app_stats().memory_bytes == 0);
	app_end();
}

TEST(a_message_for_one_that_takes_nothing_needs_room)
{
	for (int room = 0; room < 2; room++) {
		start(room ? 8u << 20 : 3u << 19);
		peer_open(&peer, "/told");
		WAIT_FOR(app.told);
		peer_open(&other, "/hold");
		put_half(&other, sizeof(text), sizeof(text));
		WAIT_FOR(app.holding);
		app.holding = 0;
		if (room) {
			peer_expect(&peer, 0x82, text, sizeof(text));
			CHECK_INT(app_stats().refused_memory, 0);
		} else {
			WAIT_FOR(app.closed == 1);
			CHECK_INT(app.last_code, 1013);
			CHECK_INT(app_stats().refused_memory, 1);
		}
		peer_close(&peer);
		peer_close(&other);
		WAIT_FOR(app.closed == 2);
		CHECK_INT(app_stats().memory_bytes, 0);
		app_end();
	}
}

TEST(what_the_application_keeps_counts)
{
	start(ROOM);
	peer_open(&peer, "/keep?1900000");
	WAIT_FOR(app_stats().memory_bytes >= 1900000);
	CHECK_INT(get("/long?500000"), 503);
	peer_close(&peer);
	WAIT_FOR(app.closed == 1);
	CHECK_INT(app_stats().memory_bytes, 0);
	app_end();
}
