/* append.c: POST: decided, in the order of durable-streams 5. */
#include <string.h>

#include "durable/protocol.h"

#define VALUE_MAX 65536u /* of what is kept in a stream's record: a Stream-Seq, a producer's id */

struct triple {
	bool given;
	struct sc_span id;
	uint64_t epoch, seq;
};

static bool refuse(struct sc_ds_answer *answer, int status, const char *error)
{
	sc_ds_answer_error(answer, status, error);
	return false;
}

static bool parse_triple(const struct sc_ds_request *request, struct triple *ret_triple,
			 struct sc_ds_answer *answer)
{
	bool id = sc_ds_given(request->producer_id), epoch = sc_ds_given(request->producer_epoch),
	     seq = sc_ds_given(request->producer_seq);

	*ret_triple = (struct triple){ .given = id };
	if (!id && !epoch && !seq)
		return true;
	if (!id || !epoch || !seq)
		return refuse(answer, 400,
			      "Producer-Id, Producer-Epoch, Producer-Seq: all or none");
	if (!request->producer_id.len || !request->producer_epoch.len || !request->producer_seq.len)
		return refuse(answer, 400, "a Producer header is empty");
	if (request->producer_id.len > VALUE_MAX)
		return refuse(answer, 400, "Producer-Id is too long");
	ret_triple->id = request->producer_id;
	if (!sc_ds_producer_number(request->producer_epoch, &ret_triple->epoch))
		return refuse(answer, 400, "Producer-Epoch is not a number up to 2^53 - 1");
	if (!sc_ds_producer_number(request->producer_seq, &ret_triple->seq))
		return refuse(answer, 400, "Producer-Seq is not a number up to 2^53 - 1");
	return true;
}

bool sc_ds_append_producer(const struct sc_ds_request *request, struct sc_span *ret_id)
{
	if (!sc_ds_filled(request->producer_id) || request->producer_id.len > VALUE_MAX)
		return false;
	*ret_id = request->producer_id;
	return true;
}

static void tell_state(const struct sc_ds_stream *stream, struct sc_ds_answer *answer)
{
	answer->has_next = true;
	answer->next = stream->tail;
	answer->closed = stream->closed;
}

static void tell_producer(uint64_t epoch, uint64_t seq, struct sc_ds_answer *answer)
{
	answer->has_epoch = answer->has_seq = true;
	answer->epoch = epoch;
	answer->seq = seq;
}

static void duplicate(const struct sc_ds_stream *stream, uint64_t epoch, uint64_t seq,
		      struct sc_ds_append *append, struct sc_ds_answer *answer)
{
	answer->status = 204;
	append->access = true;
	tell_state(stream, answer);
	tell_producer(epoch, seq, answer);
}

/* What is said of a stream that is closed already; true = it is open. */
static bool check_open(const struct sc_ds_stream *stream, const struct triple *producer,
		       bool close_only, struct sc_ds_append *append, struct sc_ds_answer *answer)
{
	if (!stream->closed)
		return true;
	if (producer->given && stream->has_closer && producer->epoch == stream->closer_epoch &&
	    producer->seq == stream->closer_seq && producer->id.len == stream->closer.len &&
	    !memcmp(producer->id.data, stream->closer.data, producer->id.len)) {
		duplicate(stream, producer->epoch, producer->seq, append, answer);
		return false;
	}
	if (close_only && !producer->given) {
		answer->status = 204;
		append->access = true;
		tell_state(stream, answer);
		return false;
	}
	refuse(answer, 409, "the stream is closed");
	tell_state(stream, answer);
	return false;
}

/* Section 6; true = accepted. */
static bool check_producer(const struct triple *asked, const struct sc_ds_producer *known,
			   const struct sc_ds_stream *stream, struct sc_ds_append *append,
			   struct sc_ds_answer *answer)
{
	uint64_t expected;

