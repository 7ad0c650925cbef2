/*
 * store/s3.c: objects of S3 and its look-alikes.
 *
 * What goes up is hashed first and sent with its MD5 and SHA-256 (Content-MD5,
 * x-amz-checksum-sha256, x-amz-content-sha256): servers differ in which of them they compare, so
 * all are given. Then the server is asked for the object's size and checksum; where it tells none
 * that we can compare (an encrypting server's ETag is no MD5), the object is read back.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/file.h"
#include "store/store_internal.h"

#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* --- requests
 * ------------------------------------------------------------------------------------------------ */

static int set_up(struct sc_store *store, struct sc_err *err)
{
	struct sc_bytes url;
	char *made = NULL;
	int rc = sc_aws_load(store->anonymous, &store->aws, err);

	if (rc < 0)
		return rc;
	sc_bytes_init(&url, 8192);
	rc = sc_aws_bucket_url(&store->aws, store->place.bucket, &url, err);
	if (rc == 0 && sc_bytes_str(&url))
		made = strdup(url.data);
	if (rc == 0 && !made)
		rc = sc_err_nomem(err, "cannot open archive");
	if (rc == 0) {
		free(store->bucket_url);
		store->bucket_url = made;
	}
	sc_bytes_done(&url);
	return rc;
}

int sc_s3_open(struct sc_store *store, struct sc_err *err)
{
	int rc = set_up(store, err);

	return rc < 0 ? rc
		      : sc_request_link_new(&store->settings, store->aws.ca_file, &store->link,
					    err);
}

static int make_url(const struct sc_store *store, const struct sc_s3_call *call,
		    struct sc_bytes *out)
{
	const char *prefix = store->place.prefix;
	int rc = sc_bytes_puts(out, store->bucket_url);

	if (rc == 0 && call->key) {
		rc = sc_bytes_putc(out, '/');
		if (rc == 0 && *prefix)
			rc = sc_place_encode(out, sc_span_str(prefix), true);
		if (rc == 0 && *prefix)
			rc = sc_bytes_putc(out, '/');
		if (rc == 0)
			rc = sc_place_encode(out, sc_span_str(call->key), true);
	} else if (rc == 0 && store->aws.style == SC_AWS_VIRTUAL) {
		rc = sc_bytes_putc(out, '/');
	}
	if (rc == 0 && call->query)
		rc = sc_bytes_putf(out, "?%s", call->query);
	return rc == 0 && sc_bytes_str(out) ? 0 : -1;
}

int sc_s3_sum_headers(const struct sc_sums *sums, struct sc_s3_sum_headers *ret_headers,
		      struct sc_err *err)
{
	struct sc_bytes text;
	int rc = 0;

	memset(ret_headers, 0, sizeof(*ret_headers));
	sc_bytes_init(&text, 256);
	if (sc_base64_put(&text, sc_span((const char *)sums->sha256, sizeof(sums->sha256))) < 0)
		rc = sc_err_nomem(err, "cannot put");
	else
		snprintf(ret_headers->sha256, sizeof(ret_headers->sha256),
			 "x-amz-checksum-sha256: %.*s", (int)text.len, text.data);
	sc_bytes_clear(&text);
	if (rc == 0 && sums->has_md5 &&
	    sc_base64_put(&text, sc_span((const char *)sums->md5, sizeof(sums->md5))) < 0)
		rc = sc_err_nomem(err, "cannot put");
	else if (rc == 0 && sums->has_md5)
		snprintf(ret_headers->md5, sizeof(ret_headers->md5), "Content-MD5: %.*s",
			 (int)text.len, text.data);
	sc_bytes_done(&text);
	return rc;
}

static int call_once(struct sc_store *store, const struct sc_s3_call *call,
		     struct sc_answer *ret_answer, struct sc_err *err)
{
	char payload[22 + 65] = "x-amz-content-sha256: " SHA256_OF_NOTHING;
	struct sc_bytes url, shown, token;
	struct sc_request r = { .method = call->method,
				.kind = call->key ? "object" : "archive",
				.tried = call->tried,
				.sign = &store->aws,
				.body = call->body,
				.into = call->into,
				.into_size = call->into_size,
				.slow = call->slow,
				.once = call->once };
	size_t n = 0;
	int rc;

