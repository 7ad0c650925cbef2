/* tests/fuzz/data.c: any bytes as a data frame: what is taken is an array of that shape, whose
 * parts are JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "json/scan.h"
#include "wire/data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_span frame = sc_span((const char *)data, size);

	for (int triples = 0; triples < 2; triples++) {
		struct sc_data_order order = { .triples = triples };
		struct sc_json whole, item;
		struct sc_json_walk walk;
		struct sc_span key;
		struct sc_data d;
		int count = 0;

		if (sc_data_parse(&order, frame, &d, NULL) < 0)
			continue;
		if (sc_json_scan(frame, &whole, NULL) < 0 || whole.kind != SC_JSON_ARRAY)
			abort();
		sc_json_walk_init(&walk, &whole);
		while (sc_json_walk_next(&walk, &key, &item))
			count++;
		if (count != 2 + triples || item.text.data != d.msg.data ||
		    item.text.len != d.msg.len)
			abort();
		if (d.is_line && (whole.text.len != size || whole.newlines))
			abort();
		if (order.has_last != d.has_offset)
			abort();
	}
	return 0;
}
