/*
 * append_test: what a commit may ask for: given offsets, sources, producers, a next offset; and
 * what is refused. Goal: nothing refused is half stored, and what rides along comes back after
 * the index was lost.
 */
#include "help.h"

#include "log/log_internal.h"

#include "base/clock.h"

static int append_rows(struct sc_log *log, struct sc_log_rows *rows, const uint64_t *offsets,
		       size_t count, struct sc_log_commit *commit)
{
	static char text[4096];
	static uint32_t lens[400];

	for (size_t i = 0; i < count; i++) {
		memcpy(text + 2 * i, "\"\"", 2);
		lens[i] = 2;
	}
	rows->text = sc_span(text, 2 * count);
	rows->lens = lens;
	rows->count = count;
	rows->offsets = offsets;
	return sc_log_append(log, rows, commit, &err);
}

static uint64_t next_of(struct sc_log *log)
{
	struct sc_log_state state;

	CHECK_OK(sc_log_state(log, &state, &err), &err);
	return state.next_offset;
}

TEST(append_mirror)
{
	static const uint64_t first[] = { 100, 101, 105 },
			      second[] = { 1ull << 40, (1ull << 40) + 7 }, low[] = { 105 },
			      falls[] = { 1ull << 41, 1ull << 41 };
	struct sc_log_commit commit;
	struct sc_log_state state;
	struct sc_bytes got;
	struct sc_reader *reader = NULL;
	uint64_t rows;

	sc_bytes_init(&got, 1 << 20);
	log_new(0);
	for (int lost = 0; lost < 2; lost++) {
		struct sc_log *log;

		if (lost)
			drop_index();
		log = open_log(SC_LOG_APPEND);
		if (!lost) {
			CHECK_OK(append_rows(log, &(struct sc_log_rows){ 0 }, first, 3, &commit),
				 &err);
			CHECK_SPAN(commit.lines, "[100,\"\"]\n[101,\"\"]\n[105,\"\"]\n");
			CHECK_OK(append_rows(log, &(struct sc_log_rows){ 0 }, second, 2, &commit),
				 &err);
		}
		CHECK_INT(append_rows(log, &(struct sc_log_rows){ 0 }, low, 1, &commit),
			  SC_E_REFUSED);
		CHECK_INT(append_rows(log, &(struct sc_log_rows){ 0 }, falls, 2, &commit),
			  SC_E_REFUSED);
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		CHECK_INT(state.first_offset, 100);
		CHECK_INT(state.last_offset, (1ull << 40) + 7);
		CHECK_INT(state.next_offset, (1ull << 40) + 8);
		CHECK_INT(state.rows, 5);
		CHECK_OK(read_all(log, 0, 1, &got), &err);
		CHECK_SPAN(got, "[100,\"\"]\n[101,\"\"]\n[105,\"\"]\n[1099511627776,\"\"]\n["
				"1099511627783,\"\"]\n");
		CHECK_OK(read_all(log, 102, 0, &got), &err);
		CHECK_SPAN(got, "[105,\"\"]\n[1099511627776,\"\"]\n[1099511627783,\"\"]\n");
		CHECK_OK(read_all(log, 106, 0, &got), &err);
		CHECK_SPAN(got, "[1099511627776,\"\"]\n[1099511627783,\"\"]\n");
		CHECK_OK(sc_log_count_from(log, 101, &rows, &err), &err);
		CHECK_INT(rows, 4);
		CHECK_OK(sc_log_count_from(log, 106, &rows, &err), &err);
		CHECK_INT(rows, 2);
		CHECK_OK(sc_log_count_from(log, state.next_offset, &rows, &err), &err);
		CHECK_INT(rows, 0);
		sc_log_close(log);
	}
	sc_reader_close(reader);
	sc_bytes_done(&got);
	log_done();
}

TEST(append_source_moves_with_rows)
{
	struct sc_log_rows rows = { .source = SC_SPAN("A"), .source_offset = 10 };
	struct sc_log_commit commit;
	struct sc_log *log;
	uint64_t at = 0;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(sc_log_source(log, SC_SPAN("A"), &at, &err), 0);
	CHECK_OK(append_rows(log, &rows, NULL, 3, &commit), &err);
	CHECK_INT(sc_log_source(log, SC_SPAN("A"), &at, &err), 1);
	CHECK_INT(at, 10);
	CHECK_INT(append_rows(log, &rows, NULL, 3, &commit), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"source\"") &&
	      strstr(err.fields, "\"source_offset\":10"));
	CHECK_INT(next_of(log), 4);
	/*
	 * many journals later it still is known, also without an index and after a trim of the
	 * journal that held it
	 */
	for (int i = 0; i < 300; i++)
		CHECK_OK(append_rows(log,
				     &(struct sc_log_rows){ .source = SC_SPAN("B"),
							    .source_offset = (uint64_t)i + 1 },
				     NULL, 30, &commit),
			 &err);
	CHECK_OK(sc_log_trim(log, 5000, &err), &err);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(sc_log_source(log, SC_SPAN("A"), &at, &err), 1);
	CHECK_INT(at, 10);
	CHECK_INT(sc_log_source(log, SC_SPAN("B"), &at, &err), 1);
	CHECK_INT(at, 300);
	CHECK_INT(append_rows(log, &rows, NULL, 3, &commit), SC_E_REFUSED);
	sc_log_close(log);
	log_done();
}

