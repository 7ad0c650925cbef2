#include "wire/publish.h"

static const char tried[] = "cannot take a frame";

static int producer_frame(const struct sc_json *value, struct sc_publish *p,
			  struct sc_json *ret_rows, struct sc_err *err)
{
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;
	bool has_seq = false, has_rows = false;

	if (value->kind != SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_DATA, tried,
				  "a producer sends {\"seq\":N,\"rows\":[...]}, not %s",
				  sc_json_kind_name(value->kind));
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, &key, &member)) {
		if (sc_json_key_is(key, SC_SPAN("seq"))) {
			has_seq = sc_json_u64(&member, &p->seq) && p->seq <= INT64_MAX;
			if (!has_seq)
				return sc_err_set(err, SC_E_DATA, tried,
						  "seq must be an integer from 0");
		} else if (sc_json_key_is(key, SC_SPAN("last"))) {
			if (!sc_json_u64(&member, &p->last) || p->last > INT64_MAX)
				return sc_err_set(err, SC_E_DATA, tried,
						  "last must be an integer from seq on");
		} else if (sc_json_key_is(key, SC_SPAN("rows"))) {
			has_rows = member.kind == SC_JSON_ARRAY;
			if (!has_rows)
				return sc_err_set(err, SC_E_DATA, tried, "rows must be an array");
			*ret_rows = member;
		} else {
			return sc_err_set(err, SC_E_DATA, tried,
					  "a producer's frame has seq, last and rows only");
		}
	}
	if (!has_seq || !has_rows)
		return sc_err_set(err, SC_E_DATA, tried, "a producer's frame needs %s",
				  has_seq ? "rows" : "seq");
	return 0;
}

int sc_publish_parse(struct sc_span frame, bool producer, struct sc_publish *ret_publish,
		     struct sc_err *err)
{
	struct sc_publish p = { 0 };
	struct sc_json value, item;
	struct sc_json_walk walk;
	struct sc_span key;
	struct sc_err json_err;

	sc_err_clear(&json_err);
	if (sc_json_scan(frame, &value, &json_err) < 0)
		return sc_err_set(err, SC_E_DATA, tried, "it is not JSON: %s", json_err.reason);
	if (producer) {
		int rc = producer_frame(&value, &p, &value, err);

		if (rc < 0)
			return rc;
	} else if (value.kind == SC_JSON_OBJECT) {
		p.single = true;
		p.one = value;
		p.count = 1;
		*ret_publish = p;
		return 0;
	} else if (value.kind != SC_JSON_ARRAY) {
		return sc_err_set(err, SC_E_DATA, tried,
				  "it is %s, not an object or an array of objects",
				  sc_json_kind_name(value.kind));
	}
	sc_json_walk_init(&walk, &value);
	while (sc_json_walk_next(&walk, &key, &item)) {
		p.count++;
		/* A producer's rows may be any values: there the array cannot be mistaken for a
		 * row. */
		if (!producer && item.kind != SC_JSON_OBJECT)
			return sc_err_set(err, SC_E_DATA, tried, "element %zu is %s, not an object",
					  p.count, sc_json_kind_name(item.kind));
	}
	if (!p.count)
		return sc_err_set(err, SC_E_DATA, tried, "the array is empty");
	if (producer && !p.last)
		p.last = p.seq + p.count - 1;
	if (producer && (p.last < p.seq || p.last - p.seq < p.count - 1))
		return sc_err_set(err, SC_E_DATA, tried,
				  "there are more rows than numbers from seq to last");
	sc_json_walk_init(&p.walk, &value);
	*ret_publish = p;
	return 0;
}

bool sc_publish_next(struct sc_publish *publish, struct sc_span *ret_row)
{
	struct sc_json item;
	struct sc_span key;

	if (publish->single) {
		if (!publish->one.text.len)
			return false;
		*ret_row = publish->one.text;
		publish->one.text.len = 0;
		return true;
	}
	if (!sc_json_walk_next(&publish->walk, &key, &item))
		return false;
	*ret_row = item.text;
	return true;
}

int sc_publish_ok(struct sc_bytes *out, uint64_t first, size_t count, bool duplicate)
{
	if (sc_bytes_reserve(out, 32 + 21 * count) < 0)
		return SC_E_NOMEM;
	sc_bytes_puts(out, "{\"ok\":[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			sc_bytes_putc(out, ',');
		if (first)
			sc_bytes_put_u64(out, first + i);
		else
			sc_bytes_puts(out, "null");
	}
	return sc_bytes_puts(out, duplicate ? "],\"duplicate\":true}" : "]}");
}

int sc_publish_error(struct sc_bytes *out, const char *word, const char *detail)
{
	size_t start = out->len;

	if (sc_bytes_putf(out, "{\"error\":\"%s\",\"detail\":", word) < 0 ||
	    sc_bytes_put_json(out, sc_span_str(detail)) < 0 || sc_bytes_putc(out, '}') < 0) {
		out->len = start;
		return SC_E_NOMEM;
	}
	return 0;
}

static void get_text(const struct sc_json *object, const char *name, char *ret_text, size_t size)
{
	struct sc_json member;
	struct sc_bytes b;

	if (!sc_json_get(object, name, &member) || member.kind != SC_JSON_STRING)
		return;
	sc_bytes_init(&b, SIZE_MAX);
	if (sc_json_unescape(member.text, &b) == 0 && b.len) {
		size_t n = b.len < size ? b.len : size - 1;

		/* Not inside a letter. */
		while (n && n < b.len && ((unsigned char)b.data[n] & 0xc0) == 0x80)
			n--;
		memcpy(ret_text, b.data, n);
		ret_text[n] = '\0';
	}
	sc_bytes_done(&b);
}

static bool get_offsets(const struct sc_json *list, struct sc_publish_reply *r)
{
	struct sc_json_walk walk;
	struct sc_json item;
	struct sc_span key;

	sc_json_walk_init(&walk, list);
	while (sc_json_walk_next(&walk, &key, &item)) {
		if (item.kind == SC_JSON_NULL) {
			if (r->has_offsets)
				return false;
		} else {
			if (!sc_json_u64(&item, &r->last) || (r->count && !r->has_offsets))
				return false;
			if (!r->count)
				r->first = r->last;
			r->has_offsets = true;
		}
		r->count++;
	}
	return true;
}

int sc_publish_reply_parse(struct sc_span text, struct sc_publish_reply *ret_reply,
			   struct sc_err *err)
{
	struct sc_publish_reply r = { 0 };
	struct sc_json value, member;
	int shown = text.len < 120 ? (int)text.len : 120;

	if (sc_json_scan(text, &value, NULL) < 0 || value.kind != SC_JSON_OBJECT)
		return sc_err_set(err, SC_E_PROTOCOL, "cannot publish",
				  "the reply is no JSON object: %.*s", shown, text.data);
	get_text(&value, "error", r.word, sizeof(r.word));
	if (r.word[0]) {
		get_text(&value, "detail", r.detail, sizeof(r.detail));
	} else {
		if (!sc_json_get(&value, "ok", &member) || member.kind != SC_JSON_ARRAY ||
		    !get_offsets(&member, &r))
			return sc_err_set(err, SC_E_PROTOCOL, "cannot publish",
					  "the reply has no list of offsets: %.*s", shown,
					  text.data);
		r.ok = true;
		r.duplicate = sc_json_get(&value, "duplicate", &member) &&
			      member.kind == SC_JSON_TRUE;
	}
	*ret_reply = r;
	return 0;
}
