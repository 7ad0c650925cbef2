/* sc-serve: fan logs out to any number of subscribers, with replay from any offset. */
#include <stdlib.h>

#include "base/program.h"
#include "base/say.h"
#include "net/port.h"
#include "serve/serve.h"

#define STANDARD_ADDRESS "127.0.0.1:8765"

struct opts {
	struct sc_common common;
	struct sc_port_opts port;
	bool compress, publish, has_max_replay, replay_archive;
	const char *archive;
	int64_t max_backlog, max_replay, idle_ms, grace_ms;
	uint64_t ring, max_message, max_memory, header;
	int wire;
};

static const char *const wire_words[] = { "1", "2", "4", "5", NULL };
static const int wire_numbers[] = { 1, 2, 4, 5 };

static const struct sc_opt options[] = {
	SC_OPT_GROUP("Where to listen"),
	SC_PORT_LISTEN_OPTIONS(struct opts, port, STANDARD_ADDRESS),
	SC_PORT_TLS_OPTIONS(struct opts, port, "", "clients"),
	SC_OPT_GROUP("Who may come"),
	SC_PORT_TOKEN_OPTION(struct opts, port, ": one a line, with read, publish or all in front"),
	SC_PORT_ORIGIN_OPTION(struct opts, port),
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
	SC_PORT_CLIENTS_OPTION(struct opts, port, "max-clients", "clients", "10000"),
	SC_PORT_ADDRESS_OPTIONS(struct opts, port),
	{ .name = "max-memory",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, max_memory),
	  .standard = "512MiB",
	  .min = 0,
	  .max = -1,
	  .help = "bytes that all connections hold together, half received or not taken yet, 0 "
		  "for any number; beyond it 503, and 1013 for who brings more" },
	{ .name = "max-header",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = offsetof(struct opts, header),
	  .standard = "16KiB",
	  .min = 256,
	  .max = 1 << 20,
	  .help = "longest request head" },
	SC_PORT_HANDSHAKE_OPTIONS(struct opts, port),
	{ .name = "idle-timeout",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, idle_ms),
	  .standard = "60s",
	  .min = 1,
	  .max = 0,
	  .help = "cut HTTP answers whose client takes nothing for this long" },
	SC_PORT_PING_OPTIONS(struct opts, port, "clients"),
	{ .name = "grace",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = offsetof(struct opts, grace_ms),
	  .standard = "1500ms",
	  .help = "at the end, give clients this long to close" },
	{ .name = NULL },
};

static void fill(const struct opts *o, struct sc_serve_options *s)
{
	static const char *const standard[] = { STANDARD_ADDRESS };
	struct sc_server_options *net = &s->server;

	sc_port_opts_fill(&o->port, standard, net);
	net->head_max_bytes = o->header;
	net->message_max_bytes = o->max_message;
	net->memory_max_bytes = o->max_memory;
	net->idle_ms = o->idle_ms;
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
	s->token_file = o->port.token_file;
	s->archive = o->archive;
	s->replay_archive = o->replay_archive;
	s->ready_fd = o->port.ready_fd;
	s->grace_ms = o->grace_ms;
	s->say = sc_say_fields;
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct sc_serve_options s = { 0 };
	int signo = 0, rc = sc_port_opts_check(&o->port, "", err);

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
