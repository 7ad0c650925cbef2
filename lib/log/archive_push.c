/*
 * archive_push.c: segments of a log into its archive, and out of it.
 *
 * Each segment is checked, put under the condition that nothing is there, verified by the store,
 * and then noted in the log. A push that died is taken up by the next: what is there already is
 * compared with our bytes. Before each write the epoch is asked for, so a machine that was replaced
 * stops at its next write.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/archive_internal.h"
#include "log/archive_url.h"
#include "log/log_internal.h"
#include "store/digest.h"

#define TRIED "cannot archive"

/* The archive's log.json is of this stream, or there is none yet. *RET_SAME: it is ours, byte for
 * byte. */
static int check_log(struct sc_archive *archive, const struct sc_bytes *ours, bool *ret_same,
		     char ret_etag[SC_STORE_ETAG_SIZE], struct sc_err *err)
{
	struct sc_store_info info;
	struct sc_json root;
	char id[40], key[SC_ARCHIVE_KEY];
	struct sc_bytes text;
	int rc;

	sc_archive_name(archive, SC_ARCHIVE_LOG, key);
	*ret_same = false;
	ret_etag[0] = 0;
	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = sc_store_get(archive->store, key, &text, &info, err);
	if (rc == SC_E_NOLOG) {
		sc_bytes_done(&text);
		return 0;
	}
	if (rc == 0 && (sc_json_scan(sc_span(text.data, text.len), &root, NULL) < 0 ||
			!sc_archive_text(&root, "stream_id", id, sizeof(id)) ||
			strcmp(id, archive->stream_id) != 0)) {
		rc = sc_err_set(err, SC_E_CONFIG, TRIED,
				"another stream's log.json, or something else, is in '%s'",
				archive->url);
		sc_log_err(archive->log, err);
		sc_err_next(err, "give another URL");
	}
	if (rc == 0) {
		*ret_same = text.len == ours->len && !memcmp(text.data, ours->data, text.len);
		memcpy(ret_etag, info.etag, SC_STORE_ETAG_SIZE);
	}
	sc_bytes_done(&text);
	return rc;
}

/* Who took the archive over writes another log.json than the one before, also where the log says
 * the same: what that one still has on its way is then refused. */
static int add_epoch(const struct sc_archive *archive, struct sc_bytes *text)
{
	size_t end = text->len;

	if (archive->record.epoch <= 1)
		return 0;
	while (end && text->data[end - 1] != '}')
		end--;
	if (!end)
		return 0; /* no log.json of ours */
	text->len = end - 1;
	return sc_bytes_putf(text, ",\n\"epoch\":%llu}\n",
			     (unsigned long long)archive->record.epoch);
}

/* Once: SC_E_BUSY when somebody replaced it between our look and our write. */
static int put_log_once(struct sc_archive *archive, const struct sc_bytes *ours, bool write,
			struct sc_err *err)
{
	char etag[SC_STORE_ETAG_SIZE], key[SC_ARCHIVE_KEY];
	bool same = false;
	int rc = check_log(archive, ours, &same, etag, err);

	if (rc < 0 || !write || same)
		return rc;
	sc_archive_name(archive, SC_ARCHIVE_LOG, key);
	rc = sc_archive_fence(archive, err);
	return rc < 0 ? rc
		      : sc_store_put(archive->store, key, ours->data, ours->len,
				     etag[0] ? etag : SC_STORE_ABSENT, NULL, err);
}

int sc_archive_put_log(struct sc_archive *archive, bool write, struct sc_err *err)
{
	char path[PATH_MAX];
	struct sc_bytes ours;
	int rc;

	sc_log_file(archive->log, path, SC_ARCHIVE_LOG);
	sc_bytes_init(&ours, SC_ARCHIVE_JSON_MAX);
	rc = sc_read_file(path, &ours, err);
	if (rc == 0 && add_epoch(archive, &ours) < 0)
		rc = sc_err_nomem(err, TRIED);
	if (rc == 0)
		rc = put_log_once(archive, &ours, write, err);
	/* who replaced it took the archive over, as a rule: then the question before the next try
	 * says so */
	for (int i = 0; i < 2 && rc == SC_E_BUSY; i++)
		rc = put_log_once(archive, &ours, write, err);
	sc_bytes_done(&ours);
	archive->has_log |= rc == 0 && write;
	return rc;
}

