/* net/frame.c: see net/frame.h. */
#include "net/frame.h"

#include "base/clock.h"

#define FIN 0x80
#define RSV1 0x40
#define RSV 0x70
#define MASKED 0x80
#define KEEP (1u << 20) /* memory that one large message leaves behind */

void sc_frame_reader_init(struct sc_frame_reader *r, bool masked, size_t max)
{
	memset(r, 0, sizeof(*r));
	r->masked = masked;
	r->message_kind = SC_FRAME_NONE;
	r->head_need = 2;
	sc_bytes_init(&r->whole, max);
}

void sc_frame_reader_done(struct sc_frame_reader *r)
{
	sc_bytes_done(&r->whole);
}

void sc_frame_mask(char *data, size_t len, const unsigned char mask[4], size_t phase)
{
	unsigned char key[8];
	uint64_t wide, word;
	size_t i = 0;

	for (size_t k = 0; k < 8; k++)
		key[k] = mask[(phase + k) & 3];
	memcpy(&wide, key, 8);
	for (; i + 32 <= len; i += 32)
		for (size_t k = 0; k < 32; k += 8) {
			memcpy(&word, data + i + k, 8);
			word ^= wide;
			memcpy(data + i + k, &word, 8);
		}
	for (; i < len; i++)
		data[i] ^= (char)key[i & 7];
}

/* How many bytes the letter at P takes, 0 when it is none (overlong, surrogate, above U+10FFFF,
 * cut). */
static size_t letter(const unsigned char *p, size_t left)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (n > left)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0;
	else if (p[0] == 0xed)
		high = 0x9f;
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f;
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

bool sc_frame_utf8(const char *text, size_t len)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t i = 0;

	while (i < len) {
		if (i + 32 <= len) {
			uint64_t w[4];

			memcpy(w, p + i, 32);
			if (!((w[0] | w[1] | w[2] | w[3]) & 0x8080808080808080ULL)) {
				i += 32;
				continue;
			}
		} else if (i + 8 <= len) {
			uint64_t w;

			memcpy(&w, p + i, 8);
			if (!(w & 0x8080808080808080ULL)) {
				i += 8;
				continue;
			}
		}
		if (p[i] < 0x80) {
			i++;
		} else {
			size_t n = letter(p + i, len - i);

			if (n == 0)
				return false;
			i += n;
		}
	}
	return true;
}

bool sc_frame_code_ok(uint16_t code)
{
	if (code >= 3000 && code <= 4999)
		return true;
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
}

static int fail(struct sc_frame_reader *r, uint16_t code, struct sc_err *err, const char *reason)
{
	r->close_code = code;
	return sc_err_set(err, SC_E_PROTOCOL, "cannot read a frame of", "%s", reason);
}

static int fail_size(struct sc_frame_reader *r, struct sc_err *err)
{
	r->close_code = 1009;
	sc_err_set(err, SC_E_PROTOCOL, "cannot read a message of", "it is larger than %zu bytes",
		   r->whole.max);
	sc_err_field_u64(err, "max_message", r->whole.max);
	sc_err_next(err, "raise the limit with --max-message");
	return SC_E_PROTOCOL;
}

static int fail_memory(struct sc_frame_reader *r, struct sc_err *err)
{
	r->close_code = 1011;
	return sc_err_nomem(err, "cannot read a message of");
}

/* The first two bytes say how long the head is, and most of what can be wrong. */
static int check_start(struct sc_frame_reader *r, struct sc_err *err)
{
	int kind = r->head[0] & 15;
	unsigned len7 = r->head[1] & 127;
	bool masked = r->head[1] & MASKED;

	if (masked != r->masked)
		return fail(r, 1002, err,
			    masked ? "a server's frame is masked"
				   : "a client's frame is not masked");
	if ((kind > 2 && kind < 8) || kind > 10)
		return fail(r, 1002, err, "its opcode is reserved");
	if (r->head[0] & RSV) {
		if ((r->head[0] & RSV) != RSV1 || !r->may_compress || kind == SC_FRAME_MORE ||
		    kind >= 8)
			return fail(r, 1002, err, "a reserved bit is set");
	}
	if (kind >= 8 && !(r->head[0] & FIN))
		return fail(r, 1002, err, "a control frame is fragmented");
	if (kind >= 8 && len7 > 125)
		return fail(r, 1002, err, "a control frame is longer than 125 bytes");
	if (kind == SC_FRAME_MORE && r->message_kind == SC_FRAME_NONE)
		return fail(r, 1002, err, "a continuation continues nothing");
	if (kind != SC_FRAME_MORE && kind < 8 && r->message_kind != SC_FRAME_NONE)
		return fail(r, 1002, err, "a message begins inside another one");
	r->head_need = (uint8_t)(2 + (len7 == 126 ? 2 : len7 == 127 ? 8 : 0) + (masked ? 4 : 0));
	return 0;
}

