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
#include "log/feed.h"
#include "log/reader.h"
#include "wire/where.h"

struct sc_links {
	struct sc_subscriber *prev, *next;
};

enum sc_place {
	SC_PLACE_ARCHIVE, /* below the log: `framed` is next there, `want` to be sent */
	SC_PLACE_LOG, /* below the ring, or not known yet: `want` counts */
	SC_PLACE_RING /* `at` counts */
};

/* What the span that was handed out last brings with it. */
enum sc_pending {
	SC_PENDING_NONE,
	SC_PENDING_GREETING,
	SC_PENDING_RING,
	SC_PENDING_LOG,
	SC_PENDING_ARCHIVE
};

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
	struct sc_span lines;     /* of the reader's or the feed's last run, not framed yet */
	int64_t lines_us;         /* their append time */

	bool asking;         /* there is no greeting yet: the archive was asked what it holds */
	uint64_t asked;      /* from where on; 0: its earliest */
	struct sc_feed *feed; /* open only while it reads the archive, and takes what it gets */
	bool feed_known;     /* its archive was found to be the log's */
	bool feed_fresh;     /* its archive was looked at after feed_floor */
	uint64_t feed_floor; /* of the log, when the feed was opened */
	uint64_t framed;     /* rows below were sent, or are in `kept` */
	struct sc_bytes kept; /* frames from the archive; before kept_at they were sent */
	size_t kept_at;
	uint64_t kept_count;   /* of them, not sent */
	unsigned stalled_ticks; /* it took nothing since */

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
	char *archive, *archive_shown; /* NULL: none is known */
	bool archive_noted;            /* by the log itself */
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

/* The frame of one line, appended to OUT. */
int sc_subscriber_put_frame(struct sc_subscriber *sub, struct sc_bytes *out, struct sc_span line);
/* Does one more line fit into OUT? One that is longer than MAX goes alone. */
bool sc_subscriber_fits(const struct sc_bytes *out, struct sc_span line, size_t max);
/* The first of the lines at hand, without its newline; and over it. */
struct sc_span sc_subscriber_line(const struct sc_subscriber *sub);
void sc_subscriber_forward(struct sc_subscriber *sub, struct sc_span line);
/* 1: it is for this one; 0: its filter holds it back. */
int sc_subscriber_match(struct sc_subscriber *sub, struct sc_span line);

/* archive.c */
/* Is what the log does not hold read from an archive? */
bool sc_stream_replays_archive(const struct sc_stream *stream);
/* Read on in the archive from FROM on (0: its earliest). */
int sc_subscriber_enter_archive(struct sc_subscriber *sub, uint64_t from, bool fresh,
				struct sc_err *err);
void sc_subscriber_leave_archive(struct sc_subscriber *sub); /* its feed is closed */
enum sc_next sc_subscriber_from_archive(struct sc_subscriber *sub, size_t max,
					struct sc_span *ret_frames, struct sc_err *err);
/* Has the archive answered the one that is asking? SC_NEXT_AGAIN: it has a greeting, or is at work
 * elsewhere. */
enum sc_next sc_subscriber_ask(struct sc_subscriber *sub, struct sc_err *err);
void sc_subscriber_evicted(struct sc_subscriber *sub, uint64_t earliest);

/* attach.c */
/* Where it begins, decided with rows that are held from FIRST on; its greeting is built. 1:
 * refused. */
int sc_subscriber_begin(struct sc_subscriber *sub, uint64_t first, struct sc_refusal *ret_refusal,
			struct sc_err *err);
/* When ERR says that there are no descriptors left: those of all replays but KEEP's are closed.
 * True: try again. */
bool sc_stream_spare(struct sc_stream *stream, const struct sc_subscriber *keep,
		     struct sc_err *err);

#endif
