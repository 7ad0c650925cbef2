/*
 * append.c: one commit: lock, format, write, sync, index, publish.
 *
 * The lines of a commit stand together in log->out behind room for one block's header and
 * extensions, so that the usual commit is one pwrite. A commit of more blocks lends each header
 * the bytes just before its body, which were written already, and gives them back.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/line.h"
#include "log/log_internal.h"

#define TAIL_LEN 2 /* "]\n" */

struct commit {
	struct sc_log *log;
	const struct sc_log_rows *rows;
	struct sc_state state; /* as it will be */
	struct sc_kv_txn *txn;
	size_t lead; /* header and extensions in front of the lines */
	uint64_t first, last;
	uint64_t begin; /* where the commit starts in the journal */
	bool wrote;
};

static int refuse(const struct sc_log *log, struct sc_err *err, const char *why, const char *reason,
		  uint64_t got, uint64_t have)
{
	sc_err_set(err, SC_E_REFUSED, "cannot append to", reason, (unsigned long long)got,
		   (unsigned long long)have);
	sc_log_err(log, err);
	sc_err_field_str(err, "why", why);
	return SC_E_REFUSED;
}

/* What can be told without the lock. */
static int check_rows(struct sc_log *log, const struct sc_log_rows *rows, struct sc_err *err)
{
	uint64_t before = 0, total = 0;

	if (log->mode != SC_LOG_APPEND || rows->count == 0)
		return sc_err_set(err, SC_E_INTERNAL, "cannot append",
				  rows->count ? "the handle was opened for reading"
					      : "a commit holds at least one row");
	if (log->poisoned) {
		sc_err_set(err, SC_E_IO, "cannot append to",
			   "an earlier sync failed, so what is on disk must be verified first");
		sc_log_err(log, err);
		sc_err_next(err, "look at the disk, then start again");
		return SC_E_IO;
	}
	if (rows->source.len > SC_NAME_MAX || rows->producer.len > SC_NAME_MAX)
		return sc_err_set(err, SC_E_USAGE, "cannot append",
				  "a name is longer than %d bytes", SC_NAME_MAX);
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->lens[i] == 0 || rows->lens[i] > log->settings.message_max) {
			sc_err_set(err, SC_E_DATA, "cannot append to",
				   "row %zu is %u bytes long; the limit of this log is %llu", i + 1,
				   rows->lens[i], (unsigned long long)log->settings.message_max);
			sc_log_err(log, err);
			sc_err_next(err, "create the log with a larger --max-message");
			return SC_E_DATA;
		}
		total += rows->lens[i];
		if (!rows->offsets)
			continue;
		if (rows->offsets[i] >= UINT64_MAX - 1)
			return refuse(log, err, "too_high",
				      "offset %llu is above the highest that there can be, %llu",
				      rows->offsets[i], UINT64_MAX - 2);
		if (rows->offsets[i] <= before)
			return refuse(log, err, "not_rising",
				      "offset %llu does not rise above %llu", rows->offsets[i],
				      before);
		before = rows->offsets[i];
	}
	if (total != rows->text.len || rows->count > UINT32_MAX)
		return sc_err_set(err, SC_E_INTERNAL, "cannot append", "the lengths do not add up");
	return 0;
}

static int check_source(struct commit *c, struct sc_err *err)
{
	struct sc_span value;
	uint64_t old;
	int rc = sc_kv_get(c->txn, SC_T_SOURCES, c->rows->source, &value, err);

	if (rc == 0 && sc_kv_count(c->txn, SC_T_SOURCES) >= SC_SOURCES_MAX) {
		sc_err_set(err, SC_E_CONFIG, "cannot append to",
			   "it knows %d sources, and has no room for another", SC_SOURCES_MAX);
		sc_log_err(c->log, err);
		sc_err_next(err, "append as one that it knows, or without a source");
		return SC_E_CONFIG;
	}
	if (rc != 1 || value.len != sizeof(old))
		return rc < 0 ? rc : 0;
	memcpy(&old, value.data, sizeof(old));
	if (c->rows->source_offset > old)
		return 0;
	refuse(c->log, err, "source", "source offset %llu is not above %llu, which it has already",
	       c->rows->source_offset, old);
	sc_err_field_u64(err, "source_offset", old);
	return SC_E_REFUSED;
}

static uint64_t last_seq(const struct sc_log_rows *rows)
{
	return rows->producer_last ? rows->producer_last : rows->producer_seq + rows->count - 1;
}

/*
 * Rows within the last commit of a producer: which offsets they got is known if every number was a
 * row, and every row got the next offset. Of older commits the offsets are not kept.
 */
