/* base/file.c: files and descriptors; every write and sync of lib/ passes here, where tests can
 * fail it. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Failure injection: SC_FAULT=CALL:N[+]:ERRNO[,...]. */
enum call {
	CALL_WRITE,
	CALL_PWRITE,
	CALL_FDATASYNC,
	CALL_FSYNC,
	CALL_RENAME,
	CALL_LINK,
	CALL_UNLINK,
	CALL_MALLOC,
	CALLS
};

static const char *const call_names[CALLS] = { "write",  "pwrite", "fdatasync", "fsync",
					       "rename", "link",   "unlink",    "malloc" };
static const struct {
	const char *name;
	int value;
} errnos[] = {
	{ "ENOSPC", ENOSPC }, { "EIO", EIO },     { "ENOMEM", ENOMEM }, { "EROFS", EROFS },
	{ "EACCES", EACCES }, { "EPIPE", EPIPE }, { "EDQUOT", EDQUOT }, { "EINTR", EINTR },
};

struct fault {
	atomic_long left; /* calls until the one that fails */
	bool for_ever;
	int errnum; /* 0 = this call is not failed */
};

static struct fault faults[CALLS];
static atomic_bool armed;

static void arm_one(const char *text, size_t len)
{
	char copy[64], call[32], error[16];
	char plus = 0;
	long nth;

	if (len >= sizeof(copy))
		return;
	memcpy(copy, text, len);
	copy[len] = 0;
	if (sscanf(copy, "%31[a-z]:%ld+%c", call, &nth, &plus) == 3) {
		if (sscanf(copy, "%*[a-z]:%*d+:%15s", error) != 1)
			return;
		plus = 1;
	} else if (sscanf(copy, "%31[a-z]:%ld:%15s", call, &nth, error) == 3) {
		plus = 0;
	} else {
		return;
	}
	for (int c = 0; c < CALLS; c++)
		for (size_t e = 0; e < sizeof(errnos) / sizeof(errnos[0]); e++)
			if (!strcmp(call, call_names[c]) && !strcmp(error, errnos[e].name)) {
				atomic_store(&faults[c].left, nth);
				faults[c].for_ever = plus;
				faults[c].errnum = errnos[e].value;
				atomic_store(&armed, true);
			}
}

__attribute__((constructor)) static void arm(void)
{
	const char *at = getenv("SC_FAULT");

	while (at && *at) {
		size_t len = strcspn(at, ",");

		arm_one(at, len);
		at += len + (at[len] == ',');
	}
}

/* true: this call is to fail, errno is set. */
static bool fails(enum call call)
{
	struct fault *f = &faults[call];
	long left;

	if (!atomic_load_explicit(&armed, memory_order_relaxed) || !f->errnum)
		return false;
	left = atomic_fetch_sub(&f->left, 1);
	if (left != 1 && !(f->for_ever && left < 1))
		return false;
	errno = f->errnum;
	return true;
}

ssize_t sc_sys_write(int fd, const void *data, size_t len)
{
	return fails(CALL_WRITE) ? -1 : write(fd, data, len);
}

ssize_t sc_sys_pwrite(int fd, const void *data, size_t len, off_t at)
{
	if (fails(CALL_PWRITE)) {
		/* a disk that fills up takes the front of a write: leave it torn, as a real one
		 * would */
		int failed = errno;

		if (len > 1 && pwrite(fd, data, len / 2, at) < 0)
			failed = errno;
		errno = failed;
		return -1;
	}
	return pwrite(fd, data, len, at);
}

int sc_sys_fdatasync(int fd)
{
	return fails(CALL_FDATASYNC) ? -1 : fdatasync(fd);
}

int sc_sys_fsync(int fd)
{
	return fails(CALL_FSYNC) ? -1 : fsync(fd);
}

int sc_sys_rename(const char *from, const char *to)
{
	return fails(CALL_RENAME) ? -1 : rename(from, to);
}

int sc_sys_link(const char *from, const char *to)
{
	return fails(CALL_LINK) ? -1 : link(from, to);
}

int sc_sys_unlink(const char *path)
{
	return fails(CALL_UNLINK) ? -1 : unlink(path);
}

void *sc_malloc(size_t size)
{
	return fails(CALL_MALLOC) ? NULL : malloc(size ? size : 1);
}

