/*
 * net/dial.h: a TCP or unix connection to a name: looked up in a helper thread, all addresses
 * tried.
 *
 * Owns      the dial until sc_dial_free, which also gives up on it; the connected descriptor is the
 *           caller's.
 * Units     ms.
 * Errors    SC_E_UNAVAILABLE naming the last address and why it failed; SC_E_NOMEM, SC_E_IO.
 * Safety    the loop's thread. A look-up that was given up on ends by itself, in its own time.
 * Source    RFC 8305 (happy eyeballs): families take turns, the next address starts 250 ms after
 *           the one before, or at once when that one failed; the first to connect wins.
 *
 * There is no time limit here: the caller has one, and frees the dial.
 */
#ifndef SC_NET_DIAL_H
#define SC_NET_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "net/loop.h"

enum { SC_DIAL_ADDRESSES_MAX = 16, SC_DIAL_STAGGER_MS = 250 };

struct sc_dial;

/* fd is -1 when it failed, with err; else address says where ("127.0.0.1:80", "unix:/path").
 * Told once, never from within sc_dial_new; the dial may be freed in it. */
typedef void sc_dial_done(void *arg, int fd, const char *address, const struct sc_err *err);

/* With SOCKET, a path, host and port are only for messages. All texts are copied. */
int sc_dial_new(struct sc_loop *loop, const char *host, uint16_t port, const char *socket, sc_dial_done *done,
		void *arg, struct sc_dial **ret_dial, struct sc_err *err);
void sc_dial_free(struct sc_dial *dial);
/* Right behind sc_dial_new: only addresses that ALLOW takes are tried, however the host was named.
 * When it takes none, SC_E_NOAUTH. */
typedef bool sc_dial_allow(void *arg, const struct sockaddr *address);
void sc_dial_only(struct sc_dial *dial, sc_dial_allow *allow, void *arg);

/* For tests: what a name means. Returns how many addresses, or a negative number. NULL = the
 * system's. */
typedef int sc_dial_resolver(const char *host, uint16_t port,
		struct sockaddr_storage *ret_addresses, size_t max);
void sc_dial_set_resolver(sc_dial_resolver *resolver);

#endif
