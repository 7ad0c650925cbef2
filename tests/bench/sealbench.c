/*
 * sealbench: what sealing costs against zstd -3 of the same lines, what reading a segment costs
 * against unpacking them, how long the first row at any offset takes, and what a row takes on disk.
 *
 * Method: rows of six columns in commits of COMMIT rows are cut into segments of 8 MiB. Sealing
 * (checks, minima and maxima, index, fsync) and one zstd stream over all rows (flushed and synced
 * at the same places) take turns, a segment each, both in one thread, into the same folder; so do
 * reading back and unpacking with a count of lines. Opens: each of 2,000 opens a segment and reads
 * the first row at a random offset; nothing is kept open. Usage:
 *     sealbench FOLDER [ROWS [COMMIT]]           one JSON line on stdout
 *     sealbench --write FILE [ROWS [COMMIT]]     one segment of such rows, for tests; the lines on
 *     stdout
 */
#include <zstd.h>

#include "bench.h"
#include "library.h"

#include "base/bytes.h"
#include "json/schema.h"
#include "log/segment.h"

#define SEGMENT_BYTES (8u << 20)
#define OPENS 2000
#define STREAM_ID "6a1f9c1e-0000-4000-8000-000000000001"

static const char schema_text[] = "{\"type\":\"object\",\"properties\":{\"event_ts\":{\"type\":"
				  "\"integer\"},\"price\":{\"type\":\"number\"},"
				  "\"amount\":{\"type\":\"number\"},\"side\":{\"type\":\"integer\"}"
				  ",\"symbol\":{\"type\":\"string\"},"
				  "\"ok\":{\"type\":\"boolean\"}},\"required\":[\"event_ts\","
				  "\"price\",\"amount\",\"side\",\"symbol\",\"ok\"]}";

struct commit {
	size_t at, len;
	uint64_t first, rows;
	int64_t us;
};
struct rows {
	struct sc_bytes text;
	struct commit *commits;
	size_t count;
	uint64_t total;
};
struct segment {
	size_t begin, end; /* commits */
	size_t at, len;    /* text */
	char path[600];
	uint64_t first, last;
};

static void make_rows(struct rows *r, uint64_t total, uint64_t per_commit)
{
	static const char *const symbols[] = { "BTCUSD", "ETHUSD", "SOLUSD", "XRPUSD", "DOGEUSD" };
	int64_t us = 1764460800000000, price = 6123450;

	memset(r, 0, sizeof(*r));
	r->total = total;
	sc_bytes_init(&r->text, SIZE_MAX / 2);
	r->commits = calloc(total / per_commit + 1, sizeof(*r->commits));
	if (!r->commits || sc_bytes_reserve(&r->text, total * 140) < 0)
		fail("no memory");
	for (uint64_t i = 0; i < total; i++) {
		struct commit *c = &r->commits[i / per_commit];

		if (i % per_commit == 0) {
			us += 150 + (int64_t)any(160);
			*c = (struct commit){ .at = r->text.len, .first = i + 1, .us = us };
			r->count++;
		}
		price += (int64_t)any(201) - 100;
		if (sc_bytes_putf(&r->text,
				  "[%llu,{\"event_ts\":%lld,\"price\":%lld.%02lld,\"amount\":0.%"
				  "06llu,\"side\":%d,"
				  "\"symbol\":\"%s\",\"ok\":%s}]\n",
				  (unsigned long long)i + 1,
				  (long long)(us - 900 - (int64_t)any(600)), (long long)price / 100,
				  (long long)price % 100, (unsigned long long)any(1000000),
				  (int)any(2), symbols[any(5)], any(20) ? "true" : "false") < 0)
			fail("no memory");
		c->rows++;
		c->len = r->text.len - c->at;
	}
}

static void seal(const struct rows *r, const struct segment *s, const struct sc_schema *schema,
		 struct sc_segment_info *ret_info)
{
	struct sc_segment_begin begin = { .fd = open(s->path,
						     O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600),
					  .name = s->path,
					  .stream_id = STREAM_ID,
					  .schema = schema };
	struct sc_segment_tie tie = { .next = s->last + 1, .commit = 1 };
	struct sc_segment_writer *w = NULL;

	if (begin.fd < 0 || sc_segment_write_begin(&begin, &w, &err) < 0)
		fail("cannot seal");
	for (size_t i = s->begin; i < s->end; i++) {
		const struct commit *c = &r->commits[i];
		struct sc_run run = { sc_span(r->text.data + c->at, c->len), c->first,
				      c->first + c->rows - 1, c->rows, c->us };

		if (sc_segment_write_add(w, &run, &err) < 0)
			fail("cannot seal");
	}
	if (sc_segment_write_finish(w, &tie, ret_info, &err) < 0)
		fail("cannot seal");
	sc_segment_write_free(w);
	close(begin.fd);
}

