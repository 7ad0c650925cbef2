/* store/request.c: one HTTP request and its answer, tried again where that can help. */
#include "store/request.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/libcurl.h"

#define BODY_MAX (4u << 20) /* a listing of 1,000 keys of 1 KiB, escaped, has less */
#define SLOW_MS 300000

struct sc_link {
	const struct sc_libcurl *lib;
	CURL *curl;
	struct sc_store_settings settings;
	char *ca_file;
	char words[CURL_ERROR_SIZE];
};

/* One try. */
struct turn {
	struct sc_link *link;
	const struct sc_request *request;
	struct sc_answer *answer;
	uint64_t sent; /* of the body */
	bool overflow, nomem;
	int source;         /* sc_code of what was wrong with the local file */
	struct sc_err *err; /* told there */
	bool stopped;
};

void sc_request_defaults(struct sc_store_settings *s)
{
	if (s->tries == 0)
		s->tries = 6;
	if (s->retry_for_ms <= 0)
		s->retry_for_ms = 120000;
	if (s->backoff_ms <= 0)
		s->backoff_ms = 200;
	if (s->backoff_max_ms <= 0)
		s->backoff_max_ms = 20000;
	if (s->connect_ms <= 0)
		s->connect_ms = 10000;
	if (s->stall_ms <= 0)
		s->stall_ms = 30000;
	/* who gives up early does not wait longer for the first try */
	if (s->connect_ms > s->retry_for_ms)
		s->connect_ms = s->retry_for_ms;
	if (s->stall_ms > s->retry_for_ms)
		s->stall_ms = s->retry_for_ms;
	if (s->multipart_bytes == 0)
		s->multipart_bytes = UINT64_C(64) << 20;
	if (s->part_bytes == 0)
		s->part_bytes = UINT64_C(16) << 20;
	if (s->part_bytes < UINT64_C(5) << 20)
		s->part_bytes = UINT64_C(5) << 20;
}

int sc_request_link_new(const struct sc_store_settings *settings, const char *ca_file,
			struct sc_link **ret_link, struct sc_err *err)
{
	const struct sc_libcurl *lib;
	struct sc_link *link;
	int code = sc_libcurl_load(&lib, err);

	if (code < 0)
		return code;
	link = sc_calloc(1, sizeof(*link));
	if (!link)
		return sc_err_nomem(err, "cannot open an archive");
	if (settings)
		link->settings = *settings;
	sc_request_defaults(&link->settings);
	link->settings.ca_file = NULL;
	if (settings && settings->ca_file)
		ca_file = settings->ca_file;
	link->lib = lib;
	link->curl = lib->easy_init();
	if (ca_file)
		link->ca_file = strdup(ca_file);
	if (!link->curl || (ca_file && !link->ca_file)) {
		sc_request_link_free(link);
		return sc_err_nomem(err, "cannot open an archive");
	}
	*ret_link = link;
	return 0;
}

void sc_request_link_free(struct sc_link *link)
{
	if (!link)
		return;
	link->lib->easy_cleanup(link->curl);
	free(link->ca_file);
	free(link);
}

const struct sc_store_settings *sc_request_settings(const struct sc_link *link)
{
	return &link->settings;
}

void sc_request_answer_done(struct sc_answer *answer)
{
	sc_bytes_done(&answer->body);
}

static void answer_clear(struct sc_answer *a)
{
	sc_bytes_clear(&a->body);
	a->status = 0;
	a->into_len = 0;
	a->length = a->retry_after_ms = -1;
	a->ranged = a->encoded = false;
	a->modified_us = 0;
	a->etag[0] = a->sha256[0] = a->region[0] = a->code[0] = 0;
}

static struct sc_span trim(struct sc_span s)
{
	while (s.len > 0 && (unsigned char)s.data[s.len - 1] <= ' ')
		s.len--;
	while (s.len > 0 && (unsigned char)s.data[0] <= ' ') {
		s.data++;
		s.len--;
	}
	return s;
}

