/*
 * Segments: rows that go in come out, by offset, time and number, whatever their shape; the same
 * rows make the same bytes; the index says what the rows are.
 *
 * Method: rows made up from seeds are sealed into a file in memory and compared with what was put
 * in.
 */
#include "segment_help.h"

#include "base/clock.h"
#include "base/file.h"
#include "json/scan.h"
#include "log/segment_internal.h"

/* SHAPE: what kind of log. */
enum shape { MIXED, GAPS, ONE_ROW_COMMITS, BULK, HUGE_LINES, ONE_ROW, SHAPES };

static void make_rows(struct model *m, enum shape shape, uint64_t seed)
{
	static char text[700000];
	uint64_t offset = seed % 3 ? any(1000) + 1 : (1ull << 63) + any(1000), left = 0;
	int64_t us = 1700000000000000 + (int64_t)any(1000000);
	size_t count = shape == ONE_ROW ? 1 : shape == HUGE_LINES ? 12 : 500 + any(9000);

	for (size_t i = 0; i < count; i++) {
		size_t len = any(200);

		if (shape == HUGE_LINES || (shape == MIXED && any(4000) == 0))
			len = any(3) ? SC_SEGMENT_FRAME - 40 + any(80) : 250000 + any(400000);
		if (left == 0) {
			us += (int64_t)(any(4) ? any(1000) : 0);
			left = shape == ONE_ROW_COMMITS ? 1 : shape == BULK ? 5000 : 1 + any(30);
		}
		left--;
		text[0] = '"';
		for (size_t k = 1; k <= len; k++)
			text[k] = (char)('a' + any(any(2) ? 3 : 26));
		text[len + 1] = '"';
		model_add(m, offset, us, sc_span(text, len + 2));
		offset += shape == GAPS || (shape == MIXED && !any(50)) ? 1 + any(1000) : 1;
	}
}

static void check_places(struct sc_segment *s, const struct model *m)
{
	for (int i = 0; i < 60; i++) {
		struct sc_segment_place place = { 0 };
		size_t at = any(m->count), want;
		uint64_t offset = m->rows[at].offset + any(3) - (m->rows[at].offset > 1 && any(2));
		int64_t us = m->rows[at].us + (int64_t)any(3) - 1;
		struct sc_run run;
		int rc;

		want = model_find(m, offset);
		rc = sc_segment_find(s, offset, &place, &err);
		CHECK_INT(rc, want < m->count);
		if (rc == 1) {
			CHECK(place.offset == m->rows[want].offset);
			CHECK_INT(place.rows, want);
			CHECK_INT(place.bytes, m->rows[want].at);
			CHECK_INT(place.appended_us, m->rows[want].us);
			CHECK(sc_segment_offset(s) == place.offset);
			CHECK_INT(sc_segment_next(s, 1, &run, &err), 1);
			CHECK(run_is(m, want, &run, &want) && run.rows == 1);
		}
		for (want = 0; want < m->count && m->rows[want].us < us; want++)
			;
		rc = sc_segment_find_time(s, us, &place, &err);
		CHECK_INT(rc, want < m->count);
		if (rc == 1)
			CHECK_INT(place.rows, want);
		CHECK_INT(sc_segment_find_row(s, at, &place, &err), 1);
		CHECK_INT(place.rows, at);
		CHECK(place.offset == m->rows[at].offset);
	}
	CHECK_INT(sc_segment_find_row(s, m->count, &(struct sc_segment_place){ 0 }, &err), 0);
}

static void check_rows(struct sc_segment *s, const struct model *m, size_t from, size_t max)
{
	struct sc_run run;
	size_t at = from;
	int rc;

	sc_segment_seek(s, m->rows[from].offset);
	while ((rc = sc_segment_next(s, max, &run, &err)) == 1) {
		CHECK(run_is(m, at, &run, &at));
		CHECK(!max || run.lines.len <= max || run.rows == 1);
		CHECK(sc_segment_offset(s) > run.last);
	}
	CHECK_OK(rc, &err);
	CHECK_INT(at, m->count);
	CHECK_INT(sc_segment_next(s, max, &run, &err), 0);
}

