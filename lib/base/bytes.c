/* base/bytes.c: growing buffers with a maximum, digits. */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/file.h"

void sc_bytes_init(struct sc_bytes *b, size_t max)
{
	*b = (struct sc_bytes){ .max = max };
}

void sc_bytes_done(struct sc_bytes *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
	b->full = false;
}

void sc_bytes_clear(struct sc_bytes *b)
{
	b->len = 0;
	b->full = false;
}

int sc_bytes_reserve(struct sc_bytes *b, size_t more)
{
	size_t want, cap;
	char *grown;

	/* first: sc_bytes_str may have made room for a NUL behind the maximum */
	if (b->len > b->max || more > b->max - b->len) {
		b->full = true;
		return SC_E_NOMEM;
	}
	if (more <= b->cap - b->len)
		return 0;
	want = b->len + more;
	cap = b->cap < 64 ? 64 : b->cap;
	while (cap < want)
		cap = cap > b->max / 2 ? b->max : cap * 2;
	if (cap > b->max)
		cap = b->max;
	grown = sc_realloc(b->data, cap);
	if (!grown)
		return SC_E_NOMEM;
	b->data = grown;
	b->cap = cap;
	return 0;
}

int sc_bytes_put(struct sc_bytes *b, const void *data, size_t len)
{
	int rc = sc_bytes_reserve(b, len);

	if (rc < 0)
		return rc;
	if (len > 0)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	return 0;
}

int sc_bytes_puts(struct sc_bytes *b, const char *text)
{
	return sc_bytes_put(b, text, strlen(text));
}

int sc_bytes_putc(struct sc_bytes *b, char c)
{
	return sc_bytes_put(b, &c, 1);
}

int sc_bytes_putf(struct sc_bytes *b, const char *format, ...)
{
	va_list args, again;
	int n, rc;

	va_start(args, format);
	va_copy(again, args);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0) {
		va_end(again);
		return SC_E_INTERNAL;
	}
	/* vsnprintf ends with a NUL, for which the maximum need not have room */
	rc = sc_bytes_reserve(b, (size_t)n);
	if (rc == 0 && b->cap - b->len > (size_t)n) {
		vsnprintf(b->data + b->len, (size_t)n + 1, format, again);
		b->len += (size_t)n;
	} else if (rc == 0 && n > 0) {
		char *copy = sc_malloc((size_t)n + 1);

		if (!copy) {
			rc = SC_E_NOMEM;
		} else {
			vsnprintf(copy, (size_t)n + 1, format, again);
			rc = sc_bytes_put(b, copy, (size_t)n);
			free(copy);
		}
	}
	va_end(again);
	return rc;
}

int sc_bytes_put_u64(struct sc_bytes *b, uint64_t value)
{
	char digits[20];

	return sc_bytes_put(b, digits, sc_u64_digits(digits, value));
}

int sc_bytes_put_i64(struct sc_bytes *b, int64_t value)
{
	char digits[20];

	return sc_bytes_put(b, digits, sc_i64_digits(digits, value));
}

/* Length of the UTF-8 character at p, 0 if there is none. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	size_t len;
	uint32_t c;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < len)
		return 0;
	c = p[0] & (0x7f >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3f);
	}
	if ((len == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
	    (len == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	return len;
}

size_t sc_control_len(const char *data, size_t len)
{
	unsigned char c = (unsigned char)data[0];

	if (c < 0x20 || c == 0x7f)
		return 1;
	return c == 0xc2 && len > 1 && (unsigned char)data[1] >= 0x80 &&
			       (unsigned char)data[1] < 0xa0
		       ? 2
		       : 0;
}

int sc_bytes_put_json(struct sc_bytes *b, struct sc_span text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	size_t start = b->len, len;
	int rc = sc_bytes_putc(b, '"');

	for (size_t i = 0; rc == 0 && i < text.len; i += len) {
		len = 1;
		switch (p[i]) {
		case '"':
			rc = sc_bytes_puts(b, "\\\"");
			continue;
		case '\\':
			rc = sc_bytes_puts(b, "\\\\");
			continue;
		case '\n':
			rc = sc_bytes_puts(b, "\\n");
			continue;
		case '\r':
			rc = sc_bytes_puts(b, "\\r");
			continue;
		case '\t':
			rc = sc_bytes_puts(b, "\\t");
			continue;
		case '\b':
			rc = sc_bytes_puts(b, "\\b");
			continue;
		case '\f':
			rc = sc_bytes_puts(b, "\\f");
			continue;
		}
		if (p[i] < 0x20) {
			rc = sc_bytes_putf(b, "\\u%04x", p[i]);
			continue;
		}
		len = utf8_len(p + i, text.len - i);
		if (len > 0) {
			rc = sc_bytes_put(b, p + i, len);
		} else {
			len = 1;
			rc = sc_bytes_puts(b, "\xef\xbf\xbd");
		}
	}
	if (rc == 0)
		rc = sc_bytes_putc(b, '"');
	if (rc < 0)
		b->len = start;
	return rc;
}

void sc_bytes_drop(struct sc_bytes *b, size_t front)
{
	if (front >= b->len) {
		b->len = 0;
		return;
	}
	if (front > 0) {
		memmove(b->data, b->data + front, b->len - front);
		b->len -= front;
	}
}

const char *sc_bytes_str(struct sc_bytes *b)
{
	if (b->cap == b->len) {
		char *grown = sc_realloc(b->data, b->cap + 1);

		if (!grown)
			return NULL;
		b->data = grown;
		b->cap++;
	}
	b->data[b->len] = 0;
	return b->data;
}

static const char pairs[] = "00010203040506070809101112131415161718192021222324"
			    "25262728293031323334353637383940414243444546474849"
			    "50515253545556575859606162636465666768697071727374"
			    "75767778798081828384858687888990919293949596979899";

size_t sc_u64_digits(char *ret_text, uint64_t value)
{
	char back[20];
	char *p = back + sizeof(back);
	size_t len;

	while (value >= 100) {
		p -= 2;
		memcpy(p, pairs + value % 100 * 2, 2);
		value /= 100;
	}
	if (value >= 10) {
		p -= 2;
		memcpy(p, pairs + value * 2, 2);
	} else {
		*--p = (char)('0' + value);
	}
	len = (size_t)(back + sizeof(back) - p);
	memcpy(ret_text, p, len);
	return len;
}

size_t sc_i64_digits(char *ret_text, int64_t value)
{
	if (value >= 0)
		return sc_u64_digits(ret_text, (uint64_t)value);
	*ret_text = '-';
	return 1 + sc_u64_digits(ret_text + 1, 0 - (uint64_t)value);
}

bool sc_u64_parse(struct sc_span text, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.data[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*ret_value = value;
	return true;
}

bool sc_i64_parse(struct sc_span text, int64_t *ret_value)
{
	bool minus = text.len > 0 && text.data[0] == '-';
	uint64_t value;

	if (minus)
		text = sc_span(text.data + 1, text.len - 1);
	if (!sc_u64_parse(text, &value) || value > (uint64_t)INT64_MAX + minus)
		return false;
	*ret_value = minus ? (int64_t)(0 - value) : (int64_t)value;
	return true;
}
