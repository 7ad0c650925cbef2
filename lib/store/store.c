/* store/store.c: the face: what all places have in common. */
#include "store/store.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/store_internal.h"

#define PIECE (8u << 20) /* of what is read in pieces */
#define FIRST (256u << 10)

/* The face takes NULL for an error; behind it there is always one, whose code is looked at. */
#define NEED_ERR(err) \
	struct sc_err own_; \
	if (!(err)) \
	(err) = &own_

int sc_store_open(const char *url, const struct sc_store_settings *settings,
		  struct sc_store **ret_store, struct sc_err *err)
{
	NEED_ERR(err);
	static const struct sc_store_ops *const ops[] = {
		[SC_PLACE_FOLDER] = &sc_folder_ops,
		[SC_PLACE_S3] = &sc_s3_ops,
		[SC_PLACE_WEB] = &sc_web_ops,
	};
	struct sc_store *store = sc_calloc(1, sizeof(*store));
	const char *bundle = getenv("AWS_CA_BUNDLE");
	int rc;

	if (!store)
		return sc_err_nomem(err, "cannot open archive");
	if (settings)
		store->settings = *settings;
	sc_request_defaults(&store->settings);
	store->anonymous = store->settings.anonymous;
	rc = sc_place_parse(url, &store->place, err);
	if (rc == 0 && store->place.kind == SC_PLACE_S3)
		rc = sc_s3_open(store, err);
	else if (rc == 0 && store->place.kind == SC_PLACE_WEB)
		rc = sc_request_link_new(&store->settings, bundle && *bundle ? bundle : NULL,
					 &store->link, err);
	if (rc < 0) {
		if (err && !err->object[0] && store->place.shown)
			sc_err_on(err, "archive", store->place.shown);
		sc_store_close(store);
		return rc;
	}
	store->settings.ca_file = NULL; /* the link has its own copy */
	store->ops = ops[store->place.kind];
	*ret_store = store;
	return 0;
}

void sc_store_close(struct sc_store *store)
{
	if (!store)
		return;
	sc_request_link_free(store->link);
	sc_aws_done(&store->aws);
	sc_place_done(&store->place);
	free(store->bucket_url);
	free(store->synced);
	free(store);
}

const char *sc_store_url(const struct sc_store *store)
{
	return store->place.shown;
}

const char *sc_store_folder(const struct sc_store *store)
{
	return store->place.kind == SC_PLACE_FOLDER ? store->place.path : NULL;
}

int sc_store_on(const struct sc_store *store, const char *key, struct sc_err *err)
{
	struct sc_bytes shown;
	const char *text = NULL;

	sc_bytes_init(&shown, 8192);
	if (sc_place_show(&store->place, key, &shown) == 0)
		text = sc_bytes_str(&shown);
	sc_err_on(err, *key ? "object" : "archive", text ? text : store->place.shown);
	sc_bytes_done(&shown);
	return err ? err->code : SC_E_INTERNAL;
}

static int put(struct sc_store *store, const char *key, const struct sc_source *source,
	       const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_store_info info;
	int rc;

	if (only_if &&
	    (!*only_if || strlen(only_if) >= SC_STORE_ETAG_SIZE || strpbrk(only_if, "\r\n"))) {
		sc_err_set(err, SC_E_USAGE, "cannot put", "what is to be replaced has no ETag");
		return sc_store_on(store, key, err);
	}
	rc = store->ops->put(store, key, source, only_if, &info, err);
	if (rc == 0 && ret_info)
		*ret_info = info;
	return rc;
}

int sc_store_put(struct sc_store *store, const char *key, const void *data, size_t len,
		 const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_source source = { .data = data ? data : "", .fd = -1, .len = len };
	int rc = sc_place_check_key(key, err);

	return rc < 0 ? rc : put(store, key, &source, only_if, ret_info, err);
}

int sc_store_put_fd(struct sc_store *store, const char *key, int fd, uint64_t at, uint64_t len,
		    const char *only_if, struct sc_store_info *ret_info, struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_source source = { .fd = fd, .at = at, .len = len };
	int rc = sc_place_check_key(key, err);

	if (rc == 0 && (at > INT64_MAX || len > INT64_MAX - at))
		rc = sc_err_set(err, SC_E_USAGE, "cannot put", "no file is that large");
	return rc < 0 ? rc : put(store, key, &source, only_if, ret_info, err);
}

