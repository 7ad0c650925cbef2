/*
 * The pure parts of the HTTP face: chunked bodies cut at every place, the fields of an answer, the
 * count of an address's connections. Goal: what goes over the wire does not hang on where a packet
 * ends, and no answer lacks a field.
 */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "../check.h"
#include "net/chunks.h"
#include "durable/http_fields.h"
#include "durable/http_peers.h"

/* TEXT in pieces of STEP bytes: what it holds, 1 done, 0 not yet, -1 none; *ret_left: not taken. */
static int decode(struct sc_span text, size_t step, struct sc_bytes *out, size_t *ret_left)
{
	struct sc_chunks chunks = { .state = 0 };
	size_t at = 0;

	sc_bytes_clear(out);
	while (at < text.len && !chunks.done) {
		size_t len = text.len - at < step ? text.len - at : step;
		struct sc_span input = sc_span(text.data + at, len), data;
		int rc;

		while ((rc = sc_chunks_next(&chunks, &input, &data)) == 1)
			CHECK_INT(sc_bytes_put(out, data.data, data.len), 0);
		if (rc < 0)
			return -1;
		at += len - input.len;
	}
	*ret_left = text.len - at;
	return chunks.done;
}

TEST(chunks_are_the_same_wherever_they_are_cut)
{
	static const struct {
		const char *text, *want;
		int rc;
		size_t left;
	} cases[] = {
		{ "5\r\nhello\r\n0\r\n\r\n", "hello", 1, 0 },
		{ "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET /", "hello world", 1, 5 },
		{ "A;x=y;z\r\n0123456789\r\n000\r\n\r\n", "0123456789", 1, 0 },
		{ "1 \t\r\na\r\n1 ;e\r\nb\r\n0\r\nT: v\r\nU: w\r\n\r\n", "ab", 1, 0 },
		{ "0\r\n\r\n", "", 1, 0 },
		{ "5\r\nhel", "hel", 0, 0 },
		{ "5\r\nhello\r\n0\r\n\r", "hello", 0, 0 },
		{ "5\r\nhellox", "", -1, 0 },
		{ "5\nhello\r\n0\r\n\r\n", "", -1, 0 },
		{ "5 5\r\nhello\r\n0\r\n\r\n", "", -1, 0 },
		{ "\r\nhello", "", -1, 0 },
		{ ";x\r\n", "", -1, 0 },
		{ "-1\r\n", "", -1, 0 },
		{ "0x5\r\nhello\r\n", "", -1, 0 },
		{ "g\r\n", "", -1, 0 },
		{ "10000000000000000\r\n", "", -1, 0 },
		{ "00000000000000001\r\n", "", -1, 0 },
		{ "0\r\nT: v\n\r\n", "", -1, 0 },
		{ "0\r\n\rx", "", -1, 0 },
	};
	struct sc_bytes out;

	sc_bytes_init(&out, 1 << 20);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t step = 1; step < 40; step++) {
			size_t left = 0;
			int rc = decode(sc_span_str(cases[i].text), step, &out, &left);

			if (rc != cases[i].rc)
				printf("case %zu, step %zu\n", i, step);
			CHECK_INT(rc, cases[i].rc);
			if (rc < 0)
				continue;
			CHECK(sc_span_is(sc_span(out.data, out.len), cases[i].want));
			CHECK_INT(left, cases[i].left);
		}
	sc_bytes_done(&out);
}

