/*
 * log/segment.h: one sealed, immutable file of lines: written once, read by offset or by time.
 *
 * Owns      a writer until sc_segment_write_free, a segment until sc_segment_close; descriptors and
 *           what a byte source reads are the caller's. Runs, spans and frames handed out are
 *           borrowed until the next call on the handle.
 * Units     offsets count rows from 1; sizes and positions in bytes; times in us since 1970 UTC.
 * Errors    SC_E_DATA: the file is damaged or no segment, with fields file, position, last_good (0:
 *           not known). SC_E_CONFIG: a newer format. SC_E_IO, SC_E_NOMEM, and what the byte source
 *           says. After an error the segment can be used on: seek past it.
 * Safety    any bytes are safe input: what they make a reader allocate is at most
 *           SC_SEGMENT_MEMORY_MAX (and `ahead`), and a call takes time in proportion to the bytes
 *           it reads and unpacks. A handle stays in its thread.
 * Source    the zstd seekable format (zstd, contrib/seekable_format); man/sc-log.5, "Segments".
 */
#ifndef SC_LOG_SEGMENT_H
#define SC_LOG_SEGMENT_H

#include "base/err.h"
#include "log/block.h"
#include "log/log.h"
#include "log/reader.h"

#define SC_SEGMENT_FORMAT 1
#define SC_SEGMENT_LEVEL 3             /* of zstd */
#define SC_SEGMENT_FRAME (256u << 10)  /* lines of a frame; one longer line is a frame */
#define SC_SEGMENT_FRAMES_MAX 65536
#define SC_SEGMENT_INDEX_MAX (64u << 20)
#define SC_SEGMENT_TAIL (64u << 10)    /* what opening reads; more only when index and table are longer */
#define SC_SEGMENT_MEMORY_MAX (256u << 20)

/* "00000000000000000001-00000000000000131072.ndjson.zst" */
#define SC_SEGMENT_NAME 53             /* with the NUL */
void sc_segment_name(uint64_t first, uint64_t last, char ret_name[SC_SEGMENT_NAME]);
bool sc_segment_name_parse(const char *name, uint64_t *ret_first, uint64_t *ret_last);

/* How a segment hangs between what comes before and after it in its log: what a journal's anchor
 * and chain say. */
struct sc_segment_tie {
	struct sc_hash before;    /* of the block before its first */
	struct sc_hash after;     /* of its last block */
	uint64_t rows_before, bytes_before; /* appended to the log before its first row */
	uint64_t next;            /* the lowest offset that may follow; above the last row */
	uint64_t commit;          /* number of its last commit */
	uint64_t journal, journal_end; /* the journal that held its last block, and where that ended */
	struct sc_span checkpoint; /* sources and producers as they stood, as extensions (log/block.h); nothing else */
};

struct sc_segment_info {
	char stream_id[40];
	uint64_t first, last;     /* offsets */
	uint64_t rows, bytes;     /* of lines */
	int64_t first_us, last_us;
	struct sc_hash hash;      /* XXH3-128 of all lines: what sc_log_verify makes of them */
	struct sc_segment_tie tie;
	struct sc_span schema;    /* as published; empty = any JSON value */
	struct sc_span columns;   /* JSON: [["name",min,max,nulls],...]; empty = not known (or from the writer) */
	uint64_t frames;
	uint64_t file_bytes;
};

struct sc_segment_frame {
	uint64_t at;              /* its position; its table of commits follows it */
	uint32_t packed, table;   /* sizes of both in the file */
	uint32_t size;            /* of the lines */
	uint32_t check;           /* XXH64 of the lines, low half: zstd's own */
	uint32_t rows;
	uint64_t first, last;
	int64_t first_us, last_us;
	uint64_t hash;            /* XXH3-64 of frame and table as they lie in the file */
	uint64_t rows_before, bytes_before; /* in this segment */
};

/* Writing */

