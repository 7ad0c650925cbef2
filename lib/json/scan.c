/* json/scan.c: the strict scanner: one pass, no allocation. */
#include "json/scan.h"

#include <stdio.h>

#include "json/scan_internal.h"

const char *sc_json_kind_name(enum sc_json_kind kind)
{
	static const char *const names[] = {
		[SC_JSON_NULL] = "null",
		[SC_JSON_FALSE] = "a boolean",
		[SC_JSON_TRUE] = "a boolean",
		[SC_JSON_INTEGER] = "an integer",
		[SC_JSON_NUMBER] = "a number with a fraction or exponent",
		[SC_JSON_STRING] = "a string",
		[SC_JSON_ARRAY] = "an array",
		[SC_JSON_OBJECT] = "an object",
	};

	return names[kind];
}

/* What stands at P, for a message: 'x', byte 0x07, the end of the text. */
static void name_found(const struct sc_scan *s, const char *p, char *ret_text, size_t size)
{
	unsigned char c = p < s->end ? (unsigned char)*p : 0;

	if (p >= s->end)
		snprintf(ret_text, size, "the end of the text");
	else if (c > 0x20 && c < 0x7f)
		snprintf(ret_text, size, "'%c'", c);
	else if (c == ' ')
		snprintf(ret_text, size, "a space");
	else
		snprintf(ret_text, size, "byte 0x%02x", c);
}

static const char *fault_text(enum sc_scan_fault fault)
{
	switch (fault) {
	case SC_FAULT_EMPTY:
		return "there is no JSON value";
	case SC_FAULT_END:
		return "the text ends inside a value";
	case SC_FAULT_BOM:
		return "it begins with a byte order mark";
	case SC_FAULT_VALUE:
		return "expected a value, found ";
	case SC_FAULT_AFTER:
		return "expected nothing after the value, found ";
	case SC_FAULT_KEY:
		return "expected a key in quotes, found ";
	case SC_FAULT_COLON:
		return "expected ':' after a key, found ";
	case SC_FAULT_COMMA:
		return "expected ',' or the closing bracket, found ";
	case SC_FAULT_LITERAL:
		return "expected true, false or null";
	case SC_FAULT_CONTROL:
		return "a string holds a control character that must be escaped: ";
	case SC_FAULT_ESCAPE:
		return "a string holds a backslash that is followed by ";
	case SC_FAULT_HEX:
		return "\\u is not followed by four hexadecimal digits";
	case SC_FAULT_SURROGATE:
		return "a string holds a surrogate without its partner";
	case SC_FAULT_UTF8:
		return "a string holds invalid UTF-8, ";
	case SC_FAULT_ZERO:
		return "a number has a leading zero";
	case SC_FAULT_DIGIT:
		return "a number needs a digit here, found ";
	case SC_FAULT_DEPTH:
		return "arrays and objects are nested too deeply";
	case SC_FAULT_NONE:
		break;
	}
	return "not JSON";
}

int sc_scan_err(const struct sc_scan *s, const char *tried, const struct sc_span *column,
		struct sc_err *err)
{
	const char *what = fault_text(s->fault);
	size_t len = strlen(what);
	char found[32] = "", where[160] = "";

	if (what[len - 1] == ' ')
		name_found(s, s->fault_at, found, sizeof(found));
	if (column)
		snprintf(where, sizeof(where),
			 "column '%.*s': ", (int)(column->len < 120 ? column->len : 120),
			 column->data);
	sc_err_set(err, SC_E_DATA, tried, "not JSON: %s%s%s at byte %zu", where, what, found,
		   (size_t)(s->fault_at - s->start));
	if (s->fault == SC_FAULT_DEPTH)
		sc_err_next(err, "the limit is %d levels", SC_JSON_DEPTH_MAX);
	return SC_E_DATA;
}

const char *sc_scan_blanks_rest(struct sc_scan *s, const char *p)
{
	for (; p < s->end && sc_scan_is_blank(*p); p++) {
		s->blanks = true;
		s->newlines |= *p == '\n' || *p == '\r';
	}
	return p;
}

static inline bool follows(const char *p, unsigned char low, unsigned char high)
{
	return (unsigned char)*p >= low && (unsigned char)*p <= high;
}

const char *sc_scan_utf8(const char *p, const char *end)
{
	unsigned char c = (unsigned char)*p;
	unsigned char low = 0x80, high = 0xbf;
	int more;

	if (c >= 0xc2 && c <= 0xdf) {
		more = 1;
	} else if (c >= 0xe0 && c <= 0xef) {
		more = 2;
		if (c == 0xe0)
			low = 0xa0; /* shorter form exists */
		if (c == 0xed)
			high = 0x9f; /* a surrogate */
	} else if (c >= 0xf0 && c <= 0xf4) {
		more = 3;
		if (c == 0xf0)
			low = 0x90;
		if (c == 0xf4)
			high = 0x8f; /* beyond U+10FFFF */
	} else {
		return NULL;
	}
	if (end - p <= more || !follows(p + 1, low, high))
		return NULL;
	for (int i = 2; i <= more; i++) {
		if (!follows(p + i, 0x80, 0xbf))
			return NULL;
	}
	return p + more + 1;
}

