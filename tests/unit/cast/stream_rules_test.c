/*
 * What a stream says and when it lets go: streams without a log, backlogs to the message,
 * greetings, refusals, the end.
 */
#include "stream_model.h"

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
