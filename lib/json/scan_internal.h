/*
 * json/scan_internal.h: the scanner's parts, for the files of this room that read untrusted text in
 * one pass.
 *
 * Owns      nothing.
 * Units     pointers into the text.
 * Errors    a part returns NULL and leaves what and where in the struct; sc_scan_err makes the
 *           words.
 * Safety    reads only start..end; loads of 16 bytes near the end overlap backwards instead of
 *           passing it.
 * Source    RFC 8259; RFC 3629 for UTF-8.
 */
#ifndef SC_JSON_SCAN_INTERNAL_H
#define SC_JSON_SCAN_INTERNAL_H

#include "json/scan.h"

#if defined(__SSE2__) && !defined(SC_JSON_SWAR) /* SC_JSON_SWAR: to test the portable way on a PC */
#define SC_SCAN_SSE2
#include <emmintrin.h>
#endif

enum sc_scan_fault {
	SC_FAULT_NONE,
	SC_FAULT_EMPTY, /* no value at all */
	SC_FAULT_END,   /* the text ends too early */
	SC_FAULT_BOM,
	SC_FAULT_VALUE, /* a value was expected */
	SC_FAULT_AFTER, /* something follows the value */
	SC_FAULT_KEY,
	SC_FAULT_COLON,
	SC_FAULT_COMMA,
	SC_FAULT_LITERAL,
	SC_FAULT_CONTROL,
	SC_FAULT_ESCAPE,
	SC_FAULT_HEX,
	SC_FAULT_SURROGATE,
	SC_FAULT_UTF8,
	SC_FAULT_ZERO,  /* a leading zero */
	SC_FAULT_DIGIT, /* a digit was expected */
	SC_FAULT_DEPTH
};

struct sc_scan {
	const char *start, *end;
	const char *fault_at;
	enum sc_scan_fault fault;
	unsigned depth; /* containers that are open around what is scanned now */
	bool blanks;    /* white space was passed over */
	bool newlines;  /* and some of it was LF or CR */
	bool exponents; /* a number had one */
};

static inline void sc_scan_init(struct sc_scan *s, struct sc_span text)
{
	s->start = text.len ? text.data : "";
	s->end = s->start + text.len;
	s->fault_at = NULL;
	s->fault = SC_FAULT_NONE;
	s->depth = 0;
	s->blanks = s->newlines = s->exponents = false;
}

static inline const char *sc_scan_fail(struct sc_scan *s, enum sc_scan_fault fault, const char *at)
{
	s->fault = fault;
	s->fault_at = at;
	return NULL;
}

/* Fills ERR: TRIED: WHAT at byte N. COLUMN names where (NULL: nothing to name). Returns
 * SC_E_DATA. */
int sc_scan_err(const struct sc_scan *s, const char *tried, const struct sc_span *column,
		struct sc_err *err);

/* sc_json_scan with other words for what was tried. */
int sc_json_scan_as(const char *tried, struct sc_span text, struct sc_json *ret_value,
		struct sc_err *err);

const char *sc_scan_string_rest(struct sc_scan *s, const char *p);
const char *sc_scan_blanks_rest(struct sc_scan *s, const char *p);
const char *sc_scan_nested(struct sc_scan *s, const char *p);
const char *sc_scan_literal(struct sc_scan *s, const char *p, enum sc_json_kind *ret_kind);
const char *sc_scan_number_tail(struct sc_scan *s, const char *p);
/* One character of two to four bytes, strictly; NULL if it is not UTF-8. */
const char *sc_scan_utf8(const char *p, const char *end);

static inline bool sc_scan_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static inline bool sc_scan_is_digit(char c)
{
	return (unsigned char)(c - '0') < 10;
}

static inline const char *sc_scan_blanks(struct sc_scan *s, const char *p)
{
	if (p < s->end && (unsigned char)*p <= ' ')
		return sc_scan_blanks_rest(s, p);
	return p;
}

#ifdef SC_SCAN_SSE2
/* A bit for each byte that ends a run of plain string bytes: '"', '\\', below 0x20, above 0x7f. */
static inline unsigned sc_scan_stops(const char *p)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
	/* signed: bytes above 0x7f are negative, so they are below 0x20 too */
	__m128i low = _mm_cmplt_epi8(x, _mm_set1_epi8(0x20));
	__m128i quote = _mm_cmpeq_epi8(x, _mm_set1_epi8('"'));
	__m128i slash = _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'));

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(low, _mm_or_si128(quote, slash)));
}

static inline unsigned sc_scan_no_digits(const char *p)
{
	__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
	__m128i d = _mm_sub_epi8(x, _mm_set1_epi8('0'));
	__m128i is = _mm_cmpeq_epi8(_mm_min_epu8(d, _mm_set1_epi8(9)), d);

	return (unsigned)_mm_movemask_epi8(is) ^ 0xffff;
}

