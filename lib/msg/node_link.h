/*
 * msg/node_link.h: a node at its broker: what msg/node.h says is sent, over connections that come
 * again; one delivered message is handed over at a time.
 *
 * Owns      the connection and the node; messages are borrowed until the hook returns. Messages
 *           that a broker sends without waiting for acks are held, up to SC_NODE_LINK_HELD bytes
 *           and what one read brings.
 * Units     ms, bytes.
 * Errors    SC_E_USAGE, SC_E_CONFIG at the start; later ones come with `finished`: SC_E_UNAVAILABLE,
 *           SC_E_NOAUTH (401, 403), SC_E_PROTOCOL (closed with 1003, 1007, 1008, 1009 or 1011, or
 *           said what is no message).
 * Safety    the loop's thread. Everything may be called from every hook, but sc_node_link_free.
 * Source    wsmsg 2, 3, 7, 13, 20; net/client.h.
 */
#ifndef SC_MSG_NODE_LINK_H
#define SC_MSG_NODE_LINK_H

#include "msg/node.h"
#include "net/client.h"
#include "net/loop.h"

#define SC_NODE_LINK_HELD (4u << 20)

struct sc_node_link;

struct sc_node_link_options {
	struct sc_client_options connection; /* its url is the broker's root; retry is filled here */
	const char *endpoint;
	const char *token;                   /* a bearer token, or NULL */
	enum sc_node_order order;
	size_t window;                       /* messages without an answer */
	bool retry;
};

/* Each may be NULL but message. */
struct sc_node_link_hooks {
	void (*opened)(void *arg, const struct sc_client_opened *opened);
	/* all but what is delivered */
	void (*news)(void *arg, const struct sc_node_news *news);
	/* the next one comes after sc_node_link_done */
	void (*message)(void *arg, const struct sc_msg *msg);
	/* wait_ms below 0: no other try */
	void (*ended)(void *arg, const struct sc_client_ended *ended);
	/* once, as the last; code 0 after sc_node_link_close */
	void (*finished)(void *arg, const struct sc_err *err);
	void (*warning)(void *arg, const char *text);
};

/* Starts to connect in the loop's next turn. */
int sc_node_link_new(struct sc_loop *loop, const struct sc_node_link_options *options,
		     const struct sc_node_link_hooks *hooks, void *arg,
		     struct sc_node_link **ret_link, struct sc_err *err);
void sc_node_link_free(struct sc_node_link *link);
const struct sc_node *sc_node_link_node(const struct sc_node_link *link);

/* As sc_node_put and sc_node_keep; sent now if there is a connection. */
int sc_node_link_put(struct sc_node_link *link, const struct sc_msg *msg, uint64_t tag,
		     struct sc_err *err);
int sc_node_link_keep(struct sc_node_link *link, const struct sc_msg *msg, uint64_t tag,
		      struct sc_err *err);
/* Said on this connection, if there is one, and forgotten. */
int sc_node_link_say(struct sc_node_link *link, const struct sc_msg *msg, struct sc_err *err);

/* Acknowledge the message at hand; nothing where its connection has ended. */
int sc_node_link_ack(struct sc_node_link *link, struct sc_err *err);
/* It is finished with: the next one is handed over. */
void sc_node_link_done(struct sc_node_link *link);
/* The uid of the message at hand; empty when there is none. */
struct sc_span sc_node_link_holds(const struct sc_node_link *link);

/* Send what waits and leave; then finished. */
void sc_node_link_close(struct sc_node_link *link);

#endif
