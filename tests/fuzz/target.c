/* tests/fuzz/target.c: any bytes are a request target, for every protocol; what is taken can be
 * decided on and refused. */
#include <stdint.h>
#include <stdlib.h>

#include "wire/refusal.h"
#include "wire/target.h"
#include "wire/where.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int wires[] = { 1, 2, 4, 5 };

	for (int i = 0; i < 8; i++) {
		struct sc_target_rules rules = { .wire = wires[i / 2], .publish = i & 1 };
		char reason[SC_REASON_MAX + 1];
		struct sc_refusal refusal;
		struct sc_target target;
		int rc = sc_target_parse(sc_span((const char *)data, size), &rules, &target,
					 &refusal, NULL);

		if (rc == 1 && (sc_refusal_reason(&refusal, reason) > SC_REASON_MAX ||
				sc_refusal_code(&refusal) != 4400))
			abort();
		if (rc == 0 && target.has_where) {
			struct sc_where *where;

			if (sc_where_parse(target.where, NULL, &where, NULL) == 0) {
				sc_where_match(where, target.where);
				sc_where_match(where, SC_SPAN("{\"a\":1,\"b\":[2]}"));
				sc_where_free(where);
			}
		}
		if (rc == 0 && target.publish &&
		    (target.has_offset || target.has_where || !rules.publish))
			abort();
		if (target.name.len > size)
			abort();
		sc_target_done(&target);
	}
	return 0;
}
