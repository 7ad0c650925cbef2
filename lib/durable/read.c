/* read.c: GET and HEAD, in the caller's thread. */
#include "base/clock.h"
#include "durable/engine_internal.h"

#define READ_STANDARD (1u << 20)

/* What a read failed with is for the operator; the client may try again. */
static int fail(struct sc_ds_answer *answer, int rc)
{
	sc_ds_answer_busy(answer, "the stream cannot be read now");
	return rc;
}

static int look_up(struct sc_kv_txn *txn, const struct sc_ds_request *request,
		   const struct sc_ds_reader *reader, struct sc_ds_stream *ret_stream,
		   struct sc_err *err)
{
	return reader->started ? sc_ds_load_sid(txn, reader->sid, ret_stream, err)
			       : sc_ds_load_path(txn, request->path, ret_stream, err);
}

/* The first read: path and offset are settled. true = go on. */
static bool begin(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		  int64_t now_us, struct sc_ds_reader *reader, struct sc_ds_answer *answer)
{
	struct sc_ds_read_plan plan;

	if (!sc_ds_read_decide(request, stream, now_us, &plan, answer))
		return false;
	*reader = (struct sc_ds_reader){
		.live = plan.live,
		.now = plan.now,
		.json = sc_ds_type_is_json(stream->type),
		.base64 = !sc_ds_type_is_text(stream->type),
		.sid = stream->sid,
		.at = plan.start,
		.read_bytes = reader->read_bytes,
		.loan = plan.live == SC_DS_SSE ? NULL : reader->loan,
	};
	return true;
}

/* A later read: the stream may have gone. An SSE response just ends then. */
static bool resume(const struct sc_ds_stream *stream, int64_t now_us, struct sc_ds_reader *reader,
		   struct sc_ds_answer *answer)
{
	sc_ds_answer_clear(answer);
	if (stream && !stream->gone && !sc_ds_stream_expired(stream, now_us) &&
	    reader->at >= stream->first)
		return true;
	if (reader->live == SC_DS_SSE) {
		answer->status = 200;
		answer->end = true;
	} else if (stream && !sc_ds_stream_expired(stream, now_us) && !stream->gone) {
		sc_ds_answer_error(answer, 410, "what is at this offset was trimmed");
	} else {
		sc_ds_answer_error(answer, 404, "there is no such stream");
	}
	return false;
}

static int answer_it(const struct sc_ds_request *request, const struct sc_ds_stream *stream,
		     uint64_t end, bool last, int64_t now_us, struct sc_ds_reader *reader,
		     struct sc_ds_answer *answer)
{
	char cursor[SC_DS_CURSOR_TEXT] = "";
	struct sc_ds_read_found found = {
		.live = reader->live,
		.now = reader->now && reader->live == SC_DS_CATCH_UP,
		.start = reader->at,
		.end = end,
		.last = last,
		.again = reader->moved,
		.cursor = cursor,
		.if_none_match = request->if_none_match,
	};
	struct sc_bytes payload = answer->body;
	int rc;

	if (reader->live != SC_DS_CATCH_UP)
		sc_ds_cursor_next(request->query.cursor, now_us, sc_random_below(1u << 30), cursor);
	reader->at = end;
	if (reader->live != SC_DS_SSE)
		return sc_ds_read_answer(stream, &found, answer);
	answer->body.data = NULL;
	answer->body.len = answer->body.cap = 0;
	rc = sc_ds_read_events(stream, &found, sc_span(payload.data, payload.len), answer);
	sc_bytes_done(&payload);
	reader->moved = true;
	return rc;
}

static int read_in(struct sc_ds *ds, struct sc_kv_txn *txn, const struct sc_ds_request *request,
		   struct sc_ds_reader *reader, bool last, struct sc_ds_answer *answer,
		   struct sc_err *err)
{
	struct sc_ds_pages pages = { .body = &answer->body };
	uint64_t end;
	int64_t now_us = request->now_us ? request->now_us : sc_wall_us(), stored_us;
	struct sc_ds_stream stream, *there = &stream;
	int rc = look_up(txn, request, reader, &stream, err);

	if (rc < 0)
		return rc;
	if (rc == 0)
		there = NULL;
	stored_us = there ? stream.accessed_us : 0;
	if (there)
		sc_ds_access_see(ds, there, now_us);
	if (reader->started ? !resume(there, now_us, reader, answer)
			    : !begin(request, there, now_us, reader, answer))
		return 0;
	pages.loan = reader->loan;
	pages.json = reader->json;
	pages.limit = ds->set.read_bytes ? ds->set.read_bytes : READ_STANDARD;
	if (reader->read_bytes && reader->read_bytes < pages.limit)
		pages.limit = reader->read_bytes;
	rc = sc_ds_runs_read(txn, there, reader->at, &pages, &end, err);
	if (rc == 0) {
		sc_ds_answer_error(answer, 400, "offset is inside a message");
		return 0;
	}
	if (rc > 0)
		rc = sc_ds_access_note(ds, there, stored_us, now_us, err);
	if (rc < 0)
		return rc;
	reader->started = true;
	atomic_fetch_add(&ds->reads, 1);
	atomic_fetch_add(&ds->read_bytes, reader->loan ? reader->loan->bytes : answer->body.len);
	rc = answer_it(request, there, end, last, now_us, reader, answer);
	return rc < 0 ? sc_err_nomem(err, "cannot read a stream") : 0;
}

/* A loan that stands takes the transaction along. Where the body is not sent, it was empty. */
static void settle_loan(struct sc_ds_reader *reader, bool sent, const struct sc_ds_answer *answer,
			struct sc_kv_txn **txn)
{
	struct sc_ds_loan *loan = reader->loan;

	if (!loan)
		return;
	if (!sent)
		loan->bytes = loan->count = 0;
	if (!sc_ds_loan_settle(loan, &answer->body))
		return;
	loan->txn = *txn;
	*txn = NULL;
}

int sc_ds_read(struct sc_ds *ds, const struct sc_ds_request *request, struct sc_ds_reader *reader,
	       bool last, struct sc_ds_answer *answer, struct sc_err *err)
{
	struct sc_kv_txn *txn = NULL;
	int rc;

	sc_ds_answer_clear(answer);
	if (reader->loan)
		reader->loan->bytes = reader->loan->count = 0;
	rc = sc_kv_read(ds->kv, &txn, err);
	if (rc == 0)
		rc = read_in(ds, txn, request, reader, last, answer, err);
	settle_loan(reader, rc == 0 && answer->status == 200, answer, &txn);
	sc_kv_abort(&txn);
	return rc < 0 ? fail(answer, rc) : 0;
}

int sc_ds_head(struct sc_ds *ds, struct sc_span path, struct sc_ds_answer *answer,
	       struct sc_err *err)
{
	int64_t now_us = sc_wall_us();
	struct sc_kv_txn *txn = NULL;
	struct sc_ds_stream stream;
	int rc = sc_kv_read(ds->kv, &txn, err);

	if (rc == 0)
		rc = sc_ds_load_path(txn, path, &stream, err);
	if (rc == 1)
		sc_ds_access_see(ds, &stream, now_us);
	if (rc >= 0 && sc_ds_head_answer(rc == 1 ? &stream : NULL, now_us, answer) < 0)
		rc = sc_err_nomem(err, "cannot look at a stream");
	sc_kv_abort(&txn);
	return rc < 0 ? fail(answer, rc) : 0;
}
