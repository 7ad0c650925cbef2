/*
 * migrate_test: a schema that changes. Goal: each commit is checked by the schema in force, whoever
 * changed it; segments, journals and log.json say which rows were checked by which; log.json is
 * mended from the journals when it is older than they are; lines on their way in are checked again.
 * Method: two handles on one log; files put back as a backup or a copy has them; an intake whose
 * commit waits while the schema is changed.
 */
#include <pthread.h>
#include <sys/ioctl.h>

#include "die.h"
#include "migrate_help.h"

#include "base/clock.h"
#include "log/intake.h"

static void seal_now(uint64_t target, bool force, size_t want)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_seal_options o = { .target = target, .force = force, .every = true };
	struct sc_seal *seal = NULL;
	struct sc_log_state state;

	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
	sc_seal_close(seal);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.segments, want);
	check_forms(log);
	sc_log_close(log);
}

TEST(two_handles)
{
	struct sc_log *a, *b;
	struct sc_log_migrated done;
	struct sc_log_proof proof;
	char hash[33];

	migrating_log_new(0);
	a = open_log(SC_LOG_APPEND);
	b = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(a, 1, 5), &err);
	CHECK_OK(append_checked(b, 6, 5), &err);
	CHECK_INT(sc_log_reload(a, &err), 0);
	CHECK_OK(migrate(b, NEW, &done), &err);
	CHECK(done.version == 2 && done.from == 11 && done.changes == 2);
	CHECK_INT(sc_log_schema_version(b), 2);
	CHECK_INT(sc_log_schema_version(a), 1);
	CHECK_INT(append_checked(a, 11, 1), SC_E_STALE);
	CHECK_STR(err.reason, "its schema was changed at offset 11");
	CHECK_INT(append_checked(a, 11, 1), SC_E_STALE);
	CHECK_INT(sc_log_reload(a, &err), 1);
	CHECK_INT(sc_log_reload(a, &err), 0);
	CHECK_OK(append_checked(a, 11, 5), &err);
	CHECK_OK(append_checked(b, 16, 5), &err);
	CHECK_OK(migrate(a, NEW, &done), &err);
	CHECK(done.version == 2 && done.from == 11 && done.changes == 0);
	/* another order is another schema */
	CHECK_OK(migrate(a,
			 "{\"properties\":{\"new\":{\"type\":[\"number\",\"null\"]}," COLUMN_N
			 "},\"required\":[\"n\"]}",
			 &done),
		 &err);
	CHECK(done.version == 3 && done.from == 21 && done.changes == 1);
	CHECK_INT(append_checked(b, 21, 1), SC_E_STALE);
	CHECK_INT(migrate(b, "{\"properties\":{\"old\":{\"type\":[\"integer\",\"null\"]}}}", NULL),
		  SC_E_CONFIG);
	CHECK_STR(err.reason, "column 'old' cannot be int64: it was removed as string, and a "
			      "column keeps its type for ever");
	CHECK_INT(sc_log_reload(b, &err), 1);
	CHECK_OK(append_checked(b, 21, 1), &err);
	CHECK_INT(check_forms(b), 21);
	sc_log_close(a);
	sc_log_close(b);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	snprintf(hash, sizeof(hash), "%s", proof.hash);
	seal_now(0, true, 3);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_STR(proof.hash, hash);
	CHECK_INT(proof.orphans, 0);
	CHECK_OK(sc_log_reindex(log_path, &err), &err);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_STR(proof.hash, hash);
	log_done();
}

TEST(dry_run_changes_nothing)
{
	struct sc_log *log;
	struct sc_log_migration m = { .schema = SC_SPAN(NEW), .dry = true };
	struct sc_log_migrated done;

	migrating_log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(log, 1, 5), &err);
	sc_log_close(log);
	log = open_log(SC_LOG_READ);
	CHECK_OK(sc_log_migrate(log, &m, &done, &err), &err);
	CHECK(done.version == 2 && done.from == 6 && done.changes == 2);
	CHECK_INT(sc_log_reload(log, &err), 0);
	m.dry = false;
	CHECK_INT(sc_log_migrate(log, &m, &done, &err), SC_E_INTERNAL);
	sc_log_close(log);
	log_done();
}

