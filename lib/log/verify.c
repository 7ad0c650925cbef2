/*
 * verify.c: a log proved: every block's hash, the chain, the offsets in the lines, the counters,
 * the files that are there.
 *
 * The proof's hash is XXH3-128 over the lines of the range in order, so it is the same wherever
 * the rows lie by now.
 */
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/file.h"
#include "log/log_internal.h"

#define CHUNK (1u << 20)

struct verify {
	struct sc_log *log;
	struct sc_state state;
	uint64_t from, to;
	uint64_t journal, at; /* the block in hand */
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
	sc_err_field_int(v->err, "position", (int64_t)v->at);
	sc_err_field_int(v->err, "last_good", (int64_t)last_good);
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

/* One journal up to END. *RET_DONE when the range ends in it. */
static int check_journal(struct verify *v, uint64_t end, bool *ret_done)
{
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	int fd = -1, rc = sc_journal_open(v->log, v->journal, false, &fd, v->err);

	v->at = 0;
	if (rc == SC_E_NOLOG)
		return damaged(v, "there is nothing: the file is missing");
	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, fd, 0, end, CHUNK);
	while ((rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, v->err)) == 1) {
		rc = check_block(v, &block, data);
		if (rc < 0)
			break;
		v->at = walk.pos;
		if (block.rows && block.last >= v->to) {
			*ret_done = true;
			break;
		}
	}
	if (rc == SC_E_DATA && walk.pos == v->at)
		rc = damaged(v, "the checksum does not match, or it is cut short");
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

static int check_journals(struct verify *v, struct sc_names *names, bool *ret_done)
{
	size_t from = 0, count = names->count;
	int rc = 0;

	while (count && names->items[count - 1] > v->state.journal)
		count--; /* begun after we looked */
	while (from + 1 < count && names->items[from + 1] <= v->from)
		from++;
	for (size_t i = from; rc == 0 && i < count && !*ret_done; i++) {
		uint64_t end, next;

		v->journal = names->items[i];
		rc = sc_find_journal(v->log, &v->state, v->journal, &end, &next, v->err);
		if (rc == SC_E_NOLOG) {
			v->proof.orphans++;
			rc = 0;
			continue;
		}
		if (rc == 0)
			rc = check_journal(v, end, ret_done);
		if (rc == 0 && !*ret_done && i + 1 < count && next != names->items[i + 1]) {
			v->journal = next;
			v->at = 0;
			rc = damaged(v, "there is nothing: the file is missing");
		}
	}
	return rc;
}

static int check_all(struct verify *v, uint64_t from)
{
	struct sc_names names = { NULL, 0 };
	bool done = false;
	int rc = sc_journal_list(v->log, &names, &v->proof.orphans, v->err);

	if (rc < 0)
		return rc;
	rc = check_journals(v, &names, &done);
	sc_journal_list_done(&names);
	if (rc < 0 || done)
		return rc;
	/* everything up to the frontier was read: it must be what the state says */
	if (!v->chain.begun || !sc_hash_same(&v->chain.hash, &v->state.hash) ||
	    v->chain.rows != v->state.rows || v->chain.bytes != v->state.bytes)
		return damaged(v, "the journals do not end as the index says");
	if (from == 0 && v->to == UINT64_MAX &&
	    v->proof.rows != v->state.rows - v->state.floor_rows)
		return damaged(v, "rows are missing at the front");
	return 0;
}

int sc_log_verify(const char *path, uint64_t from, uint64_t to, struct sc_log_proof *ret_proof,
		  struct sc_err *err)
{
	struct verify v = { .to = to ? to : UINT64_MAX, .err = err };
	XXH128_canonical_t canonical;
	struct sc_hash hash;
	int rc = sc_log_open(path, SC_LOG_READ, &v.log, err);

	if (rc < 0)
		return rc;
	v.hash = XXH3_createState();
	if (!v.hash) {
		rc = sc_err_nomem(err, "cannot verify");
		goto out;
	}
	XXH3_128bits_reset(v.hash);
	rc = sc_index_now(v.log, &v.state, err);
	if (rc < 0)
		goto out;
	v.from = from < v.state.floor ? v.state.floor : from;
	rc = check_all(&v, from);
	if (rc < 0)
		goto out;
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(v.hash));
	memcpy(hash.bytes, canonical.digest, sizeof(hash.bytes));
	sc_hash_text(&hash, v.proof.hash);
	*ret_proof = v.proof;
out:
	XXH3_freeState(v.hash);
	sc_log_close(v.log);
	return rc;
}
