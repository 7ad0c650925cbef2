/*
 * sc-seal.h: what the files of sc-seal share.
 *
 * Owns      a struct target its log and seal until target_close; a struct round its lists until
 *           round_done.
 * Units     sizes in bytes; times in us since 1970 UTC.
 * Errors    0 or a negative sc_code with err set.
 * Safety    main thread.
 * Source    man/sc-seal.1.
 */
#ifndef SC_SEAL_PROGRAM_H
#define SC_SEAL_PROGRAM_H

#include <sys/types.h>

#include "base/program.h"
#include "base/progress.h"
#include "log/archive.h"
#include "log/seal.h"

struct opts {
	struct sc_common common;
	bool force, compact, dry_run, watch, age_given, ship_given, take_over, jump_given;
	uint64_t target, jump;
	int64_t keep_rows, age_ms, interval_ms, level, ship_ms;
	struct sc_opt_list keep_local, keep_archive;
	const char *archive;
};

/* What may stay; 0 = no limit of that kind. */
struct keep {
	int64_t age_us;
	uint64_t bytes, rows;
};
/* 7d, 10G and both: --keep-local, --keep-archive. */
int keep_parse(const struct opts *o, struct keep *ret_keep, struct keep *ret_archive,
		struct sc_err *err);
/* How many of COUNT segments go from the front, and which limit takes each of them. */
size_t keep_drop(const struct keep *keep, const struct sc_sealed *items, size_t count,
		int64_t now_us);
const char *keep_why(const struct keep *keep, const struct sc_sealed *items, size_t count,
		size_t at, int64_t now_us);

/* A log that is worked on. */
struct target {
	const char *path;
	struct sc_log *log;
	struct sc_seal *seal;
	struct sc_archive *archive; /* NULL: none was asked for, or it cannot be opened */
	uint64_t leftovers;       /* that an earlier round told */
	int64_t shipped_us;       /* when it was shipped last, on the clock that never goes back */
	struct ships { uint64_t objects, bytes, first, last; } ships; /* not told yet */
	bool seized;              /* taken over as it was asked: once */
	struct sc_archive_seizure seizure;
	dev_t device;             /* of its log.json when it was opened */
	ino_t inode;
};
int target_open(struct target *t, bool dry, struct sc_err *err);
void target_close(struct target *t);

/* What was done to one log at one time: an sc_seal_act, or to its archive. */
enum { ACT_UPLOADED = SC_SEAL_REMOVED + 1, ACT_FOUND, ACT_EXPIRED, ACT_SHIPPED, ACT_TAKEN_OVER, ACT_LOST };
struct done {
	int act;
	struct sc_sealed segment;
	uint64_t from;            /* journals or segments it was made of */
	const char *why;
	bool foreseen;            /* in a dry run, before it is made: its size is an estimate */
};
struct round {
	const struct opts *o;
	struct target *target;
	const struct keep *keep, *keep_archive;
	struct sc_progress *progress;
	bool force;
	int64_t now_us, ms;
	struct done *done;
	size_t count, cap;
	bool short_of_memory;     /* a step could not be noted */
	bool unsealed;            /* of this round nothing is sealed yet: what it seals is shipped before */
	struct sc_sealed *held;   /* the segments that there are then: in a dry run as they would be */
	size_t held_count;
	bool held_foreseen;       /* some of them are not made yet */
	struct sc_log_state state; /* afterwards */
	struct sc_seal_report report;
	uint64_t leftovers;
};
/*
 * Compacts, seals, archives and removes, in this order. One that fails does not keep the others
 * from being done: the first error is returned. A signal ends it between two steps, with 0.
 */
int round_run(struct round *r, struct sc_err *err);
void round_done(struct round *r);
struct held {
	struct sc_sealed *items; /* the caller frees it */
	size_t count, cap;
};
/* The segments there are, in a dry run with what it would have made of them by now. */
int round_held(struct round *r, struct held *ret_list, struct sc_err *err);
void round_note(struct round *r, int act, const struct sc_sealed *segment, uint64_t from,
		const char *why);

/* archive.c: what was sealed into the archive, and out of it what is not to be kept there. */
int archive_run(struct round *r, struct sc_err *err);
/* Opened when it is not; 0 also when none was asked for. */
int archive_open(struct round *r, struct sc_err *err);
/* What is in journals, when it is asked for and due, or NOW. */
int ship_run(struct round *r, bool now, struct sc_err *err);
/* In the middle of other work: an error is told, and what was not shipped is by the next one. */
void ship_between(struct round *r);
/* How many of the first COUNT segments may go, for all that the archive is asked to have. */
size_t archive_allows(const struct round *r, const struct sc_sealed *items, size_t count);

/* On stdout: with --json an object, in a dry run lines. ERR is NULL when all went well. */
int report_print(const struct round *r, const struct sc_err *err, struct sc_err *ret_err);
/* As a message, with -v. */
void report_say(const struct round *r, const struct done *d);
/* What is in the archive and counts for nothing, as a message, with -v. */
void report_late(const struct round *r);
/* What became of the log at large, as a message. */
void report_summary(const struct round *r, bool ok);

/* TERM and INT end the work at the next step, or after two seconds; HUP asks for a round at
 * once. */
void stop_begin(bool watch);
int stop_signal(void);            /* the signal that came, or 0 */
bool stop_wait(int64_t ms);       /* until then, or a signal: true when a round was asked for */

#endif
