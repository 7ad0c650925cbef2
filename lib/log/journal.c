/* journal.c: journal files: names, making, writing, syncing. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "log/log_internal.h"

#define ZERO_STEP_MIN (64u << 10)
#define ZERO_STEP_MAX (1u << 20)
static const char zeros[ZERO_STEP_MIN];

void sc_journal_path(const struct sc_log *log, uint64_t name, char ret_path[PATH_MAX])
{
	/* the log's own path was checked to leave room when it was opened */
	snprintf(ret_path, PATH_MAX, "%s/journal/%020llu.journal", log->path,
		 (unsigned long long)name);
}

bool sc_journal_name_parse(const char *text, uint64_t *ret_name)
{
	size_t len = strlen(text);

	return len == 28 && strcmp(text + 20, ".journal") == 0 &&
	       sc_u64_parse(sc_span(text, 20), ret_name) && *ret_name > 0;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int read_names(DIR *dir, struct sc_names *names, uint64_t *strangers, struct sc_err *err)
{
	size_t cap = 0;
	struct dirent *entry;

	while (errno = 0, (entry = readdir(dir))) {
		uint64_t name;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!sc_journal_name_parse(entry->d_name, &name)) {
			++*strangers;
			continue;
		}
		if (names->count == cap) {
			uint64_t *more = sc_realloc(names->items,
						    (cap = cap ? cap * 2 : 64) * sizeof(*more));

			if (!more)
				return sc_err_nomem(err, "cannot list the journals");
			names->items = more;
		}
		names->items[names->count++] = name;
	}
	if (errno)
		return sc_err_sys(err, SC_E_IO, errno, "cannot list the journals");
	return 0;
}

int sc_journal_list(const struct sc_log *log, struct sc_names *ret_names, uint64_t *ret_strangers,
		    struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_names names = { NULL, 0 };
	uint64_t strangers = 0;
	DIR *dir;
	int rc;

	snprintf(path, sizeof(path), "%s/journal", log->path);
	dir = opendir(path);
	if (!dir) {
		int code = errno == ENOENT ? SC_E_DATA : errno == EACCES ? SC_E_NOAUTH : SC_E_IO;

		sc_err_sys(err, code, errno, "cannot open");
		sc_err_on(err, "folder", path);
		return sc_log_or_gone(log, code, err);
	}
	rc = read_names(dir, &names, &strangers, err);
	closedir(dir);
	if (rc < 0) {
		sc_err_on(err, "folder", path);
		sc_journal_list_done(&names);
		return rc;
	}
	if (names.count)
		qsort(names.items, names.count, sizeof(*names.items), compare);
	*ret_names = names;
	if (ret_strangers)
		*ret_strangers = strangers;
	return 0;
}

void sc_journal_list_done(struct sc_names *names)
{
	free(names->items);
	*names = (struct sc_names){ NULL, 0 };
}

int sc_journal_open(const struct sc_log *log, uint64_t name, bool write, int *ret_fd,
		    struct sc_err *err)
{
	char path[PATH_MAX];
	struct stat st;
	int fd, code;

	sc_journal_path(log, name, path);
	fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOATIME);
	if (fd < 0 && errno == EPERM) /* O_NOATIME is for the owner only */
		fd = open(path, (write ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		sc_close(&fd); /* its size is no measure of what it lacks */
		errno = EISDIR;
	}
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	code = errno == ENOENT                     ? SC_E_NOLOG
	       : errno == EACCES || errno == EPERM ? SC_E_NOAUTH
						   : SC_E_IO;
	sc_err_sys(err, code, errno, write ? "cannot open for writing" : "cannot open");
	sc_err_on(err, "journal", path);
	if (code == SC_E_NOAUTH)
		sc_err_next(err, "the file needs the right to %s for this user",
			    write ? "read and write" : "read");
	return code;
}

void sc_journal_close(struct sc_log *log)
{
	sc_close(&log->journal_fd);
	log->journal = 0;
	log->journal_new = false;
}

static int use_fd(struct sc_log *log, int fd, uint64_t name, struct sc_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int code = sc_err_sys(err, SC_E_IO, errno, "cannot examine a journal");

		close(fd);
		return code;
	}
	sc_journal_close(log);
	log->journal_fd = fd;
	log->journal = name;
	log->journal_size = (uint64_t)st.st_size;
	return 0;
}

