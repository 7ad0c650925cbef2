/* net/basic.c: see net/basic.h. */
#include "net/basic.h"

#include "base/base64.h"
#include "base/err.h"

int sc_basic_put(struct sc_bytes *out, const char *user, const char *password)
{
	struct sc_bytes both;
	int rc;

	sc_bytes_init(&both, 1 << 20);
	rc = sc_bytes_putf(&both, "%s:%s", user, password ? password : "");
	if (rc == 0)
		rc = sc_bytes_puts(out, "Basic ");
	if (rc == 0)
		rc = sc_base64_put(out, sc_span(both.data, both.len));
	if (both.data)
		explicit_bzero(both.data, both.len);
	sc_bytes_done(&both);
	return rc;
}
