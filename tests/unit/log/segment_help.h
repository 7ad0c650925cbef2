/*
 * tests/unit/log/segment_help.h: rows made up from a seed, sealed into a file in memory, and read
 * back from there.
 *
 * The rows are kept as a model: what a reader hands out is compared with it line by line.
 */
#ifndef SC_TESTS_LOG_SEGMENT_HELP_H
#define SC_TESTS_LOG_SEGMENT_HELP_H

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"
#include "base/bytes.h"
#include "log/segment.h"

static struct sc_err err;

struct model_row {
	uint64_t offset;
	int64_t us;
	size_t at, len; /* of its line */
};
struct model {
	struct sc_bytes text;
	struct model_row *rows;
	size_t count, cap;
};

static uint64_t seed_state;

static inline uint64_t any(uint64_t limit)
{
	seed_state += 0x9e3779b97f4a7c15u;
	uint64_t z = seed_state;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return (z ^ (z >> 31)) % limit;
}

static inline void model_init(struct model *m)
{
	memset(m, 0, sizeof(*m));
	sc_bytes_init(&m->text, 1u << 30);
}

static inline void model_done(struct model *m)
{
	sc_bytes_done(&m->text);
	free(m->rows);
	m->rows = NULL;
	m->count = m->cap = 0;
}

static inline void model_add(struct model *m, uint64_t offset, int64_t us, struct sc_span msg)
{
	struct model_row row = { .offset = offset, .us = us, .at = m->text.len };

	if (m->count == m->cap) {
		m->cap = m->cap ? m->cap * 2 : 1024;
		m->rows = realloc(m->rows, m->cap * sizeof(*m->rows));
		CHECK(m->rows != NULL);
	}
	CHECK(sc_bytes_putf(&m->text, "[%llu,", (unsigned long long)offset) == 0);
	CHECK(sc_bytes_put(&m->text, msg.data, msg.len) == 0);
	CHECK(sc_bytes_puts(&m->text, "]\n") == 0);
	row.len = m->text.len - row.at;
	m->rows[m->count++] = row;
}

/* How rows are handed to the writer. */
enum feed { FEED_COMMITS, FEED_ROWS, FEED_RANDOM };

/* Sealed into a file in memory; the descriptor. */
static inline int model_seal(const struct model *m, const struct sc_schema *schema, enum feed feed,
			     const struct sc_segment_tie *tie, struct sc_segment_info *ret_info)
{
	struct sc_segment_tie plain = { .next = m->rows[m->count - 1].offset + 1,
					.commit = 7,
					.journal = 1,
					.journal_end = 4096 };
	struct sc_segment_begin begin = { .fd = memfd_create("segment", MFD_CLOEXEC),
					  .name = "a segment",
					  .stream_id = "6a1f9c1e-0000-4000-8000-000000000001",
					  .schema = schema };
	struct sc_segment_writer *w = NULL;
	size_t i = 0;

	CHECK(begin.fd >= 0);
	CHECK_OK(sc_segment_write_begin(&begin, &w, &err), &err);
	while (i < m->count) {
		size_t n = 1, most = feed == FEED_ROWS	   ? 1
				     : feed == FEED_RANDOM ? 1 + any(100)
							   : m->count;
		struct sc_run run;

		while (i + n < m->count && n < most && m->rows[i + n].us == m->rows[i].us)
			n++;
		run = (struct sc_run){
			.lines = sc_span(m->text.data + m->rows[i].at,
					 m->rows[i + n - 1].at + m->rows[i + n - 1].len - m->rows[i].at),
			.first = m->rows[i].offset,
			.last = m->rows[i + n - 1].offset,
			.rows = n,
			.appended_us = m->rows[i].us,
		};
		CHECK_OK(sc_segment_write_add(w, &run, &err), &err);
		i += n;
	}
	CHECK_INT(sc_segment_write_bytes(w), m->text.len);
	CHECK_OK(sc_segment_write_finish(w, tie ? tie : &plain, ret_info, &err), &err);
	sc_segment_write_free(w);
	return begin.fd;
}

static inline void slurp(int fd, struct sc_bytes *out)
{
	off_t size = lseek(fd, 0, SEEK_END);

	sc_bytes_init(out, 1u << 30);
	CHECK(size >= 0 && sc_bytes_reserve(out, (size_t)size + 1) == 0);
	CHECK(pread(fd, out->data, (size_t)size, 0) == size);
	out->len = (size_t)size;
}

/* A source that is a piece of memory of exactly that size, so that a sanitizer sees a read beyond
 * it. */
struct memory {
	const char *data;
	size_t len;
	uint64_t reads, bytes;
};

static inline int memory_read(const struct sc_segment_source *source, uint64_t at, size_t len, void *ret_data,
			      struct sc_err *e)
{
	struct memory *memory = source->arg;

	(void)e;
	if (at > memory->len || len > memory->len - at)
		abort(); /* the contract: inside SIZE */
	memcpy(ret_data, memory->data + at, len);
	memory->reads++;
	memory->bytes += len;
	return 0;
}

static inline struct sc_segment_source memory_source(struct memory *memory)
{
	return (struct sc_segment_source){
		.read_at = memory_read, .arg = memory, .size = memory->len, .name = "a segment"
	};
}

static inline size_t model_find(const struct model *m, uint64_t offset)
{
	size_t low = 0, high = m->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (m->rows[mid].offset < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* RUN is the model's rows from I on: true and *RET_NEXT, the one behind them. */
static inline bool run_is(const struct model *m, size_t i, const struct sc_run *run, size_t *ret_next)
{
	size_t n = (size_t)run->rows, len;

	if (n == 0 || n > m->count - i || m->rows[i].offset != run->first ||
	    m->rows[i + n - 1].offset != run->last)
		return false;
	for (size_t k = i; k < i + n; k++)
		if (m->rows[k].us != run->appended_us)
			return false;
	len = m->rows[i + n - 1].at + m->rows[i + n - 1].len - m->rows[i].at;
	*ret_next = i + n;
	return run->lines.len == len && !memcmp(run->lines.data, m->text.data + m->rows[i].at, len);
}

#endif
