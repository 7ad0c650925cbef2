/* engine.c: opening and closing, the queue, the writer's thread, numbers. */
#include "durable/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "durable/engine_internal.h"
#include "durable/sub_keys.h"

#define STREAM_INFLIGHT (64ull << 20)
#define INFLIGHT (256ull << 20)
#define BATCH_BYTES (64ull << 20)
#define BATCH_CALLS 4096u
#define SUBS 10000
#define LINKS 100000
#define SWEEP_MS 10000
#define REPAIR_MS 60000
#define CALL_COST 512u        /* of memory, beside its body */
#define DUE_GAP_MS 1000       /* between two sweeps for what is due, */
#define DUE_GAP_WAITED_MS 100 /* when someone may wait for it */
#define SCRATCH_MAX (1u << 30)

const int64_t sc_ds_bounds_us[SC_DS_BOUNDS] = {
	1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000, 2500000, 10000000
};

void sc_ds_trouble(struct sc_ds *ds, const struct sc_err *err)
{
	if (ds->set.trouble)
		ds->set.trouble(ds->set.arg, err);
}

void sc_ds_failed(struct sc_ds *ds, const struct sc_err *err)
{
	bool passing = err->errnum == ENOSPC || err->errnum == EDQUOT || err->code == SC_E_NOMEM ||
		       err->code == SC_E_BUSY || err->code == SC_E_DATA;

	pthread_mutex_lock(&ds->lock);
	ds->stats.write_failures++;
	pthread_mutex_unlock(&ds->lock);
	if (atomic_load(&ds->broken))
		return;
	if (!passing)
		atomic_store(&ds->broken, true);
	sc_ds_trouble(ds, err);
}

/* -- what is in flight -- */

static struct sc_ds_load **find_load(struct sc_ds *ds, uint64_t hash, struct sc_span path)
{
	struct sc_ds_load **at = &ds->loads[hash % SC_DS_BUCKETS];

	while (*at && ((*at)->hash != hash || (*at)->len != path.len ||
		       memcmp((*at)->path, path.data, path.len)))
		at = &(*at)->next;
	return at;
}

static const char *take_load(struct sc_ds *ds, struct sc_ds_call *call)
{
	struct sc_span path = call->request.path;
	uint64_t hash = sc_ds_hash(path);
	struct sc_ds_load **at = find_load(ds, hash, path), *load = *at;

	if (load && (load->bytes + call->bytes > ds->set.stream_inflight_max ||
		     ds->stats.inflight_bytes + call->bytes > ds->set.inflight_max))
		return "too much is being written";
	/* an idle stream is let in once, beyond the limit of all */
	if (!load) {
		load = sc_malloc(sizeof(*load) + path.len);
		if (!load)
			return "out of memory";
		*load = (struct sc_ds_load){ .hash = hash, .len = path.len };
		memcpy(load->path, path.data, path.len);
		*at = load;
	}
	load->bytes += call->bytes;
	load->calls++;
	call->load = load;
	ds->stats.inflight_bytes += call->bytes;
	ds->stats.inflight_calls++;
	return NULL;
}

static void drop_load(struct sc_ds *ds, struct sc_ds_call *call)
{
	struct sc_ds_load *load = call->load, **at;

	ds->stats.inflight_bytes -= call->bytes;
	ds->stats.inflight_calls--;
	load->bytes -= call->bytes;
	if (--load->calls)
		return;
	at = find_load(ds, load->hash, sc_span(load->path, load->len));
	*at = load->next;
	free(load);
}

static void count(struct sc_ds_histogram *h, int64_t us)
{
	int i = 0;

	while (i < SC_DS_BOUNDS && us > sc_ds_bounds_us[i])
		i++;
	h->buckets[i]++;
	h->count++;
	h->sum_us += us > 0 ? (uint64_t)us : 0;
}

