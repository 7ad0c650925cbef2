/* history.c: the rows of a log and of its archive as one sequence. */
#include "log/history.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/file.h"
#include "json/line.h"
#include "log/archive_internal.h"
#include "log/archive_url.h"
#include "log/log_internal.h"

#define TRIED "cannot read"

struct sc_history {
	const struct sc_store_settings *settings;
	char *url;                  /* where the archive is looked for; NULL: nowhere */
	struct sc_err *unknown;     /* with an empty URL: why the log's note does not tell that */
	struct sc_log *log;         /* NULL: an archive alone */
	struct sc_archive *archive; /* NULL: not needed yet */
	/* of the two at most one is open */
	struct sc_reader *log_reader;
	struct sc_archive_reader *archive_reader;
	uint64_t
		seam; /* the log holds the rows from here on, as it was when the archive was gone to */
	uint64_t next; /* of the next row, or lower when rows are missing there */
	uint64_t end;  /* what is wanted */
	uint64_t gap;  /* one that ends there was seen once */
	bool stale;    /* the archive is to be seen anew before it is said what it holds */
};

static char *copy(const char *text)
{
	size_t size = strlen(text) + 1;
	char *own = sc_malloc(size);

	return own ? memcpy(own, text, size) : NULL;
}

/* The archive that sc-seal noted in the log. A note that does not tell it matters when the archive
 * is needed, as an archive that cannot be reached: what the log holds is there all the same. */
static int take_note(struct sc_history *h, struct sc_err *err)
{
	struct sc_archive_note note = { .url = NULL };
	struct sc_err why;
	int rc = sc_archive_note_read(h->log, &note, &why);

	if (rc == 1 && note.url) {
		h->url = copy(note.url);
		rc = h->url ? 0 : sc_err_nomem(err, TRIED);
	} else if (rc == SC_E_DATA) {
		h->url = copy("");
		h->unknown = sc_malloc(sizeof(*h->unknown));
		rc = h->url && h->unknown ? 0 : sc_err_nomem(err, TRIED);
		if (rc == 0)
			*h->unknown = why;
	} else if (rc < 0 && err) {
		*err = why;
	}
	sc_archive_note_done(&note);
	return rc < 0 ? rc : 0;
}

int sc_history_open(const char *place, const char *archive,
		    const struct sc_store_settings *settings, struct sc_history **ret_history,
		    struct sc_err *err)
{
	struct sc_history *h = sc_calloc(1, sizeof(*h));
	int rc;

	if (!h)
		return sc_err_nomem(err, TRIED);
	h->settings = settings;
	h->end = UINT64_MAX;
	if (sc_store_is_url(place)) {
		rc = sc_archive_open_strict(place, settings, &h->archive, err);
	} else {
		rc = sc_log_open(place, SC_LOG_READ, &h->log, err);
		if (rc == 0 && !archive) {
			rc = take_note(h, err);
		} else if (rc == 0 && *archive) {
			h->url = copy(archive);
			if (!h->url)
				rc = sc_err_nomem(err, TRIED);
		}
	}
	if (rc < 0) {
		sc_history_close(h);
		return rc;
	}
	*ret_history = h;
	return 0;
}

static void leave(struct sc_history *h)
{
	sc_reader_close(h->log_reader);
	sc_archive_reader_close(h->archive_reader);
	h->log_reader = NULL;
	h->archive_reader = NULL;
}

void sc_history_close(struct sc_history *h)
{
	if (!h)
		return;
	leave(h);
	sc_archive_close(h->archive);
	sc_log_close(h->log);
	free(h->url);
	free(h->unknown);
	free(h);
}

const char *sc_history_name(const struct sc_history *h)
{
	return h->log ? sc_log_path(h->log) : h->archive->url;
}

struct sc_log *sc_history_log(const struct sc_history *h)
{
	return h->log;
}

uint64_t sc_history_offset(const struct sc_history *h)
{
	return h->log_reader ? sc_reader_offset(h->log_reader) : h->next;
}

/* The archive as it is now. */
static int look(struct sc_history *h, struct sc_archive_state *ret_state, struct sc_err *err)
{
	int rc = 0;

	if (h->unknown) {
		if (err)
			*err = *h->unknown;
		return h->unknown->code;
	}
	if (h->archive && h->stale) {
		rc = sc_archive_refresh(h->archive, err);
	} else if (!h->archive) {
		rc = sc_archive_find(h->url, sc_log_name(h->log), h->settings, &h->archive, err);
		if (rc == 0 && strcmp(h->archive->stream_id, sc_log_stream_id(h->log)) != 0) {
			sc_err_set(err, SC_E_CONFIG, TRIED,
				   "the archive '%s' is that of another log", h->archive->url);
			sc_log_err(h->log, err);
			sc_err_next(err, "give this log's archive, or --archive none");
			sc_archive_close(h->archive);
			h->archive = NULL;
			rc = SC_E_CONFIG;
		}
	}
	if (rc < 0)
		return rc;
	h->stale = false;
	sc_archive_state(h->archive, ret_state);
	return 0;
}

