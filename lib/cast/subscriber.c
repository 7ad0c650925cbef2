#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cast/stream_internal.h"
#include "wire/head.h"

/* Rows and bytes that one call looks at for a filter before it lets the loop go on. */
#define FILTER_ROWS_MAX 8192u
#define FILTER_BYTES_MAX (1u << 20)
/* Readers of a stream that are kept open; beyond them, one is closed after so many bytes and opened
 * again. */
#define READERS_MAX 64u
#define READ_BYTES (512u << 10)
#define TIME_DIGITS_MAX 21u /* sign, digits, comma */

void sc_subscriber_idle(struct sc_subscriber *sub, bool idle)
{
	struct sc_stream *stream = sub->stream;

	if (sub->is_idle == idle)
		return;
	sub->is_idle = idle;
	if (idle) {
		sub->idle.prev = NULL;
		sub->idle.next = stream->idle;
		if (stream->idle)
			stream->idle->idle.prev = sub;
		stream->idle = sub;
		return;
	}
	if (sub->idle.prev)
		sub->idle.prev->idle.next = sub->idle.next;
	else
		stream->idle = sub->idle.next;
	if (sub->idle.next)
		sub->idle.next->idle.prev = sub->idle.prev;
}

void sc_subscriber_let_go(struct sc_subscriber *sub)
{
	if (!sub->reader)
		return;
	sub->stream->readers--;
	sc_reader_close(sub->reader);
	sub->reader = NULL;
	sub->lines.len = 0;
}

void sc_subscriber_drop(struct sc_subscriber *sub, const struct sc_refusal *refusal)
{
	if (sub->closing)
		return;
	sub->closing = true;
	sub->close.code = sc_refusal_code(refusal);
	sub->close.len = sc_refusal_reason(refusal, sub->close.reason);
	sc_subscriber_let_go(sub);
	sc_subscriber_leave_archive(sub);
}

void sc_subscriber_evicted(struct sc_subscriber *sub, uint64_t earliest)
{
	struct sc_refusal r;

	sc_refusal_init(&r, SC_REFUSAL_NOT_REPLAYABLE);
	r.why = SC_WHY_EVICTED;
	r.wire = sub->stream->wire;
	r.offset = sub->want;
	r.earliest = earliest;
	r.has = SC_HAS_OFFSET | SC_HAS_EARLIEST;
	sub->stream->stats.dropped_evicted++;
	sc_subscriber_drop(sub, &r);
}

static void too_slow(struct sc_subscriber *sub, uint64_t limit)
{
	struct sc_refusal r;

	sc_refusal_init(&r, SC_REFUSAL_TOO_SLOW);
	r.backlog = limit;
	if (sub->stream->log) {
		r.has |= SC_HAS_RESUME;
		r.resume = sub->place == SC_PLACE_RING ? sub->at.last + 1 : sub->want;
	}
	sub->stream->stats.dropped_slow++;
	sc_subscriber_drop(sub, &r);
}

uint64_t sc_subscriber_backlog(const struct sc_subscriber *sub)
{
	const struct sc_ring_at *head = sc_ring_head(sub->stream->ring);

	if (!sub->was_live)
		return 0; /* a replay is never dropped for being long: it counts only once it had caught up */
	if (sub->place == SC_PLACE_RING)
		return head->number - sub->at.number;
	return head->last >= sub->want ? head->last + 1 - sub->want : 0;
}

/* A replay may come into a ring that holds more than the limit: it is not slow before it was within
 * it. */
static void caught_up(struct sc_subscriber *sub)
{
	uint64_t limit = sub->stream->settings.max_backlog;

	if (!limit || sc_ring_head(sub->stream->ring)->number - sub->at.number <= limit)
		sub->was_live = true;
}

