/*
 * msg/daemon_internal.h: what the files of the daemon share.
 *
 * Owns      daemon.c: the whole, signals, the end; daemon_guest.c: connections; daemon_door.c: who
 *           may come, and where to; daemon_page.c: numbers as pages and lines.
 * Units     as daemon.h.
 * Errors    as daemon.h.
 * Safety    the loop's thread.
 * Source    wsmsg 2 to 4.
 */
#ifndef SC_MSG_DAEMON_INTERNAL_H
#define SC_MSG_DAEMON_INTERNAL_H

#include "msg/daemon.h"
#include "net/loop.h"
#include "net/tokens.h"

enum { SC_DAEMON_NODE = 1, SC_DAEMON_ADMIN = 2 };

struct sc_daemon {
	const struct sc_daemon_options *o;
	struct sc_loop *loop;
	struct sc_server *server;
	struct sc_broker *broker;
	const char *state;            /* the file, NULL: nothing is kept */
	int state_lock;
	struct sc_tokens *tokens[3];  /* the file, the admins' file, the environment */
	struct sc_timer *tick, *work, *end, *stats;
	struct sc_bytes body;         /* of a page, borrowed by the server while it is answered */
	struct sc_bytes frame;        /* a part of a large message, while it is written */
	bool stopping, closing;       /* the notice is out; connections are being closed */
	int signo;
	uint64_t refused_path, refused_full;
};

/* One WebSocket. */
struct sc_daemon_guest {
	struct sc_daemon *daemon;
	struct sc_conn *conn;
	struct sc_broker_node *node;  /* from open to closed */
	struct sc_ulid uid;
	bool admin;
	bool blocked;                 /* the broker knows that it takes nothing now */
	bool paused;                  /* not read, until it has taken what waits for it */
	struct sc_parcel *large;      /* on its way in parts */
	size_t large_sent;
	enum sc_msg_order large_order;
	struct sc_bytes after;        /* whole frames that come after that */
	char field[64];               /* x-wsmsg-node, for the answer */
	unsigned char endpoint_len;
	char endpoint[SC_MSG_NAME_MAX];
};

void sc_daemon_say(const struct sc_daemon *d, enum sc_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sc_daemon_now(struct sc_daemon *d); /* the broker's time is now */
void sc_daemon_look(struct sc_daemon *d); /* after the broker did something: is there more to do? */

/* daemon_door.c */
int sc_daemon_tokens_open(struct sc_daemon *d, struct sc_err *err);
void sc_daemon_tokens_refresh(struct sc_daemon *d);
bool sc_daemon_guarded(const struct sc_daemon *d); /* a token is needed */
unsigned sc_daemon_allow(struct sc_daemon *d, struct sc_span authorization);
void sc_daemon_authorise(void *arg, const struct sc_request *request, struct sc_reply *reply);
/* The endpoint that a target names; false: none. */
bool sc_daemon_endpoint(const struct sc_daemon *d, struct sc_span target, char ret_name[SC_MSG_NAME_MAX],
			unsigned char *ret_len);
/* Not only this machine can connect. */
bool sc_daemon_is_open(const struct sc_daemon *d);

/* daemon_guest.c */
extern const struct sc_server_hooks sc_daemon_server_hooks;
extern const struct sc_broker_hooks sc_daemon_broker_hooks;

/* daemon_page.c */
void sc_daemon_http(void *arg, struct sc_conn *conn, const struct sc_request *request,
		struct sc_reply *reply);
int sc_daemon_stats_line(const struct sc_daemon *d, struct sc_bytes *out);

#endif
