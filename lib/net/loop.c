/* net/loop.c: one epoll; timers in a heap behind one timerfd. */
#include "net/loop.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/heap.h"
#include "net/loop_internal.h"

enum { BATCH = 256, SIGNALS_MAX = 64 };

struct sc_watch {
	struct sc_loop *loop;
	int fd, events;
	void (*ready)(void *arg, int events);
	void *arg;
	bool dead;   /* freed in the turn that still holds its event */
	bool always; /* epoll does not take it (a regular file): always ready */
	struct sc_watch *prev, *next;
};

struct sc_timer {
	struct sc_loop *loop;
	void (*due)(void *arg);
	void *arg;
	/* by when it is due, then by the turn in which it was started: it is not due in that one */
	struct sc_heap_item place;
	struct sc_timer *prev, *next;
};

struct sc_wake {
	struct sc_watch *watch;
	int fd;
	void (*woken)(void *arg);
	void *arg;
	struct sc_wake *prev, *next;
};

struct signal_hook {
	void (*got)(void *arg, int signo);
	void *arg;
};

struct sc_loop {
	int epoll_fd;
	bool stopped, failed;
	struct sc_watch watches, graves; /* heads of rings */
	size_t always_on;                /* watches on regular files that want something */
	struct sc_heap heap;
	size_t timers; /* that exist: the heap always has room for all */
	struct sc_timer *all_timers;
	struct sc_wake *all_wakes;
	uint64_t turn;
	int timer_fd;
	int64_t armed_us; /* INT64_MAX: not armed */
	struct sc_watch *timer_watch;
	sigset_t signals;
	struct signal_hook hooks[SIGNALS_MAX + 1];
	int signal_fd;
	struct sc_watch *signal_watch;
	struct sc_task tasks; /* head of a ring */
	uint64_t pass;
};

/* Rings. */

static void watch_link(struct sc_watch *head, struct sc_watch *w)
{
	w->prev = head->prev;
	w->next = head;
	head->prev->next = w;
	head->prev = w;
}

static void watch_unlink(struct sc_watch *w)
{
	w->prev->next = w->next;
	w->next->prev = w->prev;
	w->prev = w->next = NULL;
}

/* Tasks. */

static void task_link(struct sc_task *head, struct sc_task *task)
{
	task->prev = head->prev;
	task->next = head;
	head->prev->next = task;
	head->prev = task;
}

void sc_task_queue(struct sc_loop *loop, struct sc_task *task)
{
	if (!task->next)
		task_link(&loop->tasks, task);
}

void sc_task_cancel(struct sc_task *task)
{
	if (!task->next)
		return;
	task->prev->next = task->next;
	task->next->prev = task->prev;
	task->prev = task->next = NULL;
}

/* One pass: those that others queue in it run too, those that have run wait for the next. */
static void tasks_run(struct sc_loop *loop)
{
	struct sc_task later, *head = &loop->tasks;

	later.prev = later.next = &later;
	loop->pass++;
	while (head->next != head) {
		struct sc_task *t = head->next;

		sc_task_cancel(t);
		if (t->pass == loop->pass) {
			task_link(&later, t);
		} else {
			t->pass = loop->pass;
			t->run(t->arg);
		}
	}
	while (later.next != &later) {
		struct sc_task *t = later.next;

		sc_task_cancel(t);
		task_link(head, t);
	}
}

/* Watches. */

static uint32_t epoll_events(int events)
{
	uint32_t e = 0;

	if (events & SC_READABLE)
		e |= EPOLLIN | EPOLLRDHUP;
	if (events & SC_WRITABLE)
		e |= EPOLLOUT;
	if (events & SC_EDGE)
		e |= EPOLLET;
	return e;
}

static bool wants(const struct sc_watch *w)
{
	return (w->events & (SC_READABLE | SC_WRITABLE)) != 0;
}

