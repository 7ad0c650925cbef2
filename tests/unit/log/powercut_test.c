/*
 * powercut_test: what tests/fault found. Goal: a log opens by itself after a power cut at an
 * unlucky moment of a trim or a create. Method: make the files as the cut leaves them, by hand, and
 * open.
 */
#include "help.h"

#include "log/reader.h"
#include "log/seal.h"

/* All rows are trimmed; the next append was making its journal when the power went. */
TEST(powercut_in_the_first_journal_behind_a_trim_of_all)
{
	struct sc_log *log;
	struct sc_log_state state;
	char name[64];

	log_new(4096);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 0; i < 4; i++)
		CHECK_OK(append_n(log, 1 + i * 200, 200, NULL), &err);
	CHECK_OK(sc_log_trim(log, 801, &err), &err);
	sc_log_close(log);
	for (int size = 0; size <= 4096; size += 2048) {
		int fd;

		snprintf(name, sizeof(name), "journal/%020d.journal", 801);
		fd = open(in_log(name), O_WRONLY | O_CREAT | O_TRUNC, 0666);
		CHECK(fd >= 0 && ftruncate(fd, size) == 0);
		close(fd);
		drop_index();
		log = open_log(SC_LOG_READ);
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		CHECK_INT(state.next_offset, 801);
		CHECK_INT(state.rows, 0);
		sc_log_close(log);
		CHECK(access(in_log(name), F_OK) < 0);
	}
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 801, 3, NULL), &err);
	check_holds(log, 801, 803);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_READ);
	check_holds(log, 801, 803);
	sc_log_close(log);
	log_done();
}

/* The next journal was being made when the power went, NAME, and nothing of it is on disk but its
 * name: the one before is in use again, and is told from the one before that, or its segment. */
static void check_torn(uint64_t name)
{
	char path[64];

	snprintf(path, sizeof(path), "journal/%020llu.journal", (unsigned long long)name);
	for (int size = 0; size <= 4096; size += 2048) {
		struct sc_log *log;
		uint64_t rows;
		int fd = open(in_log(path), O_WRONLY | O_CREAT | O_TRUNC, 0666);

		CHECK(fd >= 0 && ftruncate(fd, size) == 0);
		close(fd);
		drop_index();
		log = open_log(SC_LOG_APPEND);
		check_holds(log, 1, name - 1);
		for (uint64_t from = 1; from <= name; from += 50) {
			CHECK_OK(sc_log_count_from(log, from, &rows, &err), &err);
			CHECK_INT(rows, name - from);
		}
		sc_log_close(log);
		CHECK(access(in_log(path), F_OK) < 0);
	}
}

TEST(powercut_in_the_first_journals_behind_a_segment)
{
	static const struct sc_seal_options all = { .force = true };
	struct sc_seal *seal = NULL;
	struct sc_log *log;

	log_new(4096);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 100, NULL), &err);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &all, &err), &err);
	sc_seal_close(seal);
	CHECK_OK(append_n(log, 101, 50, NULL), &err);
	sc_log_close(log);
	check_torn(151);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 151, 250, NULL), &err);
	CHECK_OK(append_n(log, 401, 200, NULL), &err);
	sc_log_close(log);
	check_torn(601);
	log_done();
}

/* log.json was being written when the power went: the log can be made after all. */
TEST(create_again_where_a_create_died)
{
	static const struct sc_log_settings settings = { .journal_bytes = 0 };
	struct sc_log *log;

	log_new(0);
	CHECK(rename(in_log("log.json"), in_log("log.json.4711.tmp")) == 0);
	CHECK_OK(sc_log_create(log_path, &settings, &err), &err);
	CHECK(access(in_log("log.json.4711.tmp"), F_OK) < 0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 3, NULL), &err);
	check_holds(log, 1, 3);
	sc_log_close(log);
	/* any other file is somebody's */
	CHECK(rename(in_log("log.json"), in_log("log.json.bak")) == 0);
	CHECK_INT(sc_log_create(log_path, &settings, &err), SC_E_CANTCREAT);
	log_done();
}

/* Journals with rows, and no log.json: no other log is made over them. */
TEST(create_over_journals_alone)
{
	static const struct sc_log_settings settings = { .journal_bytes = 0 };
	struct sc_log *log;
	char settings_file[300];

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 3, NULL), &err);
	sc_log_close(log);
	snprintf(settings_file, sizeof(settings_file), "%s/log.json", log_dir);
	CHECK(rename(in_log("log.json"), settings_file) == 0);
	drop_index();
	CHECK_INT(sc_log_open(log_path, SC_LOG_APPEND, &log, &err), SC_E_NOLOG);
	CHECK(strstr(err.next, "put its log.json back"));
	CHECK_INT(sc_log_create(log_path, &settings, &err), SC_E_CANTCREAT);
	CHECK(strstr(err.reason, "the journals of a log"));
	CHECK(rename(settings_file, in_log("log.json")) == 0);
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 1, 3);
	/* also where only a later one is left */
	CHECK_OK(sc_log_trim(log, 4, &err), &err);
	sc_log_close(log);
	CHECK(rename(in_log("log.json"), settings_file) == 0);
	drop_index();
	CHECK(rename(in_log("journal/00000000000000000001.journal"),
		     in_log("journal/00000000000000000004.journal")) == 0);
	CHECK_INT(sc_log_create(log_path, &settings, &err), SC_E_CANTCREAT);
	log_done();
}

/* A trim died when log.json had the new floor and the index not yet: whoever opens next sees the
 * floor. */
TEST(floor_of_a_trim_that_died)
{
	static const enum sc_log_mode modes[] = { SC_LOG_READ, SC_LOG_APPEND };

	for (size_t i = 0; i < 2; i++) {
		struct sc_log *log, *trimmed;
		struct sc_log_state state;
		char copy[300];

		log_new(0);
		log = open_log(SC_LOG_APPEND);
		CHECK_OK(append_n(log, 1, 20, NULL), &err);
		sc_log_close(log);
		/* the floor as a trim of a copy of the log writes it */
		snprintf(copy, sizeof(copy), "%s/copy", log_dir);
		CHECK(mkdir(copy, 0777) == 0);
		snprintf(copy, sizeof(copy), "%s/copy/journal", log_dir);
		CHECK(mkdir(copy, 0777) == 0);
		snprintf(copy, sizeof(copy), "%s/copy/journal/%020d.journal", log_dir, 1);
		copy_file(last_journal(), copy);
		snprintf(copy, sizeof(copy), "%s/copy/log.json", log_dir);
		copy_file(in_log("log.json"), copy);
		snprintf(copy, sizeof(copy), "%s/copy", log_dir);
		CHECK_OK(sc_log_open(copy, SC_LOG_APPEND, &trimmed, &err), &err);
		CHECK_OK(sc_log_trim(trimmed, 15, &err), &err);
		sc_log_close(trimmed);
		snprintf(copy, sizeof(copy), "%s/copy/log.json", log_dir);
		copy_file(copy, in_log("log.json"));
		log = open_log(modes[i]);
		CHECK_OK(sc_log_state(log, &state, &err), &err);
		CHECK_INT(state.first_offset, 15);
		CHECK_INT(state.rows, 6);
		check_holds(log, 15, 20);
		sc_log_close(log);
		log_done();
	}
}
