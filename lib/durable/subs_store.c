/* subs_store.c: rows of subscriptions and links. */
#include <string.h>

#include "durable/subs_internal.h"

#define ROW_MAX (1u << 20)
#define LITERAL_MAX 400u

void sc_ds_sub_row_init(struct sc_ds_sub_row *row)
{
	*row = (struct sc_ds_sub_row){ .lease_us = INT64_MAX, .attempt_us = INT64_MAX };
	sc_bytes_init(&row->text, ROW_MAX);
}

void sc_ds_sub_row_done(struct sc_ds_sub_row *row)
{
	sc_bytes_done(&row->text);
}

struct sc_span sc_ds_sub_path(struct sc_span prefix, struct sc_span name, struct sc_ds_key *room)
{
	size_t len = prefix.len + name.len;

	if (len > sizeof(room->data))
		return sc_span("", 0); /* there is no such path */
	memcpy(room->data, prefix.data, prefix.len);
	memcpy(room->data + prefix.len, name.data, name.len);
	return sc_span(room->data, len);
}

int sc_ds_sub_load(struct sc_kv_txn *txn, uint64_t number, struct sc_ds_sub_row *row,
		   struct sc_err *err)
{
	struct sc_ds_key key;
	struct sc_span record;
	int rc;

	sc_ds_key1(&key, number);
	rc = sc_kv_get(txn, SC_DS_SUBS, sc_ds_key_span(&key), &record, err);
	if (rc <= 0)
		return rc;
	/* what the store shows may move with the next write */
	sc_bytes_clear(&row->text);
	if (sc_bytes_put(&row->text, record.data, record.len) < 0)
		return sc_err_nomem(err, "cannot load a subscription");
	rc = sc_ds_sub_decode(sc_span(row->text.data, row->text.len), &row->sub, err);
	row->lease_us = row->sub.lease_us;
	row->attempt_us = row->sub.attempt_us;
	return rc < 0 ? rc : 1;
}

int sc_ds_sub_find(struct sc_kv_txn *txn, struct sc_span id, struct sc_ds_sub_row *row,
		   struct sc_err *err)
{
	struct sc_span number;
	int rc = sc_kv_get(txn, SC_DS_SUB_IDS, id, &number, err);

	if (rc <= 0)
		return rc;
	if (number.len != 8)
		return sc_ds_damaged(err, "the number of a subscription", 0);
	return sc_ds_sub_load(txn, sc_ds_get_be64(number.data), row, err);
}

static void due_key(struct sc_ds_key *key, char kind, int64_t at_us, uint64_t number)
{
	key->data[0] = kind;
	sc_ds_put_be64(key->data + 1, sc_ds_time_key(at_us));
	sc_ds_put_be64(key->data + 9, number);
	key->len = 17;
}

static int move_due(struct sc_ds_work *work, char kind, uint64_t number, int64_t *was_us,
		    int64_t at_us, struct sc_err *err)
{
	struct sc_ds_key key;
	int rc = 0;

	if (*was_us == at_us)
		return 0;
	if (*was_us != INT64_MAX) {
		due_key(&key, kind, *was_us, number);
		rc = sc_kv_del(work->txn, SC_DS_DUE, sc_ds_key_span(&key), err);
	}
	*was_us = at_us;
	if (rc < 0 || at_us == INT64_MAX)
		return rc < 0 ? rc : 0;
	if (kind == 'A')
		work->hooks_due = true;
	else if (at_us < work->ds->lease_us)
		work->ds->lease_us = at_us;
	due_key(&key, kind, at_us, number);
	return sc_kv_put(work->txn, SC_DS_DUE, sc_ds_key_span(&key), sc_span("", 0), err);
}

int sc_ds_sub_store(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err)
{
	struct sc_bytes *scratch = &work->ds->scratch;
	struct sc_ds_sub *sub = &row->sub;
	struct sc_ds_key key;
	int rc;

	sc_bytes_clear(scratch);
	if (sc_ds_sub_encode(sub, scratch) < 0)
		return sc_err_nomem(err, "cannot store a subscription");
	sc_ds_key1(&key, sub->number);
	rc = sc_kv_put(work->txn, SC_DS_SUBS, sc_ds_key_span(&key),
		       sc_span(scratch->data, scratch->len), err);
	if (rc == 0)
		rc = move_due(work, 'L', sub->number, &row->lease_us, sub->lease_us, err);
	if (rc == 0)
		rc = move_due(work, 'A', sub->number, &row->attempt_us, sub->attempt_us, err);
	return rc;
}

