/*
 * log/feed.h: rows of archives for an event loop: read by threads, handed over without waiting.
 *
 * Owns      a pool its threads, its handles on archives and the memory of feeds that were closed;
 *           a feed until sc_feed_close; a run is borrowed until the next call on its feed.
 * Units     offsets count rows from 1; times in us since 1970 UTC.
 * Errors    what log/archive.h and store/store.h say of opening and reading, with their fields.
 * Safety    every call in one thread, the loop's; none of them waits for a place elsewhere. Only
 *           WAKE is called from another thread.
 * Source    our own.
 *
 * Memory    a feed: two halves of SC_FEED_HALF (a line that is longer makes its half so large for
 *           as long as it is there). A pool: SC_FEED_READERS open readers (about 1.5 MiB each), and
 *           for each thread one handle on each archive that it reads (40 bytes a segment), let go
 *           of when it was not used for a minute. A feed beyond the open readers is opened anew for
 *           each of its turns.
 *
 * Feeds take turns in the order in which they have room, a half each. Half of the threads, at
 * least one, are left for other archives when one does not answer; and those who waited for an
 * archive that could not be opened learn it together, not one after the other.
 *
 * The loop's side of it:
 *     wake(arg), from a thread           make the loop call, soon:
 *     while ((feed = sc_feed_ready(pool)))  it has more than it had: sc_feed_arg tells whose it is
 *         sc_feed_info, sc_feed_next     until they have nothing
 */
#ifndef SC_LOG_FEED_H
#define SC_LOG_FEED_H

#include "log/archive.h"
#include "log/reader.h"

#define SC_FEED_HALF (128u << 10)
#define SC_FEED_READERS 32u
#define SC_FEED_THREADS_MAX 16u

struct sc_feed;
struct sc_feed_pool;

/* Threads are made as they are needed, at most THREADS; signals are blocked in them. */
int sc_feed_pool_new(unsigned threads, void (*wake)(void *arg), void *arg, struct sc_feed_pool **ret_pool,
		     struct sc_err *err);
/* Every feed must be closed before. Calls that are under way are cut off: within a second. */
void sc_feed_pool_free(struct sc_feed_pool *pool);

/*
 * The rows of the archive at URL (it ends with the log's name) from FROM on (0: the earliest). What
 * is known of its segments is at most AGE_MS older than this call: 0 when it must not be older,
 * more where many feeds are opened and one that misses the newest segments is opened again.
 * SETTINGS may be NULL and is copied; its stop is ours.
 */
int sc_feed_open(struct sc_feed_pool *pool, const char *url, const struct sc_store_settings *settings, uint64_t from,
		 int64_t age_ms, void *arg, struct sc_feed **ret_feed, struct sc_err *err);
/* What is under way for it is cut off. */
void sc_feed_close(struct sc_feed *feed);
/* Each feed for which something new is there, once; NULL: no more. */
struct sc_feed *sc_feed_ready(struct sc_feed_pool *pool);
void *sc_feed_arg(const struct sc_feed *feed);

struct sc_feed_info {
	char stream_id[40];
	uint64_t first_offset;    /* of the first row held; = next_offset when none is */
	uint64_t next_offset;     /* above the last row held: where this feed ends */
	uint64_t start;           /* FROM; for 0, the earliest */
};
/* 1: the archive is open, *ret_info as it was then; 0: not yet; or why it could not be opened. */
int sc_feed_info(const struct sc_feed *feed, struct sc_feed_info *ret_info, struct sc_err *err);

enum sc_feed_next { SC_FEED_NONE, SC_FEED_RUN, SC_FEED_END };
/*
 * SC_FEED_RUN and a run; SC_FEED_NONE: nothing is there yet; SC_FEED_END: all that the archive held
 * was handed out (it holds what came later for a new feed). Or an error, behind the rows that came
 * before it; SC_E_REFUSED as log/reader.h: FROM is not held, or ahead of the archive's end.
 */
int sc_feed_next(struct sc_feed *feed, struct sc_run *ret_run, struct sc_err *err);

#endif
