/*
 * Goal    the loop tells what happened, once, and survives callbacks that free themselves and
 *         others.
 * Method  pipes, a regular file, timers on the real clock (order only, never length), signals,
 *         threads.
 */
#include "net/loop.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/loop_internal.h"
#include "../check.h"

static struct sc_err err;
static struct sc_loop *loop;

static void set_up(void)
{
	CHECK_OK(sc_loop_new(&loop, &err), &err);
}

static void stop_it(void *arg)
{
	(void)arg;
	sc_loop_stop(loop);
}

static void run(void)
{
	CHECK_OK(sc_loop_run(loop, &err), &err);
}

static void tear_down(void)
{
	sc_loop_free(loop);
	loop = NULL;
}

static char order[64];
static struct sc_timer *timers[8];

static void note(void *arg)
{
	size_t n = strlen(order);

	order[n] = (char)(intptr_t)arg;
	order[n + 1] = '\0';
}

TEST(timers_go_off_in_order_and_once)
{
	struct sc_timer *end;

	set_up();
	order[0] = '\0';
	for (int i = 0; i < 5; i++)
		CHECK_OK(sc_timer_new(loop, note, (void *)(intptr_t)('a' + i), &timers[i], &err),
			 &err);
	CHECK_OK(sc_timer_new(loop, stop_it, NULL, &end, &err), &err);
	sc_timer_start(timers[2], 30);
	sc_timer_start(timers[0], 10);
	sc_timer_start(timers[4], 5);
	sc_timer_start(timers[1], 20);
	sc_timer_start(timers[3], 1);
	sc_timer_stop(timers[4]);
	sc_timer_start(timers[3], 40); /* moves */
	sc_timer_start(end, 50);
	CHECK(sc_timer_runs(timers[0]) && !sc_timer_runs(timers[4]));
	run();
	CHECK_STR(order, "abcd");
	CHECK(!sc_timer_runs(timers[0]));
	tear_down();
}

static int rounds;
static struct sc_timer *again;

static void start_again(void *arg)
{
	(void)arg;
	if (++rounds == 1000)
		sc_loop_stop(loop);
	sc_timer_start(again, 0);
}

static void free_self(void *arg)
{
	sc_timer_free(*(struct sc_timer **)arg);
	sc_timer_free(timers[1]); /* due as well, must not be called */
	note((void *)'x');
}

TEST(a_timer_may_free_and_start_itself)
{
	set_up();
	order[0] = '\0';
	rounds = 0;
	CHECK_OK(sc_timer_new(loop, start_again, NULL, &again, &err), &err);
	CHECK_OK(sc_timer_new(loop, free_self, &timers[0], &timers[0], &err), &err);
	CHECK_OK(sc_timer_new(loop, note, (void *)'y', &timers[1], &err), &err);
	sc_timer_start(timers[0], 0);
	sc_timer_start(timers[1], 0);
	sc_timer_start(again, 0);
	run();
	CHECK_INT(rounds, 1000);
	CHECK_STR(order, "x");
	tear_down();
}

static struct {
	struct sc_timer *timer;
	int64_t due_min_us, due_max_us; /* the clock was read between */
} many[10000];
static int64_t seen_us;
static int many_left, disorder;

static void many_due(void *arg)
{
	size_t i = (size_t)(uintptr_t)arg;

	disorder += many[i].due_max_us < seen_us || sc_mono_us() < many[i].due_min_us;
	seen_us = many[i].due_min_us;
	if (--many_left == 0)
		sc_loop_stop(loop);
}

TEST(ten_thousand_timers_are_a_heap)
{
	set_up();
	seen_us = many_left = disorder = 0;
	for (size_t i = 0; i < 10000; i++) {
		int64_t ms = 50 + (int64_t)sc_random_below(50);

		CHECK_OK(sc_timer_new(loop, many_due, (void *)(uintptr_t)i, &many[i].timer, &err),
			 &err);
		many[i].due_min_us = sc_mono_us() + ms * 1000;
		sc_timer_start(many[i].timer, ms);
		many[i].due_max_us = sc_mono_us() + ms * 1000;
		many_left++;
	}
	for (size_t i = 0; i < 10000; i += 3) {
		sc_timer_free(many[i].timer);
		many_left--;
	}
	run();
	CHECK_INT(many_left, 0);
	CHECK_INT(disorder, 0);
	tear_down();
}

static int pipe_fd[2], got_events, calls;
static struct sc_watch *watch, *other;

static void got(void *arg, int events)
{
	(void)arg;
	got_events |= events;
	calls++;
	sc_loop_stop(loop);
}

