/* sc-sub: subscribe to a stream and print its rows, resuming where the consumer stopped. */
#include <unistd.h>

#include "base/program.h"
#include "base/say.h"
#include "client/dssub.h"
#include "client/protocol.h"
#include "client/subscription.h"
#include "net/opts.h"

struct opts {
	struct sc_common common;
	struct sc_net_opts net;
	uint64_t offset, after, to;
	bool has_offset, has_after, has_to;
	const char *cursor, *filter, *exec;
	const char *archive, *archive_ca;
	bool payload, until_end, contiguous, catch_up;
	int64_t exec_rows, count, idle_ms, rounds;
	int ack_fd, events;
	int live, protocol;
	const char *at;
};

static const char *const lives[] = { [SC_DS_LONG_POLL] = "long-poll", [SC_DS_SSE] = "sse", NULL };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("Where to begin"),
	{ .name = "offset",
	  .letter = 'o',
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = offsetof(struct opts, offset),
	  .special = "earliest",
	  .seen = offsetof(struct opts, has_offset),
	  .help = "begin with offset N; without an offset or a cursor with what comes next" },
	{ .name = "after",
	  .letter = 'a',
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = offsetof(struct opts, after),
	  .seen = offsetof(struct opts, has_after),
	  .help = "begin with the offset after N" },
	{ .name = "at",
	  .kind = SC_OPT_TEXT,
	  .arg = "OFFSET",
	  .into = offsetof(struct opts, at),
	  .help = "begin at this offset of a Durable Streams server, as it was told" },
	{ .name = "cursor",
	  .letter = 'c',
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, cursor),
	  .help = "begin after the offset in FILE, and keep in it what the consumer has finished" },
	SC_OPT_GROUP("Rows that the server has no more"),
	{ .name = "catch-up",
	  .letter = 'C',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, catch_up),
	  .help = "when the server does not go back so far, read them from the stream's archive "
		  "first" },
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = offsetof(struct opts, archive),
	  .help = "where the archive is, file://, s3:// or https://; else where the server says" },
	{ .name = "catch-up-rounds",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, rounds),
	  .standard = "3",
	  .min = 1,
	  .max = 1000000,
	  .help = "read the archive at most N times in a row before a connection is accepted" },
	{ .name = "archive-ca",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, archive_ca),
	  .help = "for the archive, trust only the certificate authorities in this PEM file" },
	SC_OPT_GROUP("What to print"),
	{ .name = "filter",
	  .letter = 'F',
	  .kind = SC_OPT_TEXT,
	  .arg = "JQ",
	  .into = offsetof(struct opts, filter),
	  .help = "print only rows for which this jq program gives true, or what it makes of "
		  "them" },
	{ .name = "payload",
	  .letter = 'p',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, payload),
	  .help = "print rows without their offsets" },
	{ .name = "contiguous",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, contiguous),
	  .help = "fail when an offset is left out, instead of a warning" },
	{ .name = "events",
	  .kind = SC_OPT_FD,
	  .arg = "FD",
	  .into = offsetof(struct opts, events),
	  .help = "write lost and regained connections and gaps to this descriptor, as JSON "
		  "lines" },
	SC_OPT_GROUP("When a row is finished"),
	{ .name = "exec",
	  .letter = 'e',
	  .kind = SC_OPT_TEXT,
	  .arg = "CMD",
	  .into = offsetof(struct opts, exec),
	  .help = "run the shell command CMD with each line as its input; a row is finished when "
		  "it succeeds" },
	{ .name = "exec-rows",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, exec_rows),
	  .standard = "1",
	  .min = 1,
	  .max = 100000,
	  .help = "give --exec up to N lines at a time" },
	{ .name = "ack-fd",
	  .kind = SC_OPT_FD,
	  .arg = "FD",
	  .into = offsetof(struct opts, ack_fd),
	  .help = "a row is finished when its offset is read from this descriptor, one a line" },
	SC_OPT_GROUP("When to stop"),
	{ .name = "count",
	  .letter = 'n',
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, count),
	  .min = 1,
	  .max = 0,
	  .help = "stop after N lines" },
	{ .name = "to",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = offsetof(struct opts, to),
	  .seen = offsetof(struct opts, has_to),
	  .help = "stop after offset N" },
	{ .name = "until-end",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, until_end),
	  .help = "stop after the last row that was there at the start" },
	{ .name = "until-idle",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, idle_ms),
	  .standard = "none",
	  .special = "none",
	  .help = "stop when no row came for this long" },
	SC_OPT_GROUP("The connection"),
	SC_PROTOCOL_OPTION(offsetof(struct opts, protocol)),
	{ .name = "live",
	  .kind = SC_OPT_CHOICE,
	  .into = offsetof(struct opts, live),
	  .choices = lives,
	  .standard = "long-poll",
	  .help = "how a Durable Streams server is asked for what comes next" },
	SC_NET_OPTIONS(struct opts, net),
	{ .name = NULL },
};

