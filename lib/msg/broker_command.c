/* msg/broker_command.c: the channel system: commands of nodes. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "json/scan.h"
#include "msg/broker_internal.h"
#include "msg/pattern.h"

#define ARGS_MAX 3
#define AWAIT_US ((int64_t)300 * SC_BROKER_US)

/* One command while it is carried out. */
struct call {
	struct sc_broker *b;
	struct sc_broker_node *node;
	const struct sc_msg *msg;
	enum sc_msg_command command;
	struct sc_packed args[ARGS_MAX];
	uint32_t count;
	const char *text; /* of a fault */
};

static const struct rule {
	unsigned char least, most;
	bool admin;
} rules[SC_MSG_COMMAND_COUNT] = {
#define X(name, subject, least, most, admin) [SC_MSG_##name] = { least, most, admin },
	SC_MSG_COMMANDS(X)
#undef X
};

static const char *usage(enum sc_msg_command command)
{
	switch (command) {
	case SC_MSG_SUBSCRIBE_CHANNEL:
		return "subscribe.channel takes [endpoint str, channel pattern str, subject "
		       "pattern str], names and channel patterns of 1 to 255 bytes";
	case SC_MSG_SUBSCRIBE_MESSAGE:
		return "subscribe.message takes [endpoint str, message uid bin, expires int]";
	case SC_MSG_UNSUBSCRIBE_CHANNEL:
		return "unsubscribe.channel takes [endpoint str, channel pattern str]";
	case SC_MSG_UNSUBSCRIBE_MESSAGE:
		return "unsubscribe.message takes [endpoint str, message uid bin]";
	case SC_MSG_CHANNEL_CREATE:
		return "channel.create takes [channel str] of 1 to 255 bytes";
	case SC_MSG_CHANNEL_SIZE:
		return "channel.size takes [channel str, size int from 1 to 1000000]";
	case SC_MSG_CHANNEL_PRIORITY:
		return "channel.priority takes [channel str, priority int]: priority must be 0..99";
	case SC_MSG_ENDPOINT_CREATE:
		return "endpoint.create takes [endpoint str] of 1 to 255 bytes";
	case SC_MSG_ENDPOINT_SIZE:
		return "endpoint.size takes [endpoint str, size int from 1 to 1000000]";
	default:
		return "this command takes no arguments";
	}
}

static enum sc_msg_fault fault(struct call *c, enum sc_msg_fault code, const char *text)
{
	c->text = text;
	return code;
}

static enum sc_msg_fault bad_args(struct call *c)
{
	return fault(c, SC_MSG_BAD_ARGS, usage(c->command));
}

/* A limit was reached, or memory is out. */
static enum sc_msg_fault no_room(struct call *c, int rc, const char *text)
{
	return fault(c, SC_MSG_LIMIT, rc == SC_E_BUSY ? text : "the broker is out of memory");
}

/* What a command would make, with the names that go with it. */
static bool has_room(const struct call *c, size_t bytes)
{
	return sc_broker_has_room(c->b, bytes + SC_BROKER_OVERHEAD);
}

static enum sc_msg_fault full(struct call *c)
{
	return fault(c, SC_MSG_LIMIT, "the broker holds as much as it may (--max-memory)");
}

#define TOO_MANY_CHANNELS "there are as many channels as there may be"
#define TOO_MANY_ENDPOINTS "there are as many endpoints as there may be"
#define TOO_MANY_SUBSCRIPTIONS "the endpoint has as many subscriptions as it may have"

/* Arguments. */

static bool is_container(const struct sc_packed *item)
{
	return item->kind == SC_PACKED_ARRAY || item->kind == SC_PACKED_MAP;
}