static void check_info(const struct sc_segment_info *got, const struct model *m,
		       const struct sc_segment_info *written, size_t size)
{
	CHECK_STR(got->stream_id, "6a1f9c1e-0000-4000-8000-000000000001");
	CHECK(got->first == m->rows[0].offset && got->last == m->rows[m->count - 1].offset);
	CHECK_INT(got->rows, m->count);
	CHECK_INT(got->bytes, m->text.len);
	CHECK_INT(got->first_us, m->rows[0].us);
	CHECK_INT(got->last_us, m->rows[m->count - 1].us);
	CHECK(sc_hash_same(&got->hash, &written->hash));
	CHECK_INT(got->frames, written->frames);
	CHECK_INT(got->file_bytes, size);
	CHECK_INT(written->file_bytes, size);
	CHECK_INT(got->tie.commit, 7);
	CHECK(got->tie.next == got->last + 1);
}

/* A frame ends only where the next line would make it too long. */
static void check_frames(const struct sc_segment *s, const struct model *m)
{
	for (size_t i = 0; i < sc_segment_info(s)->frames; i++) {
		const struct sc_segment_frame *f = sc_segment_frame(s, i);
		size_t next = model_find(m, f->last) + 1;

		CHECK(f->size <= SC_SEGMENT_FRAME || f->rows == 1);
		CHECK(next == m->count || f->size + m->rows[next].len > SC_SEGMENT_FRAME);
	}
}

static void round_trip(enum shape shape, uint64_t seed)
{
	struct sc_segment_info written;
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct sc_bytes file, again;
	struct memory memory;
	struct model m;
	int fd;

	seed_state = seed * 1000 + shape;
	model_init(&m);
	make_rows(&m, shape, seed);
	fd = model_seal(&m, NULL, FEED_COMMITS, NULL, &written);
	slurp(fd, &file);
	close(fd);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	source.ahead = seed % 2 ? 1u << 20 : 0;
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	check_info(sc_segment_info(s), &m, &written, file.len);
	check_frames(s, &m);
	check_rows(s, &m, 0, 0);
	check_rows(s, &m, any(m.count), 1 + any(20000));
	check_places(s, &m);
	CHECK_OK(sc_segment_verify(s, &err), &err);
	check_rows(s, &m, any(m.count), 0);
	sc_segment_close(s);
	/* however rows are handed in, the file is the same */
	for (enum feed feed = FEED_ROWS; feed <= FEED_RANDOM; feed++) {
		fd = model_seal(&m, NULL, feed, NULL, &written);
		slurp(fd, &again);
		close(fd);
		CHECK(again.len == file.len && !memcmp(again.data, file.data, file.len));
		sc_bytes_done(&again);
	}
	sc_bytes_done(&file);
	model_done(&m);
}

TEST(rows_come_back_by_offset_time_and_number)
{
	for (uint64_t seed = 1; seed <= 3; seed++)
		for (enum shape shape = 0; shape < SHAPES; shape++)
			round_trip(shape, seed);
}

TEST(opening_is_one_read_and_a_row_one_more)
{
	struct sc_segment_info info;
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct memory memory;
	struct sc_bytes file;
	struct sc_run run;
	struct model m;
	int fd;

	seed_state = 5;
	model_init(&m);
	for (size_t i = 0; i < 60000; i++) {
		char text[120];

		snprintf(text, sizeof(text),
			 "{\"event_ts\":%llu,\"price\":%llu.50,\"symbol\":\"BTCUSD\"}",
			 (unsigned long long)(i + any(1000000000)),
			 (unsigned long long)any(100000));
		model_add(&m, i + 1, 1700000000000000 + (int64_t)i * 163, sc_span_str(text));
	}
	fd = model_seal(&m, NULL, FEED_COMMITS, NULL, &info);
	slurp(fd, &file);
	close(fd);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_INT(memory.reads, 1);
	CHECK_INT(memory.bytes, SC_SEGMENT_TAIL);
	sc_segment_seek(s, 30000);
	CHECK_INT(sc_segment_next(s, 0, &run, &err), 1);
	CHECK_INT(run.first, 30000);
	CHECK_INT(memory.reads, 2);
	CHECK(memory.bytes < SC_SEGMENT_TAIL + SC_SEGMENT_FRAME);
	sc_segment_close(s);
	sc_bytes_done(&file);
	model_done(&m);
}

