/* net/proxy.c: see net/proxy.h. */
#include "net/proxy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "net/basic.h"
#include "net/httphead.h"

#define HEAD_MAX 16384

enum { STEP_HTTP, STEP_SOCKS_METHOD, STEP_SOCKS_AUTH, STEP_SOCKS_REPLY };

void sc_proxy_done(struct sc_proxy *proxy)
{
	sc_url_done(&proxy->url);
	proxy->kind = SC_PROXY_NONE;
}

/* The proxy's URL goes through the URL parser under a scheme that it knows. */
static int parse_as(struct sc_proxy *proxy, const char *scheme, const char *rest,
		    struct sc_err *err)
{
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, 65536);
	if (sc_bytes_putf(&text, "%s%s", scheme, rest) < 0)
		rc = sc_err_nomem(err, "cannot use the proxy");
	else
		rc = sc_url_parse(sc_bytes_str(&text), &proxy->url, err);
	if (text.data)
		explicit_bzero(text.data, text.len);
	sc_bytes_done(&text);
	return rc;
}

/* USER@[HOST]:PORT/: is there a port? */
static bool has_port(const char *authority)
{
	size_t len = strcspn(authority, "/?#");
	const char *end = authority + len, *colon = memrchr(authority, ':', len);

	return colon && !memchr(colon, ']', (size_t)(end - colon)) &&
	       !memchr(colon, '@', (size_t)(end - colon)) && colon + 1 < end;
}

int sc_proxy_parse(const char *text, struct sc_proxy *ret_proxy, struct sc_err *err)
{
	static const struct {
		const char *scheme, *as;
		enum sc_proxy_kind kind;
		uint16_t port;
	} kinds[] = {
		{ "http://", "ws://", SC_PROXY_HTTP, 8080 },
		{ "https://", "wss://", SC_PROXY_HTTP, 443 },
		{ "socks5://", "ws://", SC_PROXY_SOCKS5, 1080 },
		{ "socks5h://", "ws://", SC_PROXY_SOCKS5, 1080 },
		{ "socks://", "ws://", SC_PROXY_SOCKS5, 1080 },
	};
	struct sc_proxy proxy = { 0 };
	size_t k = 0;
	const char *rest = text;
	int rc;

	if (!*text) {
		*ret_proxy = proxy;
		return 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncasecmp(text, kinds[i].scheme, strlen(kinds[i].scheme))) {
			k = i;
			rest = text + strlen(kinds[i].scheme);
			break;
		}
	if (rest == text && strstr(text, "://"))
		return sc_err_set(err, SC_E_USAGE, "cannot use the proxy",
				  "its scheme is not one of http, https, socks5"
				  " and socks5h");
	rc = parse_as(&proxy, kinds[k].as, rest, err);
	if (rc < 0) {
		if (err)
			snprintf(err->tried, sizeof(err->tried), "cannot use the proxy");
		return rc;
	}
	if (!has_port(rest))
		proxy.url.port = kinds[k].port;
	proxy.kind = kinds[k].kind;
	if (proxy.kind == SC_PROXY_SOCKS5 && proxy.url.user &&
	    (strlen(proxy.url.user) > 255 ||
	     (proxy.url.password && strlen(proxy.url.password) > 255))) {
		sc_proxy_done(&proxy);
		return sc_err_set(err, SC_E_USAGE, "cannot use the proxy",
				  "SOCKS5 takes a user and a password of 255"
				  " bytes each");
	}
	*ret_proxy = proxy;
	return 0;
}

/* The address in 16 bytes, IPv4 mapped; false when the text is a name. */
static bool to_address(const char *text, unsigned char ret_address[16])
{
	static const unsigned char mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (inet_pton(AF_INET, text, ret_address + 12) == 1) {
		memcpy(ret_address, mapped, 12);
		return true;
	}
	return inet_pton(AF_INET6, text, ret_address) == 1;
}

