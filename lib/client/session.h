/*
 * client/session.h: one consumer's subscription over any number of connections, and the archive
 * where a server does not go back so far: where to resume, what order must hold, when it is
 * finished, what a close means. No I/O.
 *
 * Owns      its texts; a row borrows from the frame that it was read from.
 * Units     offsets count rows from 1.
 * Errors    SC_E_PROTOCOL, SC_E_REFUSED (fields why, offset...), SC_E_NOLOG, SC_E_BUSY (too slow,
 *           too often), SC_E_USAGE.
 * Safety    one thread; no clock, no descriptors.
 * Source    streamcast-wire 3 to 5 and 14; man/sc-sub.1.
 *
 * A catch-up: SC_VERDICT_CATCH_UP, then, with nothing connected, sc_session_archive_begin and each
 * row of the archive in order by sc_session_archived, then the next connection. The server may
 * refuse that one as too old again, since it went on meanwhile: that is the next round.
 */
#ifndef SC_CLIENT_SESSION_H
#define SC_CLIENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "wire/data.h"
#include "wire/greeting.h"
#include "wire/refusal.h"

#define SC_SLOW_LIMIT 5 /* times in a row that a server may drop us as too slow without our getting further */

struct sc_session_options {
	const char *target;      /* the URL's: /trades?key=value */
	bool has_offset;         /* begin at `offset` (0 = earliest); else live */
	uint64_t offset;
	uint64_t count;          /* stop after so many rows were delivered; 0 = no bound */
	uint64_t to;             /* stop after this offset; 0 = no bound */
	bool until_end;          /* stop at the end as the first greeting tells it */
	bool contiguous;         /* a gap in the offsets is an error */
	unsigned rounds;         /* catch up so many times in a row; 0 = not at all */
};

enum sc_session_step {
	SC_STEP_GREETED,         /* the greeting was taken */
	SC_STEP_ROW,             /* *ret_row holds a row: deliver it, or let a filter drop it */
	SC_STEP_DROPPED,         /* a row that the filter in the URL leaves out; *ret_row holds it */
	SC_STEP_PAST,            /* a row beyond what was asked for: the session is finished */
};

enum sc_session_verdict {
	SC_VERDICT_AGAIN,        /* connect again, at sc_session_target */
	SC_VERDICT_CATCH_UP,     /* read the archive from sc_session_resume (0: the earliest), then connect */
	SC_VERDICT_END,          /* the server has ended the stream, or all that was asked for is there */
	SC_VERDICT_FAIL,         /* *err says why */
};

struct sc_gap {              /* rows that did not come, or that are not known to have come */
	bool known;              /* first and last say which; else rows without offsets, or of unknown number */
	uint64_t first, last;
};

struct sc_session;

/* SC_E_USAGE when both the URL and the options name an offset. */
int sc_session_new(const struct sc_session_options *options, struct sc_session **ret_session,
		struct sc_err *err);
void sc_session_free(struct sc_session *session);

/* The target for the next connection: the given one with the offset to resume at. */
int sc_session_target(struct sc_session *session, struct sc_bytes *out, struct sc_err *err);
void sc_session_connected(struct sc_session *session);
/* A message came. BINARY: its frame's type. */
int sc_session_message(struct sc_session *session, struct sc_span message, bool binary,
		       enum sc_session_step *ret_step, struct sc_data *ret_row, struct sc_err *err);
/* The gap that came to light with the last greeting or row, once. */
bool sc_session_gap(struct sc_session *session, struct sc_gap *ret_gap);
/* The connection is gone; code 1006 without a Close. */
enum sc_session_verdict sc_session_closed(struct sc_session *session, int code, struct sc_span reason,
					  struct sc_err *err);

/*
 * Catching up. sc_session_peek: the connection that comes only tells where the archive is: its
 * target asks for no offset, and of its messages the greeting goes to sc_session_peeked, once.
 */
int sc_session_peek_target(struct sc_session *session, struct sc_bytes *out, struct sc_err *err);
int sc_session_peeked(struct sc_session *session, struct sc_span message, bool binary,
		      struct sc_err *err);
/* Where the archive of this stream is, as the server has it; empty when it does not say. */
const char *sc_session_archive(const struct sc_session *session);
/* The stream's name, for the folder of archives. */
const char *sc_session_stream(const struct sc_session *session);

struct sc_session_kept {
	const char *archive;     /* its URL, for words */
	const char *stream_id;
	uint64_t first, next;    /* the first row that it holds, and its end */
	bool trusted;            /* the user named it: it may be another log's, say a mirror's */
};
/*
 * The archive is open. SC_E_REFUSED, why "gap": neither the server nor the archive has what comes
 * next; fields first and last. 1: the stream ids differ, and it is trusted.
 */
int sc_session_archive_begin(struct sc_session *session, const struct sc_session_kept *kept,
			     struct sc_err *err);
/* A line of the archive. As sc_session_message, SC_STEP_ROW and SC_STEP_PAST; also
 * SC_STEP_DROPPED. */
int sc_session_archived(struct sc_session *session, struct sc_span line,
			enum sc_session_step *ret_step, struct sc_data *ret_row,
			struct sc_err *err);

/* It was read to its end, NEXT: no row is between the last one and that. */
int sc_session_archive_end(struct sc_session *session, uint64_t next, struct sc_err *err);

/* The row became LINES lines for the consumer (a filter may make it none, a program several). */
void sc_session_delivered(struct sc_session *session, uint64_t lines);
/* All that was asked for has come. */
bool sc_session_finished(const struct sc_session *session);
bool sc_session_greeted(const struct sc_session *session);     /* on this connection */
uint64_t sc_session_last(const struct sc_session *session);    /* offset of the last row; 0 = none */
uint64_t sc_session_rows(const struct sc_session *session);    /* since the start */
/* Where a consumer would go on: last + 1, or where it began; 0 = not known (live, no row yet, no
 * log). */
uint64_t sc_session_resume(const struct sc_session *session);
/* With until_end: rows are still missing below this; 0 = no. They may have been given up
 * (man/sc-sub.1). */
uint64_t sc_session_awaits_end(const struct sc_session *session);

#endif