static void columns_are(const char *schema_text, const char *const *rows, const char *want)
{
	struct sc_schema *schema = NULL;
	struct sc_segment_info info;
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct model m;
	int fd;

	CHECK_OK(sc_schema_parse(sc_span_str(schema_text), &schema, &err), &err);
	model_init(&m);
	for (size_t i = 0; rows[i]; i++)
		model_add(&m, i + 1, 1700000000000000, sc_span_str(rows[i]));
	fd = model_seal(&m, schema, FEED_COMMITS, NULL, &info);
	CHECK_OK(sc_segment_source_fd(fd, "a segment", &source, &err), &err);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_SPAN(sc_segment_info(s)->columns, want);
	CHECK(sc_segment_info(s)->schema.len == sc_schema_text(schema).len);
	CHECK(!memcmp(sc_segment_info(s)->schema.data, sc_schema_text(schema).data,
		      sc_schema_text(schema).len));
	sc_segment_close(s);
	close(fd);
	sc_schema_free(schema);
	model_done(&m);
}

TEST(columns_have_least_greatest_and_nulls)
{
	static const char schema[] = "{\"type\":\"object\",\"properties\":{"
				     "\"i\":{\"type\":\"integer\",\"format\":\"int64\"},"
				     "\"j\":{\"type\":[\"integer\",\"null\"],\"format\":\"int32\"},"
				     "\"d\":{\"type\":\"number\"},"
				     "\"f\":{\"type\":[\"number\",\"null\"],\"format\":\"float\"},"
				     "\"b\":{\"type\":[\"boolean\",\"null\"]},"
				     "\"s\":{\"type\":\"string\"},"
				     "\"n\":{\"type\":[\"string\",\"null\"]}},"
				     "\"required\":[\"i\",\"d\",\"s\"]}";
	const char *const rows[] = {
		"{\"i\":5,\"j\":null,\"d\":0.10,\"f\":1e2,\"b\":null,\"s\":\"b}\\\",\",\"n\":null}",
		"{\"i\":-9223372036854775808,\"j\":3,\"d\":-0.0,\"f\":null,\"b\":true,\"s\":\"\","
		"\"n\":null}",
		"{\"i\":9223372036854775807,\"j\":-7,\"d\":1234567.25,\"f\":-2.5,\"b\":true,\"s\":"
		"\"\\u00e9\",\"n\":null}",
		"{\"i\":0,\"j\":null,\"d\":0.09999999999999999999,\"f\":99,\"b\":true,\"s\":\"z\","
		"\"n\":null}",
		NULL
	};

	columns_are(schema, rows,
		    "[[\"i\",-9223372036854775808,9223372036854775807,0],\n"
		    "[\"j\",-7,3,2],\n[\"d\",-0.0,1234567.25,0],\n[\"f\",-2.5,1e2,1],\n"
		    "[\"b\",true,true,1],\n[\"s\",\"\",\"é\",0],\n[\"n\",null,null,4]]");
}

TEST(long_strings_are_kept_as_whole_characters_of_a_prefix)
{
	static const char schema[] = "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":"
				     "\"string\"}},\"required\":[\"s\"]}";
#define SIXTY "aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffff"
	const char *const rows[] = { "{\"s\":\"" SIXTY "zzz\\u00e9 and on\"}", /* é is cut in two */
				     "{\"s\":\"" SIXTY "zzz\"}", NULL };
	const char *const whole[] = { "{\"s\":\"" SIXTY "1234\"}", "{\"s\":\"" SIXTY "12345\"}",
				      NULL };

	columns_are(schema, rows, "[[\"s\",\"" SIXTY "zzz\",{\"prefix\":\"" SIXTY "zzz\"},0]]");
	columns_are(schema, whole, "[[\"s\",\"" SIXTY "1234\",{\"prefix\":\"" SIXTY "1234\"},0]]");
}

