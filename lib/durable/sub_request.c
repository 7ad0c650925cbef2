/* sub_request.c: bodies of subscription requests. */
#include "durable/sub_request.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "json/scan.h"
#include "net/sign.h"

static int refuse(struct sc_ds_answer *answer, const char *message)
{
	sc_ds_sub_refuse(answer, SC_DS_SUB_INVALID_REQUEST, message);
	return 0;
}

/* The characters of a string value, kept in the request's text (which has room for all). */
static bool take_text(struct sc_ds_sub_request *r, const struct sc_json *value,
		      struct sc_span *ret_text)
{
	size_t at = r->text.len;

	if (value->kind != SC_JSON_STRING || sc_json_unescape(value->text, &r->text) < 0)
		return false;
	*ret_text = sc_span(r->text.data + at, r->text.len - at);
	return true;
}

/* The same of a member. 1 = it is there, 0 = it is not (or null), -1 = it is no string. */
static int take_member(struct sc_ds_sub_request *r, const struct sc_json *top, const char *name,
		       struct sc_span *ret_text)
{
	struct sc_json value;

	if (!sc_json_get(top, name, &value) || value.kind == SC_JSON_NULL)
		return 0;
	return take_text(r, &value, ret_text) ? 1 : -1;
}

static bool is_clean(struct sc_span text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
			return false;
	return true;
}

/* A stream's path (or a pattern) below the prefix, without slashes at its ends. What no URL can be
 * is no path. */
static bool take_path(struct sc_ds_sub_request *r, struct sc_span *path)
{
	while (path->len && path->data[0] == '/')
		*path = sc_span(path->data + 1, path->len - 1);
	while (path->len && path->data[path->len - 1] == '/')
		path->len--;
	for (size_t i = 0; i < path->len; i++)
		if ((unsigned char)path->data[i] <= ' ' || strchr("\x7f?#", path->data[i]))
			return false;
	if (path->len >= 4 && memcmp(path->data, "__ds", 4) == 0 &&
	    (path->len == 4 || path->data[4] == '/'))
		return false;
	return path->len > 0 && r->prefix.len + path->len <= SC_DS_PATH_MAX;
}

