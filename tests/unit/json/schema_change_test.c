/*
 * Goal: which schema may follow another, in which words the others are refused, and what is told of
 * the difference. Method: a table of pairs, and of histories.
 */
#include "json/schema.h"
#include "../check.h"

static struct sc_schema *parsed(const char *properties, const char *required)
{
	struct sc_schema *schema = NULL;
	struct sc_err err = { 0 };
	char text[1000];

	snprintf(text, sizeof(text), "{\"properties\":{%s},\"required\":[%s]}", properties,
		 required);
	CHECK_OK(sc_schema_parse(sc_span_str(text), &schema, &err), &err);
	return schema;
}

struct told {
	char text[400];
};

static void tell(void *arg, const struct sc_schema_change *change)
{
	static const char signs[] = { [SC_SCHEMA_ADDED] = '+',
				      [SC_SCHEMA_NULLABLE] = '?',
				      [SC_SCHEMA_REMOVED] = '-',
				      [SC_SCHEMA_ORDER] = '~' };
	struct told *t = arg;
	size_t len = strlen(t->text);

	snprintf(t->text + len, sizeof(t->text) - len, "%c%.*s ", signs[change->act],
		 change->column ? (int)change->column->name.len : 0,
		 change->column ? change->column->name.data : "");
}

#define INT "\"type\":\"integer\""
#define A "\"a\":{\"type\":\"integer\"}"
#define A_NULL "\"a\":{\"type\":[\"integer\",\"null\"]}"
#define B "\"b\":{\"type\":\"string\"}"
#define B_NULL "\"b\":{\"type\":[\"string\",\"null\"]}"

TEST(what_may_follow)
{
	static const struct {
		const char *from, *from_required, *next, *next_required;
		const char *told, *reason; /* one of both */
	} cases[] = {
		{ A "," B_NULL, "\"a\"", A "," B_NULL, "\"a\"", "", NULL },
		{ A, "\"a\"", A "," B_NULL, "\"a\"", "+b ", NULL },
		{ A, "\"a\"", B_NULL "," A, "\"a\"", "+b ", NULL },
		{ A "," B, "\"a\",\"b\"", A, "\"a\"", "-b ", NULL },
		{ A "," B_NULL, "\"a\"", A, "\"a\"", "-b ", NULL },
		{ A, "\"a\"", A_NULL, "", "?a ", NULL },
		{ A "," B, "\"a\",\"b\"", B "," A, "\"a\",\"b\"", "~ ", NULL },
		{ A "," B, "\"a\",\"b\"", B_NULL ",\"c\":{\"type\":[\"boolean\",\"null\"]}", "",
		  "?b +c -a ", NULL },
		{ A "," B, "\"a\",\"b\"", "\"c\":{\"type\":[\"boolean\",\"null\"]}", "",
		  "+c -a -b ", NULL },
		/* a width written out is the same type */
		{ A, "\"a\"", "\"a\":{\"format\":\"int64\"," INT "}", "\"a\"", "", NULL },

		{ A, "\"a\"", A "," B, "\"a\",\"b\"", NULL,
		  "column 'b' is added and cannot be required: the rows before it have none" },
		{ A_NULL, "", A, "\"a\"", NULL,
		  "column 'a' could be null so far and cannot be made required: rows with null are "
		  "stored" },
		{ A, "\"a\"", "\"a\":{\"format\":\"int32\"," INT "}", "\"a\"", NULL,
		  "column 'a' cannot be int32: it is int64, and a column keeps its type for ever" },
		{ A, "\"a\"", "\"a\":{\"type\":[\"string\",\"null\"]}", "", NULL,
		  "column 'a' cannot be string: it is int64, and a column keeps its type for "
		  "ever" },
		{ "\"a\":{\"type\":\"number\"}", "\"a\"",
		  "\"a\":{\"type\":\"number\",\"format\":\"float\"}", "\"a\"", NULL,
		  "column 'a' cannot be float: it is double, and a column keeps its type for "
		  "ever" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sc_schema *from = parsed(cases[i].from, cases[i].from_required);
		struct sc_schema *next = parsed(cases[i].next, cases[i].next_required);
		const struct sc_schema *before[] = { from };
		struct sc_err err = { 0 };
		struct told told = { "" };
		int rc = sc_schema_may_follow(before, 1, next, &err);

		if (cases[i].reason) {
			CHECK_INT(rc, SC_E_CONFIG);
			CHECK_STR(err.reason, cases[i].reason);
			CHECK(err.next[0]);
		} else {
			size_t count;

			CHECK_OK(rc, &err);
			count = sc_schema_changes(from, next, tell, &told);
			CHECK_STR(told.text, cases[i].told);
			CHECK_INT(count == 0,
				  told.text[0] == 0 && sc_schema_same(from, next, NULL) == 0);
			CHECK_INT(sc_schema_changes(from, next, NULL, NULL), count);
		}
		sc_schema_free(from);
		sc_schema_free(next);
	}
}

/* A column that was removed comes back as what it was, and can be null then. */
TEST(a_type_is_for_ever)
{
	struct sc_schema *one = parsed(A "," B, "\"a\",\"b\""), *two = parsed(A, "\"a\"");
	struct sc_schema *again = parsed(A "," B_NULL, "\"a\""),
			 *strict = parsed(A "," B, "\"a\",\"b\"");
	struct sc_schema *other = parsed(A ",\"b\":{\"type\":[\"boolean\",\"null\"]}", "\"a\"");
	const struct sc_schema *before[] = { one, two, two };
	struct sc_err err = { 0 };

	for (size_t count = 2; count <= 3; count++) {
		CHECK_OK(sc_schema_may_follow(before, count, again, &err), &err);
		CHECK_INT(sc_schema_may_follow(before, count, strict, &err), SC_E_CONFIG);
		CHECK_STR(err.reason, "column 'b' is added and cannot be required: the rows before "
				      "it have none");
		CHECK_INT(sc_schema_may_follow(before, count, other, &err), SC_E_CONFIG);
		CHECK_STR(err.reason, "column 'b' cannot be boolean: it was removed as string, and "
				      "a column keeps its type for ever");
	}
	sc_schema_free(one);
	sc_schema_free(two);
	sc_schema_free(again);
	sc_schema_free(strict);
	sc_schema_free(other);
}

/* Behind a time without a schema columns may be required: nothing was promised of those rows. */
TEST(the_first_schema)
{
	struct sc_schema *next = parsed(A "," B_NULL, "\"a\"");
	const struct sc_schema *before[] = { NULL };
	struct sc_err err = { 0 };
	struct told told = { "" };

	CHECK_OK(sc_schema_may_follow(before, 1, next, &err), &err);
	CHECK_INT(sc_schema_changes(NULL, next, tell, &told), 2);
	CHECK_STR(told.text, "+a +b ");
	sc_schema_free(next);
}
