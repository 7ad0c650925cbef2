/* proof_sealed.c: a log that survived is sealed and archived, and is the same after that. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "log/archive.h"
#include "log/log.h"
#include "log/restore.h"
#include "log/seal.h"
#include "proof_internal.h"

/* archive.json names the folder in which the run was recorded: let it name this one. */
static bool moves(const char *path, const struct expect *e, char *text, size_t size)
{
	char file[PATH_MAX];
	struct sc_bytes old, new;
	struct sc_err err;
	const char *at, *end, *slash = strrchr(path, '/');
	bool good = true;

	snprintf(file, sizeof(file), "%s/archive.json", path);
	sc_bytes_init(&old, 1u << 20);
	sc_bytes_init(&new, 1u << 20);
	if (sc_read_file(file, &old, &err) == 0) {
		at = memmem(old.data, old.len, e->archived, strlen(e->archived));
		if (!at) {
			good = proof_wrong(text, size, "archive.json names another archive: %.*s",
					   (int)old.len, old.data);
		} else {
			end = at + strlen(e->archived);
			sc_bytes_put(&new, old.data, (size_t)(at - old.data));
			sc_bytes_put(&new, path, (size_t)(slash - path));
			sc_bytes_put(&new, end, (size_t)(old.data + old.len - end));
			if (sc_replace_file(file, new.data, new.len, 0666, false, &err) < 0)
				good = proof_failed(text, size, "cannot move archive.json", &err);
		}
	} else if (err.code != SC_E_NOLOG) {
		good = proof_failed(text, size, "archive.json", &err);
	}
	sc_bytes_done(&old);
	sc_bytes_done(&new);
	return good;
}

/* file:// URL of the archive beside the log; of the log in it when NAMED. */
static void url_of(const char *path, bool named, char ret_url[PATH_MAX])
{
	const char *slash = strrchr(path, '/');

	snprintf(ret_url, PATH_MAX, "file://%.*s/archive%s", (int)(slash - path), path,
		 named ? slash : "");
}

static bool read_archive(struct sc_archive *archive, const struct expect *e, struct found *f,
			 char *text, size_t size)
{
	struct sc_archive_reader *reader = NULL;
	struct sc_run run;
	struct sc_err err;
	bool good = true;
	int rc = sc_archive_reader_open(archive, 0, &reader, &err);

	while (good && rc >= 0 && (rc = sc_archive_reader_next(reader, 0, &run, &err)) == 1)
		good = proof_lines(e, f, run.lines, text, size);
	sc_archive_reader_close(reader);
	return good && (rc >= 0 || proof_failed(text, size, "cannot read the archive", &err));
}

/* Before anybody writes to it: it is whole, holds what the log gave up, and nothing that the log,
 * which has one row of another boot behind its own, would give again. */
static bool check_archive(const char *path, const struct expect *e, const struct moment *m,
			  uint64_t first, uint64_t next, char *text, size_t size)
{
	struct found f = { 0, 0, 0 };
	struct sc_archive *archive = NULL;
	char url[PATH_MAX];
	struct sc_err err;
	bool good;

	url_of(path, true, url);
	if (sc_archive_open(url, NULL, &archive, &err) < 0)
		return (err.code == SC_E_NOLOG && first == 1 && !m->shipped) ||
		       proof_failed(text, size, "cannot open the archive", &err);
	good = read_archive(archive, e, &f, text, size);
	sc_archive_close(archive);
	if (!good)
		return false;
	if (first > 1 && (f.first != 1 || f.last + 1 < first))
		return proof_wrong(text, size,
				   "the log begins at %llu, and the archive holds %llu to %llu",
				   (unsigned long long)first, (unsigned long long)f.first,
				   (unsigned long long)f.last);
	if (f.last + 1 >= next)
		return proof_wrong(text, size,
				   "the archive holds %llu, and the log went on at %llu",
				   (unsigned long long)f.last, (unsigned long long)next - 1);
	if (f.last < m->shipped)
		return proof_wrong(text, size, "the archive holds %llu, and %llu was shipped",
				   (unsigned long long)f.last, (unsigned long long)m->shipped);
	return true;
}

/* All of it into segments, large ones, and these into the archive. */
static int seal_all(const char *path, const struct expect *e, struct sc_err *err)
{
	static const struct sc_seal_options how = { .target = 8192, .force = true, .every = true };
	static const struct sc_archive_options push = { .now_us = 0 };
	struct sc_archive *archive = NULL;
	struct sc_seal *seal = NULL;
	struct sc_log *log = NULL;
	char url[PATH_MAX];
	int rc = sc_log_open(path, SC_LOG_APPEND, &log, err);

	if (rc == 0)
		rc = sc_seal_open(log, false, &seal, err);
	if (rc == 0)
		rc = sc_seal_run(seal, &how, err);
	if (rc == 0)
		rc = sc_seal_compact(seal, &how, err);
	if (rc == 0 && e->archived) {
		url_of(path, false, url);
		rc = sc_archive_open_log(log, url, NULL, false, &archive, err);
		if (rc == 0)
			rc = sc_archive_push(archive, &push, err);
	}
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	return rc;
}

