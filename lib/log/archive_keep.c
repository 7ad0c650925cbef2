/* archive_keep.c: what is not to be kept goes from the archive. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "log/archive_internal.h"

#define TRIED "cannot archive"

/* How many items go from the front. The newest stays: it says where the archive ends. */
static int count_drop(struct sc_archive *archive, const struct sc_keep *keep, int64_t now_us,
		      size_t *ret_drop, struct sc_err *err)
{
	uint64_t bytes = 0;
	size_t kept = 0, drop = 0;

	while (kept < archive->count) {
		bytes += archive->items[archive->count - 1 - kept].bytes;
		if (kept &&
		    ((keep->bytes && bytes > keep->bytes) || (keep->count && kept >= keep->count)))
			break;
		kept++;
	}
	drop = archive->count - kept;
	/* by age: those that go anyway need not be asked for theirs */
	while (keep->age_us && drop + 1 < archive->count) {
		struct sc_archive_item *item = &archive->items[drop];
		struct sc_archive_segment *segment = NULL;
		int rc = 0;

		if (!item->last_us)
			rc = sc_archive_segment_open(archive, item, &segment, err);
		sc_archive_segment_close(segment);
		if (rc < 0)
			return rc;
		if (item->last_us >= now_us - keep->age_us)
			break;
		drop++;
	}
	*ret_drop = drop;
	return 0;
}

/* Every object below the floor goes, also those that another covers, and what a run that died
 * left. */
struct sweep {
	struct sc_archive *archive;
	uint64_t floor;
	struct sc_archive_item *items;
	size_t count, cap;
};

static int add_item(struct sweep *s, const struct sc_archive_item *item, struct sc_err *err)
{
	if (s->count == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct sc_archive_item *more = sc_realloc(s->items, cap * sizeof(*more));

		if (!more)
			return sc_err_nomem(err, TRIED);
		s->items = more;
		s->cap = cap;
	}
	s->items[s->count++] = *item;
	return 0;
}

static int each_below(void *arg, const struct sc_store_item *object, struct sc_err *err)
{
	struct sweep *s = arg;
	struct sc_archive_item item;

	if (!sc_archive_key_parse(s->archive, object, &item))
		return 0;
	if (item.first >= s->floor)
		return 1; /* names are in the order of offsets */
	if (item.last >= s->floor)
		return 0;
	return add_item(s, &item, err);
}

static int by_name(const void *a, const void *b)
{
	const struct sc_archive_item *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->last > y->last) - (x->last < y->last);
}

/* Those that are not there yet, but would be when it comes to this. */
static int add_foreseen(struct sweep *s, struct sc_err *err)
{
	const struct sc_archive *archive = s->archive;
	int rc = 0;

	for (size_t i = 0; rc >= 0 && i < archive->count; i++)
		if (archive->items[i].foreseen && archive->items[i].last < s->floor)
			rc = add_item(s, &archive->items[i], err);
	if (s->count)
		qsort(s->items, s->count, sizeof(*s->items), by_name);
	return rc;
}

static int remove_below(struct sc_archive *archive, uint64_t floor,
			const struct sc_archive_options *o, struct sc_err *err)
{
	struct sweep s = { .archive = archive, .floor = floor };
	char key[SC_ARCHIVE_KEY], prefix[SC_ARCHIVE_KEY];
	struct sc_store_listing what = { .prefix = prefix };
	int rc;

	sc_archive_name(archive, SC_ARCHIVE_SEALED, prefix);
	rc = sc_store_list(archive->store, &what, each_below, &s, err);
	if (rc == 0 && archive->dry)
		rc = add_foreseen(&s, err);
	for (size_t i = 0; rc == 0 && i < s.count; i++) {
		sc_archive_key(archive, &s.items[i], key);
		if (!archive->dry) {
			rc = sc_archive_fence(archive, err);
			if (rc == 0)
				rc = sc_store_delete(archive->store, key, err);
		}
		if (rc == 0)
			sc_archive_tell(o, SC_ARCHIVE_REMOVED, s.items[i].first, s.items[i].last,
					s.items[i].bytes);
	}
	free(s.items);
	return rc;
}

/* Rows below it are given up, from now on and for all. */
static int raise_floor(struct sc_archive *archive, uint64_t floor, struct sc_err *err)
{
	int rc = SC_E_BUSY;

	/* who replaced it took the archive over, as a rule: then the question says so */
	for (int i = 0; i < 3 && rc == SC_E_BUSY; i++) {
		struct sc_archive_epoch now;

		rc = sc_archive_fence(archive, err);
		now = archive->epoch;
		now.floor = floor;
		if (rc == 0)
			rc = sc_archive_write_epoch(archive, &now, err);
	}
	return rc;
}

int sc_archive_keep(struct sc_archive *archive, const struct sc_keep *keep,
		    const struct sc_archive_options *options, struct sc_err *err)
{
	uint64_t floor;
	size_t drop = 0;
	int rc = count_drop(archive, keep, options->now_us ? options->now_us : sc_wall_us(), &drop,
			    err);

	if (rc < 0)
		return rc;
	floor = archive->epoch.floor;
	if (drop && archive->items[drop].first > floor)
		floor = archive->items[drop].first;
	if (!archive->dry && floor > archive->epoch.floor) {
		rc = raise_floor(archive, floor, err);
		if (rc == 0) {
			archive->count -= drop;
			memmove(archive->items, archive->items + drop,
				archive->count * sizeof(*archive->items));
			archive->listed_anew = true;
		}
	}
	if (rc == 0)
		rc = sc_archive_publish(archive, err);
	if (rc == 0)
		rc = remove_below(archive, floor, options, err);
	return sc_archive_explain(archive, rc, err);
}

int sc_archive_foresee(struct sc_archive *archive, const struct sc_sealed *segment,
		       struct sc_err *err)
{
	struct sc_archive_item item = { .first = segment->first,
					.last = segment->last,
					.bytes = segment->file_bytes,
					.first_us = segment->first_us,
					.last_us = segment->last_us,
					.foreseen = true };

	if (archive->foreseen_next < segment->next)
		archive->foreseen_next = segment->next;
	return sc_archive_holds(archive, segment) ? 0 : sc_archive_add(archive, &item, err);
}
