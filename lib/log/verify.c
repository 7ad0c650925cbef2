/*
 * verify.c: a log proved: every block's and frame's hash, the chain, the offsets in the lines, the
 * counters, the files that are there.
 *
 * The proof's hash is XXH3-128 over the lines of the range in order, so it is the same wherever
 * the rows lie by now. Rows may be sealed while they are read: each file is looked up by the
 * offset that comes next, and what was read of it before is not counted twice.
 */
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"

#define CHUNK (1u << 20)

struct verify {
	struct sc_log *log;
	struct sc_state state;
	uint64_t first, from, to; /* the first one stays */
	uint64_t journal, at;     /* the block in hand */
	struct sc_proof_state {
		bool begun;
		struct sc_hash hash;
		uint64_t next, rows, bytes, commit;
		int64_t last_us;
	} chain;
	XXH3_state_t *hash;
	struct sc_log_proof proof;
	struct sc_err *err;
};

static int damaged(struct verify *v, const char *what)
{
	char path[PATH_MAX];
	uint64_t last_good = v->chain.next ? v->chain.next - 1 : 0;

	sc_journal_path(v->log, v->journal, path);
	sc_err_set(v->err, SC_E_DATA, "cannot verify",
		   "in the block at byte %llu %s; the last good offset is %llu",
		   (unsigned long long)v->at, what, (unsigned long long)last_good);
	sc_err_on(v->err, "journal", path);
	sc_err_next(v->err,
		    "put a good copy of the file back, or give up its rows with sc-log trim");
	sc_err_field_str(v->err, "file", path);
	sc_err_field_u64(v->err, "position", v->at);
	sc_err_field_u64(v->err, "last_good", last_good);
	return SC_E_DATA;
}

/* "[DIGITS,": the offset, or 0. */
static uint64_t head_offset(const char *at, const char *end)
{
	uint64_t offset = 0;

	if (at == end || *at++ != '[')
		return 0;
	for (; at < end && *at >= '0' && *at <= '9'; at++)
		offset = offset * 10 + (uint64_t)(*at - '0');
	return at < end && *at == ',' ? offset : 0;
}

/* The lines are what the header says; those in the range go into the hash. */
static int check_lines(struct verify *v, const struct sc_block *block, const char *body)
{
	const char *at = body, *end = body + block->body_len, *from = NULL, *to = NULL;
	uint64_t rows = 0, last = block->first - 1;

	while (at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		uint64_t offset = lf ? head_offset(at, lf) : 0;

		if (!lf || offset <= last || lf[-1] != ']' || (rows == 0 && offset != block->first))
			return damaged(v, "a line is not what the header says");
		last = offset;
		rows++;
		if (offset >= v->from && offset <= v->to) {
			if (!from)
				from = at;
			to = lf + 1;
			if (!v->proof.rows++)
				v->proof.first = offset;
			v->proof.last = offset;
		}
		at = lf + 1;
	}
	if (rows != block->rows || last != block->last)
		return damaged(v, "the lines are not those that the header counts");
	if (from) {
		XXH3_128bits_update(v->hash, from, (size_t)(to - from));
		v->proof.bytes += (uint64_t)(to - from);
	}
	return 0;
}

static int check_anchor(struct verify *v, const struct sc_block *block, const char *data)
{
	struct sc_span exts = sc_span(data + SC_BLOCK_HEAD, block->ext_len);
	struct sc_ext ext;

	if (block->rows || block->first != v->journal || !sc_ext_next(&exts, &ext) ||
	    ext.kind != SC_EXT_ANCHOR)
		return damaged(v, "there is no anchor");
	if (!sc_span_is(ext.anchor.stream_id, v->log->settings.stream_id))
		return damaged(v, "another stream is named");
	if (!v->chain.begun) {
		v->chain = (struct sc_proof_state){
			.begun = true,
			.hash = block->hash,
			.next = block->first,
			.rows = ext.anchor.rows,
			.bytes = ext.anchor.bytes,
			.commit = block->commit,
			.last_us = block->appended_us,
		};
		return 0;
	}
	if (ext.anchor.rows != v->chain.rows || ext.anchor.bytes != v->chain.bytes)
		return damaged(v, "the counters are not those of the journal before");
	if (!sc_hash_same(&block->prev, &v->chain.hash) || block->first < v->chain.next)
		return damaged(v, "the chain is broken");
	v->chain.hash = block->hash;
	v->chain.commit = block->commit;
	return 0;
}

