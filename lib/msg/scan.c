/* msg/scan.c: msgpack, read without allocation. */
#include <stdio.h>
#include <string.h>

#include "msg/scan.h"

static uint64_t big_endian(const unsigned char *p, size_t len)
{
	uint64_t value = 0;

	for (size_t i = 0; i < len; i++)
		value = value << 8 | p[i];
	return value;
}

static int64_t sign_extend(uint64_t value, size_t len)
{
	unsigned shift = 64 - 8 * (unsigned)len;

	return (int64_t)(value << shift) >> shift;
}

static void put_int(struct sc_packed *item, int64_t value)
{
	if (value < 0) {
		item->kind = SC_PACKED_INT;
		item->i = value;
	} else {
		item->kind = SC_PACKED_UINT;
		item->u = (uint64_t)value;
	}
}

static void put_float(struct sc_packed *item, uint64_t bits, size_t len)
{
	item->kind = SC_PACKED_FLOAT;
	item->single = len == 4;
	if (len == 4) {
		uint32_t half = (uint32_t)bits;
		float f;

		memcpy(&f, &half, sizeof(f));
		item->f = (double)f;
	} else {
		memcpy(&item->f, &bits, sizeof(bits));
	}
}

/* What the first byte says: the kind, how many bytes of a number or a length follow, and whether
 * that length is followed by so many bytes. */
struct form {
	unsigned char kind, number;
};

static const struct form forms[] = {
	[0xc0 - 0xc0] = { SC_PACKED_NIL, 0 },   [0xc2 - 0xc0] = { SC_PACKED_BOOL, 0 },
	[0xc3 - 0xc0] = { SC_PACKED_BOOL, 0 },  [0xc4 - 0xc0] = { SC_PACKED_BIN, 1 },
	[0xc5 - 0xc0] = { SC_PACKED_BIN, 2 },   [0xc6 - 0xc0] = { SC_PACKED_BIN, 4 },
	[0xc7 - 0xc0] = { SC_PACKED_EXT, 1 },   [0xc8 - 0xc0] = { SC_PACKED_EXT, 2 },
	[0xc9 - 0xc0] = { SC_PACKED_EXT, 4 },   [0xca - 0xc0] = { SC_PACKED_FLOAT, 4 },
	[0xcb - 0xc0] = { SC_PACKED_FLOAT, 8 }, [0xcc - 0xc0] = { SC_PACKED_UINT, 1 },
	[0xcd - 0xc0] = { SC_PACKED_UINT, 2 },  [0xce - 0xc0] = { SC_PACKED_UINT, 4 },
	[0xcf - 0xc0] = { SC_PACKED_UINT, 8 },  [0xd0 - 0xc0] = { SC_PACKED_INT, 1 },
	[0xd1 - 0xc0] = { SC_PACKED_INT, 2 },   [0xd2 - 0xc0] = { SC_PACKED_INT, 4 },
	[0xd3 - 0xc0] = { SC_PACKED_INT, 8 },   [0xd4 - 0xc0] = { SC_PACKED_EXT, 0 },
	[0xd5 - 0xc0] = { SC_PACKED_EXT, 0 },   [0xd6 - 0xc0] = { SC_PACKED_EXT, 0 },
	[0xd7 - 0xc0] = { SC_PACKED_EXT, 0 },   [0xd8 - 0xc0] = { SC_PACKED_EXT, 0 },
	[0xd9 - 0xc0] = { SC_PACKED_STR, 1 },   [0xda - 0xc0] = { SC_PACKED_STR, 2 },
	[0xdb - 0xc0] = { SC_PACKED_STR, 4 },   [0xdc - 0xc0] = { SC_PACKED_ARRAY, 2 },
	[0xdd - 0xc0] = { SC_PACKED_ARRAY, 4 }, [0xde - 0xc0] = { SC_PACKED_MAP, 2 },
	[0xdf - 0xc0] = { SC_PACKED_MAP, 4 },
};

/* LEN bytes of content behind a head of HEAD bytes. */
static enum sc_packed_end content(struct sc_span data, size_t head, uint64_t len,
				  struct sc_packed *item, size_t *ret_len)
{
	size_t room = data.len - head;

	if (item->kind == SC_PACKED_EXT) {
		if (room == 0)
			return SC_PACKED_SHORT;
		item->ext = (int8_t)data.data[head++];
		room--;
	}
	if (len > room)
		return SC_PACKED_SHORT;
	item->bytes = sc_span(data.data + head, (size_t)len);
	*ret_len = head + (size_t)len;
	return SC_PACKED_OK;
}

/* First bytes c0 to df: the number behind them is a value or a length. */
static enum sc_packed_end long_form(struct sc_span data, struct sc_packed *item, size_t *ret_len)
{
	const unsigned char *p = (const unsigned char *)data.data;
	struct form form = forms[*p - 0xc0];
	uint64_t number;

