/*
 * msg/queue.h: messages that many queues share, and queues that drop their oldest.
 *
 * Owns      a parcel is counted: who keeps one has a reference; a queue holds one for each message
 *           in it. Totals are the caller's and outlive queues and parcels.
 * Units     bytes, messages; times in us of the clock that does not go back.
 * Errors    SC_E_NOMEM; nothing has changed then.
 * Safety    one thread.
 * Source    wsmsg 8.2 and 9.
 */
#ifndef SC_MSG_QUEUE_H
#define SC_MSG_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "msg/message.h"

#define SC_QUEUE_SYSTEM 100 /* the priority of the channel system; 0 to 99 are for others */

/* Over all queues. */
struct sc_queue_totals {
	uint64_t bytes;   /* of parcels, wherever they are, and of the queues */
	uint64_t queued;  /* messages in queues; one in ten queues counts ten times */
	uint64_t dropped_full, dropped_age;
};

/* One message, its bytes once, whatever queues it is in. */
struct sc_parcel {
	struct sc_queue_totals *totals;
	uint64_t refs;
	uint64_t seq;          /* order of acceptance */
	uint64_t number;       /* in a state file */
	int64_t accepted_us;
	struct sc_msg msg;     /* borrowed from a form */
	struct sc_span forms[2]; /* as sent, by enum sc_msg_order; NULL data: not made yet */
};
#define SC_PARCEL_ROOM 16 /* bytes in front of a form, for whoever sends it */

/* MSG is copied; it is written in ORDER; the other order is written when it is asked for. */
struct sc_parcel *sc_parcel_new(struct sc_queue_totals *totals, const struct sc_msg *msg,
		enum sc_msg_order order);
struct sc_parcel *sc_parcel_ref(struct sc_parcel *parcel);
void sc_parcel_unref(struct sc_parcel *parcel); /* accepts NULL */
/* The message as bytes; NULL data without memory. */
struct sc_span sc_parcel_form(struct sc_parcel *parcel, enum sc_msg_order order);
/* What a parcel of MSG adds to the totals. */
size_t sc_parcel_cost(const struct sc_msg *msg);

/* Messages of one priority, the oldest first. */
struct sc_queue_lane {
	unsigned char priority;
	uint32_t head, count, cap; /* a ring */
	struct sc_parcel **ring;
};

struct sc_queue {
	struct sc_queue_totals *totals;
	struct sc_queue_lane *lanes; /* by priority, lowest first; none is empty */
	uint32_t lane_count, lane_cap;
	uint32_t count, size;
	uint64_t dropped_full, dropped_age;
};

void sc_queue_init(struct sc_queue *queue, struct sc_queue_totals *totals, uint32_t size);
void sc_queue_done(struct sc_queue *queue);
/* A full queue drops the oldest of the lowest priority, which may be this one: then 0, else 1. The
 * queue takes a reference of its own. */
int sc_queue_push(struct sc_queue *queue, unsigned priority, struct sc_parcel *parcel);
/* The oldest of the highest priority, with its reference; NULL when empty. */
struct sc_parcel *sc_queue_pop(struct sc_queue *queue, unsigned *ret_priority);
const struct sc_parcel *sc_queue_peek(const struct sc_queue *queue);
/* Drops at once what does not fit any more. */
void sc_queue_resize(struct sc_queue *queue, uint32_t size);
/* Drops what was accepted before BEFORE_US. */
void sc_queue_expire(struct sc_queue *queue, int64_t before_us);
/* All, in the order in which they would be popped; stops at the first negative, and returns it. */
int sc_queue_each(const struct sc_queue *queue, int (*each)(void *arg, unsigned priority, struct sc_parcel *parcel),
		  void *arg);

#endif
