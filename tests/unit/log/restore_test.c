/*
 * restore_test: a log made anew from its archive. Goal: every row of the archive is there, in its
 * bytes, with sources and producers as they stood; the log goes on behind what the lost machine may
 * have given; that machine can do nothing to the archive any more, also with what was on its way;
 * whatever call a restore dies or fails at, the next one ends it. Method: an archive in a folder;
 * restores killed or failed at each of their calls; objects put there afterwards as a machine would
 * that was replaced between its question and its write.
 */
// run: limit 400
#include "archive_help.h"
#include "die.h"

#include "log/archive_internal.h"
#include "log/log_internal.h"

#define JUMP (1ull << 20)

static char fresh[500];

/* The archive of ROWS rows: SEALED of them in segments, the others shipped; a source and a producer
 * moved with the last ones. */
static void make(uint64_t sealed, uint64_t rows)
{
	struct sc_log *log;
	uint64_t at = rows - 9;

	begin(4096);
	snprintf(fresh, sizeof(fresh), "%s/new/trades", log_dir);
	if (sealed) {
		CHECK_OK(grow(log_path, 1, sealed, 10), &err);
		CHECK_OK(work_on(log_path, &seal_push), &err);
	}
	if (rows == sealed) {
		CHECK_OK(work_on(log_path, &push_ship), &err);
		return;
	}
	CHECK_OK(grow(log_path, sealed + 1, at - 1, 10), &err);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = at; i <= rows; i++) {
		char text[32];
		uint32_t len = (uint32_t)snprintf(text, sizeof(text), "{\"n\":%llu}",
						  (unsigned long long)i);
		struct sc_log_rows r = { .text = sc_span(text, len),
					 .lens = &len,
					 .count = 1,
					 .source = SC_SPAN("up"),
					 .source_offset = 1000 + i,
					 .producer = SC_SPAN("p"),
					 .producer_epoch = 3,
					 .producer_seq = i - at };
		struct sc_log_commit commit;

		CHECK_OK(sc_log_append(log, &r, &commit, &err), &err);
	}
	sc_log_close(log);
	CHECK_OK(work_on(log_path, &ship_only), &err);
}

static int restore_with(const char *path, const struct sc_restore_options *given,
			struct sc_restore_report *ret_report)
{
	return sc_log_restore(path, archive_url, given, ret_report, &err);
}

static int restore(const char *path, struct sc_restore_report *ret_report)
{
	struct sc_restore_options o = { .jump = 0 };

	return restore_with(path, &o, ret_report);
}

/* The log at PATH holds FROM to TO as they were, and goes on at NEXT. */
static void check_log(const char *path, uint64_t from, uint64_t to, uint64_t next)
{
	struct sc_bytes got, want;
	struct sc_log_state state;
	struct sc_log_proof proof, old;
	struct sc_log *log = NULL;

	sc_bytes_init(&got, 1u << 26);
	sc_bytes_init(&want, 1u << 26);
	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.next_offset, next);
	CHECK_INT(state.rows, to ? to + 1 - from : 0);
	if (to) {
		CHECK_INT(state.first_offset, from);
		CHECK_INT(state.last_offset, to);
		want_lines(from, to, &want);
		CHECK_OK(read_all(log, from, 0, &got), &err);
		same_bytes(&got, &want);
		/* from within what was left out, too */
		CHECK_OK(read_all(log, to + 1, 0, &got), &err);
		CHECK_INT(got.len, 0);
		CHECK_OK(read_all(log, to + 77, 0, &got), &err);
		CHECK_INT(got.len, 0);
	}
	CHECK_OK(read_all(log, next, 0, &got), &err);
	CHECK_INT(read_all(log, next + 1, 0, &got), SC_E_REFUSED);
	CHECK_OK(sc_log_verify(path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.orphans, 0);
	if (to && access(log_path, F_OK) == 0) {
		CHECK_OK(sc_log_verify(log_path, from, to, &old, &err), &err);
		CHECK_STR(proof.hash, old.hash);
	}
	CHECK(strcmp(sc_log_stream_id(log), "") != 0);
	sc_log_close(log);
	sc_bytes_done(&got);
	sc_bytes_done(&want);
}

