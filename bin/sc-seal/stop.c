/* stop.c: TERM and INT: finish the step in hand, end within two seconds. HUP: another round at
 * once. */
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "sc-seal.h"

#define GRACE_S 2

static volatile sig_atomic_t came, asked, watching;

static void on_signal(int signum)
{
	if (came)
		_exit(128 +
		      came); /* the second one: now. Whatever was begun is finished by the next run. */
	came = signum;
	alarm(GRACE_S); /* a disk that does not answer must not hold us */
}

static void on_alarm(int signum)
{
	(void)signum;
	_exit(128 + (came ? came : SIGTERM));
}

static void on_hangup(int signum)
{
	if (watching)
		asked = 1;
	else
		on_signal(signum);
}

/* What a shell or nohup ignores stays ignored. */
static void unless_ignored(int signum, const struct sigaction *act)
{
	struct sigaction old;

	if (sigaction(signum, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(signum, act, NULL);
}

void stop_begin(bool watch)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct sigaction late = { .sa_handler = on_alarm };
	struct sigaction hangup = { .sa_handler = on_hangup, .sa_flags = SA_RESTART };

	watching = watch;
	sigemptyset(&act.sa_mask);
	sigemptyset(&late.sa_mask);
	sigemptyset(&hangup.sa_mask);
	sigaction(SIGALRM, &late, NULL);
	sigaction(SIGTERM, &act, NULL);
	unless_ignored(SIGINT, &act);
	if (watch)
		sigaction(SIGHUP, &hangup, NULL);
	else
		unless_ignored(SIGHUP, &hangup);
}

int stop_signal(void)
{
	return came;
}

bool stop_wait(int64_t ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
	sigset_t block, old;
	bool round;

	/* blocked while we look, so that none comes between the look and the sleep */
	sigemptyset(&block);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGHUP);
	sigprocmask(SIG_BLOCK, &block, &old);
	if (!came && !asked)
		ppoll(NULL, 0, &left, &old);
	sigprocmask(SIG_SETMASK, &old, NULL);
	round = asked;
	asked = 0;
	return round;
}
