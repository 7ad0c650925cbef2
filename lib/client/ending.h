/*
 * client/ending.h: how a program that passes lines on comes to its end, and why: no more is taken
 * in, the connection is closed, the consumer takes what is left, for a while after a signal; of all
 * that fails the first counts.
 *
 * Owns      its timers; the loop's INT and TERM.
 * Units     ms.
 * Errors    of sc_ending_new, and those that it is told.
 * Safety    the loop's thread.
 * Source    man/sc.7, "SIGNALS".
 *
 * The loop stops when nothing more comes in and the consumer has taken everything; a while after
 * the first signal; at once at the second one.
 */
#ifndef SC_CLIENT_ENDING_H
#define SC_CLIENT_ENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "client/sink.h"

struct sc_ending;

#define SC_ENDING_MS 1000 /* after a signal: how long a busy consumer is waited for */

/* SINK may be NULL: there is no consumer. BEGUN is called once, when it begins: close what lines
 * come from. */
int sc_ending_new(struct sc_loop *loop, struct sc_sink *sink, int64_t drain_ms,
		  void (*begun)(void *arg), void *arg, struct sc_ending **ret_ending,
		  struct sc_err *err);
void sc_ending_free(struct sc_ending *ending);
void sc_ending_begin(struct sc_ending *ending);  /* as often as one likes */
/* What lines come from is closed. Begun or not: this is the end. */
void sc_ending_closed(struct sc_ending *ending);
/* The consumer has left, and its sink goes: what is still to come is waited for as after a
 * signal. */
void sc_ending_left(struct sc_ending *ending);
bool sc_ending_is_begun(const struct sc_ending *ending);
/* An error: it is the result, unless there was one before. */
void sc_ending_note(struct sc_ending *ending, const struct sc_err *err);
/* No more can be had for it: noted, and begun. */
void sc_ending_give_up(struct sc_ending *ending, const struct sc_err *err);
/* Nor can what is there be passed on: noted, and the loop stops. */
void sc_ending_fail(struct sc_ending *ending, const struct sc_err *err);
/* Where errors that name no object happened from now on: KIND "to stream", a constant. */
void sc_ending_place(struct sc_ending *ending, const char *kind, const char *place);
bool sc_ending_has_failed(const struct sc_ending *ending);
int sc_ending_result(const struct sc_ending *ending, struct sc_err *err); /* 0, or what was noted */
int sc_ending_signo(const struct sc_ending *ending); /* the signal that began it; 0: none came */
/* A signal that is seen before the loop tells it. */
void sc_ending_note_signal(struct sc_ending *ending, int signo);

#endif
