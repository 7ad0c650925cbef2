/*
 * restore.c: a log made anew from its archive.
 *
 * The order of steps is what makes it safe:
 *   1. restore.json says what the folder is to become; without a log.json nobody else opens it
 *   2. the archive becomes ours by compare-and-swap: the lost machine's next write is refused
 *   3. what it holds now is what is taken; journals are built of what was shipped, which tells the
 *      last row
 *   4. the range between that and where the log will go on is published as burned, so that whatever
 *      the lost machine still puts there counts for nothing; list.json gets our mark
 *   5. segments are downloaded
 *   6. a journal that begins behind the burned range, anchored to all before it; then log.json,
 *      which makes it a log
 * Killed anywhere, the next one begins at 1 with the claim that it finds; what was published
 * stands, and segments that have their names stay.
 */
#include "log/restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/restore_internal.h"

#define TRIED "cannot restore"

bool sc_restore_goes_on(struct sc_restore *r, uint64_t bytes)
{
	r->done += bytes;
	if (r->o->progress && !r->o->progress(r->o->arg, r->done, r->total))
		r->stopped = true;
	return !r->stopped;
}

int sc_restore_hole(struct sc_restore *r, uint64_t offset, uint64_t next, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED,
		   "'%s' has a hole: nothing in it holds the rows from offset %llu up to %llu",
		   r->archive.url, (unsigned long long)offset, (unsigned long long)next);
	sc_log_err(&r->log, err);
	sc_err_next(err, "put the objects back, or take what is whole: --partial");
	sc_err_field_str(err, "file", r->archive.url);
	sc_err_field_u64(err, "last_good", offset - 1);
	return SC_E_DATA;
}

static int cannot_create(const struct sc_restore *r, const char *reason, const char *next,
			 struct sc_err *err)
{
	sc_err_set(err, SC_E_CANTCREAT, TRIED, "%s", reason);
	sc_log_err(&r->log, err);
	sc_err_next(err, "%s", next);
	return SC_E_CANTCREAT;
}

/* Is anything in the folder? */
static bool holds_files(const char *path)
{
	struct dirent *entry;
	bool found = false;
	DIR *dir = opendir(path);

	while (dir && !found && (entry = readdir(dir)))
		found = strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	if (dir)
		closedir(dir);
	return found;
}

/* Nothing there; or a restore of the same archive, to go on with. */
static int check_folder(struct sc_restore *r, struct sc_err *err)
{
	char file[PATH_MAX], old[1024];
	struct sc_json root;
	struct sc_bytes text;
	int rc;

	sc_log_file(&r->log, file, "log.json");
	if (access(file, F_OK) == 0)
		return cannot_create(r, "it exists already", "give the path of a new log", err);
	sc_log_file(&r->log, file, SC_RESTORE_FILE);
	sc_bytes_init(&text, 64u << 10);
	rc = sc_read_file(file, &text, err);
	if (rc == SC_E_NOLOG) {
		sc_err_clear(err);
		sc_replace_sweep(file); /* one that died before it could say that it was here */
		rc = holds_files(r->log.path)
			     ? cannot_create(r, "the folder exists and holds other files",
					     "give the path of a new log", err)
			     : 0;
	} else if (rc == 0) {
		r->report->resumed = true;
		if (sc_json_scan(sc_span(text.data, text.len), &root, NULL) < 0 ||
		    !sc_archive_text(&root, "stream_id", old, sizeof(old)) ||
		    strcmp(old, r->archive.stream_id) != 0)
			rc = cannot_create(r, "a restore of another archive is not finished there",
					   "finish that one, or remove the folder", err);
	}
	sc_bytes_done(&text);
	return rc;
}

static int make_folder(const struct sc_restore *r, const char *name, struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	sc_log_file(&r->log, path, name);
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return 0;
	rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_CANTCREAT,
			errno, "cannot make");
	sc_err_on(err, "folder", path);
	return rc;
}