/* Of the row of RUN that has N of its rows before it. */
static uint64_t offset_of(const struct sc_run *run, uint64_t n)
{
	const char *at = run->lines.data, *end = at + run->lines.len;
	struct sc_line line;

	if (run->last - run->first + 1 == run->rows)
		return run->first + n;
	while (n-- > 0 && at < end) {
		at = memchr(at, '\n', (size_t)(end - at));
		at = at ? at + 1 : end;
	}
	return sc_line_parse(sc_span(at, (size_t)(end - at)), true, &line) ? line.offset
									   : run->last;
}

/*
 * Read on in the archive behind segment I - 1, in what was shipped of journals. The row that has N
 * rows there before it: 1 and its offset; or 0, and *ret_rows is how many there are.
 */
static int tail_row(struct sc_history *h, size_t i, uint64_t n, uint64_t *ret_offset,
		    uint64_t *ret_rows, struct sc_err *err)
{
	const struct sc_archive *archive = h->archive;
	struct sc_archive_reader *reader = NULL;
	struct sc_archive_state kept;
	struct sc_run run;
	uint64_t from = i ? archive->items[i - 1].last + 1 : 0, rows = 0;
	int rc;

	sc_archive_state(archive, &kept);
	*ret_rows = 0;
	if (!archive->ships.count || from >= kept.next_offset)
		return 0;
	rc = sc_archive_reader_open(h->archive, from, &reader, err);
	while (rc >= 0 && (rc = sc_archive_reader_next(reader, 0, &run, err)) == 1) {
		if (n < rows + run.rows) {
			*ret_offset = offset_of(&run, n - rows);
			break;
		}
		rows += run.rows;
	}
	sc_archive_reader_close(reader);
	*ret_rows = rows;
	return rc;
}

/* How many rows were appended up to the archive's last segment. */
static int sealed_rows(struct sc_history *h, uint64_t *ret_rows, struct sc_err *err)
{
	struct sc_archive *archive = h->archive;
	struct sc_archive_segment *segment = NULL;
	const struct sc_segment_info *info;
	int rc;

	*ret_rows = 0;
	if (!archive->count)
		return 0;
	rc = sc_archive_segment_open(archive, &archive->items[archive->count - 1], &segment, err);
	if (rc == 0) {
		info = sc_segment_info(sc_archive_segment_inner(segment));
		*ret_rows = info->tie.rows_before + info->rows;
	}
	sc_archive_segment_close(segment);
	return rc;
}

/*
 * The rows that the archive does not hold from its end on up to the log's first: were there any?
 * Both count the rows that were ever appended, so offsets that were never given are told from rows
 * that are lost. 1: there are none.
 */
static int joined(struct sc_history *h, const struct sc_archive_state *kept,
		  const struct sc_log_state *state, struct sc_err *err)
{
	uint64_t rows, more, offset;
	int rc = sealed_rows(h, &rows, err);

	if (rc == 0)
		rc = tail_row(h, h->archive->count, UINT64_MAX, &offset, &more, err);
	if (rc < 0)
		return rc;
	if (!h->archive->count && kept->first_offset > 1)
		return state->rows_before == 0; /* it is not known how many came before its first */
	return rows + more >= state->rows_before;
}

static int refuse_gap(const struct sc_history *h, uint64_t first, uint64_t next, struct sc_err *err)
{
	sc_err_set(err, SC_E_REFUSED, TRIED,
		   "neither the log nor its archive '%s' holds the rows from offset %llu to %llu",
		   h->archive->url, (unsigned long long)first, (unsigned long long)next - 1);
	sc_log_err(h->log, err);
	sc_err_next(err, "end before them, at %llu, or begin behind them, at %llu",
		    (unsigned long long)first - 1, (unsigned long long)next);
	sc_err_field_str(err, "why", "gap");
	sc_err_field_u64(err, "first", first);
	sc_err_field_u64(err, "last", next - 1);
	return SC_E_REFUSED;
}

/*
 * h->next is below what the log holds. 1: it is read in the archive; 0: ask the log again, from
 * where h->next is now.
 */
