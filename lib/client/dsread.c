/* client/dsread.c: see client/dsread.h. */
#include "client/dsread.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/base64.h"
#include "base/file.h"
#include "json/line.h"
#include "json/scan.h"

#define POSITION_MAX UINT64_C(9999999999999999)
#define CURSOR_MAX 64
#define MESSAGE_OVERHEAD 4 /* what a message counts besides its bytes */

static const char tried[] = "cannot read";
static const char doubt[] =
	"is this a Durable Streams server? to one of sc-serve say --protocol streamcast";

struct sc_dsread {
	struct sc_bytes target; /* with '?' or '&' behind it */
	enum sc_ds_live live;
	bool until_end;
	char offset[SC_DS_OFFSET_MAX], cursor[CURSOR_MAX];
	bool now;  /* the offset is "now": nothing was answered yet */
	bool tail; /* the end was reached: wait for more */
	bool closed, finished;
	unsigned back;
	/* the answer at hand */
	bool json, base64;
	char next[SC_DS_OFFSET_MAX];
	bool up_to_date, answer_closed;
	struct sc_bytes payload, wrapped; /* of an event; a message that is not JSON */
	bool has_payload;
	/* its messages */
	struct sc_json_walk walk;
	bool walking;
	enum { STEPS_UNKNOWN, STEPS_OF_BYTES, STEPS_OF_ONE } steps;
	uint64_t at, end; /* positions; end 0: not known */
	bool more;
	struct sc_json ahead; /* the next one, so that the last one is known as such */
};

void sc_ds_position_text(uint64_t position, char ret_text[SC_DS_POSITION_TEXT])
{
	snprintf(ret_text, SC_DS_POSITION_TEXT, "%016d_%016" PRIu64, 0,
		 position > POSITION_MAX ? POSITION_MAX : position);
}

bool sc_ds_position(struct sc_span offset, uint64_t *ret_position)
{
	return offset.len == 33 && !memcmp(offset.data, "0000000000000000_", 17) &&
	       sc_u64_parse(sc_span(offset.data + 17, 16), ret_position);
}

bool sc_ds_offset_valid(struct sc_span offset)
{
	for (size_t i = 0; i < offset.len; i++) {
		unsigned char c = (unsigned char)offset.data[i];

		if (c <= ' ' || c >= 0x7f || strchr(",&=?/#%+", c))
			return false;
	}
	return offset.len > 0 && offset.len < SC_DS_OFFSET_MAX;
}

static bool is_key(const char *item, size_t len, const char *key)
{
	size_t n = strlen(key);

	return len >= n && !memcmp(item, key, n) && (len == n || item[n] == '=');
}

static int take_target(struct sc_dsread *r, const char *target, struct sc_err *err)
{
	static const char *const ours[] = { "offset", "live", "cursor" };
	const char *query = strchr(target, '?');

	for (const char *at = query ? query + 1 : ""; *at;) {
		size_t len = strcspn(at, "&");

		for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
			if (is_key(at, len, ours[i])) {
				sc_err_set(err, SC_E_USAGE, "cannot subscribe",
					   "the URL's query has %s, which is told by options",
					   ours[i]);
				return sc_err_next(err, "leave it out of the URL");
			}
		at += len + (at[len] == '&');
	}
	if (sc_bytes_puts(&r->target, target) < 0 || sc_bytes_puts(&r->target, !query     ? "?"
									       : query[1] ? "&"
											  : "") < 0)
		return sc_err_nomem(err, "cannot subscribe");
	return 0;
}

int sc_dsread_new(const struct sc_dsread_options *o, struct sc_dsread **ret_dsread,
		  struct sc_err *err)
{
	struct sc_dsread *r = sc_calloc(1, sizeof(*r));
	int rc;

	if (!r)
		return sc_err_nomem(err, "cannot subscribe");
	sc_bytes_init(&r->target, 1 << 20);
	sc_bytes_init(&r->payload, o->held_max);
	sc_bytes_init(&r->wrapped, SIZE_MAX / 4);
	r->live = o->live;
	r->until_end = o->until_end;
	snprintf(r->offset, sizeof(r->offset), "%s", o->offset);
	r->now = !strcmp(o->offset, "now");
	rc = take_target(r, o->target, err);
	if (rc < 0) {
		sc_dsread_free(r);
		return rc;
	}
	*ret_dsread = r;
	return 0;
}

void sc_dsread_free(struct sc_dsread *r)
{
	if (!r)
		return;
	sc_bytes_done(&r->target);
	sc_bytes_done(&r->payload);
	sc_bytes_done(&r->wrapped);
	free(r);
}

bool sc_dsread_waits(const struct sc_dsread *r)
{
	return r->tail;
}

