/*
 * log/log_internal.h: what the files of lib/log share.
 *
 * Owns      struct sc_log: one handle, one thread.
 * Units     as in log/log.h; positions are bytes in a journal.
 * Errors    as in log/log.h.
 * Safety    inside lib/log only.
 * Source    man/sc-log.5.
 *
 * Locks, in this order: seal.lock (who changes segments), the index's write transaction (appenders
 * and trims wait for one another), then flock(2) on the folder (exclusive: whoever changes journals
 * or index; shared: whoever opens the index). The second one stands also when the index was deleted
 * or replaced under a running process.
 */
#ifndef SC_LOG_LOG_INTERNAL_H
#define SC_LOG_LOG_INTERNAL_H

#include <limits.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "kv/kv.h"
#include "log/block.h"
#include "log/log.h"
#include "log/reader.h"
#include "log/seal.h"

#define SC_JOURNAL_STANDARD (8u << 20)
#define SC_JOURNAL_MIN (4u << 10)
#define SC_JOURNAL_MAX (1u << 30)
#define SC_SPARSE_BYTES (64u << 10)  /* a look-up entry about every so many bytes of journal */
/* What is left out ends below this: behind it there must be offsets for rows. */
#define SC_NEXT_MAX (UINT64_MAX - 2 - (1ull << 20))
#define SC_SOURCES_MAX 32768         /* an anchor has room for them all, whatever their names */
#define SC_PRODUCERS_MAX 4096        /* remembered; the longest idle ones are forgotten first */

struct sc_log;

/* log.json */
#define SC_LOG_FORMAT 1
#define SC_LOG_FORMAT_SCHEMAS 2 /* the schema was changed; the rest is the same */
struct sc_floor {
	uint64_t offset;       /* rows below are given up; 1 in a new log */
	uint64_t rows, bytes;  /* how many there were, and their lines */
};
/* A schema, and from which offset on it is in force. */
struct sc_era {
	uint64_t version, from;
	size_t at, len;        /* of its text in settings.schemas; 0 = any JSON value is a row */
};
struct sc_settings {
	char stream_id[40];
	int64_t created_us;
	struct sc_bytes schemas; /* published forms, back to back */
	struct sc_era *eras;     /* versions rise, offsets do not fall; the last one is in force */
	size_t era_count, era_cap;
	uint64_t message_max, journal_bytes;
	bool network_ok;
	struct sc_floor floor;
	uint64_t next;         /* offsets below it are not given any more; 0: nothing is left out */
};
void sc_settings_init(struct sc_settings *s);
void sc_settings_done(struct sc_settings *s);
int sc_settings_read(const char *log_path, struct sc_settings *s, struct sc_err *err);
/* A schema that follows those that are there. */
int sc_settings_add(struct sc_settings *s, const struct sc_schema_mark *mark, struct sc_err *err);
/* The one in force; the one that the row at OFFSET was checked by. */
struct sc_schema_mark sc_settings_schema(const struct sc_settings *s);
struct sc_schema_mark sc_settings_schema_at(const struct sc_settings *s, uint64_t offset);
struct sc_schema_mark sc_settings_era(const struct sc_settings *s, size_t index);
/* NAME is for messages. */
int sc_settings_parse(struct sc_span text, const char *name, struct sc_settings *s,
		struct sc_err *err);
/* log.json as it is now; SC_E_NOLOG when the folder holds another log by now. */
int sc_settings_refresh(struct sc_log *log, struct sc_err *err);
/*
 * The same, if the file is not the one that was read: one stat. Whoever has the index's lock is up
 * to date by it: log.json is replaced under that lock only.
 */
int sc_settings_check(struct sc_log *log, struct sc_err *err);
int sc_settings_write(const char *log_path, const struct sc_settings *s, struct sc_err *err);
/* The same of LOG's own, which were changed; on failure they are what the file says. */
int sc_settings_put(struct sc_log *log, struct sc_err *err);
/* Is NAME a log.json that was being written when its process died? The next write removes it. */
bool sc_settings_leftover(const char *name);

/*
 * The state after a commit: one record in the index, and published in index.state. Native byte
 * order: both files belong to one boot of one machine.
 */