void *sc_calloc(size_t count, size_t size)
{
	return fails(CALL_MALLOC) ? NULL : calloc(count ? count : 1, size ? size : 1);
}

void *sc_realloc(void *old, size_t size)
{
	return fails(CALL_MALLOC) ? NULL : realloc(old, size ? size : 1);
}

static int code_of(int errnum, int otherwise)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		return SC_E_NOLOG;
	case EACCES:
	case EPERM:
		return SC_E_NOAUTH;
	}
	return otherwise;
}

static int failed(struct sc_err *err, int otherwise, const char *tried, const char *name)
{
	int errnum = errno, code = code_of(errnum, otherwise);

	code = sc_err_sys(err, code, errnum, tried);
	sc_err_on(err, "file", name);
	return code;
}

int sc_write_all(int fd, const void *data, size_t len, const char *name, struct sc_err *err)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = sc_sys_write(fd, p, len);

		/* whoever shares it with us may have made it one that does not wait */
		if (n < 0 && errno == EAGAIN &&
		    poll(&(struct pollfd){ fd, POLLOUT, 0 }, 1, -1) >= 0)
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(err, SC_E_IO, "cannot write", name);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int sc_pwrite_all(int fd, const void *data, size_t len, off_t at, const char *name,
		  struct sc_err *err)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = sc_sys_pwrite(fd, p, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(err, SC_E_IO, "cannot write", name);
		p += n;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int sc_pread_all(int fd, void *ret_data, size_t len, off_t at, size_t *ret_len, const char *name,
		 struct sc_err *err)
{
	char *p = ret_data;
	size_t got = 0;

	while (got < len) {
		ssize_t n = pread(fd, p + got, len - got, at + (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return failed(err, SC_E_IO, "cannot read", name);
		if (n == 0)
			break;
		got += (size_t)n;
	}
	*ret_len = got;
	return 0;
}

int sc_read_file(const char *path, struct sc_bytes *buf, struct sc_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;

	sc_bytes_clear(buf);
	if (fd < 0)
		return failed(err, SC_E_IO, "cannot read", path);
	for (;;) {
		char part[16384];
		ssize_t n = read(fd, part, sizeof(part));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = failed(err, SC_E_IO, "cannot read", path);
			break;
		}
		if (n == 0)
			break;
		rc = sc_bytes_put(buf, part, (size_t)n);
		if (rc < 0 && buf->full) {
			rc = sc_err_set(err, SC_E_DATA, "cannot read",
					"it is larger than %zu bytes", buf->max);
			sc_err_on(err, "file", path);
			break;
		}
		if (rc < 0) {
			rc = sc_err_nomem(err, "cannot read");
			sc_err_on(err, "file", path);
			break;
		}
	}
	close(fd);
	return rc;
}

int sc_sync_dir(const char *path, struct sc_err *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return failed(err, SC_E_IO, "cannot open folder", path);
	if (sc_sys_fsync(fd) < 0)
		rc = failed(err, SC_E_IO, "cannot sync folder", path);
	close(fd);
	return rc;
}

/* The folder that holds PATH, into a buffer of PATH_MAX bytes. */
static int parent_of(const char *path, char *ret_parent)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (!slash) {
		memcpy(ret_parent, ".", 2);
		return 0;
	}
	if (len == 0)
		len = 1; /* "/name" */
	if (len >= PATH_MAX)
		return -1;
	memcpy(ret_parent, path, len);
	ret_parent[len] = 0;
	return 0;
}

int sc_make_parents(const char *path, bool sync, struct sc_err *err)
{
	char folder[PATH_MAX], parent[PATH_MAX];
	size_t len = strlen(path);
	int rc;

	if (len >= sizeof(folder)) {
		sc_err_set(err, SC_E_CANTCREAT, "cannot create", "the name is too long");
		return sc_err_on(err, "file", path);
	}
	memcpy(folder, path, len + 1);
	while (len > 1 && folder[len - 1] == '/')
		folder[--len] = 0;
	for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(folder, 0777) == 0) {
			rc = sync && parent_of(folder, parent) == 0 ? sc_sync_dir(parent, err) : 0;
			if (rc < 0)
				return rc;
		} else if (errno != EEXIST) {
			rc = errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_CANTCREAT;
			rc = sc_err_sys(err, rc, errno, "cannot make the folders of");
			sc_err_on(err, "file", path);
			return rc;
		}
		*slash = '/';
	}
	return 0;
}

