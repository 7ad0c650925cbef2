/* http_fields.c: the fields of an answer's head, and those of a request. */
#include "durable/http_fields.h"

#include <string.h>
#include <strings.h>

#define ALLOWED \
	"Content-Type, Stream-Seq, Stream-TTL, Stream-Expires-At, Stream-Closed, If-None-Match, " \
	"Producer-Id, Producer-Epoch, Producer-Seq, Stream-Forked-From, Stream-Fork-Offset, " \
	"Stream-Fork-Sub-Offset, Authorization"
#define EXPOSED \
	"Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, ETag, Location, " \
	"Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, " \
	"Stream-SSE-Data-Encoding, Stream-TTL, Stream-Expires-At, Retry-After"

void sc_ds_fields_add(struct sc_ds_fields *fields, const char *name, const char *value)
{
	if (fields->count == SC_DS_FIELDS_MAX)
		return;
	fields->items[fields->count].name = name;
	fields->items[fields->count++].value = value;
}

/* VALUE kept in the fields' own memory. */
static void add_copy(struct sc_ds_fields *fields, const char *name, const char *value, size_t len)
{
	char *at = fields->text + fields->used;

	if (len >= sizeof(fields->text) - fields->used)
		return;
	memcpy(at, value, len);
	at[len] = 0;
	fields->used += len + 1;
	sc_ds_fields_add(fields, name, at);
}

static void add_number(struct sc_ds_fields *fields, const char *name, uint64_t value)
{
	char digits[20];

	add_copy(fields, name, digits, sc_u64_digits(digits, value));
}

void sc_ds_fields_every(struct sc_ds_fields *fields, const struct sc_ds_face *face)
{
	fields->count = fields->used = 0;
	if (face->cors[0]) {
		sc_ds_fields_add(fields, "Access-Control-Allow-Origin", face->cors);
		sc_ds_fields_add(fields, "Access-Control-Allow-Methods", SC_DS_METHODS);
		sc_ds_fields_add(fields, "Access-Control-Allow-Headers", ALLOWED);
		sc_ds_fields_add(fields, "Access-Control-Expose-Headers", EXPOSED);
	}
	if (face->cors[0] && strcmp(face->cors, "*") != 0)
		sc_ds_fields_add(fields, "Vary", "Origin");
	sc_ds_fields_add(fields, "X-Content-Type-Options", "nosniff");
	sc_ds_fields_add(fields, "Cross-Origin-Resource-Policy", "cross-origin");
}

static void add_type(struct sc_ds_fields *fields, struct sc_ds_answer *answer)
{
	const char *type = answer->type.len ? sc_bytes_str(&answer->type) : NULL;

	if (type)
		sc_ds_fields_add(fields, "Content-Type", type);
	else if (answer->status != 204 && answer->status != 304)
		sc_ds_fields_add(fields, "Content-Type", "text/plain; charset=utf-8");
}

static void add_cache(struct sc_ds_fields *fields, const struct sc_ds_face *face,
		      const struct sc_ds_answer *answer)
{
	const char *value = NULL;

	if (answer->cache == SC_DS_CACHE_NO_STORE)
		value = "no-store";
	else if (answer->cache == SC_DS_CACHE_NO_CACHE)
		value = "no-cache";
	else if (answer->cache == SC_DS_CACHE_KEYS)
		value = "public, max-age=300";
	else if (answer->cache == SC_DS_CACHE_HISTORY)
		value = face->private_cache ? "private, max-age=60, stale-while-revalidate=300"
					    : "public, max-age=60, stale-while-revalidate=300";
	if (value)
		sc_ds_fields_add(fields, "Cache-Control", value);
	if (answer->cache == SC_DS_CACHE_NO_CACHE)
		sc_ds_fields_add(fields, "X-Accel-Buffering", "no");
}

static void add_offset(struct sc_ds_fields *fields, const struct sc_ds_answer *answer)
{
	char offset[SC_DS_OFFSET_TEXT];

	if (!answer->has_next)
		return;
	sc_ds_offset_format(answer->next, offset);
	add_copy(fields, "Stream-Next-Offset", offset, SC_DS_OFFSET_LEN);
}

