/* Output: what a pipe's reader has not taken does not count; a full pipe makes nobody wait; a
 * reader that left is EPIPE. */
#include "client/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../check.h"

static void open_pipe(int ends[2], struct sc_output **ret_output)
{
	struct sc_err err;

	signal(SIGPIPE, SIG_IGN);
	CHECK(pipe(ends) == 0);
	CHECK_OK(sc_output_open(ends[1], "the pipe", ret_output, &err), &err);
}

TEST(counts_what_the_reader_took)
{
	struct sc_output *o = NULL;
	struct sc_err err;
	char data[16];
	int ends[2];

	open_pipe(ends, &o);
	CHECK_OK(sc_output_put(o, SC_SPAN("[1,1]\n"), 1, &err), &err);
	CHECK_OK(sc_output_put(o, SC_SPAN("[2,2]\n"), 2, &err), &err);
	CHECK_INT(sc_output_taken(o), 0);
	CHECK_INT(sc_output_flush(o, &err), 1);
	CHECK_INT(sc_output_taken(o), 0);
	CHECK_INT(read(ends[0], data, 5), 5); /* all of the first line but its end */
	CHECK_INT(sc_output_taken(o), 0);
	CHECK_INT(read(ends[0], data, 1), 1);
	CHECK_INT(sc_output_taken(o), 0); /* taken, and perhaps still worked on */
	CHECK_INT(read(ends[0], data, 1), 1);
	CHECK_INT(sc_output_taken(o), 1);
	CHECK_INT(read(ends[0], data, 16), 5);
	CHECK_INT(sc_output_taken(o), 1);
	sc_output_finish(o);
	CHECK_INT(sc_output_taken(o), 2);
	CHECK_INT(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* the shared descriptor is as it was */
	sc_output_close(o);
	close(ends[0]);
	close(ends[1]);
}

TEST(a_full_pipe_waits_for_nobody)
{
	static char line[1000], sink[1 << 20];
	struct sc_output *o = NULL;
	struct sc_err err;
	uint64_t put = 0;
	int ends[2];

	open_pipe(ends, &o);
	memset(line, 'x', sizeof(line));
	while (!sc_output_full(o)) {
		CHECK_OK(sc_output_put(o, sc_span(line, sizeof(line)), ++put, &err), &err);
		CHECK(sc_output_flush(o, &err) >= 0);
	}
	CHECK_INT(sc_output_taken(o), 0);
	while (!sc_output_empty(o)) {
		CHECK(read(ends[0], sink, sizeof(sink)) > 0);
		CHECK(sc_output_flush(o, &err) >= 0);
	}
	CHECK(sc_output_taken(o) < put);
	sc_output_finish(o);
	while (sc_output_taken(o) < put)
		CHECK(read(ends[0], sink, 100) > 0);
	close(ends[0]);
	CHECK_OK(sc_output_put(o, SC_SPAN("x\n"), ++put, &err), &err);
	CHECK_INT(sc_output_flush(o, &err), SC_E_IO);
	CHECK_INT(err.errnum, EPIPE);
	sc_output_close(o);
	close(ends[1]);
}

TEST(a_file_counts_once_it_is_synced)
{
	char path[] = "/tmp/sc-output-XXXXXX";
	struct sc_output *o = NULL;
	struct sc_err err;
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	unlink(path);
	CHECK_OK(sc_output_open(fd, "the file", &o, &err), &err);
	CHECK(!sc_output_polls(o));
	CHECK_OK(sc_output_put(o, SC_SPAN("[7,1]\n"), 7, &err), &err);
	CHECK_INT(sc_output_flush(o, &err), 1);
	CHECK_INT(sc_output_taken(o), 0);
	CHECK_OK(sc_output_settle(o, &err), &err);
	CHECK_INT(sc_output_taken(o), 7);
	sc_output_close(o);
	close(fd);
}

TEST(a_socket_counts_when_it_is_empty)
{
	struct sc_output *o = NULL;
	struct sc_err err;
	char data[64];
	int ends[2];

	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	CHECK_OK(sc_output_open(ends[1], "the socket", &o, &err), &err);
	CHECK_OK(sc_output_put(o, SC_SPAN("[1,1]\n"), 1, &err), &err);
	CHECK_INT(sc_output_flush(o, &err), 1);
	CHECK_INT(sc_output_taken(o), 0);
	CHECK_INT(read(ends[0], data, sizeof(data)), 6);
	CHECK_INT(sc_output_taken(o), 0);
	sc_output_finish(o);
	CHECK_INT(sc_output_taken(o), 1);
	sc_output_close(o);
	close(ends[0]);
	close(ends[1]);
}

TEST(a_full_device_is_an_error)
{
	struct sc_output *o = NULL;
	struct sc_err err;
	int fd = open("/dev/full", O_WRONLY);

	CHECK(fd >= 0);
	CHECK_OK(sc_output_open(fd, "the device", &o, &err), &err);
	CHECK_OK(sc_output_put(o, SC_SPAN("[1,1]\n"), 1, &err), &err);
	CHECK_INT(sc_output_flush(o, &err), SC_E_IO);
	CHECK_INT(err.errnum, ENOSPC);
	CHECK_INT(sc_output_taken(o), 0);
	sc_output_close(o);
	close(fd);
}
