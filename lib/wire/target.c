#include <arpa/inet.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/scan.h"
#include "wire/target.h"

/* Zeros of the decimal digits (Unicode category Nd), each followed by its one to nine: what int()
 * reads. */
static const uint32_t zeros[] = {
	0x30,    0x660,   0x6f0,   0x7c0,   0x966,   0x9e6,   0xa66,   0xae6,   0xb66,   0xbe6,
	0xc66,   0xce6,   0xd66,   0xde6,   0xe50,   0xed0,   0xf20,   0x1040,  0x1090,  0x17e0,
	0x1810,  0x1946,  0x19d0,  0x1a80,  0x1a90,  0x1b50,  0x1bb0,  0x1c40,  0x1c50,  0xa620,
	0xa8d0,  0xa900,  0xa9d0,  0xa9f0,  0xaa50,  0xabf0,  0xff10,  0x104a0, 0x10d30, 0x11066,
	0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0,
	0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
	0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
};
#define INT_DIGITS_MAX 4300u /* Python refuses longer ones */

/* The next code point of valid UTF-8; *at moves. */
static uint32_t point(struct sc_span text, size_t *at)
{
	const unsigned char *p = (const unsigned char *)text.data + *at;

	if (p[0] < 0x80) {
		*at += 1;
		return p[0];
	}
	if (p[0] < 0xe0) {
		*at += 2;
		return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
	}
	if (p[0] < 0xf0) {
		*at += 3;
		return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
	}
	*at += 4;
	return (uint32_t)(p[0] & 7) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
	       (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

static bool is_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
	       c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
	       c == 0x202f || c == 0x205f || c == 0x3000;
}

static int digit(uint32_t c)
{
	if (c < 0x80)
		return c >= '0' && c <= '9' ? (int)c - '0' : -1;
	for (size_t i = 1; i < sizeof(zeros) / sizeof(zeros[0]); i++)
		if (c >= zeros[i] && c < zeros[i] + 10)
			return (int)(c - zeros[i]);
	return -1;
}

bool sc_target_integer(struct sc_span text, bool *ret_negative, uint64_t *ret_value,
		       char *ret_digits, size_t size)
{
	enum { BEFORE, SIGNED, DIGIT, UNDERSCORE, AFTER } state = BEFORE;
	bool negative = false, over = false;
	uint64_t value = 0;
	size_t at = 0, digits = 0, out = 0;

	if (!sc_utf8_valid(text))
		return false;
	while (at < text.len) {
		uint32_t c = point(text, &at);
		int d = digit(c);

		if (d >= 0 && state != AFTER) {
			state = DIGIT;
			if (++digits > INT_DIGITS_MAX)
				return false;
			if (__builtin_mul_overflow(value, 10, &value) ||
			    __builtin_add_overflow(value, (uint64_t)d, &value))
				over = true;
			if ((out || d) && out + 1 < size)
				ret_digits[out++] = (char)('0' + d);
		} else if (c == '_' && state == DIGIT) {
			state = UNDERSCORE;
		} else if ((c == '+' || c == '-') && state == BEFORE) {
			negative = c == '-';
			state = SIGNED;
		} else if (is_space(c) && (state == BEFORE || state == DIGIT || state == AFTER)) {
			state = state == BEFORE ? BEFORE : AFTER;
		} else {
			return false;
		}
	}
	if (state != DIGIT && state != AFTER)
		return false;
	if (!out && size > 1)
		ret_digits[out++] = '0';
	if (size)
		ret_digits[out] = '\0';
	*ret_negative = negative && (over || value);
	*ret_value = over ? UINT64_MAX : value;
	return true;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Python's "replace": each maximal part of an ill-formed sequence becomes one U+FFFD. Returns bytes
 * taken; *ret_ok. */
static size_t utf8_part(const unsigned char *p, size_t len, bool *ret_ok)
{
	unsigned char lo = 0x80, hi = 0xbf;
	size_t need, n = 1;

	*ret_ok = true;
	if (p[0] < 0x80)
		return 1;
	*ret_ok = false;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 1;
	need = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (p[0] == 0xe0)
		lo = 0xa0;
	if (p[0] == 0xed)
		hi = 0x9f;
	if (p[0] == 0xf0)
		lo = 0x90;
	if (p[0] == 0xf4)
		hi = 0x8f;
	for (; n < need && n < len && p[n] >= lo && p[n] <= hi; n++) {
		lo = 0x80;
		hi = 0xbf;
	}
	*ret_ok = n == need;
	return n;
}

/* Form decoding: at most 3 output bytes for each input byte, and there is room
 * (sc_target_parse). */
static struct sc_span decode(struct sc_span text, struct sc_bytes *store, char *scratch)
{
	size_t start = store->len, n = 0;

	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];

		if (c == '+') {
			c = ' ';
		} else if (c == '%' && i + 2 < text.len && hex(text.data[i + 1]) >= 0 &&
			   hex(text.data[i + 2]) >= 0) {
			c = (char)(hex(text.data[i + 1]) << 4 | hex(text.data[i + 2]));
			i += 2;
		}
		scratch[n++] = c;
	}
	for (size_t i = 0; i < n;) {
		bool ok;
		size_t part = utf8_part((const unsigned char *)scratch + i, n - i, &ok);

		memcpy(store->data + store->len, ok ? scratch + i : "\xef\xbf\xbd", ok ? part : 3);
		store->len += ok ? part : 3;
		i += part;
	}
	return sc_span(store->data + start, store->len - start);
}

