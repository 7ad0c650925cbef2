/*
 * Damaged and made-up segments: an error or the right rows, never wrong ones, never a crash.
 *
 * Method: every truncation and every flipped bit of a small segment; then every byte of its index changed with the
 * checksum made right again, as an attacker would; then the golden files.
 */
#include "segment_help.h"

#include <xxhash.h>

#include "base/file.h"
#include "log/segment_internal.h"

static void make_small(struct model *m, struct sc_bytes *ret_file)
{
	struct sc_schema *schema = NULL;
	struct sc_segment_info info;
	int fd;

	CHECK_OK(
		sc_schema_parse(
			SC_SPAN("{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"},"
				"\"s\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"n\"]}"),
			&schema, &err),
		&err);
	model_init(m);
	for (unsigned i = 0; i < 40; i++) {
		char text[64];

		snprintf(text, sizeof(text), "{\"n\":%u,\"s\":\"%u\"}", i, i * i);
		model_add(m, i + 1 + i / 10, 1700000000000000 + i / 4 * 200, sc_span_str(text));
	}
	fd = model_seal(m, schema, FEED_COMMITS, NULL, &info);
	slurp(fd, ret_file);
	close(fd);
	sc_schema_free(schema);
}

/* What a reader gets out of LEN bytes: 1 all rows, as the model has them; 0 an error. Wrong rows end the test. With LAX the
 * index is made up: then only the bytes of the lines must be right. */
static int read_all(const struct model *m, const char *data, size_t len, bool lax)
{
	struct memory memory = { .data = data, .len = len };
	struct sc_segment_source source = memory_source(&memory);
	struct sc_segment_place place;
	struct sc_segment *s = NULL;
	struct sc_run run;
	size_t at = 0;
	int rc = sc_segment_open(&source, &s, &err);

	if (rc < 0) {
		CHECK(rc == SC_E_DATA || rc == SC_E_CONFIG);
		return 0;
	}
	while ((rc = sc_segment_next(s, 0, &run, &err)) == 1) {
		if (lax) {
			CHECK(at < m->count);
			CHECK(run.lines.len <= m->text.len - m->rows[at].at &&
			      !memcmp(run.lines.data, m->text.data + m->rows[at].at,
				      run.lines.len));
			at += (size_t)run.rows;
		} else {
			CHECK(run_is(m, at, &run, &at));
		}
	}
	CHECK(rc == 0 || rc == SC_E_DATA);
	if (rc == 0)
		CHECK_INT(at, m->count);
	(void)sc_segment_find_time(s, 1700000000000900, &place, &err);
	(void)sc_segment_find_row(s, 20, &place, &err);
	(void)sc_segment_find(s, 20, &place, &err);
	rc = rc == 0 && sc_segment_verify(s, &err) == 0;
	sc_segment_close(s);
	return rc;
}

/* A copy of exactly LEN bytes. */
static char *copy_of(const char *data, size_t len)
{
	char *copy = malloc(len ? len : 1);

	CHECK(copy != NULL);
	memcpy(copy, data, len);
	return copy;
}

TEST(every_truncation_is_an_error)
{
	struct sc_bytes file;
	struct model m;

	make_small(&m, &file);
	CHECK_INT(read_all(&m, file.data, file.len, false), 1);
	for (size_t len = 0; len < file.len; len++) {
		char *copy = copy_of(file.data, len);

		CHECK_INT(read_all(&m, copy, len, false), 0);
		free(copy);
	}
	sc_bytes_done(&file);
	model_done(&m);
}

TEST(a_segment_that_grew_is_an_error)
{
	struct sc_bytes file;
	struct model m;

	make_small(&m, &file);
	for (int front = 0; front < 2; front++) {
		char *copy = malloc(file.len + 1);

		CHECK(copy != NULL);
		copy[front ? 0 : file.len] = 0;
		memcpy(copy + front, file.data, file.len);
		CHECK_INT(read_all(&m, copy, file.len + 1, false), 0);
		free(copy);
	}
	sc_bytes_done(&file);
	model_done(&m);
}

TEST(no_flipped_bit_gives_other_rows)
{
	struct sc_bytes file;
	struct model m;
	size_t harmless = 0;
	char *copy;

	make_small(&m, &file);
	copy = copy_of(file.data, file.len);
	for (size_t bit = 0; bit < file.len * 8; bit++) {
		copy[bit / 8] = (char)(copy[bit / 8] ^ (1 << bit % 8));
		harmless += (size_t)read_all(&m, copy, file.len, false);
		copy[bit / 8] = file.data[bit / 8];
	}
	CHECK_INT(harmless, 0);
	free(copy);
	sc_bytes_done(&file);
	model_done(&m);
}

