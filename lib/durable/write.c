/* write.c: PUT, POST, DELETE, trim and seal, inside the writer's transaction. */
#include <string.h>

#include "base/clock.h"
#include "durable/engine_internal.h"

static int64_t now_of(const struct sc_ds_call *call)
{
	return call->request.now_us ? call->request.now_us : sc_wall_us();
}

static const struct sc_ds_presplit *split_of(const struct sc_ds_call *call)
{
	return call->has_split ? &call->split : NULL;
}

int sc_ds_index(struct sc_ds_work *work, struct sc_ds_entry *entry, int64_t at_us,
		struct sc_err *err)
{
	struct sc_ds_stream *stream = &entry->stream;
	struct sc_ds_key key;
	int rc;

	if (stream->indexed_us == at_us)
		return 0;
	if (stream->indexed_us != INT64_MAX) {
		sc_ds_key2(&key, sc_ds_time_key(stream->indexed_us), stream->sid);
		rc = sc_kv_del(work->txn, SC_DS_EXPIRY, sc_ds_key_span(&key), err);
		if (rc < 0)
			return rc;
	}
	stream->indexed_us = at_us;
	entry->dirty = true;
	if (at_us == INT64_MAX)
		return 0;
	if (at_us < work->ds->due_us)
		work->ds->due_us = at_us;
	sc_ds_key2(&key, sc_ds_time_key(at_us), stream->sid);
	return sc_kv_put(work->txn, SC_DS_EXPIRY, sc_ds_key_span(&key), sc_span("", 0), err);
}

int sc_ds_mark(struct sc_ds_work *work, uint64_t sid, char what, struct sc_err *err)
{
	struct sc_ds_key key;

	sc_ds_key1(&key, sid);
	work->ds->backlog = true;
	if (work->ds->walk.sid == sid)
		work->ds->walk.again = true;
	return sc_kv_put(work->txn, SC_DS_DELETES, sc_ds_key_span(&key), sc_span(&what, 1), err);
}

/* The rows of one stream that nobody refers to, but for its data, which goes in the background. */
static int erase(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	struct sc_ds_stream *stream = &entry->stream;
	struct sc_ds_key key;
	int rc = sc_ds_index(work, entry, INT64_MAX, err);

	if (rc == 0)
		rc = sc_kv_del(work->txn, SC_DS_PATHS,
			       sc_span(entry->path.data + 1, entry->path.len - 1), err);
	sc_ds_key1(&key, stream->sid);
	if (rc >= 0)
		rc = sc_kv_del(work->txn, SC_DS_STREAMS, sc_ds_key_span(&key), err);
	if (rc >= 0)
		rc = sc_ds_mark(work, stream->sid, 'D', err);
	if (rc >= 0 && !stream->gone)
		rc = sc_ds_work_tell(work, SC_DS_REMOVED, entry, err);
	if (rc >= 0 && stream->source_sid) {
		sc_ds_key2(&key, stream->source_sid, stream->sid);
		rc = sc_kv_del(work->txn, SC_DS_FORKS, sc_ds_key_span(&key), err);
	}
	entry->exists = entry->dirty = false;
	sc_bytes_clear(&entry->run);
	return rc < 0 ? rc : 0;
}

int sc_ds_purge(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	int rc = 0;

	while (rc == 0 && entry) {
		uint64_t source = entry->stream.source_sid, sid = entry->stream.sid;
		struct sc_ds_entry *up = NULL;

		rc = erase(work, entry, err);
		if (rc == 0)
			sc_ds_access_stored(work->ds, sid, INT64_MAX);
		if (rc == 0 && source)
			rc = sc_ds_work_sid(work, source, &up, err);
		entry = NULL;
		if (rc < 0 || !up)
			continue;
		if (up->stream.forks)
			up->stream.forks--;
		up->dirty = true;
		if (up->stream.gone && !up->stream.forks)
			entry = up;
		else if (up->stream.first)
			rc = sc_ds_mark(work, source, 'T', err); /* what was trimmed may go now */
	}
	return rc;
}

int sc_ds_remove(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_err *err)
{
	int rc;

	if (!entry->stream.forks)
		return sc_ds_purge(work, entry, err);
	rc = sc_ds_work_tell(work, SC_DS_REMOVED, entry, err);
	if (rc == 0)
		rc = sc_ds_index(work, entry, INT64_MAX, err);
	entry->stream.gone = true;
	entry->dirty = true;
	sc_ds_access_stored(work->ds, entry->stream.sid, INT64_MAX);
	return rc;
}

