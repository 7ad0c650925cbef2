/*
 * archive_test: segments into an archive and read from there. Goal: an archive gives back every row
 * byte for byte, names what is damaged or missing, is written by one log only, and holds whole
 * objects whenever the writer dies. Method: an archive in a folder; its files are damaged, taken
 * away, put there by others; pushes are killed at each of their calls.
 */
#include "archive_help.h"
#include "die.h"

/* Appended, and sealed into segments of about 2 KiB. */
static void grow_sealed(uint64_t from, uint64_t to)
{
	struct sc_log *log;
	struct sc_seal *seal = NULL;

	CHECK_OK(grow(log_path, from, to, 10), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(seal_small(seal), &err);
	sc_seal_close(seal);
	sc_log_close(log);
}

static void begin_sealed(uint64_t rows)
{
	begin(4096);
	grow_sealed(1, rows);
}

struct count {
	uint64_t uploaded, found, removed;
};

static void on_step(void *arg, const struct sc_archive_step *step)
{
	struct count *c = arg;

	c->uploaded += step->act == SC_ARCHIVE_UPLOADED;
	c->found += step->act == SC_ARCHIVE_FOUND;
	c->removed += step->act == SC_ARCHIVE_REMOVED;
}

/* Push the log at PATH, then apply KEEP. */
static int push_at(const char *path, const struct sc_keep *keep, bool dry, struct count *ret_count)
{
	struct count count = { 0, 0, 0 };
	struct sc_archive_options o = { .arg = &count, .step = on_step };
	struct archiver a;
	int rc = archiver_open(path, dry ? LOOKS : OWNS, &a);

	if (rc == 0)
		rc = sc_archive_push(a.archive, &o, &err);
	if (rc == 0 && keep)
		rc = sc_archive_keep(a.archive, keep, &o, &err);
	archiver_close(&a);
	if (ret_count)
		*ret_count = count;
	return rc;
}

static struct count push(void)
{
	struct count count;

	CHECK_OK(push_at(log_path, NULL, false, &count), &err);
	return count;
}

TEST(push_and_read)
{
	struct sc_bytes out;
	struct count count;
	struct sc_log_proof live, kept;
	struct sc_archive *archive = NULL;
	struct sc_archive_state state;

	sc_bytes_init(&out, 1u << 24);
	begin_sealed(1000);
	CHECK_OK(push_at(log_path, NULL, true, &count),
		 &err); /* dry: says it, and leaves no trace */
	CHECK(count.uploaded > 3);
	CHECK(access(in_log("archive.json"), F_OK) < 0 && access(shelved("log.json"), F_OK) < 0);
	CHECK_INT(push().uploaded, count.uploaded);
	CHECK_INT(push().uploaded, 0);
	CHECK_OK(read_archive(0, 0, &out), &err);
	expect_rows(&out, 1, 1000);
	for (uint64_t from = 1; from <= 1001; from += 37) {
		CHECK_OK(read_archive(from, 64, &out), &err);
		expect_rows(&out, from, 1000);
	}
	CHECK_OK(read_archive(1001, 0, &out), &err);
	CHECK_INT(out.len, 0);
	CHECK_INT(read_archive(1002, 0, &out), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"ahead\""));
	grow_sealed(1001, 1500);
	CHECK(push().uploaded > 0);
	CHECK_OK(read_archive(990, 0, &out), &err);
	expect_rows(&out, 990, 1500);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &live, &err), &err);
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	sc_archive_state(archive, &state);
	CHECK_INT(state.first_offset, 1);
	CHECK_INT(state.next_offset, 1501);
	CHECK_OK(sc_archive_verify(archive, 1, 1501, &kept, &err), &err);
	CHECK_STR(kept.hash, live.hash);
	CHECK_INT(kept.rows, 1500);
	CHECK_INT(kept.segments, state.segments);
	CHECK_OK(sc_log_verify(log_path, 301, 777, &live, &err), &err);
	CHECK_OK(sc_archive_verify(archive, 301, 778, &kept, &err), &err);
	CHECK_STR(kept.hash, live.hash);
	CHECK_INT(kept.rows, 477);
	sc_archive_close(archive);
	sc_bytes_done(&out);
	log_done();
}

TEST(times)
{
	begin_sealed(700);
	push();
	check_times(701);
	log_done();
}

