/* json/number.c: decimal numbers of any length, compared exactly. */
#include "json/number_internal.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "json/scan_internal.h"

/* Exponents beyond this are all the same: no text is that long. */
#define EXPONENT_MAX (INT64_C(1) << 60)

static int64_t parse_exponent(const char *p, const char *end)
{
	int64_t value = 0;
	bool negative = *p == '-';

	if (*p == '-' || *p == '+')
		p++;
	for (; p < end; p++) {
		if (value < EXPONENT_MAX / 16)
			value = value * 10 + (*p - '0');
	}
	return negative ? -value : value;
}

struct sc_decimal sc_decimal(struct sc_span number)
{
	struct sc_decimal d = { .zero = true };
	const char *p = number.data, *end = p + number.len, *point = NULL, *first = NULL;

	d.negative = *p == '-';
	if (d.negative)
		p++;
	d.at = p;
	for (; p < end && (*p | 0x20) != 'e'; p++) {
		if (*p == '.')
			point = p;
		else if (*p != '0' && !first)
			first = p;
	}
	d.end = p;
	if (!first)
		return d;
	d.zero = false;
	d.at = first;
	if (!point)
		point = p;
	d.exponent = point > first ? point - first - 1 : point - first;
	if (p < end)
		d.exponent += parse_exponent(p + 1, end);
	return d;
}

/* The digit at *P, which moves on; 0 when the digits are spent. */
static inline char next_digit(const char **p, const char *end)
{
	if (*p < end && **p == '.')
		(*p)++;
	return *p < end ? *(*p)++ : '0';
}

int sc_decimal_cmp_size(const struct sc_decimal *a, const struct sc_decimal *b)
{
	const char *p = a->at, *q = b->at;

	if (a->zero || b->zero)
		return b->zero - a->zero;
	if (a->exponent != b->exponent)
		return a->exponent < b->exponent ? -1 : 1;
	while (p < a->end || q < b->end) {
		char x = next_digit(&p, a->end), y = next_digit(&q, b->end);

		if (x != y)
			return x < y ? -1 : 1;
	}
	return 0;
}

int sc_decimal_cmp(const struct sc_decimal *a, const struct sc_decimal *b)
{
	bool below_a = a->negative && !a->zero, below_b = b->negative && !b->zero;

	if (below_a != below_b)
		return below_a ? -1 : 1;
	return below_a ? sc_decimal_cmp_size(b, a) : sc_decimal_cmp_size(a, b);
}

int sc_decimal_digits(const struct sc_decimal *d, int max)
{
	int count = 0, last = 0;

	for (const char *p = d->at; !d->zero && p < d->end && last <= max; p++) {
		if (*p == '.')
			continue;
		if (count <= max)
			count++;
		if (*p != '0')
			last = count;
	}
	return last;
}

bool sc_decimal_integral(const struct sc_decimal *d)
{
	int64_t place = d->exponent;

	for (const char *p = d->at; !d->zero && p < d->end; p++) {
		if (*p == '.')
			continue;
		if (*p != '0' && place < 0)
			return false;
		place--;
	}
	return true;
}

int sc_decimal_copy(const struct sc_decimal *d, char *ret_digits, int max)
{
	int count = sc_decimal_digits(d, max), at = 0;

	for (const char *p = d->at; at < count && at < max; p++) {
		if (*p != '.')
			ret_digits[at++] = *p;
	}
	return at;
}

bool sc_number_within(struct sc_span number, const char *limit)
{
	struct sc_decimal a = sc_decimal(number), b = sc_decimal(sc_span_str(limit));

	return sc_decimal_cmp_size(&a, &b) <= 0;
}

static bool below(struct sc_span number, const char *limit)
{
	struct sc_decimal a = sc_decimal(number), b = sc_decimal(sc_span_str(limit));

	return sc_decimal_cmp_size(&a, &b) < 0;
}

bool sc_number_fits_double(struct sc_span number)
{
	/* 2^1024 - 2^970, half way from the largest double to the next power: from here on it
	 * rounds up */
	return below(
		number,
		"17976931348623158079372897140530341507993413271003782693617377898044496829276475"
		"09466490179775872070963302864166928879109465555478519404026306574886715058206819"
		"08902000708383676273854845817711531764475730270069855571366959622842914819860834"
		"936475292719074168444365510704342711559699508093042880177904174497792");
}

bool sc_number_fits_float(struct sc_span number)
{
	return below(
		number,
		"340282356779733661637539395458142568448"); /* 2^128 - 2^103, the same of a float */
}

static double to_double(struct sc_span number)
{
	char text[64], *long_text = NULL, *copy = text;
	static locale_t plain;
	double value;

	/* strtod would take the locale's decimal point; made once, and losing a race only costs a
	 * handle */
	if (!plain)
		plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (number.len >= sizeof(text))
		copy = long_text = malloc(number.len + 1);
	if (!copy)
		return NAN;
	memcpy(copy, number.data, number.len);
	copy[number.len] = '\0';
	value = plain ? strtod_l(copy, NULL, plain) : strtod(copy, NULL);
	free(long_text);
	return value;
}

/* VALUE in COUNT digits, and whether they lead back to it. */
static bool round_trip(double value, int count, char *ret_digits)
{
	char text[40];

	snprintf(text, sizeof(text), "%.*e", count - 1, fabs(value));
	ret_digits[0] = text[0];
	if (count > 1)
		memcpy(ret_digits + 1, text + 2, (size_t)count - 1);
	return to_double(sc_span_str(text)) == fabs(value);
}

bool sc_number_exact(struct sc_span number, double *ret_double)
{
	struct sc_decimal d = sc_decimal(number);
	char digits[20], nearest[20];
	double value = to_double(number);
	int count;

	*ret_double = value;
	if (d.zero)
		return true;
	if (isnan(value) || isinf(value) || value == 0)
		return false;
	if (d.exponent >= 15 && sc_decimal_integral(&d) &&
	    !sc_number_within(number, SC_NUMBER_SAFE) &&
	    memchr(number.data, 'e', number.len) == NULL &&
	    memchr(number.data, 'E', number.len) == NULL)
		return false;
	count = sc_decimal_copy(&d, digits, 18);
	if (count <= 15 && d.exponent > -290 && d.exponent < 290)
		return true;
	if (count > 17 || !round_trip(value, count, nearest) ||
	    memcmp(digits, nearest, (size_t)count) != 0)
		return false;
	/* and no shorter digits mean the same double */
	return count == 1 || !round_trip(value, count - 1, nearest);
}
