/* report.c: what was done, or would be: as JSON, as lines, as messages. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/say.h"
#include "sc-seal.h"

#define REPORT_MAX (256u << 20)
#define WORDS_MAX 400

typedef unsigned long long ull;

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void seizure_words(const struct round *r, char text[WORDS_MAX])
{
	const struct sc_archive_seizure *s = &r->target->seizure;
	const char *tense = r->o->dry_run ? "would take" : "took";
	char since[SC_TIME_TEXT], gap[120] = "";

	sc_time_text(s->since_us, since);
	if (s->next > s->first)
		snprintf(gap, sizeof(gap),
			 ", leaving offsets %llu to %llu out: the next row gets %llu",
			 (ull)s->first, (ull)s->next - 1, (ull)s->next);
	if (s->host[0])
		snprintf(text, WORDS_MAX,
			 "%s the archive over from %s, which has had it since %s%s", tense, s->host,
			 since, gap);
	else
		snprintf(text, WORDS_MAX, "%s the archive, which nobody has", tense);
}

static void words(const struct round *r, const struct done *d, char text[WORDS_MAX])
{
	const struct sc_sealed *s = &d->segment;
	const char *would = r->o->dry_run ? "would " : "";

	switch (d->act) {
	case SC_SEAL_SEALED:
		snprintf(text, WORDS_MAX,
			 "%s%s %llu journal%s into segment %llu-%llu (%llu rows, %llu bytes of "
			 "lines, %s)",
			 would, r->o->dry_run ? "seal" : "sealed", (ull)d->from, plural(d->from),
			 (ull)s->first, (ull)s->last, (ull)s->rows, (ull)s->bytes, d->why);
		break;
	case SC_SEAL_COMPACTED:
		snprintf(text, WORDS_MAX,
			 "%s%s %llu segment%s into segment %llu-%llu (%llu rows, %llu bytes of "
			 "lines)",
			 would, r->o->dry_run ? "compact" : "compacted", (ull)d->from,
			 plural(d->from), (ull)s->first, (ull)s->last, (ull)s->rows, (ull)s->bytes);
		break;
	case SC_SEAL_REMOVED:
		snprintf(text, WORDS_MAX,
			 "%s%s segment %llu-%llu (%llu rows, %s%llu bytes on disk, %s)", would,
			 r->o->dry_run ? "remove" : "removed", (ull)s->first, (ull)s->last,
			 (ull)s->rows, d->foreseen ? "about " : "", (ull)s->file_bytes, d->why);
		break;
	case ACT_UPLOADED:
		snprintf(text, WORDS_MAX, "%s%s segment %llu-%llu to the archive", would,
			 r->o->dry_run ? "upload" : "uploaded", (ull)s->first, (ull)s->last);
		break;
	case ACT_FOUND:
		snprintf(text, WORDS_MAX, "%s%s segment %llu-%llu, which the archive has", would,
			 r->o->dry_run ? "verify" : "verified", (ull)s->first, (ull)s->last);
		break;
	case ACT_EXPIRED:
		snprintf(text, WORDS_MAX, "%s%s segment %llu-%llu from the archive", would,
			 r->o->dry_run ? "remove" : "removed", (ull)s->first, (ull)s->last);
		break;
	case ACT_SHIPPED:
		if (r->o->dry_run)
			snprintf(text, WORDS_MAX, "would ship rows %llu to %llu to the archive",
				 (ull)s->first, (ull)s->last);
		else
			snprintf(text, WORDS_MAX,
				 "shipped rows %llu to %llu to the archive (%llu bytes)",
				 (ull)s->first, (ull)s->last, (ull)s->file_bytes);
		break;
	case ACT_TAKEN_OVER:
		seizure_words(r, text);
		break;
	}
}

void report_say(const struct round *r, const struct done *d)
{
	/* what changes the next offset is no routine */
	const enum sc_level level = d->act == ACT_TAKEN_OVER ? SC_NOTICE : SC_INFO;
	char text[WORDS_MAX];

	if (r->o->dry_run || d->act == ACT_LOST || !sc_says(level))
		return;
	words(r, d, text);
	sc_progress_clear(r->progress);
	sc_say(level, "log '%s': %s", r->target->path, text);
}

void report_late(const struct round *r)
{
	struct sc_archive_state state;

	sc_archive_state(r->target->archive, &state);
	if (!state.late || r->o->dry_run || !sc_says(SC_INFO))
		return;
	sc_progress_clear(r->progress);
	sc_say(SC_INFO,
	       "log '%s': passed over %llu segment%s in the archive: put there by a machine after "
	       "it "
	       "was replaced",
	       r->target->path, (ull)state.late, plural(state.late));
}

