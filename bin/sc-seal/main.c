/* sc-seal: finished journals into compressed segments, small segments into larger ones, old ones
 * away. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "sc-seal.h"

#define INTO(member) offsetof(struct opts, member)

static const struct sc_opt options[] = {
	SC_OPT_GROUP("What is sealed"),
	{ .name = "force",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(force),
	  .help = "seal all rows there are, whatever their size and age" },
	{ .name = "target",
	  .kind = SC_OPT_SIZE,
	  .arg = "SIZE",
	  .into = INTO(target),
	  .standard = "8M",
	  .min = 4096,
	  .max = 1 << 30,
	  .help = "make segments of about this much of lines, before compression" },
	{ .name = "age",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .special = "none",
	  .into = INTO(age_ms),
	  .standard = "5m",
	  .min = 1,
	  .max = 0,
	  .help = "seal less than that once the oldest row is this old" },
	{ .name = "compact",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(compact),
	  .help = "put small segments together also where little is won" },
	{ .name = "level",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(level),
	  .standard = "3",
	  .min = 1,
	  .max = 19,
	  .help = "compress harder, and slower: the level of zstd" },
	SC_OPT_GROUP("What is kept"),
	{ .name = "keep-local",
	  .kind = SC_OPT_LIST,
	  .arg = "DUR|SIZE",
	  .into = INTO(keep_local),
	  .help = "remove sealed segments that are older, or beyond this size, from the lowest" },
	{ .name = "keep-rows",
	  .kind = SC_OPT_NUMBER,
	  .arg = "N",
	  .into = INTO(keep_rows),
	  .min = 1,
	  .max = 0,
	  .help = "remove sealed segments beyond those with the newest N sealed rows" },
	SC_OPT_GROUP("The archive"),
	{ .name = "archive",
	  .letter = 'A',
	  .kind = SC_OPT_TEXT,
	  .arg = "URL",
	  .into = INTO(archive),
	  .help = "put every segment into URL/NAME, file:// or s3://, before it may go from here" },
	{ .name = "keep-archive",
	  .kind = SC_OPT_LIST,
	  .arg = "DUR|SIZE",
	  .into = INTO(keep_archive),
	  .help = "remove segments from the archive that are older, or beyond this size" },
	{ .name = "ship",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .bare = "2s",
	  .into = INTO(ship_ms),
	  .seen = INTO(ship_given),
	  .min = 50,
	  .max = 86400000,
	  .help = "put rows that are not sealed yet there too: with --watch, so often" },
	{ .name = "take-over",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(take_over),
	  .help = "this log writes the archive from now on, whoever did; its rows are compared "
		  "before" },
	{ .name = "jump",
	  .kind = SC_OPT_OFFSET,
	  .arg = "N",
	  .into = INTO(jump),
	  .seen = INTO(jump_given),
	  .standard = "1048576",
	  .help = "with --take-over, leave out at least so many offsets, which the other copy may "
		  "have given; 0: none" },
	SC_OPT_GROUP("How it runs"),
	{ .name = "watch",
	  .kind = SC_OPT_FLAG,
	  .into = INTO(watch),
	  .help = "go on, round after round, until told to end; HUP seals all at once" },
	{ .name = "interval",
	  .kind = SC_OPT_DURATION,
	  .arg = "DUR",
	  .into = INTO(interval_ms),
	  .standard = "10s",
	  .min = 10,
	  .max = 86400000,
	  .help = "with --watch, the time between two rounds" },
	{ .name = "dry-run",
	  .letter = 'd',
	  .kind = SC_OPT_FLAG,
	  .into = INTO(dry_run),
	  .help = "print what would be done, and change nothing" },
	{ .name = NULL },
};

struct work {
	const struct opts *o;
	struct keep keep, keep_archive;
	struct sc_progress progress;
	struct target *targets;
	size_t count;
	bool unheard; /* nobody reads our reports any more, or they cannot be written */
};

/* Another log came into the folder, or this one got other settings: it is opened again. */
static void forget_replaced(struct target *t)
{
	char path[PATH_MAX];
	struct stat now;

	snprintf(path, sizeof(path), "%s/log.json", t->path);
	if (stat(path, &now) < 0)
		now = (struct stat){ .st_ino = 0 };
	if (t->log && (now.st_dev != t->device || now.st_ino != t->inode))
		target_close(t);
	t->device = now.st_dev;
	t->inode = now.st_ino;
}