	if (!asked->given)
		return true;
	if (known && asked->epoch < known->epoch) {
		refuse(answer, 403, "a newer producer of this name has taken over");
		answer->has_epoch = true;
		answer->epoch = known->epoch;
		return false;
	}
	if (known && asked->epoch > known->epoch && asked->seq)
		return refuse(answer, 400, "a new epoch begins with Producer-Seq 0");
	expected = known && asked->epoch == known->epoch ? known->seq + 1 : 0;
	if (asked->seq < expected) {
		duplicate(stream, known->epoch, known->seq, append, answer);
		return false;
	}
	if (asked->seq > expected) {
		refuse(answer, 409, "Producer-Seq leaves a gap");
		answer->has_expected = true;
		answer->expected = expected;
		answer->received = asked->seq;
		return false;
	}
	append->has_producer = true;
	append->producer = (struct sc_ds_producer){ asked->epoch, asked->seq };
	return true;
}

static bool check_seq(struct sc_span asked, struct sc_span last, struct sc_ds_answer *answer)
{
	size_t least = asked.len < last.len ? asked.len : last.len;
	int order;

	if (!sc_ds_filled(asked))
		return true;
	if (asked.len > VALUE_MAX)
		return refuse(answer, 400, "Stream-Seq is too long");
	order = least ? memcmp(asked.data, last.data, least) : 0;
	if (last.len && (order < 0 || (order == 0 && asked.len <= last.len)))
		return refuse(answer, 409, "Stream-Seq is not above the last one");
	return true;
}

static bool check_body(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		       const struct sc_ds_presplit *split, struct sc_ds_append *append,
		       struct sc_ds_answer *answer)
{
	if (!sc_ds_create_body(request->body, stream->type, split, &append->messages, answer))
		return false;
	if (append->messages.count == 0)
		return refuse(answer, 400, "an empty array is no message");
	if (append->messages.size > SC_DS_POSITION_MAX - stream->tail)
		return refuse(answer, 413, "the stream is full");
	return true;
}

static void accept(const struct triple *producer, bool closing, struct sc_span seq,
		   struct sc_ds_stream *stream, struct sc_ds_append *append,
		   struct sc_ds_answer *answer)
{
	append->store = append->access = true;
	stream->tail += append->messages.size;
	if (closing) {
		stream->closed = true;
		stream->has_closer = producer->given;
		stream->closer = producer->id;
		stream->closer_epoch = producer->epoch;
		stream->closer_seq = producer->seq;
	}
	if (sc_ds_filled(seq))
		stream->seq = seq;
	answer->status = producer->given && append->messages.count ? 200 : 204;
	tell_state(stream, answer);
	if (producer->given)
		tell_producer(producer->epoch, producer->seq, answer);
}

static bool check_lives(const struct sc_ds_stream *stream, int64_t now_us,
			struct sc_ds_answer *answer)
{
	if (stream && stream->gone)
		return refuse(answer, 410, "the stream was deleted");
	if (!stream || sc_ds_stream_expired(stream, now_us))
		return refuse(answer, 404, "there is no such stream");
	return true;
}

void sc_ds_append_decide(const struct sc_ds_request *request, struct sc_ds_stream *stream,
			 const struct sc_ds_producer *known, const struct sc_ds_presplit *split,
			 int64_t now_us, struct sc_ds_append *append, struct sc_ds_answer *answer)
{
	bool closing = sc_ds_is_true(request->closed), empty = request->body.len == 0;
	struct sc_span none = { NULL, 0 };
	struct triple producer;

	*append = (struct sc_ds_append){ .store = false };
	sc_ds_answer_clear(answer);
	if (!check_lives(stream, now_us, answer) || !parse_triple(request, &producer, answer))
		return;
	if (empty && !closing) {
		refuse(answer, 400, "the body is empty");
		return;
	}
	if (!empty && !sc_ds_filled(request->content_type)) {
		refuse(answer, 400, "a body needs a Content-Type");
		return;
	}
	if (!check_open(stream, &producer, empty, append, answer))
		return;
	if (!empty && !sc_ds_type_same(request->content_type, stream->type)) {
		refuse(answer, 409, "the stream has another Content-Type");
		return;
	}
	if (!check_producer(&producer, known, stream, append, answer))
		return;
	if (!empty && (!check_seq(request->seq, stream->seq, answer) ||
		       !check_body(request, stream, split, append, answer))) {
		append->has_producer = false;
		return;
	}
	accept(&producer, closing, empty ? none : request->seq, stream, append, answer);
}
