/* tests/fuzz/frame.c: the frame reader takes any bytes, in any pieces, with the same result. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
	uint64_t hash, frames;
	int end;
};

static void add(struct sum *s, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		s->hash = (s->hash ^ p[i]) * 1099511628211u;
}

/* Each message is summed; STEP 0 gives all bytes at once. */
static struct sum run(const uint8_t *data, size_t size, size_t step, bool masked, bool compress)
{
	struct sum s = { 14695981039346656037u, 0, 0 };
	struct sc_frame_reader r;
	size_t at = 0;
	char *copy = malloc(size + 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	sc_frame_reader_init(&r, masked, 1000);
	r.may_compress = compress;
	while (at < size && s.end == 0) {
		size_t n = step && step < size - at ? step : size - at, used = 0;
		struct sc_frame f;
		int rc = sc_frame_read(&r, copy + at, n, &used, &f, NULL);

		if (used > n || (rc == 0 && used != n))
			abort();
		at += used;
		if (rc < 0) {
			s.end = r.close_code;
			if (!s.end)
				abort();
		} else if (rc > 0) {
			s.frames++;
			add(&s, &f.kind, sizeof(f.kind));
			add(&s, f.payload.data, f.payload.len);
			if (f.kind == SC_FRAME_TEXT && !f.compressed &&
			    !sc_frame_utf8(f.payload.data, f.payload.len))
				abort();
		}
	}
	sc_frame_reader_done(&r);
	free(copy);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	for (int mode = 0; mode < 4; mode++) {
		struct sum whole = run(data + 1, size - 1, 0, mode & 1, mode & 2);
		struct sum parts = run(data + 1, size - 1, 1 + data[0] % 17, mode & 1, mode & 2);

		if (whole.hash != parts.hash || whole.frames != parts.frames ||
		    whole.end != parts.end)
			abort();
	}
	return 0;
}
