/*
 * The rules of wsmsg 8 to 14 and 17, 18, about what outlives a message: subscriptions, events, pause,
 * stop, what is forgotten, limits, admins, numbers. Method: as exchange_test.c.
 */
#include "lab.h"

TEST(unsubscribe_by_text_and_by_match)
{
	static const struct {
		const char *pattern;
		uint64_t left;
	} table[] = {
		{ "orders", 4 }, { "ord*", 3 }, { "*", 0 }, { "sys*", 4 }, { "nothing", 5 },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		char data[60];
		struct peer *p;

		lab_start();
		p = join("p", "p");
		command(p, "U1", "subscribe.channel", "['p' 'orders' '*']");
		command(p, "U2", "subscribe.channel", "['p' 'ord*' '*']");
		command(p, "U3", "subscribe.channel", "['p' 'system' '*']");
		command(p, "U4", "subscribe.channel", "['p' '*' 'a']");
		command(p, "U5", "subscribe.channel", "['p' '*' 'b']");
		command(p, "U5", "subscribe.channel", "['p' '*' 'b']");
		CHECK_INT(stats().subscriptions, 5);
		snprintf(data, sizeof(data), "['p' '%s']", table[i].pattern);
		command(p, "U6", "unsubscribe.channel", data);
		CHECK_INT(stats().subscriptions, table[i].left);
	}
}

TEST(system_and_wildcards)
{
	struct peer *all, *sys, *wild, *p;

	lab_start();
	all = join("all", "all");
	sys = join("sys", "sys");
	wild = join("wild", "wild");
	p = join("p", "p");
	command(all, "U1", "subscribe.channel", "['all' '*' '*']");
	command(sys, "U2", "subscribe.channel", "['sys' 'sys*' '*']");
	command(wild, "U3", "subscribe.channel", "['wild' '[s]ystem' '*']");
	all->len = wild->len = 0;
	command(p, "U4", "endpoint.create", "'x'");
	GOT(sys, "ack U2 | U2 system/subscribe.channel ['sys' 'sys*' '*']");
	ack(sys, "U2");
	GOT(sys, "U3 system/subscribe.channel ['wild' '[s]ystem' '*']");
	GOT(all, "");
	GOT(wild, "");
	ack(sys, "U3");
	GOT(sys, "U4 system/endpoint.create 'x'");
}

/* Deliveries to a watcher of system, acknowledged as they come. */
static void drain(struct peer *p)
{
	while (p->held_len)
		ack_held(p);
}

TEST(events_in_their_order)
{
	struct peer *w, *p;

	lab_start();
	w = join("w", "w");
	command(w, "U1", "subscribe.channel", "['w' 'system' '*']");
	drain(w);
	GOT(w, "ack U1 | U1 system/subscribe.channel ['w' 'system' '*']");
	p = join("p", "p");
	drain(w);
	GOT(w, "* system/endpoint.created ['p'] | * system/node.joined ['p' \"p\"]");
	command(p, "U2", "channel.size", "['c' 5]");
	drain(w);
	GOT(w, "U2 system/channel.size ['c' 5] | * system/channel.created ['c'] | "
	       "* system/channel.sized ['c']");
	command(p, "U3", "channel.priority", "['c' 0]");
	drain(w);
	GOT(w, "U3 system/channel.priority ['c' 0] | * system/channel.prioritized ['c']");
	command(p, "U4", "endpoint.size", "['e' 7]");
	drain(w);
	GOT(w, "U4 system/endpoint.size ['e' 7] | * system/endpoint.created ['e'] | "
	       "* system/endpoint.sized ['e']");
	command(p, "U5", "endpoint.create", "'e'"); /* it is there: no event */
	drain(w);
	GOT(w, "U5 system/endpoint.create 'e'");
	command(p, "U6", "subscribe.channel", "['e' 'lit' '*']");
	drain(w);
	GOT(w, "U6 system/subscribe.channel ['e' 'lit' '*'] | * system/channel.created ['lit']");
	command(p, "U7", "subscribe.channel", "['e' 'a*' '*']");
	drain(w);
	GOT(w, "U7 system/subscribe.channel ['e' 'a*' '*']");
	send(p, "U8", "fresh", "s", "1");
	drain(w);
	GOT(w, "* system/channel.created ['fresh']");
	command(p, "U9", "nonsense", "nil");
	drain(w);
	GOT(w, "");
	leave(p);
	drain(w);
	GOT(w, "* system/node.left ['p' \"p\"]");
}

