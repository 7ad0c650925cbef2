/* http_timer.c: one deadline a connection, in a heap of the shard. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/http_internal.h"

static void put(struct sc_ds_shard *shard, size_t at, struct sc_ds_conn *conn)
{
	shard->heap[at] = conn;
	conn->heap_at = at;
}

static void sift_up(struct sc_ds_shard *shard, struct sc_ds_conn *conn, size_t at)
{
	while (at > 0 && shard->heap[(at - 1) / 2]->heap_us > conn->heap_us) {
		put(shard, at, shard->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(shard, at, conn);
}

static void sift_down(struct sc_ds_shard *shard, struct sc_ds_conn *conn, size_t at)
{
	for (;;) {
		size_t child = at * 2 + 1;

		if (child + 1 < shard->heap_len &&
		    shard->heap[child + 1]->heap_us < shard->heap[child]->heap_us)
			child++;
		if (child >= shard->heap_len || shard->heap[child]->heap_us >= conn->heap_us)
			break;
		put(shard, at, shard->heap[child]);
		at = child;
	}
	put(shard, at, conn);
}

int sc_ds_shard_timer_room(struct sc_ds_shard *shard, size_t conns)
{
	size_t cap = shard->heap_cap ? shard->heap_cap : 64;
	struct sc_ds_conn **heap;

	if (conns <= shard->heap_cap)
		return 0;
	while (cap < conns)
		cap *= 2;
	heap = sc_realloc(shard->heap, cap * sizeof(*heap));
	if (!heap)
		return SC_E_NOMEM;
	shard->heap = heap;
	shard->heap_cap = cap;
	return 0;
}

void sc_ds_conn_due(struct sc_ds_conn *conn, int64_t due_us)
{
	struct sc_ds_shard *shard = conn->shard;

	conn->due_us = due_us;
	if (conn->heap_at == SIZE_MAX) {
		if (due_us == SC_DS_NEVER)
			return;
		conn->heap_us = due_us;
		sift_up(shard, conn, shard->heap_len++);
	} else if (due_us < conn->heap_us) {
		conn->heap_us = due_us;
		sift_up(shard, conn, conn->heap_at);
	}
}

static void take_out(struct sc_ds_conn *conn)
{
	struct sc_ds_shard *shard = conn->shard;
	size_t at = conn->heap_at;
	struct sc_ds_conn *last = shard->heap[--shard->heap_len];

	conn->heap_at = SIZE_MAX;
	if (last == conn)
		return;
	if (at > 0 && shard->heap[(at - 1) / 2]->heap_us > last->heap_us)
		sift_up(shard, last, at);
	else
		sift_down(shard, last, at);
}

void sc_ds_conn_forget(struct sc_ds_conn *conn)
{
	conn->due_us = SC_DS_NEVER;
	if (conn->heap_at != SIZE_MAX)
		take_out(conn);
}

struct sc_ds_conn *sc_ds_shard_due(struct sc_ds_shard *shard)
{
	while (shard->heap_len > 0 && shard->heap[0]->heap_us <= shard->now_us) {
		struct sc_ds_conn *conn = shard->heap[0];
		int64_t due_us = conn->due_us;

		take_out(conn);
		if (due_us <= shard->now_us) {
			conn->due_us = SC_DS_NEVER;
			return conn;
		}
		sc_ds_conn_due(conn, due_us);
	}
	return NULL;
}

int sc_ds_shard_timeout(const struct sc_ds_shard *shard)
{
	int64_t left_us;

	if (shard->heap_len == 0)
		return -1;
	left_us = shard->heap[0]->heap_us - sc_mono_us();
	if (left_us <= 0)
		return 0;
	return left_us > 60000000 ? 60000 : (int)((left_us + 999) / 1000);
}
