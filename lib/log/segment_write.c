/*
 * segment_write.c: lines into a sealed segment.
 *
 * The same rows with the same times make the same bytes, however they are handed in: frames are cut
 * by the lines alone, commits are told apart by their time alone, and zstd is used in one thread.
 * Each frame is written at once; what is kept in memory is one frame and some numbers of each.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/file.h"
#include "log/segment_internal.h"

#define TRIED "cannot seal"

struct sc_segment_writer {
	struct sc_segment_begin o;
	struct sc_segment_info info;
	ZSTD_CCtx *cctx;
	XXH3_state_t *hash; /* of all lines */
	struct sc_segment_stats *stats;
	/* the frame that is being filled */
	struct sc_bytes lines;
	uint64_t first;
	uint32_t rows;
	struct sc_segment_commit *commits;
	size_t commit_count, commit_cap;
	/* what is written */
	struct sc_bytes packed, plain;
	struct sc_segment_frame *frames;
	size_t frame_cap;
	uint64_t pos;
};

static int wrong(const struct sc_segment_writer *w, const char *what, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "%s after offset %llu", what,
		   (unsigned long long)w->info.last);
	sc_err_on(err, "file", w->o.name);
	return SC_E_DATA;
}

static int zstd_failed(const struct sc_segment_writer *w, size_t code, struct sc_err *err)
{
	if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
		return sc_err_nomem(err, TRIED);
	sc_err_set(err, SC_E_INTERNAL, TRIED, "zstd: %s", ZSTD_getErrorName(code));
	return sc_err_on(err, "file", w->o.name);
}

static int set_up(struct sc_segment_writer *w, struct sc_err *err)
{
	size_t code;

	w->cctx = ZSTD_createCCtx();
	w->hash = XXH3_createState();
	w->stats = sc_segment_stats_new(w->o.schema);
	if (!w->cctx || !w->hash || !w->stats)
		return sc_err_nomem(err, TRIED);
	XXH3_128bits_reset(w->hash);
	code = ZSTD_CCtx_setParameter(w->cctx, ZSTD_c_compressionLevel,
				      w->o.level ? w->o.level : SC_SEGMENT_LEVEL);
	if (!ZSTD_isError(code))
		code = ZSTD_CCtx_setParameter(w->cctx, ZSTD_c_checksumFlag, 1);
	if (ZSTD_isError(code))
		return zstd_failed(w, code, err);
	if (ftruncate(w->o.fd, 0) < 0) {
		sc_err_sys(err, SC_E_IO, errno, TRIED);
		return sc_err_on(err, "file", w->o.name);
	}
	return 0;
}

int sc_segment_write_begin(const struct sc_segment_begin *begin,
			   struct sc_segment_writer **ret_writer, struct sc_err *err)
{
	struct sc_segment_writer *w = sc_calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return sc_err_nomem(err, TRIED);
	w->o = *begin;
	sc_bytes_init(&w->lines, SC_SEGMENT_FRAME);
	sc_bytes_init(&w->packed, SC_SEGMENT_INDEX_MAX + (4u << 20));
	sc_bytes_init(&w->plain, SC_SEGMENT_INDEX_MAX);
	rc = set_up(w, err);
	if (rc == 0 && (strlen(begin->stream_id) == 0 ||
			strlen(begin->stream_id) >= sizeof(w->info.stream_id)))
		rc = sc_err_set(err, SC_E_INTERNAL, TRIED, "the stream's id is of no use");
	if (rc < 0) {
		sc_segment_write_free(w);
		return rc;
	}
	memcpy(w->info.stream_id, begin->stream_id, strlen(begin->stream_id) + 1);
	*ret_writer = w;
	return 0;
}

void sc_segment_write_free(struct sc_segment_writer *w)
{
	if (!w)
		return;
	ZSTD_freeCCtx(w->cctx);
	XXH3_freeState(w->hash);
	sc_segment_stats_free(w->stats);
	sc_bytes_done(&w->lines);
	sc_bytes_done(&w->packed);
	sc_bytes_done(&w->plain);
	free(w->commits);
	free(w->frames);
	free(w);
}

uint64_t sc_segment_write_bytes(const struct sc_segment_writer *w)
{
	return w->info.bytes + w->lines.len;
}

