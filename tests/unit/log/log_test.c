/*
 * log_test: the face of a log. Goal: what was appended is read back byte for byte, by any handle,
 * with any run size, across journals, after reopening and after the index was thrown away.
 */
#include "help.h"

TEST(log_first_rows)
{
	struct sc_log_state state;
	struct sc_log_commit commit;
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_STR(sc_log_name(log), "trades");
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.first_offset, 1);
	CHECK_INT(state.next_offset, 1);
	CHECK_INT(state.rows, 0);
	check_holds(log, 1, 0);
	CHECK_OK(append_n(log, 1, 3, &commit), &err);
	CHECK_INT(commit.first, 1);
	CHECK_INT(commit.last, 3);
	CHECK_SPAN(commit.lines, "[1,{\"n\":1}]\n[2,{\"n\":2}]\n[3,{\"n\":3}]\n");
	CHECK_OK(append_n(log, 4, 1, &commit), &err);
	CHECK_SPAN(commit.lines, "[4,{\"n\":4}]\n");
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.next_offset, 5);
	CHECK_INT(state.rows, 4);
	CHECK_INT(state.bytes, 4 * 12);
	CHECK_INT(state.commit_seq, 2);
	CHECK_INT(state.last_us, commit.appended_us);
	check_holds(log, 1, 4);
	check_holds(log, 3, 4);
	check_holds(log, 5, 4);
	sc_log_close(log);
	log = open_log(SC_LOG_READ);
	check_holds(log, 1, 4);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_READ);
	check_holds(log, 1, 4);
	sc_log_close(log);
	log_done();
}

TEST(log_many_sizes_and_journals)
{
	/*
	 * rows per commit, among them ones of several blocks; small journals, so that many are
	 * made
	 */
	static const size_t sizes[] = { 1, 2, 7, 1, 500, 1, 40000, 3, 20000, 1, 1, 100000, 1 };
	struct sc_log *log, *other;
	struct sc_bytes got, part;
	struct sc_log_state state;
	uint64_t next = 1;

	log_new(64 << 10);
	log = open_log(SC_LOG_APPEND);
	other = open_log(SC_LOG_READ);
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			CHECK_OK(append_n(log, next, sizes[i], NULL), &err);
			next += sizes[i];
		}
	check_holds(log, 1, next - 1);
	check_holds(other, 1, next - 1);
	for (uint64_t from = 1; from < next; from += next / 97 + 1)
		check_holds(other, from, next - 1);
	CHECK_OK(sc_log_state(other, &state, &err), &err);
	CHECK(state.journals > 5);
	sc_bytes_init(&got, 1u << 30);
	sc_bytes_init(&part, 1u << 30);
	CHECK_OK(read_all(log, 1, 0, &got), &err);
	CHECK_INT(got.len, state.bytes);
	for (size_t max = 1; max < 300000; max = max * 7 + 5) {
		CHECK_OK(read_all(log, 1, max, &part), &err);
		CHECK(part.len == got.len && !memcmp(part.data, got.data, got.len));
	}
	sc_bytes_done(&got);
	sc_bytes_done(&part);
	sc_log_close(log);
	drop_index();
	check_holds(other, 1, next - 1); /* an open reader goes on when the index is gone */
	sc_log_close(other);
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 1, next - 1);
	CHECK_OK(append_n(log, next, 1, NULL), &err);
	check_holds(log, 1, next);
	sc_log_close(log);
	log_done();
}

TEST(log_reader_follows)
{
	struct sc_log *log, *other;
	struct sc_reader *reader = NULL;
	struct sc_run run;
	uint64_t seen = 0;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	other = open_log(SC_LOG_READ);
	CHECK_OK(sc_reader_open(other, 0, &reader, &err), &err);
	CHECK_INT(sc_reader_next(reader, 0, &run, &err), 0);
	for (uint64_t n = 1; n <= 2000; n++) {
		CHECK_OK(append_n(log, n, 1, NULL), &err);
		if (n % 3)
			continue;
		while (sc_reader_next(reader, 0, &run, &err) == 1) {
			CHECK_INT(run.first, seen + 1);
			CHECK_INT(sc_reader_offset(reader), run.last + 1);
			seen = run.last;
		}
		CHECK_INT(seen, n);
	}
	sc_reader_close(reader);
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

TEST(log_offsets_refused)
{
	struct sc_log *log;
	struct sc_reader *reader = NULL;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(sc_reader_open(log, 2, &reader, &err), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"ahead\"") && strstr(err.fields, "\"end_offset\":1"));
	CHECK_OK(sc_reader_open(log, 1, &reader, &err), &err);
	sc_reader_close(reader);
	sc_log_close(log);
	log_done();
}
