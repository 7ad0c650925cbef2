/*
 * round.c: one log, once: compacts, seals, archives, removes.
 *
 * Small segments come first, so that each step looks at the log as it is before the run: a dry run
 * can then say exactly what a run does. What is sealed now is put together by a later one.
 */
#include <stdlib.h>

#include "base/file.h"
#include "sc-seal.h"

void round_note(struct round *r, int act, const struct sc_sealed *segment, uint64_t from,
		const char *why)
{
	if (r->count == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 16;
		struct done *more = sc_realloc(r->done, cap * sizeof(*more));

		if (!more) {
			r->short_of_memory = true;
			return;
		}
		r->done = more;
		r->cap = cap;
	}
	r->done[r->count] = (struct done){ act, *segment, from, why, false };
	report_say(r, &r->done[r->count++]);
}

static uint64_t target_of(const struct round *r)
{
	return r->o->target ? r->o->target : SC_SEAL_TARGET;
}

static void on_step(void *arg, const struct sc_seal_step *step)
{
	struct round *r = arg;
	const char *why = NULL;

	if (step->act == SC_SEAL_REMOVED)
		return; /* noted before, with its reason */
	if (step->act == SC_SEAL_SEALED)
		why = step->segment->bytes >= target_of(r) / 2 ? "size"
		      : r->force                               ? "force"
							       : "age";
	round_note(r, step->act, step->segment, step->from, why);
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct round *r = arg;

	sc_progress_show(r->progress, done, total);
	/* before the first journal goes, what is in it must be there: else the archive has a hole
	 * until its segment is */
	ship_between(r);
	return !stop_signal();
}

static int list_add(struct held *l, const struct sc_sealed *segment, struct sc_err *err)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 64;
		struct sc_sealed *more = sc_realloc(l->items, cap * sizeof(*more));

		if (!more)
			return sc_err_nomem(err, "cannot seal");
		l->items = more;
		l->cap = cap;
	}
	l->items[l->count++] = *segment;
	return 0;
}

static int list_each(void *arg, const struct sc_sealed *segment)
{
	return list_add(arg, segment, NULL);
}

/* A dry run's: COUNT segments that would be one. Its size is not known: theirs is the most it will
 * have. */
static void foresee_compacted(struct held *l, const struct sc_sealed *segment)
{
	struct sc_sealed one = *segment;
	size_t at = 0, n;

	while (at < l->count && l->items[at].first < one.first)
		at++;
	one.file_bytes = 0;
	for (n = 0; at + n < l->count && l->items[at + n].last <= one.last; n++)
		one.file_bytes += l->items[at + n].file_bytes;
	if (n == 0)
		return;
	l->items[at] = one;
	memmove(&l->items[at + 1], &l->items[at + n], (l->count - at - n) * sizeof(*l->items));
	l->count -= n - 1;
}

/* A dry run's: how small the lines will be, as those were that are sealed; a fifth when none is. */
static uint64_t foresee_size(const struct held *l, uint64_t bytes)
{
	double files = 0, lines = 0;

	for (size_t i = 0; i < l->count; i++) {
		files += (double)l->items[i].file_bytes;
		lines += (double)l->items[i].bytes;
	}
	return (uint64_t)((double)bytes * (lines > 0 && files > 0 ? files / lines : 0.2));
}

int round_held(struct round *r, struct held *l, struct sc_err *err)
{
	int rc = sc_log_segments(r->target->log, list_each, l, err);

	if (rc == SC_E_NOMEM)
		return sc_err_nomem(err, "cannot seal");
	for (size_t i = 0; rc == 0 && r->o->dry_run && i < r->count; i++) {
		struct done *d = &r->done[i];

		if (d->act == SC_SEAL_COMPACTED) {
			foresee_compacted(l, &d->segment);
		} else if (d->act == SC_SEAL_SEALED) {
			d->segment.file_bytes = foresee_size(l, d->segment.bytes);
			rc = list_add(l, &d->segment, err);
		}
	}
	return rc;
}