int target_open(struct target *t, bool dry, struct sc_err *err)
{
	int rc = 0;

	forget_replaced(t);
	if (!t->log)
		rc = sc_log_open(t->path, dry ? SC_LOG_READ : SC_LOG_APPEND, &t->log, err);
	if (rc == 0 && !t->seal)
		rc = sc_seal_open(t->log, dry, &t->seal, err);
	if (rc < 0)
		target_close(t);
	return rc;
}

void target_close(struct target *t)
{
	sc_archive_close(t->archive);
	sc_seal_close(t->seal);
	t->archive = NULL;
	sc_log_close(t->log);
	t->seal = NULL;
	t->log = NULL;
	t->leftovers = 0;
}

/* One log, once. */
static int one(struct work *w, struct target *t, bool force, struct sc_err *err)
{
	int64_t begun_us = sc_mono_us();
	struct round r = { .o = w->o,
			   .target = t,
			   .keep = &w->keep,
			   .keep_archive = &w->keep_archive,
			   .progress = &w->progress,
			   .force = force || w->o->force,
			   .now_us = sc_wall_us() };
	struct sc_err printing;
	int rc = target_open(t, w->o->dry_run, err), printed;

	if (rc == 0)
		rc = round_run(&r, err);
	sc_progress_clear(&w->progress);
	r.ms = (sc_mono_us() - begun_us) / 1000;
	report_summary(&r, rc == 0);
	printed = report_print(&r, rc < 0 ? err : NULL, &printing);
	if (rc == 0 && printed < 0) {
		if (err)
			*err = printing;
		rc = printed;
		w->unheard = true;
	}
	round_done(&r);
	return rc;
}

/* Each log in turn; one that fails does not stop the others. */
static int once(struct work *w, struct sc_err *err)
{
	int status = 0;

	for (size_t i = 0; i < w->count && !stop_signal(); i++) {
		int rc = one(w, &w->targets[i], false, err);

		target_close(&w->targets[i]);
		if (rc < 0 && (w->count == 1 || w->unheard))
			return rc;
		if (rc < 0) {
			sc_say_err(SC_ERROR, err);
			status = status ? status : sc_code_status(rc);
		}
	}
	return stop_signal() ? 128 + stop_signal() : status;
}

static void say_failed(const struct sc_err *err)
{
	char line[1200];

	sc_err_line(err, line, sizeof(line));
	sc_say(SC_WARNING, "%s; tried again in the next round",
	       line); /* said once a minute at most */
}

/* Until the next round, and meanwhile what is new is shipped. True: a round was asked for. */
static bool wait_round(struct work *w)
{
	int64_t end_us = sc_mono_us() + w->o->interval_ms * 1000, left_ms, wait_ms;
	bool asked = false;

	if (!w->o->ship_given)
		return stop_wait(w->o->interval_ms);
	while (!asked && !stop_signal() && (left_ms = (end_us - sc_mono_us()) / 1000) > 0) {
		wait_ms = left_ms;
		for (size_t i = 0; i < w->count; i++) {
			struct target *t = &w->targets[i];
			struct round r = { .o = w->o, .target = t, .progress = &w->progress };
			int64_t due_ms;

			ship_between(&r);
			due_ms = w->o->ship_ms - (sc_mono_us() - t->shipped_us) / 1000;
			if (t->archive && due_ms < wait_ms)
				wait_ms = due_ms;
		}
		asked = stop_wait(wait_ms > 0 ? wait_ms : 1);
	}
	return asked;
}

/* Rounds until a signal. What cannot be opened at the start is a mistake of whoever started it;
 * what fails later passes. */
static int watch(struct work *w, struct sc_err *err)
{
	bool force = false;

	for (size_t i = 0; i < w->count; i++) {
		int rc = target_open(&w->targets[i], false, err);

		if (rc < 0)
			return rc;
	}
	sc_say(SC_INFO, "watching %zu log%s", w->count, w->count == 1 ? "" : "s");
	while (!stop_signal()) {
		for (size_t i = 0; i < w->count && !stop_signal(); i++) {
			int rc = one(w, &w->targets[i], force, err);

			if (rc == 0)
				continue;
			if (w->unheard)
				return rc;
			say_failed(err);
			target_close(&w->targets[i]);
		}
		force = wait_round(w);
	}
	return 0; /* a signal is how it ends */
}

