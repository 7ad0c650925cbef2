/* sc-pub: publish rows to a stream of a server, and print what was acknowledged. */
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/program.h"
#include "base/say.h"
#include "client/dspub.h"
#include "client/outbox.h"
#include "client/protocol.h"
#include "client/publication.h"
#include "net/opts.h"
#include "wire/target.h"

struct opts {
	struct sc_common common;
	struct sc_net_opts net;
	const char *producer, *create, *state;
	uint64_t epoch;
	bool has_epoch, ask, again, pairs, bare, numbered, wrap, close;
	int64_t window, batch;
	bool has_batch;
	int seq, protocol;
	int events;
};

#define INTO(member) offsetof(struct opts, member)

static const char *const seqs[] = { [SC_DSPUB_SEQ_NONE] = "no",
				    [SC_DSPUB_SEQ_END] = "end",
				    [SC_DSPUB_SEQ_SKIP] = "skip",
				    NULL };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("What comes in"),
	{ .name = "pairs",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(pairs),
	  .help = "every line is [offset,msg]: publish the msg" },
	{ .name = "bare",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(bare),
	  .help = "no line is [offset,msg]: publish each as it is" },
	{ .name = "numbered",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(numbered),
	  .help = "with --producer or --stream-seq: lines are bare, and the input is the same "
		  "from its first line in every run" },
	{ .name = "wrap",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(wrap),
	  .help = "take a line that is not JSON as {\"$text\":...} (a stream without a schema)" },
	SC_OPT_GROUP("How it is published"),
	{ .name = "producer",
	  .letter = 'P',
	  .kind = SC_OPT_TEXT,
	  .arg = "ID",
	  .into = INTO(producer),
	  .help = "publish as this producer: what is sent again is not stored twice, and the "
		  "offset "
		  "of each line says what the server has already" },
	{ .name = "epoch",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = INTO(epoch),
	  .seen = INTO(has_epoch),
	  .help = "take over from processes that publish as this producer with a lower epoch" },
	{ .name = "last",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(ask),
	  .help = "only print the offset of the last line that the server has of this producer; 0 "
		  "if it knows none" },
	{ .name = "at-least-once",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(again),
	  .help = "after a lost connection send again what was not acknowledged, which may store "
		  "it twice" },
	{ .name = "window",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(window),
	  .standard = "32",
	  .min = 1,
	  .max = SC_OUTBOX_WINDOW_MAX,
	  .help = "send up to N groups of rows ahead of the replies" },
	{ .name = "batch",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(batch),
	  .seen = INTO(has_batch),
	  .standard = "1000",
	  .min = 1,
	  .max = 10000,
	  .help = "send up to N rows as one group, which is stored whole or not at all" },
	{ .name = "events",
	  .kind = SC_OPT_FD,
	  .arg = "FD",
	  .into = INTO(events),
	  .help = "write lost and regained connections to this descriptor, as JSON lines" },
	{ .name = "quiet",
	  .letter = 'q',
	  .kind = SC_OPT_FLAG,
	  .into = INTO(common.quiet),
	  .help = "print no lines, and say only errors" },
	SC_OPT_GROUP("Durable Streams servers"),
	{ .name = "create",
	  .kind = SC_OPT_TEXT,
	  .arg = "TYPE",
	  .into = INTO(create),
	  .help = "make the stream if it is not there, with this content type, as "
		  "application/json" },
	{ .name = "close",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(close),
	  .help = "close the stream for good when all is stored" },
	{ .name = "state",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = INTO(state),
	  .help = "keep in FILE what the producer has published, so that it is exactly once over "
		  "restarts" },
	{ .name = "stream-seq",
	  .kind = SC_OPT_CHOICE,
	  .into = INTO(seq),
	  .choices = seqs,
	  .standard = "no",
	  .help = "send each line's offset as Stream-Seq, one line a request, so that the stream "
		  "takes no line twice and none out of order from any number of writers; a line "
		  "that it has, or is past, ends this one or is skipped" },
	SC_OPT_GROUP("The connection"),
	SC_PROTOCOL_OPTION(INTO(protocol)),
	SC_NET_OPTIONS(struct opts, net),
	{ .name = NULL },
};

