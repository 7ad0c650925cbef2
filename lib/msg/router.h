/*
 * msg/router.h: patterns, found by the texts that match them.
 *
 * Owns      its tables, until sc_router_done; entries and their patterns are the caller's.
 * Units     bytes.
 * Errors    SC_E_NOMEM.
 * Safety    one thread a router; it must not change while a match goes on.
 * Source    our own.
 *
 * Patterns lie in a hash table by what they begin and end with; a text is looked up once as a whole
 * and once for each pair of lengths that patterns here have. So the cost of a look-up does not
 * depend on the number of patterns that do not match, except for those that neither begin nor end
 * with text of their own ("*x*"), which are all tried.
 */
#ifndef SC_MSG_ROUTER_H
#define SC_MSG_ROUTER_H

#include "base/bytes.h"
#include "msg/table.h"

struct sc_router_entry {
	struct sc_table_entry by_shape;
	struct sc_span pattern;     /* set by the caller before sc_router_add, at most 255 bytes */
	unsigned char prefix, suffix;
	bool literal;
};

struct sc_router_shape {
	unsigned char prefix, suffix;
	uint32_t count;
};

/* All zero is an empty one. */
struct sc_router {
	struct sc_table table;
	struct sc_router_shape *shapes; /* of the patterns with wildcards */
	size_t shape_count, shape_cap;
};

void sc_router_done(struct sc_router *router);
int sc_router_add(struct sc_router *router, struct sc_router_entry *entry);
void sc_router_remove(struct sc_router *router, struct sc_router_entry *entry);
/* The entry with exactly this pattern, or NULL. */
struct sc_router_entry *sc_router_find(const struct sc_router *router, struct sc_span pattern);
/* EACH for every entry whose pattern matches TEXT (at most 255 bytes), once. */
void sc_router_match(const struct sc_router *router, struct sc_span text,
		     void (*each)(void *arg, struct sc_router_entry *entry), void *arg);

#endif
