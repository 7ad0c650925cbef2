/* json/jq_value.c: JSON text to jv and back, with numbers and whole copies in their own bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "json/jq_internal.h"
#include "json/number_internal.h"

#define MARK_EXPONENT 1000
#define INDEX_BITS 24
#define INDEX_MAX ((1u << INDEX_BITS) - 1)

bool sc_jq_keeps_size;

static uint64_t mark_key(void)
{
	static uint64_t key;

	if (!key) {
		sc_random(&key, sizeof(key));
		key = (key | 1) & ((1ull << (52 - INDEX_BITS)) - 1);
	}
	return key;
}

static double make_mark(size_t index, bool negative)
{
	uint64_t bits = (uint64_t)(1023 + MARK_EXPONENT) << 52 | mark_key() << INDEX_BITS | index;
	double mark;

	memcpy(&mark, &bits, sizeof(mark));
	return negative ? -mark : mark;
}

const struct sc_jq_number *sc_jq_inexact(const struct sc_jq_run *run, jv v)
{
	double value = fabs(jv_number_value(v));
	uint64_t bits;
	size_t index;

	if (!(value >= SC_JQ_BIG) || !run->careful)
		return NULL;
	memcpy(&bits, &value, sizeof(bits));
	index = bits & INDEX_MAX;
	if (index >= run->number_count || value != fabs(run->numbers[index].value) ||
	    !run->numbers[index].inexact)
		return NULL;
	return &run->numbers[index];
}

void sc_jq_run_init(struct sc_jq_run *run)
{
	*run = (struct sc_jq_run){ .request = jv_invalid() };
	sc_bytes_init(&run->results, SC_JQ_RESULTS_MAX);
}

void sc_jq_run_clear(struct sc_jq_run *run)
{
	for (size_t i = 0; i < run->number_count; i++) {
		if (run->numbers[i].own)
			free((char *)run->numbers[i].text.data);
	}
	run->number_count = run->kept_count = run->list_count = 0;
	run->slot_mask = 0;
	run->careful = run->escalate = run->trapped = run->rounds = run->no_memory = false;
	jv_free(run->request);
	run->request = jv_invalid();
	sc_bytes_clear(&run->results);
}

void sc_jq_run_done(struct sc_jq_run *run)
{
	sc_jq_run_clear(run);
	free(run->numbers);
	free(run->kept);
	free(run->slots);
	free(run->list);
	sc_bytes_done(&run->results);
}

/* ITEMS, grown if there is no room for one more of SIZE; NULL without memory (ITEMS stays). */
static void *grow(void *items, size_t count, size_t *cap, size_t size)
{
	size_t more = *cap ? *cap * 2 : 32;
	void *grown;

	if (count < *cap)
		return items;
	grown = sc_realloc(items, more * size);
	if (grown)
		*cap = more;
	return grown;
}

static bool add_number(struct sc_jq_run *run, const struct sc_jq_number *number)
{
	void *items = run->number_count > INDEX_MAX ? NULL
						    : grow(run->numbers, run->number_count,
							   &run->number_cap, sizeof(*number));

	if (!items) {
		run->no_memory = true;
		return false;
	}
	run->numbers = items;
	run->numbers[run->number_count++] = *number;
	return true;
}

jv sc_jq_make_number(struct sc_jq_run *run, struct sc_span text, bool own)
{
	struct sc_jq_number number = { .text = text, .own = own };
	char *copy = NULL;
	jv v;

	number.inexact = !sc_number_exact(text, &number.value) || fabs(number.value) >= SC_JQ_BIG;
	if (number.inexact && !run->careful) {
		run->escalate = true;
		return jv_number(0);
	}
	if (own) {
		number.text.data = copy = sc_malloc(text.len);
		if (!copy) {
			run->no_memory = true;
			return jv_number(0);
		}
		memcpy(copy, text.data, text.len);
	}
	if (number.inexact)
		number.value = make_mark(run->number_count, text.data[0] == '-');
	if (!add_number(run, &number)) {
		free(copy);
		return jv_number(0);
	}
	v = jv_number(number.value);
	if (sc_jq_keeps_size)
		v.size = (int)run->number_count;
	return v;
}

static void keep_value(struct sc_jq_run *run, jv v, const struct sc_json *value)
{
	struct sc_jq_kept *items = grow(run->kept, run->kept_count, &run->kept_cap, sizeof(*items));

	if (!items) {
		run->no_memory = true;
		return;
	}
	run->kept = items;
	items[run->kept_count++] = (struct sc_jq_kept){
		.at = v.u.ptr,
		.length = value->kind == SC_JSON_ARRAY ? jv_array_length(jv_copy(v)) : 0,
		.value = *value,
	};
}

static jv build_string(struct sc_jq_run *run, struct sc_span raw)
{
	struct sc_bytes plain;
	jv v;

	if (!raw.len || !memchr(raw.data, '\\', raw.len))
		return jv_string_sized(raw.len ? raw.data : "", (int)raw.len);
	sc_bytes_init(&plain, raw.len);
	if (sc_json_unescape(raw, &plain) < 0)
		run->no_memory = true;
	v = jv_string_sized(plain.len ? plain.data : "", (int)plain.len);
	sc_bytes_done(&plain);
	return v;
}

