/*
 * durable/webhook.h: a thread that delivers wakes to webhooks.
 *
 * Owns      its thread and connections; the engine stays the caller's, and must outlive it.
 * Units     ms.
 * Errors    SC_E_CONFIG (the CA file), SC_E_NOMEM, SC_E_IO. A delivery that fails is told once a
 *           row of failures, and tried again.
 * Safety    any thread.
 * Source    durable-streams 20; net/post.h.
 *
 * What is due stands in the store, and leaves it with its outcome: one that was on its way when the
 * process ended is sent again. Redirects are not followed. The addresses of a name are looked at
 * when it is connected to: https goes to the open network only, http to this machine only.
 */
#ifndef SC_DURABLE_WEBHOOK_H
#define SC_DURABLE_WEBHOOK_H

#include "base/err.h"
#include "base/say.h"
#include "durable/engine.h"

#define SC_DS_WEBHOOKS_MAX 64u        /* on their way at once */
#define SC_DS_WEBHOOKS_OF_ONE_MAX 2u  /* of one subscription: one whose wake is over, and the next */
#define SC_DS_WEBHOOK_ANSWER_MAX 65536u

struct sc_ds_webhooks;

struct sc_ds_webhook_options {
	const char *ca;     /* NULL: the system's */
	int64_t limit_ms;   /* for one delivery */
	void (*say)(enum sc_level level, const char *fields, const char *format, ...);
};

/* The engine's subscriptions must be enabled (durable/subs.h). */
int sc_ds_webhooks_start(struct sc_ds *ds, const struct sc_ds_webhook_options *options,
			 struct sc_ds_webhooks **ret_webhooks, struct sc_err *err);
/* What is on its way is given up, and stays due. Before sc_ds_close; NULL is fine. */
void sc_ds_webhooks_stop(struct sc_ds_webhooks *webhooks);
uint64_t sc_ds_webhooks_running(const struct sc_ds_webhooks *webhooks);

#endif
