/*
 * late_test: what a machine that was replaced still puts into the archive. Goal: whatever offsets
 * such an object has, and whenever it comes, the archive reads as the log of the one that has it,
 * that one goes on, and a log can be made of it; with the same rows as the log it may count, with
 * others it never does. Method: each way in which a segment, or blocks, can lie to the offsets of a
 * log that was restored, put there before that log wrote, behind its blocks and behind its
 * segments; they are real ones, of a log with the same id that went another way.
 */
// run: limit 400
#include "archive_help.h"

#include "log/archive_internal.h"

#define JUMP (1ull << 20)
#define SHARED 500               /* rows that both have */
#define NEXT (SHARED + 1 + JUMP) /* the first one of the new log */

static char seed[500], fresh[500], dead[500], third[500];

/* Of a machine that is lost, and went on: other rows. */
static int append_at(const char *path, uint64_t first, uint64_t last)
{
	struct sc_log *log = NULL;
	int rc = sc_log_open(path, SC_LOG_APPEND, &log, &err);

	for (uint64_t at = first; rc == 0 && at <= last;) {
		uint64_t offsets[10], n = 0;
		uint32_t lens[10];
		char text[400];
		size_t len = 0;
		struct sc_log_rows rows = { .lens = lens, .offsets = offsets };
		struct sc_log_commit commit;

		while (n < 10 && at <= last) {
			/* as grow makes it, where it is the same row */
			lens[n] = (uint32_t)snprintf(
				text + len, sizeof(text) - len, "{\"n\":%llu}",
				(unsigned long long)(at <= SHARED ? at : 1000000 + at));
			len += lens[n];
			offsets[n++] = at++;
			if (at == SHARED + 1 || (at > SHARED + 20 && at < NEXT - 40))
				break;
		}
		if (at > SHARED + 20 && at < NEXT - 40)
			at = NEXT - 40; /* so many need not be made */
		rows.text = sc_span(text, len);
		rows.count = n;
		rc = sc_log_append(log, &rows, &commit, &err);
	}
	sc_log_close(log);
	return rc;
}

static bool sealed_one;

static void on_sealed(void *arg, const struct sc_seal_step *step)
{
	(void)arg;
	(void)step;
	sealed_one = true;
}

static bool goes_on(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)done;
	(void)total;
	return !sealed_one;
}

/* Whole journals, of so many bytes of lines, into one segment. */
static void seal_one(const char *path, uint64_t bytes)
{
	struct sc_seal_options o = {
		.force = true, .target = bytes, .step = on_sealed, .progress = goes_on
	};
	struct sc_seal *seal = NULL;
	struct sc_log *log = NULL;

	sealed_one = false;
	CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	CHECK(sealed_one);
	sc_seal_close(seal);
	sc_log_close(log);
}

static void name_late(const char *folder, uint64_t first, uint64_t last, const char *kind,
		      char ret_name[100])
{
	snprintf(ret_name, 100, "%s/%020llu-%020llu.%s", folder, (unsigned long long)first,
		 (unsigned long long)last, kind);
}

static char whole[500]; /* the log of the machine that is lost, before it sealed anything */

static uint64_t lines_len(uint64_t first, uint64_t last)
{
	struct sc_bytes lines;
	uint64_t len;

	sc_bytes_init(&lines, 1u << 26);
	want_lines(first, last, &lines);
	len = lines.len;
	sc_bytes_done(&lines);
	return len;
}

/* The segment of the lost machine with these rows, which are whole journals. */
static void make_shared(uint64_t first, uint64_t last, char ret_segment[700])
{
	char name[100], path[700];

	snprintf(dead, sizeof(dead), "%s/dead/trades", log_dir);
	copy_tree(whole, dead);
	if (first > 1)
		seal_one(dead, lines_len(1, first - 1));
	seal_one(dead, lines_len(first, last));
	name_late("sealed", first, last, "ndjson.zst", name);
	snprintf(path, sizeof(path), "%.500s/%s", dead, name);
	snprintf(ret_segment, 700, "%.600s/segment", log_dir);
	copy_file(path, ret_segment);
}

/* A log of the rows up to LAST, of which those below FIRST are sealed: in an archive of its own it
 * leaves one object of the rows from FIRST on, as blocks and as a segment, in two files. */
