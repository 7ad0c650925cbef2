/*
 * durable/stream.h: what is known of one stream: its state, as a value and as a record.
 *
 * Owns      nothing; the spans of a state borrow from the record it was read from (or from
 *           whoever made it).
 * Units     positions, us since 1970 UTC, seconds for the TTL.
 * Errors    SC_E_DATA for a record that is not one, SC_E_NOMEM.
 * Safety    pure functions, any thread; any bytes are safe input.
 * Source    durable-streams 1, 15, 16; lib/durable/record.c has the record's layout.
 */
#ifndef SC_DURABLE_STREAM_H
#define SC_DURABLE_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_ds_life {           /* how long: at most one of both */
	bool has_ttl, has_expiry;
	uint64_t ttl_s;       /* from the last access on */
	int64_t expires_us;
};

struct sc_ds_asked {          /* what the creating request said, for a repeated one */
	struct sc_span type;          /* data NULL = not said */
	struct sc_ds_life life;
	struct sc_span forked_from;   /* data NULL = no fork */
	bool has_offset;
	uint64_t offset, sub_offset;
};

struct sc_ds_stream {
	uint64_t sid;         /* of this life: never used again, from 1 */
	struct sc_span path;
	struct sc_span type;  /* verbatim */
	uint64_t tail;
	uint64_t first;       /* trimmed up to here; messages below are given up */
	bool closed, gone;
	bool has_closer;      /* the producer request that closed it */
	struct sc_span closer;
	uint64_t closer_epoch, closer_seq;
	struct sc_span seq;   /* the last Stream-Seq; empty: none */
	struct sc_ds_life life;
	int64_t created_us, accessed_us;
	int64_t indexed_us;   /* where the store's expiry index has it: never after the deadline */
	/* a fork: what is below fork_at belongs to the source */
	uint64_t source_sid;  /* 0: no fork */
	uint64_t fork_at;
	uint32_t fork_depth;  /* sources behind it */
	uint64_t forks;       /* that refer to it, gone ones with forks of their own too */
	struct sc_ds_asked asked;
};

struct sc_ds_producer {
	uint64_t epoch, seq;
};

/* INT64_MAX: never. */
int64_t sc_ds_stream_deadline(const struct sc_ds_stream *stream);
static inline bool sc_ds_stream_expired(const struct sc_ds_stream *stream, int64_t now_us)
{
	return now_us >= sc_ds_stream_deadline(stream);
}

/* As bytes, appended to OUT, and back. */
int sc_ds_stream_encode(const struct sc_ds_stream *stream, struct sc_bytes *out);
int sc_ds_stream_decode(struct sc_span record, struct sc_ds_stream *ret_stream, struct sc_err *err);
#define SC_DS_PRODUCER_RECORD 16u
void sc_ds_producer_encode(const struct sc_ds_producer *producer,
			   char ret_record[SC_DS_PRODUCER_RECORD]);
bool sc_ds_producer_decode(struct sc_span record, struct sc_ds_producer *ret_producer);

#endif
