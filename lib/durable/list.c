/* list.c: streams by the beginning of their paths, in short transactions. */
#include <string.h>

#include "durable/engine_internal.h"

#define PAGE 1000
#define PAGE_BYTES (1u << 20) /* or so much of them */
#define PAGE_MAX (64u << 20)

struct listing {
	struct sc_ds *ds;
	struct sc_span prefix;
	struct sc_ds_key at;  /* the key to go on with */
	struct sc_bytes page; /* records, each with its length in front */
};

/* One row: 1 = it belongs to the list (or is passed over), 0 = the end. */
static int row(struct listing *l, struct sc_kv_txn *txn, struct sc_span key, struct sc_span value,
	       struct sc_err *err)
{
	struct sc_span below = l->prefix.len ? sc_span(l->prefix.data + 1, l->prefix.len - 1)
					     : SC_SPAN("");
	struct sc_ds_stream stream;
	size_t start = l->page.len, len = 0;
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
	if (sc_bytes_put(&l->page, &len, sizeof(len)) < 0 ||
	    sc_ds_stream_encode(&stream, &l->page) < 0)
		return sc_err_nomem(err, "cannot list the streams");
	len = l->page.len - start - sizeof(len);
	memcpy(l->page.data + start, &len, sizeof(len));
	return 1;
}

/* A page of them into l->page: 1 = there is more. */
static int page(struct listing *l, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_read(l->ds->kv, &txn, err);

	sc_bytes_clear(&l->page);
	if (rc == 0)
		rc = sc_kv_cursor_open(txn, SC_DS_PATHS, &cursor, err);
	if (rc == 0 && l->at.len)
		rc = sc_kv_cursor_seek(cursor, sc_ds_key_span(&l->at), &key, &value, err);
	else if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	for (int left = PAGE; rc == 1 && left > 0 && l->page.len < PAGE_BYTES; left--) {
		rc = row(l, txn, key, value, err);
		if (rc == 1)
			rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	}
	if (rc == 1) {
		memcpy(l->at.data, key.data, key.len);
		l->at.len = key.len;
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	return rc;
}

/* EACH may take its time: a transaction that is open meanwhile would keep what others delete. */
static int tell(const struct listing *l, int (*each)(void *arg, const struct sc_ds_stream *stream),
		void *arg, struct sc_err *err)
{
	struct sc_ds_stream stream;
	int rc = 0;

	for (size_t at = 0, len; rc == 0 && at < l->page.len; at += len) {
		memcpy(&len, l->page.data + at, sizeof(len));
		at += sizeof(len);
		rc = sc_ds_stream_decode(sc_span(l->page.data + at, len), &stream, err);
		if (rc == 0)
			rc = each(arg, &stream);
	}
	return rc;
}

int sc_ds_list(struct sc_ds *ds, struct sc_span prefix,
	       int (*each)(void *arg, const struct sc_ds_stream *stream), void *arg,
	       struct sc_err *err)
{
	struct listing l = { .ds = ds, .prefix = prefix };
	int rc, more;

	if (prefix.len > SC_DS_PATH_MAX || (prefix.len && prefix.data[0] != '/'))
		return 0;
	if (prefix.len > 1) {
		memcpy(l.at.data, prefix.data + 1, prefix.len - 1);
		l.at.len = prefix.len - 1;
	}
	sc_bytes_init(&l.page, PAGE_MAX);
	do {
		more = page(&l, err);
		rc = tell(&l, each, arg, err);
	} while (rc == 0 && more == 1);
	if (rc == 0 && more < 0)
		rc = more;
	sc_bytes_done(&l.page);
	return rc;
}
