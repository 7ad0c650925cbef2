/*
 * The rules of wsmsg 4 to 9 and 11 about messages, orders, windows, priorities and commands, over a
 * broker without sockets; others are in rules_test.c.
 * Method: as exchange_test.c; byte strings of wsmsg 19 where the bytes are what matters.
 */
#include "lab.h"
#include "bytes.h"

TEST(malformed_is_closed_and_wrong_fields_are_answered)
{
	struct peer *p;

	lab_start();
	p = join("p", "p");
	raw(p, hex("95c0a66f7264657273a97375626d6974746564c001"));
	GOT(p, "error nil bad-uid");
	raw(p, hex("95c410019ad08e82005294a5294a5294a52941a2fffea173c001"));
	GOT(p, "error * bad-utf8");
	raw(p, hex("95c4025531 05 a173c001"));
	GOT(p, "error U1 bad-field");
	raw(p, hex("95c4025531 a163 05 c001"));
	GOT(p, "error U1 bad-subject");
	raw(p, hex("dc0005c4025531a163a173c001"));
	GOT(p, "ack U1 = 0");
	CHECK_INT(stats().refused, 4);
	raw(p, hex("94c410019ad08e82005294a5294a5294a52941a66f7264657273a97375626d6974746564c0"));
	GOT(p, "close 1007 need 5 elements, got 4");
	send(p, "U2", "a", "b", "1"); /* nothing is taken from it any more */
	GOT(p, "");
	CHECK_INT(stats().refused, 5);
	leave(p);
}

TEST(the_order_of_the_latest_message)
{
	struct peer *d, *r;

	lab_start();
	d = join("d", "d");
	r = join("r", "r");
	r->order = SC_MSG_REFERENCE;
	command(r, "U1", "subscribe.channel", "['r' 'c' '*']");
	GOT(r, "ack U1");
	CHECK(r->orders_seen[SC_MSG_REFERENCE] && !r->orders_seen[SC_MSG_DOCUMENT]);
	send(d, "U2", "c", "s", "[1 'x']");
	GOT(r, "U2 c/s [1 'x']");
	CHECK(!r->orders_seen[SC_MSG_DOCUMENT]);
	CHECK(!d->orders_seen[SC_MSG_REFERENCE]);
	r->order = SC_MSG_DOCUMENT; /* an ack switches as well */
	ack(r, "U2");
	send(d, "U3", "c", "s", "1");
	GOT(r, "U3 c/s 1");
	CHECK(r->orders_seen[SC_MSG_DOCUMENT]);
}

TEST(the_order_before_the_first_message)
{
	struct peer *a, *p;

	sc_broker_options_init(&lab_options);
	lab_options.order = SC_MSG_REFERENCE;
	lab_new();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	a = join("a", "a");
	send(p, "U2", "c", "s", "1");
	GOT(a, "U2 c/s 1");
	CHECK(a->orders_seen[SC_MSG_REFERENCE] && !a->orders_seen[SC_MSG_DOCUMENT]);
}

TEST(only_the_matching_ack_opens_the_window)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(a, "U1", "subscribe.channel", "['a' 'c' '*']");
	GOT(a, "ack U1");
	ack(a, "U2"); /* credit in advance: there is none */
	send(p, "U2", "c", "s", "1");
	send(p, "U3", "c", "s", "2");
	GOT(a, "U2 c/s 1");
	ack(a, "U3");
	ack(a, "x");
	send_ref(a, "A", "system", "ack", NULL, "nil");
	GOT(a, "");
	CHECK_INT(stats().stray_acks, 4);
	ack(a, "U2");
	GOT(a, "U3 c/s 2");
	ack(a, "U2");
	CHECK_INT(stats().stray_acks, 5);
	ack(a, "U3");
	CHECK_INT(stats().acked, 2);
	GOT(a, "");
}