TEST(damaged_and_missing_segments_are_named)
{
	struct sc_bytes out;
	uint64_t first, last;
	char file[NAME_MAX + 720];

	sc_bytes_init(&out, 1u << 24);
	begin_sealed(1000);
	push();
	snprintf(file, sizeof(file), "%s", object("sealed", 2));
	CHECK(sc_segment_name_parse(strrchr(file, '/') + 1, &first, &last));
	for (int where = 0; where < 2; where++) { /* in the lines; in the index */
		flip(file, where ? -40 : 30);
		CHECK_INT(read_archive(1, 0, &out), SC_E_DATA);
		expect_rows(&out, 1, first - 1);
		CHECK(strstr(err.fields, strrchr(file, '/') + 1));
		snprintf(file + 650, 40, "\"last_good\":%llu", (unsigned long long)first - 1);
		CHECK(strstr(err.fields, file + 650));
		CHECK_OK(read_archive(last + 1, 0, &out), &err);
		expect_rows(&out, last + 1, 1000);
		flip(file, where ? -40 : 30);
	}
	CHECK(truncate(file, 100) == 0);
	CHECK_INT(push_at(log_path, NULL, false, NULL),
		  SC_E_DATA); /* it is not held as it was seen */
	CHECK(strstr(err.reason, "other bytes"));
	CHECK_INT(read_archive(1, 0, &out), SC_E_DATA);
	expect_rows(&out, 1, first - 1);
	CHECK(unlink(file) == 0);
	CHECK_INT(read_archive(1, 0, &out), SC_E_DATA);
	expect_rows(&out, 1, first - 1);
	CHECK(strstr(err.fields, strrchr(file, '/') + 1)); /* also the name that is not there */
	CHECK_INT(read_archive(first + 1, 0, &out),
		  SC_E_DATA); /* a start in the hole is no other start */
	CHECK_OK(read_archive(last + 1, 0, &out), &err);
	expect_rows(&out, last + 1, 1000);
	/* what is not there any more is put there again, from the log */
	CHECK_INT(push().uploaded, 1);
	CHECK_OK(read_archive(1, 0, &out), &err);
	expect_rows(&out, 1, 1000);
	sc_bytes_done(&out);
	log_done();
}

TEST(another_object_of_that_name)
{
	struct count count;

	begin_sealed(300);
	CHECK_OK(push_at(log_path, NULL, false, &count), &err);
	unlink(in_log("archive.json"));
	unlink(shelved("epoch.json"));
	CHECK_OK(push_at(log_path, NULL, false, &count),
		 &err); /* all are there: found, compared, noted */
	CHECK_INT(count.uploaded, 0);
	CHECK(count.found > 1);
	unlink(in_log("archive.json"));
	unlink(shelved("epoch.json"));
	flip(object("sealed", 1), 20);
	CHECK_INT(push_at(log_path, NULL, false, &count), SC_E_DATA);
	CHECK_INT(count.found, 1);
	CHECK(strstr(err.reason, "file://") && strstr(err.reason, "other bytes"));
	log_done();
}

TEST(a_damaged_segment_is_not_archived)
{
	begin_sealed(300);
	flip(file_of(in_log("sealed"), 0), 20);
	CHECK_INT(push_at(log_path, NULL, false, NULL), SC_E_DATA);
	CHECK(access(shelved("sealed"), F_OK) < 0);
	log_done();
}

TEST(one_log_writes)
{
	char other[400], path[500];
	struct sc_log *log = NULL;
	struct sc_archive *archive = NULL;

	begin_sealed(300);
	snprintf(other, sizeof(other), "%s/copy", log_dir);
	CHECK(mkdir(other, 0777) == 0);
	snprintf(path, sizeof(path), "%s/trades", other);
	copy_tree(log_path, path);
	push();
	/* a copy that was made before does not know the owner's name */
	CHECK_INT(push_at(path, NULL, false, NULL), SC_E_NOAUTH);
	CHECK(strstr(err.reason, "another copy"));
	/* it takes over, and the first one is refused, whatever it has open */
	CHECK_OK(sc_log_open(path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_INT(sc_archive_open_log(log, archive_url, NULL, false, &archive, &err), SC_E_NOAUTH);
	unlink(shelved("epoch.json"));
	CHECK_OK(sc_archive_open_log(log, archive_url, NULL, false, &archive, &err), &err);
	CHECK_OK(sc_archive_take_over(archive, &err), &err);
	sc_archive_close(archive);
	sc_log_close(log);
	grow_sealed(301, 400);
	CHECK_INT(push_at(log_path, NULL, false, NULL), SC_E_NOAUTH);
	CHECK(strstr(err.reason, "taken over"));
	CHECK_INT(push_at(log_path, NULL, true, NULL), SC_E_NOAUTH);
	CHECK_OK(push_at(path, NULL, false, NULL), &err);
	log_done();
}

TEST(another_stream_is_refused)
{
	struct sc_log_settings settings = { .journal_bytes = 4096 };
	char path[500];

	begin_sealed(100);
	push();
	snprintf(path, sizeof(path), "%s/other", log_dir);
	CHECK(mkdir(path, 0777) == 0);
	snprintf(path, sizeof(path), "%s/other/trades", log_dir);
	CHECK_OK(sc_log_create(path, &settings, &err), &err);
	CHECK_INT(push_at(path, NULL, false, NULL), SC_E_CONFIG);
	CHECK_INT(push_at(path, NULL, true, NULL), SC_E_CONFIG);
	log_done();
}

TEST(retention)
{
	struct sc_keep keep = { .count = 2 };
	struct count count;
	struct sc_bytes out;
	struct sc_archive *archive = NULL;
	struct sc_archive_state state;

	sc_bytes_init(&out, 1u << 24);
	begin_sealed(1000);
	push();
	CHECK_OK(push_at(log_path, &keep, true, &count), &err);
	CHECK_OK(push_at(log_path, &keep, false, &count), &err);
	CHECK(count.removed > 2);
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	sc_archive_state(archive, &state);
	CHECK_INT(state.segments, 2);
	sc_archive_close(archive);
	CHECK_OK(read_archive(0, 0, &out), &err);
	expect_rows(&out, state.first_offset, 1000);
	CHECK_INT(read_archive(1, 0, &out), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"evicted\""));
	/* what it gave up does not come back, though the log has it still */
	CHECK_OK(push_at(log_path, &keep, false, &count), &err);
	CHECK_INT(count.uploaded + count.removed, 0);
	/* by age, everything but the newest; never all of it */
	keep = (struct sc_keep){ .age_us = 1 };
	CHECK_OK(push_at(log_path, &keep, false, &count), &err);
	CHECK_INT(count.removed, 1);
	CHECK_OK(read_archive(0, 0, &out), &err);
	CHECK(out.len > 0);
	sc_bytes_done(&out);
	log_done();
}

/* Segments go, or are put together, while somebody reads: nothing is left out in silence. */
TEST(what_goes_under_a_reader)
{
	struct sc_keep keep = { .count = 1 };
	struct sc_archive *archive = NULL;
	struct sc_archive_reader *reader = NULL;
	struct sc_run run;
	int rc;

	begin_sealed(1000);
	push();
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_OK(sc_archive_reader_open(archive, 0, &reader, &err), &err);
	CHECK_INT(sc_archive_reader_next(reader, 0, &run, &err), 1);
	CHECK_OK(push_at(log_path, &keep, false, NULL), &err);
	while ((rc = sc_archive_reader_next(reader, 0, &run, &err)) == 1)
		CHECK(run.last < 500);
	CHECK_INT(rc, SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"evicted\""));
	sc_archive_reader_close(reader);
	sc_archive_close(archive);
	log_done();
}

