/*
 * Goal: sizes, durations, times and factors mean what man/sc.7 says, and everything else is
 * refused. Method: tables of texts with their values, and of texts that must be refused with their
 * results untouched.
 */
#include "base/parse.h"

#include "../check.h"

#define NOW_US INT64_C(1796000000000000)
#define S INT64_C(1000000)

TEST(sizes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "1000", 1000 },
		{ "12B", 12 },
		{ "8M", 8 << 20 },
		{ "8m", 8 << 20 },
		{ "64KiB", 64 << 10 },
		{ "64kib", 64 << 10 },
		{ "64 KiB", 64 << 10 },
		{ "1KB", 1000 },
		{ "2MB", 2000000 },
		{ "3G", UINT64_C(3) << 30 },
		{ "3GB", UINT64_C(3000000000) },
		{ "1T", UINT64_C(1) << 40 },
		{ "1PiB", UINT64_C(1) << 50 },
		{ "1.5M", 3 << 19 },
		{ "0.5K", 512 },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = {
		"",       "x",     "-1",
		"+1",     "1.",    ".5",
		"1Q",     "1KK",   "1Kx",
		"1 2",    "0x10",  "1e3",
		"0.3B",   "0.1K",  "1.5",
		"16384P", "1,000", "18446744073709551616",
		" 1",     "1iB",   "1.0000000001K",
	};
	struct sc_err err;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t bytes = 1;

		CHECK_OK(sc_parse_size(good[i].text, &bytes, &err), &err);
		if (bytes != good[i].bytes)
			FAIL("'%s' is %" PRIu64 ", not %" PRIu64, good[i].text, bytes,
			     good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t bytes = 77;

		if (sc_parse_size(bad[i], &bytes, &err) != SC_E_USAGE || bytes != 77)
			FAIL("size '%s' was taken", bad[i]);
		CHECK(err.next[0]);
	}
}

TEST(durations)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {
		{ "0", 0 },
		{ "5", 5000 },
		{ "0.25", 250 },
		{ "250ms", 250 },
		{ "30s", 30000 },
		{ "5m", 300000 },
		{ "1h30m", 5400000 },
		{ "1h 30m", 5400000 },
		{ "1.5h", 5400000 },
		{ "7d", 604800000 },
		{ "2w", 1209600000 },
		{ "1w1d1h1m1s1ms", 694861001 },
		{ "10 minutes", 600000 },
		{ "1 hour", 3600000 },
		{ "2days", 172800000 },
		{ "0.001s", 1 },
		{ "2305843009213693ms", INT64_MAX / 4000 },
		{ "2305843009213.693", INT64_MAX / 4000 },
	};
	static const char *const bad[] = {
		"",
		"x",
		"-5s",
		"5y",
		"5M",
		"5mo",
		"1m1h",
		"1m1m",
		"1h30",
		"0.0001s",
		"0.0001",
		"5us",
		"99999999999999999w",
		"s",
		"1h,30m",
		"5s ago",
		"1.s",
		"9223372036854775807s",
		"2305843009213694ms",
		"2305843009213s694ms",
		"2305843009213.694",
	};
	struct sc_err err;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t ms = -9;

		CHECK_OK(sc_parse_duration(good[i].text, &ms, &err), &err);
		if (ms != good[i].ms)
			FAIL("'%s' is %" PRId64 ", not %" PRId64, good[i].text, ms, good[i].ms);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t ms = 77;

		if (sc_parse_duration(bad[i], &ms, &err) != SC_E_USAGE || ms != 77)
			FAIL("duration '%s' was taken", bad[i]);
		CHECK(err.next[0]);
	}
}

