/* store.c: the store: its tables, keys and rows. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "durable/engine_internal.h"
#include "store/digest.h"

#define FILE_NAME "streams.mdb"
#define SIZE_STANDARD (1ull << 40)
#define SIZE_LEAST (1ull << 30)
#define ID_INLINE_MAX 480u

static const char *const tables[] = {
	[SC_DS_META] = "meta",   [SC_DS_PATHS] = "paths",         [SC_DS_STREAMS] = "streams",
	[SC_DS_RUNS] = "runs",   [SC_DS_PRODUCERS] = "producers", [SC_DS_EXPIRY] = "expiry",
	[SC_DS_FORKS] = "forks", [SC_DS_DELETES] = "deletes",     [SC_DS_SEALS] = "seals",
	[SC_DS_SUBS] = "subs",   [SC_DS_SUB_IDS] = "subids",      [SC_DS_PATTERNS] = "patterns",
	[SC_DS_LINKS] = "links", [SC_DS_LINKED] = "linked",       [SC_DS_PENDING] = "pending",
	[SC_DS_DUE] = "due",     [SC_DS_TABLES] = NULL,
};

/* FNV-1a, with the high half folded in: for tables in memory only. */
uint64_t sc_ds_hash(struct sc_span bytes)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < bytes.len; i++)
		hash = (hash ^ (unsigned char)bytes.data[i]) * 0x100000001b3ull;
	return hash ^ hash >> 32;
}

void sc_ds_key1(struct sc_ds_key *ret_key, uint64_t a)
{
	sc_ds_put_be64(ret_key->data, a);
	ret_key->len = 8;
}

void sc_ds_key2(struct sc_ds_key *ret_key, uint64_t a, uint64_t b)
{
	sc_ds_put_be64(ret_key->data, a);
	sc_ds_put_be64(ret_key->data + 8, b);
	ret_key->len = 16;
}

int sc_ds_key_producer(struct sc_ds_key *ret_key, uint64_t sid, struct sc_span id,
		       struct sc_err *err)
{
	struct sc_sums sums;
	int rc;

	sc_ds_key1(ret_key, sid);
	if (id.len <= ID_INLINE_MAX) {
		ret_key->data[8] = 'i';
		memcpy(ret_key->data + 9, id.data, id.len);
		ret_key->len = 9 + id.len;
		return 0;
	}
	rc = sc_digest_data(id.data, id.len, &sums, err);
	if (rc < 0)
		return rc;
	ret_key->data[8] = 'h';
	memcpy(ret_key->data + 9, sums.sha256, sizeof(sums.sha256));
	ret_key->len = 9 + sizeof(sums.sha256);
	return 0;
}

int sc_ds_damaged(struct sc_err *err, const char *what, uint64_t sid)
{
	sc_err_set(err, SC_E_DATA, "cannot read", "stream %llu: %s", (unsigned long long)sid, what);
	sc_err_on(err, "store", FILE_NAME);
	return SC_E_DATA;
}

static int check_format(struct sc_kv *kv, bool read_only, const char *path, struct sc_err *err)
{
	static const char tried[] = "cannot open";
	struct sc_kv_txn *txn = NULL;
	struct sc_span value;
	char format[8];
	int rc = read_only ? sc_kv_read(kv, &txn, err) : sc_kv_write(kv, &txn, err);

	if (rc < 0)
		return rc;
	rc = sc_kv_get(txn, SC_DS_META, SC_SPAN("format"), &value, err);
	if (rc == 1 && (value.len != 8 || sc_ds_get_be64(value.data) != SC_DS_FORMAT)) {
		sc_err_set(err, SC_E_CONFIG, tried, "its format is not known here");
		sc_err_on(err, "store", path);
		rc = sc_err_next(err, "use the version that made it, or a newer one");
	} else if (rc == 0 && !read_only) {
		sc_ds_put_be64(format, SC_DS_FORMAT);
		rc = sc_kv_put(txn, SC_DS_META, SC_SPAN("format"), sc_span(format, 8), err);
		if (rc == 0)
			return sc_kv_commit(&txn, err);
	}
	sc_kv_abort(&txn);
	return rc < 0 ? rc : 0;
}

int sc_ds_store_open(const char *folder, const struct sc_ds_settings *settings,
		     struct sc_kv **ret_kv, struct sc_err *err)
{
	struct sc_kv_options options = {
		.tables = tables,
		.size_max = settings->size_max ? settings->size_max : SIZE_STANDARD,
		.read_only = settings->read_only,
		.sync = true,
		.kind = "store",
	};
	size_t size = strlen(folder) + sizeof("/" FILE_NAME);
	char *path = sc_malloc(size);
	struct sc_kv *kv = NULL;
	struct stat st;
	int rc = 0;

	if (!path)
		return sc_err_nomem(err, "cannot open store");
	snprintf(path, size, "%s/" FILE_NAME, folder);
	if (!settings->read_only)
		rc = sc_make_parents(path, true, err);
	if (rc == 0 && settings->read_only && stat(path, &st) < 0) {
		rc = sc_err_sys(err,
				errno == ENOENT   ? SC_E_NOLOG
				: errno == EACCES ? SC_E_NOAUTH
						  : SC_E_IO,
				errno, "cannot open");
		sc_err_on(err, "store", path);
	}
	if (rc == 0)
		rc = sc_kv_open(path, &options, &kv, err);
	/* it is address space alone; a process may have little of it (ulimit -v) */
	while (rc == SC_E_NOMEM && !settings->size_max && options.size_max > SIZE_LEAST) {
		options.size_max /= 4;
		rc = sc_kv_open(path, &options, &kv, err);
	}
	if (rc == 0)
		rc = check_format(kv, settings->read_only, path, err);
	/* a file that is new must have a name that lasts */
	if (rc == 0 && !settings->read_only)
		rc = sc_sync_dir(folder, err);
	free(path);
	if (rc < 0)
		sc_kv_close(kv);
	else
		*ret_kv = kv;
	return rc;
}

int sc_ds_load_sid(struct sc_kv_txn *txn, uint64_t sid, struct sc_ds_stream *ret_stream,
		   struct sc_err *err)
{
	struct sc_ds_key key;
	struct sc_span record;
	int rc;

	sc_ds_key1(&key, sid);
	rc = sc_kv_get(txn, SC_DS_STREAMS, sc_ds_key_span(&key), &record, err);
	if (rc <= 0)
		return rc;
	rc = sc_ds_stream_decode(record, ret_stream, err);
	return rc < 0 ? rc : 1;
}

int sc_ds_load_path(struct sc_kv_txn *txn, struct sc_span path, struct sc_ds_stream *ret_stream,
		    struct sc_err *err)
{
	struct sc_span sid;
	int rc;

	if (!sc_ds_path_valid(path))
		return 0;
	rc = sc_kv_get(txn, SC_DS_PATHS, sc_span(path.data + 1, path.len - 1), &sid, err);
	if (rc <= 0)
		return rc;
	if (sid.len != 8)
		return sc_ds_damaged(err, "its path has no sid", 0);
	rc = sc_ds_load_sid(txn, sc_ds_get_be64(sid.data), ret_stream, err);
	if (rc == 0)
		return sc_ds_damaged(err, "its record is missing", sc_ds_get_be64(sid.data));
	return rc;
}