static int add_version(void *arg, uint64_t version, uint64_t from, struct sc_span schema)
{
	struct sc_bytes *out = arg;

	return sc_bytes_putf(out, "%llu:%llu%c ", (unsigned long long)version,
			     (unsigned long long)from, form_of(schema));
}

static void check_versions(struct sc_log *log, const char *want)
{
	struct sc_bytes text;

	sc_bytes_init(&text, 4096);
	CHECK_OK(sc_log_schemas(log, add_version, &text, &err), &err);
	CHECK_STR(sc_bytes_str(&text), want);
	sc_bytes_done(&text);
}

/* A log without a schema gets one: what is there stays as it is. */
TEST(from_none_to_a_schema)
{
	struct sc_log *log;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 3, NULL), &err);
	CHECK_OK(migrate(log, OLD, NULL), &err);
	CHECK_OK(append_checked(log, 4, 3), &err);
	check_versions(log, "1:1a 2:4o ");
	CHECK_INT(check_forms(log), 6);
	sc_log_close(log);
	seal_now(0, true, 2);
	log_done();
}

/* Versions without a row between them; the last one at an offset is the one of its rows. */
TEST(changed_and_changed_back)
{
	struct sc_log *log;

	migrating_log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	CHECK_OK(migrate(log, OLD, NULL), &err);
	CHECK_OK(append_checked(log, 1, 3), &err);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	CHECK_OK(migrate(log, OLD, NULL), &err);
	CHECK_OK(append_checked(log, 4, 3), &err);
	check_versions(log, "1:1o 2:1n 3:1o 4:4n 5:4o ");
	CHECK_INT(check_forms(log), 6);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_READ);
	check_versions(log, "1:1o 2:1n 3:1o 4:4n 5:4o ");
	CHECK_INT(check_forms(log), 6);
	sc_log_close(log);
	seal_now(0, true, 1); /* two segments of one schema, compacted */
	log_done();
}

/* A few rows before a change wait for nobody: no row will ever join them. */
TEST(what_stands_before_a_change_is_sealed)
{
	struct sc_log *log;

	migrating_log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(log, 1, 5), &err);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	for (uint64_t i = 6; i < 1000; i += 50)
		CHECK_OK(append_checked(log, i, 50), &err);
	sc_log_close(log);
	seal_now(8 << 10, false, 4);
	log_done();
}

/* log.json of before the change beside journals of after it, as a copy or a backup may have it. */
static void older_log_json(bool rows_before, bool index_dropped)
{
	struct sc_log *log;
	char kept[300];

	migrating_log_new(0);
	snprintf(kept, sizeof(kept), "%s/kept", log_dir);
	copy_file(in_log("log.json"), kept);
	log = open_log(SC_LOG_APPEND);
	if (rows_before)
		CHECK_OK(append_checked(log, 1, 5), &err);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	CHECK_OK(append_checked(log, 6, 5), &err);
	if (rows_before) {
		CHECK_OK(migrate(log, OLD, NULL), &err);
		CHECK_OK(append_checked(log, 11, 5), &err);
	}
	sc_log_close(log);
	copy_file(kept, in_log("log.json"));
	if (index_dropped)
		drop_index();
	else
		CHECK_OK(sc_log_reindex(log_path, &err), &err);
	log = open_log(SC_LOG_APPEND);
	check_versions(log, rows_before ? "1:1o 2:6n 3:11o " : "1:1o 2:1n ");
	CHECK_INT(sc_log_schema_version(log), rows_before ? 3 : 2);
	CHECK_INT(check_forms(log), rows_before ? 15 : 5);
	CHECK_OK(append_checked(log, 1, 5), &err);
	check_forms(log);
	sc_log_close(log);
	log = open_log(SC_LOG_READ);
	check_versions(log, rows_before ? "1:1o 2:6n 3:11o " : "1:1o 2:1n ");
	sc_log_close(log);
	log_done();
}

