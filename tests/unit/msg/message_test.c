/*
 * Messages are read in both orders and written in both, to the byte; what is wrong with one is told
 * by its code. Method: the byte strings of wsmsg 19.
 */
#include "../check.h"
#include "bytes.h"
#include "msg/message.h"

static const struct {
	const char *d, *r;
} examples[] = {
	/* M1 */
	{ "95c410019ad08e82005294a5294a5294a52941a673797374656db17375627363726962652e6368616e6e656c"
	  "c093a667726f757031a66f7264657273a97375626d6974746564",
	  "95c410019ad08e82005294a5294a5294a52941c0a673797374656db17375627363726962652e6368616e6e65"
	  "6c93a667726f757031a66f7264657273a97375626d6974746564" },
	/* M2 */
	{ "95c410019ad08e8200ce739ce739ce739ce721a673797374656da361636bc410019ad08e82005294a5294a52"
	  "94a52941c0",
	  "95c410019ad08e8200ce739ce739ce739ce721c410019ad08e82005294a5294a5294a52941a673797374656d"
	  "a361636bc0" },
	/* M3 */
	{ "95c410019ad08e82005294a5294a5294a52942a66f7264657273a97375626d6974746564c082a269642aa574"
	  "6f74616ccb4023000000000000",
	  "95c410019ad08e82005294a5294a5294a52942c0a66f7264657273a97375626d697474656482a269642aa574"
	  "6f74616ccb4023000000000000" },
	/* M7 */
	{ "95c410019ad08e82005294a5294a5294a52946a3727063af6f726465722e6765742e7265706c79c410019ad0"
	  "8e82005294a5294a5294a5294582a269642aa57374617465a470616964",
	  "95c410019ad08e82005294a5294a5294a52946c410019ad08e82005294a5294a5294a52945a3727063af6f72"
	  "6465722e6765742e7265706c7982a269642aa57374617465a470616964" },
	/* M14 */
	{ "95c410019ad08e82005294a5294a5294a52947a673797374656db3756e7375627363726962652e6368616e6e"
	  "656cc092a667726f757031a46f72642a",
	  "95c410019ad08e82005294a5294a5294a52947c0a673797374656db3756e7375627363726962652e6368616e"
	  "6e656c92a667726f757031a46f72642a" },
};

static void check_written(const struct sc_msg *msg, enum sc_msg_order order, struct sc_span want)
{
	struct sc_bytes out;
	bool good;

	sc_bytes_init(&out, 4096);
	CHECK_INT(sc_msg_write(&out, msg, order), 0);
	CHECK_INT(sc_msg_size(msg), want.len);
	good = same(sc_span(out.data, out.len), want);
	sc_bytes_done(&out);
	CHECK(good);
}

TEST(both_orders_read_and_written)
{
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		struct sc_span d = hex(examples[i].d), r = hex(examples[i].r);
		struct sc_msg_reading from_d, from_r;

		CHECK_INT(sc_msg_read(d, &from_d), SC_MSG_OK);
		CHECK_INT(sc_msg_read(r, &from_r), SC_MSG_OK);
		CHECK(from_d.ordered && from_d.order == SC_MSG_DOCUMENT);
		CHECK(from_r.ordered && from_r.order == SC_MSG_REFERENCE);
		check_written(&from_d.msg, SC_MSG_DOCUMENT, d);
		check_written(&from_d.msg, SC_MSG_REFERENCE, r);
		check_written(&from_r.msg, SC_MSG_DOCUMENT, d);
		check_written(&from_r.msg, SC_MSG_REFERENCE, r);
	}
}

TEST(fields_are_named)
{
	struct sc_msg_reading r;

	CHECK_INT(sc_msg_read(hex(examples[3].d), &r), SC_MSG_OK);
	CHECK(same(r.msg.uid, hex("019ad08e82005294a5294a5294a52946")));
	CHECK_SPAN(r.msg.channel, "rpc");
	CHECK_SPAN(r.msg.subject, "order.get.reply");
	CHECK(same(r.msg.reference, hex("019ad08e82005294a5294a5294a52945")));
	CHECK(same(r.msg.data, hex("82a269642aa57374617465a470616964")));
	CHECK(!sc_msg_is_ack(&r.msg));
	CHECK_INT(sc_msg_read(hex(examples[1].r), &r), SC_MSG_OK);
	CHECK(sc_msg_is_ack(&r.msg));
}

#define U1 "c410019ad08e82005294a5294a5294a52941"
#define LONG64 \
	"c440 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" \
	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define LONG65 \
	"c441 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff" \
	"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeffff"

