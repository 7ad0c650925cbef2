/*
 * index.c: the index (LMDB): opening, trusting, locking, rebuilding.
 *
 * LMDB without sync is safe against killed processes but not against power cuts, and a copied or
 * restored one may be torn, so an index that the record in index.state does not vouch for is never
 * opened but rebuilt from the journals.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "log/log_internal.h"
#include "log/record.h"

#define INDEX_SIZE_MAX (8ull << 30)
#define NEW_INDEX "index.mdb.new"
#define REAP_EVERY 1024

static const char *const tables[] = { "state",     "blocks",   "journals", "sources",
				      "producers", "segments", NULL };
static const struct sc_kv_options kv_options = {
	.tables = tables,
	.integer_keys = 1u << SC_T_BLOCKS | 1u << SC_T_JOURNALS | 1u << SC_T_SEGMENTS,
	.size_max = INDEX_SIZE_MAX,
};
#define STATE_KEY SC_SPAN("state")

int sc_index_open_kv(const char *path, struct sc_kv **ret_kv, struct sc_err *err)
{
	return sc_kv_open(path, &kv_options, ret_kv, err);
}

static int lock(const struct sc_log *log, int how, struct sc_err *err)
{
	int code;

	while (flock(log->dir_fd, how) < 0) {
		if (errno == EINTR)
			continue;
		code = sc_err_sys(err, SC_E_IO, errno, "cannot lock");
		sc_log_err(log, err);
		return code;
	}
	return 0;
}

static void unlock(const struct sc_log *log)
{
	flock(log->dir_fd, LOCK_UN);
}

static int kv_state(struct sc_kv_txn *txn, struct sc_state *ret_state, struct sc_err *err)
{
	struct sc_span value;
	int rc = sc_kv_get(txn, SC_T_STATE, STATE_KEY, &value, err);

	if (rc < 0)
		return rc;
	if (rc == 0 || value.len != sizeof(*ret_state))
		return sc_err_set(err, SC_E_DATA, "cannot read the index", "it holds no state");
	memcpy(ret_state, value.data, sizeof(*ret_state));
	return 0;
}

void sc_index_close(struct sc_log *log)
{
	sc_kv_close(log->kv);
	log->kv = NULL;
	sc_close(&log->state_fd);
	log->state_writable = false;
}

/* The files hold less than was acknowledged. */
static int journals_lost(struct sc_log *log, const struct sc_state *state, uint64_t next,
			 struct sc_err *err)
{
	char path[PATH_MAX];

	if (sc_log_forgives(log))
		return 0;
	sc_journal_path(log, state->journal, path);
	sc_err_set(err, SC_E_DATA, "cannot open",
		   "rows up to offset %llu were acknowledged, but the journals end at %llu",
		   (unsigned long long)(state->next - 1), (unsigned long long)(next - 1));
	sc_err_on(err, "journal", path);
	sc_err_next(err,
		    "put the missing journals back, or go on without these rows: sc-log reindex %s",
		    log->path);
	sc_err_field_u64(err, "last_good", next - 1);
	return sc_log_or_gone(log, SC_E_DATA, err);
}

/*
 * Does a whole commit that chains to the index's end stand behind it, or a journal that it does
 * not know? Then the index is older than the files (restored from a backup).
 */
static int index_is_behind(struct sc_log *log, const struct sc_state *state, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	struct sc_walk walk;
	struct sc_block block;
	struct sc_hash prev = state->hash;
	const char *data;
	struct stat st;
	int fd = -1, rc = sc_journal_list(log, &names, NULL, err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	/* or fewer than it knows: they were sealed since */
	rc = names.count &&
	     (names.items[names.count - 1] > state->journal || names.count < state->journals);
	sc_journal_list_done(&names);
	if (rc)
		return 1;
	rc = sc_journal_open(log, state->journal, false, &fd, err);
	if (rc == SC_E_NOLOG) {
		rc = journals_lost(log, state, state->journal, err);
		return rc < 0 ? rc : 1;
	}
	if (rc < 0)
		return rc;
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size < state->end) {
		rc = 1; /* cut short: the rebuild says where */
		goto out;
	}
	rc = 0;
	sc_walk_start(&walk, log, state->journal, fd, state->end, (uint64_t)st.st_size, 4096);
	while (sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, NULL) == 1 &&
	       sc_hash_same(&block.prev, &prev)) {
		prev = block.hash;
		if (!block.more) {
			rc = 1;
			break;
		}
	}
