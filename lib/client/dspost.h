/*
 * client/dspost.h: rows on their way to a Durable Streams server: one request at a time, with a
 * producer's epoch and sequence, and what a state file says of it. No I/O.
 *
 * Owns      the rows until they are acknowledged.
 * Units     lines of input count from 1; numbers are those of client/pubrow.h; sequences count
 *           requests of an epoch from 0.
 * Errors    SC_E_DATA, SC_E_UNAVAILABLE (in doubt), SC_E_NOMEM.
 * Safety    one thread; no clock, no descriptors.
 * Source    the Durable Streams protocol; man/sc-pub.1, "DURABLE STREAMS".
 *
 * The server knows of a producer only how many requests it stored. Which rows the request was that
 * may or may not have been stored when a run ended, the state says: it is written before the
 * request is sent, and the next run sends the same rows under the same sequence.
 */
#ifndef SC_CLIENT_DSPOST_H
#define SC_CLIENT_DSPOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_DSPOST_BYTES (256u << 10) /* of rows in a request, unless one row is longer */

struct sc_dspost_state {
	uint64_t epoch, seq;   /* of the request that was sent last, or is the next one */
	uint64_t after, last;  /* its rows have the numbers after..last, the first left out; equal: none is open */
};
/* {"producer":ID,"epoch":N,"seq":N,"after":N,"last":N} and LF, appended to OUT, and back.
 * SC_E_DATA: it is none, or of another producer. */
int sc_dspost_state_put(struct sc_bytes *out, const char *producer,
		const struct sc_dspost_state *state);
int sc_dspost_state_parse(struct sc_span text, const char *producer, struct sc_dspost_state *ret_state,
			  struct sc_err *err);

struct sc_dspost_options {
	size_t batch;          /* rows in a request */
	bool json;             /* rows are the elements of an array; else each is a request of its own */
	struct sc_dspost_state state; /* zero, or what the last run left */
};

struct sc_dspost;

int sc_dspost_new(const struct sc_dspost_options *options, struct sc_dspost **ret_dspost,
		struct sc_err *err);
void sc_dspost_free(struct sc_dspost *dspost);

bool sc_dspost_full(const struct sc_dspost *dspost);  /* take no more rows now */
bool sc_dspost_empty(const struct sc_dspost *dspost); /* nothing is on its way or waits */
int sc_dspost_put(struct sc_dspost *dspost, struct sc_span row, uint64_t line, uint64_t number,
		struct sc_err *err);
/* No more rows come. SC_E_DATA: the request of the last run is not whole. */
int sc_dspost_ended(const struct sc_dspost *dspost, struct sc_err *err);

/* 1: what waits is the request now, *ret_body its body; 0: nothing waits, or its rows are not all
 * there. Not while there is one. */
int sc_dspost_begin(struct sc_dspost *dspost, struct sc_span *ret_body, struct sc_err *err);
bool sc_dspost_open(const struct sc_dspost *dspost);  /* there is a request that is not stored */
struct sc_span sc_dspost_body(const struct sc_dspost *dspost);
/* What is to be on disk before it is sent, and at the end. */
void sc_dspost_state(const struct sc_dspost *dspost, struct sc_dspost_state *ret_state);
/* Another epoch, whose first sequence is 0: the request at hand is its first. */
void sc_dspost_set_epoch(struct sc_dspost *dspost, uint64_t epoch);

struct sc_dspost_row {
	struct sc_span text;
	uint64_t line, number;
	uint64_t position;     /* behind it; 0: not known */
};
/* The request is stored. TAIL: where the stream ends then (0: not known, or it was stored before);
 * BEFORE: where it was known to end (0: not known). Then its rows can be asked for, until the
 * drop. */
void sc_dspost_stored(struct sc_dspost *dspost, uint64_t before, bool before_known, uint64_t tail);
bool sc_dspost_row(const struct sc_dspost *dspost, size_t index, struct sc_dspost_row *ret_row);
void sc_dspost_drop(struct sc_dspost *dspost);

/* The lines of the request at hand. */
void sc_dspost_lines(const struct sc_dspost *dspost, uint64_t *ret_first, uint64_t *ret_last);
/* It was sent, and what became of it is not known: SC_E_UNAVAILABLE. */
int sc_dspost_doubt(const struct sc_dspost *dspost, struct sc_err *err);

#endif
