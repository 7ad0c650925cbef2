/*
 * archive_record.c: whose an archive is, and what its log knows of it.
 *
 * epoch.json in the archive names the one log that may write there; it changes by compare-and-swap
 * only. archive.json in the log says that it is this one, and which offsets it saw there. The name
 * is noted in the log before it goes to the archive, so a log that died between the two knows its
 * own claim again.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "json/scan.h"
#include "log/archive_internal.h"
#include "log/log_internal.h"

#define TRIED "cannot archive"
#define RECORD "archive.json"
#define RECORD_MAX (64u << 20)

/* Between the spans: A's end is B's begin, or they overlap. */
int sc_archive_record_add(struct sc_archive *archive, uint64_t first, uint64_t next,
			  struct sc_err *err)
{
	struct sc_archive_record *r = &archive->record;
	size_t from = 0, to;

	if (r->span_count == r->span_cap) {
		size_t cap = r->span_cap ? 2 * r->span_cap : 16;
		struct sc_archive_span *more = sc_realloc(r->spans, cap * sizeof(*more));

		if (!more)
			return sc_err_nomem(err, TRIED);
		r->spans = more;
		r->span_cap = cap;
	}
	while (from < r->span_count && r->spans[from].next < first)
		from++;
	for (to = from; to < r->span_count && r->spans[to].first <= next; to++) {
		if (r->spans[to].first < first)
			first = r->spans[to].first;
		if (r->spans[to].next > next)
			next = r->spans[to].next;
	}
	memmove(&r->spans[from + 1], &r->spans[to], (r->span_count - to) * sizeof(*r->spans));
	r->spans[from] = (struct sc_archive_span){ first, next };
	r->span_count = r->span_count - (to - from) + 1;
	return 0;
}

bool sc_archive_record_has(const struct sc_archive *archive, uint64_t first, uint64_t next)
{
	const struct sc_archive_record *r = &archive->record;

	for (size_t i = 0; i < r->span_count; i++)
		if (r->spans[i].first <= first && next <= r->spans[i].next)
			return true;
	return false;
}

static int record_refused(const char *path, struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "it is not what sc-seal wrote");
	sc_err_on(err, "file", path);
	sc_err_next(err, "put a good copy of the file back, or remove it and run sc-seal "
			 "--take-over once");
	return SC_E_DATA;
}

static int read_spans(struct sc_archive *archive, const struct sc_json *list, const char *path,
		      struct sc_err *err)
{
	struct sc_json_walk walk, parts;
	struct sc_json one, member;
	struct sc_span key;
	int rc = 0;

	if (list->kind != SC_JSON_ARRAY)
		return record_refused(path, err);
	sc_json_walk_init(&walk, list);
	while (rc == 0 && sc_json_walk_next(&walk, &key, &one)) {
		uint64_t numbers[2];
		size_t n = 0;

		if (one.kind == SC_JSON_ARRAY) {
			sc_json_walk_init(&parts, &one);
			while (n < 2 && sc_json_walk_next(&parts, &key, &member) &&
			       sc_json_u64(&member, &numbers[n]))
				n++;
		}
		if (n != 2 || numbers[0] == 0 || numbers[0] >= numbers[1])
			rc = record_refused(path, err);
		else
			rc = sc_archive_record_add(archive, numbers[0], numbers[1], err);
	}
	return rc;
}

/* Is it about this archive, and this stream? */
static bool record_is_ours(const struct sc_archive *archive, const struct sc_json *root)
{
	char id[40];
	struct sc_json url;
	struct sc_bytes text;
	bool same;

	if (!sc_archive_text(root, "stream_id", id, sizeof(id)) ||
	    strcmp(id, archive->stream_id) != 0 || !sc_json_get(root, "archive", &url) ||
	    url.kind != SC_JSON_STRING)
		return false;
	sc_bytes_init(&text, 1u << 16);
	same = sc_json_unescape(url.text, &text) == 0 &&
	       sc_span_is(sc_span(text.data, text.len), archive->url);
	sc_bytes_done(&text);
	return same;
}

