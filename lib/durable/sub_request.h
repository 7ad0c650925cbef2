/*
 * durable/sub_request.h: what is asked of a subscription: routes and bodies, read and checked.
 *
 * Owns      a request owns what sc_ds_sub_request_done frees; its spans borrow from the body, the
 *           head and its own text.
 * Units     ms as the names say.
 * Errors    what a client did wrong is an answer in JSON; SC_E_NOMEM.
 * Safety    pure functions; any bytes are safe input.
 * Source    durable-streams 20. Bodies are JSON objects; members that are not known are passed
 *           over.
 */
#ifndef SC_DURABLE_SUB_REQUEST_H
#define SC_DURABLE_SUB_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "durable/protocol.h"
#include "durable/subscription.h"

#define SC_DS_SUB_BODY_MAX (1u << 20)
#define SC_DS_SUB_NAMES_MAX 10000u /* streams, or acks, in one request */
#define SC_DS_SUB_URL_MAX 2048u
#define SC_DS_SUB_WORKER_MAX 256u
#define SC_DS_SUB_DESCRIPTION_MAX 4096u

enum sc_ds_sub_op {
	SC_DS_SUB_PUT,
	SC_DS_SUB_GET,
	SC_DS_SUB_DELETE,
	SC_DS_SUB_LINK,
	SC_DS_SUB_UNLINK,
	SC_DS_SUB_CALLBACK,
	SC_DS_SUB_CLAIM,
	SC_DS_SUB_ACK,
	SC_DS_SUB_RELEASE,
	SC_DS_SUB_OUTCOME /* of a delivery; not on the wire */
};

enum sc_ds_outcome {
	SC_DS_OUTCOME_FAILED,
	SC_DS_OUTCOME_TAKEN, /* 2xx: the receiver works on it */
	SC_DS_OUTCOME_DONE,  /* 2xx, and all that it was told of is done */
	SC_DS_OUTCOME_IDLE   /* there was nothing to tell any more */
};

struct sc_ds_sub_ack {
	struct sc_span stream, offset;
};

struct sc_ds_sub_request {
	enum sc_ds_sub_op op;
	struct sc_span id;            /* decoded */
	struct sc_span prefix, base;  /* of this server: PUT, GET */
	struct sc_span token;         /* Bearer: data NULL = none */
	struct sc_ds_sub asked;       /* PUT: type, pattern, url, wake_stream, description, lease */
	struct sc_span *streams;      /* PUT, LINK: sorted, each once; UNLINK: one */
	size_t stream_count;
	struct sc_span worker;        /* CLAIM */
	bool has_generation;
	uint64_t generation;          /* CALLBACK, ACK, RELEASE, OUTCOME */
	struct sc_span wake_id;
	struct sc_ds_sub_ack *acks;   /* CALLBACK, ACK */
	size_t ack_count;
	bool done;
	uint64_t number;              /* OUTCOME: instead of the id */
	enum sc_ds_outcome outcome;
	struct sc_bytes text;         /* what was decoded */
};

/* The path below PREFIX/__ds/: true = op, id (and the stream of UNLINK) are set. false: nothing is
 * there; *ret_method: but another method would find something. */
bool sc_ds_sub_route(struct sc_span below, const char *method, struct sc_ds_sub_request *ret_request,
		     bool *ret_method);
/* Authorization of a worker's request; false: ANSWER says that there is none. */
bool sc_ds_sub_take_token(struct sc_ds_sub_request *request, struct sc_span authorization,
			  struct sc_ds_answer *answer);
/* The body of a request whose op and id are known: 1 = go on, 0 = ANSWER says why not. */
int sc_ds_sub_parse(struct sc_ds_sub_request *request, struct sc_span body,
		    struct sc_ds_answer *answer);
/* A body that is longer than SC_DS_SUB_BODY_MAX: 413. */
void sc_ds_sub_refuse_long(struct sc_ds_answer *answer);
void sc_ds_sub_request_done(struct sc_ds_sub_request *request);

/* May a webhook be at URL? NULL, or why not. */
const char *sc_ds_sub_url_refused(const char *url);

/* {"error":{"code":CODE,"message":MESSAGE}}, with the code's status. */
enum sc_ds_sub_code {
	SC_DS_SUB_INVALID_REQUEST,
	SC_DS_SUB_URL_REJECTED,
	SC_DS_SUB_TOKEN_INVALID,
	SC_DS_SUB_TOKEN_EXPIRED,
	SC_DS_SUB_NOT_FOUND,
	SC_DS_SUB_EXISTS,
	SC_DS_SUB_FENCED,
	SC_DS_SUB_CLAIMED,
	SC_DS_SUB_NO_WORK,
	SC_DS_SUB_BAD_OFFSET
};
void sc_ds_sub_refuse(struct sc_ds_answer *answer, enum sc_ds_sub_code code, const char *message);
/* The same with the lease's holder and generation: ALREADY_CLAIMED. */
void sc_ds_sub_refuse_claimed(struct sc_ds_answer *answer, const struct sc_ds_sub *sub);

#endif
