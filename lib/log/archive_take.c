/*
 * archive_take.c: the archive of another copy of the log becomes this one's.
 *
 * The order of steps is what makes it safe:
 *   1. the archive is proved to be a part of the log; else nothing is changed
 *   2. the epoch rises, for an owner that nobody is: whoever had the archive is refused from then
 *   on,
 *      and what it told to be there is there
 *   3. it is proved again, with what came meanwhile; if it fails, or anything behind it, the one
 *   who
 *      had it gets it back
 *   4. the log leaves offsets out: the other copy may have given them, or be giving them yet
 *   5. the epoch rises again, for this log, and says at once from which offset on nothing counts
 *      that comes of an earlier epoch
 * Killed in between, the archive is nobody's until this is done again, or a restore takes it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"
#include "log/restore.h"

#define TRIED "cannot take over"
#define TRIES 8

uint64_t sc_archive_jump(int64_t now_us, int64_t last_us, int64_t pace_us, uint64_t pace_rows,
			 uint64_t least)
{
	/* the times are those of files: any number */
	double last = (double)last_us, span = last - (double)pace_us, since = (double)now_us - last,
	       rows;
	uint64_t jump = least > SC_RESTORE_JUMP ? least : SC_RESTORE_JUMP;

	if (span < 1e6)
		span = 1e6; /* a burst is no pace */
	rows = since > 0 ? 2 * since / span * (double)pace_rows : 0;
	if (rows > (double)SC_ARCHIVE_JUMP_MAX)
		rows = (double)SC_ARCHIVE_JUMP_MAX;
	if (rows > (double)jump)
		jump = ((uint64_t)rows / SC_RESTORE_JUMP + 1) * SC_RESTORE_JUMP;
	return jump;
}

bool sc_archive_burn_add(struct sc_archive_epoch *now, const struct sc_archive_burn *burn)
{
	size_t kept = 0;

	for (size_t i = 0; i < now->burn_count; i++) {
		struct sc_archive_burn b = now->burns[i];

		if (b.from >= burn->from)
			continue; /* the new one says it of more */
		if (b.next <= now->floor) {
			/* what it says is said of all that is held: nothing of before is */
			if (b.epoch > now->lowest)
				now->lowest = b.epoch;
			continue;
		}
		if (b.first > burn->first)
			b.first = burn->first;
		if (b.next > burn->first)
			b.next = burn->first;
		now->burns[kept++] = b;
	}
	now->burn_count = kept;
	if (kept == SC_ARCHIVE_BURNS_MAX)
		return false;
	now->burns[now->burn_count++] = *burn;
	return true;
}

/* No row of the log is where offsets were left out when another copy went on: then this one is not
 * what the archive's rows were appended to. */
static int check_gaps(struct sc_archive *archive, struct sc_err *err)
{
	const struct sc_archive_epoch *now = &archive->epoch;
	struct sc_state state;
	int rc = sc_index_now(archive->log, &state, err);

	for (size_t i = 0; rc >= 0 && i < now->burn_count; i++) {
		const struct sc_archive_burn *b = &now->burns[i];
		struct sc_found found;

		rc = sc_find_row(archive->log, &state, b->first, &found, err);
		if (rc <= 0 || found.offset >= b->next)
			continue;
		sc_err_set(err, SC_E_DATA, TRIED,
			   "this log has a row at offset %llu; another copy, whose '%s' is, left "
			   "those from %llu to %llu out and went on behind them",
			   (unsigned long long)found.offset, archive->url,
			   (unsigned long long)b->first, (unsigned long long)b->next - 1);
		sc_log_err(archive->log, err);
		sc_err_next(err, "go on with that copy, or give another URL");
		return SC_E_DATA;
	}
	return rc < 0 ? rc : 0;
}

static int ahead(const struct sc_archive *archive, uint64_t last, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "'%s' has rows up to offset %llu, which this log does not have", archive->url,
		   (unsigned long long)last);
	sc_log_err(archive->log, err);
	sc_err_next(err, "make a log of the archive: sc-log restore");
	sc_err_field_str(err, "why", "ahead");
	return SC_E_REFUSED;
}

/*
 * The log has all rows of the archive, and the newest of them are the same ones. 1: what we looked
 * at went.
 */
