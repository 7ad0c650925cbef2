/* client/sink.c: the consumer's side of a subscription: which lines are finished. */
#include "client/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "client/exec.h"
#include "client/output.h"

#define ACK_LINE_MAX 32

struct sc_sink {
	struct sc_sink_options o;
	struct sc_loop *loop;
	struct sc_output *output; /* NULL with exec */
	struct sc_watch *out_watch;
	bool out_waits;
	struct sc_exec *exec; /* NULL without */
	struct sc_watch *ack_watch;
	char ack_line[ACK_LINE_MAX];
	size_t ack_len;
	uint64_t acked;
	uint64_t last_put; /* highest offset put */
	bool was_full;
	bool has_failed;
	struct sc_err error;
};

static void fail(struct sc_sink *s, const struct sc_err *err)
{
	if (s->has_failed)
		return;
	s->has_failed = true;
	s->error = *err;
	if (s->out_watch)
		sc_watch_set(s->out_watch, 0);
	s->o.failed(s->o.arg, &s->error);
}

static void tell_room(struct sc_sink *s)
{
	if (!s->was_full || sc_sink_full(s))
		return;
	s->was_full = false;
	s->o.room(s->o.arg);
}

static void await_output(struct sc_sink *s, bool wait)
{
	if (s->out_watch && s->out_waits != wait) {
		s->out_waits = wait;
		sc_watch_set(s->out_watch, wait ? SC_WRITABLE : 0);
	}
}

static int flush_output(struct sc_sink *s, struct sc_err *err)
{
	int rc = sc_output_flush(s->output, err);

	if (rc >= 0)
		await_output(s, rc == 0);
	return rc < 0 ? rc : 0;
}

static void on_output(void *arg, int events)
{
	struct sc_sink *s = arg;
	struct sc_err err;

	if (events & SC_HANGUP) { /* noticed also when no line is due */
		sc_err_sys(&err, SC_E_IO, EPIPE, "cannot write to");
		sc_err_on(&err, "output", s->o.name);
		fail(s, &err);
		return;
	}
	if (flush_output(s, &err) < 0) {
		fail(s, &err);
		return;
	}
	tell_room(s);
}

static void on_exec_room(void *arg)
{
	tell_room(arg);
}

static void on_exec_moved(void *arg)
{
	struct sc_sink *s = arg;

	if (s->o.moved && s->o.ack_fd < 0)
		s->o.moved(s->o.arg);
}

static void on_exec_failed(void *arg, const struct sc_err *err)
{
	fail(arg, err);
}

static int take_ack(struct sc_sink *s, struct sc_err *err)
{
	struct sc_span line = sc_span(s->ack_line, s->ack_len);
	uint64_t offset;

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	s->ack_len = 0;
	if (line.len == 0)
		return 0;
	if (!sc_u64_parse(line, &offset)) {
		sc_err_set(err, SC_E_DATA, "cannot take an acknowledgement",
			   "'%.*s' is not an offset", (int)line.len, line.data);
		return sc_err_next(err, "write the decimal offset of a finished line, one a line");
	}
	if (offset > s->last_put) {
		sc_err_set(err, SC_E_DATA, "cannot take an acknowledgement",
			   "offset %llu was not delivered, the last one is %llu",
			   (unsigned long long)offset, (unsigned long long)s->last_put);
		return sc_err_next(err, "acknowledge the first element of lines that arrived");
	}
	if (offset > s->acked)
		s->acked = offset;
	return 0;
}

