/*
 * engine_load_test: much at once: what is in flight has a limit, many calls meet in one commit, a
 * store becomes full, writers, readers and waiters in threads of their own.
 */
#include <pthread.h>

#include "engine_fixture.h"

/* -- limits -- */

static void later(struct sc_ds_call *call)
{
	atomic_fetch_add((atomic_int *)call->arg, 1);
}

TEST(what_is_in_flight_has_a_limit)
{
	static char body[4001];
	struct sc_ds_settings set = quiet;
	struct sc_ds_call calls[200];
	atomic_int done = 0;
	int taken = 0, refused = 0, appended = 0, appends = 0;

	set.stream_inflight_max = 20000;
	begin(&set);
	memset(body, 'x', 4000);
	CHECK_INT(put("/a"), 201);
	for (int i = 0; i < 200; i++) {
		bool append = i % 10 != 9;

		calls[i] = request(append ? SC_DS_POST : SC_DS_PUT, "/a", body);
		calls[i].done = later;
		calls[i].arg = &done;
		appends += append;
		if (sc_ds_submit(ds, &calls[i]) == 0) {
			taken++;
			appended += append;
		} else {
			refused++;
			CHECK_INT(calls[i].answer.status, 503);
			CHECK_INT(calls[i].answer.retry_after_s, 1);
		}
	}
	CHECK(taken > 0 && refused > 0);
	until(&done, taken);
	{
		struct sc_ds_stats stats;

		CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
		CHECK_INT(stats.appended, appended);
		CHECK_INT(stats.overloaded, appends - appended); /* and no other call */
		CHECK_INT(stats.inflight_bytes, 0);
		CHECK_INT(stats.append_us.count, appended);
	}
	/* alone, any request is let in */
	{
		static char huge[50001];

		memset(huge, 'x', 50000);
		CHECK_INT(post("/a", huge), 204);
	}
	for (int i = 0; i < 200; i++)
		sc_ds_answer_done(&calls[i].answer);
	end();
}

static atomic_bool held;
static atomic_int holding;

static void hold(struct sc_ds_call *call)
{
	(void)call;
	atomic_store(&holding, 1);
	while (atomic_load(&held))
		usleep(100);
}

/* What one stream goes through in one commit: each call sees what the ones before it did. */
TEST(many_calls_meet_in_one_commit)
{
	enum { CALLS = 9 };
	static const int want[CALLS] = { 201, 204, 204, 201, 204, 201, 204, 200, 404 };
	struct sc_ds_call first = request(SC_DS_POST, "/none", "x"), calls[CALLS] = {
		request(SC_DS_PUT, "/x", "born"),    request(SC_DS_POST, "/x", "old"),
		request(SC_DS_DELETE, "/x", ""),     request(SC_DS_PUT, "/x", ""),
		request(SC_DS_POST, "/x", "newest"), request(SC_DS_PUT, "/f", "!"),
		request(SC_DS_POST, "/x", "after"),  request(SC_DS_PUT, "/x", ""),
		request(SC_DS_DELETE, "/old", ""),
	};
	struct sc_ds_stats before, after;
	atomic_int done = 0;

	begin(&quiet);
	calls[5].request.forked_from = SC_SPAN("/x");
	calls[5].request.fork_offset = SC_SPAN("-1");
	calls[5].request.fork_sub_offset = SC_SPAN("3");
	atomic_store(&holding, 0);
	atomic_store(&held, true);
	first.done = hold;
	CHECK_INT(sc_ds_submit(ds, &first), 0);
	until(&holding, 1);
	CHECK_OK(sc_ds_stats(ds, &before, &err), &err);
	for (int i = 0; i < CALLS; i++) {
		calls[i].done = later;
		calls[i].arg = &done;
		CHECK_INT(sc_ds_submit(ds, &calls[i]), 0);
	}
	atomic_store(&held, false);
	until(&done, CALLS);
	for (int i = 0; i < CALLS; i++) {
		CHECK_INT(calls[i].answer.status, want[i]);
		sc_ds_answer_done(&calls[i].answer);
	}
	sc_ds_answer_done(&first.answer);
	CHECK_OK(sc_ds_stats(ds, &after, &err), &err);
	CHECK_INT(after.commits - before.commits, 1);
	CHECK_STR(get("/x", NULL), "200 newestafter");
	CHECK_STR(get("/f", NULL), "200 new!");
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 4);
	end();
}

/* Appends until nothing more fits, also not a moment later; how many were taken. */
static int fill_up(const char *path, const char *body)
{
	int stored = 0;

	for (int refused = 0; refused < 3 && stored < 100;) {
		int status = post(path, body);

		CHECK(status == 204 || status == 503);
		stored += status == 204;
		refused = status == 204 ? 0 : refused + 1;
		CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	}
	return stored;
}

/* A store without room: 503, nothing half stored, and a delete makes room again, however often. */
TEST(a_full_store_is_a_503)
{
	static char big[100001];
	struct sc_ds_settings set = quiet;
	struct sc_ds_verified v;
	int stored = 0;

	set.size_max = 4u << 20;
	begin(&set);
	memset(big, 'x', 100000);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(put("/b"), 201);
	for (int round = 0; round < 30; round++) {
		int more = fill_up("/a", big), small = fill_up("/a", "small");

		CHECK(more > 10 && more < 100 && small > 0);
		stored = more + small;
		v = verified();
		CHECK_INT(v.messages, stored);
		CHECK_INT(post("/b", big), 503);
		CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 204);
		CHECK_OK(sc_ds_upkeep(ds, &err), &err);
		CHECK_INT(put("/a"), 201);
	}
	CHECK_INT(post("/b", big), 204);
	verified();
	end();
}

