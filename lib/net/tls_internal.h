/*
 * net/tls_internal.h: what a server that moves the bytes itself (server_tls.c) needs of a context.
 *
 * Owns      nothing: the context keeps what it hands out.
 * Units     none.
 * Errors    none.
 * Safety    as net/tls.h.
 * Source    OpenSSL 3.
 */
#ifndef SC_NET_TLS_INTERNAL_H
#define SC_NET_TLS_INTERNAL_H

#include "net/tls.h"

/* An SSL_CTX. */
struct ssl_ctx_st *sc_tls_context_ssl(const struct sc_tls_context *context);

#endif
