/* tests/fuzz/httphead.c: heads of any bytes: nothing outside them is read, and what is found lies
 * within. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/httphead.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sc_httphead head;
	struct sc_span name, value;
	size_t at = 0;
	char *copy = malloc(size ? size : 1); /* so that the sanitizer sees each byte too far */
	int64_t n;

	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	n = sc_httphead_parse(copy, size, 4096, &head, NULL);
	if (n > (int64_t)size || n > 4096)
		abort();
	if (n > 0) {
		if (head.status < 100 || head.status > 999)
			abort();
		while (sc_httphead_next(&head, &at, &name, &value))
			if (name.len == 0 || value.data < copy || value.data + value.len > copy + n)
				abort();
		if (at != head.fields.len)
			abort();
		(void)sc_httphead_has(&head, "Connection", "upgrade");
		(void)sc_httphead_retry_ms(&head, 1764460800000000);
	}
	free(copy);
	return 0;
}
