/* client/capture.c: one feed, held on to, as lines. */
#include "client/capture.h"

#include "client/ending.h"
#include "net/loop.h"

struct capture {
	const struct sc_capture_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_sink *sink;
	struct sc_mapper *mapper;
	struct sc_events *events;
	struct sc_ending *ending;
	struct sc_timer *stop_timer, *quiet_timer;
	struct sc_bytes lines;
	struct sc_capture_result result;
};

static bool ending(const struct capture *c)
{
	return sc_ending_is_begun(c->ending);
}

static void on_ending(void *arg)
{
	struct capture *c = arg;

	sc_timer_stop(c->quiet_timer);
	sc_timer_stop(c->stop_timer);
	if (sc_client_paused(c->client))
		sc_client_resume(c->client); /* what was read ahead is thrown away by the close */
	sc_client_close(c->client, 1000, "");
}

static void on_stop(void *arg)
{
	sc_ending_begin(((struct capture *)arg)->ending);
}

static void on_opened(void *arg, const struct sc_client_opened *opened)
{
	struct capture *c = arg;
	struct sc_err err;

	sc_events_connected(c->events, opened);
	for (size_t i = 0; i < c->o->send_count; i++)
		if (sc_client_send(c->client, sc_span_str(c->o->sends[i]), false, &err) < 0) {
			sc_ending_fail(c->ending, &err);
			return;
		}
	if (c->o->quiet_ms >= 0)
		sc_timer_start(c->quiet_timer, c->o->quiet_ms);
}

static void on_message(void *arg, const struct sc_client_message *message)
{
	struct capture *c = arg;
	struct sc_err err;
	uint64_t lines;

	if (ending(c) || sc_ending_has_failed(c->ending))
		return;
	sc_bytes_clear(&c->lines);
	if (sc_mapper_lines(c->mapper, message->payload, message->binary, message->received_us,
			    &c->lines, &lines, &err) < 0) {
		sc_ending_give_up(c->ending, &err);
		return;
	}
	if (sc_sink_put(c->sink, sc_span(c->lines.data, c->lines.len), 0, &err) < 0) {
		sc_ending_fail(c->ending, &err);
		return;
	}
	c->result.messages++;
	c->result.lines += lines;
	if (c->o->quiet_ms >= 0)
		sc_timer_start(c->quiet_timer, c->o->quiet_ms);
	if (c->o->count && c->result.messages >= c->o->count) {
		sc_ending_begin(c->ending);
	} else if (sc_sink_full(c->sink)) {
		sc_client_pause(c->client);
		sc_timer_stop(c->quiet_timer); /* not the feed is silent: our reader is */
	}
}

static void on_batch(void *arg)
{
	struct capture *c = arg;
	struct sc_err err;

	if (sc_sink_flush(c->sink, &err) < 0)
		sc_ending_fail(c->ending, &err);
	else if (!ending(c) && sc_client_paused(c->client) && !sc_sink_full(c->sink))
		sc_client_resume(c->client);
}

static enum sc_client_next on_ended(void *arg, const struct sc_client_ended *ended)
{
	struct capture *c = arg;
	struct sc_client_ended told = *ended;

	if (ending(c))
		told.wait_ms = -1;
	sc_events_ended(c->events, &told, 0);
	return ending(c) ? SC_CLIENT_END : SC_CLIENT_STANDARD;
}

static void on_finished(void *arg, const struct sc_err *err)
{
	struct capture *c = arg;

	if (!ending(c) && err->code)
		sc_ending_note(c->ending, err);
	sc_ending_closed(c->ending);
}

static void on_warning(void *arg, const char *text)
{
	sc_events_warning(((struct capture *)arg)->events, text);
}

static void on_room(void *arg)
{
	struct capture *c = arg;

	if (ending(c))
		return;
	if (c->o->quiet_ms >= 0 && sc_client_is_open(c->client))
		sc_timer_start(c->quiet_timer, c->o->quiet_ms);
	sc_client_resume(c->client);
}

static void on_sink_failed(void *arg, const struct sc_err *err)
{
	sc_ending_fail(((struct capture *)arg)->ending, err);
}

static void on_skipped(void *arg, struct sc_span message, const struct sc_err *err)
{
	struct capture *c = arg;

	sc_events_skipped(c->events, message, err, sc_mapper_skipped(c->mapper));
}

static int set_up(struct capture *c, struct sc_err *err)
{
	static const struct sc_client_hooks hooks = {
		.opened = on_opened,
		.message = on_message,
		.batch = on_batch,
		.ended = on_ended,
		.finished = on_finished,
		.warning = on_warning,
	};
	struct sc_mapper_options rows = c->o->rows;
	struct sc_sink_options sink = {
		.fd = c->o->fd,
		.name = "standard output",
		.ack_fd = -1,
		.room = on_room,
		.failed = on_sink_failed,
		.arg = c,
	};
	int rc;

	rows.skipped = on_skipped;
	rows.arg = c;
	rc = sc_loop_new(&c->loop, err);
	if (rc == 0)
		rc = sc_mapper_new(&rows, &c->mapper, err);
	if (rc == 0)
		rc = sc_events_open(&c->o->events, &c->events, err);
	if (rc == 0)
		rc = sc_sink_new(c->loop, &sink, &c->sink, err);
	if (rc == 0)
		rc = sc_timer_new(c->loop, on_stop, c, &c->stop_timer, err);
	if (rc == 0)
		rc = sc_timer_new(c->loop, on_stop, c, &c->quiet_timer, err);
	if (rc == 0)
		rc = sc_ending_new(c->loop, c->sink, SC_ENDING_MS, on_ending, c, &c->ending, err);
	if (rc == 0)
		rc = sc_client_new(c->loop, &c->o->connection, &hooks, c, &c->client, err);
	return rc;
}

int sc_capture_run(const struct sc_capture_options *options, struct sc_capture_result *ret_result,
		   struct sc_err *err)
{
	struct capture c = { .o = options };
	int rc;

	sc_bytes_init(&c.lines, SIZE_MAX / 4);
	rc = set_up(&c, err);
	if (rc == 0) {
		if (options->for_ms >= 0)
			sc_timer_start(c.stop_timer, options->for_ms);
		rc = sc_loop_run(c.loop, err);
	}
	if (rc == 0)
		rc = sc_ending_result(c.ending, err);
	c.result.skipped = c.mapper ? sc_mapper_skipped(c.mapper) : 0;
	c.result.signo = sc_ending_signo(c.ending);
	sc_client_free(c.client);
	sc_ending_free(c.ending);
	sc_timer_free(c.quiet_timer);
	sc_timer_free(c.stop_timer);
	sc_sink_free(c.sink);
	sc_events_close(c.events);
	sc_mapper_free(c.mapper);
	sc_loop_free(c.loop);
	sc_bytes_done(&c.lines);
	*ret_result = c.result;
	return rc;
}
