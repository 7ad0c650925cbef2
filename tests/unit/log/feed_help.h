/*
 * tests/unit/log/feed_help.h: an archive that threads read for a loop: in its folder (log_url) and
 * behind a web server (web_url), with the bell that the threads ring.
 *
 * feeds_open() comes after the archive's folder was made, feeds_close() before it is removed.
 */
#ifndef SC_TESTS_LOG_FEED_HELP_H
#define SC_TESTS_LOG_FEED_HELP_H

#include <poll.h>
#include <sys/eventfd.h>

#include "archive_help.h"
#include "web_help.h"

#include "log/feed.h"

static char web_url[330];
static struct sc_feed_pool *pool;
static int bell = -1;

static inline void ring_bell(void *arg)
{
	uint64_t one = 1;

	(void)arg;
	if (write(bell, &one, sizeof(one)) != sizeof(one))
		abort(); /* another thread: no place for CHECK */
}

static inline void feeds_open(unsigned threads)
{
	web_start(shelf);
	snprintf(web_url, sizeof(web_url), "http://127.0.0.1:%d/trades", web.port);
	bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	CHECK(bell >= 0);
	CHECK_OK(sc_feed_pool_new(threads, ring_bell, NULL, &pool, &err), &err);
}

static inline void feeds_close(void)
{
	sc_feed_pool_free(pool);
	web_stop();
	close(bell);
}

/* The bell rings, within a generous time. */
static inline void await_bell(void)
{
	struct pollfd p = { .fd = bell, .events = POLLIN };

	CHECK(poll(&p, 1, 30000) == 1);
}

/* Damages the Nth segment of the archive; its first offset. */
static inline uint64_t damage_segment(size_t n)
{
	const char *path = object("sealed", n);
	int fd = open(path, O_RDWR);

	CHECK(fd >= 0 && pwrite(fd, "damage", 6, 20) == 6);
	close(fd);
	return strtoull(strrchr(path, '/') + 1, NULL, 10);
}

#endif
