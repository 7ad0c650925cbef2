/*
 * feed_work.c: the threads that read archives for feeds.
 *
 * A handle on an archive, and with it its connection, belongs to one thread; so does a reader as
 * long as it is open. A thread takes the feeds whose readers it has, and those that have none; when
 * one waited too long for its own thread, another takes it and opens it anew. What a feed is at is
 * an offset, no more.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "log/feed_internal.h"

#define TRIED "cannot read an archive"
#define STRAY_US 200000 /* so long a feed waits for the thread that has its reader, which is busy */
#define FAILED_US 2000000   /* a failure to open is told to those who come within it */
#define IDLE_US 60000000    /* handles that nobody used for so long are closed */
#define ROOM_MIN (4u << 10) /* a half with less room than that is full */

/* The store asks: go on? */
static bool stopped(void *arg)
{
	const struct sc_feed_worker *worker = arg;

	return atomic_load(&worker->pool->ending) ||
	       (worker->feed && atomic_load(&worker->feed->closed));
}

void sc_feed_let_go(struct sc_feed *feed)
{
	struct sc_feed_pool *pool = feed->pool;

	if (!feed->reader)
		return;
	sc_archive_reader_close(feed->reader); /* frees, asks nobody */
	feed->reader = NULL;
	pthread_mutex_lock(&pool->lock);
	feed->handle->readers--;
	feed->handle = NULL;
	feed->worker = NULL;
	pool->readers--;
	pthread_mutex_unlock(&pool->lock);
}

/* Half of the threads at most, at least one, for one archive. */
static bool crowded(const struct sc_feed_pool *pool, const struct sc_feed *feed)
{
	unsigned count = 0, limit = (pool->threads_max + 1) / 2;

	for (unsigned i = 0; i < pool->threads; i++) {
		const struct sc_feed *other = pool->workers[i].feed;

		count += other && strcmp(other->place.url, feed->place.url) == 0;
	}
	return count >= limit;
}

/* Whose turn is it, of those that this thread may take? With the lock. */
static struct sc_feed *choose(struct sc_feed_worker *worker)
{
	struct sc_feed_pool *pool = worker->pool;
	struct sc_feed *stray = NULL;
	int64_t now = sc_mono_us();

	for (struct sc_feed *feed = pool->queue.first; feed; feed = feed->turn.next) {
		bool ours = !feed->worker || feed->worker == worker;

		if (!ours && !feed->worker->feed)
			continue; /* its own thread is free, and was told */
		if (crowded(pool, feed))
			continue;
		if (ours || now - feed->queued_us > STRAY_US)
			return feed;
		if (!stray)
			stray = feed;
	}
	return stray;
}

static void remember_failure(struct sc_feed_pool *pool, const char *url, const struct sc_err *err)
{
	struct sc_feed_failure *f;

	pthread_mutex_lock(&pool->lock);
	f = &pool->failures[pool->failure_next++ % SC_FEED_FAILURES];
	free(f->url);
	f->url = strdup(url); /* without it nothing is remembered */
	f->at_us = sc_mono_us();
	f->err = *err;
	pthread_mutex_unlock(&pool->lock);
}

/* Others found just now, or while this one waited, that the archive cannot be opened. */
static int recent_failure(struct sc_feed_pool *pool, const struct sc_feed *feed, struct sc_err *err)
{
	int64_t now = sc_mono_us();
	int rc = 0;

	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; rc == 0 && i < SC_FEED_FAILURES; i++) {
		const struct sc_feed_failure *f = &pool->failures[i];

		if (!f->url || strcmp(f->url, feed->place.url) != 0)
			continue;
		if (now - f->at_us < FAILED_US || feed->queued_us <= f->at_us) {
			*err = f->err;
			rc = err->code;
		}
	}
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

static void forget_failures(struct sc_feed_pool *pool, const char *url)
{
	pthread_mutex_lock(&pool->lock);
	for (size_t i = 0; i < SC_FEED_FAILURES; i++) {
		if (!pool->failures[i].url || strcmp(pool->failures[i].url, url) != 0)
			continue;
		free(pool->failures[i].url);
		pool->failures[i].url = NULL;
	}
	pthread_mutex_unlock(&pool->lock);
}

