/*
 * Goal: rows are stored with their own bytes in schema order, or refused in words that name the
 * column. Method: tables; every numeric limit from both sides; random rows against a slow second
 * opinion.
 */
#include "json/schema.h"
#include "../check.h"

static const char trades[] =
	"{\"properties\":{\"event_ts\":{\"type\":\"integer\"},\"price\":{\"type\":\"number\"},"
	"\"amount\":{\"type\":[\"number\",\"null\"],\"format\":\"float\"},\"side\":{\"type\":"
	"\"integer\",\"format\":\"int32\"},"
	"\"sym\":{\"type\":[\"string\",\"null\"]},\"ok\":{\"type\":[\"boolean\",\"null\"]}},"
	"\"required\":[\"event_ts\",\"price\",\"side\"]}";

static struct sc_schema *schema_of(const char *text)
{
	struct sc_schema *schema = NULL;
	struct sc_err err = { 0 };

	CHECK_OK(sc_schema_parse(sc_span_str(text), &schema, &err), &err);
	return schema;
}

static void stored(const char *schema_text, const char *row, const char *want)
{
	struct sc_schema *schema = schema_text ? schema_of(schema_text) : NULL;
	char *tight = malloc(strlen(row) + 1);
	struct sc_err err = { 0 };
	struct sc_bytes out;

	/* memory that ends with the row */
	memcpy(tight, row, strlen(row));
	sc_bytes_init(&out, 10000);
	CHECK_INT(sc_bytes_puts(&out, "before"), 0);
	CHECK_OK(sc_row_project(schema, sc_span(tight, strlen(row)), &out, &err), &err);
	CHECK_SPAN(sc_span(out.data + 6, out.len - 6), want);
	sc_bytes_done(&out);
	sc_schema_free(schema);
	free(tight);
}

static void refused(const char *schema_text, const char *row, const char *reason, const char *next)
{
	struct sc_schema *schema = schema_text ? schema_of(schema_text) : NULL;
	struct sc_err err = { 0 };
	struct sc_bytes out;

	sc_bytes_init(&out, 10000);
	CHECK_INT(sc_bytes_puts(&out, "before"), 0);
	CHECK_INT(sc_row_project(schema, sc_span_str(row), &out, &err), SC_E_DATA);
	CHECK_STR(err.reason, reason);
	CHECK_STR(err.next, next);
	CHECK_SPAN(sc_span(out.data, out.len), "before");
	CHECK_INT(sc_row_project(schema, sc_span_str(row), &out, NULL), SC_E_DATA);
	sc_bytes_done(&out);
	sc_schema_free(schema);
}

TEST(bytes_are_kept)
{
	static const char full[] =
		"{\"event_ts\":1790038800123456,\"price\":85565.0,\"amount\":0.10,\"side\":-0,"
		"\"sym\":\"a\\/\\u00e9\\ud83d\\ude00\xc3\xa9\",\"ok\":true}";

	stored(trades, full, full);
	stored(trades,
	       " {\"ok\" : true,\n\"sym\":\"a\\/\\u00e9\\ud83d\\ude00\xc3\xa9\", "
	       "\"side\":-0,\"amount\":0.10,\"price\":85565.0,"
	       "\"event_ts\":1790038800123456\t} \r\n",
	       full);
	stored(trades, "{\"event_ts\":1,\"price\":1E+2,\"side\":2}",
	       "{\"event_ts\":1,\"price\":1E+2,\"amount\":null,\"side\":2,\"sym\":null,\"ok\":"
	       "null}");
	stored(trades, "{\"ev\\u0065nt_ts\":1,\"\\u0070rice\":1,\"side\":2,\"ok\":null}",
	       "{\"event_ts\":1,\"price\":1,\"amount\":null,\"side\":2,\"sym\":null,\"ok\":null}");
}

/* Rows with every column that differ from the stored form in one thing each. */
TEST(nearly_stored_rows)
{
	static const char want[] =
		"{\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}";
	static const char *const rows[] = {
		"{\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\":1, "
		"\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\" "
		":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\":1,\"price\": "
		"2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true "
		"}",
		"{ "
		"\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\":1,\"pric\\u0065\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":"
		"true}",
		"{\"price\":2.50,\"event_ts\":1,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true}",
		"{\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"ok\":true,\"sym\":\"x\"}",
		"{\"event_ts\":0,\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":"
		"\"x\",\"ok\":true}",
		"{\"event_ts\":1,\"price\":2.50,\"amount\":3,\"side\":4,\"sym\":\"x\",\"ok\":true,"
		"\"ok\":true}",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		/* twice: the order of the keys is remembered */
		stored(trades, rows[i], want);
		stored(trades, rows[i], want);
	}
}