TEST(log_json_is_older_than_the_journals)
{
	older_log_json(true, true);
	older_log_json(true, false);
	older_log_json(false, true);
	older_log_json(false, false);
}

/* The other way round: log.json was copied later than the journals, whose last rows are missing. */
TEST(log_json_is_newer_than_the_journals)
{
	struct sc_log *log;
	char copy[300];

	migrating_log_new(0);
	snprintf(copy, sizeof(copy), "%s/copy", log_dir);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(log, 1, 5), &err);
	copy_log(log_path, copy);
	CHECK_OK(append_checked(log, 6, 5), &err);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	sc_log_close(log);
	snprintf(copy, sizeof(copy), "%s/copy/log.json", log_dir);
	copy_file(in_log("log.json"), copy);
	snprintf(log_path, sizeof(log_path), "%.200s/copy", log_dir);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(log, 11, 5), &err);
	CHECK_INT(check_forms(log), 10);
	sc_log_close(log);
	drop_index();
	log = open_log(SC_LOG_APPEND);
	CHECK_INT(check_forms(log), 10);
	CHECK_OK(append_checked(log, 16, 5), &err);
	sc_log_close(log);
	seal_now(0, true, 2);
	log_done();
}

/* A trim by a handle that does not know the new schema does not bring the old one back. */
TEST(trim_and_reindex_keep_the_schemas)
{
	struct sc_log *a, *b;

	migrating_log_new(0);
	a = open_log(SC_LOG_APPEND);
	b = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(a, 1, 10), &err);
	CHECK_OK(migrate(a, NEW, NULL), &err);
	CHECK_OK(append_checked(a, 11, 10), &err);
	CHECK_OK(sc_log_trim(b, 15, &err), &err);
	check_versions(b, "1:1o 2:11n ");
	CHECK_INT(sc_log_reload(b, &err), 1);
	CHECK_OK(append_checked(a, 21, 1), &err);
	sc_log_close(a);
	sc_log_close(b);
	CHECK_OK(sc_log_reindex(log_path, &err), &err);
	a = open_log(SC_LOG_READ);
	check_versions(a, "1:1o 2:11n ");
	CHECK_INT(check_forms(a), 7);
	sc_log_close(a);
	log_done();
}

/* A trim that could not write log.json has not happened, whatever the handle does next. */
TEST(no_trim_comes_of_one_that_failed)
{
	struct sc_log *log;
	struct sc_log_state state;
	char temporary[64];

	migrating_log_new(0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_checked(log, 1, 20), &err);
	/* the name that the new log.json gets first is taken */
	snprintf(temporary, sizeof(temporary), "log.json.%ld.tmp", (long)getpid());
	CHECK(mkdir(in_log(temporary), 0755) == 0);
	CHECK(sc_log_trim(log, 15, &err) < 0);
	CHECK(rmdir(in_log(temporary)) == 0);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	CHECK_OK(append_checked(log, 21, 1), &err);
	sc_log_close(log);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.first_offset, 1);
	CHECK_INT(state.rows, 21);
	sc_log_close(log);
	log_done();
}

static void refuse_json(const char *schemas)
{
	FILE *f = fopen(in_log("log.json"), "w");
	struct sc_log *log = NULL;

	CHECK(f != NULL);
	fprintf(f, "{\"format\":2,\"stream_id\":\"d157f9ed-ed98-4130-b85d-c7327ef983c7\",%s}",
		schemas);
	fclose(f);
	CHECK_INT(sc_log_open(log_path, SC_LOG_READ, &log, &err), SC_E_DATA);
	CHECK(log == NULL);
}

