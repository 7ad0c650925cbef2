#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "cast/stream_internal.h"
#include "wire/greeting.h"
#include "wire/head.h"
#include "wire/publish.h"

#define PAYLOAD_EXTRA 64u  /* "[offset,ts,msg]" around a message */
#define HELD_MAX_US 100000 /* the pump waits for its subscribers so long at most */
#define STALLED_US \
	20000 /* one that did not move for so long while it waited is not waited for again */
#define STALLED_TICKS 10u
#define MARK_SHARE 16u /* the subscribers are looked at each 1/16 of the ring */

size_t sc_stream_payload_size(const struct sc_stream *stream, struct sc_span line, int64_t us)
{
	char digits[24];

	return stream->triples ? line.len + sc_i64_digits(digits, us) + 1 : line.len;
}

void sc_stream_payload(const struct sc_stream *stream, struct sc_span line, int64_t us,
		       char *ret_payload)
{
	const char *comma = stream->triples ? memchr(line.data, ',', line.len) : NULL;
	size_t head;

	if (!comma) {
		memcpy(ret_payload, line.data, line.len);
		return;
	}
	head = (size_t)(comma - line.data) + 1;
	memcpy(ret_payload, line.data, head);
	ret_payload += head;
	ret_payload += sc_i64_digits(ret_payload, us);
	*ret_payload++ = ',';
	memcpy(ret_payload, line.data + head, line.len - head);
}

/* The ring begins at the log's frontier: everything below it is replayed from the log. */
static int open_log(struct sc_stream *s, uint64_t *ret_next, struct sc_err *err)
{
	struct sc_log_state state;
	int rc;

	*ret_next = 0;
	if (!s->log)
		return 0;
	rc = sc_log_state(s->log, &state, err);
	if (rc < 0)
		return rc;
	*ret_next = state.next_offset;
	return sc_reader_open(s->log, state.next_offset, &s->reader, err);
}

int sc_stream_open(const struct sc_stream_settings *settings, struct sc_log *log,
		   struct sc_stream **ret_stream, struct sc_err *err)
{
	static const char tried[] = "cannot serve a stream";
	struct sc_stream *s = sc_calloc(1, sizeof(*s));
	uint64_t bytes, next;
	int rc;

	if (!s)
		return sc_err_nomem(err, tried);
	s->settings = *settings;
	s->log = log;
	s->wire = settings->wire ? settings->wire : 1;
	s->triples = sc_wire_triples(s->wire);
	s->stats.durable = log != NULL;
	s->stats.started_us = sc_wall_us();
	s->name = strdup(settings->name ? settings->name : "");
	s->message_max = log                     ? sc_log_message_max(log)
			 : settings->message_max ? settings->message_max
						 : SC_MESSAGE_STANDARD;
	sc_bytes_init(&s->scratch, SIZE_MAX);
	if (!s->name) {
		rc = sc_err_nomem(err, tried);
		goto fail;
	}
	if (!sc_wire_served(s->wire)) {
		rc = sc_err_set(err, SC_E_CONFIG, tried, "protocol %d is not served", s->wire);
		sc_err_next(err, "use 1, 2, 4 or 5");
		goto fail;
	}
	bytes = settings->ring_bytes ? settings->ring_bytes : SC_RING_STANDARD;
	if (bytes < 4 * (s->message_max + PAYLOAD_EXTRA))
		bytes = 4 * (s->message_max + PAYLOAD_EXTRA);
	rc = open_log(s, &next, err);
	if (rc == 0)
		rc = sc_ring_new(bytes, next, &s->ring, err);
	if (rc < 0)
		goto fail;
	*ret_stream = s;
	return 0;
fail:
	sc_stream_close(s);
	return rc;
}

void sc_stream_close(struct sc_stream *s)
{
	if (!s)
		return;
	sc_reader_close(s->reader);
	sc_ring_free(s->ring);
	sc_bytes_done(&s->scratch);
	free(s->archive);
	free(s->archive_shown);
	free(s->name);
	free(s);
}

