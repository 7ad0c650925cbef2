/*
 * segment.c: a sealed segment's name, and its end: read, proved, closed.
 *
 * The index is found from the end: the seek table's last entry is the index. Everything that the
 * seek table says is also in the index, and both must agree, so that any reader of the seekable
 * format and we find the same frames.
 */
#include "log/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <xxhash.h>
#include <zstd.h>

#include "base/file.h"
#include "log/segment_internal.h"

#define TRIED "cannot read segment"

void sc_segment_name(uint64_t first, uint64_t last, char ret_name[SC_SEGMENT_NAME])
{
	snprintf(ret_name, SC_SEGMENT_NAME, "%020llu-%020llu.ndjson.zst", (unsigned long long)first,
		 (unsigned long long)last);
}

bool sc_segment_name_parse(const char *name, uint64_t *ret_first, uint64_t *ret_last)
{
	char again[SC_SEGMENT_NAME];
	uint64_t first, last;

	if (strlen(name) != SC_SEGMENT_NAME - 1 || !sc_u64_parse(sc_span(name, 20), &first) ||
	    !sc_u64_parse(sc_span(name + 21, 20), &last) || first == 0 || last < first ||
	    last >= UINT64_MAX - 1)
		return false;
	sc_segment_name(first, last, again);
	if (strcmp(name, again) != 0)
		return false;
	*ret_first = first;
	*ret_last = last;
	return true;
}

static int read_fd(const struct sc_segment_source *source, uint64_t at, size_t len, void *ret_data,
		   struct sc_err *err)
{
	size_t got = 0;
	int rc = sc_pread_all(source->fd, ret_data, len, (off_t)at, &got, source->name, err);

	if (rc < 0 || got == len)
		return rc;
	sc_err_set(err, SC_E_DATA, TRIED, "it became shorter while it was read");
	sc_err_on(err, "file", source->name);
	return SC_E_DATA;
}

int sc_segment_source_fd(int fd, const char *name, struct sc_segment_source *ret_source,
			 struct sc_err *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0) {
		int rc = sc_err_sys(err, SC_E_IO, errno, TRIED);

		sc_err_on(err, "file", name);
		return rc;
	}
	*ret_source = (struct sc_segment_source){
		.read_at = read_fd,
		.fd = fd,
		.size = (uint64_t)st.st_size,
		.name = name,
	};
	return 0;
}

int sc_segment_damaged(const struct sc_segment *s, uint64_t position, uint64_t last_good,
		       const char *what, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "at byte %llu %s; the last good offset is %llu",
		   (unsigned long long)position, what, (unsigned long long)last_good);
	sc_err_on(err, "file", s->source.name);
	sc_err_next(err, "put a good copy of the file back");
	sc_err_field_str(err, "file", s->source.name);
	sc_err_field_u64(err, "position", position);
	sc_err_field_u64(err, "last_good", last_good);
	return SC_E_DATA;
}

int sc_segment_unreadable(const char *name, uint64_t first, uint64_t last, struct sc_err *err)
{
	char reason[sizeof(err->reason)];

	if (!err)
		return SC_E_DATA;
	snprintf(reason, sizeof(reason), "%s", err->reason);
	/* it may say a last good offset, which it cannot know there */
	if (strstr(reason, "; the last good"))
		*strstr(reason, "; the last good") = 0;
	sc_err_set(err, SC_E_DATA, TRIED, "%s; the last good offset is %llu", reason,
		   (unsigned long long)(first - 1));
	sc_err_on(err, "file", name);
	sc_err_next(err, "put a good copy of the file back, or read on behind it, from %llu",
		    (unsigned long long)last + 1);
	sc_err_field_str(err, "file", name);
	sc_err_field_u64(err, "last_good", first - 1);
	return SC_E_DATA;
}

/* The last LEN bytes of the source into s->tail, which holds fewer of them or none. */
static int read_tail(struct sc_segment *s, size_t len, struct sc_err *err)
{
	size_t have = s->tail.len, more = len - have;

	if (more == 0)
		return 0;
	if (sc_bytes_reserve(&s->tail, more) < 0)
		return sc_err_nomem(err, TRIED);
	if (have)
		memmove(s->tail.data + more, s->tail.data, have);
	s->tail.len = len;
	return s->source.read_at(&s->source, s->source.size - len, more, s->tail.data, err);
}

