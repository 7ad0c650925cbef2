/* create.c: PUT, DELETE, HEAD: decided. */
#include <string.h>

#include "durable/protocol.h"

#define BAD 400
#define CONFLICT 409

static bool refuse(struct sc_ds_answer *answer, int status, const char *error)
{
	sc_ds_answer_error(answer, status, error);
	return false;
}

static bool parse_fork(const struct sc_ds_request *request, struct sc_ds_asked *asked,
		       struct sc_ds_answer *answer)
{
	enum sc_ds_offset_kind kind;

	if (sc_ds_given(request->fork_sub_offset)) {
		if (!sc_ds_filled(request->forked_from))
			return refuse(answer, BAD,
				      "Stream-Fork-Sub-Offset needs Stream-Forked-From");
		if (!sc_ds_count_parse(request->fork_sub_offset, &asked->sub_offset))
			return refuse(answer, BAD, "Stream-Fork-Sub-Offset is not a plain number");
	}
	if (!sc_ds_filled(request->forked_from))
		return true;
	if (!sc_ds_value_clean(request->forked_from))
		return refuse(answer, BAD, "Stream-Forked-From has control characters");
	asked->forked_from = request->forked_from;
	if (!sc_ds_filled(request->fork_offset))
		return true;
	if (!sc_ds_offset_parse(request->fork_offset, &kind, &asked->offset) ||
	    kind == SC_DS_OFFSET_NOW)
		return refuse(answer, BAD, "Stream-Fork-Offset is not an offset");
	asked->has_offset = true;
	return true;
}

static bool parse_life(const struct sc_ds_request *request, struct sc_ds_life *life,
		       struct sc_ds_answer *answer)
{
	if (sc_ds_filled(request->ttl) && sc_ds_filled(request->expires_at))
		return refuse(answer, BAD, "Stream-TTL and Stream-Expires-At exclude each other");
	if (sc_ds_filled(request->ttl)) {
		if (!sc_ds_ttl_parse(request->ttl, &life->ttl_s))
			return refuse(answer, BAD, "Stream-TTL is not a plain number of seconds");
		life->has_ttl = true;
	}
	if (sc_ds_filled(request->expires_at)) {
		if (!sc_ds_time_parse(request->expires_at, &life->expires_us))
			return refuse(answer, BAD, "Stream-Expires-At is not an RFC 3339 time");
		life->has_expiry = true;
	}
	return true;
}

bool sc_ds_create_parse(const struct sc_ds_request *request, struct sc_ds_create *ret_create,
			struct sc_ds_answer *answer)
{
	struct sc_ds_create create = { .closed = sc_ds_is_true(request->closed) };

	sc_ds_answer_clear(answer);
	if (!sc_ds_path_valid(request->path)) {
		bool long_path = request->path.len > SC_DS_PATH_MAX;

		return refuse(answer, long_path ? 414 : 404,
			      long_path ? "the path is too long" : "this cannot be a stream");
	}
	if (!parse_fork(request, &create.asked, answer) ||
	    !parse_life(request, &create.asked.life, answer))
		return false;
	if (sc_ds_filled(request->content_type)) {
		if (request->content_type.len > SC_DS_TYPE_MAX ||
		    !sc_ds_value_clean(request->content_type))
			return refuse(answer, BAD, "the Content-Type cannot be kept");
		create.asked.type = request->content_type;
	}
	*ret_create = create;
	return true;
}

static bool life_same(const struct sc_ds_life *a, const struct sc_ds_life *b)
{
	return a->has_ttl == b->has_ttl && a->has_expiry == b->has_expiry &&
	       (!a->has_ttl || a->ttl_s == b->ttl_s) &&
	       (!a->has_expiry || a->expires_us == b->expires_us);
}

static bool type_asked_same(struct sc_span a, struct sc_span b)
{
	return sc_ds_type_same(a.data ? a : SC_SPAN(SC_DS_TYPE_STANDARD),
			       b.data ? b : SC_SPAN(SC_DS_TYPE_STANDARD));
}

