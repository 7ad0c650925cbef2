/*
 * cast/stream.h: one stream that is served: its log (or none), its ring, its subscribers, its
 * numbers.
 *
 * Owns      a stream until sc_stream_close, after all of its subscribers were freed; the log's
 *           handle stays the caller's and must outlive the stream.
 * Units     offsets count rows from 1; sizes in bytes; backlog in messages; wait in ms.
 * Errors    SC_E_IO, SC_E_DATA (damage), SC_E_NOMEM, SC_E_CONFIG. A subscriber that cannot be
 *           served is refused, not an error.
 * Safety    one thread (the loop's). Callbacks must not free subscribers nor call back into the
 *           stream, only take a note.
 * Source    streamcast-wire 4.1, 5, 6; man/sc-wire.7.
 *
 * The loop's side of it:
 *     when the log may have grown        while (sc_stream_pump(...) == 1) let the sockets work,
 *     wait ret_wait_ms
 *     a line of a stream without a log   sc_stream_room() > 0, then sc_stream_add
 *     once a second                      sc_stream_tick
 *     a request                          sc_stream_attach, then ask for writable
 *     writable                           sc_subscriber_next, write, sc_subscriber_sent
 *     (cast/subscriber.h)
 *     the feeds' pool woke the loop      sc_stream_fed
 *     wake(arg)                          ask for writable: that subscriber had nothing to send and
 *     now has
 *     dropped(arg)                       ask for writable and start a timer: it is too slow and may
 *     never be writable again
 */
#ifndef SC_CAST_STREAM_H
#define SC_CAST_STREAM_H

#include "cast/ring.h"
#include "cast/subscriber.h"
#include "log/feed.h"
#include "log/log.h"
#include "wire/refusal.h"
#include "wire/target.h"

struct sc_stream;

struct sc_stream_settings {
	const char *name;     /* "" = the unnamed one */
	int wire;             /* 0 = 1 */
	uint64_t ring_bytes;  /* 0 = SC_RING_STANDARD; grown to hold four of the longest messages */
	uint64_t message_max; /* of a stream without a log; 0 = SC_MESSAGE_STANDARD */
	uint64_t max_backlog; /* 0 = none: back to the log, or dropped when the ring has passed */
	bool bounded_replay;
	uint64_t max_replay;
	struct sc_feed_pool *feeds; /* what the log does not hold is read from its archive; NULL: it is not */
	bool publish;            /* publishers are welcome (for the greeting's group_commit) */
	void (*wake)(void *arg); /* both: of the subscriber; may be NULL */
	void (*dropped)(void *arg);
};

/* LOG NULL: a stream without a log. */
int sc_stream_open(const struct sc_stream_settings *settings, struct sc_log *log,
		   struct sc_stream **ret_stream, struct sc_err *err);
void sc_stream_close(struct sc_stream *stream);
int sc_stream_wire(const struct sc_stream *stream);

/*
 * The log's archive is at URL (NULL: it has none); SHOWN is told in greetings. NOTED: the log says
 * so itself, so it must be there. Subscribers that read another one go on with that.
 */
int sc_stream_set_archive(struct sc_stream *stream, const char *url, const char *shown, bool noted,
			  struct sc_err *err);
/* Wakes the subscribers of all streams of this pool that have something new from their archives. */
void sc_stream_fed(struct sc_feed_pool *feeds);

/*
 * Take new commits into the ring, about MAX_BYTES at most, and wake who waits for them. 1: there is
 * more, call again after *ret_wait_ms and a turn of the loop; 0: all was taken. A wait above 0
 * gives subscribers that are moving the time to follow (at most 100 ms for each step, so that slow
 * ones hold up nobody).
 */
int sc_stream_pump(struct sc_stream *stream, size_t max_bytes, int *ret_wait_ms,
		   struct sc_err *err);

/* Without a log: how many bytes may be added now; 0: ask again after *ret_wait_ms. */
size_t sc_stream_room(struct sc_stream *stream, int *ret_wait_ms);
/* One message (a JSON text on one line): sent as [null,MESSAGE]. SC_E_DATA: too long. */
int sc_stream_add(struct sc_stream *stream, struct sc_span message, struct sc_err *err);
/* A publisher's frame to a stream without a log: all of its rows or none; the reply is appended to
 * REPLY. */
int sc_stream_publish(struct sc_stream *stream, struct sc_span frame, struct sc_bytes *reply,
		      struct sc_err *err);

/* Drops who is too far behind, lets go of what stalled replays hold. */
void sc_stream_tick(struct sc_stream *stream);

/* 0 and a subscriber; 1: refused, *ret_refusal says how. One that begins in the archive has its
 * greeting, or is closed without one, when that has answered. ARG is for the callbacks. TARGET
 * is not kept. */
int sc_stream_attach(struct sc_stream *stream, const struct sc_target *target, void *arg,
		     struct sc_subscriber **ret_subscriber, struct sc_refusal *ret_refusal,
		     struct sc_err *err);
/* The greeting of a publisher, appended to OUT. PRODUCER: its name, or empty; then it is told what
 * was stored of it last. */
int sc_stream_greet(struct sc_stream *stream, struct sc_span producer, struct sc_bytes *out,
		    struct sc_err *err);
/* Close all subscribers with this code after what they have already been given (shutdown: 1001). */
void sc_stream_close_all(struct sc_stream *stream, int code, const char *reason);

struct sc_stream_stats {
	bool durable;
	uint64_t subscribers, replaying; /* replaying: reading the log or the archive, not the ring */
	uint64_t replaying_archive;
	uint64_t backlog_max;            /* messages that the slowest live subscriber is behind */
	uint64_t ring_bytes, ring_messages;
	uint64_t messages_in, bytes_in;   /* into the ring */
	uint64_t messages_out, bytes_out; /* frames to all subscribers */
	uint64_t archive_out;             /* messages of them that came from the archive */
	uint64_t attached;                /* subscribers ever */
	uint64_t dropped_slow, dropped_evicted, dropped_failed, dropped_archive;
	uint64_t refused[SC_WHY_KINDS];    /* not_replayable, by why */
	uint64_t refused_bad;              /* 4400 seen here: bad filters */
	uint64_t first_offset, end_offset; /* of the log; 0 without */
	uint64_t lag_rows;                 /* committed and not yet in the ring */
	int64_t started_us, last_send_us;  /* 0 = nothing sent yet */
};
int sc_stream_stats(struct sc_stream *stream, struct sc_stream_stats *ret_stats,
		    struct sc_err *err);

#endif
