/*
 * net/server.h: a server for WebSocket subscribers and small HTTP answers on one port.
 *
 * Owns      the server owns its connections; a struct sc_conn is valid from the hook that first
 *           tells it until `closed` returned. What a hook gets (requests, messages, reasons) is
 *           borrowed until it returns.
 * Units     bytes and ms as the names say.
 * Errors    SC_E_CONFIG (addresses, certificates), SC_E_IO, SC_E_NOMEM; *err tells more.
 * Safety    the loop's thread; of the process's descriptors the last ones (an eighth, 8 to 128) are
 *           left to the rest of it: a connection that would need one gets 503. No hook is ever
 *           called from inside a function of this header, except by sc_server_free (`closed`);
 *           every sc_conn function may be called from every hook.
 * Source    RFC 6455, RFC 7692, RFC 9112; sd_listen_fds(3).
 *
 * A connection that was upgraded gets, in this order: upgrade, open, then message and writable,
 * then closed, once. A stream answer to a plain request (server-sent events) gets: http, then
 * writable, then closed, once. Everything else is answered from what `http` gave and forgotten.
 */
#ifndef SC_NET_SERVER_H
#define SC_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/say.h"
#include "net/loop.h"

struct sc_server;
struct sc_conn;

struct sc_request {
	struct sc_span method;        /* "GET" or "HEAD" */
	struct sc_span target;        /* byte for byte as it was sent, with its query, nothing decoded */
	struct sc_span authorization, origin, host, user_agent, accept; /* NULL data when absent */
	struct sc_span protocols;     /* Sec-WebSocket-Protocol */
	struct sc_span last_event_id; /* of server-sent events */
	const char *peer;             /* "127.0.0.1:40812", "[::1]:40812", "unix" */
	bool upgrade;                 /* asks for a WebSocket */
	bool tls;
	const void *fields;           /* for sc_request_field */
};
/* Any other field by its name (any case); NULL data when absent. */
struct sc_span sc_request_field(const struct sc_request *request, const char *name);

/* An answer. Texts must live until the hook returned. */
struct sc_reply {
	int status;            /* 0 accepts (upgrade, authorise); http must set one */
	const char *type;      /* NULL: "text/plain; charset=utf-8" */
	const char *fields;    /* more header lines, each with its CRLF; NULL for none */
	struct sc_span body;
	bool stream;           /* http: the body comes later, from `writable`; status must be 200 */
	const char *protocol;  /* upgrade: the subprotocol chosen, or NULL */
	bool plain;            /* upgrade: no permessage-deflate for this one */
};

enum sc_message { SC_TEXT = 1, SC_BINARY = 2 };

struct sc_server_hooks {
	/* May be NULL. Before upgrade and http: a status other than 0 refuses. */
	void (*authorise)(void *arg, const struct sc_request *request, struct sc_reply *reply);
	/* A WebSocket is asked for: reply->status 0 accepts. Use sc_conn_set_user to keep your
	 * own beside it; `closed` follows for sure once accepted. */
	void (*upgrade)(void *arg, struct sc_conn *conn, const struct sc_request *request, struct sc_reply *reply);
	void (*open)(void *arg, struct sc_conn *conn);
	/* May be NULL: all messages are discarded. Text is valid UTF-8. */
	void (*message)(void *arg, struct sc_conn *conn, enum sc_message kind, struct sc_span data);
	/* What sc_conn_want_write asked for: all that was taken before is with the kernel. */
	void (*writable)(void *arg, struct sc_conn *conn);
	/* code: as in Close frames; 1005 without one, 1006 lost, 1011 silent too long. by_peer:
	 * the peer closed first. An HTTP stream: 1000 ended, 1006 lost. */
	void (*closed)(void *arg, struct sc_conn *conn, int code, struct sc_span reason, bool by_peer);
	/* May be NULL: 404. */
	void (*http)(void *arg, struct sc_conn *conn, const struct sc_request *request, struct sc_reply *reply);
};

struct sc_server_options {
	/* HOST:PORT, [V6]:PORT, :PORT (127.0.0.1), *:PORT (every interface), unix:/PATH, fd:N. Port
	 * 0: a free one. */
	const char *const *listen;
	size_t listen_count;
	bool activation;             /* take the sockets that the service manager passed (LISTEN_FDS) as well */
	const char *cert, *key;      /* PEM files; both or none */
	const char *client_ca;       /* PEM: clients must show a certificate signed by one of these */
	const char *const *origins;  /* with any, a request with another Origin is refused (403) */
	size_t origin_count;
	size_t clients_max;          /* WebSockets and streams; more get 503. 0 = no limit */
	size_t per_address_max;      /* connections from one IP address; more get 503. 0 = no limit */
	size_t head_max_bytes;       /* more gets 431 */
	size_t message_max_bytes;    /* inbound; more gets 1009 */
	/* All connections together: what is half received, and what is not taken yet. Beyond it
	 * long answers get 503, and who brings or would be left with much more is closed with
	 * 1013. 0 = no limit */
	uint64_t memory_max_bytes;
	int64_t handshake_ms;        /* from accept to a whole request head; TLS included */
	int64_t idle_ms;             /* an HTTP answer or stream whose peer takes nothing for so long is cut */
	int64_t ping_ms, pong_ms;    /* a ping each ping_ms; no pong within pong_ms: 1011. ping_ms -1 = never */
	int64_t close_ms;            /* wait for the peer's Close */
	bool deflate;                /* accept permessage-deflate */
	int sndbuf_bytes;            /* SO_SNDBUF; 0 = the kernel's own */
};
/* The defaults: no address, 16 KiB head, 1 MiB messages, 10 s handshake, 60 s idle, 20 s + 20 s, 10
 * s close. */
