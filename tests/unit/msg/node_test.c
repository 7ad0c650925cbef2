/*
 * Goal: a node sends each message once, again after a reconnect only what has no answer, its
 * subscriptions first; acknowledges what it is told to; tells control messages from others; finds
 * the other order by itself. Method: a broker played by hand, in both orders.
 */
#include "msg/node.h"

#include "../check.h"
#include "msg/pack.h"

static struct sc_node *node;
static struct sc_bytes frame, reply;
static struct sc_msg_reading sent;
static struct sc_err err;
static struct sc_node_news news;

static void begin(enum sc_node_order order, size_t window)
{
	sc_node_free(node);
	sc_bytes_done(&frame);
	sc_bytes_done(&reply);
	sc_bytes_init(&frame, 1 << 16);
	sc_bytes_init(&reply, 1 << 16);
	CHECK_OK(sc_node_new(order, window, &node, &err), &err);
}

static int put(const char *channel, const char *subject, uint64_t tag)
{
	struct sc_msg msg = { .channel = sc_span_str(channel),
			      .subject = sc_span_str(subject),
			      .data = SC_SPAN("\x2a") };

	return sc_node_put(node, &msg, tag, &err);
}

static void keep(const char *subject, uint64_t tag)
{
	struct sc_msg msg = { .channel = SC_SPAN("system"),
			      .subject = sc_span_str(subject),
			      .data = SC_SPAN("\xc0") };

	CHECK_OK(sc_node_keep(node, &msg, tag, &err), &err);
}

/* The next frame's subject; "" when there is none. */
static struct sc_span next(void)
{
	int rc;

	sc_bytes_clear(&frame);
	rc = sc_node_next(node, &frame, &err);
	CHECK_OK(rc, &err);
	if (rc == 0)
		return sc_span("", 0);
	CHECK_INT(sc_msg_read(sc_span(frame.data, frame.len), &sent), SC_MSG_OK);
	return sent.msg.subject;
}

static enum sc_node_news_kind take(const char *subject, struct sc_span reference,
				   struct sc_span data)
{
	struct sc_msg msg = { .uid = SC_SPAN("BBBBBBBBBBBBBBBB"),
			      .channel = SC_SPAN("system"),
			      .subject = sc_span_str(subject),
			      .reference = reference,
			      .data = data };

	sc_bytes_clear(&reply);
	CHECK(sc_msg_write(&reply, &msg, sent.order) == 0);
	CHECK_OK(sc_node_take(node, sc_span(reply.data, reply.len), &news, &err), &err);
	return news.kind;
}

#define CHECK_NEXT(WANT) \
	do { \
		struct sc_span subject_ = next(); \
		CHECK_SPAN(subject_, WANT); \
	} while (0)

/* The broker acknowledges what was sent last. */
static void acked(uint64_t tag, bool kept)
{
	char uid[16];

	CHECK_INT(sent.msg.uid.len, 16);
	memcpy(uid, sent.msg.uid.data, 16);
	CHECK_INT(take("ack", sc_span(uid, 16), SC_SPAN("\x02")), SC_NODE_ACKED);
	CHECK_INT(news.tag, tag);
	CHECK_INT(news.kept, kept);
	CHECK_SPAN(news.msg.data, "\x02");
	CHECK_INT(take("ack", sc_span(uid, 16), SC_SPAN("\xc0")), SC_NODE_NOTHING);
}

TEST(each_is_sent_once_and_answered_once)
{
	begin(SC_NODE_DOCUMENT, 2);
	sc_node_opened(node);
	CHECK_NEXT("");
	CHECK_OK(put("c", "a", 1), &err);
	CHECK_OK(put("c", "b", 2), &err);
	CHECK_INT(sc_node_room(node), 0);
	CHECK_INT(put("c", "x", 3), SC_E_BUSY);
	CHECK_NEXT("a");
	CHECK_INT(sent.order, SC_MSG_DOCUMENT);
	CHECK(sc_node_last_uid(node).len == 16);
	acked(1, false);
	CHECK_INT(sc_node_room(node), 1);
	CHECK_NEXT("b");
	CHECK_NEXT("");
	CHECK_INT(sc_node_waiting(node), 1);
	acked(2, false);
	CHECK_INT(sc_node_waiting(node), 0);
	CHECK_INT(sc_node_room(node), 2);
}

