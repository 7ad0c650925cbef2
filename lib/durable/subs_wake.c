/* subs_wake.c: subscriptions are woken, and their leases end. */
#include "durable/subs_internal.h"

#include "base/clock.h"

#define EVENT_MAX 8192

static void make_wake_id(char ret_id[SC_DS_WAKE_ID_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char random[(SC_DS_WAKE_ID - 2) / 2];

	sc_random(random, sizeof(random));
	ret_id[0] = 'w';
	ret_id[1] = '_';
	for (size_t i = 0; i < sizeof(random); i++) {
		ret_id[2 + 2 * i] = digits[random[i] >> 4];
		ret_id[3 + 2 * i] = digits[random[i] & 15];
	}
	ret_id[SC_DS_WAKE_ID] = 0;
}

/* What a webhook is told of: the tails of now. */
static int take_snapshot(struct sc_ds_work *work, const struct sc_ds_sub *sub, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 }, room;
	struct sc_ds_link link;
	int rc = 1;

	for (unsigned i = 0; rc == 1 && i < SC_DS_TOLD_MAX; i++) {
		rc = sc_ds_link_next(work->txn, sub->number, true, &key, &link, err);
		if (rc != 1)
			break;
		link.path = sc_ds_sub_path(sc_span("", 0), link.path, &room);
		link.told_generation = sub->generation;
		rc = sc_ds_tail_of(work->txn, work, link.path, &link.told, err);
		if (rc == 0)
			rc = sc_ds_link_store(work, sub->number, &link, err);
		rc = rc < 0 ? rc : 1;
	}
	return rc < 0 ? rc : 0;
}

static int put_event(const struct sc_ds_sub *sub, struct sc_span name, int64_t now_us,
		     struct sc_bytes *out)
{
	int rc = sc_bytes_puts(out, "{\"type\":\"wake\",\"subscription_id\":");

	if (rc == 0)
		rc = sc_json_put_string(sub->id, out);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\"stream\":");
	if (rc == 0)
		rc = sc_json_put_string(name, out);
	return rc < 0 ? rc
		      : sc_bytes_putf(out, ",\"generation\":%llu,\"ts\":%lld}",
				      (unsigned long long)sub->generation,
				      (long long)(now_us / 1000));
}

static void say_unheard(struct sc_ds_work *work, const struct sc_ds_sub *sub, const char *why,
			const char *next)
{
	struct sc_err err;
	char id[SC_DS_SUB_ID_MAX + 1];

	memcpy(id, sub->id.data, sub->id.len);
	id[sub->id.len] = 0;
	work->wakes_unheard++;
	sc_err_set(&err, SC_E_NOLOG, "cannot tell workers of a wake of", "its wake stream %s", why);
	sc_err_on(&err, "subscription", id);
	sc_err_next(&err, "%s; a worker may claim the wake all the same", next);
	sc_ds_trouble(work->ds, &err);
}

static int append_event(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_span event,
			int64_t now_us, struct sc_err *err)
{
	struct sc_ds_stream *stream = &entry->stream;
	struct sc_ds_messages messages;
	int rc;

	if (sc_ds_messages_split(event, sc_ds_type_is_json(stream->type), &messages) !=
	    SC_DS_SPLIT_OK)
		return sc_err_set(err, SC_E_INTERNAL, "cannot tell workers of a wake",
				  "the event is no message");
	rc = sc_ds_work_append(work, entry, stream->tail, &messages, err);
	stream->tail += messages.size;
	if (stream->accessed_us < now_us)
		stream->accessed_us = now_us;
	entry->dirty = true;
	return rc < 0 ? rc : sc_ds_work_tell(work, SC_DS_CHANGED, entry, err);
}

static int tell_workers(struct sc_ds_work *work, const struct sc_ds_sub *sub, struct sc_span name,
			int64_t now_us, struct sc_err *err)
{
	struct sc_ds_key room;
	struct sc_span path = sc_ds_sub_path(sub->prefix, sub->wake_stream, &room);
	struct sc_ds_entry *entry;
	struct sc_bytes event;
	int rc;

	if (!sc_ds_path_valid(path)) {
		say_unheard(work, sub, "has a path that is too long",
			    "make the subscription anew, with a shorter one");
		return 0;
	}
	rc = sc_ds_work_path(work, path, &entry, err);
	if (rc < 0)
		return rc;
	if (!entry->exists || entry->stream.gone || sc_ds_stream_expired(&entry->stream, now_us)) {
		say_unheard(work, sub, "is not there", "make the stream");
		return 0;
	}
	if (entry->stream.closed) {
		say_unheard(work, sub, "is closed", "delete the stream, and make it anew");
		return 0;
	}
	sc_bytes_init(&event, EVENT_MAX);
	rc = put_event(sub, name, now_us, &event) < 0
		     ? sc_err_nomem(err, "cannot tell workers of a wake")
		     : append_event(work, entry, sc_span(event.data, event.len), now_us, err);
	sc_bytes_done(&event);
	return rc;
}