static void check_marks(const char *path, uint64_t rows)
{
	struct sc_log *log = NULL;
	struct sc_log_commit commit;
	uint32_t len = 1;
	struct sc_log_rows r = { .text = SC_SPAN("1"),
				 .lens = &len,
				 .count = 1,
				 .producer = SC_SPAN("p"),
				 .producer_epoch = 3,
				 .producer_seq = 9 };
	uint64_t offset = 0;

	CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_INT(sc_log_source(log, SC_SPAN("up"), &offset, &err), 1);
	CHECK_INT(offset, 1000 + rows);
	CHECK_OK(sc_log_append(log, &r, &commit, &err), &err);
	CHECK(commit.duplicate && commit.last == rows);
	r.producer_seq = 11;
	CHECK_INT(sc_log_append(log, &r, &commit, &err), SC_E_REFUSED);
	sc_log_close(log);
}

TEST(everything_is_there)
{
	static const uint64_t cases[][2] = { { 300, 500 }, { 0, 300 }, { 300, 310 }, { 300, 300 } };
	struct sc_restore_report report;

	for (size_t i = 0; i < 4; i++) {
		uint64_t sealed = cases[i][0], rows = cases[i][1], next = rows + 1 + JUMP;

		make(sealed, rows);
		CHECK_OK(restore(fresh, &report), &err);
		CHECK_INT(report.rows, rows);
		CHECK_INT(report.first, 1);
		CHECK_INT(report.last, rows);
		CHECK_INT(report.next, next);
		CHECK_INT(report.shipped, rows - sealed);
		CHECK_INT(report.epoch, 2);
		CHECK(report.host[0] && !report.resumed);
		check_log(fresh, 1, rows, next);
		if (rows > sealed)
			check_marks(fresh, rows);
		CHECK_OK(sc_log_reindex(fresh, &err), &err);
		check_log(fresh, 1, rows, next);
		/* the old one is refused, whatever it wants */
		CHECK_OK(grow(log_path, rows + 1, rows + 20, 10), &err);
		CHECK_INT(work_on(log_path, &seal_push), SC_E_NOAUTH);
		CHECK(strstr(err.reason, "taken over by"));
		CHECK_INT(work_on(log_path, &ship_only), SC_E_NOAUTH);
		/* the new one goes on, in journals and in segments */
		CHECK_OK(grow(fresh, next, next + 99, 10), &err);
		CHECK_OK(work_on(fresh, &push_ship), &err);
		same_rows(fresh, 1);
		CHECK_OK(work_on(fresh, &seal_push), &err);
		CHECK_INT(objects("journal"), 0);
		same_rows(fresh, 1);
		same_rows(fresh, rows + 50);
		CHECK_INT(archive_now().next_offset, next + 100);
		CHECK_OK(sc_log_reindex(fresh, &err), &err);
		same_rows(fresh, 1);
		CHECK_INT(restore(fresh, &report), SC_E_CANTCREAT);
		log_done();
	}
}

/* Nothing was ever appended, or archived. */
TEST(nothing_is_there)
{
	struct sc_restore_report report;

	begin(4096);
	snprintf(fresh, sizeof(fresh), "%s/new/trades", log_dir);
	CHECK_INT(restore(fresh, &report), SC_E_NOLOG);
	CHECK(access(fresh, F_OK) < 0);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	CHECK_OK(restore(fresh, &report), &err);
	CHECK_INT(report.rows, 0);
	check_log(fresh, 0, 0, 1 + JUMP);
	CHECK_OK(grow(fresh, 1, 10, 10), &err);
	CHECK_OK(work_on(fresh, &push_ship), &err);
	CHECK_INT(archive_now().next_offset, 11 + JUMP);
	log_done();
}

/* Again and again: each one leaves out what the one before may have given. */
TEST(one_after_the_other)
{
	struct sc_restore_report report;
	char path[600];
	uint64_t next = 501 + JUMP;

	make(300, 500);
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/new-%d/trades", log_dir, i);
		CHECK_OK(restore(path, &report), &err);
		CHECK_INT(report.last, i < 3 ? 500 : next - 11);
		CHECK_INT(report.next, i < 3 ? next : next - 10 + JUMP);
		CHECK_INT(report.epoch, i + 2);
		next = report.next + JUMP;
		if (i == 2) {
			CHECK_OK(grow(path, 1, 10, 10), &err);
			CHECK_OK(work_on(path, &push_ship), &err);
			next = report.next + 20;
			same_rows(path, 1);
		}
	}
	log_done();
}