bool sc_journal_is_named(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int sc_journal_use(struct sc_log *log, const struct sc_state *state, struct sc_err *err)
{
	int fd = -1, rc;

	if (log->journal_fd >= 0 && log->journal == state->journal &&
	    sc_journal_is_named(log->journal_fd))
		return 0;
	rc = sc_journal_open(log, state->journal, true, &fd, err);
	if (rc < 0)
		return rc;
	return use_fd(log, fd, state->journal, err);
}

static int sync_file(struct sc_log *log, bool data_only, struct sc_err *err)
{
	char path[PATH_MAX];
	int code;

	if ((data_only ? sc_sys_fdatasync(log->journal_fd) : sc_sys_fsync(log->journal_fd)) == 0)
		return 0;
	code = sc_err_sys(err, SC_E_IO, errno, "cannot sync");
	sc_journal_path(log, log->journal, path);
	sc_err_on(err, "journal", path);
	return code;
}

int sc_journal_sync(struct sc_log *log, struct sc_err *err)
{
	return sync_file(log, true, err);
}

int sc_journal_write(struct sc_log *log, const void *data, size_t len, uint64_t at,
		     struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	sc_journal_path(log, log->journal, path);
	rc = sc_pwrite_all(log->journal_fd, data, len, (off_t)at, path, err);
	if (rc == 0 && at + len > log->journal_size)
		log->journal_size = at + len;
	return rc;
}

void sc_journal_ahead(struct sc_log *log, uint64_t at, size_t len)
{
	uint64_t step = log->journal_size, to;
	struct stat st;

	/* a large commit brings its own new size to disk: zeros would only be written twice */
	if (at + len <= log->journal_size || len >= ZERO_STEP_MIN)
		return;
	if (fstat(log->journal_fd, &st) == 0 && (uint64_t)st.st_size > log->journal_size) {
		log->journal_size = (uint64_t)st.st_size; /* another process wrote ahead */
		if (at + len <= log->journal_size)
			return;
	}
	if (step < ZERO_STEP_MIN)
		step = ZERO_STEP_MIN;
	if (step > ZERO_STEP_MAX)
		step = ZERO_STEP_MAX;
	to = at + len + step;
	if (to > log->settings.journal_bytes) /* then the next journal begins */
		to = log->settings.journal_bytes > at + len ? log->settings.journal_bytes
							    : at + len;
	/* a full disk may still take the commit itself: what fails here shows there */
	for (uint64_t pos = log->journal_size > at + len ? log->journal_size : at + len;
	     pos < to;) {
		size_t n = to - pos < sizeof(zeros) ? (size_t)(to - pos) : sizeof(zeros);
		ssize_t wrote = sc_sys_pwrite(log->journal_fd, zeros, n, (off_t)pos);

		if (wrote <= 0)
			break;
		pos += (uint64_t)wrote;
		log->journal_size = pos;
	}
}

void sc_journal_wipe(struct sc_log *log, uint64_t at)
{
	if (sc_sys_pwrite(log->journal_fd, zeros, SC_BLOCK_HEAD, (off_t)at) == SC_BLOCK_HEAD)
		sc_sys_fdatasync(log->journal_fd);
}

/*
 * The anchor block: what came before, the schema if it was ever changed, and all sources and
 * producers as they stand. Into log->out.
 */
static int make_anchor(struct sc_log *log, const struct sc_state *state, struct sc_span checkpoint,
		       struct sc_block *ret_block, struct sc_err *err)
{
	struct sc_anchor anchor = {
		.stream_id = sc_span_str(log->settings.stream_id),
		.rows = state->rows,
		.bytes = state->bytes,
		.prev_journal = state->journal,
		.prev_end = state->end,
	};
	struct sc_schema_mark mark = sc_settings_schema(&log->settings);
	struct sc_block block = {
		.prev = state->hash,
		.first = state->next,
		.last = state->next - 1,
		.appended_us = state->last_us,
		.commit = state->commit,
	};

	sc_bytes_clear(&log->out);
	if (sc_bytes_reserve(&log->out, SC_BLOCK_HEAD) < 0)
		return sc_err_nomem(err, "cannot make a journal");
	memset(log->out.data, 0, SC_BLOCK_HEAD);
	log->out.len = SC_BLOCK_HEAD;
	if (sc_ext_put_anchor(&log->out, &anchor) < 0 ||
	    (mark.version > 1 && sc_ext_put_schema(&log->out, &mark) < 0) ||
	    sc_bytes_put(&log->out, checkpoint.data, checkpoint.len) < 0)
		return sc_err_nomem(err, "cannot make a journal");
	if (log->out.len - SC_BLOCK_HEAD > SC_BLOCK_EXT_MAX)
		return sc_err_set(err, SC_E_INTERNAL, "cannot make a journal",
				  "the schema, sources and producers take too much room");
	block.ext_len = (uint32_t)(log->out.len - SC_BLOCK_HEAD);
	sc_block_seal(log->out.data, &block);
	*ret_block = block;
	return 0;
}

int sc_journal_begin(struct sc_log *log, struct sc_state *state, struct sc_span checkpoint,
		     struct sc_err *err)
{
	char path[PATH_MAX], folder[PATH_MAX];
	struct sc_block block = { .first = 0 };
	int rc = make_anchor(log, state, checkpoint, &block, err), fd;

	if (rc < 0)
		return rc;
	sc_journal_path(log, state->next, path);
	/*
	 * A file of that name can only be one that a process began to make and died, or whose
	 * first commit failed: no row in it was acknowledged, since they all would be at or above
	 * the frontier.
	 */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0) {
		rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_IO,
				errno, "cannot create");
		sc_err_on(err, "journal", path);
		return rc;
	}
	rc = use_fd(log, fd, state->next, err);
	if (rc < 0)
		return rc;
	log->journal_new = true;
	rc = sc_journal_write(log, log->out.data, log->out.len, 0, err);
	if (rc == 0)
		rc = sc_journal_write(log, zeros, SC_BLOCK_HEAD, log->out.len, err);
	if (rc == 0)
		sc_journal_ahead(log, log->journal_size, 1);
	if (rc == 0)
		rc = sync_file(log, false, err);
	if (rc == 0) {
		snprintf(folder, sizeof(folder), "%s/journal", log->path);
		rc = sc_sync_dir(folder, err);
	}
	if (rc < 0) {
		sc_journal_close(log);
		sc_sys_unlink(path);
		return rc;
	}
	state->journal = state->next;
	state->end = sc_block_size(&block);
	state->hash = block.hash;
	state->sparse_at = 0;
	state->journals++;
	return 0;
}

