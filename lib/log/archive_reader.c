/*
 * archive_reader.c: the rows of an archive in order.
 *
 * A reader stands in one segment. Where one ends and the next begins, the next says how many rows
 * were appended before it: that must be as many as were there, so a segment that is missing is told
 * from offsets that were never given. A segment that is gone when it is to be read was given up or
 * put together with others: the archive is listed again, once a segment.
 *
 * Behind the last segment come the blocks that were shipped of journals. There the chain of hashes
 * tells whether something is missing: it leads from a segment's last block through all of them. An
 * object may begin with rows that were read already; one that is gone is in a segment by now. There
 * are such blocks between two segments, too, where the log gave up rows before they were sealed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"

#define TRIED "cannot read"

struct sc_archive_reader {
	struct sc_archive *archive;
	uint64_t offset; /* of the next row, or lower when rows are missing there */
	struct sc_archive_segment *segment; /* one of both, or none: to be looked up */
	struct sc_archive_blocks *blocks;
	struct sc_archive_item item; /* which it is */
	uint64_t first, last;        /* its rows */
	/* of the segment that was read before: the last row, and how many were appended up to
	 * there; last 0: not known */
	uint64_t before_last, before_rows;
	/* of the last block that was passed; not chained: not known */
	struct sc_hash chain;
	bool chained;
	bool joined;        /* the blocks in hand were found to follow it */
	struct sc_run rest; /* what is left of the block in hand */
	uint64_t gone;      /* the segment that begins there was not there: 0 = none */
	uint64_t gone_ship; /* the same of blocks */
	XXH3_state_t *hash; /* verifying: of the segment's lines */
	bool whole;         /* verifying: from its first row */
};

static int refuse(const struct sc_archive_reader *r, bool ahead, uint64_t bound, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   ahead ? "offset %llu is ahead of the archive's end, %llu"
			 : "offset %llu is not held any more; the earliest is %llu",
		   (unsigned long long)r->offset, (unsigned long long)bound);
	sc_err_on(err, "archive", r->archive->url);
	if (!ahead)
		sc_err_next(err, "start at the earliest");
	sc_err_field_str(err, "why", ahead ? "ahead" : "evicted");
	sc_err_field_u64(err, "offset", r->offset);
	sc_err_field_u64(err, ahead ? "end_offset" : "earliest", bound);
	return SC_E_REFUSED;
}

static int check_offset(const struct sc_archive_reader *r, struct sc_err *err)
{
	struct sc_archive_state state;

	sc_archive_state(r->archive, &state);
	if (r->offset < state.first_offset)
		return refuse(r, false, state.first_offset, err);
	if (r->offset > state.next_offset)
		return refuse(r, true, state.next_offset, err);
	return 0;
}

/* The rows above LAST and below FIRST were appended, and no segment has them. */
static int missing(const struct sc_archive_reader *r, uint64_t last, uint64_t first,
		   struct sc_err *err)
{
	struct sc_archive_item item = { .first = last + 1, .last = first - 1 };
	char file[1024], key[SC_ARCHIVE_KEY];

	sc_archive_key(r->archive, &item, key);
	snprintf(file, sizeof(file), "%s/%s", sc_store_url(r->archive->store), key);
	sc_err_set(err, SC_E_DATA, TRIED,
		   "segments are missing: none holds the rows between offsets %llu and %llu; the "
		   "last good "
		   "offset is %llu",
		   (unsigned long long)last, (unsigned long long)first, (unsigned long long)last);
	sc_err_on(err, "archive", r->archive->url);
	sc_err_next(err, "put them back, or read on behind them, from %llu",
		    (unsigned long long)first);
	sc_err_field_str(err, "file", file);
	sc_err_field_u64(err, "last_good", last);
	return SC_E_DATA;
}

static void leave(struct sc_archive_reader *r)
{
	sc_archive_segment_close(r->segment);
	sc_archive_blocks_close(r->blocks);
	r->segment = NULL;
	r->blocks = NULL;
	r->rest.rows = 0;
}

