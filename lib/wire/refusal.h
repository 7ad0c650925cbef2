/*
 * wire/refusal.h: why a connection is closed: close code, reason JSON, and the decision to replay
 * or not.
 *
 * Owns      nothing; names to build from are borrowed, what a reason said is copied into the
 *           struct.
 * Units     offsets count rows from 1; behind, max_replay in rows; backlog in messages.
 * Errors    none: a reason that cannot be read leaves only the code's meaning.
 * Safety    pure functions.
 * Source    streamcast-wire 5; man/sc-wire.7, "CLOSING".
 */
#ifndef SC_WIRE_REFUSAL_H
#define SC_WIRE_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_REASON_MAX 123u         /* RFC 6455: a control frame's 125 bytes less the code */
#define SC_DETAIL_POINTS_MAX 80u   /* code points of a detail that are kept */
#define SC_DETAIL_BYTES_MAX 320u

enum sc_close_code {
	SC_CLOSE_NORMAL = 1000, SC_CLOSE_SHUTDOWN = 1001, SC_CLOSE_MALFORMED = 1002, SC_CLOSE_TEXT = 1007,
	SC_CLOSE_TOO_BIG = 1009, SC_CLOSE_FAILED = 1011,
	SC_CLOSE_BAD_REQUEST = 4400, SC_CLOSE_NO_SUCH_STREAM = 4404, SC_CLOSE_RETIRED = 4410,
	SC_CLOSE_NOT_REPLAYABLE = 4416, SC_CLOSE_TOO_SLOW = 4429
};

enum sc_refusal_kind {
	SC_REFUSAL_NONE,             /* not a refusal: an ordinary or abnormal close */
	SC_REFUSAL_BAD_REQUEST,      /* detail */
	SC_REFUSAL_PUBLISH_DISABLED,
	SC_REFUSAL_NO_SUCH_STREAM,   /* serves */
	SC_REFUSAL_RETIRED,          /* at, end_offset: never built here, read from newer servers */
	SC_REFUSAL_NOT_REPLAYABLE,   /* why and its numbers */
	SC_REFUSAL_TOO_SLOW,         /* backlog, and ours: resume */
	SC_REFUSAL_KINDS
};

enum sc_why {
	SC_WHY_NONE,                 /* a 4416 whose reason did not say, or a word not known here (word[]) */
	SC_WHY_NOT_DURABLE, SC_WHY_EMPTY, SC_WHY_EVICTED, SC_WHY_AHEAD, SC_WHY_TOO_OLD,
	SC_WHY_KINDS
};

enum { /* which numbers are there */
	SC_HAS_OFFSET = 1, SC_HAS_END = 2, SC_HAS_EARLIEST = 4, SC_HAS_BEHIND = 8, SC_HAS_MAX_REPLAY = 16,
	SC_HAS_BACKLOG = 32, SC_HAS_RESUME = 64, SC_HAS_AT = 128, SC_HAS_SERVES = 256
};

struct sc_refusal {
	enum sc_refusal_kind kind;
	enum sc_why why;
	unsigned has;                /* SC_HAS_ bits */
	uint64_t offset, end_offset, earliest, behind, max_replay, backlog, resume;
	int64_t at_us;
	int wire;                    /* building: 1 and 2 end too_old and evicted with "archive":null */
	char offset_digits[SC_REASON_MAX + 1]; /* building: an offset beyond 64 bits; then `offset` is not used */
	const struct sc_span *serves; /* building: names, sorted */
	size_t serves_count;
	char word[33];               /* parsed: the why, or the error word when it is not one of ours */
	char archive[SC_REASON_MAX + 1]; /* parsed: where rows that are refused can be read; empty: not told */
	char detail[SC_DETAIL_BYTES_MAX + 1];  /* also parsed: serves, joined with ", " */
};

void sc_refusal_init(struct sc_refusal *refusal, enum sc_refusal_kind kind);
/* detail from a format; cut to 80 code points, what is not UTF-8 replaced. */
void sc_refusal_detail(struct sc_refusal *refusal, const char *format,
		...) __attribute__((format(printf, 2, 3)));
int sc_refusal_code(const struct sc_refusal *refusal);
const char *sc_refusal_word(enum sc_refusal_kind kind);  /* "not_replayable" */
const char *sc_why_word(enum sc_why why);                /* "too_old" */

/* The reason: JSON of at most 123 bytes, and a NUL. Too long a one loses its last field whole,
 * again and again. */
size_t sc_refusal_reason(const struct sc_refusal *refusal, char ret_text[SC_REASON_MAX + 1]);
/* What a close means. The code decides; REASON only adds numbers and may be anything. */
void sc_refusal_parse(int code, struct sc_span reason, struct sc_refusal *ret_refusal);
/* As an error of a client: code, words, next move, and the numbers as fields. TRIED: "cannot
 * subscribe". */
int sc_refusal_err(const struct sc_refusal *refusal, const char *tried, struct sc_err *err);

/* Can this offset be served? Numbers of one moment. */
struct sc_resume {
	bool durable;                /* a log is attached */
	bool bounded;                /* max_replay counts */
	int wire;
	uint64_t first_offset;       /* lowest offset held; = end_offset when none is */
	uint64_t end_offset;         /* what the next row will get */
	uint64_t max_replay;
};
/*
 * OFFSET 0 is the earliest held. *ret_start: the first offset of the replay. COUNT_FROM tells how
 * many rows are held at or above an offset (asked only when the distance alone passes max_replay).
 * false: refused, *ret_refusal says why. A negative count ends in a refusal by distance.
 */
bool sc_resume_decide(const struct sc_resume *at, uint64_t offset, int64_t (*count_from)(void *arg, uint64_t offset),
		      void *arg, uint64_t *ret_start, struct sc_refusal *ret_refusal);

#endif