static jv build_number(struct sc_jq_run *run, const struct sc_json *value)
{
	int64_t integer;

	/* jq spells short integers as they came */
	if (value->kind == SC_JSON_INTEGER && value->text.len <= 15 &&
	    sc_json_i64(value, &integer) && integer)
		return jv_number((double)integer);
	return sc_jq_make_number(run, value->text, false);
}

jv sc_jq_build(struct sc_jq_run *run, const struct sc_json *value, bool keep)
{
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	jv v;

	switch (value->kind) {
	case SC_JSON_NULL:
		return jv_null();
	case SC_JSON_FALSE:
		return jv_false();
	case SC_JSON_TRUE:
		return jv_true();
	case SC_JSON_INTEGER:
	case SC_JSON_NUMBER:
		return build_number(run, value);
	case SC_JSON_STRING:
		v = build_string(run, sc_span(value->text.data + 1, value->text.len - 2));
		if (keep && memchr(value->text.data, '\\', value->text.len))
			keep_value(run, v, value);
		return v;
	case SC_JSON_ARRAY:
		v = jv_array();
		sc_json_walk_init(&walk, value);
		while (sc_json_walk_next(&walk, NULL, &member))
			v = jv_array_append(v, sc_jq_build(run, &member, keep));
		break;
	default:
		v = jv_object();
		sc_json_walk_init(&walk, value);
		while (sc_json_walk_next(&walk, &key, &member))
			v = jv_object_set(v, build_string(run, key),
					  sc_jq_build(run, &member, keep));
	}
	if (keep)
		keep_value(run, v, value);
	return v;
}

static size_t pointer_hash(const void *p)
{
	return (size_t)((uint64_t)(uintptr_t)p * 0x9e3779b97f4a7c15ull >> 20);
}

static bool make_slots(struct sc_jq_run *run)
{
	size_t size = 64;

	while (size < 2 * run->kept_count)
		size *= 2;
	if (size > run->slot_cap) {
		uint32_t *grown = sc_realloc(run->slots, size * sizeof(*grown));

		if (!grown)
			return false;
		run->slots = grown;
		run->slot_cap = size;
	}
	memset(run->slots, 0, size * sizeof(*run->slots));
	run->slot_mask = size - 1;
	for (size_t i = 0; i < run->kept_count; i++) {
		size_t at = pointer_hash(run->kept[i].at) & run->slot_mask;

		while (run->slots[at])
			at = (at + 1) & run->slot_mask;
		run->slots[at] = (uint32_t)(i + 1);
	}
	return true;
}

static bool is_whole(const struct sc_jq_kept *kept, jv v)
{
	return kept->value.kind != SC_JSON_ARRAY ||
	       (v.offset == 0 && jv_array_length(jv_copy(v)) == kept->length);
}

static const struct sc_json *find_kept(struct sc_jq_run *run, jv v)
{
	size_t at;

	/* out of memory: then it is spelled anew, which is right, too */
	if (!run->kept_count || (!run->slot_mask && !make_slots(run)))
		return NULL;
	for (at = pointer_hash(v.u.ptr) & run->slot_mask; run->slots[at];
	     at = (at + 1) & run->slot_mask) {
		const struct sc_jq_kept *kept = &run->kept[run->slots[at] - 1];

		if (kept->at == v.u.ptr)
			return is_whole(kept, v) ? &kept->value : NULL;
	}
	return NULL;
}

static int refuse(struct sc_err *err, const char *reason, const char *next)
{
	sc_err_set(err, SC_E_DATA, "cannot run jq program", "%s", reason);
	return next ? sc_err_next(err, "%s", next) : SC_E_DATA;
}

static int print_computed(double value, jv v, struct sc_bytes *out, struct sc_err *err)
{
	jv text;
	int rc;

	if (isnan(value))
		return refuse(err, "a result is not a number", NULL);
	if (isinf(value))
		return refuse(err, "a result is too large for a double", NULL);
	if (value == trunc(value) && fabs(value) < 0x1p53 && (value != 0 || !signbit(value)))
		return sc_bytes_put_i64(out, (int64_t)value);
	text = jv_dump_string(jv_copy(v), 0);
	if (fabs(value) >= 0x1p53 && !strpbrk(jv_string_value(text), "eE.")) {
		sc_err_set(err, SC_E_DATA, "cannot run jq program",
			   "the computed integer %s is 2^53 or beyond, where jq rounds",
			   jv_string_value(text));
		sc_err_next(err, "compute with smaller numbers, or copy the number whole");
		jv_free(text);
		return SC_E_DATA;
	}
	rc = sc_bytes_put(out, jv_string_value(text),
			  (size_t)jv_string_length_bytes(jv_copy(text)));
	jv_free(text);
	return rc;
}