static uint64_t rows_behind(const struct sc_segment_info *info)
{
	return info->tie.rows_before + info->rows;
}

static struct sc_run run_of(const struct sc_block *block, const char *data)
{
	return (struct sc_run){
		.lines = sc_span(data + SC_BLOCK_HEAD + block->ext_len, block->body_len),
		.first = block->first,
		.last = block->last,
		.rows = block->rows,
		.appended_us = block->appended_us,
	};
}

/* How many rows were appended up to the end of the item before I. */
static int look_before(struct sc_archive_reader *r, size_t i, struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	int rc = sc_archive_segment_open(r->archive, &r->archive->items[i - 1], &segment, err);

	if (rc == 0) {
		r->before_last = r->archive->items[i - 1].last;
		r->before_rows = rows_behind(sc_segment_info(sc_archive_segment_inner(segment)));
	}
	sc_archive_segment_close(segment);
	return rc;
}

/* The rows of RUN below END. */
static void cut_end(struct sc_run *run, uint64_t end)
{
	const char *at = run->lines.data, *stop = at + run->lines.len;
	uint64_t rows = 0;

	while (at < stop) {
		const char *lf = memchr(at, '\n', (size_t)(stop - at));
		uint64_t offset = 0;

		for (const char *p = at + 1; p < stop && *p >= '0' && *p <= '9'; p++)
			offset = offset * 10 + (uint64_t)(*p - '0');
		if (offset >= end)
			break;
		run->last = offset;
		rows++;
		at = lf ? lf + 1 : stop;
	}
	run->rows = rows;
	run->lines.len = (size_t)(at - run->lines.data);
}

int sc_archive_rows_shipped(struct sc_archive *archive, uint64_t from, uint64_t end,
			    uint64_t *ret_rows, struct sc_err *err)
{
	const struct sc_archive_items *ships = &archive->ships;
	struct sc_archive_blocks *blocks;
	struct sc_block block;
	const char *data;
	uint64_t rows = 0;
	int rc = 0;

	for (size_t j = sc_archive_at(ships->items, ships->count, from);
	     rc >= 0 && j < ships->count && ships->items[j].first < end; j++) {
		blocks = NULL;
		rc = sc_archive_blocks_open(archive, &ships->items[j], &blocks, err);
		while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, err)) == 1) {
			struct sc_run run = run_of(&block, data);

			if (!block.rows || block.last < from || block.first >= end)
				continue;
			sc_reader_drop(&run, from);
			if (run.last >= end)
				cut_end(&run, end);
			rows += run.rows;
			from = run.rows ? run.last + 1 : from;
		}
		sc_archive_blocks_close(blocks);
	}
	*ret_rows = rows;
	return rc < 0 ? rc : 0;
}

int sc_archive_rows_between(struct sc_archive *archive, size_t i, uint64_t *ret_rows,
			    struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	uint64_t before = 0, after = 0;
	int rc = sc_archive_segment_open(archive, &archive->items[i], &segment, err);

	if (rc == 0)
		after = sc_segment_info(sc_archive_segment_inner(segment))->tie.rows_before;
	sc_archive_segment_close(segment);
	segment = NULL;
	if (rc == 0 && i > 0)
		rc = sc_archive_segment_open(archive, &archive->items[i - 1], &segment, err);
	if (rc == 0 && i > 0)
		before = rows_behind(sc_segment_info(sc_archive_segment_inner(segment)));
	sc_archive_segment_close(segment);
	*ret_rows = after - before;
	return rc;
}

/* Item I is open as SEGMENT, and nothing of what comes before it is held from r->offset on: is
 * nothing missing? */
static int check_join(struct sc_archive_reader *r, size_t i, struct sc_archive_segment *segment,
		      struct sc_err *err)
{
	const struct sc_archive_item *items = r->archive->items;
	const struct sc_segment_info *info = sc_segment_info(sc_archive_segment_inner(segment));
	uint64_t shipped;
	int rc = 0;