/* -- patterns -- */

/* prefix and literal, 0, number. The literal has no slash at its end. */
static void pattern_key(struct sc_ds_key *key, struct sc_span literal, uint64_t number)
{
	memcpy(key->data, literal.data, literal.len);
	key->data[literal.len] = 0;
	sc_ds_put_be64(key->data + literal.len + 1, number);
	key->len = literal.len + 9;
}

static struct sc_span literal_of(const struct sc_ds_sub *sub, struct sc_ds_key *room)
{
	size_t max = LITERAL_MAX > sub->prefix.len ? LITERAL_MAX - sub->prefix.len : 0;
	struct sc_span name = sc_ds_glob_literal(sub->pattern, max);
	struct sc_span path = sc_ds_sub_path(sub->prefix, name, room);

	if (path.len && path.data[path.len - 1] == '/' && !name.len)
		path.len--;
	/* a prefix that is longer than all that is looked for: the pattern is found by nothing */
	return path.len > LITERAL_MAX ? sc_span(path.data, 0) : path;
}

static int put_pattern(struct sc_ds_work *work, const struct sc_ds_sub *sub, bool there,
		       struct sc_err *err)
{
	struct sc_bytes *scratch = &work->ds->scratch;
	struct sc_ds_key key, room;
	char len[8];
	int rc;

	if (!sub->pattern.data)
		return 0;
	pattern_key(&key, literal_of(sub, &room), sub->number);
	if (!there) {
		rc = sc_kv_del(work->txn, SC_DS_PATTERNS, sc_ds_key_span(&key), err);
		return rc < 0 ? rc : 0;
	}
	sc_bytes_clear(scratch);
	sc_ds_put_be64(len, sub->prefix.len);
	if (sc_bytes_put(scratch, len, 8) < 0 ||
	    sc_bytes_put(scratch, sub->prefix.data, sub->prefix.len) < 0 ||
	    sc_bytes_put(scratch, sub->pattern.data, sub->pattern.len) < 0)
		return sc_err_nomem(err, "cannot store a subscription");
	return sc_kv_put(work->txn, SC_DS_PATTERNS, sc_ds_key_span(&key),
			 sc_span(scratch->data, scratch->len), err);
}

int sc_ds_sub_insert(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err)
{
	char number[8];
	int rc = sc_ds_sub_store(work, row, err);

	sc_ds_put_be64(number, row->sub.number);
	if (rc == 0)
		rc = sc_kv_put(work->txn, SC_DS_SUB_IDS, row->sub.id, sc_span(number, 8), err);
	if (rc == 0)
		rc = put_pattern(work, &row->sub, true, err);
	work->has_subs = true;
	return rc;
}

int sc_ds_sub_erase(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err)
{
	struct sc_ds_sub *sub = &row->sub;
	struct sc_ds_key key;
	int rc = put_pattern(work, sub, false, err);

	if (rc == 0)
		rc = move_due(work, 'L', sub->number, &row->lease_us, INT64_MAX, err);
	if (rc == 0)
		rc = move_due(work, 'A', sub->number, &row->attempt_us, INT64_MAX, err);
	if (rc == 0)
		rc = sc_kv_del(work->txn, SC_DS_SUB_IDS, sub->id, err);
	sc_ds_key1(&key, sub->number);
	if (rc >= 0)
		rc = sc_kv_del(work->txn, SC_DS_SUBS, sc_ds_key_span(&key), err);
	return rc < 0 ? rc : sc_ds_mark(work, sub->number, 'S', err);
}

/* Is VALUE, a row of patterns, for PATH? */
static bool pattern_fits(struct sc_span value, struct sc_span path)
{
	uint64_t len = value.len >= 8 ? sc_ds_get_be64(value.data) : UINT64_MAX;

	if (len > value.len - 8 || path.len <= len || memcmp(value.data + 8, path.data, len))
		return false;
	return sc_ds_glob_match(sc_span(value.data + 8 + len, value.len - 8 - len),
				sc_span(path.data + len, path.len - len));
}

static int add_number(struct sc_ds_work *work, const char *number, struct sc_err *err)
{
	if (sc_bytes_put(&work->ds->numbers, number, 8) < 0)
		return sc_err_nomem(err, "cannot tell subscriptions");
	return 0;
}

