/*
 * verify.c: a store proved: every record, run and index row against the others.
 *
 * Each stream is looked at in one read transaction of its own, so that a writer may go on.
 */
#include <stdio.h>
#include <string.h>

#include "durable/engine_internal.h"
#include "durable/subs_internal.h"

#define PAGE 1000 /* rows of a table in one transaction */

struct check {
	struct sc_ds *ds;
	struct sc_kv_txn *txn;
	void (*fault)(void *arg, const char *what);
	void *arg;
	struct sc_ds_verified got;
};

static void fault(struct check *c, uint64_t sid, const char *what)
{
	char text[160];

	c->got.faults++;
	snprintf(text, sizeof(text), "stream %llu: %s", (unsigned long long)sid, what);
	if (c->fault)
		c->fault(c->arg, text);
}

/* 1, 0, or 2: there, and damaged, which is told of the stream itself. */
static int load(struct check *c, uint64_t sid, struct sc_ds_stream *ret_stream, struct sc_err *err)
{
	int rc = sc_ds_load_sid(c->txn, sid, ret_stream, err);

	return rc == SC_E_DATA ? 2 : rc;
}

static int frames(struct check *c, uint64_t sid, struct sc_span run)
{
	struct sc_span message;

	while (run.len && sc_ds_frame_first(run, &message)) {
		c->got.messages++;
		c->got.bytes += message.len;
		run = sc_span(message.data + message.len, run.len - SC_DS_FRAME_HEAD - message.len);
	}
	if (run.len)
		fault(c, sid, "a run of messages is torn");
	return 0;
}

/* The stream's own part without a gap, from where it may begin to the tail. */
static int check_runs(struct check *c, const struct sc_ds_stream *s, struct sc_err *err)
{
	uint64_t begin = s->first > s->fork_at ? s->first : s->fork_at, at = 0;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, run;
	struct sc_ds_key from;
	bool any = false;
	int rc = sc_kv_cursor_open(c->txn, SC_DS_RUNS, &cursor, err);

	sc_ds_key1(&from, s->sid);
	if (rc == 0)
		rc = sc_kv_cursor_seek(cursor, sc_ds_key_span(&from), &key, &run, err);
	while (rc == 1 && key.len == 16 && sc_ds_get_be64(key.data) == s->sid) {
		uint64_t start = sc_ds_get_be64(key.data + 8);

		if (!any && (start > begin || start < s->fork_at))
			fault(c, s->sid, "its first messages are missing");
		if (any && start != at)
			fault(c, s->sid, "messages are missing");
		any = true;
		at = start + run.len;
		frames(c, s->sid, run);
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &run, err);
	}
	sc_kv_cursor_close(cursor);
	if (rc < 0)
		return rc;
	if (any ? at != s->tail : begin != s->tail)
		fault(c, s->sid, "its end is not where its messages end");
	return 0;
}

static int check_forks(struct check *c, const struct sc_ds_stream *s, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	struct sc_ds_key from;
	uint64_t forks = 0;
	int rc = sc_kv_cursor_open(c->txn, SC_DS_FORKS, &cursor, err);

	sc_ds_key1(&from, s->sid);
	if (rc == 0)
		rc = sc_kv_cursor_seek(cursor, sc_ds_key_span(&from), &key, &value, err);
	while (rc == 1 && key.len == 16 && sc_ds_get_be64(key.data) == s->sid) {
		forks++;
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	}
	sc_kv_cursor_close(cursor);
	if (rc < 0)
		return rc;
	if (forks != s->forks)
		fault(c, s->sid, "its forks are miscounted");
	if (s->gone && !forks)
		fault(c, s->sid, "it was deleted and nobody forks it, but it is there");
	return 0;
}

/* Whether TABLE has this row. */
static int has(struct check *c, int table, const struct sc_ds_key *key, struct sc_span *ret_value,
	       struct sc_err *err)
{
	return sc_kv_get(c->txn, table, sc_ds_key_span(key), ret_value, err);
}