static void add_life(struct sc_ds_fields *fields, const struct sc_ds_answer *answer)
{
	char time[SC_DS_TIME_TEXT];

	if (answer->has_ttl)
		add_number(fields, "Stream-TTL", answer->ttl_s);
	if (!answer->has_expiry)
		return;
	sc_ds_time_format(answer->expires_us, time);
	add_copy(fields, "Stream-Expires-At", time, strlen(time));
}

static void add_producer(struct sc_ds_fields *fields, const struct sc_ds_answer *answer)
{
	if (answer->has_epoch)
		add_number(fields, "Producer-Epoch", answer->epoch);
	if (answer->has_seq)
		add_number(fields, "Producer-Seq", answer->seq);
	if (!answer->has_expected)
		return;
	add_number(fields, "Producer-Expected-Seq", answer->expected);
	add_number(fields, "Producer-Received-Seq", answer->received);
}

void sc_ds_fields_make(struct sc_ds_fields *ret_fields, const struct sc_ds_face *face,
		       struct sc_ds_answer *answer, const char *location)
{
	ret_fields->count = ret_fields->used = 0;
	add_type(ret_fields, answer);
	add_offset(ret_fields, answer);
	if (answer->up_to_date)
		sc_ds_fields_add(ret_fields, "Stream-Up-To-Date", "true");
	if (answer->closed)
		sc_ds_fields_add(ret_fields, "Stream-Closed", "true");
	add_producer(ret_fields, answer);
	add_life(ret_fields, answer);
	if (answer->base64)
		sc_ds_fields_add(ret_fields, "Stream-SSE-Data-Encoding", "base64");
	if (answer->etag[0])
		sc_ds_fields_add(ret_fields, "ETag", answer->etag);
	if (answer->cursor[0])
		sc_ds_fields_add(ret_fields, "Stream-Cursor", answer->cursor);
	add_cache(ret_fields, face, answer);
	if (answer->retry_after_s)
		add_number(ret_fields, "Retry-After", answer->retry_after_s);
	if (location)
		sc_ds_fields_add(ret_fields, "Location", location);
	if (answer->status == 405)
		sc_ds_fields_add(ret_fields, "Allow", SC_DS_METHODS);
	if (answer->status == 401)
		sc_ds_fields_add(ret_fields, "WWW-Authenticate", "Bearer");
}

int sc_ds_fields_put(const struct sc_ds_fields *fields, struct sc_bytes *out)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < fields->count; i++) {
		rc = sc_bytes_puts(out, fields->items[i].name);
		if (rc == 0)
			rc = sc_bytes_put(out, ": ", 2);
		if (rc == 0)
			rc = sc_bytes_puts(out, fields->items[i].value);
		if (rc == 0)
			rc = sc_bytes_put(out, "\r\n", 2);
	}
	return rc;
}

struct sc_span *sc_ds_request_field(struct sc_ds_request *request, struct sc_span name)
{
#define FIELD(text, member) \
	{ \
		text, sizeof(text) - 1, offsetof(struct sc_ds_request, member) \
	}
	static const struct {
		const char *name;
		size_t len, at;
	} known[] = {
		FIELD("Content-Type", content_type),
		FIELD("Stream-TTL", ttl),
		FIELD("Stream-Expires-At", expires_at),
		FIELD("Stream-Closed", closed),
		FIELD("Stream-Seq", seq),
		FIELD("Stream-Forked-From", forked_from),
		FIELD("Stream-Fork-Offset", fork_offset),
		FIELD("Stream-Fork-Sub-Offset", fork_sub_offset),
		FIELD("Producer-Id", producer_id),
		FIELD("Producer-Epoch", producer_epoch),
		FIELD("Producer-Seq", producer_seq),
		FIELD("If-None-Match", if_none_match),
	};
#undef FIELD

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (known[i].len == name.len &&
		    strncasecmp(known[i].name, name.data, name.len) == 0)
			return (struct sc_span *)((char *)request + known[i].at);
	return NULL;
}