static int enter_archive(struct sc_history *h, struct sc_err *err)
{
	bool anew = h->stale || !h->archive;
	struct sc_archive_state kept;
	struct sc_log_state state;
	int rc = look(h, &kept, err);

	if (rc == 0)
		rc = sc_log_state(h->log, &state, err);
	if (rc < 0)
		return rc;
	if (h->next >= state.first_offset)
		return 0;
	h->seam = state.first_offset;
	if (h->end > kept.next_offset && kept.next_offset < h->seam) {
		rc = joined(h, &kept, &state, err);
		if (rc == 0 && !(anew && h->gap == h->seam)) {
			/* they may have come to the archive, and gone from the log, since we saw
			 * the archive: see it again */
			h->gap = h->seam;
			h->stale = true;
			return 0;
		}
		if (rc == 0)
			rc = refuse_gap(h, kept.next_offset, h->seam, err);
		if (rc < 0)
			return rc;
	}
	if (h->next >= kept.next_offset) {
		h->next = h->seam; /* no row was ever there */
		return 0;
	}
	rc = sc_archive_reader_open(h->archive, h->next, &h->archive_reader, err);
	return rc < 0 ? rc : 1;
}

/* Go to where h->next is. */
static int enter(struct sc_history *h, struct sc_err *err)
{
	struct sc_log_state state;
	struct sc_err why;
	int rc;

	leave(h);
	h->gap = 0;
	if (!h->log)
		return sc_archive_reader_open(h->archive, h->next, &h->archive_reader, err);
	for (;;) {
		rc = sc_reader_open(h->log, h->next, &h->log_reader, &why);
		if (rc != SC_E_REFUSED || !h->url)
			break;
		rc = sc_log_state(h->log, &state, err);
		if (rc < 0)
			return rc;
		if (h->next > state.next_offset) {
			rc = SC_E_REFUSED;
			break;
		}
		rc = enter_archive(h, err);
		if (rc != 0)
			return rc < 0 ? rc : 0;
	}
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* The first offset of all, once it was seen where that is. */
static int earliest(struct sc_history *h, uint64_t *ret_first, struct sc_err *err)
{
	struct sc_archive_state kept;
	struct sc_log_state state;
	int rc;

	if (!h->log) {
		sc_archive_state(h->archive, &kept);
		*ret_first = kept.first_offset;
		return 0;
	}
	rc = sc_log_state(h->log, &state, err);
	if (rc < 0)
		return rc;
	*ret_first = state.first_offset;
	if (!h->url || state.rows_before == 0)
		return 0; /* the log holds all that there ever was */
	rc = look(h, &kept, err);
	if (rc == 0 && kept.first_offset < kept.next_offset && kept.first_offset < *ret_first)
		*ret_first = kept.first_offset;
	return rc;
}

int sc_history_begin(struct sc_history *h, uint64_t from, uint64_t end, struct sc_err *err)
{
	int rc = 0;

	h->next = from;
	h->end = end;
	if (!from)
		rc = earliest(h, &h->next, err);
	return rc < 0 ? rc : enter(h, err);
}

/* The archive was read to its end: no row is between the last one and where it says that it
 * ends. */
static void pass_end(struct sc_history *h)
{
	struct sc_archive_state kept;

	sc_archive_state(h->archive, &kept);
	if (h->next < kept.next_offset && h->next < h->seam)
		h->next = kept.next_offset < h->seam ? kept.next_offset : h->seam;
}

int sc_history_next(struct sc_history *h, size_t max_bytes, struct sc_run *ret_run,
		    struct sc_err *err)
{
	struct sc_err why;
	int rc;

	for (;;) {
		if (h->log_reader) {
			h->next = sc_reader_offset(h->log_reader);
			rc = sc_reader_next(h->log_reader, max_bytes, ret_run, &why);
			if (rc != SC_E_REFUSED || !h->url) {
				if (rc < 0 && err)
					*err = why;
				break;
			}
		} else {
			/* the log is nearer */
			rc = h->log && h->next >= h->seam
				     ? 0
				     : sc_archive_reader_next(h->archive_reader, max_bytes, ret_run,
							      err);
			if (rc != 0 || !h->log)
				break;
			pass_end(h);
		}
		h->stale = true;
		rc = enter(h, err);
		if (rc < 0)
			return rc;
	}
	if (rc == 1)
		h->next = ret_run->last + 1;
	return rc;
}

int sc_history_bounds(struct sc_history *h, uint64_t *ret_first, uint64_t *ret_next,
		      struct sc_err *err)
{
	struct sc_archive_state kept = { .first_offset = 0 };
	struct sc_log_state state;
	int rc;

	if (h->archive)
		sc_archive_state(h->archive, &kept);
	if (!h->log) {
		*ret_first = kept.first_offset;
		*ret_next = kept.next_offset;
		return 0;
	}
	rc = sc_log_state(h->log, &state, err);
	if (rc < 0)
		return rc;
	*ret_first = kept.first_offset < kept.next_offset && kept.first_offset < state.first_offset
			     ? kept.first_offset
			     : state.first_offset;
	*ret_next = state.next_offset;
	return 0;
}

/*
 * The first offset appended at or after WHEN, when that may lie below the log's first row: of the
 * archive's, or, when all of those are older, of the log's. When rows are missing between the two
 * it is not known which, so it is theirs.
 */
static int archived_at(struct sc_history *h, int64_t when_us, uint64_t *ret_offset,
		       struct sc_err *err)
{
	struct sc_archive_state kept;
	struct sc_log_state state;
	int rc = look(h, &kept, err);

	if (rc == 0)
		rc = sc_archive_offset_at(h->archive, when_us, ret_offset, err);
	if (rc == 0)
		rc = sc_log_state(h->log, &state, err);
	if (rc == 0 && *ret_offset == kept.next_offset && kept.next_offset >= state.first_offset)
		rc = sc_log_offset_at(h->log, when_us, ret_offset, err);
	return rc;
}

/* Is a row that was appended at or after WHEN perhaps not in the log? */
static bool below_log(const struct sc_log_state *state, int64_t when_us)
{
	return state->rows_before && (!state->rows || when_us <= state->first_us);
}

int sc_history_range(struct sc_history *h, const struct sc_range *range, bool follow,
		     uint64_t *ret_from, uint64_t *ret_end, struct sc_err *err)
{
	struct sc_log_state state;
	uint64_t from, end, at;
	int rc;

	if (!h->log)
		return sc_archive_range(h->archive, range, ret_from, ret_end, err);
	rc = sc_log_state(h->log, &state, err);
	if (rc == 0)
		rc = sc_range_resolve(range, h->log, follow, &from, &end, err);
	if (rc < 0)
		return rc;
	if (h->url && range->from < state.first_offset &&
	    (!range->since_given || below_log(&state, range->since_us))) {
		rc = range->from ? 0 : earliest(h, &from, err);
		if (range->from)
			from = range->from;
		if (rc == 0 && range->since_given) {
			rc = archived_at(h, range->since_us, &at, err);
			from = rc == 0 && at > from ? at : from;
		}
		if (rc == 0 && range->until_given && below_log(&state, range->until_us)) {
			rc = archived_at(h, range->until_us, &at, err);
			end = rc == 0 && at < end ? at : end;
		}
		if (rc < 0)
			return rc;
	}
	*ret_from = from;
	*ret_end = end;
	return 0;
}

/* Of a segment of the archive: how many rows come before it. */
static int rows_before(struct sc_archive *archive, size_t i, uint64_t *ret_rows, struct sc_err *err)
{
	struct sc_archive_segment *segment = NULL;
	int rc = sc_archive_segment_open(archive, &archive->items[i], &segment, err);

	if (rc == 0)
		*ret_rows = sc_segment_info(sc_archive_segment_inner(segment))->tie.rows_before;
	sc_archive_segment_close(segment);
	return rc;
}

/* The row of the archive's segments, or between them, that has N rows before it. 1, or 0: none
 * has. */
static int sealed_row(struct sc_history *h, uint64_t n, uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_archive *archive = h->archive;
	struct sc_archive_segment *segment = NULL;
	struct sc_segment_place place;
	size_t low = 0, high = archive->count;
	uint64_t before = 0, rows = 0;
	int rc = 0;

	if (high == 0)
		return 0;
	while (rc == 0 && high - low > 1) { /* the last one with at most N rows before it */
		size_t mid = low + (high - low) / 2;

		rc = rows_before(archive, mid, &before, err);
		if (before <= n)
			low = mid;
		else
			high = mid;
	}
	if (rc == 0)
		rc = rows_before(archive, low, &before, err);
	if (rc == 0 && n < before) { /* then LOW is 0: only what was shipped can be before it */
		rc = sc_archive_rows_shipped(archive, 0, archive->items[0].first, &rows, err);
		if (rc == 0 && rows)
			return tail_row(h, 0, n + rows > before ? n + rows - before : 0, ret_offset,
					&rows, err);
	}
	if (rc == 0)
		rc = sc_archive_segment_open(archive, &archive->items[low], &segment, err);
	if (rc == 0)
		rc = sc_segment_find_row(sc_archive_segment_inner(segment),
					 n > before ? n - before : 0, &place, err);
	if (rc == 1)
		*ret_offset = place.offset;
	else if (rc == 0)
		rows = sc_segment_info(sc_archive_segment_inner(segment))->rows;
	sc_archive_segment_close(segment);
	if (rc != 0 || low + 1 == archive->count)
		return rc;
	rc = tail_row(h, low + 1, n - before - rows, ret_offset, &rows, err);
	if (rc == 0) { /* they are missing, as reading there will say */
		*ret_offset = archive->items[low].last + 1;
		rc = 1;
	}
	return rc;
}

/* The archive's row that has N rows before it, or its first; the end when there is none. */
static int archived_row(struct sc_history *h, uint64_t n, uint64_t *ret_offset, struct sc_err *err)
{
	struct sc_archive_state kept;
	uint64_t rows, more, at;
	int rc = look(h, &kept, err);

	if (rc < 0)
		return rc;
	at = kept.next_offset;
	rc = sealed_row(h, n, &at, err);
	if (rc == 0) {
		rc = sealed_rows(h, &rows, err);
		if (rc == 0)
			rc = tail_row(h, h->archive->count, n > rows ? n - rows : 0, &at, &more,
				      err);
	}
	if (rc < 0)
		return rc;
	*ret_offset = at > kept.first_offset ? at : kept.first_offset;
	return 0;
}

int sc_history_last(struct sc_history *h, uint64_t count, uint64_t *ret_from, struct sc_err *err)
{
	struct sc_log_state state;
	uint64_t all;
	int rc;

	if (h->log && h->url) {
		rc = sc_log_state(h->log, &state, err);
		if (rc < 0)
			return rc;
		all = state.rows_before + state.rows;
		if (count > state.rows && state.rows_before)
			return archived_row(h, count < all ? all - count : 0, ret_from, err);
	}
	return sc_range_last(h->log, count, ret_from, err);
}

/* One part of what is to be proved, from *AT on, where h stands. *AT becomes the end of it. 0,
 * or 1: retention passed it meanwhile, nothing counts. */
static int prove(struct sc_history *h, uint64_t *at, XXH3_state_t *all, struct sc_log_proof *proof,
		 struct sc_err *err)
{
	uint64_t end = h->end;
	struct sc_log_state before, now;
	struct sc_err other;
	int rc;

	*at = h->next;
	if (h->archive_reader) {
		end = h->seam < end ? h->seam : end;
		rc = sc_archive_prove(h->archive, *at, end, all, proof, err);
		*at = end;
		return rc;
	}
	rc = sc_log_state(h->log, &before, err);
	if (rc < 0)
		return rc;
	rc = sc_log_prove(sc_log_path(h->log), *at, end, all, proof, err);
	if (sc_log_state(h->log, &now, &other) == 0 &&
	    (rc == SC_E_REFUSED || now.rows_before > before.rows_before))
		return 1;
	*at = end;
	return rc;
}

int sc_history_verify(struct sc_history *h, uint64_t from, uint64_t end,
		      struct sc_log_proof *ret_proof, struct sc_err *err)
{
	struct sc_log_proof proof = { .rows = 0 }, part;
	XXH3_state_t *all, *saved;
	uint64_t at = from;
	int rc = 0;

	if (!h->log)
		return sc_archive_verify(h->archive, from, end, ret_proof, err);
	if (!h->url && from < end)
		return sc_log_verify(sc_log_path(h->log), from, end - 1, ret_proof, err);
	all = XXH3_createState();
	saved = XXH3_createState();
	if (!all || !saved)
		rc = sc_err_nomem(err, "cannot verify");
	else
		XXH3_128bits_reset(all);
	h->end = end;
	while (rc == 0 && at < end) {
		XXH3_copyState(saved, all);
		part = proof;
		h->next = at;
		rc = enter(h, err);
		if (rc == 0)
			rc = prove(h, &at, all, &part, err);
		h->stale = true;
		if (rc == 0) {
			proof = part;
		} else if (rc == 1) {
			XXH3_copyState(all, saved);
			rc = 0;
		}
	}
	leave(h);
	if (rc == 0) {
		sc_log_proof_hash(all, &proof);
		*ret_proof = proof;
	}
	XXH3_freeState(saved);
	XXH3_freeState(all);
	return rc;
}
