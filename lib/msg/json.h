/*
 * msg/json.h: msgpack values as JSON text and back, with nothing lost on the way.
 *
 * Owns      nothing; bytes are appended to the caller's buffer.
 * Units     bytes.
 * Errors    SC_E_DATA for a JSON value that no msgpack value is (an integer beyond 64 bits, a
 *           number beyond a double, a malformed {"$bin":..}) or for bytes that are not one msgpack
 *           value; SC_E_NOMEM. The buffer is as it was then.
 * Safety    pure functions, any thread; any bytes are safe input to sc_msg_json_print.
 * Source    wsmsg 20, "Values"; man/sc-node.1, "VALUES".
 *
 * What JSON lacks is an object with one member:
 *     {"$bin":"BASE64"}          bin
 *     {"$str":"BASE64"}          str that is not UTF-8
 *     {"$ext":[TYPE,"BASE64"]}   ext
 *     {"$float":"nan"}           also "inf", "-inf"
 *     {"$map":[[KEY,VALUE],..]}  a map with a key that is not str or not UTF-8, with a key that
 *                                comes twice, or that would look like one of these
 *
 * Packing what was printed gives the same value again: the same bytes where those are the shortest
 * form and floats have 64 bits (a NaN comes back as the usual one).
 */
#ifndef SC_MSG_JSON_H
#define SC_MSG_JSON_H

#include "base/bytes.h"
#include "base/err.h"
#include "json/scan.h"

/* PACKED is one msgpack value; its text, on one line, has at most 3 times its levels. */
int sc_msg_json_print(struct sc_span packed, struct sc_bytes *out, struct sc_err *err);
/* A str by itself, UTF-8 or not. */
int sc_msg_json_print_str(struct sc_span text, struct sc_bytes *out);
/* VALUE is one that sc_json_scan accepted. */
int sc_msg_json_pack(const struct sc_json *value, struct sc_bytes *out, struct sc_err *err);

#endif