static int watch_add(struct sc_loop *loop, int fd, int events, void (*ready)(void *, int),
		     void *arg, struct sc_watch **ret_watch, struct sc_err *err)
{
	struct epoll_event ev = { .events = epoll_events(events) };
	struct sc_watch *w = sc_calloc(1, sizeof(*w));

	if (!w)
		return sc_err_nomem(err, "cannot watch a descriptor");
	*w = (struct sc_watch){
		.loop = loop, .fd = fd, .events = events, .ready = ready, .arg = arg
	};
	ev.data.ptr = w;
	if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0) {
		int e = errno;

		if (e != EPERM) {
			free(w);
			return sc_err_sys(err, e == ENOMEM ? SC_E_NOMEM : SC_E_IO, e,
					  "cannot watch a descriptor");
		}
		w->always = true;
		loop->always_on += wants(w);
	}
	watch_link(&loop->watches, w);
	*ret_watch = w;
	return 0;
}

int sc_watch_new(struct sc_loop *loop, int fd, int events, void (*ready)(void *arg, int events),
		 void *arg, struct sc_watch **ret_watch, struct sc_err *err)
{
	return watch_add(loop, fd, events, ready, arg, ret_watch, err);
}

void sc_watch_set(struct sc_watch *w, int events)
{
	struct epoll_event ev = { .events = epoll_events(events), .data.ptr = w };

	if (events == w->events)
		return;
	if (w->always)
		w->loop->always_on -= wants(w);
	w->events = events;
	if (w->always)
		w->loop->always_on += wants(w);
	else
		/* Cannot fail for a descriptor that is registered and open; closed, it has no
		 * events anyway. */
		(void)epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev);
}

void sc_watch_free(struct sc_watch *w)
{
	if (!w)
		return;
	if (w->always)
		w->loop->always_on -= wants(w);
	else
		(void)epoll_ctl(w->loop->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->dead = true;
	watch_unlink(w);
	watch_link(&w->loop->graves, w);
}

static void graves_clear(struct sc_loop *loop)
{
	while (loop->graves.next != &loop->graves) {
		struct sc_watch *w = loop->graves.next;

		watch_unlink(w);
		free(w);
	}
}

static void watch_tell(struct sc_watch *w, uint32_t got)
{
	int events = 0;

	if ((got & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) && (w->events & SC_READABLE))
		events |= SC_READABLE;
	if ((got & (EPOLLOUT | EPOLLERR | EPOLLHUP)) && (w->events & SC_WRITABLE))
		events |= SC_WRITABLE;
	if (got & (EPOLLHUP | EPOLLERR))
		events |= SC_HANGUP;
	if ((got & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) && (w->events & SC_EDGE))
		events |= SC_ENDS;
	if (events)
		w->ready(w->arg, events);
}

/* Regular files: told in every turn. A walk of all watches is well: programs that read files have
 * few. */
static void always_tell(struct sc_loop *loop)
{
	struct sc_watch place = { .dead = true,
				  .loop = loop }; /* keeps our place, whatever is freed */

	if (!loop->always_on)
		return;
	for (struct sc_watch *w = loop->watches.next; w != &loop->watches;
	     w = place.next, watch_unlink(&place)) {
		watch_link(w->next, &place);
		if (w->always && !w->dead && wants(w))
			w->ready(w->arg, w->events & (SC_READABLE | SC_WRITABLE));
	}
}

/* Timers: a heap by due time, and one timerfd for its top. */

static struct sc_timer *first_timer(const struct sc_loop *loop)
{
	struct sc_heap_item *first = sc_heap_first(&loop->heap);

	return first ? (struct sc_timer *)((char *)first - offsetof(struct sc_timer, place)) : NULL;
}

int sc_timer_new(struct sc_loop *loop, void (*due)(void *arg), void *arg,
		 struct sc_timer **ret_timer, struct sc_err *err)
{
	struct sc_timer *t;

	if (sc_heap_reserve(&loop->heap, loop->timers + 1) < 0)
		return sc_err_nomem(err, "cannot make a timer");
	t = sc_calloc(1, sizeof(*t));
	if (!t)
		return sc_err_nomem(err, "cannot make a timer");
	*t = (struct sc_timer){ .loop = loop, .due = due, .arg = arg };
	loop->timers++;
	t->next = loop->all_timers;
	if (t->next)
		t->next->prev = t;
	loop->all_timers = t;
	*ret_timer = t;
	return 0;
}

void sc_timer_stop(struct sc_timer *t)
{
	sc_heap_remove(&t->loop->heap, &t->place);
}

void sc_timer_start(struct sc_timer *t, int64_t after_ms)
{
	struct sc_loop *loop = t->loop;
	int64_t now = sc_mono_us(), due;

	if (after_ms < 0)
		after_ms = 0;
	due = after_ms > (INT64_MAX - now) / 1000 ? INT64_MAX - 1 : now + after_ms * 1000;
	(void)sc_heap_put(&loop->heap, &t->place, (uint64_t)due, loop->turn); /* has room */
}

bool sc_timer_runs(const struct sc_timer *t)
{
	return t->place.place != 0;
}

void sc_timer_free(struct sc_timer *t)
{
	if (!t)
		return;
	sc_timer_stop(t);
	t->loop->timers--;
	if (t->prev)
		t->prev->next = t->next;
	else
		t->loop->all_timers = t->next;
	if (t->next)
		t->next->prev = t->prev;
	free(t);
}

static void timers_run(struct sc_loop *loop)
{
	struct sc_timer *t;
	uint64_t now;

	if (!first_timer(loop))
		return;
	now = (uint64_t)sc_mono_us();
	loop->turn++;
	while (!loop->stopped && (t = first_timer(loop))) {
		if (t->place.major > now || t->place.minor == loop->turn)
			break;
		sc_timer_stop(t);
		t->due(t->arg);
	}
}

/* Before sleep. A timerfd that goes off for a timer since stopped costs one empty turn: cheaper
 * than a call per stop. */
static void timers_arm(struct sc_loop *loop)
{
	struct itimerspec at = { 0 };
	const struct sc_timer *first = first_timer(loop);
	int64_t due, wait;

	if (!first)
		return;
	due = (int64_t)first->place.major;
	if (due >= loop->armed_us)
		return;
	wait = due - sc_mono_us();
	if (wait < 1)
		wait = 1;
	at.it_value.tv_sec = wait / 1000000;
	at.it_value.tv_nsec = wait % 1000000 * 1000;
	if (timerfd_settime(loop->timer_fd, 0, &at, NULL) < 0)
		loop->failed = true;
	loop->armed_us = due;
}

static void timer_fd_ready(void *arg, int events)
{
	struct sc_loop *loop = arg;
	uint64_t n;

	(void)events;
	if (read(loop->timer_fd, &n, sizeof(n)) == sizeof(n))
		loop->armed_us = INT64_MAX;
}

/* Signals. */

static void signal_ready(void *arg, int events)
{
	struct sc_loop *loop = arg;
	struct signalfd_siginfo info;

	(void)events;
	while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		struct signal_hook hook = { 0 };

		if (info.ssi_signo <= SIGNALS_MAX)
			hook = loop->hooks[info.ssi_signo];
		if (hook.got)
			hook.got(hook.arg, (int)info.ssi_signo);
	}
}

