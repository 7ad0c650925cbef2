/* range.c: offsets and times to a range of rows. */
#include "log/range.h"

#include "log/reader.h"

int sc_range_resolve(const struct sc_range *range, struct sc_log *log, bool follow,
		     uint64_t *ret_from, uint64_t *ret_end, struct sc_err *err)
{
	struct sc_log_state state;
	uint64_t from = range->from, end, at;
	int rc = sc_log_state(log, &state, err);

	if (rc < 0)
		return rc;
	end = follow ? UINT64_MAX : state.next_offset;
	if (range->to_given && range->to < end)
		end = range->to + 1;
	if (!from)
		from = state.first_offset;
	if (range->since_given) {
		rc = sc_log_offset_at(log, range->since_us, &at, err);
		if (rc < 0)
			return rc;
		if (at > from)
			from = at;
	}
	if (range->until_given) {
		rc = sc_log_offset_at(log, range->until_us, &at, err);
		if (rc < 0)
			return rc;
		if (at < end && (at < state.next_offset || !follow))
			end = at;
	}
	*ret_from = from;
	*ret_end = end;
	return 0;
}

int sc_range_last(struct sc_log *log, uint64_t count, uint64_t *ret_from, struct sc_err *err)
{
	struct sc_log_state state;
	uint64_t low, high, rows;
	int rc = sc_log_state(log, &state, err);

	if (rc < 0)
		return rc;
	low = state.first_offset;
	high = state.next_offset;
	if (count < high - low && state.rows == high - low) {
		*ret_from = high - count; /* no gaps */
		return 0;
	}
	/* the highest offset that still has COUNT rows at or above it */
	while (low < high) {
		uint64_t mid = high - (high - low) / 2;

		rc = sc_log_count_from(log, mid, &rows, err);
		if (rc < 0)
			return rc;
		if (rows >= count)
			low = mid;
		else
			high = mid - 1;
	}
	*ret_from = low;
	return 0;
}
