#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "cast/ring.h"
#include "wire/head.h"

/*
 * Marks: the ring's bytes are cut into granules of 2^shift bytes, and mark g is the first place at
 * or after position g << shift. One is written whenever a frame reaches over a granule's start, so
 * looking one up needs no search. Positions from the tail to the head span at most the ring, so
 * twice as many marks as granules are never short.
 */
struct sc_ring {
	unsigned char *base;
	uint64_t bytes, mask;
	unsigned shift;
	struct sc_ring_at head, tail;
	uint64_t begun; /* bytes of the frame that is being written, 0 = none */
	uint64_t mark_mask;
	struct sc_ring_at *marks;
};

#define GRANULE_SHIFT_MAX 15u /* 32 KiB */

static int map_twice(struct sc_ring *r, struct sc_err *err)
{
	static const char tried[] = "cannot map a ring";
	size_t bytes = (size_t)r->bytes;
	int fd = memfd_create("sc-ring", MFD_CLOEXEC), rc = 0;
	unsigned char *at;

	if (fd < 0)
		return sc_err_sys(err, SC_E_IO, errno, tried);
	if (ftruncate(fd, (off_t)bytes) < 0) {
		rc = sc_err_sys(err, SC_E_IO, errno, tried);
		goto out;
	}
	at = mmap(NULL, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) {
		rc = sc_err_sys(err, SC_E_NOMEM, errno, tried);
		goto out;
	}
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED ||
	    mmap(at + bytes, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED) {
		rc = sc_err_sys(err, SC_E_NOMEM, errno, tried);
		munmap(at, 2 * bytes);
		goto out;
	}
	r->base = at;
out:
	close(fd);
	return rc;
}

int sc_ring_new(uint64_t bytes, uint64_t next, struct sc_ring **ret_ring, struct sc_err *err)
{
	struct sc_ring *r;
	uint64_t marks, size = SC_RING_MIN;
	int rc;

	if (bytes > SC_RING_MAX) {
		sc_err_set(err, SC_E_CONFIG, "cannot make a ring",
			   "%llu bytes is over the limit of %llu", (unsigned long long)bytes,
			   (unsigned long long)SC_RING_MAX);
		return sc_err_next(err, "give a smaller --ring");
	}
	while (size < bytes || size < (uint64_t)sysconf(_SC_PAGESIZE))
		size *= 2;
	r = sc_calloc(1, sizeof(*r));
	if (!r)
		return sc_err_nomem(err, "cannot make a ring");
	r->bytes = size;
	r->mask = size - 1;
	/* Eight granules at least, so that the oldest can go while half of the ring is wanted for
	 * one frame. */
	for (r->shift = GRANULE_SHIFT_MAX; (size >> r->shift) < 8; r->shift--)
		;
	marks = (size >> r->shift) * 2;
	r->mark_mask = marks - 1;
	r->marks = sc_calloc(marks, sizeof(*r->marks));
	rc = r->marks ? map_twice(r, err) : sc_err_nomem(err, "cannot make a ring");
	if (rc < 0) {
		sc_ring_free(r);
		return rc;
	}
	sc_ring_restart(r, next);
	*ret_ring = r;
	return 0;
}

void sc_ring_free(struct sc_ring *ring)
{
	if (!ring)
		return;
	if (ring->base)
		munmap(ring->base, (size_t)(2 * ring->bytes));
	free(ring->marks);
	free(ring);
}

void sc_ring_restart(struct sc_ring *r, uint64_t next)
{
	/* On to the start of a later granule: an old place is below the tail then, and no mark is
	 * left from before. */
	if (r->head.pos)
		r->head.pos = ((r->head.pos + r->bytes) >> r->shift) << r->shift;
	r->head.last = next ? next - 1 : 0;
	r->tail = r->head;
	r->begun = 0;
	r->marks[(r->head.pos >> r->shift) & r->mark_mask] = r->head;
}

uint64_t sc_ring_bytes(const struct sc_ring *ring)
{
	return ring->bytes;
}

uint64_t sc_ring_payload_max(const struct sc_ring *ring)
{
	return ring->bytes / 2 - SC_HEAD_MAX;
}

const struct sc_ring_at *sc_ring_head(const struct sc_ring *ring)
{
	return &ring->head;
}

