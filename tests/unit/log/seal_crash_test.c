/*
 * seal_crash_test: seals that die. Goal: whatever call a seal, a compaction or a removal dies at,
 * or which of them fails, every row is there once, with the index that is left and without any, and
 * the next seal leaves nothing behind. Method: this program's own write, sync, rename and unlink
 * stand before libc's, also for LMDB: one run for each call, until one gets through; writes are
 * also torn in their middle. Then processes that append, seal, compact and read at once and are
 * killed.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "die.h"

#include "base/clock.h"
#include "log/log_internal.h"
#include "log/seal.h"

#define ROWS 990
enum what { SEAL, COMPACT, REMOVE };

static int act(struct sc_log *log, enum what what)
{
	struct sc_seal_options o = { .target = what == COMPACT ? 12u << 10 : 3u << 10,
				     .force = true,
				     .every = true };
	struct sc_seal *seal = NULL;
	int rc = sc_seal_open(log, false, &seal, &err);

	if (rc == 0)
		rc = what == SEAL      ? sc_seal_run(seal, &o, &err)
		     : what == COMPACT ? sc_seal_compact(seal, &o, &err)
				       : sc_seal_remove(seal, 700, &o, &err);
	sc_seal_close(seal);
	return rc;
}

static char template[256];

/* Rows 1 to ROWS, in journals or in segments, as the act wants it. */
static void prepare(enum what what)
{
	struct sc_log *log;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= ROWS; i += 3)
		CHECK_OK(append_n(log, i, 3, NULL), &err);
	if (what != SEAL)
		CHECK_OK(act(log, SEAL), &err);
	sc_log_close(log);
	snprintf(template, sizeof(template), "%s/template", log_dir);
	copy_log(log_path, template);
}

/* Holds FIRST to ROWS, where FIRST is 1, or above it after a removal. */
static void check_rows(enum what what, enum sc_log_mode mode, char ret_hash[33])
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

/* What is left is whole, and the next seal makes it clean. */
static void check_left(enum what what)
{
	char copy[300], hash[33], same[33], kept[sizeof(log_path)];
	struct sc_log *log;
	struct sc_log_proof proof;

	snprintf(copy, sizeof(copy), "%s/copy", log_dir);
	copy_log(log_path, copy);
	check_rows(what, SC_LOG_READ, hash);
	check_rows(what, SC_LOG_APPEND, same);
	CHECK_STR(same, hash);
	/* without an index, the same */
	snprintf(kept, sizeof(kept), "%s", log_path);
	snprintf(log_path, sizeof(log_path), "%.200s/copy", log_dir);
	check_rows(what, SC_LOG_READ, same);
	CHECK_STR(same, hash);
	snprintf(log_path, sizeof(log_path), "%s", kept);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(act(log, what), &err);
	CHECK_OK(append_n(log, ROWS + 1, 2, NULL), &err);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.orphans, 0);
	CHECK_INT(proof.last, ROWS + 2);
}

static int in_child(enum what what, enum how h, long nth, int out)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	int rc;

	how = h;
	left = nth;
	counting = true;
	rc = act(log, what);
	counting = false;
	if (syscall(SYS_write, out, &counted, sizeof(counted)) != sizeof(counted))
		_exit(11);
	if (h == FAIL_ONCE) {
		/* this process goes on after the failure */
		struct sc_log_state state;

		CHECK_OK(sc_log_state(log, &state, &err), &err);
		check_holds(log, state.first_offset, ROWS);
	} else {
		CHECK_OK(rc, &err);
	}
	sc_log_close(log);
	return 0;
}

static void every_call(enum what what, enum how h)
{
	static long nth, total; /* static: longjmp leaves them alone */

	nth = 1;
	total = 0;

	prepare(what);
	do {
		int pair[2], status;
		pid_t pid;

		copy_log(template, log_path);
		drop_index();
		CHECK(pipe(pair) == 0);
		fflush(stdout);
		pid = fork();
		if (pid == 0) {
			if (setjmp(sc_test_out))
				_exit(1);
			_exit(in_child(what, h, nth, pair[1]));
		}
		waitpid(pid, &status, 0);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status) != 9)
			CHECK_INT(WEXITSTATUS(status), 0);
		close(pair[1]);
		if (WEXITSTATUS(status) == 0)
			CHECK(read(pair[0], &total, sizeof(total)) == sizeof(total));
		close(pair[0]);
		check_left(what);
		nth++;
		if (h == FAIL_ONCE ? nth > total + 1 : WEXITSTATUS(status) == 0)
			break;
	} while (nth < 2000);
	printf("# %ld calls\n", nth - 1);
	CHECK(nth > 15 && nth < 2000);
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