TEST(a_node_may_send_without_waiting)
{
	struct peer *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['p' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	send(p, "U3", "c", "s", "2");
	GOT(p, "ack U1 | ack U2 = 1 | U2 c/s 1 | ack U3 = 1"); /* its own messages come back */
}

TEST(an_ack_timeout_closes)
{
	struct peer *a, *b, *p;

	sc_broker_options_init(&lab_options);
	lab_options.ack_timeout_us = 5000000;
	lab_new();
	a = join("a", "a");
	b = join("b", "a");
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' 'c' '*']");
	send(p, "U2", "c", "s", "1");
	lab_wait(3000000);
	send(p, "U3", "c", "s", "2");
	lab_wait(1999999);
	GOT(a, "U2 c/s 1");
	lab_wait(1);
	GOT(a, "close 1008 ack timeout");
	GOT(b, "U3 c/s 2");
	ack(b, "U3");
	lab_wait(10000000);
	GOT(b, "");
	leave(a);
	CHECK_INT(stats().lost_unacked, 1);
}

TEST(a_slow_node_gets_less)
{
	struct peer *a, *b, *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['g' 'c' '*']");
	a = join("a", "g");
	b = join("b", "g");
	sc_broker_blocked(lab, a->node, true);
	send(p, "U2", "c", "s", "1");
	ack(b, "U2");
	send(p, "U3", "c", "s", "2");
	GOT(a, "");
	GOT(b, "U2 c/s 1 | U3 c/s 2");
	send(p, "U4", "c", "s", "3");
	sc_broker_blocked(lab, a->node, false);
	GOT(a, "U4 c/s 3");
}

TEST(a_node_that_cannot_be_sent_to_loses_one)
{
	struct peer *a, *b, *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['g' 'c' '*']");
	a = join("a", "g");
	b = join("b", "g");
	a->refuse = true;
	send(p, "U2", "c", "s", "1");
	send(p, "U3", "c", "s", "2");
	ack(b, "U3");
	send(p, "U4", "c", "s", "3");
	GOT(b, "U3 c/s 2 | U4 c/s 3");
	leave(a);
	CHECK_INT(stats().lost_unacked, 1);
}

TEST(a_node_that_leaves_gets_no_more)
{
	struct peer *a, *b, *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['w' 'c' '*']");
	a = join("a", "w");
	send(p, "M1", "c", "s", "1");
	send(p, "M2", "c", "s", "2");
	a->leaves = true; /* its last words are on their way */
	ack(a, "M1");
	GOT(a, "M1 c/s 1");
	b = join("b", "w");
	GOT(b, "M2 c/s 2");
	ack(b, "M2");
	send(p, "M3", "c", "s", "3");
	GOT(b, "M3 c/s 3");
	command(a, "U2", "unsubscribe.channel", "['w' '*']"); /* it is heard all the same */
	GOT(a, "ack U2");
	leave(a);
	CHECK_INT(stats().lost_unacked, 0);
	CHECK_INT(stats().acked, 2);
}

TEST(priority_orders_endpoint_queues)
{
	struct peer *a, *p;

	lab_start();
	a = join("a", "a");
	p = join("p", "p");
	command(p, "U1", "channel.priority", "['hi' 9]");
	command(p, "U2", "subscribe.channel", "['a' '*' '*']");
	send(p, "U3", "lo", "s", "0");
	send(p, "U4", "lo", "s", "1");
	send(p, "U5", "hi", "s", "2");
	send(p, "U6", "lo", "s", "3");
	send(p, "U7", "hi", "s", "4");
	GOT(p, "ack U1 | ack U2 | ack U3 = 1 | ack U4 = 1 | ack U5 = 1 | ack U6 = 1 | ack U7 = 1");
	for (int i = 0; i < 5; i++)
		ack(a, a->held);
	GOT(a, "U3 lo/s 0 | U5 hi/s 2 | U7 hi/s 4 | U4 lo/s 1 | U6 lo/s 3");
}

TEST(a_full_endpoint_drops_the_oldest_of_the_lowest)
{
	struct peer *a, *p;

	lab_start();
	p = join("p", "p");
	command(p, "U1", "subscribe.channel", "['a' '*' '*']");
	command(p, "U2", "endpoint.size", "['a' 2]");
	command(p, "U3", "channel.priority", "['hi' 1]");
	send(p, "U4", "hi", "s", "0");
	send(p, "U5", "hi", "s", "1");
	p->len = 0;
	send(p, "U6", "lo", "s", "2"); /* goes itself: it is the lowest */
	GOT(p, "ack U6 = 0");
	send(p, "U7", "hi", "s", "3");
	GOT(p, "ack U7 = 1");
	a = join("a", "a");
	ack(a, "U5");
	GOT(a, "U5 hi/s 1 | U7 hi/s 3");
	CHECK_INT(stats().dropped_full, 2);
	CHECK_INT(stats().unrouted, 0); /* it was wanted */
	command(p, "U8", "endpoint.size", "['a' 1]");
	GOT(p, "ack U8");
}

TEST(commands_check_their_arguments)
{
	static const struct {
		const char *subject, *data, *want;
	} table[] = {
		{ "subscribe.channel", "['e' 'c']", "error U bad-args" },
		{ "subscribe.channel", "['e' 'c' 's' 's']", "error U bad-args" },
		{ "subscribe.channel", "['' 'c' 's']", "error U bad-args" },
		{ "subscribe.channel", "['e' '' 's']", "error U bad-args" },
		{ "subscribe.channel", "['e' 'c' '']", "ack U" },
		{ "subscribe.channel", "['e' \"c\" 's']", "error U bad-args" },
		{ "subscribe.channel", "['e' 'c' ['s']]", "error U bad-args" },
		{ "subscribe.channel", "'e'", "error U bad-args" },
		{ "subscribe.channel", "nil", "error U bad-args" },
		{ "subscribe.message", "['e' 'u' 5]", "error U bad-args" },
		{ "subscribe.message", "['e' \"\" nil]", "error U bad-args" },
		{ "subscribe.message", "['e' \"u\" 'x']", "error U bad-args" },
		{ "subscribe.message", "['e' \"u\" 5]", "error U expired" },
		{ "subscribe.message", "['e' \"u\" -5]", "error U expired" },
		{ "subscribe.message", "['e' \"u\" nil]", "ack U" },
		{ "subscribe.message", "['e' \"u\"]", "ack U" },
		{ "subscribe.message", "\"u\"", "ack U" },
		{ "subscribe.message", "['e' \"u\" 9999999999.5]", "ack U" },
		{ "unsubscribe.channel", "['e']", "error U bad-args" },
		{ "unsubscribe.channel", "['e' '']", "error U bad-args" },
		{ "unsubscribe.channel", "['nobody' 'c']", "ack U" },
		{ "unsubscribe.message", "['e' 'u']", "error U bad-args" },
		{ "unsubscribe.message", "['e' \"none\"]", "ack U" },
		{ "channel.create", "'c1'", "ack U" },
		{ "channel.create", "['c1']", "ack U" },
		{ "channel.create", "''", "error U bad-args" },
		{ "channel.create", "[]", "error U bad-args" },
		{ "channel.create", "5", "error U bad-args" },
		{ "channel.create", "'system'", "error U reserved" },
		{ "channel.size", "['system' 5]", "error U reserved" },
		{ "channel.priority", "['system' 5]", "error U reserved" },
		{ "channel.size", "['c' 0]", "error U bad-args" },
		{ "channel.size", "['c' 1000001]", "error U bad-args" },
		{ "channel.size", "['c' 1000000]", "ack U" },
		{ "channel.size", "['c' 5.0]", "error U bad-args" },
		{ "channel.size", "['c']", "error U bad-args" },
		{ "channel.size", "'c'", "error U bad-args" },
		{ "channel.priority", "['c' 100]", "error U bad-args" },
		{ "channel.priority", "['c' -1]", "error U bad-args" },
		{ "channel.priority", "['c' 99]", "ack U" },
		{ "channel.priority", "['c' 0]", "ack U" },
		{ "endpoint.create", "'e1'", "ack U" },
		{ "endpoint.create", "nil", "error U bad-args" },
		{ "endpoint.size", "['e1' 0]", "error U bad-args" },
		{ "endpoint.size", "['e1' 5]", "ack U" },
		{ "pause", "['whatever']", "ack U" },
		{ "pause", "nil", "ack U" },
		{ "resume", "5", "ack U" },
		{ "resume", "nil", "ack U" },
		{ "subcribe.channel", "['e' 'c' 's']", "error U unknown-command" },
		{ "node.joined", "['e' \"u\"]", "error U unknown-command" },
		{ "stopping", "nil", "error U unknown-command" },
		{ "error", "nil", "error U unknown-command" },
		{ "", "nil", "error U unknown-command" },
	};
	struct peer *p;

	lab_start();
	p = join("p", "p");
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		char got[200];

		command(p, "U", table[i].subject, table[i].data);
		snprintf(got, sizeof(got), "%.*s", (int)p->len, p->log);
		p->len = 0;
		if (strcmp(got, table[i].want))
			FAIL("%s %s gives '%s'", table[i].subject, table[i].data, got);
	}
	command(p, "U", "subcribe.channel", "['e' 'c' 's']");
	CHECK(strstr(lab_error, "did you mean subscribe.channel?"));
	command(p, "U", "subscribe.message", "['e' \"u\" 5]");
	CHECK(strstr(lab_error, "absolute"));
}

