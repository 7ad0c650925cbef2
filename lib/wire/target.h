/*
 * wire/target.h: the request target of a subscribe or publish: /NAME[?query].
 *
 * Owns      decoded values live in the target until sc_target_done; the name borrows from the text.
 * Units     offsets count rows from 1; 0 asks for the earliest.
 * Errors    a refusal (4400 with a detail), never an error: any bytes are a target.
 * Safety    pure functions.
 * Source    streamcast-wire 2.1, after urllib.parse and int() of Python 3.11; man/sc-wire.7,
 *           "CONNECTING".
 */
#ifndef SC_WIRE_TARGET_H
#define SC_WIRE_TARGET_H

#include "base/bytes.h"
#include "base/err.h"
#include "wire/refusal.h"

#define SC_PRODUCER_ID_MAX 255u

struct sc_target_rules {
	int wire;            /* protocol number: decides the known keys */
	bool publish;        /* publishers are welcome */
};

struct sc_target {
	struct sc_span name; /* bytes as sent, never percent-decoded; "" is the unnamed stream */
	bool has_offset, publish, has_where, has_producer;
	uint64_t offset;
	char offset_digits[SC_REASON_MAX + 1]; /* not empty: an offset beyond 64 bits, then offset is UINT64_MAX */
	struct sc_span where;     /* text of the JSON object, not looked at yet (wire/where.h) */
	struct sc_span producer;  /* UTF-8, 1 to 255 bytes */
	uint64_t epoch;
	struct sc_bytes store;
};

/*
 * 0; 1 and *ret_refusal when it is refused (the name is set then, if it could be split off: a
 * missing stream is told first); negative only without memory. *ret_target is always to be given to
 * sc_target_done.
 */
int sc_target_parse(struct sc_span text, const struct sc_target_rules *rules, struct sc_target *ret_target,
		    struct sc_refusal *ret_refusal, struct sc_err *err);
void sc_target_done(struct sc_target *target);

/* Python's int(): white space, sign, digits of any script, single underscores. The canonical
 * digits (no sign, no leading zeros) go to RET_DIGITS, cut to SIZE-1; false if it is not an
 * integer. *ret_value is UINT64_MAX when it is too large. */
bool sc_target_integer(struct sc_span text, bool *ret_negative, uint64_t *ret_value,
		char *ret_digits, size_t size);

#endif
