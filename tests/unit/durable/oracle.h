/*
 * tests/unit/durable/oracle.h: what Durable Streams should do, as lists in memory: deliberately
 * simple, written from the protocol and not from lib/durable. A fork is a copy here.
 */
#ifndef SC_TESTS_DURABLE_ORACLE_H
#define SC_TESTS_DURABLE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PATHS 6
#define STREAMS 64
#define MESSAGES 96
#define TTL_S 1000
#define NONE (-1)

static const char *const o_paths[PATHS] = { "/m/a", "/m/b", "/m/b/.x", "/m/b/.y/z", "/m/c", "/n" };
static const char *const o_groups[3] = { "/m/b", "/m/c", "/n" };

enum { T_NONE, T_TEXT, T_JSON };           /* a Content-Type */
enum { L_NONE, L_TTL, L_EXPIRY };          /* a life */
enum { F_ABSENT, F_START, F_AT };          /* a fork offset */

struct o_message {
	char text[16];
	int len;
};

struct o_config { /* as the creating request said it */
	int type, life, from, offset_kind, sub;
	uint64_t offset;
	int64_t expires_us;
};

struct o_stream {
	bool used, gone, closed, has_closer, json;
	int path, parent, children;
	struct o_message messages[MESSAGES];
	int count;
	uint64_t first;
	int closer, closer_epoch, closer_seq;
	struct {
		bool known;
		int epoch, seq;
	} producers[2];
	char seq[4];
	int life;
	int64_t accessed_us, expires_us;
	struct o_config asked;
	uint64_t asked_at; /* where the fork began */
};

struct oracle {
	struct o_stream streams[STREAMS];
	int at[PATHS]; /* the stream there, or NONE */
	bool sealed[3];
	int64_t now_us;
};

struct o_body { /* of a PUT or POST */
	int count;          /* messages; 0: an empty body, or [] */
	bool array;         /* "[]" with count 0 */
	struct o_message messages[3];
	bool broken;        /* not JSON */
};

struct o_put {
	int path;
	struct o_config config;
	bool closed;
	struct o_body body;
};

struct o_post {
	int path, type;
	bool closed, has_producer;
	int producer, epoch, seq_no;
	char seq[4];
	struct o_body body;
};

struct o_answer {
	int status;
	bool has_next, closed;
	uint64_t next;
	int epoch, seq;          /* NONE: not there */
	int expected;
};

static void o_init(struct oracle *o)
{
	memset(o, 0, sizeof(*o));
	for (int i = 0; i < PATHS; i++)
		o->at[i] = NONE;
}

static uint64_t o_offset(const struct o_stream *s, int message)
{
	uint64_t at = 0;

	for (int i = 0; i < message; i++)
		at += 4 + (uint64_t)s->messages[i].len;
	return at;
}

static uint64_t o_tail(const struct o_stream *s)
{
	return o_offset(s, s->count);
}

/* The message that begins at AT, COUNT for the tail, or NONE. */
static int o_message_at(const struct o_stream *s, uint64_t at)
{
	for (int i = 0; i <= s->count; i++)
		if (o_offset(s, i) == at)
			return i;
	return NONE;
}

static bool o_expired(const struct oracle *o, const struct o_stream *s)
{
	if (s->gone || s->life == L_NONE)
		return false;
	return o->now_us >=
	       (s->life == L_TTL ? s->accessed_us + TTL_S * 1000000ll : s->expires_us);
}

static struct o_stream *o_get(struct oracle *o, int path)
{
	return o->at[path] == NONE ? NULL : &o->streams[o->at[path]];
}

static void o_purge(struct oracle *o, struct o_stream *s)
{
	int parent = s->parent;

	o->at[s->path] = NONE;
	s->used = false;
	if (parent == NONE)
		return;
	o->streams[parent].children--;
	if (o->streams[parent].gone && !o->streams[parent].children)
		o_purge(o, &o->streams[parent]);
}

static void o_remove(struct oracle *o, struct o_stream *s)
{
	if (s->children)
		s->gone = true;
	else
		o_purge(o, s);
}

/* The sweep: every expired stream goes, again until nothing changes. */
static void o_sweep(struct oracle *o)
{
	for (int i = 0; i < STREAMS; i++)
		if (o->streams[i].used && o_expired(o, &o->streams[i]))
			o_remove(o, &o->streams[i]);
}

static struct o_answer o_status(int status)
{
	return (struct o_answer){ .status = status, .epoch = NONE, .seq = NONE, .expected = NONE };
}

static struct o_answer o_told(int status, const struct o_stream *s)
{
	struct o_answer a = o_status(status);

