/*
 * tests/unit/cast/archive_model.h: a stream whose log and whose archive give up rows, and
 * subscribers that check what they get: each row from their start on, once, in order, byte for
 * byte.
 *
 * append() and upkeep() move the rows; through() is the loop as a server has it, for one
 * subscriber.
 */
#ifndef SC_TESTS_ARCHIVE_MODEL_H
#define SC_TESTS_ARCHIVE_MODEL_H

#include "../log/feed_help.h"

#include "cast/stream.h"
#include "wire/head.h"

#define SUBS 12

struct consumer {
	struct sc_subscriber *sub;
	uint64_t asked, next;
	bool has_offset, greeted, waits, messages, filtered, again;
};

static uint64_t seed = 88172645463325252u;
static struct sc_log *writer, *served;
static struct sc_stream *stream;
static struct consumer subs[SUBS];
static uint64_t next_row, floor_row, held_row, shelf_row, delivered;

static inline uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static inline void wake(void *arg)
{
	((struct consumer *)arg)->waits = false;
}

/* The message of row N: a filter takes a third of them. */
static inline size_t message(uint64_t n, char ret_text[3200])
{
	size_t pad = n % 41 ? n * 7919 % 150 : n * 7919 % 2900;
	int len = snprintf(ret_text, 3200, "{\"k\":%d,\"n\":%llu,\"p\":\"", (int)(n % 3),
			   (unsigned long long)n);

	memset(ret_text + len, 'x', pad);
	memcpy(ret_text + len + pad, "\"}", 2);
	return (size_t)len + pad + 2;
}

static inline void append(uint64_t count)
{
	char text[3200];
	struct sc_bytes all;
	uint32_t lens[64];
	struct sc_log_rows rows = { .lens = lens, .count = count };
	struct sc_log_commit done;

	sc_bytes_init(&all, 1u << 20);
	for (uint64_t i = 0; i < count; i++) {
		lens[i] = (uint32_t)message(next_row + i, text);
		CHECK(sc_bytes_put(&all, text, lens[i]) == 0);
	}
	rows.text = sc_span(all.data, all.len);
	CHECK_OK(sc_log_append(writer, &rows, &done, &err), &err);
	CHECK_INT(done.first, next_row);
	next_row += count;
	sc_bytes_done(&all);
}

/* Seal what there is and archive it; then the log, or the archive, gives up rows. */
static inline void upkeep(bool archive_too, bool log_gives, uint64_t archive_keeps)
{
	struct sc_archive_options o = { .arg = NULL };
	struct sc_keep keep = { .count = archive_keeps };
	struct sc_archive_state state;
	struct archiver a;

	CHECK_OK(archiver_open(log_path, OWNS, &a), &err);
	CHECK_OK(seal_all(a.seal, 8192), &err);
	if (archive_too) {
		CHECK_OK(sc_archive_push(a.archive, &o, &err), &err);
		if (archive_keeps)
			CHECK_OK(sc_archive_keep(a.archive, &keep, &o, &err), &err);
		sc_archive_state(a.archive, &state);
		held_row = state.next_offset;
		shelf_row = state.first_offset;
	}
	if (log_gives && held_row > floor_row) {
		floor_row += 1 + rnd(held_row - floor_row);
		CHECK_OK(sc_log_trim(a.log, floor_row, &err), &err);
	}
	archiver_close(&a);
}

static inline void stream_begin(struct sc_stream_settings *settings, bool over_web)
{
	if (access("/dev/shm", W_OK) == 0)
		setenv("TMPDIR", "/dev/shm", 0); /* many commits, and no power cut */
	memset(subs, 0, sizeof(subs));
	next_row = floor_row = held_row = shelf_row = 1;
	delivered = 0;
	log_new_with(&(struct sc_log_settings){ .journal_bytes = 65536, .message_max = 3200 });
	shelf_new();
	feeds_open(2);
	writer = open_log(SC_LOG_APPEND);
	served = open_log(SC_LOG_READ);
	settings->name = "t";
	settings->message_max = 3200;
	settings->ring_bytes = settings->ring_bytes ? settings->ring_bytes : 65536;
	settings->wake = settings->dropped = wake;
	settings->feeds = pool;
	CHECK_OK(sc_stream_open(settings, served, &stream, &err), &err);
	CHECK_OK(sc_stream_set_archive(stream, over_web ? web_url : log_url, "s3://b/trades",
				       false, &err),
		 &err);
}

static inline void end(void)
{
	for (int i = 0; i < SUBS; i++)
		sc_subscriber_free(subs[i].sub);
	sc_stream_close(stream);
	feeds_close();
	sc_log_close(served);
	sc_log_close(writer);
	log_done();
}

static inline int attach(struct consumer *c, bool has_offset, uint64_t offset, struct sc_refusal *refusal)
{
	struct sc_target target = { .has_offset = has_offset, .offset = offset };
	int rc;

	target.has_where = c->filtered;
	if (c->filtered)
		target.where = SC_SPAN("{\"k\":1}");
	c->has_offset = has_offset;
	c->asked = offset;
	c->next = has_offset ? offset : next_row;
	c->greeted = c->waits = false;
	rc = sc_stream_attach(stream, &target, c, &c->sub, refusal, &err);
	CHECK_OK(rc, &err);
	return rc;
}

