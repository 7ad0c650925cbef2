/*
 * net/chunks.h: a body of HTTP/1.1 in chunks, taken apart as it comes.
 *
 * Owns      nothing.
 * Units     bytes.
 * Errors    false for what is no chunked body.
 * Safety    pure functions; any bytes are safe input.
 * Source    RFC 9112 7.1. Extensions and trailers are passed over, within a limit.
 */
#ifndef SC_NET_CHUNKS_H
#define SC_NET_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define SC_CHUNK_LINE_MAX 4096u  /* a size with its extensions, a trailer */
#define SC_CHUNK_TRAILERS_MAX 16384u   /* all trailers; all extensions between two pieces of data */

struct sc_chunks { /* zero it */
	int state;
	unsigned digits;
	uint64_t left;   /* of the chunk */
	size_t line, overhead;
	bool done;       /* the body is whole */
};

/*
 * The next piece of data at the front of *input, which moves past it: 1; 0 when there is no more
 * in it (then see done); -1 when this is no chunked body. With done what is left is the next
 * request.
 */
int sc_chunks_next(struct sc_chunks *chunks, struct sc_span *input, struct sc_span *ret_data);

#endif