int sc_stream_wire(const struct sc_stream *stream)
{
	return stream->wire;
}

static void wake(struct sc_stream *s, struct sc_subscriber *sub)
{
	if (s->settings.wake)
		s->settings.wake(sub->arg);
}

/* When something was sent last: looking at the clock for each message would cost as much as the
 * message. */
static void stamp(struct sc_stream *s)
{
	if (s->stamped_in == s->stats.messages_in)
		return;
	s->stamped_in = s->stats.messages_in;
	s->stats.last_send_us = sc_wall_us();
}

/* Everybody who had nothing to send; the others ask by themselves. */
static void wake_idle(struct sc_stream *s)
{
	while (s->idle) {
		struct sc_subscriber *sub = s->idle;

		sc_subscriber_idle(sub, false);
		wake(s, sub);
	}
}

static void check_all(struct sc_stream *s)
{
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		if (!sc_subscriber_check(sub))
			continue;
		sc_subscriber_idle(sub, false);
		if (s->settings.dropped)
			s->settings.dropped(sub->arg);
	}
}

/* Is more than half of those that move far behind? They all read the same ring: what is
 * overwritten is lost to them, and each would have to read the log on its own. */
static bool crowded(struct sc_stream *s, bool start, bool look_for_stalled)
{
	const struct sc_ring_at *head = sc_ring_head(s->ring);
	uint64_t bytes = sc_ring_bytes(s->ring) / 2, messages = s->settings.max_backlog / 2;
	size_t moving = 0, behind = 0;

	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		bool far;

		if (sub->place != SC_PLACE_RING || sub->closing ||
		    !sc_ring_holds(s->ring, &sub->at))
			continue;
		far = head->pos - sub->at.pos > bytes ||
		      (messages && head->number - sub->at.number > messages);
		if (far && look_for_stalled && sub->at.pos == sub->held_pos)
			sub->stalled = true;
		if (start)
			sub->held_pos = sub->at.pos;
		if (sub->stalled)
			continue;
		moving++;
		behind += far;
	}
	return behind * 2 > moving;
}

/* How long new messages should wait for the subscribers, in ms: 0 or 1. Also finds those to be
 * dropped. */
static int held(struct sc_stream *s)
{
	const struct sc_ring_at *head = sc_ring_head(s->ring);
	uint64_t limit = s->settings.max_backlog,
		 share = limit / MARK_SHARE ? limit / MARK_SHARE : 1;
	int64_t now;

	if (head->pos - s->paced_pos < sc_ring_bytes(s->ring) / MARK_SHARE &&
	    !(limit && head->number - s->paced_number >= share))
		return 0;
	now = sc_mono_us();
	if (!s->held_us) {
		if (!crowded(s, true, false))
			goto go;
		s->held_us = now;
		return 1;
	}
	if (now - s->held_us < HELD_MAX_US && crowded(s, false, now - s->held_us > STALLED_US))
		return 1;
go:
	s->held_us = 0;
	s->paced_pos = head->pos;
	s->paced_number = head->number;
	check_all(s);
	return 0;
}

/* One line into the ring. The log's limit keeps it far below the ring's. */
static int put_line(struct sc_stream *s, struct sc_span line, int64_t us, struct sc_err *err)
{
	size_t size = sc_stream_payload_size(s, line, us);
	char *at = sc_ring_begin(s->ring, size);

	if (!at)
		return sc_err_set(err, SC_E_DATA, "cannot serve a message",
				  "%zu bytes is too long for the ring", size);
	sc_stream_payload(s, line, us, at);
	sc_ring_commit(s->ring, sc_ring_offset_of(line.data, line.len));
	s->stats.messages_in++;
	s->stats.bytes_in += size;
	return 0;
}

