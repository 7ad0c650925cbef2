/*
 * segment_index.c: the index of a segment as JSON, and back.
 *
 * Reading trusts nothing: each number is asked whether it fits those before it, so that what is
 * handed out holds together even where someone made up a file with right checksums.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "json/line.h"
#include "json/scan.h"
#include "log/segment_internal.h"

const char sc_segment_tag[SC_INDEX_TAG_LEN] = "SCSEGIX\x01";

/* A name may be any bytes: as a string if it is UTF-8, else as {"$base64":"..."}. */
static int put_name(struct sc_span name, struct sc_bytes *out)
{
	return sc_utf8_valid(name) ? sc_json_put_string(name, out)
				   : sc_wrap_message(name, true, out);
}

/* The extensions of KIND. */
static int put_checkpoint(struct sc_span rest, int kind, struct sc_bytes *out)
{
	struct sc_ext ext;
	bool any = false;
	int rc = sc_bytes_putc(out, '[');

	while (rc == 0 && sc_ext_next(&rest, &ext)) {
		const struct sc_producer *p = &ext.producer;

		if (ext.kind != kind || !ext.name.len)
			continue;
		rc = sc_bytes_puts(out, any ? ",\n[" : "[");
		any = true;
		if (rc == 0)
			rc = put_name(ext.name, out);
		if (rc == 0 && kind == SC_EXT_SOURCE)
			rc = sc_bytes_putf(out, ",%" PRIu64 "]", ext.source_offset);
		else if (rc == 0)
			rc = sc_bytes_putf(out,
					   ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
					   ",%" PRIu64 ",%" PRIu64 "]",
					   p->epoch, p->seq_first, p->seq_last, p->first, p->last,
					   p->commit);
	}
	return rc < 0 ? rc : sc_bytes_putc(out, ']');
}

static int put_frames(const struct sc_segment_frame *frames, size_t count, struct sc_bytes *out)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		const struct sc_segment_frame *f = &frames[i];

		rc = sc_bytes_putf(out,
				   "%s[%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32 ",%" PRIu32
				   ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64
				   ",\"%016" PRIx64 "\"]",
				   i ? ",\n" : "", f->at, f->packed, f->table, f->size, f->check,
				   f->rows, f->first, f->last, f->first_us, f->last_us, f->hash);
	}
	return rc;
}

static int put_numbers(const struct sc_segment_info *info, struct sc_bytes *out)
{
	char hash[2 * SC_HASH_LEN + 1], before[sizeof(hash)], after[sizeof(hash)];
	const struct sc_segment_tie *tie = &info->tie;

	sc_hash_text(&info->hash, hash);
	sc_hash_text(&tie->before, before);
	sc_hash_text(&tie->after, after);
	return sc_bytes_putf(
		out,
		"{\"format\":%d,\n\"stream_id\":\"%s\",\n\"first\":%" PRIu64 ",\"last\":%" PRIu64
		",\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\n\"first_us\":%" PRId64
		",\"last_us\":%" PRId64 ",\n\"hash\":\"%s\",\n\"before\":{\"hash\":\"%s\","
		"\"rows\":%" PRIu64 ",\"bytes\":%" PRIu64 "},\n\"after\":{\"hash\":\"%s\","
		"\"next\":%" PRIu64 ",\"commit\":%" PRIu64 ",\"journal\":%" PRIu64
		",\"journal_end\":%" PRIu64 "},\n",
		SC_SEGMENT_FORMAT, info->stream_id, info->first, info->last, info->rows,
		info->bytes, info->first_us, info->last_us, hash, before, tie->rows_before,
		tie->bytes_before, after, tie->next, tie->commit, tie->journal, tie->journal_end);
}

int sc_segment_index_put(const struct sc_segment_info *info, struct sc_span columns,
			 const struct sc_segment_frame *frames, struct sc_bytes *out)
{
	int rc = put_numbers(info, out);

	if (rc == 0)
		rc = sc_bytes_puts(out, "\"schema\":");
	if (rc == 0)
		rc = info->schema.len ? sc_bytes_put(out, info->schema.data, info->schema.len)
				      : sc_bytes_puts(out, "null");
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\n\"columns\":");
	if (rc == 0)
		rc = sc_bytes_put(out, columns.data, columns.len);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\n\"sources\":");
	if (rc == 0)
		rc = put_checkpoint(info->tie.checkpoint, SC_EXT_SOURCE, out);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\n\"producers\":");
	if (rc == 0)
		rc = put_checkpoint(info->tie.checkpoint, SC_EXT_PRODUCER, out);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\n\"frames\":[\n");
	if (rc == 0)
		rc = put_frames(frames, info->frames, out);
	return rc < 0 ? rc : sc_bytes_puts(out, "]}\n");
}

