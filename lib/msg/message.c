/* msg/message.c: a wsmsg message in neutral form. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/opt.h"
#include "json/scan.h"
#include "msg/message.h"
#include "msg/pack.h"

const char *sc_msg_fault_word(enum sc_msg_fault fault)
{
	switch (fault) {
#define X(name, word) \
	case SC_MSG_##name: \
		return word;
		SC_MSG_CODES(X)
#undef X
	case SC_MSG_OK:
	case SC_MSG_MALFORMED:
		break;
	}
	return NULL;
}

/* Where each field is among the five elements. */
static const struct {
	unsigned char channel, subject, reference;
} places[] = {
	[SC_MSG_DOCUMENT] = { 1, 2, 3 },
	[SC_MSG_REFERENCE] = { 2, 3, 1 },
};

static struct sc_packed item_of(struct sc_span element)
{
	struct sc_packed item = { 0 };

	(void)sc_packed_next(&element, &item); /* the scanner has seen it */
	return item;
}

static enum sc_msg_fault fault(struct sc_msg_reading *r, enum sc_msg_fault code, const char *reason)
{
	snprintf(r->reason, sizeof(r->reason), "%s", reason);
	return code;
}

static enum sc_msg_fault read_name(struct sc_msg_reading *r, struct sc_span element, size_t least,
				   enum sc_msg_fault bad, const char *reason,
				   struct sc_span *ret_name)
{
	struct sc_packed item = item_of(element);

	if (item.kind != SC_PACKED_STR)
		return fault(r, bad, reason);
	if (!sc_utf8_valid(item.bytes))
		return fault(r, SC_MSG_BAD_UTF8,
			     bad == SC_MSG_BAD_CHANNEL ? "the channel is not UTF-8"
						       : "the subject is not UTF-8");
	if (item.bytes.len < least || item.bytes.len > SC_MSG_NAME_MAX)
		return fault(r, bad, reason);
	*ret_name = item.bytes;
	return SC_MSG_OK;
}

static enum sc_msg_fault read_reference(struct sc_msg_reading *r, struct sc_span element,
					struct sc_span *ret_reference)
{
	struct sc_packed item = item_of(element);

	if (item.kind == SC_PACKED_NIL) {
		*ret_reference = (struct sc_span){ NULL, 0 };
		return SC_MSG_OK;
	}
	if (item.kind != SC_PACKED_BIN || item.bytes.len > SC_MSG_UID_MAX)
		return fault(r, SC_MSG_BAD_REFERENCE,
			     "the reference must be bin of at most 64 bytes, or nil");
	*ret_reference = item.bytes;
	return SC_MSG_OK;
}

static enum sc_msg_fault read_fields(struct sc_msg_reading *r,
				     const struct sc_packed_message *parts)
{
	const struct sc_span *e = parts->elements;
	struct sc_packed uid = item_of(e[0]), second = item_of(e[1]);
	struct sc_msg msg = { 0 };
	enum sc_msg_fault f;
	bool good = uid.kind == SC_PACKED_BIN && uid.bytes.len > 0 &&
		    uid.bytes.len <= SC_MSG_UID_MAX;

	r->ordered = second.kind == SC_PACKED_STR || second.kind == SC_PACKED_BIN ||
		     second.kind == SC_PACKED_NIL;
	r->order = second.kind == SC_PACKED_STR ? SC_MSG_DOCUMENT : SC_MSG_REFERENCE;
	if (good)
		r->msg.uid = msg.uid = uid.bytes;
	if (!r->ordered)
		return fault(r, SC_MSG_BAD_FIELD,
			     "the 2nd element must be a str (channel), or bin or nil (reference)");
	if (!good)
		return fault(r, SC_MSG_BAD_UID, "the uid must be bin of 1 to 64 bytes");
	f = read_name(r, e[places[r->order].channel], 1, SC_MSG_BAD_CHANNEL,
		      "the channel must be str of 1 to 255 bytes", &msg.channel);
	if (f == SC_MSG_OK)
		f = read_name(r, e[places[r->order].subject], 0, SC_MSG_BAD_SUBJECT,
			      "the subject must be str of at most 255 bytes", &msg.subject);
	if (f == SC_MSG_OK)
		f = read_reference(r, e[places[r->order].reference], &msg.reference);
	if (f != SC_MSG_OK)
		return f;
	msg.data = e[4];
	r->msg = msg;
	return SC_MSG_OK;
}

