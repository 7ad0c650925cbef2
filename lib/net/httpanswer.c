/* net/httpanswer.c: see net/httpanswer.h. */
#include "net/httpanswer.h"

enum { LINE_MAX_BYTES = 4096, TRAILER_MAX = 65536 };

static int refuse(struct sc_err *err, const char *reason)
{
	return sc_err_set(err, SC_E_PROTOCOL, "cannot read the HTTP answer of", "%s", reason);
}

void sc_httpanswer_init(struct sc_httpanswer *a)
{
	memset(a, 0, sizeof(*a));
	sc_bytes_init(&a->text, SC_HTTPANSWER_HEAD_MAX + LINE_MAX_BYTES);
	a->state = SC_ANSWER_OVER;
}

void sc_httpanswer_done(struct sc_httpanswer *a)
{
	sc_bytes_done(&a->text);
}

void sc_httpanswer_begin(struct sc_httpanswer *a, bool head_request)
{
	sc_bytes_clear(&a->text);
	a->state = SC_ANSWER_HEAD;
	a->bodyless = head_request;
	a->closes = a->told = false;
	a->left = 0;
	a->head_len = a->trailer = 0;
}

/* Length of the body as the head says it; -1 none is said, -2 it cannot be believed. */
static int64_t length_of(const struct sc_httphead *head)
{
	struct sc_span value;
	uint64_t one, n = 0;

	for (size_t i = 0; sc_httphead_find(head, "Content-Length", i, &value); i++) {
		if (!sc_u64_parse(value, &one) || one > INT64_MAX || (i && one != n))
			return -2;
		n = one;
	}
	return sc_httphead_find(head, "Content-Length", 0, &value) ? (int64_t)n : -1;
}

/* What follows the head? */
static int frame_body(struct sc_httpanswer *a, struct sc_err *err)
{
	const struct sc_httphead *head = &a->head;
	int64_t length = length_of(head);
	struct sc_span coding;

	a->closes = head->minor == 0 ? !sc_httphead_has(head, "Connection", "keep-alive")
				     : sc_httphead_has(head, "Connection", "close");
	if (length == -2)
		return refuse(err, "its Content-Length is no number, or two of them differ");
	if (a->bodyless || head->status == 204 || head->status == 304) {
		a->state = SC_ANSWER_OVER;
	} else if (sc_httphead_find(head, "Transfer-Encoding", 0, &coding)) {
		if (!sc_httphead_has(head, "Transfer-Encoding", "chunked") || length >= 0)
			return refuse(err, "its body is framed in a way that is not to be trusted");
		a->state = SC_ANSWER_SIZE;
	} else if (length >= 0) {
		a->left = (uint64_t)length;
		a->state = length ? SC_ANSWER_LENGTH : SC_ANSWER_OVER;
	} else {
		a->closes = true;
		a->state = SC_ANSWER_TO_END;
	}
	return 0;
}

static int take_head(struct sc_httpanswer *a, const char *data, size_t len, size_t *used,
		     enum sc_httpanswer_step *step, struct sc_err *err)
{
	size_t before = a->text.len, room = SC_HTTPANSWER_HEAD_MAX - before;
	int64_t n;

	if (sc_bytes_put(&a->text, data, len < room ? len : room) < 0)
		return sc_err_nomem(err, "cannot read the HTTP answer of");
	n = sc_httphead_parse(a->text.data, a->text.len, SC_HTTPANSWER_HEAD_MAX, &a->head, err);
	if (n < 0)
		return (int)n;
	if (n == 0) {
		*used = len;
		return 0;
	}
	*used = (size_t)n - before;
	a->text.len = (size_t)n;
	if (a->head.status == 101)
		return refuse(err, "it changes the protocol, which was not asked for");
	if (a->head.status < 200) { /* 100 and 103 come before the answer */
		sc_bytes_clear(&a->text);
		return 0;
	}
	a->head_len = a->text.len;
	a->told = true;
	*step = SC_ANSWER_BEGUN;
	/* lines of framing are kept behind it, where nothing moves any more */
	if (sc_bytes_reserve(&a->text, LINE_MAX_BYTES) < 0)
		return sc_err_nomem(err, "cannot read the HTTP answer of");
	if (sc_httphead_parse(a->text.data, a->text.len, SC_HTTPANSWER_HEAD_MAX, &a->head, err) < 0)
		return SC_E_PROTOCOL;
	return frame_body(a, err);
}

