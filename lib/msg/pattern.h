/*
 * msg/pattern.h: the shell-style patterns of channels and subjects, over code points.
 *
 * Owns      nothing.
 * Units     bytes; a character is a Unicode code point.
 * Errors    none: every text is a pattern.
 * Safety    pure functions, any thread. Patterns and texts should be UTF-8; any bytes are safe. No
 *           recursion; a match takes at most the product of both lengths in steps.
 * Source    wsmsg 10; man/sc-wsmsg.7, "PATTERNS".
 */
#ifndef SC_MSG_PATTERN_H
#define SC_MSG_PATTERN_H

#include <stdbool.h>

#include "base/bytes.h"

bool sc_pattern_match(struct sc_span pattern, struct sc_span text);

/* What every text that matches begins and ends with; the two never overlap in it. */
struct sc_pattern_shape {
	bool literal;          /* no wildcard at all: it matches itself only */
	size_t prefix, suffix; /* bytes at the front and at the end of the pattern; both all of it when literal */
};
struct sc_pattern_shape sc_pattern_shape(struct sc_span pattern);

/* It begins with '*', '?' or '[', and so does not match the channel "system". */
static inline bool sc_pattern_leads_wild(struct sc_span pattern)
{
	return pattern.len > 0 &&
	       (pattern.data[0] == '*' || pattern.data[0] == '?' || pattern.data[0] == '[');
}

#endif
