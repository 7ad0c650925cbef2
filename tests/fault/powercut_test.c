/*
 * powercut_test.c: a log survives the loss of power at any moment.
 * run: limit 300
 *
 * Goal    every acknowledged row is there once, nothing torn is read, and the log goes on,
 *         whatever a power cut left.
 * Method  run sc-log under record.so, which writes down every change to the log's folder and
 *         every acknowledgement. Before each sync of the run, rebuild what the disk may hold
 *         (disk.h): all choices when there are few, else the ones most likely to hurt and random
 *         ones (a fixed seed; SC_STATES more of them). Open each without the index, and with one
 *         that is old, torn, or of this boot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "log/log.h"
#include "log/reader.h"
#include "log/restore.h"
#include "cut.h"
#include "disk.h"
#include "run.h"
#include "../unit/check.h"

static char top[512], run_folder[600], log_path[700], trace_path[600];

static void record_start(const char *name)
{
	snprintf(run_folder, sizeof(run_folder), "%s/run-%s", top, name);
	snprintf(log_path, sizeof(log_path), "%s/log", run_folder);
	snprintf(trace_path, sizeof(trace_path), "%s/trace-%s", top, name);
	folder_empty(run_folder);
	unlink(trace_path);
	setenv("SC_BOOT_ID", BOOT_OF_RUN, 1);
	run_record(run_folder, trace_path);
}

/* Every power cut of the recorded run. */
static void cut(const char *name, size_t splits, bool archived)
{
	struct cut all = { name, top, run_folder, trace_path, splits, archived, NULL };

	CHECK(cut_power(&all));
}

static void create(const char *journal_size)
{
	const char *argv[] = { "sc-log", "create", log_path, "--journal-size", journal_size, NULL };

	CHECK_INT(run_once(argv), 0);
	run_mark("created");
}

static void start_append(struct run *run, const char *source)
{
	const char *plain[] = { "sc-log", "append", log_path, NULL };
	const char *with[] = { "sc-log", "append", log_path, "--source", source, NULL };

	run_start(run, source ? with : plain);
}

/* One commit: COUNT rows of about SIZE bytes at once, and their acknowledgements. */
static void commit(struct run *run, int writer, size_t count, size_t size)
{
	static unsigned long long n;
	struct sc_bytes text;
	char pad[64];

	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = (char)('a' + (n + i) % 26);
	sc_bytes_init(&text, 64u << 20);
	for (size_t i = 0; i < count; i++) {
		size_t start = text.len;

		CHECK(sc_bytes_putf(&text, "{\"w\":%d,\"n\":%llu,\"pad\":\"", writer, ++n) == 0);
		while (text.len - start + 2 < size) {
			size_t left = size - (text.len - start) - 2;

			CHECK(sc_bytes_put(&text, pad, left < sizeof(pad) ? left : sizeof(pad)) ==
			      0);
		}
		CHECK(sc_bytes_puts(&text, "\"}\n") == 0);
	}
	count += run->lines;
	run_feed_at_once(run, text.data, text.len);
	sc_bytes_done(&text);
	run_wait_lines(run, count);
}

static void from_source(struct run *run, unsigned first, size_t count)
{
	struct sc_bytes text;

	sc_bytes_init(&text, 1u << 20);
	for (unsigned i = first; i < first + count; i++)
		CHECK(sc_bytes_putf(&text, "[%u,{\"s\":%u,\"x\":\"%08u\"}]\n", i, i, i * 7919) ==
		      0);
	count += run->lines;
	run_feed(run, text.data, text.len);
	sc_bytes_done(&text);
	run_wait_lines(run, count);
}

static void trim(const char *before)
{
	const char *argv[] = { "sc-log", "trim", log_path, "--before", before, NULL };
	char word[64];

	snprintf(word, sizeof(word), "trim %s", before);
	run_mark(word);
	CHECK_INT(run_once(argv), 0);
	snprintf(word, sizeof(word), "trimmed %s", before);
	run_mark(word);
}

static void reindex(void)
{
	const char *argv[] = { "sc-log", "reindex", log_path, NULL };

	CHECK_INT(run_once(argv), 0);
}

