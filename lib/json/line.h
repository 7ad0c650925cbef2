/*
 * json/line.h: the line [offset,msg], and messages that are not JSON.
 *
 * Owns      nothing; spans borrow.
 * Units     offsets count rows from 1.
 * Errors    SC_E_DATA.
 * Safety    pure.
 * Source    man/sc-log.5, "Lines" and "Messages that are not JSON".
 *
 * A message that is not one JSON text is carried as {"$text":"..."} (valid UTF-8) or {"$base64":"..."} (any other bytes).
 * A JSON message that is an object whose first key is $text or $base64 is carried as {"$text":"..."} too,
 * so the form turns back into exactly the bytes that came.
 */
#ifndef SC_JSON_LINE_H
#define SC_JSON_LINE_H

#include "base/bytes.h"
#include "base/err.h"
#include "json/scan.h"

#define SC_LINE_HEAD_MAX 22 /* "[" 20 digits "," */

/* "[123,": returns its length. */
size_t sc_line_head(char ret_text[SC_LINE_HEAD_MAX], uint64_t offset);

struct sc_line {
	uint64_t offset;
	bool null_offset;      /* [null,msg]: a stream without a log */
	struct sc_span msg;    /* msg's bytes, trimmed */
};
/*
 * Is TEXT a line [offset,msg] (array of exactly two, first a positive integer or null)? With `trusted` the text comes
 * from our own file and only the head is looked at. false otherwise: then it is a bare row.
 */
bool sc_line_parse(struct sc_span text, bool trusted, struct sc_line *ret_line);

/* Append any message as one JSON line (no newline). BINARY: the frame's type said so. */
int sc_wrap_message(struct sc_span message, bool binary, struct sc_bytes *out);
/* The other way: the bytes that were wrapped; false if MSG is not wrapped (then it is itself the message). */
bool sc_unwrap_message(struct sc_span msg, struct sc_bytes *out);

int sc_base64_put(struct sc_bytes *out, struct sc_span data);
int sc_base64_get(struct sc_bytes *out, struct sc_span text); /* strict, padded; SC_E_DATA */

#endif
