/*
 * repair_test: rows of forks that say what is not so. A fork and its row are written together, so
 * such rows come from another program, or from damage.
 *
 * Method: the rows are put behind the engine's back, with the count that a source keeps of them;
 * upkeep must take away what is stale and nothing else, verify must have nothing left to say, and
 * a source that was only kept for such rows must go.
 */
#include "durable/engine_internal.h"
#include "engine_fixture.h"

#define ABSENT 900u /* sids that no stream has */

static bool has_row(int table, struct sc_span key)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;
	int rc;

	CHECK_OK(sc_kv_read(ds->kv, &txn, &err), &err);
	rc = sc_kv_get(txn, table, key, &value, &err);
	sc_kv_abort(&txn);
	CHECK(rc >= 0);
	return rc == 1;
}

static bool has_fork(uint64_t source, uint64_t fork)
{
	struct sc_ds_key key;

	sc_ds_key2(&key, source, fork);
	return has_row(SC_DS_FORKS, sc_ds_key_span(&key));
}

static uint64_t fork_rows(void)
{
	struct sc_kv_txn *txn = NULL;
	uint64_t count;

	CHECK_OK(sc_kv_read(ds->kv, &txn, &err), &err);
	count = sc_kv_count(txn, SC_DS_FORKS);
	sc_kv_abort(&txn);
	return count;
}

/* How many forks SID believes that it has; -1: there is no such stream. */
static int64_t believed(uint64_t sid)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stream stream;
	int rc;

	CHECK_OK(sc_kv_read(ds->kv, &txn, &err), &err);
	rc = sc_ds_load_sid(txn, sid, &stream, &err);
	sc_kv_abort(&txn);
	CHECK(rc >= 0);
	return rc == 1 ? (int64_t)stream.forks : -1;
}

/* COUNT stale rows: forks of SOURCE from FIRST on, which it counts where it is there. */
static void put_stale(uint64_t source, uint64_t first, unsigned count)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stream stream;
	struct sc_bytes record;
	struct sc_ds_key key;
	int rc;

	sc_bytes_init(&record, 65536);
	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	for (unsigned i = 0; i < count; i++) {
		sc_ds_key2(&key, source, first + i);
		CHECK_OK(sc_kv_put(txn, SC_DS_FORKS, sc_ds_key_span(&key), SC_SPAN(""), &err),
			 &err);
	}
	rc = sc_ds_load_sid(txn, source, &stream, &err);
	if (rc == 1) {
		stream.forks += count;
		CHECK_INT(sc_ds_stream_encode(&stream, &record), 0);
		sc_ds_key1(&key, source);
		CHECK_OK(sc_kv_put(txn, SC_DS_STREAMS, sc_ds_key_span(&key),
				   sc_span(record.data, record.len), &err),
			 &err);
	}
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_bytes_done(&record);
}

static void count_fault(void *arg, const char *what)
{
	(void)what;
	++*(int *)arg;
}

static int faults(void)
{
	struct sc_ds_verified v;
	int count = 0;

	CHECK_OK(sc_ds_verify(ds, count_fault, &count, &v, &err), &err);
	return count;
}

/* sid 1: /a, "one"; sid 2: /f, a fork of it, "two". */
static void begin_forked(void)
{
	begin(&quiet);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(post("/a", "one"), 204);
	CHECK_INT(fork_of("/f", "/a", NULL), 201);
	CHECK_INT(post("/f", "two"), 204);
	CHECK_INT(believed(1), 1);
	CHECK(has_fork(1, 2));
}

/* A fork that was never finished: its source forgets it, and keeps the others. */
TEST(a_row_without_its_fork_goes)
{
	begin_forked();
	put_stale(1, ABSENT, 1);
	CHECK_INT(believed(1), 2);
	CHECK(faults() > 0);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK(!has_fork(1, ABSENT));
	CHECK(has_fork(1, 2));
	CHECK_INT(believed(1), 1);
	CHECK_INT(faults(), 0);
	CHECK_STR(get("/a", NULL), "200 one");
	CHECK_STR(get("/f", NULL), "200 onetwo");
	/* and the source is kept for the fork that it has */
	CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 204);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 410);
	CHECK_STR(get("/f", NULL), "200 onetwo");
	end();
}