static void make_late(uint64_t first, uint64_t last, char ret_segment[700], char ret_blocks[700])
{
	char here[sizeof(shelf)], url[sizeof(archive_url)], name[100];

	memcpy(here, shelf, sizeof(here));
	memcpy(url, archive_url, sizeof(url));
	snprintf(dead, sizeof(dead), "%s/dead/trades", log_dir);
	copy_tree(seed, dead);
	snprintf(shelf, sizeof(shelf), "%.200s/dead/shelf", log_dir);
	remove_tree(shelf);
	CHECK(mkdir(shelf, 0777) == 0);
	snprintf(archive_url, sizeof(archive_url), "file://%s", shelf);
	if (first > 1) {
		CHECK_OK(append_at(dead, 1, first - 1), &err);
		seal_one(dead, 1u << 30);
		CHECK_OK(work_on(dead, &push_ship), &err);
	}
	CHECK_OK(append_at(dead, first, last), &err);
	CHECK_OK(work_on(dead, &ship_only), &err);
	snprintf(ret_blocks, 700, "%.600s/blocks", log_dir);
	CHECK_INT(objects("journal"), 1);
	copy_file(object("journal", 0), ret_blocks);
	seal_one(dead, 1u << 30);
	CHECK_OK(work_on(dead, &push_ship), &err);
	name_late("sealed", first, last, "ndjson.zst", name);
	snprintf(ret_segment, 700, "%.600s/segment", log_dir);
	copy_file(shelved(name), ret_segment);
	memcpy(shelf, here, sizeof(here));
	memcpy(archive_url, url, sizeof(url));
}

/* The log's folder before it has rows; whatever comes into a copy of it is in one journal. */
static void make_seed(void)
{
	char command[1500];

	snprintf(seed, sizeof(seed), "%s/seed", log_dir);
	copy_tree(log_path, seed);
	snprintf(command, sizeof(command),
		 "sed -i 's/\"journal_bytes\":4096/\"journal_bytes\":1048576/' '%s/log.json'",
		 seed);
	CHECK(system(command) == 0);
	CHECK(mkdir(in_log("../dead"), 0777) == 0 && mkdir(in_log("../third"), 0777) == 0);
}

/* The archive is the log's, to its end, from everywhere. */
static void check_archive(const char *path)
{
	static const uint64_t from[] = { 1, 40, 299, 300, 301, 450, 500, 501, 520, 700, NEXT - 1 };
	struct sc_archive *archive = NULL;
	struct sc_log_proof kept, live;
	uint64_t next = state_of(path).next_offset;

	CHECK_INT(archive_now().next_offset, next);
	same_rows(path, 1);
	for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
		same_rows(path, from[i]);
	for (uint64_t at = NEXT; at <= next; at += 17)
		same_rows(path, at);
	CHECK_OK(sc_log_verify(path, 0, 0, &live, &err), &err);
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_OK(sc_archive_verify(archive, 1, next, &kept, &err), &err);
	CHECK_STR(kept.hash, live.hash);
	sc_archive_close(archive);
}

/* A log that is made of it, in a copy of the archive, has all of it; what it does not take down
 * stays there. */
static void check_restore(const char *path)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log_proof proof;
	struct sc_bytes got, want;
	char aside[700];

	snprintf(aside, sizeof(aside), "%.600s/aside", log_dir);
	snprintf(third, sizeof(third), "%s/third/trades", log_dir);
	remove_tree(third);
	copy_tree(shelf, aside);
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	CHECK_INT(report.last, state_of(path).last_offset);
	same_rows(third, report.first);
	CHECK_OK(sc_log_reindex(third, &err), &err);
	CHECK_OK(sc_log_verify(third, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, report.rows);
	CHECK_INT(proof.orphans, 0);
	CHECK_OK(grow(third, 1, 20, 10), &err);
	CHECK_OK(work_on(third, &seal_push), &err);
	same_rows(third, report.first);
	/* and what it did not take down is there still */
	sc_bytes_init(&got, 1u << 26);
	sc_bytes_init(&want, 1u << 26);
	want_lines(1, SHARED, &want);
	CHECK_OK(read_archive(1, 0, &got), &err);
	CHECK(got.len > want.len && memcmp(got.data, want.data, want.len) == 0);
	sc_bytes_done(&got);
	sc_bytes_done(&want);
	copy_tree(aside, shelf);
}

enum when { AT_ONCE, BEHIND_BLOCKS, BEHIND_SEGMENTS };

/* The log that was restored has none, or some rows of its own when it comes. Without BLOCKS it is a
 * segment of rows that both have. */
static void one_way(uint64_t first, uint64_t last, const char *segment, const char *blocks,
		    enum when when)
{
	char name[100];

