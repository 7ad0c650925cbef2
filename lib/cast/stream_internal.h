/*
 * cast/stream_internal.h: what stream.c and subscriber.c share.
 *
 * Owns      see cast/stream.h.
 * Units     as there.
 * Errors    as there.
 * Safety    as there.
 * Source    our own.
 */
#ifndef SC_CAST_STREAM_INTERNAL_H
#define SC_CAST_STREAM_INTERNAL_H

#include "cast/ring.h"
#include "cast/stream.h"
#include "cast/subscriber.h"
#include "log/reader.h"
#include "wire/where.h"

struct sc_links {
	struct sc_subscriber *prev, *next;
};

enum sc_place {
	SC_PLACE_LOG, /* below the ring, or not known yet: `want` counts */
	SC_PLACE_RING /* `at` counts */
};

/* What the span that was handed out last brings with it. */
enum sc_pending { SC_PENDING_NONE, SC_PENDING_GREETING, SC_PENDING_RING, SC_PENDING_LOG };

struct sc_subscriber {
	struct sc_stream *stream;
	void *arg;
	struct sc_links all, idle;
	bool is_idle, was_live, stalled, closing;
	enum sc_place place;

	struct sc_ring_at at;     /* in the ring */
	uint64_t want;            /* from the log: the next row is at or above it */
	struct sc_reader *reader; /* open only while it reads the log */
	size_t read_bytes;        /* through it */
	struct sc_span lines;     /* of the reader's last run, not framed yet */
	int64_t lines_us;         /* their append time */

	enum sc_pending pending;
	struct sc_ring_at pending_at;
	uint64_t pending_want, pending_count;
	struct sc_span pending_frames;

	uint64_t held_pos;  /* where it was when the pump began to wait */
	uint64_t tick_want; /* and at the last tick */
	struct sc_where *where;
	struct sc_bytes greeting;
	struct sc_close close;
};

struct sc_stream {
	struct sc_stream_settings settings;
	char *name;
	int wire;
	bool triples;
	uint64_t message_max;
	struct sc_log *log;
	struct sc_reader *reader; /* the pump's */
	struct sc_span lines;     /* of its last run, not in the ring yet */
	int64_t lines_us;
	struct sc_ring *ring;
	struct sc_bytes scratch; /* frames that are not in the ring: replays and filters */
	struct sc_subscriber *all, *idle;
	size_t readers; /* that they have open */
	uint64_t paced_pos,
		paced_number; /* the ring's head when the subscribers were last looked at */
	int64_t held_us;      /* the pump waits since; 0 = it does not */
	uint64_t stamped_in;  /* messages_in when last_send_us was taken */
	struct sc_stream_stats stats;
};

/* One line [offset,msg]\n as a payload: with its time between when the protocol has triples. */
size_t sc_stream_payload_size(const struct sc_stream *stream, struct sc_span line, int64_t us);
void sc_stream_payload(const struct sc_stream *stream, struct sc_span line, int64_t us,
		       char *ret_payload);
/* Too far behind, or passed by a ring with nothing below it: then it closes as too slow. */
bool sc_subscriber_check(struct sc_subscriber *sub);
void sc_subscriber_drop(struct sc_subscriber *sub, const struct sc_refusal *refusal);
void sc_subscriber_idle(struct sc_subscriber *sub, bool idle);
void sc_subscriber_let_go(
	struct sc_subscriber *sub); /* of its reader: it is opened again where it went on */
/* When ERR says that there are no descriptors left: those of all replays but KEEP's are closed. True: try again. */
bool sc_stream_spare(struct sc_stream *stream, const struct sc_subscriber *keep,
		     struct sc_err *err);

#endif
