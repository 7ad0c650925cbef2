/*
 * trim.c: rows given up from the lowest on.
 *
 * The floor is on disk in log.json before anything is removed, so a crash leaves at most journals
 * and segments below the floor, which the next trim, seal or rebuild removes. The journal in use
 * always stays: it names the next offset.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "log/seal_internal.h"

/* Segments of which all rows are below the floor go out of the index. */
static int forget_segments(struct sc_kv_txn *txn, struct sc_state *state, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	struct sc_sealed entry;
	int rc;

	for (;;) {
		rc = sc_kv_cursor_open(txn, SC_T_SEGMENTS, &cursor, err);
		if (rc < 0)
			return rc;
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
		if (rc == 1 && value.len == sizeof(entry))
			memcpy(&entry, value.data, sizeof(entry));
		else
			rc = rc < 0 ? rc : 0;
		sc_kv_cursor_close(cursor);
		if (rc != 1 || entry.last >= state->floor)
			return rc < 0 ? rc : 0;
		rc = sc_kv_del(txn, SC_T_SEGMENTS, sc_u64_key(&entry.first), err);
		if (rc < 0)
			return rc;
		state->segments--;
		state->sealed_rows -= entry.rows;
		state->sealed_bytes -= entry.bytes;
		state->sealed_file_bytes -= entry.file_bytes;
	}
}

static int unlink_journals(struct sc_log *log, const struct sc_names *names, uint64_t keep,
			   struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	for (size_t i = 0; i < names->count && names->items[i] < keep; i++) {
		sc_journal_path(log, names->items[i], path);
		if (sc_sys_unlink(path) < 0 && errno != ENOENT) {
			rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
			sc_err_on(err, "journal", path);
			return rc;
		}
	}
	snprintf(path, sizeof(path), "%s/journal", log->path);
	return sc_sync_dir(path, err);
}

static int unlink_segments(struct sc_log *log, uint64_t floor, struct sc_err *err)
{
	struct sc_tier_names names = { NULL, 0, 0 };
	int rc = sc_tier_list(log, &names, err);

	for (size_t i = 0; rc == 0 && i < names.count; i++)
		if (names.items[i].last < floor)
			rc = sc_tier_remove(log, names.items[i].first, names.items[i].last, err);
	sc_tier_list_done(&names);
	return rc < 0 ? rc : sc_tier_sync(log, err);
}

static int refuse_ahead(const struct sc_log *log, uint64_t before, uint64_t next,
			struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, "cannot trim", "offset %llu is ahead of the end, %llu",
		   (unsigned long long)before, (unsigned long long)next);
	sc_log_err(log, err);
	sc_err_next(err, "give an offset up to that one");
	sc_err_field_str(err, "why", "ahead");
	sc_err_field_u64(err, "offset", before);
	sc_err_field_u64(err, "end_offset", next);
	return SC_E_REFUSED;
}

/* The new floor, in STATE and log.json. */
static int raise_floor(struct sc_log *log, struct sc_state *state, uint64_t before,
		       struct sc_err *err)
{
	struct sc_found found;
	int rc = sc_find_row(log, state, before, &found, err);

	if (rc < 0)
		return rc;
	state->floor = before;
	state->floor_rows = rc == 1 ? found.rows : state->rows;
	state->floor_bytes = rc == 1 ? found.bytes : state->bytes;
	state->first = rc == 1 ? found.offset : 0;
	state->first_us = rc == 1 ? found.block.appended_us : 0;
	log->settings.floor = (struct sc_floor){ before, state->floor_rows, state->floor_bytes };
	return sc_settings_put(log, err);
}

int sc_log_trim(struct sc_log *log, uint64_t before, struct sc_err *err)
{
	int64_t held_us;

	return sc_trim_held(log, before, &held_us, err);
}

int sc_trim_held(struct sc_log *log, uint64_t before, int64_t *ret_held_us, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	uint64_t keep = 0, count;
	int64_t begun_us;
	int rc;

	if (log->mode != SC_LOG_APPEND)
		return sc_err_set(err, SC_E_INTERNAL, "cannot trim",
				  "the handle was opened for reading");
	rc = sc_index_begin(log, &txn, &state, err);
	if (rc < 0)
		return rc;
	begun_us = sc_mono_us();
	rc = before > state.next ? refuse_ahead(log, before, state.next, err)
				 : sc_journal_list(log, &names, NULL, err);
	if (rc == 0)
		rc = sc_settings_refresh(log, err);
	if (rc == 0 && before > state.floor)
		rc = raise_floor(log, &state, before, err);
	for (size_t i = 0; i < names.count; i++)
		if (names.items[i] <= state.floor || !keep)
			keep = names.items[i];
	if (keep > state.journal)
		keep = state.journal;
	if (rc == 0)
		rc = sc_index_forget(txn, SC_T_BLOCKS, keep, &count, err);
	if (rc == 0)
		rc = sc_index_forget(txn, SC_T_JOURNALS, keep, &count, err);
	if (rc == 0)
		rc = forget_segments(txn, &state, err);
	if (rc < 0) {
		sc_index_abort(log, &txn);
		goto out;
	}
	state.journals -= count < state.journals ? count : state.journals - 1;
	rc = sc_index_end(log, &txn, &state, 0, err);
	*ret_held_us = sc_mono_us() - begun_us;
	if (rc == 0)
		rc = unlink_journals(log, &names, keep, err);
	if (rc == 0)
		rc = unlink_segments(log, state.floor, err);
out:
	sc_journal_list_done(&names);
	return rc;
}
