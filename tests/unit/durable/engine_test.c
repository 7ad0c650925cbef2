/*
 * engine_test: what the model cannot show: waiting, last accesses across a restart, forks that
 * outlive what they came from. engine_load_test has what comes in numbers.
 */
#include <dirent.h>
#include <signal.h>

#include "engine_fixture.h"

/* -- lives -- */

TEST(a_sliding_ttl_slides_and_survives_a_restart)
{
	begin(&quiet);
	CHECK_INT(put_ttl("/a", "100"), 201);
	for (int i = 0; i < 5; i++) {
		advance(60);
		CHECK_STR(get("/a", NULL), "200 ");
	}
	/* calls that come later in the queue: the access is in the store then */
	CHECK_INT(post("/none", "x"), 404);
	CHECK_INT(post("/none", "x"), 404);
	advance(5); /* less than a tenth: in memory only */
	CHECK_STR(get("/a", NULL), "200 ");
	reopen(&quiet); /* it is stored on the way out */
	advance(97);
	CHECK_STR(get("/a", "now"), "200 ");
	advance(60);
	CHECK_INT(post("/a", "x"), 204);
	advance(60);
	CHECK_INT(head("/a"), 200); /* is no access */
	advance(60);
	CHECK_INT(head("/a"), 404);
	CHECK_STR(get("/a", NULL), "404 ");
	CHECK_INT(post("/a", "x"), 404);
	CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 404);
	CHECK_INT(put("/a"), 201);
	CHECK_STR(get("/a", NULL), "200 ");
	end();
}

TEST(an_engine_that_dies_loses_a_tenth_of_a_ttl_at_most)
{
	begin(&quiet);
	CHECK_INT(put_ttl("/a", "100"), 201);
	advance(50);
	CHECK_STR(get("/a", NULL), "200 ");
	/* a call that comes later in the queue: the access is in the store then */
	CHECK_INT(post("/none", "x"), 404);
	CHECK_INT(post("/none", "x"), 404);
	{
		/* a second look at the same store, as another process would have it */
		struct sc_ds *other = NULL;
		struct sc_ds_settings set = quiet;
		struct sc_ds_answer a;

		set.read_only = true;
		CHECK_OK(sc_ds_open(folder, &set, &other, &err), &err);
		advance(99);
		sc_ds_answer_init(&a);
		CHECK_OK(sc_ds_head(other, SC_SPAN("/a"), &a, &err), &err);
		CHECK_INT(a.status, 200);
		advance(1);
		CHECK_OK(sc_ds_head(other, SC_SPAN("/a"), &a, &err), &err);
		CHECK_INT(a.status, 404);
		sc_ds_answer_done(&a);
		sc_ds_close(other);
	}
	end();
}

TEST(a_ttl_of_zero_and_a_huge_one)
{
	begin(&quiet);
	CHECK_INT(put_ttl("/a", "0"), 201);
	CHECK_INT(head("/a"), 404);
	CHECK_INT(put_ttl("/a", "99999999999999999999999"), 201);
	advance(4000000000);
	CHECK_INT(head("/a"), 200);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 200);
	verified();
	end();
}

TEST(the_sweep_removes_what_expired)
{
	struct sc_ds_stats stats;

	begin(&quiet);
	CHECK_INT(put_ttl("/a", "10"), 201);
	CHECK_INT(put_ttl("/b", "10"), 201);
	CHECK_INT(post("/a", "x"), 204);
	CHECK_INT(fork_of("/f", "/b", NULL), 201);
	advance(5);
	CHECK_STR(get("/f", NULL), "200 ");
	advance(5);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 404);
	CHECK_INT(head("/b"), 410); /* its fork lives */
	CHECK_INT(head("/f"), 200);
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK_INT(stats.streams, 2);
	CHECK_INT(stats.expired, 2);
	CHECK_INT(stats.delete_backlog, 0);
	advance(10);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/b"), 404);
	CHECK_INT(verified().streams, 0);
	end();
}

/* -- forks and trims -- */

