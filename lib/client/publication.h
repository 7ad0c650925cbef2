/*
 * client/publication.h: publish lines to a stream of a streamcast server, over any number of
 * connections.
 *
 * Owns      everything it opens, until sc_publication_run returns.
 * Units     lines of input count from 1; a producer's numbers from 1.
 * Errors    those of the connection, of client/outbox.h, of client/pubrow.h; SC_E_NOAUTH (the
 *           server takes no publishers), SC_E_IO.
 * Safety    runs a loop of its own in the caller's thread; blocks INT and TERM for the process.
 * Source    man/sc-pub.1.
 */
#ifndef SC_CLIENT_PUBLICATION_H
#define SC_CLIENT_PUBLICATION_H

#include "client/events.h"
#include "client/pubrow.h"
#include "net/client.h"

struct sc_publication_options {
	struct sc_client_options connection;
	struct sc_pubrow_options rows;
	const char *producer;       /* or NULL */
	bool has_epoch;
	uint64_t epoch;
	bool again;                 /* without a producer: send again what is in doubt */
	bool ask;                   /* only ask for the producer's last number: result.last_number */
	size_t window, batch;
	int in_fd, out_fd;          /* out_fd -1: the lines of acknowledged rows are not wanted */
	struct sc_events_options events;
};

struct sc_publication_result {
	uint64_t lines, rows;       /* read; acknowledged */
	uint64_t skipped;           /* stored already, as the server said at the start */
	uint64_t last;              /* offset of the last row acknowledged; 0 = none, or not known */
	uint64_t last_number;       /* of the producer's last row that the server has; 0 = none */
	int signo;                  /* ended by this signal; 0 = not */
};

int sc_publication_run(const struct sc_publication_options *options, struct sc_publication_result *ret_result,
		       struct sc_err *err);

#endif
