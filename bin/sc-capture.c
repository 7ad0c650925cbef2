/* sc-capture: keep one connection to a WebSocket feed and print what it sends, one line a
 * message. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "base/say.h"
#include "client/capture.h"
#include "net/opts.h"

#define SEND_FILE_MAX (16u << 20)

struct opts {
	struct sc_common common;
	struct sc_net_opts net;
	struct sc_opt_list sends, send_files;
	const char *map, *raw, *stamp;
	int binary;
	int64_t count, for_ms, quiet_ms;
	int events;
};

static const char *const binary_words[] = { "base64", "drop", "text", NULL };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("What to say to the feed"),
	{ .name = "send",
	  .letter = 's',
	  .kind = SC_OPT_LIST,
	  .arg = "TEXT",
	  .into = offsetof(struct opts, sends),
	  .help = "send this message on each connection, in the order given" },
	{ .name = "send-file",
	  .kind = SC_OPT_FILES,
	  .arg = "FILE",
	  .into = offsetof(struct opts, send_files),
	  .help = "send each line of FILE (- is standard input) as a message, after those of "
		  "--send" },
	SC_OPT_GROUP("What to print"),
	{ .name = "map",
	  .letter = 'm',
	  .kind = SC_OPT_TEXT,
	  .arg = "JQ",
	  .into = offsetof(struct opts, map),
	  .help = "print what this jq program makes of each message" },
	{ .name = "raw",
	  .letter = 'r',
	  .kind = SC_OPT_TEXT,
	  .arg = "COLUMN",
	  .into = offsetof(struct opts, raw),
	  .help = "where --map makes no row of a message, print a row with its text in COLUMN" },
	{ .name = "stamp",
	  .kind = SC_OPT_TEXT,
	  .arg = "COLUMN",
	  .into = offsetof(struct opts, stamp),
	  .help = "put the time of receipt (microseconds since 1970) into COLUMN of each line" },
	{ .name = "binary",
	  .kind = SC_OPT_CHOICE,
	  .arg = "HOW",
	  .into = offsetof(struct opts, binary),
	  .standard = "base64",
	  .choices = binary_words,
	  .help = "print binary messages wrapped, drop them, or take them as text" },
	{ .name = "events",
	  .kind = SC_OPT_FD,
	  .arg = "FD",
	  .into = offsetof(struct opts, events),
	  .help = "write lost and regained connections and skipped messages to this descriptor, as "
		  "JSON lines" },
	SC_OPT_GROUP("When to stop"),
	{ .name = "count",
	  .letter = 'n',
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, count),
	  .min = 1,
	  .max = 0,
	  .help = "stop after N messages" },
	{ .name = "for",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, for_ms),
	  .standard = "none",
	  .special = "none",
	  .help = "stop after this long" },
	{ .name = "until-idle",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, quiet_ms),
	  .standard = "none",
	  .special = "none",
	  .help = "stop when no message came for this long" },
	SC_OPT_GROUP("The connection"),
	SC_NET_OPTIONS(struct opts, net),
	{ .name = NULL },
};

struct sends {
	const char **items;
	size_t count;
	struct sc_bytes *texts; /* of files; items point into them */
	size_t text_count;
};

static void free_sends(struct sends *s)
{
	for (size_t i = 0; i < s->text_count; i++)
		sc_bytes_done(&s->texts[i]);
	free(s->texts);
	free(s->items);
}

static int add_send(struct sends *s, const char *text, struct sc_err *err)
{
	const char **grown = sc_realloc(s->items, (s->count + 1) * sizeof(*grown));

	if (!grown)
		return sc_err_nomem(err, "cannot read what to send");
	s->items = grown;
	s->items[s->count++] = text;
	return 0;
}