TEST(rows_of_another_form_leave_the_columns_unknown)
{
	static const char schema[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
				     "\"integer\"},\"b\":{\"type\":\"string\"}},"
				     "\"required\":[\"a\",\"b\"]}";
	static const char *const odd[] = { "{\"a\":1}",
					   "{\"a\":1,\"b\":\"x\",\"c\":2}",
					   "{\"b\":\"x\",\"a\":1}",
					   "{\"a\":1.5,\"b\":\"x\"}",
					   "{\"a\":1,\"b\":2}",
					   "{\"a\":1,\"b\":\"x",
					   "{}",
					   "7",
					   "{\"a\":1,\"b\":\"x\"}}" };
	/* what no log takes, and a file with right checksums may hold */
	static const char numbers[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
				      "\"number\"}},\"required\":[\"a\"]}";
	static const char *const no_strings[] = { "\\q",     "\\",   "\\u12", "\\u00zz",
						  "\\ud800", "\xff", "\x01",  "\\ud800\\u0041" };
	static const char *const no_numbers[] = { "007", "1.",  ".5",  "-",   "+",
						  "1e",  "1-2", "--1", "0x1", "1.2.3" };

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		const char *rows[] = { "{\"a\":1,\"b\":\"x\"}", odd[i], "{\"a\":1,\"b\":\"x\"}",
				       NULL };

		columns_are(schema, rows, "");
	}
	for (size_t i = 0; i < sizeof(no_strings) / sizeof(no_strings[0]); i++) {
		char row[64];
		const char *rows[] = { row, NULL };

		snprintf(row, sizeof(row), "{\"a\":1,\"b\":\"%s\"}", no_strings[i]);
		columns_are(schema, rows, "");
	}
	for (size_t i = 0; i < sizeof(no_numbers) / sizeof(no_numbers[0]); i++) {
		char row[64];
		const char *rows[] = { row, NULL };

		snprintf(row, sizeof(row), "{\"a\":%s}", no_numbers[i]);
		columns_are(numbers, rows, "");
	}
}

TEST(the_tie_comes_back_whole)
{
	static const char binary[] = { (char)0xff, 'x', '\n', 0, '"' };
	struct sc_segment_tie tie = { .rows_before = 4611686018427387904u,
				      .bytes_before = 77,
				      .next = UINT64_MAX - 1,
				      .commit = 12,
				      .journal = 3,
				      .journal_end = 99 };
	struct sc_producer p = { 1, UINT64_MAX, 3, 4, 5, 6 };
	struct sc_segment_source source;
	const struct sc_segment_tie *got;
	struct sc_segment_info info;
	struct sc_segment *s = NULL;
	struct sc_bytes ext;
	struct model m;
	int fd;

	model_init(&m);
	model_add(&m, 9, -5, SC_SPAN("1"));
	sc_bytes_init(&ext, SC_BLOCK_EXT_MAX);
	CHECK(sc_ext_put_source(&ext, SC_SPAN("A \"quoted\" \xc3\xa9"), 18446744073709551615u) ==
	      0);
	CHECK(sc_ext_put_source(&ext, sc_span(binary, sizeof(binary)), 0) == 0);
	CHECK(sc_ext_put_producer(&ext, SC_SPAN("p"), &p) == 0);
	tie.checkpoint = sc_span(ext.data, ext.len);
	memset(tie.before.bytes, 0xa5, SC_HASH_LEN);
	memset(tie.after.bytes, 0x0f, SC_HASH_LEN);
	fd = model_seal(&m, NULL, FEED_COMMITS, &tie, &info);
	CHECK_OK(sc_segment_source_fd(fd, "a segment", &source, &err), &err);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	got = &sc_segment_info(s)->tie;
	CHECK(sc_hash_same(&got->before, &tie.before) && sc_hash_same(&got->after, &tie.after));
	CHECK(got->rows_before == tie.rows_before && got->bytes_before == 77);
	CHECK(got->next == tie.next && got->commit == 12 && got->journal == 3 &&
	      got->journal_end == 99);
	CHECK_INT(got->checkpoint.len, ext.len);
	CHECK(!memcmp(got->checkpoint.data, ext.data, ext.len));
	CHECK_INT(sc_segment_info(s)->first_us, -5);
	sc_segment_close(s);
	close(fd);
	sc_bytes_done(&ext);
	model_done(&m);
}

TEST(names_are_two_offsets)
{
	char name[SC_SEGMENT_NAME];
	uint64_t first = 0, last = 0;

	sc_segment_name(1, 131072, name);
	CHECK_STR(name, "00000000000000000001-00000000000000131072.ndjson.zst");
	CHECK(sc_segment_name_parse(name, &first, &last) && first == 1 && last == 131072);
	sc_segment_name(UINT64_MAX - 2, UINT64_MAX - 2, name);
	CHECK(sc_segment_name_parse(name, &first, &last) && last == UINT64_MAX - 2);
	sc_segment_name(1, UINT64_MAX - 1, name); /* no row has that offset */
	CHECK(!sc_segment_name_parse(name, &first, &last));
	CHECK(!sc_segment_name_parse("00000000000000000001-00000000000000131072.ndjson.zst.tmp",
				     &first, &last));
	CHECK(!sc_segment_name_parse("00000000000000000000-00000000000000131072.ndjson.zst", &first,
				     &last));
	CHECK(!sc_segment_name_parse("00000000000000000002-00000000000000000001.ndjson.zst", &first,
				     &last));
	CHECK(!sc_segment_name_parse("99999999999999999999-99999999999999999999.ndjson.zst", &first,
				     &last));
	CHECK(!sc_segment_name_parse("00000000000000000001_00000000000000131072.ndjson.zst", &first,
				     &last));
	CHECK(!sc_segment_name_parse("", &first, &last));
}

static int add_after_one(const char *lines, uint64_t first, uint64_t last, uint64_t rows,
			 int64_t us)
{
	struct sc_segment_begin begin = { .fd = memfd_create("segment", MFD_CLOEXEC),
					  .name = "a segment",
					  .stream_id = "x" };
	struct sc_run run = { SC_SPAN("[5,1]\n"), 5, 5, 1, 1000 };
	struct sc_segment_writer *w = NULL;
	int rc;

	CHECK_OK(sc_segment_write_begin(&begin, &w, &err), &err);
	CHECK_OK(sc_segment_write_add(w, &run, &err), &err);
	run = (struct sc_run){ sc_span_str(lines), first, last, rows, us };
	rc = sc_segment_write_add(w, &run, &err);
	sc_segment_write_free(w);
	close(begin.fd);
	return rc;
}

TEST(runs_that_are_not_what_they_say_are_refused)
{
	CHECK_INT(add_after_one("[6,1]\n[8,2]\n", 6, 8, 2, 1000), 0);
	CHECK_INT(add_after_one("[6,1]\n[8,2]\n", 6, 7, 2, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,1]\n[8,2]\n", 6, 8, 3, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,1]\n[8,2]", 6, 8, 2, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,1]\n[6,2]\n", 6, 6, 2, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[5,1]\n", 5, 5, 1, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,1]\n", 6, 6, 1, 999), SC_E_DATA);
	CHECK_INT(add_after_one("{\"a\":1}\n", 6, 6, 1, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[06,1]\n", 6, 6, 1, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,]\n", 6, 6, 1, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[6,1}\n", 6, 6, 1, 1000), SC_E_DATA);
	CHECK_INT(add_after_one("[99999999999999999999,1]\n", 6, 6, 1, 1000), SC_E_DATA);
}

TEST(a_segment_has_rows)
{
	struct sc_segment_begin begin = { .fd = memfd_create("segment", MFD_CLOEXEC),
					  .name = "a segment",
					  .stream_id = "x" };
	struct sc_segment_tie tie = { .next = 1 };
	struct sc_segment_writer *w = NULL;
	struct sc_segment_info info;

	CHECK_OK(sc_segment_write_begin(&begin, &w, &err), &err);
	CHECK_INT(sc_segment_write_finish(w, &tie, &info, &err), SC_E_DATA);
	sc_segment_write_free(w);
	close(begin.fd);
}

TEST(a_newer_format_is_told_from_damage)
{
	struct sc_segment_source source;
	struct sc_segment_info info;
	struct sc_segment *s = NULL;
	struct memory memory;
	struct sc_bytes file;
	struct model m;
	char *tag;
	int fd;

	model_init(&m);
	model_add(&m, 1, 1, SC_SPAN("1"));
	fd = model_seal(&m, NULL, FEED_COMMITS, NULL, &info);
	slurp(fd, &file);
	close(fd);
	tag = memmem(file.data, file.len, sc_segment_tag, SC_INDEX_TAG_LEN);
	CHECK(tag != NULL);
	tag[SC_INDEX_TAG_LEN - 1] = 2;
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_INT(sc_segment_open(&source, &s, &err), SC_E_CONFIG);
	sc_bytes_done(&file);
	model_done(&m);
}
