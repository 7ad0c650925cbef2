/* store/s3_judge.c: what an answer of S3 means: done, to be tried again, or an error, and what to
 * do then. */
#include <strings.h>

#include "store/store_internal.h"
#include "store/xml.h"

struct words {
	char code[64], message[200], region[68];
};

static void take(char *into, size_t size, const struct sc_bytes *text)
{
	size_t len = text->len < size ? text->len : size - 1;

	if (len)
		memcpy(into, text->data, len);
	into[len] = 0;
}

/* <Error><Code>..</Code><Message>..</Message><Region>..</Region></Error>; true: that it is. */
static bool read_error(const struct sc_bytes *body, struct words *ret_words)
{
	struct sc_xml xml;
	bool is_error = false;
	int kind;

	memset(ret_words, 0, sizeof(*ret_words));
	sc_xml_init(&xml, sc_span(body->data, body->len));
	while ((kind = sc_xml_next(&xml, NULL)) > 0) {
		if (kind == SC_XML_START) {
			if (xml.depth == 1 && !sc_span_is(xml.name, "Error"))
				break;
			is_error = true;
		} else if (xml.depth == 2 && sc_span_is(xml.name, "Code")) {
			take(ret_words->code, sizeof(ret_words->code), &xml.text);
		} else if (xml.depth == 2 && sc_span_is(xml.name, "Message")) {
			take(ret_words->message, sizeof(ret_words->message), &xml.text);
		} else if (xml.depth == 2 && sc_span_is(xml.name, "Region")) {
			take(ret_words->region, sizeof(ret_words->region), &xml.text);
		}
	}
	sc_xml_done(&xml);
	return is_error;
}

/* What S3 calls it, what that is for us, and what helps. Tried again: 'r'. */
static const struct rule {
	const char *s3;
	int code;
	bool retry;
	const char *next;
} rules[] = {
	{ "NoSuchBucket", SC_E_NOLOG, false, "create the bucket, or correct its name" },
	{ "NoSuchKey", SC_E_NOLOG, false, NULL },
	{ "NoSuchUpload", SC_E_NOLOG, false, NULL },
	{ "AccessDenied", SC_E_NOAUTH, false,
	  "give these credentials the right to do this in the bucket's policy" },
	{ "InvalidAccessKeyId", SC_E_NOAUTH, false, "look at AWS_ACCESS_KEY_ID, or the profile" },
	{ "SignatureDoesNotMatch", SC_E_NOAUTH, false,
	  "look at AWS_SECRET_ACCESS_KEY, or the profile" },
	{ "ExpiredToken", SC_E_NOAUTH, false, "get new temporary credentials" },
	{ "InvalidToken", SC_E_NOAUTH, false,
	  "look at AWS_SESSION_TOKEN; permanent keys have none" },
	{ "TokenRefreshRequired", SC_E_NOAUTH, false, "get new temporary credentials" },
	{ "RequestTimeTooSkewed", SC_E_NOAUTH, false, "set this machine's clock" },
	{ "AccountProblem", SC_E_NOAUTH, false, "ask the provider of the account" },
	{ "PreconditionFailed", SC_E_BUSY, false, NULL },
	{ "ConditionalRequestConflict", SC_E_UNAVAILABLE, true, NULL },
	{ "OperationAborted", SC_E_UNAVAILABLE, true, NULL },
	{ "SlowDown", SC_E_UNAVAILABLE, true, "ask less often, or raise the limit of the service" },
	{ "InternalError", SC_E_UNAVAILABLE, true, NULL },
	{ "ServiceUnavailable", SC_E_UNAVAILABLE, true, NULL },
	{ "RequestTimeout", SC_E_TIMEOUT, true, NULL },
	{ "IncompleteBody", SC_E_UNAVAILABLE, true, NULL },
	{ "BadDigest", SC_E_DATA, true,
	  "the bytes changed on their way, or the file is being written" },
	{ "XAmzContentSHA256Mismatch", SC_E_DATA, true,
	  "the bytes changed on their way, or the file is being written" },
	{ "EntityTooLarge", SC_E_DATA, false, NULL },
	{ "QuotaExceeded", SC_E_IO, false, "make room in the bucket" },
	{ "NotImplemented", SC_E_CONFIG, false, "this server lacks what is needed here" },
	{ "AuthorizationHeaderMalformed", SC_E_CONFIG, false,
	  "set AWS_REGION to the bucket's region" },
	{ "PermanentRedirect", SC_E_CONFIG, false, "set AWS_REGION to the bucket's region" },
};