TEST(damaged_history_is_refused)
{
	log_new(0);
	refuse_json("\"schema_version\":2,\"schema_before\":7");
	refuse_json("\"schema_version\":2,\"schema_before\":[7]");
	refuse_json("\"schema_version\":0");
	refuse_json("\"schema_version\":1,\"schema_before\":[{\"version\":1,\"from\":1}]");
	refuse_json("\"schema_version\":3,\"schema_from\":8,\"schema_before\":[{\"version\":1,"
		    "\"from\":1},{\"version\":2,\"from\":9}]");
	refuse_json("\"schema_version\":2,\"schema_from\":\"x\"");
	log_done();
}

/* Lines on their way in */

static struct intake_run {
	struct sc_log *log;
	struct sc_intake_options o;
	struct sc_intake_result result;
	struct sc_err error;
	int rc;
} run;

static void *intake_thread(void *arg)
{
	(void)arg;
	run.rc = sc_intake_run(&run.log, &run.o, &run.result, &run.error);
	return NULL;
}

/*
 * COUNT lines {"n":I}; those from FIRST_OLD on, every STEP, have "old" too. While the first commit
 * waits for the lock the schema is changed; all lines are taken before. Then one of the new form.
 */
static void change_under_way(size_t count, size_t first_old, size_t step, int bad_fd)
{
	struct sc_kv_txn *txn = NULL;
	struct sc_schema *next = NULL;
	struct sc_schema_mark mark = { .version = 2 };
	struct sc_log *holder = open_log(SC_LOG_APPEND);
	struct sc_state state;
	struct sc_bytes text;
	pthread_t thread;
	int pair[2], waiting;

	CHECK(pipe(pair) == 0);
	sc_bytes_init(&text, 16u << 20);
	for (size_t i = 1; i <= count; i++)
		sc_bytes_putf(&text, "  {\"n\":%zu%s}  \n", i,
			      i >= first_old && (i - first_old) % step == 0 ? ",\"old\":\"x\""
									    : "");
	run = (struct intake_run){ .log = open_log(SC_LOG_APPEND),
				   .o = { .in_fd = pair[0],
					  .out_fd = -1,
					  .bad_fd = bad_fd,
					  .bad_name = "bad",
					  .stop_fd = -1 } };
	CHECK_OK(sc_index_begin(holder, &txn, &state, &err), &err);
	CHECK(pthread_create(&thread, NULL, intake_thread, NULL) == 0);
	CHECK_OK(sc_write_all(pair[1], text.data, text.len, "pipe", &err), &err);
	/* in two batches, of which the first one is on its way */
	do {
		usleep(1000);
		CHECK(ioctl(pair[0], FIONREAD, &waiting) == 0);
	} while (waiting > 0);
	CHECK_OK(sc_schema_parse(SC_SPAN(NEW), &next, &err), &err);
	mark.from = state.next;
	mark.text = sc_schema_text(next);
	CHECK_OK(sc_settings_add(&holder->settings, &mark, &err), &err);
	CHECK_OK(sc_settings_write(log_path, &holder->settings, &err), &err);
	sc_index_abort(holder, &txn);
	sc_write_all(pair[1], "{\"n\":0,\"new\":1.5}\n", 18, "pipe", NULL);
	close(pair[1]);
	CHECK(pthread_join(thread, NULL) == 0);
	close(pair[0]);
	sc_schema_free(next);
	sc_bytes_done(&text);
	sc_log_close(run.log);
	sc_log_close(holder);
}

#define MANY 20000

TEST(lines_under_way_fit_the_new_schema)
{
	struct sc_log *log;

	migrating_log_new(0);
	change_under_way(MANY, MANY + 1, 1, -1);
	CHECK_OK(run.rc, &run.error);
	CHECK_INT(run.result.rows, MANY + 1);
	log = open_log(SC_LOG_READ);
	CHECK_INT(check_forms(log), MANY + 1);
	check_versions(log, "1:1o 2:1n ");
	sc_log_close(log);
	log_done();
}