const struct sc_ring_at *sc_ring_tail(const struct sc_ring *ring)
{
	return &ring->tail;
}

char *sc_ring_begin(struct sc_ring *r, uint64_t payload)
{
	unsigned char *at = r->base + (r->head.pos & r->mask);
	uint64_t frame;

	if (payload > sc_ring_payload_max(r))
		return NULL;
	frame = sc_head_size(payload) + payload;
	/* More than half of the ring lies between tail and head then, so the mark after the tail's
	 * granule was written. */
	while (r->head.pos + frame - r->tail.pos > r->bytes)
		r->tail = r->marks[((r->tail.pos >> r->shift) + 1) & r->mark_mask];
	r->begun = frame;
	return (char *)at + sc_head_put(at, payload);
}

void sc_ring_commit(struct sc_ring *r, uint64_t offset)
{
	uint64_t granule = r->head.pos >> r->shift;

	r->head.pos += r->begun;
	r->head.number++;
	r->head.last = offset;
	r->begun = 0;
	while (granule < r->head.pos >> r->shift)
		r->marks[++granule & r->mark_mask] = r->head;
}

static const unsigned char *frame_at(const struct sc_ring *r, uint64_t pos)
{
	return r->base + (pos & r->mask);
}

uint64_t sc_ring_offset_of(const char *payload, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 1; i < len && payload[i] >= '0' && payload[i] <= '9'; i++)
		value = value * 10 + (uint64_t)(payload[i] - '0');
	return value;
}

/* Over the frame at *at, which is not the head. */
static struct sc_span step(const struct sc_ring *r, struct sc_ring_at *at)
{
	const unsigned char *frame = frame_at(r, at->pos);
	size_t head;
	uint64_t payload = sc_head_payload(frame, &head);
	struct sc_span span = sc_span((const char *)frame + head, (size_t)payload);

	at->pos += head + payload;
	at->number++;
	at->last = sc_ring_offset_of(span.data, span.len);
	return span;
}

bool sc_ring_message(const struct sc_ring *r, const struct sc_ring_at *at,
		     struct sc_span *ret_payload, struct sc_ring_at *ret_after)
{
	struct sc_ring_at after = *at;

	if (at->pos == r->head.pos)
		return false;
	*ret_payload = step(r, &after);
	*ret_after = after;
	return true;
}

bool sc_ring_run(const struct sc_ring *r, const struct sc_ring_at *at, size_t max,
		 struct sc_span *ret_frames, struct sc_ring_at *ret_after)
{
	struct sc_ring_at after = r->head;
	uint64_t limit = at->pos + (max < r->bytes ? max : r->bytes);

	if (at->pos == r->head.pos)
		return false;
	if (r->head.pos > limit) {
		uint64_t granule = limit >> r->shift;
		const struct sc_ring_at *mark = NULL;

		for (; granule << r->shift > at->pos; granule--) {
			mark = &r->marks[granule & r->mark_mask];
			if (mark->pos <= limit)
				break;
			mark = NULL;
		}
		if (mark) {
			after = *mark;
		} else {
			/* The next mark is too far: what ends before it lies in this granule, or is
			 * one long frame. */
			struct sc_ring_at next = *at;

			after = next;
			do {
				step(r, &next);
				if (next.pos <= limit || after.pos == at->pos)
					after = next;
			} while (next.pos < limit);
		}
	}
	*ret_frames = sc_span((const char *)frame_at(r, at->pos), (size_t)(after.pos - at->pos));
	*ret_after = after;
	return true;
}

bool sc_ring_find(const struct sc_ring *r, uint64_t offset, struct sc_ring_at *ret_at)
{
	uint64_t low = (r->tail.pos >> r->shift) + 1, high = (r->head.pos >> r->shift) + 1;
	struct sc_ring_at at = r->tail;

	if (offset <= r->tail.last)
		return false;
	if (offset > r->head.last) {
		*ret_at = r->head;
		return true;
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		const struct sc_ring_at *mark = &r->marks[middle & r->mark_mask];

		if (mark->last < offset) {
			at = *mark;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	while (at.pos != r->head.pos) {
		struct sc_ring_at next = at;

		step(r, &next);
		if (next.last >= offset)
			break;
		at = next;
	}
	*ret_at = at;
	return true;
}