TEST(compacted_segments_count_as_held)
{
	struct sc_seal_options o = { .target = 1u << 20, .every = true };
	struct sc_log *log = NULL;
	struct sc_seal *seal = NULL;
	struct sc_bytes out;

	sc_bytes_init(&out, 1u << 24);
	begin_sealed(1000);
	push();
	CHECK_OK(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
	sc_seal_close(seal);
	sc_log_close(log);
	CHECK_INT(push().uploaded, 0);
	/* a part of it goes: the whole is put there, and covers the others */
	CHECK(unlink(object("sealed", 1)) == 0);
	CHECK_INT(push().uploaded, 1);
	CHECK_OK(read_archive(0, 0, &out), &err);
	expect_rows(&out, 1, 1000);
	sc_bytes_done(&out);
	log_done();
}

static int push_and_keep_two(void)
{
	static const struct sc_keep keep = { .count = 2 };
	int rc;

	counting = true;
	rc = push_at(log_path, &keep, false, NULL);
	counting = false;
	return rc;
}

/* What the archive has, if it is one by now, is whole and in order. */
static struct sc_archive_state check_whole(struct sc_bytes *out)
{
	struct sc_archive_state state = { .segments = 0 };
	struct sc_archive *archive = NULL;

	if (sc_archive_open(log_url, NULL, &archive, &err) < 0) {
		CHECK_INT(err.code, SC_E_NOLOG);
		return state;
	}
	sc_archive_state(archive, &state);
	sc_archive_close(archive);
	CHECK_OK(read_archive(0, 0, out), &err);
	expect_rows(out, state.first_offset, state.next_offset - 1);
	return state;
}

/* No temporary file is in the archive, nor in the log. */
static void check_clean(void)
{
	const char *const folders[] = { shelved(""), shelved("sealed"), log_path };

	for (int i = 0; i < 3; i++) {
		DIR *dir = opendir(folders[i]);
		struct dirent *entry;

		CHECK(dir);
		while ((entry = readdir(dir)))
			CHECK(!strstr(entry->d_name, ".tmp"));
		closedir(dir);
	}
}

static void four_hundred(void)
{
	begin_sealed(400);
}

/* Readers see whole segments, and the next run ends the work. */
static void check_left(bool through)
{
	struct sc_archive_state state;
	struct sc_bytes out;

	(void)through;
	sc_bytes_init(&out, 1u << 24);
	check_whole(&out);
	CHECK_OK(push_and_keep_two(), &err);
	state = check_whole(&out);
	check_clean();
	CHECK_INT(state.segments, 2);
	CHECK_INT(state.next_offset, 401);
	sc_bytes_done(&out);
	log_done();
}

/* A push and its retention. */
TEST(killed_at_every_call)
{
	each_call(DIE, 60, four_hundred, push_and_keep_two, check_left);
}
