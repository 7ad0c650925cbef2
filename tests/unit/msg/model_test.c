/*
 * The broker delivers what a model of wsmsg 7 to 13 delivers, message for message, whatever is done
 * to it. Method: random operations; the model has plain arrays, tries every subscription on every
 * message, and knows nothing of routers, heaps and lists.
 */
#include "lab.h"
#include "base/clock.h"
#include "msg/pattern.h"

#define ENDPOINTS 4
#define CHANNELS 4
#define NODES 4 /* of an endpoint */
#define QUEUE 5000

static const char *const endpoints[ENDPOINTS] = { "e0", "e1", "e2", "e3" };
static const char *const channels[CHANNELS] = { "a.x", "a.y", "b.x", "b" };
static const char *const patterns[] = { "a.x", "a.y", "b", "*", "a.*", "*.x", "?", "[ab].[xy]" };
static const char *const subjects[] = { "s", "t.u" };
static const char *const subject_patterns[] = { "*", "s", "t.*", "[!s]*" };
static const char *const references[] = { "r0", "r1" };
#define COUNT(a) (sizeof(a) / sizeof(*(a)))

struct item {
	unsigned priority, id, channel, subject;
	int reference; /* -1: none */
	uint64_t seq;
};

struct queue {
	struct item items[QUEUE];
	size_t count, size;
};

static struct model {
	bool subscribed[ENDPOINTS][COUNT(patterns)][COUNT(subject_patterns)];
	struct {
		int64_t expires;
		bool once, live;
	} awaits[ENDPOINTS][COUNT(references)];
	struct queue queues[ENDPOINTS], waiting[CHANNELS];
	unsigned priority[CHANNELS];
	struct {
		struct peer *peer;
		bool holds;
		unsigned held;
	} nodes[ENDPOINTS][NODES];
	int last[ENDPOINTS], node_count[ENDPOINTS];
	bool paused;
	uint64_t seq;
	char want[PEERS][8192];
} m;

static void drop_at(struct queue *q, size_t at)
{
	memmove(&q->items[at], &q->items[at + 1], (--q->count - at) * sizeof(q->items[0]));
}

static void cut(struct queue *q)
{
	while (q->count > q->size) {
		size_t victim = 0;

		for (size_t i = 1; i < q->count; i++) {
			if (q->items[i].priority < q->items[victim].priority)
				victim = i;
		}
		drop_at(q, victim);
	}
}

static void push(struct queue *q, struct item item)
{
	CHECK(q->count < QUEUE);
	q->items[q->count++] = item;
	cut(q);
}

static void expect(const struct peer *p, const char *text)
{
	char *want = m.want[p - lab_peers];
	size_t len = strlen(want);

	snprintf(want + len, sizeof(m.want[0]) - len, "%s%s", len ? " | " : "", text);
}

static bool wants(int e, const struct item *item)
{
	for (size_t p = 0; p < COUNT(patterns); p++) {
		for (size_t s = 0; s < COUNT(subject_patterns); s++) {
			if (m.subscribed[e][p][s] &&
			    sc_pattern_match(sc_span_str(patterns[p]),
					     sc_span_str(channels[item->channel])) &&
			    sc_pattern_match(sc_span_str(subject_patterns[s]),
					     sc_span_str(subjects[item->subject])))
				return true;
		}
	}
	return false;
}

static bool awaited(int e, int reference)
{
	if (reference < 0 || !m.awaits[e][reference].live ||
	    m.awaits[e][reference].expires <= LAB_WALL + lab_us)
		return false;
	if (m.awaits[e][reference].once)
		m.awaits[e][reference].live = false;
	return true;
}

static void route(struct item item)
{
	item.priority = m.priority[item.channel];
	for (int e = 0; e < ENDPOINTS; e++) {
		bool a = awaited(e, item.reference);

		if (wants(e, &item) || a)
			push(&m.queues[e], item);
	}
}

static void forward(void)
{
	while (!m.paused) {
		int best = -1;

		for (int c = 0; c < CHANNELS; c++) {
			if (m.waiting[c].count &&
			    (best < 0 || m.priority[c] > m.priority[best] ||
			     (m.priority[c] == m.priority[best] &&
			      m.waiting[c].items[0].seq < m.waiting[best].items[0].seq)))
				best = c;
		}
		if (best < 0)
			return;
		route(m.waiting[best].items[0]);
		drop_at(&m.waiting[best], 0);
	}
}

