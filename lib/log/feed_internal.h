/*
 * log/feed_internal.h: what feed.c (the loop's side) and feed_work.c (the threads) share.
 *
 * Owns      as log/feed.h.
 * Units     times in us of the monotonic clock.
 * Errors    as log/feed.h.
 * Safety    the pool's lock guards what is marked so; a feed that is worked on belongs to its
 *           thread but for what is marked.
 * Source    our own.
 */
#ifndef SC_LOG_FEED_INTERNAL_H
#define SC_LOG_FEED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "log/feed.h"

#define SC_FEED_FAILURES 16 /* archives that could not be opened, remembered for a moment */

/* Where an archive is, and how it is asked: handles are shared by feeds that have the same. */
struct sc_feed_place {
	char *url;
	struct sc_store_settings settings; /* ca_file is ours; stop is the thread's */
};

/* One thread's handle on an archive. */
struct sc_feed_handle {
	struct sc_feed_handle *next;
	struct sc_feed_place place;
	struct sc_archive *archive;
	int64_t listed_us; /* when its segments were last asked for; 0: not known, ask */
	int64_t used_us;
	size_t readers; /* open on it; lock */
};

struct sc_feed_worker {
	struct sc_feed_pool *pool;
	pthread_t thread;
	struct sc_feed *feed;           /* that it works on; lock */
	struct sc_feed_handle *handles; /* its own */
};

struct sc_feed_links {
	struct sc_feed *prev, *next;
};
struct sc_feed_queue {
	struct sc_feed *first, *last;
};

enum sc_feed_state { SC_FEED_IDLE, SC_FEED_QUEUED, SC_FEED_WORKED };

/* Runs one behind the other, each with its struct sc_run in front. */
struct sc_feed_half {
	struct sc_bytes text;
	size_t at; /* what is before it was handed out */
};

struct sc_feed {
	struct sc_feed_pool *pool;
	void *arg;
	struct sc_feed_place place;
	int64_t since_us; /* the list of segments must not be older */

	struct sc_feed_half front; /* the loop's */
	struct sc_feed_half back;  /* the thread's, or with the lock when it is full */

	uint64_t at; /* the thread's: the next row */
	bool started;
	struct sc_feed_worker *worker; /* whose handle it is; changed with the lock */
	struct sc_feed_handle *handle; /* NULL: no reader is open */
	struct sc_archive_reader *reader;

	/* the lock's */
	enum sc_feed_state state;
	int64_t queued_us;
	struct sc_feed_links turn, news; /* of the queue; of the ready ones */
	bool has_news;
	bool full;  /* back is to be taken */
	bool known; /* info is set */
	bool ended;
	int rc;
	struct sc_err err;
	struct sc_feed_info info;
	atomic_bool closed; /* also read without the lock: cuts off the call that is under way */
};

struct sc_feed_failure {
	char *url;
	int64_t at_us;
	struct sc_err err;
};

struct sc_feed_pool {
	void (*wake)(void *arg);
	void *arg;
	unsigned threads_max;
	size_t feeds; /* the loop's: open */

	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t work;  /* there is a turn to take, or the end */
	unsigned threads, waiting;
	struct sc_feed_worker workers[SC_FEED_THREADS_MAX];
	struct sc_feed_queue queue, ready;
	size_t readers; /* open */
	struct sc_feed_failure failures[SC_FEED_FAILURES];
	unsigned failure_next;
	atomic_bool ending; /* also read without the lock */
};

void *sc_feed_work(void *worker);
/* After the thread ended: its handles. */
void sc_feed_worker_done(struct sc_feed_worker *worker);
/* All of these with the lock held. */
void sc_feed_enqueue(struct sc_feed *feed);
void sc_feed_dequeue(struct sc_feed *feed);
void sc_feed_tell(struct sc_feed *feed); /* it has news; the caller wakes the loop */
void sc_feed_untell(struct sc_feed *feed);
/* The reader is closed; nobody may be working on the feed but the caller. Takes the lock. */
void sc_feed_let_go(struct sc_feed *feed);
void sc_feed_destroy(struct sc_feed *feed);

int sc_feed_place_copy(struct sc_feed_place *place, const char *url,
		const struct sc_store_settings *settings);
void sc_feed_place_done(struct sc_feed_place *place);
bool sc_feed_place_same(const struct sc_feed_place *a, const struct sc_feed_place *b);

#endif
