/*
 * durable/sse.h: one batch of a stream as server-sent events: data and control, in one piece.
 *
 * Owns      nothing.
 * Units     positions.
 * Errors    SC_E_NOMEM; OUT is as it was then.
 * Safety    pure functions, any thread; any payload is safe: no byte of it begins a line.
 * Source    durable-streams 12.
 */
#ifndef SC_DURABLE_SSE_H
#define SC_DURABLE_SSE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Payload of one batch, about: as base64, with all that is around it, it is less than 256 KiB.
 * There may be many readers that take nothing for long, each with a batch. */
#define SC_DS_SSE_BYTES 180000u

struct sc_ds_batch {
	struct sc_span payload; /* the bytes, or the JSON array */
	bool has_data;          /* a data event before the control event */
	bool base64;            /* neither text nor JSON */
	uint64_t next;
	const char *cursor;     /* digits; not sent once ended */
	bool up_to_date;
	bool ended;             /* closed, and everything sent */
};
int sc_ds_sse_put(struct sc_bytes *out, const struct sc_ds_batch *batch);
/* ":\n\n": says nothing, keeps a connection open. */
int sc_ds_sse_comment(struct sc_bytes *out);

#endif
