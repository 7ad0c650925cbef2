/*
 * msg/scan.h: msgpack, read without allocation: one item, one value, one message of five elements.
 *
 * Owns      nothing; every span borrows from the bytes given.
 * Units     bytes.
 * Errors    an enum sc_packed_end; 0 is good. The words are for the reason of a Close (1007).
 * Safety    pure functions, any thread; any bytes are safe input; time is linear in the bytes that
 *           are there, whatever the heads announce; no recursion.
 * Source    the msgpack specification; wsmsg 4 and 5; man/sc-wsmsg.7.
 */
#ifndef SC_MSG_SCAN_H
#define SC_MSG_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Containers in containers, the five-element array of a message not counted. */
#define SC_PACKED_DEPTH_MAX 128

enum sc_packed_kind {
	SC_PACKED_NIL, SC_PACKED_BOOL,
	SC_PACKED_UINT,              /* any integer that is not negative */
	SC_PACKED_INT,               /* a negative one */
	SC_PACKED_FLOAT,
	SC_PACKED_STR, SC_PACKED_BIN, SC_PACKED_EXT,
	SC_PACKED_ARRAY, SC_PACKED_MAP,
};

/* One item: all of it, or the head of a container. */
struct sc_packed {
	enum sc_packed_kind kind;
	bool truth;                  /* BOOL */
	bool single;                 /* FLOAT: of 32 bits */
	int8_t ext;                  /* EXT: its type */
	uint32_t count;              /* ARRAY: elements, MAP: pairs */
	union {
		uint64_t u;          /* UINT */
		int64_t i;           /* INT */
		double f;            /* FLOAT */
	};
	struct sc_span bytes;        /* STR, BIN, EXT: what they hold */
};

enum sc_packed_end {
	SC_PACKED_OK = 0,
	SC_PACKED_SHORT,             /* the bytes end inside a value */
	SC_PACKED_INVALID,           /* the byte c1 */
	SC_PACKED_DEEP,
};
/* "the message ends inside a value" */
const char *sc_packed_fault(enum sc_packed_end end);

/* The item at the front of DATA, and how many bytes it takes: of a container the head only. */
enum sc_packed_end sc_packed_item(struct sc_span data, struct sc_packed *ret_item, size_t *ret_len);
/* The whole value at the front of DATA, containers with all that is in them. */
enum sc_packed_end sc_packed_value(struct sc_span data, size_t *ret_len);

/* Walk values that sc_packed_value accepted: the item at the front, and DATA moved behind it. */
bool sc_packed_next(struct sc_span *data, struct sc_packed *ret_item);

/* The elements of a message, each with its head, in the order they were sent. */
#define SC_PACKED_ELEMENTS 5
struct sc_packed_message {
	struct sc_span elements[SC_PACKED_ELEMENTS];
};
/* 0, or -1 with the words for the Close: "need 5 elements, got 4" (at most 123 bytes and a NUL). */
#define SC_PACKED_REASON 124
int sc_packed_message(struct sc_span data, struct sc_packed_message *ret_message,
		      char ret_reason[SC_PACKED_REASON]);

#endif
