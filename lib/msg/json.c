/* msg/json.c: msgpack values as JSON text. The way back is in json_pack.c. */
#include "msg/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "msg/json_internal.h"
#include "msg/scan.h"

const char *const sc_msg_json_names[] = {
	[SC_MSG_JSON_BIN] = "$bin",     [SC_MSG_JSON_STR] = "$str", [SC_MSG_JSON_EXT] = "$ext",
	[SC_MSG_JSON_FLOAT] = "$float", [SC_MSG_JSON_MAP] = "$map",
};

/*
 * Whether a map is an object can be told at its end only. So the value is read twice: first each
 * map, in the order in which they begin, gets its answer; then it is printed. Both are one pass
 * with a stack of their own, so the time does not grow with the depth.
 */
struct level {
	bool map;
	bool plain;    /* a map that is an object */
	uint64_t left; /* items to come; in a map an even number comes before a key */
	uint64_t total;
	size_t keys_from; /* of this map, among the keys of all that are open */
	size_t number;    /* of this map */
};

struct survey {
	struct level levels[SC_PACKED_DEPTH_MAX];
	size_t depth;
	struct sc_bytes plain; /* a byte a map */
	struct sc_bytes keys;  /* of struct sc_span */
};

static bool is_key(const struct level *l)
{
	return l->map && l->left % 2 == 0;
}

static int compare_keys(const void *a, const void *b)
{
	const struct sc_span *x = a, *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return x->len ? memcmp(x->data, y->data, x->len) : 0;
}

static bool any_twice(struct sc_span *keys, size_t count)
{
	if (count > 1)
		qsort(keys, count, sizeof(*keys), compare_keys);
	for (size_t i = 1; i < count; i++)
		if (compare_keys(&keys[i - 1], &keys[i]) == 0)
			return true;
	return false;
}

static bool is_name(struct sc_span key)
{
	for (size_t i = 0; i < SC_MSG_JSON_NAMES; i++)
		if (sc_span_is(key, sc_msg_json_names[i]))
			return true;
	return false;
}

static int note_key(struct survey *s, struct level *l, const struct sc_packed *item)
{
	if (item->kind != SC_PACKED_STR || !sc_utf8_valid(item->bytes))
		l->plain = false;
	return l->plain ? sc_bytes_put(&s->keys, &item->bytes, sizeof(item->bytes)) : 0;
}

static void end_level(struct survey *s)
{
	struct level *l = &s->levels[--s->depth];
	struct sc_span *keys;
	size_t count;

	if (!l->map)
		return;
	if (l->plain) {
		/* aligned: nothing but spans is in there */
		keys = (struct sc_span *)(void *)(s->keys.data + l->keys_from);
		count = (s->keys.len - l->keys_from) / sizeof(*keys);
		if ((count == 1 && is_name(keys[0])) || any_twice(keys, count))
			l->plain = false;
	}
	s->plain.data[l->number] = l->plain;
	s->keys.len = l->keys_from;
}

static int survey(struct survey *s, struct sc_span data)
{
	struct sc_packed item;
	int rc = 0;

	while (rc == 0 && sc_packed_next(&data, &item)) {
		struct level *l = s->depth ? &s->levels[s->depth - 1] : NULL;
		bool map = item.kind == SC_PACKED_MAP;

		if (l && is_key(l))
			rc = note_key(s, l, &item);
		if (l)
			l->left--;
		if (rc == 0 && map)
			rc = sc_bytes_putc(&s->plain, true);
		if ((map || item.kind == SC_PACKED_ARRAY) && item.count) {
			s->levels[s->depth++] = (struct level){
				.map = map,
				.plain = map,
				.left = (uint64_t)item.count * (map ? 2 : 1),
				.keys_from = s->keys.len,
				.number = s->plain.len - 1,
			};
		}
		while (s->depth && s->levels[s->depth - 1].left == 0)
			end_level(s);
	}
	return rc;
}

struct printer {
	struct survey *s;
	struct sc_bytes *out;
	size_t maps;
};

static int begin_item(struct printer *p)
{
	const struct level *l = p->s->depth ? &p->s->levels[p->s->depth - 1] : NULL;
	int rc = 0;

	if (!l)
		return 0;
	if (l->map && !is_key(l))
		return sc_bytes_putc(p->out, l->plain ? ':' : ',');
	if (l->left != l->total)
		rc = sc_bytes_putc(p->out, ',');
	if (rc == 0 && l->map && !l->plain)
		rc = sc_bytes_putc(p->out, '[');
	return rc;
}

/* The item is out: close what it closes. */
static int end_item(struct printer *p)
{
	int rc = 0;

	while (rc == 0 && p->s->depth) {
		struct level *l = &p->s->levels[p->s->depth - 1];

		l->left--;
		if (l->map && !l->plain && l->left % 2 == 0)
			rc = sc_bytes_putc(p->out, ']');
		if (l->left || rc < 0)
			break;
		rc = sc_bytes_puts(p->out, !l->map ? "]" : l->plain ? "}" : "]}");
		p->s->depth--;
	}
	return rc;
}