	if (items[i].first <= r->offset || i == 0)
		return 0; /* check_offset has compared it with the first one */
	if (r->before_last != items[i - 1].last)
		rc = look_before(r, i, err);
	if (rc < 0 || info->tie.rows_before == r->before_rows)
		return rc;
	rc = sc_archive_rows_shipped(r->archive, items[i - 1].last + 1, items[i].first, &shipped,
				     err);
	if (rc == 0 && info->tie.rows_before != r->before_rows + shipped)
		rc = missing(r, r->offset - 1, items[i].first, err);
	return rc;
}

/* It went: look what there is now. GONE notes it, so that this is done once. */
static int look_again(struct sc_archive_reader *r, const struct sc_archive_item *item,
		      uint64_t *gone, struct sc_err *err)
{
	uint64_t last = item->last;
	int rc;

	if (*gone == item->first)
		return missing(r, r->offset - 1, last + 1, err);
	*gone = item->first;
	rc = sc_archive_refresh(r->archive, err);
	return rc < 0 ? rc : check_offset(r, err);
}

/* The chain at the end of what is before ship J: another one, or a segment. */
static int chain_before(struct sc_archive_reader *r, size_t j, struct sc_err *err)
{
	struct sc_archive *archive = r->archive;
	const struct sc_archive_item *ships = archive->ships.items;
	size_t i = sc_archive_item_of(archive, ships[j].first);
	struct sc_archive_segment *segment = NULL;
	struct sc_archive_blocks *blocks = NULL;
	struct sc_block block;
	const char *data;
	int rc;

	if (j > 0 && (i == 0 || ships[j - 1].last > archive->items[i - 1].last)) {
		rc = sc_archive_blocks_open(archive, &ships[j - 1], &blocks, err);
		while (rc >= 0 && (rc = sc_archive_blocks_next(blocks, &block, &data, err)) == 1) {
			r->chain = block.hash;
			r->chained = true;
		}
		sc_archive_blocks_close(blocks);
		return rc;
	}
	if (i == 0)
		return 0;
	rc = sc_archive_segment_open(archive, &archive->items[i - 1], &segment, err);
	if (rc == 0) {
		r->chain = sc_segment_info(sc_archive_segment_inner(segment))->tie.after;
		r->chained = true;
	}
	sc_archive_segment_close(segment);
	return rc;
}

/* Before segment I, was something shipped that has the next row? */
static bool is_shipped(const struct sc_archive_reader *r, size_t i)
{
	const struct sc_archive_items *ships = &r->archive->ships;
	size_t j = sc_archive_at(ships->items, ships->count, r->offset);

	return r->archive->items[i].first > r->offset && j < ships->count &&
	       ships->items[j].first < r->archive->items[i].first;
}

/* Open the blocks with the next row. 1, or 0: there are none. */
static int enter_ship(struct sc_archive_reader *r, struct sc_err *err)
{
	struct sc_archive_items *ships = &r->archive->ships;
	struct sc_archive_blocks *blocks = NULL;
	size_t j = sc_archive_at(ships->items, ships->count, r->offset);
	int rc = 0;

	if (j == ships->count)
		return 0;
	if (!r->chained && ships->items[j].first > r->offset)
		rc = chain_before(r, j, err);
	if (rc == 0)
		rc = sc_archive_blocks_open(r->archive, &ships->items[j], &blocks, err);
	if (rc < 0) {
		sc_archive_blocks_close(blocks);
		return rc;
	}
	leave(r);
	r->blocks = blocks;
	r->first = ships->items[j].first;
	r->last = ships->items[j].last;
	r->joined = false;
	r->whole = false;
	return 1;
}

