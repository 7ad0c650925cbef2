/*
 * history_test: a log and its archive as one sequence. Goal: whatever moves from the log to the
 * archive, or out of it, while it is read, every row comes once, in order, in its own bytes; a gap
 * is refused with its numbers. Method: an archive in a folder; readers and proofs between the steps
 * of appends, seals, uploads and removals, in every order that a few fixed numbers give.
 */
#include <sys/syscall.h>

#include "help.h"

#include "log/history.h"
#include "log/restore.h"

/* At the so manyth read of a file something happens; 0: nothing. */
static long reads_left;
static void (*at_read)(void);

static ssize_t count_read(int fd, void *data, size_t len, off_t at)
{
	if (reads_left && --reads_left == 0)
		at_read();
	return syscall(SYS_pread64, fd, data, len, at);
}

ssize_t pread(int fd, void *data, size_t len, off_t at)
{
	return count_read(fd, data, len, at);
}

ssize_t pread64(int fd, void *data, size_t len, off64_t at)
{
	return count_read(fd, data, len, at);
}

static char shelf[300], folder_url[320], archive_url[340];
static uint64_t rows; /* appended */

static void grow(size_t count)
{
	struct sc_log *log = open_log(SC_LOG_APPEND);
	const size_t commit = count >= 1000 ? 50 : 10;

	for (size_t i = 0; i < count; i += commit)
		CHECK_OK(append_n(log, rows + 1 + i, commit, NULL), &err);
	rows += count;
	sc_log_close(log);
}

/* Rows that are in no segment come to the archive too. */
static void ship(void)
{
	struct sc_archive_options options = { .arg = NULL };
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_archive *archive = NULL;
	struct sc_seal *s = NULL;

	CHECK_OK(sc_seal_open(log, false, &s, &err), &err);
	CHECK_OK(sc_archive_open_log(log, folder_url, NULL, false, &archive, &err), &err);
	CHECK_OK(sc_archive_ship(archive, &options, &err), &err);
	sc_archive_close(archive);
	sc_seal_close(s);
	sc_log_close(log);
}

/* What a run of sc-seal does: each part of it or not. BEFORE: segments below it go from the log. */
static void run_seal(bool seal, bool push, uint64_t before)
{
	struct sc_seal_options o = { .force = true, .target = 4096 };
	struct sc_archive_options options = { .arg = NULL };
	struct sc_log *log = open_log(SC_LOG_APPEND);
	struct sc_archive *archive = NULL;
	struct sc_seal *s = NULL;

	CHECK_OK(sc_seal_open(log, false, &s, &err), &err);
	if (seal)
		CHECK_OK(sc_seal_run(s, &o, &err), &err);
	if (push) {
		CHECK_OK(sc_archive_open_log(log, folder_url, NULL, false, &archive, &err), &err);
		CHECK_OK(sc_archive_push(archive, &options, &err), &err);
		sc_archive_close(archive);
	}
	if (before)
		CHECK_OK(sc_seal_remove(s, before, &o, &err), &err);
	sc_seal_close(s);
	sc_log_close(log);
}

static uint64_t held_from(void)
{
	struct sc_log *log = open_log(SC_LOG_READ);
	struct sc_log_state state;

	CHECK_OK(sc_log_state(log, &state, &err), &err);
	sc_log_close(log);
	return state.first_offset;
}

static void begin(void)
{
	log_new(4096);
	rows = 0;
	snprintf(shelf, sizeof(shelf), "%s/shelf", log_dir);
	CHECK(mkdir(shelf, 0777) == 0);
	snprintf(folder_url, sizeof(folder_url), "file://%s", shelf);
	snprintf(archive_url, sizeof(archive_url), "file://%s/trades", shelf);
}

static struct sc_history *open_history(const char *archive)
{
	struct sc_history *h = NULL;

	CHECK_OK(sc_history_open(log_path, archive, NULL, &h, &err), &err);
	return h;
}

/* One run, which must begin with row AT: the row after it, or AT again at the end. */
static uint64_t step(struct sc_history *h, uint64_t at, size_t max)
{
	struct sc_bytes want;
	struct sc_run run;
	int rc = sc_history_next(h, max, &run, &err);

	CHECK_OK(rc, &err);
	if (rc == 0)
		return at;
	CHECK_INT(run.first, at);
	CHECK_INT(run.rows, run.last - run.first + 1);
	sc_bytes_init(&want, 1u << 24);
	want_lines(run.first, run.last, &want);
	CHECK(want.len == run.lines.len && memcmp(want.data, run.lines.data, want.len) == 0);
	sc_bytes_done(&want);
	CHECK_INT(sc_history_offset(h), run.last + 1);
	return run.last + 1;
}

