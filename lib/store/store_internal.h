/*
 * store/store_internal.h: what a place does, behind the face; shared by the files of this room.
 *
 * Owns      as store.h; the state of a place belongs to its kind.
 * Errors    as store.h. Keys were checked.
 * Safety    as store.h.
 */
#ifndef SC_STORE_STORE_INTERNAL_H
#define SC_STORE_STORE_INTERNAL_H

#include "store/digest.h"
#include "store/place.h"
#include "store/request.h"
#include "store/store.h"

/* Which bytes: LEN from AT on, or the last LEN. */
struct sc_window {
	uint64_t at;
	size_t len;
	bool tail;
};

struct sc_store_ops {
	int (*put)(struct sc_store *store, const char *key, const struct sc_source *source, const char *only_if,
		   struct sc_store_info *ret_info, struct sc_err *err);
	int (*read)(struct sc_store *store, const char *key, const struct sc_window *window, void *ret_data,
		    size_t *ret_len, struct sc_store_info *ret_info, struct sc_err *err);
	int (*head)(struct sc_store *store, const char *key, struct sc_store_info *ret_info, struct sc_err *err);
	int (*verify)(struct sc_store *store, const char *key, uint64_t size, const unsigned char *sha256,
		      struct sc_err *err);
	int (*list)(struct sc_store *store, const struct sc_store_listing *what, sc_store_each *each, void *arg,
		    struct sc_err *err);
	int (*drop)(struct sc_store *store, const char *key, struct sc_err *err);
	int (*sweep)(struct sc_store *store, const char *prefix, int64_t before_us, uint64_t *ret_removed,
		     struct sc_err *err);
};

struct sc_store {
	const struct sc_store_ops *ops;
	struct sc_place place;
	struct sc_store_settings settings; /* defaults filled in; ca_file is NULL */
	struct sc_link *link;              /* s3, web */
	struct sc_aws aws;                 /* s3 */
	char *bucket_url;                  /* s3 */
	char *synced;                      /* folder: the one last written to, whose folders above are on disk */
	bool anonymous;
};

extern const struct sc_store_ops sc_folder_ops, sc_s3_ops, sc_web_ops;

/* Sets the object of an error that was set: the URL of KEY. Returns err->code. */
int sc_store_on(const struct sc_store *store, const char *key, struct sc_err *err);
/* SC_E_DATA unless reading the object gives these bytes. */
int sc_store_verify_by_reading(struct sc_store *store, const char *key, uint64_t size, const unsigned char *sha256,
			       struct sc_err *err);

/* s3 */
int sc_s3_open(struct sc_store *store, struct sc_err *err);
/* One signed request for an object (KEY) or the bucket (NULL), QUERY in canonical form or NULL; HEADERS end with NULL. */
struct sc_s3_call {
	const char *method, *key, *query, *tried;
	const char *headers[8];
	const struct sc_source *body;
	const struct sc_sums *sums; /* of the body; NULL: none */
	char *into;
	size_t into_size;
	bool slow, once;
};
int sc_s3_call(struct sc_store *store, const struct sc_s3_call *call, struct sc_answer *ret_answer, struct sc_err *err);
/* "Content-MD5: ..." and the like; empty where the sum is not known. */
struct sc_s3_sum_headers {
	char sha256[96], md5[64];
};
int sc_s3_sum_headers(const struct sc_sums *sums, struct sc_s3_sum_headers *ret_headers, struct sc_err *err);
/* The object holds these bytes: by size and checksums, or by reading it; SC_E_DATA if not. */
struct sc_s3_want {
	uint64_t size;
	const struct sc_sums *sums;
	const char *multipart_etag; /* "...-N" in quotes, or NULL */
};
int sc_s3_holds(struct sc_store *store, const char *key, const struct sc_s3_want *want, struct sc_store_info *ret_info,
		struct sc_err *err);
/* The result of a conditional write: RC, or SC_E_BUSY in words that fit the condition. */
int sc_s3_condition(struct sc_store *store, const char *key, const char *only_if, int rc, const struct sc_answer *answer,
		    struct sc_err *err);
enum sc_verdict sc_s3_judge(const struct sc_request *request, struct sc_answer *answer, struct sc_err *err);

/* large objects */
int sc_multipart_put(struct sc_store *store, const char *key, const struct sc_source *source, const char *only_if,
		     struct sc_store_info *ret_info, struct sc_err *err);
int sc_multipart_sweep(struct sc_store *store, const char *prefix, int64_t before_us, uint64_t *ret_removed,
		       struct sc_err *err);

int sc_listing_run(struct sc_store *store, const struct sc_store_listing *what, sc_store_each *each, void *arg,
		   struct sc_err *err);

#endif