static int begin_frame(struct sc_frame_reader *r, struct sc_err *err)
{
	const unsigned char *h = r->head;
	unsigned len7 = h[1] & 127;
	uint64_t len = len7;

	if (len7 == 126) {
		len = (uint64_t)h[2] << 8 | h[3];
		if (len < 126)
			return fail(r, 1002, err, "its length is not written in the shortest form");
	} else if (len7 == 127) {
		len = 0;
		for (int i = 2; i < 10; i++)
			len = len << 8 | h[i];
		if (len >> 63)
			return fail(r, 1002, err, "its length has the highest bit set");
		if (len < 65536)
			return fail(r, 1002, err, "its length is not written in the shortest form");
	}
	if (r->masked)
		memcpy(r->mask, h + r->head_need - 4, 4);
	r->frame_kind = h[0] & 15;
	r->final = h[0] & FIN;
	r->frame_len = r->left = len;
	r->in_frame = true;
	if (r->frame_kind >= 8) {
		r->control_len = 0;
		return 0;
	}
	if (len > r->whole.max - r->whole.len)
		return fail_size(r, err);
	if (r->frame_kind != SC_FRAME_MORE) {
		r->message_kind = r->frame_kind;
		r->message_compressed = h[0] & RSV1;
	}
	return 0;
}

static int finish_close(struct sc_frame_reader *r, struct sc_frame *f, struct sc_err *err)
{
	const unsigned char *p = (const unsigned char *)f->payload.data;

	f->close_code = 1005;
	if (f->payload.len == 0)
		return 1;
	if (f->payload.len == 1)
		return fail(r, 1002, err, "a close frame has half a code");
	f->close_code = (uint16_t)(p[0] << 8 | p[1]);
	f->payload = sc_span(f->payload.data + 2, f->payload.len - 2);
	if (!sc_frame_code_ok(f->close_code))
		return fail(r, 1002, err, "a close frame has a code that may not be sent");
	if (!sc_frame_utf8(f->payload.data, f->payload.len))
		return fail(r, 1007, err, "the reason in a close frame is not UTF-8");
	return 1;
}

/* The frame's last byte is there; PAYLOAD is the whole of it, or its last part when r->pieces. */
static int finish_frame(struct sc_frame_reader *r, struct sc_span payload, struct sc_frame *f,
			struct sc_err *err)
{
	r->in_frame = false;
	r->head_len = 0;
	r->head_need = 2;
	if (r->frame_kind >= 8) {
		*f = (struct sc_frame){ .kind = r->frame_kind, .payload = payload };
		return r->frame_kind == SC_FRAME_CLOSE ? finish_close(r, f, err) : 1;
	}
	if (r->pieces || !r->final) {
		if (sc_bytes_put(&r->whole, payload.data, payload.len) < 0)
			return fail_memory(r, err);
		r->pieces = true;
		if (!r->final)
			return 0;
		payload = sc_span(r->whole.data ? r->whole.data : "", r->whole.len);
	}
	*f = (struct sc_frame){ .kind = r->message_kind,
				.compressed = r->message_compressed,
				.payload = payload };
	r->message_kind = SC_FRAME_NONE;
	if (f->kind == SC_FRAME_TEXT && !f->compressed && !sc_frame_utf8(payload.data, payload.len))
		return fail(r, 1007, err, "a text message is not UTF-8");
	return 1;
}

/* Part of a payload: kept until the rest comes. */
static int keep_part(struct sc_frame_reader *r, const char *data, size_t len, struct sc_err *err)
{
	r->left -= len;
	if (r->frame_kind >= 8) {
		memcpy(r->control + r->control_len, data, len);
		r->control_len = (uint8_t)(r->control_len + len);
		return 0;
	}
	r->pieces = true;
	return sc_bytes_put(&r->whole, data, len) < 0 ? fail_memory(r, err) : 0;
}

