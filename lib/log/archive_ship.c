/*
 * archive_ship.c: rows that are in no segment yet into the archive, and out of it when they are.
 *
 * An object is a piece of one journal: whole blocks back to back, up to the end of a commit. Its
 * name is the lowest offset that it may hold, which is the one behind the object before it, and its
 * last row's. What is there is told by the names alone, so a ship that died is taken up without any
 * record. Nothing is shipped beyond rows that the archive has neither so nor in a segment.
 *
 * Behind each object the epoch is asked for again, before it is told of and before anything is
 * removed: so it was put there while the archive was ours, and whoever takes over sees it.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"

#define TRIED "cannot ship to the archive"
#define CHUNK (1u << 20)
#define PIECE (8u << 20) /* a longer one ends with the commit that reaches this */
#define SMALL (1u << 20) /* so many objects */
#define SMALL_COUNT 256  /* that are smaller become larger ones */

/* Of a journal: bytes [from, to), with the rows of [first, last]. */
struct piece {
	uint64_t journal, from, to;
	uint64_t first, last;
};

/* Where what is shipped ends that begins at or before OFFSET and has no hole. */
static uint64_t reach(const struct sc_archive *archive, uint64_t offset)
{
	const struct sc_archive_items *ships = &archive->ships;

	offset = sc_archive_past(&archive->epoch, offset);
	for (size_t i = sc_archive_at(ships->items, ships->count, offset);
	     i < ships->count && ships->items[i].first <= offset; i++)
		offset = sc_archive_past(&archive->epoch, ships->items[i].last + 1);
	return offset;
}

/* A segment of that name, or a larger one: whether it is ours, byte for byte, the next push
 * proves. */
static bool is_listed(const struct sc_archive *archive, const struct sc_sealed *segment)
{
	size_t i = sc_archive_item_of(archive, segment->last);

	return i < archive->count && archive->items[i].first <= segment->first;
}

/* Is a segment of the log not in the archive, nor all of its rows? */
static int has_hole(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_sealed *items = NULL;
	size_t count = 0;
	int rc = sc_tier_all(archive->log, &items, &count, err);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = !is_listed(archive, &items[i]) && !sc_archive_holds(archive, &items[i]) &&
		     reach(archive, items[i].first) <= items[i].last;
	free(items);
	return rc;
}

/* Does the archive end with a segment of another copy of the log, which got the same rows in other
 * commits? What follows it here does not follow it there: until our own is there. 1, 0. */
static int is_crossed(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_item *item;
	struct sc_archive_segment *segment = NULL;
	struct sc_hash hash;
	int rc;

	if (!archive->count)
		return 0;
	item = &archive->items[archive->count - 1];
	if (item->epoch == sc_archive_tag(archive) || archive->chained == item->last)
		return 0;
	rc = sc_archive_segment_open(archive, item, &segment, err);
	if (rc == 0)
		hash = sc_segment_info(sc_archive_segment_inner(segment))->tie.after;
	sc_archive_segment_close(segment);
	if (rc == 0)
		rc = sc_archive_chains(archive, item->last, &hash, err);
	if (rc == 1)
		archive->chained = item->last;
	return rc < 0 ? rc : !rc;
}

/* The lowest offset that may have to be shipped. 1; 0: there is none. */
static int find_start(struct sc_archive *archive, const struct sc_state *state, uint64_t *ret_start,
		      struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	uint64_t start = state->sealed_next;
	int rc = 0;

	if (!start) {
		rc = sc_journal_list(archive->log, &names, NULL, err);
		if (rc == 0 && names.count)
			start = names.items[0];
		sc_journal_list_done(&names);
	}
	if (rc == 0 && start)
		*ret_start = reach(archive, start);
	return rc < 0 ? rc : start != 0;
}

/* Many small objects of the journal in use: from the first of them on they become one. */
static uint64_t merge_from(const struct sc_archive *archive, const struct sc_state *state)
{
	const struct sc_archive_items *ships = &archive->ships;
	uint64_t first = 0;
	size_t small = 0;

	for (size_t i = sc_archive_at(ships->items, ships->count, state->journal); i < ships->count;
	     i++) {
		if (ships->items[i].first < state->journal || ships->items[i].bytes >= SMALL)
			continue;
		if (!small++)
			first = ships->items[i].first;
	}
	return small >= SMALL_COUNT ? first : 0;
}

