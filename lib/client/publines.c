/* client/publines.c: see client/publines.h. */
#include "client/publines.h"

#include <stdlib.h>

#include "base/file.h"
#include "client/input.h"
#include "client/sink.h"

#define DRAIN_MS 1500 /* after a signal: how long replies and a busy reader are waited for */

static const char tried[] = "cannot publish";

struct sc_publines {
	struct sc_publines_hooks hooks;
	void *arg;
	struct sc_input *input;
	struct sc_pubrow *rows;
	struct sc_sink *sink; /* NULL when nobody wants the lines */
	struct sc_ending *ending;
	struct sc_bytes text; /* lines that go out next */
	bool refused;
	struct sc_publication_result result;
};

static void on_input(void *arg)
{
	struct sc_publines *l = arg;

	l->hooks.ready(l->arg);
}

static void on_input_failed(void *arg, const struct sc_err *err)
{
	struct sc_publines *l = arg;

	sc_publines_refuse(l, err);
	l->hooks.ready(l->arg);
}

/* What is on its way is still acknowledged, and no more taken. */
static void on_sink_failed(void *arg, const struct sc_err *err)
{
	struct sc_publines *l = arg;

	sc_ending_note(l->ending, err);
	sc_ending_left(l->ending);
	sc_sink_free(l->sink);
	l->sink = NULL;
	sc_ending_begin(l->ending);
	if (l->hooks.left)
		l->hooks.left(l->arg);
}

static void on_room(void *arg)
{
	struct sc_publines *l = arg;

	l->hooks.room(l->arg);
}

static void on_ending(void *arg)
{
	struct sc_publines *l = arg;

	sc_input_want(l->input, false);
	l->hooks.ending(l->arg);
}

static int set_up(struct sc_publines *l, struct sc_loop *loop,
		  const struct sc_publication_options *o, struct sc_err *err)
{
	static const struct sc_input_hooks input = { on_input, on_input_failed };
	struct sc_sink_options sink = {
		.fd = o->out_fd,
		.name = "standard output",
		.ack_fd = -1,
		.room = on_room,
		.failed = on_sink_failed,
		.arg = l,
	};
	int rc = sc_pubrow_new(&o->rows, &l->rows, err);

	if (rc == 0 && o->out_fd >= 0)
		rc = sc_sink_new(loop, &sink, &l->sink, err);
	if (rc == 0)
		rc = sc_ending_new(loop, l->sink, DRAIN_MS, on_ending, l, &l->ending, err);
	if (rc == 0)
		rc = sc_input_open(loop, o->in_fd, (size_t)o->connection.message_max, &input, l,
				   &l->input, err);
	return rc;
}

int sc_publines_new(struct sc_loop *loop, const struct sc_publication_options *options,
		    const struct sc_publines_hooks *hooks, void *arg,
		    struct sc_publines **ret_publines, struct sc_err *err)
{
	struct sc_publines *l = sc_calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return sc_err_nomem(err, tried);
	l->hooks = *hooks;
	l->arg = arg;
	sc_bytes_init(&l->text, SIZE_MAX / 4);
	rc = set_up(l, loop, options, err);
	if (rc < 0) {
		sc_publines_free(l);
		return rc;
	}
	*ret_publines = l;
	return 0;
}

void sc_publines_free(struct sc_publines *l)
{
	if (!l)
		return;
	sc_input_close(l->input);
	sc_ending_free(l->ending);
	sc_sink_free(l->sink);
	sc_pubrow_free(l->rows);
	sc_bytes_done(&l->text);
	free(l);
}

struct sc_ending *sc_publines_ending(struct sc_publines *l)
{
	return l->ending;
}

struct sc_pubrow *sc_publines_rows(struct sc_publines *l)
{
	return l->rows;
}

struct sc_publication_result *sc_publines_result(struct sc_publines *l)
{
	return &l->result;
}

bool sc_publines_take(struct sc_publines *l, struct sc_publines_row *ret_row)
{
	struct sc_span line;
	struct sc_err err;
	int rc;

	while (!l->refused) {
		rc = sc_input_line(l->input, &line, &ret_row->line, &err);
		if (rc == 0)
			return false;
		if (rc == 1) {
			l->result.lines++;
			rc = sc_pubrow_take(l->rows, line, ret_row->line, &ret_row->text,
					    &ret_row->number, &err);
		}
		if (rc == 1)
			return true;
		if (rc == 2)
			l->result.skipped++;
		else if (rc < 0)
			sc_publines_refuse(l, &err);
	}
	return false;
}

void sc_publines_want(struct sc_publines *l, bool on)
{
	sc_input_want(l->input, on && !l->refused);
}

bool sc_publines_ended(const struct sc_publines *l)
{
	return sc_input_ended(l->input);
}

void sc_publines_refuse(struct sc_publines *l, const struct sc_err *err)
{
	sc_ending_note(l->ending, err);
	l->refused = true;
	sc_input_want(l->input, false);
}

bool sc_publines_refused(const struct sc_publines *l)
{
	return l->refused;
}

int sc_publines_stored(struct sc_publines *l, struct sc_span row, uint64_t offset, uint64_t number,
		       struct sc_err *err)
{
	l->result.rows++;
	if (offset)
		l->result.last = offset;
	l->result.last_number = number;
	if (l->sink && sc_pubrow_line(l->rows, row, offset, &l->text) < 0)
		return sc_err_nomem(err, "cannot print lines");
	return 0;
}

void sc_publines_print(struct sc_publines *l)
{
	struct sc_span text = sc_span(l->text.data, l->text.len);
	struct sc_err err;

	if (l->sink && text.len && sc_sink_put(l->sink, text, 0, &err) < 0)
		on_sink_failed(l, &err);
	sc_bytes_clear(&l->text);
}

bool sc_publines_flush(struct sc_publines *l)
{
	struct sc_err err;

	if (l->sink && sc_sink_flush(l->sink, &err) < 0) {
		on_sink_failed(l, &err);
		return false;
	}
	return true;
}

bool sc_publines_full(const struct sc_publines *l)
{
	return l->sink && sc_sink_full(l->sink);
}

void sc_publines_closed(struct sc_publines *l)
{
	sc_input_want(l->input, false);
	if (l->sink)
		sc_sink_finish(l->sink);
	sc_ending_closed(l->ending);
}
