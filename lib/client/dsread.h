/*
 * client/dsread.h: a reader of a Durable Streams stream: what to ask next, and the messages and
 * offsets of the answers. No I/O.
 *
 * Owns      its texts; what a message borrows is said below.
 * Units     positions count bytes, as the servers' offsets do.
 * Errors    SC_E_PROTOCOL, SC_E_NOLOG (no such stream), SC_E_REFUSED (the offset), SC_E_NOAUTH,
 *           SC_E_BUSY (try again later).
 * Safety    one thread; no clock, no descriptors.
 * Source    the Durable Streams protocol; man/sc-sub.1, "DURABLE STREAMS".
 *
 * An offset is opaque, and the only ones to resume at are those that the server has said: the end
 * of each answer. Servers whose offsets are two numbers of 16 digits, the first 0, count bytes with
 * the second. Where the messages of an answer, each with 4 bytes more than its own, add up to the
 * way from its start to its end, the end of each message is known as well; so it is where the
 * offsets count messages, as those of a log do that sc-streams serves.
 */
#ifndef SC_CLIENT_DSREAD_H
#define SC_CLIENT_DSREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "client/sse.h"
#include "net/httphead.h"

#define SC_DS_OFFSET_MAX 256
#define SC_DS_POSITION_TEXT 34

/* A position as an offset, and back; false: not of that form. */
void sc_ds_position_text(uint64_t position, char ret_text[SC_DS_POSITION_TEXT]);
bool sc_ds_position(struct sc_span offset, uint64_t *ret_position);
/* An offset that can stand in a query as it is. */
bool sc_ds_offset_valid(struct sc_span offset);

enum sc_ds_live { SC_DS_LONG_POLL, SC_DS_SSE };

struct sc_dsread_options {
	const char *target;      /* the URL's; with its own query, but no offset, live or cursor */
	const char *offset;      /* where to begin: "-1" the start, "now", or one that the server gave */
	enum sc_ds_live live;
	bool until_end;          /* stop at what is the end when it is first reached */
	size_t held_max;         /* bytes of data events up to their control event */
};

struct sc_dsread;

int sc_dsread_new(const struct sc_dsread_options *options, struct sc_dsread **ret_dsread,
		struct sc_err *err);
void sc_dsread_free(struct sc_dsread *dsread);

int sc_dsread_target(struct sc_dsread *dsread, struct sc_bytes *out, struct sc_err *err);
bool sc_dsread_waits(const struct sc_dsread *dsread);   /* the answer may take as long as the server likes */

enum sc_dsread_kind { SC_DS_NOTHING, SC_DS_PAGE, SC_DS_EVENTS };
/* The head of the answer. NOTHING: it is complete (its body, if any, is not looked at). */
int sc_dsread_head(struct sc_dsread *dsread, const struct sc_httphead *head, enum sc_dsread_kind *ret_kind,
		   struct sc_err *err);
/* The whole body of a page, or an event: then messages are there. BODY must stay until they are
 * taken; an event need not. */
int sc_dsread_page(struct sc_dsread *dsread, struct sc_span body, struct sc_err *err);
int sc_dsread_event(struct sc_dsread *dsread, const struct sc_sse_event *event, struct sc_err *err);

struct sc_ds_message {
	struct sc_span msg;      /* JSON; good until the next page or event */
	bool newlines;
	uint64_t position;       /* behind it; 0: not known */
	bool last;               /* of the answer: sc_dsread_offset is behind it */
};
bool sc_dsread_next(struct sc_dsread *dsread, struct sc_ds_message *ret_message);
/* Where to go on, once the messages were taken. */
struct sc_span sc_dsread_offset(const struct sc_dsread *dsread);
/* How many answers in a row said that the stream ends before the offset that was asked for. Such an
 * answer is not followed: what it is about may have been read already. Ask again, a while later. */
unsigned sc_dsread_back(const struct sc_dsread *dsread);
bool sc_dsread_finished(const struct sc_dsread *dsread); /* closed, or the end that was asked for */
bool sc_dsread_closed(const struct sc_dsread *dsread);

/* What a status other than success says, for any request to such a server; HEAD may name more. */
int sc_ds_status_err(const struct sc_httphead *head, const char *tried, struct sc_err *err);

#endif