int sc_ds_sub_try_wake(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span trigger,
		       int64_t now_us, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 }, room;
	struct sc_ds_sub *sub = &row->sub;
	char wake_id[SC_DS_WAKE_ID_TEXT];
	struct sc_ds_link link;
	int rc;

	if (sub->phase != SC_DS_SUB_IDLE)
		return 0;
	rc = sc_ds_link_next(work->txn, sub->number, true, &key, &link, err);
	if (rc <= 0)
		return rc;
	make_wake_id(wake_id);
	sc_ds_sub_wake(sub, wake_id, now_us);
	work->wakes++;
	if (sub->type == SC_DS_WEBHOOK) {
		rc = take_snapshot(work, sub, err);
		return rc < 0 ? rc : 1;
	}
	if (!trigger.len)
		trigger = sc_ds_sub_path(sc_span("", 0), link.path, &room);
	rc = tell_workers(work, sub,
			  sc_span(trigger.data + sub->prefix.len, trigger.len - sub->prefix.len),
			  now_us, err);
	return rc < 0 ? rc : 1;
}

int sc_ds_sub_ack_told(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 }, room;
	const struct sc_ds_sub *sub = &row->sub;
	struct sc_ds_link link;
	uint64_t tail;
	int rc = 1;

	while (rc == 1) {
		rc = sc_ds_link_next(work->txn, sub->number, true, &key, &link, err);
		if (rc != 1)
			break;
		if (link.told_generation != sub->generation)
			continue;
		link.path = sc_ds_sub_path(sc_span("", 0), link.path, &room);
		sc_ds_link_ack(&link, link.told);
		rc = sc_ds_tail_of(work->txn, work, link.path, &tail, err);
		if (rc == 0)
			rc = sc_ds_link_store(work, sub->number, &link, err);
		if (rc == 0)
			rc = sc_ds_pending_mark(work, sub->number, link.path,
						sc_ds_link_pending(&link, tail), err);
		rc = rc < 0 ? rc : 1;
	}
	return rc < 0 ? rc : 0;
}

/* 1 = *ret_key is that of the first lease, and it is in ds->lease_us when it ends. */
static int first_lease(struct sc_ds *ds, struct sc_kv_txn *txn, struct sc_ds_key *ret_key,
		       struct sc_err *err)
{
	struct sc_span value;
	int rc = sc_ds_row_to_do(ds, txn, SC_DS_DUE, SC_SPAN("L"), ret_key, &value, err);

	if (rc < 0)
		return rc;
	rc = rc == 1 && ret_key->len == 17 && ret_key->data[0] == 'L';
	ds->lease_us = rc ? sc_ds_key_time(ret_key->data + 1) : INT64_MAX;
	return rc;
}

int sc_ds_lease_first(struct sc_ds *ds, struct sc_kv_txn *txn, struct sc_err *err)
{
	struct sc_ds_key key;
	int rc = first_lease(ds, txn, &key, err);

	return rc < 0 ? rc : 0;
}

/* One row that is due: a lease is over, or there is none (any more). */
static int lapse_one(struct sc_ds_work *work, struct sc_ds_sub_row *row,
		     const struct sc_ds_key *key, int64_t now_us, struct sc_err *err)
{
	int rc = sc_ds_sub_load(work->txn, sc_ds_get_be64(key->data + 9), row, err);

	if (rc < 0)
		return rc;
	if (rc == 0 || row->lease_us != sc_ds_key_time(key->data + 1) ||
	    !sc_ds_sub_lapse(&row->sub, now_us)) {
		rc = sc_kv_del(work->txn, SC_DS_DUE, sc_ds_key_span(key), err);
		return rc < 0 ? rc : 0;
	}
	work->leases_over++;
	rc = sc_ds_sub_try_wake(work, row, sc_span("", 0), now_us, err);
	return rc < 0 ? rc : sc_ds_sub_store(work, row, err);
}

int sc_ds_subs_lapse(struct sc_ds_work *work, unsigned max, struct sc_err *err)
{
	int64_t now_us = sc_wall_us();
	struct sc_ds_sub_row row;
	struct sc_ds_key key;
	int rc = 0;

	sc_ds_sub_row_init(&row);
	for (; rc == 0 && max > 0; max--) {
		rc = first_lease(work->ds, work->txn, &key, err);
		if (rc <= 0 || work->ds->lease_us > now_us) {
			rc = rc < 0 ? rc : 0;
			break;
		}
		rc = lapse_one(work, &row, &key, now_us, err);
	}
	sc_ds_sub_row_done(&row);
	return rc;
}
