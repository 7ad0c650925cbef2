/* archive.c: an archive as it is now: whose it is, and which segments it holds. */
#include "log/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"

#define TRIED "cannot read"

void sc_archive_name(const struct sc_archive *archive, const char *name,
		     char ret_key[SC_ARCHIVE_KEY])
{
	snprintf(ret_key, SC_ARCHIVE_KEY, "%s%s", archive->prefix, name);
}

void sc_archive_key(const struct sc_archive *archive, uint64_t first, uint64_t last,
		    char ret_key[SC_ARCHIVE_KEY])
{
	char name[SC_SEGMENT_NAME];

	sc_segment_name(first, last, name);
	snprintf(ret_key, SC_ARCHIVE_KEY, "%s" SC_ARCHIVE_SEALED "%s", archive->prefix, name);
}

bool sc_archive_key_parse(const char *key, uint64_t *ret_first, uint64_t *ret_last)
{
	const char *slash = strrchr(key, '/');

	return slash && sc_segment_name_parse(slash + 1, ret_first, ret_last);
}

int sc_archive_connect(struct sc_archive *archive, const char *url, const char *name,
		       const struct sc_store_settings *settings, struct sc_err *err)
{
	size_t len;
	int rc = sc_store_open(url, settings, &archive->store, err);

	if (rc < 0)
		return rc;
	if (*name)
		snprintf(archive->prefix, sizeof(archive->prefix), "%s/", name);
	len = strlen(sc_store_url(archive->store));
	archive->url = sc_malloc(len + strlen(name) + 2);
	if (!archive->url)
		return sc_err_nomem(err, TRIED);
	memcpy(archive->url, sc_store_url(archive->store), len + 1);
	while (len && archive->url[len - 1] == '/')
		archive->url[--len] = 0;
	if (*name)
		snprintf(archive->url + len, strlen(name) + 2, "/%s", name);
	return 0;
}

void sc_archive_err(const struct sc_archive *archive, const char *key, struct sc_err *err)
{
	char name[1024];

	snprintf(name, sizeof(name), "%s/%s", sc_store_url(archive->store), key);
	sc_err_on(err, "object", name);
}

static int no_sense(const struct sc_archive *archive, const char *name, const char *what,
		    struct sc_err *err)
{
	char key[SC_ARCHIVE_KEY];

	sc_archive_name(archive, name, key);
	sc_err_set(err, SC_E_DATA, TRIED, "%s", what);
	sc_archive_err(archive, key, err);
	return SC_E_DATA;
}

bool sc_archive_text(const struct sc_json *root, const char *name, char *ret_text, size_t size)
{
	struct sc_json member;
	struct sc_span text;

	if (!sc_json_get(root, name, &member) || member.kind != SC_JSON_STRING)
		return false;
	text = sc_span(member.text.data + 1, member.text.len - 2);
	if (text.len == 0 || text.len >= size || memchr(text.data, '\\', text.len))
		return false;
	memcpy(ret_text, text.data, text.len);
	ret_text[text.len] = 0;
	return true;
}

/* The object NAME, a JSON object of a format we know, into TEXT. SC_E_NOLOG: it is not there. */
static int read_json(struct sc_archive *archive, const char *name, struct sc_bytes *text,
		     struct sc_json *ret_root, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_json member;
	char key[SC_ARCHIVE_KEY];
	uint64_t format;
	int rc;

	sc_archive_name(archive, name, key);
	rc = sc_store_get(archive->store, key, text, ret_info, err);
	if (rc < 0)
		return rc;
	if (sc_json_scan(sc_span(text->data, text->len), ret_root, NULL) < 0 ||
	    ret_root->kind != SC_JSON_OBJECT)
		return no_sense(archive, name, "it is not a JSON object", err);
	if (!sc_json_get(ret_root, "format", &member) || !sc_json_u64(&member, &format))
		return no_sense(archive, name, "it holds no format number", err);
	if (format == SC_ARCHIVE_FORMAT ||
	    (format == SC_LOG_FORMAT_SCHEMAS && !strcmp(name, SC_ARCHIVE_LOG)))
		return 0;
	sc_err_set(err, SC_E_CONFIG, TRIED, "it has format %llu; this program knows format %d",
		   (unsigned long long)format, SC_ARCHIVE_FORMAT);
	sc_archive_err(archive, key, err);
	sc_err_next(err, "use a newer release");
	return SC_E_CONFIG;
}

