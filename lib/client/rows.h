/*
 * client/rows.h: a row as the consumer gets it: as a line or bare, past a jq filter.
 *
 * Owns      its program.
 * Units     none.
 * Errors    SC_E_CONFIG (the program does not compile), SC_E_DATA (it fails on a row, or would
 *           round a number), SC_E_NOMEM.
 * Safety    one thread.
 * Source    man/sc-sub.1, "FILTERS".
 */
#ifndef SC_CLIENT_ROWS_H
#define SC_CLIENT_ROWS_H

#include "base/bytes.h"
#include "base/err.h"
#include "wire/data.h"

struct sc_rows;

int sc_rows_new(const char *filter, bool payload, struct sc_rows **ret_rows, struct sc_err *err);
void sc_rows_free(struct sc_rows *rows);
/* Append the row's lines, each with its LF: one, none if the filter drops it, or as many as a
 * program that transforms gives. */
int sc_rows_lines(struct sc_rows *rows, const struct sc_data *row, struct sc_bytes *out, uint64_t *ret_lines,
		  struct sc_err *err);

#endif
