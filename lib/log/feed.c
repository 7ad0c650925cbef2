/* feed.c: the loop's side of feeds: opening, taking what threads have read, closing. */
#include "log/feed.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "log/feed_internal.h"

#define TRIED "cannot read an archive"

int sc_feed_place_copy(struct sc_feed_place *place, const char *url,
		       const struct sc_store_settings *settings)
{
	memset(place, 0, sizeof(*place));
	if (settings)
		place->settings = *settings;
	place->settings.stop = NULL;
	place->settings.stop_arg = NULL;
	place->settings.ca_file = NULL;
	place->url = strdup(url);
	if (settings && settings->ca_file)
		place->settings.ca_file = strdup(settings->ca_file);
	if (place->url && (!settings || !settings->ca_file || place->settings.ca_file))
		return 0;
	sc_feed_place_done(place);
	return SC_E_NOMEM;
}

void sc_feed_place_done(struct sc_feed_place *place)
{
	free(place->url);
	free((char *)place->settings.ca_file);
	memset(place, 0, sizeof(*place));
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool sc_feed_place_same(const struct sc_feed_place *a, const struct sc_feed_place *b)
{
	const struct sc_store_settings *s = &a->settings, *t = &b->settings;

	return same_text(a->url, b->url) && same_text(s->ca_file, t->ca_file) &&
	       s->tries == t->tries && s->retry_for_ms == t->retry_for_ms &&
	       s->backoff_ms == t->backoff_ms && s->backoff_max_ms == t->backoff_max_ms &&
	       s->connect_ms == t->connect_ms && s->stall_ms == t->stall_ms &&
	       s->anonymous == t->anonymous;
}

int sc_feed_pool_new(unsigned threads, void (*wake)(void *arg), void *arg,
		     struct sc_feed_pool **ret_pool, struct sc_err *err)
{
	struct sc_feed_pool *pool = sc_calloc(1, sizeof(*pool));
	pthread_condattr_t attr;

	if (!pool)
		return sc_err_nomem(err, TRIED);
	pool->wake = wake;
	pool->arg = arg;
	pool->threads_max = threads ? threads : 1;
	if (pool->threads_max > SC_FEED_THREADS_MAX)
		pool->threads_max = SC_FEED_THREADS_MAX;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pool->work, &attr);
	pthread_condattr_destroy(&attr);
	*ret_pool = pool;
	return 0;
}

void sc_feed_pool_free(struct sc_feed_pool *pool)
{
	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	atomic_store(&pool->ending, true);
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->threads; i++)
		pthread_join(pool->workers[i].thread, NULL);
	for (unsigned i = 0; i < pool->threads; i++)
		sc_feed_worker_done(&pool->workers[i]);
	for (size_t i = 0; i < SC_FEED_FAILURES; i++)
		free(pool->failures[i].url);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

static void push(struct sc_feed_queue *queue, struct sc_feed *feed, size_t links)
{
	struct sc_feed_links *own = (struct sc_feed_links *)((char *)feed + links);

	own->next = NULL;
	own->prev = queue->last;
	if (queue->last)
		((struct sc_feed_links *)((char *)queue->last + links))->next = feed;
	else
		queue->first = feed;
	queue->last = feed;
}

static void take(struct sc_feed_queue *queue, struct sc_feed *feed, size_t links)
{
	struct sc_feed_links *own = (struct sc_feed_links *)((char *)feed + links);

	if (own->prev)
		((struct sc_feed_links *)((char *)own->prev + links))->next = own->next;
	else
		queue->first = own->next;
	if (own->next)
		((struct sc_feed_links *)((char *)own->next + links))->prev = own->prev;
	else
		queue->last = own->prev;
	own->prev = own->next = NULL;
}

/* One more thread, when all are at work. */
static int want_thread(struct sc_feed_pool *pool)
{
	struct sc_feed_worker *worker = &pool->workers[pool->threads];
	int rc;

	if (pool->waiting || pool->threads == pool->threads_max)
		return 0;
	worker->pool = pool;
	rc = sc_thread_start(&worker->thread, sc_feed_work, worker);
	if (rc == 0)
		pool->threads++;
	return pool->threads ? 0 : rc;
}

void sc_feed_enqueue(struct sc_feed *feed)
{
	feed->state = SC_FEED_QUEUED;
	feed->queued_us = sc_mono_us();
	push(&feed->pool->queue, feed, offsetof(struct sc_feed, turn));
	pthread_cond_broadcast(&feed->pool->work); /* not each thread may take each feed */
}

void sc_feed_dequeue(struct sc_feed *feed)
{
	take(&feed->pool->queue, feed, offsetof(struct sc_feed, turn));
	feed->state = SC_FEED_IDLE;
}

void sc_feed_tell(struct sc_feed *feed)
{
	if (feed->has_news)
		return;
	feed->has_news = true;
	push(&feed->pool->ready, feed, offsetof(struct sc_feed, news));
}