static int take_acks(struct sc_sink *s, const char *data, size_t len, struct sc_err *err)
{
	for (size_t i = 0; i < len; i++) {
		int rc = 0;

		if (data[i] == '\n') {
			rc = take_ack(s, err);
		} else if (s->ack_len < sizeof(s->ack_line)) {
			s->ack_line[s->ack_len++] = data[i];
		} else {
			sc_err_set(err, SC_E_DATA, "cannot take an acknowledgement",
				   "the line is too long");
			rc = sc_err_next(err,
					 "write the decimal offset of a finished line, one a line");
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static void on_ack(void *arg, int events)
{
	struct sc_sink *s = arg;
	struct sc_err err;
	char data[4096];
	ssize_t n;

	(void)events;
	n = read(s->o.ack_fd, data, sizeof(data));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0) {
		uint64_t before = s->acked;

		if (take_acks(s, data, (size_t)n, &err) < 0)
			fail(s, &err);
		else if (s->acked > before && s->o.moved)
			s->o.moved(s->o.arg);
		return;
	}
	/* nobody can acknowledge any more: as if the reader of the output had left */
	sc_watch_free(s->ack_watch);
	s->ack_watch = NULL;
	sc_err_sys(&err, SC_E_IO, n < 0 ? errno : EPIPE, "cannot read acknowledgements");
	fail(s, &err);
}

int sc_sink_new(struct sc_loop *loop, const struct sc_sink_options *options,
		struct sc_sink **ret_sink, struct sc_err *err)
{
	struct sc_sink *s = sc_calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return sc_err_nomem(err, "cannot set up delivery");
	s->o = *options;
	s->loop = loop;
	if (options->exec) {
		rc = sc_exec_new(loop, options->exec, options->exec_rows, on_exec_room,
				 on_exec_moved, on_exec_failed, s, &s->exec, err);
	} else {
		rc = sc_output_open(options->fd, options->name, &s->output, err);
		/* a file or /dev/null cannot be polled, and never waits */
		if (rc == 0 && sc_output_polls(s->output))
			rc = sc_watch_new(loop, sc_output_fd(s->output), 0, on_output, s,
					  &s->out_watch, err);
	}
	if (rc == 0 && options->ack_fd >= 0)
		rc = sc_watch_new(loop, options->ack_fd, SC_READABLE, on_ack, s, &s->ack_watch,
				  err);
	if (rc < 0) {
		sc_sink_free(s);
		return rc;
	}
	*ret_sink = s;
	return 0;
}

void sc_sink_free(struct sc_sink *s)
{
	if (!s)
		return;
	sc_watch_free(s->ack_watch);
	sc_watch_free(s->out_watch);
	sc_exec_free(s->exec);
	sc_output_close(s->output);
	free(s);
}

int sc_sink_put(struct sc_sink *s, struct sc_span line, uint64_t offset, struct sc_err *err)
{
	int rc;

	if (s->has_failed) {
		if (err)
			*err = s->error;
		return s->error.code;
	}
	rc = s->exec ? sc_exec_put(s->exec, line, offset, err)
		     : sc_output_put(s->output, line, offset, err);
	if (rc < 0)
		return rc;
	if (line.len > 0 && offset > s->last_put)
		s->last_put = offset;
	if (sc_sink_full(s))
		s->was_full = true;
	return 0;
}

int sc_sink_flush(struct sc_sink *s, struct sc_err *err)
{
	int rc;

	if (s->has_failed) {
		if (err)
			*err = s->error;
		return s->error.code;
	}
	rc = s->exec ? sc_exec_flush(s->exec, err) : flush_output(s, err);
	if (rc == 0 && s->was_full && !sc_sink_full(s))
		s->was_full = false; /* the caller sees for itself that there is room */
	return rc;
}

bool sc_sink_full(const struct sc_sink *s)
{
	return s->exec ? sc_exec_full(s->exec) : sc_output_full(s->output);
}

uint64_t sc_sink_done(struct sc_sink *s)
{
	uint64_t done = s->exec ? sc_exec_done(s->exec) : sc_output_taken(s->output);

	if (s->o.ack_fd >= 0) /* an acknowledgement says more than a line that was taken */
		return s->acked;
	return done;
}

void sc_sink_finish(struct sc_sink *s)
{
	if (s->output)
		sc_output_finish(s->output);
}

bool sc_sink_idle(struct sc_sink *s)
{
	if (s->exec ? !sc_exec_idle(s->exec) : !sc_output_all_taken(s->output))
		return false;
	return s->o.ack_fd < 0 || s->acked >= s->last_put;
}

int sc_sink_settle(struct sc_sink *s, struct sc_err *err)
{
	return s->output ? sc_output_settle(s->output, err) : 0;
}
