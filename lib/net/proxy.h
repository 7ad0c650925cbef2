/*
 * net/proxy.h: which proxy a connection takes, and what is said to it. No descriptors.
 *
 * Owns      struct sc_proxy its texts, struct sc_proxy_talk its buffers, until done.
 * Units     sizes in bytes.
 * Errors    SC_E_USAGE for a proxy URL that cannot be used; SC_E_NOAUTH when the proxy wants
 *           another password; SC_E_UNAVAILABLE when it cannot reach the host; SC_E_PROTOCOL.
 *           Passwords are never shown.
 * Safety    pure, but for getenv.
 * Source    RFC 9110 section 9.3.6 (CONNECT), RFC 1928 and 1929 (SOCKS5).
 *
 * The host's name is looked up by the proxy, with socks5:// as with socks5h://: the proxy's view is
 * the one that counts.
 */
#ifndef SC_NET_PROXY_H
#define SC_NET_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/url.h"

enum sc_proxy_kind { SC_PROXY_NONE, SC_PROXY_HTTP, SC_PROXY_SOCKS5 };

struct sc_proxy {
	enum sc_proxy_kind kind;
	struct sc_url url; /* tls: an https:// proxy */
};

/* http://, https://, socks5://, socks5h://, or HOST:PORT; "" is none. */
int sc_proxy_parse(const char *text, struct sc_proxy *ret_proxy, struct sc_err *err);
/*
 * As the environment says: https_proxy for wss, http_proxy (lower case only) for ws, else
 * all_proxy; unless no_proxy names the host (a name and what is below it, an address, a network as
 * 10.0.0.0/8, "*"), or it is this machine.
 */
int sc_proxy_from_env(const struct sc_url *target, struct sc_proxy *ret_proxy, struct sc_err *err);
/* The test of no_proxy by itself. */
bool sc_proxy_excluded(const struct sc_url *target, const char *no_proxy);
void sc_proxy_done(struct sc_proxy *proxy);

/* The talk until the tunnel stands. */
struct sc_proxy_talk {
	const struct sc_proxy *proxy;
	const char *host;
	uint16_t port;
	int step;
	struct sc_bytes out; /* to be sent: the caller empties it */
	struct sc_bytes in;
};

/* Both borrow proxy and host until done. */
int sc_proxy_begin(struct sc_proxy_talk *talk, const struct sc_proxy *proxy, const char *host, uint16_t port,
		   struct sc_err *err);
/* Bytes from the proxy: 1 when the tunnel stands, 0 when more is needed. *ret_used of them belonged
 * to the talk. */
int sc_proxy_feed(struct sc_proxy_talk *talk, const char *data, size_t len, size_t *ret_used,
		struct sc_err *err);
void sc_proxy_talk_done(struct sc_proxy_talk *talk);

#endif
