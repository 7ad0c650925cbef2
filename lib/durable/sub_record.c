/*
 * sub_record.c: subscriptions and links as records of the store.
 *
 * A record is one version byte, one byte of kind and one of flags, numbers of 64 bits, and texts
 * with a 32-bit length each; everything big-endian. A text that is not there has its flag off, and
 * no length.
 */
#include <string.h>

#include "durable/subscription.h"

#define VERSION 1

enum { PATTERN = 1, URL = 2, WAKE_STREAM = 4, DESCRIPTION = 8, HOLDER = 16, WAKE = 32 };
enum { BY_PATTERN = 1, BY_NAME = 2, FRESH = 4 };

static void put(struct sc_bytes *out, uint64_t number, int bytes)
{
	for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
		out->data[out->len++] = (char)(number >> shift);
}

static void put_raw(struct sc_bytes *out, const char *data, size_t len)
{
	if (len)
		memcpy(out->data + out->len, data, len);
	out->len += len;
}

static void put_text(struct sc_bytes *out, struct sc_span text)
{
	if (!text.data)
		return;
	put(out, text.len, 4);
	put_raw(out, text.data, text.len);
}

int sc_ds_sub_encode(const struct sc_ds_sub *s, struct sc_bytes *out)
{
	const struct sc_span texts[] = { s->id,  s->prefix,      s->base,        s->pattern,
					 s->url, s->wake_stream, s->description, s->holder };
	const uint64_t numbers[] = {
		s->number,
		s->lease_ms,
		s->links,
		(uint64_t)s->created_us,
		s->generation,
		s->attempts,
		(uint64_t)s->lease_us,
		(uint64_t)s->attempt_us,
	};
	size_t size = 4 + sizeof(numbers) + SC_DS_SUB_HASH + SC_DS_WAKE_ID;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		size += 4 + texts[i].len;
	if (sc_bytes_reserve(out, size) < 0)
		return SC_E_NOMEM;
	put(out, VERSION, 1);
	put(out, s->type, 1);
	put(out,
	    (s->pattern.data ? PATTERN : 0) | (s->url.data ? URL : 0) |
		    (s->wake_stream.data ? WAKE_STREAM : 0) |
		    (s->description.data ? DESCRIPTION : 0) | (s->holder.data ? HOLDER : 0) |
		    (s->wake_id[0] ? WAKE : 0),
	    1);
	put(out, s->phase, 1);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		put(out, numbers[i], 8);
	put_raw(out, s->hash, SC_DS_SUB_HASH);
	if (s->wake_id[0])
		put_raw(out, s->wake_id, SC_DS_WAKE_ID);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		put_text(out, texts[i]);
	return 0;
}

struct in {
	struct sc_span rest;
	bool torn;
};

static struct sc_span get_raw(struct in *in, size_t len)
{
	struct sc_span raw = sc_span(in->rest.data, len);

	if (in->torn || in->rest.len < len) {
		in->torn = true;
		return sc_span("", 0);
	}
	in->rest = sc_span(in->rest.data + len, in->rest.len - len);
	return raw;
}

static uint64_t get(struct in *in, size_t bytes)
{
	struct sc_span raw = get_raw(in, bytes);
	uint64_t number = 0;

	for (size_t i = 0; i < raw.len; i++)
		number = number << 8 | (unsigned char)raw.data[i];
	return number;
}

static struct sc_span get_text(struct in *in, bool there)
{
	return there ? get_raw(in, get(in, 4)) : sc_span(NULL, 0);
}

static int damaged(struct sc_err *err, const char *what)
{
	return sc_err_set(err, SC_E_DATA, "cannot read the record of a subscription",
			  "%s is damaged, or not known here", what);
}

static void get_numbers(struct in *in, struct sc_ds_sub *s)
{
	s->number = get(in, 8);
	s->lease_ms = get(in, 8);
	s->links = get(in, 8);
	s->created_us = (int64_t)get(in, 8);
	s->generation = get(in, 8);
	s->attempts = get(in, 8);
	s->lease_us = (int64_t)get(in, 8);
	s->attempt_us = (int64_t)get(in, 8);
}

int sc_ds_sub_decode(struct sc_span record, struct sc_ds_sub *ret_sub, struct sc_err *err)
{
	struct in in = { .rest = record };
	struct sc_ds_sub s = { 0 };
	uint64_t version = get(&in, 1), flags;
	struct sc_span raw;

	s.type = (enum sc_ds_sub_type)get(&in, 1);
	flags = get(&in, 1);
	s.phase = (enum sc_ds_sub_phase)get(&in, 1);
	get_numbers(&in, &s);
	raw = get_raw(&in, SC_DS_SUB_HASH);
	memcpy(s.hash, raw.data, raw.len);
	raw = get_raw(&in, flags & WAKE ? SC_DS_WAKE_ID : 0);
	memcpy(s.wake_id, raw.data, raw.len);
	s.id = get_text(&in, true);
	s.prefix = get_text(&in, true);
	s.base = get_text(&in, true);
	s.pattern = get_text(&in, flags & PATTERN);
	s.url = get_text(&in, flags & URL);
	s.wake_stream = get_text(&in, flags & WAKE_STREAM);
	s.description = get_text(&in, flags & DESCRIPTION);
	s.holder = get_text(&in, flags & HOLDER);
	if (version != VERSION || in.torn || in.rest.len || flags > 63 || !s.number || !s.id.len ||
	    s.phase > SC_DS_SUB_HELD || s.lease_ms > SC_DS_LEASE_MAX_MS ||
	    !s.url.data != (s.type != SC_DS_WEBHOOK) ||
	    !s.wake_stream.data != (s.type != SC_DS_PULL_WAKE) ||
	    !s.wake_id[0] != (s.phase == SC_DS_SUB_IDLE))
		return damaged(err, "it");
	*ret_sub = s;
	return 0;
}

int sc_ds_link_encode(const struct sc_ds_link *l, struct sc_bytes *out)
{
	if (sc_bytes_reserve(out, 2 + 24 + 4 + l->path.len) < 0)
		return SC_E_NOMEM;
	put(out, VERSION, 1);
	put(out,
	    (l->by_pattern ? BY_PATTERN : 0) | (l->by_name ? BY_NAME : 0) | (l->fresh ? FRESH : 0),
	    1);
	put(out, l->acked, 8);
	put(out, l->told, 8);
	put(out, l->told_generation, 8);
	put_text(out, l->path);
	return 0;
}

int sc_ds_link_decode(struct sc_span record, struct sc_ds_link *ret_link, struct sc_err *err)
{
	struct in in = { .rest = record };
	struct sc_ds_link l = { 0 };
	uint64_t version = get(&in, 1), flags = get(&in, 1);

	l.by_pattern = flags & BY_PATTERN;
	l.by_name = flags & BY_NAME;
	l.fresh = flags & FRESH;
	l.acked = get(&in, 8);
	l.told = get(&in, 8);
	l.told_generation = get(&in, 8);
	l.path = get_text(&in, true);
	if (version != VERSION || in.torn || in.rest.len || flags > 7 || !(flags & 3) ||
	    !l.path.len || (l.fresh && l.acked))
		return damaged(err, "a link of it");
	*ret_link = l;
	return 0;
}