	a.has_next = true;
	a.next = o_tail(s);
	a.closed = s->closed;
	return a;
}

static int o_group(int path)
{
	return path == 1 || path == 2 || path == 3 ? 0 : path == 4 ? 1 : path == 5 ? 2 : NONE;
}

static bool o_same(const struct o_stream *s, const struct o_put *put)
{
	const struct o_config *then = &s->asked, *now = &put->config;
	bool fork = now->from != NONE;

	if (fork != (then->from != NONE) || put->closed != s->closed)
		return false;
	if (fork && now->from != then->from)
		return false;
	if (fork && now->offset_kind != F_ABSENT &&
	    (now->offset_kind == F_START ? 0 : now->offset) != s->asked_at)
		return false;
	if (fork && now->sub != then->sub)
		return false;
	/* a type that was not said is octet-stream; for a fork it is what the source has */
	if (now->type != T_NONE && now->type != (s->json ? T_JSON : T_TEXT))
		return false;
	if (now->type == T_NONE && then->type != T_NONE)
		return false;
	if (now->life == then->life && (now->life != L_EXPIRY || now->expires_us == then->expires_us))
		return true;
	return fork && now->life == s->life &&
	       (now->life != L_EXPIRY || now->expires_us == s->expires_us);
}

static struct o_stream *o_new(struct oracle *o, int path)
{
	for (int i = 0; i < STREAMS; i++)
		if (!o->streams[i].used) {
			memset(&o->streams[i], 0, sizeof(o->streams[i]));
			o->streams[i].used = true;
			o->streams[i].path = path;
			o->streams[i].parent = NONE;
			o->at[path] = i;
			return &o->streams[i];
		}
	return NULL;
}

/* What of SOURCE a fork begins with: its messages [0, *ret_count), and *ret_prefix bytes more. */
static int o_fork(struct oracle *o, const struct o_put *put, struct o_stream *source,
		  int *ret_count, int *ret_prefix)
{
	const struct o_config *c = &put->config;
	uint64_t at;
	int message;

	*ret_prefix = 0;
	if (!source)
		return 404;
	if (source->gone)
		return 409;
	if (o_expired(o, source))
		return 404;
	if (c->type != T_NONE && c->type != (source->json ? T_JSON : T_TEXT))
		return 409;
	at = c->offset_kind == F_ABSENT ? o_tail(source) : c->offset_kind == F_START ? 0 : c->offset;
	message = o_message_at(source, at);
	if (at > o_tail(source) || (c->sub > 0 && at < source->first))
		return 400;
	/* below the trim point the messages may be away: nobody can tell */
	if (message == NONE && at >= source->first)
		return 400;
	if (message == NONE)
		return -1;
	*ret_count = message;
	if (c->sub <= 0)
		return 0;
	if (source->json) {
		*ret_count += c->sub;
		return *ret_count > source->count ? 400 : 0;
	}
	if (message == source->count || c->sub > source->messages[message].len)
		return 400;
	*ret_prefix = c->sub;
	return 0;
}

/* -1 as a status: not to be asked (see o_fork). */
static struct o_answer o_put(struct oracle *o, const struct o_put *put)
{
	struct o_stream *s = o_get(o, put->path), *source = NULL;
	bool json = put->config.type == T_JSON;
	int count = 0, prefix = 0, status, group = o_group(put->path);

	if (s && !s->gone && o_expired(o, s) && !s->children) {
		o_purge(o, s);
		s = NULL;
	}
	if (s && (s->gone || o_expired(o, s)))
		return o_status(409);
	if (s)
		return o_same(s, put) ? o_told(200, s) : o_status(409);
	if (group != NONE && o->sealed[group])
		return o_status(409);
	if (put->config.from != NONE) {
		source = o_get(o, put->config.from);
		status = o_fork(o, put, source, &count, &prefix);
		if (status)
			return o_status(status);
		json = source->json;
	}
	if (json && put->body.broken)
		return o_status(400);
	if (count + put->body.count + 1 > MESSAGES)
		return o_status(-1);
	s = o_new(o, put->path);
	s->json = json;
	s->closed = put->closed;
	s->asked = put->config;
	s->life = put->config.life;
	s->expires_us = put->config.expires_us;
	s->accessed_us = o->now_us;
	if (source) {
		memcpy(s->messages, source->messages, (size_t)count * sizeof(*s->messages));
		s->count = count;
		s->asked_at = put->config.offset_kind == F_ABSENT ? o_tail(source)
			      : put->config.offset_kind == F_START ? 0
								   : put->config.offset;
		s->first = source->first < o_tail(s) ? source->first : o_tail(s);
		if (prefix) {
			s->messages[s->count] = source->messages[count];
			s->messages[s->count++].len = prefix;
		}
		if (s->life == L_NONE) {
			s->life = source->life;
			s->expires_us = source->expires_us;
		}
		s->parent = (int)(source - o->streams);
		source->children++;
	}
	for (int i = 0; i < put->body.count; i++)
		s->messages[s->count++] = put->body.messages[i];
	return o_told(201, s);
}

