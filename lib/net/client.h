/*
 * net/client.h: one WebSocket connection that comes back: connects, keeps alive, reconnects.
 *
 * Owns      the client until sc_client_free; texts and lists in the options are copied; what a hook
 *           gets is borrowed until it returns.
 * Units     ms, bytes. A time of 0 or less switches that limit off.
 * Errors    SC_E_USAGE, SC_E_CONFIG from sc_client_new; later ones come through the hooks.
 * Safety    the loop's thread. Every function may be called from every hook, sc_client_free too.
 * Source    RFC 6455, RFC 7692 (receiving), RFC 8305, RFC 9110, RFC 1928.
 *
 * Order of hooks: connecting, then opened or ended; after opened messages, pongs, then ended; after
 * ended connecting again, or finished, once, as the last. Nothing is told from within
 * sc_client_new.
 *
 * Backpressure. After sc_client_pause no message is told; the client goes on reading, so that pings
 * are answered, until it holds ahead_max bytes of messages (and what one read brought); then it
 * stops reading. While it reads no more, the limits on silence and pongs rest. What is held when
 * the connection ends is still told, before `ended`.
 */
#ifndef SC_NET_CLIENT_H
#define SC_NET_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/loop.h"

struct sc_client;

/* Which ends of a connection are followed by another try. */
struct sc_client_retry {
	int64_t tries;      /* how many failures in a row may be followed by a try; 0 none, -1 any number */
	int64_t for_ms;     /* give up when this long without a connection; -1 never */
	int64_t start_ms;   /* the first wait is random below this; each failure doubles it */
	int64_t ceiling_ms; /* until this */
	int64_t stable_ms;  /* a connection that lasted this long starts again small (or see sc_client_proved) */
	bool refused;       /* try again after 401, 403, 404 and such too */
};

struct sc_client_options {
	const char *url;
	const char *const *headers;      /* "Name: value" */
	size_t header_count;
	const char *const *header_files; /* files of such lines, read again for each connection */
	size_t header_file_count;
	const char *origin, *subprotocol, *user_agent; /* NULL: none, none, "sc/VERSION" */
	const char *token_file;          /* a bearer token, read again for each connection */
	const char *user_file;           /* "USER:PASSWORD", the same; before what the URL says */
	const char *ca, *cert, *key;     /* PEM; NULL: the system's authorities, no certificate */
	const char *server_name;         /* the name in the certificate, and the one asked for, instead of the URL's host */
	bool insecure;                   /* take any certificate (a warning tells) */
	const char *proxy;               /* NULL: as the environment says; "": none */
	bool compress;                   /* offer permessage-deflate */
	bool raw;                        /* no WebSocket, see sc_client_head */
	int64_t connect_ms;              /* look-up, connect, proxy, TLS, together */
	int64_t upgrade_ms;              /* request to answer */
	int64_t ping_ms, pong_ms;        /* send one this often; give up when nothing at all came this long after one */
	int64_t silence_ms;              /* restart when no message came for this long */
	int64_t close_ms;                /* wait for the peer's part of a close */
	uint64_t message_max;            /* larger: 1009 */
	uint64_t ahead_max;              /* see backpressure */
	uint64_t send_max;               /* bytes waiting to be sent */
	struct sc_client_retry retry;
};
#define SC_CLIENT_OPTIONS_STANDARD \
	(struct sc_client_options){ \
		.compress = true, .connect_ms = 10000, .upgrade_ms = 10000, .ping_ms = 20000, .pong_ms = 20000, \
		.close_ms = 1500, .message_max = 16 << 20, .ahead_max = 4 << 20, .send_max = 4 << 20, \
		.retry = { .tries = -1, .for_ms = -1, .start_ms = 1000, .ceiling_ms = 30000, .stable_ms = 5000 }, \
	}

struct sc_client_message {
	struct sc_span payload;
	bool binary;          /* else it is UTF-8 */
	int64_t received_us;  /* wall time of the read that brought its end */
};

struct sc_client_opened {
	const char *where;       /* "host:port" or "unix:/path", with " through proxy host:port" */
	const char *place;       /* with the path, for messages: "host:port/trades"; no query, which may be secret */
	const char *address;     /* what was connected to in the end: "127.0.0.1:8765" */
	const char *subprotocol; /* "" when none was chosen */
	bool compressed;
	struct sc_span headers;  /* the answer's header lines, as they came */
	int64_t took_ms;         /* from the start of this try */
	int64_t down_ms;         /* since the last connection was lost, -1 for the first one */
	uint64_t number;         /* of this connection, from 1 */
};

