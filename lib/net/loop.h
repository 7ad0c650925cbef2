/*
 * net/loop.h: the loop: descriptors, timers, signals, wake-ups from other threads.
 *
 * Owns      the loop and all that was added to it, until sc_loop_free; watched descriptors stay the
 *           caller's.
 * Units     ms.
 * Errors    SC_E_NOMEM, SC_E_IO.
 * Safety    everything in the loop's thread, except sc_wake_up.
 * Source    epoll(7), timerfd_create(2), signalfd(2), eventfd(2).
 *
 * A callback may add and remove anything, itself included; it must not free the loop. The disposition of SIGPIPE is the
 * program's own affair: sockets are written to without raising it.
 */
#ifndef SC_NET_LOOP_H
#define SC_NET_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sc_loop;
struct sc_watch;
struct sc_timer;
struct sc_wake;

int sc_loop_new(struct sc_loop **ret_loop, struct sc_err *err);
void sc_loop_free(struct sc_loop *loop);
/* Until sc_loop_stop. */
int sc_loop_run(struct sc_loop *loop, struct sc_err *err);
void sc_loop_stop(struct sc_loop *loop);

/* HANGUP is always told; a pipe's reader leaving is one */
enum { SC_READABLE = 1, SC_WRITABLE = 2, SC_HANGUP = 4 };
int sc_watch_new(struct sc_loop *loop, int fd, int events, void (*ready)(void *arg, int events), void *arg,
		 struct sc_watch **ret_watch, struct sc_err *err);
void sc_watch_set(struct sc_watch *watch, int events);
void sc_watch_free(struct sc_watch *watch); /* does not close the descriptor */

int sc_timer_new(struct sc_loop *loop, void (*due)(void *arg), void *arg, struct sc_timer **ret_timer,
		 struct sc_err *err);
void sc_timer_start(struct sc_timer *timer, int64_t after_ms); /* once; starting again moves it */
void sc_timer_stop(struct sc_timer *timer);
bool sc_timer_runs(const struct sc_timer *timer);
void sc_timer_free(struct sc_timer *timer);

/* One callback a signal for the whole loop; the signal is blocked for the process from then on. */
int sc_loop_signal(struct sc_loop *loop, int signo, void (*got)(void *arg, int signo), void *arg,
		struct sc_err *err);

/* A signal that ends a program (INT, TERM, HUP), that came and was not told yet; 0: none. */
int sc_loop_signal_pending(void);

int sc_wake_new(struct sc_loop *loop, void (*woken)(void *arg), void *arg, struct sc_wake **ret_wake,
		struct sc_err *err);
void sc_wake_up(struct sc_wake *wake); /* any thread; many calls may give one callback */
void sc_wake_free(struct sc_wake *wake);

#endif
