/*
 * recover.c: what the files say, when there is no index that can be trusted.
 *
 * Each segment's index and each journal's anchor name what came before them, so only the journal in
 * use is read whole. Its tail is taken up to the last whole commit whose blocks chain; what follows
 * was never acknowledged. It is damage, and not a torn end, when a sound block of a later commit
 * than the next one stands behind: a commit is written only after the one before was synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "log/log_internal.h"

#define CHUNK (256u << 10)

/* What stands before the journal in hand. */
struct prior {
	uint64_t name, size; /* of a journal; 0 = nothing */
	bool sealed;         /* it is not there any more: its rows are in the last segment */
};
struct scan {
	struct sc_log *log;
	struct sc_recovery *r;
	struct prior sealed;     /* the last segment's end */
	struct sc_bytes exts;    /* of the commit that is not whole yet */
	struct sc_bytes places;  /* its look-up entries */
	struct sc_state pending; /* the state once it is whole */
	struct sc_err *err;
};

static int missing(struct scan *s, uint64_t name, const char *reason, uint64_t give_up)
{
	char path[PATH_MAX];

	if (sc_log_forgives(s->log))
		return 0;
	sc_journal_path(s->log, name, path);
	sc_err_set(s->err, SC_E_DATA, "cannot open the log", "%s", reason);
	sc_err_on(s->err, "journal", path);
	sc_err_next(s->err,
		    "put a good copy of it back, or give its rows up: sc-log trim %s --before %llu",
		    s->log->path, (unsigned long long)give_up);
	sc_err_field_str(s->err, "file", path);
	return sc_log_or_gone(s->log, SC_E_DATA, s->err);
}

static int put_place(struct scan *s, uint64_t first, const struct sc_place *place)
{
	if (!s->r->txn)
		return 0;
	return sc_kv_put(s->r->txn, SC_T_BLOCKS, sc_u64_key(&first),
			 sc_span((const char *)place, sizeof(*place)), s->err);
}

static int put_journal(struct scan *s, uint64_t name, const struct sc_journal_entry *entry)
{
	if (!s->r->txn)
		return 0;
	return sc_kv_put(s->r->txn, SC_T_JOURNALS, sc_u64_key(&name),
			 sc_span((const char *)entry, sizeof(*entry)), s->err);
}

/* A schema that log.json does not know yet: it is older than the journals (a copy, a backup). */
static int learn_schema(struct scan *s, const struct sc_schema_mark *mark)
{
	struct sc_settings *settings = &s->log->settings;
	struct sc_schema_mark last = sc_settings_schema(settings);

	if (mark->version <= last.version || mark->from < last.from)
		return 0;
	s->r->schema_newer = true;
	return sc_settings_add(settings, mark, s->err);
}

static int learn_schemas(struct scan *s, struct sc_span exts)
{
	struct sc_ext ext;
	int rc = 0;

	while (rc == 0 && sc_ext_next(&exts, &ext))
		if (ext.kind == SC_EXT_SCHEMA)
			rc = learn_schema(s, &ext.schema);
	return rc;
}

static int apply_exts(struct scan *s, struct sc_span exts)
{
	struct sc_ext ext;
	int rc = learn_schemas(s, exts);

	while (s->r->txn && rc == 0 && sc_ext_next(&exts, &ext))
		rc = sc_source_apply(s->r->txn, &ext, s->err);
	return rc;
}

/* A commit is whole: its state becomes the log's. */
static int take_commit(struct scan *s)
{
	int rc = apply_exts(s, sc_span(s->exts.data, s->exts.len));

	for (size_t at = 0; rc == 0 && at < s->places.len;
	     at += sizeof(uint64_t) + sizeof(struct sc_place)) {
		uint64_t first;
		struct sc_place place;

		memcpy(&first, s->places.data + at, sizeof(first));
		memcpy(&place, s->places.data + at + sizeof(first), sizeof(place));
		rc = put_place(s, first, &place);
	}
	sc_bytes_clear(&s->exts);
	sc_bytes_clear(&s->places);
	s->r->tail = s->r->state.end;
	s->r->state = s->pending;
	return rc;
}

static bool chains(const struct sc_state *now, const struct sc_state *whole,
		   const struct sc_block *block)
{
	return sc_hash_same(&block->prev, &now->hash) && block->first >= now->next &&
	       block->commit == whole->commit + 1 && block->appended_us >= now->last_us &&
	       block->rows > 0;
}

