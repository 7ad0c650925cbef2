/*
 * takeover_test: another copy of a log takes its archive over. Goal: no offset that the one before
 * may have given is given again; what that one has told to be there stays, or it keeps the archive;
 * what it has on its way counts for nothing; whatever call dies or fails, asking again ends it; the
 * archive is one log to its readers, and a log can be made of it, also where the two divided or
 * committed the same rows otherwise. Method: copies of a log that go on by themselves, at one
 * archive in a folder.
 */
// run: limit 400
#include "archive_help.h"
#include "die.h"

#include "log/archive_internal.h"
#include "log/log_internal.h"

#define JUMP (1ull << 20)

static char other[500], third[500];

/* 300 rows in segments, 200 that were shipped; a copy without its archive.json. */
static void copy(void)
{
	begin(4096);
	snprintf(other, sizeof(other), "%s/other/trades", log_dir);
	snprintf(third, sizeof(third), "%s/third/trades", log_dir);
	CHECK(mkdir(in_log("../other"), 0777) == 0);
	CHECK_OK(grow(log_path, 1, 300, 10), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(grow(log_path, 301, 500, 10), &err);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	copy_tree(log_path, other);
	CHECK(unlink(in_log("../other/trades/archive.json")) == 0);
}

/* As after a power cut. */
static void without_its_index(const char *path)
{
	static const char *const parts[] = { "index.mdb", "index.mdb-lock", "index.state" };
	char file[600];

	for (size_t i = 0; i < 3; i++) {
		snprintf(file, sizeof(file), "%s/%s", path, parts[i]);
		unlink(file);
	}
}

/* The offset of a row that is appended now. */
static uint64_t given(const char *path)
{
	struct sc_log_commit commit = { .first = 0 };
	struct sc_log *log = NULL;

	CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(append_n(log, 9999, 1, &commit), &err);
	sc_log_close(log);
	return commit.first;
}

/* The log at PATH has the archive, goes on, and a log that is made of it holds as much. */
static void check_holder(const char *path)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log_proof proof;
	char aside[700];

	same_rows(path, 1);
	CHECK_INT(archive_now().next_offset, state_of(path).next_offset);
	CHECK_OK(sc_log_verify(path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.orphans, 0);
	snprintf(aside, sizeof(aside), "%s/aside", log_dir);
	remove_tree(third);
	copy_tree(shelf, aside);
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	CHECK_INT(report.last, state_of(path).last_offset);
	CHECK(report.next >= state_of(path).next_offset + JUMP);
	same_rows(third, report.first);
	CHECK_OK(sc_log_reindex(third, &err), &err);
	same_rows(third, report.first);
	CHECK_OK(grow(third, 1, 20, 10), &err);
	CHECK_OK(work_on(third, &seal_push), &err);
	same_rows(third, report.first);
	copy_tree(aside, shelf);
}

/* In each of the states that its journals can be in. */
TEST(offsets_are_left_out)
{
	for (int way = 0; way < 4; way++) {
		uint64_t next = 501 + JUMP;

		copy();
		CHECK_OK(grow(log_path, 501, 520, 10), &err); /* nobody here knows of these */
		if (way == 1) {                               /* the journal in use is empty */
			struct sc_seal_options o = { .force = true, .target = 2048 };
			struct sc_seal *seal = NULL;
			struct sc_log *log = NULL;

			CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
			CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
			CHECK_OK(sc_seal_run(seal, &o, &err), &err);
			sc_seal_close(seal);
			sc_log_close(log);
		}
		if (way == 2) { /* rows of its own */
			CHECK_OK(grow(other, 501, 510, 10), &err);
			next += 10;
		}
		CHECK_OK(work_on(other,
				 &(struct work){ .seize = true, .jump = way == 3 ? 2 * JUMP : 0 }),
			 &err);
		if (way == 3)
			next += JUMP;
		CHECK_INT(seizure.first, way == 2 ? 511 : 501);
		CHECK_INT(seizure.next, next);
		CHECK_INT(seizure.epoch, 3);
		CHECK(seizure.host[0] && seizure.since_us);
		CHECK_INT(state_of(other).next_offset, next);
		CHECK_OK(sc_log_reindex(other, &err), &err);
		CHECK_INT(state_of(other).next_offset, next);
		without_its_index(other);
		CHECK_INT(state_of(other).next_offset, next);
		CHECK_INT(archive_now().next_offset, way == 2 ? 501 : next);
		CHECK_INT(work_on(log_path, &ship_only), SC_E_NOAUTH);
		CHECK(strstr(err.reason, "its epoch is 3, this log's was 1"));
		CHECK_OK(work_on(other, &push_ship), &err);
		check_holder(other);
		CHECK_INT(given(other), next);
		CHECK_OK(work_on(other, &push_ship), &err);
		check_holder(other);
		CHECK_OK(grow(other, 1, 50, 10), &err);
		CHECK_OK(work_on(other, &seal_push), &err);
		check_holder(other);
		CHECK_INT(work_on(log_path, &seal_push), SC_E_NOAUTH);
		/* and back again: not with rows that are missing here */
		CHECK_INT(work_on(log_path, &(struct work){ .seize = true }), SC_E_REFUSED);
		log_done();
	}
}

/* The last commit of a process that died, which nobody was told of, does not come back where
 * offsets are left out. */
TEST(what_was_not_acknowledged_is_not_left_over)
{
	char theirs[700], ours[700];
	struct sc_log *log = NULL;
	uint64_t first, next;

	copy();
	snprintf(theirs, sizeof(theirs), "%s", last_journal());
	snprintf(ours, sizeof(ours), "%s/journal%s", other, strrchr(theirs, '/'));
	CHECK_OK(grow(log_path, 501, 510, 10), &err);
	/* the copy's index does not know these rows; its journal has them */
	CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
	copy_file(theirs, ours);
	CHECK_INT(state_of(other).next_offset, 501);
	CHECK_OK(sc_log_skip(log, JUMP, 0, &first, &next, &err), &err);
	CHECK_INT(first, 501);
	CHECK_INT(next, 501 + JUMP);
	CHECK_INT(sc_log_skip(log, UINT64_MAX, 0, &first, &next, &err), SC_E_REFUSED);
	CHECK_INT(sc_log_skip(log, 0, UINT64_MAX - 1, &first, &next, &err), SC_E_REFUSED);
	CHECK_OK(sc_log_skip(log, 0, 700, &first, &next, &err), &err);
	CHECK_INT(next, 501 + JUMP);
	sc_log_close(log);
	CHECK_OK(sc_log_reindex(other, &err), &err);
	CHECK_INT(state_of(other).last_offset, 500);
	CHECK_INT(given(other), 501 + JUMP);
	log_done();
}

/* The first commit under a schema says it, also when offsets were left out before it. */
TEST(the_schema_of_the_first_row)
{
	struct sc_log_migration m = { .schema = SC_SPAN(
					      "{\"type\":\"object\",\"properties\":{\"n\":{"
					      "\"type\":[\"integer\",\"null\"]}}}") };
	struct sc_log_migrated migrated;
	struct archiver a = { .archive = NULL };
	uint64_t first, next;

	begin(4096);
	CHECK_OK(grow(log_path, 1, 10, 10), &err);
	a.log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_seal_open(a.log, false, &a.seal, &err), &err);
	CHECK_OK(seal_small(a.seal), &err); /* the journal in use is empty */
	copy_file(in_log("log.json"), in_log("../old.json"));
	CHECK_OK(sc_log_migrate(a.log, &m, &migrated, &err), &err);
	CHECK_INT(migrated.from, 11);
	CHECK_OK(sc_log_skip(a.log, 100, 0, &first, &next, &err), &err);
	CHECK_OK(append_n(a.log, 11, 1, NULL), &err);
	archiver_close(&a);
	/* a backup of it, with what was there before */
	copy_file(in_log("../old.json"), in_log("log.json"));
	without_its_index(log_path);
	a = (struct archiver){ .log = open_log(SC_LOG_APPEND) };
	CHECK_INT(sc_log_schema_version(a.log), 2);
	CHECK_INT(sc_log_schema_from(a.log), 11);
	archiver_close(&a);
	log_done();
}

