/*
 * log/archive.h: the third tier: a log's segments in a place elsewhere, written by one machine and
 * read by any.
 *
 * Owns      handles until they are closed; a log that is archived is the caller's and outlives the
 *           handle; runs, texts and steps are borrowed until the next call on the handle, or for
 *           the callback.
 * Units     offsets count rows from 1; sizes in bytes; times in us since 1970 UTC.
 * Errors    what store/store.h says, and: SC_E_NOLOG there is no archive of a log at that URL;
 *           SC_E_NOAUTH another machine took it over; SC_E_DATA damage or missing segments, with
 *           file and last_good, or an object that is not what we would have put there; SC_E_REFUSED
 *           offsets, as log/reader.h; SC_E_CONFIG another stream, a newer format.
 * Safety    a handle stays in its thread. One machine writes; any number read meanwhile, without a
 *           lock. A reader's memory does not grow with the range: one segment's index, a frame,
 *           what is read ahead, and 40 bytes for each segment.
 * Source    man/sc-log.5, "Archive".
 *
 * Below the archive's URL, which ends with the log's name:
 *     log.json          as the log's own
 *     epoch.json        who may write, and from which offset on rows are kept; changed only by
 *     compare-and-swap
 *     list.json         the segments, for readers who cannot list (https); written after them
 *     sealed/NAME       the segments; created once, never changed
 *     journal/NAME      blocks of journals that are in no segment yet; created once, removed when
 *     segments hold their rows. They are not in list.json.
 */
#ifndef SC_LOG_ARCHIVE_H
#define SC_LOG_ARCHIVE_H

#include "log/log.h"
#include "log/range.h"
#include "log/reader.h"
#include "log/seal.h"
#include "store/store.h"

#define SC_ARCHIVE_SEGMENTS_MAX (1u << 20)
#define SC_ARCHIVE_OBJECTS_MAX (2u << 20) /* of one kind, also those that others cover */

struct sc_archive;

/* To read; URL ends with the log's name. SETTINGS may be NULL. */
int sc_archive_open(const char *url, const struct sc_store_settings *settings, struct sc_archive **ret_archive,
		    struct sc_err *err);
/* The same; rows that list.json says to be there, and that no object has, count as missing, also
 * before the first object and behind the last one: who reads them gets SC_E_DATA. */
int sc_archive_open_strict(const char *url, const struct sc_store_settings *settings, struct sc_archive **ret_archive,
			   struct sc_err *err);
/* As sc_archive_open; when there is no archive at URL itself: the one of the log NAME in the
 * folder of archives there. */
int sc_archive_find(const char *url, const char *name, const struct sc_store_settings *settings,
		    struct sc_archive **ret_archive, struct sc_err *err);
void sc_archive_close(struct sc_archive *archive);
/* See what is there now. Readers that are open go on. */
int sc_archive_refresh(struct sc_archive *archive, struct sc_err *err);

struct sc_archive_state {
	const char *url;          /* to show */
	const char *stream_id;
	uint64_t epoch;           /* 0: nobody has claimed it */
	uint64_t first_offset;    /* of the first row held; = next_offset when none is */
	uint64_t next_offset;     /* above the last row held; 1 when there never was one */
	uint64_t segments, file_bytes;
	uint64_t late;            /* segments of machines that were replaced, which came afterwards and count for nothing */
	uint64_t shipped, shipped_bytes; /* objects of rows that are in no segment yet, or were not when they came */
};
/* As of the opening or the last refresh. */
void sc_archive_state(const struct sc_archive *archive, struct sc_archive_state *ret_state);
/* First offset whose append time is at or after WHEN; next_offset if there is none. */
int sc_archive_offset_at(struct sc_archive *archive, int64_t when_us, uint64_t *ret_offset,
		struct sc_err *err);
/* As sc_range_resolve. */
int sc_archive_range(struct sc_archive *archive, const struct sc_range *range, uint64_t *ret_from, uint64_t *ret_end,
		     struct sc_err *err);

/* As log/reader.h: FROM 0 is the earliest; SC_E_REFUSED "evicted" or "ahead"; 0 at the end of
 * what the archive held. The archive outlives the reader. */
struct sc_archive_reader;
int sc_archive_reader_open(struct sc_archive *archive, uint64_t from, struct sc_archive_reader **ret_reader,
			   struct sc_err *err);
int sc_archive_reader_next(struct sc_archive_reader *reader, size_t max_bytes, struct sc_run *ret_run,
			   struct sc_err *err);