bool sc_subscriber_check(struct sc_subscriber *sub)
{
	struct sc_stream *stream = sub->stream;
	uint64_t limit = stream->settings.max_backlog;

	if (sub->closing)
		return false;
	if (limit && sc_subscriber_backlog(sub) > limit) {
		too_slow(sub, limit);
		return true;
	}
	if (!stream->log && !sc_ring_holds(stream->ring, &sub->at)) {
		const struct sc_ring_at *head = sc_ring_head(stream->ring),
					*tail = sc_ring_tail(stream->ring);

		too_slow(sub, limit ? limit : head->number - tail->number);
		return true;
	}
	return false;
}

bool sc_subscriber_replays(const struct sc_subscriber *sub)
{
	return sub->place != SC_PLACE_RING && sub->want <= sc_ring_tail(sub->stream->ring)->last;
}

bool sc_subscriber_in_archive(const struct sc_subscriber *sub)
{
	return sub->place == SC_PLACE_ARCHIVE;
}

const struct sc_close *sc_subscriber_close(const struct sc_subscriber *sub)
{
	return &sub->close;
}

/* A failure of ours while it was served. */
static enum sc_next fail(struct sc_subscriber *sub, int rc, struct sc_err *err)
{
	struct sc_log_state state;

	if (rc == SC_E_REFUSED && sc_stream_replays_archive(sub->stream)) {
		/* Retention passed the replay: the archive has what the log gave up. */
		sc_err_clear(err);
		sc_subscriber_let_go(sub);
		rc = sc_subscriber_enter_archive(sub, sub->want, false, err);
		if (rc == 0)
			return SC_NEXT_AGAIN;
	}
	if (rc == SC_E_REFUSED && sc_log_state(sub->stream->log, &state, NULL) == 0) {
		/* The rows are gone for everybody, and no error of ours. */
		sc_subscriber_evicted(sub, state.first_offset);
		sc_err_clear(err);
		return SC_NEXT_CLOSE;
	}
	sub->stream->stats.dropped_failed++;
	sub->closing = true;
	sub->close.code = SC_CLOSE_FAILED;
	sub->close.len = (size_t)snprintf(sub->close.reason, sizeof(sub->close.reason),
					  "the log cannot be read");
	sc_subscriber_let_go(sub);
	return SC_NEXT_CLOSE;
}

enum where { IN_RING, IN_LOG, IN_ARCHIVE, NOT_YET, CLOSED };

/* Where the next message is. The places meet exactly: whatever the ring still holds from `want` on
 * is read there, and what the log holds is not read from the archive. */
static enum where locate(struct sc_subscriber *sub)
{
	struct sc_stream *stream = sub->stream;

	if (sub->place == SC_PLACE_ARCHIVE)
		return sc_subscriber_check(sub) ? CLOSED : IN_ARCHIVE;
	if (sub->place == SC_PLACE_RING) {
		if (sc_ring_holds(stream->ring, &sub->at))
			return IN_RING;
		if (sc_subscriber_check(sub))
			return CLOSED;
		sub->want = sub->at.last + 1;
		sub->place = SC_PLACE_LOG;
	}
	if (sub->want <= sc_ring_tail(stream->ring)->last)
		return sc_subscriber_check(sub) ? CLOSED : IN_LOG;
	/* Rows that this one must not see again, or that were before its time, are still to come
	 * into the ring. */
	if (sub->want > sc_ring_head(stream->ring)->last + 1)
		return NOT_YET;
	if (!sc_ring_find(stream->ring, sub->want, &sub->at))
		return IN_LOG;
	sub->place = SC_PLACE_RING;
	caught_up(sub);
	sc_subscriber_let_go(sub);
	return IN_RING;
}

static int open_reader(struct sc_subscriber *sub, struct sc_err *err)
{
	int rc = sc_reader_open(sub->stream->log, sub->want, &sub->reader, err);

	if (rc == 0) {
		sub->stream->readers++;
		sub->read_bytes = 0;
	}
	return rc;
}

/* Have lines of the log from `want` on at hand. 1, 0 (all that was committed has been read), or a
 * negative code. */
