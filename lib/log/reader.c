/*
 * reader.c: rows in order as runs of lines.
 *
 * A reader stands in a segment, or at a position in a journal, where it reads blocks up to where
 * the published state, or the journal's entry, says that it ends: never further, since what stands
 * behind may not be on disk yet, or was never acknowledged. Every block's and frame's hash is
 * checked before a line of it is handed out. It holds the file's descriptor, so an unlinked one
 * stays readable; at its end, or where a file is not there any more, the next offset is looked up
 * again, wherever it is by then.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "log/log_internal.h"

#define CHUNK (256u << 10)

struct sc_reader {
	struct sc_log *log;
	uint64_t offset;  /* of the next row, or lower when rows are missing there */
	uint64_t journal; /* 0 = none is open */
	uint64_t folders; /* of the log when it was opened */
	int fd;
	struct sc_tier *tier; /* or this is what is read */
	struct sc_walk walk;
	/* what is left of the block that was read last */
	struct sc_run rest;
};

static int refuse(const struct sc_reader *reader, const char *why, uint64_t bound,
		  const char *bound_name, struct sc_err *err)
{
	bool ahead = !strcmp(why, "ahead");

	sc_err_set(err, SC_E_REFUSED, "cannot read",
		   ahead ? "offset %llu is ahead of the end, %llu"
			 : "offset %llu is not held any more; the earliest is %llu",
		   (unsigned long long)reader->offset, (unsigned long long)bound);
	sc_log_err(reader->log, err);
	if (ahead)
		sc_err_next(err, "start at %llu to get what comes next", (unsigned long long)bound);
	else
		sc_err_next(err, "start at the earliest, or read the archive");
	sc_err_field_str(err, "why", why);
	sc_err_field_u64(err, "offset", reader->offset);
	sc_err_field_u64(err, bound_name, bound);
	return SC_E_REFUSED;
}

static uint64_t earliest(const struct sc_state *state)
{
	return state->first ? state->first : state->next;
}

static int check_offset(const struct sc_reader *reader, const struct sc_state *state,
			struct sc_err *err)
{
	if (reader->offset < state->floor)
		return refuse(reader, "evicted", earliest(state), "earliest", err);
	if (reader->offset > state->next)
		return refuse(reader, "ahead", state->next, "end_offset", err);
	return 0;
}

static void leave_tier(struct sc_reader *reader)
{
	sc_tier_close(reader->tier);
	reader->tier = NULL;
}

/* Open the journal that holds the next row at POS. SC_E_NOLOG: it is not there. */
static int enter(struct sc_reader *reader, const struct sc_state *state, uint64_t journal,
		 uint64_t pos, struct sc_err *err)
{
	uint64_t end, next;
	int fd = -1, rc = sc_find_journal(reader->log, state, journal, &end, &next, err);

	if (rc == 0)
		rc = sc_journal_open(reader->log, journal, false, &fd, err);
	if (rc < 0)
		return rc;
	leave_tier(reader);
	sc_close(&reader->fd);
	reader->fd = fd;
	reader->journal = journal;
	reader->folders = reader->log->folders;
	sc_walk_start(&reader->walk, reader->log, journal, fd, pos, end, CHUNK);
	return 0;
}

/* Open the segment that holds the next row. SC_E_NOLOG: it is not there. */
static int enter_tier(struct sc_reader *reader, const struct sc_sealed *segment, struct sc_err *err)
{
	struct sc_tier *tier = NULL;
	int rc = sc_tier_open(reader->log, segment->first, segment->last, &tier, err);

	if (rc < 0)
		return rc;
	sc_segment_seek(tier->segment, reader->offset);
	leave_tier(reader);
	reader->tier = tier;
	reader->journal = 0;
	sc_close(&reader->fd);
	return 0;
}

/*
 * The index has no row where the next one is due: those were never there, or a trim removed them
 * that has not published its floor yet, or died before it did. log.json had that floor before
 * anything went.
 */
