/*
 * batch.c: one transaction of the writer: calls, last accesses and upkeep, in one commit.
 *
 * What a path's stream is during the transaction stands in an entry; records and runs of messages
 * go into the store once, at the end. Entries live for one transaction: between two of them nothing
 * is kept that the store could contradict (another process may write too).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/engine_internal.h"
#include "durable/subs_internal.h"

#define ENTRY_MAX (1u << 30)
#define POOL_MAX 256u  /* entries kept, with their memory */
#define SWEEP_MAX 500u /* streams in one transaction */
#define REPAIR_MAX 1000u
#define LEASES_MAX 1000u
#define DELETE_BUSY 200u /* runs, when there is other work */
#define DELETE_IDLE 2000u
#define DELETE_FULL 64u    /* and when the disk is full, or less */
#define RESERVE (1u << 20) /* of room on the disk, which only deleting and trimming may take */
#define TREES_OF_CALL (16u << 10)
#define TREES_MAX (1u << 20)
#define AHEAD (4u << 20) /* of the file, for small writes; large ones would only be written twice */

static struct sc_ds_entry *take_entry(struct sc_ds *ds)
{
	struct sc_ds_entry *entry = ds->pool;
	struct sc_bytes path, record, run;

	if (!entry) {
		entry = sc_calloc(1, sizeof(*entry));
		if (!entry)
			return NULL;
		sc_bytes_init(&entry->path, ENTRY_MAX);
		sc_bytes_init(&entry->record, ENTRY_MAX);
		sc_bytes_init(&entry->run, ENTRY_MAX);
		return entry;
	}
	ds->pool = entry->next_all;
	ds->pooled--;
	path = entry->path;
	record = entry->record;
	run = entry->run;
	*entry = (struct sc_ds_entry){ .path = path, .record = record, .run = run };
	sc_bytes_clear(&entry->path);
	sc_bytes_clear(&entry->record);
	sc_bytes_clear(&entry->run);
	return entry;
}

static void free_entry(struct sc_ds_entry *entry)
{
	sc_bytes_done(&entry->path);
	sc_bytes_done(&entry->record);
	sc_bytes_done(&entry->run);
	free(entry);
}

void sc_ds_pool_free(struct sc_ds *ds)
{
	while (ds->pool) {
		struct sc_ds_entry *entry = ds->pool;

		ds->pool = entry->next_all;
		free_entry(entry);
	}
}

static void give_back(struct sc_ds_work *work)
{
	struct sc_ds *ds = work->ds;

	while (work->entries) {
		struct sc_ds_entry *entry = work->entries;

		work->entries = entry->next_all;
		ds->buckets[entry->hash % SC_DS_BUCKETS] = NULL;
		if (ds->pooled >= POOL_MAX) {
			free_entry(entry);
			continue;
		}
		entry->next_all = ds->pool;
		ds->pool = entry;
		ds->pooled++;
	}
}

/* The state of ENTRY's path, from the store. */
static int fill(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_ds_stream stream;
	struct sc_span path = sc_span(entry->path.data, entry->path.len);
	int rc = sc_ds_load_path(work->txn, path, &stream, err);

	if (rc <= 0)
		return rc;
	/* what the store shows may move with the next write */
	sc_bytes_clear(&entry->record);
	if (sc_ds_stream_encode(&stream, &entry->record) < 0)
		return sc_err_nomem(err, "cannot load a stream");
	rc = sc_ds_stream_decode(sc_span(entry->record.data, entry->record.len), &entry->stream,
				 err);
	entry->exists = rc == 0;
	entry->stored_us = stream.accessed_us;
	sc_ds_access_see(work->ds, &entry->stream, sc_wall_us());
	return rc;
}

static struct sc_ds_entry *find_entry(struct sc_ds_entry *entry, uint64_t hash, struct sc_span path)
{
	for (; entry; entry = entry->next_same)
		if (entry->hash == hash && entry->path.len == path.len &&
		    !memcmp(entry->path.data, path.data, path.len))
			return entry;
	return NULL;
}

struct sc_ds_entry *sc_ds_work_known(struct sc_ds_work *work, struct sc_span path)
{
	uint64_t hash = sc_ds_hash(path);

