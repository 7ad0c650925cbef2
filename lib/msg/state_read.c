/* msg/state_read.c: the state of a broker, read: checked as a whole, then taken. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "json/scan.h"
#include "msg/broker_internal.h"
#include "msg/state.h"
#include "msg/state_internal.h"

#define FIELDS_MAX 5

/* One array of the file. */
struct record {
	struct sc_packed fields[FIELDS_MAX];
	uint32_t count;
};

struct in {
	struct sc_broker *b;
	const char *path;
	struct sc_err *err;
	struct sc_span rest;               /* not taken yet */
	int64_t offset_us;                 /* from wall to mono */
	struct sc_queue *queue;            /* of the object named last */
	struct sc_broker_channel *channel; /* if that is one */
	struct sc_parcel **messages;
	size_t message_count, message_cap;
};

static int damaged(struct in *in, const char *why)
{
	sc_err_set(in->err, SC_E_DATA, "cannot use", "%s", why);
	sc_err_on(in->err, "state file", in->path);
	sc_err_next(in->err, "move it away to start without what it holds, or give --no-state");
	return SC_E_DATA;
}

static int no_memory(struct in *in)
{
	return sc_err_nomem(in->err, "cannot load the state");
}

/* The next array, moved behind; false: no array of scalars. */
static bool take(struct sc_span *rest, struct record *ret_record)
{
	struct sc_packed head;
	size_t len;

	if (sc_packed_value(*rest, &len) != SC_PACKED_OK || !sc_packed_next(rest, &head) ||
	    head.kind != SC_PACKED_ARRAY || head.count < 1 || head.count > FIELDS_MAX)
		return false;
	ret_record->count = head.count;
	for (uint32_t i = 0; i < head.count; i++) {
		struct sc_packed *field = &ret_record->fields[i];

		if (!sc_packed_next(rest, field) || field->kind == SC_PACKED_ARRAY ||
		    field->kind == SC_PACKED_MAP)
			return false;
	}
	return ret_record->fields[0].kind == SC_PACKED_STR;
}

static bool is(const struct record *r, const char *kind, uint32_t fields)
{
	return r->count == fields + 1 && sc_span_is(r->fields[0].bytes, kind);
}

static bool has_u64(const struct record *r, int i, uint64_t most)
{
	return r->fields[i].kind == SC_PACKED_UINT && r->fields[i].u <= most;
}

static bool has_name(const struct record *r, int i, size_t least)
{
	return r->fields[i].kind == SC_PACKED_STR && r->fields[i].bytes.len >= least &&
	       r->fields[i].bytes.len <= SC_MSG_NAME_MAX && sc_utf8_valid(r->fields[i].bytes);
}

/* Size or nil. */
static bool has_size(const struct record *r, int i)
{
	return r->fields[i].kind == SC_PACKED_NIL ||
	       (has_u64(r, i, SC_BROKER_SIZE_MAX) && r->fields[i].u > 0);
}

/* First the frame: head, tail, their count and the sum over all. */
static int check(struct in *in)
{
	struct sc_span rest = in->rest, before = rest;
	struct record r;
	uint64_t arrays = 0;

	if (!take(&rest, &r) || !is(&r, SC_STATE_KIND, 2))
		return damaged(in, "it is no state file");
	if (!has_u64(&r, 1, UINT64_MAX) || r.fields[1].u != SC_STATE_VERSION)
		return damaged(in, "it is of a version that this program does not know");
	do {
		arrays++;
		before = rest;
		if (!take(&rest, &r))
			return damaged(in, "it is damaged, or not all of it is there");
	} while (!is(&r, "end", 2));
	if (rest.len)
		return damaged(in, "it is damaged: there is more behind its end");
	if (!has_u64(&r, 1, UINT64_MAX) || r.fields[1].u != arrays)
		return damaged(in, "it is damaged: its count is wrong");
	if (!has_u64(&r, 2, UINT32_MAX) ||
	    r.fields[2].u != sc_state_crc(0, in->rest.data, in->rest.len - before.len))
		return damaged(in, "it is damaged: its checksum is wrong");
	return 0;
}

