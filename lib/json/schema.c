/* json/schema.c: a schema read, refused in words, and published. */
#include "json/schema.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/schema_internal.h"

#define TRIED "cannot use schema"
#define TEXT_MAX (16u << 20)

/* How much of a name goes into a message. */
#define NAME_SHOWN(name) (int)((name).len < 100 ? (name).len : 100), (name).data

/* Types as a schema spells them; the first of a type is what an absent format means. */
static const struct pair {
	const char *type, *format;
	enum sc_column_type column;
} pairs[] = {
	{ "boolean", NULL, SC_COL_BOOL },     { "integer", "int64", SC_COL_INT64 },
	{ "integer", "int32", SC_COL_INT32 }, { "number", "double", SC_COL_DOUBLE },
	{ "number", "float", SC_COL_FLOAT },  { "string", NULL, SC_COL_STRING },
};
#define PAIR_COUNT (sizeof(pairs) / sizeof(pairs[0]))

static const struct pair *pair_of(enum sc_column_type type)
{
	const struct pair *p = pairs;

	while (p->column != type)
		p++;
	return p;
}

const char *sc_column_type_name(enum sc_column_type type)
{
	return pair_of(type)->type;
}

const char *sc_column_format_name(enum sc_column_type type)
{
	return pair_of(type)->format;
}

bool sc_name_is_reserved(struct sc_span name)
{
	return sc_span_is(name, "litelink_offset") || sc_span_is(name, "streamcast_ts");
}

/* What is known of a column while the schema is read. */
struct draft {
	size_t name_at, name_len; /* in names */
	struct sc_json spec;
	bool required;
	bool nullable;
	enum sc_column_type type;
};

struct drafts {
	struct draft *items;
	size_t count, cap;
	struct sc_bytes names;
};

static struct sc_span draft_name(const struct drafts *d, size_t index)
{
	return sc_span(d->names.data + d->items[index].name_at, d->items[index].name_len);
}

static size_t draft_find(const struct drafts *d, struct sc_span raw)
{
	size_t i = 0;

	while (i < d->count && !sc_json_key_is(raw, draft_name(d, i)))
		i++;
	return i;
}

static int draft_add(struct drafts *d, struct sc_span raw_key, const struct sc_json *spec,
		     struct sc_err *err)
{
	size_t at = draft_find(d, raw_key);

	/* A repeated key: its last value, in the place of the first. */
	if (at < d->count) {
		d->items[at].spec = *spec;
		return 0;
	}
	if (d->count == SC_SCHEMA_COLUMNS_MAX)
		return sc_err_set(err, SC_E_CONFIG, TRIED, "it has more than %d columns",
				  SC_SCHEMA_COLUMNS_MAX);
	if (d->count == d->cap) {
		size_t cap = d->cap ? d->cap * 2 : 16;
		struct draft *grown = sc_realloc(d->items, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, TRIED);
		d->items = grown;
		d->cap = cap;
	}
	d->items[d->count] = (struct draft){ .name_at = d->names.len, .spec = *spec };
	/* An empty name needs memory to point at, too. */
	if (sc_bytes_reserve(&d->names, 1) < 0 || sc_json_unescape(raw_key, &d->names) < 0)
		return sc_err_nomem(err, TRIED);
	d->items[d->count].name_len = d->names.len - d->items[d->count].name_at;
	d->count++;
	return 0;
}

static int read_properties(const struct sc_json *schema, struct drafts *d, struct sc_err *err)
{
	struct sc_json type, properties, spec;
	struct sc_json_walk walk;
	struct sc_span key;
	int rc = 0;

	if (schema->kind != SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_CONFIG, TRIED,
				  "a stream's schema is an object schema, and this is %s",
				  sc_json_kind_name(schema->kind));
	if (sc_json_get(schema, "type", &type) &&
	    (type.kind != SC_JSON_STRING || !sc_json_key_is(type.text, SC_SPAN("object"))))
		return sc_err_set(
			err, SC_E_CONFIG, TRIED,
			"a stream's schema is an object schema, and this one has type %.*s",
			NAME_SHOWN(type.text));
	if (!sc_json_get(schema, "properties", &properties) || properties.kind != SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_CONFIG, TRIED,
				  "it needs a non-empty properties object: the columns");
	sc_json_walk_init(&walk, &properties);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &spec))
		rc = draft_add(d, key, &spec, err);
	if (rc == 0 && d->count == 0)
		return sc_err_set(err, SC_E_CONFIG, TRIED,
				  "it needs a non-empty properties object: the columns");
	return rc;
}