static int take_block(struct scan *s, uint64_t at, const struct sc_block *block, const char *data)
{
	struct sc_state *p = &s->pending;

	if (at - p->sparse_at >= SC_SPARSE_BYTES) {
		struct sc_place place = { p->journal, at, p->rows, p->bytes, block->appended_us };

		if (sc_bytes_put(&s->places, &block->first, sizeof(block->first)) < 0 ||
		    sc_bytes_put(&s->places, &place, sizeof(place)) < 0)
			return sc_err_nomem(s->err, "cannot rebuild the index");
		p->sparse_at = at;
	}
	if (sc_bytes_put(&s->exts, data + SC_BLOCK_HEAD, block->ext_len) < 0)
		return sc_err_nomem(s->err, "cannot rebuild the index");
	p->next = block->last + 1;
	p->last = block->last;
	p->rows += block->rows;
	p->bytes += block->body_len;
	p->last_us = block->appended_us;
	p->hash = block->hash;
	p->end = at + sc_block_size(block);
	p->commit = block->commit;
	return block->more ? 0 : take_commit(s);
}

/* What stands at POS begins as a block: a sound one of a later commit than the next one? *RET_LEN
 * is how much of it there is to pass over. */
static int check_one(struct scan *s, struct sc_walk *walk, int fd, uint64_t name, uint64_t pos,
		     uint64_t size, bool *ret_later, size_t *ret_len)
{
	struct sc_block block;
	const char *data;
	int rc;

	sc_walk_start(walk, s->log, name, fd, pos, size, SC_BLOCK_HEAD);
	rc = sc_walk_next(walk, SC_WALK_CHECK, &block, &data, s->err);
	*ret_len = rc == 1 ? sc_block_size(&block) : 1;
	*ret_later = rc == 1 && block.commit >= s->r->state.commit + 2;
	if (*ret_later && block.last >= s->r->beyond)
		s->r->beyond = block.last + 1;
	return rc < 0 && rc != SC_E_DATA ? rc : 0;
}

/*
 * Is a sound block of a later commit than the next one in journal NAME, at or behind POS? By hand
 * that is no error, and all of them are looked for.
 */
static int check_behind(struct scan *s, int fd, uint64_t name, uint64_t pos, uint64_t size)
{
	const uint64_t begin = pos;
	char path[PATH_MAX];
	struct sc_walk walk;
	char *buf = sc_malloc(CHUNK);
	bool later = false;
	int rc = 0;

	if (!buf)
		return sc_err_nomem(s->err, "cannot rebuild the index");
	sc_journal_path(s->log, name, path);
	sc_walk_init(&walk);
	while (rc == 0 && pos + SC_BLOCK_HEAD <= size) {
		size_t got = 0, at = 0, len;
		const char *hit;

		rc = sc_pread_all(fd, buf, CHUNK, (off_t)pos, &got, path, s->err);
		if (rc < 0 || got < SC_BLOCK_HEAD)
			break;
		while (rc == 0 && at < got &&
		       (hit = memmem(buf + at, got - at, sc_block_magic, SC_BLOCK_MAGIC_LEN))) {
			at = (size_t)(hit - buf);
			rc = check_one(s, &walk, fd, name, pos + at, size, &later, &len);
			if (rc == 0 && later && !sc_log_forgives(s->log))
				rc = sc_walk_damage(s->log, name, begin, s->r->state.next - 1,
						    s->err);
			at += len;
		}
		/* the end of what was read may be the front of a block */
		pos += at > got - (SC_BLOCK_MAGIC_LEN - 1) ? at : got - (SC_BLOCK_MAGIC_LEN - 1);
	}
	sc_walk_done(&walk);
	free(buf);
	return rc;
}

/* The journal in use: every block checked. */
static int scan_tail(struct scan *s, int fd)
{
	struct sc_state *state = &s->r->state;
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	struct stat st;
	int rc;

	if (fstat(fd, &st) < 0)
		return sc_err_sys(s->err, SC_E_IO, errno, "cannot examine a journal");
	s->pending = *state;
	s->r->tail = 0;
	sc_walk_init(&walk);
	sc_walk_start(&walk, s->log, state->journal, fd, state->end, (uint64_t)st.st_size, CHUNK);
	for (;;) {
		uint64_t at = walk.pos;

		rc = sc_walk_next(&walk, SC_WALK_CHECK, &block, &data, s->err);
		if (rc != 1 || !chains(&s->pending, state, &block))
			break;
		rc = take_block(s, at, &block, data);
		if (rc < 0)
			break;
	}
	sc_walk_done(&walk);
	if (rc < 0 && rc != SC_E_DATA)
		return rc;
	return check_behind(s, fd, state->journal, state->end, (uint64_t)st.st_size);
}

