/* json/walk.c: reading values of a text that was scanned: it is known to be right, so nothing is
 * checked again. */
#include "json/scan.h"

#include "json/scan_internal.h"

/* But where it ends is: rows of a file that somebody made up come here, too. */

static const char *skip_blanks(const char *p, const char *end, bool *newlines)
{
	while (p < end && sc_scan_is_blank(*p)) {
		*newlines |= *p == '\n' || *p == '\r';
		p++;
	}
	return p;
}

/* P is after the opening quote; returns what follows the closing one. */
static const char *skip_string(const char *p, const char *end)
{
	struct sc_scan s = { .start = p, .end = end };

	for (p = sc_scan_plain(&s, p); p < end && *p != '"'; p = sc_scan_plain(&s, p))
		p += *p == '\\' ? 2 : 1;
	return p < end ? p + 1 : end;
}

static enum sc_json_kind kind_at(const char *p)
{
	switch (*p) {
	case '"':
		return SC_JSON_STRING;
	case '{':
		return SC_JSON_OBJECT;
	case '[':
		return SC_JSON_ARRAY;
	case 't':
		return SC_JSON_TRUE;
	case 'f':
		return SC_JSON_FALSE;
	case 'n':
		return SC_JSON_NULL;
	default:
		return SC_JSON_INTEGER;
	}
}

static const char *skip_nested(const char *p, const char *end, bool *newlines)
{
	size_t depth = 0;

	while (p < end) {
		char c = *p++;

		if (c == '"') {
			p = skip_string(p, end);
		} else if (c == '{' || c == '[') {
			depth++;
		} else if (c == '}' || c == ']') {
			if (--depth == 0)
				break;
		} else {
			*newlines |= c == '\n' || c == '\r';
		}
	}
	return p;
}

static const char *skip_value(const char *p, const char *end, struct sc_json *ret_value)
{
	const char *begin = p;

	ret_value->kind = kind_at(p);
	ret_value->newlines = false;
	switch (ret_value->kind) {
	case SC_JSON_STRING:
		p = skip_string(p + 1, end);
		break;
	case SC_JSON_OBJECT:
	case SC_JSON_ARRAY:
		p = skip_nested(p, end, &ret_value->newlines);
		break;
	default:
		while (p < end && *p != ',' && *p != '}' && *p != ']' && !sc_scan_is_blank(*p)) {
			if (*p == '.' || ((*p | 0x20) == 'e' && ret_value->kind == SC_JSON_INTEGER))
				ret_value->kind = SC_JSON_NUMBER;
			p++;
		}
	}
	ret_value->text = sc_span(begin, (size_t)(p - begin));
	return p;
}

void sc_json_walk_init(struct sc_json_walk *walk, const struct sc_json *value)
{
	bool nested = value->kind == SC_JSON_OBJECT || value->kind == SC_JSON_ARRAY;

	walk->object = value->kind == SC_JSON_OBJECT;
	nested = nested && value->text.len >= 2;
	walk->at = nested ? value->text.data + 1 : value->text.data;
	walk->end = nested ? value->text.data + value->text.len - 1 : value->text.data;
}

bool sc_json_walk_next(struct sc_json_walk *walk, struct sc_span *ret_key,
		       struct sc_json *ret_value)
{
	bool newlines = false;
	const char *end = walk->end, *p = skip_blanks(walk->at, end, &newlines);
	struct sc_span key = sc_span(p, 0);

	if (p < end && *p == ',')
		p = skip_blanks(p + 1, end, &newlines);
	if (p >= end) {
		walk->at = end;
		return false;
	}
	if (walk->object) {
		key.data = p + 1;
		p = skip_string(p + 1, end);
		key.len = p > key.data ? (size_t)(p - key.data - 1) : 0;
		p = skip_blanks(p, end, &newlines);
		p = skip_blanks(p < end ? p + 1 : end, end, &newlines);
	}
	walk->at = p < end ? skip_value(p, end, ret_value) : end;
	if (walk->at == p) { /* there is no value, so it was not scanned */
		walk->at = end;
		return false;
	}
	if (ret_key)
		*ret_key = key;
	return true;
}

bool sc_json_get(const struct sc_json *value, const char *name, struct sc_json *ret_member)
{
	struct sc_span key, wanted = sc_span_str(name);
	struct sc_json_walk walk;
	struct sc_json member;
	bool found = false;

	if (value->kind != SC_JSON_OBJECT)
		return false;
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, &key, &member)) {
		if (sc_json_key_is(key, wanted)) {
			*ret_member = member;
			found = true;
		}
	}
	return found;
}

static unsigned unit_at(const char *p)
{
	unsigned unit = 0;

	for (int i = 0; i < 4; i++) {
		unsigned char c = (unsigned char)p[i];

		unit = unit << 4 | (c <= '9' ? c - '0' + 0u : (c | 0x20u) - 'a' + 10u);
	}
	return unit;
}

