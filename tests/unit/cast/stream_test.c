/*
 * A stream, its log and its subscribers against a plain list of rows: random appends, pumps,
 * attaches at any offset, steps with any maximum, spans that were not sent, trims, leaves. Every
 * subscriber must get each row from its start on, once, in order, byte for byte, and be woken
 * whenever it waits for one.
 */
#include <ftw.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../check.h"
#include "base/clock.h"
#include "cast/stream.h"
#include "wire/head.h"

#define SUBS 12

static uint64_t seed;
static char folder[64];

static uint64_t rnd(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static int forget(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void make_folder(void)
{
	strcpy(folder,
	       access("/dev/shm", W_OK) == 0 ? "/dev/shm/sc-cast-XXXXXX" : "/tmp/sc-cast-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
}

static void drop_folder(void)
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

static void wake(void *arg)
{
	((struct consumer *)arg)->waits = false;
	m.wakes++;
}

static void open_model(uint64_t ring, int wire, uint64_t max_backlog, bool durable)
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

static void close_model(void)
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

static char *make_row(void)
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

static void append(uint64_t count)
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

static void attach(struct consumer *c)
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

static void check_payload(struct consumer *c, struct sc_span payload)
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

static void check_frames(struct consumer *c, struct sc_span frames)
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
static void take_part(struct consumer *c, struct sc_span frames)
{
	size_t part = 0, head;

	for (uint64_t n = rnd(4); n > 0 && part < frames.len; n--) {
		uint64_t size = sc_head_payload((const unsigned char *)frames.data + part, &head);

		part += head + (size_t)size;
	}
	check_frames(c, sc_span(frames.data, part));
	sc_subscriber_sent_part(c->sub, part);
}

static enum sc_next step(struct consumer *c)
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
static void drain(void)
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

static void run_durable(uint64_t ring, int wire, uint64_t backlog, uint64_t steps, bool trims)
{
	struct sc_stream_stats stats;
	struct sc_err err;
	int wait;

	open_model(ring, wire, backlog, true);
	for (uint64_t i = 0; i < steps; i++) {
		struct consumer *c = &m.subs[rnd(SUBS)];
		uint64_t what = rnd(100);

		if (what < 6 && m.next + 64 < m.cap)
			append(1 + rnd(30));
		else if (what < 14)
			CHECK_OK(sc_stream_pump(m.stream, rnd(3) ? rnd(20000) : 1 << 20, &wait,
						&err),
				 &err);
		else if (what < 15 && rnd(4) == 0)
			sc_stream_tick(m.stream);
		else if (what < 17 && c->sub && rnd(4) == 0) {
			sc_subscriber_free(c->sub);
			c->sub = NULL;
			m.leaves++;
		} else if (what < 18 && trims && rnd(50) == 0) {
			m.floor += rnd(m.next - m.floor + 1);
			CHECK_OK(sc_log_trim(m.writer, m.floor, &err), &err);
		} else if (!c->sub)
			attach(c);
		else if (!c->waits || rnd(20) == 0)
			step(c);
	}
	drain();
	CHECK_OK(sc_stream_stats(m.stream, &stats, &err), &err);
	CHECK_INT(stats.end_offset, m.next);
	CHECK_INT(stats.lag_rows, 0);
	CHECK_INT(stats.attached, m.attaches);
	/* Who left may have been dropped before it saw it. */
	CHECK(stats.dropped_slow >= m.drops && stats.dropped_slow <= m.drops + m.leaves);
	CHECK(stats.dropped_evicted >= m.evictions &&
	      stats.dropped_evicted <= m.evictions + m.leaves);
	CHECK_INT(stats.backlog_max, 0);
	if (m.delivered)
		CHECK(stats.messages_out >= m.delivered);
	printf("ring %" PRIu64 ", wire %d: %" PRIu64 " rows, %" PRIu64 " delivered, %" PRIu64
	       " attached, %" PRIu64 " dropped, %" PRIu64 " evicted, %" PRIu64 " woken\n",
	       stats.ring_bytes, wire, m.next - 1, m.delivered, m.attaches, m.drops, m.evictions,
	       m.wakes);
	close_model();
}

TEST(exactly_once)
{
	seed = 88172645463325252u;
	run_durable(SC_RING_MIN, 1, 0, 50000, false);
	run_durable(256 << 10, 4, 0, 50000, false);
	CHECK_INT(m.drops, 0);
}

static int next_fd(void)
{
	int fd = dup(STDERR_FILENO);

	CHECK(fd >= 0);
	close(fd);
	return fd;
}

/* As many replays as descriptors were left, in journals that all end soon: each has to open the
 * next, and the pump as well. */
TEST(replays_share_the_descriptors_that_are_left)
{
	struct rlimit was, low;
	struct sc_err err;
	int wait, before, held;

	seed = 3234567891234567u;
	open_model(SC_RING_MIN, 1, 0, true);
	for (int i = 0; i < 200; i++)
		append(30);
	CHECK(sc_stream_pump(m.stream, 200000, &wait, &err) >= 0);
	before = next_fd();
	for (int i = 0; i < SUBS; i++) {
		struct sc_target target = { .has_offset = true, .offset = 1 };
		struct sc_refusal refusal;
		struct consumer *c = &m.subs[i];

		*c = (struct consumer){ .start = 1, .next = 1 };
		CHECK_OK(sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err), &err);
		while (c->next < 3)
			step(c);
	}
	held = next_fd();
	CHECK(held > before + 4);
	CHECK(getrlimit(RLIMIT_NOFILE, &was) == 0);
	low = was;
	low.rlim_cur = (rlim_t)held;
	CHECK(setrlimit(RLIMIT_NOFILE, &low) == 0);
	drain();
	CHECK(setrlimit(RLIMIT_NOFILE, &was) == 0);
	CHECK_INT(m.drops, 0);
	close_model();
}

/* The peer is slow: what it does not take is no reason to hold a file. */
TEST(a_replay_that_stalls_holds_no_file)
{
	struct sc_target target = { .has_offset = true, .offset = 1 };
	struct sc_delivery message;
	struct sc_refusal refusal;
	struct consumer *c = &m.subs[0];
	struct sc_span frames;
	struct sc_err err;
	int wait, before;

	open_model(SC_RING_MIN, 1, 0, true);
	for (int i = 0; i < 100; i++)
		append(30);
	CHECK(sc_stream_pump(m.stream, 1 << 20, &wait, &err) >= 0);
	before = next_fd();
	CHECK_OK(sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err), &err);
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_DATA);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 4000, &frames, &err), SC_NEXT_DATA);
	CHECK(next_fd() > before);
	sc_subscriber_sent_part(c->sub, 0);
	CHECK_INT(next_fd(), before);
	/* One that is given message by message is found by the clock. */
	CHECK_INT(sc_subscriber_message(c->sub, &message, &err), SC_NEXT_DATA);
	CHECK_INT(message.offset, 1);
	CHECK(next_fd() > before);
	sc_stream_tick(m.stream);
	sc_stream_tick(m.stream);
	CHECK_INT(next_fd(), before);
	CHECK_INT(sc_subscriber_message(c->sub, &message, &err), SC_NEXT_DATA);
	CHECK_INT(message.offset, 1);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_message(c->sub, &message, &err), SC_NEXT_DATA);
	CHECK_INT(message.offset, 2);
	sc_stream_tick(m.stream);
	sc_stream_tick(m.stream);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_message(c->sub, &message, &err), SC_NEXT_DATA);
	CHECK_INT(message.offset, 3);
	close_model();
}

