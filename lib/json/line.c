/* json/line.c: the line [offset,msg], and messages that are not JSON. */
#include "json/line.h"

#include "base/base64.h"

#include "json/scan_internal.h"

size_t sc_line_head(char ret_text[SC_LINE_HEAD_MAX], uint64_t offset)
{
	size_t len;

	ret_text[0] = '[';
	len = 1 + sc_u64_digits(ret_text + 1, offset);
	ret_text[len++] = ',';
	return len;
}

static const char *pass_blanks(const char *p, const char *end)
{
	while (p < end && sc_scan_is_blank(*p))
		p++;
	return p;
}

/* "[12," or "[null,": the place of msg, or NULL. */
static const char *parse_head(const char *p, const char *end, struct sc_line *line)
{
	uint64_t offset = 0;

	if (p == end || *p != '[')
		return NULL;
	p = pass_blanks(p + 1, end);
	line->null_offset = end - p > 4 && memcmp(p, "null", 4) == 0;
	if (line->null_offset) {
		p += 4;
	} else {
		if (p == end || *p < '1' || *p > '9')
			return NULL;
		for (; p < end && sc_scan_is_digit(*p); p++) {
			if (__builtin_mul_overflow(offset, 10u, &offset) ||
			    __builtin_add_overflow(offset, (unsigned)(*p - '0'), &offset))
				return NULL;
		}
	}
	line->offset = offset;
	p = pass_blanks(p, end);
	if (p == end || *p != ',')
		return NULL;
	return pass_blanks(p + 1, end);
}

bool sc_line_parse(struct sc_span text, bool trusted, struct sc_line *ret_line)
{
	struct sc_span whole = sc_json_trim(text);
	struct sc_line line;
	struct sc_json msg;
	const char *p, *end;

	if (whole.len < 4 || whole.data[whole.len - 1] != ']')
		return false;
	end = whole.data + whole.len - 1;
	p = parse_head(whole.data, end, &line);
	if (!p)
		return false;
	line.msg = sc_json_trim(sc_span(p, (size_t)(end - p)));
	/* One value and nothing more: [1,2,3] is a bare row. */
	if (!trusted && sc_json_scan(line.msg, &msg, NULL) < 0)
		return false;
	*ret_line = line;
	return true;
}

static bool is_mark(struct sc_span raw_key, bool *ret_base64)
{
	*ret_base64 = sc_json_key_is(raw_key, SC_SPAN("$base64"));
	return *ret_base64 || sc_json_key_is(raw_key, SC_SPAN("$text"));
}

/* Would VALUE, left as it is, be taken for a wrapped message? */
static bool looks_wrapped(const struct sc_json *value)
{
	struct sc_json_walk walk;
	struct sc_span key;
	struct sc_json member;
	bool base64;

	if (value->kind != SC_JSON_OBJECT)
		return false;
	sc_json_walk_init(&walk, value);
	return sc_json_walk_next(&walk, &key, &member) && is_mark(key, &base64);
}

/* Only what JSON demands is escaped, and always the same way. TEXT is valid UTF-8. */
static int put_string(struct sc_bytes *out, struct sc_span text)
{
	static const char hex[] = "0123456789abcdef";
	struct sc_scan s;
	const char *p;
	int rc = sc_bytes_putc(out, '"');

	sc_scan_init(&s, text);
	for (p = s.start; rc == 0 && p < s.end;) {
		const char *stop = p;
		char escape[6] = { '\\', 'u', '0', '0' };
		size_t len = 2;

		do {
			stop = sc_scan_plain(&s, stop);
		} while (stop < s.end && (unsigned char)*stop >= 0x80 && ++stop);
		if (stop > p)
			rc = sc_bytes_put(out, p, (size_t)(stop - p));
		p = stop;
		if (rc < 0 || p == s.end)
			break;
		switch (*p) {
		case '"':
		case '\\':
			escape[1] = *p;
			break;
		case '\b':
			escape[1] = 'b';
			break;
		case '\f':
			escape[1] = 'f';
			break;
		case '\n':
			escape[1] = 'n';
			break;
		case '\r':
			escape[1] = 'r';
			break;
		case '\t':
			escape[1] = 't';
			break;
		default:
			escape[4] = hex[*p >> 4 & 15];
			escape[5] = hex[*p & 15];
			len = 6;
		}
		rc = sc_bytes_put(out, escape, len);
		p++;
	}
	return rc < 0 ? rc : sc_bytes_putc(out, '"');
}

int sc_json_put_string(struct sc_span text, struct sc_bytes *out)
{
	size_t start = out->len;
	int rc = put_string(out, text);

	if (rc < 0)
		out->len = start;
	return rc;
}

int sc_wrap_message(struct sc_span message, bool binary, struct sc_bytes *out)
{
	size_t start = out->len;
	struct sc_json value;
	int rc;

	if (!binary && sc_json_scan(message, &value, NULL) == 0 && !looks_wrapped(&value))
		return sc_json_put_line(&value, out);
	if (!binary && sc_utf8_valid(message)) {
		rc = sc_bytes_puts(out, "{\"$text\":");
		if (rc == 0)
			rc = put_string(out, message);
		if (rc == 0)
			rc = sc_bytes_putc(out, '}');
	} else {
		rc = sc_bytes_puts(out, "{\"$base64\":\"");
		if (rc == 0)
			rc = sc_base64_put(out, message);
		if (rc == 0)
			rc = sc_bytes_puts(out, "\"}");
	}
	if (rc < 0)
		out->len = start;
	return rc;
}

int sc_unwrap_message(struct sc_span msg, struct sc_bytes *out)
{
	struct sc_json_walk walk;
	struct sc_json value, member, more;
	struct sc_span key;
	bool base64;
	int rc;

	/* The cheap look first: nearly no message is wrapped. */
	msg = sc_json_trim(msg);
	if (msg.len < sizeof("{\"$text\":\"\"}") - 1 || msg.data[0] != '{' ||
	    sc_json_scan(msg, &value, NULL) < 0)
		return 0;
	sc_json_walk_init(&walk, &value);
	if (!sc_json_walk_next(&walk, &key, &member) || !is_mark(key, &base64) ||
	    member.kind != SC_JSON_STRING || sc_json_walk_next(&walk, NULL, &more))
		return 0;
	if (base64) {
		member.text = sc_span(member.text.data + 1, member.text.len - 2);
		rc = sc_base64_get(out, member.text);
	} else {
		rc = sc_json_unescape(member.text, out);
	}
	return rc == SC_E_DATA ? 0 : rc < 0 ? rc : 1;
}
