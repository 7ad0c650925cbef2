/*
 * archive.c: a subscriber's third place: rows that the log gave up, read from the log's archive.
 *
 * Its rows come from threads (log/feed.h), so there may be none for a while. What they are framed
 * into is the subscriber's own and stays until it was sent: they are dear to read twice. It reads
 * there until the log holds what comes next; when the log gave up more meanwhile, the archive is
 * looked at again. The log gives up only what the archive was seen to have, so an archive that
 * was looked at after the log, and ends before the log begins, misses rows that nobody holds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast/stream_internal.h"
#include "wire/head.h"

/* What is known of the archive may be so old, if it does. */
#define AGE_MS 2000
/* Rows and bytes that one call looks at for a filter before it lets the loop go on. */
#define FILTER_ROWS_MAX 8192u
#define FILTER_BYTES_MAX (1u << 20)

/* A place that does not answer is given up before the clients give up on us. */
static const struct sc_store_settings patience = { .tries = 4,
						   .retry_for_ms = 20000,
						   .connect_ms = 5000,
						   .stall_ms = 10000 };

bool sc_stream_replays_archive(const struct sc_stream *stream)
{
	return stream->settings.feeds && stream->archive;
}

int sc_stream_set_archive(struct sc_stream *stream, const char *url, const char *shown, bool noted,
			  struct sc_err *err)
{
	char *copy = url ? strdup(url) : NULL, *copy_shown = shown ? strdup(shown) : NULL;

	if ((url && !copy) || (shown && !copy_shown)) {
		free(copy);
		free(copy_shown);
		return sc_err_nomem(err, "cannot serve a stream");
	}
	free(stream->archive);
	free(stream->archive_shown);
	stream->archive = copy;
	stream->archive_shown = copy_shown;
	stream->archive_noted = noted;
	return 0;
}

void sc_stream_fed(struct sc_feed_pool *feeds)
{
	struct sc_feed *feed;

	while ((feed = sc_feed_ready(feeds))) {
		struct sc_subscriber *sub = sc_feed_arg(feed);

		if (sub->stream->settings.wake)
			sub->stream->settings.wake(sub->arg);
	}
}

void sc_subscriber_leave_archive(struct sc_subscriber *sub)
{
	if (!sub->feed)
		return;
	sc_feed_close(sub->feed);
	sub->feed = NULL;
	sub->lines.len = 0;
}

int sc_subscriber_enter_archive(struct sc_subscriber *sub, uint64_t from, bool fresh,
				struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	struct sc_log_state state;
	int rc = sc_log_state(stream->log, &state, err);

	sc_subscriber_leave_archive(sub);
	if (rc == 0 && !stream->archive)
		return sc_err_set(err, SC_E_CONFIG, "cannot read the archive",
				  "the log has none any more");
	if (rc == 0)
		rc = sc_feed_open(stream->settings.feeds, stream->archive, &patience, from,
				  fresh ? 0 : AGE_MS, sub, &sub->feed, err);
	if (rc < 0)
		return rc;
	sub->place = SC_PLACE_ARCHIVE;
	sub->feed_known = false;
	sub->feed_fresh = fresh;
	sub->feed_floor = state.floor;
	sub->framed = from;
	sub->lines.len = 0;
	return 0;
}

/* Nothing is framed that was not sent: the log has what comes next. */
static void go_to_log(struct sc_subscriber *sub)
{
	sc_subscriber_leave_archive(sub);
	sc_bytes_done(&sub->kept);
	sub->kept_at = 0;
	sub->want = sub->framed;
	sub->place = SC_PLACE_LOG;
}

static enum sc_next fail(struct sc_subscriber *sub)
{
	sub->stream->stats.dropped_archive++;
	sub->closing = true;
	sub->close.code = SC_CLOSE_FAILED;
	sub->close.len = (size_t)snprintf(sub->close.reason, sizeof(sub->close.reason),
					  "the archive cannot be read");
	sc_subscriber_leave_archive(sub);
	return SC_NEXT_CLOSE;
}

