/*
 * segment_stats.c: least and greatest value and number of nulls of each column.
 *
 * Rows come as a log stores them: the columns in order, no white space, checked when they were
 * appended. So values are only told apart here, and checked again only where a file that somebody
 * made up could do harm: before they are unescaped, and before they become a bound. A row of
 * another form makes everything unknown rather than wrong. Integers are compared as integers,
 * numbers as doubles, strings by their characters' UTF-8, of which STRING_MAX bytes are kept.
 */
#include <stdlib.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/segment_internal.h"

#define STRING_MAX 64
#define NUMBER_MAX 32

struct text {
	char data[STRING_MAX];
	uint8_t len;
	bool longer; /* than what is kept */
};

struct bound {
	union {
		int64_t integer; /* and boolean */
		double number;
	} as;
	struct text text; /* of a string: its characters; of a number: as it was spelled */
};

struct column {
	enum sc_column_type type;
	struct sc_span key, name;
	bool any;
	uint64_t nulls;
	struct bound min, max;
};

struct sc_segment_stats {
	bool unknown;
	size_t count;
	struct sc_bytes plain; /* a string without its escapes */
	struct column columns[];
};

struct sc_segment_stats *sc_segment_stats_new(const struct sc_schema *schema)
{
	size_t count = schema ? sc_schema_count(schema) : 0;
	struct sc_segment_stats *stats = sc_calloc(1,
						   sizeof(*stats) + count * sizeof(struct column));

	if (!stats)
		return NULL;
	stats->count = count;
	stats->unknown = count == 0;
	sc_bytes_init(&stats->plain, SC_MESSAGE_MAX);
	for (size_t i = 0; i < count; i++) {
		const struct sc_column *column = sc_schema_column(schema, i);

		stats->columns[i].type = column->type;
		stats->columns[i].key = column->key;
		stats->columns[i].name = column->name;
	}
	return stats;
}

void sc_segment_stats_free(struct sc_segment_stats *stats)
{
	if (!stats)
		return;
	sc_bytes_done(&stats->plain);
	free(stats);
}

/* The value at P: where it ends, or NULL. *RET_ESCAPES: a string has some. */
static const char *pass_value(const char *p, const char *end, bool *ret_escapes)
{
	*ret_escapes = false;
	if (p < end && *p == '"') {
		for (p++; p < end && *p != '"'; p++) {
			if (*p == '\\') {
				*ret_escapes = true;
				p++;
			}
		}
		return p < end ? p + 1 : NULL;
	}
	while (p < end && *p != ',' && *p != '}')
		p++;
	return p < end ? p : NULL;
}

static int compare_text(const struct text *a, const struct text *b)
{
	size_t len = a->len < b->len ? a->len : b->len;
	int rc = len ? memcmp(a->data, b->data, len) : 0;

	if (rc)
		return rc;
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return (int)a->longer - (int)b->longer;
}

static void keep(struct text *text, struct sc_span from, size_t max)
{
	text->longer = from.len > max;
	text->len = (uint8_t)(text->longer ? max : from.len);
	if (text->len)
		memcpy(text->data, from.data, text->len);
}

static bool is_json(struct sc_span value)
{
	struct sc_json json;

	return sc_json_scan(value, &json, NULL) == 0;
}

/* 1; 0: it is no string; SC_E_NOMEM */
static int string_row(struct sc_segment_stats *stats, struct column *c, struct sc_span value,
		      bool escapes)
{
	struct sc_span chars = sc_span(value.data + 1, value.len - 2);
	bool least, greatest;
	struct text text;

	if (escapes && !is_json(value))
		return 0;
	if (escapes) {
		sc_bytes_clear(&stats->plain);
		if (sc_json_unescape(value, &stats->plain) < 0)
			return SC_E_NOMEM;
		chars = sc_span(stats->plain.data, stats->plain.len);
	}
	keep(&text, chars, STRING_MAX);
	least = !c->any || compare_text(&text, &c->min.text) < 0;
	greatest = !c->any || compare_text(&text, &c->max.text) > 0;
	if ((least || greatest) && !escapes && !is_json(value))
		return 0;
	if (least)
		c->min.text = text;
	if (greatest)
		c->max.text = text;
	c->any = true;
	return 1;
}

/* Digits and a point, at most 15 that count: mantissa and power are exact, so one division rounds
 * right. */
static bool quick_double(struct sc_span text, double *ret_value)
{
	static const double powers[] = { 1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
					 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15 };
	size_t i = text.data[0] == '-', digits = 0, after = 0;
	uint64_t mantissa = 0;
	bool point = false;

	if (text.len - i > 16)
		return false;
	for (; i < text.len; i++) {
		char c = text.data[i];

		if (c == '.' && !point) {
			point = true;
			continue;
		}
		if (c < '0' || c > '9' || ++digits > 15)
			return false;
		mantissa = mantissa * 10 + (uint64_t)(c - '0');
		after += point;
	}
	*ret_value = (double)mantissa / powers[after];
	if (text.data[0] == '-')
		*ret_value = -*ret_value;
	return digits > 0;
}

static bool read_double(struct sc_span text, double *ret_value)
{
	if (quick_double(text, ret_value))
		return true;
	for (size_t i = 0; i < text.len; i++)
		if (!memchr("0123456789+-.eE", text.data[i], 15))
			return false;
	/* what follows a value in a row, a comma or a brace, ends the number */
	*ret_value = strtod(text.data, NULL);
	return true;
}

