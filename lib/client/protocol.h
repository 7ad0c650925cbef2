/*
 * client/protocol.h: which of the two protocols the server behind a URL speaks: streamcast, over a
 * WebSocket, or that of Durable Streams, over HTTP.
 *
 * Owns      nothing.
 * Units     none.
 * Errors    SC_E_USAGE.
 * Safety    pure.
 * Source    streamcast-wire 1; the Durable Streams protocol, which leaves it to a server where its
 *           streams are; man/sc.7, "CONNECTIONS".
 */
#ifndef SC_CLIENT_PROTOCOL_H
#define SC_CLIENT_PROTOCOL_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/opt.h"
#include "net/httphead.h"

enum sc_protocol { SC_PROTOCOL_AUTO, SC_PROTOCOL_STREAMCAST, SC_PROTOCOL_DURABLE };

extern const char *const sc_protocol_words[];

/* For an options table; INTO is the offset of an int. */
#define SC_PROTOCOL_OPTION(INTO) \
	{ .name = "protocol", .kind = SC_OPT_CHOICE, .arg = "NAME", .into = (INTO), \
	  .choices = sc_protocol_words, .standard = "auto", \
	  .help = "what the server speaks; auto: durable for http(s):// with /v1/stream/ in the path, " \
		  "or with an option that only such servers know" }

/* SAID: by --protocol. OPTION: the name of an option that was given and that only servers of
 * Durable Streams know, or NULL. */
int sc_protocol_choose(const char *url, enum sc_protocol said, const char *option,
		       bool *ret_durable, struct sc_err *err);

/* FIELDS, of the answer to a request for a WebSocket: say so in *err where it is one of a Durable
 * Streams server. */
bool sc_protocol_other(struct sc_span fields, struct sc_err *err);

#endif