int sc_dsread_target(struct sc_dsread *r, struct sc_bytes *out, struct sc_err *err)
{
	int rc;

	sc_bytes_clear(out);
	rc = sc_bytes_put(out, r->target.data, r->target.len);
	if (rc == 0)
		rc = sc_bytes_putf(out, "offset=%s", r->offset);
	if (rc == 0 && r->tail)
		rc = sc_bytes_puts(out, r->live == SC_DS_SSE ? "&live=sse" : "&live=long-poll");
	if (rc == 0 && r->tail && r->cursor[0])
		rc = sc_bytes_putf(out, "&cursor=%s", r->cursor);
	return rc < 0 ? sc_err_nomem(err, tried) : 0;
}

int sc_ds_status_err(const struct sc_httphead *head, const char *what, struct sc_err *err)
{
	int s = head->status;
	struct sc_span value;
	int code = s == 401 || s == 403               ? SC_E_NOAUTH
		   : s == 404                         ? SC_E_NOLOG
		   : s == 400 || s == 410             ? SC_E_REFUSED
		   : s == 409 || s == 413             ? SC_E_DATA
		   : s == 429 || s == 408 || s >= 500 ? SC_E_BUSY
						      : SC_E_PROTOCOL;

	sc_err_set(err, code, what, "the server answered %d%s%.*s", s, head->reason.len ? " " : "",
		   (int)(head->reason.len < 80 ? head->reason.len : 80), head->reason.data);
	sc_err_field_int(err, "http_status", s);
	if (code == SC_E_NOAUTH)
		sc_err_next(err, "check the token, user or certificate");
	else if (s == 404)
		sc_err_next(err, "check the path of the URL; a stream may have expired");
	else if (s >= 300 && s < 400 && sc_httphead_find(head, "Location", 0, &value))
		sc_err_next(err, "it redirects to %.*s: use that",
			    (int)(value.len < 180 ? value.len : 180), value.data);
	return code;
}

/* Offsets that each server takes. */
static bool is_common(const char *offset)
{
	return !strcmp(offset, "-1") || !strcmp(offset, "now");
}

static int read_refused(const struct sc_dsread *r, const struct sc_httphead *head,
			struct sc_err *err)
{
	int rc = sc_ds_status_err(head, tried, err);

	if (head->status == 400 && is_common(r->offset)) {
		err->code = rc = SC_E_PROTOCOL;
		sc_err_next(err, "%s", doubt);
	} else if (head->status == 400) {
		sc_err_field_str(err, "why", "offset");
		sc_err_next(err, "is the offset one of this stream? begin with --offset earliest");
	} else if (head->status == 410) {
		sc_err_field_str(err, "why", "gone");
		sc_err_next(err,
			    "the messages there were trimmed, or the stream was deleted; begin "
			    "with --offset earliest and accept the loss");
	}
	return rc;
}

/* A media type without its parameters, in any case. */
static bool is_type(struct sc_span type, const char *want)
{
	size_t n = strlen(want);

	if (type.len < n || strncasecmp(type.data, want, n))
		return false;
	return type.len == n || want[n - 1] == '/' || strchr("; \t", type.data[n]);
}

static int broken(struct sc_err *err, const char *reason)
{
	sc_err_set(err, SC_E_PROTOCOL, tried, "%s", reason);
	return sc_err_next(err, "%s", doubt);
}

static int set_next(struct sc_dsread *r, struct sc_span offset, struct sc_err *err)
{
	if (!sc_ds_offset_valid(offset))
		return broken(err, "the answer names no offset to go on at");
	memcpy(r->next, offset.data, offset.len);
	r->next[offset.len] = '\0';
	return 0;
}

static bool is_true(const struct sc_httphead *head, const char *name)
{
	struct sc_span value;

	return sc_httphead_find(head, name, 0, &value) && value.len == 4 &&
	       !strncasecmp(value.data, "true", 4);
}

static void set_cursor(struct sc_dsread *r, struct sc_span cursor)
{
	for (size_t i = 0; i < cursor.len; i++)
		if (cursor.data[i] < '0' || cursor.data[i] > '9')
			return;
	if (cursor.len < sizeof(r->cursor))
		snprintf(r->cursor, sizeof(r->cursor), "%.*s", (int)cursor.len, cursor.data);
}

/* Offsets rise, byte for byte. */
static bool goes_back(const struct sc_dsread *r)
{
	return !is_common(r->offset) && strcmp(r->next, r->offset) < 0;
}

/* The answer's messages were taken: this is where the next one begins. */
static void move_on(struct sc_dsread *r)
{
	if (goes_back(r)) {
		r->back++;
		return;
	}
	r->back = 0;
	memcpy(r->offset, r->next, sizeof(r->offset));
	r->now = false;
	if (r->up_to_date)
		r->tail = true;
	if (r->answer_closed)
		r->closed = r->finished = true;
	if (r->until_end && r->tail)
		r->finished = true;
}

