/* msg/table.c: a hash table of things that carry their entry. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "msg/table.h"

#define SMALL 8u /* entries in one chain */

static uint64_t mix(uint64_t h)
{
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	h ^= h >> 32;
	h *= 0xd6e8feb86659fd93u;
	return h ^ h >> 32;
}

/* Keys come from the network: each process hashes in its own way. */
static uint64_t seed(void)
{
	static uint64_t value;

	while (value == 0)
		sc_random(&value, sizeof(value));
	return value;
}

uint64_t sc_table_hash(struct sc_span key)
{
	uint64_t h = seed() ^ key.len * 0x9e3779b97f4a7c15u;
	const char *p = key.data;
	size_t left = key.len;

	while (left > 0) {
		uint64_t part = 0;
		size_t n = left < 8 ? left : 8;

		memcpy(&part, p, n);
		h = mix(h ^ part);
		p += n;
		left -= n;
	}
	return h;
}

void sc_table_done(struct sc_table *t)
{
	free(t->buckets);
	memset(t, 0, sizeof(*t));
}

static void put(struct sc_table *t, struct sc_table_entry *e)
{
	struct sc_table_entry **bucket = t->buckets ? &t->buckets[e->hash & t->mask] : &t->one;

	e->next = *bucket;
	*bucket = e;
}

/* Entries of one key keep their order: each chain is put from its end on. */
static struct sc_table_entry *reverse(struct sc_table_entry *chain)
{
	struct sc_table_entry *done = NULL, *next;

	for (; chain; chain = next) {
		next = chain->next;
		chain->next = done;
		done = chain;
	}
	return done;
}

static void grow(struct sc_table *t)
{
	struct sc_table old = *t;
	size_t size = old.buckets ? (old.mask + 1) * 4 : (size_t)SMALL * 4;
	struct sc_table_entry **buckets = sc_calloc(size, sizeof(*buckets));

	if (!buckets)
		return;
	t->buckets = buckets;
	t->mask = size - 1;
	t->one = NULL;
	for (size_t i = 0; i <= (old.buckets ? old.mask : 0); i++) {
		struct sc_table_entry *e = reverse(old.buckets ? old.buckets[i] : old.one), *next;

		for (; e; e = next) {
			next = e->next;
			put(t, e);
		}
	}
	free(old.buckets);
}

void sc_table_add(struct sc_table *t, struct sc_table_entry *e)
{
	if (t->count >= (t->buckets ? t->mask + 1 : SMALL))
		grow(t);
	put(t, e);
	t->count++;
}

void sc_table_remove(struct sc_table *t, struct sc_table_entry *e)
{
	struct sc_table_entry **at = t->buckets ? &t->buckets[e->hash & t->mask] : &t->one;

	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	if (--t->count == 0)
		sc_table_done(t);
}

static bool same(struct sc_span a, struct sc_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

struct sc_table_entry *sc_table_find(const struct sc_table *t, struct sc_span key)
{
	uint64_t hash = sc_table_hash(key);
	struct sc_table_entry *e = sc_table_chain(t, hash);

	while (e && (e->hash != hash || !same(e->key, key)))
		e = e->next;
	return e;
}

struct sc_table_entry *sc_table_find_next(const struct sc_table_entry *entry)
{
	struct sc_table_entry *e = entry->next;

	while (e && (e->hash != entry->hash || !same(e->key, entry->key)))
		e = e->next;
	return e;
}