static int check(const struct opts *o, struct sc_err *err)
{
	if (o->has_offset && o->has_after)
		return sc_opt_clash(err, "cannot use --after",
				    "--offset says where to begin already",
				    "leave one of them out");
	if (o->has_after && o->after == UINT64_MAX)
		return sc_opt_clash(err, "cannot use --after", "no offset comes after it",
				    "give a smaller one");
	if (o->has_to && o->to == 0)
		return sc_opt_clash(err, "cannot use --to", "offsets begin at 1",
				    "give the last offset that is wanted");
	if (o->has_to &&
	    ((o->has_offset && o->offset > o->to) || (o->has_after && o->after >= o->to)))
		return sc_opt_clash(err, "cannot use --to", "it is before the offset to begin with",
				    "give the last offset that is wanted");
	if (o->exec && o->ack_fd >= 0)
		return sc_opt_clash(err, "cannot use --ack-fd",
				    "with --exec the command's success finishes a row",
				    "leave one of them out");
	if (!o->catch_up && (o->archive || o->archive_ca))
		return sc_opt_clash(err,
				    o->archive ? "cannot use --archive" : "cannot use --archive-ca",
				    "nothing is read there without --catch-up", "add --catch-up");
	if (o->archive && !sc_store_is_url(o->archive))
		return sc_opt_clash(
			err, "cannot use --archive", "it is no URL",
			"give file:///FOLDER/NAME, s3://BUCKET/PREFIX/NAME or https://...");
	return 0;
}

static void fill(const struct opts *o, const char *url, const struct sc_store_settings *store,
		 struct sc_subscription_options *s)
{
	*s = (struct sc_subscription_options){
		.session = {
			.has_offset = o->has_offset || o->has_after,
			.offset = o->has_after ? o->after + 1 : o->offset,
			.count = (uint64_t)o->count, .to = o->to, .until_end = o->until_end,
			.contiguous = o->contiguous,
			.rounds = o->catch_up ? (unsigned)o->rounds : 0,
		},
		.archive = o->archive, .store = store,
		.delivery = {
			.cursor = o->cursor, .filter = o->filter, .payload = o->payload,
			.exec = o->exec, .exec_rows = (unsigned)o->exec_rows, .ack_fd = o->ack_fd,
			.fd = STDOUT_FILENO, .idle_ms = o->idle_ms,
		},
		.events = { .fd = o->events, .say = sc_say_fields },
	};
	sc_net_opts_fill(&o->net, &s->connection);
	s->connection.url = url;
}

