/* client/delivery.c: see client/delivery.h. */
#include "client/delivery.h"

#include <stdlib.h>

#include "base/file.h"
#include "client/rows.h"
#include "client/sink.h"

#define SAVE_MS 1000 /* how often the cursor follows a pipe's reader */

struct sc_delivery {
	struct sc_loop *loop;
	struct sc_delivery_hooks hooks;
	void *arg;
	struct sc_rows *rows;
	struct sc_sink *sink;
	struct sc_cursor *cursor;
	struct sc_ending *ending;
	struct sc_timer *idle_timer, *save_timer;
	int64_t idle_ms;
	struct sc_bytes text;
	uint64_t lines;
	bool failed; /* the consumer */
};

/* The cursor goes to what the consumer has finished, and no further. */
static int save(struct sc_delivery *d, struct sc_err *err)
{
	uint64_t done;
	int rc;

	if (!d->cursor)
		return 0;
	rc = sc_sink_settle(d->sink, err);
	if (rc < 0)
		return rc;
	done = sc_sink_done(d->sink);
	if (!done)
		return 0;
	return d->hooks.keep ? d->hooks.keep(d->arg, d->cursor, done, err)
			     : sc_cursor_move(d->cursor, done, true, err);
}

static void on_moved(void *arg)
{
	struct sc_delivery *d = arg;
	struct sc_err err;

	if (save(d, &err) < 0)
		sc_ending_fail(d->ending, &err);
}

static void on_save(void *arg)
{
	struct sc_delivery *d = arg;

	on_moved(d);
	sc_timer_start(d->save_timer, SAVE_MS);
}

static void on_idle(void *arg)
{
	sc_ending_begin(((struct sc_delivery *)arg)->ending);
}

static void on_ending(void *arg)
{
	struct sc_delivery *d = arg;

	sc_timer_stop(d->idle_timer);
	d->hooks.ending(d->arg);
}

static void on_room(void *arg)
{
	struct sc_delivery *d = arg;

	if (!sc_ending_is_begun(d->ending))
		d->hooks.room(d->arg);
}

static void on_failed(void *arg, const struct sc_err *err)
{
	struct sc_delivery *d = arg;

	d->failed = true;
	if (err->code ==
	    SC_E_PARTIAL) /* Ctrl-C reaches the command as well, whose end may be seen first */
		sc_ending_note_signal(d->ending, sc_loop_signal_pending());
	if (err->code == SC_E_PARTIAL && sc_ending_signo(d->ending))
		sc_loop_stop(d->loop); /* the command was ended with us: its rows come again */
	else
		sc_ending_fail(d->ending, err);
}

static int set_up(struct sc_delivery *d, const struct sc_delivery_options *o, struct sc_err *err)
{
	struct sc_sink_options sink = {
		.fd = o->fd,
		.name = "standard output",
		.exec = o->exec,
		.exec_rows = o->exec_rows,
		.ack_fd = o->ack_fd,
		.room = on_room,
		.moved = on_moved,
		.failed = on_failed,
		.arg = d,
	};
	int rc = sc_rows_new(o->filter, o->payload, &d->rows, err);

	if (rc == 0 && o->cursor)
		rc = sc_cursor_open(o->cursor, &d->cursor, err);
	if (rc == 0)
		rc = sc_sink_new(d->loop, &sink, &d->sink, err);
	if (rc == 0)
		rc = sc_ending_new(d->loop, d->sink, SC_ENDING_MS, on_ending, d, &d->ending, err);
	if (rc == 0)
		rc = sc_timer_new(d->loop, on_idle, d, &d->idle_timer, err);
	if (rc == 0)
		rc = sc_timer_new(d->loop, on_save, d, &d->save_timer, err);
	return rc;
}

int sc_delivery_new(struct sc_loop *loop, const struct sc_delivery_options *options,
		    const struct sc_delivery_hooks *hooks, void *arg,
		    struct sc_delivery **ret_delivery, struct sc_err *err)
{
	struct sc_delivery *d = sc_calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return sc_err_nomem(err, "cannot subscribe");
	d->loop = loop;
	d->hooks = *hooks;
	d->arg = arg;
	d->idle_ms = options->idle_ms;
	sc_bytes_init(&d->text, SIZE_MAX / 4);
	rc = set_up(d, options, err);
	if (rc < 0) {
		sc_delivery_free(d);
		return rc;
	}
	*ret_delivery = d;
	return 0;
}

void sc_delivery_free(struct sc_delivery *d)
{
	if (!d)
		return;
	sc_timer_free(d->save_timer);
	sc_timer_free(d->idle_timer);
	sc_ending_free(d->ending);
	sc_sink_free(d->sink);
	sc_cursor_close(d->cursor);
	sc_rows_free(d->rows);
	sc_bytes_done(&d->text);
	free(d);
}

struct sc_ending *sc_delivery_ending(struct sc_delivery *d)
{
	return d->ending;
}

struct sc_cursor *sc_delivery_cursor(struct sc_delivery *d)
{
	return d->cursor;
}

int sc_delivery_row(struct sc_delivery *d, const struct sc_data *row, uint64_t key,
		    uint64_t *ret_lines, struct sc_err *err)
{
	uint64_t lines;
	int rc;

	sc_bytes_clear(&d->text);
	rc = sc_rows_lines(d->rows, row, &d->text, &lines, err);
	if (rc == 0) /* none: the filter dropped it, and it is finished with those before it */
		rc = sc_sink_put(d->sink, sc_span(d->text.data, d->text.len), key, err);
	if (rc < 0)
		return rc;
	d->lines += lines;
	*ret_lines = lines;
	return 0;
}

int sc_delivery_skip(struct sc_delivery *d, uint64_t key, struct sc_err *err)
{
	return sc_sink_put(d->sink, sc_span("", 0), key, err);
}

bool sc_delivery_full(const struct sc_delivery *d)
{
	return sc_sink_full(d->sink);
}

bool sc_delivery_flush(struct sc_delivery *d)
{
	struct sc_err err;

	if (d->failed)
		return false;
	if (sc_sink_flush(d->sink, &err) == 0)
		return true;
	sc_ending_fail(d->ending, &err);
	return false;
}

void sc_delivery_watch(struct sc_delivery *d, bool on)
{
	if (on && d->idle_ms >= 0 && !sc_ending_is_begun(d->ending))
		sc_timer_start(d->idle_timer, d->idle_ms);
	else
		sc_timer_stop(d->idle_timer);
}

void sc_delivery_closed(struct sc_delivery *d, const struct sc_err *why)
{
	if (!sc_ending_is_begun(d->ending) && why->code)
		sc_ending_note(d->ending, why);
	/* the consumer gets the end of its input after the last line */
	if (!sc_ending_has_failed(d->ending) && !sc_ending_signo(d->ending))
		sc_sink_finish(d->sink);
	sc_ending_closed(d->ending);
}

int sc_delivery_run(struct sc_delivery *d, struct sc_err *err)
{
	struct sc_err late;
	int rc;

	if (d->cursor)
		sc_timer_start(d->save_timer, SAVE_MS);
	rc = sc_loop_run(d->loop, err);
	if (rc == 0)
		rc = sc_ending_result(d->ending, err);
	if (save(d, &late) == 0 || rc < 0)
		return rc;
	if (err)
		*err = late;
	return late.code;
}

uint64_t sc_delivery_lines(const struct sc_delivery *d)
{
	return d->lines;
}
