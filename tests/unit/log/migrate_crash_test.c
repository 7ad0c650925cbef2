/*
 * migrate_crash_test: migrations that die. Goal: whatever call a migration and the first append
 * behind it die at, or which of them fails, one of both schemas is in force, with the index that is
 * left and without any, and each row has the form of the schema at its offset: also when an
 * appender died just before, and what it wrote stands behind the end of the log. Method: one run
 * for each call, until one gets through; writes are also torn in their middle. Then processes that
 * append, migrate, seal and read at once and are killed.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "die.h"
#include "migrate_help.h"

#define ROWS 200
enum before { ROWS_IN_JOURNAL, EMPTY_JOURNAL };

static char template[256];

/* A process that dies behind its block's write: nobody was told of the rows. */
static void die_appending(enum how h, long calls)
{
	pid_t pid;
	int status;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct sc_log *log;

		if (setjmp(sc_test_out))
			_exit(1);
		log = open_log(SC_LOG_APPEND);
		how = h;
		left = calls;
		counting = true;
		append_checked(log, ROWS + 1, 7);
		_exit(2);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
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
	snprintf(template, sizeof(template), "%s/template", log_dir);
	copy_log(log_path, template);
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

static void check_left(bool done)
{
	char copy[300], kept[sizeof(log_path)];

	snprintf(copy, sizeof(copy), "%s/copy", log_dir);
	copy_log(log_path, copy);
	check_one(done ? ROWS + 3 : ROWS);
	/* without an index, the same */
	snprintf(kept, sizeof(kept), "%s", log_path);
	snprintf(log_path, sizeof(log_path), "%.200s/copy", log_dir);
	check_one(done ? ROWS + 3 : ROWS);
	snprintf(log_path, sizeof(log_path), "%s", kept);
}

/* The migration and the first rows behind it. */
static int in_child(enum how h, long nth, int out)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	int rc;

	/* that one was opened before the appender died: it does not look behind its end */
	die_appending(DIE, 2);
	how = h;
	left = nth;
	counting = true;
	rc = migrate(log, NEW, NULL);
	if (rc == 0)
		rc = append_checked(log, ROWS + 1, 3);
	counting = false;
	if (syscall(SYS_write, out, &counted, sizeof(counted)) != sizeof(counted))
		_exit(11);
	if (h == FAIL_ONCE) {
		/* this process goes on after the failure, unless a sync failed */
		CHECK(sc_log_reload(log, &err) >= 0);
		check_forms(log);
		if (!log->poisoned)
			CHECK_OK(append_checked(log, ROWS + 4, 1), &err);
		check_forms(log);
	} else {
		CHECK_OK(rc, &err);
	}
	sc_log_close(log);
	return 0;
}

static void every_call(enum before before, enum how h)
{
	static long nth, total; /* static: longjmp leaves them alone */

	nth = 1;
	total = 0;

	prepare(before);
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
			_exit(in_child(h, nth, pair[1]));
		}
		waitpid(pid, &status, 0);
		CHECK(WIFEXITED(status));
		if (WEXITSTATUS(status) != 9)
			CHECK_INT(WEXITSTATUS(status), 0);
		close(pair[1]);
		if (WEXITSTATUS(status) == 0)
			CHECK(read(pair[0], &total, sizeof(total)) == sizeof(total));
		close(pair[0]);
		check_left(h != FAIL_ONCE && WEXITSTATUS(status) == 0);
		nth++;
		if (h == FAIL_ONCE ? nth > total + 1 : WEXITSTATUS(status) == 0)
			break;
	} while (nth < 2000);
	printf("# %ld calls\n", nth - 1);
	CHECK(nth > 10 && nth < 2000);
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

/* All at once, killed at random; the index is deleted under them now and then. */
#define WRITERS 2
#define PROCESSES (WRITERS + 3)

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
		CHECK(syscall(SYS_write, out, &state.last_offset, sizeof(state.last_offset)) ==
		      sizeof(state.last_offset));
	}
}

static void migrator(void)
{
	for (;;) {
		struct sc_log *log = open_log(SC_LOG_APPEND);

		CHECK_OK(migrate(log, random() % 2 ? OLD : NEW, NULL), &err);
		sc_log_close(log);
		usleep((useconds_t)random() % 3000);
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

		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
		sc_seal_close(seal);
	}
}

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
	else if (i == WRITERS)
		migrator();
	else if (i == WRITERS + 1)
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
	struct sc_log_proof proof, again;
	struct sc_log *log;
	uint64_t acked = 0, rows;
	int pair[2], status;
	bool wrong = false; /* a process found something, and said what */

	migrating_log_new(8 << 10);
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
			unlink(in_log("index.state")); /* then it is made again, from the files */
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
