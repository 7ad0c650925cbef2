/* request.c: one message, and the replies that refer to it. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "msg/pack.h"
#include "msg/ulid.h"
#include "sc-node.h"

#define LONGEST_MS ((int64_t)24 * 3600 * 1000)

struct request {
	struct hub hub;
	struct sc_bytes store;
	struct sc_msg msg;
	struct sc_ulid uid;
	int64_t replies;
};

/* [endpoint, uid] or [endpoint, uid, expires] */
static int pack_args(const struct request *r, int64_t expires_s, struct sc_bytes *out,
		     struct sc_err *err)
{
	if (sc_pack_array(out, expires_s ? 3 : 2) < 0 ||
	    sc_pack_str(out, sc_span_str(r->hub.endpoint)) < 0 ||
	    sc_pack_bin(out, sc_ulid_span(&r->uid)) < 0 ||
	    (expires_s && sc_pack_i64(out, expires_s) < 0))
		return sc_err_nomem(err, "cannot send a request");
	return 0;
}

static int subscribe_as(struct request *r, int64_t expires_s, struct sc_err *err)
{
	struct sc_bytes args;
	int rc;

	sc_bytes_init(&args, 1024);
	rc = pack_args(r, expires_s, &args, err);
	if (rc == 0)
		rc = hub_command(&r->hub, "subscribe.message", sc_span(args.data, args.len), true,
				 0, err);
	sc_bytes_done(&args);
	return rc;
}

/* The published server knows the form without an expiry only, which is for one reply elsewhere, and
 * passes over the other one, which takes the first one's place elsewhere. */
static int subscribe(struct request *r, struct sc_err *err)
{
	int64_t us = sc_wall_us(), ms = r->hub.o->timeout_ms;
	int rc = 0;

	if (r->hub.o->order != SC_NODE_DOCUMENT)
		rc = subscribe_as(r, 0, err);
	/* whole seconds, upwards */
	return rc < 0 ? rc : subscribe_as(r, us / 1000000 + (ms + 999) / 1000 + 1, err);
}

static void end(struct request *r)
{
	struct sc_msg msg = {
		.channel = SC_SPAN(SC_MSG_SYSTEM),
		.subject = SC_SPAN("unsubscribe.message"),
	};
	struct sc_bytes args;
	struct sc_err err;

	sc_bytes_init(&args, 1024);
	if (!r->hub.o->keep && pack_args(r, 0, &args, &err) == 0) {
		msg.data = sc_span(args.data, args.len);
		(void)sc_node_link_say(r->hub.link, &msg, &err); /* it expires anyway */
	}
	sc_bytes_done(&args);
	hub_end(&r->hub);
}

static void on_ready(struct hub *h)
{
	struct request *r = h->arg;
	struct sc_err err;

	if (sc_node_link_put(h->link, &r->msg, 0, &err) < 0)
		hub_fail(h, &err);
}

static void on_settled(struct hub *h, const struct sc_node_news *news)
{
	struct request *r = h->arg;
	struct sc_span data = news->msg.data;
	struct sc_packed item;
	struct sc_err err;

	if (news->kind == SC_NODE_REFUSED) {
		end(r);
		return;
	}
	if (!sc_packed_next(&data, &item) || item.kind != SC_PACKED_UINT || item.u > 0 ||
	    r->replies)
		return;
	sc_err_set(&err, SC_E_NOBODY, "cannot get a reply",
		   "nobody is subscribed to subject '%.*s' of channel '%.*s'",
		   (int)(r->msg.subject.len < 100 ? r->msg.subject.len : 100), r->msg.subject.data,
		   (int)(r->msg.channel.len < 100 ? r->msg.channel.len : 100), r->msg.channel.data);
	sc_err_next(&err, "start a responder: sc-node reply");
	hub_fail(h, &err);
}

static bool ends_with(struct sc_span text, const char *end)
{
	size_t len = strlen(end);

	return text.len >= len && memcmp(text.data + text.len - len, end, len) == 0;
}

