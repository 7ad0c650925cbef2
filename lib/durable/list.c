/* list.c: streams by the beginning of their paths, in short transactions. */
#include <string.h>

#include "durable/engine_internal.h"

#define PAGE 1000

struct listing {
	struct sc_ds *ds;
	struct sc_span prefix;
	struct sc_ds_key at; /* the key to go on with */
	int (*each)(void *arg, const struct sc_ds_stream *stream);
	void *arg;
	bool stopped;
};

/* One row: 1 = it belongs to the list (or is passed over), 0 = the end. */
static int row(struct listing *l, struct sc_kv_txn *txn, struct sc_span key, struct sc_span value,
	       struct sc_err *err)
{
	struct sc_span below = l->prefix.len ? sc_span(l->prefix.data + 1, l->prefix.len - 1)
					     : SC_SPAN("");
	struct sc_ds_stream stream;
	int rc;

	if (key.len < below.len || memcmp(key.data, below.data, below.len))
		return 0;
	if (value.len != 8)
		return sc_ds_damaged(err, "its path has no sid", 0);
	rc = sc_ds_load_sid(txn, sc_ds_get_be64(value.data), &stream, err);
	if (rc <= 0)
		return rc < 0 ? rc
			      : sc_ds_damaged(err, "its record is missing",
					      sc_ds_get_be64(value.data));
	if (stream.gone)
		return 1;
	rc = l->each(l->arg, &stream);
	l->stopped = rc != 0;
	return rc ? rc : 1;
}

/* 1 = there is more. */
static int page(struct listing *l, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int left = PAGE, rc = sc_kv_read(l->ds->kv, &txn, err);

	if (rc == 0)
		rc = sc_kv_cursor_open(txn, SC_DS_PATHS, &cursor, err);
	if (rc == 0 && l->at.len)
		rc = sc_kv_cursor_seek(cursor, sc_ds_key_span(&l->at), &key, &value, err);
	else if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	while (rc == 1 && left-- > 0) {
		rc = row(l, txn, key, value, err);
		if (rc == 1 && !l->stopped)
			rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
		if (l->stopped)
			break;
	}
	if (rc == 1 && !l->stopped) {
		memcpy(l->at.data, key.data, key.len);
		l->at.len = key.len;
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	return rc;
}

int sc_ds_list(struct sc_ds *ds, struct sc_span prefix,
	       int (*each)(void *arg, const struct sc_ds_stream *stream), void *arg,
	       struct sc_err *err)
{
	struct listing l = { .ds = ds, .prefix = prefix, .each = each, .arg = arg };
	int rc;

	if (prefix.len > SC_DS_PATH_MAX || (prefix.len && prefix.data[0] != '/'))
		return 0;
	if (prefix.len > 1) {
		memcpy(l.at.data, prefix.data + 1, prefix.len - 1);
		l.at.len = prefix.len - 1;
	}
	do
		rc = page(&l, err);
	while (rc == 1 && !l.stopped);
	return rc;
}