TEST(a_fork_keeps_what_its_source_trims_and_deletes)
{
	struct sc_ds_verified v;

	begin(&quiet);
	CHECK_INT(put("/s"), 201);
	CHECK_INT(post("/s", "one"), 204);
	CHECK_INT(post("/s", "two"), 204);
	CHECK_INT(post("/s", "three"), 204);
	CHECK_INT(fork_of("/f", "/s", "0000000000000000_0000000000000014"), 201);
	CHECK_INT(fork_of("/g", "/f", NULL), 201);
	CHECK_INT(post("/f", "FOUR"), 204);
	CHECK_INT(trim("/s", 14), 204);
	CHECK_INT(trim("/f", 7), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_STR(get("/s", "-1"), "200 three");
	CHECK_STR(get("/s", "0000000000000000_0000000000000007"), "410 ");
	CHECK_STR(get("/f", "-1"), "200 twoFOUR");
	CHECK_STR(get("/g", "-1"), "200 onetwo");
	CHECK_INT(ask(request(SC_DS_DELETE, "/s", ""), NULL), 204);
	CHECK_STR(get("/s", "-1"), "410 ");
	CHECK_INT(put("/s"), 409);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_STR(get("/g", "-1"), "200 onetwo");
	CHECK_INT(ask(request(SC_DS_DELETE, "/g", ""), NULL), 204);
	CHECK_STR(get("/f", "-1"), "200 twoFOUR");
	CHECK_INT(ask(request(SC_DS_DELETE, "/f", ""), NULL), 204);
	CHECK_STR(get("/s", "-1"), "404 ");
	CHECK_INT(put("/s"), 201);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	v = verified();
	CHECK_INT(v.streams, 1);
	CHECK_INT(v.messages, 0);
	end();
}

TEST(a_chain_of_forks_is_read_as_one)
{
	char path[32] = "/c0", source[32], want[256] = "200 ", offset[SC_DS_OFFSET_TEXT];
	size_t len = strlen(want);

	begin(&quiet);
	CHECK_INT(put(path), 201);
	for (int i = 0; i < 100; i++) {
		char letter[2] = { (char)('a' + i % 26), 0 };

		CHECK_INT(post(path, letter), 204);
		want[len++] = letter[0];
		want[len] = 0;
		memcpy(source, path, sizeof(path));
		snprintf(path, sizeof(path), "/c%d", i + 1);
		CHECK_INT(fork_of(path, source, NULL), 201);
		CHECK_STR(get(path, NULL), want);
	}
	/* from each message on, whoever holds it */
	for (int i = 0; i <= 100; i++) {
		char rest[256];

		sc_ds_offset_format((uint64_t)i * 5, offset);
		snprintf(rest, sizeof(rest), "200 %s", want + 4 + i);
		CHECK_STR(get(path, offset), rest);
	}
	end();
}

/* What only a fork showed goes when the fork trims it too, or goes itself. */
TEST(trimmed_data_of_a_source_goes_with_its_last_reader)
{
	begin(&quiet);
	CHECK_INT(put("/s"), 201);
	CHECK_INT(post("/s", "one"), 204);
	CHECK_INT(post("/s", "two"), 204);
	CHECK_INT(post("/s", "three"), 204);
	CHECK_INT(fork_of("/f", "/s", NULL), 201);
	CHECK_INT(fork_of("/g", "/s", "0000000000000000_0000000000000007"), 201);
	CHECK_INT(trim("/s", 14), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 3);
	CHECK_INT(trim("/f", 14), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 3); /* /g shows the first one */
	CHECK_STR(get("/g", "-1"), "200 one");
	CHECK_INT(ask(request(SC_DS_DELETE, "/g", ""), NULL), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 1);
	CHECK_STR(get("/f", "-1"), "200 three");
	CHECK_INT(fork_of("/h", "/f", NULL), 201);
	CHECK_INT(trim("/s", 23), 204);
	CHECK_INT(trim("/h", 23), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 1);
	CHECK_INT(trim("/f", 23), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(verified().messages, 0);
	end();
}

/* Runs that a trim has made free really go. */
TEST(trimmed_data_is_deleted)
{
	static char big[30000];
	struct sc_ds_verified v;

	begin(&quiet);
	memset(big, 'x', sizeof(big) - 1);
	CHECK_INT(put("/s"), 201);
	for (int i = 0; i < 20; i++)
		CHECK_INT(post("/s", big), 204);
	CHECK_INT(trim("/s", 10 * 30003), 204);
	CHECK_INT(trim("/s", 10 * 30003 + 1), 400);
	CHECK_INT(trim("/s", 21 * 30003), 400);
	CHECK_INT(trim("/s", 3), 204); /* backwards */
	CHECK_INT(trim("/none", 3), 404);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	v = verified();
	CHECK_INT(v.messages, 10);
	end();
}

TEST(sealed_groups_take_no_new_streams)
{
	struct sc_ds_call call = request(SC_DS_PUT, "/d", "");

	begin(&quiet);
	CHECK_INT(put("/d/.x"), 201);
	call.op = SC_DS_OP_SEAL;
	CHECK_INT(ask(call, NULL), 204);
	call.request.path = SC_SPAN("/d/.x");
	CHECK_INT(ask(call, NULL), 400);
	CHECK_INT(put("/d/.x"), 200);
	CHECK_INT(post("/d/.x", "y"), 204);
	CHECK_INT(put("/d/.y"), 409);
	CHECK_INT(fork_of("/d/.z", "/d/.x", NULL), 409);
	CHECK_INT(put("/d/e"), 201);
	reopen(&quiet);
	CHECK_INT(put("/d/.y"), 409);
	end();
}

/* -- waiting -- */

/* A long-poll that has come to the tail. */
static struct sc_ds_reader poll_at_tail(const char *path, struct sc_ds_request *r,
					struct sc_ds_answer *a)
{
	struct sc_ds_reader reader = { 0 };

	*r = (struct sc_ds_request){ .method = SC_DS_GET, .path = sc_span_str(path) };
	r->query.offset = SC_SPAN("now");
	r->query.live = SC_SPAN("long-poll");
	CHECK_OK(sc_ds_read(ds, r, &reader, false, a, &err), &err);
	CHECK(a->wait);
	return reader;
}

TEST(a_waiter_wakes_for_what_happens_to_its_stream)
{
	static struct waiting w[4];
	struct sc_ds_reader reader, other;
	struct sc_ds_request r, s;
	struct sc_ds_answer a;
	struct sc_ds_call close = request(SC_DS_POST, "/a", "last");

	begin(&quiet);
	memset(w, 0, sizeof(w));
	sc_ds_answer_init(&a);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(put("/b"), 201);
	CHECK_INT(fork_of("/f", "/a", NULL), 201);
	reader = poll_at_tail("/a", &r, &a);
	other = poll_at_tail("/f", &s, &a);
	for (int i = 0; i < 4; i++) {
		w[i].waiter = (struct sc_ds_waiter){ .woken = woken, .arg = &w[i] };
		CHECK_INT(sc_ds_wait(ds, i == 3 ? &other : &reader, &w[i].waiter, &err), 0);
	}
	sc_ds_unwait(ds, &w[1].waiter);
	CHECK_INT(post("/b", "x"), 204);
	CHECK_INT(post("/a", "x"), 204);
	until(&w[0].woken, 1);
	until(&w[2].woken, 1);
	CHECK_INT(atomic_load(&w[0].why), SC_DS_WOKEN_CHANGED);
	CHECK_INT(atomic_load(&w[1].woken), 0);
	CHECK_INT(atomic_load(&w[3].woken), 0); /* a fork is no part of its source */
	/* there is news now: no wait */
	CHECK_INT(sc_ds_wait(ds, &reader, &w[0].waiter, &err), 1);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK_INT(a.status, 200);
	CHECK_MEM(a.body.data, a.body.len, "x");
	/* appended and closed at once: the data, and the closure with it */
	CHECK_INT(sc_ds_wait(ds, &reader, &w[0].waiter, &err), 0);
	close.request.closed = SC_SPAN("true");
	CHECK_INT(ask(close, NULL), 204);
	until(&w[0].woken, 2);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK_INT(a.status, 200);
	CHECK_MEM(a.body.data, a.body.len, "last");
	CHECK(a.closed && a.up_to_date && !a.wait);
	CHECK_INT(ask(request(SC_DS_DELETE, "/f", ""), NULL), 204);
	until(&w[3].woken, 1);
	CHECK_INT(atomic_load(&w[3].why), SC_DS_WOKEN_GONE);
	CHECK_OK(sc_ds_read(ds, &s, &other, false, &a, &err), &err);
	CHECK_INT(a.status, 404);
	/* a new life of the path is not the one that was waited for */
	CHECK_INT(put("/f"), 201);
	CHECK_OK(sc_ds_read(ds, &s, &other, false, &a, &err), &err);
	CHECK_INT(a.status, 404);
	other = poll_at_tail("/f", &s, &a);
	CHECK_INT(sc_ds_wait(ds, &other, &w[3].waiter, &err), 0);
	CHECK_OK(sc_ds_read(ds, &s, &other, true, &a, &err), &err);
	CHECK_INT(a.status, 204);
	CHECK(!a.wait && a.up_to_date && a.cursor[0]);
	sc_ds_stop(ds);
	until(&w[3].woken, 2);
	CHECK_INT(atomic_load(&w[3].why), SC_DS_WOKEN_STOP);
	CHECK_INT(sc_ds_wait(ds, &other, &w[3].waiter, &err), 1);
	CHECK_INT(post("/f", "x"), 503);
	sc_ds_answer_done(&a);
	end();
}

TEST(a_stream_with_a_reader_does_not_expire)
{
	static struct waiting w;
	struct sc_ds_reader reader;
	struct sc_ds_request r;
	struct sc_ds_answer a;

	begin(&quiet);
	memset(&w, 0, sizeof(w));
	sc_ds_answer_init(&a);
	CHECK_INT(put_ttl("/a", "10"), 201);
	reader = poll_at_tail("/a", &r, &a);
	w.waiter = (struct sc_ds_waiter){ .woken = woken, .arg = &w };
	CHECK_INT(sc_ds_wait(ds, &reader, &w.waiter, &err), 0);
	advance(50);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 200);
	CHECK_INT(atomic_load(&w.woken), 0);
	sc_ds_unwait(ds, &w.waiter);
	CHECK_OK(sc_ds_read(ds, &r, &reader, true, &a, &err), &err);
	advance(9);
	CHECK_INT(head("/a"), 200);
	advance(1);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 404);
	sc_ds_answer_done(&a);
	end();
}