static int no_segment(const struct sc_segment *s, const char *what, struct sc_err *err)
{
	return sc_segment_damaged(s, s->source.size, 0, what, err);
}

/* Of the seek table: number of entries and size; read it and the index whole. */
static int find_index(struct sc_segment *s, size_t *ret_count, size_t *ret_index_len,
		      struct sc_err *err)
{
	uint64_t size = s->source.size, count, table, index;
	const char *foot;
	int rc;

	if (size < SC_SKIP_HEAD + SC_SEEK_ENTRY + SC_SEEK_FOOT + SC_INDEX_HEAD)
		return no_segment(s, "it ends too early", err);
	rc = read_tail(s, size < SC_SEGMENT_TAIL ? (size_t)size : SC_SEGMENT_TAIL, err);
	if (rc < 0)
		return rc;
	foot = s->tail.data + s->tail.len - SC_SEEK_FOOT;
	count = sc_get_le32(foot);
	if (sc_get_le32(foot + 5) != SC_MAGIC_FOOT || (unsigned char)foot[4] != SC_SEEK_CHECKED)
		return no_segment(s, "there is no seek table: it is cut short, or no segment", err);
	table = SC_SKIP_HEAD + count * SC_SEEK_ENTRY + SC_SEEK_FOOT;
	if (count % 2 == 0 || count > 2 * SC_SEGMENT_FRAMES_MAX + 1 || table > size)
		return no_segment(s, "the seek table is not possible", err);
	rc = read_tail(s, table < s->tail.len ? s->tail.len : (size_t)table, err);
	if (rc < 0)
		return rc;
	foot = s->tail.data + s->tail.len - SC_SEEK_FOOT;
	index = sc_get_le32(foot - SC_SEEK_ENTRY);
	if (sc_get_le32(foot - count * SC_SEEK_ENTRY - SC_SKIP_HEAD) != SC_MAGIC_SEEK ||
	    sc_get_le32(foot - count * SC_SEEK_ENTRY - 4) != table - SC_SKIP_HEAD ||
	    index <= SC_INDEX_HEAD || index > SC_SEGMENT_INDEX_MAX || table + index > size)
		return no_segment(s, "the seek table is not possible", err);
	rc = read_tail(s, table + index < s->tail.len ? s->tail.len : (size_t)(table + index), err);
	if (rc < 0)
		return rc;
	s->lines_end = size - table - index;
	*ret_count = (size_t)count;
	*ret_index_len = (size_t)index;
	return 0;
}

static int damaged_index(const struct sc_segment *s, const char *what, struct sc_err *err)
{
	return sc_segment_damaged(s, s->lines_end, 0, what, err);
}

/* Does the seek table say what the frames say? */
static bool tables_agree(const struct sc_segment *s, size_t count, size_t index_len)
{
	const char *at = s->tail.data + s->tail.len - SC_SEEK_FOOT - count * SC_SEEK_ENTRY;
	const struct sc_segment_frame *last = &s->frames[s->info.frames - 1];

	if (count != 2 * s->info.frames + 1 ||
	    last->at + last->packed + last->table != s->lines_end)
		return false;
	for (size_t i = 0; i < count; i++, at += SC_SEEK_ENTRY) {
		const struct sc_segment_frame *f = &s->frames[i / 2];
		bool index = i == count - 1, lines = i % 2 == 0 && !index;
		uint32_t packed = index ? (uint32_t)index_len : lines ? f->packed : f->table;

		if (sc_get_le32(at) != packed || sc_get_le32(at + 4) != (lines ? f->size : 0) ||
		    sc_get_le32(at + 8) != (lines ? f->check : SC_EMPTY_CHECK))
			return false;
		if (index)
			break; /* there is no frame of that number */
	}
	return true;
}

