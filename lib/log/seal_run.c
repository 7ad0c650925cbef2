/*
 * seal_run.c: finished journals into segments, whole ones, in groups of about the target.
 *
 * What is to be sealed is read from the anchors, which are on disk before a journal is used: each
 * says what the journals before it held. A trim may take journals away meanwhile: then what was
 * made of them is thrown away, and that is all.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "log/seal_internal.h"

#define CHUNK (1u << 20)

struct journal {
	uint64_t name, end, next; /* where it ends, and the name of the one that follows */
	uint64_t rows, bytes;     /* of lines, in it */
	uint64_t rows_before, bytes_before;
	int64_t last_us; /* of the last commit at its end */
};
struct plan {
	struct journal *items;
	size_t count;
	struct journal active; /* the one in use */
	struct sc_state state;
};

static void plan_done(struct plan *p)
{
	free(p->items);
	p->items = NULL;
	p->count = 0;
}

/* One more anchor: it says what the journal before it held. */
static int plan_add(struct sc_log *log, struct plan *p, uint64_t name, struct sc_err *err)
{
	struct journal *before = &p->active;
	struct sc_anchor anchor;
	struct sc_place place;
	int rc = sc_find_anchor(log, name, &place, &anchor, err);

	if (rc < 0)
		return rc;
	if (before->name) {
		if (anchor.prev_journal != before->name)
			return sc_walk_damage(log, anchor.prev_journal, 0, before->name - 1, err);
		before->end = anchor.prev_end;
		before->next = name;
		before->rows = anchor.rows - before->rows_before;
		before->bytes = anchor.bytes - before->bytes_before;
		before->last_us = place.appended_us;
		p->items[p->count++] = *before;
	}
	*before = (struct journal){ .name = name,
				    .rows_before = anchor.rows,
				    .bytes_before = anchor.bytes };
	return 0;
}

/* All journals up to the one in use. SC_E_NOLOG: one went while we looked. */
static int plan_once(struct sc_log *log, struct plan *p, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	int rc = sc_index_now(log, &p->state, err);

	plan_done(p);
	p->active = (struct journal){ .name = 0 };
	/* after the state: a journal that it names is not newer than the schemas that we know */
	if (rc == 0)
		rc = sc_settings_check(log, err);
	if (rc == 0)
		rc = sc_journal_list(log, &names, NULL, err);
	if (rc < 0)
		return rc;
	p->items = sc_malloc((names.count + 1) * sizeof(*p->items));
	if (!p->items)
		rc = sc_err_nomem(err, "cannot seal");
	for (size_t i = 0; rc == 0 && i < names.count && names.items[i] <= p->state.journal; i++)
		if (names.items[i] >= p->state.sealed_next)
			rc = plan_add(log, p, names.items[i], err);
	sc_journal_list_done(&names);
	if (rc == 0 && p->active.name != p->state.journal)
		rc = sc_walk_damage(log, p->state.journal, 0, p->state.journal - 1, err);
	if (rc < 0)
		return rc;
	p->active.end = p->state.end;
	p->active.next = p->state.next;
	p->active.rows = p->state.rows - p->active.rows_before;
	p->active.bytes = p->state.bytes - p->active.bytes_before;
	p->active.last_us = p->state.last_us;
	return 0;
}

static int plan_make(struct sc_log *log, struct plan *p, struct sc_err *err)
{
	int rc = SC_E_NOLOG;

	for (int i = 0; i < 16 && rc == SC_E_NOLOG; i++)
		rc = plan_once(log, p, err);
	return rc;
}

/* Is the oldest row that is not sealed old enough, or is everything to be sealed anyway? 1, 0. */
static int all_is_due(struct sc_log *log, const struct plan *p, const struct sc_seal_options *o,
		      struct sc_err *err)
{
	int64_t now_us = o->now_us ? o->now_us : sc_wall_us();
	uint64_t at = p->count ? p->items[0].name : p->active.name;
	struct sc_found found;
	int rc;

	if (o->force)
		return 1;
	if (!o->age_us)
		return 0;
	rc = sc_find_row(log, &p->state, at > p->state.floor ? at : p->state.floor, &found, err);
	if (rc != 1)
		return rc;
	return found.block.appended_us <= now_us - o->age_us;
}