/* Reading */

struct parse {
	struct sc_segment_info info;
	struct sc_bytes *checkpoint;
	struct sc_segment_frame *frames;
	size_t cap;
	uint64_t format;
	bool no_memory;
};

/* Take the next elements of an array (or fail for good: WALK is left at its end). */
static bool next_u64(struct sc_json_walk *walk, uint64_t max, uint64_t *ret_value)
{
	struct sc_json item;

	return sc_json_walk_next(walk, NULL, &item) && sc_json_u64(&item, ret_value) &&
	       *ret_value <= max;
}

static bool next_u32(struct sc_json_walk *walk, uint32_t *ret_value)
{
	uint64_t value;

	if (!next_u64(walk, UINT32_MAX, &value))
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

static bool next_i64(struct sc_json_walk *walk, int64_t *ret_value)
{
	struct sc_json item;

	return sc_json_walk_next(walk, NULL, &item) && sc_json_i64(&item, ret_value);
}

static bool next_hash(struct sc_json_walk *walk, uint64_t *ret_value)
{
	struct sc_json item;
	uint64_t value = 0;

	if (!sc_json_walk_next(walk, NULL, &item) || item.kind != SC_JSON_STRING ||
	    item.text.len != 18)
		return false;
	for (size_t i = 1; i < 17; i++) {
		char c = item.text.data[i];

		if (c >= '0' && c <= '9')
			value = value << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	*ret_value = value;
	return true;
}

static bool ended(struct sc_json_walk *walk)
{
	struct sc_json item;

	return !sc_json_walk_next(walk, NULL, &item);
}

static bool read_frame(const struct sc_json *value, const struct sc_segment_frame *before,
		       struct sc_segment_frame *f)
{
	struct sc_json_walk walk;

	if (value->kind != SC_JSON_ARRAY)
		return false;
	sc_json_walk_init(&walk, value);
	if (!next_u64(&walk, INT64_MAX, &f->at) || !next_u32(&walk, &f->packed) ||
	    !next_u32(&walk, &f->table) || !next_u32(&walk, &f->size) ||
	    !next_u32(&walk, &f->check) || !next_u32(&walk, &f->rows) ||
	    !next_u64(&walk, UINT64_MAX - 1, &f->first) ||
	    !next_u64(&walk, UINT64_MAX - 1, &f->last) || !next_i64(&walk, &f->first_us) ||
	    !next_i64(&walk, &f->last_us) || !next_hash(&walk, &f->hash) || !ended(&walk))
		return false;
	f->rows_before = before ? before->rows_before + before->rows : 0;
	f->bytes_before = before ? before->bytes_before + before->size : 0;
	return sc_segment_frame_fits(f->size, f->rows) && f->first > (before ? before->last : 0) &&
	       f->last >= f->first && f->last - f->first >= f->rows - 1 &&
	       (f->rows > 1 || f->last == f->first) && f->last_us >= f->first_us &&
	       (!before || f->first_us >= before->last_us) &&
	       f->at == (before ? before->at + before->packed + before->table : 0) &&
	       f->packed >= 8 && f->packed <= f->size + (f->size >> 7) + 512 &&
	       f->table > SC_SKIP_HEAD + 1 &&
	       f->table <= SC_SKIP_HEAD + 1 + sc_segment_table_max(f->rows);
}

static bool read_frames(struct parse *p, const struct sc_json *value)
{
	struct sc_json_walk walk;
	struct sc_json item;

	if (value->kind != SC_JSON_ARRAY || p->info.frames)
		return false;
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, NULL, &item)) {
		size_t n = p->info.frames;

		if (n == SC_SEGMENT_FRAMES_MAX)
			return false;
		if (n == p->cap) {
			size_t cap = p->cap ? p->cap * 2 : 64;
			struct sc_segment_frame *grown = sc_realloc(p->frames,
								    cap * sizeof(*grown));

			p->no_memory = !grown;
			if (!grown)
				return false;
			p->frames = grown;
			p->cap = cap;
		}
		if (!read_frame(&item, n ? &p->frames[n - 1] : NULL, &p->frames[n]))
			return false;
		p->info.frames++;
	}
	return p->info.frames > 0;
}