static int read_required(const struct sc_json *schema, struct drafts *d, struct sc_err *err)
{
	struct sc_json required, item;
	struct sc_json_walk walk;
	struct sc_bytes unknown;
	size_t at;
	int rc = 0;

	if (!sc_json_get(schema, "required", &required))
		return 0;
	if (required.kind != SC_JSON_ARRAY)
		return sc_err_set(err, SC_E_CONFIG, TRIED,
				  "required is a list of names, and this is %s",
				  sc_json_kind_name(required.kind));
	sc_bytes_init(&unknown, 2000);
	sc_json_walk_init(&walk, &required);
	while (sc_json_walk_next(&walk, NULL, &item)) {
		if (item.kind != SC_JSON_STRING) {
			rc = sc_err_set(err, SC_E_CONFIG, TRIED,
					"required is a list of names, and it holds %s",
					sc_json_kind_name(item.kind));
			goto out;
		}
		at = draft_find(d, item.text);
		if (at < d->count)
			d->items[at].required = true;
		else if (unknown.len + item.text.len + 2 <= unknown.max)
			rc = sc_bytes_putf(&unknown, "%s%.*s", unknown.len ? ", " : "",
					   (int)item.text.len, item.text.data);
		if (rc < 0) {
			rc = sc_err_nomem(err, TRIED);
			goto out;
		}
	}
	if (unknown.len) {
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "required names columns that are not declared: %.*s", (int)unknown.len,
			   unknown.data);
		rc = sc_err_next(
			err,
			"a typo there would silently make a column nullable, so it is refused");
	}
out:
	sc_bytes_done(&unknown);
	return rc;
}

static int refuse_column(struct sc_err *err, struct sc_span name, const char *reason,
			 const char *next)
{
	sc_err_set(err, SC_E_CONFIG, TRIED, "column '%.*s': %s", NAME_SHOWN(name), reason);
	return next ? sc_err_next(err, "%s", next) : SC_E_CONFIG;
}

/* "T", ["T"] or ["T","null"], in any order: the raw text of T, and whether null is there. */
static int read_type(const struct draft *d, struct sc_span name, struct sc_span *ret_type,
		     bool *ret_null, struct sc_err *err)
{
	struct sc_json type, item;
	struct sc_json_walk walk;
	size_t types = 0;

	if (d->spec.kind != SC_JSON_OBJECT) {
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "column '%.*s': expected a schema object, found %s", NAME_SHOWN(name),
			   sc_json_kind_name(d->spec.kind));
		return SC_E_CONFIG;
	}
	if (!sc_json_get(&d->spec, "type", &type))
		return refuse_column(err, name, "missing type", NULL);
	*ret_null = false;
	*ret_type = type.text;
	if (type.kind == SC_JSON_STRING && !sc_json_key_is(type.text, SC_SPAN("null")))
		return 0;
	if (type.kind == SC_JSON_ARRAY) {
		sc_json_walk_init(&walk, &type);
		while (sc_json_walk_next(&walk, NULL, &item)) {
			if (item.kind != SC_JSON_STRING)
				return refuse_column(
					err, name,
					"a list of types holds something that is no name", NULL);
			if (sc_json_key_is(item.text, SC_SPAN("null"))) {
				*ret_null = true;
			} else {
				*ret_type = item.text;
				types++;
			}
		}
		if (types == 1)
			return 0;
		if (types > 1)
			return refuse_column(err, name, "a union is not a column",
					     "give one type, and optionally null");
		if (!*ret_null)
			return refuse_column(err, name, "missing type: the list is empty", NULL);
	} else if (type.kind != SC_JSON_STRING) {
		return refuse_column(err, name, "type is a name, or a list of one and null", NULL);
	}
	return refuse_column(err, name, "null alone carries nothing", "give it a type");
}

static int refuse_pair(struct sc_err *err, struct sc_span name, struct sc_span type,
		       const struct sc_json *format)
{
	sc_err_set(err, SC_E_CONFIG, TRIED, "column '%.*s': type %.*s%s%.*s is not a column type",
		   NAME_SHOWN(name), (int)(type.len < 60 ? type.len : 60), type.data,
		   format ? " with format " : "",
		   format ? (int)(format->text.len < 60 ? format->text.len : 60) : 0,
		   format ? format->text.data : "");
	return sc_err_next(err, "the types are boolean, integer, number and string; the formats "
				"int64 and int32 of an "
				"integer, double and float of a number");
}

static int read_column_type(struct draft *d, struct sc_span name, struct sc_span type,
			    struct sc_err *err)
{
	static const char *const times[] = { "date-time", "date", "time" };
	static const char *const blobs[] = { "byte", "binary" };
	struct sc_json format;
	bool formatted = sc_json_get(&d->spec, "format", &format) && format.kind != SC_JSON_NULL;

