/* base/parse.c: sizes, durations, times and factors as people write them. */
#include "base/parse.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FRACTION_DIGITS 9
#define FRACTION_ONE 1000000000u
/* In milliseconds: two of them behind the time of day still fit as microseconds. */
#define DURATION_MAX (INT64_MAX / 4000)
#define DURATION_HINT "it must be whole milliseconds, and less than 73000 years"

/* A decimal: whole + nano / 10^9. */
struct decimal {
	uint64_t whole;
	uint32_t nano;
	bool cut; /* digits beyond the ninth were not zero */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits, perhaps a point and digits. Moves *TEXT behind them; false when there are none or they
 * overflow. */
static bool take_decimal(const char **text, struct decimal *ret)
{
	const char *at = *text, *start = at;
	struct decimal d = { 0 };

	while (is_digit(*at))
		at++;
	if (!sc_u64_parse(sc_span(start, (size_t)(at - start)), &d.whole))
		return false;
	if (*at == '.') {
		uint32_t scale = FRACTION_ONE / 10;

		if (!is_digit(*++at))
			return false;
		for (; is_digit(*at); at++, scale /= 10) {
			d.nano += (uint32_t)(*at - '0') * scale;
			if (scale == 0 && *at != '0')
				d.cut = true;
		}
	}
	*text = at;
	*ret = d;
	return true;
}

/* DECIMAL * UNIT as a whole number that fits in MAX. */
static bool multiply(const struct decimal *d, uint64_t unit, uint64_t max, uint64_t *ret)
{
	unsigned __int128 whole = (unsigned __int128)d->whole * unit;
	unsigned __int128 part = (unsigned __int128)d->nano * unit;

	if (d->cut || part % FRACTION_ONE != 0)
		return false;
	whole += part / FRACTION_ONE;
	if (whole > max)
		return false;
	*ret = (uint64_t)whole;
	return true;
}

static int refuse(struct sc_err *err, const char *what, const char *text, const char *next)
{
	sc_err_set(err, SC_E_USAGE, "cannot read", "'%s' is not %s", text, what);
	sc_err_next(err, "%s", next);
	return SC_E_USAGE;
}

static bool size_unit(const char *unit, uint64_t *ret)
{
	static const char letters[] = "KMGTP";
	const char *letter;
	uint64_t base = 1024, value = 1;

	if (*unit == '\0' || strcasecmp(unit, "B") == 0) {
		*ret = 1;
		return true;
	}
	letter = strchr(letters, toupper((unsigned char)*unit));
	if (letter == NULL)
		return false;
	if (strcasecmp(unit + 1, "B") == 0)
		base = 1000;
	else if (unit[1] != '\0' && strcasecmp(unit + 1, "iB") != 0)
		return false;
	for (long i = letter - letters; i >= 0; i--)
		value *= base;
	*ret = value;
	return true;
}

int sc_parse_size(const char *text, uint64_t *ret_bytes, struct sc_err *err)
{
	const char *at = text;
	struct decimal d;
	uint64_t unit, bytes;

	if (!take_decimal(&at, &d))
		return refuse(err, "a size", text, "write bytes or a unit, as 1000, 64K or 8MiB");
	while (*at == ' ')
		at++;
	if (!size_unit(at, &unit))
		return refuse(err, "a size", text,
			      "units are B, K, M, G, T, P (1024), KB, MB, ... (1000)");
	if (!multiply(&d, unit, UINT64_MAX, &bytes))
		return refuse(err, "a size", text,
			      "it must be a whole number of bytes below 16 EiB");
	*ret_bytes = bytes;
	return 0;
}

struct time_unit {
	const char *names[5];
	uint64_t ms;
};

static const struct time_unit time_units[] = {
	{ { "w", "week", "weeks" }, 604800000 },
	{ { "d", "day", "days" }, 86400000 },
	{ { "h", "hour", "hours" }, 3600000 },
	{ { "m", "min", "minute", "minutes" }, 60000 },
	{ { "s", "sec", "second", "seconds" }, 1000 },
	{ { "ms", "millisecond", "milliseconds" }, 1 },
};
#define TIME_UNITS (sizeof(time_units) / sizeof(time_units[0]))

static size_t find_time_unit(const char *name, size_t len)
{
	for (size_t u = 0; u < TIME_UNITS; u++)
		for (size_t n = 0; n < 5 && time_units[u].names[n]; n++)
			if (strlen(time_units[u].names[n]) == len &&
			    memcmp(time_units[u].names[n], name, len) == 0)
				return u;
	return TIME_UNITS;
}

static const char *skip_blanks(const char *at)
{
	while (*at == ' ')
		at++;
	return at;
}

/*
 * "1h30m": numbers with units, each smaller than the one before. Ends at the text's end or, when
 * AGO, before that word. NULL on success, else what to do.
 */
static const char *take_duration(const char *text, bool ago, int64_t *ret_ms)
{
	const char *at = text;
	uint64_t sum = 0, part;
	size_t last = TIME_UNITS, u;

	for (;;) {
		struct decimal d;
		size_t len = 0;

		if (!take_decimal(&at, &d))
			return "write a number and a unit, as 250ms, 30s, 5m, 1h30m or 7d";
		at = skip_blanks(at);
		while (isalpha((unsigned char)at[len]))
			len++;
		u = find_time_unit(at, len);
		if (u == TIME_UNITS)
			return "units are w, d, h, m, s and ms";
		if (last != TIME_UNITS && u <= last)
			return "write the larger unit first, each once, as 1h30m";
		if (!multiply(&d, time_units[u].ms, DURATION_MAX, &part) ||
		    part > DURATION_MAX - sum)
			return DURATION_HINT;
		sum += part;
		last = u;
		at = skip_blanks(at + len);
		if (*at == '\0' || (ago && strcmp(at, "ago") == 0))
			break;
	}
	*ret_ms = (int64_t)sum;
	return NULL;
}

int sc_parse_duration(const char *text, int64_t *ret_ms, struct sc_err *err)
{
	const char *at = text, *next;
	struct decimal d;
	uint64_t ms;

	if (take_decimal(&at, &d) && *at == '\0') {
		if (!multiply(&d, 1000, DURATION_MAX, &ms))
			return refuse(err, "a duration", text, DURATION_HINT);
		*ret_ms = (int64_t)ms;
		return 0;
	}
	next = take_duration(text, false, ret_ms);
	return next ? refuse(err, "a duration", text, next) : 0;
}

int sc_parse_factor(const char *text, double *ret_factor, struct sc_err *err)
{
	const char *at = text;
	struct decimal d;

	if (!take_decimal(&at, &d) || (*at != '\0' && strcasecmp(at, "x") != 0) ||
	    (d.whole == 0 && d.nano == 0))
		return refuse(err, "a factor above 0", text, "write it as 2, 0.5 or 10x");
	*ret_factor = (double)d.whole + (double)d.nano / FRACTION_ONE;
	return 0;
}

/* COUNT digits as a number. */
static bool take_digits(const char **text, int count, int *ret)
{
	int value = 0;

	for (int i = 0; i < count; i++) {
		if (!is_digit((*text)[i]))
			return false;
		value = value * 10 + ((*text)[i] - '0');
	}
	*text += count;
	*ret = value;
	return true;
}

static bool take_char(const char **text, char c)
{
	if (**text != c)
		return false;
	++*text;
	return true;
}

static int month_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month == 2 && leap ? 29 : days[month - 1];
}