/* Numbers behind FRONT and a 0, of rows that FIT, in TABLE. */
static int collect(struct sc_ds_work *work, int table, struct sc_span front, struct sc_span path,
		   struct sc_err *err)
{
	struct sc_ds_key from, key;
	struct sc_span value;
	int rc;

	memcpy(from.data, front.data, front.len);
	from.data[front.len] = 0;
	from.len = front.len + 1;
	for (;;) {
		rc = sc_ds_row_from(work->txn, table, sc_ds_key_span(&from), &key, &value, err);
		if (rc <= 0 || key.len <= front.len ||
		    memcmp(key.data, from.data, front.len + 1) != 0)
			return rc < 0 ? rc : 0;
		/* a longer one is of a path with a 0 in it */
		if (key.len == front.len + 9 &&
		    (table != SC_DS_PATTERNS || pattern_fits(value, path)))
			rc = add_number(work, key.data + front.len + 1, err);
		if (rc < 0 || key.len >= SC_DS_KEY_MAX)
			return rc < 0 ? rc : 0;
		from = key;
		from.data[from.len++] = 0;
	}
}

int sc_ds_pattern_numbers(struct sc_ds_work *work, struct sc_span path, struct sc_err *err)
{
	int rc = 0;

	sc_bytes_clear(&work->ds->numbers);
	if (!sc_kv_count(work->txn, SC_DS_PATTERNS))
		return 0;
	for (size_t end = 0; rc == 0 && end <= path.len && end <= LITERAL_MAX; end++)
		if (end == path.len || path.data[end] == '/')
			rc = collect(work, SC_DS_PATTERNS, sc_span(path.data, end), path, err);
	return rc;
}

/* -- links -- */

static int link_key(struct sc_ds_key *key, uint64_t number, struct sc_span path, struct sc_err *err)
{
	return sc_ds_key_producer(key, number, sc_span(path.data + 1, path.len - 1), err);
}

/* What stands in front of the numbers: as in a link's key, without its number. */
static int linked_front(struct sc_ds_key *key, struct sc_span path, struct sc_err *err)
{
	int rc = link_key(key, 0, path, err);

	if (rc == 0) {
		key->len -= 8;
		memmove(key->data, key->data + 8, key->len);
	}
	return rc;
}

static int linked_key(struct sc_ds_key *key, struct sc_span path, uint64_t number,
		      struct sc_err *err)
{
	int rc = linked_front(key, path, err);

	if (rc == 0) {
		key->data[key->len] = 0;
		sc_ds_put_be64(key->data + key->len + 1, number);
		key->len += 9;
	}
	return rc;
}

int sc_ds_linked_numbers(struct sc_ds_work *work, struct sc_span path, struct sc_err *err)
{
	struct sc_ds_key front;
	int rc;

	sc_bytes_clear(&work->ds->numbers);
	if (!sc_kv_count(work->txn, SC_DS_LINKED))
		return 0;
	rc = linked_front(&front, path, err);
	return rc < 0 ? rc : collect(work, SC_DS_LINKED, sc_ds_key_span(&front), path, err);
}

int sc_ds_link_load(struct sc_kv_txn *txn, uint64_t number, struct sc_span path,
		    struct sc_ds_link *ret_link, struct sc_err *err)
{
	struct sc_span record;
	struct sc_ds_key key;
	int rc = path.len > 1 ? link_key(&key, number, path, err) : 0;

	if (rc < 0 || path.len <= 1)
		return rc;
	rc = sc_kv_get(txn, SC_DS_LINKS, sc_ds_key_span(&key), &record, err);
	if (rc <= 0)
		return rc;
	rc = sc_ds_link_decode(record, ret_link, err);
	ret_link->path = path;
	return rc < 0 ? rc : 1;
}

int sc_ds_link_store(struct sc_ds_work *work, uint64_t number, const struct sc_ds_link *link,
		     struct sc_err *err)
{
	struct sc_bytes *scratch = &work->ds->scratch;
	struct sc_ds_key key;
	int rc = link_key(&key, number, link->path, err);

	sc_bytes_clear(scratch);
	if (rc == 0 && sc_ds_link_encode(link, scratch) < 0)
		rc = sc_err_nomem(err, "cannot store a link");
	if (rc == 0)
		rc = sc_kv_put(work->txn, SC_DS_LINKS, sc_ds_key_span(&key),
			       sc_span(scratch->data, scratch->len), err);
	if (rc == 0)
		rc = linked_key(&key, link->path, number, err);
	return rc < 0 ? rc
		      : sc_kv_put(work->txn, SC_DS_LINKED, sc_ds_key_span(&key), sc_span("", 0),
				  err);
}

