/*
 * net/client_internal.h: the parts of the client. client.c decides; client_options.c copies what
 * was asked for; client_link.c is one connection, client_open.c its way until it is open,
 * client_request.c the request and its answer, client_scheme.c what shows that the scheme is wrong.
 *
 * Owns      as net/client.h; a link belongs to its client, one at a time.
 * Units     us where the names say so, else as net/client.h.
 * Errors    as net/client.h.
 * Safety    the loop's thread.
 * Source    our own.
 */
#ifndef SC_NET_CLIENT_INTERNAL_H
#define SC_NET_CLIENT_INTERNAL_H

#include "net/client.h"
#include "net/dial.h"
#include "net/frame.h"
#include "net/httphead.h"
#include "net/inflate.h"
#include "net/loop_internal.h"
#include "net/proxy.h"
#include "net/tls.h"
#include "net/url.h"

#define SC_CLIENT_READ_SIZE (256u << 10)
#define SC_CLIENT_HEAD_MAX 16384u
#define SC_CLIENT_WHERE 640

enum sc_link_state {
	SC_LINK_DIAL,
	SC_LINK_PROXY_TLS,
	SC_LINK_PROXY,
	SC_LINK_TLS,
	SC_LINK_UPGRADE,
	SC_LINK_OPEN,
	SC_LINK_CLOSING,  /* our close frame is out or on its way, the peer's is awaited */
	SC_LINK_DRAINING, /* nothing more is said; the peer's end of the connection is awaited */
	SC_LINK_OVER,     /* told to the client; to be freed */
};

struct sc_link {
	struct sc_client *client;
	enum sc_link_state state;
	struct sc_url url;
	struct sc_proxy proxy;
	char where[SC_CLIENT_WHERE], address[160];
	struct sc_dial *dial;
	int fd;
	struct sc_watch *watch;
	struct sc_timer *timer;
	struct sc_task again;          /* there may be more to read, though the socket does not say so */
	struct sc_tls *proxy_tls, *tls, *top; /* top: the one to talk through, or NULL */
	struct sc_proxy_talk talk;
	bool talking, hung, read_wants_write, write_wants_read;
	int write_errnum;              /* a write failed; what the peer sent before is still read */
	struct sc_bytes out;
	size_t out_at;
	bool told_busy;
	bool in_io;                    /* which asks for events at its end */
	char *in;                      /* SC_CLIENT_READ_SIZE, the client's */
	size_t in_at, in_len;          /* what is not looked at yet */
	char key[32];                  /* Sec-WebSocket-Key */
	struct sc_frame_reader reader;
	struct sc_inflate *inflate;
	int64_t begun_us, opened_us, deadline_us, last_read_us, last_message_us, next_ping_us, ping_us, wall_us;
	bool ping_waits, proved, compressed;
	char subprotocol[128];
	/* how it ended */
	bool caused;
	struct sc_err cause;
	int status;
	struct sc_span refusal_fields; /* in the client's `in` */
	int64_t retry_after_ms;
	uint16_t close_code;
	char close_reason[124];
	size_t close_reason_len;
	bool close_sent, close_got, final;
	uint64_t messages, bytes;
};

struct sc_client {
	struct sc_loop *loop;
	struct sc_client_options o;    /* texts are our own */
	struct sc_client_hooks hooks;
	void *arg;
	struct sc_tls_context *tls;
	struct sc_link *link;
	struct sc_timer *wait;
	struct sc_task task;
	char *in;
	struct sc_bytes held;          /* messages not told yet, each behind a struct held_head */
	size_t held_at;
	bool paused, closing, reconnect, over, freed, batch_due, ever_open;
	bool start;                    /* connect in the next task */
	int depth;                     /* inside how many of our callbacks */
	int64_t failures;
	int64_t down_since_us, trouble_since_us; /* -1: not */
	uint64_t number;
};

/* client.c, for the link. */
void sc_client_enter(struct sc_client *c);
void sc_client_leave(struct sc_client *c); /* may free the client and its link */
void sc_client_warn(struct sc_client *c, const char *text);
int sc_client_take_message(struct sc_client *c, const struct sc_client_message *message,
		struct sc_err *err);
bool sc_client_full(const struct sc_client *c); /* no more may be read now */
void sc_client_batch(struct sc_client *c);
void sc_client_link_opened(struct sc_client *c, const struct sc_httphead *head);
void sc_client_link_over(struct sc_client *c);

/* client_options.c */
int sc_client_options_copy(const struct sc_client_options *from,
		struct sc_client_options *ret_copy, struct sc_err *err);
void sc_client_options_done(struct sc_client_options *o);

/* client_link.c */
int sc_link_new(struct sc_client *c, struct sc_link **ret_link, struct sc_err *err);
void sc_link_free(struct sc_link *l);
int sc_link_send(struct sc_link *l, struct sc_span payload, bool binary, struct sc_err *err);
/* Graceful where it is open, else at once; code 0 as the cause. */
void sc_link_close(struct sc_link *l, uint16_t code, const char *reason);
void sc_link_resume(struct sc_link *l);
bool sc_link_reading(const struct sc_link *l);
void sc_link_watch(struct sc_link *l);               /* ask for the events that the state needs */
void sc_link_arm(struct sc_link *l);                 /* the same for the timer */
void sc_link_cause(struct sc_link *l, const struct sc_err *err); /* the first one counts */
void sc_link_over(struct sc_link *l);
void sc_link_fail(struct sc_link *l, const struct sc_err *err);  /* cause and over */
/* as sc_tls_read */
ssize_t sc_link_read(struct sc_link *l, void *data, size_t size, struct sc_err *err);
int sc_link_flush(struct sc_link *l, struct sc_err *err);
void sc_link_opened(struct sc_link *l, const struct sc_httphead *head, bool compressed,
		bool takeover);

/* client_open.c */
void sc_link_begin(struct sc_link *l);
void sc_link_advance(struct sc_link *l); /* as far as it goes without waiting */
void sc_link_late(struct sc_link *l);    /* its time is over: fail */

/* client_scheme.c: TLS where the URL says none, or the other way round. */
/* Does this answer, the first that ever came, show that TLS is wanted? Then *err says so, and no
 * other try helps. */
bool sc_link_scheme_wrong(struct sc_link *l, struct sc_span answer, struct sc_err *err);
/* ERR is of a handshake that failed: was the answer no TLS? */
void sc_link_scheme_refused(struct sc_link *l, const struct sc_tls *tls, struct sc_err *err);
/* ERR ended the connection: may it be for that? */
void sc_link_scheme_doubt(const struct sc_link *l, struct sc_err *err);

/* client_request.c */
int sc_request_build(struct sc_link *l, struct sc_bytes *out, struct sc_err *err);
/* Judge a whole head: 0 when the connection is a WebSocket now. *ret_takeover and *ret_compressed
 * as agreed. */
int sc_request_judge(struct sc_link *l, const struct sc_httphead *head, struct sc_span body, bool *ret_compressed,
		     bool *ret_takeover, struct sc_err *err);

#endif
