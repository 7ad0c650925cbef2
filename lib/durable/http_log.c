/* http_log.c: logs as streams: rows are messages, offsets are offsets. */
#include "durable/http_log.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/sse.h"
#include "json/line.h"
#include "log/reader.h"

#define PAGE_BYTES (1u << 20)

static const char type[] = "application/json";

/* A request can ask for it, and it is not of the reserved ones. */
static bool is_name(const char *name, size_t len)
{
	bool good = len > 0 && len < SC_DS_PATH_MAX;

	for (size_t i = 0; good && i < len; i++)
		good = (unsigned char)name[i] > ' ' && name[i] != 0x7f && name[i] != '?';
	return good && !(len >= 4 && memcmp(name, "__ds", 4) == 0 && (len == 4 || name[4] == '/'));
}

static int make(const char *spec, struct sc_ds_log *log, struct sc_err *err)
{
	const char *equals = strchr(spec, '=');
	int rc;

	if (!equals || !equals[1] || !is_name(spec, (size_t)(equals - spec))) {
		sc_err_set(err, SC_E_USAGE, "cannot serve",
			   equals && equals[1] ? "no stream can have this name"
					       : "it is not NAME=LOG");
		sc_err_on(err, "log", spec);
		return sc_err_next(err, "name the stream that the log becomes: trades=data/trades");
	}
	log->name = sc_calloc((size_t)(equals - spec) + 1, 1);
	log->path = sc_calloc(strlen(equals), 1);
	if (!log->name || !log->path)
		return sc_err_nomem(err, "cannot serve");
	memcpy(log->name, spec, (size_t)(equals - spec));
	memcpy(log->path, equals + 1, strlen(equals + 1));
	rc = sc_log_open(log->path, SC_LOG_READ, &log->log, err);
	return rc < 0 ? rc : sc_follow_open(log->log, &log->follow, err);
}

int sc_ds_logs_init(struct sc_ds_logs *logs, const char *const *specs, size_t count,
		    struct sc_err *err)
{
	int rc = 0;

	*logs = (struct sc_ds_logs){ .made = true };
	pthread_mutex_init(&logs->lock, NULL);
	logs->logs = count ? sc_calloc(count, sizeof(*logs->logs)) : NULL;
	if (count && !logs->logs)
		return sc_err_nomem(err, "cannot serve");
	for (size_t i = 0; rc == 0 && i < count; i++) {
		size_t other;

		logs->count = i + 1;
		rc = make(specs[i], &logs->logs[i], err);
		if (rc == 0 && sc_ds_logs_find(logs, sc_span_str(logs->logs[i].name), &other) &&
		    other != i) {
			sc_err_set(err, SC_E_USAGE, "cannot serve",
				   "two logs are to have this name");
			rc = sc_err_on(err, "stream", logs->logs[i].name);
		}
	}
	return rc;
}

void sc_ds_logs_done(struct sc_ds_logs *logs)
{
	for (size_t i = 0; i < logs->count; i++) {
		sc_follow_close(logs->logs[i].follow);
		sc_log_close(logs->logs[i].log);
		free(logs->logs[i].name);
		free(logs->logs[i].path);
	}
	free(logs->logs);
	if (logs->made)
		pthread_mutex_destroy(&logs->lock);
	*logs = (struct sc_ds_logs){ .logs = NULL };
}

bool sc_ds_logs_find(const struct sc_ds_logs *logs, struct sc_span name, size_t *ret_at)
{
	for (size_t i = 0; i < logs->count; i++)
		if (logs->logs[i].name && sc_span_is(name, logs->logs[i].name)) {
			*ret_at = i;
			return true;
		}
	return false;
}

/* The log's life, for ETags: its stream id, which no other log has. */
static uint64_t life_of(struct sc_log *log)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = sc_log_stream_id(log); *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return hash;
}

/* Rows up to the frontier, whether there are some or not: a restored log has jumped ahead. */
static int look(struct sc_ds_logs *logs, size_t at, struct sc_log **handle,
		struct sc_ds_stream *ret_stream, struct sc_err *err)
{
	struct sc_log_state state;
	int rc = 0;

	if (!*handle)
		rc = sc_log_open(logs->logs[at].path, SC_LOG_READ, handle, err);
	if (rc == 0)
		rc = sc_log_state(*handle, &state, err);
	if (rc < 0)
		return rc;
	*ret_stream = (struct sc_ds_stream){
		.sid = life_of(*handle),
		.type = SC_SPAN(type),
		.tail = state.next_offset - 1,
		.first = state.first_offset - 1,
	};
	return 0;
}

