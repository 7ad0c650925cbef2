/* A publisher's lines: what is taken of the input, up to a line that is none; what was acknowledged
 * comes out; a reader that leaves begins the end. */
#include "client/publines.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "../check.h"

static struct sc_loop *loop;
static struct sc_publines *l;
static struct sc_err err;
static int in[2], out[2], ended, left, rows;
static uint64_t numbers; /* of the rows that were taken, one a digit */
static bool stops;       /* at the end, or at an error */

static void on_ending(void *arg)
{
	(void)arg;
	ended++;
	sc_publines_closed(l);
}

static void on_left(void *arg)
{
	(void)arg;
	left++;
}

/* Takes all, and acknowledges each: its offset is ten times the number. */
static void on_ready(void *arg)
{
	struct sc_publines_row row;

	(void)arg;
	while (sc_publines_take(l, &row)) {
		rows++;
		numbers = 10 * numbers + row.number;
		CHECK_OK(sc_publines_stored(l, row.text, 10 * row.number, row.number, &err), &err);
	}
	sc_publines_print(l);
	(void)sc_publines_flush(l);
	if (stops && (sc_publines_ended(l) || sc_publines_refused(l)))
		sc_ending_begin(sc_publines_ending(l));
}

static void on_room(void *arg)
{
	(void)arg;
}

static void open_all(bool lines_wanted)
{
	static const struct sc_publines_hooks hooks = { on_ending, on_ready, on_room, on_left };
	struct sc_publication_options o = { .rows = { .form = SC_PUBROW_LINES, .any = true },
					    .connection = SC_CLIENT_OPTIONS_STANDARD };

	signal(SIGPIPE, SIG_IGN);
	CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
	o.in_fd = in[0];
	o.out_fd = lines_wanted ? out[1] : -1;
	ended = left = rows = 0;
	numbers = 0;
	stops = true;
	CHECK_OK(sc_loop_new(&loop, &err), &err);
	CHECK_OK(sc_publines_new(loop, &o, &hooks, NULL, &l, &err), &err);
}

static void feed(const char *text)
{
	CHECK_INT(write(in[1], text, strlen(text)), (ssize_t)strlen(text));
	close(in[1]);
	in[1] = -1;
}

static int run(void)
{
	sc_publines_want(l, true);
	CHECK_OK(sc_loop_run(loop, &err), &err);
	return sc_ending_result(sc_publines_ending(l), &err);
}

static void close_all(const char *want)
{
	char text[200] = "";
	ssize_t n;

	sc_publines_free(l);
	sc_loop_free(loop);
	close(in[0]);
	close(out[1]);
	n = out[0] < 0 ? 0 : read(out[0], text, sizeof(text) - 1);
	CHECK(n >= 0);
	CHECK_STR(text, want);
	close(out[0]);
}

/* Reads what comes out, so that the last line is taken. */
static struct sc_timer *reader;
static char taken[200];
static size_t taken_len;

static void read_some(void *arg)
{
	ssize_t n = read(out[0], taken + taken_len, sizeof(taken) - 1 - taken_len);

	(void)arg;
	if (n > 0)
		taken_len += (size_t)n;
	taken[taken_len] = '\0';
	sc_timer_start(reader, 1);
}

static void begin_reading(void)
{
	CHECK(fcntl(out[0], F_SETFL, O_NONBLOCK) == 0);
	taken_len = 0;
	taken[0] = '\0';
	CHECK_OK(sc_timer_new(loop, read_some, NULL, &reader, &err), &err);
	sc_timer_start(reader, 1);
}

TEST(rows_in_and_lines_out)
{
	open_all(true);
	begin_reading();
	sc_pubrow_stored(sc_publines_rows(l), 1);
	feed("1\n\n{\"a\":2.0}\n\"x\"");
	CHECK_INT(run(), 0);
	sc_timer_free(reader);
	CHECK_INT(rows, 2);
	CHECK_INT(numbers, 34); /* the first is stored already, the second blank */
	CHECK_STR(taken, "[30,{\"a\":2.0}]\n[40,\"x\"]\n");
	CHECK_INT(sc_publines_result(l)->lines, 4);
	CHECK_INT(sc_publines_result(l)->skipped, 1);
	CHECK_INT(sc_publines_result(l)->rows, 2);
	CHECK_INT(sc_publines_result(l)->last, 40);
	CHECK_INT(sc_publines_result(l)->last_number, 4);
	CHECK_INT(left, 0);
	(void)fcntl(out[0], F_SETFL, 0);
	close_all("");
}

TEST(a_line_that_is_none_ends_the_input)
{
	open_all(false);
	feed("1\n2\n{\n4\n");
	CHECK_INT(run(), SC_E_DATA);
	CHECK(strstr(err.object, "'3'"));
	CHECK(sc_publines_refused(l));
	CHECK_INT(numbers, 12);
	CHECK_INT(sc_publines_result(l)->rows, 2);
	close_all("");
}

TEST(a_reader_that_leaves)
{
	open_all(true);
	stops = false;
	close(out[0]);
	out[0] = -1;
	feed("1\n2\n");
	CHECK_INT(run(), SC_E_IO);
	CHECK_INT(err.errnum, EPIPE);
	CHECK_INT(left, 1);
	CHECK_INT(ended, 1);
	CHECK(!sc_publines_full(l));
	close_all("");
}
