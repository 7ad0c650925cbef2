/* Greetings of every protocol, byte for byte, and read back; what a client must refuse. */
#include "../check.h"
#include "wire/greeting.h"

static struct sc_bytes out, store;
static struct sc_greeting g;
static struct sc_err err;

static const char *build(int wire, bool durable)
{
	struct sc_greeting b = { .wire = wire, .stream = SC_SPAN("trades") };

	if (durable) {
		b.durable = b.has_end = b.has_replay = true;
		b.end_offset = b.replay_end = 1861;
		b.replay_first = 1200;
		b.schema = SC_SPAN("{\"type\":\"object\"}");
		b.stream_id = SC_SPAN("0000-1");
		b.group_commit = true;
		b.where = SC_SPAN("{\"a\":1}");
	}
	sc_bytes_done(&out);
	sc_bytes_init(&out, 1 << 20);
	CHECK_OK(sc_greeting_build(&b, &out), &err);
	return sc_bytes_str(&out);
}

#define BUILDS(ARGS, WANT) \
	do { \
		const char *text_ = build ARGS; \
		CHECK_STR(text_, WANT); \
	} while (0)

TEST(keys_in_order)
{
	BUILDS((1, true),
	       "{\"streamcast\":1,\"stream\":\"trades\",\"end_offset\":1861,\"replay\":[1200,1861],"
	       "\"durable\":true,\"schema\":{\"type\":\"object\"},\"archive\":null,\"stream_id\":"
	       "\"0000-1\"}");
	BUILDS((1, false),
	       "{\"streamcast\":1,\"stream\":\"trades\",\"end_offset\":null,\"replay\":null,"
	       "\"durable\":false,\"schema\":null,\"archive\":null,\"stream_id\":null}");
	BUILDS((2, true),
	       "{\"streamcast\":2,\"stream\":\"trades\",\"end_offset\":1861,\"replay\":[1200,1861],"
	       "\"durable\":true,\"schema\":{\"type\":\"object\"},\"log\":null,\"where\":{\"a\":1},"
	       "\"stream_id\":\"0000-1\"}");
	BUILDS((4, true),
	       "{\"streamcast\":4,\"stream\":\"trades\",\"end_offset\":1861,\"replay\":[1200,1861],"
	       "\"durable\":true,\"group_commit\":true,\"schema\":{\"type\":\"object\"},"
	       "\"metadata\":null,"
	       "\"stream_id\":\"0000-1\",\"where\":{\"a\":1}}");
	BUILDS((5, false),
	       "{\"streamcast\":5,\"stream\":\"trades\",\"end_offset\":null,\"replay\":null,"
	       "\"durable\":false,\"group_commit\":false,\"schema\":null,\"metadata\":null,"
	       "\"stream_id\":null,\"where\":null}");
}

/* Ours, for a connection that named a producer. */
TEST(producer)
{
	struct sc_greeting b = { .wire = 1, .tells_producer = true };

	sc_bytes_done(&out);
	sc_bytes_init(&out, 1 << 20);
	sc_bytes_init(&store, 1 << 20);
	CHECK_OK(sc_greeting_build(&b, &out), &err);
	CHECK(strstr(sc_bytes_str(&out), ",\"producer\":null}"));
	CHECK_OK(sc_greeting_parse(sc_span(out.data, out.len), &store, &g, &err), &err);
	CHECK(g.tells_producer && !g.has_producer);
	b.has_producer = true;
	b.producer_epoch = 3;
	b.producer_seq = 9223372036854775807ULL;
	sc_bytes_clear(&out);
	CHECK_OK(sc_greeting_build(&b, &out), &err);
	CHECK(strstr(sc_bytes_str(&out),
		     ",\"producer\":{\"epoch\":3,\"seq\":9223372036854775807}}"));
	CHECK_OK(sc_greeting_parse(sc_span(out.data, out.len), &store, &g, &err), &err);
	CHECK(g.tells_producer && g.has_producer && g.producer_epoch == 3);
	CHECK_INT(g.producer_seq, 9223372036854775807ULL);
	CHECK_OK(sc_greeting_parse(
			 SC_SPAN("{\"streamcast\":1,\"end_offset\":1,\"producer\":{\"epoch\":1}}"),
			 &store, &g, &err),
		 &err);
	CHECK(!g.tells_producer);
	sc_bytes_done(&store);
}

