/*
 * log/archive_internal.h: what the files of the archive share.
 *
 * Owns      as log/archive.h.
 * Units     as log/archive.h.
 * Errors    as log/archive.h.
 * Safety    inside lib/log only.
 * Source    man/sc-log.5, "Archive".
 */
#ifndef SC_LOG_ARCHIVE_INTERNAL_H
#define SC_LOG_ARCHIVE_INTERNAL_H

#include <limits.h>
#include <xxhash.h>

#include "base/clock.h"
#include "log/archive.h"

#define SC_ARCHIVE_FORMAT 1
#define SC_ARCHIVE_LOG "log.json"
#define SC_ARCHIVE_EPOCH "epoch.json"
#define SC_ARCHIVE_LIST "list.json"
#define SC_ARCHIVE_SEALED "sealed/"
#define SC_ARCHIVE_JOURNAL "journal/"
#define SC_ARCHIVE_BLOCKS ".blocks"
#define SC_ARCHIVE_SEGMENT ".ndjson.zst"
#define SC_ARCHIVE_TAG (sizeof(".e18446744073709551615") - 1)
#define SC_ARCHIVE_KEY \
	(NAME_MAX + 2 + sizeof(SC_ARCHIVE_SEALED) + SC_SEGMENT_NAME + SC_ARCHIVE_TAG)
#define SC_ARCHIVE_JSON_MAX (64u << 20)
#define SC_ARCHIVE_HOST 72
#define SC_ARCHIVE_BURNS_MAX 256
#define SC_ARCHIVE_JUMP_MAX (1ull << 40)

struct sc_archive_item {
	uint64_t first, last;     /* offsets, from its name */
	uint64_t epoch;           /* of who put it there, from its name; 0: it does not say */
	uint64_t bytes;           /* of the object */
	int64_t first_us, last_us; /* 0: it was not looked into yet */
	bool alone;               /* of what was shipped: no segment has all its rows */
	bool spare;               /* or they all have, and it is to go; in a restore: others have its rows */
	bool foreseen;            /* a dry run's: it is not there, but would be */
	bool unseen;              /* no object: rows that list.json says to be there, and nothing has */
};
/* By first; none is covered by another. */
struct sc_archive_items {
	struct sc_archive_item *items;
	size_t count, cap;
};

/*
 * What an epoch began with. Offsets [first, next) are given by no log of this stream again (none,
 * when they are the same): whoever was replaced may have given them. What was put there in an
 * earlier epoch and ends at or above FROM is a late one of a machine that was replaced, and is
 * nothing.
 */
struct sc_archive_burn {
	uint64_t epoch, first, next, from;
};

/* epoch.json */
struct sc_archive_epoch {
	char stream_id[40];
	uint64_t epoch;           /* 0: there is none */
	char owner[SC_UUID_TEXT];
	char host[SC_ARCHIVE_HOST];
	int64_t since_us;
	uint64_t floor;           /* rows below are given up */
	uint64_t named;           /* from that epoch on names say the epoch; 0: they never did */
	uint64_t lowest;          /* what came before that epoch counts for nothing; 0: all counts */
	struct sc_archive_burn burns[SC_ARCHIVE_BURNS_MAX]; /* ascending, apart */
	size_t burn_count;
	char etag[SC_STORE_ETAG_SIZE];
};

/* Offsets [first, next) that were seen in the archive. */
struct sc_archive_span {
	uint64_t first, next;
};
/* The log's archive.json */
struct sc_archive_record {
	char owner[SC_UUID_TEXT]; /* empty: this archive is new to us */
	uint64_t epoch;
	struct sc_archive_span *spans; /* ascending, apart */
	size_t span_count, span_cap;
};

struct sc_archive {
	struct sc_store *store;
	char *url;                /* of the archive, to show: the store's and the prefix */
	char prefix[NAME_MAX + 2]; /* of every key: empty, or the log's name and a slash */
	char stream_id[40];
	bool can_list;
	struct sc_archive_epoch epoch;
	struct sc_archive_item *items; /* by first; none is covered by another */
	size_t count, cap;
	struct sc_archive_items ships; /* what came of the journals */
	bool strays;              /* objects among these were seen that count for nothing */
	bool strict;              /* unseen rows are among the items: who reads them is told that they are missing */
	struct sc_archive_items unseen; /* all of them */
	uint64_t listed_next;     /* above all rows that list.json names */
	struct sc_archive_items late; /* segments of machines that were replaced, which count for nothing */
	/* to write */
	struct sc_log *log;       /* NULL: it is only read */
	bool dry;
	bool restoring;           /* LOG is none yet */
	bool lost;                /* another machine has it by now */
	bool listed_anew;         /* list.json is not what ITEMS is */
	struct sc_archive_record record;
	/* shipping */
	bool has_log;             /* log.json was put there, or was there, since the opening */
	uint64_t shipped_next;    /* all rows below are there; 0: to be found out */
	uint64_t sealed_seen;     /* all segments below this offset are held */
	uint64_t foreseen_next;   /* in a dry run, rows below would be in segments */
	uint64_t chained;         /* the log's blocks were found to follow the segment that ends there */
	uint64_t at_journal, at, at_offset; /* the block at or behind which that offset is */
};

