/*
 * json/jq_guard.c: what the prelude's guards ask: exact comparison, exact tonumber, and refusal
 * where jq would round.
 *
 * A guard in the prelude is a jq function that calls `debug` with a request [what, arguments...]
 * and then `input`, which libjq lets the caller serve: together a call into C.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/jq_internal.h"
#include "json/number_internal.h"
#include "json/scan_internal.h"

enum what { TO_NUMBER, FROM_JSON, ONE_NUMBER, DEEP, COMPARE, PRINT, NEGATE, HALT };

static struct sc_span string_span(jv v)
{
	return sc_span(jv_string_value(v), (size_t)jv_string_length_bytes(jv_copy(v)));
}

static jv stop(const char *text)
{
	return jv_invalid_with_msg(jv_string(text));
}

/* The first trap is the one that is told. The program may catch the error; the run fails all the
 * same. */
static jv trap(struct sc_jq_run *run, struct sc_span number)
{
	if (!run->trapped)
		snprintf(run->trap, sizeof(run->trap),
			 "it computes with %.*s%s, which jq would round",
			 (int)(number.len < 100 ? number.len : 100), number.data,
			 number.len < 100 ? "" : "...");
	run->trapped = run->rounds = true;
	return stop("a number would be rounded");
}

/* Digits enough to be rounded, in a text that is not strict JSON but that jq might read. */
static bool long_digits(struct sc_span text)
{
	size_t run = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (sc_scan_is_digit(c)) {
			if (run || c != '0')
				run++;
			if (run > 15)
				return true;
			if (i + 1 < text.len && (text.data[i + 1] | 0x20) == 'e')
				return true;
		} else if (c != '.') {
			run = 0;
		}
	}
	return false;
}

/* [number], or false when it is not for us. */
static jv to_number(struct sc_jq_run *run, jv string)
{
	struct sc_span text = string_span(string);
	struct sc_json value;
	double plain;
	jv result;

	if (sc_json_scan(text, &value, NULL) == 0 &&
	    (value.kind == SC_JSON_INTEGER || value.kind == SC_JSON_NUMBER)) {
		if (sc_number_exact(value.text, &plain) && fabs(plain) < SC_JQ_BIG)
			result = JV_ARRAY(jv_number(plain));
		else
			result = JV_ARRAY(sc_jq_make_number(run, value.text, true));
		if (run->escalate) {
			jv_free(result);
			result = stop("to be done again with guards");
		}
	} else if (long_digits(text)) {
		result = trap(run, text);
	} else {
		result = jv_false();
	}
	jv_free(string);
	return result;
}

/* [value], or false when it is not for us. */
static jv from_json(struct sc_jq_run *run, jv string)
{
	struct sc_span text = string_span(string);
	struct sc_json value;
	size_t first = run->number_count;
	jv result;

	if (sc_json_scan(text, &value, NULL) < 0) {
		result = long_digits(text) ? trap(run, text) : jv_false();
		jv_free(string);
		return result;
	}
	result = JV_ARRAY(sc_jq_build(run, &value, false));
	/* the string may go before its numbers do */
	for (size_t i = first; i < run->number_count; i++) {
		struct sc_span *number = &run->numbers[i].text;
		char *copy = sc_malloc(number->len);

		if (!copy) {
			run->no_memory = true;
			run->number_count = i;
			break;
		}
		memcpy(copy, number->data, number->len);
		number->data = copy;
		run->numbers[i].own = true;
	}
	jv_free(string);
	if (run->escalate || run->no_memory) {
		jv_free(result);
		return stop("to be done again with guards");
	}
	return result;
}

static int number_cmp(struct sc_jq_run *run, jv a, jv b)
{
	const struct sc_jq_number *x = sc_jq_inexact(run, a), *y = sc_jq_inexact(run, b);
	struct sc_decimal p, q;
	jv text = jv_null();
	int order;

	if (!x && !y)
		return jv_cmp(jv_copy(a), jv_copy(b));
	/* beside an inexact number, an infinity or NaN decides alone, as jq orders them */
	if ((!x && !isfinite(jv_number_value(a))) || (!y && !isfinite(jv_number_value(b))))
		return jv_cmp(jv_copy(a), jv_copy(b));
	if (!x || !y)
		text = jv_dump_string(jv_copy(x ? b : a), 0);
	p = sc_decimal(x ? x->text : string_span(text));
	q = sc_decimal(y ? y->text : string_span(text));
	order = sc_decimal_cmp(&p, &q);
	jv_free(text);
	return order;
}

static int value_cmp(struct sc_jq_run *run, jv a, jv b);

static int array_cmp(struct sc_jq_run *run, jv a, jv b)
{
	int count_a = jv_array_length(jv_copy(a)), count_b = jv_array_length(jv_copy(b)), order = 0;

	for (int i = 0; order == 0 && i < count_a && i < count_b; i++)
		order = value_cmp(run, jv_array_get(jv_copy(a), i), jv_array_get(jv_copy(b), i));
	return order ? order : (count_a > count_b) - (count_a < count_b);
}