static int fetch(struct sc_subscriber *sub, struct sc_err *err)
{
	struct sc_run run;
	int rc;

	if (sub->lines.len)
		return 1;
	do {
		rc = sub->reader ? 0 : open_reader(sub, err);
		if (rc == 0)
			rc = sc_reader_next(sub->reader, SC_SUBSCRIBER_RUN, &run, err);
	} while (rc < 0 && sc_stream_spare(sub->stream, sub, err));
	if (rc > 0) {
		sub->lines = run.lines;
		sub->lines_us = run.appended_us;
	}
	return rc;
}

struct sc_span sc_subscriber_line(const struct sc_subscriber *sub)
{
	const char *end = memchr(sub->lines.data, '\n', sub->lines.len);

	return sc_span(sub->lines.data, end ? (size_t)(end - sub->lines.data) : sub->lines.len);
}

void sc_subscriber_forward(struct sc_subscriber *sub, struct sc_span line)
{
	size_t used = line.len < sub->lines.len ? line.len + 1 : line.len;

	sub->lines.data += used;
	sub->lines.len -= used;
}

int sc_subscriber_put_frame(struct sc_subscriber *sub, struct sc_bytes *out, struct sc_span line)
{
	size_t size = sc_stream_payload_size(sub->stream, line, sub->lines_us);

	if (sc_bytes_reserve(out, SC_HEAD_MAX + size) < 0)
		return SC_E_NOMEM;
	out->len += sc_head_put((unsigned char *)out->data + out->len, size);
	sc_stream_payload(sub->stream, line, sub->lines_us, out->data + out->len);
	out->len += size;
	return 0;
}

/* Does one more line fit? One that is longer than MAX goes alone. */
bool sc_subscriber_fits(const struct sc_bytes *out, struct sc_span line, size_t max)
{
	return !out->len || out->len + line.len + SC_HEAD_MAX + TIME_DIGITS_MAX <= max;
}

/*
 * Frame lines of the log, of many commits if they are small, until MAX. The reader moves on at
 * once; `want` does when the frames were sent, and if they were not, the reader is opened again
 * there (sc_subscriber_next).
 */
static enum sc_next next_from_log(struct sc_subscriber *sub, size_t max, struct sc_span *ret_frames,
				  struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	uint64_t count = 0, last = 0;
	int rc;

	sc_bytes_clear(&stream->scratch);
	while ((rc = fetch(sub, err)) > 0) {
		struct sc_span line = sc_subscriber_line(sub);

		if (!sc_subscriber_fits(&stream->scratch, line, max))
			break;
		if (sc_subscriber_put_frame(sub, &stream->scratch, line) < 0)
			return fail(sub, sc_err_nomem(err, "cannot replay"), err);
		last = sc_ring_offset_of(line.data, line.len);
		sc_subscriber_forward(sub, line);
		count++;
	}
	if (rc < 0 && !count)
		return fail(sub, rc, err);
	if (rc < 0)
		sc_err_clear(err); /* what was framed before the failure is good; it comes again */
	if (!count) {
		/* Nothing is left below the ring: rows were trimmed away, or offsets skipped. */
		sub->want = sc_ring_tail(stream->ring)->last + 1;
		return SC_NEXT_AGAIN;
	}
	sub->pending = SC_PENDING_LOG;
	sub->pending_want = last + 1;
	sub->pending_count = count;
	sub->pending_frames = *ret_frames = sc_span(stream->scratch.data, stream->scratch.len);
	return SC_NEXT_DATA;
}

static enum sc_next next_from_ring(struct sc_subscriber *sub, size_t max,
				   struct sc_span *ret_frames)
{
	if (!sc_ring_run(sub->stream->ring, &sub->at, max, ret_frames, &sub->pending_at)) {
		sc_subscriber_idle(sub, true);
		return SC_NEXT_IDLE;
	}
	sub->pending = SC_PENDING_RING;
	sub->pending_count = sub->pending_at.number - sub->at.number;
	sub->pending_frames = *ret_frames;
	return SC_NEXT_DATA;
}

/* msg of a payload [offset,msg] or [offset,ts,msg]. */
static struct sc_span message_of(struct sc_span payload, bool triples)
{
	const char *end = payload.data + payload.len - 1,
		   *at = memchr(payload.data, ',', payload.len);

