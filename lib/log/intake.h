/*
 * log/intake.h: lines from a descriptor into a log: what is readable now is one commit.
 *
 * Owns      its buffers and a thread; the log handle is lent to it from open to close, and may be
 *           opened anew (wait_space).
 * Units     sizes in bytes; rows and lines count from 1.
 * Errors    SC_E_DATA: a line was refused, with the field line; those of sc_log_append; SC_E_IO of
 *           the descriptors. What was taken before is committed all the same.
 * Safety    one thread calls it; one intake a log handle.
 * Source    man/sc-log.1, "append".
 *
 * A small batch is committed at once in the caller's thread. While a larger one is committed in the
 * other thread the next is read and checked, so under load batches grow by themselves, up to
 * SC_BATCH_BYTES.
 */
#ifndef SC_LOG_INTAKE_H
#define SC_LOG_INTAKE_H

#include "log/log.h"

#define SC_BATCH_BYTES (1u << 20)
#define SC_BATCH_ROWS 65536

enum sc_pairs {
	SC_PAIRS_AUTO,   /* a log with a schema takes the msg out of [offset,msg]; one without takes any line as it is */
	SC_PAIRS_ALWAYS, /* every line must be [offset,msg] */
	SC_PAIRS_NEVER
};

struct sc_intake_options {
	int in_fd;
	int out_fd;                /* for the lines of each commit; -1 = none */
	int bad_fd;                /* refused lines go there unchanged; -1 = the first one ends it */
	const char *bad_name;
	int stop_fd;               /* readable: take no more; -1 = none */
	enum sc_pairs pairs;
	bool wrap;                 /* a line that is not JSON is taken wrapped */
	bool mirror;               /* the pairs' offsets are kept */
	const char *source;        /* or NULL */
	uint64_t if_next;
	uint64_t batch_rows;       /* 0 = SC_BATCH_ROWS */
	bool wait_space;
	void (*waiting)(void *arg, const struct sc_err *err); /* said once per wait for space */
	void *arg;
};

struct sc_intake_result {
	uint64_t lines;            /* read */
	uint64_t rows;             /* appended */
	uint64_t skipped;          /* at or below the source's offset: already there */
	uint64_t set_aside;        /* to bad_fd */
	uint64_t commits;
	uint64_t last;             /* offset of the last row appended; 0 = none */
	bool stopped;              /* by stop_fd */
};

/*
 * Until the end of input, a refused line, an error or a stop. *LOG may be replaced. RESULT is
 * filled also on failure.
 */
int sc_intake_run(struct sc_log **log, const struct sc_intake_options *options, struct sc_intake_result *ret_result,
		  struct sc_err *err);

#endif