bool sc_request_content_range(struct sc_span value, struct sc_answer *ret_answer)
{
	const char *dash, *slash;
	uint64_t first, last, total;

	if (value.len < 6 || strncasecmp(value.data, "bytes ", 6) != 0)
		return false;
	value = trim(sc_span(value.data + 6, value.len - 6));
	dash = memchr(value.data, '-', value.len);
	slash = memchr(value.data, '/', value.len);
	if (!dash || !slash || dash > slash ||
	    !sc_u64_parse(sc_span(value.data, (size_t)(dash - value.data)), &first) ||
	    !sc_u64_parse(sc_span(dash + 1, (size_t)(slash - dash - 1)), &last) ||
	    !sc_u64_parse(sc_span(slash + 1, value.len - (size_t)(slash + 1 - value.data)), &total))
		return false;
	if (first > last || last >= total || total > INT64_MAX)
		return false;
	ret_answer->ranged = true;
	ret_answer->first = first;
	ret_answer->last = last;
	ret_answer->total = total;
	return true;
}

/* What does not fit is as if it had not been told. */
static void put_text(char *into, size_t size, struct sc_span value)
{
	if (value.len < size) {
		memcpy(into, value.data, value.len);
		into[value.len] = 0;
	}
}

static int64_t date_us(const struct sc_libcurl *lib, struct sc_span value)
{
	char text[64] = "";
	time_t t;

	put_text(text, sizeof(text), value);
	t = lib->getdate(text, NULL);
	return t > 0 ? (int64_t)t * 1000000 : 0;
}

static void take_header(const struct turn *t, struct sc_span name, struct sc_span value)
{
#define IS(text) (name.len == sizeof(text) - 1 && !strncasecmp(name.data, text, sizeof(text) - 1))
	const struct sc_libcurl *lib = t->link->lib;
	struct sc_answer *a = t->answer;
	uint64_t n;

	if (IS("content-length")) {
		a->length = sc_u64_parse(value, &n) && n <= INT64_MAX ? (int64_t)n : -1;
	} else if (IS("content-range")) {
		sc_request_content_range(value, a);
	} else if (IS("etag")) {
		put_text(a->etag, sizeof(a->etag), value);
	} else if (IS("last-modified")) {
		a->modified_us = date_us(lib, value);
	} else if (IS("retry-after")) {
		if (sc_u64_parse(value, &n))
			a->retry_after_ms = n < 86400 ? (int64_t)n * 1000 : 86400000;
		else if (date_us(lib, value) > 0)
			a->retry_after_ms = (date_us(lib, value) - sc_wall_us()) / 1000;
	} else if (IS("x-amz-checksum-sha256")) {
		put_text(a->sha256, sizeof(a->sha256), value);
	} else if (IS("x-amz-bucket-region")) {
		put_text(a->region, sizeof(a->region), value);
	} else if (IS("content-encoding")) {
		/* aws-chunked is how a body went up; some servers keep the word */
		a->encoded = value.len > 0 &&
			     !(value.len == 8 && !strncasecmp(value.data, "identity", 8)) &&
			     !(value.len == 11 && !strncasecmp(value.data, "aws-chunked", 11));
	}
#undef IS
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
	struct turn *t = arg;
	size_t len = size * count;
	const char *colon = memchr(data, ':', len);

	if (len >= 5 &&
	    !memcmp(data, "HTTP/", 5)) { /* the next head: behind 100, or behind a redirect */
		answer_clear(t->answer);
		return len;
	}
	if (colon)
		take_header(t, trim(sc_span(data, (size_t)(colon - data))),
			    trim(sc_span(colon + 1, len - (size_t)(colon + 1 - data))));
	return len;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg)
{
	struct turn *t = arg;
	struct sc_answer *a = t->answer;
	size_t len = size * count;
	long status = 0;

	t->link->lib->easy_getinfo(t->link->curl, CURLINFO_RESPONSE_CODE, &status);
	if (t->request->into && status / 100 == 2) {
		if (len > t->request->into_size - a->into_len) {
			t->overflow = true;
			return 0;
		}
		memcpy(t->request->into + a->into_len, data, len);
		a->into_len += len;
		return len;
	}
	if (sc_bytes_put(&a->body, data, len) < 0) {
		t->overflow = a->body.full;
		t->nomem = !a->body.full;
		return 0;
	}
	return len;
}