static bool read_hash(const struct sc_json *value, struct sc_hash *ret_hash)
{
	return value->kind == SC_JSON_STRING &&
	       sc_hash_parse(sc_span(value->text.data + 1, value->text.len - 2), ret_hash);
}

static bool read_name(const struct sc_json *value, char ret_name[SC_NAME_MAX],
		      struct sc_span *ret_span)
{
	struct sc_bytes name;
	int rc;

	sc_bytes_init(&name, SC_NAME_MAX);
	rc = value->kind == SC_JSON_STRING ? sc_json_unescape(value->text, &name)
	     : value->kind == SC_JSON_OBJECT && value->text.len <= 2 * SC_NAME_MAX
		     ? sc_unwrap_message(value->text, &name) - 1
		     : -1;
	if (rc == 0 && name.len)
		memcpy(ret_name, name.data, name.len);
	*ret_span = sc_span(ret_name, rc == 0 ? name.len : 0);
	sc_bytes_done(&name);
	return ret_span->len > 0;
}

static bool read_checkpoint(struct parse *p, const struct sc_json *value, int kind)
{
	struct sc_json_walk walk, inner;
	struct sc_json item, name;
	char buf[SC_NAME_MAX];
	struct sc_span span;

	if (value->kind != SC_JSON_ARRAY)
		return false;
	sc_json_walk_init(&walk, value);
	while (sc_json_walk_next(&walk, NULL, &item)) {
		struct sc_producer q = { 0 };
		uint64_t offset;
		int rc;

		if (item.kind != SC_JSON_ARRAY)
			return false;
		sc_json_walk_init(&inner, &item);
		if (!sc_json_walk_next(&inner, NULL, &name) || !read_name(&name, buf, &span))
			return false;
		if (kind == SC_EXT_SOURCE) {
			if (!next_u64(&inner, UINT64_MAX, &offset) || !ended(&inner))
				return false;
			rc = sc_ext_put_source(p->checkpoint, span, offset);
		} else {
			if (!next_u64(&inner, UINT64_MAX, &q.epoch) ||
			    !next_u64(&inner, UINT64_MAX, &q.seq_first) ||
			    !next_u64(&inner, UINT64_MAX, &q.seq_last) ||
			    !next_u64(&inner, UINT64_MAX, &q.first) ||
			    !next_u64(&inner, UINT64_MAX, &q.last) ||
			    !next_u64(&inner, UINT64_MAX, &q.commit) || !ended(&inner))
				return false;
			rc = sc_ext_put_producer(p->checkpoint, span, &q);
		}
		if (rc < 0) {
			p->no_memory = !p->checkpoint->full;
			return false;
		}
	}
	return true;
}

static bool read_stream_id(struct parse *p, const struct sc_json *value)
{
	struct sc_span text = value->text;

	if (value->kind != SC_JSON_STRING || text.len < 3 ||
	    text.len - 2 >= sizeof(p->info.stream_id) || memchr(text.data, '\\', text.len))
		return false;
	memcpy(p->info.stream_id, text.data + 1, text.len - 2);
	p->info.stream_id[text.len - 2] = 0;
	return true;
}

static bool read_u64(const struct sc_json *object, const char *name, uint64_t *ret_value)
{
	struct sc_json member;

	return sc_json_get(object, name, &member) && sc_json_u64(&member, ret_value);
}

static bool read_before(struct sc_segment_tie *tie, const struct sc_json *value)
{
	struct sc_json hash;

	return sc_json_get(value, "hash", &hash) && read_hash(&hash, &tie->before) &&
	       read_u64(value, "rows", &tie->rows_before) &&
	       read_u64(value, "bytes", &tie->bytes_before);
}

static bool read_after(struct sc_segment_tie *tie, const struct sc_json *value)
{
	struct sc_json hash;

	return sc_json_get(value, "hash", &hash) && read_hash(&hash, &tie->after) &&
	       read_u64(value, "next", &tie->next) && read_u64(value, "commit", &tie->commit) &&
	       read_u64(value, "journal", &tie->journal) &&
	       read_u64(value, "journal_end", &tie->journal_end);
}