TEST(system_goes_before_all_others)
{
	struct peer *w, *p;

	lab_start();
	w = join("w", "w");
	p = join("p", "p");
	command(w, "U1", "subscribe.channel", "['w' 'c' '*']");
	command(w, "U2", "subscribe.channel", "['w' 'system' 'channel.*']");
	command(p, "U3", "channel.priority", "['c' 99]");
	w->len = 0;
	send(p, "U4", "c", "s", "1");
	command(p, "U5", "channel.create", "'d'");
	drain(w);
	GOT(w, "* system/channel.prioritized ['c'] | U5 system/channel.create 'd' | "
	       "* system/channel.created ['d'] | U4 c/s 1");
}

TEST(the_joining_node_is_told_only_if_subscribed_before)
{
	struct peer *p, *e;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['e' 'system' 'node.*']");
	e = join("e", "e");
	GOT(e, "* system/node.joined ['e' \"e\"]");
}

TEST(pause_and_resume)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(a, "U1", "subscribe.channel", "['a' '*' '*']");
	send(p, "U2", "c", "s", "1");
	GOT(a, "ack U1 | U2 c/s 1");
	command(p, "U3", "pause", "nil");
	command(p, "U4", "pause", "nil");
	ack(a, "U2"); /* settles */
	CHECK_INT(stats().acked, 1);
	send(p, "U5", "lo", "s", "1");
	send(p, "U6", "lo2", "s", "2");
	send(p, "U7", "hi", "s", "3");
	command(p, "U8", "channel.priority", "['hi' 5]");
	send(p, "U9", "lo", "s", "4");
	command(p, "U10", "channel.size", "['small' 2]");
	send(p, "V1", "small", "s", "1");
	send(p, "V2", "small", "s", "2");
	send(p, "V3", "small", "s", "3");
	p->len = 0;
	GOT(a, "");
	CHECK_INT(stats().dropped_full, 1);
	command(p, "U11", "resume", "nil");
	GOT(p, "ack U11");
	for (int i = 0; i < 7; i++)
		ack(a, a->held);
	GOT(a, "U7 hi/s 3 | U5 lo/s 1 | U6 lo2/s 2 | U9 lo/s 4 | V2 small/s 2 | V3 small/s 3");
	command(p, "U12", "resume", "nil");
	send(p, "U13", "c", "s", "5");
	GOT(p, "ack U12 | ack U13 = 1");
	GOT(a, "U13 c/s 5");
}

TEST(paused_publishes_are_acked_without_a_number)
{
	struct peer *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "pause", "nil");
	send(p, "U2", "c", "s", "1");
	GOT(p, "ack U1 | ack U2");
	CHECK_INT(stats().queued, 1);
	command(p, "U3", "resume", "nil");
	CHECK_INT(stats().queued, 0);
	CHECK_INT(stats().unrouted, 1);
}

TEST(a_long_backlog_is_forwarded_in_parts)
{
	struct peer *a, *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	command(p, "U2", "pause", "nil");
	for (int i = 0; i < 2500; i++) {
		send(p, "M", "c", "s", "1");
		p->len = 0;
	}
	CHECK(!sc_broker_busy(lab));
	command(p, "U3", "resume", "nil");
	p->len = 0;
	CHECK(sc_broker_busy(lab));
	send(p, "U4", "c", "s", "2"); /* behind those that wait */
	GOT(p, "ack U4");
	while (sc_broker_busy(lab))
		sc_broker_work(lab);
	a = join("a", "a");
	for (int i = 0; i < 2500; i++) {
		GOT(a, "M c/s 1");
		ack(a, "M");
	}
	GOT(a, "U4 c/s 2");
}

TEST(stop)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(a, "U1", "subscribe.channel", "['a' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	send(p, "U3", "c", "s", "2");
	GOT(p, "ack U2 = 1 | ack U3 = 1");
	GOT(a, "ack U1 | U2 c/s 1");
	command(p, "U4", "stop", "nil");
	GOT(p, "ack U4 | * system/stopping nil");
	GOT(a, "* system/stopping nil");
	CHECK(sc_broker_stopping(lab));
	CHECK(!sc_broker_admits(lab, SC_SPAN("a")));
	ack(a, "U2");
	CHECK_INT(stats().acked, 1);
	GOT(a, "");
	send(p, "U5", "c", "s", "3");
	GOT(p, "ack U5");
	command(p, "U6", "channel.create", "'x'");
	GOT(p, "error U6 stopping");
	command(p, "U7", "stop", "nil");
	GOT(p, "ack U7");
	CHECK_INT(stats().queued, 2);
}

