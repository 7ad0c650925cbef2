/* net/client_scheme.c: a peer that speaks TLS where the URL, or the proxy's, says that it speaks
 * none, and the other way round: what shows it, and what to write instead. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "net/client_internal.h"

enum { TLS_ALERT = 21 }; /* the type of a record, RFC 8446, 5.1 */

/* Whose scheme it is that what is said now goes by. */
static bool is_proxy(const struct sc_link *l)
{
	return l->state == SC_LINK_PROXY_TLS || l->state == SC_LINK_PROXY;
}

static bool says_tls(const struct sc_link *l)
{
	return is_proxy(l) ? l->proxy.url.tls : l->url.tls;
}

/* What to write instead. */
static void put_instead(const struct sc_link *l, char *ret_text, size_t size)
{
	bool http = is_proxy(l) || strncasecmp(l->url.scheme, "http", 4) == 0;

	snprintf(ret_text, size, "write the %s with %s%s://", is_proxy(l) ? "proxy" : "URL",
		 http ? "http" : "ws", says_tls(l) ? "" : "s");
}

/* Servers that take the trouble to tell say it in the body of a 400. */
static bool told_in_words(struct sc_span answer)
{
	static const char *const words[] = { "HTTPS", "TLS", "SSL-enabled" };
	const char *body;

	if (answer.len < 13 || memcmp(answer.data, "HTTP/1.", 7) != 0 ||
	    memcmp(answer.data + 8, " 400", 4) != 0)
		return false;
	body = memmem(answer.data, answer.len, "\r\n\r\n", 4);
	if (!body)
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (memmem(body, (size_t)(answer.data + answer.len - body), words[i],
			   strlen(words[i])))
			return true;
	return false;
}

bool sc_link_scheme_wrong(struct sc_link *l, struct sc_span answer, struct sc_err *err)
{
	char instead[64];

	if (says_tls(l) || !answer.len || l->client->ever_open || l->url.socket ||
	    (is_proxy(l) && l->proxy.kind != SC_PROXY_HTTP))
		return false;
	if ((unsigned char)answer.data[0] != TLS_ALERT && !told_in_words(answer))
		return false;
	put_instead(l, instead, sizeof(instead));
	sc_err_set(err, SC_E_UNAVAILABLE, "cannot talk to", "it speaks TLS");
	sc_err_next(err, "%s", instead);
	l->final = true;
	return true;
}

void sc_link_scheme_refused(struct sc_link *l, const struct sc_tls *tls, struct sc_err *err)
{
	char instead[64];

	if (sc_tls_heard(tls) != SC_TLS_FOREIGN)
		return;
	put_instead(l, instead, sizeof(instead));
	sc_err_next(err, "%s", instead);
	l->final = true;
}

/* Has the peer, whose turn it was, said nothing at all? */
static bool unanswered(const struct sc_link *l)
{
	switch (l->state) {
	case SC_LINK_PROXY_TLS:
		return sc_tls_heard(l->proxy_tls) == SC_TLS_NOTHING;
	case SC_LINK_TLS:
		return sc_tls_heard(l->tls) == SC_TLS_NOTHING;
	case SC_LINK_PROXY:
		return l->proxy.kind == SC_PROXY_HTTP && !l->proxy.url.tls && l->in_len == 0;
	case SC_LINK_UPGRADE:
		return !l->url.tls && l->in_len == 0;
	case SC_LINK_OPEN:
		return l->client->o.raw && !l->url.tls;
	default:
		return false;
	}
}

void sc_link_scheme_doubt(const struct sc_link *l, struct sc_err *err)
{
	char instead[64];

	/* one that speaks no TLS may wait for more; one that speaks it ends at once */
	if (err->code != SC_E_UNAVAILABLE && !(err->code == SC_E_TIMEOUT && says_tls(l)))
		return;
	if (l->client->ever_open || l->url.socket || err->next[0] || !unanswered(l))
		return;
	put_instead(l, instead, sizeof(instead));
	sc_err_next(err, "if it speaks %sTLS, %s", says_tls(l) ? "no " : "", instead);
}
