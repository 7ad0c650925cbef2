/*
 * log/reader.h: the rows of a log in order, across tiers, as runs of lines.
 *
 * Owns      a reader until sc_reader_close; a run is borrowed until the next call on the reader.
 * Units     offsets count rows from 1; times in us since 1970 UTC.
 * Errors    SC_E_REFUSED with fields why, offset, earliest or end_offset; SC_E_DATA for damage,
 *           with file and last good offset; SC_E_IO.
 * Safety    a reader stays in its thread; it holds no transaction between calls.
 * Source    man/sc-log.5.
 */
#ifndef SC_LOG_READER_H
#define SC_LOG_READER_H

#include "base/err.h"
#include "log/log.h"

struct sc_reader;

struct sc_run {
	struct sc_span lines;    /* whole lines, each ending in LF, from one commit */
	uint64_t first, last;    /* offsets of the first and last line */
	uint64_t rows;
	int64_t appended_us;     /* of all of them */
};

/*
 * Begin at the first row at or after FROM (0 = earliest). SC_E_REFUSED: "evicted" when FROM is
 * below the first offset held, "ahead" when above the frontier.
 */
int sc_reader_open(struct sc_log *log, uint64_t from, struct sc_reader **ret_reader,
		struct sc_err *err);
/*
 * 1 and a run (at most `max_bytes`, or one longer line; 0 = as the file has it), or 0: everything
 * committed has been read. Never waits; call again after the log has grown. When retention passes
 * the reader: SC_E_REFUSED "evicted".
 */
int sc_reader_next(struct sc_reader *reader, size_t max_bytes, struct sc_run *ret_run,
		struct sc_err *err);
/* of the row that comes next, as far as known */
uint64_t sc_reader_offset(const struct sc_reader *reader);
void sc_reader_close(struct sc_reader *reader);

/* First offset whose append time is at or after WHEN; the frontier if there is none. */
int sc_log_offset_at(struct sc_log *log, int64_t when_us, uint64_t *ret_offset, struct sc_err *err);
/* How many rows are held at or above FROM (for max_replay). */
int sc_log_count_from(struct sc_log *log, uint64_t from, uint64_t *ret_rows, struct sc_err *err);

#endif