void sc_ds_finish(struct sc_ds *ds, struct sc_ds_call *calls)
{
	int64_t now_us = sc_mono_us();

	/* the lock is taken once, not once a call: submitters want it too */
	pthread_mutex_lock(&ds->lock);
	for (struct sc_ds_call *call = calls; call; call = call->next) {
		drop_load(ds, call);
		ds->stats.calls++;
		if (call->op == SC_DS_OP_REQUEST && call->request.method == SC_DS_POST &&
		    call->answer.status < 300)
			count(&ds->stats.append_us, now_us - call->taken_us);
	}
	pthread_mutex_unlock(&ds->lock);
	while (calls) {
		struct sc_ds_call *call = calls;

		calls = call->next; /* the call is its owner's again from `done` on */
		call->done(call);
	}
}

/* -- the queue -- */

static int refuse(struct sc_ds_call *call, const char *why)
{
	sc_ds_answer_busy(&call->answer, why);
	return 1;
}

/* JSON is read in the caller's thread, whatever becomes of the call. */
static void split_ahead(struct sc_ds_call *call)
{
	call->has_split = call->op == SC_DS_OP_REQUEST && call->request.body.len > 0 &&
			  sc_ds_filled(call->request.content_type) &&
			  sc_ds_type_is_json(call->request.content_type);
	if (call->has_split)
		call->split.result = sc_ds_messages_split(call->request.body, true,
							  &call->split.messages);
}

int sc_ds_submit(struct sc_ds *ds, struct sc_ds_call *call)
{
	bool append = call->op == SC_DS_OP_REQUEST && call->request.method == SC_DS_POST, stopping;
	const char *why;

	if (atomic_load(&ds->stopping) || !ds->has_writer)
		return refuse(call, "the server is stopping");
	if (atomic_load(&ds->broken))
		return refuse(call, "the store takes no writes");
	split_ahead(call);
	call->next = NULL;
	call->bytes = call->request.body.len + CALL_COST;
	call->taken_us = sc_mono_us();
	pthread_mutex_lock(&ds->lock);
	stopping = atomic_load(&ds->stopping);
	why = stopping ? "the server is stopping" : take_load(ds, call);
	if (why) {
		ds->stats.overloaded += append && !stopping;
		pthread_mutex_unlock(&ds->lock);
		return refuse(call, why);
	}
	*ds->end = call;
	ds->end = &call->next;
	pthread_cond_signal(&ds->more);
	pthread_mutex_unlock(&ds->lock);
	return 0;
}

struct blocked {
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
};

static void unblock(struct sc_ds_call *call)
{
	struct blocked *b = call->arg;

	pthread_mutex_lock(&b->lock);
	b->is_done = true;
	pthread_cond_signal(&b->done);
	pthread_mutex_unlock(&b->lock);
}

void sc_ds_call(struct sc_ds *ds, struct sc_ds_call *call)
{
	struct blocked b = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
	void (*done)(struct sc_ds_call *) = call->done;
	void *arg = call->arg;

	call->done = unblock;
	call->arg = &b;
	if (sc_ds_submit(ds, call) == 0) {
		pthread_mutex_lock(&b.lock);
		while (!b.is_done)
			pthread_cond_wait(&b.done, &b.lock);
		pthread_mutex_unlock(&b.lock);
	}
	call->done = done;
	call->arg = arg;
	pthread_cond_destroy(&b.done);
	pthread_mutex_destroy(&b.lock);
}

/* -- the writer -- */

/* As many as one commit takes, in their order. */
static struct sc_ds_call *take_calls(struct sc_ds *ds)
{
	struct sc_ds_call *first = ds->head, **at = &ds->head;
	uint64_t bytes = 0;
	unsigned calls = 0;

	while (*at && calls < ds->set.batch_calls_max &&
	       (!calls || bytes + (*at)->bytes <= ds->set.batch_bytes_max)) {
		bytes += (*at)->bytes;
		calls++;
		at = &(*at)->next;
	}
	if (!calls)
		return NULL;
	ds->head = *at;
	*at = NULL;
	if (!ds->head)
		ds->end = &ds->head;
	return first;
}

static int64_t mono_ms(void)
{
	return sc_mono_us() / 1000;
}

/* Whatever time it is: what is over may be over since the first of them. */
static int64_t left_ms(int64_t at_us)
{
	int64_t now_us = sc_wall_us();

	return at_us <= now_us ? 0 : (at_us - now_us) / 1000 + 1;
}