static const char *find(struct sc_span text, char c)
{
	return text.len ? memchr(text.data, c, text.len) : NULL;
}

static struct sc_span from(struct sc_span text, const char *at)
{
	return sc_span(at, (size_t)(text.data + text.len - at));
}

/* The inside of [brackets] in an authority: an IPv6 address, or vN.something. */
static bool bracketed(struct sc_span host)
{
	char text[INET6_ADDRSTRLEN + 1];
	unsigned char address[16];
	const char *scope = find(host, '%');

	if (host.len > 1 && host.data[0] == 'v') {
		size_t i = 1;

		while (i < host.len && hex(host.data[i]) >= 0)
			i++;
		return i > 1 && i + 1 < host.len && host.data[i] == '.';
	}
	if (scope) {
		if (scope + 1 == host.data + host.len)
			return false;
		host.len = (size_t)(scope - host.data);
	}
	if (!host.len || host.len >= sizeof(text))
		return false;
	memcpy(text, host.data, host.len);
	text[host.len] = '\0';
	return inet_pton(AF_INET6, text, address) == 1;
}

static bool authority_ok(struct sc_span authority)
{
	const char *open = find(authority, '['), *close = find(authority, ']');
	struct sc_span host;

	if (!open && !close)
		return true;
	if (!open || !close)
		return false;
	host = from(authority, open + 1);
	close = find(host, ']');
	if (close)
		host.len = (size_t)(close - host.data);
	return bracketed(host);
}

/* urlsplit(): scheme and authority are set aside, #fragment is dropped, path and query are left. */
static bool split(struct sc_span text, struct sc_span *ret_name, struct sc_span *ret_query)
{
	const char *mark = find(text, ':');
	size_t i = 0;

	if (mark && mark > text.data &&
	    ((text.data[0] | 0x20) >= 'a' && (text.data[0] | 0x20) <= 'z')) {
		static const char more[] = "0123456789+-.";
		size_t len = (size_t)(mark - text.data);

		while (i < len && (((text.data[i] | 0x20) >= 'a' && (text.data[i] | 0x20) <= 'z') ||
				   memchr(more, text.data[i], sizeof(more) - 1)))
			i++;
		if (i == len)
			text = from(text, mark + 1);
	}
	if (text.len >= 2 && text.data[0] == '/' && text.data[1] == '/') {
		struct sc_span authority = sc_span(text.data + 2, 0);

		text = from(text, text.data + 2);
		while (authority.len < text.len && !memchr("/?#", text.data[authority.len], 3))
			authority.len++;
		text = from(text, text.data + authority.len);
		if (!authority_ok(authority))
			return false;
	}
	mark = find(text, '#');
	if (mark)
		text.len = (size_t)(mark - text.data);
	*ret_query = sc_span("", 0);
	mark = find(text, '?');
	if (mark) {
		*ret_query = from(text, mark + 1);
		text.len = (size_t)(mark - text.data);
	}
	while (text.len && text.data[0] == '/') {
		text.data++;
		text.len--;
	}
	*ret_name = text;
	return true;
}

struct query {
	struct sc_span offset, epoch;
	bool has_epoch;
	struct sc_span *unknown;
	size_t unknown_count;
};