/* A dry run made it up. */
static bool is_foreseen(const struct round *r, size_t count, const struct sc_sealed *segment)
{
	for (size_t i = 0; r->o->dry_run && i < count; i++)
		if (r->done[i].act <= SC_SEAL_COMPACTED &&
		    r->done[i].segment.first == segment->first &&
		    r->done[i].segment.last == segment->last)
			return true;
	return false;
}

static int retain(struct round *r, const struct sc_seal_options *options, struct sc_err *err)
{
	struct held l = { NULL, 0, 0 };
	int rc = round_held(r, &l, err);
	size_t before = r->count;
	size_t go = rc == 0 ? keep_drop(r->keep, l.items, l.count, r->now_us) : 0;

	go = archive_allows(r, l.items, go);
	if (go && !r->o->dry_run && !stop_signal())
		rc = sc_seal_remove(r->target->seal, l.items[go - 1].next, options, err);
	else if (!r->o->dry_run)
		go = 0;
	for (size_t i = 0; rc == 0 && i < go; i++) {
		round_note(r, SC_SEAL_REMOVED, &l.items[i], 1,
			   keep_why(r->keep, l.items, l.count, i, r->now_us));
		if (r->count > before)
			r->done[r->count - 1].foreseen = is_foreseen(r, before, &l.items[i]);
	}
	if (rc == 0 && l.count) {
		memmove(l.items, l.items + go, (l.count - go) * sizeof(*l.items));
		r->held = l.items;
		r->held_count = l.count - go;
		for (size_t i = 0; i < r->held_count && !r->held_foreseen; i++)
			r->held_foreseen = is_foreseen(r, before, &l.items[i]);
		return 0;
	}
	free(l.items);
	return rc;
}

/* The first error counts; the others are told with -v. */
static int keep_first(int first, int rc, struct sc_err *err, const struct sc_err *now)
{
	if (rc >= 0)
		return first;
	if (first < 0) {
		sc_say_err(SC_INFO, now);
		return first;
	}
	if (err)
		*err = *now;
	return rc;
}

int round_run(struct round *r, struct sc_err *err)
{
	struct sc_seal *seal = r->target->seal;
	struct sc_seal_options options = {
		.target = r->o->target,
		.age_us = r->o->age_ms > 0 ? r->o->age_ms * 1000 : 0,
		.now_us = r->now_us,
		.force = r->force,
		.every = r->o->compact,
		.level = (int)r->o->level,
		.arg = r,
		.step = on_step,
		.progress = on_progress,
	};
	struct sc_err now;
	int rc = 0;

	sc_err_clear(&now);
	if (r->o->ship_given && r->o->watch)
		archive_open(r, NULL); /* what is wrong is told when its turn comes */
	sc_progress_begin(r->progress, "compact");
	rc = keep_first(rc, sc_seal_compact(seal, &options, &now), err, &now);
	sc_progress_begin(r->progress, "seal");
	r->unsealed = true;
	if (!stop_signal())
		rc = keep_first(rc, sc_seal_run(seal, &options, &now), err, &now);
	r->unsealed = false;
	sc_progress_clear(r->progress);
	if (!stop_signal())
		rc = keep_first(rc, archive_run(r, &now), err, &now);
	sc_progress_clear(r->progress);
	rc = keep_first(rc, retain(r, &options, &now), err, &now);
	if (r->short_of_memory)
		rc = keep_first(rc, sc_err_nomem(&now, "cannot report"), err, &now);
	rc = keep_first(rc, sc_log_state(r->target->log, &r->state, &now), err, &now);
	sc_seal_report(seal, &r->report);
	r->leftovers = r->report.leftovers - r->target->leftovers;
	r->target->leftovers = r->report.leftovers;
	return rc;
}

void round_done(struct round *r)
{
	free(r->done);
	free(r->held);
	r->done = NULL;
	r->held = NULL;
}