TEST(exactly_once_while_trimmed)
{
	seed = 1234567891234567u;
	run_durable(SC_RING_MIN, 1, 0, 50000, true);
}

TEST(exactly_once_until_dropped)
{
	seed = 99172645463325252u;
	run_durable(SC_RING_MIN, 5, 200, 50000, false);
}

static void add_row(void)
{
	struct sc_err err;

	m.rows[m.next] = make_row();
	CHECK_OK(sc_stream_add(m.stream, sc_span_str(m.rows[m.next]), &err), &err);
	m.next++;
}

/* Without a log: [null,row] from now on, contiguous, until the end or 4429. */
static void step_logless(struct consumer *c)
{
	struct sc_span frames;
	struct sc_err err;
	enum sc_next next = sc_subscriber_next(c->sub, rnd(30000) + 1, &frames, &err);

	if (next == SC_NEXT_IDLE) {
		c->waits = true;
	} else if (next == SC_NEXT_CLOSE) {
		CHECK_INT(sc_subscriber_close(c->sub)->code, 4429);
		CHECK(strstr(sc_subscriber_close(c->sub)->reason,
			     "{\"error\":\"too_slow\",\"backlog\":"));
		sc_subscriber_free(c->sub);
		c->sub = NULL;
		m.drops++;
	} else {
		while (next == SC_NEXT_DATA && frames.len) {
			size_t head;
			uint64_t size = sc_head_payload((const unsigned char *)frames.data, &head);
			const char *p = frames.data + head;

			if (c->greeted) {
				const char *row = m.rows[c->next];

				CHECK(size == strlen(row) + 7 && !memcmp(p, "[null,", 6));
				CHECK(!memcmp(p + 6, row, strlen(row)));
				c->next++;
				m.delivered++;
			}
			c->greeted = true;
			frames = sc_span(p + size, frames.len - head - (size_t)size);
		}
		sc_subscriber_sent(c->sub);
	}
}

