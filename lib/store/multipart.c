/*
 * store/multipart.c: large objects of S3, in parts.
 *
 * Each part goes up with its own checksums and is tried again by itself. The object appears when
 * the upload is completed, whole, and only then is a condition looked at; an upload that fails is
 * aborted, so that nobody pays for its parts.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/parse.h"
#include "store/store_internal.h"
#include "store/xml.h"

#define TRIED "cannot put"
#define PARTS_MAX 10000
#define ID_MAX 2048
#define CHUNK (256u << 10)

struct upload {
	struct sc_store *store;
	const char *key;
	struct sc_bytes id;   /* percent-encoded */
	struct sc_bytes done; /* the XML that completes it */
	struct sc_digest *whole,
		*parts_md5s; /* of the object; of its parts' MD5s, one after the other */
	bool has_md5;
	unsigned parts;
	char *chunk;
};

static int encode_id(struct sc_bytes *into, const struct sc_bytes *id)
{
	return id->len == 0 || id->len > ID_MAX
		       ? -1
		       : sc_place_encode(into, sc_span(id->data, id->len), false);
}

static int read_id(struct upload *u, const struct sc_answer *a, struct sc_err *err)
{
	struct sc_xml xml;
	int rc = 0, kind;

	sc_xml_init(&xml, sc_span(a->body.data, a->body.len));
	while (rc == 0 && (kind = sc_xml_next(&xml, err)) != SC_XML_END_OF_DOCUMENT) {
		if (kind < 0)
			rc = kind;
		else if (kind == SC_XML_END && xml.depth == 2 && sc_span_is(xml.name, "UploadId") &&
			 encode_id(&u->id, &xml.text) < 0)
			rc = sc_err_set(err, SC_E_PROTOCOL, TRIED,
					"the server's name of the upload cannot be used");
	}
	sc_xml_done(&xml);
	if (rc == 0 && !u->id.len)
		rc = sc_err_set(err, SC_E_PROTOCOL, TRIED, "the server gives the upload no name");
	if (rc < 0)
		sc_store_on(u->store, u->key, err);
	return rc;
}

static int begin(struct upload *u, struct sc_err *err)
{
	static const struct sc_source nothing = { .data = "", .fd = -1 };
	struct sc_s3_call call = { .method = "POST",
				   .key = u->key,
				   .query = "uploads=",
				   .tried = TRIED,
				   .body = &nothing,
				   .headers = { "Content-Type: application/octet-stream" } };
	struct sc_answer a;
	int rc = sc_s3_call(u->store, &call, &a, err);

	if (rc == 0)
		rc = read_id(u, &a, err);
	sc_request_answer_done(&a);
	return rc;
}

static int abort_upload(struct sc_store *store, const char *key, const char *id, bool once,
			struct sc_err *err)
{
	struct sc_s3_call call = {
		.method = "DELETE", .key = key, .tried = "cannot abort the upload of", .once = once
	};
	struct sc_bytes query;
	struct sc_answer a;
	int rc;

	sc_bytes_init(&query, 3 * ID_MAX + 64);
	if (sc_bytes_putf(&query, "uploadId=%s", id) < 0 || !sc_bytes_str(&query)) {
		sc_bytes_done(&query);
		return sc_err_nomem(err, call.tried);
	}
	call.query = query.data;
	rc = sc_s3_call(store, &call, &a, err);
	sc_request_answer_done(&a);
	sc_bytes_done(&query);
	return rc == SC_E_NOLOG ? 0 : rc;
}

/* The sums of one part; the whole object's go on. */
static int digest_part(struct upload *u, const struct sc_source *part, struct sc_sums *ret_sums,
		       struct sc_err *err)
{
	struct sc_digest *own = NULL;
	int rc = sc_digest_new(&own, err);

