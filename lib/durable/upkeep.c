/* upkeep.c: what the writer does beside its calls: expired streams, data to delete, stale forks. */
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/engine_internal.h"
#include "durable/subs_internal.h"

int sc_ds_row_from(struct sc_kv_txn *txn, int table, struct sc_span from, struct sc_ds_key *ret_key,
		   struct sc_span *ret_value, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key;
	int rc = sc_kv_cursor_open(txn, table, &cursor, err);

	if (rc == 0 && from.len)
		rc = sc_kv_cursor_seek(cursor, from, &key, ret_value, err);
	else if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, ret_value, err);
	if (rc == 1 && key.len <= SC_DS_KEY_MAX) {
		memcpy(ret_key->data, key.data, key.len);
		ret_key->len = key.len;
	}
	sc_kv_cursor_close(cursor);
	return rc;
}

/* -- what cannot be done -- */

static uint64_t row_hash(int table, const struct sc_ds_key *key)
{
	return sc_ds_hash(sc_ds_key_span(key)) * 31 + (uint64_t)table + 1;
}

static bool is_aside(const struct sc_ds *ds, uint64_t hash)
{
	for (unsigned i = 0; i < ds->aside_count; i++)
		if (ds->aside[i] == hash)
			return true;
	return false;
}

int sc_ds_row_to_do(struct sc_ds *ds, struct sc_kv_txn *txn, int table, struct sc_span from,
		    struct sc_ds_key *ret_key, struct sc_span *ret_value, struct sc_err *err)
{
	int rc = sc_ds_row_from(txn, table, from, ret_key, ret_value, err);

	while (rc == 1 && is_aside(ds, row_hash(table, ret_key))) {
		ret_key->data[ret_key->len++] = 0; /* the next key there can be */
		rc = ret_key->len > SC_DS_KEY_MAX
			     ? 0
			     : sc_ds_row_from(txn, table, sc_ds_key_span(ret_key), ret_key,
					      ret_value, err);
	}
	ds->doing = rc == 1 ? row_hash(table, ret_key) : 0;
	return rc;
}

bool sc_ds_set_aside(struct sc_ds *ds, const struct sc_err *err)
{
	if (!ds->doing || ds->aside_count == SC_DS_ASIDE_MAX)
		return false;
	ds->aside[ds->aside_count++] = ds->doing;
	ds->aside_err = *err;
	ds->doing = 0;
	pthread_mutex_lock(&ds->lock);
	ds->stats.set_aside = ds->aside_count;
	pthread_mutex_unlock(&ds->lock);
	sc_ds_trouble(ds, err);
	return true;
}

/* -- what expires -- */

/* One row that is due: the stream goes, or is looked at again later. */
static int sweep_one(struct sc_ds_work *work, const struct sc_ds_key *key, int64_t now_us,
		     struct sc_err *err)
{
	uint64_t sid = sc_ds_get_be64(key->data + 8);
	struct sc_ds_entry *entry;
	int64_t deadline;
	int rc = sc_ds_work_sid(work, sid, &entry, err);

	if (rc < 0)
		return rc;
	if (!entry || entry->stream.indexed_us != sc_ds_key_time(key->data)) {
		rc = sc_kv_del(work->txn, SC_DS_EXPIRY, sc_ds_key_span(key), err);
		return rc < 0 ? rc : 0;
	}
	deadline = sc_ds_stream_deadline(&entry->stream);
	if (now_us < deadline)
		return sc_ds_index(work, entry, deadline, err);
	work->expired++;
	return sc_ds_remove(work, entry, err);
}