static int hex4(const char *p)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		char c = p[i];

		value <<= 4;
		if (sc_scan_is_digit(c))
			value |= c - '0';
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			value |= (c | 0x20) - 'a' + 10;
		else
			return -1;
	}
	return value;
}

/* P is at the 'u' of an escape whose backslash is before it. */
static const char *scan_unicode(struct sc_scan *s, const char *p)
{
	int unit, low;

	if (s->end - p < 5)
		return sc_scan_fail(s, SC_FAULT_HEX, p - 1);
	unit = hex4(p + 1);
	if (unit < 0)
		return sc_scan_fail(s, SC_FAULT_HEX, p - 1);
	if (unit < 0xd800 || unit > 0xdfff)
		return p + 5;
	if (unit > 0xdbff || s->end - p < 11 || p[5] != '\\' || p[6] != 'u')
		return sc_scan_fail(s, SC_FAULT_SURROGATE, p - 1);
	low = hex4(p + 7);
	if (low < 0)
		return sc_scan_fail(s, SC_FAULT_HEX, p + 5);
	if (low < 0xdc00 || low > 0xdfff)
		return sc_scan_fail(s, SC_FAULT_SURROGATE, p - 1);
	return p + 11;
}

/* P is where a run of plain bytes ended. */
const char *sc_scan_string_rest(struct sc_scan *s, const char *p)
{
	while (p < s->end) {
		unsigned char c = (unsigned char)*p;

		if (c == '"')
			return p + 1;
		if (c == '\\') {
			if (p + 1 == s->end)
				break;
			switch (p[1]) {
			case '"':
			case '\\':
			case '/':
			case 'b':
			case 'f':
			case 'n':
			case 'r':
			case 't':
				p += 2;
				break;
			case 'u':
				p = scan_unicode(s, p + 1);
				if (!p)
					return NULL;
				break;
			default:
				return sc_scan_fail(s, SC_FAULT_ESCAPE, p + 1);
			}
		} else if (c >= 0x80) {
			const char *at = p;

			/* letters outside ASCII come in runs */
			do {
				at = p;
				p = sc_scan_utf8(p, s->end);
			} while (p && p < s->end && (unsigned char)*p >= 0x80);
			if (!p)
				return sc_scan_fail(s, SC_FAULT_UTF8, at);
		} else if (c < 0x20) {
			return sc_scan_fail(s, SC_FAULT_CONTROL, p);
		}
		p = sc_scan_plain(s, p);
	}
	return sc_scan_fail(s, SC_FAULT_END, s->end);
}

/* P is at '.', 'e' or 'E' after digits. */
const char *sc_scan_number_tail(struct sc_scan *s, const char *p)
{
	if (*p == '.') {
		p++;
		if (p == s->end)
			return sc_scan_fail(s, SC_FAULT_END, p);
		if (!sc_scan_is_digit(*p))
			return sc_scan_fail(s, SC_FAULT_DIGIT, p);
		p = sc_scan_digits(s, p);
		if (p == s->end || (*p | 0x20) != 'e')
			return p;
	}
	s->exponents = true;
	p++;
	if (p < s->end && (*p == '+' || *p == '-'))
		p++;
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	if (!sc_scan_is_digit(*p))
		return sc_scan_fail(s, SC_FAULT_DIGIT, p);
	return sc_scan_digits(s, p);
}

const char *sc_scan_literal(struct sc_scan *s, const char *p, enum sc_json_kind *ret_kind)
{
	static const struct {
		const char *word;
		size_t len;
		enum sc_json_kind kind;
	} words[] = {
		{ "null", 4, SC_JSON_NULL },
		{ "true", 4, SC_JSON_TRUE },
		{ "false", 5, SC_JSON_FALSE },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (*p != words[i].word[0])
			continue;
		if ((size_t)(s->end - p) < words[i].len ||
		    memcmp(p, words[i].word, words[i].len) != 0)
			return sc_scan_fail(s, SC_FAULT_LITERAL, p);
		*ret_kind = words[i].kind;
		return p + words[i].len;
	}
	return sc_scan_fail(s, SC_FAULT_VALUE, p);
}

/* "key" : with white space around the colon; P is at the quote; returns the place of the value. */
static const char *scan_key(struct sc_scan *s, const char *p)
{
	if (*p != '"')
		return sc_scan_fail(s, SC_FAULT_KEY, p);
	p = sc_scan_string(s, p + 1);
	if (!p)
		return NULL;
	p = sc_scan_blanks(s, p);
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	if (*p != ':')
		return sc_scan_fail(s, SC_FAULT_COLON, p);
	p = sc_scan_blanks(s, p + 1);
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	return p;
}