static int put_container(struct printer *p, const struct sc_packed *item)
{
	bool map = item->kind == SC_PACKED_MAP;
	bool plain = map && p->s->plain.data[p->maps++];
	uint64_t total = (uint64_t)item->count * (map ? 2 : 1);
	int rc;

	if (item->count == 0) {
		rc = sc_bytes_puts(p->out, map ? "{}" : "[]");
		return rc < 0 ? rc : end_item(p);
	}
	rc = sc_bytes_puts(p->out, !map ? "[" : plain ? "{" : "{\"$map\":[");
	p->s->levels[p->s->depth++] =
		(struct level){ .map = map, .plain = plain, .left = total, .total = total };
	return rc;
}

static int put_base64(struct sc_bytes *out, const char *before, struct sc_span data,
		      const char *behind)
{
	int rc = sc_bytes_puts(out, before);

	if (rc == 0)
		rc = sc_base64_put(out, data);
	return rc < 0 ? rc : sc_bytes_puts(out, behind);
}

int sc_msg_json_print_str(struct sc_span text, struct sc_bytes *out)
{
	size_t start = out->len;
	int rc;

	if (sc_utf8_valid(text))
		return sc_json_put_string(text, out);
	rc = put_base64(out, "{\"$str\":\"", text, "\"}");
	if (rc < 0)
		out->len = start;
	return rc;
}

/* The fewest digits that give the same double again, and never the look of an integer. */
static int put_float(struct sc_bytes *out, double value)
{
	char text[40];
	int rc;

	if (isnan(value))
		return sc_bytes_puts(out, "{\"$float\":\"nan\"}");
	if (isinf(value))
		return sc_bytes_puts(out,
				     value > 0 ? "{\"$float\":\"inf\"}" : "{\"$float\":\"-inf\"}");
	/* a normal one gives back any 15 digits, without zeros behind them; below are fewer */
	for (int digits = isnormal(value) ? 15 : 1; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	rc = sc_bytes_puts(out, text);
	if (rc == 0 && !strpbrk(text, ".e"))
		rc = sc_bytes_puts(out, ".0");
	return rc;
}

static int put_scalar(struct sc_bytes *out, const struct sc_packed *item)
{
	char head[32];

	switch (item->kind) {
	case SC_PACKED_NIL:
		return sc_bytes_puts(out, "null");
	case SC_PACKED_BOOL:
		return sc_bytes_puts(out, item->truth ? "true" : "false");
	case SC_PACKED_UINT:
		return sc_bytes_put_u64(out, item->u);
	case SC_PACKED_INT:
		return sc_bytes_put_i64(out, item->i);
	case SC_PACKED_FLOAT:
		return put_float(out, item->f);
	case SC_PACKED_STR:
		return sc_msg_json_print_str(item->bytes, out);
	case SC_PACKED_BIN:
		return put_base64(out, "{\"$bin\":\"", item->bytes, "\"}");
	case SC_PACKED_EXT:
		snprintf(head, sizeof(head), "{\"$ext\":[%d,\"", item->ext);
		return put_base64(out, head, item->bytes, "\"]}");
	case SC_PACKED_ARRAY:
	case SC_PACKED_MAP:
		break;
	}
	return SC_E_INTERNAL;
}

static int print_all(struct survey *s, struct sc_span data, struct sc_bytes *out)
{
	struct printer p = { .s = s, .out = out };
	struct sc_packed item;
	int rc = 0;

	while (rc == 0 && sc_packed_next(&data, &item)) {
		rc = begin_item(&p);
		if (rc < 0)
			break;
		if (item.kind == SC_PACKED_ARRAY || item.kind == SC_PACKED_MAP) {
			rc = put_container(&p, &item);
			continue;
		}
		rc = put_scalar(out, &item);
		if (rc == 0)
			rc = end_item(&p);
	}
	return rc;
}

int sc_msg_json_print(struct sc_span packed, struct sc_bytes *out, struct sc_err *err)
{
	struct survey s = { .depth = 0 };
	size_t start = out->len, len = 0;
	enum sc_packed_end end = sc_packed_value(packed, &len);
	int rc;

	if (end != SC_PACKED_OK)
		return sc_err_set(err, SC_E_DATA, "cannot print a value", "%s",
				  sc_packed_fault(end));
	if (len != packed.len)
		return sc_err_set(err, SC_E_DATA, "cannot print a value",
				  "%zu bytes follow its end", packed.len - len);
	sc_bytes_init(&s.plain, SIZE_MAX / 2);
	sc_bytes_init(&s.keys, SIZE_MAX / 2);
	rc = survey(&s, packed);
	if (rc == 0)
		rc = print_all(&s, packed, out);
	sc_bytes_done(&s.plain);
	sc_bytes_done(&s.keys);
	if (rc < 0) {
		out->len = start;
		return sc_err_nomem(err, "cannot print a value");
	}
	return 0;
}
