/*
 * client/catchup.h: the rows that a server has no more, out of the archive, in a session's order.
 *
 * Owns      its thread and what it has open there. Session and events are the caller's and outlive
 *           it.
 * Units     offsets count rows from 1.
 * Errors    through the hook: what the archive says, what the session says of it (a gap that nobody
 *           holds), SC_E_NOLOG no archive is known, or there is none.
 * Safety    the loop's thread, which never waits for the archive.
 * Source    streamcast-wire 14; man/sc-sub.1, "CATCHING UP".
 *
 * Memory does not grow with the range (log/feed.h); rows that were not asked for yet are not read.
 */
#ifndef SC_CLIENT_CATCHUP_H
#define SC_CLIENT_CATCHUP_H

#include "client/events.h"
#include "client/session.h"
#include "net/loop.h"
#include "store/store.h"

struct sc_catchup;

struct sc_catchup_options {
	const char *archive;                    /* its URL, or that of the folder where it is; NULL: as the server says */
	const struct sc_store_settings *store;  /* NULL: standard */
	/* A row, delivered or left out as STEP says. Negative: it cannot be, *err says why. */
	int (*row)(void *arg, enum sc_session_step step, const struct sc_data *row, struct sc_err *err);
	/* No more rows for the moment. */
	void (*batch)(void *arg);
	/* Read to its end: connect; or why not (code 0: to its end). Not after sc_catchup_stop. */
	void (*done)(void *arg, const struct sc_err *err);
	void *arg;
};

int sc_catchup_new(struct sc_loop *loop, const struct sc_catchup_options *options,
		struct sc_session *session, struct sc_events *events, struct sc_catchup **ret_catchup,
		struct sc_err *err);
/* Within a second, also when the archive does not answer. */
void sc_catchup_free(struct sc_catchup *catchup);

/* Is it known where the archive is? Else the server is to be asked (sc_session_peeked). */
bool sc_catchup_located(const struct sc_catchup *catchup);
/* A round: the archive, opened anew, from where the session is. What goes wrong is told by DONE. */
void sc_catchup_begin(struct sc_catchup *catchup);
bool sc_catchup_active(const struct sc_catchup *catchup);
void sc_catchup_stop(struct sc_catchup *catchup);
void sc_catchup_pause(struct sc_catchup *catchup);
void sc_catchup_resume(struct sc_catchup *catchup);
bool sc_catchup_paused(const struct sc_catchup *catchup);

#endif