struct sc_state {
	uint64_t next;            /* offset of the next row */
	uint64_t rows, bytes;     /* appended since the log began */
	uint64_t commit;          /* number of the last commit */
	uint64_t journal, end;    /* the journal in use, and where its last block ends */
	uint64_t journals;
	uint64_t floor, floor_rows, floor_bytes;
	uint64_t first;           /* first row held; 0 = none */
	uint64_t last;            /* last row ever appended; 0 = none */
	int64_t first_us, last_us;
	uint64_t sparse_at;       /* position of the newest look-up entry in the journal */
	uint64_t suspect;         /* a sync failed, or a seal wants it: go on in a new journal */
	struct sc_hash hash;      /* of the last block */
	uint64_t change;          /* rises with every transaction */
	/* the sealed tier: what is in the table of segments */
	uint64_t segments;
	uint64_t sealed_next;     /* the journals begin here; 0 = nothing is sealed */
	uint64_t sealed_rows, sealed_bytes, sealed_file_bytes;
};

/* Where a block is, and how many rows and bytes of lines were appended before it. */
struct sc_place {
	uint64_t journal, at;
	uint64_t rows, bytes;
	int64_t appended_us;
};
struct sc_journal_entry {
	uint64_t end;             /* 0 = it is the one in use */
	uint64_t rows, bytes;     /* before it */
};

enum sc_table { SC_T_STATE, SC_T_BLOCKS, SC_T_JOURNALS, SC_T_SOURCES, SC_T_PRODUCERS, SC_T_SEGMENTS };

struct sc_log {
	char *path;
	char name[NAME_MAX + 1];
	enum sc_log_mode mode;
	bool tolerant;            /* go on although rows are missing: trim and reindex, by hand */
	bool forgave;             /* and they are */
	int dir_fd;               /* for flock */
	uint64_t folders;         /* how often another one came to PATH: what was open before is not the log's */
	int64_t looked_us;        /* when it was last compared with what is at PATH */
	char boot[SC_UUID_TEXT];
	struct sc_settings settings;
	int settings_fd;          /* the log.json that was read: as long as it is open, no other file has its inode */
	struct stat settings_stat;
	struct sc_schema *schema; /* what the caller knows; settings may be ahead of it */
	struct sc_schema_mark mark; /* of it, without the text */
	struct sc_kv *kv;         /* NULL: this process can have no place in it; look-ups use the files */
	int state_fd;             /* index.state; -1: no index of this boot, and we may not make one */
	bool state_writable;
	bool locked;              /* between sc_index_begin and its end: the index stays the one that is open */
	bool recovering;          /* look-ups see the files as they are */
	struct sc_state scanned;  /* then this was found in the files */
	/* appending */
	int journal_fd;
	uint64_t journal;         /* its name */
	uint64_t journal_size;    /* written with zeros so far */
	bool journal_new;         /* the index does not know it yet */
	bool poisoned;
	struct sc_bytes out, ext, places;
};

/* log.c */
/* No log yet: a handle that knows its PATH and has buffers; sc_log_done releases what it holds. */
int sc_log_init(struct sc_log *log, const char *path, struct sc_err *err);
void sc_log_done(struct sc_log *log);
/* The folder of a restore that did not end: refused by everybody else. */
#define SC_RESTORE_FILE "restore.json"
/* SC_E_NOLOG when there is one, with the way to go on. 0: there is none. */
int sc_log_check_restore(const char *path, struct sc_err *err);
int sc_log_file(const struct sc_log *log, char ret_path[PATH_MAX], const char *name);
/* Was the log's folder moved away, and is another log at its path? Looks once a second. */
bool sc_log_moved(struct sc_log *log);
/* The log's folder is the one at its path. SC_E_NOLOG: there is none any more. */
int sc_log_find_folder(struct sc_log *log, struct sc_err *err);
/* SC_E_NOLOG: the folder that we opened, or its log.json, is not at the log's path any more; then
 * a file that is missing or another one is no damage. 0: it is there. */
int sc_log_gone(const struct sc_log *log, struct sc_err *err);
/* Rows are missing: does who opened it want to go on all the same? */
bool sc_log_forgives(struct sc_log *log);
/* RC, or SC_E_NOLOG and its words when damage or a failure comes of a log that is gone. */
int sc_log_or_gone(const struct sc_log *log, int rc, struct sc_err *err);
/* sc_err_on for this log, after sc_err_set. */
int sc_log_err(const struct sc_log *log, struct sc_err *err);
struct sc_span sc_u64_key(const uint64_t *key);

