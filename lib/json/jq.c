/* json/jq.c: compiling and running a jq program. */
#include "json/jq.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "json/jq_internal.h"

#define COMPILING "cannot compile jq program"
#define RUNNING "cannot run jq program"
#define PROGRAM_MAX (4u << 20)

struct sc_jq {
	jq_state *fast;      /* as jq has it, but for tonumber and fromjson */
	jq_state *careful;   /* with a guard on all that looks into numbers */
	bool always_careful; /* the program itself holds inexact numbers */
	struct sc_jq_run run;
};

struct words {
	char first[300];
};

/* "jq: error: syntax error, ... at <top-level>, line 1:\n(the program)": the first line of the
 * first message. */
static void take_words(void *arg, jv message)
{
	struct words *words = arg;
	jv text = jv_get_kind(message) == JV_KIND_STRING ? jv_copy(message)
							 : jv_dump_string(jv_copy(message), 0);
	const char *from = jv_string_value(text);
	size_t len;

	if (!words->first[0]) {
		if (strncmp(from, "jq: error: ", 11) == 0)
			from += 11;
		len = strcspn(from, "\n");
		while (len && (from[len - 1] == ':' || from[len - 1] == ' '))
			len--;
		snprintf(words->first, sizeof(words->first), "%.*s", (int)len, from);
	}
	jv_free(text);
	jv_free(message);
}

static void drop_words(void *arg, jv message)
{
	(void)arg;
	jv_free(message);
}

static jq_state *compile(const char *text, struct words *words)
{
	jq_state *state = jq_init();

	if (!state)
		return NULL;
	jq_set_error_cb(state, take_words, words);
	if (!jq_compile(state, text)) {
		jq_teardown(&state);
		return NULL;
	}
	jq_set_error_cb(state, drop_words, NULL);
	return state;
}

/*
 * What libjq has built in; and whether it leaves the size of a number alone, but not of a computed
 * one. Asked once: it costs as much as compiling a program.
 */
static jv probe(void)
{
	static jv known;
	static bool asked;
	struct words words = { "" };
	jv number = jv_number(12), copied, computed;
	jq_state *state;

	if (asked)
		return jv_copy(known);
	state = compile("builtins, ([.[0]] | {a: .[0]} | . as $x | $x.a), (.[0] + 0)", &words);
	if (!state)
		return jv_invalid();
	number.size = 77;
	jq_start(state, JV_ARRAY(number), 0);
	known = jq_next(state);
	copied = jq_next(state);
	computed = jq_next(state);
	sc_jq_keeps_size = jv_get_kind(copied) == JV_KIND_NUMBER && copied.size == 77 &&
			   jv_get_kind(computed) == JV_KIND_NUMBER && computed.size == 0;
	jv_free(copied);
	jv_free(computed);
	jq_teardown(&state);
	asked = true;
	return jv_copy(known);
}

static jq_state *compile_with(jv builtins, bool careful, const struct sc_bytes *program,
			      struct words *words)
{
	struct sc_bytes text;
	jq_state *state = NULL;

	sc_bytes_init(&text, PROGRAM_MAX);
	if (sc_jq_prelude(&text, jv_copy(builtins), careful) == 0 &&
	    sc_bytes_put(&text, program->data, program->len) == 0 && sc_bytes_str(&text))
		state = compile(text.data, words);
	sc_bytes_done(&text);
	return state;
}

/* The words for a program that does not compile, from libjq on the program alone. */
static int refuse_program(const char *program, const struct words *combined, struct sc_err *err)
{
	struct words alone = { "" };
	jq_state *state = compile(program, &alone);

	if (state)
		jq_teardown(&state);
	sc_err_set(err, SC_E_CONFIG, COMPILING, "%s",
		   alone.first[0]       ? alone.first
		   : combined->first[0] ? combined->first
					: "libjq refused it");
	return SC_E_CONFIG;
}

