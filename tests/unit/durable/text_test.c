/*
 * text_test: offsets, times, types, tags, cursors, queries.
 *
 * Method: tables of texts with what they mean, and of texts that mean nothing.
 */
#include "durable/text.h"

#include "../check.h"

static struct sc_span s(const char *text)
{
	return text ? sc_span_str(text) : sc_span(NULL, 0);
}

TEST(offsets_are_sixteen_digits_twice)
{
	static const struct {
		const char *text;
		int kind; /* -1: refused */
		uint64_t position;
	} rows[] = {
		{ "0000000000000000_0000000000000000", SC_DS_OFFSET_AT, 0 },
		{ "0000000000000000_0000000000000012", SC_DS_OFFSET_AT, 12 },
		{ "0000000000000000_9999999999999999", SC_DS_OFFSET_AT, SC_DS_POSITION_MAX },
		{ "-1", SC_DS_OFFSET_START, 0 },
		{ "now", SC_DS_OFFSET_NOW, 0 },
		{ "0000000000000001_0000000000000000", -1, 0 },
		{ "9999999999999999_9999999999999999", -1, 0 },
		{ "0_12", -1, 0 },
		{ "000000000000000_00000000000000012", -1, 0 },
		{ "0000000000000000-0000000000000012", -1, 0 },
		{ "0000000000000000_000000000000001x", -1, 0 },
		{ "0000000000000000_00000000000000012", -1, 0 },
		{ "0000000000000000_ 000000000000012", -1, 0 },
		{ "", -1, 0 },
		{ "NOW", -1, 0 },
		{ "-2", -1, 0 },
		{ NULL, -1, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		enum sc_ds_offset_kind kind;
		uint64_t position = 77;
		bool fine = sc_ds_offset_parse(s(rows[i].text), &kind, &position);
		char text[SC_DS_OFFSET_TEXT];

		CHECK_INT(fine, rows[i].kind >= 0);
		if (!fine)
			continue;
		CHECK_INT(kind, rows[i].kind);
		CHECK_INT(position, rows[i].position);
		sc_ds_offset_format(position, text);
		if (kind == SC_DS_OFFSET_AT)
			CHECK_STR(text, rows[i].text);
	}
	CHECK(!sc_ds_offset_parse(sc_span("0000000000000000_00000000\0000000001", 33),
				  &(enum sc_ds_offset_kind){ 0 }, &(uint64_t){ 0 }));
}

TEST(a_ttl_is_a_plain_number)
{
	static const struct {
		const char *text;
		bool fine;
		uint64_t seconds;
	} rows[] = {
		{ "0", true, 0 },
		{ "60", true, 60 },
		{ "1000000000000", true, SC_DS_TTL_MAX },
		{ "1000000000001", true, SC_DS_TTL_MAX },
		{ "99999999999999999999999999999999", true, SC_DS_TTL_MAX },
		{ "060", false, 0 },
		{ "00", false, 0 },
		{ "+60", false, 0 },
		{ "-1", false, 0 },
		{ "60.5", false, 0 },
		{ "1e3", false, 0 },
		{ "abc", false, 0 },
		{ "6 0", false, 0 },
		{ "", false, 0 },
		{ "99999999999999999999999999999999x", false, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		uint64_t seconds = 7;

		CHECK_INT(sc_ds_ttl_parse(s(rows[i].text), &seconds), rows[i].fine);
		CHECK_INT(seconds, rows[i].fine ? rows[i].seconds : 7);
	}
	CHECK(!sc_ds_count_parse(SC_SPAN("99999999999999999999999"), &(uint64_t){ 0 }));
	CHECK(!sc_ds_count_parse(SC_SPAN("+1"), &(uint64_t){ 0 }));
}

TEST(producer_numbers_end_at_2_to_53)
{
	uint64_t n = 0;

	CHECK(sc_ds_producer_number(SC_SPAN("9007199254740991"), &n));
	CHECK_INT(n, SC_DS_PRODUCER_MAX);
	CHECK(sc_ds_producer_number(SC_SPAN("007"), &n));
	CHECK_INT(n, 7);
	CHECK(!sc_ds_producer_number(SC_SPAN("9007199254740992"), &n));
	CHECK(!sc_ds_producer_number(SC_SPAN("99999999999999999999999999"), &n));
	CHECK(!sc_ds_producer_number(SC_SPAN("-1"), &n));
	CHECK(!sc_ds_producer_number(SC_SPAN("1.0"), &n));
	CHECK(!sc_ds_producer_number(SC_SPAN(""), &n));
}

TEST(times_are_rfc_3339)
{
	static const struct {
		const char *text, *back; /* back NULL: refused */
		int64_t us;
	} rows[] = {
		{ "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 0 },
		{ "2026-11-30T00:12:01Z", "2026-11-30T00:12:01Z", 1795997521000000 },
		{ "2026-11-30t02:12:01.5+02:00", "2026-11-30T00:12:01Z", 1795997521500000 },
		{ "2026-11-29T19:12:01.123456789-05:00", "2026-11-30T00:12:01Z", 1795997521123456 },
		{ "2024-02-29T23:59:60Z", "2024-03-01T00:00:00Z", 1709251200000000 },
		{ "1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", -500000 },
		{ "0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z", -62167219200000000 },
		{ "0000-01-01T00:00:00+01:00", "0000-01-01T00:00:00Z", -62167222800000000 },
		{ "9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59Z", 253402387139000000 },
		{ "2026-02-29T00:00:00Z", NULL, 0 },
		{ "2026-13-01T00:00:00Z", NULL, 0 },
		{ "2026-00-01T00:00:00Z", NULL, 0 },
		{ "2026-01-32T00:00:00Z", NULL, 0 },
		{ "2026-01-01T24:00:00Z", NULL, 0 },
		{ "2026-01-01T00:60:00Z", NULL, 0 },
		{ "2026-01-01T00:00:61Z", NULL, 0 },
		{ "2026-01-01T00:00:00", NULL, 0 },
		{ "2026-01-01T00:00:00.Z", NULL, 0 },
		{ "2026-01-01T00:00:00+0200", NULL, 0 },
		{ "2026-01-01T00:00:00+24:00", NULL, 0 },
		{ "2026-01-01 00:00:00Z", NULL, 0 },
		{ "2026-01-01", NULL, 0 },
		{ "2026-01-01T00:00:00Zx", NULL, 0 },
		{ "not a date", NULL, 0 },
		{ "1795997521", NULL, 0 },
		{ "", NULL, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char back[SC_DS_TIME_TEXT];
		int64_t us = 7;

		CHECK_INT(sc_ds_time_parse(s(rows[i].text), &us), rows[i].back != NULL);
		CHECK_INT(us, rows[i].back ? rows[i].us : 7);
		sc_ds_time_format(us, back);
		if (rows[i].back)
			CHECK_STR(back, rows[i].back);
	}
}

TEST(media_types_are_compared_by_their_essence)
{
	CHECK(sc_ds_type_same(SC_SPAN("TEXT/PLAIN"), SC_SPAN("text/plain; charset=utf-8")));
	CHECK(sc_ds_type_same(SC_SPAN(" text/plain "), SC_SPAN("text/plain ;x")));
	CHECK(!sc_ds_type_same(SC_SPAN("text/plain"), SC_SPAN("text/plai")));
	CHECK(sc_ds_type_is_json(SC_SPAN("Application/JSON;charset=utf-8")));
	CHECK(!sc_ds_type_is_json(SC_SPAN("application/vnd.x+json")));
	CHECK(sc_ds_type_is_text(SC_SPAN("TEXT/html")));
	CHECK(sc_ds_type_is_text(SC_SPAN("application/json")));
	CHECK(!sc_ds_type_is_text(SC_SPAN("text")));
	CHECK(!sc_ds_type_is_text(SC_SPAN("application/octet-stream")));
	CHECK(sc_ds_value_clean(SC_SPAN("a\tb \xc3\xa4")));
	CHECK(!sc_ds_value_clean(SC_SPAN("a\r\nb")));
	CHECK(!sc_ds_value_clean(SC_SPAN("a\0b")));
	CHECK(!sc_ds_value_clean(SC_SPAN("a\x7f")));
	CHECK(sc_ds_is_true(SC_SPAN("TrUe")));
	CHECK(!sc_ds_is_true(SC_SPAN("yes")));
	CHECK(!sc_ds_is_true(SC_SPAN("true1")));
	CHECK(!sc_ds_is_true(SC_SPAN("")));
	CHECK(!sc_ds_is_true(sc_span(NULL, 0)));
}

TEST(if_none_match_is_a_list)
{
	char tag[SC_DS_ETAG_TEXT];
	static const struct {
		const char *list;
		bool match;
	} rows[] = {
		{ "\"1a:0:12:c\"", true },
		{ "W/\"1a:0:12:c\"", true },
		{ "*", true },
		{ " * ", true },
		{ "\"x\", \"1a:0:12:c\"", true },
		{ "\"x\",,W/\"y\" ,\"1a:0:12:c\"", true },
		{ "\"1a:0:12\"", false },
		{ "\"a,b\"", false },
		{ "\"x\" *", false },
		{ "1a:0:12:c", false },
		{ "\"1a:0:12:c", false },
		{ "W/", false },
		{ "", false },
		{ NULL, false },
	};

	sc_ds_etag_format(26, 0, 12, true, tag);
	CHECK_STR(tag, "\"1a:0:12:c\"");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		CHECK_INT(sc_ds_etag_matches(s(rows[i].list), tag), rows[i].match);
	CHECK(!sc_ds_etag_matches(SC_SPAN("*"), ""));
	sc_ds_etag_format(UINT64_MAX, UINT64_MAX, UINT64_MAX, true, tag);
	CHECK(strlen(tag) < SC_DS_ETAG_TEXT - 1);
}

TEST(cursors_only_grow)
{
	const int64_t epoch = 1728432000000000;
	static const struct {
		const char *client;
		uint64_t jitter;
		const char *next;
	} rows[] = {
		{ NULL, 5, "100" },
		{ "", 5, "100" },
		{ "abc", 5, "100" },
		{ "99", 5, "100" },
		{ "100", 0, "101" },
		{ "100", 179, "280" },
		{ "100", 180, "101" },
		{ "5000", 4, "5005" },
		{ "-5", 0, "100" },
		{ "1.5", 0, "100" },
		{ "9999999999999999", 0, "100" },
		{ "999999999999999", 0, "1000000000000000" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[SC_DS_CURSOR_TEXT];

		sc_ds_cursor_next(s(rows[i].client), epoch + 100 * 20000000ll + 19999999,
				  rows[i].jitter, text);
		CHECK_STR(text, rows[i].next);
	}
}

TEST(queries_are_form_decoded)
{
	struct sc_bytes scratch;
	struct sc_ds_query q;

	sc_bytes_init(&scratch, 4096);
	CHECK_INT(sc_ds_query_parse(SC_SPAN("x=1&%6fffset=%2D1&live=long%2dpoll&cursor=a+b%zz%"),
				    &scratch, &q),
		  0);
	CHECK_SPAN(q.offset, "-1");
	CHECK_SPAN(q.live, "long-poll");
	CHECK_SPAN(q.cursor, "a b%zz%");
	CHECK(!q.offset_repeated);
	CHECK_INT(sc_ds_query_parse(SC_SPAN("offset=1&offset=2"), &scratch, &q), 0);
	CHECK_SPAN(q.offset, "1");
	CHECK(q.offset_repeated && !q.live.data);
	CHECK_INT(sc_ds_query_parse(SC_SPAN("offset&live="), &scratch, &q), 0);
	CHECK(q.offset.data && q.offset.len == 0 && q.live.data && q.live.len == 0);
	CHECK_INT(sc_ds_query_parse(SC_SPAN("offset=%00"), &scratch, &q), 0);
	CHECK(q.offset.len == 1 && q.offset.data[0] == 0);
	CHECK_INT(sc_ds_query_parse(sc_span(NULL, 0), &scratch, &q), 0);
	CHECK(!q.offset.data);
	CHECK_INT(sc_ds_query_parse(SC_SPAN("&&=&=x&"), &scratch, &q), 0);
	CHECK(!q.offset.data);
	sc_bytes_done(&scratch);
}

TEST(groups_end_before_the_first_dotted_segment)
{
	CHECK_SPAN(sc_ds_path_group(SC_SPAN("/a/b/.x/c")), "/a/b");
	CHECK_SPAN(sc_ds_path_group(SC_SPAN("/a/b.c")), "/a/b.c");
	CHECK_SPAN(sc_ds_path_group(SC_SPAN("/.a")), "");
	CHECK_SPAN(sc_ds_path_group(SC_SPAN("/a/b")), "/a/b");
	CHECK(sc_ds_path_valid(SC_SPAN("/a")));
	CHECK(!sc_ds_path_valid(SC_SPAN("/")));
	CHECK(!sc_ds_path_valid(SC_SPAN("a/b")));
	CHECK(!sc_ds_path_valid(sc_span(NULL, 0)));
}