static void find_duplicate(const struct sc_log_rows *rows, struct sc_producer *dup)
{
	uint64_t skip = rows->producer_seq - dup->seq_first, seqs = dup->seq_last - dup->seq_first;

	if (rows->producer_seq == dup->seq_first && last_seq(rows) == dup->seq_last)
		return;
	if (rows->producer_seq < dup->seq_first || dup->last - dup->first != seqs ||
	    last_seq(rows) - rows->producer_seq != rows->count - 1) {
		dup->first = dup->last = 0;
		return;
	}
	dup->first += skip;
	dup->last = dup->first + rows->count - 1;
}

/* 1: the rows are there already, as *DUP says. */
static int check_producer(struct commit *c, struct sc_producer *dup, struct sc_err *err)
{
	const struct sc_log_rows *rows = c->rows;
	uint64_t seq_last = last_seq(rows);
	struct sc_producer old;
	struct sc_span value;
	int rc = sc_kv_get(c->txn, SC_T_PRODUCERS, rows->producer, &value, err);

	if (rc != 1 || value.len != sizeof(old))
		return rc < 0 ? rc : 0;
	memcpy(&old, value.data, sizeof(old));
	if (rows->producer_epoch < old.epoch) {
		refuse(c->log, err, "fenced", "producer epoch %llu is below %llu, which took over",
		       rows->producer_epoch, old.epoch);
		sc_err_field_u64(err, "epoch", old.epoch);
		return SC_E_REFUSED;
	}
	if (rows->producer_epoch > old.epoch || rows->producer_seq == old.seq_last + 1)
		return 0;
	if (seq_last <= old.seq_last) {
		*dup = old;
		find_duplicate(rows, dup);
		return 1;
	}
	refuse(c->log, err, "sequence", "producer sequence %llu does not follow %llu",
	       rows->producer_seq, old.seq_last);
	sc_err_field_u64(err, "expected", old.seq_last + 1);
	return SC_E_REFUSED;
}

/* Under the lock: were the rows checked by the schema in force? */
static int check_schema(const struct commit *c, struct sc_err *err)
{
	struct sc_schema_mark now = sc_settings_schema(&c->log->settings);
	uint64_t checked = c->rows->schema_version;

	if ((checked ? checked : c->log->mark.version) == now.version)
		return 0;
	sc_err_set(err, SC_E_STALE, "cannot append to", "its schema was changed at offset %llu",
		   (unsigned long long)now.from);
	sc_log_err(c->log, err);
	sc_err_next(err, "check the rows again");
	return SC_E_STALE;
}

/* Under the lock: may these rows be appended now? 1: they are duplicates. */
static int check_state(struct commit *c, struct sc_producer *dup, struct sc_err *err)
{
	const struct sc_log_rows *rows = c->rows;
	int rc;

	if (rows->if_next && rows->if_next != c->state.next) {
		refuse(c->log, err, "if_next",
		       "the next offset is asked to be %llu, but it is %llu", rows->if_next,
		       c->state.next);
		sc_err_field_u64(err, "next_offset", c->state.next);
		sc_err_next(err, "look at what was appended meanwhile, and try with that");
		return SC_E_REFUSED;
	}
	if (rows->producer.len) {
		rc = check_producer(c, dup, err);
		if (rc != 0)
			return rc;
	}
	if (rows->source.len) {
		rc = check_source(c, err);
		if (rc < 0)
			return rc;
	}
	if (rows->offsets && rows->offsets[0] < c->state.next) {
		refuse(c->log, err, "not_rising", "offset %llu is below the next one, %llu",
		       rows->offsets[0], c->state.next);
		sc_err_field_u64(err, "next_offset", c->state.next);
		return SC_E_REFUSED;
	}
	if (c->state.next > UINT64_MAX - 2 - rows->count)
		return refuse(c->log, err, "full",
			      "no offsets are left: %llu rows do not fit above %llu", rows->count,
			      c->state.next);
	return 0;
}

static int make_exts(struct commit *c, struct sc_err *err)
{
	const struct sc_log_rows *rows = c->rows;
	struct sc_schema_mark mark = sc_settings_schema(&c->log->settings);
	struct sc_bytes *ext = &c->log->ext;

	sc_bytes_clear(ext);
	if (mark.version > 1 && c->state.last < mark.from && sc_ext_put_schema(ext, &mark) < 0)
		return sc_err_nomem(err, "cannot append");
	c->first = rows->offsets ? rows->offsets[0] : c->state.next;
	c->last = rows->offsets ? rows->offsets[rows->count - 1] : c->state.next + rows->count - 1;
	if (rows->source.len && sc_ext_put_source(ext, rows->source, rows->source_offset) < 0)
		return sc_err_nomem(err, "cannot append");
	if (rows->producer.len) {
		struct sc_producer p = {
			.epoch = rows->producer_epoch,
			.seq_first = rows->producer_seq,
			.seq_last = last_seq(rows),
			.first = c->first,
			.last = c->last,
			.commit = c->state.commit + 1,
		};

		if (sc_ext_put_producer(ext, rows->producer, &p) < 0)
			return sc_err_nomem(err, "cannot append");
	}
	return 0;
}

