/*
 * Goal    a URL gives host, port and target as written, names what it refuses, and never shows a
 *         password.
 * Method  tables of texts.
 */
#include "net/url.h"

#include "../check.h"

static struct sc_err err;

static void good(const char *text, const char *where, const char *target, const char *shown)
{
	struct sc_url url;
	char got[300];

	CHECK_OK(sc_url_parse(text, &url, &err), &err);
	sc_url_where(&url, got, sizeof(got));
	CHECK_STR(got, where);
	CHECK_STR(url.target, target);
	CHECK_STR(url.shown, shown);
	sc_url_done(&url);
}

TEST(urls_are_taken_apart)
{
	good("ws://h", "h:80", "/", "ws://h/");
	good("wss://h", "h:443", "/", "wss://h/");
	good("http://h:8/a", "h:8", "/a", "http://h:8/a");
	good("HTTPS://H.Example:443/a?b", "h.example:443", "/a?b", "https://h.example/a?b");
	good("ws://h:/x", "h:80", "/x", "ws://h/x");
	good("ws://h?offset=5", "h:80", "/?offset=5", "ws://h/?offset=5");
	good("ws://[::1]:9/a", "[::1]:9", "/a", "ws://[::1]:9/a");
	good("ws://[fe80::1%25eth0]/", "[fe80::1%eth0]:80", "/", "ws://[fe80::1]/");
	good("ws://u:p%40w@h/a", "h:80", "/a", "ws://h/a");
	good("ws://h/tra%64es/?a=%zz&b=ü", "h:80", "/tra%64es/?a=%zz&b=ü",
	     "ws://h/tra%64es/?a=%zz&b=ü");
	good("ws://h//a/../b", "h:80", "//a/../b", "ws://h//a/../b");
	good("wss://h/s?a=1&listenKey=abc&x", "h:443", "/s?a=1&listenKey=abc&x",
	     "wss://h/s?a=1&listenKey=***&x");
	good("ws+unix:/run/s:/t?o=1", "unix:/run/s", "/t?o=1", "ws+unix:/run/s:/t?o=1");
	good("ws+unix:///run/s", "unix:/run/s", "/", "ws+unix:/run/s:/");
}

TEST(users_are_decoded)
{
	struct sc_url url;

	CHECK_OK(sc_url_parse("ws://a%20b:p%3aw%25@h", &url, &err), &err);
	CHECK_STR(url.user, "a b");
	CHECK_STR(url.password, "p:w%");
	sc_url_done(&url);
	CHECK_OK(sc_url_parse("ws://u@h", &url, &err), &err);
	CHECK_STR(url.user, "u");
	CHECK(url.password == NULL);
	sc_url_done(&url);
}

TEST(host_headers)
{
	static const char *const cases[][2] = {
		{ "ws://h:80/", "h" },           { "ws://h:443/", "h:443" },
		{ "wss://h:443/", "h" },         { "ws://[fe80::1%25e0]:8/", "[fe80::1]:8" },
		{ "ws+unix:/s:/", "localhost" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sc_bytes b;
		struct sc_url url;

		sc_bytes_init(&b, 1000);
		CHECK_OK(sc_url_parse(cases[i][0], &url, &err), &err);
		CHECK_INT(sc_url_put_host(&url, &b), 0);
		CHECK_MEM(b.data, b.len, cases[i][1]);
		sc_bytes_done(&b);
		sc_url_done(&url);
	}
}

TEST(refusals_name_the_part)
{
	static const char *const cases[][2] = {
		{ "h:80/x", "does not begin with ws://" },
		{ "ftp://h", "does not begin with ws://" },
		{ "ws://", "names no host" },
		{ "ws:///x", "names no host" },
		{ "ws://h:0", "port" },
		{ "ws://h:65536", "port" },
		{ "ws://h:1x", "port" },
		{ "ws://[::1", "brackets" },
		{ "ws://[::1]x", "brackets" },
		{ "ws://[h]/", "IPv6" },
		{ "ws://h/a b", "blank" },
		{ "ws://h/a\r\nX: y", "blank" },
		{ "ws://h/a#b", "fragment" },
		{ "ws://h\xc3\xbc/", "ASCII" },
		{ "ws://h%41/", "character" },
		{ "ws://u%:p@h/", "broken %XX" },
		{ "ws://u%00@h/", "broken %XX" },
		{ "ws://u%3a@h/", "':'" },
		{ "ws+unix::/x", "names no socket" },
		{ "ws+unix:/"
		  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		  "aaaaaa"
		  "aaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  "longer than 107" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct sc_url url;

		CHECK_INT(sc_url_parse(cases[i][0], &url, &err), SC_E_USAGE);
		if (!strstr(err.reason, cases[i][1]))
			FAIL("'%s': '%s' without '%s'", cases[i][0], err.reason, cases[i][1]);
	}
}

TEST(a_refused_url_does_not_show_its_password)
{
	struct sc_url url;
	char line[1400];

	CHECK_INT(sc_url_parse("ws://joe:hunter2@h:99999/", &url, &err), SC_E_USAGE);
	sc_err_line(&err, line, sizeof(line));
	CHECK(!strstr(line, "hunter2") && !strstr(line, "joe"));
}