static int check(const struct opts *o, struct sc_err *err)
{
	if (o->pairs + o->bare + o->numbered > 1)
		return sc_opt_clash(err, "cannot publish",
				    "--pairs, --bare and --numbered exclude each other",
				    "say which one the lines are");
	if (o->producer && (!*o->producer || strlen(o->producer) > SC_PRODUCER_ID_MAX))
		return sc_opt_clash(err, "cannot use --producer",
				    "its name has no or more than 255 bytes",
				    "give it a short name");
	if (o->producer && o->again)
		return sc_opt_clash(err, "cannot use --at-least-once",
				    "with --producer every row is stored once", "leave it out");
	if (!o->producer && (o->ask || o->has_epoch))
		return sc_opt_clash(err, o->ask ? "cannot use --last" : "cannot use --epoch",
				    "it is about a producer", "name one with --producer");
	if (!o->producer && !o->seq && o->numbered)
		return sc_opt_clash(err, "cannot use --numbered", "it is about a producer",
				    "name one with --producer");
	return 0;
}

static enum sc_pubrow_form form(const struct opts *o)
{
	if (o->numbered)
		return SC_PUBROW_LINES;
	if (o->bare)
		return SC_PUBROW_BARE;
	if (o->producer || o->seq)
		return SC_PUBROW_PAIRS;
	return o->pairs ? SC_PUBROW_MSGS : SC_PUBROW_AUTO;
}

static void report(const struct sc_publication_result *r)
{
	char fields[200];

	snprintf(fields, sizeof(fields),
		 "\"lines\":%llu,\"rows\":%llu,\"skipped\":%llu,\"last\":%llu",
		 (unsigned long long)r->lines, (unsigned long long)r->rows,
		 (unsigned long long)r->skipped, (unsigned long long)r->last);
	sc_say_fields(SC_INFO, fields,
		      "%llu rows of %llu lines stored, %llu skipped as there already",
		      (unsigned long long)r->rows, (unsigned long long)r->lines,
		      (unsigned long long)r->skipped);
}

static int print_last(const struct sc_publication_result *r, struct sc_err *err)
{
	char line[24];
	size_t len = sc_u64_digits(line, r->last_number);

	line[len++] = '\n';
	return sc_write_all(STDOUT_FILENO, line, len, "standard output", err);
}

