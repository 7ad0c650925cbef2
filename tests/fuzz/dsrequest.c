/*
 * tests/fuzz/dsrequest.c: any bytes as a request to sc-streams, from its head to the head of its
 * answer: parsed, routed, decided against streams of several states, answered.
 *
 * A request that two readers could cut in two ways is refused; every answer has a status, and no
 * byte of the request ends a line of it.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "durable/http_internal.h"

#define NOW_US 1764504000000000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct sc_ds_stream streams[] = {
	{ .sid = 1, .path = SC_SPAN("/v1/stream/a"), .type = SC_SPAN("text/plain"), .tail = 40 },
	{ .sid = 2,
	  .path = SC_SPAN("/v1/stream/b"),
	  .type = SC_SPAN("application/json"),
	  .tail = 100,
	  .first = 10,
	  .closed = true,
	  .has_closer = true,
	  .closer = SC_SPAN("p"),
	  .closer_epoch = 1,
	  .closer_seq = 2,
	  .life = { .has_ttl = true, .ttl_s = 60 },
	  .accessed_us = NOW_US - 1,
	  .seq = SC_SPAN("m") },
	{ .sid = 3, .path = SC_SPAN("/v1/stream/c"), .type = SC_SPAN("a/b"), .gone = true },
};

/* Lines of a head, each one a field. */
static void check_lines(const struct sc_bytes *out)
{
	size_t at = 0;

	while (at < out->len) {
		const char *line = out->data + at, *end = memchr(line, '\r', out->len - at);

		if (!end || end + 1 >= out->data + out->len || end[1] != '\n' || end == line)
			abort();
		for (const char *c = line; c < end; c++)
			if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f)
				abort();
		if (!memchr(line, ':', (size_t)(end - line)))
			abort();
		at += (size_t)(end - line) + 2;
	}
}

static void answered(struct sc_ds_answer *answer)
{
	static const struct sc_ds_face face = { "*", false };
	struct sc_ds_fields fields;
	struct sc_bytes out;

	if (answer->status < 200 || answer->status > 599)
		abort();
	sc_bytes_init(&out, 1 << 20);
	sc_ds_fields_make(&fields, &face, answer, NULL);
	if (sc_ds_fields_put(&fields, &out) < 0)
		abort();
	check_lines(&out);
	sc_bytes_done(&out);
	sc_ds_answer_clear(answer);
}

static void check_split(struct sc_span body, bool json)
{
	struct sc_ds_messages messages;
	struct sc_ds_messages_walk walk;
	struct sc_span message;
	uint64_t count = 0, sum = 0;

	if (sc_ds_messages_split(body, json, &messages) != SC_DS_SPLIT_OK)
		return;
	sc_ds_messages_walk(&walk, &messages);
	while (sc_ds_messages_next(&walk, &message)) {
		count++;
		sum += SC_DS_FRAME_HEAD + message.len;
	}
	if (count != messages.count || sum != messages.size)
		abort();
}

static void decide_put(const struct sc_ds_request *request, const struct sc_ds_stream *at,
		       struct sc_ds_answer *answer)
{
	struct sc_ds_messages messages;
	struct sc_ds_create plan;
	struct sc_ds_stream made;
	uint64_t point;

	if (!sc_ds_create_parse(request, &plan, answer) ||
	    !sc_ds_create_target(&plan, at, false, NOW_US, answer) ||
	    (plan.asked.forked_from.data &&
	     !sc_ds_create_source(&plan, at, NOW_US, &point, answer))) {
		answered(answer);
		return;
	}
	sc_ds_create_make(&plan, NULL, 0, NOW_US, &made);
	if (sc_ds_create_body(request->body, made.type, NULL, &messages, answer)) {
		struct sc_bytes record;

		made.sid = 9;
		made.path = request->path;
		sc_bytes_init(&record, 1 << 20);
		if (sc_ds_stream_encode(&made, &record) < 0 ||
		    sc_ds_stream_decode(sc_span(record.data, record.len), &made, NULL) < 0 ||
		    sc_ds_create_answer(&made, true, answer) < 0)
			abort();
		answered(answer);
		if (sc_ds_head_answer(&made, NOW_US, answer) < 0)
			abort();
		sc_bytes_done(&record);
	}
	answered(answer);
}

static void decide_post(const struct sc_ds_request *request, struct sc_ds_stream stream,
			struct sc_ds_answer *answer)
{
	static const struct sc_ds_producer known = { 1, 2 };
	uint64_t before = stream.tail;
	struct sc_ds_append append;

	sc_ds_append_decide(request, &stream, &known, NULL, NOW_US, &append, answer);
	if (append.store ? stream.tail != before + append.messages.size : stream.tail != before)
		abort();
	answered(answer);
}

static void decide_get(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		       struct sc_ds_answer *answer)
{
	struct sc_ds_read_plan plan;

	if (!sc_ds_read_decide(request, stream, NOW_US, &plan, answer))
		answered(answer);
	else if (plan.start < stream->first || plan.start > stream->tail)
		abort();
}

/* What the shortest reading of the head says of where the body ends. */
static bool one_length(const struct sc_http_head *head)
{
	return sc_http_field_count(head, "Content-Length") +
		       sc_http_field_count(head, "Transfer-Encoding") <=
	       1;
}

static void decide(struct sc_ds_conn *conn, struct sc_span body)
{
	struct sc_ds_request *request = &conn->call.request;
	struct sc_ds_answer answer;

	if (conn->query.data && sc_ds_query_parse(conn->query, &conn->scratch, &request->query) < 0)
		abort();
	request->body = body;
	sc_ds_answer_init(&answer);
	for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++) {
		decide_put(request, i ? &streams[i] : NULL, &answer);
		decide_post(request, streams[i], &answer);
		decide_get(request, &streams[i], &answer);
	}
	sc_ds_answer_done(&answer);
	check_split(body, false);
	check_split(body, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sc_ds_http http = { .o = { .path_max = 512 },
					  .prefix = SC_SPAN("/v1/stream/") };
	static struct sc_ds_shard shard = { .http = &http };
	static struct sc_ds_conn conn;
	struct sc_http_head head = { .count = 0 };
	size_t len = sc_http_head_end((const char *)data, size, 0);
	struct sc_span body;

	if (!len)
		return 0;
	body = sc_span((const char *)data + len, size - len);
	memset(&conn, 0, sizeof(conn));
	conn.shard = &shard;
	sc_ds_answer_init(&conn.call.answer);
	sc_bytes_init(&conn.text, size);
	sc_bytes_init(&conn.scratch, size + 1);
	/* of its own, so that the sanitizer sees a byte too far */
	if (sc_bytes_put(&conn.text, data, len) < 0)
		abort();
	if (sc_http_parse(conn.text.data, len, &head) == 0) {
		sc_ds_conn_head(&conn, &head);
		if ((conn.route == SC_DS_ROUTE_REFUSED) != (conn.call.answer.status >= 400))
			abort();
		if (!one_length(&head) && conn.route != SC_DS_ROUTE_REFUSED)
			abort();
		if (conn.route == SC_DS_ROUTE_REFUSED)
			answered(&conn.call.answer);
		else
			decide(&conn, body);
	}
	sc_bytes_done(&conn.text);
	sc_bytes_done(&conn.scratch);
	sc_ds_answer_done(&conn.call.answer);
	return 0;
}
