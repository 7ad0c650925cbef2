/* A reader of a Durable Streams stream: requests, pages and events, offsets, ends and refusals. */
#include "../check.h"
#include "client/dsread.h"

static struct sc_dsread *r;
static struct sc_err err;
static struct sc_bytes target;
static struct sc_httphead head;
static enum sc_dsread_kind kind;
static struct sc_ds_message m;

static void open_read(const char *url_target, const char *offset, enum sc_ds_live live,
		      bool until_end)
{
	struct sc_dsread_options o = { url_target, offset, live, until_end, 64 };

	sc_dsread_free(r);
	CHECK_OK(sc_dsread_new(&o, &r, &err), &err);
	sc_bytes_done(&target);
	sc_bytes_init(&target, 4096);
}

#define ASKS(WANT) \
	do { \
		CHECK_OK(sc_dsread_target(r, &target, &err), &err); \
		CHECK_SPAN(target, WANT); \
	} while (0)

static int take_head(const char *text)
{
	CHECK(sc_httphead_parse(text, strlen(text), 4096, &head, &err) > 0);
	return sc_dsread_head(r, &head, &kind, &err);
}

#define HEAD(TEXT, KIND) \
	do { \
		CHECK_OK(take_head(TEXT), &err); \
		CHECK_INT(kind, KIND); \
	} while (0)
#define REFUSES(TEXT, CODE) CHECK_INT(take_head(TEXT), CODE)
#define PAGE(TEXT) CHECK_OK(sc_dsread_page(r, sc_span_str(TEXT), &err), &err)
#define GIVES(MSG, POSITION) \
	do { \
		CHECK(sc_dsread_next(r, &m)); \
		CHECK_SPAN(m.msg, MSG); \
		CHECK_INT(m.position, POSITION); \
	} while (0)
#define EVENT(NAME, TEXT) \
	do { \
		struct sc_sse_event event_ = { NAME, SC_SPAN(TEXT) }; \
		CHECK_OK(sc_dsread_event(r, &event_, &err), &err); \
	} while (0)

#define OFFSET(N) "0000000000000000_00000000000000" #N
#define JSON(N, MORE) \
	"HTTP/1.1 200 OK\r\nContent-Type: Application/JSON; " \
	"charset=utf-8\r\nStream-Next-Offset: " OFFSET(N) "\r\n" MORE "\r\n"

TEST(offsets)
{
	char text[SC_DS_POSITION_TEXT];
	uint64_t n;

	sc_ds_position_text(52, text);
	CHECK_STR(text, OFFSET(52));
	CHECK(sc_ds_position(sc_span_str(text), &n) && n == 52);
	CHECK(!sc_ds_position(SC_SPAN("0000000000000001_0000000000000052"), &n));
	CHECK(!sc_ds_position(SC_SPAN("0_52"), &n));
	CHECK(sc_ds_offset_valid(SC_SPAN("aB-._~!")));
	CHECK(!sc_ds_offset_valid(SC_SPAN("a,b")) && !sc_ds_offset_valid(SC_SPAN("a b")) &&
	      !sc_ds_offset_valid(SC_SPAN("")));
}

