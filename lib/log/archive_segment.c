/*
 * archive_segment.c: a segment in the archive, read by ranges.
 *
 * One request opens it: the end of the object, its size and its ETag, which every later range is
 * held against. The end is kept: in a small segment it is all there is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "log/archive_internal.h"

#define TRIED "cannot read segment"
#define AHEAD (1u << 20)

struct sc_archive_segment {
	struct sc_store *store;
	struct sc_segment *inner;
	char *tail;
	size_t tail_len;
	uint64_t size;
	char key[SC_ARCHIVE_KEY];
	char etag[SC_STORE_ETAG_SIZE];
	char name[1024]; /* for messages */
};

static int read_at(const struct sc_segment_source *source, uint64_t at, size_t len, void *ret_data,
		   struct sc_err *err)
{
	const struct sc_archive_segment *s = source->arg;
	uint64_t tail_at = s->size - s->tail_len;
	size_t front = len, got = 0;
	int rc;

	if (at + len > tail_at) {
		front = at < tail_at ? (size_t)(tail_at - at) : 0;
		memcpy((char *)ret_data + front, s->tail + (at + front - tail_at), len - front);
	}
	if (front == 0)
		return 0;
	rc = sc_store_range(s->store, s->key, s->etag[0] ? s->etag : NULL, at, front, ret_data,
			    &got, NULL, err);
	if (rc < 0 || got == front)
		return rc;
	sc_err_set(err, SC_E_DATA, TRIED, "it became shorter while it was read");
	sc_err_on(err, "file", s->name);
	return SC_E_DATA;
}

static int check(const struct sc_archive *archive, const struct sc_archive_segment *s,
		 const struct sc_archive_item *item, struct sc_err *err)
{
	const struct sc_segment_info *info = sc_segment_info(s->inner);
	const char *what = NULL;

	if (strcmp(info->stream_id, archive->stream_id) != 0)
		what = "it belongs to another stream than the archive's log.json";
	else if (info->first != item->first || info->last != item->last)
		what = "it holds other rows than its name says";
	if (!what)
		return 0;
	return sc_err_set(err, SC_E_DATA, TRIED, "%s", what);
}

int sc_archive_segment_open(struct sc_archive *archive, struct sc_archive_item *item,
			    struct sc_archive_segment **ret_segment, struct sc_err *err)
{
	struct sc_archive_segment *s = sc_calloc(1, sizeof(*s));
	struct sc_segment_source source = {
		.read_at = read_at, .arg = s, .fd = -1, .ahead = AHEAD
	};
	struct sc_store_info info;
	int rc = 0;

	if (!s)
		return sc_err_nomem(err, TRIED);
	s->store = archive->store;
	sc_archive_key(archive, item, s->key);
	snprintf(s->name, sizeof(s->name), "%s/%s", sc_store_url(archive->store), s->key);
	s->tail = sc_malloc(SC_SEGMENT_TAIL);
	if (!s->tail)
		rc = sc_err_nomem(err, TRIED);
	if (rc == 0)
		rc = sc_store_tail(archive->store, s->key, SC_SEGMENT_TAIL, s->tail, &s->tail_len,
				   &info, err);
	if (rc == 0) {
		memcpy(s->etag, info.etag, sizeof(s->etag));
		s->size = source.size = info.size;
		source.name = s->name;
		rc = sc_segment_open(&source, &s->inner, err);
		if (rc == 0)
			rc = check(archive, s, item, err);
		if (rc == SC_E_DATA)
			rc = sc_segment_unreadable(s->name, item->first, item->last, err);
	}
	if (rc < 0) {
		sc_archive_segment_close(s);
		return rc;
	}
	item->first_us = sc_segment_info(s->inner)->first_us;
	item->last_us = sc_segment_info(s->inner)->last_us;
	*ret_segment = s;
	return 0;
}

void sc_archive_segment_close(struct sc_archive_segment *s)
{
	if (!s)
		return;
	sc_segment_close(s->inner);
	free(s->tail);
	free(s);
}

struct sc_segment *sc_archive_segment_inner(struct sc_archive_segment *s)
{
	return s->inner;
}
