/*
 * base/bytes.h: spans, growing buffers with a maximum, digits.
 *
 * Owns      sc_bytes owns its memory until sc_bytes_done; spans borrow.
 * Units     sizes in bytes.
 * Errors    SC_E_NOMEM when memory is out or the buffer's maximum would be passed (told apart by
 *           its `full`); the buffer is unchanged then.
 * Safety    one thread a buffer.
 * Source    our own.
 */
#ifndef SC_BASE_BYTES_H
#define SC_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct sc_span {
	const char *data;
	size_t len;
};

#define SC_SPAN(literal) ((struct sc_span){ (literal), sizeof(literal) - 1 })

static inline struct sc_span sc_span(const char *data, size_t len)
{
	return (struct sc_span){ data, len };
}

static inline struct sc_span sc_span_str(const char *text)
{
	return (struct sc_span){ text, strlen(text) };
}

static inline bool sc_span_is(struct sc_span span, const char *text)
{
	size_t len = strlen(text);

	return span.len == len && (len == 0 || memcmp(span.data, text, len) == 0);
}

struct sc_bytes {
	char *data;      /* NULL while cap is 0 */
	size_t len, cap, max;
	bool full;       /* a put was refused for the maximum (not for want of memory) */
};

void sc_bytes_init(struct sc_bytes *b, size_t max);
void sc_bytes_done(struct sc_bytes *b);     /* frees; the buffer can be used again, with its max */
void sc_bytes_clear(struct sc_bytes *b);    /* keeps the memory */
int sc_bytes_reserve(struct sc_bytes *b, size_t more); /* room for MORE bytes after len */
int sc_bytes_put(struct sc_bytes *b, const void *data, size_t len);
int sc_bytes_puts(struct sc_bytes *b, const char *text);
int sc_bytes_putc(struct sc_bytes *b, char c);
int sc_bytes_putf(struct sc_bytes *b, const char *format, ...) __attribute__((format(printf, 2,
		3)));
int sc_bytes_put_u64(struct sc_bytes *b, uint64_t value);
int sc_bytes_put_i64(struct sc_bytes *b, int64_t value);
/* A JSON string with its quotes: only '"', '\\' and U+0000..1F are escaped; the input must be
 * UTF-8, what is not becomes U+FFFD (for diagnostics only: never use this on a user's data). */
int sc_bytes_put_json(struct sc_bytes *b, struct sc_span text);
void sc_bytes_drop(struct sc_bytes *b, size_t front);   /* forget the first FRONT bytes */
const char *sc_bytes_str(struct sc_bytes *b);            /* NUL-terminated view, NULL without memory */

/* How many bytes at DATA are a control character, which a terminal may obey: 1 for U+0000..1F and
 * U+007F, 2 for U+0080..9F in UTF-8, 0 for any other. LEN is not 0. */
size_t sc_control_len(const char *data, size_t len);

/* Decimal digits. sc_u64_digits writes at most 20 bytes, no NUL, and returns how many. */
size_t sc_u64_digits(char *ret_text, uint64_t value);
size_t sc_i64_digits(char *ret_text, int64_t value);     /* at most 20, sign included */
/* The whole span must be decimal digits (a leading '-' for i64), in range; no sign '+', no
 * blanks. */
bool sc_u64_parse(struct sc_span text, uint64_t *ret_value);
bool sc_i64_parse(struct sc_span text, int64_t *ret_value);

#endif
