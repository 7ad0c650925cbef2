/* subs_work.c: requests about subscriptions, inside the writer's transaction. */
#include "durable/subs_internal.h"

#include "base/clock.h"

#define LINK_BYTES 1024u /* about what a link takes */

struct ask {
	struct sc_ds_work *work;
	const struct sc_ds_sub_request *request;
	struct sc_ds_answer *answer;
	struct sc_ds_sub_row row;
	int64_t now_us;
};

static int refuse(struct ask *ask, enum sc_ds_sub_code code, const char *message)
{
	ask->work->fenced += code == SC_DS_SUB_FENCED;
	sc_ds_sub_refuse(ask->answer, code, message);
	return 0;
}

static int begin_json(struct ask *ask, int status, struct sc_err *err)
{
	struct sc_ds_answer *answer = ask->answer;

	sc_ds_answer_clear(answer);
	answer->status = status;
	answer->cache = SC_DS_CACHE_NO_STORE;
	return sc_bytes_puts(&answer->type, "application/json") < 0
		       ? sc_err_nomem(err, "cannot answer")
		       : 0;
}

static int show(struct ask *ask, int status, struct sc_err *err)
{
	int rc = begin_json(ask, status, err);

	return rc < 0 ? rc
		      : sc_ds_sub_view(ask->work->txn, ask->work->ds->keys, ask->request->base,
				       &ask->row.sub, &ask->answer->body, err);
}

/* 1 = it is there; a lease that is over has ended. */
static int find(struct ask *ask, struct sc_err *err)
{
	struct sc_ds_sub_row *row = &ask->row;
	int rc = sc_ds_sub_find(ask->work->txn, ask->request->id, row, err);

	if (rc <= 0)
		return rc;
	if (!sc_ds_sub_lapse(&row->sub, ask->now_us))
		return 1;
	ask->work->leases_over++;
	rc = sc_ds_sub_try_wake(ask->work, row, sc_span("", 0), ask->now_us, err);
	if (rc >= 0)
		rc = sc_ds_sub_store(ask->work, row, err);
	return rc < 0 ? rc : 1;
}

static int must_find(struct ask *ask, struct sc_err *err)
{
	int rc = find(ask, err);

	return rc == 0 ? refuse(ask, SC_DS_SUB_NOT_FOUND, "there is no such subscription") : rc;
}

static int create(struct ask *ask, struct sc_err *err)
{
	const struct sc_ds_sub_request *r = ask->request;
	struct sc_ds_work *work = ask->work;
	struct sc_ds_sub *sub = &ask->row.sub;
	int rc;

	if (sc_kv_count(work->txn, SC_DS_SUBS) >= work->ds->set.subs_max)
		return refuse(ask, SC_DS_SUB_INVALID_REQUEST, "there are too many subscriptions");
	*sub = r->asked;
	sub->id = r->id;
	sub->prefix = r->prefix;
	sub->base = r->base;
	sub->created_us = ask->now_us;
	sub->lease_us = sub->attempt_us = INT64_MAX;
	rc = sc_ds_next_sid(work, &sub->number, err);
	if (rc == 0)
		rc = sc_ds_sub_link_first(work, &ask->row, r, err);
	if (rc == 0)
		return refuse(ask, SC_DS_SUB_INVALID_REQUEST,
			      "it would be linked to too many streams");
	if (rc == 1)
		rc = sc_ds_sub_insert(work, &ask->row, err);
	return rc < 0 ? rc : show(ask, 201, err);
}

static int put(struct ask *ask, struct sc_err *err)
{
	int rc = find(ask, err);

	if (rc == 0)
		return create(ask, err);
	if (rc < 0)
		return rc;
	if (memcmp(ask->row.sub.hash, ask->request->asked.hash, SC_DS_SUB_HASH) != 0)
		return refuse(ask, SC_DS_SUB_EXISTS,
			      "there is one of this id, with another configuration");
	return show(ask, 200, err);
}

static int delete (struct ask *ask, struct sc_err *err)
{
	int rc = sc_ds_sub_find(ask->work->txn, ask->request->id, &ask->row, err);

	ask->answer->status = 204;
	return rc <= 0 ? rc : sc_ds_sub_erase(ask->work, &ask->row, err);
}

