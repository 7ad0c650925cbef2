/*
 * base/base64.h: base64: standard alphabet, padded; or the one for URLs, without padding.
 *
 * Owns      nothing.
 * Units     sizes in bytes.
 * Errors    SC_E_NOMEM; SC_E_DATA for text that is not strictly of its kind. OUT is as it was then.
 * Safety    pure.
 * Source    RFC 4648, sections 4 and 5.
 */
#ifndef SC_BASE_BASE64_H
#define SC_BASE_BASE64_H

#include "base/bytes.h"

int sc_base64_put(struct sc_bytes *out, struct sc_span data);
int sc_base64_get(struct sc_bytes *out, struct sc_span text);
/* With '-' and '_', and no '=' at the end. */
int sc_base64url_put(struct sc_bytes *out, struct sc_span data);
int sc_base64url_get(struct sc_bytes *out, struct sc_span text);

#endif