/* Appenders, sealers and readers at once, killed at random; the index is deleted under them now and
 * then. */
#define WRITERS 2
#define SEALERS 2
#define PROCESSES (WRITERS + SEALERS + 1)

static void appender(int out)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_log_commit commit;

	for (;;) {
		uint64_t last;

		CHECK_OK(append_n(log, 1, (size_t)random() % 60 + 1, &commit), &err);
		last = commit.last;
		CHECK(syscall(SYS_write, out, &last, sizeof(last)) == sizeof(last));
	}
}

static void sealer(void)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);

	for (;;) {
		struct sc_seal_options o = { .target = 4096u << random() % 5,
					     .force = random() % 3 == 0,
					     .every = random() % 2 };
		struct sc_seal *seal = NULL;
		int rc = sc_seal_open(log, false, &seal, &err);

		if (rc == SC_E_BUSY)
			continue;
		CHECK_OK(rc, &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
		sc_seal_close(seal);
	}
}

/* Reads all again and again: without a gap, each row once. */
static void reader(void)
{
	struct sc_log *log = open_log(SC_LOG_READ);

	for (;;) {
		struct sc_reader *r = NULL;
		struct sc_run run;
		uint64_t next = 1;
		int rc;

		CHECK_OK(sc_reader_open(log, 1, &r, &err), &err);
		while ((rc = sc_reader_next(r, 0, &run, &err)) == 1) {
			CHECK(run.first == next && run.last - run.first + 1 == run.rows);
			next = run.last + 1;
		}
		CHECK_OK(rc, &err);
		sc_reader_close(r);
	}
}

static pid_t start(int i, int out)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setjmp(sc_test_out))
		_exit(1); /* a check failed, and said so */
	srandom((unsigned)getpid());
	if (i < WRITERS)
		appender(out);
	else if (i < WRITERS + SEALERS)
		sealer();
	else
		reader();
	_exit(0);
}

static uint64_t drain(int fd, uint64_t acked)
{
	uint64_t value;

	while (read(fd, &value, sizeof(value)) == sizeof(value))
		acked = value > acked ? value : acked;
	return acked;
}

TEST(all_at_once_and_killed)
{
	int rounds = getenv("SC_ROUNDS") ? atoi(getenv("SC_ROUNDS")) : 30;
	pid_t pids[PROCESSES] = { 0 };
	struct sc_log_proof proof, sealed;
	struct sc_log_state state;
	struct sc_log *log;
	uint64_t acked = 0;
	int pair[2], status;
	bool wrong = false; /* a process found something, and said what */

	log_new(8 << 10);
	CHECK(pipe(pair) == 0);
	sc_set_nonblock(pair[0], true);
	srandom((unsigned)time(NULL));
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < PROCESSES && !wrong; i++)
			if (!pids[i])
				pids[i] = start(i, pair[1]);
		for (long us = 10000 + random() % 60000; us > 0; us -= 1000) {
			usleep(1000);
			acked = drain(pair[0], acked);
		}
		if (round % 8 == 5)
			unlink(in_log(
				"index.state")); /* then nobody trusts the rest, and it is made again */
		for (int i = 0; i < PROCESSES; i++) {
			if (!pids[i] || (round + 1 < rounds && !wrong && random() % 2))
				continue;
			kill(pids[i], SIGKILL);
			waitpid(pids[i], &status, 0);
			pids[i] = 0;
			wrong = wrong || !WIFSIGNALED(status);
		}
		acked = drain(pair[0], acked);
	}
	close(pair[0]);
	close(pair[1]);
	CHECK(!wrong);
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
