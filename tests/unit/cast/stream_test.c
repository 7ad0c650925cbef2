/*
 * A stream of a log and its subscribers, against the model: random appends, pumps, attaches at any
 * offset, steps with any maximum, spans that were not sent, trims, leaves.
 */
#include <sys/resource.h>

#include "stream_model.h"

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