	for (uint64_t at = 0; rc == 0 && at < part->len;) {
		size_t want = part->len - at < CHUNK ? (size_t)(part->len - at) : CHUNK, got = want;
		const char *data = part->fd < 0 ? part->data + at : u->chunk;

		if (part->fd >= 0)
			rc = sc_pread_all(part->fd, u->chunk, want, (off_t)(part->at + at), &got,
					  "to upload", err);
		if (rc == 0 && got < want)
			rc = sc_err_set(err, SC_E_DATA, TRIED,
					"the file to upload became shorter meanwhile");
		if (rc == 0)
			rc = sc_digest_put(own, data, want, err);
		if (rc == 0)
			rc = sc_digest_put(u->whole, data, want, err);
		at += want;
	}
	if (rc == 0)
		rc = sc_digest_end(own, ret_sums, err);
	if (rc == 0)
		rc = sc_digest_put(u->parts_md5s, ret_sums->md5, sizeof(ret_sums->md5), err);
	sc_digest_free(own);
	return rc;
}

static int put_escaped(struct sc_bytes *xml, const char *text)
{
	int rc = 0;

	for (; rc == 0 && *text; text++)
		rc = *text == '"'   ? sc_bytes_puts(xml, "&quot;")
		     : *text == '&' ? sc_bytes_puts(xml, "&amp;")
		     : *text == '<' ? sc_bytes_puts(xml, "&lt;")
		     : *text == '>' ? sc_bytes_puts(xml, "&gt;")
				    : sc_bytes_putc(xml, *text);
	return rc;
}

static int put_part(struct upload *u, const struct sc_source *part, struct sc_err *err)
{
	struct sc_s3_call call = { .method = "PUT", .key = u->key, .tried = TRIED, .body = part };
	struct sc_s3_sum_headers headers;
	struct sc_bytes query;
	struct sc_sums sums;
	struct sc_answer a;
	int rc = digest_part(u, part, &sums, err);

	if (rc == 0)
		rc = sc_s3_sum_headers(&sums, &headers, err);
	if (rc < 0)
		return sc_store_on(u->store, u->key, err);
	u->has_md5 = sums.has_md5;
	u->parts++;
	sc_bytes_init(&query, 3 * ID_MAX + 64);
	if (sc_bytes_putf(&query, "partNumber=%u&uploadId=%s", u->parts, sc_bytes_str(&u->id)) <
		    0 ||
	    !sc_bytes_str(&query)) {
		sc_bytes_done(&query);
		return sc_err_nomem(err, TRIED);
	}
	call.query = query.data;
	call.sums = &sums;
	call.headers[0] = headers.md5[0] ? headers.md5 : NULL;
	rc = sc_s3_call(u->store, &call, &a, err);
	if (rc == 0 && !a.etag[0]) {
		rc = sc_err_set(err, SC_E_PROTOCOL, TRIED, "the server gives part %u no ETag",
				u->parts);
		sc_store_on(u->store, u->key, err);
	}
	if (rc == 0 &&
	    (sc_bytes_putf(&u->done, "<Part><PartNumber>%u</PartNumber><ETag>", u->parts) < 0 ||
	     put_escaped(&u->done, a.etag) < 0 || sc_bytes_puts(&u->done, "</ETag></Part>") < 0))
		rc = sc_err_nomem(err, TRIED);
	sc_request_answer_done(&a);
	sc_bytes_done(&query);
	return rc;
}

/* Holds what went up, whatever the answer said. */
static int verify(struct upload *u, uint64_t size, struct sc_store_info *ret_info,
		  struct sc_err *err)
{
	struct sc_sums whole, parts;
	struct sc_s3_want want = { .size = size, .sums = &whole };
	char etag[64];
	int rc = sc_digest_end(u->whole, &whole, err);

	if (rc == 0)
		rc = sc_digest_end(u->parts_md5s, &parts, err);
	if (rc < 0)
		return rc;
	if (u->has_md5) {
		etag[0] = '"';
		sc_digest_hex(parts.md5, sizeof(parts.md5), etag + 1);
		snprintf(etag + 33, sizeof(etag) - 33, "-%u\"", u->parts);
		want.multipart_etag = etag;
	}
	return sc_s3_holds(u->store, u->key, &want, ret_info, err);
}