static int check_part_once(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_log_proof ours, theirs;
	struct sc_archive_state kept;
	struct sc_log_state state;
	uint64_t from;
	int rc = sc_log_state(archive->log, &state, err);

	if (rc < 0)
		return rc;
	sc_archive_state(archive, &kept);
	if (kept.next_offset > state.next_offset)
		return ahead(archive, kept.next_offset - 1, err);
	rc = check_gaps(archive, err);
	if (rc < 0)
		return rc;
	from = archive->count ? archive->items[archive->count - 1].first : kept.first_offset;
	if (from < state.first_offset)
		from = state.first_offset;
	if (from >= kept.next_offset)
		return 0; /* it holds none of them any more */
	rc = sc_archive_verify(archive, from, kept.next_offset, &theirs, err);
	if (rc == SC_E_REFUSED)
		return 1;
	if (rc == 0 && theirs.last > state.last_offset)
		return ahead(archive, theirs.last, err);
	if (rc == 0 && theirs.rows)
		rc = sc_log_verify(archive->log->path, theirs.first, theirs.last, &ours, err);
	if (rc < 0 || theirs.rows == 0 || strcmp(ours.hash, theirs.hash) == 0)
		return rc;
	sc_err_set(err, SC_E_DATA, TRIED,
		   "'%s' has other rows than this log, from offset %llu to %llu", archive->url,
		   (unsigned long long)theirs.first, (unsigned long long)theirs.last);
	sc_log_err(archive->log, err);
	sc_err_next(err, "give another URL");
	return SC_E_DATA;
}

/* Again, when rows went: whoever has it may give some up meanwhile. */
static int check_part(struct sc_archive *archive, struct sc_err *err)
{
	int rc = check_part_once(archive, err);

	for (int i = 0; i < 8 && rc == 1; i++) {
		sc_err_clear(err);
		rc = sc_archive_refresh(archive, err);
		if (rc == 0)
			rc = check_part_once(archive, err);
	}
	return rc == 1 ? SC_E_REFUSED : rc;
}

/* The hash of the block of the log that ends with row LAST, in a journal or as a segment says it.
 * 1; 0: none does; 2: it holds no such row. */
static int chain_at(struct sc_log *log, uint64_t last, struct sc_hash *ret_hash, struct sc_err *err)
{
	struct sc_tier *tier = NULL;
	struct sc_sealed *items = NULL;
	char head[SC_BLOCK_HEAD];
	struct sc_block block;
	struct sc_state state;
	struct sc_found found;
	size_t count = 0, got = 0;
	int fd = -1, rc = sc_index_now(log, &state, err);

	if (rc == 0)
		rc = sc_find_row(log, &state, last, &found, err);
	if (rc != 1 || found.offset != last)
		return rc < 0 ? rc : 2;
	if (!found.sealed) {
		rc = sc_journal_open(log, found.block.journal, false, &fd, err);
		if (rc == 0)
			rc = sc_pread_all(fd, head, sizeof(head), (off_t)found.block.at, &got,
					  "a journal", err);
		sc_close(&fd);
		if (rc < 0)
			return rc;
		if (got != sizeof(head) || !sc_block_parse(head, &block) || block.last != last)
			return 0;
		*ret_hash = block.hash;
		return 1;
	}
	rc = sc_tier_all(log, &items, &count, err);
	for (size_t i = 0; rc == 0 && i < count; i++)
		if (items[i].last == last)
			rc = sc_tier_open(log, items[i].first, last, &tier, err) < 0
				     ? (err ? err->code : SC_E_IO)
				     : 1;
	if (rc == 1)
		*ret_hash = sc_segment_info(tier->segment)->tie.after;
	sc_tier_close(tier);
	free(items);
	return rc;
}

int sc_archive_chains(struct sc_archive *archive, uint64_t last, const struct sc_hash *hash,
		      struct sc_err *err)
{
	struct sc_hash ours;
	int rc = SC_E_NOLOG;

	for (int i = 0; i < TRIES && rc == SC_E_NOLOG; i++) /* it is being sealed */
		rc = chain_at(archive->log, last, &ours, err);
	return rc == 1 ? sc_hash_same(&ours, hash) : rc == 2 ? 1 : rc;
}

/* Is the end of what was shipped appended to this log as it is? Another copy may have got the same
 * rows in other commits; then what this one ships does not follow. 1, 0. */
static int has_block(struct sc_archive *archive, const struct sc_archive_item *ship,
		     struct sc_err *err)
{
	struct sc_archive_blocks *blocks = NULL;
	struct sc_block block = { .rows = 0 };
	const char *data;
	int rc = sc_archive_blocks_open(archive, ship, &blocks, err);

	while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, err)) == 1)
		;
	sc_archive_blocks_close(blocks);
	return rc < 0 ? rc : sc_archive_chains(archive, ship->last, &block.hash, err);
}

/* From where on nothing counts of what the other one put there, or will have: behind what was
 * proved to be in the log, too. */
