/*
 * store/store.h: places that hold segments, behind one byte-range interface: a folder, S3, or (to
 * read) a web server.
 *
 * Owns      a handle owns its connection and credentials; texts of an item are borrowed until the
 *           callback returns.
 * Units     sizes and offsets in bytes; times in us since 1970 UTC; waits in ms.
 * Errors    each names the object by its URL (never credentials), the HTTP status and the server's
 *           code, and the next move: SC_E_NOLOG no such object, bucket or folder; SC_E_NOAUTH
 *           credentials or permissions; SC_E_BUSY a condition did not hold (and nothing else is
 *           SC_E_BUSY); SC_E_DATA bytes that differ or do not fit; SC_E_UNAVAILABLE the tries are
 *           spent; SC_E_TIMEOUT the same, by time-outs, or the caller's stop; SC_E_CONFIG settings;
 *           SC_E_PROTOCOL the server's answer makes no sense; SC_E_IO a local file. The fields for
 *           --json: http_status, s3_code, tries.
 * Safety    a handle stays in its thread; any number of handles, processes and machines may use one
 *           place at once.
 * Source    S3's REST interface (2006-03-01), RFC 9110 (ranges, conditions), RFC 8089 (file URLs);
 *           man/sc.7.
 *
 * URLs      file:///FOLDER            the folder is there already; percent-escapes are decoded
 *           s3://BUCKET[/PREFIX]      taken as it is; credentials, region and endpoint: store/aws.h
 *           https://HOST/PATH[?QUERY] (and http://) read only, by range requests; nothing can be
 *           listed
 * Keys      names of objects below the URL, parts joined by '/': 1 to 900 bytes, no empty part, no
 *           part that begins with '.', no control bytes.
 *
 * A write is whole or not there, and on disk (folder: file and folder are synced) when it has
 * returned 0; it was verified then: the place was asked for the size and a checksum, or, where it
 * gives none, the bytes were read back. A write that failed may have happened when the answer was
 * lost; a condition that fails on a second try of the same call is held against what is there, and
 * counts as done when those are the caller's own bytes.
 */
#ifndef SC_STORE_STORE_H
#define SC_STORE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_STORE_KEY_MAX 900
#define SC_STORE_ETAG_SIZE 160
#define SC_STORE_SHA256 32

struct sc_store;

/* 0 is the default everywhere. */
struct sc_store_settings {
	unsigned tries;           /* of one request: 6 */
	int64_t retry_for_ms;     /* no new try after so long: 120 s */
	int64_t backoff_ms;       /* the first wait is at most this: 200 ms; doubled each time, random below that */
	int64_t backoff_max_ms;   /* 20 s; also the most that a server's Retry-After is obeyed */
	int64_t connect_ms;       /* 10 s */
	int64_t stall_ms;         /* less than 1 KiB/s for so long is a time-out: 30 s */
	uint64_t multipart_bytes; /* larger objects go up in parts: 64 MiB */
	uint64_t part_bytes;      /* at least 5 MiB (S3's own limit): 16 MiB; larger where 10,000 parts would not do */
	const char *ca_file;      /* else AWS_CA_BUNDLE and the system's */
	bool anonymous;           /* s3: unsigned requests, for public buckets; also SC_S3_ANONYMOUS=1 */
	bool (*stop)(void *arg);  /* asked at least once a second, also while waiting: true ends the call */
	void *stop_arg;
};

struct sc_store_info {
	uint64_t size;
	int64_t modified_us;           /* 0 where it is not told */
	char etag[SC_STORE_ETAG_SIZE]; /* changes with the object; empty where it is not told */
	bool hashed;                   /* sha256 is set: after put only */
	unsigned char sha256[SC_STORE_SHA256];
};

bool sc_store_is_url(const char *text); /* SCHEME:..., so not the path of a log */
/* Asks nothing of the network. SETTINGS may be NULL; its texts are copied. */
int sc_store_open(const char *url, const struct sc_store_settings *settings, struct sc_store **ret_store,
		  struct sc_err *err);
