/*
 * A log and a segment of its rows: what a reader hands out can be sealed, and verify's hash is the same over both.
 *
 * Method: rows are appended in commits of any size, among them one over several blocks; the reader's runs, cut at any size, go into a
 * segment; lines, times, offsets and the proof's hash are compared.
 */
#include <sys/mman.h>

#include "help.h"
#include "log/segment.h"

static void fill(struct sc_log *log)
{
	static const size_t counts[] = { 1, 1, 7, 60000, 1, 300, 2 };
	uint64_t n = 1;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		CHECK_OK(append_n(log, n, counts[i], NULL), &err);
		n += counts[i];
	}
}

static int seal(struct sc_log *log, size_t max, struct sc_segment_info *ret_info)
{
	struct sc_segment_begin begin = { .fd = memfd_create("segment", MFD_CLOEXEC),
					  .name = "a segment",
					  .stream_id = sc_log_stream_id(log) };
	struct sc_segment_writer *w = NULL;
	struct sc_segment_tie tie = { 0 };
	struct sc_reader *reader = NULL;
	struct sc_run run;
	int rc;

	CHECK_OK(sc_segment_write_begin(&begin, &w, &err), &err);
	CHECK_OK(sc_reader_open(log, 0, &reader, &err), &err);
	while ((rc = sc_reader_next(reader, max, &run, &err)) == 1) {
		CHECK_OK(sc_segment_write_add(w, &run, &err), &err);
		tie.next = run.last + 1;
	}
	CHECK_OK(rc, &err);
	CHECK_OK(sc_segment_write_finish(w, &tie, ret_info, &err), &err);
	sc_reader_close(reader);
	sc_segment_write_free(w);
	return begin.fd;
}

/* Both readers in step, each cut at its own size: the same lines with the same times. */
static void compare(struct sc_log *log, struct sc_segment *s)
{
	struct sc_reader *reader = NULL;
	struct sc_run a = { .rows = 0 }, b = { .rows = 0 };
	uint64_t rows = 0;
	int rc;

	CHECK_OK(sc_reader_open(log, 0, &reader, &err), &err);
	while ((rc = sc_reader_next(reader, 1, &a, &err)) == 1) {
		CHECK_INT(a.rows, 1);
		CHECK_INT(sc_segment_next(s, 1, &b, &err), 1);
		CHECK(a.first == b.first && a.last == b.last && b.rows == 1);
		CHECK_INT(b.appended_us, a.appended_us);
		CHECK(a.lines.len == b.lines.len &&
		      !memcmp(a.lines.data, b.lines.data, a.lines.len));
		rows++;
	}
	CHECK_OK(rc, &err);
	CHECK_INT(sc_segment_next(s, 1, &b, &err), 0);
	CHECK_INT(rows, sc_segment_info(s)->rows);
	sc_reader_close(reader);
}

TEST(a_segment_of_a_log_is_the_log)
{
	char text[2 * SC_HASH_LEN + 1], whole[2 * SC_HASH_LEN + 1];
	struct sc_segment_source source;
	struct sc_segment_info info;
	struct sc_segment *s = NULL;
	struct sc_log_proof proof;
	struct sc_log *log = NULL;
	int fd;

	log_new(64u << 10);
	CHECK_OK(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), &err);
	fill(log);
	fd = seal(log, 0, &info);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	sc_hash_text(&info.hash, whole);
	CHECK_STR(whole, proof.hash);
	CHECK_INT(info.rows, proof.rows);
	CHECK_INT(info.bytes, proof.bytes);
	CHECK_INT(info.first, proof.first);
	CHECK_INT(info.last, proof.last);
	CHECK_OK(sc_segment_source_fd(fd, "a segment", &source, &err), &err);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_STR(sc_segment_info(s)->stream_id, sc_log_stream_id(log));
	CHECK_OK(sc_segment_verify(s, &err), &err);
	compare(log, s);
	sc_segment_close(s);
	close(fd);
	/* cut differently, the same file */
	fd = seal(log, 1000, &info);
	sc_hash_text(&info.hash, text);
	CHECK_STR(text, whole);
	close(fd);
	sc_log_close(log);
	log_done();
}
