/* Lines of input as rows: pairs and bare rows, numbers, checks against a schema, and the lines that
 * are printed. */
#include "../check.h"
#include "client/pubrow.h"

static struct sc_pubrow *rows;
static struct sc_span row;
static uint64_t number, line;
static struct sc_bytes out;
static struct sc_err err;
static bool rising;

static void open_rows(enum sc_pubrow_form form, bool wrap, bool any)
{
	struct sc_pubrow_options o = { .form = form, .wrap = wrap, .any = any, .rising = rising };

	sc_pubrow_free(rows);
	CHECK_OK(sc_pubrow_new(&o, &rows, &err), &err);
	line = 0;
	sc_bytes_done(&out);
	sc_bytes_init(&out, 4096);
}

#define TAKES(TEXT, ROW, NUMBER) \
	do { \
		CHECK_INT(sc_pubrow_take(rows, sc_span_str(TEXT), ++line, &row, &number, &err), \
			  1); \
		CHECK_SPAN(row, ROW); \
		CHECK_INT(number, NUMBER); \
	} while (0)
#define GIVES(TEXT, RC) \
	CHECK_INT(sc_pubrow_take(rows, sc_span_str(TEXT), ++line, &row, &number, &err), RC)
#define REFUSES(TEXT, WORDS) \
	do { \
		char said_[1300]; \
		GIVES(TEXT, SC_E_DATA); \
		sc_err_line(&err, said_, sizeof(said_)); \
		if (!strstr(said_, WORDS)) \
			FAIL("'%s' is not in '%s'", WORDS, said_); \
	} while (0)

TEST(either)
{
	open_rows(SC_PUBROW_AUTO, false, false);
	TAKES(" {\"a\": 1}\r", "{\"a\": 1}", 1);
	TAKES("[7,{\"b\":1.0}]", "{\"b\":1.0}", 2);
	TAKES("[null,{}]", "{}", 3);
	GIVES("  ", 0);
	REFUSES("[1,2,3]", "on line '5'");
	REFUSES("[1,2]", "a row is an object, not");
	REFUSES("{\"a\":", "on line '7'");
}

TEST(pairs)
{
	open_rows(SC_PUBROW_PAIRS, false, true);
	sc_pubrow_stored(rows, 6);
	GIVES("[5,1]", 2);
	GIVES("[6,1]", 2);
	TAKES("[9,1]", "1", 9);
	GIVES("[9,1]", 2);
	TAKES("[10,[1]]", "[1]", 10);
	REFUSES("{}", "not a pair");
	REFUSES("[null,1]", "null");
	/* a refused row leaves the number free */
	REFUSES("[11,{]", "not a pair");
	TAKES("[11,2]", "2", 11);
}

TEST(rising_numbers)
{
	rising = true;
	open_rows(SC_PUBROW_PAIRS, false, true);
	rising = false;
	TAKES("[9,1]", "1", 9);
	REFUSES("[9,1]", "its offset is 9, and 9 came before it");
	REFUSES("[8,1]", "on line '3'");
	TAKES("[10,1]", "1", 10);
}

TEST(pairs_without_a_meaning)
{
	open_rows(SC_PUBROW_MSGS, false, true);
	TAKES("[9,1]", "1", 1);
	TAKES("[9,2]", "2", 2);
	TAKES("[null,3]", "3", 3);
	REFUSES("{}", "not a pair");
	REFUSES("[1,2,3]", "not a pair");
}

TEST(numbered)
{
	open_rows(SC_PUBROW_BARE, false, true);
	sc_pubrow_stored(rows, 100);
	TAKES("[5,1]", "[5,1]", 101);
	open_rows(SC_PUBROW_LINES, false, true);
	sc_pubrow_stored(rows, 2);
	GIVES("1", 2);
	GIVES("2", 2);
	TAKES("3", "3", 3);
	GIVES("", 0);
	TAKES("5", "5", 5);
}

TEST(wrapped)
{
	open_rows(SC_PUBROW_AUTO, true, false);
	TAKES("so it is", "{\"$text\":\"so it is\"}", 1);
	TAKES("\xff", "{\"$base64\":\"/w==\"}", 2);
}

#define SCHEMA(COLUMN) \
	"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"" COLUMN \
	"\":{\"type\":[\"string\",\"null\"]}},\"required\":[\"a\"]}"

TEST(checked)
{
	open_rows(SC_PUBROW_AUTO, true, false);
	CHECK_OK(sc_pubrow_schema(rows, SC_SPAN(SCHEMA("b")), &err), &err);
	TAKES("{\"b\":\"x\", \"a\":1}", "{\"b\":\"x\", \"a\":1}", 1);
	CHECK_INT(sc_pubrow_line(rows, row, 17, &out), 0);
	CHECK_STR(sc_bytes_str(&out), "[17,{\"a\":1,\"b\":\"x\"}]\n");
	REFUSES("{\"a\":1.5}", "column 'a'");
	REFUSES("no", "on line '3'");
	/* the row was judged by another schema than the one in force now */
	CHECK_OK(sc_pubrow_schema(rows, SC_SPAN(SCHEMA("c")), &err), &err);
	sc_bytes_clear(&out);
	CHECK_INT(sc_pubrow_line(rows, SC_SPAN("{\"a\":1,\"b\":null}"), 0, &out), 0);
	CHECK_STR(sc_bytes_str(&out), "[null,{\"a\":1,\"b\":null}]\n");
	/* a schema that is none of ours: the server's business */
	CHECK_OK(sc_pubrow_schema(rows,
				  SC_SPAN("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":"
					  "\"array\"}}}"),
				  &err),
		 &err);
	TAKES("{\"x\":1.5}", "{\"x\":1.5}", 2);
	CHECK_OK(sc_pubrow_schema(rows, sc_span("", 0), &err), &err);
	sc_pubrow_free(rows);
	rows = NULL;
	sc_bytes_done(&out);
}