/* The archive is ours, or becomes ours when it is nobody's. */
static int claim(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_record *r = &archive->record;
	int rc;

	if (archive->epoch.epoch)
		return sc_archive_fence(archive, err);
	rc = sc_store_check_conditions(archive->store, err);
	if (rc < 0)
		return rc;
	/* what a log claimed before and was removed there by hand is claimed anew */
	archive->epoch.epoch = r->epoch; /* below */
	rc = sc_archive_take_over(archive, err);
	if (rc == SC_E_BUSY) {
		r->owner[0] = 0; /* another one was faster: say who */
		r->epoch = 0;
		rc = sc_archive_fence(archive, err);
	}
	return rc;
}

void sc_archive_sweep(struct sc_archive *archive)
{
	char prefix[SC_ARCHIVE_KEY];
	uint64_t removed;

	sc_archive_record_sweep(archive);
	sc_archive_name(archive, "", prefix);
	sc_store_sweep(archive->store, prefix, sc_wall_us(), &removed, NULL);
}

int sc_archive_begin(struct sc_archive *archive, struct sc_log *log, const char *url,
		     const struct sc_store_settings *settings, struct sc_err *err)
{
	archive->log = log;
	archive->can_list = true;
	archive->listed_anew = true; /* it is compared once a run */
	snprintf(archive->stream_id, sizeof(archive->stream_id), "%s", sc_log_stream_id(log));
	if (strncasecmp(url, "http", 4) == 0) {
		sc_err_set(err, SC_E_USAGE, TRIED, "http and https are only read from");
		return sc_err_next(err, "give file:///FOLDER or s3://BUCKET/PREFIX");
	}
	return sc_archive_connect(archive, url, sc_log_name(log), settings, err);
}

int sc_archive_open_only(struct sc_log *log, const char *url,
			 const struct sc_store_settings *settings, bool dry,
			 struct sc_archive **ret_archive, struct sc_err *err)
{
	struct sc_archive *archive = sc_calloc(1, sizeof(*archive));
	int rc;

	if (!archive)
		return sc_err_nomem(err, TRIED);
	archive->dry = dry;
	rc = sc_archive_begin(archive, log, url, settings, err);
	if (rc == 0)
		rc = sc_archive_check_apart(sc_store_folder(archive->store), log, err);
	if (rc == 0)
		rc = sc_archive_record_read(archive, err);
	if (rc == 0)
		rc = sc_archive_put_log(archive, false, err); /* compares only */
	if (rc == 0)
		rc = sc_archive_refresh(archive, err);
	if (rc < 0) {
		sc_archive_close(archive);
		return rc;
	}
	*ret_archive = archive;
	return 0;
}

int sc_archive_open_log(struct sc_log *log, const char *url,
			const struct sc_store_settings *settings, bool dry,
			struct sc_archive **ret_archive, struct sc_err *err)
{
	struct sc_archive *archive = NULL;
	int rc = sc_archive_open_only(log, url, settings, dry, &archive, err);

	if (rc == 0 && !dry)
		rc = claim(archive, err);
	else if (rc == 0 && archive->epoch.epoch)
		rc = sc_archive_fence(archive, err);
	if (rc < 0) {
		sc_archive_close(archive);
		return rc;
	}
	if (!dry)
		sc_archive_sweep(archive);
	*ret_archive = archive;
	return 0;
}

/* Is an object of exactly that name and size there? */
static const struct sc_archive_item *listed(const struct sc_archive *archive,
					    const struct sc_sealed *segment)
{
	size_t i = sc_archive_item_of(archive, segment->last);

	return i < archive->count && archive->items[i].first == segment->first &&
			       archive->items[i].last == segment->last
		       ? &archive->items[i]
		       : NULL;
}

bool sc_archive_holds(const struct sc_archive *archive, const struct sc_sealed *segment)
{
	const struct sc_archive_item *same = listed(archive, segment);
	uint64_t at = segment->first, floor = archive->epoch.floor;

	if (archive->lost)
		return false; /* what came there last may count for nothing */
	if (segment->last < floor)
		return true; /* it had them, and gave them up */
	if (at < floor)
		at = floor;
	/* it was seen there, byte for byte, and it is there still */
	if (!sc_archive_record_has(archive, at, segment->next))
		return false;
	if (same)
		return !segment->file_bytes || same->bytes == segment->file_bytes;
	/* those that it was made of were: are they still, without a hole? */
	for (size_t i = sc_archive_item_of(archive, at);
	     i < archive->count && archive->items[i].first <= at; i++) {
		if (archive->items[i].last >= segment->last)
			return true;
		at = archive->items[i].last + 1;
	}
	return false;
}

