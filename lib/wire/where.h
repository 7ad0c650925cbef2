/*
 * wire/where.h: filters: an object of columns and the values that they may have.
 *
 * Owns      a filter until sc_where_free; it copies what it needs.
 * Units     none.
 * Errors    SC_E_DATA with the reason, for a 4400.
 * Safety    does not change after it was made.
 * Source    streamcast-wire 11; man/sc-wire.7, "FILTERS".
 *
 * Equality is Python's: 1 == 1.0 == true, null == null, a missing key is null; integers are exact.
 */
#ifndef SC_WIRE_WHERE_H
#define SC_WIRE_WHERE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/schema.h"

struct sc_where;

/* What a filter whose text has LEN bytes takes at most. */
#define SC_WHERE_BYTES(len) (16384u + 20u * (size_t)(len))

/* SCHEMA NULL: any names. */
int sc_where_parse(struct sc_span text, const struct sc_schema *schema,
		struct sc_where **ret_where, struct sc_err *err);
void sc_where_free(struct sc_where *where);
struct sc_span sc_where_text(const struct sc_where *where); /* compact, for the greeting */
/* 1 or 0. ROW: a JSON text that was checked before (a row of a log). SC_E_NOMEM: nobody knows, do
 * not skip it. */
int sc_where_match(const struct sc_where *where, struct sc_span row);

#endif
