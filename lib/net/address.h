/*
 * net/address.h: what kind of address a peer has: of the open network, or of this machine.
 *
 * Owns      nothing.
 * Units     none.
 * Errors    none: what is not known is neither.
 * Safety    pure.
 * Source    RFC 6890 and the IANA registries of special-purpose addresses; RFC 4291 2.5.5.2, RFC
 *           6052, RFC 3056 (IPv4 inside of IPv6).
 */
#ifndef SC_NET_ADDRESS_H
#define SC_NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* Of the open network: not of this machine, a private net, a link, a group, or a use of its own. */
bool sc_address_public(const struct sockaddr *address);
/* Of this machine: 127.0.0.0/8 and ::1. */
bool sc_address_loopback(const struct sockaddr *address);

#endif