/* The whole of IN through the stream into FD. */
static uint64_t pack(ZSTD_CCtx *cctx, struct sc_span in, bool last, int fd)
{
	static char out[1 << 17];
	ZSTD_inBuffer from = { in.data, in.len, 0 };
	uint64_t total = 0;
	size_t left;

	do {
		ZSTD_outBuffer to = { out, sizeof(out), 0 };

		left = ZSTD_compressStream2(cctx, &to, &from, last ? ZSTD_e_end : ZSTD_e_flush);
		if (ZSTD_isError(left) || write(fd, out, to.pos) != (ssize_t)to.pos)
			fail("cannot pack");
		total += to.pos;
	} while (left || from.pos < from.size);
	if (fsync(fd) < 0)
		fail("cannot sync");
	return total;
}

static uint64_t count_lines(const char *data, size_t len)
{
	uint64_t lines = 0;

	for (const char *at = data, *end = data + len; (at = memchr(at, '\n', (size_t)(end - at)));
	     at++)
		lines++;
	return lines;
}

static uint64_t read_back(const struct segment *s)
{
	int fd = open(s->path, O_RDONLY | O_CLOEXEC), rc;
	struct sc_segment_source source;
	struct sc_segment *segment = NULL;
	uint64_t rows = 0;
	struct sc_run run;

	if (fd < 0 || sc_segment_source_fd(fd, s->path, &source, &err) < 0 ||
	    sc_segment_open(&source, &segment, &err) < 0)
		fail("cannot read back");
	while ((rc = sc_segment_next(segment, 0, &run, &err)) == 1)
		rows += run.rows;
	if (rc < 0)
		fail("cannot read back");
	sc_segment_close(segment);
	close(fd);
	return rows;
}

/* Unpack the stream until LIMIT bytes more came out; the lines in them. */
static uint64_t unpack(ZSTD_DCtx *dctx, ZSTD_inBuffer *from, int fd, uint64_t limit)
{
	static char in[1 << 17], out[1 << 17];
	uint64_t lines = 0;

	while (limit) {
		ZSTD_outBuffer to = { out, sizeof(out) < limit ? sizeof(out) : limit, 0 };

		if (from->pos == from->size) {
			ssize_t n = read(fd, in, sizeof(in));

			if (n < 0)
				fail("cannot read");
			*from = (ZSTD_inBuffer){ in, (size_t)n, 0 };
		}
		if (ZSTD_isError(ZSTD_decompressStream(dctx, &to, from)))
			fail("cannot unpack");
		lines += count_lines(out, to.pos);
		limit -= to.pos;
	}
	return lines;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t first_row(const struct segment *s, uint64_t offset)
{
	uint64_t since = now_ns();
	int fd = open(s->path, O_RDONLY | O_CLOEXEC);
	struct sc_segment_source source;
	struct sc_segment *segment = NULL;
	struct sc_run run;

	if (fd < 0 || sc_segment_source_fd(fd, s->path, &source, &err) < 0 ||
	    sc_segment_open(&source, &segment, &err) < 0)
		fail("cannot open");
	sc_segment_seek(segment, offset);
	if (sc_segment_next(segment, 1, &run, &err) != 1 || run.first != offset)
		fail("another row came");
	sc_segment_close(segment);
	close(fd);
	return now_ns() - since;
}

static struct segment *cut_segments(const struct rows *r, const char *folder, size_t *ret_count)
{
	struct segment *segments = calloc(r->text.len / SEGMENT_BYTES + 2, sizeof(*segments));
	size_t count = 0, begin = 0;

	if (!segments)
		fail("no memory");
	for (size_t i = 0; i < r->count; i++) {
		const struct commit *c = &r->commits[i];
		struct segment *s = &segments[count];

		s->len += c->len;
		if (s->len < SEGMENT_BYTES && i + 1 < r->count)
			continue;
		s->begin = begin;
		s->end = begin = i + 1;
		s->at = r->commits[s->begin].at;
		s->first = r->commits[s->begin].first;
		s->last = c->first + c->rows - 1;
		snprintf(s->path, sizeof(s->path), "%.500s/sealbench.%d.%zu", folder, (int)getpid(),
			 count);
		count++;
	}
	*ret_count = count;
	return segments;
}

struct result {
	uint64_t seal_ns, pack_ns, read_ns, unpack_ns, sealed, packed;
};

static void measure(const struct rows *r, struct segment *segments, size_t count,
		    const struct sc_schema *schema, int whole_fd, struct result *res)
{
	ZSTD_CCtx *cctx = ZSTD_createCCtx();
	ZSTD_DCtx *dctx = ZSTD_createDCtx();
	ZSTD_inBuffer from = { NULL, 0, 0 };
	struct sc_segment_info info;
	uint64_t lines = 0, rows = 0, since;

	if (!cctx || !dctx)
		fail("no memory");
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_compressionLevel, 3);
	ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, 1);
	for (size_t i = 0; i < count; i++) {
		struct sc_span text = sc_span(r->text.data + segments[i].at, segments[i].len);

		since = now_ns();
		seal(r, &segments[i], schema, &info);
		res->seal_ns += now_ns() - since;
		res->sealed += info.file_bytes;
		since = now_ns();
		res->packed += pack(cctx, text, i + 1 == count, whole_fd);
		res->pack_ns += now_ns() - since;
	}
	if (lseek(whole_fd, 0, SEEK_SET) < 0)
		fail("cannot read");
	for (size_t i = 0; i < count; i++) {
		since = now_ns();
		rows += read_back(&segments[i]);
		res->read_ns += now_ns() - since;
		since = now_ns();
		lines += unpack(dctx, &from, whole_fd, segments[i].len);
		res->unpack_ns += now_ns() - since;
	}
	if (rows != r->total || lines != r->total)
		fail("rows are missing");
	ZSTD_freeCCtx(cctx);
	ZSTD_freeDCtx(dctx);
}