int sc_loop_signal(struct sc_loop *loop, int signo, void (*got)(void *arg, int signo), void *arg,
		   struct sc_err *err)
{
	sigset_t all = loop->signals;
	int fd, rc;

	if (signo < 1 || signo > SIGNALS_MAX)
		return sc_err_set(err, SC_E_INTERNAL, "cannot watch a signal",
				  "there is no signal %d", signo);
	sigaddset(&all, signo);
	/* Blocked first: one that comes between would kill us. */
	rc = pthread_sigmask(SIG_BLOCK, &all, NULL);
	if (rc != 0)
		return sc_err_sys(err, SC_E_IO, rc, "cannot block a signal");
	fd = signalfd(loop->signal_fd, &all, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return sc_err_sys(err, SC_E_IO, errno, "cannot watch a signal");
	loop->signal_fd = fd;
	if (!loop->signal_watch) {
		rc = watch_add(loop, fd, SC_READABLE, signal_ready, loop, &loop->signal_watch, err);
		if (rc < 0) {
			sc_close(&loop->signal_fd);
			return rc;
		}
	}
	loop->signals = all;
	loop->hooks[signo] = (struct signal_hook){ got, arg };
	return 0;
}

int sc_loop_signal_pending(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (sigismember(&pending, ends[i]) == 1)
			return ends[i];
	return 0;
}

/* Wakes. */

static void wake_ready(void *arg, int events)
{
	struct sc_wake *w = arg;
	uint64_t n;

	(void)events;
	if (read(w->fd, &n, sizeof(n)) == sizeof(n))
		w->woken(w->arg);
}

int sc_wake_new(struct sc_loop *loop, void (*woken)(void *arg), void *arg,
		struct sc_wake **ret_wake, struct sc_err *err)
{
	struct sc_wake *w = sc_calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return sc_err_nomem(err, "cannot make a wake-up");
	w->woken = woken;
	w->arg = arg;
	w->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->fd < 0) {
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot make a wake-up");
		goto out;
	}
	rc = watch_add(loop, w->fd, SC_READABLE, wake_ready, w, &w->watch, err);
	if (rc < 0)
		goto out;
	w->next = loop->all_wakes;
	if (w->next)
		w->next->prev = w;
	loop->all_wakes = w;
	*ret_wake = w;
	return 0;
out:
	sc_close(&w->fd);
	free(w);
	return rc;
}