out:
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

/* Under the lock: compare the index with the record and the files. 1 good, 0 to be rebuilt. */
static int check_index(struct sc_log *log, const struct sc_record *record, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	int rc = sc_kv_read(log->kv, &txn, err);

	if (rc < 0)
		return rc;
	rc = kv_state(txn, &state, err);
	sc_kv_abort(&txn);
	if (rc == SC_E_DATA || (rc == 0 && state.change < record->state.change))
		return 0;
	if (rc < 0)
		return rc;
	/* a trim, or what leaves offsets out, died between log.json and the index; or the index was
	 * restored */
	if (state.floor < log->settings.floor.offset || state.next < log->settings.next)
		return 0;
	if (log->mode == SC_LOG_APPEND) {
		rc = index_is_behind(log, &state, err);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	if (state.change > record->state.change) {
		/* a process died between the commit and its publication; whoever commits waits for
		 * our lock */
		rc = sc_record_write(log, &state, err);
		if (rc < 0)
			return rc;
	}
	return 1;
}

static bool no_space(const struct sc_err *err)
{
	return err->errnum == ENOSPC || err->errnum == EDQUOT;
}

static const char *why_not(const char *path)
{
	struct statvfs fs;

	return statvfs(path, &fs) == 0 && (fs.f_flag & ST_RDONLY)
		       ? "its file system is mounted read-only"
		       : "this user may not write there";
}

/* 1 open, 0 there is nothing that can be trusted. Under the lock. */
static int try_open(struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_record record;
	struct sc_err why = { 0 };
	int rc = sc_record_open(log, &record, err);

	if (rc <= 0)
		return rc;
	if (log->state_writable)
		sc_log_file(log, path, SC_INDEX_FILE);
	else
		sc_log_file(log, path, SC_STATE_FILE);
	if (!log->state_writable || access(path, R_OK | W_OK) < 0) {
		if (log->mode == SC_LOG_READ)
			return 1; /* no right to lock: the record and the files are enough to read */
		sc_err_set(err, SC_E_NOAUTH, "cannot append to the log", "%s", why_not(path));
		sc_err_on(err, "file", path);
		sc_err_next(err, "give the right to read and write it, and all files beside it");
		return SC_E_NOAUTH;
	}
	rc = sc_kv_open(path, &kv_options, &log->kv, &why);
	if (rc < 0 && err)
		*err = why;
	if (log->mode == SC_LOG_READ &&
	    (rc == SC_E_NOAUTH || rc == SC_E_BUSY || (rc < 0 && no_space(&why))))
		return 1; /* as above */
	if (rc == SC_E_DATA)
		return 0;
	if (rc < 0)
		return rc;
	return check_index(log, &record, err);
}

/*
 * No index of this boot, and no right to make one: read the files as they are. Valid only as long
 * as nobody appends, and whoever appends makes an index first.
 */
static int open_scanned(struct sc_log *log, struct sc_err *err)
{
	struct sc_recovery r = { .txn = NULL };
	struct sc_record record;
	int rc = sc_recover(log, &r, err);

	if (rc < 0)
		return rc;
	sc_index_close(log);
	if (sc_record_open(log, &record, NULL) == 1)
		return 0;
	sc_index_close(log);
	log->scanned = r.state;
	return 0;
}

static bool can_build(const struct sc_log *log)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/journal", log->path) < 0)
		return false;
	return faccessat(AT_FDCWD, log->path, W_OK | X_OK, AT_EACCESS) == 0 &&
	       faccessat(AT_FDCWD, path, W_OK | X_OK, AT_EACCESS) == 0;
}

