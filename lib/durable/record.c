/*
 * record.c: the state of a stream as a record of the store.
 *
 * A record is one version byte, one 32-bit word of flags, the numbers below as 64 bits each, and
 * the texts below with a 32-bit length each; everything big-endian. A text that is not there has no
 * length either: its flag is off.
 */
#include <endian.h>
#include <string.h>

#include "durable/stream.h"

#define VERSION 1

enum {
	CLOSED = 1u << 0,
	GONE = 1u << 1,
	CLOSER = 1u << 2,
	SEQ = 1u << 3,
	TTL = 1u << 4,
	EXPIRY = 1u << 5,
	ASKED_TYPE = 1u << 6,
	ASKED_TTL = 1u << 7,
	ASKED_EXPIRY = 1u << 8,
	ASKED_FORK = 1u << 9,
	ASKED_OFFSET = 1u << 10,
	KNOWN = (1u << 11) - 1,
};

int64_t sc_ds_stream_deadline(const struct sc_ds_stream *stream)
{
	if (stream->gone)
		return INT64_MAX;
	if (stream->life.has_ttl) {
		int64_t window = (int64_t)stream->life.ttl_s * 1000000;

		return stream->accessed_us > INT64_MAX - window ? INT64_MAX
								: stream->accessed_us + window;
	}
	return stream->life.has_expiry ? stream->life.expires_us : INT64_MAX;
}

static void put_u64(struct sc_bytes *out, uint64_t number)
{
	uint64_t big = htobe64(number);

	memcpy(out->data + out->len, &big, sizeof(big));
	out->len += sizeof(big);
}

static void put_u32(struct sc_bytes *out, uint32_t number)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		out->data[out->len++] = (char)(number >> shift);
}

static void put_text(struct sc_bytes *out, bool there, struct sc_span text)
{
	if (!there)
		return;
	put_u32(out, (uint32_t)text.len);
	if (text.len)
		memcpy(out->data + out->len, text.data, text.len);
	out->len += text.len;
}

static uint32_t flags_of(const struct sc_ds_stream *s)
{
	return (s->closed ? CLOSED : 0) | (s->gone ? GONE : 0) | (s->has_closer ? CLOSER : 0) |
	       (s->seq.len ? SEQ : 0) | (s->life.has_ttl ? TTL : 0) |
	       (s->life.has_expiry ? EXPIRY : 0) | (s->asked.type.data ? ASKED_TYPE : 0) |
	       (s->asked.life.has_ttl ? ASKED_TTL : 0) |
	       (s->asked.life.has_expiry ? ASKED_EXPIRY : 0) |
	       (s->asked.forked_from.data ? ASKED_FORK : 0) |
	       (s->asked.has_offset ? ASKED_OFFSET : 0);
}

int sc_ds_stream_encode(const struct sc_ds_stream *s, struct sc_bytes *out)
{
	const uint64_t numbers[] = {
		s->sid,
		s->tail,
		s->first,
		s->closer_epoch,
		s->closer_seq,
		s->life.ttl_s,
		(uint64_t)s->life.expires_us,
		(uint64_t)s->created_us,
		(uint64_t)s->accessed_us,
		(uint64_t)s->indexed_us,
		s->source_sid,
		s->fork_at,
		s->fork_depth,
		s->forks,
		s->asked.life.ttl_s,
		(uint64_t)s->asked.life.expires_us,
		s->asked.offset,
		s->asked.sub_offset,
	};
	size_t texts = s->path.len + s->type.len + s->closer.len + s->seq.len + s->asked.type.len +
		       s->asked.forked_from.len;
	int rc = sc_bytes_reserve(out, 1 + 4 + sizeof(numbers) + 6 * 4 + texts);

	if (rc < 0)
		return rc;
	out->data[out->len++] = VERSION;
	put_u32(out, flags_of(s));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		put_u64(out, numbers[i]);
	put_text(out, true, s->path);
	put_text(out, true, s->type);
	put_text(out, s->has_closer, s->closer);
	put_text(out, s->seq.len > 0, s->seq);
	put_text(out, s->asked.type.data != NULL, s->asked.type);
	put_text(out, s->asked.forked_from.data != NULL, s->asked.forked_from);
	return 0;
}

