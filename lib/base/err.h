/*
 * base/err.h: one error type, one list of codes, one list of exit statuses.
 *
 * Owns      nothing; struct sc_err is fixed size, in the caller's memory, and may be NULL
 *           everywhere.
 * Units     none.
 * Errors    every fallible call returns 0 (or a count) on success and a negative sc_code on
 *           failure.
 * Safety    no globals; any thread.
 * Source    the family's exit statuses: man/sc.7, "EXIT STATUS".
 *
 * The text of an error is one line of four parts:
 *     TRIED OBJECT: REASON; NEXT
 *     cannot seal log 'data/trades': another seal runs as process 812; wait for it to end
 * The parts are fields, so that --json can print them apart.
 */
#ifndef SC_BASE_ERR_H
#define SC_BASE_ERR_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* name, exit status, word (as printed by --json), meaning (as printed in man pages) */
#define SC_CODES(X) \
	X(PARTIAL, 1, "partial", "done in part: some rows or messages were skipped or set aside") \
	X(USAGE, 64, "usage", "the command line is wrong") \
	X(DATA, 65, "bad_data", "data was refused or is damaged; the line, row, column or file is named") \
	X(NOLOG, 66, "not_found", "no such log, file or stream") \
	X(UNAVAILABLE, 69, "unavailable", "cannot connect or listen, or the peer is gone and the tries are spent") \
	X(INTERNAL, 70, "internal", "an internal error") \
	X(NOMEM, 70, "no_memory", "out of memory") \
	X(CANTCREAT, 73, "cannot_create", "cannot create a file or log") \
	X(IO, 74, "io", "an input or output error: disk full, EIO, failed write to stdout") \
	X(BUSY, 75, "busy", "busy, or dropped as too slow; try again") \
	X(PROTOCOL, 76, "protocol", "the peer broke the protocol") \
	X(NOAUTH, 77, "not_authorised", "not authorised") \
	X(CONFIG, 78, "configuration", "the configuration cannot be used") \
	X(REFUSED, 79, "offset_refused", "the offset was refused; the reason and the numbers are given") \
	X(TIMEOUT, 80, "timed_out", "timed out") \
	X(NOBODY, 81, "nobody", "nobody is there to answer") \
	X(STALE, 75, "stale", "what it was checked against was changed meanwhile; try again")

/* Codes are -1, -2, ... in the order above; 0 is success. */
enum sc_code_ordinal {
	SC_ORD_OK = 0,
#define X(name, status, word, meaning) SC_ORD_##name,
	SC_CODES(X)
#undef X
	SC_ORD_COUNT
};
enum sc_code {
	SC_OK = 0,
#define X(name, status, word, meaning) SC_E_##name = -SC_ORD_##name,
	SC_CODES(X)
#undef X
};

struct sc_err {
	int code;          /* enum sc_code */
	int errnum;        /* errno of the failed call, or 0 */
	char tried[120];   /* "cannot seal" */
	char object[320];  /* "log 'data/trades'" */
	char reason[320];  /* "another seal runs as process 812" */
	char next[240];    /* "wait for it to end" */
	char fields[400];  /* more members for --json, ready spelled: "\"why\":\"ahead\",\"offset\":9" */
};

void sc_err_clear(struct sc_err *err);

/*
 * Fill code, tried and reason; object, next and fields become empty. Returns code, so that a
 * function can end with it. The texts must not end with a full stop. Control bytes in arguments are
 * shown as \xHH; what does not fit is cut, with "..." at the end.
 */
int sc_err_set(struct sc_err *err, int code, const char *tried, const char *reason, ...)
	__attribute__((format(printf, 4, 5)));

/* The same with the reason taken from errnum (strerror). ENOSPC, EDQUOT, EIO, EROFS... are
 * SC_E_IO. */
int sc_err_sys(struct sc_err *err, int code, int errnum, const char *tried);

/* Add to an error that was set. Each returns err->code (SC_E_INTERNAL when err is NULL). */
int sc_err_on(struct sc_err *err, const char *kind, const char *name); /* object: KIND 'NAME' */
int sc_err_next(struct sc_err *err, const char *next, ...) __attribute__((format(printf, 2, 3)));
int sc_err_field_int(struct sc_err *err, const char *name, int64_t value);
int sc_err_field_u64(struct sc_err *err, const char *name, uint64_t value); /* offsets, sizes */
int sc_err_field_str(struct sc_err *err, const char *name, const char *value);

/* Out of memory while TRIED. Never allocates. */
int sc_err_nomem(struct sc_err *err, const char *tried);

int sc_code_status(int code);          /* exit status of a code; 0 for SC_OK */
const char *sc_code_word(int code);    /* "io" */
const char *sc_status_meaning(int status); /* NULL for a status that is not in the list */

/* One line, no newline, "TRIED OBJECT: REASON; NEXT". Returns its length; cut to size. */
size_t sc_err_line(const struct sc_err *err, char *ret_text, size_t size);
/* One JSON object, no newline:
 * {"error":WORD,"status":N,"tried":..,"object":..,"reason":..,"next":..,...fields}. */
#define SC_ERR_JSON 4096 /* room for any; where it does not fit only error and status are told */
size_t sc_err_json(const struct sc_err *err, char *ret_text, size_t size);

#endif
