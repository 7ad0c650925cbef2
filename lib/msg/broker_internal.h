/*
 * msg/broker_internal.h: what the files of the broker and its state share.
 *
 * Owns      broker.c: nodes and what they send; broker_object.c: channels and endpoints;
 *           broker_subscription.c: who wants what; broker_route.c: from channels to nodes;
 *           broker_command.c: the channel system; broker_report.c: what the broker itself sends.
 * Units     as broker.h.
 * Errors    as broker.h.
 * Safety    one thread.
 * Source    wsmsg 7 to 14.
 */
#ifndef SC_MSG_BROKER_INTERNAL_H
#define SC_MSG_BROKER_INTERNAL_H

#include "msg/broker.h"
#include "base/heap.h"
#include "msg/router.h"
#include "msg/table.h"

#define SC_BROKER_US 1000000

/* Lists with a head; a link that is in none points nowhere. */
struct sc_broker_link {
	struct sc_broker_link *prev, *next;
};

static inline void sc_broker_list_init(struct sc_broker_link *head)
{
	head->prev = head->next = head;
}

static inline bool sc_broker_list_empty(const struct sc_broker_link *head)
{
	return head->next == head;
}

static inline void sc_broker_list_add(struct sc_broker_link *head, struct sc_broker_link *link)
{
	link->prev = head->prev;
	link->next = head;
	head->prev->next = link;
	head->prev = link;
}

static inline void sc_broker_list_drop(struct sc_broker_link *link)
{
	if (!link->next)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->prev = link->next = NULL;
}

/* What one thing costs beside its own size: the allocator's part, its places in tables, heaps and
 * slots. */
#define SC_BROKER_OVERHEAD 64u

#define SC_BROKER_OF(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))

struct sc_broker_channel {
	struct sc_table_entry by_name; /* its key is the name */
	struct sc_broker_link used;    /* of the broker's, the one used longest ago first */
	struct sc_heap_item waiting;   /* while it holds messages */
	int64_t used_us;
	struct sc_queue queue;
	unsigned char priority;
	bool kept, sized;              /* by command */
	char name[];
};

struct sc_broker_endpoint {
	struct sc_table_entry by_name;
	struct sc_broker_link link;    /* of the broker's, in order of creation */
	struct sc_broker_link dirty;   /* while it may have something to deliver */
	struct sc_queue queue;
	bool kept, sized;
	uint64_t mark;                 /* of the last routing that found it */
	/* Nodes have slots; rotation goes by them. */
	struct sc_broker_node **slots;
	uint64_t *ready;               /* a bit a slot */
	uint32_t slot_cap, node_count, ready_count, waiting_ack, last_slot;
	int64_t alone_us;              /* since when it has no node */
	struct sc_broker_link subscriptions, awaits;
	uint32_t subscription_count;   /* both kinds */
	char name[];
};

struct sc_broker_node {
	struct sc_broker_endpoint *endpoint;
	void *user;
	struct sc_broker_link link;    /* of the broker's */
	struct sc_broker_link held;    /* of those that hold a message, the longest first */
	int64_t held_us;
	struct sc_ulid uid;
	uint32_t slot;
	enum sc_msg_order order;
	bool admin, blocked, closing, leaving, holding;
	unsigned char held_len;
	char held_uid[SC_MSG_UID_MAX];
};

/* All subscriptions with one channel pattern. */
struct sc_broker_pattern {
	struct sc_router_entry entry;
	struct sc_router subjects;
	char text[];
};

/* All of those with one subject pattern. */
struct sc_broker_subject {
	struct sc_router_entry entry;
	struct sc_broker_pattern *channel;
	struct sc_broker_link subscriptions;
	char text[];
};

struct sc_broker_subscription {
	struct sc_broker_link of_subject, of_endpoint;
	struct sc_broker_subject *subject;
	struct sc_broker_endpoint *endpoint;
};

/* A message subscription: who awaits references to a uid. */
struct sc_broker_await {
	struct sc_table_entry by_uid;
	struct sc_broker_link of_endpoint;
	struct sc_heap_item expiry;
	struct sc_broker_endpoint *endpoint;
	int64_t expires_us;            /* wall */
	bool once;
	char uid[];
};

/* Events of a command, told after it. */
#define SC_BROKER_EVENTS_MAX 4
struct sc_broker_event {
	enum sc_msg_event event;
	struct sc_span name;           /* of a channel or an endpoint */
	const struct sc_ulid *node;    /* of node events */
};

struct sc_broker {
	struct sc_broker_options o;
	struct sc_broker_hooks hooks;
	void *arg;
	int64_t wall_us, mono_us, started_us; /* the last of mono */
	struct sc_ulid_maker ulids;
	bool paused, stopping;
	uint64_t seq, mark;
	uint64_t held_bytes;           /* of channels, endpoints, nodes and subscriptions */
	struct sc_table channels, endpoints, awaits;
	struct sc_router patterns;
	struct sc_heap waiting, expiries;
	struct sc_broker_link channel_list, endpoint_list, node_list, held_list, dirty_list;
	struct sc_queue_totals totals;
	struct sc_broker_stats count;  /* those that are counted; the rest is filled in when asked for */
	struct sc_bytes scratch, data; /* a control message; the data of an event */
	struct sc_broker_endpoint **targets;
	size_t target_count, target_cap;
	struct sc_broker_event events[SC_BROKER_EVENTS_MAX];
	int event_count;
};

/* Memory: of everything that peers make, in one number. */
static inline void sc_broker_hold(struct sc_broker *b, size_t bytes)
{
	b->held_bytes += bytes + SC_BROKER_OVERHEAD;
}

