/*
 * dead_writer_test: what a writer left that died, or that failed and lives on. Goal: once another
 * writer went on, nothing of it ever becomes part of the log: the index and the files without any
 * index say the same rows, each in the form of the schema at its offset, and who failed goes on
 * where the log is by then. Method: processes that have the log open when the first of them dies,
 * so that none finds out by opening it; they act one after the other. One run for each call that
 * the first one can die at.
 */
// run: limit 600
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "die.h"
#include "migrate_help.h"

/* Of pairs of deaths a sanitizer sees a third, other ones at each step. */
#define SKIP SC_SANITIZED

#define ROWS 200

/* Where the next row goes: behind others, into an empty journal, or into one that is to be made;
 * the last one is a copy that was made during a migration, where the new schema begins ahead. */
enum before { BEHIND_ROWS, EMPTY, FULL, NEW_SCHEMA, TO_BE_ENDED, AHEAD };
enum act {
	APPEND,
	MIGRATE,
	SEAL,
	FAIL,
	FAIL_AND_APPEND
}; /* the last two: APPEND, which may fail */

struct actor {
	pid_t pid;
	int go, ready;
};

static int seal_all(struct sc_log *log)
{
	struct sc_seal_options o = { .force = true };
	struct sc_seal *seal = NULL;
	int rc = sc_seal_open(log, false, &seal, &err);

	if (rc == 0)
		rc = sc_seal_run(seal, &o, &err);
	sc_seal_close(seal);
	return rc;
}

/* As a sync that failed leaves it. */
static void end_journal(struct sc_log *log)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;

	CHECK_OK(sc_index_begin(log, &txn, &state, &err), &err);
	state.suspect = 1;
	CHECK_OK(sc_index_end(log, &txn, &state, 0, &err), &err);
}

static void prepare(enum before before)
{
	size_t step = before == FULL ? ROWS : 20;
	struct sc_log *log;

	signal(SIGPIPE, SIG_IGN); /* an actor that is gone is found out by its status */
	migrating_log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= ROWS; i += step)
		CHECK_OK(append_checked(log, i, step), &err);
	if (before == EMPTY)
		CHECK_OK(seal_all(log), &err);
	if (before == NEW_SCHEMA)
		CHECK_OK(migrate(log, NEW, NULL), &err);
	keep();
	if (before == AHEAD) {
		char path[300];

		CHECK_OK(append_checked(log, 1, 20), &err);
		CHECK_OK(migrate(log, NEW, NULL), &err);
		snprintf(path, sizeof(path), "%s/log.json", template);
		copy_file(in_log("log.json"), path);
	}
	sc_log_close(log);
}

/* To the schema that is not in force. */
static int migrate_on(struct sc_log *log)
{
	bool old = form_of(sc_settings_schema(&log->settings).text) == 'o';

	return migrate(log, old ? NEW : OLD, NULL);
}

static int append_on(struct sc_log *log, uint64_t from, size_t count)
{
	int rc = append_checked(log, from, count);

	if (rc == SC_E_STALE && sc_log_reload(log, &err) >= 0)
		rc = append_checked(log, from, count);
	return rc;
}

static int do_act(struct sc_log *log, enum act act)
{
	switch (act) {
	case APPEND:
	case FAIL:
	case FAIL_AND_APPEND:
		return append_on(log, 1000, 7);
	case MIGRATE:
		return migrate_on(log);
	default:
		return seal_all(log);
	}
}

static void wait_for(int fd)
{
	char byte;

	CHECK(read(fd, &byte, 1) == 1);
}

static void tell(int fd)
{
	CHECK(syscall(SYS_write, fd, "x", 1) == 1);
}

/* With the log open: waits until it may act, and dies at call NTH, or fails there. */
static void actor_main(enum act act, enum how h, long nth, int go, int ready)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	int rc;

	tell(ready);
	wait_for(go);
	how = h;
	left = nth;
	counting = true;
	rc = do_act(log, act);
	counting = false;
	if (act == FAIL)
		_exit(left <= 0 ? FAILED : THROUGH);
	if (act == FAIL_AND_APPEND) {
		tell(ready);
		wait_for(go);
		if (!log->poisoned)
			CHECK_OK(append_on(log, 2000, 1), &err);
		_exit(left <= 0 ? FAILED : THROUGH);
	}
	CHECK_OK(rc, &err);
	_exit(THROUGH);
}

/* NTH 0: it does not die. */
static struct actor start(enum act act, enum how h, long nth)
{
	struct actor a;
	int go[2], ready[2];

	CHECK(pipe(go) == 0 && pipe(ready) == 0);
	fflush(stdout);
	a = (struct actor){ fork(), go[1], ready[0] };
	CHECK(a.pid >= 0);
	if (a.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setjmp(sc_test_out))
			_exit(CHECK_FAILED); /* and said so */
		close(go[1]);
		close(ready[0]);
		actor_main(act, h, nth, go[0], ready[1]);
	}
	close(go[0]);
	close(ready[1]);
	wait_for(a.ready);
	return a;
}

/* Its end: true when it got through. */
static bool ended(struct actor *a)
{
	int status;

	CHECK(waitpid(a->pid, &status, 0) == a->pid);
	CHECK(WIFEXITED(status));
	if (WEXITSTATUS(status) != DIED && WEXITSTATUS(status) != THROUGH)
		CHECK_INT(WEXITSTATUS(status), FAILED);
	close(a->go);
	close(a->ready);
	return WEXITSTATUS(status) == THROUGH;
}

static bool finish(struct actor *a)
{
	tell(a->go);
	return ended(a);
}

/* Before any actor opens it. */
static void set_up(enum before before)
{
	struct sc_log *log;

	as_kept();
	log = open_log(SC_LOG_APPEND);
	if (before == TO_BE_ENDED)
		end_journal(log);
	sc_log_close(log);
}

