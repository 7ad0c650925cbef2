/*
 * log/intake_internal.h: what intake.c and intake_commit.c share.
 *
 * Owns      see log/intake.h.
 * Units     sizes in bytes.
 * Errors    in->err.
 * Safety    the fields under "the other thread" are its own while it is busy.
 * Source    our own.
 */
#ifndef SC_LOG_INTAKE_INTERNAL_H
#define SC_LOG_INTAKE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "log/intake.h"

/* A line of input and its number: to be checked again when the schema was changed meanwhile. */
struct sc_origin {
	uint64_t number;
	uint32_t len;
};
struct sc_batch {
	struct sc_bytes text;
	struct sc_bytes raw;       /* the lines that the rows came from, back to back */
	struct sc_origin *origins;
	uint32_t *lens;
	uint64_t *offsets;
	size_t count, cap;
	uint64_t source_offset;
};

#define SC_BATCH_RAW (4u << 20) /* of input in a batch; lines may be longer than their rows */

struct sc_intake {
	struct sc_log **log;
	const struct sc_intake_options *o;
	struct sc_intake_result *result;
	struct sc_err *err;
	const struct sc_schema *schema; /* that rows are checked by */
	uint64_t schema_version;
	uint64_t message_max, batch_rows;
	size_t line_max;           /* of input: a row may come with white space */
	struct sc_bytes raw;       /* input; taken up to `at`, no LF up to at + searched */
	size_t at, searched;
	bool ended, ended_early;
	struct sc_log *retired;    /* the handle that schema belongs to, once another took its place */
	bool again;                /* rows that were taken are checked anew */
	bool discard;              /* inside a line that is too long */
	uint64_t source_at;
	uint64_t if_next;
	struct sc_batch batches[2];
	int fill;                  /* the one that is filled; the other is free or being committed */

	/* the other thread */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct sc_batch *job;      /* under the lock: NULL = none */
	bool done, quit;           /* under the lock */
	bool busy;                 /* the caller's: a job was given and not settled */
	int job_rc;
	struct sc_err job_err;
	struct sc_err out_err;     /* once out_failed */
	atomic_bool append_failed; /* what comes after must not be appended */
	atomic_bool out_failed;    /* print no more */
	int done_fd;               /* an eventfd: readable when the job is done */
};

int sc_intake_init(struct sc_intake *in);
void sc_intake_done(struct sc_intake *in);
bool sc_intake_busy(const struct sc_intake *in);
/* Wait for the commit that runs, and take its result. */
int sc_intake_settle(struct sc_intake *in);
/*
 * Commit a batch now, or the filled one in the other thread (nothing may run there). SC_E_STALE:
 * nothing was done, its rows are to be checked by another schema.
 */
int sc_intake_commit(struct sc_intake *in, struct sc_batch *batch);
int sc_intake_commit_there(struct sc_intake *in);
void sc_batch_clear(struct sc_batch *batch);
/* Nothing may run in the other thread. From now on rows are checked by the schema in force. */
int sc_intake_take_schema(struct sc_intake *in);

#endif
