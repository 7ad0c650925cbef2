/*
 * subs_news.c: streams come, change and go, and subscriptions learn of it in the same transaction.
 *
 * A stream that was created is linked at once, before anything can be appended to it. What was
 * appended is heard of later: once for all appends of a transaction, or before a subscription is
 * asked something.
 */
#include "durable/subs_internal.h"

#include "base/clock.h"

static int link_one(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span path,
		    struct sc_err *err)
{
	struct sc_ds_link link;
	struct sc_ds_key room;
	struct sc_span own = row->sub.wake_stream;
	int rc = sc_ds_link_load(work->txn, row->sub.number, path, &link, err);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		/* each wake would be a reason for the next */
		own = own.data ? sc_ds_sub_path(row->sub.prefix, own, &room) : own;
		if (own.data && own.len == path.len && memcmp(own.data, path.data, own.len) == 0)
			return 0;
		if (row->sub.links >= work->ds->set.links_max) {
			work->links_refused++;
			return 0;
		}
		link = (struct sc_ds_link){ .fresh = true, .path = path };
		row->sub.links++;
	}
	link.by_pattern = true;
	rc = sc_ds_link_store(work, row->sub.number, &link, err);
	return rc < 0 ? rc : sc_ds_sub_store(work, row, err);
}

static int link_created(struct sc_ds_work *work, struct sc_span path, struct sc_err *err)
{
	struct sc_bytes *numbers = &work->ds->numbers;
	struct sc_ds_sub_row row;
	int rc = sc_ds_pattern_numbers(work, path, err);

	/* JSON could not name it */
	if (rc < 0 || !numbers->len || !sc_utf8_valid(path))
		return rc;
	sc_ds_sub_row_init(&row);
	for (size_t i = 0; rc >= 0 && i < numbers->len / 8; i++) {
		rc = sc_ds_sub_load(work->txn, sc_ds_number_at(numbers, i), &row, err);
		if (rc == 1)
			rc = link_one(work, &row, path, err);
	}
	sc_ds_sub_row_done(&row);
	return rc < 0 ? rc : 0;
}

/* A link by pattern goes with its stream; one by name waits for the next stream at the path. */
static int forget_link(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span path,
		       struct sc_err *err)
{
	struct sc_ds_link link;
	int rc = sc_ds_link_load(work->txn, row->sub.number, path, &link, err);

	if (rc <= 0)
		return rc;
	if (!link.by_name) {
		row->sub.links--;
		rc = sc_ds_link_delete(work, row->sub.number, path, err);
		return rc < 0 ? rc : sc_ds_sub_store(work, row, err);
	}
	link.by_pattern = false;
	sc_ds_link_restart(&link);
	rc = sc_ds_link_store(work, row->sub.number, &link, err);
	return rc < 0 ? rc : sc_ds_pending_mark(work, row->sub.number, path, false, err);
}

static int forget(struct sc_ds_work *work, struct sc_span path, struct sc_err *err)
{
	struct sc_bytes *numbers = &work->ds->numbers;
	struct sc_ds_sub_row row;
	int rc = sc_ds_linked_numbers(work, path, err);

	if (rc < 0 || !numbers->len)
		return rc;
	sc_ds_sub_row_init(&row);
	for (size_t i = 0; rc >= 0 && i < numbers->len / 8; i++) {
		rc = sc_ds_sub_load(work->txn, sc_ds_number_at(numbers, i), &row, err);
		if (rc == 1)
			rc = forget_link(work, &row, path, err);
	}
	sc_ds_sub_row_done(&row);
	return rc < 0 ? rc : 0;
}

int sc_ds_subs_told(struct sc_ds_work *work, enum sc_ds_happened happened,
		    struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_span path = sc_span(entry->path.data, entry->path.len);
	int rc = 0;

	if (happened == SC_DS_REMOVED)
		return forget(work, path, err);
	if (happened == SC_DS_CREATED)
		rc = link_created(work, path, err);
	if (!entry->news) {
		entry->news = true;
		entry->next_news = work->news;
		work->news = entry;
	}
	return rc;
}

/* One subscription learns what PATH has. */
static int hear_one(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span path,
		    uint64_t tail, int64_t now_us, struct sc_err *err)
{
	struct sc_ds_link link;
	int rc = sc_ds_link_load(work->txn, row->sub.number, path, &link, err);

	if (rc <= 0 || !sc_ds_link_pending(&link, tail))
		return rc;
	rc = sc_ds_pending_mark(work, row->sub.number, path, true, err);
	if (rc == 0)
		rc = sc_ds_sub_try_wake(work, row, path, now_us, err);
	return rc == 1 ? sc_ds_sub_store(work, row, err) : rc;
}

static int hear(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_ds_sub_row *row,
		struct sc_err *err)
{
	struct sc_span path = sc_span(entry->path.data, entry->path.len);
	struct sc_bytes *numbers = &work->ds->numbers;
	int rc = sc_ds_linked_numbers(work, path, err);

	for (size_t i = 0; rc >= 0 && i < numbers->len / 8; i++) {
		rc = sc_ds_sub_load(work->txn, sc_ds_number_at(numbers, i), row, err);
		if (rc == 1)
			rc = hear_one(work, row, path, entry->stream.tail, sc_wall_us(), err);
	}
	return rc < 0 ? rc : 0;
}

int sc_ds_subs_hear(struct sc_ds_work *work, struct sc_err *err)
{
	struct sc_ds_sub_row row;
	int rc = 0;

	if (!work->news)
		return 0;
	sc_ds_sub_row_init(&row);
	/* a wake appends to its wake stream, which may be news to others; each can be woken once */
	while (rc == 0 && work->news) {
		struct sc_ds_entry *entry = work->news;

		work->news = entry->next_news;
		entry->news = false;
		if (entry->exists && !entry->stream.gone)
			rc = hear(work, entry, &row, err);
	}
	sc_ds_sub_row_done(&row);
	return rc;
}
