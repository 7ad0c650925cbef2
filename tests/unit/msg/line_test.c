/*
 * Goal: lines are read in their four forms and no other, within the limits of the fields, and
 * printed in three. Method: tables.
 */
#include "msg/line.h"

#include "../check.h"

static struct sc_bytes store, out;
static struct sc_msg msg;
static struct sc_err err;
static bool ack;

static int parse(const char *line)
{
	sc_bytes_done(&store);
	sc_bytes_init(&store, 1 << 20);
	return sc_msg_line_parse(sc_span_str(line), &store, &msg, &ack, &err);
}

static struct sc_span print(enum sc_msg_form form)
{
	sc_bytes_done(&out);
	sc_bytes_init(&out, 1 << 20);
	CHECK_OK(sc_msg_line_print(&msg, form, &out, &err), &err);
	return sc_span(out.data, out.len);
}

#define CHECK_PRINTS(FORM, WANT) \
	do { \
		struct sc_span line_ = print(FORM); \
		CHECK_SPAN(line_, WANT); \
	} while (0)

TEST(every_form_is_read)
{
	CHECK_OK(parse("[\"c\",\"s\",{\"a\":[1,2.0]}]"), &err);
	CHECK(!ack && msg.uid.len == 0 && msg.reference.data == NULL);
	CHECK_PRINTS(SC_MSG_OBJECT, "{\"uid\":null,\"channel\":\"c\",\"subject\":\"s\","
				    "\"reference\":null,\"data\":{\"a\":[1,2.0]}}\n");
	CHECK_PRINTS(SC_MSG_ARRAY, "[\"c\",\"s\",{\"a\":[1,2.0]}]\n");
	CHECK_PRINTS(SC_MSG_BARE, "{\"a\":[1,2.0]}\n");
	CHECK_OK(parse(" [ \"c\\u00e9\" , \"\" , \"01kb88x0g0aaaaaaaaaaaaaaa1\" , null ] "), &err);
	CHECK_PRINTS(SC_MSG_OBJECT,
		     "{\"uid\":null,\"channel\":\"cé\",\"subject\":\"\","
		     "\"reference\":\"01KB88X0G0AAAAAAAAAAAAAAA1\",\"data\":null}\n");
	CHECK_OK(parse("[\"c\",\"s\",null,1]"), &err);
	CHECK(msg.reference.data == NULL);
	CHECK_OK(parse("{\"subject\":\"s\",\"channel\":\"c\"}"), &err);
	CHECK_SPAN(msg.data, "\xc0");
	CHECK_OK(
		parse("{\"channel\":\"c\",\"subject\":\"s\",\"data\":5,"
		      "\"uid\":\"hex:000102030405060708090a0b0c0d0e0f\",\"reference\":\"hex:FF\"}"),
		&err);
	CHECK_PRINTS(SC_MSG_OBJECT,
		     "{\"uid\":\"00041061050R3GG28A1C60T3GF\",\"channel\":\"c\",\"subject\":\"s\","
		     "\"reference\":\"hex:ff\",\"data\":5}\n");
	CHECK_OK(parse("{\"ack\":\"hex:0a\"}"), &err);
	CHECK(ack && msg.uid.len == 1 && msg.uid.data[0] == 10);
}

TEST(what_is_printed_is_read_again)
{
	static const char line[] = "{\"uid\":\"01KB88X0G0AAAAAAAAAAAAAAA1\",\"channel\":\"c\","
				   "\"subject\":\"s\",\"reference\":\"hex:ffff\","
				   "\"data\":{\"$bin\":\"AP8=\"}}\n";

	CHECK_OK(parse(line), &err);
	CHECK_PRINTS(SC_MSG_OBJECT, line);
}

TEST(anything_else_is_refused)
{
	char longest[300], line[400];
	static const char *const bad[] = {
		"1",
		"null",
		"\"c\"",
		"[]",
		"[\"c\",\"s\"]",
		"[\"c\",\"s\",null,1,2]",
		"{}",
		"{\"channel\":\"c\"}",
		"{\"subject\":\"s\"}",
		"[1,\"s\",0]",
		"[\"c\",null,0]",
		"[\"\",\"s\",0]",
		"[\"c\",\"s\",\"short\",0]",
		"[\"c\",\"s\",5,0]",
		"[\"c\",\"s\",\"hex:\",0]",
		"[\"c\",\"s\",\"hex:0\",0]",
		"[\"c\",\"s\",\"hex:0g\",0]",
		"{\"channel\":\"c\",\"subject\":\"s\",\"refrence\":null}",
		"{\"channel\":\"c\",\"subject\":\"s\",\"subject\":\"t\"}",
		"{\"channel\":\"c\",\"subject\":\"s\",\"uid\":\"hex:00\"}",
		"{\"channel\":\"c\",\"subject\":\"s\",\"ack\":\"hex:00\"}",
		"{\"ack\":null}",
		"{\"ack\":5}",
		"{\"ack\":\"\"}",
		"[\"system\",\"ack\",\"hex:00\",null]",
		"[\"c\",\"s\",18446744073709551616]",
		"[\"c\",\"s\",{\"$bin\":\"!\"}]",
		"[\"c\",\"s\",",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (parse(bad[i]) != SC_E_DATA)
			FAIL("%s is read", bad[i]);
	memset(longest, 'x', 256);
	longest[256] = '\0';
	snprintf(line, sizeof(line), "[\"%s\",\"s\",0]", longest);
	CHECK_INT(parse(line), SC_E_DATA);
	snprintf(line, sizeof(line), "[\"c\",\"%s\",0]", longest);
	CHECK_INT(parse(line), SC_E_DATA);
	longest[255] = '\0';
	snprintf(line, sizeof(line), "[\"%s\",\"%s\",0]", longest, "s");
	CHECK_OK(parse(line), &err);
}

TEST(a_message_is_made_of_plain_texts)
{
	sc_bytes_done(&store);
	sc_bytes_init(&store, 1 << 20);
	CHECK_OK(sc_msg_line_make("a\"b", "s\n", "hex:01", NULL, SC_SPAN(" [1] "), &store, &msg,
				  &err),
		 &err);
	CHECK_SPAN(msg.channel, "a\"b");
	CHECK_SPAN(msg.subject, "s\n");
	CHECK_SPAN(msg.reference, "\x01");
	CHECK_SPAN(msg.data, "\x91\x01");
	CHECK_INT(sc_msg_line_make("a", "\xff", NULL, NULL, SC_SPAN("1"), &store, &msg, &err),
		  SC_E_DATA);
	CHECK_INT(sc_msg_line_make("a", "s", NULL, NULL, SC_SPAN("1},{"), &store, &msg, &err),
		  SC_E_DATA);
	CHECK_INT(sc_msg_line_make("a", "s", NULL, "hex:00", SC_SPAN("1"), &store, &msg, &err),
		  SC_E_DATA);
}
