/*
 * disk_test: a disk that fails under the store: a sync, a write, a full disk.
 *
 * Method: this program's own fdatasync, pwrite and writev stand before the C library's, also for
 * LMDB, and fail when they are told to: the Nth call from now on, once or for good. Whatever fails,
 * what was acknowledged is there after the store is opened again, and nothing else is.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "folder.h"

#include "durable/engine.h"

enum { WRITES = 1, SYNCS = 2 };
static atomic_int left, errnum, which, fired;

/* Whether this call fails. */
static bool fails(int kind)
{
	if (!atomic_load(&errnum) || !(atomic_load(&which) & kind))
		return false;
	if (atomic_fetch_sub(&left, 1) > 1)
		return false;
	atomic_fetch_add(&fired, 1);
	errno = atomic_load(&errnum);
	return true;
}

int fdatasync(int fd)
{
	return fails(SYNCS) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
	return fails(WRITES) ? -1 : syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
	return fails(WRITES) ? -1 : syscall(SYS_writev, fd, parts, count);
}

static struct sc_ds *ds;
static struct sc_err err;
static atomic_int troubles;
static int retry_after_s; /* of the last answer to ask() */

static void trouble(void *arg, const struct sc_err *e)
{
	(void)arg;
	(void)e;
	atomic_fetch_add(&troubles, 1);
}

static void reopen(void)
{
	const struct sc_ds_settings set = {
		.size_max = 64u << 20,
		.sweep_ms = -1,
		.repair_ms = -1,
		.trouble = trouble,
	};

	sc_ds_close(ds);
	ds = NULL;
	CHECK_OK(sc_ds_open(folder, &set, &ds, &err), &err);
}

static int ask(enum sc_ds_method method, const char *path, const char *body, bool closed)
{
	struct sc_ds_call call = {
		.request = {
			.method = method,
			.path = sc_span_str(path),
			.content_type = SC_SPAN("text/plain"),
			.body = sc_span_str(body),
		},
	};

	if (closed)
		call.request.closed = SC_SPAN("true");
	sc_ds_answer_init(&call.answer);
	sc_ds_call(ds, &call);
	sc_ds_answer_done(&call.answer);
	retry_after_s = call.answer.retry_after_s;
	return call.answer.status;
}

static void begin(void)
{
	memset(&err, 0, sizeof(err));
	atomic_store(&errnum, 0);
	atomic_store(&fired, 0);
	atomic_store(&troubles, 0);
	folder_new();
	reopen();
	CHECK_INT(ask(SC_DS_PUT, "/a", "", false), 201);
	CHECK_INT(ask(SC_DS_POST, "/a", "one", false), 204);
}

static void end(void)
{
	sc_ds_close(ds);
	ds = NULL;
	folder_done();
}

static const char *content(void)
{
	static char text[256];
	struct sc_ds_request r = { .method = SC_DS_GET, .path = SC_SPAN("/a") };
	struct sc_ds_reader reader = { 0 };
	struct sc_ds_answer a;

	sc_ds_answer_init(&a);
	text[0] = 0;
	if (sc_ds_read(ds, &r, &reader, false, &a, &err) == 0 && a.status == 200)
		snprintf(text, sizeof(text), "%.*s", (int)a.body.len,
			 a.body.len ? a.body.data : "");
	sc_ds_answer_done(&a);
	return text;
}

static void told(void *arg, const char *what)
{
	(void)arg;
	FAIL("verify: %s", what);
}

static void verified(void)
{
	struct sc_ds_verified v;

	CHECK_OK(sc_ds_verify(ds, told, NULL, &v, &err), &err);
}

static void fail_at(int nth, int with, int kinds)
{
	atomic_store(&fired, 0);
	atomic_store(&left, nth);
	atomic_store(&which, kinds);
	atomic_store(&errnum, with);
}