static int grow_frames(struct sc_segment_writer *w, struct sc_err *err)
{
	size_t cap = w->frame_cap ? w->frame_cap * 2 : 64;
	struct sc_segment_frame *grown;

	if (w->info.frames < w->frame_cap)
		return 0;
	if (w->info.frames == SC_SEGMENT_FRAMES_MAX) {
		sc_err_set(err, SC_E_CONFIG, TRIED, "a segment holds at most %d frames",
			   SC_SEGMENT_FRAMES_MAX);
		sc_err_on(err, "file", w->o.name);
		return sc_err_next(err, "seal at a smaller size");
	}
	grown = sc_realloc(w->frames, cap * sizeof(*grown));
	if (!grown)
		return sc_err_nomem(err, TRIED);
	w->frames = grown;
	w->frame_cap = cap;
	return 0;
}

/* DATA as a zstd frame behind what PACKED holds: its size, or an error. */
static int compress(struct sc_segment_writer *w, struct sc_span data, size_t *ret_len,
		    struct sc_err *err)
{
	size_t code;

	if (sc_bytes_reserve(&w->packed, ZSTD_compressBound(data.len) + 16) < 0)
		return sc_err_nomem(err, TRIED);
	code = ZSTD_compress2(w->cctx, w->packed.data + w->packed.len,
			      w->packed.cap - w->packed.len, data.data, data.len);
	if (ZSTD_isError(code))
		return zstd_failed(w, code, err);
	w->packed.len += code;
	*ret_len = code;
	return 0;
}

/* The frame's commits, behind it: as they are, or packed where that is shorter. */
static int put_table(struct sc_segment_writer *w, struct sc_segment_frame *f, struct sc_err *err)
{
	size_t head = w->packed.len, len;
	int rc;

	sc_bytes_clear(&w->plain);
	if (sc_segment_table_put(w->commits, w->commit_count, &w->plain) < 0 ||
	    sc_bytes_reserve(&w->packed, SC_SKIP_HEAD + 1 + w->plain.len) < 0)
		return sc_err_nomem(err, TRIED);
	w->packed.len += SC_SKIP_HEAD + 1;
	rc = compress(w, sc_span(w->plain.data, w->plain.len), &len, err);
	if (rc < 0)
		return rc;
	w->packed.data[head + SC_SKIP_HEAD] = 1;
	if (len >= w->plain.len) {
		len = w->plain.len;
		memcpy(w->packed.data + head + SC_SKIP_HEAD + 1, w->plain.data, len);
		w->packed.data[head + SC_SKIP_HEAD] = 0;
		w->packed.len = head + SC_SKIP_HEAD + 1 + len;
	}
	sc_put_le32(w->packed.data + head, SC_MAGIC_TABLE);
	sc_put_le32(w->packed.data + head + 4, (uint32_t)(len + 1));
	f->table = (uint32_t)(SC_SKIP_HEAD + 1 + len);
	return 0;
}

/* LINES, which the numbers of the frame being filled speak of, become a frame. */
static int put_frame(struct sc_segment_writer *w, struct sc_span lines, struct sc_err *err)
{
	struct sc_segment_frame *f;
	size_t packed;
	int rc = grow_frames(w, err);

	if (rc < 0)
		return rc;
	f = &w->frames[w->info.frames];
	*f = (struct sc_segment_frame){
		.at = w->pos,
		.size = (uint32_t)lines.len,
		.rows = w->rows,
		.first = w->first,
		.last = w->info.last,
		.first_us = w->commits[0].appended_us,
		.last_us = w->commits[w->commit_count - 1].appended_us,
		.rows_before = w->info.rows,
		.bytes_before = w->info.bytes,
	};
	sc_bytes_clear(&w->packed);
	rc = compress(w, lines, &packed, err);
	if (rc < 0)
		return rc;
	f->packed = (uint32_t)packed;
	/* the frame ends with the checksum that the seek table wants */
	f->check = sc_get_le32(w->packed.data + packed - 4);
	rc = put_table(w, f, err);
	if (rc < 0)
		return rc;
	f->hash = XXH3_64bits(w->packed.data, w->packed.len);
	rc = sc_pwrite_all(w->o.fd, w->packed.data, w->packed.len, (off_t)w->pos, w->o.name, err);
	if (rc < 0)
		return rc;
	XXH3_128bits_update(w->hash, lines.data, lines.len);
	w->pos += w->packed.len;
	w->info.frames++;
	w->info.rows += w->rows;
	w->info.bytes += lines.len;
	w->rows = 0;
	w->commit_count = 0;
	sc_bytes_clear(&w->lines);
	return 0;
}

