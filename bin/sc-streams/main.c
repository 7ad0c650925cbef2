/* sc-streams: Durable Streams over HTTP, and what is done to a folder of them. */
#include "sc-streams.h"

static const struct sc_verb verbs[] = {
	{ "serve", "DIR", 1, 1, "serve the streams in DIR over HTTP", serve_options,
	  sizeof(struct serve_opts), run_serve },
	{ "ls", "DIR [PREFIX]", 1, 2, "print the streams whose path begins with PREFIX",
	  plain_options, sizeof(struct plain_opts), run_ls },
	{ "trim", "DIR PATH OFFSET", 3, 3, "give up a stream's messages in front of OFFSET",
	  plain_options, sizeof(struct plain_opts), run_trim },
	{ "seal", "DIR GROUP", 2, 2, "let no new streams be made in a group, for good",
	  plain_options, sizeof(struct plain_opts), run_seal },
	{ "verify", "DIR", 1, 1, "read everything, and tell what does not fit", plain_options,
	  sizeof(struct plain_opts), run_verify },
};

static const struct sc_example examples[] = {
	{ "Serve the folder at http://127.0.0.1:4437/v1/stream/", "sc-streams data/streams" },
	{ "Append to a stream, and follow it",
	  "curl -d hello -H 'Content-Type: text/plain' localhost:4437/v1/stream/a && curl -N "
	  "'localhost:4437/v1/stream/a?offset=-1&live=sse'" },
	{ "On every address, with TLS and tokens",
	  "sc-streams --listen '*:443' --cert cert.pem --key key.pem --token-file tokens "
	  "data/streams" },
	{ "A log of sc-log beside the streams, to read only",
	  "sc-streams --log trades=data/trades data/streams" },
	{ "Webhooks and pull-wake: subscriptions below /v1/stream/__ds/",
	  "sc-streams --subscriptions data/streams" },
	{ "What is there, while a server runs", "sc-streams ls data/streams /v1/stream/chat/" },
	{ "Check every message", "sc-streams verify data/streams" },
	{ NULL, NULL },
};

static const int statuses[] = { 65, 66, 69, 70, 73, 74, 75, 77, 78, 79, 0 };

static const struct sc_program program = {
	.name = "sc-streams",
	.purpose = "a Durable Streams server: append-only streams over HTTP",
	.description =
		"A stream is a URL below http://HOST:PORT/v1/stream/. PUT makes it, POST appends "
		"to it, GET reads it from any offset, and waits for more with live=long-poll or "
		"live=sse. What was answered with success is on disk. Also on the port: /health "
		"and /metrics.",
	.verbs = verbs,
	.verb_count = sizeof(verbs) / sizeof(verbs[0]),
	.examples = examples,
	.statuses = statuses,
	.first_meant = true,
};

int main(int argc, char **argv)
{
	return sc_program_main(&program, argc, argv);
}