static int compile_both(struct sc_jq *jq, const char *program, struct sc_err *err)
{
	struct words words = { "" };
	struct sc_bytes rewritten;
	jv builtins;
	int rc;

	sc_bytes_init(&rewritten, PROGRAM_MAX);
	rc = sc_jq_rewrite(program, &rewritten, &jq->always_careful, err);
	if (rc < 0) {
		sc_bytes_done(&rewritten);
		return rc;
	}
	builtins = probe();
	if (jv_get_kind(builtins) != JV_KIND_ARRAY) {
		rc = sc_err_set(err, SC_E_INTERNAL, COMPILING, "libjq does not list its builtins");
		goto out;
	}
	jq->fast = compile_with(builtins, false, &rewritten, &words);
	if (jq->fast)
		jq->careful = compile_with(builtins, true, &rewritten, &words);
	if (!jq->fast || !jq->careful) {
		rc = refuse_program(program, &words, err);
		goto out;
	}
	sc_jq_attach(jq->fast, &jq->run);
	sc_jq_attach(jq->careful, &jq->run);
out:
	jv_free(builtins);
	sc_bytes_done(&rewritten);
	return rc;
}

/*
 * libjq reads ~/.jq into every program, where no guard would see its functions: while it compiles,
 * there is no HOME. Returns the old value to put back, or NULL if nothing was changed.
 */
static char *hide_home(void)
{
	const char *home = getenv("HOME");
	char path[4096], *old;

	if (!home || snprintf(path, sizeof(path), "%s/.jq", home) >= (int)sizeof(path) ||
	    access(path, F_OK) < 0)
		return NULL;
	old = strdup(home);
	if (old)
		unsetenv("HOME");
	return old;
}

int sc_jq_compile(const char *program, struct sc_jq **ret_jq, struct sc_err *err)
{
	struct sc_jq *jq;
	char *home;
	int rc;

	if (strlen(program) > PROGRAM_MAX / 4)
		return sc_err_set(err, SC_E_CONFIG, COMPILING, "it is longer than %u bytes",
				  PROGRAM_MAX / 4);
	jq = sc_calloc(1, sizeof(*jq));
	if (!jq)
		return sc_err_nomem(err, COMPILING);
	sc_jq_run_init(&jq->run);
	home = hide_home();
	rc = compile_both(jq, program, err);
	if (home)
		setenv("HOME", home, 1);
	free(home);
	if (rc < 0)
		sc_jq_free(jq);
	else
		*ret_jq = jq;
	return rc;
}

void sc_jq_free(struct sc_jq *jq)
{
	if (!jq)
		return;
	if (jq->fast)
		jq_teardown(&jq->fast);
	if (jq->careful)
		jq_teardown(&jq->careful);
	sc_jq_run_done(&jq->run);
	free(jq);
}

static enum sc_jq_sort sort_of(jv result, jv input)
{
	jv_kind kind = jv_get_kind(result);

	if (kind == JV_KIND_NULL || kind == JV_KIND_FALSE)
		return SC_JQ_NO;
	if (kind == JV_KIND_TRUE)
		return SC_JQ_TRUE;
	return jv_identical(jv_copy(result), jv_copy(input)) ? SC_JQ_SELF : SC_JQ_OTHER;
}

static int take_result(struct sc_jq_run *run, jv result, jv input, struct sc_err *err)
{
	struct sc_jq_result item = { .at = run->results.len, .sort = sort_of(result, input) };
	int rc = sc_jq_print(run, result, &run->results, err);

	if (rc == SC_E_NOMEM && run->results.full)
		return sc_err_set(err, SC_E_DATA, RUNNING,
				  "its results of one input are more than %u bytes",
				  SC_JQ_RESULTS_MAX);
	if (rc < 0)
		return rc == SC_E_NOMEM ? sc_err_nomem(err, RUNNING) : rc;
	item.len = run->results.len - item.at;
	if (run->list_count == run->list_cap) {
		size_t cap = run->list_cap ? run->list_cap * 2 : 16;
		struct sc_jq_result *grown = sc_realloc(run->list, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, RUNNING);
		run->list = grown;
		run->list_cap = cap;
	}
	run->list[run->list_count++] = item;
	return 0;
}

/* What ended the run: nothing (or halt), or an error with its message. Consumes LAST, which is
 * invalid. */
