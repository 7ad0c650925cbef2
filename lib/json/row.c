/* json/row.c: one row checked against a schema and projected, in one pass over its bytes. */
#include "json/schema.h"

#include <stdint.h>

#include "json/number_internal.h"
#include "json/schema_internal.h"

#define TRIED "cannot take row"
#define NO_COLUMN SIZE_MAX

/* P is at a quote. Is it KEY, with its quotes and colon, to the byte? KEY has 16 readable bytes
 * after its start. */
static inline bool key_matches(const char *p, const char *end, struct sc_span key)
{
	if ((size_t)(end - p) < key.len)
		return false;
#ifdef SC_SCAN_SSE2
	if (key.len <= 16 && end - p >= 16) {
		__m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i y = _mm_loadu_si128((const __m128i *)(const void *)key.data);
		unsigned differ = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y)) ^ 0xffff;

		return (differ & ((1u << key.len) - 1)) == 0;
	}
#endif
	return memcmp(p, key.data, key.len) == 0;
}

/* Which column a raw key names; escapes resolved. A key that is longer than any name could be is no
 * column. */
static size_t find_column(const struct sc_schema *schema, struct sc_span raw)
{
	char plain[1024];
	int index;

	if (raw.len && memchr(raw.data, '\\', raw.len)) {
		struct sc_bytes name = { .data = plain,
					 .cap = sizeof(plain),
					 .max = sizeof(plain) };

		/* rare and long: compare with each name in place */
		if (raw.len > sizeof(plain)) {
			for (size_t i = 0; i < schema->count; i++) {
				if (sc_json_key_is(raw, schema->columns[i].name))
					return i;
			}
			return NO_COLUMN;
		}
		/* what is unescaped is never longer, so it fits and the buffer is never grown */
		if (sc_json_unescape(raw, &name) < 0)
			return NO_COLUMN;
		raw = sc_span(plain, name.len);
	}
	index = sc_schema_find(schema, raw);
	return index < 0 ? NO_COLUMN : (size_t)index;
}

/* Not the key that was expected: scan it, pass the colon, find the column. P is at the quote. */
static const char *scan_other_key(const struct sc_schema *schema, struct sc_scan *s, const char *p,
				  size_t *ret_column)
{
	struct sc_span raw = { .data = p + 1 };

	p = sc_scan_string(s, p + 1);
	if (!p)
		return NULL;
	raw.len = (size_t)(p - 1 - raw.data);
	p = sc_scan_blanks(s, p);
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	if (*p != ':')
		return sc_scan_fail(s, SC_FAULT_COLON, p);
	*ret_column = find_column(schema, raw);
	return p + 1;
}

/*
 * Rows of one writer have their keys in one order, whichever it is: for each place the column that
 * was there last time is tried first, then the one that follows in the schema.
 */
#define PLACES 64
static _Thread_local uint16_t last_seen[PLACES];

/* P is at the quote of the row's key number PLACE, NEXT is the column after the last; returns where
 * the value may be. */
static inline const char *scan_key(const struct sc_schema *schema, struct sc_scan *s, const char *p,
				   size_t place, size_t next, size_t *ret_column)
{
	size_t guess = place < PLACES ? last_seen[place] : next;

	if (guess < schema->count && key_matches(p, s->end, schema->columns[guess].key)) {
		*ret_column = guess;
		return p + schema->columns[guess].key.len;
	}
	if (next < schema->count && key_matches(p, s->end, schema->columns[next].key)) {
		*ret_column = next;
		p += schema->columns[next].key.len;
	} else {
		s->blanks = true; /* the key may be spelled in another way than the log spells it */
		p = scan_other_key(schema, s, p, ret_column);
	}
	if (place < PLACES && *ret_column != NO_COLUMN)
		last_seen[place] = (uint16_t)*ret_column;
	return p;
}

