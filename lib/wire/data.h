/*
 * wire/data.h: data frames as a client reads them: [offset,msg] or [offset,ts,msg].
 *
 * Owns      nothing; spans borrow from the frame.
 * Units     offsets count rows from 1; ts in us since 1970 UTC.
 * Errors    SC_E_PROTOCOL.
 * Safety    pure; the state is one connection's.
 * Source    streamcast-wire 4; man/sc-wire.7, "DATA".
 */
#ifndef SC_WIRE_DATA_H
#define SC_WIRE_DATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_data {
	bool has_offset, has_ts;
	uint64_t offset;
	int64_t ts_us;
	struct sc_span msg;      /* any JSON value, trimmed */
	bool is_line;            /* the frame is [offset,msg], compact around msg and without newlines: a line as it stands */
	bool newlines;           /* msg holds LF or CR between its tokens: sc_json_put_line */
};

/* Zeroed at the start of a stream. A new connection of the same consumer keeps `last`: the order
 * spans connections there. */
struct sc_data_order {
	bool triples;            /* sc_wire_triples of the greeting */
	bool has_last;
	uint64_t last;
};

/* Checks all of it: JSON, shape, and that offsets rise. *order moves only on success. */
int sc_data_parse(struct sc_data_order *order, struct sc_span frame, struct sc_data *ret_data,
		struct sc_err *err);

#endif
