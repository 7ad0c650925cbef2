/*
 * client/outbox.h: rows of a publisher on their way to a streamcast server: frames, numbers,
 * replies, and what is in doubt when a connection is lost. No I/O.
 *
 * Owns      the rows until they are acknowledged; a frame's text until the next call.
 * Units     lines of input count from 1; numbers are a producer's own (wire/publish.h).
 * Errors    SC_E_DATA (a refused row), SC_E_BUSY (the server cannot store now), SC_E_UNAVAILABLE
 *           (in doubt), SC_E_REFUSED (another process took over, the server lost rows),
 *           SC_E_PROTOCOL.
 * Safety    one thread; no clock, no descriptors.
 * Source    streamcast-wire 10; man/sc-wire.7, "PUBLISHING".
 *
 * Frames are sent in order and each gets one reply. After a reply that refuses one no other is sent
 * until all replies are in; then it is known what became of the frames behind it.
 */
#ifndef SC_CLIENT_OUTBOX_H
#define SC_CLIENT_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_OUTBOX_FRAME_BYTES (128u << 10) /* of rows in one frame, unless one row is longer */
#define SC_OUTBOX_HELD_BYTES (8u << 20)    /* of rows without a reply: then no more are taken */
#define SC_OUTBOX_WINDOW_MAX 1024

struct sc_outbox_options {
	size_t window;  /* frames without a reply */
	size_t batch;   /* rows in one frame */
	bool producer;  /* rows have numbers: sent again they are not stored twice */
	bool again;     /* without a producer: send again what is in doubt */
};

struct sc_outbox;

int sc_outbox_new(const struct sc_outbox_options *options, struct sc_outbox **ret_outbox,
		  struct sc_err *err);
void sc_outbox_free(struct sc_outbox *outbox);

bool sc_outbox_full(const struct sc_outbox *outbox);  /* take no more rows now */
bool sc_outbox_empty(const struct sc_outbox *outbox); /* all that was put is stored */
/* ROW is one JSON text on one line. Numbers rise. */
int sc_outbox_put(struct sc_outbox *outbox, struct sc_span row, uint64_t line, uint64_t number,
		  struct sc_err *err);

/* A connection stands: frames without a reply are sent again. Of a producer the server has stored
 * the rows up to number STORED (0: it knows none). */
int sc_outbox_connected(struct sc_outbox *outbox, uint64_t stored, struct sc_err *err);
/* 1: the text of the next frame; 0: there is none, or its time has not come; negative: no
 * memory. */
int sc_outbox_next(struct sc_outbox *outbox, struct sc_span *ret_frame, struct sc_err *err);
void sc_outbox_sent(struct sc_outbox *outbox); /* that frame, a first byte of it at least */

enum sc_outbox_step {
	SC_OUTBOX_STORED,    /* a frame: see sc_outbox_stored; then sc_outbox_drop, sc_outbox_settle */
	SC_OUTBOX_WAIT,      /* a frame was not stored: the replies to others are awaited, or it is sent in parts */
	SC_OUTBOX_LATER,     /* the server cannot store now: wait, then sc_outbox_resend */
	SC_OUTBOX_RECONNECT, /* what the server has is to be asked again */
};
/* A reply came. Negative: it ends the publication. */
int sc_outbox_reply(struct sc_outbox *outbox, struct sc_span text, enum sc_outbox_step *ret_step,
		    struct sc_err *err);

struct sc_outbox_row {
	struct sc_span text;
	uint64_t line, number;
	uint64_t offset;     /* 0: stored, but where is not known, or the stream has no log */
};
/* After SC_OUTBOX_STORED: the frame's rows, from INDEX 0 on; false behind the last one. */
bool sc_outbox_stored(const struct sc_outbox *outbox, size_t index,
		struct sc_outbox_row *ret_row);
void sc_outbox_drop(struct sc_outbox *outbox);
/* After the drop: that may have been the last reply that was awaited. As sc_outbox_reply. */
int sc_outbox_settle(struct sc_outbox *outbox, enum sc_outbox_step *ret_step, struct sc_err *err);
void sc_outbox_resend(struct sc_outbox *outbox);

/* The connection is lost. Negative: rows that were sent and not acknowledged are in doubt, and may
 * not be sent again. */
int sc_outbox_lost(struct sc_outbox *outbox, struct sc_err *err);
/* The lines that were sent and not acknowledged; false: none. */
bool sc_outbox_in_doubt(const struct sc_outbox *outbox, uint64_t *ret_first, uint64_t *ret_last);
uint64_t sc_outbox_line(const struct sc_outbox *outbox);  /* the last one before which all is stored; 0 = none */
uint64_t sc_outbox_moved(const struct sc_outbox *outbox); /* frames stored: does it get on? */

#endif
