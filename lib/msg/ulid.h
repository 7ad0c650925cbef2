/*
 * msg/ulid.h: ULIDs: 6 bytes of Unix time in ms and 10 random bytes, made in rising order.
 *
 * Owns      nothing.
 * Units     ms since 1970 UTC; a text is 26 letters and a NUL.
 * Errors    none but a text that is none.
 * Safety    one thread a maker.
 * Source    the ULID specification; wsmsg 5.
 */
#ifndef SC_MSG_ULID_H
#define SC_MSG_ULID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define SC_ULID_BYTES 16
#define SC_ULID_TEXT 27

struct sc_ulid {
	unsigned char bytes[SC_ULID_BYTES];
};

/* All zero at first: each program has one. */
struct sc_ulid_maker {
	struct sc_ulid last;
};

/* Larger than every one before of this maker: in the same ms, or when the clock went back, the
 * last one plus 1. */
struct sc_ulid sc_ulid_make(struct sc_ulid_maker *maker, int64_t wall_ms);

/* Crockford base32 in upper case. */
void sc_ulid_text(const struct sc_ulid *ulid, char ret_text[SC_ULID_TEXT]);
/* 26 letters of either case, the first 0 to 7; I, L, O and U are none. */
bool sc_ulid_parse(struct sc_span text, struct sc_ulid *ret_ulid);

static inline struct sc_span sc_ulid_span(const struct sc_ulid *ulid)
{
	return sc_span((const char *)ulid->bytes, SC_ULID_BYTES);
}

#endif