TEST(the_last_of_repeated_keys_wins)
{
	stored(trades,
	       "{\"event_ts\":\"x\",\"price\":1,\"side\":1,\"event_ts\":2,\"pr\\u0069ce\":3}",
	       "{\"event_ts\":2,\"price\":3,\"amount\":null,\"side\":1,\"sym\":null,\"ok\":null}");
	refused(trades, "{\"event_ts\":2,\"price\":1,\"side\":1,\"event_ts\":\"x\"}",
		"column 'event_ts': \"x\" is a string, and the column is an integer", "");
	refused(trades, "{\"event_ts\":2,\"price\":1,\"side\":1,\"event_ts\":null}",
		"required columns are null: event_ts", "");
}

TEST(refusals)
{
	static const char columns[] = "the columns are: amount, event_ts, ok, price, side, sym";

	refused(trades, "[1]", "a row is a JSON object, and this is an array", "");
	refused(trades, "", "not JSON: there is no JSON value at byte 0", "");
	refused(trades, "{\"event_ts\":1,}",
		"not JSON: expected a key in quotes, found '}' at byte 14", "");
	refused(trades, "{\"event_ts\":1} x",
		"not JSON: expected nothing after the value, found 'x' at byte 15", "");
	refused(trades, "{\"event_ts\":01}",
		"not JSON: column 'event_ts': a number has a leading zero at byte 12", "");
	refused(trades, "{\"sym\":\"a\xff\"}",
		"not JSON: column 'sym': a string holds invalid UTF-8, byte 0xff at byte 9", "");
	refused(trades, "{\"sym\":\"\\udc00\"}",
		"not JSON: column 'sym': a string holds a surrogate without its partner at byte 8",
		"");
	refused(trades, "{\"price\":NaN}",
		"not JSON: column 'price': expected a value, found 'N' at byte 9", "");
	refused(trades, "{\"z\":1,\"b\":[{}],\"z\":2,\"event_ts\":1,\"a\\u0061\":null}",
		"not columns: aa, b, z", columns);
	refused(trades, "{\"litelink_offset\":1}",
		"'litelink_offset' is assigned by the server, and the row brings it", "");
	refused(trades, "{}", "required columns are absent: event_ts, price, side", "");
	refused(trades, "{\"side\":null,\"price\":1}",
		"required columns are absent: event_ts, and null: side", "");
	refused(trades, "{\"event_ts\":1.0,\"price\":1,\"side\":1}",
		"column 'event_ts': 1.0 is a number with a fraction or exponent, and the column is "
		"an integer",
		"");
	refused(trades, "{\"event_ts\":true,\"price\":1,\"side\":1}",
		"column 'event_ts': true is a boolean, and the column is an integer", "");
	refused(trades, "{\"event_ts\":1,\"price\":\"1\",\"side\":1}",
		"column 'price': \"1\" is a string, and the column is a number", "");
	refused(trades, "{\"event_ts\":1,\"price\":1,\"side\":1,\"sym\":1}",
		"column 'sym': 1 is an integer, and the column is a string", "");
	refused(trades, "{\"event_ts\":1,\"price\":1,\"side\":1,\"ok\":1}",
		"column 'ok': 1 is an integer, and the column is a boolean", "");
	refused(trades, "{\"event_ts\":1,\"price\":[1, {}],\"side\":1}",
		"column 'price': [1, {}] is an array, and the column is a number", "");
	refused(trades, "{\"event_ts\":9223372036854775808,\"price\":1,\"side\":1}",
		"column 'event_ts': 9223372036854775808 is out of the range of an integer, int64",
		"");
	refused(trades, "{\"event_ts\":1,\"price\":9007199254740993,\"side\":1}",
		"column 'price' is a number (double), and the integer 9007199254740993 is beyond "
		"2^53",
		"write it with a fraction or exponent, or make the column an integer");
	refused(trades, "{\"event_ts\":1,\"price\":1e400,\"side\":1}",
		"column 'price': 1e400 is out of the range of a number, double", "");
}

