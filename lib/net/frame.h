/*
 * net/frame.h: WebSocket frames: bytes to whole messages and back. No descriptors, no clock.
 *
 * Owns      the reader keeps the parts of a message that came in pieces, until
 *           sc_frame_reader_done; a message that came whole points into the caller's bytes.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL with the reason; reader->close_code is then what to close with (1002,
 *           1007, 1009). SC_E_NOMEM (close code 1011). A reader that failed stays failed.
 * Safety    pure; one thread a reader. Nothing is allocated from an announced length.
 * Source    RFC 6455 sections 5, 7.4 and 8.1; RFC 7692 section 6 for the first reserved bit.
 */
#ifndef SC_NET_FRAME_H
#define SC_NET_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum sc_frame_kind {
	SC_FRAME_NONE = -1,
	SC_FRAME_MORE = 0, /* a continuation, inside the protocol only */
	SC_FRAME_TEXT = 1,
	SC_FRAME_BINARY = 2,
	SC_FRAME_CLOSE = 8,
	SC_FRAME_PING = 9,
	SC_FRAME_PONG = 10,
};

struct sc_frame_reader {
	bool masked;        /* what the peer must do: true when it is a client */
	bool may_compress;  /* permessage-deflate was agreed on */
	uint16_t close_code; /* after a failure */
	/* private */
	unsigned char head[14];
	uint8_t head_len, head_need;
	bool in_frame, final, frame_compressed;
	int frame_kind, message_kind; /* message_kind: SC_FRAME_NONE between messages */
	bool message_compressed;
	unsigned char mask[4];
	uint64_t left, frame_len;
	bool pieces;        /* the message is being put together in `whole` */
	unsigned char control[125];
	uint8_t control_len;
	struct sc_bytes whole;
};

struct sc_frame {
	enum sc_frame_kind kind;
	bool compressed;        /* inflate it; only then check the text */
	struct sc_span payload; /* borrowed until the next call */
	uint16_t close_code;    /* CLOSE: 1005 when none was given; payload is then the reason */
};

/* max: the largest message that is accepted, as it is on the wire. */
void sc_frame_reader_init(struct sc_frame_reader *r, bool masked, size_t max);
void sc_frame_reader_done(struct sc_frame_reader *r);

/*
 * Take bytes until a message or control frame is whole: 1 with *ret_frame, or 0 when all was taken
 * and more is needed. *ret_used counts what was taken, also on failure. Masked payloads are
 * unmasked in place. Text that is not compressed was checked to be UTF-8.
 */
int sc_frame_read(struct sc_frame_reader *r, char *data, size_t len, size_t *ret_used, struct sc_frame *ret_frame,
		  struct sc_err *err);

/* One whole frame; masked with fresh random bytes when MASKED. COMPRESSED sets the first reserved
 * bit. */
int sc_frame_put(struct sc_bytes *out, enum sc_frame_kind kind, bool final, bool compressed, bool masked,
		 struct sc_span payload);
/* A close frame; a reason longer than 123 bytes is cut between letters. Code 1005 sends an empty
 * one. */
int sc_frame_put_close(struct sc_bytes *out, bool masked, uint16_t code, struct sc_span reason);

/* XOR with the mask, starting at byte PHASE of it. */
void sc_frame_mask(char *data, size_t len, const unsigned char mask[4], size_t phase);
bool sc_frame_utf8(const char *text, size_t len);
/* May a peer send this code in a close frame? */
bool sc_frame_code_ok(uint16_t code);

#endif
