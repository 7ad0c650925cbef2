/* subs_verify.c: subscriptions proved: each record and link against the indexes and streams. */
#include <stdio.h>

#include "durable/subs_internal.h"

struct check {
	struct sc_kv_txn *txn;
	void (*fault)(void *arg, const char *what);
	void *arg;
	uint64_t number, pending;
	struct sc_ds_verified *got;
};

static void fault(struct check *c, const char *what)
{
	char text[160];

	c->got->faults++;
	snprintf(text, sizeof(text), "subscription %llu: %s", (unsigned long long)c->number, what);
	if (c->fault)
		c->fault(c->arg, text);
}

/* 1, 0, or 2: it cannot be read, which was told. */
static int load(struct check *c, uint64_t number, struct sc_ds_sub_row *row, struct sc_err *err)
{
	int rc = sc_ds_sub_load(c->txn, number, row, err);

	if (rc != SC_E_DATA)
		return rc;
	fault(c, "its record is damaged");
	return 2;
}

static int check_link(struct check *c, const struct sc_ds_sub *sub, const struct sc_ds_link *link,
		      struct sc_err *err)
{
	struct sc_span value;
	struct sc_ds_key key;
	uint64_t tail;
	int rc;

	if (link->path.len <= sub->prefix.len ||
	    memcmp(link->path.data, sub->prefix.data, sub->prefix.len) != 0)
		fault(c, "a link is to what is not below its prefix");
	rc = sc_ds_tail_of(c->txn, NULL, link->path, &tail, err);
	if (rc == SC_E_DATA)
		return 0; /* the stream's own fault */
	if (rc == 0 && link->acked > tail)
		fault(c, "more was acknowledged than there is");
	if (rc == 0)
		rc = sc_ds_key_producer(&key, sub->number,
					sc_span(link->path.data + 1, link->path.len - 1), err);
	if (rc == 0)
		rc = sc_kv_get(c->txn, SC_DS_PENDING, sc_ds_key_span(&key), &value, err);
	if (rc < 0)
		return rc;
	if (rc != sc_ds_link_pending(link, tail))
		fault(c, "what is pending is not what is there");
	c->pending += rc == 1;
	/* as the index has it: without the number in front, and with it behind a 0 */
	memmove(key.data, key.data + 8, key.len - 8);
	key.data[key.len - 8] = 0;
	sc_ds_put_be64(key.data + key.len - 7, sub->number);
	key.len++;
	rc = sc_kv_get(c->txn, SC_DS_LINKED, sc_ds_key_span(&key), &value, err);
	if (rc == 0)
		fault(c, "a stream does not know of its link");
	return rc < 0 ? rc : 0;
}

static int check_links(struct check *c, const struct sc_ds_sub *sub, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 0 };
	struct sc_ds_link link;
	uint64_t count = 0;
	int rc;

	while ((rc = sc_ds_link_next(c->txn, sub->number, false, &key, &link, err)) == 1) {
		count++;
		rc = check_link(c, sub, &link, err);
		if (rc < 0)
			return rc;
	}
	if (rc == SC_E_DATA) {
		fault(c, "a link is damaged");
		return 0;
	}
	if (rc == 0 && count != sub->links)
		fault(c, "its links are miscounted");
	c->got->links += count;
	return rc;
}

static int check_due(struct check *c, char kind, int64_t at_us, struct sc_err *err)
{
	struct sc_span value;
	struct sc_ds_key key = { .len = 17 };
	int rc;

	if (at_us == INT64_MAX)
		return 0;
	key.data[0] = kind;
	sc_ds_put_be64(key.data + 1, sc_ds_time_key(at_us));
	sc_ds_put_be64(key.data + 9, c->number);
	rc = sc_kv_get(c->txn, SC_DS_DUE, sc_ds_key_span(&key), &value, err);
	if (rc == 0)
		fault(c, "nobody would look at it when it is due");
	return rc < 0 ? rc : 0;
}

static int check_sub(struct check *c, struct sc_ds_sub_row *row, struct sc_err *err)
{
	struct sc_span number;
	int rc = load(c, c->number, row, err);

	c->got->subs++;
	if (rc != 1)
		return rc < 0 ? rc : 0;
	if (row->sub.number != c->number)
		fault(c, "its record is of another");
	rc = sc_kv_get(c->txn, SC_DS_SUB_IDS, row->sub.id, &number, err);
	if (rc == 0 || (rc == 1 && (number.len != 8 || sc_ds_get_be64(number.data) != c->number)))
		fault(c, "its id does not lead to it");
	if (rc >= 0)
		rc = check_due(c, 'L', row->sub.lease_us, err);
	if (rc >= 0)
		rc = check_due(c, 'A', row->sub.attempt_us, err);
	return rc < 0 ? rc : check_links(c, &row->sub, err);
}

/* Rows that belong to nobody: unless some are about to be deleted. */
static int check_counts(struct check *c, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, what;
	int rc = sc_kv_cursor_open(c->txn, SC_DS_DELETES, &cursor, err);

	if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &what, err);
	while (rc == 1 && !(what.len == 1 && what.data[0] == 'S'))
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &what, err);
	sc_kv_cursor_close(cursor);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	c->number = 0;
	if (sc_kv_count(c->txn, SC_DS_SUB_IDS) != c->got->subs)
		fault(c, "an id leads to none");
	if (sc_kv_count(c->txn, SC_DS_LINKS) != c->got->links ||
	    sc_kv_count(c->txn, SC_DS_LINKED) != c->got->links)
		fault(c, "there are links of none");
	if (sc_kv_count(c->txn, SC_DS_PENDING) != c->pending)
		fault(c, "something is pending for none");
	return 0;
}

int sc_ds_subs_verify(struct sc_ds *ds, void (*told)(void *arg, const char *what), void *arg,
		      struct sc_ds_verified *got, struct sc_err *err)
{
	struct check c = { .fault = told, .arg = arg, .got = got };
	struct sc_ds_sub_row row;
	struct sc_ds_key from = { .len = 1 }, key;
	struct sc_span value;
	int rc = sc_kv_read(ds->kv, &c.txn, err);

	if (rc < 0)
		return rc;
	from.data[0] = 0;
	sc_ds_sub_row_init(&row);
	while (rc >= 0) {
		rc = sc_ds_row_from(c.txn, SC_DS_SUBS, sc_ds_key_span(&from), &key, &value, err);
		if (rc <= 0 || key.len != 8)
			break;
		c.number = sc_ds_get_be64(key.data);
		rc = check_sub(&c, &row, err);
		if (c.number == UINT64_MAX)
			break;
		sc_ds_key1(&from, c.number + 1);
	}
	if (rc >= 0)
		rc = check_counts(&c, err);
	sc_ds_sub_row_done(&row);
	sc_kv_abort(&c.txn);
	return rc;
}
