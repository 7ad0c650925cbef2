/*
 * Goal: the guards that keep jq from rounding change nothing else. Method: programs of all kinds
 * run without guards, and again with them, which an inexact number in the program brings in; many
 * in one, since libjq is slow to compile.
 */
#include "json/jq.h"
#include "../check.h"

#define TOGETHER 16

static int collect(void *arg, struct sc_span result, struct sc_err *err)
{
	struct sc_bytes *out = arg;

	(void)err;
	if (sc_bytes_put(out, result.data, result.len) < 0)
		return SC_E_NOMEM;
	return sc_bytes_putc(out, '\n');
}

/* Results and the error of one run, as one text; false if the program does not compile. */
static bool outcome(const char *before, const struct sc_bytes *program, const char *input,
		    struct sc_bytes *out)
{
	struct sc_err err = { 0 };
	struct sc_jq *jq = NULL;
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, 1 << 20);
	sc_bytes_clear(out);
	CHECK_INT(sc_bytes_putf(&text, "%s%.*s", before, (int)program->len, program->data), 0);
	rc = sc_jq_compile(sc_bytes_str(&text), &jq, &err);
	sc_bytes_done(&text);
	if (rc < 0)
		return false;
	if (sc_jq_map(jq, sc_span_str(input), collect, out, &err) < 0)
		sc_bytes_putf(out, "failed: %s", err.reason);
	sc_jq_free(jq);
	return true;
}

static const char *const programs[] = {
	".",
	".a",
	".a.b?",
	".c[]",
	".c[1:]",
	".c[-1]",
	"..",
	"[..]|length",
	"[(1,2)+(10,20)]",
	"[(1,2)*(3,4)]",
	"[(1,2)<(1,2)]",
	"[(1,2)==(2,1)]",
	"[1,2]-[2]",
	"{a:1}+{b:2}",
	"{a:{b:1}}*{a:{c:2}}",
	"\"a,b\"/\",\"",
	"\"ab\"*3",
	"\"ab\"*0",
	"null+1",
	"1+null",
	"null+null",
	".c|add",
	"[]|add",
	".c|sort",
	".c|sort_by(-.)",
	".c|group_by(.%2)",
	".c|unique_by(.%2)",
	".c|min,max",
	".c|min_by(-.),max_by(-.)",
	".c|reverse",
	".c|map(select(.>1))",
	".c|index(2)",
	".c|contains([2])",
	"[2]|inside([1,2])",
	"to_entries",
	"with_entries(.value|=tostring)",
	"[{\"name\":\"x\",\"value\":1},{\"k\":\"y\",\"v\":2}]|from_entries",
	"[{\"key\":1,\"value\":1},{\"key\":null,\"value\":2},{\"key\":false}]|from_entries",
	"del(.a)",
	"del(.c[0,1])",
	"delpaths([[\"a\"]])",
	"paths",
	"[paths(type==\"number\")]",
	"[leaf_paths]",
	"getpath([\"c\",0])",
	"path(getpath([\"c\",0]))",
	"path(.c[1:])",
	"path(first(.c[]))",
	"[path(..)]",
	".c|=map(.+1)",
	".c[0]+=5",
	".c[]-=1",
	".c[1]*=3",
	".c[1]/=2",
	".c[1]%=2",
	".z//=3",
	".c|first,last,nth(1)",
	"[limit(2;.c[])]",
	"[limit(0;.c[])]",
	"first(range(5;10))",
	"[range(3)]",
	"[range(1;4)]",
	"[range(0;10;3)]",
	"[range(5;0;-2)]",
	"isempty(empty)",
	"[.c[]|until(.>5;.+2)]",
	"[1|while(.<9;.*2)]",
	"[limit(3;repeat(1))]",
	"[recurse(if .<2 then .+1 else empty end)?]",
	"3|[recurse(if .>0 then .-1 else empty end)]",
	"reduce .c[] as $x (0;.+$x)",
	"[foreach .c[] as $x (0;.+$x;[$x,.])]",
	"label $f|.c[]|if .>1 then .,break $f else . end",
	"try error(\"x\") catch .",
	"[.c[]|(1/(.-1))?]",
	".a.b//\"d\"",
	"(.n,.a)//5",
	"error",
	"error(null)",
	".[0]",
	"{}|.a.b.c",
	"\"x\"|.[0:1]",
	"keys,keys_unsorted,length",
	".c|has(0),has(9)",
	"has(\"a\")",
	"\"abc\"|test(\"B\";\"i\"),[match(\"(?<x>b)\").captures[0].name]",
	"\"abc\"|sub(\"b\";\"x\"),gsub(\"[ac]\";\"y\")",
	"\"a b\"|split(\" \"),ascii_upcase,explode",
	"[\"a\",1,null]|join(\"-\")",
	"[1,[2,[3]]]|flatten,flatten(1)",
	"[[1,2],[3,4]]|transpose",
	"[[1,2],[3,4]]|[combinations]",
	"[combinations(2)?]",
	"walk(if type==\"number\" then .+1 else . end)",
	"[tostream]",
	"fromstream(tostream)",
	"[1|truncate_stream([[0],1],[[1,0],2])]",
	"@text,@json,@html,@uri",
	"[1,\"a\\\"b\",null]|@csv,@tsv,@sh",
	"\"x\\(1+1)y\\(.c)\"",
	"@base64 \"\\(.s)\"",
	"\"aGk=\"|@base64d",
	"tojson|fromjson",
	"tostring",
	"[.c[]|tostring|tonumber]",
	"\"x\"|tonumber?",
	"\"nan\"|tonumber|isnan",
	"[nan]|sort|length",
	"nan<nan",
	"nan==nan",
	"[nan<1,1<nan,nan>nan]",
	"infinite>1",
	"-infinite<1",
	"[1,null,true,\"a\",[],{}]|sort",
	"[[1,2]<[1,3],{\"a\":1}<{\"b\":0},{\"a\":1}=={\"a\":1.0}]",
	"1e3,.f,-.f,(.f|floor,sqrt)",
	"pow(2;10),log2,exp10?",
	"4|log2,exp2,significand,logb,gamma,frexp",
	"fma(2;3;4),ldexp(1;3),scalb(1;2)",
	"[splits(\"a\")?]",
	"now|type",
	"0|todate",
	"\"2015-03-05T23:51:47Z\"|fromdate",
	"1425599621|gmtime|mktime",
	"\"10:20\"|strptime(\"%H:%M\")|.[3]",
	"env|type",
	"$ENV|type",
	"builtins|length>100",
	"input_line_number?",
	"ascii_downcase?",
	"$__loc__",
	".c as [$x,$y]|$x+$y",
	". as {a:$x}|$x",
	".c as [$x] ?// $x|[$x]",
	"[.c[]|IN(1,2)]",
	"IN(.c[];1,5)",
	"INDEX(.c[];.)",
	".c|any,all",
	".c|any(.>1),all(.>0)",
	"any(.c[];.==2)",
	".s|ltrimstr(\"h\")",
	"[\"ab\",\"b\"]|map(ltrimstr(\"a\"),endswith(\"b\"))",
	"splits(\"x\")?",
	"{(\"a\",\"b\"):1}",
	"{a,c:.c[0],\"s\"}",
	"{$__loc__}|length",
	"def f(x): x*2; f(.c[])",
	"def f($a;$b): $a+$b; f(1;2)",
	"[.c[]|not]",
	"[.[]|type]",
	"[.[]?|numbers,strings,arrays,objects,nulls,booleans,iterables,scalars,values]",
	"[.c[]|. as $x|[$x,-$x]]",
	"bsearch(1)?",
	".c|bsearch(2),bsearch(0)",
	"setpath([\"q\",\"r\"];1)",
	"setpath([];1)",
	"to_entries|map(.key)|join(\",\")",
	"map_values(1)",
	"map(1)",
	"[.c[:2][]]",
	"..|numbers",
	"recurse_down|numbers",
	"[.c[]|tojson]",
	"[.s|explode|implode]",
	"utf8bytelength?",
	".s|utf8bytelength,length",
	"-1|length",
	"null|length",
	"true|length",
	"[1,2]|indices(1)",
	"\"a,b, cd\"|indices(\", \")",
	"tojson|length",
	"{} | .a += 1",
	".c |= (.[0] = 9)",
	".a as $x|.c|map(.+$x)",
	"limit(1;.c[])|.+1",
	"input",
	"[inputs]",
	"debug",
	"debug(\"m\")",
	"[splits(\",\")?]",
	"getpath([\"x\",\"y\"])",
	"JOIN(INDEX(.c[];.);.c[];tostring)|tojson",
	"ascii?",
};

