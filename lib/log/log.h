/*
 * log/log.h: the face of a log: create, open, append, state, trim, sources.
 *
 * Owns      a handle until sc_log_close; texts and lines handed out are borrowed until the next
 *           call on it.
 * Units     offsets count rows from 1; times in us since 1970 UTC; sizes in bytes.
 * Errors    SC_E_NOLOG, SC_E_CANTCREAT, SC_E_IO, SC_E_BUSY, SC_E_DATA, SC_E_CONFIG (network file
 *           system, other format), SC_E_NOAUTH, SC_E_REFUSED (offsets), SC_E_STALE (schema); the
 *           log's path named.
 * Safety    a handle stays in its thread, or is handed from one to another; any number of handles,
 *           threads and processes may append, read, follow and seal one log at once.
 * Source    man/sc-log.5.
 */
#ifndef SC_LOG_LOG_H
#define SC_LOG_LOG_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "json/schema.h"

#define SC_BLOCK_BODY_MAX (256u << 10)  /* a commit over this becomes more blocks */
#define SC_MESSAGE_MAX (64u << 20)      /* hard limit of one message; a log's own limit is a setting */
#define SC_MESSAGE_STANDARD ((1u << 20) - 24) /* default limit: the line fits into the 1 MiB that real clients take */

struct sc_log;

struct sc_log_settings {
	struct sc_span schema;    /* text; empty = any JSON value */
	uint64_t message_max;     /* 0 = SC_MESSAGE_STANDARD */
	uint64_t journal_bytes;   /* rotate at; 0 = 8 MiB */
	bool force_network_fs;    /* not refused, only said */
};
int sc_log_create(const char *path, const struct sc_log_settings *settings, struct sc_err *err);

/* SC_LOG_REPAIR appends too, and goes on although rows are missing from the files: for a trim by
 * hand. */
enum sc_log_mode { SC_LOG_READ, SC_LOG_APPEND, SC_LOG_REPAIR };
int sc_log_open(const char *path, enum sc_log_mode mode, struct sc_log **ret_log,
		struct sc_err *err);
void sc_log_close(struct sc_log *log);

const char *sc_log_path(const struct sc_log *log);
const char *sc_log_name(const struct sc_log *log);       /* the folder's name: the stream's */
const char *sc_log_stream_id(const struct sc_log *log);
/*
 * The schema as this handle knows it, NULL without one; it lives until sc_log_reload says 1. Others
 * may change it (sc_log_migrate): the version counts from 1, `from` is the first offset that was
 * checked by it.
 */
const struct sc_schema *sc_log_schema(const struct sc_log *log);
uint64_t sc_log_schema_version(const struct sc_log *log);
uint64_t sc_log_schema_from(const struct sc_log *log);
/* 1: the schema was changed, what the handle said of it is gone; 0: it is in force. One stat. */
int sc_log_reload(struct sc_log *log, struct sc_err *err);
/* All that the log ever had, the last one in force; SCHEMA as published, empty: any JSON value. */
int sc_log_schemas(struct sc_log *log,
		   int (*each)(void *arg, uint64_t version, uint64_t from, struct sc_span schema), void *arg,
		   struct sc_err *err);
uint64_t sc_log_message_max(const struct sc_log *log);

struct sc_log_state {
	uint64_t first_offset;    /* the first row that is still held; = next_offset when none is */
	uint64_t last_offset;     /* of the last row held; 0 when none is */
	uint64_t next_offset;     /* the frontier: what the next row will get */
	uint64_t floor;           /* rows below were given up; none was ever between it and first_offset */
	uint64_t rows;            /* held */
	uint64_t bytes;           /* of lines, held */
	uint64_t rows_before;     /* appended below first_offset, and not held any more */
	int64_t first_us, last_us;/* append times of the first and last row held; 0 when none */
	uint64_t journals, segments;
	uint64_t sealed_next;     /* rows below it are in segments (or are not held); 0 when nothing was ever sealed */
	uint64_t sealed_rows, sealed_bytes; /* in segments, also those below first_offset in its segment; bytes of lines */
	uint64_t commit_seq;      /* rises with every commit */
};
/* As of now; waits for nobody. */
int sc_log_state(struct sc_log *log, struct sc_log_state *ret_state, struct sc_err *err);
struct sc_log_usage {
	uint64_t journal_bytes;   /* files, with what is written ahead */
	uint64_t segment_bytes;   /* files */
	uint64_t index_bytes;
	uint64_t readers;         /* slots of the index in use; 0 when this user cannot see them */
};
int sc_log_usage(struct sc_log *log, struct sc_log_usage *ret_usage, struct sc_err *err);

