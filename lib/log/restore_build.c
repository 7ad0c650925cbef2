/*
 * restore_build.c: journals from the blocks that were shipped of them.
 *
 * The files become what they were, byte for byte up to the last block that was shipped: the same
 * names, the same positions. The chain of hashes leads from the last segment, or from the first
 * anchor, through all blocks; where it does not lead on, rows are missing. Objects overlap where a
 * larger one was made of small ones: what was taken already is passed over.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "log/restore_internal.h"

#define TRIED "cannot restore"
#define SCRATCH "restore.mdb"

struct build {
	struct sc_restore *r;
	struct sc_state *s; /* r->state */
	int fd;             /* of s->journal, when it is being made */
	bool joined;        /* the object in hand */
	bool open_commit;   /* another block of it must follow */
	struct sc_kv *kv;   /* sources and producers; thrown away in the end */
	struct sc_kv_txn *txn;
	struct sc_err *err;
};

static void remove_scratch(struct sc_restore *r)
{
	char path[PATH_MAX];

	sc_log_file(&r->log, path, SCRATCH);
	sc_sys_unlink(path);
	sc_log_file(&r->log, path, SCRATCH "-lock");
	sc_sys_unlink(path);
}

/* What a restore made that died is made again: it takes less time than to prove it. */
static int clear_journals(struct sc_restore *r, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	char path[PATH_MAX];
	int rc = sc_journal_list(&r->log, &names, NULL, err);

	for (size_t i = 0; rc == 0 && i < names.count; i++) {
		sc_journal_path(&r->log, names.items[i], path);
		if (sc_sys_unlink(path) < 0 && errno != ENOENT) {
			rc = sc_err_sys(err, SC_E_IO, errno, "cannot remove");
			sc_err_on(err, "journal", path);
		}
	}
	sc_journal_list_done(&names);
	remove_scratch(r);
	return rc;
}

static int apply(struct build *b, struct sc_span exts)
{
	struct sc_settings *now = &b->r->log.settings;
	struct sc_ext ext;
	int rc = 0;

	while (rc == 0 && sc_ext_next(&exts, &ext)) {
		/* one that came after the archive's log.json */
		if (ext.kind == SC_EXT_SCHEMA &&
		    ext.schema.version > sc_settings_schema(now).version)
			rc = sc_settings_add(now, &ext.schema, b->err);
		if (rc == 0)
			rc = sc_source_apply(b->txn, &ext, b->err);
	}
	return rc;
}

static int finish_journal(struct build *b)
{
	char path[PATH_MAX];
	int rc;

	if (b->fd < 0)
		return 0;
	if (sc_sys_fsync(b->fd) == 0 && sc_close(&b->fd) == 0)
		return 0;
	rc = sc_err_sys(b->err, SC_E_IO, errno, "cannot sync");
	sc_journal_path(&b->r->log, b->s->journal, path);
	sc_err_on(b->err, "journal", path);
	return rc;
}

static int wrong(struct build *b, const char *object, const char *what)
{
	sc_err_set(b->err, SC_E_DATA, TRIED, "%s; the last good offset is %llu", what,
		   (unsigned long long)b->s->last);
	sc_err_on(b->err, "file", object);
	sc_err_next(b->err, "put a good copy of the file back, or take what is whole: --partial");
	sc_err_field_str(b->err, "file", object);
	sc_err_field_u64(b->err, "last_good", b->s->last);
	return SC_E_DATA;
}

/* A new journal begins with this block. */
static int begin_journal(struct build *b, const struct sc_block *block, const char *data,
			 const char *object)
{
	struct sc_span exts = sc_span(data + SC_BLOCK_HEAD, block->ext_len);
	struct sc_state *s = b->s;
	char path[PATH_MAX];
	struct sc_ext ext;
	int rc;

	if (!sc_ext_next(&exts, &ext) || ext.kind != SC_EXT_ANCHOR)
		return wrong(b, object, "a block without rows is no anchor");
	if (!sc_span_is(ext.anchor.stream_id, b->r->archive.stream_id))
		return wrong(b, object, "it belongs to another stream than the archive's log.json");
	if (s->commit && (ext.anchor.rows != s->rows || ext.anchor.bytes != s->bytes))
		return wrong(b, object, "its counters are not those of what is before it");
	rc = finish_journal(b);
	if (rc < 0)
		return rc;
	if (!b->r->floor.offset)
		b->r->floor = (struct sc_floor){ block->first, ext.anchor.rows, ext.anchor.bytes };
	s->rows = ext.anchor.rows;
	s->bytes = ext.anchor.bytes;
	s->journal = block->first;
	s->next = block->first;
	s->end = 0;
	sc_journal_path(&b->r->log, s->journal, path);
	b->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (b->fd < 0) {
		rc = sc_err_sys(b->err, SC_E_IO, errno, "cannot create");
		sc_err_on(b->err, "journal", path);
		return rc;
	}
	return apply(b, exts);
}