static int by_bytes(const void *a, const void *b)
{
	const struct sc_span *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = len ? memcmp(x->data, y->data, len) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void item(struct sc_target *t, struct query *q, const struct sc_target_rules *rules,
		 struct sc_span key, struct sc_span value)
{
	bool publish_known = rules->publish || rules->wire >= 2;

	if (sc_span_is(key, "offset")) {
		t->has_offset = true;
		q->offset = value;
	} else if (sc_span_is(key, "publish") && publish_known) {
		t->publish = true;
	} else if (sc_span_is(key, "where") && rules->wire >= 2) {
		t->has_where = true;
		t->where = value;
	} else if (sc_span_is(key, "producer") && rules->publish) {
		t->has_producer = true;
		t->producer = value;
	} else if (sc_span_is(key, "epoch") && rules->publish) {
		q->has_epoch = true;
		q->epoch = value;
	} else {
		q->unknown[q->unknown_count++] = key;
	}
}

static void refuse_unknown(struct query *q, struct sc_refusal *r)
{
	char list[SC_DETAIL_BYTES_MAX + 1];
	size_t len = 0;

	qsort(q->unknown, q->unknown_count, sizeof(*q->unknown), by_bytes);
	for (size_t i = 0; i < q->unknown_count && len < sizeof(list) - 1; i++) {
		size_t room = sizeof(list) - 1 - len, n = q->unknown[i].len;

		if (i && by_bytes(&q->unknown[i - 1], &q->unknown[i]) == 0)
			continue;
		if (i && room > 2) {
			memcpy(list + len, ", ", 2);
			len += 2;
			room -= 2;
		}
		n = n < room ? n : room;
		memcpy(list + len, q->unknown[i].data, n);
		len += n;
	}
	list[len] = '\0';
	for (size_t i = 0; i < len; i++)
		if (!list[i])
			list[i] = '?';
	sc_refusal_detail(r, "unknown query parameters: %s", list);
}

/* Everything that depends on more than one key, in one order. false: refused. */
static bool settle(struct sc_target *t, struct query *q, const struct sc_target_rules *rules,
		   struct sc_refusal *r)
{
	char digits[24];
	bool negative;
	struct sc_json value;

	if (q->unknown_count) {
		refuse_unknown(q, r);
		return false;
	}
	if (t->publish && !rules->publish) {
		sc_refusal_init(r, SC_REFUSAL_PUBLISH_DISABLED);
		return false;
	}
	if (t->publish && (t->has_offset || t->has_where)) {
		sc_refusal_detail(r, "publish cannot go with %s",
				  t->has_offset ? "offset" : "where");
		return false;
	}
	if ((t->has_producer || q->has_epoch) && (!t->publish || !t->has_producer)) {
		sc_refusal_detail(r, "producer and epoch go with publish");
		return false;
	}
	if (t->has_producer &&
	    (!t->producer.len || t->producer.len > SC_PRODUCER_ID_MAX || find(t->producer, '\0'))) {
		sc_refusal_detail(r, "producer must be 1 to %u bytes", SC_PRODUCER_ID_MAX);
		return false;
	}
	if (q->has_epoch &&
	    (!sc_target_integer(q->epoch, &negative, &t->epoch, digits, sizeof(digits)) ||
	     negative || t->epoch > INT64_MAX)) {
		sc_refusal_detail(r, "epoch must be an integer from 0, not '%.*s'",
				  (int)q->epoch.len, q->epoch.data);
		return false;
	}
	if (t->has_offset) {
		if (!sc_target_integer(q->offset, &negative, &t->offset, t->offset_digits,
				       sizeof(t->offset_digits)) ||
		    negative) {
			t->offset_digits[0] = '\0';
			sc_refusal_detail(r, "offset must be an integer, 0 or more, not '%.*s'",
					  (int)(q->offset.len < 512 ? q->offset.len : 512),
					  q->offset.data);
			return false;
		}
		if (t->offset != UINT64_MAX)
			t->offset_digits[0] = '\0';
	}
	if (t->has_where &&
	    (sc_json_scan(t->where, &value, NULL) < 0 || value.kind != SC_JSON_OBJECT)) {
		sc_refusal_detail(r, "where must be a JSON object");
		return false;
	}
	return true;
}

int sc_target_parse(struct sc_span text, const struct sc_target_rules *rules,
		    struct sc_target *ret_target, struct sc_refusal *ret_refusal,
		    struct sc_err *err)
{
	static const char tried[] = "cannot read a request target";
	struct sc_target *t = ret_target;
	struct query q = { .offset = { "", 0 } };
	struct sc_span query;
	char *scratch = NULL;
	size_t items = 1;
	int rc = SC_E_NOMEM;

	memset(t, 0, sizeof(*t));
	sc_bytes_init(&t->store, SIZE_MAX);
	sc_refusal_init(ret_refusal, SC_REFUSAL_BAD_REQUEST);
	ret_refusal->wire = rules->wire;
	if (!split(text, &t->name, &query)) {
		t->name = sc_span("", 0);
		sc_refusal_detail(ret_refusal, "the target is not a URL");
		return 1;
	}
	if (!query.len)
		return 0;
	for (size_t i = 0; i < query.len; i++)
		items += query.data[i] == '&';
	scratch = sc_malloc(query.len);
	q.unknown = sc_malloc(items * sizeof(*q.unknown));
	if (!scratch || !q.unknown || sc_bytes_reserve(&t->store, 3 * query.len + 1) < 0)
		goto out;
	while (query.len) {
		const char *and = find(query, '&'), *is;
		struct sc_span one = query, key, value = sc_span("", 0);

		if (and)
			one.len = (size_t)(and-query.data);
		query = and? from(query, and+1) : sc_span("", 0);
		if (!one.len)
			continue;
		is = find(one, '=');
		key = one;
		if (is) {
			key.len = (size_t)(is - one.data);
			value = decode(from(one, is + 1), &t->store, scratch);
		}
		item(t, &q, rules, decode(key, &t->store, scratch), value);
	}
	rc = settle(t, &q, rules, ret_refusal) ? 0 : 1;
out:
	free(scratch);
	free(q.unknown);
	return rc < 0 ? sc_err_nomem(err, tried) : rc;
}

void sc_target_done(struct sc_target *target)
{
	sc_bytes_done(&target->store);
}
