/*
 * tests/fault/trace.h: what record.so writes and the replayer reads: one record for each change
 * to a folder.
 *
 * A record is this head, then PATH_LEN bytes of path (relative to the folder) and DATA_LEN bytes
 * of data. All records of all processes stand in the order in which the changes happened.
 */
#ifndef SC_FAULT_TRACE_H
#define SC_FAULT_TRACE_H

#include <stdint.h>

enum rec_kind {
	REC_CREATE = 1, /* path, ino */
	REC_SIZE,       /* ino; at = new size */
	REC_WRITE,      /* ino, at, data */
	REC_SYNC,       /* ino: fsync or fdatasync of a file that succeeded */
	REC_DIRSYNC,    /* path */
	REC_RENAME,     /* path; data = new path */
	REC_LINK,       /* ino, path: one more name of that file */
	REC_UNLINK,     /* path */
	REC_MKDIR,      /* path */
	REC_RMDIR,      /* path */
	REC_ACK,        /* data = what was written to stdout */
	REC_MARK,       /* data = a word of the driver */
	REC_DSYNC,      /* ino, at: the write before this one, to there, was durable when it
			   returned (O_DSYNC) */
	REC_ODD,        /* data = something this model does not know; the test fails */
	REC_KINDS
};

struct rec {
	uint32_t kind, pid;
	uint64_t ino, at;
	uint32_t path_len, data_len;
};

#endif