struct sc_client_ended {
	bool was_open;
	const struct sc_err *err;    /* why: one line, with the place; code 0 when we closed and the peer agreed */
	int status;                  /* HTTP status of a refusal, or 0 */
	struct sc_span headers;      /* the refusal's header lines, as they came */
	uint16_t close_code;         /* the peer's: 1005 no code, 1006 no close frame; 0 when it was not open */
	struct sc_span close_reason; /* the peer's */
	bool clean;                  /* both sent a close frame */
	const char *where, *address; /* address "" when none was reached */
	int64_t lasted_ms;           /* open, or trying */
	uint64_t messages, bytes;    /* received on this connection */
	int64_t failures;            /* in a row, with this one */
	int64_t wait_ms;             /* what the policy does next: try after this; -1 ends */
};

enum sc_client_next {
	SC_CLIENT_STANDARD, /* what wait_ms says */
	SC_CLIENT_AT_ONCE,  /* connect now; does not count as a failure */
	SC_CLIENT_AGAIN,    /* try again with the usual waits and limits, also where the policy would end */
	SC_CLIENT_REST,     /* no connection until sc_client_reconnect; that one is as the first */
	SC_CLIENT_END,
};

/* Each may be NULL. */
struct sc_client_hooks {
	void (*connecting)(void *arg, const char *where);
	void (*opened)(void *arg, const struct sc_client_opened *opened);
	void (*message)(void *arg, const struct sc_client_message *message);
	void (*batch)(void *arg);     /* after the messages of one read: flush what they wrote */
	void (*pong)(void *arg, int64_t round_trip_us);
	void (*drained)(void *arg);   /* after sc_client_send said SC_E_BUSY: half of it is free again */
	enum sc_client_next (*ended)(void *arg, const struct sc_client_ended *ended);
	void (*finished)(void *arg, const struct sc_err *err); /* code 0 after sc_client_close */
	void (*warning)(void *arg, const char *text);
};

/* Starts to connect in the loop's next turn. */
int sc_client_new(struct sc_loop *loop, const struct sc_client_options *options, const struct sc_client_hooks *hooks,
		  void *arg, struct sc_client **ret_client, struct sc_err *err);
/* At once, without a close frame; no hook is told any more. */
void sc_client_free(struct sc_client *client);

bool sc_client_is_open(const struct sc_client *client); /* messages can be sent */
/* In order, as one message. SC_E_BUSY when send_max would be passed (see drained), SC_E_UNAVAILABLE
 * when not open. */
int sc_client_send(struct sc_client *client, struct sc_span payload, bool binary,
		struct sc_err *err);
uint64_t sc_client_unsent(const struct sc_client *client); /* bytes that the kernel has not taken */

void sc_client_pause(struct sc_client *client);
void sc_client_resume(struct sc_client *client);
bool sc_client_paused(const struct sc_client *client);

/* Send what waits, then a close frame, wait for the peer's (close_ms), throw away what comes; then
 * finished. */
void sc_client_close(struct sc_client *client, uint16_t code, const char *reason);
/* The same, but then connect again at once (told as ended with wait 0). Waiting for a try, it is
 * made now. */
void sc_client_reconnect(struct sc_client *client);
/* For the next connection. */
int sc_client_set_url(struct sc_client *client, const char *url, struct sc_err *err);
/* The connection at hand works (it gave what was wanted): when it ends, waits start small. */
void sc_client_proved(struct sc_client *client);

/* When the connection at hand ends, the next try comes no sooner than this. */
void sc_client_hold_off(struct sc_client *client, int64_t least_ms);
/*
 * With `raw` a connection is opened when it is connected, through proxy and TLS; a message is the
 * bytes of one read, in order, sc_client_send sends bytes as they are, a close just ends it, and
 * there are no pings. So HTTP is spoken, with net/httpanswer.h.
 *
 * This appends the head of a request, without the empty line: the user's headers, the token or
 * password, and LINES, each with its CR LF.
 */
int sc_client_head(struct sc_client *client, const char *method, struct sc_span target, struct sc_span lines,
		   struct sc_bytes *out, struct sc_err *err);

/* The policy, by itself: the wait after that many failures in a row (1, 2, ...), with RANDOM any
 * 64-bit number. */
int64_t sc_client_backoff_ms(const struct sc_client_retry *retry, int64_t failures,
		uint64_t random);

#endif