/* A limit, or memory. */
static int no_room(struct in *in, int rc)
{
	return rc == SC_E_BUSY ? damaged(in, "it holds more than the broker's limits allow")
			       : no_memory(in);
}

static int load_channel(struct in *in, const struct record *r)
{
	struct sc_broker_channel *c;
	int rc;

	if (!has_name(r, 1, 1) || r->fields[2].kind != SC_PACKED_BOOL || !has_size(r, 3) ||
	    !has_u64(r, 4, SC_QUEUE_SYSTEM - 1))
		return damaged(in, "a channel in it is wrong");
	rc = sc_broker_channel_need(in->b, r->fields[1].bytes, &c);
	if (rc < 0)
		return no_room(in, rc);
	c->kept = r->fields[2].truth;
	c->sized = r->fields[3].kind == SC_PACKED_UINT;
	if (c->sized)
		sc_queue_resize(&c->queue, (uint32_t)r->fields[3].u);
	c->priority = (unsigned char)r->fields[4].u;
	in->channel = c;
	in->queue = &c->queue;
	return 0;
}

static int load_endpoint(struct in *in, const struct record *r)
{
	struct sc_broker_endpoint *e;
	int rc;

	if (!has_name(r, 1, 1) || r->fields[2].kind != SC_PACKED_BOOL || !has_size(r, 3))
		return damaged(in, "an endpoint in it is wrong");
	rc = sc_broker_endpoint_need(in->b, r->fields[1].bytes, &e);
	if (rc < 0)
		return no_room(in, rc);
	e->kept = r->fields[2].truth;
	e->sized = r->fields[3].kind == SC_PACKED_UINT;
	if (e->sized)
		sc_queue_resize(&e->queue, (uint32_t)r->fields[3].u);
	in->channel = NULL;
	in->queue = &e->queue;
	return 0;
}

static int keep_message(struct in *in, struct sc_parcel *p)
{
	if (in->message_count == in->message_cap) {
		size_t cap = in->message_cap ? in->message_cap * 2 : 256;
		struct sc_parcel **grown = sc_realloc(in->messages,
						      cap * sizeof(struct sc_parcel *));

		if (!grown)
			return no_memory(in);
		in->messages = grown;
		in->message_cap = cap;
	}
	in->messages[in->message_count++] = p;
	return 0;
}

static int load_message(struct in *in, const struct record *r)
{
	struct sc_msg_reading reading;
	struct sc_parcel *p;
	int rc;

	if (!has_u64(r, 1, UINT64_MAX) || r->fields[1].u != in->message_count + 1 ||
	    !has_u64(r, 2, INT64_MAX) || !has_u64(r, 3, INT64_MAX / 2000) ||
	    r->fields[4].kind != SC_PACKED_BIN ||
	    sc_msg_read(r->fields[4].bytes, &reading) != SC_MSG_OK)
		return damaged(in, "a message in it is wrong");
	p = sc_parcel_new(&in->b->totals, &reading.msg, SC_MSG_DOCUMENT);
	if (!p)
		return no_memory(in);
	p->seq = r->fields[2].u;
	if (p->seq > in->b->seq)
		in->b->seq = p->seq;
	p->accepted_us = (int64_t)r->fields[3].u * 1000 - in->offset_us;
	if (p->accepted_us > in->b->mono_us)
		p->accepted_us = in->b->mono_us; /* the wall clock went back */
	rc = keep_message(in, p);
	if (rc < 0)
		sc_parcel_unref(p);
	return rc;
}

