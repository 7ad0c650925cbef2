/*
 * cast/subscriber.h: one consumer of a stream: a position, and three places to read from.
 *
 * Owns      a subscriber until sc_subscriber_free; what it hands out is good until the next call on
 *           any subscriber of the stream, or on the stream.
 * Units     sizes in bytes.
 * Errors    told as SC_NEXT_CLOSE; *err is set then if it was a failure of ours.
 * Safety    the loop's thread.
 * Source    streamcast-wire 4.1; man/sc-wire.7, "ORDER".
 *
 * The first thing handed out is the greeting. A connection uses either sc_subscriber_next (frames
 * ready for the socket) or sc_subscriber_message (compression, server-sent events), not both.
 */
#ifndef SC_CAST_SUBSCRIBER_H
#define SC_CAST_SUBSCRIBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "wire/refusal.h"

#define SC_SUBSCRIBER_RUN (64u << 10) /* a good max: what the kernel takes at once */

struct sc_subscriber;

enum sc_next {
	SC_NEXT_IDLE, /* nothing to send: wake() comes when there is */
	SC_NEXT_DATA,
	SC_NEXT_AGAIN, /* worked long without a result (a filter): ask for writable and call again */
	SC_NEXT_CLOSE  /* close with sc_subscriber_close */
};

/* Whole frames, at most MAX bytes or one longer frame. Until sc_subscriber_sent the same is handed
 * out again. */
enum sc_next sc_subscriber_next(struct sc_subscriber *sub, size_t max, struct sc_span *ret_frames,
				struct sc_err *err);

struct sc_delivery {
	bool greeting;
	bool has_offset;
	uint64_t offset;
	struct sc_span payload; /* of the frame */
};
enum sc_next sc_subscriber_message(struct sc_subscriber *sub, struct sc_delivery *ret_message,
				   struct sc_err *err);

/* The span was written (to the socket, or to a buffer before it). */
void sc_subscriber_sent(struct sc_subscriber *sub);
/* Only its first BYTES were, which are whole frames: the rest comes again from
 * sc_subscriber_next. */
void sc_subscriber_sent_part(struct sc_subscriber *sub, size_t bytes);

struct sc_close {
	int code;
	size_t len;
	char reason[SC_REASON_MAX + 1];
};
/* After SC_NEXT_CLOSE. */
const struct sc_close *sc_subscriber_close(const struct sc_subscriber *sub);
bool sc_subscriber_replays(const struct sc_subscriber *sub);
/* It reads the log's archive, or did when it was closed. */
bool sc_subscriber_in_archive(const struct sc_subscriber *sub);
uint64_t sc_subscriber_backlog(
	const struct sc_subscriber
		*sub); /* messages behind the stream's end; 0 while it first replays */
void sc_subscriber_free(struct sc_subscriber *sub);

#endif
