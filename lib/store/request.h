/*
 * store/request.h: one HTTP request and its answer, tried again where that can help.
 *
 * Owns      a link owns one connection and its settings; an answer owns its body until sc_request_answer_done.
 * Units     as store.h.
 * Errors    SC_E_UNAVAILABLE and SC_E_TIMEOUT when the tries are spent; SC_E_IO and SC_E_DATA for the local file; what the
 *           judge says.
 * Safety    a link stays in its thread.
 * Source    libcurl 7.88 and later; RFC 9110.
 *
 * Signing is libcurl's (CURLOPT_AWS_SIGV4). 7.88 signs the query as it is written, so the caller writes it in canonical form:
 * names in order, each with '=', percent-encoded as RFC 3986 has it; and it hashes no upload, so the caller gives
 * x-amz-content-sha256 itself. libcurl is seen in request.c only.
 */
#ifndef SC_STORE_REQUEST_H
#define SC_STORE_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/aws.h"
#include "store/store.h"

#define SC_REQUEST_HEADERS_MAX 12

struct sc_link;

/* What goes up: memory when fd < 0. */
struct sc_source {
	const char *data;
	int fd;
	uint64_t at, len;
};

struct sc_request {
	const char *method;
	const char *url;
	const char *kind, *shown; /* "object" or "archive", and its URL, in errors */
	const char *tried;       /* "cannot put" */
	const char *headers[SC_REQUEST_HEADERS_MAX]; /* "Name: value"; NULL ends */
	const struct sc_aws *sign; /* NULL: not signed */
	const char *user;        /* basic authentication, or NULL */
	const struct sc_source *body; /* NULL: none */
	char *into;              /* where the body of a 2xx answer goes, or NULL for the answer's own buffer */
	size_t into_size;
	bool slow;               /* the server may think for minutes before it answers */
	bool follow;             /* redirects */
	bool once;               /* one try, also when the caller wants to stop: for cleaning up */
};

struct sc_answer {
	int status;
	struct sc_bytes body;    /* XML, or the words of an error */
	size_t into_len;
	int64_t length;          /* Content-Length, -1: not told */
	bool ranged;             /* Content-Range was given: */
	uint64_t first, last, total;
	int64_t modified_us;
	int64_t retry_after_ms;  /* -1: not told */
	char etag[SC_STORE_ETAG_SIZE];
	char sha256[128];        /* x-amz-checksum-sha256 */
	char region[68];         /* x-amz-bucket-region */
	char code[64];           /* S3's, set by the judge */
	bool encoded;            /* Content-Encoding: the bytes are not the object's */
	unsigned tries;          /* more than 1: an earlier one may have been done */
};

enum sc_verdict { SC_VERDICT_DONE, SC_VERDICT_RETRY, SC_VERDICT_FINAL };
/* What an answer means. For RETRY and FINAL *err is set. */
typedef enum sc_verdict sc_request_judge(const struct sc_request *request, struct sc_answer *answer, struct sc_err *err);

int sc_request_link_new(const struct sc_store_settings *settings, const char *ca_file, struct sc_link **ret_link,
			struct sc_err *err);
void sc_request_link_free(struct sc_link *link);
const struct sc_store_settings *sc_request_settings(const struct sc_link *link); /* defaults filled in */
/* ANSWER is filled also on failure (its status is 0 without one); sc_request_answer_done in any case. */
int sc_request_run(struct sc_link *link, const struct sc_request *request, sc_request_judge *judge,
		   struct sc_answer *ret_answer, struct sc_err *err);
void sc_request_answer_done(struct sc_answer *answer);
/* Fill in the defaults of store.h. */
void sc_request_defaults(struct sc_store_settings *settings);
/* Wait, asking stop; false: stop. */
bool sc_request_wait(const struct sc_store_settings *settings, int64_t wait_ms);
/* bytes FIRST-LAST/TOTAL; false when it is something else. */
bool sc_request_content_range(struct sc_span value, struct sc_answer *ret_answer);

#endif