/* Under the lock: is ACTIVE in use still, and worth ending? */
static bool may_end(const struct sc_state *state, const struct journal *active)
{
	return state->journal == active->name && state->journal != state->next;
}

/*
 * The journal in use, if it still is, becomes a finished one. First everybody is told that the next
 * row goes to a new journal: should we die when that was made and not yet known, nobody may go on
 * in the old one.
 */
static int end_active(struct sc_seal *seal, const struct journal *active, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	int rc = 0;

	for (bool ended = false; rc == 0 && !ended;) {
		rc = sc_seal_begin(seal, &txn, &state, err);
		if (rc < 0)
			return rc;
		if (!may_end(&state, active)) {
			sc_index_abort(seal->log, &txn);
			return 0;
		}
		ended = state.suspect; /* a rebuild in between forgets what was told */
		if (!ended)
			state.suspect = 1;
		else
			rc = sc_journal_rotate(seal->log, txn, &state, err);
		if (rc == 0)
			rc = sc_index_end(seal->log, &txn, &state, 0, err);
		else
			sc_index_abort(seal->log, &txn);
		sc_seal_ended(seal);
	}
	seal->report.rotated = seal->report.rotated || rc == 0;
	return rc;
}

/* One journal's lines into FILE; *HASH is its last block's. */
static int add_journal(struct sc_seal_file *file, const struct journal *j,
		       struct sc_segment_tie *tie, bool first, struct sc_err *err)
{
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	uint64_t last_good = j->name - 1;
	int fd = -1, rc = sc_journal_open(file->seal->log, j->name, false, &fd, err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, file->seal->log, j->name, fd, 0, j->end, CHUNK);
	while (!file->stopped &&
	       (rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err)) == 1) {
		struct sc_run run = {
			.lines = sc_span(data + SC_BLOCK_HEAD + block.ext_len, block.body_len),
			.first = block.first,
			.last = block.last,
			.rows = block.rows,
			.appended_us = block.appended_us,
		};

		if (first)
			tie->before = block.prev;
		else if (!sc_hash_same(&block.prev, &tie->after))
			rc = SC_E_DATA;
		first = false;
		if (rc == 1)
			rc = sc_seal_file_add(file, &run, err);
		if (rc < 0)
			break;
		last_good = block.last;
		tie->after = block.hash;
		tie->commit = block.commit;
	}
	if (rc == SC_E_DATA)
		rc = sc_walk_damage(file->seal->log, j->name, walk.pos, last_good, err);
	sc_walk_done(&walk);
	close(fd);
	return rc < 0 ? rc : 0;
}

/* Sources and producers as they stood: what stands behind the next journal's anchor. */
static int take_checkpoint(struct sc_log *log, uint64_t next, struct sc_bytes *out,
			   struct sc_err *err)
{
	struct sc_walk walk;
	struct sc_block block;
	struct sc_ext ext;
	const char *data;
	int fd = -1, rc = sc_journal_open(log, next, false, &fd, err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, log, next, fd, 0, SC_BLOCK_HEAD + SC_BLOCK_EXT_MAX, 4096);
	rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, err);
	if (rc == 1) {
		struct sc_span rest = sc_span(data + SC_BLOCK_HEAD, block.ext_len);

		sc_ext_next(&rest, &ext);
		rc = sc_bytes_put(out, rest.data, rest.len) < 0 ? sc_err_nomem(err, "cannot seal")
								: 0;
	} else if (rc == 0 || rc == SC_E_DATA) {
		rc = sc_walk_damage(log, next, 0, next - 1, err);
	}
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

/* The journals are still there as they were? 1, 0. */
static int still_there(struct sc_kv_txn *txn, const struct journal *items, size_t count,
		       struct sc_err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct sc_span value;
		int rc = sc_kv_get(txn, SC_T_JOURNALS, sc_u64_key(&items[i].name), &value, err);

		if (rc != 1)
			return rc;
	}
	return 1;
}