static int newer_format(const struct sc_segment *s, struct sc_err *err)
{
	sc_err_set(err, SC_E_CONFIG, TRIED, "its format is not %d, which this program knows",
		   SC_SEGMENT_FORMAT);
	sc_err_on(err, "file", s->source.name);
	sc_err_next(err, "use a newer release");
	return SC_E_CONFIG;
}

static int read_index(struct sc_segment *s, struct sc_err *err)
{
	XXH128_canonical_t canonical;
	size_t count = 0, len = 0, json;
	const char *at, *what;
	char words[80];
	int rc = find_index(s, &count, &len, err);

	if (rc < 0)
		return rc;
	at = s->tail.data + s->tail.len - SC_SKIP_HEAD - count * SC_SEEK_ENTRY - SC_SEEK_FOOT - len;
	json = len - SC_INDEX_HEAD;
	if (sc_get_le32(at) != SC_MAGIC_INDEX || sc_get_le32(at + 4) != len - SC_SKIP_HEAD ||
	    memcmp(at + SC_SKIP_HEAD, sc_segment_tag, SC_INDEX_TAG_LEN - 1) != 0)
		return damaged_index(s, "there is no index", err);
	if (at[SC_SKIP_HEAD + SC_INDEX_TAG_LEN - 1] != sc_segment_tag[SC_INDEX_TAG_LEN - 1])
		return newer_format(s, err);
	XXH128_canonicalFromHash(&canonical, XXH3_128bits(at + SC_INDEX_HEAD, json));
	if (memcmp(at + SC_SKIP_HEAD + SC_INDEX_TAG_LEN, canonical.digest, SC_HASH_LEN) != 0)
		return damaged_index(s, "the index does not match its checksum", err);
	rc = sc_segment_index_get(sc_span(at + SC_INDEX_HEAD, json), &s->info, &s->checkpoint,
				  &s->frames, &what);
	if (rc == SC_E_NOMEM)
		return sc_err_nomem(err, TRIED);
	if (rc == SC_E_CONFIG)
		return newer_format(s, err);
	if (rc < 0) {
		snprintf(words, sizeof(words), "the index is not as it must be: %s", what);
		return damaged_index(s, words, err);
	}
	if (!tables_agree(s, count, len))
		return damaged_index(s, "the index and the seek table do not agree", err);
	s->info.file_bytes = s->source.size;
	return 0;
}

int sc_segment_open(const struct sc_segment_source *source, struct sc_segment **ret_segment,
		    struct sc_err *err)
{
	struct sc_segment *s = sc_calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return sc_err_nomem(err, TRIED);
	s->source = *source;
	sc_bytes_init(&s->tail, SC_SEGMENT_INDEX_MAX + (2u << 20));
	sc_bytes_init(&s->checkpoint, SC_BLOCK_EXT_MAX);
	sc_bytes_init(&s->raw, SIZE_MAX / 2);
	sc_bytes_init(&s->lines, SC_MESSAGE_MAX + 64);
	sc_bytes_init(&s->plain, sc_segment_table_max(SC_SEGMENT_FRAME));
	s->dctx = ZSTD_createDCtx();
	rc = s->dctx ? read_index(s, err) : sc_err_nomem(err, TRIED);
	if (rc < 0) {
		sc_segment_close(s);
		return rc;
	}
	s->frame = (size_t)s->info.frames;
	s->offset = s->info.first;
	*ret_segment = s;
	return 0;
}

void sc_segment_close(struct sc_segment *s)
{
	if (!s)
		return;
	ZSTD_freeDCtx(s->dctx);
	sc_bytes_done(&s->tail);
	sc_bytes_done(&s->checkpoint);
	sc_bytes_done(&s->raw);
	sc_bytes_done(&s->lines);
	sc_bytes_done(&s->plain);
	free(s->frames);
	free(s->commits);
	free(s);
}

const struct sc_segment_info *sc_segment_info(const struct sc_segment *s)
{
	return &s->info;
}

const struct sc_segment_frame *sc_segment_frame(const struct sc_segment *s, size_t index)
{
	return &s->frames[index];
}
