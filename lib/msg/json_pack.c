/* msg/json_pack.c: JSON values as msgpack. */
#include <math.h>
#include <stdlib.h>

#include "base/base64.h"
#include "msg/json.h"
#include "msg/json_internal.h"
#include "msg/pack.h"
#include "msg/scan.h"

#define TRIED "cannot send data"

struct packer {
	struct sc_bytes *out;
	struct sc_bytes text, raw; /* of the string at hand */
	unsigned depth;
	struct sc_err *err;
};

/* Depth is limited by SC_PACKED_DEPTH_MAX, and by the scanner. */
static int pack(struct packer *p, const struct sc_json *value);

static int nomem(struct packer *p)
{
	return sc_err_nomem(p->err, TRIED);
}

static int keep(struct packer *p, int rc)
{
	return rc < 0 ? nomem(p) : 0;
}

static int bad_form(struct packer *p, enum sc_msg_json_name name, const char *takes)
{
	sc_err_set(p->err, SC_E_DATA, TRIED, "{\"%s\":..} takes %s", sc_msg_json_names[name],
		   takes);
	return sc_err_next(p->err,
			   "an object that only looks like it is written {\"$map\":[[\"%s\",..]]}",
			   sc_msg_json_names[name]);
}

static int pack_integer(struct packer *p, const struct sc_json *value)
{
	uint64_t u;
	int64_t i;

	if (sc_json_u64(value, &u))
		return keep(p, sc_pack_u64(p->out, u));
	if (sc_json_i64(value, &i))
		return keep(p, sc_pack_i64(p->out, i));
	sc_err_set(p->err, SC_E_DATA, TRIED, "the integer %.*s%s is not in -2^63 to 2^64-1",
		   (int)(value->text.len > 60 ? 60 : value->text.len), value->text.data,
		   value->text.len > 60 ? "..." : "");
	return sc_err_next(p->err, "send it as a string, or with a fraction as a float");
}

static int pack_number(struct packer *p, const struct sc_json *value)
{
	const char *text;
	double number;

	sc_bytes_clear(&p->text);
	if (sc_bytes_put(&p->text, value->text.data, value->text.len) < 0 ||
	    !(text = sc_bytes_str(&p->text)))
		return nomem(p);
	number = strtod(text, NULL); /* in the C locale: no program of ours sets another */
	if (isinf(number)) {
		sc_err_set(p->err, SC_E_DATA, TRIED, "the number %.60s is beyond a double", text);
		return sc_err_next(p->err, "send it as a string");
	}
	return keep(p, sc_pack_f64(p->out, number));
}

/* The characters of a string, or of a raw key, into p->text. */
static int take_text(struct packer *p, struct sc_span raw)
{
	sc_bytes_clear(&p->text);
	return keep(p, sc_json_unescape(raw, &p->text));
}

static struct sc_span span_of(const struct sc_bytes *b)
{
	return sc_span(b->len ? b->data : "", b->len);
}

static int pack_text(struct packer *p, struct sc_span raw)
{
	int rc = take_text(p, raw);

	return rc < 0 ? rc : keep(p, sc_pack_str(p->out, span_of(&p->text)));
}

/* The bytes of a base64 string into p->raw. */
static int take_base64(struct packer *p, const struct sc_json *value, enum sc_msg_json_name name,
		       const char *takes)
{
	int rc;

	if (value->kind != SC_JSON_STRING)
		return bad_form(p, name, takes);
	rc = take_text(p, value->text);
	if (rc < 0)
		return rc;
	sc_bytes_clear(&p->raw);
	rc = sc_base64_get(&p->raw, span_of(&p->text));
	if (rc == SC_E_DATA)
		return bad_form(p, name, takes);
	return keep(p, rc);
}

static int pack_bytes(struct packer *p, const struct sc_json *value, enum sc_msg_json_name name)
{
	int rc = take_base64(p, value, name, "base64 in a string");

	if (rc < 0)
		return rc;
	return keep(p, name == SC_MSG_JSON_BIN ? sc_pack_bin(p->out, span_of(&p->raw))
					       : sc_pack_str(p->out, span_of(&p->raw)));
}

/* VALUE is an array of two: they. */
static bool take_pair(const struct sc_json *value, struct sc_json *ret_first,
		      struct sc_json *ret_second)
{
	struct sc_json_walk walk;
	struct sc_json more;

	if (value->kind != SC_JSON_ARRAY)
		return false;
	sc_json_walk_init(&walk, value);
	return sc_json_walk_next(&walk, NULL, ret_first) &&
	       sc_json_walk_next(&walk, NULL, ret_second) && !sc_json_walk_next(&walk, NULL, &more);
}

static int pack_ext(struct packer *p, const struct sc_json *value)
{
	static const char takes[] = "[TYPE,BASE64] with a type from -128 to 127";
	struct sc_json type, data;
	int64_t number;
	int rc;

	if (!take_pair(value, &type, &data) || !sc_json_i64(&type, &number) || number < INT8_MIN ||
	    number > INT8_MAX)
		return bad_form(p, SC_MSG_JSON_EXT, takes);
	rc = take_base64(p, &data, SC_MSG_JSON_EXT, takes);
	return rc < 0 ? rc : keep(p, sc_pack_ext(p->out, (int8_t)number, span_of(&p->raw)));
}

