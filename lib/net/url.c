/* net/url.c: see net/url.h. */
#include "net/url.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/un.h>

#include "base/file.h"

#define URL_MAX 65536

static char *copy(struct sc_span text)
{
	char *s = sc_malloc(text.len + 1);

	if (!s)
		return NULL;
	if (text.len)
		memcpy(s, text.data, text.len);
	s[text.len] = '\0';
	return s;
}

static int refuse(struct sc_err *err, const char *reason)
{
	return sc_err_set(err, SC_E_USAGE, "cannot use the URL", "%s", reason);
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int sc_url_decode(struct sc_span text, char **ret_text)
{
	char *s = sc_malloc(text.len + 1);
	size_t n = 0;

	if (!s)
		return SC_E_NOMEM;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '%') {
			bool whole = text.len - i > 2;
			int high = whole ? hex(text.data[i + 1]) : -1;
			int low = whole ? hex(text.data[i + 2]) : -1;

			if (high < 0 || low < 0 || high + low == 0) {
				free(s);
				return SC_E_USAGE;
			}
			c = (char)(high << 4 | low);
			i += 2;
		}
		s[n++] = c;
	}
	s[n] = '\0';
	*ret_text = s;
	return 0;
}

/* Values of keys that look secret are hidden; everything else helps whoever reads the message. */
static bool secret_key(struct sc_span key)
{
	static const char *const words[] = { "token", "key", "secret", "pass", "sig", "auth" };

	for (size_t w = 0; w < sizeof(words) / sizeof(*words); w++) {
		size_t n = strlen(words[w]);

		for (size_t i = 0; i + n <= key.len; i++)
			if (!strncasecmp(key.data + i, words[w], n))
				return true;
	}
	return false;
}

static int put_query_shown(struct sc_bytes *out, const char *query)
{
	int rc = 0;

	while (*query && rc == 0) {
		size_t len = strcspn(query, "&");
		const char *eq = memchr(query, '=', len);

		if (eq && secret_key(sc_span(query, (size_t)(eq - query)))) {
			rc = sc_bytes_put(out, query, (size_t)(eq - query) + 1);
			if (rc == 0)
				rc = sc_bytes_puts(out, "***");
		} else {
			rc = sc_bytes_put(out, query, len);
		}
		query += len;
		if (*query == '&' && rc == 0) {
			rc = sc_bytes_putc(out, '&');
			query++;
		}
	}
	return rc;
}

static int make_shown(struct sc_url *url)
{
	struct sc_bytes out;
	const char *query = strchr(url->target, '?');
	size_t path_len = query ? (size_t)(query - url->target) + 1 : strlen(url->target);
	int rc;

	sc_bytes_init(&out, 4 * URL_MAX);
	rc = sc_bytes_puts(&out, url->scheme);
	if (rc == 0)
		rc = url->socket ? sc_bytes_putf(&out, "%s:", url->socket)
				 : sc_url_put_host(url, &out);
	if (rc == 0)
		rc = sc_bytes_put(&out, url->target, path_len);
	if (rc == 0 && query)
		rc = put_query_shown(&out, query + 1);
	if (rc == 0)
		url->shown = copy(sc_span(out.data, out.len));
	sc_bytes_done(&out);
	return url->shown ? 0 : SC_E_NOMEM;
}

static int take_target(struct sc_url *url, const char *text, struct sc_err *err)
{
	for (const char *p = text; *p; p++) {
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return refuse(err,
				      "it holds a blank or a control character; write it as %XX");
		if (*p == '#')
			return refuse(err,
				      "a WebSocket URL has no #fragment; write the '#' as %23");
	}
	if (*text == '/') {
		url->target = copy(sc_span_str(text));
	} else {
		url->target = sc_malloc(strlen(text) + 2);
		if (url->target) {
			url->target[0] = '/';
			memcpy(url->target + 1, text, strlen(text) + 1);
		}
	}
	return url->target ? 0 : sc_err_nomem(err, "cannot use the URL");
}

static int take_user(struct sc_url *url, struct sc_span info, struct sc_err *err)
{
	const char *colon = memchr(info.data, ':', info.len);
	size_t user_len = colon ? (size_t)(colon - info.data) : info.len;
	int rc = sc_url_decode(sc_span(info.data, user_len), &url->user);

	if (rc == 0 && colon)
		rc = sc_url_decode(sc_span(colon + 1, info.len - user_len - 1), &url->password);
	if (rc == SC_E_NOMEM)
		return sc_err_nomem(err, "cannot use the URL");
	if (rc < 0)
		return refuse(err, "the user or password holds a broken %XX");
	if (url->user && strchr(url->user, ':'))
		return refuse(err, "a user name with a ':' cannot be sent");
	return 0;
}

static int take_port(struct sc_url *url, struct sc_span text, struct sc_err *err)
{
	uint64_t port;

	if (text.len == 0)
		return 0; /* "host:" is the scheme's own port */
	if (!sc_u64_parse(text, &port) || port < 1 || port > 65535)
		return refuse(err, "the port must be a number from 1 to 65535");
	url->port = (uint16_t)port;
	return 0;
}

/* "[fe80::1%25eth0]": brackets off; the zone's '%25' becomes what getaddrinfo takes. */
static int take_ipv6(struct sc_url *url, struct sc_span text, struct sc_err *err)
{
	size_t n = 0;

	url->host = sc_malloc(text.len + 1);
	if (!url->host)
		return sc_err_nomem(err, "cannot use the URL");
	for (size_t i = 0; i < text.len; i++) {
		url->host[n++] = text.data[i];
		if (text.data[i] == '%' && text.len - i > 2 && !memcmp(text.data + i, "%25", 3))
			i += 2;
	}
	url->host[n] = '\0';
	if (strspn(url->host, "0123456789abcdefABCDEF:.") < strcspn(url->host, "%") ||
	    !strchr(url->host, ':'))
		return refuse(err, "what stands in [ ] is not an IPv6 address");
	return 0;
}