int sc_index_open(struct sc_log *log, struct sc_err *err)
{
	bool exclusive = log->mode == SC_LOG_APPEND;
	struct sc_err why = { 0 };
	int rc;

	for (;;) {
		rc = lock(log, exclusive ? LOCK_EX : LOCK_SH, err);
		if (rc < 0)
			return rc;
		rc = try_open(log, err);
		if (rc != 0)
			break;
		sc_index_close(log);
		if (!can_build(log)) {
			rc = log->mode == SC_LOG_READ
				     ? open_scanned(log, err)
				     : sc_err_set(err, SC_E_NOAUTH, "cannot append to", "%s",
						  why_not(log->path));
			if (rc == SC_E_NOAUTH && log->mode == SC_LOG_APPEND)
				sc_log_err(log, err);
			break;
		}
		if (exclusive) {
			rc = sc_index_rebuild(log, &why);
			if (rc < 0 && err)
				*err = why;
			if (rc < 0 && no_space(&why) && log->mode == SC_LOG_READ) {
				sc_index_close(log);
				rc = open_scanned(log,
						  err); /* a full disk can be read all the same */
			}
			break;
		}
		exclusive =
			true; /* not an upgrade in one step: another process may be first, so look again */
	}
	unlock(log);
	if (rc < 0)
		sc_index_close(log);
	return rc < 0 ? rc : 0;
}

/*
 * What the old record says was acknowledged must be in the files: a lower bound, whatever boot it
 * is from.
 */
static int check_bound(struct sc_log *log, struct sc_recovery *r, struct sc_err *err)
{
	struct sc_record old;
	char path[PATH_MAX];
	int fd, rc = 0;

	sc_log_file(log, path, SC_STATE_FILE);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (sc_record_read(fd, &old) &&
	    !strncmp(old.stream_id, log->settings.stream_id, sizeof(old.stream_id)) &&
	    old.state.next > r->state.next) {
		rc = journals_lost(log, &old.state, r->state.next, err);
		r->state.next = old.state.next; /* given up by hand: yet no offset is used twice */
	}
	close(fd);
	return rc;
}

static int fill_index(struct sc_log *log, const char *path, struct sc_recovery *r,
		      struct sc_err *err)
{
	struct sc_kv *kv = NULL;
	int rc = sc_kv_open(path, &kv_options, &kv, err);

	if (rc < 0)
		return rc;
	rc = sc_kv_write(kv, &r->txn, err);
	if (rc == 0)
		rc = sc_recover(log, r, err);
	if (rc == 0)
		rc = check_bound(log, r, err);
	if (rc == 0)
		rc = sc_kv_put(r->txn, SC_T_STATE, STATE_KEY,
			       sc_span((const char *)&r->state, sizeof(r->state)), err);
	if (rc == 0)
		rc = sc_kv_commit(&r->txn, err);
	else
		sc_kv_abort(&r->txn);
	sc_kv_close(kv);
	return rc;
}

static int swap_index(struct sc_log *log, const char *from, struct sc_err *err)
{
	char path[PATH_MAX], lock_path[PATH_MAX];

	/* The record goes first: whatever is left by a crash in between vouches for nothing. */
	sc_log_file(log, path, SC_STATE_FILE);
	if (sc_sys_unlink(path) < 0 && errno != ENOENT)
		goto failed;
	sc_log_file(log, path, SC_INDEX_FILE);
	if (sc_sys_rename(from, path) < 0)
		goto failed;
	/*
	 * a lock file belongs to one data file: processes that hold the old one keep it, and see
	 * that it is not named any more
	 */
	sc_log_file(log, lock_path, SC_INDEX_FILE "-lock");
	if (sc_sys_unlink(lock_path) < 0 && errno != ENOENT)
		goto failed;
	sc_log_file(log, lock_path, NEW_INDEX "-lock");
	if (unlink(lock_path) < 0 && errno != ENOENT)
		goto failed;
	return 0;
failed:
	sc_err_sys(err, SC_E_IO, errno, "cannot replace the index");
	sc_err_on(err, "file", path);
	return err ? err->code : SC_E_IO;
}