static enum sc_next evicted(struct sc_subscriber *sub, uint64_t earliest, struct sc_err *err)
{
	sc_err_clear(err);
	sub->want = sub->framed;
	sc_subscriber_evicted(sub, earliest);
	return SC_NEXT_CLOSE;
}

static enum sc_next look_again(struct sc_subscriber *sub, struct sc_err *err)
{
	int rc = sc_subscriber_enter_archive(sub, sub->framed, true, err);

	return rc < 0 ? fail(sub) : SC_NEXT_IDLE;
}

/* What the archive holds. 1, 0 (it has not answered yet), or a negative code. */
static int known(struct sc_subscriber *sub, struct sc_feed_info *ret_info, struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	int rc = sc_feed_info(sub->feed, ret_info, err);

	if (rc == SC_E_NOLOG && !stream->archive_noted) {
		/* The log was never archived: its archive holds nothing. */
		*ret_info = (struct sc_feed_info){ .next_offset = 1, .first_offset = 1 };
		sc_err_clear(err);
		return 1;
	}
	if (rc == 1 && strcmp(ret_info->stream_id, sc_log_stream_id(stream->log)) != 0) {
		sc_err_set(err, SC_E_CONFIG, "cannot read the archive",
			   "it holds another stream, %s; the log's is %s", ret_info->stream_id,
			   sc_log_stream_id(stream->log));
		sc_err_on(err, "archive", stream->archive_shown);
		return sc_err_next(err, "give the URL that sc-seal archives the log to");
	}
	sub->feed_known = rc == 1;
	return rc;
}

/* All that the archive was known to hold is sent, or it does not hold what comes next. */
static enum sc_next behind(struct sc_subscriber *sub, const struct sc_feed_info *info,
			   struct sc_err *err)
{
	struct sc_log_state state;

	if (sc_log_state(sub->stream->log, &state, err) < 0)
		return fail(sub);
	sc_err_clear(err);
	if (sub->framed < info->next_offset)
		sub->framed = info->next_offset;
	if (sub->framed >= state.floor) {
		go_to_log(sub);
		return SC_NEXT_AGAIN;
	}
	if (sub->feed_fresh && info->next_offset < sub->feed_floor)
		return evicted(sub, state.first_offset, err);
	return look_again(sub, err);
}

/* The feed gave no rows but RC: its end, or an error. */
static enum sc_next no_rows(struct sc_subscriber *sub, int rc, struct sc_err *err)
{
	struct sc_feed_info info;
	int known_rc = known(sub, &info, rc < 0 ? NULL : err);

	if (known_rc < 0)
		return fail(sub);
	if (rc == SC_FEED_END || (known_rc == 1 && !sub->feed_known))
		return behind(sub, &info, err);
	if (rc == SC_FEED_NONE)
		return SC_NEXT_IDLE;
	if (rc != SC_E_REFUSED)
		return fail(sub);
	if (sub->framed < info.first_offset)
		return evicted(sub, info.first_offset, err);
	if (sub->framed > info.next_offset)
		return behind(sub, &info, err);
	/* the archive gave up rows while they were read: from where on has it some now? */
	sc_err_clear(err);
	return look_again(sub, err);
}

/* Have lines of the archive at hand: SC_FEED_RUN, or as sc_feed_next. */
static int fetch(struct sc_subscriber *sub, struct sc_err *err)
{
	struct sc_feed_info info;
	struct sc_run run;
	int rc;

	if (sub->lines.len)
		return SC_FEED_RUN;
	if (!sub->feed_known) {
		rc = known(sub, &info, err);
		if (rc < 0 || !sub->feed_known)
			return rc < 0 ? rc : SC_FEED_NONE;
	}
	rc = sc_feed_next(sub->feed, &run, err);
	if (rc == SC_FEED_RUN) {
		sub->lines = run.lines;
		sub->lines_us = run.appended_us;
	}
	return rc;
}