/* 1 and the anchor's block; 0: it has none that is whole. DATA is freed by the caller. */
static int read_anchor(struct scan *s, int fd, uint64_t name, struct sc_block *ret_block,
		       struct sc_anchor *ret_anchor, struct sc_walk *walk, struct sc_span *ret_exts)
{
	struct stat st;
	const char *data;
	struct sc_ext ext;
	struct sc_span exts;
	int rc;

	if (fstat(fd, &st) < 0)
		return sc_err_sys(s->err, SC_E_IO, errno, "cannot examine a journal");
	sc_walk_start(walk, s->log, name, fd, 0, (uint64_t)st.st_size, 4096);
	rc = sc_walk_next(walk, SC_WALK_CHECK, ret_block, &data, s->err);
	if (rc == SC_E_DATA)
		return 0;
	if (rc != 1)
		return rc;
	exts = sc_span(data + SC_BLOCK_HEAD, ret_block->ext_len);
	if (ret_block->rows || ret_block->first != name || !sc_ext_next(&exts, &ext) ||
	    ext.kind != SC_EXT_ANCHOR)
		return 0;
	*ret_anchor = ext.anchor;
	*ret_exts = exts;
	return 1;
}

static int foreign(struct scan *s, uint64_t name)
{
	char path[PATH_MAX];

	sc_journal_path(s->log, name, path);
	sc_err_set(s->err, SC_E_DATA, "cannot open the log",
		   "it belongs to another stream than log.json");
	sc_err_on(s->err, "journal", path);
	sc_err_next(s->err, "move it away, or put the right log.json back");
	return sc_log_or_gone(s->log, SC_E_DATA, s->err);
}

/* The last row up to END of a journal, where no row is behind it: with gaps, as a restore leaves
 * one, that is not the offset before the next journal. */
static int find_last(struct scan *s, uint64_t name, uint64_t end)
{
	struct sc_walk walk;
	struct sc_block block;
	const char *data;
	int fd = -1, rc = sc_journal_open(s->log, name, false, &fd, s->err);

	if (rc < 0)
		return rc == SC_E_NOLOG ? 0 : rc;
	sc_walk_init(&walk);
	sc_walk_start(&walk, s->log, name, fd, 0, end, CHUNK);
	while ((rc = sc_walk_next(&walk, SC_WALK_HEADS, &block, &data, s->err)) == 1)
		if (block.rows)
			s->r->state.last = block.last;
	sc_walk_done(&walk);
	close(fd);
	return rc == SC_E_DATA ? 0 : rc; /* a reader names the damage */
}

/* Does the anchor of journal NAME fit what came before it? */
static int check_anchor(struct scan *s, uint64_t name, const struct sc_block *block,
			const struct sc_anchor *a, const struct prior *prior)
{
	const struct sc_state *state = &s->r->state;

	if (!sc_span_is(a->stream_id, s->log->settings.stream_id))
		return foreign(s, name);
	if (prior->name && a->prev_journal != prior->name)
		return missing(s, a->prev_journal, "it is missing", name);
	if (prior->name && prior->size < a->prev_end)
		return missing(s, prior->name, "it is shorter than the journal after it says",
			       name);
	if (!prior->name && a->rows > state->floor_rows)
		return missing(s, a->prev_journal, "it is missing", name);
	if (prior->sealed && (!sc_hash_same(&block->prev, &state->hash) || a->rows != state->rows))
		return missing(s, name, "it does not follow the last segment", name);
	return 0;
}