/* A header's value, as it will be sent. */
static bool clean(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* An option that was given and that only Durable Streams servers know. */
static const char *durable_option(const struct opts *o)
{
	return o->create  ? "--create"
	       : o->close ? "--close"
	       : o->state ? "--state"
	       : o->seq   ? "--stream-seq"
			  : NULL;
}

static int check_ds(const struct opts *o, struct sc_err *err)
{
	if (o->state && !o->producer)
		return sc_opt_clash(err, "cannot use --state", "it is about a producer",
				    "name one with --producer");
	if (o->state && o->bare)
		return sc_opt_clash(err, "cannot use --state",
				    "with --bare rows have no numbers to know them by again",
				    "use --pairs or --numbered");
	if (o->ask && !o->state)
		return sc_opt_clash(err, "cannot use --last",
				    "a Durable Streams server does not tell it",
				    "name the --state file");
	if (o->producer && !clean(o->producer))
		return sc_opt_clash(err, "cannot use --producer",
				    "its name holds a control character", "give it a plain name");
	if (o->seq && o->bare)
		return sc_opt_clash(err, "cannot use --stream-seq",
				    "with --bare rows have no numbers to send",
				    "use --pairs or --numbered");
	if (o->seq && o->again)
		return sc_opt_clash(err, "cannot use --at-least-once",
				    "with --stream-seq no row is stored twice", "leave it out");
	if (o->seq == SC_DSPUB_SEQ_SKIP && o->producer)
		return sc_opt_clash(err, "cannot use --stream-seq skip",
				    "with --producer the server counts its requests",
				    "use one of them, or --stream-seq end");
	if (o->create && (!*o->create || !clean(o->create)))
		return sc_opt_clash(err, "cannot use --create", "that is no content type",
				    "give one such as application/json");
	return 0;
}

static int run_ds(const struct opts *o, const struct sc_publication_options *p,
		  struct sc_publication_result *result, struct sc_err *err)
{
	struct sc_dspub_options d = {
		.common = p,
		.create = o->create,
		.close = o->close,
		.state = o->state,
		.seq = (enum sc_dspub_seq)o->seq,
	};

	if (o->ask)
		return sc_dspub_last(o->state, o->producer, &result->last_number, err);
	return sc_dspub_run(&d, result, err);
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct sc_publication_result result = { 0 };
	struct sc_publication_options p = {
		.rows = { .form = form(o),
			  .wrap = o->wrap,
			  .any = o->producer != NULL,
			  .rising = !o->producer },
		.producer = o->producer,
		.has_epoch = o->has_epoch,
		.epoch = o->epoch,
		.again = o->again,
		.ask = o->ask,
		.window = (size_t)o->window,
		.batch = o->seq && !o->has_batch ? 1 : (size_t)o->batch,
		.in_fd = STDIN_FILENO,
		.out_fd = o->common.quiet || o->ask ? -1 : STDOUT_FILENO,
		.events = { .fd = o->events, .say = sc_say_fields },
	};
	bool ds = false;
	int rc = check(o, err);

	if (rc == 0)
		rc = sc_protocol_choose(operands[0], (enum sc_protocol)o->protocol,
					durable_option(o), &ds, err);
	if (rc == 0 && ds)
		rc = check_ds(o, err);
	if (rc < 0)
		return rc;
	if (ds)
		p.rows.any = true;
	sc_net_opts_fill(&o->net, &p.connection);
	p.connection.url = operands[0];
	rc = ds ? run_ds(o, &p, &result, err) : sc_publication_run(&p, &result, err);
	if (!o->ask)
		report(&result);
	if (rc < 0)
		return rc;
	if (result.signo)
		return 128 + result.signo;
	return o->ask ? print_last(&result, err) : 0;
}

static const struct sc_example examples[] = {
	{ "publish a file of rows", "sc-pub ws://127.0.0.1:8765/trades <rows.ndjson" },
	{ "copy a stream to another server: kill and start it at will, nothing is lost or repeated",
	  "sc-sub --after \"$(sc-pub --last -P copy ws://b:8765/trades)\" ws://a:8765/trades | "
	  "sc-pub -q -P "
	  "copy ws://b:8765/trades" },
	{ "publish a file that is given whole again after a crash",
	  "sc-pub --producer load-7 --numbered ws://127.0.0.1:8765/trades <rows.ndjson" },
	{ "the same to a Durable Streams server, made if it is not there",
	  "sc-pub --create application/json -P load-7 --numbered --state load-7.state "
	  "http://127.0.0.1:4437/v1/stream/trades <rows.ndjson" },
	{ "copy a stream to it from two machines at once, so that either may fail",
	  "sc-sub --offset earliest ws://a:8765/trades | sc-pub -q --stream-seq skip "
	  "http://b:4437/v1/stream/trades" },
	{ "publish what a feed sends, over lost connections, each row once",
	  "sc-capture wss://feed.example/ | sc-pub -q --producer feed --bare "
	  "ws://127.0.0.1:8765/trades" },
	{ NULL, NULL },
};

static const int statuses[] = { 65, 66, 69, 70, 74, 75, 76, 77, 78, 79, 0 };

SC_PROGRAM(
	"sc-pub", "publish rows to a stream of a server",
	"Reads rows, one JSON text a line, publishes them to the stream at URL "
	"(ws://HOST:PORT/STREAM), and prints each as a "
	"line [offset,row] when the server has acknowledged it. Ends when all are acknowledged. "
	"With --producer a lost connection, a "
	"crash of the server or of this program neither loses nor repeats a row; without it what "
	"was not acknowledged is told, line "
	"by line, and not sent again.",
	"URL", 1, 1, struct opts, options, run, examples, statuses)
