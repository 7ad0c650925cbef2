/*
 * seal_test: journals into segments, compaction, removal. Goal: whatever is sealed, compacted,
 * trimmed, reopened or rebuilt, and in whatever order, the log reads back byte for byte, its
 * counters and its proof stay, and files that hold nothing are gone. Method: a model of the rows
 * beside a log with tiny journals; random steps; every reader compared with the model.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "help.h"

#include "base/clock.h"
#include "json/line.h"
#include "log/log_internal.h"
#include "log/seal.h"

static size_t count_files(const char *folder)
{
	DIR *dir = opendir(in_log(folder));
	struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.' || entry->d_name[1] == 's';
	if (dir)
		closedir(dir);
	return n;
}

static void append_all(struct sc_log *log, uint64_t from, uint64_t to)
{
	for (uint64_t i = from; i <= to; i += 3)
		CHECK_OK(append_n(log, i, i + 2 <= to ? 3 : to - i + 1, NULL), &err);
}

static struct sc_seal_report run(struct sc_log *log, struct sc_seal_options o, bool compact)
{
	struct sc_seal_report report;
	struct sc_seal *seal = NULL;

	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(compact ? sc_seal_compact(seal, &o, &err) : sc_seal_run(seal, &o, &err), &err);
	sc_seal_report(seal, &report);
	sc_seal_close(seal);
	return report;
}

static void check_state(struct sc_log *log, uint64_t first, uint64_t next)
{
	struct sc_log_state state;

	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.first_offset, first);
	CHECK_INT(state.next_offset, next);
	CHECK_INT(state.rows, next - first);
	CHECK_INT(state.journals, count_files("journal"));
	CHECK_INT(state.segments, count_files("sealed"));
}

TEST(seal_and_read)
{
	struct sc_log *log, *other;
	struct sc_log_proof before, after;
	struct sc_seal_report r;
	struct sc_log_state state;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	append_all(log, 1, 900);
	other = open_log(SC_LOG_READ);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &before, &err), &err);
	/* without age or force: groups of the target, a rest of less than half waits */
	r = run(log, (struct sc_seal_options){ .target = 8 << 10 }, false);
	CHECK(r.sealed >= 2 && r.sealed_from > r.sealed && !r.rotated);
	check_holds(log, 1, 900);
	check_holds(other, 1, 900);
	CHECK_OK(sc_log_verify(log_path, 0, 0, &after, &err), &err);
	CHECK_STR(after.hash, before.hash);
	CHECK_INT(after.rows, 900);
	CHECK_INT(after.segments, r.sealed);
	CHECK_INT(after.orphans, 0);
	check_state(log, 1, 901);
	/* nothing more of that size */
	r = run(log, (struct sc_seal_options){ .target = 8 << 10 }, false);
	CHECK_INT(r.sealed, 0);
	/* all of it */
	r = run(log, (struct sc_seal_options){ .target = 8 << 10, .force = true }, false);
	CHECK(r.sealed >= 1 && r.rotated);
	CHECK_OK(sc_log_state(other, &state, &err), &err);
	CHECK_INT(state.sealed_next, 901);
	CHECK_INT(state.sealed_rows, 900);
	CHECK_INT(state.sealed_bytes, state.bytes);
	CHECK_INT(state.journals, 1);
	check_holds(other, 1, 900);
	/* and again: there is nothing */
	r = run(log, (struct sc_seal_options){ .force = true }, false);
	CHECK_INT(r.sealed + r.rotated, 0);
	append_all(log, 901, 910);
	for (uint64_t from = 1; from <= 910; from += 7) {
		uint64_t rows;

		check_holds(other, from, 910);
		CHECK_OK(sc_log_count_from(other, from, &rows, &err), &err);
		CHECK_INT(rows, 911 - from);
	}
	drop_index();
	check_holds(other, 1, 910);
	check_state(log, 1, 911);
	CHECK_OK(sc_log_verify(log_path, 100, 199, &before, &err), &err);
	CHECK_INT(before.rows, 100);
	CHECK_INT(before.first, 100);
	CHECK_OK(sc_log_reindex(log_path, &err), &err);
	check_state(log, 1, 911);
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

struct steps {
	struct sc_seal_step items[64];
	struct sc_sealed segments[64];
	size_t count;
};

static void note_step(void *arg, const struct sc_seal_step *step)
{
	struct steps *s = arg;

	if (s->count == 64)
		return;
	s->items[s->count] = *step;
	s->segments[s->count++] = *step->segment;
}

