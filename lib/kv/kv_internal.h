/*
 * kv/kv_internal.h: what kv.c, cursor.c, make.c and room.c share.
 *
 * Owns      see kv/kv.h.
 * Units     none.
 * Errors    sc_kv_fail turns an LMDB or system code into ours.
 * Safety    inside lib/kv only: LMDB's types stop here.
 * Source    lmdb.h.
 */
#ifndef SC_KV_KV_INTERNAL_H
#define SC_KV_KV_INTERNAL_H

#include <lmdb.h>
#include <sys/types.h>

#include "kv/kv.h"

struct sc_kv {
	MDB_env *env;
	MDB_dbi dbis[SC_KV_TABLES_MAX];
	int tables;
	char *path;
	const char *kind;
	uint64_t dev, ino;
	int watch_fd; /* of a synced one: the data file once more, for room.c; or -1 */
	uint64_t room_end; /* up to here the disk has given its file room; the writers' lock */
	pid_t pid;
	unsigned users;
	struct sc_kv *next;
};

struct sc_kv_txn {
	MDB_txn *txn;
	struct sc_kv *kv;
	uint64_t bytes; /* that were put */
};

int sc_kv_fail(const struct sc_kv *kv, int rc, const char *tried, struct sc_err *err);
/* A data file at PATH, if there is none: durable, whole or not there. An LMDB or system code. */
int sc_kv_make(const char *path);
/* A file that is shorter than what it says it holds, a copy that broke off, would be a SIGBUS for
 * whoever reads it. With zeros in place of what is missing LMDB says that it is damaged. */
void sc_kv_lengthen(MDB_env *env, const char *path);
/* The data file that LMDB has open, opened once more; -1 when it cannot be. */
int sc_kv_watch_open(const char *path, mdb_filehandle_t theirs);
/* After a commit of about BYTES that failed with RC: ENOSPC when it was for want of room, EIO when
 * something that was written is not on disk, else RC. */
int sc_kv_why(struct sc_kv *kv, int rc, uint64_t bytes);

#endif
