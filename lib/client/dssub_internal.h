/*
 * client/dssub_internal.h: what dssub.c (the connection, the end), dssub_answer.c (requests, pages,
 * events) and dssub_deliver.c (messages to the consumer, the cursor) share.
 *
 * Owns      see client/dssub.h.
 * Units     see client/dssub.h.
 * Errors    see client/dssub.h.
 * Safety    the loop's thread.
 * Source    our own.
 */
#ifndef SC_CLIENT_DSSUB_INTERNAL_H
#define SC_CLIENT_DSSUB_INTERNAL_H

#include "client/dssub.h"
#include "net/httpanswer.h"
#include "net/loop.h"

struct sc_dssub_mark;

struct sc_dssub {
	const struct sc_dssub_options *d;
	const struct sc_subscription_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_dsread *read;
	struct sc_delivery *delivery;
	struct sc_ending *ending; /* the delivery's */
	struct sc_events *events;
	struct sc_timer *answer_timer, *later_timer;
	struct sc_httpanswer answer;
	struct sc_sse sse;
	enum sc_dsread_kind kind;
	struct sc_bytes in;       /* bytes of the answer that wait for the consumer */
	size_t in_at, piece_left; /* taken up to; of that, bytes of body that still wait */
	struct sc_bytes body, target, head;
	struct sc_dssub_mark *first_mark, **end_mark;
	uint64_t keys; /* given to offsets that are no numbers */
	struct sc_subscription_result result;
	bool asking, refused, page_due, asked_reconnect;
	int64_t asked_us, wait_ms;
	uint64_t rows_before;
	unsigned refusals, faults;
	uint64_t fault_rows;
};

/* dssub_answer.c: what is there is taken as far as the consumer goes along, and the next request
 * sent when it is time. */
void sc_dssub_process(struct sc_dssub *s);
void sc_dssub_late(void *arg);  /* the answer's time is up */
void sc_dssub_later(void *arg); /* the wait before a request is over */
/* The body of a page is whole. */
int sc_dssub_page(struct sc_dssub *s, struct sc_err *err);

/* dssub_deliver.c: of the messages that are there, as many as the consumer takes: true when none is
 * left. */
bool sc_dssub_deliver(struct sc_dssub *s);
/* What was finished, into the cursor (struct sc_delivery_hooks). */
int sc_dssub_keep(void *arg, struct sc_cursor *cursor, uint64_t done, struct sc_err *err);
void sc_dssub_forget(struct sc_dssub *s); /* free what it keeps */

static inline bool sc_dssub_ending(const struct sc_dssub *s)
{
	return sc_ending_is_begun(s->ending);
}

#endif
