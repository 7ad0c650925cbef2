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

#include "base/clock.h"
#include "log/archive.h"

#define SC_ARCHIVE_FORMAT 1
#define SC_ARCHIVE_LOG "log.json"
#define SC_ARCHIVE_EPOCH "epoch.json"
#define SC_ARCHIVE_LIST "list.json"
#define SC_ARCHIVE_SEALED "sealed/"
#define SC_ARCHIVE_KEY (NAME_MAX + 2 + sizeof(SC_ARCHIVE_SEALED) + SC_SEGMENT_NAME)
#define SC_ARCHIVE_JSON_MAX (64u << 20)
#define SC_ARCHIVE_HOST 72

struct sc_archive_item {
	uint64_t first, last;     /* offsets, from its name */
	uint64_t bytes;           /* of the object */
	int64_t first_us, last_us; /* 0: it was not looked into yet */
};

/* epoch.json */
struct sc_archive_epoch {
	char stream_id[40];
	uint64_t epoch;           /* 0: there is none */
	char owner[SC_UUID_TEXT];
	char host[SC_ARCHIVE_HOST];
	int64_t since_us;
	uint64_t floor;           /* rows below are given up */
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
	/* to write */
	struct sc_log *log;       /* NULL: it is only read */
	bool dry;
	bool listed_anew;         /* list.json is not what ITEMS is */
	struct sc_archive_record record;
};

/* archive.c */
/* Opens the store; URL is the archive's, or that of the folder where NAME is an archive. */
int sc_archive_connect(struct sc_archive *archive, const char *url, const char *name,
		       const struct sc_store_settings *settings, struct sc_err *err);
/* The key of a segment; of another object. */
void sc_archive_key(const struct sc_archive *archive, uint64_t first, uint64_t last,
		char ret_key[SC_ARCHIVE_KEY]);
void sc_archive_name(const struct sc_archive *archive, const char *name,
		char ret_key[SC_ARCHIVE_KEY]);
/* Is it the key of a segment? */
bool sc_archive_key_parse(const char *key, uint64_t *ret_first, uint64_t *ret_last);
/* sc_err_on for the object KEY. */
void sc_archive_err(const struct sc_archive *archive, const char *key, struct sc_err *err);
int sc_archive_read_epoch(struct sc_archive *archive, struct sc_archive_epoch *ret_epoch,
		struct sc_err *err);
/* A new segment among the items. */
int sc_archive_add(struct sc_archive *archive, const struct sc_archive_item *item,
		struct sc_err *err);
/* The first item that ends at or above OFFSET; count: none. */
size_t sc_archive_item_of(const struct sc_archive *archive, uint64_t offset);
/* stream_id of a log.json or epoch.json that was scanned. */
struct sc_json;
bool sc_archive_text(const struct sc_json *root, const char *name, char *ret_text, size_t size);

/* archive_segment.c: a segment in the archive, open */
struct sc_archive_segment;
/* SC_E_NOLOG: it is not there. Notes the times in ITEM. */
int sc_archive_segment_open(struct sc_archive *archive, struct sc_archive_item *item,
			    struct sc_archive_segment **ret_segment, struct sc_err *err);
void sc_archive_segment_close(struct sc_archive_segment *segment);
struct sc_segment *sc_archive_segment_inner(struct sc_archive_segment *segment);

/* archive_record.c */
int sc_archive_record_read(struct sc_archive *archive, struct sc_err *err);
int sc_archive_record_write(struct sc_archive *archive, struct sc_err *err);
/* What a writer of it left that was killed. */
void sc_archive_record_sweep(struct sc_archive *archive);
int sc_archive_record_add(struct sc_archive *archive, uint64_t first, uint64_t next,
		struct sc_err *err);
bool sc_archive_record_has(const struct sc_archive *archive, uint64_t first, uint64_t next);
/* Not in a dry run: the archive is still ours; archive->epoch is as it is now. */
int sc_archive_fence(struct sc_archive *archive, struct sc_err *err);
/* Replace epoch.json if it is still as archive->epoch has it. */
int sc_archive_write_epoch(struct sc_archive *archive, const struct sc_archive_epoch *now,
		struct sc_err *err);
/* list.json says what the items are. */
int sc_archive_publish(struct sc_archive *archive, struct sc_err *err);

#endif