static int next_ready(int e)
{
	for (int i = 1; i <= NODES; i++) {
		int slot = (m.last[e] + i) % NODES;

		if (m.nodes[e][slot].peer && !m.nodes[e][slot].holds)
			return slot;
	}
	return -1;
}

static void deliver(void)
{
	for (int e = 0; e < ENDPOINTS && !m.paused; e++) {
		struct queue *q = &m.queues[e];
		int slot;

		while (q->count && (slot = next_ready(e)) >= 0) {
			size_t best = 0;
			char text[60];

			for (size_t i = 1; i < q->count; i++) {
				if (q->items[i].priority > q->items[best].priority)
					best = i;
			}
			snprintf(text, sizeof(text), "M%u %s/%s %s%snil", q->items[best].id,
				 channels[q->items[best].channel], subjects[q->items[best].subject],
				 q->items[best].reference < 0 ? "" : "@",
				 q->items[best].reference < 0 ? ""
				 : q->items[best].reference   ? "r1 "
							      : "r0 ");
			expect(m.nodes[e][slot].peer, text);
			m.nodes[e][slot].holds = true;
			m.nodes[e][slot].held = q->items[best].id;
			m.last[e] = slot;
			drop_at(q, best);
		}
	}
}

/* What the broker did, once the answer to the operation is taken away. */
static void settle(void)
{
	while (sc_broker_busy(lab))
		sc_broker_work(lab);
	forward();
	deliver();
	for (int e = 0; e < ENDPOINTS; e++) {
		for (int s = 0; s < NODES; s++) {
			struct peer *p = m.nodes[e][s].peer;

			if (!p)
				continue;
			GOT(p, m.want[p - lab_peers]);
			m.want[p - lab_peers][0] = 0;
		}
	}
}

static unsigned pick(size_t count)
{
	return (unsigned)sc_random_below(count);
}

static void answered(struct peer *boss)
{
	if (boss->len < 3 || memcmp(boss->log, "ack", 3))
		FAIL("refused: %.*s", (int)boss->len, boss->log);
	boss->len = 0;
}

static void do_publish(struct peer *boss)
{
	static unsigned id;
	struct item item = { .id = ++id,
			     .channel = pick(CHANNELS),
			     .subject = pick(COUNT(subjects)),
			     .reference = (int)pick(4) - 2,
			     .seq = ++m.seq };
	char uid[16];

	if (item.reference < 0)
		item.reference = -1;
	snprintf(uid, sizeof(uid), "M%u", item.id);
	send_ref(boss, uid, channels[item.channel], subjects[item.subject],
		 item.reference < 0 ? NULL : references[item.reference], "nil");
	answered(boss);
	push(&m.waiting[item.channel], item);
}

static void do_subscribe(struct peer *boss, bool on)
{
	unsigned e = pick(ENDPOINTS), p = pick(COUNT(patterns)), s = pick(COUNT(subject_patterns));
	char data[100];

	if (on) {
		snprintf(data, sizeof(data), "['%s' '%s' '%s']", endpoints[e], patterns[p],
			 subject_patterns[s]);
		command(boss, "S", "subscribe.channel", data);
		m.subscribed[e][p][s] = true;
	} else {
		snprintf(data, sizeof(data), "['%s' '%s']", endpoints[e], patterns[p]);
		command(boss, "S", "unsubscribe.channel", data);
		for (size_t i = 0; i < COUNT(patterns); i++) {
			if (i == p ||
			    sc_pattern_match(sc_span_str(patterns[p]), sc_span_str(patterns[i])))
				memset(m.subscribed[e][i], 0, sizeof(m.subscribed[e][i]));
		}
	}
	answered(boss);
}