int sc_index_rebuild(struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX], fresh[PATH_MAX], fresh_lock[PATH_MAX];
	struct sc_recovery r = { .txn = NULL };
	int rc;

	sc_index_close(log);
	sc_journal_close(log);
	rc = sc_settings_refresh(log, err);
	if (rc < 0)
		return rc;
	sc_log_file(log, fresh, NEW_INDEX);
	sc_log_file(log, fresh_lock, NEW_INDEX "-lock");
	unlink(fresh);
	unlink(fresh_lock);
	rc = fill_index(log, fresh, &r, err);
	if (rc == 0)
		rc = sc_recover_settle(log, &r, err);
	if (rc == 0 && r.schema_newer)
		rc = sc_settings_put(log, err);
	if (rc == 0)
		rc = swap_index(log, fresh, err);
	if (rc < 0) {
		unlink(fresh);
		unlink(fresh_lock);
		return rc;
	}
	sc_log_file(log, path, SC_INDEX_FILE);
	rc = sc_kv_open(path, &kv_options, &log->kv, err);
	if (rc < 0)
		return rc;
	sc_log_file(log, path, SC_STATE_FILE);
	log->state_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (log->state_fd < 0) {
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot create");
		sc_err_on(err, "file", path);
		return rc;
	}
	log->state_writable = true;
	rc = sc_record_write(log, &r.state, err);
	log->locked = true; /* our caller holds the lock: look-ups take the index as it is */
	if (rc == 0)
		sc_recover_sweep(log, &r);
	log->locked = false;
	return rc;
}

int sc_index_redo(struct sc_log *log, struct sc_err *err)
{
	int rc = lock(log, LOCK_EX, err);

	if (rc < 0)
		return rc;
	rc = sc_index_rebuild(log, err);
	unlock(log);
	return rc;
}

/* Under our own lock: as it was before the transaction, whatever became of index.state. */
static int locked_state(struct sc_log *log, struct sc_state *ret_state, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	int rc = sc_kv_read(log->kv, &txn, err);

	if (rc == 0)
		rc = kv_state(txn, ret_state, err);
	sc_kv_abort(&txn);
	return rc;
}

static int open_again(struct sc_log *log, struct sc_err *err)
{
	int rc = sc_log_find_folder(log, err);

	if (rc == 0)
		rc = sc_settings_refresh(log, err);
	if (rc == 0)
		rc = sc_index_open(log, err);
	return sc_log_or_gone(log, rc, err);
}

/*
 * A floor that we read in log.json counts from then on, also while the trim that wrote it has not
 * published it, or died before it could: its rows may be gone already.
 */
static void apply_floor(const struct sc_floor *floor, struct sc_state *state)
{
	if (floor->offset <= state->floor)
		return;
	state->floor = floor->offset < state->next ? floor->offset : state->next;
	state->floor_rows = floor->rows < state->rows ? floor->rows : state->rows;
	state->floor_bytes = floor->bytes < state->bytes ? floor->bytes : state->bytes;
	if (state->first >= state->floor)
		return;
	/* the first row that is left is not known: it is not below these */
	state->first = state->floor_rows < state->rows ? state->floor : 0;
	state->first_us = state->first ? state->last_us : 0;
}

int sc_index_now(struct sc_log *log, struct sc_state *ret_state, struct sc_err *err)
{
	struct sc_record r;
	struct stat st;
	int rc;

	if (log->locked)
		return locked_state(log, ret_state, err);

	for (int i = 0; i < 3; i++) {
		if (log->state_fd >= 0 && fstat(log->state_fd, &st) == 0 && st.st_nlink > 0 &&
		    !sc_log_moved(log) && sc_record_read(log->state_fd, &r) &&
		    sc_record_ours(log, &r)) {
			*ret_state = r.state;
			apply_floor(&log->settings.floor, ret_state);
			return 0;
		}
		if (log->state_fd < 0 && log->scanned.next) {
			/* read only, no index so far: has somebody made one by now? */
			if (sc_record_open(log, &r, NULL) == 1)
				continue;
			sc_close(&log->state_fd);
			*ret_state = log->scanned;
			return 0;
		}
		sc_index_close(log);
		rc = open_again(log, err);
		if (rc < 0)
			return rc;
	}
	sc_err_set(err, SC_E_IO, "cannot read", "its state changes faster than it can be read");
	sc_log_err(log, err);
	return SC_E_IO;
}

/* Is the index that we have open still the log's? */
static bool still_ours(struct sc_log *log, const struct sc_state *state)
{
	struct sc_record r;
	struct stat st;
	uint64_t dev, ino;

	if (fstat(log->state_fd, &st) < 0 || st.st_nlink == 0 || !sc_record_read(log->state_fd, &r))
		return false;
	sc_kv_identity(log->kv, &dev, &ino);
	return r.dev == dev && r.ino == ino && state->change >= r.state.change;
}

