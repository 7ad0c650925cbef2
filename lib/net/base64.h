/*
 * net/base64.h: base64 for HTTP heads.
 *
 * Owns      nothing.
 * Units     sizes in bytes.
 * Errors    SC_E_NOMEM.
 * Safety    pure.
 * Source    RFC 4648 section 4.
 */
#ifndef SC_NET_BASE64_H
#define SC_NET_BASE64_H

#include "base/bytes.h"

int sc_base64_put(struct sc_bytes *out, const void *data, size_t len);
/* "Basic " and the credentials, for Authorization and Proxy-Authorization. */
int sc_base64_put_basic(struct sc_bytes *out, const char *user, const char *password);

#endif