/* The escape at *P (a backslash), as UTF-8; *P moves behind it. */
static size_t unescape_one(const char **p, const char *end, char ret_text[4])
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char *at = *p, *letter;
	unsigned code;

	letter = end - at >= 2 && at[1] != 'u' ? strchr(from, at[1]) : NULL;
	if (letter) {
		ret_text[0] = to[letter - from];
		*p = at + 2;
		return 1;
	}
	if (end - at < 6 || at[1] != 'u') { /* it was not scanned */
		ret_text[0] = *at;
		*p = at + 1;
		return 1;
	}
	code = unit_at(at + 2);
	*p = at + 6;
	if (code >= 0xd800 && code <= 0xdbff && end - at >= 12) {
		code = 0x10000 + ((code - 0xd800) << 10) + (unit_at(at + 8) - 0xdc00);
		*p = at + 12;
	}
	if (code < 0x80) {
		ret_text[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		ret_text[0] = (char)(0xc0 | code >> 6);
		ret_text[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		ret_text[0] = (char)(0xe0 | code >> 12);
		ret_text[1] = (char)(0x80 | (code >> 6 & 0x3f));
		ret_text[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	ret_text[0] = (char)(0xf0 | code >> 18);
	ret_text[1] = (char)(0x80 | (code >> 12 & 0x3f));
	ret_text[2] = (char)(0x80 | (code >> 6 & 0x3f));
	ret_text[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

/* A string value with its quotes, or a raw key: a key's first byte is never a bare quote. */
static struct sc_span inside_quotes(struct sc_span raw)
{
	if (raw.len >= 2 && raw.data[0] == '"')
		return sc_span(raw.data + 1, raw.len - 2);
	return raw;
}

bool sc_json_key_is(struct sc_span raw_key, struct sc_span name)
{
	struct sc_span raw = inside_quotes(raw_key);
	const char *p, *end;
	size_t at = 0;

	if (!raw.len || !memchr(raw.data, '\\', raw.len))
		return raw.len == name.len &&
		       (!raw.len || memcmp(raw.data, name.data, raw.len) == 0);
	for (p = raw.data, end = p + raw.len; p < end;) {
		char text[4] = { *p };
		size_t len = 1;

		if (*p == '\\')
			len = unescape_one(&p, end, text);
		else
			p++;
		if (name.len - at < len || memcmp(name.data + at, text, len) != 0)
			return false;
		at += len;
	}
	return at == name.len;
}

int sc_json_unescape(struct sc_span raw, struct sc_bytes *out)
{
	const char *p, *end;
	size_t start = out->len;

	raw = inside_quotes(raw);
	if (!raw.len)
		return 0;
	for (p = raw.data, end = p + raw.len; p < end;) {
		const char *slash = memchr(p, '\\', (size_t)(end - p));
		size_t run = (size_t)((slash ? slash : end) - p);
		char text[4];
		int rc = run ? sc_bytes_put(out, p, run) : 0;

		p += run;
		if (rc == 0 && p < end)
			rc = sc_bytes_put(out, text, unescape_one(&p, end, text));
		if (rc < 0) {
			out->len = start;
			return rc;
		}
	}
	return 0;
}

bool sc_json_u64(const struct sc_json *value, uint64_t *ret_value)
{
	const char *p = value->text.data, *end = p + value->text.len;
	uint64_t total = 0;

	if (value->kind != SC_JSON_INTEGER)
		return false;
	if (p < end && *p == '-') /* only -0 is in range */
		p += value->text.len == 2 && p[1] == '0';
	for (; p < end; p++) {
		if (!sc_scan_is_digit(*p) || __builtin_mul_overflow(total, 10u, &total) ||
		    __builtin_add_overflow(total, (unsigned)(*p - '0'), &total))
			return false;
	}
	*ret_value = total;
	return true;
}

bool sc_json_i64(const struct sc_json *value, int64_t *ret_value)
{
	struct sc_json digits = *value;
	uint64_t size;

	if (value->kind == SC_JSON_INTEGER && value->text.data[0] == '-') {
		digits.text = sc_span(value->text.data + 1, value->text.len - 1);
		if (!sc_json_u64(&digits, &size) || size > (uint64_t)INT64_MAX + 1)
			return false;
		*ret_value = size > INT64_MAX ? INT64_MIN : -(int64_t)size;
		return true;
	}
	if (!sc_json_u64(value, &size) || size > INT64_MAX)
		return false;
	*ret_value = (int64_t)size;
	return true;
}

int sc_json_put_line(const struct sc_json *value, struct sc_bytes *out)
{
	const char *p = value->text.data, *end = p + value->text.len, *from = p;
	size_t start = out->len;
	int rc = 0;

	if (!value->newlines)
		return sc_bytes_put(out, p, value->text.len);
	while (rc == 0 && p < end) {
		bool newlines = false;
		const char *next;

		if (*p == '"') {
			p = skip_string(p + 1, end);
			continue;
		}
		next = skip_blanks(p, end, &newlines);
		if (newlines) {
			rc = sc_bytes_put(out, from, (size_t)(p - from));
			from = next;
		}
		p = next > p ? next : p + 1;
	}
	if (rc == 0)
		rc = sc_bytes_put(out, from, (size_t)(end - from));
	if (rc < 0)
		out->len = start;
	return rc;
}