/* *RET_OVER: the upload is no more, so there is nothing to abort. */
static int complete(struct upload *u, uint64_t size, const char *only_if, bool *ret_over,
		    struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_source body = { .data = u->done.data, .fd = -1, .len = u->done.len };
	struct sc_s3_call call = { .method = "POST",
				   .key = u->key,
				   .tried = TRIED,
				   .body = &body,
				   .slow = true,
				   .headers = { "Content-Type: application/xml" } };
	char condition[SC_STORE_ETAG_SIZE + 32];
	struct sc_bytes query;
	struct sc_sums sums;
	struct sc_answer a;
	int rc = sc_digest_data(u->done.data, u->done.len, &sums, err);

	if (rc < 0)
		return rc;
	sc_bytes_init(&query, 3 * ID_MAX + 64);
	if (sc_bytes_putf(&query, "uploadId=%s", sc_bytes_str(&u->id)) < 0 ||
	    !sc_bytes_str(&query)) {
		sc_bytes_done(&query);
		return sc_err_nomem(err, TRIED);
	}
	call.query = query.data;
	call.sums = &sums;
	if (only_if) {
		snprintf(condition, sizeof(condition), "%s: %s",
			 strcmp(only_if, "*") ? "If-Match" : "If-None-Match", only_if);
		call.headers[1] = condition;
	}
	rc = sc_s3_call(u->store, &call, &a, err);
	rc = sc_s3_condition(u->store, u->key, only_if, rc, &a, err);
	*ret_over = rc == 0;
	if (rc == 0) {
		rc = verify(u, size, ret_info, err);
	} else if ((rc == SC_E_BUSY || rc == SC_E_NOLOG) && a.tries > 1) {
		/* an earlier try, of which no answer came, may have completed it */
		struct sc_err other;

		if (verify(u, size, ret_info, &other) == 0) {
			*ret_over = true;
			rc = 0;
		}
	}
	sc_request_answer_done(&a);
	sc_bytes_done(&query);
	return rc;
}