void sc_server_options_init(struct sc_server_options *options);

/* Listens when it returns. Options and hooks are copied (texts too). */
int sc_server_new(struct sc_loop *loop, const struct sc_server_options *options, const struct sc_server_hooks *hooks,
		  void *arg, struct sc_server **ret_server, struct sc_err *err);
/* Cuts whoever is still there. Not from a hook. */
void sc_server_free(struct sc_server *server);
/* No new connections; Close with code to all; after grace_ms the rest is cut; then done, once. */
void sc_server_shutdown(struct sc_server *server, int code, const char *reason, int64_t grace_ms,
			void (*done)(void *arg), void *arg);
/* Read certificate, key and CA again, for connections to come; on failure the old ones stay. */
int sc_server_reload_tls(struct sc_server *server, struct sc_err *err);

/* The addresses it really listens on, "127.0.0.1:40213", "unix:/run/sc.sock"; NULL after the
 * last. */
const char *sc_server_address(const struct sc_server *server, size_t index);
int sc_server_port(const struct sc_server *server); /* of the first TCP address, or 0 */
/* As sc_listen_tell. */
int sc_server_tell(const struct sc_server *server, struct sc_span members, const char *about, int ready_fd,
		   void (*say)(enum sc_level level, const char *fields, const char *format, ...), struct sc_err *err);

struct sc_server_stats {
	uint64_t connections, clients;        /* now: sockets; WebSockets and streams */
	uint64_t accepted, opened;            /* ever: sockets; WebSockets and streams */
	uint64_t refused_now;                  /* now: connections kept only to be told 503 */
	uint64_t refused_limit, refused_origin, bad_requests, answers;
	uint64_t refused_auth;                 /* answers 401 and 403 of the hooks */
	uint64_t tls_failures, handshake_timeouts, protocol_errors, keepalive_drops, accept_failures;
	uint64_t messages_in, bytes_in, bytes_out;
	uint64_t memory_bytes, refused_memory; /* now: what memory_max_bytes is for; ever */
};
void sc_server_stats(const struct sc_server *server, struct sc_server_stats *ret_stats);

/* A connection. */

void sc_conn_set_user(struct sc_conn *conn, void *user);
void *sc_conn_user(const struct sc_conn *conn);
const char *sc_conn_peer(const struct sc_conn *conn);
/* `writable` will be called once, when all that was taken is with the kernel and it takes more.
 * Costs nothing. */
void sc_conn_want_write(struct sc_conn *conn);
/*
 * DATA is any number of whole ready-made WebSocket frames, unmasked. Returns how many of its bytes
 * were taken: whole frames always, fewer than LEN (0 too) when the peer is slow: keep the rest and
 * ask for writable. Nothing but the unsent end of one frame is copied. 0 on a connection that is
 * closing.
 */
size_t sc_conn_write_frames(struct sc_conn *conn, const void *data, size_t len);
/* One message, framed here, compressed when that was negotiated. False: not taken, the peer is
 * slow (ask for writable), or the connection is closing. Anything is taken when nothing waits. */
bool sc_conn_write_message(struct sc_conn *conn, enum sc_message kind, struct sc_span data);
/* The peer has closed, or its Close is in what was read of it already: whatever is sent now is for
 * nobody. */
bool sc_conn_leaves(struct sc_conn *conn);
/* What was taken goes to the kernel now, not in the connection's turn, which would take more at
 * once: for what somebody waits for. In a hook of this connection, whose turn it is: nothing. */
void sc_conn_hurry(struct sc_conn *conn);
bool sc_conn_compressed(const struct sc_conn *conn);
/* How much the caller itself keeps for this connection, in all: it counts for memory_max_bytes. */
void sc_conn_holds(struct sc_conn *conn, size_t bytes);
/* Whether BYTES more may be kept for it: always true for a few KiB. */
bool sc_conn_has_room(const struct sc_conn *conn, size_t bytes);
/* The caller refused something for want of room: counted. */
void sc_conn_refused(struct sc_conn *conn);
/* There is no room for what it should get next: it is cut (1013), and counted. */
void sc_conn_lose(struct sc_conn *conn);
/* Bytes of an HTTP stream: returns how many were taken. */
size_t sc_conn_write_stream(struct sc_conn *conn, const void *data, size_t len);
void sc_conn_end_stream(struct sc_conn *conn);
/* What was taken before is sent, then Close, then the echo is awaited. A reason longer than 123
 * bytes is cut at a letter. Again: nothing. On a stream it ends the stream. */
void sc_conn_close(struct sc_conn *conn, int code, struct sc_span reason);
void sc_conn_abort(struct sc_conn *conn);
/* While paused nothing is read, and no pong is missed as long as the peer takes what it is sent. */
void sc_conn_pause(struct sc_conn *conn);
void sc_conn_resume(struct sc_conn *conn);
/* Messages are checked but neither kept nor told: for subscribers. */
void sc_conn_discard(struct sc_conn *conn);

struct sc_conn_stats {
	uint64_t bytes_in, bytes_out, messages_in;
	int64_t opened_us;          /* wall */
	size_t waiting_bytes;       /* taken, not yet with the kernel */
};
void sc_conn_stats(const struct sc_conn *conn, struct sc_conn_stats *ret_stats);

#endif
