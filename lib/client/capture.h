/*
 * client/capture.h: one feed, held on to, as lines.
 *
 * Owns      everything it opens, until sc_capture_run returns.
 * Units     ms.
 * Errors    those of the connection (UNAVAILABLE, NOAUTH, PROTOCOL, TIMEOUT), SC_E_IO, SC_E_CONFIG.
 * Safety    runs a loop of its own in the caller's thread; blocks INT and TERM for the process.
 * Source    man/sc-capture.1.
 */
#ifndef SC_CLIENT_CAPTURE_H
#define SC_CLIENT_CAPTURE_H

#include "client/events.h"
#include "client/mapper.h"
#include "net/client.h"

struct sc_capture_options {
	struct sc_client_options connection;
	struct sc_mapper_options rows;    /* without its hook */
	const char *const *sends;         /* texts, sent on each connection in this order */
	size_t send_count;
	uint64_t count;                   /* stop after so many messages; 0 = no bound */
	int64_t for_ms;                   /* stop after so long; -1 = no bound */
	int64_t quiet_ms;                 /* stop when no message came for so long; -1 = no bound */
	int fd;                           /* the lines */
	struct sc_events_options events;
};

struct sc_capture_result {
	uint64_t messages, lines, skipped;
	int signo;                        /* ended by this signal; 0 = not */
};

int sc_capture_run(const struct sc_capture_options *options, struct sc_capture_result *ret_result,
		   struct sc_err *err);

#endif