static int lock_folder(struct sc_restore *r, struct sc_err *err)
{
	int rc;

	r->log.dir_fd = open(r->log.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->log.dir_fd >= 0 && flock(r->log.dir_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (r->log.dir_fd >= 0 && errno == EWOULDBLOCK) {
		sc_err_set(err, SC_E_BUSY, TRIED, "another restore works there");
		sc_log_err(&r->log, err);
		sc_err_next(err, "wait for it to end");
		return SC_E_BUSY;
	}
	rc = sc_err_sys(err, errno == EACCES ? SC_E_NOAUTH : SC_E_CANTCREAT, errno, "cannot lock");
	sc_log_err(&r->log, err);
	return rc;
}

/* The folder is ours, and says what it is to become. */
static int mark_folder(struct sc_restore *r, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_bytes text;
	int rc = sc_make_parents(r->log.path, true, err), bad = 0;

	if (rc == 0)
		rc = make_folder(r, "", err);
	if (rc == 0)
		rc = lock_folder(r, err);
	if (rc == 0)
		rc = check_folder(r, err);
	if (rc == 0 && !r->log.settings.network_ok)
		rc = sc_netfs_check(r->log.path, err);
	if (rc < 0)
		return rc;
	sc_bytes_init(&text, 64u << 10);
	bad |= sc_bytes_putf(&text,
			     "{\"format\":%d,\n\"stream_id\":\"%s\",\n\"url\":", SC_ARCHIVE_FORMAT,
			     r->archive.stream_id);
	bad |= sc_bytes_put_json(&text, sc_span_str(sc_store_url(r->archive.store)));
	bad |= sc_bytes_puts(&text, "}\n");
	sc_log_file(&r->log, path, SC_RESTORE_FILE);
	rc = bad ? sc_err_nomem(err, TRIED)
		 : sc_replace_file(path, text.data, text.len, 0666, true, err);
	sc_bytes_done(&text);
	if (rc == 0)
		rc = make_folder(r, "journal", err);
	if (rc == 0)
		rc = make_folder(r, SC_SEALED_DIR, err);
	if (rc == 0)
		rc = sc_sync_dir(r->log.path, err);
	snprintf(path, sizeof(path), "%s/..", r->log.path);
	return rc < 0 ? rc : sc_sync_dir(path, err);
}

/* What the log is: from the archive's log.json. */
static int read_settings(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	char key[SC_ARCHIVE_KEY], name[1200];
	struct sc_json root;
	struct sc_bytes text;
	int rc = sc_archive_read_id(archive, err);

	if (rc == SC_E_NOLOG &&
	    !sc_archive_no_bucket(err)) /* its words are for those who name the archive itself */
		sc_err_next(err, "the archive of LOG is URL/NAME, where NAME is the last part of "
				 "LOG: give the URL that sc-seal has");
	if (rc < 0)
		return rc;
	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = sc_archive_read_json(archive, SC_ARCHIVE_LOG, &text, &root, NULL, err);
	sc_archive_name(archive, SC_ARCHIVE_LOG, key);
	snprintf(name, sizeof(name), "%s/%s", sc_store_url(archive->store), key);
	if (rc == 0)
		rc = sc_settings_parse(sc_span(text.data, text.len), name, &r->log.settings, err);
	sc_bytes_done(&text);
	snprintf(archive->stream_id, sizeof(archive->stream_id), "%s", r->log.settings.stream_id);
	return rc;
}

static int no_offsets(const struct sc_restore *r, uint64_t next, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "so few offsets are left behind %llu that none would be behind those that the "
		   "lost machine may have given",
		   (unsigned long long)next - 1);
	sc_log_err(&r->log, err);
	sc_err_next(err,
		    r->o->jump > SC_RESTORE_JUMP
			    ? "give a smaller --jump"
			    : "append the rows to a new log: sc-catchup --payload prints them");
	sc_err_field_str(err, "why", "no_offsets");
	return SC_E_REFUSED;
}

static int too_often(const struct sc_restore *r, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "it was restored %u times, and rows from between are still in its archive",
		   SC_ARCHIVE_BURNS_MAX);
	sc_log_err(&r->log, err);
	sc_err_next(err, "append the rows to a new log: sc-catchup --payload prints them");
	sc_err_field_str(err, "why", "too_often");
	return SC_E_REFUSED;
}

/* Before anything is changed: will there be a next offset? It is told of what the archive's names
 * say, so what is left of 2^64 is enough for any gap. */