static int check_floor(struct sc_reader *reader, struct sc_err *err)
{
	int rc = sc_settings_refresh(reader->log, err);

	if (rc == 0 && reader->offset < reader->log->settings.floor.offset)
		rc = refuse(reader, "evicted", reader->log->settings.floor.offset, "earliest", err);
	return rc;
}

static int rows_missing(const struct sc_reader *reader, uint64_t last, uint64_t begin,
			struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, "cannot read",
		   "the rows between offsets %llu and %llu are missing; the last good offset is "
		   "%llu",
		   (unsigned long long)last, (unsigned long long)begin, (unsigned long long)last);
	sc_log_err(reader->log, err);
	sc_err_next(err,
		    "put their files back and make the index anew (sc-log reindex), or read on "
		    "behind them, from %llu",
		    (unsigned long long)begin);
	sc_err_field_u64(err, "last_good", last);
	return sc_log_or_gone(reader->log, SC_E_DATA, err);
}

/*
 * No file has the offsets before SPOT. Were they never given, or given up, or are their rows
 * missing? That is so behind a reindex by hand. It is told by how many rows came before.
 */
static int check_gap(struct sc_reader *reader, const struct sc_spot *spot, struct sc_err *err)
{
	uint64_t rows = spot->sealed ? spot->segment.rows_before : spot->place.rows, known, last;
	struct sc_sealed before;
	int rc = 0;

	/* what comes before may be put together with SPOT's, or go, while we look */
	for (int i = 0; i < 2; i++) {
		rc = sc_find_before(reader->log, spot->begin, &before, err);
		if (rc < 0 || (rc == 1 && before.last >= spot->begin))
			return rc < 0 ? rc : 0;
		known = rc == 1 ? before.rows_before + before.rows : 0;
		if (known < reader->log->settings.floor.rows)
			known = reader->log->settings.floor.rows;
		if (rows <= known)
			return 0;
		last = rc == 1 ? before.last : reader->log->settings.floor.offset - 1;
		rc = check_floor(reader, err);
		if (rc < 0)
			return rc;
	}
	return rows_missing(reader, last, spot->begin, err);
}

/* The journal NEXT begins behind the offset that comes next: rows are missing unless it names the
 * end of ours. */
static int check_journal_gap(struct sc_reader *reader, uint64_t next, struct sc_err *err)
{
	struct sc_place place;
	struct sc_anchor anchor;
	int rc = sc_find_anchor(reader->log, next, &place, &anchor, err);

	if (rc < 0 ||
	    (anchor.prev_journal == reader->journal && anchor.prev_end == reader->walk.pos))
		return rc;
	rc = check_floor(reader, err);
	return rc < 0 ? rc : rows_missing(reader, reader->offset - 1, next, err);
}

/* Find what to begin with. 1, or 0: there is no row yet at or above the offset. */
static int seek(struct sc_reader *reader, struct sc_state *state, struct sc_err *err)
{
	struct sc_spot spot;
	int rc;

	if (reader->offset >= state->next)
		return 0;
	rc = sc_find_spot(reader->log, reader->offset, &spot, err);
	while (rc == 1) {
		if (spot.begin > reader->offset) {
			rc = check_floor(reader, err);
			if (rc == 0)
				rc = check_gap(reader, &spot, err);
			if (rc < 0)
				return rc;
		}
		rc = spot.sealed ? enter_tier(reader, &spot.segment, err)
				 : enter(reader, state, spot.place.journal, spot.place.at, err);
		if (rc != SC_E_NOLOG)
			return rc < 0 ? rc : 1;
		/* sealed, compacted or trimmed just now, or lost? */
		rc = sc_index_now(reader->log, state, err);
		if (rc == 0)
			rc = check_offset(reader, state, err);
		if (rc == 0)
			rc = sc_find_again(reader->log, reader->offset, &spot, err);
	}
	return rc == 0 ? check_floor(reader, err) : rc;
}

