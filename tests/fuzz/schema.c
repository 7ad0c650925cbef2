/* tests/fuzz/schema.c: any bytes as a schema; what is accepted is published in a form that reads as
 * the same schema. */
#include <stdlib.h>

#include "json/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool good)
{
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_schema *schema = NULL, *again = NULL;
	struct sc_err err = { 0 };
	struct sc_span text;

	if (sc_schema_parse(sc_span((const char *)data, size), &schema, &err) < 0) {
		must(err.code == SC_E_CONFIG && err.reason[0] && !schema);
		return 0;
	}
	text = sc_schema_text(schema);
	must(sc_schema_parse(text, &again, &err) == 0);
	must(sc_schema_same(schema, again, &err) == 0);
	must(sc_schema_text(again).len == text.len &&
	     memcmp(sc_schema_text(again).data, text.data, text.len) == 0);
	for (size_t i = 0; i < sc_schema_count(schema); i++)
		must(sc_schema_find(schema, sc_schema_column(schema, i)->name) == (int)i);
	sc_schema_free(schema);
	sc_schema_free(again);
	return 0;
}
