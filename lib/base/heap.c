/* base/heap.c: a binary heap of things that carry their place. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/heap.h"

void sc_heap_done(struct sc_heap *h)
{
	free(h->items);
	memset(h, 0, sizeof(*h));
}

static bool less(const struct sc_heap_item *a, const struct sc_heap_item *b)
{
	return a->major < b->major || (a->major == b->major && a->minor < b->minor);
}

static void put_at(struct sc_heap *h, size_t at, struct sc_heap_item *item)
{
	h->items[at] = item;
	item->place = at + 1;
}

static void settle(struct sc_heap *h, size_t at, struct sc_heap_item *item)
{
	while (at > 0 && less(item, h->items[(at - 1) / 2])) {
		put_at(h, at, h->items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	for (;;) {
		size_t child = at * 2 + 1;

		if (child + 1 < h->count && less(h->items[child + 1], h->items[child]))
			child++;
		if (child >= h->count || !less(h->items[child], item))
			break;
		put_at(h, at, h->items[child]);
		at = child;
	}
	put_at(h, at, item);
}

int sc_heap_reserve(struct sc_heap *h, size_t count)
{
	size_t cap = h->cap ? h->cap : 8;
	struct sc_heap_item **grown;

	while (cap < count)
		cap *= 2;
	if (cap == h->cap)
		return 0;
	grown = sc_realloc(h->items, cap * sizeof(struct sc_heap_item *));
	if (!grown)
		return SC_E_NOMEM;
	h->items = grown;
	h->cap = cap;
	return 0;
}

int sc_heap_put(struct sc_heap *h, struct sc_heap_item *item, uint64_t major, uint64_t minor)
{
	if (item->place == 0) {
		if (sc_heap_reserve(h, h->count + 1) < 0)
			return SC_E_NOMEM;
		put_at(h, h->count++, item);
	}
	item->major = major;
	item->minor = minor;
	settle(h, item->place - 1, item);
	return 0;
}

void sc_heap_remove(struct sc_heap *h, struct sc_heap_item *item)
{
	size_t at = item->place - 1;
	struct sc_heap_item *last;

	if (item->place == 0)
		return;
	item->place = 0;
	last = h->items[--h->count];
	if (last != item)
		settle(h, at, last);
}
