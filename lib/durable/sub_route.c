/* sub_route.c: paths of subscription requests, and the URLs that webhooks may have. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "durable/sub_request.h"
#include "json/scan.h"
#include "net/address.h"
#include "net/url.h"

static struct sc_span next_part(struct sc_span *rest)
{
	const char *slash = rest->len ? memchr(rest->data, '/', rest->len) : NULL;
	size_t len = slash ? (size_t)(slash - rest->data) : rest->len;
	struct sc_span part = sc_span(rest->data, len);

	len += slash != NULL;
	*rest = sc_span(rest->data + len, rest->len - len);
	return part;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoded into the request's text, which has room. false: a broken escape. */
static bool decode(struct sc_bytes *text, struct sc_span raw, struct sc_span *ret_text)
{
	size_t at = text->len;

	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.data[i];

		if (c == '%') {
			int high = i + 2 < raw.len ? hex(raw.data[i + 1]) : -1;
			int low = i + 2 < raw.len ? hex(raw.data[i + 2]) : -1;

			if (high < 0 || low < 0)
				return false;
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (sc_bytes_putc(text, c) < 0)
			return false;
	}
	*ret_text = sc_span(text->data + at, text->len - at);
	return true;
}

static bool take_id(struct sc_ds_sub_request *r, struct sc_span raw)
{
	bool good = decode(&r->text, raw, &r->id) && r->id.len > 0 &&
		    r->id.len <= SC_DS_SUB_ID_MAX && sc_utf8_valid(r->id);

	for (size_t i = 0; good && i < r->id.len; i++)
		good = (unsigned char)r->id.data[i] >= ' ' && r->id.data[i] != 0x7f;
	return good;
}

static bool take_stream(struct sc_ds_sub_request *r, struct sc_span raw)
{
	r->streams = sc_calloc(1, sizeof(*r->streams));
	r->stream_count = 1;
	return r->streams && decode(&r->text, raw, &r->streams[0]);
}

static bool find_op(struct sc_span word, const char *method, enum sc_ds_sub_op *ret_op,
		    bool *ret_method)
{
	static const struct {
		const char *word, *method;
		enum sc_ds_sub_op op;
	} ops[] = {
		{ "", "PUT", SC_DS_SUB_PUT },
		{ "", "GET", SC_DS_SUB_GET },
		{ "", "DELETE", SC_DS_SUB_DELETE },
		{ "streams", "POST", SC_DS_SUB_LINK },
		{ "streams/", "DELETE", SC_DS_SUB_UNLINK },
		{ "callback", "POST", SC_DS_SUB_CALLBACK },
		{ "claim", "POST", SC_DS_SUB_CLAIM },
		{ "ack", "POST", SC_DS_SUB_ACK },
		{ "release", "POST", SC_DS_SUB_RELEASE },
	};

	for (size_t i = 0; i < sizeof(ops) / sizeof(*ops); i++) {
		if (!sc_span_is(word, ops[i].word))
			continue;
		*ret_method = true;
		*ret_op = ops[i].op;
		if (strcmp(method, ops[i].method) == 0)
			return true;
	}
	return false;
}

bool sc_ds_sub_route(struct sc_span below, const char *method, struct sc_ds_sub_request *r,
		     bool *ret_method)
{
	struct sc_span rest = below, id, word;
	bool many;

	*ret_method = false;
	sc_bytes_init(&r->text, 4 * SC_DS_SUB_BODY_MAX);
	if (!sc_span_is(next_part(&rest), "subscriptions") || !rest.len)
		return false;
	id = next_part(&rest);
	many = rest.len > 8 && memcmp(rest.data, "streams/", 8) == 0;
	word = many ? SC_SPAN("streams/") : rest;
	/* decoded text must not move any more: all of it has room */
	if (sc_bytes_reserve(&r->text, below.len + 1) < 0 || !take_id(r, id) ||
	    (below.data[below.len - 1] == '/' && !many) ||
	    !find_op(word, method, &r->op, ret_method))
		return false;
	return !many || take_stream(r, sc_span(rest.data + 8, rest.len - 8));
}

/* -- URLs -- */

/* The host of a URL in any of the spellings of an IPv4 address that a resolver takes: 127.1,
 * 0x7f000001, 2130706433. */
static bool is_ipv4(const char *host, struct sockaddr_in *ret_address)
{
	*ret_address = (struct sockaddr_in){ .sin_family = AF_INET };
	return inet_aton(host, &ret_address->sin_addr) != 0;
}

static const char *host_refused(const struct sc_url *url)
{
	struct sockaddr_in address;
	char host[256];
	size_t len = strlen(url->host);
	bool local, ipv4;

	if (len >= sizeof(host))
		return "the host of webhook.url is too long";
	memcpy(host, url->host, len + 1);
	if (len && host[len - 1] == '.')
		host[len - 1] = 0;
	ipv4 = is_ipv4(host, &address);
	local = strcmp(host, "localhost") == 0 ||
		(ipv4 && sc_address_loopback((const struct sockaddr *)&address));
	if (strchr(host, ':'))
		return "webhook.url has an IPv6 address for a host";
	if (!url->tls)
		return local ? NULL : "webhook.url must be https, but for localhost and 127.x.x.x";
	if (local)
		return "webhook.url is https at this machine: it must be http there";
	if (ipv4 && !sc_address_public((const struct sockaddr *)&address))
		return "webhook.url is at a private, local or reserved address";
	return NULL;
}

const char *sc_ds_sub_url_refused(const char *text)
{
	const char *why;
	struct sc_url url;

	if (strncasecmp(text, "http://", 7) != 0 && strncasecmp(text, "https://", 8) != 0)
		return "webhook.url must be https";
	if (sc_url_parse(text, &url, NULL) < 0)
		return "webhook.url is no URL";
	why = url.user || url.password ? "webhook.url holds a user or a password"
				       : host_refused(&url);
	sc_url_done(&url);
	return why;
}
