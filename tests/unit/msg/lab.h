/*
 * tests/unit/msg/lab.h: a broker without sockets, and peers that are lists of what they were sent.
 *
 * Data is written as text: [ 'str' "bin" 12 -3 1.5 nil true ], and so is what was received:
 *     ack U1              an ack of U1 whose data is nil;   ack U1 = 2   with a number
 *     error U1 bad-args   the text of an error is in lab_error
 *     U2 orders/new 5     a message;   U2 orders/new @U1 5   with a reference
 *     * system/node.joined ['a' "n1"]      made by the broker; uids of nodes are their names here
 *     close 1007 REASON
 * Entries are joined by " | "; `got` compares and empties.
 */
#ifndef SC_TESTS_MSG_LAB_H
#define SC_TESTS_MSG_LAB_H

#include "../check.h"
#include "msg/broker.h"
#include "msg/pack.h"

struct peer {
	char name[16];
	struct sc_broker_node *node;
	bool named;                /* uid is that of its node, also of one that has left */
	struct sc_ulid uid;
	char log[8192];
	size_t len;
	enum sc_msg_order order;   /* of what it sends */
	bool orders_seen[2];       /* of what it got */
	bool refuse;               /* deliver fails */
	bool leaves;               /* and wants no more */
	size_t held_len;
	char held[SC_MSG_UID_MAX * 2 + 1];
};

#ifndef PEERS
#define PEERS 16
#endif
static struct sc_broker *lab;
static struct sc_broker_options lab_options;
static struct peer lab_peers[PEERS];
static int lab_count;
static int64_t lab_us;
static char lab_error[300];
static const int64_t LAB_WALL = 1764435591680000;

static inline void lab_add(struct peer *p, const char *text)
{
	p->len += (size_t)snprintf(p->log + p->len, sizeof(p->log) - p->len, "%s%s",
				   p->len ? " | " : "", text);
	if (p->len >= sizeof(p->log))
		p->len = sizeof(p->log) - 1;
}

/* Data from text. */
static inline void lab_pack(struct sc_bytes *out, const char **at)
{
	const char *p = *at;
	char *end;

	while (*p == ' ')
		p++;
	if (*p == '[') {
		struct sc_bytes inner;
		uint32_t count = 0;

		sc_bytes_init(&inner, 1 << 20);
		for (p++; *p && *p != ']'; count++) {
			lab_pack(&inner, &p);
			while (*p == ' ' || *p == ',')
				p++;
		}
		sc_pack_array(out, count);
		sc_bytes_put(out, inner.data, inner.len);
		sc_bytes_done(&inner);
		p++;
	} else if (*p == '\'' || *p == '"') {
		const char *close = strchr(p + 1, *p);
		struct sc_span text = sc_span(p + 1, (size_t)(close - p - 1));

		if (*p == '\'')
			sc_pack_str(out, text);
		else
			sc_pack_bin(out, text);
		p = close + 1;
	} else if (!strncmp(p, "nil", 3)) {
		sc_pack_nil(out);
		p += 3;
	} else if (!strncmp(p, "true", 4)) {
		sc_pack_bool(out, true);
		p += 4;
	} else if (strcspn(p, ".") < strcspn(p, "] ,")) {
		sc_pack_f64(out, strtod(p, &end));
		p = end;
	} else {
		sc_pack_i64(out, strtoll(p, &end, 10));
		p = end;
	}
	*at = p;
}

/* A uid as a word: a node's name, letters as they are, a ULID of the broker as '*'. */
static inline size_t lab_uid(char *out, size_t size, struct sc_span uid)
{
	for (int i = 0; i < lab_count; i++) {
		if (lab_peers[i].named && uid.len == 16 &&
		    !memcmp(lab_peers[i].uid.bytes, uid.data, 16))
			return (size_t)snprintf(out, size, "%s", lab_peers[i].name);
	}
	if (uid.len == 16)
		return (size_t)snprintf(out, size, "*");
	return (size_t)snprintf(out, size, "%.*s", (int)uid.len, uid.data);
}