TEST(not_all_of_it)
{
	struct sc_restore_options o = { .keep_bytes = 2500 };
	struct sc_restore_report report;
	uint64_t first;

	make(1000, 1100);
	CHECK_OK(restore_with(fresh, &o, &report), &err);
	CHECK(report.left > 2 && report.segments >= 1);
	first = report.first;
	CHECK(first > 300);
	CHECK_INT(report.rows, 1101 - first);
	check_log(fresh, first, 1100, 1101 + JUMP);
	check_marks(fresh, 1100);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	same_rows(fresh, first);
	CHECK_INT(archive_now().first_offset, 1);
	log_done();
	/* at least the newest segment, whatever the limit */
	make(1000, 1000);
	o = (struct sc_restore_options){ .keep_bytes = 1 };
	CHECK_OK(restore_with(fresh, &o, &report), &err);
	CHECK_INT(report.segments, 1);
	check_log(fresh, report.first, 1000, 1001 + JUMP);
	log_done();
}

/* What a machine had on its way when it was replaced arrives afterwards. */
TEST(late_objects_count_for_nothing)
{
	static const char *const late[] = {
		"sealed/00000000000000000451-00000000000000000900.ndjson.zst",
		"sealed/00000000000000000501-00000000000000000700.ndjson.zst",
		"journal/00000000000000000501-00000000000000000600.blocks",
		"journal/00000000000000000301-00000000000000000520.blocks",
	};
	struct sc_restore_report report;

	make(300, 500);
	CHECK_OK(restore(fresh, &report), &err);
	for (size_t i = 0; i < 4; i++)
		copy_file(object("sealed", 0), shelved(late[i]));
	same_rows(fresh, 1);
	CHECK_OK(grow(fresh, 1, 30, 10), &err);
	CHECK_OK(work_on(fresh, &push_ship), &err);
	same_rows(fresh, 1);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	same_rows(fresh, 1);
	CHECK_INT(objects("journal"), 0); /* they went with the others */
	log_done();
}

static int note_segment(void *arg, const struct sc_sealed *segment)
{
	*(struct sc_sealed *)arg = *segment;
	return 0;
}

/* list.json and the floor, written by a machine that asked before and writes afterwards. */
TEST(late_writes_are_refused)
{
	struct sc_restore_report report;
	struct sc_log *log;
	struct sc_seal *seal = NULL;
	struct sc_archive *archive = NULL;
	struct sc_archive_epoch old;
	struct sc_sealed segment;
	struct sc_keep keep = { .count = 1 };
	struct sc_archive_options o = { .arg = NULL };

	make(600, 700);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_archive_open_log(log, archive_url, NULL, false, &archive, &err), &err);
	old = archive->epoch;
	CHECK_OK(sc_log_segments(log, note_segment, &segment, &err), &err);
	CHECK(sc_archive_holds(archive, &segment));
	CHECK_OK(restore(fresh, &report), &err);
	CHECK_INT(sc_archive_keep(archive, &keep, &o, &err), SC_E_NOAUTH);
	/* as if it had asked just before */
	old.floor = 400;
	archive->epoch.etag[0] ^= 0;
	CHECK_INT(sc_archive_write_epoch(archive, &old, &err), SC_E_BUSY);
	archive->listed_anew = true;
	CHECK_INT(sc_archive_publish(archive, &err), SC_E_NOAUTH);
	CHECK_INT(sc_archive_ship(archive, &o, &err), 0); /* nothing new */
	CHECK_OK(append_n(log, 701, 1, NULL), &err);
	CHECK_INT(sc_archive_ship(archive, &o, &err), SC_E_NOAUTH);
	CHECK(!sc_archive_holds(archive, &segment)); /* nothing may go from here any more */
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	CHECK_INT(archive_now().first_offset, 1);
	log_done();
}

TEST(holes_and_damage)
{
	struct sc_restore_options partial = { .partial = true };
	struct sc_restore_report report;
	char path[NAME_MAX + 720];

	/* in what was shipped */
	make(300, 500);
	snprintf(path, sizeof(path), "%s", object("journal", 1));
	flip(path, -3);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK(strstr(err.fields, "blocks") && strstr(err.fields, "last_good"));
	CHECK_OK(restore_with(fresh, &partial, &report), &err);
	CHECK(report.resumed && report.last >= 300 && report.last < 500);
	check_log(fresh, 1, report.last, report.last + 1 + JUMP);
	CHECK_OK(grow(fresh, 1, 10, 10), &err);
	CHECK_OK(work_on(fresh, &push_ship), &err);
	same_rows(fresh, 1);
	log_done();
	make(300, 500);
	CHECK(unlink(object("journal", 0)) == 0);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK(strstr(err.reason, "hole"));
	CHECK_OK(restore_with(fresh, &partial, &report), &err);
	check_log(fresh, 1, 300, 301 + JUMP);
	log_done();
	/* in the segments */
	make(1000, 1100);
	snprintf(path, sizeof(path), "%s", object("sealed", 2));
	flip(path, 60);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK(unlink(path) == 0);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK(strstr(err.reason, "hole"));
	CHECK_OK(restore_with(fresh, &partial, &report), &err);
	CHECK(report.first > 100 && report.left > 0);
	check_log(fresh, report.first, 1100, 1101 + JUMP);
	log_done();
}