/* archive_key.c */
/* The key of a segment; of another object. */
void sc_archive_key(const struct sc_archive *archive, const struct sc_archive_item *item,
		char ret_key[SC_ARCHIVE_KEY]);
void sc_archive_name(const struct sc_archive *archive, const char *name,
		char ret_key[SC_ARCHIVE_KEY]);
/* Is it the key of a segment, as this archive makes it? Fills offsets, epoch and size. */
bool sc_archive_key_parse(const struct sc_archive *archive, const struct sc_store_item *object,
		struct sc_archive_item *ret_item);
/* The same for what is shipped of the journals. */
void sc_archive_ship_key(const struct sc_archive *archive, const struct sc_archive_item *item,
		char ret_key[SC_ARCHIVE_KEY]);
bool sc_archive_ship_parse(const struct sc_archive *archive, const struct sc_store_item *object,
		struct sc_archive_item *ret_item);
/* The epoch for the names of what is put there now; 0: they do not say it. */
uint64_t sc_archive_tag(const struct sc_archive *archive);
/* The end of the range that is burned where OFFSET is, or OFFSET. */
uint64_t sc_archive_past(const struct sc_archive_epoch *epoch, uint64_t offset);
/* Was it put there by a machine that had been replaced? */
bool sc_archive_is_late(const struct sc_archive_epoch *epoch, const struct sc_archive_item *item);

/* archive.c */
/* Opens the store; URL is the archive's, or that of the folder where NAME is an archive. */
int sc_archive_connect(struct sc_archive *archive, const char *url, const char *name,
		       const struct sc_store_settings *settings, struct sc_err *err);
/* sc_err_on for the object KEY. */
void sc_archive_err(const struct sc_archive *archive, const char *key, struct sc_err *err);
int sc_archive_read_epoch(struct sc_archive *archive, struct sc_archive_epoch *ret_epoch,
		struct sc_err *err);
/* Among the items, in their order; one that others cover is left out, and the other way round. */
int sc_archive_shelve(struct sc_archive_items *list, const struct sc_archive_item *item,
		struct sc_err *err);
/* The first of COUNT that ends at or above OFFSET; COUNT: none. */
size_t sc_archive_at(const struct sc_archive_item *items, size_t count, uint64_t offset);
/* A new segment among the items. */
int sc_archive_add(struct sc_archive *archive, const struct sc_archive_item *item,
		struct sc_err *err);
/* The first item that ends at or above OFFSET; count: none. */
size_t sc_archive_item_of(const struct sc_archive *archive, uint64_t offset);
/* Closes with the archive's memory kept. */
void sc_archive_done(struct sc_archive *archive);
/* SC_E_NOLOG because there is no such bucket: what helps then is said already. */
bool sc_archive_no_bucket(const struct sc_err *err);
/* The stream's id, from log.json. */
int sc_archive_read_id(struct sc_archive *archive, struct sc_err *err);
/* The object NAME, a JSON object of a format we know, into TEXT. SC_E_NOLOG: it is not there. */
struct sc_json;
int sc_archive_read_json(struct sc_archive *archive, const char *name, struct sc_bytes *text,
			 struct sc_json *ret_root, struct sc_store_info *ret_info, struct sc_err *err);
/* stream_id of a log.json or epoch.json that was scanned. */
bool sc_archive_text(const struct sc_json *root, const char *name, char *ret_text, size_t size);

/* archive_segment.c: a segment in the archive, open */
struct sc_archive_segment;
/* SC_E_NOLOG: it is not there. Notes the times in ITEM. */
int sc_archive_segment_open(struct sc_archive *archive, struct sc_archive_item *item,
			    struct sc_archive_segment **ret_segment, struct sc_err *err);
void sc_archive_segment_close(struct sc_archive_segment *segment);
struct sc_segment *sc_archive_segment_inner(struct sc_archive_segment *segment);

/* archive_reader.c */
/* The rows in [FROM, END) are right: their lines go into ALL, their numbers are added to PROOF. */
int sc_archive_prove(struct sc_archive *archive, uint64_t from, uint64_t end, XXH3_state_t *all,
		     struct sc_log_proof *proof, struct sc_err *err);

/* verify.c */
/* The same of a log; SC_E_REFUSED "evicted": FROM is below what it holds. */
int sc_log_prove(const char *path, uint64_t from, uint64_t end, XXH3_state_t *all,
		 struct sc_log_proof *proof, struct sc_err *err);
void sc_log_proof_hash(const XXH3_state_t *all, struct sc_log_proof *proof);

/* archive_blocks.c: blocks of a journal in the archive, open */
struct sc_archive_blocks;
/* SC_E_NOLOG: it is not there. */
int sc_archive_blocks_open(struct sc_archive *archive, const struct sc_archive_item *item,
			   struct sc_archive_blocks **ret_blocks, struct sc_err *err);