TEST(message_subscriptions)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(a, "U1", "subscribe.message", "['a' \"R\"]"); /* once */
	send_ref(p, "U2", "c", "s", "R", "1");
	send_ref(p, "U3", "c", "s", "R", "2");
	ack(a, "U2");
	GOT(a, "ack U1 | U2 c/s @R 1");
	command(a, "U4", "subscribe.message", "['a' \"R\" nil]"); /* 300 s */
	send_ref(p, "U5", "c", "s", "R", "3");
	ack(a, "U5");
	lab_wait(299999999);
	send_ref(p, "U6", "d", "t", "R", "4");
	ack(a, "U6");
	GOT(a, "ack U4 | U5 c/s @R 3 | U6 d/t @R 4");
	lab_us += 1; /* no tick: looked at when it is routed */
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	send_ref(p, "U7", "d", "t", "R", "5");
	GOT(a, "");
	lab_wait(0);
	CHECK_INT(stats().subscriptions, 0);
	command(a, "U8", "subscribe.message", "\"S\""); /* the published client's */
	send_ref(p, "U9", "c", "s", "S", "6");
	GOT(a, "ack U8 | U9 c/s @S 6");
}

TEST(a_second_subscribe_replaces_the_expiry)
{
	struct peer *a, *b, *p;
	char data[80];

	lab_start();
	a = join("a", "a");
	b = join("b", "b");
	p = join("p", "p");
	command(a, "U1", "subscribe.message", "['a' \"R\"]");
	snprintf(data, sizeof(data), "['a' \"R\" %.6f]", (double)(LAB_WALL + lab_us) / 1e6 + 0.5);
	command(a, "U2", "subscribe.message", data);
	command(b, "U3", "subscribe.message", "['b' \"R\" nil]");
	CHECK_INT(stats().subscriptions, 2);
	send_ref(p, "U4", "c", "s", "R", "1");
	ack(a, "U4");
	ack(b, "U4");
	lab_wait(490000);
	send_ref(p, "U5", "c", "s", "R", "2");
	ack(a, "U5");
	ack(b, "U5");
	lab_wait(20000);
	send_ref(p, "U6", "c", "s", "R", "3");
	GOT(a, "ack U1 | ack U2 | U4 c/s @R 1 | U5 c/s @R 2");
	GOT(b, "ack U3 | U4 c/s @R 1 | U5 c/s @R 2 | U6 c/s @R 3");
}

TEST(one_copy_however_many_match)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(a, "U1", "subscribe.channel", "['a' 'c' '*']");
	command(a, "U2", "subscribe.channel", "['a' 'c*' 's']");
	command(a, "U3", "subscribe.channel", "['a' '*' '[s]']");
	command(a, "U4", "subscribe.message", "['a' \"R\" nil]");
	a->len = 0;
	send_ref(p, "U5", "c", "s", "R", "1");
	GOT(p, "ack U5 = 1");
	ack(a, "U5");
	GOT(a, "U5 c/s @R 1");
}

TEST(what_nothing_needs_is_forgotten)
{
	struct peer *a, *p;

	lab_start();
	p = join("p", "p");
	a = join("a", "a");
	CHECK_INT(stats().endpoints, 2);
	leave(a);
	CHECK_INT(stats().endpoints, 1);
	a = join("a", "a");
	command(a, "U1", "subscribe.channel", "['a' 'lit' '*']");
	leave(a);
	CHECK_INT(stats().endpoints, 2);
	command(p, "U2", "unsubscribe.channel", "['a' '*']");
	CHECK_INT(stats().endpoints, 1);
	command(p, "U3", "subscribe.message", "['b' \"R\" nil]");
	CHECK_INT(stats().endpoints, 2);
	lab_wait(300000000);
	CHECK_INT(stats().endpoints, 1);
	command(p, "U4", "endpoint.create", "'kept'");
	CHECK_INT(stats().endpoints, 2);
	send(p, "U5", "c1", "s", "1");
	command(p, "U6", "channel.create", "'c2'");
	command(p, "U7", "subscribe.channel", "['p' 'c3' '*']");
	CHECK_INT(stats().channels, 4); /* and lit */
	lab_wait(3599000000);
	CHECK_INT(stats().channels, 3); /* lit went: it is older */
	lab_wait(3600000000);
	CHECK_INT(stats().channels, 2);
	lab_wait(3600000000);
	CHECK_INT(stats().channels, 2);
}