	if (at && triples)
		at = memchr(at + 1, ',', (size_t)(end - at - 1));
	return at ? sc_span(at + 1, (size_t)(end - at - 1)) : sc_span("null", 4);
}

int sc_subscriber_match(struct sc_subscriber *sub, struct sc_span line)
{
	return sub->where ? sc_where_match(sub->where, message_of(line, false)) : 1;
}

/* One step of a filtered subscriber: the next message, wherever it is; moves on when it does not
 * match. */
struct filter {
	size_t rows, bytes;
	uint64_t count; /* matched, framed in scratch */
};

static enum sc_next filter_ring(struct sc_subscriber *sub, struct filter *f, size_t max,
				struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	struct sc_ring_at at = sub->at;
	struct sc_ring_at after;
	struct sc_span payload;

	while (f->rows < FILTER_ROWS_MAX && f->bytes < FILTER_BYTES_MAX &&
	       sc_ring_message(stream->ring, &at, &payload, &after)) {
		int match = sc_where_match(sub->where, message_of(payload, stream->triples));

		f->rows++;
		f->bytes += payload.len;
		if (match < 0)
			return fail(sub, sc_err_nomem(err, "cannot filter"), err);
		if (match) {
			size_t frame = (size_t)(after.pos - at.pos);

			if (f->count && stream->scratch.len + frame > max)
				break;
			if (sc_bytes_put(&stream->scratch, payload.data - (frame - payload.len),
					 frame) < 0)
				return fail(sub, sc_err_nomem(err, "cannot filter"), err);
			f->count++;
		}
		at = after;
		if (!f->count)
			sub->at = at;
	}
	if (!f->count && at.pos == sc_ring_head(stream->ring)->pos) {
		caught_up(sub);
		sc_subscriber_idle(sub, true);
		return SC_NEXT_IDLE;
	}
	if (!f->count)
		return SC_NEXT_AGAIN;
	sub->pending = SC_PENDING_RING;
	sub->pending_at = at;
	return SC_NEXT_DATA;
}

static enum sc_next filter_log(struct sc_subscriber *sub, struct filter *f, size_t max,
			       struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	uint64_t want = sub->want;
	int rc = 1;

	while (f->rows < FILTER_ROWS_MAX && f->bytes < FILTER_BYTES_MAX &&
	       (rc = fetch(sub, err)) > 0) {
		struct sc_span line = sc_subscriber_line(sub);
		int match = sc_subscriber_match(sub, line);

		if (match < 0)
			return fail(sub, sc_err_nomem(err, "cannot filter"), err);
		if (match) {
			if (!sc_subscriber_fits(&stream->scratch, line, max))
				break;
			if (sc_subscriber_put_frame(sub, &stream->scratch, line) < 0)
				return fail(sub, sc_err_nomem(err, "cannot filter"), err);
			f->count++;
		}
		f->rows++;
		f->bytes += line.len;
		want = sc_ring_offset_of(line.data, line.len) + 1;
		sc_subscriber_forward(sub, line);
		if (!f->count)
			sub->want = want;
	}
	if (rc < 0 && !f->count)
		return fail(sub, rc, err);
	if (rc < 0)
		sc_err_clear(err);
	if (!f->count) {
		if (rc == 0)
			sub->want = sc_ring_tail(stream->ring)->last + 1;
		return SC_NEXT_AGAIN;
	}
	sub->pending = SC_PENDING_LOG;
	sub->pending_want = want;
	return SC_NEXT_DATA;
}