static int differs(const struct sc_archive *archive, const char *path, const char *key,
		   struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "'%s/%s' has the name of '%s' and other bytes",
		   sc_store_url(archive->store), key, path);
	sc_log_err(archive->log, err);
	sc_err_next(err, "find out which of them is right, and remove the other");
	sc_err_field_str(err, "file", path);
	return SC_E_DATA;
}

/* FD is the segment's file: whole and right, so that the archive never gets a damaged one. */
static int check_file(int fd, const char *path, struct sc_err *err)
{
	struct sc_segment_source source;
	struct sc_segment *segment = NULL;
	int rc = sc_segment_source_fd(fd, path, &source, err);

	if (rc == 0)
		rc = sc_segment_open(&source, &segment, err);
	if (rc == 0)
		rc = sc_segment_verify(segment, err);
	sc_segment_close(segment);
	return rc;
}

int sc_archive_compare(struct sc_archive *archive, int fd, uint64_t at, uint64_t len,
		       const char *path, const char *key, struct sc_err *err)
{
	struct sc_sums sums;
	int rc = sc_digest_fd(fd, at, len, &sums, err);

	if (rc == 0)
		rc = sc_store_verify(archive->store, key, len, sums.sha256, err);
	return rc == SC_E_DATA ? differs(archive, path, key, err) : rc;
}

static int open_file(const struct sc_archive *archive, const struct sc_sealed *segment,
		     const char *path, int *ret_fd, uint64_t *ret_size, struct sc_err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd >= 0 && fstat(fd, &st) == 0) {
		*ret_fd = fd;
		*ret_size = (uint64_t)st.st_size;
		return 0;
	}
	if (errno == ENOENT)
		return sc_tier_missing(archive->log, segment->first, segment->last, err);
	rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_IO, errno,
			TRIED);
	sc_err_on(err, "segment", path);
	sc_close(&fd);
	return rc;
}

/* The object has our segment's name: does it hold the same rows, every one of them? 1, 0; else
 * its etag cannot be told. */
static int has_same_rows(struct sc_archive *archive, const struct sc_archive_item *item,
			 const char *key, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_archive_item theirs = *item;
	struct sc_log_proof here, there;
	int rc = sc_store_head(archive->store, key, ret_info, err);

	theirs.bytes = ret_info->size;
	if (rc == 0)
		rc = sc_archive_add(archive, &theirs, err);
	if (rc == 0)
		rc = sc_archive_verify(archive, item->first, item->last + 1, &there, err);
	if (rc == 0)
		rc = sc_log_verify(archive->log->path, item->first, item->last, &here, err);
	return rc < 0 ? rc : here.rows == there.rows && !strcmp(here.hash, there.hash);
}

/*
 * It has our segment's name, and is not its bytes. With the same rows it is one that the machine
 * which we replaced had on its way: it knew nothing of the rows that come behind, and maybe
 * compressed otherwise. Then ours takes its place.
 */
static int replace_same(struct sc_archive *archive, int fd, const struct sc_archive_item *item,
			const char *path, const char *key, struct sc_err *err)
{
	struct sc_store_info info = { .size = 0 };
	struct sc_err other;
	int rc;

	sc_err_clear(&other);
	rc = has_same_rows(archive, item, key, &info, &other);
	if (rc <= 0)
		return differs(archive, path, key, err);
	rc = sc_archive_fence(archive, err);
	if (rc == 0)
		rc = sc_store_put_fd(archive->store, key, fd, 0, item->bytes, info.etag, NULL, err);
	return rc < 0 ? rc : sc_archive_compare(archive, fd, 0, item->bytes, path, key, err);
}

/* One segment into the archive, and into the record. */
static int push_one(struct sc_archive *archive, const struct sc_sealed *segment,
		    enum sc_archive_act *ret_act, struct sc_err *err)
{
	struct sc_archive_item item = { .first = segment->first,
					.last = segment->last,
					.first_us = segment->first_us,
					.last_us = segment->last_us,
					.epoch = sc_archive_tag(archive) };
	const struct sc_archive_item *same = listed(archive, segment);
	bool there = same != NULL;
	char path[PATH_MAX], key[SC_ARCHIVE_KEY];
	int fd = -1, rc;

