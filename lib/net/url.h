/*
 * net/url.h: where a WebSocket is: ws://, wss:// (http:// and https:// are the same),
 * ws+unix:/SOCKET:/TARGET.
 *
 * Owns      its texts, until sc_url_done; an all-zero struct is empty.
 * Units     none.
 * Errors    SC_E_USAGE, saying what part of the URL is refused (a password is never shown),
 *           SC_E_NOMEM.
 * Safety    pure.
 * Source    RFC 3986, RFC 6455 section 3. The target's bytes are passed on exactly as given.
 */
#ifndef SC_NET_URL_H
#define SC_NET_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_url {
	bool tls;
	const char *scheme; /* as it was given: "ws://", "https://", ...; "ws+unix:" */
	char *socket;   /* the path of a unix socket, or NULL */
	char *host;     /* no brackets, lower case; "localhost" with a socket */
	uint16_t port;
	char *target;   /* "/trades?offset=5": never empty */
	char *user;     /* percent-decoded, or NULL */
	char *password; /* the same; never shown */
	char *shown;    /* the URL without user and password, and without the values of secret looking keys */
};

int sc_url_parse(const char *text, struct sc_url *ret_url, struct sc_err *err);
void sc_url_done(struct sc_url *url);

/* The value of a Host header: brackets, no zone, the port when it is not the scheme's own. */
int sc_url_put_host(const struct sc_url *url, struct sc_bytes *buf);
/* "host:port", "[::1]:80" or "unix:/path": for messages. Cut to size. */
void sc_url_where(const struct sc_url *url, char *ret_text, size_t size);

/* Percent-decoding; refuses a broken escape and %00. *ret_text is new. */
int sc_url_decode(struct sc_span text, char **ret_text);

#endif