static int print_number(struct sc_jq_run *run, jv v, struct sc_bytes *out, struct sc_err *err)
{
	const struct sc_jq_number *inexact = sc_jq_inexact(run, v);
	double value = jv_number_value(v);
	size_t index = (size_t)v.size - 1;

	if (!sc_jq_keeps_size) {
		if (inexact && inexact->value == value)
			return sc_bytes_put(out, inexact->text.data, inexact->text.len);
	} else if (v.size > 0 && index < run->number_count &&
		   memcmp(&run->numbers[index].value, &value, sizeof(value)) == 0) {
		return sc_bytes_put(out, run->numbers[index].text.data,
				    run->numbers[index].text.len);
	}
	/* a mark that went through arithmetic */
	if (run->careful && fabs(value) >= SC_JQ_BIG && !isinf(value))
		return refuse(err, "a result was computed from a number that jq would round",
			      "copy such numbers whole, or compare them");
	return print_computed(value, v, out, err);
}

static int print_value(struct sc_jq_run *run, jv v, int depth, struct sc_bytes *out,
		       struct sc_err *err);

static int print_array(struct sc_jq_run *run, jv v, int depth, struct sc_bytes *out,
		       struct sc_err *err)
{
	int count = jv_array_length(jv_copy(v)), rc = sc_bytes_putc(out, '[');

	for (int i = 0; rc == 0 && i < count; i++) {
		jv item = jv_array_get(jv_copy(v), i);

		if (i > 0)
			rc = sc_bytes_putc(out, ',');
		if (rc == 0)
			rc = print_value(run, item, depth + 1, out, err);
		jv_free(item);
	}
	return rc < 0 ? rc : sc_bytes_putc(out, ']');
}

static int print_string(jv v, struct sc_bytes *out)
{
	return sc_json_put_string(
		sc_span(jv_string_value(v), (size_t)jv_string_length_bytes(jv_copy(v))), out);
}

static int print_object(struct sc_jq_run *run, jv v, int depth, struct sc_bytes *out,
			struct sc_err *err)
{
	int rc = sc_bytes_putc(out, '{');
	bool first = true;

	for (int i = jv_object_iter(v); rc == 0 && jv_object_iter_valid(v, i);
	     i = jv_object_iter_next(v, i)) {
		jv key = jv_object_iter_key(v, i), value = jv_object_iter_value(v, i);

		if (!first)
			rc = sc_bytes_putc(out, ',');
		first = false;
		if (rc == 0)
			rc = print_string(key, out);
		if (rc == 0)
			rc = sc_bytes_putc(out, ':');
		if (rc == 0)
			rc = print_value(run, value, depth + 1, out, err);
		jv_free(key);
		jv_free(value);
	}
	return rc < 0 ? rc : sc_bytes_putc(out, '}');
}

static int print_value(struct sc_jq_run *run, jv v, int depth, struct sc_bytes *out,
		       struct sc_err *err)
{
	jv_kind kind = jv_get_kind(v);
	const struct sc_json *kept = NULL;

	if (kind == JV_KIND_STRING || kind == JV_KIND_ARRAY || kind == JV_KIND_OBJECT)
		kept = find_kept(run, v);
	if (kept)
		return sc_json_put_line(kept, out);
	if (depth >= SC_JSON_DEPTH_MAX)
		return refuse(err, "a result is nested too deeply", NULL);
	switch (kind) {
	case JV_KIND_NULL:
		return sc_bytes_puts(out, "null");
	case JV_KIND_FALSE:
		return sc_bytes_puts(out, "false");
	case JV_KIND_TRUE:
		return sc_bytes_puts(out, "true");
	case JV_KIND_NUMBER:
		return print_number(run, v, out, err);
	case JV_KIND_STRING:
		return print_string(v, out);
	case JV_KIND_ARRAY:
		return print_array(run, v, depth, out, err);
	case JV_KIND_OBJECT:
		return print_object(run, v, depth, out, err);
	default:
		return refuse(err, "a result is invalid", NULL);
	}
}

int sc_jq_print(struct sc_jq_run *run, jv v, struct sc_bytes *out, struct sc_err *err)
{
	return print_value(run, v, 0, out, err);
}

const struct sc_jq_number *sc_jq_find_inexact(const struct sc_jq_run *run, jv v, int depth)
{
	const struct sc_jq_number *found = NULL;
	jv_kind kind = jv_get_kind(v);

	if (kind == JV_KIND_NUMBER)
		return sc_jq_inexact(run, v);
	/* what is nested more deeply was made by the program itself, and cannot be printed */
	if (depth > 4 * SC_JSON_DEPTH_MAX)
		return NULL;
	if (kind == JV_KIND_ARRAY) {
		int count = jv_array_length(jv_copy(v));

		for (int i = 0; !found && i < count; i++) {
			jv item = jv_array_get(jv_copy(v), i);

			found = sc_jq_find_inexact(run, item, depth + 1);
			jv_free(item);
		}
	} else if (kind == JV_KIND_OBJECT) {
		for (int i = jv_object_iter(v); !found && jv_object_iter_valid(v, i);
		     i = jv_object_iter_next(v, i)) {
			jv item = jv_object_iter_value(v, i);

			found = sc_jq_find_inexact(run, item, depth + 1);
			jv_free(item);
		}
	}
	return found;
}
