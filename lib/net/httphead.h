/*
 * net/httphead.h: the head of an HTTP/1.1 answer. No descriptors.
 *
 * Owns      nothing: spans point into the caller's bytes.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL, saying what is wrong with the answer.
 * Safety    pure.
 * Source    RFC 9112 sections 2 to 5; RFC 9110 sections 5 and 10.2.3.
 */
#ifndef SC_NET_HTTPHEAD_H
#define SC_NET_HTTPHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_httphead {
	int status;             /* 100..999 */
	int minor;              /* HTTP/1.minor */
	struct sc_span reason;  /* may be empty */
	struct sc_span fields;  /* all header lines */
};

/* The head's length with the empty line, 0 when more bytes are needed, or a failure. A head may
 * have MAX bytes. */
int64_t sc_httphead_parse(const char *data, size_t len, size_t max, struct sc_httphead *ret_head,
			  struct sc_err *err);
/* The Nth (from 0) field of that name, in any case; blanks around the value are off. */
bool sc_httphead_find(const struct sc_httphead *head, const char *name, size_t nth,
		struct sc_span *ret_value);
/* Field after field: *at begins at 0. */
bool sc_httphead_next(const struct sc_httphead *head, size_t *at, struct sc_span *ret_name,
		      struct sc_span *ret_value);
/* Does a comma-separated list (all fields of that name) hold the token, in any case? */
bool sc_httphead_has(const struct sc_httphead *head, const char *name, const char *token);
/* Retry-After in ms from now_us (seconds or a date); -1 when there is none that can be read. */
int64_t sc_httphead_retry_ms(const struct sc_httphead *head, int64_t now_us);

#endif
