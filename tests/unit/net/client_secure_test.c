/*
 * Goal    TLS trusts only what it should, proxies are talked through, compressed messages are whole
 *         and bounded.
 * Method  certificates made here; the peer's thread plays proxy and server in one; zlib compresses.
 */
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <zlib.h>

#include "peer.h"
#include "watcher.h"

static struct peer peer;
static struct watcher w;
static char url[200], proxy[200];

/* Certificates. */

struct identity {
	EVP_PKEY *key;
	X509 *cert;
	char cert_path[64], key_path[64];
};

static void write_pem(char path[64], X509 *cert, EVP_PKEY *key)
{
	int fd;
	FILE *f;

	snprintf(path, 64, "/tmp/sc-client-test-XXXXXX");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	f = fdopen(fd, "w");
	CHECK(f != NULL);
	if (cert)
		PEM_write_X509(f, cert);
	if (key)
		PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL);
	fclose(f);
}

/* Self-signed, for the names in SAN ("DNS:localhost,IP:127.0.0.1"), valid from and to these seconds
 * from now. */
static void identity_make(struct identity *id, const char *san, long from_s, long to_s)
{
	X509_EXTENSION *ext;
	X509_NAME *name;

	id->key = EVP_EC_gen("P-256");
	id->cert = X509_new();
	CHECK(id->key && id->cert);
	X509_set_version(id->cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(id->cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(id->cert), from_s);
	X509_gmtime_adj(X509_getm_notAfter(id->cert), to_s);
	name = X509_get_subject_name(id->cert);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1,
				   0);
	X509_set_issuer_name(id->cert, name);
	X509_set_pubkey(id->cert, id->key);
	ext = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, san);
	CHECK(ext != NULL);
	X509_add_ext(id->cert, ext, -1);
	X509_EXTENSION_free(ext);
	CHECK(X509_sign(id->cert, id->key, EVP_sha256()) > 0);
	write_pem(id->cert_path, id->cert, NULL);
	write_pem(id->key_path, NULL, id->key);
}

static void identity_done(struct identity *id)
{
	unlink(id->cert_path);
	unlink(id->key_path);
	X509_free(id->cert);
	EVP_PKEY_free(id->key);
}

static struct identity server_id, client_id;
static bool ask_certificate;

static bool tls_accept(struct peer *p)
{
	SSL *ssl;

	if (!p->tls) {
		p->tls = SSL_CTX_new(TLS_server_method());
		SSL_CTX_use_certificate(p->tls, server_id.cert);
		SSL_CTX_use_PrivateKey(p->tls, server_id.key);
		if (ask_certificate) {
			X509_STORE_add_cert(SSL_CTX_get_cert_store(p->tls), client_id.cert);
			SSL_CTX_set_verify(p->tls,
					   SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
		}
	}
	ssl = SSL_new(p->tls);
	if (p->ssl) { /* TLS within TLS */
		BIO *below = BIO_new(BIO_f_ssl());

		BIO_set_ssl(below, p->ssl, BIO_NOCLOSE);
		p->outer = p->ssl;
		SSL_set_bio(ssl, below, below);
	} else {
		SSL_set_fd(ssl, p->conn);
	}
	p->ssl = ssl;
	return SSL_accept(ssl) == 1;
}

static void begin(void (*script)(struct peer *p), const char *scheme, const char *host)
{
	peer_start(&peer, script);
	watcher_init(&w);
	snprintf(url, sizeof(url), "%s://%s:%d/t", scheme, host, peer.port);
}

static void finish(const char *words)
{
	SSL_CTX *ctx;

	pthread_join(peer.thread, NULL);
	ctx = peer.tls;
	close(peer.listener);
	SSL_CTX_free(ctx);
	watcher_done(&w);
	if (peer.fault[0])
		FAIL("%s", peer.fault);
	CHECK_STR(w.words, words);
}

static void script_tls(struct peer *p)
{
	static char big[100000];
	char payload[126];
	size_t len;

	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, tls_accept(p));
	PEER_CHECK(p, peer_upgrade(p, ""));
	PEER_CHECK(p, peer_text(p, "one"));
	PEER_CHECK(p, peer_frame(p, 0x82, big, sizeof(big)));
	PEER_CHECK(p, peer_frame(p, 0x89, "x", 1));
	PEER_CHECK(p, peer_read_frame(p, payload, &len) == 0x8a);
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void script_tls_refused(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, !tls_accept(p) || peer_at_end(p));
}

