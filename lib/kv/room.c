/*
 * room.c: room on the disk, and what a write failed of. LMDB makes EIO of a write that was cut
 * short, which is how a disk becomes full; but a full disk passes, and an EIO of a flush does not:
 * what was written then may be lost without a further word.
 *
 * A transaction whose pages could not be written has changed nothing that anybody sees: its pages
 * are free ones, and whoever takes them next writes them anew. Where the page that makes it visible
 * could not be written, LMDB takes no further transaction (MDB_PANIC).
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "kv/kv_internal.h"

#define ROOM_STEP (1u << 20)
#define PROBE_MORE (64u << 10) /* than the transaction's own: its tree */

static bool is_want_of_room(int rc)
{
	return rc == ENOSPC || rc == EDQUOT || rc == EFBIG;
}

int sc_kv_watch_open(const char *path, mdb_filehandle_t theirs)
{
	struct stat a, b;
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, &a) == 0 && fstat(theirs, &b) == 0 && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return fd;
	sc_close(&fd);
	return -1;
}

/* Whether the file can not become longer by BYTES. Zeros behind its end are what sc_kv_ahead puts
 * there, too. With the lock of the writers. */
static bool is_full(const struct sc_kv *kv, uint64_t bytes)
{
	static const char zeros[1 << 16];
	struct rlimit most;
	struct stat file;
	uint64_t at, end;

	if (fstat(kv->watch_fd, &file) < 0 || getrlimit(RLIMIT_FSIZE, &most) < 0)
		return false;
	at = (uint64_t)file.st_size;
	end = at + bytes + PROBE_MORE;
	if (most.rlim_cur != RLIM_INFINITY && end > most.rlim_cur)
		return true; /* asked by a write, this would be a SIGXFSZ */
	while (at < end) {
		size_t len = end - at < sizeof(zeros) ? (size_t)(end - at) : sizeof(zeros);
		ssize_t n = sc_sys_pwrite(kv->watch_fd, zeros, len, (off_t)at);

		if (n <= 0)
			return n == 0 || is_want_of_room(errno);
		at += (uint64_t)n;
	}
	return false;
}

int sc_kv_why(struct sc_kv *kv, int rc, uint64_t bytes)
{
	MDB_txn *lock = NULL;
	bool full;

	if (kv->watch_fd < 0 || (rc != EIO && !is_want_of_room(rc)))
		return rc;
	/* the system tells each open file once of what it could not write back; LMDB's was told */
	if (sc_sys_fdatasync(kv->watch_fd) < 0)
		return EIO;
	if (rc != EIO)
		return ENOSPC;
	if (mdb_txn_begin(kv->env, NULL, 0, &lock))
		return rc;
	full = is_full(kv, bytes);
	mdb_txn_abort(lock);
	return full ? ENOSPC : rc;
}

/* The disk gives the file room up to END; false: it does not, or the file may not be so long. */
static bool get_room(struct sc_kv *kv, uint64_t from, uint64_t end, uint64_t most)
{
	struct rlimit limit;

	if (end > most || getrlimit(RLIMIT_FSIZE, &limit) < 0 ||
	    (limit.rlim_cur != RLIM_INFINITY && end > limit.rlim_cur))
		return false;
	while (fallocate(kv->watch_fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(end - from)) < 0) {
		if (errno == EINTR)
			continue;
		/* a file system that does not know this says so when it is full */
		if (is_want_of_room(errno))
			return false;
		break;
	}
	kv->room_end = end;
	return true;
}

/*
 * Bytes of pages that a transaction may take inside the file, by LMDB's table of free pages: of
 * each transaction that freed some a row, its number first. Those of the last one are not free
 * before the next one is over.
 */
static uint64_t free_bytes(struct sc_kv *kv, uint64_t last_txn, uint64_t page)
{
	MDB_cursor *cursor = NULL;
	MDB_txn *txn = NULL;
	uint64_t pages = 0;
	MDB_val key, value;
	size_t number, count;

	if (mdb_txn_begin(kv->env, NULL, MDB_RDONLY, &txn))
		return 0;
	if (mdb_cursor_open(txn, 0, &cursor) == 0) {
		while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == 0) {
			if (key.mv_size != sizeof(number) || value.mv_size < sizeof(count))
				break;
			memcpy(&number, key.mv_data, sizeof(number));
			memcpy(&count, value.mv_data, sizeof(count));
			if (number < last_txn)
				pages += count;
		}
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
	return pages * page;
}

int sc_kv_room(struct sc_kv_txn *txn, uint64_t bytes, uint64_t *ret_room, struct sc_err *err)
{
	struct sc_kv *kv = txn->kv;
	uint64_t used, end, room, rounded;
	MDB_envinfo info;
	struct stat file;
	MDB_stat st;

	*ret_room = UINT64_MAX;
	if (kv->watch_fd < 0 || mdb_env_info(kv->env, &info) || mdb_env_stat(kv->env, &st) ||
	    fstat(kv->watch_fd, &file) < 0)
		return 0;
	used = (uint64_t)(info.me_last_pgno + 1) * st.ms_psize;
	end = used + bytes;
	rounded = (end + ROOM_STEP - 1) & ~(uint64_t)(ROOM_STEP - 1);
	if (kv->room_end < (uint64_t)file.st_size)
		kv->room_end = (uint64_t)file.st_size;
	if (kv->room_end < used)
		kv->room_end = used;
	if (end > kv->room_end && !get_room(kv, kv->room_end, rounded, info.me_mapsize))
		(void)get_room(kv, kv->room_end, end, info.me_mapsize);
	room = (kv->room_end < info.me_mapsize ? kv->room_end : info.me_mapsize) - used;
	if (room < bytes)
		room += free_bytes(kv, info.me_last_txnid, st.ms_psize);
	*ret_room = room;
	return room < bytes ? sc_kv_fail(kv, ENOSPC, "cannot write to", err) : 0;
}