	return find_entry(work->ds->buckets[hash % SC_DS_BUCKETS], hash, path);
}

int sc_ds_work_path(struct sc_ds_work *work, struct sc_span path, struct sc_ds_entry **ret_entry,
		    struct sc_err *err)
{
	uint64_t hash = sc_ds_hash(path);
	struct sc_ds_entry **bucket = &work->ds->buckets[hash % SC_DS_BUCKETS], *entry;
	int rc;

	entry = find_entry(*bucket, hash, path);
	if (entry) {
		*ret_entry = entry;
		return 0;
	}
	entry = take_entry(work->ds);
	if (!entry)
		return sc_err_nomem(err, "cannot load a stream");
	entry->hash = hash;
	entry->next_all = work->entries;
	work->entries = entry;
	entry->next_same = *bucket;
	*bucket = entry;
	if (sc_bytes_put(&entry->path, path.data, path.len) < 0)
		return sc_err_nomem(err, "cannot load a stream");
	rc = fill(work, entry, err);
	if (rc == 0)
		*ret_entry = entry;
	return rc;
}

int sc_ds_work_sid(struct sc_ds_work *work, uint64_t sid, struct sc_ds_entry **ret_entry,
		   struct sc_err *err)
{
	struct sc_ds_stream stream;
	struct sc_ds_entry *entry = NULL;
	int rc = sc_ds_load_sid(work->txn, sid, &stream, err);

	if (rc == 1) {
		rc = sc_ds_work_path(work, stream.path, &entry, err);
		if (rc == 0 && (!entry->exists || entry->stream.sid != sid))
			rc = sc_ds_damaged(err, "its path belongs to another", sid);
	}
	if (rc == 0)
		*ret_entry = entry;
	return rc;
}

int sc_ds_work_tell(struct sc_ds_work *work, enum sc_ds_happened happened,
		    struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_ds *ds = work->ds;
	int rc = work->has_subs ? sc_ds_subs_told(work, happened, entry, err) : 0;

	if (rc < 0 || (happened == SC_DS_CHANGED && entry->told))
		return rc;
	if (ds->events_count == ds->events_cap) {
		size_t cap = ds->events_cap ? ds->events_cap * 2 : 256;
		struct sc_ds_event *grown = sc_realloc(ds->events, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, "cannot note a change");
		ds->events = grown;
		ds->events_cap = cap;
	}
	ds->events[ds->events_count++] = (struct sc_ds_event){
		.happened = happened,
		.sid = entry->stream.sid,
		.tail = entry->stream.tail,
		.path = sc_span(entry->path.data, entry->path.len),
	};
	entry->told = happened == SC_DS_REMOVED ? 0 : ds->events_count;
	return 0;
}

static int flush_run(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_ds_key key;
	int rc;

	if (!entry->run.len)
		return 0;
	sc_ds_key2(&key, entry->stream.sid, entry->run_at);
	rc = sc_kv_put(work->txn, SC_DS_RUNS, sc_ds_key_span(&key),
		       sc_span(entry->run.data, entry->run.len), err);
	sc_bytes_clear(&entry->run);
	return rc;
}

int sc_ds_work_runs(struct sc_ds_work *work, struct sc_err *err)
{
	int rc = 0;

	for (struct sc_ds_entry *entry = work->entries; rc == 0 && entry; entry = entry->next_all)
		rc = flush_run(work, entry, err);
	return rc;
}

int sc_ds_work_claim(struct sc_ds_work *work, uint64_t bytes, struct sc_err *err)
{
	uint64_t trees, want;

	/* whole pages for the data, and those of the trees, which calls share when they are many */
	work->claimed_bytes += bytes + bytes / 8;
	trees = ++work->claimed_calls * TREES_OF_CALL;
	want = work->claimed_bytes + (trees < TREES_MAX ? trees : TREES_MAX) + RESERVE;
	return want <= work->room ? 0 : sc_kv_room(work->txn, want, &work->room, err);
}

/* A message that is longer than a run: straight into the store's page. */
static int put_long(struct sc_ds_work *work, struct sc_ds_entry *entry, uint64_t at,
		    struct sc_span message, struct sc_err *err)
{
	struct sc_ds_key key;
	char *data;
	int rc;

