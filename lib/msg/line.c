/* msg/line.c: messages as lines of JSON. */
#include "msg/line.h"

#include <stdio.h>

#include "msg/json.h"
#include "msg/pack.h"
#include "msg/ulid.h"

#define TRIED "cannot send a message"

void sc_msg_uid_text(struct sc_span uid, char ret_text[SC_MSG_UID_TEXT])
{
	struct sc_ulid ulid;

	if (uid.len == SC_ULID_BYTES) {
		memcpy(ulid.bytes, uid.data, SC_ULID_BYTES);
		sc_ulid_text(&ulid, ret_text);
		return;
	}
	memcpy(ret_text, "hex:", 5);
	for (size_t i = 0; i < uid.len && i < SC_MSG_UID_MAX; i++)
		snprintf(ret_text + 4 + 2 * i, 3, "%02x", (unsigned char)uid.data[i]);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool sc_msg_uid_parse(struct sc_span text, char ret_uid[SC_MSG_UID_MAX], size_t *ret_len)
{
	struct sc_ulid ulid;
	size_t len = text.len > 4 ? (text.len - 4) / 2 : 0;

	if (sc_ulid_parse(text, &ulid)) {
		memcpy(ret_uid, ulid.bytes, SC_ULID_BYTES);
		*ret_len = SC_ULID_BYTES;
		return true;
	}
	if (len == 0 || len > SC_MSG_UID_MAX || text.len % 2 || memcmp(text.data, "hex:", 4) != 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		int high = hex_digit(text.data[4 + 2 * i]), low = hex_digit(text.data[5 + 2 * i]);

		if (high < 0 || low < 0)
			return false;
		ret_uid[i] = (char)(high << 4 | low);
	}
	*ret_len = len;
	return true;
}

/* Printing */

static int put_uid(struct sc_bytes *out, const char *name, struct sc_span uid)
{
	char text[SC_MSG_UID_TEXT];
	int rc = sc_bytes_puts(out, name);

	if (rc < 0)
		return rc;
	if (uid.len == 0)
		return sc_bytes_puts(out, "null");
	sc_msg_uid_text(uid, text);
	return sc_bytes_putf(out, "\"%s\"", text);
}

static int put_name(struct sc_bytes *out, const char *before, struct sc_span name)
{
	int rc = sc_bytes_puts(out, before);

	return rc < 0 ? rc : sc_msg_json_print_str(name, out);
}

static int put_head(struct sc_bytes *out, const struct sc_msg *msg, enum sc_msg_form form)
{
	int rc;

	if (form == SC_MSG_BARE)
		return 0;
	rc = form == SC_MSG_OBJECT ? put_uid(out, "{\"uid\":", msg->uid) : 0;
	if (rc == 0)
		rc = put_name(out, form == SC_MSG_OBJECT ? ",\"channel\":" : "[", msg->channel);
	if (rc == 0)
		rc = put_name(out, form == SC_MSG_OBJECT ? ",\"subject\":" : ",", msg->subject);
	if (rc == 0 && form == SC_MSG_OBJECT)
		rc = put_uid(out, ",\"reference\":", msg->reference);
	return rc < 0 ? rc : sc_bytes_puts(out, form == SC_MSG_OBJECT ? ",\"data\":" : ",");
}

int sc_msg_line_print(const struct sc_msg *msg, enum sc_msg_form form, struct sc_bytes *out,
		      struct sc_err *err)
{
	static const char *const ends[] = { "}\n", "]\n", "\n" };
	size_t start = out->len;
	int rc = put_head(out, msg, form);

	if (rc < 0)
		sc_err_nomem(err, "cannot print a message");
	else
		rc = sc_msg_json_print(msg->data, out, err);
	if (rc == 0 && sc_bytes_puts(out, ends[form]) < 0)
		rc = sc_err_nomem(err, "cannot print a message");
	if (rc < 0)
		out->len = start;
	return rc;
}

/* Reading */

/* The values of a line, before they are taken over. A kind of NULL: it has none. */
struct fields {
	struct sc_json uid, channel, subject, reference, data;
};

/* Where a field is in the store, while that still grows. */
struct place {
	size_t from, to;
};

static struct sc_span placed(const struct sc_bytes *store, struct place p)
{
	return sc_span(store->data + p.from, p.to - p.from);
}

static int no_form(struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, TRIED, "the line is not of a form that is read");
	return sc_err_next(err, "write [CHANNEL,SUBJECT,DATA], [CHANNEL,SUBJECT,REFERENCE,DATA] or "
				"an object with channel and subject");
}

