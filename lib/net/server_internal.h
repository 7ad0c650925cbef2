/*
 * net/server_internal.h: what the parts of the server share: the server, its connections, TLS,
 * compression.
 *
 * Owns      as net/server.h.
 * Units     bytes, ms and us as the names say.
 * Errors    as net/server.h.
 * Safety    the loop's thread.
 * Source    our own.
 *
 * server.c accepts, counts, stops. server_conn.c moves bytes: the order of what is written, turns,
 * time-outs. server_input.c takes what comes. server_http.c answers a request head. server_ws.c acts on frames.
 * server_tls.c and server_deflate.c hide the libraries.
 */
#ifndef SC_NET_SERVER_INTERNAL_H
#define SC_NET_SERVER_INTERNAL_H

#include <netinet/in.h>

#include "net/frame.h"
#include "net/http.h"
#include "net/inflate.h"
#include "net/listen.h"
#include "net/loop_internal.h"
#include "net/server.h"
#include "net/tls.h"

enum {
	SC_CONN_SCRATCH = 65536,      /* read at once */
	SC_CONN_READ_TURN = 4,        /* reads of that size before others have their turn */
	SC_CONN_OUT_BATCH = 65536,    /* framed here, so much may wait */
	SC_CONN_LINGER_MS = 2000,
	SC_CONN_REASON_MAX = 123,
	SC_CONN_DISCARD_MAX = 65536,  /* largest message of a connection whose messages are discarded */
	SC_CONN_FREE = 8192,          /* a connection may hold that much however full memory is */
};

enum sc_conn_state {
	SC_CONN_HEAD,      /* TLS handshake, request head */
	SC_CONN_OPEN,      /* a WebSocket */
	SC_CONN_STREAM,    /* an HTTP answer without an end yet */
	SC_CONN_CLOSING,   /* our Close is on its way, or sent: the peer's is awaited */
	SC_CONN_FLUSH,     /* the last bytes are on their way, then LINGER */
	SC_CONN_LINGER,    /* our side is shut; what comes is thrown away, so that the peer can read our last bytes */
	SC_CONN_DEAD,      /* to be freed by its task */
};

struct sc_conn {
	struct sc_server *server;
	struct sc_conn *prev, *next;              /* all of the server */
	struct sc_conn *address_next;             /* in its bucket */
	struct sc_watch *watch;
	struct sc_timer *timer;
	struct sc_task task;
	struct sc_server_tls_conn *tls;
	void *user;
	int fd;
	enum sc_conn_state state;
	bool can_read, can_write;                 /* by edge */
	bool ends;                                /* reading comes to an end: a short read is not all */
	bool turning;                             /* in its turn, which ends with what it writes in it */
	bool want, paused, discard, told;         /* told: `closed` is due */
	bool eof;                                 /* the peer's side is shut */
	bool counted;                             /* in stats.clients */
	bool refuse;                              /* over a limit: 503 whatever it asks */
	bool head_only;                           /* HEAD: no body */
	bool close_sent, close_got, by_peer;
	bool ping_due, ping_sent;                 /* a ping waits for its turn; its pong is awaited */
	bool pong_due;
	bool local;                               /* unix socket */
	unsigned char pong[125];
	uint8_t pong_len;
	int code;                                 /* for `closed` */
	char reason[SC_CONN_REASON_MAX];
	uint8_t reason_len;
	struct in6_addr address;                  /* IPv4 mapped */
	char peer[56];
	struct sc_bytes in;                       /* a head that is not whole; later what came while paused */
	size_t in_seen;                           /* of the head, searched for its end */
	struct sc_bytes out;                      /* whole frames or their end, before anything else */
	struct sc_frame_reader reader;
	struct sc_span ahead;                     /* read, and behind the message that is being told */
	bool ahead_known, close_ahead;            /* whether a Close is in it */
	struct sc_server_deflate *deflate;        /* NULL without permessage-deflate */
	uint64_t bytes_in, bytes_out, messages_in;
	size_t held, weighed;                     /* kept for it by the user; counted of it in stats.memory_bytes */
	int64_t opened_us;
	int64_t acked;                            /* bytes out less bytes in the kernel, at the last look */
};

#define SC_SERVER_BUCKETS 1024

