/*
 * net/httpanswer.h: answers of HTTP/1.1, one after the other: heads, and bodies out of their
 * framing. No descriptors.
 *
 * Owns      the head's bytes, until the next sc_httpanswer_begin; a piece of body points into the
 *           caller's bytes.
 * Units     sizes in bytes.
 * Errors    SC_E_PROTOCOL, saying what is wrong with the answer; SC_E_NOMEM.
 * Safety    pure.
 * Source    RFC 9112 sections 6 and 7.
 */
#ifndef SC_NET_HTTPANSWER_H
#define SC_NET_HTTPANSWER_H

#include "net/httphead.h"

#define SC_HTTPANSWER_HEAD_MAX 65536u

enum sc_httpanswer_state {
	SC_ANSWER_HEAD, SC_ANSWER_LENGTH, SC_ANSWER_SIZE, SC_ANSWER_CHUNK, SC_ANSWER_CHUNK_END, SC_ANSWER_TRAILER,
	SC_ANSWER_TO_END, SC_ANSWER_OVER,
};
struct sc_httpanswer {
	enum sc_httpanswer_state state;
	struct sc_bytes text;     /* the head; then a line of framing that is not whole */
	size_t head_len;
	struct sc_httphead head;
	bool bodyless;            /* the request was HEAD */
	bool closes;              /* the connection can bear no other request */
	bool told;                /* its head was told */
	uint64_t left;            /* of the body, or of a chunk */
	size_t trailer;           /* bytes of trailers seen */
};

enum sc_httpanswer_step {
	SC_ANSWER_MORE,   /* all bytes were used */
	SC_ANSWER_BEGUN,  /* answer->head is there */
	SC_ANSWER_BODY,   /* *ret_piece is some of the body */
	SC_ANSWER_DONE,   /* the answer is whole */
};

void sc_httpanswer_init(struct sc_httpanswer *answer);
void sc_httpanswer_done(struct sc_httpanswer *answer);
void sc_httpanswer_begin(struct sc_httpanswer *answer, bool head_request);
/* Take some of the bytes: again until it says MORE, DONE or fails. */
int sc_httpanswer_read(struct sc_httpanswer *answer, const char *data, size_t len, size_t *ret_used,
		       enum sc_httpanswer_step *ret_step, struct sc_span *ret_piece, struct sc_err *err);
/* The connection ended: was that the end of the answer's body? */
bool sc_httpanswer_ends(const struct sc_httpanswer *answer);

#endif