static void expect_all(struct sc_history *h, uint64_t from)
{
	uint64_t at = from, next;

	CHECK_OK(sc_history_begin(h, from, UINT64_MAX, &err), &err);
	while ((next = step(h, at, 0)) != at)
		at = next;
	CHECK_INT(at, rows + 1);
}

TEST(wherever_it_begins)
{
	struct sc_history *h;
	struct sc_log_proof proof;
	uint64_t floor, from, end, first, next;
	const struct sc_range all = { .from_given = false };

	begin();
	grow(3000);
	run_seal(true, true, 1500);
	grow(500);
	floor = held_from();
	CHECK(floor > 500 && floor <= 1500);
	h = open_history(SC_HISTORY_NOTED);
	CHECK_OK(sc_history_range(h, &all, false, &from, &end, &err), &err);
	CHECK_INT(from, 1);
	CHECK_INT(end, 3501);
	for (uint64_t at = 1; at <= 3501; at += 50)
		expect_all(h, at);
	for (uint64_t at = floor - 2; at <= floor + 2; at++)
		expect_all(h, at);
	CHECK_OK(sc_history_verify(h, 1, 3501, &proof, &err), &err);
	CHECK_INT(proof.rows, 3500);
	CHECK_INT(proof.first, 1);
	CHECK_INT(proof.last, 3500);
	CHECK_OK(sc_history_bounds(h, &first, &next, &err), &err);
	CHECK(first == 1 && next == 3501);
	CHECK_INT(sc_history_begin(h, 3502, UINT64_MAX, &err), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"ahead\""));
	sc_history_close(h);
	h = open_history(SC_HISTORY_NONE);
	CHECK_INT(sc_history_begin(h, 1, UINT64_MAX, &err), SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"evicted\""));
	CHECK_OK(sc_history_begin(h, 0, UINT64_MAX, &err), &err);
	CHECK_INT(sc_history_offset(h), floor);
	sc_history_close(h);
	for (int i = 0; i < 2; i++) { /* the archive, or the folder where it is */
		h = open_history(i ? folder_url : archive_url);
		expect_all(h, 1);
		sc_history_close(h);
	}
	CHECK_OK(sc_history_open(archive_url, NULL, NULL, &h, &err), &err);
	CHECK(!sc_history_log(h));
	CHECK_OK(sc_history_begin(h, 0, UINT64_MAX, &err), &err);
	CHECK_INT(step(h, 1, 1), 2);
	sc_history_close(h);
	log_done();
}

/* The archive is asked for only when the log does not hold what is wanted. */
TEST(an_archive_that_is_not_needed_is_not_looked_for)
{
	struct sc_history *h = NULL;
	char away[320];

	begin();
	grow(2000);
	run_seal(true, true, 1000);
	snprintf(away, sizeof(away), "%s.away", shelf);
	CHECK(rename(shelf, away) == 0);
	h = open_history(SC_HISTORY_NOTED);
	expect_all(h, held_from());
	CHECK_INT(sc_history_begin(h, 1, UINT64_MAX, &err), SC_E_NOLOG);
	CHECK_INT(sc_history_begin(h, 0, UINT64_MAX, &err), SC_E_NOLOG);
	CHECK(rename(away, shelf) == 0);
	expect_all(h, 1);
	sc_history_close(h);
	log_done();
}

TEST(a_gap_is_refused_with_both_numbers)
{
	struct sc_history *h;
	struct sc_log_proof proof;
	char want[100];
	uint64_t end, floor;

	begin();
	grow(1000);
	run_seal(true, true, 0);
	end = rows + 1;
	grow(1000);
	run_seal(true, false, 1500); /* was not archived */
	floor = held_from();
	CHECK(floor > end);
	h = open_history(SC_HISTORY_NOTED);
	snprintf(want, sizeof(want), "\"why\":\"gap\",\"first\":%llu,\"last\":%llu",
		 (unsigned long long)end, (unsigned long long)floor - 1);
	for (uint64_t from = 0; from < floor; from += from ? 100 : 1) {
		CHECK_INT(sc_history_begin(h, from, rows + 1, &err), SC_E_REFUSED);
		CHECK(strstr(err.fields, want));
		CHECK_INT(sc_history_verify(h, from ? from : 1, rows + 1, &proof, &err),
			  SC_E_REFUSED);
	}
	expect_all(h, floor);
	CHECK_OK(sc_history_begin(h, 1, end, &err), &err);
	for (uint64_t at = 1; at < end;)
		at = step(h, at, 0);
	CHECK_OK(sc_history_verify(h, 1, end, &proof, &err), &err);
	CHECK_INT(proof.rows, 1000);
	CHECK_OK(sc_history_verify(h, floor, rows + 1, &proof, &err), &err);
	sc_history_close(h);
	log_done();
}