/*
 * A request may say less than the stream has: a fork's type and life, when they were not asked for,
 * are the source's. A retry that says them all the same is right too.
 */
static bool config_same(const struct sc_ds_create *create, const struct sc_ds_stream *stream)
{
	const struct sc_ds_asked *now = &create->asked, *then = &stream->asked;
	bool fork = now->forked_from.data != NULL, type, life;

	if (fork != (then->forked_from.data != NULL))
		return false;
	type = type_asked_same(now->type, fork && !now->type.data ? then->type : stream->type);
	life = life_same(&now->life, &then->life) || (fork && life_same(&now->life, &stream->life));
	if (fork && (now->forked_from.len != then->forked_from.len ||
		     memcmp(now->forked_from.data, then->forked_from.data, now->forked_from.len) ||
		     (now->has_offset && now->offset != then->offset) ||
		     now->sub_offset != then->sub_offset))
		return false;
	return type && life && create->closed == stream->closed;
}

bool sc_ds_create_target(const struct sc_ds_create *create, const struct sc_ds_stream *stream,
			 bool sealed, int64_t now_us, struct sc_ds_answer *answer)
{
	if (!stream)
		return !sealed || refuse(answer, CONFLICT, "no new streams in this group: sealed");
	if (stream->gone || sc_ds_stream_expired(stream, now_us))
		return refuse(answer, CONFLICT, "the path is held by a deleted stream with forks");
	if (!config_same(create, stream))
		return refuse(answer, CONFLICT, "the stream exists with another configuration");
	if (sc_ds_create_answer(stream, false, answer) < 0)
		sc_ds_answer_busy(answer, "out of memory");
	return false;
}

bool sc_ds_create_source(const struct sc_ds_create *create, const struct sc_ds_stream *source,
			 int64_t now_us, uint64_t *ret_point, struct sc_ds_answer *answer)
{
	const struct sc_ds_asked *asked = &create->asked;
	uint64_t point;

	if (!source)
		return refuse(answer, 404, "there is no stream to fork");
	if (source->gone)
		return refuse(answer, CONFLICT, "the stream to fork was deleted");
	if (sc_ds_stream_expired(source, now_us))
		return refuse(answer, 404, "there is no stream to fork");
	if (asked->type.data && !sc_ds_type_same(asked->type, source->type))
		return refuse(answer, CONFLICT, "the stream to fork has another Content-Type");
	point = asked->has_offset ? asked->offset : source->tail;
	if (point > source->tail)
		return refuse(answer, BAD, "Stream-Fork-Offset is behind the end of the stream");
	if (asked->sub_offset && point < source->first)
		return refuse(answer, BAD, "what Stream-Fork-Sub-Offset counts was trimmed");
	if (source->fork_depth >= SC_DS_FORK_DEPTH_MAX)
		return refuse(answer, CONFLICT, "too many forks of forks");
	*ret_point = point;
	return true;
}

bool sc_ds_create_point(const struct sc_ds_create *create, const struct sc_ds_stream *source,
			uint64_t point, const struct sc_ds_point *at, uint64_t *ret_fork_at,
			struct sc_span *ret_prefix, struct sc_ds_answer *answer)
{
	uint64_t sub_offset = create->asked.sub_offset;

	*ret_prefix = sc_span(NULL, 0);
	*ret_fork_at = point;
	/* what was trimmed cannot be looked at, and is not needed */
	if (!at->boundary && point >= source->first)
		return refuse(answer, BAD, "Stream-Fork-Offset is inside a message");
	if (!sub_offset)
		return true;
	if (sc_ds_type_is_json(source->type)) {
		if (!at->json_reached)
			return refuse(answer, BAD,
				      "Stream-Fork-Sub-Offset counts too many messages");
		*ret_fork_at = at->json_at;
		return true;
	}
	if (!at->message.data || sub_offset > at->message.len)
		return refuse(answer, BAD, "Stream-Fork-Sub-Offset is behind the message's end");
	*ret_prefix = sc_span(at->message.data, sub_offset);
	return true;
}

