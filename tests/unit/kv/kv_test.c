/*
 * kv_test: LMDB's face. Goal: values, order, floors and the lock between processes are as kv.h
 * says. Method: an environment in a temporary folder; children for the lock, one killed while it
 * holds it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kv/kv.h"
#include "../check.h"

static const char *const tables[] = { "names", "numbers", NULL };
static const struct sc_kv_options options = { .tables = tables,
					      .integer_keys = 2,
					      .size_max = 64 << 20 };
enum { NAMES, NUMBERS };
static char dir[64], path[96];

static void fresh(void)
{
	snprintf(dir, sizeof(dir), "/tmp/sc-kv-test.XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof(path), "%s/index.mdb", dir);
}

static void gone(void)
{
	char lock[128];

	snprintf(lock, sizeof(lock), "%s-lock", path);
	unlink(path);
	unlink(lock);
	rmdir(dir);
}

static struct sc_span number(const uint64_t *n)
{
	return sc_span((const char *)n, sizeof(*n));
}

static void put_number(struct sc_kv *kv, uint64_t n, const char *value)
{
	struct sc_err err = { 0 };
	struct sc_kv_txn *txn = NULL;

	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_OK(sc_kv_put(txn, NUMBERS, number(&n), sc_span_str(value), &err), &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	CHECK(txn == NULL);
}

TEST(kv_values_come_back)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_OK(sc_kv_put(txn, NAMES, SC_SPAN("a"), SC_SPAN("one"), &err), &err);
	CHECK_OK(sc_kv_put(txn, NAMES, SC_SPAN("b"), SC_SPAN("two"), &err), &err);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_kv_close(kv);
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_get(txn, NAMES, SC_SPAN("b"), &value, &err), 1);
	CHECK_SPAN(value, "two");
	CHECK_INT(sc_kv_get(txn, NAMES, SC_SPAN("c"), &value, &err), 0);
	CHECK_INT(sc_kv_count(txn, NAMES), 2);
	sc_kv_abort(&txn);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_del(txn, NAMES, SC_SPAN("a"), &err), 1);
	CHECK_INT(sc_kv_del(txn, NAMES, SC_SPAN("a"), &err), 0);
	sc_kv_abort(&txn);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_count(txn, NAMES), 2);
	CHECK_OK(sc_kv_drop(txn, NAMES, &err), &err);
	CHECK_INT(sc_kv_count(txn, NAMES), 0);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

TEST(kv_floor_and_seek)
{
	/* asked, floor (0 = none), seek (0 = none) over the keys 10, 20, 300 */
	static const uint64_t cases[][3] = {
		{ 5, 0, 10 },    { 10, 10, 10 },         { 11, 10, 20 },
		{ 20, 20, 20 },  { 299, 20, 300 },       { 300, 300, 300 },
		{ 301, 300, 0 }, { UINT64_MAX, 300, 0 }, { 0, 0, 10 },
	};
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	uint64_t got;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	put_number(kv, 300, "c");
	put_number(kv, 10, "a");
	put_number(kv, 20, "b");
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_OK(sc_kv_cursor_open(txn, NUMBERS, &cursor, &err), &err);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CHECK_INT(sc_kv_cursor_floor(cursor, number(&cases[i][0]), &key, &value, &err),
			  cases[i][1] != 0);
		if (cases[i][1]) {
			memcpy(&got, key.data, sizeof(got));
			CHECK_INT(got, cases[i][1]);
		}
		CHECK_INT(sc_kv_cursor_seek(cursor, number(&cases[i][0]), &key, &value, &err),
			  cases[i][2] != 0);
		if (cases[i][2]) {
			memcpy(&got, key.data, sizeof(got));
			CHECK_INT(got, cases[i][2]);
		}
	}
	CHECK_INT(sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, &err), 1);
	CHECK_SPAN(value, "a");
	CHECK_INT(sc_kv_cursor_move(cursor, SC_KV_PREV, &key, &value, &err), 0);
	CHECK_INT(sc_kv_cursor_move(cursor, SC_KV_LAST, &key, &value, &err), 1);
	CHECK_SPAN(value, "c");
	CHECK_INT(sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, &err), 0);
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

TEST(kv_same_file_twice_is_one_environment)
{
	struct sc_err err = { 0 };
	struct sc_kv *one = NULL, *two = NULL;
	struct sc_kv_txn *txn = NULL;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &one, &err), &err);
	CHECK_OK(sc_kv_open(path, &options, &two, &err), &err);
	CHECK(one == two);
	sc_kv_close(one);
	put_number(two, 1, "x");
	CHECK_OK(sc_kv_read(two, &txn, &err), &err);
	sc_kv_abort(&txn);
	sc_kv_close(two);
	gone();
}

TEST(kv_a_killed_holder_frees_the_lock)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	int ready[2], status;
	char c;
	pid_t pid;

	fresh();
	CHECK(pipe(ready) == 0);
	pid = fork();
	if (pid == 0) {
		if (sc_kv_open(path, &options, &kv, &err) < 0 || sc_kv_write(kv, &txn, &err) < 0 ||
		    sc_kv_put(txn, NAMES, SC_SPAN("k"), SC_SPAN("lost"), &err) < 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	CHECK(WIFSIGNALED(status));
	put_number(kv, 1, "x");
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_count(txn, NAMES), 0);
	CHECK_INT(sc_kv_count(txn, NUMBERS), 1);
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	close(ready[0]);
	close(ready[1]);
	gone();
}