TEST(extensions_and_trailers_have_a_limit)
{
	struct sc_bytes text, out;
	size_t left;

	sc_bytes_init(&text, 1 << 20);
	sc_bytes_init(&out, 1 << 20);
	CHECK_INT(sc_bytes_puts(&text, "1;"), 0);
	for (int i = 0; i < 5000; i++)
		CHECK_INT(sc_bytes_putc(&text, 'x'), 0);
	CHECK_INT(sc_bytes_puts(&text, "\r\na\r\n0\r\n\r\n"), 0);
	CHECK_INT(decode(sc_span(text.data, text.len), 1000, &out, &left), -1);
	sc_bytes_clear(&text);
	CHECK_INT(sc_bytes_puts(&text, "0\r\n"), 0);
	for (int i = 0; i < 5000; i++)
		CHECK_INT(sc_bytes_puts(&text, "T: v\r\n"), 0);
	CHECK_INT(decode(sc_span(text.data, text.len), 1000, &out, &left), -1);
	/* of data there is none: each byte may be a chunk of its own */
	sc_bytes_clear(&text);
	for (int i = 0; i < 10000; i++)
		CHECK_INT(sc_bytes_puts(&text, "1;e\r\nx\r\n"), 0);
	CHECK_INT(sc_bytes_puts(&text, "0\r\n\r\n"), 0);
	CHECK_INT(decode(sc_span(text.data, text.len), 777, &out, &left), 1);
	CHECK_INT(out.len, 10000);
	sc_bytes_done(&text);
	sc_bytes_done(&out);
}

static const char *value(const struct sc_ds_fields *fields, const char *name)
{
	const char *found = NULL;

	for (size_t i = 0; i < fields->count; i++)
		if (strcmp(fields->items[i].name, name) == 0) {
			CHECK(!found);
			found = fields->items[i].value;
		}
	return found ? found : "-";
}

TEST(fields_of_an_answer)
{
	struct sc_ds_face face = { "*", false };
	struct sc_ds_fields f;
	struct sc_ds_answer a;

	sc_ds_answer_init(&a);
	a.status = 200;
	a.has_next = a.up_to_date = a.closed = a.has_epoch = a.has_seq = a.has_expected =
		a.has_ttl = a.has_expiry = a.base64 = true;
	a.next = SC_DS_POSITION_MAX;
	a.epoch = a.seq = a.expected = a.received = SC_DS_PRODUCER_MAX;
	a.ttl_s = SC_DS_TTL_MAX;
	a.retry_after_s = 1;
	a.cache = SC_DS_CACHE_HISTORY;
	memcpy(a.etag, "\"1:0:7\"", 8);
	memcpy(a.cursor, "12", 3);
	CHECK_INT(sc_bytes_puts(&a.type, "text/html; x=y"), 0);
	sc_ds_fields_make(&f, &face, &a, "http://h/p");
	CHECK_STR(value(&f, "Content-Type"), "text/html; x=y");
	CHECK_STR(value(&f, "Stream-Next-Offset"), "0000000000000000_9999999999999999");
	CHECK_STR(value(&f, "Stream-Up-To-Date"), "true");
	CHECK_STR(value(&f, "Stream-Closed"), "true");
	CHECK_STR(value(&f, "Producer-Epoch"), "9007199254740991");
	CHECK_STR(value(&f, "Producer-Received-Seq"), "9007199254740991");
	CHECK_STR(value(&f, "Stream-TTL"), "1000000000000");
	CHECK_STR(value(&f, "Stream-Expires-At"), "1970-01-01T00:00:00Z");
	CHECK_STR(value(&f, "Stream-SSE-Data-Encoding"), "base64");
	CHECK_STR(value(&f, "ETag"), "\"1:0:7\"");
	CHECK_STR(value(&f, "Stream-Cursor"), "12");
	CHECK_STR(value(&f, "Cache-Control"), "public, max-age=60, stale-while-revalidate=300");
	CHECK_STR(value(&f, "Retry-After"), "1");
	CHECK_STR(value(&f, "Location"), "http://h/p");
	face.private_cache = true;
	sc_ds_fields_make(&f, &face, &a, NULL);
	CHECK_STR(value(&f, "Cache-Control"), "private, max-age=60, stale-while-revalidate=300");
	CHECK_STR(value(&f, "Location"), "-");
	sc_ds_answer_done(&a);
}

