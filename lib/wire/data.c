#include "json/scan.h"
#include "wire/data.h"

static const char tried[] = "cannot read a data frame";

static inline const char *blanks(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
		p++;
	return p;
}

/* Digits of a JSON integer (no sign, no leading zero); NULL if there are none or they overflow. */
static inline const char *digits(const char *p, const char *end, uint64_t *ret_value)
{
	const char *start = p;
	uint64_t value = 0;

	while (p < end && *p >= '0' && *p <= '9') {
		if (p - start >= 19 &&
		    (__builtin_mul_overflow(value, 10, &value) ||
		     __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value)))
			return NULL;
		if (p - start < 19)
			value = value * 10 + (uint64_t)(*p - '0');
		p++;
	}
	if (p == start || (*start == '0' && p - start > 1))
		return NULL;
	*ret_value = value;
	return p;
}

/* "N," or "null,": where it ends, NULL if it is something else. */
static inline const char *head_value(const char *p, const char *end, bool *ret_has,
				     bool *ret_negative, uint64_t *ret_value)
{
	*ret_negative = false;
	p = blanks(p, end);
	if (end - p > 4 && !memcmp(p, "null", 4)) {
		*ret_has = false;
		p += 4;
	} else {
		if (p < end && *p == '-') {
			*ret_negative = true;
			p++;
		}
		p = digits(p, end, ret_value);
		if (!p)
			return NULL;
		*ret_has = true;
	}
	p = blanks(p, end);
	return p < end && *p == ',' ? p + 1 : NULL;
}

/* What exactly is wrong with a frame that the quick way did not take. */
static int refuse(struct sc_span frame, bool triples, struct sc_err *err)
{
	struct sc_err json_err;
	struct sc_json value, item, first = { 0 }, second = { 0 };
	struct sc_json_walk walk;
	struct sc_span key;
	size_t count = 0, want = triples ? 3 : 2;
	uint64_t u;
	int64_t i;

	sc_err_clear(&json_err);
	if (sc_json_scan(frame, &value, &json_err) < 0)
		return sc_err_set(err, SC_E_PROTOCOL, tried, "it is not JSON: %s", json_err.reason);
	if (value.kind != SC_JSON_ARRAY)
		return sc_err_set(err, SC_E_PROTOCOL, tried, "it is %s, not an array",
				  sc_json_kind_name(value.kind));
	sc_json_walk_init(&walk, &value);
	while (sc_json_walk_next(&walk, &key, &item)) {
		if (count == 0)
			first = item;
		else if (count == 1)
			second = item;
		count++;
	}
	if (count != want)
		return sc_err_set(err, SC_E_PROTOCOL, tried, "it has %zu elements, not %zu", count,
				  want);
	if (first.kind != SC_JSON_NULL && !sc_json_u64(&first, &u))
		return sc_err_set(err, SC_E_PROTOCOL, tried,
				  "its offset is %s, not null or an integer from 0: %.*s",
				  sc_json_kind_name(first.kind),
				  first.text.len < 40 ? (int)first.text.len : 40, first.text.data);
	if (triples && second.kind != SC_JSON_NULL && !sc_json_i64(&second, &i))
		return sc_err_set(err, SC_E_PROTOCOL, tried,
				  "its time is %s, not null or an integer of us: %.*s",
				  sc_json_kind_name(second.kind),
				  second.text.len < 40 ? (int)second.text.len : 40,
				  second.text.data);
	return sc_err_set(err, SC_E_PROTOCOL, tried, "it cannot be understood");
}

static bool split(struct sc_span frame, bool triples, struct sc_data *d)
{
	const char *p = frame.data, *end = frame.data + frame.len, *msg;
	bool negative = false, compact;
	uint64_t ts = 0;

	if (frame.len < 2)
		return false;
	p = blanks(p, end);
	while (end > p && (end[-1] == ' ' || end[-1] == '\n' || end[-1] == '\t' || end[-1] == '\r'))
		end--;
	if (end - p < 2 || *p != '[' || end[-1] != ']')
		return false;
	compact = p == frame.data && end == frame.data + frame.len && !triples && p[1] > ' ';
	end--;
	msg = head_value(p + 1, end, &d->has_offset, &negative, &d->offset);
	if (!msg || negative)
		return false;
	compact = compact && msg[-2] > ' ';
	if (triples) {
		msg = head_value(msg, end, &d->has_ts, &negative, &ts);
		if (!msg || ts > (uint64_t)INT64_MAX)
			return false;
		d->ts_us = negative ? -(int64_t)ts : (int64_t)ts;
	}
	d->msg = sc_span(msg, (size_t)(end - msg));
	d->is_line = compact;
	return true;
}

int sc_data_parse(struct sc_data_order *order, struct sc_span frame, struct sc_data *ret_data,
		  struct sc_err *err)
{
	struct sc_data d = { 0 };
	struct sc_json value;

	/*
	 * What stands between the head and the last bracket must be one value: that is all there is
	 * to an array of this shape.
	 */
	if (!split(frame, order->triples, &d) || sc_json_scan(d.msg, &value, NULL) < 0)
		return refuse(frame, order->triples, err);
	if (d.has_offset && order->has_last && d.offset <= order->last)
		return sc_err_set(err, SC_E_PROTOCOL, tried,
				  "offset %llu came after %llu: offsets must rise",
				  (unsigned long long)d.offset, (unsigned long long)order->last);
	if (value.text.len != d.msg.len || value.newlines)
		d.is_line = false;
	d.newlines = value.newlines;
	d.msg = value.text;
	if (d.has_offset) {
		order->has_last = true;
		order->last = d.offset;
	}
	*ret_data = d;
	return 0;
}
