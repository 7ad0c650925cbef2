/* find.c: from an offset or a time to a place in a segment or a journal. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "json/line.h"
#include "log/log_internal.h"

#define CHUNK (16u << 10)
#define TRIES 16

struct sc_span sc_u64_key(const uint64_t *key)
{
	return sc_span((const char *)key, sizeof(*key));
}

int sc_find_anchor(struct sc_log *log, uint64_t name, struct sc_place *ret_place,
		   struct sc_anchor *ret_anchor, struct sc_err *err)
{
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	struct sc_ext ext;
	struct sc_span exts;
	int fd = -1, rc = sc_journal_open(log, name, false, &fd, err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, log, name, fd, 0, SC_BLOCK_HEAD + SC_BLOCK_EXT_MAX, 4096);
	rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err);
	exts = rc == 1 ? sc_span(data + SC_BLOCK_HEAD, block.ext_len) : sc_span(NULL, 0);
	if (rc == 1 && sc_ext_next(&exts, &ext) && ext.kind == SC_EXT_ANCHOR) {
		*ret_place = (struct sc_place){ name, 0, ext.anchor.rows, ext.anchor.bytes,
						block.appended_us };
		if (ret_anchor) {
			*ret_anchor = ext.anchor;
			ret_anchor->stream_id = sc_span(NULL, 0);
		}
		rc = 0;
	} else if (rc >= 0 || rc == SC_E_DATA) {
		rc = sc_walk_damage(log, name, 0, name - 1, err);
	}
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

/* Without an index: the segment that reaches OFFSET, or the journal that begins at or below it. */
static int spot_from_files(struct sc_log *log, uint64_t offset, struct sc_spot *spot,
			   struct sc_err *err)
{
	struct sc_tier_names tiers = { NULL, 0, 0 };
	struct sc_names names = { NULL, 0 };
	struct sc_tier *tier = NULL;
	uint64_t name = 0, sealed = 0;
	size_t i = 0;
	int rc = sc_tier_list(log, &tiers, err);

	if (rc < 0)
		return rc;
	for (; i < tiers.count && (tiers.items[i].covered || tiers.items[i].last < offset); i++)
		sealed = tiers.items[i].covered ? sealed : tiers.items[i].last;
	if (i < tiers.count) {
		rc = sc_tier_open(log, tiers.items[i].first, tiers.items[i].last, &tier, err);
		if (rc == 0)
			sc_tier_note(sc_segment_info(tier->segment), &spot->segment);
		spot->sealed = true;
		spot->begin = tiers.items[i].first;
		sc_tier_close(tier);
		sc_tier_list_done(&tiers);
		return rc < 0 ? rc : 1;
	}
	sc_tier_list_done(&tiers);
	rc = sc_journal_list(log, &names, NULL, err);
	if (rc < 0)
		return rc;
	for (i = 0; i < names.count && (names.items[i] <= offset || !name); i++)
		if (names.items[i] > sealed)
			name = names.items[i];
	sc_journal_list_done(&names);
	spot->sealed = false;
	spot->begin = name;
	if (!name)
		return 0;
	rc = sc_find_anchor(log, name, &spot->place, NULL, err);
	return rc < 0 ? rc : 1;
}

static int entry_copy(struct sc_span value, void *ret_entry, size_t size, struct sc_err *err)
{
	if (value.len != size)
		return sc_err_set(err, SC_E_DATA, "cannot read the index",
				  "an entry has another size");
	memcpy(ret_entry, value.data, size);
	return 1;
}

/* The segment that holds OFFSET or is the first above it: 1, 0. */
static int segment_at(struct sc_kv_txn *txn, uint64_t offset, struct sc_sealed *segment,
		      struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_cursor_open(txn, SC_T_SEGMENTS, &cursor, err);

	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_floor(cursor, sc_u64_key(&offset), &key, &value, err);
	if (rc == 1)
		rc = entry_copy(value, segment, sizeof(*segment), err);
	if (rc == 0 || (rc == 1 && segment->last < offset)) {
		rc = sc_kv_cursor_seek(cursor, sc_u64_key(&offset), &key, &value, err);
		if (rc == 1)
			rc = entry_copy(value, segment, sizeof(*segment), err);
	}
	sc_kv_cursor_close(cursor);
	return rc;
}

