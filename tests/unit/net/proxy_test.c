/*
 * Goal    the right proxy is chosen, and what is said to it is right to the byte.
 * Method  tables; the environment of this process; answers given whole and byte by byte.
 */
#include "net/proxy.h"

#include "../check.h"

static struct sc_err err;

static void clear_env(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "HTTPS_PROXY",
					     "HTTP_PROXY", "all_proxy",   "ALL_PROXY",
					     "no_proxy",   "NO_PROXY" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unsetenv(names[i]);
}

static bool excluded(const char *target, const char *list)
{
	struct sc_url url;
	bool yes;

	CHECK_OK(sc_url_parse(target, &url, &err), &err);
	yes = sc_proxy_excluded(&url, list);
	sc_url_done(&url);
	return yes;
}

TEST(no_proxy)
{
	CHECK(excluded("ws://a.example", "*"));
	CHECK(excluded("ws://a.example", "b.example, a.example"));
	CHECK(excluded("ws://a.example", ".example"));
	CHECK(excluded("ws://a.example", "*.example"));
	CHECK(excluded("ws://x.a.example", "a.example"));
	CHECK(!excluded("ws://ba.example", "a.example"));
	CHECK(excluded("ws://a.example:81", "a.example:81"));
	CHECK(!excluded("ws://a.example:82", "a.example:81"));
	CHECK(excluded("ws://10.1.2.3", "10.0.0.0/8"));
	CHECK(!excluded("ws://11.1.2.3", "10.0.0.0/8"));
	CHECK(!excluded("ws://10.1.2.3", "10.1.2.4"));
	CHECK(excluded("ws://[fd00::5]", "fd00::/8"));
	CHECK(excluded("ws://[fd00::5]:9", "[fd00:0::5]:9"));
	CHECK(!excluded("ws://a.example", ""));
	CHECK(!excluded("ws://a.example", ",, /8 [ :"));
}

static void chosen(const char *target, const char *want)
{
	struct sc_proxy proxy;
	struct sc_url url;
	char got[300] = "none";

	CHECK_OK(sc_url_parse(target, &url, &err), &err);
	CHECK_OK(sc_proxy_from_env(&url, &proxy, &err), &err);
	if (proxy.kind)
		sc_url_where(&proxy.url, got, sizeof(got));
	CHECK_STR(got, want);
	sc_proxy_done(&proxy);
	sc_url_done(&url);
}

TEST(the_environment_chooses)
{
	clear_env();
	chosen("wss://h", "none");
	setenv("https_proxy", "http://s:1", 1);
	setenv("http_proxy", "p", 1);
	setenv("HTTP_PROXY", "evil:1", 1);
	chosen("wss://h", "s:1");
	chosen("ws://h", "p:8080");
	unsetenv("http_proxy");
	chosen("ws://h", "none");
	setenv("ALL_PROXY", "socks5h://[::1]", 1);
	chosen("ws://h", "[::1]:1080");
	chosen("ws://127.0.0.1", "none");
	chosen("ws://localhost", "none");
	chosen("ws://[::1]", "none");
	setenv("no_proxy", "h", 1);
	chosen("wss://h", "none");
	clear_env();
}

TEST(proxies_that_cannot_be_used)
{
	struct sc_proxy proxy;
	char line[1400];

	CHECK_INT(sc_proxy_parse("ftp://h", &proxy, &err), SC_E_USAGE);
	CHECK_INT(sc_proxy_parse("http://u:secret@h:0", &proxy, &err), SC_E_USAGE);
	sc_err_line(&err, line, sizeof(line));
	CHECK(!strstr(line, "secret"));
	CHECK_OK(sc_proxy_parse("", &proxy, &err), &err);
	CHECK_INT(proxy.kind, SC_PROXY_NONE);
}

/* Say ANSWERS in turn (each after something was asked); all that was asked is in GOT. */
static int talk(const char *proxy_url, const char *host, const char *const *answers,
		const size_t *lens, size_t count, size_t step, struct sc_bytes *got)
{
	struct sc_proxy_talk t;
	struct sc_proxy proxy;
	int rc = 0;

	CHECK_OK(sc_proxy_parse(proxy_url, &proxy, &err), &err);
	CHECK_OK(sc_proxy_begin(&t, &proxy, host, 443, &err), &err);
	sc_bytes_clear(got);
	for (size_t i = 0; i < count && rc == 0; i++) {
		CHECK(t.out.len > 0);
		sc_bytes_put(got, t.out.data, t.out.len);
		sc_bytes_clear(&t.out);
		for (size_t at = 0; at < lens[i] && rc == 0;) {
			size_t n = lens[i] - at < step ? lens[i] - at : step, used;

			rc = sc_proxy_feed(&t, answers[i] + at, n, &used, &err);
			at += used;
			if (rc == 1)
				CHECK_INT(at, lens[i]);
		}
	}
	sc_proxy_talk_done(&t);
	sc_proxy_done(&proxy);
	return rc;
}