static enum sc_next next_filtered(struct sc_subscriber *sub, size_t max, struct sc_span *ret_frames,
				  struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	struct filter f = { 0 };
	enum sc_next next = SC_NEXT_AGAIN;

	sc_bytes_clear(&stream->scratch);
	while (next == SC_NEXT_AGAIN && f.rows < FILTER_ROWS_MAX && f.bytes < FILTER_BYTES_MAX) {
		size_t rows = f.rows;

		switch (locate(sub)) {
		case IN_RING:
			next = filter_ring(sub, &f, max, err);
			break;
		case IN_LOG:
			next = filter_log(sub, &f, max, err);
			break;
		case IN_ARCHIVE:
			return sc_subscriber_from_archive(sub, max, ret_frames, err);
		case NOT_YET:
			sc_subscriber_idle(sub, true);
			return SC_NEXT_IDLE;
		default:
			return SC_NEXT_CLOSE;
		}
		if (f.rows == rows)
			f.rows++; /* a turn costs too */
	}
	if (next != SC_NEXT_DATA)
		return next;
	sub->pending_count = f.count;
	sub->pending_frames = *ret_frames = sc_span(stream->scratch.data, stream->scratch.len);
	return SC_NEXT_DATA;
}

enum sc_next sc_subscriber_next(struct sc_subscriber *sub, size_t max, struct sc_span *ret_frames,
				struct sc_err *err)
{
	if (sub->pending == SC_PENDING_LOG)
		sc_subscriber_let_go(sub); /* it is ahead of what was sent */
	sub->pending = SC_PENDING_NONE;
	sc_subscriber_idle(sub, false);
	if (sub->greeting.len) {
		/* Built with room for its head in front (sc_stream_attach). */
		unsigned char head[SC_HEAD_MAX];
		size_t size = sc_head_put(head, sub->greeting.len - SC_HEAD_MAX);

		memcpy(sub->greeting.data + SC_HEAD_MAX - size, head, size);
		*ret_frames = sc_span(sub->greeting.data + SC_HEAD_MAX - size,
				      sub->greeting.len - SC_HEAD_MAX + size);
		sub->pending = SC_PENDING_GREETING;
		sub->pending_frames = *ret_frames;
		return SC_NEXT_DATA;
	}
	if (sub->closing)
		return SC_NEXT_CLOSE;
	if (sub->asking)
		return sc_subscriber_ask(sub, err);
	if (sub->where)
		return next_filtered(sub, max, ret_frames, err);
	switch (locate(sub)) {
	case IN_RING:
		return next_from_ring(sub, max, ret_frames);
	case IN_LOG:
		return next_from_log(sub, max, ret_frames, err);
	case IN_ARCHIVE:
		return sc_subscriber_from_archive(sub, max, ret_frames, err);
	case NOT_YET:
		sc_subscriber_idle(sub, true);
		return SC_NEXT_IDLE;
	default:
		return SC_NEXT_CLOSE;
	}
}

enum sc_next sc_subscriber_message(struct sc_subscriber *sub, struct sc_delivery *ret_message,
				   struct sc_err *err)
{
	struct sc_delivery m = { 0 };
	struct sc_span frame;
	enum sc_next next;
	size_t head;

	/* From the ring one step; else a run of one frame: any maximum of a byte gives that. */
	if (!sub->greeting.len && !sub->closing && !sub->where && locate(sub) == IN_RING) {
		sub->pending = SC_PENDING_NONE;
		sc_subscriber_idle(sub, false);
		if (!sc_ring_message(sub->stream->ring, &sub->at, &m.payload, &sub->pending_at)) {
			sc_subscriber_idle(sub, true);
			return SC_NEXT_IDLE;
		}
		sub->pending = SC_PENDING_RING;
		sub->pending_count = 1;
		sub->pending_frames = m.payload;
	} else {
		next = sc_subscriber_next(sub, 1, &frame, err);
		if (next != SC_NEXT_DATA)
			return next;
		m.greeting = sub->pending == SC_PENDING_GREETING;
		m.payload.len = (size_t)sc_head_payload((const unsigned char *)frame.data, &head);
		m.payload.data = frame.data + head;
	}
	if (!m.greeting) {
		m.has_offset = sub->stream->log != NULL;
		m.offset = sc_ring_offset_of(m.payload.data, m.payload.len);
	}
	*ret_message = m;
	return SC_NEXT_DATA;
}

