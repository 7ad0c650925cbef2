/*
 * client/subscription.h: subscribe to a streamcast server, over any number of connections, and
 * deliver its rows.
 *
 * Owns      everything it opens, until sc_subscription_run returns.
 * Units     offsets count rows from 1; ms.
 * Errors    those of the connection, of the session (client/session.h), of the archive
 *           (client/catchup.h), of the delivery (client/delivery.h).
 * Safety    runs a loop of its own in the caller's thread; blocks INT and TERM for the process.
 * Source    man/sc-sub.1.
 */
#ifndef SC_CLIENT_SUBSCRIPTION_H
#define SC_CLIENT_SUBSCRIPTION_H

#include "client/delivery.h"
#include "client/events.h"
#include "client/session.h"
#include "net/client.h"
#include "store/store.h"

struct sc_subscription_options {
	struct sc_client_options connection;
	struct sc_session_options session; /* without its target, which the URL gives */
	struct sc_delivery_options delivery;
	const char *archive;               /* see client/catchup.h; session.rounds asks for it */
	const struct sc_store_settings *store;
	struct sc_events_options events;
};

struct sc_subscription_result {
	uint64_t rows, lines;              /* received; delivered */
	uint64_t last;                     /* offset of the last row; 0 = none */
	uint64_t resume;                   /* where to go on; 0 = not known */
	int signo;                         /* ended by this signal; 0 = not */
};

int sc_subscription_run(const struct sc_subscription_options *options, struct sc_subscription_result *ret_result,
			struct sc_err *err);

#endif
