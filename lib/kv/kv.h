/*
 * kv/kv.h: LMDB behind a small face: environment, transactions, tables, cursors.
 *
 * Owns      an environment until sc_kv_close; values handed out are borrowed until their
 *           transaction ends.
 * Units     sizes in bytes.
 * Errors    SC_E_IO, SC_E_BUSY (readers full; a process of another container has our number),
 *           SC_E_DATA (damaged, or no data file), SC_E_NOAUTH, SC_E_NOMEM, SC_E_INTERNAL; the path
 *           named. A full map is SC_E_IO with errnum ENOSPC, and so is a full disk where commits
 *           are synced: then the transaction can only be aborted, nothing of it stays, and a later
 *           one may fit. After any other error of a synced commit nothing is known of the disk. 1 =
 *           found, 0 = not found where said.
 * Safety    an environment may be shared by threads; a transaction stays in its thread (read
 *           transactions may move: NOTLS). The same file opened twice in a process gives the same
 *           environment, counted (LMDB forbids two), with the options of the first. A handle does
 *           not survive fork: the child opens its own, and closing the inherited one does nothing.
 * Source    lmdb.h, "Caveats".
 *
 * The write transaction is the lock between all processes: begin waits, and a killed holder frees
 * it.
 */
#ifndef SC_KV_KV_H
#define SC_KV_KV_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_KV_TABLES_MAX 24

struct sc_kv;
struct sc_kv_txn;
struct sc_kv_cursor;

struct sc_kv_options {
	const char *const *tables; /* names, NULL-terminated; numbered from 0 in this order */
	uint32_t integer_keys;     /* bit i: table i has uint64_t keys in the machine's order */
	uint64_t size_max;         /* address space: 16 GiB if 0; not disk use */
	unsigned readers_max;      /* 0 = 1024 */
	bool read_only;            /* opens for reading; needs the right to write the lock file, or a read-only mount */
	bool sync;                 /* flush on commit; the log runs without */
	const char *kind;          /* what errors call it, a literal: "index" if NULL */
};

/* PATH names the data file; PATH-lock is beside it. */
int sc_kv_open(const char *path, const struct sc_kv_options *options, struct sc_kv **ret_kv,
	       struct sc_err *err);
void sc_kv_close(struct sc_kv *kv);
/* Device and inode of the data file that is open: to see whether the path names another one by
 * now. */
void sc_kv_identity(const struct sc_kv *kv, uint64_t *ret_dev, uint64_t *ret_ino);
/* Frees reader slots of dead processes. */
void sc_kv_reap(struct sc_kv *kv);
struct sc_kv_stat {
	uint64_t used_bytes, file_bytes, last_txn;
	unsigned readers;
};
int sc_kv_stat(struct sc_kv *kv, struct sc_kv_stat *ret_stat, struct sc_err *err);
/* The reader table as text, a line each, for people. */
void sc_kv_readers(struct sc_kv *kv, int (*each)(void *arg, const char *line), void *arg);

int sc_kv_read(struct sc_kv *kv, struct sc_kv_txn **ret_txn, struct sc_err *err);
int sc_kv_write(struct sc_kv *kv, struct sc_kv_txn **ret_txn, struct sc_err *err);
/* Inside a write transaction: zeros behind what is used, up to BYTES, so that commits need not make
 * the file longer (a sync of a file that grew costs a second flush). A failure is none: the disk
 * is asked again by the commit. */
void sc_kv_ahead(struct sc_kv_txn *txn, uint64_t bytes);
/*
 * Inside a write transaction of a synced environment: BYTES can be written without the disk giving
 * anything more, *ret_room at least; the disk is asked for them before. SC_E_IO with ENOSPC when it
 * has no more, and what is free inside the file is not so much either. A caller that leaves some
 * room, always, has it for what makes room.
 */
int sc_kv_room(struct sc_kv_txn *txn, uint64_t bytes, uint64_t *ret_room, struct sc_err *err);
/* sets *txn to NULL, also on failure */
int sc_kv_commit(struct sc_kv_txn **txn, struct sc_err *err);
/* accepts NULL; ends read transactions too */
void sc_kv_abort(struct sc_kv_txn **txn);

/* 1, 0 */
int sc_kv_get(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_span *ret_value,
	      struct sc_err *err);
/* VALUE will be read as a whole: what of it is not in memory is fetched from the disk at once, not
 * page by page. */
void sc_kv_fetch(struct sc_span value);
int sc_kv_put(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_span value,
	      struct sc_err *err);
/* LEN bytes for the caller to fill, before the next call on the transaction. */
int sc_kv_reserve(struct sc_kv_txn *txn, int table, struct sc_span key, size_t len, char **ret_data,
		  struct sc_err *err);
/* 1, 0 */
int sc_kv_del(struct sc_kv_txn *txn, int table, struct sc_span key, struct sc_err *err);
/* empties the table */
int sc_kv_drop(struct sc_kv_txn *txn, int table, struct sc_err *err);
uint64_t sc_kv_count(struct sc_kv_txn *txn, int table);

int sc_kv_cursor_open(struct sc_kv_txn *txn, int table, struct sc_kv_cursor **ret_cursor,
		      struct sc_err *err);
void sc_kv_cursor_close(struct sc_kv_cursor *cursor);
enum sc_kv_move { SC_KV_FIRST, SC_KV_LAST, SC_KV_NEXT, SC_KV_PREV };
/* 1, 0 */
int sc_kv_cursor_move(struct sc_kv_cursor *cursor, enum sc_kv_move move, struct sc_span *ret_key,
		      struct sc_span *ret_value, struct sc_err *err);
/* at or after: 1, 0 */
int sc_kv_cursor_seek(struct sc_kv_cursor *cursor, struct sc_span key, struct sc_span *ret_key,
		      struct sc_span *ret_value, struct sc_err *err);
/* at or before: 1, 0 */
int sc_kv_cursor_floor(struct sc_kv_cursor *cursor, struct sc_span key, struct sc_span *ret_key,
		       struct sc_span *ret_value, struct sc_err *err);

#endif