/* As fast as it was, twice over, since the last row that came. */
TEST(a_log_that_grows_fast)
{
	struct sc_log *log = NULL;
	struct sc_seal *seal = NULL;
	struct sc_archive *archive = NULL;
	struct sc_archive_seizure s = { .dry = true };

	CHECK_INT(sc_archive_jump(1000, 1000, 0, 1 << 30, 0), JUMP);
	CHECK_INT(sc_archive_jump(1000, 1000, 0, 1 << 30, JUMP + 5), JUMP + 5);
	CHECK_INT(sc_archive_jump(11000000, 1000000, 0, 1 << 20, 0), 21 * JUMP);
	CHECK_INT(sc_archive_jump(INT64_MAX, 1, 0, UINT64_MAX, 0), SC_ARCHIVE_JUMP_MAX + JUMP);
	CHECK_INT(sc_archive_jump(0, INT64_MAX, INT64_MIN, UINT64_MAX, 0), JUMP);
	copy();
	CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	s.now_us = sc_wall_us() + 1000000ll * 1000000; /* 200 rows a second, at the least */
	CHECK_OK(sc_archive_seize(log, archive_url, NULL, &s, &archive, &err), &err);
	CHECK(s.next > 501 + 20 * JUMP);
	CHECK_INT(s.first, 501);
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	log_done();
}