TEST(kv_names_what_is_missing)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;

	CHECK_INT(sc_kv_open("/tmp/sc-kv-no-such-folder/index.mdb", &options, &kv, &err), SC_E_IO);
	CHECK(kv == NULL);
	CHECK(strstr(err.object, "/tmp/sc-kv-no-such-folder/index.mdb") != NULL);
}

/* A hole in the lock file would be a SIGBUS for whoever writes there when the disk is full. */
TEST(kv_the_lock_file_has_no_hole)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	char lock[128];
	struct stat st;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	snprintf(lock, sizeof(lock), "%s-lock", path);
	CHECK(stat(lock, &st) == 0);
	CHECK(st.st_size > 0 && st.st_blocks * 512 >= st.st_size);
	sc_kv_close(kv);
	gone();
}

/* A copy that broke off is damaged, not a signal. */
TEST(kv_a_file_cut_short_is_damaged)
{
	struct sc_kv_options read_only = options;
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct stat st;

	read_only.read_only = true;
	for (int way = 0; way < 2; way++) {
		fresh();
		CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
		for (uint64_t n = 0; n < 100; n++)
			put_number(kv, n, "some value");
		sc_kv_close(kv);
		kv = NULL;
		CHECK_INT(stat(path, &st), 0);
		CHECK_INT(truncate(path, 2 * st.st_blksize + 100), 0);
		CHECK_INT(sc_kv_open(path, way ? &read_only : &options, &kv, &err), SC_E_DATA);
		CHECK_INT(sc_kv_open(path, way ? &read_only : &options, &kv, NULL), SC_E_DATA);
		CHECK(strstr(err.object, path) != NULL);
		gone();
	}
}

TEST(kv_reserved_room_is_the_value)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;
	char *data;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_OK(sc_kv_reserve(txn, NAMES, SC_SPAN("big"), 100000, &data, &err), &err);
	memset(data, 'x', 100000);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_get(txn, NAMES, SC_SPAN("big"), &value, &err), 1);
	CHECK(value.len == 100000 && value.data[0] == 'x' && value.data[99999] == 'x');
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

/* Zeros ahead: the file is long enough for what comes, and nothing that is used is touched. */
/* Pages of VALUE that are not in memory. */
static size_t missing(struct sc_span value)
{
	static unsigned char there[4096];
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)value.data & ~(page - 1);
	size_t count = ((uintptr_t)value.data + value.len - at + page - 1) / page, gone_pages = 0;

	CHECK(count <= sizeof(there) && mincore((void *)at, count * page, there) == 0);
	for (size_t i = 0; i < count; i++)
		gone_pages += !(there[i] & 1);
	return gone_pages;
}

/* A value whose pages the system has dropped comes back without being touched. Where the file lies
 * in memory, or cannot be dropped, there is nothing to fetch. */
TEST(kv_a_long_value_is_fetched)
{
	const size_t len = 4 << 20;
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;
	char *data;
	int fd;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_OK(sc_kv_reserve(txn, NAMES, SC_SPAN("a"), len, &data, &err), &err);
	memset(data, 'v', len);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	sc_kv_close(kv);
	fd = open(path, O_RDWR);
	CHECK(fd >= 0 && fsync(fd) == 0);
	CHECK_INT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	close(fd);
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_get(txn, NAMES, SC_SPAN("a"), &value, &err), 1);
	if (missing(value) == 0)
		printf("kv_a_long_value_is_fetched: its pages cannot be dropped here\n");
	sc_kv_fetch(value);
	for (int i = 0; i < 10000 && missing(value) > 0; i++)
		usleep(1000);
	CHECK_INT(missing(value), 0);
	sc_kv_fetch(SC_SPAN("short, and nowhere in a store"));
	CHECK_INT(value.len, len);
	CHECK(value.data[0] == 'v' && value.data[len - 1] == 'v');
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

TEST(kv_zeros_ahead_change_nothing_but_the_size)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_stat before, after;
	struct sc_span value;

	fresh();
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	put_number(kv, 1, "one");
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	sc_kv_ahead(txn, 1 << 20);
	CHECK_OK(sc_kv_commit(&txn, &err), &err);
	CHECK_OK(sc_kv_stat(kv, &before, &err), &err);
	CHECK_INT(before.file_bytes, before.used_bytes + (1 << 20));
	for (uint64_t n = 2; n < 20; n++) {
		put_number(kv, n, "more");
		CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
		sc_kv_ahead(txn, 1 << 20);
		CHECK_OK(sc_kv_commit(&txn, &err), &err);
	}
	CHECK_OK(sc_kv_stat(kv, &after, &err), &err);
	CHECK_INT(after.file_bytes, before.file_bytes); /* in steps */
	sc_kv_close(kv);
	kv = NULL;
	CHECK_OK(sc_kv_open(path, &options, &kv, &err), &err);
	CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_get(txn, NUMBERS, number(&(uint64_t){ 1 }), &value, &err), 1);
	CHECK_SPAN(value, "one");
	CHECK_INT(sc_kv_get(txn, NUMBERS, number(&(uint64_t){ 19 }), &value, &err), 1);
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