static bool in_network(const char *host, const char *network, const char *bits_text)
{
	unsigned char a[16], b[16];
	uint64_t bits;

	if (!to_address(host, a) || !to_address(network, b) ||
	    !sc_u64_parse(sc_span_str(bits_text), &bits))
		return false;
	if (!strchr(network, ':'))
		bits += 96;
	if (bits > 128)
		return false;
	for (size_t i = 0; i < 16; i++) {
		unsigned left = bits > 8 * i ? (unsigned)(bits - 8 * i) : 0;
		unsigned char mask = left >= 8 ? 0xff : (unsigned char)(0xff00 >> left);

		if ((a[i] ^ b[i]) & mask)
			return false;
	}
	return true;
}

/* One entry of no_proxy: "*", name, .name, name:port, address, [address]:port, network/bits. */
static bool entry_matches(const struct sc_url *target, char *entry)
{
	char *slash = strchr(entry, '/'), *colon = NULL;
	size_t host_len = strlen(target->host), len;
	unsigned char a[16], b[16];

	if (!strcmp(entry, "*"))
		return true;
	if (slash) {
		*slash = '\0';
		return in_network(target->host, entry, slash + 1);
	}
	if (*entry == '[') {
		char *close = strchr(entry, ']');

		if (!close)
			return false;
		colon = close[1] == ':' ? close + 1 : NULL;
		*close = '\0';
		entry++;
	} else if (strchr(entry, ':') == strrchr(entry, ':')) {
		colon = strchr(entry, ':');
	}
	if (colon) {
		uint64_t port;

		if (!sc_u64_parse(sc_span_str(colon + 1), &port) || port != target->port)
			return false;
		*colon = '\0';
	}
	if (to_address(entry, a))
		return to_address(target->host, b) && !memcmp(a, b, 16);
	if (*entry == '*' && entry[1] == '.')
		entry++;
	if (*entry == '.')
		entry++;
	len = strlen(entry);
	if (len == 0 || len > host_len || strcasecmp(target->host + host_len - len, entry))
		return false;
	return len == host_len || target->host[host_len - len - 1] == '.';
}

bool sc_proxy_excluded(const struct sc_url *target, const char *no_proxy)
{
	char entry[512];

	while (*no_proxy) {
		size_t len;

		no_proxy += strspn(no_proxy, ", \t");
		len = strcspn(no_proxy, ", \t");
		if (len && len < sizeof(entry)) {
			memcpy(entry, no_proxy, len);
			entry[len] = '\0';
			if (entry_matches(target, entry))
				return true;
		}
		no_proxy += len;
	}
	return false;
}

static bool this_machine(const struct sc_url *target)
{
	size_t len = strlen(target->host);

	return target->socket || !strcmp(target->host, "localhost") ||
	       !strcmp(target->host, "::1") || in_network(target->host, "127.0.0.0", "8") ||
	       (len > 10 && !strcmp(target->host + len - 10, ".localhost"));
}

static const char *env(const char *lower, const char *upper)
{
	const char *value = getenv(lower);

	if (!value || !*value)
		value = upper ? getenv(upper) : NULL;
	return value && *value ? value : NULL;
}

int sc_proxy_from_env(const struct sc_url *target, struct sc_proxy *ret_proxy, struct sc_err *err)
{
	const char *except = env("no_proxy", "NO_PROXY");
	/* HTTP_PROXY is left alone: a CGI program would take it from its client's "Proxy:"
	 * header. */
	const char *text = target->tls ? env("https_proxy", "HTTPS_PROXY")
				       : env("http_proxy", NULL);

	if (!text)
		text = env("all_proxy", "ALL_PROXY");
	if (!text || this_machine(target) || (except && sc_proxy_excluded(target, except))) {
		memset(ret_proxy, 0, sizeof(*ret_proxy));
		return 0;
	}
	return sc_proxy_parse(text, ret_proxy, err);
}

static int fail(struct sc_proxy_talk *t, int code, struct sc_err *err, const char *reason)
{
	char where[300];

	sc_url_where(&t->proxy->url, where, sizeof(where));
	sc_err_set(err, code, "cannot connect through", "%s", reason);
	return sc_err_on(err, "proxy", where);
}