int sc_ds_next_sid(struct sc_ds_work *work, uint64_t *ret_sid, struct sc_err *err)
{
	struct sc_span value;

	if (!work->next_sid) {
		int rc = sc_kv_get(work->txn, SC_DS_META, SC_SPAN("sid"), &value, err);

		if (rc < 0)
			return rc;
		work->next_sid = rc == 1 && value.len == 8 ? sc_ds_get_be64(value.data) : 1;
	}
	*ret_sid = work->next_sid++;
	work->sid_moved = true;
	return 0;
}

struct fork {
	struct sc_ds_entry *source; /* NULL: no fork */
	uint64_t at;
	struct sc_span prefix; /* in ds->prefix */
};

/* 1 = the fork can be made. */
static int find_fork(struct sc_ds_work *work, const struct sc_ds_create *create, int64_t now_us,
		     struct fork *ret_fork, struct sc_ds_answer *answer, struct sc_err *err)
{
	struct sc_bytes *copy = &work->ds->prefix;
	struct sc_ds_entry *source = NULL;
	struct sc_ds_stream *stream = NULL;
	struct sc_ds_point point;
	struct sc_span prefix;
	uint64_t at;
	int rc = 0;

	if (sc_ds_path_valid(create->asked.forked_from))
		rc = sc_ds_work_path(work, create->asked.forked_from, &source, err);
	if (rc < 0)
		return rc;
	if (source && source->exists)
		stream = &source->stream;
	if (!sc_ds_create_source(create, stream, now_us, &at, answer))
		return 0;
	rc = sc_ds_work_runs(work, err);
	if (rc == 0)
		rc = sc_ds_runs_point(work->txn, stream, at, sc_ds_type_is_json(stream->type),
				      create->asked.sub_offset, &point, err);
	if (rc < 0)
		return rc;
	if (!sc_ds_create_point(create, stream, at, &point, &ret_fork->at, &prefix, answer))
		return 0;
	/* it lies in the store's page, which the next write may move */
	sc_bytes_clear(copy);
	if (sc_bytes_put(copy, prefix.data, prefix.len) < 0)
		return sc_err_nomem(err, "cannot make a fork");
	ret_fork->prefix = sc_span(copy->data, prefix.len);
	ret_fork->source = source;
	return 1;
}

/* The rows of a new stream; its spans move into the entry's own memory. */
static int insert(struct sc_ds_work *work, struct sc_ds_entry *entry, struct sc_ds_stream *made,
		  struct sc_err *err)
{
	struct sc_ds_key key;
	char sid[8];
	int rc = sc_ds_next_sid(work, &made->sid, err);

	if (rc < 0)
		return rc;
	made->path = sc_span(entry->path.data, entry->path.len);
	made->indexed_us = INT64_MAX;
	sc_bytes_clear(&entry->record);
	if (sc_ds_stream_encode(made, &entry->record) < 0)
		return sc_err_nomem(err, "cannot create a stream");
	rc = sc_ds_stream_decode(sc_span(entry->record.data, entry->record.len), &entry->stream,
				 err);
	if (rc < 0)
		return rc;
	entry->exists = entry->dirty = true;
	entry->told = 0;
	entry->stored_us = made->accessed_us;
	sc_ds_put_be64(sid, made->sid);
	rc = sc_kv_put(work->txn, SC_DS_PATHS, sc_span(entry->path.data + 1, entry->path.len - 1),
		       sc_span(sid, 8), err);
	sc_ds_key1(&key, made->sid);
	if (rc == 0)
		rc = sc_kv_put(work->txn, SC_DS_STREAMS, sc_ds_key_span(&key),
			       sc_span(entry->record.data, entry->record.len), err);
	if (rc == 0)
		rc = sc_ds_index(work, entry, sc_ds_stream_deadline(&entry->stream), err);
	return rc;
}

static int refer(struct sc_ds_work *work, const struct fork *fork, struct sc_ds_entry *entry,
		 struct sc_err *err)
{
	struct sc_ds_key key;

	fork->source->stream.forks++;
	fork->source->dirty = true;
	sc_ds_key2(&key, fork->source->stream.sid, entry->stream.sid);
	return sc_kv_put(work->txn, SC_DS_FORKS, sc_ds_key_span(&key), sc_span("", 0), err);
}

static int fill(struct sc_ds_work *work, struct sc_ds_entry *entry, const struct fork *fork,
		const struct sc_ds_messages *messages, struct sc_err *err)
{
	struct sc_ds_messages prefix = { .bytes = fork->prefix, .count = 1 };
	uint64_t *tail = &entry->stream.tail;
	int rc = 0;

	if (fork->prefix.len) {
		prefix.size = SC_DS_FRAME_HEAD + fork->prefix.len;
		rc = sc_ds_work_append(work, entry, *tail, &prefix, err);
		*tail += prefix.size;
	}
	if (rc == 0)
		rc = sc_ds_work_append(work, entry, *tail, messages, err);
	*tail += messages->size;
	return rc;
}

