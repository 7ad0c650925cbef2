/*
 * access.c: last accesses of streams with a sliding TTL. Each is kept in memory, and stored when
 * a tenth of the TTL has passed since the stored one, and at the end. So a crash shortens a life by
 * a tenth at most, and a stream that is read all day costs ten writes a window. Where very many are
 * kept, the next ones are stored at once, and when that is too slow their reads have to wait.
 */
#include <stdlib.h>

#include "base/file.h"
#include "durable/engine_internal.h"

#define STORE_MAX 1000u     /* in one transaction */
#define KEEP_MAX 65536u     /* more are stored at once, */
#define WAIT_MAX (1u << 20) /* and of streams that are not kept yet no more than that */

static struct sc_ds_visit **find(struct sc_ds *ds, uint64_t sid)
{
	struct sc_ds_visit **at = &ds->visits[sid % SC_DS_BUCKETS];

	while (*at && (*at)->sid != sid)
		at = &(*at)->next;
	return at;
}

void sc_ds_access_see(struct sc_ds *ds, struct sc_ds_stream *stream, int64_t now_us)
{
	struct sc_ds_visit *visit;

	if (!stream->life.has_ttl || stream->gone)
		return;
	pthread_mutex_lock(&ds->access_lock);
	visit = *find(ds, stream->sid);
	if (visit && visit->accessed_us > stream->accessed_us)
		stream->accessed_us = visit->accessed_us;
	pthread_mutex_unlock(&ds->access_lock);
	if (stream->accessed_us < now_us && sc_ds_waited(ds, stream->sid))
		stream->accessed_us = now_us;
}

int sc_ds_access_note(struct sc_ds *ds, const struct sc_ds_stream *stream, int64_t stored_us,
		      int64_t now_us, struct sc_err *err)
{
	int64_t tenth = (int64_t)stream->life.ttl_s * 100000;
	struct sc_ds_visit **at, *visit;
	bool wake = false;
	int rc = 0;

	if (!stream->life.has_ttl || ds->set.read_only)
		return 0;
	pthread_mutex_lock(&ds->access_lock);
	at = find(ds, stream->sid);
	visit = *at;
	if (!visit && ds->visit_count >= WAIT_MAX) {
		sc_err_set(err, SC_E_BUSY, "cannot keep a stream's last access",
			   "too many others are not stored yet");
		sc_err_next(err, "try again");
		rc = SC_E_BUSY;
		goto out;
	}
	if (!visit) {
		visit = sc_calloc(1, sizeof(*visit));
		if (!visit) {
			rc = sc_err_nomem(err, "cannot keep a stream's last access");
			goto out;
		}
		visit->sid = stream->sid;
		*at = visit;
		ds->visit_count++;
	}
	if (visit->accessed_us < now_us)
		visit->accessed_us = now_us;
	if (!visit->queued && (now_us - stored_us >= tenth || ds->visit_count > KEEP_MAX)) {
		visit->queued = wake = true;
		visit->next_queued = ds->queued;
		ds->queued = visit;
		atomic_store(&ds->has_queued, true);
	}
out:
	pthread_mutex_unlock(&ds->access_lock);
	if (wake) {
		pthread_mutex_lock(&ds->lock);
		pthread_cond_signal(&ds->more);
		pthread_mutex_unlock(&ds->lock);
	}
	return rc;
}

static int store_one(struct sc_ds_work *work, uint64_t sid, int64_t accessed_us, struct sc_err *err)
{
	struct sc_ds_entry *entry;
	int rc = sc_ds_work_sid(work, sid, &entry, err);

	if (rc < 0)
		return rc;
	if (!entry || entry->stream.gone) {
		sc_ds_access_stored(work->ds, sid, INT64_MAX);
		return 0;
	}
	if (entry->stream.accessed_us < accessed_us)
		entry->stream.accessed_us = accessed_us;
	entry->dirty = true;
	return 0;
}

static unsigned take_queued(struct sc_ds *ds, struct sc_ds_visit *ret_visits)
{
	unsigned count = 0;

	pthread_mutex_lock(&ds->access_lock);
	while (ds->queued && count < STORE_MAX) {
		struct sc_ds_visit *visit = ds->queued;

		ds->queued = visit->next_queued;
		visit->queued = false;
		ret_visits[count++] = *visit;
	}
	atomic_store(&ds->has_queued, ds->queued != NULL);
	pthread_mutex_unlock(&ds->access_lock);
	return count;
}

/* Every visit into the queue. */
static void queue_all(struct sc_ds *ds)
{
	pthread_mutex_lock(&ds->access_lock);
	for (unsigned i = 0; i < SC_DS_BUCKETS; i++)
		for (struct sc_ds_visit *visit = ds->visits[i]; visit; visit = visit->next) {
			if (visit->queued)
				continue;
			visit->queued = true;
			visit->next_queued = ds->queued;
			ds->queued = visit;
		}
	atomic_store(&ds->has_queued, ds->queued != NULL);
	pthread_mutex_unlock(&ds->access_lock);
}

void sc_ds_access_press(struct sc_ds *ds)
{
	size_t count;

	pthread_mutex_lock(&ds->access_lock);
	count = ds->visit_count;
	pthread_mutex_unlock(&ds->access_lock);
	if (count > KEEP_MAX)
		queue_all(ds);
}

int sc_ds_access_store(struct sc_ds_work *work, bool all, struct sc_err *err)
{
	struct sc_ds_visit *visits;
	unsigned count;
	int rc = 0;

	if (all)
		queue_all(work->ds);
	if (!atomic_load(&work->ds->has_queued))
		return 0;
	visits = sc_malloc(STORE_MAX * sizeof(*visits));
	if (!visits)
		return sc_err_nomem(err, "cannot store last accesses");
	do {
		count = take_queued(work->ds, visits);
		for (unsigned i = 0; rc == 0 && i < count; i++)
			rc = store_one(work, visits[i].sid, visits[i].accessed_us, err);
	} while (rc == 0 && all && count);
	free(visits);
	return rc;
}

void sc_ds_access_stored(struct sc_ds *ds, uint64_t sid, int64_t accessed_us)
{
	struct sc_ds_visit **at, *visit;

	pthread_mutex_lock(&ds->access_lock);
	at = find(ds, sid);
	visit = *at;
	if (visit && !visit->queued && visit->accessed_us <= accessed_us) {
		*at = visit->next;
		ds->visit_count--;
		free(visit);
	}
	pthread_mutex_unlock(&ds->access_lock);
}

void sc_ds_access_free(struct sc_ds *ds)
{
	for (unsigned i = 0; i < SC_DS_BUCKETS; i++)
		while (ds->visits[i]) {
			struct sc_ds_visit *visit = ds->visits[i];

			ds->visits[i] = visit->next;
			free(visit);
		}
	ds->queued = NULL;
}
