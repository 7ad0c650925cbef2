/*
 * Goal: jq programs run as in jq, copies keep their bytes, and no number is ever rounded in
 * silence. Method: tables of program, input and results; libjq's own answers where they can be
 * right.
 */
#include <jv.h>
#include <unistd.h>

#include "json/jq.h"
#include "json/scan.h"
#include "../check.h"

static int collect(void *arg, struct sc_span result, struct sc_err *err)
{
	struct sc_bytes *out = arg;

	(void)err;
	if (out->len)
		sc_bytes_putc(out, '\n');
	return sc_bytes_put(out, result.data, result.len);
}

static struct sc_jq *compiled(const char *program)
{
	struct sc_jq *jq = NULL;
	struct sc_err err = { 0 };

	CHECK_OK(sc_jq_compile(program, &jq, &err), &err);
	return jq;
}

static void maps(const char *program, const char *input, const char *want)
{
	struct sc_jq *jq = compiled(program);
	struct sc_err err = { 0 };
	struct sc_bytes out;

	sc_bytes_init(&out, 1 << 20);
	/* twice: a run leaves nothing behind */
	for (int i = 0; i < 2; i++) {
		sc_bytes_clear(&out);
		if (sc_jq_map(jq, sc_span_str(input), collect, &out, &err) < 0)
			FAIL("%s on %s: %s", program, input, err.reason);
		if (out.len != strlen(want) || (out.len && memcmp(out.data, want, out.len) != 0))
			FAIL("%s on %s gives '%.*s', not '%s'", program, input, (int)out.len,
			     out.data ? out.data : "", want);
	}
	sc_bytes_done(&out);
	sc_jq_free(jq);
}

static void fails(const char *program, const char *input, const char *reason)
{
	struct sc_jq *jq = compiled(program);
	struct sc_err err = { 0 };
	struct sc_bytes out;

	sc_bytes_init(&out, 1 << 20);
	if (sc_jq_map(jq, sc_span_str(input), collect, &out, &err) == 0)
		FAIL("%s on %s gives '%.*s'", program, input, (int)out.len,
		     out.data ? out.data : "");
	CHECK_INT(err.code, SC_E_DATA);
	CHECK_INT(out.len, 0);
	if (!strstr(err.reason, reason))
		FAIL("%s on %s says '%s', not '%s'", program, input, err.reason, reason);
	sc_bytes_done(&out);
	sc_jq_free(jq);
}

static void rounds(const char *program, const char *input)
{
	fails(program, input, ", which jq would round");
}

TEST(the_map_of_the_issue)
{
	maps("select(.event==\"trade\") | .data | "
	     "{event_ts:(.microtimestamp|tonumber),price,amount,side:.type}",
	     "{\"event\":\"trade\",\"data\":{\"microtimestamp\":\"1676510678160000\",\"price\":0."
	     "10,\"amount\":85565.0,\"type\":1}}",
	     "{\"event_ts\":1676510678160000,\"price\":0.10,\"amount\":85565.0,\"side\":1}");
	maps("select(.event==\"trade\")", "{\"event\":\"heartbeat\"}", "");
}

