/* kv.c: environments (one per file and process, counted), transactions, tables. */
#include "kv/kv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "kv/kv_internal.h"

#define SIZE_STANDARD (16ull << 30)
#define READERS_STANDARD 1024
#define LOCK_READER_BYTES 64 /* of LMDB's lock file, a reader; see sizeof(MDB_reader) */
#define LOCK_HEAD_BYTES 4096
#define FETCH_LEAST_PAGES 4 /* fewer are not worth the call */

/*
 * LMDB forbids the same file twice in a process (its fcntl locks would go with the first close),
 * so all handles of a file share one environment. Entries made before a fork belong to the parent
 * and are never touched by the child.
 */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sc_kv *registry;

static const char index_kind[] = "index";

int sc_kv_fail(const struct sc_kv *kv, int rc, const char *tried, struct sc_err *err)
{
	struct sc_err own; /* the code is the same without an error to fill */

	if (!err)
		err = &own;
	switch (rc) {
	case MDB_READERS_FULL:
		sc_err_set(err, SC_E_BUSY, tried, "all its reader slots are taken");
		break;
	case EAGAIN: /* LMDB tells processes apart by their numbers */
		sc_err_set(err, SC_E_BUSY, tried,
			   "a process of another container has it open that has the number %ld, "
			   "too",
			   (long)getpid());
		break;
	case MDB_MAP_FULL:
	case MDB_TXN_FULL:
		sc_err_set(err, SC_E_IO, tried,
			   rc == MDB_MAP_FULL ? "it is full" : "it is too much at once");
		err->errnum = ENOSPC;
		break;
	case MDB_CORRUPTED:
	case MDB_PAGE_NOTFOUND:
	case MDB_INVALID:
	case MDB_VERSION_MISMATCH:
	case MDB_INCOMPATIBLE:
		sc_err_set(err, SC_E_DATA, tried, "%s", mdb_strerror(rc));
		break;
	case MDB_PANIC:
		sc_err_set(err, SC_E_IO, tried,
			   "an earlier write to it failed; it must be opened again");
		break;
	case ENOMEM:
		sc_err_nomem(err, tried);
		break;
	default:
		if (rc > 0)
			sc_err_sys(err, rc == EACCES || rc == EPERM ? SC_E_NOAUTH : SC_E_IO, rc,
				   tried);
		else
			sc_err_set(err, SC_E_INTERNAL, tried, "%s", mdb_strerror(rc));
	}
	sc_err_on(err, kv->kind, kv->path);
	if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND || rc == MDB_INVALID ||
	    rc == MDB_VERSION_MISMATCH)
		sc_err_next(err, kv->kind == index_kind ? "rebuild it with sc-log reindex"
							: "put a good copy of it back");
	if (rc == EAGAIN)
		sc_err_next(err, "let the containers share their processes' numbers (docker run "
				 "--pid container:NAME)");
	return err->code;
}

static unsigned open_flags(const struct sc_kv_options *options)
{
	unsigned flags = MDB_NOSUBDIR | MDB_NOTLS | MDB_NORDAHEAD | MDB_NOMEMINIT;

	if (options->read_only)
		flags |= MDB_RDONLY;
	if (!options->sync)
		flags |= MDB_NOSYNC;
	return flags;
}

/* Open every table in one transaction; MDB_NOTFOUND when one is missing and CREATE is not given. */
static int open_tables(struct sc_kv *kv, const struct sc_kv_options *options, bool create)
{
	MDB_txn *txn = NULL;
	int rc = mdb_txn_begin(kv->env, NULL, create ? 0 : MDB_RDONLY, &txn);

	if (rc)
		return rc;
	for (int i = 0; options->tables[i]; i++) {
		unsigned flags = create ? MDB_CREATE : 0;

		if (options->integer_keys >> i & 1)
			flags |= MDB_INTEGERKEY;
		rc = mdb_dbi_open(txn, options->tables[i], flags, &kv->dbis[i]);
		if (rc) {
			mdb_txn_abort(txn);
			return rc;
		}
		kv->tables = i + 1;
	}
	return mdb_txn_commit(txn);
}

