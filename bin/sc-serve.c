/* sc-serve: fan logs out to any number of subscribers, with replay from any offset. */
#include <stdlib.h>

#include "base/program.h"
#include "base/say.h"
#include "serve/serve.h"

struct opts {
	struct sc_common common;
	struct sc_opt_list listen, origins;
	bool listen_given, compress, publish, has_max_replay, replay_archive;
	const char *cert, *key, *client_ca, *token_file, *archive;
	int64_t max_clients, per_address, max_backlog, max_replay, ping_ms, pong_ms, handshake_ms,
		idle_ms, grace_ms;
	uint64_t ring, max_message, header;
	int wire, ready_fd;
};

static const char *const wire_words[] = { "1", "2", "4", "5", NULL };
static const int wire_numbers[] = { 1, 2, 4, 5 };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("Where to listen"),
	{ .name = "listen",
	  .letter = 'l',
	  .kind = SC_OPT_LIST,
	  .arg = "ADDRESS",
	  .into = offsetof(struct opts, listen),
	  .seen = offsetof(struct opts, listen_given),
	  .standard = "127.0.0.1:8765",
	  .help = "HOST:PORT, [IPV6]:PORT, :PORT (on 127.0.0.1), *:PORT (on every address), "
		  "unix:PATH or fd:N; port 0 is a free "
		  "one" },
	{ .name = "ready-fd",
	  .kind = SC_OPT_FD,
	  .arg = "FD",
	  .into = offsetof(struct opts, ready_fd),
	  .help = "when it listens, write one JSON line with the real port to this descriptor and "
		  "close it" },
	{ .name = "cert",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, cert),
	  .help = "speak TLS with the certificate in this PEM file (read again on SIGHUP)" },
	{ .name = "key",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, key),
	  .help = "the key of --cert" },
	{ .name = "client-ca",
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, client_ca),
	  .help = "take only clients with a certificate signed by one of these" },
	SC_OPT_GROUP("Who may come"),
	{ .name = "token-file",
	  .letter = 'T',
	  .kind = SC_OPT_FILE,
	  .arg = "FILE",
	  .into = offsetof(struct opts, token_file),
	  .help = "take only requests with a token of FILE: one a line, with read, publish or all "
		  "in front" },
	{ .name = "origin",
	  .kind = SC_OPT_LIST,
	  .arg = "ORIGIN",
	  .into = offsetof(struct opts, origins),
	  .help = "take only browsers that come from this origin" },
	{ .name = "publish",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, publish),
	  .help = "let clients publish rows into the streams" },
	SC_OPT_GROUP("What subscribers get"),
	{ .name = "wire",
	  .kind = SC_OPT_CHOICE,
	  .arg = "N",
	  .into = offsetof(struct opts, wire),
	  .standard = "1",
	  .choices = wire_words,
	  .help = "speak this version of the streamcast protocol" },
	{ .name = "compress",
	  .letter = 'z',
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, compress),
	  .help = "compress for clients that offer it; costs processor time for each of them" },
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = offsetof(struct opts, archive),
	  .help = "tell clients that the logs' archives are in this folder, as sc-seal --archive "
		  "has it; else what each "
		  "log notes" },
	{ .name = "replay-archive",
	  .kind = SC_OPT_FLAG,
	  .into = offsetof(struct opts, replay_archive),
	  .help = "serve from its archive what a log does not hold any more" },
	{ .name = "max-replay",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, max_replay),
	  .seen = offsetof(struct opts, has_max_replay),
	  .min = 0,
	  .max = -1,
	  .help = "refuse subscribers that are more than N rows behind; without it there is no "
		  "bound" },
	{ .name = "max-backlog",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, max_backlog),
	  .min = 1,
	  .max = 0,
	  .help = "drop a subscriber that fell N messages behind, instead of letting it read the "
		  "log" },
	{ .name = "ring",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, ring),
	  .standard = "16MiB",
	  .min = 65536,
	  .max = (int64_t)1 << 32,
	  .help = "keep this much of each stream ready for all subscribers" },
	{ .name = "max-message",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, max_message),
	  .standard = "1MiB",
	  .min = 1,
	  .max = 64 << 20,
	  .help = "longest message taken from publishers and from standard input" },
	SC_OPT_GROUP("Limits"),
	{ .name = "max-clients",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, max_clients),
	  .standard = "10000",
	  .min = 0,
	  .max = -1,
	  .help = "most clients at once, 0 for any number; more get 503" },
	{ .name = "max-per-address",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = offsetof(struct opts, per_address),
	  .min = 0,
	  .max = -1,
	  .help = "most connections from one address, 0 for any number" },
	{ .name = "max-header",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, header),
	  .standard = "16KiB",
	  .min = 256,
	  .max = 1 << 20,
	  .help = "longest request head" },
	{ .name = "handshake-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, handshake_ms),
	  .standard = "10s",
	  .min = 1,
	  .max = 0,
	  .help = "cut connections that have not asked for anything after this long" },
	{ .name = "idle-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, idle_ms),
	  .standard = "60s",
	  .min = 1,
	  .max = 0,
	  .help = "cut HTTP answers whose client takes nothing for this long" },
	{ .name = "ping",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, ping_ms),
	  .standard = "20s",
	  .special = "none",
	  .help = "ping clients this often" },
	{ .name = "pong-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, pong_ms),
	  .standard = "20s",
	  .min = 1,
	  .max = 0,
	  .help = "drop clients that have not answered a ping after this long" },
	{ .name = "grace",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, grace_ms),
	  .standard = "1500ms",
	  .help = "at the end, give clients this long to close" },
	{ .name = NULL },
};

