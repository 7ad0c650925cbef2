/* msg/node.c: what a node has said and heard. */
#include "msg/node.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "msg/pack.h"
#include "msg/ulid.h"

#define KEPT_MAX 4096 /* subscriptions of one node */

/* A message of our own; its spans lie in its store. */
struct entry {
	struct sc_bytes store;
	struct sc_msg msg;
	uint64_t tag;
	bool settled;
};

struct sc_node {
	enum sc_node_order asked;
	enum sc_msg_order order;
	bool answered; /* the peer has said something, ever */
	/* what was put: a ring, each place with a buffer that is used again */
	struct entry *ring;
	size_t window, first, count, sent;
	size_t settled; /* in the ring, behind one that is not */
	struct entry *kept;
	size_t kept_count, kept_cap, kept_sent, kept_acked;
	struct sc_ulid_maker maker;
	struct sc_span last_uid;    /* of what was put last */
	char stats[SC_MSG_UID_MAX]; /* of the last stats command */
	size_t stats_len;
	struct sc_bytes acks; /* uids to be acknowledged, each behind a byte with its length */
	size_t acks_at;
};

int sc_node_new(enum sc_node_order order, size_t window, struct sc_node **ret_node,
		struct sc_err *err)
{
	struct sc_node *n = sc_calloc(1, sizeof(*n));

	if (!n)
		return sc_err_nomem(err, "cannot set up the node");
	n->asked = order;
	n->order = order == SC_NODE_REFERENCE ? SC_MSG_REFERENCE : SC_MSG_DOCUMENT;
	n->window = window ? window : 1;
	n->ring = sc_calloc(n->window, sizeof(*n->ring));
	if (!n->ring) {
		sc_node_free(n);
		return sc_err_nomem(err, "cannot set up the node");
	}
	for (size_t i = 0; i < n->window; i++)
		sc_bytes_init(&n->ring[i].store, SIZE_MAX / 2);
	sc_bytes_init(&n->acks, SIZE_MAX / 2);
	*ret_node = n;
	return 0;
}

void sc_node_free(struct sc_node *n)
{
	if (!n)
		return;
	for (size_t i = 0; n->ring && i < n->window; i++)
		sc_bytes_done(&n->ring[i].store);
	for (size_t i = 0; i < n->kept_count; i++)
		sc_bytes_done(&n->kept[i].store);
	sc_bytes_done(&n->acks);
	free(n->ring);
	free(n->kept);
	free(n);
}

static struct entry *ring_at(const struct sc_node *n, size_t i)
{
	return &n->ring[(n->first + i) % n->window];
}

static struct sc_span take_span(const char **at, size_t len)
{
	struct sc_span span = sc_span(*at, len);

	*at += len;
	return span;
}

/* MSG into the entry's own store, with a uid in any case. */
static int copy_into(struct sc_node *n, struct entry *e, const struct sc_msg *msg,
		     struct sc_err *err)
{
	struct sc_ulid ulid = sc_ulid_make(&n->maker, sc_wall_us() / 1000);
	struct sc_span uid = msg->uid.len ? msg->uid : sc_ulid_span(&ulid);
	size_t len = uid.len + msg->channel.len + msg->subject.len + msg->reference.len +
		     msg->data.len;
	const char *at;

	sc_bytes_clear(&e->store);
	if (sc_bytes_reserve(&e->store, len + 1) < 0)
		return sc_err_nomem(err, "cannot keep a message");
	(void)sc_bytes_put(&e->store, uid.data, uid.len);
	(void)sc_bytes_put(&e->store, msg->channel.data, msg->channel.len);
	(void)sc_bytes_put(&e->store, msg->subject.data, msg->subject.len);
	(void)sc_bytes_put(&e->store, msg->reference.data, msg->reference.len);
	(void)sc_bytes_put(&e->store, msg->data.data, msg->data.len);
	at = e->store.data;
	e->msg.uid = take_span(&at, uid.len);
	e->msg.channel = take_span(&at, msg->channel.len);
	e->msg.subject = take_span(&at, msg->subject.len);
	e->msg.reference = take_span(&at, msg->reference.len);
	if (!msg->reference.data)
		e->msg.reference.data = NULL;
	e->msg.data = take_span(&at, msg->data.len);
	n->last_uid = e->msg.uid;
	if (sc_span_is(msg->channel, SC_MSG_SYSTEM) &&
	    sc_msg_command(msg->subject) == SC_MSG_STATS && uid.len <= SC_MSG_UID_MAX) {
		memcpy(n->stats, uid.data, uid.len);
		n->stats_len = uid.len;
	}
	return 0;
}

