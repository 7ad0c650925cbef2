/*
 * net/http.h: the head of an HTTP/1.1 request, read strictly, and the head of an answer.
 *
 * Owns      nothing; spans point into the text that was parsed.
 * Units     bytes.
 * Errors    sc_http_parse returns 0 or the HTTP status to refuse with; the writers are those of
 *           base/bytes.h.
 * Safety    pure functions over any bytes; any thread.
 * Source    RFC 9110, RFC 9112, RFC 6455 4.2.
 */
#ifndef SC_NET_HTTP_H
#define SC_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define SC_HTTP_FIELDS_MAX 200

struct sc_http_field {
	struct sc_span name, value; /* the value without white space at its ends */
};

struct sc_http_head {
	struct sc_span method, target; /* the target byte for byte as it was sent */
	int minor;                     /* HTTP/1.MINOR */
	struct sc_http_field fields[SC_HTTP_FIELDS_MAX];
	size_t count;
};

/* Where the head ends (after its blank line), or 0 when it is not there yet. FROM: where the
 * search of an earlier call on the same, shorter text ended (its len), to read each byte once. */
size_t sc_http_head_end(const char *data, size_t len, size_t from);
/* Can a request begin with this byte? TLS on a plain port, say, cannot: it would wait for an answer
 * for as long as we wait for the end of a head. */
bool sc_http_begins(char first);
/* To a request in plain text on a port that speaks TLS. */
#define SC_HTTP_WANTS_TLS "this port speaks TLS: write the URL with https:// or wss://"
int sc_http_parse(const char *data, size_t len, struct sc_http_head *ret_head);
/* The first field of that name (any case), or an empty span with NULL data. */
struct sc_span sc_http_field(const struct sc_http_head *head, const char *name);
size_t sc_http_field_count(const struct sc_http_head *head, const char *name);
bool sc_http_token(struct sc_span text); /* RFC 9110, 5.6.2: one character of it or more */
bool sc_http_is(struct sc_span text, const char *word); /* ASCII, any case */
/* A comma-separated list, over all fields of that name, holds WORD (any case). */
bool sc_http_lists(const struct sc_http_head *head, const char *name, const char *word);

/* The path of a target, which may be a whole URL (RFC 9112, 3.2.2), without its query. */
struct sc_span sc_http_path(struct sc_span target);

const char *sc_http_reason(int status);
/* The head of an answer, "Connection: close" always; type may be NULL; extra: more lines, each
 * with its CRLF, may be NULL; length -1 leaves Content-Length out. */
int sc_http_put_head(struct sc_bytes *out, int status, const char *type, const char *extra,
		     int64_t length);

/* Sec-WebSocket-Accept for a key; false when the key is not 16 bytes in base64. */
#define SC_HTTP_ACCEPT_TEXT 29
bool sc_http_accept(struct sc_span key, char ret_text[SC_HTTP_ACCEPT_TEXT]);

#endif