int sc_journal_clear_ahead(const struct sc_log *log, const struct sc_state *state,
			   struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	char path[PATH_MAX];
	bool found = false;
	int rc = sc_journal_list(log, &names, NULL, err);

	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		if (names.items[i] <= state->journal)
			continue;
		found = true;
		sc_journal_path(log, names.items[i], path);
		if (sc_sys_unlink(path) < 0 && errno != ENOENT) {
			rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
			sc_err_on(err, "journal", path);
		}
	}
	sc_journal_list_done(&names);
	if (rc < 0 || !found)
		return rc;
	snprintf(path, sizeof(path), "%s/journal", log->path);
	return sc_sync_dir(path, err);
}

void sc_journal_leave_out(const struct sc_log *log, struct sc_state *state)
{
	uint64_t from = sc_settings_schema(&log->settings).from;

	if (state->next < from)
		state->next = from;
	if (state->next < log->settings.next)
		state->next = log->settings.next;
}

int sc_journal_clear_behind(struct sc_log *log, const struct sc_state *state, struct sc_err *err)
{
	int rc = sc_journal_use(log, state, err);

	if (rc == 0)
		rc = sc_journal_write(log, zeros, SC_BLOCK_HEAD, state->end, err);
	if (rc == 0)
		rc = sc_journal_sync(log, err);
	return rc < 0 ? rc : sc_journal_clear_ahead(log, state, err);
}

static int put_entry(struct sc_kv_txn *txn, uint64_t name, const struct sc_journal_entry *entry,
		     struct sc_err *err)
{
	return sc_kv_put(txn, SC_T_JOURNALS, sc_u64_key(&name),
			 sc_span((const char *)entry, sizeof(*entry)), err);
}

int sc_journal_rotate(struct sc_log *log, struct sc_kv_txn *txn, struct sc_state *s,
		      struct sc_err *err)
{
	struct sc_bytes *ext = &log->ext;
	struct sc_journal_entry done = { .end = s->end },
				begun = { .rows = s->rows, .bytes = s->bytes };
	struct sc_place place = { 0, 0, s->rows, s->bytes, s->last_us };
	uint64_t old = s->journal, name;
	struct sc_span value;
	int rc = sc_kv_get(txn, SC_T_JOURNALS, sc_u64_key(&old), &value, err);

	/* whoever makes it gives it the same name: one left by who died is taken, not passed
	 * over */
	sc_journal_leave_out(log, s);
	place.journal = name = s->next;
	if (rc < 0)
		return rc;
	if (rc == 1 && value.len == sizeof(done)) {
		memcpy(&done, value.data, sizeof(done));
		done.end = s->end;
	}
	sc_bytes_clear(ext);
	rc = sc_source_checkpoint(txn, ext, err);
	if (rc == 0)
		rc = sc_journal_begin(log, s, sc_span(ext->data, ext->len), err);
	if (rc == 0)
		rc = put_entry(txn, old, &done, err);
	if (rc == 0)
		rc = put_entry(txn, name, &begun, err);
	if (rc == 0)
		rc = sc_kv_put(txn, SC_T_BLOCKS, sc_u64_key(&name),
			       sc_span((const char *)&place, sizeof(place)), err);
	s->suspect = 0;
	return rc;
}