TEST(append_producer)
{
	struct sc_log_produced produced;
	struct sc_log_rows rows = { .producer = SC_SPAN("p"),
				    .producer_epoch = 1,
				    .producer_seq = 0 };
	struct sc_log_commit commit;
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_rows(log, &rows, NULL, 3, &commit), &err);
	CHECK_INT(commit.duplicate, false);
	for (int lost = 0; lost < 2; lost++) {
		rows.producer_epoch = 1;
		rows.producer_seq = 0;
		CHECK_OK(append_rows(log, &rows, NULL, 3, &commit), &err);
		CHECK_INT(commit.duplicate, true);
		CHECK_INT(commit.first, 1);
		CHECK_INT(commit.last, 3);
		rows.producer_seq = 4; /* a gap */
		CHECK_INT(append_rows(log, &rows, NULL, 1, &commit), SC_E_REFUSED);
		CHECK(strstr(err.fields, "\"why\":\"sequence\"") &&
		      strstr(err.fields, "\"expected\":3"));
		rows.producer_seq = 2; /* half old */
		CHECK_INT(append_rows(log, &rows, NULL, 3, &commit), SC_E_REFUSED);
		rows.producer_epoch = 0;
		CHECK_INT(append_rows(log, &rows, NULL, 3, &commit), SC_E_REFUSED);
		CHECK(strstr(err.fields, "\"why\":\"fenced\"") != NULL);
		CHECK_INT(next_of(log), 4);
		sc_log_close(log);
		drop_index();
		log = open_log(SC_LOG_APPEND);
	}
	rows.producer_epoch = 1;
	rows.producer_seq = 3;
	CHECK_OK(append_rows(log, &rows, NULL, 2, &commit), &err);
	CHECK_INT(commit.first, 4);
	rows.producer_seq = 1;
	CHECK_OK(append_rows(log, &rows, NULL, 2, &commit), &err);
	CHECK(commit.duplicate && commit.first == 0);
	rows.producer_seq = 4; /* within the last commit: its offset can be told */
	CHECK_OK(append_rows(log, &rows, NULL, 1, &commit), &err);
	CHECK(commit.duplicate && commit.first == 5 && commit.last == 5);
	CHECK_INT(sc_log_producer(log, SC_SPAN("p"), &produced, &err), 1);
	CHECK(produced.epoch == 1 && produced.seq_last == 4);
	CHECK_INT(sc_log_producer(log, SC_SPAN("q"), &produced, &err), 0);
	rows.producer_epoch = 2;
	rows.producer_seq = 0;
	CHECK_OK(append_rows(log, &rows, NULL, 1, &commit), &err);
	CHECK_INT(commit.first, 6);
	CHECK_INT(commit.duplicate, false);
	sc_log_close(log);
	log_done();
}

TEST(append_producer_leaves_numbers_out)
{
	struct sc_log_rows rows = { .producer = SC_SPAN("p"),
				    .producer_seq = 10,
				    .producer_last = 30 };
	struct sc_log_produced produced;
	struct sc_log_commit commit;
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_rows(log, &rows, NULL, 3, &commit), &err);
	CHECK_OK(append_rows(log, &rows, NULL, 3, &commit), &err);
	CHECK(commit.duplicate && commit.first == 1 && commit.last == 3);
	rows.producer_seq = rows.producer_last = 20; /* there, but which row it was is not known */
	CHECK_OK(append_rows(log, &rows, NULL, 1, &commit), &err);
	CHECK(commit.duplicate && commit.first == 0);
	rows.producer_last = 31;
	CHECK_INT(append_rows(log, &rows, NULL, 1, &commit), SC_E_REFUSED);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(sc_log_producer(log, SC_SPAN("p"), &produced, &err), 1);
	CHECK_INT(produced.seq_last, 30);
	rows.producer_seq = 31;
	rows.producer_last = 99;
	CHECK_OK(append_rows(log, &rows, NULL, 2, &commit), &err);
	CHECK_INT(commit.first, 4);
	sc_log_close(log);
	log_done();
}

TEST(append_if_next)
{
	struct sc_log_rows rows = { .if_next = 2 };
	struct sc_log_commit commit;
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(append_rows(log, &rows, NULL, 1, &commit), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"next_offset\":1") != NULL);
	rows.if_next = 1;
	CHECK_OK(append_rows(log, &rows, NULL, 1, &commit), &err);
	CHECK_INT(next_of(log), 2);
	sc_log_close(log);
	log_done();
}