	sc_log_segment_path(archive->log, segment, path);
	if (same)
		item.epoch = same->epoch;
	sc_archive_key(archive, &item, key);
	rc = open_file(archive, segment, path, &fd, &item.bytes, err);
	if (rc == 0 && !there) {
		rc = check_file(fd, path, err);
		if (rc == 0)
			rc = sc_archive_fence(archive, err);
		if (rc == 0)
			rc = sc_store_put_fd(archive->store, key, fd, 0, item.bytes,
					     SC_STORE_ABSENT, NULL, err);
		there = rc == SC_E_BUSY; /* it came there just now */
	}
	if ((rc == 0 || rc == SC_E_BUSY) && there) {
		rc = sc_archive_compare(archive, fd, 0, item.bytes, path, key, err);
		if (rc == SC_E_DATA)
			rc = replace_same(archive, fd, &item, path, key, err);
	}
	sc_close(&fd);
	*ret_act = there ? SC_ARCHIVE_FOUND : SC_ARCHIVE_UPLOADED;
	if (rc == 0)
		rc = sc_archive_add(archive, &item, err);
	if (rc == 0)
		rc = sc_archive_record_add(archive, segment->first, segment->next, err);
	if (rc == 0)
		rc = sc_archive_record_write(archive, err);
	archive->listed_anew = true;
	return rc;
}

void sc_archive_tell(const struct sc_archive_options *o, enum sc_archive_act act, uint64_t first,
		     uint64_t last, uint64_t bytes)
{
	struct sc_archive_step step = { act, first, last, bytes };

	if (o->step)
		o->step(o->arg, &step);
}

static int push_all(struct sc_archive *archive, const struct sc_archive_options *o,
		    const struct sc_sealed *items, size_t count, bool *ret_stopped,
		    struct sc_err *err)
{
	uint64_t done = 0, total = 0;
	int rc = 0;

	for (size_t i = 0; i < count; i++)
		if (!sc_archive_holds(archive, &items[i]))
			total += items[i].file_bytes;
	for (size_t i = 0; rc == 0 && i < count; i++) {
		enum sc_archive_act act = listed(archive, &items[i]) ? SC_ARCHIVE_FOUND
								     : SC_ARCHIVE_UPLOADED;

		if (sc_archive_holds(archive, &items[i]))
			continue;
		if (o->progress && !o->progress(o->arg, done, total)) {
			*ret_stopped = true;
			break;
		}
		if (!archive->dry)
			rc = push_one(archive, &items[i], &act, err);
		if (rc == 0)
			sc_archive_tell(o, act, items[i].first, items[i].last, items[i].file_bytes);
		done += items[i].file_bytes;
	}
	return rc;
}

/* What list.json names and is not there was put there again, where the log has it; the rest is
 * told, once: the list is written anew. */
static void tell_lost(struct sc_archive *archive, const struct sc_archive_options *o)
{
	struct sc_archive_items *unseen = &archive->unseen;
	uint64_t first = 0, next = 0; /* neighbours are told as one */

	for (size_t i = 0; i < unseen->count; i++) {
		uint64_t at = unseen->items[i].first, last = unseen->items[i].last;
		size_t k = sc_archive_item_of(archive, at);

		while (at <= last && k < archive->count && archive->items[k].first <= at)
			at = archive->items[k++].last + 1;
		if (at > last)
			continue;
		if (next && at != next)
			sc_archive_tell(o, SC_ARCHIVE_LOST, first, next - 1, 0);
		first = next && at == next ? first : at;
		next = last + 1;
	}
	if (next)
		sc_archive_tell(o, SC_ARCHIVE_LOST, first, next - 1, 0);
	unseen->count = 0;
}

int sc_archive_push(struct sc_archive *archive, const struct sc_archive_options *options,
		    struct sc_err *err)
{
	struct sc_sealed *items = NULL;
	size_t count = 0;
	bool stopped = false;
	int rc = sc_archive_put_log(archive, !archive->dry, err);

	if (rc == 0)
		rc = sc_tier_all(archive->log, &items, &count, err);
	if (rc == 0)
		rc = push_all(archive, options, items, count, &stopped, err);
	if (rc == 0 && !stopped && !archive->dry)
		tell_lost(archive, options);
	if (rc == 0)
		rc = sc_archive_publish(archive, err);
	if (rc == 0 && !stopped)
		rc = sc_archive_unship(archive, err);
	free(items);
	return sc_archive_explain(archive, rc, err);
}