/* What is to be done besides calls; *ret_in_ms: when to look again. */
static struct sc_ds_chores chores_now(struct sc_ds *ds, int64_t *ret_in_ms)
{
	struct sc_ds_chores chores = { .sweep = false };
	int64_t now_ms = mono_ms(), due_ms = INT64_MAX, in_ms = INT64_MAX, left;

	*ret_in_ms = INT64_MAX;
	if (atomic_load(&ds->broken))
		return chores;
	if (ds->set.sweep_ms >= 0) {
		int64_t gap = atomic_load(&ds->waiters) ? DUE_GAP_WAITED_MS : DUE_GAP_MS;

		if (ds->due_us != INT64_MAX)
			due_ms = left_ms(ds->due_us);
		if (due_ms < ds->swept_ms + gap - now_ms)
			due_ms = ds->swept_ms + gap - now_ms;
		left = ds->swept_ms + ds->set.sweep_ms - now_ms;
		in_ms = due_ms < left ? due_ms : left;
		chores.sweep = in_ms <= 0;
	}
	if (ds->set.repair_ms >= 0) {
		left = ds->repaired_ms + ds->set.repair_ms - now_ms;
		chores.repair = left <= 0;
		in_ms = left < in_ms ? left : in_ms;
	}
	if (ds->lease_us != INT64_MAX) {
		left = left_ms(ds->lease_us);
		chores.leases = left <= 0;
		in_ms = left < in_ms ? left : in_ms;
	}
	*ret_in_ms = in_ms;
	return chores;
}

static void wait_for_work(struct sc_ds *ds, int64_t in_ms)
{
	struct timespec until;

	if (in_ms > SWEEP_MS)
		in_ms = SWEEP_MS;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += in_ms / 1000;
	until.tv_nsec += in_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_timedwait(&ds->more, &ds->lock, &until);
}

/* Without the lock. After a failure the chores are left alone until their next time. */
static void work(struct sc_ds *ds, struct sc_ds_call *calls, struct sc_ds_chores *chores)
{
	struct sc_err err = { 0 };
	int rc = sc_ds_batch(ds, calls, chores, &err);
	int64_t now_ms = mono_ms();

	if (chores->sweep && (rc < 0 || !chores->sweep_more))
		ds->swept_ms = now_ms;
	if (chores->repair && (rc < 0 || !chores->repair_more))
		ds->repaired_ms = now_ms;
	if (chores->leases && rc < 0)
		ds->lease_us = sc_wall_us() + SWEEP_MS * 1000;
	/* what could not be deleted waits for the next sweep, and so does what others left to do */
	if (rc < 0)
		ds->backlog = false;
	else if (chores->sweep && !chores->sweep_more && sc_ds_batch_look(ds, &err) < 0)
		sc_ds_trouble(ds, &err);
}

/* sc_ds_upkeep: everything to its end, and whoever waits for it is told. */
static void upkeep_now(struct sc_ds *ds)
{
	struct sc_ds_chores chores = { .sweep = true, .repair = true };
	struct sc_err err = { 0 };
	int rc = sc_ds_batch_look(ds, &err);

	while (rc == 0) {
		rc = sc_ds_batch(ds, NULL, &chores, &err);
		chores.sweep = chores.sweep_more;
		chores.repair = chores.repair_more;
		if (!chores.sweep && !chores.repair && !ds->backlog && !ds->turns)
			break;
	}
	if (rc == 0 && ds->aside_count) {
		rc = SC_E_DATA; /* all but that */
		err = ds->aside_err;
	}
	pthread_mutex_lock(&ds->lock);
	ds->upkeep_err = err;
	if (rc == 0)
		sc_err_clear(&ds->upkeep_err);
	pthread_mutex_unlock(&ds->lock);
}