bool sc_stream_spare(struct sc_stream *s, const struct sc_subscriber *keep, struct sc_err *err)
{
	bool any = false;

	if (!err || (err->errnum != EMFILE && err->errnum != ENFILE))
		return false;
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		if (sub == keep || !sub->reader)
			continue;
		sc_subscriber_let_go(sub);
		any = true;
	}
	if (any)
		sc_err_clear(err);
	return any;
}

/* Rows were given up before they came into the ring: nobody has them. Live subscribers learn it as
 * any reader does. */
static int restart(struct sc_stream *s, struct sc_err *err)
{
	uint64_t next;
	int rc;

	sc_reader_close(s->reader);
	s->reader = NULL;
	s->lines.len = 0;
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		if (sub->place != SC_PLACE_RING)
			continue;
		sub->want = sub->at.last + 1;
		sub->place = SC_PLACE_LOG;
	}
	rc = open_log(s, &next, err);
	if (rc == 0) {
		sc_ring_restart(s->ring, next);
		s->paced_pos = sc_ring_head(s->ring)->pos;
		wake_idle(s);
	}
	return rc;
}

/* 1 and lines at hand, or 0. */
static int more(struct sc_stream *s, struct sc_err *err)
{
	struct sc_run run;
	int rc;

	if (s->lines.len)
		return 1;
	if (!s->reader)
		return restart(s, err);
	do
		rc = sc_reader_next(s->reader, 0, &run, err);
	while (rc < 0 && sc_stream_spare(s, NULL, err));
	if (rc == SC_E_REFUSED) {
		sc_err_clear(err);
		return restart(s, err);
	}
	if (rc > 0) {
		s->lines = run.lines;
		s->lines_us = run.appended_us;
	}
	return rc;
}

int sc_stream_pump(struct sc_stream *s, size_t max_bytes, int *ret_wait_ms, struct sc_err *err)
{
	uint64_t limit = s->settings.max_backlog, from = sc_ring_head(s->ring)->pos, rows = 0;
	int rc = 0;

	*ret_wait_ms = 0;
	if (!s->log)
		return 0;
	*ret_wait_ms = held(s);
	if (*ret_wait_ms)
		return 1;
	/* With a limit in messages, at most half of it at once: whoever reads what it is given is
	 * never dropped. */
	limit = limit ? (limit / 2 ? limit / 2 : 1) : UINT64_MAX;
	while (sc_ring_head(s->ring)->pos - from < max_bytes && rows < limit &&
	       (rc = more(s, err)) > 0) {
		const char *end = memchr(s->lines.data, '\n', s->lines.len);
		size_t len = end ? (size_t)(end - s->lines.data) : s->lines.len;

		rc = put_line(s, sc_span(s->lines.data, len), s->lines_us, err);
		if (rc < 0)
			break;
		rc = 1;
		len += end != NULL;
		s->lines.data += len;
		s->lines.len -= len;
		rows++;
	}
	if (rows) {
		stamp(s);
		wake_idle(s);
	}
	return rc;
}

size_t sc_stream_room(struct sc_stream *s, int *ret_wait_ms)
{
	stamp(s);
	*ret_wait_ms = held(s);
	return *ret_wait_ms ? 0 : (size_t)(sc_ring_bytes(s->ring) / MARK_SHARE);
}

int sc_stream_add(struct sc_stream *s, struct sc_span message, struct sc_err *err)
{
	char time[24];
	size_t time_len = 0, size;
	char *at;

	if (message.len > s->message_max) {
		sc_err_set(err, SC_E_DATA, "cannot send a message",
			   "%zu bytes is over the limit of %llu", message.len,
			   (unsigned long long)s->message_max);
		return sc_err_next(err, "raise --max-message");
	}
	if (s->triples) {
		time_len = sc_i64_digits(time, sc_wall_us());
		time[time_len++] = ',';
	}
	size = 6 + time_len + message.len + 1;
	at = sc_ring_begin(s->ring, size);
	if (!at)
		return sc_err_set(err, SC_E_DATA, "cannot send a message",
				  "%zu bytes is too long for the ring", size);
	memcpy(at, "[null,", 6);
	memcpy(at + 6, time, time_len);
	memcpy(at + 6 + time_len, message.data, message.len);
	at[size - 1] = ']';
	sc_ring_commit(s->ring, 0);
	s->stats.messages_in++;
	s->stats.bytes_in += size;
	if (s->idle) {
		stamp(s);
		wake_idle(s);
	}
	return 0;
}

