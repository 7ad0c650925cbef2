/* sc-broker: the wsmsg broker: channels, endpoints and nodes over WebSockets. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/program.h"
#include "base/say.h"
#include "msg/daemon.h"
#include "msg/state.h"
#include "net/port.h"

#define NOTICE_MS 1000
#define STANDARD_ADDRESS "127.0.0.1:1234"

struct opts {
	struct sc_common common;
	struct sc_port_opts port;
	bool no_auth, no_state, plain_acks;
	const char *root, *admin_token_file, *state;
	int64_t queue_size, max_age_ms, ack_timeout_ms, endpoint_idle_ms, stats_ms, grace_ms;
	uint64_t max_message, max_memory;
	int order;
};

static const char *const order_words[] = { "document", "reference", NULL };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("Where to listen"),
	SC_PORT_LISTEN_OPTIONS(struct opts, port, STANDARD_ADDRESS),
	{ .name = "root",
	  .kind = SC_OPT_TEXT,
	  .arg = "PATH",
	  .into = offsetof(struct opts, root),
	  .standard = "/",
	  .help = "endpoints are below this path" },
	SC_PORT_TLS_OPTIONS(struct opts, port, "tls-", "nodes"),
	/* as the other servers of the toolkit call them */
	{ .name = "cert",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, port.cert),
	  .hidden = true,
	  .help = "the same as --tls-cert" },
	{ .name = "key",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, port.key),
	  .hidden = true,
	  .help = "the same as --tls-key" },
	SC_OPT_GROUP("Who may come"),
	SC_PORT_TOKEN_OPTION(struct opts, port, ", one a line (or the one in SC_TOKEN)"),
	{ .name = "admin-token-file",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, admin_token_file),
	  .help = "only nodes with a token of FILE may pause, resume, stop, change channels and "
		  "endpoints, and subscribe others" },
	{ .name = "no-auth",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, no_auth),
	  .help = "listen on other addresses than this machine's own without any token" },
	SC_PORT_ORIGIN_OPTION(struct opts, port),
	SC_OPT_GROUP("Queues"),
	{ .name = "queue-size",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, queue_size),
	  .standard = "100000",
	  .min = 1,
	  .max = SC_BROKER_SIZE_MAX,
	  .help = "messages that a queue holds, unless a command sets its size" },
	{ .name = "max-memory",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, max_memory),
	  .standard = "512MiB",
	  .min = 0,
	  .max = -1,
	  .help = "bytes that queues and subscriptions hold together, 0 for any number; beyond it "
		  "publishers and who subscribes get the error limit" },
	{ .name = "max-age",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, max_age_ms),
	  .min = 0,
	  .max = -1,
	  .help = "drop messages that have waited in queues for so long; 0 for never" },
	{ .name = "max-message",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, max_message),
	  .standard = "1MiB",
	  .min = 64,
	  .max = 256 << 20,
	  .help = "longest message; a longer one closes its connection with 1009" },
	{ .name = "state",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, state),
	  .help = "keep here, from stop to start, what could not be delivered; without it "
		  "wsmsg/PORT.state in $XDG_STATE_HOME" },
	{ .name = "no-state",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, no_state),
	  .help = "keep nothing" },
	SC_OPT_GROUP("What nodes get"),
	{ .name = "ack-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, ack_timeout_ms),
	  .min = 0,
	  .max = -1,
	  .help = "close nodes that hold a message for so long without an ack; 0 for never" },
	{ .name = "order",
	  .kind = SC_OPT_CHOICE,
	  .arg = "ORDER",
	  .into = offsetof(struct opts, order),
	  .standard = "document",
	  .choices = order_words,
	  .help = "order of the elements to nodes that have not sent anything yet" },
	{ .name = "plain-acks",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, plain_acks),
	  .help = "acks carry nil, not the number of endpoints that a message went to" },
	SC_OPT_GROUP("Limits"),
	SC_PORT_CLIENTS_OPTION(struct opts, port, "max-nodes", "nodes", "10000"),
	SC_PORT_ADDRESS_OPTIONS(struct opts, port),
	{ .name = "endpoint-idle",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, endpoint_idle_ms),
	  .min = 0,
	  .max = -1,
	  .help = "forget endpoints, with their subscriptions and messages, that have had no node "
		  "for so long; 0 for never" },
	SC_PORT_HANDSHAKE_OPTIONS(struct opts, port),
	SC_PORT_PING_OPTIONS(struct opts, port, "nodes"),
	{ .name = "grace",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, grace_ms),
	  .standard = "500ms",
	  .help = "at the end, after the notice of one second, give nodes this long to close" },
	SC_OPT_GROUP("Reports"),
	{ .name = "stats",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, stats_ms),
	  .min = 0,
	  .max = -1,
	  .help = "print the counters as a JSON line on standard error this often; 0 for never" },
	{ .name = NULL },
};

static int check(const struct opts *o, struct sc_err *err)
{
	int rc = sc_port_opts_check(&o->port, "tls-", err);

	if (rc < 0)
		return rc;
	if (o->root[0] != '/' || strpbrk(o->root, "?#%")) {
		sc_err_set(err, SC_E_USAGE, "cannot use --root", "'%s' is no path", o->root);
		return sc_err_next(err, "give one that begins with '/', without '?', '#' and '%%'");
	}
	if (o->state && o->no_state) {
		sc_err_set(err, SC_E_USAGE, "cannot keep the state",
			   "--state and --no-state are both given");
		return sc_err_next(err, "leave out one of them");
	}
	return 0;
}

