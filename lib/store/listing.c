/* store/listing.c: the objects of a bucket, a page at a time (ListObjectsV2). */
#include <stdio.h>

#include "base/parse.h"
#include "base/file.h"
#include "store/store_internal.h"
#include "store/xml.h"

#define TRIED "cannot list"
#define KEY_ROOM 1400 /* a key of S3 and more */

/* A listing under way; texts without NUL bytes. */
struct walk {
	struct sc_store *store;
	sc_store_each *each;
	void *arg;
	size_t prefix_len; /* of the store's own prefix with its '/', which keys do not show */
	struct sc_bytes key, etag, token, last;
	struct sc_bytes asked; /* the token of this page */
	struct sc_store_item item;
	bool truncated, url_encoded;
	int stop; /* what each() said */
};

static int put_parameter(struct sc_bytes *query, const char *name, struct sc_span value)
{
	int rc = sc_bytes_putf(query, "%s%s=", query->len ? "&" : "", name);

	return rc < 0 ? rc : sc_place_encode(query, value, false);
}

/* PREFIX of the store and KEY, as the bucket has them. */
static int put_full(const struct sc_store *store, const char *name, const char *key,
		    struct sc_bytes *query)
{
	struct sc_bytes full;
	int rc = 0;

	sc_bytes_init(&full, 4096);
	if (*store->place.prefix)
		rc = sc_bytes_putf(&full, "%s/", store->place.prefix);
	if (rc == 0)
		rc = sc_bytes_puts(&full, key);
	if (rc == 0 && full.len)
		rc = put_parameter(query, name, sc_span(full.data, full.len));
	sc_bytes_done(&full);
	return rc;
}

/* In the order of the names, as signing wants it. */
static int make_query(const struct walk *w, const struct sc_store_listing *what,
		      struct sc_bytes *query)
{
	int rc = 0;

	if (w->token.len)
		rc = put_parameter(query, "continuation-token",
				   sc_span(w->token.data, w->token.len));
	if (rc == 0 && what->folders)
		rc = put_parameter(query, "delimiter", SC_SPAN("/"));
	if (rc == 0)
		rc = put_parameter(query, "encoding-type", SC_SPAN("url"));
	if (rc == 0)
		rc = put_parameter(query, "list-type", SC_SPAN("2"));
	if (rc == 0)
		rc = put_full(w->store, "prefix", what->prefix ? what->prefix : "", query);
	if (rc == 0 && what->after && *what->after)
		rc = put_full(w->store, "start-after", what->after, query);
	return rc;
}

static int strange(const struct walk *w, const char *why, struct sc_err *err)
{
	sc_err_set(err, SC_E_PROTOCOL, TRIED, "%s", why);
	sc_store_on(w->store, "", err);
	return sc_err_next(err, "look whether the endpoint is an S3 server");
}

static int copy_text(struct sc_bytes *into, const struct sc_xml *xml, bool encoded,
		     struct sc_err *err)
{
	sc_bytes_clear(into);
	if (encoded ? !sc_place_decode(into, sc_span(xml->text.data, xml->text.len), true)
		    : sc_bytes_put(into, xml->text.data, xml->text.len) < 0)
		return sc_err_set(err, SC_E_PROTOCOL, TRIED,
				  "a name in the listing is too long, or not as it should be");
	return 0;
}

/* Not the "folder" itself, which some tools create as an empty object, nor a name that no call here
 * would take. */
static bool could_be_ours(const char *key, bool folder)
{
	char copy[SC_STORE_KEY_MAX + 2];
	size_t len = strlen(key);

	if (len == 0 || len >= sizeof(copy))
		return false;
	memcpy(copy, key, len + 1);
	if (folder && copy[len - 1] == '/')
		copy[len - 1] = 0;
	return sc_place_check_key(copy, NULL) == 0;
}

/* A key or folder was read whole: hand it on. */
static int give(struct walk *w, const struct sc_store_listing *what, bool folder,
		struct sc_err *err)
{
	size_t skip = w->prefix_len;
	const char *key = sc_bytes_str(&w->key), *last = sc_bytes_str(&w->last);
	int rc;

	if (!key || !last)
		return sc_err_nomem(err, TRIED);
	if (w->key.len < skip || strlen(key) != w->key.len ||
	    (*w->store->place.prefix &&
	     (memcmp(key, w->store->place.prefix, skip - 1) || key[skip - 1] != '/')))
		return strange(w, "the server lists what was not asked for", err);
	key += skip;
	if (!could_be_ours(key, folder))
		return 0;
	/* a server may not know start-after together with a delimiter */
	if (what->after && strcmp(key, what->after) <= 0)
		return 0;
	if (strcmp(key, last) <= 0 && *last) {
		sc_err_set(err, SC_E_PROTOCOL, TRIED,
			   "the server lists '%s' behind '%s', out of order", key, last);
		return sc_store_on(w->store, "", err);
	}
	w->item.key = key;
	w->item.folder = folder;
	w->item.etag = sc_bytes_str(&w->etag);
	if (!w->item.etag)
		return sc_err_nomem(err, TRIED);
	rc = w->each(w->arg, &w->item, err);
	if (rc != 0)
		w->stop = rc;
	sc_bytes_clear(&w->last);
	if (sc_bytes_puts(&w->last, key) < 0)
		return sc_err_nomem(err, TRIED);
	return 0;
}

