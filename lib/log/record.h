/*
 * log/record.h: index.state, the record that each commit overwrites last.
 *
 * It is the frontier for readers (who need no transaction and no right to write for it), what a
 * follower waits on, and the proof that index.mdb can be trusted: it names the boot, the log and
 * the inode.
 *
 * Owns      the descriptor is the log's: log->state_fd.
 * Errors    as log/log.h.
 * Safety    reading: any time, beside a writer. Writing: under the index's lock.
 * Source    sc-log(5).
 */
#ifndef SC_LOG_RECORD_H
#define SC_LOG_RECORD_H

#include "log/log_internal.h"

struct sc_record {
	char magic[8];
	char boot[40];
	char stream_id[40];
	uint64_t dev, ino; /* of index.mdb */
	struct sc_state state;
	uint64_t check; /* xxh3 of all before */
};

/* true: a whole record. */
bool sc_record_read(int fd, struct sc_record *ret_record);
/* Of this boot, and of this log. */
bool sc_record_ours(const struct sc_log *log, const struct sc_record *r);
/* Open it and check whether it vouches for index.mdb: 1 yes, 0 no. log->state_fd may be open either
 * way. */
int sc_record_open(struct sc_log *log, struct sc_record *ret_record, struct sc_err *err);
/* Publish STATE for the index that is open. */
int sc_record_write(struct sc_log *log, const struct sc_state *state, struct sc_err *err);

#endif