static void close_handle(struct sc_feed_handle *handle)
{
	sc_archive_close(handle->archive);
	sc_feed_place_done(&handle->place);
	free(handle);
}

/* The thread's handle for the feed's archive: made when there is none; not opened yet. */
static struct sc_feed_handle *handle_of(struct sc_feed_worker *worker, const struct sc_feed *feed)
{
	struct sc_feed_handle *handle;

	for (handle = worker->handles; handle; handle = handle->next)
		if (sc_feed_place_same(&handle->place, &feed->place))
			return handle;
	handle = sc_calloc(1, sizeof(*handle));
	if (!handle)
		return NULL;
	if (sc_feed_place_copy(&handle->place, feed->place.url, &feed->place.settings) < 0) {
		free(handle);
		return NULL;
	}
	handle->place.settings.stop = stopped;
	handle->place.settings.stop_arg = worker;
	handle->next = worker->handles;
	worker->handles = handle;
	return handle;
}

/* What is known of the segments is from SINCE or later. */
static int refresh(struct sc_feed_handle *handle, int64_t since_us, struct sc_err *err)
{
	int64_t now = sc_mono_us();
	int rc;

	if (handle->archive && handle->listed_us >= since_us && handle->listed_us)
		return 0;
	handle->listed_us = 0;
	rc = handle->archive ? sc_archive_refresh(handle->archive, err)
			     : sc_archive_open(handle->place.url, &handle->place.settings,
					       &handle->archive, err);
	if (rc == 0)
		handle->listed_us = now;
	return rc;
}

/* The archive is open and known as it is; the feed may learn of it. */
static void introduce(struct sc_feed *feed, const struct sc_feed_handle *handle)
{
	struct sc_archive_state state;
	bool tell;

	sc_archive_state(handle->archive, &state);
	if (feed->started)
		return;
	feed->started = true;
	if (!feed->at)
		feed->at = state.first_offset;
	pthread_mutex_lock(&feed->pool->lock);
	feed->info = (struct sc_feed_info){
		.first_offset = state.first_offset,
		.next_offset = state.next_offset,
		.start = feed->at,
	};
	snprintf(feed->info.stream_id, sizeof(feed->info.stream_id), "%s", state.stream_id);
	feed->known = true;
	tell = !atomic_load(&feed->closed);
	if (tell)
		sc_feed_tell(feed);
	pthread_mutex_unlock(&feed->pool->lock);
	if (tell)
		feed->pool->wake(feed->pool->arg);
}

/* A call that failed may have been listing the archive, and have part of it. */
static void distrust(struct sc_feed_handle *handle, int rc)
{
	if (rc < 0 && rc != SC_E_REFUSED)
		handle->listed_us = 0;
}