int sc_stream_publish(struct sc_stream *s, struct sc_span frame, struct sc_bytes *reply,
		      struct sc_err *err)
{
	struct sc_publish publish, again;
	struct sc_err why;
	struct sc_span row;
	struct sc_bytes one;
	size_t count = 0;
	int rc;

	sc_err_clear(&why);
	if (sc_publish_parse(frame, false, &publish, &why) < 0)
		return sc_publish_error(reply, SC_PUBLISH_BAD_FRAME, why.reason);
	again = publish;
	while (sc_publish_next(&again, &row))
		if (row.len > s->message_max)
			return sc_publish_error(reply, SC_PUBLISH_REJECTED,
						"a row is over the limit of a message");
	sc_bytes_init(&one, SIZE_MAX);
	for (rc = 0; rc == 0 && sc_publish_next(&publish, &row); count++) {
		sc_bytes_clear(&one);
		/* A row may have come over many lines; it is sent on one. */
		rc = sc_row_project(NULL, row, &one, err);
		if (rc == 0)
			rc = sc_stream_add(s, sc_span(one.data, one.len), err);
	}
	sc_bytes_done(&one);
	return rc < 0 ? rc : sc_publish_ok(reply, 0, count, false);
}

void sc_stream_tick(struct sc_stream *s)
{
	stamp(s);
	check_all(s);
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		/* A replay that did not move since the last tick need not hold a file and a
		 * buffer. */
		if (sub->reader && sub->want == sub->tick_want)
			sc_subscriber_let_go(sub);
		/* Neither one of an archive its buffers; but that one is not opened again for each
		 * pause. */
		if (!sub->feed || sub->kept_at == sub->kept.len || sub->want != sub->tick_want)
			sub->stalled_ticks = 0;
		else if (++sub->stalled_ticks > STALLED_TICKS)
			sc_subscriber_leave_archive(sub);
		sub->tick_want = sub->want;
	}
}

void sc_stream_close_all(struct sc_stream *s, int code, const char *reason)
{
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		if (sub->closing)
			continue;
		sub->closing = true;
		sub->close.code = code;
		sub->close.len = strnlen(reason, SC_REASON_MAX);
		memcpy(sub->close.reason, reason, sub->close.len);
		sub->close.reason[sub->close.len] = '\0';
		sc_subscriber_idle(sub, false);
		wake(s, sub);
	}
}

int sc_stream_stats(struct sc_stream *s, struct sc_stream_stats *ret_stats, struct sc_err *err)
{
	const struct sc_ring_at *head = sc_ring_head(s->ring);
	struct sc_stream_stats stats;

	stamp(s);
	stats = s->stats;
	stats.ring_bytes = sc_ring_bytes(s->ring);
	stats.ring_messages = head->number - sc_ring_tail(s->ring)->number;
	for (struct sc_subscriber *sub = s->all; sub; sub = sub->all.next) {
		uint64_t backlog = sc_subscriber_backlog(sub);

		if (backlog > stats.backlog_max)
			stats.backlog_max = backlog;
		stats.replaying += sc_subscriber_replays(sub);
		stats.replaying_archive += !sub->closing && sc_subscriber_in_archive(sub);
	}
	if (s->log) {
		struct sc_log_state state;
		int rc = sc_log_state(s->log, &state, err);

		if (rc < 0)
			return rc;
		stats.first_offset = state.first_offset;
		stats.end_offset = state.next_offset;
		stats.lag_rows = state.next_offset - 1 - head->last;
	}
	*ret_stats = stats;
	return 0;
}
