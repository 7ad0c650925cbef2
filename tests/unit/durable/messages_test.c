/*
 * messages_test: bodies into messages, messages into frames, batches into events.
 *
 * Method: bodies and what must come out of them, byte for byte.
 */
#include "durable/messages.h"

#include "../check.h"
#include "durable/sse.h"

/* The messages of BODY, with '|' behind each; or "invalid". */
static const char *split(struct sc_span body, bool json)
{
	static char text[4096];
	struct sc_ds_messages messages;
	struct sc_ds_messages_walk walk;
	struct sc_span message;
	uint64_t count = 0, size = 0;
	size_t len = 0;

	if (sc_ds_messages_split(body, json, &messages) != SC_DS_SPLIT_OK)
		return "invalid";
	sc_ds_messages_walk(&walk, &messages);
	while (sc_ds_messages_next(&walk, &message)) {
		memcpy(text + len, message.data, message.len);
		len += message.len;
		text[len++] = '|';
		count++;
		size += 4 + message.len;
	}
	text[len] = 0;
	CHECK_INT(messages.count, count);
	CHECK_INT(messages.size, size);
	return text;
}

TEST(json_bodies_become_messages)
{
	static const struct {
		const char *body, *messages;
	} rows[] = {
		{ "[1,2]", "1|2|" },
		{ " [ {\"a\" : 1.00 } ,\r\n\t[ 3 ] , \"x,]\" ] ",
		  "{\"a\" : 1.00 }|[ 3 ]|\"x,]\"|" },
		{ "[[1,2],[3]]", "[1,2]|[3]|" },
		{ "{\"a\":1,\"a\":12345678901234567890}", "{\"a\":1,\"a\":12345678901234567890}|" },
		{ " \"\\u00e4\" ", "\"\\u00e4\"|" },
		{ "null", "null|" },
		{ "[]", "" },
		{ " [ ] ", "" },
		{ "", "" },
		{ " ", "invalid" },
		{ "[1,]", "invalid" },
		{ "[1", "invalid" },
		{ "1 2", "invalid" },
		{ "NaN", "invalid" },
		{ "\xef\xbb\xbf[1]", "invalid" },
		{ "\"\xff\"", "invalid" },
		{ "{a:1}", "invalid" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK_STR(split(sc_span_str(rows[i].body), true), rows[i].messages);
	CHECK_STR(split(SC_SPAN("[1,2]"), false), "[1,2]|");
}

TEST(json_has_a_depth)
{
	char deep[2 * 600];

	memset(deep, '[', 600);
	memset(deep + 600, ']', 600);
	CHECK_STR(split(sc_span(deep, 1200), true), "invalid");
	CHECK(strcmp(split(sc_span(deep + 100, 1000), true), "invalid") != 0);
}

TEST(frames_know_their_boundaries)
{
	static const char run[] = "\0\0\0\2ab\0\0\0\1c";
	struct sc_span all = sc_span(run, 11), message;

	CHECK(sc_ds_frame_first(all, &message));
	CHECK_SPAN(message, "ab");
	for (uint64_t at = 0; at <= 12; at++)
		CHECK_INT(sc_ds_frame_boundary(all, at), at == 0 || at == 6 || at == 11);
	CHECK(!sc_ds_frame_first(sc_span(run, 5), &message));
	CHECK(!sc_ds_frame_first(sc_span(run, 3), &message));
	CHECK(!sc_ds_frame_first(SC_SPAN("\xff\xff\xff\xff"), &message));
}

static const char *events(const char *payload, size_t len, bool base64, bool ended, bool up)
{
	static struct sc_bytes out;
	struct sc_ds_batch batch = {
		.payload = sc_span(payload, len),
		.has_data = payload != NULL,
		.base64 = base64,
		.next = 12,
		.cursor = "77",
		.ended = ended,
		.up_to_date = up,
	};

	sc_bytes_done(&out);
	sc_bytes_init(&out, 65536);
	if (sc_ds_sse_put(&out, &batch) < 0)
		FAIL("out of memory");
	return sc_bytes_str(&out);
}

#define CONTROL(REST) \
	"event: control\ndata:{\"streamNextOffset\":\"0000000000000000_0000000000000012\"" REST \
	"}\n\n"

/* events() makes its text anew: once a check. */
#define CHECK_STR_ONCE(CALL, WANT) \
	do { \
		const char *text_ = (CALL); \
		CHECK_STR(text_, WANT); \
	} while (0)

TEST(batches_become_events)
{
	CHECK_STR_ONCE(events("line1", 5, false, false, true),
		       "event: data\ndata:line1\n\n" CONTROL(
			       ",\"streamCursor\":\"77\",\"upToDate\":true"));
	CHECK_STR_ONCE(events("a\nb\r\nc\rd", 8, false, false, false),
		       "event: data\ndata:a\ndata:b\ndata:c\ndata:d\n\n" CONTROL(
			       ",\"streamCursor\":\"77\""));
	CHECK_STR_ONCE(events("\r\r\n\n", 4, false, true, true),
		       "event: data\ndata:\ndata:\ndata:\ndata:\n\n" CONTROL(
			       ",\"upToDate\":true,\"streamClosed\":true"));
	CHECK_STR_ONCE(events(" x\n  y\n ", 8, false, true, true),
		       "event: data\ndata:  x\ndata:   y\ndata:  \n\n" CONTROL(
			       ",\"upToDate\":true,\"streamClosed\":true"));
	CHECK_STR_ONCE(
		events("\0\n\xff", 3, true, false, true),
		"event: data\ndata:AAr/\n\n" CONTROL(",\"streamCursor\":\"77\",\"upToDate\":true"));
	CHECK_STR_ONCE(events("x\n\nevent: control\ndata:{}", 25, false, false, true),
		       "event: data\ndata:x\ndata:\ndata:event: control\ndata:data:{}\n\n" CONTROL(
			       ",\"streamCursor\":\"77\",\"upToDate\":true"));
	CHECK_STR_ONCE(events(NULL, 0, false, false, true),
		       CONTROL(",\"streamCursor\":\"77\",\"upToDate\":true"));
}

/* A payload of line ends costs as much as any other. */
TEST(many_line_ends_are_no_trap)
{
	static char ends[1 << 20];
	struct sc_bytes out;
	struct sc_ds_batch batch = { .payload = { ends, sizeof(ends) },
				     .has_data = true,
				     .cursor = "1" };

	sc_bytes_init(&out, 64u << 20);
	memset(ends, '\r', sizeof(ends));
	CHECK_INT(sc_ds_sse_put(&out, &batch), 0);
	CHECK(out.len > 6 * sizeof(ends));
	sc_bytes_done(&out);
}