	sc_ds_key2(&key, entry->stream.sid, at);
	rc = sc_kv_reserve(work->txn, SC_DS_RUNS, sc_ds_key_span(&key),
			   SC_DS_FRAME_HEAD + message.len, &data, err);
	if (rc < 0)
		return rc;
	sc_ds_frame_head((uint32_t)message.len, data);
	memcpy(data + SC_DS_FRAME_HEAD, message.data, message.len);
	return 0;
}

int sc_ds_work_append(struct sc_ds_work *work, struct sc_ds_entry *entry, uint64_t at,
		      const struct sc_ds_messages *messages, struct sc_err *err)
{
	struct sc_ds_messages_walk walk;
	struct sc_span message;
	char head[SC_DS_FRAME_HEAD];
	int rc = 0;

	sc_ds_messages_walk(&walk, messages);
	while (rc == 0 && sc_ds_messages_next(&walk, &message)) {
		size_t size = SC_DS_FRAME_HEAD + message.len;

		if (entry->run.len + size > SC_DS_RUN_MAX)
			rc = flush_run(work, entry, err);
		if (rc == 0 && size > SC_DS_RUN_MAX) {
			rc = put_long(work, entry, at, message, err);
		} else if (rc == 0) {
			if (!entry->run.len)
				entry->run_at = at;
			sc_ds_frame_head((uint32_t)message.len, head);
			if (sc_bytes_put(&entry->run, head, sizeof(head)) < 0 ||
			    sc_bytes_put(&entry->run, message.data, message.len) < 0)
				rc = sc_err_nomem(err, "cannot append");
		}
		at += size;
	}
	return rc;
}

static int flush_entry(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_bytes *scratch = &work->ds->scratch;
	struct sc_ds_key key;
	int rc = flush_run(work, entry, err);

	if (rc < 0 || !entry->exists || !entry->dirty)
		return rc;
	sc_bytes_clear(scratch);
	if (sc_ds_stream_encode(&entry->stream, scratch) < 0)
		return sc_err_nomem(err, "cannot store a stream");
	sc_ds_key1(&key, entry->stream.sid);
	entry->dirty = false;
	entry->stored = true;
	return sc_kv_put(work->txn, SC_DS_STREAMS, sc_ds_key_span(&key),
			 sc_span(scratch->data, scratch->len), err);
}

int sc_ds_work_flush(struct sc_ds_work *work, struct sc_err *err)
{
	char sid[8];
	int rc = 0;

	for (struct sc_ds_entry *entry = work->entries; rc == 0 && entry; entry = entry->next_all)
		rc = flush_entry(work, entry, err);
	if (rc == 0 && work->sid_moved) {
		sc_ds_put_be64(sid, work->next_sid);
		rc = sc_kv_put(work->txn, SC_DS_META, SC_SPAN("sid"), sc_span(sid, 8), err);
	}
	return rc;
}

/* What follows a commit: accesses are stored, who waits learns of it, numbers. */
static void settle(struct sc_ds_work *work)
{
	struct sc_ds *ds = work->ds;

	for (struct sc_ds_entry *entry = work->entries; entry; entry = entry->next_all) {
		if (entry->exists && entry->stored && entry->stream.life.has_ttl)
			sc_ds_access_stored(ds, entry->stream.sid, entry->stream.accessed_us);
		if (entry->told)
			ds->events[entry->told - 1].tail = entry->stream.tail;
	}
	pthread_mutex_lock(&ds->lock);
	ds->stats.commits++;
	ds->stats.appended += work->appended;
	ds->stats.closed += work->closed;
	ds->stats.append_bytes += work->append_bytes;
	ds->stats.expired += work->expired;
	ds->stats.trimmed += work->trimmed;
	ds->stats.deleted_bytes += work->deleted_bytes;
	ds->stats.wakes += work->wakes;
	ds->stats.leases_over += work->leases_over;
	ds->stats.fenced += work->fenced;
	ds->stats.links_refused += work->links_refused;
	ds->stats.wakes_unheard += work->wakes_unheard;
	ds->stats.hooks_failed += work->hooks[0];
	ds->stats.hooks_taken += work->hooks[1];
	ds->stats.hooks_done += work->hooks[2];
	if (work->hooks_due && ds->hooks_due)
		ds->hooks_due(ds->hooks_arg);
	pthread_mutex_unlock(&ds->lock);
}

