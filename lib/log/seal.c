/*
 * seal.c: the right to seal, what an earlier seal left, journals into segments.
 *
 * A segment is written under another name, synced, read back, renamed, and its folder synced; then
 * one transaction puts it into the index and takes its journals out; then these are removed. So
 * whatever a crash leaves, the files hold each row, and what holds it twice is told by its name.
 * Only that transaction makes appenders wait.
 */
#include "log/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "log/seal_internal.h"

#define LOCK_FILE "seal.lock"

static int busy(int fd, const char *path, struct sc_err *err)
{
	char text[32] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid = n > 0 ? strtol(text, NULL, 10) : 0;

	if (pid > 0) {
		sc_err_set(err, SC_E_BUSY, "cannot seal", "another seal runs as process %ld", pid);
		sc_err_on(err, "log", path);
		sc_err_next(err, "wait for it to end");
		sc_err_field_int(err, "pid", pid);
		return SC_E_BUSY;
	}
	sc_err_set(err, SC_E_BUSY, "cannot seal", "another seal runs");
	sc_err_on(err, "log", path);
	return sc_err_next(err, "wait for it to end"), SC_E_BUSY;
}

static int take_lock(struct sc_seal *seal, struct sc_err *err)
{
	char path[PATH_MAX], text[32];
	int n, rc;

	sc_log_file(seal->log, path, LOCK_FILE);
	seal->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (seal->lock_fd < 0) {
		rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_IO,
				errno, "cannot open");
		sc_err_on(err, "file", path);
		return rc;
	}
	while (flock(seal->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EINTR)
			continue;
		if (errno == EWOULDBLOCK)
			return busy(seal->lock_fd, seal->log->path, err);
		rc = sc_err_sys(err, SC_E_IO, errno, "cannot lock");
		sc_err_on(err, "file", path);
		return rc;
	}
	/* for whoever is refused: nothing depends on it */
	n = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	if (ftruncate(seal->lock_fd, 0) < 0 || pwrite(seal->lock_fd, text, (size_t)n, 0) != n)
		errno = 0;
	return 0;
}

static int make_folder(const struct sc_log *log, struct sc_err *err)
{
	char path[PATH_MAX];
	int rc;

	sc_log_file(log, path, SC_SEALED_DIR);
	if (mkdir(path, 0777) == 0)
		return sc_sync_dir(log->path, err);
	if (errno == EEXIST)
		return 0;
	rc = sc_err_sys(err, errno == EACCES || errno == EPERM ? SC_E_NOAUTH : SC_E_IO, errno,
			"cannot make");
	sc_err_on(err, "folder", path);
	return rc;
}

/* What the index knows, under its lock. */
struct held {
	struct sc_sealed *items;
	size_t count;
	uint64_t floor;
	uint64_t journals, journal; /* the first one and the one in use */
};

static bool is_held(const struct held *h, const struct sc_tier_name *n)
{
	size_t low = 0, high = h->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (h->items[mid].first < n->first)
			low = mid + 1;
		else
			high = mid;
	}
	return low < h->count && h->items[low].first == n->first && h->items[low].last == n->last;
}

/* It is not in the index, and others hold its rows. */
static bool is_leftover(const struct held *h, const struct sc_tier_name *n)
{
	bool begins = false, ends = false;

	if (n->last < h->floor)
		return true; /* trimmed */
	for (size_t i = 0; i < h->count; i++) {
		const struct sc_sealed *s = &h->items[i];

		if (s->first <= n->first && s->last >= n->last)
			return true; /* it was compacted */
		begins = begins || s->first == n->first;
		ends = ends || s->last == n->last;
	}
	if (begins && ends)
		return true; /* a compaction that did not get to the index */
	/* a seal that did not get to the index */
	return h->journals && n->first >= h->journals && n->last < h->journal;
}

static int lowest_journal(struct sc_kv_txn *txn, uint64_t *ret_name, struct sc_err *err)
{
	struct sc_kv_cursor *cursor = NULL;
	struct sc_span key, value;
	int rc = sc_kv_cursor_open(txn, SC_T_JOURNALS, &cursor, err);

	if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &value, err);
	if (rc == 1)
		memcpy(ret_name, key.data, sizeof(*ret_name));
	sc_kv_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

static int sweep_journals(struct sc_seal *seal, const struct held *h, struct sc_err *err)
{
	struct sc_names names = { NULL, 0 };
	uint64_t sealed = h->count ? h->items[h->count - 1].last : 0;
	char path[PATH_MAX];
	int rc = sc_journal_list(seal->log, &names, NULL, err);

	for (size_t i = 0; rc == 0 && i < names.count && names.items[i] < h->journals; i++) {
		if (names.items[i] > sealed && names.items[i] >= h->floor)
			break;
		sc_journal_path(seal->log, names.items[i], path);
		if (sc_sys_unlink(path) == 0)
			seal->report.leftovers++;
	}
	sc_journal_list_done(&names);
	return rc;
}

/* Under the index's lock, so that nobody rebuilds it from the files that go. */
static int sweep_locked(struct sc_seal *seal, const struct sc_tier_names *names,
			struct sc_kv_txn *txn, const struct sc_state *state, struct sc_err *err)
{
	struct held h = { .floor = state->floor, .journal = state->journal };
	int rc = sc_tier_all(seal->log, &h.items, &h.count, err);

	if (rc == 0)
		rc = lowest_journal(txn, &h.journals, err);
	for (size_t i = 0; rc == 0 && i < names->count; i++) {
		const struct sc_tier_name *n = &names->items[i];

		if (is_held(&h, n) || !is_leftover(&h, n))
			continue;
		rc = sc_tier_remove(seal->log, n->first, n->last, err);
		seal->report.leftovers += rc == 0;
	}
	if (rc == 0)
		rc = sweep_journals(seal, &h, err);
	free(h.items);
	return rc;
}