static inline void sc_broker_unhold(struct sc_broker *b, size_t bytes)
{
	b->held_bytes -= bytes + SC_BROKER_OVERHEAD;
}

static inline uint64_t sc_broker_memory(const struct sc_broker *b)
{
	return b->totals.bytes + b->held_bytes;
}

/* Whether there may be so much more. */
static inline bool sc_broker_has_room(const struct sc_broker *b, uint64_t bytes)
{
	return b->o.memory_max == 0 || sc_broker_memory(b) + bytes <= b->o.memory_max;
}

/* broker_object.c */
struct sc_broker_channel *sc_broker_channel_find(const struct sc_broker *b, struct sc_span name);
struct sc_broker_endpoint *sc_broker_endpoint_find(const struct sc_broker *b, struct sc_span name);
/* Found, or made (an event is noted); SC_E_BUSY at the limit. */
int sc_broker_channel_need(struct sc_broker *b, struct sc_span name,
		struct sc_broker_channel **ret_channel);
int sc_broker_endpoint_need(struct sc_broker *b, struct sc_span name,
		struct sc_broker_endpoint **ret_endpoint);
void sc_broker_channel_free(struct sc_broker *b, struct sc_broker_channel *channel);
void sc_broker_endpoint_free(struct sc_broker *b, struct sc_broker_endpoint *endpoint);
/* It was used now. */
void sc_broker_channel_touch(struct sc_broker *b, struct sc_broker_channel *channel);
/* Its queue or priority changed: its place among those that wait. */
void sc_broker_channel_wait(struct sc_broker *b, struct sc_broker_channel *channel);
/* Forgets it if nothing needs it. */
void sc_broker_endpoint_settle(struct sc_broker *b, struct sc_broker_endpoint *endpoint);
void sc_broker_objects_tick(struct sc_broker *b);
int sc_broker_slot_take(struct sc_broker_endpoint *endpoint, struct sc_broker_node *node);
void sc_broker_slot_leave(struct sc_broker_node *node);
/* Whether it is ready has changed, perhaps. */
void sc_broker_node_judge(struct sc_broker *b, struct sc_broker_node *node);
/* The ready node after the one served last, or NULL. */
struct sc_broker_node *sc_broker_node_next(const struct sc_broker_endpoint *endpoint);

/* broker_subscription.c: SC_E_BUSY at the limit of an endpoint; memory is for the caller to look at */
int sc_broker_subscribe(struct sc_broker *b, struct sc_broker_endpoint *endpoint, struct sc_span channel,
			struct sc_span subject);
bool sc_broker_subscribed(const struct sc_broker *b, const struct sc_broker_endpoint *endpoint,
		struct sc_span channel, struct sc_span subject);
void sc_broker_unsubscribe(struct sc_broker *b, struct sc_broker_endpoint *endpoint,
		struct sc_span pattern);
int sc_broker_await(struct sc_broker *b, struct sc_broker_endpoint *endpoint, struct sc_span uid, int64_t expires_us,
		    bool once);
bool sc_broker_awaits(const struct sc_broker *b, const struct sc_broker_endpoint *endpoint,
		struct sc_span uid);
void sc_broker_unawait(struct sc_broker *b, struct sc_broker_endpoint *endpoint,
		struct sc_span uid);
/* all */
void sc_broker_subscriptions_drop(struct sc_broker *b, struct sc_broker_endpoint *endpoint);
void sc_broker_awaits_tick(struct sc_broker *b);
/* The endpoints that want MSG, into b->targets; message subscriptions that were for once are
 * gone. */
void sc_broker_targets(struct sc_broker *b, const struct sc_msg *msg);
/* by an exact pattern */
bool sc_broker_channel_wanted(const struct sc_broker *b, struct sc_span name);

/* broker_route.c */
/* MSG to whoever wants it: how many got it. PARCEL: its own, or NULL: made when it is needed. */
int64_t sc_broker_route(struct sc_broker *b, const struct sc_msg *msg, struct sc_parcel *parcel, unsigned priority,
			enum sc_msg_order order);
void sc_broker_dirty(struct sc_broker *b, struct sc_broker_endpoint *endpoint);
void sc_broker_dispatch(struct sc_broker *b); /* what the dirty endpoints can deliver */
void sc_broker_forward(struct sc_broker *b);  /* some of what waits in channels */
/* A message of a node on an ordinary channel. */
void sc_broker_publish(struct sc_broker *b, struct sc_broker_node *node, const struct sc_msg *msg);

/* broker_command.c */
void sc_broker_command(struct sc_broker *b, struct sc_broker_node *node, const struct sc_msg *msg);

/* broker_report.c */
/* < 0: nil */
void sc_broker_ack(struct sc_broker *b, struct sc_broker_node *node, struct sc_span uid,
		int64_t count);
void sc_broker_error(struct sc_broker *b, struct sc_broker_node *node, struct sc_span uid, enum sc_msg_fault code,
		     const char *text, ...) __attribute__((format(printf, 5, 6)));
void sc_broker_notice(struct sc_broker *b, struct sc_broker_node *node, const char *subject, struct sc_span uid,
		      struct sc_span data);
int sc_broker_stats_data(struct sc_broker *b, struct sc_bytes *out);
void sc_broker_note(struct sc_broker *b, enum sc_msg_event event, struct sc_span name,
		const struct sc_ulid *node);
void sc_broker_tell_events(struct sc_broker *b); /* those noted */
/* MSG, on system, to whoever subscribed to that. */
void sc_broker_tell(struct sc_broker *b, const struct sc_msg *msg, enum sc_msg_order order);
void sc_broker_close_node(struct sc_broker *b, struct sc_broker_node *node, int code,
		const char *reason);

#endif