/* Of LOG as it is, with the forms looked at: its proof. */
static struct sc_log_proof prove(void)
{
	struct sc_log *log = open_log(SC_LOG_READ);
	struct sc_log_proof proof;
	uint64_t rows = check_forms(log);

	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, rows);
	return proof;
}

/* And it goes on, in both schemas. */
static void check_goes_on(void)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	uint64_t rows = check_forms(log);

	CHECK_OK(append_checked(log, 1, 2), &err);
	CHECK_OK(migrate_on(log), &err);
	CHECK_OK(append_checked(log, 1, 2), &err);
	CHECK_OK(seal_all(log), &err);
	CHECK_INT(check_forms(log), rows + 4);
	sc_log_close(log);
}

static struct sc_log_proof known; /* by the index */

static void check_same(void)
{
	struct sc_log_proof proof = prove();

	CHECK_INT(proof.rows, known.rows);
	CHECK_STR(proof.hash, known.hash);
	check_goes_on();
}

static void check_left(void)
{
	known = prove();
	without_index(check_same);
	check_goes_on();
}

/* ONE dies at call NTH, TWO goes on. False: it did not die. */
static bool die_then(enum before before, enum act one, enum how h, long nth, enum act two)
{
	struct actor a, b;
	bool through;

	set_up(before);
	a = start(one, h, nth);
	b = start(two, DIE, 0);
	through = finish(&a);
	CHECK(finish(&b));
	check_left();
	return !through;
}

/* From BEFORE on. */
static void every_call(enum act one, enum how h, enum before before)
{
	static const enum act others[] = { MIGRATE, APPEND };
	static long nth, calls; /* static: longjmp leaves them alone */
	static size_t i;
	static enum before at;

	calls = 0;
	for (at = before; at <= AHEAD; at++) {
		prepare(at);
		for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
			for (nth = 1; die_then(at, one, h, nth, others[i]); nth++)
				CHECK(nth < 200);
			calls += nth - 1;
		}
		log_done();
	}
	printf("# %ld runs\n", calls);
	CHECK(calls >= (h == TEAR ? 4 : 10));
}

TEST(appender_dies)
{
	every_call(APPEND, DIE, BEHIND_ROWS);
	every_call(APPEND, TEAR, BEHIND_ROWS);
}

TEST(sealer_dies)
{
	every_call(SEAL, DIE, BEHIND_ROWS);
	every_call(SEAL, TEAR, AHEAD);
}

TEST(migration_dies)
{
	every_call(MIGRATE, DIE, BEHIND_ROWS);
	every_call(MIGRATE, TEAR, FULL);
}

/* Two die, one after the other; the third one goes on. */
static void two_die(enum before before, enum act one, enum act two, enum act third)
{
	static long i, k, runs;
	static bool through_one, through_two;

	prepare(before);
	runs = 0;
	for (i = 1, through_one = false; !through_one; i++) {
		for (k = 1 + SKIP * (i % 3), through_two = false; !through_two;
		     k += 1 + 2 * SKIP, runs++) {
			struct actor a, b, c;

			set_up(before);
			a = start(one, DIE, i);
			b = start(two, DIE, k);
			c = start(third, DIE, 0);
			through_one = finish(&a);
			through_two = finish(&b);
			CHECK(finish(&c));
			check_left();
			CHECK(i < 200 && k < 200);
		}
	}
	printf("# %ld runs\n", runs);
	log_done();
}

TEST(two_appenders_die)
{
	two_die(FULL, APPEND, APPEND, MIGRATE);
}

TEST(sealer_and_appender_die)
{
	two_die(BEHIND_ROWS, SEAL, APPEND, MIGRATE);
}

TEST(appender_and_migration_die)
{
	two_die(FULL, APPEND, MIGRATE, APPEND);
	two_die(NEW_SCHEMA, APPEND, MIGRATE, MIGRATE);
}

/* An append fails at call NTH; TWO fails or dies at its, if that is not 0; THREE goes on, and so
 * does who failed first. */
static bool fail_then(enum before before, long nth, enum act two, enum how h, long nth_of_two,
		      bool *ret_through_two)
{
	struct actor a, b, c;

	set_up(before);
	a = start(FAIL_AND_APPEND, FAIL_ONCE, nth);
	b = start(two, h, nth_of_two);
	c = start(APPEND, DIE, 0);
	tell(a.go);
	wait_for(a.ready);
	*ret_through_two = finish(&b);
	CHECK(finish(&c));
	return finish(&a);
}

TEST(who_failed_goes_on)
{
	static const enum before befores[] = { FULL, NEW_SCHEMA, BEHIND_ROWS };
	static long nth, runs;
	static size_t i;
	static bool through, through_two;

	for (runs = 0, i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		prepare(befores[i]);
		for (nth = 1, through = false; !through; nth++, runs++) {
			through = fail_then(befores[i], nth, MIGRATE, DIE, 0, &through_two);
			check_left();
			CHECK(nth < 200);
		}
		log_done();
	}
	printf("# %ld runs\n", runs);
}

/* The second one makes the same journal again, fails too, and takes it away. */
TEST(two_fail_and_go_on)
{
	static long i, k, runs;
	static bool through_one, through_two;

	prepare(FULL);
	for (runs = 0, i = 1, through_one = false; !through_one; i++) {
		for (k = 1 + SKIP * (i % 3), through_two = false; !through_two;
		     k += 1 + 2 * SKIP, runs++) {
			through_one = fail_then(FULL, i, FAIL, FAIL_ONCE, k, &through_two);
			check_left();
			CHECK(i < 200 && k < 200);
		}
	}
	printf("# %ld runs\n", runs);
	log_done();
}