static int check(const struct opts *o, struct sc_err *err)
{
	if (o->watch && o->dry_run)
		return sc_err_set(err, SC_E_USAGE, "cannot watch",
				  "--watch and --dry-run exclude each other");
	if ((o->ship_given || o->take_over) && !o->archive)
		return sc_err_set(err, SC_E_USAGE, "cannot archive", "--%s needs --archive",
				  o->ship_given ? "ship" : "take-over");
	if (o->jump_given && !o->take_over)
		return sc_err_set(err, SC_E_USAGE, "cannot archive", "--jump needs --take-over");
	if (o->keep_archive.count && !o->archive)
		return sc_err_set(err, SC_E_USAGE, "cannot archive",
				  "--keep-archive needs --archive");
	if (o->archive && !sc_store_is_url(o->archive)) {
		sc_err_set(err, SC_E_USAGE, "cannot archive", "'%s' is no URL", o->archive);
		return sc_err_next(err, "give file:///FOLDER or s3://BUCKET/PREFIX");
	}
	return 0;
}

/* The same log twice would wait for itself. */
static int check_twice(char *const *paths, size_t count, struct sc_err *err)
{
	struct stat a, b;

	for (size_t i = 0; i < count; i++) {
		if (stat(paths[i], &a) < 0)
			continue;
		for (size_t j = 0; j < i; j++) {
			if (stat(paths[j], &b) < 0 || a.st_dev != b.st_dev || a.st_ino != b.st_ino)
				continue;
			sc_err_set(err, SC_E_USAGE, "cannot seal", "it is named twice");
			return sc_err_on(err, "log", paths[i]);
		}
	}
	return 0;
}

static int run(const void *given, char *const *operands, struct sc_err *err)
{
	const struct opts *o = given;
	struct work w = { .o = o };
	int rc = check(o, err);

	if (rc == 0)
		rc = keep_parse(o, &w.keep, &w.keep_archive, err);
	while (operands[w.count])
		w.count++;
	if (rc == 0)
		rc = check_twice(operands, w.count, err);
	if (rc < 0)
		return rc;
	w.targets = sc_calloc(w.count, sizeof(*w.targets));
	if (!w.targets)
		return sc_err_nomem(err, "cannot seal");
	for (size_t i = 0; i < w.count; i++)
		w.targets[i].path = operands[i];
	stop_begin(o->watch);
	sc_progress_init(&w.progress, STDERR_FILENO,
			 !o->common.quiet && !o->common.json && !o->watch);
	rc = o->watch ? watch(&w, err) : once(&w, err);
	for (size_t i = 0; i < w.count; i++)
		target_close(&w.targets[i]);
	free(w.targets);
	return rc;
}

static const struct sc_example examples[] = {
	{ "in cron, every five minutes: keep a week on this disk",
	  "sc-seal data/trades data/l2 --keep-local 7d" },
	{ "see what that would do", "sc-seal data/trades --keep-local 7d --dry-run" },
	{ "seal all rows now, and read them with other tools",
	  "sc-seal --force data/trades && zstdcat data/trades/sealed/*.zst | jq -c '.[1]'" },
	{ "keep a week here and everything in a bucket",
	  "sc-seal data/trades --archive s3://bucket/prod --keep-local 7d" },
	{ "as a service that loses two seconds at most when this machine is lost",
	  "sc-seal --watch --ship 2s data/trades --archive s3://bucket/prod --keep-local 7d" },
	{ "as a service: a week, but never over 10 GiB",
	  "sc-seal --watch --keep-local 7d --keep-local 10G data/trades" },
	{ NULL, NULL },
};

static const int statuses[] = { 65, 66, 69, 70, 74, 75, 76, 77, 78, 79, 80, 0 };

SC_PROGRAM("sc-seal",
	   "seal the rows of logs into compressed segments, archive them, and remove old ones",
	   "Makes segments of each LOG's finished journals: compressed, checked files that any "
	   "zstd reads. "
	   "Puts small segments together, and removes those that are not to be kept. The log can "
	   "be appended to "
	   "and read all the time. Silent when all is well; made for cron.",
	   "LOG...", 1, -1, struct opts, options, run, examples, statuses)