void sc_ds_create_make(const struct sc_ds_create *create, const struct sc_ds_stream *source,
		       uint64_t fork_at, int64_t now_us, struct sc_ds_stream *ret_stream)
{
	struct sc_ds_stream made = {
		.type = create->asked.type,
		.tail = fork_at,
		.closed = create->closed,
		.life = create->asked.life,
		.created_us = now_us,
		.accessed_us = now_us,
		.fork_at = fork_at,
		.asked = create->asked,
	};

	if (source) {
		if (!made.type.data)
			made.type = source->type;
		if (!made.life.has_ttl && !made.life.has_expiry)
			made.life = source->life;
		made.first = source->first < fork_at ? source->first : fork_at;
		made.source_sid = source->sid;
		made.fork_depth = source->fork_depth + 1;
		/* "no offset" matches any later, and what was meant then is this */
		if (!made.asked.has_offset)
			made.asked.offset = fork_at;
	}
	if (!made.type.data)
		made.type = SC_SPAN(SC_DS_TYPE_STANDARD);
	*ret_stream = made;
}

bool sc_ds_create_body(struct sc_span body, struct sc_span type, const struct sc_ds_presplit *split,
		       struct sc_ds_messages *ret_messages, struct sc_ds_answer *answer)
{
	bool json = sc_ds_type_is_json(type);
	enum sc_ds_split result;

	if (json && split) {
		result = split->result;
		*ret_messages = split->messages;
	} else {
		result = sc_ds_messages_split(body, json, ret_messages);
	}
	if (result == SC_DS_SPLIT_INVALID)
		return refuse(answer, BAD, "the body is not JSON");
	if (result == SC_DS_SPLIT_TOO_MANY)
		return refuse(answer, 413, "too many messages in one request");
	return true;
}

int sc_ds_create_answer(const struct sc_ds_stream *stream, bool created,
			struct sc_ds_answer *answer)
{
	sc_ds_answer_clear(answer);
	answer->status = created ? 201 : 200;
	answer->created = created;
	answer->has_next = true;
	answer->next = stream->tail;
	answer->closed = stream->closed;
	return sc_bytes_put(&answer->type, stream->type.data, stream->type.len);
}

/* 404 or 410; true for a stream that lives. */
static bool lives(const struct sc_ds_stream *stream, int64_t now_us, struct sc_ds_answer *answer)
{
	sc_ds_answer_clear(answer);
	if (!stream)
		return refuse(answer, 404, "there is no such stream");
	if (stream->gone)
		return refuse(answer, 410, "the stream was deleted");
	if (sc_ds_stream_expired(stream, now_us))
		return refuse(answer, 404, "there is no such stream");
	return true;
}

bool sc_ds_delete_decide(const struct sc_ds_stream *stream, int64_t now_us,
			 struct sc_ds_answer *answer)
{
	if (!lives(stream, now_us, answer))
		return false;
	answer->status = 204;
	return true;
}

int sc_ds_head_answer(const struct sc_ds_stream *stream, int64_t now_us,
		      struct sc_ds_answer *answer)
{
	if (!lives(stream, now_us, answer)) {
		answer->cache = SC_DS_CACHE_NO_STORE;
		return 0;
	}
	answer->status = 200;
	answer->has_next = true;
	answer->next = stream->tail;
	answer->closed = stream->closed;
	answer->cache = SC_DS_CACHE_NO_STORE;
	answer->has_ttl = stream->life.has_ttl;
	answer->ttl_s = stream->life.ttl_s;
	answer->has_expiry = stream->life.has_expiry;
	answer->expires_us = stream->life.expires_us;
	return sc_bytes_put(&answer->type, stream->type.data, stream->type.len);
}
