/*
 * client/delivery.h: rows to the consumer of a subscription, and what it has finished into its
 * cursor file: filter, sink, cursor, the way to the end.
 *
 * Owns      all of these; the loop is the caller's and outlives it.
 * Units     ms; a key is a row's offset, or another number that rises; 0: the row has none.
 * Errors    of sc_delivery_new; later ones of the consumer and of the cursor file end the loop, and
 *           are the ending's (client/ending.h).
 * Safety    the loop's thread.
 * Source    man/sc-sub.1, "DELIVERY", "THE CURSOR FILE".
 */
#ifndef SC_CLIENT_DELIVERY_H
#define SC_CLIENT_DELIVERY_H

#include "client/cursor.h"
#include "client/ending.h"
#include "net/loop.h"
#include "wire/data.h"

struct sc_delivery;

struct sc_delivery_options {
	const char *cursor;     /* file, or NULL */
	const char *filter;     /* jq, or NULL */
	bool payload;           /* print rows without their offsets */
	const char *exec;       /* see client/sink.h */
	unsigned exec_rows;
	int ack_fd;
	int fd;                 /* the lines */
	int64_t idle_ms;        /* end when no row came for so long; -1 = never */
};

struct sc_delivery_hooks {
	void (*ending)(void *arg); /* it begins: close what rows come from */
	void (*room)(void *arg);   /* it was full and is not any more */
	/* All up to the key DONE is finished: move the cursor. NULL: DONE is what it holds. */
	int (*keep)(void *arg, struct sc_cursor *cursor, uint64_t done, struct sc_err *err);
};

int sc_delivery_new(struct sc_loop *loop, const struct sc_delivery_options *options,
		    const struct sc_delivery_hooks *hooks, void *arg,
		    struct sc_delivery **ret_delivery, struct sc_err *err);
void sc_delivery_free(struct sc_delivery *delivery);
struct sc_ending *sc_delivery_ending(struct sc_delivery *delivery);
struct sc_cursor *sc_delivery_cursor(struct sc_delivery *delivery); /* NULL: none was asked for */

/* A row, past the filter: it became LINES lines. */
int sc_delivery_row(struct sc_delivery *delivery, const struct sc_data *row, uint64_t key,
		    uint64_t *ret_lines, struct sc_err *err);
/* A row that is not delivered: it is finished when those before it are. */
int sc_delivery_skip(struct sc_delivery *delivery, uint64_t key, struct sc_err *err);
bool sc_delivery_full(const struct sc_delivery *delivery);
/* No more rows for the moment: let them out. False: the consumer fails, which was told. */
bool sc_delivery_flush(struct sc_delivery *delivery);
/* Rows are waited for: what idle_ms is about begins anew; or they are not, and it rests. */
void sc_delivery_watch(struct sc_delivery *delivery, bool on);
/* What rows come from is closed, for WHY; code 0, or when the end has begun: as it was to be. */
void sc_delivery_closed(struct sc_delivery *delivery, const struct sc_err *why);

/* The loop, until the end, and the cursor: 0, or what failed first. */
int sc_delivery_run(struct sc_delivery *delivery, struct sc_err *err);
uint64_t sc_delivery_lines(const struct sc_delivery *delivery); /* delivered */

#endif