static int load_queued(struct in *in, const struct record *r)
{
	int rc;

	if (!in->queue || !has_u64(r, 1, in->channel ? 0 : SC_QUEUE_SYSTEM) ||
	    !has_u64(r, 2, in->message_count) || r->fields[2].u == 0)
		return damaged(in, "a queue in it is wrong");
	rc = sc_queue_push(in->queue, (unsigned)r->fields[1].u, in->messages[r->fields[2].u - 1]);
	if (rc < 0)
		return no_memory(in);
	if (in->channel)
		sc_broker_channel_wait(in->b, in->channel);
	return 0;
}

static int load_subscription(struct in *in, const struct record *r)
{
	struct sc_broker_endpoint *e;
	int rc;

	if (!has_name(r, 1, 1) || !has_name(r, 2, 1) || !has_name(r, 3, 0) ||
	    !(e = sc_broker_endpoint_find(in->b, r->fields[1].bytes)))
		return damaged(in, "a subscription in it is wrong");
	rc = sc_broker_subscribe(in->b, e, r->fields[2].bytes, r->fields[3].bytes);
	return rc < 0 ? no_room(in, rc) : 0;
}

static int load_await(struct in *in, const struct record *r)
{
	const struct sc_packed *uid = &r->fields[2];
	struct sc_broker_endpoint *e;
	int rc;

	if (!has_name(r, 1, 1) || uid->kind != SC_PACKED_BIN || uid->bytes.len < 1 ||
	    uid->bytes.len > SC_MSG_UID_MAX || !has_u64(r, 3, INT64_MAX) ||
	    r->fields[4].kind != SC_PACKED_BOOL ||
	    !(e = sc_broker_endpoint_find(in->b, r->fields[1].bytes)))
		return damaged(in, "a message subscription in it is wrong");
	if ((int64_t)r->fields[3].u <= in->b->wall_us)
		return 0;
	rc = sc_broker_await(in->b, e, uid->bytes, (int64_t)r->fields[3].u, r->fields[4].truth);
	return rc < 0 ? no_room(in, rc) : 0;
}

static int load(struct in *in, const struct record *r)
{
	if (is(r, "channel", 4))
		return load_channel(in, r);
	if (is(r, "endpoint", 3))
		return load_endpoint(in, r);
	if (is(r, "message", 4))
		return load_message(in, r);
	if (is(r, "queued", 2))
		return load_queued(in, r);
	if (is(r, "subscription", 3))
		return load_subscription(in, r);
	if (is(r, "await", 4))
		return load_await(in, r);
	return damaged(in, "it holds something that this program does not know");
}

/* Endpoints that only an expired message subscription had kept. */
static void settle(struct sc_broker *b)
{
	struct sc_broker_link *at = b->endpoint_list.next, *next;

	for (; at != &b->endpoint_list; at = next) {
		next = at->next;
		sc_broker_endpoint_settle(b, SC_BROKER_OF(at, struct sc_broker_endpoint, link));
	}
}

static int load_all(struct in *in)
{
	struct record r;
	int rc = check(in);

	if (rc < 0)
		return rc;
	(void)take(&in->rest, &r); /* the head */
	while (rc == 0 && take(&in->rest, &r) && !is(&r, "end", 2)) {
		rc = load(in, &r);
		in->b->event_count = 0; /* nobody is there to be told */
	}
	for (size_t i = 0; i < in->message_count; i++)
		sc_parcel_unref(in->messages[i]);
	free(in->messages);
	if (rc == 0)
		settle(in->b);
	return rc;
}

int sc_state_read(const char *path, struct sc_broker *broker, struct sc_err *err)
{
	struct in in = { .b = broker,
			 .path = path,
			 .err = err,
			 .offset_us = broker->wall_us - broker->mono_us };
	struct sc_bytes file;
	struct sc_err own;
	int rc;

	sc_bytes_init(&file, SIZE_MAX / 4);
	rc = sc_read_file(path, &file, err ? err : &own);
	if (rc == 0) {
		in.rest = sc_span(file.data, file.len);
		rc = load_all(&in);
		rc = rc < 0 ? rc : 1;
	} else if (rc == SC_E_NOLOG) {
		rc = 0;
	}
	sc_bytes_done(&file);
	return rc;
}
