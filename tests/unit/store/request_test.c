/* Goal: heads of answers are read strictly. Method: tables. */
#include "store/request.h"

#include "../check.h"

TEST(content_ranges)
{
	static const char *const wrong[] = { "",
					     "bytes",
					     "bytes ",
					     "bytes */5",
					     "bytes 0-4",
					     "bytes 0-4/*",
					     "bytes 4-0/5",
					     "bytes 0-5/5",
					     "bytes -4/5",
					     "bytes 0-/5",
					     "bytes 0-4/",
					     "items 0-4/5",
					     "bytes 0/4-5",
					     "bytes 0-4/99999999999999999999",
					     "bytes 0-4/9223372036854775808",
					     "bytes a-b/c" };
	struct sc_answer a = { .status = 0 };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		if (sc_request_content_range(sc_span_str(wrong[i]), &a) || a.ranged)
			FAIL("taken: %s", wrong[i]);
	CHECK(sc_request_content_range(SC_SPAN("bytes 0-4/5"), &a));
	CHECK(a.ranged && a.first == 0 && a.last == 4 && a.total == 5);
	CHECK(sc_request_content_range(SC_SPAN("Bytes  10-9223372036854775806/9223372036854775807"),
				       &a));
	CHECK(a.first == 10 && a.last == INT64_MAX - 1 && a.total == INT64_MAX);
}

TEST(defaults)
{
	struct sc_store_settings s = { .part_bytes = 1 };

	sc_request_defaults(&s);
	CHECK_INT(s.tries, 6);
	CHECK_INT(s.part_bytes, 5 << 20);
	CHECK_INT(s.multipart_bytes, 64 << 20);
	CHECK_INT(s.retry_for_ms, 120000);
	CHECK_INT(s.stall_ms, 30000);
	/* who gives up early does not wait longer for one answer */
	s = (struct sc_store_settings){ .retry_for_ms = 2000 };
	sc_request_defaults(&s);
	CHECK_INT(s.stall_ms, 2000);
	CHECK_INT(s.connect_ms, 2000);
}