/* What has no meaning for a server that does not number rows. */
static int check_ds(const struct opts *o, struct sc_err *err)
{
	static const char next[] = "leave it out";

	if (o->has_to)
		return sc_opt_clash(err, "cannot use --to",
				    "a Durable Streams server numbers no rows",
				    "use --count or --until-end");
	if (o->contiguous || o->catch_up)
		return sc_opt_clash(
			err, o->contiguous ? "cannot use --contiguous" : "cannot use --catch-up",
			"a Durable Streams server numbers no rows and has no archive", next);
	if (o->has_offset && o->offset)
		return sc_opt_clash(
			err, "cannot use --offset",
			"a Durable Streams server begins behind a message, not with one",
			"use --after with the offset of a line, or --at with one of the server's");
	if (o->at && (o->has_offset || o->has_after))
		return sc_opt_clash(err, "cannot use --at",
				    "another option says where to begin already",
				    "leave one of them out");
	if (o->at && !sc_ds_offset_valid(sc_span_str(o->at)))
		return sc_opt_clash(err, "cannot use --at",
				    "that is no offset of a Durable Streams server",
				    "give it as the server told it");
	return 0;
}

static int run_ds(const struct opts *o, const struct sc_subscription_options *s,
		  struct sc_subscription_result *result, struct sc_err *err)
{
	char after[SC_DS_POSITION_TEXT];
	struct sc_dssub_options d = { .common = s, .live = (enum sc_ds_live)o->live };
	int rc = check_ds(o, err);

	if (rc < 0)
		return rc;
	d.offset = o->at ? o->at : o->has_offset ? "-1" : NULL;
	if (o->has_after) {
		sc_ds_position_text(o->after, after);
		d.offset = after;
	}
	return sc_dssub_run(&d, result, err);
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	const struct sc_store_settings store = { .ca_file = o->archive_ca };
	struct sc_subscription_options s;
	struct sc_subscription_result result = { 0 };
	bool durable = false;
	int rc = check(o, err);

	if (rc == 0)
		rc = sc_protocol_choose(operands[0], (enum sc_protocol)o->protocol,
					o->at ? "--at" : NULL, &durable, err);
	if (rc < 0)
		return rc;
	fill(o, operands[0], &store, &s);
	rc = durable ? run_ds(o, &s, &result, err) : sc_subscription_run(&s, &result, err);
	sc_say(SC_INFO, "%llu rows, %llu lines, last offset %llu, next %llu",
	       (unsigned long long)result.rows, (unsigned long long)result.lines,
	       (unsigned long long)result.last, (unsigned long long)result.resume);
	if (rc < 0)
		return rc;
	return result.signo ? 128 + result.signo : 0;
}

static const struct sc_example examples[] = {
	{ "work through a stream in a script, going on after a restart where it stopped",
	  "sc-sub ws://127.0.0.1:8765/trades --cursor .trades.offset | while read -r line; do echo "
	  "\"$line\"; done" },
	{ "everything that is there now, then stop",
	  "sc-sub ws://127.0.0.1:8765/trades --offset earliest --until-end >trades.ndjson" },
	{ "run a command for each row; one that fails stops, and the row comes again",
	  "sc-sub ws://127.0.0.1:8765/trades --cursor c --exec ./work.sh" },
	{ "go on after a week, with the rows that the server has no more out of its archive",
	  "sc-sub ws://host:8765/trades --cursor c --catch-up --archive s3://bucket/prod" },
	{ "follow a stream of a Durable Streams server, resuming after a restart",
	  "sc-sub http://127.0.0.1:4437/v1/stream/chat/1 --cursor .chat" },
	{ "keep an exact copy of a stream in a log of one's own, resuming from that log",
	  "sc-sub --after \"$(sc-log source copy trades)\" ws://host:8765/trades | "
	  "sc-log append --source trades --mirror --quiet copy" },
	{ NULL, NULL },
};

static const int statuses[] = { 1, 65, 66, 69, 70, 73, 74, 75, 76, 77, 78, 79, 80, 0 };

SC_PROGRAM("sc-sub", "subscribe to a stream and print its rows",
	   "Connects to URL (ws://HOST:PORT/STREAM) and prints each row as a line [offset,row], "
	   "byte for byte as the server has "
	   "it. A lost connection is made again and the stream resumed, so that no row is missing "
	   "and none comes twice. With "
	   "--cursor that holds across runs: the file follows what the consumer has finished and "
	   "never leads it.",
	   "URL", 1, 1, struct opts, options, run, examples, statuses)