TEST(copies_keep_their_bytes)
{
	maps(".", " {\"b\": 1.0,\n \"a\":[ 1e2,-0 ],\"b\":\"\\/\"}",
	     "{\"b\": 1.0,\"a\":[ 1e2,-0 ],\"b\":\"\\/\"}");
	maps(".[]",
	     "[1.0,1e2,-0,-0.0,1E400,0.10,18446744073709551615,0.12345678901234567890,\"\\/"
	     "\\u00e9\",{ \"a\":1 },[ ]]",
	     "1.0\n1e2\n-0\n-0.0\n1E400\n0.10\n18446744073709551615\n0.12345678901234567890\n\"\\/"
	     "\\u00e9\"\n{ \"a\":1 }\n[ ]");
	maps("{x:.a,y:[.b],z:1}", "{\"a\":1.0,\"b\":1}", "{\"x\":1.0,\"y\":[1],\"z\":1}");
	maps("{a:.a, n:(.l|length), k:1}", "{\"a\":1.0,\"l\":[5]}", "{\"a\":1.0,\"n\":1,\"k\":1}");
	maps(".a = 5", "{\"a\":1.0,\"b\":{ \"c\" : 1.50 },\"d\":\"\\u0041\"}",
	     "{\"a\":5,\"b\":{ \"c\" : 1.50 },\"d\":\"\\u0041\"}");
	maps(".b.c |= 7 | .b", "{\"b\":{ \"c\" : 1.50,\"d\":2.0 }}", "{\"c\":7,\"d\":2.0}");
	maps(".a |= . + [3]", "{\"a\":[ 1.0 ]}", "{\"a\":[1.0,3]}");
	maps("map(.)", "[ 9007199254740993, 1.10 ]", "[9007199254740993,1.10]");
	maps(".[0] as $x | [$x, $x]", "[9007199254740993]", "[9007199254740993,9007199254740993]");
	maps("to_entries", "{\"id\":9007199254740993}",
	     "[{\"key\":\"id\",\"value\":9007199254740993}]");
	maps("with_entries(.key |= \"x\" + .)", "{\"id\":9007199254740993}",
	     "{\"xid\":9007199254740993}");
	maps("del(.a)", "{\"a\":1,\"id\":9007199254740993}", "{\"id\":9007199254740993}");
	maps("[paths]", "{\"id\":9007199254740993}", "[[\"id\"]]");
	maps("[.. | numbers]", "[[9007199254740993],1.0]", "[9007199254740993,1.0]");
	maps("walk(if type == \"object\" then .x = 1 else . end)", "{\"id\":9007199254740993}",
	     "{\"id\":9007199254740993,\"x\":1}");
	maps("[limit(1; .[])], first(.[]), last, .[1:], .[:1], .[0:2]", "[1.0,9007199254740993]",
	     "[1.0]\n1.0\n9007199254740993\n[9007199254740993]\n[1.0]\n[1.0,9007199254740993]");
	maps("sort_by(.k) | map(.id)",
	     "[{\"k\":2,\"id\":9007199254740993},{\"k\":1,\"id\":9007199254740995}]",
	     "[9007199254740995,9007199254740993]");
	maps("group_by(.k) | length",
	     "[{\"k\":2,\"id\":9007199254740993},{\"k\":2,\"id\":9007199254740995}]", "1");
	maps("INDEX(.k) | keys", "[{\"k\":2.0,\"id\":9007199254740993}]", "[\"2\"]");
	maps(". + {z: 1}", "{\"id\":9007199254740993}", "{\"id\":9007199254740993,\"z\":1}");
	maps("[.[] | select(.n > 1)]", "[{\"n\":1e400},{\"n\":-1e400}]", "[{\"n\":1e400}]");
	maps("reduce .[] as $x (null; . + $x)", "[18446744073709551615]", "18446744073709551615");
	maps("[.[]|tonumber]", "[\"1.50\",\" 7 \",\"1e2\",\"007\"]", "[1.5,7,100,7]");
}

