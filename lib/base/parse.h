/*
 * base/parse.h: sizes, durations, times and factors as people write them.
 *
 * Owns      nothing.
 * Units     sizes in bytes, durations in ms, times in us since 1970 UTC.
 * Errors    SC_E_USAGE; the reason quotes the text, next says what to write; results are untouched.
 * Safety    pure functions, any thread.
 * Source    RFC 3339; man/sc.7, "VALUES".
 */
#ifndef SC_BASE_PARSE_H
#define SC_BASE_PARSE_H

#include <stdint.h>

#include "base/err.h"

/* 1000, 1000B; K M G T P with or without iB are powers of 1024; KB MB GB TB PB are powers of
 * 1000. */
int sc_parse_size(const char *text, uint64_t *ret_bytes, struct sc_err *err);
/* 250ms, 30s, 1.5h, 1h30m, 7d, 2w; a bare number is seconds. */
int sc_parse_duration(const char *text, int64_t *ret_ms, struct sc_err *err);
/* RFC 3339, a date (its first moment in UTC), epoch seconds (also with a fraction), milliseconds
 * or microseconds told apart by their size, "now", a duration with a unit ("10m", "1h30m ago")
 * before now. */
int sc_parse_time(const char *text, int64_t now_us, int64_t *ret_us, struct sc_err *err);
/* Above 0: "2", "0.5", "10x". */
int sc_parse_factor(const char *text, double *ret_factor, struct sc_err *err);

#endif
