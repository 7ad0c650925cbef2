#include <stdio.h>
#include <stdlib.h>

#include "json/scan.h"
#include "wire/refusal.h"

static const struct {
	int code;
	const char *word;
} kinds[SC_REFUSAL_KINDS] = {
	[SC_REFUSAL_NONE] = { SC_CLOSE_NORMAL, "" },
	[SC_REFUSAL_BAD_REQUEST] = { SC_CLOSE_BAD_REQUEST, "bad_request" },
	[SC_REFUSAL_PUBLISH_DISABLED] = { SC_CLOSE_BAD_REQUEST, "publish_disabled" },
	[SC_REFUSAL_NO_SUCH_STREAM] = { SC_CLOSE_NO_SUCH_STREAM, "no_such_stream" },
	[SC_REFUSAL_RETIRED] = { SC_CLOSE_RETIRED, "stream_retired" },
	[SC_REFUSAL_NOT_REPLAYABLE] = { SC_CLOSE_NOT_REPLAYABLE, "not_replayable" },
	[SC_REFUSAL_TOO_SLOW] = { SC_CLOSE_TOO_SLOW, "too_slow" },
};

static const char *const whys[SC_WHY_KINDS] = {
	[SC_WHY_NONE] = "",       [SC_WHY_NOT_DURABLE] = "not_durable",
	[SC_WHY_EMPTY] = "empty", [SC_WHY_EVICTED] = "evicted",
	[SC_WHY_AHEAD] = "ahead", [SC_WHY_TOO_OLD] = "too_old",
};

void sc_refusal_init(struct sc_refusal *refusal, enum sc_refusal_kind kind)
{
	memset(refusal, 0, sizeof(*refusal));
	refusal->kind = kind;
	refusal->wire = 1;
}

int sc_refusal_code(const struct sc_refusal *refusal)
{
	return kinds[refusal->kind].code;
}

const char *sc_refusal_word(enum sc_refusal_kind kind)
{
	return kinds[kind].word;
}

const char *sc_why_word(enum sc_why why)
{
	return whys[why];
}

/* Bytes of the UTF-8 sequence at TEXT (1 to 4), 0 if it is none. */
static size_t sequence(const char *text, size_t len)
{
	unsigned char c = (unsigned char)text[0];
	size_t n = c < 0x80                ? 1
		   : c >= 0xc2 && c < 0xe0 ? 2
		   : c >= 0xe0 && c < 0xf0 ? 3
		   : c >= 0xf0 && c < 0xf5 ? 4
					   : 0;

	return n && n <= len && sc_utf8_valid(sc_span(text, n)) ? n : 0;
}

/* Copy at most 80 code points; the result is UTF-8 whatever came. */
static void put_detail(char *ret_text, struct sc_span from)
{
	size_t at = 0, out = 0;

	for (unsigned points = 0; at < from.len && points < SC_DETAIL_POINTS_MAX; points++) {
		size_t n = sequence(from.data + at, from.len - at);

		if (n) {
			memcpy(ret_text + out, from.data + at, n);
			at += n;
			out += n;
		} else {
			memcpy(ret_text + out, "\xef\xbf\xbd", 3);
			at++;
			out += 3;
		}
	}
	ret_text[out] = '\0';
}

void sc_refusal_detail(struct sc_refusal *refusal, const char *format, ...)
{
	/* Arguments may be long; more than 80 code points (4 bytes each) are never kept. */
	char text[1024];
	va_list args;

	va_start(args, format);
	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	va_end(args);
	put_detail(refusal->detail, sc_span(text, strnlen(text, sizeof(text))));
}

#define FIELDS_MAX 5u

/* Fields are put one after another in `text`; ends[i] is where field i stops. */
struct fields {
	char text[4096];
	size_t ends[FIELDS_MAX];
	size_t len, count;
	bool over; /* a field did not even fit here: it and all later ones are left out */
};

static void add(struct fields *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct fields *f, const char *format, ...)
{
	va_list args;
	int n;

	if (f->over || f->count == FIELDS_MAX)
		return;
	va_start(args, format);
	n = vsnprintf(f->text + f->len, sizeof(f->text) - f->len, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(f->text) - f->len) {
		f->over = true;
		return;
	}
	f->len += (size_t)n;
	f->ends[f->count++] = f->len;
}

/* A JSON text that is longer than any reason only has to be too long. */
static void add_json(struct fields *f, const char *name, const struct sc_span *texts, size_t count,
		     bool list)
{
	struct sc_bytes b;
	int rc = 0;

	sc_bytes_init(&b, 2 * SC_REASON_MAX);
	if (list)
		rc = sc_bytes_putc(&b, '[');
	for (size_t i = 0; rc == 0 && i < count; i++) {
		if (i)
			rc = sc_bytes_putc(&b, ',');
		if (rc == 0)
			rc = sc_bytes_put_json(&b, texts[i]);
	}
	if (rc == 0 && list)
		rc = sc_bytes_putc(&b, ']');
	if (rc == 0)
		add(f, ",\"%s\":%.*s", name, (int)b.len, b.data);
	else
		f->over = true;
	sc_bytes_done(&b);
}

