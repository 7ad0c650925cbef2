/* client/events.c: the life of a connection, in words and as JSON lines. */
#include "client/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/output.h"

#define EVENT_MAX 8192
#define SHOWN_MESSAGE_MAX 200

struct sc_events {
	struct sc_events_options o;
	struct sc_output *output; /* NULL: nobody asked, or its reader has left */
	struct sc_bytes line;
	bool broken;   /* the line could not be put together */
	uint64_t lost; /* events that did not fit */
};

int sc_events_open(const struct sc_events_options *options, struct sc_events **ret_events,
		   struct sc_err *err)
{
	struct sc_events *e = sc_calloc(1, sizeof(*e));
	int rc = 0;

	if (!e)
		return sc_err_nomem(err, "cannot set up events");
	e->o = *options;
	sc_bytes_init(&e->line, EVENT_MAX);
	if (options->fd >= 0)
		rc = sc_output_open(options->fd, "events", &e->output, err);
	if (rc < 0) {
		sc_events_close(e);
		return rc;
	}
	*ret_events = e;
	return 0;
}

void sc_events_close(struct sc_events *e)
{
	if (!e)
		return;
	if (e->output)
		sc_output_drain(e->output, 1000, NULL);
	sc_output_close(e->output);
	sc_bytes_done(&e->line);
	free(e);
}

static void begin(struct sc_events *e, const char *event)
{
	char now[SC_TIME_TEXT];

	sc_bytes_clear(&e->line);
	e->broken = false;
	sc_time_text(sc_wall_us(), now);
	e->broken |= sc_bytes_putf(&e->line, "{\"time\":\"%s\",\"event\":\"%s\"", now, event) < 0;
}

static void put_int(struct sc_events *e, const char *name, int64_t value)
{
	e->broken |= sc_bytes_putf(&e->line, ",\"%s\":%lld", name, (long long)value) < 0;
}

static void put_text(struct sc_events *e, const char *name, struct sc_span value)
{
	e->broken |= sc_bytes_putf(&e->line, ",\"%s\":", name) < 0;
	e->broken |= sc_bytes_put_json(&e->line, value) < 0;
}

static void put_err(struct sc_events *e, const struct sc_err *err)
{
	char reason[1200];

	if (!err || !err->code)
		return;
	sc_err_line(err, reason, sizeof(reason));
	put_text(e, "reason", sc_span_str(reason));
}

/* The members without the braces and the time, as sc_say_fields takes them. */
static void end(struct sc_events *e)
{
	struct sc_err err;

	if (!e->output)
		return;
	if (e->lost)
		put_int(e, "events_lost", (int64_t)e->lost);
	if (e->broken || sc_output_full(e->output)) { /* half a line is worse than none */
		e->lost++;
		return;
	}
	if (sc_bytes_puts(&e->line, "}\n") < 0 ||
	    sc_output_put(e->output, sc_span(e->line.data, e->line.len), 0, &err) < 0) {
		e->lost++;
		return;
	}
	e->lost = 0;
	if (sc_output_flush(e->output, &err) < 0) {
		sc_output_close(e->output);
		e->output = NULL;
		if (e->o.say)
			e->o.say(SC_WARNING, NULL, "events are not told any more: %s", err.reason);
	}
}

