/*
 * Goal    the same server over TLS: frames intact at full speed, client certificates, new
 *         certificates by reload.
 * Method  certificates made by openssl(1) in a folder of the test's own; OpenSSL as the client.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server_peer.h"

static char dir[64], cert[96], key[96];

static void shell(const char *format, ...)
{
	char command[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command) != 0)
		FAIL("failed: %s", command);
}

static void make_cert(const char *name)
{
	shell("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
	      "-subj /CN=%s "
	      "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout %s/key.pem -out "
	      "%s/cert.pem 2>%s/log",
	      name, dir, dir, dir);
}

static void set_up(void)
{
	signal(SIGPIPE, SIG_IGN); /* our own client writes through OpenSSL */
	strcpy(dir, "/tmp/sc-tls-XXXXXX");
	CHECK(mkdtemp(dir));
	snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
	snprintf(key, sizeof(key), "%s/key.pem", dir);
	make_cert("first");
	app_options();
	app.options.cert = cert;
	app.options.key = key;
}

static void tear_down(void)
{
	app_end();
	shell("rm -rf %s", dir);
}

static ssize_t send_tls(struct peer *p, const void *data, size_t len)
{
	size_t n = 0;

	return SSL_write_ex(p->ssl, data, len, &n) == 1 ? (ssize_t)n : -1;
}

static ssize_t recv_tls(struct peer *p, void *data, size_t len)
{
	size_t n = 0;

	return SSL_read_ex(p->ssl, data, len, &n) == 1 ? (ssize_t)n : 0;
}

static SSL_CTX *client_ctx(bool with_cert)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());

	CHECK(ctx);
	if (with_cert) {
		CHECK(SSL_CTX_use_certificate_file(ctx, cert, SSL_FILETYPE_PEM) == 1);
		CHECK(SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1);
	}
	return ctx;
}

static bool dial_tls(struct peer *p, SSL_CTX *ctx)
{
	peer_init(p, peer_dial());
	p->ssl = SSL_new(ctx);
	p->send = send_tls;
	p->recv = recv_tls;
	SSL_set_fd(p->ssl, p->fd);
	return SSL_connect(p->ssl) == 1;
}

static void hang_up(struct peer *p)
{
	SSL_free(p->ssl);
	peer_close(p);
}

static struct peer peer;

static void frames_with_pings(struct peer *p, uint64_t count)
{
	uint64_t next = 0, pongs = 0;

	while (next < count) {
		unsigned first;
		struct sc_span payload;
		size_t whole;
		char want[FRAME_TEXT_MAX];

		if (next % 2000 == 0)
			peer_frame(p, 0x89, "tls", 3);
		CHECK(peer_look(p, &first, &payload, &whole));
		if (first == 0x8a) {
			CHECK(sc_span_is(payload, "tls"));
			pongs++;
		} else {
			CHECK_INT(first, 0x81);
			CHECK_INT(payload.len, frame_text(next, want));
			CHECK(memcmp(payload.data, want, payload.len) == 0);
			next++;
		}
		/* peer_drop moves all that is left: keep that short */
		peer_drop(p, whole);
	}
	CHECK(pongs > 3);
}

TEST(frames_are_intact_over_tls)
{
	SSL_CTX *ctx = client_ctx(false);

	set_up();
	app_start();
	CHECK(dial_tls(&peer, ctx));
	CHECK(strstr(peer_upgrade(&peer, "/frames?200000", ""), " 101 "));
	frames_with_pings(&peer, 200000);
	peer_expect_close(&peer, 1000);
	hang_up(&peer);
	CHECK(dial_tls(&peer, ctx));
	CHECK(strstr(peer_upgrade(&peer, "/echo", ""), " 101 "));
	for (size_t len = 1; len < 1000000; len = len * 3 + 1) {
		char *big = malloc(len);

		memset(big, 'z', len);
		peer_frame(&peer, 0x82, big, len);
		peer_expect(&peer, 0x82, big, len);
		free(big);
	}
	hang_up(&peer);
	CHECK(dial_tls(&peer, ctx));
	peer_puts(&peer, "GET /x HTTP/1.1\r\nHost: t\r\n\r\n");
	CHECK(strstr(peer_all(&peer), "\r\n\r\n/x"));
	hang_up(&peer);
	SSL_CTX_free(ctx);
	tear_down();
}

TEST(a_stalled_tls_reader_holds_little_and_gets_all_later)
{
	SSL_CTX *ctx = client_ctx(false);

	set_up();
	app.options.sndbuf_bytes = 65536;
	app_start();
	CHECK(dial_tls(&peer, ctx));
	CHECK(strstr(peer_upgrade(&peer, "/frames?300000", ""), " 101 "));
	for (int i = 0; i < 20; i++)
		peer_frame(&peer, 0x89, "tls", 3);
	usleep(300000); /* it is stalled by now, in the middle of a record */
	frames_with_pings(&peer, 300000);
	CHECK(app.waiting_max < 65536);
	hang_up(&peer);
	SSL_CTX_free(ctx);
	tear_down();
}

/* As many bytes of a request as came; the answer in plain text, since its sender reads no other. */
static void plain_text(const char *request)
{
	const char *answer;

	peer_init(&peer, peer_dial());
	peer_puts(&peer, request);
	answer = peer_all(&peer);
	CHECK(strstr(answer, "HTTP/1.1 400 Bad Request\r\n"));
	CHECK(strstr(answer,
		     "\r\n\r\nthis port speaks TLS: write the URL with https:// or wss://\n"));
	peer_close(&peer);
}

