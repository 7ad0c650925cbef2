/*
 * net/opts.h: the options of a connection, the same in every program that makes one.
 *
 * Owns      as base/opt.h: texts point into argv.
 * Units     as base/opt.h.
 * Errors    none here; sc_client_new tells what cannot be used.
 * Safety    one thread, at start.
 * Source    net/client.h says what each does.
 */
#ifndef SC_NET_OPTS_H
#define SC_NET_OPTS_H

#include <stddef.h>

#include "base/opt.h"
#include "net/client.h"

/* The way to a server: TLS, and a proxy. */
struct sc_net_way {
	const char *ca, *cert, *key, *server_name, *proxy;
	bool insecure;
	int64_t connect_ms;
};

struct sc_net_opts {
	struct sc_opt_list headers, header_files;
	const char *origin, *subprotocol, *user_agent, *token_file, *user_file;
	struct sc_net_way way;
	bool compress, retry_refused;
	int64_t upgrade_ms, ping_ms, pong_ms, idle_ms;
	uint64_t message_max, ahead_max;
	int64_t tries, retry_for_ms, retry_wait_ms;
};

/* For an options table; IN is the struct, AT its member of type struct sc_net_way. */
#define SC_NET_WAY_OPTIONS(IN, AT) \
	{ .name = "ca", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.ca), \
	  .help = "trust only the certificate authorities in this PEM file" }, \
	{ .name = "cert", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.cert), \
	  .help = "show the certificate in this PEM file, with its chain" }, \
	{ .name = "key", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.key), \
	  .help = "the key of --cert, when it is in a PEM file of its own" }, \
	{ .name = "server-name", .kind = SC_OPT_TEXT, .arg = "NAME", .into = offsetof(IN, AT.server_name), \
	  .help = "the name that the server's certificate must have, instead of the URL's host" }, \
	{ .name = "insecure", .letter = 'k', .kind = SC_OPT_FLAG, .into = offsetof(IN, AT.insecure), \
	  .help = "take any certificate; a warning tells" }, \
	{ .name = "proxy", .kind = SC_OPT_TEXT, .arg = "URL", .into = offsetof(IN, AT.proxy), \
	  .help = "connect through this http://, https:// or socks5:// proxy instead of the environment's; empty for " \
		  "none" }, \
	{ .name = "connect-timeout", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.connect_ms), \
	  .standard = "10s", .special = "none", \
	  .help = "limit for a look-up, connect, proxy and TLS together" }

/* The same; AT is of type struct sc_net_opts. */
#define SC_NET_OPTIONS(IN, AT) \
	{ .name = "header", .letter = 'H', .kind = SC_OPT_LIST, .arg = "NAME: VALUE", \
	  .into = offsetof(IN, AT.headers), .help = "send this header with the request; may be given again" }, \
	{ .name = "header-file", .kind = SC_OPT_FILES, .arg = "FILE", .into = offsetof(IN, AT.header_files), \
	  .help = "send the header lines in FILE, read again for each connection" }, \
	{ .name = "token-file", .letter = 'T', .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.token_file), \
	  .help = "send the bearer token in FILE, read again for each connection" }, \
	{ .name = "user-file", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.user_file), \
	  .help = "log in with the USER:PASSWORD in FILE, read again for each connection" }, \
	{ .name = "origin", .kind = SC_OPT_TEXT, .arg = "ORIGIN", .into = offsetof(IN, AT.origin), \
	  .help = "send this Origin header" }, \
	{ .name = "subprotocol", .kind = SC_OPT_TEXT, .arg = "NAME", .into = offsetof(IN, AT.subprotocol), \
	  .help = "offer this WebSocket subprotocol; several with commas" }, \
	{ .name = "user-agent", .kind = SC_OPT_TEXT, .arg = "TEXT", .into = offsetof(IN, AT.user_agent), \
	  .help = "send this User-Agent header" }, \
	SC_NET_WAY_OPTIONS(IN, AT.way), \
	{ .name = "compress", .letter = 'z', .kind = SC_OPT_FLAG, .into = offsetof(IN, AT.compress), .standard = "true", \
	  .help = "offer the server to compress what it sends" }, \
	{ .name = "upgrade-timeout", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.upgrade_ms), \
	  .standard = "10s", .special = "none", .help = "limit for the server's answer to the upgrade" }, \
	{ .name = "ping", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.ping_ms), \
	  .standard = "20s", .special = "none", .help = "send a ping this often" }, \
	{ .name = "pong-timeout", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.pong_ms), \
	  .standard = "20s", .special = "none", \
	  .help = "leave a server that sends nothing at all for this long after a ping" }, \
	{ .name = "idle", .letter = 'i', .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.idle_ms), \
	  .standard = "none", .special = "none", .help = "connect anew when no message came for this long" }, \
	{ .name = "max-message", .kind = SC_OPT_SIZE, .arg = "SIZE", .into = offsetof(IN, AT.message_max), \
	  .standard = "16MiB", .min = 1, .max = (int64_t)1 << 40, .help = "refuse messages larger than this" }, \
	{ .name = "read-ahead", .kind = SC_OPT_SIZE, .arg = "SIZE", .into = offsetof(IN, AT.ahead_max), \
	  .standard = "4MiB", .max = (int64_t)1 << 40, \
	  .help = "messages held while the output is blocked, so that pings are answered" }, \
	{ .name = "retry", .kind = SC_OPT_NUMBER, .arg = "N", .into = offsetof(IN, AT.tries), .standard = "-1", \
	  .min = -1, .max = -2, .help = "try again after at most N failures in a row; -1 for any number" }, \
	{ .name = "retry-for", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.retry_for_ms), \
	  .standard = "none", .special = "none", .help = "give up when this long without a connection" }, \
	{ .name = "retry-wait", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.retry_wait_ms), \
	  .standard = "30s", .help = "the longest wait between two tries" }, \
	{ .name = "retry-refused", .kind = SC_OPT_FLAG, .into = offsetof(IN, AT.retry_refused), \
	  .help = "try again also after the server refused (401, 403, 404 and such)" }

void sc_net_way_fill(const struct sc_net_way *way, struct sc_client_options *options);
/* Everything but the URL. The result borrows from OPTS. */
void sc_net_opts_fill(const struct sc_net_opts *opts, struct sc_client_options *ret_options);

#endif
