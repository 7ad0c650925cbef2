/* net/tls.c: see net/tls.h. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/file.h"
#include "net/tls_internal.h"

struct sc_tls_context {
	SSL_CTX *ssl;
	bool insecure;
};

struct sc_tls {
	SSL *ssl;
	int fd;
	struct sc_tls *lower;
	bool insecure, broken, untrusted;
	enum sc_tls_heard heard;
	int errnum; /* of the socket below */
	char name[256];
};

/* The transport below: send and recv without SIGPIPE, or another TLS connection. */

static int below_again(BIO *bio, struct sc_tls *t, ssize_t rc, bool reading)
{
	if (rc == SC_TLS_READ ||
	    (!t->lower && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) && reading))
		BIO_set_retry_read(bio);
	else if (rc == SC_TLS_WRITE ||
		 (!t->lower && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)))
		BIO_set_retry_write(bio);
	else if (!t->lower)
		t->errnum = errno;
	return -1;
}

/* A record begins with its type (RFC 8446, 5.1), and SSL 2 with a byte above 127. */
static enum sc_tls_heard judge_first(unsigned char byte)
{
	return byte >= 0x80 || (byte >= 20 && byte <= 24) ? SC_TLS_SPOKEN : SC_TLS_FOREIGN;
}

static int below_read(BIO *bio, char *data, int size)
{
	struct sc_tls *t = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (t->lower)
		n = sc_tls_read(t->lower, data, (size_t)size, NULL);
	else
		n = recv(t->fd, data, (size_t)size, 0);
	if (n > 0 && t->heard == SC_TLS_NOTHING)
		t->heard = judge_first((unsigned char)data[0]);
	return n >= 0 ? (int)n : below_again(bio, t, n, true);
}

static int below_write(BIO *bio, const char *data, int len)
{
	struct sc_tls *t = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (t->lower)
		n = sc_tls_write(t->lower, data, (size_t)len, NULL);
	else
		n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL);
	return n >= 0 ? (int)n : below_again(bio, t, n, false);
}

static long below_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *below_method;

static void below_make(void)
{
	below_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sc socket");
	if (!below_method)
		return;
	BIO_meth_set_read(below_method, below_read);
	BIO_meth_set_write(below_method, below_write);
	BIO_meth_set_ctrl(below_method, below_ctrl);
}

/* "PEM lib": that another part of the library said why. */
static bool points_on(const char *text)
{
	size_t len = strlen(text);

	return len > 4 && strcmp(text + len - 4, " lib") == 0;
}

const char *sc_tls_reason(void)
{
	const char *text = NULL, *more;
	bool of_system = false;
	unsigned long e;

	/* "system lib" says nothing: the system does */
	while ((e = ERR_get_error()) != 0 && !of_system) {
		of_system = ERR_SYSTEM_ERROR(e);
		more = of_system ? strerror(ERR_GET_REASON(e)) : ERR_reason_error_string(e);
		if (more && (!text || !points_on(more)))
			text = more;
	}
	ERR_clear_error();
	return text ? text : "the library gives no reason";
}

/* A key with a pass phrase would ask on the terminal. ARG: whether one was asked for. */
static int no_pass_phrase(char *ret_text, int size, int writing, void *arg)
{
	(void)ret_text;
	(void)size;
	(void)writing;
	if (arg)
		*(bool *)arg = true;
	return -1;
}

static int file_failed(struct sc_err *err, const char *kind, const char *path)
{
	sc_err_set(err, SC_E_CONFIG, "cannot use the", "%s", sc_tls_reason());
	sc_err_on(err, kind, path);
	return sc_err_next(err, "give a PEM file that can be read");
}

static int load_key(SSL_CTX *ssl, const char *key, struct sc_err *err)
{
	bool locked = false;
	int rc = 0;

	SSL_CTX_set_default_passwd_cb_userdata(ssl, &locked);
	if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(ssl) != 1)
		rc = file_failed(err, "key", key);
	SSL_CTX_set_default_passwd_cb_userdata(ssl, NULL);
	if (rc < 0 && locked) {
		sc_err_set(err, rc, "cannot use the", "it is locked with a pass phrase");
		sc_err_on(err, "key", key);
		sc_err_next(err, "give one without: openssl pkey -in '%s' makes it", key);
	}
	return rc;
}

static int load_files(SSL_CTX *ssl, const struct sc_tls_files *f, struct sc_err *err)
{
	const char *key = f->key ? f->key : f->cert;

	if (f->ca && SSL_CTX_load_verify_file(ssl, f->ca) != 1)
		return file_failed(err, "CA file", f->ca);
	if (f->key && !f->cert)
		return sc_err_set(err, SC_E_USAGE, "cannot use the key",
				  "no certificate was given with it");
	if (f->cert && SSL_CTX_use_certificate_chain_file(ssl, f->cert) != 1)
		return file_failed(err, "certificate", f->cert);
	return key ? load_key(ssl, key, err) : 0;
}