/* Which of the open containers are objects: a bit each. */
struct nest {
	uint64_t objects[SC_JSON_DEPTH_MAX / 64];
	unsigned base, depth;
};

static inline bool nest_object(const struct nest *n)
{
	return n->objects[(n->depth - 1) / 64] >> ((n->depth - 1) % 64) & 1;
}

static inline bool nest_push(struct nest *n, bool object)
{
	uint64_t bit = 1ull << (n->depth % 64), *word = &n->objects[n->depth / 64];

	if (n->base + n->depth >= SC_JSON_DEPTH_MAX)
		return false;
	*word = object ? *word | bit : *word & ~bit;
	n->depth++;
	return true;
}

/*
 * After a value: close what closes here, then pass the comma. Returns the place of the next value
 * or key; with n->depth 0 the place after the outermost container.
 */
static const char *scan_after(struct sc_scan *s, struct nest *n, const char *p)
{
	for (;;) {
		bool object = nest_object(n);

		p = sc_scan_blanks(s, p);
		if (p == s->end)
			return sc_scan_fail(s, SC_FAULT_END, p);
		if (*p == ',') {
			p = sc_scan_blanks(s, p + 1);
			if (p == s->end)
				return sc_scan_fail(s, SC_FAULT_END, p);
			return p;
		}
		if (*p != (object ? '}' : ']'))
			return sc_scan_fail(s, SC_FAULT_COMMA, p);
		p++;
		if (--n->depth == 0)
			return p;
	}
}

/* P is at '[' or '{'. */
const char *sc_scan_nested(struct sc_scan *s, const char *p)
{
	struct nest n = { .base = s->depth };
	enum sc_json_kind kind;
	bool object = *p == '{';

	if (!nest_push(&n, object))
		return sc_scan_fail(s, SC_FAULT_DEPTH, p);
	p = sc_scan_blanks(s, p + 1);
	if (p == s->end)
		return sc_scan_fail(s, SC_FAULT_END, p);
	if (*p == (object ? '}' : ']'))
		return p + 1;
	do {
		object = nest_object(&n);
		if (object && !(p = scan_key(s, p)))
			return NULL;
		if (*p == '[' || *p == '{') {
			object = *p == '{';
			if (!nest_push(&n, object))
				return sc_scan_fail(s, SC_FAULT_DEPTH, p);
			p = sc_scan_blanks(s, p + 1);
			if (p == s->end)
				return sc_scan_fail(s, SC_FAULT_END, p);
			if (*p != (object ? '}' : ']'))
				continue;
		} else {
			p = sc_scan_value(s, p, &kind);
			if (!p)
				return NULL;
		}
		p = scan_after(s, &n, p);
	} while (p && n.depth);
	return p;
}

int sc_json_scan_as(const char *tried, struct sc_span text, struct sc_json *ret_value,
		    struct sc_err *err)
{
	struct sc_scan s;
	struct sc_json value;
	const char *p, *end;

	sc_scan_init(&s, text);
	p = sc_scan_blanks(&s, s.start);
	if (p == s.end) {
		sc_scan_fail(&s, SC_FAULT_EMPTY, p);
		return sc_scan_err(&s, tried, NULL, err);
	}
	if (s.end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
		sc_scan_fail(&s, SC_FAULT_BOM, p);
		return sc_scan_err(&s, tried, NULL, err);
	}
	s.newlines = false;
	end = sc_scan_value(&s, p, &value.kind);
	if (!end)
		return sc_scan_err(&s, tried, NULL, err);
	value.text = sc_span(p, (size_t)(end - p));
	value.newlines = s.newlines;
	p = sc_scan_blanks(&s, end);
	if (p != s.end) {
		sc_scan_fail(&s, SC_FAULT_AFTER, p);
		return sc_scan_err(&s, tried, NULL, err);
	}
	*ret_value = value;
	return 0;
}

int sc_json_scan(struct sc_span text, struct sc_json *ret_value, struct sc_err *err)
{
	return sc_json_scan_as("cannot read JSON", text, ret_value, err);
}

struct sc_span sc_json_trim(struct sc_span text)
{
	while (text.len && sc_scan_is_blank(text.data[0])) {
		text.data++;
		text.len--;
	}
	while (text.len && sc_scan_is_blank(text.data[text.len - 1]))
		text.len--;
	return text;
}

bool sc_utf8_valid(struct sc_span text)
{
	const char *p = text.len ? text.data : "", *end = p + text.len;

	while (p < end) {
		uint64_t word;

		if ((unsigned char)*p >= 0x80) {
			p = sc_scan_utf8(p, end);
			if (!p)
				return false;
			continue;
		}
		p++;
		for (; end - p >= 8; p += 8) {
			memcpy(&word, p, 8);
			if (word & 0x8080808080808080ull)
				break;
		}
	}
	return true;
}
