/* net/httphead.c: see net/httphead.h. */
#include "net/httphead.h"

#include <ctype.h>
#include <strings.h>
#include <time.h>

#include "net/http.h"

static int refuse(struct sc_err *err, const char *reason)
{
	return sc_err_set(err, SC_E_PROTOCOL, "cannot read the HTTP answer of", "%s", reason);
}

/* One line without its end; false when its end is not there yet. A bare LF ends a line too (RFC
 * 9112, 2.2). */
static bool take_line(const char *data, size_t len, size_t *at, struct sc_span *ret_line)
{
	const char *start = data + *at;
	const char *lf = len > *at ? memchr(start, '\n', len - *at) : NULL;
	size_t n;

	if (!lf)
		return false;
	n = (size_t)(lf - start);
	*at += n + 1;
	if (n && start[n - 1] == '\r')
		n--;
	*ret_line = sc_span(start, n);
	return true;
}

static bool clean(struct sc_span text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if ((c < ' ' && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static int status_line(struct sc_span line, struct sc_httphead *head, struct sc_err *err)
{
	const char *p = line.data;

	if (line.len < 12 || memcmp(p, "HTTP/1.", 7) || !isdigit((unsigned char)p[7]) ||
	    p[8] != ' ')
		return refuse(err, "it does not begin with HTTP/1.1");
	for (int i = 9; i < 12; i++)
		if (!isdigit((unsigned char)p[i]))
			return refuse(err, "its status is not a number of three digits");
	if (p[9] == '0' || (line.len > 12 && p[12] != ' ') || !clean(line))
		return refuse(err, "its status line is broken");
	head->minor = p[7] - '0';
	head->status = (p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0');
	head->reason = line.len > 13 ? sc_span(p + 13, line.len - 13) : sc_span(p + line.len, 0);
	return 0;
}

static bool split_field(struct sc_span line, struct sc_span *ret_name, struct sc_span *ret_value)
{
	const char *colon = memchr(line.data, ':', line.len);
	size_t n = colon ? (size_t)(colon - line.data) : 0, from = n + 1, to = line.len;

	if (!sc_http_token(sc_span(line.data, n)))
		return false;
	while (from < to && (line.data[from] == ' ' || line.data[from] == '\t'))
		from++;
	while (to > from && (line.data[to - 1] == ' ' || line.data[to - 1] == '\t'))
		to--;
	*ret_name = sc_span(line.data, n);
	*ret_value = sc_span(line.data + from, to - from);
	return clean(*ret_value);
}

int64_t sc_httphead_parse(const char *data, size_t len, size_t max, struct sc_httphead *ret_head,
			  struct sc_err *err)
{
	struct sc_httphead head = { 0 };
	struct sc_span line, name, value;
	size_t at = 0, fields, before;
	size_t seen = len < max ? len : max;

	if (len && memcmp(data, "HTTP/1.", len < 7 ? len : 7))
		return refuse(err, "it does not begin with HTTP/1.1");
	if (!take_line(data, seen, &at, &line))
		goto more;
	if (status_line(line, &head, err) < 0)
		return SC_E_PROTOCOL;
	fields = at;
	for (;;) {
		before = at;
		if (!take_line(data, seen, &at, &line))
			goto more;
		if (line.len == 0)
			break;
		if (!split_field(line, &name, &value))
			return refuse(err, "a header line is not NAME: VALUE");
	}
	head.fields = sc_span(data + fields, before - fields);
	*ret_head = head;
	return (int64_t)at;
more:
	if (len < max)
		return 0;
	return sc_err_set(err, SC_E_PROTOCOL, "cannot read the HTTP answer of",
			  "its head is longer than %zu bytes", max);
}

bool sc_httphead_next(const struct sc_httphead *head, size_t *at, struct sc_span *ret_name,
		      struct sc_span *ret_value)
{
	struct sc_span line;

	return take_line(head->fields.data, head->fields.len, at, &line) &&
	       split_field(line, ret_name, ret_value);
}

bool sc_httphead_find(const struct sc_httphead *head, const char *name, size_t nth,
		      struct sc_span *ret_value)
{
	struct sc_span n, v;
	size_t at = 0;

	while (sc_httphead_next(head, &at, &n, &v))
		if (n.len == strlen(name) && !strncasecmp(n.data, name, n.len) && nth-- == 0) {
			*ret_value = v;
			return true;
		}
	return false;
}

static bool list_has(struct sc_span list, const char *token)
{
	size_t len = strlen(token), i = 0;

	while (i < list.len) {
		size_t start, end;

		while (i < list.len && strchr(" \t,", list.data[i]))
			i++;
		start = i;
		while (i < list.len && list.data[i] != ',')
			i++;
		end = i;
		while (end > start && strchr(" \t", list.data[end - 1]))
			end--;
		if (end - start == len && !strncasecmp(list.data + start, token, len))
			return true;
	}
	return false;
}

bool sc_httphead_has(const struct sc_httphead *head, const char *name, const char *token)
{
	struct sc_span value;

	for (size_t i = 0; sc_httphead_find(head, name, i, &value); i++)
		if (list_has(value, token))
			return true;
	return false;
}

int64_t sc_httphead_retry_ms(const struct sc_httphead *head, int64_t now_us)
{
	struct sc_span value;
	char text[40];
	uint64_t seconds;
	struct tm tm = { 0 };
	const char *end;
	int64_t at_ms;

	if (!sc_httphead_find(head, "Retry-After", 0, &value) || value.len >= sizeof(text))
		return -1;
	if (sc_u64_parse(value, &seconds))
		return (int64_t)(seconds < 31536000 ? seconds : 31536000) * 1000;
	memcpy(text, value.data, value.len);
	text[value.len] = '\0';
	end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT",
		       &tm); /* the C locale's names: programs set no other */
	if (!end || *end)
		return -1;
	at_ms = (int64_t)timegm(&tm) * 1000;
	return at_ms > now_us / 1000 ? at_ms - now_us / 1000 : 0;
}