static void add_u64(struct fields *f, const char *name, uint64_t value)
{
	add(f, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void add_why(struct fields *f, const struct sc_refusal *r)
{
	add(f, ",\"why\":\"%s\"", whys[r->why]);
	if (r->why != SC_WHY_AHEAD && r->why != SC_WHY_TOO_OLD && r->why != SC_WHY_EVICTED)
		return;
	if (r->offset_digits[0])
		add(f, ",\"offset\":%s", r->offset_digits);
	else
		add_u64(f, "offset", r->offset);
	if (r->why == SC_WHY_AHEAD) {
		add_u64(f, "end_offset", r->end_offset);
		return;
	}
	if (r->why == SC_WHY_EVICTED) {
		add_u64(f, "earliest", r->earliest);
	} else {
		add_u64(f, "behind", r->behind);
		add_u64(f, "max_replay", r->max_replay);
	}
	/* To 0.9.0 the archive's place follows; we have none to name (streamcast-wire 3.2). */
	if (r->wire <= 2)
		add(f, ",\"archive\":null");
}

size_t sc_refusal_reason(const struct sc_refusal *r, char ret_text[SC_REASON_MAX + 1])
{
	struct fields f = { .len = 0 };
	char head[40];
	int head_len;
	size_t body;

	if (r->kind == SC_REFUSAL_NONE) {
		ret_text[0] = '\0';
		return 0;
	}
	head_len = snprintf(head, sizeof(head), "{\"error\":\"%s\"", kinds[r->kind].word);
	if (r->kind == SC_REFUSAL_BAD_REQUEST) {
		struct sc_span detail = sc_span_str(r->detail);

		add_json(&f, "detail", &detail, 1, false);
	} else if (r->kind == SC_REFUSAL_NO_SUCH_STREAM) {
		add_json(&f, "serves", r->serves, r->serves_count, true);
	} else if (r->kind == SC_REFUSAL_RETIRED) {
		add(&f, ",\"at\":%lld", (long long)r->at_us);
		add_u64(&f, "end_offset", r->end_offset);
	} else if (r->kind == SC_REFUSAL_NOT_REPLAYABLE) {
		add_why(&f, r);
	} else if (r->kind == SC_REFUSAL_TOO_SLOW) {
		add_u64(&f, "backlog", r->backlog);
		if (r->has & SC_HAS_RESUME)
			add_u64(&f, "resume", r->resume);
	}
	while (f.count && (size_t)head_len + f.ends[f.count - 1] + 1 > SC_REASON_MAX)
		f.count--;
	body = f.count ? f.ends[f.count - 1] : 0;
	memcpy(ret_text, head, (size_t)head_len);
	memcpy(ret_text + head_len, f.text, body);
	ret_text[(size_t)head_len + body] = '}';
	ret_text[(size_t)head_len + body + 1] = '\0';
	return (size_t)head_len + body + 1;
}

/* The member's characters, cut to SIZE-1 bytes. */
static bool get_text(const struct sc_json *object, const char *name, char *ret_text, size_t size)
{
	struct sc_json member;
	struct sc_bytes b;
	bool got = false;

	if (!sc_json_get(object, name, &member) || member.kind != SC_JSON_STRING)
		return false;
	sc_bytes_init(&b, 4 * SC_REASON_MAX);
	if (sc_json_unescape(member.text, &b) == 0) {
		size_t n = b.len < size ? b.len : size - 1;

		if (n)
			memcpy(ret_text, b.data, n);
		ret_text[n] = '\0';
		got = true;
	}
	sc_bytes_done(&b);
	return got;
}

static void get_u64(struct sc_refusal *r, const struct sc_json *object, const char *name,
		    unsigned bit, uint64_t *into)
{
	struct sc_json member;

	if (sc_json_get(object, name, &member) && sc_json_u64(&member, into))
		r->has |= bit;
}

/* Names of the streams served, joined for a person. */
static void get_serves(struct sc_refusal *r, const struct sc_json *object)
{
	struct sc_json list, item;
	struct sc_json_walk walk;
	struct sc_span key;
	struct sc_bytes b;
	int rc = 0;

	if (!sc_json_get(object, "serves", &list) || list.kind != SC_JSON_ARRAY)
		return;
	sc_bytes_init(&b, SC_DETAIL_BYTES_MAX);
	sc_json_walk_init(&walk, &list);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &item)) {
		if (item.kind != SC_JSON_STRING)
			continue;
		if (b.len)
			rc = sc_bytes_puts(&b, ", ");
		if (rc == 0 && item.text.len == 2)
			rc = sc_bytes_puts(&b, "(unnamed)");
		else if (rc == 0)
			rc = sc_json_unescape(item.text, &b);
		r->has |= SC_HAS_SERVES;
	}
	if (b.len)
		put_detail(r->detail, sc_span(b.data, b.len));
	sc_bytes_done(&b);
}