	sc_bytes_init(&url, 16384);
	sc_bytes_init(&shown, 8192);
	sc_bytes_init(&token, 65536);
	if (call->sums)
		sc_digest_hex(call->sums->sha256, sizeof(call->sums->sha256), payload + 22);
	rc = make_url(store, call, &url);
	if (rc == 0)
		rc = sc_place_show(&store->place, call->key ? call->key : "", &shown);
	if (rc == 0 && store->aws.key_id && store->aws.token)
		rc = sc_bytes_putf(&token, "x-amz-security-token: %s", store->aws.token);
	for (; rc == 0 && n < 8 && call->headers[n]; n++)
		r.headers[n] = call->headers[n];
	if (store->aws.key_id)
		r.headers[n++] = payload;
	if (rc == 0 && token.len)
		r.headers[n++] = sc_bytes_str(&token);
	r.url = url.data;
	r.shown = sc_bytes_str(&shown);
	if (rc < 0 || !r.shown || (token.len && !r.headers[n - 1])) {
		memset(ret_answer, 0, sizeof(*ret_answer));
		rc = sc_err_nomem(err, call->tried);
	} else {
		rc = sc_request_run(store->link, &r, sc_s3_judge, ret_answer, err);
	}
	if (token.data)
		explicit_bzero(token.data, token.cap);
	sc_bytes_done(&token);
	sc_bytes_done(&shown);
	sc_bytes_done(&url);
	return rc;
}

/* Temporary credentials end, and another program puts new ones into the files: true when there are
 * others by now. */
static bool renew(struct sc_store *store)
{
	struct sc_aws old = store->aws;
	bool other;

	memset(&store->aws, 0, sizeof(store->aws));
	if (set_up(store, NULL) < 0) {
		sc_aws_done(&store->aws);
		store->aws = old;
		return false;
	}
	other = old.key_id && store->aws.key_id &&
		(strcmp(old.key_id, store->aws.key_id) || strcmp(old.secret, store->aws.secret) ||
		 strcmp(old.token ? old.token : "", store->aws.token ? store->aws.token : ""));
	sc_aws_done(&old);
	return other;
}

int sc_s3_call(struct sc_store *store, const struct sc_s3_call *call, struct sc_answer *ret_answer,
	       struct sc_err *err)
{
	int rc = call_once(store, call, ret_answer, err);

	if (rc == SC_E_NOAUTH && renew(store)) {
		sc_request_answer_done(ret_answer);
		rc = call_once(store, call, ret_answer, err);
	}
	return rc;
}

/* --- what is there
 * ------------------------------------------------------------------------------------------- */

static void info_of(const struct sc_answer *a, uint64_t size, struct sc_store_info *ret_info)
{
	memset(ret_info, 0, sizeof(*ret_info));
	ret_info->size = size;
	ret_info->modified_us = a->modified_us;
	memcpy(ret_info->etag, a->etag, sizeof(ret_info->etag));
}

/* CHECKSUM: room for x-amz-checksum-sha256, or NULL. */
static int head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		char *ret_checksum, size_t checksum_size, struct sc_err *err)
{
	struct sc_s3_call call = { .method = "HEAD",
				   .key = key,
				   .tried = "cannot look for",
				   .headers = { ret_checksum ? "x-amz-checksum-mode: ENABLED"
							     : NULL } };
	struct sc_answer a;
	int rc = sc_s3_call(store, &call, &a, err);

	if (rc == 0 && a.length < 0) {
		rc = sc_err_set(err, SC_E_PROTOCOL, call.tried,
				"the server does not tell its size");
		sc_store_on(store, key, err);
	}
	if (rc == 0) {
		info_of(&a, (uint64_t)a.length, ret_info);
		if (ret_checksum)
			snprintf(ret_checksum, checksum_size, "%s", a.sha256);
	} else if (rc == SC_E_NOLOG) {
		/* the answer to HEAD has no body to say which of them */
		sc_err_set(err, rc, call.tried, "no such object, or no such bucket");
		sc_store_on(store, key, err);
		sc_err_field_int(err, "http_status", 404);
	}
	sc_request_answer_done(&a);
	return rc;
}