int sc_node_put(struct sc_node *n, const struct sc_msg *msg, uint64_t tag, struct sc_err *err)
{
	struct entry *e = ring_at(n, n->count);
	int rc;

	if (n->count == n->window)
		return sc_err_set(err, SC_E_BUSY, "cannot send a message",
				  "%zu wait for an answer already", n->count);
	rc = copy_into(n, e, msg, err);
	if (rc < 0)
		return rc;
	e->tag = tag;
	e->settled = false;
	n->count++;
	return 0;
}

int sc_node_keep(struct sc_node *n, const struct sc_msg *msg, uint64_t tag, struct sc_err *err)
{
	int rc;

	if (n->kept_count == KEPT_MAX)
		return sc_err_set(err, SC_E_USAGE, "cannot subscribe", "%d patterns are the limit",
				  KEPT_MAX);
	if (n->kept_count == n->kept_cap) {
		size_t cap = n->kept_cap ? 2 * n->kept_cap : 8;
		struct entry *grown = sc_realloc(n->kept, cap * sizeof(*grown));

		if (!grown)
			return sc_err_nomem(err, "cannot subscribe");
		n->kept = grown;
		n->kept_cap = cap;
	}
	n->kept[n->kept_count] = (struct entry){ .tag = tag };
	sc_bytes_init(&n->kept[n->kept_count].store, SIZE_MAX / 2);
	rc = copy_into(n, &n->kept[n->kept_count], msg, err);
	if (rc < 0) {
		sc_bytes_done(&n->kept[n->kept_count].store);
		return rc;
	}
	n->kept_count++;
	return 0;
}

size_t sc_node_room(const struct sc_node *n)
{
	return n->window - n->count;
}

size_t sc_node_waiting(const struct sc_node *n)
{
	return n->count - n->settled;
}

bool sc_node_ready(const struct sc_node *n)
{
	return n->kept_acked == n->kept_count;
}

enum sc_msg_order sc_node_speaks(const struct sc_node *n)
{
	return n->order;
}

bool sc_node_answered(const struct sc_node *n)
{
	return n->answered;
}

struct sc_span sc_node_last_uid(const struct sc_node *n)
{
	return n->last_uid;
}

static void drop_acks(struct sc_node *n)
{
	sc_bytes_clear(&n->acks);
	n->acks_at = 0;
}

void sc_node_opened(struct sc_node *n)
{
	n->sent = 0;
	n->kept_sent = n->kept_acked = 0;
	for (size_t i = 0; i < n->kept_count; i++)
		n->kept[i].settled = false;
	drop_acks(n);
}

bool sc_node_closed(struct sc_node *n, uint16_t code)
{
	bool said = n->sent > 0 || n->kept_sent > 0;

	drop_acks(n);
	if (n->asked != SC_NODE_AUTO || n->order != SC_MSG_DOCUMENT || n->answered || !said ||
	    code != 1000)
		return false;
	n->order = SC_MSG_REFERENCE;
	return true;
}

int sc_node_ack(struct sc_node *n, struct sc_span uid, struct sc_err *err)
{
	if (uid.len > SC_MSG_UID_MAX || sc_bytes_reserve(&n->acks, 1 + uid.len) < 0)
		return sc_err_nomem(err, "cannot acknowledge a message");
	(void)sc_bytes_putc(&n->acks, (char)uid.len);
	return sc_bytes_put(&n->acks, uid.data, uid.len);
}

/* The ack that is due first. */
static int write_ack(struct sc_node *n, struct sc_bytes *out)
{
	struct sc_ulid ulid = sc_ulid_make(&n->maker, sc_wall_us() / 1000);
	const char *at = n->acks.data + n->acks_at;
	struct sc_msg ack = {
		.uid = sc_ulid_span(&ulid),
		.channel = SC_SPAN(SC_MSG_SYSTEM),
		.subject = SC_SPAN("ack"),
		.reference = sc_span(at + 1, (unsigned char)*at),
		.data = SC_SPAN("\xc0"),
	};
	int rc = sc_msg_write(out, &ack, n->order);

	if (rc < 0)
		return rc;
	n->acks_at += 1 + ack.reference.len;
	if (n->acks_at == n->acks.len)
		drop_acks(n);
	return 0;
}

int sc_node_write(struct sc_node *n, const struct sc_msg *msg, struct sc_bytes *out,
		  struct sc_err *err)
{
	struct sc_ulid ulid = sc_ulid_make(&n->maker, sc_wall_us() / 1000);
	struct sc_msg whole = *msg;

