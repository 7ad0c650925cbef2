/*
 * Goal    a URL and what was said with it name one protocol, or are refused with what to do; what a
 *         Durable Streams server answers to a request for a WebSocket is known.
 * Method  every form of URL with everything that can be said.
 */
#include "../check.h"
#include "client/protocol.h"

static struct sc_err err;

static int choose(const char *url, enum sc_protocol said, const char *option)
{
	bool durable = false;
	int rc = sc_protocol_choose(url, said, option, &durable, &err);

	return rc < 0 ? rc : durable;
}

TEST(a_url_says_it)
{
	static const struct {
		const char *url;
		bool durable;
	} urls[] = {
		{ "http://h:4437/v1/stream/a", true },
		{ "https://h/v1/stream/a/b?x=1", true },
		{ "HTTP://h/v1/stream/a", true },
		{ "http://h/behind/a/proxy/v1/stream/a", true },
		{ "http://h/v1/stream", false },
		{ "http://h/v1/streams/a", false },
		{ "http://h/a?x=/v1/stream/a", false },
		{ "http://h/a#/v1/stream/a", false },
		{ "http://h?/v1/stream/a", false },
		{ "http://v1/stream/a", false },
		{ "http://h", false },
		{ "ws://h/v1/stream/a", false },
		{ "wss://h/v1/stream/a", false },
		{ "ws+unix:/sock:/v1/stream/a", false },
		{ "h/a", false }, /* whoever takes the URL apart refuses it */
	};

	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		if (choose(urls[i].url, SC_PROTOCOL_AUTO, NULL) != urls[i].durable)
			FAIL("%s", urls[i].url);
		if (strcmp(urls[i].url, "h/a") != 0)
			CHECK_INT(choose(urls[i].url, SC_PROTOCOL_DURABLE, NULL), 1);
		CHECK_INT(choose(urls[i].url, SC_PROTOCOL_STREAMCAST, NULL), 0);
	}
}

TEST(an_option_says_it)
{
	CHECK_INT(choose("http://h/a", SC_PROTOCOL_AUTO, "--create"), 1);
	CHECK_INT(choose("https://h/a", SC_PROTOCOL_AUTO, "--at"), 1);
	CHECK_INT(choose("ws+unix:/sock:/a", SC_PROTOCOL_DURABLE, "--at"), 1);
	CHECK_INT(choose("ws://h/v1/stream/a", SC_PROTOCOL_AUTO, "--close"), SC_E_USAGE);
	CHECK_STR(err.tried, "cannot use --close");
	CHECK_STR(err.reason, "it is for Durable Streams servers");
	CHECK_STR(err.next, "leave it out, or give the URL of one, as http://HOST:PORT/NAME");
	CHECK_INT(choose("ws+unix:/sock:/v1/stream/a", SC_PROTOCOL_AUTO, "--at"), SC_E_USAGE);
	CHECK_INT(choose("http://h/v1/stream/a", SC_PROTOCOL_STREAMCAST, "--state"), SC_E_USAGE);
	CHECK_STR(err.tried, "cannot use --state");
	CHECK_STR(err.next, "leave it out, or say --protocol durable");
}

TEST(a_url_without_a_scheme)
{
	CHECK_INT(choose("h:4437/v1/stream/a", SC_PROTOCOL_AUTO, NULL), SC_E_USAGE);
	CHECK_STR(err.next, "write it as http://h:4437/v1/stream/a");
	CHECK_INT(choose("h:4437/a", SC_PROTOCOL_DURABLE, NULL), SC_E_USAGE);
	CHECK_STR(err.reason, "it does not begin with http:// or https://");
	CHECK_STR(err.next, "write it as http://h:4437/a");
	CHECK_INT(choose("h:4437/v1/stream/a", SC_PROTOCOL_STREAMCAST, NULL), 0);
}

TEST(the_other_protocols_answer_is_known)
{
	sc_err_set(&err, SC_E_PROTOCOL, "cannot open a WebSocket at", "the server answered 200 OK");
	CHECK(!sc_protocol_other(SC_SPAN("Content-Type: text/html\r\nX: Stream-Next-Offset: 1\r\n"),
				 &err));
	CHECK(!sc_protocol_other(sc_span(NULL, 0), &err));
	CHECK_STR(err.next, "");
	CHECK(sc_protocol_other(SC_SPAN("Content-Type: text/html\r\nstream-next-offset: 1\r\n"),
				&err));
	CHECK_STR(err.reason, "the server answered 200 OK");
	CHECK_STR(err.next, "it is a Durable Streams server: say --protocol durable");
}
