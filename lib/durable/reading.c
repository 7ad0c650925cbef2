/* reading.c: GET: decided, and its answers. */
#include "durable/protocol.h"
#include "durable/sse.h"

static bool refuse(struct sc_ds_answer *answer, int status, const char *error)
{
	sc_ds_answer_error(answer, status, error);
	return false;
}

static enum sc_ds_live live_of(struct sc_span live)
{
	if (live.data && sc_span_is(live, "long-poll"))
		return SC_DS_LONG_POLL;
	return live.data && sc_span_is(live, "sse") ? SC_DS_SSE : SC_DS_CATCH_UP;
}

bool sc_ds_read_decide(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		       int64_t now_us, struct sc_ds_read_plan *ret_plan,
		       struct sc_ds_answer *answer)
{
	const struct sc_ds_query *query = &request->query;
	struct sc_ds_read_plan plan = { .live = live_of(query->live) };
	enum sc_ds_offset_kind kind = SC_DS_OFFSET_START;

	sc_ds_answer_clear(answer);
	if (stream && stream->gone)
		return refuse(answer, 410, "the stream was deleted");
	if (!stream || sc_ds_stream_expired(stream, now_us))
		return refuse(answer, 404, "there is no such stream");
	if (query->offset_repeated)
		return refuse(answer, 400, "offset is given more than once");
	if (query->offset.data && !sc_ds_offset_parse(query->offset, &kind, &plan.start))
		return refuse(answer, 400, "offset is not an offset of this server");
	if (!query->offset.data && plan.live != SC_DS_CATCH_UP)
		return refuse(answer, 400, "a live read needs an offset");
	plan.now = kind == SC_DS_OFFSET_NOW;
	if (kind == SC_DS_OFFSET_START)
		plan.start = stream->first;
	if (kind == SC_DS_OFFSET_NOW)
		plan.start = stream->tail;
	if (plan.start > stream->tail)
		return refuse(answer, 400, "offset is behind the end of the stream");
	if (plan.start < stream->first)
		return refuse(answer, 410, "what is at this offset was trimmed");
	*ret_plan = plan;
	return true;
}

static void set_cursor(struct sc_ds_answer *answer, const char *cursor)
{
	size_t len = strlen(cursor);

	if (len >= sizeof(answer->cursor))
		len = sizeof(answer->cursor) - 1;
	memcpy(answer->cursor, cursor, len);
	answer->cursor[len] = 0;
}

/* At the end of the stream, in a long-poll: wait, or 204. */
static int at_tail(const struct sc_ds_stream *stream, const struct sc_ds_read_found *found,
		   struct sc_ds_answer *answer)
{
	sc_bytes_clear(&answer->body);
	answer->wait = !stream->closed && !found->last;
	answer->status = 204;
	answer->has_next = answer->up_to_date = true;
	answer->next = stream->tail;
	answer->closed = stream->closed;
	set_cursor(answer, found->cursor);
	return sc_bytes_put(&answer->type, stream->type.data, stream->type.len);
}

int sc_ds_read_answer(const struct sc_ds_stream *stream, const struct sc_ds_read_found *found,
		      struct sc_ds_answer *answer)
{
	bool tail = found->end == stream->tail;
	bool live = found->live != SC_DS_CATCH_UP;

	if (live && tail && found->start == found->end)
		return at_tail(stream, found, answer);
	answer->status = 200;
	answer->has_next = true;
	answer->next = found->end;
	answer->up_to_date = tail;
	answer->closed = tail && stream->closed;
	if (live)
		set_cursor(answer, found->cursor);
	if (found->now)
		answer->cache = SC_DS_CACHE_NO_STORE;
	else
		sc_ds_etag_format(stream->sid, found->start, found->end, answer->closed,
				  answer->etag);
	if (!found->now && !tail && found->end > found->start)
		answer->cache = SC_DS_CACHE_HISTORY;
	if (sc_ds_etag_matches(found->if_none_match, answer->etag)) {
		answer->status = 304;
		sc_bytes_clear(&answer->body);
		return 0;
	}
	return sc_bytes_put(&answer->type, stream->type.data, stream->type.len);
}

int sc_ds_read_events(const struct sc_ds_stream *stream, const struct sc_ds_read_found *found,
		      struct sc_span payload, struct sc_ds_answer *answer)
{
	bool tail = found->end == stream->tail;
	struct sc_ds_batch batch = {
		.payload = payload,
		.has_data = found->end > found->start,
		.base64 = !sc_ds_type_is_text(stream->type),
		.next = found->end,
		.cursor = found->cursor,
		.up_to_date = tail,
		.ended = tail && stream->closed,
	};

	sc_bytes_clear(&answer->body);
	answer->status = 200;
	answer->base64 = batch.base64;
	answer->cache = SC_DS_CACHE_NO_CACHE;
	answer->end = batch.ended;
	answer->wait = tail && !batch.ended;
	answer->has_next = true;
	answer->next = found->end;
	/* an idle stream is not told twice: offsets of control events grow */
	if (found->again && !batch.has_data && !batch.ended)
		return 0;
	if (sc_bytes_puts(&answer->type, "text/event-stream") < 0)
		return SC_E_NOMEM;
	return sc_ds_sse_put(&answer->body, &batch);
}
