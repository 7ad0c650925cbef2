/*
 * tests/unit/log/killed.h: processes that work on one log at once and are killed at random, again
 * and again, while the record that makes its index trusted is deleted under them now and then.
 *
 * run_killed(MAINS, COUNT) runs one process for each of MAINS; they never return. An appender
 * tells the last offset that it was acknowledged by told(OUT, OFFSET). A process that ends by
 * itself has found something, and said what: the test fails. SC_ROUNDS (30) chooses how often.
 */
#ifndef SC_TESTS_LOG_KILLED_H
#define SC_TESTS_LOG_KILLED_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "help.h"

#include "log/seal.h"

#define KILLED_MAX 8

typedef void killed_main(int out);

static inline void told(int out, uint64_t offset)
{
	CHECK(syscall(SYS_write, out, &offset, sizeof(offset)) == sizeof(offset));
}

/* Reads all again and again: without a gap, each row once. */
static inline void reader(int out)
{
	struct sc_log *log = open_log(SC_LOG_READ);

	(void)out;
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

/* Seals and compacts in all ways, again and again; ALONE: no other process seals. */
static inline void seal_on(bool alone)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);

	for (;;) {
		struct sc_seal_options o = { .target = 4096u << random() % 5,
					     .force = random() % 3 == 0,
					     .every = random() % 2 };
		struct sc_seal *seal = NULL;
		int rc = sc_seal_open(log, false, &seal, &err);

		if (rc == SC_E_BUSY && !alone)
			continue;
		CHECK_OK(rc, &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
		sc_seal_close(seal);
	}
}

static inline pid_t killed_start(killed_main *main_of_it, int out)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setjmp(sc_test_out))
		_exit(1); /* a check failed, and said so */
	srandom((unsigned)getpid());
	main_of_it(out);
	_exit(0);
}

static inline uint64_t killed_drain(int fd, uint64_t acked)
{
	uint64_t value;

	while (read(fd, &value, sizeof(value)) == sizeof(value))
		acked = value > acked ? value : acked;
	return acked;
}

/* The last offset that was acknowledged. */
static inline uint64_t run_killed(killed_main *const mains[], int count)
{
	int rounds = getenv("SC_ROUNDS") ? atoi(getenv("SC_ROUNDS")) : 30;
	pid_t pids[KILLED_MAX] = { 0 };
	uint64_t acked = 0;
	int pair[2], status;
	bool wrong = false;

	CHECK(count <= KILLED_MAX && pipe(pair) == 0);
	sc_set_nonblock(pair[0], true);
	srandom((unsigned)time(NULL));
	for (int round = 0; round < rounds; round++) {
		for (int i = 0; i < count && !wrong; i++)
			if (!pids[i])
				pids[i] = killed_start(mains[i], pair[1]);
		for (long us = 10000 + random() % 60000; us > 0; us -= 1000) {
			usleep(1000);
			acked = killed_drain(pair[0], acked);
		}
		if (round % 8 == 5)
			unlink(in_log("index.state")); /* then it is made again, from the files */
		for (int i = 0; i < count; i++) {
			if (!pids[i] || (round + 1 < rounds && !wrong && random() % 2))
				continue;
			kill(pids[i], SIGKILL);
			waitpid(pids[i], &status, 0);
			pids[i] = 0;
			wrong = wrong || !WIFSIGNALED(status);
		}
		acked = killed_drain(pair[0], acked);
	}
	close(pair[0]);
	close(pair[1]);
	CHECK(!wrong);
	return acked;
}

#endif