/* A value of one column, accepted or not. */
static bool fits(const char *type, const char *format, const char *value)
{
	char schema_text[200], row[2000];
	struct sc_schema *schema;
	struct sc_bytes out;
	int rc;

	snprintf(
		schema_text, sizeof(schema_text),
		"{\"properties\":{\"v\":{\"type\":\"%s\",\"format\":\"%s\"}},\"required\":[\"v\"]}",
		type, format);
	snprintf(row, sizeof(row), "{\"v\":%s}", value);
	schema = schema_of(schema_text);
	sc_bytes_init(&out, 10000);
	rc = sc_row_project(schema, sc_span_str(row), &out, NULL);
	if (rc == 0)
		CHECK_SPAN(sc_span(out.data, out.len), row);
	sc_bytes_done(&out);
	sc_schema_free(schema);
	return rc == 0;
}

TEST(integer_limits)
{
	CHECK(fits("integer", "int64", "9223372036854775807"));
	CHECK(fits("integer", "int64", "-9223372036854775808"));
	CHECK(!fits("integer", "int64", "9223372036854775808"));
	CHECK(!fits("integer", "int64", "-9223372036854775809"));
	CHECK(!fits("integer", "int64", "10000000000000000000"));
	CHECK(!fits("integer", "int64", "1e2"));
	CHECK(fits("integer", "int32", "2147483647"));
	CHECK(fits("integer", "int32", "-2147483648"));
	CHECK(!fits("integer", "int32", "2147483648"));
	CHECK(!fits("integer", "int32", "-2147483649"));
	CHECK(!fits("integer", "int32", "99999999999999999999999"));
	CHECK(fits("number", "double", "9007199254740992"));
	CHECK(fits("number", "double", "-9007199254740992"));
	CHECK(!fits("number", "double", "9007199254740993"));
	CHECK(!fits("number", "double", "-9007199254740993"));
	CHECK(!fits("number", "double", "9007199254740994"));
	CHECK(!fits("number", "double", "18446744073709551616"));
	CHECK(fits("number", "double", "9007199254740993.0"));
	CHECK(fits("number", "float", "16777216"));
	CHECK(!fits("number", "float", "16777217"));
	CHECK(!fits("number", "float", "-16777217"));
	CHECK(!fits("number", "float", "100000000"));
}

TEST(float_limits)
{
	char digits[1200];
	/* 2^1024 - 2^970, where a double becomes an infinity */
	static const char limit[] = "17976931348623158079372897140530341507993413271003782693617377"
				    "8980444968292764750946649017977587207096"
				    "33028641669288791094655554785194040263065748867150582068190890"
				    "2000708383676273854845817711531764475730"
				    "27006985557136695962284291481986083493647529271907416844436551"
				    "0704342711559699508093042880177904174497"
				    "792";

	CHECK(fits("number", "double", "1.7976931348623157e308"));
	CHECK(fits("number", "double", "1.7976931348623158e308"));
	CHECK(!fits("number", "double", "1.7976931348623159e308"));
	CHECK(fits("number", "double", "-17976931348623157e292"));
	CHECK(!fits("number", "double", "-17976931348623159e292"));
	CHECK(fits("number", "double", "0.00017976931348623157E+312"));
	CHECK(!fits("number", "double", "0.00017976931348623159E+312"));
	CHECK(!fits("number", "double", "1e309"));
	CHECK(fits("number", "double", "0e999999999999999999999999"));
	CHECK(!fits("number", "double", "1e999999999999999999999999"));
	CHECK(fits("number", "double", "1e-999999999999999999999999"));
	CHECK(fits("number", "double", "-0.0"));
	snprintf(digits, sizeof(digits), "%s.0", limit);
	CHECK(!fits("number", "double", digits));
	snprintf(digits, sizeof(digits), "%se0", limit);
	CHECK(!fits("number", "double", digits));
	digits[308] = '1';
	CHECK(fits("number", "double", digits));
	snprintf(digits, sizeof(digits), "%s.99999", limit);
	digits[308] = '1';
	CHECK(fits("number", "double", digits));
	memset(digits, '0', 1000);
	memcpy(digits, "0.", 2);
	strcpy(digits + 900, "1e1206");
	CHECK(fits("number", "double", digits));
	strcpy(digits + 900, "1e1208");
	CHECK(!fits("number", "double", digits));
	CHECK(fits("number", "float", "3.4028235e38"));
	CHECK(fits("number", "float", "340282356779733661637539395458142568447.0"));
	CHECK(!fits("number", "float", "340282356779733661637539395458142568448.0"));
	CHECK(!fits("number", "float", "3.5e38"));
	CHECK(!fits("number", "float", "1e39"));
	CHECK(fits("number", "float", "0.1"));
	CHECK(fits("number", "float", "1e-60"));
}