void sc_wake_up(struct sc_wake *w)
{
	uint64_t one = 1;
	ssize_t n;

	do
		n = write(w->fd, &one, sizeof(one));
	while (n < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so a wake-up is under way. */
}

void sc_wake_free(struct sc_wake *w)
{
	if (!w)
		return;
	if (w->prev)
		w->prev->next = w->next;
	else
		w->watch->loop->all_wakes = w->next;
	if (w->next)
		w->next->prev = w->prev;
	sc_watch_free(w->watch);
	sc_close(&w->fd);
	free(w);
}

/* The loop. */

static void turn(struct sc_loop *loop, int wait_ms)
{
	struct epoll_event events[BATCH];
	int n = epoll_wait(loop->epoll_fd, events, BATCH, wait_ms);

	if (n < 0 && errno != EINTR)
		loop->failed = true;
	for (int i = 0; i < n; i++) {
		struct sc_watch *w = events[i].data.ptr;

		if (!w->dead)
			watch_tell(w, events[i].events);
	}
}

int sc_loop_new(struct sc_loop **ret_loop, struct sc_err *err)
{
	struct sc_loop *loop = sc_calloc(1, sizeof(*loop));
	int rc;

	if (!loop)
		return sc_err_nomem(err, "cannot start the loop");
	loop->epoll_fd = loop->timer_fd = loop->signal_fd = -1;
	loop->watches.prev = loop->watches.next = &loop->watches;
	loop->graves.prev = loop->graves.next = &loop->graves;
	loop->tasks.prev = loop->tasks.next = &loop->tasks;
	loop->armed_us = INT64_MAX;
	sigemptyset(&loop->signals);
	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (loop->epoll_fd < 0 || loop->timer_fd < 0) {
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot start the loop");
		goto out;
	}
	rc = watch_add(loop, loop->timer_fd, SC_READABLE, timer_fd_ready, loop, &loop->timer_watch,
		       err);
	if (rc < 0)
		goto out;
	*ret_loop = loop;
	return 0;
out:
	sc_loop_free(loop);
	return rc;
}

void sc_loop_free(struct sc_loop *loop)
{
	if (!loop)
		return;
	while (loop->all_timers)
		sc_timer_free(loop->all_timers);
	while (loop->all_wakes)
		sc_wake_free(loop->all_wakes);
	sc_close(&loop->epoll_fd);
	while (loop->watches.next != &loop->watches) {
		struct sc_watch *w = loop->watches.next;

		watch_unlink(w);
		free(w);
	}
	graves_clear(loop);
	sc_close(&loop->timer_fd);
	sc_close(&loop->signal_fd);
	sc_heap_done(&loop->heap);
	free(loop);
}

int sc_loop_run(struct sc_loop *loop, struct sc_err *err)
{
	loop->stopped = false;
	while (!loop->stopped) {
		bool busy;

		timers_run(loop);
		always_tell(loop);
		tasks_run(loop);
		graves_clear(loop);
		if (loop->stopped)
			break;
		timers_arm(loop);
		busy = loop->tasks.next != &loop->tasks || loop->always_on;
		turn(loop, busy ? 0 : -1);
		if (loop->failed)
			return sc_err_set(err, SC_E_IO, "cannot run the loop",
					  "the kernel refused a wait");
	}
	return 0;
}

void sc_loop_stop(struct sc_loop *loop)
{
	loop->stopped = true;
}