static int upkeep(struct sc_ds_work *work, struct sc_ds_chores *chores, bool busy,
		  struct sc_err *err)
{
	struct sc_ds *ds = work->ds;
	unsigned page = ds->set.delete_page ? ds->set.delete_page : DELETE_IDLE;
	int rc;

	if (chores->sweep)
		sc_ds_access_press(ds);
	rc = sc_ds_access_store(work, chores->all_visits, err);

	/* LMDB gives a page away in the second commit after the one that freed it; if nobody else
	 * commits, a full store would stay full */
	if (rc == 0 && ds->turns)
		rc = sc_kv_put(work->txn, SC_DS_META, SC_SPAN("turn"), SC_SPAN("."), err);
	if (busy && page > DELETE_BUSY)
		page = DELETE_BUSY;
	if (ds->delete_most && page > ds->delete_most)
		page = ds->delete_most;
	if (rc == 0 && chores->sweep)
		rc = sc_ds_sweep(work, SWEEP_MAX, &chores->sweep_more, err);
	if (rc == 0 && chores->repair)
		rc = sc_ds_repair(work, REPAIR_MAX, &chores->repair_more, err);
	if (rc == 0 && chores->leases)
		rc = sc_ds_subs_lapse(work, LEASES_MAX, err);
	/* what was trimmed is counted from the records */
	if (rc == 0 && ds->backlog)
		rc = sc_ds_work_flush(work, err);
	if (rc == 0 && ds->backlog)
		rc = sc_ds_delete_page(work, page, &ds->backlog, err);
	if (rc == 0)
		ds->doing = 0;
	return rc;
}

static void wake_all(struct sc_ds *ds)
{
	if (!atomic_load(&ds->waiters))
		return;
	for (size_t i = 0; i < ds->events_count; i++) {
		const struct sc_ds_event *event = &ds->events[i];

		if (event->happened != SC_DS_CREATED)
			sc_ds_wake(ds, event->sid,
				   event->happened == SC_DS_CHANGED ? SC_DS_WOKEN_CHANGED
								    : SC_DS_WOKEN_GONE);
	}
}

/* One transaction. On failure nothing of it happened, and no call is answered. */
static int attempt(struct sc_ds *ds, struct sc_ds_call *calls, struct sc_ds_chores *chores,
		   struct sc_err *err)
{
	struct sc_ds_work work = { .ds = ds };
	bool backlog = ds->backlog;
	int rc = sc_kv_write(ds->kv, &work.txn, err);

	ds->doing = 0;
	if (rc < 0)
		return rc;
	ds->events_count = 0;
	work.has_subs = sc_kv_count(work.txn, SC_DS_SUBS) > 0;
	if (calls && calls->bytes < AHEAD / 16)
		sc_kv_ahead(work.txn, AHEAD);
	for (struct sc_ds_call *call = calls; rc == 0 && call; call = call->next)
		rc = sc_ds_write(&work, call, err);
	if (rc == 0 && chores)
		rc = upkeep(&work, chores, calls != NULL, err);
	if (rc == 0)
		rc = sc_ds_subs_hear(&work, err);
	if (rc == 0)
		rc = sc_ds_work_flush(&work, err);
	if (rc == 0)
		rc = sc_kv_commit(&work.txn, err);
	sc_kv_abort(&work.txn);
	if (rc == 0) {
		settle(&work);
		if (work.deleted_bytes)
			ds->turns = 2;
		else if (ds->turns)
			ds->turns--;
		if (calls)
			ds->turned = false;
		if (ds->set.committed && ds->events_count)
			ds->set.committed(ds->set.arg, ds->events, ds->events_count);
		sc_ds_finish(ds, calls);
		wake_all(ds);
	} else {
		ds->backlog = backlog;
		sc_ds_chores_lost(ds);
	}
	/* a server that was killed may have deleted what nobody can use yet */
	if (rc < 0 && err->errnum == ENOSPC && !ds->turns && !ds->turned) {
		ds->turns = 2;
		ds->turned = true;
	}
	give_back(&work);
	return rc;
}