static int open_reader(struct sc_feed_worker *worker, struct sc_feed *feed, struct sc_err *err)
{
	struct sc_feed_pool *pool = worker->pool;
	struct sc_feed_handle *handle = handle_of(worker, feed);
	int rc;

	if (!handle)
		return sc_err_nomem(err, TRIED);
	if (!handle->listed_us || handle->listed_us < feed->since_us) {
		rc = recent_failure(pool, feed, err);
		if (rc < 0)
			return rc;
		rc = refresh(handle, feed->since_us, err);
		if (rc < 0 && rc != SC_E_NOMEM && !stopped(worker))
			remember_failure(pool, feed->place.url, err);
		if (rc < 0)
			return rc;
		forget_failures(pool, feed->place.url);
	}
	introduce(feed, handle);
	rc = sc_archive_reader_open(handle->archive, feed->at, &feed->reader, err);
	if (rc < 0) {
		distrust(handle, rc);
		return rc;
	}
	pthread_mutex_lock(&pool->lock);
	feed->handle = handle;
	feed->worker = worker;
	handle->readers++;
	pool->readers++;
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

/* Runs into the back half until it is full. 1: it has some; 0: the end. */
static int fill(struct sc_feed *feed, struct sc_err *err)
{
	struct sc_bytes *text = &feed->back.text;
	struct sc_run run;
	int rc = 1;

	while (text->len + ROOM_MIN < SC_FEED_HALF) {
		rc = sc_archive_reader_next(feed->reader, SC_FEED_HALF - text->len - sizeof(run),
					    &run, err);
		if (rc != 1)
			break;
		if (sc_bytes_reserve(text, sizeof(run) + run.lines.len) < 0)
			return sc_err_nomem(err, TRIED);
		sc_bytes_put(text, &run, sizeof(run));
		sc_bytes_put(text, run.lines.data, run.lines.len);
		feed->at = run.last + 1;
	}
	return rc;
}

/* One turn of a feed. 1: there is more; 0: the end; or an error, after what came before it. */
static int serve(struct sc_feed_worker *worker, struct sc_feed *feed, struct sc_err *err)
{
	int rc = 0;

	if (feed->reader && (feed->worker != worker || !feed->handle->listed_us))
		sc_feed_let_go(feed);
	if (!feed->reader)
		rc = open_reader(worker, feed, err);
	if (rc < 0)
		return rc;
	rc = fill(feed, err);
	feed->handle->used_us = sc_mono_us();
	distrust(feed->handle, rc);
	return rc;
}

/* The turn is over: the loop is told, or the feed goes when it was closed meanwhile. */
static void give_back(struct sc_feed_worker *worker, struct sc_feed *feed, int rc,
		      const struct sc_err *err)
{
	struct sc_feed_pool *pool = worker->pool;
	bool many, closed;

	pthread_mutex_lock(&pool->lock);
	many = pool->readers > SC_FEED_READERS;
	pthread_mutex_unlock(&pool->lock);
	if (rc != 1 || many)
		sc_feed_let_go(feed);
	pthread_mutex_lock(&pool->lock);
	worker->feed = NULL;
	feed->state = SC_FEED_IDLE;
	closed = atomic_load(&feed->closed);
	if (!closed) {
		feed->full = feed->back.text.len > 0;
		feed->ended = rc == 0;
		if (rc < 0) {
			feed->rc = rc;
			feed->err = *err;
		}
		sc_feed_tell(feed);
	}
	if (pool->queue.first)
		pthread_cond_broadcast(&pool->work); /* whom this archive was too crowded for */
	pthread_mutex_unlock(&pool->lock);
	if (closed)
		sc_feed_destroy(feed);
	else
		pool->wake(pool->arg);
}

/* Handles that nobody needed for long go. */
static void tidy(struct sc_feed_worker *worker)
{
	struct sc_feed_handle **at = &worker->handles;
	int64_t now = sc_mono_us();

	while (*at) {
		struct sc_feed_handle *handle = *at;
		size_t readers;

		pthread_mutex_lock(&worker->pool->lock);
		readers = handle->readers;
		pthread_mutex_unlock(&worker->pool->lock);
		if (readers || now - handle->used_us < IDLE_US) {
			at = &handle->next;
			continue;
		}
		*at = handle->next;
		close_handle(handle);
	}
}

void sc_feed_worker_done(struct sc_feed_worker *worker)
{
	while (worker->handles) {
		struct sc_feed_handle *handle = worker->handles;

		worker->handles = handle->next;
		close_handle(handle);
	}
}

/* Until there may be something to do; with handles at hand, at most so long that they grow old.
 * With the lock. */
static void rest(struct sc_feed_worker *worker)
{
	struct sc_feed_pool *pool = worker->pool;
	struct timespec until;

	pool->waiting++;
	if (worker->handles) {
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += IDLE_US / 1000000;
		pthread_cond_timedwait(&pool->work, &pool->lock, &until);
	} else {
		pthread_cond_wait(&pool->work, &pool->lock);
	}
	pool->waiting--;
}

void *sc_feed_work(void *given)
{
	struct sc_feed_worker *worker = given;
	struct sc_feed_pool *pool = worker->pool;
	struct sc_feed *feed;
	struct sc_err err;
	int rc;

	sc_err_clear(&err);
	pthread_mutex_lock(&pool->lock);
	while (!atomic_load(&pool->ending)) {
		feed = choose(worker);
		if (!feed) {
			rest(worker);
			pthread_mutex_unlock(&pool->lock);
			tidy(worker);
			pthread_mutex_lock(&pool->lock);
			continue;
		}
		sc_feed_dequeue(feed);
		feed->state = SC_FEED_WORKED;
		worker->feed = feed;
		pthread_mutex_unlock(&pool->lock);
		rc = serve(worker, feed, &err);
		give_back(worker, feed, rc, &err);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}