/* Offsets that were left out on purpose lie between what the two hold. */
TEST(offsets_that_were_never_given_are_no_gap)
{
	const uint32_t len = 7;
	const uint64_t offset = 100000;
	const struct sc_log_rows row = {
		.text = sc_span("{\"n\":9}", 7), .lens = &len, .offsets = &offset, .count = 1
	};
	struct sc_history *h;
	struct sc_log_commit commit;
	struct sc_log *log;
	struct sc_run run;
	uint64_t at = 1;

	begin();
	grow(1000);
	run_seal(true, true, 0);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_log_append(log, &row, &commit, &err), &err);
	sc_log_close(log);
	run_seal(true, false, 0);
	run_seal(false, false, 100000);
	CHECK_INT(held_from(), 100000);
	h = open_history(SC_HISTORY_NOTED);
	CHECK_OK(sc_history_begin(h, 1, UINT64_MAX, &err), &err);
	while (at <= 1000)
		at = step(h, at, 0);
	CHECK_INT(sc_history_next(h, 0, &run, &err), 1);
	CHECK_INT(run.first, 100000);
	CHECK_INT(sc_history_next(h, 0, &run, &err), 0);
	CHECK_OK(sc_history_begin(h, 5000, UINT64_MAX, &err), &err);
	CHECK_INT(sc_history_next(h, 0, &run, &err), 1);
	CHECK_INT(run.first, 100000);
	sc_history_close(h);
	log_done();
}

/* The last N rows, wherever they are: in the log, in segments of the archive, in what was shipped. */
TEST(so_many_rows_before_the_end)
{
	struct sc_history *h;
	uint64_t from;

	begin();
	grow(2000);
	run_seal(true, true, 0);
	grow(300);
	ship();
	run_seal(true, false, 2200);
	grow(200);
	CHECK(held_from() > 2000);
	h = open_history(SC_HISTORY_NOTED);
	for (uint64_t n = 1; n < 2600; n += n < 600 ? 7 : 77) {
		CHECK_OK(sc_history_last(h, n, &from, &err), &err);
		CHECK_INT(from, n < 2500 ? 2501 - n : 1);
	}
	expect_all(h, 1);
	expect_all(h, 2100);
	sc_history_close(h);
	log_done();
}

/* The machine was lost: its successor's offsets begin far above, and none was given between. */
TEST(a_restored_log_is_no_gap)
{
	const struct sc_restore_options o = { .arg = NULL };
	struct sc_restore_report report;
	struct sc_history *h;
	struct sc_log_proof proof;
	struct sc_log *log;
	struct sc_run run;
	uint64_t first, next, at = 1;

	begin();
	grow(1000);
	run_seal(true, true, 0);
	grow(100);
	ship();
	remove_tree(log_path);
	CHECK_OK(sc_log_restore(log_path, folder_url, &o, &report, &err), &err);
	log = open_log(SC_LOG_APPEND);
	CHECK_OK(append_n(log, 1, 10, NULL), &err);
	sc_log_close(log);
	for (int i = 0; i < 3; i++) { /* the archive is read up to the jump; then behind it, too */
		if (i == 1)
			run_seal(true, true, UINT32_MAX);
		if (i == 2)
			grow(10);
		h = open_history(SC_HISTORY_NOTED);
		CHECK_OK(sc_history_bounds(h, &first, &next, &err), &err);
		CHECK_OK(sc_history_begin(h, 1, UINT64_MAX, &err), &err);
		for (at = 1; at <= 1100;)
			at = step(h, at, 0);
		CHECK_INT(sc_history_next(h, 0, &run, &err), 1);
		CHECK(run.first > 1u << 20);
		while (run.last + 1 < next)
			CHECK_INT(sc_history_next(h, 0, &run, &err), 1);
		CHECK_INT(sc_history_next(h, 0, &run, &err), 0);
		CHECK_OK(sc_history_begin(h, 5000, UINT64_MAX, &err), &err);
		CHECK_INT(sc_history_next(h, 0, &run, &err), 1);
		CHECK(run.first > 1u << 20);
		CHECK_OK(sc_history_verify(h, 1, next, &proof, &err), &err);
		CHECK_INT(proof.rows, 1110 + (i == 2 ? 10 : 0));
		sc_history_close(h);
	}
	log_done();
}

