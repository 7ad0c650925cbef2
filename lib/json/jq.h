/*
 * json/jq.h: jq programs (libjq behind this face), never rounding a value in silence.
 *
 * Owns      a program until sc_jq_free; results are borrowed during the callback.
 * Units     none.
 * Errors    SC_E_CONFIG: the program does not compile (jq's words). SC_E_DATA: it failed on this input, or it would
 *           have printed a number that libjq 1.6 cannot hold exactly (the number is named).
 * Safety    one thread a program.
 * Source    jq 1.6 manual; streamcast-wire 8.2.
 *
 * Exactness: integers beyond 2^53 and numbers that jq would re-spell. A filter's answer is only a truth value, and the original
 * bytes are printed. A map's output that copies an input value whole comes out in that value's own bytes; a number computed
 * from inexact ones is refused.
 */
#ifndef SC_JSON_JQ_H
#define SC_JSON_JQ_H

#include "base/bytes.h"
#include "base/err.h"

struct sc_jq;

int sc_jq_compile(const char *program, struct sc_jq **ret_jq, struct sc_err *err);
void sc_jq_free(struct sc_jq *jq);

/* Run on one JSON text; each result goes to EMIT as one compact JSON text. EMIT's negative result ends the run. */
int sc_jq_map(struct sc_jq *jq, struct sc_span text,
	      int (*emit)(void *arg, struct sc_span result, struct sc_err *err), void *arg,
	      struct sc_err *err);

/*
 * As a filter: *ret_keep is true if some result is neither null nor false... and *ret_same is true when
 * every result is the input itself (select(...)) or a boolean; then the caller prints the original bytes. Otherwise the
 * filter transforms, and results went to EMIT as in sc_jq_map.
 */
int sc_jq_filter(struct sc_jq *jq, struct sc_span text, bool *ret_keep,
		 struct sc_err *err);

#endif
