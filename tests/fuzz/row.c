/*
 * tests/fuzz/row.c: any bytes as a row; what is stored is one line that is stored again as it is,
 * what is refused leaves nothing. The first byte chooses the schema.
 */
#include <stdlib.h>

#include "json/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const texts[] = {
	"{\"properties\":{\"ts\":{\"type\":\"integer\"},\"price\":{\"type\":\"number\"},"
	"\"amount\":{\"type\":[\"number\",\"null\"],\"format\":\"float\"},\"side\":{\"type\":"
	"\"integer\",\"format\":\"int32\"},"
	"\"sym\":{\"type\":[\"string\",\"null\"]},\"ok\":{\"type\":[\"boolean\",\"null\"]}},"
	"\"required\":[\"ts\",\"price\",\"side\"]}",
	"{\"properties\":{\"a\":{\"type\":[\"number\",\"null\"]},\"\":{\"type\":[\"string\","
	"\"null\"]},"
	"\"a\\\"\\u00e9\":{\"type\":[\"integer\",\"null\"]},"
	"\"a_name_of_more_than_sixteen_bytes\":{\"type\":[\"boolean\",\"null\"]}}}",
};
#define SCHEMAS (sizeof(texts) / sizeof(texts[0]))

static void must(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sc_schema *schemas[SCHEMAS + 1]; /* the last stays NULL: without a schema */
	struct sc_err err = { 0 };
	struct sc_bytes out, again;
	const struct sc_schema *schema;
	struct sc_span row;

	for (size_t i = 0; i < SCHEMAS; i++)
		must(schemas[i] || sc_schema_parse(sc_span_str(texts[i]), &schemas[i], NULL) == 0);
	if (size == 0)
		return 0;
	schema = schemas[data[0] % (SCHEMAS + 1)];
	row = sc_span((const char *)data + 1, size - 1);
	sc_bytes_init(&out, 2 * size + 1000);
	sc_bytes_init(&again, 2 * size + 1000);
	must(sc_bytes_putc(&out, 'x') == 0);
	if (sc_row_project(schema, row, &out, &err) < 0) {
		must(err.code == SC_E_DATA && err.reason[0] && out.len == 1 && out.data[0] == 'x');
	} else {
		row = sc_span(out.data + 1, out.len - 1);
		must(!memchr(row.data, '\n', row.len));
		must(sc_row_project(schema, row, &again, NULL) == 0);
		must(again.len == row.len && memcmp(again.data, row.data, row.len) == 0);
	}
	sc_bytes_done(&out);
	sc_bytes_done(&again);
	return 0;
}
