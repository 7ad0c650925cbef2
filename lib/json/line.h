/*
 * json/line.h: the line [offset,msg], and messages that are not JSON.
 *
 * Owns      nothing; spans borrow.
 * Units     offsets count rows from 1.
 * Errors    SC_E_DATA.
 * Safety    pure.
 * Source    man/sc-log.5, "Lines" and "Messages that are not JSON".
 *
 * A message that is not one JSON text is carried as {"$text":"..."} (valid UTF-8) or
 * {"$base64":"..."} (any other bytes). A JSON message that is an object whose first key is $text or
 * $base64 is carried as {"$text":"..."} too, so the form turns back into exactly the bytes that
 * came.
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
 * Is TEXT a line [offset,msg] (array of exactly two, first a positive integer of 64 bits or null,
 * the second any JSON value)? With `trusted` the text comes from our own file and only the head is
 * looked at. false otherwise: then it is a bare row. (A bare row that is itself such an array
 * cannot be told from a line: it is one.)
 */
bool sc_line_parse(struct sc_span text, bool trusted, struct sc_line *ret_line);

/* Append any message as one JSON line (no newline). BINARY: the frame's type said so; then
 * always $base64. On SC_E_NOMEM OUT is as it was. */
int sc_wrap_message(struct sc_span message, bool binary, struct sc_bytes *out);
/*
 * The other way: 1 and the bytes that were wrapped, appended to OUT; 0 if MSG is not wrapped (then
 * it is itself the message); SC_E_NOMEM. Wrapped means: an object with one member, "$text" or
 * "$base64", whose value is a string that decodes. Whatever sc_wrap_message made comes back byte
 * for byte; a JSON message was not wrapped, and of it only white space is missing (around it, and
 * where a newline would have broken the line).
 */
int sc_unwrap_message(struct sc_span msg, struct sc_bytes *out);

#endif
