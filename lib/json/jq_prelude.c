/*
 * json/jq_prelude.c: the definitions that stand before a user's program.
 *
 * They bind before libjq's own: also operators are calls by name (_plus, _equal...) in a jq
 * program. Every builtin of the libjq in use is guarded unless it is known only to move values, so
 * a builtin that a later version adds is guarded, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "json/jq_internal.h"

/* Numbers of requests are those of enum what in jq_guard.c. */
static const char plain[] =
	"def __sc_hook: debug|input;"
	"def __sc_tonumber: tonumber;"
	"def __sc_fromjson: fromjson;"
	"def __sc_implode: implode;"
	"def tonumber: if type==\"string\" then ([0,.]|__sc_hook) as $r"
	"|if $r then $r[0] else __sc_tonumber end else __sc_tonumber end;"
	"def fromjson: if type==\"string\" then ([1,.]|__sc_hook) as $r"
	"|if $r then $r[0] else __sc_fromjson end else __sc_fromjson end;"
	"def __sc_literal: tonumber;"
	/* libjq 1.6 ends the process on code points that are none */
	"def implode: if type==\"array\" and all(.[];type==\"number\" and .>=0 and .<=1114111 and "
	"(.<55296 or .>57343))"
	" then __sc_implode else error(\"implode input must be an array of code points\") end;"
	/* libjq 1.6 frees the message of halt_error again at each later start */
	"def halt_error: [7,.]|__sc_hook; def halt_error(code): [7,.]|__sc_hook;"
	"def debug: .; def debug(m): .; def stderr: .;"
	"def input: error(\"No more inputs\"); def inputs: empty; def input_filename: null;";

static const char operators[] =
	"def __sc_plus(a;b): a+b; def __sc_minus(a;b): a-b; def __sc_multiply(a;b): a*b;"
	"def __sc_divide(a;b): a/b; def __sc_mod(a;b): a%b; def __sc_negate: -.;"
	"def __sc_length: length; def __sc_from_entries: from_entries; def __sc_format(f): "
	"format(f);"
	"def __sc_number: if __sc_big then [2,.]|__sc_hook else . end;"
	"def __sc_deep: if type==\"object\" or type==\"array\" or __sc_big then"
	" (if [3,.]|__sc_hook then . else . end) else . end;"
	"def length: if type==\"number\" then __sc_number|__sc_length else __sc_length end;"
	"def tostring: if type==\"string\" then . else [5,.]|__sc_hook end;"
	"def tojson: [5,.]|__sc_hook;"
	"def format(f): f as $f|if $f==\"text\" then tostring elif $f==\"json\" then tojson"
	" elif $f==\"csv\" or $f==\"tsv\" or $f==\"sh\" then __sc_deep|__sc_format($f)"
	" else tostring|__sc_format($f) end;"
	"def from_entries: [.[]?|objects|(.key,.k,.name,.Name,.K,.Key)|__sc_number] as "
	"$keys|__sc_from_entries;"
	"def with_entries(f): to_entries|map(f)|from_entries;"
	"def _negate: if __sc_big then [6,.]|__sc_hook else __sc_negate end;"
	"def _plus(a;b): b as $b|a as $a|if $a==null then $b elif $b==null then $a"
	" else __sc_plus($a|__sc_number;$b|__sc_number) end;"
	"def _minus(a;b): b as $b|a as $a|__sc_minus($a|__sc_deep;$b|__sc_deep);"
	"def _multiply(a;b): b as $b|a as $a|__sc_multiply($a|__sc_number;$b|__sc_number);"
	"def _divide(a;b): b as $b|a as $a|__sc_divide($a|__sc_number;$b|__sc_number);"
	"def _mod(a;b): b as $b|a as $a|__sc_mod($a|__sc_number;$b|__sc_number);"
	"def _equal(a;b): b as $b|a as $a|[4,0,$a,$b]|__sc_hook;"
	"def _notequal(a;b): b as $b|a as $a|[4,1,$a,$b]|__sc_hook;"
	"def _less(a;b): b as $b|a as $a|[4,2,$a,$b]|__sc_hook;"
	"def _lesseq(a;b): b as $b|a as $a|[4,3,$a,$b]|__sc_hook;"
	"def _greater(a;b): b as $b|a as $a|[4,4,$a,$b]|__sc_hook;"
	"def _greatereq(a;b): b as $b|a as $a|[4,5,$a,$b]|__sc_hook;"
	"def add: reduce .[] as $x (null;.+$x);"
	"def IN(src): any(src==.;.); def IN(src;s): any(src==s;.);";

/* Builtins that only move values, or look at nothing but kinds, truth and keys; and those defined
 * above. */