TEST(inexact_numbers_are_refused_where_they_would_be_rounded)
{
	static const char *const programs[] = {
		".a + 1",
		"1 + .a",
		"-(.a + 1)",
		".a - 1",
		".a * 1",
		".a / 2",
		".a % 2",
		".a += 1",
		"[.a, 1] | add",
		"[.a, 1] | min",
		"[.a] | sort",
		"[.a, .a] | unique",
		"[.a] | max",
		"[.a] | contains([1])",
		"[1] | inside([input?])",
		"[.a] - [1]",
		".a | floor",
		".a | sqrt",
		"pow(.a; 1)",
		"pow(1; .a)",
		"[range(.a)]",
		"[limit(.a; 1)]",
		"[.a] | @csv",
		"[.a] | @sh",
		"[.a] | index(1)",
		".a | length",
		"now | . - .",
		"[.] | sort_by(.a)",
		"[.] | group_by(.a)",
		"[.] | min_by(.a)",
		".a | gmtime",
		".a | todate",
		"try (.a + 1) catch 0",
		"(.a + 1)?",
		"(.a + 1) // 0",
		"[.a] | join(\",\")",
		"[.a] | tojson | fromjson | .[0] + 1",
		".a | tostring | tonumber | . + 1",
		"[[0, .a]] | flatten(.[0][1])",
		"[1] | has(9007199254740993)",
		".a | isnormal",
		"[.a] | bsearch(1)",
		".a as $x | [1,2] | nth($x)",

		".a | ldexp(.; 0)",
		"fma(.a; 1; 0)",
		".a | round",

		"def f(x): x + 1; f(.a)",
		"reduce .a as $x (0; . + $x)",
		"[foreach .a as $x (0; . + $x)]",
		"label $out | (.a + 1), break $out",
		"\"\\(.a + 1)\"",
		"{(.a|tostring): (.a * 2)}",
		".a |= . + 1",
		"[.a][0] + 1",
		"setpath([\"a\"]; .a + 1)",
		"getpath([.a])",
		"[{name: .a, value: 1}] | from_entries",
		"[.a] | combinations(.[0])",
		"[1] | .[9007199254740993 + 0]",
		"9007199254740993 + 1",
		"\"9007199254740993\" | tonumber + 1",
		"\"[9007199254740993]\" | fromjson | .[0] + 1",
		"\"0009007199254740993\" | tonumber",
		"IN(.a + 1)",
		"@csv \"\\([.a])\"",
	};
	static const char *const inputs[] = {
		"{\"a\":9007199254740993}",
		"{\"a\":-18446744073709551615}",
		"{\"a\":0.12345678901234567890}",
		"{\"a\":1e400}",
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		/* these do not look at the number after all */
		if (strstr(programs[i], "now") || strstr(programs[i], "inside"))
			continue;
		rounds(programs[i], inputs[i % 4]);
		rounds(programs[i], inputs[0]);
	}
	fails("[.a] | .[0] + 1", "{\"a\":9007199254740993}",
	      "it computes with 9007199254740993, which jq would round");
}