static bool take_args(struct call *c, const struct rule *rule)
{
	struct sc_span data = c->msg->data;
	struct sc_packed first;

	if (rule->most == 0)
		return true;
	if (!sc_packed_next(&data, &first))
		return false;
	if (rule->most == 1 && first.kind == SC_PACKED_STR) {
		c->args[0] = first;
		c->count = 1;
		return true;
	}
	if (c->command == SC_MSG_SUBSCRIBE_MESSAGE && first.kind == SC_PACKED_BIN) {
		/* what the published client sends when it comes back */
		c->args[0] = (struct sc_packed){ .kind = SC_PACKED_STR,
						 .bytes = c->node->endpoint->by_name.key };
		c->args[1] = first;
		c->count = 2;
		return true;
	}
	if (first.kind != SC_PACKED_ARRAY || first.count < rule->least || first.count > rule->most)
		return false;
	for (c->count = 0; c->count < first.count; c->count++) {
		if (!sc_packed_next(&data, &c->args[c->count]) || is_container(&c->args[c->count]))
			return false;
	}
	return true;
}

static bool name_arg(const struct call *c, uint32_t i, size_t least, struct sc_span *ret_name)
{
	const struct sc_packed *arg = &c->args[i];

	if (arg->kind != SC_PACKED_STR || arg->bytes.len < least ||
	    arg->bytes.len > SC_MSG_NAME_MAX || !sc_utf8_valid(arg->bytes))
		return false;
	*ret_name = arg->bytes;
	return true;
}

static bool uid_arg(const struct call *c, uint32_t i, struct sc_span *ret_uid)
{
	const struct sc_packed *arg = &c->args[i];

	if (arg->kind != SC_PACKED_BIN || arg->bytes.len < 1 || arg->bytes.len > SC_MSG_UID_MAX)
		return false;
	*ret_uid = arg->bytes;
	return true;
}

static bool int_arg(const struct call *c, uint32_t i, uint64_t least, uint64_t most,
		    uint64_t *ret_value)
{
	const struct sc_packed *arg = &c->args[i];

	if (arg->kind != SC_PACKED_UINT || arg->u < least || arg->u > most)
		return false;
	*ret_value = arg->u;
	return true;
}

/* A time in seconds; what is beyond all times is the last of them. */
static bool time_arg(const struct call *c, uint32_t i, int64_t *ret_us)
{
	const struct sc_packed *arg = &c->args[i];
	double seconds;

	if (arg->kind == SC_PACKED_UINT)
		seconds = (double)arg->u;
	else if (arg->kind == SC_PACKED_INT)
		seconds = (double)arg->i;
	else if (arg->kind == SC_PACKED_FLOAT && isfinite(arg->f))
		seconds = arg->f;
	else
		return false;
	if (seconds > 9e12)
		seconds = 9e12;
	*ret_us = seconds < 0 ? 0 : (int64_t)(seconds * SC_BROKER_US);
	return true;
}

/* Subscriptions. */

/* An endpoint or a channel that was made for a command which failed after that. */
static void take_back(struct call *c, struct sc_broker_endpoint *endpoint,
		      struct sc_broker_channel *channel)
{
	c->b->event_count = 0;
	if (endpoint)
		sc_broker_endpoint_free(c->b, endpoint);
	if (channel)
		sc_broker_channel_free(c->b, channel);
}

/* What a subscription takes at most, with an endpoint and a channel that are made for it. */
#define SUBSCRIPTION_BYTES \
	(sizeof(struct sc_broker_subscription) + sizeof(struct sc_broker_subject) + \
	 sizeof(struct sc_broker_pattern) + sizeof(struct sc_broker_endpoint) + \
	 sizeof(struct sc_broker_channel) + 5u * SC_BROKER_OVERHEAD)

static bool room_for_channel(const struct call *c, struct sc_span endpoint, struct sc_span channel,
			     struct sc_span subject)
{
	const struct sc_broker_endpoint *e = sc_broker_endpoint_find(c->b, endpoint);