int sc_archive_record_read(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_record *r = &archive->record;
	struct sc_json root, member;
	char path[PATH_MAX];
	struct sc_bytes text;
	int rc;

	sc_log_file(archive->log, path, RECORD);
	sc_bytes_init(&text, RECORD_MAX);
	rc = sc_read_file(path, &text, err);
	if (rc == SC_E_NOLOG) {
		sc_err_clear(err);
		rc = 0; /* it was never archived */
	} else if (rc == 0) {
		if (sc_json_scan(sc_span(text.data, text.len), &root, NULL) < 0 ||
		    root.kind != SC_JSON_OBJECT)
			rc = record_refused(path, err);
		else if (record_is_ours(archive, &root)) {
			if (!sc_archive_text(&root, "owner", r->owner, sizeof(r->owner)) ||
			    !sc_json_get(&root, "epoch", &member) ||
			    !sc_json_u64(&member, &r->epoch) ||
			    !sc_json_get(&root, "held", &member))
				rc = record_refused(path, err);
			else
				rc = read_spans(archive, &member, path, err);
		}
	}
	sc_bytes_done(&text);
	return rc;
}

void sc_archive_record_sweep(struct sc_archive *archive)
{
	char path[PATH_MAX];

	sc_log_file(archive->log, path, RECORD);
	sc_replace_sweep(path);
}

int sc_archive_record_write(struct sc_archive *archive, struct sc_err *err)
{
	const struct sc_archive_record *r = &archive->record;
	char path[PATH_MAX];
	struct sc_bytes text;
	int rc, bad = 0;

	sc_log_file(archive->log, path, RECORD);
	sc_bytes_init(&text, RECORD_MAX);
	bad |= sc_bytes_putf(&text, "{\"format\":%d,\n\"stream_id\":\"%s\",\n\"archive\":",
			     SC_ARCHIVE_FORMAT, archive->stream_id);
	bad |= sc_bytes_put_json(&text, sc_span_str(archive->url));
	bad |= sc_bytes_putf(&text, ",\n\"owner\":\"%s\",\n\"epoch\":%llu,\n\"held\":[", r->owner,
			     (unsigned long long)r->epoch);
	for (size_t i = 0; i < r->span_count; i++)
		bad |= sc_bytes_putf(&text, "%s[%llu,%llu]", i ? "," : "",
				     (unsigned long long)r->spans[i].first,
				     (unsigned long long)r->spans[i].next);
	bad |= sc_bytes_puts(&text, "]}\n");
	rc = bad ? sc_err_nomem(err, TRIED)
		 : sc_replace_file(path, text.data, text.len, 0666, true, err);
	if (rc < 0 && !bad && err && (err->errnum == ENOSPC || err->errnum == EDQUOT))
		sc_err_next(err,
			    "make a little room there, 4 KiB will do: the log has to note whose "
			    "the archive is before it can write there");
	sc_bytes_done(&text);
	return rc;
}

int sc_archive_taken_over(struct sc_archive *archive, const struct sc_archive_epoch *now,
			  struct sc_err *err)
{
	char since[SC_TIME_TEXT];

	sc_time_text(now->since_us, since);
	if (archive->record.owner[0] && now->epoch == archive->record.epoch)
		sc_err_set(err, SC_E_NOAUTH, TRIED,
			   "'%s' was taken over by %s at %s: of several that wanted it at once, "
			   "that one was first",
			   archive->url, now->host, since);
	else if (archive->record.owner[0])
		sc_err_set(
			err, SC_E_NOAUTH, TRIED,
			"'%s' was taken over by %s at %s: its epoch is %llu, this log's was %llu",
			archive->url, now->host, since, (unsigned long long)now->epoch,
			(unsigned long long)archive->record.epoch);
	else
		sc_err_set(err, SC_E_NOAUTH, TRIED,
			   "'%s' is written by another copy of this log, or was before this one "
			   "went to another archive: on %s since %s",
			   archive->url, now->host, since);
	sc_log_err(archive->log, err);
	if (archive->restoring)
		sc_err_next(err,
			    "go on with the log there; if it is lost, remove '%s' and restore anew",
			    archive->log->path);
	else if (archive->record.owner[0])
		sc_err_next(err, "go on with the log there; if it is lost: sc-log restore");
	else
		sc_err_next(err,
			    "go on with that one; if there is none any more: sc-seal --take-over");
	sc_err_field_u64(err, "epoch", now->epoch);
	return SC_E_NOAUTH;
}

int sc_archive_fence(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_epoch now;
	int rc = sc_archive_read_epoch(archive, &now, err);

	if (rc < 0)
		return rc;
	if (strcmp(now.stream_id, archive->stream_id) != 0) {
		sc_err_set(err, SC_E_CONFIG, TRIED,
			   "'%s' holds another stream of that name, %s; this one is %s",
			   archive->url, now.stream_id, archive->stream_id);
		sc_log_err(archive->log, err);
		sc_err_next(err, "give another URL");
		return SC_E_CONFIG;
	}
	if (now.epoch != archive->record.epoch || strcmp(now.owner, archive->record.owner) != 0) {
		archive->lost = true;
		return sc_archive_taken_over(archive, &now, err);
	}
	archive->epoch = now;
	return 0;
}