void report_summary(const struct round *r, bool ok)
{
	if (r->leftovers)
		sc_say(SC_INFO, "log '%s': removed %llu file%s that a seal left when it died",
		       r->target->path, (ull)r->leftovers, plural(r->leftovers));
	if (r->o->dry_run && r->count == 0 && ok)
		sc_say(SC_NOTICE, "log '%s': nothing to do", r->target->path);
	else if (r->count)
		sc_say(SC_DEBUG, "log '%s': %lld ms, appends held up for %lld us at most",
		       r->target->path, (long long)r->ms, (long long)r->report.held_us);
}

static void put_segment(struct sc_bytes *b, const struct sc_sealed *s, bool estimated)
{
	sc_bytes_putf(b,
		      "{\"first\":%llu,\"last\":%llu,\"rows\":%llu,\"bytes\":%llu,\"file_bytes\":",
		      (ull)s->first, (ull)s->last, (ull)s->rows, (ull)s->bytes);
	if (estimated)
		sc_bytes_puts(b, "null");
	else
		sc_bytes_putf(b, "%llu", (ull)s->file_bytes);
	sc_bytes_putf(b, ",\"first_us\":%lld,\"last_us\":%lld", (long long)s->first_us,
		      (long long)s->last_us);
}

/* Of a segment in the archive, what its name says. */
static void put_archived(const struct round *r, int act, const char *name, struct sc_bytes *b)
{
	bool first = true;

	sc_bytes_putf(b, ",\"%s\":[", name);
	for (size_t i = 0; i < r->count; i++) {
		const struct sc_sealed *s = &r->done[i].segment;

		if (r->done[i].act != act)
			continue;
		sc_bytes_putf(b, "%s{\"first\":%llu,\"last\":%llu}", first ? "" : ",",
			      (ull)s->first, (ull)s->last);
		first = false;
	}
	sc_bytes_putc(b, ']');
}

static void put_acts(const struct round *r, int act, const char *name, const char *from,
		     struct sc_bytes *b)
{
	bool first = true;

	sc_bytes_putf(b, ",\"%s\":[", name);
	for (size_t i = 0; i < r->count; i++) {
		const struct done *d = &r->done[i];

		if (d->act != act)
			continue;
		if (!first)
			sc_bytes_putc(b, ',');
		first = false;
		put_segment(b, &d->segment,
			    d->foreseen || (r->o->dry_run && act != SC_SEAL_REMOVED));
		if (from)
			sc_bytes_putf(b, ",\"%s\":%llu", from, (ull)d->from);
		if (d->why)
			sc_bytes_putf(b, ",\"why\":\"%s\"", d->why);
		sc_bytes_putc(b, '}');
	}
	sc_bytes_putc(b, ']');
}

/* Segments that stay, as they are in the end, and the rows that are in none. */
static void put_kept(const struct round *r, struct sc_bytes *b)
{
	uint64_t rows = 0, bytes = 0, file_bytes = 0;
	bool limited = r->keep->age_us || r->keep->bytes || r->keep->rows;

	for (size_t i = 0; i < r->held_count; i++) {
		rows += r->held[i].rows;
		bytes += r->held[i].bytes;
		file_bytes += r->held[i].file_bytes;
	}
	sc_bytes_putf(b, ",\"kept\":{\"segments\":%zu,\"rows\":%llu,\"bytes\":%llu,\"file_bytes\":",
		      r->held_count, (ull)rows, (ull)bytes);
	if (r->held_foreseen)
		sc_bytes_puts(b, "null,");
	else
		sc_bytes_putf(b, "%llu,", (ull)file_bytes);
	if (r->held_count)
		sc_bytes_putf(b, "\"first\":%llu,\"last\":%llu,", (ull)r->held[0].first,
			      (ull)r->held[r->held_count - 1].last);
	else
		sc_bytes_puts(b, "\"first\":null,\"last\":null,");
	sc_bytes_putf(b, "\"why\":\"%s\"}", limited ? "within the limits" : "no limit");
}

static void put_unsealed(const struct round *r, struct sc_bytes *b)
{
	uint64_t from = r->state.sealed_next, next = r->state.next_offset;

	for (size_t i = 0; i < r->count; i++)
		if (r->done[i].act == SC_SEAL_SEALED)
			from = r->done[i].segment.next; /* also where it only would be */
	if (from < r->state.first_offset)
		from = r->state.first_offset;
	if (from >= next)
		sc_bytes_puts(b, ",\"unsealed\":null");
	else
		sc_bytes_putf(b, ",\"unsealed\":{\"first\":%llu,\"last\":%llu,\"why\":\"%s\"}",
			      (ull)from, (ull)r->state.last_offset,
			      r->force ? "appended meanwhile"
				       : "neither as large nor as old as asked for");
}

