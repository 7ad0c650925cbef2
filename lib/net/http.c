/* net/http.c: request heads in, answer heads out. */
#include "net/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <openssl/evp.h>

#include "base/base64.h"

size_t sc_http_head_end(const char *data, size_t len, size_t from)
{
	const char *at, *end;

	from = from > 3 ? from - 3 : 0;
	if (len < 4 || from >= len)
		return 0;
	at = data + from;
	end = memmem(at, len - from, "\r\n\r\n", 4);
	return end ? (size_t)(end - data) + 4 : 0;
}

bool sc_http_begins(char first)
{
	return (first > ' ' && first <= '~') || first == '\r' || first == '\n';
}

static bool is_token(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool sc_http_token(struct sc_span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_token((unsigned char)text.data[i]))
			return false;
	return text.len > 0;
}

static struct sc_span trim(struct sc_span text)
{
	while (text.len && (text.data[0] == ' ' || text.data[0] == '\t'))
		text = sc_span(text.data + 1, text.len - 1);
	while (text.len && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/* One line without its CRLF; the rest moves on. A CR or LF alone stays in the line and is refused
 * there. */
static struct sc_span next_line(struct sc_span *rest)
{
	const char *end = memmem(rest->data, rest->len, "\r\n", 2);
	size_t len = end ? (size_t)(end - rest->data) : rest->len;
	struct sc_span line = sc_span(rest->data, len);

	*rest = end ? sc_span(end + 2, rest->len - len - 2) : sc_span(rest->data + len, 0);
	return line;
}

static int parse_request_line(struct sc_span line, struct sc_http_head *head)
{
	const char *one = memchr(line.data, ' ', line.len), *two;
	struct sc_span version;

	if (!one)
		return 400;
	head->method = sc_span(line.data, (size_t)(one - line.data));
	two = memchr(one + 1, ' ', line.len - head->method.len - 1);
	if (!two)
		return 400;
	head->target = sc_span(one + 1, (size_t)(two - one - 1));
	version = sc_span(two + 1, (size_t)(line.data + line.len - two - 1));
	if (!sc_http_token(head->method) || head->target.len == 0)
		return 400;
	for (size_t i = 0; i < head->target.len; i++) {
		unsigned char c = (unsigned char)head->target.data[i];

		if (c <= ' ' || c == 0x7f)
			return 400;
	}
	if (version.len != 8 || memcmp(version.data, "HTTP/", 5) != 0 || version.data[6] != '.')
		return 400;
	if (version.data[5] != '1' || version.data[7] < '0' || version.data[7] > '9')
		return 505;
	head->minor = version.data[7] - '0';
	return 0;
}

static int parse_field(struct sc_span line, struct sc_http_head *head)
{
	const char *colon = memchr(line.data, ':', line.len);
	struct sc_http_field field;

	if (!colon)
		return 400;
	field.name = sc_span(line.data, (size_t)(colon - line.data));
	field.value = trim(sc_span(colon + 1, line.len - field.name.len - 1));
	/* A folded line begins with a blank, which is no token: refused as RFC 9112 5.2 asks. */
	if (!sc_http_token(field.name))
		return 400;
	for (size_t i = 0; i < field.value.len; i++) {
		unsigned char c = (unsigned char)field.value.data[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return 400;
	}
	if (head->count == SC_HTTP_FIELDS_MAX)
		return 431;
	head->fields[head->count++] = field;
	return 0;
}

int sc_http_parse(const char *data, size_t len, struct sc_http_head *head)
{
	struct sc_span rest = sc_span(data, len), line;
	int status;

	head->count = 0;
	line = next_line(&rest);
	status = parse_request_line(line, head);
	while (status == 0) {
		line = next_line(&rest);
		if (line.len == 0)
			break;
		status = parse_field(line, head);
	}
	return status;
}

bool sc_http_is(struct sc_span text, const char *word)
{
	size_t len = strlen(word);

	return text.len == len && strncasecmp(text.data, word, len) == 0;
}

struct sc_span sc_http_field(const struct sc_http_head *head, const char *name)
{
	for (size_t i = 0; i < head->count; i++)
		if (sc_http_is(head->fields[i].name, name))
			return head->fields[i].value;
	return sc_span(NULL, 0);
}

size_t sc_http_field_count(const struct sc_http_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->count; i++)
		n += sc_http_is(head->fields[i].name, name);
	return n;
}

bool sc_http_lists(const struct sc_http_head *head, const char *name, const char *word)
{
	for (size_t i = 0; i < head->count; i++) {
		struct sc_span rest = head->fields[i].value;

		if (!sc_http_is(head->fields[i].name, name))
			continue;
		while (rest.len) {
			const char *comma = memchr(rest.data, ',', rest.len);
			size_t len = comma ? (size_t)(comma - rest.data) : rest.len;

			if (sc_http_is(trim(sc_span(rest.data, len)), word))
				return true;
			len += comma != NULL;
			rest = sc_span(rest.data + len, rest.len - len);
		}
	}
	return false;
}

struct sc_span sc_http_path(struct sc_span target)
{
	size_t at = 0, end;

	if (target.len >= 7 && !strncasecmp(target.data, "http://", 7))
		at = 7;
	else if (target.len >= 8 && !strncasecmp(target.data, "https://", 8))
		at = 8;
	while (at && at < target.len && !memchr("/?#", target.data[at], 3))
		at++;
	for (end = at; end < target.len && target.data[end] != '?';)
		end++;
	return end == at && at ? SC_SPAN("/") : sc_span(target.data + at, end - at);
}

const char *sc_http_reason(int status)
{
	static const struct {
		int status;
		const char *reason;
	} list[] = {
		{ 101, "Switching Protocols" },
		{ 200, "OK" },
		{ 201, "Created" },
		{ 204, "No Content" },
		{ 301, "Moved Permanently" },
		{ 302, "Found" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 408, "Request Timeout" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 416, "Range Not Satisfiable" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		if (list[i].status == status)
			return list[i].reason;
	return "Status";
}

int sc_http_put_head(struct sc_bytes *out, int status, const char *type, const char *extra,
		     int64_t length)
{
	int rc = sc_bytes_putf(out, "HTTP/1.1 %d %s\r\n", status, sc_http_reason(status));

	if (rc == 0 && type)
		rc = sc_bytes_putf(out, "Content-Type: %s\r\n", type);
	if (rc == 0 && length >= 0)
		rc = sc_bytes_putf(out, "Content-Length: %lld\r\n", (long long)length);
	if (rc == 0 && extra)
		rc = sc_bytes_puts(out, extra);
	if (rc == 0)
		rc = sc_bytes_puts(out, "Connection: close\r\n\r\n");
	return rc;
}

bool sc_http_accept(struct sc_span key, char ret_text[SC_HTTP_ACCEPT_TEXT])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	unsigned char joined[24 + sizeof(guid)], hash[20];
	char text[SC_HTTP_ACCEPT_TEXT];
	struct sc_bytes out = { .data = text, .cap = sizeof(text), .max = sizeof(text) };

	/* 22 digits and two pads are 16 bytes. */
	if (key.len != 24 || memcmp(key.data + 22, "==", 2) != 0)
		return false;
	for (size_t i = 0; i < 22; i++) {
		char c = key.data[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		      c == '+' || c == '/'))
			return false;
	}
	memcpy(joined, key.data, 24);
	memcpy(joined + 24, guid, sizeof(guid) - 1);
	if (EVP_Digest(joined, 24 + sizeof(guid) - 1, hash, NULL, EVP_sha1(), NULL) != 1 ||
	    sc_base64_put(&out, sc_span((const char *)hash, sizeof(hash))) < 0)
		return false;
	memcpy(ret_text, text, SC_HTTP_ACCEPT_TEXT - 1);
	ret_text[SC_HTTP_ACCEPT_TEXT - 1] = 0;
	return true;
}
