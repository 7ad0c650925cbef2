/* http_work.c: what is done with a request whose body is there, and with one that waited. */
#include "base/clock.h"
#include "durable/http_internal.h"
#include "durable/sse.h"

static const char stopping[] = "the server is stopping";

void sc_ds_conn_say(struct sc_ds_conn *conn, const struct sc_err *err)
{
	struct sc_ds_http *http = conn->shard->http;
	char line[1200];

	if (!http->o.say)
		return;
	sc_err_line(err, line, sizeof(line));
	http->o.say(SC_WARNING, NULL, "%s", line);
}

/* Writes. */

/* In the engine's writer thread. */
static void on_done(struct sc_ds_call *call)
{
	struct sc_ds_conn *conn = call->arg;

	atomic_store(&conn->noted, true);
	sc_ds_shard_note(conn->shard, &conn->note);
}

enum sc_ds_step sc_ds_conn_submit(struct sc_ds_conn *conn)
{
	struct sc_ds_call *call = &conn->call;

	call->done = on_done;
	call->arg = conn;
	conn->phase = SC_DS_AT_WRITING;
	sc_ds_conn_due(conn, SC_DS_NEVER);
	if (sc_ds_submit(conn->shard->http->ds, call) != 0)
		return sc_ds_conn_reply(conn);
	return SC_DS_STOP;
}

static enum sc_ds_step write_stream(struct sc_ds_conn *conn)
{
	struct sc_ds_call *call = &conn->call;

	call->op = SC_DS_OP_REQUEST;
	call->request.body = sc_span(conn->body.data ? conn->body.data : "", conn->body.len);
	return sc_ds_conn_submit(conn);
}

/* Reads. */

void sc_ds_conn_read(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_err err;
	int rc;

	if (atomic_load_explicit(&http->held_out, memory_order_relaxed) >= http->o.held_max) {
		sc_ds_answer_busy(answer, "too many answers are on their way");
		return;
	}
	if (conn->route == SC_DS_ROUTE_LOG)
		rc = sc_ds_log_read(&http->logs, conn->log_at, &conn->shard->logs[conn->log_at],
				    &conn->call.request, &conn->log_reader, conn->over, answer,
				    &err);
	else
		rc = sc_ds_read(http->ds, &conn->call.request, &conn->reader, conn->over, answer,
				&err);
	if (rc < 0) {
		sc_ds_conn_say(conn, &err);
		sc_ds_answer_busy(answer, "the stream cannot be read now");
	}
	sc_ds_conn_charge(conn);
}

/* In the engine's writer thread, with its lock held. */
static void on_woken(struct sc_ds_waiter *waiter, enum sc_ds_woken why)
{
	struct sc_ds_conn *conn = waiter->arg;

	(void)why;
	atomic_store(&conn->noted, true);
	sc_ds_shard_note(conn->shard, &conn->note);
}

static void on_log(struct sc_ds_log_wait *wait)
{
	struct sc_ds_conn *conn = wait->arg;

	atomic_store(&conn->noted, true);
	sc_ds_shard_note(conn->shard, &conn->note);
}

int sc_ds_conn_wait(struct sc_ds_conn *conn, enum sc_ds_phase phase)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_err err;
	int rc;

	if (conn->hung_up)
		return -1;
	if (conn->route == SC_DS_ROUTE_LOG) {
		conn->log_wait = (struct sc_ds_log_wait){ .woken = on_log, .arg = conn };
		rc = sc_ds_logs_wait(&http->logs, &conn->log_reader, &conn->log_wait);
	} else {
		conn->waiter = (struct sc_ds_waiter){ .woken = on_woken, .arg = conn };
		rc = sc_ds_wait(http->ds, &conn->reader, &conn->waiter, &err);
		if (rc < 0)
			sc_ds_conn_say(conn, &err);
	}
	if (rc != 0)
		return rc;
	conn->live = conn->waiting = true;
	conn->phase = phase;
	atomic_fetch_add(&http->waiting[phase == SC_DS_AT_EVENTS], 1);
	if (conn->in.len == 0)
		sc_bytes_done(&conn->in); /* there may be many that wait */
	return 0;
}