static void *write_on(void *arg)
{
	struct sc_ds *ds = arg;
	struct sc_ds_chores chores, last = { .all_visits = true };

	pthread_mutex_lock(&ds->lock);
	for (;;) {
		uint64_t wanted = ds->upkeep_wanted;
		struct sc_ds_call *calls = take_calls(ds);
		int64_t in_ms;

		chores = chores_now(ds, &in_ms);
		if (!calls && atomic_load(&ds->closing))
			break;
		if (calls || chores.sweep || chores.repair || chores.leases ||
		    (!atomic_load(&ds->broken) &&
		     (ds->backlog || ds->turns || atomic_load(&ds->has_queued)))) {
			pthread_mutex_unlock(&ds->lock);
			work(ds, calls, &chores);
			pthread_mutex_lock(&ds->lock);
		} else if (wanted > ds->upkeep_done) {
			pthread_mutex_unlock(&ds->lock);
			upkeep_now(ds);
			pthread_mutex_lock(&ds->lock);
			ds->upkeep_done = wanted;
			pthread_cond_broadcast(&ds->upkeep_ended);
		} else {
			wait_for_work(ds, in_ms);
		}
	}
	pthread_mutex_unlock(&ds->lock);
	work(ds, NULL, &last);
	return NULL;
}

int sc_ds_upkeep(struct sc_ds *ds, struct sc_err *err)
{
	uint64_t mine;
	int rc = 0;

	if (!ds->has_writer)
		return sc_err_set(err, SC_E_USAGE, "cannot look after the store",
				  "it was opened for reading only");
	pthread_mutex_lock(&ds->lock);
	mine = ++ds->upkeep_wanted;
	pthread_cond_signal(&ds->more);
	while (ds->upkeep_done < mine && !atomic_load(&ds->closing))
		pthread_cond_wait(&ds->upkeep_ended, &ds->lock);
	if (ds->upkeep_err.code) {
		rc = ds->upkeep_err.code;
		if (err)
			*err = ds->upkeep_err;
	}
	pthread_mutex_unlock(&ds->lock);
	return rc;
}

/* -- opening and closing -- */

static void settle_settings(struct sc_ds_settings *set)
{
	if (!set->stream_inflight_max)
		set->stream_inflight_max = STREAM_INFLIGHT;
	if (!set->inflight_max)
		set->inflight_max = INFLIGHT;
	if (!set->batch_bytes_max)
		set->batch_bytes_max = BATCH_BYTES;
	if (!set->batch_calls_max)
		set->batch_calls_max = BATCH_CALLS;
	if (!set->subs_max)
		set->subs_max = SUBS;
	if (!set->links_max)
		set->links_max = LINKS;
	if (!set->sweep_ms)
		set->sweep_ms = SWEEP_MS;
	if (!set->repair_ms)
		set->repair_ms = REPAIR_MS;
}

static int init_locks(struct sc_ds *ds, struct sc_err *err)
{
	pthread_condattr_t attr;
	int rc = sc_ds_wait_init(ds, err);

	if (rc < 0)
		return rc;
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&ds->lock, NULL);
	pthread_mutex_init(&ds->access_lock, NULL);
	pthread_cond_init(&ds->more, &attr);
	pthread_cond_init(&ds->upkeep_ended, NULL);
	pthread_condattr_destroy(&attr);
	return 0;
}

static void free_ds(struct sc_ds *ds)
{
	sc_kv_close(ds->kv);
	sc_ds_keys_close(ds->keys);
	free(ds->folder);
	sc_bytes_done(&ds->numbers);
	sc_ds_access_free(ds);
	sc_ds_pool_free(ds);
	sc_bytes_done(&ds->scratch);
	sc_bytes_done(&ds->prefix);
	free(ds->events);
	free(ds->walk.levels);
	sc_ds_wait_done(ds);
	pthread_mutex_destroy(&ds->lock);
	pthread_mutex_destroy(&ds->access_lock);
	pthread_cond_destroy(&ds->more);
	pthread_cond_destroy(&ds->upkeep_ended);
	free(ds);
}

int sc_ds_open(const char *folder, const struct sc_ds_settings *settings, struct sc_ds **ret_ds,
	       struct sc_err *err)
{
	struct sc_ds *ds = sc_calloc(1, sizeof(*ds));
	int rc;