/* replay tells where it begins. */
static inline void check_greeting(struct consumer *c, struct sc_span text)
{
	char copy[1000], *replay;
	unsigned long long start, stop;

	CHECK(text.len < sizeof(copy));
	memcpy(copy, text.data, text.len);
	copy[text.len] = 0;
	CHECK(strstr(copy, ",\"sc_archive\":\"s3://b/trades\"}"));
	c->greeted = true;
	replay = strstr(copy, "\"replay\":[");
	CHECK(!c->has_offset == !replay);
	if (!replay)
		return;
	CHECK_INT(sscanf(replay, "\"replay\":[%llu,%llu]", &start, &stop), 2);
	CHECK(stop <= next_row);
	if (c->asked)
		CHECK_INT(start, c->asked);
	c->next = start;
}

static inline void check_payload(struct consumer *c, struct sc_span payload)
{
	char want[3300];
	size_t n;

	if (!c->greeted) {
		check_greeting(c, payload);
		return;
	}
	while (c->filtered && c->next % 3 != 1)
		c->next++;
	CHECK(c->next < next_row);
	n = (size_t)snprintf(want, sizeof(want), "[%llu,", (unsigned long long)c->next);
	n += message(c->next, want + n);
	want[n++] = ']';
	if (payload.len != n || memcmp(payload.data, want, n) != 0)
		FAIL("offset %" PRIu64 " was not sent as it is: %.*s", c->next,
		     (int)(payload.len < 80 ? payload.len : 80), payload.data);
	c->next++;
	delivered++;
}

/* Frames until AT_MOST of them; how many bytes they are. */
static inline size_t check_frames(struct consumer *c, struct sc_span frames, uint64_t at_most)
{
	size_t at = 0, head;

	for (; at < frames.len && at_most > 0; at_most--) {
		uint64_t size = sc_head_payload((const unsigned char *)frames.data + at, &head);

		CHECK(at + head + size <= frames.len);
		check_payload(c, sc_span(frames.data + at + head, (size_t)size));
		at += head + (size_t)size;
	}
	return at;
}

static inline enum sc_next step(struct consumer *c)
{
	static const size_t maxima[] = { 1, 100, 4000, 30000, 131072 };
	struct consumer before = *c;
	struct sc_delivery m;
	struct sc_span frames;
	uint64_t parts = rnd(8) ? UINT64_MAX : rnd(4), count = delivered;
	enum sc_next next;

	sc_err_clear(&err);
	next = c->messages ? sc_subscriber_message(c->sub, &m, &err)
			   : sc_subscriber_next(c->sub, maxima[rnd(5)], &frames, &err);
	if (next == SC_NEXT_IDLE)
		c->waits = true;
	if (next != SC_NEXT_DATA)
		return next;
	if (c->messages)
		check_payload(c, m.payload);
	else
		sc_subscriber_sent_part(c->sub, check_frames(c, frames, parts));
	if (c->messages && rnd(8)) {
		sc_subscriber_sent(c->sub);
	} else if (c->messages) {
		*c = before; /* not sent: the same comes again */
		delivered = count;
	}
	return next;
}

static inline void fed(void)
{
	uint64_t rings;

	if (read(bell, &rings, sizeof(rings)) > 0)
		sc_stream_fed(pool);
}

static inline int pump(void)
{
	int wait, rc = sc_stream_pump(stream, 1u << 16, &wait, &err);

	CHECK_OK(rc, &err);
	return rc;
}

/* Until SUB is through with all rows, or closed; the loop as a server has it. */
static inline enum sc_next through(struct consumer *c)
{
	enum sc_next next = SC_NEXT_AGAIN;

	while (next != SC_NEXT_CLOSE) {
		int more = pump();

		fed();
		while (c->filtered && c->greeted && c->next % 3 != 1)
			c->next++;
		if (c->greeted && c->next >= next_row)
			return SC_NEXT_DATA;
		if (!c->waits)
			next = step(c);
		else if (!more)
			await_bell();
	}
	return next;
}

/* Who got its last row out of the archive looks for the next one there, and so goes back to the
 * log. */
static inline void settle(struct consumer *c)
{
	while (sc_subscriber_in_archive(c->sub)) {
		fed();
		if (!c->waits)
			CHECK(step(c) != SC_NEXT_CLOSE);
		else
			await_bell();
	}
}

static inline void leave(struct consumer *c)
{
	sc_subscriber_free(c->sub);
	memset(c, 0, sizeof(*c));
}

static inline void expect_close(struct consumer *c, int code, const char *reason)
{
	const struct sc_close *close = sc_subscriber_close(c->sub);

	CHECK_INT(close->code, code);
	CHECK_MEM(close->reason, close->len, reason);
}

#endif