static const char tried_read[] = "cannot read the log";

/* Of LINES what is below TAIL, to about MOST bytes: 1 = there is more. */
static int put_rows(struct sc_span lines, uint64_t tail, size_t most, struct sc_bytes *out,
		    uint64_t *ret_end, struct sc_err *err)
{
	const char *at = lines.data, *end = lines.data + lines.len;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		struct sc_line line;

		if (!stop || !sc_line_parse(sc_span(at, (size_t)(stop - at)), true, &line))
			return sc_err_set(err, SC_E_DATA, tried_read,
					  "what lies behind row %llu is no line",
					  (unsigned long long)*ret_end);
		if (line.offset > tail)
			return 1;
		if ((out->len > 1 && sc_bytes_putc(out, ',') < 0) ||
		    sc_bytes_put(out, line.msg.data, line.msg.len) < 0)
			return sc_err_nomem(err, tried_read);
		*ret_end = line.offset;
		at = stop + 1;
		if (out->len >= most && at < end)
			return 1;
	}
	return 0;
}

/* Rows from START, to about MOST bytes: a JSON array. *ret_end: behind the last of them. */
static int read_rows(struct sc_log *log, uint64_t start, uint64_t tail, size_t most,
		     struct sc_bytes *out, uint64_t *ret_end, struct sc_err *err)
{
	struct sc_reader *reader = NULL;
	struct sc_run run;
	int rc = 0, more = 0;

	*ret_end = start;
	if (sc_bytes_putc(out, '[') < 0)
		return sc_err_nomem(err, tried_read);
	if (start < tail)
		rc = sc_reader_open(log, start + 1, &reader, err);
	while (rc == 0 && reader && more == 0 && out->len < most) {
		rc = sc_reader_next(reader, most, &run, err);
		if (rc <= 0)
			break;
		more = put_rows(run.lines, tail, most, out, ret_end, err);
		rc = more < 0 ? more : 0;
	}
	/* read to the end: what lies between the last row and the frontier was never a row */
	if (rc == 0 && more == 0 && out->len < most)
		*ret_end = tail;
	sc_reader_close(reader);
	if (rc >= 0 && sc_bytes_putc(out, ']') < 0)
		rc = sc_err_nomem(err, tried_read);
	return rc < 0 ? rc : 0;
}

static int start_read(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		      struct sc_ds_log_reader *reader, bool *ret_now, struct sc_ds_answer *answer)
{
	struct sc_ds_read_plan plan;

	if (!sc_ds_read_decide(request, stream, sc_wall_us(), &plan, answer))
		return 0;
	reader->started = true;
	reader->live = plan.live;
	reader->at = plan.start;
	*ret_now = plan.now && plan.live == SC_DS_CATCH_UP;
	return 1;
}

static int answer_it(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		     struct sc_ds_read_found *found, struct sc_ds_log_reader *reader,
		     struct sc_ds_answer *answer)
{
	char cursor[SC_DS_CURSOR_TEXT] = "";
	struct sc_bytes payload = answer->body;
	int rc;

	if (reader->live != SC_DS_CATCH_UP)
		sc_ds_cursor_next(request->query.cursor, sc_wall_us(), sc_random_below(1u << 30),
				  cursor);
	found->cursor = cursor;
	reader->at = found->end;
	if (reader->live != SC_DS_SSE)
		return sc_ds_read_answer(stream, found, answer);
	found->again = reader->moved;
	sc_bytes_init(&answer->body, payload.max);
	rc = sc_ds_read_events(stream, found, sc_span(payload.data, payload.len), answer);
	if (answer->body.len)
		reader->moved = true;
	sc_bytes_done(&payload);
	return rc;
}

int sc_ds_log_read(struct sc_ds_logs *logs, size_t at, struct sc_log **handle,
		   const struct sc_ds_request *request, struct sc_ds_log_reader *reader, bool last,
		   struct sc_ds_answer *answer, struct sc_err *err)
{
	struct sc_ds_stream stream;
	struct sc_ds_read_found found = { .last = last, .if_none_match = request->if_none_match };
	uint64_t changes = atomic_load(&logs->logs[at].changes);
	int rc = look(logs, at, handle, &stream, err);

