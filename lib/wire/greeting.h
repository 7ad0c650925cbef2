/*
 * wire/greeting.h: the first message of a connection, of every protocol we speak.
 *
 * Owns      nothing; spans given to build are borrowed, spans of a parsed greeting point into its
 *           text and store.
 * Units     offsets count rows from 1.
 * Errors    SC_E_PROTOCOL, quoting what came.
 * Safety    pure functions.
 * Source    streamcast-wire 1 and 3; man/sc-wire.7, "GREETING".
 */
#ifndef SC_WIRE_GREETING_H
#define SC_WIRE_GREETING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* Protocols with [offset,ts,msg] frames; the others have [offset,msg]. */
static inline bool sc_wire_triples(int wire)
{
	return wire >= 4;
}
bool sc_wire_served(int wire);  /* 1, 2, 4, 5: what a server can be told to speak */
bool sc_wire_known(int wire);   /* 1 to 5: what a client understands */

struct sc_greeting {
	int wire;
	struct sc_span stream;      /* plain name */
	bool has_end, has_replay, durable, group_commit;
	uint64_t end_offset, replay_first, replay_end;
	struct sc_span schema;      /* JSON text; empty = null */
	struct sc_span where;       /* JSON text; empty = null */
	struct sc_span stream_id;   /* plain; empty = null */
	struct sc_span archive;     /* parsed only (protocols 1 and 2): a location of the original's; plain */
	struct sc_span sc_archive;  /* ours: URL of the log's archive; plain; empty = no key */
	/* ours, the last key, for a connection that named a producer (else it is not there): what
	 * was stored of it last, or null */
	bool tells_producer, has_producer;
	uint64_t producer_epoch, producer_seq;
};

int sc_greeting_build(const struct sc_greeting *greeting, struct sc_bytes *out);
/* STORE keeps unescaped texts and must outlive *ret_greeting; it is emptied first. */
int sc_greeting_parse(struct sc_span text, struct sc_bytes *store,
		struct sc_greeting *ret_greeting, struct sc_err *err);

#endif