	if (when != AT_ONCE) {
		CHECK_OK(grow(fresh, NEXT, NEXT + 99, 10), &err);
		CHECK_OK(work_on(fresh, &ship_only), &err);
	}
	if (when == BEHIND_SEGMENTS)
		CHECK_OK(work_on(fresh, &seal_push), &err);
	if (blocks) {
		name_late("journal", first, last, "blocks", name);
		copy_file(blocks, shelved(name));
	}
	name_late("sealed", first, last, "ndjson.zst", name);
	mkdir(shelved("sealed"), 0777);
	copy_file(segment, shelved(name));
	CHECK_INT(archive_now().late, blocks != NULL);
	if (when == AT_ONCE)
		CHECK_INT(archive_now().next_offset, NEXT);
	else
		check_archive(fresh);
	check_restore(fresh);
	CHECK_OK(grow(fresh, NEXT + 100, NEXT + 159, 10), &err);
	CHECK_OK(work_on(fresh, &ship_only), &err);
	check_archive(fresh);
	check_restore(fresh);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	CHECK_INT(objects("journal"), 0);
	check_archive(fresh);
	check_restore(fresh);
	CHECK_INT(access(shelved(name), F_OK),
		  0); /* its rows are somebody's: nobody removes them */
}

static char kept[500]; /* the archive when the machine is lost */

/* TIMES: a bit for each. */
static void at_times(unsigned times, uint64_t first, uint64_t last, const char *segment,
		     const char *blocks)
{
	for (enum when when = AT_ONCE; when <= BEHIND_SEGMENTS; when++) {
		struct sc_restore_options o = { .jump = 0 };
		struct sc_restore_report report;

		if (!(times & 1u << when))
			continue;
		copy_tree(kept, shelf);
		remove_tree(fresh);
		CHECK_OK(sc_log_restore(fresh, archive_url, &o, &report, &err), &err);
		CHECK_INT(report.next, NEXT);
		one_way(first, last, segment, blocks, when);
	}
}

/* A machine is lost when so many of its journals were sealed; NAMES: where each begins, and one
 * more ends. */
static void lose(size_t sealed, uint64_t names[32], size_t *ret_count)
{
	struct dirent **entries;
	int count;

	begin(4096);
	snprintf(kept, sizeof(kept), "%s/kept", log_dir);
	snprintf(fresh, sizeof(fresh), "%s/new/trades", log_dir);
	snprintf(whole, sizeof(whole), "%s/whole", log_dir);
	make_seed();
	CHECK_OK(grow(log_path, 1, SHARED, 4), &err);
	copy_tree(log_path, whole);
	count = scandir(in_log("journal"), &entries, NULL, alphasort);
	*ret_count = 0;
	for (int i = 0; i < count && *ret_count < 31; i++) {
		if (entries[i]->d_name[0] != '.')
			names[(*ret_count)++] = strtoull(entries[i]->d_name, NULL, 10);
		free(entries[i]);
	}
	free(entries);
	CHECK(*ret_count > 4 && *ret_count < 31);
	names[(*ret_count)++] = SHARED + 1;
	CHECK_OK(work_on(log_path, &push_ship), &err);
	for (size_t i = 0; i < sealed; i++)
		seal_one(log_path, lines_len(names[i], names[i + 1] - 1));
	CHECK_OK(work_on(log_path, &push_ship), &err);
	CHECK_INT(objects("sealed"), sealed);
	remove_tree(log_path);
	copy_tree(shelf, kept);
}

/* SEALED journals are segments when the machine is lost. */
static void every_way(size_t sealed)
{
	static const uint64_t ranges[][2] = {
		/* touching the rows that both have, over the end of these, within what was left
		 * out, over its end */
		{ 501, 501 },
		{ 480, 501 },
		{ 480, 520 },
		{ 1, 520 },
		{ 505, 515 },
		{ 501, NEXT - 1 },
		{ NEXT - 10, NEXT - 1 },
		{ NEXT - 10, NEXT },
		{ NEXT - 10, NEXT + 30 },
		/* all of it, and of what the new log has */
		{ 480, NEXT + 30 },
		{ 1, NEXT + 300 },
		{ 501, NEXT + 300 },
		/* where the new log is, and will be */
		{ NEXT, NEXT + 20 },
		{ NEXT, NEXT + 99 },
		{ NEXT + 5, NEXT + 40 },
		{ NEXT + 50, NEXT + 140 },
		{ NEXT + 50, NEXT + 400 },
		{ NEXT + 100, NEXT + 110 },
		{ NEXT + 900, NEXT + 910 },
	};
	char segment[700], blocks[700];
	uint64_t names[32];
	size_t count;

	lose(sealed, names, &count);
	for (size_t i = 0; i + 1 < count; i++)
		for (size_t j = i + 1; j < count; j++) {
			make_shared(names[i], names[j] - 1, segment);
			at_times(1u << (i + j) % 3, names[i], names[j] - 1, segment, NULL);
		}
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		make_late(ranges[i][0], ranges[i][1], segment, blocks);
		at_times(sealed ? 7 : 1u << i % 3, ranges[i][0], ranges[i][1], segment, blocks);
	}
	log_done();
}