static int end_of_run(jv last, struct sc_err *err)
{
	jv message = jv_invalid_get_msg(last);
	bool failed = jv_get_kind(message) != JV_KIND_NULL;

	if (failed) {
		if (jv_get_kind(message) != JV_KIND_STRING)
			message = jv_dump_string(message, 0);
		sc_err_set(err, SC_E_DATA, RUNNING, "%s", jv_string_value(message));
	}
	jv_free(message);
	return failed ? SC_E_DATA : 0;
}

static int run_once(struct sc_jq *jq, bool careful, const struct sc_json *value, struct sc_err *err)
{
	jq_state *state = careful ? jq->careful : jq->fast;
	struct sc_jq_run *run = &jq->run;
	jv input, result;
	int rc = 0;

	sc_jq_run_clear(run);
	run->careful = careful;
	input = sc_jq_build(run, value, true);
	if (run->escalate || run->no_memory) {
		jv_free(input);
		return run->no_memory ? sc_err_nomem(err, RUNNING) : 0;
	}
	jq_start(state, jv_copy(input), 0);
	for (;;) {
		result = jq_next(state);
		if (!jv_is_valid(result)) {
			rc = end_of_run(result, err);
			break;
		}
		rc = run->escalate || run->trapped || run->no_memory
			     ? SC_E_DATA
			     : take_result(run, result, input, err);
		jv_free(result);
		if (rc < 0)
			break;
	}
	/* frees what the program held of the input */
	jq_start(state, jv_null(), 0);
	jv_free(input);
	if (run->escalate)
		return 0;
	if (run->no_memory)
		return sc_err_nomem(err, RUNNING);
	if (run->trapped) {
		sc_err_set(err, SC_E_DATA, RUNNING, "%s", run->trap);
		if (!run->rounds)
			return SC_E_DATA;
		return sc_err_next(
			err, "copy such numbers whole, compare them, or take them as strings");
	}
	return rc;
}

static int run_program(struct sc_jq *jq, struct sc_span text, struct sc_err *err)
{
	struct sc_json value;
	int rc;

	if (text.len > INT32_MAX / 4)
		return sc_err_set(err, SC_E_DATA, RUNNING, "its input of %zu bytes is too long",
				  text.len);
	rc = sc_json_scan(text, &value, err);
	if (rc < 0)
		return rc;
	if (jq->always_careful)
		return run_once(jq, true, &value, err);
	rc = run_once(jq, false, &value, err);
	return jq->run.escalate ? run_once(jq, true, &value, err) : rc;
}

static struct sc_span result_text(const struct sc_jq *jq, size_t index)
{
	return sc_span(jq->run.results.data + jq->run.list[index].at, jq->run.list[index].len);
}

int sc_jq_map(struct sc_jq *jq, struct sc_span text, sc_jq_emit emit, void *arg, struct sc_err *err)
{
	int rc = run_program(jq, text, err);

	for (size_t i = 0; rc >= 0 && i < jq->run.list_count; i++)
		rc = emit(arg, result_text(jq, i), err);
	return rc < 0 ? rc : 0;
}

int sc_jq_filter(struct sc_jq *jq, struct sc_span text, bool *ret_keep, struct sc_err *err)
{
	bool keep = false;
	int rc = run_program(jq, text, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < jq->run.list_count; i++)
		keep |= jq->run.list[i].sort != SC_JQ_NO;
	*ret_keep = keep;
	return 0;
}

int sc_jq_pass(struct sc_jq *jq, struct sc_span text, sc_jq_emit emit, void *arg,
	       enum sc_jq_answer *ret_answer, struct sc_err *err)
{
	enum sc_jq_answer answer = SC_JQ_DROP;
	int rc = run_program(jq, text, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < jq->run.list_count; i++) {
		enum sc_jq_sort sort = jq->run.list[i].sort;

		if (sort == SC_JQ_OTHER)
			answer = SC_JQ_CHANGED;
		else if (sort != SC_JQ_NO && answer == SC_JQ_DROP)
			answer = SC_JQ_KEEP;
	}
	for (size_t i = 0; answer == SC_JQ_CHANGED && rc >= 0 && i < jq->run.list_count; i++) {
		if (jq->run.list[i].sort != SC_JQ_NO)
			rc = emit(arg, result_text(jq, i), err);
	}
	if (rc < 0)
		return rc;
	*ret_answer = answer;
	return 0;
}
