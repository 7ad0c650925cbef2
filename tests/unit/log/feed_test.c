/*
 * feed_test: archives read by threads for a loop. Goal: every feed hands out the rows in order and
 * whole, whatever the others do; no call waits for a place that does not answer; what is closed is
 * let go of; a place that fails is asked once, not once a feed. Method: an archive in a folder,
 * read as file:// and through a web server that answers when the test lets it.
 */
#include "feed_help.h"

#include "base/clock.h"

#define ROWS 20000u

static int64_t age_ms; /* of what is known of the archive */

static void begin_with(unsigned threads)
{
	begin(65536);
	grow_archived(1, ROWS, 100, 65536);
	feeds_open(threads);
}

static void end(void)
{
	feeds_close();
	log_done();
}

/* One consumer: the rows it got, checked as they come. */
struct eater {
	struct sc_feed *feed;
	uint64_t next, count;
	int rc; /* SC_FEED_NONE: not done */
	struct sc_err err;
};

static void eat(struct eater *e)
{
	struct sc_run run;

	while ((e->rc = sc_feed_next(e->feed, &run, &e->err)) == SC_FEED_RUN) {
		const char *at = run.lines.data, *stop = at + run.lines.len;
		char want[64];

		CHECK_INT(run.first, e->next);
		CHECK(run.appended_us > 0);
		for (; at < stop; e->next++, e->count++) {
			int len = snprintf(want, sizeof(want), "[%llu,{\"n\":%llu}]\n",
					   (unsigned long long)e->next,
					   (unsigned long long)e->next);

			CHECK(stop - at >= len && memcmp(at, want, (size_t)len) == 0);
			at += len;
		}
		CHECK_INT(run.last, e->next - 1);
	}
}

static void start(struct eater *e, const char *url, uint64_t from)
{
	static const struct sc_store_settings settings = { .tries = 1 };

	memset(e, 0, sizeof(*e));
	e->next = from ? from : 1;
	CHECK_OK(sc_feed_open(pool, url, &settings, from, age_ms, e, &e->feed, &err), &err);
}

/* The loop: until DONE of the eaters are through. */
static void turn(struct eater *eaters, size_t count, size_t done)
{
	size_t through = 0;

	for (;;) {
		struct sc_feed *feed;
		uint64_t rings;

		while ((feed = sc_feed_ready(pool)))
			eat(sc_feed_arg(feed));
		for (size_t i = through = 0; i < count; i++)
			through += eaters[i].feed && eaters[i].rc != SC_FEED_NONE;
		if (through >= done)
			return;
		await_bell();
		CHECK(read(bell, &rings, sizeof(rings)) > 0);
	}
}

TEST(one_feed)
{
	struct eater e;
	struct sc_feed_info info;

	begin_with(1);
	for (uint64_t from = 0; from <= ROWS + 1; from += 3331) {
		start(&e, from % 2 ? web_url : log_url, from);
		turn(&e, 1, 1);
		CHECK_INT(e.rc, SC_FEED_END);
		CHECK_INT(e.next, ROWS + 1);
		CHECK_INT(sc_feed_info(e.feed, &info, &err), 1);
		CHECK_INT(info.first_offset, 1);
		CHECK_INT(info.next_offset, ROWS + 1);
		CHECK_INT(info.start, from ? from : 1);
		CHECK_INT(strlen(info.stream_id), 36);
		sc_feed_close(e.feed);
	}
	/* at its end there is nothing; beyond it, it is refused, and the numbers are known */
	start(&e, log_url, ROWS + 1);
	turn(&e, 1, 1);
	CHECK_INT(e.rc, SC_FEED_END);
	CHECK_INT(e.count, 0);
	sc_feed_close(e.feed);
	start(&e, log_url, ROWS + 2);
	turn(&e, 1, 1);
	CHECK_INT(e.rc, SC_E_REFUSED);
	CHECK(strstr(e.err.fields, "\"why\":\"ahead\""));
	CHECK_INT(sc_feed_info(e.feed, &info, &err), 1);
	CHECK_INT(info.next_offset, ROWS + 1);
	sc_feed_close(e.feed);
	end();
}

/* A list that is older than a feed is not used for it. */
TEST(grows)
{
	struct eater e[2];

	begin_with(1);
	start(&e[0], log_url, 0);
	turn(e, 1, 1);
	CHECK_INT(e[0].next, ROWS + 1);
	grow_archived(ROWS + 1, ROWS + 1000, 100, 65536);
	start(&e[1], log_url, ROWS + 1);
	turn(&e[1], 1, 1);
	CHECK_INT(e[1].next, ROWS + 1001);
	CHECK_INT(sc_feed_next(e[0].feed, &(struct sc_run){ .rows = 0 }, &err), SC_FEED_END);
	sc_feed_close(e[0].feed);
	sc_feed_close(e[1].feed);
	end();
}