static int begin_http(struct sc_proxy_talk *t)
{
	const struct sc_url *p = &t->proxy->url;
	const char *form = strchr(t->host, ':') ? "[%.*s]:%u" : "%.*s:%u";
	int len = (int)strcspn(t->host, "%"), rc;

	t->step = STEP_HTTP;
	rc = sc_bytes_puts(&t->out, "CONNECT ");
	for (int i = 0; i < 2 && rc == 0; i++) {
		rc = sc_bytes_putf(&t->out, form, len, t->host, t->port);
		if (rc == 0)
			rc = sc_bytes_puts(&t->out, i == 0 ? " HTTP/1.1\r\nHost: " : "\r\n");
	}
	if (rc == 0 && p->user) {
		rc = sc_bytes_puts(&t->out, "Proxy-Authorization: ");
		if (rc == 0)
			rc = sc_basic_put(&t->out, p->user, p->password);
		if (rc == 0)
			rc = sc_bytes_puts(&t->out, "\r\n");
	}
	return rc < 0 ? rc : sc_bytes_puts(&t->out, "\r\n");
}

int sc_proxy_begin(struct sc_proxy_talk *t, const struct sc_proxy *proxy, const char *host,
		   uint16_t port, struct sc_err *err)
{
	int rc;

	memset(t, 0, sizeof(*t));
	t->proxy = proxy;
	t->host = host;
	t->port = port;
	sc_bytes_init(&t->out, 1 << 20);
	sc_bytes_init(&t->in, HEAD_MAX);
	if (proxy->kind == SC_PROXY_HTTP) {
		rc = begin_http(t);
	} else if (strcspn(host, "%") > 255) {
		return fail(t, SC_E_CONFIG, err, "SOCKS5 takes a host's name of 255 bytes");
	} else {
		t->step = STEP_SOCKS_METHOD;
		rc = proxy->url.user ? sc_bytes_put(&t->out, "\5\2\0\2", 4)
				     : sc_bytes_put(&t->out, "\5\1\0", 3);
	}
	return rc < 0 ? sc_err_nomem(err, "cannot ask the proxy") : 0;
}

void sc_proxy_talk_done(struct sc_proxy_talk *t)
{
	if (t->out.data)
		explicit_bzero(t->out.data, t->out.cap);
	sc_bytes_done(&t->out);
	sc_bytes_done(&t->in);
}

static int feed_http(struct sc_proxy_talk *t, size_t *ret_head, struct sc_err *err)
{
	struct sc_httphead head;
	char reason[200];
	int64_t n = sc_httphead_parse(t->in.data, t->in.len, HEAD_MAX, &head, err);

	if (n < 0)
		return fail(t, (int)n, err, "its answer is not HTTP");
	if (n == 0)
		return 0;
	*ret_head = (size_t)n;
	if (head.status >= 200 && head.status < 300)
		return 1;
	snprintf(reason, sizeof(reason), "it answered %d %.*s", head.status,
		 (int)(head.reason.len < 100 ? head.reason.len : 100), head.reason.data);
	if (head.status == 407) {
		fail(t, SC_E_NOAUTH, err, reason);
		return sc_err_next(err,
				   "give its user and password as http://USER:PASSWORD@HOST:PORT");
	}
	return fail(t, SC_E_UNAVAILABLE, err, reason);
}

static int socks_request(struct sc_proxy_talk *t)
{
	unsigned char address[16];
	char head[5] = { 5, 1, 0, 0, 0 };
	char port[2] = { (char)(t->port >> 8), (char)t->port };
	size_t len = strcspn(t->host, "%");
	int rc;

	t->step = STEP_SOCKS_REPLY;
	if (inet_pton(AF_INET, t->host, address) == 1) {
		head[3] = 1;
		rc = sc_bytes_put(&t->out, head, 4);
		rc = rc < 0 ? rc : sc_bytes_put(&t->out, address, 4);
	} else if (inet_pton(AF_INET6, t->host, address) == 1) {
		head[3] = 4;
		rc = sc_bytes_put(&t->out, head, 4);
		rc = rc < 0 ? rc : sc_bytes_put(&t->out, address, 16);
	} else {
		head[3] = 3;
		head[4] = (char)(unsigned char)len;
		rc = sc_bytes_put(&t->out, head, 5);
		rc = rc < 0 ? rc : sc_bytes_put(&t->out, t->host, len);
	}
	return rc < 0 ? rc : sc_bytes_put(&t->out, port, 2);
}