/* Make the index's checksum right again. */
static void sign(char *file, size_t len)
{
	char *index = memmem(file, len, sc_segment_tag, SC_INDEX_TAG_LEN);
	size_t size;
	XXH128_canonical_t canonical;

	CHECK(index != NULL);
	size = sc_get_le32(index - 4) - SC_INDEX_TAG_LEN - SC_HASH_LEN;
	XXH128_canonicalFromHash(&canonical,
				 XXH3_128bits(index + SC_INDEX_TAG_LEN + SC_HASH_LEN, size));
	memcpy(index + SC_INDEX_TAG_LEN, canonical.digest, SC_HASH_LEN);
}

TEST(an_index_that_was_made_up_gives_no_other_lines)
{
	static const char bytes[] = "0189-\",:[]{}x\\";
	struct sc_bytes file;
	struct model m;
	size_t begin, end;
	char *copy, *tag;

	make_small(&m, &file);
	copy = copy_of(file.data, file.len);
	tag = memmem(copy, file.len, sc_segment_tag, SC_INDEX_TAG_LEN);
	CHECK(tag != NULL);
	begin = (size_t)(tag - copy) + SC_INDEX_TAG_LEN + SC_HASH_LEN;
	end = (size_t)(tag - copy) + sc_get_le32(tag - 4);
	for (size_t at = begin; at < end; at++) {
		for (const char *byte = bytes; *byte; byte++) {
			copy[at] = *byte;
			sign(copy, file.len);
			(void)read_all(&m, copy, file.len, true);
		}
		copy[at] = file.data[at];
	}
	free(copy);
	sc_bytes_done(&file);
	model_done(&m);
}

TEST(damage_names_the_last_good_offset_and_later_frames_can_be_read)
{
	struct sc_segment_source source;
	struct sc_segment_info info;
	struct sc_segment *s = NULL;
	struct memory memory;
	struct sc_bytes file;
	struct sc_run run;
	struct model m;
	char want[64], text[200];
	uint64_t last_good;
	int fd, rc;

	seed_state = 3;
	model_init(&m);
	for (unsigned i = 0; i < 20000; i++) {
		size_t len = 30 + any(60);

		for (size_t k = 0; k < len; k++)
			text[k] = (char)('0' + any(9) + 1);
		model_add(&m, i + 1, i, sc_span(text, len));
	}
	fd = model_seal(&m, NULL, FEED_COMMITS, NULL, &info);
	slurp(fd, &file);
	close(fd);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK(info.frames > 3);
	file.data[sc_segment_frame(s, 1)->at + 1000] ^= 4;
	last_good = sc_segment_frame(s, 0)->last;
	while ((rc = sc_segment_next(s, 0, &run, &err)) == 1)
		CHECK(run.last <= last_good);
	CHECK_INT(rc, SC_E_DATA);
	snprintf(want, sizeof(want), "\"last_good\":%llu", (unsigned long long)last_good);
	CHECK(strstr(err.fields, want) != NULL);
	CHECK_INT(sc_segment_next(s, 0, &run, &err), SC_E_DATA);
	CHECK_INT(sc_segment_verify(s, &err), SC_E_DATA);
	sc_segment_seek(s, sc_segment_frame(s, 2)->first);
	CHECK_INT(sc_segment_next(s, 0, &run, &err), 1);
	CHECK(run.first == sc_segment_frame(s, 2)->first);
	sc_segment_close(s);
	sc_bytes_done(&file);
	model_done(&m);
}

/* The file with one text of its index replaced by another as long, wherever it stands there, and signed. */
static void forge(struct sc_bytes *file, const char *from, const char *to)
{
	char *at = memmem(file->data, file->len, sc_segment_tag, SC_INDEX_TAG_LEN);
	size_t len = strlen(from), found = 0;

	CHECK(at != NULL && strlen(to) == len);
	while ((at = memmem(at, (size_t)(file->data + file->len - at), from, len))) {
		memcpy(at, to, len);
		found++;
	}
	CHECK(found > 0);
	sign(file->data, file->len);
}