/* journal.c */
struct sc_names {
	uint64_t *items;          /* first offsets, ascending */
	size_t count;
};
void sc_journal_path(const struct sc_log *log, uint64_t name, char ret_path[PATH_MAX]);
bool sc_journal_name_parse(const char *text, uint64_t *ret_name);
int sc_journal_list(const struct sc_log *log, struct sc_names *ret_names, uint64_t *ret_strangers,
		struct sc_err *err);
void sc_journal_list_done(struct sc_names *names);
/* Open for reading: SC_E_NOLOG when it is not there. */
int sc_journal_open(const struct sc_log *log, uint64_t name, bool write, int *ret_fd,
		struct sc_err *err);
/* false: the file was removed, or another one got its name; what is written to it is lost. */
bool sc_journal_is_named(int fd);
/* Make LOG->journal_fd the journal in use as STATE says. */
int sc_journal_use(struct sc_log *log, const struct sc_state *state, struct sc_err *err);
/*
 * A new journal that begins at state->next, anchored to STATE and on disk, becomes the one in
 * use; STATE follows. EXT: checkpoint to stand behind the anchor.
 */
int sc_journal_begin(struct sc_log *log, struct sc_state *state, struct sc_span checkpoint,
		struct sc_err *err);
/* Written with zeros up to AT + LEN and some more, so that a commit changes no size. */
void sc_journal_ahead(struct sc_log *log, uint64_t at, size_t len);
int sc_journal_write(struct sc_log *log, const void *data, size_t len, uint64_t at,
		struct sc_err *err);
int sc_journal_sync(struct sc_log *log, struct sc_err *err);
/* Make what stands at AT no block any more: an append that failed. Best effort. */
void sc_journal_wipe(struct sc_log *log, uint64_t at);
void sc_journal_close(struct sc_log *log);
/*
 * Remove the journals behind the one in use, and sync: who made them died or failed before the
 * index knew them, and a rebuild of it would take them for commits.
 */
int sc_journal_clear_ahead(const struct sc_log *log, const struct sc_state *state,
		struct sc_err *err);
/*
 * Offsets that log.json leaves out are not given. A schema never begins above the next one but in a
 * copy that was made during a migration: what is missing there is not given again, and no row
 * stands before its schema.
 */
void sc_journal_leave_out(const struct sc_log *log, struct sc_state *state);
/* Under the lock: nothing stands behind the end of the log that chains to it, not in the journal in
 * use, nor in another. What an appender left there when it died was not acknowledged. */
int sc_journal_clear_behind(struct sc_log *log, const struct sc_state *state, struct sc_err *err);
/*
 * A new journal, because the one in use has its size, is suspect, or is to be sealed: made, and
 * noted in the index. The one in use must hold rows.
 */
int sc_journal_rotate(struct sc_log *log, struct sc_kv_txn *txn, struct sc_state *state,
		struct sc_err *err);

/* walk.c: the blocks of one journal file in order */
struct sc_walk {
	const struct sc_log *log; /* these two for messages */
	uint64_t journal;
	int fd;
	char *buf;
	size_t cap, len;          /* bytes [at, at+len) of the file are in buf */
	uint64_t at;
	uint64_t pos, limit;      /* next block; never read beyond */
	size_t chunk;
};
enum sc_walk_how { SC_WALK_HEADS, SC_WALK_CHECK };
void sc_walk_init(struct sc_walk *w);
void sc_walk_start(struct sc_walk *w, const struct sc_log *log, uint64_t journal, int fd, uint64_t pos,
		   uint64_t limit, size_t chunk);
void sc_walk_done(struct sc_walk *w);  /* frees the buffer; the descriptor is the caller's */
/*
 * 1 and a block, whose bytes are at *ret_data unless only heads were asked for; 0 at the limit;
 * SC_E_DATA when there is no whole block at w->pos (err is not filled then), SC_E_IO, SC_E_NOMEM.
 * w->pos moves on success only.
 */