static int check(const struct opts *o, struct sc_err *err)
{
	if (!o->cert != !o->key) {
		sc_err_set(err, SC_E_USAGE, "cannot speak TLS", "--%s is missing",
			   o->cert ? "key" : "cert");
		return sc_err_next(err, "give both --cert and --key");
	}
	if (o->client_ca && !o->cert) {
		sc_err_set(err, SC_E_USAGE, "cannot use --client-ca",
			   "there is no TLS without --cert and --key");
		return sc_err_next(
			err, "give a certificate of the server's own, or leave out --client-ca");
	}
	return 0;
}

static void fill(const struct opts *o, struct sc_serve_options *s)
{
	static const char *const standard[] = { "127.0.0.1:8765" };
	bool activated = getenv("LISTEN_FDS") != NULL;
	struct sc_server_options *net = &s->server;

	sc_server_options_init(net);
	net->activation = activated;
	net->listen = o->listen.items;
	net->listen_count = o->listen.count;
	if (!o->listen_given && !activated) {
		net->listen = standard;
		net->listen_count = 1;
	}
	net->cert = o->cert;
	net->key = o->key;
	net->client_ca = o->client_ca;
	net->origins = o->origins.items;
	net->origin_count = o->origins.count;
	net->clients_max = (size_t)o->max_clients;
	net->per_address_max = (size_t)o->per_address;
	net->head_max_bytes = o->header;
	net->message_max_bytes = o->max_message;
	net->handshake_ms = o->handshake_ms;
	net->idle_ms = o->idle_ms;
	net->ping_ms = o->ping_ms;
	net->pong_ms = o->pong_ms;
	net->deflate = o->compress;
	s->stream = (struct sc_stream_settings){
		.wire = wire_numbers[o->wire],
		.ring_bytes = o->ring,
		.message_max = o->max_message,
		.max_backlog = (uint64_t)o->max_backlog,
		.bounded_replay = o->has_max_replay,
		.max_replay = (uint64_t)o->max_replay,
		.publish = o->publish,
	};
	s->token_file = o->token_file;
	s->archive = o->archive;
	s->replay_archive = o->replay_archive;
	s->ready_fd = o->ready_fd;
	s->grace_ms = o->grace_ms;
	s->say = sc_say_fields;
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct sc_serve_options s = { 0 };
	int signo = 0, rc = check(o, err);

	if (rc < 0)
		return rc;
	fill(o, &s);
	s.streams = (const char *const *)operands;
	while (operands[s.stream_count])
		s.stream_count++;
	return sc_serve_run(&s, &signo, err); /* a signal is how a server ends: status 0 */
}

static const struct sc_example examples[] = {
	{ "serve a log as ws://127.0.0.1:8765/trades", "sc-serve data/trades" },
	{ "several streams, on every address, with TLS and tokens",
	  "sc-serve --listen '*:443' --cert cert.pem --key key.pem --token-file tokens data/trades "
	  "book=data/l2" },
	{ "fan out lines as they come, without a log",
	  "sc-capture wss://ws.example/feed | sc-serve feed=-" },
	{ "take rows from publishers", "sc-serve --publish data/orders" },
	{ "the whole history, also what sc-seal moved into the archive",
	  "sc-serve --replay-archive data/trades" },
	{ NULL, NULL },
};

static const int statuses[] = { 65, 66, 69, 70, 74, 77, 78, 0 };

SC_PROGRAM("sc-serve", "fan logs out to WebSocket subscribers, with replay from any offset",
	   "Serves each LOG as a stream at ws://HOST:PORT/NAME (NAME is the folder's, unless "
	   "given), and standard input for NAME=-. "
	   "A subscriber names the offset it wants with ?offset=N; it gets what the log has from "
	   "there on, then what is "
	   "committed next, without a gap or a repeat. Also on the port: /healthz, /metrics, "
	   "/stats, a status page at /, and each "
	   "stream as server-sent events.",
	   "[NAME=]LOG...", 1, -1, struct opts, options, run, examples, statuses)