static int take_array(const struct sc_json *value, struct fields *f, struct sc_err *err)
{
	struct sc_json e[4], more;
	struct sc_json_walk walk;
	int n = 0;

	sc_json_walk_init(&walk, value);
	while (n < 4 && sc_json_walk_next(&walk, NULL, &e[n]))
		n++;
	if (n < 3 || sc_json_walk_next(&walk, NULL, &more))
		return no_form(err);
	f->channel = e[0];
	f->subject = e[1];
	if (n == 4)
		f->reference = e[2];
	f->data = e[n - 1];
	return 0;
}

static int take_object(const struct sc_json *value, struct fields *f, bool *ret_ack,
		       struct sc_err *err)
{
	struct {
		const char *name;
		struct sc_json *into;
		bool seen;
	} names[] = {
		{ "channel", &f->channel, false },     { "subject", &f->subject, false },
		{ "reference", &f->reference, false }, { "uid", &f->uid, false },
		{ "data", &f->data, false },           { "ack", &f->uid, false },
	};
	size_t n = sizeof(names) / sizeof(names[0]), i, members = 0;
	struct sc_json_walk walk;
	struct sc_json member;
	struct sc_span key;

	sc_json_walk_init(&walk, value);
	for (; sc_json_walk_next(&walk, &key, &member); members++) {
		for (i = 0; i < n && !sc_json_key_is(key, sc_span_str(names[i].name)); i++)
			;
		if (i == n || names[i].seen) {
			sc_err_set(err, SC_E_DATA, TRIED, "the line has %s \"%.*s\"",
				   i == n ? "the member" : "twice the member",
				   (int)(key.len < 60 ? key.len : 60), key.data);
			return sc_err_next(err, "an object takes channel, subject, reference, uid "
						"and data, each once");
		}
		names[i].seen = true;
		*names[i].into = member;
	}
	*ret_ack = names[5].seen;
	if (*ret_ack ? members != 1 : !names[0].seen || !names[1].seen)
		return no_form(err);
	return 0;
}

static int out_of_limits(struct sc_err *err, const char *field, const char *takes)
{
	return sc_err_set(err, SC_E_DATA, TRIED, "the %s must be %s", field, takes);
}

static int add_name(struct sc_bytes *store, const struct sc_json *value, const char *field,
		    size_t least, struct place *ret_place, struct sc_err *err)
{
	size_t from = store->len;

	if (value->kind != SC_JSON_STRING)
		return out_of_limits(err, field, "a string");
	if (sc_json_unescape(value->text, store) < 0)
		return sc_err_nomem(err, TRIED);
	*ret_place = (struct place){ from, store->len };
	if (store->len - from < least || store->len - from > SC_MSG_NAME_MAX)
		return out_of_limits(err, field, least ? "1 to 255 bytes" : "at most 255 bytes");
	return 0;
}

static int add_uid(struct sc_bytes *store, const struct sc_json *value, const char *field,
		   bool whole, struct place *ret_place, struct sc_err *err)
{
	size_t from = store->len, len;
	char uid[SC_MSG_UID_MAX];
	bool good;

	*ret_place = (struct place){ from, from };
	if (value->kind == SC_JSON_NULL)
		return 0;
	if (value->kind != SC_JSON_STRING)
		return out_of_limits(err, field, "a ULID or \"hex:..\" of 1 to 64 bytes");
	if (sc_json_unescape(value->text, store) < 0)
		return sc_err_nomem(err, TRIED);
	good = sc_msg_uid_parse(sc_span(store->data + from, store->len - from), uid, &len);
	store->len = from;
	if (!good)
		return out_of_limits(err, field, "a ULID or \"hex:..\" of 1 to 64 bytes");
	if (whole && len != SC_ULID_BYTES)
		return out_of_limits(err, field, "of 16 bytes: other nodes take no other");
	if (sc_bytes_put(store, uid, len) < 0)
		return sc_err_nomem(err, TRIED);
	ret_place->to = store->len;
	return 0;
}

/* Takes the fields over. Everything is in STORE before the first span is made. */
static int take(const struct fields *f, struct sc_bytes *store, struct sc_msg *ret_msg,
		struct sc_err *err)
{
	struct place uid, channel, subject, reference, data;
	int rc = add_uid(store, &f->uid, "uid", true, &uid, err);

