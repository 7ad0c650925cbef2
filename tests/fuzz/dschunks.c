/* tests/fuzz/dschunks.c: any bytes as a body in chunks: what comes out does not hang on where the
 * input is cut, lies within it, and what is no data has its limit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/chunks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
	struct sc_bytes body;
	size_t taken;
	bool done, bad;
};

static void put(struct result *r, struct sc_span piece, const char *from, size_t size)
{
	if (!piece.len || piece.data < from || piece.data + piece.len > from + size)
		abort();
	if (sc_bytes_put(&r->body, piece.data, piece.len) < 0)
		abort();
}

/* In pieces of STEP bytes, each in memory of its own, so that the sanitizer sees a byte too far. */
static void decode(const uint8_t *data, size_t size, size_t step, struct result *r)
{
	struct sc_chunks chunks = { .state = 0 };

	sc_bytes_init(&r->body, size + 1);
	while (r->taken < size && !chunks.done && !r->bad) {
		size_t len = size - r->taken < step ? size - r->taken : step;
		char *copy = malloc(len);
		struct sc_span input = sc_span(copy, len), piece;
		int rc;

		if (!copy)
			abort();
		memcpy(copy, data + r->taken, len);
		while ((rc = sc_chunks_next(&chunks, &input, &piece)) == 1)
			put(r, piece, copy, len);
		if (rc == 0 && input.len && !chunks.done)
			abort();
		r->bad = rc < 0;
		r->taken += len - input.len;
		free(copy);
		if (chunks.line > SC_CHUNK_LINE_MAX + 1 ||
		    chunks.overhead > SC_CHUNK_TRAILERS_MAX + 1)
			abort();
	}
	r->done = chunks.done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct result whole = { .taken = 0 };

	decode(data, size, size ? size : 1, &whole);
	/* every piece costs an allocation */
	for (size_t step = size < 1000 ? 1 : 509; step < 1000; step = step * 3 + 1) {
		struct result cut = { .taken = 0 };

		decode(data, size, step, &cut);
		if (cut.done != whole.done || cut.bad != whole.bad ||
		    cut.body.len != whole.body.len ||
		    (whole.body.len && memcmp(cut.body.data, whole.body.data, whole.body.len)))
			abort();
		if (!whole.bad && cut.taken != whole.taken)
			abort();
		sc_bytes_done(&cut.body);
	}
	sc_bytes_done(&whole.body);
	return 0;
}
