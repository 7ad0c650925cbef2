/*
 * tier.c: the folder of segments: names, which of them count, opening.
 *
 * A segment has its final name only once it is whole and synced, so a name alone says which rows
 * are there. What a seal or a compaction left when it died overlaps: the longer one counts, it was
 * made of the others.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "log/log_internal.h"

void sc_tier_path(const struct sc_log *log, uint64_t first, uint64_t last, char ret_path[PATH_MAX])
{
	char name[SC_SEGMENT_NAME];

	sc_segment_name(first, last, name);
	/* the log's own path was checked to leave room when it was opened */
	snprintf(ret_path, PATH_MAX, "%s/" SC_SEALED_DIR "/%s", log->path, name);
}

void sc_log_segment_path(const struct sc_log *log, const struct sc_sealed *segment,
			 char ret_path[PATH_MAX])
{
	sc_tier_path(log, segment->first, segment->last, ret_path);
}

static int compare(const void *a, const void *b)
{
	const struct sc_tier_name *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->last < y->last) - (x->last > y->last);
}

static int add_name(struct sc_tier_names *names, size_t *cap, const struct sc_tier_name *name)
{
	if (names->count == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		struct sc_tier_name *grown = sc_realloc(names->items, more * sizeof(*grown));

		if (!grown)
			return SC_E_NOMEM;
		names->items = grown;
		*cap = more;
	}
	names->items[names->count++] = *name;
	return 0;
}

static int read_names(DIR *dir, struct sc_tier_names *names, struct sc_err *err)
{
	struct dirent *entry;
	size_t cap = 0;

	while (errno = 0, (entry = readdir(dir))) {
		struct sc_tier_name name = { .covered = false };

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!sc_segment_name_parse(entry->d_name, &name.first, &name.last))
			names->strangers++;
		else if (add_name(names, &cap, &name) < 0)
			return sc_err_nomem(err, "cannot list the segments");
	}
	return errno ? sc_err_sys(err, SC_E_IO, errno, "cannot list the segments") : 0;
}

int sc_tier_list(const struct sc_log *log, struct sc_tier_names *ret_names, struct sc_err *err)
{
	struct sc_tier_names names = { NULL, 0, 0 };
	char path[PATH_MAX];
	uint64_t covered = 0;
	DIR *dir;
	int rc;

	sc_log_file(log, path, SC_SEALED_DIR);
	dir = opendir(path);
	if (!dir && errno != ENOENT) {
		rc = sc_err_sys(err, errno == EACCES ? SC_E_NOAUTH : SC_E_IO, errno, "cannot open");
		sc_err_on(err, "folder", path);
		return rc;
	}
	rc = dir ? read_names(dir, &names, err) : 0;
	if (dir)
		closedir(dir);
	if (rc < 0) {
		sc_err_on(err, "folder", path);
		sc_tier_list_done(&names);
		return rc;
	}
	if (names.count)
		qsort(names.items, names.count, sizeof(*names.items), compare);
	for (size_t i = 0; i < names.count; i++) {
		names.items[i].covered = names.items[i].last <= covered;
		if (!names.items[i].covered)
			covered = names.items[i].last;
	}
	*ret_names = names;
	return 0;
}

void sc_tier_list_done(struct sc_tier_names *names)
{
	free(names->items);
	*names = (struct sc_tier_names){ NULL, 0, 0 };
}

static int open_file(const char *path, int *ret_fd, struct sc_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOATIME), code;

	if (fd < 0 && errno == EPERM) /* O_NOATIME is for the owner only */
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	code = errno == ENOENT                     ? SC_E_NOLOG
	       : errno == EACCES || errno == EPERM ? SC_E_NOAUTH
						   : SC_E_IO;
	sc_err_sys(err, code, errno, "cannot open");
	sc_err_on(err, "segment", path);
	if (code == SC_E_NOAUTH)
		sc_err_next(err, "the file needs the right to read for this user");
	return code;
}

/* Is it of this log, and are its rows those that its name says? */
static int check_info(const struct sc_log *log, const struct sc_segment_info *info, uint64_t first,
		      uint64_t last, struct sc_err *err)
{
	if (strcmp(info->stream_id, log->settings.stream_id) != 0)
		return sc_err_set(err, SC_E_DATA, "cannot read",
				  "it belongs to another stream than log.json");
	if (info->first != first || info->last != last)
		return sc_err_set(err, SC_E_DATA, "cannot read",
				  "it holds other rows than its name says");
	return 0;
}

int sc_tier_open(const struct sc_log *log, uint64_t first, uint64_t last, struct sc_tier **ret_tier,
		 struct sc_err *err)
{
	struct sc_segment_source source;
	struct sc_tier *tier;
	char path[PATH_MAX];
	int fd = -1, rc;

	sc_tier_path(log, first, last, path);
	rc = open_file(path, &fd, err);
	if (rc < 0)
		return rc;
	tier = sc_malloc(sizeof(*tier) + strlen(path) + 1);
	if (!tier) {
		close(fd);
		return sc_err_nomem(err, "cannot read the log");
	}
	*tier = (struct sc_tier){ .fd = fd };
	memcpy(tier->path, path, strlen(path) + 1);
	rc = sc_segment_source_fd(fd, tier->path, &source, err);
	if (rc == 0)
		rc = sc_segment_open(&source, &tier->segment, err);
	if (rc == 0)
		rc = check_info(log, sc_segment_info(tier->segment), first, last, err);
	if (rc == SC_E_DATA) {
		rc = sc_segment_unreadable(tier->path, first, last, err);
		rc = sc_log_or_gone(log, rc, err);
	}
	if (rc < 0) {
		sc_tier_close(tier);
		return rc;
	}
	*ret_tier = tier;
	return 0;
}