	return (e && sc_broker_subscribed(c->b, e, channel, subject)) ||
	       has_room(c, SUBSCRIPTION_BYTES + endpoint.len + 2 * channel.len + subject.len);
}

static bool room_for_message(const struct call *c, struct sc_span endpoint, struct sc_span uid)
{
	const struct sc_broker_endpoint *e = sc_broker_endpoint_find(c->b, endpoint);

	return (e && sc_broker_awaits(c->b, e, uid)) ||
	       has_room(c, sizeof(struct sc_broker_await) + sizeof(*e) + SC_BROKER_OVERHEAD +
				   endpoint.len + uid.len);
}

static enum sc_msg_fault subscribe_channel(struct call *c)
{
	struct sc_broker *b = c->b;
	struct sc_span endpoint, channel, subject;
	struct sc_broker_endpoint *e = NULL, *fresh_e;
	struct sc_broker_channel *ch = NULL, *fresh_ch = NULL;
	size_t had = b->endpoints.count, had_channels = b->channels.count;
	int rc;

	if (!name_arg(c, 0, 1, &endpoint) || !name_arg(c, 1, 1, &channel) ||
	    !name_arg(c, 2, 0, &subject))
		return bad_args(c);
	if (!room_for_channel(c, endpoint, channel, subject))
		return full(c);
	rc = sc_broker_endpoint_need(b, endpoint, &e);
	if (rc < 0)
		return no_room(c, rc, TOO_MANY_ENDPOINTS);
	fresh_e = b->endpoints.count > had ? e : NULL;
	if (sc_pattern_shape(channel).literal && !sc_span_is(channel, SC_MSG_SYSTEM)) {
		rc = sc_broker_channel_need(b, channel, &ch);
		fresh_ch = b->channels.count > had_channels ? ch : NULL;
	}
	if (rc < 0) {
		take_back(c, fresh_e, NULL);
		return no_room(c, rc, TOO_MANY_CHANNELS);
	}
	rc = sc_broker_subscribe(b, e, channel, subject);
	if (rc < 0) {
		take_back(c, fresh_e, fresh_ch);
		return no_room(c, rc, TOO_MANY_SUBSCRIPTIONS);
	}
	return SC_MSG_OK;
}

static enum sc_msg_fault subscribe_message(struct call *c)
{
	struct sc_broker *b = c->b;
	struct sc_span endpoint, uid;
	struct sc_broker_endpoint *e;
	int64_t expires = b->wall_us + AWAIT_US;
	bool once = c->count == 2;
	size_t had = b->endpoints.count;
	int rc;

	if (!name_arg(c, 0, 1, &endpoint) || !uid_arg(c, 1, &uid) ||
	    (c->count == 3 && c->args[2].kind != SC_PACKED_NIL && !time_arg(c, 2, &expires)))
		return bad_args(c);
	if (expires <= b->wall_us)
		return fault(c, SC_MSG_EXPIRED,
			     "expires is a time that is over: it is absolute, seconds since 1970");
	if (!room_for_message(c, endpoint, uid))
		return full(c);
	rc = sc_broker_endpoint_need(b, endpoint, &e);
	if (rc < 0)
		return no_room(c, rc, TOO_MANY_ENDPOINTS);
	rc = sc_broker_await(b, e, uid, expires, once);
	if (rc < 0) {
		take_back(c, b->endpoints.count > had ? e : NULL, NULL);
		return no_room(c, rc, TOO_MANY_SUBSCRIPTIONS);
	}
	return SC_MSG_OK;
}

static enum sc_msg_fault unsubscribe(struct call *c)
{
	struct sc_span endpoint, what;
	struct sc_broker_endpoint *e;
	bool message = c->command == SC_MSG_UNSUBSCRIBE_MESSAGE;

