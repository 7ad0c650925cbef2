/*
 * net/loop_internal.h: what the rest of the room needs of the loop: edge-triggered watches, tasks.
 *
 * Owns      as net/loop.h; tasks are the caller's memory.
 * Units     none.
 * Errors    as net/loop.h.
 * Safety    the loop's thread.
 * Source    epoll(7).
 */
#ifndef SC_NET_LOOP_INTERNAL_H
#define SC_NET_LOOP_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "net/loop.h"

/* With SC_READABLE and so on for sc_watch_new and sc_watch_set: told once a change (EPOLLET). Such a
 * watch is also told, with SC_READABLE, that reading will come to an end: the peer has shut its side,
 * or the connection broke. */
enum { SC_EDGE = 1024, SC_ENDS = 2048 };

/* Work for later in this turn of the loop, after the events at hand, once: queued again in the
 * turn in which it ran, it runs in the next, without sleep. */
struct sc_task {
	void (*run)(void *arg);
	void *arg;
	struct sc_task *prev, *next; /* NULL while not queued */
	uint64_t pass;               /* the loop's, when it ran last */
};
void sc_task_queue(struct sc_loop *loop, struct sc_task *task);
void sc_task_cancel(struct sc_task *task);

#endif