int sc_store_check_conditions(struct sc_store *store, struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_source one = { .data = "1", .fd = -1, .len = 1 },
			 two = { .data = "2", .fd = -1, .len = 1 };
	char id[SC_UUID_TEXT], key[64] = "condition-check-";
	int rc;

	sc_uuid(id);
	memcpy(key + strlen(key), id, sizeof(id));
	rc = put(store, key, &one, SC_STORE_ABSENT, NULL, err);
	if (rc < 0)
		return rc;
	rc = put(store, key, &two, SC_STORE_ABSENT, NULL, err);
	if (rc == SC_E_BUSY) {
		sc_err_clear(err);
		return store->ops->drop(store, key, err);
	}
	store->ops->drop(store, key, NULL);
	if (rc == 0) {
		rc = sc_err_set(err, SC_E_CONFIG, "cannot write to archive",
				"its server ignores conditions, so that two writers could "
				"overwrite each other");
		sc_err_on(err, "archive", store->place.shown);
		sc_err_next(err, "use a server that knows If-None-Match");
	}
	return rc;
}

static int replaced(const struct sc_store *store, const char *key, struct sc_err *err)
{
	sc_err_set(err, SC_E_BUSY, "cannot read", "it was replaced meanwhile");
	return sc_store_on(store, key, err);
}

static int read_window(struct sc_store *store, const char *key, const char *etag,
		       const struct sc_window *window, void *ret_data, size_t *ret_len,
		       struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_store_info info;
	size_t len = 0;
	int rc = sc_place_check_key(key, err);

	if (rc == 0 && window->len == 0)
		rc = store->ops->head(store, key, &info, err);
	else if (rc == 0)
		rc = store->ops->read(store, key, window, ret_data, &len, &info, err);
	if (rc < 0)
		return rc;
	if (etag && *etag && strcmp(etag, info.etag) != 0)
		return replaced(store, key, err);
	*ret_len = len;
	if (ret_info)
		*ret_info = info;
	return 0;
}

int sc_store_range(struct sc_store *store, const char *key, const char *etag, uint64_t at,
		   size_t len, void *ret_data, size_t *ret_len, struct sc_store_info *ret_info,
		   struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_window window = { .at = at, .len = len };

	if (at > INT64_MAX || len > INT64_MAX - at) {
		sc_err_set(err, SC_E_USAGE, "cannot read", "no object is that large");
		sc_store_on(store, key, err);
		return SC_E_USAGE;
	}
	return read_window(store, key, etag, &window, ret_data, ret_len, ret_info, err);
}

int sc_store_tail(struct sc_store *store, const char *key, size_t len, void *ret_data,
		  size_t *ret_len, struct sc_store_info *ret_info, struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_window window = { .len = len, .tail = true };
	struct sc_store_info info;
	int rc = read_window(store, key, NULL, &window, ret_data, ret_len, ret_info, err);

	if (rc != SC_E_PROTOCOL)
		return rc;
	/* a server that does ranges, and not from the end */
	sc_err_clear(err);
	rc = sc_store_head(store, key, &info, err);
	if (rc < 0)
		return rc;
	window.tail = false;
	window.at = info.size > len ? info.size - len : 0;
	return read_window(store, key, info.etag, &window, ret_data, ret_len, ret_info, err);
}

int sc_store_head(struct sc_store *store, const char *key, struct sc_store_info *ret_info,
		  struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_store_info info;
	int rc = sc_place_check_key(key, err);

	if (rc == 0)
		rc = store->ops->head(store, key, &info, err);
	if (rc == 0 && ret_info)
		*ret_info = info;
	return rc;
}

static int too_large(const struct sc_store *store, const char *key, uint64_t size, size_t max,
		     struct sc_err *err)
{
	sc_err_set(err, SC_E_DATA, "cannot read", "it has %llu bytes, more than %zu",
		   (unsigned long long)size, max);
	return sc_store_on(store, key, err);
}

int sc_store_get(struct sc_store *store, const char *key, struct sc_bytes *buf,
		 struct sc_store_info *ret_info, struct sc_err *err)
{
	NEED_ERR(err);
	struct sc_store_info info;
	size_t want = buf->max < FIRST ? buf->max : FIRST, got;
	int rc = 0;

	sc_bytes_clear(buf);
	do {
		if (buf->len > 0)
			want = info.size - buf->len < PIECE ? (size_t)(info.size - buf->len)
							    : PIECE;
		if (sc_bytes_reserve(buf, want) < 0)
			return sc_err_nomem(err, "cannot read");
		rc = sc_store_range(store, key, buf->len ? info.etag : NULL, buf->len, want,
				    buf->data + buf->len, &got, &info, err);
		if (rc == 0 && info.size > buf->max)
			rc = too_large(store, key, info.size, buf->max, err);
		if (rc == 0 && got == 0 && info.size > buf->len)
			rc = replaced(store, key, err);
		if (rc == 0)
			buf->len += got;
	} while (rc == 0 && buf->len < info.size);
	if (rc == 0 && ret_info)
		*ret_info = info;
	if (rc < 0)
		sc_bytes_clear(buf);
	return rc;
}