static int link_streams(struct ask *ask, struct sc_err *err)
{
	const struct sc_ds_sub_request *r = ask->request;
	struct sc_ds_sub *sub = &ask->row.sub;
	int rc = must_find(ask, err);

	if (rc <= 0)
		return rc;
	for (size_t i = 0; sub->wake_stream.data && i < r->stream_count; i++)
		if (r->streams[i].len == sub->wake_stream.len &&
		    memcmp(r->streams[i].data, sub->wake_stream.data, sub->wake_stream.len) == 0)
			return refuse(ask, SC_DS_SUB_INVALID_REQUEST,
				      "streams holds the wake stream");
	rc = sc_ds_sub_link_names(ask->work, &ask->row, r, err);
	if (rc == 0)
		return refuse(ask, SC_DS_SUB_INVALID_REQUEST,
			      "it would be linked to too many streams");
	ask->answer->status = 204;
	return rc < 0 ? rc : sc_ds_sub_store(ask->work, &ask->row, err);
}

static int unlink_stream(struct ask *ask, struct sc_err *err)
{
	int rc = must_find(ask, err);

	if (rc <= 0)
		return rc;
	rc = sc_ds_sub_unlink(ask->work, &ask->row, ask->request->streams[0], err);
	ask->answer->status = 204;
	return rc < 0 ? rc : sc_ds_sub_store(ask->work, &ask->row, err);
}

/* -- workers -- */

static int must_be(struct ask *ask, enum sc_ds_sub_type type)
{
	if (ask->row.sub.type == type)
		return 1;
	return refuse(ask, SC_DS_SUB_INVALID_REQUEST,
		      type == SC_DS_WEBHOOK ? "the subscription is not of a webhook"
					    : "the subscription is not pull-wake");
}

static int put_claim(struct ask *ask, struct sc_err *err)
{
	struct sc_bytes *out = &ask->answer->body;
	struct sc_ds_sub *sub = &ask->row.sub;
	size_t pending;
	int rc = sc_bytes_putf(out, "{\"wake_id\":\"%s\",\"generation\":%llu,\"token\":\"",
			       sub->wake_id, (unsigned long long)sub->generation);

	if (rc == 0)
		rc = sc_ds_token_put(ask->work->ds->keys, sub->id, sub->generation, ask->now_us,
				     out, err);
	if (rc == 0)
		rc = sc_bytes_puts(out, "\",\"streams\":[");
	if (rc == 0)
		rc = sc_ds_sub_view_streams(ask->work->txn, ask->work, sub, false, out, &pending,
					    err);
	if (rc == 0)
		rc = sc_bytes_putf(out, "],\"lease_ttl_ms\":%llu}\n",
				   (unsigned long long)sub->lease_ms);
	return rc == SC_E_NOMEM ? sc_err_nomem(err, "cannot answer") : rc;
}

static int claim(struct ask *ask, struct sc_err *err)
{
	struct sc_ds_sub *sub = &ask->row.sub;
	int rc = must_find(ask, err);

	if (rc == 1)
		rc = must_be(ask, SC_DS_PULL_WAKE);
	if (rc <= 0)
		return rc;
	if (sub->phase == SC_DS_SUB_HELD) {
		sc_ds_sub_refuse_claimed(ask->answer, sub);
		return 0;
	}
	rc = sc_ds_sub_has_pending(ask->work->txn, sub->number, err);
	if (rc == 0) {
		/* what it was woken for has gone: the next append wakes it again */
		sc_ds_sub_release(sub);
		rc = sc_ds_sub_store(ask->work, &ask->row, err);
		return rc < 0 ? rc : refuse(ask, SC_DS_SUB_NO_WORK, "nothing is pending");
	}
	if (rc == 1)
		rc = sc_ds_sub_try_wake(ask->work, &ask->row, sc_span("", 0), ask->now_us, err);
	if (rc < 0)
		return rc;
	sc_ds_sub_hold(sub, ask->request->worker, ask->now_us);
	rc = sc_ds_sub_store(ask->work, &ask->row, err);
	if (rc == 0)
		rc = begin_json(ask, 200, err);
	return rc < 0 ? rc : put_claim(ask, err);
}