/* Only told, before it is done. */
TEST(a_dry_run)
{
	struct sc_archive_seizure s = { .dry = true };
	struct sc_archive *archive = NULL;
	struct sc_log *log = NULL;

	copy();
	CHECK_OK(sc_log_open(other, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_archive_seize(log, archive_url, NULL, &s, &archive, &err), &err);
	CHECK_INT(s.first, 501);
	CHECK_INT(s.next, 501 + JUMP);
	CHECK_INT(s.epoch, 3);
	CHECK(s.host[0]);
	sc_archive_close(archive);
	sc_log_close(log);
	CHECK_INT(archive_now().epoch, 1);
	CHECK_INT(state_of(other).next_offset, 501);
	CHECK_OK(grow(log_path, 501, 510, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_OK(sc_log_open(other, SC_LOG_READ, &log, &err), &err);
	CHECK_INT(sc_archive_seize(log, archive_url, NULL, &s, &archive, &err), SC_E_REFUSED);
	sc_log_close(log);
	log_done();
}

/* Who has it keeps it, and is not disturbed. */
TEST(it_is_refused)
{
	struct sc_archive_epoch epoch;
	struct sc_archive *archive = NULL;
	uint64_t offsets[2] = { SC_NEXT_MAX - JUMP, SC_NEXT_MAX - JUMP + 1 };
	uint32_t lens[2] = { 1, 1 };
	struct sc_log_rows rows = {
		.text = SC_SPAN("12"), .lens = lens, .offsets = offsets, .count = 2
	};
	struct sc_log_commit commit;
	struct sc_log *log = NULL;

	copy();
	/* rows that are missing here */
	CHECK_OK(grow(log_path, 501, 510, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(work_on(other, &(struct work){ .seize = true }), SC_E_REFUSED);
	CHECK(strstr(err.fields, "ahead") && strstr(err.next, "restore"));
	CHECK_OK(work_on(log_path, &ship_only), &err);
	/* others */
	CHECK_OK(grow(other, 601, 610, 10), &err);
	CHECK_INT(work_on(other, &(struct work){ .seize = true }), SC_E_DATA);
	CHECK(strstr(err.reason, "other rows"));
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(archive_now().epoch, 1);
	log_done();
	/* so few offsets */
	copy();
	CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	sc_log_close(log);
	CHECK_INT(work_on(other, &(struct work){ .seize = true }), SC_E_REFUSED);
	CHECK(strstr(err.fields, "no_offsets") && strstr(err.next, "--jump"));
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_OK(work_on(other, &(struct work){ .seize = true, .no_jump = true }), &err);
	log_done();
	/* so many marks */
	copy();
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	epoch = archive->epoch;
	epoch.epoch = 400;
	for (size_t i = 0; i < SC_ARCHIVE_BURNS_MAX; i++)
		epoch.burns[epoch.burn_count++] = (struct sc_archive_burn){ i + 2, 499, 499, 499 };
	CHECK_OK(sc_archive_write_epoch(archive, &epoch, &err), &err);
	sc_archive_close(archive);
	CHECK_INT(work_on(other, &(struct work){ .seize = true }), SC_E_REFUSED);
	CHECK(strstr(err.fields, "too_often"));
	CHECK_INT(archive_now().epoch, 400);
	log_done();
}

/* A copy of a log that was restored since: its rows are where the other one left offsets out. */
TEST(a_copy_that_was_left_behind)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log_commit commit;
	uint64_t offset = 501 + 2 * JUMP;
	uint32_t len = 1;
	struct sc_log_rows rows = {
		.text = SC_SPAN("1"), .lens = &len, .offsets = &offset, .count = 1
	};
	struct sc_log *log = NULL;

	copy();
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	CHECK_OK(grow(log_path, 501, 520, 10), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	sc_log_close(log);
	CHECK_INT(work_on(log_path, &(struct work){ .seize = true }), SC_E_DATA);
	CHECK(strstr(err.reason, "at offset 501") && strstr(err.reason, "left those from 501 to"));
	CHECK_OK(work_on(third, &ship_only), &err);
	log_done();
}

/* Both follow one source, with its offsets: the rows are the same, and how they were committed is
 * not. */
TEST(a_mirror_that_stood_by)
{
	for (int way = 0; way < 3; way++) {
		copy();
		CHECK_OK(grow(log_path, 501, 620, 7), &err);
		CHECK_OK(grow(other, 501, 630, 9), &err);
		if (way == 1)
			CHECK_OK(work_on(log_path, &seal_push), &err);
		else
			CHECK_OK(work_on(log_path, &push_ship), &err);
		CHECK_OK(work_on(other, &(struct work){ .seize = true,
							.no_jump = true,
							.ship = way != 2,
							.seal = way == 2,
							.push = way > 0 }),
			 &err);
		CHECK_INT(seizure.first, 631);
		CHECK_INT(seizure.next, 631);
		CHECK_INT(work_on(log_path, &ship_only), SC_E_NOAUTH);
		CHECK_OK(grow(other, 631, 640, 10), &err);
		CHECK_OK(work_on(other, &push_ship), &err);
		CHECK_INT(state_of(other).next_offset, 641);
		if (way == 1) /* nothing of this one follows the other one's segments */
			CHECK_INT(archive_now().next_offset, 621);
		else
			check_holder(other);
		CHECK_OK(work_on(other, &seal_push), &err);
		check_holder(other);
		log_done();
	}
}

/* Where the one's segments end the other one's begin, and do not follow: a log that is made of both
 * begins there, and the rest stays in the archive. */
TEST(a_mirror_that_gave_up_what_was_before)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log *log = NULL;
	struct sc_bytes got;

	copy();
	CHECK_OK(grow(log_path, 501, 560, 7), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	for (uint64_t from = 501; from <= 561; from += 60) {
		struct archiver a = { .archive = NULL };

		CHECK_OK(grow(other, from, from + 59, 9), &err);
		CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &a.log, &err), &err);
		CHECK_OK(sc_seal_open(a.log, false, &a.seal, &err), &err);
		CHECK_OK(seal_small(a.seal), &err);
		archiver_close(&a);
	}
	CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_log_trim(log, 561, &err), &err);
	sc_log_close(log);
	CHECK_OK(work_on(other, &(struct work){ .seize = true, .no_jump = true, .push = true }),
		 &err);
	sc_bytes_init(&got, 1u << 26);
	CHECK_OK(read_archive(1, 0, &got), &err);
	expect_rows(&got, 1, 620);
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	CHECK_INT(report.first, 561);
	CHECK_INT(report.rows, 60);
	CHECK(report.left > 2);
	CHECK_OK(sc_log_reindex(third, &err), &err);
	same_rows(third, 561);
	CHECK_OK(read_archive(1, 0, &got), &err);
	expect_rows(&got, 1, 620);
	sc_bytes_done(&got);
	log_done();
}

/* The copy divides its journals otherwise than the one before did. */
TEST(segments_that_overlap)
{
	struct sc_seal_options o = { .force = true, .target = 8192 };
	struct sc_archive_options options = { .arg = NULL };
	struct sc_archive *archive = NULL;
	struct sc_seal *seal = NULL;
	struct sc_log *log = NULL;
	size_t count;

	begin(4096);
	snprintf(other, sizeof(other), "%s/other/trades", log_dir);
	snprintf(third, sizeof(third), "%s/third/trades", log_dir);
	CHECK(mkdir(in_log("../other"), 0777) == 0);
	CHECK_OK(grow(log_path, 1, 600, 3), &err);
	copy_tree(log_path, other);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(grow(other, 601, 900, 3), &err);
	count = objects("sealed");
	CHECK_OK(sc_log_open(other, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	CHECK_OK(sc_archive_seize(log, archive_url, NULL, &seizure, &archive, &err), &err);
	CHECK_OK(sc_archive_push(archive, &options, &err), &err);
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	CHECK(objects("sealed") > count + 1);
	check_holder(other);
	CHECK_OK(grow(other, 901, 950, 10), &err);
	CHECK_OK(work_on(other, &push_ship), &err);
	check_holder(other);
	log_done();
}

/* --- killed and failed ----------------------------------------------------------------------- */

static const struct work seizes = { .seize = true, .ship = true };
static char kept_dir[600];
static enum how how_now;

static void as_before(void)
{
	copy_tree(kept_dir, log_dir);
}

static int seize(void)
{
	int rc;

	counting = true;
	rc = work_on(other, &seizes);
	counting = false;
	return rc;
}

static void check_left(bool through)
{
	struct sc_bytes text;
	char file[600];
	int first;

	/* what log.json leaves out, the log does */
	snprintf(file, sizeof(file), "%s/log.json", other);
	sc_bytes_init(&text, 1u << 20);
	CHECK_OK(sc_read_file(file, &text, &err), &err);
	CHECK_INT(state_of(other).next_offset,
		  memmem(text.data, text.len, "\"next\":", 7) ? 501 + JUMP : 501);
	sc_bytes_done(&text);
	/* to its readers it is as it was */
	CHECK(archive_now().next_offset == 501 || archive_now().next_offset == 501 + JUMP);
	/* the one before has it, or is told who wants it */
	first = work_on(log_path, &ship_only);
	if (first == 0) {
		CHECK(!through);
		CHECK_INT(archive_now().epoch, 1);
		/* then it may go on, and is not the one who is wrong */
		CHECK_INT(work_on(other, &seizes), SC_E_REFUSED);
		CHECK(strstr(err.fields, "ahead"));
		CHECK_INT(archive_now().next_offset, 521);
		return;
	}
	CHECK_INT(first, SC_E_NOAUTH);
	/* nobody has it only when this one died */
	if (how_now == FAIL_ONCE)
		CHECK_INT(archive_now().epoch, 3);
	CHECK_OK(work_on(other, &seizes), &err);
	CHECK(given(other) >= 501 + JUMP);
	CHECK_OK(work_on(other, &push_ship), &err);
	same_rows(other, 1);
	CHECK_INT(work_on(log_path, &push_ship), SC_E_NOAUTH);
	CHECK_OK(work_on(other, &seal_push), &err);
	check_holder(other);
}

static void every_call(enum how h)
{
	copy();
	CHECK_OK(grow(log_path, 501, 520, 10), &err);
	snprintf(kept_dir, sizeof(kept_dir), "%s.kept", log_dir);
	copy_tree(log_dir, kept_dir);
	how_now = h;
	each_call(h, h == TEAR ? 5 : 40, as_before, seize, check_left);
	remove_tree(kept_dir);
	log_done();
}

TEST(dies_at_every_call)
{
	every_call(DIE);
}

TEST(dies_in_every_write)
{
	every_call(TEAR);
}

TEST(fails_at_every_call)
{
	every_call(FAIL_ONCE);
}
