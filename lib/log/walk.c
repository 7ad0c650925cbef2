/*
 * walk.c: the blocks of one journal in order, read in chunks with pread: a file that is cut short
 * under us is an error then, where a mapping would be a signal.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "log/log_internal.h"

void sc_walk_init(struct sc_walk *w)
{
	memset(w, 0, sizeof(*w));
	w->fd = -1;
}

void sc_walk_start(struct sc_walk *w, const struct sc_log *log, uint64_t journal, int fd,
		   uint64_t pos, uint64_t limit, size_t chunk)
{
	w->log = log;
	w->journal = journal;
	w->fd = fd;
	w->pos = pos;
	w->limit = limit;
	w->chunk = chunk;
	w->at = pos;
	w->len = 0;
}

void sc_walk_done(struct sc_walk *w)
{
	free(w->buf);
	sc_walk_init(w);
}

/* NEED bytes at w->pos: *ret_data, or SC_E_DATA when the file or the limit ends before. */
static int ensure(struct sc_walk *w, size_t need, const char **ret_data, struct sc_err *err)
{
	size_t want = need > w->chunk ? need : w->chunk, got = 0;
	char path[PATH_MAX];
	int rc;

	if (need > w->limit - w->pos)
		return SC_E_DATA;
	if (w->pos >= w->at && w->pos - w->at <= w->len && w->len - (w->pos - w->at) >= need) {
		*ret_data = w->buf + (w->pos - w->at);
		return 0;
	}
	if (want > w->limit - w->pos)
		want = w->limit - w->pos;
	if (want > w->cap) {
		size_t cap = want > w->chunk ? want : w->chunk;
		char *buf = sc_malloc(cap);

		if (!buf)
			return sc_err_nomem(err, "cannot read the log");
		free(w->buf);
		w->buf = buf;
		w->cap = cap;
	}
	w->len = 0;
	w->at = w->pos;
	rc = sc_pread_all(w->fd, w->buf, want, (off_t)w->pos, &got, "", err);
	if (rc < 0) {
		sc_journal_path(w->log, w->journal, path);
		sc_err_on(err, "journal", path);
		return rc;
	}
	w->len = got;
	if (got < need)
		return SC_E_DATA;
	*ret_data = w->buf;
	return 0;
}

int sc_walk_next(struct sc_walk *w, enum sc_walk_how how, struct sc_block *ret_block,
		 const char **ret_data, struct sc_err *err)
{
	struct sc_block block;
	const char *data;
	int rc;

	if (w->pos >= w->limit)
		return 0;
	rc = ensure(w, SC_BLOCK_HEAD, &data, err);
	if (rc < 0)
		return rc;
	if (!sc_block_parse(data, &block) || sc_block_size(&block) > w->limit - w->pos)
		return SC_E_DATA;
	if (how == SC_WALK_CHECK) {
		rc = ensure(w, sc_block_size(&block), &data, err);
		if (rc < 0)
			return rc;
		if (!sc_block_check(data, &block))
			return SC_E_DATA;
		*ret_data = data;
	}
	*ret_block = block;
	w->pos += sc_block_size(&block);
	return 1;
}

int sc_walk_damage(const struct sc_log *log, uint64_t journal, uint64_t pos, uint64_t last_good,
		   struct sc_err *err)
{
	char path[PATH_MAX];

	sc_journal_path(log, journal, path);
	sc_err_set(err, SC_E_DATA, "cannot read",
		   "the block at byte %llu is damaged or missing; the last good offset is %llu",
		   (unsigned long long)pos, (unsigned long long)last_good);
	sc_err_on(err, "journal", path);
	sc_err_next(err, "put a good copy of the file back, or give up its rows with sc-log trim");
	sc_err_field_str(err, "file", path);
	sc_err_field_u64(err, "position", pos);
	sc_err_field_u64(err, "last_good", last_good);
	return sc_log_or_gone(log, SC_E_DATA, err);
}