static int check_block(struct verify *v, const struct sc_block *block, const char *data)
{
	if (v->at == 0)
		return check_anchor(v, block, data);
	if (!sc_hash_same(&block->prev, &v->chain.hash))
		return damaged(v, "the chain is broken");
	if (block->first < v->chain.next || block->rows == 0)
		return damaged(v, "the offsets do not rise");
	if (block->commit < v->chain.commit || block->commit > v->chain.commit + 1 ||
	    block->appended_us < v->chain.last_us)
		return damaged(v, "the commit's number or time is out of order");
	v->chain.hash = block->hash;
	v->chain.rows += block->rows;
	v->chain.bytes += block->body_len;
	v->chain.commit = block->commit;
	v->chain.last_us = block->appended_us;
	v->proof.blocks++;
	if (check_lines(v, block, data + SC_BLOCK_HEAD + block->ext_len) < 0)
		return SC_E_DATA;
	v->chain.next = block->last + 1;
	return 0;
}

/* The journal in hand up to END. SC_E_NOLOG: it is not there. */
static int check_journal(struct verify *v, uint64_t end)
{
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	int fd = -1, rc = sc_journal_open(v->log, v->journal, false, &fd, v->err);

	v->at = 0;
	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, v->log, v->journal, fd, 0, end, CHUNK);
	while ((rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, v->err)) == 1) {
		rc = check_block(v, &block, data);
		if (rc < 0)
			break;
		v->at = walk.pos;
		if (block.rows && block.last >= v->to)
			break;
	}
	if (rc == SC_E_DATA && walk.pos == v->at)
		rc = damaged(v, "the checksum does not match, or it is cut short");
	sc_walk_done(&walk);
	close(fd);
	v->proof.journals++;
	return rc < 0 ? rc : 0;
}

static int segment_damaged(struct verify *v, const struct sc_tier *tier, const char *what)
{
	uint64_t last_good = v->chain.next ? v->chain.next - 1 : 0;

	sc_err_set(v->err, SC_E_DATA, "cannot verify", "%s; the last good offset is %llu", what,
		   (unsigned long long)last_good);
	sc_err_on(v->err, "segment", tier->path);
	sc_err_next(v->err,
		    "put a good copy of the file back, or give up its rows with sc-log trim");
	sc_err_field_str(v->err, "file", tier->path);
	sc_err_field_int(v->err, "position", 0);
	sc_err_field_u64(v->err, "last_good", last_good);
	return SC_E_DATA;
}

/* What the segment says of its place in the log fits what was read before it. */
static int check_tie(struct verify *v, const struct sc_tier *tier)
{
	const struct sc_segment_info *info = sc_segment_info(tier->segment);
	const struct sc_segment_tie *tie = &info->tie;

	if (!v->chain.begun)
		return 0;
	if (tie->rows_before > v->chain.rows ||
	    (tie->rows_before == v->chain.rows && tie->bytes_before != v->chain.bytes))
		return segment_damaged(v, tier, "its counters are not those of what is before it");
	/* or it was made of files that were read before it was, and of more */
	if (tie->rows_before == v->chain.rows && !sc_hash_same(&tie->before, &v->chain.hash))
		return segment_damaged(v, tier, "the chain is broken before it");
	return 0;
}

/* The run's lines that are in the range go into the proof. */
static void prove_run(struct verify *v, const struct sc_run *run)
{
	const char *at = run->lines.data, *end = at + run->lines.len, *from = NULL, *to = NULL;

	if (run->last < v->from || run->first > v->to)
		return;
	while (at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));
		uint64_t offset = head_offset(at, end);

		if (offset >= v->from && offset <= v->to) {
			from = from ? from : at;
			to = lf + 1;
			if (!v->proof.rows++)
				v->proof.first = offset;
			v->proof.last = offset;
		}
		at = lf + 1;
	}
	if (from) {
		XXH3_128bits_update(v->hash, from, (size_t)(to - from));
		v->proof.bytes += (uint64_t)(to - from);
	}
}

/* All of a segment's lines, also those out of the range: its own checksum is over all. */
static int check_lines_of(struct verify *v, struct sc_tier *tier)
{
	const struct sc_segment_info *info = sc_segment_info(tier->segment);
	XXH3_state_t *hash = XXH3_createState();
	XXH128_canonical_t canonical;
	struct sc_run run;
	int rc;

	if (!hash)
		return sc_err_nomem(v->err, "cannot verify");
	XXH3_128bits_reset(hash);
	while ((rc = sc_segment_next(tier->segment, 0, &run, v->err)) == 1) {
		XXH3_128bits_update(hash, run.lines.data, run.lines.len);
		prove_run(v, &run);
		if (run.first > v->to)
			break; /* the range ends before it */
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash));
	XXH3_freeState(hash);
	if (rc == 0 && memcmp(canonical.digest, info->hash.bytes, SC_HASH_LEN) != 0)
		rc = segment_damaged(v, tier, "the lines do not match their checksum");
	return rc < 0 ? rc : 0;
}