TEST(pipes_and_the_reader_that_leaves)
{
	char c;

	set_up();
	CHECK(pipe(pipe_fd) == 0);
	got_events = 0;
	CHECK_OK(sc_watch_new(loop, pipe_fd[0], SC_READABLE, got, NULL, &watch, &err), &err);
	CHECK(write(pipe_fd[1], "x", 1) == 1);
	run();
	CHECK_INT(got_events, SC_READABLE);
	got_events = 0;
	run(); /* told by level */
	CHECK_INT(got_events, SC_READABLE);
	CHECK(read(pipe_fd[0], &c, 1) == 1);
	sc_watch_free(watch);
	got_events = 0;
	CHECK_OK(sc_watch_new(loop, pipe_fd[1], SC_WRITABLE, got, NULL, &watch, &err), &err);
	run();
	CHECK_INT(got_events, SC_WRITABLE);
	sc_watch_set(watch, 0);
	close(pipe_fd[0]);
	got_events = 0;
	run(); /* HANGUP is always told */
	CHECK_INT(got_events, SC_HANGUP);
	sc_watch_free(watch);
	CHECK(fcntl(pipe_fd[1], F_GETFD) >= 0); /* stays ours */
	close(pipe_fd[1]);
	tear_down();
}

static void free_both(void *arg, int events)
{
	(void)arg;
	(void)events;
	calls++;
	sc_watch_free(watch);
	sc_watch_free(other);
	sc_loop_stop(loop);
}

TEST(a_watch_may_free_itself_and_one_that_is_ready_too)
{
	int a[2], b[2];

	set_up();
	calls = 0;
	CHECK(pipe(a) == 0 && pipe(b) == 0);
	CHECK(write(a[1], "x", 1) == 1 && write(b[1], "x", 1) == 1);
	CHECK_OK(sc_watch_new(loop, a[0], SC_READABLE, free_both, NULL, &watch, &err), &err);
	CHECK_OK(sc_watch_new(loop, b[0], SC_READABLE, free_both, NULL, &other, &err), &err);
	run();
	CHECK_INT(calls, 1);
	close(a[0]), close(a[1]), close(b[0]), close(b[1]);
	tear_down();
}

TEST(a_regular_file_is_always_ready)
{
	FILE *f = tmpfile();

	set_up();
	calls = 0;
	CHECK(f);
	CHECK_OK(sc_watch_new(loop, fileno(f), SC_READABLE, got, NULL, &watch, &err), &err);
	run();
	run();
	CHECK_INT(calls, 2);
	sc_watch_free(watch);
	CHECK_OK(sc_watch_new(loop, fileno(f), SC_READABLE, free_both, NULL, &watch, &err), &err);
	other = NULL;
	run();
	CHECK_INT(calls, 3);
	fclose(f);
	tear_down();
}

static int64_t cpu_us(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000) + u.ru_utime.tv_usec +
	       u.ru_stime.tv_usec;
}

static int64_t stopped_clock(void)
{
	return 1000000;
}

TEST(a_timer_that_starts_itself_at_once_lets_others_run)
{
	int fd[2];

	set_up();
	sc_clock_set(NULL, stopped_clock);
	CHECK(pipe(fd) == 0 && write(fd[1], "x", 1) == 1);
	rounds = -1000000000;
	CHECK_OK(sc_timer_new(loop, start_again, NULL, &again, &err), &err);
	CHECK_OK(sc_watch_new(loop, fd[0], SC_READABLE, got, NULL, &watch, &err), &err);
	sc_timer_start(again, 0);
	run();
	sc_clock_set(NULL, NULL);
	close(fd[0]), close(fd[1]);
	tear_down();
}

static void start_short(void *arg, int events)
{
	(void)arg;
	(void)events;
	sc_watch_free(watch);
	sc_timer_start(timers[1], 5);
}

TEST(a_sooner_timer_is_not_late_behind_a_later_one)
{
	int64_t from = sc_mono_us();
	int fd[2];

	set_up();
	CHECK(pipe(fd) == 0);
	CHECK_OK(sc_timer_new(loop, stop_it, NULL, &timers[0], &err), &err);
	CHECK_OK(sc_timer_new(loop, stop_it, NULL, &timers[1], &err), &err);
	sc_timer_start(timers[0], 1);
	run();
	sc_timer_start(timers[0], 8000);
	CHECK_OK(sc_watch_new(loop, fd[1], SC_WRITABLE, start_short, NULL, &watch, &err), &err);
	run();
	CHECK(sc_mono_us() - from < 5000000);
	close(fd[0]), close(fd[1]);
	tear_down();
}

TEST(an_idle_loop_sleeps)
{
	struct sc_timer *end;
	int64_t before;

	set_up();
	CHECK_OK(sc_timer_new(loop, stop_it, NULL, &end, &err), &err);
	sc_timer_start(end, 300);
	before = cpu_us();
	run();
	CHECK(cpu_us() - before < 100000);
	tear_down();
}

