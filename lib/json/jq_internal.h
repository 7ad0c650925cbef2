/*
 * json/jq_internal.h: one run of a jq program, shared by the jq files of this room; the only place
 * with libjq's types.
 *
 * Owns      a run owns its numbers, kept containers and results until the next run or
 *           sc_jq_run_done.
 * Units     none.
 * Errors    as json/jq.h; jv values follow jv.h: consumed by every call but sc_jq_print and
 *           sc_jq_inexact.
 * Safety    one thread a run.
 * Source    jv.h, jq.h of libjq 1.6.
 *
 * A number whose spelling matters carries its index + 1 in the jv's `size` field, which libjq
 * leaves alone in numbers and copies with them; a computed number has 0 there. An inexact number is
 * moreover not the nearest double, but a mark: a double around 2^1000 (in the number's sign) whose
 * digits hold a random key and the index. So every guard can see it, arithmetic that a guard missed
 * shows (a mark without a size, or a size that is not the mark's), and no exact number looks like
 * one, since from 2^990 on numbers are inexact here.
 */
#ifndef SC_JSON_JQ_INTERNAL_H
#define SC_JSON_JQ_INTERNAL_H

#include <jq.h>
#include <jv.h>

#include "json/jq.h"
#include "json/scan.h"

#define SC_JQ_BIG 0x1p990

struct sc_jq_number {
	struct sc_span text;
	double value;     /* what the jv holds: the double, or the mark */
	bool inexact;
	bool own;         /* text is heap memory */
};

/* A container or string of the input whose bytes are printed when it comes out whole. */
struct sc_jq_kept {
	const void *at;
	int length;       /* of an array: a slice shares the memory of the whole */
	struct sc_json value;
};

enum sc_jq_sort { SC_JQ_NO, SC_JQ_TRUE, SC_JQ_SELF, SC_JQ_OTHER };

struct sc_jq_result {
	size_t at, len;   /* in results */
	enum sc_jq_sort sort;
};

struct sc_jq_run {
	bool careful;     /* the program with guards runs: inexact numbers are marks */
	bool escalate;    /* met an inexact number without guards: to be done again with them */
	bool trapped;     /* would have rounded, or called halt_error: fails whatever else it does; `trap` says why */
	bool rounds;      /* the former */
	bool no_memory;
	char trap[300];

	struct sc_jq_number *numbers;
	size_t number_count, number_cap;
	struct sc_jq_kept *kept;
	size_t kept_count, kept_cap;
	uint32_t *slots;  /* hash of kept, made when first asked */
	size_t slot_cap, slot_mask;

	jv request;       /* from the program to a guard */
	struct sc_bytes results;
	struct sc_jq_result *list;
	size_t list_count, list_cap;
};

void sc_jq_run_init(struct sc_jq_run *run);
void sc_jq_run_done(struct sc_jq_run *run);
void sc_jq_run_clear(struct sc_jq_run *run);

/* VALUE as jv. KEEP: remember containers and strings (then the caller must hold the result while
 * the run lasts). */
jv sc_jq_build(struct sc_jq_run *run, const struct sc_json *value, bool keep);
/* A number by its digits; OWN: copy them. Without guards an inexact one sets escalate. */
jv sc_jq_make_number(struct sc_jq_run *run, struct sc_span text, bool own);
/* Appends the text of V (not consumed); SC_E_DATA with a reason in ERR, or SC_E_NOMEM. */
int sc_jq_print(struct sc_jq_run *run, jv v, struct sc_bytes *out, struct sc_err *err);
/* The inexact number that V (a number, not consumed) stands for, or NULL. */
const struct sc_jq_number *sc_jq_inexact(const struct sc_jq_run *run, jv v);
/* Anywhere in V (not consumed); NULL if there is none. */
const struct sc_jq_number *sc_jq_find_inexact(const struct sc_jq_run *run, jv v, int depth);

/* Serve RUN's guards from PROGRAM. */
void sc_jq_attach(jq_state *state, struct sc_jq_run *run);

/* The text before the user's program. BUILTINS: libjq's list of "name/arity", consumed. */
int sc_jq_prelude(struct sc_bytes *out, jv builtins, bool careful);
/* The user's program, inexact literals rewritten; *ret_inexact: there were some. SC_E_CONFIG for
 * what is refused. */
int sc_jq_rewrite(const char *program, struct sc_bytes *out, bool *ret_inexact, struct sc_err *err);

/* Does this libjq leave the size of numbers alone? */
extern bool sc_jq_keeps_size;

#endif