void sc_tier_close(struct sc_tier *tier)
{
	if (!tier)
		return;
	sc_segment_close(tier->segment);
	sc_close(&tier->fd);
	free(tier);
}

void sc_tier_note(const struct sc_segment_info *info, struct sc_sealed *ret_sealed)
{
	*ret_sealed = (struct sc_sealed){
		.first = info->first,
		.last = info->last,
		.next = info->tie.next,
		.rows = info->rows,
		.bytes = info->bytes,
		.rows_before = info->tie.rows_before,
		.bytes_before = info->tie.bytes_before,
		.file_bytes = info->file_bytes,
		.first_us = info->first_us,
		.last_us = info->last_us,
		.schema = XXH3_64bits(info->schema.data, info->schema.len),
	};
}

int sc_tier_missing(const struct sc_log *log, uint64_t first, uint64_t last, struct sc_err *err)
{
	char path[PATH_MAX];

	sc_tier_path(log, first, last, path);
	sc_err_set(err, SC_E_DATA, "cannot read",
		   "the segment is missing; the last good offset is %llu",
		   (unsigned long long)(first - 1));
	sc_err_on(err, "file", path);
	sc_err_next(err, "put it back, or give its rows up: sc-log trim %s --before %llu",
		    log->path, (unsigned long long)(last + 1));
	sc_err_field_str(err, "file", path);
	sc_err_field_u64(err, "last_good", first - 1);
	return sc_log_or_gone(log, SC_E_DATA, err);
}

static int all_from_index(struct sc_log *log, struct sc_sealed **ret_items, size_t *ret_count,
			  struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	struct sc_sealed *items = NULL;
	size_t count = 0, room = 0;
	int rc = sc_kv_read(log->kv, &txn, err);

	if (rc < 0)
		return rc;
	room = (size_t)sc_kv_count(txn, SC_T_SEGMENTS);
	items = sc_malloc((room + 1) * sizeof(*items));
	rc = items ? sc_kv_cursor_open(txn, SC_T_SEGMENTS, &cursor, err)
		   : sc_err_nomem(err, "cannot list the segments");
	if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	while (rc == 1 && count < room) {
		if (value.len != sizeof(*items)) {
			rc = sc_err_set(err, SC_E_DATA, "cannot read the index",
					"an entry has another size");
			break;
		}
		memcpy(&items[count++], value.data, sizeof(*items));
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	if (rc < 0) {
		free(items);
		return rc;
	}
	*ret_items = items;
	*ret_count = count;
	return 0;
}

static int all_from_files(struct sc_log *log, struct sc_sealed **ret_items, size_t *ret_count,
			  struct sc_err *err)
{
	struct sc_tier_names names = { NULL, 0, 0 };
	struct sc_sealed *items;
	size_t count = 0;
	int rc = sc_tier_list(log, &names, err);

	if (rc < 0)
		return rc;
	items = sc_malloc((names.count + 1) * sizeof(*items));
	if (!items)
		rc = sc_err_nomem(err, "cannot list the segments");
	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		const struct sc_tier_name *n = &names.items[i];
		struct sc_tier *tier = NULL;

		if (n->covered || n->last < log->settings.floor.offset)
			continue;
		rc = sc_tier_open(log, n->first, n->last, &tier, err);
		if (rc == 0)
			sc_tier_note(sc_segment_info(tier->segment), &items[count++]);
		sc_tier_close(tier);
	}
	sc_tier_list_done(&names);
	if (rc < 0) {
		free(items);
		return rc;
	}
	*ret_items = items;
	*ret_count = count;
	return 0;
}

int sc_tier_all(struct sc_log *log, struct sc_sealed **ret_items, size_t *ret_count,
		struct sc_err *err)
{
	struct sc_state state;
	int rc = SC_E_NOLOG;

	for (int i = 0; i < 16 && rc == SC_E_NOLOG; i++) {
		rc = sc_index_now(log, &state, err); /* opens a new index if ours was replaced */
		if (rc == 0)
			rc = log->kv ? all_from_index(log, ret_items, ret_count, err)
				     : all_from_files(log, ret_items, ret_count, err);
	}
	return rc; /* SC_E_NOLOG: one that was listed is gone, again and again */
}

int sc_log_segments(struct sc_log *log, int (*each)(void *arg, const struct sc_sealed *segment),
		    void *arg, struct sc_err *err)
{
	struct sc_sealed *items = NULL;
	size_t count = 0;
	int rc = sc_tier_all(log, &items, &count, err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = each(arg, &items[i]);
	free(items);
	return rc;
}

int sc_tier_remove(const struct sc_log *log, uint64_t first, uint64_t last, struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	sc_tier_path(log, first, last, path);
	if (sc_sys_unlink(path) == 0 || errno == ENOENT)
		return 0;
	rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
	sc_err_on(err, "segment", path);
	return rc;
}

int sc_tier_sync(const struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];

	sc_log_file(log, path, SC_SEALED_DIR);
	return access(path, F_OK) == 0 ? sc_sync_dir(path, err) : 0;
}
