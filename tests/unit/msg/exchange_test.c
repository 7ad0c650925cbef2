/*
 * Each exchange of wsmsg 15, step by step, over a broker without sockets. Method: peers that
 * record all that they are sent; nothing more and nothing less may come than is written there.
 */
#include "lab.h"

TEST(task_queue)
{
	struct peer *n[3], *p;
	static const char *const uids[] = {
		"U11", "U12", "U13", "U14", "U15", "U16", "U17", "U18"
	};

	lab_start();
	for (int i = 0; i < 3; i++) {
		n[i] = join(i == 0 ? "n1" : i == 1 ? "n2" : "n3", "group1");
		command(n[i], "U1", "subscribe.channel", "['group1' 'orders' 'submitted']");
		GOT(n[i], "ack U1");
	}
	CHECK_INT(stats().subscriptions, 1);
	p = join("p", "p");
	send(p, "U10", "orders", "submitted", "1");
	GOT(p, "ack U10 = 1");
	GOT(n[0], "U10 orders/submitted 1");
	ack(n[0], "U10");
	for (int i = 0; i < 8; i++) {
		char data[12], want[60];
		struct peer *next = n[(i + 1) % 3];

		snprintf(data, sizeof(data), "%d", i + 2);
		send(p, uids[i], "orders", "submitted", data);
		snprintf(want, sizeof(want), "%s orders/submitted %s", uids[i], data);
		GOT(next, want);
		ack(next, uids[i]);
		snprintf(want, sizeof(want), "ack %s = 1", uids[i]);
		GOT(p, want);
	}
	send(p, "U20", "orders", "cancelled", "1");
	GOT(p, "ack U20 = 0");
	CHECK_INT(stats().unrouted, 1);
	send(p, "U21", "orders", "submitted", "1");
	GOT(n[0], "U21 orders/submitted 1");
	for (int i = 0; i < 6; i++) {
		send(p, uids[i], "orders", "submitted", "0");
		ack(n[1], uids[i]);
		ack(n[2], uids[i]);
	}
	GOT(n[0], "");
	GOT(n[1], "U11 orders/submitted 0 | U13 orders/submitted 0 | U15 orders/submitted 0");
	GOT(n[2], "U12 orders/submitted 0 | U14 orders/submitted 0 | U16 orders/submitted 0");
	leave(n[0]);
	GOT(n[1], "");
	GOT(n[2], "");
	CHECK_INT(stats().lost_unacked, 1);
	CHECK_INT(stats().stray_acks, 6);
}

TEST(fan_out)
{
	struct peer *a, *b, *c, *p;

	lab_start();
	a = join("a", "a");
	b = join("b", "b");
	c = join("c", "c");
	p = join("p", "p");
	command(a, "U1", "subscribe.channel", "['a' 'orders' 'submitted']");
	command(b, "U2", "subscribe.channel", "['b' 'orders' 'submitted']");
	command(c, "U3", "subscribe.channel", "['c' 'orders' 'submitted']");
	GOT(a, "ack U1");
	GOT(b, "ack U2");
	GOT(c, "ack U3");
	send(p, "U4", "orders", "submitted", "[1 'x']");
	GOT(p, "ack U4 = 3");
	GOT(a, "U4 orders/submitted [1 'x']");
	GOT(b, "U4 orders/submitted [1 'x']");
	GOT(c, "U4 orders/submitted [1 'x']");
	ack(a, "U4");
	ack(b, "U4");
	ack(c, "U4");
	leave(b);
	send(p, "U5", "orders", "submitted", "5");
	send(p, "U6", "orders", "submitted", "6");
	GOT(p, "ack U5 = 3 | ack U6 = 3");
	ack(a, "U5");
	ack(c, "U5");
	ack(a, "U6");
	ack(c, "U6");
	GOT(a, "U5 orders/submitted 5 | U6 orders/submitted 6");
	GOT(c, "U5 orders/submitted 5 | U6 orders/submitted 6");
	b = join("b", "b");
	GOT(b, "U5 orders/submitted 5");
	ack(b, "U5");
	GOT(b, "U6 orders/submitted 6");
	ack(b, "U6");
	command(c, "U7", "unsubscribe.channel", "['c' 'orders']");
	GOT(c, "ack U7");
	send(p, "U8", "orders", "submitted", "8");
	GOT(p, "ack U8 = 2");
	GOT(a, "U8 orders/submitted 8");
	GOT(b, "U8 orders/submitted 8");
	GOT(c, "");
}

