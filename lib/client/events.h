/*
 * client/events.h: the life of a connection, told in words to a person and as JSON lines to a
 * program (--events FD).
 *
 * Owns      its output; the descriptor stays the caller's.
 * Units     times in us since 1970 UTC, durations in ms.
 * Errors    none: an event that cannot be written is counted and told as lost with the next one; it
 *           never holds up the data.
 * Safety    the loop's thread.
 * Source    man/sc.7, "EVENTS".
 *
 * A line is {"time":"2026-...Z","event":"lost",...}. Events: connected, lost, failed, gap, slow,
 * skipped, catch_up, caught_up, warning.
 */
#ifndef SC_CLIENT_EVENTS_H
#define SC_CLIENT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/say.h"
#include "net/client.h"

struct sc_events_options {
	int fd;         /* -1: no JSON lines */
	/* How a person is told, or NULL: sc_say_fields of base/say.h fits. */
	void (*say)(enum sc_level level, const char *fields, const char *format, ...);
};

struct sc_events;

int sc_events_open(const struct sc_events_options *options, struct sc_events **ret_events,
		struct sc_err *err);
void sc_events_close(struct sc_events *events); /* waits a second at most for a slow reader */

void sc_events_connected(struct sc_events *events, const struct sc_client_opened *opened);
/* RESUME: the offset that comes next, 0 = not known. */
void sc_events_ended(struct sc_events *events, const struct sc_client_ended *ended,
		uint64_t resume);
void sc_events_gap(struct sc_events *events, bool known, uint64_t first, uint64_t last);
void sc_events_slow(struct sc_events *events, const struct sc_err *err, uint64_t resume);
void sc_events_skipped(struct sc_events *events, struct sc_span message, const struct sc_err *err,
		uint64_t total);
/* Rows from FIRST on, up to below NEXT, are read from the archive at URL; ROWS were. */
void sc_events_catch_up(struct sc_events *events, const char *url, uint64_t first, uint64_t next);
void sc_events_caught_up(struct sc_events *events, uint64_t rows, uint64_t resume);
/* Lines of a publisher that were sent and not acknowledged. */
void sc_events_in_doubt(struct sc_events *events, uint64_t first, uint64_t last);
void sc_events_warning(struct sc_events *events, const char *text);

#endif