static int compare_spans(const void *a, const void *b)
{
	const struct sc_span *x = a, *y = b;
	size_t len = x->len < y->len ? x->len : y->len;
	int order = len ? memcmp(x->data, y->data, len) : 0;

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void sort_streams(struct sc_ds_sub_request *r)
{
	size_t kept = 0;

	if (!r->stream_count)
		return;
	qsort(r->streams, r->stream_count, sizeof(*r->streams), compare_spans);
	for (size_t i = 0; i < r->stream_count; i++)
		if (!kept || compare_spans(&r->streams[kept - 1], &r->streams[i]) != 0)
			r->streams[kept++] = r->streams[i];
	r->stream_count = kept;
}

static size_t count_elements(const struct sc_json *array)
{
	struct sc_json_walk walk;
	struct sc_json value;
	struct sc_span key;
	size_t count = 0;

	sc_json_walk_init(&walk, array);
	while (sc_json_walk_next(&walk, &key, &value))
		count++;
	return count;
}

static int take_streams(struct sc_ds_sub_request *r, const struct sc_json *top,
			struct sc_ds_answer *answer)
{
	struct sc_json_walk walk;
	struct sc_json array, value;
	struct sc_span key;
	size_t count;

	if (!sc_json_get(top, "streams", &array) || array.kind == SC_JSON_NULL)
		return 1;
	count = array.kind == SC_JSON_ARRAY ? count_elements(&array) : 0;
	if (array.kind != SC_JSON_ARRAY || count > SC_DS_SUB_NAMES_MAX)
		return refuse(answer, "streams is an array of at most 10000 paths");
	r->streams = sc_calloc(count + 1, sizeof(*r->streams));
	if (!r->streams)
		return SC_E_NOMEM;
	sc_json_walk_init(&walk, &array);
	while (sc_json_walk_next(&walk, &key, &value)) {
		struct sc_span *at = &r->streams[r->stream_count];

		if (!take_text(r, &value, at) || !take_path(r, at))
			return refuse(answer, "streams holds what is no path of a stream");
		r->stream_count++;
	}
	sort_streams(r);
	return 1;
}

/* -- PUT -- */

static int take_lease(struct sc_ds_sub_request *r, const struct sc_json *top,
		      struct sc_ds_answer *answer)
{
	struct sc_json value;

	r->asked.lease_ms = SC_DS_LEASE_STANDARD_MS;
	if (!sc_json_get(top, "lease_ttl_ms", &value))
		return 1;
	if (!sc_json_u64(&value, &r->asked.lease_ms) || r->asked.lease_ms < SC_DS_LEASE_MIN_MS ||
	    r->asked.lease_ms > SC_DS_LEASE_MAX_MS)
		return refuse(answer, "lease_ttl_ms is an integer from 1000 to 600000");
	return 1;
}

static int take_webhook(struct sc_ds_sub_request *r, const struct sc_json *top,
			struct sc_ds_answer *answer)
{
	struct sc_json webhook;
	struct sc_span *url = &r->asked.url;
	const char *why;

	if (!sc_json_get(top, "webhook", &webhook) || webhook.kind != SC_JSON_OBJECT ||
	    take_member(r, &webhook, "url", url) != 1 || !url->len)
		return refuse(answer, "a webhook subscription has a webhook.url");
	/* with a NUL behind it: there is room */
	if (sc_bytes_putc(&r->text, 0) < 0)
		return SC_E_NOMEM;
	why = url->len > SC_DS_SUB_URL_MAX     ? "webhook.url is too long"
	      : memchr(url->data, 0, url->len) ? "webhook.url is no URL"
					       : sc_ds_sub_url_refused(url->data);
	if (!why)
		return 1;
	sc_ds_sub_refuse(answer, SC_DS_SUB_URL_REJECTED, why);
	return 0;
}

static int take_wake_stream(struct sc_ds_sub_request *r, const struct sc_json *top,
			    struct sc_ds_answer *answer)
{
	struct sc_span *path = &r->asked.wake_stream;

	if (take_member(r, top, "wake_stream", path) != 1 || !take_path(r, path))
		return refuse(answer, "a pull-wake subscription has a wake_stream, the path of a "
				      "stream");
	for (size_t i = 0; i < r->stream_count; i++)
		if (compare_spans(path, &r->streams[i]) == 0)
			return refuse(answer, "streams holds the wake_stream: each wake would be "
					      "a reason for the next");
	return 1;
}

static int add_hash(struct sc_bytes *all, struct sc_span text)
{
	int rc = sc_bytes_putf(all, "%d%zu:", text.data != NULL, text.len);

	return rc < 0 ? rc : sc_bytes_put(all, text.data ? text.data : "", text.len);
}

/* Of all that makes the configuration, each part with its length in front. */
static int make_hash(struct sc_ds_sub_request *r)
{
	struct sc_ds_sub *asked = &r->asked;
	unsigned char sum[SC_SHA256_BYTES];
	struct sc_bytes all;
	int rc;

	sc_bytes_init(&all, 4 * SC_DS_SUB_BODY_MAX);
	rc = sc_bytes_putf(&all, "%d %llu ", asked->type, (unsigned long long)asked->lease_ms);
	if (rc == 0)
		rc = add_hash(&all, asked->pattern);
	if (rc == 0)
		rc = add_hash(&all, asked->url);
	if (rc == 0)
		rc = add_hash(&all, asked->wake_stream);
	if (rc == 0)
		rc = add_hash(&all, asked->description);
	for (size_t i = 0; rc == 0 && i < r->stream_count; i++)
		rc = add_hash(&all, r->streams[i]);
	if (rc == 0)
		rc = sc_sha256(sc_span(all.data, all.len), sum, NULL);
	sc_bytes_done(&all);
	if (rc == 0)
		memcpy(asked->hash, sum, sizeof(sum));
	return rc < 0 ? SC_E_NOMEM : 1;
}

static int take_pattern(struct sc_ds_sub_request *r, const struct sc_json *top,
			struct sc_ds_answer *answer)
{
	struct sc_span *pattern = &r->asked.pattern;
	int rc = take_member(r, top, "pattern", pattern);

	if (rc == 1 && !pattern->len)
		*pattern = sc_span(NULL, 0);
	if (rc < 0 || (pattern->data && !take_path(r, pattern)))
		return refuse(answer, "pattern is no pattern of paths");
	return 1;
}

static int parse_create(struct sc_ds_sub_request *r, const struct sc_json *top,
			struct sc_ds_answer *answer)
{
	struct sc_span type, *description = &r->asked.description;
	int rc = take_member(r, top, "type", &type);

	if (rc == 1 && sc_span_is(type, "webhook"))
		r->asked.type = SC_DS_WEBHOOK;
	else if (rc == 1 && sc_span_is(type, "pull-wake"))
		r->asked.type = SC_DS_PULL_WAKE;
	else
		return refuse(answer, "type is webhook or pull-wake");
	rc = take_pattern(r, top, answer);
	if (rc == 1)
		rc = take_streams(r, top, answer);
	if (rc == 1 && !r->asked.pattern.data && !r->stream_count)
		return refuse(answer, "there is neither a pattern nor streams");
	if (rc == 1)
		rc = take_lease(r, top, answer);
	if (rc == 1)
		rc = r->asked.type == SC_DS_WEBHOOK ? take_webhook(r, top, answer)
						    : take_wake_stream(r, top, answer);
	if (rc != 1)
		return rc;
	if (take_member(r, top, "description", description) < 0 ||
	    description->len > SC_DS_SUB_DESCRIPTION_MAX)
		return refuse(answer, "description is a text of at most 4096 bytes");
	return make_hash(r);
}

/* -- the workers' -- */

static int parse_links(struct sc_ds_sub_request *r, const struct sc_json *top,
		       struct sc_ds_answer *answer)
{
	int rc = take_streams(r, top, answer);

	if (rc == 1 && !r->stream_count)
		return refuse(answer, "streams is an array of paths, one at least");
	return rc;
}

static int parse_claim(struct sc_ds_sub_request *r, const struct sc_json *top,
		       struct sc_ds_answer *answer)
{
	if (take_member(r, top, "worker", &r->worker) != 1 || !r->worker.len ||
	    r->worker.len > SC_DS_SUB_WORKER_MAX || !is_clean(r->worker))
		return refuse(answer, "worker is a name of 1 to 256 bytes");
	return 1;
}

static int take_acks(struct sc_ds_sub_request *r, const struct sc_json *top,
		     struct sc_ds_answer *answer)
{
	struct sc_json_walk walk;
	struct sc_json array, value;
	struct sc_span key;
	size_t count;

	if (!sc_json_get(top, "acks", &array) || array.kind == SC_JSON_NULL)
		return 1;
	count = array.kind == SC_JSON_ARRAY ? count_elements(&array) : 0;
	if (array.kind != SC_JSON_ARRAY || count > SC_DS_SUB_NAMES_MAX)
		return refuse(answer, "acks is an array of at most 10000");
	r->acks = sc_calloc(count + 1, sizeof(*r->acks));
	if (!r->acks)
		return SC_E_NOMEM;
	sc_json_walk_init(&walk, &array);
	while (sc_json_walk_next(&walk, &key, &value)) {
		struct sc_ds_sub_ack *ack = &r->acks[r->ack_count];
		int rc = take_member(r, &value, "stream", &ack->stream);

		if (rc == 0)
			rc = take_member(r, &value, "path", &ack->stream);
		if (rc != 1 || take_member(r, &value, "offset", &ack->offset) != 1)
			return refuse(answer, "an ack has a stream and an offset");
		if (!take_path(r, &ack->stream))
			ack->stream = sc_span("", 0); /* of no link: INVALID_OFFSET, in its turn */
		r->ack_count++;
	}
	return 1;
}

static int parse_worker(struct sc_ds_sub_request *r, const struct sc_json *top,
			struct sc_ds_answer *answer)
{
	struct sc_json value;

	if (take_member(r, top, "wake_id", &r->wake_id) < 0)
		return refuse(answer, "wake_id is a text");
	r->has_generation = sc_json_get(top, "generation", &value) &&
			    sc_json_u64(&value, &r->generation);
	r->done = sc_json_get(top, "done", &value) && value.kind == SC_JSON_TRUE;
	return r->op == SC_DS_SUB_RELEASE ? 1 : take_acks(r, top, answer);
}

bool sc_ds_sub_take_token(struct sc_ds_sub_request *r, struct sc_span authorization,
			  struct sc_ds_answer *answer)
{
	static const char scheme[] = "Bearer ";
	size_t len = sizeof(scheme) - 1;

	if (authorization.len <= len || strncasecmp(authorization.data, scheme, len) != 0) {
		sc_ds_sub_refuse(answer, SC_DS_SUB_TOKEN_INVALID,
				 "Authorization: Bearer with the wake's token is missing");
		return false;
	}
	r->token = sc_span(authorization.data + len, authorization.len - len);
	return true;
}

void sc_ds_sub_refuse_long(struct sc_ds_answer *answer)
{
	(void)refuse(answer, "the body is longer than 1 MiB");
	answer->status = 413;
}

static int parse_body(struct sc_ds_sub_request *r, struct sc_span body, struct sc_ds_answer *answer)
{
	size_t id_at = (size_t)(r->id.data - r->text.data);
	struct sc_json top;

	if (!body.len)
		body = SC_SPAN("{}");
	if (sc_json_scan(body, &top, NULL) < 0 || top.kind != SC_JSON_OBJECT)
		return refuse(answer, "the body is no JSON object");
	/* what is decoded must not move any more: all of it has room */
	if (sc_bytes_reserve(&r->text, body.len + 1) < 0)
		return SC_E_NOMEM;
	r->id.data = r->text.data + id_at;
	switch (r->op) {
	case SC_DS_SUB_PUT:
		return parse_create(r, &top, answer);
	case SC_DS_SUB_LINK:
		return parse_links(r, &top, answer);
	case SC_DS_SUB_CLAIM:
		return parse_claim(r, &top, answer);
	case SC_DS_SUB_CALLBACK:
	case SC_DS_SUB_ACK:
	case SC_DS_SUB_RELEASE:
		return parse_worker(r, &top, answer);
	default:
		return 1;
	}
}

int sc_ds_sub_parse(struct sc_ds_sub_request *r, struct sc_span body, struct sc_ds_answer *answer)
{
	sc_ds_answer_clear(answer);
	if (r->op == SC_DS_SUB_GET || r->op == SC_DS_SUB_DELETE)
		return 1;
	if (r->op == SC_DS_SUB_UNLINK)
		return take_path(r, &r->streams[0]) ? 1
						    : refuse(answer, "this is no path of a stream");
	if (body.len > SC_DS_SUB_BODY_MAX) {
		sc_ds_sub_refuse_long(answer);
		return 0;
	}
	return parse_body(r, body, answer);
}

void sc_ds_sub_request_done(struct sc_ds_sub_request *r)
{
	free(r->streams);
	free(r->acks);
	sc_bytes_done(&r->text);
	*r = (struct sc_ds_sub_request){ .op = SC_DS_SUB_GET };
}

/* -- errors -- */

static const struct {
	const char *name;
	int status;
} codes[] = {
	[SC_DS_SUB_INVALID_REQUEST] = { "INVALID_REQUEST", 400 },
	[SC_DS_SUB_URL_REJECTED] = { "WEBHOOK_URL_REJECTED", 400 },
	[SC_DS_SUB_TOKEN_INVALID] = { "TOKEN_INVALID", 401 },
	[SC_DS_SUB_TOKEN_EXPIRED] = { "TOKEN_EXPIRED", 401 },
	[SC_DS_SUB_NOT_FOUND] = { "SUBSCRIPTION_NOT_FOUND", 404 },
	[SC_DS_SUB_EXISTS] = { "SUBSCRIPTION_ALREADY_EXISTS", 409 },
	[SC_DS_SUB_FENCED] = { "FENCED", 409 },
	[SC_DS_SUB_CLAIMED] = { "ALREADY_CLAIMED", 409 },
	[SC_DS_SUB_NO_WORK] = { "NO_PENDING_WORK", 409 },
	[SC_DS_SUB_BAD_OFFSET] = { "INVALID_OFFSET", 409 },
};

static void put_error(struct sc_ds_answer *answer, enum sc_ds_sub_code code, const char *message,
		      const struct sc_ds_sub *held)
{
	struct sc_bytes *body = &answer->body;
	int rc;

	sc_ds_answer_error(answer, codes[code].status, message);
	answer->cache = SC_DS_CACHE_NO_STORE;
	rc = sc_bytes_puts(&answer->type, "application/json");
	if (rc == 0)
		rc = sc_bytes_putf(body, "{\"error\":{\"code\":\"%s\",\"message\":\"%s\"",
				   codes[code].name, message);
	if (rc == 0 && held && held->holder.data) {
		rc = sc_bytes_puts(body, ",\"current_holder\":");
		if (rc == 0)
			rc = sc_json_put_string(held->holder, body);
	}
	if (rc == 0 && held)
		rc = sc_bytes_putf(body, ",\"generation\":%llu",
				   (unsigned long long)held->generation);
	if (rc == 0)
		rc = sc_bytes_puts(body, "}}\n");
	if (rc < 0)
		sc_ds_answer_error(answer, codes[code].status, message);
}

void sc_ds_sub_refuse(struct sc_ds_answer *answer, enum sc_ds_sub_code code, const char *message)
{
	put_error(answer, code, message, NULL);
}

void sc_ds_sub_refuse_claimed(struct sc_ds_answer *answer, const struct sc_ds_sub *sub)
{
	put_error(answer, SC_DS_SUB_CLAIMED, "another worker holds the lease", sub);
}
