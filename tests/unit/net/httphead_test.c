/*
 * Goal    heads of HTTP answers are read strictly; Retry-After in both forms.
 * Method  texts, whole and cut at each byte.
 */
#include "net/httphead.h"

#include "../check.h"

static struct sc_err err;
static const char answer[] =
	"HTTP/1.1 101 Switching Protocols\r\nupgrade:  WebSocket \r\nConnection: keep-alive\r\n"
	"Connection: foo,\tUPGRADE\r\nX:\r\n\r\n";

TEST(a_head_is_whole_at_its_last_byte)
{
	struct sc_httphead head;

	for (size_t n = 0; n < sizeof(answer) - 1; n++)
		CHECK_INT(sc_httphead_parse(answer, n, 1000, &head, &err), 0);
	CHECK_INT(sc_httphead_parse(answer, sizeof(answer) - 1, 1000, &head, &err),
		  sizeof(answer) - 1);
	CHECK_INT(head.status, 101);
	CHECK_SPAN(head.reason, "Switching Protocols");
}

TEST(fields)
{
	struct sc_httphead head;
	struct sc_span v;

	CHECK(sc_httphead_parse(answer, sizeof(answer) - 1, 1000, &head, &err) > 0);
	CHECK(sc_httphead_find(&head, "Upgrade", 0, &v));
	CHECK_SPAN(v, "WebSocket");
	CHECK(sc_httphead_find(&head, "x", 0, &v));
	CHECK_INT(v.len, 0);
	CHECK(!sc_httphead_find(&head, "Y", 0, &v));
	CHECK(sc_httphead_has(&head, "connection", "upgrade"));
	CHECK(!sc_httphead_has(&head, "connection", "up"));
}

TEST(refusals)
{
	static const char *const cases[] = {
		"SSH-2.0\r\n",
		"HTTP/2 200\r\n\r\n",
		"HTTP/1.1 20\r\n\r\n",
		"HTTP/1.1 2000 x\r\n\r\n",
		"HTTP/1.1 099 x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"HTTP/1.1 200 OK\r\nA: \1\r\n\r\n",
		"HTTP/1.1 200 \1\r\n\r\n",
		"HTTP/1.1 200 OK\r\n: b\r\n\r\n",
	};
	struct sc_httphead head;
	char big[2000] = "HTTP/1.1 200 OK\r\nA: ";

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (sc_httphead_parse(cases[i], strlen(cases[i]), 1000, &head, &err) !=
		    SC_E_PROTOCOL)
			FAIL("taken: %s", cases[i]);
	memset(big + 20, 'a', sizeof(big) - 20);
	CHECK_INT(sc_httphead_parse(big, 999, 1000, &head, &err), 0);
	CHECK_INT(sc_httphead_parse(big, 1000, 1000, &head, &err), SC_E_PROTOCOL);
	CHECK(strstr(err.reason, "1000 bytes"));
}

static int64_t retry(const char *value)
{
	char text[200];
	struct sc_httphead head;
	int n = snprintf(text, sizeof(text), "HTTP/1.1 503\r\nRetry-After: %s\r\n\r\n", value);

	if (sc_httphead_parse(text, (size_t)n, 1000, &head, &err) <= 0)
		FAIL("not read: %s", value);
	return sc_httphead_retry_ms(&head, 784111777000000); /* Sun, 06 Nov 1994 08:49:37 GMT */
}

TEST(retry_after)
{
	CHECK_INT(retry("0"), 0);
	CHECK_INT(retry("120"), 120000);
	CHECK_INT(retry("Sun, 06 Nov 1994 08:50:37 GMT"), 60000);
	CHECK_INT(retry("Sun, 06 Nov 1994 08:40:37 GMT"), 0);
	CHECK_INT(retry("soon"), -1);
	CHECK_INT(retry("-5"), -1);
	CHECK_INT(retry("99999999999999999999999"), -1);
	CHECK_INT(retry("9999999999"), 31536000000);
}
