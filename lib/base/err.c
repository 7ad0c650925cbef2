/* base/err.c: errors as four short texts, and the one list of codes and exit statuses. */
#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

struct code {
	const char *name;
	int status;
	const char *word, *meaning;
};

static const struct code codes[] = { [0] = { "OK", 0, "ok", "done what was asked" },
#define X(name, status, word, meaning) [SC_ORD_##name] = { #name, status, word, meaning },
				     SC_CODES(X)
#undef X
};

static const struct code *find(int code)
{
	int ordinal = -code;

	if (ordinal < 0 || ordinal >= SC_ORD_COUNT)
		ordinal = SC_ORD_INTERNAL;
	return &codes[ordinal];
}

int sc_code_status(int code)
{
	return find(code)->status;
}

const char *sc_code_word(int code)
{
	return find(code)->word;
}

const char *sc_status_meaning(int status)
{
	for (int i = 0; i < SC_ORD_COUNT; i++)
		if (codes[i].status == status)
			return codes[i].meaning;
	return NULL;
}

/* A text in place of fixed size: what does not fit ends in "...", on a character's boundary. */
struct text {
	char *data;
	size_t len, size;
	bool cut;
};

static void text_put(struct text *t, const char *data, size_t len)
{
	char next; /* the first byte that is not taken */

	if (t->cut)
		return;
	if (t->len + len + 1 <= t->size) {
		memcpy(t->data + t->len, data, len);
		t->len += len;
		t->data[t->len] = 0;
		return;
	}
	t->cut = true;
	if (t->size < 4)
		return;
	if (t->len > t->size - 4) {
		t->len = t->size - 4;
		next = t->data[t->len];
	} else {
		size_t room = t->size - 4 - t->len; /* it is less than LEN */

		memcpy(t->data + t->len, data, room);
		t->len += room;
		next = data[room];
	}
	while (t->len > 0 && ((unsigned char)next & 0xc0) == 0x80)
		next = t->data[--t->len];
	memcpy(t->data + t->len, "...", 4);
	t->len += 3;
}

/* Control bytes would break the one line (or a terminal): they are shown, not sent. */
static void text_put_shown(struct text *t, const char *data, size_t len)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0, control; i < len; i += control ? control : 1) {
		control = sc_control_len(data + i, len - i);
		if (!control)
			text_put(t, data + i, 1);
		for (size_t k = 0; k < control; k++) {
			unsigned char c = (unsigned char)data[i + k];
			char shown[4] = { '\\', 'x', hex[c >> 4], hex[c & 15] };

			text_put(t, shown, sizeof(shown));
		}
	}
}

static void text_set(char *into, size_t size, const char *from)
{
	struct text t = { into, 0, size, false };

	into[0] = 0;
	text_put_shown(&t, from, strlen(from));
}

static void text_format(char *into, size_t size, const char *format, va_list args)
{
	char plain[2048];
	int n = vsnprintf(plain, sizeof(plain), format, args);
	struct text t = { into, 0, size, false };

	into[0] = 0;
	if (n < 0)
		return;
	text_put_shown(&t, plain, (size_t)n < sizeof(plain) ? (size_t)n : sizeof(plain) - 1);
}

void sc_err_clear(struct sc_err *err)
{
	if (!err)
		return;
	err->code = 0;
	err->errnum = 0;
	err->tried[0] = err->object[0] = err->reason[0] = err->next[0] = err->fields[0] = 0;
}

int sc_err_set(struct sc_err *err, int code, const char *tried, const char *reason, ...)
{
	va_list args;

	if (!err)
		return code;
	sc_err_clear(err);
	err->code = code;
	text_set(err->tried, sizeof(err->tried), tried);
	va_start(args, reason);
	text_format(err->reason, sizeof(err->reason), reason, args);
	va_end(args);
	return code;
}

int sc_err_sys(struct sc_err *err, int code, int errnum, const char *tried)
{
	char words[128];

	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
	case EIO:
	case EROFS:
	case EFBIG:
		code = SC_E_IO;
		break;
	case ENOMEM:
		code = SC_E_NOMEM;
		break;
	}
	sc_err_set(err, code, tried, "%s", strerror_r(errnum, words, sizeof(words)));
	if (err)
		err->errnum = errnum;
	return code;
}

int sc_err_nomem(struct sc_err *err, const char *tried)
{
	return sc_err_sys(err, SC_E_NOMEM, ENOMEM, tried);
}

