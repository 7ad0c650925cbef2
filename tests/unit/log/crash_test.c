/*
 * crash_test: processes that die and calls that fail. Goal: every acknowledged row is there once,
 * in order; what was not acknowledged is there whole or not at all; the next open needs no help.
 * Method: appenders killed at random moments again and again; then one writer run once for each
 * call that can fail (SC_FAULT, which is read at start: the test starts itself again as
 * `crash_test child`).
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "help.h"

#include "base/clock.h"
#include "log/intake.h"

#define WRITERS 3
#define GENERATIONS 64

/*
 * One appender: rows {"w":W,"g":G,"i":I} in commits of random size; each acknowledged I goes to
 * OUT.
 */
static void appender(int w, int g, int out)
{
	struct sc_log *log = NULL;
	struct sc_bytes text;
	uint32_t lens[700];
	uint64_t i = 0;

	srandom((unsigned)(w * 1000 + g));
	sc_bytes_init(&text, 1 << 24);
	if (sc_log_open(log_path, SC_LOG_APPEND, &log, &err) < 0)
		_exit(1);
	for (;;) {
		size_t count = random() % 4 ? (size_t)random() % 9 + 1 : (size_t)random() % 700 + 1;
		struct sc_log_rows rows = { .lens = lens, .count = count };
		struct sc_log_commit commit;

		sc_bytes_clear(&text);
		for (size_t n = 0; n < count; n++) {
			size_t before = text.len;

			i++;
			sc_bytes_putf(&text, "{\"w\":%d,\"g\":%d,\"i\":%llu,\"pad\":\"%0*d\"}", w,
				      g, (unsigned long long)i, (int)(i % 100) + 1, 0);
			lens[n] = (uint32_t)(text.len - before);
		}
		rows.text = sc_span(text.data, text.len);
		if (sc_log_append(log, &rows, &commit, &err) < 0 ||
		    write(out, &i, sizeof(i)) != sizeof(i))
			_exit(2);
	}
}

static uint64_t acked[WRITERS][GENERATIONS], seen[WRITERS][GENERATIONS];

static void drain(int fd, uint64_t *last)
{
	uint64_t value;

	while (read(fd, &value, sizeof(value)) == sizeof(value))
		*last = value;
}

/* WORD and the number behind it. (sscanf would look for the end of all text at each row.) */
static uint64_t number_behind(const char **at, const char *end, const char *word)
{
	size_t len = strlen(word);
	uint64_t n = 0;

	CHECK((size_t)(end - *at) > len && memcmp(*at, word, len) == 0);
	*at += len;
	CHECK(**at >= '0' && **at <= '9');
	for (; *at < end && **at >= '0' && **at <= '9'; ++*at)
		n = n * 10 + (uint64_t)(**at - '0');
	return n;
}

/*
 * All rows: offsets without gaps, each writer's numbers without gaps, all that was acknowledged
 * there.
 */
static void check_rows(struct sc_log *log)
{
	struct sc_reader *reader = NULL;
	struct sc_run run;
	uint64_t next = 1;
	int rc;

	memset(seen, 0, sizeof(seen));
	CHECK_OK(sc_reader_open(log, 0, &reader, &err), &err);
	while ((rc = sc_reader_next(reader, 0, &run, &err)) == 1) {
		const char *at = run.lines.data, *end = at + run.lines.len;

		while (at < end) {
			uint64_t w, g, i;

			CHECK_INT(number_behind(&at, end, "["), next++);
			w = number_behind(&at, end, ",{\"w\":");
			g = number_behind(&at, end, ",\"g\":");
			i = number_behind(&at, end, ",\"i\":");
			CHECK(*at == ',' && w < WRITERS && g < GENERATIONS);
			CHECK_INT(i, seen[w][g] + 1);
			seen[w][g] = i;
			at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
		}
	}
	CHECK_INT(rc, 0);
	sc_reader_close(reader);
	for (int w = 0; w < WRITERS; w++)
		for (int g = 0; g < GENERATIONS; g++)
			CHECK(seen[w][g] >= acked[w][g]);
}