/* Then the state moves to it. */
static int take_anchor(struct scan *s, uint64_t name, const struct sc_block *block,
		       const struct sc_anchor *a, const struct prior *prior)
{
	struct sc_state *state = &s->r->state;
	struct sc_place place = { name, 0, a->rows, a->bytes, block->appended_us };
	int rc = check_anchor(s, name, block, a, prior);

	if (rc < 0)
		return rc;
	if (prior->name && !prior->sealed) {
		struct sc_journal_entry done = { a->prev_journal == prior->name ? a->prev_end
										: prior->size,
						 state->rows, state->bytes };

		rc = put_journal(s, prior->name, &done);
	}
	state->next = block->first;
	if (!prior->sealed)
		state->last = block->first - 1; /* or lower, where offsets have a gap */
	state->rows = a->rows;
	state->bytes = a->bytes;
	state->journal = name;
	state->end = sc_block_size(block);
	state->hash = block->hash;
	state->last_us = block->appended_us;
	state->commit = block->commit;
	state->sparse_at = 0;
	state->journals++;
	return rc < 0 ? rc : put_place(s, name, &place);
}

/* One journal: its anchor, and if it is the last one all of it. */
static int scan_journal(struct scan *s, uint64_t name, bool last, struct prior *prior)
{
	struct sc_block block = { .first = 0 };
	struct sc_anchor anchor = { .rows = 0 };
	struct sc_walk walk;
	struct sc_span exts = { NULL, 0 };
	struct stat st;
	int fd = -1, rc = sc_journal_open(s->log, name, false, &fd, s->err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	rc = read_anchor(s, fd, name, &block, &anchor, &walk, &exts);
	if (rc == 0)
		rc = sc_walk_damage(s->log, name, 0, s->r->state.next ? s->r->state.next - 1 : 0,
				    s->err);
	if (rc == 1)
		rc = take_anchor(s, name, &block, &anchor, prior);
	if (rc == 0 && fstat(fd, &st) < 0)
		rc = sc_err_sys(s->err, SC_E_IO, errno, "cannot examine a journal");
	if (rc == 0)
		*prior = (struct prior){ name, (uint64_t)st.st_size, false };
	if (rc == 0)
		rc = last ? apply_exts(s, exts) : learn_schemas(s, exts);
	if (rc == 0 && last)
		rc = scan_tail(s, fd);
	if (rc == 0 && last && anchor.prev_journal && s->r->state.next == name &&
	    s->r->state.last + 1 == name)
		rc = find_last(s, anchor.prev_journal, anchor.prev_end);
	if (rc == 0 && last) {
		struct sc_journal_entry entry = { 0, anchor.rows, anchor.bytes };

		rc = put_journal(s, name, &entry);
	}
	sc_walk_done(&walk);
	close(fd);
	return rc;
}

/* 1: journal NAME has no whole anchor, so it may be one that was being made; 0: it has. */
static int anchor_is_torn(struct scan *s, uint64_t name)
{
	struct sc_block block;
	struct sc_anchor anchor;
	struct sc_walk walk;
	struct sc_span exts;
	int fd = -1, rc = sc_journal_open(s->log, name, false, &fd, s->err);

	if (rc < 0)
		return rc;
	sc_walk_init(&walk);
	rc = read_anchor(s, fd, name, &block, &anchor, &walk, &exts);
	sc_walk_done(&walk);
	close(fd);
	return rc < 0 ? rc : !rc;
}

/* It was being made when the machine stopped: no row of it can have been acknowledged. */
static int scan_torn(struct scan *s, uint64_t name)
{
	struct stat st;
	int fd = -1, rc = sc_journal_open(s->log, name, false, &fd, s->err);

	if (rc < 0)
		return rc;
	rc = fstat(fd, &st) == 0 ? check_behind(s, fd, name, 0, (uint64_t)st.st_size)
				 : sc_err_sys(s->err, SC_E_IO, errno, "cannot examine a journal");
	if (rc == 0)
		s->r->torn = name;
	close(fd);
	return rc;
}

static int segment_lost(struct scan *s, const struct sc_tier_name *n, uint64_t from)
{
	char path[PATH_MAX];

	if (sc_log_forgives(s->log))
		return 0;
	sc_tier_path(s->log, n->first, n->last, path);
	sc_err_set(s->err, SC_E_DATA, "cannot open the log",
		   "rows from offset %llu on are missing before it", (unsigned long long)from);
	sc_err_on(s->err, "segment", path);
	sc_err_next(s->err, "put their segment back, or give them up: sc-log trim %s --before %llu",
		    s->log->path, (unsigned long long)n->first);
	sc_err_field_str(s->err, "file", path);
	return sc_log_or_gone(s->log, SC_E_DATA, s->err);
}

/* One segment: what its index says, which fits what came before it. */
static int take_segment(struct scan *s, const struct sc_tier_name *n,
			const struct sc_segment_info *info)
{
	struct sc_state *state = &s->r->state;
	struct sc_sealed entry;

	sc_tier_note(info, &entry);
	if (state->segments ? entry.rows_before != state->rows ||
				      !sc_hash_same(&info->tie.before, &state->hash)
			    : entry.rows_before > state->floor_rows) {
		int rc = segment_lost(s, n, state->segments ? state->next : state->floor);

		if (rc < 0)
			return rc;
	}
	state->segments++;
	state->sealed_next = state->next = entry.next;
	state->sealed_rows += entry.rows;
	state->sealed_bytes += entry.bytes;
	state->sealed_file_bytes += entry.file_bytes;
	state->rows = entry.rows_before + entry.rows;
	state->bytes = entry.bytes_before + entry.bytes;
	state->last = entry.last;
	state->last_us = entry.last_us;
	state->hash = info->tie.after;
	state->commit = info->tie.commit;
	s->sealed = (struct prior){ info->tie.journal, info->tie.journal_end, true };
	if (!s->r->txn)
		return 0;
	return sc_kv_put(s->r->txn, SC_T_SEGMENTS, sc_u64_key(&entry.first),
			 sc_span((const char *)&entry, sizeof(entry)), s->err);
}

/* The segments in order; those that another one covers, or that the floor has passed, are left
 * out. */
static int scan_segments(struct scan *s)
{
	struct sc_tier_names names = { NULL, 0, 0 };
	int rc = sc_tier_list(s->log, &names, s->err);

	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		const struct sc_tier_name *n = &names.items[i];
		struct sc_tier *tier = NULL;

		if (n->covered || n->last < s->r->state.floor)
			continue;
		rc = sc_tier_open(s->log, n->first, n->last, &tier, s->err);
		if (rc == SC_E_DATA && sc_log_forgives(s->log)) {
			rc = 0; /* by hand: it stays where it is, its rows are missing */
			continue;
		}
		if (rc == 0)
			rc = take_segment(s, n, sc_segment_info(tier->segment));
		sc_tier_close(tier);
		s->r->sealed_last = n->last;
	}
	sc_tier_list_done(&names);
	return rc;
}