/* More than readers may be open; each its own rows; the archive is not listed for each. */
TEST(many_feeds)
{
	static struct eater e[150];
	unsigned asked;

	begin_with(4);
	for (size_t i = 0; i < 150; i++)
		start(&e[i], i % 3 ? log_url : web_url, 1 + i * 100);
	turn(e, 150, 150);
	for (size_t i = 0; i < 150; i++) {
		CHECK_INT(e[i].rc, SC_FEED_END);
		CHECK_INT(e[i].next, ROWS + 1);
	}
	for (size_t i = 0; i < 150; i++)
		sc_feed_close(e[i].feed);
	asked = web_asked();
	age_ms = 60000;
	for (size_t i = 0; i < 50; i++)
		start(&e[i], web_url, ROWS + 1);
	turn(e, 50, 50);
	age_ms = 0;
	CHECK(web_asked() - asked <= 3 * 2); /* its threads have listed it */
	for (size_t i = 0; i < 50; i++)
		sc_feed_close(e[i].feed);
	end();
}

/* A place that does not answer holds up nobody else, and is let go of at once. */
TEST(stalled)
{
	static struct eater e[9];
	int64_t begun;

	begin_with(2);
	web_hold("/sealed/");
	for (size_t i = 0; i < 8; i++)
		start(&e[i], web_url, 0);
	web_await_held(1);
	start(&e[8], log_url, 0);
	turn(e, 9, 1);
	CHECK_INT(e[8].rc, SC_FEED_END);
	CHECK_INT(e[8].next, ROWS + 1);
	CHECK_INT(e[0].rc, SC_FEED_NONE);
	begun = sc_mono_us();
	for (size_t i = 0; i < 7; i++) /* the one that waits for an answer is among them */
		sc_feed_close(e[i].feed);
	CHECK(sc_mono_us() - begun < 5000000); /* the archive's time is 30 s */
	memset(e, 0, 7 * sizeof(e[0]));
	web_hold(NULL);
	turn(e, 9, 2);
	CHECK_INT(e[7].rc, SC_FEED_END);
	CHECK_INT(e[7].next, ROWS + 1);
	sc_feed_close(e[7].feed);
	sc_feed_close(e[8].feed);
	/* and the end does not wait for it either */
	web_hold("/trades/");
	start(&e[0], web_url, 0);
	web_await_held(1);
	sc_feed_close(e[0].feed);
	begun = sc_mono_us();
	end();
	CHECK(sc_mono_us() - begun < 5000000);
}

/* An archive that cannot be opened is asked once for all who wait for it. */
TEST(unreachable)
{
	static struct eater e[40];

	begin_with(2);
	web_hold("/trades/");
	for (size_t i = 0; i < 40; i++)
		start(&e[i], web_url, 0);
	web_await_held(1);
	web_fail(500);
	web_hold(NULL);
	turn(e, 40, 40);
	CHECK(web_asked() <= 2);
	for (size_t i = 0; i < 40; i++) {
		CHECK_INT(e[i].rc, SC_E_UNAVAILABLE);
		CHECK(strstr(e[i].err.fields, "\"http_status\":500"));
		CHECK_INT(sc_feed_info(e[i].feed, &(struct sc_feed_info){ .start = 0 }, &err),
			  SC_E_UNAVAILABLE);
		sc_feed_close(e[i].feed);
	}
	web_fail(0);
	/* it is remembered for a moment only */
	for (int i = 0; i < 100; i++) {
		start(&e[0], web_url, 0);
		turn(e, 1, 1);
		sc_feed_close(e[0].feed);
		if (e[0].rc == SC_FEED_END)
			break;
		usleep(100000);
	}
	CHECK_INT(e[0].rc, SC_FEED_END);
	end();
}

/* Damage: what comes before it, then the error; the other feeds go on. */
TEST(damage)
{
	struct eater e[2];
	uint64_t first;

	begin_with(2);
	CHECK(objects("sealed") > 4);
	first = damage_segment(3);
	start(&e[0], log_url, 0);
	start(&e[1], log_url, ROWS - 100);
	turn(e, 2, 2);
	CHECK_INT(e[0].rc, SC_E_DATA);
	CHECK_INT(e[0].next, first);
	CHECK_INT(e[1].rc, SC_FEED_END);
	sc_feed_close(e[0].feed);
	sc_feed_close(e[1].feed);
	end();
}

/* Closed at any time, by the thousand. */
TEST(comings_and_goings)
{
	static struct eater e[16];
	uint64_t rings;

	begin_with(3);
	for (unsigned i = 0; i < 1000; i++) {
		struct eater *one = &e[i % 16];
		struct sc_feed *feed;

		sc_feed_close(one->feed);
		start(one, i % 5 ? log_url : web_url, 1 + i * 19 % ROWS);
		if (i % 4 == 0)
			usleep(i % 700);
		while ((feed = sc_feed_ready(pool)))
			eat(sc_feed_arg(feed));
		(void)!read(bell, &rings, sizeof(rings));
	}
	turn(e, 16, 16);
	for (size_t i = 0; i < 16; i++) {
		CHECK_INT(e[i].rc, SC_FEED_END);
		sc_feed_close(e[i].feed);
	}
	end();
}
