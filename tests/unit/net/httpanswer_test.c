/* Answers of HTTP/1.1 in any pieces: heads, lengths, chunks, bodies up to the end; what is not
 * to be believed is refused. */
#include "../check.h"
#include "net/httpanswer.h"

static struct sc_err err;
static struct sc_bytes body;
static int status;
static bool done, closes, ends;

/* Feed TEXT in pieces of SIZE bytes: 0, or the code of the failure. */
static int feed(const char *text, size_t size, bool head_request)
{
	struct sc_httpanswer a;
	size_t len = strlen(text), at = 0;
	int rc = 0;

	sc_httpanswer_init(&a);
	sc_httpanswer_begin(&a, head_request);
	sc_bytes_done(&body);
	sc_bytes_init(&body, 1 << 20);
	status = 0;
	done = false;
	while (rc == 0 && at < len && !done) {
		size_t n = len - at < size ? len - at : size, used;
		char *copy = malloc(n); /* so that a sanitizer sees each byte too far */
		enum sc_httpanswer_step step = SC_ANSWER_BEGUN;
		struct sc_span piece;
		size_t from = 0;

		memcpy(copy, text + at, n);
		while (rc == 0 && step != SC_ANSWER_MORE && step != SC_ANSWER_DONE) {
			rc = sc_httpanswer_read(&a, copy + from, n - from, &used, &step, &piece,
						&err);
			if (rc == 0 && step == SC_ANSWER_BEGUN)
				status = a.head.status;
			if (rc == 0 && step == SC_ANSWER_BODY)
				CHECK_INT(sc_bytes_put(&body, piece.data, piece.len), 0);
			from += rc == 0 ? used : 0;
		}
		done = rc == 0 && step == SC_ANSWER_DONE;
		CHECK(rc < 0 || done || from == n);
		at += from;
		free(copy);
	}
	closes = a.closes;
	ends = sc_httpanswer_ends(&a);
	if (rc == 0 && done)
		CHECK_INT(at, len);
	sc_httpanswer_done(&a);
	return rc;
}

#define TAKES(TEXT, STATUS, BODY) \
	for (size_t size_ = 1; size_ < 200; size_ += 7) { \
		CHECK_OK(feed(TEXT, size_, false), &err); \
		CHECK_INT(status, STATUS); \
		CHECK_SPAN(body, BODY); \
	}
#define REFUSES(TEXT) CHECK_INT(feed(TEXT, 3, false), SC_E_PROTOCOL)

TEST(lengths)
{
	TAKES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
	CHECK(done && !closes);
	TAKES("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 200, "");
	CHECK(done && closes);
	TAKES("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
	CHECK(done);
	TAKES("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
	      304, "");
	CHECK(done);
	CHECK_OK(feed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 9, true), &err);
	CHECK(done);
	TAKES("HTTP/1.0 200 OK\r\n\r\nall of it", 200, "all of it");
	CHECK(!done && closes && ends);
	TAKES("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", 200, "hel");
	CHECK(!done && !ends);
	TAKES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok");
}

TEST(chunks)
{
	TAKES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	      "5\r\nhello\r\n00A;name=\"v\"\r\n wide worl\r\n1\r\nd\r\n0\r\nTrailer: x\r\n\r\n",
	      200, "hello wide world");
	CHECK(done && !closes);
	TAKES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "");
	CHECK(done);
}

TEST(not_to_be_believed)
{
	char text[8000];

	REFUSES("SSH-2.0-OpenSSH\r\n");
	REFUSES("HTTP/1.1 101 Switching Protocols\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n");
	REFUSES("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n");
	strcpy(text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;");
	memset(text + strlen(text), 'x', 5000);
	text[5050] = '\0';
	REFUSES(text);
	sc_bytes_done(&body);
}
