/* http_events.c: server-sent events: a batch at a time, the next when the last has been taken. */
#include "base/clock.h"
#include "durable/http_internal.h"
#include "durable/sse.h"

#define BLOCK_BYTES 1024    /* the library's own buffer, where there are no chunks */
#define COMMENT_US 15000000 /* silence that a proxy may take for death */
#define SEND_RATE 16384

static void set_patience(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	int64_t len = (int64_t)conn->call.answer.body.len;

	sc_ds_conn_due(conn,
		       conn->shard->now_us + http->o.idle_ms * 1000 + len / SEND_RATE * 1000000);
	conn->comment_us = conn->shard->now_us + COMMENT_US;
	conn->sent = 0;
}

/* Nothing is held for one that waits. */
static void empty(struct sc_ds_conn *conn)
{
	sc_bytes_done(&conn->call.answer.body);
	sc_ds_conn_uncharge(conn);
	conn->sent = 0;
}

/* The wait is over in time: for the life, or for a sign of it. true: the response goes on. */
static bool time_passed(struct sc_ds_conn *conn)
{
	conn->over = false;
	if (conn->shard->now_us >= conn->ends_us)
		return false;
	if (sc_ds_sse_comment(&conn->call.answer.body) < 0)
		return false;
	set_patience(conn);
	return true;
}

/* true: the answer's body holds something, or the connection waits; false: the end. */
static bool next_batch(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	bool read = conn->resumed || !answer->wait;
	int rc;

	conn->shard->now_us = sc_mono_us();
	conn->resumed = false;
	empty(conn);
	if (answer->end)
		return false;
	if (conn->over)
		return time_passed(conn);
	for (;; read = true) {
		if (conn->hung_up || atomic_load(&http->stopping) ||
		    conn->shard->now_us >= conn->ends_us)
			return false;
		if (read) {
			sc_ds_conn_read(conn);
			set_patience(conn);
			if (answer->status != 200)
				return false;
			if (answer->body.len)
				return true;
			if (answer->end)
				return false;
		}
		if (!answer->wait)
			continue;
		empty(conn);
		rc = sc_ds_conn_wait(conn, SC_DS_AT_EVENTS);
		if (rc == 0)
			sc_ds_conn_due(conn, conn->ends_us < conn->comment_us ? conn->ends_us
									      : conn->comment_us);
		if (rc <= 0)
			return rc == 0;
	}
}

static ssize_t give(void *cls, uint64_t at, char *buffer, size_t max)
{
	struct sc_ds_conn *conn = cls;
	struct sc_bytes *body = &conn->call.answer.body;
	size_t len;

	(void)at;
	if (conn->sent >= body->len && !next_batch(conn))
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (conn->suspended)
		return 0;
	len = body->len - conn->sent < max ? body->len - conn->sent : max;
	memcpy(buffer, body->data + conn->sent, len);
	conn->sent += len;
	conn->sent_bytes += len;
	return (ssize_t)len;
}

enum MHD_Result sc_ds_conn_events(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	struct MHD_Response *response;
	struct sc_ds_fields fields;
	enum MHD_Result rc = MHD_YES;

	response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, give, conn,
						     NULL);
	if (!response)
		return MHD_NO;
	answer->has_next = answer->up_to_date = answer->closed = false; /* the events say it */
	answer->cursor[0] = 0;
	sc_ds_fields_make(&fields, &http->face, answer, NULL);
	for (size_t i = 0; rc == MHD_YES && i < fields.count; i++)
		rc = MHD_add_response_header(response, fields.items[i].name, fields.items[i].value);
	conn->phase = SC_DS_AT_EVENTS;
	conn->status = 200;
	conn->ends_us = conn->shard->now_us + http->o.sse_ms * 1000;
	set_patience(conn);
	if (rc == MHD_YES)
		rc = MHD_queue_response(conn->mhd, MHD_HTTP_OK, response);
	MHD_destroy_response(response);
	return rc;
}
