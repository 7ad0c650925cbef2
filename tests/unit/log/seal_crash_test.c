/*
 * seal_crash_test: seals that die. Goal: whatever call a seal, a compaction or a removal dies at,
 * or which of them fails, every row is there once, with the index that is left and without any, and
 * the next seal leaves nothing behind. Method: one run for each call that changes a file (die.h),
 * until one gets through; writes are also torn in their middle. Then processes that append, seal,
 * compact and read at once and are killed.
 */
#include "die.h"
#include "killed.h"

#include "base/clock.h"
#include "log/log_internal.h"
#include "log/seal.h"

#define ROWS 990
enum what { SEAL, COMPACT, REMOVE };
static enum what what;

static int act(struct sc_log *log, enum what which)
{
	struct sc_seal_options o = { .target = which == COMPACT ? 12u << 10 : 3u << 10,
				     .force = true,
				     .every = true };
	struct sc_seal *seal = NULL;
	int rc = sc_seal_open(log, false, &seal, &err);

	if (rc == 0)
		rc = which == SEAL      ? sc_seal_run(seal, &o, &err)
		     : which == COMPACT ? sc_seal_compact(seal, &o, &err)
					: sc_seal_remove(seal, 700, &o, &err);
	sc_seal_close(seal);
	return rc;
}

/* Rows 1 to ROWS, in journals or in segments, as the act wants it. */
static void prepare(void)
{
	struct sc_log *log;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= ROWS; i += 3)
		CHECK_OK(append_n(log, i, 3, NULL), &err);
	if (what != SEAL)
		CHECK_OK(act(log, SEAL), &err);
	sc_log_close(log);
	keep();
}

/* Holds FIRST to ROWS, where FIRST is 1, or above it after a removal. */
static void check_rows(enum sc_log_mode mode, char ret_hash[33])
{
	struct sc_log *log = open_log(mode);
	struct sc_log_state state;
	struct sc_log_proof proof;

	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.next_offset, ROWS + 1);
	CHECK(state.first_offset == 1 || (what == REMOVE && state.first_offset <= 700));
	CHECK_INT(state.rows, ROWS + 1 - state.first_offset);
	check_holds(log, state.first_offset, ROWS);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, state.rows);
	snprintf(ret_hash, 33, "%s", proof.hash);
}

static char hash[33]; /* of the rows, by the files alone */

static void check_files(void)
{
	check_rows(SC_LOG_READ, hash);
}

/* What is left is whole, and the next seal makes it clean. */
static void check_left(bool through)
{
	static const enum sc_log_mode modes[] = { SC_LOG_READ, SC_LOG_APPEND };
	char same[33];
	struct sc_log *log;
	struct sc_log_proof proof;

	(void)through;
	without_index(check_files);
	for (size_t i = 0; i < 2; i++) {
		check_rows(modes[i], same);
		CHECK_STR(same, hash);
	}
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(act(log, what), &err);
	CHECK_OK(append_n(log, ROWS + 1, 2, NULL), &err);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.orphans, 0);
	CHECK_INT(proof.last, ROWS + 2);
}

static int act_counted(void)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_log_state state;
	int rc;

	counting = true;
	rc = act(log, what);
	counting = false;
	if (how == FAIL_ONCE) {
		/* this process goes on after the failure */
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		check_holds(log, state.first_offset, ROWS);
	}
	sc_log_close(log);
	return rc;
}

static void every_call(enum what which, enum how h)
{
	what = which;
	prepare();
	each_call(h, h == TEAR ? 3 : 15, as_kept, act_counted, check_left);
	log_done();
}

TEST(seal_dies_at_every_call)
{
	every_call(SEAL, DIE);
	every_call(SEAL, TEAR);
}

TEST(seal_fails_at_every_call)
{
	every_call(SEAL, FAIL_ONCE);
}

TEST(compaction_dies_at_every_call)
{
	every_call(COMPACT, DIE);
	every_call(COMPACT, TEAR);
}

TEST(compaction_fails_at_every_call)
{
	every_call(COMPACT, FAIL_ONCE);
}

TEST(removal_dies_at_every_call)
{
	every_call(REMOVE, DIE);
}

TEST(removal_fails_at_every_call)
{
	every_call(REMOVE, FAIL_ONCE);
}

static void appender(int out)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_log_commit commit;

	for (;;) {
		CHECK_OK(append_n(log, 1, (size_t)random() % 60 + 1, &commit), &err);
		told(out, commit.last);
	}
}

static void sealer(int out)
{
	(void)out;
	seal_on(false);
}

TEST(all_at_once_and_killed)
{
	killed_main *const mains[] = { appender, appender, sealer, sealer, reader };
	struct sc_log_proof proof, sealed;
	struct sc_log_state state;
	struct sc_log *log;
	uint64_t acked;

	log_new(8 << 10);
	acked = run_killed(mains, 5);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.first, 1);
	CHECK_INT(proof.rows, proof.last);
	CHECK(proof.last >= acked);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(act(log, SEAL), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.journals, 1);
	CHECK_INT(state.sealed_rows, proof.rows);
	sc_log_close(log);
	drop_index();
	CHECK_OK(sc_log_verify(log_path, 0, 0, &sealed, &err), &err);
	CHECK_STR(sealed.hash, proof.hash);
	CHECK_INT(sealed.orphans, 0);
	printf("# %llu rows in %llu segments\n", (unsigned long long)sealed.rows,
	       (unsigned long long)sealed.segments);
	log_done();
}