static void run_logless(uint64_t ring, uint64_t backlog, uint64_t steps)
{
	struct sc_target target = { 0 };
	struct sc_refusal refusal;
	struct sc_err err;
	int wait;

	open_model(ring, 1, backlog, false);
	for (uint64_t i = 0; i < steps; i++) {
		struct consumer *c = &m.subs[rnd(SUBS)];

		if (rnd(3) == 0 && m.next + 1 < m.cap &&
		    (rnd(4) || sc_stream_room(m.stream, &wait) > 0)) {
			add_row();
		} else if (!c->sub) {
			memset(c, 0, sizeof(*c));
			CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err),
				  0);
			c->next = m.next;
		} else if (!c->waits &&
			   (c != &m.subs[0] || rnd(20) == 0)) { /* the first one is slow */
			step_logless(c);
		}
	}
	for (bool busy = true; busy;) {
		busy = false;
		for (int i = 0; i < SUBS; i++) {
			if (m.subs[i].sub && !m.subs[i].waits) {
				step_logless(&m.subs[i]);
				busy = true;
			}
		}
	}
	for (int i = 0; i < SUBS; i++)
		CHECK(!m.subs[i].sub || m.subs[i].next == m.next);
	printf("without a log: %" PRIu64 " rows, %" PRIu64 " delivered, %" PRIu64 " dropped\n",
	       m.next - 1, m.delivered, m.drops);
	close_model();
}

TEST(without_a_log)
{
	seed = 5172645463325252u;
	run_logless(SC_RING_MIN, 0, 300000);
	CHECK(m.drops > 0);
	run_logless(256 << 10, 100, 300000);
	CHECK(m.drops > 0);
}

/* Exactly N behind is kept; one more is dropped, with the numbers. */
TEST(the_backlog_to_the_message)
{
	struct sc_target target = { 0 };
	struct sc_refusal refusal;
	struct sc_span frames;
	struct sc_err err;
	struct consumer *c = &m.subs[0];

	seed = 77;
	open_model(1 << 20, 1, 10, false);
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err), 0);
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_DATA);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_IDLE);
	for (int i = 0; i < 10; i++)
		add_row();
	sc_stream_tick(m.stream);
	CHECK_INT(sc_subscriber_backlog(c->sub), 10);
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_DATA);
	add_row();
	sc_stream_tick(m.stream);
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_CLOSE);
	CHECK_STR(sc_subscriber_close(c->sub)->reason, "{\"error\":\"too_slow\",\"backlog\":10}");
	close_model();
}