TEST(a_machine_that_had_sealed_some)
{
	every_way(3);
}

TEST(a_machine_that_had_only_shipped)
{
	every_way(0);
}

/* What came late, and below what is kept later, goes with the rest; and stays nothing when the
 * mark that says so went. */
TEST(late_and_given_up)
{
	struct sc_restore_options o = { .jump = 0 };
	struct sc_archive_options options = { .arg = NULL };
	struct sc_keep keep = { .count = 1 };
	struct sc_restore_report report;
	struct sc_archive *archive = NULL;
	struct sc_seal *seal = NULL;
	struct sc_log *log = NULL;
	char segment[700], blocks[700], name[100];
	uint64_t next;

	begin(4096);
	snprintf(fresh, sizeof(fresh), "%s/new/trades", log_dir);
	snprintf(third, sizeof(third), "%s/third/trades", log_dir);
	make_seed();
	CHECK_OK(grow(log_path, 1, SHARED, 10), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(sc_log_restore(fresh, archive_url, &o, &report, &err), &err);
	CHECK_OK(grow(fresh, NEXT, NEXT + 200, 10), &err);
	CHECK_OK(work_on(fresh, &seal_push), &err);
	make_late(480, 520, segment, blocks);
	snprintf(name, sizeof(name), "sealed/%020d-%020d.ndjson.zst", 480, 520);
	copy_file(segment, shelved(name));
	CHECK_INT(archive_now().late, 1);
	CHECK_OK(sc_log_open(fresh, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_archive_open_log(log, archive_url, NULL, false, &archive, &err), &err);
	CHECK_OK(sc_archive_keep(archive, &keep, &options, &err), &err);
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	CHECK(access(shelved(name), F_OK) < 0);
	CHECK_INT(archive_now().late, 0);
	/* the next one forgets where the one before began, which is given up */
	next = state_of(fresh).next_offset;
	CHECK_OK(sc_log_restore(third, archive_url, &o, &report, &err), &err);
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_INT(archive->epoch.burn_count, 1);
	CHECK_INT(archive->epoch.lowest, 2);
	CHECK_INT(archive->epoch.burns[0].first, next);
	sc_archive_close(archive);
	make_late(480, NEXT + 200, segment, blocks);
	snprintf(name, sizeof(name), "sealed/%020d-%020llu.ndjson.zst", 480, NEXT + 200);
	copy_file(segment, shelved(name));
	CHECK_INT(archive_now().late, 1);
	same_rows(third, report.first);
	log_done();
}

/* A name that says what one of ours says, but otherwise, is somebody else's. */
TEST(names_that_are_not_ours)
{
	static const char *const names[] = {
		"sealed/00000000000000000001-00000000000000000900.e0.ndjson.zst",
		"sealed/00000000000000000001-00000000000000000900.e02.ndjson.zst",
		"sealed/00000000000000000001-00000000000000000900.e.ndjson.zst",
		"sealed/00000000000000000001-00000000000000000900.e99999999999999999999.ndjson.zst",
		"sealed/00000000000000000001-00000000000000000900.e1.blocks",
		"sealed/00000000000000000001-00000000000000000900.blocks",
		"sealed/00000000000000000001-00000000000000000900.ndjson.zst~",
		"sealed/00000000000000000900-00000000000000000001.ndjson.zst",
		"sealed/00000000000000000000-00000000000000000900.ndjson.zst",
		"sealed/00000000000000000001_00000000000000000900.ndjson.zst",
		"sealed/00000000000000000001-18446744073709551615.ndjson.zst",
		"sealed/0000000000000000001-00000000000000000900.ndjson.zst",
		"sealed/sealed/00000000000000000001-00000000000000000900.ndjson.zst",
		"journal/00000000000000000001-00000000000000000900.ndjson.zst",
		"journal/00000000000000000001-00000000000000000900.e0.blocks",
		"journal/journal/00000000000000000001-00000000000000000900.blocks",
	};

	begin(4096);
	CHECK_OK(grow(log_path, 1, 50, 10), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(grow(log_path, 51, 60, 10), &err);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	CHECK(mkdir(shelved("sealed/sealed"), 0777) == 0);
	CHECK(mkdir(shelved("journal/journal"), 0777) == 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct sc_archive_state before = archive_now(), now;

		copy_file(shelved("log.json"), shelved(names[i]));
		now = archive_now();
		CHECK(memcmp(&before, &now, sizeof(now)) == 0);
		same_rows(log_path, 1);
	}
	CHECK_OK(work_on(log_path, &seal_push), &err);
	same_rows(log_path, 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		CHECK_INT(access(shelved(names[i]), F_OK), 0);
	log_done();
}
