/*
 * net/post.h: one HTTP request with a body, and its answer.
 *
 * Owns      a post until sc_post_free, which also gives up on it; it copies what it is given.
 * Units     ms, bytes.
 * Errors    as net/dial.h and net/tls.h; SC_E_TIMEOUT when the time is over; SC_E_PROTOCOL for an
 *           answer that is none.
 * Safety    the loop's thread. Whatever the peer sends, no more is kept than the limits say.
 * Source    RFC 9110, RFC 9112.
 *
 * Nothing is repeated, no redirect is followed, no proxy is asked: it is the caller's to say where
 * a request may go, by its URL and again by the address that the name turned out to be.
 */
#ifndef SC_NET_POST_H
#define SC_NET_POST_H

#include "base/bytes.h"
#include "base/err.h"
#include "net/dial.h"
#include "net/loop.h"
#include "net/tls.h"
#include "net/url.h"

#define SC_POST_HEAD_MAX 32768 /* of an answer */

struct sc_post;

struct sc_post_request {
	const struct sc_url *url;
	const char *fields;      /* more header lines, each with its CRLF; "" for none */
	struct sc_span body;
	int64_t limit_ms;        /* for all of it */
	size_t answer_max;       /* of the answer's body: what is longer is cut there */
	struct sc_tls_context *tls; /* for https; stays the caller's until the end */
	sc_dial_allow *allow;    /* NULL: any address */
	void *allow_arg;
};

struct sc_post_answer {
	int status;
	struct sc_span body;     /* good during the call */
	bool cut;                /* there was more than answer_max */
};

/* ANSWER is NULL when there was none: *err says why. Told once, never from within sc_post_new; the
 * post may be freed in it. */
typedef void sc_post_done(void *arg, const struct sc_post_answer *answer, const struct sc_err *err);

int sc_post_new(struct sc_loop *loop, const struct sc_post_request *request, sc_post_done *done,
		void *arg, struct sc_post **ret_post, struct sc_err *err);
void sc_post_free(struct sc_post *post);

#endif