TEST(times)
{
	static const struct {
		const char *text;
		int64_t us;
	} good[] = {
		{ "now", NOW_US },
		{ "10m", NOW_US - 600 * S },
		{ "10m ago", NOW_US - 600 * S },
		{ "1h30m ago", NOW_US - 5400 * S },
		{ "1 hour ago", NOW_US - 3600 * S },
		{ "250ms", NOW_US - 250000 },
		{ "0", 0 },
		{ "1764504000", 1764504000 * S },
		{ "1764504000.5", 1764504000 * S + 500000 },
		{ "1764504000.1234567", 1764504000 * S + 123456 },
		{ "1764504000123", 1764504000 * S + 123000 },
		{ "1764504000123456", 1764504000 * S + 123456 },
		{ "99999999999", 99999999999 * S },
		{ "100000000000", 100000000 * S },
		{ "1970-01-01T00:00:00Z", 0 },
		{ "1969-12-31T23:59:59Z", -1 * S },
		{ "2026-11-30T12:00:00Z", 1796040000 * S },
		{ "2026-11-30t12:00:00z", 1796040000 * S },
		{ "2026-11-30 12:00:00Z", 1796040000 * S },
		{ "2026-11-30T13:30:00+01:30", 1796040000 * S },
		{ "2026-11-30T04:00:00-08:00", 1796040000 * S },
		{ "2026-11-30T12:00:00.25Z", 1796040000 * S + 250000 },
		{ "2026-11-30T12:00:00.1234569Z", 1796040000 * S + 123456 },
		{ "2026-11-30", 1795996800 * S },
		{ "2024-02-29T00:00:00Z", 1709164800 * S },
		{ "2000-02-29", 951782400 * S },
		{ "2016-12-31T23:59:60Z", 1483228800 * S },
		{ "0001-01-01", -62135596800 * S },
	};
	static const char *const bad[] = {
		"",
		"x",
		"-5",
		"yesterday",
		"ago",
		"2026-11-30T12:00:00",
		"2026-11-30T12:00Z",
		"2026-11-30T12:00:00.Z",
		"2026-11-30T24:00:00Z",
		"2026-11-30T12:60:00Z",
		"2026-11-30T12:00:61Z",
		"2026-11-30T12:00:60Z",
		"2026-13-01",
		"2026-00-01",
		"2026-02-29",
		"1900-02-29",
		"2026-04-31",
		"2026-1-1",
		"2026-11-30T12:00:00Zx",
		"2026-11-30T12:00:00+0100",
		"2026-11-30T12:00:00+24:00",
		"2026-11-30x",
		"10m later",
		"10y ago",
		"1.2.3",
		"1764504000Z",
		"99999999999999999999",
	};
	struct sc_err err;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		int64_t us = -9;

		CHECK_OK(sc_parse_time(good[i].text, NOW_US, &us, &err), &err);
		if (us != good[i].us)
			FAIL("'%s' is %" PRId64 ", not %" PRId64, good[i].text, us, good[i].us);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int64_t us = 77;

		if (sc_parse_time(bad[i], NOW_US, &us, &err) != SC_E_USAGE || us != 77)
			FAIL("time '%s' was taken", bad[i]);
		CHECK(err.next[0]);
	}
}

TEST(a_time_without_a_zone_says_so)
{
	struct sc_err err;
	int64_t us;

	CHECK_INT(sc_parse_time("2026-11-30T12:00:00", NOW_US, &us, &err), SC_E_USAGE);
	CHECK(strstr(err.next, "zone"));
}

TEST(factors)
{
	struct sc_err err;
	double factor = 7;
	static const char *const bad[] = { "",    "0",   "0x",  "-1",  "x",
					   "1xx", "1/2", "inf", "nan", "1e3" };

	CHECK_OK(sc_parse_factor("2", &factor, &err), &err);
	CHECK(factor == 2);
	CHECK_OK(sc_parse_factor("0.5", &factor, &err), &err);
	CHECK(factor == 0.5);
	CHECK_OK(sc_parse_factor("10x", &factor, &err), &err);
	CHECK(factor == 10);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (sc_parse_factor(bad[i], &factor, &err) != SC_E_USAGE || factor != 10)
			FAIL("factor '%s' was taken", bad[i]);
	/* All of them take a caller that wants no words. */
	CHECK_INT(sc_parse_factor("x", &factor, NULL), SC_E_USAGE);
}