/* 1 = the request is of the wake that runs. */
static int must_hold(struct ask *ask)
{
	const struct sc_ds_sub_request *r = ask->request;
	const struct sc_ds_sub *sub = &ask->row.sub;
	uint64_t generation = 0;

	switch (sc_ds_token_check(ask->work->ds->keys, sub->id, r->token, ask->now_us,
				  &generation)) {
	case SC_DS_TOKEN_INVALID:
		return refuse(ask, SC_DS_SUB_TOKEN_INVALID,
			      "the token is none of this subscription");
	case SC_DS_TOKEN_EXPIRED:
		return refuse(ask, SC_DS_SUB_TOKEN_EXPIRED, "the token has expired");
	case SC_DS_TOKEN_GOOD:
		break;
	}
	if (generation != sub->generation || !r->has_generation ||
	    !sc_ds_sub_current(sub, r->generation, r->wake_id))
		return refuse(ask, SC_DS_SUB_FENCED, "the wake is over");
	return 1;
}

/* One ack, checked or (APPLY) done. 1 = it is good. */
static int take_ack(struct ask *ask, const struct sc_ds_sub_ack *ack, bool apply,
		    struct sc_err *err)
{
	struct sc_ds_work *work = ask->work;
	uint64_t number = ask->row.sub.number, tail, position = 0;
	struct sc_ds_key room;
	struct sc_span path = sc_ds_sub_path(ask->row.sub.prefix, ack->stream, &room);
	struct sc_ds_stream *stream = NULL;
	struct sc_ds_entry *entry = NULL;
	struct sc_ds_link link;
	int rc = ack->stream.len ? sc_ds_link_load(work->txn, number, path, &link, err) : 0;

	if (rc <= 0)
		return rc < 0 ? rc : refuse(ask, SC_DS_SUB_BAD_OFFSET, "a stream has no link here");
	rc = sc_ds_work_path(work, path, &entry, err);
	if (rc < 0)
		return rc;
	if (entry->exists && !entry->stream.gone)
		stream = &entry->stream;
	tail = stream ? stream->tail : 0;
	if (apply) {
		if (!sc_ds_link_may_ack(&link, tail, ack->offset, &position))
			return 1; /* another ack of the same stream went further */
		sc_ds_link_ack(&link, position);
		rc = sc_ds_link_store(work, number, &link, err);
		if (rc == 0)
			rc = sc_ds_pending_mark(work, number, path, sc_ds_link_pending(&link, tail),
						err);
		return rc < 0 ? rc : 1;
	}
	if (!sc_ds_link_may_ack(&link, tail, ack->offset, &position))
		return refuse(ask, SC_DS_SUB_BAD_OFFSET,
			      "an offset goes back, or is behind the end of its stream");
	if (!stream || position == link.acked || position == tail || position < stream->first)
		return 1;
	rc = sc_ds_work_runs(work, err);
	if (rc == 0)
		rc = sc_ds_runs_boundary(work->txn, stream, position, err);
	return rc == 0 ? refuse(ask, SC_DS_SUB_BAD_OFFSET, "an offset is inside a message") : rc;
}

static int take_acks(struct ask *ask, struct sc_err *err)
{
	int rc = 1;

	for (int apply = 0; apply < 2; apply++)
		for (size_t i = 0; rc == 1 && i < ask->request->ack_count; i++)
			rc = take_ack(ask, &ask->request->acks[i], apply, err);
	return rc;
}

/* The wake is over: *ret_next: and another begins. */
static int release(struct ask *ask, bool *ret_next, struct sc_err *err)
{
	int rc;

	sc_ds_sub_release(&ask->row.sub);
	rc = sc_ds_sub_try_wake(ask->work, &ask->row, sc_span("", 0), ask->now_us, err);
	*ret_next = rc == 1;
	return rc < 0 ? rc : sc_ds_sub_store(ask->work, &ask->row, err);
}

