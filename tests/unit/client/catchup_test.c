/*
 * catchup_test: an archive read into a session, in a loop. Goal: every row once, in order, from
 * where the session is; found by its own URL, its folder's, or what the server said; paused and
 * stopped at any row; never waited for. Method: an archive in a folder, and a port that takes
 * connections and says nothing.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "../log/archive_help.h"

#include "base/clock.h"
#include "client/catchup.h"

static void begin_archived(uint64_t rows)
{
	begin(4096);
	grow_archived(1, rows, 10, 4096);
}

struct life {
	struct sc_loop *loop;
	struct sc_timer *timer;
	struct sc_events *events;
	struct sc_session *session;
	struct sc_catchup *catchup;
	uint64_t next;        /* row that is due */
	uint64_t pause_every; /* 0: never */
	uint64_t stop_at, fail_at;
	unsigned batches, pauses;
	bool paused_only; /* no row may come now */
	bool done;
	struct sc_err end;
};

static int on_row(void *arg, enum sc_session_step step, const struct sc_data *row, struct sc_err *e)
{
	struct life *l = arg;
	char want[40];

	CHECK(!l->paused_only && !l->done);
	CHECK_INT(step, SC_STEP_ROW);
	CHECK_INT(row->offset, l->next);
	snprintf(want, sizeof(want), "{\"n\":%llu}", (unsigned long long)l->next);
	CHECK_SPAN(row->msg, want);
	l->next++;
	if (l->fail_at == row->offset)
		return sc_err_set(e, SC_E_IO, "cannot", "it is full");
	if (l->stop_at == row->offset) {
		sc_catchup_stop(l->catchup);
		sc_loop_stop(l->loop);
		l->paused_only = true;
	} else if (l->pause_every && row->offset % l->pause_every == 0) {
		sc_catchup_pause(l->catchup);
		l->paused_only = true;
		l->pauses++;
		sc_timer_start(l->timer, 1);
	}
	return 0;
}

static void on_batch(void *arg)
{
	((struct life *)arg)->batches++;
}

static void on_done(void *arg, const struct sc_err *e)
{
	struct life *l = arg;

	CHECK(!l->done);
	l->done = true;
	l->end = *e;
	sc_loop_stop(l->loop);
}

static void on_timer(void *arg)
{
	struct life *l = arg;

	if (!l->paused_only) { /* nothing came in all this time */
		sc_loop_stop(l->loop);
		return;
	}
	l->paused_only = false;
	sc_catchup_resume(l->catchup);
}

static void live(struct life *l, const char *archive, const char *target, uint64_t from)
{
	const struct sc_session_options so = {
		.target = target, .has_offset = true, .offset = from, .rounds = 3
	};
	const struct sc_events_options eo = { .fd = -1 };
	const struct sc_catchup_options o = {
		.archive = archive, .row = on_row, .batch = on_batch, .done = on_done, .arg = l
	};

	l->next = from ? from : 1;
	CHECK_OK(sc_loop_new(&l->loop, &err), &err);
	CHECK_OK(sc_timer_new(l->loop, on_timer, l, &l->timer, &err), &err);
	CHECK_OK(sc_events_open(&eo, &l->events, &err), &err);
	CHECK_OK(sc_session_new(&so, &l->session, &err), &err);
	CHECK_OK(sc_catchup_new(l->loop, &o, l->session, l->events, &l->catchup, &err), &err);
}

static void die(struct life *l)
{
	sc_catchup_free(l->catchup);
	sc_session_free(l->session);
	sc_events_close(l->events);
	sc_timer_free(l->timer);
	sc_loop_free(l->loop);
}

static void run(struct life *l)
{
	sc_catchup_begin(l->catchup);
	CHECK(l->done || sc_catchup_active(l->catchup));
	if (!l->done)
		CHECK_OK(sc_loop_run(l->loop, &err), &err);
}

TEST(from_any_row_to_the_end)
{
	begin_archived(3000);
	for (uint64_t from = 0; from <= 3000; from += 300) {
		struct life l = { .pause_every = from % 900 ? 0 : 97 };

		live(&l, from % 200 ? log_url : archive_url, "/trades", from);
		CHECK(sc_catchup_located(l.catchup));
		run(&l);
		CHECK(l.done && l.end.code == 0);
		CHECK_INT(l.next, 3001);
		CHECK_INT(sc_session_resume(l.session), 3001);
		CHECK(l.batches > 0 && !sc_catchup_active(l.catchup));
		if (l.pause_every)
			CHECK_INT(l.pauses, 3000 / 97 - (from ? (from - 1) / 97 : 0));
		/* another round, on an archive that has no more */
		l.done = false;
		run(&l);
		CHECK_INT(l.end.code, SC_E_REFUSED);
		CHECK(strstr(l.end.fields, "\"archive_end\":3001"));
		die(&l);
	}
	log_done();
}

TEST(stopped_at_any_row)
{
	begin_archived(2000);
	for (uint64_t at = 1; at < 2000; at += 333) {
		struct life l = { .stop_at = at };

		live(&l, log_url, "/trades", 1);
		run(&l);
		CHECK(!l.done);
		CHECK_INT(l.next, at + 1);
		/* and begun again: at the row after it */
		l.stop_at = 0;
		l.paused_only = false;
		run(&l);
		CHECK(l.done && l.end.code == 0);
		CHECK_INT(l.next, 2001);
		die(&l);
	}
	{
		struct life l = { .fail_at = 700 };

		live(&l, log_url, "/trades", 1);
		run(&l);
		CHECK_INT(l.end.code, SC_E_IO);
		CHECK_INT(l.next, 701);
		die(&l);
	}
	log_done();
}

TEST(what_is_not_there_is_told)
{
	static const char peeked[] =
		"{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":5,\"replay\":null,"
		"\"durable\":true,\"archive\":\"%s\"}";
	char text[600];

	begin_archived(100);
	for (int i = 0; i < 3; i++) {
		struct life l = { .done = false };

		/* nobody says where; a name that is no folder's; one that is not there */
		live(&l, i ? archive_url : NULL, i == 1 ? "/..%2ftrades" : "/other", 1);
		CHECK(sc_catchup_located(l.catchup) == (i > 0));
		run(&l);
		CHECK_INT(l.end.code, SC_E_NOLOG);
		CHECK(strstr(l.end.next, "--archive"));
		die(&l);
	}
	for (int i = 0; i < 3; i++) {
		struct life l = { .done = false };
		const char *const places[] = { log_url, archive_url, "nonsense" };

		live(&l, NULL, "/trades", 1);
		snprintf(text, sizeof(text), peeked, places[i]);
		CHECK_OK(sc_session_peeked(l.session, sc_span_str(text), false, &err), &err);
		run(&l);
		/* a server says where it is, not where its folder is */
		CHECK_INT(l.end.code, i == 0 ? 0 : i == 1 ? SC_E_NOLOG : SC_E_USAGE);
		if (i == 1)
			CHECK(strstr(l.end.next, "another kind"));
		die(&l);
	}
	log_done();
}

/* The loop goes on meanwhile, and the end does not wait. */
TEST(a_place_that_does_not_answer)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(at);
	char url[100];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct life l = { .done = false };
	int64_t since;

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 5) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/trades", ntohs(at.sin_port));
	live(&l, url, "/trades", 1);
	sc_timer_start(l.timer, 100);
	run(&l);
	CHECK(!l.done && sc_catchup_active(l.catchup));
	since = sc_mono_us();
	die(&l);
	CHECK(sc_mono_us() - since < 9000000); /* the archive's time is 30 s */
	close(fd);
}