struct sc_segment_writer;
struct sc_segment_begin {
	int fd;                   /* of a new file; what it holds is thrown away */
	const char *name;         /* for messages */
	const char *stream_id;
	const struct sc_schema *schema; /* or NULL; lent until sc_segment_write_free */
	int level;                /* of zstd; 0 = SC_SEGMENT_LEVEL */
};
int sc_segment_write_begin(const struct sc_segment_begin *begin,
		struct sc_segment_writer **ret_writer, struct sc_err *err);
/* Rows that follow those before, as a reader hands them out. How rows are divided into runs
 * leaves no trace in the file. SC_E_DATA: the lines are not what the run says, or are out of
 * order. */
int sc_segment_write_add(struct sc_segment_writer *writer, const struct sc_run *run,
		struct sc_err *err);
uint64_t sc_segment_write_bytes(const struct sc_segment_writer *writer); /* of lines so far */
/* The file is whole and synced (its folder is not); at least one row must be in it. */
int sc_segment_write_finish(struct sc_segment_writer *writer, const struct sc_segment_tie *tie,
			    struct sc_segment_info *ret_info, struct sc_err *err);
void sc_segment_write_free(struct sc_segment_writer *writer);

/* Reading */

struct sc_segment_source {
	/* LEN bytes at AT, which lie inside SIZE, all of them: 0 or a negative code. */
	int (*read_at)(const struct sc_segment_source *source, uint64_t at, size_t len, void *ret_data, struct sc_err *err);
	void *arg;                /* read_at's own */
	int fd;                   /* read_at's own */
	uint64_t size;
	const char *name;         /* for messages; lent until sc_segment_close */
	size_t ahead;             /* read so much at once where frames follow one another; 0 = a frame at a time */
};
/* A file that is open for reading and stays so. */
int sc_segment_source_fd(int fd, const char *name, struct sc_segment_source *ret_source,
		struct sc_err *err);

/*
 * ERR says why the segment NAME, of the rows FIRST to LAST, cannot be opened: SC_E_DATA. Nothing of
 * it can be read, so what comes before it is the last that is good; that is added, and what to do.
 */
int sc_segment_unreadable(const char *name, uint64_t first, uint64_t last, struct sc_err *err);

struct sc_segment;
/* SOURCE is copied. */
int sc_segment_open(const struct sc_segment_source *source, struct sc_segment **ret_segment,
		struct sc_err *err);
void sc_segment_close(struct sc_segment *segment);
const struct sc_segment_info *sc_segment_info(const struct sc_segment *segment);
const struct sc_segment_frame *sc_segment_frame(const struct sc_segment *segment, size_t index);

/* The first row at or above OFFSET comes next. A new segment stands at its first. */
void sc_segment_seek(struct sc_segment *segment, uint64_t offset);
/* 1 and a run (at most MAX_BYTES, or one longer line; 0 = no limit), or 0 at the end. A run is of
 * one commit and one frame. */
int sc_segment_next(struct sc_segment *segment, size_t max_bytes, struct sc_run *ret_run,
		struct sc_err *err);
/* of the row that comes next, or lower when none has it */
uint64_t sc_segment_offset(const struct sc_segment *segment);

struct sc_segment_place {
	uint64_t offset;          /* of the row */
	uint64_t rows, bytes;     /* before it in this segment */
	int64_t appended_us;
};
/* The first row at or above OFFSET; the first row appended at or after WHEN; the row that has N
 * rows before it. 1, or 0: there is none. What comes next is that row. */
int sc_segment_find(struct sc_segment *segment, uint64_t offset,
		struct sc_segment_place *ret_place, struct sc_err *err);
int sc_segment_find_time(struct sc_segment *segment, int64_t when_us,
		struct sc_segment_place *ret_place, struct sc_err *err);
int sc_segment_find_row(struct sc_segment *segment, uint64_t n, struct sc_segment_place *ret_place,
		struct sc_err *err);

/* Read everything: frames, tables, lines, counts, the hash of all lines. What comes next is the
 * first row afterwards. */
int sc_segment_verify(struct sc_segment *segment, struct sc_err *err);

#endif
