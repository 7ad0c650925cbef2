/* base/base64.c: see base/base64.h. */
#include "base/base64.h"

#include "base/err.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int sc_base64_put(struct sc_bytes *out, struct sc_span data)
{
	const unsigned char *p = (const unsigned char *)data.data;
	size_t left = data.len;
	char *to;

	if (data.len == 0)
		return 0;
	if (data.len > SIZE_MAX / 4 * 3 - 4)
		return SC_E_NOMEM;
	if (sc_bytes_reserve(out, (data.len + 2) / 3 * 4) < 0)
		return SC_E_NOMEM;
	to = out->data + out->len;
	for (; left >= 3; left -= 3, p += 3) {
		*to++ = letters[p[0] >> 2];
		*to++ = letters[(p[0] & 3) << 4 | p[1] >> 4];
		*to++ = letters[(p[1] & 15) << 2 | p[2] >> 6];
		*to++ = letters[p[2] & 63];
	}
	if (left) {
		unsigned second = left == 2 ? p[1] : 0;

		*to++ = letters[p[0] >> 2];
		*to++ = letters[(p[0] & 3) << 4 | second >> 4];
		*to++ = left == 2 ? letters[(second & 15) << 2] : '=';
		*to++ = '=';
	}
	out->len += (data.len + 2) / 3 * 4;
	return 0;
}

static int letter_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Four letters to one to three bytes; the bits that padding leaves over must be zero. Returns how
 * many, or -1. */
static int decode_group(const char *p, unsigned char ret_bytes[3])
{
	int v[4], pad = p[3] == '=' ? 1 + (p[2] == '=') : 0;

	for (int i = 0; i < 4; i++) {
		v[i] = i >= 4 - pad ? 0 : letter_value(p[i]);
		if (v[i] < 0)
			return -1;
	}
	if ((pad == 1 && (v[2] & 3)) || (pad == 2 && (v[1] & 15)))
		return -1;
	ret_bytes[0] = (unsigned char)(v[0] << 2 | v[1] >> 4);
	ret_bytes[1] = (unsigned char)(v[1] << 4 | v[2] >> 2);
	ret_bytes[2] = (unsigned char)(v[2] << 6 | v[3]);
	return 3 - pad;
}

int sc_base64_get(struct sc_bytes *out, struct sc_span text)
{
	size_t start = out->len;

	if (text.len % 4 != 0)
		return SC_E_DATA;
	if (text.len == 0)
		return 0;
	if (sc_bytes_reserve(out, text.len / 4 * 3) < 0)
		return SC_E_NOMEM;
	for (size_t i = 0; i < text.len; i += 4) {
		unsigned char bytes[3];
		int count = decode_group(text.data + i, bytes);

		if (count < 0 || (count < 3 && i + 4 != text.len)) {
			out->len = start;
			return SC_E_DATA;
		}
		memcpy(out->data + out->len, bytes, (size_t)count);
		out->len += (size_t)count;
	}
	return 0;
}

int sc_base64url_put(struct sc_bytes *out, struct sc_span data)
{
	size_t start = out->len;
	int rc = sc_base64_put(out, data);

	while (rc == 0 && out->len > start && out->data[out->len - 1] == '=')
		out->len--;
	for (size_t i = start; i < out->len; i++) {
		if (out->data[i] == '+')
			out->data[i] = '-';
		else if (out->data[i] == '/')
			out->data[i] = '_';
	}
	return rc;
}

/* The letter of the standard alphabet, or '=' for one of neither. */
static char plain_letter(char c)
{
	if (c == '-')
		return '+';
	if (c == '_')
		return '/';
	return c == '+' || c == '/' ? '=' : c;
}

int sc_base64url_get(struct sc_bytes *out, struct sc_span text)
{
	size_t start = out->len;

	if (text.len % 4 == 1)
		return SC_E_DATA;
	for (size_t i = 0; i < text.len; i += 4) {
		size_t left = text.len - i < 4 ? text.len - i : 4;
		char group[4] = { '=', '=', '=', '=' };
		unsigned char bytes[3];
		int count;

		for (size_t k = 0; k < left; k++) {
			group[k] = plain_letter(text.data[i + k]);
			if (group[k] == '=')
				goto bad;
		}
		count = decode_group(group, bytes);
		if (count < 0)
			goto bad;
		if (sc_bytes_put(out, bytes, (size_t)count) < 0) {
			out->len = start;
			return SC_E_NOMEM;
		}
	}
	return 0;
bad:
	out->len = start;
	return SC_E_DATA;
}