TEST(a_line_under_way_is_refused)
{
	static const size_t at[] = { 1, 100, MANY / 2, MANY - 3, MANY };

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct sc_log *log;
		char number[40];

		migrating_log_new(0);
		change_under_way(MANY, at[i], 7, -1);
		CHECK_INT(run.rc, SC_E_DATA);
		snprintf(number, sizeof(number), "on line '%zu'", at[i]);
		CHECK_STR(run.error.object, number);
		CHECK_INT(run.result.rows, at[i] - 1);
		log = open_log(SC_LOG_READ);
		CHECK_INT(check_forms(log), at[i] - 1);
		sc_log_close(log);
		log_done();
	}
}

TEST(lines_under_way_are_set_aside)
{
	struct sc_bytes bad;
	struct sc_log *log;
	size_t lines = 0, want = (MANY - 3) / 7 + 1;
	int fd;

	migrating_log_new(0);
	fd = open(in_log("../bad"), O_RDWR | O_CREAT | O_APPEND, 0666);
	CHECK(fd >= 0);
	change_under_way(MANY, 3, 7, fd);
	CHECK_OK(run.rc, &run.error);
	CHECK_INT(run.result.set_aside, want);
	CHECK_INT(run.result.rows, MANY + 1 - want);
	log = open_log(SC_LOG_READ);
	CHECK_INT(check_forms(log), MANY + 1 - want);
	sc_log_close(log);
	/* unchanged, in order */
	sc_bytes_init(&bad, 16u << 20);
	CHECK_OK(sc_read_file(in_log("../bad"), &bad, &err), &err);
	for (size_t at = 0; at < bad.len; lines++) {
		char line[80];
		int n = snprintf(line, sizeof(line), "  {\"n\":%zu,\"old\":\"x\"}  \n",
				 3 + 7 * lines);

		CHECK(at + (size_t)n <= bad.len && !memcmp(bad.data + at, line, (size_t)n));
		at += (size_t)n;
	}
	CHECK_INT(lines, want);
	sc_bytes_done(&bad);
	close(fd);
	log_done();
}

/* Whoever may read log.json may read the next one. */
TEST(log_json_keeps_its_rights)
{
	struct stat st;
	struct sc_log *log;
	mode_t mask = umask(077);

	migrating_log_new(0);
	CHECK(chmod(in_log("log.json"), 0644) == 0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(migrate(log, NEW, NULL), &err);
	sc_log_close(log);
	CHECK(stat(in_log("log.json"), &st) == 0 && (st.st_mode & 0777) == 0644);
	umask(mask);
	log_done();
}

static void golden(const char *name, uint64_t rows, const char *hash)
{
	struct sc_log_proof proof;
	struct sc_log *log;
	uint64_t at = 0;

	golden_log(name);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, rows);
	CHECK_STR(proof.hash, hash);
	log = open_log(SC_LOG_APPEND);
	check_versions(log, "1:1o 2:121n 3:241o ");
	CHECK_INT(check_forms(log), rows);
	CHECK_INT(sc_log_source(log, SC_SPAN("up"), &at, &err), 1);
	CHECK_INT(at, 240);
	CHECK_OK(append_checked(log, 1, 5), &err);
	CHECK_INT(migrate(log, OLD, NULL), SC_E_CONFIG); /* n could be null */
	CHECK_STR(err.reason, "column 'n' could be null so far and cannot be made required: rows "
			      "with null are stored");
	sc_log_close(log);
	log_done();
}

TEST(golden_logs_of_format_2)
{
	golden("log-2", 250, "c2b51808630beb130e4b7e31874b1678");
	golden("log-2-sealed", 255, "968911734b8adaa44f5736707cbab474");
}
