/*
 * durable/http_fields.h: the fields of an answer's head.
 *
 * Owns      nothing; values point into the answer, the face, or the result itself.
 * Units     none.
 * Errors    none: what does not fit is left out.
 * Safety    pure functions, any thread.
 * Source    durable-streams 3.2 and 3.3.
 */
#ifndef SC_DURABLE_HTTP_FIELDS_H
#define SC_DURABLE_HTTP_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "durable/protocol.h"

struct sc_ds_face {
	const char *cors;   /* an origin, "*", or "" for no CORS fields */
	bool private_cache;
};

#define SC_DS_FIELDS_MAX 32
struct sc_ds_fields {
	struct {
		const char *name, *value;
	} items[SC_DS_FIELDS_MAX];
	size_t count;
	char text[1024]; /* numbers and offsets */
	size_t used;
};

#define SC_DS_METHODS "GET, POST, PUT, DELETE, HEAD, OPTIONS"

/* What every answer has. */
void sc_ds_fields_every(struct sc_ds_fields *ret_fields, const struct sc_ds_face *face);
/* What ANSWER asks for besides. LOCATION: of a created stream, or NULL. */
void sc_ds_fields_make(struct sc_ds_fields *ret_fields, const struct sc_ds_face *face,
		       struct sc_ds_answer *answer, const char *location);
void sc_ds_fields_add(struct sc_ds_fields *fields, const char *name, const char *value);
/* As lines of a head. */
int sc_ds_fields_put(const struct sc_ds_fields *fields, struct sc_bytes *out);

/* The place in REQUEST for a field NAME (any letter case), or NULL. */
struct sc_span *sc_ds_request_field(struct sc_ds_request *request, struct sc_span name);

#endif
