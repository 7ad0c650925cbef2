/*
 * tests/fuzz/segment.c: any bytes as a sealed segment, as its index and as a table of commits: no
 * crash, no runaway, and what is handed out holds together.
 *
 * Checksums would keep a fuzzer out, so they are made right: first the index's, then that of each
 * frame.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "log/segment_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
	char *data;
	size_t len;
};

static int read_memory(const struct sc_segment_source *source, uint64_t at, size_t len,
		       void *ret_data, struct sc_err *err)
{
	const struct memory *memory = source->arg;

	(void)err;
	if (at > memory->len || len > memory->len - at)
		abort();
	memcpy(ret_data, memory->data + at, len);
	return 0;
}

static struct sc_segment *open_it(struct memory *memory)
{
	struct sc_segment_source source = {
		.read_at = read_memory, .arg = memory, .size = memory->len, .name = "segment"
	};
	struct sc_segment *s = NULL;

	return sc_segment_open(&source, &s, NULL) == 0 ? s : NULL;
}

static void walk(struct sc_segment *s, size_t max)
{
	const struct sc_segment_info *info = sc_segment_info(s);
	uint64_t rows = 0, next = 0, last = 0;
	int64_t us = INT64_MIN;
	struct sc_run run;
	int rc;

	sc_segment_seek(s, 0);
	while ((rc = sc_segment_next(s, max, &run, NULL)) == 1) {
		uint64_t lines = 0;

		if (run.first <= last || run.last < run.first || run.appended_us < us ||
		    run.lines.len == 0 || run.lines.data[run.lines.len - 1] != '\n')
			abort();
		for (size_t i = 0; i < run.lines.len; i++)
			lines += run.lines.data[i] == '\n';
		if (lines != run.rows)
			abort();
		last = run.last;
		us = run.appended_us;
		rows += run.rows;
		next++;
	}
	if (rc == 0 && (rows != info->rows || last != info->last))
		abort();
}

static void look_around(struct sc_segment *s)
{
	const struct sc_segment_info info = *sc_segment_info(s);
	struct sc_segment_place place;

	walk(s, 0);
	walk(s, 40);
	if (sc_segment_find(s, info.first / 2 + info.last / 2, &place, NULL) == 1 &&
	    (place.offset < info.first || place.offset > info.last || place.rows >= info.rows))
		abort();
	if (sc_segment_find_time(s, info.first_us / 2 + info.last_us / 2, &place, NULL) == 1 &&
	    place.rows >= info.rows)
		abort();
	if (sc_segment_find_row(s, info.rows / 2, &place, NULL) == 1 && place.rows != info.rows / 2)
		abort();
	(void)sc_segment_verify(s, NULL);
}

/* The index's checksum, made right. */
static bool sign(struct memory *m)
{
	uint64_t count, table, index;
	XXH128_canonical_t canonical;
	char *at;

	if (m->len < SC_SEEK_FOOT)
		return false;
	count = sc_get_le32(m->data + m->len - SC_SEEK_FOOT);
	table = SC_SKIP_HEAD + count * SC_SEEK_ENTRY + SC_SEEK_FOOT;
	if (count == 0 || table > m->len)
		return false;
	index = sc_get_le32(m->data + m->len - SC_SEEK_FOOT - SC_SEEK_ENTRY);
	if (index <= SC_INDEX_HEAD || table + index > m->len)
		return false;
	at = m->data + m->len - table - index;
	XXH128_canonicalFromHash(&canonical,
				 XXH3_128bits(at + SC_INDEX_HEAD, index - SC_INDEX_HEAD));
	memcpy(at + SC_SKIP_HEAD + SC_INDEX_TAG_LEN, canonical.digest, SC_HASH_LEN);
	return true;
}

/* The frames' checksums, made right: their old texts are looked for in the index. */
static void sign_frames(struct memory *m, const struct sc_segment *s)
{
	static const char digits[] = "0123456789abcdef";
	uint64_t count = sc_segment_info(s)->frames;

	for (uint64_t i = 0; i < count && i < 16; i++) {
		const struct sc_segment_frame *f = sc_segment_frame(s, (size_t)i);
		uint64_t now = XXH3_64bits(m->data + f->at, (size_t)f->packed + f->table);
		char old[16], text[16], *at;

		for (int k = 0; k < 16; k++) {
			old[k] = digits[f->hash >> (60 - 4 * k) & 15];
			text[k] = digits[now >> (60 - 4 * k) & 15];
		}
		at = memmem(m->data, m->len, old, sizeof(old));
		if (at)
			memcpy(at, text, sizeof(text));
	}
}

static void as_file(struct memory *m)
{
	struct sc_segment *s = open_it(m);

	if (s)
		look_around(s);
	sc_segment_close(s);
	if (!sign(m))
		return;
	s = open_it(m);
	if (!s)
		return;
	look_around(s);
	sign_frames(m, s);
	sc_segment_close(s);
	sign(m);
	s = open_it(m);
	if (s)
		look_around(s);
	sc_segment_close(s);
}

static void as_index(struct sc_span text)
{
	struct sc_segment_frame *frames = NULL;
	struct sc_segment_info info;
	struct sc_bytes checkpoint;
	const char *what;

	sc_bytes_init(&checkpoint, SC_BLOCK_EXT_MAX);
	if (sc_segment_index_get(text, &info, &checkpoint, &frames, &what) == 0) {
		if (info.frames == 0 || info.first == 0 || info.last < info.first)
			abort();
		free(frames);
	}
	sc_bytes_done(&checkpoint);
}

static void as_table(struct sc_span plain)
{
	struct sc_segment_frame frame = { .first_us = -1, .last_us = 1 << 20 };
	struct sc_segment_commit commits[256];

	if (plain.len == 0)
		return;
	frame.rows = (unsigned char)plain.data[0];
	(void)sc_segment_table_get(sc_span(plain.data + 1, plain.len - 1), &frame, commits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory m = { .data = malloc(size ? size : 1), .len = size };

	if (!m.data)
		return 0;
	if (size)
		memcpy(m.data, data, size);
	as_index(sc_span(m.data, size));
	as_table(sc_span(m.data, size));
	as_file(&m);
	free(m.data);
	return 0;
}
