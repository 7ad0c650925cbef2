/* msg/pack.c: msgpack, written in its shortest forms. */
#include "base/err.h"
#include "msg/pack.h"

/* FIRST and the LEN low bytes of VALUE behind it, the highest first. */
static int put_number(struct sc_bytes *out, unsigned char first, uint64_t value, size_t len)
{
	unsigned char head[9];

	head[0] = first;
	for (size_t i = 0; i < len; i++)
		head[1 + i] = (unsigned char)(value >> 8 * (len - 1 - i));
	return sc_bytes_put(out, head, 1 + len);
}

int sc_pack_nil(struct sc_bytes *out)
{
	return put_number(out, 0xc0, 0, 0);
}

int sc_pack_bool(struct sc_bytes *out, bool value)
{
	return put_number(out, value ? 0xc3 : 0xc2, 0, 0);
}

int sc_pack_u64(struct sc_bytes *out, uint64_t value)
{
	if (value < 0x80)
		return put_number(out, (unsigned char)value, 0, 0);
	if (value <= UINT8_MAX)
		return put_number(out, 0xcc, value, 1);
	if (value <= UINT16_MAX)
		return put_number(out, 0xcd, value, 2);
	if (value <= UINT32_MAX)
		return put_number(out, 0xce, value, 4);
	return put_number(out, 0xcf, value, 8);
}

int sc_pack_i64(struct sc_bytes *out, int64_t value)
{
	uint64_t bits = (uint64_t)value;

	if (value >= 0)
		return sc_pack_u64(out, bits);
	if (value >= -32)
		return put_number(out, (unsigned char)bits, 0, 0);
	if (value >= INT8_MIN)
		return put_number(out, 0xd0, bits, 1);
	if (value >= INT16_MIN)
		return put_number(out, 0xd1, bits, 2);
	if (value >= INT32_MIN)
		return put_number(out, 0xd2, bits, 4);
	return put_number(out, 0xd3, bits, 8);
}

int sc_pack_f64(struct sc_bytes *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return put_number(out, 0xcb, bits, 8);
}

/* A head of at most 6 bytes and DATA, both or nothing. */
static int put_content(struct sc_bytes *out, const unsigned char *head, size_t head_len,
		       struct sc_span data)
{
	int rc = sc_bytes_reserve(out, head_len + data.len);

	if (rc == 0)
		rc = sc_bytes_put(out, head, head_len);
	return rc < 0 ? rc : sc_bytes_put(out, data.data, data.len);
}

/* FIRST is the form with a length of one byte; those of two and four follow it. */
static int put_sized(struct sc_bytes *out, unsigned char first, const unsigned char *behind,
		     struct sc_span data)
{
	unsigned char head[6];
	size_t n = data.len <= UINT8_MAX ? 1 : data.len <= UINT16_MAX ? 2 : 4;

	if (data.len > UINT32_MAX)
		return SC_E_NOMEM;
	head[0] = (unsigned char)(first + (n == 1 ? 0 : n == 2 ? 1 : 2));
	for (size_t i = 0; i < n; i++)
		head[1 + i] = (unsigned char)(data.len >> 8 * (n - 1 - i));
	n++;
	if (behind)
		head[n++] = *behind;
	return put_content(out, head, n, data);
}

int sc_pack_str(struct sc_bytes *out, struct sc_span text)
{
	unsigned char head = (unsigned char)(0xa0 | (text.len & 0x1f));

	if (text.len < 32)
		return put_content(out, &head, 1, text);
	return put_sized(out, 0xd9, NULL, text);
}

int sc_pack_bin(struct sc_bytes *out, struct sc_span data)
{
	return put_sized(out, 0xc4, NULL, data);
}

int sc_pack_ext(struct sc_bytes *out, int8_t type, struct sc_span data)
{
	unsigned char head[2] = { 0, (unsigned char)type };

	for (unsigned i = 0; i < 5; i++) {
		if (data.len == (size_t)1 << i) {
			head[0] = (unsigned char)(0xd4 + i);
			return put_content(out, head, 2, data);
		}
	}
	return put_sized(out, 0xc7, &head[1], data);
}

static int put_count(struct sc_bytes *out, unsigned char small, unsigned char first, uint32_t count)
{
	if (count < 16)
		return put_number(out, (unsigned char)(small | count), 0, 0);
	if (count <= UINT16_MAX)
		return put_number(out, first, count, 2);
	return put_number(out, (unsigned char)(first + 1), count, 4);
}

int sc_pack_array(struct sc_bytes *out, uint32_t count)
{
	return put_count(out, 0x90, 0xdc, count);
}

int sc_pack_map(struct sc_bytes *out, uint32_t pairs)
{
	return put_count(out, 0x80, 0xde, pairs);
}