struct in {
	struct sc_span rest;
	bool torn;
};

static uint64_t get(struct in *in, size_t bytes)
{
	uint64_t number = 0;

	if (in->rest.len < bytes) {
		in->torn = true;
		return 0;
	}
	for (size_t i = 0; i < bytes; i++)
		number = number << 8 | (unsigned char)in->rest.data[i];
	in->rest = sc_span(in->rest.data + bytes, in->rest.len - bytes);
	return number;
}

static struct sc_span get_text(struct in *in, bool there)
{
	struct sc_span text = { NULL, 0 };
	uint64_t len;

	if (!there)
		return text;
	len = get(in, 4);
	if (in->torn || len > in->rest.len) {
		in->torn = true;
		return text;
	}
	text = sc_span(in->rest.data, len);
	in->rest = sc_span(in->rest.data + len, in->rest.len - len);
	return text;
}

static void get_numbers(struct in *in, struct sc_ds_stream *s)
{
	s->sid = get(in, 8);
	s->tail = get(in, 8);
	s->first = get(in, 8);
	s->closer_epoch = get(in, 8);
	s->closer_seq = get(in, 8);
	s->life.ttl_s = get(in, 8);
	s->life.expires_us = (int64_t)get(in, 8);
	s->created_us = (int64_t)get(in, 8);
	s->accessed_us = (int64_t)get(in, 8);
	s->indexed_us = (int64_t)get(in, 8);
	s->source_sid = get(in, 8);
	s->fork_at = get(in, 8);
	s->fork_depth = (uint32_t)get(in, 8);
	s->forks = get(in, 8);
	s->asked.life.ttl_s = get(in, 8);
	s->asked.life.expires_us = (int64_t)get(in, 8);
	s->asked.offset = get(in, 8);
	s->asked.sub_offset = get(in, 8);
}

int sc_ds_stream_decode(struct sc_span record, struct sc_ds_stream *ret_stream, struct sc_err *err)
{
	static const char tried[] = "cannot read the record of a stream";
	struct in in = { .rest = record };
	struct sc_ds_stream s = { 0 };
	uint64_t version = get(&in, 1), flags = get(&in, 4);

	if (!in.torn && (version != VERSION || flags & ~(uint64_t)KNOWN))
		return sc_err_set(err, SC_E_DATA, tried, "its version %d is not known here",
				  (int)version);
	s.closed = flags & CLOSED;
	s.gone = flags & GONE;
	s.has_closer = flags & CLOSER;
	s.life.has_ttl = flags & TTL;
	s.life.has_expiry = flags & EXPIRY;
	s.asked.life.has_ttl = flags & ASKED_TTL;
	s.asked.life.has_expiry = flags & ASKED_EXPIRY;
	s.asked.has_offset = flags & ASKED_OFFSET;
	get_numbers(&in, &s);
	s.path = get_text(&in, true);
	s.type = get_text(&in, true);
	s.closer = get_text(&in, s.has_closer);
	s.seq = get_text(&in, flags & SEQ);
	s.asked.type = get_text(&in, flags & ASKED_TYPE);
	s.asked.forked_from = get_text(&in, flags & ASKED_FORK);
	if (in.torn || in.rest.len || s.tail < s.fork_at || s.first > s.tail || !s.sid ||
	    s.life.ttl_s > INT64_MAX / 1000000)
		return sc_err_set(err, SC_E_DATA, tried, "it is damaged");
	*ret_stream = s;
	return 0;
}

void sc_ds_producer_encode(const struct sc_ds_producer *producer,
			   char ret_record[SC_DS_PRODUCER_RECORD])
{
	struct sc_bytes out = { .data = ret_record, .cap = SC_DS_PRODUCER_RECORD };

	put_u64(&out, producer->epoch);
	put_u64(&out, producer->seq);
}

bool sc_ds_producer_decode(struct sc_span record, struct sc_ds_producer *ret_producer)
{
	struct in in = { .rest = record };

	if (record.len != SC_DS_PRODUCER_RECORD)
		return false;
	ret_producer->epoch = get(&in, 8);
	ret_producer->seq = get(&in, 8);
	return true;
}
