/*
 * base64_test: both alphabets, there and back, and what is strictly none of them.
 */
#include "base/base64.h"

#include "../check.h"
#include "base/err.h"

static void both_ways(const char *data, size_t len, const char *standard, const char *url)
{
	struct sc_bytes out;

	sc_bytes_init(&out, 4096);
	CHECK(sc_base64_put(&out, sc_span(data, len)) == 0);
	CHECK_MEM(out.data, out.len, standard);
	sc_bytes_clear(&out);
	CHECK(sc_base64_get(&out, sc_span_str(standard)) == 0);
	CHECK(out.len == len && (!len || memcmp(out.data, data, len) == 0));
	sc_bytes_clear(&out);
	CHECK(sc_base64url_put(&out, sc_span(data, len)) == 0);
	CHECK_MEM(out.data, out.len, url);
	sc_bytes_clear(&out);
	CHECK(sc_base64url_get(&out, sc_span_str(url)) == 0);
	CHECK(out.len == len && (!len || memcmp(out.data, data, len) == 0));
	sc_bytes_done(&out);
}

TEST(there_and_back)
{
	both_ways("", 0, "", "");
	both_ways("f", 1, "Zg==", "Zg");
	both_ways("fo", 2, "Zm8=", "Zm8");
	both_ways("foo", 3, "Zm9v", "Zm9v");
	both_ways("foobar", 6, "Zm9vYmFy", "Zm9vYmFy");
	both_ways("\xfb\xff\xfe", 3, "+//+", "-__-");
	both_ways("\xff\xff\xff\xff", 4, "/////w==", "_____w");
}

TEST(what_is_none_is_refused)
{
	static const char *const bad_url[] = { "Z",     "Zg==", "Zm8=",  "Zh",   "Zm9",
					       "+//+",  "a b_", "Zm9vZ", "====", "Z\n",
					       "Zm9v=", "Zg=",  "/w" };
	static const char *const bad[] = {
		"Zg", "Zh==", "Zm9=", "-__-", "Zg==Zg==", "Z===", "Zm9v "
	};
	struct sc_bytes out;

	sc_bytes_init(&out, 4096);
	CHECK(sc_bytes_puts(&out, "x") == 0);
	for (size_t i = 0; i < sizeof(bad_url) / sizeof(*bad_url); i++)
		if (sc_base64url_get(&out, sc_span_str(bad_url[i])) != SC_E_DATA)
			FAIL("'%s' is taken", bad_url[i]);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (sc_base64_get(&out, sc_span_str(bad[i])) != SC_E_DATA)
			FAIL("'%s' is taken", bad[i]);
	CHECK_MEM(out.data, out.len, "x");
	sc_bytes_done(&out);
}