static int check_room(struct sc_restore *r, struct sc_err *err)
{
	const struct sc_archive_epoch *now = &r->archive.epoch;
	uint64_t most = SC_ARCHIVE_JUMP_MAX + SC_RESTORE_JUMP;
	struct sc_archive_state state;
	size_t kept = 0;

	sc_archive_state(&r->archive, &state);
	if (state.next_offset < r->archive.listed_next)
		state.next_offset = r->archive.listed_next;
	if (state.next_offset < r->log.settings.next)
		state.next_offset = r->log.settings.next;
	if (r->o->jump > most)
		most = r->o->jump;
	for (size_t i = 0; i < now->burn_count; i++) {
		if (now->burns[i].next > state.next_offset)
			state.next_offset = now->burns[i].next;
		kept += now->burns[i].next > now->floor;
	}
	if (most > SC_NEXT_MAX || state.next_offset > SC_NEXT_MAX - most)
		return no_offsets(r, state.next_offset, err);
	return kept == SC_ARCHIVE_BURNS_MAX ? too_often(r, err) : 0;
}

/* What is there, as long as it is another's; and nothing was changed yet. */
static int look(struct sc_restore *r, struct sc_err *err)
{
	char path[PATH_MAX];
	int rc = sc_archive_refresh(&r->archive, err);

	sc_log_file(&r->log, path, SC_RESTORE_FILE);
	if (rc == 0 && r->archive.unseen.count && !r->o->partial)
		return sc_restore_hole(r, r->archive.unseen.items[0].first,
				       r->archive.unseen.items[0].last + 1, err);
	if (rc == 0 && access(path, F_OK) < 0) /* else it was looked at when that one began */
		rc = check_room(r, err);
	return rc;
}

/* The archive is this restore's, whoever had it: who it was goes into the report. */
static int take_over(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	const struct sc_archive_record *ours = &archive->record;
	int rc = sc_archive_record_read(archive, err);

	if (rc < 0)
		return rc;
	if (archive->epoch.epoch && strcmp(archive->epoch.stream_id, archive->stream_id) != 0)
		return sc_archive_fence(archive, err); /* says so */
	if (ours->owner[0] && archive->epoch.epoch >= ours->epoch)
		return sc_archive_fence(archive, err); /* it was ours: is it still? */
	snprintf(r->report->host, sizeof(r->report->host), "%s", archive->epoch.host);
	r->report->since_us = archive->epoch.since_us;
	rc = sc_store_check_conditions(archive->store, err);
	return rc < 0 ? rc : sc_archive_wrest(archive, err);
}

/* How many segments, from the lowest, stay in the archive only. */
static int count_left(struct sc_restore *r, size_t *ret_left, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	int64_t now_us = r->o->now_us ? r->o->now_us : sc_wall_us();
	uint64_t bytes = 0;
	size_t at = archive->count;

	while (at > 0) {
		struct sc_archive_item *item = &archive->items[at - 1];
		struct sc_archive_segment *segment = NULL;
		int rc = 0;

		bytes += item->bytes;
		if (at < archive->count && r->o->keep_bytes && bytes > r->o->keep_bytes)
			break;
		if (r->o->keep_age_us && !item->last_us)
			rc = sc_archive_segment_open(archive, item, &segment, err);
		sc_archive_segment_close(segment);
		if (rc < 0)
			return rc;
		if (at < archive->count && r->o->keep_age_us &&
		    item->last_us < now_us - r->o->keep_age_us)
			break;
		at--;
	}
	*ret_left = at;
	return 0;
}

/* The end of the last segment is where the rest goes on; an archive without one begins anew. */
static int begin_state(struct sc_restore *r, struct sc_bytes *checkpoint, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	struct sc_archive_segment *segment = NULL;
	const struct sc_segment_info *info;
	int rc;

	r->state = (struct sc_state){ .next = 1, .last_us = r->log.settings.created_us };
	r->state.hash = sc_block_genesis(archive->stream_id);
	if (!archive->count)
		return 0;
	rc = sc_archive_segment_open(archive, &archive->items[archive->count - 1], &segment, err);
	if (rc < 0)
		return rc;
	info = sc_segment_info(sc_archive_segment_inner(segment));
	r->state = (struct sc_state){
		.next = info->tie.next,
		.last = info->last,
		.rows = info->tie.rows_before + info->rows,
		.bytes = info->tie.bytes_before + info->bytes,
		.commit = info->tie.commit,
		.journal = info->tie.journal,
		.end = info->tie.journal_end,
		.last_us = info->last_us,
		.hash = info->tie.after,
	};
	r->pace_us = info->first_us;
	r->pace_rows = info->rows;
	r->floor.offset = archive->items[0].first; /* set when the first one is at hand */
	if (sc_bytes_put(checkpoint, info->tie.checkpoint.data, info->tie.checkpoint.len) < 0)
		rc = sc_err_nomem(err, TRIED);
	sc_archive_segment_close(segment);
	return rc;
}

