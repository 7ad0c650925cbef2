/*
 * serve/serve.h: streams on a port: the heart (cast) joined to sockets (net).
 *
 * Owns      everything it opens, until sc_serve_run returns.
 * Units     bytes, messages, ms as the names say.
 * Errors    SC_E_NOLOG, SC_E_CONFIG, SC_E_IO, SC_E_USAGE (names); a stream that fails while it is
 *           served ends the server.
 * Safety    runs a loop of its own in the caller's thread; blocks INT, TERM and HUP for the
 *           process.
 * Source    man/sc-serve.1, man/sc-wire.7.
 */
#ifndef SC_SERVE_SERVE_H
#define SC_SERVE_SERVE_H

#include "base/err.h"
#include "base/say.h"
#include "cast/stream.h"
#include "net/server.h"

struct sc_serve_options {
	struct sc_server_options server;
	struct sc_stream_settings stream; /* without name and hooks: for all streams */
	const char *const *streams;       /* "[NAME=]LOG", "NAME=-" */
	size_t stream_count;
	const char *token_file; /* NULL: everybody may */
	const char *archive;    /* the folder of the logs' archives, as sc-seal has it; NULL: what each log notes */
	bool replay_archive;    /* what a log does not hold any more is served from its archive */
	int ready_fd;           /* -1 = none */
	int64_t grace_ms;       /* at the end: how long subscribers may take to close */
	void (*say)(enum sc_level level, const char *fields, const char *format, ...);
};

/* *ret_signo: the signal that ended it, 0 when its input ended. */
int sc_serve_run(const struct sc_serve_options *options, int *ret_signo, struct sc_err *err);

#endif
