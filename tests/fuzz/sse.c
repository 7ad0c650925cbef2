/* tests/fuzz/sse.c: events of any bytes are the same in one piece and in small ones, and a
 * reader of streams takes whatever they hold. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/dsread.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All events as NAME, NUL, DATA, NUL. */
static int collect(const char *data, size_t size, size_t piece, struct sc_bytes *out)
{
	struct sc_sse sse;
	struct sc_sse_event event;
	int rc = 0;

	sc_sse_init(&sse, 4096);
	sc_sse_begin(&sse);
	for (size_t at = 0; at < size && rc >= 0; at += piece) {
		size_t n = size - at < piece ? size - at : piece, from = 0, used = 0;
		char *copy = malloc(n);

		if (!copy)
			abort();
		memcpy(copy, data + at, n);
		while ((rc = sc_sse_read(&sse, copy + from, n - from, &used, &event, NULL)) == 1) {
			from += used;
			if (from > n || sc_bytes_put(out, event.name, strlen(event.name) + 1) < 0 ||
			    sc_bytes_put(out, event.data.data, event.data.len) < 0 ||
			    sc_bytes_putc(out, '\0') < 0)
				abort();
		}
		if (rc == 0 && from + used != n)
			abort();
		free(copy);
	}
	sc_sse_done(&sse);
	return rc;
}

static void read_stream(const char *data, size_t size)
{
	static const char head[] =
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nStream-Up-To-Date: true\r\n"
		"Stream-Next-Offset: 0000000000000000_0000000000000007\r\n\r\n";
	static const char live[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
	struct sc_dsread_options o = { .target = "/s", .offset = "-1", .live = SC_DS_SSE };
	struct sc_sse_event event;
	struct sc_ds_message m;
	struct sc_httphead parsed;
	enum sc_dsread_kind kind;
	struct sc_dsread *r;
	struct sc_sse sse;
	size_t at = 0, used;

	if (sc_dsread_new(&o, &r, NULL) < 0)
		abort();
	sc_sse_init(&sse, 4096);
	if (sc_httphead_parse(head, sizeof(head) - 1, 4096, &parsed, NULL) <= 0 ||
	    sc_dsread_head(r, &parsed, &kind, NULL) < 0 ||
	    sc_dsread_page(r, SC_SPAN("[]"), NULL) < 0 ||
	    sc_httphead_parse(live, sizeof(live) - 1, 4096, &parsed, NULL) <= 0 ||
	    sc_dsread_head(r, &parsed, &kind, NULL) < 0 || kind != SC_DS_EVENTS)
		abort();
	sc_sse_begin(&sse);
	while (sc_sse_read(&sse, data + at, size - at, &used, &event, NULL) == 1) {
		at += used;
		if (sc_dsread_event(r, &event, NULL) < 0)
			break;
		while (sc_dsread_next(r, &m))
			if (!m.msg.len)
				abort();
	}
	sc_sse_done(&sse);
	sc_dsread_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_bytes whole, pieces;
	int a, b;

	sc_bytes_init(&whole, SIZE_MAX / 4);
	sc_bytes_init(&pieces, SIZE_MAX / 4);
	a = collect((const char *)data, size, size ? size : 1, &whole);
	b = collect((const char *)data, size, 3, &pieces);
	if ((a < 0) != (b < 0) || whole.len != pieces.len ||
	    (whole.len && memcmp(whole.data, pieces.data, whole.len)))
		abort();
	sc_bytes_done(&whole);
	sc_bytes_done(&pieces);
	read_stream((const char *)data, size);
	return 0;
}