static int pack_float(struct packer *p, const struct sc_json *value)
{
	static const struct {
		const char *word;
		double value;
	} words[] = { { "nan", NAN }, { "inf", INFINITY }, { "-inf", -INFINITY } };
	int rc;

	if (value->kind != SC_JSON_STRING)
		return bad_form(p, SC_MSG_JSON_FLOAT, "\"nan\", \"inf\" or \"-inf\"");
	rc = take_text(p, value->text);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (sc_span_is(span_of(&p->text), words[i].word))
			return keep(p, sc_pack_f64(p->out, words[i].value));
	return bad_form(p, SC_MSG_JSON_FLOAT, "\"nan\", \"inf\" or \"-inf\"");
}

static int count_of(struct packer *p, const struct sc_json *value, uint32_t *ret_count)
{
	struct sc_json_walk walk;
	struct sc_json element;
	uint64_t count = 0;

	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, NULL, &element))
		count++;
	if (count > UINT32_MAX)
		return sc_err_set(p->err, SC_E_DATA, TRIED,
				  "an array or object has more than 2^32-1 elements");
	*ret_count = (uint32_t)count;
	return 0;
}

static int enter(struct packer *p)
{
	if (++p->depth <= SC_PACKED_DEPTH_MAX)
		return 0;
	sc_err_set(p->err, SC_E_DATA, TRIED, "arrays and objects are nested too deeply");
	return sc_err_next(p->err, "the limit is %d levels", SC_PACKED_DEPTH_MAX);
}

static int pack_pairs(struct packer *p, const struct sc_json *value)
{
	static const char takes[] = "an array of [KEY,VALUE]";
	struct sc_json_walk walk;
	struct sc_json pair, key, member;
	uint32_t count = 0;
	int rc;

	if (value->kind != SC_JSON_ARRAY)
		return bad_form(p, SC_MSG_JSON_MAP, takes);
	rc = count_of(p, value, &count);
	if (rc == 0)
		rc = enter(p);
	if (rc == 0)
		rc = keep(p, sc_pack_map(p->out, count));
	sc_json_walk_init(&walk, value);
	while (rc == 0 && sc_json_walk_next(&walk, NULL, &pair)) {
		if (!take_pair(&pair, &key, &member))
			return bad_form(p, SC_MSG_JSON_MAP, takes);
		rc = pack(p, &key);
		if (rc == 0)
			rc = pack(p, &member);
	}
	p->depth--;
	return rc;
}

/* 1 when VALUE is an object that stands for something else, and was packed; 0 when it is none. */
static int pack_special(struct packer *p, const struct sc_json *value)
{
	struct sc_json_walk walk;
	struct sc_json member, more;
	struct sc_span key;
	int name, rc = 0;

	sc_json_walk_init(&walk, value);
	if (!sc_json_walk_next(&walk, &key, &member) || sc_json_walk_next(&walk, NULL, &more))
		return 0;
	for (name = 0; name < SC_MSG_JSON_NAMES; name++)
		if (sc_json_key_is(key, sc_span_str(sc_msg_json_names[name])))
			break;
	switch (name) {
	case SC_MSG_JSON_BIN:
	case SC_MSG_JSON_STR:
		rc = pack_bytes(p, &member, name);
		break;
	case SC_MSG_JSON_EXT:
		rc = pack_ext(p, &member);
		break;
	case SC_MSG_JSON_FLOAT:
		rc = pack_float(p, &member);
		break;
	case SC_MSG_JSON_MAP:
		rc = pack_pairs(p, &member);
		break;
	default:
		return 0;
	}
	return rc < 0 ? rc : 1;
}

static int pack_container(struct packer *p, const struct sc_json *value)
{
	bool object = value->kind == SC_JSON_OBJECT;
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	uint32_t count = 0;
	int rc = object ? pack_special(p, value) : 0;

	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = count_of(p, value, &count);
	if (rc == 0)
		rc = enter(p);
	if (rc == 0)
		rc = keep(p, object ? sc_pack_map(p->out, count) : sc_pack_array(p->out, count));
	sc_json_walk_init(&walk, value);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &member)) {
		if (object)
			rc = pack_text(p, key);
		if (rc == 0)
			rc = pack(p, &member);
	}
	p->depth--;
	return rc;
}

static int pack(struct packer *p, const struct sc_json *value)
{
	switch (value->kind) {
	case SC_JSON_NULL:
		return keep(p, sc_pack_nil(p->out));
	case SC_JSON_FALSE:
	case SC_JSON_TRUE:
		return keep(p, sc_pack_bool(p->out, value->kind == SC_JSON_TRUE));
	case SC_JSON_INTEGER:
		return pack_integer(p, value);
	case SC_JSON_NUMBER:
		return pack_number(p, value);
	case SC_JSON_STRING:
		return pack_text(p, value->text);
	case SC_JSON_ARRAY:
	case SC_JSON_OBJECT:
		break;
	}
	return pack_container(p, value);
}

int sc_msg_json_pack(const struct sc_json *value, struct sc_bytes *out, struct sc_err *err)
{
	struct packer p = { .out = out, .err = err };
	size_t start = out->len;
	int rc;

	sc_bytes_init(&p.text, SIZE_MAX / 2);
	sc_bytes_init(&p.raw, SIZE_MAX / 2);
	rc = pack(&p, value);
	sc_bytes_done(&p.text);
	sc_bytes_done(&p.raw);
	if (rc < 0)
		out->len = start;
	return rc;
}
