/* client/sse.c: see client/sse.h. */
#include "client/sse.h"

#include <stdio.h>

void sc_sse_init(struct sc_sse *s, size_t data_max)
{
	memset(s, 0, sizeof(*s));
	sc_bytes_init(&s->line, data_max);
	sc_bytes_init(&s->data, data_max);
}

void sc_sse_done(struct sc_sse *s)
{
	sc_bytes_done(&s->line);
	sc_bytes_done(&s->data);
}

void sc_sse_begin(struct sc_sse *s)
{
	sc_bytes_clear(&s->line);
	sc_bytes_clear(&s->data);
	s->name[0] = '\0';
	s->has_data = s->after_cr = s->begun = s->told = false;
}

static int too_long(const struct sc_bytes *b, struct sc_err *err)
{
	if (!b->full)
		return sc_err_nomem(err, "cannot read an event of");
	sc_err_set(err, SC_E_PROTOCOL, "cannot read an event of", "it is longer than %zu bytes",
		   b->max);
	return sc_err_next(err, "allow longer ones with --max-message");
}

/* A field; one blank behind the colon belongs to the form. */
static int take_field(struct sc_sse *s, struct sc_span line, struct sc_err *err)
{
	const char *colon = memchr(line.data, ':', line.len);
	struct sc_span name = sc_span(line.data, colon ? (size_t)(colon - line.data) : line.len);
	struct sc_span value = sc_span("", 0);

	if (colon)
		value = sc_span(colon + 1, line.len - name.len - 1);
	if (value.len && value.data[0] == ' ')
		value = sc_span(value.data + 1, value.len - 1);
	if (sc_span_is(name, "event")) {
		snprintf(s->name, sizeof(s->name), "%.*s",
			 value.len < sizeof(s->name) ? (int)value.len : (int)sizeof(s->name) - 1,
			 value.data);
	} else if (sc_span_is(name, "data")) {
		if ((s->has_data && sc_bytes_putc(&s->data, '\n') < 0) ||
		    sc_bytes_put(&s->data, value.data, value.len) < 0)
			return too_long(&s->data, err);
		s->has_data = true;
	}
	return 0;
}

/* 1: the line ends an event that has data. */
static int take_line(struct sc_sse *s, struct sc_span line, struct sc_err *err)
{
	bool due;

	if (!s->begun && line.len >= 3 && !memcmp(line.data, "\xef\xbb\xbf", 3))
		line = sc_span(line.data + 3, line.len - 3);
	s->begun = true;
	if (line.len)
		return line.data[0] == ':' ? 0 : take_field(s, line, err);
	due = s->has_data;
	if (!due)
		s->name[0] = '\0';
	return due;
}

int sc_sse_read(struct sc_sse *s, const char *data, size_t len, size_t *ret_used,
		struct sc_sse_event *ret_event, struct sc_err *err)
{
	size_t at = 0;

	if (s->told) {
		sc_bytes_clear(&s->data);
		s->name[0] = '\0';
		s->has_data = s->told = false;
	}
	while (at < len) {
		size_t n = 0;
		int rc;

		if (s->after_cr && data[at] == '\n') {
			s->after_cr = false;
			at++;
			continue;
		}
		s->after_cr = false;
		while (at + n < len && data[at + n] != '\n' && data[at + n] != '\r')
			n++;
		if (sc_bytes_put(&s->line, data + at, n) < 0)
			return too_long(&s->line, err);
		at += n;
		if (at == len)
			break;
		s->after_cr = data[at++] == '\r';
		rc = take_line(s, sc_span(s->line.data ? s->line.data : "", s->line.len), err);
		sc_bytes_clear(&s->line);
		if (rc < 0)
			return rc;
		if (rc == 1) {
			*ret_event = (struct sc_sse_event){
				s->name, sc_span(s->data.data ? s->data.data : "", s->data.len)
			};
			s->told = true;
			*ret_used = at;
			return 1;
		}
	}
	*ret_used = at;
	return 0;
}
