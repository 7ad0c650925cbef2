/*
 * tests/unit/net/server_run.h: what the server's tests share: a second peer that must still be
 * served, and how much memory may grow.
 */
#ifndef SC_TESTS_SERVER_RUN_H
#define SC_TESTS_SERVER_RUN_H

#include "server_peer.h"

/* What memory may grow by in a test: the sanitizers keep what was freed. */
#define GROWTH_MAX (SC_SANITIZED ? 400u << 20 : 8u << 20)

static struct peer peer, other;

static inline void check_serves(void)
{
	peer_open(&other, "/echo");
	peer_frame(&other, 0x81, "still here", 10);
	peer_expect(&other, 0x81, "still here", 10);
	peer_close(&other);
}

static inline void request(const char *text, size_t len)
{
	peer_init(&peer, peer_dial());
	peer_put(&peer, text, len);
}

#define REQUEST(TEXT) request(TEXT, sizeof(TEXT) - 1)

#endif
