/* text.c: the small texts of Durable Streams. */
#include "durable/text.h"

#include <stdio.h>
#include <string.h>

#define OFFSET_DIGITS 16
#define CURSOR_EPOCH_US 1728432000000000ll /* 2024-10-09T00:00:00Z */
#define CURSOR_STEP_US 20000000ll
#define CURSOR_JITTER_MAX 180u
#define CURSOR_DIGITS_MAX 15

static bool digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct sc_span trim(struct sc_span s)
{
	while (s.len && blank(s.data[0])) {
		s.data++;
		s.len--;
	}
	while (s.len && blank(s.data[s.len - 1]))
		s.len--;
	return s;
}

void sc_ds_offset_format(uint64_t position, char ret_text[SC_DS_OFFSET_TEXT])
{
	memset(ret_text, '0', SC_DS_OFFSET_LEN);
	ret_text[OFFSET_DIGITS] = '_';
	ret_text[SC_DS_OFFSET_LEN] = 0;
	for (char *at = ret_text + SC_DS_OFFSET_LEN; position && at > ret_text; position /= 10)
		if (*--at != '_')
			*at = (char)('0' + position % 10);
}

bool sc_ds_offset_parse(struct sc_span text, enum sc_ds_offset_kind *ret_kind,
			uint64_t *ret_position)
{
	uint64_t position = 0;

	if (!text.data)
		return false;
	if (sc_span_is(text, "-1") || sc_span_is(text, "now")) {
		*ret_kind = text.data[0] == '-' ? SC_DS_OFFSET_START : SC_DS_OFFSET_NOW;
		*ret_position = 0;
		return true;
	}
	if (text.len != SC_DS_OFFSET_LEN || text.data[OFFSET_DIGITS] != '_')
		return false;
	for (size_t i = 0; i < SC_DS_OFFSET_LEN; i++) {
		char c = text.data[i];

		if (i == OFFSET_DIGITS)
			continue;
		if (!digit(c) || (i < OFFSET_DIGITS && c != '0'))
			return false;
		position = position * 10 + (uint64_t)(c - '0');
	}
	*ret_kind = SC_DS_OFFSET_AT;
	*ret_position = position;
	return true;
}

/* "0", or digits that do not begin with it; CUT when there are too many of them for MAX. */
static bool plain_number(struct sc_span text, uint64_t max, uint64_t *ret_number, bool *ret_cut)
{
	uint64_t number = 0;

	*ret_cut = false;
	if (!sc_ds_filled(text) || (text.data[0] == '0' && text.len > 1))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (!digit(text.data[i]))
			return false;
		if (!*ret_cut)
			number = number * 10 + (uint64_t)(text.data[i] - '0');
		*ret_cut |= number > max;
	}
	*ret_number = *ret_cut ? max : number;
	return true;
}

bool sc_ds_ttl_parse(struct sc_span text, uint64_t *ret_seconds)
{
	bool cut;

	return plain_number(text, SC_DS_TTL_MAX, ret_seconds, &cut);
}

bool sc_ds_count_parse(struct sc_span text, uint64_t *ret_count)
{
	uint64_t count;
	bool cut;

	/* the largest that stays countable when one more digit was added on the way */
	if (!plain_number(text, (uint64_t)INT64_MAX / 10, &count, &cut) || cut)
		return false;
	*ret_count = count;
	return true;
}

bool sc_ds_producer_number(struct sc_span text, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (!sc_ds_filled(text))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (!digit(text.data[i]))
			return false;
		number = number * 10 + (uint64_t)(text.data[i] - '0');
		if (number > SC_DS_PRODUCER_MAX)
			return false;
	}
	*ret_number = number;
	return true;
}

bool sc_ds_is_true(struct sc_span text)
{
	static const char word[] = "true";

	if (!text.data || text.len != sizeof(word) - 1)
		return false;
	for (size_t i = 0; i < text.len; i++)
		if (lower(text.data[i]) != word[i])
			return false;
	return true;
}

