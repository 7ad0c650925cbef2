/*
 * store/folder.c: objects as files below a folder.
 *
 * A write goes to a temporary name beside its place, is synced and read back, and then gets its
 * name by link (which refuses a name that is taken) or rename; the folder is synced after that. A
 * crash leaves at most a temporary, ".NAME.XXXXXXXX.tmp", which no listing shows. Whoever replaces
 * or deletes holds a lock on ".sc-lock" in the store's folder, so that "is it still that version"
 * and "replace it" are one step. A version is a file: inode, size and time of change; of two
 * versions of a name the later always has the later time.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/store_internal.h"

#define CHUNK (256u << 10)

static int failed(struct sc_store *store, const char *key, int errnum, const char *tried,
		  struct sc_err *err)
{
	int code = errnum == ENOENT || errnum == ENOTDIR ? SC_E_NOLOG
		   : errnum == EACCES || errnum == EPERM ? SC_E_NOAUTH
							 : SC_E_IO;

	if (code == SC_E_NOLOG)
		sc_err_set(err, code, tried, "no such object");
	else
		code = sc_err_sys(err, code, errnum, tried);
	sc_store_on(store, key, err);
	return code;
}

/* ROOT/KEY into a buffer of PATH_MAX bytes. */
static int path_of(struct sc_store *store, const char *key, char *ret_path, struct sc_err *err)
{
	int n = snprintf(ret_path, PATH_MAX, "%s%s%s", store->place.path,
			 store->place.path[1] ? "/" : "", key);

	if (n > 0 && n < PATH_MAX)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot use key", "the path is too long");
	sc_store_on(store, key, err);
	return SC_E_USAGE;
}

static int64_t time_of(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
}

static void info_of(const struct stat *st, struct sc_store_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->size = (uint64_t)st->st_size;
	ret_info->modified_us = time_of(st);
	snprintf(ret_info->etag, sizeof(ret_info->etag), "\"%llx-%llx-%llx\"",
		 (unsigned long long)st->st_ino, (unsigned long long)st->st_size,
		 (unsigned long long)st->st_mtim.tv_sec * 1000000000 +
			 (unsigned long long)st->st_mtim.tv_nsec);
}

/* An archive on a disk that is not mounted must not grow on the disk below it: the folder is never
 * made here. */
