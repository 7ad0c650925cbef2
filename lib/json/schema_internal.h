/*
 * json/schema_internal.h: what schema.c prepares for the rows.
 *
 * Owns      the schema owns its columns, text, names and slots.
 * Units     sizes in bytes.
 * Errors    as json/schema.h.
 * Safety    as json/schema.h.
 * Source    our own.
 */
#ifndef SC_JSON_SCHEMA_INTERNAL_H
#define SC_JSON_SCHEMA_INTERNAL_H

#include "json/scan_internal.h"
#include "json/schema.h"

struct sc_schema {
	struct sc_column *columns;
	size_t count;
	struct sc_bytes text;   /* the published form; every column's key is a part of it, with more than 16 bytes after */
	struct sc_bytes names;  /* the unescaped names, back to back */
	size_t frame_size;      /* of a row without its values: braces, keys, commas */
	uint16_t *slots;        /* hash table of column index + 1; a power of two, at most half full */
	size_t slot_mask;
};

/* One row while it is read: the last value of each column. */
struct sc_row {
	struct sc_scan scan;
	struct sc_json whole;   /* the row's own text */
	bool as_stored;         /* it is already spelled as the log stores it */
	bool unknown;           /* some key is no column */
	const struct sc_column *column; /* whose value is being scanned, for messages */
	uint8_t kind[SC_SCHEMA_COLUMNS_MAX];     /* enum sc_json_kind, or SC_ROW_ABSENT */
	struct sc_span value[SC_SCHEMA_COLUMNS_MAX];
};
#define SC_ROW_ABSENT 0xff

/* "integer", "number"... and "int64"..., NULL where there is none. */
const char *sc_column_type_name(enum sc_column_type type);
const char *sc_column_format_name(enum sc_column_type type);
/* Value and kind suit the column; null and absent are not asked here. */
bool sc_row_value_fits(enum sc_column_type type, enum sc_json_kind kind, struct sc_span value);
/* The words for a row that was scanned and does not fit; SC_E_DATA. */
int sc_row_refuse(const struct sc_schema *schema, const struct sc_row *row, struct sc_err *err);
/* Names that the storage assigns itself. */
bool sc_name_is_reserved(struct sc_span name);

#endif
