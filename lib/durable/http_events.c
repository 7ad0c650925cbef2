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
}

/* Nothing is held for one that waits. */
static void empty(struct sc_ds_conn *conn)
{
	sc_bytes_done(&conn->call.answer.body);
	sc_ds_conn_uncharge(conn);
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

/* The answer's body as a chunk (or as it is, for HTTP/1.0), behind what is in conn->out. */
static enum sc_ds_step put_chunk(struct sc_ds_conn *conn)
{
	struct sc_bytes *body = &conn->call.answer.body;
	int rc = 0;

	if (!conn->old)
		rc = sc_bytes_putf(&conn->out, "%zx\r\n", body->len);
	conn->out_body = sc_span(body->data, body->len);
	if (!conn->old)
		conn->out_tail = SC_SPAN("\r\n");
	conn->sent_bytes += body->len;
	return rc < 0 ? SC_DS_END : SC_DS_GO_ON;
}

static enum sc_ds_step end_events(struct sc_ds_conn *conn)
{
	empty(conn);
	if (!conn->old && sc_bytes_puts(&conn->out, "0\r\n\r\n") < 0)
		return SC_DS_END;
	conn->phase = SC_DS_AT_SENDING;
	if (atomic_load(&conn->shard->http->stopping))
		conn->close_after = true;
	return SC_DS_GO_ON;
}

enum sc_ds_step sc_ds_conn_more_events(struct sc_ds_conn *conn)
{
	if (!next_batch(conn))
		return end_events(conn);
	return conn->waiting ? SC_DS_STOP : put_chunk(conn);
}

enum sc_ds_step sc_ds_conn_events(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	int rc;

	answer->has_next = answer->up_to_date = answer->closed = false; /* the events say it */
	answer->cursor[0] = 0;
	rc = sc_ds_conn_put_head(conn, -1);
	if (rc == 0)
		rc = sc_bytes_puts(&conn->out,
				   conn->old ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n");
	if (rc < 0)
		return SC_DS_END;
	conn->phase = SC_DS_AT_EVENTS;
	conn->status = 200;
	conn->ends_us = conn->shard->now_us + http->o.sse_ms * 1000;
	set_patience(conn);
	return answer->body.len ? put_chunk(conn) : SC_DS_GO_ON;
}
