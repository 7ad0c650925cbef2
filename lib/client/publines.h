/*
 * client/publines.h: a publisher's lines: those that come in, as rows; those whose rows were
 * acknowledged, out; and the way to the end.
 *
 * Owns      its input's buffer, its checks (client/pubrow.h), its sink, its ending; the loop is the
 *           caller's and outlives it.
 * Units     lines of input count from 1.
 * Errors    of sc_publines_new; later ones of input and output are the ending's
 *           (client/ending.h).
 * Safety    the loop's thread.
 * Source    man/sc-pub.1.
 */
#ifndef SC_CLIENT_PUBLINES_H
#define SC_CLIENT_PUBLINES_H

#include "client/ending.h"
#include "client/publication.h"

struct sc_publines;

struct sc_publines_hooks {
	void (*ending)(void *arg); /* it begins: nothing more is taken in */
	void (*ready)(void *arg);  /* lines came, or their end, or no more for an error */
	void (*room)(void *arg);   /* it was full and is not any more */
	void (*left)(void *arg);   /* nobody reads the lines any more; the end has begun; or NULL */
};

int sc_publines_new(struct sc_loop *loop, const struct sc_publication_options *options,
		    const struct sc_publines_hooks *hooks, void *arg,
		    struct sc_publines **ret_publines, struct sc_err *err);
void sc_publines_free(struct sc_publines *publines);
struct sc_ending *sc_publines_ending(struct sc_publines *publines);
struct sc_pubrow *sc_publines_rows(struct sc_publines *publines);
/* What came in and was acknowledged so far; the caller's to add to. */
struct sc_publication_result *sc_publines_result(struct sc_publines *publines);

struct sc_publines_row {
	struct sc_span text;   /* good until the next call */
	uint64_t line, number;
};
/* The next row that is to be published, without those that are stored already: false: none now,
 * none any more, or none for an error. */
bool sc_publines_take(struct sc_publines *publines, struct sc_publines_row *ret_row);
void sc_publines_want(struct sc_publines *publines, bool on); /* read more, or leave it to the kernel */
bool sc_publines_ended(const struct sc_publines *publines);   /* all lines were taken */
/* No more lines come for an error, which was noted: what stands before it is still published. */
void sc_publines_refuse(struct sc_publines *publines, const struct sc_err *err);
bool sc_publines_refused(const struct sc_publines *publines);

/* A row was acknowledged: OFFSET 0: where it is, is not known. */
int sc_publines_stored(struct sc_publines *publines, struct sc_span row, uint64_t offset,
		       uint64_t number, struct sc_err *err);
/* Let the lines of such rows go, then what is buffered; false: their reader has left. */
void sc_publines_print(struct sc_publines *publines);
bool sc_publines_flush(struct sc_publines *publines);
bool sc_publines_full(const struct sc_publines *publines);

/* The connection is closed, and no more is published. */
void sc_publines_closed(struct sc_publines *publines);

#endif