TEST(another_logs_archive_is_refused)
{
	struct sc_history *h = NULL;
	char other[400];

	begin();
	grow(1000);
	run_seal(true, true, 500);
	snprintf(other, sizeof(other), "%s/trades/log.json", shelf);
	copy_file(in_log("log.json"), other);
	h = open_history(SC_HISTORY_NOTED);
	expect_all(h, 1);
	sc_history_close(h);
	{
		FILE *f = fopen(other, "w");

		CHECK(f);
		fprintf(f, "{\"format\":1,\"stream_id\":\"00000000-0000-4000-8000-000000000000\"}");
		fclose(f);
	}
	h = open_history(SC_HISTORY_NOTED);
	CHECK_INT(sc_history_begin(h, 1, UINT64_MAX, &err), SC_E_CONFIG);
	sc_history_close(h);
	log_done();
}

static void give_up_half(void)
{
	run_seal(false, true, 2000);
}

/* At any read of it, half of what is proved goes from the log to the archive. */
TEST(retention_under_a_proof)
{
	struct sc_log_proof proof;
	struct sc_history *h;
	char want_hash[33];
	bool fired = true;

	for (long n = 1; fired; n += n < 8 ? 1 : 9) {
		begin();
		grow(3000);
		CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
		memcpy(want_hash, proof.hash, sizeof(want_hash));
		run_seal(true, true, 1000);
		h = open_history(SC_HISTORY_NOTED);
		at_read = give_up_half;
		reads_left = n;
		CHECK_OK(sc_history_verify(h, 1, 3001, &proof, &err), &err);
		fired = reads_left == 0;
		reads_left = 0;
		CHECK_INT(proof.rows, 3000);
		CHECK_INT(proof.first, 1);
		CHECK_INT(proof.last, 3000);
		CHECK_SPAN(sc_span_str(proof.hash), want_hash);
		sc_history_close(h);
		log_done();
	}
}

#define READERS 4

static uint64_t dice;

static uint64_t throw(uint64_t below)
{
	dice = dice * 6364136223846793005u + 1442695040888963407u;
	return (dice >> 33) % below;
}

/* One thing that happens to a log. */
static void happen(void)
{
	switch (throw(7)) {
	case 0:
	case 1:
		grow(10 * (1 + throw(30)));
		break;
	case 2:
		run_seal(true, false, 0);
		break;
	case 3:
		run_seal(throw(2), true, 0);
		break;
	case 4:
		ship();
		break;
	default: /* what was archived may go */
		run_seal(false, true, 1 + throw(rows + 1));
	}
}

static void live_through(uint64_t seed)
{
	struct sc_history *readers[READERS];
	struct sc_log_proof proof;
	uint64_t at[READERS];

	begin();
	dice = seed;
	grow(10);
	for (size_t i = 0; i < READERS; i++) {
		readers[i] = open_history(folder_url);
		at[i] = 1;
		CHECK_OK(sc_history_begin(readers[i], 1, UINT64_MAX, &err), &err);
	}
	for (int turn = 0; turn < 60; turn++) {
		size_t i = throw(READERS);

		happen();
		for (uint64_t n = throw(60); n > 0; n--)
			at[i] = step(readers[i], at[i], throw(2) ? 0 : 1 + throw(3000));
		if (turn % 10 == 0) {
			at[i] = 1 + throw(rows);
			CHECK_OK(sc_history_begin(readers[i], at[i], UINT64_MAX, &err), &err);
		}
	}
	for (size_t i = 0; i < READERS; i++) {
		uint64_t next;

		while ((next = step(readers[i], at[i], 0)) != at[i])
			at[i] = next;
		CHECK_INT(at[i], rows + 1);
		CHECK_OK(sc_history_verify(readers[i], 1, rows + 1, &proof, &err), &err);
		CHECK_INT(proof.rows, rows);
		sc_history_close(readers[i]);
	}
	log_done();
}

TEST(rows_move_under_readers)
{
	for (uint64_t seed = 1; seed <= 12; seed++)
		live_through(seed);
}