/* Ours, and the last one in every protocol; without an archive it is not there (above). */
TEST(archive)
{
	static const int wires[] = { 1, 2, 4, 5 };
	static const char tail[] = ",\"sc_archive\":\"s3://b/prod/\\\"x\\\"\"}";

	sc_bytes_init(&store, 1 << 20);
	for (int i = 0; i < 4; i++) {
		struct sc_greeting b = { .wire = wires[i],
					 .stream = SC_SPAN("trades"),
					 .sc_archive = SC_SPAN("s3://b/prod/\"x\"") };
		const char *text;

		sc_bytes_done(&out);
		sc_bytes_init(&out, 1 << 20);
		CHECK_OK(sc_greeting_build(&b, &out), &err);
		text = sc_bytes_str(&out);
		CHECK(strlen(text) > strlen(tail));
		CHECK_STR(text + strlen(text) - strlen(tail), tail);
		CHECK_OK(sc_greeting_parse(sc_span_str(text), &store, &g, &err), &err);
		CHECK_SPAN(g.sc_archive, "s3://b/prod/\"x\"");
		CHECK(!g.archive.len);
	}
	CHECK_OK(sc_greeting_parse(SC_SPAN("{\"streamcast\":1,\"end_offset\":5,\"sc_archive\":7}"),
				   &store, &g, &err),
		 &err);
	CHECK(!g.sc_archive.len);
	sc_bytes_done(&store);
	sc_bytes_done(&out);
}

#define READS(TEXT) \
	do { \
		const char *text_ = TEXT; \
		CHECK_OK(sc_greeting_parse(sc_span_str(text_), &store, &g, &err), &err); \
	} while (0)
#define REFUSES(TEXT, WORDS) \
	do { \
		CHECK_INT(sc_greeting_parse(sc_span_str(TEXT), &store, &g, &err), SC_E_PROTOCOL); \
		if (!strstr(err.reason, WORDS)) \
			FAIL("'%s' does not say '%s'", err.reason, WORDS); \
	} while (0)

TEST(built_ones_are_read_back)
{
	static const int wires[] = { 1, 2, 4, 5 };

	sc_bytes_init(&store, 1 << 20);
	for (int i = 0; i < 4; i++) {
		READS(build(wires[i], true));
		CHECK_INT(g.wire, wires[i]);
		CHECK_SPAN(g.stream, "trades");
		CHECK(g.has_end && g.has_replay && g.durable);
		CHECK_INT(g.end_offset, 1861);
		CHECK_INT(g.replay_first, 1200);
		CHECK_INT(g.replay_end, 1861);
		CHECK_SPAN(g.schema, "{\"type\":\"object\"}");
		CHECK_SPAN(g.stream_id, "0000-1");
		READS(build(wires[i], false));
		CHECK(!g.has_end && !g.has_replay && !g.durable && !g.schema.len &&
		      !g.stream_id.len);
	}
	sc_bytes_done(&store);
}

TEST(tolerant_and_strict)
{
	sc_bytes_init(&store, 1 << 20);
	READS(" {\"end_offset\": null, \"x\":[1], \"streamcast\": 3 }\n");
	CHECK_INT(g.wire, 3);
	CHECK(!g.stream.len && !g.durable);
	READS("{\"streamcast\":1,\"end_offset\":5,\"schema\":3,\"archive\":[],\"where\":\"x\","
	      "\"replay\":[1]}");
	CHECK(!g.schema.len && !g.archive.len && !g.where.len && !g.has_replay);
	READS("{\"streamcast\":2,\"end_offset\":5,\"stream\":\"a\\u00e9\",\"log\":{\"name\":\"x\","
	      "\"archive\":\"s3:\\/\\/b\"}}");
	CHECK_SPAN(g.archive, "s3://b");
	CHECK_SPAN(g.stream, "a\xc3\xa9");
	REFUSES("hello", "not JSON: hello");
	REFUSES("[1]", "no streamcast greeting");
	REFUSES("{\"a\":1}", "no streamcast greeting");
	REFUSES("{\"streamcast\":6,\"end_offset\":1}", "protocol 6");
	REFUSES("{\"streamcast\":\"1\",\"end_offset\":1}", "protocol \"1\"");
	REFUSES("{\"streamcast\":1}", "without end_offset");
	REFUSES("{\"streamcast\":1,\"end_offset\":\"x\"}", "no integer");
	REFUSES("", "not JSON");
	sc_bytes_done(&store);
	sc_bytes_done(&out);
}