TEST(one_appender_with_small_and_large_commits)
{
	struct run a;

	record_start("sizes");
	create("8M");
	setenv("SC_RECORD_SYNC_MS", "30", 1);
	start_append(&a, NULL);
	commit(&a, 1, 1, 40);
	commit(&a, 1, 1, 700);
	commit(&a, 1, 100, 60);
	commit(&a, 1, 3, 40);
	commit(&a, 1, 20, 1000);
	commit(&a, 1, 1, 5000);
	commit(&a, 1, 100,
	       8000); /* the second commit of these is over 256 KiB: more than one block */
	commit(&a, 1, 1, 40);
	commit(&a, 1, 2, 300000); /* a row longer than a block */
	commit(&a, 1, 1, 40);
	CHECK_INT(run_end(&a), 0);
	unsetenv("SC_RECORD_SYNC_MS");
	cut("sizes", 2, false);
}

TEST(new_journals)
{
	struct run a;

	record_start("rotation");
	create("4k");
	for (int i = 0; i < 3; i++) {
		start_append(&a, NULL);
		for (size_t k = 0; k < 6; k++) {
			commit(&a, 1, 1, 100 + 600 * k);
			commit(&a, 1, 20, 90 + 50 * k);
		}
		CHECK_INT(run_end(&a), 0);
	}
	cut("rotation", 0, false);
}

TEST(two_appenders_in_turn)
{
	struct run a, b;

	record_start("two");
	create("16k");
	start_append(&a, NULL);
	start_append(&b, NULL);
	for (size_t i = 0; i < 10; i++) {
		commit(&a, 1, 1 + i * 3, 220);
		commit(&b, 2, 5, 400);
		commit(&b, 2, 1, 60);
	}
	CHECK_INT(run_end(&a), 0);
	CHECK_INT(run_end(&b), 0);
	cut("two", 0, false);
}

TEST(trims_and_a_reindex)
{
	struct run a;

	record_start("trim");
	create("4k");
	start_append(&a, NULL);
	for (int i = 0; i < 4; i++)
		commit(&a, 1, 30, 80);
	trim("50");
	commit(&a, 1, 30, 80);
	reindex();
	commit(&a, 1, 30, 80);
	trim("120");
	CHECK_INT(run_end(&a), 0);
	trim("181"); /* all that is there */
	start_append(&a, NULL);
	commit(&a, 1, 2, 80);
	CHECK_INT(run_end(&a), 0);
	cut("trim", 0, false);
}

TEST(a_source_moves_with_its_rows)
{
	struct run a, b;

	record_start("source");
	create("4k");
	start_append(&a, "src");
	from_source(&a, 1, 1);
	from_source(&a, 2, 60);
	start_append(&b, NULL);
	commit(&b, 1, 2, 100);
	from_source(&a, 70, 60);
	commit(&b, 1, 60, 100);
	from_source(&a, 200, 1);
	CHECK_INT(run_end(&a), 0);
	trim("120");
	commit(&b, 1, 60, 100);
	CHECK_INT(run_end(&b), 0);
	cut("source", 0, false);
}

/* Every row there is into segments of about TARGET, small ones into larger ones; with KEEP, those
 * that the newest so many rows are not in go; with ARCHIVE, into it before. */
static void seal(const struct run *run, const char *target, size_t keep, bool archive)
{
	char url[700], word[64], rows[32];
	const char *argv[12] = { "sc-seal", "--force", "--target",
				 target,    log_path,  keep ? "-q" : "--compact" };
	size_t n = 6;

	if (archive) {
		snprintf(url, sizeof(url), "file://%s/archive", run_folder);
		argv[n++] = "--archive";
		argv[n++] = url;
	}
	if (keep) {
		CHECK(run->lines >= keep);
		snprintf(rows, sizeof(rows), "%zu", keep);
		argv[n++] = "--keep-rows";
		argv[n++] = rows;
		snprintf(word, sizeof(word), "trim %zu", run->lines - keep + 1);
		run_mark(word);
	}
	CHECK_INT(run_once(argv), 0);
	run_mark("sealed");
}

