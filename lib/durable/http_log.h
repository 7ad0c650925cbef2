/*
 * durable/http_log.h: logs of sc-log as streams that are read only.
 *
 * Owns      the list and its follows, until sc_ds_logs_done.
 * Units     a position is the offset of the last row before it: 0 is the beginning of a log.
 * Errors    SC_E_NOLOG, SC_E_USAGE (names), SC_E_IO.
 * Safety    reads and waits: any thread, each with a handle of its own; sc_ds_logs_turn: one
 *           thread.
 * Source    log/log.h; man/sc-streams.1, "LOGS".
 */
#ifndef SC_DURABLE_HTTP_LOG_H
#define SC_DURABLE_HTTP_LOG_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "durable/protocol.h"
#include "log/follow.h"
#include "log/log.h"

struct sc_ds_log {
	char *name, *path;
	struct sc_log *log; /* the follow's */
	struct sc_follow *follow;
	atomic_uint_fast64_t changes; /* seen by the follow */
	struct sc_ds_log_wait *waits;
};

struct sc_ds_logs {
	struct sc_ds_log *logs;
	size_t count;
	pthread_mutex_t lock; /* of all `waits` */
	bool made, stopped;
};

struct sc_ds_log_wait {
	void (*woken)(struct sc_ds_log_wait *wait); /* must not call back into here */
	void *arg;
	struct sc_ds_log_wait *next, **prev;
};

/* One GET over all its reads; zero it. */
struct sc_ds_log_reader {
	bool started, moved;
	enum sc_ds_live live;
	size_t log;
	uint64_t at, changes;
};

/* SPECS: "NAME=LOG". */
int sc_ds_logs_init(struct sc_ds_logs *logs, const char *const *specs, size_t count,
		    struct sc_err *err);
void sc_ds_logs_done(struct sc_ds_logs *logs);
bool sc_ds_logs_find(const struct sc_ds_logs *logs, struct sc_span name, size_t *ret_at);

/* As sc_ds_read and sc_ds_head; HANDLE is this thread's, opened where it is NULL. */
int sc_ds_log_read(struct sc_ds_logs *logs, size_t at, struct sc_log **handle,
		   const struct sc_ds_request *request, struct sc_ds_log_reader *reader, bool last,
		   struct sc_ds_answer *answer, struct sc_err *err);
int sc_ds_log_head(struct sc_ds_logs *logs, size_t at, struct sc_log **handle,
		   struct sc_ds_answer *answer, struct sc_err *err);

/* 0: `woken` comes; 1: the log may have grown since the read. */
int sc_ds_logs_wait(struct sc_ds_logs *logs, const struct sc_ds_log_reader *reader,
		    struct sc_ds_log_wait *wait);
void sc_ds_logs_unwait(struct sc_ds_logs *logs, struct sc_ds_log_wait *wait);

/* Descriptors to poll for reading, COUNT of them (some -1); and how long at most, in ms. */
int sc_ds_logs_poll(const struct sc_ds_logs *logs, struct pollfd *ret_polls);
/* After the poll: wakes who waits. */
void sc_ds_logs_turn(struct sc_ds_logs *logs, const struct pollfd *polls);
/* Wakes everybody, now and from now on. */
void sc_ds_logs_stop(struct sc_ds_logs *logs);

#endif