/*
 * Keys and folders come as two runs, each in order, so a page is read twice when it has both:
 * merged by key. Folders are rare: they are kept, keys are streamed.
 */
struct folders {
	struct sc_bytes names; /* each with its NUL */
	size_t at;
};

static int give_folders(struct walk *w, struct folders *f, const struct sc_store_listing *what,
			const char *before, struct sc_err *err)
{
	int rc = 0;

	while (rc == 0 && !w->stop && f->at < f->names.len) {
		const char *name = f->names.data + f->at;
		struct sc_bytes
			key = w->key,
			etag = w->etag; /* of the object that waits for the folders before it */
		struct sc_store_item item = w->item;

		if (before && strcmp(name, before) > 0)
			break;
		f->at += strlen(name) + 1;
		sc_bytes_init(&w->key, KEY_ROOM);
		sc_bytes_init(&w->etag, KEY_ROOM);
		w->item = (struct sc_store_item){ .folder = true };
		rc = sc_bytes_puts(&w->key, name) < 0 ? sc_err_nomem(err, TRIED)
						      : give(w, what, true, err);
		sc_bytes_done(&w->key);
		sc_bytes_done(&w->etag);
		w->key = key;
		w->etag = etag;
		w->item = item;
	}
	return rc;
}

static int take_content(struct walk *w, struct sc_xml *xml, struct sc_err *err)
{
	struct sc_span text = sc_span(xml->text.data, xml->text.len);

	if (sc_span_is(xml->name, "Key"))
		return copy_text(&w->key, xml, w->url_encoded, err);
	if (sc_span_is(xml->name, "ETag"))
		return copy_text(&w->etag, xml, false, err);
	if (sc_span_is(xml->name, "Size") && !sc_u64_parse(text, &w->item.size))
		return strange(w, "a size in the listing is no number", err);
	if (sc_span_is(xml->name, "LastModified")) {
		const char *time = sc_bytes_str(&xml->text);

		if (!time || sc_parse_time(time, 0, &w->item.modified_us, NULL) < 0)
			w->item.modified_us = 0;
	}
	return 0;
}

/* First pass: what holds for the page, and its folders. */
static int read_page_head(struct walk *w, const struct sc_answer *a, struct folders *f,
			  struct sc_err *err)
{
	struct sc_xml xml;
	bool listing = false;
	int rc = 0, kind;

	w->truncated = w->url_encoded = false;
	sc_bytes_clear(&w->asked);
	if (sc_bytes_put(&w->asked, w->token.data, w->token.len) < 0)
		return sc_err_nomem(err, TRIED);
	sc_bytes_clear(&w->token);
	sc_bytes_clear(&f->names);
	f->at = 0;
	sc_xml_init(&xml, sc_span(a->body.data, a->body.len));
	while (rc == 0 && (kind = sc_xml_next(&xml, err)) != SC_XML_END_OF_DOCUMENT) {
		if (kind < 0)
			rc = kind;
		else if (kind == SC_XML_START && xml.depth == 1)
			listing = sc_span_is(xml.name, "ListBucketResult");
		else if (kind == SC_XML_END && xml.depth == 2 &&
			 sc_span_is(xml.name, "IsTruncated"))
			w->truncated = sc_span_is(sc_span(xml.text.data, xml.text.len), "true");
		else if (kind == SC_XML_END && xml.depth == 2 &&
			 sc_span_is(xml.name, "EncodingType"))
			w->url_encoded = sc_span_is(sc_span(xml.text.data, xml.text.len), "url");
		else if (kind == SC_XML_END && xml.depth == 2 &&
			 sc_span_is(xml.name, "NextContinuationToken"))
			rc = copy_text(&w->token, &xml, false, err);
	}
	sc_xml_done(&xml);
	if (rc == 0 && !listing)
		rc = strange(w, "the answer is no listing", err);
	if (rc == 0 && w->truncated && !w->token.len)
		rc = strange(w, "the server says that there is more, and not how to ask for it",
			     err);
	if (rc == 0 && w->truncated && w->token.len == w->asked.len &&
	    !memcmp(w->token.data, w->asked.data, w->token.len))
		rc = strange(w, "the listing does not end: the server names the same page again",
			     err);
	return rc;
}

