/*
 * Goal    who writes ws:// for a port that speaks TLS, or wss:// for one that speaks none, is told
 *         what to write, at once where the answer shows it, and with each try where it may be so.
 * Method  a peer that says this or that, or nothing, to whatever comes; as server and as proxy, to
 *         WebSockets and to HTTP (raw).
 */
#include "peer.h"
#include "watcher.h"

static struct peer peer;
static struct watcher w;
static char url[200], proxy[100];
static struct sc_span answer; /* of the peer, to each connection */
static int connections;

#define ALERT "\x15\x03\x01\x00\x02\x02\x0a" /* unexpected_message */

static void script_say(struct peer *p)
{
	for (int i = 0; i < connections; i++) {
		char some[3];

		PEER_CHECK(p, peer_accept(p));
		PEER_CHECK(p, peer_read(p, some, sizeof(some)));
		PEER_CHECK(p, peer_write(p, answer.data, answer.len));
		(void)shutdown(p->conn, SHUT_WR);
		while (!peer_at_end(p))
			;
	}
}

static void begin(void (*script)(struct peer *p), const char *scheme)
{
	peer_start(&peer, script);
	watcher_init(&w);
	w.o.insecure = true;
	snprintf(url, sizeof(url), "%s127.0.0.1:%d/t", scheme, peer.port);
}

static void finish(const char *words, const char *reason, const char *advice)
{
	peer_stop(&peer);
	watcher_done(&w);
	CHECK_STR(w.words, words);
	CHECK_STR(w.reason, reason);
	CHECK_STR(w.advice, advice);
}

/* It is certain: one connection, whatever number of tries is allowed. */
static void certain(const char *scheme, struct sc_span said, const char *reason, const char *advice)
{
	answer = said;
	connections = 1;
	begin(script_say, scheme);
	w.o.retry.tries = -1;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable", reason, advice);
}

/* It may be so: told, and tried again. */
static void doubtful(const char *scheme, const char *reason, const char *advice)
{
	answer = sc_span("", 0);
	connections = 2;
	begin(script_say, scheme);
	w.o.retry.tries = 1;
	watcher_run(&w, url);
	finish("fail:0 fail:0 end:unavailable", reason, advice);
}

TEST(tls_where_none_is_spoken)
{
	struct sc_span http = SC_SPAN("HTTP/1.1 400 Bad Request\r\n\r\n");

	certain("wss://", http, "it speaks no TLS", "write the URL with ws://");
	certain("https://", http, "it speaks no TLS", "write the URL with http://");
	certain("wss://", SC_SPAN("S"), "it speaks no TLS", "write the URL with ws://");
	certain("wss://", SC_SPAN("\x05 no handshake"), "it speaks no TLS",
		"write the URL with ws://");
	doubtful("wss://", "the peer ended the connection without a farewell",
		 "if it speaks no TLS, write the URL with ws://");
}

static void script_wait(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	while (!peer_at_end(p))
		;
}

TEST(a_server_that_waits_for_the_end_of_a_head)
{
	begin(script_wait, "wss://");
	w.o.connect_ms = 50;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable", "50 ms were not enough for TLS",
	       "if it speaks no TLS, write the URL with ws://");
	/* in plain text there is nothing that both would wait for */
	begin(script_wait, "ws://");
	w.o.upgrade_ms = 50;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable", "no answer to the upgrade within 50 ms", "");
}

TEST(an_alert_to_a_handshake_is_tls)
{
	answer = sc_span(ALERT, 7);
	connections = 1;
	begin(script_say, "wss://");
	watcher_run(&w, url);
	CHECK(strstr(w.reason, "alert"));
	finish("fail:0 end:unavailable", w.reason, "");
}

/* What nginx, Apache, Go, Tomcat and we say. */
static const char *const told[] = {
	"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Type: text/html\r\n\r\n"
	"<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>",
	"HTTP/1.1 400 Bad Request\r\nServer: Apache\r\n\r\n<p>Your browser sent a request that "
	"this server could not understand.<br />\nReason: You're speaking plain HTTP to an "
	"SSL-enabled server port.<br />",
	"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
	"HTTP/1.1 400 \r\nContent-Type: text/plain\r\n\r\nBad Request\r\nThis combination of host "
	"and port requires TLS.\r\n",
	"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nthis port speaks TLS: write the URL "
	"with https:// or wss://\n",
};

TEST(plain_text_where_tls_is_spoken)
{
	certain("ws://", sc_span(ALERT, 7), "it speaks TLS", "write the URL with wss://");
	certain("http://", sc_span(ALERT, 7), "it speaks TLS", "write the URL with https://");
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		certain("ws://", sc_span_str(told[i]), "it speaks TLS",
			"write the URL with wss://");
	doubtful("ws://", "the connection ended before the answer to the upgrade",
		 "if it speaks TLS, write the URL with wss://");
}

