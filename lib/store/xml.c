/* store/xml.c: the XML of S3's answers, read strictly, in one pass. */
#include "store/xml.h"

#include <string.h>

#define TRIED "cannot read the server's XML"

void sc_xml_init(struct sc_xml *xml, struct sc_span input)
{
	memset(xml, 0, sizeof(*xml));
	if (input.len == 0)
		input.data = "";
	xml->at = input.data;
	xml->end = input.data + input.len;
	sc_bytes_init(&xml->text, SC_XML_TEXT);
	if (input.len >= 3 && !memcmp(input.data, "\xef\xbb\xbf", 3))
		xml->at += 3;
}

void sc_xml_done(struct sc_xml *xml)
{
	sc_bytes_done(&xml->text);
}

static int malformed(struct sc_err *err, const char *why)
{
	return sc_err_set(err, SC_E_PROTOCOL, TRIED, "%s", why);
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name(char c, bool first)
{
	if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':' || (c & 0x80))
		return true;
	return !first && ((c >= '0' && c <= '9') || c == '-' || c == '.');
}

static size_t left(const struct sc_xml *xml)
{
	return (size_t)(xml->end - xml->at);
}

static bool starts(const struct sc_xml *xml, const char *text)
{
	size_t len = strlen(text);

	return left(xml) >= len && !memcmp(xml->at, text, len);
}

/* Past the end of TEXT, which must come. */
static int skip_to(struct sc_xml *xml, const char *text, struct sc_err *err)
{
	const char *found = memmem(xml->at, left(xml), text, strlen(text));

	if (!found)
		return malformed(err, "it ends inside a comment or an instruction");
	xml->at = found + strlen(text);
	return 0;
}

static void skip_space(struct sc_xml *xml)
{
	while (xml->at < xml->end && is_space(*xml->at))
		xml->at++;
}

static int take_name(struct sc_xml *xml, struct sc_span *ret_name, struct sc_err *err)
{
	const char *from = xml->at;

	if (xml->at == xml->end || !is_name(*xml->at, true))
		return malformed(err, "a tag has no name");
	while (xml->at < xml->end && is_name(*xml->at, false))
		xml->at++;
	*ret_name = sc_span(from, (size_t)(xml->at - from));
	return 0;
}

static struct sc_span local(struct sc_span name)
{
	const char *colon = memrchr(name.data, ':', name.len);

	if (!colon)
		return name;
	return sc_span(colon + 1, name.len - (size_t)(colon + 1 - name.data));
}

static int put_text(struct sc_xml *xml, const char *data, size_t len, struct sc_err *err)
{
	if (sc_bytes_put(&xml->text, data, len) == 0)
		return 0;
	return xml->text.full ? malformed(err, "a text in it is too long")
			      : sc_err_nomem(err, TRIED);
}

static int put_code_point(struct sc_xml *xml, uint32_t c, struct sc_err *err)
{
	char utf8[4];
	size_t len;

	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return malformed(err, "a character reference names no character");
	if (c < 0x80) {
		utf8[0] = (char)c;
		len = 1;
	} else if (c < 0x800) {
		utf8[0] = (char)(0xc0 | c >> 6);
		utf8[1] = (char)(0x80 | (c & 63));
		len = 2;
	} else if (c < 0x10000) {
		utf8[0] = (char)(0xe0 | c >> 12);
		utf8[1] = (char)(0x80 | (c >> 6 & 63));
		utf8[2] = (char)(0x80 | (c & 63));
		len = 3;
	} else {
		utf8[0] = (char)(0xf0 | c >> 18);
		utf8[1] = (char)(0x80 | (c >> 12 & 63));
		utf8[2] = (char)(0x80 | (c >> 6 & 63));
		utf8[3] = (char)(0x80 | (c & 63));
		len = 4;
	}
	return put_text(xml, utf8, len, err);
}

/* The digits of &#N; or &#xN;. */
static int take_number(struct sc_xml *xml, struct sc_span digits, struct sc_err *err)
{
	unsigned base = 10;
	uint32_t c = 0;

	if (digits.len > 0 && digits.data[0] == 'x') {
		base = 16;
		digits = sc_span(digits.data + 1, digits.len - 1);
	}
	if (digits.len == 0 || digits.len > 8)
		return malformed(err, "a character reference has no number");
	for (size_t i = 0; i < digits.len; i++) {
		char d = digits.data[i];
		unsigned value = d >= '0' && d <= '9'   ? (unsigned)(d - '0')
				 : d >= 'a' && d <= 'f' ? (unsigned)(d - 'a' + 10)
				 : d >= 'A' && d <= 'F' ? (unsigned)(d - 'A' + 10)
							: 99;

		if (value >= base)
			return malformed(err, "a character reference has no number");
		c = c * base + value;
	}
	return put_code_point(xml, c, err);
}

/* At '&'. */
static int take_reference(struct sc_xml *xml, struct sc_err *err)
{
	static const struct {
		const char *name, *text;
	} known[] = {
		{ "lt", "<" }, { "gt", ">" }, { "amp", "&" }, { "quot", "\"" }, { "apos", "'" },
	};
	size_t room = left(xml) < 16 ? left(xml) : 16;
	const char *semicolon = memchr(xml->at, ';', room);
	struct sc_span name;

	if (!semicolon)
		return malformed(err, "an '&' begins no reference");
	name = sc_span(xml->at + 1, (size_t)(semicolon - xml->at - 1));
	xml->at = semicolon + 1;
	if (name.len > 0 && name.data[0] == '#')
		return take_number(xml, sc_span(name.data + 1, name.len - 1), err);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (sc_span_is(name, known[i].name))
			return put_text(xml, known[i].text, 1, err);
	return malformed(err, "it refers to an entity that XML does not define");
}