/* Rows that the log gave up before they were sealed are in what was shipped only: the log that
 * is made anew begins above them, as the lost one did. */
TEST(rows_that_were_given_up)
{
	struct sc_restore_options partial = { .partial = true };
	struct sc_restore_report report;
	struct sc_log *log;
	uint64_t first;

	make(300, 500);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_trim(log, 501, &err), &err);
	sc_log_close(log);
	CHECK_OK(grow(log_path, 501, 700, 10), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(grow(log_path, 701, 720, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK(objects("journal") > 1);
	CHECK_OK(restore(fresh, &report), &err);
	first = report.first;
	CHECK(first > 300 && first <= 501);
	CHECK_INT(report.last, 720);
	CHECK(report.left > 0 && report.segments > 0);
	remove_tree(log_path);
	check_log(fresh, first, 720, 721 + JUMP);
	CHECK_OK(grow(fresh, 1, 30, 10), &err);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	same_rows(fresh, first);
	CHECK_INT(archive_now().first_offset, 1);
	/* when some of what was shipped is lost, that is a hole */
	CHECK(unlink(object("journal", 0)) == 0);
	snprintf(fresh, sizeof(fresh), "%s/newer/trades", log_dir);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK(strstr(err.reason, "hole"));
	CHECK_OK(restore_with(fresh, &partial, &report), &err);
	CHECK_INT(report.first, first);
	log_done();
}

/* The archive of two rows, the last one with the offset LAST. */
static void make_high(uint64_t last)
{
	uint64_t offsets[2] = { last - 1, last };
	uint32_t lens[2] = { 1, 1 };
	struct sc_log_rows r = {
		.text = SC_SPAN("12"), .lens = lens, .offsets = offsets, .count = 2
	};
	struct sc_log_commit commit;
	struct sc_log *log;

	begin(4096);
	snprintf(fresh, sizeof(fresh), "%s/new/trades", log_dir);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(log, &r, &commit, &err), &err);
	sc_log_close(log);
	CHECK_OK(work_on(log_path, &push_ship), &err);
}

/* Nothing is changed anywhere when no offset would be left. */
TEST(the_end_of_the_offsets)
{
	static const uint64_t good[] = { 1ull << 62, 1ull << 63, UINT64_MAX - (1ull << 42) };
	struct sc_restore_options o = { .jump = UINT64_MAX };
	struct sc_restore_report report;
	char folder[600];

	for (size_t i = 0; i < 3; i++) {
		make_high(good[i]);
		CHECK_OK(restore(fresh, &report), &err);
		CHECK(report.next > good[i] + JUMP);
		CHECK(report.last == good[i]);
		CHECK_OK(grow(fresh, 1, 10, 10), &err);
		CHECK_OK(work_on(fresh, &seal_push), &err);
		same_rows(fresh, 0);
		log_done();
	}
	for (size_t i = 0; i < 2; i++) {
		make_high(i ? 1ull << 62 : UINT64_MAX - 3);
		CHECK_INT(i ? restore_with(fresh, &o, &report) : restore(fresh, &report),
			  SC_E_REFUSED);
		CHECK(strstr(err.reason, "offsets are left") && strstr(err.fields, "no_offsets"));
		CHECK(strstr(err.next, i ? "smaller --jump" : "sc-catchup"));
		snprintf(folder, sizeof(folder), "%s/new", log_dir);
		CHECK(access(folder, F_OK) < 0);
		CHECK_INT(archive_now().epoch, 1);
		CHECK_OK(work_on(log_path, &seal_push), &err);
		log_done();
	}
}

static size_t files_in(const char *path, const char *folder)
{
	char name[720];
	struct dirent *entry;
	size_t count = 0;
	DIR *dir;

	snprintf(name, sizeof(name), "%s/%s", path, folder);
	dir = opendir(name);
	CHECK(dir != NULL);
	while ((entry = readdir(dir)))
		count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
	closedir(dir);
	return count;
}

/* What is on this disk of a restore that died is not taken for what it should be. */
TEST(what_the_one_before_left)
{
	struct sc_restore_options o = { .keep_bytes = 1 }, partial = { .partial = true };
	struct sc_restore_report report;
	struct sc_log_proof proof;
	char path[NAME_MAX + 720], name[720];
	size_t segments;

	/* all segments are there, and one is not what it should be; then fewer are wanted */
	for (int i = 0; i < 2; i++) {
		make(1000, 1100);
		CHECK_OK(restore(fresh, &report), &err);
		segments = report.segments;
		CHECK(segments > 3);
		snprintf(name, sizeof(name), "%s/log.json", fresh);
		CHECK(unlink(name) == 0);
		snprintf(name, sizeof(name), "%s/restore.json", fresh);
		copy_file(shelved("epoch.json"), name);
		snprintf(name, sizeof(name), "%s/sealed/.restore.tmp", fresh);
		copy_file(shelved("epoch.json"), name);
		snprintf(path, sizeof(path), "%s", object("sealed", 2));
		snprintf(name, sizeof(name), "%s/sealed%s", fresh, strrchr(path, '/'));
		flip(name, -60); /* in what tells the rows of it */
		CHECK_OK(i ? restore_with(fresh, &o, &report) : restore(fresh, &report), &err);
		CHECK(report.resumed);
		CHECK_INT(report.segments, i ? 1 : segments);
		check_log(fresh, report.first, 1100, 1101 + JUMP);
		CHECK_OK(sc_log_verify(fresh, 0, 0, &proof, &err), &err);
		CHECK_INT(proof.orphans, 0);
		CHECK_INT(files_in(fresh, "sealed"), report.segments);
		log_done();
	}
	/* less is whole than was when the gap was published */
	make(1000, 1200);
	snprintf(path, sizeof(path), "%s", object("sealed", 2));
	flip(path, -60);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	flip(path, -60);
	CHECK(unlink(object("journal", 1)) == 0);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK_OK(restore_with(fresh, &partial, &report), &err);
	CHECK(report.last < 1200);
	check_log(fresh, 1, report.last, 1201 + JUMP);
	CHECK_OK(grow(fresh, 1, 10, 10), &err);
	CHECK_OK(work_on(fresh, &push_ship), &err);
	same_rows(fresh, 1);
	log_done();
}

/* A folder where a restore ended and did not say so is no other archive's. */
TEST(finished_and_not_said)
{
	struct sc_restore_report report;
	char name[720];

	make(300, 500);
	CHECK_OK(restore(fresh, &report), &err);
	snprintf(name, sizeof(name), "%s/restore.json", fresh);
	copy_file(shelved("epoch.json"), name);
	CHECK_INT(sc_log_restore(fresh, "file:///tmp", &(struct sc_restore_options){ .jump = 0 },
				 &report, &err),
		  SC_E_CANTCREAT);
	CHECK(strstr(err.reason, "another archive"));
	CHECK_OK(restore(fresh, &report), &err);
	CHECK(report.resumed && report.rows == 500 && report.last == 500);
	CHECK_INT(report.epoch, 2);
	CHECK_STR(report.url, log_url);
	CHECK(access(name, F_OK) < 0);
	log_done();
}

/* Two at once: one wins, and the other is told who. */
TEST(of_two_one_wins)
{
	int status, won = 0, refused = 0;
	pid_t pids[4];

	make(600, 700);
	fflush(stdout);
	for (int i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			struct sc_restore_report report;
			char path[600];
			int rc;

			snprintf(path, sizeof(path), "%s/new-%d/trades", log_dir, i);
			rc = restore(path, &report);
			_exit(rc == 0                                                 ? 0
			      : rc == SC_E_NOAUTH && strstr(err.reason, "taken over") ? 1
										      : 2);
		}
	}
	for (int i = 0; i < 4; i++) {
		CHECK(waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status));
		CHECK(WEXITSTATUS(status) < 2);
		won += WEXITSTATUS(status) == 0;
		refused += WEXITSTATUS(status) == 1;
	}
	/* one after the other is no race: the later one takes the archive from the earlier one */
	CHECK(won >= 1 && won + refused == 4);
	won = 0;
	for (int i = 0; i < 4; i++) {
		char path[600];

		snprintf(path, sizeof(path), "%s/new-%d/trades", log_dir, i);
		if (access(path, F_OK) == 0 && work_on(path, &push_ship) == 0)
			won++;
	}
	CHECK_INT(won, 1);
	log_done();
}

