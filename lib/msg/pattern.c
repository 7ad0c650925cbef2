/* msg/pattern.c: shell-style patterns. */
#include <stdint.h>
#include <string.h>

#include "msg/pattern.h"

/* The character at AT (before LEN), and where the next begins. A byte that is no UTF-8 is a
 * character of its own, beyond all others. */
static uint32_t take(struct sc_span text, size_t *at)
{
	const unsigned char *p = (const unsigned char *)text.data + *at;
	size_t left = text.len - *at, more = *p < 0xc2   ? 0
					     : *p < 0xe0 ? 1
					     : *p < 0xf0 ? 2
					     : *p < 0xf5 ? 3
							 : 0;
	uint32_t c = more == 0 ? *p : *p & (0x3fu >> more);

	(*at)++;
	if (*p < 0x80)
		return c;
	if (more == 0 || more >= left)
		return 0x110000u + *p;
	for (size_t i = 1; i <= more; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0x110000u + *p;
		c = c << 6 | (p[i] & 0x3f);
	}
	*at += more;
	return c;
}

/* Where the set that begins at AT ends (its ']'), 0: it has no end, and '[' is a letter. */
static size_t set_end(struct sc_span pattern, size_t at)
{
	const char *end;

	at++;
	if (at < pattern.len && pattern.data[at] == '!')
		at++;
	if (at < pattern.len && pattern.data[at] == ']')
		at++;
	end = at < pattern.len ? memchr(pattern.data + at, ']', pattern.len - at) : NULL;
	return end ? (size_t)(end - pattern.data) : 0;
}

/* Whether C is in the set between AT ('[') and END (']'). */
static bool in_set(struct sc_span pattern, size_t at, size_t end, uint32_t c)
{
	struct sc_span set = sc_span(pattern.data, end);
	bool inverse, found = false;

	at++;
	inverse = at < end && pattern.data[at] == '!';
	if (inverse)
		at++;
	while (at < end) {
		uint32_t low = take(set, &at), high = low;

		if (at + 1 < end && set.data[at] == '-') {
			at++;
			high = take(set, &at);
		}
		if (c >= low && c <= high)
			found = true;
	}
	return found != inverse;
}

/* One character of TEXT against what stands at *P of the pattern; both are moved when they fit. */
static bool step(struct sc_span pattern, size_t *p, struct sc_span text, size_t *t)
{
	size_t at = *p, next = *t, end;
	uint32_t c = take(text, &next);
	bool fits;

	if (pattern.data[at] == '?') {
		fits = true;
		at++;
	} else if (pattern.data[at] == '[' && (end = set_end(pattern, at))) {
		fits = in_set(pattern, at, end, c);
		at = end + 1;
	} else {
		fits = take(pattern, &at) == c;
	}
	if (fits) {
		*p = at;
		*t = next;
	}
	return fits;
}

bool sc_pattern_match(struct sc_span pattern, struct sc_span text)
{
	size_t p = 0, t = 0, star = SIZE_MAX,
	       from = 0; /* behind the last star; where it was tried */

	for (;;) {
		if (p < pattern.len && pattern.data[p] == '*') {
			star = ++p;
			from = t;
			if (star == pattern.len)
				return true;
			continue;
		}
		if (t == text.len && p == pattern.len)
			return true;
		if (t < text.len && p < pattern.len && step(pattern, &p, text, &t))
			continue;
		/* the last star takes one character more */
		if (star == SIZE_MAX || from == text.len)
			return false;
		(void)take(text, &from);
		t = from;
		p = star;
	}
}

struct sc_pattern_shape sc_pattern_shape(struct sc_span pattern)
{
	size_t first = SIZE_MAX, behind = 0, at = 0, end;

	while (at < pattern.len) {
		char c = pattern.data[at];

		if (c == '*' || c == '?')
			end = at;
		else if (c != '[' || !(end = set_end(pattern, at))) {
			at++;
			continue;
		}
		if (first == SIZE_MAX)
			first = at;
		at = behind = end + 1;
	}
	if (first == SIZE_MAX)
		return (struct sc_pattern_shape){ true, pattern.len, pattern.len };
	return (struct sc_pattern_shape){ false, first, pattern.len - behind };
}