void sc_ds_conn_unwait(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;

	if (conn->route == SC_DS_ROUTE_LOG)
		sc_ds_logs_unwait(&http->logs, &conn->log_wait);
	else
		sc_ds_unwait(http->ds, &conn->waiter);
}

static bool is_events(const struct sc_ds_conn *conn)
{
	if (conn->call.answer.status != 200)
		return false;
	return conn->route == SC_DS_ROUTE_LOG ? conn->log_reader.live == SC_DS_SSE
					      : conn->reader.live == SC_DS_SSE;
}

static enum sc_ds_step read_stream(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	int rc = 1;

	do {
		sc_ds_conn_read(conn);
		if (is_events(conn))
			return sc_ds_conn_events(conn);
		if (!answer->wait)
			return sc_ds_conn_reply(conn);
		if (atomic_load(&http->stopping)) {
			sc_ds_answer_busy(answer, stopping);
			return sc_ds_conn_reply(conn);
		}
		if (conn->phase != SC_DS_AT_POLLING)
			conn->ends_us = conn->shard->now_us + http->o.long_poll_ms * 1000;
		conn->phase = SC_DS_AT_POLLING;
		if (conn->shard->now_us >= conn->ends_us)
			conn->over = true;
		else
			rc = sc_ds_conn_wait(conn, SC_DS_AT_POLLING);
	} while (rc == 1);
	if (rc == 0)
		sc_ds_conn_due(conn, conn->ends_us);
	return rc == 0 ? SC_DS_STOP : SC_DS_END;
}

static enum sc_ds_step begin_read(struct sc_ds_conn *conn)
{
	struct sc_ds_request *request = &conn->call.request;

	if (conn->query.data && sc_ds_query_parse(conn->query, &conn->scratch, &request->query) < 0)
		return SC_DS_END;
	if (request->query.live.data && sc_span_is(request->query.live, "sse"))
		conn->reader.read_bytes = SC_DS_SSE_BYTES;
	if (!conn->tls)
		conn->reader.loan = &conn->shard->loan;
	return read_stream(conn);
}

static void head_stream(struct sc_ds_conn *conn)
{
	struct sc_ds_http *http = conn->shard->http;
	struct sc_ds_answer *answer = &conn->call.answer;
	struct sc_err err;
	int rc;

	if (conn->route == SC_DS_ROUTE_LOG)
		rc = sc_ds_log_head(&http->logs, conn->log_at, &conn->shard->logs[conn->log_at],
				    answer, &err);
	else
		rc = sc_ds_head(http->ds, conn->call.request.path, answer, &err);
	if (rc == 0)
		return;
	sc_ds_conn_say(conn, &err);
	sc_ds_answer_busy(answer, "the stream cannot be read now");
}

enum sc_ds_step sc_ds_conn_work(struct sc_ds_conn *conn)
{
	struct sc_ds_answer *answer = &conn->call.answer;
	bool stream = conn->route == SC_DS_ROUTE_STREAM || conn->route == SC_DS_ROUTE_LOG;

	if (stream && conn->call.request.method == SC_DS_GET)
		return begin_read(conn);
	if (stream && conn->call.request.method == SC_DS_HEAD)
		head_stream(conn);
	else if (stream)
		return write_stream(conn);
	else if (conn->route == SC_DS_ROUTE_OPTIONS)
		answer->status = 204;
	else if (conn->route == SC_DS_ROUTE_HEALTH)
		sc_ds_page_health(conn);
	else if (conn->route == SC_DS_ROUTE_METRICS)
		sc_ds_page_metrics(conn);
	else if (conn->route == SC_DS_ROUTE_RESERVED)
		return sc_ds_reserved(conn);
	return sc_ds_conn_reply(conn);
}

enum sc_ds_step sc_ds_conn_again(struct sc_ds_conn *conn)
{
	conn->shard->now_us = sc_mono_us();
	if (conn->phase == SC_DS_AT_POLLING)
		return read_stream(conn);
	return conn->phase == SC_DS_AT_WRITING ? sc_ds_conn_reply(conn) : SC_DS_GO_ON;
}
