/*
 * trim_crash_test: trims that die under who has the log open. Goal: a reader that asks for a row
 * that is gone is refused, with an earliest offset above it, whatever call the trim died at: never
 * told that there is nothing, and never given a later row first; and nothing is refused that the
 * trim leaves. Method: a process that waits with the log open, so that nobody opens it, and so
 * mends it, after the death; one run for each call.
 */
#include <sys/prctl.h>
#include <sys/wait.h>

#include "die.h"

#include "log/seal.h"

#define ROWS 300
#define THROUGH 2 /* the status of a trim that did not die */

enum rows { IN_JOURNALS, SEALED, SEALED_AND_MORE };

static char template[256];
static long refused, given;

static void seal_all(struct sc_log *log)
{
	struct sc_seal_options o = { .target = 3u << 10, .force = true, .every = true };
	struct sc_seal *seal = NULL;

	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	sc_seal_close(seal);
}

static void prepare(enum rows rows)
{
	struct sc_log *log;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= ROWS; i += 3) {
		CHECK_OK(append_n(log, i, 3, NULL), &err);
		if (rows == SEALED_AND_MORE && i == ROWS / 2 + 1)
			seal_all(log);
	}
	if (rows == SEALED)
		seal_all(log);
	sc_log_close(log);
	snprintf(template, sizeof(template), "%s/template", log_dir);
	copy_log(log_path, template);
}

/* With the log open, once told: rows below BEFORE go, and it dies at call NTH. */
static void trimmer(uint64_t before, long nth, int go, int ready)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	char byte = 'x';

	CHECK(syscall(SYS_write, ready, &byte, 1) == 1);
	CHECK(read(go, &byte, 1) == 1);
	how = DIE;
	left = nth;
	counting = true;
	CHECK_OK(sc_log_trim(log, before, &err), &err);
	_exit(THROUGH);
}

/* Read from FROM on: all of it, or that it is not held. */
static void read_or_refused(struct sc_log *log, uint64_t from, uint64_t before)
{
	struct sc_log_state state;
	struct sc_bytes got, want;
	int rc;

	sc_bytes_init(&got, 1u << 30);
	sc_bytes_init(&want, 1u << 30);
	want_lines(from, ROWS, &want);
	rc = read_all(log, from, 0, &got);
	if (rc == SC_E_REFUSED) {
		CHECK(from < before);
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		CHECK(state.first_offset > from && state.first_offset <= before);
		CHECK_INT(state.rows, ROWS + 1 - state.first_offset);
		CHECK_INT(state.rows + state.rows_before, ROWS);
		refused++;
	} else {
		CHECK_OK(rc, &err);
		CHECK_INT(got.len, want.len);
		CHECK(got.len == 0 || memcmp(got.data, want.data, got.len) == 0);
		given += from < before;
	}
	sc_bytes_done(&got);
	sc_bytes_done(&want);
}

/* A trim up to BEFORE that dies at call NTH, and readers who had the log open. False: it did not
 * die. */
static bool die_at(uint64_t before, long nth)
{
	const uint64_t wishes[] = { 1, 77, ROWS / 2, ROWS - 1, ROWS, ROWS + 1 };
	struct sc_log *log;
	int go[2], ready[2], status;
	char byte = 'x';
	pid_t pid;

	copy_log(template, log_path);
	drop_index();
	CHECK(pipe(go) == 0 && pipe(ready) == 0);
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (setjmp(sc_test_out))
			_exit(1); /* a check failed, and said so */
		trimmer(before, nth, go[0], ready[1]);
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	log = open_log(SC_LOG_READ); /* behind the fork: no index is open across it */
	CHECK(write(go[1], &byte, 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) != THROUGH)
		CHECK_INT(WEXITSTATUS(status), 9);
	for (size_t i = 0; i < sizeof(wishes) / sizeof(wishes[0]); i++)
		read_or_refused(log, wishes[i], before);
	sc_log_close(log);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(ready[i]);
	}
	return WEXITSTATUS(status) != THROUGH;
}

static void every_call(enum rows rows)
{
	static const uint64_t befores[] = { ROWS / 2, ROWS, ROWS + 1 };
	static long nth; /* static: longjmp leaves them alone */
	static size_t i;

	prepare(rows);
	refused = given = 0;
	for (i = 0; i < sizeof(befores) / sizeof(befores[0]); i++) {
		for (nth = 1; die_at(befores[i], nth); nth++)
			CHECK(nth < 200);
		CHECK(nth > 5);
	}
	printf("# rows below the floor: %ld times refused, %ld times given\n", refused, given);
	CHECK(refused > 10 && given > 10);
	log_done();
}

TEST(under_readers_of_journals)
{
	every_call(IN_JOURNALS);
}

TEST(under_readers_of_segments)
{
	every_call(SEALED);
}

TEST(under_readers_of_both)
{
	every_call(SEALED_AND_MORE);
}
