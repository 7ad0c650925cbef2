/* Server-sent events in any pieces: line ends, fields, comments, the limit. */
#include "../check.h"
#include "client/sse.h"

static struct sc_err err;
static char got[4096];

/* All events of TEXT, fed in pieces of SIZE bytes, as NAME=DATA; with LF shown as |. */
static int feed(const char *text, size_t size, size_t max)
{
	struct sc_sse sse;
	struct sc_sse_event event;
	size_t len = strlen(text);
	int rc = 0;

	sc_sse_init(&sse, max);
	sc_sse_begin(&sse);
	got[0] = '\0';
	for (size_t at = 0; rc >= 0 && at < len; at += size) {
		size_t n = len - at < size ? len - at : size, from = 0, used;

		while (from < n || rc == 1) {
			rc = sc_sse_read(&sse, text + at + from, n - from, &used, &event, &err);
			if (rc < 0)
				break;
			from += used;
			if (rc == 0)
				CHECK_INT(from, n);
			if (rc == 0)
				break;
			snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s=%.*s;",
				 event.name, (int)event.data.len, event.data.data);
		}
	}
	for (char *p = got; *p; p++)
		if (*p == '\n')
			*p = '|';
	sc_sse_done(&sse);
	return rc;
}

#define GIVES(TEXT, WANT) \
	for (size_t size_ = 1; size_ < 60; size_++) { \
		CHECK_INT(feed(TEXT, size_, 1000), 0); \
		CHECK_STR(got, WANT); \
	}

TEST(events)
{
	GIVES("event: data\ndata:[1,2]\n\nevent: control\ndata:{\"a\":1}\n\n",
	      "data=[1,2];control={\"a\":1};");
	GIVES("data:a\r\ndata: b\r\n\r\ndata\rdata:  c\r\r", "=a|b;=| c;");
	GIVES(": comment\n\ndata:x\nid:4\nretry:5\nstrange\n:data:y\n\n", "=x;");
	GIVES("\xef\xbb\xbf"
	      "data:x\n\n",
	      "=x;");
	GIVES("event:lost\n\ndata:x\n\n", "=x;");
	GIVES("event:data\ndata:\n\n", "data=;");
	GIVES("data:not ended\n", "");
	GIVES("event:a name that is far too long to be one of those\ndata:x\n\n",
	      "a name that is far too long to =x;");
}

TEST(too_long)
{
	CHECK_INT(feed("data:0123456789\n\n", 100, 12), SC_E_PROTOCOL);
	CHECK_INT(feed("data:01234\ndata:56789\ndata:x\n\n", 100, 11), SC_E_PROTOCOL);
	CHECK_INT(feed("data:012\n\n", 100, 12), 0);
}