/* METHOD, with what both ends have. */
static int context_new(const SSL_METHOD *method, struct sc_tls_context **ret_context,
		       struct sc_err *err)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct sc_tls_context *c = sc_calloc(1, sizeof(*c));

	pthread_once(&once, below_make);
	if (!c)
		return sc_err_nomem(err, "cannot set up TLS");
	c->ssl = SSL_CTX_new(method);
	if (!c->ssl || !below_method) {
		sc_tls_context_free(c);
		return sc_err_nomem(err, "cannot set up TLS");
	}
	SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION);
	SSL_CTX_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
					 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					 SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_default_passwd_cb(c->ssl, no_pass_phrase);
	*ret_context = c;
	return 0;
}

/* HTTP/1.1 is all we speak: who would like h2 as well is told so. */
static int choose_alpn(SSL *ssl, const unsigned char **ret_name, unsigned char *ret_len,
		       const unsigned char *offered, unsigned len, void *arg)
{
	static const unsigned char ours[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	if (SSL_select_next_proto((unsigned char **)ret_name, ret_len, ours, sizeof(ours) - 1,
				  offered, len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_NOACK;
	return SSL_TLSEXT_ERR_OK;
}

static int load_clients(SSL_CTX *ssl, const char *ca, struct sc_err *err)
{
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);

	if (!names)
		return file_failed(err, "CA file", ca);
	SSL_CTX_set_client_CA_list(ssl, names);
	SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	return 0;
}

int sc_tls_server_context_new(const struct sc_tls_files *files, struct sc_tls_context **ret_context,
			      struct sc_err *err)
{
	struct sc_tls_files own = { .ca = files->ca, .cert = files->cert, .key = files->key };
	struct sc_tls_context *c = NULL;
	int rc = context_new(TLS_server_method(), &c, err);

	if (rc < 0)
		return rc;
	c->insecure = true; /* there is no name to check */
	SSL_CTX_set_options(c->ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_session_id_context(c->ssl, (const unsigned char *)"sc", 2);
	SSL_CTX_set_alpn_select_cb(c->ssl, choose_alpn, NULL);
	ERR_clear_error();
	rc = load_files(c->ssl, &own, err);
	if (rc == 0 && files->ca)
		rc = load_clients(c->ssl, files->ca, err);
	if (rc < 0) {
		sc_tls_context_free(c);
		return rc;
	}
	*ret_context = c;
	return 0;
}

int sc_tls_context_new(const struct sc_tls_files *files, struct sc_tls_context **ret_context,
		       struct sc_err *err)
{
	static const unsigned char alpn[] = "\x08http/1.1";
	struct sc_tls_context *c = NULL;
	int rc = context_new(TLS_client_method(), &c, err);

	if (rc < 0)
		return rc;
	c->insecure = files->insecure;
	SSL_CTX_set_verify(c->ssl, files->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_alpn_protos(c->ssl, alpn, sizeof(alpn) - 1);
	SSL_CTX_set_read_ahead(c->ssl, 1); /* many records in one read(2) */
	SSL_CTX_set_default_read_buffer_len(c->ssl, 65536);
	if (!files->ca)
		SSL_CTX_set_default_verify_paths(
			c->ssl); /* without any, each certificate is refused */
	ERR_clear_error();
	rc = load_files(c->ssl, files, err);
	if (rc < 0) {
		sc_tls_context_free(c);
		return rc;
	}
	*ret_context = c;
	return 0;
}

void sc_tls_context_free(struct sc_tls_context *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ssl);
	free(c);
}

struct ssl_ctx_st *sc_tls_context_ssl(const struct sc_tls_context *c)
{
	return c->ssl;
}

static bool set_name(struct sc_tls *t)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(t->ssl);
	unsigned char address[16];
	size_t len = strcspn(t->name, "%");

	t->name[len] = '\0';
	if (inet_pton(AF_INET, t->name, address) == 1 || inet_pton(AF_INET6, t->name, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(param, t->name) == 1;
	if (len && t->name[len - 1] == '.')
		t->name[--len] = '\0'; /* the root's dot is in no certificate */
	SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(t->ssl, t->name) == 1 &&
	       SSL_set_tlsext_host_name(t->ssl, t->name) == 1;
}

/* T, with the transport that it names below it. */
static int put_below(struct sc_tls_context *c, struct sc_tls *t, struct sc_err *err)
{
	BIO *bio;

	t->insecure = c->insecure;
	t->ssl = SSL_new(c->ssl);
	bio = BIO_new(below_method);
	if (!t->ssl || !bio) {
		BIO_free(bio);
		ERR_clear_error();
		return sc_err_nomem(err, "cannot set up TLS");
	}
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	SSL_set_bio(t->ssl, bio, bio);
	return 0;
}

int sc_tls_new(struct sc_tls_context *c, const char *name, int fd, struct sc_tls *lower,
	       struct sc_tls **ret_tls, struct sc_err *err)
{
	struct sc_tls *t = sc_calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return sc_err_nomem(err, "cannot set up TLS");
	t->fd = fd;
	t->lower = lower;
	snprintf(t->name, sizeof(t->name), "%s", name);
	rc = put_below(c, t, err);
	if (rc == 0 && !set_name(t))
		rc = sc_err_nomem(err, "cannot set up TLS");
	if (rc < 0) {
		sc_tls_free(t);
		ERR_clear_error();
		return rc;
	}
	SSL_set_connect_state(t->ssl);
	*ret_tls = t;
	return 0;
}

int sc_tls_accept(struct sc_tls_context *c, int fd, struct sc_tls **ret_tls, struct sc_err *err)
{
	struct sc_tls *t = sc_calloc(1, sizeof(*t));
	int rc;

	if (!t)
		return sc_err_nomem(err, "cannot set up TLS");
	t->fd = fd;
	rc = put_below(c, t, err);
	if (rc < 0) {
		sc_tls_free(t);
		return rc;
	}
	SSL_set_accept_state(t->ssl);
	*ret_tls = t;
	return 0;
}

void sc_tls_free(struct sc_tls *t)
{
	if (!t)
		return;
	SSL_free(t->ssl);
	free(t);
}

/* What helps against a certificate that is not trusted. */
static const char *next_move(long verify)
{
	switch (verify) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "the server needs a new one, unless it is this machine's clock that is "
		       "wrong";
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "use the name that it is for, in the URL or with --server-name";
	default:
		return "give the authority's PEM file with --ca";
	}
}

/* What stopped the library: SC_TLS_READ, SC_TLS_WRITE, 0 at the peer's end, or a failure. */
static int stopped(struct sc_tls *t, int rc, const char *tried, struct sc_err *err)
{
	int why = SSL_get_error(t->ssl, rc);
	long verify = SSL_get_verify_result(t->ssl);
	unsigned long e;

	if (why == SSL_ERROR_WANT_READ)
		return SC_TLS_READ;
	if (why == SSL_ERROR_WANT_WRITE)
		return SC_TLS_WRITE;
	t->broken = true;
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (t->heard == SC_TLS_FOREIGN) {
		ERR_clear_error();
		return sc_err_set(err, SC_E_UNAVAILABLE, tried, "it speaks no TLS");
	}
	e = ERR_peek_last_error();
	if (why == SSL_ERROR_SYSCALL ||
	    (why == SSL_ERROR_SSL && ERR_GET_REASON(e) == SSL_R_UNEXPECTED_EOF_WHILE_READING)) {
		ERR_clear_error();
		if (t->errnum)
			return sc_err_sys(err, SC_E_UNAVAILABLE, t->errnum, tried);
		return sc_err_set(err, SC_E_UNAVAILABLE, tried,
				  "the peer ended the connection without a farewell");
	}
	if (verify != X509_V_OK && !t->insecure && !SSL_is_init_finished(t->ssl)) {
		ERR_clear_error();
		t->untrusted = true;
		sc_err_set(err, SC_E_UNAVAILABLE, "cannot trust the certificate of", "%s",
			   X509_verify_cert_error_string(verify));
		sc_err_on(err, "host", t->name);
		return sc_err_next(err, "%s", next_move(verify));
	}
	return sc_err_set(err, SC_E_UNAVAILABLE, tried, "%s", sc_tls_reason());
}

int sc_tls_handshake(struct sc_tls *t, struct sc_err *err)
{
	int rc;

	ERR_clear_error();
	rc = SSL_do_handshake(t->ssl);
	if (rc == 1)
		return 0;
	rc = stopped(t, rc, "cannot set up TLS with", err);
	if (rc == 0)
		return sc_err_set(err, SC_E_UNAVAILABLE, "cannot set up TLS with",
				  "the peer ended the connection");
	return rc;
}

ssize_t sc_tls_read(struct sc_tls *t, void *ret_data, size_t size, struct sc_err *err)
{
	int rc;

	ERR_clear_error();
	rc = SSL_read(t->ssl, ret_data, size > INT_MAX ? INT_MAX : (int)size);
	return rc > 0 ? rc : stopped(t, rc, "cannot read from the peer", err);
}

ssize_t sc_tls_write(struct sc_tls *t, const void *data, size_t len, struct sc_err *err)
{
	int rc;

	ERR_clear_error();
	rc = SSL_write(t->ssl, data, len > INT_MAX ? INT_MAX : (int)len);
	if (rc > 0)
		return rc;
	rc = stopped(t, rc, "cannot write to the peer", err);
	if (rc == 0)
		return sc_err_set(err, SC_E_UNAVAILABLE, "cannot write to the peer",
				  "it ended the connection");
	return rc;
}

bool sc_tls_untrusted(const struct sc_tls *t)
{
	return t->untrusted;
}

enum sc_tls_heard sc_tls_heard(const struct sc_tls *t)
{
	return t->heard;
}

void sc_tls_end(struct sc_tls *t)
{
	if (!t || t->broken || !SSL_is_init_finished(t->ssl))
		return;
	ERR_clear_error();
	(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}
