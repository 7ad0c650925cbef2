/* net/client_request.c: the request of the opening handshake, and what is made of its answer. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/base64.h"
#include "net/basic.h"
#include "net/client_internal.h"
#include "net/http.h"

#define FILE_MAX 65536

/* Names that the handshake itself writes. */
static bool reserved(struct sc_span name)
{
	static const char *const names[] = {
		"Upgrade",
		"Connection",
		"Sec-WebSocket-Key",
		"Sec-WebSocket-Version",
		"Sec-WebSocket-Extensions",
		"Content-Length",
		"Transfer-Encoding",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (name.len == strlen(names[i]) && !strncasecmp(name.data, names[i], name.len))
			return true;
	return false;
}

static bool is_name(struct sc_span name, const char *text)
{
	return name.len == strlen(text) && !strncasecmp(name.data, text, name.len);
}

/* Which of the standard headers the user's own ones replace. */
struct given {
	bool host, user_agent, authorization, origin, subprotocol;
};

static int put_line(struct sc_bytes *out, struct sc_span line, const char *from, struct given *g,
		    struct sc_err *err)
{
	const char *colon = memchr(line.data, ':', line.len);
	struct sc_span name = sc_span(line.data, colon ? (size_t)(colon - line.data) : 0);
	bool ok = sc_http_token(name);

	for (size_t i = name.len; i < line.len && ok; i++)
		ok = (unsigned char)line.data[i] >= ' ' ? line.data[i] != 0x7f
							: line.data[i] == '\t';
	if (!ok) {
		sc_err_set(err, SC_E_CONFIG, "cannot use a header from the",
			   "it is not NAME: VALUE on one line");
		return sc_err_on(err, "option", from);
	}
	if (reserved(name)) {
		char text[64];

		snprintf(text, sizeof(text), "%.*s", (int)name.len, name.data);
		sc_err_set(err, SC_E_CONFIG, "cannot use the", "the handshake writes it itself");
		return sc_err_on(err, "header", text);
	}
	g->host |= is_name(name, "Host");
	g->user_agent |= is_name(name, "User-Agent");
	g->authorization |= is_name(name, "Authorization");
	g->origin |= is_name(name, "Origin");
	g->subprotocol |= is_name(name, "Sec-WebSocket-Protocol");
	if (sc_bytes_put(out, line.data, line.len) < 0 || sc_bytes_puts(out, "\r\n") < 0)
		return sc_err_nomem(err, "cannot write the request");
	return 0;
}

static int put_file(struct sc_bytes *out, const char *path, struct given *g, struct sc_err *err)
{
	struct sc_bytes text;
	size_t at = 0;
	int rc;

	sc_bytes_init(&text, FILE_MAX);
	rc = sc_read_file(path, &text, err);
	while (rc == 0 && at < text.len) {
		const char *line = text.data + at, *lf = memchr(line, '\n', text.len - at);
		size_t len = lf ? (size_t)(lf - line) : text.len - at;

		at += len + 1;
		if (len && line[len - 1] == '\r')
			len--;
		if (len && line[0] != '#')
			rc = put_line(out, sc_span(line, len), "--header-file", g, err);
	}
	if (text.data)
		explicit_bzero(text.data, text.len);
	sc_bytes_done(&text);
	return rc;
}

/* A secret on the first line of a file, without the blanks around it. */
static int read_secret(const char *path, const char *kind, struct sc_bytes *text,
		       struct sc_span *ret_secret, struct sc_err *err)
{
	int rc = sc_read_file(path, text, err);
	struct sc_span s;

	if (rc < 0)
		return rc;
	s = sc_span(text->data ? text->data : "", text->len);
	while (s.len && isspace((unsigned char)s.data[0]))
		s = sc_span(s.data + 1, s.len - 1);
	while (s.len && isspace((unsigned char)s.data[s.len - 1]))
		s.len--;
	for (size_t i = 0; i < s.len; i++)
		if ((unsigned char)s.data[i] < ' ' || s.data[i] == 0x7f) {
			sc_err_set(err, SC_E_CONFIG, "cannot use the",
				   "it holds more than one line");
			return sc_err_on(err, kind, path);
		}
	if (s.len == 0) {
		sc_err_set(err, SC_E_CONFIG, "cannot use the", "it is empty");
		return sc_err_on(err, kind, path);
	}
	*ret_secret = s;
	return 0;
}

static int put_authorization(struct sc_link *l, struct sc_bytes *out, struct sc_err *err)
{
	const struct sc_client_options *o = &l->client->o;
	struct sc_bytes text;
	struct sc_span secret;
	int rc = 0, put = 0;

	sc_bytes_init(&text, FILE_MAX);
	if (o->token_file) {
		rc = read_secret(o->token_file, "token file", &text, &secret, err);
		if (rc == 0)
			put = sc_bytes_putf(out, "Authorization: Bearer %.*s\r\n", (int)secret.len,
					    secret.data);
	} else if (o->user_file) {
		rc = read_secret(o->user_file, "user file", &text, &secret, err);
		if (rc == 0) {
			put = sc_bytes_puts(out, "Authorization: Basic ");
			put = put < 0 ? put : sc_base64_put(out, sc_span(secret.data, secret.len));
			put = put < 0 ? put : sc_bytes_puts(out, "\r\n");
		}
	} else if (l->url.user) {
		put = sc_bytes_puts(out, "Authorization: ");
		put = put < 0 ? put : sc_basic_put(out, l->url.user, l->url.password);
		put = put < 0 ? put : sc_bytes_puts(out, "\r\n");
	}
	if (text.data)
		explicit_bzero(text.data, text.len);
	sc_bytes_done(&text);
	if (rc == 0 && put < 0)
		rc = sc_err_nomem(err, "cannot write the request");
	return rc;
}

static int put_standard(struct sc_link *l, struct sc_bytes *out, const struct given *g)
{
	const struct sc_client_options *o = &l->client->o;
	unsigned char nonce[16];
	struct sc_bytes key;
	int rc = 0;

	sc_random(nonce, sizeof(nonce));
	sc_bytes_init(&key, sizeof(l->key) - 1);
	if (sc_base64_put(&key, sc_span((const char *)nonce, sizeof(nonce))) < 0) {
		sc_bytes_done(&key);
		return SC_E_NOMEM;
	}
	memcpy(l->key, key.data, key.len);
	l->key[key.len] = '\0';
	sc_bytes_done(&key);
	if (!g->user_agent)
		rc = sc_bytes_putf(out, "User-Agent: %s\r\n",
				   o->user_agent ? o->user_agent : "sc/" SC_VERSION);
	if (rc == 0 && o->origin && !g->origin)
		rc = sc_bytes_putf(out, "Origin: %s\r\n", o->origin);
	if (rc == 0 && o->subprotocol && !g->subprotocol)
		rc = sc_bytes_putf(out, "Sec-WebSocket-Protocol: %s\r\n", o->subprotocol);
	if (rc == 0 && o->compress)
		rc = sc_bytes_puts(out, "Sec-WebSocket-Extensions: " SC_INFLATE_OFFER "\r\n");
	if (rc == 0)
		rc = sc_bytes_putf(
			out,
			"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
			"Sec-WebSocket-Version: 13\r\n\r\n",
			l->key);
	return rc;
}

/* The user's lines, each judged. */
static int put_own(struct sc_client *c, struct sc_bytes *own, struct given *g, struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < c->o.header_count && rc == 0; i++)
		rc = put_line(own, sc_span_str(c->o.headers[i]), "--header", g, err);
	for (size_t i = 0; i < c->o.header_file_count && rc == 0; i++)
		rc = put_file(own, c->o.header_files[i], g, err);
	return rc;
}

