/* tests/unit/msg/bytes.h: bytes written as hex digits. */
#ifndef SC_TESTS_MSG_BYTES_H
#define SC_TESTS_MSG_BYTES_H

#include <stdio.h>

#include "base/bytes.h"

/* HEX (blanks allowed between pairs) into a buffer that lives until the next but 15 call. */
static inline struct sc_span hex(const char *digits)
{
	static char ring[16][4096];
	static unsigned next;
	char *out = ring[next++ % 16];
	size_t len = 0;

	for (const char *p = digits; *p && len < sizeof(ring[0]);) {
		unsigned value;

		if (*p == ' ') {
			p++;
			continue;
		}
		if (sscanf(p, "%2x", &value) != 1)
			break;
		out[len++] = (char)value;
		p += 2;
	}
	return sc_span(out, len);
}

static inline bool same(struct sc_span a, struct sc_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

#endif
