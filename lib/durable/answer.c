/* answer.c: answers: made, emptied, freed. */
#include "durable/protocol.h"

#define TYPE_MAX 4096
#define BODY_MAX ((size_t)6 << 30) /* a page with one message of the largest kind, as base64 */

void sc_ds_answer_init(struct sc_ds_answer *answer)
{
	*answer = (struct sc_ds_answer){ 0 };
	sc_bytes_init(&answer->type, TYPE_MAX);
	sc_bytes_init(&answer->body, BODY_MAX);
}

void sc_ds_answer_done(struct sc_ds_answer *answer)
{
	sc_bytes_done(&answer->type);
	sc_bytes_done(&answer->body);
}

void sc_ds_answer_clear(struct sc_ds_answer *answer)
{
	struct sc_bytes type = answer->type, body = answer->body;

	*answer = (struct sc_ds_answer){ .type = type, .body = body };
	answer->type.max = TYPE_MAX;
	answer->body.max = BODY_MAX;
	sc_bytes_clear(&answer->type);
	sc_bytes_clear(&answer->body);
}

void sc_ds_answer_error(struct sc_ds_answer *answer, int status, const char *error)
{
	sc_ds_answer_clear(answer);
	answer->status = status;
	answer->error = error;
}

void sc_ds_answer_busy(struct sc_ds_answer *answer, const char *error)
{
	sc_ds_answer_error(answer, 503, error);
	answer->retry_after_s = 1;
}
