/* Request targets as urllib.parse and int() of Python 3.11 read them: names, keys, integers,
 * refusals. */
#include "../check.h"
#include "wire/target.h"

static struct sc_target target;
static struct sc_refusal refusal;

static int parse(int wire, bool publish, const char *text)
{
	struct sc_target_rules rules = { .wire = wire, .publish = publish };
	int rc;

	sc_target_done(&target);
	rc = sc_target_parse(sc_span_str(text), &rules, &target, &refusal, NULL);
	return rc;
}

#define NAME(TEXT, WANT) \
	do { \
		CHECK_INT(parse(2, true, TEXT) >= 0, 1); \
		CHECK_SPAN(target.name, WANT); \
	} while (0)

TEST(names_are_bytes)
{
	NAME("/trades?offset=1", "trades");
	CHECK(target.has_offset);
	CHECK_INT(target.offset, 1);
	NAME("//trades?offset=1", "");
	CHECK_INT(target.offset, 1);
	NAME("///trades", "trades");
	NAME("////a//b", "a//b");
	NAME("/trades/", "trades/");
	NAME("/p/q//?offset=1", "p/q//");
	NAME("/tra%64es", "tra%64es");
	NAME("/a#b?offset=1", "a");
	CHECK(!target.has_offset);
	NAME("/a?offset=1#x", "a");
	CHECK_INT(target.offset, 1);
	NAME("//h#?offset=2", "");
	CHECK(!target.has_offset);
	NAME("/", "");
	NAME("", "");
	NAME("?offset=3", "");
	CHECK_INT(target.offset, 3);
	NAME("a", "a");
	NAME("*", "*");
	NAME("/a:b", "a:b");
	NAME("a:b/c", "b/c");
	NAME("1a:b", "1a:b");
	NAME("http://h:8765/a?offset=1", "a");
	CHECK_INT(target.offset, 1);
	NAME("http:a", "a");
	NAME("HTTP:///x", "x");
	NAME("//[::1]/a", "a");
	NAME("//[::1]x/q", "q");
	NAME("//%ff/q", "q");
	NAME("/a;b?", "a;b");
}

TEST(what_is_no_url_is_refused)
{
	CHECK_INT(parse(1, false, "//[x/a"), 1);
	CHECK_INT(sc_refusal_code(&refusal), 4400);
	CHECK_INT(parse(1, false, "//a]b/c"), 1);
	CHECK_INT(parse(1, false, "//[zz]/q"), 1);
	CHECK_INT(parse(1, false, "//[127.0.0.1]/q"), 1);
	CHECK_INT(parse(1, false, "//[v1.x]/q"), 0);
}

TEST(the_query_is_form_decoded)
{
	CHECK_INT(parse(1, false, "/a?offset=1&&offset=+2+"), 0);
	CHECK_INT(target.offset, 2);
	CHECK_INT(parse(1, false, "/a?%6fffset=%31"), 0);
	CHECK_INT(target.offset, 1);
	CHECK_INT(parse(1, false, "/a?offset=%D9%A1%D9%A2"), 0);
	CHECK_INT(target.offset, 12);
	CHECK_INT(parse(1, false, "/a?offset=%20+7%09"), 0);
	CHECK_INT(target.offset, 7);
	CHECK_INT(parse(1, false, "/a?offset=%2B7"), 0);
	CHECK_INT(target.offset, 7);
	CHECK_INT(parse(1, false, "/a?"), 0);
	CHECK_INT(parse(1, false, "/a?&&&"), 0);
	CHECK_INT(parse(1, false, "/a?offset"), 1);
	CHECK_INT(parse(1, false, "/a?offset==5"), 1);
	CHECK_INT(parse(1, false, "/a?=5"), 1);
	CHECK_INT(parse(1, false, "/a?x;offset=1"), 1);
	CHECK_STR(refusal.detail, "unknown query parameters: x;offset");
	CHECK_INT(parse(1, false, "/a?%FF%e2%82%=1"), 1);
	CHECK_STR(refusal.detail, "unknown query parameters: \xef\xbf\xbd\xef\xbf\xbd%");
}

TEST(unknown_keys_are_told_sorted_and_first)
{
	CHECK_INT(parse(1, false, "/a?zz=1&b&B&offset=x&b=2"), 1);
	CHECK_STR(refusal.detail, "unknown query parameters: B, b, zz");
	CHECK_SPAN(target.name, "a");
	CHECK_INT(parse(1, false, "/a?publish"), 1);
	CHECK_STR(refusal.detail, "unknown query parameters: publish");
	CHECK_INT(parse(1, false, "/a?where={}"), 1);
	CHECK_STR(refusal.detail, "unknown query parameters: where");
	CHECK_INT(parse(2, false, "/a?where={}"), 0);
	CHECK(target.has_where);
	CHECK_SPAN(target.where, "{}");
	CHECK_INT(parse(4, false, "/a?Offset=1"), 1);
}