int sc_dsread_head(struct sc_dsread *r, const struct sc_httphead *head,
		   enum sc_dsread_kind *ret_kind, struct sc_err *err)
{
	struct sc_span type = sc_span("", 0), value;
	int rc;

	if (head->status != 200 && head->status != 204)
		return read_refused(r, head, err);
	sc_httphead_find(head, "Content-Type", 0, &type);
	if (head->status == 200 && r->tail && r->live == SC_DS_SSE) {
		if (!is_type(type, "text/event-stream"))
			return broken(err, "events were asked for, and something else came");
		r->base64 = sc_httphead_find(head, "Stream-SSE-Data-Encoding", 0, &value) &&
			    sc_span_is(value, "base64");
		r->has_payload = false;
		*ret_kind = SC_DS_EVENTS;
		return 0;
	}
	r->json = is_type(type, "application/json");
	if (!sc_httphead_find(head, "Stream-Next-Offset", 0, &value))
		value = sc_span("", 0);
	rc = set_next(r, value, err);
	if (rc < 0)
		return rc;
	r->up_to_date = is_true(head, "Stream-Up-To-Date");
	r->answer_closed = is_true(head, "Stream-Closed");
	if (sc_httphead_find(head, "Stream-Cursor", 0, &value))
		set_cursor(r, value);
	*ret_kind = head->status == 204 ? SC_DS_NOTHING : SC_DS_PAGE;
	if (head->status == 204) {
		r->up_to_date = true;
		move_on(r);
	}
	return 0;
}

/* Do the messages, each with its 4 bytes or each as one, fill the way from the answer's start to
 * its end? */
static void find_steps(struct sc_dsread *r, const struct sc_json *list)
{
	struct sc_json_walk walk;
	struct sc_json item;
	struct sc_span key;
	uint64_t sum = 0, count = 0;

	r->at = 0;
	r->steps = STEPS_UNKNOWN;
	if (!sc_ds_position(sc_span_str(r->next), &r->end)) {
		r->end = 0;
		return;
	}
	if (!strcmp(r->offset, "-1"))
		r->at = 0;
	else if (!sc_ds_position(sc_span_str(r->offset), &r->at))
		return;
	sc_json_walk_init(&walk, list);
	for (; sc_json_walk_next(&walk, &key, &item); count++)
		sum += MESSAGE_OVERHEAD + item.text.len;
	if (r->at + sum == r->end)
		r->steps = STEPS_OF_BYTES;
	else if (r->at + count == r->end)
		r->steps = STEPS_OF_ONE;
}

static int take_list(struct sc_dsread *r, struct sc_span body, struct sc_err *err)
{
	struct sc_json list;
	struct sc_span key;

	if (sc_json_scan(body, &list, NULL) < 0 || list.kind != SC_JSON_ARRAY)
		return broken(err, "a JSON stream answered with something else than an array");
	find_steps(r, &list);
	sc_json_walk_init(&r->walk, &list);
	r->walking = true;
	r->more = sc_json_walk_next(&r->walk, &key, &r->ahead);
	return 0;
}

/* Not JSON: what came is one message, however many appends it was. */
static int take_text(struct sc_dsread *r, struct sc_span body, struct sc_err *err)
{
	r->walking = false;
	if (!sc_ds_position(sc_span_str(r->next), &r->end))
		r->end = 0;
	r->more = body.len > 0;
	if (!r->more)
		return 0;
	sc_bytes_clear(&r->wrapped);
	if (sc_wrap_message(body, false, &r->wrapped) < 0)
		return sc_err_nomem(err, tried);
	r->ahead.text = sc_span(r->wrapped.data, r->wrapped.len);
	r->ahead.newlines = false;
	return 0;
}

int sc_dsread_page(struct sc_dsread *r, struct sc_span body, struct sc_err *err)
{
	int rc = r->json ? take_list(r, body, err) : take_text(r, body, err);

	if (rc == 0 && r->more && goes_back(r)) {
		r->more = false;
		return broken(err, "the answer ends before the offset that was asked for");
	}
	if (rc == 0 && !r->more)
		move_on(r);
	return rc;
}

static int take_control(struct sc_dsread *r, struct sc_span text, struct sc_err *err)
{
	struct sc_json value, member;
	char offset[SC_DS_OFFSET_MAX];
	struct sc_bytes plain;
	int rc;

	if (sc_json_scan(text, &value, NULL) < 0 || value.kind != SC_JSON_OBJECT ||
	    !sc_json_get(&value, "streamNextOffset", &member) || member.kind != SC_JSON_STRING)
		return broken(err, "an event does not say where to go on");
	sc_bytes_init(&plain, sizeof(offset));
	rc = sc_json_unescape(member.text, &plain);
	if (rc == 0)
		rc = set_next(r, sc_span(plain.data ? plain.data : "", plain.len), err);
	else
		rc = broken(err, "an event does not say where to go on");
	sc_bytes_done(&plain);
	r->up_to_date = sc_json_get(&value, "upToDate", &member) && member.kind == SC_JSON_TRUE;
	r->answer_closed = sc_json_get(&value, "streamClosed", &member) &&
			   member.kind == SC_JSON_TRUE;
	if (sc_json_get(&value, "streamCursor", &member) && member.kind == SC_JSON_STRING &&
	    member.text.len > 2)
		set_cursor(r, sc_span(member.text.data + 1, member.text.len - 2));
	return rc;
}