TEST(long_names_in_commands)
{
	char data[900], name[257];
	struct peer *p;

	lab_start();
	p = join("p", "p");
	memset(name, 'x', 256);
	name[256] = 0;
	snprintf(data, sizeof(data), "['e' 'c' '%s']", name);
	command(p, "U1", "subscribe.channel", data);
	snprintf(data, sizeof(data), "['e' '%s' 's']", name);
	command(p, "U2", "subscribe.channel", data);
	name[255] = 0;
	snprintf(data, sizeof(data), "['%s' '%s' '%s']", name, name, name);
	command(p, "U3", "subscribe.channel", data);
	command(p, "U4", "channel.create", "'\xff'");
	GOT(p, "error U1 bad-args | error U2 bad-args | ack U3 | error U4 bad-args");
}

static bool data_same;
static struct sc_span data_want;

static int compare_data(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order)
{
	struct sc_msg_reading r;

	(void)arg;
	(void)user;
	CHECK_INT(sc_msg_read(sc_parcel_form(parcel, order), &r), SC_MSG_OK);
	data_same = same(r.msg.data, data_want);
	return 0;
}

TEST(data_comes_out_as_it_went_in)
{
	static const struct sc_broker_hooks hooks = { .control = lab_control,
						      .deliver = compare_data,
						      .close = lab_close };
	struct peer *p;

	/* not minimal, a key twice, a str that is not UTF-8 */
	data_want = hex("dd00000002 de0002 01c0 01c0 a2fffe");
	for (int order = 0; order < 2; order++) {
		lab_start();
		sc_broker_free(lab);
		lab = NULL;
		CHECK_INT(sc_broker_new(&lab_options, &hooks, NULL, &lab, NULL), 0);
		sc_broker_time(lab, LAB_WALL, 0);
		p = join("p", "p");
		p->order = order ? SC_MSG_REFERENCE : SC_MSG_DOCUMENT;
		command(p, "U1", "subscribe.channel", "['p' 'c' '*']");
		data_same = false;
		raw(p, order ? hex("95c4025535c0a163a173 dd00000002 de0002 01c0 01c0 a2fffe")
			     : hex("95c4025535a163a173c0 dd00000002 de0002 01c0 01c0 a2fffe"));
		CHECK(data_same);
	}
	sc_broker_free(lab);
	lab = NULL;
}