/* One more row in the frame being filled. */
static int note_row(struct sc_segment_writer *w, uint64_t offset, int64_t appended_us,
		    struct sc_err *err)
{
	if (!w->rows++)
		w->first = offset;
	w->info.last = offset;
	w->info.last_us = appended_us;
	if (w->commit_count && w->commits[w->commit_count - 1].appended_us == appended_us) {
		w->commits[w->commit_count - 1].rows++;
		return 0;
	}
	if (w->commit_count == w->commit_cap) {
		size_t cap = w->commit_cap ? w->commit_cap * 2 : 64;
		struct sc_segment_commit *grown = sc_realloc(w->commits, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, TRIED);
		w->commits = grown;
		w->commit_cap = cap;
	}
	w->commits[w->commit_count++] = (struct sc_segment_commit){ .appended_us = appended_us,
								    .rows = 1 };
	return 0;
}

/* Lines FROM to TO belong to the frame being filled. */
static int take_lines(struct sc_segment_writer *w, const char *from, const char *to,
		      struct sc_err *err)
{
	if (to == from)
		return 0;
	return sc_bytes_put(&w->lines, from, (size_t)(to - from)) < 0 ? sc_err_nomem(err, TRIED)
								      : 0;
}

static int add_lines(struct sc_segment_writer *w, const struct sc_run *run, struct sc_err *err)
{
	const char *at = run->lines.data, *end = at + run->lines.len, *kept = at;
	int rc = 0;

	while (rc == 0 && at < end) {
		struct sc_span msg;
		uint64_t offset;
		const char *next = sc_segment_line(at, end, &offset, &msg);
		size_t len;

		if (!next || offset <= w->info.last)
			return wrong(w, "a line is not what its run says", err);
		len = (size_t)(next - at);
		/* over the frame's size: it ends before this line */
		if (w->rows && w->lines.len + (size_t)(next - kept) > SC_SEGMENT_FRAME) {
			rc = take_lines(w, kept, at, err);
			kept = at;
			if (rc == 0)
				rc = put_frame(w, sc_span(w->lines.data, w->lines.len), err);
		}
		if (rc == 0)
			rc = note_row(w, offset, run->appended_us, err);
		if (rc == 0 && sc_segment_stats_row(w->stats, msg) < 0)
			rc = sc_err_nomem(err, TRIED);
		if (rc == 0 && len > SC_SEGMENT_FRAME) {
			rc = put_frame(w, sc_span(at, len), err);
			kept = next;
		}
		at = next;
	}
	return rc < 0 ? rc : take_lines(w, kept, end, err);
}

int sc_segment_write_add(struct sc_segment_writer *w, const struct sc_run *run, struct sc_err *err)
{
	uint64_t rows = w->info.rows + w->rows;
	int rc;

	if (run->rows == 0)
		return 0;
	if (run->first <= w->info.last || run->last == UINT64_MAX)
		return wrong(w, "the offsets do not rise", err);
	if (rows && run->appended_us < w->info.last_us)
		return wrong(w, "the times do not rise", err);
	if (!rows) {
		w->info.first = run->first;
		w->info.first_us = run->appended_us;
	}
	rc = add_lines(w, run, err);
	if (rc < 0)
		return rc;
	if (w->info.rows + w->rows - rows != run->rows || w->info.last != run->last)
		return wrong(w, "the lines are not those that the run counts", err);
	return 0;
}