	if (!whole.uid.len)
		whole.uid = sc_ulid_span(&ulid);
	if (sc_msg_write(out, &whole, n->order) < 0)
		return sc_err_nomem(err, "cannot send a message");
	return 0;
}

int sc_node_next(struct sc_node *n, struct sc_bytes *out, struct sc_err *err)
{
	int rc;

	if (n->acks.len) {
		rc = write_ack(n, out);
	} else if (n->kept_sent < n->kept_count) {
		rc = sc_msg_write(out, &n->kept[n->kept_sent].msg, n->order);
		if (rc == 0)
			n->kept_sent++;
	} else {
		while (n->sent < n->count && ring_at(n, n->sent)->settled)
			n->sent++;
		if (n->sent == n->count)
			return 0;
		rc = sc_msg_write(out, &ring_at(n, n->sent)->msg, n->order);
		if (rc == 0)
			n->sent++;
	}
	return rc < 0 ? sc_err_nomem(err, "cannot send a message") : 1;
}

static bool same(struct sc_span a, struct sc_span b)
{
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

/* What the answer with that reference is to. NULL: nothing of ours. */
static struct entry *find(struct sc_node *n, struct sc_span uid, bool *ret_kept)
{
	if (uid.len == 0)
		return NULL;
	*ret_kept = true;
	for (size_t i = 0; i < n->kept_sent; i++)
		if (!n->kept[i].settled && same(n->kept[i].msg.uid, uid))
			return &n->kept[i];
	*ret_kept = false;
	for (size_t i = 0; i < n->sent; i++) {
		struct entry *e = ring_at(n, i);

		if (!e->settled && same(e->msg.uid, uid))
			return e;
	}
	return NULL;
}

static bool settle(struct sc_node *n, struct sc_span uid, struct sc_node_news *news)
{
	struct entry *e = find(n, uid, &news->kept);

	if (!e)
		return false;
	news->tag = e->tag;
	e->settled = true;
	if (news->kept) {
		n->kept_acked++;
		return true;
	}
	n->settled++;
	while (n->count && n->ring[n->first].settled) {
		n->first = (n->first + 1) % n->window;
		n->count--;
		n->settled--;
		if (n->sent)
			n->sent--;
	}
	return true;
}

/* [CODE, TEXT], both str; what is not stays empty. */
static void read_error(struct sc_span data, struct sc_node_news *news)
{
	struct sc_packed item;
	uint32_t count;

	if (!sc_packed_next(&data, &item) || item.kind != SC_PACKED_ARRAY)
		return;
	count = item.count;
	if (count < 1 || !sc_packed_next(&data, &item) || item.kind != SC_PACKED_STR)
		return;
	news->code = item.bytes;
	if (count > 1 && sc_packed_next(&data, &item) && item.kind == SC_PACKED_STR)
		news->text = item.bytes;
}

/* Else it is delivered. */
static void take_control(struct sc_node *n, struct sc_node_news *news)
{
	const struct sc_msg *m = &news->msg;

	if (!sc_span_is(m->channel, SC_MSG_SYSTEM))
		return;
	if (sc_span_is(m->subject, "ack")) {
		news->kind = settle(n, m->reference, news) ? SC_NODE_ACKED : SC_NODE_NOTHING;
	} else if (sc_span_is(m->subject, SC_MSG_ERROR_SUBJECT)) {
		news->kind = settle(n, m->reference, news) ? SC_NODE_REFUSED : SC_NODE_NOTHING;
		read_error(m->data, news);
	} else if (sc_span_is(m->subject, SC_MSG_STOPPING_SUBJECT)) {
		news->kind = SC_NODE_STOPPING;
	} else if (sc_span_is(m->subject, SC_MSG_STATS_SUBJECT) && n->stats_len &&
		   same(m->reference, sc_span(n->stats, n->stats_len))) {
		/* a stats command of others is delivered like any other message */
		news->kind = SC_NODE_STATS;
	}
}

int sc_node_take(struct sc_node *n, struct sc_span payload, struct sc_node_news *ret_news,
		 struct sc_err *err)
{
	struct sc_node_news news = { .kind = SC_NODE_DELIVERED };
	struct sc_msg_reading reading;

	if (sc_msg_read(payload, &reading) != SC_MSG_OK)
		return sc_err_set(err, SC_E_PROTOCOL, "cannot understand the broker",
				  "what it sent is no message: %s", reading.reason);
	n->answered = true;
	news.msg = reading.msg;
	take_control(n, &news);
	*ret_news = news;
	return 0;
}