/* The port that was asked for first; 0: none, or a free one. */
static int port_of(const struct sc_server_options *net)
{
	const char *colon;
	char *end;
	long port;

	if (net->listen_count == 0 || !strncmp(net->listen[0], "unix:", 5) ||
	    !strncmp(net->listen[0], "fd:", 3))
		return 0;
	colon = strrchr(net->listen[0], ':');
	port = strtol(colon ? colon + 1 : net->listen[0], &end, 10);
	return *end || port < 0 || port > 65535 ? 0 : (int)port;
}

/* wsmsg/PORT.state where the user's programs keep such things; false: there is no such place, or no
 * port to name it by. */
static bool default_state(const struct sc_server_options *net, char ret_path[PATH_MAX])
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int port = port_of(net), n = -1;

	if (port == 0)
		return false;
	if (xdg && xdg[0] == '/')
		n = snprintf(ret_path, PATH_MAX, "%s/wsmsg/%d.state", xdg, port);
	else if (home && home[0] == '/')
		n = snprintf(ret_path, PATH_MAX, "%s/.local/state/wsmsg/%d.state", home, port);
	return n > 0 && n < PATH_MAX;
}

static void warn_of_loss(void)
{
	sc_say(SC_WARNING, "messages that are not delivered when it stops will be lost");
}

/* A place that a person named must be good; the usual one need not be there. */
static int choose_state(const struct opts *o, struct sc_daemon_options *d, char path[PATH_MAX],
			struct sc_err *err)
{
	if (o->no_state)
		return 0;
	d->state_asked = o->state != NULL;
	if (o->state)
		d->state = o->state;
	else if (default_state(&d->server, path))
		d->state = path;
	if (!d->state && port_of(&d->server)) {
		sc_say(SC_WARNING, "there is no usual place for the state: neither XDG_STATE_HOME "
				   "nor HOME says where; name a file with --state");
		warn_of_loss();
	}
	if (!d->state)
		return 0;
	if (sc_state_prepare(d->state, err) == 0)
		return 0;
	if (d->state_asked)
		return err->code;
	sc_say_err(SC_WARNING, err);
	warn_of_loss();
	d->state = NULL;
	return 0;
}

static void fill_server(const struct opts *o, struct sc_server_options *net)
{
	static const char *const standard[] = { STANDARD_ADDRESS };

	sc_port_opts_fill(&o->port, standard, net);
	net->message_max_bytes = o->max_message;
	net->memory_max_bytes = o->max_memory;
}

static void fill_broker(const struct opts *o, struct sc_broker_options *b)
{
	sc_broker_options_init(b);
	b->queue_size = (uint32_t)o->queue_size;
	b->memory_max = o->max_memory;
	b->max_age_us = o->max_age_ms * 1000;
	b->ack_timeout_us = o->ack_timeout_ms * 1000;
	b->endpoint_idle_us = o->endpoint_idle_ms * 1000;
	b->order = o->order == 0 ? SC_MSG_DOCUMENT : SC_MSG_REFERENCE;
	b->plain_acks = o->plain_acks;
	b->admins = o->admin_token_file != NULL;
}

static void tell_stats(const char *line, size_t len)
{
	if (write(STDERR_FILENO, line, len) < 0)
		sc_say(SC_DEBUG, "a line of --stats was lost");
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct sc_daemon_options d = { 0 };
	const char *token = getenv("SC_TOKEN");
	char path[PATH_MAX];
	int signo = 0, rc = check(o, err);

	(void)operands;
	if (rc < 0)
		return rc;
	fill_server(o, &d.server);
	fill_broker(o, &d.broker);
	d.root = o->root;
	d.token_file = o->port.token_file;
	d.admin_token_file = o->admin_token_file;
	d.token = token && *token ? token : NULL;
	d.no_auth = o->no_auth;
	d.stats_ms = o->stats_ms;
	d.ready_fd = o->port.ready_fd;
	d.notice_ms = NOTICE_MS;
	d.grace_ms = o->grace_ms;
	d.say = sc_say_fields;
	d.stats = tell_stats;
	rc = choose_state(o, &d, path, err);
	return rc < 0 ? rc : sc_daemon_run(&d, &signo, err); /* a signal is how it ends: status 0 */
}

static const struct sc_example examples[] = {
	{ "a broker for this machine, at ws://127.0.0.1:1234/ENDPOINT", "sc-broker" },
	{ "for others, with TLS and tokens",
	  "sc-broker --listen '*:1234' --tls-cert cert.pem --tls-key key.pem --token-file tokens" },
	{ "small queues, and nothing kept from run to run",
	  "sc-broker --queue-size 1000 --max-memory 64M --no-state" },
	{ "nodes that do not acknowledge within a minute are closed",
	  "sc-broker --ack-timeout 60s" },
	{ NULL, NULL },
};

static const int statuses[] = { 1, 66, 69, 70, 73, 74, 75, 77, 78, 0 };

static const struct sc_verb verb = { .operands = "",
				     .options = options,
				     .opts_size = sizeof(struct opts),
				     .run = run };

static const struct sc_program program = {
	.name = "sc-broker",
	.purpose = "a wsmsg broker: publish, subscribe, share work, request and reply",
	.description =
		"Nodes connect to ws://HOST:PORT/ENDPOINT and send messages to channels; the "
		"broker "
		"puts each message into the queue of every endpoint that has subscribed to it, and "
		"the nodes of an endpoint share what is there, one message at a time each, the "
		"next when it has acknowledged the last. Nothing is delivered twice. Also on the "
		"port: /healthz, /metrics and /stats.",
	.verbs = &verb,
	.verb_count = 1,
	.examples = examples,
	.statuses = statuses,
	.partial = "the state file cannot be used, or was not written",
};

int main(int argc, char **argv)
{
	return sc_program_main(&program, argc, argv);
}
