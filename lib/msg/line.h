/*
 * msg/line.h: messages as lines of JSON, as sc-node reads and prints them.
 *
 * Owns      a message that was read borrows from the caller's store, until that is used again.
 * Units     bytes.
 * Errors    SC_E_DATA: the line is none of the forms, or a field is outside its limits; SC_E_NOMEM.
 * Safety    pure functions; any bytes are safe input.
 * Source    wsmsg 5 and 20; man/sc-node.1, "LINES".
 *
 * Read:     [CHANNEL,SUBJECT,DATA]
 *           [CHANNEL,SUBJECT,REFERENCE,DATA]
 *           {"channel":..,"subject":..,"reference":..,"uid":..,"data":..}, the last three optional
 *           {"ack":UID}
 * Printed:  the object with all five, or [CHANNEL,SUBJECT,DATA], or DATA alone.
 * Uids are ULID text, or "hex:.." when they are not of 16 bytes.
 */
#ifndef SC_MSG_LINE_H
#define SC_MSG_LINE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"
#include "msg/message.h"

/* "hex:", two letters a byte, a NUL */
#define SC_MSG_UID_TEXT (4 + 2 * SC_MSG_UID_MAX + 1)
void sc_msg_uid_text(struct sc_span uid, char ret_text[SC_MSG_UID_TEXT]);
bool sc_msg_uid_parse(struct sc_span text, char ret_uid[SC_MSG_UID_MAX], size_t *ret_len);

enum sc_msg_form { SC_MSG_OBJECT, SC_MSG_ARRAY, SC_MSG_BARE };
/* The line with its LF; of a uid of none, null. */
int sc_msg_line_print(const struct sc_msg *msg, enum sc_msg_form form, struct sc_bytes *out,
		      struct sc_err *err);

/* A line without a uid gives an empty one. With *ret_ack it is an {"ack":UID}, and only the uid
 * counts. STORE is emptied first. */
int sc_msg_line_parse(struct sc_span line, struct sc_bytes *store, struct sc_msg *ret_msg,
		      bool *ret_ack, struct sc_err *err);

/* The same of plain texts, a reference and a uid (NULL: none), and of data as JSON text. */
int sc_msg_line_make(const char *channel, const char *subject, const char *reference,
		     const char *uid, struct sc_span json, struct sc_bytes *store, struct sc_msg *ret_msg,
		     struct sc_err *err);

#endif
