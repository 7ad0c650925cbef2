/*
 * tests/unit/log/die.h: a process that dies, or fails, at any of its calls that change a file: this
 * program's own stand before libc's, also for LMDB. And a log put back as it was, without its
 * index.
 *
 * each_call(HOW, BEFORE, RUN, AFTER): RUN lives in a process of its own once for each of its calls,
 * dies or fails at that one, and AFTER checks what it left; BEFORE sets up. RUN says what counts:
 * `counting` is true while its calls do. It returns 0 or a negative code; a failure is one only
 * where no call was made to fail. Whoever forks by himself sets `how`, `left` and `counting`.
 */
#ifndef SC_TESTS_LOG_DIE_H
#define SC_TESTS_LOG_DIE_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "help.h"

enum how {
	DIE,       /* before the call */
	TEAR,      /* in the middle of a write; other calls do not count: that is DIE again */
	FAIL_ONCE, /* the call fails with EIO, and the process goes on */
};
static bool counting;
static enum how how;
static long left; /* calls until the one that is the last */

enum { CHECK_FAILED = 1, THROUGH = 2, FAILED = 3, DIED = 9 }; /* a child's status */

/* 0: go on; 1: tear it; -1: it fails. Dies here. */
static int call(bool write)
{
	if (!counting || (how == TEAR && !write))
		return 0;
	if (--left != 0)
		return 0;
	if (how == FAIL_ONCE) {
		errno = EIO;
		return -1;
	}
	if (how == TEAR)
		return 1;
	_exit(DIED);
}

static ssize_t torn(int fd, const void *data, size_t len, off_t at)
{
	long n = syscall(SYS_pwrite64, fd, data, len / 2, at);

	_exit(n < 0 ? 10 : DIED);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t at)
{
	int c = call(true);

	return c < 0 ? -1 : c ? torn(fd, data, len, at) : syscall(SYS_pwrite64, fd, data, len, at);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
	return pwrite64(fd, data, len, at);
}

ssize_t pwritev(int fd, const struct iovec *v, int count, off_t at)
{
	return call(false) < 0 ? -1 : syscall(SYS_pwritev, fd, v, count, at, 0);
}

ssize_t writev(int fd, const struct iovec *v, int count)
{
	return call(false) < 0 ? -1 : syscall(SYS_writev, fd, v, count);
}

ssize_t write(int fd, const void *data, size_t len)
{
	return call(false) < 0 ? -1 : syscall(SYS_write, fd, data, len);
}

int fsync(int fd)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_rename, from, to);
}

int link(const char *from, const char *to)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_link, from, to);
}

int unlink(const char *path)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_unlink, path);
}

int ftruncate(int fd, off_t size)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_ftruncate, fd, size);
}

int mkdir(const char *path, mode_t mode)
{
	return call(false) < 0 ? -1 : (int)syscall(SYS_mkdir, path, mode);
}

/* RUN in a process of its own that dies, or whose call fails, at the NTH. False: it makes fewer. */
static inline bool dies_at(enum how h, long nth, int (*run)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (setjmp(sc_test_out))
			_exit(CHECK_FAILED); /* and said so */
		how = h;
		left = nth;
		status = run();
		counting = false;
		if (left > 0)
			CHECK_OK(status, &err);
		_exit(left > 0 ? THROUGH : FAILED);
	}
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) != THROUGH)
		CHECK_INT(WEXITSTATUS(status), h == FAIL_ONCE ? FAILED : DIED);
	return WEXITSTATUS(status) != THROUGH;
}

/* How many calls there were, at least AT_LEAST: a test that does nothing proves nothing. AFTER is
 * told when RUN got through. */
static inline void each_call(enum how h, long at_least, void (*before)(void), int (*run)(void),
			     void (*after)(bool through))
{
	static long nth; /* static: longjmp leaves them alone */
	static bool through;

	for (nth = 1, through = false; !through; nth++) {
		before();
		through = !dies_at(h, nth, run);
		after(through);
		CHECK(nth < 2000);
	}
	printf("# %ld calls\n", nth - 2);
	CHECK(nth - 2 >= at_least);
}

/* A log without its index, to another place. */
static inline void copy_log(const char *from, const char *to)
{
	static const char *const parts[] = { "log.json", "journal", "sealed" };
	char a[700], b[700];

	remove_tree(to);
	mkdir(to, 0777);
	for (size_t i = 0; i < 3; i++) {
		snprintf(a, sizeof(a), "%s/%s", from, parts[i]);
		snprintf(b, sizeof(b), "%s/%s", to, parts[i]);
		if (access(a, F_OK) == 0)
			copy_tree(a, b);
	}
}

static char template[256];

/* The log as it is now is what as_kept() puts back, without an index. */
static inline void keep(void)
{
	snprintf(template, sizeof(template), "%s/template", log_dir);
	copy_log(log_path, template);
}

static inline void as_kept(void)
{
	copy_log(template, log_path);
}

/* RUN on the log's files alone, in a copy that has no index. */
static inline void without_index(void (*run)(void))
{
	char kept[sizeof(log_path)];

	snprintf(kept, sizeof(kept), "%s", log_path);
	snprintf(log_path, sizeof(log_path), "%s/copy", log_dir);
	copy_log(kept, log_path);
	run();
	snprintf(log_path, sizeof(log_path), "%s", kept);
}

#endif