/*
 * LMDB makes its lock file as a hole and writes it through a mapping, which on a full disk is a
 * SIGBUS. Take the space before: behind the end, so that the size stays LMDB's own affair. Not
 * while this process has the environment open: the close would free its locks.
 */
static int reserve_lock_file(const char *path, unsigned readers)
{
	const off_t need = (off_t)readers * LOCK_READER_BYTES + LOCK_HEAD_BYTES;
	char lock[PATH_MAX];
	struct stat st;
	int fd, rc = 0;

	if (snprintf(lock, sizeof(lock), "%s-lock", path) >= (int)sizeof(lock))
		return ENAMETOOLONG;
	fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0)
		return 0; /* LMDB says why, or does without */
	if (fstat(fd, &st) == 0 && st.st_blocks * 512 < need &&
	    fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, need) < 0 && (errno == ENOSPC || errno == EDQUOT))
		rc = errno;
	close(fd);
	return rc;
}

static int open_env(struct sc_kv *kv, const struct sc_kv_options *options, struct sc_err *err)
{
	static const char tried[] = "cannot open";
	mdb_filehandle_t fd;
	struct stat st;
	unsigned readers = options->readers_max ? options->readers_max : READERS_STANDARD;
	int count = 0, rc;

	while (options->tables[count])
		count++;
	if (count > SC_KV_TABLES_MAX)
		return sc_err_set(err, SC_E_INTERNAL, tried, "%d tables are too many", count);
	rc = mdb_env_create(&kv->env);
	if (!rc)
		rc = mdb_env_set_mapsize(kv->env,
					 options->size_max ? options->size_max : SIZE_STANDARD);
	if (!rc)
		rc = mdb_env_set_maxreaders(kv->env, readers);
	if (!rc)
		rc = mdb_env_set_maxdbs(kv->env, (MDB_dbi)count);
	if (!rc && options->sync && !options->read_only)
		rc = sc_kv_make(kv->path);
	if (!rc && !options->read_only)
		rc = reserve_lock_file(kv->path, readers);
	if (!rc)
		rc = mdb_env_open(kv->env, kv->path, open_flags(options), 0666);
	if (!rc) {
		sc_kv_lengthen(kv->env, kv->path);
		rc = open_tables(kv, options, false);
		if (rc == MDB_NOTFOUND && !options->read_only)
			rc = open_tables(kv, options, true);
	}
	if (!rc)
		rc = mdb_env_get_fd(kv->env, &fd);
	if (!rc && fstat(fd, &st) < 0)
		rc = errno;
	if (rc) {
		int code = sc_kv_fail(kv, rc, tried, err);

		if (options->read_only && rc == EACCES)
			sc_err_next(err,
				    "it takes the right to read it, and to write %s-lock, "
				    "where its readers are noted",
				    kv->path);
		return code;
	}
	if (options->sync && !options->read_only)
		kv->watch_fd = sc_kv_watch_open(kv->path, fd);
	kv->dev = (uint64_t)st.st_dev;
	kv->ino = (uint64_t)st.st_ino;
	return 0;
}

static void env_free(struct sc_kv *kv)
{
	if (kv->env)
		mdb_env_close(kv->env);
	sc_close(&kv->watch_fd);
	free(kv->path);
	free(kv);
}

static struct sc_kv *registry_find(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	for (struct sc_kv *kv = registry; kv; kv = kv->next)
		if (kv->pid == getpid() && kv->dev == (uint64_t)st.st_dev &&
		    kv->ino == (uint64_t)st.st_ino)
			return kv;
	return NULL;
}

int sc_kv_open(const char *path, const struct sc_kv_options *options, struct sc_kv **ret_kv,
	       struct sc_err *err)
{
	struct sc_kv *kv;
	int rc = 0;

	pthread_mutex_lock(&registry_lock);
	kv = registry_find(path);
	if (kv) {
		kv->users++;
		goto out;
	}
	kv = sc_calloc(1, sizeof(*kv));
	if (kv)
		kv->path = sc_malloc(strlen(path) + 1);
	if (!kv || !kv->path) {
		free(kv);
		kv = NULL;
		rc = sc_err_nomem(err, "cannot open index");
		goto out;
	}
	memcpy(kv->path, path, strlen(path) + 1);
	kv->kind = options->kind ? options->kind : index_kind;
	kv->watch_fd = -1;
	rc = open_env(kv, options, err);
	if (rc < 0) {
		env_free(kv);
		kv = NULL;
		goto out;
	}
	kv->pid = getpid();
	kv->users = 1;
	kv->next = registry;
	registry = kv;
out:
	pthread_mutex_unlock(&registry_lock);
	if (kv)
		*ret_kv = kv;
	return rc;
}