TEST(lines_must_be_those_that_a_right_index_counts)
{
	struct memory memory;
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct sc_bytes file;
	struct sc_run run;
	struct model m;
	char *hash;

	/* the last row is 43 */
	make_small(&m, &file);
	forge(&file, ",40,1,43,", ",40,1,44,");
	forge(&file, "\"last\":43", "\"last\":44");
	forge(&file, "\"next\":44", "\"next\":45");
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_INT(sc_segment_next(s, 0, &run, &err), SC_E_DATA);
	sc_segment_close(s);
	sc_bytes_done(&file);
	model_done(&m);
	/* another hash of all lines: only verify asks it */
	make_small(&m, &file);
	hash = memmem(file.data, file.len, "\n\"hash\":\"", 9);
	CHECK(hash != NULL);
	hash[9] = hash[9] == 'a' ? 'b' : 'a';
	sign(file.data, file.len);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_INT(sc_segment_next(s, 0, &run, &err), 1);
	CHECK_INT(sc_segment_verify(s, &err), SC_E_DATA);
	sc_segment_close(s);
	sc_bytes_done(&file);
	model_done(&m);
}

#define HASH "\"00112233445566778899aabbccddeeff\""
static const char good_index[] = "{\"format\":1,\"stream_id\":\"x\",\"first\":5,\"last\":9,"
				 "\"rows\":4,\"bytes\":60,\"first_us\":-3,\"last_us\":8,"
				 "\"hash\":" HASH ",\"before\":{\"hash\":" HASH
				 ",\"rows\":1,\"bytes\":2},"
				 "\"after\":{\"hash\":" HASH
				 ",\"next\":10,\"commit\":3,\"journal\":4,\"journal_end\":5},"
				 "\"schema\":null,\"columns\":null,\"sources\":[[\"s\",7]],"
				 "\"producers\":[[\"p\",1,2,3,4,5,6]],\"later\":[1],"
				 "\"frames\":[[0,30,12,30,77,2,5,6,-3,4,\"0123456789abcdef\"],[42,"
				 "30,12,30,78,2,7,9,4,8,\"0123456789abcdef\"]]}";

/* The code that the index gives once FROM is TO in it, and AND_FROM is AND_TO (or NULL). */
static int index_with(const char *from, const char *to, const char *and_from, const char *and_to)
{
	const char *pairs[][2] = { { from, to }, { and_from, and_to } }, *what;
	struct sc_segment_frame *frames = NULL;
	struct sc_segment_info info;
	struct sc_bytes checkpoint;
	char text[2000], next[2000], *exact;
	int rc;

	snprintf(text, sizeof(text), "%s", good_index);
	for (int i = 0; i < 2 && pairs[i][0]; i++) {
		const char *at = strstr(text, pairs[i][0]);

		CHECK(at != NULL);
		CHECK(snprintf(next, sizeof(next), "%.*s%s%s", (int)(at - text), text, pairs[i][1],
			       at + strlen(pairs[i][0])) < (int)sizeof(next));
		memcpy(text, next, sizeof(text));
	}
	exact = copy_of(text, strlen(text));
	sc_bytes_init(&checkpoint, SC_BLOCK_EXT_MAX);
	rc = sc_segment_index_get(sc_span(exact, strlen(text)), &info, &checkpoint, &frames, &what);
	if (rc == 0)
		free(frames);
	sc_bytes_done(&checkpoint);
	free(exact);
	return rc;
}