int sc_archive_explain(struct sc_archive *archive, int rc, struct sc_err *err)
{
	struct sc_err now;

	if (archive->dry || !archive->record.owner[0] ||
	    (rc != SC_E_NOLOG && rc != SC_E_BUSY && rc != SC_E_DATA))
		return rc;
	sc_err_clear(&now);
	if (sc_archive_fence(archive, &now) != SC_E_NOAUTH)
		return rc;
	if (err)
		*err = now;
	return SC_E_NOAUTH;
}

static int epoch_text(const struct sc_archive *archive, const struct sc_archive_epoch *now,
		      struct sc_bytes *text)
{
	char since[SC_TIME_TEXT];
	int bad = 0;

	sc_time_text(now->since_us, since);
	bad |= sc_bytes_putf(text,
			     "{\"format\":%d,\n\"stream_id\":\"%s\",\n\"epoch\":%llu,\n"
			     "\"owner\":\"%s\",\n\"host\":\"%s\",\n",
			     SC_ARCHIVE_FORMAT, archive->stream_id, (unsigned long long)now->epoch,
			     now->owner, now->host);
	bad |= sc_bytes_putf(text, "\"since\":\"%s\",\n\"since_us\":%lld,\n\"floor\":%llu", since,
			     (long long)now->since_us, (unsigned long long)now->floor);
	if (now->named)
		bad |= sc_bytes_putf(text, ",\n\"named\":%llu", (unsigned long long)now->named);
	if (now->lowest)
		bad |= sc_bytes_putf(text, ",\n\"lowest\":%llu", (unsigned long long)now->lowest);
	for (size_t i = 0; i < now->burn_count; i++)
		bad |= sc_bytes_putf(text, "%s[%llu,%llu,%llu,%llu]", i ? "," : ",\n\"burned\":[",
				     (unsigned long long)now->burns[i].epoch,
				     (unsigned long long)now->burns[i].first,
				     (unsigned long long)now->burns[i].next,
				     (unsigned long long)now->burns[i].from);
	bad |= sc_bytes_puts(text, now->burn_count ? "]}\n" : "}\n");
	return bad;
}

int sc_archive_write_epoch(struct sc_archive *archive, const struct sc_archive_epoch *now,
			   struct sc_err *err)
{
	const char *condition = archive->epoch.etag[0] ? archive->epoch.etag : SC_STORE_ABSENT;
	struct sc_store_info info;
	char key[SC_ARCHIVE_KEY];
	struct sc_bytes text;
	int rc;

	sc_archive_name(archive, SC_ARCHIVE_EPOCH, key);
	sc_bytes_init(&text, 64u << 10);
	rc = epoch_text(archive, now, &text) ? sc_err_nomem(err, TRIED)
					     : sc_store_put(archive->store, key, text.data,
							    text.len, condition, &info, err);
	sc_bytes_done(&text);
	if (rc < 0)
		return rc;
	archive->epoch = *now;
	memcpy(archive->epoch.etag, info.etag, sizeof(info.etag));
	return 0;
}

/* Characters that need no escape, whatever the machine is called. */
static void own_host(char ret_host[SC_ARCHIVE_HOST])
{
	if (gethostname(ret_host, SC_ARCHIVE_HOST - 1) < 0)
		snprintf(ret_host, SC_ARCHIVE_HOST, "unknown");
	ret_host[SC_ARCHIVE_HOST - 1] = 0;
	for (char *p = ret_host; *p; p++)
		if (*p <= ' ' || *p >= 127 || *p == '"' || *p == '\\')
			*p = '-';
	if (!ret_host[0])
		snprintf(ret_host, SC_ARCHIVE_HOST, "unknown");
}

void sc_archive_next_epoch(const struct sc_archive *archive, struct sc_archive_epoch *now)
{
	memcpy(now->stream_id, archive->stream_id, sizeof(now->stream_id));
	sc_uuid(now->owner);
	own_host(now->host);
	now->epoch++;
	now->since_us = sc_wall_us();
	if (now->floor == 0)
		now->floor = 1;
	if (now->named == 0 && now->epoch > 1)
		now->named = now->epoch;
}

