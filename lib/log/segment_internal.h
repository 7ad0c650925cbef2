/*
 * log/segment_internal.h: the bytes of a segment, for the segment files of this room.
 *
 * Owns      nothing.
 * Units     sizes and positions in bytes; all numbers little endian.
 * Errors    as log/segment.h.
 * Safety    inside lib/log only.
 * Source    man/sc-log.5, "Segments"; zstd's doc/zstd_compression_format.md and
 *           contrib/seekable_format.
 *
 *     [lines, a zstd frame] [its commits, a skippable frame]   for each frame
 *     [index, a skippable frame] [seek table, a skippable frame]
 */
#ifndef SC_LOG_SEGMENT_INTERNAL_H
#define SC_LOG_SEGMENT_INTERNAL_H

#include <endian.h>

#include "log/segment.h"

#define SC_SKIP_HEAD 8                  /* u32 magic, u32 size of what follows */
#define SC_MAGIC_ZSTD 0xFD2FB528u
#define SC_MAGIC_TABLE 0x184D2A5Cu      /* commits of a frame */
#define SC_MAGIC_INDEX 0x184D2A5Du
#define SC_MAGIC_SEEK 0x184D2A5Eu
#define SC_MAGIC_FOOT 0x8F92EAB1u
#define SC_SEEK_ENTRY 12                /* u32 packed, u32 size, u32 checksum */
#define SC_SEEK_FOOT 9                  /* u32 count, u8 descriptor, u32 magic */
#define SC_SEEK_CHECKED 0x80            /* descriptor: entries have checksums */
#define SC_EMPTY_CHECK 0x51D8E999u      /* XXH64 of nothing, low half */
#define SC_INDEX_TAG_LEN 8
#define SC_INDEX_HEAD (SC_SKIP_HEAD + SC_INDEX_TAG_LEN + SC_HASH_LEN) /* then JSON */
extern const char sc_segment_tag[SC_INDEX_TAG_LEN]; /* its last byte is the version */

static inline void sc_put_le32(char *at, uint32_t value)
{
	value = htole32(value);
	memcpy(at, &value, sizeof(value));
}

static inline uint32_t sc_get_le32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

/* The line at AT: its offset and message; returns what follows its LF, or NULL: it is no line. */
static inline const char *sc_segment_line(const char *at, const char *end, uint64_t *ret_offset,
					  struct sc_span *ret_msg)
{
	const char *p = at + 1, *lf;
	uint64_t offset = 0;

	if (end - at < 6 || *at != '[' || *p < '1' || *p > '9')
		return NULL;
	for (; p < end && (unsigned char)(*p - '0') < 10; p++)
		offset = offset * 10 + (uint64_t)(*p - '0');
	if (p - at > 20 && !sc_u64_parse(sc_span(at + 1, (size_t)(p - at - 1)), &offset))
		return NULL;
	if (p == end || *p++ != ',')
		return NULL;
	lf = (const char *)memchr(p, '\n', (size_t)(end - p));
	if (!lf || lf - p < 2 || lf[-1] != ']')
		return NULL;
	*ret_offset = offset;
	*ret_msg = sc_span(p, (size_t)(lf - 1 - p));
	return lf + 1;
}

/* A frame holds at most SC_SEGMENT_FRAME, or one line. */
static inline bool sc_segment_frame_fits(uint64_t size, uint64_t rows)
{
	return rows && size / 6 >= rows && size <= (rows == 1 ? SC_MESSAGE_MAX + 64u : SC_SEGMENT_FRAME);
}

/* segment_table.c: the commits of a frame: how many rows each has in it, and when they were
 * appended */
struct sc_segment_commit {
	uint64_t first, last;     /* filled by who reads the lines */
	int64_t appended_us;
	uint32_t rows;
	uint32_t end;             /* where its last line ends among the frame's */
};
/* Plain form of the table, appended to OUT. */
int sc_segment_table_put(const struct sc_segment_commit *commits, size_t count,
		struct sc_bytes *out);
/* How long the plain form can be. */
size_t sc_segment_table_max(uint64_t rows);
/* Into COMMITS, room for frame->rows: how many, or 0: it is not the table of such a frame. */
size_t sc_segment_table_get(struct sc_span plain, const struct sc_segment_frame *frame,
			    struct sc_segment_commit *commits);

/* segment_stats.c: least and greatest value and number of nulls of each column */
struct sc_segment_stats;
struct sc_segment_stats *sc_segment_stats_new(const struct sc_schema *schema); /* NULL: no memory */
void sc_segment_stats_free(struct sc_segment_stats *stats);
/* A row as stored. One that is not of the schema makes all of it unknown. SC_E_NOMEM */
int sc_segment_stats_row(struct sc_segment_stats *stats, struct sc_span msg);
/* JSON, null when unknown. */
int sc_segment_stats_put(const struct sc_segment_stats *stats, struct sc_bytes *out);

/* segment_index.c: the index as JSON */
/* COLUMNS is JSON. SC_E_NOMEM; out->full: over the limit. */
int sc_segment_index_put(const struct sc_segment_info *info, struct sc_span columns,
			 const struct sc_segment_frame *frames, struct sc_bytes *out);
/* All but info->file_bytes. Spans of INFO borrow TEXT and CHECKPOINT; *RET_FRAMES is malloced.
 * 0; SC_E_DATA or SC_E_CONFIG with *RET_WHAT; SC_E_NOMEM. */
int sc_segment_index_get(struct sc_span text, struct sc_segment_info *ret_info, struct sc_bytes *checkpoint,
			 struct sc_segment_frame **ret_frames, const char **ret_what);

/* segment.c, segment_read.c */
typedef struct ZSTD_DCtx_s sc_zstd_dctx;
struct sc_segment {
	struct sc_segment_source source;
	struct sc_segment_info info;
	struct sc_bytes tail;     /* index and seek table; info borrows from it */
	struct sc_bytes checkpoint;
	struct sc_segment_frame *frames;
	uint64_t lines_end;       /* where the index begins: no frame reaches beyond */
	sc_zstd_dctx *dctx;
	/* bytes of the file as read: [raw_at, raw_at + raw.len) */
	struct sc_bytes raw;
	uint64_t raw_at;
	/* the frame in hand, unpacked */
	size_t frame;             /* its number; info.frames = none */
	struct sc_bytes lines, plain;
	struct sc_segment_commit *commits;
	size_t commit_count, commit_cap;
	/* what comes next */
	uint64_t offset;          /* a row at or above this */
	size_t commit;            /* in it */
	struct sc_run rest;       /* what is left of that one; rows = 0: begin it anew */
};
/* SC_E_DATA: WHAT is wrong at POSITION. */
int sc_segment_damaged(const struct sc_segment *segment, uint64_t position, uint64_t last_good, const char *what,
		       struct sc_err *err);

#endif