static void tls_case(void (*script)(struct peer *p), const char *san, long from_s, long to_s,
		     const char *host, int mode, const char *words)
{
	identity_make(&server_id, san, from_s, to_s);
	begin(script, "wss", host);
	if (mode == 0)
		w.o.ca = server_id.cert_path;
	if (mode == 1)
		w.o.insecure = true;
	if (mode == 2) {
		w.o.ca = server_id.cert_path;
		w.o.server_name = "feed.example";
	}
	w.o.retry.tries = strstr(words, "open") ? 0 : -1;
	watcher_run(&w, url);
	identity_done(&server_id);
	finish(words);
}

TEST(a_certificate_of_the_given_authority_is_good)
{
	tls_case(script_tls, "DNS:localhost", -60, 3600, "localhost", 0,
		 "open t:one b:100000 lost:1000 end:unavailable");
	CHECK_STR(w.warning, "");
	tls_case(script_tls, "IP:127.0.0.1", -60, 3600, "127.0.0.1", 0,
		 "open t:one b:100000 lost:1000 end:unavailable");
	tls_case(script_tls, "DNS:feed.example", -60, 3600, "127.0.0.1", 2,
		 "open t:one b:100000 lost:1000 end:unavailable");
}

TEST(other_certificates_are_refused_and_not_tried_again)
{
	tls_case(script_tls_refused, "DNS:other", -60, 3600, "localhost", 0,
		 "fail:0 end:unavailable");
	CHECK(strstr(w.reason, "ostname mismatch"));
	tls_case(script_tls_refused, "DNS:localhost", -60, 3600, "127.0.0.1", 0,
		 "fail:0 end:unavailable");
	CHECK(strstr(w.reason, "IP address mismatch"));
	tls_case(script_tls_refused, "DNS:localhost", -3600, -60, "localhost", 0,
		 "fail:0 end:unavailable");
	CHECK(strstr(w.reason, "expired"));
	tls_case(script_tls_refused, "DNS:localhost", -60, 3600, "localhost", 3,
		 "fail:0 end:unavailable");
	CHECK(strstr(w.reason, "self"));
}

TEST(insecure_takes_any_and_warns)
{
	tls_case(script_tls, "DNS:other", -3600, -60, "localhost", 1,
		 "open t:one b:100000 lost:1000 end:unavailable");
	CHECK(strstr(w.warning, "not checked"));
}

TEST(a_certificate_of_our_own)
{
	identity_make(&client_id, "DNS:me", -60, 3600);
	identity_make(&server_id, "DNS:localhost", -60, 3600);
	ask_certificate = true;
	begin(script_tls, "wss", "localhost");
	w.o.ca = server_id.cert_path;
	w.o.cert = client_id.cert_path;
	w.o.key = client_id.key_path;
	watcher_run(&w, url);
	ask_certificate = false;
	identity_done(&server_id);
	identity_done(&client_id);
	finish("open t:one b:100000 lost:1000 end:unavailable");
}

static void script_not_tls(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 400 Bad Request\r\n\r\n"));
}

TEST(a_server_without_tls)
{
	begin(script_not_tls, "wss", "localhost");
	w.o.insecure = true;
	watcher_run(&w, url);
	finish("fail:0 end:unavailable");
}

/* Many messages through TLS: the library holds bytes that the socket knows nothing of. */

enum { MANY = 300000 };

static void script_tls_many(struct peer *p)
{
	static char frames[1000 * 52];

	for (size_t i = 0; i < 1000; i++) {
		memset(frames + i * 52, 'a', 52);
		memcpy(frames + i * 52, "\x81\x32", 2);
	}
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, tls_accept(p));
	PEER_CHECK(p, peer_upgrade(p, ""));
	for (int i = 0; i < MANY / 1000; i++)
		PEER_CHECK(p, peer_write(p, frames, sizeof(frames)));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void pause_tick(void *arg)
{
	struct watcher *on = arg;

	if (sc_client_paused(on->client))
		sc_client_resume(on->client);
	else
		sc_client_pause(on->client);
	sc_timer_start(on->tick, 1);
}

static void pause_act(struct watcher *on, const char *word)
{
	if (!strcmp(word, "open"))
		sc_timer_start(on->tick, 1);
}

TEST(tls_with_pauses_loses_nothing)
{
	identity_make(&server_id, "DNS:localhost", -60, 3600);
	begin(script_tls_many, "wss", "localhost");
	w.o.ca = server_id.cert_path;
	w.o.ahead_max = 50000;
	w.count_only = true;
	w.act = pause_act;
	CHECK_OK(sc_timer_new(w.loop, pause_tick, &w, &w.tick, &err), &err);
	watcher_run(&w, url);
	identity_done(&server_id);
	finish("open lost:1000 end:unavailable");
	CHECK_INT(w.count, MANY);
}