static int take_payload(struct sc_frame_reader *r, char *data, size_t len, size_t *at,
			struct sc_frame *f, struct sc_err *err)
{
	size_t n = len - *at < r->left ? len - *at : (size_t)r->left;
	char *part = data + *at;
	int rc;

	if (r->masked)
		sc_frame_mask(part, n, r->mask, (r->frame_len - r->left) & 3);
	*at += n;
	if (n < r->left)
		return keep_part(r, part, n, err);
	if (r->frame_kind >= 8 && r->control_len) {
		rc = keep_part(r, part, n, err);
		return rc < 0 ? rc
			      : finish_frame(r, sc_span((char *)r->control, r->control_len), f,
					     err);
	}
	return finish_frame(r, sc_span(part, n), f, err);
}

int sc_frame_read(struct sc_frame_reader *r, char *data, size_t len, size_t *ret_used,
		  struct sc_frame *ret_frame, struct sc_err *err)
{
	size_t at = 0;
	int rc = 0;

	if (r->close_code) {
		*ret_used = 0;
		return fail(r, r->close_code, err, "an earlier frame was refused");
	}
	if (r->message_kind == SC_FRAME_NONE &&
	    r->pieces) { /* the last call's message was borrowed until now */
		r->pieces = false;
		if (r->whole.cap > KEEP)
			sc_bytes_done(&r->whole);
		else
			sc_bytes_clear(&r->whole);
	}
	while (rc == 0) {
		if (!r->in_frame) {
			while (r->head_len < r->head_need && at < len) {
				r->head[r->head_len++] = (unsigned char)data[at++];
				if (r->head_len == 2) {
					rc = check_start(r, err);
					if (rc < 0)
						break;
				}
			}
			if (rc < 0 || r->head_len < r->head_need)
				break;
			rc = begin_frame(r, err);
			if (rc < 0)
				break;
		}
		if (at == len && r->left)
			break;
		rc = take_payload(r, data, len, &at, ret_frame, err);
	}
	*ret_used = at;
	return rc;
}

/* A system call for each frame would cost more than the frame. */
static void fresh_mask(unsigned char mask[4])
{
	static _Thread_local unsigned char pool[1024];
	static _Thread_local size_t left;

	if (left == 0) {
		sc_random(pool, sizeof(pool));
		left = sizeof(pool);
	}
	left -= 4;
	memcpy(mask, pool + left, 4);
}

int sc_frame_put(struct sc_bytes *out, enum sc_frame_kind kind, bool final, bool compressed,
		 bool masked, struct sc_span payload)
{
	unsigned char head[14];
	size_t n = 2;

	head[0] = (unsigned char)((final ? FIN : 0) | (compressed ? RSV1 : 0) | kind);
	if (payload.len < 126) {
		head[1] = (unsigned char)payload.len;
	} else if (payload.len < 65536) {
		head[1] = 126;
		head[2] = (unsigned char)(payload.len >> 8);
		head[3] = (unsigned char)payload.len;
		n = 4;
	} else {
		head[1] = 127;
		for (int i = 0; i < 8; i++)
			head[2 + i] = (unsigned char)((uint64_t)payload.len >> (56 - 8 * i));
		n = 10;
	}
	if (masked) {
		head[1] |= MASKED;
		fresh_mask(head + n);
		n += 4;
	}
	if (payload.len > SIZE_MAX - n || sc_bytes_reserve(out, n + payload.len) < 0)
		return SC_E_NOMEM;
	(void)sc_bytes_put(out, head, n);
	(void)sc_bytes_put(out, payload.data, payload.len);
	if (masked)
		sc_frame_mask(out->data + out->len - payload.len, payload.len, head + n - 4, 0);
	return 0;
}

int sc_frame_put_close(struct sc_bytes *out, bool masked, uint16_t code, struct sc_span reason)
{
	char payload[125];
	size_t n = reason.len < 123 ? reason.len : 123;

	if (code == 1005 || code == 0)
		return sc_frame_put(out, SC_FRAME_CLOSE, true, false, masked, sc_span(payload, 0));
	while (n > 0 && n < reason.len && ((unsigned char)reason.data[n] & 0xc0) == 0x80)
		n--;
	payload[0] = (char)(code >> 8);
	payload[1] = (char)code;
	if (n)
		memcpy(payload + 2, reason.data, n);
	return sc_frame_put(out, SC_FRAME_CLOSE, true, false, masked, sc_span(payload, n + 2));
}