static int check_rows(struct check *c, const struct sc_ds_stream *s, struct sc_err *err)
{
	struct sc_span value = { NULL, 0 };
	struct sc_ds_stream source;
	struct sc_ds_key key;
	int rc = 0;

	if (!sc_ds_path_valid(s->path))
		fault(c, s->sid, "its path is none");
	else
		rc = sc_kv_get(c->txn, SC_DS_PATHS, sc_span(s->path.data + 1, s->path.len - 1),
			       &value, err);
	if (rc >= 0 && (value.len != 8 || sc_ds_get_be64(value.data) != s->sid))
		fault(c, s->sid, "its path leads elsewhere");
	if (rc >= 0 && s->indexed_us != INT64_MAX) {
		sc_ds_key2(&key, sc_ds_time_key(s->indexed_us), s->sid);
		rc = has(c, SC_DS_EXPIRY, &key, &value, err);
		if (rc == 0)
			fault(c, s->sid, "it is not where the expiry index should have it");
	}
	if (s->indexed_us > sc_ds_stream_deadline(s))
		fault(c, s->sid, "it would expire too late");
	if (rc < 0 || !s->source_sid)
		return rc < 0 ? rc : 0;
	sc_ds_key2(&key, s->source_sid, s->sid);
	rc = has(c, SC_DS_FORKS, &key, &value, err);
	if (rc == 0)
		fault(c, s->sid, "its source does not know of it");
	if (rc >= 0)
		rc = load(c, s->source_sid, &source, err);
	if (rc == 0)
		fault(c, s->sid, "its source is missing");
	return rc < 0 ? rc : 0;
}

/* The first row of TABLE at or after KEY, in a transaction that stays open: 1, 0. */
static int seek(struct check *c, int table, struct sc_ds_key *key, struct sc_span *ret_value,
		struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span found;
	int rc = sc_kv_cursor_open(c->txn, table, &cursor, err);

	if (rc == 0)
		rc = sc_kv_cursor_seek(cursor, sc_ds_key_span(key), &found, ret_value, err);
	if (rc == 1 && found.len <= SC_DS_KEY_MAX) {
		memcpy(key->data, found.data, found.len);
		key->len = found.len;
	}
	sc_kv_cursor_close(cursor);
	return rc;
}

static int check_stream(struct check *c, struct sc_span record, struct sc_err *err)
{
	struct sc_ds_stream stream;
	int rc;

	if (sc_ds_stream_decode(record, &stream, NULL) < 0)
		return 1;
	c->got.streams++;
	c->got.gone += stream.gone;
	rc = check_rows(c, &stream, err);
	if (rc == 0)
		rc = check_runs(c, &stream, err);
	if (rc == 0)
		rc = check_forks(c, &stream, err);
	return rc;
}

static int check_streams(struct check *c, struct sc_err *err)
{
	struct sc_span record;
	struct sc_ds_key key;
	uint64_t sid = 0;
	int rc;

	do {
		rc = sc_kv_read(c->ds->kv, &c->txn, err);
		if (rc < 0)
			return rc;
		sc_ds_key1(&key, sid);
		rc = seek(c, SC_DS_STREAMS, &key, &record, err);
		if (rc == 1) {
			sid = sc_ds_get_be64(key.data);
			rc = check_stream(c, record, err);
			if (rc == 1)
				fault(c, sid, "its record is damaged");
			rc = rc < 0 ? rc : 1;
			sid++;
		}
		sc_kv_abort(&c->txn);
	} while (rc == 1 && sid > 0);
	return rc < 0 ? rc : 0;
}

/* The least key behind KEY; empty: there is none. */
static void after(struct sc_ds_key *key)
{
	if (key->len < SC_DS_KEY_MAX) {
		key->data[key->len++] = 0;
		return;
	}
	while (key->len > 0 && (unsigned char)key->data[key->len - 1] == 0xff)
		key->len--;
	if (key->len > 0)
		key->data[key->len - 1]++;
}

/* A row of runs or producers: its stream is there, or about to be deleted. The key moves on to the
 * next stream. */