/*
 * One commit: all rows or none, one fdatasync. MESSAGES are rows as stored (sc_row_project), back
 * to back in TEXT, LENS[i] bytes each. With OFFSETS (mirror) these are the offsets, rising; else
 * the next ones are assigned.
 */
struct sc_log_rows {
	struct sc_span text;
	const uint32_t *lens;
	const uint64_t *offsets;  /* NULL = assign */
	size_t count;
	uint64_t if_next;         /* not 0: refuse (SC_E_REFUSED) unless the next offset is this */
	struct sc_span source;    /* named source to move in the same commit, or empty */
	uint64_t source_offset;   /* its new value: refuse SC_E_REFUSED if not above the old */
	/*
	 * by which schema they were checked (sc_log_schema_version); 0 = by the handle's. If that
	 * is not in force any more: SC_E_STALE and nothing done. Then sc_log_reload, check them
	 * again.
	 */
	uint64_t schema_version;
	/* idempotent producer, or empty: (id, epoch, sequence of the first row). producer_last: of
	 * the last row, where numbers are left out; 0 = one number a row */
	struct sc_span producer;
	uint64_t producer_epoch, producer_seq, producer_last;
};
struct sc_log_commit {
	uint64_t first, last;     /* offsets given */
	int64_t appended_us;
	bool duplicate;           /* the producer's rows were already there: first/last are theirs, nothing was appended */
	struct sc_span lines;     /* the [offset,msg]\n lines, as they are on disk; borrowed until the next append */
};
int sc_log_append(struct sc_log *log, const struct sc_log_rows *rows, struct sc_log_commit *ret_commit,
		  struct sc_err *err);

/*
 * Another schema from the next row on; rows that are there stay as they are. SC_E_CONFIG: it may
 * not follow (sc_schema_may_follow), or is none. After 0 it is in force and stays so; after an
 * error nothing was changed; after an error of the disk, a kill or a power cut one of both is in
 * force. The handle's own view moves as by sc_log_reload.
 */
struct sc_log_migration {
	struct sc_span schema;    /* text */
	bool dry;                 /* only say what would be */
	void *arg;
	void (*change)(void *arg, const struct sc_schema_change *change); /* or NULL; as soon as it is decided */
};
struct sc_log_migrated {
	uint64_t version, from;   /* in force now, or would be */
	size_t changes;           /* 0: it was in force already */
};
int sc_log_migrate(struct sc_log *log, const struct sc_log_migration *migration,
		   struct sc_log_migrated *ret_migrated, struct sc_err *err);

/* 1 and the offset; 0 if the log knows no source of that name. */
int sc_log_source(struct sc_log *log, struct sc_span name, uint64_t *ret_offset,
		struct sc_err *err);
/* Each source in turn. */
int sc_log_sources(struct sc_log *log, int (*each)(void *arg, struct sc_span name, uint64_t offset),
		   void *arg, struct sc_err *err);

/* 1 and what a producer's last commit was; 0 if the log knows none of that name. */
struct sc_log_produced {
	uint64_t epoch, seq_last;
};
int sc_log_producer(struct sc_log *log, struct sc_span name, struct sc_log_produced *ret_produced,
		    struct sc_err *err);

/* Rows below BEFORE are given up, from the lowest, whole journals at a time; rows at or above it
 * stay. The floor itself is exact: reads begin at BEFORE at once, also when its journal holds
 * lower rows. */
int sc_log_trim(struct sc_log *log, uint64_t before, struct sc_err *err);

struct sc_log_proof {
	uint64_t rows, bytes, blocks, first, last; /* blocks: or frames of segments */
	uint64_t segments, journals; /* files that were read */
	uint64_t orphans;          /* files that belong to nothing (warned, not an error) */
	char hash[33];             /* 32 hex digits over the lines in order: the same for live, sealed and archived rows */
};
/*
 * Reads everything (or the range) and checks checksums, chain, counters. SC_E_DATA names file,
 * position and last good offset.
 */
int sc_log_verify(const char *path, uint64_t from, uint64_t to, struct sc_log_proof *ret_proof,
		struct sc_err *err);
/*
 * Throw the index away and rebuild it from the files. Rows that are missing there are given up,
 * but no offset is used twice. 1: there are such.
 */
int sc_log_reindex(const char *path, struct sc_err *err);

#endif
