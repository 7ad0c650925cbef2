/* net/base64.c: see net/base64.h. */
#include "net/base64.h"

#include "base/err.h"

int sc_base64_put(struct sc_bytes *out, const void *data, size_t len)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i += 3) {
		size_t left = len - i;
		uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);
		char four[4] = { digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63] };

		if (left < 3)
			four[3] = '=';
		if (left < 2)
			four[2] = '=';
		if (sc_bytes_put(out, four, 4) < 0)
			return SC_E_NOMEM;
	}
	return 0;
}

int sc_base64_put_basic(struct sc_bytes *out, const char *user, const char *password)
{
	struct sc_bytes both;
	int rc;

	sc_bytes_init(&both, 1 << 20);
	rc = sc_bytes_putf(&both, "%s:%s", user, password ? password : "");
	if (rc == 0)
		rc = sc_bytes_puts(out, "Basic ");
	if (rc == 0)
		rc = sc_base64_put(out, both.data, both.len);
	if (both.data)
		explicit_bzero(both.data, both.len);
	sc_bytes_done(&both);
	return rc;
}