/* SOCKS answers hold NULs: their length follows from what they are. */
static size_t answer_len(const char *a)
{
	if (a[0] == 'H')
		return strlen(a);
	if (a[0] == 1 || a[1] == 2 || (a[1] == 0 && a[2] == '$') || (unsigned char)a[1] == 0xff)
		return 2;
	return a[3] == 1 ? 10 : a[3] == 4 ? 22 : 7 + (size_t)(unsigned char)a[4];
}

static void check_talk(const char *url, const char *host, int rc, const char *want, size_t want_len,
		       const char *const *answers, size_t count)
{
	size_t lens[4];
	struct sc_bytes got;

	for (size_t i = 0; i < count; i++)
		lens[i] = answer_len(answers[i]);
	sc_bytes_init(&got, 10000);
	for (size_t step = 1; step < 100; step += 7) {
		CHECK_INT(talk(url, host, answers, lens, count, step, &got), rc);
		CHECK_INT(got.len, want_len);
		CHECK(!memcmp(got.data, want, want_len));
	}
	sc_bytes_done(&got);
}

#define TALK(URL, HOST, RC, WANT, WANT_LEN, ...) \
	check_talk(URL, HOST, RC, WANT, WANT_LEN, (const char *const[]){ __VA_ARGS__ }, \
		   sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

TEST(http_connect)
{
	static const char plain[] = "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n";
	static const char user[] = "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"
				   "Proxy-Authorization: Basic dTpwQHc=\r\n\r\n";

	TALK("http://p", "h", 1, plain, sizeof(plain) - 1,
	     "HTTP/1.1 200 Connected\r\nA: b\r\n\r\n");
	TALK("http://u:p%40w@p", "::1", 1, user, sizeof(user) - 1, "HTTP/1.0 200 OK\r\n\r\n");
	TALK("http://p", "h", SC_E_NOAUTH, plain, sizeof(plain) - 1, "HTTP/1.1 407 Who\r\n\r\n");
	TALK("http://p", "h", SC_E_UNAVAILABLE, plain, sizeof(plain) - 1,
	     "HTTP/1.1 502 Bad Gateway\r\n\r\n");
	CHECK(strstr(err.reason, "502 Bad Gateway"));
}

TEST(socks5)
{
	TALK("socks5://p", "h.x", 1, "\5\1\0\5\1\0\3\3h.x\1\xbb", 13, "\5\0$",
	     "\5\0\0\1\1\2\3\4\5\6");
	TALK("socks5://p", "127.0.0.1", 1, "\5\1\0\5\1\0\1\x7f\0\0\1\1\xbb", 13, "\5\0$",
	     "\5\0\0\3\2ab\0\0");
	TALK("socks5h://u:pw@p", "h.x", 1, "\5\2\0\2\1\1u\2pw\5\1\0\3\3h.x\1\xbb", 20, "\5\2",
	     "\1\0", "\5\0\0\1\1\2\3\4\5\6");
	TALK("socks5h://u:pw@p", "h.x", SC_E_NOAUTH, "\5\2\0\2\1\1u\2pw", 10, "\5\2", "\1\1");
	TALK("socks5://p", "h.x", SC_E_NOAUTH, "\5\1\0", 3, "\5\xff");
	TALK("socks5://p", "h.x", SC_E_UNAVAILABLE, "\5\1\0\5\1\0\3\3h.x\1\xbb", 13, "\5\0$",
	     "\5\5\0\1\1\2\3\4\5\6");
	CHECK(strstr(err.reason, "refused the connection"));
}

TEST(socks5_has_one_byte_for_the_length_of_a_name)
{
	struct sc_proxy_talk t;
	struct sc_proxy proxy;
	char host[257];

	memset(host, 'h', sizeof(host));
	CHECK_OK(sc_proxy_parse("socks5://p", &proxy, &err), &err);
	for (size_t len = 255; len < 257; len++) {
		host[len] = 0;
		CHECK_INT(sc_proxy_begin(&t, &proxy, host, 443, &err), len > 255 ? SC_E_CONFIG : 0);
		sc_proxy_talk_done(&t);
		host[len] = 'h';
	}
	CHECK(strstr(err.reason, "255 bytes"));
	sc_proxy_done(&proxy);
}