int sc_archive_take_over(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_archive_record *r = &archive->record;
	struct sc_archive_epoch now = archive->epoch;
	int rc;

	sc_archive_next_epoch(archive, &now);
	memcpy(r->owner, now.owner, sizeof(r->owner));
	r->epoch = now.epoch;
	rc = sc_archive_record_write(archive, err);
	if (rc == 0)
		rc = sc_archive_write_epoch(archive, &now, err);
	return rc;
}

int sc_archive_wrest(struct sc_archive *archive, struct sc_err *err)
{
	int rc = sc_archive_take_over(archive, err);

	/* not there: who has it began a run, and swept away what we were writing */
	for (int i = 0; i < 8 && (rc == SC_E_BUSY || rc == SC_E_NOLOG); i++) {
		struct sc_archive_epoch now;

		rc = sc_archive_read_epoch(archive, &now, err);
		if (rc < 0)
			return rc;
		if (now.epoch >= archive->record.epoch)
			return sc_archive_fence(archive,
						err); /* another one was faster: says who */
		archive->epoch = now;                 /* who has it had something to say */
		rc = sc_archive_take_over(archive, err);
	}
	return rc;
}

static int list_text(const struct sc_archive *archive, struct sc_bytes *text)
{
	int bad = sc_bytes_putf(text,
				"{\"format\":%d,\n\"stream_id\":\"%s\",\n\"epoch\":%llu,\n"
				"\"floor\":%llu,\n\"segments\":[",
				SC_ARCHIVE_FORMAT, archive->stream_id,
				(unsigned long long)archive->epoch.epoch,
				(unsigned long long)archive->epoch.floor);

	for (size_t i = 0; i < archive->count; i++) {
		const struct sc_archive_item *item = &archive->items[i];

		bad |= sc_bytes_putf(text, "%s\n[%llu,%llu,%llu", i ? "," : "",
				     (unsigned long long)item->first,
				     (unsigned long long)item->last,
				     (unsigned long long)item->bytes);
		if (item->epoch)
			bad |= sc_bytes_putf(text, ",%llu", (unsigned long long)item->epoch);
		bad |= sc_bytes_putc(text, ']');
	}
	return bad | sc_bytes_puts(text, "]}\n");
}

/* Once: SC_E_BUSY when somebody else replaced it meanwhile. */
static int publish_once(struct sc_archive *archive, const struct sc_bytes *text, struct sc_err *err)
{
	struct sc_store_info info = { .size = 0 };
	char key[SC_ARCHIVE_KEY];
	struct sc_json root, member;
	struct sc_bytes there;
	uint64_t epoch = 0;
	bool same;
	int rc;

	sc_archive_name(archive, SC_ARCHIVE_LIST, key);
	sc_bytes_init(&there, SC_ARCHIVE_JSON_MAX);
	rc = sc_store_get(archive->store, key, &there, &info, err);
	if (rc == SC_E_NOLOG)
		rc = 0;
	same = rc == 0 && there.len == text->len && !memcmp(there.data, text->data, text->len);
	if (rc == 0 && sc_json_scan(sc_span(there.data, there.len), &root, NULL) == 0 &&
	    sc_json_get(&root, "epoch", &member))
		sc_json_u64(&member, &epoch);
	sc_bytes_done(&there);
	/* the question after the look: who takes over replaces the list, so what was read is then
	 * either his, or the condition fails */
	if (rc == 0)
		rc = sc_archive_fence(archive, err);
	if (rc < 0 || same)
		return rc;
	if (epoch > archive->epoch.epoch)
		return SC_E_BUSY;
	return sc_store_put(archive->store, key, text->data, text->len,
			    info.etag[0] ? info.etag : SC_STORE_ABSENT, NULL, err);
}

int sc_archive_publish(struct sc_archive *archive, struct sc_err *err)
{
	struct sc_bytes text;
	int rc = SC_E_BUSY;

	if (archive->dry || !archive->listed_anew)
		return 0;
	sc_bytes_init(&text, SC_ARCHIVE_JSON_MAX);
	if (list_text(archive, &text))
		rc = sc_err_nomem(err, TRIED);
	for (int i = 0; i < 3 && rc == SC_E_BUSY; i++)
		rc = publish_once(archive, &text, err);
	if (rc == SC_E_BUSY) {
		sc_err_set(err, SC_E_DATA, TRIED, "its list is replaced again and again");
		sc_err_on(err, "archive", archive->url);
		sc_err_next(err, "find out who else writes there");
		rc = SC_E_DATA;
	}
	sc_bytes_done(&text);
	if (rc == 0)
		archive->listed_anew = false;
	return rc;
}
