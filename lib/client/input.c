/* client/input.c: lines of a descriptor, on the loop. */
#include "client/input.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

#define READ_CHUNK (128u << 10)

struct sc_input {
	struct sc_loop *loop;
	int fd;
	size_t line_max;
	struct sc_input_hooks hooks;
	void *arg;
	bool file; /* cannot be watched, and never makes a reader wait */
	bool wanted, ended;
	struct sc_watch *watch;
	struct sc_timer *turn; /* files: one read a turn of the loop */
	struct sc_bytes buf;   /* lines taken up to at, no LF up to at + searched */
	size_t at, searched;
	uint64_t number;
};

static void fail(struct sc_input *in, int errnum)
{
	struct sc_err err;

	sc_input_want(in, false);
	in->ended = true;
	sc_err_sys(&err, SC_E_IO, errnum, "cannot read");
	sc_err_on(&err, "input", "standard input");
	in->hooks.failed(in->arg, &err);
}

static void read_some(struct sc_input *in)
{
	ssize_t n;

	if (in->at > 0) {
		sc_bytes_drop(&in->buf, in->at);
		in->at = 0;
	}
	if (sc_bytes_reserve(&in->buf, READ_CHUNK) < 0) {
		fail(in, ENOMEM);
		return;
	}
	n = read(in->fd, in->buf.data + in->buf.len, READ_CHUNK);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n < 0) {
		fail(in, errno);
		return;
	}
	in->buf.len += (size_t)n;
	if (n == 0) {
		sc_input_want(in, false);
		in->ended = true;
	}
	in->hooks.ready(in->arg);
}

static void on_ready(void *arg, int events)
{
	(void)events; /* of a hang-up the read tells more */
	read_some(arg);
}

static void on_turn(void *arg)
{
	struct sc_input *in = arg;

	if (!in->wanted)
		return;
	sc_timer_start(in->turn, 0);
	read_some(in);
}

int sc_input_open(struct sc_loop *loop, int fd, size_t line_max, const struct sc_input_hooks *hooks,
		  void *arg, struct sc_input **ret_input, struct sc_err *err)
{
	struct sc_input *in = sc_calloc(1, sizeof(*in));
	struct stat st;
	int rc;

	if (!in)
		return sc_err_nomem(err, "cannot read standard input");
	in->loop = loop;
	in->fd = fd;
	in->line_max = line_max;
	in->hooks = *hooks;
	in->arg = arg;
	sc_bytes_init(&in->buf, SIZE_MAX / 2);
	if (fstat(fd, &st) < 0)
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot read standard input");
	else
		rc = sc_timer_new(loop, on_turn, in, &in->turn, err);
	if (rc < 0) {
		sc_input_close(in);
		return rc;
	}
	in->file = !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ||
		     (S_ISCHR(st.st_mode) && isatty(fd)));
	*ret_input = in;
	return 0;
}

void sc_input_close(struct sc_input *in)
{
	if (!in)
		return;
	sc_watch_free(in->watch);
	sc_timer_free(in->turn);
	sc_bytes_done(&in->buf);
	free(in);
}

void sc_input_want(struct sc_input *in, bool on)
{
	struct sc_err err;

	if (in->ended || in->wanted == on)
		return;
	in->wanted = on;
	if (in->file) {
		if (on)
			sc_timer_start(in->turn, 0);
		else
			sc_timer_stop(in->turn);
	} else if (!on) { /* a hang-up would be told again and again */
		sc_watch_free(in->watch);
		in->watch = NULL;
	} else if (sc_watch_new(in->loop, in->fd, SC_READABLE, on_ready, in, &in->watch, &err) <
		   0) {
		in->file = true; /* what cannot be watched is read in turns */
		sc_timer_start(in->turn, 0);
	}
}

int sc_input_line(struct sc_input *in, struct sc_span *ret_line, uint64_t *ret_number,
		  struct sc_err *err)
{
	const char *from = in->buf.data + in->at, *lf = NULL;
	size_t left = in->buf.len - in->at, len;

	if (in->searched < left)
		lf = memchr(from + in->searched, '\n', left - in->searched);
	len = lf ? (size_t)(lf - from) : left;
	if (len > in->line_max) {
		char digits[24];

		digits[sc_u64_digits(digits, in->number + 1)] = '\0';
		sc_err_set(err, SC_E_DATA, "cannot publish", "it is longer than %zu bytes",
			   in->line_max);
		sc_err_on(err, "line", digits);
		sc_err_field_u64(err, "line", in->number + 1);
		return sc_err_next(err, "allow longer ones with --max-message");
	}
	if (!lf && !(in->ended && left)) {
		in->searched = left;
		return 0;
	}
	in->at += lf ? len + 1 : len;
	in->searched = 0;
	*ret_line = sc_span(from, len);
	*ret_number = ++in->number;
	return 1;
}

bool sc_input_ended(const struct sc_input *in)
{
	return in->ended && in->at == in->buf.len;
}