struct sc_server {
	struct sc_loop *loop;
	struct sc_server_options options;
	struct sc_server_hooks hooks;
	void *arg;
	char **texts;                             /* copies for options */
	size_t text_count;
	struct sc_listen_list listeners;
	struct sc_watch **listen_watches;
	struct accept_arg { struct sc_server *server; size_t index; } *accept_args;
	struct sc_timer *accept_timer;            /* after the descriptors ran out */
	bool accept_rests;
	struct sc_conn *conns;
	struct sc_conn *buckets[SC_SERVER_BUCKETS];
	struct sc_tls_context *tls;               /* or NULL */
	struct sc_inflate *inflate;
	struct sc_server_stats stats;
	uint64_t peak;                            /* connections, since memory was last given back */
	int fd_limit;                             /* descriptors from here on are not for connections */
	char *scratch, *plain;                    /* SC_CONN_SCRATCH each; plain with TLS only */
	bool stopping;
	struct sc_timer *grace;
	struct sc_task done_task;
	void (*done)(void *arg);
	void *done_arg;
	int stop_code;
	char stop_reason[SC_CONN_REASON_MAX];
	size_t stop_reason_len;
};

/* server.c */
void sc_server_forget(struct sc_conn *conn);             /* out of every list and count, `closed` told; not freed */

/* server_conn.c */
int sc_conn_new(struct sc_server *server, int fd, const struct sockaddr *peer, socklen_t len, bool refuse,
		struct sc_conn **ret_conn);
void sc_conn_free(struct sc_conn *conn);
void sc_conn_kick(struct sc_conn *conn);                 /* its turn comes */
void sc_conn_kill(struct sc_conn *conn, int code);       /* dead, to be freed in its turn */
void sc_conn_finish(struct sc_conn *conn);               /* send what is there, then linger, then end */
/* OPEN or STREAM: time-outs of that */
void sc_conn_open(struct sc_conn *conn, enum sc_conn_state state);
void sc_conn_begin_close(struct sc_conn *conn);          /* code and reason are set; puts Close in order */
bool sc_conn_tls_flush(struct sc_conn *conn);            /* what TLS has ready; true when none of it is left */

void sc_conn_weigh(struct sc_conn *conn);                /* what it holds has changed */

/* server_input.c: what can be read, until it is paused or others have waited long enough */
void sc_conn_input(struct sc_conn *conn);

/* server_http.c: a whole head is at the front of conn->in */
void sc_server_request(struct sc_conn *conn, size_t head_len);
void sc_server_refuse(struct sc_conn *conn, int status, const char *fields, const char *why);

/* server_ws.c: returns how many bytes were used (fewer when it was paused or ended) */
size_t sc_server_frames(struct sc_conn *conn, char *data, size_t len);

/* server_tls.c: TLS in memory; the caller moves the bytes */
struct sc_server_tls_conn;
int sc_server_tls_new(const struct sc_server_options *options, struct sc_tls_context **ret_context,
		struct sc_err *err);
struct sc_server_tls_conn *sc_server_tls_begin(const struct sc_tls_context *context);
void sc_server_tls_end(struct sc_server_tls_conn *conn);
int sc_server_tls_feed(struct sc_server_tls_conn *conn, const void *data, size_t len);
/* >0 plain bytes; 0 none now; -1 failed or ended. *ret_end: by the peer's close_notify. */
ssize_t sc_server_tls_read(struct sc_server_tls_conn *conn, void *ret_data, size_t size,
		bool *ret_end);
/* all of it */
int sc_server_tls_write(struct sc_server_tls_conn *conn, const void *data, size_t len);
bool sc_server_tls_ready(const struct sc_server_tls_conn *conn);          /* the handshake is over */
size_t sc_server_tls_waiting(struct sc_server_tls_conn *conn, const char **ret_data);
void sc_server_tls_sent(struct sc_server_tls_conn *conn, size_t len);
void sc_server_tls_bye(struct sc_server_tls_conn *conn);

/* server_deflate.c */
/* The first offer that can be met. *ret_answer: the value for Sec-WebSocket-Extensions, at most 120
 * bytes. */
struct sc_server_deflate *sc_server_deflate_agree(const struct sc_http_head *head,
		char ret_answer[128]);
void sc_server_deflate_free(struct sc_server_deflate *deflate);
/* Payload of one compressed message, borrowed until the next call; NULL data: out of memory. */
struct sc_span sc_server_deflate_message(struct sc_server_deflate *deflate, struct sc_span message);
void sc_server_deflate_trim(struct sc_server_deflate *deflate); /* what a long one left behind */

#endif