TEST(append_message_limit)
{
	static char text[2000];
	uint32_t lens[2] = { 5, 1000 };
	struct sc_log_rows rows = { .text = { text, 1005 }, .lens = lens, .count = 2 };
	struct sc_log_commit commit;
	struct sc_log *log;

	memset(text, '1', sizeof(text));
	log_new_with(&(struct sc_log_settings){ .message_max = 1000 });
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	lens[1] = 1001;
	rows.text.len = 1006;
	CHECK_INT(sc_log_append(log, &rows, &commit, &err), SC_E_DATA);
	CHECK(strstr(err.reason, "1001") && strstr(err.reason, "1000") &&
	      strstr(err.next, "--max-message"));
	CHECK_INT(next_of(log), 3);
	sc_log_close(log);
	log_done();
}

/* A message as long as any may be: one block longer than all others. */
TEST(append_longest_message)
{
	size_t len = SC_MESSAGE_MAX;
	char *text = malloc(len);
	uint32_t lens[1] = { SC_MESSAGE_MAX };
	struct sc_log_rows rows = { .text = { text, len }, .lens = lens, .count = 1 };
	struct sc_log_commit commit;
	struct sc_log *log;
	struct sc_bytes got;

	memset(text, '1', len);
	log_new_with(&(struct sc_log_settings){ .message_max = SC_MESSAGE_MAX });
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	CHECK_OK(append_n(log, 2, 1, NULL), &err);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_READ);
	sc_bytes_init(&got, 1u << 30);
	CHECK_OK(read_all(log, 1, 100, &got), &err);
	CHECK_INT(got.len, 3 + len + 2 + 12);
	sc_bytes_done(&got);
	sc_log_close(log);
	free(text);
	log_done();
}

static int64_t fake_us = 1000;

static int64_t fake_wall(void)
{
	return fake_us;
}

TEST(append_times_never_fall)
{
	struct sc_log_commit commit;
	struct sc_log *log;
	uint64_t offset;

	sc_clock_set(fake_wall, NULL);
	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 1; i <= 300; i++) {
		fake_us = 1000 + (int64_t)i * 10;
		CHECK_OK(append_n(log, i * 2 - 1, 2, &commit), &err);
		CHECK_INT(commit.appended_us, fake_us);
	}
	fake_us = 5;
	CHECK_OK(append_n(log, 601, 1, &commit), &err);
	CHECK_INT(commit.appended_us, 4000);
	for (int lost = 0; lost < 2; lost++) {
		for (int64_t i = 1; i <= 300; i++) {
			CHECK_OK(sc_log_offset_at(log, 1000 + i * 10, &offset, &err), &err);
			CHECK_INT(offset, i * 2 - 1);
			CHECK_OK(sc_log_offset_at(log, 1000 + i * 10 - 1, &offset, &err), &err);
			CHECK_INT(offset, i * 2 - 1);
		}
		CHECK_OK(sc_log_offset_at(log, 0, &offset, &err), &err);
		CHECK_INT(offset, 1);
		CHECK_OK(sc_log_offset_at(log, 4001, &offset, &err), &err);
		CHECK_INT(offset, 602);
		sc_log_close(log);
		drop_index();
		log = open_log(SC_LOG_READ);
	}
	sc_log_close(log);
	sc_clock_set(NULL, NULL);
	log_done();
}

/* Sources go into every anchor, which has room for so many: one more is refused when it comes, and
 * not all appends when the next journal begins. */
TEST(append_many_sources)
{
	struct sc_log *log;
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	uint32_t len = 1;
	struct sc_log_rows rows = { .text = SC_SPAN("1"), .lens = &len, .count = 1 };
	struct sc_log_commit commit;
	char name[SC_NAME_MAX];
	struct sc_log_state now;
	uint64_t at = 5;

	log_new(4096);
	log = open_log(SC_LOG_APPEND);
	memset(name, 'x', sizeof(name));
	CHECK_OK(sc_index_begin(log, &txn, &state, &err), &err);
	for (unsigned i = 0; i < SC_SOURCES_MAX; i++) {
		memcpy(name, &i, sizeof(i));
		CHECK_OK(sc_kv_put(txn, SC_T_SOURCES, sc_span(name, sizeof(name)),
				   sc_span((const char *)&at, sizeof(at)), &err),
			 &err);
	}
	CHECK_OK(sc_index_end(log, &txn, &state, 0, &err), &err);
	rows.source = SC_SPAN("one more");
	rows.source_offset = 6;
	CHECK_INT(sc_log_append(log, &rows, &commit, &err), SC_E_CONFIG);
	CHECK(strstr(err.reason, "sources"));
	rows.source = sc_span(name, sizeof(name));
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	CHECK_OK(append_n(log, 2, 300, NULL), &err);
	CHECK_OK(append_n(log, 302, 300, NULL), &err); /* in a new journal */
	CHECK_OK(sc_log_state(log, &now, &err), &err);
	CHECK(now.journals > 1);
	sc_log_close(log);
	log_done();
}
