/*
 * segment_read.c: the rows of a segment by offset, by time, by number: one frame unpacked at a
 * time.
 *
 * A frame is handed out only after its checksums, its lines and its commits were found to be what
 * the index says, so a run is right or there is an error.
 */
#include <stdlib.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/file.h"
#include "log/segment_internal.h"

#define TRIED "cannot read segment"

static int frame_damaged(const struct sc_segment *s, size_t index, const char *what,
			 struct sc_err *err)
{
	const struct sc_segment_frame *f = &s->frames[index];

	return sc_segment_damaged(s, f->at, index ? s->frames[index - 1].last : f->first - 1, what,
				  err);
}

/* The first frame that holds a row at or above OFFSET; info.frames: none. */
static size_t frame_of(const struct sc_segment *s, uint64_t offset)
{
	size_t low = 0, high = (size_t)s->info.frames;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->frames[mid].last < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static size_t frame_of_time(const struct sc_segment *s, int64_t when_us)
{
	size_t low = 0, high = (size_t)s->info.frames;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->frames[mid].last_us < when_us)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The frame and its table as they lie in the file. */
static int read_raw(struct sc_segment *s, const struct sc_segment_frame *f, const char **ret_data,
		    struct sc_err *err)
{
	uint64_t left = s->lines_end - f->at;
	size_t need = (size_t)f->packed + f->table, want = need;
	int rc;

	if (f->at >= s->raw_at && f->at + need <= s->raw_at + s->raw.len) {
		*ret_data = s->raw.data + (f->at - s->raw_at);
		return 0;
	}
	if (want < s->source.ahead)
		want = left < s->source.ahead ? (size_t)left : s->source.ahead;
	sc_bytes_clear(&s->raw);
	if (sc_bytes_reserve(&s->raw, want) < 0)
		return sc_err_nomem(err, TRIED);
	rc = s->source.read_at(&s->source, f->at, want, s->raw.data, err);
	if (rc < 0)
		return rc;
	s->raw.len = want;
	s->raw_at = f->at;
	*ret_data = s->raw.data;
	return 0;
}

/* DATA is exactly one zstd frame of SIZE bytes; unpacked into OUT. 1, 0 or SC_E_NOMEM */
static int unpack(struct sc_segment *s, struct sc_span data, size_t size, struct sc_bytes *out)
{
	size_t code;

	sc_bytes_clear(out);
	if (data.len < 4 || sc_get_le32(data.data) != SC_MAGIC_ZSTD ||
	    ZSTD_getFrameContentSize(data.data, data.len) != size ||
	    ZSTD_findFrameCompressedSize(data.data, data.len) != data.len)
		return 0;
	if (sc_bytes_reserve(out, size) < 0)
		return SC_E_NOMEM;
	code = ZSTD_decompressDCtx(s->dctx, out->data, size, data.data, data.len);
	if (ZSTD_isError(code) || code != size)
		return 0;
	out->len = size;
	return 1;
}

/* The table of commits behind frame F. 1, 0 or SC_E_NOMEM */
static int unpack_table(struct sc_segment *s, const struct sc_segment_frame *f, const char *data)
{
	struct sc_span plain = sc_span(data + SC_SKIP_HEAD + 1, f->table - SC_SKIP_HEAD - 1);
	int coding = data[SC_SKIP_HEAD], rc;

	if (sc_get_le32(data) != SC_MAGIC_TABLE || sc_get_le32(data + 4) != f->table - SC_SKIP_HEAD)
		return 0;
	if (coding == 1) {
		unsigned long long size = ZSTD_getFrameContentSize(plain.data, plain.len);

		if (size == 0 ||
		    size > sc_segment_table_max(f->rows)) /* also unknown, or no frame */
			return 0;
		rc = unpack(s, plain, (size_t)size, &s->plain);
		if (rc != 1)
			return rc;
		plain = sc_span(s->plain.data, s->plain.len);
	} else if (coding != 0) {
		return 0;
	}
	if (s->commit_cap < f->rows) {
		struct sc_segment_commit *grown = sc_realloc(s->commits, f->rows * sizeof(*grown));

		if (!grown)
			return SC_E_NOMEM;
		s->commits = grown;
		s->commit_cap = f->rows;
	}
	s->commit_count = sc_segment_table_get(plain, f, s->commits);
	return s->commit_count > 0;
}

/* The lines are those of frame F; fills in where each commit ends. */
static bool check_lines(struct sc_segment *s, const struct sc_segment_frame *f)
{
	const char *at = s->lines.data, *end = at + s->lines.len;
	uint64_t last = f->first - 1;

	for (size_t i = 0; i < s->commit_count; i++) {
		struct sc_segment_commit *c = &s->commits[i];

		for (uint32_t row = 0; row < c->rows; row++) {
			struct sc_span msg;
			uint64_t offset;

			at = sc_segment_line(at, end, &offset, &msg);
			if (!at || offset <= last)
				return false;
			if (row == 0)
				c->first = offset;
			last = offset;
		}
		c->last = last;
		c->end = (uint32_t)(at - s->lines.data);
	}
	return at == end && s->commits[0].first == f->first && last == f->last;
}

/* Make frame INDEX the one in hand. */
static int load(struct sc_segment *s, size_t index, struct sc_err *err)
{
	const struct sc_segment_frame *f = &s->frames[index];
	const char *data = NULL;
	int rc;

	if (s->frame == index)
		return 0;
	s->frame = (size_t)s->info.frames;
	rc = read_raw(s, f, &data, err);
	if (rc < 0)
		return rc;
	if (XXH3_64bits(data, (size_t)f->packed + f->table) != f->hash ||
	    sc_get_le32(data + f->packed - 4) != f->check)
		return frame_damaged(s, index, "a frame does not match its checksum", err);
	rc = unpack(s, sc_span(data, f->packed), f->size, &s->lines);
	if (rc == 0)
		return frame_damaged(s, index, "a frame does not unpack to what the index says",
				     err);
	if (rc == 1) {
		rc = unpack_table(s, f, data + f->packed);
		if (rc == 0)
			return frame_damaged(s, index, "the commits are not those of the frame",
					     err);
	}
	if (rc < 0)
		return sc_err_nomem(err, TRIED);
	if (!check_lines(s, f))
		return frame_damaged(s, index, "the lines are not those that the index counts",
				     err);
	s->frame = index;
	return 0;
}

/* Drop the rows below OFFSET off the front; *RET_ROWS and *RET_BYTES are how much that was. */
static void drop_below(struct sc_run *run, uint64_t offset, uint64_t *ret_rows, uint64_t *ret_bytes)
{
	const char *at = run->lines.data, *end = at + run->lines.len, *start = at, *next;
	uint64_t rows = 0, found = run->first;
	struct sc_span msg;

	while (found < offset && (next = sc_segment_line(at, end, &found, &msg)) &&
	       found < offset) {
		at = next;
		rows++;
	}
	run->lines = sc_span(at, (size_t)(end - at));
	run->rows -= rows;
	run->first = found;
	*ret_rows = rows;
	*ret_bytes = (uint64_t)(at - start);
}

/* Commit INDEX of the frame in hand. */
static struct sc_run commit_run(const struct sc_segment *s, size_t index)
{
	const struct sc_segment_commit *c = &s->commits[index];
	uint32_t begin = index ? s->commits[index - 1].end : 0;

	return (struct sc_run){
		.lines = sc_span(s->lines.data + begin, c->end - begin),
		.first = c->first,
		.last = c->last,
		.rows = c->rows,
		.appended_us = c->appended_us,
	};
}

/* The first commit of the frame in hand that reaches OFFSET (there is one). */
static size_t commit_of(const struct sc_segment *s, uint64_t offset)
{
	size_t low = 0, high = s->commit_count - 1;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (s->commits[mid].last < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void sc_segment_seek(struct sc_segment *s, uint64_t offset)
{
	s->offset = offset < s->info.first ? s->info.first : offset;
	s->rest.rows = 0;
	s->commit = SIZE_MAX;
}

uint64_t sc_segment_offset(const struct sc_segment *s)
{
	return s->rest.rows ? s->rest.first : s->offset;
}

/* s->rest becomes what comes next. 1, 0 or an error. */
static int fill(struct sc_segment *s, uint64_t *ret_rows, uint64_t *ret_bytes, struct sc_err *err)
{
	size_t index = frame_of(s, s->offset);
	int rc;

	if (index == s->info.frames)
		return 0;
	if (index != s->frame)
		s->commit = SIZE_MAX;
	rc = load(s, index, err);
	if (rc < 0)
		return rc;
	if (s->commit >= s->commit_count || s->commits[s->commit].last < s->offset ||
	    (s->commit && s->commits[s->commit - 1].last >= s->offset))
		s->commit = commit_of(s, s->offset);
	s->rest = commit_run(s, s->commit);
	drop_below(&s->rest, s->offset, ret_rows, ret_bytes);
	return 1;
}

/* Whole lines within MAX bytes, or one line, off the front of s->rest. */
static void cut(struct sc_segment *s, size_t max, struct sc_run *ret_run)
{
	const char *at = s->rest.lines.data, *end = at + s->rest.lines.len, *start = at;
	uint64_t rows = 0, last = s->rest.first, offset = 0;
	struct sc_span msg;

	while (at < end) {
		const char *next = sc_segment_line(at, end, &offset, &msg);

		if (!next || (rows && (size_t)(next - start) > max))
			break;
		last = offset;
		rows++;
		at = next;
	}
	*ret_run = s->rest;
	ret_run->lines.len = (size_t)(at - start);
	ret_run->rows = rows;
	ret_run->last = last;
	s->rest.lines = sc_span(at, (size_t)(end - at));
	s->rest.rows -= rows;
	if (s->rest.rows)
		s->rest.first = offset;
}

int sc_segment_next(struct sc_segment *s, size_t max_bytes, struct sc_run *ret_run,
		    struct sc_err *err)
{
	uint64_t rows, bytes;

	if (s->rest.rows == 0) {
		int rc = fill(s, &rows, &bytes, err);

		if (rc != 1)
			return rc;
	}
	if (max_bytes && s->rest.lines.len > max_bytes) {
		cut(s, max_bytes, ret_run);
	} else {
		*ret_run = s->rest;
		s->rest.rows = 0;
	}
	s->offset = ret_run->last + 1;
	if (s->rest.rows == 0)
		s->commit++;
	return 1;
}

int sc_segment_find(struct sc_segment *s, uint64_t offset, struct sc_segment_place *ret_place,
		    struct sc_err *err)
{
	uint64_t rows, bytes;
	int rc;

	sc_segment_seek(s, offset);
	rc = fill(s, &rows, &bytes, err);
	if (rc != 1)
		return rc;
	for (size_t i = 0; i < s->commit; i++)
		rows += s->commits[i].rows;
	bytes += s->commit ? s->commits[s->commit - 1].end : 0;
	*ret_place = (struct sc_segment_place){
		.offset = s->rest.first,
		.rows = s->frames[s->frame].rows_before + rows,
		.bytes = s->frames[s->frame].bytes_before + bytes,
		.appended_us = s->rest.appended_us,
	};
	return 1;
}

int sc_segment_find_time(struct sc_segment *s, int64_t when_us, struct sc_segment_place *ret_place,
			 struct sc_err *err)
{
	size_t index = frame_of_time(s, when_us), i = 0;
	int rc;

	if (index == s->info.frames) {
		sc_segment_seek(s, UINT64_MAX);
		return 0;
	}
	sc_segment_seek(s, s->frames[index].first);
	rc = load(s, index, err);
	if (rc < 0)
		return rc;
	while (s->commits[i].appended_us < when_us)
		i++; /* the last one is late enough */
	return sc_segment_find(s, s->commits[i].first, ret_place, err);
}

int sc_segment_find_row(struct sc_segment *s, uint64_t n, struct sc_segment_place *ret_place,
			struct sc_err *err)
{
	size_t low = 0, high = (size_t)s->info.frames - 1, i = 0;
	const char *at, *end;
	uint64_t offset;
	struct sc_span msg;
	int rc;

	if (n >= s->info.rows) {
		sc_segment_seek(s, UINT64_MAX);
		return 0;
	}
	while (low < high) {
		size_t mid = low + (high - low + 1) / 2;

		if (s->frames[mid].rows_before <= n)
			low = mid;
		else
			high = mid - 1;
	}
	sc_segment_seek(s, s->frames[low].first);
	rc = load(s, low, err);
	if (rc < 0)
		return rc;
	for (n -= s->frames[low].rows_before; n >= s->commits[i].rows; i++)
		n -= s->commits[i].rows;
	offset = s->commits[i].first;
	at = s->lines.data + (i ? s->commits[i - 1].end : 0);
	end = s->lines.data + s->lines.len;
	for (n++; n && at; n--)
		at = sc_segment_line(at, end, &offset, &msg);
	return sc_segment_find(s, offset, ret_place, err);
}

int sc_segment_verify(struct sc_segment *s, struct sc_err *err)
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t canonical;
	int rc = 0;

	if (!state)
		return sc_err_nomem(err, TRIED);
	XXH3_128bits_reset(state);
	sc_segment_seek(s, 0);
	s->frame = (size_t)s->info.frames; /* what was read before proves nothing now */
	s->raw.len = 0;
	for (size_t i = 0; rc == 0 && i < s->info.frames; i++) {
		rc = load(s, i, err);
		if (rc == 0)
			XXH3_128bits_update(state, s->lines.data, s->lines.len);
	}
	XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
	XXH3_freeState(state);
	if (rc == 0 && memcmp(canonical.digest, s->info.hash.bytes, SC_HASH_LEN) != 0)
		rc = sc_segment_damaged(s, 0, s->info.first - 1,
					"the lines do not match their checksum", err);
	return rc;
}
