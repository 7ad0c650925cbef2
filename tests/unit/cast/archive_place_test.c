/*
 * archive_place_test: an archive that is slow, damaged or not there. Goal: nobody waits for it but
 * those who read it; one that takes nothing holds none of its memory; what cannot be read closes
 * those who read it, behind the rows that are good. Method: an archive behind a web server that
 * answers when the test lets it.
 */
#include "archive_model.h"

/* An archive that does not answer is waited for by those who read it, and by nobody else. */
TEST(slow)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;

	stream_begin(&settings, true);
	for (int i = 0; i < 300; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 5900, &err), &err);
	web_hold("/");
	for (int i = 0; i < 4; i++)
		CHECK_INT(attach(&subs[i], true, i == 3 ? 0 : 1 + (uint64_t)i, &refusal), 0);
	CHECK_INT(attach(&subs[4], false, 0, &refusal), 0);
	web_await_held(1);
	for (int i = 0; i < 50; i++) {
		append(1);
		/* not held up, or it would never be through: no answer comes */
		CHECK_INT(through(&subs[4]), SC_NEXT_DATA);
		for (int k = 0; k < 4; k++)
			CHECK_INT(step(&subs[k]), SC_NEXT_IDLE);
	}
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK_INT(stats.replaying_archive, 4);
	CHECK(!subs[0].greeted);
	/* one leaves while it waits; one is closed with all others */
	leave(&subs[1]);
	web_hold(NULL);
	CHECK_INT(through(&subs[0]), SC_NEXT_DATA);
	CHECK_INT(through(&subs[3]), SC_NEXT_DATA);
	sc_stream_close_all(stream, 1001, "bye");
	CHECK_INT(through(&subs[2]), SC_NEXT_CLOSE);
	expect_close(&subs[2], 1001, "bye");
	end();
}

/* One that takes nothing for long lets go of its feed, and is at the same place then; one that only
 * waits for the archive does not. */
TEST(stalled)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	struct sc_span frames, again;
	enum sc_next next;

	stream_begin(&settings, true);
	for (int i = 0; i < 600; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 11900, &err), &err);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	while (c->next < 50) {
		fed();
		if (!c->waits)
			step(c);
	}
	/* all that came was sent: it waits */
	web_hold("/sealed/");
	do {
		fed();
		next = sc_subscriber_next(c->sub, 4000, &frames, &err);
		if (next == SC_NEXT_DATA)
			sc_subscriber_sent_part(c->sub, check_frames(c, frames, UINT64_MAX));
		CHECK(c->next < 11000);
	} while (next != SC_NEXT_IDLE || !web_held());
	for (int i = 0; i < 30; i++)
		sc_stream_tick(stream);
	c->waits = true;
	web_hold(NULL);
	while (c->waits) { /* it is woken */
		await_bell();
		fed();
	}
	while (sc_subscriber_next(c->sub, 4000, &frames, &err) != SC_NEXT_DATA)
		fed();
	/* nothing is taken: what was read ahead is forgotten, what was handed out is not */
	for (int i = 0; i < 30; i++)
		sc_stream_tick(stream);
	web_hold("/sealed/");
	CHECK(sc_subscriber_next(c->sub, 4000, &again, &err) == SC_NEXT_DATA);
	CHECK(again.len == frames.len && again.data == frames.data);
	check_frames(c, again, UINT64_MAX);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 4000, &again, &err), SC_NEXT_IDLE);
	web_hold(NULL);
	CHECK_INT(through(c), SC_NEXT_DATA);
	end();
}

TEST(unreachable)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct sc_stream_stats stats;

	stream_begin(&settings, true);
	for (int i = 0; i < 30; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 500, &err), &err);
	web_fail(403);
	CHECK_INT(attach(&subs[0], true, 1, &refusal), 0);
	CHECK_INT(attach(&subs[1], true, 500, &refusal), 0);
	CHECK_INT(through(&subs[0]), SC_NEXT_CLOSE);
	CHECK(sc_subscriber_in_archive(subs[0].sub));
	expect_close(&subs[0], 1011, "the archive cannot be read");
	CHECK_INT(err.code, SC_E_NOAUTH);
	CHECK_INT(through(&subs[1]), SC_NEXT_DATA);
	CHECK_OK(sc_stream_stats(stream, &stats, &err), &err);
	CHECK_INT(stats.dropped_archive, 1);
	end();
}

/* Damage, and an archive of another stream: rows that are good come before. */
TEST(damaged)
{
	struct sc_stream_settings settings = { .wire = 1 };
	struct sc_refusal refusal;
	struct consumer *c = &subs[0];
	uint64_t first;
	char path[900];

	stream_begin(&settings, false);
	for (int i = 0; i < 100; i++)
		append(20);
	upkeep(true, false, 0);
	CHECK_OK(sc_log_trim(writer, 1900, &err), &err);
	CHECK(objects("sealed") > 4);
	first = damage_segment(2);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(c, 1011, "the archive cannot be read");
	CHECK_INT(err.code, SC_E_DATA);
	CHECK_INT(c->next, first);
	leave(c);
	snprintf(path, sizeof(path),
		 "sed -i 's/\"stream_id\": *\"[0-9a-f]*/&0/;s/\\(\"stream_id\": "
		 "*\".\\{36\\}\\)./\\1/' "
		 "%s/trades/log.json %s/trades/epoch.json",
		 shelf, shelf);
	CHECK(system(path) == 0);
	CHECK_INT(attach(c, true, 1, &refusal), 0);
	CHECK_INT(through(c), SC_NEXT_CLOSE);
	expect_close(c, 1011, "the archive cannot be read");
	CHECK(err.code == SC_E_CONFIG || err.code == SC_E_DATA);
	end();
}