static int read_folders(struct walk *w, const struct sc_answer *a, struct folders *f,
			struct sc_err *err)
{
	struct sc_xml xml;
	int rc = 0, kind;
	bool common = false;

	sc_xml_init(&xml, sc_span(a->body.data, a->body.len));
	while (rc == 0 && (kind = sc_xml_next(&xml, err)) != SC_XML_END_OF_DOCUMENT) {
		if (kind < 0)
			rc = kind;
		else if (kind == SC_XML_START && xml.depth == 2)
			common = sc_span_is(xml.name, "CommonPrefixes");
		else if (kind == SC_XML_END && xml.depth == 3 && common &&
			 sc_span_is(xml.name, "Prefix"))
			rc = copy_text(&w->key, &xml, w->url_encoded, err);
		else if (kind == SC_XML_END && xml.depth == 2 && common && w->key.len &&
			 (sc_bytes_put(&f->names, w->key.data, w->key.len) < 0 ||
			  sc_bytes_putc(&f->names, 0) < 0))
			rc = sc_err_nomem(err, TRIED);
	}
	sc_xml_done(&xml);
	return rc;
}

static int read_contents(struct walk *w, const struct sc_store_listing *what,
			 const struct sc_answer *a, struct folders *f, struct sc_err *err)
{
	struct sc_xml xml;
	int rc = 0, kind;
	bool contents = false;

	sc_xml_init(&xml, sc_span(a->body.data, a->body.len));
	while (rc == 0 && !w->stop && (kind = sc_xml_next(&xml, err)) != SC_XML_END_OF_DOCUMENT) {
		if (kind < 0) {
			rc = kind;
		} else if (kind == SC_XML_START && xml.depth == 2) {
			contents = sc_span_is(xml.name, "Contents");
			memset(&w->item, 0, sizeof(w->item));
			sc_bytes_clear(&w->key);
			sc_bytes_clear(&w->etag);
		} else if (kind == SC_XML_END && xml.depth == 3 && contents) {
			rc = take_content(w, &xml, err);
		} else if (kind == SC_XML_END && xml.depth == 2 && contents) {
			const char *key = sc_bytes_str(&w->key);

			rc = key ? give_folders(w, f, what, key, err) : sc_err_nomem(err, TRIED);
			if (rc == 0 && !w->stop)
				rc = give(w, what, false, err);
		}
	}
	sc_xml_done(&xml);
	if (rc == 0 && !w->stop)
		rc = give_folders(w, f, what, NULL, err);
	return rc;
}

static int next_page(struct walk *w, const struct sc_store_listing *what, struct folders *f,
		     struct sc_err *err)
{
	struct sc_s3_call call = { .method = "GET", .tried = TRIED };
	struct sc_bytes query;
	struct sc_answer a;
	int rc;

	sc_bytes_init(&query, 16384);
	if (make_query(w, what, &query) < 0 || !sc_bytes_str(&query)) {
		sc_bytes_done(&query);
		return sc_err_nomem(err, TRIED);
	}
	call.query = query.data;
	rc = sc_s3_call(w->store, &call, &a, err);
	if (rc == 0)
		rc = read_page_head(w, &a, f, err);
	if (rc == 0)
		rc = read_folders(w, &a, f, err);
	if (rc == 0)
		rc = read_contents(w, what, &a, f, err);
	if (rc == SC_E_PROTOCOL && err && !err->object[0])
		sc_store_on(w->store, "", err);
	sc_request_answer_done(&a);
	sc_bytes_done(&query);
	return rc;
}

int sc_listing_run(struct sc_store *store, const struct sc_store_listing *what, sc_store_each *each,
		   void *arg, struct sc_err *err)
{
	struct walk w = { .store = store, .each = each, .arg = arg };
	struct folders f = { .at = 0 };
	int rc = 0;

	w.prefix_len = *store->place.prefix ? strlen(store->place.prefix) + 1 : 0;
	sc_bytes_init(&w.key, KEY_ROOM);
	sc_bytes_init(&w.etag, KEY_ROOM);
	sc_bytes_init(&w.last, KEY_ROOM);
	sc_bytes_init(&w.token, 8192);
	sc_bytes_init(&w.asked, 8192);
	sc_bytes_init(&f.names, 4u << 20);
	do
		rc = next_page(&w, what, &f, err);
	while (rc == 0 && !w.stop && w.truncated);
	sc_bytes_done(&w.key);
	sc_bytes_done(&w.etag);
	sc_bytes_done(&w.last);
	sc_bytes_done(&w.token);
	sc_bytes_done(&w.asked);
	sc_bytes_done(&f.names);
	return rc < 0 ? rc : w.stop < 0 ? w.stop : 0;
}
