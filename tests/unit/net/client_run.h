/*
 * tests/unit/net/client_run.h: one client against one scripted peer, for the client's tests.
 */
#ifndef SC_TESTS_CLIENT_RUN_H
#define SC_TESTS_CLIENT_RUN_H

#include "peer.h"
#include "watcher.h"

static struct peer peer;
static struct watcher w;
static char url[200];

static inline void begin(void (*script)(struct peer *p))
{
	peer_start(&peer, script);
	watcher_init(&w);
	snprintf(url, sizeof(url), "ws://127.0.0.1:%d/t?offset=5", peer.port);
}

static inline void finish(const char *words)
{
	peer_stop(&peer);
	watcher_done(&w);
	CHECK_STR(w.words, words);
}

static inline void run(void (*script)(struct peer *p), const char *words)
{
	begin(script);
	watcher_run(&w, url);
	finish(words);
}

/* Scripts of more than one test. */

static const char *refusal;

static inline void script_refuse(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	PEER_CHECK(p, peer_read_head(p));
	PEER_CHECK(p, peer_puts(p, refusal));
}

static inline void script_silent_upgrade(struct peer *p)
{
	PEER_CHECK(p, peer_accept(p));
	while (!peer_at_end(p))
		;
}

#endif