/* Index and seek table into PACKED. */
static int put_tail(struct sc_segment_writer *w, struct sc_span columns, struct sc_err *err)
{
	struct sc_bytes *out = &w->packed;
	XXH128_canonical_t canonical;
	size_t json, count = w->info.frames * 2 + 1, size = count * SC_SEEK_ENTRY + SC_SEEK_FOOT;
	char *at;

	sc_bytes_clear(out);
	if (sc_bytes_reserve(out, SC_INDEX_HEAD) < 0)
		return sc_err_nomem(err, TRIED);
	out->len = SC_INDEX_HEAD;
	if (sc_segment_index_put(&w->info, columns, w->frames, out) < 0 ||
	    out->len > SC_SEGMENT_INDEX_MAX || sc_bytes_reserve(out, SC_SKIP_HEAD + size) < 0) {
		if (!out->full && out->len <= SC_SEGMENT_INDEX_MAX)
			return sc_err_nomem(err, TRIED);
		sc_err_set(err, SC_E_CONFIG, TRIED, "its index would be over %d MiB",
			   SC_SEGMENT_INDEX_MAX >> 20);
		sc_err_on(err, "file", w->o.name);
		return sc_err_next(err, "seal at a smaller size");
	}
	json = out->len - SC_INDEX_HEAD;
	sc_put_le32(out->data, SC_MAGIC_INDEX);
	sc_put_le32(out->data + 4, (uint32_t)(out->len - SC_SKIP_HEAD));
	memcpy(out->data + SC_SKIP_HEAD, sc_segment_tag, SC_INDEX_TAG_LEN);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(out->data + SC_INDEX_HEAD, json));
	memcpy(out->data + SC_SKIP_HEAD + SC_INDEX_TAG_LEN, canonical.digest, SC_HASH_LEN);

	at = out->data + out->len;
	sc_put_le32(at, SC_MAGIC_SEEK);
	sc_put_le32(at + 4, (uint32_t)size);
	at += SC_SKIP_HEAD;
	for (size_t i = 0; i < count; i++, at += SC_SEEK_ENTRY) {
		const struct sc_segment_frame *f = &w->frames[i / 2];
		bool index = i == count - 1, lines = i % 2 == 0 && !index;

		sc_put_le32(at, index ? (uint32_t)out->len : lines ? f->packed : f->table);
		sc_put_le32(at + 4, lines ? f->size : 0);
		sc_put_le32(at + 8, lines ? f->check : SC_EMPTY_CHECK);
	}
	sc_put_le32(at, (uint32_t)count);
	at[4] = (char)SC_SEEK_CHECKED;
	sc_put_le32(at + 5, SC_MAGIC_FOOT);
	out->len += SC_SKIP_HEAD + size;
	return 0;
}

static int write_tail(struct sc_segment_writer *w, struct sc_err *err)
{
	struct sc_bytes columns;
	int rc = 0;

	sc_bytes_init(&columns, SC_SEGMENT_INDEX_MAX);
	if (sc_segment_stats_put(w->stats, &columns) < 0)
		rc = sc_err_nomem(err, TRIED);
	if (rc == 0)
		rc = put_tail(w, sc_span(columns.data, columns.len), err);
	sc_bytes_done(&columns);
	if (rc == 0)
		rc = sc_pwrite_all(w->o.fd, w->packed.data, w->packed.len, (off_t)w->pos, w->o.name,
				   err);
	if (rc < 0)
		return rc;
	w->pos += w->packed.len;
	if (sc_sys_fsync(w->o.fd) < 0) {
		sc_err_sys(err, SC_E_IO, errno, TRIED);
		return sc_err_on(err, "file", w->o.name);
	}
	return 0;
}

int sc_segment_write_finish(struct sc_segment_writer *w, const struct sc_segment_tie *tie,
			    struct sc_segment_info *ret_info, struct sc_err *err)
{
	XXH128_canonical_t canonical;
	int rc = 0;

	if (w->rows)
		rc = put_frame(w, sc_span(w->lines.data, w->lines.len), err);
	if (rc == 0 && (w->info.rows == 0 || tie->next <= w->info.last))
		rc = wrong(w, "there are no rows, or the frontier is not", err);
	if (rc < 0)
		return rc;
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(w->hash));
	memcpy(w->info.hash.bytes, canonical.digest, SC_HASH_LEN);
	w->info.tie = *tie;
	w->info.schema = w->o.schema ? sc_schema_text(w->o.schema) : sc_span(NULL, 0);
	rc = write_tail(w, err);
	if (rc < 0)
		return rc;
	w->info.file_bytes = w->pos;
	*ret_info = w->info;
	return 0;
}
