/* wait.c: who waits for which stream. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "durable/engine_internal.h"

static struct sc_ds_shelf *shelf_of(struct sc_ds *ds, uint64_t sid)
{
	return &ds->shelves[sid % SC_DS_SHELVES];
}

static struct sc_ds_seat **seat_of(struct sc_ds_shelf *shelf, uint64_t sid)
{
	const uint64_t count = sizeof(shelf->seats) / sizeof(*shelf->seats);
	struct sc_ds_seat **at = &shelf->seats[sid / SC_DS_SHELVES % count];

	while (*at && (*at)->sid != sid)
		at = &(*at)->next;
	return at;
}

static void drop_seat(struct sc_ds_seat **at)
{
	struct sc_ds_seat *seat = *at;

	*at = seat->next;
	free(seat);
}

int sc_ds_wait_init(struct sc_ds *ds, struct sc_err *err)
{
	for (unsigned i = 0; i < SC_DS_SHELVES; i++) {
		int rc = pthread_mutex_init(&ds->shelves[i].lock, NULL);

		if (!rc)
			continue;
		while (i-- > 0)
			pthread_mutex_destroy(&ds->shelves[i].lock);
		return sc_err_sys(err, SC_E_INTERNAL, rc, "cannot make a lock");
	}
	return 0;
}

void sc_ds_wait_done(struct sc_ds *ds)
{
	for (unsigned i = 0; i < SC_DS_SHELVES; i++)
		pthread_mutex_destroy(&ds->shelves[i].lock);
}

bool sc_ds_waited(struct sc_ds *ds, uint64_t sid)
{
	struct sc_ds_shelf *shelf = shelf_of(ds, sid);
	bool waited;

	if (!atomic_load(&ds->waiters))
		return false;
	pthread_mutex_lock(&shelf->lock);
	waited = *seat_of(shelf, sid) != NULL;
	pthread_mutex_unlock(&shelf->lock);
	return waited;
}

/* With the shelf's lock. */
static void wake_seat(struct sc_ds *ds, struct sc_ds_seat **at, enum sc_ds_woken why)
{
	struct sc_ds_waiter *waiter = (*at)->waiters;

	drop_seat(at);
	while (waiter) {
		struct sc_ds_waiter *next = waiter->next;

		waiter->prev = NULL;
		waiter->next = NULL;
		atomic_fetch_sub(&ds->waiters, 1);
		waiter->woken(waiter, why);
		waiter = next;
	}
}

void sc_ds_wake(struct sc_ds *ds, uint64_t sid, enum sc_ds_woken why)
{
	struct sc_ds_shelf *shelf = shelf_of(ds, sid);
	struct sc_ds_seat **at;

	if (!atomic_load(&ds->waiters))
		return;
	pthread_mutex_lock(&shelf->lock);
	at = seat_of(shelf, sid);
	if (*at)
		wake_seat(ds, at, why);
	pthread_mutex_unlock(&shelf->lock);
}

void sc_ds_wake_all(struct sc_ds *ds, enum sc_ds_woken why)
{
	for (unsigned i = 0; i < SC_DS_SHELVES; i++) {
		struct sc_ds_shelf *shelf = &ds->shelves[i];

		pthread_mutex_lock(&shelf->lock);
		for (size_t k = 0; k < sizeof(shelf->seats) / sizeof(*shelf->seats); k++)
			while (shelf->seats[k])
				wake_seat(ds, &shelf->seats[k], why);
		pthread_mutex_unlock(&shelf->lock);
	}
}

static int sit(struct sc_ds *ds, struct sc_ds_waiter *waiter, struct sc_err *err)
{
	struct sc_ds_shelf *shelf = shelf_of(ds, waiter->sid);
	struct sc_ds_seat **at, *seat;
	int rc = 0;

	pthread_mutex_lock(&shelf->lock);
	at = seat_of(shelf, waiter->sid);
	seat = *at;
	if (!seat) {
		seat = sc_calloc(1, sizeof(*seat));
		if (!seat) {
			rc = sc_err_nomem(err, "cannot wait for a stream");
			goto out;
		}
		seat->sid = waiter->sid;
		*at = seat;
	}
	waiter->next = seat->waiters;
	waiter->prev = &seat->waiters;
	if (waiter->next)
		waiter->next->prev = &waiter->next;
	seat->waiters = waiter;
	atomic_fetch_add(&ds->waiters, 1);
out:
	pthread_mutex_unlock(&shelf->lock);
	return rc;
}

/* Whether it was still there. */
static bool stand_up(struct sc_ds *ds, struct sc_ds_waiter *waiter)
{
	struct sc_ds_shelf *shelf = shelf_of(ds, waiter->sid);
	struct sc_ds_seat **at;
	bool there;

	pthread_mutex_lock(&shelf->lock);
	there = waiter->prev != NULL;
	if (there) {
		*waiter->prev = waiter->next;
		if (waiter->next)
			waiter->next->prev = waiter->prev;
		waiter->prev = NULL;
		waiter->next = NULL;
		atomic_fetch_sub(&ds->waiters, 1);
		at = seat_of(shelf, waiter->sid);
		if (*at && !(*at)->waiters)
			drop_seat(at);
	}
	pthread_mutex_unlock(&shelf->lock);
	return there;
}

/* Whether there is news behind what READER has read. */
static int has_news(struct sc_ds *ds, const struct sc_ds_reader *reader, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stream stream;
	int rc = sc_kv_read(ds->kv, &txn, err);

	if (rc < 0)
		return rc;
	rc = sc_ds_load_sid(txn, reader->sid, &stream, err);
	if (rc == 1)
		rc = stream.gone || stream.closed || stream.tail != reader->at ||
		     (stream.life.has_expiry && sc_ds_stream_expired(&stream, sc_wall_us()));
	else if (rc == 0)
		rc = 1;
	sc_kv_abort(&txn);
	return rc;
}

int sc_ds_wait(struct sc_ds *ds, const struct sc_ds_reader *reader, struct sc_ds_waiter *waiter,
	       struct sc_err *err)
{
	int rc;

	waiter->sid = reader->sid;
	rc = sit(ds, waiter, err);
	if (rc < 0)
		return rc;
	/* sat down first, looked then: whoever commits from now on wakes it */
	rc = atomic_load(&ds->stopping) ? 1 : has_news(ds, reader, err);
	if (rc == 0)
		return 0;
	return stand_up(ds, waiter) ? rc : 0;
}

void sc_ds_unwait(struct sc_ds *ds, struct sc_ds_waiter *waiter)
{
	if (waiter->sid)
		stand_up(ds, waiter);
}
