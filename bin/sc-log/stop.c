/* stop.c: TERM and INT: take no more, finish, end within two seconds. */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include "sc-log.h"

/* Less than the two seconds that are promised. */
static const struct itimerval grace = { .it_value = { .tv_sec = 1, .tv_usec = 700000 } };

static volatile sig_atomic_t came;
static int stop_fd = -1;

static void on_signal(int signum)
{
	int saved = errno;
	uint64_t one = 1;

	/* the second one: now. Commits are whole or nothing at any instant. */
	if (came)
		_exit(128 + came);
	came = signum;
	if (write(stop_fd, &one, sizeof(one)) < 0)
		_exit(128 + signum);
	setitimer(ITIMER_REAL, &grace, NULL); /* a reader that takes nothing must not hold us */
	errno = saved;
}

static void on_alarm(int signum)
{
	(void)signum;
	_exit(128 + (came ? came : SIGTERM));
}

int stop_begin(struct sc_err *err)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct sigaction late = { .sa_handler = on_alarm };
	struct sigaction old;

	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop_fd < 0)
		return sc_err_sys(err, SC_E_INTERNAL, errno, "cannot start");
	sigemptyset(&act.sa_mask);
	sigemptyset(&late.sa_mask);
	sigaction(SIGALRM, &late, NULL);
	sigaction(SIGTERM, &act, NULL);
	/* a shell starts what runs in the background with INT ignored: leave it so */
	if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGINT, &act, NULL);
	if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &act, NULL);
	return stop_fd;
}

int stop_signal(void)
{
	return came;
}