void sc_kv_close(struct sc_kv *kv)
{
	if (!kv || kv->pid != getpid())
		return;
	pthread_mutex_lock(&registry_lock);
	if (--kv->users == 0) {
		struct sc_kv **at = &registry;

		while (*at != kv)
			at = &(*at)->next;
		*at = kv->next;
		env_free(kv);
	}
	pthread_mutex_unlock(&registry_lock);
}

void sc_kv_identity(const struct sc_kv *kv, uint64_t *ret_dev, uint64_t *ret_ino)
{
	*ret_dev = kv->dev;
	*ret_ino = kv->ino;
}

void sc_kv_reap(struct sc_kv *kv)
{
	int dead;

	mdb_reader_check(kv->env, &dead);
}

int sc_kv_stat(struct sc_kv *kv, struct sc_kv_stat *ret_stat, struct sc_err *err)
{
	MDB_envinfo info;
	MDB_stat st;
	mdb_filehandle_t fd;
	struct stat file;
	int rc = mdb_env_info(kv->env, &info);

	if (!rc)
		rc = mdb_env_stat(kv->env, &st);
	if (!rc)
		rc = mdb_env_get_fd(kv->env, &fd);
	if (!rc && fstat(fd, &file) < 0)
		rc = errno;
	if (rc)
		return sc_kv_fail(kv, rc, "cannot examine", err);
	*ret_stat = (struct sc_kv_stat){
		.used_bytes = (uint64_t)(info.me_last_pgno + 1) * st.ms_psize,
		.file_bytes = (uint64_t)file.st_size,
		.last_txn = info.me_last_txnid,
		.readers = info.me_numreaders,
	};
	return 0;
}

struct reader_list {
	int (*each)(void *arg, const char *line);
	void *arg;
};

static int reader_line(const char *line, void *arg)
{
	struct reader_list *list = arg;

	return list->each(list->arg, line);
}

void sc_kv_readers(struct sc_kv *kv, int (*each)(void *arg, const char *line), void *arg)
{
	struct reader_list list = { each, arg };

	mdb_reader_list(kv->env, reader_line, &list);
}

static int begin(struct sc_kv *kv, unsigned flags, struct sc_kv_txn **ret_txn, struct sc_err *err)
{
	struct sc_kv_txn *txn = sc_calloc(1, sizeof(*txn));
	int rc;

	if (!txn)
		return sc_err_nomem(err, "cannot begin a transaction on the index");
	txn->kv = kv;
	rc = mdb_txn_begin(kv->env, NULL, flags, &txn->txn);
	if (rc == MDB_READERS_FULL) {
		/* slots of processes that died are still taken; free them and try once more */
		sc_kv_reap(kv);
		rc = mdb_txn_begin(kv->env, NULL, flags, &txn->txn);
	}
	if (rc) {
		free(txn);
		return sc_kv_fail(kv, rc, "cannot begin a transaction on", err);
	}
	*ret_txn = txn;
	return 0;
}

int sc_kv_read(struct sc_kv *kv, struct sc_kv_txn **ret_txn, struct sc_err *err)
{
	return begin(kv, MDB_RDONLY, ret_txn, err);
}

int sc_kv_write(struct sc_kv *kv, struct sc_kv_txn **ret_txn, struct sc_err *err)
{
	return begin(kv, 0, ret_txn, err);
}

