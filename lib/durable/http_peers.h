/*
 * durable/http_peers.h: how many connections an address has.
 *
 * Owns      the table, until sc_ds_peers_done.
 * Units     connections.
 * Errors    SC_E_NOMEM.
 * Safety    any thread.
 * Source    our own. An IPv6 peer is its first 64 bits, which one person may have; unix sockets are
 *           not counted.
 */
#ifndef SC_DURABLE_HTTP_PEERS_H
#define SC_DURABLE_HTTP_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"

struct sc_ds_peer {
	uint64_t key; /* 0: none */
};

struct sc_ds_peers {
	pthread_mutex_t lock;
	struct sc_ds_peer_slot *slots; /* open addressing, a power of two */
	size_t cap, used;              /* used: slots with a key */
	size_t max;                    /* of an address; 0: any number */
};

int sc_ds_peers_init(struct sc_ds_peers *peers, size_t max, struct sc_err *err);
void sc_ds_peers_done(struct sc_ds_peers *peers);
struct sc_ds_peer sc_ds_peer_of(const struct sockaddr *address);
/* true: counted, or not to be counted. */
bool sc_ds_peers_enter(struct sc_ds_peers *peers, struct sc_ds_peer peer);
void sc_ds_peers_leave(struct sc_ds_peers *peers, struct sc_ds_peer peer);

#endif