/* Days from 1970-01-01 of a date in the proleptic Gregorian calendar; eras of 400 years that begin
 * in March. */
static int64_t days_of(int year, int month, int day)
{
	int64_t y = year - (month <= 2);
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t in_era = y - era * 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

/* ".123456789": to the microsecond, further digits are cut. */
static bool take_fraction(const char **text, int64_t *ret_us)
{
	int64_t us = 0, scale = 100000;

	if (!is_digit(**text))
		return false;
	for (; is_digit(**text); ++*text, scale /= 10)
		us += (**text - '0') * scale;
	*ret_us = us;
	return true;
}

/* "Z", "+01:00": minutes east of UTC. */
static bool take_zone(const char **text, int *ret_minutes)
{
	int sign = **text == '-' ? -1 : 1, hours, minutes;

	if (take_char(text, 'Z') || take_char(text, 'z')) {
		*ret_minutes = 0;
		return true;
	}
	if (!take_char(text, '+') && !take_char(text, '-'))
		return false;
	if (!take_digits(text, 2, &hours) || !take_char(text, ':') ||
	    !take_digits(text, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_minutes = sign * (hours * 60 + minutes);
	return true;
}

#define TIME_NEXT \
	"write it as 2026-11-30T12:00:00Z, epoch seconds or milliseconds, 'now', or '10m' for " \
	"ten minutes ago"

/* RFC 3339, 5.6. NULL on success, else what to do. */
static const char *take_rfc3339(const char *at, int64_t *ret_us)
{
	int year, month, day, hour = 0, minute = 0, second = 0, zone = 0;
	int64_t us = 0, seconds;

	if (!take_digits(&at, 4, &year) || !take_char(&at, '-') || !take_digits(&at, 2, &month) ||
	    !take_char(&at, '-') || !take_digits(&at, 2, &day))
		return TIME_NEXT;
	if (month < 1 || month > 12 || day < 1 || day > month_days(year, month))
		return "there is no such day";
	if (*at != '\0') {
		if (*at != 'T' && *at != 't' && *at != ' ')
			return TIME_NEXT;
		at++;
		if (!take_digits(&at, 2, &hour) || !take_char(&at, ':') ||
		    !take_digits(&at, 2, &minute) || !take_char(&at, ':') ||
		    !take_digits(&at, 2, &second))
			return TIME_NEXT;
		if (take_char(&at, '.') && !take_fraction(&at, &us))
			return TIME_NEXT;
		if (hour > 23 || minute > 59 || second > 60)
			return "there is no such time of day";
		if (*at == '\0')
			return "it has no zone: add Z for UTC, or the distance from UTC as +01:00";
		if (!take_zone(&at, &zone) || *at != '\0')
			return "the zone must be Z or a distance from UTC as +01:00, at the end";
	}
	seconds = days_of(year, month, day) * 86400 + hour * 3600 + (minute - zone) * 60 + second;
	/* A leap second ends a UTC day, and shares its number with the first second of the next. */
	if (second == 60 && seconds % 86400 != 0)
		return "second 60 is only at the end of a UTC day";
	*ret_us = seconds * 1000000 + us;
	return NULL;
}

/* Seconds up to 11 digits (the year 5138), milliseconds up to 14, microseconds above. */
static bool take_epoch(const char *text, int64_t *ret_us)
{
	struct decimal d;
	uint64_t unit, us;

	if (!take_decimal(&text, &d) || *text != '\0')
		return false;
	if (d.whole < 100000000000u)
		unit = 1000000;
	else if (d.whole < 100000000000000u)
		unit = 1000;
	else
		unit = 1;
	/* A finer fraction than a microsecond is cut, as in RFC 3339 times. */
	d.cut = false;
	d.nano -= d.nano % (uint32_t)(FRACTION_ONE / unit);
	if (!multiply(&d, unit, INT64_MAX, &us))
		return false;
	*ret_us = (int64_t)us;
	return true;
}

int sc_parse_time(const char *text, int64_t now_us, int64_t *ret_us, struct sc_err *err)
{
	const char *next = TIME_NEXT;
	int64_t ms;
	size_t digits = strspn(text, "0123456789");

	if (strcmp(text, "now") == 0) {
		*ret_us = now_us;
		return 0;
	}
	if (digits == 4 && text[4] == '-') {
		next = take_rfc3339(text, ret_us);
	} else if (digits > 0) {
		if (text[digits] == '\0' || text[strspn(text, "0123456789.")] == '\0') {
			if (take_epoch(text, ret_us))
				return 0;
		} else {
			next = take_duration(text, true, &ms);
			if (next == NULL)
				*ret_us = now_us - ms * 1000;
		}
	}
	return next ? refuse(err, "a time", text, next) : 0;
}