/* The journals in order; those that were sealed, or that the floor has passed, are left out. */
static int scan_journals(struct scan *s, const struct sc_names *names)
{
	struct prior prior = s->sealed;
	size_t from = 0, to = names->count;
	int rc = 0, torn = 0;

	while (from < to && names->items[from] <= s->r->sealed_last)
		from++;
	if (from == to) {
		sc_err_set(s->err, SC_E_DATA, "cannot open",
			   "it has no journal behind its segments");
		sc_log_err(s->log, s->err);
		sc_err_next(s->err, "put the files of its folder journal/ back");
		return sc_log_or_gone(s->log, SC_E_DATA, s->err);
	}
	if (from + 1 < to)
		torn = anchor_is_torn(s, names->items[to - 1]);
	if (torn < 0)
		return torn;
	to -= (size_t)
		torn; /* then the one before is in use after all, also when its rows are trimmed */
	while (from + 1 < to && names->items[from + 1] <= s->r->state.floor)
		from++;
	for (size_t i = from; rc == 0 && i < to; i++)
		rc = scan_journal(s, names->items[i], i + 1 == to, &prior);
	if (rc == 0 && torn)
		rc = scan_torn(s, names->items[to]);
	return rc;
}

static int scan_all(struct scan *s, const struct sc_names *names)
{
	int rc = scan_segments(s);

	return rc < 0 ? rc : scan_journals(s, names);
}

