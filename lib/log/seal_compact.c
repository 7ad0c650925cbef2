/*
 * seal_compact.c: neighbouring small segments into larger ones.
 *
 * A segment is small below half of the target. Small neighbours are put together when what comes of
 * them is not small any more, or when there are many of like size: so each row is copied a few
 * times at most, however small the segments come.
 */
#include <stdlib.h>

#include "base/file.h"
#include "log/seal_internal.h"

#define MANY 8

/* From AT on: small neighbours of one schema that together stay within the target. */
static size_t window(const struct sc_sealed *items, size_t count, size_t at, uint64_t target)
{
	uint64_t bytes = 0;
	size_t i;

	for (i = at; i < count; i++) {
		const struct sc_sealed *s = &items[i];

		if (s->bytes >= target / 2 || bytes + s->bytes > target ||
		    s->schema != items[at].schema ||
		    (i > at && s->rows_before != items[i - 1].rows_before + items[i - 1].rows))
			break;
		bytes += s->bytes;
	}
	return i - at;
}

static uint64_t bytes_of(const struct sc_sealed *items, size_t count)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		bytes += items[i].bytes;
	return bytes;
}

/* Which of a window of *COUNT segments from *AT on are worth it. */
static bool choose(const struct sc_sealed *items, size_t *at, size_t *count, uint64_t target,
		   bool every)
{
	if (every || bytes_of(items + *at, *count) >= target / 2)
		return *count > 1;
	/* one that outweighs all behind it stays as it is */
	while (*count > 1 && items[*at].bytes > bytes_of(items + *at + 1, *count - 1)) {
		++*at;
		--*count;
	}
	return *count >= MANY;
}

/* 1 and the new one; 0: stopped. SC_E_NOLOG: one of them went. */
static int write_segment(struct sc_seal *seal, const struct sc_seal_options *o,
			 const struct sc_sealed *items, size_t count, struct sc_sealed *sealed,
			 struct sc_err *err)
{
	struct sc_segment_tie tie = { .next = 0 };
	struct sc_seal_file file = { .fd = -1 };
	struct sc_tier *tier = NULL;
	struct sc_run run;
	bool begun = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count && !file.stopped; i++) {
		const struct sc_segment_info *info;
		struct sc_segment_tie first = tie;

		sc_tier_close(tier);
		tier = NULL;
		rc = sc_tier_open(seal->log, items[i].first, items[i].last, &tier, err);
		if (rc < 0)
			break;
		info = sc_segment_info(tier->segment);
		if (!begun)
			rc = sc_seal_file_begin(&file, seal, o, info->schema, err);
		begun = true;
		file.total = bytes_of(items, count);
		tie = info->tie; /* its checkpoint is borrowed: the last one stays open */
		if (i > 0) {
			tie.before = first.before;
			tie.rows_before = first.rows_before;
			tie.bytes_before = first.bytes_before;
		}
		while (rc == 0 && !file.stopped &&
		       (rc = sc_segment_next(tier->segment, 0, &run, err)) == 1)
			rc = sc_seal_file_add(&file, &run, err);
	}
	if (rc == 0 && !file.stopped)
		rc = sc_seal_file_finish(&file, &tie, sealed, err);
	if (rc == 0)
		rc = !file.stopped;
	if (begun)
		sc_seal_file_free(&file);
	sc_tier_close(tier);
	return rc;
}

/* Are they all there still? 1, 0. */
static int still_there(struct sc_kv_txn *txn, const struct sc_sealed *items, size_t count,
		       struct sc_err *err)
{
	int rc = 1;

	for (size_t i = 0; rc == 1 && i < count; i++)
		rc = sc_seal_file_known(txn, &items[i], err);
	return rc;
}

/* The transaction: the new one instead of the others. 1; 0: one of them went. */
static int record(struct sc_seal *seal, const struct sc_sealed *items, size_t count,
		  const struct sc_sealed *sealed, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	int rc = sc_seal_begin(seal, &txn, &state, err), there;

	if (rc < 0)
		return rc;
	there = still_there(txn, items, count, err);
	if (there != 1) {
		/* a rebuild may have found the new one, and taken it */
		rc = there < 0 ? there : sc_seal_file_known(txn, sealed, err);
		if (rc == 0)
			rc = sc_tier_remove(seal->log, sealed->first, sealed->last, err);
		sc_index_abort(seal->log, &txn);
		return rc;
	}
	for (size_t i = 0; rc >= 0 && i < count; i++) {
		rc = sc_kv_del(txn, SC_T_SEGMENTS, sc_u64_key(&items[i].first), err);
		state.sealed_file_bytes -= items[i].file_bytes;
	}
	if (rc >= 0)
		rc = sc_kv_put(txn, SC_T_SEGMENTS, sc_u64_key(&sealed->first),
			       sc_span((const char *)sealed, sizeof(*sealed)), err);
	state.segments -= count - 1;
	state.sealed_file_bytes += sealed->file_bytes;
	if (rc == 0)
		rc = sc_index_end(seal->log, &txn, &state, 0, err);
	else
		sc_index_abort(seal->log, &txn);
	sc_seal_ended(seal);
	return rc < 0 ? rc : 1;
}

/* 1; 0: stop here. */
static int compact(struct sc_seal *seal, const struct sc_seal_options *o,
		   const struct sc_sealed *items, size_t count, struct sc_err *err)
{
	struct sc_sealed sealed = items[0];
	const struct sc_sealed *last = &items[count - 1];
	int rc;

	if (seal->dry) {
		sealed.last = last->last;
		sealed.next = last->next;
		sealed.last_us = last->last_us;
		sealed.rows = last->rows_before + last->rows - items[0].rows_before;
		sealed.bytes = bytes_of(items, count);
		sealed.file_bytes = 0;
		sc_seal_step_done(seal, o, SC_SEAL_COMPACTED, &sealed, count);
		return 1;
	}
	rc = write_segment(seal, o, items, count, &sealed, err);
	if (rc == SC_E_NOLOG)
		return sc_log_gone(seal->log, err); /* or trimmed: the next run sees what is left */
	if (rc == 1)
		rc = record(seal, items, count, &sealed, err);
	if (rc != 1)
		return rc;
	for (size_t i = 0; rc >= 0 && i < count; i++)
		rc = sc_tier_remove(seal->log, items[i].first, items[i].last, err);
	if (rc == 0)
		rc = sc_tier_sync(seal->log, err);
	sc_seal_step_done(seal, o, SC_SEAL_COMPACTED, &sealed, count);
	return rc < 0 ? rc : 1;
}

int sc_seal_compact(struct sc_seal *seal, const struct sc_seal_options *o, struct sc_err *err)
{
	uint64_t target = o->target ? o->target : SC_SEAL_TARGET;
	struct sc_sealed *items = NULL;
	size_t count = 0;
	int rc = sc_tier_all(seal->log, &items, &count, err);

	for (size_t at = 0; rc >= 0 && at < count;) {
		size_t n = window(items, count, at, target), from = at, many = n;

		at += n ? n : 1;
		if (!n || !choose(items, &from, &many, target, o->every))
			continue;
		rc = compact(seal, o, items + from, many, err);
		if (rc != 1)
			break;
	}
	free(items);
	return rc < 0 ? sc_log_or_gone(seal->log, rc, err) : 0;
}