/* Nobody asks: the writer looks when something is due, and deletes what is left of it. */
TEST(the_background_ends_waits_and_deletes)
{
	static struct waiting w;
	struct sc_ds_settings set = { .size_max = 64u << 20 };
	struct sc_ds_call call = request(SC_DS_PUT, "/a", "x");
	char expires[SC_DS_TIME_TEXT];
	struct sc_ds_reader reader;
	struct sc_ds_request r;
	struct sc_ds_answer a;
	struct sc_ds_stats stats = { .delete_backlog = 1 };

	begin(&set);
	atomic_store(&clock_us, 0); /* the real one */
	memset(&w, 0, sizeof(w));
	sc_ds_answer_init(&a);
	sc_ds_time_format(sc_wall_us() + 2000000, expires);
	call.request.expires_at = sc_span_str(expires);
	CHECK_INT(ask(call, NULL), 201);
	reader = poll_at_tail("/a", &r, &a);
	w.waiter = (struct sc_ds_waiter){ .woken = woken, .arg = &w };
	CHECK_INT(sc_ds_wait(ds, &reader, &w.waiter, &err), 0);
	until(&w.woken, 1);
	CHECK_INT(atomic_load(&w.why), SC_DS_WOKEN_GONE);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK_INT(a.status, 404);
	for (int i = 0; i < 5000 && stats.delete_backlog; i++) {
		usleep(1000);
		CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	}
	CHECK_INT(stats.delete_backlog, 0);
	CHECK_INT(stats.expired, 1);
	CHECK_INT(verified().messages, 0);
	sc_ds_answer_done(&a);
	end();
}

