/* cursor.c: ordered walks and look-ups at or around a key. */
#include <lmdb.h>
#include <stdlib.h>

#include "base/file.h"
#include "kv/kv_internal.h"

struct sc_kv_cursor {
	MDB_cursor *cursor;
	struct sc_kv *kv;
	MDB_txn *txn;
	MDB_dbi dbi;
};

int sc_kv_cursor_open(struct sc_kv_txn *txn, int table, struct sc_kv_cursor **ret_cursor,
		      struct sc_err *err)
{
	struct sc_kv_cursor *cursor = sc_calloc(1, sizeof(*cursor));
	int rc;

	if (!cursor)
		return sc_err_nomem(err, "cannot read the index");
	cursor->kv = txn->kv;
	cursor->txn = txn->txn;
	cursor->dbi = txn->kv->dbis[table];
	rc = mdb_cursor_open(txn->txn, cursor->dbi, &cursor->cursor);
	if (rc) {
		free(cursor);
		return sc_kv_fail(txn->kv, rc, "cannot read", err);
	}
	*ret_cursor = cursor;
	return 0;
}

void sc_kv_cursor_close(struct sc_kv_cursor *cursor)
{
	if (!cursor)
		return;
	mdb_cursor_close(cursor->cursor);
	free(cursor);
}

static int get(struct sc_kv_cursor *cursor, MDB_cursor_op op, MDB_val *key, struct sc_span *ret_key,
	       struct sc_span *ret_value, struct sc_err *err)
{
	MDB_val value;
	int rc = mdb_cursor_get(cursor->cursor, key, &value, op);

	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return sc_kv_fail(cursor->kv, rc, "cannot read", err);
	*ret_key = sc_span(key->mv_data, key->mv_size);
	*ret_value = sc_span(value.mv_data, value.mv_size);
	return 1;
}

int sc_kv_cursor_move(struct sc_kv_cursor *cursor, enum sc_kv_move move, struct sc_span *ret_key,
		      struct sc_span *ret_value, struct sc_err *err)
{
	static const MDB_cursor_op ops[] = {
		[SC_KV_FIRST] = MDB_FIRST,
		[SC_KV_LAST] = MDB_LAST,
		[SC_KV_NEXT] = MDB_NEXT,
		[SC_KV_PREV] = MDB_PREV,
	};
	MDB_val key;

	return get(cursor, ops[move], &key, ret_key, ret_value, err);
}

int sc_kv_cursor_seek(struct sc_kv_cursor *cursor, struct sc_span key, struct sc_span *ret_key,
		      struct sc_span *ret_value, struct sc_err *err)
{
	MDB_val k = { key.len, (void *)(uintptr_t)key.data };

	return get(cursor, MDB_SET_RANGE, &k, ret_key, ret_value, err);
}

int sc_kv_cursor_floor(struct sc_kv_cursor *cursor, struct sc_span key, struct sc_span *ret_key,
		       struct sc_span *ret_value, struct sc_err *err)
{
	MDB_val want = { key.len, (void *)(uintptr_t)key.data };
	struct sc_span at, value;
	int rc = sc_kv_cursor_seek(cursor, key, &at, &value, err);

	if (rc < 0)
		return rc;
	if (rc == 1) {
		MDB_val have = { at.len, (void *)(uintptr_t)at.data };

		if (mdb_cmp(cursor->txn, cursor->dbi, &want, &have) == 0) {
			*ret_key = at;
			*ret_value = value;
			return 1;
		}
	}
	/* past the end the cursor is on no entry: the floor is the last one */
	return sc_kv_cursor_move(cursor, rc == 1 ? SC_KV_PREV : SC_KV_LAST, ret_key, ret_value,
				 err);
}
