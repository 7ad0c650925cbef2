/*
 * log/seal_internal.h: what the files that seal share.
 *
 * Owns      struct sc_seal: one handle, one thread; a file being made until sc_seal_file_free.
 * Units     as in log/seal.h.
 * Errors    as in log/seal.h.
 * Safety    inside lib/log only.
 * Source    man/sc-log.5, "Sealing".
 */
#ifndef SC_LOG_SEAL_INTERNAL_H
#define SC_LOG_SEAL_INTERNAL_H

#include "log/log_internal.h"

struct sc_seal {
	struct sc_log *log;
	bool dry;
	int lock_fd;
	int64_t begun_us;         /* of the transaction in hand */
	struct sc_seal_report report;
};

/* seal.c */
void sc_seal_step_done(struct sc_seal *seal, const struct sc_seal_options *o, enum sc_seal_act act,
		       const struct sc_sealed *segment, uint64_t from);
/* sc_index_begin, timed: appends wait from here until sc_seal_ended. */
int sc_seal_begin(struct sc_seal *seal, struct sc_kv_txn **ret_txn, struct sc_state *ret_state,
		  struct sc_err *err);
void sc_seal_ended(struct sc_seal *seal);

/* trim.c: sc_log_trim, and how long its transaction made appends wait, where it came to that. */
int sc_trim_held(struct sc_log *log, uint64_t before, int64_t *ret_held_us, struct sc_err *err);

/* seal_file.c: a segment that is being made under another name */
struct sc_seal_file {
	struct sc_seal *seal;
	const struct sc_seal_options *o;
	struct sc_segment_writer *writer;
	struct sc_schema *schema; /* our own, or NULL */
	int fd;
	uint64_t done, total;     /* bytes of lines, for progress */
	bool stopped;             /* as progress asked */
	char path[PATH_MAX];
};
/* SCHEMA: as published; empty = none. */
int sc_seal_file_begin(struct sc_seal_file *file, struct sc_seal *seal, const struct sc_seal_options *o,
		       struct sc_span schema, struct sc_err *err);
/* file->stopped afterwards: no more. */
int sc_seal_file_add(struct sc_seal_file *file, const struct sc_run *run, struct sc_err *err);
/* Whole, on disk, read back, and under its name, but not yet in the index. */
int sc_seal_file_finish(struct sc_seal_file *file, const struct sc_segment_tie *tie, struct sc_sealed *ret_sealed,
			struct sc_err *err);
/* Away with what was not finished. */
void sc_seal_file_free(struct sc_seal_file *file);
/* Is SEGMENT in the index? 1, 0. */
int sc_seal_file_known(struct sc_kv_txn *txn, const struct sc_sealed *segment, struct sc_err *err);
/* The file is not to be, unless the index knows it by now. */
void sc_seal_file_discard(struct sc_seal *seal, const struct sc_sealed *segment);

#endif
