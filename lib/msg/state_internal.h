/*
 * msg/state_internal.h: what the writer and the reader of a state file share.
 *
 * Owns      nothing.
 * Units     bytes.
 * Errors    none.
 * Safety    pure functions.
 * Source    man/sc-wsmsg.7, "STATE"; CRC-32 of IEEE 802.3.
 *
 * The file is a row of msgpack arrays, each with its kind in front:
 *	["wsmsg-state", 1, wall_ms]
 *	["channel", name, kept, size or nil, priority]
 *	["endpoint", name, kept, size or nil]
 *	["message", number, seq, accepted_ms, message as bin in document order]
 *	["queued", priority, number]              in the channel or endpoint named last
 *	["subscription", endpoint, channel pattern, subject pattern]
 *	["await", endpoint, uid, expires_us, once]
 *	["end", arrays before it, CRC-32 of all bytes before it]
 */
#ifndef SC_MSG_STATE_INTERNAL_H
#define SC_MSG_STATE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#define SC_STATE_KIND "wsmsg-state"
#define SC_STATE_VERSION 1

/* CRC so far (0 at first), and more bytes. */
uint32_t sc_state_crc(uint32_t crc, const void *data, size_t len);

#endif