int sc_reader_open(struct sc_log *log, uint64_t from, struct sc_reader **ret_reader,
		   struct sc_err *err)
{
	struct sc_reader *reader;
	struct sc_state state;
	int rc = sc_index_now(log, &state, err);

	if (rc < 0)
		return rc;
	reader = sc_calloc(1, sizeof(*reader));
	if (!reader)
		return sc_err_nomem(err, "cannot read the log");
	reader->log = log;
	reader->fd = -1;
	sc_walk_init(&reader->walk);
	reader->offset = from ? from : earliest(&state);
	rc = check_offset(reader, &state, err);
	if (rc == 0)
		rc = seek(reader, &state, err);
	if (rc < 0) {
		sc_reader_close(reader);
		return rc;
	}
	*ret_reader = reader;
	return 0;
}

void sc_reader_close(struct sc_reader *reader)
{
	if (!reader)
		return;
	sc_walk_done(&reader->walk);
	sc_close(&reader->fd);
	leave_tier(reader);
	free(reader);
}

uint64_t sc_reader_offset(const struct sc_reader *reader)
{
	return reader->rest.rows ? reader->rest.first : reader->offset;
}

/* What was open is read to its end: has the log grown, here or in a next file? 1 go on, 0 no. */
static int advance(struct sc_reader *reader, struct sc_err *err)
{
	struct sc_state state;
	uint64_t end, next;
	int rc = sc_index_now(reader->log, &state, err);

	if (rc < 0 || reader->offset >= state.next)
		return rc < 0 ? rc : 0;
	if (reader->folders != reader->log->folders)
		reader->journal = 0; /* another copy of the log came to its path */
	if (!reader->journal) {
		rc = check_offset(reader, &state, err);
		return rc < 0 ? rc : seek(reader, &state, err);
	}
	rc = sc_find_journal(reader->log, &state, reader->journal, &end, &next, err);
	if (rc == SC_E_NOLOG || (rc == 0 && end < reader->walk.pos)) {
		/* our journal is gone, or is another one of that name: look the offset up again */
		reader->journal = 0;
		rc = check_offset(reader, &state, err);
		return rc < 0 ? rc : seek(reader, &state, err);
	}
	if (rc < 0)
		return rc;
	if (end > reader->walk.limit) {
		reader->walk.limit = end;
		return 1;
	}
	if (!next)
		return 0;
	if (reader->offset < state.floor) {
		rc = check_offset(reader, &state, err);
		if (rc < 0)
			return rc;
	}
	rc = next > reader->offset ? check_journal_gap(reader, next, err) : 0;
	if (rc == 0)
		rc = enter(reader, &state, next, 0, err);
	if (rc != SC_E_NOLOG)
		return rc < 0 ? rc : 1;
	/* it went meanwhile: look where its rows are */
	reader->journal = 0;
	rc = sc_index_now(reader->log, &state, err);
	if (rc == 0)
		rc = check_offset(reader, &state, err);
	return rc < 0 ? rc : seek(reader, &state, err);
}

/* N lines off the front of TEXT: their length. */
static size_t skip_lines(struct sc_span text, uint64_t n)
{
	const char *at = text.data, *end = text.data + text.len;

	while (n-- > 0 && at < end) {
		const char *lf = memchr(at, '\n', (size_t)(end - at));

		at = lf ? lf + 1 : end;
	}
	return (size_t)(at - text.data);
}

static uint64_t line_offset(struct sc_span text)
{
	uint64_t offset = 0;

	for (size_t i = 1; i < text.len && text.data[i] >= '0' && text.data[i] <= '9'; i++)
		offset = offset * 10 + (uint64_t)(text.data[i] - '0');
	return offset;
}

