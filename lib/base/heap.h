/*
 * base/heap.h: things in the order of a key, the least first; things carry their place.
 *
 * Owns      its array, until sc_heap_done; items are the caller's.
 * Units     none.
 * Errors    SC_E_NOMEM.
 * Safety    one thread a heap.
 * Source    our own.
 */
#ifndef SC_BASE_HEAP_H
#define SC_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero: in no heap. */
struct sc_heap_item {
	uint64_t major, minor; /* the key */
	size_t place;          /* from 1 on; 0: in no heap */
};

/* All zero is an empty one. */
struct sc_heap {
	struct sc_heap_item **items;
	size_t count, cap;
};

void sc_heap_done(struct sc_heap *heap);
/* Room for COUNT items: then they can be put without fail. */
int sc_heap_reserve(struct sc_heap *heap, size_t count);
/* Adds it, or moves one that is there to where its new key belongs (which cannot fail). */
int sc_heap_put(struct sc_heap *heap, struct sc_heap_item *item, uint64_t major, uint64_t minor);
/* also of one that is in none */
void sc_heap_remove(struct sc_heap *heap, struct sc_heap_item *item);

static inline struct sc_heap_item *sc_heap_first(const struct sc_heap *heap)
{
	return heap->count ? heap->items[0] : NULL;
}

#endif
