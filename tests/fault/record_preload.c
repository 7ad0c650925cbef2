/*
 * record_preload.c: an LD_PRELOAD shim that writes down every change to one folder, and every
 * acknowledgement.
 *
 * SC_RECORD=FOLDER:TRACE (absolute). A change and its record happen under one lock between all
 * processes, so that the trace has the true order. What the program writes to stdout is an
 * acknowledgement. See trace.h. SC_RECORD_SYNC_MS makes syncs of files in memory as slow as those
 * of a disk.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace.h"

static char root[PATH_MAX];
static size_t root_len;
static int trace_fd = -1;
static unsigned sync_us;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_renameat)(int, const char *, int, const char *);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_mkdirat)(int, const char *, mode_t);
static int (*real_linkat)(int, const char *, int, const char *, int);
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

static void *find(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);

	if (!at) {
		fprintf(stderr, "record: there is no %s\n", name);
		abort();
	}
	return at;
}

static void start(void)
{
	if (real_mmap)
		return;
	*(void **)&real_write = find("write");
	*(void **)&real_pwrite = find("pwrite");
	*(void **)&real_writev = find("writev");
	*(void **)&real_pwritev = find("pwritev");
	*(void **)&real_openat = find("openat");
	*(void **)&real_fsync = find("fsync");
	*(void **)&real_fdatasync = find("fdatasync");
	*(void **)&real_ftruncate = find("ftruncate");
	*(void **)&real_fallocate = find("fallocate");
	*(void **)&real_renameat = find("renameat");
	*(void **)&real_unlinkat = find("unlinkat");
	*(void **)&real_mkdirat = find("mkdirat");
	*(void **)&real_linkat = find("linkat");
	*(void **)&real_mmap = find("mmap");
}

/* A sanitizer makes calls before there is an environment: the trace begins here, not at the first
 * call. */
__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("SC_RECORD"), *slow = getenv("SC_RECORD_SYNC_MS");
	const char *colon = what ? strrchr(what, ':') : NULL;

	start();
	if (slow)
		sync_us = (unsigned)atoi(slow) * 1000;
	if (!colon || colon - what >= PATH_MAX)
		return;
	memcpy(root, what, (size_t)(colon - what));
	root_len = strlen(root);
	trace_fd = real_openat(AT_FDCWD, colon + 1, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
			       0666);
	if (trace_fd < 0)
		abort();
}

static void lock(void)
{
	pthread_mutex_lock(&mutex);
	while (flock(trace_fd, LOCK_EX) < 0 && errno == EINTR)
		;
}

static void unlock(void)
{
	int kept = errno;

	flock(trace_fd, LOCK_UN);
	pthread_mutex_unlock(&mutex);
	errno = kept;
}

static void put(enum rec_kind kind, uint64_t ino, uint64_t at, const char *path,
		const struct iovec *data, int count, size_t len)
{
	struct rec head = { .kind = kind,
			    .pid = (uint32_t)getpid(),
			    .ino = ino,
			    .at = at,
			    .path_len = path ? (uint32_t)strlen(path) : 0,
			    .data_len = (uint32_t)len };
	size_t size = sizeof(head) + head.path_len + len, pos = sizeof(head) + head.path_len;
	int kept = errno;
	char *buf = malloc(size);

	if (!buf)
		abort();
	memcpy(buf, &head, sizeof(head));
	if (path)
		memcpy(buf + sizeof(head), path, head.path_len);
	for (int i = 0; i < count && len > 0; i++) {
		size_t n = data[i].iov_len < len ? data[i].iov_len : len;

		if (n)
			memcpy(buf + pos, data[i].iov_base, n);
		pos += n;
		len -= n;
	}
	if (real_write(trace_fd, buf, size) != (ssize_t)size)
		abort();
	free(buf);
	errno = kept;
}

static void put_text(enum rec_kind kind, const char *path, const char *text)
{
	struct iovec iov = { (void *)(uintptr_t)text, strlen(text) };

	put(kind, 0, 0, path, &iov, 1, iov.iov_len);
}