void sc_feed_untell(struct sc_feed *feed)
{
	if (!feed->has_news)
		return;
	feed->has_news = false;
	take(&feed->pool->ready, feed, offsetof(struct sc_feed, news));
}

int sc_feed_open(struct sc_feed_pool *pool, const char *url,
		 const struct sc_store_settings *settings, uint64_t from, int64_t age_ms, void *arg,
		 struct sc_feed **ret_feed, struct sc_err *err)
{
	struct sc_feed *feed = sc_calloc(1, sizeof(*feed));
	int rc;

	if (!feed)
		return sc_err_nomem(err, TRIED);
	if (sc_feed_place_copy(&feed->place, url, settings) < 0) {
		free(feed);
		return sc_err_nomem(err, TRIED);
	}
	feed->pool = pool;
	feed->arg = arg;
	feed->at = from;
	feed->since_us = sc_mono_us() - age_ms * 1000;
	/* a line, and its run in front */
	sc_bytes_init(&feed->front.text, 2 * (size_t)SC_MESSAGE_MAX);
	sc_bytes_init(&feed->back.text, 2 * (size_t)SC_MESSAGE_MAX);
	pthread_mutex_lock(&pool->lock);
	rc = want_thread(pool);
	if (rc == 0)
		sc_feed_enqueue(feed);
	pthread_mutex_unlock(&pool->lock);
	if (rc) {
		sc_feed_destroy(feed);
		return sc_err_sys(err, SC_E_INTERNAL, rc, TRIED);
	}
	pool->feeds++;
	*ret_feed = feed;
	return 0;
}

void sc_feed_destroy(struct sc_feed *feed)
{
	sc_feed_let_go(feed);
	sc_feed_place_done(&feed->place);
	sc_bytes_done(&feed->front.text);
	sc_bytes_done(&feed->back.text);
	free(feed);
}

void sc_feed_close(struct sc_feed *feed)
{
	struct sc_feed_pool *pool;
	bool worked;

	if (!feed)
		return;
	pool = feed->pool;
	pool->feeds--;
	pthread_mutex_lock(&pool->lock);
	atomic_store(&feed->closed, true);
	sc_feed_untell(feed);
	if (feed->state == SC_FEED_QUEUED)
		sc_feed_dequeue(feed);
	worked = feed->state == SC_FEED_WORKED;
	pthread_mutex_unlock(&pool->lock);
	if (!worked)
		sc_feed_destroy(feed); /* else its thread does it */
}

struct sc_feed *sc_feed_ready(struct sc_feed_pool *pool)
{
	struct sc_feed *feed;

	pthread_mutex_lock(&pool->lock);
	feed = pool->ready.first;
	if (feed)
		sc_feed_untell(feed);
	pthread_mutex_unlock(&pool->lock);
	return feed;
}

void *sc_feed_arg(const struct sc_feed *feed)
{
	return feed->arg;
}

int sc_feed_info(const struct sc_feed *feed, struct sc_feed_info *ret_info, struct sc_err *err)
{
	struct sc_feed_pool *pool = feed->pool;
	int rc = 0;

	pthread_mutex_lock(&pool->lock);
	if (feed->known) {
		*ret_info = feed->info;
		rc = 1;
	} else if (feed->rc < 0) {
		rc = feed->rc;
		if (err)
			*err = feed->err;
	}
	pthread_mutex_unlock(&pool->lock);
	return rc;
}

/* Empty; the memory of a long line is given back. */
static void half_clear(struct sc_feed_half *half)
{
	half->at = 0;
	if (half->text.cap > 2 * SC_FEED_HALF)
		sc_bytes_done(&half->text);
	else
		sc_bytes_clear(&half->text);
}

static bool half_next(struct sc_feed_half *half, struct sc_run *ret_run)
{
	if (half->at == half->text.len)
		return false;
	memcpy(ret_run, half->text.data + half->at, sizeof(*ret_run));
	half->at += sizeof(*ret_run);
	ret_run->lines.data = half->text.data + half->at;
	half->at += ret_run->lines.len;
	return true;
}

int sc_feed_next(struct sc_feed *feed, struct sc_run *ret_run, struct sc_err *err)
{
	struct sc_feed_pool *pool = feed->pool;
	struct sc_feed_half half;
	int rc = SC_FEED_NONE;

	if (half_next(&feed->front, ret_run))
		return SC_FEED_RUN;
	half_clear(&feed->front);
	pthread_mutex_lock(&pool->lock);
	if (feed->full) {
		half = feed->front;
		feed->front = feed->back;
		feed->back = half;
		feed->full = false;
		rc = SC_FEED_RUN;
		if (!feed->ended && feed->rc == 0) {
			want_thread(pool);
			sc_feed_enqueue(feed);
		}
	} else if (feed->rc < 0) {
		rc = feed->rc;
		if (err)
			*err = feed->err;
	} else if (feed->ended) {
		rc = SC_FEED_END;
	}
	pthread_mutex_unlock(&pool->lock);
	if (rc == SC_FEED_RUN)
		half_next(&feed->front, ret_run);
	return rc;
}
