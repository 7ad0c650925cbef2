/*
 * msg/daemon.h: the wsmsg broker on a port.
 *
 * Owns      everything it opens, until sc_daemon_run returns.
 * Units     bytes, messages, ms as the names say.
 * Errors    SC_E_CONFIG, SC_E_USAGE (no token, and not only on this machine), SC_E_BUSY (the state
 *           file is another broker's), SC_E_IO, SC_E_UNAVAILABLE (addresses). SC_E_PARTIAL: the
 *           state file cannot be used, or all went well but it could not be written.
 * Safety    runs a loop of its own in the caller's thread; blocks INT, TERM and HUP for the
 *           process.
 * Source    wsmsg 2, 3, 4, 13; man/sc-broker.1.
 */
#ifndef SC_MSG_DAEMON_H
#define SC_MSG_DAEMON_H

#include "base/err.h"
#include "base/say.h"
#include "msg/broker.h"
#include "net/server.h"

struct sc_daemon_options {
	struct sc_server_options server;
	struct sc_broker_options broker;
	const char *root;             /* "/": endpoints are below it */
	const char *token_file, *admin_token_file; /* NULL: none */
	const char *token;            /* one more, from the environment, or NULL */
	bool no_auth;                 /* no token is needed, whoever can connect */
	const char *state;            /* the file, NULL: nothing is kept */
	bool state_asked;             /* by a person: that it cannot be written is an error, else a warning */
	int64_t stats_ms;             /* how often `stats` is told; 0 = never */
	int ready_fd;                 /* -1 = none */
	int64_t notice_ms, grace_ms;  /* at the end: from the notice to the close, and for the close */
	void (*say)(enum sc_level level, const char *fields, const char *format, ...);
	void (*stats)(const char *line, size_t len); /* a JSON object and a newline */
};

/* *ret_signo: the signal that ended it, 0 for the command stop. */
int sc_daemon_run(const struct sc_daemon_options *options, int *ret_signo, struct sc_err *err);

#endif