static bool take(struct sc_span *into, const struct sc_json *value, enum sc_json_kind kind)
{
	*into = value->kind == SC_JSON_NULL ? sc_span(NULL, 0) : value->text;
	return value->kind == SC_JSON_NULL || value->kind == kind;
}

/* The members, each of which must be there once. Others are for later versions of this format to
 * add. */
static const char *const members[] = { "format",  "stream_id", "first",     "last",
				       "rows",    "bytes",     "first_us",  "last_us",
				       "hash",    "before",    "after",     "schema",
				       "columns", "sources",   "producers", "frames" };
#define MEMBERS (sizeof(members) / sizeof(members[0]))

static bool read_member(struct parse *p, size_t member, const struct sc_json *value)
{
	struct sc_segment_info *info = &p->info;

	switch (member) {
	case 0:
		return sc_json_u64(value, &p->format);
	case 1:
		return read_stream_id(p, value);
	case 2:
		return sc_json_u64(value, &info->first);
	case 3:
		return sc_json_u64(value, &info->last);
	case 4:
		return sc_json_u64(value, &info->rows);
	case 5:
		return sc_json_u64(value, &info->bytes);
	case 6:
		return sc_json_i64(value, &info->first_us);
	case 7:
		return sc_json_i64(value, &info->last_us);
	case 8:
		return read_hash(value, &info->hash);
	case 9:
		return read_before(&info->tie, value);
	case 10:
		return read_after(&info->tie, value);
	case 11:
		return take(&info->schema, value, SC_JSON_OBJECT);
	case 12:
		return take(&info->columns, value, SC_JSON_ARRAY);
	case 13:
		return read_checkpoint(p, value, SC_EXT_SOURCE);
	case 14:
		return read_checkpoint(p, value, SC_EXT_PRODUCER);
	default:
		return read_frames(p, value);
	}
}

/* What does not hold together, or NULL. */
static const char *check(const struct parse *p)
{
	const struct sc_segment_info *info = &p->info;
	const struct sc_segment_frame *first = p->frames, *last = p->frames + info->frames - 1;

	if (info->first != first->first || info->last != last->last ||
	    info->first_us != first->first_us || info->last_us != last->last_us ||
	    info->rows != last->rows_before + last->rows ||
	    info->bytes != last->bytes_before + last->size)
		return "its totals are not those of its frames";
	if (info->tie.next <= info->last || info->tie.rows_before > UINT64_MAX - info->rows ||
	    info->tie.bytes_before > UINT64_MAX - info->bytes)
		return "its place in the log is not possible";
	return NULL;
}

static int read_members(struct parse *p, const struct sc_json *root, const char **ret_what)
{
	struct sc_json_walk walk;
	struct sc_json value;
	struct sc_span key;
	uint32_t seen = 0;

	sc_json_walk_init(&walk, root);
	while (sc_json_walk_next(&walk, &key, &value)) {
		size_t i = 0;

		while (i < MEMBERS && !sc_span_is(key, members[i]))
			i++;
		if (i == MEMBERS)
			continue;
		if (seen & 1u << i || !read_member(p, i, &value)) {
			*ret_what = members[i];
			return p->no_memory ? SC_E_NOMEM : SC_E_DATA;
		}
		seen |= 1u << i;
		if (i == 0 && p->format != SC_SEGMENT_FORMAT)
			return SC_E_CONFIG;
	}
	for (size_t i = 0; i < MEMBERS; i++) {
		if (!(seen & 1u << i)) {
			*ret_what = members[i];
			return SC_E_DATA;
		}
	}
	*ret_what = check(p);
	return *ret_what ? SC_E_DATA : 0;
}

int sc_segment_index_get(struct sc_span text, struct sc_segment_info *ret_info,
			 struct sc_bytes *checkpoint, struct sc_segment_frame **ret_frames,
			 const char **ret_what)
{
	struct parse p = { .checkpoint = checkpoint };
	struct sc_json root;
	int rc;

	*ret_what = "JSON";
	sc_bytes_clear(checkpoint);
	if (sc_json_scan(text, &root, NULL) < 0 || root.kind != SC_JSON_OBJECT)
		return SC_E_DATA;
	rc = read_members(&p, &root, ret_what);
	if (rc < 0) {
		free(p.frames);
		return rc;
	}
	p.info.tie.checkpoint = sc_span(checkpoint->data, checkpoint->len);
	*ret_info = p.info;
	*ret_frames = p.frames;
	return 0;
}