/* What the responder says of its failure goes where words go. */
static int print_exception(struct request *r, const struct sc_msg *msg)
{
	struct sc_bytes line;
	struct sc_err err;
	int rc;

	r->hub.partial = true;
	sc_bytes_init(&line, SIZE_MAX / 2);
	rc = sc_msg_line_print(msg, r->hub.o->full ? SC_MSG_OBJECT : SC_MSG_BARE, &line, &err);
	if (rc == 0)
		rc = sc_write_all(STDERR_FILENO, line.data, line.len, "standard error", &err);
	sc_bytes_done(&line);
	if (rc < 0)
		hub_fail(&r->hub, &err);
	return rc;
}

static void on_message(struct hub *h, const struct sc_msg *msg)
{
	struct request *r = h->arg;
	struct sc_span uid = sc_ulid_span(&r->uid);
	bool ours = msg->reference.len == uid.len &&
		    memcmp(msg->reference.data, uid.data, uid.len) == 0;
	struct sc_err err;
	int rc = 0;

	if (ours && ends_with(msg->subject, ".exception"))
		rc = print_exception(r, msg);
	else if (ours)
		rc = hub_print(h, msg, h->o->full ? SC_MSG_OBJECT : SC_MSG_BARE);
	if (rc < 0)
		return;
	if (sc_node_link_ack(h->link, &err) < 0) {
		hub_fail(h, &err);
		return;
	}
	r->replies += ours;
	if (r->replies >= h->o->replies)
		end(r);
	else
		sc_node_link_done(h->link);
}

static void on_late(struct hub *h)
{
	struct request *r = h->arg;
	struct sc_err err;

	sc_err_set(&err, SC_E_TIMEOUT, "cannot get a reply", "%lld of %lld came within %lld ms",
		   (long long)r->replies, (long long)h->o->replies, (long long)h->o->timeout_ms);
	hub_fail(h, &err);
}

static const struct hub_verb verb = {
	.ready = on_ready,
	.message = on_message,
	.settled = on_settled,
	.late = on_late,
	.prints = true,
};

static int make(struct request *r, const struct node_opts *o, char *const *operands,
		struct sc_err *err)
{
	struct sc_ulid_maker maker = { 0 };
	char uid[SC_ULID_TEXT];
	struct sc_bytes json;
	int rc;

	r->uid = sc_ulid_make(&maker, sc_wall_us() / 1000);
	sc_ulid_text(&r->uid, uid);
	sc_bytes_init(&json, SIZE_MAX / 2);
	rc = read_json(operands[2], o->message_max * LINE_FACTOR, &json, err);
	if (rc == 0)
		rc = sc_msg_line_make(operands[0], operands[1], o->reference, uid,
				      sc_span(json.data, json.len), &r->store, &r->msg, err);
	sc_bytes_done(&json);
	if (rc == SC_E_DATA && !(operands[2] && strcmp(operands[2], "-") == 0))
		err->code = rc = SC_E_USAGE;
	return rc == 0 ? check_size(o, &r->msg, err) : rc;
}

int run_request(const void *given, char *const *operands, struct sc_err *err)
{
	struct node_opts o = *(const struct node_opts *)given;
	struct request r = { .replies = 0 };
	int rc;

	/* a subscription ends some time, so that what a killed request leaves goes away */
	if (o.timeout_ms < 0 || o.timeout_ms > LONGEST_MS)
		o.timeout_ms = LONGEST_MS;
	sc_bytes_init(&r.store, SIZE_MAX / 2);
	rc = make(&r, &o, operands, err);
	if (rc == 0)
		rc = hub_open(&r.hub, &o, 1, &verb, &r, err);
	if (rc == 0) {
		rc = subscribe(&r, err);
		if (rc == 0)
			rc = hub_run(&r.hub, err);
		hub_close(&r.hub);
	}
	sc_bytes_done(&r.store);
	return rc;
}