TEST(sse_is_one_data_and_one_control_event_a_batch)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;
	struct sc_ds_call close = request(SC_DS_POST, "/a", "");

	begin(&quiet);
	sc_ds_answer_init(&a);
	r.query.offset = SC_SPAN("-1");
	r.query.live = SC_SPAN("sse");
	CHECK_INT(put("/a"), 201);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK(a.wait && !a.end && a.status == 200 && strstr(sc_bytes_str(&a.body), "upToDate"));
	CHECK(!strstr(sc_bytes_str(&a.body), "event: data"));
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK(a.wait && a.body.len == 0); /* nothing is said twice */
	CHECK_INT(post("/a", "x"), 204);
	CHECK_INT(post("/a", "y\nz"), 204);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK(!strncmp(sc_bytes_str(&a.body),
		       "event: data\ndata:xy\ndata:z\n\nevent: control\ndata:{", 49));
	close.request.closed = SC_SPAN("true");
	CHECK_INT(ask(close, NULL), 204);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	CHECK(a.end && !a.wait && strstr(sc_bytes_str(&a.body), "\"streamClosed\":true"));
	CHECK(!strstr(sc_bytes_str(&a.body), "streamCursor"));
	sc_ds_answer_done(&a);
	end();
}

/* A reader of its own size: batches of about so much, and never more than the engine's. */
TEST(a_reader_may_ask_for_less_at_a_time)
{
	static const struct {
		uint64_t engine, reader;
		size_t want;
	} cases[] = {
		{ 0, 0, 200 }, { 0, 20, 20 }, { 20, 0, 20 }, { 20, 1000, 20 }, { 1000, 20, 20 }
	};
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_answer a;

	sc_ds_answer_init(&a);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sc_ds_reader reader = { .read_bytes = cases[i].reader };
		struct sc_ds_settings set = quiet;

		set.read_bytes = cases[i].engine;
		begin(&set);
		CHECK_INT(put("/a"), 201);
		for (int n = 0; n < 20; n++)
			CHECK_INT(post("/a", "0123456789"), 204);
		for (int n = 0; n < 2; n++) {
			r.query.offset = n ? SC_SPAN("") : SC_SPAN("-1");
			CHECK_OK(sc_ds_read(ds, &r, &reader, true, &a, &err), &err);
			CHECK_INT(a.body.len, n && cases[i].want == 200 ? 0 : cases[i].want);
			CHECK_INT(reader.read_bytes, cases[i].reader);
		}
		end();
	}
	sc_ds_answer_done(&a);
}

