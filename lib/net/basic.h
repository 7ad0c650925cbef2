/*
 * net/basic.h: the credentials of HTTP basic authentication.
 *
 * Owns      nothing.
 * Units     sizes in bytes.
 * Errors    SC_E_NOMEM.
 * Safety    pure.
 * Source    RFC 7617.
 */
#ifndef SC_NET_BASIC_H
#define SC_NET_BASIC_H

#include "base/bytes.h"

/* "Basic " and the credentials, for Authorization and Proxy-Authorization. */
int sc_basic_put(struct sc_bytes *out, const char *user, const char *password);

#endif