/* What is at the path of a PUT; an expired stream that nobody forks makes room. 1 = go on. */
static int find_target(struct sc_ds_work *work, struct sc_span path,
		       const struct sc_ds_create *plan, int64_t now_us,
		       struct sc_ds_entry **ret_entry, struct sc_ds_answer *answer,
		       struct sc_err *err)
{
	struct sc_span group = sc_ds_path_group(path), value;
	struct sc_ds_entry *entry;
	int rc = sc_ds_work_path(work, path, &entry, err);

	if (rc == 0 && entry->exists && !entry->stream.forks &&
	    sc_ds_stream_expired(&entry->stream, now_us)) {
		rc = sc_ds_purge(work, entry, err);
		work->expired++;
	}
	if (rc == 0 && group.len > 1)
		rc = sc_kv_get(work->txn, SC_DS_SEALS, sc_span(group.data + 1, group.len - 1),
			       &value, err);
	if (rc < 0)
		return rc;
	*ret_entry = entry;
	return sc_ds_create_target(plan, entry->exists ? &entry->stream : NULL, rc == 1, now_us,
				   answer);
}

static int create(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	const struct sc_ds_request *request = &call->request;
	struct sc_ds_answer *answer = &call->answer;
	int64_t now_us = now_of(call);
	struct sc_ds_messages messages;
	struct sc_ds_entry *entry;
	struct sc_ds_create plan;
	struct sc_ds_stream made;
	struct fork fork = { .at = 0 };
	int rc;

	if (!sc_ds_create_parse(request, &plan, answer))
		return 0;
	rc = find_target(work, request->path, &plan, now_us, &entry, answer, err);
	if (rc <= 0)
		return rc;
	if (plan.asked.forked_from.data) {
		rc = find_fork(work, &plan, now_us, &fork, answer, err);
		if (rc <= 0)
			return rc;
	}
	sc_ds_create_make(&plan, fork.source ? &fork.source->stream : NULL, fork.at, now_us, &made);
	if (!sc_ds_create_body(request->body, made.type, split_of(call), &messages, answer))
		return 0;
	rc = sc_ds_work_claim(work, messages.size + fork.prefix.len, err);
	if (rc == 0)
		rc = insert(work, entry, &made, err);
	if (rc == 0 && fork.source)
		rc = refer(work, &fork, entry, err);
	if (rc == 0)
		rc = fill(work, entry, &fork, &messages, err);
	if (rc == 0)
		rc = sc_ds_work_tell(work, SC_DS_CREATED, entry, err);
	if (rc == 0 && sc_ds_create_answer(&entry->stream, true, answer) < 0)
		rc = sc_err_nomem(err, "cannot create a stream");
	return rc;
}

static int get_producer(struct sc_ds_work *work, const struct sc_ds_entry *entry, struct sc_span id,
			struct sc_ds_key *ret_key, struct sc_ds_producer *ret_producer,
			struct sc_err *err)
{
	struct sc_span record;
	int rc = sc_ds_key_producer(ret_key, entry->stream.sid, id, err);

	if (rc == 0)
		rc = sc_kv_get(work->txn, SC_DS_PRODUCERS, sc_ds_key_span(ret_key), &record, err);
	if (rc == 1 && !sc_ds_producer_decode(record, ret_producer))
		rc = sc_ds_damaged(err, "a producer's record is damaged", entry->stream.sid);
	return rc;
}

static int store(struct sc_ds_work *work, struct sc_ds_entry *entry,
		 const struct sc_ds_append *append, const struct sc_ds_key *producer_key,
		 struct sc_err *err)
{
	struct sc_ds_stream *stream = &entry->stream;
	char record[SC_DS_PRODUCER_RECORD];
	int rc = sc_ds_work_claim(work, append->messages.size, err);

	if (rc == 0)
		rc = sc_ds_work_append(work, entry, stream->tail - append->messages.size,
				       &append->messages, err);
	if (rc == 0 && append->has_producer) {
		sc_ds_producer_encode(&append->producer, record);
		rc = sc_kv_put(work->txn, SC_DS_PRODUCERS, sc_ds_key_span(producer_key),
			       sc_span(record, sizeof(record)), err);
	}
	entry->dirty = true;
	work->appended += append->messages.count > 0;
	work->closed += stream->closed;
	work->append_bytes += append->messages.size - SC_DS_FRAME_HEAD * append->messages.count;
	return rc < 0 ? rc : sc_ds_work_tell(work, SC_DS_CHANGED, entry, err);
}

