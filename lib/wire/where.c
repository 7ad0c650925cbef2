#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/scan.h"
#include "wire/where.h"

#define TERMS_MAX 256u
#define NUMBER_MAX \
	4096u /* characters of a number that are compared; longer ones match only themselves */

static const char tried[] = "cannot use the filter";

enum kind { NONE, WORD, TEXT, INTEGER, REAL };

/* A scalar in the form that makes equal values equal bytes. */
struct value {
	enum kind kind;
	double real;    /* REAL: no integer equals it */
	size_t at, len; /* TEXT: characters; INTEGER: sign and digits; in the filter's store */
};

struct term {
	size_t name_at, name_len;
	size_t first, count; /* values[first .. first + count) */
};

struct sc_where {
	struct sc_bytes store, text;
	struct term *terms;
	size_t term_count;
	struct value *values;
	size_t value_count;
};

/* Characters of VALUE are put at the end of STORE. 0, or a negative code without memory. */
static int canonical(const struct sc_json *json, struct sc_bytes *store, struct value *ret)
{
	char number[NUMBER_MAX + 1];
	struct value v = { .at = store->len };
	int rc = 0;

	switch (json->kind) {
	case SC_JSON_NULL:
		v.kind = WORD;
		break;
	case SC_JSON_TRUE:
	case SC_JSON_FALSE: /* a bool is an int there */
		v.kind = INTEGER;
		rc = sc_bytes_putc(store, json->kind == SC_JSON_TRUE ? '1' : '0');
		break;
	case SC_JSON_STRING:
		v.kind = TEXT;
		rc = sc_json_unescape(json->text, store);
		break;
	case SC_JSON_INTEGER:
		v.kind = INTEGER;
		if (sc_span_is(json->text, "-0"))
			rc = sc_bytes_putc(store, '0');
		else
			rc = sc_bytes_put(store, json->text.data, json->text.len);
		break;
	case SC_JSON_NUMBER:
		v.kind = REAL;
		if (json->text.len > NUMBER_MAX) {
			v.real = NAN;
			break;
		}
		memcpy(number, json->text.data, json->text.len);
		number[json->text.len] = '\0';
		v.real = strtod(number, NULL);
		/* An integral double equals that integer exactly; %.0f prints all of its digits. */
		if (isfinite(v.real) && v.real == floor(v.real)) {
			v.kind = INTEGER;
			snprintf(number, sizeof(number), "%.0f", v.real == 0 ? 0.0 : v.real);
			rc = sc_bytes_puts(store, number);
		}
		break;
	default:
		v.kind = NONE; /* arrays and objects equal no scalar */
	}
	v.len = store->len - v.at;
	*ret = v;
	return rc;
}

static bool equal(const struct value *a, const char *a_store, const struct value *b,
		  const char *b_store)
{
	if (a->kind != b->kind || a->kind == NONE)
		return false;
	if (a->kind == WORD)
		return true;
	if (a->kind == REAL)
		return a->real == b->real;
	return a->len == b->len && (!a->len || !memcmp(a_store + a->at, b_store + b->at, a->len));
}

static int add_value(struct sc_where *w, const struct sc_json *json, struct sc_span name,
		     struct sc_err *err)
{
	int shown = name.len < 100 ? (int)name.len : 100;

	if (json->kind == SC_JSON_ARRAY || json->kind == SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_DATA, tried,
				  "'%.*s' is compared with %s, not with a scalar", shown, name.data,
				  sc_json_kind_name(json->kind));
	if (canonical(json, &w->store, &w->values[w->value_count]) < 0)
		return sc_err_nomem(err, tried);
	w->value_count++;
	return sc_bytes_put(&w->text, json->text.data, json->text.len) < 0
		       ? sc_err_nomem(err, tried)
		       : 0;
}

static int unknown_column(const struct sc_schema *schema, struct sc_span name, struct sc_err *err)
{
	struct sc_bytes list;
	int rc = 0;

	sc_bytes_init(&list, 300);
	for (size_t i = 0; rc == 0 && i < sc_schema_count(schema); i++) {
		struct sc_span column = sc_schema_column(schema, i)->name;

		rc = i ? sc_bytes_puts(&list, ", ") : 0;
		if (rc == 0)
			rc = sc_bytes_put(&list, column.data, column.len);
	}
	sc_err_set(err, SC_E_DATA, tried, "no column '%.*s'; columns: %.*s",
		   name.len < 100 ? (int)name.len : 100, name.data, (int)list.len,
		   list.data ? list.data : "");
	sc_bytes_done(&list);
	return SC_E_DATA;
}

