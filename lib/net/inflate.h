/*
 * net/inflate.h: permessage-deflate, the receiving half: what a client offers, and inflating what a
 * server sends.
 *
 * Owns      the inflater and its window; an inflated message is borrowed until the next call.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL with the code to close with in *ret_close_code (1007 not deflate, 1009
 *           too large), SC_E_NOMEM.
 * Safety    one thread an inflater. A bomb costs at most the largest message.
 * Source    RFC 7692 section 7.
 */
#ifndef SC_NET_INFLATE_H
#define SC_NET_INFLATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

/* What a client asks for. It never compresses itself, which the extension allows. */
#define SC_INFLATE_OFFER "permessage-deflate; client_max_window_bits"

struct sc_inflate;

/* Check one Sec-WebSocket-Extensions answer to that offer; *ret_takeover: the window lives across
 * messages. */
int sc_inflate_agree(struct sc_span answer, bool *ret_takeover, struct sc_err *err);

int sc_inflate_new(bool takeover, size_t max_message, struct sc_inflate **ret_inflate,
		struct sc_err *err);
void sc_inflate_free(struct sc_inflate *inflate);
int sc_inflate_message(struct sc_inflate *inflate, struct sc_span payload, struct sc_span *ret_message,
		       uint16_t *ret_close_code, struct sc_err *err);

#endif