static int find_fork(struct sc_archive *archive, uint64_t *ret_from, struct sc_err *err)
{
	const struct sc_archive_items *ships = &archive->ships;
	uint64_t sealed = archive->epoch.floor ? archive->epoch.floor : 1;
	struct sc_archive_state kept;
	int rc = 1;

	sc_archive_state(archive, &kept);
	*ret_from = kept.next_offset;
	if (archive->count && archive->items[archive->count - 1].last >= sealed)
		sealed = archive->items[archive->count - 1].last + 1;
	if (ships->count && ships->items[ships->count - 1].last >= sealed)
		rc = has_block(archive, &ships->items[ships->count - 1], err);
	if (rc == 0)
		*ret_from = sealed; /* these rows this log ships anew */
	return rc < 0 ? rc : 0;
}

/* How many offsets are to be left out, and above which others they have to be. */
static int find_jump(struct sc_archive *archive, const struct sc_archive_seizure *s,
		     uint64_t *ret_jump, uint64_t *ret_least, struct sc_err *err)
{
	int64_t now_us = s->now_us ? s->now_us : sc_wall_us();
	struct sc_archive_state kept;
	struct sc_found first, last;
	struct sc_state state;
	uint64_t pace;
	int rc;

	sc_archive_state(archive, &kept);
	*ret_jump = *ret_least = 0;
	if (s->no_jump || !archive->epoch.epoch)
		return 0; /* nobody had it, or it is known what that one gave */
	*ret_jump = s->jump > SC_RESTORE_JUMP ? s->jump : SC_RESTORE_JUMP;
	rc = sc_index_now(archive->log, &state, err);
	if (rc == 0)
		rc = sc_find_row(archive->log, &state,
				 archive->count ? archive->items[archive->count - 1].first
						: kept.first_offset,
				 &first, err);
	if (rc == 1)
		rc = sc_find_row(archive->log, &state,
				 kept.next_offset > first.offset ? kept.next_offset - 1
								 : first.offset,
				 &last, err);
	if (rc != 1)
		return rc;
	pace = sc_archive_jump(now_us, last.block.appended_us, first.block.appended_us,
			       last.rows - first.rows, *ret_jump);
	*ret_least = pace < SC_NEXT_MAX - kept.next_offset ? kept.next_offset + pace : SC_NEXT_MAX;
	return 0;
}

static int no_offsets(const struct sc_archive *archive, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "so few offsets are left that none would be behind those that the other copy "
		   "may have given");
	sc_log_err(archive->log, err);
	sc_err_next(err, "give a smaller --jump, or append the rows to a new log: sc-catchup "
			 "--payload prints them");
	sc_err_field_str(err, "why", "no_offsets");
	return SC_E_REFUSED;
}

static int too_often(const struct sc_archive *archive, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "'%s' was taken over %u times, and rows from between are still in it",
		   archive->url, SC_ARCHIVE_BURNS_MAX);
	sc_log_err(archive->log, err);
	sc_err_next(err, "give another URL, or remove older rows there: --keep-archive");
	sc_err_field_str(err, "why", "too_often");
	return SC_E_REFUSED;
}

/* Would it do? What is left out, as of now; nothing is changed. */
static int foresee(struct sc_archive *archive, struct sc_archive_seizure *s, struct sc_err *err)
{
	struct sc_archive_epoch now = archive->epoch;
	struct sc_archive_burn burn;
	uint64_t jump, least, next;
	struct sc_log_state state;
	int rc = check_part(archive, err);

	if (rc == 0)
		rc = find_jump(archive, s, &jump, &least, err);
	if (rc == 0)
		rc = sc_log_state(archive->log, &state, err);
	if (rc < 0)
		return rc;
	next = state.next_offset;
	if (jump > SC_NEXT_MAX || next > SC_NEXT_MAX - jump || least >= SC_NEXT_MAX)
		return no_offsets(archive, err);
	next = next + jump > least ? next + jump : least;
	burn = (struct sc_archive_burn){ now.epoch, state.next_offset, next, state.next_offset };
	if (!sc_archive_burn_add(&now, &burn))
		return too_often(archive, err);
	snprintf(s->host, sizeof(s->host), "%s", now.epoch ? now.host : "");
	s->since_us = now.epoch ? now.since_us : 0;
	s->epoch = now.epoch ? now.epoch + 2 : 1;
	s->first = state.next_offset;
	s->next = next;
	return 0;
}

/* It was not to be: who had it has it again, if it is still as we left it. */
static void give_back(struct sc_archive *archive, const struct sc_archive_epoch *was)
{
	for (int i = 0; i < TRIES; i++)
		if (sc_archive_write_epoch(archive, was, NULL) != SC_E_NOLOG)
			return;
}

