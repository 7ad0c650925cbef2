/*
 * Goal: the schema language of streamcast-wire 9: what is accepted, what is refused in which words,
 * the published form. Method: tables of schema texts.
 */
#include "json/schema.h"
#include "../check.h"

static struct sc_schema *parsed(const char *text)
{
	struct sc_schema *schema = NULL;
	struct sc_err err = { 0 };

	CHECK_OK(sc_schema_parse(sc_span_str(text), &schema, &err), &err);
	return schema;
}

/* PROPERTIES and REQUIRED as JSON texts; the schema is refused with these words. */
static void refused(const char *text, const char *reason, const char *next)
{
	struct sc_schema *schema = NULL;
	struct sc_err err = { 0 };

	if (sc_schema_parse(sc_span_str(text), &schema, &err) == 0)
		FAIL("accepted: %s", text);
	CHECK_INT(err.code, SC_E_CONFIG);
	CHECK(!schema);
	CHECK_STR(err.reason, reason);
	CHECK_STR(err.next, next);
}

TEST(published_form)
{
	static const struct {
		const char *text, *published;
	} cases[] = {
		{ "{\"properties\":{\"a\":{\"type\":\"integer\"}},\"required\":[\"a\"]}",
		  "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\",\"format\":"
		  "\"int64\"}},"
		  "\"required\":[\"a\"]}" },
		{ " {\"title\":\"x\",\"type\":\"object\",\"required\":[\"c\",\"d\"],"
		  "\n\"properties\":{"
		  "\"a\":{\"type\":[\"null\",\"boolean\"]},\"b\":{\"type\":[\"number\",\"null\"],"
		  "\"format\":\"float\"},"
		  "\"c\":{\"format\":\"int32\",\"type\":[\"integer\"],\"description\":\"y\"},"
		  "\"d\":{\"type\":[\"string\",\"null\"],\"format\":null},\"e\\u00e9\\n\":{"
		  "\"type\":[\"number\",\"null\"]}}}",
		  "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"boolean\",\"null\"]},"
		  "\"b\":{\"type\":[\"number\",\"null\"],\"format\":\"float\"},\"c\":{\"type\":"
		  "\"integer\",\"format\":\"int32\"},"
		  "\"d\":{\"type\":[\"string\",\"null\"]},\"e\xc3\xa9\\n\":{\"type\":[\"number\","
		  "\"null\"],\"format\":\"double\"}},"
		  "\"required\":[\"c\"]}" },
		/* a repeated key: the last value in the place of the first */
		{ "{\"properties\":{\"a\":1,\"b\":{\"type\":[\"string\",\"null\"]},\"\\u0061\":{"
		  "\"type\":[\"boolean\",\"null\"]}}}",
		  "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":[\"boolean\",\"null\"]},"
		  "\"b\":{\"type\":[\"string\",\"null\"]}},\"required\":[]}" },
		{ "{\"properties\":{\"\":{\"type\":[\"string\",\"null\"]}}}",
		  "{\"type\":\"object\",\"properties\":{\"\":{\"type\":[\"string\",\"null\"]}},"
		  "\"required\":[]}" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_schema *schema = parsed(cases[i].text), *again;
		struct sc_err err = { 0 };

		CHECK_SPAN(sc_schema_text(schema), cases[i].published);
		again = parsed(cases[i].published);
		CHECK_SPAN(sc_schema_text(again), cases[i].published);
		CHECK_OK(sc_schema_same(schema, again, &err), &err);
		sc_schema_free(schema);
		sc_schema_free(again);
	}
}

TEST(columns)
{
	struct sc_schema *s = parsed(
		"{\"properties\":{\"a\\\"b\":{\"type\":\"integer\",\"format\":\"int32\"},"
		"\"price\":{\"type\":[\"number\",\"null\"]}},\"required\":[\"a\\\"b\"]}");

	CHECK_INT(sc_schema_count(s), 2);
	CHECK_SPAN(sc_schema_column(s, 0)->name, "a\"b");
	CHECK_SPAN(sc_schema_column(s, 0)->key, "\"a\\\"b\":");
	CHECK_INT(sc_schema_column(s, 0)->type, SC_COL_INT32);
	CHECK(!sc_schema_column(s, 0)->nullable);
	CHECK_SPAN(sc_schema_column(s, 1)->key, "\"price\":");
	CHECK_INT(sc_schema_column(s, 1)->type, SC_COL_DOUBLE);
	CHECK(sc_schema_column(s, 1)->nullable);
	CHECK_INT(sc_schema_find(s, SC_SPAN("price")), 1);
	CHECK_INT(sc_schema_find(s, SC_SPAN("a\"b")), 0);
	CHECK_INT(sc_schema_find(s, SC_SPAN("pric")), -1);
	CHECK_INT(sc_schema_find(s, SC_SPAN("")), -1);
	sc_schema_free(s);
	sc_schema_free(NULL);
}

TEST(schema_refusals)
{
	refused("[1]", "a stream's schema is an object schema, and this is an array", "");
	refused("{\"type\":\"array\"}",
		"a stream's schema is an object schema, and this one has type \"array\"", "");
	refused("{\"type\":[\"object\"]}",
		"a stream's schema is an object schema, and this one has type [\"object\"]", "");
	refused("{}", "it needs a non-empty properties object: the columns", "");
	refused("{\"properties\":{}}", "it needs a non-empty properties object: the columns", "");
	refused("{\"properties\":[]}", "it needs a non-empty properties object: the columns", "");
	refused("{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":\"a\"}",
		"required is a list of names, and this is a string", "");
	refused("{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[1]}",
		"required is a list of names, and it holds an integer", "");
	refused("{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\",\"b\",\"c\"]}",
		"required names columns that are not declared: \"b\", \"c\"",
		"a typo there would silently make a column nullable, so it is refused");
	refused("{\"a\":", "not JSON: the text ends inside a value at byte 5", "");
}

static void column_refused(const char *spec, const char *reason, const char *next)
{
	char text[400];

	snprintf(text, sizeof(text), "{\"properties\":{\"price\":%s},\"required\":[\"price\"]}",
		 spec);
	refused(text, reason, next);
}

TEST(column_refusals)
{
	static const char list[] = "the types are boolean, integer, number and string; the formats "
				   "int64 and int32 of an "
				   "integer, double and float of a number";

	column_refused("1", "column 'price': expected a schema object, found an integer", "");
	column_refused("{}", "column 'price': missing type", "");
	column_refused("{\"type\":[]}", "column 'price': missing type: the list is empty", "");
	column_refused("{\"type\":1}", "column 'price': type is a name, or a list of one and null",
		       "");
	column_refused("{\"type\":[1]}",
		       "column 'price': a list of types holds something that is no name", "");
	column_refused("{\"type\":[\"integer\",\"string\"]}",
		       "column 'price': a union is not a column",
		       "give one type, and optionally null");
	column_refused("{\"type\":\"null\"}", "column 'price': null alone carries nothing",
		       "give it a type");
	column_refused("{\"type\":[\"null\"]}", "column 'price': null alone carries nothing",
		       "give it a type");
	column_refused("{\"type\":\"object\"}",
		       "column 'price': objects and arrays are not columns",
		       "flatten it, or send it as a JSON string");
	column_refused("{\"type\":[\"array\",\"null\"]}",
		       "column 'price': objects and arrays are not columns",
		       "flatten it, or send it as a JSON string");
	column_refused("{\"type\":\"string\",\"format\":\"date-time\"}",
		       "column 'price': dates and times are not stored", "store epoch integers");
	column_refused("{\"type\":\"string\",\"format\":\"binary\"}",
		       "column 'price': bytes are not stored", "use a string");
	column_refused(
		"{\"type\":\"integer\",\"format\":\"uint64\"}",
		"column 'price': type \"integer\" with format \"uint64\" is not a column type",
		list);
	column_refused("{\"type\":\"string\",\"format\":\"int64\"}",
		       "column 'price': type \"string\" with format \"int64\" is not a column type",
		       list);
	column_refused("{\"type\":\"number\",\"format\":\"int64\"}",
		       "column 'price': type \"number\" with format \"int64\" is not a column type",
		       list);
	column_refused("{\"type\":\"boolean\",\"format\":1}",
		       "column 'price': type \"boolean\" with format 1 is not a column type", list);
	column_refused("{\"type\":\"int\"}", "column 'price': type \"int\" is not a column type",
		       list);
	refused("{\"properties\":{\"price\":{\"type\":\"string\"}}}",
		"column 'price': it is neither required nor nullable",
		"add it to required, or add null to its type");
	refused("{\"properties\":{\"streamcast_ts\":{\"type\":\"integer\"}},\"required\":["
		"\"streamcast_ts\"]}",
		"column 'streamcast_ts': the name is the system's", "choose another name");
	refused("{\"properties\":{\"litelink_offset\":{\"type\":\"integer\"}}}",
		"column 'litelink_offset': the name is the system's", "choose another name");
}

TEST(too_many_columns)
{
	struct sc_schema *schema = NULL;
	struct sc_bytes text;
	struct sc_err err = { 0 };

	sc_bytes_init(&text, 1 << 20);
	CHECK_INT(sc_bytes_puts(&text, "{\"properties\":{"), 0);
	for (int i = 0; i < SC_SCHEMA_COLUMNS_MAX; i++)
		CHECK_INT(sc_bytes_putf(&text, "%s\"c%d\":{\"type\":[\"null\",\"string\"]}",
					i ? "," : "", i),
			  0);
	CHECK_INT(sc_bytes_puts(&text, "}}"), 0);
	CHECK_OK(sc_schema_parse(sc_span(text.data, text.len), &schema, &err), &err);
	CHECK_INT(sc_schema_find(schema, SC_SPAN("c1023")), 1023);
	sc_schema_free(schema);
	text.len -= 2;
	CHECK_INT(sc_bytes_puts(&text, ",\"more\":{}}}"), 0);
	CHECK_INT(sc_schema_parse(sc_span(text.data, text.len), &schema, &err), SC_E_CONFIG);
	CHECK_STR(err.reason, "it has more than 1024 columns");
	sc_bytes_done(&text);
}

TEST(other_columns_are_named)
{
	struct sc_schema *a = parsed("{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{"
				     "\"type\":[\"number\",\"null\"]}},"
				     "\"required\":[\"a\"]}");
	struct sc_schema *b = parsed(
		"{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"number\"},"
		"\"c\":{\"type\":\"string\"}},\"required\":[\"a\",\"b\",\"c\"]}");
	struct sc_err err = { 0 };

	CHECK_INT(sc_schema_same(a, b, &err), SC_E_CONFIG);
	CHECK_STR(err.reason, "its columns are (a int64, b double, c string) and should be (a "
			      "int64, b double or null)");
	CHECK_STR(err.next,
		  "the first difference is in column 2; names, types, nulls and order must agree");
	sc_schema_free(a);
	sc_schema_free(b);
}