/* What a seal left that died; looked for without the lock first: most often there is nothing. */
static int sweep(struct sc_seal *seal, struct sc_err *err)
{
	struct sc_tier_names names = { NULL, 0, 0 };
	struct sc_names journals = { NULL, 0 };
	struct sc_kv_txn *txn = NULL;
	struct sc_state state;
	char path[PATH_MAX];
	int rc;

	sc_log_file(seal->log, path, SC_SEAL_TEMPORARY);
	if (sc_sys_unlink(path) == 0)
		seal->report.leftovers++;
	rc = sc_index_now(seal->log, &state, err);
	if (rc == 0)
		rc = sc_tier_list(seal->log, &names, err);
	if (rc == 0)
		rc = sc_journal_list(seal->log, &journals, NULL, err);
	if (rc == 0 && (names.count != state.segments || journals.count != state.journals)) {
		rc = sc_index_begin(seal->log, &txn, &state, err);
		if (rc == 0) {
			rc = sweep_locked(seal, &names, txn, &state, err);
			sc_index_abort(seal->log, &txn);
		}
	}
	sc_tier_list_done(&names);
	sc_journal_list_done(&journals);
	return rc;
}

int sc_seal_open(struct sc_log *log, bool dry, struct sc_seal **ret_seal, struct sc_err *err)
{
	struct sc_seal *seal;
	int rc = 0;

	if (!dry && log->mode != SC_LOG_APPEND)
		return sc_err_set(err, SC_E_INTERNAL, "cannot seal",
				  "the handle was opened for reading");
	seal = sc_calloc(1, sizeof(*seal));
	if (!seal)
		return sc_err_nomem(err, "cannot seal");
	seal->log = log;
	seal->dry = dry;
	seal->lock_fd = -1;
	if (!dry)
		rc = take_lock(seal, err);
	if (rc == 0 && !dry)
		rc = make_folder(log, err);
	if (rc == 0 && !dry)
		rc = sweep(seal, err);
	if (rc < 0) {
		sc_seal_close(seal);
		return sc_log_or_gone(log, rc, err);
	}
	*ret_seal = seal;
	return 0;
}

void sc_seal_close(struct sc_seal *seal)
{
	if (!seal)
		return;
	sc_close(&seal->lock_fd);
	free(seal);
}

void sc_seal_report(const struct sc_seal *seal, struct sc_seal_report *ret_report)
{
	*ret_report = seal->report;
}

void sc_seal_step_done(struct sc_seal *seal, const struct sc_seal_options *o, enum sc_seal_act act,
		       const struct sc_sealed *segment, uint64_t from)
{
	struct sc_seal_step step = { act, segment, from };
	struct sc_seal_report *r = &seal->report;

	switch (act) {
	case SC_SEAL_SEALED:
		r->sealed++;
		r->sealed_from += from;
		r->sealed_rows += segment->rows;
		r->sealed_bytes += segment->bytes;
		r->sealed_file_bytes += segment->file_bytes;
		break;
	case SC_SEAL_COMPACTED:
		r->compacted++;
		r->compacted_from += from;
		r->compacted_rows += segment->rows;
		r->compacted_bytes += segment->bytes;
		r->compacted_file_bytes += segment->file_bytes;
		break;
	case SC_SEAL_REMOVED:
		r->removed++;
		r->removed_rows += segment->rows;
		r->removed_bytes += segment->bytes;
		r->removed_file_bytes += segment->file_bytes;
		break;
	}
	if (o->step)
		o->step(o->arg, &step);
}

int sc_seal_begin(struct sc_seal *seal, struct sc_kv_txn **ret_txn, struct sc_state *ret_state,
		  struct sc_err *err)
{
	int rc = sc_index_begin(seal->log, ret_txn, ret_state, err);

	seal->begun_us = sc_mono_us();
	return rc;
}

void sc_seal_ended(struct sc_seal *seal)
{
	int64_t held = sc_mono_us() - seal->begun_us;

	if (held > seal->report.held_us)
		seal->report.held_us = held;
}

int sc_seal_remove(struct sc_seal *seal, uint64_t before, const struct sc_seal_options *o,
		   struct sc_err *err)
{
	struct sc_sealed *items = NULL;
	size_t count = 0, go = 0;
	int rc = sc_tier_all(seal->log, &items, &count, err);

	if (rc < 0)
		return rc;
	while (go < count && items[go].last < before)
		go++;
	if (go && !seal->dry) {
		int64_t held_us = 0;

		rc = sc_trim_held(seal->log, items[go - 1].next, &held_us, err);
		if (held_us > seal->report.held_us)
			seal->report.held_us = held_us;
	}
	for (size_t i = 0; rc == 0 && i < go; i++)
		sc_seal_step_done(seal, o, SC_SEAL_REMOVED, &items[i], 1);
	free(items);
	return rc;
}

size_t sc_keep_drop(const struct sc_keep *keep, const struct sc_sealed *segments, size_t count,
		    int64_t now_us)
{
	uint64_t bytes = 0;
	size_t kept = 0;

	while (kept < count) {
		const struct sc_sealed *s = &segments[count - 1 - kept];

		bytes += s->file_bytes;
		if ((keep->age_us && s->last_us < now_us - keep->age_us) ||
		    (keep->bytes && bytes > keep->bytes) || (keep->count && kept == keep->count))
			break;
		kept++;
	}
	return count - kept;
}