static int s3_head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		   struct sc_err *err)
{
	return head(store, key, ret_info, NULL, 0, err);
}

/* "bytes=..." said no to: nothing is there at that place, or the object is empty. */
static int past_the_end(struct sc_store *store, const char *key, size_t *ret_len,
			struct sc_store_info *ret_info, struct sc_err *err)
{
	int rc = s3_head(store, key, ret_info, err);

	if (rc == 0)
		*ret_len = 0;
	return rc;
}

static int s3_read(struct sc_store *store, const char *key, const struct sc_window *w,
		   void *ret_data, size_t *ret_len, struct sc_store_info *ret_info,
		   struct sc_err *err)
{
	char range[64];
	struct sc_s3_call call = { .method = "GET",
				   .key = key,
				   .tried = "cannot read",
				   .headers = { range },
				   .into = ret_data,
				   .into_size = w->len };
	struct sc_answer a;
	int rc;

	if (w->tail)
		snprintf(range, sizeof(range), "Range: bytes=-%zu", w->len);
	else
		snprintf(range, sizeof(range), "Range: bytes=%llu-%llu", (unsigned long long)w->at,
			 (unsigned long long)(w->at + w->len - 1));
	rc = sc_s3_call(store, &call, &a, err);
	if (rc < 0 && a.status == 416) {
		sc_err_clear(err);
		rc = past_the_end(store, key, ret_len, ret_info, err);
	} else if (rc == 0 && a.status == 200 && (w->tail || w->at == 0) &&
		   a.length == (int64_t)a.into_len) {
		/* the whole object, which is not longer than the range */
		*ret_len = a.into_len;
		info_of(&a, a.into_len, ret_info);
	} else if (rc == 0 &&
		   (a.status != 206 || !a.ranged || a.last - a.first + 1 != a.into_len ||
		    (!w->tail && a.first != w->at) || (w->tail && a.last + 1 != a.total))) {
		rc = sc_err_set(err, SC_E_PROTOCOL, call.tried,
				"the server sends other bytes than were asked for");
		sc_store_on(store, key, err);
	} else if (rc == 0) {
		*ret_len = a.into_len;
		info_of(&a, a.total, ret_info);
	}
	sc_request_answer_done(&a);
	return rc;
}

/* --- what goes up
 * -------------------------------------------------------------------------------------------- */

/* The ETag is the MD5 of these bytes, or of their parts' MD5s. */
static bool etag_proves(const char *etag, const struct sc_s3_want *want)
{
	char md5[40];

	if (want->multipart_etag && !strcmp(etag, want->multipart_etag))
		return true;
	if (!want->sums->has_md5)
		return false;
	md5[0] = '"';
	sc_digest_hex(want->sums->md5, sizeof(want->sums->md5), md5 + 1);
	md5[33] = '"';
	md5[34] = 0;
	return !strcmp(etag, md5);
}

int sc_s3_holds(struct sc_store *store, const char *key, const struct sc_s3_want *want,
		struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_store_info info;
	struct sc_s3_sum_headers headers;
	char checksum[128] = "";
	int rc = sc_s3_sum_headers(want->sums, &headers, err);

	if (rc == 0)
		rc = head(store, key, &info, checksum, sizeof(checksum), err);
	if (rc < 0)
		return rc;
	if (info.size != want->size) {
		sc_err_set(err, SC_E_DATA, "cannot verify", "it has %llu bytes, not %llu",
			   (unsigned long long)info.size, (unsigned long long)want->size);
		return sc_store_on(store, key, err);
	}
	if (strcmp(checksum, strchr(headers.sha256, ' ') + 1) != 0 && !etag_proves(info.etag, want))
		rc = sc_store_verify_by_reading(store, key, want->size, want->sums->sha256, err);
	if (rc == 0) {
		memcpy(info.sha256, want->sums->sha256, sizeof(info.sha256));
		info.hashed = true;
		*ret_info = info;
	}
	return rc;
}

