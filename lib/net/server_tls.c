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
#include "net/tls.h"

struct sc_server_tls {
	SSL_CTX *ctx;
};

struct sc_server_tls_conn {
	SSL *ssl;
	BIO *in, *out; /* owned by ssl */
};

static int fail(struct sc_err *err, const char *kind, const char *path)
{
	sc_err_set(err, SC_E_CONFIG, "cannot use TLS", "%s", sc_tls_reason());
	return sc_err_on(err, kind, path);
}

static int load(SSL_CTX *ctx, const struct sc_server_options *o, struct sc_err *err)
{
	STACK_OF(X509_NAME) * names;

	if (SSL_CTX_use_certificate_chain_file(ctx, o->cert) != 1)
		return fail(err, "certificate", o->cert);
	if (SSL_CTX_use_PrivateKey_file(ctx, o->key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ctx) != 1)
		return fail(err, "key", o->key);
	if (!o->client_ca)
		return 0;
	names = SSL_load_client_CA_file(o->client_ca);
	if (!names || SSL_CTX_load_verify_locations(ctx, o->client_ca, NULL) != 1) {
		sk_X509_NAME_pop_free(names, X509_NAME_free);
		return fail(err, "client CA", o->client_ca);
	}
	SSL_CTX_set_client_CA_list(ctx, names);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

/* HTTP/1.1 is all we speak: a browser that would like h2 as well is told so. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
		       const unsigned char *in, unsigned in_len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto((unsigned char **)out, out_len, ours, sizeof(ours) - 1, in,
				  in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	return SSL_TLSEXT_ERR_OK;
}

int sc_server_tls_new(const struct sc_server_options *options, struct sc_server_tls **ret_tls,
		      struct sc_err *err)
{
	static const unsigned char id[] = "sc";
	struct sc_server_tls *tls = sc_calloc(1, sizeof(*tls));
	int rc;

	ERR_clear_error();
	if (!tls)
		return sc_err_nomem(err, "cannot use TLS");
	tls->ctx = SSL_CTX_new(TLS_server_method());
	if (!tls->ctx) {
		free(tls);
		return sc_err_nomem(err, "cannot use TLS");
	}
	SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(tls->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(tls->ctx, SSL_MODE_RELEASE_BUFFERS);
	/* Needed where client certificates are asked for and a session is resumed. */
	SSL_CTX_set_session_id_context(tls->ctx, id, sizeof(id) - 1);
	SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_alpn_select_cb(tls->ctx, choose_alpn, NULL);
	rc = load(tls->ctx, options, err);
	if (rc < 0) {
		sc_server_tls_free(tls);
		return rc;
	}
	*ret_tls = tls;
	return 0;
}

void sc_server_tls_free(struct sc_server_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	free(tls);
}

struct sc_server_tls_conn *sc_server_tls_begin(struct sc_server_tls *tls)
{
	struct sc_server_tls_conn *c = sc_calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->ssl = SSL_new(tls->ctx);
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
