/*
 * tests/unit/log/archive_help.h: an archive in a folder beside a log: written as sc-seal does it,
 * read, damaged, compared with what the log holds. begin() makes both, shelf_new() the archive of a
 * log that is there; log_done() removes them.
 */
#ifndef SC_TESTS_LOG_ARCHIVE_HELP_H
#define SC_TESTS_LOG_ARCHIVE_HELP_H

#include "help.h"

#include "log/archive.h"
#include "log/restore.h"

static char shelf[300], archive_url[320], log_url[330];

/* For the log that was made. */
static inline void shelf_new(void)
{
	snprintf(shelf, sizeof(shelf), "%s/shelf", log_dir);
	CHECK(mkdir(shelf, 0777) == 0);
	snprintf(archive_url, sizeof(archive_url), "file://%s", shelf);
	snprintf(log_url, sizeof(log_url), "file://%s/trades", shelf);
}

static inline void begin(uint64_t journal_bytes)
{
	log_new(journal_bytes);
	shelf_new();
}

static inline const char *shelved(const char *name)
{
	static char paths[4][700];
	static int turn;
	char *path = paths[turn++ & 3];

	snprintf(path, sizeof(paths[0]), "%s/trades/%s", shelf, name);
	return path;
}

/* Rows {"n":FROM} to TO, in commits of EACH. */
static inline int grow(const char *path, uint64_t from, uint64_t to, size_t each)
{
	struct sc_log *log = NULL;
	int rc = sc_log_open(path, SC_LOG_APPEND, &log, &err);

	for (uint64_t i = from; rc == 0 && i <= to; i += each)
		rc = append_n(log, i, to + 1 - i < each ? (size_t)(to + 1 - i) : each, NULL);
	sc_log_close(log);
	return rc;
}

static struct sc_archive_seizure seizure; /* how, and what came of it the last time */

/* A log as a run of sc-seal has it: locked, with its archive. */
struct archiver {
	struct sc_log *log;
	struct sc_seal *seal;
	struct sc_archive *archive;
};
enum archiver_kind { OWNS, SEIZES, LOOKS /* changes nothing */ };

static inline void archiver_close(struct archiver *a)
{
	sc_archive_close(a->archive);
	sc_seal_close(a->seal);
	sc_log_close(a->log);
}

/* To be closed also after a failure. */
static inline int archiver_open(const char *path, enum archiver_kind kind, struct archiver *a)
{
	bool dry = kind == LOOKS;
	int rc;

	memset(a, 0, sizeof(*a));
	rc = sc_log_open(path, dry ? SC_LOG_READ : SC_LOG_APPEND, &a->log, &err);
	if (rc == 0)
		rc = sc_seal_open(a->log, dry, &a->seal, &err);
	if (rc == 0)
		rc = kind == SEIZES
			     ? sc_archive_seize(a->log, archive_url, NULL, &seizure, &a->archive, &err)
			     : sc_archive_open_log(a->log, archive_url, NULL, dry, &a->archive, &err);
	return rc;
}

struct work {
	bool seal, push, ship, seize, no_jump;
	uint64_t jump;
	unsigned ships; /* more of them: each behind a row that is appended */
	uint64_t row;   /* the first of these */
};

/* All rows, in segments of about TARGET bytes. */
static inline int seal_all(struct sc_seal *seal, uint64_t target)
{
	struct sc_seal_options o = { .force = true, .target = target };

	return sc_seal_run(seal, &o, &err);
}

static inline int seal_small(struct sc_seal *seal)
{
	return seal_all(seal, 2048);
}

/* Rows {"n":FROM} to TO in commits of EACH, sealed, and pushed into the archive. */
static inline void grow_archived(uint64_t from, uint64_t to, size_t each, uint64_t target)
{
	struct sc_archive_options o = { .arg = NULL };
	struct archiver a;

	CHECK_OK(grow(log_path, from, to, each), &err);
	CHECK_OK(archiver_open(log_path, OWNS, &a), &err);
	CHECK_OK(seal_all(a.seal, target), &err);
	CHECK_OK(sc_archive_push(a.archive, &o, &err), &err);
	archiver_close(&a);
}

/* As one run of sc-seal does it. */
static inline int work_on(const char *path, const struct work *w)
{
	struct sc_archive_options o = { .arg = NULL };
	struct archiver a;
	int rc;

	seizure = (struct sc_archive_seizure){ .no_jump = w->no_jump, .jump = w->jump };
	rc = archiver_open(path, w->seize ? SEIZES : OWNS, &a);

	if (rc == 0 && w->seal)
		rc = seal_small(a.seal);
	if (rc == 0 && w->push)
		rc = sc_archive_push(a.archive, &o, &err);
	if (rc == 0 && w->ship)
		rc = sc_archive_ship(a.archive, &o, &err);
	for (unsigned i = 0; rc == 0 && i < w->ships; i++) {
		rc = append_n(a.log, w->row + i, 1, NULL);
		if (rc == 0)
			rc = sc_archive_ship(a.archive, &o, &err);
	}
	archiver_close(&a);
	return rc;
}

