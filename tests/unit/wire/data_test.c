/* Data frames of pairs and triples as a client checks them. */
#include "../check.h"
#include "base/clock.h"
#include "wire/data.h"
#include "wire/head.h"

static struct sc_data d;
static struct sc_err err;

static int pair(const char *text)
{
	struct sc_data_order order = { 0 };

	return sc_data_parse(&order, sc_span_str(text), &d, &err);
}

static int triple(const char *text)
{
	struct sc_data_order order = { .triples = true };

	return sc_data_parse(&order, sc_span_str(text), &d, &err);
}

TEST(pairs)
{
	CHECK_OK(pair("[12,{\"a\":[1,\"]\"]}]"), &err);
	CHECK(d.has_offset && d.is_line);
	CHECK_INT(d.offset, 12);
	CHECK_SPAN(d.msg, "{\"a\":[1,\"]\"]}");
	CHECK_OK(pair("[null,\"x\"]"), &err);
	CHECK(!d.has_offset && d.is_line);
	CHECK_OK(pair(" [ 7 , 1.50 ]\n"), &err);
	CHECK(!d.is_line);
	CHECK_SPAN(d.msg, "1.50");
	CHECK_OK(pair("[7,{\"a\":\n1}]"), &err);
	CHECK(d.newlines && !d.is_line);
	CHECK_OK(pair("[7, {}]"), &err);
	CHECK(!d.is_line);
	CHECK_OK(pair("[18446744073709551615,[]]"), &err);
	CHECK(d.offset == UINT64_MAX);
	CHECK_OK(pair("[0,null]"), &err);
}

TEST(triples)
{
	CHECK_OK(triple("[12,1790038800123456,{}]"), &err);
	CHECK(d.has_ts && !d.is_line);
	CHECK_INT(d.ts_us, 1790038800123456);
	CHECK_SPAN(d.msg, "{}");
	CHECK_OK(triple("[null,null,{}]"), &err);
	CHECK(!d.has_ts && !d.has_offset);
	CHECK_OK(triple("[1,-5,{}]"), &err);
	CHECK_INT(d.ts_us, -5);
}

#define REFUSES(CALL, WORDS) \
	do { \
		CHECK_INT(CALL, SC_E_PROTOCOL); \
		if (!strstr(err.reason, WORDS)) \
			FAIL("'%s' does not say '%s'", err.reason, WORDS); \
	} while (0)

TEST(refusals_say_what)
{
	REFUSES(pair(""), "not JSON");
	REFUSES(pair("["), "not JSON");
	REFUSES(pair("[1,{}"), "not JSON");
	REFUSES(pair("[1,{]]"), "not JSON");
	REFUSES(pair("{\"a\":1}"), "not an array");
	REFUSES(pair("[1]"), "1 elements, not 2");
	REFUSES(pair("[]"), "0 elements");
	REFUSES(pair("[1,2,{}]"), "3 elements, not 2");
	REFUSES(triple("[1,{}]"), "2 elements, not 3");
	REFUSES(pair("[\"1\",{}]"), "offset is a string");
	REFUSES(pair("[1.0,{}]"), "offset is");
	REFUSES(pair("[-1,{}]"), "offset is");
	REFUSES(pair("[18446744073709551616,{}]"), "offset is");
	REFUSES(pair("[01,{}]"), "not JSON");
	REFUSES(triple("[1,\"x\",{}]"), "time is");
	REFUSES(triple("[1,9223372036854775808,{}]"), "time is");
	REFUSES(pair("[1,\"\xff\"]"), "not JSON");
}

TEST(offsets_must_rise)
{
	struct sc_data_order order = { 0 };

	CHECK_OK(sc_data_parse(&order, SC_SPAN("[5,1]"), &d, &err), &err);
	CHECK_OK(sc_data_parse(&order, SC_SPAN("[9,1]"), &d, &err), &err);
	REFUSES(sc_data_parse(&order, SC_SPAN("[9,1]"), &d, &err), "offset 9 came after 9");
	CHECK_OK(sc_data_parse(&order, SC_SPAN("[null,1]"), &d, &err), &err);
	REFUSES(sc_data_parse(&order, SC_SPAN("[8,1]"), &d, &err), "8 came after 9");
	CHECK_OK(sc_data_parse(&order, SC_SPAN("[10,1]"), &d, &err), &err);
	CHECK_INT(order.last, 10);
}

TEST(heads)
{
	static const struct {
		uint64_t len;
		size_t head;
	} cases[] = {
		{ 0, 2 }, { 125, 2 }, { 126, 4 }, { 65535, 4 }, { 65536, 10 }, { 1ull << 40, 10 },
	};
	unsigned char head[SC_HEAD_MAX];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t size;

		CHECK_INT(sc_head_put(head, cases[i].len), cases[i].head);
		CHECK_INT(sc_head_size(cases[i].len), cases[i].head);
		CHECK_INT(head[0], 0x81);
		CHECK_INT(sc_head_payload(head, &size), cases[i].len);
		CHECK_INT(size, cases[i].head);
		CHECK_INT(sc_head_frame(head), cases[i].len + cases[i].head);
	}
}

TEST(quick)
{
	static const char frame[] = "[123456789,{\"event_ts\":1790038800123456,\"price\":85565.0,"
				    "\"amount\":0.015,\"side\":0}]";
	int64_t began = sc_mono_us();

	for (int i = 0; i < 200000; i++) {
		struct sc_data_order order = { 0 };

		CHECK_OK(sc_data_parse(&order, sc_span(frame, sizeof(frame) - 1), &d, &err), &err);
	}
	printf("data frames: %.1f M/s\n", 200000.0 / (double)(sc_mono_us() - began));
}
