/*
 * wire/head.h: heads of WebSocket frames as a server sends them: final, text, not masked.
 *
 * Owns      nothing.
 * Units     sizes in bytes.
 * Errors    none.
 * Safety    pure; sc_head_frame reads only frames that were made here.
 * Source    RFC 6455, 5.2.
 */
#ifndef SC_WIRE_HEAD_H
#define SC_WIRE_HEAD_H

#include <stddef.h>
#include <stdint.h>

#define SC_HEAD_MAX 10u

static inline size_t sc_head_size(uint64_t payload)
{
	return payload < 126 ? 2 : payload < 65536 ? 4 : 10;
}

/* Returns how many bytes it wrote: 2, 4 or 10. */
static inline size_t sc_head_put(unsigned char *ret_head, uint64_t payload)
{
	ret_head[0] = 0x81;
	if (payload < 126) {
		ret_head[1] = (unsigned char)payload;
		return 2;
	}
	if (payload < 65536) {
		ret_head[1] = 126;
		ret_head[2] = (unsigned char)(payload >> 8);
		ret_head[3] = (unsigned char)payload;
		return 4;
	}
	ret_head[1] = 127;
	for (int i = 0; i < 8; i++)
		ret_head[2 + i] = (unsigned char)(payload >> (56 - 8 * i));
	return 10;
}

/* Payload length of the frame at AT; *ret_head_size is the length of its head. */
static inline uint64_t sc_head_payload(const unsigned char *at, size_t *ret_head_size)
{
	uint64_t payload = at[1];

	if (payload < 126) {
		*ret_head_size = 2;
		return payload;
	}
	if (payload == 126) {
		*ret_head_size = 4;
		return (uint64_t)at[2] << 8 | at[3];
	}
	payload = 0;
	for (int i = 0; i < 8; i++)
		payload = payload << 8 | at[2 + i];
	*ret_head_size = 10;
	return payload;
}

/* Length of the whole frame at AT. */
static inline uint64_t sc_head_frame(const unsigned char *at)
{
	size_t head;
	uint64_t payload = sc_head_payload(at, &head);

	return head + payload;
}

#endif