/* After a commit that the disk failed nobody knows what is there when the store is opened again: so
 * no Retry-After, which a client could take for leave to send it once more. */
static void refuse_all(struct sc_ds *ds, struct sc_ds_call *calls, bool in_doubt)
{
	for (struct sc_ds_call *call = calls; call; call = call->next) {
		if (in_doubt)
			sc_ds_answer_error(&call->answer, 503,
					   "the write failed: it may have been stored or not");
		else
			sc_ds_answer_busy(&call->answer, "the write failed: it was not stored");
	}
	sc_ds_finish(ds, calls);
}

/* What is too much together may fit one by one (a delete, above all, that makes room), and a
 * damaged stream is the trouble of its own calls only. */
static bool goes_apart(int rc, const struct sc_err *err)
{
	return err->errnum == ENOSPC || rc == SC_E_NOMEM || rc == SC_E_DATA;
}

/* What is deleted makes room, but at first it takes some, for the list of its pages: the less, the
 * less is deleted at once. */
static bool deletes_less(struct sc_ds *ds, const struct sc_err *err)
{
	if (err->errnum != ENOSPC || !ds->backlog || ds->delete_most == 1)
		return false;
	ds->delete_most = ds->delete_most ? ds->delete_most / 4 : DELETE_FULL;
	if (!ds->delete_most)
		ds->delete_most = 1;
	return true;
}

/* The chores alone. What is damaged must not keep the others from being done. */
static int do_chores(struct sc_ds *ds, struct sc_ds_chores *chores, struct sc_err *err)
{
	int rc = attempt(ds, NULL, chores, err);

	while (rc < 0 && ((rc == SC_E_DATA && sc_ds_set_aside(ds, err)) || deletes_less(ds, err)))
		rc = attempt(ds, NULL, chores, err);
	if (rc < 0) {
		ds->turns = 0;
		sc_ds_failed(ds, err);
	} else if (!ds->backlog) {
		ds->delete_most = 0;
	}
	return rc;
}

int sc_ds_batch(struct sc_ds *ds, struct sc_ds_call *calls, struct sc_ds_chores *chores,
		struct sc_err *err)
{
	bool broken = atomic_load(&ds->broken), apart, tried = !broken;
	int rc;

	if (!calls)
		return broken ? SC_E_IO : do_chores(ds, chores, err);
	rc = broken ? SC_E_IO : attempt(ds, calls, chores, err);
	if (rc == 0)
		return 0;
	apart = goes_apart(rc, err);
	while (apart && calls) {
		struct sc_ds_call *call = calls;

		calls = call->next;
		call->next = NULL;
		rc = attempt(ds, call, NULL, err);
		if (rc < 0) {
			sc_ds_failed(ds, err);
			refuse_all(ds, call, atomic_load(&ds->broken));
		}
		tried = false;
		apart = rc == 0 || goes_apart(rc, err);
	}
	if (apart)
		return do_chores(ds, chores, err);
	if (calls) {
		sc_ds_failed(ds, err);
		refuse_all(ds, calls, tried && atomic_load(&ds->broken));
	}
	return rc;
}

int sc_ds_batch_look(struct sc_ds *ds, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_key key;
	struct sc_span value;
	int rc;

	/* a process that was killed while it read would keep what is deleted from being used
	 * again */
	sc_kv_reap(ds->kv);
	rc = sc_kv_read(ds->kv, &txn, err);
	if (rc == 0)
		rc = sc_ds_row_to_do(ds, txn, SC_DS_EXPIRY, sc_span(NULL, 0), &key, &value, err);
	if (rc >= 0) {
		ds->due_us = rc == 1 && key.len == 16 ? sc_ds_key_time(key.data) : INT64_MAX;
		rc = sc_ds_lease_first(ds, txn, err);
		ds->backlog = sc_kv_count(txn, SC_DS_DELETES) > 0;
	}
	ds->doing = 0;
	sc_kv_abort(&txn);
	return rc < 0 ? rc : 0;
}