int sc_index_begin(struct sc_log *log, struct sc_kv_txn **ret_txn, struct sc_state *ret_state,
		   struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	int rc;

	for (int i = 0; i < 3; i++) {
		if (!log->kv) {
			rc = open_again(log, err);
			if (rc < 0)
				return rc;
		}
		rc = sc_kv_write(log->kv, &txn, err);
		if (rc < 0)
			return rc;
		rc = lock(log, LOCK_EX, err);
		if (rc < 0) {
			sc_kv_abort(&txn);
			return rc;
		}
		rc = kv_state(txn, &state, err);
		if (rc == 0 && still_ours(log, &state) && !sc_log_moved(log)) {
			rc = sc_settings_check(log, err);
			if (rc == SC_E_NOLOG)
				sc_log_find_folder(log, err); /* may know why */
			if (rc < 0) {
				sc_index_abort(log, &txn);
				return rc;
			}
			if (state.commit % REAP_EVERY == 0)
				sc_kv_reap(log->kv); /* dead readers would make the index grow */
			*ret_txn = txn;
			*ret_state = state;
			log->locked = true;
			return 0;
		}
		sc_index_abort(log, &txn);
		sc_journal_close(log);
		sc_index_close(log);
	}
	sc_err_set(err, SC_E_BUSY, "cannot append to", "its index is replaced again and again");
	sc_log_err(log, err);
	return SC_E_BUSY;
}

/*
 * After a commit that failed: does the index know it all the same? Only when it surely does not is
 * the block taken back, so that a caller who tries again does not append the rows twice.
 */
static bool surely_unknown(struct sc_log *log, const struct sc_state *state)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state now;
	bool unknown = sc_kv_read(log->kv, &txn, NULL) == 0 && kv_state(txn, &now, NULL) == 0 &&
		       now.change < state->change;

	sc_kv_abort(&txn);
	return unknown;
}

/*
 * Under the lock, of a transaction that failed: the journal that it made is no journal of the log.
 * Another process may remove it or make it anew, so the descriptor would be of a file without a
 * name by the time when the index knows one of that name.
 */
static void let_go_of_journal(struct sc_log *log)
{
	if (log->journal_new)
		sc_journal_close(log);
}

int sc_index_end(struct sc_log *log, struct sc_kv_txn **txn, const struct sc_state *new_state,
		 uint64_t undo_at, struct sc_err *err)
{
	struct sc_state changed = *new_state;
	const struct sc_state *state = &changed;
	int rc;

	changed.change++;
	log->locked = false;
	rc = sc_kv_put(*txn, SC_T_STATE, STATE_KEY, sc_span((const char *)state, sizeof(*state)),
		       err);

	if (rc == 0)
		rc = sc_kv_commit(txn, err);
	else
		sc_kv_abort(txn);
	if (rc < 0) {
		/* not acknowledged; if it is not taken back, the next open takes it */
		if (undo_at && surely_unknown(log, state))
			sc_journal_wipe(log, undo_at);
		let_go_of_journal(log);
		sc_index_close(log); /* LMDB wants a failed environment opened anew */
		unlock(log);
		return rc;
	}
	log->journal_new = false;
	if (sc_record_write(log, state, err) < 0) {
		char path[PATH_MAX];

		/* without a record everybody rebuilds, and finds the rows: the commit stands */
		sc_log_file(log, path, SC_STATE_FILE);
		if (sc_sys_unlink(path) < 0)
			rc = SC_E_IO;
	}
	unlock(log);
	return rc;
}

int sc_index_forget(struct sc_kv_txn *txn, int table, uint64_t offset, uint64_t *ret_count,
		    struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	uint64_t lowest;
	int rc = 0;

	*ret_count = 0;
	for (;;) {
		rc = sc_kv_cursor_open(txn, table, &cursor, err);
		if (rc < 0)
			return rc;
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
		if (rc == 1)
			memcpy(&lowest, key.data, sizeof(lowest));
		sc_kv_cursor_close(cursor);
		if (rc != 1 || lowest >= offset)
			return rc < 0 ? rc : 0;
		rc = sc_kv_del(txn, table, sc_u64_key(&lowest), err);
		if (rc < 0)
			return rc;
		++*ret_count;
	}
}

void sc_index_abort(struct sc_log *log, struct sc_kv_txn **txn)
{
	sc_kv_abort(txn);
	let_go_of_journal(log);
	log->locked = false;
	unlock(log);
}
