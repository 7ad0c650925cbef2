/*
 * chores_test: one damaged row does not keep the others from being done, and a stream with very
 * many forks is looked through in pieces.
 *
 * Method: rows are written into the store as no engine would write them; what is left of runs is
 * counted.
 */
#include "durable/engine_internal.h"
#include "engine_fixture.h"

static atomic_int troubles;

static void trouble(void *arg, const struct sc_err *e)
{
	(void)arg;
	CHECK_INT(e->code, SC_E_DATA);
	atomic_fetch_add(&troubles, 1);
}

static struct sc_ds_settings settings(void)
{
	struct sc_ds_settings set = quiet;

	atomic_store(&troubles, 0);
	set.trouble = trouble;
	return set;
}

static void put_row(int table, struct sc_span key, struct sc_span value)
{
	struct sc_kv_txn *txn = NULL;

	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_OK(sc_kv_put(txn, table, key, value, &err), &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
}

static uint64_t rows(int table)
{
	struct sc_kv_txn *txn = NULL;
	uint64_t count;

	CHECK_OK(sc_kv_read(ds->kv, &txn, &err), &err);
	count = sc_kv_count(txn, table);
	sc_kv_abort(&txn);
	return count;
}

static void damage(uint64_t sid)
{
	struct sc_ds_key key;

	sc_ds_key1(&key, sid);
	put_row(SC_DS_STREAMS, sc_ds_key_span(&key), SC_SPAN("no record"));
}

static struct sc_ds_stats stats(void)
{
	struct sc_ds_stats s;

	CHECK_OK(sc_ds_stats(ds, &s, &err), &err);
	return s;
}

TEST(what_is_damaged_does_not_keep_others_from_expiring)
{
	struct sc_ds_settings set = settings();

	begin(&set);
	CHECK_INT(put_ttl("/a", "1"), 201);
	CHECK_INT(put_ttl("/b", "2"), 201);
	CHECK_INT(put_ttl("/c", "3"), 201);
	CHECK_INT(put_ttl("/d", "1000"), 201);
	damage(2);
	put_row(SC_DS_EXPIRY, SC_SPAN("\0\0\0"), SC_SPAN(""));
	put_row(SC_DS_EXPIRY, SC_SPAN("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), SC_SPAN(""));
	advance(10);
	CHECK_INT(sc_ds_upkeep(ds, &err), SC_E_DATA);
	CHECK_INT(atomic_load(&troubles), 3);
	CHECK_INT(stats().set_aside, 3);
	CHECK_INT(stats().expired, 2);
	CHECK_INT(rows(SC_DS_PATHS), 2);
	/* nothing is said twice, and what is due later goes, too */
	advance(2000);
	CHECK_INT(sc_ds_upkeep(ds, &err), SC_E_DATA);
	CHECK_INT(atomic_load(&troubles), 3);
	CHECK_INT(stats().expired, 3);
	CHECK_INT(rows(SC_DS_PATHS), 1);
	end();
}

static bool gone(const char *path)
{
	for (int i = 0; i < 10000; i++) {
		if (rows(SC_DS_PATHS) == 1)
			return true;
		(void)post(path, "x");
		usleep(1000);
	}
	return false;
}

/* By itself, and at its time. */
TEST(a_sweep_that_comes_by_itself_gets_past_it)
{
	struct sc_ds_settings set = settings();

	set.sweep_ms = 50;
	begin(&set);
	CHECK_INT(put_ttl("/a", "1000"), 201);
	CHECK_INT(put_ttl("/b", "2000"), 201);
	damage(1);
	put_row(SC_DS_EXPIRY, SC_SPAN("\0\0\0"), SC_SPAN(""));
	advance(3000);
	CHECK(gone("/b"));
	CHECK_INT(stats().set_aside, 2);
	end();
}

TEST(what_is_damaged_does_not_keep_others_from_being_deleted)
{
	struct sc_ds_settings set = settings();
	struct sc_ds_call call = request(SC_DS_DELETE, "/c", "");
	uint64_t next;

	begin(&set);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(ask(request(SC_DS_POST, "/a", "one"), &next), 204);
	CHECK_INT(put("/c"), 201);
	CHECK_INT(post("/c", "two"), 204);
	CHECK_INT(fork_of("/b", "/a", NULL), 201);
	CHECK_INT(trim("/a", next), 204); /* now, as long as nobody forks it */
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 2); /* the fork shows it */
	damage(3);
	put_row(SC_DS_DELETES, SC_SPAN("\0\0\0\0\0\0\0\1"), SC_SPAN("T"));
	CHECK_INT(ask(call, NULL), 204);
	CHECK_INT(sc_ds_upkeep(ds, &err), SC_E_DATA);
	CHECK_INT(rows(SC_DS_RUNS), 1);
	CHECK_INT(stats().set_aside, 2); /* the fork's row is one to repair, too */
	end();
}

static bool leases_left(uint64_t count)
{
	for (int i = 0; i < 10000; i++) {
		if (rows(SC_DS_DUE) == count)
			return true;
		(void)put("/a");
		usleep(1000);
	}
	return false;
}

TEST(what_is_damaged_does_not_keep_other_leases_from_ending)
{
	struct sc_ds_settings set = settings();
	char key[17] = "L";

	begin(&set);
	CHECK_INT(put("/a"), 201);
	put_row(SC_DS_SUBS, SC_SPAN("\0\0\0\0\0\0\0\1"), SC_SPAN("no record"));
	for (char n = 1; n <= 3; n++) {
		key[8] = n;
		key[16] = n;
		put_row(SC_DS_DUE, sc_span(key, 17), SC_SPAN(""));
	}
	CHECK_OK(sc_ds_upkeep(ds, &err), &err); /* looks at them */
	CHECK(leases_left(1));
	CHECK_INT(atomic_load(&troubles), 1);
	end();
}

#define FORKS 1500
#define PAGE 40u

/* /s with ten messages, the first two of them trimmed; then very many forks. OFFSETS: behind
 * each. */
static void make_forks(uint64_t offsets[10])
{
	struct sc_ds_settings set = settings();
	char path[32];

	set.delete_page = PAGE;
	begin(&set);
	CHECK_INT(put("/s"), 201);
	for (int i = 0; i < 10; i++)
		CHECK_INT(ask(request(SC_DS_POST, "/s", "0123456789"), &offsets[i]), 204);
	CHECK_INT(trim("/s", offsets[1]), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 8);
	for (int i = 0; i < FORKS; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		CHECK_INT(fork_of(path, "/s", NULL), 201);
	}
}

TEST(very_many_forks_are_looked_through_in_pieces)
{
	uint64_t offsets[10], before;
	char path[32];

	make_forks(offsets);
	before = stats().commits;
	CHECK_INT(trim("/s", offsets[9]), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK(stats().commits - before >= FORKS / PAGE);
	CHECK_INT(rows(SC_DS_RUNS), 8); /* the forks show them */
	/* all but the last fork go, in the midst of looking through them; that one is trimmed */
	for (int i = 0; i < FORKS - 1; i++) {
		struct sc_ds_call call;

		snprintf(path, sizeof(path), "/f%d", i);
		call = request(SC_DS_DELETE, path, "");
		CHECK_INT(ask(call, NULL), 204);
	}
	snprintf(path, sizeof(path), "/f%d", FORKS - 1);
	CHECK_INT(trim(path, offsets[6]), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 3);
	CHECK_STR(get(path, NULL), "200 012345678901234567890123456789");
	CHECK_INT(verified().faults, 0);
	end();
}

/* The fork that shows most goes when it has just been looked at. */
TEST(what_a_fork_showed_goes_with_it)
{
	struct sc_ds_settings set = settings();
	uint64_t offsets[10];
	char path[32];

	set.delete_page = PAGE;
	begin(&set);
	CHECK_INT(put("/s"), 201);
	for (int i = 0; i < 10; i++)
		CHECK_INT(ask(request(SC_DS_POST, "/s", "0123456789"), &offsets[i]), 204);
	CHECK_INT(trim("/s", offsets[1]), 204);
	CHECK_INT(fork_of("/old", "/s", NULL), 201);
	CHECK_INT(trim("/s", offsets[3]), 204);
	for (int i = 0; i < FORKS; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		CHECK_INT(fork_of(path, "/s", NULL), 201);
	}
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 8);
	CHECK_INT(trim("/s", offsets[9]), 204);
	CHECK_INT(ask(request(SC_DS_DELETE, "/old", ""), NULL), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 6);
	end();
}

/* A fork of a fork shows what the fork itself does not any more; and while all is looked through,
 * others are made and go. */
TEST(forks_come_and_go_while_they_are_looked_through)
{
	uint64_t offsets[10];
	char path[32], sub[32];

	make_forks(offsets);
	snprintf(path, sizeof(path), "/f%d", FORKS - 1);
	CHECK_INT(fork_of("/deep", path, NULL), 201);
	for (int i = 0; i < FORKS; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		CHECK_INT(trim(path, offsets[7]), 204);
		if (i % 100 == 0)
			CHECK_INT(trim("/s", offsets[2 + i / 200]), 204);
		if (i % 50 == 7) {
			snprintf(sub, sizeof(sub), "/n%d", i);
			CHECK_INT(fork_of(sub, path, NULL), 201);
		}
		if (i % 3 == 0)
			CHECK_INT(ask(request(SC_DS_DELETE, path, ""), NULL), 204);
	}
	CHECK_INT(trim("/s", offsets[9]), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 8); /* /deep shows all of them */
	CHECK_INT(verified().faults, 0);
	CHECK_INT(trim("/deep", offsets[5]), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 4);
	CHECK_STR(get("/deep", NULL), "200 0123456789012345678901234567890123456789");
	CHECK_INT(ask(request(SC_DS_DELETE, "/deep", ""), NULL), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(rows(SC_DS_RUNS), 2);
	CHECK_INT(verified().faults, 0);
	end();
}

#define VISITED 70000

static struct sc_ds_call calls[VISITED];
static char paths[VISITED][16];
static atomic_int unanswered;

static void answered(struct sc_ds_call *call)
{
	sc_ds_answer_done(&call->answer);
	atomic_fetch_sub(&unanswered, 1);
}

static void make_visited(void)
{
	for (int i = 0; i < VISITED; i++) {
		snprintf(paths[i], sizeof(paths[i]), "/v%d", i);
		calls[i] = request(SC_DS_PUT, paths[i], "");
		calls[i].request.ttl = SC_SPAN("100000");
		calls[i].done = answered;
		atomic_fetch_add(&unanswered, 1);
		CHECK_INT(sc_ds_submit(ds, &calls[i]), 0);
	}
	until(&unanswered, 0);
}

static bool visits_stored(void)
{
	for (int i = 0; i < 20000; i++) {
		size_t count;

		pthread_mutex_lock(&ds->access_lock);
		count = ds->visit_count;
		pthread_mutex_unlock(&ds->access_lock);
		if (count <= 65536)
			return true;
		usleep(1000);
	}
	return false;
}

static int read_it(const char *path)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = sc_span_str(path) };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;
	int rc;

	sc_ds_answer_init(&a);
	rc = sc_ds_read(ds, &r, &reader, false, &a, &err);
	sc_ds_answer_done(&a);
	return rc;
}

static int produce(const char *path)
{
	struct sc_ds_call call = request(SC_DS_POST, path, "x");

	call.request.producer_id = SC_SPAN("p");
	call.request.producer_epoch = call.request.producer_seq = SC_SPAN("0");
	return ask(call, NULL);
}

/* A reader of very many streams must not fill the memory with when it read which. */
TEST(last_accesses_of_very_many_streams_are_stored_soon)
{
	struct sc_ds_settings set = settings();

	set.inflight_max = set.stream_inflight_max = 1u << 30;
	begin(&set);
	make_visited();
	advance(10); /* far from a tenth of their time */
	for (int i = 0; i < 1000; i++)
		CHECK_INT(read_it(paths[i]), 0);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(ds->visit_count, 1000); /* these are kept */
	for (int i = 0; i < VISITED; i++)
		CHECK_INT(read_it(paths[i]), 0);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK(visits_stored());
	/* when storing is not fast enough, a read is told to come again, and a write stores its
	 * own */
	pthread_mutex_lock(&ds->access_lock);
	ds->visit_count += 1u << 20;
	pthread_mutex_unlock(&ds->access_lock);
	CHECK_INT(read_it(paths[VISITED - 1]), SC_E_BUSY);
	CHECK_INT(produce(paths[VISITED - 1]), 200);
	CHECK_INT(produce(paths[VISITED - 1]), 204); /* which it has already: only an access */
	pthread_mutex_lock(&ds->access_lock);
	ds->visit_count -= 1u << 20;
	pthread_mutex_unlock(&ds->access_lock);
	CHECK_INT(read_it(paths[VISITED - 1]), 0);
	end();
}
