/* sc-node: the command line of the wsmsg broker: publish, subscribe, ask, answer, control. */
#include "sc-node.h"

static const char *const orders[] = { "document", "reference", "auto", NULL };
static const char *const forms[] = { "object", "array", "data", NULL };
static const char *const acks[] = { "auto", "exec", "manual", "none", NULL };
static const char *const reply_acks[] = { "auto", "exec", NULL };

#define OPT(MEMBER) .into = offsetof(struct node_opts, MEMBER)

#define CONNECTION_OPTIONS \
	SC_OPT_GROUP("The broker"), \
		{ .name = "url", \
		  .kind = SC_OPT_TEXT, \
		  .arg = "URL", \
		  OPT(url), \
		  .help = "the broker: ws://HOST:PORT or wss://..., with its root; else " \
			  "SC_BROKER_URL, else ws://127.0.0.1:1234" }, \
		{ .name = "endpoint", \
		  .kind = SC_OPT_TEXT, \
		  .arg = "NAME", \
		  OPT(endpoint), \
		  .help = "attach to this endpoint; without it to a new one of this run" }, \
		{ .name = "token-file", \
		  .letter = 'T', \
		  .kind = SC_OPT_FILE, \
		  .arg = "FILE", \
		  OPT(token_file), \
		  .help = "send the bearer token in FILE, read again for each connection; else " \
			  "that in SC_TOKEN" }, \
		SC_NET_WAY_OPTIONS(struct node_opts, way), \
		{ .name = "order", \
		  .kind = SC_OPT_CHOICE, \
		  .arg = "ORDER", \
		  OPT(order), \
		  .standard = "document", \
		  .choices = orders, \
		  .help = "the order of a message's elements; reference is that of the published " \
			  "Python server" }, \
		{ .name = "retry", \
		  .kind = SC_OPT_FLAG, \
		  OPT(retry), \
		  .help = "connect again when there is no connection, and send again what has no " \
			  "answer" }, \
	{ \
		.name = "max-message", .kind = SC_OPT_SIZE, .arg = "SIZE", OPT(message_max), \
		.standard = "1MiB", .min = 64, .max = 256 << 20, \
		.help = "send no message larger than this, which the broker would not take" \
	}
#define TIMEOUT_OPTION(STANDARD, HELP) \
	{ \
		.name = "timeout", .kind = SC_OPT_DURATION, .arg = "DUR", OPT(timeout_ms), \
		.standard = STANDARD, .special = "none", .help = HELP \
	}
#define WINDOW_OPTION \
	{ \
		.name = "window", .kind = SC_OPT_NUMBER, .arg = "N", OPT(window), \
		.standard = "64", .min = 1, .max = 100000, \
		.help = "have at most N messages without an answer" \
	}
#define STRICT_OPTION \
	{ \
		.name = "strict", .kind = SC_OPT_FLAG, OPT(strict), \
		.help = "stop at the first line that cannot be sent, instead of leaving it out" \
	}
#define KEEP_OPTION \
	{ \
		.name = "keep", .kind = SC_OPT_FLAG, OPT(keep), \
		.help = "leave the subscriptions of an endpoint that was made for this run" \
	}
#define READY_OPTION \
	{ \
		.name = "ready-fd", .kind = SC_OPT_FD, .arg = "FD", OPT(ready_fd), \
		.help = "write a JSON line to this descriptor once everything is subscribed to, " \
			"and " \
			"close it" \
	}
#define COUNT_OPTION(WHAT) \
	{ \
		.name = "count", .letter = 'n', .kind = SC_OPT_NUMBER, .arg = "N", OPT(count), \
		.min = 1, .max = 0, .help = "stop after N " WHAT \
	}
#define IDLE_OPTION \
	{ \
		.name = "idle", .letter = 'i', .kind = SC_OPT_DURATION, .arg = "DUR", \
		OPT(idle_ms), .standard = "none", .special = "none", \
		.help = "stop when no message came for this long" \
	}