/* How far the lost machine may have come since its last row that is here. */
static uint64_t jump_of(const struct sc_restore *r)
{
	int64_t now_us = r->o->now_us ? r->o->now_us : sc_wall_us();

	return sc_archive_jump(now_us, r->state.last_us, r->pace_us, r->pace_rows, r->o->jump);
}

static int publish_burn(struct sc_restore *r, const struct sc_archive_epoch *now,
			struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	int rc = sc_archive_write_epoch(archive, now, err);

	if (rc != SC_E_BUSY)
		return rc;
	rc = sc_archive_fence(archive, err); /* somebody took it over: says who */
	return rc < 0 ? rc
		      : sc_err_set(err, SC_E_DATA, TRIED, "its epoch.json changes all the time");
}

/* The burned range of this epoch, published; then the log's next offset is behind it. */
static int burn(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive_epoch now = r->archive.epoch;
	uint64_t first = r->state.last + 1, next = r->state.next, jump;

	if (next < r->archive.listed_next)
		next = r->archive.listed_next;
	if (next < r->log.settings.next)
		next = r->log.settings.next;
	for (size_t i = 0; i < now.burn_count; i++) {
		const struct sc_archive_burn *b = &now.burns[i];

		if (b->epoch == now.epoch) { /* it was published before this one died */
			r->state.next = b->next;
			if (b->first == first)
				return 0;
			if (!r->o->partial || b->first < first)
				return sc_restore_hole(r, first, b->first, err);
			now.burn_count = i; /* less is whole by now */
			sc_archive_burn_add(&now, &(struct sc_archive_burn){ now.epoch, first,
									     b->next, first });
			return publish_burn(r, &now, err);
		}
		if (b->next > next)
			next = b->next;
	}
	jump = jump_of(r);
	if (jump > SC_NEXT_MAX || next > SC_NEXT_MAX - jump)
		return no_offsets(r, next, err);
	next += jump;
	if (!sc_archive_burn_add(&now, &(struct sc_archive_burn){ now.epoch, first, next, first }))
		return too_often(r, err);
	r->state.next = next;
	return publish_burn(r, &now, err);
}

/* The rest, which makes it a log. */
static int finish(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	char path[PATH_MAX];
	int rc = sc_journal_begin(&r->log, &r->state,
				  sc_span(r->checkpoint.data, r->checkpoint.len), err);

	sc_journal_close(&r->log);
	if (rc == 0)
		rc = sc_tier_sync(&r->log, err);
	if (rc == 0)
		rc = sc_archive_record_write(archive, err);
	if (rc == 0)
		rc = sc_archive_fence(archive, err); /* nobody replaced us meanwhile */
	r->log.settings.floor = r->floor;
	if (!r->floor.offset)
		r->log.settings.floor = (struct sc_floor){ 1, 0, 0 };
	if (rc == 0)
		rc = sc_settings_write(r->log.path, &r->log.settings, err);
	sc_log_file(&r->log, path, SC_RESTORE_FILE);
	if (rc == 0)
		sc_sys_unlink(path); /* it says nothing any more */
	return rc;
}

static int stopped(struct sc_restore *r, struct sc_err *err)
{
	sc_err_set(err, SC_E_TIMEOUT, TRIED, "stopped on request");
	sc_log_err(&r->log, err);
	sc_err_next(err, "run it again to go on");
	return SC_E_TIMEOUT;
}

static void name_archive(const struct sc_restore *r)
{
	struct sc_restore_report *report = r->report;

	snprintf(report->url, sizeof(report->url), "%s", r->archive.url);
	snprintf(report->stream_id, sizeof(report->stream_id), "%s", r->archive.stream_id);
}

static void fill_report(struct sc_restore *r)
{
	struct sc_restore_report *report = r->report;

	report->rows = r->state.rows - r->log.settings.floor.rows;
	report->first = report->rows ? r->log.settings.floor.offset : 0;
	report->last = report->rows ? r->state.last : 0;
	report->last_us = report->rows ? r->state.last_us : 0;
	report->next = r->state.next;
	report->epoch = r->archive.epoch.epoch;
	name_archive(r);
}