/* After a failed sync nothing is known of the disk: no more writes, until it is opened again. */
TEST(a_failed_sync_is_not_tried_again)
{
	struct sc_ds_stats stats;

	begin();
	fail_at(1, EIO, SYNCS);
	CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 503);
	CHECK(atomic_load(&fired) > 0);
	CHECK_INT(retry_after_s, 0); /* it may be there when the store is opened again */
	atomic_store(&errnum, 0);
	CHECK_INT(ask(SC_DS_POST, "/a", "three", false), 503);
	CHECK_INT(retry_after_s, 1);
	CHECK_INT(ask(SC_DS_DELETE, "/a", "", false), 503);
	CHECK_STR(content(), "one");
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK(stats.broken);
	CHECK_INT(atomic_load(&troubles), 1);
	reopen();
	CHECK_STR(content(), "one");
	CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 204);
	CHECK_STR(content(), "onetwo");
	verified();
	end();
}

/* A full disk passes: the write is a 503, and the next one may fit. */
TEST(a_full_disk_passes)
{
	begin();
	fail_at(1, ENOSPC, WRITES);
	CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 503);
	CHECK_INT(ask(SC_DS_POST, "/a", "two", true), 503);
	CHECK_INT(retry_after_s, 1);
	CHECK_STR(content(), "one");
	atomic_store(&errnum, 0);
	CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 204);
	CHECK_STR(content(), "onetwo");
	reopen();
	CHECK_STR(content(), "onetwo");
	verified();
	end();
}

/* The store's file may become longer by MORE bytes; negative: as long as it likes. */
static void room(int64_t more)
{
	char path[300];
	struct rlimit limit;
	struct stat st;

	snprintf(path, sizeof(path), "%s/streams.mdb", folder);
	CHECK_INT(stat(path, &st), 0);
	CHECK_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = more < 0 ? limit.rlim_max : (rlim_t)(st.st_size + more);
	CHECK_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk becomes full in the middle of a write, which is cut short: LMDB makes EIO of that. */
TEST(a_disk_that_becomes_full_passes)
{
	static char large[6000001]; /* more than is written ahead */
	struct sc_ds_stats stats;

	signal(SIGXFSZ, SIG_IGN);
	memset(large, 'x', sizeof(large) - 1);
	begin();
	room(100000);
	for (int i = 0; i < 3; i++)
		CHECK_INT(ask(SC_DS_POST, "/a", large, false), 503);
	CHECK_STR(content(), "one");
	CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
	CHECK(!stats.broken);
	CHECK_INT(ask(SC_DS_POST, "/a", "small", false), 204); /* as long as that fits */
	CHECK_INT(ask(SC_DS_PUT, "/b", "", false), 201);
	room(-1);
	CHECK_INT(ask(SC_DS_POST, "/b", large, false), 204);
	reopen();
	CHECK_STR(content(), "onesmall");
	verified();
	end();
}

/* But a failed sync is one, also when the disk is full. */
TEST(a_failed_sync_of_a_full_disk_is_not_tried_again)
{
	static const int kinds[] = { EIO, ENOSPC };

	for (int i = 0; i < 2; i++) {
		struct sc_ds_stats stats;

		begin();
		room(0);
		fail_at(1, kinds[i], SYNCS);
		CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 503);
		atomic_store(&errnum, 0);
		room(-1);
		CHECK_INT(ask(SC_DS_POST, "/a", "three", false), 503);
		CHECK_OK(sc_ds_stats(ds, &stats, &err), &err);
		CHECK(stats.broken);
		reopen();
		CHECK_STR(content(), "one");
		CHECK_INT(ask(SC_DS_POST, "/a", "two", false), 204);
		end();
	}
}

/* The Nth write or sync of a commit, for every N there is, fails for good. */
TEST(any_write_may_fail)
{
	int nth = 0;

	do {
		char want[64] = "one";

		begin();
		fail_at(++nth, EIO, WRITES | SYNCS);
		if (ask(SC_DS_POST, "/a", "two", false) == 204)
			strcat(want, "two");
		if (ask(SC_DS_POST, "/a", "three", false) == 204)
			strcat(want, "three");
		atomic_store(&errnum, 0);
		reopen();
		/* what was answered 503 after its last write is there whole, or not at all */
		if (strcmp(content(), want)) {
			strcat(want, strstr(want, "two") ? "three" : "two");
			CHECK_STR(content(), want);
		}
		verified();
		CHECK_INT(ask(SC_DS_POST, "/a", "four", false), 204);
		end();
	} while (atomic_load(&fired) && nth < 100);
	CHECK(nth > 4 && nth < 100);
}