static inline size_t lab_show(char *out, size_t size, struct sc_span *data)
{
	struct sc_packed item;
	size_t n = 0;

	if (!sc_packed_next(data, &item))
		return (size_t)snprintf(out, size, "?");
	switch (item.kind) {
	case SC_PACKED_NIL:
		return (size_t)snprintf(out, size, "nil");
	case SC_PACKED_BOOL:
		return (size_t)snprintf(out, size, item.truth ? "true" : "false");
	case SC_PACKED_UINT:
		return (size_t)snprintf(out, size, "%" PRIu64, item.u);
	case SC_PACKED_INT:
		return (size_t)snprintf(out, size, "%" PRId64, item.i);
	case SC_PACKED_FLOAT:
		return (size_t)snprintf(out, size, "%g", item.f);
	case SC_PACKED_STR:
		return (size_t)snprintf(out, size, "'%.*s'", (int)item.bytes.len, item.bytes.data);
	case SC_PACKED_BIN:
		n = (size_t)snprintf(out, size, "\"");
		n += lab_uid(out + n, size - n, item.bytes);
		return n + (size_t)snprintf(out + n, size - n, "\"");
	case SC_PACKED_ARRAY:
		n = (size_t)snprintf(out, size, "[");
		for (uint32_t i = 0; i < item.count && n + 40 < size; i++) {
			n += (size_t)snprintf(out + n, size - n, "%s", i ? " " : "");
			n += lab_show(out + n, size - n, data);
		}
		return n + (size_t)snprintf(out + n, size - n, "]");
	default:
		return (size_t)snprintf(out, size, "{}");
	}
}

static inline void lab_record(struct peer *p, struct sc_span bytes)
{
	struct sc_msg_reading r;
	char text[3000], word[80], ref[80];
	size_t n = 0;
	struct sc_span data;
	bool system;

	if (sc_msg_read(bytes, &r) != SC_MSG_OK) {
		lab_add(p, "MALFORMED");
		return;
	}
	p->orders_seen[r.order] = true;
	lab_uid(word, sizeof(word), r.msg.uid);
	lab_uid(ref, sizeof(ref), r.msg.reference);
	data = r.msg.data;
	system = sc_span_is(r.msg.channel, "system");
	if (system && sc_span_is(r.msg.subject, "ack")) {
		n = (size_t)snprintf(text, sizeof(text), "ack %s", ref);
		if (*data.data != (char)0xc0) {
			n += (size_t)snprintf(text + n, sizeof(text) - n, " = ");
			lab_show(text + n, sizeof(text) - n, &data);
		}
	} else if (system && sc_span_is(r.msg.subject, "error")) {
		struct sc_packed item;

		sc_packed_next(&data, &item);
		sc_packed_next(&data, &item);
		n = (size_t)snprintf(text, sizeof(text), "error %s %.*s",
				     r.msg.reference.data ? ref : "nil", (int)item.bytes.len,
				     item.bytes.data);
		sc_packed_next(&data, &item);
		snprintf(lab_error, sizeof(lab_error), "%.*s", (int)item.bytes.len,
			 item.bytes.data);
	} else {
		n = (size_t)snprintf(text, sizeof(text), "%s %.*s/%.*s ", word,
				     (int)r.msg.channel.len, r.msg.channel.data,
				     (int)r.msg.subject.len, r.msg.subject.data);
		if (r.msg.reference.data)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "@%s ", ref);
		lab_show(text + n, sizeof(text) - n, &data);
	}
	lab_add(p, text);
}

static inline void lab_control(void *arg, void *user, struct sc_span bytes)
{
	(void)arg;
	lab_record(user, bytes);
}

static inline int lab_deliver(void *arg, void *user, struct sc_parcel *parcel,
			      enum sc_msg_order order)
{
	struct peer *p = user;

	(void)arg;
	if (p->refuse)
		return -1;
	lab_record(p, sc_parcel_form(parcel, order));
	memcpy(p->held, parcel->msg.uid.data, parcel->msg.uid.len);
	p->held[parcel->msg.uid.len] = 0;
	p->held_len = parcel->msg.uid.len;
	return 0;
}

static inline bool lab_leaves(void *arg, void *user)
{
	(void)arg;
	return ((struct peer *)user)->leaves;
}

static inline void lab_close(void *arg, void *user, int code, const char *reason)
{
	char text[200];

	(void)arg;
	snprintf(text, sizeof(text), "close %d %s", code, reason);
	lab_add(user, text);
}

static inline void lab_wait(int64_t us)
{
	lab_us += us;
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
	sc_broker_tick(lab);
}

