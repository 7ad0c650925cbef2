/*
 * tests/fault/cut.h: a recorded run, and the power lost at each moment of it.
 *
 * Units     as everywhere.
 * Errors    false, when what was wrong is printed. SC_STATES more random states of each moment;
 *           SC_KEEP keeps those that failed.
 */
#ifndef SC_FAULT_CUT_H
#define SC_FAULT_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "proof.h"

#define BOOT_OF_RUN "11111111-1111-4111-8111-111111111111"

struct cut {
	const char *name;       /* to print */
	const char *top;        /* the test's folder: disks are made in it */
	const char *run_folder, *trace_path;
	size_t splits;          /* at least so many blocks are not the last of their commits */
	bool archived;          /* into "archive" in run_folder */
	/* what to check of the log at PATH instead of proof_check (proof.h) */
	void (*check)(const char *path, const struct moment *m, char *ret_wrong, size_t size);
};
bool cut_power(const struct cut *cut);

#endif