TEST(answers_come_in_any_order)
{
	char uids[3][16];

	begin(SC_NODE_DOCUMENT, 3);
	sc_node_opened(node);
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 3; i++)
			CHECK_OK(put("c", "m", (uint64_t)i), &err);
		for (int i = 0; i < 3; i++) {
			CHECK_NEXT("m");
			memcpy(uids[i], sent.msg.uid.data, 16);
			CHECK(i == 0 || memcmp(uids[i - 1], uids[i], 16) < 0);
		}
		CHECK_INT(take("ack", sc_span(uids[2], 16), SC_SPAN("\xc0")), SC_NODE_ACKED);
		CHECK_INT(news.tag, 2);
		CHECK_INT(sc_node_room(node), 0); /* places are given back from the front */
		CHECK_INT(sc_node_waiting(node), 2);
		CHECK_INT(take("error", sc_span(uids[0], 16),
			       SC_SPAN("\x92\xa5"
				       "limit\xa1"
				       "x")),
			  SC_NODE_REFUSED);
		CHECK_SPAN(news.code, "limit");
		CHECK_SPAN(news.text, "x");
		CHECK_INT(news.tag, 0);
		CHECK_INT(take("ack", sc_span(uids[1], 16), SC_SPAN("\xc0")), SC_NODE_ACKED);
		CHECK_INT(sc_node_room(node), 3);
	}
}

TEST(what_has_no_answer_is_sent_again_and_subscriptions_first)
{
	char first[16], third[16];

	begin(SC_NODE_DOCUMENT, 4);
	keep("subscribe.channel", 7);
	CHECK_OK(put("c", "a", 1), &err);
	CHECK_OK(put("c", "b", 2), &err);
	CHECK_OK(put("c", "c", 3), &err);
	sc_node_opened(node);
	CHECK(!sc_node_ready(node));
	CHECK_NEXT("subscribe.channel");
	acked(7, true);
	CHECK(sc_node_ready(node));
	CHECK_NEXT("a");
	memcpy(first, sent.msg.uid.data, 16);
	CHECK_NEXT("b");
	acked(2, false);
	CHECK_NEXT("c");
	memcpy(third, sent.msg.uid.data, 16);
	CHECK(!sc_node_closed(node, 1006));
	sc_node_opened(node);
	CHECK(!sc_node_ready(node));
	CHECK_NEXT("subscribe.channel");
	acked(7, true);
	CHECK_NEXT("a");
	CHECK(memcmp(first, sent.msg.uid.data, 16) == 0);
	CHECK_NEXT("c");
	CHECK(memcmp(third, sent.msg.uid.data, 16) == 0);
	CHECK_NEXT("");
	CHECK_INT(take("ack", sc_span(first, 16), SC_SPAN("\xc0")), SC_NODE_ACKED);
	CHECK_INT(take("ack", sc_span(third, 16), SC_SPAN("\xc0")), SC_NODE_ACKED);
	CHECK_INT(sc_node_waiting(node), 0);
}

TEST(acks_go_first_and_not_to_another_connection)
{
	begin(SC_NODE_REFERENCE, 4);
	sc_node_opened(node);
	CHECK_OK(put("c", "a", 1), &err);
	CHECK_OK(sc_node_ack(node, SC_SPAN("DDDDDDDDDDDDDDDD"), &err), &err);
	CHECK_OK(sc_node_ack(node, SC_SPAN("E"), &err), &err);
	CHECK_NEXT("ack");
	CHECK_INT(sent.order, SC_MSG_REFERENCE);
	CHECK_SPAN(sent.msg.channel, "system");
	CHECK_SPAN(sent.msg.reference, "DDDDDDDDDDDDDDDD");
	CHECK_SPAN(sent.msg.data, "\xc0");
	CHECK_NEXT("ack");
	CHECK_SPAN(sent.msg.reference, "E");
	CHECK_NEXT("a");
	CHECK_OK(sc_node_ack(node, SC_SPAN("DDDDDDDDDDDDDDDD"), &err), &err);
	CHECK(!sc_node_closed(node, 1000));
	sc_node_opened(node);
	CHECK_NEXT("a");
}