/* Up to what is special to the request. */
static int put_head(struct sc_link *l, const char *method, struct sc_span target,
		    struct sc_bytes *out, struct given *g, struct sc_err *err)
{
	struct sc_bytes own; /* first judged, then put behind Host */
	int rc, put;

	sc_bytes_init(&own, 1 << 20);
	rc = put_own(l->client, &own, g, err);
	if (rc < 0)
		goto out;
	put = sc_bytes_putf(out, "%s ", method);
	put = put < 0 ? put : sc_bytes_put(out, target.data, target.len);
	put = put < 0 ? put : sc_bytes_puts(out, " HTTP/1.1\r\n");
	if (put == 0 && !g->host) {
		put = sc_bytes_puts(out, "Host: ");
		put = put < 0 ? put : sc_url_put_host(&l->url, out);
		put = put < 0 ? put : sc_bytes_puts(out, "\r\n");
	}
	if (put == 0)
		put = sc_bytes_put(out, own.data, own.len);
	if (put == 0 && !g->authorization)
		rc = put_authorization(l, out, err);
	if (rc == 0 && put < 0)
		rc = sc_err_nomem(err, "cannot write the request");
out:
	if (own.data)
		explicit_bzero(own.data, own.len);
	sc_bytes_done(&own);
	return rc;
}

int sc_request_build(struct sc_link *l, struct sc_bytes *out, struct sc_err *err)
{
	struct given g = { 0 };
	int rc = put_head(l, "GET", sc_span_str(l->url.target), out, &g, err);

	if (rc == 0 && put_standard(l, out, &g) < 0)
		rc = sc_err_nomem(err, "cannot write the request");
	return rc;
}

int sc_client_head(struct sc_client *c, const char *method, struct sc_span target,
		   struct sc_span lines, struct sc_bytes *out, struct sc_err *err)
{
	struct given g = { 0 };
	int rc, put = 0;

	if (!sc_client_is_open(c))
		return sc_err_set(err, SC_E_UNAVAILABLE, "cannot write the request",
				  "the connection is not open");
	rc = put_head(c->link, method, target, out, &g, err);
	if (rc < 0)
		return rc;
	if (!g.user_agent)
		put = sc_bytes_putf(out, "User-Agent: %s\r\n",
				    c->o.user_agent ? c->o.user_agent : "sc/" SC_VERSION);
	if (put == 0 && c->o.origin && !g.origin)
		put = sc_bytes_putf(out, "Origin: %s\r\n", c->o.origin);
	if (put == 0)
		put = sc_bytes_put(out, lines.data, lines.len);
	return put < 0 ? sc_err_nomem(err, "cannot write the request") : 0;
}