/* The engine's thread leaves the signals of the process to whoever uses it. */
TEST(signals_are_the_users)
{
	DIR *tasks;
	struct dirent *task;
	int others = 0;

	begin(&quiet);
	CHECK_INT(put("/a"), 201); /* so it runs: until then all is blocked anyway */
	tasks = opendir("/proc/self/task");
	CHECK(tasks != NULL);
	while (tasks && (task = readdir(tasks))) {
		unsigned long long blocked = 0;
		char path[300], line[200];
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
		if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
			continue;
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			sscanf(line, "SigBlk: %llx", &blocked);
		if (!f)
			continue; /* it has ended */
		fclose(f);
		others++;
		CHECK(blocked >> (SIGINT - 1) & 1);
		CHECK(blocked >> (SIGTERM - 1) & 1);
		CHECK(blocked >> (SIGUSR1 - 1) & 1);
	}
	if (tasks)
		closedir(tasks);
	CHECK(others >= 1);
	end();
}
/* Paths of any bytes and the greatest length; lists come in their order. */
static int keep(void *arg, const struct sc_ds_stream *stream)
{
	char *text = arg;

	snprintf(text + strlen(text), 2048 - strlen(text), "%zu%c ", stream->path.len,
		 stream->path.data[stream->path.len - 1]);
	return 0;
}

TEST(paths_of_all_lengths)
{
	static char path[SC_DS_PATH_MAX + 2], text[2048];

	begin(&quiet);
	memset(path, 'p', sizeof(path) - 1);
	path[0] = '/';
	CHECK_INT(put(path), 414);
	path[SC_DS_PATH_MAX] = 0;
	CHECK_INT(put(path), 201);
	path[SC_DS_PATH_MAX - 1] = 'q';
	CHECK_INT(put(path), 201);
	CHECK_INT(post(path, "x"), 204);
	CHECK_STR(get(path, NULL), "200 x");
	CHECK_INT(put("/"), 404);
	CHECK_INT(put("/p"), 201);
	CHECK_INT(put("/a/../b"), 201);
	CHECK_INT(put("/a%2Fb"), 201);
	CHECK_OK(sc_ds_list(ds, SC_SPAN("/"), keep, text, &err), &err);
	CHECK_STR(text, "6b 7b 2p 512p 512q ");
	text[0] = 0;
	CHECK_OK(sc_ds_list(ds, SC_SPAN("/pp"), keep, text, &err), &err);
	CHECK_STR(text, "512p 512q ");
	text[0] = 0;
	CHECK_OK(sc_ds_list(ds, SC_SPAN(""), keep, text, &err), &err);
	CHECK_STR(text, "6b 7b 2p 512p 512q ");
	verified();
	end();
}
