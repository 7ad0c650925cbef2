/* find.c: from an offset or a time to a place in a journal. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "json/line.h"
#include "log/log_internal.h"

#define CHUNK (16u << 10)

struct sc_span sc_u64_key(const uint64_t *key)
{
	return sc_span((const char *)key, sizeof(*key));
}

/* The anchor of a journal, as a place. */
static int anchor_place(struct sc_log *log, uint64_t name, struct sc_place *ret_place,
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
	sc_walk_start(&walk, fd, 0, SC_BLOCK_HEAD + SC_BLOCK_EXT_MAX, 4096);
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

static int place_from_files(struct sc_log *log, uint64_t offset, struct sc_place *ret_place,
			    struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	uint64_t name = 0;
	int rc = sc_journal_list(log, &names, NULL, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < names.count && names.items[i] <= offset; i++)
		name = names.items[i];
	sc_journal_list_done(&names);
	if (!name)
		return 0;
	rc = anchor_place(log, name, ret_place, NULL, err);
	return rc < 0 ? rc : 1;
}

int sc_find_place(struct sc_log *log, uint64_t offset, struct sc_place *ret_place,
		  struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc;

	if (!log->kv)
		return place_from_files(log, offset, ret_place, err);
	rc = sc_kv_read(log->kv, &txn, err);
	if (rc < 0)
		return rc;
	rc = sc_kv_cursor_open(txn, SC_T_BLOCKS, &cursor, err);
	if (rc == 0)
		rc = sc_kv_cursor_floor(cursor, sc_u64_key(&offset), &key, &value, err);
	if (rc == 1) {
		if (value.len == sizeof(*ret_place))
			memcpy(ret_place, value.data, sizeof(*ret_place));
		else
			rc = sc_err_set(err, SC_E_DATA, "cannot read the index",
					"an entry has another size");
	}
	sc_kv_cursor_close(cursor);
	sc_kv_abort(&txn);
	return rc;
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
	rc = anchor_place(log, next, &place, &anchor, err);
	if (rc == 0 && anchor.prev_journal != name)
		return SC_E_NOLOG;
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
	sc_walk_start(&walk, fd, place->at, end, CHUNK);
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

int sc_find_row(struct sc_log *log, const struct sc_state *state, uint64_t offset,
		struct sc_found *ret_found, struct sc_err *err)
{
	struct sc_place place;
	uint64_t end, next;
	int rc;

	if (offset >= state->next)
		return 0;
	rc = sc_find_place(log, offset, &place, err);
	if (rc == 0) {
		/* below everything that is held: the earliest there is */
		rc = state->first ? sc_find_place(log, state->first, &place, err) : 0;
	}
	while (rc == 1) {
		rc = sc_find_journal(log, state, place.journal, &end, &next, err);
		if (rc < 0)
			break;
		rc = find_in_journal(log, &place, end, offset, ret_found, err);
		if (rc != 0 || next == 0)
			break;
		rc = sc_find_place(log, next, &place, err);
	}
	return rc;
}

/* The sparse entries hold times, and times rise with offsets: halve the range of offsets. */
int sc_log_offset_at(struct sc_log *log, int64_t when_us, uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_state state;
	struct sc_found found;
	uint64_t low, high;
	int rc = sc_index_now(log, &state, err);

	if (rc < 0)
		return rc;
	/*
	 * invariant: every row below LOW is older than WHEN; the row found at HIGH is not, or
	 * HIGH is the frontier
	 */
	low = state.first ? state.first : state.next;
	high = state.next;
	if (state.last_us < when_us)
		low = high;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		rc = sc_find_row(log, &state, mid, &found, err);
		if (rc < 0)
			return rc;
		if (rc == 1 && found.block.appended_us < when_us)
			low = found.offset + 1;
		else
			high = mid;
	}
	/* LOW may lie in a gap: name the row itself */
	if (low < state.next) {
		rc = sc_find_row(log, &state, low, &found, err);
		if (rc < 0)
			return rc;
		if (rc == 1)
			low = found.offset;
	}
	*ret_offset = low;
	return 0;
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
