/*
 * upkeep_test: other processes that read the store, and rows at the ends of what there may be.
 *
 * Method: a reader that is killed in its midst, and one that takes its time, must not keep the
 * store from using again what was deleted; verify comes to an end whatever the keys are.
 */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "durable/engine_internal.h"
#include "engine_fixture.h"

static int count_open(void *arg, const char *line)
{
	int *open = arg, pid;
	unsigned long thread, txn;

	*open += sscanf(line, "%d %lx %lu", &pid, &thread, &txn) == 3; /* none: "-" */
	return 0;
}

/* Read transactions that are open, in all processes. */
static int open_reads(void)
{
	int open = 0;

	sc_kv_readers(ds->kv, count_open, &open);
	return open;
}

static void read_and_hang(int ready)
{
	struct sc_ds_settings set = quiet;
	struct sc_kv_txn *txn = NULL;
	struct sc_ds *mine = NULL;

	set.read_only = true;
	if (sc_ds_open(folder, &set, &mine, NULL) < 0 || sc_kv_read(mine->kv, &txn, NULL) < 0 ||
	    write(ready, "r", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

TEST(a_killed_reader_keeps_nothing)
{
	int ends[2], status;
	char byte;
	pid_t pid;

	begin(&quiet);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(pipe(ends), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		read_and_hang(ends[1]);
	CHECK_INT(read(ends[0], &byte, 1), 1);
	CHECK_INT(open_reads(), 1);
	CHECK_INT(kill(pid, SIGKILL), 0);
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(open_reads(), 1); /* LMDB does not notice */
	CHECK_OK(sc_ds_upkeep(ds, &err), &err);
	CHECK_INT(open_reads(), 0);
	close(ends[0]);
	close(ends[1]);
	end();
}

struct visit {
	int count, open;
};

static int look(void *arg, const struct sc_ds_stream *stream)
{
	struct visit *v = arg;

	v->count++;
	v->open += open_reads();
	CHECK_INT(stream->path.data[0], '/');
	return 0;
}

TEST(whoever_reads_a_list_slowly_keeps_nothing)
{
	struct visit v = { 0 };
	char path[32];

	begin(&quiet);
	for (int i = 0; i < 2500; i++) {
		snprintf(path, sizeof(path), "/s%d", i);
		CHECK_INT(put(path), 201);
	}
	CHECK_OK(sc_ds_list(ds, SC_SPAN("/s"), look, &v, &err), &err);
	CHECK_INT(v.count, 2500);
	CHECK_INT(v.open, 0);
	end();
}

/* The standard store is a terabyte of addresses, which not every process may have. */
static void open_with_little(void)
{
	const struct rlimit little = { 8ull << 30, 8ull << 30 };
	struct sc_ds *mine = NULL;
	struct sc_ds_call call = request(SC_DS_PUT, "/b", "x");
	char path[300];

	snprintf(path, sizeof(path), "%s/little", folder);
	if (setrlimit(RLIMIT_AS, &little) < 0 || sc_ds_open(path, NULL, &mine, NULL) < 0)
		_exit(1);
	sc_ds_call(mine, &call);
	_exit(call.answer.status == 201 ? 0 : 2);
}

TEST(a_process_with_little_address_space_has_a_store)
{
	char path[300];
	int status;
	pid_t pid;

	/* a sanitizer's shadow has more of it than the limit */
	if (SC_SANITIZED)
		return;
	begin(&quiet);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		open_with_little();
	CHECK_INT(waitpid(pid, &status, 0), pid);
	CHECK_INT(status, 0);
	snprintf(path, sizeof(path), "%s/little/streams.mdb", folder);
	CHECK_INT(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/little/streams.mdb-lock", folder);
	CHECK_INT(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/little", folder);
	CHECK_INT(rmdir(path), 0);
	end();
}

static void count_fault(void *arg, const char *what)
{
	int *faults = arg;

	(void)what;
	(*faults)++;
}

static void put_row(int table, struct sc_span key, struct sc_span value)
{
	struct sc_kv_txn *txn = NULL;

	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_OK(sc_kv_put(txn, table, key, value, &err), &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
}

/* What has no next key, or none of its length. */
TEST(verify_ends_at_the_last_keys)
{
	static const int tables[] = { SC_DS_STREAMS, SC_DS_RUNS,  SC_DS_PRODUCERS,
				      SC_DS_EXPIRY,  SC_DS_FORKS, SC_DS_SUBS };
	struct sc_ds_verified v;
	char path[SC_DS_PATH_MAX + 1], last[16];
	int faults = 0;

	begin(&quiet);
	memset(path, 'p', SC_DS_PATH_MAX);
	path[0] = '/';
	path[SC_DS_PATH_MAX] = 0;
	for (size_t i = 1; i < 4; i++) {
		path[SC_DS_PATH_MAX - i] = (char)0xff;
		CHECK_INT(put(path), 201);
	}
	memset(path + 1, 0xff, SC_DS_PATH_MAX - 1);
	CHECK_INT(put(path), 201);
	alarm(60);
	CHECK_INT(verified().streams, 4);
	memset(last, 0xff, sizeof(last));
	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		put_row(tables[i],
			sc_span(last,
				tables[i] == SC_DS_STREAMS || tables[i] == SC_DS_SUBS ? 8 : 16),
			SC_SPAN("x"));
	CHECK_OK(sc_ds_verify(ds, count_fault, &faults, &v, &err), &err);
	alarm(0);
	CHECK_INT(v.streams, 4);
	CHECK(faults > 0);
	end();
}

/* Stream 2 as its own source, in all rows that say so. */
static void make_circle(void)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stream stream;
	struct sc_bytes record;
	struct sc_ds_key key;

	sc_bytes_init(&record, 65536);
	CHECK_OK(sc_kv_write(ds->kv, &txn, &err), &err);
	CHECK_INT(sc_ds_load_sid(txn, 2, &stream, &err), 1);
	stream.source_sid = 2;
	stream.first = 1;
	CHECK_INT(sc_ds_stream_encode(&stream, &record), 0);
	sc_ds_key1(&key, 2);
	CHECK_OK(sc_kv_put(txn, SC_DS_STREAMS, sc_ds_key_span(&key),
			   sc_span(record.data, record.len), &err),
		 &err);
	sc_ds_key2(&key, 2, 2);
	CHECK_OK(sc_kv_put(txn, SC_DS_FORKS, sc_ds_key_span(&key), SC_SPAN(""), &err), &err);
	sc_ds_key1(&key, 2);
	CHECK_OK(sc_kv_put(txn, SC_DS_DELETES, sc_ds_key_span(&key), SC_SPAN("T"), &err), &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_bytes_done(&record);
}

TEST(a_circle_of_forks_ends)
{
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/b") };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;

	begin(&quiet);
	CHECK_INT(put("/a"), 201);
	CHECK_INT(post("/a", "one"), 204);
	CHECK_INT(fork_of("/b", "/a", NULL), 201);
	CHECK_INT(post("/b", "two"), 204);
	make_circle();
	sc_ds_answer_init(&a);
	alarm(60);
	CHECK_INT(sc_ds_read(ds, &r, &reader, false, &a, &err), SC_E_DATA);
	CHECK_INT(a.status, 503);
	CHECK_INT(sc_ds_upkeep(ds, &err), SC_E_DATA);
	alarm(0);
	CHECK_STR(get("/a", NULL), "200 one");
	sc_ds_answer_done(&a);
	end();
}
