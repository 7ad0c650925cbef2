/*
 * tests/bench/msgbench/wire.h: what msgbench says to a message broker, and hears of it, in either
 * of two protocols.
 *
 * Owns      a peer owns its socket and buffers.
 * Units     bytes.
 * Errors    a broker that does not do as it should ends the program.
 * Safety    one thread.
 * Source    wsmsg 2 to 8; MQTT 3.1.1.
 *
 * A message carries its number: the first 16 bytes of its text are the number in hexadecimal.
 */
#ifndef SC_BENCH_WIRE_H
#define SC_BENCH_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

enum { NUMBER_DIGITS = 16, ID_MAX = 16 };

enum heard_kind { HEARD_OTHER, HEARD_ACK, HEARD_MESSAGE };

struct heard {
	enum heard_kind kind;
	uint64_t number;          /* of a message */
	unsigned char id[ID_MAX]; /* of a message: what its ack must name */
	size_t id_len;            /* 0: it wants no ack */
};

struct peer;

struct wire {
	const char *name;
	/* Connected, and welcome. */
	void (*hello)(struct peer *p, int port);
	/* This and the rest put bytes into p->out. The answer to this one is an ack. */
	void (*subscribe)(struct peer *p, const char *channel, const char *subject);
	/* A message with that number, in reply to RE unless that is NULL. */
	void (*publish)(struct peer *p, const char *channel, const char *subject, uint64_t number, const struct heard *re);
	/* Whoever answers the message with that number answers P; NULL: there is no such thing. */
	void (*await)(struct peer *p, uint64_t number);
	void (*ack)(struct peer *p, const struct heard *message);
	/* How long the packet is that DATA begins with, and what it says; 0: it is not whole. */
	size_t (*hear)(const struct peer *p, struct sc_span data, struct heard *ret_heard);
};

extern const struct wire wire_wsmsg;     /* elements in the document's order */
extern const struct wire wire_reference; /* in the published server's */
extern const struct wire wire_mqtt;      /* QoS 1 both ways */
extern const struct wire wire_mqtt0;     /* subscribes with QoS 0: deliveries want no ack */

struct peer {
	const struct wire *wire;
	char name[32];            /* of its endpoint; MQTT: its client identifier */
	size_t size;              /* of a message's text */
	int fd;
	struct sc_bytes in, out, data;
	char *text;
	size_t at;                /* of in: heard already */
	uint64_t uids;            /* given away */
	unsigned packets;         /* MQTT: numbers given away */
};

void peer_open(struct peer *p, const struct wire *wire, const char *name, size_t size, int port);
void peer_close(struct peer *p);
void peer_send(struct peer *p);             /* all that is in out */
/* The next packet that is there; false: there is none. */
bool peer_hear(struct peer *p, struct heard *ret_heard);
/* From the socket; false: nothing came, which with WAIT cannot be. */
bool peer_read(struct peer *p, bool wait);
/* Wait for a packet of that kind, past others. */
void peer_await(struct peer *p, enum heard_kind kind, struct heard *ret_heard);
/* For the wires. */
void peer_put(struct sc_bytes *out, const void *data, size_t len);
struct sc_span peer_text(struct peer *p, uint64_t number); /* good until the next */
uint64_t peer_number(struct sc_span text);

#endif