/* The piece of JOURNAL, which is looked through from POS to END, with the rows at and above START.
 * 1; 0: it has none. */
static int cut_piece(struct sc_archive *archive, uint64_t journal, uint64_t pos, uint64_t end,
		     uint64_t start, struct piece *piece, struct sc_err *err)
{
	struct sc_walk walk;
	struct sc_block block;
	struct sc_hash hash;
	const char *data;
	uint64_t lead = UINT64_MAX; /* the anchor, where no row of the journal was shipped yet */
	bool begun = false, known = false;
	int fd = -1, rc = sc_journal_open(archive->log, journal, false, &fd, err);

	if (rc < 0)
		return rc;
	*piece = (struct piece){ .journal = journal, .first = start };
	sc_walk_init(&walk);
	sc_walk_start(&walk, archive->log, journal, fd, pos, end, CHUNK);
	while (piece->to < piece->from + PIECE) {
		uint64_t at = walk.pos;

		rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err);
		if (rc == 1 && known && !sc_hash_same(&block.prev, &hash))
			rc = SC_E_DATA;
		if (rc != 1)
			break;
		hash = block.hash;
		known = true;
		if (!begun && (block.rows ? block.last : block.first) < start) {
			lead = block.rows ? UINT64_MAX : at;
			continue;
		}
		if (!begun)
			piece->from = piece->to = lead < at ? lead : at;
		begun = true;
		if (block.rows && block.first < piece->first)
			piece->first = block.first;
		if (block.rows && !block.more) {
			piece->to = walk.pos;
			piece->last = block.last;
		}
	}
	if (rc == SC_E_DATA)
		rc = sc_walk_damage(archive->log, journal, walk.pos,
				    piece->last ? piece->last : start - 1, err);
	sc_walk_done(&walk);
	close(fd);
	return rc < 0 ? rc : piece->last != 0;
}

/* Where to look for START. */
static int find_place(struct sc_archive *archive, uint64_t start, uint64_t *ret_journal,
		      uint64_t *ret_pos, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	int rc;

	*ret_journal = archive->at_journal;
	*ret_pos = archive->at;
	if (archive->at_journal && archive->at_offset <= start)
		return 0;
	*ret_journal = *ret_pos = 0;
	rc = sc_journal_list(archive->log, &names, NULL, err);
	for (size_t i = 0; rc == 0 && i < names.count; i++)
		if (names.items[i] <= start || !*ret_journal)
			*ret_journal = names.items[i];
	sc_journal_list_done(&names);
	return rc;
}

/* 1; 0: there is none; SC_E_NOLOG: what was looked at went. */
static int next_piece(struct sc_archive *archive, const struct sc_state *state, uint64_t start,
		      struct piece *piece, struct sc_err *err)
{
	uint64_t journal, pos, end, next;
	int rc = find_place(archive, start, &journal, &pos, err);

	while (rc == 0 && journal) {
		rc = sc_find_journal(archive->log, state, journal, &end, &next, err);
		if (rc == 0)
			rc = cut_piece(archive, journal, pos, end, start, piece, err);
		if (rc != 0)
			break;
		journal = next;
		pos = 0;
	}
	if (rc == SC_E_NOLOG && archive->at_journal) { /* sealed: look where it is from the start */
		archive->at_journal = 0;
		return next_piece(archive, state, start, piece, err);
	}
	return rc;
}

/* Those that the new one holds go, now that it is there and the archive is still ours. */
static int remove_covered(struct sc_archive *archive, const struct sc_archive_item *item,
			  struct sc_err *err)
{
	const struct sc_archive_items *ships = &archive->ships;
	char key[SC_ARCHIVE_KEY];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < ships->count; i++) {
		const struct sc_archive_item *old = &ships->items[i];

		if (old->first < item->first || old->last > item->last ||
		    (old->first == item->first && old->last == item->last))
			continue;
		sc_archive_ship_key(archive, old, key);
		rc = sc_store_delete(archive->store, key, err);
	}
	return rc;
}