static int answer_worker(struct ask *ask, enum sc_ds_sub_type type, struct sc_err *err)
{
	bool next = false;
	int rc = must_find(ask, err);

	if (rc == 1)
		rc = must_be(ask, type);
	if (rc == 1)
		rc = must_hold(ask);
	if (rc == 1 && ask->request->op != SC_DS_SUB_RELEASE)
		rc = take_acks(ask, err);
	if (rc <= 0)
		return rc;
	if (ask->request->op == SC_DS_SUB_RELEASE) {
		rc = release(ask, &next, err);
		ask->answer->status = 204;
		return rc;
	}
	sc_ds_sub_extend(&ask->row.sub, ask->now_us);
	rc = ask->request->done ? release(ask, &next, err)
				: sc_ds_sub_store(ask->work, &ask->row, err);
	if (rc == 0)
		rc = begin_json(ask, 200, err);
	if (rc == 0 && sc_bytes_putf(&ask->answer->body, "{\"ok\":true,\"next_wake\":%s}\n",
				     next ? "true" : "false") < 0)
		rc = sc_err_nomem(err, "cannot answer");
	return rc;
}

/* What became of a delivery. Of one that is not of the wake that runs nothing is said. */
static int take_outcome(struct ask *ask, struct sc_err *err)
{
	const struct sc_ds_sub_request *r = ask->request;
	struct sc_ds_sub *sub = &ask->row.sub;
	bool next;
	uint64_t jitter;
	int rc = sc_ds_sub_load(ask->work->txn, r->number, &ask->row, err);

	ask->answer->status = 204;
	if (r->outcome < SC_DS_OUTCOME_IDLE)
		ask->work->hooks[r->outcome]++;
	if (rc <= 0 || !sc_ds_sub_current(sub, r->generation, r->wake_id))
		return rc < 0 ? rc : 0;
	switch (r->outcome) {
	case SC_DS_OUTCOME_FAILED:
		sc_random(&jitter, sizeof(jitter));
		sc_ds_sub_failed(sub, jitter, ask->now_us);
		break;
	case SC_DS_OUTCOME_TAKEN:
		if (sub->phase == SC_DS_SUB_WOKEN)
			sc_ds_sub_hold(sub, sc_span(NULL, 0), ask->now_us);
		break;
	case SC_DS_OUTCOME_DONE:
		rc = sc_ds_sub_ack_told(ask->work, &ask->row, err);
		return rc < 0 ? rc : release(ask, &next, err);
	case SC_DS_OUTCOME_IDLE:
		return release(ask, &next, err);
	}
	return sc_ds_sub_store(ask->work, &ask->row, err);
}

static int decide(struct ask *ask, struct sc_err *err)
{
	switch (ask->request->op) {
	case SC_DS_SUB_PUT:
		return put(ask, err);
	case SC_DS_SUB_DELETE:
		return delete (ask, err);
	case SC_DS_SUB_LINK:
		return link_streams(ask, err);
	case SC_DS_SUB_UNLINK:
		return unlink_stream(ask, err);
	case SC_DS_SUB_CLAIM:
		return claim(ask, err);
	case SC_DS_SUB_CALLBACK:
		return answer_worker(ask, SC_DS_WEBHOOK, err);
	case SC_DS_SUB_ACK:
	case SC_DS_SUB_RELEASE:
		return answer_worker(ask, SC_DS_PULL_WAKE, err);
	case SC_DS_SUB_OUTCOME:
		return take_outcome(ask, err);
	case SC_DS_SUB_GET:
		break;
	}
	return refuse(ask, SC_DS_SUB_INVALID_REQUEST, "this is not a write");
}

static int work_on(struct sc_ds_call *call, struct sc_ds_work *work, struct sc_err *err)
{
	struct ask ask = { .work = work,
			   .request = call->asked,
			   .answer = &call->answer,
			   .now_us = sc_wall_us() };
	/* what was appended before it, in this transaction, is known to it */
	int rc = sc_ds_subs_hear(work, err);

	sc_ds_sub_row_init(&ask.row);
	/* what changes or removes a row may do so on a full disk */
	if (rc == 0 && (ask.request->op == SC_DS_SUB_PUT || ask.request->op == SC_DS_SUB_LINK))
		rc = sc_ds_work_claim(work, ask.request->stream_count * LINK_BYTES, err);
	if (rc == 0)
		rc = decide(&ask, err);
	sc_ds_sub_row_done(&ask.row);
	return rc < 0 ? rc : 0;
}

void sc_ds_subs_call(struct sc_ds_call *call, const struct sc_ds_sub_request *request)
{
	call->op = SC_DS_OP_WORK;
	call->work = work_on;
	call->asked = request;
	call->request.path = SC_SPAN("");
	call->request.body = SC_SPAN("");
}
