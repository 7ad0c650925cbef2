/*
 * log/range.h: --from --to --since --until: which rows, the same in every program.
 *
 * Owns      nothing.
 * Units     offsets count rows from 1; times in us since 1970 UTC.
 * Errors    SC_E_REFUSED for an offset that is not held or ahead; SC_E_USAGE for a clash.
 * Safety    one thread.
 * Source    man/sc-log.1.
 */
#ifndef SC_LOG_RANGE_H
#define SC_LOG_RANGE_H

#include "base/opt.h"
#include "log/log.h"

struct sc_range {
	bool from_given, to_given, since_given, until_given;
	uint64_t from, to;        /* 0 = earliest; both are inclusive */
	int64_t since_us, until_us;
};

#define SC_RANGE_OPTIONS(opts, member) \
	SC_OPT_GROUP("Which rows"), \
	{ .name = "from", .kind = SC_OPT_OFFSET, .arg = "N", .special = "earliest", \
	  .into = offsetof(opts, member.from), .seen = offsetof(opts, member.from_given), \
	  .help = "begin at offset N, or at the earliest row that is held" }, \
	{ .name = "to", .kind = SC_OPT_OFFSET, .arg = "N", .into = offsetof(opts, member.to), \
	  .seen = offsetof(opts, member.to_given), .help = "end after offset N" }, \
	{ .name = "since", .kind = SC_OPT_TIME, .arg = "TIME", .into = offsetof(opts, member.since_us), \
	  .seen = offsetof(opts, member.since_given), .help = "begin at the first row appended at or after TIME" }, \
	{ .name = "until", .kind = SC_OPT_TIME, .arg = "TIME", .into = offsetof(opts, member.until_us), \
	  .seen = offsetof(opts, member.until_given), .help = "end before the first row appended at or after TIME" }

/*
 * The first offset and the one behind the last, as the log is now: "until the end" means the end
 * as it was at the start. With FOLLOW an end that was not given is UINT64_MAX.
 */
int sc_range_resolve(const struct sc_range *range, struct sc_log *log, bool follow, uint64_t *ret_from,
		     uint64_t *ret_end, struct sc_err *err);
/* The offset of the COUNTth row from the end (the earliest if there are fewer). */
int sc_range_last(struct sc_log *log, uint64_t count, uint64_t *ret_from, struct sc_err *err);

#endif