/* What is framed and not sent, MAX bytes of it at most, or one frame. */
static enum sc_next hand_out(struct sc_subscriber *sub, size_t max, struct sc_span *ret_frames)
{
	const char *data = sub->kept.data + sub->kept_at;
	size_t rest = sub->kept.len - sub->kept_at, len = 0, head;
	uint64_t count = 0;

	sub->pending = SC_PENDING_ARCHIVE;
	sub->pending_count = sub->kept_count;
	sub->pending_want = sub->framed;
	if (rest > max) {
		const char *last = data;

		for (;;) {
			size_t size = (size_t)sc_head_payload((const unsigned char *)data + len,
							      &head);

			if (count && len + head + size > max)
				break;
			last = data + len + head;
			len += head + size;
			count++;
			if (len >= max)
				break;
		}
		rest = len;
		sub->pending_count = count;
		if (sub->kept_at + len < sub->kept.len)
			sub->pending_want = sc_ring_offset_of(last, (size_t)(data + len - last)) +
					    1;
	}
	sub->pending_frames = *ret_frames = sc_span(data, rest);
	return SC_NEXT_DATA;
}

enum sc_next sc_subscriber_from_archive(struct sc_subscriber *sub, size_t max,
					struct sc_span *ret_frames, struct sc_err *err)
{
	size_t rows = 0, bytes = 0;
	int rc = SC_FEED_RUN;

	if (sub->kept_at < sub->kept.len)
		return hand_out(sub, max, ret_frames);
	if (sub->kept.cap > 2 * SC_SUBSCRIBER_RUN) /* of a long message */
		sc_bytes_done(&sub->kept);
	sc_bytes_clear(&sub->kept);
	sub->kept_at = sub->kept_count = 0;
	if (!sub->feed && sc_subscriber_enter_archive(sub, sub->framed, false, err) < 0)
		return fail(sub);
	while (rows < FILTER_ROWS_MAX && bytes < FILTER_BYTES_MAX &&
	       (rc = fetch(sub, err)) == SC_FEED_RUN) {
		struct sc_span line = sc_subscriber_line(sub);
		int match = sc_subscriber_match(sub, line);

		if (match > 0 && !sc_subscriber_fits(&sub->kept, line, max))
			break;
		if (match < 0 ||
		    (match > 0 && sc_subscriber_put_frame(sub, &sub->kept, line) < 0)) {
			sc_err_nomem(err, "cannot replay");
			return fail(sub);
		}
		sub->kept_count += match > 0;
		rows++;
		bytes += line.len;
		sub->framed = sc_ring_offset_of(line.data, line.len) + 1;
		sc_subscriber_forward(sub, line);
	}
	if (sub->kept.len) {
		if (rc < 0)
			sc_err_clear(err); /* it comes again, behind these */
		return hand_out(sub, max, ret_frames);
	}
	sub->want = sub->framed;
	return rc == SC_FEED_RUN ? SC_NEXT_AGAIN : no_rows(sub, rc, err);
}

enum sc_next sc_subscriber_ask(struct sc_subscriber *sub, struct sc_err *err)
{
	struct sc_stream *stream = sub->stream;
	struct sc_refusal refusal;
	struct sc_feed_info info;
	struct sc_log_state state;
	uint64_t first;
	int rc = known(sub, &info, err);

	if (rc == 0)
		return SC_NEXT_IDLE;
	if (rc < 0 || sc_log_state(stream->log, &state, err) < 0)
		return fail(sub);
	first = state.first_offset;
	if (info.next_offset < state.floor) {
		/* It does not reach the log: did it, when it was asked? */
		if (!sub->feed_fresh || info.next_offset >= sub->feed_floor)
			return look_again(sub, err);
	} else if (info.first_offset < first) {
		first = info.first_offset;
	}
	rc = sc_subscriber_begin(sub, first, &refusal, err);
	if (rc < 0)
		return fail(sub);
	sub->asking = false;
	if (rc == 1) {
		sc_subscriber_drop(sub, &refusal);
		return SC_NEXT_CLOSE;
	}
	sub->framed = sub->want;
	if (sub->want >= state.floor)
		go_to_log(sub);
	return SC_NEXT_AGAIN;
}