/* Proxies: the peer is the proxy, and then the server behind it. */

static void proxied(void (*script)(struct peer *p), const char *target, const char *scheme,
		    const char *words)
{
	identity_make(&server_id, "DNS:localhost,DNS:feed.example", -60, 3600);
	begin(script, "ws", "x");
	w.o.ca = server_id.cert_path;
	snprintf(proxy, sizeof(proxy), "%s%s:%d", scheme,
		 strstr(scheme, "https") ? "localhost" : "127.0.0.1", peer.port);
	w.o.proxy = proxy;
	watcher_run(&w, target);
	identity_done(&server_id);
	finish(words);
}

static void serve(struct peer *p)
{
	PEER_CHECK(p, peer_upgrade(p, ""));
	PEER_CHECK(p, strstr(p->request, "GET /t HTTP/1.1\r\nHost: feed.example"));
	PEER_CHECK(p, !strstr(p->request, "Proxy-"));
	PEER_CHECK(p, peer_text(p, "hi"));
	PEER_CHECK(p, peer_close(p, 1000, ""));
}

static void script_connect(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	PEER_CHECK(p, !strncmp(p->request, "CONNECT feed.example:80 HTTP/1.1\r\n", 34));
	PEER_CHECK(p, peer_asked(p, "Proxy-Authorization: Basic dTpwdw=="));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 200 OK\r\n\r\n"));
	serve(p);
}

static void script_connect_tls(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	PEER_CHECK(p, !strncmp(p->request, "CONNECT feed.example:443 ", 25));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 200 OK\r\n\r\n"));
	PEER_CHECK(p, tls_accept(p));
	serve(p);
}

static void script_secure_connect_tls(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, tls_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 200 OK\r\n\r\n"));
	PEER_CHECK(p, tls_accept(p));
	serve(p);
}

TEST(http_proxies)
{
	proxied(script_connect, "ws://feed.example/t", "http://u:pw@",
		"open t:hi lost:1000 end:unavailable");
	CHECK(strstr(w.where, "feed.example:80 through proxy 127.0.0.1:"));
	proxied(script_connect_tls, "wss://feed.example/t", "http://",
		"open t:hi lost:1000 end:unavailable");
	proxied(script_secure_connect_tls, "wss://feed.example/t", "https://",
		"open t:hi lost:1000 end:unavailable");
}

static void script_407(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p) && peer_read_head(p));
	PEER_CHECK(p, peer_puts(p, "HTTP/1.1 407 Who are you\r\n\r\n"));
}

TEST(a_proxy_that_wants_a_password)
{
	proxied(script_407, "ws://feed.example/t", "http://", "fail:0 end:not_authorised");
	CHECK(strstr(w.reason, "407 Who are you"));
}

static void script_socks(struct peer *p)
{
	char asked[19];

	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read(p, asked, 4) && !memcmp(asked, "\5\2\0\2", 4));
	PEER_CHECK(p, peer_write(p, "\5\2", 2));
	PEER_CHECK(p, peer_read(p, asked, 6) && !memcmp(asked, "\1\1u\2pw", 6));
	PEER_CHECK(p, peer_write(p, "\1\0", 2));
	PEER_CHECK(p, peer_read(p, asked, 19) && !memcmp(asked,
							 "\5\1\0\3\x0c"
							 "feed.example\x01\xbb",
							 19));
	PEER_CHECK(p, peer_write(p, "\5\0\0\1\1\2\3\4\5\6", 10));
	PEER_CHECK(p, tls_accept(p));
	serve(p);
}

TEST(socks_proxies)
{
	proxied(script_socks, "wss://feed.example/t", "socks5://u:pw@",
		"open t:hi lost:1000 end:unavailable");
}

TEST(the_proxy_of_the_environment)
{
	begin(script_connect, "ws", "x");
	snprintf(proxy, sizeof(proxy), "http://u:pw@127.0.0.1:%d", peer.port);
	setenv("http_proxy", proxy, 1);
	w.o.proxy = NULL;
	watcher_run(&w, "ws://feed.example/t");
	unsetenv("http_proxy");
	finish("open t:hi lost:1000 end:unavailable");
}

/* permessage-deflate. */

static z_stream deflater;