int sc_ds_sweep(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err)
{
	int64_t now_us = sc_wall_us();
	struct sc_ds_key key;
	struct sc_span value;
	int rc = 0;

	*ret_more = true;
	for (; max > 0; max--) {
		rc = sc_ds_row_to_do(work->ds, work->txn, SC_DS_EXPIRY, sc_span(NULL, 0), &key,
				     &value, err);
		if (rc < 0)
			return rc;
		if (rc == 1 && key.len != 16)
			return sc_ds_damaged(err, "a row of its expiry index is none", 0);
		work->ds->due_us = rc == 1 ? sc_ds_key_time(key.data) : INT64_MAX;
		if (rc == 0 || work->ds->due_us > now_us) {
			*ret_more = false;
			return 0;
		}
		rc = sweep_one(work, &key, now_us, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Rows of TABLE whose keys begin with SID, below END (a run: its end), at most *MAX of them. 1 =
 * there are more. */
static int delete_rows(struct sc_ds_work *work, int table, uint64_t sid, uint64_t end,
		       unsigned *max, struct sc_err *err)
{
	struct sc_ds_key from, key;
	struct sc_span value;
	int rc;

	sc_ds_key1(&from, sid);
	for (; *max > 0; --*max) {
		rc = sc_ds_row_from(work->txn, table, sc_ds_key_span(&from), &key, &value, err);
		if (rc <= 0)
			return rc;
		if (key.len < 8 || sc_ds_get_be64(key.data) != sid)
			return 0;
		if (table == SC_DS_RUNS && key.len == 16 &&
		    sc_ds_get_be64(key.data + 8) + value.len > end)
			return 0;
		work->deleted_bytes += value.len;
		rc = sc_kv_del(work->txn, table, sc_ds_key_span(&key), err);
		if (rc < 0)
			return rc;
	}
	return 1;
}

/* -- what forks of a trimmed stream still show -- */

static int go_down(struct sc_ds_walk *walk, const struct sc_ds_stream *stream, struct sc_err *err)
{
	if (walk->depth > SC_DS_FORK_DEPTH_MAX)
		return sc_ds_damaged(err, "it is its own source", stream->sid);
	if (walk->depth == walk->cap) {
		unsigned cap = walk->cap ? walk->cap * 2 : 8;
		struct sc_ds_level *grown = sc_realloc(walk->levels, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, "cannot look at forks");
		walk->levels = grown;
		walk->cap = cap;
	}
	walk->levels[walk->depth++] = (struct sc_ds_level){ .sid = stream->sid,
							    .least = stream->first,
							    .fork_at = stream->fork_at };
	return 0;
}

/* All of the last level was seen: what that shows counts for the one above, below the point
 * where it was forked. */
static void go_up(struct sc_ds_walk *walk)
{
	const struct sc_ds_level *done = &walk->levels[walk->depth - 1], *up = done - 1;

	if (done->least < up->least && done->least < done->fork_at)
		walk->levels[walk->depth - 2].least = done->least;
	walk->depth--;
}

/* The next fork of the last level, or back to the one above. */
static int step(struct sc_ds_work *work, struct sc_ds_walk *walk, struct sc_err *err)
{
	struct sc_ds_level *at = &walk->levels[walk->depth - 1];
	struct sc_ds_stream fork;
	struct sc_ds_key from, key;
	struct sc_span value;
	int rc = 0;

	sc_ds_key2(&from, at->sid, at->next);
	if (at->least > 0)
		rc = sc_ds_row_from(work->txn, SC_DS_FORKS, sc_ds_key_span(&from), &key, &value,
				    err);
	if (rc < 0)
		return rc;
	if (rc == 0 || key.len != 16 || sc_ds_get_be64(key.data) != at->sid) {
		if (walk->depth == 1)
			walk->known = true;
		else
			go_up(walk);
		return 0;
	}
	at->next = sc_ds_get_be64(key.data + 8) + 1;
	rc = sc_ds_load_sid(work->txn, at->next - 1, &fork, err);
	return rc == 1 ? go_down(walk, &fork, err) : rc;
}

/*
 * The lowest position that a stream or a fork of it still shows is found. A fork can be older than
 * the trim of its source: then it shows what the source does not any more. 1 = not yet.
 */
static int walk_forks(struct sc_ds_work *work, const struct sc_ds_stream *stream, unsigned *max,
		      struct sc_err *err)
{
	struct sc_ds_walk *walk = &work->ds->walk;
	struct sc_kv_stat store;
	int rc = sc_kv_stat(work->ds->kv, &store, err);

	if (rc == 0 && walk->sid != stream->sid) {
		walk->sid = stream->sid;
		walk->known = walk->again = false;
		walk->depth = 0;
		rc = go_down(walk, stream, err);
	} else if (rc == 0 && store.last_txn != walk->txn && store.last_txn + 1 != walk->txn) {
		walk->again = true; /* perhaps it was another process that wrote */
	}
	walk->txn = store.last_txn + 1;
	for (; rc == 0 && !walk->known && *max > 0; --*max)
		rc = step(work, walk, err);
	return rc < 0 ? rc : !walk->known;
}

void sc_ds_chores_lost(struct sc_ds *ds)
{
	ds->walk.sid = 0;
}

/* 1 = not at the end. *ret_source: a source that had trimmed what this was perhaps the last one to
 * show; 0: none. */
static int delete_trimmed(struct sc_ds_work *work, uint64_t sid, unsigned *max,
			  uint64_t *ret_source, struct sc_err *err)
{
	struct sc_ds_walk *walk = &work->ds->walk;
	struct sc_ds_stream stream, source;
	int rc = sc_ds_load_sid(work->txn, sid, &stream, err);

	if (rc == 1)
		rc = walk_forks(work, &stream, max, err);
	else if (rc == 0)
		return 0;
	if (rc == 0)
		rc = delete_rows(work, SC_DS_RUNS, sid, walk->levels[0].least, max, err);
	if (rc != 0)
		return rc;
	walk->sid = 0;
	if (walk->again)
		return 1;
	if (stream.source_sid) {
		rc = sc_ds_load_sid(work->txn, stream.source_sid, &source, err);
		if (rc == 1 && source.first)
			*ret_source = source.sid;
	}
	return rc < 0 ? rc : 0;
}

/* One row of deletes, as far as *MAX goes. A source's turn comes when this row is done with, so
 * that a chain of forks is walked once. */
static int delete_one(struct sc_ds_work *work, const struct sc_ds_key *key, char what,
		      unsigned *max, struct sc_err *err)
{
	uint64_t sid = sc_ds_get_be64(key->data), source = 0;
	int rc;

	if (what == 'S') {
		rc = sc_ds_subs_delete_links(work, sid, max, err);
	} else if (what == 'T') {
		rc = delete_trimmed(work, sid, max, &source, err);
	} else {
		rc = delete_rows(work, SC_DS_RUNS, sid, UINT64_MAX, max, err);
		if (rc == 0)
			rc = delete_rows(work, SC_DS_PRODUCERS, sid, 0, max, err);
	}
	if (rc == 0)
		rc = sc_kv_del(work->txn, SC_DS_DELETES, sc_ds_key_span(key), err);
	else if (rc == 1)
		return 0;
	if (rc >= 0 && source)
		rc = sc_ds_mark(work, source, 'T', err);
	return rc < 0 ? rc : 0;
}

int sc_ds_delete_page(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err)
{
	struct sc_ds *ds = work->ds;
	struct sc_ds_key key, from = { .len = 0 };
	struct sc_span what;
	int rc;

	*ret_more = true;
	while (max > 0) {
		/* what was begun comes first: else it would begin anew */
		if (ds->walk.sid)
			sc_ds_key1(&from, ds->walk.sid);
		rc = sc_ds_row_to_do(ds, work->txn, SC_DS_DELETES, sc_ds_key_span(&from), &key,
				     &what, err);
		if (rc < 0)
			return rc;
		from.len = 0;
		if (ds->walk.sid && (rc == 0 || sc_ds_get_be64(key.data) != ds->walk.sid)) {
			ds->walk.sid = 0;
			continue;
		}
		if (rc == 0) {
			*ret_more = false;
			return 0;
		}
		rc = delete_one(work, &key, what.len == 1 ? what.data[0] : 'D', &max, err);
		if (rc < 0)
			return rc;
		if (max > 0)
			max--; /* a row without data is work too */
	}
	return 0;
}

/* A row of forks: the fork is there, or its source forgets it. */
static int repair_one(struct sc_ds_work *work, const struct sc_ds_key *key, struct sc_err *err)
{
	uint64_t source = sc_ds_get_be64(key->data);
	struct sc_ds_entry *entry;
	struct sc_ds_stream fork;
	int rc = sc_ds_load_sid(work->txn, sc_ds_get_be64(key->data + 8), &fork, err);

	if (rc < 0 || (rc == 1 && fork.source_sid == source))
		return rc < 0 ? rc : 0;
	rc = sc_kv_del(work->txn, SC_DS_FORKS, sc_ds_key_span(key), err);
	if (rc >= 0)
		rc = sc_ds_work_sid(work, source, &entry, err);
	if (rc < 0 || !entry)
		return rc;
	if (entry->stream.forks)
		entry->stream.forks--;
	entry->dirty = true;
	return entry->stream.gone && !entry->stream.forks ? sc_ds_purge(work, entry, err) : 0;
}

int sc_ds_repair(struct sc_ds_work *work, unsigned max, bool *ret_more, struct sc_err *err)
{
	char *at = work->ds->repair_at;
	struct sc_ds_key key;
	struct sc_span value;
	int rc;

	*ret_more = true;
	for (; max > 0; max--) {
		rc = sc_ds_row_to_do(work->ds, work->txn, SC_DS_FORKS, sc_span(at, 16), &key,
				     &value, err);
		if (rc == 1 && key.len == 16)
			rc = repair_one(work, &key, err);
		else if (rc >= 0)
			break;
		if (rc < 0)
			return rc;
		/* behind this row next time */
		memcpy(at, key.data, 8);
		sc_ds_put_be64(at + 8, sc_ds_get_be64(key.data + 8) + 1);
	}
	if (max > 0) {
		memset(at, 0, 16);
		*ret_more = false;
	}
	return 0;
}
