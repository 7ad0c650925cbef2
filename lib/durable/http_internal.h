/*
 * durable/http_internal.h: connections and the threads that run them, for the http files of this
 * room.
 *
 * Owns      a shard owns its connections; a connection owns what its request needs.
 * Units     us of sc_mono_us, sizes in bytes.
 * Errors    as http.h.
 * Safety    a connection stays in its shard's thread. Other threads (the engine's writer, the
 *           thread that waits for signals) leave notes, and touch nothing else of it.
 * Source    RFC 9110, RFC 9112 (heads are read by net/http.h); epoll(7).
 *
 * So what wakes a connection, its timers, its socket and its end are events of one thread, one
 * after the other. A connection about which a note may still come is never freed: one that has
 * ended before is doomed, and goes with its note.
 */
#ifndef SC_DURABLE_HTTP_INTERNAL_H
#define SC_DURABLE_HTTP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/heap.h"
#include "durable/http.h"
#include "durable/http_fields.h"
#include "durable/http_log.h"
#include "durable/http_peers.h"
#include "durable/subs.h"
#include "durable/webhook.h"
#include "net/chunks.h"
#include "net/http.h"
#include "net/listen.h"
#include "net/tls.h"
#include "net/tokens.h"

#define SC_DS_NEVER INT64_MAX
#define SC_DS_SHARDS_MAX 64

enum { SC_DS_MAY_READ = 1, SC_DS_MAY_WRITE = 2, SC_DS_MAY_ADMIN = 4 };

/* What an event of a shard's epoll is about: the first member of the thing itself. */
enum sc_ds_source { SC_DS_WAKE, SC_DS_LISTENER, SC_DS_CONN, SC_DS_LINGERER };

struct sc_ds_note {
	struct sc_ds_note *next;
	struct sc_ds_conn *conn; /* NULL: a socket that another shard has accepted */
	int fd;
	struct sc_ds_peer peer;
};

enum sc_ds_phase {
	SC_DS_AT_HANDSHAKE, /* of TLS */
	SC_DS_AT_HEAD,      /* between two requests, and while a head comes */
	SC_DS_AT_BODY,      /* the head is there; the body comes, if there is one */
	SC_DS_AT_WRITING,   /* the engine has the call */
	SC_DS_AT_POLLING,   /* a long-poll waits */
	SC_DS_AT_SENDING,   /* an answer */
	SC_DS_AT_EVENTS     /* an answer that is SSE: a batch is sent, or it waits */
};

/* What comes after a step of a connection. */
enum sc_ds_step { SC_DS_GO_ON, SC_DS_STOP, SC_DS_END };

enum sc_ds_route {
	SC_DS_ROUTE_REFUSED, /* the answer is made */
	SC_DS_ROUTE_STREAM,
	SC_DS_ROUTE_LOG,
	SC_DS_ROUTE_OPTIONS,
	SC_DS_ROUTE_HEALTH,
	SC_DS_ROUTE_METRICS,
	SC_DS_ROUTE_RESERVED /* PREFIX/__ds */
};

struct sc_ds_conn {
	enum sc_ds_source source;
	struct sc_ds_shard *shard;
	struct sc_ds_conn *prev, *next; /* of the shard */
	int fd;
	struct sc_tls *tls; /* or NULL */
	struct sc_ds_peer peer;
	enum sc_ds_phase phase;
	bool readable;      /* there may be something to read */
	bool hung_up;       /* the peer sends no more */
	bool waiting;       /* for a note about a stream or a log */
	bool over;          /* the wait is, by time */
	bool resumed;       /* from a wait */
	bool doomed;        /* ended, but for a note */
	struct sc_ds_note note;
	atomic_bool noted;
	unsigned turns;     /* requests answered in this turn of the shard */
	/* the timer: due_us may move back without the heap being told */
	int64_t due_us;
	struct sc_heap_item timer;

	/* what came and was not looked at yet: a part of a head, what was pipelined */
	struct sc_bytes in;
	size_t looked;  /* of it, for the end of a head */
	/* what goes out: a head (or a chunk's), a body, what is behind a chunk */
	struct sc_bytes out;
	struct sc_span out_body, out_tail;
	size_t sent;    /* of the three together */

	/* the request; its spans are of `text`, `scratch` and `body` */
	enum sc_ds_route route;
	struct sc_bytes text; /* the head */
	char method[24];      /* cut to it */
	struct sc_span target;
	struct sc_bytes scratch, location;
	struct sc_span query, host, authorization, forwarded_host, forwarded_proto;
	struct sc_ds_call call; /* request and answer */
	struct sc_ds_sub_request *sub; /* of SC_DS_ROUTE_RESERVED, or NULL */
	struct sc_bytes body;
	uint64_t declared, discarded;
	struct sc_chunks chunks;
	uint64_t body_left;   /* of a declared length */
	bool old;             /* HTTP/1.0 */
	bool chunked, expects;
	bool collects;    /* the body is wanted */
	bool close_after; /* with this answer */
	bool live;        /* has waited: no figure for the durations */
	uint64_t held, held_out; /* counted in the face's budgets */
	int64_t started_us;
	int status; /* that was answered, 0: none yet */
	uint64_t sent_bytes;