static int got_signal;

static void on_signal(void *arg, int signo)
{
	(void)arg;
	got_signal |= 1 << signo;
	sc_loop_stop(loop);
}

TEST(signals_come_as_callbacks)
{
	set_up();
	got_signal = 0;
	CHECK_OK(sc_loop_signal(loop, SIGUSR1, on_signal, NULL, &err), &err);
	CHECK_OK(sc_loop_signal(loop, SIGTERM, on_signal, NULL, &err), &err);
	CHECK(kill(getpid(), SIGTERM) == 0);
	run();
	CHECK_INT(got_signal, 1 << SIGTERM);
	CHECK(kill(getpid(), SIGUSR1) == 0);
	run();
	CHECK_INT(got_signal, 1 << SIGTERM | 1 << SIGUSR1);
	tear_down();
}

static struct sc_wake *wake;

static void *wake_thread(void *arg)
{
	(void)arg;
	for (int i = 0; i < 1000; i++)
		sc_wake_up(wake);
	return NULL;
}

static void woken(void *arg)
{
	(void)arg;
	calls++;
	sc_wake_free(wake);
	sc_loop_stop(loop);
}

TEST(another_thread_wakes_the_loop)
{
	pthread_t thread;

	set_up();
	calls = 0;
	CHECK_OK(sc_wake_new(loop, woken, NULL, &wake, &err), &err);
	CHECK(pthread_create(&thread, NULL, wake_thread, NULL) == 0);
	CHECK(pthread_join(thread, NULL) == 0);
	run();
	CHECK_INT(calls, 1);
	tear_down();
}

static struct sc_task tasks[3];

static void task_run(void *arg)
{
	intptr_t n = (intptr_t)arg;

	note((void *)('a' + n));
	if (n == 0)
		sc_task_cancel(&tasks[1]);
	if (strlen(order) < 6)
		sc_task_queue(loop, &tasks[n]);
	else
		sc_loop_stop(loop);
}

TEST(tasks_run_in_turns_and_can_be_cancelled)
{
	set_up();
	order[0] = '\0';
	for (intptr_t i = 0; i < 3; i++) {
		tasks[i] = (struct sc_task){ .run = task_run, .arg = (void *)i };
		sc_task_queue(loop, &tasks[i]);
	}
	sc_task_queue(loop, &tasks[0]); /* queued already */
	run();
	CHECK(strncmp(order, "acacac", 6) == 0);
	sc_task_cancel(&tasks[0]);
	sc_task_cancel(&tasks[2]);
	tear_down();
}

static void chain_run(void *arg)
{
	intptr_t n = (intptr_t)arg;

	note((void *)('a' + n));
	if (n == 0) {
		sc_task_queue(loop, &tasks[0]);
		sc_task_queue(loop, &tasks[1]);
	}
	if (strlen(order) > 4)
		sc_loop_stop(loop);
}

static void event_comes(void *arg, int events)
{
	(void)events;
	note(arg);
}

/* What a task causes is done before the loop asks for events again; its own next run comes
 * after. */
TEST(a_task_that_another_queues_runs_in_the_same_turn)
{
	int fd[2];

	set_up();
	order[0] = '\0';
	CHECK(pipe(fd) == 0 && write(fd[1], "x", 1) == 1);
	CHECK_OK(sc_watch_new(loop, fd[0], SC_READABLE, event_comes, (void *)(intptr_t)'e', &watch,
			      &err),
		 &err);
	for (intptr_t i = 0; i < 2; i++)
		tasks[i] = (struct sc_task){ .run = chain_run, .arg = (void *)i };
	sc_task_queue(loop, &tasks[0]);
	run();
	CHECK(strncmp(order, "abeabe", 5) == 0);
	sc_task_cancel(&tasks[0]);
	sc_task_cancel(&tasks[1]);
	sc_watch_free(watch);
	tear_down();
	close(fd[0]), close(fd[1]);
}

TEST(all_that_is_left_is_freed_with_the_loop)
{
	int fd[2];

	set_up();
	CHECK(pipe(fd) == 0);
	CHECK_OK(sc_watch_new(loop, fd[0], SC_READABLE, got, NULL, &watch, &err), &err);
	CHECK_OK(sc_timer_new(loop, note, NULL, &timers[0], &err), &err);
	sc_timer_start(timers[0], 5);
	CHECK_OK(sc_wake_new(loop, woken, NULL, &wake, &err), &err);
	tear_down();
	close(fd[0]), close(fd[1]);
	sc_loop_free(NULL);
	sc_watch_free(NULL);
	sc_timer_free(NULL);
	sc_wake_free(NULL);
}