static bool number_row(struct column *c, struct sc_span value)
{
	bool least, greatest;
	double number;

	if (!read_double(value, &number))
		return false;
	least = !c->any || number < c->min.as.number;
	greatest = !c->any || number > c->max.as.number;
	if ((least || greatest) && !is_json(value))
		return false;
	if (least) {
		c->min.as.number = number;
		keep(&c->min.text, value, NUMBER_MAX);
	}
	if (greatest) {
		c->max.as.number = number;
		keep(&c->max.text, value, NUMBER_MAX);
	}
	c->any = true;
	return true;
}

static void integer_row(struct column *c, int64_t value)
{
	if (!c->any || value < c->min.as.integer)
		c->min.as.integer = value;
	if (!c->any || value > c->max.as.integer)
		c->max.as.integer = value;
	c->any = true;
}

/* 1; 0: no such value is in such a column; SC_E_NOMEM */
static int value_row(struct sc_segment_stats *stats, struct column *c, struct sc_span value,
		     bool escapes)
{
	int64_t integer;

	if (sc_span_is(value, "null")) {
		c->nulls++;
		return 1;
	}
	switch (c->type) {
	case SC_COL_STRING:
		if (value.len < 2 || value.data[0] != '"')
			return 0;
		return string_row(stats, c, value, escapes);
	case SC_COL_DOUBLE:
	case SC_COL_FLOAT:
		return value.len && number_row(c, value);
	case SC_COL_BOOL:
		if (!sc_span_is(value, "true") && !sc_span_is(value, "false"))
			return 0;
		integer_row(c, value.data[0] == 't');
		return 1;
	default:
		if (!sc_i64_parse(value, &integer))
			return 0;
		integer_row(c, integer);
		return 1;
	}
}

int sc_segment_stats_row(struct sc_segment_stats *stats, struct sc_span msg)
{
	const char *p = msg.data, *end = p + msg.len;

	for (size_t i = 0; i < stats->count && !stats->unknown; i++) {
		struct column *c = &stats->columns[i];
		const char *value, *behind;
		bool escapes;
		int rc = 0;

		/* '{' or ',', then the key with its quotes and colon */
		if ((size_t)(end - p) <= c->key.len || *p != (i ? ',' : '{') ||
		    memcmp(p + 1, c->key.data, c->key.len) != 0) {
			stats->unknown = true;
			break;
		}
		value = p + 1 + c->key.len;
		behind = pass_value(value, end, &escapes);
		if (behind)
			rc = value_row(stats, c, sc_span(value, (size_t)(behind - value)), escapes);
		if (rc < 0)
			return rc;
		stats->unknown = rc == 0;
		p = behind;
	}
	if (!stats->unknown && (end - p != 1 || *p != '}'))
		stats->unknown = true;
	return 0;
}

/* Whole characters of what is kept: the cut may have gone through one. */
static size_t whole_characters(const struct text *text)
{
	size_t start = text->len, need;
	unsigned char lead;

	while (start && ((unsigned char)text->data[start - 1] & 0xc0) == 0x80)
		start--;
	if (!start)
		return 0;
	lead = (unsigned char)text->data[--start];
	need = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
	return start + need > text->len ? start : text->len;
}

/* A cut string is an object, so that nobody takes it for the value. */
static int put_string(const struct text *text, struct sc_bytes *out)
{
	int rc;

	if (!text->longer)
		return sc_json_put_string(sc_span(text->data, text->len), out);
	rc = sc_bytes_puts(out, "{\"prefix\":");
	if (rc == 0)
		rc = sc_json_put_string(sc_span(text->data, whole_characters(text)), out);
	return rc < 0 ? rc : sc_bytes_putc(out, '}');
}

static int put_bound(const struct column *c, const struct bound *bound, struct sc_bytes *out)
{
	if (!c->any)
		return sc_bytes_puts(out, "null");
	switch (c->type) {
	case SC_COL_STRING:
		return put_string(&bound->text, out);
	case SC_COL_DOUBLE:
	case SC_COL_FLOAT:
		if (!bound->text.longer)
			return sc_bytes_put(out, bound->text.data, bound->text.len);
		return sc_bytes_putf(out, "%.17g", bound->as.number);
	case SC_COL_BOOL:
		return sc_bytes_puts(out, bound->as.integer ? "true" : "false");
	default:
		return sc_bytes_put_i64(out, bound->as.integer);
	}
}

int sc_segment_stats_put(const struct sc_segment_stats *stats, struct sc_bytes *out)
{
	int rc = 0;

	if (stats->unknown)
		return sc_bytes_puts(out, "null");
	for (size_t i = 0; rc == 0 && i < stats->count; i++) {
		const struct column *c = &stats->columns[i];

		rc = sc_bytes_puts(out, i ? ",\n[" : "[[");
		if (rc == 0)
			rc = sc_json_put_string(c->name, out);
		if (rc == 0)
			rc = sc_bytes_putc(out, ',');
		if (rc == 0)
			rc = put_bound(c, &c->min, out);
		if (rc == 0)
			rc = sc_bytes_putc(out, ',');
		if (rc == 0)
			rc = put_bound(c, &c->max, out);
		if (rc == 0)
			rc = sc_bytes_putf(out, ",%llu]", (unsigned long long)c->nulls);
	}
	return rc < 0 ? rc : sc_bytes_putc(out, ']');
}