static size_t on_read(char *data, size_t size, size_t count, void *arg)
{
	struct turn *t = arg;
	const struct sc_source *body = t->request->body;
	uint64_t rest = body->len - t->sent;
	size_t len = size * count, got;

	if (len > rest)
		len = (size_t)rest;
	if (body->fd < 0) {
		if (len)
			memcpy(data, body->data + t->sent, len);
	} else if (len > 0) {
		t->source = sc_pread_all(body->fd, data, len, (off_t)(body->at + t->sent), &got,
					 "to upload", t->err);
		if (t->source == 0 && got < len)
			t->source = sc_err_set(t->err, SC_E_DATA, "cannot upload",
					       "the file became shorter meanwhile");
		if (t->source < 0)
			return CURL_READFUNC_ABORT;
	}
	t->sent += len;
	return len;
}

static int on_seek(void *arg, curl_off_t to, int origin)
{
	struct turn *t = arg;

	if (origin != SEEK_SET || to < 0 || (uint64_t)to > t->request->body->len)
		return CURL_SEEKFUNC_FAIL;
	t->sent = (uint64_t)to;
	return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
		       curl_off_t up)
{
	struct turn *t = arg;
	const struct sc_store_settings *s = &t->link->settings;

	(void)down_total;
	(void)down;
	(void)up_total;
	(void)up;
	if (!t->request->once && s->stop && s->stop(s->stop_arg))
		t->stopped = true;
	return t->stopped;
}

static struct curl_slist *headers_of(const struct turn *t)
{
	const struct sc_libcurl *lib = t->link->lib;
	const struct sc_request *r = t->request;
	struct curl_slist *list = NULL, *longer;

	for (size_t i = 0; i < SC_REQUEST_HEADERS_MAX && r->headers[i]; i++) {
		longer = lib->slist_append(list, r->headers[i]);
		if (!longer) {
			lib->slist_free_all(list);
			return NULL;
		}
		list = longer;
	}
	return list;
}

/* setopt fails only for want of memory, or where libcurl lacks what it was built with on this
 * system. */
#define SET(option, value) \
	do { \
		if (rc == CURLE_OK) \
			rc = lib->easy_setopt(curl, option, value); \
	} while (0)

static CURLcode set_method(CURL *curl, struct turn *t)
{
	const struct sc_libcurl *lib = t->link->lib;
	const struct sc_request *r = t->request;
	CURLcode rc = CURLE_OK;

	if (r->body) {
		SET(CURLOPT_UPLOAD, 1L);
		SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body->len);
		SET(CURLOPT_READFUNCTION, on_read);
		SET(CURLOPT_READDATA, t);
		SET(CURLOPT_SEEKFUNCTION, on_seek);
		SET(CURLOPT_SEEKDATA, t);
	} else if (!strcmp(r->method, "HEAD")) {
		SET(CURLOPT_NOBODY, 1L);
	} else {
		SET(CURLOPT_HTTPGET, 1L);
	}
	SET(CURLOPT_CUSTOMREQUEST,
	    strcmp(r->method, "GET") && strcmp(r->method, "HEAD") ? r->method : NULL);
	return rc;
}