	if (sc_json_key_is(type, SC_SPAN("object")) || sc_json_key_is(type, SC_SPAN("array")))
		return refuse_column(err, name, "objects and arrays are not columns",
				     "flatten it, or send it as a JSON string");
	if (formatted && format.kind == SC_JSON_STRING) {
		for (size_t i = 0; i < 3; i++) {
			if (sc_json_key_is(format.text, sc_span_str(times[i])))
				return refuse_column(err, name, "dates and times are not stored",
						     "store epoch integers");
		}
		for (size_t i = 0; i < 2; i++) {
			if (sc_json_key_is(format.text, sc_span_str(blobs[i])))
				return refuse_column(err, name, "bytes are not stored",
						     "use a string");
		}
	}
	for (size_t i = 0; i < PAIR_COUNT; i++) {
		if (!sc_json_key_is(type, sc_span_str(pairs[i].type)))
			continue;
		if (formatted && (format.kind != SC_JSON_STRING || !pairs[i].format ||
				  !sc_json_key_is(format.text, sc_span_str(pairs[i].format))))
			continue;
		d->type = pairs[i].column;
		return 0;
	}
	return refuse_pair(err, name, type, formatted ? &format : NULL);
}

static int read_column(struct draft *d, struct sc_span name, struct sc_err *err)
{
	struct sc_span type;
	int rc;

	if (sc_name_is_reserved(name))
		return refuse_column(err, name, "the name is the system's", "choose another name");
	rc = read_type(d, name, &type, &d->nullable, err);
	if (rc == 0)
		rc = read_column_type(d, name, type, err);
	if (rc == 0 && !d->required && !d->nullable)
		return refuse_column(err, name, "it is neither required nor nullable",
				     "add it to required, or add null to its type");
	return rc;
}

static int publish_column(struct sc_bytes *text, const struct sc_column *c)
{
	const char *type = sc_column_type_name(c->type), *format = sc_column_format_name(c->type);
	int rc = sc_bytes_putf(
		text, c->nullable ? "{\"type\":[\"%s\",\"null\"]" : "{\"type\":\"%s\"", type);

	if (rc == 0 && format)
		rc = sc_bytes_putf(text, ",\"format\":\"%s\"", format);
	return rc < 0 ? rc : sc_bytes_putc(text, '}');
}

/* Writes the published form; each column's key becomes a part of it, once the text no longer
 * moves. */
static int publish(struct sc_schema *s)
{
	struct sc_bytes *text = &s->text;
	size_t listed = 0;
	int rc = sc_bytes_puts(text, "{\"type\":\"object\",\"properties\":{");

	for (size_t i = 0; rc == 0 && i < s->count; i++) {
		struct sc_column *c = &s->columns[i];
		size_t at;

		if (i > 0)
			rc = sc_bytes_putc(text, ',');
		at = text->len;
		if (rc == 0)
			rc = sc_json_put_string(c->name, text);
		if (rc == 0)
			rc = sc_bytes_putc(text, ':');
		c->key.len = text->len - at;
		if (rc == 0)
			rc = publish_column(text, c);
	}
	if (rc == 0)
		rc = sc_bytes_puts(text, "},\"required\":[");
	for (size_t i = 0; rc == 0 && i < s->count; i++) {
		if (s->columns[i].nullable)
			continue;
		if (listed++)
			rc = sc_bytes_putc(text, ',');
		if (rc == 0)
			rc = sc_json_put_string(s->columns[i].name, text);
	}
	if (rc == 0)
		rc = sc_bytes_puts(text, "]}");
	if (rc == 0) {
		const char *at = text->data + strlen("{\"type\":\"object\",\"properties\":{");

		s->frame_size = 2 + s->count - 1;
		for (size_t i = 0; i < s->count; i++) {
			/* the key, then "{...}" and a comma */
			s->columns[i].key.data = at;
			s->frame_size += s->columns[i].key.len;
			at += s->columns[i].key.len;
			at = (const char *)memchr(at, '}', (size_t)(text->data + text->len - at)) +
			     2;
		}
	}
	return rc;
}

static size_t hash(struct sc_span name)
{
	uint64_t h = name.len * 0x9e3779b97f4a7c15ull, word;
	size_t i = 0;

	for (; i + 8 <= name.len; i += 8) {
		memcpy(&word, name.data + i, 8);
		h = (h ^ word) * 0xff51afd7ed558ccdull;
		h ^= h >> 32;
	}
	for (word = 0; i < name.len; i++)
		word = word << 8 | (unsigned char)name.data[i];
	h = (h ^ word) * 0xff51afd7ed558ccdull;
	return (size_t)(h ^ h >> 32);
}

static int index_columns(struct sc_schema *s)
{
	size_t size = 2;

	while (size < 2 * s->count)
		size *= 2;
	s->slots = sc_calloc(size, sizeof(*s->slots));
	if (!s->slots)
		return SC_E_NOMEM;
	s->slot_mask = size - 1;
	for (size_t i = 0; i < s->count; i++) {
		size_t at = hash(s->columns[i].name) & s->slot_mask;

		while (s->slots[at])
			at = (at + 1) & s->slot_mask;
		s->slots[at] = (uint16_t)(i + 1);
	}
	return 0;
}

