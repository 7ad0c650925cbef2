/* Publishers' frames in both forms, and replies. */
#include "../check.h"
#include "wire/publish.h"

static struct sc_publish p;
static struct sc_err err;

#define TAKES(TEXT, PRODUCER) \
	CHECK_OK(sc_publish_parse(sc_span_str(TEXT), PRODUCER, &p, &err), &err)
#define REFUSES(TEXT, PRODUCER, WORDS) \
	do { \
		CHECK_INT(sc_publish_parse(sc_span_str(TEXT), PRODUCER, &p, &err), SC_E_DATA); \
		if (!strstr(err.reason, WORDS)) \
			FAIL("'%s' does not say '%s'", err.reason, WORDS); \
	} while (0)

TEST(frames)
{
	struct sc_span row;

	TAKES(" {\"a\":1} ", false);
	CHECK_INT(p.count, 1);
	CHECK(sc_publish_next(&p, &row));
	CHECK_SPAN(row, "{\"a\":1}");
	CHECK(!sc_publish_next(&p, &row));
	TAKES("[{\"a\":1}, {}]", false);
	CHECK_INT(p.count, 2);
	CHECK(sc_publish_next(&p, &row) && sc_publish_next(&p, &row));
	CHECK_SPAN(row, "{}");
	CHECK(!sc_publish_next(&p, &row));
	REFUSES("[]", false, "empty");
	REFUSES("[{},3]", false, "element 2 is");
	REFUSES("3", false, "not an object");
	REFUSES("{", false, "not JSON");
	/* For an ordinary publisher this is a row. */
	TAKES("{\"seq\":1,\"rows\":[{}]}", false);
	CHECK_INT(p.count, 1);
}

TEST(producers)
{
	struct sc_span row;

	TAKES("{\"rows\":[{\"a\":1},\"x\",[3]],\"seq\":7}", true);
	CHECK_INT(p.seq, 7);
	CHECK_INT(p.count, 3);
	CHECK(sc_publish_next(&p, &row) && sc_publish_next(&p, &row) && sc_publish_next(&p, &row));
	CHECK_SPAN(row, "[3]");
	CHECK(!sc_publish_next(&p, &row));
	REFUSES("{\"rows\":[{}]}", true, "needs seq");
	REFUSES("{\"seq\":1}", true, "needs rows");
	REFUSES("{\"seq\":-1,\"rows\":[{}]}", true, "seq must");
	REFUSES("{\"seq\":1,\"rows\":{}}", true, "rows must");
	REFUSES("{\"seq\":1,\"rows\":[]}", true, "empty");
	REFUSES("{\"seq\":1,\"rows\":[{}],\"x\":1}", true, "seq, last and rows only");
	TAKES("{\"seq\":7,\"rows\":[1,2]}", true);
	CHECK_INT(p.last, 8);
	TAKES("{\"seq\":7,\"rows\":[1,2],\"last\":40}", true);
	CHECK_INT(p.seq, 7);
	CHECK_INT(p.last, 40);
	TAKES("{\"seq\":0,\"last\":0,\"rows\":[1]}", true);
	CHECK_INT(p.last, 0);
	REFUSES("{\"seq\":7,\"last\":7,\"rows\":[1,2]}", true, "more rows than numbers");
	REFUSES("{\"seq\":7,\"last\":6,\"rows\":[1]}", true, "more rows than numbers");
	REFUSES("{\"seq\":7,\"last\":9223372036854775808,\"rows\":[1]}", true, "last must");
	REFUSES("[{}]", true, "a producer sends");
}

TEST(replies)
{
	struct sc_publish_reply r;
	struct sc_bytes out;

	sc_bytes_init(&out, 4096);
	CHECK_OK(sc_publish_ok(&out, 8, 3, false), &err);
	CHECK_STR(sc_bytes_str(&out), "{\"ok\":[8,9,10]}");
	CHECK_OK(sc_publish_reply_parse(sc_span(out.data, out.len), &r, &err), &err);
	CHECK(r.ok && r.has_offsets && !r.duplicate);
	CHECK_INT(r.first, 8);
	CHECK_INT(r.last, 10);
	CHECK_INT(r.count, 3);
	sc_bytes_clear(&out);
	CHECK_OK(sc_publish_ok(&out, 0, 2, true), &err);
	CHECK_STR(sc_bytes_str(&out), "{\"ok\":[null,null],\"duplicate\":true}");
	CHECK_OK(sc_publish_reply_parse(sc_span(out.data, out.len), &r, &err), &err);
	CHECK(r.ok && !r.has_offsets && r.duplicate);
	sc_bytes_clear(&out);
	CHECK_OK(sc_publish_error(&out, "rejected", "column 'p'"), &err);
	CHECK_STR(sc_bytes_str(&out), "{\"error\":\"rejected\",\"detail\":\"column 'p'\"}");
	CHECK_OK(sc_publish_reply_parse(sc_span(out.data, out.len), &r, &err), &err);
	CHECK(!r.ok);
	CHECK_STR(r.word, "rejected");
	CHECK_STR(r.detail, "column 'p'");
	sc_bytes_done(&out);
	CHECK_INT(sc_publish_reply_parse(SC_SPAN("{}"), &r, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_publish_reply_parse(SC_SPAN("{\"ok\":3}"), &r, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_publish_reply_parse(SC_SPAN("{\"ok\":[1,null]}"), &r, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_publish_reply_parse(SC_SPAN("{\"ok\":[null,1]}"), &r, &err), SC_E_PROTOCOL);
	CHECK_INT(sc_publish_reply_parse(SC_SPAN("[]"), &r, &err), SC_E_PROTOCOL);
}