int sc_recover(struct sc_log *log, struct sc_recovery *r, struct sc_err *err)
{
	struct scan s = { .log = log, .r = r, .err = err };
	struct sc_names names = { NULL, 0 };
	struct sc_found found;
	int rc = sc_journal_list(log, &names, NULL, err);

	if (rc < 0)
		return rc;
	sc_bytes_init(&s.exts, 64u << 20);
	sc_bytes_init(&s.places, 64u << 20);
	memset(&r->state, 0, sizeof(r->state));
	r->torn = r->beyond = r->sealed_last = 0;
	r->schema_newer = false;
	log->recovering = true;
	r->state.floor = log->settings.floor.offset;
	r->state.floor_rows = log->settings.floor.rows;
	r->state.floor_bytes = log->settings.floor.bytes;
	if (names.count == 0) {
		sc_err_set(err, SC_E_DATA, "cannot open", "it has no journal");
		sc_log_err(log, err);
		sc_err_next(err, "put the files of its folder journal/ back");
		rc = sc_log_or_gone(log, SC_E_DATA, err);
		goto out;
	}
	rc = scan_all(&s, &names);
	if (rc == 0 && r->beyond > r->state.next) {
		/*
		 * by hand: what stands behind the damage is left as it is, and its offsets are
		 * not given again
		 */
		r->state.next = r->beyond;
		r->state.suspect = 1;
	}
	if (rc == 0 && r->state.next < log->settings.next)
		r->state.next = log->settings.next; /* what was left out and never given */
	if (rc == 0 && r->state.rows > r->state.floor_rows) {
		rc = sc_find_row(log, &r->state, r->state.floor, &found, err);
		if (rc == 1) {
			r->state.first = found.offset;
			r->state.first_us = found.block.appended_us;
		}
		rc = rc < 0 ? rc : 0;
	}
out:
	log->recovering = false;
	sc_bytes_done(&s.exts);
	sc_bytes_done(&s.places);
	sc_journal_list_done(&names);
	return rc;
}

/* Does one of the index's segments hold all of it, and is not it? Or is it below the floor? */
static bool is_spare(const struct sc_tier_name *n, const struct sc_sealed *items, size_t count,
		     uint64_t floor)
{
	for (size_t i = 0; i < count; i++)
		if (items[i].first <= n->first && items[i].last >= n->last)
			return items[i].first != n->first || items[i].last != n->last;
	return n->last < floor;
}

/*
 * Best effort, since it is in nobody's way. The index says what is held, not a new look at the
 * folder: a compaction may be giving its file a name just now.
 */
void sc_recover_sweep(struct sc_log *log, const struct sc_recovery *r)
{
	struct sc_tier_names tiers = { NULL, 0, 0 };
	struct sc_names names = { NULL, 0 };
	struct sc_sealed *items = NULL;
	size_t count = 0;
	char path[PATH_MAX];

	if (log->tolerant || !r->state.segments || sc_tier_list(log, &tiers, NULL) < 0)
		return;
	if (sc_tier_all(log, &items, &count, NULL) == 0 && tiers.count > count)
		for (size_t i = 0; i < tiers.count; i++)
			if (is_spare(&tiers.items[i], items, count, r->state.floor))
				sc_tier_remove(log, tiers.items[i].first, tiers.items[i].last,
					       NULL);
	if (sc_journal_list(log, &names, NULL, NULL) == 0) {
		for (size_t i = 0; i < names.count && names.items[i] <= r->sealed_last; i++) {
			sc_journal_path(log, names.items[i], path);
			sc_sys_unlink(path);
		}
	}
	free(items);
	sc_journal_list_done(&names);
	sc_tier_list_done(&tiers);
}

/*
 * The last commit may be in the page cache only, even after a sync that failed: write its bytes
 * again, and sync.
 */
int sc_recover_settle(struct sc_log *log, const struct sc_recovery *r, struct sc_err *err)
{
	char path[PATH_MAX];
	size_t len = (size_t)(r->state.end - r->tail), got = 0;
	char *buf;
	int rc;

	if (r->torn) {
		sc_journal_path(log, r->torn, path);
		if (sc_sys_unlink(path) < 0 && errno != ENOENT) {
			rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
			sc_err_on(err, "journal", path);
			return rc;
		}
	}
	rc = sc_journal_use(log, &r->state, err);
	if (rc < 0)
		return rc;
	buf = sc_malloc(len);
	if (!buf)
		return sc_err_nomem(err, "cannot rebuild the index");
	sc_journal_path(log, r->state.journal, path);
	rc = sc_pread_all(log->journal_fd, buf, len, (off_t)r->tail, &got, path, err);
	if (rc == 0 && got < len)
		rc = sc_walk_damage(log, r->state.journal, r->tail, r->state.next - 1, err);
	if (rc == 0)
		rc = sc_journal_write(log, buf, len, r->tail, err);
	if (rc == 0)
		rc = sc_journal_sync(log, err);
	free(buf);
	if (rc == 0) {
		snprintf(path, sizeof(path), "%s/journal", log->path);
		rc = sc_sync_dir(path, err);
	}
	if (rc == 0)
		rc = sc_tier_sync(log, err); /* what covers others is on disk before these go */
	if (rc < 0)
		sc_journal_close(log);
	return rc;
}
