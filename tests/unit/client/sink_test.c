/* The sink: a command's success finishes its lines and its failure stops; acknowledgements count; a
 * reader that leaves is noticed. */
#include "client/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"
#include "base/file.h"

struct world {
	struct sc_loop *loop;
	struct sc_sink *sink;
	struct sc_timer *tick;
	struct sc_err error;
	bool failed;
	int rooms, ticks;
	uint64_t until; /* stop once this offset is done */
};

static void on_room(void *arg)
{
	((struct world *)arg)->rooms++;
}

static void on_failed(void *arg, const struct sc_err *err)
{
	struct world *w = arg;

	w->failed = true;
	w->error = *err;
	sc_loop_stop(w->loop);
}

static void on_tick(void *arg)
{
	struct world *w = arg;

	if ((w->until && sc_sink_done(w->sink) >= w->until) || ++w->ticks > 2000) {
		sc_loop_stop(w->loop);
		return;
	}
	sc_timer_start(w->tick, 5);
}

static void open_world(struct world *w, struct sc_sink_options options)
{
	struct sc_err err;

	signal(SIGPIPE, SIG_IGN);
	memset(w, 0, sizeof(*w));
	options.room = on_room;
	options.failed = on_failed;
	options.arg = w;
	CHECK_OK(sc_loop_new(&w->loop, &err), &err);
	CHECK_OK(sc_sink_new(w->loop, &options, &w->sink, &err), &err);
	CHECK_OK(sc_timer_new(w->loop, on_tick, w, &w->tick, &err), &err);
}

static void run_world(struct world *w, uint64_t until)
{
	struct sc_err err;

	w->until = until;
	w->ticks = 0;
	sc_timer_start(w->tick, 1);
	CHECK_OK(sc_loop_run(w->loop, &err), &err);
}

static void close_world(struct world *w)
{
	sc_timer_free(w->tick);
	sc_sink_free(w->sink);
	sc_loop_free(w->loop);
}

TEST(a_command_gets_batches_and_finishes_them)
{
	char path[] = "/tmp/sc-sink-XXXXXX", command[128], line[32];
	int fd = mkstemp(path);
	struct sc_bytes got;
	struct sc_err err;
	struct world w;

	CHECK(fd >= 0);
	close(fd);
	snprintf(command, sizeof(command), "echo $SC_FIRST_OFFSET-$SC_OFFSET >>%s; cat >>%s", path,
		 path);
	open_world(&w, (struct sc_sink_options){
			       .fd = 1, .exec = command, .exec_rows = 2, .ack_fd = -1 });
	for (uint64_t i = 1; i <= 5; i++) {
		int n = snprintf(line, sizeof(line), "[%d,%d]\n", (int)i, (int)i * 10);

		CHECK_OK(sc_sink_put(w.sink, sc_span(line, (size_t)n), i, &err), &err);
	}
	CHECK(!sc_sink_idle(w.sink));
	CHECK_OK(sc_sink_flush(w.sink, &err), &err);
	run_world(&w, 5);
	CHECK_INT(sc_sink_done(w.sink), 5);
	CHECK(sc_sink_idle(w.sink));
	sc_bytes_init(&got, 4096);
	CHECK_OK(sc_read_file(path, &got, &err), &err);
	CHECK_MEM(got.data, got.len, "1-2\n[1,10]\n[2,20]\n3-4\n[3,30]\n[4,40]\n5-5\n[5,50]\n");
	sc_bytes_done(&got);
	unlink(path);
	close_world(&w);
}

TEST(a_command_that_fails_finishes_nothing)
{
	struct sc_err err;
	struct world w;

	open_world(&w, (struct sc_sink_options){
			       .fd = 1, .exec = "test $SC_OFFSET != 2 || exit 7", .ack_fd = -1 });
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_OK(sc_sink_put(w.sink, SC_SPAN("x\n"), i, &err), &err);
	CHECK_OK(sc_sink_flush(w.sink, &err), &err);
	run_world(&w, 3);
	CHECK(w.failed);
	CHECK_INT(w.error.code, SC_E_PARTIAL);
	CHECK_STR(w.error.reason, "it ended with status 7");
	CHECK_INT(sc_sink_done(w.sink), 1);
	close_world(&w);
}

TEST(a_command_that_does_not_read_is_no_fault)
{
	static char line[200000];
	struct sc_err err;
	struct world w;

	memset(line, 'x', sizeof(line));
	open_world(&w, (struct sc_sink_options){ .fd = 1, .exec = "exit 0", .ack_fd = -1 });
	CHECK_OK(sc_sink_put(w.sink, sc_span(line, sizeof(line)), 9, &err), &err);
	CHECK_OK(sc_sink_flush(w.sink, &err), &err);
	run_world(&w, 9);
	CHECK(!w.failed);
	CHECK_INT(sc_sink_done(w.sink), 9);
	close_world(&w);
}

TEST(acknowledgements_say_what_is_done)
{
	int acks[2], out = open("/dev/null", O_WRONLY);
	struct sc_err err;
	struct world w;

	CHECK(pipe(acks) == 0 && out >= 0);
	open_world(&w, (struct sc_sink_options){ .fd = out, .name = "null", .ack_fd = acks[0] });
	for (uint64_t i = 1; i <= 3; i++)
		CHECK_OK(sc_sink_put(w.sink, SC_SPAN("x\n"), i, &err), &err);
	CHECK_OK(sc_sink_flush(w.sink, &err), &err);
	CHECK_INT(sc_sink_done(w.sink), 0);
	CHECK(write(acks[1], "1\n2", 3) == 3);
	run_world(&w, 1);
	CHECK_INT(sc_sink_done(w.sink), 1);
	CHECK(write(acks[1], "\n1\n", 3) == 3);
	run_world(&w, 2);
	CHECK_INT(sc_sink_done(w.sink), 2);
	CHECK(!sc_sink_idle(w.sink));
	CHECK(write(acks[1], "4\n", 2) == 2); /* was never delivered */
	run_world(&w, 4);
	CHECK(w.failed);
	CHECK_INT(w.error.code, SC_E_DATA);
	CHECK_INT(sc_sink_done(w.sink), 2);
	close_world(&w);
	close(out);
	close(acks[0]);
	close(acks[1]);
}

TEST(a_reader_that_leaves_is_noticed_without_a_line)
{
	struct world w;
	int ends[2];

	CHECK(pipe(ends) == 0);
	open_world(&w, (struct sc_sink_options){ .fd = ends[1], .name = "the pipe", .ack_fd = -1 });
	close(ends[0]);
	run_world(&w, 1);
	CHECK(w.failed);
	CHECK_INT(w.error.errnum, EPIPE);
	close_world(&w);
	close(ends[1]);
}