#define REFERENCE_OPTION \
	{ \
		.name = "reference", .kind = SC_OPT_TEXT, .arg = "UID", OPT(reference), \
		.help = "refer to the message of this uid: a ULID, or hex: and its digits" \
	}
#define ALSO_OPTION \
	{ \
		.name = "also", .kind = SC_OPT_LIST, .arg = "'CHANNELPAT [SUBJECTPAT]'", \
		OPT(also), .help = "subscribe to these too; may be given again" \
	}
#define FORMAT_OPTION \
	{ \
		.name = "format", .kind = SC_OPT_CHOICE, .arg = "FORM", OPT(format), \
		.standard = "object", .choices = forms, \
		.help = "print the whole message, [channel,subject,data], or the data alone" \
	}
#define MESSAGE_OPTIONS \
	SC_OPT_GROUP("Messages"), ALSO_OPTION, FORMAT_OPTION, \
		{ .name = "ack", \
		  .kind = SC_OPT_CHOICE, \
		  .arg = "MODE", \
		  OPT(ack), \
		  .standard = "auto", \
		  .choices = acks, \
		  .seen = offsetof(struct node_opts, ack_given), \
		  .help = "acknowledge when the line is out, when --exec has ended, on a line " \
			  "{\"ack\":UID}, or never" }, \
		{ .name = "exec", \
		  .letter = 'e', \
		  .kind = SC_OPT_TEXT, \
		  .arg = "CMD", \
		  OPT(exec), \
		  .help = "run the shell command CMD with each line as its input, instead of " \
			  "printing it" }, \
	{ \
		.name = "on-fail", .kind = SC_OPT_TEXT, .arg = "'CHANNEL SUBJECT'", OPT(on_fail), \
		.help = "when --exec failed, publish the data there, with the message's uid as " \
			"reference" \
	}