/* The last known block at or before OFFSET, or the first of all: 1, 0. */
static int block_at(struct sc_kv_txn *txn, uint64_t offset, struct sc_spot *spot,
		    struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_cursor_open(txn, SC_T_BLOCKS, &cursor, err);

	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_floor(cursor, sc_u64_key(&offset), &key, &value, err);
	if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	if (rc == 1) {
		memcpy(&spot->begin, key.data, sizeof(spot->begin));
		rc = entry_copy(value, &spot->place, sizeof(spot->place), err);
	}
	sc_kv_cursor_close(cursor);
	return rc;
}

int sc_find_spot(struct sc_log *log, uint64_t offset, struct sc_spot *ret_spot, struct sc_err *err)
{
	struct sc_spot spot = { .sealed = true };
	struct sc_kv_txn *txn = NULL;
	int rc = SC_E_NOLOG;

	/* what was listed may be gone: then it was sealed, compacted or trimmed just now */
	for (int i = 0; !log->kv && i < TRIES && rc == SC_E_NOLOG; i++)
		rc = spot_from_files(log, offset, &spot, err);
	if (!log->kv)
		goto out;
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = segment_at(txn, offset, &spot.segment, err);
	spot.begin = spot.segment.first;
	if (rc == 0) {
		spot.sealed = false;
		rc = block_at(txn, offset, &spot, err);
	}
	sc_kv_abort(&txn);
out:
	if (rc == 1)
		*ret_spot = spot;
	return rc;
}

int sc_find_before(struct sc_log *log, uint64_t offset, struct sc_sealed *ret_segment,
		   struct sc_err *err)
{
	struct sc_sealed *items = NULL;
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	uint64_t below = offset - 1;
	size_t count = 0;
	int rc;

	if (!log->kv) {
		rc = sc_tier_all(log, &items, &count, err);
		while (rc == 0 && count && items[count - 1].first >= offset)
			count--;
		if (rc == 0 && count)
			*ret_segment = items[count - 1];
		free(items);
		return rc < 0 ? rc : count != 0;
	}
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_open(txn, SC_T_SEGMENTS, &cursor, err);
	if (rc == 0)
		rc = sc_kv_cursor_floor(cursor, sc_u64_key(&below), &key, &value, err);
	if (rc == 1)
		rc = entry_copy(value, ret_segment, sizeof(*ret_segment), err);
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	return rc;
}

static bool same_file(const struct sc_spot *a, const struct sc_spot *b)
{
	if (a->sealed != b->sealed)
		return false;
	if (a->sealed)
		return a->segment.first == b->segment.first && a->segment.last == b->segment.last;
	return a->place.journal == b->place.journal;
}

int sc_find_again(struct sc_log *log, uint64_t offset, struct sc_spot *spot, struct sc_err *err)
{
	struct sc_state state;
	struct sc_spot now;
	int rc = 0;

	if (!log->recovering)
		rc = sc_index_now(log, &state, err); /* opens a new index if ours was replaced */
	if (rc == 0)
		rc = sc_find_spot(log, offset, &now, err);
	if (rc != 1)
		return rc;
	/* the index forgets a file before it is removed */
	if (same_file(spot, &now))
		return spot->sealed
			       ? sc_tier_missing(log, spot->segment.first, spot->segment.last, err)
			       : sc_walk_damage(log, spot->place.journal, 0,
						offset ? offset - 1 : 0, err);
	*spot = now;
	return 1;
}

static int journal_from_files(struct sc_log *log, uint64_t name, uint64_t *ret_end,
			      uint64_t *ret_next, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	struct sc_place place;
	struct sc_anchor anchor;
	uint64_t next = 0;
	int rc = sc_journal_list(log, &names, NULL, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < names.count && !next; i++)
		if (names.items[i] > name)
			next = names.items[i];
	sc_journal_list_done(&names);
	if (!next)
		return SC_E_NOLOG;
	rc = sc_find_anchor(log, next, &place, &anchor, err);
	if (rc == 0 && anchor.prev_journal != name) {
		if (!log->tolerant)
			return SC_E_NOLOG;
		*ret_end = UINT64_MAX; /* those between are missing: it is read as far as it goes */
		*ret_next = next;
		return 0;
	}
	if (rc == 0) {
		*ret_end = anchor.prev_end;
		*ret_next = next;
	}
	return rc;
}

