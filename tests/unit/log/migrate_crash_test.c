/*
 * migrate_crash_test: migrations that die. Goal: whatever call a migration and the first append
 * behind it die at, or which of them fails, one of both schemas is in force, with the index that is
 * left and without any, and each row has the form of the schema at its offset: also when an
 * appender died just before, and what it wrote stands behind the end of the log. Method: one run
 * for each call, until one gets through; writes are also torn in their middle. Then processes that
 * append, migrate, seal and read at once and are killed.
 */
#include "die.h"
#include "killed.h"
#include "migrate_help.h"

#define ROWS 200
enum before { ROWS_IN_JOURNAL, EMPTY_JOURNAL };

static int append_seven(void)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);

	counting = true;
	return append_checked(log, ROWS + 1, 7);
}

/* Rows 1 to ROWS by the old schema; the index knows nothing of what stands behind them. */
static void prepare(enum before before)
{
	struct sc_log *log;

	migrating_log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= ROWS; i += 20)
		CHECK_OK(append_checked(log, i, 20), &err);
	if (before == EMPTY_JOURNAL) {
		struct sc_seal_options o = { .force = true };
		struct sc_seal *seal = NULL;

		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		sc_seal_close(seal);
	}
	sc_log_close(log);
	keep();
}

static void check_one(uint64_t least)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_log_state state;
	struct sc_log_proof proof;
	char form = form_of(sc_schema_text(sc_log_schema(log)));
	uint64_t rows = check_forms(log);

	CHECK(rows >= least && rows <= ROWS + 7 + 3);
	CHECK(form == 'o' ? sc_log_schema_version(log) == 1
			  : sc_log_schema_version(log) == 2 && sc_log_schema_from(log) > ROWS);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.next_offset, rows + 1);
	CHECK_OK(append_checked(log, 1, 2), &err);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	CHECK_OK(append_checked(log, 1, 2), &err);
	CHECK_INT(check_forms(log), rows + 4);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, rows + 4);
	log = open_log(SC_LOG_APPEND);
	{
		struct sc_seal_options o = { .force = true, .every = true };
		struct sc_seal *seal = NULL;

		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
		sc_seal_close(seal);
	}
	CHECK_INT(check_forms(log), rows + 4);
	sc_log_close(log);
}

static uint64_t least; /* rows that must be there */

static void check_least(void)
{
	check_one(least);
}

static void check_left(bool through)
{
	least = through ? ROWS + 3 : ROWS;
	without_index(check_least); /* which nobody opened since */
	check_least();
}

/* The migration and the first rows behind it. */
static int migrate_and_append(void)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	int rc;

	/* that one was opened before an appender dies behind its block's write, when nobody was
	 * told of the rows: it does not look behind its end */
	CHECK(dies_at(DIE, 2, append_seven));
	counting = true;
	rc = migrate(log, NEW, NULL);
	if (rc == 0)
		rc = append_checked(log, ROWS + 1, 3);
	counting = false;
	if (how == FAIL_ONCE) {
		/* this process goes on after the failure, unless a sync failed */
		CHECK(sc_log_reload(log, &err) >= 0);
		check_forms(log);
		if (!log->poisoned)
			CHECK_OK(append_checked(log, ROWS + 4, 1), &err);
		check_forms(log);
	}
	sc_log_close(log);
	return rc;
}

static void every_call(enum before before, enum how h)
{
	prepare(before);
	each_call(h, h == TEAR ? 3 : 10, as_kept, migrate_and_append, check_left);
	log_done();
}

TEST(dies_at_every_call)
{
	every_call(ROWS_IN_JOURNAL, DIE);
	every_call(ROWS_IN_JOURNAL, TEAR);
	every_call(EMPTY_JOURNAL, DIE);
	every_call(EMPTY_JOURNAL, TEAR);
}

TEST(fails_at_every_call)
{
	every_call(ROWS_IN_JOURNAL, FAIL_ONCE);
	every_call(EMPTY_JOURNAL, FAIL_ONCE);
}

static void appender(int out)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);

	for (;;) {
		struct sc_log_state state;
		int rc = append_checked(log, 1, (size_t)random() % 60 + 1);

		if (rc == SC_E_STALE) {
			CHECK(sc_log_reload(log, &err) >= 0);
			continue;
		}
		CHECK_OK(rc, &err);
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		told(out, state.last_offset);
	}
}

static void migrator(int out)
{
	(void)out;
	for (;;) {
		struct sc_log *log = open_log(SC_LOG_APPEND);

		CHECK_OK(migrate(log, random() % 2 ? OLD : NEW, NULL), &err);
		sc_log_close(log);
		usleep((useconds_t)random() % 3000);
	}
}

static void sealer(int out)
{
	(void)out;
	seal_on(true);
}

TEST(all_at_once_and_killed)
{
	killed_main *const mains[] = { appender, appender, migrator, sealer, reader };
	struct sc_log_proof proof, again;
	struct sc_log *log;
	uint64_t acked, rows;

	migrating_log_new(8 << 10);
	acked = run_killed(mains, 5);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK(proof.first == 1 && proof.rows == proof.last && proof.last >= acked);
	log = open_log(SC_LOG_READ);
	rows = check_forms(log);
	CHECK_INT(rows, proof.rows);
	printf("# %llu rows, schema %llu\n", (unsigned long long)rows,
	       (unsigned long long)sc_log_schema_version(log));
	CHECK(sc_log_schema_version(log) > 2);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_READ);
	CHECK_INT(check_forms(log), rows);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &again, &err), &err);
	CHECK_STR(again.hash, proof.hash);
	log_done();
}
