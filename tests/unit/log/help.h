/*
 * tests/unit/log/help.h: a log in a temporary folder, rows put in and read back.
 *
 * Each test works in its own folder under TMPDIR; `log_done` removes it. Rows are {"n":NUMBER}
 * unless given.
 */
#ifndef SC_TESTS_LOG_HELP_H
#define SC_TESTS_LOG_HELP_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../check.h"
#include "base/file.h"
#include "log/log.h"
#include "log/reader.h"

#if SC_SANITIZED
/* Many of these tests fork by the thousand: what is kept of freed memory is copied each time. */
const char *__asan_default_options(void);
__attribute__((no_sanitize("address"), used)) const char *__asan_default_options(void)
{
	return "quarantine_size_mb=16";
}
#endif

static char log_dir[200], log_path[220];
static struct sc_err err;

static inline const char *in_log(const char *name)
{
	static char paths[4][640];
	static int turn;
	char *path = paths[turn++ & 3];

	snprintf(path, sizeof(paths[0]), "%s/%s", log_path, name);
	return path;
}

static inline void log_new_with(const struct sc_log_settings *settings)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(log_dir, sizeof(log_dir), "%s/sc-log-test.XXXXXX", tmp ? tmp : "/tmp");
	CHECK(mkdtemp(log_dir) != NULL);
	snprintf(log_path, sizeof(log_path), "%s/trades", log_dir);
	CHECK_OK(sc_log_create(log_path, settings, &err), &err);
}

static inline void log_new(uint64_t journal_bytes)
{
	struct sc_log_settings settings = { .journal_bytes = journal_bytes };

	log_new_with(&settings);
}

static inline void remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char inner[NAME_MAX + 640];

	while (dir && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(inner, sizeof(inner), "%.599s/%s", path, entry->d_name);
		if (unlink(inner) < 0)
			remove_tree(inner);
	}
	if (dir)
		closedir(dir);
	rmdir(path);
}

static inline void log_done(void)
{
	remove_tree(log_dir);
}

static inline void copy_file(const char *from, const char *to)
{
	char buf[65536];
	int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	ssize_t n;

	CHECK(in >= 0 && out >= 0);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		CHECK(write(out, buf, (size_t)n) == n);
	close(in);
	close(out);
}

/* A file or a folder, with all in it; what stands there goes. Files keep their times, by which
 * versions are told apart. */
static inline void copy_tree(const char *from, const char *to)
{
	char a[NAME_MAX + 640], b[NAME_MAX + 640];
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int fd;

	if (unlink(to) < 0)
		remove_tree(to);
	CHECK(stat(from, &st) == 0);
	if (!S_ISDIR(st.st_mode)) {
		copy_file(from, to);
		fd = open(to, O_RDONLY);
		CHECK(fd >= 0 && futimens(fd, (struct timespec[]){ st.st_atim, st.st_mtim }) == 0);
		close(fd);
		return;
	}
	dir = opendir(from);
	CHECK(dir && mkdir(to, 0777) == 0);
	while ((entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(a, sizeof(a), "%.599s/%s", from, entry->d_name);
		snprintf(b, sizeof(b), "%.599s/%s", to, entry->d_name);
		copy_tree(a, b);
	}
	closedir(dir);
}

/* A log as the release wrote it that first had its format (tests/golden): they are read for
 * ever. */
static inline void golden_log(const char *name)
{
	const char *root = getenv("SC_ROOT");
	char from[300];

	log_new(0);
	snprintf(from, sizeof(from), "%.200s/tests/golden/%.60s", root ? root : ".", name);
	copy_tree(from, log_path);
}

/* The newest journal's path. */
static inline const char *last_journal(void)
{
	static char best[NAME_MAX + 1];
	char inner[300];
	DIR *dir = opendir(in_log("journal"));
	struct dirent *entry;

	best[0] = 0;
	CHECK(dir != NULL);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' && strcmp(entry->d_name, best) > 0)
			snprintf(best, sizeof(best), "%s", entry->d_name);
	closedir(dir);
	snprintf(inner, sizeof(inner), "journal/%s", best);
	return in_log(inner);
}

static inline void drop_index(void)
{
	unlink(in_log("index.mdb"));
	unlink(in_log("index.mdb-lock"));
	unlink(in_log("index.state"));
}

/* Rows {"n":FROM} ... in one commit. */
static inline int append_n(struct sc_log *log, uint64_t from, size_t count, struct sc_log_commit *ret_commit)
{
	struct sc_bytes text;
	uint32_t *lens = malloc(count * sizeof(*lens));
	struct sc_log_rows rows = { .lens = lens, .count = count };
	struct sc_log_commit commit;
	int rc;

	sc_bytes_init(&text, 1u << 30);
	for (size_t i = 0; i < count; i++) {
		size_t before = text.len;

		sc_bytes_putf(&text, "{\"n\":%llu}", (unsigned long long)(from + i));
		lens[i] = (uint32_t)(text.len - before);
	}
	rows.text = sc_span(text.data, text.len);
	rc = sc_log_append(log, &rows, ret_commit ? ret_commit : &commit, &err);
	sc_bytes_done(&text);
	free(lens);
	return rc;
}

/*
 * Everything from FROM on, read in runs of at most MAX bytes: the lines, checked to be in order.
 * -code on failure.
 */
static inline int read_all(struct sc_log *log, uint64_t from, size_t max, struct sc_bytes *out)
{
	struct sc_reader *reader = NULL;
	struct sc_run run;
	uint64_t last = 0;
	int rc;

	sc_bytes_clear(out);
	rc = sc_reader_open(log, from, &reader, &err);
	if (rc < 0)
		return rc;
	while ((rc = sc_reader_next(reader, max, &run, &err)) == 1) {
		uint64_t rows = 0;

		for (size_t i = 0; i < run.lines.len; i++)
			rows += run.lines.data[i] == '\n';
		if (run.first <= last || run.last < run.first || rows != run.rows || run.lines.data[run.lines.len - 1] != '\n') {
			rc = -99;
			break;
		}
		last = run.last;
		sc_bytes_put(out, run.lines.data, run.lines.len);
	}
	sc_reader_close(reader);
	return rc;
}

/* Lines [i,{"n":i}] of FROM..TO, as append_n from 1 makes them. */
static inline void want_lines(uint64_t from, uint64_t to, struct sc_bytes *out)
{
	sc_bytes_clear(out);
	for (uint64_t i = from; i <= to; i++)
		sc_bytes_putf(out, "[%llu,{\"n\":%llu}]\n", (unsigned long long)i, (unsigned long long)i);
}

/* The log holds exactly [i,{"n":i}] for FROM..TO. */
static inline void check_holds(struct sc_log *log, uint64_t from, uint64_t to)
{
	struct sc_bytes got, want;

	sc_bytes_init(&got, 1u << 30);
	sc_bytes_init(&want, 1u << 30);
	want_lines(from, to, &want);
	CHECK_OK(read_all(log, from, 0, &got), &err);
	CHECK_INT(got.len, want.len);
	CHECK(got.len == 0 || memcmp(got.data, want.data, got.len) == 0);
	sc_bytes_done(&got);
	sc_bytes_done(&want);
}

static inline struct sc_log *open_log(enum sc_log_mode mode)
{
	struct sc_log *log = NULL;

	CHECK_OK(sc_log_open(log_path, mode, &log, &err), &err);
	return log;
}

#endif