/* The transaction: the segment instead of its journals. 1; 0: they went, or a rebuild was
 * faster. */
static int record(struct sc_seal *seal, const struct journal *items, size_t count,
		  const struct sc_sealed *sealed, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	uint64_t dropped = 0, blocks;
	int rc = sc_seal_begin(seal, &txn, &state, err), there;

	if (rc < 0)
		return rc;
	there = still_there(txn, items, count, err);
	if (there != 1) {
		rc = there < 0 ? there : sc_seal_file_known(txn, sealed, err);
		if (rc == 0)
			rc = sc_tier_remove(seal->log, sealed->first, sealed->last, err);
		sc_index_abort(seal->log, &txn);
		return rc;
	}
	rc = sc_kv_put(txn, SC_T_SEGMENTS, sc_u64_key(&sealed->first),
		       sc_span((const char *)sealed, sizeof(*sealed)), err);
	if (rc == 0)
		rc = sc_index_forget(txn, SC_T_BLOCKS, sealed->next, &blocks, err);
	if (rc == 0)
		rc = sc_index_forget(txn, SC_T_JOURNALS, sealed->next, &dropped, err);
	state.journals -= dropped;
	state.segments++;
	state.sealed_next = sealed->next;
	state.sealed_rows += sealed->rows;
	state.sealed_bytes += sealed->bytes;
	state.sealed_file_bytes += sealed->file_bytes;
	if (rc == 0)
		rc = sc_index_end(seal->log, &txn, &state, 0, err);
	else
		sc_index_abort(seal->log, &txn);
	sc_seal_ended(seal);
	return rc < 0 ? rc : 1;
}

static int unlink_journals(struct sc_log *log, const struct journal *items, size_t count,
			   struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	for (size_t i = 0; i < count; i++) {
		sc_journal_path(log, items[i].name, path);
		if (sc_sys_unlink(path) == 0 || errno == ENOENT)
			continue;
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
		sc_err_on(err, "journal", path);
		return rc;
	}
	sc_log_file(log, path, "journal");
	return sc_sync_dir(path, err);
}

/* The schema of the first journal that has rows: no journal has rows of two. */
static struct sc_schema_mark schema_of(const struct sc_log *log, const struct journal *items,
				       size_t count)
{
	size_t i = 0;

	while (i + 1 < count && !items[i].rows)
		i++;
	return sc_settings_schema_at(&log->settings, items[i].name);
}

/* 1 and the segment, under its name; 0: stopped. SC_E_NOLOG: a journal went. */
static int write_segment(struct sc_seal *seal, const struct sc_seal_options *o,
			 const struct journal *items, size_t count, uint64_t done, uint64_t total,
			 struct sc_sealed *sealed, struct sc_err *err)
{
	const struct journal *last = &items[count - 1];
	struct sc_segment_tie tie = {
		.rows_before = items[0].rows_before,
		.bytes_before = items[0].bytes_before,
		.next = last->next,
		.journal = last->name,
		.journal_end = last->end,
	};
	struct sc_seal_file file;
	struct sc_bytes checkpoint;
	int rc = sc_seal_file_begin(&file, seal, o, schema_of(seal->log, items, count).text, err);

	sc_bytes_init(&checkpoint, SC_BLOCK_EXT_MAX);
	file.done = done;
	file.total = total;
	for (size_t i = 0; rc == 0 && i < count && !file.stopped; i++)
		rc = add_journal(&file, &items[i], &tie, i == 0, err);
	if (rc == 0 && !file.stopped)
		rc = take_checkpoint(seal->log, last->next, &checkpoint, err);
	tie.checkpoint = sc_span(checkpoint.data, checkpoint.len);
	if (rc == 0 && !file.stopped)
		rc = sc_seal_file_finish(&file, &tie, sealed, err);
	if (rc == 0)
		rc = !file.stopped;
	sc_seal_file_free(&file);
	sc_bytes_done(&checkpoint);
	return rc;
}

