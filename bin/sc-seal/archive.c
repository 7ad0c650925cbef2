/* archive.c: what was sealed goes into the archive; what is not to be kept there goes from it; what
 * is not sealed yet is shipped. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/say.h"
#include "sc-seal.h"

static void on_step(void *arg, const struct sc_archive_step *step)
{
	struct sc_sealed segment = { .first = step->first,
				     .last = step->last,
				     .file_bytes = step->file_bytes };
	static const int acts[] = { [SC_ARCHIVE_UPLOADED] = ACT_UPLOADED,
				    [SC_ARCHIVE_FOUND] = ACT_FOUND,
				    [SC_ARCHIVE_REMOVED] = ACT_EXPIRED,
				    [SC_ARCHIVE_SHIPPED] = ACT_SHIPPED,
				    [SC_ARCHIVE_LOST] = ACT_LOST };

	struct round *r = arg;

	/* it would have become a part of another one before */
	for (size_t i = 0; r->o->dry_run && step->act != SC_ARCHIVE_REMOVED && i < r->count; i++)
		if (r->done[i].act == SC_SEAL_COMPACTED &&
		    r->done[i].segment.first <= step->first &&
		    step->last <= r->done[i].segment.last)
			return;
	round_note(r, acts[step->act], &segment, 1, NULL);
	if (step->act == SC_ARCHIVE_LOST)
		sc_say(SC_WARNING,
		       "log '%s': rows %llu to %llu are not in the archive any more, and not here: "
		       "somebody else removed their objects",
		       r->target->path, (unsigned long long)step->first,
		       (unsigned long long)step->last);
}

static bool on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct round *r = arg;

	sc_progress_show(r->progress, done, total);
	ship_between(r);
	return !stop_signal();
}

/* A request that hangs must not hold up the end. */
static bool stopped(void *arg)
{
	(void)arg;
	return stop_signal() != 0;
}

/* What a dry run would have sealed, it would upload; and that would be there when it is looked for
 * what is to go, and what is to be shipped. */
static int foresee(struct round *r, struct sc_err *err)
{
	struct held l = { NULL, 0, 0 };
	size_t count = r->count;
	int rc = round_held(r, &l, err);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		struct sc_sealed segment = r->done[i].segment;

		if (r->done[i].act == SC_SEAL_SEALED ||
		    (r->done[i].act == SC_SEAL_COMPACTED &&
		     !sc_archive_holds(r->target->archive, &segment)))
			round_note(r, ACT_UPLOADED, &segment, 1, NULL);
	}
	for (size_t i = 0; rc == 0 && i < l.count; i++)
		rc = sc_archive_foresee(r->target->archive, &l.items[i], err);
	free(l.items);
	return rc;
}

int archive_open(struct round *r, struct sc_err *err)
{
	static const struct sc_store_settings settings = { .stop = stopped };
	struct target *t = r->target;
	int rc;

	if (!r->o->archive || t->archive)
		return 0;
	if (r->o->take_over && !t->seized) {
		t->seizure = (struct sc_archive_seizure){ .dry = r->o->dry_run,
							  .no_jump = r->o->jump_given &&
								     !r->o->jump,
							  .jump = r->o->jump };
		rc = sc_archive_seize(t->log, r->o->archive, &settings, &t->seizure, &t->archive,
				      err);
		t->seized = rc == 0;
		if (rc == 0)
			round_note(r, ACT_TAKEN_OVER, &(struct sc_sealed){ .first = 0 }, 1, NULL);
	} else {
		rc = sc_archive_open_log(t->log, r->o->archive, &settings, r->o->dry_run,
					 &t->archive, err);
	}
	if (rc == 0)
		report_late(r);
	return rc;
}

int archive_run(struct round *r, struct sc_err *err)
{
	struct sc_archive_options options = {
		.arg = r, .step = on_step, .progress = on_progress, .now_us = r->now_us
	};
	struct sc_keep keep = { .age_us = r->keep_archive->age_us,
				.bytes = r->keep_archive->bytes };
	struct target *t = r->target;
	int rc;

	if (!r->o->archive)
		return 0;
	sc_progress_begin(r->progress, "archive");
	rc = archive_open(r, err);
	if (rc == 0)
		rc = sc_archive_push(t->archive, &options, err);
	if (rc == 0 && r->o->dry_run)
		rc = foresee(r, err);
	if (rc == 0 && (keep.age_us || keep.bytes) && !stop_signal())
		rc = sc_archive_keep(t->archive, &keep, &options, err);
	if (rc == 0 && !stop_signal())
		rc = ship_run(r, true, err);
	return rc == SC_E_TIMEOUT && stop_signal() ? 0 : rc;
}

static void on_ship(void *arg, const struct sc_archive_step *step)
{
	struct round *r = arg;
	struct ships *ships = &r->target->ships;
	struct done d = { .act = ACT_SHIPPED,
			  .segment = { .first = step->first,
				       .last = step->last,
				       .file_bytes = step->file_bytes } };

	if (r->o->dry_run)
		round_note(r, ACT_SHIPPED, &d.segment, 1, NULL);
	ships->first = ships->objects ? ships->first : d.segment.first;
	ships->last = step->last;
	ships->bytes += step->file_bytes;
	ships->objects++;
	report_say(r, &d);
}

static bool on_ship_progress(void *arg, uint64_t done, uint64_t total)
{
	(void)arg;
	(void)done;
	(void)total;
	return !stop_signal();
}

int ship_run(struct round *r, bool now, struct sc_err *err)
{
	struct sc_archive_options options = { .arg = r,
					      .step = on_ship,
					      .progress = on_ship_progress };
	struct target *t = r->target;
	int64_t now_us = sc_mono_us();

	if (!r->o->ship_given || !t->archive)
		return 0;
	if (!now && now_us - t->shipped_us < r->o->ship_ms * 1000)
		return 0;
	t->shipped_us = now_us;
	return sc_archive_ship(t->archive, &options, err);
}

void ship_between(struct round *r)
{
	bool now = r->unsealed;
	struct sc_err err;
	char line[1200];

	if (!r->o->watch || r->o->dry_run || stop_signal())
		return;
	r->unsealed = false;
	sc_err_clear(&err);
	if (ship_run(r, now, &err) == 0 || stop_signal())
		return;
	sc_err_line(&err, line, sizeof(line));
	sc_say(SC_WARNING, "%s; tried again", line); /* said once a minute at most */
}

size_t archive_allows(const struct round *r, const struct sc_sealed *items, size_t count)
{
	size_t held = 0;

	if (!r->o->archive || (r->o->dry_run && r->target->archive))
		return count; /* a dry run would have uploaded them before */
	while (r->target->archive && held < count &&
	       sc_archive_holds(r->target->archive, &items[held]))
		held++;
	return held;
}
