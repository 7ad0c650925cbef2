/*
 * tests/unit/cast/stream_model.h: a stream beside a plain list of its rows, with subscribers that check what they get:
 * each row from their start on, once, in order, byte for byte, and a wake whenever one waits for a row.
 */
#ifndef SC_TESTS_STREAM_MODEL_H
#define SC_TESTS_STREAM_MODEL_H

#include <ftw.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"
#include "cast/stream.h"
#include "wire/head.h"

#define SUBS 12

static uint64_t seed;
static char folder[64];

static inline uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static inline int forget(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static inline void make_folder(void)
{
	strcpy(folder,
	       access("/dev/shm", W_OK) == 0 ? "/dev/shm/sc-cast-XXXXXX" : "/tmp/sc-cast-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
}

static inline void drop_folder(void)
{
	nftw(folder, forget, 8, FTW_DEPTH | FTW_PHYS);
}

struct consumer {
	struct sc_subscriber *sub;
	uint64_t next; /* offset, or number without a log */
	bool greeted, waits, messages, filtered, sent_all;
	uint64_t start;
};

static struct {
	struct sc_stream *stream;
	struct sc_log *writer, *reader;
	char **rows;
	int64_t *times;
	uint64_t next, floor, cap;
	bool triples;
	struct consumer subs[SUBS];
	uint64_t delivered, drops, evictions, wakes, attaches, leaves;
} m;

static inline void wake(void *arg)
{
	((struct consumer *)arg)->waits = false;
	m.wakes++;
}

static inline void open_model(uint64_t ring, int wire, uint64_t max_backlog, bool durable)
{
	struct sc_log_settings log = { .message_max = 3000, .journal_bytes = 64 << 10 };
	struct sc_stream_settings s = { .name = "t",
					.wire = wire,
					.ring_bytes = ring,
					.max_backlog = max_backlog,
					.message_max = 3000,
					.wake = wake,
					.dropped = wake };
	struct sc_err err;
	char path[100];

	memset(&m, 0, sizeof(m));
	m.triples = wire >= 4;
	m.next = m.floor = 1;
	m.cap = 400000;
	m.rows = calloc(m.cap, sizeof(*m.rows));
	m.times = calloc(m.cap, sizeof(*m.times));
	CHECK(m.rows && m.times);
	if (durable) {
		make_folder();
		snprintf(path, sizeof(path), "%s/t", folder);
		CHECK_OK(sc_log_create(path, &log, &err), &err);
		CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &m.writer, &err), &err);
		CHECK_OK(sc_log_open(path, SC_LOG_READ, &m.reader, &err), &err);
	}
	CHECK_OK(sc_stream_open(&s, m.reader, &m.stream, &err), &err);
}

static inline void close_model(void)
{
	for (int i = 0; i < SUBS; i++)
		sc_subscriber_free(m.subs[i].sub);
	sc_stream_close(m.stream);
	sc_log_close(m.reader);
	sc_log_close(m.writer);
	for (uint64_t i = 0; i < m.cap; i++)
		free(m.rows[i]);
	free(m.rows);
	free(m.times);
	drop_folder();
}

static inline char *make_row(void)
{
	uint64_t size = rnd(40) ? rnd(150) : rnd(2900);
	char *row = malloc(size + 40);

	CHECK(row != NULL);
	snprintf(row, size + 40, "{\"k\":%" PRIu64 ",\"p\":\"%.*s\"}", rnd(3), 0, "");
	if (size > 20) {
		size_t n = strlen(row) - 2;

		memset(row + n, 'a' + (int)rnd(26), size - 20);
		strcpy(row + n + size - 20, "\"}");
	}
	return row;
}

static inline void append(uint64_t count)
{
	struct sc_bytes text;
	uint32_t lens[64];
	struct sc_log_rows rows = { .lens = lens, .count = count };
	struct sc_log_commit done;
	struct sc_err err;

	sc_bytes_init(&text, 1 << 20);
	for (uint64_t i = 0; i < count; i++) {
		char *row = make_row();

		lens[i] = (uint32_t)strlen(row);
		CHECK(sc_bytes_put(&text, row, lens[i]) == 0);
		m.rows[m.next + i] = row;
	}
	rows.text = sc_span(text.data, text.len);
	CHECK_OK(sc_log_append(m.writer, &rows, &done, &err), &err);
	CHECK_INT(done.first, m.next);
	for (uint64_t i = 0; i < count; i++)
		m.times[m.next + i] = done.appended_us;
	m.next += count;
	sc_bytes_done(&text);
}

static inline void attach(struct consumer *c)
{
	struct sc_target target = { 0 };
	struct sc_refusal refusal;
	struct sc_err err;
	int rc;

	memset(c, 0, sizeof(*c));
	target.has_offset = rnd(4) != 0;
	target.offset = rnd(3) ? m.floor + rnd(m.next - m.floor + 1) : 0;
	if (rnd(4) == 0) {
		target.has_where = true;
		target.where = SC_SPAN("{\"k\":1}");
	}
	rc = sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err);
	CHECK_OK(rc, &err);
	CHECK_INT(rc, 0);
	c->filtered = target.has_where;
	c->messages = rnd(4) == 0;
	c->start = !target.has_offset ? m.next : target.offset ? target.offset : m.floor;
	c->next = c->start;
	m.attaches++;
}