/* As jq orders objects: their sorted keys first, then the values in that order. */
static int object_cmp(struct sc_jq_run *run, jv a, jv b)
{
	jv keys = jv_keys(jv_copy(a));
	int order = jv_cmp(jv_copy(keys), jv_keys(jv_copy(b)));

	for (int i = 0, count = jv_array_length(jv_copy(keys)); order == 0 && i < count; i++) {
		jv key = jv_array_get(jv_copy(keys), i);

		order = value_cmp(run, jv_object_get(jv_copy(a), jv_copy(key)),
				  jv_object_get(jv_copy(b), key));
	}
	jv_free(keys);
	return order;
}

/* jv_cmp with inexact numbers by their digits. Consumes both. */
static int value_cmp(struct sc_jq_run *run, jv a, jv b)
{
	jv_kind kind = jv_get_kind(a);
	int order;

	if (kind != jv_get_kind(b) ||
	    (!sc_jq_find_inexact(run, a, 0) && !sc_jq_find_inexact(run, b, 0)))
		return jv_cmp(a, b);
	if (kind == JV_KIND_NUMBER)
		order = number_cmp(run, a, b);
	else if (kind == JV_KIND_ARRAY)
		order = array_cmp(run, a, b);
	else
		order = object_cmp(run, a, b);
	jv_free(a);
	jv_free(b);
	return order;
}

/* [COMPARE, operator, a, b] */
static jv compare(struct sc_jq_run *run, jv request)
{
	int op = (int)jv_number_value(jv_array_get(jv_copy(request), 1)), order;
	jv a = jv_array_get(jv_copy(request), 2), b = jv_array_get(request, 3);
	bool inexact = sc_jq_find_inexact(run, a, 0) || sc_jq_find_inexact(run, b, 0);

	if (!inexact && op <= 1) {
		int equal = jv_equal(a, b);

		return jv_bool(op == 0 ? equal : !equal);
	}
	order = value_cmp(run, a, b);
	switch (op) {
	case 0:
		return jv_bool(order == 0);
	case 1:
		return jv_bool(order != 0);
	case 2:
		return jv_bool(order < 0);
	case 3:
		return jv_bool(order <= 0);
	case 4:
		return jv_bool(order > 0);
	default:
		return jv_bool(order >= 0);
	}
}

static jv print(struct sc_jq_run *run, jv v)
{
	struct sc_bytes text;
	jv result;

	if (!sc_jq_find_inexact(run, v, 0))
		return jv_dump_string(v, 0);
	sc_bytes_init(&text, SC_JQ_RESULTS_MAX);
	if (sc_jq_print(run, v, &text, NULL) < 0)
		result = stop("cannot be made a string");
	else
		result = jv_string_sized(text.data, (int)text.len);
	sc_bytes_done(&text);
	jv_free(v);
	return result;
}

static jv negate(struct sc_jq_run *run, jv v)
{
	const struct sc_jq_number *number = sc_jq_inexact(run, v);
	struct sc_bytes text;
	double value = jv_number_value(v);
	jv result;

	jv_free(v);
	if (!number)
		return jv_number(-value);
	sc_bytes_init(&text, number->text.len + 1);
	if (number->text.data[0] == '-')
		sc_bytes_put(&text, number->text.data + 1, number->text.len - 1);
	else if (sc_bytes_putc(&text, '-') == 0)
		sc_bytes_put(&text, number->text.data, number->text.len);
	if (text.len < number->text.len - 1)
		run->no_memory = true;
	result = text.len ? sc_jq_make_number(run, sc_span(text.data, text.len), true)
			  : stop("out of memory");
	sc_bytes_done(&text);
	return result;
}

static jv halt(struct sc_jq_run *run, jv message)
{
	if (jv_get_kind(message) != JV_KIND_STRING)
		message = jv_dump_string(message, 0);
	if (!run->trapped)
		snprintf(run->trap, sizeof(run->trap), "%s", jv_string_value(message));
	run->trapped = true;
	jv_free(message);
	return stop("halted");
}

static jv serve(struct sc_jq_run *run, jv request)
{
	enum what what = (enum what)jv_number_value(jv_array_get(jv_copy(request), 0));
	const struct sc_jq_number *number;
	jv v;

	if (what == COMPARE)
		return compare(run, request);
	v = jv_array_get(request, 1);
	switch (what) {
	case TO_NUMBER:
		return to_number(run, v);
	case FROM_JSON:
		return from_json(run, v);
	case PRINT:
		return print(run, v);
	case NEGATE:
		return negate(run, v);
	case HALT:
		return halt(run, v);
	case ONE_NUMBER:
	case DEEP:
		number = sc_jq_find_inexact(run, v, 0);
		if (!number)
			return what == DEEP ? (jv_free(v), jv_true()) : v;
		jv_free(v);
		return trap(run, number->text);
	default:
		jv_free(v);
		return stop("no such guard");
	}
}

static void take_request(void *arg, jv message)
{
	struct sc_jq_run *run = arg;

	jv_free(run->request);
	run->request = message;
}

static jv give_answer(jq_state *state, void *arg)
{
	struct sc_jq_run *run = arg;
	jv request = run->request;

	(void)state;
	run->request = jv_invalid();
	if (jv_get_kind(request) != JV_KIND_ARRAY) {
		jv_free(request);
		return stop("No more inputs");
	}
	return serve(run, request);
}

void sc_jq_attach(jq_state *state, struct sc_jq_run *run)
{
	jq_set_debug_cb(state, take_request, run);
	jq_set_input_cb(state, give_answer, run);
}
