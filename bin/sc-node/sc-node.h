/*
 * sc-node.h: what the verbs of sc-node share: options, and the hub between a broker, standard input
 * and output, a command, timers and signals.
 *
 * Owns      the hub everything in it, from hub_open to hub_close.
 * Units     ms.
 * Errors    runs return 0, a negative sc_code with err set, or an exit status above 0.
 * Safety    main thread.
 * Source    man/sc-node.1.
 */
#ifndef SC_NODE_PROGRAM_H
#define SC_NODE_PROGRAM_H

#include "base/program.h"
#include "json/scan.h"
#include "msg/line.h"
#include "msg/node_link.h"
#include "net/child.h"
#include "net/opts.h"

#define LINE_FACTOR 6 /* of JSON to msgpack: "\u0000" is a byte */

/* of reply only the first two */
enum ack_mode { ACK_AUTO, ACK_EXEC, ACK_MANUAL, ACK_NONE };

struct node_opts {
	struct sc_common common;
	const char *url, *endpoint, *token_file;
	struct sc_net_way way;
	bool retry;
	int order;
	int64_t timeout_ms;
	uint64_t message_max;
	/* what is sent */
	int64_t window;
	bool strict;
	const char *reference, *uid;
	/* what is received */
	struct sc_opt_list also;
	int format, ack;
	bool ack_given, keep, exit_on_eof;
	const char *exec, *on_fail;
	int64_t count, idle_ms;
	int ready_fd;
	/* request and reply */
	int64_t replies;
	bool full, raw;
};

extern const struct sc_opt pub_options[], sub_options[], node_options[], request_options[], reply_options[],
	ctl_options[];

int run_pub(const void *given, char *const *operands, struct sc_err *err);
int run_sub(const void *given, char *const *operands, struct sc_err *err);
int run_node(const void *given, char *const *operands, struct sc_err *err);
int run_request(const void *given, char *const *operands, struct sc_err *err);
int run_reply(const void *given, char *const *operands, struct sc_err *err);
int run_ctl(const void *given, char *const *operands, struct sc_err *err);

/* hub.c */

struct hub;

/* What a verb does with what happens. Each may be NULL. */
struct hub_verb {
	void (*ready)(struct hub *h);   /* the first time: connected, and subscribed to everything */
	void (*message)(struct hub *h, const struct sc_msg *msg);
	/* an answer to what was put; refused: news->kind says so, and it was told already */
	void (*settled)(struct hub *h, const struct sc_node_news *news);
	void (*stats)(struct hub *h, const struct sc_msg *msg);
	void (*line)(struct hub *h, struct sc_span line, uint64_t number);
	void (*eof)(struct hub *h);
	void (*printed)(struct hub *h); /* all that was printed is out */
	void (*late)(struct hub *h);    /* --timeout */
	bool (*busy)(struct hub *h);    /* a signal waits until it is not */
	bool reads;                     /* standard input */
	bool prints;                    /* on standard output: who reads that may end it */
	bool stays;                     /* it has --idle and --ready-fd */
};

struct pair {
	char *channel, *subject; /* patterns */
};

struct hub {
	const struct node_opts *o;
	const struct hub_verb *verb;
	void *arg; /* the verb's own */
	struct sc_loop *loop;
	struct sc_node_link *link;
	char endpoint[SC_MSG_NAME_MAX + 1];
	bool own_endpoint; /* made for this run */
	struct sc_timer *limit, *quiet;
	struct sc_output *output;
	struct sc_watch *output_watch;
	bool output_waits;
	struct input *input;
	struct sc_bytes text; /* the line being printed */
	struct pair *pairs;   /* what is subscribed to */
	size_t pair_count;
	/* how it ends */
	bool ready, ending, partial;
	int rc, signo, status;
	struct sc_err err;
};

int hub_open(struct hub *h, const struct node_opts *o, size_t window, const struct hub_verb *verb, void *arg,
	     struct sc_err *err);
/* Until hub_end or hub_fail; what a run returns. */
int hub_run(struct hub *h, struct sc_err *err);
void hub_close(struct hub *h);

int hub_subscribe(struct hub *h, const char *channel, const char *subject, struct sc_err *err);
/* A command on the channel system: its arguments are what is packed in DATA. */
int hub_command(struct hub *h, const char *subject, struct sc_span data, bool kept, uint64_t tag,
		struct sc_err *err);
void hub_end(struct hub *h);                              /* the work is done: leave */
void hub_fail(struct hub *h, const struct sc_err *err);   /* it cannot be done */
/* An error is about this line of input. */
void name_line(struct sc_err *err, uint64_t number);
/* It was told without its bytes: it is too long. */
int refuse_long_line(const struct hub *h, struct sc_err *err);
void hub_partial(struct hub *h, const struct sc_err *err); /* told; the run goes on, and exits with 1 */
/* Print a line: 1 it is out, 0 `printed` tells. */
int hub_print(struct hub *h, const struct sc_msg *msg, enum sc_msg_form form);
int hub_print_text(struct hub *h, struct sc_span text);
/* One message of ours may be put, and will not be refused for its size. */
int check_size(const struct node_opts *o, const struct sc_msg *msg, struct sc_err *err);
/* For verbs that want no messages, at an endpoint that gets some. */
void hub_lose(struct hub *h, const struct sc_msg *msg);
/* Lines are read only while they may be. */
void hub_read(struct hub *h, bool on);
bool hub_input_ended(const struct hub *h);

/* input.c: standard input, line by line. */

struct input;
/* A line longer than LINE_MAX is told without its bytes: data NULL. */
int input_open(struct sc_loop *loop, size_t line_max, void (*line)(void *arg, struct sc_span line, uint64_t number),
	       void (*ended)(void *arg), void (*failed)(void *arg, const struct sc_err *err), void *arg,
	       struct input **ret_input, struct sc_err *err);
void input_close(struct input *input);
/* Lines are told from the next turn of the loop on, or no more; `line` may turn them off. */
void input_set(struct input *input, bool on);
bool input_ended(const struct input *input);

/* words.c */

/* "CHANNEL" or "CHANNEL SUBJECT", quoted as in a shell; the SUBJECT that is not there is STANDARD (NULL: it must be
 * there). *ret_words is freed with sc_words_free. */
int split_pair(const char *option, const char *text, const char *standard, char ***ret_words, const char **ret_subject,
	       struct sc_err *err);
/* The environment that a command gets for a message; NAME=VALUE texts, until it is done. */
struct message_env {
	struct sc_bytes text;
	const char *list[5];
};
int message_env_make(struct message_env *env, const struct sc_msg *msg, struct sc_err *err);
void message_env_done(struct message_env *env);
/* JSON from an operand: "-" is standard input, read whole. */
int read_json(const char *operand, uint64_t max, struct sc_bytes *buf, struct sc_err *err);

#endif