void sc_reader_drop(struct sc_run *rest, uint64_t offset)
{
	if (rest->last < offset) {
		rest->rows = 0;
		return;
	}
	if (rest->first < offset && rest->last - rest->first + 1 == rest->rows) {
		uint64_t n = offset - rest->first;
		size_t len = skip_lines(rest->lines, n);

		rest->lines = sc_span(rest->lines.data + len, rest->lines.len - len);
		rest->first = offset;
		rest->rows -= n;
		return;
	}
	while (rest->rows && rest->first < offset) {
		size_t len = skip_lines(rest->lines, 1);

		rest->lines = sc_span(rest->lines.data + len, rest->lines.len - len);
		rest->rows--;
		rest->first = line_offset(rest->lines);
	}
}

/* reader->rest becomes the next block's or frame's. 1, or 0: what is open is read to its end. */
static int next_here(struct sc_reader *reader, struct sc_err *err)
{
	struct sc_block block;
	const char *data;
	int rc;

	if (reader->tier) {
		rc = sc_segment_next(reader->tier->segment, 0, &reader->rest, err);
		if (rc == 0)
			leave_tier(reader);
		return rc;
	}
	while (reader->journal) {
		rc = sc_walk_next(&reader->walk, SC_WALK_CHECK, &block, &data, err);
		if (rc == SC_E_DATA && !sc_journal_is_named(reader->fd)) {
			reader->journal = 0; /* its rows are in another file by now */
			return 0;
		}
		if (rc == SC_E_DATA)
			return sc_walk_damage(reader->log, reader->journal, reader->walk.pos,
					      reader->offset - 1, err);
		if (rc != 1)
			return rc;
		if (block.rows == 0 || block.last < reader->offset)
			continue;
		reader->rest = (struct sc_run){
			.lines = sc_span(data + SC_BLOCK_HEAD + block.ext_len, block.body_len),
			.first = block.first,
			.last = block.last,
			.rows = block.rows,
			.appended_us = block.appended_us,
		};
		return 1;
	}
	return 0;
}

/* Fill reader->rest with the next rows that are for us. 1, 0 or an error. */
static int next_block(struct sc_reader *reader, struct sc_err *err)
{
	int rc;

	for (;;) {
		rc = next_here(reader, err);
		if (rc == 0)
			rc = advance(reader, err);
		else if (rc == 1)
			sc_reader_drop(&reader->rest, reader->offset);
		if (rc != 1 || reader->rest.rows)
			return rc;
	}
}

void sc_reader_cut(struct sc_run *rest, size_t max, struct sc_run *ret_run)
{
	const char *text = rest->lines.data;
	const char *lf = memrchr(text, '\n', max);
	size_t len;
	uint64_t rows = 0;

	if (!lf)
		lf = memchr(text + max, '\n', rest->lines.len - max);
	len = lf ? (size_t)(lf - text) + 1 : rest->lines.len;
	for (const char *at = text; at < text + len; rows++) {
		const char *end = memchr(at, '\n', (size_t)(text + len - at));

		at = end ? end + 1 : text + len;
	}
	*ret_run = *rest;
	ret_run->lines.len = len;
	ret_run->rows = rows;
	rest->lines = sc_span(text + len, rest->lines.len - len);
	rest->rows -= rows;
	if (rest->rows == 0)
		return;
	rest->first = line_offset(rest->lines);
	ret_run->last = rest->first - 1;
	if (ret_run->last - ret_run->first + 1 != rows) {
		/* there are gaps: read the last line's own number */
		const char *last = memrchr(text, '\n', len - 1);

		last = last ? last + 1 : text;
		ret_run->last = line_offset(sc_span(last, (size_t)(text + len - last)));
	}
}

int sc_reader_next(struct sc_reader *reader, size_t max_bytes, struct sc_run *ret_run,
		   struct sc_err *err)
{
	if (reader->rest.rows == 0) {
		int rc = next_block(reader, err);

		if (rc != 1)
			return rc;
	}
	if (max_bytes && reader->rest.lines.len > max_bytes) {
		sc_reader_cut(&reader->rest, max_bytes, ret_run);
	} else {
		*ret_run = reader->rest;
		reader->rest.rows = 0;
	}
	reader->offset = ret_run->last + 1;
	return 1;
}
