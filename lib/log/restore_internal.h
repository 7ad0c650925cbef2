/*
 * log/restore_internal.h: what the files that restore share.
 *
 * Owns      struct sc_restore: one restore in one thread.
 * Units     as in log/restore.h.
 * Errors    as in log/restore.h.
 * Safety    inside lib/log only.
 * Source    man/sc-log.5, "Restore".
 */
#ifndef SC_LOG_RESTORE_INTERNAL_H
#define SC_LOG_RESTORE_INTERNAL_H

#include "log/archive_internal.h"
#include "log/log_internal.h"
#include "log/restore.h"

struct sc_restore {
	const struct sc_restore_options *o;
	struct sc_log log;        /* no log yet: its path, settings, buffers */
	struct sc_archive archive;
	struct sc_restore_report *report;
	bool stopped;
	uint64_t done, total;     /* bytes, for progress */
	/* what was taken so far: the end of the log that it makes */
	struct sc_state state;
	struct sc_floor floor;    /* where it begins */
	int64_t pace_us;          /* time of the row */
	uint64_t pace_rows;       /* behind which so many come: how fast the log grew */
	struct sc_bytes checkpoint; /* sources and producers as they stand at the end */
};

/* false: stop here. */
bool sc_restore_goes_on(struct sc_restore *r, uint64_t bytes);
/* SC_E_DATA: no object holds the rows from OFFSET up to NEXT. */
int sc_restore_hole(struct sc_restore *r, uint64_t offset, uint64_t next, struct sc_err *err);
/* restore_build.c: what was shipped of journals behind r->state becomes journals again. CHECKPOINT:
 * sources and producers as they stood there. */
int sc_restore_journals(struct sc_restore *r, struct sc_span checkpoint, struct sc_err *err);
/* restore_segments.c: those from LEFT on are here, each following the one before it; r->floor is
 * where they begin, r->report->left how many were left out in the end. */
int sc_restore_segments(struct sc_restore *r, size_t left, struct sc_err *err);

#endif