TEST(pages_then_long_polls)
{
	open_read("/v1/stream/a", "-1", SC_DS_LONG_POLL, false);
	ASKS("/v1/stream/a?offset=-1");
	CHECK(!sc_dsread_waits(r));
	HEAD(JSON(24, ""), SC_DS_PAGE);
	PAGE("[{\"m\":1},{\"m\":2.0}]");
	GIVES("{\"m\":1}", 11);
	CHECK(!m.last);
	GIVES("{\"m\":2.0}", 24);
	CHECK(m.last && !sc_dsread_next(r, &m));
	ASKS("/v1/stream/a?offset=" OFFSET(24));
	HEAD(JSON(29, "Stream-Up-To-Date: true\r\nStream-Cursor: 77\r\n"), SC_DS_PAGE);
	PAGE("[5]");
	GIVES("5", 29);
	CHECK(sc_dsread_waits(r));
	ASKS("/v1/stream/a?offset=" OFFSET(29) "&live=long-poll&cursor=77");
	HEAD("HTTP/1.1 204 No Content\r\nStream-Next-Offset: " OFFSET(
		     29) "\r\nStream-Up-To-Date: true\r\nStream-Cursor: 78\r\n\r\n",
	     SC_DS_NOTHING);
	ASKS("/v1/stream/a?offset=" OFFSET(29) "&live=long-poll&cursor=78");
	HEAD(JSON(29, "Stream-Up-To-Date: true\r\nStream-Closed: true\r\n"), SC_DS_PAGE);
	CHECK(!sc_dsread_finished(r));
	PAGE("[]");
	CHECK(sc_dsread_finished(r) && sc_dsread_closed(r));
}

/* A server that counts otherwise: only the end of an answer is known. */
TEST(positions_that_do_not_add_up)
{
	open_read("/v1/stream/a?x=1", "-1", SC_DS_LONG_POLL, true);
	ASKS("/v1/stream/a?x=1&offset=-1");
	HEAD(JSON(27, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[1,2]");
	GIVES("1", 0);
	CHECK(!sc_dsread_finished(r));
	GIVES("2", 27);
	CHECK(sc_dsread_finished(r));
	open_read("/v1/stream/a", "now", SC_DS_LONG_POLL, false);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nStream-Next-Offset: "
	     "opaque!7\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("[1,2]");
	GIVES("1", 0);
	GIVES("2", 0);
	CHECK(m.last);
	CHECK_SPAN(sc_dsread_offset(r), "opaque!7");
}

TEST(what_is_not_json)
{
	open_read("/v1/stream/a", "-1", SC_DS_LONG_POLL, false);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nStream-Next-Offset: " OFFSET(
		     24) "\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("a\nb");
	GIVES("{\"$text\":\"a\\nb\"}", 24);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nStream-Next-Offset: " OFFSET(
		     25) "\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("\xff");
	GIVES("{\"$base64\":\"/w==\"}", 25);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nStream-Next-Offset: " OFFSET(
		     25) "\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("");
	CHECK(!sc_dsread_next(r, &m));
}