	if (!name_arg(c, 0, 1, &endpoint) ||
	    !(message ? uid_arg(c, 1, &what) : name_arg(c, 1, 1, &what)))
		return bad_args(c);
	e = sc_broker_endpoint_find(c->b, endpoint);
	if (!e)
		return SC_MSG_OK;
	if (message)
		sc_broker_unawait(c->b, e, what);
	else
		sc_broker_unsubscribe(c->b, e, what);
	sc_broker_endpoint_settle(c->b, e);
	return SC_MSG_OK;
}

/* Channels and endpoints. */

static enum sc_msg_fault set_channel(struct call *c)
{
	struct sc_broker *b = c->b;
	struct sc_broker_channel *ch;
	struct sc_span name;
	uint64_t value = 0;
	bool good = name_arg(c, 0, 1, &name);
	int rc;

	if (good && c->command == SC_MSG_CHANNEL_SIZE)
		good = int_arg(c, 1, 1, SC_BROKER_SIZE_MAX, &value);
	else if (good && c->command == SC_MSG_CHANNEL_PRIORITY)
		good = int_arg(c, 1, 0, SC_QUEUE_SYSTEM - 1, &value);
	if (!good)
		return bad_args(c);
	if (sc_span_is(name, SC_MSG_SYSTEM))
		return fault(c, SC_MSG_RESERVED, "the channel system is the broker's own");
	if (!sc_broker_channel_find(b, name) && !has_room(c, sizeof(*ch) + name.len))
		return full(c);
	rc = sc_broker_channel_need(b, name, &ch);
	if (rc < 0)
		return no_room(c, rc, TOO_MANY_CHANNELS);
	ch->kept = true;
	if (c->command == SC_MSG_CHANNEL_SIZE) {
		ch->sized = true;
		sc_queue_resize(&ch->queue, (uint32_t)value);
		sc_broker_note(b, SC_MSG_CHANNEL_SIZED, ch->by_name.key, NULL);
	} else if (c->command == SC_MSG_CHANNEL_PRIORITY) {
		ch->priority = (unsigned char)value;
		sc_broker_note(b, SC_MSG_CHANNEL_PRIORITIZED, ch->by_name.key, NULL);
	}
	sc_broker_channel_wait(b, ch); /* it may have another place now */
	return SC_MSG_OK;
}

static enum sc_msg_fault set_endpoint(struct call *c)
{
	struct sc_broker *b = c->b;
	struct sc_broker_endpoint *e;
	struct sc_span name;
	uint64_t size = 0;
	int rc;

	if (!name_arg(c, 0, 1, &name) ||
	    (c->command == SC_MSG_ENDPOINT_SIZE && !int_arg(c, 1, 1, SC_BROKER_SIZE_MAX, &size)))
		return bad_args(c);
	if (!sc_broker_endpoint_find(b, name) && !has_room(c, sizeof(*e) + name.len))
		return full(c);
	rc = sc_broker_endpoint_need(b, name, &e);
	if (rc < 0)
		return no_room(c, rc, TOO_MANY_ENDPOINTS);
	e->kept = true;
	if (size) {
		e->sized = true;
		sc_queue_resize(&e->queue, (uint32_t)size);
		sc_broker_note(b, SC_MSG_ENDPOINT_SIZED, e->by_name.key, NULL);
	}
	return SC_MSG_OK;
}

static enum sc_msg_fault tell_stats(struct call *c)
{
	struct sc_broker *b = c->b;

	sc_bytes_clear(&b->data);
	if (sc_broker_stats_data(b, &b->data) < 0)
		return fault(c, SC_MSG_LIMIT, "the broker is out of memory");
	if (b->hooks.has_room && !b->hooks.has_room(b->arg, c->node->user, b->data.len))
		return full(c);
	sc_broker_notice(b, c->node, SC_MSG_STATS_SUBJECT, c->msg->uid,
			 sc_span(b->data.data, b->data.len));
	return SC_MSG_OK;
}

