/*
 * tests/unit/net/peer.h: the other end of a client, for tests: a thread that runs a script on a
 * blocking socket.
 *
 * Each script is a function; what it finds wrong is kept (PEER_CHECK) and told by peer_stop in the
 * main thread. Reads give up after some seconds, so that a broken client ends a test instead of
 * hanging it.
 */
#ifndef SC_TESTS_PEER_H
#define SC_TESTS_PEER_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "../check.h"

struct peer {
	int listener, conn, port;
	char path[100];        /* of a unix socket */
	pthread_t thread;
	void (*script)(struct peer *p);
	SSL_CTX *tls;
	SSL *ssl, *outer;
	char request[16384];
	char key[64];
	char fault[300];
};

#define PEER_CHECK(P, COND) \
	do { \
		if (!(COND)) { \
			if (!(P)->fault[0]) \
				snprintf((P)->fault, sizeof((P)->fault), "%s:%d: peer: not true: %s", __FILE__, __LINE__, \
					 #COND); \
			return; \
		} \
	} while (0)

static inline void *peer_main(void *arg)
{
	struct peer *p = arg;

	p->script(p);
	SSL_free(p->ssl);
	SSL_free(p->outer);
	if (p->conn >= 0)
		close(p->conn);
	return NULL;
}

static inline void peer_start_at(struct peer *p, void (*script)(struct peer *p), const char *path)
{
	struct timeval limit = { 5, 0 };

	memset(p, 0, sizeof(*p));
	p->script = script;
	p->conn = -1;
	if (path) {
		struct sockaddr_un un = { .sun_family = AF_UNIX };

		snprintf(p->path, sizeof(p->path), "%s", path);
		snprintf(un.sun_path, sizeof(un.sun_path), "%s", path);
		p->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(bind(p->listener, (struct sockaddr *)&un, sizeof(un)) == 0);
	} else {
		struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		socklen_t len = sizeof(in);

		p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		CHECK(bind(p->listener, (struct sockaddr *)&in, sizeof(in)) == 0);
		CHECK(getsockname(p->listener, (struct sockaddr *)&in, &len) == 0);
		p->port = ntohs(in.sin_port);
	}
	setsockopt(p->listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	CHECK(listen(p->listener, 16) == 0);
	CHECK(pthread_create(&p->thread, NULL, peer_main, p) == 0);
}

static inline void peer_start(struct peer *p, void (*script)(struct peer *p))
{
	peer_start_at(p, script, NULL);
}

static inline void peer_stop(struct peer *p)
{
	pthread_join(p->thread, NULL);
	close(p->listener);
	if (p->path[0])
		unlink(p->path);
	if (p->fault[0])
		FAIL("%s", p->fault);
}

static inline void peer_hang_up(struct peer *p)
{
	if (p->conn >= 0)
		close(p->conn);
	p->conn = -1;
}

static inline bool peer_accept(struct peer *p)
{
	struct timeval limit = { 5, 0 };

	peer_hang_up(p);
	p->conn = accept(p->listener, NULL, NULL);
	if (p->conn < 0)
		return false;
	setsockopt(p->conn, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(p->conn, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	return true;
}

static inline bool peer_write(struct peer *p, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = p->ssl ? SSL_write(p->ssl, at, (int)len) : send(p->conn, at, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static inline bool peer_puts(struct peer *p, const char *text)
{
	return peer_write(p, text, strlen(text));
}

static inline bool peer_read(struct peer *p, void *data, size_t len)
{
	char *at = data;

	while (len) {
		ssize_t n = p->ssl ? SSL_read(p->ssl, at, (int)len) : recv(p->conn, at, len, 0);

		if (n <= 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static inline bool peer_at_end(struct peer *p)
{
	char c;

	return (p->ssl ? SSL_read(p->ssl, &c, 1) : recv(p->conn, &c, 1, 0)) <= 0;
}

/* A head, into p->request. */
static inline bool peer_read_head(struct peer *p)
{
	size_t n = 0;

	while (n < sizeof(p->request) - 1 && peer_read(p, p->request + n, 1)) {
		p->request[++n] = '\0';
		if (n >= 4 && !memcmp(p->request + n - 4, "\r\n\r\n", 4))
			return true;
	}
	return false;
}

static inline bool peer_asked(const struct peer *p, const char *line)
{
	char whole[1000];

	snprintf(whole, sizeof(whole), "\r\n%s\r\n", line);
	return strstr(p->request, whole) != NULL;
}

/* Read the request and answer 101; MORE: further header lines with their ends. */
static inline bool peer_upgrade(struct peer *p, const char *more)
{
	unsigned char digest[EVP_MAX_MD_SIZE], text[64];
	char both[128], head[1000];
	const char *key;
	unsigned len;

	if (!peer_read_head(p))
		return false;
	key = strstr(p->request, "Sec-WebSocket-Key: ");
	if (!key)
		return false;
	snprintf(both, sizeof(both), "%.24s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key + 19);
	EVP_Digest(both, strlen(both), digest, &len, EVP_sha1(), NULL);
	EVP_EncodeBlock(text, digest, (int)len);
	snprintf(head, sizeof(head), "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		 "Sec-WebSocket-Accept: %s\r\n%s\r\n", text, more);
	return peer_puts(p, head);
}

static inline bool peer_accept_upgrade(struct peer *p)
{
	return peer_accept(p) && peer_upgrade(p, "");
}

/* FIRST: the frame's first byte, 0x81 a whole text. */
static inline bool peer_frame(struct peer *p, int first, const void *data, size_t len)
{
	unsigned char head[10] = { (unsigned char)first };
	size_t n = 2;

	if (len < 126) {
		head[1] = (unsigned char)len;
	} else if (len < 65536) {
		head[1] = 126;
		head[2] = (unsigned char)(len >> 8);
		head[3] = (unsigned char)len;
		n = 4;
	} else {
		head[1] = 127;
		for (int i = 0; i < 8; i++)
			head[2 + i] = (unsigned char)((uint64_t)len >> (56 - 8 * i));
		n = 10;
	}
	return peer_write(p, head, n) && peer_write(p, data, len);
}

static inline bool peer_text(struct peer *p, const char *text)
{
	return peer_frame(p, 0x81, text, strlen(text));
}

/* A client's frame, which must be masked; its payload, NUL-terminated, at most 125 bytes. -1, or
 * the first byte. */
static inline int peer_read_frame(struct peer *p, char payload[126], size_t *ret_len)
{
	unsigned char head[2], mask[4];
	size_t len;

	if (!peer_read(p, head, 2) || !(head[1] & 0x80) || (head[1] & 0x7f) > 125 || !peer_read(p, mask, 4))
		return -1;
	len = head[1] & 0x7f;
	if (!peer_read(p, payload, len))
		return -1;
	for (size_t i = 0; i < len; i++)
		payload[i] ^= (char)mask[i & 3];
	payload[len] = '\0';
	*ret_len = len;
	return head[0];
}

static inline bool peer_expect(struct peer *p, int first, const char *want, size_t want_len)
{
	char payload[126];
	size_t len;
	int got = peer_read_frame(p, payload, &len);

	return got == first && len == want_len && !memcmp(payload, want, len);
}

/* The peer closes, the client must echo and wait for the end. */
static inline bool peer_close(struct peer *p, int code, const char *reason)
{
	char payload[125] = { (char)(code >> 8), (char)code };

	memcpy(payload + 2, reason, strlen(reason));
	return peer_frame(p, 0x88, payload, 2 + strlen(reason)) && peer_expect(p, 0x88, payload, 2);
}

#endif