void sc_archive_blocks_close(struct sc_archive_blocks *blocks);
/* The next block, whole and right, chained to the one before it. 1; 0: the end. SC_E_DATA names
 * object, position, last good offset. */
int sc_archive_blocks_next(struct sc_archive_blocks *blocks, struct sc_block *ret_block, const char **ret_data,
			   struct sc_err *err);
const char *sc_archive_blocks_name(const struct sc_archive_blocks *blocks);

/* archive_push.c */
/* What is in the archive under KEY must be LEN bytes of FD from AT on. */
int sc_archive_compare(struct sc_archive *archive, int fd, uint64_t at, uint64_t len, const char *path,
		       const char *key, struct sc_err *err);
void sc_archive_tell(const struct sc_archive_options *options, enum sc_archive_act act, uint64_t first,
		     uint64_t last, uint64_t bytes);
/* log.json as the log has it now; without WRITE it is only looked at. Without one an archive is
 * none: it comes before rows. */
int sc_archive_put_log(struct sc_archive *archive, bool write, struct sc_err *err);
/* Archive and log are of one stream; what is needed of the archive was read. */
int sc_archive_begin(struct sc_archive *archive, struct sc_log *log, const char *url,
		     const struct sc_store_settings *settings, struct sc_err *err);

/* All of sc_archive_open_log but the claim. */
int sc_archive_open_only(struct sc_log *log, const char *url, const struct sc_store_settings *settings, bool dry,
			 struct sc_archive **ret_archive, struct sc_err *err);
/* What a run left that died: nobody else writes here. That it cannot be looked for, for want of
 * rights or of such a request, is no reason not to archive. */
void sc_archive_sweep(struct sc_archive *archive);

/* archive_take.c */
/* How many offsets are to be left out, LEAST at least: whoever was replaced may have given them, as
 * fast as before, PACE_ROWS from PACE_US to LAST_US, twice over, since LAST_US. */
uint64_t sc_archive_jump(int64_t now_us, int64_t last_us, int64_t pace_us, uint64_t pace_rows,
		uint64_t least);
/* Does the log have a block of that hash that ends with row LAST? Then what it appended behind it
 * follows also in the archive. 1, also when the log holds no such row any more; 0. */
int sc_archive_chains(struct sc_archive *archive, uint64_t last, const struct sc_hash *hash,
		struct sc_err *err);
/* Among the others, where the new one makes some of them superfluous; it has the highest epoch.
 * false: there are too many. */
bool sc_archive_burn_add(struct sc_archive_epoch *now, const struct sc_archive_burn *burn);

/* archive_reader.c */
/* How many rows were appended between segment I and the one before it. */
int sc_archive_rows_between(struct sc_archive *archive, size_t i, uint64_t *ret_rows,
		struct sc_err *err);

/* How many rows of what was shipped are in [from, end). */
int sc_archive_rows_shipped(struct sc_archive *archive, uint64_t from, uint64_t end, uint64_t *ret_rows,
			struct sc_err *err);

/* archive_ship.c */
/* All that is sealed is in the archive: what was shipped of it goes, where segments have it. Rows
 * that were given up in the log before they were sealed stay as they are. */
int sc_archive_unship(struct sc_archive *archive, struct sc_err *err);

/* archive_record.c */
/* As SC_E_NOAUTH: who has it. */
int sc_archive_taken_over(struct sc_archive *archive, const struct sc_archive_epoch *now,
		struct sc_err *err);
int sc_archive_record_read(struct sc_archive *archive, struct sc_err *err);
int sc_archive_record_write(struct sc_archive *archive, struct sc_err *err);
/* What a writer of it left that was killed. */
void sc_archive_record_sweep(struct sc_archive *archive);
int sc_archive_record_add(struct sc_archive *archive, uint64_t first, uint64_t next,
		struct sc_err *err);
bool sc_archive_record_has(const struct sc_archive *archive, uint64_t first, uint64_t next);
/* Not in a dry run: the archive is still ours; archive->epoch is as it is now. */
int sc_archive_fence(struct sc_archive *archive, struct sc_err *err);
/* What went wrong may be that another machine took it over, and replaced or swept away what we were
 * at: then it is that. */
int sc_archive_explain(struct sc_archive *archive, int rc, struct sc_err *err);
/* The epoch behind NOW, with an owner that has just been made up. */
void sc_archive_next_epoch(const struct sc_archive *archive, struct sc_archive_epoch *now);
/* Replace epoch.json if it is still as archive->epoch has it. */
int sc_archive_write_epoch(struct sc_archive *archive, const struct sc_archive_epoch *now,
		struct sc_err *err);
/* sc_archive_take_over, whatever the one who has it writes there meanwhile; SC_E_NOAUTH: another
 * one took it. */
int sc_archive_wrest(struct sc_archive *archive, struct sc_err *err);
/* list.json says what the items are. */
int sc_archive_publish(struct sc_archive *archive, struct sc_err *err);

#endif
