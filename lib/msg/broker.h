/*
 * msg/broker.h: the wsmsg broker: endpoints, channels, subscriptions, windows. No sockets, no
 * clock.
 *
 * Owns      everything in it. A node is valid from sc_broker_join until sc_broker_leave returned.
 * Units     us: `wall` since 1970 UTC, `mono` of a clock that does not go back.
 * Errors    SC_E_NOMEM; SC_E_BUSY where a limit is reached. What peers do wrong is answered to
 *           them.
 * Safety    one thread. Hooks are called from inside functions here; they must not call back in
 *           (but sc_broker_blocked with true). Any bytes are safe input.
 * Source    wsmsg 5 to 14, 17, 18; man/sc-wsmsg.7.
 *
 * The caller says what time it is (sc_broker_time) before the calls of one turn, and calls
 * sc_broker_tick about once a second. While sc_broker_busy, it calls sc_broker_work again and
 * again, with other things in between.
 */
#ifndef SC_MSG_BROKER_H
#define SC_MSG_BROKER_H

#include "base/err.h"
#include "msg/message.h"
#include "msg/queue.h"
#include "msg/ulid.h"

struct sc_broker;
struct sc_broker_node;

#define SC_BROKER_SIZE_MAX 1000000

struct sc_broker_options {
	uint32_t queue_size;       /* of queues that have no size of their own */
	uint64_t memory_max;       /* of all below: beyond it publishers and who subscribes get "limit"; 0 = none */
	int64_t max_age_us;        /* queued messages older than that are dropped; 0 = none */
	int64_t ack_timeout_us;    /* who holds a message longer is closed; 0 = none */
	int64_t endpoint_idle_us;  /* endpoints without a node for so long are forgotten; 0 = never */
	enum sc_msg_order order;   /* to nodes that have sent nothing yet */
	bool plain_acks;           /* data of acks is always nil */
	bool admins;               /* commands that change the broker need a node that is one */
	uint32_t channels_max, endpoints_max, subscriptions_max; /* the last: of one endpoint */
};
/* The defaults of wsmsg 18. */
void sc_broker_options_init(struct sc_broker_options *options);

struct sc_broker_hooks {
	/* A control message for this node, outside its window: to be sent in any case. */
	void (*control)(void *arg, void *user, struct sc_span bytes);
	/* A message of the window. Keep a reference to send it later; negative: it cannot be
	 * sent, and the node will leave. */
	int (*deliver)(void *arg, void *user, struct sc_parcel *parcel, enum sc_msg_order order);
	/* To be closed; sc_broker_leave is to follow. Nothing is told to the node any more. */
	void (*close)(void *arg, void *user, int code, const char *reason);
	/* May be NULL. Whether it is about to leave: then it is given nothing more. */
	bool (*leaves)(void *arg, void *user);
	/* May be NULL. Whether a long control message can wait for a node that does not take it:
	 * if not, the command that asked for it gets "limit". */
	bool (*has_room)(void *arg, void *user, size_t bytes);
};

int sc_broker_new(const struct sc_broker_options *options, const struct sc_broker_hooks *hooks, void *arg,
		  struct sc_broker **ret_broker, struct sc_err *err);
void sc_broker_free(struct sc_broker *broker);

void sc_broker_time(struct sc_broker *broker, int64_t wall_us, int64_t mono_us);
void sc_broker_tick(struct sc_broker *broker);
bool sc_broker_busy(const struct sc_broker *broker);
void sc_broker_work(struct sc_broker *broker);

/* The uid for a node to come. */
struct sc_ulid sc_broker_uid(struct sc_broker *broker);
/* Whether a node may come to this endpoint: false at the limit of endpoints, and when stopping. */
bool sc_broker_admits(const struct sc_broker *broker, struct sc_span endpoint);
/* ENDPOINT: 1 to 255 bytes of UTF-8. USER is what the hooks get. */
int sc_broker_join(struct sc_broker *broker, struct sc_span endpoint, const struct sc_ulid *uid, bool admin,
		   void *user, struct sc_broker_node **ret_node);
/* A whole binary message of the node. */
void sc_broker_input(struct sc_broker *broker, struct sc_broker_node *node, struct sc_span bytes);
/* Its socket takes no data, which hooks may say as well, or takes data again. */
void sc_broker_blocked(struct sc_broker *broker, struct sc_broker_node *node, bool blocked);
void sc_broker_leave(struct sc_broker *broker, struct sc_broker_node *node);
/* What it sent was no message: the hook `close` is called. */
void sc_broker_refuse(struct sc_broker *broker, struct sc_broker_node *node, int code, const char *reason);
const struct sc_ulid *sc_broker_node_uid(const struct sc_broker_node *node);

/* As the command stop does: the notice to every node, and nothing is delivered any more. Again:
 * nothing. */
void sc_broker_stop(struct sc_broker *broker);
bool sc_broker_stopping(const struct sc_broker *broker);

/* name, help, whether it only grows */
#define SC_BROKER_COUNTERS(X) \
	X(nodes, "nodes connected", false) \
	X(channels, "channels", false) \
	X(endpoints, "endpoints", false) \
	X(subscriptions, "subscriptions, to channels and to messages", false) \
	X(queued, "messages in queues", false) \
	X(queued_bytes, "bytes of queues and of the messages in them", false) \
	X(memory_bytes, "bytes of these, of subscriptions, channels, endpoints and nodes", false) \
	X(received, "messages received from nodes, acks included", true) \
	X(delivered, "messages sent to nodes", true) \
	X(acked, "delivered messages that were acknowledged", true) \
	X(unrouted, "messages that no endpoint wanted", true) \
	X(dropped_full, "messages dropped because a queue was full", true) \
	X(dropped_age, "messages dropped because they were too old", true) \
	X(lost_unacked, "messages lost with a node that had not acknowledged them", true) \
	X(refused, "messages answered with an error, or with a close", true) \
	X(stray_acks, "acks that acknowledged nothing", true)
struct sc_broker_stats {
	uint64_t uptime_s;
#define X(name, help, grows) uint64_t name;
	SC_BROKER_COUNTERS(X)
#undef X
};
void sc_broker_stats(const struct sc_broker *broker, struct sc_broker_stats *ret_stats);

/* Each endpoint; stops at the first negative, and returns it. */
struct sc_broker_endpoint_stats {
	struct sc_span name;
	uint32_t nodes, queued, waiting_ack;
	uint64_t dropped_full, dropped_age;
};
int sc_broker_each_endpoint(const struct sc_broker *broker,
			    int (*each)(void *arg, const struct sc_broker_endpoint_stats *stats), void *arg);

#endif