static void do_await(struct peer *boss)
{
	unsigned e = pick(ENDPOINTS), r = pick(COUNT(references));
	char data[100];
	int64_t expires = (LAB_WALL + lab_us) / 1000000 + 1 + (int64_t)pick(5);

	if (pick(3) == 0) {
		snprintf(data, sizeof(data), "['%s' \"%s\"]", endpoints[e], references[r]);
		command(boss, "S", "unsubscribe.message", data);
		m.awaits[e][r].live = false;
	} else if (pick(2)) {
		snprintf(data, sizeof(data), "['%s' \"%s\"]", endpoints[e], references[r]);
		command(boss, "S", "subscribe.message", data);
		m.awaits[e][r].live = m.awaits[e][r].once = true;
		m.awaits[e][r].expires = LAB_WALL + lab_us + 300000000;
	} else {
		snprintf(data, sizeof(data), "['%s' \"%s\" %" PRId64 "]", endpoints[e],
			 references[r], expires);
		command(boss, "S", "subscribe.message", data);
		m.awaits[e][r].live = true;
		m.awaits[e][r].once = false;
		m.awaits[e][r].expires = expires * 1000000;
	}
	answered(boss);
}

static void do_node(void)
{
	unsigned e = pick(ENDPOINTS), slot = pick(NODES);

	if (m.nodes[e][slot].peer) {
		leave(m.nodes[e][slot].peer);
		m.nodes[e][slot].peer = NULL;
		m.nodes[e][slot].holds = false;
		m.node_count[e]--;
		return;
	}
	for (slot = 0; m.nodes[e][slot].peer;)
		slot++;
	if (m.node_count[e]++ == 0)
		m.last[e] = NODES - 1;
	m.nodes[e][slot].peer = join("n", endpoints[e]);
}

static void do_ack(void)
{
	unsigned e = pick(ENDPOINTS), slot = pick(NODES);
	char uid[16];

	if (!m.nodes[e][slot].peer || !m.nodes[e][slot].holds)
		return;
	snprintf(uid, sizeof(uid), "M%u", m.nodes[e][slot].held - (pick(10) == 0));
	m.nodes[e][slot].holds = m.nodes[e][slot].held != (unsigned)atoi(uid + 1);
	ack(m.nodes[e][slot].peer, uid);
}

static void do_setting(struct peer *boss)
{
	unsigned what = pick(3), i = pick(4), value = 1 + pick(pick(2) ? 6 : 60);
	char data[60];

	if (what == 0) {
		snprintf(data, sizeof(data), "['%s' %u]", endpoints[i], value);
		command(boss, "S", "endpoint.size", data);
		m.queues[i].size = value;
		cut(&m.queues[i]);
	} else if (what == 1) {
		snprintf(data, sizeof(data), "['%s' %u]", channels[i], value);
		command(boss, "S", "channel.size", data);
		m.waiting[i].size = value;
		cut(&m.waiting[i]);
	} else {
		snprintf(data, sizeof(data), "['%s' %u]", channels[i], value % 3);
		command(boss, "S", "channel.priority", data);
		m.priority[i] = value % 3;
	}
	answered(boss);
}

static void run(unsigned steps)
{
	struct peer *boss;

	memset(&m, 0, sizeof(m));
	for (int i = 0; i < 4; i++)
		m.queues[i].size = m.waiting[i].size = 100000;
	lab_start();
	boss = join("boss", "boss");
	for (unsigned step = 0; step < steps; step++) {
		unsigned what = pick(100);

		if (what < 45)
			do_publish(boss);
		else if (what < 75)
			do_ack();
		else if (what < 80)
			do_subscribe(boss, true);
		else if (what < 82)
			do_subscribe(boss, false);
		else if (what < 86)
			do_await(boss);
		else if (what < 91 && (pick(4) == 0 || m.node_count[pick(ENDPOINTS)] < 2))
			do_node();
		else if (what < 93)
			do_setting(boss);
		else if (what < 95) {
			m.paused = pick(2) == 0;
			command(boss, "S", m.paused ? "pause" : "resume", "nil");
			answered(boss);
		} else {
			lab_us += (int64_t)pick(1500000);
			sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
			if (pick(2)) /* what is over counts as over before the tick, too */
				lab_wait(0);
		}
		settle();
		for (int e = 0; e < ENDPOINTS; e++)
			CHECK(m.queues[e].count < QUEUE - 10);
	}
	sc_broker_free(lab);
	lab = NULL;
}

TEST(random_operations)
{
	for (int round = 0; round < 40; round++)
		run(2500);
}
