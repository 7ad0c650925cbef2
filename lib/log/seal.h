/*
 * log/seal.h: the second tier: finished journals become segments, small segments larger ones, old
 * ones go.
 *
 * Owns      a seal until sc_seal_close; the log is the caller's and outlives it. What a callback
 *           gets is borrowed for the call.
 * Units     offsets count rows from 1; sizes in bytes; times in us since 1970 UTC.
 * Errors    SC_E_BUSY: another seal runs (field pid); SC_E_DATA: a journal or segment is damaged,
 *           named as a reader names it; SC_E_IO, SC_E_NOAUTH, SC_E_NOMEM. After an error everything
 *           that was done before stands, and nothing is half done.
 * Safety    a handle stays in its thread with its log. Others may append, read, follow, trim and
 *           rebuild the index meanwhile; appends wait for the last transaction of each step only.
 * Source    man/sc-log.5, "Sealing".
 */
#ifndef SC_LOG_SEAL_H
#define SC_LOG_SEAL_H

#include <limits.h>

#include "log/log.h"
#include "log/segment.h"

#define SC_SEAL_TARGET (8u << 20) /* lines of a segment, about */

/* A segment as the log knows it. */
struct sc_sealed {
	uint64_t first, last;     /* offsets of its rows; its name is made of them */
	uint64_t next;            /* the lowest offset that may follow it */
	uint64_t rows, bytes;     /* of lines */
	uint64_t rows_before, bytes_before; /* appended to the log before its first row */
	uint64_t file_bytes;      /* 0: not known, in a dry run */
	int64_t first_us, last_us;
	uint64_t schema;          /* a hash of it: the same for the same schema */
};
/* Those that the log holds at one moment, from the lowest. A result other than 0 ends it and is
 * returned. */
int sc_log_segments(struct sc_log *log, int (*each)(void *arg, const struct sc_sealed *segment), void *arg,
		    struct sc_err *err);
void sc_log_segment_path(const struct sc_log *log, const struct sc_sealed *segment,
		char ret_path[PATH_MAX]);

/*
 * The right to change a log's segments, one holder at a time. DRY: nothing is locked and nothing is
 * changed, the calls below say what they would do (one after another each speaks of the log as it
 * is). Else the log is open for appending, and what an earlier seal left when it died is removed.
 */
struct sc_seal;
int sc_seal_open(struct sc_log *log, bool dry, struct sc_seal **ret_seal, struct sc_err *err);
void sc_seal_close(struct sc_seal *seal);

enum sc_seal_act {
	SC_SEAL_SEALED,           /* `from` journals became the segment */
	SC_SEAL_COMPACTED,        /* `from` segments became the segment */
	SC_SEAL_REMOVED,          /* the segment is not held here any more */
};
struct sc_seal_step {
	enum sc_seal_act act;
	const struct sc_sealed *segment;
	uint64_t from;
};
struct sc_seal_options {
	uint64_t target;          /* 0 = SC_SEAL_TARGET */
	/* seal all when the oldest row not sealed is older than this; 0 = whatever its age, wait
	 * for the target */
	int64_t age_us;
	int64_t now_us;           /* 0 = the clock's */
	bool force;               /* seal all, whatever size and age */
	bool every;               /* compact: every run of undersized segments, also where little is won */
	int level;                /* of zstd; 0 = SC_SEGMENT_LEVEL */
	void *arg;                /* of the callbacks; each may be NULL */
	void (*step)(void *arg, const struct sc_seal_step *step); /* after it is done; in a dry run: would be */
	bool (*progress)(void *arg, uint64_t done, uint64_t total); /* bytes of lines; false: stop here, with 0 */
};

struct sc_seal_report {
	uint64_t sealed, sealed_from, sealed_rows, sealed_bytes, sealed_file_bytes;             /* segments, from journals */
	uint64_t compacted, compacted_from, compacted_rows, compacted_bytes, compacted_file_bytes; /* segments, from segments */
	uint64_t removed, removed_rows, removed_bytes, removed_file_bytes;
	uint64_t leftovers;       /* files that a seal left when it died, removed */
	bool rotated;             /* the journal in use was ended for it */
	int64_t held_us;          /* the longest time that appends had to wait for a transaction */
};
/* What this handle did so far. */
void sc_seal_report(const struct sc_seal *seal, struct sc_seal_report *ret_report);

/* Finished journals, whole ones, into segments of about the target; a rest of less than half of it
 * waits for age or force. */
int sc_seal_run(struct sc_seal *seal, const struct sc_seal_options *options, struct sc_err *err);
/* Runs of neighbours with less than half of the target each into segments of at most the target. */
int sc_seal_compact(struct sc_seal *seal, const struct sc_seal_options *options,
		struct sc_err *err);

/*
 * Whole segments below BEFORE go, from the lowest: they are not held here any more (the archive may
 * have them), and the floor is where the next one begins. Journals stay. The caller knows that the
 * archive has what it should have.
 */
int sc_seal_remove(struct sc_seal *seal, uint64_t before, const struct sc_seal_options *options,
		struct sc_err *err);

/* What to keep; 0 = no limit of that kind. */
struct sc_keep {
	int64_t age_us;           /* segments whose last row is older go */
	uint64_t bytes;           /* of files, of the newest ones */
	uint64_t count;           /* of segments */
};
/* How many of COUNT segments, in order, go from the front. */
size_t sc_keep_drop(const struct sc_keep *keep, const struct sc_sealed *segments, size_t count,
		int64_t now_us);

#endif