static int put_parts(struct upload *u, const struct sc_source *source, struct sc_err *err)
{
	uint64_t part_bytes = u->store->settings.part_bytes;
	int rc = 0;

	if (source->len / PARTS_MAX >= part_bytes)
		part_bytes = source->len / PARTS_MAX + 1;
	if (sc_bytes_puts(
		    &u->done,
		    "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">") <
	    0)
		return sc_err_nomem(err, TRIED);
	for (uint64_t at = 0; rc == 0 && at < source->len; at += part_bytes) {
		struct sc_source part = *source;

		part.len = source->len - at < part_bytes ? source->len - at : part_bytes;
		part.at += at;
		if (part.fd < 0)
			part.data += at;
		rc = put_part(u, &part, err);
	}
	if (rc == 0 && sc_bytes_puts(&u->done, "</CompleteMultipartUpload>") < 0)
		rc = sc_err_nomem(err, TRIED);
	return rc;
}

/* No need to send gigabytes to learn that they are not wanted. */
static int look_first(struct sc_store *store, const char *key, struct sc_err *err)
{
	struct sc_store_info info;
	int rc = store->ops->head(store, key, &info, err);

	if (rc == SC_E_NOLOG) {
		sc_err_clear(err);
		return 0;
	}
	if (rc == 0) {
		rc = sc_err_set(err, SC_E_BUSY, TRIED, "it is there already");
		sc_store_on(store, key, err);
	}
	return rc;
}

int sc_multipart_put(struct sc_store *store, const char *key, const struct sc_source *source,
		     const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct upload u = { .store = store, .key = key, .chunk = sc_malloc(CHUNK) };
	bool over = true;
	int rc = 0;

	sc_bytes_init(&u.id, 3 * ID_MAX + 1);
	sc_bytes_init(&u.done, PARTS_MAX * (SC_STORE_ETAG_SIZE * 6 + 80));
	if (!u.chunk)
		rc = sc_err_nomem(err, TRIED);
	if (rc == 0)
		rc = sc_digest_new(&u.whole, err);
	if (rc == 0)
		rc = sc_digest_new(&u.parts_md5s, err);
	if (rc == 0 && only_if && !strcmp(only_if, "*"))
		rc = look_first(store, key, err);
	if (rc == 0)
		rc = begin(&u, err);
	if (rc == 0) {
		over = false;
		rc = put_parts(&u, source, err);
	}
	if (rc == 0)
		rc = complete(&u, source->len, only_if, &over, ret_info, err);
	if (!over && sc_bytes_str(&u.id) && abort_upload(store, key, u.id.data, true, NULL) < 0)
		sc_err_field_str(err, "unfinished_upload", u.id.data);
	sc_digest_free(u.whole);
	sc_digest_free(u.parts_md5s);
	sc_bytes_done(&u.id);
	sc_bytes_done(&u.done);
	free(u.chunk);
	return rc;
}

/* --- uploads that were left
 * ----------------------------------------------------------------------------------- */

struct sweep {
	struct sc_store *store;
	int64_t before_us;
	uint64_t removed;
	struct sc_bytes key, id, key_marker, id_marker;
	struct sc_bytes query, asked; /* of this page, and of the one before */
	int64_t begun_us;
	bool truncated, url_encoded;
};

static int sweep_one(struct sweep *s, struct sc_err *err)
{
	size_t skip = *s->store->place.prefix ? strlen(s->store->place.prefix) + 1 : 0;
	const char *key = sc_bytes_str(&s->key), *id = sc_bytes_str(&s->id);
	int rc;

	if (!key || !id)
		return sc_err_nomem(err, "cannot sweep");
	if (s->key.len <= skip || !*id || s->begun_us == 0 || s->begun_us >= s->before_us ||
	    sc_place_check_key(key + skip, NULL) < 0)
		return 0;
	rc = abort_upload(s->store, key + skip, id, false, err);
	if (rc == 0)
		s->removed++;
	return rc;
}

static bool text_to(struct sc_bytes *into, const struct sc_xml *xml, bool encoded)
{
	sc_bytes_clear(into);
	return encoded ? sc_place_decode(into, sc_span(xml->text.data, xml->text.len), true)
		       : sc_bytes_put(into, xml->text.data, xml->text.len) == 0;
}

/* One element has ended. false: what it holds cannot be used. */
static bool sweep_take(struct sweep *s, struct sc_xml *xml)
{
	struct sc_span text = sc_span(xml->text.data, xml->text.len);
	const char *time;

	if (xml->depth == 2 && sc_span_is(xml->name, "IsTruncated"))
		s->truncated = sc_span_is(text, "true");
	else if (xml->depth == 2 && sc_span_is(xml->name, "EncodingType"))
		s->url_encoded = sc_span_is(text, "url");
	else if (xml->depth == 2 && sc_span_is(xml->name, "NextKeyMarker"))
		return text_to(&s->key_marker, xml, s->url_encoded);
	else if (xml->depth == 2 && sc_span_is(xml->name, "NextUploadIdMarker"))
		return text_to(&s->id_marker, xml, false);
	else if (xml->depth == 3 && sc_span_is(xml->name, "Key"))
		return text_to(&s->key, xml, s->url_encoded);
	else if (xml->depth == 3 && sc_span_is(xml->name, "UploadId")) {
		sc_bytes_clear(&s->id);
		return encode_id(&s->id, &xml->text) == 0;
	} else if (xml->depth == 3 && sc_span_is(xml->name, "Initiated")) {
		time = sc_bytes_str(&xml->text);
		return time && sc_parse_time(time, 0, &s->begun_us, NULL) == 0;
	}
	return true;
}

static int sweep_read(struct sweep *s, const struct sc_answer *a, struct sc_err *err)
{
	struct sc_xml xml;
	int rc = 0, kind;

	s->truncated = s->url_encoded = false;
	sc_bytes_clear(&s->key_marker);
	sc_bytes_clear(&s->id_marker);
	sc_xml_init(&xml, sc_span(a->body.data, a->body.len));
	while (rc == 0 && (kind = sc_xml_next(&xml, err)) != SC_XML_END_OF_DOCUMENT) {
		if (kind < 0) {
			rc = kind;
		} else if (kind == SC_XML_START && xml.depth == 2) {
			s->begun_us = 0;
			sc_bytes_clear(&s->key);
			sc_bytes_clear(&s->id);
		} else if (kind == SC_XML_END && !sweep_take(s, &xml)) {
			rc = sc_err_set(err, SC_E_PROTOCOL, "cannot sweep",
					"the list of uploads cannot be read");
			sc_store_on(s->store, "", err);
		} else if (kind == SC_XML_END && xml.depth == 2 && sc_span_is(xml.name, "Upload")) {
			rc = sweep_one(s, err);
		}
	}
	sc_xml_done(&xml);
	return rc;
}

/* The same query again would have the same answer, without end. */
static bool moves_on(const struct sweep *s)
{
	return s->key_marker.len && (s->query.len != s->asked.len ||
				     memcmp(s->query.data, s->asked.data, s->query.len) != 0);
}

static int sweep_query(struct sweep *s, const char *prefix)
{
	struct sc_bytes full, *query = &s->query;
	int rc;

	sc_bytes_init(&full, 4096);
	sc_bytes_clear(query);
	rc = sc_bytes_putf(&full, "%s%s%s", s->store->place.prefix,
			   *s->store->place.prefix ? "/" : "", prefix);
	if (rc == 0)
		rc = sc_bytes_puts(query, "encoding-type=url");
	if (rc == 0 && s->key_marker.len) {
		rc = sc_bytes_puts(query, "&key-marker=");
		if (rc == 0)
			rc = sc_place_encode(query, sc_span(s->key_marker.data, s->key_marker.len),
					     false);
	}
	if (rc == 0)
		rc = sc_bytes_puts(query, "&prefix=");
	if (rc == 0)
		rc = sc_place_encode(query, sc_span(full.data, full.len), false);
	if (rc == 0 && s->id_marker.len) {
		rc = sc_bytes_puts(query, "&upload-id-marker=");
		if (rc == 0)
			rc = sc_place_encode(query, sc_span(s->id_marker.data, s->id_marker.len),
					     false);
	}
	if (rc == 0)
		rc = sc_bytes_puts(query, "&uploads=");
	sc_bytes_done(&full);
	return rc == 0 && sc_bytes_str(query) ? 0 : -1;
}

static int sweep_page(struct sweep *s, const char *prefix, struct sc_err *err)
{
	struct sc_s3_call call = { .method = "GET", .tried = "cannot sweep" };
	bool first = s->query.len == 0;
	struct sc_answer a;
	int rc;

	sc_bytes_clear(&s->asked);
	if (sc_bytes_put(&s->asked, s->query.data, s->query.len) < 0 || sweep_query(s, prefix) < 0)
		return sc_err_nomem(err, call.tried);
	if (!first && !moves_on(s)) {
		sc_err_set(err, SC_E_PROTOCOL, call.tried, "the list of uploads does not end");
		return sc_store_on(s->store, "", err);
	}
	call.query = s->query.data;
	rc = sc_s3_call(s->store, &call, &a, err);
	if (rc == 0)
		rc = sweep_read(s, &a, err);
	sc_request_answer_done(&a);
	return rc;
}

int sc_multipart_sweep(struct sc_store *store, const char *prefix, int64_t before_us,
		       uint64_t *ret_removed, struct sc_err *err)
{
	struct sweep s = { .store = store, .before_us = before_us, .truncated = true };
	int rc = 0;

	sc_bytes_init(&s.key, 4096);
	sc_bytes_init(&s.id, 3 * ID_MAX + 1);
	sc_bytes_init(&s.key_marker, 4096);
	sc_bytes_init(&s.id_marker, ID_MAX);
	sc_bytes_init(&s.query, 32768);
	sc_bytes_init(&s.asked, 32768);
	while (rc == 0 && s.truncated)
		rc = sweep_page(&s, prefix, err);
	sc_bytes_done(&s.key);
	sc_bytes_done(&s.id);
	sc_bytes_done(&s.key_marker);
	sc_bytes_done(&s.id_marker);
	sc_bytes_done(&s.query);
	sc_bytes_done(&s.asked);
	if (rc == 0)
		*ret_removed = s.removed;
	return rc;
}
