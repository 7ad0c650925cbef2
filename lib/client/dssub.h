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

/* Is this the URL of such a stream? http:// or https://, and a path that begins with
 * /v1/stream/. */
bool sc_dssub_is_url(const char *url);
/* SC_E_USAGE: it would be one, had it a scheme, as curl needs none. */
int sc_dssub_check_url(const char *url, struct sc_err *err);
int sc_dssub_run(const struct sc_dssub_options *options, struct sc_subscription_result *ret_result,
		 struct sc_err *err);

#endif
