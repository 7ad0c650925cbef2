/*
 * ship_test: rows of journals in the archive. Goal: each row that was on disk when a ship ended is
 * in the archive, once, in its bytes; what segments cover goes; the number of objects is bounded;
 * damage and holes are named; whoever was replaced cannot harm. Method: an archive in a folder,
 * ships between appends and seals, killed or failed at each of their calls.
 */
// run: limit 400
#include <sys/mman.h>

#include "archive_help.h"
#include "die.h"

#include "base/clock.h"
#include "log/log_internal.h"

static void check_reads(uint64_t to)
{
	struct sc_bytes got;

	sc_bytes_init(&got, 1u << 26);
	for (uint64_t from = 1; from <= to + 1; from += 23) {
		CHECK_OK(read_archive(from, from % 2 ? 0 : 64, &got), &err);
		expect_rows(&got, from, to);
	}
	sc_bytes_done(&got);
}

TEST(shipped_and_read)
{
	struct sc_archive *archive = NULL;
	struct sc_log_proof live, kept;
	struct sc_archive_state state;

	begin(4096);
	CHECK_OK(grow(log_path, 1, 160, 7), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(objects("journal"), 2); /* a piece for each journal */
	check_reads(160);                 /* also before the first push */
	CHECK_OK(work_on(log_path, &push_ship), &err);
	check_reads(160);
	CHECK_OK(grow(log_path, 161, 340, 7), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	check_reads(340);
	state = archive_now();
	CHECK_INT(state.first_offset, 1);
	CHECK_INT(state.next_offset, 341);
	CHECK_INT(state.segments, 0);
	CHECK(state.shipped > 2);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &live, &err), &err);
	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_OK(sc_archive_verify(archive, 1, 341, &kept, &err), &err);
	CHECK_STR(kept.hash, live.hash);
	CHECK_INT(kept.rows, 340);
	CHECK(kept.journals > 2);
	sc_archive_close(archive);
	/* sealed and pushed: they go, but for what is in no segment */
	CHECK_OK(grow(log_path, 341, 400, 7), &err);
	CHECK_OK(work_on(log_path, &(struct work){ .ship = true }), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_INT(objects("journal"), 0);
	CHECK_OK(grow(log_path, 401, 450, 7), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(objects("journal"), 1);
	check_reads(450);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(objects("journal"), 1); /* nothing new */
	log_done();
}

TEST(times)
{
	begin(4096);
	CHECK_OK(grow(log_path, 1, 300, 10), &err);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_OK(grow(log_path, 301, 600, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	check_times(601);
	log_done();
}

/* What moves from what was shipped into segments while somebody reads. */
TEST(rows_move_under_a_reader)
{
	struct sc_archive *archive = NULL;
	struct sc_archive_reader *reader = NULL;
	struct sc_run run;
	struct sc_bytes got, want;
	int rc;

	sc_bytes_init(&got, 1u << 26);
	sc_bytes_init(&want, 1u << 26);
	begin(4096);
	CHECK_OK(grow(log_path, 1, 500, 10), &err);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	for (int stop = 1; stop < 60; stop += 4) {
		int n = 0;

		sc_bytes_clear(&got);
		CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
		CHECK_OK(sc_archive_reader_open(archive, 0, &reader, &err), &err);
		while ((rc = sc_archive_reader_next(reader, 0, &run, &err)) == 1) {
			sc_bytes_put(&got, run.lines.data, run.lines.len);
			if (++n != stop)
				continue;
			CHECK_OK(grow(log_path, 501 + 10 * (uint64_t)stop,
				      510 + 10 * (uint64_t)stop, 10),
				 &err);
			CHECK_OK(work_on(log_path, stop % 8 == 1 ? &seal_push : &push_ship), &err);
		}
		CHECK_OK(rc, &err);
		CHECK(got.len > 0);
		/* once more: with what came meanwhile */
		CHECK_OK(sc_archive_refresh(archive, &err), &err);
		while ((rc = sc_archive_reader_next(reader, 0, &run, &err)) == 1)
			sc_bytes_put(&got, run.lines.data, run.lines.len);
		CHECK_OK(rc, &err);
		CHECK_OK(read_archive(1, 0, &want), &err);
		same_bytes(&got, &want);
		sc_archive_reader_close(reader);
		sc_archive_close(archive);
	}
	sc_bytes_done(&got);
	sc_bytes_done(&want);
	log_done();
}

/* One object a ship; many small ones become one. */
TEST(bounded)
{
	begin(1 << 20);
	CHECK_OK(grow(log_path, 1, 10, 10), &err);
	CHECK_OK(work_on(log_path,
			 &(struct work){ .push = true, .ship = true, .ships = 250, .row = 11 }),
		 &err);
	CHECK_INT(objects("journal"), 251);
	CHECK_OK(work_on(log_path, &(struct work){ .ships = 300, .row = 261 }), &err);
	CHECK(objects("journal") < 257);
	check_reads(560);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_INT(objects("journal"), 0);
	log_done();
}

/* Rows that were sealed before they could be shipped: until their segment is pushed nothing is
 * shipped beyond them. */
TEST(no_hole)
{
	begin(4096);
	CHECK_OK(grow(log_path, 1, 50, 10), &err);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	CHECK_OK(grow(log_path, 51, 100, 10), &err);
	CHECK_OK(work_on(log_path, &(struct work){ .seal = true }), &err);
	CHECK_OK(grow(log_path, 101, 150, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(archive_now().next_offset, 51);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	check_reads(150);
	/* but where they were shipped before, the segment is not waited for */
	CHECK_OK(work_on(log_path, &(struct work){ .seal = true }), &err);
	CHECK_OK(grow(log_path, 151, 200, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	check_reads(200);
	log_done();
}

static void check_damage(uint64_t good)
{
	char field[60];
	struct sc_bytes got;

	sc_bytes_init(&got, 1u << 26);
	CHECK_INT(read_archive(1, 0, &got), SC_E_DATA);
	expect_rows(&got, 1, good);
	snprintf(field, sizeof(field), "\"last_good\":%llu", (unsigned long long)good);
	CHECK(strstr(err.fields, field) && strstr(err.fields, "\"file\":"));
	sc_bytes_done(&got);
}

TEST(damage_is_named)
{
	char path[NAME_MAX + 720];
	struct sc_bytes out;

	sc_bytes_init(&out, 1u << 26);
	begin(4096);
	CHECK_OK(grow(log_path, 1, 50, 10), &err);
	CHECK_OK(work_on(log_path, &(struct work){ .seal = true, .push = true }), &err);
	for (uint64_t i = 51; i <= 90; i += 10) {
		CHECK_OK(grow(log_path, i, i + 9, 10), &err);
		CHECK_OK(work_on(log_path, &ship_only), &err);
	}
	CHECK_INT(objects("journal"), 4);
	snprintf(path, sizeof(path), "%s", object("journal", 1));
	flip(path, -3); /* in a line */
	check_damage(60);
	flip(path, -3);
	flip(path, 30); /* the hash of the one before */
	check_damage(60);
	flip(path, 30);
	CHECK(truncate(path, 100) == 0);
	check_damage(60);
	CHECK(unlink(path) == 0);
	check_damage(60);
	CHECK_INT(read_archive(65, 0, &out), SC_E_DATA); /* a start in the hole is no other start */
	CHECK_OK(read_archive(71, 0, &out), &err);
	/* it is shipped again */
	CHECK_OK(work_on(log_path, &ship_only), &err);
	check_reads(90);
	/* garbage under a name of ours is read as damage, and never as rows */
	snprintf(path, sizeof(path), "%s", object("journal", 0));
	CHECK(truncate(path, 0) == 0);
	check_damage(50);
	sc_bytes_done(&out);
	log_done();
}

/* Killed between a merge and the removal of what it holds: the next run sweeps. */
TEST(what_others_cover_goes)
{
	char path[NAME_MAX + 720], copy[900];

	begin(1 << 20);
	CHECK_OK(grow(log_path, 1, 10, 10), &err);
	CHECK_OK(work_on(log_path,
			 &(struct work){ .push = true, .ship = true, .ships = 20, .row = 11 }),
		 &err);
	snprintf(path, sizeof(path), "%s", object("journal", 3));
	snprintf(copy, sizeof(copy), "%s/kept", log_dir);
	copy_file(path, copy);
	CHECK_OK(work_on(log_path, &(struct work){ .ships = 260, .row = 31 }), &err);
	copy_file(copy, path);
	check_reads(290);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	CHECK(access(path, F_OK) < 0);
	check_reads(290);
	log_done();
}

TEST(an_archive_is_seized)
{
	char other[500], path[600];
	struct sc_log_settings settings = { .journal_bytes = 4096 };

	begin(4096);
	CHECK_OK(grow(log_path, 1, 200, 10), &err);
	CHECK_OK(work_on(log_path, &(struct work){ .seal = true, .push = true, .ship = true }),
		 &err);
	CHECK_OK(grow(log_path, 201, 220, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK(unlink(in_log("archive.json")) == 0);
	CHECK_INT(work_on(log_path, &ship_only), SC_E_NOAUTH);
	CHECK(strstr(err.next, "--take-over"));
	CHECK_OK(work_on(log_path, &(struct work){ .seize = true, .ship = true }), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	/* a copy that has not all of it may not */
	snprintf(other, sizeof(other), "%s/other", log_dir);
	CHECK(mkdir(other, 0777) == 0);
	snprintf(path, sizeof(path), "%s/trades", other);
	copy_tree(log_path, path);
	CHECK_OK(grow(log_path, 221, 240, 10), &err);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	CHECK_INT(work_on(path, &(struct work){ .seize = true }), SC_E_REFUSED);
	CHECK(strstr(err.next, "restore"));
	/* nor one that went another way */
	CHECK_OK(grow(path, 1, 100, 10), &err);
	CHECK_INT(work_on(path, &(struct work){ .seize = true }), SC_E_DATA);
	CHECK(strstr(err.reason, "other rows"));
	/* nor another stream */
	copy_tree("/dev/null", path);
	CHECK(unlink(path) == 0);
	CHECK_OK(sc_log_create(path, &settings, &err), &err);
	CHECK_INT(work_on(path, &(struct work){ .seize = true }), SC_E_CONFIG);
	CHECK_OK(work_on(log_path, &ship_only), &err);
	log_done();
}

/* --- killed and failed ----------------------------------------------------------------------- */

/* What the child got done, seen also when it is killed. */
static struct {
	uint64_t appended, shipped;
} * seen;

static int life(void)
{
	static const struct work steps[] = {
		{ .push = true, .ship = true },
		{ .ship = true },
		{ .seal = true, .push = true, .ship = true },
		{ .ship = true },
		{ .push = true, .ship = true },
		{ .seal = true, .push = true },
	};
	int rc = 0;

	counting = true;
	for (size_t i = 0; rc == 0 && i < sizeof(steps) / sizeof(steps[0]); i++) {
		uint64_t next = seen->appended + 1;

		rc = grow(log_path, next, next + 29, 10);
		if (rc == 0)
			seen->appended = next + 29;
		if (rc == 0)
			rc = work_on(log_path, &steps[i]);
		if (rc == 0)
			seen->shipped = seen->appended;
	}
	counting = false;
	return rc;
}

/* The archive, if there is one by now, is whole and in order, and has what was shipped. */
static void check_archive(uint64_t at_least)
{
	struct sc_archive_state state;
	struct sc_bytes got;

	if (access(shelved("log.json"), F_OK) < 0) {
		CHECK_INT(at_least, 0);
		return;
	}
	sc_bytes_init(&got, 1u << 26);
	state = archive_now();
	CHECK(state.next_offset > at_least);
	CHECK_OK(read_archive(0, 0, &got), &err);
	expect_rows(&got, 1, state.next_offset - 1);
	sc_bytes_done(&got);
}

static void nothing_yet(void)
{
	begin(2048 + 2048);
	memset(seen, 0, sizeof(*seen));
}

static void check_left(bool through)
{
	struct sc_log_state state;
	struct sc_log *log;

	(void)through;
	check_archive(seen->shipped);
	CHECK_OK(work_on(log_path, &push_ship), &err);
	log = open_log(SC_LOG_READ);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK(state.last_offset >= seen->appended);
	sc_log_close(log);
	check_archive(state.last_offset);
	CHECK_OK(work_on(log_path, &seal_push), &err);
	CHECK_INT(objects("journal"), 0);
	check_archive(state.last_offset);
	log_done();
}

static void every_call(enum how h)
{
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(seen != MAP_FAILED);
	each_call(h, h == TEAR ? 50 : 200, nothing_yet, life, check_left);
	munmap(seen, sizeof(*seen));
}

static int ship_one_more(void)
{
	int rc;

	counting = true;
	rc = work_on(log_path, &(struct work){ .ships = 1, .row = 266 });
	counting = false;
	return rc;
}

/* Many small objects become one: the one is there before they go. */
TEST(dies_while_objects_are_merged)
{
	static char log_kept[300], shelf_kept[300];
	static long nth; /* static: longjmp leaves them alone */
	static bool through;

	begin(1 << 20);
	CHECK_OK(grow(log_path, 1, 10, 10), &err);
	CHECK_OK(work_on(log_path,
			 &(struct work){ .push = true, .ship = true, .ships = 255, .row = 11 }),
		 &err);
	CHECK_INT(objects("journal"), 256);
	snprintf(log_kept, sizeof(log_kept), "%s/log", log_dir);
	snprintf(shelf_kept, sizeof(shelf_kept), "%s/archive", log_dir);
	copy_tree(log_path, log_kept);
	copy_tree(shelf, shelf_kept);
	/* when some of them went, more of the same follows */
	for (nth = 1, through = false; !through; nth += nth < 40 ? 1 : 41) {
		copy_tree(log_kept, log_path);
		copy_tree(shelf_kept, shelf);
		through = !dies_at(DIE, nth, ship_one_more);
		check_archive(265);
		CHECK_OK(work_on(log_path, &push_ship), &err);
		check_archive(through ? 266 : 265);
		CHECK(objects("journal") < 257);
	}
	CHECK(nth > 256);
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
