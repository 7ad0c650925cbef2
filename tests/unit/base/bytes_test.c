/* Buffers keep their maximum, digits are exact at the ends of the ranges. */
#include "base/bytes.h"

#include "../check.h"
#include "base/err.h"

TEST(buffer_stops_at_its_maximum)
{
	struct sc_bytes b;

	sc_bytes_init(&b, 10);
	CHECK_INT(sc_bytes_put(&b, "0123456789", 10), 0);
	CHECK(!b.full);
	CHECK_INT(sc_bytes_putc(&b, 'x'), SC_E_NOMEM);
	CHECK(b.full);
	CHECK_MEM(b.data, b.len, "0123456789");
	sc_bytes_drop(&b, 8);
	CHECK_MEM(b.data, b.len, "89");
	CHECK_INT(sc_bytes_putf(&b, "%s", "abcdefgh"), 0);
	CHECK_MEM(b.data, b.len, "89abcdefgh");
	CHECK_STR(sc_bytes_str(&b), "89abcdefgh");
	/* the room for the NUL is none for a byte */
	CHECK_INT(sc_bytes_putc(&b, 'x'), SC_E_NOMEM);
	CHECK_MEM(b.data, b.len, "89abcdefgh");
	sc_bytes_done(&b);
}

TEST(json_strings_escape_only_what_they_must)
{
	struct sc_bytes b;

	sc_bytes_init(&b, 1000);
	CHECK_INT(sc_bytes_put_json(&b, SC_SPAN("a\"\\/\n\x01\x7f\xc3\xa9")), 0);
	CHECK_MEM(b.data, b.len, "\"a\\\"\\\\/\\n\\u0001\x7f\xc3\xa9\"");
	sc_bytes_clear(&b);
	CHECK_INT(sc_bytes_put_json(&b, SC_SPAN("\xff\xed\xa0\x80")), 0);
	CHECK_MEM(b.data, b.len, "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
	sc_bytes_done(&b);
}

TEST(digits_at_the_ends)
{
	char d[24];
	uint64_t u;
	int64_t i;

	CHECK_MEM(d, sc_u64_digits(d, UINT64_MAX), "18446744073709551615");
	CHECK_MEM(d, sc_u64_digits(d, 0), "0");
	CHECK_MEM(d, sc_u64_digits(d, 100), "100");
	CHECK_MEM(d, sc_i64_digits(d, INT64_MIN), "-9223372036854775808");
	CHECK(sc_u64_parse(SC_SPAN("18446744073709551615"), &u) && u == UINT64_MAX);
	CHECK(!sc_u64_parse(SC_SPAN("18446744073709551616"), &u));
	CHECK(!sc_u64_parse(SC_SPAN(""), &u));
	CHECK(!sc_u64_parse(SC_SPAN("+1"), &u));
	CHECK(sc_i64_parse(SC_SPAN("-9223372036854775808"), &i) && i == INT64_MIN);
	CHECK(!sc_i64_parse(SC_SPAN("9223372036854775808"), &i));
	CHECK(!sc_i64_parse(SC_SPAN("-"), &i));
	for (uint64_t v = 1; v < UINT64_MAX / 7; v *= 7) {
		char want[24];

		snprintf(want, sizeof(want), "%" PRIu64, v);
		CHECK_MEM(d, sc_u64_digits(d, v), want);
	}
}