void sc_store_close(struct sc_store *store);
const char *sc_store_url(const struct sc_store *store); /* to show: no passwords, no query */
const char *sc_store_folder(const struct sc_store *store); /* its path; NULL: it is elsewhere */

/* What must be so for a write: */
#define SC_STORE_ALWAYS ((const char *)NULL)
#define SC_STORE_ABSENT "*" /* the object is not there: of two that create it, one gets SC_E_BUSY */
/* or an etag, that of the object which is replaced; SC_E_BUSY when it has another, or is gone */

int sc_store_put(struct sc_store *store, const char *key, const void *data, size_t len, const char *only_if,
		 struct sc_store_info *ret_info, struct sc_err *err);
/* LEN bytes of a regular file from AT on, in bounded memory. The descriptor's position is not used
 * or moved. */
int sc_store_put_fd(struct sc_store *store, const char *key, int fd, uint64_t at, uint64_t len, const char *only_if,
		    struct sc_store_info *ret_info, struct sc_err *err);
/* SC_E_CONFIG when the place does not refuse the second of two creates (some S3 look-alikes
 * ignore conditions). Writes and removes a small object. */
int sc_store_check_conditions(struct sc_store *store, struct sc_err *err);

/* Every ret_info may be NULL. */
int sc_store_head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		struct sc_err *err);
/* The whole object into BUF (emptied first), at most its max: larger is SC_E_DATA. */
int sc_store_get(struct sc_store *store, const char *key, struct sc_bytes *buf, struct sc_store_info *ret_info,
		 struct sc_err *err);
/* Like pread: fewer bytes only at the end. With an ETAG, another version of the object is
 * SC_E_BUSY. */
int sc_store_range(struct sc_store *store, const char *key, const char *etag, uint64_t at, size_t len, void *ret_data,
		   size_t *ret_len, struct sc_store_info *ret_info, struct sc_err *err);
/* The last LEN bytes, or all when there are fewer; info tells the size. One request. */
int sc_store_tail(struct sc_store *store, const char *key, size_t len, void *ret_data, size_t *ret_len,
		  struct sc_store_info *ret_info, struct sc_err *err);
/* The whole object to the end of what was written to FD, in pieces. Not synced. PATH is FD's, for
 * messages. */
int sc_store_copy(struct sc_store *store, const char *key, int fd, const char *path, struct sc_store_info *ret_info,
		struct sc_err *err);
/* The object is there and holds exactly these bytes, by the place's own checksum or by reading
 * them; SC_E_DATA if not. */
int sc_store_verify(struct sc_store *store, const char *key, uint64_t size, const unsigned char sha256[SC_STORE_SHA256],
		    struct sc_err *err);

struct sc_store_item {
	const char *key;      /* below the URL of the store; of a folder with its '/' */
	uint64_t size;
	int64_t modified_us;
	const char *etag;     /* "" where it is not told */
	bool folder;
};

struct sc_store_listing {
	const char *prefix;   /* of the keys; NULL or "" for all */
	const char *after;    /* only keys beyond this one; NULL or "" for all */
	bool folders;         /* what lies below a '/' behind the prefix shows as one item, a folder */
};

/* 0 goes on, 1 ends the listing, negative is an error, passed on. */
typedef int sc_store_each(void *arg, const struct sc_store_item *item, struct sc_err *err);
/* In the order of the keys' bytes; a server that breaks it is SC_E_PROTOCOL. An empty place is no
 * error. */
int sc_store_list(struct sc_store *store, const struct sc_store_listing *what, sc_store_each *each, void *arg,
		  struct sc_err *err);

/* One that is not there is no error. */
int sc_store_delete(struct sc_store *store, const char *key, struct sc_err *err);
/* Removes what writers left that died: temporary files, unfinished uploads, begun before BEFORE_US,
 * with this prefix. */
int sc_store_sweep(struct sc_store *store, const char *prefix, int64_t before_us, uint64_t *ret_removed,
		   struct sc_err *err);

#endif