TEST(other_refusals_are_no_hint)
{
	static const char *const said[] = {
		"HTTP/1.1 400 Bad Request\r\nServer: Apache OpenSSL TLS HTTPS\r\n\r\nno\r\n",
		"HTTP/1.1 400 Bad Request\r\nX-Hint: HTTPS",
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		answer = sc_span_str(said[i]);
		connections = 1;
		begin(script_say, "ws://");
		watcher_run(&w, url);
		CHECK(!strstr(w.reason, "TLS") || strstr(w.reason, "answered 400"));
		finish(i ? "fail:0 end:unavailable" : "fail:400 end:unavailable", w.reason, "");
	}
}

/* A URL that worked is not wrong. */
static void script_changes(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_upgrade(p, ""));
	PEER_CHECK(p, peer_close(p, 1000, ""));
	script_say(p);
}

TEST(a_server_that_spoke_it_before)
{
	answer = sc_span("", 0);
	connections = 2;
	begin(script_changes, "ws://");
	w.o.retry.tries = 2;
	watcher_run(&w, url);
	finish("open lost:1000 fail:0 fail:0 end:unavailable",
	       "the connection ended before the answer to the upgrade", "");
	answer = sc_span(ALERT, 7);
	begin(script_changes, "ws://");
	w.o.retry.tries = 2;
	watcher_run(&w, url);
	finish("open lost:1000 fail:0 fail:0 end:protocol", "it does not begin with HTTP/1.1", "");
}

/* HTTP, on a connection that is open as soon as it is connected. */

static void ask(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open"))
		CHECK_OK(sc_client_send(on->client, SC_SPAN("HEAD / HTTP/1.1\r\n\r\n"), true, &err),
			 &err);
}

static void raw(struct sc_span said, int times, const char *words, const char *reason,
		const char *advice)
{
	answer = said;
	connections = times;
	begin(script_say, "http://");
	w.o.raw = true;
	w.o.retry.tries = times > 1 ? times - 1 : -1;
	w.act = ask;
	watcher_run(&w, url);
	finish(words, reason, advice);
}

TEST(http_in_plain_text_where_tls_is_spoken)
{
	raw(sc_span(ALERT, 7), 1, "open lost:1006 end:unavailable", "it speaks TLS",
	    "write the URL with https://");
	raw(sc_span_str(told[2]), 1, "open lost:1006 end:unavailable", "it speaks TLS",
	    "write the URL with https://");
	raw(sc_span("", 0), 2, "open lost:1006 open lost:1006 end:unavailable",
	    "the server ended it", "if it speaks TLS, write the URL with https://");
	/* not where it is another answer, nor after one */
	raw(SC_SPAN("HTTP/1.1 400 no\r\n\r\n"), 2,
	    "open b:19 lost:1006 open b:19 lost:1006 end:unavailable", "the server ended it", "");
}

/* The peer as a proxy. */

static void through(const char *scheme, struct sc_span said, int times, const char *end,
		    const char *reason, const char *advice)
{
	char words[100];

	answer = said;
	connections = times;
	begin(script_say, "ws://");
	snprintf(proxy, sizeof(proxy), "%s127.0.0.1:%d", scheme, peer.port);
	w.o.proxy = proxy;
	w.o.retry.tries = times > 1 ? times - 1 : -1;
	watcher_run(&w, "ws://feed.example/t");
	snprintf(words, sizeof(words), "%sfail:0 end:%s", times > 1 ? "fail:0 " : "", end);
	finish(words, reason, advice);
}

TEST(proxies)
{
	through("https://", SC_SPAN("HTTP/1.1 400 Bad Request\r\n\r\n"), 1, "unavailable",
		"it speaks no TLS", "write the proxy with http://");
	through("https://", sc_span("", 0), 2, "unavailable",
		"the peer ended the connection without a farewell",
		"if it speaks no TLS, write the proxy with http://");
	through("http://", sc_span(ALERT, 7), 1, "unavailable", "it speaks TLS",
		"write the proxy with https://");
	through("http://", sc_span_str(told[2]), 1, "unavailable", "it speaks TLS",
		"write the proxy with https://");
	through("http://", sc_span("", 0), 2, "unavailable",
		"the connection ended before the proxy's answer",
		"if it speaks TLS, write the proxy with https://");
	through("socks5://", sc_span(ALERT, 7), 2, "protocol", "its answer is not SOCKS5", "");
	through("socks5://", sc_span("", 0), 2, "unavailable",
		"the connection ended before the proxy's answer", "");
}
