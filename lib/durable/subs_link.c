/* subs_link.c: what a subscription is linked to, as it is asked for. */
#include "durable/subs_internal.h"

/* A link by name, or (NAMED false) by pattern, to what is at PATH, at its present tail. */
static int link_path(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span path,
		     bool named, struct sc_err *err)
{
	struct sc_ds_link link;
	int rc = sc_ds_link_load(work->txn, row->sub.number, path, &link, err);

	if (rc < 0)
		return rc;
	if (rc == 0) {
		link = (struct sc_ds_link){ .path = path };
		rc = sc_ds_tail_of(work->txn, work, path, &link.acked, err);
		row->sub.links++;
	}
	link.by_name |= named;
	link.by_pattern |= !named;
	return rc < 0 ? rc : sc_ds_link_store(work, row->sub.number, &link, err);
}

static int link_names(struct sc_ds_work *work, struct sc_ds_sub_row *row,
		      const struct sc_ds_sub_request *request, struct sc_err *err)
{
	struct sc_ds_key room;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < request->stream_count; i++)
		rc = link_path(work, row,
			       sc_ds_sub_path(row->sub.prefix, request->streams[i], &room), true,
			       err);
	return rc;
}

int sc_ds_sub_link_names(struct sc_ds_work *work, struct sc_ds_sub_row *row,
			 const struct sc_ds_sub_request *request, struct sc_err *err)
{
	int rc;

	if (row->sub.links + request->stream_count > work->ds->set.links_max)
		return 0;
	rc = link_names(work, row, request, err);
	return rc < 0 ? rc : 1;
}

struct scan {
	struct sc_ds_work *work;
	struct sc_ds_sub_row *row;
	bool links; /* or only counts */
	uint64_t count;
	struct sc_ds_key own; /* the wake stream */
	size_t own_len;
};

/* One row of paths. */
static int scan_path(struct scan *s, struct sc_span key, struct sc_span sid, struct sc_err *err)
{
	const struct sc_ds_sub *sub = &s->row->sub;
	size_t prefix = sub->prefix.len;
	struct sc_ds_stream stream;
	struct sc_ds_key path;
	int rc;

	path.data[0] = '/';
	memcpy(path.data + 1, key.data, key.len);
	path.len = key.len + 1;
	if (path.len <= prefix || memcmp(path.data, sub->prefix.data, prefix) != 0 ||
	    !sc_ds_glob_match(sub->pattern, sc_span(path.data + prefix, path.len - prefix)) ||
	    !sc_utf8_valid(sc_ds_key_span(&path)) ||
	    (path.len == s->own_len && memcmp(path.data, s->own.data, s->own_len) == 0))
		return 0;
	if (sid.len != 8)
		return sc_ds_damaged(err, "its path has no sid", 0);
	rc = sc_ds_load_sid(s->work->txn, sc_ds_get_be64(sid.data), &stream, err);
	if (rc < 0 || (rc == 1 && stream.gone))
		return rc < 0 ? rc : 0;
	s->count++;
	return s->links ? link_path(s->work, s->row, sc_ds_key_span(&path), false, err) : 0;
}

static int scan_paths(struct scan *s, struct sc_err *err)
{
	const struct sc_ds_sub *sub = &s->row->sub;
	struct sc_span name = sc_ds_glob_literal(sub->pattern, SC_DS_PATH_MAX), key, sid;
	struct sc_kv_cursor *cursor = NULL;
	struct sc_ds_key room;
	struct sc_span front = sc_ds_sub_path(sub->prefix, name, &room);
	int rc = sc_kv_cursor_open(s->work->txn, SC_DS_PATHS, &cursor, err);

	/* paths are stored without their first slash */
	front = sc_span(front.data + 1, front.len ? front.len - 1 : 0);
	if (rc == 0 && front.len)
		rc = sc_kv_cursor_seek(cursor, front, &key, &sid, err);
	else if (rc == 0)
		rc = sc_kv_cursor_move(cursor, SC_KV_FIRST, &key, &sid, err);
	while (rc == 1 && key.len >= front.len && memcmp(key.data, front.data, front.len) == 0 &&
	       s->count <= s->work->ds->set.links_max) {
		rc = key.len < sizeof(room.data) ? scan_path(s, key, sid, err) : 0;
		if (rc >= 0)
			rc = sc_kv_cursor_move(cursor, SC_KV_NEXT, &key, &sid, err);
	}
	sc_kv_cursor_close(cursor);
	return rc < 0 ? rc : 0;
}

int sc_ds_sub_link_first(struct sc_ds_work *work, struct sc_ds_sub_row *row,
			 const struct sc_ds_sub_request *request, struct sc_err *err)
{
	struct scan s = { .work = work, .row = row, .count = request->stream_count };
	int rc = 0;

	if (row->sub.wake_stream.data)
		s.own_len = sc_ds_sub_path(row->sub.prefix, row->sub.wake_stream, &s.own).len;
	/* counted first: a link cannot be taken back */
	if (row->sub.pattern.data)
		rc = scan_paths(&s, err);
	if (rc < 0 || s.count > work->ds->set.links_max)
		return rc < 0 ? rc : 0;
	rc = link_names(work, row, request, err);
	s.links = true;
	s.count = 0;
	if (rc == 0 && row->sub.pattern.data)
		rc = scan_paths(&s, err);
	return rc < 0 ? rc : 1;
}

int sc_ds_sub_unlink(struct sc_ds_work *work, struct sc_ds_sub_row *row, struct sc_span name,
		     struct sc_err *err)
{
	struct sc_ds_key room;
	struct sc_span path = sc_ds_sub_path(row->sub.prefix, name, &room);
	struct sc_ds_link link;
	int rc = sc_ds_link_load(work->txn, row->sub.number, path, &link, err);

	if (rc <= 0 || !link.by_name)
		return rc < 0 ? rc : 0;
	link.by_name = false;
	if (link.by_pattern)
		return sc_ds_link_store(work, row->sub.number, &link, err);
	row->sub.links--;
	return sc_ds_link_delete(work, row->sub.number, path, err);
}
