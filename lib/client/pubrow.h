/*
 * client/pubrow.h: a line of input as the row that is published, with its number.
 *
 * Owns      its copy of a schema, its buffers.
 * Units     lines count from 1.
 * Errors    SC_E_DATA, the line named.
 * Safety    one thread; no I/O.
 * Source    man/sc-pub.1, "INPUT".
 */
#ifndef SC_CLIENT_PUBROW_H
#define SC_CLIENT_PUBROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum sc_pubrow_form {
	SC_PUBROW_AUTO,  /* [offset,msg] is a pair, anything else a bare row */
	SC_PUBROW_MSGS,  /* every line is a pair, and its offset says nothing */
	SC_PUBROW_PAIRS, /* every line is a pair; its offset is the row's number */
	SC_PUBROW_BARE,  /* no line is one; rows are numbered on from what the server has */
	SC_PUBROW_LINES, /* no line is one; the line's number is the row's */
};

struct sc_pubrow_options {
	enum sc_pubrow_form form;
	bool wrap;       /* a line that is not JSON is taken as {"$text":...} */
	bool any;        /* rows may be any JSON values, not only objects */
	bool rising;     /* a number that is not above the one before it is refused, not skipped */
};

struct sc_pubrow;

int sc_pubrow_new(const struct sc_pubrow_options *options, struct sc_pubrow **ret_pubrow,
		struct sc_err *err);
void sc_pubrow_free(struct sc_pubrow *pubrow);
/* Rows are checked against this from now on; empty, or none that we know: the server alone
 * judges. */
int sc_pubrow_schema(struct sc_pubrow *pubrow, struct sc_span text, struct sc_err *err);
/* The last number that the server has: rows up to it are skipped, or numbered on from it. */
void sc_pubrow_stored(struct sc_pubrow *pubrow, uint64_t number);

/* 1 and the row (good until the next call), 0: a blank line, 2: the server has it already. */
int sc_pubrow_take(struct sc_pubrow *pubrow, struct sc_span line, uint64_t line_number, struct sc_span *ret_row,
		   uint64_t *ret_number, struct sc_err *err);
/* Append the line [OFFSET,row] with its LF, as a log of that schema stores it; OFFSET 0 is null. */
int sc_pubrow_line(struct sc_pubrow *pubrow, struct sc_span row, uint64_t offset,
		struct sc_bytes *out);

#endif