static int write_one(const char *path, const struct rows *r, const struct sc_schema *schema)
{
	struct segment s = { .end = r->count, .first = 1, .last = r->total };
	struct sc_segment_info info;

	snprintf(s.path, sizeof(s.path), "%s", path);
	seal(r, &s, schema, &info);
	return fwrite(r->text.data, 1, r->text.len, stdout) == r->text.len && fflush(stdout) == 0
		       ? 0
		       : 1;
}

int main(int argc, char **argv)
{
	static uint64_t opens[OPENS];
	bool write_it = argc > 2 && !strcmp(argv[1], "--write");
	const char *place = write_it ? argv[2] : argc > 1 ? argv[1] : NULL;
	int more = write_it ? 3 : 2;
	uint64_t total = argc > more ? strtoull(argv[more], NULL, 10) : 1000000;
	uint64_t per_commit = argc > more + 1 ? strtoull(argv[more + 1], NULL, 10) : 100;
	struct sc_schema *schema = NULL;
	struct segment *segments;
	struct result res = { 0 };
	char whole[600];
	struct rows r;
	size_t count;
	int fd;

	if (!place || !total || !per_commit) {
		fprintf(stderr,
			"usage: sealbench FOLDER [ROWS [COMMIT]] | --write FILE [ROWS [COMMIT]]\n");
		return 64;
	}
	if (sc_schema_parse(sc_span_str(schema_text), &schema, &err) < 0)
		fail("cannot use the schema");
	make_rows(&r, total, per_commit);
	if (write_it)
		return write_one(place, &r, schema);
	segments = cut_segments(&r, place, &count);
	snprintf(whole, sizeof(whole), "%.500s/sealbench.%d.whole", place, (int)getpid());
	fd = open(whole, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		fail(whole);
	measure(&r, segments, count, schema, fd, &res);
	for (size_t i = 0; i < OPENS; i++) {
		const struct segment *s = &segments[any(count)];

		opens[i] = first_row(s, s->first + any(s->last - s->first + 1));
	}
	qsort(opens, OPENS, sizeof(opens[0]), compare);
	printf("{\"rows\":%llu,\"rows_per_commit\":%llu,\"seal_mb_s\":%.1f,\"zstd_mb_s\":%.1f,"
	       "\"seal_ratio\":%.3f,"
	       "\"read_mb_s\":%.1f,\"unzstd_mb_s\":%.1f,\"read_ratio\":%.3f,\"first_row_ns\":%llu,"
	       "\"first_row_p99_ns\":%llu,"
	       "\"row_bytes\":%.2f,\"zstd_row_bytes\":%.2f,\"raw_row_bytes\":%.2f}\n",
	       (unsigned long long)total, (unsigned long long)per_commit,
	       (double)r.text.len * 1e3 / (double)res.seal_ns,
	       (double)r.text.len * 1e3 / (double)res.pack_ns,
	       (double)res.pack_ns / (double)res.seal_ns,
	       (double)r.text.len * 1e3 / (double)res.read_ns,
	       (double)r.text.len * 1e3 / (double)res.unpack_ns,
	       (double)res.unpack_ns / (double)res.read_ns, (unsigned long long)opens[OPENS / 2],
	       (unsigned long long)opens[OPENS * 99 / 100], (double)res.sealed / (double)total,
	       (double)res.packed / (double)total, (double)r.text.len / (double)total);
	for (size_t i = 0; i < count; i++)
		unlink(segments[i].path);
	unlink(whole);
	close(fd);
	return 0;
}
