/*
 * net/tls.h: TLS over a non-blocking socket: for a client (also over another TLS connection, an
 * https:// proxy), and for a server.
 *
 * Owns      the context and the connections; sockets stay the caller's.
 * Units     none.
 * Errors    SC_E_CONFIG for files that cannot be used; SC_E_UNAVAILABLE when the peer's certificate
 *           is refused or the handshake fails, with the reason.
 * Safety    one thread a connection; a context may be shared. Never raises SIGPIPE.
 * Source    OpenSSL 3; RFC 9110 section 4.3.4 (the name must be the one asked for). TLS 1.2 or
 *           newer.
 */
#ifndef SC_NET_TLS_H
#define SC_NET_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct sc_tls_context;
struct sc_tls;

struct sc_tls_files {
	const char *ca;   /* only these are trusted; NULL = the system's */
	const char *cert; /* with its chain */
	const char *key;  /* NULL: in the same file as cert */
	bool insecure;    /* take any certificate */
};

int sc_tls_context_new(const struct sc_tls_files *files, struct sc_tls_context **ret_context,
		struct sc_err *err);
/* For a server: cert and key are needed; with ca a client must show a certificate that it has
 * signed. */
int sc_tls_server_context_new(const struct sc_tls_files *files, struct sc_tls_context **ret_context,
			      struct sc_err *err);
void sc_tls_context_free(struct sc_tls_context *context);

/* NAME: a host name or an address, checked and (a name) sent. LOWER: the connection below, or NULL
 * for the socket. */
int sc_tls_new(struct sc_tls_context *context, const char *name, int fd, struct sc_tls *lower, struct sc_tls **ret_tls,
	       struct sc_err *err);
/* A server's end, of a context for servers. */
int sc_tls_accept(struct sc_tls_context *context, int fd, struct sc_tls **ret_tls, struct sc_err *err);
void sc_tls_free(struct sc_tls *tls);

enum { SC_TLS_READ = -1000, SC_TLS_WRITE = -1001 }; /* go on when the socket can be read, written */

/* 0 done, SC_TLS_READ or _WRITE, or a failure. */
int sc_tls_handshake(struct sc_tls *tls, struct sc_err *err);
/* Bytes (0: the peer's end), SC_TLS_READ or _WRITE, or a failure. A write that has to go on is
 * repeated from the same byte. */
ssize_t sc_tls_read(struct sc_tls *tls, void *ret_data, size_t size, struct sc_err *err);
ssize_t sc_tls_write(struct sc_tls *tls, const void *data, size_t len, struct sc_err *err);
/* After a failed handshake: was it for the certificate? */
bool sc_tls_untrusted(const struct sc_tls *tls);
/* What came from the peer so far, by its first byte. */
enum sc_tls_heard {
	SC_TLS_NOTHING,
	SC_TLS_SPOKEN,
	SC_TLS_FOREIGN, /* it speaks another protocol, as HTTP: the handshake fails */
};
enum sc_tls_heard sc_tls_heard(const struct sc_tls *tls);
/* Why OpenSSL's last call in this thread failed, in words, the system's where it was the system;
 * the errors are cleared. */
const char *sc_tls_reason(void);
/* Tell the peer that nothing follows; never waits. */
void sc_tls_end(struct sc_tls *tls);

#endif