	/* a read */
	struct sc_ds_reader reader;
	struct sc_ds_waiter waiter;
	struct sc_ds_log_wait log_wait;
	struct sc_ds_log_reader log_reader;
	size_t log_at;    /* which log */
	int64_t ends_us, comment_us;
};

#define SC_DS_METHOD_KINDS 7 /* the last is OTHER */
#define SC_DS_STATUS_KINDS 24
struct sc_ds_counts { /* written by the shard's thread, read by any */
	atomic_uint_fast64_t requests[SC_DS_METHOD_KINDS][SC_DS_STATUS_KINDS];
	atomic_uint_fast64_t buckets[SC_DS_METHOD_KINDS][SC_DS_BOUNDS + 1];
	atomic_uint_fast64_t sum_us[SC_DS_METHOD_KINDS];
	atomic_uint_fast64_t received_bytes, sent_bytes;
};

struct sc_ds_listener {
	enum sc_ds_source source;
	int fd;
};

struct sc_ds_lingerer {
	enum sc_ds_source source;
	int fd;
	int64_t until_us;
	struct sc_ds_lingerer *next;
};

struct sc_ds_shard {
	struct sc_ds_http *http;
	pthread_t thread;
	bool started;
	int epoll_fd, wake_fd;
	enum sc_ds_source wake_source;
	_Atomic(struct sc_ds_note *) notes;
	atomic_size_t noting; /* who leaves a note, which may be taken before they have woken us */
	struct sc_ds_listener *listeners; /* of the first shard */
	size_t listener_count;
	int64_t starved_us; /* no descriptors: accepts again then */
	bool accepting;
	struct sc_ds_conn conns; /* head of a ring */
	atomic_size_t conn_count;
	struct sc_heap timers;
	struct sc_ds_lingerer *lingerers;
	size_t lingerer_count;
	struct sc_log **logs;
	bool draining;
	int64_t now_us;
	int64_t date_s;     /* which second `date` says */
	char date[40];
	char *input;        /* what one read may bring */
	struct sc_ds_loan loan; /* while a read is answered */
	struct sc_ds_counts counts;
};
#define SC_DS_INPUT_BYTES 65536

struct sc_ds_http {
	struct sc_ds_http_options o;
	struct sc_ds_face face;
	struct sc_ds *ds;
	struct sc_span prefix; /* ends with '/' */
	struct sc_listen_list listen;
	struct sc_ds_shard *shards;
	size_t shard_count;
	pthread_rwlock_t tokens_lock;
	struct sc_tokens *tokens;
	struct sc_ds_peers peers;
	struct sc_ds_logs logs;
	struct sc_tls_context *tls; /* or NULL; tls_lock: replaced on SIGHUP */
	pthread_rwlock_t tls_lock;
	struct sc_bytes every; /* the fields of every answer, as lines */
	struct sc_ds_webhooks *webhooks; /* NULL: no subscriptions */
	int64_t began_us; /* wall */
	atomic_bool stopping, at_once;
	atomic_size_t clients;
	atomic_uint_fast64_t held, held_out, accepted, refused_clients;
	atomic_size_t waiting[2]; /* long-polls, SSE */
};

/* -- http_shard.c: the thread -- */
int sc_ds_shard_open(struct sc_ds_http *http, struct sc_ds_shard *shard, struct sc_err *err);
int sc_ds_shard_start(struct sc_ds_shard *shard, struct sc_err *err);
void sc_ds_shard_wake(struct sc_ds_shard *shard);
void sc_ds_shard_join(struct sc_ds_shard *shard);
void sc_ds_shard_close(struct sc_ds_shard *shard);
/* Any thread. NOTE is the shard's until it was taken. */
void sc_ds_shard_note(struct sc_ds_shard *shard, struct sc_ds_note *note);
/* A descriptor of a connection that ends: what still comes is read, so that the answer arrives. */
void sc_ds_shard_linger(struct sc_ds_shard *shard, int fd);

/* -- http_timer.c -- */
void sc_ds_conn_due(struct sc_ds_conn *conn, int64_t due_us);
void sc_ds_conn_forget(struct sc_ds_conn *conn);
/* The next connection that is due, or NULL; it has no timer then. */
struct sc_ds_conn *sc_ds_shard_due(struct sc_ds_shard *shard);
/* ms until the next is, -1 for never. */
int sc_ds_shard_timeout(const struct sc_ds_shard *shard);
int sc_ds_shard_timer_room(struct sc_ds_shard *shard, size_t conns);

/* -- http_accept.c -- */
void sc_ds_shard_accept(struct sc_ds_shard *shard, struct sc_ds_listener *listener);
/* Of this shard from now on. */
void sc_ds_shard_take(struct sc_ds_shard *shard, int fd, struct sc_ds_peer peer);
int sc_ds_shard_listen(struct sc_ds_shard *shard, bool on);