TEST(killed_appenders)
{
	pid_t pids[WRITERS];
	int fds[WRITERS], generation[WRITERS] = { 0 }, status;
	struct sc_log_proof proof;
	struct sc_log *log;

	log_new(64 << 10);
	srandom((unsigned)time(NULL));
	for (int w = 0; w < WRITERS; w++)
		pids[w] = 0;
	for (int round = 0; round < 24; round++) {
		for (int w = 0; w < WRITERS; w++) {
			int pair[2];

			if (pids[w])
				continue;
			CHECK(pipe(pair) == 0);
			pids[w] = fork();
			if (pids[w] == 0) {
				close(pair[0]);
				appender(w, generation[w], pair[1]);
			}
			close(pair[1]);
			fds[w] = pair[0];
			sc_set_nonblock(fds[w], true);
		}
		for (long us = random() % 40000; us > 0; us -= 1000) {
			usleep(1000);
			for (int w = 0; w < WRITERS; w++)
				drain(fds[w], &acked[w][generation[w]]);
		}
		if (round % 8 == 7)
			drop_index(); /* while they run */
		for (int w = 0; w < WRITERS; w++)
			if (round == 23 || random() % 2) {
				kill(pids[w], SIGKILL);
				waitpid(pids[w], &status, 0);
				CHECK(WIFSIGNALED(status));
				drain(fds[w], &acked[w][generation[w]]);
				close(fds[w]);
				pids[w] = 0;
				generation[w]++;
			}
		if (round % 8 == 3) {
			log = open_log(SC_LOG_READ);
			check_rows(log);
			sc_log_close(log);
		}
	}
	log = open_log(SC_LOG_APPEND);
	check_rows(log);
	sc_log_close(log);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	drop_index();
	log = open_log(SC_LOG_READ);
	check_rows(log);
	sc_log_close(log);
	log_done();
}

/*
 * The child of the tests below: commits of 1, 40, 1, 20000 (of several blocks), 1, 1 rows; says
 * how many rows it was acknowledged.
 */
static const size_t steps[] = { 1, 40, 1, 20000, 1, 1 };

TEST(child_steps)
{
	const char *path = getenv("SC_TEST_LOG");
	struct sc_log *log = NULL;
	uint64_t next = 1;

	if (!path)
		return;
	if (sc_log_open(path, SC_LOG_APPEND, &log, &err) == 0)
		for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
			if (append_n(log, next, steps[i], NULL) < 0) {
				/* after a failure: either it goes on exactly here, or it refuses */
				if (append_n(log, next, steps[i], NULL) < 0)
					break;
			}
			next += steps[i];
			if (write(3, &next, sizeof(next)) != sizeof(next))
				break;
		}
	sc_log_close(log);
	_exit(0);
}

static uint64_t run_child(const char *fault)
{
	uint64_t next = 1;
	int pair[2], status;
	pid_t pid;

	CHECK(pipe(pair) == 0);
	pid = fork();
	if (pid == 0) {
		dup2(pair[1], 3);
		if (pair[0] != 3)
			close(pair[0]);
		if (pair[1] != 3)
			close(pair[1]);
		setenv("SC_TEST_LOG", log_path, 1);
		setenv("SC_FAULT", fault, 1);
		close(1);
		execl("/proc/self/exe", "crash_test", "child_steps", NULL);
		_exit(99);
	}
	close(pair[1]);
	while (read(pair[0], &status, 0) == 0) {
		uint64_t value;

		if (read(pair[0], &value, sizeof(value)) != sizeof(value))
			break;
		next = value;
	}
	close(pair[0]);
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		FAIL("with SC_FAULT=%s the writer ended with status %#x", fault, (unsigned)status);
	return next - 1;
}

static bool on_boundary(uint64_t rows)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		if (sum == rows)
			return true;
		sum += steps[i];
	}
	return sum == rows;
}

static void fail_each(const char *call, const char *error, int from, int to, bool lose_index)
{
	for (int n = from; n <= to; n++) {
		char fault[64];
		struct sc_log_state state;
		struct sc_log *log;
		uint64_t told;

		log_new(64 << 10);
		snprintf(fault, sizeof(fault), "%s:%d%s:%s", call, n, n % 3 == 2 ? "+" : "", error);
		told = run_child(fault);
		if (lose_index)
			drop_index();
		log = NULL;
		if (sc_log_open(log_path, SC_LOG_APPEND, &log, &err) < 0) {
			char line[1200];

			sc_err_line(&err, line, sizeof(line));
			FAIL("after SC_FAULT=%s: %s", fault, line);
		}
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		if (state.next_offset - 1 < told || !on_boundary(state.next_offset - 1))
			FAIL("after SC_FAULT=%s %llu rows are there, %llu were acknowledged", fault,
			     (unsigned long long)state.next_offset - 1, (unsigned long long)told);
		check_holds(log, 1, state.next_offset - 1);
		CHECK_OK(append_n(log, state.next_offset, 2, NULL), &err);
		check_holds(log, 1, state.next_offset + 1);
		sc_log_close(log);
		log_done();
	}
}