const struct sc_opt pub_options[] = {
	SC_OPT_GROUP("Messages"),
	REFERENCE_OPTION,
	{ .name = "uid",
	  .kind = SC_OPT_TEXT,
	  .arg = "UID",
	  OPT(uid),
	  .help = "the message's own uid: a ULID; without it a new one" },
	WINDOW_OPTION,
	STRICT_OPTION,
	TIMEOUT_OPTION("none", "fail when it takes longer"),
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

const struct sc_opt sub_options[] = {
	MESSAGE_OPTIONS,
	STRICT_OPTION,
	SC_OPT_GROUP("When to stop"),
	COUNT_OPTION("messages"),
	IDLE_OPTION,
	TIMEOUT_OPTION("none", "stop after this time; a failure when --count was not reached"),
	KEEP_OPTION,
	READY_OPTION,
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

const struct sc_opt node_options[] = {
	MESSAGE_OPTIONS,
	WINDOW_OPTION,
	STRICT_OPTION,
	SC_OPT_GROUP("When to stop"),
	{ .name = "exit-on-eof",
	  .kind = SC_OPT_FLAG,
	  OPT(exit_on_eof),
	  .help = "stop after the end of input, when the last line has its answer" },
	COUNT_OPTION("messages"),
	IDLE_OPTION,
	TIMEOUT_OPTION("none", "stop after this time; a failure when another end was asked for"),
	KEEP_OPTION,
	READY_OPTION,
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

const struct sc_opt request_options[] = {
	SC_OPT_GROUP("The request"),
	REFERENCE_OPTION,
	{ .name = "replies",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  OPT(replies),
	  .standard = "1",
	  .min = 1,
	  .max = 0,
	  .help = "wait for N replies" },
	{ .name = "full",
	  .kind = SC_OPT_FLAG,
	  OPT(full),
	  .help = "print the whole reply as an object, instead of its data" },
	TIMEOUT_OPTION("10s", "how long to wait for the replies, a day at most"),
	KEEP_OPTION,
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

const struct sc_opt reply_options[] = {
	SC_OPT_GROUP("Requests"),
	{ .name = "raw",
	  .letter = 'r',
	  .kind = SC_OPT_FLAG,
	  OPT(raw),
	  .help = "the command's output is the reply as it is, a string; else it is JSON" },
	{ .name = "ack",
	  .kind = SC_OPT_CHOICE,
	  .arg = "MODE",
	  OPT(ack),
	  .standard = "exec",
	  .choices = reply_acks,
	  .help = "acknowledge a request when the command begins, or when it has ended" },
	SC_OPT_GROUP("When to stop"),
	COUNT_OPTION("requests"),
	IDLE_OPTION,
	TIMEOUT_OPTION("none", "stop after this time; a failure when --count was not reached"),
	KEEP_OPTION,
	READY_OPTION,
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

const struct sc_opt ctl_options[] = {
	TIMEOUT_OPTION("10s", "fail when the broker has not answered in this time"),
	CONNECTION_OPTIONS,
	{ .name = NULL },
};

static const struct sc_verb verbs[] = {
	{ "pub", "[CHANNEL SUBJECT [JSON]]", 0, 3,
	  "publish one message, or those on standard input, one a line", pub_options,
	  sizeof(struct node_opts), run_pub },
	{ "sub", "CHANNELPAT [SUBJECTPAT]", 1, 2,
	  "print the messages that fit, or run a command for each", sub_options,
	  sizeof(struct node_opts), run_sub },
	{ "node", "[CHANNELPAT [SUBJECTPAT]]", 0, 2,
	  "both: publish the lines of input, print what comes", node_options,
	  sizeof(struct node_opts), run_node },
	{ "request", "CHANNEL SUBJECT [JSON]", 2, 3, "publish a message and print the reply to it",
	  request_options, sizeof(struct node_opts), run_request },
	{ "reply", "CHANNEL SUBJECTPAT -- CMD [ARG]...", 3, -1,
	  "answer requests with the output of a command", reply_options, sizeof(struct node_opts),
	  run_reply },
	{ "ctl", "COMMAND [NAME [N]]", 1, 4,
	  "tell the broker to do something, or ask it for its numbers", ctl_options,
	  sizeof(struct node_opts), run_ctl },
};

static const struct sc_example examples[] = {
	{ "workers that share the messages of a channel",
	  "sc-node sub orders submitted --endpoint workers --exec ./work.sh" },
	{ "publish the lines of a file",
	  "jq -c '[\"orders\",\"submitted\",.]' orders.ndjson | sc-node pub" },
	{ "answer requests", "sc-node reply rpc 'order.*.request' -- ./serve.sh" },
	{ "ask, and wait two seconds at most",
	  "sc-node request rpc order.get.request 42 --timeout 2s" },
	{ "what the broker has to tell", "sc-node ctl stats | jq .queued" },
	{ NULL, NULL },
};

static const int statuses[] = { 1, 65, 66, 69, 70, 74, 76, 77, 78, 80, 81, 0 };

static const struct sc_program program = {
	.name = "sc-node",
	.purpose = "publish to, subscribe to, ask and control a wsmsg broker",
	.description =
		"A node at the broker of sc-broker, or of any other that speaks wsmsg. Messages "
		"are "
		"lines of JSON, in and out, and lose nothing on the way to msgpack and back. "
		"Commands of ctl: pause, resume, stop, stats, channel create|size|priority NAME "
		"[N], "
		"endpoint create|size NAME [N], subscribe ENDPOINT CHANNELPAT [SUBJECTPAT], "
		"unsubscribe ENDPOINT CHANNELPAT.",
	.verbs = verbs,
	.verb_count = sizeof(verbs) / sizeof(verbs[0]),
	.examples = examples,
	.statuses = statuses,
};

int main(int argc, char **argv)
{
	return sc_program_main(&program, argc, argv);
}