int sc_schema_find(const struct sc_schema *schema, struct sc_span name)
{
	size_t at = hash(name) & schema->slot_mask;

	for (; schema->slots[at]; at = (at + 1) & schema->slot_mask) {
		struct sc_span column = schema->columns[schema->slots[at] - 1].name;

		if (column.len == name.len &&
		    (!name.len || memcmp(column.data, name.data, name.len) == 0))
			return schema->slots[at] - 1;
	}
	return -1;
}

/* The finished schema takes the names over from the drafts. */
static int build(struct drafts *d, struct sc_schema **ret_schema)
{
	struct sc_schema *s = sc_calloc(1, sizeof(*s));

	if (!s)
		return SC_E_NOMEM;
	sc_bytes_init(&s->text, TEXT_MAX * 8ul);
	s->columns = sc_calloc(d->count, sizeof(*s->columns));
	if (!s->columns) {
		sc_schema_free(s);
		return SC_E_NOMEM;
	}
	s->count = d->count;
	for (size_t i = 0; i < s->count; i++) {
		s->columns[i].name = draft_name(d, i);
		s->columns[i].type = d->items[i].type;
		s->columns[i].nullable = d->items[i].nullable;
	}
	s->names = d->names;
	sc_bytes_init(&d->names, 0);
	if (publish(s) < 0 || index_columns(s) < 0) {
		sc_schema_free(s);
		return SC_E_NOMEM;
	}
	*ret_schema = s;
	return 0;
}

int sc_schema_parse(struct sc_span text, struct sc_schema **ret_schema, struct sc_err *err)
{
	struct drafts d = { 0 };
	struct sc_json schema;
	struct sc_err why = { 0 };
	int rc;

	if (text.len > TEXT_MAX)
		return sc_err_set(err, SC_E_CONFIG, TRIED, "it is longer than %u bytes", TEXT_MAX);
	if (sc_json_scan(text, &schema, &why) < 0)
		return sc_err_set(err, SC_E_CONFIG, TRIED, "%s", why.reason);
	sc_bytes_init(&d.names, TEXT_MAX + 1ul);
	rc = read_properties(&schema, &d, err);
	if (rc == 0)
		rc = read_required(&schema, &d, err);
	for (size_t i = 0; rc == 0 && i < d.count; i++)
		rc = read_column(&d.items[i], draft_name(&d, i), err);
	if (rc == 0 && build(&d, ret_schema) < 0)
		rc = sc_err_nomem(err, TRIED);
	free(d.items);
	sc_bytes_done(&d.names);
	return rc;
}

void sc_schema_free(struct sc_schema *schema)
{
	if (!schema)
		return;
	free(schema->columns);
	free(schema->slots);
	sc_bytes_done(&schema->text);
	sc_bytes_done(&schema->names);
	free(schema);
}

size_t sc_schema_count(const struct sc_schema *schema)
{
	return schema->count;
}

const struct sc_column *sc_schema_column(const struct sc_schema *schema, size_t index)
{
	return &schema->columns[index];
}

struct sc_span sc_schema_text(const struct sc_schema *schema)
{
	return sc_span(schema->text.data, schema->text.len);
}

/* "ts int64, price double or null": as much as fits. */
static void describe(const struct sc_schema *s, char *ret_text, size_t size)
{
	size_t len = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < s->count && len < size; i++) {
		const struct sc_column *c = &s->columns[i];
		const char *type = sc_column_word(c->type);
		int n;

		n = snprintf(ret_text + len, size - len, "%s%.*s %s%s", i ? ", " : "",
			     NAME_SHOWN(c->name), type, c->nullable ? " or null" : "");
		len += n > 0 ? (size_t)n : 0;
	}
	if (len >= size)
		memcpy(ret_text + size - 4, "...", 4);
}

int sc_schema_same(const struct sc_schema *a, const struct sc_schema *b, struct sc_err *err)
{
	char list_a[130], list_b[130];
	size_t i = 0;

	for (; i < a->count && i < b->count; i++) {
		const struct sc_column *x = &a->columns[i], *y = &b->columns[i];

		if (x->type != y->type || x->nullable != y->nullable || x->key.len != y->key.len ||
		    memcmp(x->key.data, y->key.data, x->key.len) != 0)
			break;
	}
	if (i == a->count && i == b->count)
		return 0;
	describe(a, list_a, sizeof(list_a));
	describe(b, list_b, sizeof(list_b));
	sc_err_set(err, SC_E_CONFIG, TRIED, "its columns are (%s) and should be (%s)", list_b,
		   list_a);
	return sc_err_next(
		err,
		"the first difference is in column %zu; names, types, nulls and order must agree",
		i + 1);
}
