/*
 * base/clock.h: times, replaceable in tests; random numbers for jitter and ids.
 *
 * Units     us and ms as the names say; wall times since 1970 UTC.
 * Errors    none.
 * Safety    any thread; sc_clock_set is for tests, before threads start.
 * Source    clock_gettime(2), getrandom(2), RFC 3339, RFC 9562 (UUID).
 */
#ifndef SC_BASE_CLOCK_H
#define SC_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t sc_wall_us(void);
int64_t sc_mono_us(void);
void sc_clock_set(int64_t (*wall_us)(void), int64_t (*mono_us)(void)); /* NULL = the real one */
/* "2026-11-30T00:12:01.123456Z": 27 bytes and a NUL. */
#define SC_TIME_TEXT 28
void sc_time_text(int64_t wall_us, char ret_text[SC_TIME_TEXT]);
void sc_random(void *ret_bytes, size_t len);
uint64_t sc_random_below(uint64_t limit);
/* A random UUID (version 4), 36 bytes and a NUL. */
#define SC_UUID_TEXT 37
void sc_uuid(char ret_text[SC_UUID_TEXT]);
/* This boot's id, from /proc/sys/kernel/random/boot_id; SC_BOOT_ID in the environment overrides
 * (tests). */
void sc_boot_id(char ret_text[SC_UUID_TEXT]);

#endif