static int put_piece(struct sc_archive *archive, const struct piece *piece,
		     const struct sc_archive_item *item, struct sc_err *err)
{
	char path[PATH_MAX], key[SC_ARCHIVE_KEY];
	int fd = -1, rc = sc_journal_open(archive->log, piece->journal, false, &fd, err);

	sc_journal_path(archive->log, piece->journal, path);
	sc_archive_ship_key(archive, item, key);
	if (rc == 0)
		rc = sc_archive_fence(archive, err);
	if (rc == 0)
		rc = sc_store_put_fd(archive->store, key, fd, piece->from, item->bytes,
				     SC_STORE_ABSENT, NULL, err);
	if (rc == SC_E_BUSY) /* a ship that died left it, or it is no work of ours */
		rc = sc_archive_compare(archive, fd, piece->from, item->bytes, path, key, err);
	sc_close(&fd);
	/* still ours: whoever takes it over from now on sees what we put there */
	if (rc == 0)
		rc = sc_archive_fence(archive, err);
	if (rc == 0)
		rc = remove_covered(archive, item, err);
	return rc == 0 ? sc_archive_shelve(&archive->ships, item, err) : rc;
}

static int ship_piece(struct sc_archive *archive, const struct piece *piece,
		      const struct sc_archive_options *o, struct sc_err *err)
{
	struct sc_archive_item item = { .first = piece->first,
					.last = piece->last,
					.epoch = sc_archive_tag(archive),
					.bytes = piece->to - piece->from };
	int rc = archive->dry ? 0 : put_piece(archive, piece, &item, err);

	if (rc < 0)
		return rc;
	archive->at_journal = piece->journal;
	archive->at = piece->to;
	archive->at_offset = piece->last + 1;
	archive->shipped_next = sc_archive_past(&archive->epoch, piece->last + 1);
	sc_archive_tell(o, SC_ARCHIVE_SHIPPED, item.first, item.last, item.bytes);
	return 0;
}

static int ship_from(struct sc_archive *archive, const struct sc_state *state, uint64_t start,
		     const struct sc_archive_options *o, struct sc_err *err)
{
	uint64_t merge = merge_from(archive, state);
	struct piece piece;
	int rc = 1;

	if (merge >= state->sealed_next && merge && merge < start) {
		start = merge;
		archive->at_journal = 0;
	}
	while (rc == 1 && start < state->next) {
		rc = next_piece(archive, state, start, &piece, err);
		if (rc != 1)
			break;
		rc = ship_piece(archive, &piece, o, err);
		if (rc < 0)
			return rc;
		start = archive->shipped_next;
		rc = 1;
		if (o->progress && !o->progress(o->arg, 0, 0))
			break;
	}
	if (rc == SC_E_NOLOG) /* trimmed meanwhile: the next one sees it */
		rc = sc_log_gone(archive->log, err);
	return rc < 0 ? rc : 0;
}

int sc_archive_ship(struct sc_archive *archive, const struct sc_archive_options *options,
		    struct sc_err *err)
{
	struct sc_state state;
	uint64_t start = archive->shipped_next;
	int rc = sc_index_now(archive->log, &state, err);

	if (rc == 0 && archive->foreseen_next > state.sealed_next)
		state.sealed_next = archive->foreseen_next;
	if (rc < 0 || (start && state.next <= start))
		return rc;
	if (!start) {
		rc = find_start(archive, &state, &start, err);
		if (rc != 1)
			return rc;
	}
	if (!archive->dry && state.sealed_next && archive->sealed_seen != state.sealed_next) {
		rc = has_hole(archive, err);
		if (rc != 0)
			return rc < 0 ? rc : 0;
		archive->sealed_seen = state.sealed_next;
	}
	rc = archive->dry ? 0 : is_crossed(archive, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (start < state.sealed_next)
		start = sc_archive_past(
			&archive->epoch,
			state.sealed_next); /* sealed, and pushed, before they could be shipped */
	archive->shipped_next = start;
	if (start < state.next && !archive->has_log && !archive->dry)
		rc = sc_archive_put_log(archive, true, err);
	if (rc >= 0)
		rc = ship_from(archive, &state, start, options, err);
	return sc_archive_explain(archive, rc, err);
}

/* Is a row of ITEM in no segment? */
static int is_alone(struct sc_archive *archive, const struct sc_archive_item *item,
		    struct sc_err *err)
{
	uint64_t floor = archive->epoch.floor, at = item->first > floor ? item->first : floor, rows;
	int rc;