TEST(without_a_schema)
{
	stored(NULL, " 1e1000 ", "1e1000");
	stored(NULL, "{ \"a\" : 18446744073709551615 , \"a\":\"\\/\" }",
	       "{ \"a\" : 18446744073709551615 , \"a\":\"\\/\" }");
	stored(NULL, "[1,\n 2, 3]", "[1,2, 3]");
	refused(NULL, "[1,]", "not JSON: expected a value, found ']' at byte 3", "");
}

TEST(a_full_buffer_is_left_as_it_was)
{
	struct sc_schema *schema = schema_of(trades);
	static const char *const rows[] = {
		"{\"event_ts\":1,\"price\":1,\"amount\":1,\"side\":1,\"sym\":\"\",\"ok\":true}",
		"{\"price\":1,\"side\":1,\"event_ts\":1}",
	};

	for (size_t i = 0; i < 2; i++) {
		struct sc_err err = { 0 };
		struct sc_bytes out;
		size_t size;

		sc_bytes_init(&out, 1000);
		CHECK_OK(sc_row_project(schema, sc_span_str(rows[i]), &out, &err), &err);
		size = out.len;
		sc_bytes_done(&out);
		sc_bytes_init(&out, size);
		CHECK_OK(sc_row_project(schema, sc_span_str(rows[i]), &out, &err), &err);
		sc_bytes_done(&out);
		sc_bytes_init(&out, size - 1);
		CHECK_INT(sc_row_project(schema, sc_span_str(rows[i]), &out, &err), SC_E_NOMEM);
		CHECK(out.full);
		CHECK_INT(out.len, 0);
		sc_bytes_done(&out);
	}
	sc_schema_free(schema);
}

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* Rows of the wide schema: the last value of each column wins, in whatever order and spelling the
 * keys come. */
TEST(random_rows)
{
	enum { COLUMNS = 40 };
	struct sc_bytes text, row, want, out;
	struct sc_schema *schema = NULL;
	struct sc_err err = { 0 };

	sc_bytes_init(&text, 1 << 20);
	sc_bytes_init(&row, 1 << 20);
	sc_bytes_init(&want, 1 << 20);
	sc_bytes_init(&out, 1 << 20);
	sc_bytes_puts(&text, "{\"properties\":{");
	for (int i = 0; i < COLUMNS; i++)
		sc_bytes_putf(&text, "%s\"%.*s_%d\":{\"type\":[\"integer\",\"null\"]}",
			      i ? "," : "", i, "nameofacolumnthatislongerthan16bytesis", i);
	sc_bytes_puts(&text, "}}");
	CHECK_OK(sc_schema_parse(sc_span(text.data, text.len), &schema, &err), &err);
	for (int round = 0; round < 20000; round++) {
		int64_t last[COLUMNS];
		bool seen[COLUMNS] = { false };
		int count = (int)(next_random() % 60), at = 0;

		sc_bytes_clear(&row);
		sc_bytes_clear(&want);
		sc_bytes_clear(&out);
		sc_bytes_puts(&row, "{");
		for (int i = 0; i < count; i++) {
			struct sc_span key;

			at = next_random() % 4 ? (at + 1) % COLUMNS
					       : (int)(next_random() % COLUMNS);
			key = sc_schema_column(schema, (size_t)at)->key;
			last[at] = (int64_t)next_random();
			seen[at] = true;
			sc_bytes_puts(&row, i ? "," : "");
			if (next_random() % 8)
				sc_bytes_put(&row, key.data, key.len);
			else
				sc_bytes_putf(&row, "\"\\u%04x%.*s", key.data[1], (int)key.len - 2,
					      key.data + 2);
			sc_bytes_puts(&row, next_random() % 8 ? "" : " ");
			sc_bytes_put_i64(&row, last[at]);
		}
		sc_bytes_puts(&row, "}");
		for (int i = 0; i < COLUMNS; i++) {
			struct sc_span key = sc_schema_column(schema, (size_t)i)->key;

			sc_bytes_putc(&want, i ? ',' : '{');
			sc_bytes_put(&want, key.data, key.len);
			if (seen[i])
				sc_bytes_put_i64(&want, last[i]);
			else
				sc_bytes_puts(&want, "null");
		}
		sc_bytes_puts(&want, "}");
		CHECK_OK(sc_row_project(schema, sc_span(row.data, row.len), &out, &err), &err);
		CHECK(out.len == want.len && memcmp(out.data, want.data, out.len) == 0);
	}
	sc_schema_free(schema);
	sc_bytes_done(&text);
	sc_bytes_done(&row);
	sc_bytes_done(&want);
	sc_bytes_done(&out);
}