TEST(direct_delivery)
{
	struct peer *n7, *n8, *p;

	lab_start();
	n7 = join("n7", "n7");
	n8 = join("n8", "n8");
	p = join("p", "p");
	command(n7, "U1", "subscribe.channel", "['n7' 'node.n7' '*']");
	command(n7, "U2", "subscribe.channel", "['n7' 'nodes' '*']");
	command(n8, "U3", "subscribe.channel", "['n8' 'node.n8' '*']");
	command(n8, "U4", "subscribe.channel", "['n8' 'nodes' '*']");
	GOT(n7, "ack U1 | ack U2");
	GOT(n8, "ack U3 | ack U4");
	send(p, "U5", "node.n7", "hello", "1");
	GOT(n7, "U5 node.n7/hello 1");
	GOT(n8, "");
	ack(n7, "U5");
	send(p, "U6", "nodes", "anything", "1");
	GOT(n7, "U6 nodes/anything 1");
	GOT(n8, "U6 nodes/anything 1");
	ack(n7, "U6");
	ack(n8, "U6");
	command(n7, "U7", "subscribe.channel", "['n7' 'node.*' '*']");
	GOT(n7, "ack U7");
	send(p, "U8", "node.n7", "hello", "1");
	GOT(n7, "U8 node.n7/hello 1");
	ack(n7, "U8");
	GOT(n7, "");
	send(p, "U9", "node.n8", "hello", "1");
	GOT(n7, "U9 node.n8/hello 1");
	GOT(n8, "U9 node.n8/hello 1");
}

TEST(rpc_by_subject)
{
	struct peer *c, *w;

	lab_start();
	c = join("c", "c7");
	w = join("w", "w");
	command(c, "U1", "subscribe.channel", "['c7' 'order' 'created']");
	command(c, "U2", "subscribe.channel", "['c7' 'order' 'exception']");
	command(w, "U3", "subscribe.channel", "['w' 'order' 'submitted']");
	GOT(c, "ack U1 | ack U2");
	GOT(w, "ack U3");
	send(c, "U5", "order", "submitted", "42");
	GOT(c, "ack U5 = 1");
	GOT(w, "U5 order/submitted 42");
	ack(w, "U5");
	send_ref(w, "U6", "order", "created", "U5", "4711");
	GOT(w, "ack U6 = 1");
	GOT(c, "U6 order/created @U5 4711");
	ack(c, "U6");
	send_ref(w, "U7", "order", "exception", "U5", "'no'");
	GOT(c, "U7 order/exception @U5 'no'");
}

TEST(rpc_by_reference)
{
	struct peer *c, *w;
	char data[80];
	static const char *const more[] = { "V1", "V2", "V3", "V4", "V5", "V6",
					    "V7", "V8", "V9", "W1", "W2", "W3" };

	lab_start();
	w = join("w", "api");
	c = join("c", "c7");
	command(w, "U1", "subscribe.channel", "['api' 'rpc' 'order.*']");
	command(w, "U2", "channel.priority", "['rpc' 99]");
	command(w, "U3", "endpoint.size", "['api' 10]");
	GOT(w, "ack U1 | ack U2 | ack U3");
	snprintf(data, sizeof(data), "['c7' \"U5\" %" PRId64 "]", LAB_WALL / 1000000 + 6);
	command(c, "U4", "subscribe.message", data);
	GOT(c, "ack U4");
	send(c, "U5", "rpc", "order.get.request", "42");
	GOT(c, "ack U5 = 1");
	GOT(w, "U5 rpc/order.get.request 42");
	ack(w, "U5");
	send_ref(w, "U6", "rpc", "order.get.reply", "U5", "1");
	GOT(w, "ack U6 = 2 | U6 rpc/order.get.reply @U5 1"); /* its own pattern matches the reply */
	ack(w, "U6");
	GOT(c, "U6 rpc/order.get.reply @U5 1");
	ack(c, "U6");
	send_ref(w, "U7", "rpc", "other", "U5", "2");
	GOT(c, "U7 rpc/other @U5 2");
	ack(c, "U7");
	GOT(w, "ack U7 = 1");
	lab_wait(5000000);
	send_ref(w, "U8", "rpc", "other", "U5", "3");
	GOT(c, "");
	GOT(w, "ack U8 = 0");
	command(c, "U9", "unsubscribe.message", "['c7' \"U5\"]");
	GOT(c, "ack U9");
	send(c, "R", "rpc", "order.x", "0"); /* the worker is busy with that */
	GOT(w, "R rpc/order.x 0");
	for (int i = 0; i < 12; i++)
		send(c, more[i], "rpc", "order.x", "0");
	CHECK_INT(stats().dropped_full, 2);
	ack(w, "R");
	GOT(w, "V3 rpc/order.x 0");
}
