/*
 * msg/pack.h: msgpack, written in its shortest forms.
 *
 * Owns      nothing; bytes are appended to the caller's buffer.
 * Units     bytes.
 * Errors    SC_E_NOMEM (of the buffer: memory, or its maximum); the buffer is as it was then.
 * Safety    pure functions.
 * Source    the msgpack specification.
 */
#ifndef SC_MSG_PACK_H
#define SC_MSG_PACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

int sc_pack_nil(struct sc_bytes *out);
int sc_pack_bool(struct sc_bytes *out, bool value);
int sc_pack_u64(struct sc_bytes *out, uint64_t value);
int sc_pack_i64(struct sc_bytes *out, int64_t value);
int sc_pack_f64(struct sc_bytes *out, double value); /* always of 64 bits */
/* Texts longer than 4 GiB cannot be packed: SC_E_NOMEM. */
int sc_pack_str(struct sc_bytes *out, struct sc_span text);
int sc_pack_bin(struct sc_bytes *out, struct sc_span data);
int sc_pack_ext(struct sc_bytes *out, int8_t type, struct sc_span data);
/* The head; COUNT elements (pairs of a map) are to follow. */
int sc_pack_array(struct sc_bytes *out, uint32_t count);
int sc_pack_map(struct sc_bytes *out, uint32_t pairs);

#endif
