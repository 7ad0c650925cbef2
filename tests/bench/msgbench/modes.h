/*
 * tests/bench/msgbench/modes.h: what msgbench can measure.
 *
 * Owns      nothing.
 * Units     as the names say.
 * Errors    a broker that loses, repeats or mixes up a message ends the program.
 * Safety    one thread.
 * Source    wsmsg 15 and 22.
 */
#ifndef SC_BENCH_MODES_H
#define SC_BENCH_MODES_H

#include "wire.h"

struct hist;

struct task {
	const struct wire *wire;
	int port;
	size_t size;         /* of a message's text */
	unsigned nodes;      /* fan: so many endpoints */
	unsigned window;     /* deliver, fan: messages under way, at most */
	bool bare;           /* nobody subscribes */
	bool await;          /* request: subscribe each reply, as sc-node does */
	double secs, warmup;
	/* The result. */
	uint64_t count;      /* exchanges, deliveries, replies */
	double took;
	struct hist *lat;    /* ns */
};

/* One message in, one out, both acknowledged; then the next. */
void mode_one(struct task *t);
/* A message when the ack of the last came, and nothing else: peers/lwspair.c. */
void mode_pong(struct task *t);
/* To one node as fast as it goes; the sender is always ahead. */
void mode_deliver(struct task *t);
/* To many endpoints, likewise. */
void mode_fan(struct task *t);
/* A request, its reply; then the next. */
void mode_request(struct task *t);

/* For the modes: begins; true while it goes on; what comes before the warm-up's end does not
 * count. */
void task_begin(struct task *t);
bool task_goes_on(struct task *t, uint64_t now);
void task_count(struct task *t, uint64_t count);
void task_end(struct task *t);

#endif