/* The members of a row whose brace P is behind; returns what follows the closing brace. */
static const char *scan_members(const struct sc_schema *schema, struct sc_row *row, const char *p)
{
	struct sc_scan *s = &row->scan;
	size_t place = 0, column = NO_COLUMN;
	enum sc_json_kind kind;
	bool in_order = true;

	p = sc_scan_blanks(s, p);
	if (p < s->end && *p == '}')
		return p + 1;
	for (;; p++, place++) {
		const char *value;

		p = sc_scan_blanks(s, p);
		if (p == s->end)
			return sc_scan_fail(s, SC_FAULT_END, p);
		if (*p != '"')
			return sc_scan_fail(s, SC_FAULT_KEY, p);
		p = scan_key(schema, s, p, place, column + 1, &column);
		if (!p)
			return NULL;
		in_order &= column == place;
		p = sc_scan_blanks(s, p);
		if (p == s->end)
			return sc_scan_fail(s, SC_FAULT_END, p);
		value = p;
		p = sc_scan_value(s, p, &kind);
		if (column == NO_COLUMN) {
			if (!p)
				return NULL;
			row->unknown = true;
		} else {
			if (!p) {
				row->column = &schema->columns[column];
				return NULL;
			}
			row->kind[column] = (uint8_t)kind;
			row->value[column] = sc_span(value, (size_t)(p - value));
		}
		p = sc_scan_blanks(s, p);
		if (p == s->end)
			return sc_scan_fail(s, SC_FAULT_END, p);
		if (*p == ',')
			continue;
		if (*p != '}')
			return sc_scan_fail(s, SC_FAULT_COMMA, p);
		row->as_stored = in_order && place + 1 == schema->count && !s->blanks;
		return p + 1;
	}
}

/* The whole text: one object and white space around it. */
static int scan_row(const struct sc_schema *schema, struct sc_row *row, struct sc_err *err)
{
	struct sc_scan *s = &row->scan;
	const char *p = sc_scan_blanks(s, s->start), *start = p;

	if (p == s->end || *p != '{')
		goto other;
	s->blanks = false;
	s->depth = 1;
	p = scan_members(schema, row, p + 1);
	if (!p)
		return sc_scan_err(s, TRIED, row->column ? &row->column->name : NULL, err);
	row->whole = (struct sc_json){ .kind = SC_JSON_OBJECT,
				       .text = sc_span(start, (size_t)(p - start)) };
	p = sc_scan_blanks(s, p);
	if (p == s->end)
		return 0;
	sc_scan_fail(s, SC_FAULT_AFTER, p);
	return sc_scan_err(s, TRIED, NULL, err);
other:
	if (sc_json_scan_as(TRIED, sc_span(s->start, (size_t)(s->end - s->start)), &row->whole,
			    err) < 0)
		return SC_E_DATA;
	return sc_err_set(err, SC_E_DATA, TRIED, "a row is a JSON object, and this is %s",
			  sc_json_kind_name(row->whole.kind));
}

bool sc_row_value_fits(enum sc_column_type type, enum sc_json_kind kind, struct sc_span value)
{
	struct sc_json json = { .kind = kind, .text = value };
	int64_t integer;

	switch (type) {
	case SC_COL_BOOL:
		return kind == SC_JSON_TRUE || kind == SC_JSON_FALSE;
	case SC_COL_STRING:
		return kind == SC_JSON_STRING;
	case SC_COL_INT64:
		return kind == SC_JSON_INTEGER && (value.len <= 18 || sc_json_i64(&json, &integer));
	case SC_COL_INT32:
		return kind == SC_JSON_INTEGER &&
		       (value.len <= 9 || (sc_json_i64(&json, &integer) && integer >= INT32_MIN &&
					   integer <= INT32_MAX));
	case SC_COL_DOUBLE:
		if (kind == SC_JSON_INTEGER)
			return value.len <= 15 || sc_number_within(value, SC_NUMBER_2_53);
		return kind == SC_JSON_NUMBER && sc_number_fits_double(value);
	case SC_COL_FLOAT:
		if (kind == SC_JSON_INTEGER)
			return value.len <= 7 || sc_number_within(value, SC_NUMBER_2_24);
		return kind == SC_JSON_NUMBER && sc_number_fits_float(value);
	}
	return false;
}