TEST(events)
{
	open_read("/v1/stream/a", "now", SC_DS_SSE, false);
	HEAD(JSON(24, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[]");
	ASKS("/v1/stream/a?offset=" OFFSET(24) "&live=sse");
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", SC_DS_EVENTS);
	EVENT("control",
	      "{\"streamNextOffset\":\"" OFFSET(24) "\",\"streamCursor\":\"5\",\"upToDate\":true}");
	EVENT("data", "[1,22]");
	CHECK(!sc_dsread_next(r, &m));
	EVENT("control",
	      "{\"streamNextOffset\":\"" OFFSET(35) "\",\"streamCursor\":\"6\",\"upToDate\":true}");
	GIVES("1", 29);
	GIVES("22", 35);
	EVENT("later", "x");
	EVENT("data", "[3]");
	EVENT("control",
	      "{\"streamNextOffset\":\"" OFFSET(40) "\",\"streamClosed\":true,\"upToDate\":true}");
	GIVES("3", 40);
	CHECK(sc_dsread_finished(r));
	ASKS("/v1/stream/a?offset=" OFFSET(40) "&live=sse&cursor=6");
}

TEST(events_of_bytes)
{
	struct sc_sse_event bad = { "data", SC_SPAN("e") };

	open_read("/v1/stream/a", "now", SC_DS_SSE, false);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nStream-Up-To-Date: "
	     "true\r\nStream-Next-Offset: " OFFSET(10) "\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("");
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nStream-SSE-Data-Encoding: "
	     "base64\r\n\r\n",
	     SC_DS_EVENTS);
	EVENT("data", "/\nw==");
	EVENT("control", "{\"streamNextOffset\":\"" OFFSET(15) "\",\"upToDate\":true}");
	GIVES("{\"$base64\":\"/w==\"}", 15);
	CHECK_INT(sc_dsread_event(r, &bad, &err), SC_E_PROTOCOL);
}

/* A server that has not finished an append, or whose stream was made anew. */
TEST(an_end_before_the_offset_is_not_followed)
{
	open_read("/v1/stream/a", OFFSET(40), SC_DS_LONG_POLL, true);
	HEAD(JSON(31, "Stream-Up-To-Date: true\r\nStream-Closed: true\r\n"), SC_DS_PAGE);
	PAGE("[]");
	CHECK_INT(sc_dsread_back(r), 1);
	CHECK(!sc_dsread_finished(r) && !sc_dsread_waits(r));
	ASKS("/v1/stream/a?offset=" OFFSET(40));
	HEAD(JSON(35, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[]");
	CHECK_INT(sc_dsread_back(r), 2);
	HEAD(JSON(45, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[7]");
	GIVES("7", 45);
	CHECK_INT(sc_dsread_back(r), 0);
	CHECK(sc_dsread_finished(r));
	/* messages from before it are a lie */
	open_read("/v1/stream/a", OFFSET(40), SC_DS_SSE, false);
	HEAD(JSON(31, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	CHECK_INT(sc_dsread_page(r, SC_SPAN("[1]"), &err), SC_E_PROTOCOL);
	CHECK(!sc_dsread_next(r, &m));
	HEAD(JSON(40, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[]");
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", SC_DS_EVENTS);
	EVENT("control", "{\"streamNextOffset\":\"" OFFSET(31) "\",\"upToDate\":true}");
	CHECK_INT(sc_dsread_back(r), 1);
	ASKS("/v1/stream/a?offset=" OFFSET(40) "&live=sse");
}

/* Offsets that count rows: a log that is served. */
TEST(steps_of_one)
{
	open_read("/v1/stream/a", "-1", SC_DS_LONG_POLL, false);
	HEAD(JSON(03, ""), SC_DS_PAGE);
	PAGE("[7,{},\"x\"]");
	GIVES("7", 1);
	GIVES("{}", 2);
	GIVES("\"x\"", 3);
	HEAD(JSON(05, ""), SC_DS_PAGE);
	PAGE("[8,9]");
	GIVES("8", 4);
	GIVES("9", 5);
	/* a gap: only the end is known */
	HEAD(JSON(09, ""), SC_DS_PAGE);
	PAGE("[8,9]");
	GIVES("8", 0);
	GIVES("9", 9);
}

/* The reference server sends a data event for each request that it stored. */
TEST(several_data_events_are_one_answer)
{
	struct sc_sse_event long_one = { "data", SC_SPAN("[\"123456789012345678901234567890\"]") };
	struct sc_sse_event none = { "data", SC_SPAN("{}") }, part = { "data", SC_SPAN("[7") };

	open_read("/v1/stream/a", "now", SC_DS_SSE, false);
	HEAD(JSON(24, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	PAGE("[]");
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", SC_DS_EVENTS);
	EVENT("data", "[]");
	EVENT("data", " [1 ]\n");
	EVENT("data", "[ ]");
	EVENT("data", "[[2], 3]");
	CHECK(!sc_dsread_next(r, &m));
	EVENT("control", "{\"streamNextOffset\":\"" OFFSET(41) "\",\"upToDate\":true}");
	GIVES("1", 29);
	GIVES("[2]", 36);
	GIVES("3", 41);
	EVENT("data", "[]");
	EVENT("data", "[]");
	EVENT("control", "{\"streamNextOffset\":\"" OFFSET(41) "\",\"upToDate\":true}");
	CHECK(!sc_dsread_next(r, &m));
	EVENT("data", "[5]");
	CHECK_INT(sc_dsread_event(r, &part, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_dsread_event(r, &none, &err), SC_E_PROTOCOL);
	/* no more is held than was allowed */
	CHECK_OK(sc_dsread_event(r, &long_one, &err), &err);
	CHECK_INT(sc_dsread_event(r, &long_one, &err), SC_E_PROTOCOL);
	CHECK(strstr(err.reason, "longer than 64 bytes") != NULL);
	/* bytes, and texts */
	open_read("/v1/stream/a", "now", SC_DS_SSE, false);
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nStream-Up-To-Date: "
	     "true\r\nStream-Next-Offset: " OFFSET(10) "\r\n\r\n",
	     SC_DS_PAGE);
	PAGE("");
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", SC_DS_EVENTS);
	EVENT("data", "a [");
	EVENT("data", "] b");
	EVENT("control", "{\"streamNextOffset\":\"" OFFSET(24) "\",\"upToDate\":true}");
	GIVES("{\"$text\":\"a [] b\"}", 24);
}

TEST(refusals_and_lies)
{
	struct sc_sse_event event = { "control", SC_SPAN("{\"streamNextOffset\":5}") };
	struct sc_dsread_options o = { "/v1/stream/a?offset=5", "-1", SC_DS_LONG_POLL, false, 64 };
	struct sc_dsread *other = NULL;

	CHECK_INT(sc_dsread_new(&o, &other, &err), SC_E_USAGE);
	open_read("/v1/stream/a", "-1", SC_DS_SSE, false);
	/* which no such server says to that offset, or to "now" */
	REFUSES("HTTP/1.1 400 Bad Request\r\n\r\n", SC_E_PROTOCOL);
	CHECK(strstr(err.next, "--protocol streamcast"));
	open_read("/v1/stream/a", "now", SC_DS_SSE, false);
	REFUSES("HTTP/1.1 400 Bad Request\r\n\r\n", SC_E_PROTOCOL);
	open_read("/v1/stream/a", OFFSET(24), SC_DS_SSE, false);
	REFUSES("HTTP/1.1 400 Bad Request\r\n\r\n", SC_E_REFUSED);
	CHECK(strstr(err.fields, "\"why\":\"offset\""));
	open_read("/v1/stream/a", "-1", SC_DS_SSE, false);
	REFUSES("HTTP/1.1 401 Unauthorized\r\n\r\n", SC_E_NOAUTH);
	REFUSES("HTTP/1.1 404 Not Found\r\n\r\n", SC_E_NOLOG);
	REFUSES("HTTP/1.1 410 Gone\r\n\r\n", SC_E_REFUSED);
	REFUSES("HTTP/1.1 503 Busy\r\n\r\n", SC_E_BUSY);
	REFUSES("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", SC_E_PROTOCOL);
	CHECK(strstr(err.next, "/x"));
	REFUSES("HTTP/1.1 200 OK\r\n\r\n", SC_E_PROTOCOL); /* no offset */
	CHECK(strstr(err.next, "--protocol streamcast"));
	REFUSES("HTTP/1.1 200 OK\r\nStream-Next-Offset: a&b\r\n\r\n", SC_E_PROTOCOL);
	HEAD(JSON(24, "Stream-Up-To-Date: true\r\n"), SC_DS_PAGE);
	CHECK_INT(sc_dsread_page(r, SC_SPAN("{}"), &err), SC_E_PROTOCOL);
	CHECK_INT(sc_dsread_page(r, SC_SPAN("[1,"), &err), SC_E_PROTOCOL);
	PAGE("[]");
	REFUSES("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
		SC_E_PROTOCOL); /* events were asked for */
	HEAD("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", SC_DS_EVENTS);
	CHECK_INT(sc_dsread_event(r, &event, &err), SC_E_PROTOCOL);
	sc_dsread_free(r);
	r = NULL;
	sc_bytes_done(&target);
}
