/*
 * fail_preload.c: an LD_PRELOAD shim that fails the Nth call of one kind, also those that
 * libraries make.
 *
 * Allocations are in failmalloc.so alone: a sanitizer wants its own.
 *
 * SC_FAIL=CALL:N[+]:ERRNO:FOLDER:FIRED. CALL is write (and its kin, on files), sync, open,
 * rename, unlink, mmap or malloc; ERRNO a number; with a plus all later calls fail too. Only
 * files below FOLDER count; allocations count from the first of them that is opened. When it
 * fails a call, the file FIRED is made.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char call[16], folder[PATH_MAX], fired[PATH_MAX];
static int errnum;
static bool for_ever, ready;
static atomic_long left;
static atomic_bool counting;

static void *find(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void mark(void)
{
	int (*real_openat)(int, const char *, int, ...);
	int fd;

	*(void **)&real_openat = find("openat");
	fd = real_openat(AT_FDCWD, fired, O_WRONLY | O_CREAT, 0666);
	if (fd >= 0)
		close(fd);
}

static bool fails(const char *name)
{
	static atomic_bool marked;
	long n;

	if (!ready || strcmp(name, call) != 0)
		return false;
	n = atomic_fetch_sub(&left, 1);
	if (n != 1 && !(for_ever && n < 1))
		return false;
	if (!atomic_exchange(&marked, true))
		mark();
	errno = errnum;
	return true;
}

__attribute__((constructor)) static void begin(void)
{
	const char *what = getenv("SC_FAIL");
	long n;
	char plus[2] = "";

	if (!what)
		return;
	if (sscanf(what, "%15[a-z]:%ld%1[+]:%d:%4000[^:]:%4000s", call, &n, plus, &errnum, folder,
		   fired) != 6 &&
	    sscanf(what, "%15[a-z]:%ld:%d:%4000[^:]:%4000s", call, &n, &errnum, folder, fired) != 5)
		abort();
	for_ever = plus[0] == '+';
	atomic_store(&left, n);
	ready = true;
}

static bool path_counts(const char *path)
{
	bool below = ready && strncmp(path, folder, strlen(folder)) == 0;

	if (below)
		atomic_store(&counting, true);
	return below;
}

static bool fd_counts(int fd)
{
	char link[64], path[PATH_MAX];
	int kept = errno;
	ssize_t n;

	if (!ready)
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	errno = kept;
	if (n < 0)
		return false;
	path[n] = 0;
	return path_counts(path);
}

#define OPEN(NAME, DIR, ...) \
	int NAME(__VA_ARGS__, int flags, ...); \
	int NAME(__VA_ARGS__, int flags, ...) \
	{ \
		int (*real)(int, const char *, int, ...); \
		mode_t mode = 0; \
		va_list args; \
		va_start(args, flags); \
		if (flags & O_CREAT) \
			mode = va_arg(args, mode_t); \
		va_end(args); \
		if (path_counts(path) && fails("open")) \
			return -1; \
		*(void **)&real = find("openat"); \
		return real(DIR, path, flags, mode); \
	}
OPEN(open, AT_FDCWD, const char *path)
OPEN(open64, AT_FDCWD, const char *path)
OPEN(openat, dir, int dir, const char *path)
OPEN(openat64, dir, int dir, const char *path)

/* A disk that fills up takes the front of a write: half of it is there. */
#define WRITE(NAME, ARGS, HALF, ALL) \
	ssize_t NAME ARGS \
	{ \
		ssize_t(*real) ARGS; \
		*(void **)&real = find(#NAME); \
		if (fd_counts(fd) && fails("write")) { \
			if (HALF < 0) \
				return -1; \
			errno = errnum; \
			return -1; \
		} \
		return ALL; \
	}
WRITE(write, (int fd, const void *data, size_t len), real(fd, data, len / 2), real(fd, data, len))
WRITE(pwrite, (int fd, const void *data, size_t len, off_t at), real(fd, data, len / 2, at),
      real(fd, data, len, at))
WRITE(pwrite64, (int fd, const void *data, size_t len, off64_t at), real(fd, data, len / 2, at),
      real(fd, data, len, at))
WRITE(writev, (int fd, const struct iovec *iov, int count), 0, real(fd, iov, count))
WRITE(pwritev, (int fd, const struct iovec *iov, int count, off_t at), 0, real(fd, iov, count, at))
WRITE(pwritev64, (int fd, const struct iovec *iov, int count, off64_t at), 0,
      real(fd, iov, count, at))

#define SYNC(NAME) \
	int NAME(int fd) \
	{ \
		int (*real)(int); \
		if (fd_counts(fd) && fails("sync")) \
			return -1; \
		*(void **)&real = find(#NAME); \
		return real(fd); \
	}
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to)
{
	int (*real)(const char *, const char *);

	if (path_counts(from) && fails("rename"))
		return -1;
	*(void **)&real = find("rename");
	return real(from, to);
}

int unlink(const char *path)
{
	int (*real)(const char *);

	if (path_counts(path) && fails("unlink"))
		return -1;
	*(void **)&real = find("unlink");
	return real(path);
}

void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	void *(*real)(void *, size_t, int, int, int, off_t);

	if (fd >= 0 && fd_counts(fd) && fails("mmap"))
		return MAP_FAILED;
	*(void **)&real = find("mmap");
	return real(addr, len, prot, flags, fd, at);
}

#ifdef SC_FAIL_MALLOC
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static bool allocation_fails(void)
{
	return ready && atomic_load(&counting) && fails("malloc");
}

void *malloc(size_t size)
{
	return allocation_fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return allocation_fails() ? NULL : __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	return allocation_fails() ? NULL : __libc_realloc(old, size);
}
#endif