/* A fresh broker with lab_options, and no peers. */
static inline void lab_new(void)
{
	static const struct sc_broker_hooks hooks = { .control = lab_control,
						       .deliver = lab_deliver,
						       .close = lab_close,
						       .leaves = lab_leaves };

	sc_broker_free(lab);
	lab = NULL;
	memset(lab_peers, 0, sizeof(lab_peers));
	lab_count = 0;
	lab_us = 1000000;
	CHECK(sc_broker_new(&lab_options, &hooks, NULL, &lab, NULL) == 0);
	sc_broker_time(lab, LAB_WALL + lab_us, lab_us);
}

static inline void lab_start(void)
{
	sc_broker_options_init(&lab_options);
	lab_new();
}

static inline struct peer *join_as(const char *name, const char *endpoint, bool admin)
{
	struct peer *p = NULL;
	struct sc_ulid uid = sc_broker_uid(lab);

	for (int i = 0; i < PEERS && !p; i++) {
		if (!lab_peers[i].node && !lab_peers[i].len)
			p = &lab_peers[i];
	}
	CHECK(p);
	memset(p, 0, sizeof(*p));
	if (p - lab_peers >= lab_count)
		lab_count = (int)(p - lab_peers) + 1;
	snprintf(p->name, sizeof(p->name), "%s", name);
	p->named = true;
	p->uid = uid;
	CHECK(sc_broker_join(lab, sc_span_str(endpoint), &uid, admin, p, &p->node) == 0);
	return p;
}

static inline struct peer *join(const char *name, const char *endpoint)
{
	return join_as(name, endpoint, false);
}

static inline void leave(struct peer *p)
{
	sc_broker_leave(lab, p->node);
	p->node = NULL;
}

static inline void raw(struct peer *p, struct sc_span bytes)
{
	sc_broker_input(lab, p->node, bytes);
}

/* REFERENCE may be NULL. */
static inline void send_ref(struct peer *p, const char *uid, const char *channel,
			    const char *subject, const char *reference, const char *data)
{
	struct sc_bytes packed, out;
	struct sc_msg msg = { .uid = sc_span_str(uid),
			      .channel = sc_span_str(channel),
			      .subject = sc_span_str(subject) };

	sc_bytes_init(&packed, 1 << 22);
	sc_bytes_init(&out, 1 << 22);
	lab_pack(&packed, &data);
	if (reference)
		msg.reference = sc_span_str(reference);
	msg.data = sc_span(packed.data, packed.len);
	CHECK_INT(sc_msg_write(&out, &msg, p->order), 0);
	raw(p, sc_span(out.data, out.len));
	sc_bytes_done(&packed);
	sc_bytes_done(&out);
}

static inline void send(struct peer *p, const char *uid, const char *channel, const char *subject,
			const char *data)
{
	send_ref(p, uid, channel, subject, NULL, data);
}

static inline void command(struct peer *p, const char *uid, const char *subject, const char *data)
{
	send_ref(p, uid, "system", subject, NULL, data);
}

/* What it holds, whatever uid that has. */
static inline void ack_held(struct peer *p)
{
	struct sc_bytes out;
	struct sc_msg msg = { .uid = SC_SPAN("A"),
			      .channel = SC_SPAN("system"),
			      .subject = SC_SPAN("ack"),
			      .data = SC_SPAN("\xc0") };
	char uid[SC_MSG_UID_MAX];

	memcpy(uid, p->held, p->held_len);
	msg.reference = sc_span(uid, p->held_len);
	p->held_len = 0;
	sc_bytes_init(&out, 4096);
	CHECK_INT(sc_msg_write(&out, &msg, p->order), 0);
	raw(p, sc_span(out.data, out.len));
	sc_bytes_done(&out);
}

static inline void ack(struct peer *p, const char *uid)
{
	send_ref(p, "A", "system", "ack", uid, "nil");
}

#define GOT(P, WANT) \
	do { \
		struct peer *p_ = (P); \
		char log_[sizeof(p_->log)]; \
		memcpy(log_, p_->log, p_->len); \
		log_[p_->len] = 0; \
		p_->len = 0; \
		if (strcmp(log_, WANT)) \
			FAIL("%s got '%s', not '%s'", p_->name, log_, WANT); \
	} while (0)

static inline struct sc_broker_stats stats(void)
{
	struct sc_broker_stats s;

	sc_broker_stats(lab, &s);
	return s;
}

#endif
