/* http_accept.c: new connections: counted, limited, and given to the shard that has the fewest. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/http_internal.h"

#define ACCEPTS_MAX 64 /* of a listener, in a turn */
#define STARVED_US 100000

int sc_ds_shard_listen(struct sc_ds_shard *shard, bool on)
{
	int rc = 0;

	if (shard->accepting == on)
		return 0;
	for (size_t i = 0; i < shard->listener_count; i++) {
		struct sc_ds_listener *l = &shard->listeners[i];
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = l };

		if (epoll_ctl(shard->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, l->fd, &event) <
		    0)
			rc = -errno;
	}
	shard->accepting = on;
	return rc;
}

static struct sc_ds_shard *emptiest(struct sc_ds_http *http)
{
	struct sc_ds_shard *best = &http->shards[0];

	for (size_t i = 1; i < http->shard_count; i++)
		if (atomic_load(&http->shards[i].conn_count) < atomic_load(&best->conn_count))
			best = &http->shards[i];
	return best;
}

static void let_go(struct sc_ds_http *http, struct sc_ds_peer peer)
{
	sc_ds_peers_leave(&http->peers, peer);
	atomic_fetch_sub(&http->clients, 1);
}

/* It is counted in the shard's connections already. */
void sc_ds_shard_take(struct sc_ds_shard *shard, int fd, struct sc_ds_peer peer)
{
	if (sc_ds_shard_timer_room(shard, atomic_load(&shard->conn_count) + 1) == 0 &&
	    sc_ds_conn_open(shard, fd, peer) == 0)
		return;
	close(fd);
	atomic_fetch_sub(&shard->conn_count, 1);
	let_go(shard->http, peer);
}

static void hand_over(struct sc_ds_http *http, struct sc_ds_shard *from, int fd,
		      struct sc_ds_peer peer)
{
	struct sc_ds_shard *to = emptiest(http);
	struct sc_ds_note *note = NULL;

	if (to != from)
		note = sc_calloc(1, sizeof(*note));
	if (!note) {
		atomic_fetch_add(&from->conn_count, 1);
		sc_ds_shard_take(from, fd, peer);
		return;
	}
	*note = (struct sc_ds_note){ .fd = fd, .peer = peer };
	atomic_fetch_add(&to->conn_count, 1);
	sc_ds_shard_note(to, note);
}

static void admit(struct sc_ds_shard *shard, int fd, const struct sockaddr_storage *address)
{
	struct sc_ds_http *http = shard->http;
	struct sc_ds_peer peer = sc_ds_peer_of((const struct sockaddr *)address);
	size_t max = http->o.clients_max;
	int one = 1;

	atomic_fetch_add_explicit(&http->accepted, 1, memory_order_relaxed);
	if (atomic_fetch_add(&http->clients, 1) >= max && max) {
		atomic_fetch_sub(&http->clients, 1);
	} else if (!sc_ds_peers_enter(&http->peers, peer)) {
		atomic_fetch_sub(&http->clients, 1);
	} else {
		if (address->ss_family != AF_UNIX)
			(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		hand_over(http, shard, fd, peer);
		return;
	}
	atomic_fetch_add_explicit(&http->refused_clients, 1, memory_order_relaxed);
	sc_ds_send_busy(http, fd);
	sc_ds_shard_linger(shard, fd);
}

void sc_ds_shard_accept(struct sc_ds_shard *shard, struct sc_ds_listener *listener)
{
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct sockaddr_storage address = { 0 };
		socklen_t len = sizeof(address);
		int fd = accept4(listener->fd, (struct sockaddr *)&address, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			admit(shard, fd, &address);
			continue;
		}
		if (errno == EINTR || errno == ECONNABORTED)
			continue;
		if (errno != EAGAIN) {
			/* out of descriptors: who waits in the queue is not asked for a while */
			shard->starved_us = sc_mono_us() + STARVED_US;
			(void)sc_ds_shard_listen(shard, false);
		}
		return;
	}
}