/* Every column's value suits it. *ret_size: of the row as it is stored. */
static inline bool row_fits(const struct sc_schema *schema, const struct sc_row *row,
			    size_t *ret_size)
{
	bool exponents = row->scan.exponents;
	size_t size = schema->frame_size;

	for (size_t i = 0; i < schema->count; i++) {
		const struct sc_column *c = &schema->columns[i];
		struct sc_span value = row->value[i];
		uint8_t kind = row->kind[i];

		if (kind == SC_ROW_ABSENT || kind == SC_JSON_NULL) {
			if (!c->nullable)
				return false;
			size += 4;
			continue;
		}
		size += value.len;
		/* without an exponent, short digits are in range */
		if (kind == SC_JSON_NUMBER &&
		    (c->type == SC_COL_DOUBLE || c->type == SC_COL_FLOAT) && value.len <= 36 &&
		    !exponents)
			continue;
		if (!sc_row_value_fits(c->type, kind, value))
			return false;
	}
	*ret_size = size;
	return true;
}

#define COPY_SLACK 16

/* LEN bytes; short ones as 16 when that many can be read, which TO has room for. */
static inline char *put_span(char *to, struct sc_span span, size_t readable)
{
	if (span.len <= COPY_SLACK && readable >= COPY_SLACK)
		memcpy(to, span.data, COPY_SLACK);
	else
		memcpy(to, span.data, span.len);
	return to + span.len;
}

/* TO has COPY_SLACK bytes more than the row needs, if SLACK. */
static void put_row(const struct sc_schema *schema, const struct sc_row *row, char *to, bool slack)
{
	*to++ = '{';
	for (size_t i = 0; i < schema->count; i++) {
		struct sc_span value = row->value[i];

		if (i > 0)
			*to++ = ',';
		/* more than 16 bytes of the schema's text follow the start of each key */
		to = put_span(to, schema->columns[i].key, slack ? COPY_SLACK : 0);
		if (row->kind[i] == SC_ROW_ABSENT)
			to = put_span(to, SC_SPAN("null"), 0);
		else
			to = put_span(to, value, slack ? (size_t)(row->scan.end - value.data) : 0);
	}
	*to = '}';
}

static int no_room(const struct sc_bytes *out, size_t size, struct sc_err *err)
{
	if (!out->full)
		return sc_err_nomem(err, TRIED);
	return sc_err_set(err, SC_E_NOMEM, TRIED,
			  "its %zu bytes are more than the limit leaves room for", size);
}

int sc_row_project(const struct sc_schema *schema, struct sc_span text, struct sc_bytes *out,
		   struct sc_err *err)
{
	struct sc_row row;
	size_t size;

	if (!schema) {
		if (sc_json_scan_as(TRIED, text, &row.whole, err) < 0)
			return SC_E_DATA;
		if (sc_json_put_line(&row.whole, out) < 0)
			return no_room(out, row.whole.text.len, err);
		return 0;
	}
	sc_scan_init(&row.scan, text);
	row.as_stored = row.unknown = false;
	row.column = NULL;
	memset(row.kind, SC_ROW_ABSENT, schema->count);
	if (scan_row(schema, &row, err) < 0)
		return SC_E_DATA;
	if (row.unknown || !row_fits(schema, &row, &size))
		return sc_row_refuse(schema, &row, err);
	if (row.as_stored) {
		if (sc_bytes_put(out, row.whole.text.data, row.whole.text.len) < 0)
			return no_room(out, row.whole.text.len, err);
		return 0;
	}
	if (sc_bytes_reserve(out, size) < 0)
		return no_room(out, size, err);
	put_row(schema, &row, out->data + out->len, out->cap - out->len >= size + COPY_SLACK);
	out->len += size;
	return 0;
}