int sc_archive_read_epoch(struct sc_archive *archive, struct sc_archive_epoch *ret_epoch,
			  struct sc_err *err)
{
	struct sc_archive_epoch now = { .epoch = 0 };
	struct sc_store_info info;
	struct sc_json root, epoch, floor, since;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, 64u << 10);
	rc = read_json(archive, SC_ARCHIVE_EPOCH, &text, &root, &info, err);
	if (rc == 0) {
		if (!sc_archive_text(&root, "stream_id", now.stream_id, sizeof(now.stream_id)) ||
		    !sc_archive_text(&root, "owner", now.owner, sizeof(now.owner)) ||
		    !sc_json_get(&root, "epoch", &epoch) || !sc_json_u64(&epoch, &now.epoch) ||
		    now.epoch == 0 || !sc_json_get(&root, "floor", &floor) ||
		    !sc_json_u64(&floor, &now.floor))
			rc = no_sense(archive, SC_ARCHIVE_EPOCH,
				      "its members are not those of an epoch", err);
		if (!sc_archive_text(&root, "host", now.host, sizeof(now.host)))
			snprintf(now.host, sizeof(now.host), "another machine");
		if (sc_json_get(&root, "since_us", &since))
			sc_json_i64(&since, &now.since_us);
		memcpy(now.etag, info.etag, sizeof(now.etag));
	}
	sc_bytes_done(&text);
	if (rc == 0)
		*ret_epoch = now;
	return rc;
}

/* The stream's id, from log.json. */
static int read_id(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_json root;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = read_json(archive, SC_ARCHIVE_LOG, &text, &root, NULL, err);
	if (rc == SC_E_NOLOG) {
		sc_err_next(
			err,
			"give the URL with the log's name at its end; sc-seal --archive writes it");
	} else if (rc == 0 && !sc_archive_text(&root, "stream_id", archive->stream_id,
					       sizeof(archive->stream_id))) {
		rc = no_sense(archive, SC_ARCHIVE_LOG, "it holds no stream_id", err);
	}
	sc_bytes_done(&text);
	return rc;
}

int sc_archive_add(struct sc_archive *archive, const struct sc_archive_item *item,
		   struct sc_err *err)
{
	size_t at = archive->count, covered;

	if (archive->count == archive->cap) {
		size_t cap = archive->cap ? 2 * archive->cap : 256;
		struct sc_archive_item *more = NULL;

		if (archive->count >= SC_ARCHIVE_SEGMENTS_MAX)
			return sc_err_set(err, SC_E_DATA, TRIED, "it holds more than %u segments",
					  SC_ARCHIVE_SEGMENTS_MAX);
		more = sc_realloc(archive->items, cap * sizeof(*more));
		if (!more)
			return sc_err_nomem(err, TRIED);
		archive->items = more;
		archive->cap = cap;
	}
	while (at > 0 && archive->items[at - 1].first >= item->first)
		at--;
	/* of those that overlap, the one that holds all rows of the others counts: it was made of
	 * them */
	if ((at > 0 && archive->items[at - 1].last >= item->last) ||
	    (at < archive->count && archive->items[at].first == item->first &&
	     archive->items[at].last >= item->last))
		return 0;
	for (covered = at; covered < archive->count && archive->items[covered].last <= item->last;)
		covered++;
	memmove(&archive->items[at + 1], &archive->items[covered],
		(archive->count - covered) * sizeof(*archive->items));
	archive->items[at] = *item;
	archive->count = archive->count - (covered - at) + 1;
	return 0;
}

size_t sc_archive_item_of(const struct sc_archive *archive, uint64_t offset)
{
	size_t low = 0, high = archive->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (archive->items[mid].last < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static int each_object(void *arg, const struct sc_store_item *object, struct sc_err *err)
{
	struct sc_archive *archive = arg;
	struct sc_archive_item item = { .bytes = object->size };

	if (object->folder || !sc_archive_key_parse(object->key, &item.first, &item.last))
		return 0; /* somebody else's */
	return sc_archive_add(archive, &item, err);
}

/* list.json: {"format":1,"stream_id":ID,"floor":N,"segments":[[first,last,bytes],...]} */
static int read_list(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_json root, list, one, member;
	struct sc_json_walk walk, parts;
	struct sc_span key;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = read_json(archive, SC_ARCHIVE_LIST, &text, &root, NULL, err);
	if (rc == 0 && (!sc_json_get(&root, "segments", &list) || list.kind != SC_JSON_ARRAY))
		rc = no_sense(archive, SC_ARCHIVE_LIST, "it holds no segments", err);
	if (rc == 0)
		sc_json_walk_init(&walk, &list);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &one)) {
		uint64_t numbers[3] = { 0, 0, 0 };
		size_t n = 0;

		if (one.kind == SC_JSON_ARRAY) {
			sc_json_walk_init(&parts, &one);
			while (n < 3 && sc_json_walk_next(&parts, &key, &member) &&
			       sc_json_u64(&member, &numbers[n]))
				n++;
		}
		if (n == 3 && numbers[0] && numbers[0] <= numbers[1])
			rc = sc_archive_add(archive,
					    &(struct sc_archive_item){ .first = numbers[0],
								       .last = numbers[1],
								       .bytes = numbers[2] },
					    err);
		else
			rc = no_sense(archive, SC_ARCHIVE_LIST, "a segment is not three numbers",
				      err);
	}
	sc_bytes_done(&text);
	return rc;
}