/* A full map is told apart, and what is called something else than an index is not to be rebuilt. */
TEST(kv_a_full_map_is_enospc)
{
	struct sc_kv_options small = options;
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	char *data;

	small.size_max = 1 << 20;
	small.kind = "store";
	fresh();
	CHECK_OK(sc_kv_open(path, &small, &kv, &err), &err);
	CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
	CHECK_INT(sc_kv_reserve(txn, NAMES, SC_SPAN("big"), 2 << 20, &data, &err), SC_E_IO);
	CHECK_INT(err.errnum, ENOSPC);
	CHECK(!strncmp(err.object, "store '", 7));
	sc_kv_abort(&txn);
	sc_kv_close(kv);
	gone();
}

/* The file may not grow: LMDB's write is cut short, as on a disk that becomes full. */
static void grow_to(const char *file, int64_t more)
{
	struct rlimit limit;
	struct stat st;

	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	CHECK_INT(stat(file, &st), 0);
	limit.rlim_cur = more < 0 ? limit.rlim_max : (rlim_t)(st.st_size + more);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* LMDB says EIO of it; here it is told apart, and it passes. */
TEST(kv_a_disk_that_becomes_full_is_enospc)
{
	struct sc_kv_options synced = options;
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;
	char *data = NULL;

	signal(SIGXFSZ, SIG_IGN);
	synced.sync = true;
	fresh();
	CHECK_OK(sc_kv_open(path, &synced, &kv, &err), &err);
	put_number(kv, 1, "kept");
	for (int i = 0; i < 2; i++) { /* the second time all of it is there to be written */
		grow_to(path, i ? -1 : 100000);
		CHECK_OK(sc_kv_write(kv, &txn, &err), &err);
		CHECK_OK(sc_kv_reserve(txn, NUMBERS, number(&(uint64_t){ 2 }), 1 << 20, &data,
				       &err),
			 &err);
		memset(data, 'x', 1 << 20);
		CHECK_INT(sc_kv_commit(&txn, &err), i ? 0 : SC_E_IO);
		CHECK(i || err.errnum == ENOSPC);
		CHECK_OK(sc_kv_read(kv, &txn, &err), &err);
		CHECK_INT(sc_kv_count(txn, NUMBERS), 1 + i);
		CHECK_INT(sc_kv_get(txn, NUMBERS, number(&(uint64_t){ 1 }), &value, &err), 1);
		CHECK_SPAN(value, "kept");
		sc_kv_abort(&txn);
	}
	sc_kv_close(kv);
	gone();
}

/* WORK as the first process of a container: how it ends is how it went; 77: there are none here. */
static pid_t in_container(int (*work)(const int *pipes), const int *pipes)
{
	pid_t pid = fork();
	int status;

	if (pid != 0)
		return pid;
	if (unshare(CLONE_NEWPID) < 0)
		_exit(77);
	pid = fork();
	if (pid == 0)
		_exit(work(pipes));
	_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 3);
}

/* Has it open until it is told to go. */
static int holds(const int *pipes)
{
	struct sc_kv *kv = NULL;
	char c = 1;

	if (sc_kv_open(path, &options, &kv, NULL) < 0 || write(pipes[1], &c, 1) != 1 ||
	    read(pipes[2], &c, 1) != 1)
		return 1;
	sc_kv_close(kv);
	return 0;
}

static int opens_not(const int *pipes)
{
	struct sc_err err = { 0 };
	struct sc_kv *kv = NULL;

	(void)pipes;
	return getpid() == 1 && sc_kv_open(path, &options, &kv, &err) == SC_E_BUSY &&
			       strstr(err.reason, "number 1, too") && strstr(err.next, "--pid")
		       ? 0
		       : 2;
}

/* LMDB knows a process by its number, and of two containers' processes it can be the same. */
TEST(kv_a_process_of_our_number_in_another_container)
{
	int pipes[4], first_status = 0, status = 0;
	pid_t first;
	char c = 1;

	if (getuid() != 0)
		return; /* cannot make containers */
	fresh();
	CHECK(pipe(pipes) == 0 && pipe(pipes + 2) == 0);
	first = in_container(holds, pipes);
	close(pipes[1]);
	if (read(pipes[0], &c, 1) == 1) {
		CHECK(waitpid(in_container(opens_not, pipes), &status, 0) > 0);
		CHECK(write(pipes[3], &c, 1) == 1);
	}
	CHECK(waitpid(first, &first_status, 0) == first);
	CHECK_INT(status, 0);
	CHECK(WIFEXITED(first_status) &&
	      (WEXITSTATUS(first_status) == 0 || WEXITSTATUS(first_status) == 77));
	for (int i = 0; i < 4; i++)
		if (i != 1)
			close(pipes[i]);
	gone();
}