static int add_term(struct sc_where *w, struct sc_span key, const struct sc_json *json,
		    const struct sc_schema *schema, struct sc_err *err)
{
	struct term *t = &w->terms[w->term_count];
	struct sc_json_walk walk;
	struct sc_json item;
	struct sc_span name, none;
	int rc;

	t->name_at = w->store.len;
	if (sc_json_unescape(key, &w->store) < 0 || sc_bytes_putc(&w->store, '\0') < 0 ||
	    sc_bytes_putf(&w->text, "%s\"", w->term_count ? "," : "") < 0 ||
	    sc_bytes_put(&w->text, key.data, key.len) < 0 || sc_bytes_puts(&w->text, "\":") < 0)
		return sc_err_nomem(err, tried);
	t->name_len = w->store.len - 1 - t->name_at;
	name = sc_span(w->store.data + t->name_at, t->name_len);
	if (schema && sc_schema_find(schema, name) < 0)
		return unknown_column(schema, name, err);
	if (memchr(name.data, '\0', name.len))
		return sc_err_set(err, SC_E_DATA, tried, "a name holds U+0000");
	t->first = w->value_count;
	if (json->kind == SC_JSON_ARRAY) {
		bool first = true;

		rc = sc_bytes_putc(&w->text, '[');
		sc_json_walk_init(&walk, json);
		while (rc == 0 && sc_json_walk_next(&walk, &none, &item)) {
			rc = first ? 0 : sc_bytes_putc(&w->text, ',');
			first = false;
			if (rc < 0)
				break;
			rc = add_value(w, &item, key, err);
			if (rc < 0)
				return rc;
		}
		if (rc < 0 || sc_bytes_putc(&w->text, ']') < 0)
			return sc_err_nomem(err, tried);
	} else {
		rc = add_value(w, json, key, err);
		if (rc < 0)
			return rc;
	}
	t->count = w->value_count - t->first;
	if (!t->count)
		return sc_err_set(err, SC_E_DATA, tried, "the list for '%.*s' is empty",
				  key.len < 100 ? (int)key.len : 100, key.data);
	w->term_count++;
	return 0;
}

/* How many terms and values there are room for. */
static size_t count_values(const struct sc_json *object, size_t *ret_terms)
{
	struct sc_json_walk walk, inner;
	struct sc_json member, item;
	struct sc_span key;
	size_t values = 0;

	*ret_terms = 0;
	sc_json_walk_init(&walk, object);
	while (sc_json_walk_next(&walk, &key, &member)) {
		++*ret_terms;
		values++;
		if (member.kind != SC_JSON_ARRAY)
			continue;
		sc_json_walk_init(&inner, &member);
		while (sc_json_walk_next(&inner, &key, &item))
			values++;
	}
	return values;
}

/* Of a repeated key the last counts: is there a later one? */
static bool repeated(struct sc_json_walk walk, struct sc_span key, struct sc_bytes *scratch)
{
	struct sc_json member;
	struct sc_span other;

	sc_bytes_clear(scratch);
	if (sc_json_unescape(key, scratch) < 0)
		return false;
	while (sc_json_walk_next(&walk, &other, &member))
		if (sc_json_key_is(other,
				   sc_span(scratch->data ? scratch->data : "", scratch->len)))
			return true;
	return false;
}

int sc_where_parse(struct sc_span text, const struct sc_schema *schema, struct sc_where **ret_where,
		   struct sc_err *err)
{
	struct sc_json object, member;
	struct sc_json_walk walk;
	struct sc_span key;
	struct sc_bytes scratch;
	struct sc_where *w;
	size_t terms, values;
	int rc = 0;

	if (sc_json_scan(text, &object, NULL) < 0 || object.kind != SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_DATA, tried, "it must be a JSON object");
	values = count_values(&object, &terms);
	if (terms > TERMS_MAX)
		return sc_err_set(err, SC_E_DATA, tried, "it has more than %u columns", TERMS_MAX);
	w = sc_calloc(1, sizeof(*w));
	if (!w)
		return sc_err_nomem(err, tried);
	sc_bytes_init(&w->store, SIZE_MAX);
	sc_bytes_init(&w->text, SIZE_MAX);
	sc_bytes_init(&scratch, SIZE_MAX);
	w->terms = sc_calloc(terms + 1, sizeof(*w->terms));
	w->values = sc_calloc(values + 1, sizeof(*w->values));
	if (!w->terms || !w->values || sc_bytes_putc(&w->text, '{') < 0)
		rc = sc_err_nomem(err, tried);
	sc_json_walk_init(&walk, &object);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &member))
		if (!repeated(walk, key, &scratch))
			rc = add_term(w, key, &member, schema, err);
	if (rc == 0 && sc_bytes_putc(&w->text, '}') < 0)
		rc = sc_err_nomem(err, tried);
	sc_bytes_done(&scratch);
	if (rc < 0) {
		sc_where_free(w);
		return rc;
	}
	*ret_where = w;
	return 0;
}

void sc_where_free(struct sc_where *where)
{
	if (!where)
		return;
	sc_bytes_done(&where->store);
	sc_bytes_done(&where->text);
	free(where->terms);
	free(where->values);
	free(where);
}

struct sc_span sc_where_text(const struct sc_where *where)
{
	return sc_span(where->text.data, where->text.len);
}

/* 1, 0, or a negative code. */
static int term_matches(const struct sc_where *w, const struct term *t, const struct sc_json *row,
			struct sc_bytes *scratch)
{
	static const struct sc_json null = { .kind = SC_JSON_NULL, .text = { "null", 4 } };
	struct sc_json member;
	struct value v;

	if (!sc_json_get(row, w->store.data + t->name_at, &member))
		member = null;
	sc_bytes_clear(scratch);
	if (canonical(&member, scratch, &v) < 0)
		return SC_E_NOMEM;
	for (size_t i = t->first; i < t->first + t->count; i++)
		if (equal(&w->values[i], w->store.data, &v, scratch->data))
			return 1;
	return 0;
}

int sc_where_match(const struct sc_where *where, struct sc_span row)
{
	struct sc_json json = { .kind = SC_JSON_OBJECT, .text = sc_json_trim(row) };
	struct sc_bytes scratch;
	int all = 1;

	if (!where->term_count)
		return 1;
	if (!json.text.len || json.text.data[0] != '{')
		json.kind = SC_JSON_NULL; /* no object: every column is missing */
	sc_bytes_init(&scratch, SIZE_MAX);
	for (size_t i = 0; all > 0 && i < where->term_count; i++)
		all = term_matches(where, &where->terms[i], &json, &scratch);
	sc_bytes_done(&scratch);
	return all;
}
