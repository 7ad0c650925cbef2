/*
 * msg/node.h: what a node has said and heard: what waits to be sent, what waits for an answer, what
 * is to be acknowledged, over any number of connections. No I/O.
 *
 * Owns      copies of what was put, until it is settled; what it hands out is borrowed until the
 *           next call.
 * Units     none.
 * Errors    SC_E_BUSY when the window is full, SC_E_PROTOCOL for what is no message, SC_E_NOMEM.
 * Safety    one thread.
 * Source    wsmsg 5, 6, 7, 14, 20; man/sc-node.1.
 *
 * What is put is sent once, and again on a new connection as long as neither ack nor error came.
 * What is kept is sent on each connection, before anything else: subscriptions.
 */
#ifndef SC_MSG_NODE_H
#define SC_MSG_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "msg/message.h"

struct sc_node;

/* AUTO begins with the document's, and changes once if the peer closes with 1000 before it has said
 * anything. */
enum sc_node_order { SC_NODE_DOCUMENT, SC_NODE_REFERENCE, SC_NODE_AUTO };

int sc_node_new(enum sc_node_order order, size_t window, struct sc_node **ret_node,
		struct sc_err *err);
void sc_node_free(struct sc_node *node);

/* TAG comes back with the answer. A message without a uid gets a new ULID. */
int sc_node_put(struct sc_node *node, const struct sc_msg *msg, uint64_t tag, struct sc_err *err);
int sc_node_keep(struct sc_node *node, const struct sc_msg *msg, uint64_t tag, struct sc_err *err);
size_t sc_node_room(const struct sc_node *node);    /* how many may be put now */
size_t sc_node_waiting(const struct sc_node *node); /* were put, and have no answer */
bool sc_node_ready(const struct sc_node *node);     /* what is kept was acknowledged on this connection */
/* The order that it speaks now, and whether the peer has ever said anything. */
enum sc_msg_order sc_node_speaks(const struct sc_node *node);
bool sc_node_answered(const struct sc_node *node);
/* The uid of what was put or kept last. */
struct sc_span sc_node_last_uid(const struct sc_node *node);

/* A new connection: everything without an answer is to be sent (again). */
void sc_node_opened(struct sc_node *node);
/* It ended, the peer's close code being CODE. True: the other order is used from now on, connect
 * again at once. */
bool sc_node_closed(struct sc_node *node, uint16_t code);
/* The next message to be sent is appended to OUT: 1; nothing is to be sent: 0. */
int sc_node_next(struct sc_node *node, struct sc_bytes *out, struct sc_err *err);

enum sc_node_news_kind {
	SC_NODE_NOTHING,   /* said to us, and of no use: a second ack, a control message of others */
	SC_NODE_DELIVERED, /* msg is to be acknowledged */
	SC_NODE_ACKED,     /* msg.data is what the broker said with it: a count, or nil */
	SC_NODE_REFUSED,   /* code and text are the broker's words */
	SC_NODE_STATS,     /* the answer to the last stats command */
	SC_NODE_STOPPING,
};
struct sc_node_news {
	enum sc_node_news_kind kind;
	struct sc_msg msg;
	uint64_t tag;              /* ACKED, REFUSED */
	bool kept;                 /* ACKED, REFUSED: it is one that is kept */
	struct sc_span code, text; /* REFUSED */
};
/* What came from the broker. */
int sc_node_take(struct sc_node *node, struct sc_span payload, struct sc_node_news *ret_news,
		 struct sc_err *err);

/* Acknowledge a message that this connection delivered: sc_node_next gives the ack. It is forgotten
 * when the connection ends first: the broker has let go of the message then. */
int sc_node_ack(struct sc_node *node, struct sc_span uid, struct sc_err *err);

/* A message that is sent once and whose answer nobody waits for is appended to OUT. */
int sc_node_write(struct sc_node *node, const struct sc_msg *msg, struct sc_bytes *out,
		  struct sc_err *err);

#endif
