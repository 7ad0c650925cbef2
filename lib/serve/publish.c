/* serve/publish.c: publishers over a WebSocket: their frames to the writer, its replies back. */
#include <stdlib.h>

#include "serve/app.h"
#include "wire/head.h"

#define REPLIES_MAX \
	(256u << 10) /* that wait for a publisher: one that takes none is not read from */

/* Its frames are read while the writer has room for them, and while it takes the replies: with
 * little memory, the first of them. */
static void set_pace(struct sc_visit *v)
{
	size_t waiting = v->out.len - v->out_at;

	sc_visit_weigh(v);
	if (v->queue_full || waiting > REPLIES_MAX || !sc_conn_has_room(v->conn, waiting))
		sc_conn_pause(v->conn);
	else
		sc_conn_resume(v->conn);
}

/* What waits goes out first; what is not taken waits. */
static void flush(struct sc_visit *v)
{
	size_t taken;

	if (v->out_at == v->out.len)
		return;
	taken = sc_conn_write_frames(v->conn, v->out.data + v->out_at, v->out.len - v->out_at);
	v->out_at += taken;
	if (v->out_at < v->out.len) {
		sc_conn_want_write(v->conn);
		return;
	}
	sc_bytes_clear(&v->out);
	v->out_at = 0;
	if (v->out.cap > (1u << 20)) /* a reply to a great many rows: its memory is not kept */
		sc_bytes_done(&v->out);
}

static void break_off(struct sc_visit *v)
{
	sc_conn_close(v->conn, SC_CLOSE_FAILED, SC_SPAN("the server failed"));
}

/* One reply, as a frame behind those that wait. */
static void reply(struct sc_visit *v, struct sc_span text)
{
	unsigned char head[SC_HEAD_MAX];
	size_t head_len = sc_head_put(head, text.len);

	if (v->out_at > 0) {
		sc_bytes_drop(&v->out, v->out_at);
		v->out_at = 0;
	}
	if (sc_bytes_put(&v->out, head, head_len) < 0 ||
	    sc_bytes_put(&v->out, text.data, text.len) < 0) {
		break_off(v);
		return;
	}
	flush(v);
	set_pace(v);
}

void sc_publish_open(struct sc_visit *v)
{
	struct sc_span producer = sc_publisher_name(v->publisher);
	struct sc_bytes greeting;
	struct sc_err err;

	sc_bytes_init(&greeting, SIZE_MAX / 4);
	if (sc_stream_greet(v->host->stream, producer, &greeting, &err) < 0)
		break_off(v);
	else
		reply(v, sc_span(greeting.data, greeting.len));
	sc_bytes_done(&greeting);
}

void sc_publish_message(struct sc_visit *v, struct sc_span data)
{
	struct sc_bytes text;
	struct sc_err err;
	int rc;

	if (v->publisher) {
		rc = sc_publisher_frame(v->publisher, data, &err);
		v->queue_full = rc == 1;
		if (rc < 0)
			break_off(v);
		else
			set_pace(v);
		return;
	}
	/* no log: nothing to wait for */
	sc_bytes_init(&text, SIZE_MAX / 4);
	if (sc_stream_publish(v->host->stream, data, &text, &err) < 0)
		break_off(v);
	else
		reply(v, sc_span(text.data, text.len));
	sc_bytes_done(&text);
}

void sc_publish_writable(struct sc_visit *v)
{
	flush(v);
	set_pace(v);
}

void sc_publish_replies(struct sc_host *host)
{
	struct sc_writer_reply r;

	while (sc_writer_next(host->writer, &r)) {
		struct sc_visit *v = r.arg;

		if (r.text.len > 0)
			reply(v, r.text);
		else if (!r.resume) /* no memory for a reply: the publisher must not wait for it */
			break_off(v);
		if (r.resume) {
			v->queue_full = false;
			set_pace(v);
		}
	}
}
