#include "json/scan.h"
#include "wire/greeting.h"

#define QUOTE_POINTS_MAX 120u /* of what came instead of a greeting */

bool sc_wire_served(int wire)
{
	return wire == 1 || wire == 2 || wire == 4 || wire == 5;
}

bool sc_wire_known(int wire)
{
	return wire >= 1 && wire <= 5;
}

static void put_u64(struct sc_bytes *out, const char *name, bool has, uint64_t value)
{
	sc_bytes_putf(out, ",\"%s\":", name);
	if (has)
		sc_bytes_put_u64(out, value);
	else
		sc_bytes_puts(out, "null");
}

static void put_json(struct sc_bytes *out, const char *name, struct sc_span text)
{
	sc_bytes_putf(out, ",\"%s\":", name);
	if (text.len)
		sc_bytes_put(out, text.data, text.len);
	else
		sc_bytes_puts(out, "null");
}

static void put_text(struct sc_bytes *out, const char *name, struct sc_span text)
{
	sc_bytes_putf(out, ",\"%s\":", name);
	if (text.len)
		sc_bytes_put_json(out, text);
	else
		sc_bytes_puts(out, "null");
}

int sc_greeting_build(const struct sc_greeting *g, struct sc_bytes *out)
{
	size_t start = out->len;

	/* Room for all of it first (a name grows sixfold at most), so that no put below can
	 * fail. */
	if (sc_bytes_reserve(out, 512 + 6 * (g->stream.len + g->stream_id.len + g->sc_archive.len) +
					  g->schema.len + g->where.len) < 0)
		return SC_E_NOMEM;
	sc_bytes_putf(out, "{\"streamcast\":%d,\"stream\":", g->wire);
	if (sc_bytes_put_json(out, g->stream) < 0) {
		out->len = start;
		return SC_E_NOMEM;
	}
	put_u64(out, "end_offset", g->has_end, g->end_offset);
	sc_bytes_puts(out, ",\"replay\":");
	if (g->has_replay)
		sc_bytes_putf(out, "[%llu,%llu]", (unsigned long long)g->replay_first,
			      (unsigned long long)g->replay_end);
	else
		sc_bytes_puts(out, "null");
	sc_bytes_puts(out, g->durable ? ",\"durable\":true" : ",\"durable\":false");
	if (g->wire >= 4)
		sc_bytes_puts(out, g->group_commit ? ",\"group_commit\":true"
						   : ",\"group_commit\":false");
	put_json(out, "schema", g->schema);
	if (g->wire == 1)
		sc_bytes_puts(out, ",\"archive\":null");
	else if (g->wire == 2)
		sc_bytes_puts(out, ",\"log\":null");
	else
		sc_bytes_puts(out, ",\"metadata\":null");
	if (g->wire >= 3)
		put_text(out, "stream_id", g->stream_id);
	if (g->wire >= 2)
		put_json(out, "where", g->where);
	/* Ours: the identity also where the original has no place for it. */
	if (g->wire < 3)
		put_text(out, "stream_id", g->stream_id);
	/* Not under a name of the original's: its clients would open it as theirs. */
	if (g->sc_archive.len)
		put_text(out, "sc_archive", g->sc_archive);
	if (g->tells_producer && g->has_producer)
		sc_bytes_putf(out, ",\"producer\":{\"epoch\":%llu,\"seq\":%llu}",
			      (unsigned long long)g->producer_epoch,
			      (unsigned long long)g->producer_seq);
	else if (g->tells_producer)
		sc_bytes_puts(out, ",\"producer\":null");
	return sc_bytes_putc(out, '}');
}

/* Quote what came, at most 120 characters. */
static int not_greeting(struct sc_span text, const char *what, struct sc_err *err)
{
	size_t n = 0;
	unsigned points = 0;

	while (n < text.len && points < QUOTE_POINTS_MAX) {
		n++;
		while (n < text.len && ((unsigned char)text.data[n] & 0xc0) == 0x80)
			n++;
		points++;
	}
	return sc_err_set(err, SC_E_PROTOCOL, "cannot subscribe", "the first message is %s: %.*s%s",
			  what, (int)n, text.data ? text.data : "", n < text.len ? "..." : "");
}

/* Plain characters of a string member; empty for any other kind. STORE has room (reserved by the
 * caller). */
