/* Goal: URLs and keys mean one thing, and secrets in them are never shown. Method: tables. */
#include "store/place.h"

#include "../check.h"
#include "store/store.h"

static const char *parsed(const char *url)
{
	static char out[1024];
	struct sc_place p;
	struct sc_err err;

	if (sc_place_parse(url, &p, &err) < 0) {
		char line[1200];

		CHECK_INT(err.code, SC_E_USAGE);
		sc_err_line(&err, line, sizeof(line));
		if (strstr(line, "secret"))
			FAIL("the secret is shown: %s", line);
		return "refused";
	}
	snprintf(out, sizeof(out), "%s|%s|%s|%s|%s|%s|%s", p.shown, p.path ? p.path : "-",
		 p.bucket ? p.bucket : "-", p.prefix ? p.prefix : "-", p.base ? p.base : "-",
		 p.query ? p.query : "-", p.user ? p.user : "-");
	sc_place_done(&p);
	return out;
}

TEST(folders)
{
	CHECK_STR(parsed("file:///a/b"), "file:///a/b|/a/b|-|-|-|-|-");
	CHECK_STR(parsed("file:///a%20b/%C3%A9//"), "file:///a%20b/%C3%A9|/a b/\xc3\xa9|-|-|-|-|-");
	CHECK_STR(parsed("FILE://localhost/a"), "file:///a|/a|-|-|-|-|-");
	CHECK_STR(parsed("file:///"), "file:///|/|-|-|-|-|-");
	CHECK_STR(parsed("file://host/a"), "refused");
	CHECK_STR(parsed("file://a"), "refused");
	CHECK_STR(parsed("file:a"), "refused");
	CHECK_STR(parsed("file:///a%2"), "refused");
	CHECK_STR(parsed("file:///a%zz"), "refused");
	CHECK_STR(parsed("file:///a%00b"), "refused");
}

TEST(buckets)
{
	CHECK_STR(parsed("s3://bucket"), "s3://bucket|-|bucket||-|-|-");
	CHECK_STR(parsed("s3://bucket/"), "s3://bucket|-|bucket||-|-|-");
	CHECK_STR(parsed("s3://my.bucket-1/a/b c%20/"),
		  "s3://my.bucket-1/a/b c%20|-|my.bucket-1|a/b c%20|-|-|-");
	CHECK_STR(parsed("s3://Old_Bucket/.hidden"),
		  "s3://Old_Bucket/.hidden|-|Old_Bucket|.hidden|-|-|-");
	CHECK_STR(parsed("s3://"), "refused");
	CHECK_STR(parsed("s3:bucket"), "refused");
	CHECK_STR(parsed("s3:///a"), "refused");
	CHECK_STR(parsed("s3://ab"), "refused");
	CHECK_STR(parsed("s3://a..b"), "refused");
	CHECK_STR(parsed("s3://.bucket"), "refused");
	CHECK_STR(parsed("s3://buck et/a"), "refused");
	CHECK_STR(parsed("s3://user@bucket/a"), "refused");
	CHECK_STR(parsed("s3://bucket/a//b"), "refused");
	CHECK_STR(parsed("s3://bucket/../b"), "refused");
	CHECK_STR(parsed("s3://bucket/a\nb"), "refused");
}

TEST(web_servers)
{
	CHECK_STR(parsed("https://host/a/"), "https://host/a|-|-|-|https://host/a||-");
	CHECK_STR(parsed("HTTP://host:80"), "http://host:80|-|-|-|http://host:80||-");
	CHECK_STR(parsed("https://u:p%40%2F@[::1]:8/a?x=secret"),
		  "https://[::1]:8/a|-|-|-|https://[::1]:8/a|?x=secret|u:p@/");
	CHECK_STR(parsed("https://u:secret@"), "refused");
	CHECK_STR(parsed("https://u:secret%zz@host"), "refused");
	CHECK_STR(parsed("https://u:secret@host/a b"), "refused");
	CHECK_STR(parsed("https://host/a#secret"), "refused");
	CHECK_STR(parsed("https:host"), "refused");
	CHECK_STR(parsed("ftp://u:secret@host"), "refused");
	CHECK_STR(parsed("secret"), "refused");
	CHECK_STR(parsed(""), "refused");
}

TEST(keys)
{
	static const char *const right[] = { "a", "a/b.c/d e", "\xc3\xa9", "a..b", "%2e" };
	static const char *const wrong[] = { "",       "/a",   "a/", "a//b", ".",    "..",
					     "a/../b", "a/.b", ".a", "a\nb", "a\x7f" };
	char large[SC_STORE_KEY_MAX + 2];

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		CHECK_INT(sc_place_check_key(right[i], NULL), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (sc_place_check_key(wrong[i], NULL) != SC_E_USAGE)
			FAIL("taken: '%s'", wrong[i]);
	memset(large, 'a', sizeof(large));
	large[SC_STORE_KEY_MAX] = 0;
	CHECK_INT(sc_place_check_key(large, NULL), 0);
	large[SC_STORE_KEY_MAX] = 'a';
	large[SC_STORE_KEY_MAX + 1] = 0;
	CHECK_INT(sc_place_check_key(large, NULL), SC_E_USAGE);
}

TEST(percent)
{
	struct sc_bytes b;

	sc_bytes_init(&b, 100);
	CHECK_INT(sc_place_encode(&b, SC_SPAN("aZ9-_.~/ +%\xc3"), true), 0);
	CHECK_MEM(b.data, b.len, "aZ9-_.~/%20%2B%25%C3");
	sc_bytes_clear(&b);
	CHECK_INT(sc_place_encode(&b, SC_SPAN("a/b"), false), 0);
	CHECK_MEM(b.data, b.len, "a%2Fb");
	sc_bytes_clear(&b);
	CHECK(sc_place_decode(&b, SC_SPAN("a%2Fb+%2b%C3"), true));
	CHECK_MEM(b.data, b.len, "a/b +\xc3");
	CHECK(!sc_place_decode(&b, SC_SPAN("%4"), true));
	CHECK(!sc_place_decode(&b, SC_SPAN("%"), true));
	CHECK(!sc_place_decode(&b, SC_SPAN("%g0"), true));
	sc_bytes_done(&b);
}

TEST(what_is_a_url)
{
	CHECK(sc_store_is_url("s3://b"));
	CHECK(sc_store_is_url("file:///a"));
	CHECK(sc_store_is_url("gopher://x"));
	CHECK(!sc_store_is_url("data/trades"));
	CHECK(!sc_store_is_url("/data:x"));
	CHECK(!sc_store_is_url("a:/x"));
	CHECK(!sc_store_is_url("data:trades"));
	CHECK(!sc_store_is_url(""));
}