	if (rc < 0)
		return rc;
	sc_ds_answer_clear(answer);
	if (!reader->started && !start_read(request, &stream, reader, &found.now, answer))
		return 0;
	reader->log = at;
	reader->changes = changes;
	if (reader->at < stream.first) {
		sc_ds_answer_error(answer, 410, "what is at this offset was trimmed");
		return 0;
	}
	found.live = reader->live;
	found.start = reader->at;
	rc = read_rows(*handle, reader->at, stream.tail,
		       reader->live == SC_DS_SSE ? SC_DS_SSE_BYTES : PAGE_BYTES, &answer->body,
		       &found.end, err);
	if (rc == SC_E_REFUSED) { /* trimmed in between */
		sc_ds_answer_error(answer, 410, "what is at this offset was trimmed");
		return 0;
	}
	if (rc == 0 && answer_it(request, &stream, &found, reader, answer) < 0)
		rc = sc_err_nomem(err, tried_read);
	return rc;
}

int sc_ds_log_head(struct sc_ds_logs *logs, size_t at, struct sc_log **handle,
		   struct sc_ds_answer *answer, struct sc_err *err)
{
	struct sc_ds_stream stream;
	int rc = look(logs, at, handle, &stream, err);

	if (rc == 0 && sc_ds_head_answer(&stream, sc_wall_us(), answer) < 0)
		rc = sc_err_nomem(err, tried_read);
	return rc;
}

/* Waiting. */

int sc_ds_logs_wait(struct sc_ds_logs *logs, const struct sc_ds_log_reader *reader,
		    struct sc_ds_log_wait *wait)
{
	struct sc_ds_log *log = &logs->logs[reader->log];
	int rc = 1;

	pthread_mutex_lock(&logs->lock);
	if (!logs->stopped && atomic_load(&log->changes) == reader->changes) {
		wait->next = log->waits;
		wait->prev = &log->waits;
		if (wait->next)
			wait->next->prev = &wait->next;
		log->waits = wait;
		rc = 0;
	}
	pthread_mutex_unlock(&logs->lock);
	return rc;
}

static void take_out(struct sc_ds_log_wait *wait)
{
	*wait->prev = wait->next;
	if (wait->next)
		wait->next->prev = wait->prev;
	wait->prev = NULL;
}

void sc_ds_logs_unwait(struct sc_ds_logs *logs, struct sc_ds_log_wait *wait)
{
	pthread_mutex_lock(&logs->lock);
	if (wait->prev)
		take_out(wait);
	pthread_mutex_unlock(&logs->lock);
}

int sc_ds_logs_poll(const struct sc_ds_logs *logs, struct pollfd *ret_polls)
{
	int wait_ms = -1;

	for (size_t i = 0; i < logs->count; i++) {
		int ms = sc_follow_poll_ms(logs->logs[i].follow);

		ret_polls[i] = (struct pollfd){ .fd = sc_follow_fd(logs->logs[i].follow),
						.events = POLLIN };
		if (ms >= 0 && (wait_ms < 0 || ms < wait_ms))
			wait_ms = ms;
	}
	return wait_ms;
}

static void wake_all(struct sc_ds_logs *logs, struct sc_ds_log *log)
{
	pthread_mutex_lock(&logs->lock);
	atomic_fetch_add(&log->changes, 1);
	while (log->waits) {
		struct sc_ds_log_wait *wait = log->waits;

		take_out(wait);
		wait->woken(wait);
	}
	pthread_mutex_unlock(&logs->lock);
}

void sc_ds_logs_turn(struct sc_ds_logs *logs, const struct pollfd *polls)
{
	bool any = false;

	for (size_t i = 0; i < logs->count; i++)
		any = any || polls[i].revents;
	for (size_t i = 0; i < logs->count; i++) {
		if (any && !polls[i].revents && polls[i].fd >= 0)
			continue; /* nobody's time is up: one of the others has grown */
		sc_follow_clear(logs->logs[i].follow);
		wake_all(logs, &logs->logs[i]);
	}
}

void sc_ds_logs_stop(struct sc_ds_logs *logs)
{
	pthread_mutex_lock(&logs->lock);
	logs->stopped = true;
	pthread_mutex_unlock(&logs->lock);
	for (size_t i = 0; i < logs->count; i++)
		wake_all(logs, &logs->logs[i]);
}