int sc_find_journal(struct sc_log *log, const struct sc_state *state, uint64_t name,
		    uint64_t *ret_end, uint64_t *ret_next, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	struct sc_journal_entry entry;
	uint64_t next = 0;
	int rc;

	if (name == state->journal) {
		*ret_end = state->end;
		*ret_next = 0;
		return 0;
	}
	if (!log->kv)
		return journal_from_files(log, name, ret_end, ret_next, err);
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_open(txn, SC_T_JOURNALS, &cursor, err);
	if (rc == 0)
		rc = sc_kv_cursor_seek(cursor, sc_u64_key(&name), &key, &value, err);
	if (rc == 1 && (value.len != sizeof(entry) || memcmp(key.data, &name, sizeof(name))))
		rc = 0;
	if (rc == 1) {
		memcpy(&entry, value.data, sizeof(entry));
		rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &value, err);
		if (rc == 1)
			memcpy(&next, key.data, sizeof(next));
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	if (rc < 0)
		return rc;
	if (!next)
		return SC_E_NOLOG;
	*ret_end = entry.end;
	*ret_next = next;
	return 0;
}

/*
 * Inside one block: how many rows and bytes of lines stand before OFFSET, and the offset of the
 * row found there.
 */
static void find_line(const char *data, const struct sc_block *block, uint64_t offset,
		      struct sc_found *found)
{
	const char *body = data + SC_BLOCK_HEAD + block->ext_len, *at = body,
		   *end = body + block->body_len;

	found->offset = block->first;
	while (at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		struct sc_line line;

		if (!lf || !sc_line_parse(sc_span(at, (size_t)(lf - at)), true, &line))
			break;
		found->offset = line.offset;
		if (line.offset >= offset)
			break;
		found->rows++;
		at = lf + 1;
	}
	found->bytes += (uint64_t)(at - body);
}

/*
 * From PLACE on to the first block that holds a row at or above OFFSET. 1, or 0 at the journal's
 * end.
 */
static int find_in_journal(struct sc_log *log, const struct sc_place *place, uint64_t end,
			   uint64_t offset, struct sc_found *ret_found, struct sc_err *err)
{
	struct sc_walk walk;
	struct sc_block block = { .last = 0 };
	struct sc_found found = { .block = *place, .rows = place->rows, .bytes = place->bytes };
	const char *data;
	uint64_t last_good = offset ? offset - 1 : 0;
	int fd = -1, rc = sc_journal_open(log, place->journal, false, &fd, err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, log, place->journal, fd, place->at, end, CHUNK);
	for (;;) {
		uint64_t at = walk.pos;

		rc = sc_walk_next(&walk, SC_WALK_HEADS, &block, &data, err);
		if (rc != 1)
			break;
		if (block.rows && block.last >= offset) {
			found.block = (struct sc_place){ place->journal, at, found.rows,
							 found.bytes, block.appended_us };
			walk.pos = at;
			rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err);
			if (rc == 1)
				find_line(data, &block, offset, &found);
			break;
		}
		if (block.rows)
			last_good = block.last;
		found.rows += block.rows;
		found.bytes += block.body_len;
	}
	if (rc == SC_E_DATA)
		rc = sc_walk_damage(log, place->journal, walk.pos, last_good, err);
	sc_walk_done(&walk);
	close(fd);
	if (rc == 1)
		*ret_found = found;
	return rc;
}

/* From a block on, through the journals: 1, 0, SC_E_NOLOG: one of them is not there. */
static int row_in_journals(struct sc_log *log, const struct sc_state *state, uint64_t offset,
			   struct sc_spot *spot, struct sc_found *ret_found, struct sc_err *err)
{
	uint64_t end, next;
	int rc;

	for (;;) {
		rc = sc_find_journal(log, state, spot->place.journal, &end, &next, err);
		if (rc == 0)
			rc = find_in_journal(log, &spot->place, end, offset, ret_found, err);
		if (rc != 0 || next == 0)
			return rc;
		/* its end was read: the row is in the next one, at its beginning */
		rc = sc_find_anchor(log, next, &spot->place, NULL, err);
		if (rc == SC_E_NOLOG)
			spot->place.journal = next;
		if (rc < 0)
			return rc;
	}
}

static int row_in_segment(struct sc_log *log, const struct sc_sealed *segment, uint64_t offset,
			  struct sc_found *found, struct sc_err *err)
{
	struct sc_segment_place place;
	struct sc_tier *tier = NULL;
	int rc = sc_tier_open(log, segment->first, segment->last, &tier, err);

	if (rc == 0)
		rc = sc_segment_find(tier->segment, offset, &place, err);
	sc_tier_close(tier);
	if (rc != 1)
		return rc;
	*found = (struct sc_found){
		.block.appended_us = place.appended_us,
		.offset = place.offset,
		.rows = segment->rows_before + place.rows,
		.bytes = segment->bytes_before + place.bytes,
		.sealed = true,
	};
	return 1;
}