static int need_root(struct sc_store *store, struct sc_err *err)
{
	struct stat st;

	if (stat(store->place.path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	sc_err_set(err, SC_E_NOLOG, "cannot use", "there is no such folder");
	sc_store_on(store, "", err);
	sc_err_next(err, "make the folder, or mount the disk that holds it");
	return SC_E_NOLOG;
}

/* --- reading
 * ------------------------------------------------------------------------------------------------- */

static int open_object(struct sc_store *store, const char *key, const char *tried, int *ret_fd,
		       struct stat *ret_st, struct sc_err *err)
{
	char path[PATH_MAX];
	int rc = path_of(store, key, path, err), fd;

	if (rc < 0)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO does not hold us up */
	if (fd < 0) {
		rc = failed(store, key, errno, tried, err);
		return rc == SC_E_NOLOG && need_root(store, NULL) < 0 ? need_root(store, err) : rc;
	}
	if (fstat(fd, ret_st) < 0) {
		rc = failed(store, key, errno, tried, err);
	} else if (!S_ISREG(ret_st->st_mode)) {
		rc = sc_err_set(err, SC_E_NOLOG, tried, "it is no file");
		sc_store_on(store, key, err);
	}
	if (rc < 0) {
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

static int folder_head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		       struct sc_err *err)
{
	struct stat st;
	int fd, rc = open_object(store, key, "cannot look for", &fd, &st, err);

	if (rc < 0)
		return rc;
	close(fd);
	info_of(&st, ret_info);
	return 0;
}

static int folder_read(struct sc_store *store, const char *key, const struct sc_window *w,
		       void *ret_data, size_t *ret_len, struct sc_store_info *ret_info,
		       struct sc_err *err)
{
	struct stat st;
	uint64_t at = w->at;
	int fd, rc = open_object(store, key, "cannot read", &fd, &st, err);

	if (rc < 0)
		return rc;
	if (w->tail)
		at = (uint64_t)st.st_size > w->len ? (uint64_t)st.st_size - w->len : 0;
	*ret_len = 0;
	if (at < (uint64_t)st.st_size)
		rc = sc_pread_all(fd, ret_data, w->len, (off_t)at, ret_len, key, err);
	if (rc < 0)
		sc_store_on(store, key, err);
	close(fd);
	if (rc == 0)
		info_of(&st, ret_info);
	return rc;
}

/* --- writing
 * ------------------------------------------------------------------------------------------------- */

static int sync_folder(struct sc_store *store, const char *key, const char *path, size_t len,
		       struct sc_err *err)
{
	char folder[PATH_MAX];
	int rc;

	memcpy(folder, path, len);
	folder[len] = 0;
	rc = sc_sync_dir(len ? folder : "/", err);
	if (rc < 0)
		sc_store_on(store, key, err);
	return rc;
}

/*
 * The folders between the store's own and the object's, each on disk before what is in it. One that
 * is there may have been made by a process that died before it synced: so all are synced, once a
 * handle for each run of writes to one folder.
 */
static int make_folders(struct sc_store *store, const char *key, const char *path,
			struct sc_err *err)
{
	char folder[PATH_MAX];
	size_t root = strlen(path) - strlen(key), own = (size_t)(strrchr(path, '/') - path);

	if (store->synced && strlen(store->synced) == own && !memcmp(store->synced, path, own))
		return 0;
	for (const char *slash = strchr(path + root, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t len = (size_t)(slash - path),
		       above = (size_t)((const char *)memrchr(path, '/', len) - path);
		int rc;

		memcpy(folder, path, len);
		folder[len] = 0;
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			return failed(store, key, errno, "cannot make a folder for", err);
		rc = sync_folder(store, key, path, above, err);
		if (rc < 0)
			return rc;
	}
	free(store->synced);
	store->synced = strndup(path, own); /* without memory it is done again, no more */
	return 0;
}

struct temporary {
	char path[PATH_MAX];
	int fd;
	struct sc_sums sums;
};

static int temporary_open(struct sc_store *store, const char *key, const char *path,
			  struct temporary *t, struct sc_err *err)
{
	const char *name = strrchr(path, '/') + 1;
	uint32_t random;
	int n;

	sc_random(&random, sizeof(random));
	n = snprintf(t->path, sizeof(t->path), "%.*s.%.200s.%08x.tmp", (int)(name - path), path,
		     name, (unsigned)random);
	if (n < 0 || (size_t)n >= sizeof(t->path))
		return failed(store, key, ENAMETOOLONG, "cannot put", err);
	t->fd = open(t->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	return t->fd < 0 ? failed(store, key, errno, "cannot put", err) : 0;
}

static int temporary_fill(struct sc_store *store, const char *key, struct temporary *t,
			  const struct sc_source *source, struct sc_err *err)
{
	struct sc_digest *digest = NULL;
	char *chunk = sc_malloc(CHUNK);
	int rc = chunk ? sc_digest_new(&digest, err) : sc_err_nomem(err, "cannot put");

	for (uint64_t at = 0; rc == 0 && at < source->len;) {
		size_t want = source->len - at < CHUNK ? (size_t)(source->len - at) : CHUNK,
		       got = want;
		const char *data = source->fd < 0 ? source->data + at : chunk;

		if (source->fd >= 0)
			rc = sc_pread_all(source->fd, chunk, want, (off_t)(source->at + at), &got,
					  "to upload", err);
		if (rc == 0 && got < want)
			rc = sc_err_set(err, SC_E_DATA, "cannot put",
					"the file became shorter meanwhile");
		if (rc == 0)
			rc = sc_digest_put(digest, data, want, err);
		if (rc == 0)
			rc = sc_pwrite_all(t->fd, data, want, (off_t)at, t->path, err);
		if (rc == 0 && store->settings.stop &&
		    store->settings.stop(store->settings.stop_arg))
			rc = sc_err_set(err, SC_E_TIMEOUT, "cannot put", "stopped on request");
		at += want;
	}
	if (rc == 0)
		rc = sc_digest_end(digest, &t->sums, err);
	sc_digest_free(digest);
	free(chunk);
	if (rc < 0)
		sc_store_on(store, key, err);
	return rc;
}

/* On disk, and read back from there. */
static int temporary_prove(struct sc_store *store, const char *key, struct temporary *t,
			   uint64_t size, struct sc_err *err)
{
	struct sc_sums sums;
	struct stat st;
	int rc;

	if (sc_sys_fsync(t->fd) < 0)
		return failed(store, key, errno, "cannot sync", err);
	if (fstat(t->fd, &st) < 0)
		return failed(store, key, errno, "cannot verify", err);
	posix_fadvise(t->fd, 0, 0, POSIX_FADV_DONTNEED);
	rc = sc_digest_fd(t->fd, 0, size, &sums, err);
	if (rc == 0 && ((uint64_t)st.st_size != size ||
			memcmp(sums.sha256, t->sums.sha256, sizeof(sums.sha256)) != 0))
		rc = sc_err_set(err, SC_E_DATA, "cannot verify",
				"the disk gives other bytes than were written");
	if (rc < 0)
		sc_store_on(store, key, err);
	return rc;
}

/* Waits for the lock; *RET_FD holds it until it is closed. */
static int lock(struct sc_store *store, const char *key, int *ret_fd, struct sc_err *err)
{
	char path[PATH_MAX];
	int64_t end = sc_mono_us() + store->settings.retry_for_ms * 1000;
	int rc = path_of(store, ".sc-lock", path, err), fd;

	if (rc < 0)
		return rc;
	fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0 && errno == EACCES) /* another user's: it can be locked all the same */
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(store, key, errno, "cannot lock the folder of", err);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		int errnum = errno;
		bool wait = errnum == EWOULDBLOCK || errnum == EINTR;

		if (wait && sc_mono_us() < end && sc_request_wait(&store->settings, 10))
			continue;
		if (wait) {
			rc = sc_err_set(err, SC_E_TIMEOUT, "cannot lock the folder of",
					"another process holds its lock");
			sc_store_on(store, key, err);
		} else {
			rc = failed(store, key, errnum, "cannot lock the folder of", err);
		}
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

static int busy(struct sc_store *store, const char *key, const char *why, struct sc_err *err)
{
	sc_err_set(err, SC_E_BUSY, "cannot put", "%s", why);
	sc_store_on(store, key, err);
	return SC_E_BUSY;
}

/* The name is given once: to whoever comes first. */
static int publish_new(struct sc_store *store, const char *key, struct temporary *t,
		       const char *path, struct sc_err *err)
{
	if (sc_sys_link(t->path, path) == 0) {
		if (sc_sys_unlink(t->path) == 0)
			t->path[0] = 0;
		return 0;
	}
	if (errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK) {
		/* a file system without links */
		if (renameat2(AT_FDCWD, t->path, AT_FDCWD, path, RENAME_NOREPLACE) == 0) {
			t->path[0] = 0;
			return 0;
		}
		if (errno == EINVAL || errno == ENOSYS) {
			sc_err_set(
				err, SC_E_CONFIG, "cannot put",
				"this file system can neither link nor rename without overwriting");
			sc_store_on(store, key, err);
			return SC_E_CONFIG;
		}
	}
	if (errno == EEXIST)
		return busy(store, key, "it is there already", err);
	return failed(store, key, errno, "cannot put", err);
}

/* A later version has a later time, also within one tick of the file system's clock. */
static int age_beyond(const struct stat *old, int fd)
{
	struct timespec times[2] = { { 0, UTIME_OMIT }, old->st_mtim };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	if (st.st_mtim.tv_sec > old->st_mtim.tv_sec ||
	    (st.st_mtim.tv_sec == old->st_mtim.tv_sec && st.st_mtim.tv_nsec > old->st_mtim.tv_nsec))
		return 0;
	if (++times[1].tv_nsec == 1000000000) {
		times[1].tv_nsec = 0;
		times[1].tv_sec++;
	}
	return futimens(fd, times) == 0 && sc_sys_fsync(fd) == 0 ? 0 : -1;
}

static int publish_over(struct sc_store *store, const char *key, struct temporary *t,
			const char *path, const char *only_if, struct sc_err *err)
{
	struct sc_store_info info;
	struct stat st;
	int held = -1, rc = lock(store, key, &held, err);
	bool there;

	if (rc < 0)
		return rc;
	there = stat(path, &st) == 0;
	if (there)
		info_of(&st, &info);
	if (!there && errno != ENOENT)
		rc = failed(store, key, errno, "cannot put", err);
	else if (!there && only_if)
		rc = busy(store, key, "it is not there any more", err);
	else if (there && only_if && strcmp(info.etag, only_if) != 0)
		rc = busy(store, key, "it was replaced meanwhile", err);
	else if (there && age_beyond(&st, t->fd) < 0)
		rc = failed(store, key, errno, "cannot put", err);
	else if (sc_sys_rename(t->path, path) < 0)
		rc = failed(store, key, errno, "cannot put", err);
	else
		t->path[0] = 0;
	sc_close(&held);
	return rc;
}

static int folder_put(struct sc_store *store, const char *key, const struct sc_source *source,
		      const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct temporary t = { .fd = -1 };
	char path[PATH_MAX];
	struct stat st;
	int rc = path_of(store, key, path, err);

	if (rc == 0)
		rc = need_root(store, err);
	if (rc == 0 && only_if && !strcmp(only_if, "*") && lstat(path, &st) == 0)
		return busy(store, key, "it is there already", err);
	if (rc == 0)
		rc = make_folders(store, key, path, err);
	if (rc == 0)
		rc = temporary_open(store, key, path, &t, err);
	if (rc == SC_E_NOLOG && store->synced) { /* somebody removed the folder */
		free(store->synced);
		store->synced = NULL;
		rc = make_folders(store, key, path, err);
		if (rc == 0)
			rc = temporary_open(store, key, path, &t, err);
	}
	if (rc < 0)
		return rc;
	rc = temporary_fill(store, key, &t, source, err);
	if (rc == 0)
		rc = temporary_prove(store, key, &t, source->len, err);
	if (rc == 0)
		rc = only_if && !strcmp(only_if, "*")
			     ? publish_new(store, key, &t, path, err)
			     : publish_over(store, key, &t, path, only_if, err);
	if (rc == 0)
		rc = sync_folder(store, key, path, (size_t)(strrchr(path, '/') - path), err);
	if (rc == 0 && fstat(t.fd, &st) < 0)
		rc = failed(store, key, errno, "cannot verify", err);
	if (rc == 0) {
		info_of(&st, ret_info);
		memcpy(ret_info->sha256, t.sums.sha256, sizeof(ret_info->sha256));
		ret_info->hashed = true;
	}
	if (t.path[0])
		unlink(t.path);
	sc_close(&t.fd);
	return rc;
}

static int folder_drop(struct sc_store *store, const char *key, struct sc_err *err)
{
	char path[PATH_MAX];
	int held = -1, rc = path_of(store, key, path, err);

	if (rc == 0)
		rc = need_root(store, err);
	if (rc == 0)
		rc = lock(store, key, &held, err);
	if (rc < 0)
		return rc;
	if (sc_sys_unlink(path) == 0)
		rc = sync_folder(store, key, path, (size_t)(strrchr(path, '/') - path), err);
	else if (errno != ENOENT && errno != ENOTDIR)
		rc = failed(store, key, errno, "cannot delete", err);
	sc_close(&held);
	return rc;
}

/* --- listing
 * ------------------------------------------------------------------------------------------------- */

#define DEPTH_MAX 32
#define NAMES_MAX (256u << 20) /* of one folder */

struct walk {
	struct sc_store *store;
	const struct sc_store_listing *what;
	const char *prefix, *after;
	sc_store_each *each;
	void *arg;
	char key[SC_STORE_KEY_MAX + 2];
	int64_t before_us; /* sweeping: temporaries older than this */
	uint64_t *removed; /* NULL: listing */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Whether a name in a folder is a file, a folder, or nothing to us. */
static char kind_of(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type == DT_REG)
		return 'f';
	if (entry->d_type == DT_DIR)
		return 'd';
	if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
		return 0;
	if (fstatat(dir, entry->d_name, &st, 0) < 0)
		return 0;
	return S_ISREG(st.st_mode) ? 'f' : S_ISDIR(st.st_mode) ? 'd' : 0;
}

/* The names in a folder, one after the other, each with its NUL; those of folders end in '/', as in
 * a key. */
static int read_names(struct walk *w, DIR *dir, struct sc_bytes *names, size_t *ret_count,
		      struct sc_err *err)
{
	struct dirent *entry;
	size_t count = 0;
	char kind;

	while (errno = 0, (entry = readdir(dir))) {
		bool hidden = entry->d_name[0] == '.';

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
		    (hidden && !w->removed))
			continue;
		kind = kind_of(dirfd(dir), entry);
		if (!kind || (hidden && kind == 'd'))
			continue;
		if (sc_bytes_puts(names, entry->d_name) < 0 ||
		    (kind == 'd' && sc_bytes_putc(names, '/') < 0) || sc_bytes_putc(names, 0) < 0)
			return sc_err_nomem(err, "cannot list");
		count++;
	}
	if (errno)
		return failed(w->store, w->key, errno, "cannot list", err);
	*ret_count = count;
	return 0;
}

static bool is_temporary(const char *name)
{
	size_t len = strlen(name);

	return len > 14 && name[0] == '.' && name[len - 13] == '.' &&
	       !strcmp(name + len - 4, ".tmp") && strspn(name + len - 12, "0123456789abcdef") == 8;
}

/* Of a temporary, ".NAME.XXXXXXXX.tmp": the key of what it was to be begins so. */
static bool has_prefix(const struct walk *w, const char *name)
{
	size_t folder = strlen(w->key) - strlen(name), prefix = strlen(w->prefix);

	if (prefix <= folder)
		return memcmp(w->key, w->prefix, prefix) == 0;
	return memcmp(w->key, w->prefix, folder) == 0 &&
	       strncmp(name + 1, w->prefix + folder, prefix - folder) == 0;
}

static int sweep_file(struct walk *w, int dir, const char *name, struct sc_err *err)
{
	struct stat st;

	if (!is_temporary(name) || !has_prefix(w, name) ||
	    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || time_of(&st) >= w->before_us)
		return 0;
	if (unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return failed(w->store, w->key, errno, "cannot remove", err);
	++*w->removed;
	return 0;
}

static int list_file(struct walk *w, int dir, const char *name, struct sc_err *err)
{
	struct sc_store_item item = { .key = w->key };
	struct sc_store_info info;
	struct stat st;

	if (strcmp(w->key, w->after) <= 0 || sc_place_check_key(w->key, NULL) < 0)
		return 0;
	if (fstatat(dir, name, &st, 0) < 0) /* gone meanwhile */
		return 0;
	info_of(&st, &info);
	item.size = info.size;
	item.modified_us = info.modified_us;
	item.etag = info.etag;
	return w->each(w->arg, &item, err);
}

static int walk_folder(struct walk *w, int parent, const char *name, size_t len, int depth,
		       struct sc_err *err);

/* One name; w->key is that of its folder, LEN long. */
static int walk_entry(struct walk *w, int dir, const char *name, size_t len, int depth,
		      struct sc_err *err)
{
	size_t more = strlen(name), prefix = strlen(w->prefix), all = len + more;
	bool folder = name[more - 1] == '/';
	size_t common = all < prefix ? all : prefix;
	char own[NAME_MAX + 1];

	if (all >= sizeof(w->key))
		return 0; /* no key is that long */
	memcpy(w->key + len, name, more + 1);
	if (!folder)
		return w->removed ? sweep_file(w, dir, name, err)
		       : all < prefix || memcmp(w->key, w->prefix, prefix)
			       ? 0
			       : list_file(w, dir, name, err);
	/* a folder that can hold nothing that was asked for */
	if (memcmp(w->key, w->prefix, common) != 0 ||
	    (strcmp(w->key, w->after) < 0 && strncmp(w->key, w->after, all) != 0))
		return 0;
	if (!w->removed && w->what->folders && all > prefix) {
		struct sc_store_item item = { .key = w->key, .etag = "", .folder = true };

		if (strcmp(w->key, w->after) <= 0 || more - 1 > NAME_MAX)
			return 0;
		return w->each(w->arg, &item, err);
	}
	if (more - 1 > NAME_MAX || depth == DEPTH_MAX)
		return 0;
	memcpy(own, name, more - 1);
	own[more - 1] = 0;
	return walk_folder(w, dir, own, all, depth + 1, err);
}

static int walk_folder(struct walk *w, int parent, const char *name, size_t len, int depth,
		       struct sc_err *err)
{
	struct sc_bytes names;
	char **sorted = NULL;
	size_t count = 0, at = 0;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		rc = errno == ENOENT ? 0 : failed(w->store, w->key, errno, "cannot list", err);
		sc_close(&fd);
		return rc;
	}
	sc_bytes_init(&names, NAMES_MAX);
	rc = read_names(w, dir, &names, &count, err);
	if (rc == 0 && !(sorted = sc_malloc(count * sizeof(*sorted))))
		rc = sc_err_nomem(err, "cannot list");
	if (rc == 0) {
		for (size_t i = 0; i < count; i++) {
			sorted[i] = names.data + at;
			at += strlen(sorted[i]) + 1;
		}
		/* with the '/' of folders in the names this is the order of the keys */
		qsort(sorted, count, sizeof(*sorted), by_name);
	}
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = walk_entry(w, dirfd(dir), sorted[i], len, depth, err);
	free(sorted);
	sc_bytes_done(&names);
	closedir(dir);
	return rc;
}

static int folder_list(struct sc_store *store, const struct sc_store_listing *what,
		       sc_store_each *each, void *arg, struct sc_err *err)
{
	struct walk w = { .store = store,
			  .what = what,
			  .prefix = what->prefix ? what->prefix : "",
			  .after = what->after ? what->after : "",
			  .each = each,
			  .arg = arg };
	int rc = need_root(store, err);

	if (rc == 0)
		rc = walk_folder(&w, AT_FDCWD, store->place.path, 0, 0, err);
	return rc < 0 ? rc : 0;
}

static int folder_sweep(struct sc_store *store, const char *prefix, int64_t before_us,
			uint64_t *ret_removed, struct sc_err *err)
{
	static const struct sc_store_listing all;
	uint64_t removed = 0;
	struct walk w = { .store = store,
			  .what = &all,
			  .prefix = prefix,
			  .after = "",
			  .before_us = before_us,
			  .removed = &removed };
	int rc = need_root(store, err);

	if (rc == 0)
		rc = walk_folder(&w, AT_FDCWD, store->place.path, 0, 0, err);
	if (rc == 0)
		*ret_removed = removed;
	return rc;
}

const struct sc_store_ops sc_folder_ops = {
	.put = folder_put,
	.read = folder_read,
	.head = folder_head,
	.verify = sc_store_verify_by_reading,
	.list = folder_list,
	.drop = folder_drop,
	.sweep = folder_sweep,
};