int sc_archive_refresh(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_item *old = archive->items;
	size_t old_count = archive->count, below = 0;
	struct sc_archive_epoch none = { .floor = 0 };
	char prefix[SC_ARCHIVE_KEY];
	struct sc_store_listing what = { .prefix = prefix };
	int rc;

	/* the floor first: what went below it while we list is not missed then */
	rc = sc_archive_read_epoch(archive, &archive->epoch, err);
	if (rc == SC_E_NOLOG) {
		archive->epoch = none;
		rc = 0;
	}
	if (rc < 0)
		return rc;
	sc_archive_name(archive, SC_ARCHIVE_SEALED, prefix);
	archive->items = NULL;
	archive->count = archive->cap = 0;
	rc = archive->can_list ? sc_store_list(archive->store, &what, each_object, archive, err)
			       : read_list(archive, err);
	while (below < archive->count && archive->items[below].last < archive->epoch.floor)
		below++;
	if (below) {
		archive->count -= below;
		memmove(archive->items, archive->items + below,
			archive->count * sizeof(*archive->items));
	}
	/* what is known of their times stays known */
	for (size_t i = 0, k = 0; i < archive->count; i++) {
		while (k < old_count && old[k].first < archive->items[i].first)
			k++;
		if (k < old_count && old[k].first == archive->items[i].first &&
		    old[k].last == archive->items[i].last) {
			archive->items[i].first_us = old[k].first_us;
			archive->items[i].last_us = old[k].last_us;
		}
	}
	free(old);
	return rc;
}

int sc_archive_open(const char *url, const struct sc_store_settings *settings,
		    struct sc_archive **ret_archive, struct sc_err *err)
{
	struct sc_archive *archive = sc_calloc(1, sizeof(*archive));
	int rc;

	if (!archive)
		return sc_err_nomem(err, TRIED);
	archive->can_list = strncasecmp(url, "http", 4) != 0;
	rc = sc_archive_connect(archive, url, "", settings, err);
	if (rc == 0)
		rc = read_id(archive, err);
	if (rc == 0)
		rc = sc_archive_refresh(archive, err);
	if (rc < 0) {
		sc_archive_close(archive);
		return rc;
	}
	*ret_archive = archive;
	return 0;
}

void sc_archive_close(struct sc_archive *archive)
{
	if (!archive)
		return;
	sc_store_close(archive->store);
	free(archive->url);
	free(archive->items);
	free(archive->record.spans);
	free(archive);
}

void sc_archive_state(const struct sc_archive *archive, struct sc_archive_state *ret_state)
{
	uint64_t first, bytes = 0, floor = archive->epoch.floor ? archive->epoch.floor : 1;

	for (size_t i = 0; i < archive->count; i++)
		bytes += archive->items[i].bytes;
	first = archive->count ? archive->items[0].first : floor;
	*ret_state = (struct sc_archive_state){
		.url = archive->url,
		.stream_id = archive->stream_id,
		.epoch = archive->epoch.epoch,
		.first_offset = first > floor ? first : floor,
		.next_offset = archive->count ? archive->items[archive->count - 1].last + 1 : floor,
		.segments = archive->count,
		.file_bytes = bytes,
	};
}

int sc_archive_offset_at(struct sc_archive *archive, int64_t when_us, uint64_t *ret_offset,
			 struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	struct sc_segment_place place;
	size_t low = 0, high = archive->count;
	int rc = 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		struct sc_archive_item *item = &archive->items[mid];

		if (!item->last_us) {
			rc = sc_archive_segment_open(archive, item, &segment, err);
			sc_archive_segment_close(segment);
			segment = NULL;
			if (rc < 0)
				return rc;
		}
		if (item->last_us < when_us)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == archive->count) {
		struct sc_archive_state state;

		sc_archive_state(archive, &state);
		*ret_offset = state.next_offset;
		return 0;
	}
	rc = sc_archive_segment_open(archive, &archive->items[low], &segment, err);
	if (rc == 0)
		rc = sc_segment_find_time(sc_archive_segment_inner(segment), when_us, &place, err);
	sc_archive_segment_close(segment);
	if (rc == 1)
		*ret_offset = place.offset;
	return rc < 0 ? rc : 0;
}

int sc_archive_range(struct sc_archive *archive, const struct sc_range *range, uint64_t *ret_from,
		     uint64_t *ret_end, struct sc_err *err)
{
	struct sc_archive_state state;
	uint64_t from, end, at;
	int rc;

	sc_archive_state(archive, &state);
	from = range->from ? range->from : state.first_offset;
	end = state.next_offset;
	if (range->to_given && range->to < end)
		end = range->to + 1;
	if (range->since_given) {
		rc = sc_archive_offset_at(archive, range->since_us, &at, err);
		if (rc < 0)
			return rc;
		from = at > from ? at : from;
	}
	if (range->until_given) {
		rc = sc_archive_offset_at(archive, range->until_us, &at, err);
		if (rc < 0)
			return rc;
		end = at < end ? at : end;
	}
	*ret_from = from;
	*ret_end = end;
	return 0;
}