void sc_archive_reader_close(struct sc_archive_reader *reader);
/* Read the rows in [from, end) and prove them, as sc_log_verify does; the hash is the same. */
int sc_archive_verify(struct sc_archive *archive, uint64_t from, uint64_t end, struct sc_log_proof *ret_proof,
		      struct sc_err *err);

/*
 * To archive LOG in the folder of archives at URL (the log's name is added). Unless DRY, the caller
 * holds the log's seal until the archive is closed, and the archive is claimed: by the first
 * machine that comes; SC_E_NOAUTH when another one has it. Who has it, and what was seen to be in
 * it, is noted in the log's archive.json.
 */
int sc_archive_open_log(struct sc_log *log, const char *url, const struct sc_store_settings *settings, bool dry,
			struct sc_archive **ret_archive, struct sc_err *err);
/* The archive as it is becomes this log's alone: the machine that had it is refused from then on.
 * Not in a dry run. */
int sc_archive_take_over(struct sc_archive *archive, struct sc_err *err);
/*
 * For a log that lost its archive.json, or is another copy of that log: opens and takes over. The
 * archive is proved to be a part of the log before: SC_E_REFUSED "ahead" when it has rows that the
 * log has not (then sc_log_restore is the way), SC_E_DATA when the newest ones are others; then
 * whoever has it keeps it. The log goes on above all that the other one may have given, and what
 * that one has on its way counts for nothing; SC_E_REFUSED "no_offsets", "too_often": there are not
 * so many offsets, or marks. Dry: as the archive is now, nothing is changed.
 */
struct sc_archive_seizure {
	bool dry;
	bool no_jump;             /* no offset is left out: the other one gave none, or the same ones */
	uint64_t jump;            /* so many are, at least; less than 2^20 is that */
	int64_t now_us;           /* 0 = the clock's */
	/* of what came of it, once it is done */
	char host[80];            /* who had it, and since when; empty: nobody */
	int64_t since_us;
	uint64_t epoch;           /* ours */
	uint64_t first, next;     /* what was left out; the log goes on at NEXT */
};
int sc_archive_seize(struct sc_log *log, const char *url, const struct sc_store_settings *settings,
		     struct sc_archive_seizure *seizure, struct sc_archive **ret_archive, struct sc_err *err);

enum sc_archive_act {
	SC_ARCHIVE_UPLOADED,      /* the segment was put there, and verified */
	SC_ARCHIVE_FOUND,         /* it was there, and was verified: an earlier run died before it could note it */
	SC_ARCHIVE_REMOVED,       /* the archive does not hold it any more */
	SC_ARCHIVE_SHIPPED,       /* rows of a journal were put there, and verified */
	SC_ARCHIVE_LOST,          /* rows that were there are not, nor does the log have them: somebody removed their objects */
};
struct sc_archive_step {
	enum sc_archive_act act;
	uint64_t first, last, file_bytes;
};
struct sc_archive_options {
	void *arg;                /* of the callbacks; each may be NULL */
	void (*step)(void *arg, const struct sc_archive_step *step); /* after it is done; in a dry run: would be */
	bool (*progress)(void *arg, uint64_t done, uint64_t total); /* bytes of files; false: stop here, with 0 */
	int64_t now_us;           /* 0 = the clock's */
};
/* Every segment of the log that the archive has not yet, from the lowest. What an upload that died
 * left is finished. */
int sc_archive_push(struct sc_archive *archive, const struct sc_archive_options *options,
		struct sc_err *err);
/*
 * What is in journals and not yet there, each piece of a journal as one object, up to what readers
 * of the log see: whole commits, on disk. Nothing new: nothing is asked. Rows that were sealed
 * before they could be shipped come with their segments: until these were pushed nothing is
 * shipped, so that the archive has no hole. Many small objects are put together as larger ones.
 */
int sc_archive_ship(struct sc_archive *archive, const struct sc_archive_options *options,
		struct sc_err *err);
/* In a dry run, before the next two: SEGMENT would have been put there by now, if it is not
 * held. */
int sc_archive_foresee(struct sc_archive *archive, const struct sc_sealed *segment,
		struct sc_err *err);
/* The archive was seen, in this run, to hold all rows of SEGMENT, the very bytes or those it was
 * made of; or it had them for as long as it keeps rows. */
bool sc_archive_holds(const struct sc_archive *archive, const struct sc_sealed *segment);
/* Segments that are not to be kept go from the archive, from the lowest; the floor is published
 * before. The newest stays. */
int sc_archive_keep(struct sc_archive *archive, const struct sc_keep *keep, const struct sc_archive_options *options,
		    struct sc_err *err);

#endif