static void same_steps(const struct steps *a, const struct steps *b)
{
	CHECK_INT(a->count, b->count);
	CHECK(a->count > 0);
	for (size_t i = 0; i < a->count; i++) {
		struct sc_sealed x = a->segments[i], y = b->segments[i];

		CHECK_INT(a->items[i].act, b->items[i].act);
		CHECK_INT(a->items[i].from, b->items[i].from);
		CHECK_INT(x.first, y.first);
		CHECK_INT(x.last, y.last);
		CHECK_INT(x.next, y.next);
		CHECK_INT(x.rows, y.rows);
		CHECK_INT(x.bytes, y.bytes);
		CHECK_INT(x.rows_before, y.rows_before);
		CHECK_INT(x.first_us, y.first_us);
		CHECK_INT(x.last_us, y.last_us);
		if (a->items[i].act != SC_SEAL_REMOVED)
			CHECK(x.file_bytes == 0 && y.file_bytes > 0);
	}
}

/* A dry run says what is done then, and changes nothing. */
TEST(seal_dry_run_tells_all)
{
	struct sc_log *log;
	struct sc_seal *dry = NULL, *seal = NULL;
	struct steps told = { .count = 0 }, was = { .count = 0 };
	struct sc_seal_options o = {
		.target = 6 << 10, .force = true, .every = true, .step = note_step
	};

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	append_all(log, 1, 700);
	for (int round = 0; round < 3; round++) {
		size_t journals = count_files("journal"), segments = count_files("sealed");

		told.count = was.count = 0;
		CHECK_OK(sc_seal_open(log, true, &dry, &err), &err);
		o.arg = &told;
		o.target = round == 0 ? 6 << 10 : 64 << 10;
		CHECK_OK(round == 0   ? sc_seal_run(dry, &o, &err)
			 : round == 1 ? sc_seal_compact(dry, &o, &err)
				      : sc_seal_remove(dry, UINT64_MAX, &o, &err),
			 &err);
		sc_seal_close(dry);
		CHECK_INT(count_files("journal"), journals);
		CHECK_INT(count_files("sealed"), segments);
		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		o.arg = &was;
		CHECK_OK(round == 0   ? sc_seal_run(seal, &o, &err)
			 : round == 1 ? sc_seal_compact(seal, &o, &err)
				      : sc_seal_remove(seal, UINT64_MAX, &o, &err),
			 &err);
		sc_seal_close(seal);
		same_steps(&told, &was);
	}
	check_state(log, 701, 701);
	CHECK_OK(append_n(log, 701, 1, NULL), &err);
	drop_index();
	check_state(log, 701, 702);
	sc_log_close(log);
	log_done();
}

TEST(seal_by_age)
{
	struct sc_log *log;
	struct sc_seal_report r;
	struct sc_log_state state;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	append_all(log, 1, 30);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	r = run(log,
		(struct sc_seal_options){ .age_us = 1000000, .now_us = state.first_us + 999999 },
		false);
	CHECK_INT(r.sealed, 0);
	r = run(log,
		(struct sc_seal_options){ .age_us = 1000000, .now_us = state.first_us + 1000000 },
		false);
	CHECK_INT(r.sealed, 1);
	check_holds(log, 1, 30);
	r = run(log, (struct sc_seal_options){ .age_us = 1, .now_us = INT64_MAX }, false);
	CHECK_INT(r.sealed, 0);
	sc_log_close(log);
	log_done();
}

