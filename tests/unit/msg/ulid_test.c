/* ULIDs rise, and their texts and bytes are each other's: wsmsg 19 gives examples. */
#include "../check.h"
#include "bytes.h"
#include "msg/ulid.h"

TEST(texts_of_the_specification)
{
	static const char *const pairs[][2] = {
		{ "01KB88X0G0AAAAAAAAAAAAAAA1", "019ad08e82005294a5294a5294a52941" },
		{ "01KB88X0G0AAAAAAAAAAAAAAA9", "019ad08e82005294a5294a5294a52949" },
		{ "01KB88X0G0SSSSSSSSSSSSSSS3", "019ad08e8200ce739ce739ce739ce723" },
		{ "00000000000000000000000000", "00000000000000000000000000000000" },
		{ "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "ffffffffffffffffffffffffffffffff" },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
		struct sc_ulid ulid;
		char text[SC_ULID_TEXT];

		CHECK(sc_ulid_parse(sc_span_str(pairs[i][0]), &ulid));
		CHECK(same(sc_ulid_span(&ulid), hex(pairs[i][1])));
		sc_ulid_text(&ulid, text);
		CHECK_STR(text, pairs[i][0]);
	}
}

TEST(lower_case_is_read)
{
	struct sc_ulid a, b;

	CHECK(sc_ulid_parse(SC_SPAN("01kb88x0g0aaaaaaaaaaaaaaa1"), &a));
	CHECK(sc_ulid_parse(SC_SPAN("01KB88X0G0AAAAAAAAAAAAAAA1"), &b));
	CHECK(memcmp(&a, &b, sizeof(a)) == 0);
}

TEST(what_is_no_ulid)
{
	static const char *const wrong[] = { "",
					     "01KB88X0G0AAAAAAAAAAAAAAA",
					     "01KB88X0G0AAAAAAAAAAAAAAA12",
					     "81KB88X0G0AAAAAAAAAAAAAAA1",
					     "01KB88X0G0AAAAAAAAAAAAAAI1",
					     "01KB88X0G0AAAAAAAAAAAAAAL1",
					     "01KB88X0G0AAAAAAAAAAAAAAO1",
					     "01KB88X0G0AAAAAAAAAAAAAAU1",
					     "01KB88X0G0AAAAAAAAAAAAAA-1" };
	struct sc_ulid ulid;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		if (sc_ulid_parse(sc_span_str(wrong[i]), &ulid))
			FAIL("'%s' was read", wrong[i]);
	}
	CHECK(!sc_ulid_parse(SC_SPAN("01KB88X0G0AAAAAAAAAAAAAA\0001"), &ulid));
}

TEST(they_rise)
{
	struct sc_ulid_maker maker = { { { 0 } } };
	struct sc_ulid last = sc_ulid_make(&maker, 1764435591680), next;

	CHECK(memcmp(last.bytes, "\x01\x9a\xd0\x8e\x82\x00", 6) == 0);
	for (int i = 0; i < 1000; i++) {
		/* the same ms, the next, and a clock that goes back */
		next = sc_ulid_make(&maker, 1764435591680 + (i % 3) - 1);
		CHECK(memcmp(next.bytes, last.bytes, SC_ULID_BYTES) > 0);
		last = next;
	}
	memset(maker.last.bytes + 6, 0xff, 10);
	last = maker.last;
	next = sc_ulid_make(&maker, 0);
	CHECK(memcmp(next.bytes, last.bytes, SC_ULID_BYTES) > 0);
}
