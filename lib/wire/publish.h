/*
 * wire/publish.h: frames that publishers send, and the replies to them.
 *
 * Owns      nothing; rows borrow from the frame.
 * Units     offsets and sequence numbers count rows.
 * Errors    a frame that is none is told by a word and a detail, for the reply.
 * Safety    pure functions.
 * Source    streamcast-wire 10; man/sc-wire.7, "PUBLISHING" (the producer form is our own).
 */
#ifndef SC_WIRE_PUBLISH_H
#define SC_WIRE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/scan.h"

#define SC_PUBLISH_BAD_FRAME "bad_frame"
#define SC_PUBLISH_REJECTED "rejected"
#define SC_PUBLISH_FAILED "commit_failed"
#define SC_PUBLISH_DETAIL_MAX 512
#define SC_PUBLISH_FENCED "fenced"           /* ours: an older epoch of a producer, or a gap in its sequence */

struct sc_publish {
	uint64_t seq, last;      /* of the first and the last row; producers only */
	size_t count;
	bool single;             /* one object, not in an array */
	struct sc_json one;
	struct sc_json_walk walk;
};

/*
 * PRODUCER: the connection named one, frames are {"seq":N,"rows":[...]}, or, where numbers are left
 * out, {"seq":N,"last":L,"rows":[...]}: rows for the numbers N to L, each at most one. SC_E_DATA
 * with the reason: reply bad_frame.
 */
int sc_publish_parse(struct sc_span frame, bool producer, struct sc_publish *ret_publish,
		struct sc_err *err);
bool sc_publish_next(struct sc_publish *publish, struct sc_span *ret_row);

/* {"ok":[first,first+1,...]}: COUNT offsets; nulls when FIRST is 0. DUPLICATE adds
 * "duplicate":true. */
int sc_publish_ok(struct sc_bytes *out, uint64_t first, size_t count, bool duplicate);
int sc_publish_error(struct sc_bytes *out, const char *word, const char *detail);

/* A client's side of it. */
struct sc_publish_reply {
	bool ok, duplicate;
	size_t count;            /* offsets in the list */
	bool has_offsets;        /* not nulls */
	uint64_t first, last;
	char word[33], detail[SC_PUBLISH_DETAIL_MAX];
};
/* SC_E_PROTOCOL when it is neither form. */
int sc_publish_reply_parse(struct sc_span text, struct sc_publish_reply *ret_reply,
		struct sc_err *err);

#endif