static int take_name(struct sc_url *url, struct sc_span text, struct sc_err *err)
{
	if (text.len == 0)
		return refuse(err, "it names no host");
	url->host = copy(text);
	if (!url->host)
		return sc_err_nomem(err, "cannot use the URL");
	for (char *p = url->host; *p; p++) {
		if ((unsigned char)*p >= 0x80)
			return refuse(err, "the host name is not ASCII; write its xn-- form");
		if (!isalnum((unsigned char)*p) && !strchr("-._~", *p))
			return refuse(err, "the host name holds a character that no name has");
		*p = (char)tolower((unsigned char)*p);
	}
	return 0;
}

static int take_authority(struct sc_url *url, struct sc_span text, struct sc_err *err)
{
	const char *at = memrchr(text.data, '@', text.len);
	const char *end = text.data + text.len, *colon;
	int rc;

	if (at) {
		rc = take_user(url, sc_span(text.data, (size_t)(at - text.data)), err);
		if (rc < 0)
			return rc;
		text = sc_span(at + 1, (size_t)(end - at - 1));
	}
	if (text.len && text.data[0] == '[') {
		const char *close = memchr(text.data, ']', text.len);

		if (!close || (close + 1 < end && close[1] != ':'))
			return refuse(err, "the brackets of the IPv6 address do not close");
		rc = take_ipv6(url, sc_span(text.data + 1, (size_t)(close - text.data - 1)), err);
		colon = close + 1 < end ? close + 1 : NULL;
	} else {
		colon = memchr(text.data, ':', text.len);
		rc = take_name(url,
			       sc_span(text.data, colon ? (size_t)(colon - text.data) : text.len),
			       err);
	}
	if (rc == 0 && colon)
		rc = take_port(url, sc_span(colon + 1, (size_t)(end - colon - 1)), err);
	return rc;
}

static int parse_unix(struct sc_url *url, const char *text, struct sc_err *err)
{
	const char *colon;

	if (!strncmp(text, "///", 3))
		text += 2;
	colon = strchr(text, ':');
	url->socket = copy(sc_span(text, colon ? (size_t)(colon - text) : strlen(text)));
	url->host = copy(SC_SPAN("localhost"));
	url->port = 80;
	if (!url->socket || !url->host)
		return sc_err_nomem(err, "cannot use the URL");
	if (url->socket[0] == '\0')
		return refuse(err, "it names no socket; write ws+unix:/PATH:/TARGET");
	if (strlen(url->socket) >= sizeof(((struct sockaddr_un *)0)->sun_path))
		return refuse(err, "the socket's path is longer than 107 bytes");
	return take_target(url, colon ? colon + 1 : "/", err);
}

static int parse(struct sc_url *url, const char *text, struct sc_err *err)
{
	static const struct {
		const char *name;
		bool tls;
	} schemes[] = {
		{ "ws://", false },
		{ "wss://", true },
		{ "http://", false },
		{ "https://", true },
	};
	int rc;

	if (strlen(text) > URL_MAX)
		return refuse(err, "it is longer than 65536 bytes");
	url->scheme = "ws+unix:";
	if (!strncasecmp(text, "ws+unix:", 8))
		return parse_unix(url, text + 8, err);
	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
		size_t n = strlen(schemes[i].name), len;

		if (strncasecmp(text, schemes[i].name, n))
			continue;
		url->tls = schemes[i].tls;
		url->scheme = schemes[i].name;
		url->port = url->tls ? 443 : 80;
		len = strcspn(text + n, "/?#");
		rc = take_authority(url, sc_span(text + n, len), err);
		return rc < 0 ? rc : take_target(url, text + n + len, err);
	}
	refuse(err, "it does not begin with ws://, wss:// or ws+unix:");
	return sc_err_next(err, "write it as ws://HOST:PORT/NAME");
}

int sc_url_parse(const char *text, struct sc_url *ret_url, struct sc_err *err)
{
	struct sc_url url = { 0 };
	int rc = parse(&url, text, err);

	if (rc == 0 && make_shown(&url) < 0)
		rc = sc_err_nomem(err, "cannot use the URL");
	if (rc < 0)
		sc_url_done(&url);
	else
		*ret_url = url;
	return rc;
}

void sc_url_done(struct sc_url *url)
{
	free(url->socket);
	free(url->host);
	free(url->target);
	free(url->user);
	if (url->password)
		explicit_bzero(url->password, strlen(url->password));
	free(url->password);
	free(url->shown);
	memset(url, 0, sizeof(*url));
}

int sc_url_put_host(const struct sc_url *url, struct sc_bytes *buf)
{
	bool ipv6 = strchr(url->host, ':') != NULL;
	int rc = sc_bytes_putf(buf, ipv6 ? "[%.*s]" : "%.*s", (int)strcspn(url->host, "%"),
			       url->host);

	if (rc == 0 && !url->socket && url->port != (url->tls ? 443 : 80))
		rc = sc_bytes_putf(buf, ":%u", url->port);
	return rc;
}

void sc_url_where(const struct sc_url *url, char *ret_text, size_t size)
{
	if (url->socket)
		snprintf(ret_text, size, "unix:%s", url->socket);
	else
		snprintf(ret_text, size, strchr(url->host, ':') ? "[%s]:%u" : "%s:%u", url->host,
			 url->port);
}
