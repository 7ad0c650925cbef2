/* net/server_tls.c: TLS between two memory buffers: no socket, no signal, no retry rules leave this
 * file. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/file.h"
#include "net/server_internal.h"
#include "net/tls_internal.h"

struct sc_server_tls_conn {
	SSL *ssl;
	BIO *in, *out; /* owned by ssl */
};

int sc_server_tls_new(const struct sc_server_options *options, struct sc_tls_context **ret_context,
		      struct sc_err *err)
{
	struct sc_tls_files files = { .ca = options->client_ca,
				      .cert = options->cert,
				      .key = options->key };

	return sc_tls_server_context_new(&files, ret_context, err);
}

struct sc_server_tls_conn *sc_server_tls_begin(const struct sc_tls_context *context)
{
	struct sc_server_tls_conn *c = sc_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ssl = SSL_new(sc_tls_context_ssl(context));
	c->in = BIO_new(BIO_s_mem());
	c->out = BIO_new(BIO_s_mem());
	if (!c->ssl || !c->in || !c->out) {
		SSL_free(c->ssl);
		BIO_free(c->in);
		BIO_free(c->out);
		free(c);
		return NULL;
	}
	BIO_set_mem_eof_return(c->in, -1);
	SSL_set_bio(c->ssl, c->in, c->out);
	SSL_set_accept_state(c->ssl);
	return c;
}

void sc_server_tls_end(struct sc_server_tls_conn *c)
{
	if (!c)
		return;
	SSL_free(c->ssl);
	free(c);
}

int sc_server_tls_feed(struct sc_server_tls_conn *c, const void *data, size_t len)
{
	return len <= INT_MAX && BIO_write(c->in, data, (int)len) == (int)len ? 0 : -1;
}

ssize_t sc_server_tls_read(struct sc_server_tls_conn *c, void *ret_data, size_t size, bool *ret_end)
{
	size_t n = 0;
	int rc, why;

	*ret_end = false;
	ERR_clear_error();
	rc = SSL_read_ex(c->ssl, ret_data, size, &n); /* does the handshake too */
	if (rc == 1)
		return (ssize_t)n;
	why = SSL_get_error(c->ssl, rc);
	ERR_clear_error();
	*ret_end = why == SSL_ERROR_ZERO_RETURN;
	return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

int sc_server_tls_write(struct sc_server_tls_conn *c, const void *data, size_t len)
{
	size_t n = 0;
	int rc;

	ERR_clear_error();
	rc = SSL_write_ex(c->ssl, data, len, &n);
	ERR_clear_error();
	return rc == 1 && n == len ? 0 : -1;
}

bool sc_server_tls_ready(const struct sc_server_tls_conn *c)
{
	return SSL_is_init_finished(c->ssl);
}

size_t sc_server_tls_waiting(struct sc_server_tls_conn *c, const char **ret_data)
{
	char *data = NULL;
	long n = BIO_get_mem_data(c->out, &data);

	*ret_data = data;
	return n > 0 ? (size_t)n : 0;
}

void sc_server_tls_sent(struct sc_server_tls_conn *c, size_t len)
{
	char away[4096];

	while (len > 0) {
		int n = BIO_read(c->out, away, (int)(len < sizeof(away) ? len : sizeof(away)));

		if (n <= 0)
			return;
		len -= (size_t)n;
	}
}

void sc_server_tls_bye(struct sc_server_tls_conn *c)
{
	if (SSL_is_init_finished(c->ssl))
		(void)SSL_shutdown(c->ssl);
	ERR_clear_error();
}