TEST(a_request_in_plain_text_is_told_what_to_write)
{
	set_up();
	app_start();
	plain_text("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
	plain_text("POST");
	WAIT_FOR(app_stats().tls_failures == 2 && app_stats().bad_requests == 2);
	tear_down();
}

TEST(broken_tls_is_dropped)
{
	set_up();
	app.options.handshake_ms = 200;
	app_start();
	peer_init(&peer, peer_dial());
	peer_put(&peer, "\x16\x03\x01\0\4\0\0\0\0", 9); /* not where a client begins */
	CHECK(!strstr(peer_all(&peer), "HTTP/1.1"));
	peer_close(&peer);
	WAIT_FOR(app_stats().tls_failures == 1);
	peer_init(&peer, peer_dial());
	peer_put(&peer, "\x16\x03\x01", 3); /* and silence */
	(void)peer_all(&peer);
	peer_close(&peer);
	WAIT_FOR(app_stats().handshake_timeouts == 1);
	tear_down();
}

TEST(clients_without_a_certificate_are_refused)
{
	SSL_CTX *with, *without;

	set_up();
	app.options.client_ca = cert;
	app_start();
	with = client_ctx(true);
	without = client_ctx(false);
	CHECK(dial_tls(&peer, with));
	CHECK(strstr(peer_upgrade(&peer, "/echo", ""), " 101 "));
	hang_up(&peer);
	/* With TLS 1.3 the client learns it after its own handshake. */
	if (dial_tls(&peer, without)) {
		(void)send_tls(&peer, "GET / HTTP/1.1\r\nHost: t\r\n\r\n", 27);
		CHECK_INT(recv_tls(&peer, peer.in, 100), 0);
	}
	hang_up(&peer);
	ERR_clear_error();
	WAIT_FOR(app_stats().tls_failures == 1);
	SSL_CTX_free(with);
	SSL_CTX_free(without);
	tear_down();
}

TEST(what_tls_says_by_itself_is_no_memory_for_who_does_not_listen)
{
	SSL_CTX *ctx = client_ctx(false);
	int updates = 0;

	set_up();
	app.options.sndbuf_bytes = 4096;
	app_start();
	CHECK(dial_tls(&peer, ctx));
	CHECK(strstr(peer_upgrade(&peer, "/echo", ""), " 101 "));
	/* each asks for one of the server's, which is never read */
	while (updates < 300000 && SSL_key_update(peer.ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
	       SSL_do_handshake(peer.ssl) == 1)
		updates++;
	CHECK(updates < 300000);
	WAIT_FOR(app.closed == 1);
	hang_up(&peer);
	ERR_clear_error();
	SSL_CTX_free(ctx);
	tear_down();
}

TEST(a_key_with_a_pass_phrase_is_refused_and_nobody_is_asked_for_it)
{
	struct sc_loop *loop;
	struct sc_server *server = NULL;
	static const char *const listen[] = { "127.0.0.1:0" };
	static const struct sc_server_hooks hooks;
	struct sc_server_options o;
	struct sc_err err;

	set_up();
	shell("openssl ec -in %s -aes128 -passout pass:secret -out %s/locked.pem 2>%s/log", key,
	      dir, dir);
	snprintf(key, sizeof(key), "%s/locked.pem", dir);
	CHECK_INT(sc_loop_new(&loop, &err), 0);
	sc_server_options_init(&o);
	o.listen = listen;
	o.listen_count = 1;
	o.cert = cert;
	o.key = key;
	/* a terminal would be asked through /dev/tty, or standard input */
	CHECK_INT(sc_server_new(loop, &o, &hooks, NULL, &server, &err), SC_E_CONFIG);
	CHECK(strstr(err.object, "locked.pem"));
	CHECK_STR(err.reason, "it is locked with a pass phrase");
	sc_loop_free(loop);
	shell("rm -rf %s", dir);
}

static void check_name(SSL_CTX *ctx, const char *want)
{
	char name[64];
	X509 *x;

	CHECK(dial_tls(&peer, ctx));
	x = SSL_get1_peer_certificate(peer.ssl);
	X509_NAME_get_text_by_NID(X509_get_subject_name(x), NID_commonName, name, sizeof(name));
	X509_free(x);
	CHECK_STR(name, want);
	hang_up(&peer);
}

TEST(a_new_certificate_by_reload_and_a_bad_one_changes_nothing)
{
	static struct peer old;
	SSL_CTX *ctx = client_ctx(false);

	set_up();
	app_start();
	check_name(ctx, "first");
	CHECK(dial_tls(&old, ctx));
	CHECK(strstr(peer_upgrade(&old, "/echo", ""), " 101 "));
	make_cert("second");
	app_command(CMD_RELOAD);
	CHECK_INT(app.order_faults, 0);
	check_name(ctx, "second");
	peer_frame(&old, 0x81, "old", 3);
	peer_expect(&old, 0x81, "old", 3);
	hang_up(&old);
	shell("echo nonsense >%s", cert);
	app_command(CMD_RELOAD);
	CHECK_INT(app.order_faults, 1);
	app.order_faults = 0;
	CHECK_INT(app.err.code, SC_E_CONFIG);
	check_name(ctx, "second");
	SSL_CTX_free(ctx);
	tear_down();
}
