/* serve/input.c: a stream without a log: lines of standard input, sent as they come. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/line.h"
#include "serve/app.h"

#define READ_BYTES (256u << 10)
#define DRAIN_US 10000000 /* after the end: how long subscribers may take what is left */

static void on_input(void *arg, int events);

/* Without room the input is not watched at all: a writer that has left would be told again and
 * again. */
static int watch_input(struct sc_host *host, bool on, struct sc_err *err)
{
	if (!on) {
		sc_watch_free(host->watch);
		host->watch = NULL;
		return 0;
	}
	if (host->watch)
		return 0;
	return sc_watch_new(host->app->loop, STDIN_FILENO, SC_READABLE, on_input, host,
			    &host->watch, err);
}

/* A line is a row, a line [offset,row] of another program, or any other text, which is wrapped. */
static int add_line(struct sc_host *host, struct sc_span text, struct sc_err *err)
{
	struct sc_line line;
	int rc;

	if (text.len > 0 && text.data[text.len - 1] == '\r')
		text.len--;
	if (text.len == 0)
		return 0;
	if (!sc_line_parse(text, false, &line)) {
		sc_bytes_clear(&host->line);
		if (sc_wrap_message(text, false, &host->line) < 0)
			return sc_err_nomem(err, "cannot read a line of standard input");
		line.msg = sc_span(host->line.data, host->line.len);
	}
	rc = sc_stream_add(host->stream, line.msg, err);
	if (rc == SC_E_DATA) { /* too long: this one cannot be sent, the next ones can */
		char words[1200];

		sc_err_line(err, words, sizeof(words));
		sc_app_say(host->app, SC_WARNING, "a line of standard input was left out: %s",
			   words);
		return 0;
	}
	return rc;
}

/* Whole lines into the stream while it has room. 1: no room, the timer is set. */
static int take_lines(struct sc_host *host, struct sc_err *err)
{
	for (;;) {
		int wait_ms = 0;
		size_t room = sc_stream_room(host->stream, &wait_ms), used = 0;

		if (room == 0) {
			watch_input(host, false, NULL);
			sc_timer_start(host->timer, wait_ms);
			return 1;
		}
		while (used < room) {
			const char *at = host->input.data + host->input_at;
			size_t left = host->input.len - host->input_at;
			const char *end = left ? memchr(at, '\n', left) : NULL;
			size_t len = end ? (size_t)(end - at) : left;
			int rc;

			if (!end && !(host->input_ended && left > 0))
				return 0;
			rc = add_line(host, sc_span(at, len), err);
			if (rc < 0)
				return rc;
			host->input_at += len + (end != NULL);
			used += len + 1;
		}
	}
}

/* The input has ended and its lines are in the stream: once everybody has them the stream ends, and
 * so does a server that has no other. */
static void finish(struct sc_host *host)
{
	struct sc_stream_stats stats;
	struct sc_err err;

	if (sc_stream_stats(host->stream, &stats, &err) == 0 && stats.backlog_max > 0 &&
	    sc_mono_us() - host->input_ended_us < DRAIN_US) {
		sc_timer_start(host->timer, 10);
		return;
	}
	if (host->app->host_count == 1)
		sc_app_end(host->app, SC_CLOSE_NORMAL, "end of stream");
	else
		sc_stream_close_all(host->stream, SC_CLOSE_NORMAL, "end of stream");
}

static int read_some(struct sc_host *host, struct sc_err *err)
{
	ssize_t n;

	if (host->input_at > 0) {
		sc_bytes_drop(&host->input, host->input_at);
		host->input_at = 0;
	}
	if (sc_bytes_reserve(&host->input, READ_BYTES) < 0)
		return sc_err_nomem(err, "cannot read standard input");
	do
		n = read(STDIN_FILENO, host->input.data + host->input.len, READ_BYTES);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0) {
		sc_err_sys(err, SC_E_IO, errno, "cannot read");
		return sc_err_on(err, "input", "standard input");
	}
	host->input.len += (size_t)n;
	if (n == 0) {
		host->input_ended = true;
		host->input_ended_us = sc_mono_us();
		watch_input(host, false, NULL);
	}
	return 0;
}

/* A line longer than any message may be is not collected for ever. */
static int check_length(struct sc_host *host, struct sc_err *err)
{
	uint64_t limit = host->app->o->stream.message_max ? host->app->o->stream.message_max
							  : SC_MESSAGE_STANDARD;
	size_t left = host->input.len - host->input_at;

	if (left <= limit + READ_BYTES || memchr(host->input.data + host->input_at, '\n', left))
		return 0;
	sc_err_set(err, SC_E_DATA, "cannot read standard input", "a line is longer than %llu bytes",
		   (unsigned long long)limit);
	return sc_err_next(err, "raise the limit with --max-message");
}

static void turn(struct sc_host *host, bool may_read)
{
	struct sc_err err;
	int rc = 0;

	if (may_read && !host->input_ended)
		rc = read_some(host, &err);
	if (rc == 0)
		rc = take_lines(host, &err);
	if (rc == 0)
		rc = check_length(host, &err);
	if (rc == 0 && host->input_ended)
		finish(host);
	else if (rc == 0)
		rc = watch_input(host, true, &err);
	if (rc < 0)
		sc_app_fail(host->app, &err);
}

static void on_input(void *arg, int events)
{
	struct sc_host *host = arg;

	(void)events;
	if (!host->app->ending)
		turn(host, true);
}

void sc_input_due(struct sc_host *host)
{
	turn(host, false);
}

int sc_input_start(struct sc_host *host, struct sc_err *err)
{
	return watch_input(host, true, err);
}