TEST(endpoints_without_a_node_for_long)
{
	struct peer *p;

	sc_broker_options_init(&lab_options);
	lab_options.endpoint_idle_us = 10000000;
	lab_new();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['e' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	lab_wait(9999999);
	CHECK_INT(stats().endpoints, 2);
	CHECK_INT(stats().queued, 1);
	lab_wait(1);
	CHECK_INT(stats().endpoints, 1);
	CHECK_INT(stats().subscriptions, 0);
	CHECK_INT(stats().queued_bytes, 0);
}

TEST(old_messages_are_dropped)
{
	struct peer *a, *p;

	sc_broker_options_init(&lab_options);
	lab_options.max_age_us = 5000000;
	lab_new();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	lab_us += 3000000;
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	send(p, "U3", "c", "s", "2");
	lab_us += 2000001; /* no tick: looked at when it is delivered */
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	a = join("a", "a");
	GOT(a, "U3 c/s 2");
	CHECK_INT(stats().dropped_age, 1);
	command(p, "U4", "pause", "nil");
	send(p, "U5", "c", "s", "3");
	lab_wait(5000001);
	CHECK_INT(stats().dropped_age, 2);
	CHECK_INT(stats().queued, 0);
	command(p, "U6", "resume", "nil");
	CHECK(!sc_broker_busy(lab));
}

TEST(limits)
{
	struct peer *p;

	sc_broker_options_init(&lab_options);
	lab_options.channels_max = 2;
	lab_options.endpoints_max = 2;
	lab_options.subscriptions_max = 3;
	lab_new();
	p = join("p", "p");
	send(p, "U1", "c1", "s", "1");
	send(p, "U2", "c2", "s", "1");
	send(p, "U3", "c3", "s", "1");
	command(p, "U4", "channel.create", "'c3'");
	command(p, "U5", "subscribe.channel", "['e2' 'c3' '*']"); /* nor is e2 made */
	GOT(p, "ack U1 = 0 | ack U2 = 0 | error U3 limit | error U4 limit | error U5 limit");
	CHECK_INT(stats().endpoints, 1);
	command(p, "U6", "endpoint.create", "'e2'");
	command(p, "U7", "endpoint.create", "'e3'");
	command(p, "U8", "subscribe.channel", "['e3' '*' '*']");
	CHECK(!sc_broker_admits(lab, SC_SPAN("e3")));
	CHECK(sc_broker_admits(lab, SC_SPAN("e2")));
	GOT(p, "ack U6 | error U7 limit | error U8 limit");
	command(p, "V1", "subscribe.channel", "['p' '*' 'a']");
	command(p, "V2", "subscribe.channel", "['p' '*' 'b']");
	command(p, "V3", "subscribe.message", "['p' \"R\" 1764435595]");
	command(p, "V4", "subscribe.channel", "['p' '*' 'c']");
	command(p, "V5", "subscribe.message", "['p' \"S\" nil]");
	command(p, "V6", "subscribe.channel", "['p' '*' 'b']"); /* it is there */
	GOT(p, "ack V1 | ack V2 | ack V3 | error V4 limit | error V5 limit | ack V6");
	lab_us += 10000000;
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	command(p, "V7", "subscribe.message", "['p' \"S\" nil]"); /* R is over */
	GOT(p, "ack V7");
}

TEST(memory_is_bounded)
{
	struct peer *p, *a;
	int sent = 0;

	sc_broker_options_init(&lab_options);
	lab_options.memory_max = 20000;
	lab_new();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	command(p, "U1", "subscribe.channel", "['b' 'c' '*']");
	p->len = 0;
	for (;; sent++) {
		send(p, "M", "c", "s", "'0123456789012345678901234567890123456789'");
		CHECK(stats().queued_bytes <= 20000 + 4096);
		if (memcmp(p->log, "ack", 3))
			break;
		p->len = 0;
	}
	GOT(p, "error M limit");
	CHECK(sent > 40 && sent < 150);
	for (int i = 0; i < 1000; i++) { /* events are not a way around it */
		a = join("x", "x");
		leave(a);
	}
	CHECK(stats().queued_bytes <= 20000 + 4096);
	a = join("a", "a");
	for (int i = 0; i < sent; i++)
		ack(a, "M");
	leave(a);
	CHECK_INT(stats().queued, sent); /* those of b */
	a = join("a", "b");
	for (int i = 0; i < sent; i++) {
		ack(a, "M");
		a->len = 0;
	}
	CHECK_INT(stats().queued, 0);
	CHECK(stats().queued_bytes < 200);
	p->len = 0;
	send(p, "M", "c", "s", "1");
	GOT(p, "ack M = 2");
}

TEST(admins)
{
	struct peer *p, *admin;

	sc_broker_options_init(&lab_options);
	lab_options.admins = true;
	lab_new();
	p = join("p", "p");
	admin = join_as("admin", "admin", true);
	command(p, "U1", "pause", "nil");
	command(p, "U2", "channel.create", "'c'");
	command(p, "U3", "endpoint.size", "['p' 5]");
	command(p, "U4", "subscribe.channel", "['q' 'c' '*']");
	command(p, "U5", "subscribe.message", "['q' \"R\" nil]");
	command(p, "U6", "unsubscribe.channel", "['admin' '*']");
	command(p, "U7", "stop", "nil");
	command(p, "U8", "resume", "nil");
	GOT(p, "error U1 denied | error U2 denied | error U3 denied | error U4 denied | "
	       "error U5 denied | error U6 denied | error U7 denied | error U8 denied");
	CHECK(!sc_broker_stopping(lab));
	command(p, "V1", "subscribe.channel", "['p' 'c' '*']");
	command(p, "V2", "subscribe.message", "['p' \"R\" nil]");
	command(p, "V3", "unsubscribe.channel", "['p' '*']");
	GOT(p, "ack V1 | ack V2 | ack V3");
	command(admin, "U1", "pause", "nil");
	command(admin, "U2", "subscribe.channel", "['q' 'c' '*']");
	command(admin, "U3", "resume", "nil");
	GOT(admin, "ack U1 | ack U2 | ack U3");
}

TEST(plain_acks)
{
	struct peer *p;

	sc_broker_options_init(&lab_options);
	lab_options.plain_acks = true;
	lab_new();
	p = join("p", "p");
	send(p, "U1", "c", "s", "1");
	GOT(p, "ack U1");
}

static struct sc_span stats_map;
static char stats_bytes[4096];

static uint64_t stat_of(const char *name)
{
	struct sc_span at = stats_map;
	struct sc_packed item, value;

	CHECK(sc_packed_next(&at, &item) && item.kind == SC_PACKED_MAP);
	for (uint32_t i = 0; i + 1 < item.count; i++) { /* the last is the endpoints */
		CHECK(sc_packed_next(&at, &value));
		if (sc_span_is(value.bytes, name)) {
			CHECK(sc_packed_next(&at, &value) && value.kind == SC_PACKED_UINT);
			return value.u;
		}
		CHECK(sc_packed_next(&at, &value));
	}
	FAIL("there is no %s", name);
}

static void keep_stats(void *arg, void *user, struct sc_span bytes)
{
	struct sc_msg_reading r;

	(void)arg;
	(void)user;
	CHECK_INT(sc_msg_read(bytes, &r), SC_MSG_OK);
	if (!sc_span_is(r.msg.subject, "stats"))
		return;
	CHECK_SPAN(r.msg.reference, "U9");
	memcpy(stats_bytes, r.msg.data.data, r.msg.data.len);
	stats_map = sc_span(stats_bytes, r.msg.data.len);
}

TEST(stats_are_answered)
{
	static const struct sc_broker_hooks hooks = { .control = keep_stats,
						      .deliver = lab_deliver,
						      .close = lab_close };
	struct peer *p, *a;

	lab_start();
	sc_broker_free(lab);
	lab = NULL;
	CHECK_INT(sc_broker_new(&lab_options, &hooks, NULL, &lab, NULL), 0);
	sc_broker_time(lab, LAB_WALL, 1000000);
	sc_broker_time(lab, LAB_WALL, 8000000);
	p = join("p", "p");
	a = join("a", "a");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	send(p, "U3", "c", "s", "1");
	ack(a, "x");
	command(p, "U9", "stats", "nil");
	CHECK_INT(stat_of("uptime_s"), 7);
	CHECK_INT(stat_of("nodes"), 2);
	CHECK_INT(stat_of("endpoints"), 2);
	CHECK_INT(stat_of("channels"), 1);
	CHECK_INT(stat_of("subscriptions"), 1);
	CHECK_INT(stat_of("queued"), 1);
	CHECK(stat_of("queued_bytes") > 30);
	CHECK_INT(stat_of("received"), 5);
	CHECK_INT(stat_of("delivered"), 1);
	CHECK_INT(stat_of("acked"), 0);
	CHECK_INT(stat_of("stray_acks"), 1);
	CHECK_INT(stat_of("refused"), 0);
	CHECK_INT(stat_of("unrouted"), 0);
	CHECK_INT(stat_of("dropped_full"), 0);
	CHECK_INT(stat_of("dropped_age"), 0);
	CHECK_INT(stat_of("lost_unacked"), 0);
	CHECK(memmem(stats_bytes, stats_map.len,
		     "\xa1"
		     "a\x83\xa5nodes\x01\xa6queued\x01\xabwaiting_ack\x01",
		     31));
}