/* COUNT digits at *AT, which moves behind them. */
static bool take(struct sc_span *at, size_t count, int *ret_number)
{
	int number = 0;

	if (at->len < count)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!digit(at->data[i]))
			return false;
		number = number * 10 + (at->data[i] - '0');
	}
	at->data += count;
	at->len -= count;
	*ret_number = number;
	return true;
}

static bool take_char(struct sc_span *at, const char *any)
{
	if (!at->len || !at->data[0] || !strchr(any, at->data[0]))
		return false;
	at->data++;
	at->len--;
	return true;
}

/* Days from 1970-01-01 on, in the Gregorian calendar carried to both sides. */
static int64_t days_of(int year, int month, int day)
{
	int64_t y = month <= 2 ? year - 1 : year, era = (y >= 0 ? y : y - 399) / 400;
	int64_t of_era = y - era * 400;
	int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static bool date_valid(int year, int month, int day)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return month >= 1 && month <= 12 && day >= 1 &&
	       day <= days[month - 1] + (month == 2 && leap);
}

/* ".5": at least one digit, cut to us. */
static bool take_fraction(struct sc_span *at, int *ret_us)
{
	int us = 0, unit = 100000, count = 0;

	if (!take_char(at, ".")) {
		*ret_us = 0;
		return true;
	}
	for (; at->len && digit(at->data[0]); count++, unit /= 10) {
		us += (at->data[0] - '0') * unit;
		at->data++;
		at->len--;
	}
	*ret_us = us;
	return count > 0;
}