TEST(seal_lock_names_its_holder)
{
	struct sc_log *log, *other;
	struct sc_seal *seal = NULL, *second = NULL;
	char pid[40];

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	other = open_log(SC_LOG_APPEND);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_INT(sc_seal_open(other, false, &second, &err), SC_E_BUSY);
	snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
	CHECK(strstr(err.reason, pid) != NULL);
	CHECK(strstr(err.fields, "\"pid\":") != NULL);
	/* looking is free */
	CHECK_OK(sc_seal_open(other, true, &second, &err), &err);
	sc_seal_close(second);
	sc_seal_close(seal);
	CHECK_OK(sc_seal_open(other, false, &second, &err), &err);
	sc_seal_close(second);
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

/* Sources and producers outlive the journals that said them. */
TEST(seal_keeps_sources_and_producers)
{
	struct sc_log *log;
	struct sc_log_commit commit;
	uint32_t len = 1;
	struct sc_log_rows rows = { .text = SC_SPAN("1"), .lens = &len, .count = 1 };
	uint64_t at;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	rows.source = SC_SPAN("up");
	rows.source_offset = 41;
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	rows.source = SC_SPAN("");
	rows.producer = SC_SPAN("p");
	rows.producer_epoch = 3;
	rows.producer_seq = 7;
	CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
	for (int i = 0; i < 3; i++) {
		run(log, (struct sc_seal_options){ .force = true }, false);
		if (i == 1)
			CHECK_OK(sc_log_append(log,
					       &(struct sc_log_rows){ .text = SC_SPAN("2"),
								      .lens = &len,
								      .count = 1 },
					       &commit, &err),
				 &err);
		drop_index();
		CHECK_INT(sc_log_source(log, SC_SPAN("up"), &at, &err), 1);
		CHECK_INT(at, 41);
		rows.producer_seq = 7;
		CHECK_OK(sc_log_append(log, &rows, &commit, &err), &err);
		CHECK(commit.duplicate);
		CHECK_INT(commit.first, 2);
	}
	/* and the segment itself says them */
	{
		struct sc_tier *tier = NULL;
		struct sc_span rest;
		struct sc_ext ext;

		CHECK_OK(sc_tier_open(log, 1, 2, &tier, &err), &err);
		rest = sc_segment_info(tier->segment)->tie.checkpoint;
		CHECK(sc_ext_next(&rest, &ext) && ext.kind == SC_EXT_SOURCE &&
		      ext.source_offset == 41);
		CHECK(sc_ext_next(&rest, &ext) && ext.kind == SC_EXT_PRODUCER &&
		      ext.producer.seq_last == 7);
		CHECK(!sc_ext_next(&rest, &ext));
		sc_tier_close(tier);
	}
	sc_log_close(log);
	log_done();
}

/* Readers that stand anywhere while rows move under them. */
TEST(seal_under_readers)
{
	enum { READERS = 40 };
	struct sc_log *log, *other;
	struct sc_reader *readers[READERS];
	uint64_t next[READERS];
	struct sc_seal *seal = NULL;
	struct sc_seal_options o = { .target = 4 << 10, .force = true, .every = true };
	struct sc_run r;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	other = open_log(SC_LOG_READ);
	append_all(log, 1, 900);
	for (size_t i = 0; i < READERS; i++) {
		next[i] = 1 + i * 22;
		CHECK_OK(sc_reader_open(other, next[i], &readers[i], &err), &err);
	}
	for (int round = 0; round < 12; round++) {
		for (size_t i = 0; i < READERS; i++) {
			for (int n = 0; n < (int)(i % 5) * 8 + 1; n++) {
				int rc = sc_reader_next(readers[i], round % 2 ? 50 : 0, &r, &err);

				CHECK_OK(rc, &err);
				if (rc == 0)
					break;
				CHECK_INT(r.first, next[i]);
				next[i] = r.last + 1;
			}
		}
		append_all(log, 901 + (uint64_t)round * 30, 930 + (uint64_t)round * 30);
		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		CHECK_OK(round % 3 == 2 ? sc_seal_compact(seal, &o, &err)
					: sc_seal_run(seal, &o, &err),
			 &err);
		o.target = (4u << 10) << (round / 3);
		sc_seal_close(seal);
		if (round == 6)
			drop_index();
	}
	for (size_t i = 0; i < READERS; i++) {
		int rc;

		while ((rc = sc_reader_next(readers[i], 0, &r, &err)) == 1) {
			CHECK_INT(r.first, next[i]);
			next[i] = r.last + 1;
		}
		CHECK_OK(rc, &err);
		CHECK_INT(next[i], 901 + 12 * 30);
		sc_reader_close(readers[i]);
	}
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

TEST(removal_ends_readers_by_name)
{
	struct sc_log *log;
	struct sc_reader *reader = NULL;
	struct sc_seal *seal = NULL;
	struct sc_seal_options o = { .target = 4 << 10, .force = true };
	struct sc_log_state state;
	struct sc_run r;
	uint64_t next = 1;
	int rc;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	append_all(log, 1, 900);
	CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
	CHECK_OK(sc_seal_run(seal, &o, &err), &err);
	CHECK_OK(sc_reader_open(log, 0, &reader, &err), &err);
	CHECK_INT(sc_reader_next(reader, 60, &r, &err), 1);
	next = r.last + 1;
	CHECK_OK(sc_seal_remove(seal, 600, &o, &err), &err);
	sc_seal_close(seal);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK(state.first_offset > 300 && state.first_offset <= 600);
	check_state(log, state.first_offset, 901);
	while ((rc = sc_reader_next(reader, 0, &r, &err)) == 1) {
		CHECK_INT(r.first, next);
		next = r.last + 1;
	}
	CHECK_INT(rc, SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"evicted\"") && strstr(err.fields, "\"earliest\":"));
	CHECK(next < state.first_offset);
	sc_reader_close(reader);
	check_holds(log, state.first_offset, 900);
	drop_index();
	check_holds(log, state.first_offset, 900);
	CHECK_OK(append_n(log, 901, 1, NULL), &err);
	check_holds(log, state.first_offset, 901);
	sc_log_close(log);
	log_done();
}

TEST(keep_policies)
{
	struct sc_sealed s[5] = { { .file_bytes = 10, .last_us = 100 },
				  { .file_bytes = 10, .last_us = 200 },
				  { .file_bytes = 10, .last_us = 300 },
				  { .file_bytes = 10, .last_us = 400 },
				  { .file_bytes = 10, .last_us = 500 } };

	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .count = 0 }, s, 5, 1000), 0);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .count = 2 }, s, 5, 1000), 3);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .bytes = 30 }, s, 5, 1000), 2);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .bytes = 29 }, s, 5, 1000), 3);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .age_us = 600 }, s, 5, 1000), 3);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .age_us = 601, .count = 4 }, s, 5, 1000), 3);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .age_us = 1 }, s, 5, 1000), 5);
	CHECK_INT(sc_keep_drop(&(struct sc_keep){ .count = 9 }, s, 5, 1000), 0);
}