/* The first byte from P on that MASK_OF marks, or the end. */
#define SC_SCAN_RUN(S, P, MASK_OF, STOPS) \
	do { \
		unsigned mask_; \
		while ((S)->end - (P) >= 16) { \
			mask_ = MASK_OF(P); \
			if (mask_) \
				return (P) + __builtin_ctz(mask_); \
			(P) += 16; \
		} \
		if ((P) < (S)->end && (S)->end - (S)->start >= 16) { \
			mask_ = MASK_OF((S)->end - 16) >> (16 - ((S)->end - (P))); \
			return mask_ ? (P) + __builtin_ctz(mask_) : (S)->end; \
		} \
		while ((P) < (S)->end && !(STOPS)) \
			(P)++; \
		return (P); \
	} while (0)
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static inline uint64_t sc_scan_load(const char *p)
{
	uint64_t x;

	memcpy(&x, p, 8);
	return x;
}

#define SC_SCAN_ONES 0x0101010101010101ull
#define SC_SCAN_HIGH 0x8080808080808080ull
/* The lowest marked byte is exact (borrows only run upwards), which is all that is asked. */
static inline uint64_t sc_scan_below(uint64_t x, unsigned char limit)
{
	return (x - SC_SCAN_ONES * limit) & ~x & SC_SCAN_HIGH;
}

static inline uint64_t sc_scan_stops(const char *p)
{
	uint64_t x = sc_scan_load(p);

	return sc_scan_below(x, 0x20) | (x & SC_SCAN_HIGH) |
	       sc_scan_below(x ^ SC_SCAN_ONES * '"', 1) | sc_scan_below(x ^ SC_SCAN_ONES * '\\', 1);
}

static inline uint64_t sc_scan_no_digits(const char *p)
{
	uint64_t x = sc_scan_load(p);
	/* '0'..'9' are the bytes whose high half is 3 before and after adding 6 */
	uint64_t half = SC_SCAN_ONES * 0xf0, three = SC_SCAN_ONES * 0x30;
	uint64_t plus = (x & ~SC_SCAN_HIGH) + SC_SCAN_ONES * 6;
	uint64_t off = ((x & half) ^ three) | ((plus & half) ^ three);

	off |= off >> 4;
	off = (off & SC_SCAN_ONES * 0x0f);
	return (off + SC_SCAN_ONES * 0x7f) & SC_SCAN_HIGH;
}

#define SC_SCAN_RUN(S, P, MASK_OF, STOPS) \
	do { \
		while ((S)->end - (P) >= 8) { \
			uint64_t mask_ = MASK_OF(P); \
			if (mask_) \
				return (P) + __builtin_ctzll(mask_) / 8; \
			(P) += 8; \
		} \
		while ((P) < (S)->end && !(STOPS)) \
			(P)++; \
		return (P); \
	} while (0)
#else
#define SC_SCAN_RUN(S, P, MASK_OF, STOPS) \
	do { \
		while ((P) < (S)->end && !(STOPS)) \
			(P)++; \
		return (P); \
	} while (0)
#endif

static inline const char *sc_scan_plain(const struct sc_scan *s, const char *p)
{
	SC_SCAN_RUN(s, p, sc_scan_stops,
		    *p == '"' || *p == '\\' || (unsigned char)(*p - 0x20) >= 0x60);
}

static inline const char *sc_scan_digits(const struct sc_scan *s, const char *p)
{
	SC_SCAN_RUN(s, p, sc_scan_no_digits, !sc_scan_is_digit(*p));
}

/* P is after the opening quote; returns what follows the closing one. */
static inline const char *sc_scan_string(struct sc_scan *s, const char *p)
{
	p = sc_scan_plain(s, p);
	if (p < s->end && *p == '"')
		return p + 1;
	return sc_scan_string_rest(s, p);
}

/* P is at '-' or a digit. */
static inline const char *sc_scan_number(struct sc_scan *s, const char *p,
					 enum sc_json_kind *ret_kind)
{
	if (*p == '-')
		p++;
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	if (*p == '0') {
		p++;
		if (p < s->end && sc_scan_is_digit(*p))
			return sc_scan_fail(s, SC_FAULT_ZERO, p - 1);
	} else if (sc_scan_is_digit(*p)) {
		p = sc_scan_digits(s, p + 1);
	} else {
		return sc_scan_fail(s, SC_FAULT_DIGIT, p);
	}
	*ret_kind = SC_JSON_INTEGER;
	if (p < s->end && *p == '.') {
		*ret_kind = SC_JSON_NUMBER;
		if (p + 1 < s->end && sc_scan_is_digit(p[1])) {
			p = sc_scan_digits(s, p + 2);
			if (p == s->end || (*p | 0x20) != 'e')
				return p;
		}
		return sc_scan_number_tail(s, p);
	}
	if (p < s->end && (*p | 0x20) == 'e') {
		*ret_kind = SC_JSON_NUMBER;
		return sc_scan_number_tail(s, p);
	}
	return p;
}

/* Any value that begins at P (not at the end, no white space before it). */
static inline const char *sc_scan_value(struct sc_scan *s, const char *p,
					enum sc_json_kind *ret_kind)
{
	if (*p == '"') {
		*ret_kind = SC_JSON_STRING;
		return sc_scan_string(s, p + 1);
	}
	if (*p == '-' || sc_scan_is_digit(*p))
		return sc_scan_number(s, p, ret_kind);
	if (*p == '{' || *p == '[') {
		*ret_kind = *p == '{' ? SC_JSON_OBJECT : SC_JSON_ARRAY;
		return sc_scan_nested(s, p);
	}
	return sc_scan_literal(s, p, ret_kind);
}

#endif