TEST(failing_pwrite)
{
	fail_each("pwrite", "ENOSPC", 1, 30, false);
	fail_each("pwrite", "EIO", 1, 30, true);
}

TEST(failing_fdatasync)
{
	fail_each("fdatasync", "EIO", 1, 9, false);
	fail_each("fdatasync", "EIO", 1, 9, true);
}

TEST(failing_fsync)
{
	fail_each("fsync", "EIO", 1, 8, false);
	fail_each("fsync", "ENOSPC", 1, 8, true);
}

TEST(failing_names)
{
	fail_each("rename", "EIO", 1, 3, false);
	fail_each("unlink", "EIO", 1, 4, false);
	fail_each("unlink", "EACCES", 1, 4, true);
}

TEST(failing_malloc)
{
	fail_each("malloc", "ENOMEM", 1, 50, false);
}

/*
 * After a sync that failed the handle refuses; one that is opened anew verifies, and goes on in a
 * new journal.
 */
TEST(child_sync)
{
	const char *path = getenv("SC_TEST_LOG");
	struct sc_log *log = NULL, *other = NULL;
	struct sc_log_commit commit;
	char failed = 1;

	if (!path)
		return;
	snprintf(log_path, sizeof(log_path), "%s", path);
	if (sc_log_open(path, SC_LOG_APPEND, &log, &err) == 0 &&
	    append_n(log, 1, 1, NULL) == SC_E_IO && append_n(log, 1, 1, NULL) == SC_E_IO &&
	    strstr(err.reason, "an earlier sync failed") &&
	    sc_log_open(path, SC_LOG_APPEND, &other, &err) == 0 &&
	    append_n(other, 1, 1, &commit) == 0 && commit.first == 1 &&
	    append_n(log, 2, 1, NULL) == SC_E_IO && append_n(other, 2, 1, NULL) == 0)
		failed = 0;
	if (write(3, &failed, 1) != 1)
		_exit(1);
	sc_log_close(log);
	sc_log_close(other);
	_exit(failed);
}

/* CHILD of this program on the log, with FAULT: how it ended. */
static int run_named(const char *child, const char *fault)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY), 3);
		setenv("SC_TEST_LOG", log_path, 1);
		setenv("SC_FAULT", fault, 1);
		close(1);
		execl("/proc/self/exe", "crash_test", child, NULL);
		_exit(99);
	}
	waitpid(pid, &status, 0);
	return status;
}

TEST(failed_sync_refuses_appends)
{
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND); /* the index is there: the first fdatasync is the commit's */
	sc_log_close(log);
	CHECK_INT(run_named("child_sync", "fdatasync:1:EIO"), 0);
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 1, 2);
	sc_log_close(log);
	log_done();
}

static void lose_settings(void *arg, const struct sc_err *why)
{
	(void)arg;
	(void)why;
	if (rename(in_log("log.json"), in_log("away")) < 0)
		_exit(2);
}

/* While it waits for space the log goes: that is told, and not the sync that failed before. */
TEST(child_waits)
{
	const char *path = getenv("SC_TEST_LOG");
	struct sc_intake_options o = { .out_fd = -1,
				       .bad_fd = -1,
				       .stop_fd = -1,
				       .wait_space = true,
				       .waiting = lose_settings };
	struct sc_intake_result result;
	struct sc_log *log = NULL;
	int fds[2];

	if (!path)
		return;
	snprintf(log_path, sizeof(log_path), "%s", path);
	if (pipe(fds) < 0 || write(fds[1], "1\n", 2) != 2 || close(fds[1]) < 0)
		_exit(3);
	o.in_fd = fds[0];
	if (sc_log_open(path, SC_LOG_APPEND, &log, &err) < 0)
		_exit(4);
	if (sc_intake_run(&log, &o, &result, &err) != SC_E_NOLOG ||
	    !strstr(err.reason, "no log.json") || result.rows)
		_exit(1);
	sc_log_close(log);
	_exit(0);
}

TEST(the_log_goes_while_space_is_waited_for)
{
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	sc_log_close(log);
	CHECK_INT(run_named("child_waits", "fdatasync:1:ENOSPC"), 0);
	log_done();
}
