/*
 * json/jq.h: jq programs (libjq behind this face), never rounding a value in silence.
 *
 * Owns      a program until sc_jq_free; results are borrowed during the callback.
 * Units     none.
 * Errors    SC_E_CONFIG: the program does not compile (jq's words). SC_E_DATA: it failed on this
 *           input, its results are over SC_JQ_RESULTS_MAX, or it would have rounded a number,
 *           which is named; nothing was emitted then.
 * Safety    one thread a program. Compile before other threads start: libjq reads the environment.
 * Source    jq 1.6 manual; streamcast-wire 8.2; man/sc.7, "JQ PROGRAMS".
 *
 * libjq 1.6 keeps every number as a double. What holds here:
 * - What a program copies whole (a number, a string, an array, an object, the input) comes out in
 *   its own bytes: 0.10 is 0.10, 9007199254740993 is itself. Only what a program makes (a new
 *   object, a changed array) is spelled anew.
 * - A number is exact if it is the shortest decimal of its double, and no integer of 2^53 or
 *   beyond in plain digits. With exact numbers a program computes as in jq.
 * - An inexact number (9007199254740993, 0.1234567890123456789, 1e400), in the input, in the
 *   program, or made of a string by tonumber or fromjson, can be copied, compared (==, !=, <, <=,
 *   >, >=, IN: exactly, by its decimal digits), negated, and made a string (tostring, tojson,
 *   string interpolation, @json, @text, @html, @uri, @base64): exactly. Anything else that looks
 *   into it (arithmetic, sort, min, unique, contains, floor, @csv...) refuses the input; try, ? and
 *   // do not hide that. As an array index it finds nothing.
 * - A computed result that is an integer of 2^53 or beyond in plain digits, NaN or infinite is
 *   refused. So is one nested deeper than SC_JSON_DEPTH_MAX. What a program only computes on the
 *   way (.a * 1000 % 7) is as jq has it.
 * - "1.50" | tonumber gives 1.5, as in jq.
 *
 * A program sees one input: `input` fails and `inputs` is empty; debug and stderr pass their input
 * on and print nothing; halt ends the run with the results so far, halt_error fails it. import and
 * include are refused, ~/.jq is not read. $ENV and env are the process's. libjq itself ends the
 * process when memory is out, and a program that never ends is not ended. libjq 1.6 leaks what is
 * left of an object when first(.[]), any(.[]; f) or break leaves it half way.
 */
#ifndef SC_JSON_JQ_H
#define SC_JSON_JQ_H

#include "base/bytes.h"
#include "base/err.h"

#define SC_JQ_RESULTS_MAX (64u << 20) /* bytes of results of one input */

struct sc_jq;

/* A result: one compact JSON text on one line. A negative return ends the run and is returned. */
typedef int (*sc_jq_emit)(void *arg, struct sc_span result, struct sc_err *err);

int sc_jq_compile(const char *program, struct sc_jq **ret_jq, struct sc_err *err);
void sc_jq_free(struct sc_jq *jq);

/* Run on one JSON text; each result goes to EMIT, all of them after the program has ended well. */
int sc_jq_map(struct sc_jq *jq, struct sc_span text, sc_jq_emit emit, void *arg,
		struct sc_err *err);

/*
 * As a condition (sc-log read --where): *ret_keep is true if some result is neither null nor false.
 * The caller then prints the original bytes.
 */
int sc_jq_filter(struct sc_jq *jq, struct sc_span text, bool *ret_keep, struct sc_err *err);

/*
 * As a filter that may transform (sc-sub --filter). Results that are null or false say nothing. Of
 * the others: none: DROP; each is true or the input itself (`select(...)`, `.side == "buy"`): KEEP,
 * and the caller prints the original bytes once; else CHANGED, and each of them went to EMIT in
 * order (the input itself in its own bytes).
 */
enum sc_jq_answer { SC_JQ_DROP, SC_JQ_KEEP, SC_JQ_CHANGED };
int sc_jq_pass(struct sc_jq *jq, struct sc_span text, sc_jq_emit emit, void *arg, enum sc_jq_answer *ret_answer,
	       struct sc_err *err);

#endif