static inline void check_payload(struct consumer *c, struct sc_span payload)
{
	char head[64];
	const char *row;
	size_t n;

	if (!c->greeted) {
		snprintf(head, sizeof(head), "{\"streamcast\":%d,\"stream\":\"t\",",
			 sc_stream_wire(m.stream));
		CHECK(payload.len > strlen(head) && !memcmp(payload.data, head, strlen(head)));
		c->greeted = true;
		return;
	}
	while (c->filtered && c->next < m.next && strncmp(m.rows[c->next], "{\"k\":1,", 7))
		c->next++;
	CHECK(c->next < m.next);
	row = m.rows[c->next];
	if (m.triples)
		n = (size_t)snprintf(head, sizeof(head), "[%" PRIu64 ",%" PRId64 ",", c->next,
				     m.times[c->next]);
	else
		n = (size_t)snprintf(head, sizeof(head), "[%" PRIu64 ",", c->next);
	if (payload.len != n + strlen(row) + 1 || memcmp(payload.data, head, n) ||
	    memcmp(payload.data + n, row, strlen(row)) || payload.data[payload.len - 1] != ']')
		FAIL("offset %" PRIu64 " was not sent as it is: %.*s", c->next,
		     (int)(payload.len < 80 ? payload.len : 80), payload.data);
	c->next++;
	m.delivered++;
}

static inline void check_frames(struct consumer *c, struct sc_span frames)
{
	while (frames.len) {
		size_t head;
		uint64_t size = sc_head_payload((const unsigned char *)frames.data, &head);

		CHECK(head + size <= frames.len);
		check_payload(c, sc_span(frames.data + head, (size_t)size));
		frames = sc_span(frames.data + head + size, frames.len - head - (size_t)size);
	}
}

/* The socket took less: whole frames, or nothing. */
static inline void take_part(struct consumer *c, struct sc_span frames)
{
	size_t part = 0, head;

	for (uint64_t n = rnd(4); n > 0 && part < frames.len; n--) {
		uint64_t size = sc_head_payload((const unsigned char *)frames.data + part, &head);

		part += head + (size_t)size;
	}
	check_frames(c, sc_span(frames.data, part));
	sc_subscriber_sent_part(c->sub, part);
}

static inline enum sc_next step(struct consumer *c)
{
	static const size_t maxima[] = { 1, 100, 4000, 30000, 131072 };
	struct consumer before = *c;
	struct sc_delivery message;
	struct sc_span frames;
	struct sc_err err;
	enum sc_next next;
	uint64_t delivered = m.delivered;

	sc_err_clear(&err);
	next = c->messages ? sc_subscriber_message(c->sub, &message, &err)
			   : sc_subscriber_next(c->sub, maxima[rnd(5)], &frames, &err);
	if (err.code)
		FAIL("%s: %s", err.tried, err.reason);
	switch (next) {
	case SC_NEXT_DATA:
		if (!c->messages && rnd(8) == 0) {
			take_part(c, frames);
			break;
		}
		if (c->messages) {
			CHECK_INT(message.greeting, !c->greeted);
			check_payload(c, message.payload);
		} else {
			check_frames(c, frames);
		}
		if (rnd(10)) {
			sc_subscriber_sent(c->sub);
		} else { /* not sent: the same comes again */
			*c = before;
			m.delivered = delivered;
		}
		break;
	case SC_NEXT_IDLE:
		c->waits = true;
		break;
	case SC_NEXT_CLOSE:
		if (sc_subscriber_close(c->sub)->code == 4416) {
			/* Retention passed it, and only then. */
			CHECK(c->next < m.floor);
			m.evictions++;
		} else {
			CHECK_INT(sc_subscriber_close(c->sub)->code, 4429);
			m.drops++;
		}
		sc_subscriber_free(c->sub);
		c->sub = NULL;
		break;
	case SC_NEXT_AGAIN:
		break;
	}
	return next;
}

/* Nobody appends any more: all must come to the end, only by being woken. */
static inline void drain(void)
{
	struct sc_err err;
	int wait;

	for (int round = 0;; round++) {
		bool busy = false;
		int rc = sc_stream_pump(m.stream, 1 << 20, &wait, &err);

		CHECK_OK(rc, &err);
		CHECK(round < 200000);
		if (wait)
			usleep(1000);
		for (int i = 0; i < SUBS; i++) {
			struct consumer *c = &m.subs[i];

			if (c->sub && !c->waits) {
				busy = true;
				step(c);
			}
		}
		if (rc == 0 && !busy)
			break;
	}
	for (int i = 0; i < SUBS; i++) {
		struct consumer *c = &m.subs[i];

		if (!c->sub)
			continue;
		while (c->filtered && c->next < m.next && strncmp(m.rows[c->next], "{\"k\":1,", 7))
			c->next++;
		CHECK_INT(c->next, m.next);
	}
}

#endif