TEST(publishers)
{
	CHECK_INT(parse(1, true, "/a?publish"), 0);
	CHECK(target.publish);
	CHECK_INT(parse(2, false, "/a?publish=1"), 1);
	CHECK_INT(refusal.kind, SC_REFUSAL_PUBLISH_DISABLED);
	CHECK_INT(parse(2, true, "/a?publish&offset=1"), 1);
	CHECK_STR(refusal.detail, "publish cannot go with offset");
	CHECK_INT(parse(2, true, "/a?publish&where={}"), 1);
	CHECK_INT(parse(1, true, "/a?publish&producer=p%201&epoch=7"), 0);
	CHECK_SPAN(target.producer, "p 1");
	CHECK_INT(target.epoch, 7);
	CHECK_INT(parse(1, true, "/a?publish&producer=p"), 0);
	CHECK_INT(target.epoch, 0);
	CHECK_INT(parse(1, true, "/a?producer=p"), 1);
	CHECK_INT(parse(1, true, "/a?publish&epoch=1"), 1);
	CHECK_INT(parse(1, true, "/a?publish&producer="), 1);
	CHECK_INT(parse(1, true, "/a?publish&producer=p&epoch=-1"), 1);
	CHECK_INT(parse(1, true, "/a?publish&producer=p%00q"), 1);
	CHECK_INT(parse(1, false, "/a?producer=p"), 1);
}

static bool integer(const char *text, uint64_t *value, bool *negative)
{
	char digits[64];

	return sc_target_integer(sc_span_str(text), negative, value, digits, sizeof(digits));
}

TEST(integers_as_python_reads_them)
{
	static const struct {
		const char *text;
		uint64_t want;
	} good[] = {
		{ "5", 5 },
		{ "+5", 5 },
		{ "-0", 0 },
		{ " 7 ", 7 },
		{ "1_000", 1000 },
		{ "007", 7 },
		{ "0_0", 0 },
		{ "\u0661\u0662", 12 },
		{ "\u20035\u2003", 5 },
		{ "\x1c"
		  "5",
		  5 },
		{ "\xc2\x85"
		  "5",
		  5 },
		{ "\uff19", 9 },
		{ "1_\u0662", 12 },
		{ "18446744073709551615", UINT64_MAX },
		{ "\t\v\f\r\n1", 1 },
		{ "\U0001d7ce", 0 },
	};
	static const char *const bad[] = {
		"",     "+",      "-",    "- 5", "+ 5", "+_5",    "-_1", "5.0",
		"1e3",  "0x10",   "1__0", "_1",  "1_",  "1_ ",    "1 2", "\u200b5",
		"\xff", "\ufffd", "--1",  "+-1", "5x",  "\u00b2",
	};
	uint64_t value;
	bool negative;
	char digits[200], text[5000];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!integer(good[i].text, &value, &negative) || negative || value != good[i].want)
			FAIL("'%s' is not %" PRIu64, good[i].text, good[i].want);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (integer(bad[i], &value, &negative))
			FAIL("'%s' is an integer", bad[i]);
	CHECK(integer("-3", &value, &negative) && negative);
	memset(text, '1', sizeof(text));
	CHECK(sc_target_integer(sc_span(text, 4300), &negative, &value, digits, sizeof(digits)));
	CHECK_INT(strlen(digits), 199);
	CHECK(!sc_target_integer(sc_span(text, 4301), &negative, &value, digits, sizeof(digits)));
	CHECK(sc_target_integer(SC_SPAN("-000123456789012345678901"), &negative, &value, digits,
				sizeof(digits)));
	CHECK(negative && value == UINT64_MAX);
	CHECK_STR(digits, "123456789012345678901");
}

TEST(offsets)
{
	CHECK_INT(parse(1, false, "/a?offset=-1"), 1);
	CHECK_STR(refusal.detail, "offset must be an integer, 0 or more, not '-1'");
	CHECK_INT(parse(1, false, "/a?offset="), 1);
	CHECK_INT(parse(1, false, "/a?offset=1e3"), 1);
	CHECK_INT(parse(1, false, "/a?offset=-0"), 0);
	CHECK_INT(target.offset, 0);
	CHECK_INT(parse(1, false, "/a?offset=99999999999999999999"), 0);
	CHECK(target.offset == UINT64_MAX);
	CHECK_STR(target.offset_digits, "99999999999999999999");
	CHECK_INT(parse(1, false, "/a?offset=5"), 0);
	CHECK_STR(target.offset_digits, "");
	CHECK_INT(parse(1, false, "/a"), 0);
	CHECK(!target.has_offset);
	CHECK_INT(parse(2, false, "/a?where=[]"), 1);
	CHECK_INT(parse(2, false, "/a?where={"), 1);
	CHECK_INT(parse(2, false, "/a?where=%7B%22a%22:+1%7D"), 0);
	CHECK_SPAN(target.where, "{\"a\": 1}");
	sc_target_done(&target);
}