/* NOW was written, or not: it is not known. It shall not be. */
static void undo(struct sc_archive *archive, const struct sc_archive_epoch *was,
		 const struct sc_archive_epoch *now)
{
	struct sc_archive_epoch latest;

	if (sc_archive_read_epoch(archive, &latest, NULL) < 0 ||
	    strcmp(latest.owner, now->owner) != 0)
		return;
	archive->epoch = latest;
	give_back(archive, was);
}

/* Who has it is refused from now on. *RET_WAS: that one's epoch. */
static int hold(struct sc_archive *archive, struct sc_archive_epoch *ret_was, struct sc_err *err)
{
	int rc = SC_E_BUSY;

	/* busy: who has it had something to say. Not there: it began a run, and swept away what we
	 * were writing */
	for (int i = 0; i < TRIES && (rc == SC_E_BUSY || rc == SC_E_NOLOG); i++) {
		struct sc_archive_epoch was = archive->epoch, now = was, latest;

		sc_archive_next_epoch(archive, &now);
		rc = sc_archive_write_epoch(archive, &now, err);
		if (rc == 0) {
			*ret_was = was;
			break;
		}
		if (rc != SC_E_BUSY && rc != SC_E_NOLOG) {
			undo(archive, &was, &now);
			break;
		}
		if (sc_archive_read_epoch(archive, &latest, err) < 0)
			return err ? err->code : SC_E_IO;
		if (latest.epoch != was.epoch)
			return sc_archive_taken_over(archive, &latest, err);
		archive->epoch = latest;
	}
	return rc;
}

/* The archive is this log's, and says what counts for nothing. */
static int take(struct sc_archive *archive, const struct sc_archive_burn *burn, struct sc_err *err)
{
	struct sc_archive_epoch held = archive->epoch, latest;
	struct sc_archive_burn marked = *burn;
	int rc = SC_E_NOLOG;

	marked.epoch = held.epoch + 1;
	if (!sc_archive_burn_add(&archive->epoch, &marked))
		return too_often(archive, err);
	for (int i = 0; i < TRIES && rc == SC_E_NOLOG; i++)
		rc = sc_archive_take_over(archive, err);
	if (rc == SC_E_BUSY) {
		rc = sc_archive_read_epoch(archive, &latest, err);
		if (rc == 0)
			rc = sc_archive_taken_over(archive, &latest, err);
	}
	if (rc < 0)
		archive->epoch = held;
	return rc;
}

/* While it is nobody's: what came until then, and what is to come. */
static int settle(struct sc_archive *archive, struct sc_archive_seizure *s, struct sc_err *err)
{
	struct sc_archive_burn burn = { .epoch = 0 };
	uint64_t jump, least;
	int rc = sc_archive_refresh(archive, err);

	if (rc == 0)
		rc = check_part(archive, err);
	if (rc == 0)
		rc = find_fork(archive, &burn.from, err);
	if (rc == 0)
		rc = find_jump(archive, s, &jump, &least, err);
	if (rc == 0)
		rc = sc_log_skip(archive->log, jump, least, &burn.first, &burn.next, err);
	if (rc == 0)
		rc = take(archive, &burn, err);
	if (rc < 0)
		return rc;
	s->epoch = archive->epoch.epoch;
	s->first = burn.first;
	s->next = burn.next;
	/* what counts for nothing from now on */
	return sc_archive_refresh(archive, err);
}

/* Nobody ever wrote there. */
static int be_first(struct sc_archive *archive, struct sc_archive_seizure *s, struct sc_err *err)
{
	int rc = sc_archive_wrest(archive, err);

	s->epoch = archive->epoch.epoch;
	return rc;
}

int sc_archive_seize(struct sc_log *log, const char *url, const struct sc_store_settings *settings,
		     struct sc_archive_seizure *s, struct sc_archive **ret_archive,
		     struct sc_err *err)
{
	struct sc_archive *archive = NULL;
	struct sc_archive_epoch was;
	int rc = sc_archive_open_only(log, url, settings, s->dry, &archive, err);

	if (rc == 0 && archive->epoch.epoch && strcmp(archive->epoch.stream_id, archive->stream_id))
		rc = sc_archive_fence(archive, err); /* says so */
	if (rc == 0)
		rc = foresee(archive, s, err);
	if (rc == 0 && !s->dry)
		rc = sc_store_check_conditions(archive->store, err);
	if (rc == 0 && !s->dry && !archive->epoch.epoch) {
		rc = be_first(archive, s, err);
	} else if (rc == 0 && !s->dry) {
		rc = hold(archive, &was, err);
		if (rc == 0) {
			rc = settle(archive, s, err);
			if (rc < 0)
				give_back(archive, &was);
		}
	}
	if (rc < 0) {
		sc_archive_close(archive);
		return rc;
	}
	if (!s->dry)
		sc_archive_sweep(archive);
	*ret_archive = archive;
	return 0;
}