static CURLcode set_sign(CURL *curl, const struct turn *t)
{
	const struct sc_libcurl *lib = t->link->lib;
	const struct sc_request *r = t->request;
	char scheme[96];
	CURLcode rc = CURLE_OK;

	if (r->sign && r->sign->key_id) {
		snprintf(scheme, sizeof(scheme), "aws:amz:%s:s3", r->sign->region);
		SET(CURLOPT_AWS_SIGV4, scheme);
		SET(CURLOPT_USERNAME, r->sign->key_id);
		SET(CURLOPT_PASSWORD, r->sign->secret);
	} else if (r->user) {
		SET(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		SET(CURLOPT_USERPWD, r->user);
	}
	return rc;
}

static CURLcode set_all(struct turn *t, struct curl_slist *headers)
{
	const struct sc_libcurl *lib = t->link->lib;
	CURL *curl = t->link->curl;
	const struct sc_store_settings *s = &t->link->settings;
	int64_t stall_ms = t->request->slow && s->stall_ms < SLOW_MS ? SLOW_MS : s->stall_ms;
	CURLcode rc = CURLE_OK;

	lib->easy_reset(curl); /* keeps the connection */
	t->link->words[0] = 0;
	SET(CURLOPT_ERRORBUFFER, t->link->words);
	SET(CURLOPT_URL, t->request->url);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_REDIR_PROTOCOLS_STR,
	    strncasecmp(t->request->url, "https:", 6) ? "http,https" : "https");
#endif
	SET(CURLOPT_FOLLOWLOCATION, t->request->follow ? 1L : 0L);
	SET(CURLOPT_MAXREDIRS, 5L);
	SET(CURLOPT_USERAGENT, "sc/" SC_VERSION);
	SET(CURLOPT_CONNECTTIMEOUT_MS, (long)s->connect_ms);
	SET(CURLOPT_LOW_SPEED_LIMIT, 1024L);
	SET(CURLOPT_LOW_SPEED_TIME, (long)((stall_ms + 999) / 1000));
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, t);
	SET(CURLOPT_WRITEFUNCTION, on_data);
	SET(CURLOPT_WRITEDATA, t);
	SET(CURLOPT_NOPROGRESS, 0L);
	SET(CURLOPT_XFERINFOFUNCTION, on_progress);
	SET(CURLOPT_XFERINFODATA, t);
	if (headers)
		SET(CURLOPT_HTTPHEADER, headers);
	if (t->link->ca_file)
		SET(CURLOPT_CAINFO, t->link->ca_file);
	if (rc == CURLE_OK)
		rc = set_method(curl, t);
	if (rc == CURLE_OK)
		rc = set_sign(curl, t);
	return rc;
}

static int told(const struct turn *t, int code, const char *why)
{
	sc_err_set(t->err, code, t->request->tried, "%s", why);
	return sc_err_on(t->err, t->request->kind, t->request->shown);
}

/* libcurl's words may quote the URL; ours is the shown one, so take only the code's own words for
 * those. */
static const char *words_of(const struct turn *t, CURLcode rc)
{
	const char *words = t->link->words;

	return words[0] && !strstr(words, "://") && !strchr(words, '?')
		       ? words
		       : t->link->lib->easy_strerror(rc);
}

static enum sc_verdict finally(const struct turn *t, int code, const char *why)
{
	told(t, code, why);
	return SC_VERDICT_FINAL;
}

/* A try that brought no whole answer. */
static enum sc_verdict judge_transport(struct turn *t, CURLcode rc)
{
	if (t->source < 0) {
		sc_err_on(t->err, t->request->kind, t->request->shown);
		return SC_VERDICT_FINAL;
	}
	if (t->stopped)
		return finally(t, SC_E_TIMEOUT, "stopped on request");
	if (t->nomem || rc == CURLE_OUT_OF_MEMORY)
		return finally(t, SC_E_NOMEM, "out of memory");
	if (t->overflow)
		return finally(t, SC_E_PROTOCOL, "the server sends more than was asked for");
	switch (rc) {
	case CURLE_OPERATION_TIMEDOUT:
		told(t, SC_E_TIMEOUT, words_of(t, rc));
		sc_err_next(t->err, "look whether the server can be reached and is not overloaded");
		return SC_VERDICT_RETRY;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
		told(t, SC_E_UNAVAILABLE, words_of(t, rc));
		sc_err_next(t->err, "look at the endpoint's name and port, and at the network");
		return SC_VERDICT_RETRY;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		told(t, SC_E_UNAVAILABLE, words_of(t, rc));
		sc_err_next(
			t->err,
			"name the authority that signed the server's certificate: AWS_CA_BUNDLE");
		return SC_VERDICT_FINAL;
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_TOO_MANY_REDIRECTS:
	case CURLE_NOT_BUILT_IN:
	case CURLE_UNKNOWN_OPTION:
	case CURLE_BAD_FUNCTION_ARGUMENT:
		return finally(t, SC_E_CONFIG, words_of(t, rc));
	default: /* reset, cut short, garbled, TLS ended: the next one may go through */
		told(t, SC_E_UNAVAILABLE, words_of(t, rc));
		sc_err_next(t->err,
			    "look whether the endpoint is the right one, and at the network");
		return SC_VERDICT_RETRY;
	}
}

