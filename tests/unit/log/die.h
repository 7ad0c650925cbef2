/*
 * tests/unit/log/die.h: a program that dies, or fails, at any of its writes, syncs, renames and
 * unlinks: this program's own stand before libc's, also for LMDB. And a log copied without its
 * index.
 *
 * Set `how` and `left` (calls until the one that is the last), then `counting`; `counted` says how
 * many there were. A process that dies so has the status 9.
 */
#ifndef SC_TESTS_LOG_DIE_H
#define SC_TESTS_LOG_DIE_H

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "help.h"

enum how { DIE, TEAR, FAIL_ONCE };
static bool counting;
static enum how how;
static long left; /* calls until the one that is the last */
static long counted;

/* 0: go on; 1: tear it; -1: it fails. Dies here. */
static int call(bool write)
{
	if (!counting)
		return 0;
	counted++;
	if (--left != 0)
		return 0;
	if (how == FAIL_ONCE) {
		errno = EIO;
		return -1;
	}
	if (how == TEAR && write)
		return 1;
	_exit(9);
}

static ssize_t torn(int fd, const void *data, size_t len, off_t at)
{
	long n = syscall(SYS_pwrite64, fd, data, len / 2, at);

	_exit(n < 0 ? 10 : 9);
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

static void copy_folder(const char *from, const char *to)
{
	DIR *dir = opendir(from);
	struct dirent *entry;
	char a[700], b[700];

	mkdir(to, 0777);
	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(a, sizeof(a), "%.400s/%.255s", from, entry->d_name);
		snprintf(b, sizeof(b), "%.400s/%.255s", to, entry->d_name);
		copy_file(a, b);
	}
	if (dir)
		closedir(dir);
}

/* A log without its index, to another place. */
static void copy_log(const char *from, const char *to)
{
	static const char *const folders[] = { "journal", "sealed" };
	char a[700], b[700];

	remove_tree(to);
	mkdir(to, 0777);
	snprintf(a, sizeof(a), "%s/log.json", from);
	snprintf(b, sizeof(b), "%s/log.json", to);
	copy_file(a, b);
	for (size_t i = 0; i < 2; i++) {
		snprintf(a, sizeof(a), "%s/%s", from, folders[i]);
		snprintf(b, sizeof(b), "%s/%s", to, folders[i]);
		if (access(a, F_OK) == 0)
			copy_folder(a, b);
	}
}

#endif
