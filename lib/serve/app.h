/*
 * serve/app.h: what the files of this room share.
 *
 * Owns      the app owns its hosts, a host its stream, log and input; a visit belongs to its
 *           connection.
 * Units     as serve/serve.h.
 * Errors    as serve/serve.h.
 * Safety    the loop's thread.
 * Source    our own.
 *
 * app      the server as a whole (app.c)
 * host     one stream and what feeds it: a log that is followed, or lines from standard input
 * (host.c, input.c)
 * visit    one connection: a subscriber, a publisher, or server-sent events (visit.c, events.c,
 * publish.c)
 */
#ifndef SC_SERVE_APP_H
#define SC_SERVE_APP_H

#include "cast/writer.h"
#include "log/archive_url.h"
#include "log/follow.h"
#include "net/tokens.h"
#include "serve/serve.h"
#include "wire/target.h"

#define SC_HOST_NAME_MAX 255

struct sc_app;

struct sc_host {
	struct sc_app *app;
	char name[SC_HOST_NAME_MAX + 1];
	struct sc_stream *stream;
	struct sc_log *log; /* NULL: standard input */
	struct sc_follow *follow;
	struct sc_watch *watch;   /* of the log's changes or of standard input */
	struct sc_timer *timer;   /* the next pump, or look at the input */
	struct sc_archive_note note; /* which archive its log says it has */
	char *archive_said;          /* what was said of the archive last */
	int64_t archive_said_us;
	uint64_t archive_unsaid;  /* the same since */
	bool starved;             /* it was told that there are no descriptors for the log */
	struct sc_writer *writer; /* NULL: no publishers */
	struct sc_wake *wake;
	struct sc_bytes input,
		line;    /* standard input: what is not a whole line yet; a message made of one */
	size_t input_at; /* lines before it were taken */
	bool input_ended;
	int64_t input_ended_us;
};

struct sc_app {
	const struct sc_serve_options *o;
	struct sc_loop *loop;
	struct sc_server *server;
	struct sc_host *hosts;
	size_t host_count;
	struct sc_span *names; /* sorted, for refusals */
	struct sc_tokens *tokens;
	struct sc_feed_pool *feeds; /* reads archives; NULL: they are not served */
	struct sc_wake *fed;
	struct sc_timer *tick;
	unsigned ticks;
	struct sc_visit *events; /* all server-sent events, for their keepalive */
	struct sc_bytes body;    /* of the answer that is being made */
	int64_t started_us;
	bool ending;
	int signo;
	int rc;
	struct sc_err err;
};

/* A failure that ends the server: the loop stops. */
void sc_app_fail(struct sc_app *app, const struct sc_err *err);
/* Nothing new; close everybody with this code; then the loop stops. */
void sc_app_end(struct sc_app *app, int code, const char *reason);
struct sc_host *sc_app_host(const struct sc_app *app,
			    struct sc_span name); /* NULL: no such stream */
void sc_app_say(const struct sc_app *app, enum sc_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* SPEC is "[NAME=]LOG" or "NAME=-". */
int sc_host_open(struct sc_app *app, const char *spec, struct sc_host *host, struct sc_err *err);
void sc_host_close(struct sc_host *host);
int sc_host_start(struct sc_host *host, struct sc_err *err); /* begin to feed the stream */

/* Which archive its log has may have changed. */
void sc_host_look_at_archive(struct sc_host *host);
/* sc_stream_attach, with what is known of the archive at this moment: the first one may be a
 * blink old, and the rows be gone that are in it. */
int sc_host_attach(struct sc_host *host, const struct sc_target *target, void *owner,
		   struct sc_subscriber **ret_subscriber, struct sc_refusal *ret_refusal, struct sc_err *err);
/* A subscriber was cut off because the archive cannot be read: said once, not for each. */
void sc_host_archive_failed(struct sc_host *host, const struct sc_err *err);

int sc_input_start(struct sc_host *host, struct sc_err *err);
void sc_input_due(struct sc_host *host); /* its timer */

enum sc_visit_kind { SC_VISIT_REFUSED, SC_VISIT_SUBSCRIBER, SC_VISIT_PUBLISHER, SC_VISIT_EVENTS };

struct sc_visit {
	struct sc_app *app;
	struct sc_conn *conn;
	struct sc_host *host; /* NULL when refused */
	enum sc_visit_kind kind;
	struct sc_subscriber *subscriber;
	struct sc_publisher *publisher;
	struct sc_close close; /* of a refusal */
	struct sc_bytes out;   /* replies, events: what is not taken yet */
	size_t out_at;
	size_t filter_bytes;   /* of what it asks for, at most */
	struct sc_timer *slow;         /* a subscriber that is dropped and takes nothing */
	struct sc_visit *next, **link; /* among the app's events */
	bool ended;                    /* nothing follows what is in out */
	bool queue_full; /* a publisher's frames are not read until the writer says resume */
};

/* The server's hooks; arg is the app. */
extern const struct sc_server_hooks sc_visit_hooks;
/* The stream's hooks; arg is the visit. */
void sc_visit_wake(void *arg);
void sc_visit_dropped(void *arg);
int sc_visit_new(struct sc_app *app, struct sc_conn *conn, enum sc_visit_kind kind,
		 struct sc_visit **ret_visit);
/* What it keeps has changed: that counts for the memory of all connections. */
void sc_visit_weigh(struct sc_visit *visit);
/* Room for its filter? If not, REPLY is filled. */
bool sc_visit_fits(struct sc_visit *visit, const struct sc_target *target, struct sc_reply *reply);
/* What a token allows. */
enum { SC_MAY_READ = 1, SC_MAY_PUBLISH = 2 };
/* Its subscriber was closed for a failure of ours: said on stderr. */
void sc_visit_failed(struct sc_visit *visit, const struct sc_err *err);
/* What a request may do (SC_MAY_ bits); 0 fills REPLY with the refusal. */
unsigned sc_visit_allow(struct sc_app *app, const struct sc_request *request,
			struct sc_reply *reply);
/* The rules for targets of this server. */
struct sc_target_rules sc_visit_rules(const struct sc_app *app);

void sc_publish_open(struct sc_visit *visit);
void sc_publish_message(struct sc_visit *visit, struct sc_span data);
void sc_publish_writable(struct sc_visit *visit);
void sc_publish_replies(struct sc_host *host); /* the writer has some */

/* A stream asked for without a WebSocket: fills REPLY, takes the connection when it is a stream
 * answer. */
void sc_events_answer(struct sc_app *app, struct sc_conn *conn, const struct sc_request *request,
		      struct sc_reply *reply);
void sc_events_writable(struct sc_visit *visit);
void sc_events_keep_alive(struct sc_app *app);

/* Bodies of the other answers, appended to OUT. */
int sc_report_metrics(struct sc_app *app, struct sc_bytes *out);
int sc_report_stats(struct sc_app *app, struct sc_bytes *out);
int sc_report_page(struct sc_app *app, struct sc_bytes *out);

#endif
