/*
 * client/cursor.h: the cursor file: the last offset that the consumer finished with.
 *
 * Owns      its path; no descriptor stays open.
 * Units     offsets count rows from 1.
 * Errors    SC_E_IO, SC_E_CANTCREAT, SC_E_NOAUTH, the file named.
 * Safety    one thread; two processes on one file: the lock of sc_cursor_open keeps the second out
 *           (SC_E_BUSY).
 * Source    streamcast-wire 12; man/sc-sub.1, "THE CURSOR FILE".
 *
 * The file holds decimal digits and nothing else. It is replaced whole, only moves forward, and is
 * written at most once a second unless asked for at the end.
 */
#ifndef SC_CLIENT_CURSOR_H
#define SC_CLIENT_CURSOR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sc_cursor;

/* A missing file, or one without a usable integer, is an absent cursor: sc_cursor_value says
 * false. 0 is a value: nothing is finished yet. One that cannot be read is an error. */
int sc_cursor_open(const char *path, struct sc_cursor **ret_cursor, struct sc_err *err);
void sc_cursor_close(struct sc_cursor *cursor); /* saves nothing */
bool sc_cursor_value(const struct sc_cursor *cursor, uint64_t *ret_offset);
/* The file was there and held something else than an integer: say so, since starting without it may
 * skip rows. */
bool sc_cursor_unusable(const struct sc_cursor *cursor);
/* Offer an offset: written if it is higher than any before and (NOW or a second has passed since
 * the last write). */
int sc_cursor_move(struct sc_cursor *cursor, uint64_t offset, bool now, struct sc_err *err);
/* The same for offsets that are texts: of servers whose offsets mean nothing to us. "" when
 * there is none. Not to be mixed with the numbers above. */
#define SC_CURSOR_TEXT 256
const char *sc_cursor_text(const struct sc_cursor *cursor);
int sc_cursor_move_text(struct sc_cursor *cursor, const char *text, struct sc_err *err);
/* An offset was offered that is not written yet: call sc_cursor_move again within a second. */
bool sc_cursor_behind(const struct sc_cursor *cursor);

#endif