static enum sc_verdict run_once(struct turn *t, sc_request_judge *judge)
{
	struct curl_slist *headers = headers_of(t);
	long status = 0;
	CURLcode rc = CURLE_OUT_OF_MEMORY;

	answer_clear(t->answer);
	if (headers || !t->request->headers[0]) {
		rc = set_all(t, headers);
		if (rc == CURLE_OK)
			rc = t->link->lib->easy_perform(t->link->curl);
	}
	t->link->lib->easy_setopt(t->link->curl, CURLOPT_HTTPHEADER, NULL);
	t->link->lib->slist_free_all(headers);
	if (rc != CURLE_OK)
		return judge_transport(t, rc);
	t->link->lib->easy_getinfo(t->link->curl, CURLINFO_RESPONSE_CODE, &status);
	t->answer->status = (int)status;
	return judge(t->request, t->answer, t->err);
}

bool sc_request_wait(const struct sc_store_settings *settings, int64_t wait_ms)
{
	int64_t until = sc_mono_us() + wait_ms * 1000;

	for (;;) {
		int64_t rest = until - sc_mono_us();
		struct timespec pause = { 0, 50000000 };

		if (settings->stop && settings->stop(settings->stop_arg))
			return false;
		if (rest <= 0)
			return true;
		if (rest < 50000)
			pause.tv_nsec = rest * 1000;
		nanosleep(&pause, NULL);
	}
}

/* Exponential, with full jitter, and not before the server wants to be asked again. */
static int64_t wait_of(const struct sc_store_settings *s, unsigned tries, const struct sc_answer *a)
{
	int64_t limit = s->backoff_ms, wait;

	for (unsigned i = 1; i < tries && limit < s->backoff_max_ms; i++)
		limit *= 2;
	if (limit > s->backoff_max_ms)
		limit = s->backoff_max_ms;
	wait = (int64_t)sc_random_below((uint64_t)limit + 1);
	if (a->retry_after_ms > wait)
		wait = a->retry_after_ms < s->backoff_max_ms ? a->retry_after_ms
							     : s->backoff_max_ms;
	return wait;
}

int sc_request_run(struct sc_link *link, const struct sc_request *request, sc_request_judge *judge,
		   struct sc_answer *ret_answer, struct sc_err *err)
{
	const struct sc_store_settings *s = &link->settings;
	struct sc_err own;
	struct turn t = {
		.link = link, .request = request, .answer = ret_answer, .err = err ? err : &own
	};
	int64_t end = sc_mono_us() + s->retry_for_ms * 1000;

	memset(ret_answer, 0, sizeof(*ret_answer));
	sc_bytes_init(&ret_answer->body, BODY_MAX);
	for (unsigned tries = 1;; tries++) {
		enum sc_verdict verdict;
		int64_t wait_ms;

		t.sent = 0;
		t.overflow = t.nomem = false;
		ret_answer->tries = tries;
		verdict = run_once(&t, judge);
		if (verdict == SC_VERDICT_DONE)
			return 0;
		wait_ms = wait_of(s, tries, ret_answer);
		if (verdict == SC_VERDICT_FINAL || request->once || tries == s->tries ||
		    sc_mono_us() + wait_ms * 1000 > end) {
			sc_err_field_int(t.err, "tries", tries);
			return t.err->code;
		}
		if (!sc_request_wait(s, wait_ms))
			return told(&t, SC_E_TIMEOUT, "stopped on request");
	}
}