	if (rc == 0)
		rc = add_name(store, &f->channel, "channel", 1, &channel, err);
	if (rc == 0)
		rc = add_name(store, &f->subject, "subject", 0, &subject, err);
	if (rc == 0)
		rc = add_uid(store, &f->reference, "reference", false, &reference, err);
	if (rc < 0)
		return rc;
	data.from = store->len;
	rc = sc_msg_json_pack(&f->data, store, err);
	if (rc < 0)
		return rc;
	data.to = store->len;
	*ret_msg = (struct sc_msg){
		.uid = placed(store, uid),
		.channel = placed(store, channel),
		.subject = placed(store, subject),
		.data = placed(store, data),
	};
	if (reference.to > reference.from)
		ret_msg->reference = placed(store, reference);
	if (!sc_msg_is_ack(ret_msg))
		return 0;
	sc_err_set(err, SC_E_DATA, TRIED, "acknowledgements are not published");
	return sc_err_next(err, "see --ack");
}

int sc_msg_line_parse(struct sc_span line, struct sc_bytes *store, struct sc_msg *ret_msg,
		      bool *ret_ack, struct sc_err *err)
{
	struct fields f = { .uid = { .kind = SC_JSON_NULL }, .data = { .kind = SC_JSON_NULL } };
	struct sc_msg msg = { 0 };
	struct sc_json value;
	struct place uid;
	bool ack = false;
	int rc = sc_json_scan(line, &value, err);

	if (rc < 0)
		return rc;
	sc_bytes_clear(store);
	f.reference.kind = SC_JSON_NULL;
	if (value.kind == SC_JSON_ARRAY)
		rc = take_array(&value, &f, err);
	else if (value.kind == SC_JSON_OBJECT)
		rc = take_object(&value, &f, &ack, err);
	else
		rc = no_form(err);
	if (rc < 0)
		return rc;
	if (ack) {
		rc = add_uid(store, &f.uid, "uid", false, &uid, err);
		if (rc == 0 && uid.to == uid.from)
			rc = out_of_limits(err, "uid", "a ULID or \"hex:..\" of 1 to 64 bytes");
		if (rc == 0)
			msg.uid = placed(store, uid);
	} else {
		rc = take(&f, store, &msg, err);
	}
	if (rc < 0)
		return rc;
	*ret_msg = msg;
	*ret_ack = ack;
	return 0;
}

/* TEXT as a JSON string in BUF. */
static int spell(struct sc_bytes *buf, const char *before, const char *text, struct sc_err *err)
{
	if (!sc_utf8_valid(sc_span_str(text)))
		return sc_err_set(err, SC_E_DATA, TRIED, "a name is not UTF-8");
	if (sc_bytes_puts(buf, before) < 0 || sc_json_put_string(sc_span_str(text), buf) < 0)
		return sc_err_nomem(err, TRIED);
	return 0;
}

static int spell_all(struct sc_bytes *buf, const char *channel, const char *subject,
		     const char *reference, const char *uid, struct sc_span json,
		     struct sc_err *err)
{
	int rc = spell(buf, "{\"channel\":", channel, err);

	if (rc == 0)
		rc = spell(buf, ",\"subject\":", subject, err);
	if (rc == 0 && reference)
		rc = spell(buf, ",\"reference\":", reference, err);
	if (rc == 0 && uid)
		rc = spell(buf, ",\"uid\":", uid, err);
	if (rc < 0)
		return rc;
	if (sc_bytes_puts(buf, ",\"data\":") < 0 || sc_bytes_put(buf, json.data, json.len) < 0 ||
	    sc_bytes_putc(buf, '}') < 0)
		return sc_err_nomem(err, TRIED);
	return 0;
}

int sc_msg_line_make(const char *channel, const char *subject, const char *reference,
		     const char *uid, struct sc_span json, struct sc_bytes *store,
		     struct sc_msg *ret_msg, struct sc_err *err)
{
	struct sc_bytes line;
	struct sc_json value;
	bool ack;
	int rc = sc_json_scan(json, &value, err); /* by itself: it must not end the object */

	if (rc < 0)
		return rc;
	sc_bytes_init(&line, SIZE_MAX / 2);
	rc = spell_all(&line, channel, subject, reference, uid, value.text, err);
	if (rc == 0)
		rc = sc_msg_line_parse(sc_span(line.data, line.len), store, ret_msg, &ack, err);
	sc_bytes_done(&line);
	return rc;
}
