/*
 * archive_test: subscribers whose rows begin in the log's archive. Goal: each gets every row from
 * its start on, once, in order, byte for byte, wherever the rows are and however they move
 * meanwhile; what nobody holds is said with true numbers. Method: a log whose rows are sealed,
 * archived and given up at random under random steps of subscribers.
 */
#include "archive_model.h"

TEST(anything_at_any_time)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_stream_stats stats;
	struct sc_refusal refusal;
	uint64_t begun_below = 0;

	stream_begin(&settings, false);
	append(40);
	upkeep(true, true, 0);
	for (int i = 0; i < 40000; i++) {
		struct consumer *c = &subs[rnd(SUBS)];
		uint64_t what = rnd(1000);

		if (what < 60) {
			append(1 + rnd(20));
		} else if (what < 64) {
			upkeep(rnd(2), true, 0);
		} else if (what < 65) {
			sc_stream_tick(stream);
		} else if (what < 70 && c->sub) {
			leave(c);
		} else if (what < 120 && !c->sub) {
			uint64_t from = rnd(3) ? 1 + rnd(next_row) : 0;

			c->messages = rnd(4) == 0;
			c->filtered = rnd(4) == 0;
			begun_below += from < floor_row;
			CHECK_INT(attach(c, rnd(5) > 0, from, &refusal), 0);
		} else if (what < 300) {
			pump();
		} else if (c->sub && !c->waits) {
			CHECK(step(c) != SC_NEXT_CLOSE);
		}
		fed();
	}
	/* in the end the log has no row: who is behind gets the last ones out of the archive */
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, next_row, &err), &err);
	for (int i = 0; i < SUBS; i++) {
		if (subs[i].sub && through(&subs[i]) == SC_NEXT_CLOSE)
			FAIL("closed: %.*s %s", (int)sc_subscriber_close(subs[i].sub)->len,
			     sc_subscriber_close(subs[i].sub)->reason, err.reason);
		if (subs[i].sub)
			settle(&subs[i]);
	}
	CHECK(begun_below > 100 && floor_row > 1000);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK(stats.archive_out > 1000 && stats.messages_out >= stats.archive_out);
	CHECK_INT(stats.messages_out, delivered);
	CHECK_INT(stats.replaying_archive, 0);
	CHECK_INT(stats.dropped_evicted + stats.dropped_archive + stats.dropped_failed, 0);
	end();
}

/* Retention passes one that reads the log: it goes on in the archive. */
TEST(passed_by_retention)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;
	struct consumer *c = &subs[0];

	stream_begin(&settings, false);
	for (int i = 0; i < 400; i++)
		append(10);
	while (pump() == 1)
		;
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 10)
		step(c);
	CHECK(!sc_subscriber_in_archive(c->sub));
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 3900, &err), &err);
	CHECK_INT(through(c), SC_NEXT_DATA);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	if (stats.archive_out < 1000)
		FAIL("%" PRIu64 " rows from the archive", stats.archive_out);
	end();
}

/* A gap that nobody holds, and rows that the archive gave up. */
TEST(gone)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];

	stream_begin(&settings, false);
	append(50);
	CHECK_OK(sc_log_trim(writer, 11, &err), &err);
	/* nothing was ever archived: there is no archive, and the log is all there is */
	CHECK_INT(attach(c, true, 5, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(
		c, 4416,
		"{\"error\":\"not_replayable\",\"why\":\"evicted\",\"offset\":5,\"earliest\":11,"
		"\"archive\":null}");
	leave(c);
	/* rows 1 to 10 are gone; 11 to 50 are archived; 51 to 90 are lost before they were */
	upkeep(true, false, 0);
	for (int i = 0; i < 8; i++)
		append(20);
	CHECK_OK(sc_log_trim(writer, 91, &err), &err);
	for (uint64_t from = 12; from < 91; from += 39) {
		CHECK_INT(attach(c, true, from, &refusal), 0);
		CHECK_INT(through(c), SC_NEXT_CLOSE);
		CHECK(!c->greeted);
		CHECK_INT(sc_subscriber_close(c->sub)->code, 4416);
		CHECK(strstr(sc_subscriber_close(c->sub)->reason, "\"why\":\"evicted\""));
		CHECK(strstr(sc_subscriber_close(c->sub)->reason, "\"earliest\":91"));
		leave(c);
	}
	/* the earliest from which nothing is missing */
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	end();
}

TEST(archive_gives_up)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	char want[60];

	stream_begin(&settings, false);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	append(20);
	upkeep(true, false, 2);
	CHECK_OK(sc_log_trim(writer, held_row, &err), &err);
	CHECK(shelf_row > 100);
	CHECK_INT(attach(c, true, 99, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	snprintf(want, sizeof(want), "\"earliest\":%llu", (unsigned long long)shelf_row);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason, want));
	leave(c);
	c->next = 0;
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	while (!c->greeted) {
		fed();
		step(c);
	}
	CHECK_INT(c->next, shelf_row);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	end();
}

/* The archive gives up rows that one is about to read there. */
TEST(archive_gives_up_meanwhile)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	char want[60];

	stream_begin(&settings, false);
	for (int i = 0; i < 400; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, held_row, &err), &err);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 100) {
		fed();
		if (!c->waits)
			step(c);
	}
	append(20);
	upkeep(true, false, 2);
	CHECK(shelf_row > 4000);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	CHECK_INT(sc_subscriber_close(c->sub)->code, 4416);
	snprintf(want, sizeof(want), "\"offset\":%llu,\"earliest\":%llu",
		 (unsigned long long)c->next, (unsigned long long)shelf_row);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason, want));
	end();
}

/* Rows of the archive count as many as their offsets are apart. */
TEST(max_replay)
{
	struct sc_stream_settings settings = { .wire = 1,
					       .bounded_replay = true,
					       .max_replay = 1000 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];

	stream_begin(&settings, true);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 1900, &err), &err);
	web_fail(500); /* it is not asked for this */
	CHECK_INT(attach(c, true, 1000, &refusal), 1);
	CHECK_INT(refusal.why, SC_WHY_TOO_OLD);
	CHECK_INT(refusal.behind, 1001);
	web_fail(0);
	CHECK_INT(attach(c, true, 1001, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_DATA);
	leave(c);
	CHECK_INT(attach(c, true, 0, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	CHECK(strstr(sc_subscriber_close(c->sub)->reason,
		     "\"why\":\"too_old\",\"offset\":1,\"behind\":2000"));
	end();
}