int sc_ds_pending_mark(struct sc_ds_work *work, uint64_t number, struct sc_span path, bool pending,
		       struct sc_err *err)
{
	struct sc_span value;
	struct sc_ds_key key;
	int rc = link_key(&key, number, path, err);

	if (rc == 0)
		rc = sc_kv_get(work->txn, SC_DS_PENDING, sc_ds_key_span(&key), &value, err);
	if (rc < 0 || rc == pending)
		return rc < 0 ? rc : 0;
	if (pending)
		return sc_kv_put(work->txn, SC_DS_PENDING, sc_ds_key_span(&key), sc_span("", 0),
				 err);
	rc = sc_kv_del(work->txn, SC_DS_PENDING, sc_ds_key_span(&key), err);
	return rc < 0 ? rc : 0;
}

int sc_ds_link_delete(struct sc_ds_work *work, uint64_t number, struct sc_span path,
		      struct sc_err *err)
{
	struct sc_ds_key key;
	int rc = sc_ds_pending_mark(work, number, path, false, err);

	if (rc == 0)
		rc = link_key(&key, number, path, err);
	if (rc == 0)
		rc = sc_kv_del(work->txn, SC_DS_LINKS, sc_ds_key_span(&key), err);
	if (rc >= 0)
		rc = linked_key(&key, path, number, err);
	if (rc >= 0)
		rc = sc_kv_del(work->txn, SC_DS_LINKED, sc_ds_key_span(&key), err);
	return rc < 0 ? rc : 0;
}

int sc_ds_link_next(struct sc_kv_txn *txn, uint64_t number, bool pending, struct sc_ds_key *key,
		    struct sc_ds_link *ret_link, struct sc_err *err)
{
	struct sc_span record;
	struct sc_ds_key at;
	int rc;

	if (!key->len)
		sc_ds_key1(key, number);
	rc = sc_ds_row_from(txn, pending ? SC_DS_PENDING : SC_DS_LINKS, sc_ds_key_span(key), &at,
			    &record, err);
	if (rc <= 0 || at.len < 9 || sc_ds_get_be64(at.data) != number)
		return rc < 0 ? rc : 0;
	if (pending) {
		rc = sc_kv_get(txn, SC_DS_LINKS, sc_ds_key_span(&at), &record, err);
		if (rc == 0)
			return sc_ds_damaged(err, "of a subscription: what is pending has no link",
					     number);
	}
	if (rc == 1)
		rc = sc_ds_link_decode(record, ret_link, err);
	*key = at;
	key->data[key->len++] = 0;
	return rc < 0 ? rc : 1;
}

int sc_ds_sub_has_pending(struct sc_kv_txn *txn, uint64_t number, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 };
	struct sc_ds_link link;

	return sc_ds_link_next(txn, number, true, &key, &link, err);
}

/* 1 = not at the end. */
int sc_ds_subs_delete_links(struct sc_ds_work *work, uint64_t number, unsigned *max,
			    struct sc_err *err)
{
	struct sc_ds_key room, key;
	struct sc_ds_link link;
	int rc = 1;

	for (; rc == 1 && *max > 0; --*max) {
		key.len = 0;
		rc = sc_ds_link_next(work->txn, number, false, &key, &link, err);
		if (rc == 1 && link.path.len > sizeof(room.data))
			rc = sc_ds_damaged(err, "of a subscription: a link is too long", number);
		if (rc != 1)
			return rc;
		memcpy(room.data, link.path.data, link.path.len);
		rc = sc_ds_link_delete(work, number, sc_span(room.data, link.path.len), err);
		rc = rc < 0 ? rc : 1;
	}
	return rc;
}

int sc_ds_tail_of(struct sc_kv_txn *txn, struct sc_ds_work *work, struct sc_span path,
		  uint64_t *ret_tail, struct sc_err *err)
{
	struct sc_ds_entry *entry = work ? sc_ds_work_known(work, path) : NULL;
	struct sc_ds_stream stream;
	int rc;

	*ret_tail = 0;
	if (entry) {
		if (entry->exists && !entry->stream.gone)
			*ret_tail = entry->stream.tail;
		return 0;
	}
	rc = sc_ds_load_path(txn, path, &stream, err);
	if (rc == 1 && !stream.gone)
		*ret_tail = stream.tail;
	return rc < 0 ? rc : 0;
}
