/* schema_change.c: one schema behind another: what is different, and what may be. */
#include "json/schema.h"
#include "json/schema_internal.h"

#define TRIED "cannot change the schema of"

/* How much of a name goes into a message. */
#define NAME_SHOWN(name) (int)((name).len < 100 ? (name).len : 100), (name).data

const char *sc_column_word(enum sc_column_type type)
{
	const char *format = sc_column_format_name(type);

	return format ? format : sc_column_type_name(type);
}

static const struct sc_column *find(const struct sc_schema *schema, struct sc_span name)
{
	int at = schema ? sc_schema_find(schema, name) : -1;

	return at < 0 ? NULL : sc_schema_column(schema, (size_t)at);
}

/* The type that the column had, in the newest schema that has it. */
static int check_type(const struct sc_schema *const *before, size_t count,
		      const struct sc_column *column, struct sc_err *err)
{
	for (size_t i = count; i-- > 0;) {
		const struct sc_column *old = find(before[i], column->name);

		if (!old)
			continue;
		if (old->type == column->type)
			return 0;
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "column '%.*s' cannot be %s: it %s %s, and a column keeps its type for "
			   "ever",
			   NAME_SHOWN(column->name), sc_column_word(column->type),
			   i + 1 < count ? "was removed as" : "is", sc_column_word(old->type));
		return sc_err_next(err, "give the new column another name");
	}
	return 0;
}

/* The rows that are there, and writers that know the schema in force only. */
static int check_null(const struct sc_schema *last, const struct sc_column *column,
		      struct sc_err *err)
{
	const struct sc_column *old = find(last, column->name);

	if (!last || column->nullable || (old && !old->nullable))
		return 0;
	if (old) {
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "column '%.*s' could be null so far and cannot be made required: rows "
			   "with null are stored",
			   NAME_SHOWN(column->name));
		return sc_err_next(err, "leave null in its type, or add a column of another name");
	}
	sc_err_set(err, SC_E_CONFIG, TRIED,
		   "column '%.*s' is added and cannot be required: the rows before it have none",
		   NAME_SHOWN(column->name));
	return sc_err_next(err, "add null to its type");
}

int sc_schema_may_follow(const struct sc_schema *const *before, size_t count,
			 const struct sc_schema *next, struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sc_schema_count(next); i++) {
		const struct sc_column *column = sc_schema_column(next, i);

		rc = check_type(before, count, column, err);
		if (rc == 0 && count)
			rc = check_null(before[count - 1], column, err);
	}
	return rc;
}

struct changes {
	size_t count;
	void (*each)(void *arg, const struct sc_schema_change *change);
	void *arg;
};

static void tell(struct changes *c, enum sc_schema_act act, const struct sc_column *column)
{
	struct sc_schema_change change = { act, column };

	c->count++;
	if (c->each)
		c->each(c->arg, &change);
}

/* Do the columns that both have come in the same order? */
static bool same_order(const struct sc_schema *from, const struct sc_schema *next)
{
	int last = -1;

	for (size_t i = 0; i < sc_schema_count(next); i++) {
		int at = sc_schema_find(from, sc_schema_column(next, i)->name);

		if (at < 0)
			continue;
		if (at < last)
			return false;
		last = at;
	}
	return true;
}

size_t sc_schema_changes(const struct sc_schema *from, const struct sc_schema *next,
			 void (*each)(void *arg, const struct sc_schema_change *change), void *arg)
{
	struct changes c = { .each = each, .arg = arg };

	for (size_t i = 0; i < sc_schema_count(next); i++) {
		const struct sc_column *column = sc_schema_column(next, i);
		const struct sc_column *old = find(from, column->name);

		if (!old)
			tell(&c, SC_SCHEMA_ADDED, column);
		else if (column->nullable && !old->nullable)
			tell(&c, SC_SCHEMA_NULLABLE, column);
	}
	for (size_t i = 0; from && i < sc_schema_count(from); i++) {
		const struct sc_column *old = sc_schema_column(from, i);

		if (!find(next, old->name))
			tell(&c, SC_SCHEMA_REMOVED, old);
	}
	if (from && !same_order(from, next))
		tell(&c, SC_SCHEMA_ORDER, NULL);
	return c.count;
}