TEST(what_is_not_finished_is_refused)
{
	struct sc_log_settings settings = { .journal_bytes = 4096 };
	struct sc_restore_report report;
	struct sc_log *log = NULL;
	char path[NAME_MAX + 720];

	make(300, 500);
	snprintf(path, sizeof(path), "%s", object("journal", 1));
	flip(path, -3);
	CHECK_INT(restore(fresh, &report), SC_E_DATA);
	CHECK_INT(sc_log_open(fresh, SC_LOG_READ, &log, &err), SC_E_NOLOG);
	CHECK(strstr(err.reason, "not finished") && strstr(err.next, "sc-log restore") &&
	      strstr(err.next, shelf));
	CHECK_INT(sc_log_create(fresh, &settings, &err), SC_E_CANTCREAT);
	CHECK_INT(sc_log_reindex(fresh, &err), SC_E_NOLOG);
	flip(path, -3);
	CHECK_OK(restore(fresh, &report), &err);
	check_log(fresh, 1, 500, 501 + JUMP);
	/* something else is there */
	CHECK_INT(restore(shelf, &report), SC_E_NOLOG); /* no archive of that name */
	snprintf(path, sizeof(path), "%s/there/trades", log_dir);
	CHECK(mkdir(shelved("../../there"), 0777) == 0 && mkdir(path, 0777) == 0);
	snprintf(path, sizeof(path), "%s/there/trades/file", log_dir);
	copy_file(in_log("log.json"), path);
	snprintf(path, sizeof(path), "%s/there/trades", log_dir);
	CHECK_INT(restore(path, &report), SC_E_CANTCREAT);
	log_done();
}