/* Characters up to the next '<'. */
static int take_text(struct sc_xml *xml, struct sc_err *err)
{
	int rc = 0;

	while (rc == 0 && xml->at < xml->end && *xml->at != '<') {
		const char *from = xml->at;

		if (*from == '&') {
			rc = take_reference(xml, err);
			continue;
		}
		while (xml->at < xml->end && *xml->at != '<' && *xml->at != '&') {
			unsigned char c = (unsigned char)*xml->at;

			if (c < 0x20 && !is_space((char)c))
				return malformed(err, "it has a control byte");
			xml->at++;
		}
		rc = put_text(xml, from, (size_t)(xml->at - from), err);
	}
	return rc;
}

/* Behind "<![CDATA[". */
static int take_cdata(struct sc_xml *xml, struct sc_err *err)
{
	const char *from = xml->at;
	int rc = skip_to(xml, "]]>", err);

	return rc < 0 ? rc : put_text(xml, from, (size_t)(xml->at - 3 - from), err);
}

/* Attributes are read over: S3 says nothing in them. Ends behind '>'. */
static int take_attributes(struct sc_xml *xml, struct sc_err *err)
{
	for (;;) {
		const char *before = xml->at;
		struct sc_span name;
		const char *close;
		char quote;

		skip_space(xml);
		if (starts(xml, "/>")) {
			xml->at += 2;
			xml->empty = true;
			return 0;
		}
		if (starts(xml, ">")) {
			xml->at++;
			return 0;
		}
		if (xml->at == before)
			return malformed(err, "a tag does not end");
		if (take_name(xml, &name, err) < 0)
			return SC_E_PROTOCOL;
		skip_space(xml);
		if (!starts(xml, "="))
			return malformed(err, "an attribute has no value");
		xml->at++;
		skip_space(xml);
		quote = xml->at < xml->end ? *xml->at : 0;
		if (quote != '"' && quote != '\'')
			return malformed(err, "an attribute's value has no quotes");
		close = memchr(xml->at + 1, quote, left(xml) - 1);
		if (!close || memchr(xml->at, '<', (size_t)(close - xml->at)))
			return malformed(err, "an attribute's value does not end");
		xml->at = close + 1;
	}
}

/* Behind '<'. */
static int take_start(struct sc_xml *xml, struct sc_err *err)
{
	struct sc_span name;
	int rc;

	if (xml->depth == 0 && xml->seen_root)
		return malformed(err, "it has a second root");
	if (xml->depth == SC_XML_DEPTH)
		return malformed(err, "it is nested too deep");
	rc = take_name(xml, &name, err);
	if (rc == 0)
		rc = take_attributes(xml, err);
	if (rc < 0)
		return rc;
	xml->open[xml->depth++] = name;
	xml->seen_root = true;
	xml->name = local(name);
	sc_bytes_clear(&xml->text);
	return SC_XML_START;
}

/* Behind "</". */
static int take_end(struct sc_xml *xml, struct sc_err *err)
{
	struct sc_span name, want;
	int rc = take_name(xml, &name, err);

	if (rc < 0)
		return rc;
	skip_space(xml);
	if (!starts(xml, ">"))
		return malformed(err, "a tag does not end");
	xml->at++;
	if (xml->depth == 0)
		return malformed(err, "a tag ends that was not begun");
	want = xml->open[xml->depth - 1];
	if (name.len != want.len || memcmp(name.data, want.data, want.len))
		return malformed(err, "a tag ends that was not begun");
	xml->name = local(name);
	xml->leave = true;
	return SC_XML_END;
}

static int at_end(struct sc_xml *xml, struct sc_err *err)
{
	if (xml->depth > 0 || !xml->seen_root)
		return malformed(err, "it ends too early");
	return SC_XML_END_OF_DOCUMENT;
}

/* "<!" or "<?": nothing to tell the caller. */
static int take_other(struct sc_xml *xml, struct sc_err *err)
{
	if (starts(xml, "<?"))
		return skip_to(xml, "?>", err);
	if (starts(xml, "<!--")) {
		xml->at += 4;
		return skip_to(xml, "-->", err);
	}
	if (starts(xml, "<![CDATA[") && xml->depth > 0) {
		xml->at += 9;
		return take_cdata(xml, err);
	}
	return malformed(err, "it has a document type");
}

int sc_xml_next(struct sc_xml *xml, struct sc_err *err)
{
	int rc = 0;

	if (xml->leave) {
		xml->leave = false;
		xml->depth--;
		sc_bytes_clear(&xml->text);
	}
	if (xml->empty) {
		xml->empty = false;
		xml->leave = true;
		return SC_XML_END;
	}
	while (rc == 0) {
		if (xml->depth > 0)
			rc = take_text(xml, err);
		else
			skip_space(xml);
		if (rc < 0)
			break;
		if (xml->at == xml->end)
			return at_end(xml, err);
		if (*xml->at != '<')
			return malformed(err, "it has text outside its root");
		if (starts(xml, "</")) {
			xml->at += 2;
			return take_end(xml, err);
		}
		if (starts(xml, "<!") || starts(xml, "<?")) {
			rc = take_other(xml, err);
			continue;
		}
		xml->at++;
		return take_start(xml, err);
	}
	return rc;
}