static int check_owner(struct check *c, struct sc_ds_key *key, struct sc_err *err)
{
	uint64_t sid = sc_ds_get_be64(key->data);
	struct sc_span value;
	int rc;

	sc_ds_key1(key, sid);
	rc = has(c, SC_DS_STREAMS, key, &value, err);
	if (rc == 0)
		rc = has(c, SC_DS_DELETES, key, &value, err);
	if (rc == 0)
		fault(c, sid, "it is away, but not what was in it");
	key->len = 0;
	if (sid < UINT64_MAX)
		sc_ds_key1(key, sid + 1);
	return rc < 0 ? rc : 0;
}

/* A row of an index: its stream says the same. The key moves on by one. */
static int check_index(struct check *c, int table, struct sc_ds_key *key, struct sc_err *err)
{
	uint64_t first = sc_ds_get_be64(key->data), sid = sc_ds_get_be64(key->data + 8);
	struct sc_ds_stream stream;
	int rc = load(c, sid, &stream, err);

	if (rc < 0)
		return rc;
	if (table == SC_DS_EXPIRY &&
	    (rc == 0 || (rc == 1 && stream.indexed_us != sc_ds_key_time(key->data))))
		fault(c, sid, "the expiry index has it where it is not");
	if (table == SC_DS_FORKS && (rc == 0 || (rc == 1 && stream.source_sid != first)))
		fault(c, sid, "it is listed as a fork, and is none");
	after(key);
	return 0;
}

static int check_path(struct check *c, struct sc_ds_key *key, struct sc_span value,
		      struct sc_err *err)
{
	uint64_t sid = value.len == 8 ? sc_ds_get_be64(value.data) : 0;
	struct sc_ds_stream stream;
	int rc = load(c, sid, &stream, err);

	if (rc == 0 || (rc == 1 && (stream.path.len != key->len + 1 ||
				    memcmp(stream.path.data + 1, key->data, key->len))))
		fault(c, sid, "a path leads to it that is not its own");
	after(key);
	return rc < 0 ? rc : 0;
}

static int check_row(struct check *c, int table, struct sc_ds_key *key, struct sc_span value,
		     struct sc_err *err)
{
	if (table == SC_DS_PATHS)
		return check_path(c, key, value, err);
	if (key->len < 8 || ((table == SC_DS_EXPIRY || table == SC_DS_FORKS) && key->len != 16))
		return sc_ds_damaged(err, "a key is damaged", 0);
	if (table == SC_DS_RUNS || table == SC_DS_PRODUCERS)
		return check_owner(c, key, err);
	return check_index(c, table, key, err);
}

static int check_table(struct check *c, int table, struct sc_err *err)
{
	struct sc_ds_key key = { .len = 1, .data = { 0 } };
	struct sc_span value;
	int rc, left;

	do {
		rc = sc_kv_read(c->ds->kv, &c->txn, err);
		for (left = PAGE; rc >= 0 && left > 0; left--) {
			rc = key.len ? seek(c, table, &key, &value, err) : 0;
			if (rc <= 0)
				break;
			rc = check_row(c, table, &key, value, err);
		}
		if (table == SC_DS_PRODUCERS && rc >= 0)
			c->got.producers = sc_kv_count(c->txn, table);
		sc_kv_abort(&c->txn);
	} while (rc >= 0 && left == 0);
	return rc < 0 ? rc : 0;
}

int sc_ds_verify(struct sc_ds *ds, void (*told)(void *arg, const char *what), void *arg,
		 struct sc_ds_verified *ret_verified, struct sc_err *err)
{
	static const int others[] = { SC_DS_PATHS, SC_DS_RUNS, SC_DS_PRODUCERS, SC_DS_EXPIRY,
				      SC_DS_FORKS };
	struct check c = { .ds = ds, .fault = told, .arg = arg };
	int rc = check_streams(&c, err);

	for (size_t i = 0; rc == 0 && i < sizeof(others) / sizeof(*others); i++)
		rc = check_table(&c, others[i], err);
	if (rc == 0)
		rc = sc_ds_subs_verify(ds, told, arg, &c.got, err);
	if (rc == 0)
		*ret_verified = c.got;
	return rc;
}
