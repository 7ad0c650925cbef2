/*
 * json/schema.h: the schema language of a log, and rows checked and projected against it.
 *
 * Owns      a schema is heap memory until sc_schema_free.
 * Units     none.
 * Errors    SC_E_DATA (row) and SC_E_CONFIG (schema), always naming the column.
 * Safety    a schema does not change after it was read: any number of threads may use it.
 * Source    streamcast-wire 9; man/sc-log.5, "Schema".
 *
 * A repeated key in a schema counts with its last value, in the place of the first. Other keywords
 * are ignored.
 */
#ifndef SC_JSON_SCHEMA_H
#define SC_JSON_SCHEMA_H

#include "base/bytes.h"
#include "base/err.h"
#include "json/scan.h"

#define SC_SCHEMA_COLUMNS_MAX 1024

enum sc_column_type { SC_COL_BOOL, SC_COL_INT64, SC_COL_INT32, SC_COL_DOUBLE, SC_COL_FLOAT, SC_COL_STRING };

struct sc_column {
	struct sc_span name;   /* unescaped */
	struct sc_span key;    /* the key as it is written out, quotes and colon included: "price": */
	enum sc_column_type type;
	bool nullable;
};

struct sc_schema;

int sc_schema_parse(struct sc_span text, struct sc_schema **ret_schema, struct sc_err *err);
void sc_schema_free(struct sc_schema *schema);
size_t sc_schema_count(const struct sc_schema *schema);
const struct sc_column *sc_schema_column(const struct sc_schema *schema, size_t index);
/* -1 if there is none */
int sc_schema_find(const struct sc_schema *schema, struct sc_span name);
/* The published form (streamcast-wire 9.3), the same text always. */
struct sc_span sc_schema_text(const struct sc_schema *schema);
/* B has A's columns, types, nullability and order; else SC_E_CONFIG naming both column lists: B's
 * and what it should be. */
int sc_schema_same(const struct sc_schema *a, const struct sc_schema *b, struct sc_err *err);

/*
 * May NEXT take the place of the last of COUNT schemas that a stream had, oldest first (NULL: a
 * time without one)? Else SC_E_CONFIG naming the column and the rule:
 *     a column keeps its type for ever, also after it was removed;
 *     one that can be null stays so, since rows with null are stored;
 *     one that the last schema does not have can be null, since the rows before it have none, and
 *     writers that do not know it must go on.
 * Columns may be removed, made nullable, and stand in another order. Behind a time without a
 * schema anything goes that keeps the types.
 */
int sc_schema_may_follow(const struct sc_schema *const *before, size_t count,
		const struct sc_schema *next, struct sc_err *err);
/* What is different, in NEXT's order, then what was removed, then the order. FROM NULL: no schema,
 * all columns are added. How many; EACH may be NULL. */
enum sc_schema_act { SC_SCHEMA_ADDED, SC_SCHEMA_NULLABLE, SC_SCHEMA_REMOVED, SC_SCHEMA_ORDER };
struct sc_schema_change {
	enum sc_schema_act act;
	const struct sc_column *column; /* NULL with SC_SCHEMA_ORDER: that of the columns that stay */
};
size_t sc_schema_changes(const struct sc_schema *from, const struct sc_schema *next,
		void (*each)(void *arg, const struct sc_schema_change *change), void *arg);
/* "int64", "boolean": the format if the type has one. */
const char *sc_column_word(enum sc_column_type type);

/*
 * Check one row (a JSON text) and append it as the log stores it, on one line, no newline:
 * with a schema, an object of exactly the columns in order, each value's bytes as they came, null
 * for a nullable column that is absent; of a repeated key the last value counts, its type too;
 * without (NULL), the value's own bytes. On an error OUT is as it was. SC_E_DATA names the byte,
 * and the column if it is in one; SC_E_NOMEM with out->full: over the buffer's limit.
 *
 * Integers are exact over int64 (int32), also -0. A number column takes an integer up to 2^53
 * (float: 2^24) and any number that, read as a double (a float), is not an infinity:
 * 1.7976931348623158e308 is taken, 1e400 and NaN are not, 1e-400 is. A value of a float column
 * keeps its bytes, too: it is not rounded to the float32 that the original stores and prints.
 */
int sc_row_project(const struct sc_schema *schema, struct sc_span text, struct sc_bytes *out,
		   struct sc_err *err);

#endif
