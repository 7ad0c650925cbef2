/* input.c: standard input, line by line, only while they can be taken. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "sc-node.h"

#define READ_BYTES (64u << 10)

struct input {
	struct sc_loop *loop;
	void (*line)(void *arg, struct sc_span line, uint64_t number);
	void (*told_end)(void *arg);
	void (*failed)(void *arg, const struct sc_err *err);
	void *arg;
	size_t line_max;
	struct sc_watch *watch;
	struct sc_timer *again; /* lines are there already */
	struct sc_bytes bytes;
	size_t at;
	uint64_t number;
	bool on, eof, told;
	bool too_long; /* the front of this line is gone already */
};

static void turn(struct input *in);

static void on_readable(void *arg, int events)
{
	(void)events;
	turn(arg);
}

static void on_again(void *arg)
{
	turn(arg);
}

int input_open(struct sc_loop *loop, size_t line_max,
	       void (*line)(void *arg, struct sc_span line, uint64_t number),
	       void (*ended)(void *arg), void (*failed)(void *arg, const struct sc_err *err),
	       void *arg, struct input **ret_input, struct sc_err *err)
{
	struct input *in = sc_calloc(1, sizeof(*in));
	int rc;

	if (!in)
		return sc_err_nomem(err, "cannot read standard input");
	in->loop = loop;
	in->line_max = line_max;
	in->line = line;
	in->told_end = ended;
	in->failed = failed;
	in->arg = arg;
	sc_bytes_init(&in->bytes, SIZE_MAX / 2);
	rc = sc_timer_new(loop, on_again, in, &in->again, err);
	if (rc < 0)
		input_close(in);
	else
		*ret_input = in;
	return rc;
}

void input_close(struct input *in)
{
	if (!in)
		return;
	sc_watch_free(in->watch);
	sc_timer_free(in->again);
	sc_bytes_done(&in->bytes);
	free(in);
}

bool input_ended(const struct input *in)
{
	return in->told;
}

static void fail(struct input *in, struct sc_err *err)
{
	input_set(in, false);
	in->failed(in->arg, err);
}

/* Without a taker the input is not watched at all: a writer that has left would be told again and
 * again. */
static void watch(struct input *in, bool on)
{
	struct sc_err err;

	if (!on) {
		sc_watch_free(in->watch);
		in->watch = NULL;
	} else if (!in->watch && sc_watch_new(in->loop, STDIN_FILENO, SC_READABLE, on_readable, in,
					      &in->watch, &err) < 0) {
		fail(in, &err);
	}
}

void input_set(struct input *in, bool on)
{
	if (in->on == on)
		return;
	in->on = on;
	if (on)
		sc_timer_start(in->again, 0);
	else
		sc_timer_stop(in->again);
	if (!on)
		watch(in, false);
}

static void tell(struct input *in, const char *at, size_t len)
{
	struct sc_span line = { NULL, 0 };

	in->number++;
	if (!in->too_long && len <= in->line_max) {
		if (len && at[len - 1] == '\r')
			len--;
		line = sc_span(at, len);
	}
	in->too_long = false;
	in->line(in->arg, line, in->number);
}

/* Whole lines that are there. false: nothing more can be told now. */
static bool tell_lines(struct input *in)
{
	while (in->on) {
		const char *at = in->bytes.len ? in->bytes.data + in->at : "";
		size_t left = in->bytes.len - in->at;
		const char *end = left ? memchr(at, '\n', left) : NULL;
		size_t len = end ? (size_t)(end - at) : left;

		if (!end && !(in->eof && (left > 0 || in->too_long))) {
			/* one that cannot be sent for its length is not collected for ever */
			if (left > in->line_max) {
				in->too_long = true;
				in->at = in->bytes.len;
			}
			return !in->eof;
		}
		in->at += len + (end != NULL);
		tell(in, at, len);
	}
	return false;
}

static bool read_some(struct input *in)
{
	struct sc_err err;
	ssize_t n;

	if (in->at > 0) {
		sc_bytes_drop(&in->bytes, in->at);
		in->at = 0;
	}
	if (sc_bytes_reserve(&in->bytes, READ_BYTES) < 0) {
		sc_err_nomem(&err, "cannot read standard input");
		fail(in, &err);
		return false;
	}
	do
		n = read(STDIN_FILENO, in->bytes.data + in->bytes.len, READ_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN) {
		sc_err_sys(&err, SC_E_IO, errno, "cannot read");
		sc_err_on(&err, "input", "standard input");
		fail(in, &err);
		return false;
	}
	if (n > 0)
		in->bytes.len += (size_t)n;
	in->eof = n == 0;
	return true;
}

static void turn(struct input *in)
{
	if (!in->on)
		return;
	/* what is there first: it may be enough */
	if (tell_lines(in)) {
		if (in->watch && !read_some(in))
			return;
		if (tell_lines(in)) {
			watch(in, true);
			return;
		}
	}
	if (in->on && in->eof && !in->told && in->at == in->bytes.len) {
		in->told = true;
		watch(in, false);
		in->on = false;
		in->told_end(in->arg);
	}
}