void sc_kv_ahead(struct sc_kv_txn *txn, uint64_t bytes)
{
	static const char zeros[1 << 16];
	mdb_filehandle_t fd;
	uint64_t used, at, end;
	struct stat file;
	MDB_envinfo info;
	MDB_stat st;

	if (mdb_env_info(txn->kv->env, &info) || mdb_env_stat(txn->kv->env, &st) ||
	    mdb_env_get_fd(txn->kv->env, &fd) || fstat(fd, &file) < 0)
		return;
	used = (uint64_t)(info.me_last_pgno + 1) * st.ms_psize;
	at = (uint64_t)file.st_size;
	end = used + bytes;
	if (end > info.me_mapsize)
		end = info.me_mapsize;
	/* in steps; never below the end of the file, where another's pages may be */
	if (at < used || at > used + bytes / 2)
		return;
	while (at < end) {
		size_t len = end - at < sizeof(zeros) ? (size_t)(end - at) : sizeof(zeros);
		ssize_t n = sc_sys_pwrite(fd, zeros, len, (off_t)at);

		if (n <= 0)
			return;
		at += (uint64_t)n;
	}
}

int sc_kv_commit(struct sc_kv_txn **txn, struct sc_err *err)
{
	struct sc_kv_txn *t = *txn;
	int rc = mdb_txn_commit(t->txn);

	if (rc)
		rc = sc_kv_fail(t->kv, sc_kv_why(t->kv, rc, t->bytes), "cannot commit to", err);
	free(t);
	*txn = NULL;
	return rc;
}

void sc_kv_abort(struct sc_kv_txn **txn)
{
	if (!*txn)
		return;
	mdb_txn_abort((*txn)->txn);
	free(*txn);
	*txn = NULL;
}

static MDB_val to_val(struct sc_span span)
{
	return (MDB_val){ span.len, (void *)(uintptr_t)span.data };
}

int sc_kv_get(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_span *ret_value,
	      struct sc_err *err)
{
	MDB_val k = to_val(key), v;
	int rc = mdb_get(txn->txn, txn->kv->dbis[table], &k, &v);

	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc)
		return sc_kv_fail(txn->kv, rc, "cannot read", err);
	*ret_value = sc_span(v.mv_data, v.mv_size);
	return 1;
}

void sc_kv_fetch(struct sc_span value)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t at = (uintptr_t)value.data & ~(page - 1), end = (uintptr_t)value.data + value.len;
	unsigned char there[256];

	if (value.len < FETCH_LEAST_PAGES * page)
		return;
	while (at < end) {
		size_t pages = (end - at + page - 1) / page;

		if (pages > sizeof(there))
			pages = sizeof(there);
		if (mincore((void *)at, pages * page, there) < 0)
			return;
		for (size_t i = 0; i < pages; i++)
			if (!(there[i] & 1)) { /* without the advice it is slower */
				(void)madvise((void *)at, end - at, MADV_WILLNEED);
				return;
			}
		at += pages * page;
	}
}

int sc_kv_put(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_span value,
	      struct sc_err *err)
{
	MDB_val k = to_val(key), v = to_val(value);
	int rc = mdb_put(txn->txn, txn->kv->dbis[table], &k, &v, 0);

	txn->bytes += key.len + value.len;
	return rc ? sc_kv_fail(txn->kv, rc, "cannot write", err) : 0;
}

int sc_kv_reserve(struct sc_kv_txn *txn, int table, struct sc_span key, size_t len, char **ret_data,
		  struct sc_err *err)
{
	MDB_val k = to_val(key), v = { .mv_size = len };
	int rc = mdb_put(txn->txn, txn->kv->dbis[table], &k, &v, MDB_RESERVE);

	txn->bytes += key.len + len;
	if (rc)
		return sc_kv_fail(txn->kv, rc, "cannot write", err);
	*ret_data = v.mv_data;
	return 0;
}

int sc_kv_del(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_err *err)
{
	MDB_val k = to_val(key);
	int rc = mdb_del(txn->txn, txn->kv->dbis[table], &k, NULL);

	if (rc == MDB_NOTFOUND)
		return 0;
	return rc ? sc_kv_fail(txn->kv, rc, "cannot write", err) : 1;
}

int sc_kv_drop(struct sc_kv_txn *txn, int table, struct sc_err *err)
{
	int rc = mdb_drop(txn->txn, txn->kv->dbis[table], 0);

	return rc ? sc_kv_fail(txn->kv, rc, "cannot write", err) : 0;
}

uint64_t sc_kv_count(struct sc_kv_txn *txn, int table)
{
	MDB_stat st;

	return mdb_stat(txn->txn, txn->kv->dbis[table], &st) ? 0 : st.ms_entries;
}
