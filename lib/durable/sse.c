/* sse.c: a batch as server-sent events. */
#include "durable/sse.h"

#include <string.h>

#include "base/base64.h"
#include "durable/text.h"

/*
 * Each line under a "data:" of its own; a leading blank is doubled, because parsers take one off.
 * LF is looked for once a line that ends with one, so that a payload of CRs costs no more than
 * another.
 */
static int put_lines(struct sc_bytes *out, struct sc_span payload)
{
	const char *at = payload.len ? payload.data : "", *end = at + payload.len, *lf = NULL;
	int rc = 0;

	for (;;) {
		const char *stop;

		if (!lf || lf < at) {
			lf = memchr(at, '\n', (size_t)(end - at));
			if (!lf)
				lf = end;
		}
		stop = memchr(at, '\r', (size_t)(lf - at));
		if (!stop)
			stop = lf;
		rc = sc_bytes_puts(out, stop > at && *at == ' ' ? "data: " : "data:");
		if (rc == 0)
			rc = sc_bytes_put(out, at, (size_t)(stop - at));
		if (rc == 0)
			rc = sc_bytes_putc(out, '\n');
		if (rc < 0 || stop == end)
			return rc;
		at = stop + (end - stop > 1 && stop[0] == '\r' && stop[1] == '\n' ? 2 : 1);
	}
}

static int put_data(struct sc_bytes *out, const struct sc_ds_batch *batch)
{
	int rc = sc_bytes_puts(out, "event: data\n");

	if (rc == 0 && !batch->base64)
		rc = put_lines(out, batch->payload);
	if (rc == 0 && batch->base64)
		rc = sc_bytes_puts(out, "data:");
	if (rc == 0 && batch->base64)
		rc = sc_base64_put(out, batch->payload);
	if (rc == 0 && batch->base64)
		rc = sc_bytes_putc(out, '\n');
	if (rc == 0)
		rc = sc_bytes_putc(out, '\n');
	return rc;
}

static int put_control(struct sc_bytes *out, const struct sc_ds_batch *batch)
{
	char offset[SC_DS_OFFSET_TEXT];
	int rc;

	sc_ds_offset_format(batch->next, offset);
	rc = sc_bytes_putf(out, "event: control\ndata:{\"streamNextOffset\":\"%s\"", offset);
	if (rc == 0 && !batch->ended)
		rc = sc_bytes_putf(out, ",\"streamCursor\":\"%s\"", batch->cursor);
	if (rc == 0 && (batch->up_to_date || batch->ended))
		rc = sc_bytes_puts(out, ",\"upToDate\":true");
	if (rc == 0 && batch->ended)
		rc = sc_bytes_puts(out, ",\"streamClosed\":true");
	return rc < 0 ? rc : sc_bytes_puts(out, "}\n\n");
}

int sc_ds_sse_put(struct sc_bytes *out, const struct sc_ds_batch *batch)
{
	size_t before = out->len;
	int rc = batch->has_data ? put_data(out, batch) : 0;

	if (rc == 0)
		rc = put_control(out, batch);
	if (rc < 0)
		out->len = before;
	return rc;
}

int sc_ds_sse_comment(struct sc_bytes *out)
{
	return sc_bytes_puts(out, ":\n\n");
}