/* What would be sealed. */
static int foresee(struct sc_seal *seal, const struct plan *p, const struct journal *items,
		   size_t count, struct sc_sealed *sealed, struct sc_err *err)
{
	const struct journal *last = &items[count - 1];
	struct sc_found found;
	int rc = sc_find_row(seal->log, &p->state, items[0].name, &found, err);

	if (rc < 0)
		return rc;
	*sealed = (struct sc_sealed){
		.first = rc == 1 ? found.offset : items[0].name, /* a log may have gaps */
		.last = last->next - 1,
		.next = last->next,
		.rows = last->rows_before + last->rows - items[0].rows_before,
		.bytes = last->bytes_before + last->bytes - items[0].bytes_before,
		.rows_before = items[0].rows_before,
		.bytes_before = items[0].bytes_before,
		.first_us = rc == 1 ? found.block.appended_us : 0,
		.last_us = last->last_us,
	};
	return 0;
}

/* 1; 0: stop here. */
static int seal_group(struct sc_seal *seal, const struct sc_seal_options *o, const struct plan *p,
		      size_t at, size_t count, uint64_t done, uint64_t total, struct sc_err *err)
{
	const struct journal *items = p->items + at;
	struct sc_sealed sealed;
	int rc;

	if (seal->dry) {
		rc = foresee(seal, p, items, count, &sealed, err);
		if (rc == 0)
			sc_seal_step_done(seal, o, SC_SEAL_SEALED, &sealed, count);
		return rc < 0 ? rc : 1;
	}
	rc = write_segment(seal, o, items, count, done, total, &sealed, err);
	if (rc == SC_E_NOLOG)
		return sc_log_gone(seal->log, err); /* or trimmed: the next run sees what is left */
	if (rc == 1)
		rc = record(seal, items, count, &sealed, err);
	if (rc != 1)
		return rc;
	rc = unlink_journals(seal->log, items, count, err);
	sc_seal_step_done(seal, o, SC_SEAL_SEALED, &sealed, count);
	return rc < 0 ? rc : 1;
}

/* How many journals from AT on make a segment; 0: they wait. Nothing will ever join what stands
 * before a change of the schema. */
static size_t group_size(const struct sc_log *log, const struct plan *p, size_t at, uint64_t target,
			 bool all)
{
	uint64_t bytes = 0, version = 0, next;
	size_t rows_end = at, i;

	for (i = at; i < p->count && bytes < target; i++) {
		const struct journal *j = &p->items[i];

		if (bytes >= target / 2 && bytes + j->bytes > target)
			break;
		if (!j->rows)
			continue; /* at the end it would not be covered by the name */
		next = sc_settings_schema_at(&log->settings, j->name).version;
		if (version && version != next) {
			all = true;
			break;
		}
		version = next;
		bytes += j->bytes;
		rows_end = i + 1;
	}
	return all || bytes >= target / 2 ? rows_end - at : 0;
}

int sc_seal_run(struct sc_seal *seal, const struct sc_seal_options *o, struct sc_err *err)
{
	uint64_t target = o->target ? o->target : SC_SEAL_TARGET, done = 0, total = 0;
	struct plan p = { NULL, 0, { 0 }, { 0 } };
	int rc = plan_make(seal->log, &p, err), all = 0;

	if (rc == 0)
		all = rc = all_is_due(seal->log, &p, o, err);
	if (rc >= 0 && p.active.rows && (all == 1 || p.active.bytes >= target)) {
		rc = 0;
		if (seal->dry) {
			p.items[p.count++] = p.active;
			seal->report.rotated = true;
		} else {
			rc = end_active(seal, &p.active, err);
			if (rc == 0)
				rc = plan_make(seal->log, &p, err);
		}
	}
	for (size_t at = 0; rc >= 0 && at < p.count; at++)
		total += p.items[at].bytes;
	for (size_t at = 0, count;
	     rc >= 0 && (count = group_size(seal->log, &p, at, target, all == 1)) > 0;
	     at += count) {
		rc = seal_group(seal, o, &p, at, count, done, total, err);
		if (rc != 1)
			break;
		for (size_t i = 0; i < count; i++)
			done += p.items[at + i].bytes;
	}
	plan_done(&p);
	return rc < 0 ? sc_log_or_gone(seal->log, rc, err) : 0;
}