/* -- http_conn.c: the life of a connection -- */
int sc_ds_conn_open(struct sc_ds_shard *shard, int fd, struct sc_ds_peer peer);
/* What epoll says of its socket. */
void sc_ds_conn_event(struct sc_ds_conn *conn, uint32_t events);
void sc_ds_conn_noted(struct sc_ds_conn *conn);
void sc_ds_conn_timeout(struct sc_ds_conn *conn);
/* Waits for nobody, if it may: the shard is stopping. AT_ONCE: whatever it does. */
void sc_ds_conn_drain(struct sc_ds_conn *conn, bool at_once);
void sc_ds_conn_say(struct sc_ds_conn *conn, const struct sc_err *err);

/* -- http_input.c -- */
enum sc_ds_step sc_ds_conn_handshake(struct sc_ds_conn *conn);
enum sc_ds_step sc_ds_conn_read_head(struct sc_ds_conn *conn);
enum sc_ds_step sc_ds_conn_read_body(struct sc_ds_conn *conn);

/* -- http_output.c -- */
/* GO_ON: all is with the kernel. */
enum sc_ds_step sc_ds_conn_flush(struct sc_ds_conn *conn);
bool sc_ds_conn_flushed(const struct sc_ds_conn *conn);
/* The head in conn->out and the shard's loan behind it, as much as the socket takes; the loan is
 * over then. */
enum sc_ds_step sc_ds_conn_send_loan(struct sc_ds_conn *conn);

/* -- http_request.c: from a head to a route -- */
void sc_ds_conn_head(struct sc_ds_conn *conn, const struct sc_http_head *head);
void sc_ds_conn_refuse(struct sc_ds_conn *conn, int status, const char *error);
/* Whether its token allows what NEED says; false: refused. */
bool sc_ds_conn_may(struct sc_ds_conn *conn, unsigned need);
void sc_ds_conn_forget_request(struct sc_ds_conn *conn);

/* -- http_body.c -- */
/* false: refused, and the connection ends with the answer. */
bool sc_ds_conn_body(struct sc_ds_conn *conn, const char *data, size_t len);
/* Where the next LEN bytes of the body may be put; NULL: they go through sc_ds_conn_body. */
char *sc_ds_conn_body_room(struct sc_ds_conn *conn, size_t *ret_len);
void sc_ds_conn_body_came(struct sc_ds_conn *conn, size_t len);
/* Before anything of it is read. */
bool sc_ds_conn_body_fits(struct sc_ds_conn *conn);

/* -- http_work.c: what a route does -- */
enum sc_ds_step sc_ds_conn_work(struct sc_ds_conn *conn);
/* Gives conn->call to the engine, and waits. */
enum sc_ds_step sc_ds_conn_submit(struct sc_ds_conn *conn);
/* The note came, or the time is over. */
enum sc_ds_step sc_ds_conn_again(struct sc_ds_conn *conn);
/* One read of the stream or log of CONN into its answer. */
void sc_ds_conn_read(struct sc_ds_conn *conn);
/* 0: it waits; 1: read again; negative: the connection ends. */
int sc_ds_conn_wait(struct sc_ds_conn *conn, enum sc_ds_phase phase);
/* Nobody leaves a note about it any more; one may be on its way. */
void sc_ds_conn_unwait(struct sc_ds_conn *conn);

/* -- http_reply.c -- */
enum sc_ds_step sc_ds_conn_reply(struct sc_ds_conn *conn);
/* "http://HOST" as the client (or, when it is trusted, its proxy) knows this server, appended to
 * OUT. */
int sc_ds_conn_put_base(struct sc_ds_conn *conn, struct sc_bytes *out);
/* A head into conn->out. LENGTH -1: none is said. */
int sc_ds_conn_put_head(struct sc_ds_conn *conn, int64_t length);
/* Counts what the answer's body takes. */
void sc_ds_conn_charge(struct sc_ds_conn *conn);
void sc_ds_conn_uncharge(struct sc_ds_conn *conn);
void sc_ds_send_busy(struct sc_ds_http *http, int fd);

/* -- http_events.c -- */
enum sc_ds_step sc_ds_conn_events(struct sc_ds_conn *conn);
enum sc_ds_step sc_ds_conn_more_events(struct sc_ds_conn *conn);

/* -- http_pages.c -- */
void sc_ds_page_health(struct sc_ds_conn *conn);
void sc_ds_page_metrics(struct sc_ds_conn *conn);
void sc_ds_count(struct sc_ds_conn *conn);

/* -- http_reserved.c: PREFIX/__ds -- */
/* Where a request below the reserved name goes, and whether it may: before its body is taken. */
void sc_ds_reserved_head(struct sc_ds_conn *conn);
/* The answer; the body has been read. */
enum sc_ds_step sc_ds_reserved(struct sc_ds_conn *conn);
void sc_ds_reserved_forget(struct sc_ds_conn *conn);

#endif