/* The whole object, piece by piece, to TAKE. */
static int in_pieces(struct sc_store *store, const char *key,
		     int (*take)(void *arg, const char *data, size_t len, struct sc_err *err),
		     void *arg, struct sc_store_info *ret_info, struct sc_err *err)
{
	struct sc_store_info info = { .size = 0 };
	char *piece = sc_malloc(PIECE);
	uint64_t at = 0;
	size_t got = 0;
	int rc = piece ? 0 : sc_err_nomem(err, "cannot read");

	while (rc == 0 && (at == 0 || at < info.size)) {
		rc = sc_store_range(store, key, at ? info.etag : NULL, at, PIECE, piece, &got,
				    &info, err);
		if (rc == 0 && got == 0 && at < info.size)
			rc = replaced(store, key, err);
		if (rc == 0)
			rc = take(arg, piece, got, err);
		at += got;
		if (got == 0)
			break;
	}
	free(piece);
	if (rc == 0)
		*ret_info = info;
	return rc;
}

struct copy_to {
	int fd;
	const char *path;
};

static int take_to_fd(void *arg, const char *data, size_t len, struct sc_err *err)
{
	const struct copy_to *to = arg;

	return sc_write_all(to->fd, data, len, to->path, err);
}

int sc_store_copy(struct sc_store *store, const char *key, int fd, const char *path,
		  struct sc_store_info *ret_info, struct sc_err *err)
{
	NEED_ERR(err);
	struct copy_to to = { fd, path };
	struct sc_store_info info;
	int rc = in_pieces(store, key, take_to_fd, &to, &info, err);

	if (rc == 0 && ret_info)
		*ret_info = info;
	return rc;
}

static int take_to_digest(void *arg, const char *data, size_t len, struct sc_err *err)
{
	return sc_digest_put(arg, data, len, err);
}

int sc_store_verify_by_reading(struct sc_store *store, const char *key, uint64_t size,
			       const unsigned char *sha256, struct sc_err *err)
{
	struct sc_digest *digest = NULL;
	struct sc_store_info info;
	struct sc_sums sums;
	int rc = store->ops->head(store, key, &info, err);

	/* a glance before the gigabytes */
	if (rc == 0 && info.size == size)
		rc = sc_digest_new(&digest, err);
	if (rc == 0 && digest)
		rc = in_pieces(store, key, take_to_digest, digest, &info, err);
	if (rc == 0 && digest)
		rc = sc_digest_end(digest, &sums, err);
	if (rc == 0 && info.size != size)
		rc = sc_err_set(err, SC_E_DATA, "cannot verify", "it has %llu bytes, not %llu",
				(unsigned long long)info.size, (unsigned long long)size);
	else if (rc == 0 && memcmp(sums.sha256, sha256, sizeof(sums.sha256)) != 0)
		rc = sc_err_set(err, SC_E_DATA, "cannot verify",
				"its bytes are not those that were put there");
	if (rc == SC_E_DATA)
		sc_store_on(store, key, err);
	sc_digest_free(digest);
	return rc;
}

int sc_store_verify(struct sc_store *store, const char *key, uint64_t size,
		    const unsigned char sha256[SC_STORE_SHA256], struct sc_err *err)
{
	NEED_ERR(err);
	int rc = sc_place_check_key(key, err);

	return rc < 0 ? rc : store->ops->verify(store, key, size, sha256, err);
}

/* A prefix of keys: short enough, without what no key has. */
static int check_prefix(const struct sc_store *store, const char *prefix, struct sc_err *err)
{
	bool wrong = strlen(prefix) > SC_STORE_KEY_MAX || prefix[0] == '/';

	for (const char *c = prefix; *c; c++)
		wrong |= (unsigned char)*c < 0x20 || *c == 0x7f;
	if (!wrong)
		return 0;
	sc_err_set(err, SC_E_USAGE, "cannot list", "no key begins like this");
	return sc_store_on(store, prefix, err);
}

int sc_store_list(struct sc_store *store, const struct sc_store_listing *what, sc_store_each *each,
		  void *arg, struct sc_err *err)
{
	NEED_ERR(err);
	int rc = check_prefix(store, what->prefix ? what->prefix : "", err);

	if (rc == 0)
		rc = check_prefix(store, what->after ? what->after : "", err);
	return rc < 0 ? rc : store->ops->list(store, what, each, arg, err);
}

int sc_store_delete(struct sc_store *store, const char *key, struct sc_err *err)
{
	NEED_ERR(err);
	int rc = sc_place_check_key(key, err);

	return rc < 0 ? rc : store->ops->drop(store, key, err);
}

int sc_store_sweep(struct sc_store *store, const char *prefix, int64_t before_us,
		   uint64_t *ret_removed, struct sc_err *err)
{
	NEED_ERR(err);
	int rc = check_prefix(store, prefix ? prefix : "", err);

	return rc < 0 ? rc
		      : store->ops->sweep(store, prefix ? prefix : "", before_us, ret_removed, err);
}