/* All lines, behind c->lead bytes for the first block's front. */
static int format_lines(struct commit *c, struct sc_err *err)
{
	const struct sc_log_rows *rows = c->rows;
	struct sc_bytes *out = &c->log->out;
	const char *msg = rows->text.data;
	char *at;

	c->lead = SC_BLOCK_HEAD + c->log->ext.len;
	sc_bytes_clear(out);
	if (sc_bytes_reserve(out, c->lead + rows->text.len +
					  rows->count * (SC_LINE_HEAD_MAX + TAIL_LEN)) < 0)
		return sc_err_nomem(err, "cannot append");
	if (c->log->ext.len)
		memcpy(out->data + SC_BLOCK_HEAD, c->log->ext.data, c->log->ext.len);
	at = out->data + c->lead;
	for (size_t i = 0; i < rows->count; i++) {
		uint64_t offset = rows->offsets ? rows->offsets[i] : c->first + i;

		at += sc_line_head(at, offset);
		memcpy(at, msg, rows->lens[i]);
		msg += rows->lens[i];
		at += rows->lens[i];
		*at++ = ']';
		*at++ = '\n';
	}
	out->len = (size_t)(at - out->data);
	return 0;
}

static size_t line_len(const struct sc_log_rows *rows, uint64_t first, size_t i)
{
	char head[SC_LINE_HEAD_MAX];

	return sc_line_head(head, rows->offsets ? rows->offsets[i] : first + i) + rows->lens[i] +
	       TAIL_LEN;
}

/* A look-up entry, noted for the index: every SC_SPARSE_BYTES or so. */
static int note_place(struct commit *c, const struct sc_block *block, struct sc_err *err)
{
	struct sc_state *s = &c->state;
	struct sc_place place = { s->journal, s->end, s->rows, s->bytes, block->appended_us };

	if (s->end - s->sparse_at < SC_SPARSE_BYTES)
		return 0;
	if (sc_bytes_put(&c->log->places, &block->first, sizeof(block->first)) < 0 ||
	    sc_bytes_put(&c->log->places, &place, sizeof(place)) < 0)
		return sc_err_nomem(err, "cannot append");
	s->sparse_at = s->end;
	return 0;
}

/* One block, whose body is out[BODY, BODY + block->body_len): written behind the one before. */
static int write_block(struct commit *c, struct sc_block *block, size_t body, struct sc_err *err)
{
	char *front = c->log->out.data + body - block->ext_len - SC_BLOCK_HEAD;
	char lent[SC_BLOCK_HEAD];
	struct sc_state *s = &c->state;
	int rc = note_place(c, block, err);

	if (rc < 0)
		return rc;
	memcpy(lent, front, sizeof(lent));
	block->prev = s->hash;
	sc_block_seal(front, block);
	c->wrote = true;
	rc = sc_journal_write(c->log, front, sc_block_size(block), s->end, err);
	memcpy(front, lent, sizeof(lent));
	if (rc < 0)
		return rc;
	s->hash = block->hash;
	s->end += sc_block_size(block);
	s->rows += block->rows;
	s->bytes += block->body_len;
	return 0;
}

static int write_blocks(struct commit *c, int64_t now_us, struct sc_err *err)
{
	const struct sc_log_rows *rows = c->rows;
	size_t at = c->lead, row = 0, end = c->log->out.len;
	int rc = 0;

	sc_bytes_clear(&c->log->places);
	while (rc == 0 && at < end) {
		size_t from = row, len = 0;
		struct sc_block block = { .appended_us = now_us, .commit = c->state.commit + 1 };

		if (end - at <= SC_BLOCK_BODY_MAX) {
			len = end - at;
			row = rows->count;
		} else {
			do {
				len += line_len(rows, c->first, row++);
			} while (row < rows->count &&
				 len + line_len(rows, c->first, row) <= SC_BLOCK_BODY_MAX);
		}
		block.first = rows->offsets ? rows->offsets[from] : c->first + from;
		block.last = rows->offsets ? rows->offsets[row - 1] : c->first + row - 1;
		block.rows = (uint32_t)(row - from);
		block.body_len = (uint32_t)len;
		block.ext_len = at == c->lead ? (uint32_t)c->log->ext.len : 0;
		block.more = at + len < end;
		rc = write_block(c, &block, at, err);
		at += len;
	}
	return rc;
}

