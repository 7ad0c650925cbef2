/* net/inflate.c: see net/inflate.h. */
#include "net/inflate.h"

#include <limits.h>
#include <stdlib.h>
#include <strings.h>
#include <zlib.h>

#include "base/file.h"

#define STEP 16384
#define KEEP (1u << 20) /* memory that one large message leaves behind */

struct sc_inflate {
	z_stream z;
	bool takeover;
	struct sc_bytes out;
};

static struct sc_span trim(struct sc_span s)
{
	while (s.len && (s.data[0] == ' ' || s.data[0] == '\t'))
		s = sc_span(s.data + 1, s.len - 1);
	while (s.len && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* The part before SEP, cut off the front of *rest. */
static struct sc_span cut(struct sc_span *rest, char sep)
{
	const char *at = memchr(rest->data, sep, rest->len);
	struct sc_span part = at ? sc_span(rest->data, (size_t)(at - rest->data)) : *rest;

	*rest = at ? sc_span(at + 1, rest->len - part.len - 1) : sc_span(rest->data + rest->len, 0);
	return trim(part);
}

static bool same(struct sc_span s, const char *word)
{
	return s.len == strlen(word) && !strncasecmp(s.data, word, s.len);
}

static int refuse(struct sc_err *err, const char *reason)
{
	return sc_err_set(err, SC_E_PROTOCOL, "cannot agree on compression", "%s", reason);
}

static bool bits_ok(struct sc_span value)
{
	uint64_t bits;

	if (value.len > 2 && value.data[0] == '"' && value.data[value.len - 1] == '"')
		value = sc_span(value.data + 1, value.len - 2);
	return sc_u64_parse(value, &bits) && bits >= 8 && bits <= 15;
}

int sc_inflate_agree(struct sc_span answer, bool *ret_takeover, struct sc_err *err)
{
	bool takeover = true;
	unsigned seen = 0;

	if (!same(cut(&answer, ';'), "permessage-deflate"))
		return refuse(err, "the server chose an extension that was not offered");
	while (answer.len) {
		struct sc_span value = cut(&answer, ';'), key;
		bool has_value = memchr(value.data, '=', value.len) != NULL;
		unsigned bit;

		key = cut(&value, '=');
		if (same(key, "server_no_context_takeover") && !has_value) {
			takeover = false;
			bit = 1;
		} else if (same(key, "client_no_context_takeover") && !has_value) {
			bit = 2;
		} else if (same(key, "server_max_window_bits") && bits_ok(trim(value))) {
			bit = 4;
		} else if (same(key, "client_max_window_bits") && bits_ok(trim(value))) {
			bit = 8;
		} else {
			return refuse(
				err,
				"the server's parameters for permessage-deflate are not valid");
		}
		if (seen & bit)
			return refuse(err, "the server repeats a parameter for permessage-deflate");
		seen |= bit;
	}
	*ret_takeover = takeover;
	return 0;
}

int sc_inflate_new(bool takeover, size_t max_message, struct sc_inflate **ret_inflate,
		   struct sc_err *err)
{
	struct sc_inflate *in = sc_calloc(1, sizeof(*in));

	/* The largest window reads whatever window the server chose. */
	if (!in || inflateInit2(&in->z, -15) != Z_OK) {
		free(in);
		return sc_err_nomem(err, "cannot set up decompression");
	}
	in->takeover = takeover;
	sc_bytes_init(&in->out, max_message < SIZE_MAX - STEP ? max_message + 1 : max_message);
	*ret_inflate = in;
	return 0;
}

void sc_inflate_free(struct sc_inflate *in)
{
	if (!in)
		return;
	inflateEnd(&in->z);
	sc_bytes_done(&in->out);
	free(in);
}

/* 0 when the input is used up, 1 at the end of a deflate stream, or a failure. */
static int run(struct sc_inflate *in, uint16_t *code, struct sc_err *err)
{
	for (;;) {
		size_t room, want = in->out.max - in->out.len;
		int rc;

		if (want == 0) {
			*code = 1009;
			sc_err_set(err, SC_E_PROTOCOL, "cannot inflate a message of",
				   "it is larger than %zu bytes", in->out.max - 1);
			sc_err_field_u64(err, "max_message", in->out.max - 1);
			sc_err_next(err, "raise the limit with --max-message");
			return SC_E_PROTOCOL;
		}
		if (sc_bytes_reserve(&in->out, want < STEP ? want : STEP) < 0) {
			*code = 1011;
			return sc_err_nomem(err, "cannot inflate a message of");
		}
		room = in->out.cap - in->out.len;
		if (room > want)
			room = want;
		if (room > INT_MAX)
			room = INT_MAX;
		in->z.next_out = (unsigned char *)in->out.data + in->out.len;
		in->z.avail_out = (unsigned)room;
		rc = inflate(&in->z, Z_SYNC_FLUSH);
		in->out.len += room - in->z.avail_out;
		if (rc == Z_STREAM_END)
			return 1;
		if (rc != Z_OK && rc != Z_BUF_ERROR) {
			*code = rc == Z_MEM_ERROR ? 1011 : 1007;
			return sc_err_set(err, rc == Z_MEM_ERROR ? SC_E_NOMEM : SC_E_PROTOCOL,
					  "cannot inflate a message of", "%s",
					  in->z.msg ? in->z.msg : "it is not deflate data");
		}
		if (in->z.avail_out && in->z.avail_in) {
			*code = 1007;
			return sc_err_set(err, SC_E_PROTOCOL, "cannot inflate a message of",
					  "it does not go on");
		}
		if (in->z.avail_out)
			return 0;
	}
}

int sc_inflate_message(struct sc_inflate *in, struct sc_span payload, struct sc_span *ret_message,
		       uint16_t *ret_close_code, struct sc_err *err)
{
	static const unsigned char tail[4] = { 0x00, 0x00, 0xff, 0xff };
	int rc;

	if (payload.len > UINT_MAX) {
		*ret_close_code = 1009;
		return sc_err_set(err, SC_E_PROTOCOL, "cannot inflate a message of",
				  "it is larger than 4 GiB");
	}
	if (in->out.cap > KEEP)
		sc_bytes_done(&in->out);
	else
		sc_bytes_clear(&in->out);
	for (int part = 0; part < 2; part++) {
		in->z.next_in = part ? (unsigned char *)tail : (unsigned char *)payload.data;
		in->z.avail_in = part ? sizeof(tail) : (unsigned)payload.len;
		while (in->z.avail_in) {
			rc = run(in, ret_close_code, err);
			if (rc < 0)
				return rc;
			/* A message may hold a final block (RFC 7692, 7.2.3.4); what follows starts
			 * a new stream. */
			if (rc == 1 && inflateReset(&in->z) != Z_OK) {
				*ret_close_code = 1011;
				return sc_err_nomem(err, "cannot inflate a message of");
			}
		}
	}
	if (!in->takeover)
		inflateReset(&in->z);
	*ret_message = sc_span(in->out.data ? in->out.data : "", in->out.len);
	return 0;
}
