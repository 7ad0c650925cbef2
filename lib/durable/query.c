/* query.c: the query of a GET, form-decoded. */
#include <string.h>

#include "durable/text.h"

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RAW decoded to the end of SCRATCH, which has the room: its span there. */
static struct sc_span decode(struct sc_bytes *scratch, struct sc_span raw)
{
	char *start = scratch->data + scratch->len, *out = start;

	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.data[i];

		if (c == '%' && i + 2 < raw.len && hex(raw.data[i + 1]) >= 0 &&
		    hex(raw.data[i + 2]) >= 0) {
			c = (char)(hex(raw.data[i + 1]) << 4 | hex(raw.data[i + 2]));
			i += 2;
		} else if (c == '+') {
			c = ' ';
		}
		*out++ = c;
	}
	scratch->len += (size_t)(out - start);
	return sc_span(start, (size_t)(out - start));
}

int sc_ds_query_parse(struct sc_span raw, struct sc_bytes *scratch, struct sc_ds_query *ret_query)
{
	struct sc_ds_query query = { .live = { NULL, 0 } };
	const char *at = raw.data, *end = raw.data + raw.len;
	int rc;

	sc_bytes_clear(scratch);
	/* decoded is never longer; one more, so that an empty value has an address */
	rc = sc_bytes_reserve(scratch, raw.len + 1);
	if (rc < 0)
		return rc;
	while (raw.len && at < end) {
		const char *stop = memchr(at, '&', (size_t)(end - at)), *equals;
		struct sc_span name, value;

		if (!stop)
			stop = end;
		equals = memchr(at, '=', (size_t)(stop - at));
		name = decode(scratch, sc_span(at, (size_t)((equals ? equals : stop) - at)));
		value = equals ? sc_span(equals + 1, (size_t)(stop - equals - 1)) : sc_span("", 0);
		value = decode(scratch, value);
		if (sc_span_is(name, "offset")) {
			query.offset_repeated = query.offset.data != NULL;
			if (!query.offset.data)
				query.offset = value;
		} else if (sc_span_is(name, "live") && !query.live.data) {
			query.live = value;
		} else if (sc_span_is(name, "cursor") && !query.cursor.data) {
			query.cursor = value;
		}
		at = stop + 1;
	}
	*ret_query = query;
	return 0;
}
