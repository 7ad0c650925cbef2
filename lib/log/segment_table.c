/*
 * segment_table.c: the commits of a frame, as numbers of 7 bits a byte (LEB128).
 *
 * Count; rows of each; then how much later each but the first was appended than the one before.
 * Like stands by like, so that zstd makes little of it.
 */
#include "log/segment_internal.h"

#define VARINT_MAX 10
#define VARINT_ROWS 5

static size_t put_varint(unsigned char *at, uint64_t value)
{
	size_t len = 0;

	while (value >= 0x80) {
		at[len++] = (unsigned char)(value | 0x80);
		value >>= 7;
	}
	at[len++] = (unsigned char)value;
	return len;
}

/* The shortest form only, so that a table has one spelling. */
static bool get_varint(struct sc_span *rest, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < VARINT_MAX && i < rest->len; i++) {
		unsigned char byte = (unsigned char)rest->data[i];

		if ((i == VARINT_MAX - 1 && byte > 1) || (i && byte == 0))
			return false;
		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			*rest = sc_span(rest->data + i + 1, rest->len - i - 1);
			*ret_value = value;
			return true;
		}
	}
	return false;
}

size_t sc_segment_table_max(uint64_t rows)
{
	return VARINT_ROWS + (size_t)rows * (VARINT_ROWS + VARINT_MAX);
}

int sc_segment_table_put(const struct sc_segment_commit *commits, size_t count,
			 struct sc_bytes *out)
{
	unsigned char *at;

	if (sc_bytes_reserve(out, sc_segment_table_max(count)) < 0)
		return SC_E_NOMEM;
	at = (unsigned char *)out->data + out->len;
	at += put_varint(at, count);
	for (size_t i = 0; i < count; i++)
		at += put_varint(at, commits[i].rows);
	for (size_t i = 1; i < count; i++)
		at += put_varint(at, (uint64_t)commits[i].appended_us -
					     (uint64_t)commits[i - 1].appended_us);
	out->len = (size_t)((char *)at - out->data);
	return 0;
}

size_t sc_segment_table_get(struct sc_span plain, const struct sc_segment_frame *frame,
			    struct sc_segment_commit *commits)
{
	uint64_t count, value, rows = 0;
	int64_t us = frame->first_us;

	if (!get_varint(&plain, &count) || count == 0 || count > frame->rows)
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (!get_varint(&plain, &value) || value == 0 || value > frame->rows - rows)
			return 0;
		rows += value;
		commits[i] = (struct sc_segment_commit){ .rows = (uint32_t)value };
	}
	commits[0].appended_us = us;
	for (size_t i = 1; i < count; i++) {
		if (!get_varint(&plain, &value) || value == 0 ||
		    value > (uint64_t)frame->last_us - (uint64_t)us)
			return 0;
		us = (int64_t)((uint64_t)us + value);
		commits[i].appended_us = us;
	}
	return rows == frame->rows && us == frame->last_us && plain.len == 0 ? (size_t)count : 0;
}
