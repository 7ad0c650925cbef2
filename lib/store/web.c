/* store/web.c: objects below a URL of any web server: read only, by range requests. */
#include <stdio.h>
#include <strings.h>

#include "store/store_internal.h"

static enum sc_verdict say(const struct sc_request *request, struct sc_answer *a, int code,
			   bool retry, const char *next, struct sc_err *err)
{
	sc_err_set(err, code, request->tried, "HTTP status %d", a->status);
	sc_err_on(err, request->kind, request->shown);
	if (next)
		sc_err_next(err, "%s", next);
	sc_err_field_int(err, "http_status", a->status);
	return retry ? SC_VERDICT_RETRY : SC_VERDICT_FINAL;
}

static enum sc_verdict judge(const struct sc_request *request, struct sc_answer *a,
			     struct sc_err *err)
{
	if (a->status / 100 == 2) {
		if (!a->encoded)
			return SC_VERDICT_DONE;
		sc_err_set(err, SC_E_PROTOCOL, request->tried,
			   "the server sends it with a content encoding");
		sc_err_on(err, request->kind, request->shown);
		sc_err_next(err, "switch compression off for it on the server");
		return SC_VERDICT_FINAL;
	}
	switch (a->status) {
	case 401:
	case 403:
		return say(request, a, SC_E_NOAUTH, false,
			   "look at the user and password in the URL", err);
	case 404:
	case 410:
		return say(request, a, SC_E_NOLOG, false, NULL, err);
	case 408:
		return say(request, a, SC_E_TIMEOUT, true, NULL, err);
	case 425:
	case 429:
		return say(request, a, SC_E_UNAVAILABLE, true, "ask less often", err);
	case 501:
	case 505:
		return say(request, a, SC_E_PROTOCOL, false, NULL, err);
	}
	if (a->status >= 500)
		return say(request, a, SC_E_UNAVAILABLE, true, NULL, err);
	return say(request, a, SC_E_PROTOCOL, false, NULL, err);
}

static int ask(struct sc_store *store, const char *key, struct sc_request *r,
	       struct sc_answer *ret_answer, struct sc_err *err)
{
	struct sc_bytes url, shown;
	int rc;

	sc_bytes_init(&url, 16384);
	sc_bytes_init(&shown, 8192);
	rc = sc_bytes_putf(&url, "%s/", store->place.base);
	if (rc == 0)
		rc = sc_place_encode(&url, sc_span_str(key), true);
	if (rc == 0)
		rc = sc_bytes_puts(&url, store->place.query);
	if (rc == 0)
		rc = sc_place_show(&store->place, key, &shown);
	r->url = sc_bytes_str(&url);
	r->shown = sc_bytes_str(&shown);
	r->kind = "object";
	r->user = store->place.user;
	r->follow = true;
	if (rc < 0 || !r->url || !r->shown) {
		memset(ret_answer, 0, sizeof(*ret_answer));
		rc = sc_err_nomem(err, r->tried);
	} else {
		rc = sc_request_run(store->link, r, judge, ret_answer, err);
	}
	if (url.data)
		explicit_bzero(url.data, url.cap);
	sc_bytes_done(&url);
	sc_bytes_done(&shown);
	return rc;
}

static void info_of(const struct sc_answer *a, uint64_t size, struct sc_store_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->size = size;
	ret_info->modified_us = a->modified_us;
	memcpy(ret_info->etag, a->etag, sizeof(ret_info->etag));
}

static int web_head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		    struct sc_err *err)
{
	struct sc_request r = { .method = "HEAD",
				.tried = "cannot look for",
				.headers = { "Accept-Encoding: identity" } };
	struct sc_answer a;
	int rc = ask(store, key, &r, &a, err);

	if (rc == 0 && a.length < 0) {
		rc = sc_err_set(err, SC_E_PROTOCOL, r.tried, "the server does not tell its size");
		sc_store_on(store, key, err);
	}
	if (rc == 0)
		info_of(&a, (uint64_t)a.length, ret_info);
	sc_request_answer_done(&a);
	return rc;
}

static int web_read(struct sc_store *store, const char *key, const struct sc_window *w,
		    void *ret_data, size_t *ret_len, struct sc_store_info *ret_info,
		    struct sc_err *err)
{
	char range[64];
	struct sc_request r = { .method = "GET",
				.tried = "cannot read",
				.into = ret_data,
				.into_size = w->len,
				.headers = { "Accept-Encoding: identity", range } };
	struct sc_answer a;
	int rc;

	if (w->tail)
		snprintf(range, sizeof(range), "Range: bytes=-%zu", w->len);
	else
		snprintf(range, sizeof(range), "Range: bytes=%llu-%llu", (unsigned long long)w->at,
			 (unsigned long long)(w->at + w->len - 1));
	rc = ask(store, key, &r, &a, err);
	if (rc < 0 && a.status == 416) {
		sc_err_clear(err);
		rc = web_head(store, key, ret_info, err);
		if (rc == 0)
			*ret_len = 0;
	} else if (rc == 0 && a.status == 200 && (w->tail || w->at == 0) &&
		   a.length == (int64_t)a.into_len) {
		*ret_len = a.into_len;
		info_of(&a, a.into_len, ret_info);
	} else if (rc == SC_E_PROTOCOL && a.status == 0 && !a.ranged) {
		sc_err_next(err, "serve it by a server that answers range requests");
	} else if (rc == 0 &&
		   (a.status != 206 || !a.ranged || a.last - a.first + 1 != a.into_len ||
		    (!w->tail && a.first != w->at) || (w->tail && a.last + 1 != a.total))) {
		rc = sc_err_set(err, SC_E_PROTOCOL, r.tried,
				"the server sends other bytes than were asked for");
		sc_store_on(store, key, err);
		sc_err_next(err, "serve it by a server that answers range requests");
	} else if (rc == 0) {
		*ret_len = a.into_len;
		info_of(&a, a.total, ret_info);
	}
	sc_request_answer_done(&a);
	return rc;
}

static int read_only(struct sc_store *store, const char *key, const char *tried, struct sc_err *err)
{
	sc_err_set(err, SC_E_USAGE, tried, "a web server is only read from");
	sc_store_on(store, key, err);
	return sc_err_next(err, "name the archive as s3://BUCKET/PREFIX or file:///FOLDER");
}

static int web_put(struct sc_store *store, const char *key, const struct sc_source *source,
		   const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	(void)source;
	(void)only_if;
	(void)ret_info;
	return read_only(store, key, "cannot put", err);
}

static int web_drop(struct sc_store *store, const char *key, struct sc_err *err)
{
	return read_only(store, key, "cannot delete", err);
}

static int web_sweep(struct sc_store *store, const char *prefix, int64_t before_us,
		     uint64_t *ret_removed, struct sc_err *err)
{
	(void)before_us;
	(void)ret_removed;
	return read_only(store, prefix, "cannot sweep", err);
}

static int web_list(struct sc_store *store, const struct sc_store_listing *what,
		    sc_store_each *each, void *arg, struct sc_err *err)
{
	(void)each;
	(void)arg;
	sc_err_set(err, SC_E_USAGE, "cannot list",
		   "a web server does not tell which objects it has");
	return sc_store_on(store, what->prefix ? what->prefix : "", err);
}

const struct sc_store_ops sc_web_ops = {
	.put = web_put,
	.read = web_read,
	.head = web_head,
	.verify = sc_store_verify_by_reading,
	.list = web_list,
	.drop = web_drop,
	.sweep = web_sweep,
};