	if (*p == 0xc1)
		return SC_PACKED_INVALID;
	if (data.len - 1 < form.number)
		return SC_PACKED_SHORT;
	number = big_endian(p + 1, form.number);
	item->kind = form.kind;
	*ret_len = 1 + (size_t)form.number;
	switch (item->kind) {
	case SC_PACKED_BOOL:
		item->truth = *p == 0xc3;
		break;
	case SC_PACKED_UINT:
		item->u = number;
		break;
	case SC_PACKED_INT:
		put_int(item, sign_extend(number, form.number));
		break;
	case SC_PACKED_FLOAT:
		put_float(item, number, form.number);
		break;
	case SC_PACKED_ARRAY:
	case SC_PACKED_MAP:
		item->count = (uint32_t)number;
		break;
	case SC_PACKED_EXT:
		if (!form.number) /* fixext: 1, 2, 4, 8, 16 */
			number = (uint64_t)1 << (*p - 0xd4);
		return content(data, *ret_len, number, item, ret_len);
	case SC_PACKED_STR:
	case SC_PACKED_BIN:
		return content(data, *ret_len, number, item, ret_len);
	case SC_PACKED_NIL:
		break;
	}
	return SC_PACKED_OK;
}

enum sc_packed_end sc_packed_item(struct sc_span data, struct sc_packed *ret_item, size_t *ret_len)
{
	struct sc_packed item = { 0 };
	enum sc_packed_end end = SC_PACKED_OK;
	size_t len = 1;
	unsigned char first;

	if (data.len == 0)
		return SC_PACKED_SHORT;
	first = (unsigned char)data.data[0];
	if (first < 0x80) {
		item.kind = SC_PACKED_UINT;
		item.u = first;
	} else if (first < 0x90) {
		item.kind = SC_PACKED_MAP;
		item.count = first & 0x0f;
	} else if (first < 0xa0) {
		item.kind = SC_PACKED_ARRAY;
		item.count = first & 0x0f;
	} else if (first < 0xc0) {
		item.kind = SC_PACKED_STR;
		end = content(data, 1, first & 0x1f, &item, &len);
	} else if (first < 0xe0) {
		end = long_form(data, &item, &len);
	} else {
		put_int(&item, (int8_t)first);
	}
	if (end == SC_PACKED_OK) {
		*ret_item = item;
		*ret_len = len;
	}
	return end;
}

bool sc_packed_next(struct sc_span *data, struct sc_packed *ret_item)
{
	size_t len;

	if (sc_packed_item(*data, ret_item, &len) != SC_PACKED_OK)
		return false;
	data->data += len;
	data->len -= len;
	return true;
}

enum sc_packed_end sc_packed_value(struct sc_span data, size_t *ret_len)
{
	uint64_t left[SC_PACKED_DEPTH_MAX + 1]; /* values still to come, at each depth */
	size_t depth = 0, at = 0;

	left[0] = 1;
	for (;;) {
		struct sc_packed item;
		size_t len;
		enum sc_packed_end end = sc_packed_item(sc_span(data.data + at, data.len - at),
							&item, &len);

		if (end != SC_PACKED_OK)
			return end;
		at += len;
		left[depth]--;
		if (item.kind == SC_PACKED_ARRAY || item.kind == SC_PACKED_MAP) {
			if (depth == SC_PACKED_DEPTH_MAX)
				return SC_PACKED_DEEP;
			left[++depth] = (uint64_t)item.count << (item.kind == SC_PACKED_MAP);
		}
		while (left[depth] == 0) {
			if (depth-- == 0) {
				*ret_len = at;
				return SC_PACKED_OK;
			}
		}
	}
}

const char *sc_packed_fault(enum sc_packed_end end)
{
	switch (end) {
	case SC_PACKED_OK:
		break;
	case SC_PACKED_SHORT:
		return "the message ends inside a value";
	case SC_PACKED_INVALID:
		return "the byte c1 is not msgpack";
	case SC_PACKED_DEEP:
		return "more than 128 containers in one another";
	}
	return "well-formed";
}

int sc_packed_message(struct sc_span data, struct sc_packed_message *ret_message,
		      char ret_reason[SC_PACKED_REASON])
{
	struct sc_packed_message message;
	struct sc_packed head;
	size_t at, len;
	enum sc_packed_end end;

	if (data.len == 0) {
		snprintf(ret_reason, SC_PACKED_REASON, "the message is empty");
		return -1;
	}
	end = sc_packed_item(data, &head, &at);
	if (end == SC_PACKED_OK && head.kind != SC_PACKED_ARRAY) {
		snprintf(ret_reason, SC_PACKED_REASON, "need an array of 5 elements");
		return -1;
	}
	if (end == SC_PACKED_OK && head.count != SC_PACKED_ELEMENTS) {
		snprintf(ret_reason, SC_PACKED_REASON, "need 5 elements, got %u", head.count);
		return -1;
	}
	for (int i = 0; end == SC_PACKED_OK && i < SC_PACKED_ELEMENTS; i++) {
		end = sc_packed_value(sc_span(data.data + at, data.len - at), &len);
		if (end == SC_PACKED_OK) {
			message.elements[i] = sc_span(data.data + at, len);
			at += len;
		}
	}
	if (end != SC_PACKED_OK) {
		snprintf(ret_reason, SC_PACKED_REASON, "%s", sc_packed_fault(end));
		return -1;
	}
	if (at != data.len) {
		snprintf(ret_reason, SC_PACKED_REASON, "%zu bytes left over after the array",
			 data.len - at);
		return -1;
	}
	*ret_message = message;
	return 0;
}