TEST(fields_of_refusals_and_of_all_answers)
{
	struct sc_ds_face face = { "*", false };
	struct sc_ds_fields f;
	struct sc_ds_answer a;
	struct sc_bytes text;

	sc_ds_answer_init(&a);
	sc_ds_answer_error(&a, 405, "no");
	sc_ds_fields_make(&f, &face, &a, NULL);
	CHECK_STR(value(&f, "Allow"), "GET, POST, PUT, DELETE, HEAD, OPTIONS");
	CHECK_STR(value(&f, "Content-Type"), "text/plain; charset=utf-8");
	sc_ds_answer_error(&a, 401, "no");
	sc_ds_fields_make(&f, &face, &a, NULL);
	CHECK_STR(value(&f, "WWW-Authenticate"), "Bearer");
	sc_ds_answer_error(&a, 204, NULL);
	sc_ds_fields_make(&f, &face, &a, NULL);
	CHECK_INT(f.count, 0);
	sc_ds_fields_every(&f, &face);
	CHECK_STR(value(&f, "Access-Control-Allow-Origin"), "*");
	CHECK_STR(value(&f, "X-Content-Type-Options"), "nosniff");
	CHECK_STR(value(&f, "Vary"), "-");
	face.cors = "https://a.example";
	sc_ds_fields_every(&f, &face);
	CHECK_STR(value(&f, "Access-Control-Allow-Origin"), "https://a.example");
	CHECK_STR(value(&f, "Vary"), "Origin");
	face.cors = "";
	sc_ds_fields_every(&f, &face);
	sc_bytes_init(&text, 4096);
	CHECK_INT(sc_ds_fields_put(&f, &text), 0);
	CHECK_STR(sc_bytes_str(&text), "X-Content-Type-Options: nosniff\r\n"
				       "Cross-Origin-Resource-Policy: cross-origin\r\n");
	sc_bytes_done(&text);
	sc_ds_answer_done(&a);
}

TEST(fields_of_a_request)
{
	struct sc_ds_request request = { .method = SC_DS_PUT };

	CHECK(sc_ds_request_field(&request, SC_SPAN("content-TYPE")) == &request.content_type);
	CHECK(sc_ds_request_field(&request, SC_SPAN("Stream-Fork-Sub-Offset")) ==
	      &request.fork_sub_offset);
	CHECK(!sc_ds_request_field(&request, SC_SPAN("Content-Typ")));
	CHECK(!sc_ds_request_field(&request, SC_SPAN("Content-Type2")));
	CHECK(!sc_ds_request_field(&request, SC_SPAN("")));
}

static struct sc_ds_peer peer4(uint32_t address)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(address) };

	return sc_ds_peer_of((struct sockaddr *)&in);
}

static struct sc_ds_peer peer6(const char *address)
{
	struct sockaddr_in6 in = { .sin6_family = AF_INET6 };

	CHECK_INT(inet_pton(AF_INET6, address, &in.sin6_addr), 1);
	return sc_ds_peer_of((struct sockaddr *)&in);
}

TEST(addresses_are_counted_apart)
{
	struct sockaddr local = { .sa_family = AF_UNIX };
	struct sc_ds_peers peers;
	struct sc_err err;

	CHECK_OK(sc_ds_peers_init(&peers, 2, &err), &err);
	CHECK(peer6("2001:db8::1").key == peer6("2001:db8::ffff:1").key);
	CHECK(peer6("2001:db8::1").key != peer6("2001:db8:0:1::1").key);
	CHECK(peer6("::ffff:1.2.3.4").key == peer4(0x01020304).key);
	/* as many as make the table grow, twice each, and no third */
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 5000; i++)
			CHECK(sc_ds_peers_enter(&peers, peer4(i * 7919)) == (round < 2));
	for (uint32_t i = 0; i < 5000; i += 2)
		sc_ds_peers_leave(&peers, peer4(i * 7919));
	for (uint32_t i = 0; i < 5000; i++)
		CHECK(sc_ds_peers_enter(&peers, peer4(i * 7919)) == (i % 2 == 0));
	for (int round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++)
			sc_ds_peers_leave(&peers, peer4(i * 7919));
	CHECK_INT(peers.used, 0);
	for (int i = 0; i < 10; i++)
		CHECK(sc_ds_peers_enter(&peers, sc_ds_peer_of(&local)));
	sc_ds_peers_done(&peers);
}