TEST(inexact_numbers_are_compared_by_their_digits)
{
	static const struct {
		const char *program, *want;
	} cases[] = {
		{ ".a == 9007199254740993", "true" },
		{ ".a == 9007199254740992", "false" },
		{ ".a == 9007199254740994", "false" },
		{ ".a != 9007199254740992", "true" },
		{ ".a > 9007199254740992", "true" },
		{ ".a < 9007199254740994", "true" },
		{ ".a >= 9007199254740993", "true" },
		{ ".a <= 9007199254740992", "false" },
		{ ".a > .b", "false" },
		{ ".a == .b", "true" },
		{ ".a == .c", "false" },
		{ ".a < .c", "true" },
		{ ".a > 5", "true" },
		{ ".a < \"x\"", "true" },
		{ ".a > null", "true" },
		{ "[.a] == [.b]", "true" },
		{ "[.a] < [.c]", "true" },
		{ "{x: .a} == {x: .c}", "false" },
		{ "{x: .a, y: 1} == {y: 1, x: .b}", "true" },
		{ "[.a, 1] > [.b]", "true" },
		{ ".a | IN(1, 9007199254740993)", "true" },
		{ ".a == -9007199254740993", "false" },
		{ "-.a == -9007199254740993", "true" },
		{ ".a == (\"9007199254740993\"|tonumber)", "true" },
		{ ".s == 9007199254740993", "false" },
		{ "(.s|tonumber) == .a", "true" },
		{ ".d > 0.1", "true" },
		{ ".d < 0.2", "true" },
		{ ".d == 0.1", "false" },
		{ ".a < infinite", "true" },
		{ ".a > -infinite", "true" },
		{ ".a > nan", "true" },
		{ ".e > .a", "true" },
		{ "[.[]] | any(.[]; . == 9007199254740995)", "true" },
		{ "[.[] | select(. == 9007199254740993)] | length", "2" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		maps(cases[i].program,
		     "{\"a\":9007199254740993,\"b\":9007199254740993.0,\"c\":9007199254740995,"
		     "\"s\":\"9007199254740993\","
		     "\"d\":0.10000000000000000001,\"e\":1e400}",
		     cases[i].want);
}

TEST(inexact_numbers_in_programs_and_strings)
{
	maps("{id: 9007199254740993, t: 1e400, n: -18446744073709551615}", "null",
	     "{\"id\":9007199254740993,\"t\":1e400,\"n\":-18446744073709551615}");
	maps("\"a\\(9007199254740993)b\\(\"\\(1)\")\" # 9007199254740993\n", "null",
	     "\"a9007199254740993b1\"");
	maps("\"\\(1) 9007199254740993 # \\(2)\\\"9007199254740993\"", "null",
	     "\"1 9007199254740993 # 2\\\"9007199254740993\"");
	maps(".id | tonumber", "{\"id\":\"1790401279000001234\"}", "1790401279000001234");
	maps("{id: (.a + .b | tonumber)}", "{\"a\":\"17904012790000\",\"b\":\"01234\"}",
	     "{\"id\":1790401279000001234}");
	maps(".a | tostring", "{\"a\":9007199254740993}", "\"9007199254740993\"");
	maps("\"\\(.a) \\([.a])\", @json, @text, @html \"<\\(.a)>\"", "{\"a\":9007199254740993}",
	     "\"9007199254740993 "
	     "[9007199254740993]\"\n\"{\\\"a\\\":9007199254740993}\"\n\"{\\\"a\\\":"
	     "9007199254740993}\"\n"
	     "\"<9007199254740993>\"");
	maps("fromjson | .id", "\"{\\\"id\\\":9007199254740993,\\\"x\\\":1.0}\"",
	     "9007199254740993");
	maps("fromjson", "\"[1.0,2]\"", "[1.0,2]");
	maps("fromjson?", "\"[1,\"", "");
	maps("{a: .a} | tojson", "{\"a\":0.1}", "\"{\\\"a\\\":0.1}\"");
	maps("[.a, .a1e5]", "{\"a\":1,\"a1e5\":2}", "[1,2]");
	maps("[.[0], (.[0] | tojson), ([.[0]] | tojson)]", "[1e1000]",
	     "[1e1000,\"1e1000\",\"[1e1000]\"]");
}

TEST(computing_with_exact_numbers_is_as_in_jq)
{
	maps(".a + .b", "{\"a\":0.10,\"b\":0.2}", "0.30000000000000004");
	maps("[.a * 2, .a / 4, -.a, .a % 3, (.a | floor), (.a|tostring)]", "{\"a\":10.0}",
	     "[20,2.5,-10,1,10,\"10\"]");
	maps("[(1,2) + (10,20)]", "null", "[11,12,21,22]");
	maps("[.[0:2][] + (10,20)]", "[1,2,9007199254740993]", "[11,12,21,22]");
	maps("9007199254740991, -9007199254740991, 1e22, 1e-7, 0.1, 1e23", "null",
	     "9007199254740991\n-9007199254740991\n1e+22\n1e-07\n0.1\n1e+23");
}

TEST(results_that_were_rounded_are_refused)
{
	fails(".a * 1000", "{\"a\":9007199254740991}",
	      "the computed integer 9007199254740991000 is 2^53 or beyond, where jq rounds");
	fails("9007199254740991 + 2", "null", "is 2^53 or beyond");
	fails("nan", "null", "not a number");
	fails("infinite", "null", "too large");
	fails("[1, -infinite]", "null", "too large");
	fails("reduce range(600) as $i (1; [.])", "null", "nested too deeply");
}

TEST(failing_programs)
{
	fails(".a.b", "{\"a\":1}", "Cannot index number with string \"b\"");
	fails("error(\"no\")", "1", "no");
	fails("error({a:1})", "1", "{\"a\":1}");
	fails("1, error(\"after a result\")", "1", "after a result");
	fails("\"stop\" | halt_error", "1", "stop");
	fails("input", "1", "No more inputs");
	fails(".", "[1,", "not JSON");
	fails("[-1] | implode", "1", "code points");
	fails("[55296] | implode", "1", "code points");
	maps("1, halt, 2", "1", "1");
	maps("[inputs], (debug | stderr | input_filename)", "1", "[]\nnull");
	maps("[65,8364] | implode", "1", "\"A\xe2\x82\xac\"");
	maps(".a?", "1", "");
	maps("", "[1.0]", "[1.0]");
	maps("def f: 3; # only a definition", "[1.0]", "[1.0]");
}

static void not_compiled(const char *program, const char *reason)
{
	struct sc_jq *jq = NULL;
	struct sc_err err = { 0 };

	CHECK_INT(sc_jq_compile(program, &jq, &err), SC_E_CONFIG);
	CHECK(!jq);
	if (!strstr(err.reason, reason))
		FAIL("%s: '%s', not '%s'", program, err.reason, reason);
}

TEST(programs_that_do_not_compile)
{
	not_compiled(". foo (", "syntax error, unexpected '('");
	not_compiled("foo(1)", "foo/1 is not defined at <top-level>, line 1");
	not_compiled("1)|(2", "syntax error");
	not_compiled("import \"a\" as a; .", "modules are not supported");
	not_compiled("include \"a\"; .", "modules are not supported");
	not_compiled("_plus(1; 2)", "'_plus' is a name that is not for programs");
	not_compiled("__sc_hook", "'__sc_hook' is a name that is not for programs");
	maps("{_plus: .__sc_hook, import: 1}", "{\"__sc_hook\":5}", "{\"_plus\":5,\"import\":1}");
	sc_jq_free(NULL);
}

/* ~/.jq would bring functions that no guard sees. */
TEST(home_is_not_read)
{
	char folder[] = "/tmp/sc-jq-XXXXXX", path[64];
	char *old = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
	struct sc_jq *jq = NULL;
	struct sc_err err = { 0 };
	FILE *file;
	int rc;

	CHECK(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/.jq", folder);
	file = fopen(path, "w");
	CHECK(file && fputs("def secret: . + 1;", file) >= 0 && fclose(file) == 0);
	setenv("HOME", folder, 1);
	rc = sc_jq_compile("secret", &jq, &err);
	CHECK_STR(getenv("HOME"), folder);
	unlink(path);
	rmdir(folder);
	if (old)
		setenv("HOME", old, 1);
	free(old);
	CHECK_INT(rc, SC_E_CONFIG);
}

static void passes(const char *program, const char *input, enum sc_jq_answer want,
		   const char *results)
{
	struct sc_jq *jq = compiled(program);
	struct sc_err err = { 0 };
	struct sc_bytes out;
	enum sc_jq_answer answer = SC_JQ_DROP;
	bool keep = false;

	sc_bytes_init(&out, 1000);
	CHECK_OK(sc_jq_pass(jq, sc_span_str(input), collect, &out, &answer, &err), &err);
	CHECK_INT(answer, want);
	CHECK_SPAN(sc_span(out.data, out.len), results);
	CHECK_OK(sc_jq_filter(jq, sc_span_str(input), &keep, &err), &err);
	CHECK_INT(keep, want != SC_JQ_DROP);
	sc_bytes_done(&out);
	sc_jq_free(jq);
}

TEST(filters)
{
	passes("select(.a > 1)", "{\"a\":2}", SC_JQ_KEEP, "");
	passes("select(.a > 1)", "{\"a\":1}", SC_JQ_DROP, "");
	passes(".a > 1", "{\"a\":2}", SC_JQ_KEEP, "");
	passes(".a > 1", "{\"a\":1}", SC_JQ_DROP, "");
	passes(".a", "{\"a\":null}", SC_JQ_DROP, "");
	passes(".a", "{\"a\":2.0}", SC_JQ_CHANGED, "2.0");
	passes(".[]", "[null,1.0,true,false,\"x\"]", SC_JQ_CHANGED, "1.0\ntrue\n\"x\"");
	passes("., .", "{ \"a\":1 }", SC_JQ_KEEP, "");
	passes("., .a", "{ \"a\":1 }", SC_JQ_CHANGED, "{ \"a\":1 }\n1");
	passes("{a}", "{ \"a\":1 }", SC_JQ_CHANGED, "{\"a\":1}");
	passes("empty", "1", SC_JQ_DROP, "");
	passes("select(.id == 9007199254740993)", "{\"id\":9007199254740993}", SC_JQ_KEEP, "");
	passes("select(.id == 9007199254740992)", "{\"id\":9007199254740993}", SC_JQ_DROP, "");
}

static int stop_at_second(void *arg, struct sc_span result, struct sc_err *err)
{
	(void)result;
	return ++*(int *)arg == 2 ? sc_err_set(err, SC_E_IO, "cannot write", "full") : 0;
}

TEST(an_emitter_ends_the_run)
{
	struct sc_jq *jq = compiled(".[]");
	struct sc_err err = { 0 };
	int seen = 0;

	CHECK_INT(sc_jq_map(jq, SC_SPAN("[1,2,3]"), stop_at_second, &seen, &err), SC_E_IO);
	CHECK_INT(seen, 2);
	sc_jq_free(jq);
}

TEST(deep_input)
{
	char text[2 * SC_JSON_DEPTH_MAX + 1];
	struct sc_jq *jq = compiled(".");
	struct sc_err err = { 0 };
	struct sc_bytes out;

	memset(text, '[', SC_JSON_DEPTH_MAX);
	memset(text + SC_JSON_DEPTH_MAX, ']', SC_JSON_DEPTH_MAX);
	text[2 * SC_JSON_DEPTH_MAX] = '\0';
	sc_bytes_init(&out, 10000);
	CHECK_OK(sc_jq_map(jq, sc_span_str(text), collect, &out, &err), &err);
	CHECK_SPAN(sc_span(out.data, out.len), text);
	sc_bytes_done(&out);
	sc_jq_free(jq);
	maps("[.] | length", text, "1");
}

static uint64_t state = 88172645463325252ull;

static uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* A random JSON text, now and then with a fault in it. */
static void put_random(struct sc_bytes *out, int depth)
{
	static const char *const scalars[] = {
		"null",
		"true",
		"false",
		"0",
		"-0",
		"1",
		"12345",
		"9007199254740991",
		"-9007199254740991",
		"1.5",
		"1e3",
		"1E-7",
		"0.1",
		"\"\"",
		"\"a\"",
		"\"\\n\\u0041\\/\"",
		"\"\xc3\xa9\xf0\x9f\x98\x80\"",
		"\"\\ud83d\\ude00\"",
		"123456789.125",
	};
	static const char *const faults[] = { "tru",     "1.",  "\"\\x\"", "[1 2]", "{1:2}",
					      "{\"a\"}", "'a'", "\"\t\"",  "}",     "\"" };
	int kind = (int)(next_random() % (depth > 4 ? 4 : 8)), count = (int)(next_random() % 4);

	if (next_random() % 100 == 0) {
		sc_bytes_puts(out, faults[next_random() % 10]);
		return;
	}
	if (kind < 4) {
		sc_bytes_puts(out, scalars[next_random() % (sizeof(scalars) / sizeof(scalars[0]))]);
		return;
	}
	sc_bytes_puts(out, kind < 6 ? "[" : "{");
	for (int i = 0; i < count; i++) {
		sc_bytes_puts(out, i ? "," : "");
		if (kind >= 6)
			sc_bytes_putf(out,
				      "\"k\\u00%02x%d\":", (unsigned)(0x30 + next_random() % 9), i);
		sc_bytes_puts(out, next_random() % 4 ? "" : " \n");
		put_random(out, depth + 1);
	}
	sc_bytes_puts(out, kind < 6 ? "]" : "}");
}

/* The same value, by our walk and by libjq's parser. */
static void check_same(const struct sc_json *ours, jv theirs, int depth)
{
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	struct sc_bytes text;
	int count = 0;

	sc_bytes_init(&text, 1 << 20);
	sc_json_walk_init(&walk, ours);
	switch (ours->kind) {
	case SC_JSON_NULL:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_NULL);
		break;
	case SC_JSON_TRUE:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_TRUE);
		break;
	case SC_JSON_FALSE:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_FALSE);
		break;
	case SC_JSON_INTEGER: {
		int64_t integer;

		CHECK_INT(jv_get_kind(theirs), JV_KIND_NUMBER);
		CHECK(sc_json_i64(ours, &integer) && (double)integer == jv_number_value(theirs));
		break;
	}
	case SC_JSON_NUMBER: {
		char digits[64];

		snprintf(digits, sizeof(digits), "%.*s", (int)ours->text.len, ours->text.data);
		CHECK_INT(jv_get_kind(theirs), JV_KIND_NUMBER);
		CHECK(strtod(digits, NULL) == jv_number_value(theirs));
		break;
	}
	case SC_JSON_STRING:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_STRING);
		CHECK_INT(sc_json_unescape(ours->text, &text), 0);
		CHECK_INT(jv_string_length_bytes(jv_copy(theirs)), text.len);
		CHECK(!text.len || memcmp(jv_string_value(theirs), text.data, text.len) == 0);
		break;
	case SC_JSON_ARRAY:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_ARRAY);
		for (; sc_json_walk_next(&walk, NULL, &member); count++)
			check_same(&member, jv_array_get(jv_copy(theirs), count), depth + 1);
		CHECK_INT(jv_array_length(jv_copy(theirs)), count);
		break;
	case SC_JSON_OBJECT:
		CHECK_INT(jv_get_kind(theirs), JV_KIND_OBJECT);
		while (sc_json_walk_next(&walk, &key, &member)) {
			sc_bytes_clear(&text);
			CHECK_INT(sc_json_unescape(key, &text), 0);
			CHECK(sc_bytes_str(&text));
			CHECK(sc_json_get(ours, text.data, &member));
			check_same(&member, jv_object_get(jv_copy(theirs), jv_string(text.data)),
				   depth + 1);
			count++;
		}
		CHECK(jv_object_length(jv_copy(theirs)) <= count);
		break;
	}
	sc_bytes_done(&text);
	jv_free(theirs);
}

TEST(libjq_reads_the_same)
{
	struct sc_bytes text;
	int good = 0, bad = 0;

	sc_bytes_init(&text, 1 << 20);
	for (int round = 0; round < 20000; round++) {
		struct sc_json value;
		jv theirs;

		sc_bytes_clear(&text);
		put_random(&text, 0);
		theirs = jv_parse_sized(sc_bytes_str(&text), (int)text.len);
		if (sc_json_scan(sc_span(text.data, text.len), &value, NULL) == 0) {
			if (!jv_is_valid(theirs))
				FAIL("libjq refuses %s", text.data);
			check_same(&value, theirs, 0);
			good++;
		} else {
			/* libjq also takes 1. and control characters in strings, and replaces bad
			 * escapes */
			jv_free(theirs);
			bad++;
		}
	}
	CHECK(good > 10000 && bad > 500);
	sc_bytes_done(&text);
}
