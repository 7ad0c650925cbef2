/*
 * client/dspub_internal.h: what dspub.c (requests, input, the connection) and dspub_answer.c (what
 * is made of the answers) share.
 *
 * Owns      see client/dspub.h.
 * Units     see client/dspub.h.
 * Errors    see client/dspub.h.
 * Safety    the loop's thread.
 * Source    our own.
 */
#ifndef SC_CLIENT_DSPUB_INTERNAL_H
#define SC_CLIENT_DSPUB_INTERNAL_H

#include "client/cursor.h"
#include "client/dspost.h"
#include "client/dspub.h"
#include "client/publines.h"
#include "net/httpanswer.h"
#include "net/loop.h"

#define SC_DSPUB_WORDS 120 /* of what a server says to a refusal */

enum sc_dspub_step { STEP_CREATE, STEP_LOOK, STEP_POST, STEP_CLOSE };

struct sc_dspub {
	const struct sc_dspub_options *d;
	const struct sc_publication_options *o;
	struct sc_loop *loop;
	struct sc_client *client;
	struct sc_events *events;
	struct sc_publines *lines;
	struct sc_ending *ending; /* the lines' */
	struct sc_dspost *post; /* NULL until the stream's type is known */
	struct sc_cursor *state_lock;
	struct sc_dspost_state state;
	bool has_state;
	struct sc_timer *answer_timer, *later_timer;
	struct sc_httpanswer answer;
	struct sc_bytes target, type, request, fields, text;
	char words[SC_DSPUB_WORDS]; /* the start of a refusal's body */
	size_t words_len;
	enum sc_dspub_step step;
	bool asking, headed, reconnects, closing, epoch_tried;
	bool tail_known;
	bool seq_refused; /* the request, as it seems, for its Stream-Seq */
	bool sent_before; /* it was, and no answer came: it may be stored */
	uint64_t tail;
	unsigned refusals;
	struct sc_publication_result *result; /* the lines' */
};

/* dspub.c */
/* may a request whose answer did not come not be sent again? */
bool sc_dspub_in_doubt(const struct sc_dspub *p);
void sc_dspub_give_up(struct sc_dspub *p, const struct sc_err *err);
/* nothing more is taken in; NOW: nor is an answer waited for */
void sc_dspub_begin_end(struct sc_dspub *p, bool now);
void sc_dspub_next(struct sc_dspub *p);                /* what is to be done now */
int sc_dspub_save_state(struct sc_dspub *p, struct sc_err *err);
int sc_dspub_make_post(struct sc_dspub *p, bool json, struct sc_err *err);

/* dspub_answer.c: the answer is whole; or some of a refusal's body is there. */
void sc_dspub_answered(struct sc_dspub *p);
void sc_dspub_keep_words(struct sc_dspub *p, struct sc_span piece);

#endif
