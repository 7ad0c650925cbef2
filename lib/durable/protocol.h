/*
 * durable/protocol.h: what a request is, what is answered, and who decides: pure functions.
 *
 * Owns      an answer owns its type and body (sc_ds_answer_done); a request borrows everything.
 * Units     positions, us since 1970 UTC.
 * Errors    what a client did wrong is an answer. Negative codes only for memory.
 * Safety    no I/O, no clock, no store; any thread; any bytes are safe input.
 * Source    durable-streams 3 to 17.
 *
 * The engine gathers what is known (the stream at the path, the producer, the fork's source), these
 * functions say what is answered and change the state that they are given; the engine stores it.
 */
#ifndef SC_DURABLE_PROTOCOL_H
#define SC_DURABLE_PROTOCOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "durable/messages.h"
#include "durable/stream.h"
#include "durable/text.h"

#define SC_DS_FORK_DEPTH_MAX 1000u /* sources behind a fork: each costs a reader a look-up */

enum sc_ds_method { SC_DS_PUT, SC_DS_POST, SC_DS_DELETE, SC_DS_HEAD, SC_DS_GET };

/* Values are trimmed of blanks around them; data NULL = the header is absent. */
struct sc_ds_request {
	enum sc_ds_method method;
	struct sc_span path;         /* raw, as it was sent, up to '?' */
	struct sc_span content_type;
	struct sc_span ttl, expires_at, closed, seq;
	struct sc_span forked_from, fork_offset, fork_sub_offset;
	struct sc_span producer_id, producer_epoch, producer_seq;
	struct sc_span if_none_match;
	struct sc_ds_query query;    /* of a GET */
	struct sc_span body;         /* of PUT and POST */
	int64_t now_us;              /* 0: the engine puts the time of the decision */
};

enum sc_ds_cache {
	SC_DS_CACHE_NONE,     /* no Cache-Control */
	SC_DS_CACHE_NO_STORE, /* no-store */
	SC_DS_CACHE_NO_CACHE, /* no-cache: SSE */
	SC_DS_CACHE_KEYS,     /* public, max-age=300 */
	SC_DS_CACHE_HISTORY   /* public (or private), max-age=60, stale-while-revalidate=300 */
};

struct sc_ds_answer {
	int status;
	const char *error;       /* a short sentence for the body of an error; static, or NULL */
	bool created;            /* 201: send Location */
	bool has_next;           /* Stream-Next-Offset */
	bool up_to_date;         /* Stream-Up-To-Date: true */
	bool closed;             /* Stream-Closed: true */
	bool has_epoch, has_seq; /* Producer-Epoch, Producer-Seq */
	bool has_expected;       /* Producer-Expected-Seq, Producer-Received-Seq */
	bool has_ttl, has_expiry;/* Stream-TTL, Stream-Expires-At: HEAD */
	bool base64;             /* Stream-SSE-Data-Encoding: base64 */
	uint64_t next, epoch, seq, expected, received, ttl_s;
	int64_t expires_us;
	unsigned retry_after_s;  /* 0: no Retry-After */
	enum sc_ds_cache cache;
	char etag[SC_DS_ETAG_TEXT];     /* with its quotes; "": none */
	char cursor[SC_DS_CURSOR_TEXT]; /* Stream-Cursor; "": none */
	struct sc_bytes type;    /* Content-Type; empty: none (an error's text/plain is the face's) */
	struct sc_bytes body;
	/* for live reads */
	bool wait;               /* nothing (more) to send now: wait for the stream */
	bool end;                /* SSE: the response ends behind this body */
};

/* All zero is an empty answer too; init sets the maxima of its buffers. */
void sc_ds_answer_init(struct sc_ds_answer *answer);
void sc_ds_answer_done(struct sc_ds_answer *answer);
/* Forgets everything but the memory. */
void sc_ds_answer_clear(struct sc_ds_answer *answer);
void sc_ds_answer_error(struct sc_ds_answer *answer, int status, const char *error);
/* 503 with Retry-After: 1. */
void sc_ds_answer_busy(struct sc_ds_answer *answer, const char *error);

/* What sc_ds_messages_split said of a body in JSON mode, ahead of the decision; NULL where one of
 * these is asked for: then it is done there, when it is needed. */
struct sc_ds_presplit {
	enum sc_ds_split result;
	struct sc_ds_messages messages;
};

/* -- PUT: begin, then (absent paths) the source, the point, the body -- */
struct sc_ds_create {
	struct sc_ds_asked asked;
	bool closed;
};

/* What can be refused without looking at anything: true = go on, false = ANSWER says it. */
bool sc_ds_create_parse(const struct sc_ds_request *request, struct sc_ds_create *ret_create,
			struct sc_ds_answer *answer);
/* STREAM: what lives at the path; NULL: none, or an expired one that nobody forks (the caller
 * removes it). SEALED: its group takes no new streams. */