static int take_block(struct build *b, const struct sc_block *block, const char *data,
		      const char *object)
{
	struct sc_state *s = b->s;
	char path[PATH_MAX];
	int rc = 0;

	if (!block->rows)
		rc = begin_journal(b, block, data, object);
	else if (b->fd < 0)
		rc = wrong(b, object, "the beginning of its journal is missing");
	else
		rc = apply(b, sc_span(data + SC_BLOCK_HEAD, block->ext_len));
	if (rc < 0)
		return rc;
	sc_journal_path(&b->r->log, s->journal, path);
	rc = sc_pwrite_all(b->fd, data, sc_block_size(block), (off_t)s->end, path, b->err);
	if (rc < 0)
		return rc;
	if (block->rows) {
		s->last = block->last;
		s->next = block->last + 1;
		b->r->report->shipped += block->rows;
		if (!b->r->pace_us)
			b->r->pace_us = block->appended_us;
		else
			b->r->pace_rows += block->rows;
	}
	s->rows += block->rows;
	s->bytes += block->body_len;
	s->end += sc_block_size(block);
	s->hash = block->hash;
	s->commit = block->commit;
	s->last_us = block->appended_us;
	b->open_commit = block->more;
	return 0;
}

/* The chain begins with the first anchor, or where it is: does this block go on with it? */
static bool joins(const struct build *b, const struct sc_block *block)
{
	if (b->s->last == 0 && b->fd < 0 && !b->r->archive.count)
		return block->rows == 0;
	return sc_hash_same(&block->prev, &b->s->hash);
}

/* 1; 0: what follows is not whole, and what is before is to be taken. */
static int take_object(struct build *b, const struct sc_archive_item *item)
{
	struct sc_archive_blocks *blocks = NULL;
	struct sc_block block;
	const char *data;
	uint64_t begin = item->first;
	int rc = sc_archive_blocks_open(&b->r->archive, item, &blocks, b->err);

	b->joined = false;
	while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, b->err)) == 1) {
		b->joined = b->joined || joins(b, &block);
		if (b->joined)
			rc = take_block(b, &block, data, sc_archive_blocks_name(blocks));
		else if (block.rows && block.last >= b->s->next)
			rc = sc_restore_hole(b->r, b->s->last + 1,
					     block.first > begin ? block.first : begin, b->err);
	}
	if (rc == 0 && b->open_commit)
		rc = wrong(b, sc_archive_blocks_name(blocks), "its last commit is not whole");
	sc_archive_blocks_close(blocks);
	return rc < 0 ? rc : 1;
}

/* Would it be taken whole? 0, or SC_E_DATA. */
static int probe_object(const struct build *b, const struct sc_archive_item *item)
{
	struct sc_archive_blocks *blocks = NULL;
	struct sc_block block = { .more = false };
	const char *data;
	bool joined = false;
	int rc = sc_archive_blocks_open(&b->r->archive, item, &blocks, b->err);

	while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, b->err)) == 1) {
		joined = joined || joins(b, &block);
		if (!joined && block.rows && block.last >= b->s->next)
			rc = SC_E_DATA;
	}
	sc_archive_blocks_close(blocks);
	return rc == 0 && block.more ? SC_E_DATA : rc;
}

static int take_objects(struct build *b)
{
	struct sc_restore *r = b->r;
	const struct sc_archive_items *ships = &r->archive.ships;
	int rc = 1;

	for (size_t i = sc_archive_at(ships->items, ships->count, r->state.next);
	     rc == 1 && i < ships->count; i++) {
		if (!sc_restore_goes_on(r, ships->items[i].bytes))
			break;
		if (r->o->partial) {
			rc = probe_object(b, &ships->items[i]);
			if (rc == SC_E_DATA || rc == SC_E_NOLOG) {
				sc_err_clear(b->err);
				return 0; /* up to here it is whole */
			}
		}
		if (rc >= 0)
			rc = take_object(b, &ships->items[i]);
	}
	return rc < 0 ? rc : 0;
}

int sc_restore_journals(struct sc_restore *r, struct sc_span checkpoint, struct sc_err *err)
{
	struct build b = { .r = r, .s = &r->state, .fd = -1, .err = err };
	char path[PATH_MAX];
	int rc = clear_journals(r, err);

	sc_log_file(&r->log, path, SCRATCH);
	if (rc == 0)
		rc = sc_index_open_kv(path, &b.kv, err);
	if (rc == 0)
		rc = sc_kv_write(b.kv, &b.txn, err);
	if (rc == 0)
		rc = apply(&b, checkpoint);
	if (rc == 0)
		rc = take_objects(&b);
	if (rc == 0)
		rc = finish_journal(&b);
	sc_bytes_clear(&r->checkpoint);
	if (rc == 0)
		rc = sc_source_checkpoint(b.txn, &r->checkpoint, err);
	sc_kv_abort(&b.txn);
	sc_kv_close(b.kv);
	sc_close(&b.fd);
	remove_scratch(r);
	return rc;
}
