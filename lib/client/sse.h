/*
 * client/sse.h: server-sent events out of their bytes. No descriptors.
 *
 * Owns      its buffers; an event is good until the next call.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL (an event is longer than it may be), SC_E_NOMEM.
 * Safety    pure.
 * Source    the HTML standard, 9.2.6 "Interpreting an event stream". Bytes are passed on as they
 *           are, not decoded; id and retry are of no use here.
 */
#ifndef SC_CLIENT_SSE_H
#define SC_CLIENT_SSE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_SSE_NAME 32

struct sc_sse {
	struct sc_bytes line, data;
	char name[SC_SSE_NAME];  /* cut: longer ones are none of ours */
	bool has_data, after_cr, begun, told;
};

struct sc_sse_event {
	const char *name;        /* "" when none was said */
	struct sc_span data;     /* its lines, joined with LF */
};

void sc_sse_init(struct sc_sse *sse, size_t data_max);
void sc_sse_done(struct sc_sse *sse);
void sc_sse_begin(struct sc_sse *sse);  /* another stream */
/* Take some of the bytes: 1 an event with data, 0 all were used. */
int sc_sse_read(struct sc_sse *sse, const char *data, size_t len, size_t *ret_used,
		struct sc_sse_event *ret_event, struct sc_err *err);

#endif