/* Many seals of few rows each: compaction copies each row a few times, not each time. */
TEST(compaction_is_not_eager)
{
	struct sc_log *log;
	struct sc_seal *seal = NULL;
	struct sc_seal_options o = { .target = 256 << 10, .force = true };
	struct sc_seal_report r = { .sealed = 0 };
	uint64_t copied = 0, bytes = 0;

	log_new(0);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 0; i < 150; i++) {
		append_all(log, i * 30 + 1, i * 30 + 30);
		CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
		CHECK_OK(sc_seal_run(seal, &o, &err), &err);
		CHECK_OK(sc_seal_compact(seal, &o, &err), &err);
		sc_seal_report(seal, &r);
		copied += r.compacted_bytes;
		bytes += r.sealed_bytes;
		sc_seal_close(seal);
	}
	CHECK(copied < 4 * bytes);
	CHECK(count_files("sealed") < 40);
	check_holds(log, 1, 4500);
	drop_index();
	check_holds(log, 1, 4500);
	sc_log_close(log);
	log_done();
}

static bool no_more(void *arg, uint64_t done, uint64_t total)
{
	uint64_t *calls = arg;

	CHECK(done <= total);
	return ++*calls < 250;
}

TEST(seal_can_be_stopped)
{
	struct sc_log *log;
	uint64_t calls = 0;
	struct sc_seal_report r;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	append_all(log, 1, 900);
	r = run(log,
		(struct sc_seal_options){
			.target = 8 << 10, .force = true, .progress = no_more, .arg = &calls },
		false);
	CHECK(r.sealed >= 1);
	check_state(log, 1, 901);
	check_holds(log, 1, 900);
	sc_log_close(log);
	log_done();
}

/* Times across tiers. */
TEST(find_by_time_across_tiers)
{
	struct sc_log *log;
	int64_t us[40];
	struct sc_log_commit commit;
	uint64_t at;

	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	for (uint64_t i = 0; i < 40; i++) {
		CHECK_OK(append_n(log, i * 20 + 1, 20, &commit), &err);
		us[i] = commit.appended_us;
		usleep(1200);
	}
	for (int round = 0; round < 4; round++) {
		for (uint64_t i = 0; i < 40; i++) {
			CHECK_OK(sc_log_offset_at(log, us[i], &at, &err), &err);
			CHECK_INT(at, i * 20 + 1);
			CHECK_OK(sc_log_offset_at(log, us[i] + 1, &at, &err), &err);
			CHECK_INT(at, (i + 1) * 20 + 1);
		}
		CHECK_OK(sc_log_offset_at(log, 0, &at, &err), &err);
		CHECK_INT(at, 1);
		if (round == 0)
			run(log, (struct sc_seal_options){ .target = 4 << 10 }, false);
		else if (round == 1)
			run(log, (struct sc_seal_options){ .target = 40 << 10, .every = true },
			    true);
		else
			run(log, (struct sc_seal_options){ .force = true }, false);
	}
	CHECK_OK(sc_log_trim(log, 55, &err), &err);
	CHECK_OK(sc_log_offset_at(log, us[1], &at, &err), &err);
	CHECK_INT(at, 55);
	CHECK_OK(sc_log_offset_at(log, us[2], &at, &err), &err);
	CHECK_INT(at, 55);
	CHECK_OK(sc_log_offset_at(log, us[3], &at, &err), &err);
	CHECK_INT(at, 61);
	sc_log_close(log);
	log_done();
}