int sc_find_row(struct sc_log *log, const struct sc_state *state, uint64_t offset,
		struct sc_found *ret_found, struct sc_err *err)
{
	struct sc_found found = { .offset = 0 };
	struct sc_spot spot;
	int rc;

	if (offset >= state->next)
		return 0;
	rc = sc_find_spot(log, offset, &spot, err);
	while (rc == 1) {
		rc = spot.sealed ? row_in_segment(log, &spot.segment, offset, &found, err)
				 : row_in_journals(log, state, offset, &spot, &found, err);
		if (rc != SC_E_NOLOG)
			break;
		rc = sc_find_again(log, offset, &spot, err);
	}
	if (rc == 1 && found.offset >= state->next)
		rc = 0; /* appended since the state was looked at */
	if (rc == 1)
		*ret_found = found;
	return rc;
}

/*
 * The first row at or after WHEN among the sealed ones from *LOW on: 1 and its offset, or 0: they
 * all are older, and *LOW is behind them. Times rise with offsets: the index tells which segment,
 * without opening any.
 */
static int time_in_segments(struct sc_log *log, int64_t when_us, uint64_t *low,
			    uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_segment_place place;
	struct sc_sealed *items = NULL;
	struct sc_tier *tier = NULL;
	size_t count = 0, from = 0, to;
	int rc = sc_tier_all(log, &items, &count, err);

	if (rc < 0)
		return rc;
	for (to = count; from < to;) {
		size_t mid = from + (to - from) / 2;

		if (items[mid].last_us < when_us || items[mid].last < *low)
			from = mid + 1;
		else
			to = mid;
	}
	if (from == count) {
		if (count && items[count - 1].next > *low)
			*low = items[count - 1].next;
		goto out;
	}
	rc = sc_tier_open(log, items[from].first, items[from].last, &tier, err);
	if (rc == 0)
		rc = sc_segment_find_time(tier->segment, when_us, &place, err);
	if (rc == 1 && place.offset < *low)
		rc = sc_segment_find(tier->segment, *low, &place, err);
	if (rc == 1)
		*ret_offset = place.offset;
out:
	sc_tier_close(tier);
	free(items);
	return rc;
}

/* The sparse entries hold times, and times rise with offsets: halve the range of offsets. */
static int time_in_journals(struct sc_log *log, const struct sc_state *state, int64_t when_us,
			    uint64_t low, uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_found found;
	uint64_t high = state->next;
	int rc;

	/*
	 * invariant: every row below LOW is older than WHEN; the row found at HIGH is not, or
	 * HIGH is the frontier
	 */
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		rc = sc_find_row(log, state, mid, &found, err);
		if (rc < 0)
			return rc;
		if (rc == 1 && found.block.appended_us < when_us)
			low = found.offset + 1;
		else
			high = mid;
	}
	/* LOW may lie in a gap: name the row itself */
	if (low < state->next) {
		rc = sc_find_row(log, state, low, &found, err);
		if (rc < 0)
			return rc;
		if (rc == 1)
			low = found.offset;
	}
	*ret_offset = low;
	return 0;
}

int sc_log_offset_at(struct sc_log *log, int64_t when_us, uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_state state;
	uint64_t low;
	int rc;

	for (int i = 0;; i++) {
		rc = sc_index_now(log, &state, err);
		if (rc < 0)
			return rc;
		low = state.first ? state.first : state.next;
		if (state.last_us < when_us || low == state.next) {
			*ret_offset = state.next;
			return 0;
		}
		rc = time_in_segments(log, when_us, &low, ret_offset, err);
		if (rc != SC_E_NOLOG || i == TRIES)
			break;
	}
	if (rc != 0)
		return rc == 1 ? 0 : rc;
	return time_in_journals(log, &state, when_us, low, ret_offset, err);
}

int sc_log_count_from(struct sc_log *log, uint64_t from, uint64_t *ret_rows, struct sc_err *err)
{
	struct sc_state state;
	struct sc_found found;
	int rc = sc_index_now(log, &state, err);

	if (rc < 0)
		return rc;
	if (from < state.floor)
		from = state.floor;
	rc = sc_find_row(log, &state, from, &found, err);
	if (rc < 0)
		return rc;
	*ret_rows = rc == 1 ? state.rows - found.rows : 0;
	return 0;
}