static int socks_auth(struct sc_proxy_talk *t)
{
	const char *texts[2] = { t->proxy->url.user,
				 t->proxy->url.password ? t->proxy->url.password : "" };
	int rc = sc_bytes_putc(&t->out, 1);

	for (int i = 0; i < 2 && rc == 0; i++) {
		rc = sc_bytes_putc(&t->out, (char)(unsigned char)strlen(texts[i]));
		if (rc == 0)
			rc = sc_bytes_puts(&t->out, texts[i]);
	}
	t->step = STEP_SOCKS_AUTH;
	return rc;
}

/* How long the answer of this step is, as far as the bytes tell. */
static size_t socks_need(const struct sc_proxy_talk *t)
{
	const unsigned char *p = (const unsigned char *)t->in.data;

	if (t->step != STEP_SOCKS_REPLY)
		return 2;
	if (t->in.len < 5)
		return 5;
	return p[3] == 1 ? 10 : p[3] == 4 ? 22 : 7 + (size_t)p[4];
}

static int socks_answer(struct sc_proxy_talk *t, struct sc_err *err)
{
	static const char *const replies[] = {
		"",
		"it failed",
		"its rules forbid the connection",
		"it cannot reach the network",
		"it cannot reach the host",
		"the host refused the connection",
		"the time to live ran out",
		"it does not know the command",
		"it does not know the kind of address",
	};
	const unsigned char *p = (const unsigned char *)t->in.data;
	int rc = 0;

	if (p[0] != (t->step == STEP_SOCKS_AUTH ? 1 : 5))
		return fail(t, SC_E_PROTOCOL, err, "its answer is not SOCKS5");
	if (t->step == STEP_SOCKS_METHOD) {
		if (p[1] == 0xff || (p[1] == 2 && !t->proxy->url.user)) {
			fail(t, SC_E_NOAUTH, err, "it takes none of our ways to log in");
			return sc_err_next(
				err,
				"give its user and password as socks5://USER:PASSWORD@HOST:PORT");
		}
		if (p[1] != 0 && p[1] != 2)
			return fail(t, SC_E_PROTOCOL, err,
				    "it chose a way to log in that was not offered");
		rc = p[1] == 2 ? socks_auth(t) : socks_request(t);
	} else if (t->step == STEP_SOCKS_AUTH) {
		if (p[1] != 0)
			return fail(t, SC_E_NOAUTH, err, "it refused the user or the password");
		rc = socks_request(t);
	} else {
		if (p[1] != 0)
			return fail(t, SC_E_UNAVAILABLE, err,
				    p[1] < 9 ? replies[p[1]] : "it refused");
		if (p[3] != 1 && p[3] != 3 && p[3] != 4)
			return fail(t, SC_E_PROTOCOL, err, "its answer is not SOCKS5");
		return 1;
	}
	return rc < 0 ? sc_err_nomem(err, "cannot ask the proxy") : 0;
}

int sc_proxy_feed(struct sc_proxy_talk *t, const char *data, size_t len, size_t *ret_used,
		  struct sc_err *err)
{
	size_t at = 0, before, head = 0;
	int rc = 0;

	*ret_used = len;
	if (t->step == STEP_HTTP) {
		before = t->in.len;
		if (len > HEAD_MAX - before)
			len = HEAD_MAX - before;
		if (sc_bytes_put(&t->in, data, len) < 0)
			return sc_err_nomem(err, "cannot ask the proxy");
		rc = feed_http(t, &head, err);
		if (rc == 1)
			*ret_used = head - before;
		return rc;
	}
	while (rc == 0 && at < len) {
		if (sc_bytes_putc(&t->in, data[at++]) < 0)
			return sc_err_nomem(err, "cannot ask the proxy");
		if (t->in.len < socks_need(t))
			continue;
		rc = socks_answer(t, err);
		sc_bytes_clear(&t->in);
	}
	*ret_used = at;
	return rc;
}
