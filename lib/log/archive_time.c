/* archive_time.c: where in an archive a time is, and what a range of it is. */
#include <stdint.h>

#include "log/archive_internal.h"

/* When its last row was appended: from the segment itself, once. */
static int know_times(struct sc_archive *archive, struct sc_archive_item *item, struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	int rc = 0;

	if (!item->last_us)
		rc = sc_archive_segment_open(archive, item, &segment, err);
	sc_archive_segment_close(segment);
	return rc;
}

/* Walks SHIP: the first row appended at or after WHEN. 1, 0. */
static int time_in_ship(struct sc_archive *archive, struct sc_archive_item *ship, int64_t when_us,
			uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_archive_blocks *blocks = NULL;
	struct sc_block block;
	const char *data;
	int64_t last_us = 0;
	int rc = sc_archive_blocks_open(archive, ship, &blocks, err);

	while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, err)) == 1) {
		if (block.rows)
			last_us = block.appended_us;
		if (block.rows && block.appended_us >= when_us) {
			*ret_offset = block.first;
			break;
		}
	}
	if (rc == 0)
		ship->last_us = last_us;
	sc_archive_blocks_close(blocks);
	return rc;
}

/* Behind the segment before segment I, and before that one: there are few of them, in turn. 1,
 * 0. */
static int time_in_ships(struct sc_archive *archive, size_t i, int64_t when_us,
			 uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_archive_items *ships = &archive->ships;
	uint64_t from = i ? archive->items[i - 1].last + 1 : 1, at = 0;
	uint64_t end = i < archive->count ? archive->items[i].first : UINT64_MAX;
	int rc = 0;

	for (size_t j = sc_archive_at(ships->items, ships->count, from);
	     rc == 0 && j < ships->count && ships->items[j].first < end; j++)
		if (!ships->items[j].last_us || ships->items[j].last_us >= when_us)
			rc = time_in_ship(archive, &ships->items[j], when_us, &at, err);
	if (rc != 1 || at >= end)
		return rc < 0 ? rc : 0;
	*ret_offset = at > from ? at : from; /* the segment holds the rest */
	return 1;
}

/* From item I on, the first one below END that is there; or END. */
static size_t skip_unseen(const struct sc_archive *archive, size_t i, size_t end)
{
	while (i < end && archive->items[i].unseen)
		i++;
	return i;
}

/* OFFSET is the first row of a time that is there. Rows that are missing before it may be of
 * that time, too: then it is the first of these, and reading there will say so. */
static uint64_t with_unseen(const struct sc_archive *archive, uint64_t offset)
{
	size_t i = sc_archive_item_of(archive, offset);

	if (i < archive->count && archive->items[i].first < offset)
		return offset;
	while (i > 0 && archive->items[i - 1].unseen)
		offset = archive->items[--i].first;
	return offset;
}

int sc_archive_offset_at(struct sc_archive *archive, int64_t when_us, uint64_t *ret_offset,
			 struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	struct sc_segment_place place;
	size_t low = 0, high = archive->count;
	int rc = 0;

	while (low < high) {
		size_t mid = low + (high - low) / 2, at = mid;

		while (at > low && archive->items[at].unseen)
			at--;
		if (archive->items[at].unseen) { /* and so are all from LOW on */
			low = mid + 1;
			continue;
		}
		rc = know_times(archive, &archive->items[at], err);
		if (rc < 0)
			return rc;
		if (archive->items[at].last_us < when_us)
			low = at == mid ? mid + 1 : skip_unseen(archive, at + 1, high);
		else
			high = at;
	}
	rc = time_in_ships(archive, low, when_us, ret_offset, err);
	if (rc != 0)
		return rc < 0 ? rc : 0;
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
		at = with_unseen(archive, at);
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