static int check_segment(struct verify *v, const struct sc_sealed *entry)
{
	const struct sc_segment_info *info;
	struct sc_tier *tier = NULL;
	int rc = sc_tier_open(v->log, entry->first, entry->last, &tier, v->err);

	if (rc < 0)
		return rc;
	info = sc_segment_info(tier->segment);
	rc = check_tie(v, tier);
	if (rc == 0)
		rc = check_lines_of(v, tier);
	if (rc == 0) {
		v->chain = (struct sc_proof_state){
			.begun = true,
			.hash = info->tie.after,
			.next = info->tie.next,
			.rows = info->tie.rows_before + info->rows,
			.bytes = info->tie.bytes_before + info->bytes,
			.commit = info->tie.commit,
			.last_us = info->last_us,
		};
		v->proof.blocks += info->frames;
		v->proof.segments++;
	}
	sc_tier_close(tier);
	return rc;
}

/* The file that SPOT names. 1: it is the journal in use, read to its end. */
static int check_file(struct verify *v, const struct sc_spot *spot)
{
	uint64_t end, next;
	int rc;

	if (spot->sealed)
		return check_segment(v, &spot->segment);
	v->journal = spot->place.journal;
	rc = sc_find_journal(v->log, &v->state, v->journal, &end, &next, v->err);
	if (rc == 0)
		rc = check_journal(v, end);
	if (rc < 0)
		return rc;
	if (v->journal == v->state.journal)
		return 1;
	if (v->chain.next < next && v->chain.next <= v->to)
		v->chain.next = next; /* there is a gap */
	return 0;
}

static int front_missing(struct verify *v)
{
	sc_err_set(v->err, SC_E_DATA, "cannot verify",
		   "%llu rows before the first one that it holds, %llu, are missing; the last good "
		   "offset is %llu",
		   (unsigned long long)(v->state.rows - v->state.floor_rows - v->proof.rows),
		   (unsigned long long)v->proof.first, (unsigned long long)v->state.floor - 1);
	sc_log_err(v->log, v->err);
	sc_err_next(v->err, "put their files back, or verify what is there: --from %llu",
		    (unsigned long long)v->proof.first);
	sc_err_field_u64(v->err, "last_good", v->state.floor - 1);
	return SC_E_DATA;
}

/* Was the journal in use, as it was when we began, read to its end? Then all must add up. */
static int check_end(struct verify *v, uint64_t from)
{
	if (!v->chain.begun || !sc_hash_same(&v->chain.hash, &v->state.hash) ||
	    v->chain.rows != v->state.rows || v->chain.bytes != v->state.bytes)
		return damaged(v, "the journals do not end as the index says");
	if (from == 0 && v->proof.rows != v->state.rows - v->state.floor_rows)
		return front_missing(v);
	return 0;
}

/* What was wrong may be that rows from AT on were given up meanwhile: then it is that. */
static int explain(struct verify *v, int rc, uint64_t at)
{
	struct sc_state now;
	uint64_t earliest;

	if ((rc != SC_E_DATA && rc != SC_E_NOLOG) || sc_index_now(v->log, &now, NULL) < 0 ||
	    at >= now.floor)
		return rc;
	earliest = now.first ? now.first : now.next;
	sc_err_set(v->err, SC_E_REFUSED, "cannot verify",
		   "offset %llu is not held any more; the earliest is %llu", (unsigned long long)at,
		   (unsigned long long)earliest);
	sc_log_err(v->log, v->err);
	sc_err_next(v->err, "verify it again: rows were removed meanwhile");
	sc_err_field_str(v->err, "why", "evicted");
	sc_err_field_u64(v->err, "offset", at);
	sc_err_field_u64(v->err, "earliest", earliest);
	return SC_E_REFUSED;
}

static int check_files(struct verify *v, uint64_t from)
{
	uint64_t at = v->from ? v->from : 1;
	bool to_end = v->to >= v->state.next - 1;
	struct sc_spot spot;
	int rc = sc_find_spot(v->log, at, &spot, v->err);

	if (to_end)
		v->to = v->state.next - 1; /* what is appended meanwhile is not part of it */
	while (rc == 1) {
		rc = check_file(v, &spot);
		if (rc == SC_E_NOLOG) {
			/* sealed just now, or lost? */
			rc = explain(v, sc_find_again(v->log, at, &spot, v->err), at);
			continue;
		}
		if (rc == 1)
			return to_end ? explain(v, check_end(v, from), v->first) : 0;
		if (rc < 0)
			return explain(v, rc, at);
		at = v->chain.next;
		if (at > v->from)
			v->from =
				at; /* a segment made meanwhile may hold more than what comes next */
		/* a journal in use that holds no rows is looked at too: it ends the chain */
		if (at > v->to && !(to_end && at == v->state.journal))
			return 0;
		rc = sc_find_spot(v->log, at, &spot, v->err);
	}
	return rc == 0 && !v->chain.begun ? damaged(v, "there is nothing") : rc;
}