static void tell(struct sc_events *e, enum sc_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void tell(struct sc_events *e, enum sc_level level, const char *format, ...)
{
	char text[1600];
	va_list args;

	if (!e->o.say)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	e->o.say(level, NULL, "%s", text);
}

void sc_events_connected(struct sc_events *e, const struct sc_client_opened *opened)
{
	begin(e, "connected");
	put_text(e, "where", sc_span_str(opened->where));
	put_text(e, "address", sc_span_str(opened->address));
	put_int(e, "connection", (int64_t)opened->number);
	put_int(e, "took_ms", opened->took_ms);
	if (opened->down_ms >= 0)
		put_int(e, "down_ms", opened->down_ms);
	end(e);
	if (opened->down_ms >= 0)
		tell(e, SC_NOTICE, "connected to %s again after %lld.%03lld s", opened->where,
		     (long long)(opened->down_ms / 1000), (long long)(opened->down_ms % 1000));
	else
		tell(e, SC_INFO, "connected to %s", opened->where);
}

void sc_events_ended(struct sc_events *e, const struct sc_client_ended *ended, uint64_t resume)
{
	char reason[1200] = "";

	begin(e, ended->was_open ? "lost" : "failed");
	put_text(e, "where", sc_span_str(ended->where));
	if (ended->address[0])
		put_text(e, "address", sc_span_str(ended->address));
	if (ended->was_open) {
		put_int(e, "code", ended->close_code);
		put_text(e, "close_reason", ended->close_reason);
		put_int(e, "lasted_ms", ended->lasted_ms);
		put_int(e, "messages", (int64_t)ended->messages);
	} else if (ended->status) {
		put_int(e, "http_status", ended->status);
	}
	put_err(e, ended->err);
	if (resume)
		put_int(e, "resume", (int64_t)resume);
	if (ended->wait_ms >= 0)
		put_int(e, "retry_ms", ended->wait_ms);
	end(e);
	if (ended->err && ended->err->code)
		sc_err_line(ended->err, reason, sizeof(reason));
	if (ended->wait_ms >= 0) /* a failure that ends the program is told by its last line */
		tell(e, SC_WARNING, "%s; trying again in %lld.%03lld s",
		     reason[0] ? reason : "the connection was closed",
		     (long long)(ended->wait_ms / 1000), (long long)(ended->wait_ms % 1000));
	else
		tell(e, SC_INFO, "%s", reason[0] ? reason : "the connection was closed");
}

void sc_events_gap(struct sc_events *e, bool known, uint64_t first, uint64_t last)
{
	begin(e, "gap");
	if (known) {
		put_int(e, "first", (int64_t)first);
		put_int(e, "last", (int64_t)last);
	}
	end(e);
	if (known)
		tell(e, SC_WARNING, "offsets %llu to %llu are left out: the log does not have them",
		     (unsigned long long)first, (unsigned long long)last);
	else
		tell(e, SC_WARNING,
		     "rows sent while the connection was down are lost: the stream has no log");
}

void sc_events_slow(struct sc_events *e, const struct sc_err *err, uint64_t resume)
{
	begin(e, "slow");
	put_err(e, err);
	if (resume)
		put_int(e, "resume", (int64_t)resume);
	end(e);
}

void sc_events_skipped(struct sc_events *e, struct sc_span message, const struct sc_err *err,
		       uint64_t total)
{
	if (message.len > SHOWN_MESSAGE_MAX)
		message.len = SHOWN_MESSAGE_MAX;
	begin(e, "skipped");
	put_err(e, err);
	put_text(e, "message", message);
	put_int(e, "skipped", (int64_t)total);
	end(e);
	tell(e, SC_WARNING, "a message was skipped: %s%s%s", err->reason, err->next[0] ? "; " : "",
	     err->next);
}

void sc_events_catch_up(struct sc_events *e, const char *url, uint64_t first, uint64_t next)
{
	begin(e, "catch_up");
	put_text(e, "archive", sc_span_str(url));
	put_int(e, "first", (int64_t)first);
	put_int(e, "next", (int64_t)next);
	end(e);
	tell(e, SC_NOTICE, "reading offsets %llu to %llu from the archive '%s'",
	     (unsigned long long)first, (unsigned long long)next - 1, url);
}

void sc_events_caught_up(struct sc_events *e, uint64_t rows, uint64_t resume)
{
	begin(e, "caught_up");
	put_int(e, "rows", (int64_t)rows);
	put_int(e, "resume", (int64_t)resume);
	end(e);
	tell(e, SC_INFO, "%llu rows were read from the archive; connecting at offset %llu",
	     (unsigned long long)rows, (unsigned long long)resume);
}

void sc_events_warning(struct sc_events *e, const char *text)
{
	begin(e, "warning");
	put_text(e, "text", sc_span_str(text));
	end(e);
	tell(e, SC_WARNING, "%s", text);
}

void sc_events_in_doubt(struct sc_events *e, uint64_t first, uint64_t last)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "lines %llu to %llu were sent and not acknowledged: they may be stored or not",
		 (unsigned long long)first, (unsigned long long)last);
	sc_events_warning(e, text);
}