static const char *const movers[] = {
	"all/0",
	"all/1",
	"all/2",
	"any/0",
	"any/1",
	"any/2",
	"arrays/0",
	"booleans/0",
	"builtins/0",
	"combinations/0",
	"debug/0",
	"debug/1",
	"del/1",
	"empty/0",
	"env/0",
	"error/0",
	"error/1",
	"first/0",
	"first/1",
	"flatten/0",
	"get_jq_origin/0",
	"get_prog_origin/0",
	"get_search_list/0",
	"halt/0",
	"halt_error/0",
	"halt_error/1",
	"infinite/0",
	"input/0",
	"input_filename/0",
	"input_line_number/0",
	"inputs/0",
	"isempty/1",
	"iterables/0",
	"keys/0",
	"keys_unsorted/0",
	"last/0",
	"last/1",
	"leaf_paths/0",
	"map/1",
	"map_values/1",
	"modulemeta/0",
	"nan/0",
	"not/0",
	"now/0",
	"nulls/0",
	"numbers/0",
	"objects/0",
	"path/1",
	"paths/0",
	"paths/1",
	"recurse/0",
	"recurse/1",
	"recurse/2",
	"recurse_down/0",
	"repeat/1",
	"reverse/0",
	"scalars/0",
	"scalars_or_empty/0",
	"select/1",
	"stderr/0",
	"strings/0",
	"to_entries/0",
	"tostream/0",
	"transpose/0",
	"type/0",
	"until/2",
	"values/0",
	"walk/1",
	"while/2",
	/* defined above */
	"IN/1",
	"IN/2",
	"add/0",
	"format/1",
	"from_entries/0",
	"fromjson/0",
	"implode/0",
	"length/0",
	"tojson/0",
	"tonumber/0",
	"tostring/0",
	"with_entries/1",
};

/* Builtins that look at some of what they are given: bit 0 the input, bit N argument N. */
static const struct {
	const char *name;
	unsigned looks_at;
} partial[] = {
	{ "INDEX/1", 2 },   { "INDEX/2", 4 },   { "combinations/1", 2 }, { "delpaths/1", 2 },
	{ "flatten/1", 2 }, { "getpath/1", 2 }, { "group_by/1", 2 },     { "has/1", 2 },
	{ "in/1", 1 },      { "limit/2", 2 },   { "max_by/1", 2 },       { "min_by/1", 2 },
	{ "nth/1", 2 },     { "nth/2", 2 },     { "range/1", 2 },        { "range/2", 6 },
	{ "range/3", 14 },  { "setpath/2", 2 }, { "sort_by/1", 2 },      { "unique_by/1", 2 },
};

static unsigned looks_at(const char *name)
{
	for (size_t i = 0; i < sizeof(movers) / sizeof(movers[0]); i++) {
		if (strcmp(movers[i], name) == 0)
			return 0;
	}
	for (size_t i = 0; i < sizeof(partial) / sizeof(partial[0]); i++) {
		if (strcmp(partial[i].name, name) == 0)
			return partial[i].looks_at;
	}
	return ~0u;
}

/* "(a1;a2)" with TAIL after each name. */
static int put_arguments(struct sc_bytes *out, int count, unsigned mask, const char *tail)
{
	int rc = 0;

	for (int i = 1; rc == 0 && i <= count; i++)
		rc = sc_bytes_putf(out, "%sa%d%s", i == 1 ? "(" : ";", i,
				   mask >> i & 1 ? tail : "");
	return rc == 0 && count ? sc_bytes_putc(out, ')') : rc;
}

/* NAME is "sort_by/1": another name for libjq's own, then a definition in its place that looks
 * first. */
static int put_guard(struct sc_bytes *out, const char *name)
{
	const char *slash = strchr(name, '/');
	unsigned mask = looks_at(name);
	int len = slash ? (int)(slash - name) : 0, count = slash ? slash[1] - '0' : 0, rc;

	/* libjq has no builtin of more than seven arguments */
	if (!slash || !mask || count < 0 || count > 8 || slash[2])
		return 0;
	rc = sc_bytes_putf(out, "def __sc_%.*s_%d", len, name, count);
	if (rc == 0)
		rc = put_arguments(out, count, 0, "");
	if (rc == 0)
		rc = sc_bytes_putf(out, ": %.*s", len, name);
	if (rc == 0)
		rc = put_arguments(out, count, 0, "");
	if (rc == 0)
		rc = sc_bytes_putf(out, ";def %.*s", len, name);
	if (rc == 0)
		rc = put_arguments(out, count, 0, "");
	if (rc == 0)
		rc = sc_bytes_putf(out, ": %s__sc_%.*s_%d", mask & 1 ? "__sc_deep|" : "", len, name,
				   count);
	if (rc == 0)
		rc = put_arguments(out, count, mask, "|__sc_deep");
	return rc < 0 ? rc : sc_bytes_puts(out, ";");
}

int sc_jq_prelude(struct sc_bytes *out, jv builtins, bool careful)
{
	int rc = sc_bytes_puts(out, plain), count = jv_array_length(jv_copy(builtins));

	if (careful) {
		if (rc == 0)
			rc = sc_bytes_putf(
				out, "def __sc_big: type==\"number\" and (.>=%.17g or .<=-%.17g);",
				SC_JQ_BIG, SC_JQ_BIG);
		if (rc == 0)
			rc = sc_bytes_puts(out, operators);
	}
	for (int i = 0; careful && rc == 0 && i < count; i++) {
		jv name = jv_array_get(jv_copy(builtins), i);

		if (jv_get_kind(name) == JV_KIND_STRING)
			rc = put_guard(out, jv_string_value(name));
		jv_free(name);
	}
	jv_free(builtins);
	return rc;
}
