/* tests/fuzz/dsquery.c: any bytes as the query of a GET, and as each of the small texts: what is
 * taken lies in the scratch, and what can be written comes back. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "durable/text.h"

/* What has four digits; a zone can bring a time out of it. */
#define YEAR_0_US (-62167219200000000)
#define YEAR_10000_US 253402300800000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void within(struct sc_span part, const struct sc_bytes *scratch)
{
	if (part.data &&
	    (part.data < scratch->data || part.data + part.len > scratch->data + scratch->len))
		abort();
}

static void texts(struct sc_span text)
{
	char offset[SC_DS_OFFSET_TEXT], time[SC_DS_TIME_TEXT], cursor[SC_DS_CURSOR_TEXT];
	enum sc_ds_offset_kind kind;
	uint64_t number;
	int64_t us, back;

	if (sc_ds_offset_parse(text, &kind, &number) && kind == SC_DS_OFFSET_AT) {
		sc_ds_offset_format(number, offset);
		if (text.len != SC_DS_OFFSET_LEN || memcmp(offset, text.data, text.len))
			abort();
	}
	if (sc_ds_ttl_parse(text, &number) && number > SC_DS_TTL_MAX)
		abort();
	if (sc_ds_count_parse(text, &number) && number > INT64_MAX)
		abort();
	if (sc_ds_producer_number(text, &number) && number > SC_DS_PRODUCER_MAX)
		abort();
	if (sc_ds_time_parse(text, &us)) {
		sc_ds_time_format(us, time);
		if (!sc_ds_time_parse(sc_span(time, strlen(time)), &back))
			abort();
		if (us >= YEAR_0_US && us < YEAR_10000_US && (back > us || us - back >= 1000000))
			abort();
	}
	sc_ds_cursor_next(text, 1764504000000000, 7, cursor);
	if (strspn(cursor, "0123456789") != strlen(cursor) || !cursor[0])
		abort();
	(void)sc_ds_etag_matches(text, "\"1:2:3\"");
	(void)sc_ds_is_true(text);
	(void)sc_ds_type_is_json(text);
	(void)sc_ds_type_is_text(text);
	(void)sc_ds_value_clean(text);
	if (!sc_ds_type_same(text, text))
		abort();
	if (sc_ds_path_valid(text) && sc_ds_path_group(text).len > text.len)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span raw = sc_span((const char *)data, size);
	struct sc_bytes scratch;
	struct sc_ds_query query;

	sc_bytes_init(&scratch, 1 << 20);
	if (sc_ds_query_parse(raw, &scratch, &query) < 0)
		abort();
	if (scratch.len > size)
		abort();
	within(query.offset, &scratch);
	within(query.live, &scratch);
	within(query.cursor, &scratch);
	if (query.offset_repeated && !query.offset.data)
		abort();
	sc_bytes_done(&scratch);
	texts(raw);
	return 0;
}
