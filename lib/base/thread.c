/* base/thread.c: threads that leave signals to others. */
#include "base/thread.h"

#include <signal.h>

int sc_thread_start(pthread_t *ret_thread, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(ret_thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}
