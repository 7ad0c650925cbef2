/* Filters: Python's equality, exact integers, refusals. */
#include "../check.h"
#include "wire/where.h"

static struct sc_err err;

static int match(const char *filter, const char *row)
{
	struct sc_where *w;
	int rc;

	CHECK_OK(sc_where_parse(sc_span_str(filter), NULL, &w, &err), &err);
	rc = sc_where_match(w, sc_span_str(row));
	sc_where_free(w);
	return rc;
}

TEST(equality)
{
	CHECK(match("{}", "{\"a\":1}"));
	CHECK(match("{}", "3"));
	CHECK(match("{\"a\":1}", "{\"a\":1}"));
	CHECK(match("{\"a\":1}", "{\"a\":1.0}"));
	CHECK(match("{\"a\":1}", "{\"a\":10e-1}"));
	CHECK(match("{\"a\":1}", "{\"a\":true}"));
	CHECK(match("{\"a\":0}", "{\"a\":false}"));
	CHECK(match("{\"a\":-0.0}", "{\"a\":0}"));
	CHECK(match("{\"a\":-0}", "{\"a\":0.0}"));
	CHECK(match("{\"a\":0.1}", "{\"a\":1e-1}"));
	CHECK(!match("{\"a\":1}", "{\"a\":2}"));
	CHECK(!match("{\"a\":1}", "{\"a\":\"1\"}"));
	CHECK(!match("{\"a\":1}", "{}"));
	CHECK(match("{\"a\":null}", "{}"));
	CHECK(match("{\"a\":null}", "{\"a\":null}"));
	CHECK(match("{\"a\":null}", "7"));
	CHECK(!match("{\"a\":null}", "{\"a\":0}"));
	CHECK(match("{\"a\":9007199254740993}", "{\"a\":9007199254740993}"));
	CHECK(!match("{\"a\":9007199254740993}", "{\"a\":9007199254740992}"));
	CHECK(!match("{\"a\":9007199254740993}", "{\"a\":9007199254740992.0}"));
	CHECK(match("{\"a\":1e22}", "{\"a\":10000000000000000000000}"));
	CHECK(!match("{\"a\":1}", "{\"a\":[1]}"));
	CHECK(!match("{\"a\":null}", "{\"a\":{}}"));
	CHECK(match("{\"a\":\"\\u00e9\"}", "{\"a\":\"\xc3\xa9\"}"));
	CHECK(match("{\"\\u0061\":\"\"}", "{\"a\":\"\"}"));
	CHECK(match("{\"a\":2}", "{\"a\":1,\"a\":2}"));
}

TEST(terms)
{
	struct sc_where *w;

	CHECK(match("{\"a\":[1,2],\"b\":\"x\"}", "{\"b\":\"x\",\"a\":2}"));
	CHECK(!match("{\"a\":[1,2],\"b\":\"x\"}", "{\"b\":\"y\",\"a\":2}"));
	CHECK(!match("{\"a\":[1,2]}", "{\"a\":3}"));
	CHECK(match("{\"a\":[1,null]}", "{}"));
	CHECK(match("{\"a\":1,\"a\":2}", "{\"a\":2}"));
	CHECK(!match("{\"a\":1,\"a\":2}", "{\"a\":1}"));
	CHECK_OK(sc_where_parse(SC_SPAN(" { \"a\" : [ 1.0 , \"x\" ] , \"b\" : null } "), NULL, &w,
				&err),
		 &err);
	CHECK_SPAN(sc_where_text(w), "{\"a\":[1.0,\"x\"],\"b\":null}");
	sc_where_free(w);
}

#define REFUSES(TEXT, SCHEMA, WORDS) \
	do { \
		CHECK_INT(sc_where_parse(sc_span_str(TEXT), SCHEMA, &where, &err), SC_E_DATA); \
		if (!strstr(err.reason, WORDS)) \
			FAIL("'%s' does not say '%s'", err.reason, WORDS); \
	} while (0)

TEST(refusals)
{
	struct sc_schema *schema;
	struct sc_where *where;

	REFUSES("[]", NULL, "object");
	REFUSES("{", NULL, "object");
	REFUSES("{\"a\":{}}", NULL, "'a'");
	REFUSES("{\"a\":[1,[]]}", NULL, "'a'");
	REFUSES("{\"a\":[]}", NULL, "empty");
	REFUSES("{\"a\\u0000b\":1}", NULL, "U+0000");
	CHECK_OK(sc_schema_parse(SC_SPAN("{\"properties\":{\"p\":{\"type\":\"number\"},\"q\":{"
					 "\"type\":\"string\"}},"
					 "\"required\":[\"p\",\"q\"]}"),
				 &schema, &err),
		 &err);
	REFUSES("{\"x\":1}", schema, "no column 'x'; columns: p, q");
	CHECK_OK(sc_where_parse(SC_SPAN("{\"p\":1}"), schema, &where, &err), &err);
	sc_where_free(where);
	sc_schema_free(schema);
}
