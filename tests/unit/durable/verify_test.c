/*
 * verify_test: each kind of damage to a store is found.
 *
 * Method: a store with a stream, a fork, a producer and an expiry; one row of it is taken away or
 * changed behind the engine's back; verify must say what is wrong, and a reader must not be given
 * anything wrong.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

#include "durable/engine_internal.h"

static char said[1024];
static struct sc_err err;

static int ask(struct sc_ds *ds, const char *path, const char *body, const char *from, bool put)
{
	struct sc_ds_call call = {
		.request = {
			.method = put ? SC_DS_PUT : SC_DS_POST,
			.path = sc_span_str(path),
			.content_type = SC_SPAN("text/plain"),
			.body = sc_span_str(body),
		},
	};

	if (put) {
		call.request.ttl = SC_SPAN("1000");
	} else {
		call.request.producer_id = sc_span_str(body);
		call.request.producer_epoch = SC_SPAN("0");
		call.request.producer_seq = SC_SPAN("0");
	}
	if (from)
		call.request.forked_from = sc_span_str(from);
	sc_ds_answer_init(&call.answer);
	sc_ds_call(ds, &call);
	sc_ds_answer_done(&call.answer);
	return call.answer.status;
}

static const struct sc_ds_settings set = { .size_max = 16u << 20, .sweep_ms = -1, .repair_ms = -1 };

/* sid 1: /a with three messages of 3, 4 and 5 bytes, in runs of their own; sid 2: /f, a fork. */
static void make(void)
{
	struct sc_ds *ds = NULL;

	memset(&err, 0, sizeof(err));
	folder_new();
	CHECK_OK(sc_ds_open(folder, &set, &ds, &err), &err);
	CHECK_INT(ask(ds, "/a", "one", NULL, true), 201);
	CHECK_INT(ask(ds, "/a", "four", NULL, false), 200);
	CHECK_INT(ask(ds, "/a", "fives", NULL, false), 200);
	CHECK_INT(ask(ds, "/f", "own", "/a", true), 201);
	sc_ds_close(ds);
}

static void fault(void *arg, const char *what)
{
	(void)arg;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s; ", what);
}

static uint64_t verify(void)
{
	struct sc_ds_settings reading = set;
	struct sc_ds_verified v;
	struct sc_ds *ds = NULL;

	said[0] = 0;
	reading.read_only = true;
	CHECK_OK(sc_ds_open(folder, &reading, &ds, &err), &err);
	CHECK_OK(sc_ds_verify(ds, fault, NULL, &v, &err), &err);
	sc_ds_close(ds);
	return v.faults;
}

struct damage {
	const char *expected; /* among what is said */
	enum sc_ds_table table;
	uint64_t a, b;     /* the key: a alone, or a and b */
	bool two, expiry;  /* its kind; expiry: the first row there is */
	const char *value; /* put in its place; NULL: taken away */
	size_t len;
};

static void do_damage(const struct damage *d)
{
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span found, value;
	struct sc_ds_key key;

	CHECK_OK(sc_ds_store_open(folder, &set, &kv, &err), &err);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	if (d->two)
		sc_ds_key2(&key, d->a, d->b);
	else
		sc_ds_key1(&key, d->a);
	if (d->expiry) {
		CHECK_OK(sc_kv_cursor_open(txn, SC_DS_EXPIRY, &cursor, &err), &err);
		CHECK_INT(sc_kv_cursor_move(cursor, SC_KV_FIRST, &found, &value, &err), 1);
		memcpy(key.data, found.data, found.len);
		key.len = found.len;
		sc_kv_cursor_close(cursor);
	}
	if (d->table == SC_DS_PATHS) {
		key.data[0] = 'a';
		key.len = 1;
	}
	if (d->value)
		CHECK_OK(sc_kv_put(txn, d->table, sc_ds_key_span(&key), sc_span(d->value, d->len),
				   &err),
			 &err);
	else
		CHECK_INT(sc_kv_del(txn, d->table, sc_ds_key_span(&key), &err), 1);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_kv_close(kv);
}

TEST(a_sound_store_has_no_faults)
{
	make();
	CHECK_INT(verify(), 0);
	folder_done();
}

TEST(damage_is_found)
{
	static const struct damage damages[] = {
		{ "stream 1: its first messages are missing", SC_DS_RUNS, 1, 0, .two = true },
		{ "stream 1: messages are missing", SC_DS_RUNS, 1, 7, .two = true },
		{ "stream 1: its end is not where", SC_DS_RUNS, 1, 15, .two = true },
		{ "stream 1: a run of messages is torn", SC_DS_RUNS, 1, 7, .two = true,
		  .value = "\0\0\0\5four", .len = 8 },
		{ "stream 1: its path leads elsewhere", SC_DS_PATHS, .two = false },
		{ "stream 2: a path leads to it that is not", SC_DS_PATHS,
		  .value = "\0\0\0\0\0\0\0\2", .len = 8 },
		{ "stream 1: its record is damaged", SC_DS_STREAMS, 1, 0, .value = "\1", .len = 1 },
		{ "stream 2: its source is missing", SC_DS_STREAMS, 1, .two = false },
		{ "stream 1: it is away, but not what was in it", SC_DS_STREAMS, 1, .two = false },
		{ "stream 2: its source does not know", SC_DS_FORKS, 1, 2, .two = true },
		{ "stream 1: its forks are miscounted", SC_DS_FORKS, 1, 2, .two = true },
		{ "stream 1: it is listed as a fork", SC_DS_FORKS, 2, 1, .two = true, .value = "",
		  .len = 0 },
		{ "stream 1: it is not where the expiry index", SC_DS_EXPIRY, 0, 0,
		  .expiry = true },
		{ "stream 1: the expiry index has it where", SC_DS_EXPIRY, 1, 1, .two = true,
		  .value = "", .len = 0 },
		{ "stream 9: it is away", SC_DS_PRODUCERS, 9, 9, .two = true, .value = "",
		  .len = 0 },
	};

	for (size_t i = 0; i < sizeof(damages) / sizeof(*damages); i++) {
		make();
		do_damage(&damages[i]);
		if (!verify() || !strstr(said, damages[i].expected))
			FAIL("damage %zu: '%s', not '%s'", i, said, damages[i].expected);
		folder_done();
	}
}

/* A reader is told that it cannot be read, and another stream is none the worse. */
TEST(a_damaged_stream_is_a_503_of_its_own)
{
	const struct damage d = { "", SC_DS_RUNS, 1, 7, .two = true };
	const struct damage record = { "", SC_DS_STREAMS, 1, 0, .value = "\1", .len = 1 };
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;
	struct sc_ds *ds = NULL;

	make();
	do_damage(&d);
	CHECK_OK(sc_ds_open(folder, &set, &ds, &err), &err);
	sc_ds_answer_init(&a);
	CHECK_INT(sc_ds_read(ds, &r, &reader, false, &a, &err), SC_E_DATA);
	CHECK_INT(a.status, 503);
	CHECK_INT(a.body.len, 0);
	sc_ds_answer_done(&a);
	sc_ds_close(ds);
	do_damage(&record);
	ds = NULL;
	CHECK_OK(sc_ds_open(folder, &set, &ds, &err), &err);
	CHECK_INT(ask(ds, "/a", "x", NULL, false), 503);
	CHECK_INT(ask(ds, "/b", "x", NULL, true), 201);
	CHECK_INT(ask(ds, "/b", "y", NULL, false), 200);
	sc_ds_close(ds);
	folder_done();
}