/* A stream that is there, but is no fork of this one. */
TEST(a_row_of_another_ones_fork_goes)
{
	begin_forked();
	CHECK_INT(put("/b"), 201); /* sid 3 */
	put_stale(3, 2, 1);
	put_stale(1, 3, 1);
	CHECK(faults() > 0);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK(!has_fork(3, 2));
	CHECK(!has_fork(1, 3));
	CHECK(has_fork(1, 2));
	CHECK_INT(believed(3), 0);
	CHECK_INT(believed(1), 1);
	CHECK_INT(faults(), 0);
	CHECK_INT(head("/b"), 200);
	CHECK_INT(ask(request(SC_DS_DELETE, "/b", ""), NULL), 204);
	CHECK_INT(head("/b"), 404); /* not 410: nobody forks it */
	CHECK_STR(get("/f", NULL), "200 onetwo");
	end();
}

/* A list of forks whose source is away. */
TEST(a_row_without_its_source_goes)
{
	begin_forked();
	put_stale(ABSENT, ABSENT + 1, 3);
	put_stale(ABSENT, 1, 1);
	CHECK(faults() > 0);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(fork_rows(), 1);
	CHECK_INT(faults(), 0);
	CHECK_STR(get("/f", NULL), "200 onetwo");
	end();
}

/* A source that was deleted, and is only kept for forks that are none: away, its data too. */
TEST(a_source_kept_for_nobody_is_freed)
{
	struct sc_ds_stats stats;

	begin_forked();
	put_stale(1, ABSENT, 2);
	CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 204);
	CHECK_INT(ask(request(SC_DS_DELETE, "/f", ""), NULL), 204);
	CHECK_INT(believed(1), 2);
	CHECK_INT(head("/a"), 410);
	CHECK_INT(put("/a"), 409);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(believed(1), -1);
	CHECK_INT(head("/a"), 404);
	CHECK_INT(fork_rows(), 0);
	CHECK_INT(faults(), 0);
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK_INT(stats.delete_backlog, 0);
	CHECK(stats.deleted_bytes > 0);
	CHECK_INT(put("/a"), 201);
	CHECK_STR(get("/a", NULL), "200 ");
	end();
}

/* And so on up the chain: what was kept for a source that goes, goes with it. */
TEST(a_chain_kept_for_nobody_is_freed)
{
	begin_forked();
	put_stale(2, ABSENT, 1);
	CHECK_INT(ask(request(SC_DS_DELETE, "/a", ""), NULL), 204);
	CHECK_INT(ask(request(SC_DS_DELETE, "/f", ""), NULL), 204);
	CHECK_INT(head("/a"), 410);
	CHECK_INT(head("/f"), 410);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(head("/a"), 404);
	CHECK_INT(head("/f"), 404);
	CHECK_INT(believed(1), -1);
	CHECK_INT(believed(2), -1);
	CHECK_INT(fork_rows(), 0);
	CHECK_INT(faults(), 0);
	end();
}

/* More rows than one transaction looks at: it goes on where it was, past those that are good. */
TEST(many_stale_rows_take_several_turns)
{
	char path[32];

	begin_forked();
	for (int i = 0; i < 40; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		CHECK_INT(fork_of(path, "/a", NULL), 201);
	}
	put_stale(1, ABSENT, 2500);
	put_stale(ABSENT, 1, 1200);
	CHECK_INT(fork_rows(), 41 + 3700);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(fork_rows(), 41);
	CHECK_INT(believed(1), 41);
	CHECK_INT(faults(), 0);
	/* from the beginning again, the next time */
	put_stale(1, ABSENT, 1);
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(fork_rows(), 41);
	CHECK_INT(believed(1), 41);
	end();
}

/* Without being asked, when its time has come. */
TEST(repair_comes_by_itself)
{
	struct sc_ds_settings set = quiet;

	set.repair_ms = 20;
	begin(&set);
	CHECK_INT(put("/a"), 201);
	put_stale(1, ABSENT, 1);
	for (int i = 0; i < 10000 && has_fork(1, ABSENT); i++)
		usleep(1000);
	CHECK(!has_fork(1, ABSENT));
	CHECK_INT(believed(1), 0);
	CHECK_INT(faults(), 0);
	end();
}
