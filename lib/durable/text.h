/*
 * durable/text.h: the small texts of Durable Streams: offsets, times, types, tags, cursors,
 * queries.
 *
 * Owns      nothing; spans borrow from their input.
 * Units     positions are byte positions in a stream (a message takes 4 + its length); times in us
 *           since 1970 UTC, TTLs in seconds.
 * Errors    false where a text is not in its grammar; results are untouched then.
 * Safety    pure functions, any thread; any bytes are safe input.
 * Source    durable-streams 2, 3, 4, 13, 14, 15, 17; RFC 3339; RFC 9110, 8.8 and 13.1.2.
 */
#ifndef SC_DURABLE_TEXT_H
#define SC_DURABLE_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* A span with data NULL is absent; data and length 0: there, and empty. */
static inline bool sc_ds_given(struct sc_span span)
{
	return span.data != NULL;
}

/* There, and not empty. */
static inline bool sc_ds_filled(struct sc_span span)
{
	return span.data != NULL && span.len > 0;
}

/* -- offsets: 0000000000000000_0000000000000012, "-1", "now" -- */
#define SC_DS_OFFSET_LEN 33
#define SC_DS_OFFSET_TEXT (SC_DS_OFFSET_LEN + 1) /* with a NUL */
#define SC_DS_POSITION_MAX 9999999999999999ull

enum sc_ds_offset_kind { SC_DS_OFFSET_AT, SC_DS_OFFSET_START, SC_DS_OFFSET_NOW };
void sc_ds_offset_format(uint64_t position, char ret_text[SC_DS_OFFSET_TEXT]);
/* *ret_position is set for SC_DS_OFFSET_AT, and 0 otherwise. */
bool sc_ds_offset_parse(struct sc_span text, enum sc_ds_offset_kind *ret_kind,
			uint64_t *ret_position);

/* -- numbers and times -- */
/* What no clock reaches; above it a TTL is cut to it. */
#define SC_DS_TTL_MAX 1000000000000ull
/* "0", or digits without a leading zero. Too large becomes SC_DS_TTL_MAX. */
bool sc_ds_ttl_parse(struct sc_span text, uint64_t *ret_seconds);
/* The same grammar; false also beyond 2^63 - 1. */
bool sc_ds_count_parse(struct sc_span text, uint64_t *ret_count);
/* RFC 3339 date-time with Z or a numeric zone; a fraction is cut to us. */
bool sc_ds_time_parse(struct sc_span text, int64_t *ret_us);
/* "2026-11-30T00:12:01Z", whole seconds, rounded down. */
#define SC_DS_TIME_TEXT 32
void sc_ds_time_format(int64_t us, char ret_text[SC_DS_TIME_TEXT]);
/* Digits (leading zeros allowed), at most 2^53 - 1. */
#define SC_DS_PRODUCER_MAX 9007199254740991ull
bool sc_ds_producer_number(struct sc_span text, uint64_t *ret_number);
/* "true" in any letter case. */
bool sc_ds_is_true(struct sc_span text);

/* -- media types: what stands before ';', trimmed, letter case ignored -- */
#define SC_DS_TYPE_STANDARD "application/octet-stream"
#define SC_DS_TYPE_MAX 1024 /* longer is refused */
bool sc_ds_type_same(struct sc_span a, struct sc_span b);
bool sc_ds_type_is_json(struct sc_span type);
/* text/... or JSON: goes through SSE as lines, everything else as base64. */
bool sc_ds_type_is_text(struct sc_span type);
/* No control byte in it: a value that may be echoed in a header later. */
bool sc_ds_value_clean(struct sc_span value);

/* -- ETags: "SID:START:END", with :c where the closed end is in it -- */
#define SC_DS_ETAG_TEXT 72
void sc_ds_etag_format(uint64_t sid, uint64_t start, uint64_t end, bool closed,
		       char ret_text[SC_DS_ETAG_TEXT]);
/* If-None-Match: a list, W/ prefixes, or *. */
bool sc_ds_etag_matches(struct sc_span if_none_match, const char *etag);

/* -- cursors -- */
#define SC_DS_CURSOR_TEXT 24
/* CLIENT: the request's cursor (absent is fine); JITTER: any random number. */
void sc_ds_cursor_next(struct sc_span client, int64_t now_us, uint64_t jitter,
		       char ret_text[SC_DS_CURSOR_TEXT]);

/* -- the query of a GET: form-decoded into SCRATCH (emptied first) -- */
struct sc_ds_query {
	struct sc_span offset, live, cursor; /* data NULL = absent; the first of repeated ones */
	bool offset_repeated;
};
/* RAW is what follows '?'. A broken %XX stands for itself. SC_E_NOMEM or 0. */
int sc_ds_query_parse(struct sc_span raw, struct sc_bytes *scratch, struct sc_ds_query *ret_query);

/* -- paths -- */
#define SC_DS_PATH_MAX 512
/* Begins with '/', has something behind it, is short enough. */
bool sc_ds_path_valid(struct sc_span path);
/* The placement group: the path up to its first segment that begins with a dot, without the '/'
 * before it. */
struct sc_span sc_ds_path_group(struct sc_span path);

#endif
