/* tests/fuzz/refusal.c: any bytes as a close reason (after two of code): never more than what was
 * there, and printable. */
#include <stdint.h>
#include <stdlib.h>

#include "json/scan.h"
#include "wire/publish.h"
#include "wire/refusal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void codes(int code, struct sc_span reason)
{
	char text[SC_REASON_MAX + 1];
	struct sc_refusal r;
	struct sc_err err;
	size_t len;

	sc_refusal_parse(code, reason, &r);
	if (!sc_utf8_valid(sc_span_str(r.detail)))
		abort();
	sc_refusal_err(&r, "cannot subscribe", &err);
	len = sc_refusal_reason(&r, text);
	if (len > SC_REASON_MAX ||
	    (r.kind != SC_REFUSAL_NONE &&
	     sc_json_scan(sc_span(text, len), &(struct sc_json){ 0 }, NULL) < 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int known[] = { 4400, 4404, 4410, 4416, 4429 };
	struct sc_publish_reply reply;
	struct sc_publish publish;
	struct sc_span text = sc_span((const char *)data, size), row;

	for (int i = 0; i < 5; i++)
		codes(known[i], text);
	if (size >= 2)
		codes(data[0] << 8 | data[1], sc_span(text.data + 2, size - 2));
	sc_publish_reply_parse(text, &reply, NULL);
	for (int producer = 0; producer < 2; producer++) {
		size_t count = 0;

		if (sc_publish_parse(text, producer, &publish, NULL) < 0)
			continue;
		while (sc_publish_next(&publish, &row))
			count++;
		if (count != publish.count)
			abort();
	}
	return 0;
}
