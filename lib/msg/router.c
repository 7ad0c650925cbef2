/* msg/router.c: patterns, found by the texts that match them. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "msg/pattern.h"
#include "msg/router.h"

#define TEXT_MAX 255u
#define FEW 8u /* patterns that are tried one by one */

/* So that there are not many pairs of lengths, whatever patterns there are: long ones count in
 * steps of 8. */
static unsigned char rounded(size_t len)
{
	return (unsigned char)(len <= 16 ? len : len & ~(size_t)7);
}

static uint64_t shape_hash(struct sc_span front, struct sc_span end)
{
	uint64_t h = sc_table_hash(front);

	return end.len ? h * 31 + sc_table_hash(end) : h;
}

static uint64_t hash_of(const struct sc_router_entry *e)
{
	struct sc_span p = e->pattern;

	if (e->literal)
		return sc_table_hash(p);
	return ~shape_hash(sc_span(p.data, e->prefix),
			   sc_span(p.data + p.len - e->suffix, e->suffix));
}

static void classify(struct sc_router_entry *e)
{
	struct sc_pattern_shape shape = sc_pattern_shape(e->pattern);

	e->literal = shape.literal;
	e->prefix = shape.literal ? 0 : rounded(shape.prefix);
	e->suffix = shape.literal ? 0 : rounded(shape.suffix);
	e->by_shape.key = e->pattern;
	e->by_shape.hash = hash_of(e);
}

static struct sc_router_shape *shape_of(const struct sc_router *r, const struct sc_router_entry *e)
{
	for (size_t i = 0; i < r->shape_count; i++) {
		if (r->shapes[i].prefix == e->prefix && r->shapes[i].suffix == e->suffix)
			return &r->shapes[i];
	}
	return NULL;
}

static int count_shape(struct sc_router *r, const struct sc_router_entry *e)
{
	struct sc_router_shape *shape = shape_of(r, e);

	if (shape) {
		shape->count++;
		return 0;
	}
	if (r->shape_count == r->shape_cap) {
		size_t cap = r->shape_cap ? r->shape_cap * 2 : 2;
		struct sc_router_shape *grown = sc_realloc(r->shapes, cap * sizeof(*grown));

		if (!grown)
			return SC_E_NOMEM;
		r->shapes = grown;
		r->shape_cap = cap;
	}
	r->shapes[r->shape_count++] = (struct sc_router_shape){ e->prefix, e->suffix, 1 };
	return 0;
}

int sc_router_add(struct sc_router *r, struct sc_router_entry *e)
{
	classify(e);
	if (!e->literal && count_shape(r, e) < 0)
		return SC_E_NOMEM;
	sc_table_add(&r->table, &e->by_shape);
	return 0;
}

void sc_router_remove(struct sc_router *r, struct sc_router_entry *e)
{
	struct sc_router_shape *shape = e->literal ? NULL : shape_of(r, e);

	sc_table_remove(&r->table, &e->by_shape);
	if (shape && --shape->count == 0)
		*shape = r->shapes[--r->shape_count];
	if (r->table.count == 0)
		sc_router_done(r);
}

void sc_router_done(struct sc_router *r)
{
	sc_table_done(&r->table);
	free(r->shapes);
	memset(r, 0, sizeof(*r));
}

static struct sc_router_entry *entry_of(struct sc_table_entry *e)
{
	return (struct sc_router_entry *)((char *)e - offsetof(struct sc_router_entry, by_shape));
}

static bool same(struct sc_span a, struct sc_span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

struct sc_router_entry *sc_router_find(const struct sc_router *r, struct sc_span pattern)
{
	struct sc_router_entry wanted = { .pattern = pattern };
	struct sc_table_entry *e;

	if (pattern.len > TEXT_MAX)
		return NULL;
	classify(&wanted);
	e = sc_table_chain(&r->table, wanted.by_shape.hash);
	while (e && (e->hash != wanted.by_shape.hash || !same(e->key, pattern)))
		e = e->next;
	return e ? entry_of(e) : NULL;
}

static bool matches(const struct sc_router_entry *e, struct sc_span text)
{
	return e->literal ? same(e->pattern, text) : sc_pattern_match(e->pattern, text);
}

typedef void each_fn(void *arg, struct sc_router_entry *entry);

static void match_hash(const struct sc_router *r, uint64_t hash, struct sc_span text, each_fn *each,
		       void *arg)
{
	struct sc_table_entry *e = sc_table_chain(&r->table, hash);

	for (; e; e = e->next) {
		if (e->hash == hash && matches(entry_of(e), text))
			each(arg, entry_of(e));
	}
}

/* Two pairs of lengths whose parts happen to hash alike are tried by both: an entry is for its own
 * pair only. */
static void match_shape(const struct sc_router *r, const struct sc_router_shape *shape,
			struct sc_span text, each_fn *each, void *arg)
{
	uint64_t hash = ~shape_hash(sc_span(text.data, shape->prefix),
				    sc_span(text.data + text.len - shape->suffix, shape->suffix));
	struct sc_table_entry *e = sc_table_chain(&r->table, hash);

	for (; e; e = e->next) {
		struct sc_router_entry *entry = entry_of(e);

		if (e->hash == hash && !entry->literal && entry->prefix == shape->prefix &&
		    entry->suffix == shape->suffix && sc_pattern_match(entry->pattern, text))
			each(arg, entry);
	}
}

void sc_router_match(const struct sc_router *r, struct sc_span text, each_fn *each, void *arg)
{
	if (text.len > TEXT_MAX)
		return;
	if (r->table.count <= FEW && !r->table.buckets) {
		for (struct sc_table_entry *e = r->table.one; e; e = e->next) {
			if (matches(entry_of(e), text))
				each(arg, entry_of(e));
		}
		return;
	}
	match_hash(r, sc_table_hash(text), text, each, arg);
	for (size_t i = 0; i < r->shape_count; i++) {
		const struct sc_router_shape *shape = &r->shapes[i];

		if ((size_t)shape->prefix + shape->suffix <= text.len)
			match_shape(r, shape, text, each, arg);
	}
}
