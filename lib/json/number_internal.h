/*
 * json/number_internal.h: decimal numbers of any length, compared exactly, never through a double.
 *
 * Owns      nothing; a decimal borrows its text.
 * Units     exponents are powers of ten.
 * Errors    none: the texts are JSON numbers, already scanned.
 * Safety    pure.
 * Source    our own; the limits are those of IEEE 754 with rounding to nearest, ties to even.
 */
#ifndef SC_JSON_NUMBER_INTERNAL_H
#define SC_JSON_NUMBER_INTERNAL_H

#include "json/scan.h"

struct sc_decimal {
	const char *at, *end;  /* from the first digit that is not 0 to the end of the digits; a point may be between */
	int64_t exponent;      /* of that first digit */
	bool zero, negative;
};

struct sc_decimal sc_decimal(struct sc_span number);
/* -1, 0 or 1 as A is below, equal to or above B; of the magnitudes alone; -0 equals 0. */
int sc_decimal_cmp(const struct sc_decimal *a, const struct sc_decimal *b);
int sc_decimal_cmp_size(const struct sc_decimal *a, const struct sc_decimal *b);
/* Digits that matter: from the first to the last that is not 0; at most MAX + 1 is counted. */
int sc_decimal_digits(const struct sc_decimal *d, int max);
bool sc_decimal_integral(const struct sc_decimal *d);
/* Copies up to MAX digits that matter, no point; returns how many. */
int sc_decimal_copy(const struct sc_decimal *d, char *ret_digits, int max);

/* |NUMBER| is at most the integer LIMIT (its digits). */
bool sc_number_within(struct sc_span number, const char *limit);
/* NUMBER, read as a double or a float, is not an infinity. */
bool sc_number_fits_double(struct sc_span number);
bool sc_number_fits_float(struct sc_span number);
/*
 * NUMBER is the decimal that a double stands for: the shortest digits of the nearest double are its
 * digits, and it is no integer in plain digits beyond 2^53 - 1 (2^53 is what 2^53 + 1 rounds to).
 * *ret_double is that nearest double in any case (an infinity if it overflows).
 */
bool sc_number_exact(struct sc_span number, double *ret_double);

#define SC_NUMBER_SAFE "9007199254740991"
#define SC_NUMBER_2_53 "9007199254740992"
#define SC_NUMBER_2_24 "16777216"

#endif