/* Does the index know this file? Those of a seal that runs now are not counted. */
static int count_orphans(struct verify *v)
{
	struct sc_tier_names tiers = { NULL, 0, 0 };
	struct sc_names names = { NULL, 0 };
	struct sc_state state;
	uint64_t strangers = 0, end, next;
	int rc = sc_tier_list(v->log, &tiers, v->err);

	if (rc == 0)
		rc = sc_journal_list(v->log, &names, &strangers, v->err);
	if (rc == 0)
		rc = sc_index_now(v->log, &state, v->err);
	v->proof.orphans = strangers + tiers.strangers;
	for (size_t i = 0; rc == 0 && i < tiers.count; i++) {
		const struct sc_tier_name *n = &tiers.items[i];
		char path[PATH_MAX];
		struct sc_spot spot;

		rc = sc_find_spot(v->log, n->first, &spot, v->err);
		sc_tier_path(v->log, n->first, n->last, path);
		if (rc >= 0 &&
		    (rc == 0 || !spot.sealed || spot.segment.first != n->first ||
		     spot.segment.last != n->last) &&
		    access(path, F_OK) == 0)
			v->proof.orphans++;
		rc = rc < 0 ? rc : 0;
	}
	for (size_t i = 0; rc == 0 && i < names.count && names.items[i] < state.journal; i++) {
		char path[PATH_MAX];

		sc_journal_path(v->log, names.items[i], path);
		rc = sc_find_journal(v->log, &state, names.items[i], &end, &next, v->err);
		if (rc == SC_E_NOLOG) {
			v->proof.orphans += access(path, F_OK) == 0;
			rc = 0;
		}
	}
	sc_tier_list_done(&tiers);
	sc_journal_list_done(&names);
	return rc;
}

void sc_log_proof_hash(const XXH3_state_t *all, struct sc_log_proof *proof)
{
	XXH128_canonical_t canonical;
	struct sc_hash hash;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(all));
	memcpy(hash.bytes, canonical.digest, sizeof(hash.bytes));
	sc_hash_text(&hash, proof->hash);
}

/* STRICT: rows below what is held are not left out in silence. */
static int prove(const char *path, uint64_t from, uint64_t to, bool strict, XXH3_state_t *all,
		 struct sc_log_proof *ret_proof, struct sc_err *err)
{
	struct verify v = { .to = to, .hash = all, .err = err };
	int rc = sc_log_open(path, SC_LOG_READ, &v.log, err);

	if (rc < 0)
		return rc;
	rc = sc_index_now(v.log, &v.state, err);
	if (rc == 0 && strict && from < v.state.floor) {
		rc = sc_err_set(err, SC_E_REFUSED, "cannot verify",
				"offset %llu is not held any more", (unsigned long long)from);
		sc_log_err(v.log, err);
	}
	v.first = v.from = from < v.state.floor ? v.state.floor : from;
	if (rc == 0)
		rc = check_files(&v, from);
	if (rc == 0)
		rc = count_orphans(&v);
	if (rc == 0)
		*ret_proof = v.proof;
	rc = sc_log_or_gone(v.log, rc, err);
	sc_log_close(v.log);
	return rc;
}

int sc_log_prove(const char *path, uint64_t from, uint64_t end, XXH3_state_t *all,
		 struct sc_log_proof *proof, struct sc_err *err)
{
	struct sc_log_proof part;
	int rc = prove(path, from, end - 1, true, all, &part, err);

	if (rc < 0)
		return rc;
	proof->rows += part.rows;
	proof->bytes += part.bytes;
	proof->blocks += part.blocks;
	proof->segments += part.segments;
	proof->journals += part.journals;
	proof->orphans += part.orphans;
	if (part.rows) {
		proof->first = proof->first ? proof->first : part.first;
		proof->last = part.last;
	}
	return 0;
}

int sc_log_verify(const char *path, uint64_t from, uint64_t to, struct sc_log_proof *ret_proof,
		  struct sc_err *err)
{
	XXH3_state_t *all = XXH3_createState();
	struct sc_log_proof proof;
	int rc;

	if (!all)
		return sc_err_nomem(err, "cannot verify");
	XXH3_128bits_reset(all);
	rc = prove(path, from, to ? to : UINT64_MAX, false, all, &proof, err);
	if (rc == 0) {
		sc_log_proof_hash(all, &proof);
		*ret_proof = proof;
	}
	XXH3_freeState(all);
	return rc;
}