static void parse_members(struct sc_refusal *r, const struct sc_json *object)
{
	struct sc_json at;
	char word[33] = "";

	get_text(object, "error", word, sizeof(word));
	if (r->kind == SC_REFUSAL_BAD_REQUEST &&
	    !strcmp(word, kinds[SC_REFUSAL_PUBLISH_DISABLED].word))
		r->kind = SC_REFUSAL_PUBLISH_DISABLED;
	get_text(object, r->kind == SC_REFUSAL_NOT_REPLAYABLE ? "why" : "error", r->word,
		 sizeof(r->word));
	if (r->kind == SC_REFUSAL_NOT_REPLAYABLE)
		for (int i = SC_WHY_NONE + 1; i < SC_WHY_KINDS; i++)
			if (!strcmp(r->word, whys[i]))
				r->why = (enum sc_why)i;
	get_u64(r, object, "offset", SC_HAS_OFFSET, &r->offset);
	get_u64(r, object, "end_offset", SC_HAS_END, &r->end_offset);
	get_u64(r, object, "earliest", SC_HAS_EARLIEST, &r->earliest);
	get_u64(r, object, "behind", SC_HAS_BEHIND, &r->behind);
	get_u64(r, object, "max_replay", SC_HAS_MAX_REPLAY, &r->max_replay);
	get_u64(r, object, "backlog", SC_HAS_BACKLOG, &r->backlog);
	get_u64(r, object, "resume", SC_HAS_RESUME, &r->resume);
	get_text(object, "archive", r->archive, sizeof(r->archive));
	if (sc_json_get(object, "at", &at) && sc_json_i64(&at, &r->at_us))
		r->has |= SC_HAS_AT;
	if (r->kind == SC_REFUSAL_NO_SUCH_STREAM) {
		get_serves(r, object);
	} else {
		char detail[SC_DETAIL_BYTES_MAX + 1] = "";

		if (get_text(object, "detail", detail, sizeof(detail)))
			put_detail(r->detail, sc_span_str(detail));
	}
}

void sc_refusal_parse(int code, struct sc_span reason, struct sc_refusal *ret_refusal)
{
	struct sc_json value;

	sc_refusal_init(ret_refusal, SC_REFUSAL_NONE);
	for (int i = SC_REFUSAL_NONE + 1; i < SC_REFUSAL_KINDS; i++) {
		if (kinds[i].code == code) {
			ret_refusal->kind = (enum sc_refusal_kind)i;
			break;
		}
	}
	if (ret_refusal->kind == SC_REFUSAL_NONE)
		return;
	if (sc_json_scan(reason, &value, NULL) == 0 && value.kind == SC_JSON_OBJECT)
		parse_members(ret_refusal, &value);
}

bool sc_resume_decide(const struct sc_resume *at, uint64_t offset,
		      int64_t (*count_from)(void *arg, uint64_t offset), void *arg,
		      uint64_t *ret_start, struct sc_refusal *ret_refusal)
{
	struct sc_refusal *r = ret_refusal;

	sc_refusal_init(r, SC_REFUSAL_NOT_REPLAYABLE);
	r->wire = at->wire;
	if (!at->durable) {
		r->why = SC_WHY_NOT_DURABLE;
		return false;
	}
	if (offset == 0)
		offset = at->first_offset;
	r->offset = offset;
	if (offset > at->end_offset) {
		r->why = SC_WHY_AHEAD;
		r->end_offset = at->end_offset;
		r->has = SC_HAS_OFFSET | SC_HAS_END;
		return false;
	}
	if (at->bounded && at->end_offset - offset > at->max_replay) {
		/* Offsets that were never issued cost nothing: the distance is only the cheap
		 * test. */
		int64_t rows = count_from ? count_from(arg, offset) : -1;
		uint64_t behind = rows < 0 ? at->end_offset - offset : (uint64_t)rows;

		if (behind > at->max_replay) {
			r->why = SC_WHY_TOO_OLD;
			r->behind = behind;
			r->max_replay = at->max_replay;
			r->has = SC_HAS_OFFSET | SC_HAS_BEHIND | SC_HAS_MAX_REPLAY;
			return false;
		}
	}
	if (offset < at->first_offset) {
		r->why = SC_WHY_EVICTED;
		r->earliest = at->first_offset;
		r->has = SC_HAS_OFFSET | SC_HAS_EARLIEST;
		return false;
	}
	sc_refusal_init(r, SC_REFUSAL_NONE);
	*ret_start = offset;
	return true;
}