TEST(control_messages_are_told_from_others)
{
	struct sc_msg stats = { .channel = SC_SPAN("system"),
				.subject = SC_SPAN("stats"),
				.data = SC_SPAN("\xc0") };

	begin(SC_NODE_DOCUMENT, 4);
	sc_node_opened(node);
	sent.order = SC_MSG_DOCUMENT;
	CHECK_INT(take("stopping", sc_span(NULL, 0), SC_SPAN("\xc0")), SC_NODE_STOPPING);
	CHECK_INT(take("node.joined", sc_span(NULL, 0), SC_SPAN("\xc0")), SC_NODE_DELIVERED);
	CHECK_INT(take("stats", sc_span(NULL, 0), SC_SPAN("\xc0")), SC_NODE_DELIVERED);
	CHECK_INT(take("stats", SC_SPAN("other"), SC_SPAN("\xc0")), SC_NODE_DELIVERED);
	CHECK_INT(take("error", sc_span(NULL, 0), SC_SPAN("\xc0")), SC_NODE_NOTHING);
	CHECK_INT(take("ack", sc_span(NULL, 0), SC_SPAN("\xc0")), SC_NODE_NOTHING);
	CHECK_OK(sc_node_put(node, &stats, 1, &err), &err);
	CHECK_NEXT("stats");
	CHECK_INT(take("stats", sc_node_last_uid(node), SC_SPAN("\x80")), SC_NODE_STATS);
}

TEST(what_is_no_message_is_told)
{
	begin(SC_NODE_DOCUMENT, 4);
	sc_node_opened(node);
	CHECK_INT(sc_node_take(node, SC_SPAN("\x94\x01\x02\x03\x04"), &news, &err), SC_E_PROTOCOL);
	CHECK_STR(err.reason, "what it sent is no message: need 5 elements, got 4");
	CHECK_INT(sc_node_take(node, SC_SPAN(""), &news, &err), SC_E_PROTOCOL);
}

TEST(errors_without_the_usual_words)
{
	char uid[16];

	begin(SC_NODE_DOCUMENT, 8);
	sc_node_opened(node);
	static const struct sc_span bad[] = { SC_SPAN("\xc0"), SC_SPAN("\x90"),
					      SC_SPAN("\x92\x01\x02"), SC_SPAN("\xa1x") };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_OK(put("c", "a", i), &err);
		CHECK_NEXT("a");
		memcpy(uid, sent.msg.uid.data, 16);
		CHECK_INT(take("error", sc_span(uid, 16), bad[i]), SC_NODE_REFUSED);
		CHECK_INT(news.code.len, 0);
	}
}

TEST(auto_tries_the_other_order_once)
{
	begin(SC_NODE_AUTO, 4);
	keep("subscribe.channel", 0);
	CHECK(!sc_node_closed(node, 1000)); /* nothing was said: no sign */
	sc_node_opened(node);
	CHECK_NEXT("subscribe.channel");
	CHECK_INT(sent.order, SC_MSG_DOCUMENT);
	CHECK(!sc_node_closed(node, 1006));
	sc_node_opened(node);
	CHECK_NEXT("subscribe.channel");
	CHECK(sc_node_closed(node, 1000));
	sc_node_opened(node);
	CHECK_NEXT("subscribe.channel");
	CHECK_INT(sent.order, SC_MSG_REFERENCE);
	CHECK(!sc_node_closed(node, 1000));
}

TEST(auto_stays_with_a_peer_that_answered)
{
	begin(SC_NODE_AUTO, 4);
	sc_node_opened(node);
	CHECK_OK(put("c", "a", 1), &err);
	CHECK_NEXT("a");
	acked(1, false);
	CHECK(!sc_node_closed(node, 1000));
	begin(SC_NODE_DOCUMENT, 4);
	sc_node_opened(node);
	CHECK_OK(put("c", "a", 1), &err);
	CHECK_NEXT("a");
	CHECK(!sc_node_closed(node, 1000));
}

TEST(a_uid_that_is_given_is_sent)
{
	struct sc_msg msg = { .uid = SC_SPAN("0123456789abcdef"),
			      .channel = SC_SPAN("c"),
			      .subject = SC_SPAN(""),
			      .reference = SC_SPAN("r"),
			      .data = SC_SPAN("\x93\x01\x02\x03") };

	begin(SC_NODE_DOCUMENT, 4);
	sc_node_opened(node);
	CHECK_OK(sc_node_put(node, &msg, 1, &err), &err);
	CHECK_NEXT(""); /* its subject */
	CHECK_SPAN(sent.msg.uid, "0123456789abcdef");
	CHECK_SPAN(sent.msg.reference, "r");
	CHECK_SPAN(sent.msg.data, "\x93\x01\x02\x03");
}
