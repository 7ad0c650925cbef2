/* subs.c: subscriptions from outside of the writer's thread. */
#include "durable/subs.h"

#include "durable/subs_internal.h"

#define URL_ROOM 65536
#define BODY_ROOM (16u << 20)

int sc_ds_subs_enable(struct sc_ds *ds, struct sc_err *err)
{
	return ds->keys ? 0 : sc_ds_keys_open(ds->folder, &ds->keys, err);
}

const struct sc_ds_keys *sc_ds_subs_keys(const struct sc_ds *ds)
{
	return ds->keys;
}

int sc_ds_subs_get(struct sc_ds *ds, const struct sc_ds_sub_request *request,
		   struct sc_ds_answer *answer, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_sub_row row;
	int rc = sc_kv_read(ds->kv, &txn, err);

	if (rc < 0)
		return rc;
	sc_ds_sub_row_init(&row);
	sc_ds_answer_clear(answer);
	rc = sc_ds_sub_find(txn, request->id, &row, err);
	if (rc == 0)
		sc_ds_sub_refuse(answer, SC_DS_SUB_NOT_FOUND, "there is no such subscription");
	if (rc == 1) {
		answer->status = 200;
		answer->cache = SC_DS_CACHE_NO_STORE;
		rc = sc_bytes_puts(&answer->type, "application/json") < 0
			     ? sc_err_nomem(err, "cannot answer")
			     : sc_ds_sub_view(txn, ds->keys, request->base, &row.sub, &answer->body,
					      err);
	}
	sc_ds_sub_row_done(&row);
	sc_kv_abort(&txn);
	return rc < 0 ? rc : 0;
}

void sc_ds_subs_listen(struct sc_ds *ds, void (*due)(void *arg), void *arg)
{
	pthread_mutex_lock(&ds->lock);
	ds->hooks_due = due;
	ds->hooks_arg = arg;
	pthread_mutex_unlock(&ds->lock);
}

int sc_ds_subs_due(struct sc_ds *ds, int64_t until_us,
		   int (*each)(void *arg, uint64_t number, int64_t due_us), void *arg,
		   int64_t *ret_next_us, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_read(ds->kv, &txn, err);

	*ret_next_us = INT64_MAX;
	if (rc == 0)
		rc = sc_kv_cursor_open(txn, SC_DS_DUE, &cursor, err);
	if (rc == 0)
		rc = sc_kv_cursor_seek(cursor, SC_SPAN("A"), &key, &value, err);
	while (rc == 1 && key.len == 17 && key.data[0] == 'A') {
		int64_t at_us = sc_ds_key_time(key.data + 1);

		if (at_us > until_us) {
			*ret_next_us = at_us;
			break;
		}
		if (each(arg, sc_ds_get_be64(key.data + 9), at_us) != 0)
			break;
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	return rc < 0 ? rc : 0;
}

void sc_ds_delivery_init(struct sc_ds_delivery *d)
{
	*d = (struct sc_ds_delivery){ .due_us = INT64_MAX };
	sc_bytes_init(&d->url, URL_ROOM);
	sc_bytes_init(&d->body, BODY_ROOM);
}

void sc_ds_delivery_done(struct sc_ds_delivery *d)
{
	sc_bytes_done(&d->url);
	sc_bytes_done(&d->body);
}

static int put_body(struct sc_kv_txn *txn, const struct sc_ds_keys *keys,
		    const struct sc_ds_sub *sub, int64_t now_us, struct sc_bytes *out,
		    size_t *ret_pending, struct sc_err *err)
{
	int rc = sc_bytes_puts(out, "{\"subscription_id\":");

	if (rc == 0)
		rc = sc_json_put_string(sub->id, out);
	if (rc == 0)
		rc = sc_bytes_putf(out, ",\"wake_id\":\"%s\",\"generation\":%llu,\"streams\":[",
				   sub->wake_id, (unsigned long long)sub->generation);
	if (rc == 0)
		rc = sc_ds_sub_view_streams(txn, NULL, sub, true, out, ret_pending, err);
	if (rc == 0)
		rc = sc_bytes_puts(out, "],\"callback_url\":");
	if (rc == 0)
		rc = sc_ds_sub_put_url(sub->base, sub->prefix, sub->id, "/callback", out);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\"callback_token\":\"");
	if (rc == 0)
		rc = sc_ds_token_put(keys, sub->id, sub->generation, now_us, out, err);
	return rc < 0 ? rc : sc_bytes_puts(out, "\"}");
}

static int fill(struct sc_kv_txn *txn, const struct sc_ds_keys *keys, const struct sc_ds_sub *sub,
		int64_t now_us, struct sc_ds_delivery *d, struct sc_err *err)
{
	size_t pending = 0;
	int rc = sc_bytes_put(&d->url, sub->url.data, sub->url.len);

	d->number = sub->number;
	d->generation = sub->generation;
	d->due_us = sub->attempt_us;
	d->attempts = sub->attempts;
	memcpy(d->wake_id, sub->wake_id, sizeof(d->wake_id));
	if (rc == 0)
		rc = put_body(txn, keys, sub, now_us, &d->body, &pending, err);
	if (rc < 0)
		return rc == SC_E_NOMEM ? sc_err_nomem(err, "cannot make a delivery") : rc;
	if (!pending)
		sc_bytes_clear(&d->body);
	return 1;
}

int sc_ds_subs_delivery(struct sc_ds *ds, uint64_t number, int64_t now_us, struct sc_ds_delivery *d,
			struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_sub_row row;
	int rc = sc_kv_read(ds->kv, &txn, err);

	if (rc < 0)
		return rc;
	sc_ds_sub_row_init(&row);
	sc_bytes_clear(&d->url);
	sc_bytes_clear(&d->body);
	rc = sc_ds_sub_load(txn, number, &row, err);
	if (rc == 1)
		rc = row.sub.attempt_us <= now_us ? fill(txn, ds->keys, &row.sub, now_us, d, err)
						  : 0;
	sc_ds_sub_row_done(&row);
	sc_kv_abort(&txn);
	return rc;
}
