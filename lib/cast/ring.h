/*
 * cast/ring.h: the last messages of a stream as ready WebSocket frames, in one ring for all
 * subscribers.
 *
 * Owns      its memory until sc_ring_free; spans handed out are good until the next sc_ring_begin.
 * Units     positions count bytes since the ring was made (64 bits, they never wrap); numbers count
 *           messages.
 * Errors    SC_E_IO (no memory to map), SC_E_NOMEM.
 * Safety    one thread.
 * Source    mmap(2): the memory is mapped twice in a row, so that every run of bytes is contiguous.
 *
 * A place is always between two frames. What is older than the ring holds is gone: test with
 * sc_ring_holds before reading.
 */
#ifndef SC_CAST_RING_H
#define SC_CAST_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_RING_MIN (16u << 10)
#define SC_RING_STANDARD (16u << 20)
#define SC_RING_MAX ((uint64_t)1 << 32)

struct sc_ring;

struct sc_ring_at {
	uint64_t pos;    /* byte position of the next frame */
	uint64_t number; /* messages before it */
	uint64_t last;   /* offset of the message before it; without offsets always 0 */
};

/* At least BYTES, rounded up to a power of two. NEXT: the offset that the first message will have
 * at least (0 without offsets). */
int sc_ring_new(uint64_t bytes, uint64_t next, struct sc_ring **ret_ring, struct sc_err *err);
void sc_ring_free(struct sc_ring *ring);
/* Forget everything; the next message has NEXT at least. Old places are no longer held. */
void sc_ring_restart(struct sc_ring *ring, uint64_t next);
uint64_t sc_ring_bytes(const struct sc_ring *ring);
/* Longest payload that sc_ring_begin takes: half the ring less a head. */
uint64_t sc_ring_payload_max(const struct sc_ring *ring);

/* Start a frame of PAYLOAD bytes: they are to be written where the result points, then
 * sc_ring_commit. NULL: too long. The oldest messages give way. */
char *sc_ring_begin(struct sc_ring *ring, uint64_t payload);
void sc_ring_commit(struct sc_ring *ring, uint64_t offset);

const struct sc_ring_at *sc_ring_head(const struct sc_ring *ring);
const struct sc_ring_at *sc_ring_tail(const struct sc_ring *ring);
static inline bool sc_ring_holds(const struct sc_ring *ring, const struct sc_ring_at *at)
{
	return at->pos >= sc_ring_tail(ring)->pos;
}

/* The longest run of whole frames of at most MAX bytes, or one longer frame; false at the head.
 * Nearly constant time, and the runs of all subscribers end at the same places. */
bool sc_ring_run(const struct sc_ring *ring, const struct sc_ring_at *at, size_t max,
		 struct sc_span *ret_frames, struct sc_ring_at *ret_after);
/* One message's payload. */
bool sc_ring_message(const struct sc_ring *ring, const struct sc_ring_at *at,
		     struct sc_span *ret_payload, struct sc_ring_at *ret_after);
/* The first message at or above OFFSET (the head if it is not there yet); false if it may be older
 * than the ring. */
bool sc_ring_find(const struct sc_ring *ring, uint64_t offset, struct sc_ring_at *ret_at);

/* The offset at the front of a payload "[123,...": 0 for null. */
uint64_t sc_ring_offset_of(const char *payload, size_t len);

#endif