/* Open what has the next row. 1, or 0: nothing has. */
static int enter(struct sc_archive_reader *r, struct sc_err *err)
{
	struct sc_archive *archive = r->archive;
	struct sc_archive_segment *segment = NULL;
	struct sc_archive_item *item;
	size_t i;
	int rc;

	for (;;) {
		i = sc_archive_item_of(archive, r->offset);
		if (i == archive->count || is_shipped(r, i)) {
			const struct sc_archive_items *ships = &archive->ships;

			rc = enter_ship(r, err);
			i = sc_archive_at(ships->items, ships->count, r->offset);
			if (rc != SC_E_NOLOG)
				return rc;
			rc = look_again(r, &ships->items[i], &r->gone_ship, err);
			if (rc < 0)
				return rc;
			continue;
		}
		item = &archive->items[i];
		rc = sc_archive_segment_open(archive, item, &segment, err);
		if (rc == 0)
			rc = check_join(r, i, segment, err);
		if (rc != SC_E_NOLOG)
			break;
		sc_archive_segment_close(segment);
		segment = NULL;
		rc = look_again(r, item, &r->gone, err);
		if (rc < 0)
			return rc;
	}
	if (rc < 0) {
		sc_archive_segment_close(segment);
		return rc;
	}
	leave(r);
	r->segment = segment;
	r->item = *item;
	r->first = item->first;
	r->last = item->last;
	r->whole = r->offset <= item->first;
	if (r->hash)
		XXH3_128bits_reset(r->hash);
	sc_segment_seek(sc_archive_segment_inner(segment), r->offset);
	return 1;
}

int sc_archive_reader_open(struct sc_archive *archive, uint64_t from,
			   struct sc_archive_reader **ret_reader, struct sc_err *err)
{
	struct sc_archive_reader *r = sc_calloc(1, sizeof(*r));
	struct sc_archive_state state;
	int rc;

	if (!r)
		return sc_err_nomem(err, TRIED);
	sc_archive_state(archive, &state);
	r->archive = archive;
	r->offset = from ? from : state.first_offset;
	rc = check_offset(r, err);
	if (rc == 0)
		rc = enter(r, err);
	if (rc < 0) {
		sc_archive_reader_close(r);
		return rc;
	}
	*ret_reader = r;
	return 0;
}

void sc_archive_reader_close(struct sc_archive_reader *r)
{
	if (!r)
		return;
	leave(r);
	XXH3_freeState(r->hash);
	free(r);
}

/* The segment in hand is read to its end. */
static int finish(struct sc_archive_reader *r, struct sc_err *err)
{
	const struct sc_segment_info *info = sc_segment_info(sc_archive_segment_inner(r->segment));
	XXH128_canonical_t canonical;
	int rc = 0;

	if (r->hash && r->whole) {
		XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(r->hash));
		if (memcmp(canonical.digest, info->hash.bytes, SC_HASH_LEN) != 0) {
			char key[SC_ARCHIVE_KEY];

			sc_archive_key(r->archive, &r->item, key);
			rc = sc_err_set(err, SC_E_DATA, TRIED,
					"the lines do not match their checksum; the last good "
					"offset is %llu",
					(unsigned long long)(r->first - 1));
			sc_archive_err(r->archive, key, err);
			sc_err_field_u64(err, "last_good", r->first - 1);
		}
	}
	r->before_last = r->last;
	r->before_rows = rows_behind(info);
	r->chain = info->tie.after;
	r->chained = true;
	leave(r);
	return rc;
}

/* The next rows of the blocks in hand into r->rest. 1; 0: these are read to their end. */
static int next_block(struct sc_archive_reader *r, struct sc_err *err)
{
	struct sc_block block;
	const char *data;
	int rc;

	while ((rc = sc_archive_blocks_next(r->blocks, &block, &data, err)) == 1) {
		if (!r->joined)
			r->joined = !r->chained || sc_hash_same(&block.prev, &r->chain);
		if (!r->joined && block.last >= r->offset && block.rows)
			return missing(r, r->offset - 1, block.first, err);
		if (r->joined) {
			r->chain = block.hash;
			r->chained = true;
		}
		if (!r->joined || !block.rows || block.last < r->offset)
			continue;
		r->rest = run_of(&block, data);
		sc_reader_drop(&r->rest, r->offset);
		if (r->rest.rows)
			return 1;
	}
	return rc;
}

