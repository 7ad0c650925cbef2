/* Messages made into lines: untouched, wrapped, mapped, kept raw, stamped, left out and counted. */
#include "client/mapper.h"

#include "../check.h"

static unsigned told;

static void on_skipped(void *arg, struct sc_span message, const struct sc_err *err)
{
	(void)arg;
	CHECK(message.len > 0 && err->reason[0]);
	told++;
}

static void check_lines(struct sc_mapper_options options, struct sc_span message, bool binary,
			const char *want)
{
	struct sc_mapper *m = NULL;
	struct sc_bytes out;
	struct sc_err err;
	uint64_t lines = 99, wanted = 0;

	options.skipped = on_skipped;
	sc_bytes_init(&out, 1 << 20);
	CHECK_OK(sc_mapper_new(&options, &m, &err), &err);
	CHECK_OK(sc_mapper_lines(m, message, binary, 1790038800123456, &out, &lines, &err), &err);
	for (const char *p = want; *p; p++)
		wanted += *p == '\n';
	CHECK_MEM(out.data, out.len, want);
	CHECK_INT(lines, wanted);
	sc_mapper_free(m);
	sc_bytes_done(&out);
}

TEST(json_comes_out_as_it_came)
{
	struct sc_mapper_options o = { 0 };

	check_lines(o, SC_SPAN("{\"a\": 1.0, \"b\":[ 1e2,-0,\"\\/\"]}"), false,
		    "{\"a\": 1.0, \"b\":[ 1e2,-0,\"\\/\"]}\n");
	check_lines(o, SC_SPAN("{\n\"a\":1}"), false, "{\"a\":1}\n");
	check_lines(o, SC_SPAN("18446744073709551615"), false, "18446744073709551615\n");
}

TEST(anything_else_is_wrapped)
{
	struct sc_mapper_options o = { 0 };

	check_lines(o, SC_SPAN("pong"), false, "{\"$text\":\"pong\"}\n");
	check_lines(o, SC_SPAN(""), false, "{\"$text\":\"\"}\n");
	check_lines(o, SC_SPAN("{}"), true, "{\"$base64\":\"e30=\"}\n");
	o.binary = SC_BINARY_TEXT;
	check_lines(o, SC_SPAN("{}"), true, "{}\n");
	o.binary = SC_BINARY_DROP;
	check_lines(o, SC_SPAN("{}"), true, "");
}

TEST(a_program_makes_rows)
{
	struct sc_mapper_options o = { .program = "select(.e==\"t\") | .d | {p,n:(.n|tonumber)}" };

	check_lines(o, SC_SPAN("{\"e\":\"t\",\"d\":{\"p\":0.10,\"n\":\"17\"}}"), false,
		    "{\"p\":0.10,\"n\":17}\n");
	check_lines(o, SC_SPAN("{\"e\":\"h\"}"), false, "");
	o.program = ".[]";
	check_lines(o, SC_SPAN("[1,2.50,9007199254740993]"), false, "1\n2.50\n9007199254740993\n");
}

TEST(what_gives_no_row_is_left_out_and_counted)
{
	struct sc_mapper_options o = { .program = ".a, (.b|error)" };

	told = 0;
	check_lines(o, SC_SPAN("pong"), false, "");
	CHECK_INT(told, 1);
	check_lines(o, SC_SPAN("{\"a\":1,\"b\":\"x\"}"), false,
		    ""); /* not half of its rows either */
	CHECK_INT(told, 2);
}

TEST(raw_keeps_every_message)
{
	struct sc_mapper_options o = { .program = "select(.p) | {p}", .raw = "raw" };

	told = 0;
	check_lines(o, SC_SPAN("{\"p\":1}"), false, "{\"p\":1}\n");
	check_lines(o, SC_SPAN("{\"q\":1}"), false, "{\"raw\":\"{\\\"q\\\":1}\"}\n");
	check_lines(o, SC_SPAN("{\"p\":"), false, "{\"raw\":\"{\\\"p\\\":\"}\n");
	check_lines(o, SC_SPAN("[1]"), false, "{\"raw\":\"[1]\"}\n");
	check_lines(o, SC_SPAN("\xff"), true, "{\"raw\":\"{\\\"$base64\\\":\\\"/w==\\\"}\"}\n");
	o.program = ".p";
	check_lines(o, SC_SPAN("{\"p\":1}"), false,
		    "{\"raw\":\"{\\\"p\\\":1}\"}\n"); /* 1 is no row */
	CHECK_INT(told, 0);
}

TEST(the_time_of_receipt_is_a_member)
{
	struct sc_mapper_options o = { .stamp = "t" };

	check_lines(o, SC_SPAN("{\"a\":1}"), false, "{\"t\":1790038800123456,\"a\":1}\n");
	check_lines(o, SC_SPAN("{ }"), false, "{\"t\":1790038800123456}\n");
	check_lines(o, SC_SPAN("[1]"), false, "{\"t\":1790038800123456,\"message\":[1]}\n");
	check_lines(o, SC_SPAN("pong"), false, "{\"t\":1790038800123456,\"$text\":\"pong\"}\n");
}

TEST(a_program_that_does_not_compile_is_told)
{
	struct sc_mapper_options o = { .program = ".a | nonsense(" };
	struct sc_mapper *m = NULL;
	struct sc_err err;

	CHECK_INT(sc_mapper_new(&o, &m, &err), SC_E_CONFIG);
	CHECK(!m);
}
