/*
 * room.c: what a write failed of. LMDB makes EIO of a write that was cut short, which is how a disk
 * becomes full; but a full disk passes, and an EIO of a flush does not: what was written then may
 * be lost without a further word.
 *
 * A transaction whose pages could not be written has changed nothing that anybody sees: its pages
 * are free ones, and whoever takes them next writes them anew. Where the page that makes it visible
 * could not be written, LMDB takes no further transaction (MDB_PANIC).
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "kv/kv_internal.h"

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