static const struct rule *by_status(int status)
{
	static const struct {
		int status;
		struct rule rule;
	} known[] = {
		{ 301, { NULL, SC_E_CONFIG, false, "set AWS_REGION to the bucket's region" } },
		{ 307, { NULL, SC_E_CONFIG, false, "set AWS_REGION to the bucket's region" } },
		{ 401, { NULL, SC_E_NOAUTH, false, "look at the credentials" } },
		{ 403,
		  { NULL, SC_E_NOAUTH, false,
		    "look at the credentials, and at what they may do" } },
		{ 404, { NULL, SC_E_NOLOG, false, NULL } },
		{ 408, { NULL, SC_E_TIMEOUT, true, NULL } },
		{ 409, { NULL, SC_E_UNAVAILABLE, true, NULL } },
		{ 412, { NULL, SC_E_BUSY, false, NULL } },
		{ 413,
		  { NULL, SC_E_DATA, false, "raise the server's limit on the size of a request" } },
		{ 425, { NULL, SC_E_UNAVAILABLE, true, NULL } },
		{ 429,
		  { NULL, SC_E_UNAVAILABLE, true,
		    "ask less often, or raise the limit of the service" } },
		{ 501, { NULL, SC_E_CONFIG, false, "this server lacks what is needed here" } },
		{ 507, { NULL, SC_E_IO, false, "make room on the server" } },
	};
	static const struct rule failed = { NULL, SC_E_UNAVAILABLE, true, NULL };
	static const struct rule refused = { NULL, SC_E_PROTOCOL, false, NULL };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].status == status)
			return &known[i].rule;
	return status >= 500 ? &failed : &refused;
}

static const struct rule *rule_of(const char *code, int status)
{
	for (size_t i = 0; *code && i < sizeof(rules) / sizeof(rules[0]); i++)
		if (!strcasecmp(code, rules[i].s3))
			return &rules[i];
	return by_status(status);
}

/* What a server says without XML: the head of its text, if text it is. */
static void take_plain(const struct sc_answer *a, struct words *ret_words)
{
	size_t len = a->body.len < 80 ? a->body.len : 80;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)a->body.data[i];

		if (c == '<' || c == '{' || c < 0x20 || c >= 0x7f) {
			len = i;
			break;
		}
	}
	if (len)
		memcpy(ret_words->message, a->body.data, len);
	ret_words->message[len] = 0;
}

static enum sc_verdict say(const struct sc_request *request, struct sc_answer *a,
			   const struct words *w, struct sc_err *err)
{
	const struct rule *rule = rule_of(w->code, a->status);
	const char *region = w->region[0] ? w->region : a->region;

	memcpy(a->code, w->code, sizeof(a->code));
	sc_err_set(err, rule->code, request->tried, "HTTP status %d%s%s%s%s", a->status,
		   w->code[0] ? " " : "", w->code, w->message[0] ? ": " : "", w->message);
	/* messages of servers end in a full stop, ours do not */
	for (size_t n = strlen(err->reason);
	     n > 0 && (err->reason[n - 1] == '.' || err->reason[n - 1] == ' ');)
		err->reason[--n] = 0;
	sc_err_on(err, request->kind, request->shown);
	if (rule->code == SC_E_CONFIG && region[0] && a->status != 501)
		sc_err_next(err, "the bucket is in region '%s': set AWS_REGION to that", region);
	else if (rule->next)
		sc_err_next(err, "%s", rule->next);
	else if (rule->code == SC_E_UNAVAILABLE || rule->code == SC_E_TIMEOUT)
		sc_err_next(err, "the server failed: look there, or try again later");
	else if (rule->code == SC_E_PROTOCOL)
		sc_err_next(err, "look whether the endpoint is an S3 server");
	sc_err_field_int(err, "http_status", a->status);
	if (w->code[0])
		sc_err_field_str(err, "s3_code", w->code);
	return rule->retry ? SC_VERDICT_RETRY : SC_VERDICT_FINAL;
}

enum sc_verdict sc_s3_judge(const struct sc_request *request, struct sc_answer *answer,
			    struct sc_err *err)
{
	struct words w = { "", "", "" };
	bool error = read_error(&answer->body, &w);

	if (answer->status / 100 == 2 && !error) {
		if (!answer->encoded || !request->into)
			return SC_VERDICT_DONE;
		sc_err_set(err, SC_E_PROTOCOL, request->tried,
			   "the object is stored with a content encoding");
		sc_err_on(err, request->kind, request->shown);
		return SC_VERDICT_FINAL;
	}
	/* an error may come under status 200, when it turned up late (CompleteMultipartUpload): as
	 * if the server had failed */
	if (!error)
		take_plain(answer, &w);
	if (answer->status / 100 == 2 && !w.code[0])
		memcpy(w.code, "InternalError", sizeof("InternalError"));
	return say(request, answer, &w, err);
}
