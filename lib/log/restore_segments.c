/*
 * restore_segments.c: segments of an archive to this disk, from the newest.
 *
 * Each comes under another name, is synced, verified, and renamed: a name says that it is whole. So
 * a restore that died is gone on with, and what it made that is not wanted any more goes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "log/restore_internal.h"

#define TRIED "cannot restore"
#define TEMPORARY SC_SEALED_DIR "/.restore.tmp"

static int check_segment(struct sc_restore *r, const struct sc_archive_item *item, int fd,
			 const char *path, bool all, struct sc_segment_info *ret_info,
			 struct sc_err *err)
{
	struct sc_segment_source source;
	struct sc_segment *segment = NULL;
	int rc = sc_segment_source_fd(fd, path, &source, err);

	if (rc == 0)
		rc = sc_segment_open(&source, &segment, err);
	if (rc == 0 && all)
		rc = sc_segment_verify(segment, err);
	if (rc == 0) {
		*ret_info = *sc_segment_info(segment);
		if (ret_info->first != item->first || ret_info->last != item->last ||
		    strcmp(ret_info->stream_id, r->archive.stream_id) != 0) {
			rc = sc_err_set(err, SC_E_DATA, TRIED,
					"it holds other rows than its name says");
			sc_err_on(err, "file", path);
		}
	}
	sc_segment_close(segment);
	return rc;
}

static int open_failed(const char *path, struct sc_err *err)
{
	int rc = sc_err_sys(err, SC_E_IO, errno, "cannot create");

	sc_err_on(err, "segment", path);
	return rc;
}

/* One segment to this disk; one that is there already has its name, so it is whole. */
static int download(struct sc_restore *r, const struct sc_archive_item *item,
		    struct sc_segment_info *ret_info, struct sc_err *err)
{
	char path[PATH_MAX], temporary[PATH_MAX], key[SC_ARCHIVE_KEY];
	struct stat st;
	int fd, rc;

	sc_tier_path(&r->log, item->first, item->last, path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	rc = SC_E_DATA;
	if (fd >= 0 && fstat(fd, &st) == 0 && (uint64_t)st.st_size == item->bytes)
		rc = check_segment(r, item, fd, path, false, ret_info, err);
	sc_close(&fd);
	if (rc != SC_E_DATA)
		return rc;
	sc_err_clear(err); /* it is not, or not any more, what is there */
	sc_log_file(&r->log, temporary, TEMPORARY);
	fd = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return open_failed(temporary, err);
	sc_archive_key(&r->archive, item, key);
	rc = sc_store_copy(r->archive.store, key, fd, temporary, NULL, err);
	if (rc == 0 && sc_sys_fsync(fd) < 0)
		rc = open_failed(temporary, err);
	if (rc == 0) {
		rc = check_segment(r, item, fd, temporary, true, ret_info, err);
		if (rc == SC_E_DATA)
			sc_archive_err(&r->archive, key, err);
	}
	sc_close(&fd);
	if (rc == 0 && sc_sys_rename(temporary, path) < 0)
		rc = open_failed(path, err);
	if (rc < 0)
		sc_sys_unlink(temporary);
	return rc;
}

/* The rows between segment I, BEHIND which so many were there, and the one above it, which begins
 * with FIRST and BEFORE which so many were: are they in what was shipped? Then the log gave them
 * up before they were sealed, and began above them. 1, 0. */
static int was_given_up(struct sc_restore *r, size_t i, uint64_t behind, uint64_t first,
			uint64_t before, struct sc_err *err)
{
	uint64_t rows = 0;
	int rc = 0;

	if (before > behind)
		rc = sc_archive_rows_shipped(&r->archive, r->archive.items[i].last + 1, first,
					     &rows, err);
	return rc < 0 ? rc : before > behind && rows == before - behind;
}

/* Files of segments that the log does not begin with, of a restore that went further: they go. */
static int sweep_segments(struct sc_restore *r, struct sc_err *err)
{
	const struct sc_archive *archive = &r->archive;
	struct sc_tier_names names = { NULL, 0, 0 };
	char path[PATH_MAX];
	int rc = sc_tier_list(&r->log, &names, err);

	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		size_t at = sc_archive_item_of(archive, names.items[i].last);

		if (at < r->report->left || at == archive->count || archive->items[at].spare ||
		    archive->items[at].first != names.items[i].first ||
		    archive->items[at].last != names.items[i].last)
			rc = sc_tier_remove(&r->log, names.items[i].first, names.items[i].last,
					    err);
	}
	sc_tier_list_done(&names);
	sc_log_file(&r->log, path, TEMPORARY);
	sc_sys_unlink(path);
	return rc;
}