static int refuse(struct sc_err *err, const char *reason)
{
	return sc_err_set(err, SC_E_PROTOCOL, "cannot open a WebSocket at", "%s", reason);
}

static bool accept_ok(const struct sc_link *l, struct sc_span got)
{
	char want[SC_HTTP_ACCEPT_TEXT];

	return sc_http_accept(sc_span_str(l->key), want) && sc_span_is(got, want);
}

/* The start of what a server says to a refusal, when it is plain words. */
static size_t body_words(struct sc_span body, char *ret_text, size_t size)
{
	size_t n = 0;

	while (body.len && isspace((unsigned char)body.data[0]))
		body = sc_span(body.data + 1, body.len - 1);
	if (body.len && body.data[0] != '<')
		while (n < body.len && n < size - 1 && (unsigned char)body.data[n] >= ' ' &&
		       body.data[n] < 0x7f)
			n++;
	if (n)
		memcpy(ret_text, body.data, n);
	ret_text[n] = '\0';
	return n;
}

static int refused(struct sc_link *l, const struct sc_httphead *head, struct sc_span body,
		   struct sc_err *err)
{
	char words[100];
	struct sc_span location;
	int code = head->status == 401 || head->status == 403 || head->status == 407 ? SC_E_NOAUTH
		   : head->status == 404 || head->status == 410                      ? SC_E_NOLOG
		   : head->status < 300                                              ? SC_E_PROTOCOL
					: SC_E_UNAVAILABLE;
	bool said = !sc_httphead_has(head, "Transfer-Encoding", "chunked") &&
		    body_words(body, words, sizeof(words)) > 0;

	l->status = head->status;
	l->refusal_fields = head->fields;
	l->retry_after_ms = sc_httphead_retry_ms(head, sc_wall_us());
	sc_err_set(err, code, "cannot open a WebSocket at", "the server answered %d%s%.*s%s%s%s",
		   head->status, head->reason.len ? " " : "",
		   (int)(head->reason.len < 80 ? head->reason.len : 80), head->reason.data,
		   said ? " ('" : "", words, said ? "')" : "");
	sc_err_field_int(err, "http_status", head->status);
	if (l->retry_after_ms >= 0)
		sc_err_field_int(err, "retry_after_ms", l->retry_after_ms);
	if (code == SC_E_NOAUTH)
		sc_err_next(err, "check the token, user or certificate");
	else if (head->status == 404)
		sc_err_next(err, "check the path of the URL");
	else if (head->status >= 300 && head->status < 400 &&
		 sc_httphead_find(head, "Location", 0, &location))
		sc_err_next(err, "it redirects to %.*s: use that",
			    (int)(location.len < 180 ? location.len : 180), location.data);
	return code;
}

static bool offered(const char *list, struct sc_span one)
{
	while (list && *list) {
		size_t n;

		list += strspn(list, ", \t");
		n = strcspn(list, ", \t");
		if (n == one.len && !memcmp(list, one.data, n))
			return true;
		list += n;
	}
	return false;
}

int sc_request_judge(struct sc_link *l, const struct sc_httphead *head, struct sc_span body,
		     bool *ret_compressed, bool *ret_takeover, struct sc_err *err)
{
	struct sc_span value;

	*ret_compressed = false;
	if (head->status != 101)
		return refused(l, head, body, err);
	if (!sc_httphead_has(head, "Upgrade", "websocket") ||
	    !sc_httphead_has(head, "Connection", "upgrade"))
		return refuse(err, "the server's answer 101 is not for a WebSocket");
	if (!sc_httphead_find(head, "Sec-WebSocket-Accept", 0, &value) || !accept_ok(l, value))
		return refuse(err, "the server's Sec-WebSocket-Accept does not fit our key");
	if (sc_httphead_find(head, "Sec-WebSocket-Protocol", 0, &value) && value.len) {
		if (l->client->o.subprotocol && !offered(l->client->o.subprotocol, value))
			return refuse(err, "the server chose a subprotocol that was not offered");
		snprintf(l->subprotocol, sizeof(l->subprotocol), "%.*s",
			 (int)(value.len < 100 ? value.len : 100), value.data);
	}
	if (sc_httphead_find(head, "Sec-WebSocket-Extensions", 0, &value) && value.len) {
		struct sc_span more;

		if (!l->client->o.compress || memchr(value.data, ',', value.len) ||
		    sc_httphead_find(head, "Sec-WebSocket-Extensions", 1, &more))
			return refuse(err, "the server chose an extension that was not offered");
		if (sc_inflate_agree(value, ret_takeover, err) < 0)
			return SC_E_PROTOCOL;
		*ret_compressed = true;
	}
	return 0;
}