/* The journal that this commit goes to: no journal holds rows of two schemas. */
static int choose_journal(struct commit *c, struct sc_err *err)
{
	const struct sc_settings *settings = &c->log->settings;
	struct sc_state *s = &c->state;

	if (s->journal != s->next && (s->suspect || s->end >= settings->journal_bytes ||
				      s->journal < sc_settings_schema(settings).from))
		return sc_journal_rotate(c->log, c->txn, s, err);
	return sc_journal_use(c->log, s, err);
}

static int put_index(struct commit *c, struct sc_err *err)
{
	struct sc_bytes *places = &c->log->places;
	struct sc_span exts = sc_span(c->log->ext.data, c->log->ext.len);
	struct sc_ext ext;
	int rc = 0;

	for (size_t at = 0; rc == 0 && at < places->len;
	     at += sizeof(uint64_t) + sizeof(struct sc_place))
		rc = sc_kv_put(c->txn, SC_T_BLOCKS, sc_span(places->data + at, sizeof(uint64_t)),
			       sc_span(places->data + at + sizeof(uint64_t),
				       sizeof(struct sc_place)),
			       err);
	while (rc == 0 && sc_ext_next(&exts, &ext))
		rc = sc_source_apply(c->txn, &ext, err);
	return rc;
}

/*
 * A sync failed: nobody may take the journal's end for granted any more, in this process or
 * another.
 */
static void suspect(struct commit *c)
{
	struct sc_state state;
	struct sc_kv_txn *txn = NULL;

	c->log->poisoned = true;
	sc_journal_wipe(c->log, c->begin);
	sc_index_abort(c->log, &c->txn);
	sc_journal_close(c->log);
	if (sc_index_begin(c->log, &txn, &state, NULL) < 0)
		return;
	state.suspect = 1;
	sc_index_end(c->log, &txn, &state, 0, NULL);
}

/* Write, sync, index; on failure nothing of it stays. */
static int commit_rows(struct commit *c, int64_t now_us, struct sc_err *err)
{
	struct sc_state *s = &c->state;
	int rc = choose_journal(c, err);

	if (rc < 0)
		return rc;
	rc = make_exts(c, err);
	if (rc == 0)
		rc = format_lines(c, err);
	if (rc < 0)
		return rc;
	c->begin = s->end;
	sc_journal_ahead(c->log, s->end, c->log->out.len);
	rc = write_blocks(c, now_us, err);
	if (rc < 0)
		return rc;
	rc = sc_journal_sync(c->log, err);
	if (rc < 0) {
		suspect(c);
		return rc;
	}
	if (s->first == 0) {
		s->first = c->first;
		s->first_us = now_us;
	}
	s->last = c->last;
	s->next = c->last + 1;
	s->last_us = now_us;
	s->commit++;
	return put_index(c, err);
}

int sc_log_append(struct sc_log *log, const struct sc_log_rows *rows,
		  struct sc_log_commit *ret_commit, struct sc_err *err)
{
	struct commit c = { .log = log, .rows = rows };
	struct sc_producer dup = { 0 };
	int64_t now_us;
	int rc = check_rows(log, rows, err);

	if (rc == 0)
		rc = sc_index_begin(log, &c.txn, &c.state, err);
	if (rc < 0)
		return rc;
	sc_journal_leave_out(log, &c.state);
	rc = check_state(&c, &dup, err);
	if (rc == 0)
		rc = check_schema(&c, err);
	if (rc != 0) {
		sc_index_abort(log, &c.txn);
		if (rc == 1)
			*ret_commit = (struct sc_log_commit){ .first = dup.first,
							      .last = dup.last,
							      .duplicate = true };
		return rc < 0 ? rc : 0;
	}
	now_us = sc_wall_us();
	if (now_us < c.state.last_us)
		now_us = c.state.last_us; /* times never fall, though the clock may */
	rc = commit_rows(&c, now_us, err);
	if (rc == 0)
		rc = sc_index_end(log, &c.txn, &c.state, c.begin, err);
	else if (c.wrote && !log->poisoned)
		sc_journal_wipe(log, c.begin);
	if (rc < 0) {
		if (c.txn)
			sc_index_abort(log, &c.txn);
		/* what was written may be there all the same, wherever the folder went: in doubt */
		return c.wrote || log->poisoned ? rc : sc_log_or_gone(log, rc, err);
	}
	*ret_commit = (struct sc_log_commit){
		.first = c.first,
		.last = c.last,
		.appended_us = now_us,
		.lines = sc_span(log->out.data + c.lead, log->out.len - c.lead),
	};
	return 0;
}