static int append(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	int64_t now_us = now_of(call);
	struct sc_ds_producer known;
	struct sc_ds_append append;
	struct sc_ds_entry *entry = NULL;
	struct sc_ds_key key;
	struct sc_span id;
	int rc = 0;

	if (sc_ds_path_valid(call->request.path))
		rc = sc_ds_work_path(work, call->request.path, &entry, err);
	if (rc == 0 && entry && entry->exists && sc_ds_append_producer(&call->request, &id))
		rc = get_producer(work, entry, id, &key, &known, err);
	if (rc < 0)
		return rc;
	sc_ds_append_decide(&call->request, entry && entry->exists ? &entry->stream : NULL,
			    rc == 1 ? &known : NULL, split_of(call), now_us, &append,
			    &call->answer);
	if (!append.access)
		return 0;
	if (entry->stream.accessed_us < now_us)
		entry->stream.accessed_us = now_us;
	if (append.store)
		return store(work, entry, &append, &key, err);
	rc = sc_ds_access_note(work->ds, &entry->stream, entry->stored_us, now_us, err);
	if (rc != SC_E_BUSY)
		return rc;
	entry->dirty = true; /* stored now, then */
	return 0;
}

/* 1 = the stream that a DELETE or a trim is about is there. */
static int find_live(struct sc_ds_work *work, struct sc_ds_call *call,
		     struct sc_ds_entry **ret_entry, struct sc_err *err)
{
	struct sc_ds_entry *entry = NULL;
	int rc = 0;

	if (sc_ds_path_valid(call->request.path))
		rc = sc_ds_work_path(work, call->request.path, &entry, err);
	if (rc < 0)
		return rc;
	*ret_entry = entry;
	return sc_ds_delete_decide(entry && entry->exists ? &entry->stream : NULL, now_of(call),
				   &call->answer);
}

static int delete (struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	struct sc_ds_entry *entry;
	int rc = find_live(work, call, &entry, err);

	return rc == 1 ? sc_ds_remove(work, entry, err) : rc;
}

static int trim(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	struct sc_ds_entry *entry;
	int rc = find_live(work, call, &entry, err);

	if (rc <= 0)
		return rc;
	if (call->position > entry->stream.tail) {
		sc_ds_answer_error(&call->answer, 400,
				   "the offset is behind the end of the stream");
		call->answer.has_next = true;
		call->answer.next = entry->stream.tail;
		return 0;
	}
	if (call->position <= entry->stream.first)
		return 0;
	rc = sc_ds_work_runs(work, err);
	if (rc == 0)
		rc = sc_ds_runs_boundary(work->txn, &entry->stream, call->position, err);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		sc_ds_answer_error(&call->answer, 400, "the offset is inside a message");
		return 0;
	}
	work->trimmed += call->position - entry->stream.first;
	entry->stream.first = call->position;
	entry->dirty = true;
	return sc_ds_mark(work, entry->stream.sid, 'T', err);
}

static int seal(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	struct sc_span group = call->request.path;
	int rc;

	if (!sc_ds_path_valid(group) || sc_ds_path_group(group).len != group.len) {
		sc_ds_answer_error(&call->answer, 400, "this is not a group of streams");
		return 0;
	}
	call->answer.status = 204;
	rc = sc_ds_work_claim(work, 0, err);
	if (rc == 0)
		rc = sc_kv_put(work->txn, SC_DS_SEALS, sc_span(group.data + 1, group.len - 1),
			       sc_span("", 0), err);
	return rc;
}

int sc_ds_write(struct sc_ds_work *work, struct sc_ds_call *call, struct sc_err *err)
{
	sc_ds_answer_clear(&call->answer);
	switch (call->op) {
	case SC_DS_OP_TRIM:
		return trim(work, call, err);
	case SC_DS_OP_SEAL:
		return seal(work, call, err);
	case SC_DS_OP_WORK:
		return call->work(call, work, err);
	case SC_DS_OP_REQUEST:
		break;
	}
	switch (call->request.method) {
	case SC_DS_PUT:
		return create(work, call, err);
	case SC_DS_POST:
		return append(work, call, err);
	case SC_DS_DELETE:
		return delete (work, call, err);
	case SC_DS_HEAD:
	case SC_DS_GET:
		break;
	}
	sc_ds_answer_error(&call->answer, 405, "this is not a write");
	return 0;
}
