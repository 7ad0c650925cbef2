/*
 * durable/subs.h: subscriptions of an engine's streams: what workers and webhooks are told, and
 * what they say.
 *
 * Owns      nothing; requests and answers are the caller's.
 * Units     us since 1970 UTC.
 * Errors    what a client did wrong is an answer; negative codes are the machine's.
 * Safety    any thread, but for sc_ds_subs_enable (before others) and what is called `work` (the
 *           writer's).
 * Source    durable-streams 20; durable/subscription.h; man/sc-streams.1, "SUBSCRIPTIONS".
 *
 * All state is in the store, and changes in the same transaction as what is the reason for it: an
 * append and the wake that it causes, the creation of a stream and its links. So a wake cannot be
 * lost, whatever ends the process, and needs no look at subscriptions that have no link to a stream
 * that changed.
 */
#ifndef SC_DURABLE_SUBS_H
#define SC_DURABLE_SUBS_H

#include "durable/engine.h"
#include "durable/sub_keys.h"
#include "durable/sub_request.h"

#define SC_DS_TOLD_MAX 1000u /* streams that one wake tells of; more of them are in the next */

/* Makes or reads the keys in the engine's folder. Without it nothing can be asked of
 * subscriptions; those in the store go on. */
int sc_ds_subs_enable(struct sc_ds *ds, struct sc_err *err);
const struct sc_ds_keys *sc_ds_subs_keys(const struct sc_ds *ds);

/* Makes CALL a request about subscriptions: then sc_ds_submit. REQUEST (parsed) must stay until
 * `done`; it is none of SC_DS_SUB_GET. */
void sc_ds_subs_call(struct sc_ds_call *call, const struct sc_ds_sub_request *request);
/* SC_DS_SUB_GET, in the caller's thread. */
int sc_ds_subs_get(struct sc_ds *ds, const struct sc_ds_sub_request *request,
		   struct sc_ds_answer *answer, struct sc_err *err);

/* -- deliveries to webhooks -- */
/* DUE is called from the writer's thread when one may be due at once; it must be short, and not
 * call into the engine. NULL: nobody listens; on return DUE does not run. */
void sc_ds_subs_listen(struct sc_ds *ds, void (*due)(void *arg), void *arg);

struct sc_ds_delivery {
	uint64_t number, generation;
	char wake_id[SC_DS_WAKE_ID_TEXT];
	int64_t due_us;
	uint64_t attempts;         /* that failed before this one */
	struct sc_bytes url, body; /* the caller's to free; body empty: nothing is left to tell */
};
/* Deliveries in the order of their time: EACH gets number and time of those until UNTIL_US, and
 * returns 0 to go on, 1 to end. *ret_next_us: when the first later one is due, or INT64_MAX. */
int sc_ds_subs_due(struct sc_ds *ds, int64_t until_us,
		   int (*each)(void *arg, uint64_t number, int64_t due_us), void *arg,
		   int64_t *ret_next_us, struct sc_err *err);
/* 1 = what is to be sent; 0 = nothing is due of it any more. */
int sc_ds_subs_delivery(struct sc_ds *ds, uint64_t number, int64_t now_us,
			struct sc_ds_delivery *ret_delivery, struct sc_err *err);
void sc_ds_delivery_init(struct sc_ds_delivery *delivery);
void sc_ds_delivery_done(struct sc_ds_delivery *delivery);

#endif