/* Section 6; 0 = accepted. */
static int o_producer(const struct o_stream *s, const struct o_post *post, struct o_answer *ret)
{
	bool known = s->producers[post->producer].known;
	int epoch = s->producers[post->producer].epoch, seq = s->producers[post->producer].seq;

	*ret = o_status(0);
	if (!known || post->epoch > epoch) {
		if (post->seq_no == 0)
			return 0;
		*ret = o_status(known ? 400 : 409);
		if (!known)
			ret->expected = 0;
	} else if (post->epoch < epoch) {
		*ret = o_status(403);
		ret->epoch = epoch;
	} else if (post->seq_no <= seq) {
		*ret = o_told(204, s);
		ret->epoch = epoch;
		ret->seq = seq;
	} else if (post->seq_no > seq + 1) {
		*ret = o_status(409);
		ret->expected = seq + 1;
	}
	return ret->status;
}

static struct o_answer o_post(struct oracle *o, const struct o_post *post)
{
	struct o_stream *s = o_get(o, post->path);
	bool empty = post->body.count == 0 && !post->body.array && !post->body.broken;
	struct o_answer answer;

	if (s && s->gone)
		return o_status(410);
	if (!s || o_expired(o, s))
		return o_status(404);
	if (empty && !post->closed)
		return o_status(400);
	if (!empty && post->type == T_NONE)
		return o_status(400);
	if (s->closed) {
		bool mine = post->has_producer && s->has_closer && s->closer == post->producer &&
			    s->closer_epoch == post->epoch && s->closer_seq == post->seq_no;

		if (!mine && !(empty && !post->has_producer))
			return o_told(409, s);
		s->accessed_us = o->now_us;
		answer = o_told(204, s);
		if (mine) {
			answer.epoch = post->epoch;
			answer.seq = post->seq_no;
		}
		return answer;
	}
	if (!empty && post->type != (s->json ? T_JSON : T_TEXT))
		return o_status(409);
	if (post->has_producer && o_producer(s, post, &answer)) {
		if (answer.status == 204)
			s->accessed_us = o->now_us;
		return answer;
	}
	if (!empty && post->seq[0] && s->seq[0] && strcmp(post->seq, s->seq) <= 0)
		return o_status(409);
	if (!empty && s->json && (post->body.broken || post->body.count == 0))
		return o_status(400);
	for (int i = 0; i < post->body.count; i++)
		s->messages[s->count++] = post->body.messages[i];
	if (!empty && post->seq[0])
		memcpy(s->seq, post->seq, sizeof(s->seq));
	if (post->has_producer) {
		s->producers[post->producer].known = true;
		s->producers[post->producer].epoch = post->epoch;
		s->producers[post->producer].seq = post->seq_no;
	}
	if (post->closed) {
		s->closed = true;
		s->has_closer = post->has_producer;
		s->closer = post->producer;
		s->closer_epoch = post->epoch;
		s->closer_seq = post->seq_no;
	}
	s->accessed_us = o->now_us;
	answer = o_told(post->has_producer && !empty ? 200 : 204, s);
	if (post->has_producer) {
		answer.epoch = post->epoch;
		answer.seq = post->seq_no;
	}
	return answer;
}

/* 404, 410, or 0. */
static int o_lives(struct oracle *o, int path)
{
	struct o_stream *s = o_get(o, path);

	if (s && s->gone)
		return 410;
	return s && !o_expired(o, s) ? 0 : 404;
}

static struct o_answer o_delete(struct oracle *o, int path)
{
	int status = o_lives(o, path);

	if (status)
		return o_status(status);
	o_remove(o, o_get(o, path));
	return o_status(204);
}

static struct o_answer o_trim(struct oracle *o, int path, uint64_t at)
{
	struct o_stream *s = o_get(o, path);
	int status = o_lives(o, path);

	if (status)
		return o_status(status);
	if (at > o_tail(s))
		return o_status(400);
	if (at <= s->first)
		return o_status(204);
	if (o_message_at(s, at) == NONE)
		return o_status(400);
	s->first = at;
	return o_status(204);
}

#endif
