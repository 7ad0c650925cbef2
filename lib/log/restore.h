/*
 * log/restore.h: a log made anew from its archive, when the machine that had it is lost.
 *
 * Owns      nothing afterwards; what a callback gets is borrowed for the call.
 * Units     offsets count rows from 1; sizes in bytes; times in us since 1970 UTC.
 * Errors    as log/archive.h and log/log.h, and: SC_E_CANTCREAT there is a log, or something else;
 *           SC_E_BUSY another restore works there; SC_E_NOAUTH another machine took the archive
 *           over meanwhile; SC_E_DATA damage or a hole in the archive, with file and last_good.
 * Safety    may be killed at any instruction: until it has returned there is no log, every other
 *           program refuses what is there, and the next call goes on with it. From the take-over on
 *           the machine that had the archive cannot write there.
 * Source    man/sc-log.5, "Restore".
 */
#ifndef SC_LOG_RESTORE_H
#define SC_LOG_RESTORE_H

#include "log/log.h"
#include "store/store.h"

#define SC_RESTORE_JUMP (1ull << 20)

struct sc_restore_options {
	/* how much is downloaded: the newest segments, one at least; 0 = no limit. The others stay
	 * in the archive only. */
	int64_t keep_age_us;
	uint64_t keep_bytes;
	uint64_t jump;            /* offsets left out, at least; less than SC_RESTORE_JUMP is that */
	bool partial;             /* where there is a hole, take what is behind it (segments) or before it (the rest) */
	int64_t now_us;           /* 0 = the clock's */
	const struct sc_store_settings *settings; /* or NULL */
	void *arg;                /* of progress, which may be NULL; false: stop, SC_E_TIMEOUT; the next call goes on */
	bool (*progress)(void *arg, uint64_t done, uint64_t total);
};
struct sc_restore_report {
	char url[1024];           /* of the archive, to show */
	char stream_id[40];
	char host[80];            /* who had it, and since when; empty: nobody */
	int64_t since_us;
	uint64_t epoch;           /* ours */
	bool resumed;             /* one that was not finished went on */
	uint64_t rows;            /* the log holds now */
	uint64_t first, last;     /* offsets of them; 0 when there are none */
	int64_t last_us;          /* when the last one was appended: what came later is lost */
	uint64_t next;            /* the log goes on there */
	uint64_t segments, segment_bytes; /* that were downloaded, or were there already */
	uint64_t left;            /* segments that stay in the archive only */
	uint64_t shipped;         /* rows that were in no segment */
};
int sc_log_restore(const char *path, const char *url, const struct sc_restore_options *options,
		   struct sc_restore_report *ret_report, struct sc_err *err);

#endif