/* Since it was told last: objects of rows that were in no segment. */
static void put_shipped(const struct round *r, struct sc_bytes *b)
{
	struct ships *s = &r->target->ships;

	if (s->objects)
		sc_bytes_putf(b,
			      ",\"shipped\":{\"objects\":%llu,\"first\":%llu,\"last\":%llu,"
			      "\"bytes\":%llu}",
			      (ull)s->objects, (ull)s->first, (ull)s->last, (ull)s->bytes);
	else
		sc_bytes_puts(b, ",\"shipped\":null");
	*s = (struct ships){ .objects = 0 };
}

static void put_seizure(const struct round *r, struct sc_bytes *b)
{
	const struct sc_archive_seizure *s = &r->target->seizure;
	char since[SC_TIME_TEXT];
	bool taken_over = false;

	for (size_t i = 0; i < r->count; i++)
		taken_over |= r->done[i].act == ACT_TAKEN_OVER;
	if (!taken_over) {
		sc_bytes_puts(b, ",\"taken_over\":null");
		return;
	}
	sc_bytes_putf(b, ",\"taken_over\":{\"epoch\":%llu,\"from\":", (ull)s->epoch);
	if (s->host[0]) {
		sc_time_text(s->since_us, since);
		sc_bytes_puts(b, "{\"host\":");
		sc_bytes_put_json(b, sc_span_str(s->host));
		sc_bytes_putf(b, ",\"since\":\"%s\"}", since);
	} else {
		sc_bytes_puts(b, "null");
	}
	if (s->next > s->first)
		sc_bytes_putf(b, ",\"left_out\":{\"first\":%llu,\"last\":%llu},\"next\":%llu}",
			      (ull)s->first, (ull)s->next - 1, (ull)s->next);
	else
		sc_bytes_puts(b, ",\"left_out\":null,\"next\":null}");
}

static void put_archive(const struct round *r, struct sc_bytes *b)
{
	struct sc_archive_state state = { .late = 0 };

	if (r->target->archive)
		sc_archive_state(r->target->archive, &state);
	put_seizure(r, b);
	put_archived(r, ACT_UPLOADED, "uploaded", b);
	put_archived(r, ACT_FOUND, "verified", b);
	put_archived(r, ACT_EXPIRED, "expired", b);
	put_archived(r, ACT_LOST, "lost", b);
	put_shipped(r, b);
	sc_bytes_putf(b, ",\"late\":%llu", (ull)state.late);
}

static void put_json(const struct round *r, const struct sc_err *err, struct sc_bytes *b)
{
	char text[SC_ERR_JSON];

	sc_bytes_puts(b, "{\"log\":");
	sc_bytes_put_json(b, sc_span_str(r->target->path));
	sc_bytes_putf(b, ",\"ok\":%s,\"dry_run\":%s", err ? "false" : "true",
		      r->o->dry_run ? "true" : "false");
	if (r->target->log)
		sc_bytes_putf(b, ",\"stream_id\":\"%s\"", sc_log_stream_id(r->target->log));
	put_acts(r, SC_SEAL_SEALED, "sealed", "journals", b);
	put_acts(r, SC_SEAL_COMPACTED, "compacted", "segments", b);
	put_acts(r, SC_SEAL_REMOVED, "removed", NULL, b);
	if (r->o->archive)
		put_archive(r, b);
	if (r->target->log) {
		put_kept(r, b);
		put_unsealed(r, b);
	}
	sc_bytes_putf(b, ",\"leftovers\":%llu,\"held_us\":%lld,\"ms\":%lld", (ull)r->leftovers,
		      (long long)r->report.held_us, (long long)r->ms);
	if (err) {
		sc_err_json(err, text, sizeof(text));
		sc_bytes_putf(b, ",\"error\":%s", text);
	}
	sc_bytes_puts(b, "}\n");
}

/* A round that changed nothing is not told. */
static bool is_told(const struct round *r, const struct sc_err *err)
{
	return !r->o->watch || r->count || r->leftovers || r->target->ships.objects || err;
}

int report_print(const struct round *r, const struct sc_err *err, struct sc_err *ret_err)
{
	char text[WORDS_MAX];
	struct sc_bytes b;
	int rc = 0;

	sc_bytes_init(&b, REPORT_MAX);
	if (r->o->common.json && is_told(r, err)) {
		put_json(r, err, &b);
		/* a report that was cut would be no JSON */
		if (b.len == 0 || b.data[b.len - 1] != '\n')
			rc = sc_err_nomem(ret_err, "cannot write the report");
	}
	for (size_t i = 0; !r->o->common.json && r->o->dry_run && i < r->count; i++) {
		words(r, &r->done[i], text);
		sc_bytes_putf(&b, "%s: %s\n", r->target->path, text);
	}
	if (rc == 0 && b.len && (fwrite(b.data, 1, b.len, stdout) != b.len || fflush(stdout) != 0))
		rc = sc_err_sys(ret_err, SC_E_IO, errno, "cannot write the report");
	sc_bytes_done(&b);
	return rc;
}