static const struct work ship_only = { .ship = true },
			 seal_push = { .seal = true, .push = true },
			 push_ship = { .push = true, .ship = true };

static inline size_t objects(const char *folder)
{
	DIR *dir = opendir(shelved(folder));
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

/* The Nth file of a folder, by name. */
static inline const char *file_of(const char *folder, size_t n)
{
	static char path[NAME_MAX + 720];
	struct dirent **names;
	int count = scandir(folder, &names, NULL, alphasort);
	size_t k = 0;

	path[0] = 0;
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.' && k++ == n)
			snprintf(path, sizeof(path), "%.700s/%s", folder, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	CHECK(path[0]);
	return path;
}

static inline const char *object(const char *folder, size_t n)
{
	return file_of(shelved(folder), n);
}

/* Of the log at PATH, as it is now. */
static inline struct sc_log_state state_of(const char *path)
{
	struct sc_log_state state;
	struct sc_log *log = NULL;

	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(sc_log_state(log, &state, &err), &err);
	sc_log_close(log);
	return state;
}

static inline void flip(const char *path, long at)
{
	int fd = open(path, O_RDWR);
	off_t size = lseek(fd, 0, SEEK_END), pos = at < 0 ? size + at : at;
	char c;

	CHECK(fd >= 0 && pread(fd, &c, 1, pos) == 1);
	c ^= 1;
	CHECK(pwrite(fd, &c, 1, pos) == 1);
	close(fd);
}

static inline int read_archive(uint64_t from, size_t max, struct sc_bytes *out)
{
	struct sc_archive *archive = NULL;
	struct sc_archive_reader *reader = NULL;
	struct sc_run run;
	uint64_t last = 0;
	int rc = sc_archive_open(log_url, NULL, &archive, &err);

	sc_bytes_clear(out);
	if (rc == 0)
		rc = sc_archive_reader_open(archive, from, &reader, &err);
	while (rc == 0 && (rc = sc_archive_reader_next(reader, max, &run, &err)) == 1) {
		uint64_t rows = 0;

		for (size_t i = 0; i < run.lines.len; i++)
			rows += run.lines.data[i] == '\n';
		CHECK(run.first > last && rows == run.rows && run.last >= run.first);
		last = run.last;
		rc = sc_bytes_put(out, run.lines.data, run.lines.len);
	}
	sc_archive_reader_close(reader);
	sc_archive_close(archive);
	return rc;
}

static inline void same_bytes(const struct sc_bytes *got, const struct sc_bytes *want)
{
	if (got->len != want->len || (want->len && memcmp(got->data, want->data, want->len) != 0))
		FAIL("not the same rows: %zu bytes, not %zu", got->len, want->len);
}

/* GOT is what append_n made of FROM to TO. */
static inline void expect_rows(const struct sc_bytes *got, uint64_t from, uint64_t to)
{
	struct sc_bytes want;

	sc_bytes_init(&want, 1u << 26);
	want_lines(from, to, &want);
	same_bytes(got, &want);
	sc_bytes_done(&want);
}

/* The archive holds what the log at PATH holds, from FROM on. */
static inline void same_rows(const char *path, uint64_t from)
{
	struct sc_bytes got, want;
	struct sc_log *log = NULL;

	sc_bytes_init(&got, 1u << 26);
	sc_bytes_init(&want, 1u << 26);
	CHECK_OK(sc_log_open(path, SC_LOG_READ, &log, &err), &err);
	CHECK_OK(read_all(log, from, 0, &want), &err);
	sc_log_close(log);
	CHECK_OK(read_archive(from, 0, &got), &err);
	same_bytes(&got, &want);
	sc_bytes_done(&got);
	sc_bytes_done(&want);
}

static inline struct sc_archive_state archive_now(void)
{
	struct sc_archive_state state;
	struct sc_archive *archive = NULL;

	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	sc_archive_state(archive, &state);
	state.url = state.stream_id = NULL;
	sc_archive_close(archive);
	return state;
}

/* For every time in the log and beside it the archive names the same offset as the log. */
static inline void check_times(uint64_t next)
{
	struct sc_archive *archive = NULL;
	struct sc_log *log = open_log(SC_LOG_READ);
	struct sc_reader *reader = NULL;
	struct sc_run run;
	uint64_t want, got;

	CHECK_OK(sc_archive_open(log_url, NULL, &archive, &err), &err);
	CHECK_OK(sc_reader_open(log, 1, &reader, &err), &err);
	while (sc_reader_next(reader, 0, &run, &err) == 1) {
		for (int d = -1; d <= 1; d++) {
			CHECK_OK(sc_log_offset_at(log, run.appended_us + d, &want, &err), &err);
			CHECK_OK(sc_archive_offset_at(archive, run.appended_us + d, &got, &err),
				 &err);
			CHECK_INT(got, want);
		}
	}
	CHECK_OK(sc_archive_offset_at(archive, INT64_MAX, &got, &err), &err);
	CHECK_INT(got, next);
	CHECK_OK(sc_archive_offset_at(archive, 0, &got, &err), &err);
	CHECK_INT(got, 1);
	sc_reader_close(reader);
	sc_archive_close(archive);
	sc_log_close(log);
}

#endif