TEST(an_index_must_hold_together)
{
	static const char *const wrong[][4] = {
		{ "\"stream_id\":\"x\"", "\"stream_id\":\"\"" },
		{ "\"stream_id\":\"x\"", "\"stream_id\":7" },
		{ "\"stream_id\":\"x\",", "" },
		{ "\"first\":5", "\"first\":4" },
		{ "\"first\":5", "\"first\":5,\"first\":5" },
		{ "\"last\":9", "\"last\":8" },
		{ "\"rows\":4", "\"rows\":5" },
		{ "\"bytes\":60", "\"bytes\":61" },
		{ "\"last_us\":8", "\"last_us\":9" },
		{ "\"next\":10", "\"next\":9" },
		{ "\"rows\":1,", "\"rows\":18446744073709551615," },
		{ "99aabb", "99AABB" },
		{ "\"columns\":null", "\"columns\":{}" },
		{ "\"schema\":null", "\"schema\":[]" },
		{ "[\"s\",7]", "[\"\",7]" },
		{ "[\"s\",7]", "[\"s\"]" },
		{ "[\"s\",7]", "[\"s\",7,8]" },
		{ "[\"s\",7]", "[{\"s\":1},7]" },
		{ "4,5,6]", "4,5]" },
		{ "4,5,6]", "4,5,6,7]" },
		{ "[0,30", "[1,30" },
		{ "[42,30", "[41,30" },
		{ "30,12,30,77", "3,12,30,77", "[42,", "[15," },
		{ "30,12,30,77", "3000,12,30,77" },
		{ "12,30,77", "9,30,77" },
		{ "12,30,77", "1200,30,77" },
		{ "30,77,2,5", "11,77,2,5", "\"bytes\":60",
		  "\"bytes\":41" }, /* two rows in 11 bytes */
		{ "30,77,2,5", "262145,77,2,5", "\"bytes\":60",
		  "\"bytes\":262175" }, /* over a frame */
		{ "30,77,2,5", "30,77,0,5", "\"rows\":4", "\"rows\":2" },
		{ "2,5,6,-3", "3,5,6,-3", "\"rows\":4", "\"rows\":5" }, /* three rows from 5 to 6 */
		{ "2,7,9,4", "1,7,9,4", "\"rows\":4", "\"rows\":3" },   /* one row from 7 to 9 */
		{ "2,5,6,-3", "2,5,7,-3" },                             /* 7 is the next frame's */
		{ "2,5,6,-3", "2,0,6,-3", "\"first\":5", "\"first\":0" },
		{ "-3,4,", "-3,5," }, /* later than the next frame begins */
		{ "-3,4,", "-3,-4," },
		{ "cdef\"],[", "cde\"],[" },
		{ "cdef\"],[", "cdeF\"],[" },
		{ "cdef\"],[", "cdef\",1],[" },
		{ "\"frames\":[[", "\"frames\":[],\"x\":[[" },
		{ "\"format\":1", "\"format\":null" },
		{ "{\"format\"", "[{\"format\"" },
	};

	CHECK_INT(index_with("{", "{", NULL, NULL), 0);
	CHECK_INT(index_with("\"format\":1", "\"format\":2", NULL, NULL), SC_E_CONFIG);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (index_with(wrong[i][0], wrong[i][1], wrong[i][2], wrong[i][3]) != SC_E_DATA)
			FAIL("%s instead of %s is taken", wrong[i][1], wrong[i][0]);
}

static size_t table_with(const char *bytes, size_t len)
{
	struct sc_segment_frame frame = { .rows = 10, .first_us = 5, .last_us = 8 };
	struct sc_segment_commit commits[10];
	char *exact = copy_of(bytes, len);
	size_t count = sc_segment_table_get(sc_span(exact, len), &frame, commits);

	free(exact);
	return count;
}
#define TABLE(BYTES) table_with(BYTES, sizeof(BYTES) - 1)

TEST(a_table_of_commits_must_be_that_of_its_frame)
{
	CHECK_INT(TABLE("\x02\x04\x06\x03"), 2);
	CHECK_INT(TABLE("\x03\x04\x05\x01\x01\x02"), 3);
	CHECK_INT(TABLE("\x02\x04\x05\x03"), 0);     /* too few rows */
	CHECK_INT(TABLE("\x02\x04\x07\x03"), 0);     /* too many */
	CHECK_INT(TABLE("\x02\x0a\x00\x03"), 0);     /* none */
	CHECK_INT(TABLE("\x02\x04\x06\x02"), 0);     /* ends too early */
	CHECK_INT(TABLE("\x02\x04\x06\x04"), 0);     /* too late */
	CHECK_INT(TABLE("\x02\x04\x06\x03\x00"), 0); /* more follows */
	CHECK_INT(TABLE("\x02\x04\x06"), 0);
	CHECK_INT(TABLE("\x00"), 0);
	CHECK_INT(TABLE(""), 0);
	CHECK_INT(TABLE("\x0b\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01"), 0);
	CHECK_INT(TABLE("\x02\x84\x00\x06\x03"), 0); /* not the shortest form */
	/* 12 and 2^64 - 2 are 10, in 64 bits */
	CHECK_INT(TABLE("\x02\x0c\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x03"), 0);
	CHECK_INT(TABLE("\x02\x04\x86\x80\x80\x80\x80\x80\x80\x80\x80\x02\x03"), 0);
}

