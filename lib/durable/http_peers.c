/* http_peers.c: a table of addresses with counts. */
#include "durable/http_peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define CAP_FIRST 64

struct sc_ds_peer_slot {
	uint64_t key;
	size_t count;
};

int sc_ds_peers_init(struct sc_ds_peers *peers, size_t max, struct sc_err *err)
{
	*peers = (struct sc_ds_peers){ .max = max };
	if (max == 0)
		return 0;
	peers->slots = sc_calloc(CAP_FIRST, sizeof(*peers->slots));
	if (!peers->slots)
		return sc_err_nomem(err, "cannot serve");
	peers->cap = CAP_FIRST;
	pthread_mutex_init(&peers->lock, NULL);
	return 0;
}

void sc_ds_peers_done(struct sc_ds_peers *peers)
{
	if (peers->slots)
		pthread_mutex_destroy(&peers->lock);
	free(peers->slots);
	peers->slots = NULL;
}

/* The low bits say the kind, so that no key is 0 and no two kinds meet. */
static uint64_t key_of(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)address;
	uint64_t key = 0;
	uint32_t four;

	if (address->sa_family == AF_INET) {
		four = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
		return (uint64_t)four << 2 | 1;
	}
	if (address->sa_family != AF_INET6)
		return 0;
	if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(&four, &six->sin6_addr.s6_addr[12], sizeof(four));
		return (uint64_t)four << 2 | 1;
	}
	memcpy(&key, six->sin6_addr.s6_addr, sizeof(key));
	return (key ^ key >> 62) << 2 | 2;
}

static size_t place(const struct sc_ds_peers *peers, uint64_t key)
{
	size_t at = (size_t)((key * 0x9e3779b97f4a7c15ull) >> 20) & (peers->cap - 1);

	while (peers->slots[at].key && peers->slots[at].key != key)
		at = (at + 1) & (peers->cap - 1);
	return at;
}

static bool grow(struct sc_ds_peers *peers)
{
	struct sc_ds_peers larger = { .cap = peers->cap * 2 };

	larger.slots = sc_calloc(larger.cap, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (size_t i = 0; i < peers->cap; i++)
		if (peers->slots[i].key)
			larger.slots[place(&larger, peers->slots[i].key)] = peers->slots[i];
	free(peers->slots);
	peers->slots = larger.slots;
	peers->cap = larger.cap;
	return true;
}

struct sc_ds_peer sc_ds_peer_of(const struct sockaddr *address)
{
	return (struct sc_ds_peer){ key_of(address) };
}

bool sc_ds_peers_enter(struct sc_ds_peers *peers, struct sc_ds_peer peer)
{
	bool may = false;

	if (!peers->max || !peer.key)
		return true;
	pthread_mutex_lock(&peers->lock);
	if (peers->used * 2 < peers->cap || grow(peers)) {
		struct sc_ds_peer_slot *slot = &peers->slots[place(peers, peer.key)];

		may = slot->count < peers->max;
		if (may && !slot->key) {
			slot->key = peer.key;
			peers->used++;
		}
		slot->count += may;
	}
	pthread_mutex_unlock(&peers->lock);
	return may;
}

/* The slots behind an emptied one move up, so that each is found again. */
static void remove_at(struct sc_ds_peers *peers, size_t at)
{
	size_t next = at;

	peers->slots[at] = (struct sc_ds_peer_slot){ 0 };
	peers->used--;
	for (;;) {
		struct sc_ds_peer_slot moved;

		next = (next + 1) & (peers->cap - 1);
		moved = peers->slots[next];
		if (!moved.key)
			return;
		peers->slots[next] = (struct sc_ds_peer_slot){ 0 };
		peers->slots[place(peers, moved.key)] = moved;
	}
}

void sc_ds_peers_leave(struct sc_ds_peers *peers, struct sc_ds_peer peer)
{
	size_t at;

	if (!peers->max || !peer.key)
		return;
	pthread_mutex_lock(&peers->lock);
	at = place(peers, peer.key);
	if (peers->slots[at].key && --peers->slots[at].count == 0)
		remove_at(peers, at);
	pthread_mutex_unlock(&peers->lock);
}
