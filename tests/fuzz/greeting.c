/* tests/fuzz/greeting.c: any bytes as a greeting; what is understood is built again and understood
 * the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/greeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(struct sc_span a, struct sc_span b)
{
	return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_bytes store, again, out;
	struct sc_greeting g, h;

	sc_bytes_init(&store, SIZE_MAX);
	sc_bytes_init(&again, SIZE_MAX);
	sc_bytes_init(&out, SIZE_MAX);
	if (sc_greeting_parse(sc_span((const char *)data, size), &store, &g, NULL) == 0) {
		if (sc_greeting_build(&g, &out) < 0)
			abort();
		if (sc_greeting_parse(sc_span(out.data, out.len), &again, &h, NULL) < 0)
			abort();
		if (g.wire != h.wire || g.has_end != h.has_end || g.end_offset != h.end_offset ||
		    g.durable != h.durable || g.has_replay != h.has_replay ||
		    !same(g.stream, h.stream) || !same(g.stream_id, h.stream_id) ||
		    !same(g.schema, h.schema) || !same(g.sc_archive, h.sc_archive))
			abort();
	}
	sc_bytes_done(&store);
	sc_bytes_done(&again);
	sc_bytes_done(&out);
	return 0;
}