/* Who may read the old file may read the new one, whoever replaces it. Best effort: only root may
 * give files away. */
static void keep_rights(int fd, const char *path)
{
	struct stat old, new;

	if (stat(path, &old) < 0 || fstat(fd, &new) < 0)
		return;
	if ((old.st_uid != new.st_uid || old.st_gid != new.st_gid) &&
	    fchown(fd, old.st_uid, old.st_gid) < 0 && fchown(fd, (uid_t)-1, old.st_gid) < 0)
		errno = 0;
	if ((old.st_mode & 0777) != (new.st_mode & 0777) && fchmod(fd, old.st_mode & 0777) < 0)
		errno = 0;
}

int sc_replace_file_by(const char *path,
		       int (*write)(void *arg, int fd, const char *name, struct sc_err *err),
		       void *arg, mode_t mode, bool sync, struct sc_err *err)
{
	char temporary[PATH_MAX], parent[PATH_MAX];
	int n = snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid());
	int fd, rc;

	if (n < 0 || (size_t)n >= sizeof(temporary) || parent_of(path, parent) < 0) {
		rc = sc_err_set(err, SC_E_CANTCREAT, "cannot create", "the name is too long");
		sc_err_on(err, "file", path);
		return rc;
	}
	fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return failed(err, SC_E_CANTCREAT, "cannot create", temporary);
	keep_rights(fd, path);
	rc = write(arg, fd, temporary, err);
	if (rc == 0 && sync && sc_sys_fsync(fd) < 0)
		rc = failed(err, SC_E_IO, "cannot sync", temporary);
	if (close(fd) < 0 && rc == 0)
		rc = failed(err, SC_E_IO, "cannot close", temporary);
	if (rc == 0 && sc_sys_rename(temporary, path) < 0)
		rc = failed(err, SC_E_IO, "cannot replace", path);
	if (rc < 0) {
		unlink(temporary);
		return rc;
	}
	return sync ? sc_sync_dir(parent, err) : 0;
}

static int write_span(void *arg, int fd, const char *name, struct sc_err *err)
{
	const struct sc_span *data = arg;

	return sc_write_all(fd, data->data, data->len, name, err);
}

int sc_replace_file(const char *path, const void *data, size_t len, mode_t mode, bool sync,
		    struct sc_err *err)
{
	struct sc_span span = sc_span(data, len);

	return sc_replace_file_by(path, write_span, &span, mode, sync, err);
}

/* "NAME.PID.tmp"? */
static bool is_temporary(const char *entry, const char *name)
{
	size_t len = strlen(name), digits;

	if (strncmp(entry, name, len) != 0 || entry[len] != '.')
		return false;
	digits = strspn(entry + len + 1, "0123456789");
	return digits && !strcmp(entry + len + 1 + digits, ".tmp");
}

void sc_replace_sweep(const char *path)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	struct dirent *entry;
	DIR *dir = parent_of(path, parent) < 0 ? NULL : opendir(parent);

	while (dir && (entry = readdir(dir)))
		if (is_temporary(entry->d_name, name))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
}

int sc_close(int *fd)
{
	int was = *fd;

	*fd = -1;
	return was < 0 ? 0 : close(was);
}

int sc_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -1;
	return fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
}

int sc_path_base(const char *path, char *ret_name, size_t size)
{
	char real[PATH_MAX];
	const char *last;
	size_t len = strlen(path);

	while (len > 0 && path[len - 1] == '/')
		len--;
	last = memrchr(path, '/', len);
	last = last ? last + 1 : path;
	len -= (size_t)(last - path);
	/* "." and ".." say nothing: ask the file system what they are called */
	if (len == 0 || (len <= 2 && !memcmp(last, "..", len))) {
		if (!realpath(path, real))
			return -1;
		last = strrchr(real, '/') + 1;
		len = strlen(last);
	}
	if (len >= size)
		return -1;
	memcpy(ret_name, last, len);
	ret_name[len] = 0;
	return 0;
}

void sc_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}