/* The rows below the log's first were given up, durably. */
static void were_removed(void)
{
	struct sc_log *log = NULL;
	struct sc_log_state state;
	struct sc_err err;
	char word[64];

	CHECK_OK(sc_log_open(log_path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	sc_log_close(log);
	CHECK(state.first_offset > 1);
	snprintf(word, sizeof(word), "trimmed %llu", (unsigned long long)state.first_offset);
	run_mark(word);
}

static void migrate(unsigned version, const char *more)
{
	const char *argv[] = { "sc-log", "migrate", log_path, "--schema", NULL, NULL };
	char file[700], word[64];
	FILE *f;

	snprintf(file, sizeof(file), "%s/schema", top);
	f = fopen(file, "w");
	CHECK(f != NULL);
	fprintf(f,
		"{\"properties\":{\"w\":{\"type\":\"integer\"},\"n\":{\"type\":\"integer\"},"
		"\"pad\":{\"type\":\"string\"}%s},\"required\":[\"w\",\"n\",\"pad\"]}",
		more);
	CHECK(fclose(f) == 0);
	argv[4] = file;
	snprintf(word, sizeof(word), "migrate %u", version);
	run_mark(word);
	CHECK_INT(run_once(argv), 0);
	snprintf(word, sizeof(word), "migrated %u", version);
	run_mark(word);
}

TEST(changed_schemas)
{
	static const char mig[] = ",\"mig\":{\"type\":[\"string\",\"null\"]}";
	struct run a, b;

	record_start("migrate");
	create("4k");
	start_append(&a, NULL);
	start_append(&b, NULL);
	commit(&a, 1, 3, 60);
	migrate(2, mig); /* of a log without one */
	commit(&a, 1, 3, 60);
	commit(&b, 2, 30, 60);
	migrate(3, "");
	migrate(4, mig);
	migrate(5, "");
	commit(&b, 2, 3, 60);
	commit(&a, 1, 40, 80);
	trim("38");
	seal(&a, "4K", 0, false);
	migrate(6, mig);
	reindex();
	commit(&a, 1, 3, 60);
	CHECK_INT(run_end(&a), 0);
	CHECK_INT(run_end(&b), 0);
	cut("migrate", 0, false);
}

TEST(seals_and_compactions)
{
	struct run a;

	record_start("seal");
	create("4k");
	start_append(&a, NULL);
	for (size_t i = 0; i < 4; i++) {
		commit(&a, 1, 1, 100);
		commit(&a, 1, 50, 90);
		seal(&a, "4K", 0, false); /* the small ones */
	}
	commit(&a, 1, 2, 60);
	seal(&a, "32K", 0, false); /* become one */
	commit(&a, 1, 100, 120);
	commit(&a, 1, 1, 40);
	seal(&a, "4K", 0, false); /* several at once */
	commit(&a, 1, 1, 40);
	CHECK_INT(run_end(&a), 0);
	cut("seal", 0, false);
}

TEST(segments_that_go)
{
	struct run a;

	record_start("retention");
	create("4k");
	start_append(&a, "src");
	for (unsigned i = 0; i < 3; i++) {
		from_source(&a, 1 + 200 * i, 100);
		seal(&a, "4K", 0, false);
	}
	seal(&a, "4K", 150, false);
	were_removed();
	from_source(&a, 700, 130);
	seal(&a, "4K", 1, false);
	were_removed();
	trim("431"); /* all that is there */
	from_source(&a, 900, 2);
	seal(&a, "4K", 0, false);
	CHECK_INT(run_end(&a), 0);
	cut("retention", 0, false);
}

TEST(an_archive_and_what_goes_when_it_has_it)
{
	char folder[700];
	struct run a;

	record_start("archive");
	snprintf(folder, sizeof(folder), "%s/archive", run_folder);
	CHECK_INT(mkdir(folder, 0777), 0);
	run_folder_made("archive");
	create("4k");
	start_append(&a, NULL);
	for (size_t i = 0; i < 3; i++) {
		commit(&a, 1, 40, 90);
		seal(&a, "4K", i ? 60 : 0, true);
	}
	commit(&a, 1, 3, 90);
	seal(&a, "32K", 20, true);
	commit(&a, 1, 1, 90);
	CHECK_INT(run_end(&a), 0);
	cut("archive", 0, true);
}

static void ship(const struct run *run)
{
	char url[700], word[64];
	const char *argv[] = { "sc-seal", "--ship",    "--age", "none",
			       log_path,  "--archive", url,     NULL };

	snprintf(url, sizeof(url), "file://%s/archive", run_folder);
	CHECK_INT(run_once(argv), 0);
	snprintf(word, sizeof(word), "shipped %zu", run->lines);
	run_mark(word);
}

/* The archive never has a row that the log may lose, and never loses one that was shipped; also
 * while segments take the place of what was shipped, and where rows go before they are sealed. */
TEST(rows_that_are_shipped)
{
	char folder[700];
	struct run a;

	record_start("ship");
	snprintf(folder, sizeof(folder), "%s/archive", run_folder);
	CHECK_INT(mkdir(folder, 0777), 0);
	run_folder_made("archive");
	create("4k");
	start_append(&a, NULL);
	commit(&a, 1, 3, 60);
	ship(&a); /* the first time: it claims the archive */
	commit(&a, 1, 1, 60);
	ship(&a);
	commit(&a, 1, 60, 100);
	commit(&a, 1, 1, 60);
	ship(&a);                /* of several journals */
	seal(&a, "4K", 0, true); /* and now in segments */
	commit(&a, 1, 2, 60);
	ship(&a);
	commit(&a, 1, 40, 100);
	ship(&a);
	trim("80"); /* of these no segment gets all */
	commit(&a, 1, 2, 60);
	seal(&a, "4K", 0, true);
	commit(&a, 1, 1, 60);
	ship(&a);
	CHECK_INT(run_end(&a), 0);
	cut("ship", 0, true);
}

/* --- a log made anew --- */

static char shelf[600], lost_path[700];
static struct sc_bytes lost_rows; /* what the lost log held */

static void read_log(const char *path, struct sc_bytes *out, struct sc_log_state *ret_state)
{
	struct sc_reader *reader = NULL;
	struct sc_log *log = NULL;
	struct sc_run run;
	struct sc_err err;
	int rc = sc_log_open(path, SC_LOG_READ, &log, &err);

	if (rc == 0)
		rc = sc_log_state(log, ret_state, &err);
	if (rc == 0)
		rc = sc_reader_open(log, 0, &reader, &err);
	while (rc >= 0 && (rc = sc_reader_next(reader, 0, &run, &err)) == 1)
		rc = sc_bytes_put(out, run.lines.data, run.lines.len) < 0 ? -1 : 1;
	sc_reader_close(reader);
	sc_log_close(log);
	CHECK_OK(rc, &err);
}

/* A log in segments, in the archive at "shelf", with rows that are only shipped. */
static void make_lost(void)
{
	const char *create_it[] = { "sc-log", "create", lost_path, "--journal-size", "4k", NULL };
	char url[700];
	const char *seal_it[] = { "sc-seal", "--force",   "--target", "4K",
				  lost_path, "--archive", url,        NULL };
	const char *ship_it[] = { "sc-seal", "--ship", lost_path, "--archive", url, NULL };
	const char *append_it[] = { "sc-log", "append", lost_path, NULL };
	struct sc_log_state state;
	struct run a;

	snprintf(shelf, sizeof(shelf), "%s/shelf", top);
	snprintf(lost_path, sizeof(lost_path), "%s/lost/log", top);
	snprintf(url, sizeof(url), "file://%s", shelf);
	CHECK_INT(mkdir(shelf, 0777), 0);
	run_record(NULL, NULL);
	CHECK_INT(run_once(create_it), 0);
	run_start(&a, append_it);
	commit(&a, 1, 60, 90);
	CHECK_INT(run_once(seal_it), 0);
	commit(&a, 1, 3, 90);
	CHECK_INT(run_once(ship_it), 0);
	commit(&a, 1, 60, 90);
	CHECK_INT(run_once(ship_it), 0);
	CHECK_INT(run_end(&a), 0);
	sc_bytes_init(&lost_rows, 1u << 20);
	read_log(lost_path, &lost_rows, &state);
	CHECK_INT(state.rows, 123);
}

/* Another machine goes on where the one that restored lost its power: with a copy of the
 * archive, as that one left it. */
static int restore_again(const char *path, struct sc_err *err)
{
	static const struct sc_restore_options plain = { .jump = 0 };
	struct sc_restore_report report;
	char url[700], command[1400];
	int rc;

	snprintf(url, sizeof(url), "file://%s.shelf", path);
	snprintf(command, sizeof(command), "cp -a '%s' '%s.shelf'", shelf, path);
	if (system(command) != 0)
		return sc_err_set(err, SC_E_IO, "cannot copy", "cp failed");
	rc = sc_log_restore(path, url, &plain, &report, err);
	snprintf(command, sizeof(command), "%s.shelf", path);
	folder_empty(command);
	rmdir(command);
	return rc;
}

static void check_restored(const char *path, const struct moment *m, char *text, size_t size)
{
	static const char row[] = "{\"after\":\"the cut\"}";
	const uint32_t len = sizeof(row) - 1;
	struct sc_log_rows rows = { .text = { row, len }, .lens = &len, .count = 1 };
	struct sc_log_commit commit;
	struct sc_log_proof proof;
	struct sc_log_state state;
	struct sc_log *log = NULL;
	struct sc_bytes held;
	struct sc_err err;
	int rc = sc_log_open(path, SC_LOG_READ, &log, &err);

	text[0] = 0;
	sc_log_close(log);
	log = NULL;
	if (rc < 0 && !m->created)
		rc = restore_again(path, &err);
	if (rc == 0) {
		sc_bytes_init(&held, 1u << 20);
		read_log(path, &held, &state);
		if (held.len != lost_rows.len || memcmp(held.data, lost_rows.data, held.len) != 0)
			snprintf(text, size, "%zu bytes of lines were made anew, not %zu", held.len,
				 lost_rows.len);
		else if (state.next_offset < 124 + SC_RESTORE_JUMP)
			snprintf(text, size, "it goes on at %llu",
				 (unsigned long long)state.next_offset);
		sc_bytes_done(&held);
		rc = sc_log_open(path, SC_LOG_APPEND, &log, &err);
	}
	if (rc == 0)
		rc = sc_log_append(log, &rows, &commit, &err);
	if (rc == 0)
		rc = sc_log_verify(path, 0, 0, &proof, &err);
	if (rc == 0 && !text[0] && (proof.rows != 124 || proof.last < 124 + SC_RESTORE_JUMP))
		snprintf(text, size, "verify counts %llu rows to %llu",
			 (unsigned long long)proof.rows, (unsigned long long)proof.last);
	sc_log_close(log);
	if (rc < 0)
		sc_err_line(&err, text, size);
}

TEST(a_log_made_anew)
{
	char url[700];
	const char *argv[] = { "sc-log", "restore", log_path, "--archive", url, NULL };
	struct cut all = { "restore", top, run_folder, trace_path, 0, false, check_restored };

	make_lost();
	snprintf(url, sizeof(url), "file://%s", shelf);
	record_start("restore");
	CHECK_INT(run_once(argv), 0);
	run_mark("created");
	run_mark("sealed");
	CHECK(cut_power(&all));
	sc_bytes_done(&lost_rows);
	folder_empty(shelf);
	rmdir(shelf);
}

static pid_t owner;

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	const char *given = getenv("SC_POWERCUT_DIR");

	(void)argc;
	/* in memory: what a disk would keep is this test's own business */
	snprintf(top, sizeof(top), "%s/sc-powercut.XXXXXX",
		 given                           ? given
		 : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
						 : "/tmp");
	if (!mkdtemp(top)) {
		perror(top);
		exit(1);
	}
	run_init(argv[0]);
	owner = getpid();
}

__attribute__((destructor)) static void end(void)
{
	if (getpid() != owner)
		return;
	if (getenv("SC_KEEP")) {
		printf("kept in %s\n", top);
		return;
	}
	folder_empty(top);
	rmdir(top);
}
