/* admin.c: ls, trim, seal, verify: on a folder, whether a server runs on it or not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/base64.h"
#include "base/say.h"
#include "json/scan.h"
#include "net/http.h"
#include "sc-streams.h"

const struct sc_opt plain_options[] = {
	{ .name = NULL },
};

static int open_to_read(const char *folder, struct sc_ds **ret_ds, struct sc_err *err)
{
	struct sc_ds_settings settings = { .read_only = true };

	return sc_ds_open(folder, &settings, ret_ds, err);
}

/* ls */

struct listing {
	bool json;
};

static void print_expiry(const struct sc_ds_stream *s, bool json)
{
	char time[SC_DS_TIME_TEXT];

	if (s->life.has_ttl)
		printf(json ? ",\"ttl\":%" PRIu64 : " ttl=%" PRIu64, s->life.ttl_s);
	if (!s->life.has_expiry)
		return;
	sc_ds_time_format(s->life.expires_us, time);
	printf(json ? ",\"expires\":\"%s\"" : " expires=%s", time);
}

/* How many bytes of REST are one character that can be shown; 0: none. */
static size_t character(struct sc_span rest)
{
	if (rest.data[0] == ' ' || sc_control_len(rest.data, rest.len))
		return 0;
	for (size_t len = 1; len <= 4 && len <= rest.len; len++)
		if (sc_utf8_valid(sc_span(rest.data, len)))
			return len;
	return 0;
}

/* A path for people: control bytes and what is no UTF-8 as %XX, as a request may write them. */
static int put_shown(struct sc_bytes *out, struct sc_span path)
{
	int rc = 0;

	for (size_t i = 0, len; rc == 0 && i < path.len; i += len ? len : 1) {
		len = character(sc_span(path.data + i, path.len - i));
		rc = len ? sc_bytes_put(out, path.data + i, len)
			 : sc_bytes_putf(out, "%%%02X", (unsigned char)path.data[i]);
	}
	return rc;
}

/* Of a path that is no text its bytes too. */
static int put_path(struct sc_bytes *out, struct sc_span path)
{
	struct sc_bytes shown;
	int rc;

	if (sc_utf8_valid(path))
		return sc_bytes_put_json(out, path);
	sc_bytes_init(&shown, 4096);
	rc = put_shown(&shown, path);
	if (rc == 0)
		rc = sc_bytes_put_json(out, sc_span(shown.data, shown.len));
	sc_bytes_done(&shown);
	if (rc == 0)
		rc = sc_bytes_puts(out, ",\"path_base64\":\"");
	if (rc == 0)
		rc = sc_base64_put(out, path);
	return rc < 0 ? rc : sc_bytes_putc(out, '"');
}

static int print_json(const struct sc_ds_stream *s, const char *first, const char *tail)
{
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, 1 << 20);
	rc = sc_bytes_puts(&text, "{\"path\":");
	if (rc == 0)
		rc = put_path(&text, s->path);
	if (rc == 0)
		rc = sc_bytes_puts(&text, ",\"type\":");
	if (rc == 0)
		rc = sc_bytes_put_json(&text, s->type);
	if (rc == 0) {
		printf("%.*s,\"first\":\"%s\",\"next\":\"%s\",\"closed\":%s", (int)text.len,
		       text.data, first, tail, s->closed ? "true" : "false");
		print_expiry(s, true);
		printf(",\"forks\":%" PRIu64 "}\n", s->forks);
	}
	sc_bytes_done(&text);
	return rc;
}

/* PATH NEXT TYPE, and what else there is to say. */
static int print_text(const struct sc_ds_stream *s, const char *tail)
{
	struct sc_bytes path;
	int rc;

	sc_bytes_init(&path, 4096);
	rc = put_shown(&path, s->path);
	if (rc == 0) {
		printf("%.*s %s %.*s", (int)path.len, path.data, tail, (int)s->type.len,
		       s->type.data);
		if (s->closed)
			printf(" closed");
		if (s->first)
			printf(" trimmed");
		print_expiry(s, false);
		putchar('\n');
	}
	sc_bytes_done(&path);
	return rc;
}

static int each(void *arg, const struct sc_ds_stream *s)
{
	const struct listing *l = arg;
	char first[SC_DS_OFFSET_TEXT], tail[SC_DS_OFFSET_TEXT];
	int rc;

	sc_ds_offset_format(s->first, first);
	sc_ds_offset_format(s->tail, tail);
	rc = l->json ? print_json(s, first, tail) : print_text(s, tail);
	return rc < 0 ? rc : ferror(stdout) ? SC_E_IO : 0;
}

int run_ls(const void *given, char *const *operands, struct sc_err *err)
{
	const struct plain_opts *o = given;
	struct listing l = { o->common.json };
	struct sc_ds *ds = NULL;
	int rc = 0;

	if (operands[1] && operands[1][0] && operands[1][0] != '/') {
		sc_err_set(err, SC_E_USAGE, "cannot list", "'%s' begins no path of a stream",
			   operands[1]);
		return sc_err_next(err, "begin it with a '/', as in /v1/stream/chat/");
	}
	rc = open_to_read(operands[0], &ds, err);
	if (rc == 0)
		rc = sc_ds_list(ds, operands[1] ? sc_span_str(operands[1]) : SC_SPAN(""), each, &l,
				err);
	if (rc == SC_E_NOMEM)
		sc_err_nomem(err, "cannot list the streams");
	sc_ds_close(ds);
	/* what stdout did not take is told by the frame */
	return rc == SC_E_IO && ferror(stdout) ? 0 : rc;
}

