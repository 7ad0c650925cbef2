/*
 * base/thread.h: a thread of the library's own: signals are none of its business.
 *
 * Owns      the thread is the caller's, to join.
 * Units     none.
 * Errors    an errno value, as of pthread_create(3).
 * Safety    any thread.
 * Source    pthread_sigmask(3), signal(7).
 */
#ifndef SC_BASE_THREAD_H
#define SC_BASE_THREAD_H

#include <pthread.h>

/* All signals are blocked in it from its first moment on: whoever uses the library gets them in a
 * thread of theirs. */
int sc_thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg);

#endif