/* A line of framing: 1 and the line, or 0. */
static int take_line(struct sc_httpanswer *a, const char *data, size_t len, size_t *used,
		     struct sc_span *ret_line, struct sc_err *err)
{
	const char *lf = memchr(data, '\n', len);
	size_t n = lf ? (size_t)(lf - data) + 1 : len, have = a->text.len - a->head_len;

	if (n > LINE_MAX_BYTES - have)
		return refuse(err, "a line between its chunks is too long");
	(void)sc_bytes_put(&a->text, data, n); /* reserved with the head */
	*used = n;
	if (!lf)
		return 0;
	*ret_line = sc_span(a->text.data + a->head_len, have + n - 1);
	if (ret_line->len && ret_line->data[ret_line->len - 1] == '\r')
		ret_line->len--;
	a->text.len = a->head_len;
	return 1;
}

static int chunk_size(struct sc_httpanswer *a, struct sc_span line, struct sc_err *err)
{
	uint64_t size = 0;
	size_t i = 0;

	for (; i < line.len; i++) {
		char c = line.data[i];
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
			    : c >= 'A' && c <= 'F' ? c - 'A' + 10
						   : -1;

		if (digit < 0)
			break;
		if (size >> 58)
			return refuse(err, "a chunk is too long");
		size = size * 16 + (uint64_t)digit;
	}
	if (i == 0 || (i < line.len && !memchr("; \t", line.data[i], 3)))
		return refuse(err, "the size of a chunk is no number");
	a->left = size;
	a->state = size ? SC_ANSWER_CHUNK : SC_ANSWER_TRAILER;
	return 0;
}

static int take_framing(struct sc_httpanswer *a, const char *data, size_t len, size_t *used,
			struct sc_err *err)
{
	struct sc_span line = sc_span("", 0);
	int rc = take_line(a, data, len, used, &line, err);

	if (rc <= 0)
		return rc;
	if (a->state == SC_ANSWER_SIZE)
		return chunk_size(a, line, err);
	if (a->state == SC_ANSWER_CHUNK_END) {
		a->state = SC_ANSWER_SIZE;
		return line.len ? refuse(err, "a chunk is longer than it says") : 0;
	}
	a->trailer += line.len + 2;
	if (a->trailer > TRAILER_MAX)
		return refuse(err, "its trailers are too long");
	if (line.len == 0)
		a->state = SC_ANSWER_OVER;
	return 0;
}

static void take_body(struct sc_httpanswer *a, const char *data, size_t len, size_t *used,
		      struct sc_span *ret_piece)
{
	size_t n = len;

	if (a->state != SC_ANSWER_TO_END) {
		if (n > a->left)
			n = (size_t)a->left;
		a->left -= n;
		if (a->left == 0)
			a->state = a->state == SC_ANSWER_CHUNK ? SC_ANSWER_CHUNK_END
							       : SC_ANSWER_OVER;
	}
	*used = n;
	*ret_piece = sc_span(data, n);
}

int sc_httpanswer_read(struct sc_httpanswer *a, const char *data, size_t len, size_t *ret_used,
		       enum sc_httpanswer_step *ret_step, struct sc_span *ret_piece,
		       struct sc_err *err)
{
	size_t at = 0;
	int rc = 0;

	*ret_step = SC_ANSWER_MORE;
	while (rc == 0 && *ret_step == SC_ANSWER_MORE && at < len && a->state != SC_ANSWER_OVER) {
		size_t used = 0;

		switch (a->state) {
		case SC_ANSWER_HEAD:
			rc = take_head(a, data + at, len - at, &used, ret_step, err);
			break;
		case SC_ANSWER_LENGTH:
		case SC_ANSWER_CHUNK:
		case SC_ANSWER_TO_END:
			take_body(a, data + at, len - at, &used, ret_piece);
			*ret_step = SC_ANSWER_BODY;
			break;
		default:
			rc = take_framing(a, data + at, len - at, &used, err);
		}
		at += used;
	}
	if (rc == 0 && *ret_step == SC_ANSWER_MORE && a->state == SC_ANSWER_OVER)
		*ret_step = SC_ANSWER_DONE;
	*ret_used = at;
	return rc;
}

bool sc_httpanswer_ends(const struct sc_httpanswer *a)
{
	return a->state == SC_ANSWER_TO_END;
}
