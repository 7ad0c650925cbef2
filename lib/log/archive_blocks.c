/*
 * archive_blocks.c: blocks of a journal in the archive, read by ranges.
 *
 * An object is a piece of one journal as it lay there: whole blocks, back to back, which end with a
 * commit. It is read a window at a time; every later range is held against the ETag of the first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "log/archive_internal.h"

#define TRIED "cannot read"
#define WINDOW (1u << 20)

struct sc_archive_blocks {
	struct sc_store *store;
	struct sc_archive_item item;
	char key[SC_ARCHIVE_KEY];
	char etag[SC_STORE_ETAG_SIZE];
	char name[1024]; /* for messages */
	uint64_t size;   /* of the object */
	uint64_t at;     /* of what is in BUF */
	size_t len, cap;
	char *buf;
	uint64_t pos; /* of the next block */
	struct sc_hash hash;
	uint64_t last_good;
	bool begun;
};

/* NEED bytes at the next block, or as many as there are: the first call tells the size. */
static int fill(struct sc_archive_blocks *b, size_t need, struct sc_err *err)
{
	size_t want = need > WINDOW ? need : WINDOW, got = 0;
	struct sc_store_info info;
	int rc;

	if (b->pos >= b->at && b->pos - b->at <= b->len && b->len - (b->pos - b->at) >= need)
		return 0;
	if (b->begun && want > b->size - b->pos)
		want = (size_t)(b->size - b->pos);
	if (want > b->cap) {
		char *buf = sc_malloc(want);

		if (!buf)
			return sc_err_nomem(err, TRIED);
		free(b->buf);
		b->buf = buf;
		b->cap = want;
	}
	b->len = 0;
	b->at = b->pos;
	if (want == 0)
		return 0;
	rc = sc_store_range(b->store, b->key, b->etag[0] ? b->etag : NULL, b->pos, want, b->buf,
			    &got, &info, err);
	if (rc < 0)
		return rc;
	if (!b->begun) {
		memcpy(b->etag, info.etag, sizeof(b->etag));
		b->size = info.size;
		b->begun = true;
	}
	b->len = got;
	return 0;
}

int sc_archive_blocks_open(struct sc_archive *archive, const struct sc_archive_item *item,
			   struct sc_archive_blocks **ret_blocks, struct sc_err *err)
{
	struct sc_archive_blocks *b = sc_calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return sc_err_nomem(err, TRIED);
	b->store = archive->store;
	b->item = *item;
	b->last_good = item->first - 1;
	sc_archive_ship_key(archive, item, b->key);
	snprintf(b->name, sizeof(b->name), "%s/%s", sc_store_url(archive->store), b->key);
	rc = fill(b, SC_BLOCK_HEAD, err);
	if (rc < 0) {
		sc_archive_blocks_close(b);
		return rc;
	}
	*ret_blocks = b;
	return 0;
}

void sc_archive_blocks_close(struct sc_archive_blocks *b)
{
	if (!b)
		return;
	free(b->buf);
	free(b);
}

const char *sc_archive_blocks_name(const struct sc_archive_blocks *b)
{
	return b->name;
}

static int damaged(const struct sc_archive_blocks *b, const char *what, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "%s at byte %llu; the last good offset is %llu", what,
		   (unsigned long long)b->pos, (unsigned long long)b->last_good);
	sc_err_on(err, "file", b->name);
	sc_err_next(err, "put a good copy of the file back, or read on behind it, from %llu",
		    (unsigned long long)b->item.last + 1);
	sc_err_field_str(err, "file", b->name);
	sc_err_field_u64(err, "position", b->pos);
	sc_err_field_u64(err, "last_good", b->last_good);
	return SC_E_DATA;
}

int sc_archive_blocks_next(struct sc_archive_blocks *b, struct sc_block *ret_block,
			   const char **ret_data, struct sc_err *err)
{
	struct sc_block block;
	const char *data;
	int rc;

	if (b->pos == b->size) {
		if (b->last_good != b->item.last)
			return damaged(b, "it does not end with the row that its name says", err);
		return 0;
	}
	rc = fill(b, SC_BLOCK_HEAD, err);
	if (rc < 0)
		return rc;
	data = b->buf + (b->pos - b->at);
	if (b->size - b->pos < SC_BLOCK_HEAD || b->len - (b->pos - b->at) < SC_BLOCK_HEAD ||
	    !sc_block_parse(data, &block) || sc_block_size(&block) > b->size - b->pos)
		return damaged(b, "there is no block", err);
	rc = fill(b, sc_block_size(&block), err);
	if (rc < 0)
		return rc;
	data = b->buf + (b->pos - b->at);
	if (b->len - (b->pos - b->at) < sc_block_size(&block) || !sc_block_check(data, &block))
		return damaged(b, "the block's checksum does not match", err);
	if (b->pos && !sc_hash_same(&block.prev, &b->hash))
		return damaged(b, "the chain is broken", err);
	if (block.rows && (block.first <= b->last_good || block.last > b->item.last))
		return damaged(b, "there are other rows than its name says", err);
	b->hash = block.hash;
	b->pos += sc_block_size(&block);
	if (block.rows)
		b->last_good = block.last;
	*ret_block = block;
	*ret_data = data;
	return 1;
}
