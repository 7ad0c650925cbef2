/* source.c: named sources and producers: what a commit moved besides its rows. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "log/log_internal.h"

int sc_source_apply(struct sc_kv_txn *txn, const struct sc_ext *ext, struct sc_err *err)
{
	if (ext->kind == SC_EXT_SOURCE && ext->name.len)
		return sc_kv_put(txn, SC_T_SOURCES, ext->name,
				 sc_span((const char *)&ext->source_offset,
					 sizeof(ext->source_offset)),
				 err);
	if (ext->kind == SC_EXT_PRODUCER && ext->name.len)
		return sc_kv_put(txn, SC_T_PRODUCERS, ext->name,
				 sc_span((const char *)&ext->producer, sizeof(ext->producer)), err);
	return 0;
}

/* Call EACH for every entry of a table; its values are SIZE bytes. */
static int each_entry(struct sc_kv_txn *txn, int table, size_t size,
		      int (*each)(void *arg, struct sc_span name, const void *value,
				  struct sc_err *err),
		      void *arg, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_cursor_open(txn, table, &cursor, err);

	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	while (rc == 1) {
		if (value.len == size) {
			rc = each(arg, key, value.data, err);
			if (rc < 0)
				break;
		}
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	}
	sc_kv_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

static int put_source(void *arg, struct sc_span name, const void *value, struct sc_err *err)
{
	uint64_t offset;

	memcpy(&offset, value, sizeof(offset));
	return sc_ext_put_source(arg, name, offset) < 0
		       ? sc_err_nomem(err, "cannot note the sources")
		       : 0;
}

static int put_producer(void *arg, struct sc_span name, const void *value, struct sc_err *err)
{
	struct sc_producer producer;

	memcpy(&producer, value, sizeof(producer));
	return sc_ext_put_producer(arg, name, &producer) < 0
		       ? sc_err_nomem(err, "cannot note the producers")
		       : 0;
}

struct ages {
	uint64_t *items;
	size_t count;
};

static int note_age(void *arg, struct sc_span name, const void *value, struct sc_err *err)
{
	struct ages *ages = arg;
	struct sc_producer producer;

	(void)name;
	(void)err;
	memcpy(&producer, value, sizeof(producer));
	ages->items[ages->count++] = producer.commit;
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

/* Forget the producers that were idle the longest, down to the limit. */
static int forget_producers(struct sc_kv_txn *txn, uint64_t count, struct sc_err *err)
{
	struct ages ages = { sc_malloc(count * sizeof(uint64_t)), 0 };
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	uint64_t oldest = 0;
	int rc;

	if (!ages.items)
		return sc_err_nomem(err, "cannot note the producers");
	rc = each_entry(txn, SC_T_PRODUCERS, sizeof(struct sc_producer), note_age, &ages, err);
	if (rc == 0 && ages.count > SC_PRODUCERS_MAX) {
		qsort(ages.items, ages.count, sizeof(*ages.items), newest_first);
		oldest = ages.items[SC_PRODUCERS_MAX - 1];
	}
	free(ages.items);
	if (rc < 0 || oldest == 0)
		return rc;
	rc = sc_kv_cursor_open(txn, SC_T_PRODUCERS, &cursor, err);
	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	while (rc == 1) {
		struct sc_producer producer;
		char name[SC_NAME_MAX];
		struct sc_span copy = sc_span(name,
					      key.len < sizeof(name) ? key.len : sizeof(name));

		memcpy(&producer, value.data, sizeof(producer));
		memcpy(name, key.data, copy.len); /* a delete may move the page under the key */
		if (producer.commit < oldest) {
			rc = sc_kv_del(txn, SC_T_PRODUCERS, copy, err);
			if (rc >= 0)
				rc = sc_kv_cursor_seek(cursor, copy, &key, &value, err);
		} else {
			rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
		}
	}
	sc_kv_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

int sc_source_checkpoint(struct sc_kv_txn *txn, struct sc_bytes *out, struct sc_err *err)
{
	uint64_t count = sc_kv_count(txn, SC_T_PRODUCERS);
	int rc = count > SC_PRODUCERS_MAX ? forget_producers(txn, count, err) : 0;

	if (rc == 0)
		rc = each_entry(txn, SC_T_SOURCES, sizeof(uint64_t), put_source, out, err);
	if (rc == 0)
		rc = each_entry(txn, SC_T_PRODUCERS, sizeof(struct sc_producer), put_producer, out,
				err);
	return rc;
}

/*
 * Without an index: the anchor of the journal in use holds all sources, its blocks what they
 * moved since.
 */
struct facts {
	struct {
		uint64_t offset;
		size_t len;
		char name[SC_NAME_MAX];
	} * items;
	size_t count, cap;
};

static int learn(struct facts *facts, const struct sc_ext *ext, struct sc_err *err)
{
	size_t i = 0;

	while (i < facts->count && !(facts->items[i].len == ext->name.len &&
				     !memcmp(facts->items[i].name, ext->name.data, ext->name.len)))
		i++;
	if (i == facts->cap) {
		size_t cap = facts->cap ? facts->cap * 2 : 16;
		void *more = sc_realloc(facts->items, cap * sizeof(*facts->items));

		if (!more)
			return sc_err_nomem(err, "cannot list the sources");
		facts->items = more;
		facts->cap = cap;
	}
	if (i == facts->count)
		facts->count++;
	facts->items[i].offset = ext->source_offset;
	facts->items[i].len = ext->name.len;
	memcpy(facts->items[i].name, ext->name.data, ext->name.len);
	return 0;
}

static int learn_all(struct sc_log *log, struct facts *facts, struct sc_err *err)
{
	struct sc_state state;
	struct sc_block block;
	struct sc_walk walk;
	const char *data;
	int fd = -1, rc = sc_index_now(log, &state, err);

	if (rc == 0)
		rc = sc_journal_open(log, state.journal, false, &fd, err);
	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, log, state.journal, fd, 0, state.end, 256u << 10);
	while ((rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err)) == 1) {
		struct sc_span exts = sc_span(data + SC_BLOCK_HEAD, block.ext_len);
		struct sc_ext ext;

		while (rc == 1 && sc_ext_next(&exts, &ext))
			if (ext.kind == SC_EXT_SOURCE && ext.name.len &&
			    learn(facts, &ext, err) < 0)
				rc = SC_E_NOMEM;
		if (rc < 0)
			break;
	}
	if (rc == SC_E_DATA)
		rc = sc_walk_damage(log, state.journal, walk.pos, 0, err);
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

static int each_from_files(struct sc_log *log,
			   int (*each)(void *arg, struct sc_span name, uint64_t offset), void *arg,
			   struct sc_err *err)
{
	struct facts facts = { NULL, 0, 0 };
	int rc = learn_all(log, &facts, err);

	for (size_t i = 0; rc == 0 && i < facts.count; i++)
		rc = each(arg, sc_span(facts.items[i].name, facts.items[i].len),
			  facts.items[i].offset);
	free(facts.items);
	return rc;
}

struct each_source {
	int (*each)(void *arg, struct sc_span name, uint64_t offset);
	void *arg;
};

static int call_each(void *arg, struct sc_span name, const void *value, struct sc_err *err)
{
	const struct each_source *e = arg;
	uint64_t offset;

	(void)err;
	memcpy(&offset, value, sizeof(offset));
	return e->each(e->arg, name, offset);
}

int sc_log_sources(struct sc_log *log, int (*each)(void *arg, struct sc_span name, uint64_t offset),
		   void *arg, struct sc_err *err)
{
	struct each_source e = { each, arg };
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	int rc = sc_index_now(log, &state, err); /* opens a new index if ours was replaced */

	if (rc < 0)
		return rc;
	if (!log->kv)
		return each_from_files(log, each, arg, err);
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = each_entry(txn, SC_T_SOURCES, sizeof(uint64_t), call_each, &e, err);
	sc_kv_abort(&txn);
	return rc;
}

struct wanted {
	struct sc_span name;
	uint64_t offset;
	bool found;
};

static int match(void *arg, struct sc_span name, uint64_t offset)
{
	struct wanted *w = arg;

	if (name.len == w->name.len && !memcmp(name.data, w->name.data, name.len)) {
		w->offset = offset;
		w->found = true;
	}
	return 0;
}

int sc_log_source(struct sc_log *log, struct sc_span name, uint64_t *ret_offset, struct sc_err *err)
{
	struct wanted w = { name, 0, false };
	int rc = sc_log_sources(log, match, &w, err);

	if (rc < 0)
		return rc;
	if (w.found)
		*ret_offset = w.offset;
	return w.found;
}

int sc_log_producer(struct sc_log *log, struct sc_span name, struct sc_log_produced *ret_produced,
		    struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_producer producer;
	struct sc_state state;
	struct sc_span value;
	int rc = sc_index_now(log, &state, err); /* opens a new index if ours was replaced */

	if (rc < 0)
		return rc;
	if (!log->kv) {
		sc_err_set(err, SC_E_BUSY, "cannot look up a producer in",
			   "its index cannot be opened");
		return sc_log_err(log, err);
	}
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = sc_kv_get(txn, SC_T_PRODUCERS, name, &value, err);
	if (rc == 1 && value.len == sizeof(producer)) {
		memcpy(&producer, value.data, sizeof(producer));
		*ret_produced = (struct sc_log_produced){ producer.epoch, producer.seq_last };
	} else if (rc == 1) {
		rc = 0;
	}
	sc_kv_abort(&txn);
	return rc;
}