/* -- threads -- */

#define WRITERS 6
#define EACH 150

struct writer {
	pthread_t thread;
	int number;
	bool idempotent;
	uint64_t last;
};

static void *write_some(void *arg)
{
	struct writer *w = arg;
	char body[32], id[8], seq[16];

	snprintf(id, sizeof(id), "w%d", w->number % 10);
	for (int i = 0; i < EACH; i++) {
		struct sc_ds_call call = request(SC_DS_POST, i % 3 ? "/a" : "/b", body);

		snprintf(body, sizeof(body), "<%d:%d>", w->number, i);
		call.request.body = sc_span_str(body);
		if (w->idempotent && i % 3 == 1) {
			snprintf(seq, sizeof(seq), "%d", i / 3);
			call.request.producer_id = sc_span_str(id);
			call.request.producer_epoch = SC_SPAN("1");
			call.request.producer_seq = sc_span_str(seq);
			sc_ds_call(ds, &call); /* and once more: a duplicate */
		}
		sc_ds_call(ds, &call);
		if (call.answer.status != 204)
			w->last = UINT64_MAX;
		if (call.answer.next < w->last && i % 3)
			w->last = UINT64_MAX;
		else if (i % 3 && w->last != UINT64_MAX)
			w->last = call.answer.next;
		sc_ds_answer_done(&call.answer);
	}
	return NULL;
}

static atomic_bool writing;

/* Reads and waits until the writers are through: every read is the beginning of the next. */
static void *read_along(void *arg)
{
	static const char *const paths[] = { "/a", "/b" };
	struct sc_ds_request r = { .method = SC_DS_GET,
				   .path = sc_span_str(paths[(intptr_t)arg % 2]) };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;
	struct sc_err e = { 0 };
	uint64_t bytes = 0;
	struct waiting w = { .woken = 0 };

	w.waiter = (struct sc_ds_waiter){ .woken = woken, .arg = &w };
	r.query.offset = SC_SPAN("-1");
	r.query.live = SC_SPAN("long-poll");
	sc_ds_answer_init(&a);
	while (sc_ds_read(ds, &r, &reader, !atomic_load(&writing), &a, &e) == 0) {
		bytes += a.body.len;
		if (a.status == 204 && !a.wait)
			break;
		if (a.status != 200 && a.status != 204) {
			bytes = UINT64_MAX;
			break;
		}
		atomic_store(&w.woken, 0);
		if (a.wait && sc_ds_wait(ds, &reader, &w.waiter, &e) == 0) {
			while (!atomic_load(&w.woken) && atomic_load(&writing))
				usleep(200);
			sc_ds_unwait(ds, &w.waiter);
		}
	}
	sc_ds_answer_done(&a);
	return (void *)(uintptr_t)bytes;
}

TEST(many_threads_at_once)
{
	struct writer writers[WRITERS];
	pthread_t readers[4];
	struct sc_ds_verified v;
	struct sc_ds_stats stats;
	uint64_t seen = 0;
	void *bytes;

	begin(&quiet);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(put("/b"), 201);
	atomic_store(&writing, true);
	for (intptr_t i = 0; i < 4; i++)
		CHECK_INT(pthread_create(&readers[i], NULL, read_along, (void *)i), 0);
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .number = i, .idempotent = i % 2 };
		CHECK_INT(pthread_create(&writers[i].thread, NULL, write_some, &writers[i]), 0);
	}
	for (int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		CHECK(writers[i].last != UINT64_MAX);
	}
	atomic_store(&writing, false);
	for (int i = 0; i < 4; i++) {
		pthread_join(readers[i], &bytes);
		CHECK((uintptr_t)bytes != UINT64_MAX);
		seen += (uintptr_t)bytes;
	}
	v = verified();
	CHECK_INT(v.messages, WRITERS * EACH);
	CHECK_INT(seen, 2 * v.bytes);
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK_INT(stats.waiters, 0);
	CHECK_INT(stats.append_bytes, v.bytes);
	end();
}

static void *unwait_some(void *arg)
{
	static struct waiting w[2][500];
	struct waiting *mine = w[(intptr_t)arg];
	struct sc_ds_reader reader = {
		.started = true, .sid = 1, .at = 0, .live = SC_DS_LONG_POLL
	};
	struct sc_err e = { 0 };
	struct sc_ds_answer a;
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };

	sc_ds_answer_init(&a);
	for (int round = 0; round < 20; round++) {
		if (sc_ds_read(ds, &r, &reader, false, &a, &e) < 0)
			return arg;
		for (int i = 0; i < 500; i++) {
			mine[i].waiter = (struct sc_ds_waiter){ .woken = woken, .arg = &mine[i] };
			if (sc_ds_wait(ds, &reader, &mine[i].waiter, &e) < 0)
				return arg;
		}
		for (int i = 0; i < 500; i++)
			sc_ds_unwait(ds, &mine[i].waiter);
	}
	sc_ds_answer_done(&a);
	return NULL;
}

TEST(waiters_come_and_go_while_they_are_woken)
{
	pthread_t threads[2];
	struct sc_ds_stats stats;

	begin(&quiet);
	CHECK_INT(put("/a"), 201);
	for (intptr_t i = 0; i < 2; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, unwait_some, (void *)i), 0);
	for (int i = 0; i < 100; i++)
		CHECK_INT(post("/a", "x"), 204);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK_INT(stats.waiters, 0);
	end();
}
