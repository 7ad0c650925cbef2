/* json/row_refuse.c: the words for rows that do not fit their schema. Nothing here is fast. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/schema_internal.h"

#define TRIED "cannot take row"
#define NAMES_MAX 2048

/* Names for a message, sorted, each once. Those beyond the maximum are left out: the text is cut
 * long before. */
struct names {
	struct sc_span items[NAMES_MAX];
	size_t count;
	struct sc_bytes text; /* of those that had to be unescaped */
};

static int compare(const void *a, const void *b)
{
	const struct sc_span *x = a, *y = b;
	size_t least = x->len < y->len ? x->len : y->len;
	int order = least ? memcmp(x->data, y->data, least) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void names_add(struct names *n, struct sc_span name)
{
	if (n->count < NAMES_MAX)
		n->items[n->count++] = name;
}

static void names_list(struct names *n, char *ret_text, size_t size)
{
	size_t len = 0;

	ret_text[0] = '\0';
	qsort(n->items, n->count, sizeof(n->items[0]), compare);
	for (size_t i = 0; i < n->count && len < size; i++) {
		struct sc_span name = n->items[i];
		int more;

		if (i > 0 && compare(&n->items[i - 1], &name) == 0)
			continue;
		more = snprintf(ret_text + len, size - len, "%s%.*s", len ? ", " : "",
				(int)(name.len < size ? name.len : size), name.data);
		len += more > 0 ? (size_t)more : 0;
	}
	if (len >= size)
		memcpy(ret_text + size - 4, "...", 4);
}

static int refuse_unknown(const struct sc_schema *schema, const struct sc_row *row, struct names *n,
			  struct sc_err *err)
{
	char unknown[200], declared[200];
	struct sc_span key, name, reserved = { 0 };
	struct sc_json_walk walk;
	struct sc_json member;

	sc_bytes_init(&n->text, row->whole.text.len);
	/* as much room as all keys could take, so that names do not move */
	if (sc_bytes_reserve(&n->text, row->whole.text.len) < 0)
		return sc_err_nomem(err, TRIED);
	sc_json_walk_init(&walk, &row->whole);
	while (sc_json_walk_next(&walk, &key, &member)) {
		size_t at = n->text.len;

		if (sc_json_unescape(key, &n->text) < 0)
			continue;
		name = sc_span(n->text.data + at, n->text.len - at);
		if (sc_schema_find(schema, name) >= 0)
			continue;
		names_add(n, name);
		if (sc_name_is_reserved(name))
			reserved = name;
	}
	names_list(n, unknown, sizeof(unknown));
	if (reserved.len)
		return sc_err_set(err, SC_E_DATA, TRIED,
				  "'%.*s' is assigned by the server, and the row brings it",
				  (int)reserved.len, reserved.data);
	n->count = 0;
	for (size_t i = 0; i < schema->count; i++)
		names_add(n, schema->columns[i].name);
	names_list(n, declared, sizeof(declared));
	sc_err_set(err, SC_E_DATA, TRIED, "not columns: %s", unknown);
	return sc_err_next(err, "the columns are: %s", declared);
}

/* Non-nullable columns that are absent or null; 0 if there are none. */
static int refuse_missing(const struct sc_schema *schema, const struct sc_row *row, struct names *n,
			  struct sc_err *err)
{
	char absent[150], null[150];

	n->count = 0;
	for (size_t i = 0; i < schema->count; i++) {
		if (row->kind[i] == SC_ROW_ABSENT && !schema->columns[i].nullable)
			names_add(n, schema->columns[i].name);
	}
	names_list(n, absent, sizeof(absent));
	n->count = 0;
	for (size_t i = 0; i < schema->count; i++) {
		if (row->kind[i] == SC_JSON_NULL && !schema->columns[i].nullable)
			names_add(n, schema->columns[i].name);
	}
	names_list(n, null, sizeof(null));
	if (!absent[0] && !null[0] && n->count == 0)
		return 0;
	if (!null[0] && n->count == 0)
		return sc_err_set(err, SC_E_DATA, TRIED, "required columns are absent: %s", absent);
	if (!absent[0])
		return sc_err_set(err, SC_E_DATA, TRIED, "required columns are null: %s", null);
	return sc_err_set(err, SC_E_DATA, TRIED, "required columns are absent: %s, and null: %s",
			  absent, null);
}

/* How much of a value is shown: whole characters only. */
static int shown(struct sc_span value)
{
	size_t len = value.len;

	if (len <= 60)
		return (int)len;
	for (len = 60; len && ((unsigned char)value.data[len] & 0xc0) == 0x80;)
		len--;
	return (int)len;
}

static int refuse_value(const struct sc_column *c, enum sc_json_kind kind, struct sc_span value,
			struct sc_err *err)
{
	const char *type = sc_column_type_name(c->type), *format = sc_column_format_name(c->type);
	bool number = kind == SC_JSON_INTEGER || kind == SC_JSON_NUMBER;
	bool floats = c->type == SC_COL_DOUBLE || c->type == SC_COL_FLOAT;

	if (floats && kind == SC_JSON_INTEGER) {
		sc_err_set(err, SC_E_DATA, TRIED,
			   "column '%.*s' is a number (%s), and the integer %.*s is beyond %s",
			   shown(c->name), c->name.data, format, shown(value), value.data,
			   c->type == SC_COL_DOUBLE ? "2^53" : "2^24");
		return sc_err_next(
			err, "write it with a fraction or exponent, or make the column an integer");
	}
	if ((floats && number) || (!floats && kind == SC_JSON_INTEGER && format))
		return sc_err_set(err, SC_E_DATA, TRIED,
				  "column '%.*s': %.*s is out of the range of %s %s",
				  shown(c->name), c->name.data, shown(value), value.data,
				  floats ? "a number," : "an integer,", format);
	return sc_err_set(err, SC_E_DATA, TRIED,
			  "column '%.*s': %.*s%s is %s, and the column is %s %s", shown(c->name),
			  c->name.data, shown(value), value.data, value.len > 60 ? "..." : "",
			  sc_json_kind_name(kind),
			  c->type == SC_COL_INT64 || c->type == SC_COL_INT32 ? "an" : "a", type);
}

int sc_row_refuse(const struct sc_schema *schema, const struct sc_row *row, struct sc_err *err)
{
	struct names *n;
	int rc = 0;

	if (!err)
		return SC_E_DATA;
	n = sc_calloc(1, sizeof(*n));
	if (!n)
		return sc_err_nomem(err, TRIED);
	if (row->unknown)
		rc = refuse_unknown(schema, row, n, err);
	if (rc == 0)
		rc = refuse_missing(schema, row, n, err);
	for (size_t i = 0; rc == 0 && i < schema->count; i++) {
		uint8_t kind = row->kind[i];

		if (kind != SC_ROW_ABSENT && kind != SC_JSON_NULL &&
		    !sc_row_value_fits(schema->columns[i].type, kind, row->value[i]))
			rc = refuse_value(&schema->columns[i], kind, row->value[i], err);
	}
	sc_bytes_done(&n->text);
	free(n);
	return rc;
}