int sc_walk_next(struct sc_walk *w, enum sc_walk_how how, struct sc_block *ret_block, const char **ret_data,
		 struct sc_err *err);
/* SC_E_DATA: the block at POS of that journal is damaged; LAST_GOOD is the last offset before
 * it. */
int sc_walk_damage(const struct sc_log *log, uint64_t journal, uint64_t pos, uint64_t last_good,
		struct sc_err *err);

/* recover.c: what the files say */
struct sc_recovery {
	struct sc_state state;
	struct sc_kv_txn *txn;    /* an empty index to fill, or NULL */
	uint64_t tail;            /* where the last commit begins in the journal in use */
	uint64_t torn;            /* a journal that was being made and holds nothing: to unlink; 0 = none */
	uint64_t beyond;          /* by hand: the offset above all rows that stand behind damage */
	bool schema_newer;        /* the journals know a later schema than log.json; it is in log->settings now */
	uint64_t sealed_last;     /* last offset of the sealed tier: journals that begin at or below it are leftovers */
};
int sc_recover(struct sc_log *log, struct sc_recovery *r, struct sc_err *err);
/* After a recovery that may be built upon: what was found is made sure to be on disk. */
int sc_recover_settle(struct sc_log *log, const struct sc_recovery *r, struct sc_err *err);
/* Remove what a seal, a compaction or a trim left that died; when the new index is in place, so
 * that no reader looks there. */
void sc_recover_sweep(struct sc_log *log, const struct sc_recovery *r);

/* skip.c */
/*
 * The next COUNT offsets, and all others below LEAST, are given to no row any more: at once, for
 * every process, and also after a power cut. What was left out; nothing when COUNT is 0 and LEAST
 * is not above the next offset. SC_E_REFUSED: there are not so many.
 */
int sc_log_skip(struct sc_log *log, uint64_t count, uint64_t least, uint64_t *ret_first,
		uint64_t *ret_next, struct sc_err *err);

/* index.c */
int sc_index_open(struct sc_log *log, struct sc_err *err);
void sc_index_close(struct sc_log *log);
int sc_index_now(struct sc_log *log, struct sc_state *ret_state, struct sc_err *err);
/* The lock for whoever changes the log, with the state as it is. */
int sc_index_begin(struct sc_log *log, struct sc_kv_txn **ret_txn, struct sc_state *ret_state,
		struct sc_err *err);
/*
 * Store STATE, commit, publish, unlock. *TXN is NULL afterwards, also on failure; then the block at
 * UNDO_AT of the journal in use (0 = none) is made none, if the index surely does not know it.
 */
int sc_index_end(struct sc_log *log, struct sc_kv_txn **txn, const struct sc_state *state,
		 uint64_t undo_at, struct sc_err *err);
void sc_index_abort(struct sc_log *log, struct sc_kv_txn **txn);
/* Under the exclusive lock; afterwards the index is open. */
int sc_index_rebuild(struct sc_log *log, struct sc_err *err);
/* Take the entries of a table of offsets below OFFSET out of it; how many there were. */
int sc_index_forget(struct sc_kv_txn *txn, int table, uint64_t offset, uint64_t *ret_count,
		struct sc_err *err);
/* LMDB at PATH with the tables of an index. */
int sc_index_open_kv(const char *path, struct sc_kv **ret_kv, struct sc_err *err);
/* By hand: lock, rebuild, unlock. */
int sc_index_redo(struct sc_log *log, struct sc_err *err);
/* To be able to wait for the next commit: the file that each commit writes last. */
#define SC_STATE_FILE "index.state"
#define SC_INDEX_FILE "index.mdb"

/* tier.c: the folder of segments */
#define SC_SEALED_DIR "sealed"
#define SC_SEAL_TEMPORARY SC_SEALED_DIR "/.seal.tmp"
struct sc_tier_name {
	uint64_t first, last;
	bool covered;             /* another one holds all of its rows */
};
struct sc_tier_names {
	struct sc_tier_name *items; /* by first offset; a longer one before those that it covers */
	size_t count;
	uint64_t strangers;
};
int sc_tier_list(const struct sc_log *log, struct sc_tier_names *ret_names, struct sc_err *err);
void sc_tier_list_done(struct sc_tier_names *names);
void sc_tier_path(const struct sc_log *log, uint64_t first, uint64_t last, char ret_path[PATH_MAX]);
struct sc_tier {
	int fd;
	struct sc_segment *segment;
	char path[];
};
/* SC_E_NOLOG: it is not there. SC_E_DATA: it is damaged, or not what its name says. */
int sc_tier_open(const struct sc_log *log, uint64_t first, uint64_t last,
		struct sc_tier **ret_tier, struct sc_err *err);