TEST(wrong_fields)
{
	static const struct {
		const char *bytes;
		enum sc_msg_fault fault;
		bool uid; /* is told */
	} wrong[] = {
		{ "95c0a66f7264657273a97375626d6974746564c001", SC_MSG_BAD_UID, false }, /* X2 */
		{ "95a3616263a66f7264657273a97375626d6974746564c001", SC_MSG_BAD_UID,
		  false },                                           /* X3 */
		{ "95" U1 "a2fffea173c001", SC_MSG_BAD_UTF8, true }, /* X4 */
		{ "dc0005" U1 "a163a173c001", SC_MSG_OK, true },     /* X8 */
		{ "95 c400 a163a173c001", SC_MSG_BAD_UID, false },
		{ "95" LONG64 "a163a173c001", SC_MSG_OK, true },
		{ "95" LONG65 "a163a173c001", SC_MSG_BAD_UID, false },
		{ "95" U1 "05 a173c001", SC_MSG_BAD_FIELD, true },
		{ "95" U1 "90 a173c001", SC_MSG_BAD_FIELD, true },
		{ "95 c0 05 a173c001", SC_MSG_BAD_FIELD, false },
		{ "95" U1 "a0 a173c001", SC_MSG_BAD_CHANNEL, true },
		{ "95" U1 "c0 c401aa a17301", SC_MSG_BAD_CHANNEL, true },
		{ "95" U1 "c0 a163 c401aa 01", SC_MSG_BAD_SUBJECT, true },
		{ "95" U1 "a163 c0 c0 01", SC_MSG_BAD_SUBJECT, true },
		{ "95" U1 "a163 a0 c0 01", SC_MSG_OK, true },
		{ "95" U1 "a163 a2fffe c0 01", SC_MSG_BAD_UTF8, true },
		{ "95" U1 "a163 a173 a173 01", SC_MSG_BAD_REFERENCE, true },
		{ "95" U1 "a163 a173 05 01", SC_MSG_BAD_REFERENCE, true },
		{ "95" U1 "a163 a173" LONG64 "01", SC_MSG_OK, true },
		{ "95" U1 "a163 a173" LONG65 "01", SC_MSG_BAD_REFERENCE, true },
		{ "95" U1 LONG65 "a163 a173 01", SC_MSG_BAD_REFERENCE, true },
		{ "95" U1 "a163 a173 c400 01", SC_MSG_OK, true },
		{ "94" U1 "a66f7264657273a97375626d6974746564c0", SC_MSG_MALFORMED,
		  false },                                                               /* X1 */
		{ "95" U1 "a163a173c001c0", SC_MSG_MALFORMED, false },                   /* X5 */
		{ "81a3756964" U1, SC_MSG_MALFORMED, false },                            /* X6 */
		{ "95" U1 "a66f7264657273a97375626d69747465", SC_MSG_MALFORMED, false }, /* X7 */
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sc_msg_reading r;
		enum sc_msg_fault fault = sc_msg_read(hex(wrong[i].bytes), &r);

		if (fault != wrong[i].fault)
			FAIL("%s gives %d, not %d", wrong[i].bytes, fault, wrong[i].fault);
		CHECK((r.msg.uid.data != NULL) == wrong[i].uid);
		CHECK((r.reason[0] != '\0') == (fault != SC_MSG_OK));
	}
}

static enum sc_msg_fault named(size_t channel, size_t subject)
{
	char bytes[700] = { (char)0x95, (char)0xc4, 1, 1 };
	size_t at = 4, lens[] = { channel, subject };
	struct sc_msg_reading r;

	for (int i = 0; i < 2; i++) {
		bytes[at++] = (char)0xda;
		bytes[at++] = (char)(lens[i] >> 8);
		bytes[at++] = (char)lens[i];
		memset(bytes + at, 'x', lens[i]);
		at += lens[i];
	}
	bytes[at++] = (char)0xc0;
	bytes[at++] = (char)0xc0;
	return sc_msg_read(sc_span(bytes, at), &r);
}

TEST(names_have_255_bytes_at_most)
{
	CHECK_INT(named(255, 255), SC_MSG_OK);
	CHECK_INT(named(256, 1), SC_MSG_BAD_CHANNEL);
	CHECK_INT(named(1, 256), SC_MSG_BAD_SUBJECT);
	CHECK_INT(named(1, 0), SC_MSG_OK);
}

TEST(nil_and_empty_references_stay_what_they_are)
{
	struct sc_msg_reading r;
	struct sc_span nil = hex("95c40101a163a173c001"), empty = hex("95c40101a163a173c40001");

	CHECK_INT(sc_msg_read(nil, &r), SC_MSG_OK);
	CHECK(r.msg.reference.data == NULL);
	check_written(&r.msg, SC_MSG_DOCUMENT, nil);
	CHECK_INT(sc_msg_read(empty, &r), SC_MSG_OK);
	CHECK(r.msg.reference.data != NULL && r.msg.reference.len == 0);
	check_written(&r.msg, SC_MSG_DOCUMENT, empty);
}

TEST(data_is_not_touched)
{
	/* not minimal, duplicate keys, a str that is not UTF-8, an ext */
	struct sc_span bytes = hex("95c40101a163a173c0 dd00000003 de0002 01c0 01c0 a2fffe "
				   "d80501020304050607080102030405060708");
	struct sc_msg_reading r;

	CHECK_INT(sc_msg_read(bytes, &r), SC_MSG_OK);
	check_written(&r.msg, SC_MSG_DOCUMENT, bytes);
}

TEST(commands_and_near_misses)
{
	CHECK_INT(sc_msg_command(SC_SPAN("subscribe.channel")), SC_MSG_SUBSCRIBE_CHANNEL);
	CHECK_INT(sc_msg_command(SC_SPAN("stats")), SC_MSG_STATS);
	CHECK_INT(sc_msg_command(SC_SPAN("node.joined")), SC_MSG_NO_COMMAND);
	CHECK_INT(sc_msg_command(SC_SPAN("")), SC_MSG_NO_COMMAND);
	CHECK_STR(sc_msg_command_near(SC_SPAN("subcribe.channel")), "subscribe.channel");
	CHECK_STR(sc_msg_command_near(SC_SPAN("chanel.size")), "channel.size");
	CHECK(sc_msg_command_near(SC_SPAN("nothing.like.that")) == NULL);
	CHECK(sc_msg_command_near(SC_SPAN("pau\0se")) == NULL);
	CHECK_STR(sc_msg_event_subject(SC_MSG_CHANNEL_PRIORITIZED), "channel.prioritized");
	CHECK_STR(sc_msg_fault_word(SC_MSG_STOPPING), "stopping");
	CHECK(sc_msg_fault_word(SC_MSG_MALFORMED) == NULL);
}