static bool same(const struct sc_log_proof *a, const struct sc_log_proof *b, const char *what,
		 char *text, size_t size)
{
	if (!strcmp(a->hash, b->hash) && a->rows == b->rows && a->bytes == b->bytes &&
	    a->first == b->first && a->last == b->last)
		return true;
	return proof_wrong(text, size,
			   "%s: %llu rows from %llu to %llu, were %llu from %llu to %llu", what,
			   (unsigned long long)b->rows, (unsigned long long)b->first,
			   (unsigned long long)b->last, (unsigned long long)a->rows,
			   (unsigned long long)a->first, (unsigned long long)a->last);
}

static bool archive_same(const char *path, const struct sc_log_proof *log, char *text, size_t size)
{
	struct sc_archive *archive = NULL;
	struct sc_log_proof proof;
	char url[PATH_MAX];
	struct sc_err err;
	int rc;

	url_of(path, true, url);
	rc = sc_archive_open(url, NULL, &archive, &err);
	if (rc == 0)
		rc = sc_archive_verify(archive, log->first, log->last + 1, &proof, &err);
	sc_archive_close(archive);
	if (rc < 0)
		return proof_failed(text, size, "the archive afterwards", &err);
	return same(log, &proof, "the archive afterwards", text, size);
}

static int ship_all(const char *path, struct sc_err *err)
{
	static const struct sc_archive_options ship = { .now_us = 0 };
	struct sc_archive *archive = NULL;
	struct sc_seal *seal = NULL;
	struct sc_log *log = NULL;
	char url[PATH_MAX];
	int rc = sc_log_open(path, SC_LOG_APPEND, &log, err);

	url_of(path, false, url);
	if (rc == 0)
		rc = sc_seal_open(log, false, &seal, err);
	if (rc == 0)
		rc = sc_archive_open_log(log, url, NULL, false, &archive, err);
	if (rc == 0)
		rc = sc_archive_push(archive, &ship, err); /* what is sealed comes first */
	if (rc == 0)
		rc = sc_archive_ship(archive, &ship, err);
	sc_archive_close(archive);
	sc_seal_close(seal);
	sc_log_close(log);
	return rc;
}

/* The machine is lost: a log made of its archive, elsewhere, holds what is in it. */
static bool check_made_anew(const char *path, const struct sc_log_proof *want, char *text,
			    size_t size)
{
	static const struct sc_restore_options plain = { .jump = 0 };
	struct sc_restore_report report;
	struct sc_log_proof proof;
	struct sc_err err;
	char url[PATH_MAX], anew[PATH_MAX];
	const char *slash = strrchr(path, '/');
	int rc;

	url_of(path, false, url);
	snprintf(anew, sizeof(anew), "%.*s/anew%s", (int)(slash - path), path, slash);
	rc = sc_log_restore(anew, url, &plain, &report, &err);
	if (rc == 0)
		rc = sc_log_verify(anew, want->first, want->last, &proof, &err);
	if (rc < 0)
		return proof_failed(text, size, "made anew", &err);
	if (report.next <= want->last + SC_RESTORE_JUMP)
		return proof_wrong(text, size, "made anew it goes on at %llu behind %llu",
				   (unsigned long long)report.next, (unsigned long long)want->last);
	return same(want, &proof, "made anew", text, size);
}

bool proof_sealed(const char *path, const struct expect *e, const struct moment *m, uint64_t first,
		  uint64_t next, char *text, size_t size)
{
	struct sc_log_proof before, after;
	struct sc_err err;

	if (e->archived &&
	    !(moves(path, e, text, size) && check_archive(path, e, m, first, next, text, size)))
		return false;
	if (sc_log_verify(path, 0, 0, &before, &err) < 0)
		return proof_failed(text, size, "verify", &err);
	if (e->ships) {
		if (ship_all(path, &err) < 0)
			return proof_failed(text, size, "cannot ship it afterwards", &err);
		if (!archive_same(path, &before, text, size))
			return false;
		if (before.rows & 1) /* of shipped rows now, or of segments in the end */
			return check_made_anew(path, &before, text, size);
	}
	if (seal_all(path, e, &err) < 0)
		return proof_failed(text, size, "cannot seal it afterwards", &err);
	if (sc_log_verify(path, 0, 0, &after, &err) < 0)
		return proof_failed(text, size, "verify when it was sealed", &err);
	if (!same(&before, &after, "when it was sealed", text, size))
		return false;
	if (after.orphans)
		return proof_wrong(text, size, "%llu files are left over when it was sealed",
				   (unsigned long long)after.orphans);
	return !e->archived || (archive_same(path, &after, text, size) &&
				(!e->ships || check_made_anew(path, &after, text, size)));
}