/* A ring may hold more than the limit: who comes into it from a replay is not slow yet. */
TEST(a_replay_counts_once_it_had_caught_up)
{
	struct sc_target target = { .has_offset = true, .offset = 1 };
	struct sc_refusal refusal;
	struct sc_span frames;
	struct sc_err err;
	struct consumer *c = &m.subs[0];
	int wait;

	seed = 78;
	open_model(1 << 20, 1, 10, true);
	for (int i = 0; i < 10; i++) {
		append(10);
		while (sc_stream_pump(m.stream, 1 << 20, &wait, &err) == 1)
			;
	}
	CHECK_OK(sc_stream_attach(m.stream, &target, c, &c->sub, &refusal, &err), &err);
	c->next = 1;
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_DATA);
	for (int i = 0; i < 100; i++) {
		check_frames(c, frames);
		sc_subscriber_sent(c->sub);
		sc_stream_tick(m.stream);
		CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_DATA);
	}
	check_frames(c, frames);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_IDLE);
	append(11);
	while (sc_stream_pump(m.stream, 1 << 20, &wait, &err) == 1)
		;
	sc_stream_tick(m.stream);
	CHECK_INT(sc_subscriber_next(c->sub, 1, &frames, &err), SC_NEXT_CLOSE);
	CHECK_INT(sc_subscriber_close(c->sub)->code, 4429);
	close_model();
}

TEST(greetings_and_refusals)
{
	struct sc_target target = { .has_offset = true };
	struct sc_refusal r;
	struct sc_span frames;
	struct sc_err err;
	struct consumer *c = &m.subs[0];
	struct sc_stream_stats stats;
	char want[300];
	size_t head;

	seed = 78;
	open_model(1 << 20, 1, 0, true);
	append(20);
	target.offset = 22;
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 1);
	CHECK_INT(r.why, SC_WHY_AHEAD);
	CHECK_INT(r.end_offset, 21);
	target.offset = UINT64_MAX;
	strcpy(target.offset_digits, "99999999999999999999");
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 1);
	CHECK_STR(r.offset_digits, "99999999999999999999");
	target.offset_digits[0] = '\0';
	target.offset = 21;
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 0);
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_DATA);
	sc_head_payload((const unsigned char *)frames.data, &head);
	snprintf(want, sizeof(want),
		 "{\"streamcast\":1,\"stream\":\"t\",\"end_offset\":21,\"replay\":[21,21],"
		 "\"durable\":true,"
		 "\"schema\":null,\"archive\":null,\"stream_id\":\"%s\"}",
		 sc_log_stream_id(m.reader));
	CHECK_MEM(frames.data + head, frames.len - head, want);
	sc_subscriber_sent(c->sub);
	/* The ring has not seen the 20 rows yet: they are not for this one. */
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_IDLE);
	target.has_where = true;
	target.where = SC_SPAN("{\"k\":[]}");
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 1);
	CHECK_INT(sc_refusal_code(&r), 4400);
	CHECK_OK(sc_stream_stats(m.stream, &stats, &err), &err);
	CHECK_INT(stats.refused[SC_WHY_AHEAD], 2);
	CHECK_INT(stats.refused_bad, 1);
	CHECK_INT(stats.subscribers, 1);
	CHECK_INT(stats.lag_rows, 20);
	close_model();

	open_model(1 << 20, 1, 0, false);
	target.has_where = false;
	target.offset = 0;
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 1);
	CHECK_INT(r.why, SC_WHY_NOT_DURABLE);
	close_model();
}

TEST(shutdown_comes_after_the_greeting)
{
	struct sc_target target = { 0 };
	struct sc_refusal r;
	struct sc_span frames;
	struct sc_err err;
	struct consumer *c = &m.subs[0];

	open_model(1 << 20, 1, 0, false);
	CHECK_INT(sc_stream_attach(m.stream, &target, c, &c->sub, &r, &err), 0);
	sc_stream_close_all(m.stream, SC_CLOSE_SHUTDOWN, "server shutting down");
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_DATA);
	sc_subscriber_sent(c->sub);
	CHECK_INT(sc_subscriber_next(c->sub, 1000, &frames, &err), SC_NEXT_CLOSE);
	CHECK_INT(sc_subscriber_close(c->sub)->code, 1001);
	CHECK_STR(sc_subscriber_close(c->sub)->reason, "server shutting down");
	close_model();
}