/* Z, or +HH:MM: minutes east. */
static bool take_zone(struct sc_span *at, int *ret_minutes)
{
	bool west;
	int hours, minutes;

	if (take_char(at, "Zz")) {
		*ret_minutes = 0;
		return true;
	}
	west = at->len && at->data[0] == '-';
	if (!take_char(at, "+-") || !take(at, 2, &hours) || !take_char(at, ":") ||
	    !take(at, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*ret_minutes = (west ? -1 : 1) * (hours * 60 + minutes);
	return true;
}

bool sc_ds_time_parse(struct sc_span text, int64_t *ret_us)
{
	int year, month, day, hour, minute, second, us, zone;
	int64_t seconds;

	if (!text.data || !take(&text, 4, &year) || !take_char(&text, "-") ||
	    !take(&text, 2, &month) || !take_char(&text, "-") || !take(&text, 2, &day) ||
	    !take_char(&text, "Tt") || !take(&text, 2, &hour) || !take_char(&text, ":") ||
	    !take(&text, 2, &minute) || !take_char(&text, ":") || !take(&text, 2, &second) ||
	    !take_fraction(&text, &us) || !take_zone(&text, &zone) || text.len)
		return false;
	/* 60 is a leap second: the first moment after it */
	if (!date_valid(year, month, day) || hour > 23 || minute > 59 || second > 60)
		return false;
	seconds = days_of(year, month, day) * 86400 + hour * 3600 + minute * 60 + second -
		  zone * 60;
	*ret_us = seconds * 1000000 + us;
	return true;
}

/* The reverse of days_of. */
static void date_of(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
	int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t of_era = z - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int64_t month = (5 * of_year + 2) / 153;

	*ret_day = (int)(of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (int)(month < 10 ? month + 3 : month - 9);
	*ret_year = year + era * 400 + (*ret_month <= 2);
}

void sc_ds_time_format(int64_t us, char ret_text[SC_DS_TIME_TEXT])
{
	int64_t seconds = us / 1000000 - (us % 1000000 < 0), days = seconds / 86400, year;
	int rest, month, day;

	if (seconds % 86400 < 0)
		days--;
	rest = (int)(seconds - days * 86400);
	date_of(days, &year, &month, &day);
	/* what the parser takes has four digits, but for a zone at either end of the time */
	if (year > 9999)
		snprintf(ret_text, SC_DS_TIME_TEXT, "9999-12-31T23:59:59Z");
	else if (year < 0)
		snprintf(ret_text, SC_DS_TIME_TEXT, "0000-01-01T00:00:00Z");
	else
		snprintf(ret_text, SC_DS_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02uZ",
			 (unsigned)year % 10000, (unsigned)month % 100, (unsigned)day % 100,
			 (unsigned)rest / 3600 % 100, (unsigned)rest / 60 % 60,
			 (unsigned)rest % 60);
}

static struct sc_span essence(struct sc_span type)
{
	const char *end = type.len ? memchr(type.data, ';', type.len) : NULL;

	if (end)
		type.len = (size_t)(end - type.data);
	return trim(type);
}

bool sc_ds_type_same(struct sc_span a, struct sc_span b)
{
	a = essence(a);
	b = essence(b);
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (lower(a.data[i]) != lower(b.data[i]))
			return false;
	return true;
}

bool sc_ds_type_is_json(struct sc_span type)
{
	return sc_ds_type_same(type, SC_SPAN("application/json"));
}

bool sc_ds_type_is_text(struct sc_span type)
{
	struct sc_span word = essence(type);

	if (word.len > 5)
		word.len = 5;
	return sc_ds_type_same(word, SC_SPAN("text/")) || sc_ds_type_is_json(type);
}

bool sc_ds_value_clean(struct sc_span value)
{
	for (size_t i = 0; i < value.len; i++) {
		unsigned char c = (unsigned char)value.data[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

void sc_ds_etag_format(uint64_t sid, uint64_t start, uint64_t end, bool closed,
		       char ret_text[SC_DS_ETAG_TEXT])
{
	snprintf(ret_text, SC_DS_ETAG_TEXT, "\"%llx:%llu:%llu%s\"", (unsigned long long)sid,
		 (unsigned long long)start, (unsigned long long)end, closed ? ":c" : "");
}

bool sc_ds_etag_matches(struct sc_span list, const char *etag)
{
	struct sc_span want = sc_span_str(etag), at = trim(list);

	if (!sc_ds_filled(list) || !want.len)
		return false;
	if (sc_span_is(at, "*"))
		return true;
	while (at.len) {
		const char *end;

		if (blank(at.data[0]) || at.data[0] == ',') {
			at = sc_span(at.data + 1, at.len - 1);
			continue;
		}
		if (at.len > 2 && at.data[0] == 'W' && at.data[1] == '/')
			at = sc_span(at.data + 2, at.len - 2);
		end = at.data[0] == '"' ? memchr(at.data + 1, '"', at.len - 1) : NULL;
		if (!end)
			return false; /* not a list of tags: nothing in it can be told apart */
		end++;
		if ((size_t)(end - at.data) == want.len && !memcmp(at.data, want.data, want.len))
			return true;
		at = sc_span(end, at.len - (size_t)(end - at.data));
	}
	return false;
}

void sc_ds_cursor_next(struct sc_span client, int64_t now_us, uint64_t jitter,
		       char ret_text[SC_DS_CURSOR_TEXT])
{
	uint64_t interval = 0, theirs = 0;
	size_t len;

	if (now_us > CURSOR_EPOCH_US)
		interval = (uint64_t)((now_us - CURSOR_EPOCH_US) / CURSOR_STEP_US);
	if (sc_ds_filled(client) && client.len <= CURSOR_DIGITS_MAX &&
	    sc_u64_parse(client, &theirs) && theirs >= interval)
		interval = theirs + 1 + jitter % CURSOR_JITTER_MAX;
	len = sc_u64_digits(ret_text, interval);
	ret_text[len] = 0;
}

bool sc_ds_path_valid(struct sc_span path)
{
	return path.data && path.len > 1 && path.len <= SC_DS_PATH_MAX && path.data[0] == '/';
}

struct sc_span sc_ds_path_group(struct sc_span path)
{
	for (size_t i = 0; i + 1 < path.len; i++)
		if (path.data[i] == '/' && path.data[i + 1] == '.')
			return sc_span(path.data, i);
	return path;
}
