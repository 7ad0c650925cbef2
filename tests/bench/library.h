/*
 * tests/bench/library.h: what the load tools share that call the library: an end with its error, and
 * numbers that are the same in each run.
 */
#ifndef BENCH_LIBRARY_H
#define BENCH_LIBRARY_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

static struct sc_err err;

/* With the library's error, or else with that of the last call of the system. */
static inline void fail(const char *what)
{
	char line[1200];

	sc_err_line(&err, line, sizeof(line));
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
		err.code ? line : strerror(errno));
	exit(1);
}

/* Below LIMIT. */
static inline uint64_t any(uint64_t limit)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % limit;
}

#endif