	if (!ds)
		return sc_err_nomem(err, "cannot open streams");
	rc = init_locks(ds, err);
	if (rc < 0) {
		free(ds);
		return rc;
	}
	if (settings)
		ds->set = *settings;
	settle_settings(&ds->set);
	ds->end = &ds->head;
	ds->due_us = INT64_MAX;
	ds->swept_ms = ds->repaired_ms = mono_ms();
	sc_bytes_init(&ds->scratch, SCRATCH_MAX);
	sc_bytes_init(&ds->prefix, SCRATCH_MAX);
	sc_bytes_init(&ds->numbers, SCRATCH_MAX);
	ds->lease_us = INT64_MAX;
	ds->folder = strdup(folder);
	if (!ds->folder) {
		free_ds(ds);
		return sc_err_nomem(err, "cannot open streams");
	}
	rc = sc_ds_store_open(folder, &ds->set, &ds->kv, err);
	if (rc == 0)
		rc = sc_ds_batch_look(ds, err);
	if (rc == 0 && !ds->set.read_only) {
		int failed = sc_thread_start(&ds->writer, write_on, ds);

		ds->has_writer = !failed;
		if (failed)
			rc = sc_err_sys(err, SC_E_INTERNAL, failed, "cannot start a thread");
	}
	if (rc < 0)
		free_ds(ds);
	else
		*ret_ds = ds;
	return rc;
}

void sc_ds_stop(struct sc_ds *ds)
{
	pthread_mutex_lock(&ds->lock);
	atomic_store(&ds->stopping, true);
	pthread_mutex_unlock(&ds->lock);
	sc_ds_wake_all(ds, SC_DS_WOKEN_STOP);
}

void sc_ds_close(struct sc_ds *ds)
{
	if (!ds)
		return;
	sc_ds_stop(ds);
	if (ds->has_writer) {
		pthread_mutex_lock(&ds->lock);
		atomic_store(&ds->closing, true);
		pthread_cond_signal(&ds->more);
		pthread_mutex_unlock(&ds->lock);
		pthread_join(ds->writer, NULL);
	}
	free_ds(ds);
}

/* Rows of the expiry index that are due, up to a thousand. */
static int count_due(struct sc_kv_txn *txn, uint64_t *ret_due, struct sc_err *err)
{
	int64_t now_us = sc_wall_us();
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	uint64_t due = 0;
	int rc = sc_kv_cursor_open(txn, SC_DS_EXPIRY, &cursor, err);

	if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	while (rc == 1 && (key.len != 16 || sc_ds_key_time(key.data) <= now_us) && ++due < 1000)
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	sc_kv_cursor_close(cursor);
	*ret_due = due;
	return rc < 0 ? rc : 0;
}

int sc_ds_stats(struct sc_ds *ds, struct sc_ds_stats *ret_stats, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stats stats;
	struct sc_kv_stat store;
	int rc;

	pthread_mutex_lock(&ds->lock);
	stats = ds->stats;
	pthread_mutex_unlock(&ds->lock);
	stats.reads = atomic_load(&ds->reads);
	stats.read_bytes = atomic_load(&ds->read_bytes);
	stats.waiters = atomic_load(&ds->waiters);
	stats.broken = atomic_load(&ds->broken);
	rc = sc_kv_stat(ds->kv, &store, err);
	if (rc == 0)
		rc = sc_kv_read(ds->kv, &txn, err);
	if (rc < 0)
		return rc;
	stats.store_used_bytes = store.used_bytes;
	stats.store_file_bytes = store.file_bytes;
	stats.streams = sc_kv_count(txn, SC_DS_PATHS);
	stats.delete_backlog = sc_kv_count(txn, SC_DS_DELETES);
	stats.subs = sc_kv_count(txn, SC_DS_SUBS);
	stats.links = sc_kv_count(txn, SC_DS_LINKS);
	stats.links_pending = sc_kv_count(txn, SC_DS_PENDING);
	rc = count_due(txn, &stats.expiry_due, err);
	sc_kv_abort(&txn);
	if (rc == 0)
		*ret_stats = stats;
	return rc;
}
