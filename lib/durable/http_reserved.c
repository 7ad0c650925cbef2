/* http_reserved.c: PREFIX/__ds: never a stream. */
#include "durable/http_internal.h"

void sc_ds_reserved(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;

	sc_ds_answer_error(answer, 404, "there is no such subscription");
	if (sc_bytes_puts(&answer->type, "application/json") == 0)
		(void)sc_bytes_puts(&answer->body,
				    "{\"error\":{\"code\":\"SUBSCRIPTION_NOT_FOUND\","
				    "\"message\":\"there is no such subscription\"}}\n");
}
