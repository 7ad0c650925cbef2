/*
 * client/dssub.h: read a stream of a Durable Streams server over HTTP, over any number of
 * connections, and deliver its messages.
 *
 * Owns      everything it opens, until sc_dssub_run returns.
 * Units     ms; positions as client/dsread.h.
 * Errors    those of the connection, of client/dsread.h, of the consumer (client/sink.h), of the
 *           cursor file.
 * Safety    runs a loop of its own in the caller's thread; blocks INT and TERM for the process.
 * Source    man/sc-sub.1, "DURABLE STREAMS".
 */
#ifndef SC_CLIENT_DSSUB_H
#define SC_CLIENT_DSSUB_H

#include "client/dsread.h"
#include "client/subscription.h"

struct sc_dssub_options {
	const struct sc_subscription_options *common; /* of its session only count and until_end count */
	const char *offset;     /* NULL: where the cursor says, else "now" */
	enum sc_ds_live live;
};

int sc_dssub_run(const struct sc_dssub_options *options, struct sc_subscription_result *ret_result,
		 struct sc_err *err);

#endif