static size_t squeeze(const char *text, size_t len, char *ret, size_t size)
{
	deflater.next_in = (unsigned char *)(uintptr_t)text;
	deflater.avail_in = (unsigned)len;
	deflater.next_out = (unsigned char *)ret;
	deflater.avail_out = (unsigned)size;
	CHECK(deflate(&deflater, Z_SYNC_FLUSH) == Z_OK && deflater.avail_out > 0);
	return size - deflater.avail_out - 4;
}

static char squeezed[4][70000];
static size_t squeezed_len[4];
static const char *extension;

static void script_deflate(struct peer *p)
{
	char head[200];

	PEER_CHECK(p, peer_accept(p));
	snprintf(head, sizeof(head), "Sec-WebSocket-Extensions: %s\r\n", extension);
	PEER_CHECK(p, peer_upgrade(p, head));
	PEER_CHECK(
		p,
		peer_asked(p,
			   "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"));
	PEER_CHECK(p, peer_frame(p, 0xc1, squeezed[0], squeezed_len[0]));
	PEER_CHECK(p, peer_frame(p, 0x41, squeezed[1], 3));
	PEER_CHECK(p, peer_frame(p, 0x89, "", 0));
	PEER_CHECK(p, peer_frame(p, 0x80, squeezed[1] + 3, squeezed_len[1] - 3));
	PEER_CHECK(p, peer_text(p, "plain"));
	PEER_CHECK(p, peer_frame(p, 0xc2, squeezed[2], squeezed_len[2]));
	while (!peer_at_end(p))
		;
}

static void deflated(const char *answer, bool takeover, const char *third, size_t third_len,
		     const char *words)
{
	static const char text[] = "a text that comes twice, a text that comes twice";

	memset(&deflater, 0, sizeof(deflater));
	CHECK(deflateInit2(&deflater, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) == Z_OK);
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			squeezed_len[i] = squeeze(third, third_len, squeezed[i],
						  sizeof(squeezed[i]));
		else
			squeezed_len[i] = squeeze(text, sizeof(text) - 1, squeezed[i],
						  sizeof(squeezed[i]));
		if (!takeover)
			deflateReset(&deflater);
	}
	deflateEnd(&deflater);
	CHECK(!takeover || squeezed_len[1] < squeezed_len[0] / 2); /* the window is in use */
	extension = answer;
	begin(script_deflate, "ws", "127.0.0.1");
	w.o.message_max = 5000;
	w.stop = "b:";
	watcher_run(&w, url);
	sc_client_free(w.client);
	w.client = NULL;
	finish(words);
}

#define TWICE "t:a text that comes twice, a text that comes twice "

TEST(compressed_messages)
{
	static char zeros[4000000];

	deflated("permessage-deflate", true, zeros, 5000, "open " TWICE TWICE "t:plain b:5000");
	CHECK(w.compressed);
	deflated("permessage-deflate; server_no_context_takeover; client_max_window_bits=15", false,
		 zeros, 10, "open " TWICE TWICE "t:plain b:10");
	/* a bomb: 4 kB that would be 4 MB */
	deflated("permessage-deflate; server_max_window_bits=15", true, zeros, sizeof(zeros),
		 "open " TWICE TWICE "t:plain lost:1006 end:protocol");
	CHECK(strstr(w.reason, "5000 bytes"));
}

static void script_extension(struct peer *p)
{
	char head[200];

	PEER_CHECK(p, peer_accept(p));
	snprintf(head, sizeof(head), "Sec-WebSocket-Extensions: %s\r\n", extension);
	PEER_CHECK(p, peer_upgrade(p, head));
	if (!strcmp(extension, "permessage-deflate"))
		(void)peer_frame(p, 0xc1, "\xff\xff\xff",
				 3); /* refused already, it may have left */
	while (!peer_at_end(p))
		;
}

TEST(extensions_that_were_not_offered)
{
	static const char *const answers[] = {
		"x-other",
		"permessage-deflate; what=1",
		"permessage-deflate, permessage-deflate",
		"permessage-deflate; server_max_window_bits=7",
		"permessage-deflate; server_max_window_bits",
		"permessage-deflate; server_no_context_takeover; server_no_context_takeover",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		extension = answers[i];
		begin(script_extension, "ws", "127.0.0.1");
		watcher_run(&w, url);
		finish("fail:0 end:protocol");
	}
	extension = "permessage-deflate";
	begin(script_extension, "ws", "127.0.0.1");
	w.o.compress = false;
	watcher_run(&w, url);
	finish("fail:0 end:protocol");
	begin(script_extension, "ws", "127.0.0.1");
	watcher_run(&w, url);
	finish("open lost:1006 end:protocol");
}
