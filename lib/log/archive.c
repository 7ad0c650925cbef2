/* archive.c: an archive as it is now: whose it is, and which segments it holds. */
#include "log/archive.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/archive_internal.h"
#include "log/archive_url.h"
#include "log/log_internal.h"

#define TRIED "cannot read"

int sc_archive_connect(struct sc_archive *archive, const char *url, const char *name,
		       const struct sc_store_settings *settings, struct sc_err *err)
{
	size_t len;
	int rc = *name ? sc_archive_check_name(name, err) : 0;

	if (rc < 0)
		return rc;
	rc = sc_store_open(url, settings, &archive->store, err);
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
	sc_err_next(err, "put a good copy of it back");
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

int sc_archive_read_json(struct sc_archive *archive, const char *name, struct sc_bytes *text,
			 struct sc_json *ret_root, struct sc_store_info *ret_info,
			 struct sc_err *err)
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

/* [[epoch,first,next,from],...]; from is first where it is not said */
static bool read_burns(const struct sc_json *root, struct sc_archive_epoch *now)
{
	struct sc_json list, one, member;
	struct sc_json_walk walk, parts;
	struct sc_span key;
	uint64_t above = 0;

	if (!sc_json_get(root, "burned", &list))
		return true;
	if (list.kind != SC_JSON_ARRAY)
		return false;
	sc_json_walk_init(&walk, &list);
	while (sc_json_walk_next(&walk, &key, &one)) {
		uint64_t n[4];
		size_t count = 0;

		if (one.kind != SC_JSON_ARRAY || now->burn_count == SC_ARCHIVE_BURNS_MAX)
			return false;
		sc_json_walk_init(&parts, &one);
		while (count < 4 && sc_json_walk_next(&parts, &key, &member) &&
		       sc_json_u64(&member, &n[count]))
			count++;
		if (count == 3)
			n[count++] = n[1];
		if (count != 4 || n[1] == 0 || n[1] < above || n[2] < n[1] ||
		    n[2] >= UINT64_MAX - 1 || n[3] == 0 || n[3] > n[1])
			return false;
		above = n[2];
		now->burns[now->burn_count++] = (struct sc_archive_burn){ n[0], n[1], n[2], n[3] };
	}
	return true;
}

/* A number that is not there is 0. */
static bool read_number(const struct sc_json *root, const char *name, uint64_t *ret_number)
{
	struct sc_json member;

	*ret_number = 0;
	return !sc_json_get(root, name, &member) || sc_json_u64(&member, ret_number);
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
	rc = sc_archive_read_json(archive, SC_ARCHIVE_EPOCH, &text, &root, &info, err);
	if (rc == 0) {
		if (!sc_archive_text(&root, "stream_id", now.stream_id, sizeof(now.stream_id)) ||
		    !sc_archive_text(&root, "owner", now.owner, sizeof(now.owner)) ||
		    !sc_json_get(&root, "epoch", &epoch) || !sc_json_u64(&epoch, &now.epoch) ||
		    now.epoch == 0 || !sc_json_get(&root, "floor", &floor) ||
		    !sc_json_u64(&floor, &now.floor) || !read_number(&root, "named", &now.named) ||
		    !read_number(&root, "lowest", &now.lowest) || !read_burns(&root, &now))
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

bool sc_archive_no_bucket(const struct sc_err *err)
{
	return err && strstr(err->fields, "\"NoSuchBucket\"");
}

int sc_archive_read_id(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_json root;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = sc_archive_read_json(archive, SC_ARCHIVE_LOG, &text, &root, NULL, err);
	if (rc == SC_E_NOLOG && !sc_archive_no_bucket(err)) {
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

int sc_archive_shelve(struct sc_archive_items *list, const struct sc_archive_item *item,
		      struct sc_err *err)
{
	size_t at = list->count, covered;

	if (list->count == list->cap) {
		size_t cap = list->cap ? 2 * list->cap : 256;
		struct sc_archive_item *more = NULL;

		if (list->count >= SC_ARCHIVE_SEGMENTS_MAX)
			return sc_err_set(err, SC_E_DATA, TRIED, "it holds more than %u segments",
					  SC_ARCHIVE_SEGMENTS_MAX);
		more = sc_realloc(list->items, cap * sizeof(*more));
		if (!more)
			return sc_err_nomem(err, TRIED);
		list->items = more;
		list->cap = cap;
	}
	while (at > 0 && list->items[at - 1].first >= item->first)
		at--;
	/* of those that overlap, the one that holds all rows of the others counts: it was made of
	 * them */
	if ((at > 0 && list->items[at - 1].last >= item->last) ||
	    (at < list->count && list->items[at].first == item->first &&
	     list->items[at].last >= item->last))
		return 0;
	for (covered = at; covered < list->count && list->items[covered].last <= item->last;)
		covered++;
	memmove(&list->items[at + 1], &list->items[covered],
		(list->count - covered) * sizeof(*list->items));
	list->items[at] = *item;
	list->count = list->count - (covered - at) + 1;
	return 0;
}

int sc_archive_add(struct sc_archive *archive, const struct sc_archive_item *item,
		   struct sc_err *err)
{
	struct sc_archive_items list = { archive->items, archive->count, archive->cap };
	int rc = sc_archive_shelve(&list, item, err);

	archive->items = list.items;
	archive->count = list.count;
	archive->cap = list.cap;
	return rc;
}

size_t sc_archive_at(const struct sc_archive_item *items, size_t count, uint64_t offset)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (items[mid].last < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

size_t sc_archive_item_of(const struct sc_archive *archive, uint64_t offset)
{
	return sc_archive_at(archive->items, archive->count, offset);
}

/* What was found, before it is known what of it counts. */
struct found {
	const struct sc_archive *archive;
	struct sc_archive_items segments, ships;
	struct sc_archive_items named; /* by list.json, where the objects can be listed too */
	bool journals;                 /* it is the folder of a log */
};

static int note(struct sc_archive_items *list, const struct sc_archive_item *item,
		struct sc_err *err)
{
	if (list->count == list->cap) {
		size_t cap = list->cap ? 2 * list->cap : 256;
		struct sc_archive_item *more;

		if (list->count >= SC_ARCHIVE_OBJECTS_MAX)
			return sc_err_set(err, SC_E_DATA, TRIED, "it holds more than %u objects",
					  SC_ARCHIVE_OBJECTS_MAX);
		more = sc_realloc(list->items, cap * sizeof(*more));
		if (!more)
			return sc_err_nomem(err, TRIED);
		list->items = more;
		list->cap = cap;
	}
	list->items[list->count++] = *item;
	return 0;
}

static int each_segment(void *arg, const struct sc_store_item *object, struct sc_err *err)
{
	struct found *found = arg;
	struct sc_archive_item item;

	if (!sc_archive_key_parse(found->archive, object, &item))
		return 0; /* somebody else's */
	return note(&found->segments, &item, err);
}

static int each_ship(void *arg, const struct sc_store_item *object, struct sc_err *err)
{
	struct found *found = arg;
	struct sc_archive_item item;
	const char *name = strrchr(object->key, '/');

	if (object->folder)
		return 0;
	if (name && sc_journal_name_parse(name + 1, &item.first)) {
		found->journals = true;
		return 0;
	}
	return sc_archive_ship_parse(found->archive, object, &item)
		       ? note(&found->ships, &item, err)
		       : 0;
}

/* list.json: {"format":1,"stream_id":ID,"floor":N,"segments":[[first,last,bytes,epoch],...]}; an
 * epoch that the name does not say is left out */
static int read_list(struct sc_archive *archive, struct sc_archive_items *into, struct sc_err *err)
{
	struct sc_json root, list, one, member;
	struct sc_json_walk walk, parts;
	struct sc_span key;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	rc = sc_archive_read_json(archive, SC_ARCHIVE_LIST, &text, &root, NULL, err);
	if (rc == 0 && (!sc_json_get(&root, "segments", &list) || list.kind != SC_JSON_ARRAY))
		rc = no_sense(archive, SC_ARCHIVE_LIST, "it holds no segments", err);
	if (rc == 0)
		sc_json_walk_init(&walk, &list);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &one)) {
		uint64_t numbers[4] = { 0, 0, 0, 0 };
		size_t n = 0;

		if (one.kind == SC_JSON_ARRAY) {
			sc_json_walk_init(&parts, &one);
			while (n < 4 && sc_json_walk_next(&parts, &key, &member) &&
			       sc_json_u64(&member, &numbers[n]))
				n++;
		}
		if (n >= 3 && numbers[0] && numbers[0] <= numbers[1] && numbers[1] < UINT64_MAX - 1)
			rc = note(into,
				  &(struct sc_archive_item){ .first = numbers[0],
							     .last = numbers[1],
							     .epoch = numbers[3],
							     .bytes = numbers[2] },
				  err);
		else
			rc = no_sense(archive, SC_ARCHIVE_LIST, "a segment is not three numbers",
				      err);
	}
	sc_bytes_done(&text);
	return rc;
}

/* Rows go from what was shipped into segments: looked for in this order, they are seen in one of
 * both at least. */
static int list_all(struct sc_archive *archive, struct found *found, struct sc_err *err)
{
	char prefix[SC_ARCHIVE_KEY];
	struct sc_store_listing what = { .prefix = prefix };
	int rc;

	if (!archive->can_list)
		return read_list(archive, &found->segments, err);
	/* before the objects: what it names was there by then */
	rc = read_list(archive, &found->named, err);
	if (rc == SC_E_NOLOG || rc == SC_E_DATA || rc == SC_E_CONFIG) {
		sc_err_clear(err); /* it is for those who cannot list */
		found->named.count = 0;
	} else if (rc < 0) {
		return rc;
	}
	sc_archive_name(archive, SC_ARCHIVE_JOURNAL, prefix);
	rc = sc_store_list(archive->store, &what, each_ship, found, err);
	/* it holds the same objects, but its rows are not all in these, and what goes from a log
	 * because its archive has it would go for good */
	if (rc == 0 && found->journals) {
		sc_err_set(err, SC_E_CONFIG, "cannot use",
			   "it is the folder of a log, or a copy of one");
		sc_err_on(err, "archive", archive->url);
		sc_err_next(err, "give that folder's path to read it; put archives in another "
				 "folder than logs");
		return SC_E_CONFIG;
	}
	sc_archive_name(archive, SC_ARCHIVE_SEALED, prefix);
	return rc < 0 ? rc : sc_store_list(archive->store, &what, each_segment, found, err);
}

static int by_offset(const void *left, const void *right)
{
	const struct sc_archive_item *a = left, *b = right;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	if (a->last != b->last)
		return a->last > b->last ? -1 : 1;
	return (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

/* Those of FOUND that count: not what is given up, nor what a machine put there after it was
 * replaced, which LATE gets. What is known of their times stays known. */
static int take(const struct sc_archive_epoch *epoch, struct sc_archive_items *found,
		const struct sc_archive_item *old, size_t old_count, struct sc_archive_items *list,
		struct sc_archive_items *late, struct sc_err *err)
{
	int rc = 0;

	if (found->count) /* a list that is in another order would take its square */
		qsort(found->items, found->count, sizeof(*found->items), by_offset);
	for (size_t i = 0; rc == 0 && i < found->count; i++) {
		const struct sc_archive_item *item = &found->items[i];

		if (item->last < epoch->floor)
			continue;
		if (!sc_archive_is_late(epoch, item))
			rc = sc_archive_shelve(list, item, err);
		else if (late)
			rc = note(late, item, err);
	}
	for (size_t i = 0, k = 0; i < list->count; i++) {
		while (k < old_count && old[k].first < list->items[i].first)
			k++;
		if (k < old_count && old[k].first == list->items[i].first &&
		    old[k].last == list->items[i].last && old[k].epoch == list->items[i].epoch) {
			list->items[i].first_us = old[k].first_us;
			list->items[i].last_us = old[k].last_us;
		}
	}
	return rc;
}

/* Rows of NAMED that no object of SEGMENTS has, and that were not given up: somebody removed them.
 * *RET_NEXT is above all that are named. */
static int find_unseen(const struct sc_archive_epoch *epoch, const struct sc_archive_items *named,
		       const struct sc_archive_items *segments, struct sc_archive_items *unseen,
		       uint64_t *ret_next, struct sc_err *err)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < named->count; i++) {
		uint64_t at = named->items[i].first, last = named->items[i].last;

		if (last < epoch->floor || sc_archive_is_late(epoch, &named->items[i]))
			continue;
		if (*ret_next <= last)
			*ret_next = last + 1;
		if (at < epoch->floor)
			at = epoch->floor;
		while (rc == 0 && at <= last) {
			size_t k = sc_archive_at(segments->items, segments->count, at);
			struct sc_archive_item item = { .first = at, .last = last, .unseen = true };

			if (k < segments->count && segments->items[k].first <= at) {
				at = segments->items[k].last + 1;
				continue;
			}
			if (k < segments->count && segments->items[k].first <= last)
				item.last = segments->items[k].first - 1;
			rc = sc_archive_shelve(unseen, &item, err);
			at = item.last + 1;
		}
	}
	return rc;
}

int sc_archive_refresh(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_items segments = { NULL, 0, 0 }, ships = { NULL, 0, 0 };
	struct sc_archive_items unseen = { NULL, 0, 0 }, late = { NULL, 0, 0 };
	struct found found = { archive, segments, ships, unseen, false };
	uint64_t named_next = 0;
	struct sc_archive_epoch epoch = { .epoch = 0 };
	int rc = list_all(archive, &found, err);
	bool listed = rc == 0;

	/* behind the listing: what went while we listed is below this floor, and what a machine put
	 * there after it was replaced is in a range that is burned */
	if (rc == 0)
		rc = sc_archive_read_epoch(archive, &epoch, err);
	if (rc == SC_E_NOLOG && listed) {
		sc_err_clear(err);
		rc = 0;
	}
	if (rc == 0)
		rc = take(&epoch, &found.segments, archive->items, archive->count, &segments, &late,
			  err);
	if (rc == 0)
		rc = take(&epoch, &found.ships, archive->ships.items, archive->ships.count, &ships,
			  NULL, err);
	if (rc == 0)
		rc = find_unseen(&epoch, &found.named, &segments, &unseen, &named_next, err);
	for (size_t i = 0; rc == 0 && archive->strict && i < unseen.count; i++)
		rc = sc_archive_shelve(&segments, &unseen.items[i], err);
	if (rc == 0) {
		free(archive->items);
		free(archive->ships.items);
		free(archive->unseen.items);
		free(archive->late.items);
		archive->unseen = unseen;
		archive->listed_next = named_next;
		archive->items = segments.items;
		archive->count = segments.count;
		archive->cap = segments.cap;
		archive->ships = ships;
		archive->late = late;
		archive->strays = ships.count < found.ships.count;
		archive->epoch = epoch;
		archive->shipped_next = archive->sealed_seen = 0;
	} else {
		free(segments.items);
		free(ships.items);
		free(unseen.items);
		free(late.items);
	}
	free(found.named.items);
	free(found.segments.items);
	free(found.ships.items);
	return rc;
}

/* The archive at URL, or NAME in the folder of archives at URL. */
static int open_at(const char *url, const char *name, bool strict,
		   const struct sc_store_settings *settings, struct sc_archive **ret_archive,
		   struct sc_err *err)
{
	struct sc_archive *archive = sc_calloc(1, sizeof(*archive));
	int rc;

	if (!archive)
		return sc_err_nomem(err, TRIED);
	archive->can_list = strncasecmp(url, "http", 4) != 0;
	archive->strict = strict;
	rc = sc_archive_connect(archive, url, name, settings, err);
	if (rc == 0)
		rc = sc_archive_read_id(archive, err);
	if (rc == 0)
		rc = sc_archive_refresh(archive, err);
	if (rc < 0) {
		sc_archive_close(archive);
		return rc;
	}
	*ret_archive = archive;
	return 0;
}

int sc_archive_open(const char *url, const struct sc_store_settings *settings,
		    struct sc_archive **ret_archive, struct sc_err *err)
{
	return open_at(url, "", false, settings, ret_archive, err);
}

int sc_archive_open_strict(const char *url, const struct sc_store_settings *settings,
			   struct sc_archive **ret_archive, struct sc_err *err)
{
	return open_at(url, "", true, settings, ret_archive, err);
}

int sc_archive_find(const char *url, const char *name, const struct sc_store_settings *settings,
		    struct sc_archive **ret_archive, struct sc_err *err)
{
	int rc = open_at(url, "", false, settings, ret_archive, err);

	/* what is no name of a log (of a stream of another server) is in no folder of archives */
	if (rc != SC_E_NOLOG || !*name || *name == '.' || strlen(name) > NAME_MAX ||
	    strchr(name, '/'))
		return rc;
	rc = open_at(url, name, false, settings, ret_archive, err);
	if (rc == SC_E_NOLOG && !sc_archive_no_bucket(err))
		sc_err_next(err, "give the URL of the archive, or of the folder where '%s' is one",
			    name);
	return rc;
}

void sc_archive_done(struct sc_archive *archive)
{
	sc_store_close(archive->store);
	free(archive->url);
	free(archive->items);
	free(archive->ships.items);
	free(archive->unseen.items);
	free(archive->late.items);
	free(archive->record.spans);
}

void sc_archive_close(struct sc_archive *archive)
{
	if (!archive)
		return;
	sc_archive_done(archive);
	free(archive);
}

void sc_archive_state(const struct sc_archive *archive, struct sc_archive_state *ret_state)
{
	const struct sc_archive_items *ships = &archive->ships;
	uint64_t first, next, bytes = 0, floor = archive->epoch.floor ? archive->epoch.floor : 1;

	for (size_t i = 0; i < archive->count; i++)
		bytes += archive->items[i].bytes;
	first = next = floor;
	if (archive->count) {
		first = archive->items[0].first;
		if (ships->count && ships->items[0].last < first) /* trimmed before it was sealed */
			first = ships->items[0].first;
		next = archive->items[archive->count - 1].last + 1;
	} else if (ships->count) {
		first = ships->items[0].first;
	}
	*ret_state = (struct sc_archive_state){
		.url = archive->url,
		.stream_id = archive->stream_id,
		.epoch = archive->epoch.epoch,
		.first_offset = first > floor ? first : floor,
		.segments = archive->count,
		.file_bytes = bytes,
		.shipped = ships->count,
		.late = archive->late.count,
	};
	for (size_t i = 0; i < ships->count; i++)
		ret_state->shipped_bytes += ships->items[i].bytes;
	if (ships->count && ships->items[ships->count - 1].last >= next)
		next = ships->items[ships->count - 1].last + 1;
	ret_state->next_offset = sc_archive_past(&archive->epoch, next);
}
