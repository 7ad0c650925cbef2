/* thread_test: a thread of the library takes no signal of its user's, and leaves its starter's mask
 * as it was. */
#include <signal.h>

#include "../check.h"
#include "base/thread.h"

static void *look(void *arg)
{
	sigset_t *mask = arg;

	pthread_sigmask(SIG_SETMASK, NULL, mask);
	return arg;
}

TEST(signals_are_blocked_in_it)
{
	static const int some[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE };
	sigset_t inside, mine;
	pthread_t thread;
	void *result;

	sigemptyset(&mine);
	sigaddset(&mine, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &mine, NULL);
	sigemptyset(&inside);
	CHECK_INT(sc_thread_start(&thread, look, &inside), 0);
	CHECK_INT(pthread_join(thread, &result), 0);
	CHECK(result == &inside);
	pthread_sigmask(SIG_SETMASK, NULL, &mine);
	for (size_t i = 0; i < sizeof(some) / sizeof(*some); i++) {
		CHECK_INT(sigismember(&inside, some[i]), 1);
		CHECK_INT(sigismember(&mine, some[i]), 0);
	}
	CHECK_INT(sigismember(&mine, SIGUSR2), 1);
}