static int read_sends(struct sends *s, const char *path, struct sc_err *err)
{
	struct sc_bytes *text = &s->texts[s->text_count++];
	int rc;

	sc_bytes_init(text, SEND_FILE_MAX);
	rc = sc_read_file(strcmp(path, "-") ? path : "/dev/stdin", text, err);
	if (rc < 0)
		return rc;
	if (!sc_bytes_str(text))
		return sc_err_nomem(err, "cannot read what to send");
	for (char *at = text->data, *end; *at; at = end) {
		size_t len = strcspn(at, "\n");

		end = at + len + (at[len] == '\n');
		at[len] = 0;
		if (len > 0 && at[len - 1] == '\r')
			at[--len] = 0;
		if (len > 0)
			rc = add_send(s, at, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int collect_sends(const struct opts *o, struct sends *s, struct sc_err *err)
{
	int rc = 0;

	s->texts = sc_calloc(o->send_files.count, sizeof(*s->texts));
	if (!s->texts)
		return sc_err_nomem(err, "cannot read what to send");
	for (size_t i = 0; rc == 0 && i < o->sends.count; i++)
		rc = add_send(s, o->sends.items[i], err);
	for (size_t i = 0; rc == 0 && i < o->send_files.count; i++)
		rc = read_sends(s, o->send_files.items[i], err);
	return rc;
}

static int check(const struct opts *o, struct sc_err *err)
{
	if (o->raw && !o->map) {
		sc_err_set(err, SC_E_USAGE, "cannot use --raw",
			   "it says what to do where --map makes no row");
		return sc_err_next(err, "give a program with --map, or leave out --raw: messages "
					"are printed as they are");
	}
	return 0;
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct sc_capture_options c = {
		.rows = { .program = o->map,
			  .raw = o->raw,
			  .stamp = o->stamp,
			  .binary = (enum sc_binary)o->binary },
		.count = (uint64_t)o->count,
		.for_ms = o->for_ms,
		.quiet_ms = o->quiet_ms,
		.fd = STDOUT_FILENO,
		.events = { .fd = o->events, .say = sc_say_fields },
	};
	struct sc_capture_result result = { 0 };
	struct sends sends = { 0 };
	int rc = check(o, err);

	if (rc == 0)
		rc = collect_sends(o, &sends, err);
	if (rc == 0) {
		sc_net_opts_fill(&o->net, &c.connection);
		c.connection.url = operands[0];
		c.sends = sends.items;
		c.send_count = sends.count;
		rc = sc_capture_run(&c, &result, err);
		sc_say(SC_INFO, "%llu messages, %llu lines, %llu skipped",
		       (unsigned long long)result.messages, (unsigned long long)result.lines,
		       (unsigned long long)result.skipped);
	}
	free_sends(&sends);
	if (rc < 0)
		return rc;
	if (result.signo)
		return 128 + result.signo;
	if (result.skipped == 0)
		return 0;
	sc_err_set(err, SC_E_PARTIAL, "cannot make rows of all messages",
		   "%llu of %llu were skipped", (unsigned long long)result.skipped,
		   (unsigned long long)result.messages);
	sc_err_field_u64(err, "skipped", result.skipped);
	return sc_err_next(err, "let the program select the messages that it is for, or keep the "
				"others with --raw");
}

static const struct sc_example examples[] = {
	{ "fill a log with the trades of a feed",
	  "sc-capture wss://ws.example/feed --send '{\"op\":\"subscribe\"}' --map "
	  "'select(.event==\"trade\") | .data' | "
	  "sc-log append --quiet data/trades" },
	{ "see what a feed sends, for ten messages",
	  "sc-capture wss://ws.example/feed --count 10" },
	{ "keep every message, also those that the program does not understand",
	  "sc-capture wss://ws.example/feed --map '.data | {price,amount}' --raw raw" },
	{ "keep a record of lost and regained connections",
	  "sc-capture wss://ws.example/feed --events 3 3>>events.ndjson | sc-log append --quiet "
	  "data/feed" },
	{ NULL, NULL },
};

static const int statuses[] = { 1, 66, 69, 70, 74, 76, 77, 78, 0 };

SC_PROGRAM("sc-capture", "keep one connection to a WebSocket feed and print its messages",
	   "Connects to URL (ws://, wss://, ws+unix:), sends what --send says, and prints each "
	   "message as one line: JSON as "
	   "it came, byte for byte, anything else wrapped so that it can be turned back. A lost "
	   "connection is made again, with "
	   "growing waits, until a limit is given and reached. When standard output is full the "
	   "feed is read no further.",
	   "URL", 1, 1, struct opts, options, run, examples, statuses)