void sc_subscriber_sent(struct sc_subscriber *sub)
{
	struct sc_stream_stats *stats = &sub->stream->stats;

	switch (sub->pending) {
	case SC_PENDING_NONE:
		return;
	case SC_PENDING_GREETING:
		sc_bytes_done(&sub->greeting);
		break;
	case SC_PENDING_RING:
		sub->at = sub->pending_at;
		caught_up(sub);
		break;
	case SC_PENDING_LOG:
		sub->want = sub->pending_want;
		sub->read_bytes += sub->pending_frames.len;
		/* Where there are many, each has its file and buffer for a while only. */
		if (sub->read_bytes >= READ_BYTES && sub->stream->readers > READERS_MAX)
			sc_subscriber_let_go(sub);
		break;
	case SC_PENDING_ARCHIVE:
		sub->want = sub->pending_want;
		sub->kept_at += sub->pending_frames.len;
		sub->kept_count -= sub->pending_count;
		stats->archive_out += sub->pending_count;
		break;
	}
	if (sub->pending != SC_PENDING_GREETING) {
		stats->messages_out += sub->pending_count;
		stats->bytes_out += sub->pending_frames.len;
	}
	sub->pending = SC_PENDING_NONE;
	sub->stalled = false;
}

/* Over that many messages of the ring that the filter lets through: they were there a moment
 * ago. */
static void skip_matches(struct sc_subscriber *sub, uint64_t count)
{
	struct sc_ring_at after;
	struct sc_span payload;

	while (count > 0 && sc_ring_message(sub->stream->ring, &sub->at, &payload, &after)) {
		if (sc_where_match(sub->where, message_of(payload, sub->stream->triples)) != 0)
			count--;
		sub->at = after;
	}
}

void sc_subscriber_sent_part(struct sc_subscriber *sub, size_t bytes)
{
	struct sc_stream_stats *stats = &sub->stream->stats;
	uint64_t count = 0, last = 0;
	size_t at = 0, head;

	if (bytes >= sub->pending_frames.len) {
		sc_subscriber_sent(sub);
		return;
	}
	if (sub->pending == SC_PENDING_NONE || sub->pending == SC_PENDING_GREETING)
		return; /* a greeting is one frame: it went whole or not at all */
	if (sub->pending == SC_PENDING_LOG)
		sc_subscriber_let_go(
			sub); /* it is ahead; and the peer is slow: until it takes more, it holds no file and no buffer */
	while (at < bytes) {
		const char *frame = sub->pending_frames.data + at;
		size_t payload = (size_t)sc_head_payload((const unsigned char *)frame, &head);

		last = sc_ring_offset_of(frame + head, payload);
		at += head + payload;
		count++;
	}
	if (!count)
		return;
	if (sub->pending == SC_PENDING_ARCHIVE) {
		sub->want = last + 1;
		sub->kept_at += at;
		sub->kept_count -= count;
		stats->archive_out += count;
	} else if (sub->pending == SC_PENDING_LOG) {
		sub->want = last + 1;
	} else if (!sub->where) {
		sub->at.pos += at;
		sub->at.number += count;
		sub->at.last = last;
		caught_up(sub);
	} else {
		skip_matches(sub, count);
		caught_up(sub);
	}
	stats->messages_out += count;
	stats->bytes_out += at;
	sub->stalled = false;
}

void sc_subscriber_free(struct sc_subscriber *sub)
{
	struct sc_stream *stream;

	if (!sub)
		return;
	stream = sub->stream;
	sc_subscriber_idle(sub, false);
	if (sub->all.prev)
		sub->all.prev->all.next = sub->all.next;
	else
		stream->all = sub->all.next;
	if (sub->all.next)
		sub->all.next->all.prev = sub->all.prev;
	stream->stats.subscribers--;
	sc_subscriber_let_go(sub);
	sc_subscriber_leave_archive(sub);
	sc_bytes_done(&sub->kept);
	sc_where_free(sub->where);
	sc_bytes_done(&sub->greeting);
	free(sub);
}
