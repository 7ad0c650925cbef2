/* http_timer.c: one deadline a connection, in a heap of the shard. */
#include "base/clock.h"
#include "durable/http_internal.h"

static struct sc_ds_conn *conn_of(struct sc_heap_item *item)
{
	return (struct sc_ds_conn *)((char *)item - offsetof(struct sc_ds_conn, timer));
}

int sc_ds_shard_timer_room(struct sc_ds_shard *shard, size_t conns)
{
	return sc_heap_reserve(&shard->timers, conns);
}

void sc_ds_conn_due(struct sc_ds_conn *conn, int64_t due_us)
{
	struct sc_heap_item *timer = &conn->timer;

	conn->due_us = due_us;
	if (timer->place ? (uint64_t)due_us < timer->major : due_us != SC_DS_NEVER)
		(void)sc_heap_put(&conn->shard->timers, timer, (uint64_t)due_us, 0); /* has room */
}

void sc_ds_conn_forget(struct sc_ds_conn *conn)
{
	conn->due_us = SC_DS_NEVER;
	sc_heap_remove(&conn->shard->timers, &conn->timer);
}

struct sc_ds_conn *sc_ds_shard_due(struct sc_ds_shard *shard)
{
	struct sc_heap_item *first;

	while ((first = sc_heap_first(&shard->timers)) && first->major <= (uint64_t)shard->now_us) {
		struct sc_ds_conn *conn = conn_of(first);
		int64_t due_us = conn->due_us;

		sc_heap_remove(&shard->timers, first);
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
	const struct sc_heap_item *first = sc_heap_first(&shard->timers);
	int64_t left_us;

	if (!first)
		return -1;
	left_us = (int64_t)first->major - sc_mono_us();
	if (left_us <= 0)
		return 0;
	return left_us > 60000000 ? 60000 : (int)((left_us + 999) / 1000);
}