/* --- killed and failed ----------------------------------------------------------------------- */

static struct {
	uint64_t sealed, rows;
	char archive[600];
} kept;

static void restore_kept(void)
{
	char folder[600];

	copy_tree(kept.archive, shelf);
	snprintf(folder, sizeof(folder), "%s/new", log_dir);
	remove_tree(folder);
}

static int restore_counted(void)
{
	struct sc_restore_report report;
	int rc;

	counting = true;
	rc = restore(fresh, &report);
	counting = false;
	return rc;
}

static void check_left(bool through)
{
	uint64_t rows = kept.rows, next = rows + 1 + JUMP;
	struct sc_restore_report report;
	struct sc_log *log = NULL;
	int rc;

	/* it is whole, or nobody takes it for a log */
	rc = sc_log_open(fresh, SC_LOG_READ, &log, &err);
	sc_log_close(log);
	CHECK(!through || rc == 0);
	if (rc == 0)
		check_log(fresh, 1, rows, next);
	else
		CHECK_INT(rc, SC_E_NOLOG);
	same_rows(log_path, 1); /* the archive is as it was to its readers */
	rc = restore(fresh, &report);
	if (rc == SC_E_CANTCREAT) /* it was finished, and had said so */
		CHECK(strstr(err.reason, "exists already") &&
		      access(in_log("log.json"), F_OK) == 0);
	else
		CHECK_OK(rc, &err);
	check_log(fresh, 1, rows, next);
	if (rows > kept.sealed)
		check_marks(fresh, rows);
	CHECK_INT(work_on(log_path, &push_ship), SC_E_NOAUTH);
	CHECK_OK(grow(fresh, next, next + 9, 10), &err);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	same_rows(fresh, 1);
}

static void every_call(enum how h, uint64_t sealed, uint64_t rows)
{
	make(sealed, rows);
	kept.sealed = sealed;
	kept.rows = rows;
	snprintf(kept.archive, sizeof(kept.archive), "%s/kept", log_dir);
	copy_tree(shelf, kept.archive);
	each_call(h, h == TEAR ? 15 : 60, restore_kept, restore_counted, check_left);
	log_done();
}

TEST(dies_at_every_call)
{
	every_call(DIE, 300, 400);
	every_call(DIE, 0, 200);
}

TEST(dies_in_every_write)
{
	every_call(TEAR, 300, 400);
}

TEST(fails_at_every_call)
{
	every_call(FAIL_ONCE, 300, 400);
}
