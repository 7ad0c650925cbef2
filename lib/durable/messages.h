/*
 * durable/messages.h: a request's body as messages, and messages as frames at rest.
 *
 * Owns      nothing; messages borrow from the body.
 * Units     sizes in bytes. A frame is a length (4 bytes, big-endian) and the message: as many
 *           bytes as the message moves the stream's position, so a position is a byte position in
 *           the frames of a stream.
 * Errors    negative codes with *err; results are untouched then.
 * Safety    pure functions, any thread; any bytes are safe input.
 * Source    durable-streams 2 and 13.
 */
#ifndef SC_DURABLE_MESSAGES_H
#define SC_DURABLE_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/scan.h"

#define SC_DS_FRAME_HEAD 4u
#define SC_DS_MESSAGES_MAX 4000000u /* in one request */

struct sc_ds_messages {
	struct sc_json value; /* JSON: what was scanned */
	struct sc_span bytes; /* not JSON: the one message */
	bool json, array;
	uint64_t count;       /* messages */
	uint64_t size;        /* of their frames together: how far the position moves */
};

enum sc_ds_split { SC_DS_SPLIT_OK, SC_DS_SPLIT_INVALID, SC_DS_SPLIT_TOO_MANY };
/* An empty body is no message, in JSON mode too. */
enum sc_ds_split sc_ds_messages_split(struct sc_span body, bool json,
				      struct sc_ds_messages *ret_messages);

struct sc_ds_messages_walk {
	struct sc_json_walk json;
	const struct sc_ds_messages *messages;
	uint64_t left;
};
void sc_ds_messages_walk(struct sc_ds_messages_walk *walk, const struct sc_ds_messages *messages);
bool sc_ds_messages_next(struct sc_ds_messages_walk *walk, struct sc_span *ret_message);

/* The frame's head. */
void sc_ds_frame_head(uint32_t len, char ret_head[SC_DS_FRAME_HEAD]);
/* The first frame of RUN (whole frames): its message. false when RUN does not begin with a whole
 * frame. */
bool sc_ds_frame_first(struct sc_span run, struct sc_span *ret_message);
/* Whether AT is where a frame begins, or the end. */
bool sc_ds_frame_boundary(struct sc_span run, uint64_t at);

#endif
