/*
 * msg/message.h: a wsmsg message in neutral form, read and written in both orders of its elements.
 *
 * Owns      nothing; spans borrow from the bytes that were read.
 * Units     bytes.
 * Errors    reading: an enum sc_msg_fault, and words; writing: SC_E_NOMEM.
 * Safety    pure functions, any thread; any bytes are safe input.
 * Source    wsmsg 4, 5, 6, 11, 12, 14; man/sc-wsmsg.7.
 */
#ifndef SC_MSG_MESSAGE_H
#define SC_MSG_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "msg/scan.h"

#define SC_MSG_NAME_MAX 255 /* channel, subject, endpoint, pattern */
#define SC_MSG_UID_MAX 64   /* uid, reference */
#define SC_MSG_SYSTEM "system"

/* Which element is the second. */
enum sc_msg_order { SC_MSG_DOCUMENT, SC_MSG_REFERENCE };

struct sc_msg {
	struct sc_span uid;
	struct sc_span channel, subject;
	struct sc_span reference; /* data NULL: nil; an empty bin has data and len 0. Both mean none */
	struct sc_span data;      /* packed, byte for byte as it came */
};

/* name, the word in an error message */
#define SC_MSG_CODES(X) \
	X(BAD_FIELD, "bad-field") \
	X(BAD_UID, "bad-uid") \
	X(BAD_CHANNEL, "bad-channel") \
	X(BAD_SUBJECT, "bad-subject") \
	X(BAD_REFERENCE, "bad-reference") \
	X(BAD_UTF8, "bad-utf8") \
	X(UNKNOWN_COMMAND, "unknown-command") \
	X(BAD_ARGS, "bad-args") \
	X(RESERVED, "reserved") \
	X(EXPIRED, "expired") \
	X(LIMIT, "limit") \
	X(DENIED, "denied") \
	X(STOPPING, "stopping")
enum sc_msg_fault {
	SC_MSG_OK = 0,
	SC_MSG_MALFORMED,         /* no message at all: the connection is closed with 1007 */
#define X(name, word) SC_MSG_##name,
	SC_MSG_CODES(X)
#undef X
};
/* "bad-uid"; NULL for OK and MALFORMED */
const char *sc_msg_fault_word(enum sc_msg_fault fault);

/* What became of reading. */
struct sc_msg_reading {
	struct sc_msg msg;        /* whole when the fault is OK; else only a uid that is good, or none */
	enum sc_msg_order order;
	bool ordered;             /* the second element told the order */
	char reason[SC_PACKED_REASON]; /* of a fault, for people */
};
enum sc_msg_fault sc_msg_read(struct sc_span bytes, struct sc_msg_reading *ret_reading);

/* How many bytes sc_msg_write appends. */
size_t sc_msg_size(const struct sc_msg *msg);
/* MSG's data must be one packed value. On failure OUT is as it was. */
int sc_msg_write(struct sc_bytes *out, const struct sc_msg *msg, enum sc_msg_order order);
/* The same; *ret_copy borrows from OUT (until that moves). */
int sc_msg_copy(struct sc_bytes *out, const struct sc_msg *msg, enum sc_msg_order order,
		struct sc_msg *ret_copy);

static inline bool sc_msg_is_ack(const struct sc_msg *msg)
{
	return sc_span_is(msg->channel, SC_MSG_SYSTEM) && sc_span_is(msg->subject, "ack");
}

/* Subjects on the channel system. name, subject, fewest and most arguments, admin */
#define SC_MSG_COMMANDS(X) \
	X(ACK, "ack", 0, 0, false) \
	X(SUBSCRIBE_CHANNEL, "subscribe.channel", 3, 3, false) \
	X(SUBSCRIBE_MESSAGE, "subscribe.message", 2, 3, false) \
	X(UNSUBSCRIBE_CHANNEL, "unsubscribe.channel", 2, 2, false) \
	X(UNSUBSCRIBE_MESSAGE, "unsubscribe.message", 2, 2, false) \
	X(PAUSE, "pause", 0, 0, true) \
	X(RESUME, "resume", 0, 0, true) \
	X(STOP, "stop", 0, 0, true) \
	X(CHANNEL_CREATE, "channel.create", 1, 1, true) \
	X(CHANNEL_SIZE, "channel.size", 2, 2, true) \
	X(CHANNEL_PRIORITY, "channel.priority", 2, 2, true) \
	X(ENDPOINT_CREATE, "endpoint.create", 1, 1, true) \
	X(ENDPOINT_SIZE, "endpoint.size", 2, 2, true) \
	X(STATS, "stats", 0, 0, false)
enum sc_msg_command {
	SC_MSG_NO_COMMAND = 0,
#define X(name, subject, least, most, admin) SC_MSG_##name,
	SC_MSG_COMMANDS(X)
#undef X
	SC_MSG_COMMAND_COUNT
};
enum sc_msg_command sc_msg_command(struct sc_span subject);
const char *sc_msg_command_subject(enum sc_msg_command command);
/* The command that a misspelt subject is nearest to, NULL if it is near none. */
const char *sc_msg_command_near(struct sc_span subject);

/* Subjects that only the broker sends. name, subject */
#define SC_MSG_EVENTS(X) \
	X(NODE_JOINED, "node.joined") \
	X(NODE_LEFT, "node.left") \
	X(ENDPOINT_CREATED, "endpoint.created") \
	X(ENDPOINT_SIZED, "endpoint.sized") \
	X(CHANNEL_CREATED, "channel.created") \
	X(CHANNEL_SIZED, "channel.sized") \
	X(CHANNEL_PRIORITIZED, "channel.prioritized")
enum sc_msg_event {
#define X(name, subject) SC_MSG_##name,
	SC_MSG_EVENTS(X)
#undef X
	SC_MSG_EVENT_COUNT
};
const char *sc_msg_event_subject(enum sc_msg_event event);

/* Control messages, besides "ack". */
#define SC_MSG_ERROR_SUBJECT "error"       /* data [code str, text str], reference the uid meant */
#define SC_MSG_STOPPING_SUBJECT "stopping" /* data nil */
#define SC_MSG_STATS_SUBJECT "stats"       /* data a map, reference the command's uid */

#endif