static void read_golden(const char *name, struct sc_bytes *ret_file)
{
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "tests/golden/segment/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		FAIL("there is no %s", path);
	slurp(fd, ret_file);
	close(fd);
}

/* Opened and read to its end: the code, and the last offset that was handed out. */
static int read_golden_rows(const char *name, const struct sc_bytes *want, uint64_t *ret_last)
{
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct memory memory;
	struct sc_bytes file;
	struct sc_run run;
	size_t at = 0;
	int rc;

	read_golden(name, &file);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	*ret_last = 0;
	rc = sc_segment_open(&source, &s, &err);
	while (rc >= 0 && (rc = sc_segment_next(s, 0, &run, &err)) == 1) {
		CHECK(run.lines.len <= want->len - at &&
		      !memcmp(run.lines.data, want->data + at, run.lines.len));
		at += run.lines.len;
		*ret_last = run.last;
	}
	if (rc == 0)
		CHECK_INT(at, want->len);
	sc_segment_close(s);
	sc_bytes_done(&file);
	return rc;
}

static void check_golden_info(void)
{
	static const struct sc_hash before = { { 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
						 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11 } };
	const struct sc_segment_info *info;
	struct sc_segment_source source;
	struct sc_segment *s = NULL;
	struct memory memory;
	struct sc_bytes file;
	struct sc_span rest;
	struct sc_ext ext;

	read_golden("v1-good.ndjson.zst", &file);
	memory = (struct memory){ .data = file.data, .len = file.len };
	source = memory_source(&memory);
	CHECK_OK(sc_segment_open(&source, &s, &err), &err);
	CHECK_OK(sc_segment_verify(s, &err), &err);
	info = sc_segment_info(s);
	CHECK_INT(info->first, 1001);
	CHECK_INT(info->rows, 900);
	CHECK_INT(info->frames, 3);
	CHECK_INT(info->first_us, 1764460800000000);
	CHECK_STR(info->stream_id, "6a1f9c1e-0000-4000-8000-000000000001");
	CHECK(sc_hash_same(&info->tie.before, &before));
	CHECK_INT(info->tie.rows_before, 900);
	CHECK_INT(info->tie.commit, 4321);
	rest = info->tie.checkpoint;
	CHECK(sc_ext_next(&rest, &ext) && ext.kind == SC_EXT_SOURCE && ext.source_offset == 981);
	CHECK_SPAN(ext.name, "upstream/trades");
	CHECK(sc_ext_next(&rest, &ext) && ext.kind == SC_EXT_SOURCE && ext.source_offset == 7);
	CHECK_SPAN(ext.name, "\xff\x01");
	CHECK(sc_ext_next(&rest, &ext) && ext.kind == SC_EXT_PRODUCER);
	CHECK_SPAN(ext.name, "desk-1");
	CHECK(ext.producer.epoch == 3 && ext.producer.seq_last == 104 && ext.producer.commit == 5);
	CHECK(!sc_ext_next(&rest, &ext));
	sc_segment_close(s);
	sc_bytes_done(&file);
}

TEST(golden_files_of_version_1_are_read)
{
	struct sc_bytes want;
	uint64_t last;

	read_golden("v1-good.ndjson", &want);
	check_golden_info();
	CHECK_INT(read_golden_rows("v1-good.ndjson.zst", &want, &last), 0);
	CHECK(last > 1900);
	/* its last byte is missing */
	CHECK_INT(read_golden_rows("v1-cut.ndjson.zst", &want, &last), SC_E_DATA);
	CHECK_INT(last, 0);
	/* a bit of the second frame, of the first frame's commits, of the index, of the seek table */
	CHECK_INT(read_golden_rows("v1-frame.ndjson.zst", &want, &last), SC_E_DATA);
	CHECK(last > 1001);
	CHECK_INT(read_golden_rows("v1-times.ndjson.zst", &want, &last), SC_E_DATA);
	CHECK_INT(last, 0);
	CHECK_INT(read_golden_rows("v1-index.ndjson.zst", &want, &last), SC_E_DATA);
	CHECK_INT(read_golden_rows("v1-seek.ndjson.zst", &want, &last), SC_E_DATA);
	CHECK_INT(read_golden_rows("v2-newer.ndjson.zst", &want, &last), SC_E_CONFIG);
	sc_bytes_done(&want);
}
