/* net/server_deflate.c: permessage-deflate, the sending half of a server (RFC 7692, 7). */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/file.h"
#include "net/server_internal.h"

/* A window of 8 KiB and a small table: 64 KiB a subscriber, and rows of one feed still find each
 * other. */
enum { WINDOW_BITS = 13, MEM_LEVEL = 6, KEEP_MAX = 16384 };

struct sc_server_deflate {
	z_stream z;
	bool takeover;
	struct sc_bytes out;
};

struct offer {
	bool no_takeover;
	unsigned window; /* 0: not said */
	bool valid;
};

static struct sc_span cut(struct sc_span *rest, char at)
{
	const char *end = rest->len ? memchr(rest->data, at, rest->len) : NULL;
	struct sc_span part = end ? sc_span(rest->data, (size_t)(end - rest->data)) : *rest;

	*rest = end ? sc_span(end + 1, rest->len - part.len - 1)
		    : sc_span(rest->data + rest->len, 0);
	while (part.len && (part.data[0] == ' ' || part.data[0] == '\t'))
		part = sc_span(part.data + 1, part.len - 1);
	while (part.len && (part.data[part.len - 1] == ' ' || part.data[part.len - 1] == '\t'))
		part.len--;
	return part;
}

static bool read_bits(struct sc_span value, unsigned *ret_bits)
{
	uint64_t bits;

	if (value.len > 2 && value.data[0] == '"' && value.data[value.len - 1] == '"')
		value = sc_span(value.data + 1, value.len - 2);
	if (!sc_u64_parse(value, &bits) || bits < 8 || bits > 15)
		return false;
	*ret_bits = (unsigned)bits;
	return true;
}

static struct offer read_offer(struct sc_span text)
{
	struct offer o = { 0 };
	unsigned seen = 0;

	if (!sc_http_is(cut(&text, ';'), "permessage-deflate"))
		return o;
	while (text.len) {
		struct sc_span value = cut(&text, ';'), key;
		bool has_value = value.len && memchr(value.data, '=', value.len);
		unsigned bit = 0, bits;

		key = cut(&value, '=');
		value = cut(&value, '\0');
		if (sc_http_is(key, "server_no_context_takeover") && !has_value) {
			o.no_takeover = true;
			bit = 1;
		} else if (sc_http_is(key, "client_no_context_takeover") && !has_value) {
			bit = 2;
		} else if (sc_http_is(key, "server_max_window_bits") && has_value &&
			   read_bits(value, &bits)) {
			o.window = bits;
			bit = 4;
		} else if (sc_http_is(key, "client_max_window_bits") &&
			   (!has_value || read_bits(value, &bits))) {
			bit = 8;
		}
		if (!bit || seen & bit)
			return o;
		seen |= bit;
	}
	/* zlib cannot keep to a window of 256 bytes. */
	o.valid = o.window != 8;
	return o;
}

static struct sc_server_deflate *make(const struct offer *offer, char *ret_answer, size_t size)
{
	struct sc_server_deflate *d = sc_calloc(1, sizeof(*d));
	int window = offer->window && offer->window < WINDOW_BITS ? (int)offer->window
								  : WINDOW_BITS;
	char bits[40] = "";

	if (!d)
		return NULL;
	if (deflateInit2(&d->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -window, MEM_LEVEL,
			 Z_DEFAULT_STRATEGY) != Z_OK) {
		free(d);
		return NULL;
	}
	d->takeover = !offer->no_takeover;
	sc_bytes_init(&d->out, SIZE_MAX / 2);
	if (offer->window)
		snprintf(bits, sizeof(bits), "; server_max_window_bits=%d", window);
	/* One inflater serves all clients, since none of them may refer to its earlier messages. */
	snprintf(ret_answer, size, "permessage-deflate; client_no_context_takeover%s%s",
		 d->takeover ? "" : "; server_no_context_takeover", bits);
	return d;
}

struct sc_server_deflate *sc_server_deflate_agree(const struct sc_http_head *head,
						  char ret_answer[128])
{
	for (size_t i = 0; i < head->count; i++) {
		struct sc_span rest = head->fields[i].value;

		if (!sc_http_is(head->fields[i].name, "sec-websocket-extensions"))
			continue;
		while (rest.len) {
			struct offer offer = read_offer(cut(&rest, ','));

			if (offer.valid)
				return make(&offer, ret_answer, 128);
		}
	}
	return NULL;
}

void sc_server_deflate_free(struct sc_server_deflate *d)
{
	if (!d)
		return;
	deflateEnd(&d->z);
	sc_bytes_done(&d->out);
	free(d);
}

void sc_server_deflate_trim(struct sc_server_deflate *d)
{
	if (d->out.cap > KEEP_MAX)
		sc_bytes_done(&d->out);
}

struct sc_span sc_server_deflate_message(struct sc_server_deflate *d, struct sc_span message)
{
	const char *at = message.data;
	size_t left = message.len;

	/* zlib flushes nothing twice, so an empty message is spelled here (RFC 7692, 7.2.3.6). */
	if (left == 0)
		return sc_span("", 1);
	sc_bytes_clear(&d->out);
	do {
		uInt part = left > UINT_MAX / 2 ? UINT_MAX / 2 : (uInt)left;

		d->z.next_in = (Bytef *)(uintptr_t)at;
		d->z.avail_in = part;
		at += part;
		left -= part;
		do {
			size_t room;

			if (sc_bytes_reserve(&d->out, 512 + part / 2) < 0)
				return sc_span(NULL, 0);
			room = d->out.cap - d->out.len;
			if (room > UINT_MAX)
				room = UINT_MAX;
			d->z.next_out = (Bytef *)d->out.data + d->out.len;
			d->z.avail_out = (uInt)room;
			(void)deflate(&d->z, left ? Z_NO_FLUSH : Z_SYNC_FLUSH);
			d->out.len += room - d->z.avail_out;
		} while (d->z.avail_out == 0);
	} while (left);
	if (!d->takeover)
		deflateReset(&d->z);
	/* The last four bytes, 00 00 FF FF, are left out (RFC 7692, 7.2.1). */
	return sc_span(d->out.data, d->out.len - 4);
}