void sc_tier_close(struct sc_tier *tier);
void sc_tier_note(const struct sc_segment_info *info, struct sc_sealed *ret_sealed);
/* SC_E_DATA: the segment is not there. */
int sc_tier_missing(const struct sc_log *log, uint64_t first, uint64_t last, struct sc_err *err);
/* Every segment of the index or, without one, of the folder, into an array to be freed. */
int sc_tier_all(struct sc_log *log, struct sc_sealed **ret_items, size_t *ret_count,
		struct sc_err *err);
int sc_tier_remove(const struct sc_log *log, uint64_t first, uint64_t last, struct sc_err *err);
int sc_tier_sync(const struct sc_log *log, struct sc_err *err);

/* find.c */
/*
 * Which file holds the first row at or above OFFSET: a segment, or a journal from the last known
 * block on. 1, 0: no file does. What it says was true when it was asked: a seal or a trim may
 * remove the file at any time (sc_find_again).
 */
struct sc_spot {
	bool sealed;
	uint64_t begin;           /* offset of its first row; above OFFSET: there is a gap, or what was there was given up */
	struct sc_sealed segment; /* sealed */
	struct sc_place place;    /* else */
};
int sc_find_spot(struct sc_log *log, uint64_t offset, struct sc_spot *ret_spot, struct sc_err *err);
/* The segment with the highest first offset below OFFSET. 1, 0. */
int sc_find_before(struct sc_log *log, uint64_t offset, struct sc_sealed *ret_segment,
		struct sc_err *err);
/*
 * The file of SPOT was not there. 1: rows moved, or were given up: *SPOT is where OFFSET is now; 0:
 * no file has it now; SC_E_DATA: the file is lost.
 */
int sc_find_again(struct sc_log *log, uint64_t offset, struct sc_spot *spot, struct sc_err *err);
/* What the anchor of a journal says; stream_id is not set. */
int sc_find_anchor(struct sc_log *log, uint64_t name, struct sc_place *ret_place, struct sc_anchor *ret_anchor,
		   struct sc_err *err);
/*
 * Where journal NAME ends (state->end for the one in use), and which follows it (0 = none). 0 or
 * SC_E_NOLOG: there is no such journal.
 */
int sc_find_journal(struct sc_log *log, const struct sc_state *state, uint64_t name, uint64_t *ret_end,
		    uint64_t *ret_next, struct sc_err *err);
/*
 * The first row at or above OFFSET: its block's place, its own offset, how many rows and bytes
 * come before it. 1, or 0 if there is none below the frontier.
 */
struct sc_found {
	struct sc_place block;
	uint64_t offset;
	uint64_t rows, bytes;
	bool sealed;              /* then of block only the time is set */
};
int sc_find_row(struct sc_log *log, const struct sc_state *state, uint64_t offset, struct sc_found *ret_found,
		struct sc_err *err);

/* source.c */
/* Put an extension's fact into the index. */
int sc_source_apply(struct sc_kv_txn *txn, const struct sc_ext *ext, struct sc_err *err);
/* All sources and producers as extensions, appended to OUT; forgets producers beyond
 * SC_PRODUCERS_MAX. */
int sc_source_checkpoint(struct sc_kv_txn *txn, struct sc_bytes *out, struct sc_err *err);

/* reader.c */
/* Drop the lines below OFFSET from the front of REST. */
void sc_reader_drop(struct sc_run *rest, uint64_t offset);
/* Cut RUN to whole lines within MAX bytes, or one line; what is left stays in REST. */
void sc_reader_cut(struct sc_run *rest, size_t max, struct sc_run *ret_run);

/* netfs.c */
/* "NFS" for a file system that other machines write too (statfs f_type), or NULL. */
const char *sc_netfs_name(uint64_t type);
int sc_netfs_check(const char *path, struct sc_err *err);

#endif
