/*
 * msg/table.h: a hash table of things that carry their entry; entries of one key may be many.
 *
 * Owns      its buckets, until sc_table_done; entries and their keys are the caller's.
 * Units     entries.
 * Errors    none: where memory is out the chains get longer.
 * Safety    one thread a table. An entry may be removed while it is looked at, if the next was
 *           taken before.
 * Source    our own.
 */
#ifndef SC_MSG_TABLE_H
#define SC_MSG_TABLE_H

#include <stdint.h>

#include "base/bytes.h"

struct sc_table_entry {
	struct sc_table_entry *next; /* of its bucket */
	uint64_t hash;
	struct sc_span key;
};

/* All zero is an empty one. */
struct sc_table {
	struct sc_table_entry *one;  /* the only bucket of a small table */
	struct sc_table_entry **buckets;
	size_t mask, count;
};

void sc_table_done(struct sc_table *table);
/* ENTRY's key and hash are set before. */
void sc_table_add(struct sc_table *table, struct sc_table_entry *entry);
void sc_table_remove(struct sc_table *table, struct sc_table_entry *entry);

/* The first of those that may have this hash; go on by ->next; compare the hash. */
static inline struct sc_table_entry *sc_table_chain(const struct sc_table *table, uint64_t hash)
{
	return table->buckets ? table->buckets[hash & table->mask] : table->one;
}

uint64_t sc_table_hash(struct sc_span key);
/* The newest with this key, or NULL; next: those after it. */
struct sc_table_entry *sc_table_find(const struct sc_table *table, struct sc_span key);
struct sc_table_entry *sc_table_find_next(const struct sc_table_entry *entry);

#endif