bool sc_ds_create_target(const struct sc_ds_create *create, const struct sc_ds_stream *stream,
			 bool sealed, int64_t now_us, struct sc_ds_answer *answer);
/* A fork's source (NULL: none), which gives the point to look at: its offset and whether a message
 * must be there. */
bool sc_ds_create_source(const struct sc_ds_create *create, const struct sc_ds_stream *source,
			 int64_t now_us, uint64_t *ret_point, struct sc_ds_answer *answer);
/* What the store says of that point. */
struct sc_ds_point {
	bool boundary;         /* a message begins there, or it is the tail */
	bool json_reached;     /* JSON: sub_offset messages follow it */
	uint64_t json_at;      /* and this is behind them */
	struct sc_span message;/* not JSON: the message there; data NULL: none */
};
/* Where the fork begins, and the prefix that becomes its first message (empty: none). */
bool sc_ds_create_point(const struct sc_ds_create *create, const struct sc_ds_stream *source,
			uint64_t point, const struct sc_ds_point *at, uint64_t *ret_fork_at,
			struct sc_span *ret_prefix, struct sc_ds_answer *answer);
/*
 * The new stream, its tail still at its beginning (0 or FORK_AT): sid, path and source fields are
 * the caller's. Spans borrow from CREATE and SOURCE (NULL: no fork).
 */
void sc_ds_create_make(const struct sc_ds_create *create, const struct sc_ds_stream *source,
		       uint64_t fork_at, int64_t now_us, struct sc_ds_stream *ret_stream);
/* The body, for a stream of TYPE. */
bool sc_ds_create_body(struct sc_span body, struct sc_span type, const struct sc_ds_presplit *split,
		       struct sc_ds_messages *ret_messages, struct sc_ds_answer *answer);
/* 201, or 200 for one that exists. */
int sc_ds_create_answer(const struct sc_ds_stream *stream, bool created,
			struct sc_ds_answer *answer);

/* -- POST -- */
struct sc_ds_append {         /* what to store, when sc_ds_append_decide says so */
	bool store;           /* MESSAGES behind the old tail, and the changed state */
	bool access;          /* counts as an access: the caller renews accessed_us */
	bool has_producer;
	struct sc_ds_producer producer;
	struct sc_ds_messages messages; /* count 0: a close without data */
};
/*
 * STREAM: what lives at the path, or NULL; it is changed (tail, closed, closer, seq) when store is
 * set, its new spans borrow from the request. PRODUCER: its state, or NULL; asked for only when
 * sc_ds_append_producer gave an id.
 */
/* The producer id whose state the decision needs; false: none is needed. */
bool sc_ds_append_producer(const struct sc_ds_request *request, struct sc_span *ret_id);
void sc_ds_append_decide(const struct sc_ds_request *request, struct sc_ds_stream *stream,
			 const struct sc_ds_producer *producer, const struct sc_ds_presplit *split,
			 int64_t now_us, struct sc_ds_append *ret_append,
			 struct sc_ds_answer *answer);

/* -- DELETE and HEAD -- */
/* true: remove it (or make it gone, when forks refer to it). */
bool sc_ds_delete_decide(const struct sc_ds_stream *stream, int64_t now_us,
			 struct sc_ds_answer *answer);
int sc_ds_head_answer(const struct sc_ds_stream *stream, int64_t now_us,
		      struct sc_ds_answer *answer);

/* -- GET -- */
enum sc_ds_live { SC_DS_CATCH_UP, SC_DS_LONG_POLL, SC_DS_SSE };
struct sc_ds_read_plan {
	enum sc_ds_live live;
	bool now;             /* offset=now */
	uint64_t start;       /* resolved */
};
/* Everything but "is it a boundary": true = read from plan.start on. */
bool sc_ds_read_decide(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		       int64_t now_us, struct sc_ds_read_plan *ret_plan,
		       struct sc_ds_answer *answer);
/* What one read found: BODY of the answer holds it, from START to END. */
struct sc_ds_read_found {
	enum sc_ds_live live;
	bool now;             /* offset=now: nothing was read */
	uint64_t start, end;
	bool last;            /* a long-poll whose time is over */
	bool again;           /* SSE: events were sent before */
	const char *cursor;   /* digits; for live reads */
	struct sc_span if_none_match;
};
/* Catch-up and long-poll: 200, 204, 304, or wait. */
int sc_ds_read_answer(const struct sc_ds_stream *stream, const struct sc_ds_read_found *found,
		      struct sc_ds_answer *answer);
/* SSE: PAYLOAD as events, in the answer's body (emptied first). */
int sc_ds_read_events(const struct sc_ds_stream *stream, const struct sc_ds_read_found *found,
		      struct sc_span payload, struct sc_ds_answer *answer);

#endif