enum sc_msg_fault sc_msg_read(struct sc_span bytes, struct sc_msg_reading *ret_reading)
{
	struct sc_packed_message parts;

	memset(ret_reading, 0, sizeof(*ret_reading));
	if (sc_packed_message(bytes, &parts, ret_reading->reason) < 0)
		return SC_MSG_MALFORMED;
	return read_fields(ret_reading, &parts);
}

static size_t bin_size(size_t len)
{
	return len + (len <= UINT8_MAX ? 2 : len <= UINT16_MAX ? 3 : 5);
}

static size_t str_size(size_t len)
{
	return len < 32 ? len + 1 : bin_size(len);
}

size_t sc_msg_size(const struct sc_msg *msg)
{
	return 1 + bin_size(msg->uid.len) + str_size(msg->channel.len) +
	       str_size(msg->subject.len) +
	       (msg->reference.data ? bin_size(msg->reference.len) : 1) + msg->data.len;
}

/* The last LEN bytes of OUT. */
static struct sc_span tail(const struct sc_bytes *out, size_t len)
{
	return sc_span(out->data + out->len - len, len);
}

static struct sc_span put_reference(struct sc_bytes *out, struct sc_span reference)
{
	if (!reference.data) {
		(void)sc_pack_nil(out);
		return reference;
	}
	(void)sc_pack_bin(out, reference);
	return tail(out, reference.len);
}

int sc_msg_copy(struct sc_bytes *out, const struct sc_msg *msg, enum sc_msg_order order,
		struct sc_msg *ret_copy)
{
	int rc = sc_bytes_reserve(out, sc_msg_size(msg));
	struct sc_msg copy;

	if (rc < 0)
		return rc;
	/* there is room: none of these fails, and nothing moves */
	(void)sc_pack_array(out, SC_PACKED_ELEMENTS);
	(void)sc_pack_bin(out, msg->uid);
	copy.uid = tail(out, msg->uid.len);
	if (order == SC_MSG_REFERENCE)
		copy.reference = put_reference(out, msg->reference);
	(void)sc_pack_str(out, msg->channel);
	copy.channel = tail(out, msg->channel.len);
	(void)sc_pack_str(out, msg->subject);
	copy.subject = tail(out, msg->subject.len);
	if (order == SC_MSG_DOCUMENT)
		copy.reference = put_reference(out, msg->reference);
	(void)sc_bytes_put(out, msg->data.data, msg->data.len);
	copy.data = tail(out, msg->data.len);
	*ret_copy = copy;
	return 0;
}

int sc_msg_write(struct sc_bytes *out, const struct sc_msg *msg, enum sc_msg_order order)
{
	struct sc_msg copy;

	return sc_msg_copy(out, msg, order, &copy);
}

static const char *const commands[] = { [SC_MSG_NO_COMMAND] = "",
#define X(name, subject, least, most, admin) [SC_MSG_##name] = subject,
					SC_MSG_COMMANDS(X)
#undef X
};

enum sc_msg_command sc_msg_command(struct sc_span subject)
{
	for (int i = 1; i < SC_MSG_COMMAND_COUNT; i++) {
		if (sc_span_is(subject, commands[i]))
			return (enum sc_msg_command)i;
	}
	return SC_MSG_NO_COMMAND;
}

const char *sc_msg_command_subject(enum sc_msg_command command)
{
	return commands[command];
}

const char *sc_msg_command_near(struct sc_span subject)
{
	const char *names[SC_MSG_COMMAND_COUNT];
	char text[40];

	if (subject.len >= sizeof(text) || memchr(subject.data, 0, subject.len))
		return NULL;
	memcpy(text, subject.data, subject.len);
	text[subject.len] = '\0';
	memcpy(names, commands + 1, sizeof(names) - sizeof(*names));
	names[SC_MSG_COMMAND_COUNT - 1] = NULL;
	return sc_opt_nearest(text, names, SC_MSG_COMMAND_COUNT - 1);
}

static const char *const events[] = {
#define X(name, subject) [SC_MSG_##name] = subject,
	SC_MSG_EVENTS(X)
#undef X
};

const char *sc_msg_event_subject(enum sc_msg_event event)
{
	return events[event];
}
