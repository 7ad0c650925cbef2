/*
 * engine_test: what the model cannot show: threads, waiting, overload, last accesses across a
 * restart, forks that outlive what they came from, a full store.
 *
 * Method: a store in a folder of its own, the clock in the test's hand, background work only when
 * it is asked for.
 */
#include "durable/engine.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"

#define START_US 1800000000000000ll

static atomic_int_fast64_t clock_us;
static char folder[256];
static struct sc_ds *ds;
static struct sc_err err;

static int64_t test_wall(void)
{
	int64_t us = atomic_load(&clock_us);
	struct timespec now;

	if (us)
		return us;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

static void advance(int64_t seconds)
{
	atomic_fetch_add(&clock_us, seconds * 1000000);
}

static const struct sc_ds_settings quiet = {
	.size_max = 256u << 20,
	.sweep_ms = -1,
	.repair_ms = -1,
};

static void reopen(const struct sc_ds_settings *set)
{
	sc_ds_close(ds);
	ds = NULL;
	CHECK_OK(sc_ds_open(folder, set, &ds, &err), &err);
}

static void begin(const struct sc_ds_settings *set)
{
	const char *tmp = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");

	memset(&err, 0, sizeof(err));
	atomic_store(&clock_us, START_US);
	sc_clock_set(test_wall, NULL);
	snprintf(folder, sizeof(folder), "%s/sc-engine.XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(folder) != NULL);
	reopen(set);
}

static void end(void)
{
	char path[300];

	sc_ds_close(ds);
	ds = NULL;
	snprintf(path, sizeof(path), "%s/streams.mdb", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/streams.mdb-lock", folder);
	unlink(path);
	CHECK_INT(rmdir(folder), 0);
}

static struct sc_ds_call request(enum sc_ds_method method, const char *path, const char *body)
{
	struct sc_ds_call call = {
		.request = {
			.method = method,
			.path = sc_span_str(path),
			.content_type = SC_SPAN("text/plain"),
			.body = sc_span_str(body),
		},
	};

	sc_ds_answer_init(&call.answer);
	return call;
}

/* The status; *ret_next (may be NULL) the offset. */
static int ask(struct sc_ds_call call, uint64_t *ret_next)
{
	sc_ds_call(ds, &call);
	if (ret_next)
		*ret_next = call.answer.next;
	sc_ds_answer_done(&call.answer);
	return call.answer.status;
}

static int put(const char *path)
{
	return ask(request(SC_DS_PUT, path, ""), NULL);
}

static int post(const char *path, const char *body)
{
	return ask(request(SC_DS_POST, path, body), NULL);
}

static int put_ttl(const char *path, const char *ttl)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.request.ttl = sc_span_str(ttl);
	return ask(call, NULL);
}

static int fork_of(const char *path, const char *source, const char *offset)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.request.forked_from = sc_span_str(source);
	call.request.fork_offset = offset ? sc_span_str(offset) : sc_span(NULL, 0);
	return ask(call, NULL);
}

static int trim(const char *path, uint64_t at)
{
	struct sc_ds_call call = request(SC_DS_PUT, path, "");

	call.op = SC_DS_OP_TRIM;
	call.position = at;
	return ask(call, NULL);
}

/* The whole answer as text: status, then the body. */
static const char *get(const char *path, const char *offset)
{
	static char text[4096];
	struct sc_ds_request r = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;

	r.query.offset = offset ? sc_span_str(offset) : sc_span(NULL, 0);
	sc_ds_answer_init(&a);
	CHECK_OK(sc_ds_read(ds, &r, &reader, false, &a, &err), &err);
	snprintf(text, sizeof(text), "%d %.*s", a.status, (int)a.body.len,
		 a.body.len ? a.body.data : "");
	sc_ds_answer_done(&a);
	return text;
}

static int head(const char *path)
{
	struct sc_ds_answer a;
	int status;

	sc_ds_answer_init(&a);
	CHECK_OK(sc_ds_head(ds, sc_span_str(path), &a, &err), &err);
	status = a.status;
	sc_ds_answer_done(&a);
	return status;
}

static void told(void *arg, const char *what)
{
	(void)arg;
	FAIL("verify: %s", what);
}

static struct sc_ds_verified verified(void)
{
	struct sc_ds_verified v;

	CHECK_OK(sc_ds_verify(ds, told, NULL, &v, &err), &err);
	return v;
}

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

struct waiting {
	struct sc_ds_waiter waiter;
	atomic_int woken, why;
};

static void woken(struct sc_ds_waiter *waiter, enum sc_ds_woken why)
{
	struct waiting *w = waiter->arg;

	atomic_store(&w->why, (int)why);
	atomic_fetch_add(&w->woken, 1);
}

static void until(atomic_int *value, int want)
{
	for (int i = 0; i < 10000 && atomic_load(value) != want; i++)
		usleep(1000);
	CHECK_INT(atomic_load(value), want);
}

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
	int taken = 0, refused = 0;

	set.stream_inflight_max = 20000;
	begin(&set);
	memset(body, 'x', 4000);
	CHECK_INT(put("/a"), 201);
	for (int i = 0; i < 200; i++) {
		calls[i] = request(SC_DS_POST, "/a", body);
		calls[i].done = later;
		calls[i].arg = &done;
		if (sc_ds_submit(ds, &calls[i]) == 0) {
			taken++;
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
		CHECK_INT(stats.appended, taken);
		CHECK_INT(stats.overloaded, refused);
		CHECK_INT(stats.inflight_bytes, 0);
		CHECK_INT(stats.append_us.count, taken);
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

/* A store without room: 503, nothing half stored, and a delete makes room again. */
TEST(a_full_store_is_a_503)
{
	static char big[100001];
	struct sc_ds_settings set = quiet;
	struct sc_ds_verified v;
	int status = 204, stored = 0;

	set.size_max = 4u << 20;
	begin(&set);
	memset(big, 'x', 100000);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(put("/b"), 201);
	while (status == 204 && stored < 100) {
		status = post("/a", big);
		stored += status == 204;
	}
	CHECK_INT(status, 503);
	v = verified();
	CHECK_INT(v.messages, stored);
	CHECK_INT(post("/b", big), 503);
	CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
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