/* With guards (which an inexact number in the program brings in) a program does what it does
 * without. */
TEST(guards_change_nothing_else)
{
	static const char input[] =
		"{\"a\":1,\"c\":[1,2,3],\"f\":2.25,\"s\":\"h\\u00e9llo\",\"n\":null,\"t\":true}";
	struct sc_bytes program, plain, guarded;
	size_t count = sizeof(programs) / sizeof(programs[0]), compiled = 0;

	sc_bytes_init(&program, 1 << 20);
	sc_bytes_init(&plain, 1 << 20);
	sc_bytes_init(&guarded, 1 << 20);
	for (size_t i = 0, step; i < count; i += step) {
		step = count - i < TOGETHER ? count - i : TOGETHER;
		for (;; step = 1) {
			sc_bytes_clear(&program);
			for (size_t k = 0; k < step; k++)
				CHECK_INT(sc_bytes_putf(&program, "%s[try (%s) catch {error:.}]",
							k ? ",\n" : "", programs[i + k]),
					  0);
			/* one that this libjq does not have is no case: then each by itself */
			if (outcome("", &program, input, &plain) || step == 1)
				break;
		}
		if (!outcome("9007199254740993 as $big|", &program, input, &guarded))
			continue;
		compiled += step;
		if (plain.len != guarded.len || memcmp(plain.data, guarded.data, plain.len) != 0)
			FAIL("%.*s:\n'%.*s' with guards,\n'%.*s' without", (int)program.len,
			     program.data, (int)guarded.len, guarded.data, (int)plain.len,
			     plain.data);
	}
	CHECK(compiled > 150);
	sc_bytes_done(&program);
	sc_bytes_done(&plain);
	sc_bytes_done(&guarded);
}