static enum sc_msg_fault carry_out(struct call *c)
{
	switch (c->command) {
	case SC_MSG_SUBSCRIBE_CHANNEL:
		return subscribe_channel(c);
	case SC_MSG_SUBSCRIBE_MESSAGE:
		return subscribe_message(c);
	case SC_MSG_UNSUBSCRIBE_CHANNEL:
	case SC_MSG_UNSUBSCRIBE_MESSAGE:
		return unsubscribe(c);
	case SC_MSG_CHANNEL_CREATE:
	case SC_MSG_CHANNEL_SIZE:
	case SC_MSG_CHANNEL_PRIORITY:
		return set_channel(c);
	case SC_MSG_ENDPOINT_CREATE:
	case SC_MSG_ENDPOINT_SIZE:
		return set_endpoint(c);
	case SC_MSG_PAUSE:
		c->b->paused = true;
		return SC_MSG_OK;
	case SC_MSG_RESUME:
		c->b->paused = false;
		return SC_MSG_OK;
	case SC_MSG_STATS:
		return tell_stats(c);
	default:
		return SC_MSG_OK; /* stop: after its ack */
	}
}

/* Who may do it. */
static bool denied(const struct call *c)
{
	bool other = c->count > 0 && c->command >= SC_MSG_SUBSCRIBE_CHANNEL &&
		     c->command <= SC_MSG_UNSUBSCRIBE_MESSAGE && c->args[0].kind == SC_PACKED_STR &&
		     (c->args[0].bytes.len != c->node->endpoint->by_name.key.len ||
		      memcmp(c->args[0].bytes.data, c->node->endpoint->by_name.key.data,
			     c->args[0].bytes.len) != 0);

	return c->b->o.admins && !c->node->admin && (other || rules[c->command].admin);
}

static enum sc_msg_fault judge(struct call *c)
{
	bool good = take_args(c, &rules[c->command]);

	if (denied(c))
		return fault(c, SC_MSG_DENIED, "this needs an admin token");
	if (!good)
		return bad_args(c);
	return carry_out(c);
}

static void resume(struct sc_broker *b)
{
	struct sc_broker_link *at = b->endpoint_list.next;

	sc_broker_forward(b);
	for (; at != &b->endpoint_list; at = at->next) {
		struct sc_broker_endpoint *e = SC_BROKER_OF(at, struct sc_broker_endpoint, link);

		if (e->queue.count)
			sc_broker_dirty(b, e);
	}
}

static void refuse_unknown(struct sc_broker *b, struct sc_broker_node *node,
			   const struct sc_msg *msg)
{
	const char *near = sc_msg_command_near(msg->subject);

	if (near)
		sc_broker_error(b, node, msg->uid, SC_MSG_UNKNOWN_COMMAND,
				"there is no such command; did you mean %s?", near);
	else
		sc_broker_error(b, node, msg->uid, SC_MSG_UNKNOWN_COMMAND,
				"there is no such command");
}

void sc_broker_command(struct sc_broker *b, struct sc_broker_node *node, const struct sc_msg *msg)
{
	struct call c = { .b = b, .node = node, .msg = msg };
	enum sc_msg_fault f;

	c.command = sc_msg_command(msg->subject);
	if (c.command == SC_MSG_NO_COMMAND) {
		refuse_unknown(b, node, msg);
		return;
	}
	if (b->stopping && c.command != SC_MSG_STOP)
		f = fault(&c, SC_MSG_STOPPING, "the broker is stopping");
	else
		f = judge(&c);
	if (f != SC_MSG_OK) {
		sc_broker_error(b, node, msg->uid, f, "%s", c.text);
		return;
	}
	sc_broker_ack(b, node, msg->uid, -1);
	if (b->stopping)
		return;
	sc_broker_tell(b, msg, node->order);
	sc_broker_tell_events(b);
	if (c.command == SC_MSG_STOP)
		sc_broker_stop(b);
	else if (c.command == SC_MSG_RESUME)
		resume(b);
}