int sc_err_on(struct sc_err *err, const char *kind, const char *name)
{
	struct text t;

	if (!err)
		return SC_E_INTERNAL;
	t = (struct text){ err->object, 0, sizeof(err->object), false };
	err->object[0] = 0;
	text_put_shown(&t, kind, strlen(kind));
	text_put(&t, " '", 2);
	text_put_shown(&t, name, strlen(name));
	text_put(&t, "'", 1);
	return err->code;
}

int sc_err_next(struct sc_err *err, const char *next, ...)
{
	va_list args;

	if (!err)
		return SC_E_INTERNAL;
	va_start(args, next);
	text_format(err->next, sizeof(err->next), next, args);
	va_end(args);
	return err->code;
}

/* A member that does not fit whole is left out: half a member would break the JSON. */
static int add_field(struct sc_err *err, const char *name, const char *value, size_t len)
{
	size_t have, more = strlen(name) + len + 4;

	if (!err)
		return SC_E_INTERNAL;
	have = strlen(err->fields);
	if (have + more + 1 > sizeof(err->fields))
		return err->code;
	snprintf(err->fields + have, sizeof(err->fields) - have, "%s\"%s\":%.*s", have ? "," : "",
		 name, (int)len, value);
	return err->code;
}

int sc_err_field_int(struct sc_err *err, const char *name, int64_t value)
{
	char digits[24];

	return add_field(err, name, digits, sc_i64_digits(digits, value));
}

int sc_err_field_u64(struct sc_err *err, const char *name, uint64_t value)
{
	char digits[24];

	return add_field(err, name, digits, sc_u64_digits(digits, value));
}

int sc_err_field_str(struct sc_err *err, const char *name, const char *value)
{
	struct sc_bytes b;
	int code;

	sc_bytes_init(&b, sizeof(err->fields));
	if (sc_bytes_put_json(&b, sc_span_str(value)) < 0)
		b.len = 0;
	code = b.len ? add_field(err, name, b.data, b.len) : err ? err->code : SC_E_INTERNAL;
	sc_bytes_done(&b);
	return code;
}

size_t sc_err_line(const struct sc_err *err, char *ret_text, size_t size)
{
	struct text t = { ret_text, 0, size, false };

	if (size == 0)
		return 0;
	ret_text[0] = 0;
	text_put(&t, err->tried, strlen(err->tried));
	if (err->object[0]) {
		text_put(&t, " ", 1);
		text_put(&t, err->object, strlen(err->object));
	}
	if (err->reason[0]) {
		text_put(&t, ": ", 2);
		text_put(&t, err->reason, strlen(err->reason));
	}
	if (err->next[0]) {
		text_put(&t, "; ", 2);
		text_put(&t, err->next, strlen(err->next));
	}
	return t.len;
}

size_t sc_err_json(const struct sc_err *err, char *ret_text, size_t size)
{
	struct {
		const char *name, *text;
	} parts[] = {
		{ "tried", err->tried },
		{ "object", err->object },
		{ "reason", err->reason },
		{ "next", err->next },
	};
	struct sc_bytes b;
	size_t len = 0;
	bool whole;

	if (size == 0)
		return 0;
	sc_bytes_init(&b, SC_ERR_JSON);
	whole = sc_bytes_putf(&b, "{\"error\":\"%s\",\"status\":%d", sc_code_word(err->code),
			      sc_code_status(err->code)) == 0;
	for (size_t i = 0; whole && i < sizeof(parts) / sizeof(parts[0]); i++)
		if (parts[i].text[0])
			whole = sc_bytes_putf(&b, ",\"%s\":", parts[i].name) == 0 &&
				sc_bytes_put_json(&b, sc_span_str(parts[i].text)) == 0;
	if (whole && err->errnum)
		whole = sc_bytes_putf(&b, ",\"errno\":%d", err->errnum) == 0;
	if (whole && err->fields[0])
		whole = sc_bytes_putf(&b, ",%s", err->fields) == 0;
	if (whole && sc_bytes_putc(&b, '}') == 0 && b.len < size) {
		memcpy(ret_text, b.data, b.len);
		ret_text[len = b.len] = 0;
	} else {
		int n = snprintf(ret_text, size, "{\"error\":\"%s\",\"status\":%d}",
				 sc_code_word(err->code), sc_code_status(err->code));

		len = n > 0 && (size_t)n < size ? (size_t)n : 0;
		ret_text[len] = 0;
	}
	sc_bytes_done(&b);
	return len;
}