static int next_of_blocks(struct sc_archive_reader *r, size_t max_bytes, struct sc_run *ret_run,
			  struct sc_err *err)
{
	int rc = r->rest.rows ? 1 : next_block(r, err);

	if (rc != 1)
		return rc;
	if (max_bytes && r->rest.lines.len > max_bytes) {
		sc_reader_cut(&r->rest, max_bytes, ret_run);
	} else {
		*ret_run = r->rest;
		r->rest.rows = 0;
	}
	return 1;
}

int sc_archive_reader_next(struct sc_archive_reader *r, size_t max_bytes, struct sc_run *ret_run,
			   struct sc_err *err)
{
	int rc;

	for (;;) {
		if (!r->segment && !r->blocks) {
			rc = enter(r, err);
			if (rc != 1)
				return rc;
		}
		rc = r->blocks ? next_of_blocks(r, max_bytes, ret_run, err)
			       : sc_segment_next(sc_archive_segment_inner(r->segment), max_bytes,
						 ret_run, err);
		if (rc == SC_E_NOLOG && (r->blocks ? r->gone_ship : r->gone) != r->first) {
			leave(r); /* it went while we read it */
			continue;
		}
		if (rc < 0)
			return rc;
		if (rc == 1)
			break;
		if (r->blocks)
			leave(r);
		else
			rc = finish(r, err);
		if (rc < 0)
			return rc;
	}
	if (r->hash && !r->blocks)
		XXH3_128bits_update(r->hash, ret_run->lines.data, ret_run->lines.len);
	r->offset = ret_run->last + 1;
	return 1;
}

static int prove(struct sc_archive_reader *r, uint64_t end, XXH3_state_t *all,
		 struct sc_log_proof *proof, struct sc_err *err)
{
	struct sc_run run;
	uint64_t counted = 0; /* where the segment that was counted last begins */
	int rc = 0;

	while (r->offset < end && (rc = sc_archive_reader_next(r, 0, &run, err)) == 1) {
		if (run.first >= end)
			break;
		if (r->first != counted) {
			counted = r->first;
			proof->segments += !r->blocks;
			proof->journals += r->blocks != NULL;
			if (r->segment)
				proof->blocks += sc_segment_info(
							 sc_archive_segment_inner(r->segment))
							 ->frames;
		}
		proof->blocks += r->blocks != NULL;
		if (run.last >= end)
			cut_end(&run, end);
		XXH3_128bits_update(all, run.lines.data, run.lines.len);
		proof->rows += run.rows;
		proof->bytes += run.lines.len;
		proof->first = proof->first ? proof->first : run.first;
		proof->last = run.last;
	}
	if (rc >= 0 && r->segment && r->offset > r->last)
		rc = finish(r, err);
	return rc < 0 ? rc : 0;
}

int sc_archive_prove(struct sc_archive *archive, uint64_t from, uint64_t end, XXH3_state_t *all,
		     struct sc_log_proof *proof, struct sc_err *err)
{
	struct sc_archive_reader *r = NULL;
	int rc = sc_archive_reader_open(archive, from, &r, err);

	if (rc < 0)
		return rc;
	r->hash = XXH3_createState();
	if (r->hash) {
		XXH3_128bits_reset(r->hash);
		rc = prove(r, end, all, proof, err);
	} else {
		rc = sc_err_nomem(err, TRIED);
	}
	sc_archive_reader_close(r);
	return rc;
}

int sc_archive_verify(struct sc_archive *archive, uint64_t from, uint64_t end,
		      struct sc_log_proof *ret_proof, struct sc_err *err)
{
	struct sc_log_proof proof = { .rows = 0 };
	XXH3_state_t *all = XXH3_createState();
	int rc;

	if (!all)
		return sc_err_nomem(err, TRIED);
	XXH3_128bits_reset(all);
	rc = sc_archive_prove(archive, from, end, all, &proof, err);
	if (rc == 0) {
		sc_log_proof_hash(all, &proof);
		*ret_proof = proof;
	}
	XXH3_freeState(all);
	return rc;
}
