/*
 * net/port.h: the options of a listening port, the same in every program that has one.
 *
 * Owns      as base/opt.h: texts point into argv.
 * Units     as base/opt.h.
 * Errors    SC_E_USAGE for options that do not go together; sc_server_new tells what cannot be
 *           used.
 * Safety    one thread, at start.
 * Source    net/server.h says what each does.
 */
#ifndef SC_NET_PORT_H
#define SC_NET_PORT_H

#include <stddef.h>

#include "base/opt.h"
#include "net/server.h"

struct sc_port_opts {
	struct sc_opt_list listen, origins;
	bool listen_given;
	const char *cert, *key, *client_ca, *token_file;
	int64_t clients, per_address, handshake_ms, ping_ms, pong_ms;
	int ready_fd;
};

/* For an options table; IN is the struct, AT its member of type struct sc_port_opts. STANDARD is
 * where it listens when nothing is said; TLS stands in front of the names cert and key; WHO are
 * those who connect: "clients". */
#define SC_PORT_LISTEN_OPTIONS(IN, AT, STANDARD) \
	{ .name = "listen", .letter = 'l', .kind = SC_OPT_LIST, .arg = "ADDRESS", .into = offsetof(IN, AT.listen), \
	  .seen = offsetof(IN, AT.listen_given), .standard = STANDARD, \
	  .help = "HOST:PORT, [IPV6]:PORT, :PORT (on 127.0.0.1), *:PORT (on every address), unix:PATH or fd:N; port 0 " \
		  "is a free one" }, \
	{ .name = "ready-fd", .kind = SC_OPT_FD, .arg = "FD", .into = offsetof(IN, AT.ready_fd), \
	  .help = "when it listens, write one JSON line with the real port to this descriptor and close it" }
#define SC_PORT_TLS_OPTIONS(IN, AT, TLS, WHO) \
	{ .name = TLS "cert", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.cert), \
	  .help = "speak TLS with the certificate in this PEM file (read again on SIGHUP)" }, \
	{ .name = TLS "key", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.key), \
	  .help = "the key of --" TLS "cert" }, \
	{ .name = "client-ca", .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.client_ca), \
	  .help = "take only " WHO " with a certificate signed by one of these" }
/* MORE: what the lines of the file are. */
#define SC_PORT_TOKEN_OPTION(IN, AT, MORE) \
	{ .name = "token-file", .letter = 'T', .kind = SC_OPT_FILE, .arg = "FILE", .into = offsetof(IN, AT.token_file), \
	  .help = "take only requests with a token of FILE" MORE }
#define SC_PORT_ORIGIN_OPTION(IN, AT) \
	{ .name = "origin", .kind = SC_OPT_LIST, .arg = "ORIGIN", .into = offsetof(IN, AT.origins), \
	  .help = "take only browsers that come from this origin" }
/* NAME: "max-clients"; WHO are counted; MOST of them when nothing is said. */
#define SC_PORT_CLIENTS_OPTION(IN, AT, NAME, WHO, MOST) \
	{ .name = NAME, .kind = SC_OPT_NUMBER, .arg = "N", .into = offsetof(IN, AT.clients), .standard = MOST, .min = 0, \
	  .max = -1, .help = "most " WHO " at once, 0 for any number; more get 503" }
#define SC_PORT_ADDRESS_OPTIONS(IN, AT) \
	{ .name = "max-per-address", .kind = SC_OPT_NUMBER, .arg = "N", .into = offsetof(IN, AT.per_address), .min = 0, \
	  .max = -1, .help = "most connections from one address, 0 for any number" }
#define SC_PORT_HANDSHAKE_OPTIONS(IN, AT) \
	{ .name = "handshake-timeout", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.handshake_ms), \
	  .standard = "10s", .min = 1, .max = 0, \
	  .help = "cut connections that have not asked for anything after this long" }
#define SC_PORT_PING_OPTIONS(IN, AT, WHO) \
	{ .name = "ping", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.ping_ms), .standard = "20s", \
	  .special = "none", .help = "ping " WHO " this often" }, \
	{ .name = "pong-timeout", .kind = SC_OPT_DURATION, .arg = "DUR", .into = offsetof(IN, AT.pong_ms), \
	  .standard = "20s", .min = 1, .max = 0, .help = "drop " WHO " that have not answered a ping after this long" }

/* Certificate and key go together, and --client-ca only with them. TLS as above. */
int sc_port_opts_check(const struct sc_port_opts *opts, const char *tls, struct sc_err *err);
/*
 * Where to listen: what was given; else the sockets of the service manager, when there are some;
 * else STANDARD, one address. Lasts as long as OPTS and STANDARD.
 */
void sc_port_opts_listen(const struct sc_port_opts *opts, const char *const *standard,
			 const char *const **ret_listen, size_t *ret_count, bool *ret_activation);
/* All of them, for a program that has the options of all the groups above. The rest has its
 * standard values. */
void sc_port_opts_fill(const struct sc_port_opts *opts, const char *const *standard,
		       struct sc_server_options *ret_options);

#endif