static int s3_verify(struct sc_store *store, const char *key, uint64_t size,
		     const unsigned char *sha256, struct sc_err *err)
{
	struct sc_sums sums = { .has_md5 = false };
	struct sc_s3_want want = { .size = size, .sums = &sums };
	struct sc_store_info info;

	memcpy(sums.sha256, sha256, sizeof(sums.sha256));
	return sc_s3_holds(store, key, &want, &info, err);
}

int sc_s3_condition(struct sc_store *store, const char *key, const char *only_if, int rc,
		    const struct sc_answer *answer, struct sc_err *err)
{
	bool gone = rc == SC_E_NOLOG && !strcmp(answer->code, "NoSuchKey");

	if (!only_if || (rc != SC_E_BUSY && !gone))
		return rc;
	sc_err_set(err, SC_E_BUSY, "cannot put", "%s",
		   !strcmp(only_if, "*") ? "it is there already"
		   : gone                ? "it is not there any more"
					 : "it was replaced meanwhile");
	sc_store_on(store, key, err);
	sc_err_field_int(err, "http_status", answer->status);
	return SC_E_BUSY;
}

static int s3_put(struct sc_store *store, const char *key, const struct sc_source *source,
		  const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_sums sums;
	struct sc_s3_want want = { .size = source->len, .sums = &sums };
	struct sc_s3_sum_headers sum;
	struct sc_s3_call call = {
		.method = "PUT", .key = key, .tried = "cannot put", .body = source, .sums = &sums
	};
	struct sc_answer a;
	char condition[SC_STORE_ETAG_SIZE + 32];
	size_t n = 0;
	int rc;

	if (source->len > store->settings.multipart_bytes)
		return sc_multipart_put(store, key, source, only_if, ret_info, err);
	rc = source->fd < 0 ? sc_digest_data(source->data, (size_t)source->len, &sums, err)
			    : sc_digest_fd(source->fd, source->at, source->len, &sums, err);
	if (rc == 0)
		rc = sc_s3_sum_headers(&sums, &sum, err);
	if (rc < 0)
		return sc_store_on(store, key, err);
	call.headers[n++] = "Content-Type: application/octet-stream";
	call.headers[n++] = sum.sha256;
	if (sum.md5[0])
		call.headers[n++] = sum.md5;
	if (only_if) {
		snprintf(condition, sizeof(condition), "%s: %s",
			 strcmp(only_if, "*") ? "If-Match" : "If-None-Match", only_if);
		call.headers[n++] = condition;
	}
	rc = sc_s3_call(store, &call, &a, err);
	rc = sc_s3_condition(store, key, only_if, rc, &a, err);
	if (rc == 0) {
		rc = sc_s3_holds(store, key, &want, ret_info, err);
	} else if (rc == SC_E_BUSY && a.tries > 1) {
		/* an earlier try, of which no answer came, may have done it */
		struct sc_err other;
		int held = sc_s3_holds(store, key, &want, ret_info, &other);

		rc = held == 0 ? 0 : held == SC_E_DATA || held == SC_E_NOLOG ? rc : held;
		if (rc < 0 && rc == held && err)
			*err = other;
	}
	sc_request_answer_done(&a);
	return rc;
}

static int s3_drop(struct sc_store *store, const char *key, struct sc_err *err)
{
	struct sc_s3_call call = { .method = "DELETE", .key = key, .tried = "cannot delete" };
	struct sc_answer a;
	int rc = sc_s3_call(store, &call, &a, err);

	if (rc == SC_E_NOLOG && strcmp(a.code, "NoSuchBucket")) {
		sc_err_clear(err);
		rc = 0;
	}
	sc_request_answer_done(&a);
	return rc;
}

const struct sc_store_ops sc_s3_ops = {
	.put = s3_put,
	.read = s3_read,
	.head = s3_head,
	.verify = s3_verify,
	.list = sc_listing_run,
	.drop = s3_drop,
	.sweep = sc_multipart_sweep,
};
