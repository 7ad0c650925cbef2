/* The end: of what fails the first counts, with its place; a consumer gets what is left, and one
 * that takes nothing is waited for only after a signal. */
#include "client/ending.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"

static struct sc_loop *loop;
static struct sc_sink *sink;
static struct sc_ending *ending;
static struct sc_timer *timer;
static struct sc_err err;
static int begun, pipes[2];

static void on_begun(void *arg)
{
	(void)arg;
	begun++;
}

static void on_failed(void *arg, const struct sc_err *failed)
{
	(void)arg;
	sc_ending_fail(ending, failed);
}

static void open_all(int64_t drain_ms)
{
	struct sc_sink_options o = { .name = "test", .ack_fd = -1, .failed = on_failed };

	signal(SIGPIPE, SIG_IGN);
	CHECK(pipe2(pipes, O_CLOEXEC) == 0);
	o.fd = pipes[1];
	begun = 0;
	CHECK_OK(sc_loop_new(&loop, &err), &err);
	CHECK_OK(sc_sink_new(loop, &o, &sink, &err), &err);
	CHECK_OK(sc_ending_new(loop, sink, drain_ms, on_begun, NULL, &ending, &err), &err);
}

static void close_all(void)
{
	sc_timer_free(timer);
	timer = NULL;
	sc_ending_free(ending);
	sc_sink_free(sink);
	sc_loop_free(loop);
	close(pipes[0]);
	close(pipes[1]);
}

static struct sc_err *failure(int code, const char *tried, const char *object)
{
	static struct sc_err e;

	sc_err_set(&e, code, tried, "it did not work");
	if (object)
		sc_err_on(&e, "file", object);
	return &e;
}

TEST(the_first_failure_counts)
{
	struct sc_err got;

	open_all(1000);
	CHECK(!sc_ending_has_failed(ending));
	CHECK_INT(sc_ending_result(ending, &got), 0);
	sc_ending_note(ending, failure(SC_E_DATA, "cannot read", "f"));
	CHECK(!sc_ending_is_begun(ending));
	sc_ending_give_up(ending, failure(SC_E_PROTOCOL, "cannot go on with", NULL));
	sc_ending_give_up(ending, failure(SC_E_IO, "cannot go on with", NULL));
	CHECK(sc_ending_is_begun(ending) && sc_ending_has_failed(ending));
	CHECK_INT(begun, 1);
	CHECK_INT(sc_ending_result(ending, &got), SC_E_DATA);
	CHECK_STR(got.object, "file 'f'");
	CHECK_INT(sc_ending_result(ending, NULL), SC_E_DATA);
	close_all();
}

TEST(a_failure_without_an_object_gets_the_place)
{
	struct sc_err got;

	open_all(1000);
	sc_ending_place(ending, "at stream", "h:1/old");
	sc_ending_place(ending, "at stream", "h:1/a");
	sc_ending_note(ending, failure(SC_E_DATA, "cannot read", NULL));
	CHECK_INT(sc_ending_result(ending, &got), SC_E_DATA);
	CHECK_STR(got.object, "at stream 'h:1/a'");
	close_all();
	open_all(1000);
	sc_ending_place(ending, "at stream", "h:1/a");
	sc_ending_note(ending, failure(SC_E_DATA, "cannot read", "f"));
	CHECK_INT(sc_ending_result(ending, &got), SC_E_DATA);
	CHECK_STR(got.object, "file 'f'");
	close_all();
	open_all(1000);
	sc_ending_note(ending, failure(SC_E_DATA, "cannot read", NULL));
	sc_ending_place(ending, "at stream", "h:1/a");
	CHECK_INT(sc_ending_result(ending, &got), SC_E_DATA);
	CHECK_STR(got.object, "");
	close_all();
}

static void fail_now(void *arg)
{
	(void)arg;
	sc_ending_fail(ending, failure(SC_E_IO, "cannot write", NULL));
}

TEST(what_fails_for_good_stops_the_loop)
{
	open_all(1000);
	CHECK_OK(sc_timer_new(loop, fail_now, NULL, &timer, &err), &err);
	sc_timer_start(timer, 1);
	CHECK_OK(sc_loop_run(loop, &err), &err);
	CHECK_INT(sc_ending_result(ending, &err), SC_E_IO);
	CHECK(!sc_ending_is_begun(ending));
	close_all();
}

/* The consumer takes its line late. */
static void read_now(void *arg)
{
	char line[8];

	(void)arg;
	CHECK_INT(read(pipes[0], line, sizeof(line)), 2);
}

TEST(the_consumer_takes_what_is_left)
{
	open_all(1);
	CHECK_OK(sc_sink_put(sink, SC_SPAN("a\n"), 1, &err), &err);
	CHECK_OK(sc_sink_flush(sink, &err), &err);
	sc_sink_finish(sink);
	CHECK_OK(sc_timer_new(loop, read_now, NULL, &timer, &err), &err);
	sc_timer_start(timer, 100);
	sc_ending_closed(ending);
	CHECK_OK(sc_loop_run(loop, &err), &err);
	CHECK(!sc_timer_runs(timer));
	CHECK_INT(sc_sink_done(sink), 1);
	CHECK_INT(sc_ending_signo(ending), 0);
	close_all();
}

static void raise_now(void *arg)
{
	(void)arg;
	CHECK(raise(SIGTERM) == 0);
	CHECK_INT(sc_loop_signal_pending(), SIGTERM);
}

TEST(after_a_signal_it_is_waited_for_a_while)
{
	open_all(50);
	CHECK_OK(sc_sink_put(sink, SC_SPAN("a\n"), 1, &err), &err);
	CHECK_OK(sc_sink_flush(sink, &err), &err);
	CHECK_INT(sc_loop_signal_pending(), 0);
	CHECK_OK(sc_timer_new(loop, raise_now, NULL, &timer, &err), &err);
	sc_timer_start(timer, 1);
	CHECK_OK(sc_loop_run(loop, &err), &err);
	CHECK_INT(sc_ending_signo(ending), SIGTERM);
	CHECK_INT(begun, 1);
	CHECK_INT(sc_ending_result(ending, &err), 0);
	CHECK_INT(sc_sink_done(sink), 0);
	CHECK_INT(sc_loop_signal_pending(), 0);
	close_all();
}
