/* messages.c: a body as messages, messages as frames. */
#include "durable/messages.h"

#include <string.h>

static bool measure(struct sc_ds_messages *messages)
{
	struct sc_ds_messages_walk walk;
	struct sc_span message;
	uint64_t count = 0, size = 0;

	messages->count = UINT64_MAX;
	sc_ds_messages_walk(&walk, messages);
	while (sc_ds_messages_next(&walk, &message)) {
		size += SC_DS_FRAME_HEAD + message.len;
		if (++count > SC_DS_MESSAGES_MAX)
			return false;
	}
	messages->count = count;
	messages->size = size;
	return true;
}

enum sc_ds_split sc_ds_messages_split(struct sc_span body, bool json,
				      struct sc_ds_messages *ret_messages)
{
	struct sc_ds_messages messages = { .json = json, .bytes = body };

	if (body.len > UINT32_MAX)
		return SC_DS_SPLIT_TOO_MANY;
	if (body.len == 0) {
		*ret_messages = messages;
		return SC_DS_SPLIT_OK;
	}
	if (json) {
		if (sc_json_scan(body, &messages.value, NULL) < 0)
			return SC_DS_SPLIT_INVALID;
		messages.array = messages.value.kind == SC_JSON_ARRAY;
		messages.bytes = messages.value.text;
	}
	if (!messages.array) {
		messages.count = 1;
		messages.size = SC_DS_FRAME_HEAD + messages.bytes.len;
	} else if (!measure(&messages)) {
		return SC_DS_SPLIT_TOO_MANY;
	}
	*ret_messages = messages;
	return SC_DS_SPLIT_OK;
}

void sc_ds_messages_walk(struct sc_ds_messages_walk *walk, const struct sc_ds_messages *messages)
{
	*walk = (struct sc_ds_messages_walk){ .messages = messages, .left = messages->count };
	if (messages->array)
		sc_json_walk_init(&walk->json, &messages->value);
}

bool sc_ds_messages_next(struct sc_ds_messages_walk *walk, struct sc_span *ret_message)
{
	struct sc_span key;
	struct sc_json element;

	if (!walk->left)
		return false;
	if (walk->messages->array) {
		if (!sc_json_walk_next(&walk->json, &key, &element))
			return false;
		*ret_message = element.text;
	} else {
		*ret_message = walk->messages->bytes;
	}
	walk->left--;
	return true;
}

void sc_ds_frame_head(uint32_t len, char ret_head[SC_DS_FRAME_HEAD])
{
	for (int i = 0; i < 4; i++)
		ret_head[i] = (char)(len >> (24 - 8 * i));
}

bool sc_ds_frame_first(struct sc_span run, struct sc_span *ret_message)
{
	uint32_t len = 0;

	if (run.len < SC_DS_FRAME_HEAD)
		return false;
	for (int i = 0; i < 4; i++)
		len = len << 8 | (unsigned char)run.data[i];
	if (len > run.len - SC_DS_FRAME_HEAD)
		return false;
	*ret_message = sc_span(run.data + SC_DS_FRAME_HEAD, len);
	return true;
}

bool sc_ds_frame_boundary(struct sc_span run, uint64_t at)
{
	uint64_t position = 0;
	struct sc_span message;

	while (position < at && sc_ds_frame_first(run, &message)) {
		size_t step = SC_DS_FRAME_HEAD + message.len;

		position += step;
		run = sc_span(run.data + step, run.len - step);
	}
	return position == at;
}