/* Lists of JSON that come apart are one list. */
static int join_lists(struct sc_bytes *list, struct sc_span more, struct sc_err *err)
{
	struct sc_span first = sc_json_trim(sc_span(list->data, list->len)), next;

	more = sc_json_trim(more);
	if (first.len < 2 || first.data[first.len - 1] != ']' || more.len < 2 ||
	    more.data[0] != '[' || more.data[more.len - 1] != ']')
		return broken(err, "a JSON stream answered with something else than an array");
	next = sc_json_trim(sc_span(more.data + 1, more.len - 2));
	if (!next.len)
		return 0;
	list->len = (size_t)(first.data - list->data) + first.len - 1;
	if (sc_json_trim(sc_span(first.data + 1, first.len - 2)).len)
		(void)sc_bytes_putc(list, ','); /* the place of the bracket */
	return sc_bytes_put(list, more.data + 1, more.len - 1);
}

static int put_base64(struct sc_bytes *out, struct sc_span data, struct sc_err *err)
{
	struct sc_bytes text; /* it may be cut into lines */
	int rc;

	sc_bytes_init(&text, SIZE_MAX / 4);
	rc = sc_bytes_reserve(&text, data.len);
	for (size_t i = 0; rc == 0 && i < data.len; i++)
		if (data.data[i] != '\n')
			(void)sc_bytes_putc(&text, data.data[i]);
	if (rc == 0)
		rc = sc_base64_get(out, sc_span(text.data ? text.data : "", text.len));
	sc_bytes_done(&text);
	return rc == SC_E_DATA ? broken(err, "an event's data is not base64") : rc;
}

/* Most servers send one of these in front of a control event; the reference server sends one for
 * each request that it stored. */
static int take_data(struct sc_dsread *r, struct sc_span data, struct sc_err *err)
{
	int rc;

	if (!r->has_payload)
		sc_bytes_clear(&r->payload);
	if (r->base64)
		rc = put_base64(&r->payload, data, err);
	else if (r->json && r->has_payload)
		rc = join_lists(&r->payload, data, err);
	else
		rc = sc_bytes_put(&r->payload, data.data, data.len);
	r->has_payload = true;
	if (rc != SC_E_NOMEM)
		return rc;
	if (!r->payload.full)
		return sc_err_nomem(err, tried);
	sc_err_set(err, SC_E_PROTOCOL, tried, "the answer is longer than %zu bytes",
		   r->payload.max);
	return sc_err_next(err, "allow longer messages with --max-message");
}

int sc_dsread_event(struct sc_dsread *r, const struct sc_sse_event *event, struct sc_err *err)
{
	int rc;

	if (!strcmp(event->name, "data"))
		return take_data(r, event->data, err);
	if (strcmp(event->name, "control") != 0)
		return 0; /* of a later version */
	rc = take_control(r, event->data, err);
	if (rc < 0)
		return rc;
	if (!r->has_payload) {
		move_on(r);
		return 0;
	}
	r->has_payload = false;
	return sc_dsread_page(r, sc_span(r->payload.data ? r->payload.data : "", r->payload.len),
			      err);
}

bool sc_dsread_next(struct sc_dsread *r, struct sc_ds_message *ret_message)
{
	struct sc_span key;

	if (!r->more)
		return false;
	*ret_message = (struct sc_ds_message){ .msg = r->ahead.text,
					       .newlines = r->ahead.newlines };
	r->more = r->walking && sc_json_walk_next(&r->walk, &key, &r->ahead);
	ret_message->last = !r->more;
	r->at += r->steps == STEPS_OF_ONE ? 1 : MESSAGE_OVERHEAD + ret_message->msg.len;
	if (ret_message->last)
		ret_message->position = r->end;
	else if (r->steps)
		ret_message->position = r->at;
	if (ret_message->last)
		move_on(r);
	return true;
}

struct sc_span sc_dsread_offset(const struct sc_dsread *r)
{
	return sc_span_str(r->offset);
}

unsigned sc_dsread_back(const struct sc_dsread *r)
{
	return r->back;
}

bool sc_dsread_finished(const struct sc_dsread *r)
{
	return r->finished && !r->more;
}

bool sc_dsread_closed(const struct sc_dsread *r)
{
	return r->closed;
}