/* trim and seal */

static int tell(const struct sc_ds_answer *answer, const char *tried, const char *kind,
		const char *name, struct sc_err *err)
{
	char next[SC_DS_OFFSET_TEXT];
	int code = SC_E_IO;
	const char *why;

	if (answer->status >= 200 && answer->status < 300)
		return 0;
	if (answer->status == 404 || answer->status == 410)
		code = SC_E_NOLOG;
	else if (answer->status == 400)
		code = strcmp(kind, "group") == 0 ? SC_E_USAGE : SC_E_REFUSED;
	else if (answer->status == 503)
		code = SC_E_BUSY;
	why = answer->error ? answer->error : sc_http_reason(answer->status);
	if (answer->has_next) {
		sc_ds_offset_format(answer->next, next);
		sc_err_set(err, code, tried, "%s, %s", why, next);
	} else {
		sc_err_set(err, code, tried, "%s", why);
	}
	sc_err_on(err, kind, name);
	return code == SC_E_USAGE
		       ? sc_err_next(err, "give the front of a path, up to its first part that "
					  "begins with a dot: /v1/stream/orders")
		       : code;
}

/* Why a write failed, which the answer does not say. */
static void on_trouble(void *arg, const struct sc_err *err)
{
	(void)arg;
	sc_say_err(SC_WARNING, err);
}

static int call_it(const char *folder, struct sc_ds_call *call, const char *tried, const char *kind,
		   const char *name, struct sc_err *err)
{
	/* upkeep is the server's, or the next one's */
	struct sc_ds_settings settings = { .sweep_ms = -1, .repair_ms = -1, .trouble = on_trouble };
	struct sc_ds *ds = NULL;
	int rc = open_to_read(folder, &ds, err); /* the folder must be there */

	sc_ds_close(ds);
	ds = NULL;
	if (rc == 0)
		rc = sc_ds_open(folder, &settings, &ds, err);
	if (rc < 0)
		return rc;
	sc_ds_answer_init(&call->answer);
	sc_ds_call(ds, call);
	rc = tell(&call->answer, tried, kind, name, err);
	sc_ds_answer_done(&call->answer);
	sc_ds_close(ds);
	return rc;
}

int run_trim(const void *given, char *const *operands, struct sc_err *err)
{
	struct sc_ds_call call = { .op = SC_DS_OP_TRIM };
	enum sc_ds_offset_kind kind;

	(void)given;
	call.request.path = sc_span_str(operands[1]);
	if (!sc_ds_offset_parse(sc_span_str(operands[2]), &kind, &call.position) ||
	    kind == SC_DS_OFFSET_NOW) {
		sc_err_set(err, SC_E_USAGE, "cannot trim", "'%s' is not an offset of a stream",
			   operands[2]);
		return sc_err_next(err,
				   "give one as Stream-Next-Offset says it, with all its zeros");
	}
	return call_it(operands[0], &call, "cannot trim", "stream", operands[1], err);
}

int run_seal(const void *given, char *const *operands, struct sc_err *err)
{
	struct sc_ds_call call = { .op = SC_DS_OP_SEAL };

	(void)given;
	call.request.path = sc_span_str(operands[1]);
	return call_it(operands[0], &call, "cannot seal", "group", operands[1], err);
}

/* verify */

static void on_fault(void *arg, const char *what)
{
	(void)arg;
	sc_say(SC_ERROR, "%s", what);
}

int run_verify(const void *given, char *const *operands, struct sc_err *err)
{
	const struct plain_opts *o = given;
	struct sc_ds_verified v = { 0 };
	struct sc_ds *ds = NULL;
	int rc = open_to_read(operands[0], &ds, err);

	if (rc == 0)
		rc = sc_ds_verify(ds, on_fault, NULL, &v, err);
	sc_ds_close(ds);
	if (rc < 0)
		return rc;
	if (o->common.json)
		printf("{\"streams\":%" PRIu64 ",\"gone\":%" PRIu64 ",\"messages\":%" PRIu64
		       ",\"bytes\":%" PRIu64 ",\"producers\":%" PRIu64 ",\"subscriptions\":%" PRIu64
		       ",\"links\":%" PRIu64 ",\"faults\":%" PRIu64 "}\n",
		       v.streams, v.gone, v.messages, v.bytes, v.producers, v.subs, v.links,
		       v.faults);
	else if (v.subs)
		printf("%" PRIu64 " streams (%" PRIu64 " gone), %" PRIu64 " messages, %" PRIu64
		       " bytes, %" PRIu64 " producers, %" PRIu64 " subscriptions (%" PRIu64
		       " links): %s\n",
		       v.streams, v.gone, v.messages, v.bytes, v.producers, v.subs, v.links,
		       v.faults ? "NOT in order" : "in order");
	else
		printf("%" PRIu64 " streams (%" PRIu64 " gone), %" PRIu64 " messages, %" PRIu64
		       " bytes, %" PRIu64 " producers: %s\n",
		       v.streams, v.gone, v.messages, v.bytes, v.producers,
		       v.faults ? "NOT in order" : "in order");
	if (v.faults == 0)
		return 0;
	sc_err_set(err, SC_E_DATA, "cannot vouch for", "%" PRIu64 " faults were found", v.faults);
	return sc_err_on(err, "folder", operands[0]);
}
