/*
 * log/history.h: the rows of a log and of its archive as one sequence.
 *
 * Owns      a handle until sc_history_close; a run is borrowed until the next call on the handle.
 * Units     offsets count rows from 1; times in us since 1970 UTC.
 * Errors    what log/reader.h and log/archive.h say; SC_E_REFUSED with why "gap", first and last:
 *           rows that neither of the two holds; SC_E_CONFIG: the archive is another log's.
 * Safety    a handle stays in its thread, and waits for the archive.
 * Source    man/sc-catchup.1.
 *
 * A row is taken from the log where the log holds it, and from the archive where it does not. The
 * archive is opened when it is needed for the first time: rows that the log holds are there also
 * when the archive cannot be reached. Retention may move rows from the one to the other meanwhile.
 */
#ifndef SC_LOG_HISTORY_H
#define SC_LOG_HISTORY_H

#include "log/archive.h"

struct sc_history;

#define SC_HISTORY_NOTED ((const char *)NULL) /* the archive that the log was sealed into, if any */
#define SC_HISTORY_NONE ""

/*
 * PLACE is the path of a log, or the URL of an archive alone. ARCHIVE, for a log: the URL of its
 * archive or of the folder where that is, or one of the above. SETTINGS (may be NULL) and what they
 * point to outlive the handle.
 */
int sc_history_open(const char *place, const char *archive, const struct sc_store_settings *settings,
		    struct sc_history **ret_history, struct sc_err *err);
void sc_history_close(struct sc_history *history);

const char *sc_history_name(const struct sc_history *history); /* of the place, to show */
struct sc_log *sc_history_log(const struct sc_history *history); /* NULL: an archive alone */
/* The first row held, as far as was looked yet, and the end. */
int sc_history_bounds(struct sc_history *history, uint64_t *ret_first, uint64_t *ret_next,
		struct sc_err *err);
/* As sc_range_resolve. */
int sc_history_range(struct sc_history *history, const struct sc_range *range, bool follow, uint64_t *ret_from,
		     uint64_t *ret_end, struct sc_err *err);
/* As sc_range_last; for a log. */
int sc_history_last(struct sc_history *history, uint64_t count, uint64_t *ret_from,
		struct sc_err *err);

/* FROM 0 is the earliest. A gap below END is refused now. */
int sc_history_begin(struct sc_history *history, uint64_t from, uint64_t end, struct sc_err *err);
/* After sc_history_begin; as sc_reader_next. */
int sc_history_next(struct sc_history *history, size_t max_bytes, struct sc_run *ret_run,
		struct sc_err *err);
/* of the row that comes next, as far as known */
uint64_t sc_history_offset(const struct sc_history *history);
/* The rows in [from, end) proved, as sc_log_verify and sc_archive_verify do; the hash is theirs. */
int sc_history_verify(struct sc_history *history, uint64_t from, uint64_t end, struct sc_log_proof *ret_proof,
		      struct sc_err *err);

#endif
