/* tests/fuzz/httpanswer.c: answers of any bytes give the same body in one piece and in small
 * ones. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/httpanswer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int collect(const char *data, size_t size, size_t piece, struct sc_bytes *out,
		   bool *ret_done)
{
	struct sc_httpanswer a;
	int rc = 0;

	sc_httpanswer_init(&a);
	sc_httpanswer_begin(&a, false);
	*ret_done = false;
	for (size_t at = 0; at < size && rc == 0 && !*ret_done; at += piece) {
		size_t n = size - at < piece ? size - at : piece, from = 0, used;
		enum sc_httpanswer_step step = SC_ANSWER_BEGUN;
		struct sc_span part;
		char *copy = malloc(n);

		if (!copy)
			abort();
		memcpy(copy, data + at, n);
		while (rc == 0 && step != SC_ANSWER_MORE && step != SC_ANSWER_DONE) {
			rc = sc_httpanswer_read(&a, copy + from, n - from, &used, &step, &part,
						NULL);
			if (rc < 0)
				break;
			from += used;
			if (from > n ||
			    (step == SC_ANSWER_BODY && sc_bytes_put(out, part.data, part.len) < 0))
				abort();
		}
		*ret_done = rc == 0 && step == SC_ANSWER_DONE;
		free(copy);
	}
	sc_httpanswer_done(&a);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_bytes whole, pieces;
	bool whole_done, pieces_done;
	int a, b;

	sc_bytes_init(&whole, SIZE_MAX / 4);
	sc_bytes_init(&pieces, SIZE_MAX / 4);
	a = collect((const char *)data, size, size ? size : 1, &whole, &whole_done);
	b = collect((const char *)data, size, 2, &pieces, &pieces_done);
	/* a head that is too long is seen sooner in small pieces or later: both fail in the end */
	if ((a < 0) != (b < 0) || whole_done != pieces_done ||
	    (a == 0 && (whole.len != pieces.len ||
			(whole.len && memcmp(whole.data, pieces.data, whole.len)))))
		abort();
	sc_bytes_done(&whole);
	sc_bytes_done(&pieces);
	return 0;
}