/* The model: everything in any order. */
static uint64_t any(uint64_t limit)
{
	return (uint64_t)random() % limit;
}

static struct sc_log *again(struct sc_log *log)
{
	sc_log_close(log);
	if (any(2))
		drop_index();
	return open_log(SC_LOG_APPEND);
}

static void model(unsigned seed)
{
	struct sc_log *log, *other;
	struct sc_log_proof proof, same;
	uint64_t next = 1, floor = 1;

	srandom(seed);
	log_new(4 << 10);
	log = open_log(SC_LOG_APPEND);
	other = open_log(SC_LOG_READ);
	for (int step = 0; step < 120; step++) {
		struct sc_seal_options o = { .target = 2048u << any(5),
					     .force = any(3) == 0,
					     .every = any(2) };
		struct sc_log_state state;

		switch (any(8)) {
		case 0:
		case 1:
			for (uint64_t n = any(6); n > 0; n--) {
				uint64_t rows = 1 + any(any(4) ? 6 : 200);

				CHECK_OK(append_n(log, next, rows, NULL), &err);
				next += rows;
			}
			break;
		case 2:
			run(log, o, false);
			break;
		case 3:
			run(log, o, true);
			break;
		case 4:
			if (any(3))
				break;
			floor += any(next - floor + 1);
			CHECK_OK(sc_log_trim(log, floor, &err), &err);
			break;
		case 5:
			log = again(log);
			break;
		case 6: {
			struct sc_seal *seal = NULL;

			if (any(2))
				break;
			CHECK_OK(sc_seal_open(log, false, &seal, &err), &err);
			CHECK_OK(sc_seal_remove(seal, floor + any(next - floor + 1), &o, &err),
				 &err);
			sc_seal_close(seal);
			CHECK_OK(sc_log_state(log, &state, &err), &err);
			CHECK(state.first_offset >= floor);
			floor = state.first_offset;
			break;
		}
		default:
			CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
			CHECK_INT(proof.rows, next - floor);
			CHECK_INT(proof.orphans, 0);
			run(log, o, any(2));
			CHECK_OK(sc_log_verify(log_path, 0, 0, &same, &err), &err);
			CHECK_STR(same.hash, proof.hash);
		}
		check_state(log, floor, next);
		check_holds(any(2) ? log : other, floor, next - 1);
		if (next > floor) {
			uint64_t from = floor + any(next - floor), rows;

			check_holds(other, from, next - 1);
			CHECK_OK(sc_log_count_from(other, from, &rows, &err), &err);
			CHECK_INT(rows, next - from);
		}
	}
	sc_log_close(other);
	sc_log_close(log);
	log_done();
}

TEST(model_of_everything)
{
	const char *seed = getenv("SC_SEED");

	if (seed) {
		model((unsigned)atoi(seed));
		return;
	}
	for (unsigned i = 1; i <= 8; i++) {
		printf("# seed %u\n", i);
		model(i);
	}
}

/* The two tiers as the first release that sealed wrote them: they are read for ever. */
TEST(golden_log_of_two_tiers)
{
	struct sc_log_proof proof;
	struct sc_log_state state;
	struct sc_log *log;
	uint64_t at = 0;

	golden_log("log-1-sealed");
	CHECK_OK(sc_log_verify(log_path, 0, 0, &proof, &err), &err);
	CHECK_INT(proof.rows, 320);
	CHECK_INT(proof.segments, 2);
	CHECK_STR(proof.hash, "6277f27cbc148b5f6c6341d4be807212");
	log = open_log(SC_LOG_APPEND);
	check_holds(log, 1, 320);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	CHECK_INT(state.sealed_next, 301);
	CHECK_INT(sc_log_source(log, SC_SPAN("up"), &at, &err), 1);
	CHECK_INT(at, 7320);
	CHECK_OK(append_n(log, 321, 1, NULL), &err);
	run(log, (struct sc_seal_options){ .force = true, .every = true }, false);
	check_holds(log, 1, 321);
	sc_log_close(log);
	log_done();
}