static const char *below_root(const char *path)
{
	if (trace_fd < 0 || strncmp(path, root, root_len) != 0)
		return NULL;
	if (path[root_len] == 0)
		return ".";
	return path[root_len] == '/' ? path + root_len + 1 : NULL;
}

/* The path of an open descriptor below the folder, or NULL. */
static const char *fd_path(int fd, char buf[PATH_MAX])
{
	char link[64];
	int kept = errno;
	ssize_t n;

	if (trace_fd < 0 || fd < 0)
		return NULL;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, buf, PATH_MAX - 1);
	errno = kept;
	if (n < 0)
		return NULL;
	buf[n] = 0;
	return below_root(buf);
}

/* A path as given to a call, made absolute without following its last part. */
static const char *full_path(int dir, const char *given, char buf[PATH_MAX])
{
	char joined[2 * PATH_MAX], base[PATH_MAX], real[PATH_MAX], *slash;
	int kept = errno;
	const char *found = NULL;

	if (trace_fd < 0)
		return NULL;
	if (given[0] == '/') {
		snprintf(joined, sizeof(joined), "%s", given);
	} else {
		char link[64];
		ssize_t n;

		snprintf(link, sizeof(link),
			 dir == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", dir);
		n = readlink(link, base, sizeof(base) - 1);
		if (n < 0)
			goto out;
		base[n] = 0;
		snprintf(joined, sizeof(joined), "%s/%s", base, given);
	}
	for (size_t len = strlen(joined); len > 1 && joined[len - 1] == '/'; len--)
		joined[len - 1] = 0;
	slash = strrchr(joined, '/');
	*slash = 0;
	if (!realpath(slash == joined ? "/" : joined, real))
		goto out;
	if (snprintf(buf, PATH_MAX, "%s/%s", strcmp(real, "/") ? real : "", slash + 1) < PATH_MAX)
		found = below_root(buf);
out:
	errno = kept;
	return found;
}

static bool is_lock_file(const char *path)
{
	size_t len = strlen(path);

	return len > 5 && (!strcmp(path + len - 5, "-lock") || !strcmp(path + len - 5, ".lock"));
}

/* A regular file below the folder whose content counts: its inode. What is in a lock file tells
 * nothing after the machine ended. */
static bool tracked(int fd, uint64_t *ret_ino)
{
	char buf[PATH_MAX];
	const char *path = fd_path(fd, buf);
	struct stat st;

	if (!path || is_lock_file(path) || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	*ret_ino = (uint64_t)st.st_ino;
	return true;
}

static int do_open(int dir, const char *given, int flags, mode_t mode)
{
	char full[PATH_MAX];
	const char *path;
	struct stat before, after;
	bool existed;
	int fd;

	start();
	path = flags & (O_CREAT | O_TRUNC) ? full_path(dir, given, full) : NULL;
	if (!path || is_lock_file(path))
		return real_openat(dir, given, flags, mode);
	lock();
	existed = stat(full, &before) == 0;
	fd = real_openat(dir, given, flags, mode);
	if (fd >= 0 && fstat(fd, &after) == 0 && S_ISREG(after.st_mode)) {
		if (!existed)
			put(REC_CREATE, (uint64_t)after.st_ino, 0, path, NULL, 0, 0);
		else if (flags & O_TRUNC)
			put(REC_SIZE, (uint64_t)after.st_ino, 0, NULL, NULL, 0, 0);
		if ((flags & O_TMPFILE) == O_TMPFILE)
			put_text(REC_ODD, path, "O_TMPFILE");
	}
	unlock();
	return fd;
}

static mode_t mode_of(int flags, va_list args)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

/* NAME(PATH, ...), or NAME(DIR, PATH, ...). */
#define OPENS(NAME, DIR, ...) \
	int NAME(__VA_ARGS__, int flags, ...); \
	int NAME(__VA_ARGS__, int flags, ...) \
	{ \
		va_list args; \
		mode_t mode; \
		va_start(args, flags); \
		mode = mode_of(flags, args); \
		va_end(args); \
		return do_open(DIR, path, flags, mode); \
	}
#define OPEN(NAME) OPENS(NAME, AT_FDCWD, const char *path)
#define OPENAT(NAME) OPENS(NAME, dir, int dir, const char *path)
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags)
{
	return do_open(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags);
int __open64_2(const char *path, int flags)
{
	return do_open(AT_FDCWD, path, flags, 0);
}

int creat(const char *path, mode_t mode)
{
	return do_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode);
int creat64(const char *path, mode_t mode)
{
	return creat(path, mode);
}

/* AT < 0: at the descriptor's own position. */
static ssize_t do_writev(int fd, const struct iovec *iov, int count, off_t at)
{
	uint64_t ino, to;
	bool mine;
	ssize_t n;

	start();
	mine = tracked(fd, &ino);
	if (trace_fd < 0 || (!mine && fd != STDOUT_FILENO))
		return at < 0 ? real_writev(fd, iov, count) : real_pwritev(fd, iov, count, at);
	lock();
	n = at < 0 ? real_writev(fd, iov, count) : real_pwritev(fd, iov, count, at);
	if (n > 0 && mine) {
		to = (uint64_t)(at < 0 ? lseek(fd, 0, SEEK_CUR) - n : at);
		put(REC_WRITE, ino, to, NULL, iov, count, (size_t)n);
		if (fcntl(fd, F_GETFL) & O_DSYNC)
			put(REC_DSYNC, ino, to, NULL, NULL, 0, 0);
	} else if (n > 0)
		put(REC_ACK, 0, 0, NULL, iov, count, (size_t)n);
	unlock();
	return n;
}

ssize_t write(int fd, const void *data, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };

	return do_writev(fd, &iov, 1, -1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
	struct iovec iov = { (void *)(uintptr_t)data, len };

	return do_writev(fd, &iov, 1, at);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
	return pwrite(fd, data, len, at);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
	return do_writev(fd, iov, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *iov, int count, off_t at)
{
	return do_writev(fd, iov, count, at);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int count, off64_t at)
{
	return do_writev(fd, iov, count, at);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int count, off_t at, int flags)
{
	(void)flags;
	return do_writev(fd, iov, count, at);
}

static int do_sync(int fd, int (*sync_it)(int))
{
	char buf[PATH_MAX];
	const char *path;
	struct stat st;
	int rc;

	path = fd_path(fd, buf);
	if (!path || fstat(fd, &st) < 0)
		return sync_it(fd);
	usleep(sync_us);
	lock();
	rc = sync_it(fd);
	if (rc == 0 && S_ISDIR(st.st_mode))
		put(REC_DIRSYNC, 0, 0, path, NULL, 0, 0);
	else if (rc == 0)
		put(REC_SYNC, (uint64_t)st.st_ino, 0, NULL, NULL, 0, 0);
	unlock();
	return rc;
}

int fsync(int fd)
{
	start();
	return do_sync(fd, real_fsync);
}

int fdatasync(int fd)
{
	start();
	return do_sync(fd, real_fdatasync);
}

int ftruncate(int fd, off_t size)
{
	uint64_t ino;
	int rc;

	start();
	if (!tracked(fd, &ino))
		return real_ftruncate(fd, size);
	lock();
	rc = real_ftruncate(fd, size);
	if (rc == 0)
		put(REC_SIZE, ino, (uint64_t)size, NULL, NULL, 0, 0);
	unlock();
	return rc;
}

int ftruncate64(int fd, off64_t size)
{
	return ftruncate(fd, size);
}

static int do_fallocate(int fd, int mode, off_t at, off_t len)
{
	uint64_t ino;
	struct stat st;
	int rc;

	start();
	if (!tracked(fd, &ino))
		return real_fallocate(fd, mode, at, len);
	lock();
	rc = real_fallocate(fd, mode, at, len);
	if (rc == 0 && mode != 0 && mode != FALLOC_FL_KEEP_SIZE)
		put_text(REC_ODD, NULL, "fallocate that changes content");
	else if (rc == 0 && fstat(fd, &st) == 0)
		put(REC_SIZE, ino, (uint64_t)st.st_size, NULL, NULL, 0, 0);
	unlock();
	return rc;
}

int fallocate(int fd, int mode, off_t at, off_t len)
{
	return do_fallocate(fd, mode, at, len);
}

int fallocate64(int fd, int mode, off64_t at, off64_t len)
{
	return do_fallocate(fd, mode, at, len);
}

int posix_fallocate(int fd, off_t at, off_t len)
{
	return do_fallocate(fd, 0, at, len) < 0 ? errno : 0;
}

static int do_rename(int from_dir, const char *from, int to_dir, const char *to)
{
	char from_full[PATH_MAX], to_full[PATH_MAX];
	const char *old, *new;
	int rc;

	start();
	old = full_path(from_dir, from, from_full);
	new = full_path(to_dir, to, to_full);
	if ((!old && !new) || (old && new &&is_lock_file(old) && is_lock_file(new)))
		return real_renameat(from_dir, from, to_dir, to);
	lock();
	rc = real_renameat(from_dir, from, to_dir, to);
	if (rc == 0 && old && new)
		put_text(REC_RENAME, old, new);
	else if (rc == 0)
		put_text(REC_ODD, NULL, "rename across the folder");
	unlock();
	return rc;
}

int rename(const char *from, const char *to)
{
	return do_rename(AT_FDCWD, from, AT_FDCWD, to);
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
	return do_rename(from_dir, from, to_dir, to);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	if (flags & ~1u) { /* RENAME_NOREPLACE is a rename once it succeeded */
		errno = EINVAL;
		return -1;
	}
	if (flags && faccessat(to_dir, to, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		errno = EEXIST;
		return -1;
	}
	return do_rename(from_dir, from, to_dir, to);
}

/* One call that takes a path: KIND is recorded when it succeeds. */
#define PATH_CALL(KIND, DIR, GIVEN, CALL) \
	do { \
		char full_[PATH_MAX]; \
		const char *path_; \
		int rc_; \
		start(); \
		path_ = full_path(DIR, GIVEN, full_); \
		if (!path_ || is_lock_file(path_)) \
			return CALL; \
		lock(); \
		rc_ = CALL; \
		if (rc_ == 0) \
			put(KIND, 0, 0, path_, NULL, 0, 0); \
		unlock(); \
		return rc_; \
	} while (0)

int unlinkat(int dir, const char *given, int flags)
{
	PATH_CALL(flags & AT_REMOVEDIR ? REC_RMDIR : REC_UNLINK, dir, given,
		  real_unlinkat(dir, given, flags));
}

int unlink(const char *given)
{
	return unlinkat(AT_FDCWD, given, 0);
}

int rmdir(const char *given)
{
	return unlinkat(AT_FDCWD, given, AT_REMOVEDIR);
}

int remove(const char *given)
{
	struct stat st;

	return unlinkat(AT_FDCWD, given,
			lstat(given, &st) == 0 && S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
}

int mkdirat(int dir, const char *given, mode_t mode)
{
	PATH_CALL(REC_MKDIR, dir, given, real_mkdirat(dir, given, mode));
}

int mkdir(const char *given, mode_t mode)
{
	return mkdirat(AT_FDCWD, given, mode);
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
	char from_full[PATH_MAX], to_full[PATH_MAX];
	const char *old, *new;
	struct stat st;
	int rc;

	start();
	old = full_path(from_dir, from, from_full);
	new = full_path(to_dir, to, to_full);
	if (!old && !new)
		return real_linkat(from_dir, from, to_dir, to, flags);
	lock();
	rc = real_linkat(from_dir, from, to_dir, to, flags);
	if (rc == 0 && old && new &&lstat(from_full, &st) == 0)
		put(REC_LINK, (uint64_t)st.st_ino, 0, new, NULL, 0, 0);
	else if (rc == 0)
		put_text(REC_ODD, NULL, "a link across the folder");
	unlock();
	return rc;
}

int link(const char *from, const char *to)
{
	return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

static void *do_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	uint64_t ino;

	start();
	if ((flags & MAP_SHARED) && (prot & PROT_WRITE) && tracked(fd, &ino)) {
		lock();
		put_text(REC_ODD, NULL, "a file mapped for writing");
		unlock();
	}
	return real_mmap(addr, len, prot, flags, fd, at);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	return do_mmap(addr, len, prot, flags, fd, at);
}

void *mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t at)
{
	return do_mmap(addr, len, prot, flags, fd, at);
}
