/*
 * Goal    request heads are read strictly, and any bytes are safe.
 * Method  heads by hand; heads with random bytes changed, in memory of exactly their size (for the
 *         sanitizers).
 */
#include "net/http.h"

#include <stdlib.h>

#include "base/clock.h"
#include "../check.h"

static const char good[] =
	"GET /a%2F?b HTTP/1.1\r\nHost: example:80\r\nConnection: keep-alive ,\tUpgrade\r\n"
	"X-Empty:\r\nX-Pad: \t in  side \t\r\nCONNECTION: other\r\n\r\n";

TEST(a_head)
{
	struct sc_http_head h;

	CHECK_INT(sc_http_head_end(good, sizeof(good) - 1, 0), sizeof(good) - 1);
	CHECK_INT(sc_http_parse(good, sizeof(good) - 1, &h), 0);
	CHECK_SPAN(h.method, "GET");
	CHECK_SPAN(h.target, "/a%2F?b");
	CHECK_INT(h.minor, 1);
	CHECK_INT(h.count, 5);
	CHECK_SPAN(sc_http_field(&h, "host"), "example:80");
	CHECK_SPAN(sc_http_field(&h, "x-empty"), "");
	CHECK(sc_http_field(&h, "x-empty").data && !sc_http_field(&h, "x-none").data);
	CHECK_SPAN(sc_http_field(&h, "x-pad"), "in  side");
	CHECK_INT(sc_http_field_count(&h, "connection"), 2);
	CHECK(sc_http_lists(&h, "connection", "UPGRADE") &&
	      sc_http_lists(&h, "connection", "other"));
	CHECK(!sc_http_lists(&h, "connection", "keep") && !sc_http_lists(&h, "connection", ""));
}

TEST(the_end_is_found_whatever_the_pieces)
{
	for (size_t cut = 0; cut < sizeof(good) - 1; cut++) {
		CHECK_INT(sc_http_head_end(good, cut, 0), 0);
		CHECK_INT(sc_http_head_end(good, sizeof(good) - 1, cut), sizeof(good) - 1);
	}
}

TEST(random_bytes_are_safe)
{
	for (int i = 0; i < 200000; i++) {
		size_t len = 1 + sc_random_below(sizeof(good) - 1), changes = sc_random_below(4);
		char *text = malloc(len);
		struct sc_http_head h;
		int status;

		memcpy(text, good, len);
		while (changes--)
			text[sc_random_below(len)] = "\r\n :\t\0\xff/1Aa"[sc_random_below(12)];
		(void)sc_http_head_end(text, len, sc_random_below(len + 1));
		status = sc_http_parse(text, len, &h);
		CHECK(status == 0 || status == 400 || status == 431 || status == 505);
		if (status == 0) {
			CHECK(h.target.len > 0 && !memchr(h.target.data, '\n', h.target.len));
			(void)sc_http_lists(&h, "connection", "upgrade");
			for (size_t k = 0; k < h.count; k++)
				CHECK(!memchr(h.fields[k].value.data, '\r', h.fields[k].value.len));
		}
		free(text);
	}
}

TEST(keys)
{
	char text[SC_HTTP_ACCEPT_TEXT];

	CHECK(sc_http_accept(SC_SPAN("dGhlIHNhbXBsZSBub25jZQ=="), text));
	CHECK_STR(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); /* RFC 6455, 1.3 */
	CHECK(!sc_http_accept(SC_SPAN("dGhlIHNhbXBsZSBub25jZQ="), text));
	CHECK(!sc_http_accept(SC_SPAN("dGhlIHNhbXBsZSBub25jZQA="), text));
	CHECK(!sc_http_accept(SC_SPAN("dGhlIHNhbXBsZ\nBub25jZQ=="), text));
	CHECK(!sc_http_accept(sc_span(NULL, 0), text));
}

TEST(answers)
{
	struct sc_bytes b;

	sc_bytes_init(&b, 4096);
	CHECK_INT(sc_http_put_head(&b, 405, NULL, "Allow: GET\r\n", 0), 0);
	CHECK_MEM(b.data, b.len,
		  "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nAllow: GET\r\n"
		  "Connection: close\r\n\r\n");
	sc_bytes_done(&b);
}