/* The lowest of those that were taken: where it begins, and what was there before. */
struct front {
	size_t at;
	uint64_t first, rows;
	struct sc_hash before;
	uint64_t
		overlap; /* rows from here on are in segments that were passed over, too; 0: none */
};

/* Segment I, with INFO, is below FRONT. 1: it is what comes before it; 0: the log begins with
 * FRONT, and what is below stays in the archive. */
static int joins(struct sc_restore *r, size_t i, const struct sc_segment_info *info,
		 const struct front *front, struct sc_err *err)
{
	uint64_t behind = info->tie.rows_before + info->rows;
	int rc;

	if (front->at == r->archive.count)
		return 1;
	if (behind == front->rows)
		/* or the same rows, which another copy of the log got in other commits */
		return sc_hash_same(&info->tie.after, &front->before);
	if (front->overlap && front->overlap <= info->last + 1)
		return 0;
	rc = was_given_up(r, i, behind, front->first, front->rows, err);
	if (rc == 1 || (r->o->partial && (rc == 0 || rc == SC_E_DATA || rc == SC_E_NOLOG)))
		return 0;
	return rc < 0 ? rc : sc_restore_hole(r, info->last + 1, front->first, err);
}

/*
 * Of the segments from LEFT on each follows the one before it. The log begins behind the first
 * hole, from above, where rows were given up; with --partial, behind any. A segment of which some
 * rows are in the one above it, as another copy of the log divided them or a machine that was
 * replaced put it there late, is passed over.
 */
static int fetch_segments(struct sc_restore *r, size_t left, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	struct sc_segment_info info = { .rows = 0 };
	struct front front = { .at = archive->count };
	int rc = 1;

	/* from the newest: what is left of a restore that stops can be used soonest */
	for (size_t i = archive->count; i-- > left;) {
		struct sc_archive_item *item = &archive->items[i];

		if (!sc_restore_goes_on(r, item->bytes))
			return 0;
		item->spare = front.at < archive->count && item->last >= front.first;
		if (item->spare) {
			front.overlap = item->first;
			continue;
		}
		rc = download(r, item, &info, err);
		if (rc == 0)
			rc = joins(r, i, &info, &front, err);
		else if (r->o->partial && front.at < archive->count &&
			 (rc == SC_E_DATA || rc == SC_E_NOLOG))
			rc = 0;
		if (rc < 0)
			return rc;
		if (rc == 0) { /* what is above it is whole: the log begins there */
			sc_err_clear(err);
			break;
		}
		front = (struct front){ .at = i,
					.first = item->first,
					.rows = info.tie.rows_before,
					.before = info.tie.before };
		r->floor = (struct sc_floor){ item->first, info.tie.rows_before,
					      info.tie.bytes_before };
		r->report->segments++;
		r->report->segment_bytes += item->bytes;
		rc = sc_archive_record_add(archive, item->first, info.tie.next, err);
		if (rc < 0)
			return rc;
	}
	r->report->left = front.at == archive->count ? left : front.at;
	return 0;
}

int sc_restore_segments(struct sc_restore *r, size_t left, struct sc_err *err)
{
	int rc = fetch_segments(r, left, err);

	return rc == 0 && !r->stopped ? sweep_segments(r, err) : rc;
}