static int run(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	struct sc_bytes checkpoint;
	size_t left = 0;
	int rc;

	sc_bytes_init(&checkpoint, SC_BLOCK_EXT_MAX);
	rc = take_over(r, err);
	if (rc == 0)
		rc = sc_archive_refresh(archive, err); /* nothing comes any more that counts */
	if (rc == 0)
		rc = count_left(r, &left, err);
	r->report->left = left;
	for (size_t i = left; rc == 0 && i < archive->count; i++)
		r->total += archive->items[i].bytes;
	for (size_t i = 0; rc == 0 && i < archive->ships.count; i++)
		r->total += archive->ships.items[i].bytes;
	if (rc == 0)
		rc = begin_state(r, &checkpoint, err);
	if (rc == 0)
		rc = sc_restore_journals(r, sc_span(checkpoint.data, checkpoint.len), err);
	sc_bytes_done(&checkpoint);
	if (rc == 0 && !r->stopped)
		rc = burn(r, err);
	if (rc == 0 && !r->stopped)
		rc = sc_archive_publish(archive, err);
	if (rc == 0 && !r->stopped)
		rc = sc_restore_segments(r, left, err);
	if (rc < 0)
		rc = sc_archive_explain(archive, rc, err);
	if (rc == SC_E_DATA && !r->o->partial)
		sc_err_next(err, "put a good copy back, or take what is whole: --partial");
	if (rc == 0 && r->stopped)
		rc = stopped(r, err);
	if (rc == 0)
		rc = finish(r, err);
	if (rc == 0)
		fill_report(r);
	return rc;
}

/* Killed just before it said so: there is a log. 1 and the report; 0: there is none. */
static int was_finished(struct sc_restore *r, struct sc_err *err)
{
	struct sc_archive *archive = &r->archive;
	char path[PATH_MAX];
	struct sc_log_state state;
	struct sc_log *log = NULL;
	int rc;

	sc_log_file(&r->log, path, "log.json");
	if (access(path, F_OK) < 0)
		return 0;
	sc_log_file(&r->log, path, SC_RESTORE_FILE);
	if (access(path, F_OK) < 0)
		return cannot_create(r, "it exists already", "give the path of a new log", err);
	rc = sc_log_open(r->log.path, SC_LOG_READ, &log, err);
	if (rc == 0) {
		snprintf(archive->stream_id, sizeof(archive->stream_id), "%s",
			 sc_log_stream_id(log));
		rc = sc_archive_record_read(archive, err);
	}
	if (rc == 0 && !archive->record.owner[0])
		rc = cannot_create(r, "a log that was restored from another archive is there",
				   "give the path of a new log", err);
	if (rc == 0)
		rc = sc_log_state(log, &state, err);
	if (rc == 0) {
		*r->report = (struct sc_restore_report){
			.epoch = archive->record.epoch,
			.resumed = true,
			.rows = state.rows,
			.first = state.rows ? state.first_offset : 0,
			.last = state.rows ? state.last_offset : 0,
			.last_us = state.rows ? state.last_us : 0,
			.next = state.next_offset,
			.segments = state.segments,
		};
		name_archive(r);
		sc_sys_unlink(path);
	}
	sc_log_close(log);
	return rc < 0 ? rc : 1;
}

int sc_log_restore(const char *path, const char *url, const struct sc_restore_options *options,
		   struct sc_restore_report *ret_report, struct sc_err *err)
{
	struct sc_restore r = { .o = options, .report = ret_report };
	int rc = sc_log_init(&r.log, path, err);

	memset(ret_report, 0, sizeof(*ret_report));
	sc_bytes_init(&r.checkpoint, SC_BLOCK_EXT_MAX);
	if (rc == 0 && strncasecmp(url, "http", 4) == 0) {
		rc = sc_err_set(err, SC_E_USAGE, TRIED,
				"who restores takes the archive over, and https is only read from");
		sc_err_next(err, "give its s3:// or file:// URL; sc-catchup reads it as it is");
	}
	if (rc == 0)
		rc = sc_archive_begin(&r.archive, &r.log, url, options->settings, err);
	if (rc == 0)
		rc = was_finished(&r, err);
	if (rc != 0)
		goto out;
	r.archive.restoring = true;
	if (rc == 0)
		rc = read_settings(&r, err);
	if (rc == 0)
		rc = look(&r, err);
	if (rc == 0)
		rc = mark_folder(&r, err);
	if (rc == 0)
		rc = run(&r, err);
out:
	sc_archive_done(&r.archive);
	sc_bytes_done(&r.checkpoint);
	sc_log_done(&r.log);
	return rc < 0 ? rc : 0;
}