	while (at <= item->last) {
		size_t i = sc_archive_item_of(archive, at);

		if (i == archive->count || archive->items[i].first > item->last)
			return 1;                   /* its last row */
		if (archive->items[i].first > at) { /* its name may begin below its rows */
			rc = sc_archive_rows_between(archive, i, &rows, err);
			if (rc < 0 || rows)
				return rc < 0 ? rc : 1;
		}
		at = archive->items[i].last + 1;
	}
	return 0;
}

/* Mark those below BELOW that segments have: how many. */
static int find_spare(struct sc_archive *archive, uint64_t below, size_t *ret_count,
		      struct sc_err *err)
{
	struct sc_archive_items *ships = &archive->ships;
	int rc = 0;

	*ret_count = 0;
	for (size_t i = 0; rc >= 0 && i < ships->count; i++) {
		struct sc_archive_item *item = &ships->items[i];

		item->spare = false;
		if (item->alone || item->last >= below)
			continue;
		rc = is_alone(archive, item, err);
		item->alone = rc == 1;
		item->spare = rc == 0;
		*ret_count += item->spare;
	}
	return rc < 0 ? rc : 0;
}

/* Objects that are to go. */
struct sweep {
	const struct sc_archive *archive;
	struct sc_archive_items go;
};

static bool stays(const struct sc_archive *archive, const struct sc_archive_item *item)
{
	const struct sc_archive_items *ships = &archive->ships;
	size_t i = sc_archive_at(ships->items, ships->count, item->last);

	return i < ships->count && ships->items[i].first == item->first &&
	       ships->items[i].last == item->last && !ships->items[i].spare;
}

static int each_spare(void *arg, const struct sc_store_item *object, struct sc_err *err)
{
	struct sweep *s = arg;
	struct sc_archive_item item;

	if (!sc_archive_ship_parse(s->archive, object, &item))
		return 0;
	if (stays(s->archive, &item))
		return 0;
	if (s->go.count == s->go.cap) {
		size_t cap = s->go.cap ? 2 * s->go.cap : 64;
		struct sc_archive_item *more = sc_realloc(s->go.items, cap * sizeof(*more));

		if (!more)
			return sc_err_nomem(err, TRIED);
		s->go.items = more;
		s->go.cap = cap;
	}
	s->go.items[s->go.count++] = item;
	return 0;
}

int sc_archive_unship(struct sc_archive *archive, struct sc_err *err)
{
	struct sweep s = { .archive = archive };
	char prefix[SC_ARCHIVE_KEY], key[SC_ARCHIVE_KEY];
	struct sc_store_listing what = { .prefix = prefix };
	struct sc_archive_items *ships = &archive->ships;
	struct sc_state state;
	size_t gone = 0, kept = 0;
	int rc = sc_index_now(archive->log, &state, err);

	if (rc < 0 || archive->dry)
		return rc;
	rc = find_spare(archive, state.sealed_next, &gone, err);
	if (rc < 0 || (!gone && !archive->strays))
		return rc;
	sc_archive_name(archive, SC_ARCHIVE_JOURNAL, prefix);
	rc = sc_store_list(archive->store, &what, each_spare, &s, err);
	if (rc == 0 && s.go.count)
		rc = sc_archive_fence(archive, err);
	for (size_t i = 0; rc == 0 && i < s.go.count; i++) {
		sc_archive_ship_key(archive, &s.go.items[i], key);
		rc = sc_store_delete(archive->store, key, err);
	}
	free(s.go.items);
	if (rc < 0)
		return rc;
	archive->strays = false;
	for (size_t i = 0; i < ships->count; i++)
		if (!ships->items[i].spare)
			ships->items[kept++] = ships->items[i];
	ships->count = kept;
	return 0;
}