static struct sc_span get_text(const struct sc_json *object, const char *name,
			       struct sc_bytes *store)
{
	struct sc_json member;
	size_t start = store->len;

	if (!sc_json_get(object, name, &member) || member.kind != SC_JSON_STRING)
		return sc_span("", 0);
	if (sc_json_unescape(member.text, store) < 0) {
		store->len = start;
		return sc_span("", 0);
	}
	return sc_span(store->data ? store->data + start : "", store->len - start);
}

static struct sc_span get_object(const struct sc_json *object, const char *name)
{
	struct sc_json member;

	if (!sc_json_get(object, name, &member) || member.kind != SC_JSON_OBJECT)
		return sc_span("", 0);
	return member.text;
}

static bool get_true(const struct sc_json *object, const char *name)
{
	struct sc_json member;

	return sc_json_get(object, name, &member) && member.kind == SC_JSON_TRUE;
}

static void get_replay(const struct sc_json *object, struct sc_greeting *g)
{
	struct sc_json list, a, b, more;
	struct sc_json_walk walk;
	struct sc_span key;

	if (!sc_json_get(object, "replay", &list) || list.kind != SC_JSON_ARRAY)
		return;
	sc_json_walk_init(&walk, &list);
	g->has_replay = sc_json_walk_next(&walk, &key, &a) && sc_json_walk_next(&walk, &key, &b) &&
			!sc_json_walk_next(&walk, &key, &more) &&
			sc_json_u64(&a, &g->replay_first) && sc_json_u64(&b, &g->replay_end);
}

static void get_producer(const struct sc_json *object, struct sc_greeting *g)
{
	struct sc_json producer, epoch, seq;

	if (!sc_json_get(object, "producer", &producer))
		return;
	g->tells_producer = producer.kind == SC_JSON_NULL;
	if (producer.kind == SC_JSON_OBJECT && sc_json_get(&producer, "epoch", &epoch) &&
	    sc_json_get(&producer, "seq", &seq))
		g->tells_producer = g->has_producer = sc_json_u64(&epoch, &g->producer_epoch) &&
						      sc_json_u64(&seq, &g->producer_seq);
}

int sc_greeting_parse(struct sc_span text, struct sc_bytes *store, struct sc_greeting *ret_greeting,
		      struct sc_err *err)
{
	struct sc_greeting g = { 0 };
	struct sc_json value, member, log;
	int64_t wire;

	if (sc_json_scan(text, &value, NULL) < 0)
		return not_greeting(text, "not JSON", err);
	if (value.kind != SC_JSON_OBJECT || !sc_json_get(&value, "streamcast", &member))
		return not_greeting(text, "no streamcast greeting", err);
	if (!sc_json_i64(&member, &wire) ||
	    !sc_wire_known(wire >= 0 && wire < 1000 ? (int)wire : -1)) {
		int len = member.text.len < 20 ? (int)member.text.len : 20;

		sc_err_set(err, SC_E_PROTOCOL, "cannot subscribe",
			   "the server speaks protocol %.*s, this program 1 to 5", len,
			   member.text.data);
		return sc_err_next(err, "use a newer release");
	}
	g.wire = (int)wire;
	if (!sc_json_get(&value, "end_offset", &member))
		return not_greeting(text, "a greeting without end_offset", err);
	g.has_end = member.kind != SC_JSON_NULL;
	if (g.has_end && !sc_json_u64(&member, &g.end_offset))
		return not_greeting(text, "a greeting whose end_offset is no integer", err);
	sc_bytes_clear(store);
	/* Unescaping never grows a text, so the spans stay where they are. */
	if (sc_bytes_reserve(store, text.len) < 0)
		return sc_err_nomem(err, "cannot read a greeting");
	g.stream = get_text(&value, "stream", store);
	g.stream_id = get_text(&value, "stream_id", store);
	g.archive = get_text(&value, "archive", store);
	if (!g.archive.len && sc_json_get(&value, "log", &log) && log.kind == SC_JSON_OBJECT)
		g.archive = get_text(&log, "archive", store);
	g.sc_archive = get_text(&value, "sc_archive", store);
	g.durable = get_true(&value, "durable");
	g.group_commit = get_true(&value, "group_commit");
	g.schema = get_object(&value, "schema");
	g.where = get_object(&value, "where");
	get_replay(&value, &g);
	get_producer(&value, &g);
	*ret_greeting = g;
	return 0;
}
