/* store/digest.c: SHA-256 and MD5 of what is uploaded, in one pass. */
#include "store/digest.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

#define CHUNK (256u << 10)

struct sc_digest {
	EVP_MD_CTX *sha256, *md5; /* md5 is NULL where the system forbids it */
};

static int refused(struct sc_err *err)
{
	return sc_err_set(err, SC_E_INTERNAL, "cannot make a checksum",
			  "OpenSSL has no SHA-256 here");
}

int sc_digest_new(struct sc_digest **ret_digest, struct sc_err *err)
{
	struct sc_digest *d = sc_calloc(1, sizeof(*d));

	if (!d)
		return sc_err_nomem(err, "cannot make a checksum");
	d->sha256 = EVP_MD_CTX_new();
	d->md5 = EVP_MD_CTX_new();
	if (!d->sha256 || !d->md5) {
		sc_digest_free(d);
		return sc_err_nomem(err, "cannot make a checksum");
	}
	if (EVP_DigestInit_ex(d->sha256, EVP_sha256(), NULL) != 1) {
		sc_digest_free(d);
		return refused(err);
	}
	if (EVP_DigestInit_ex(d->md5, EVP_md5(), NULL) != 1) {
		EVP_MD_CTX_free(d->md5);
		d->md5 = NULL;
	}
	*ret_digest = d;
	return 0;
}

int sc_digest_put(struct sc_digest *digest, const void *data, size_t len, struct sc_err *err)
{
	if (len == 0)
		return 0;
	if (EVP_DigestUpdate(digest->sha256, data, len) != 1 ||
	    (digest->md5 && EVP_DigestUpdate(digest->md5, data, len) != 1))
		return refused(err);
	return 0;
}

int sc_digest_end(struct sc_digest *digest, struct sc_sums *ret_sums, struct sc_err *err)
{
	struct sc_sums sums = { .has_md5 = digest->md5 != NULL };

	if (EVP_DigestFinal_ex(digest->sha256, sums.sha256, NULL) != 1 ||
	    (digest->md5 && EVP_DigestFinal_ex(digest->md5, sums.md5, NULL) != 1))
		return refused(err);
	*ret_sums = sums;
	return 0;
}

void sc_digest_free(struct sc_digest *digest)
{
	if (!digest)
		return;
	EVP_MD_CTX_free(digest->sha256);
	EVP_MD_CTX_free(digest->md5);
	free(digest);
}

int sc_digest_data(const void *data, size_t len, struct sc_sums *ret_sums, struct sc_err *err)
{
	struct sc_digest *d = NULL;
	int rc = sc_digest_new(&d, err);

	if (rc == 0)
		rc = sc_digest_put(d, data, len, err);
	if (rc == 0)
		rc = sc_digest_end(d, ret_sums, err);
	sc_digest_free(d);
	return rc;
}

int sc_digest_fd(int fd, uint64_t at, uint64_t len, struct sc_sums *ret_sums, struct sc_err *err)
{
	struct sc_digest *d = NULL;
	char *chunk = sc_malloc(CHUNK);
	int rc;

	if (!chunk)
		return sc_err_nomem(err, "cannot make a checksum");
	rc = sc_digest_new(&d, err);
	while (rc == 0 && len > 0) {
		size_t want = len < CHUNK ? (size_t)len : CHUNK, got;

		rc = sc_pread_all(fd, chunk, want, (off_t)at, &got, "to upload", err);
		if (rc == 0 && got < want)
			rc = sc_err_set(err, SC_E_DATA, "cannot make a checksum",
					"the file ends %llu bytes too early",
					(unsigned long long)(len - got));
		if (rc == 0)
			rc = sc_digest_put(d, chunk, got, err);
		at += want;
		len -= want;
	}
	if (rc == 0)
		rc = sc_digest_end(d, ret_sums, err);
	sc_digest_free(d);
	free(chunk);
	return rc;
}

void sc_digest_hex(const unsigned char *bytes, size_t len, char *ret_text)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		ret_text[2 * i] = hex[bytes[i] >> 4];
		ret_text[2 * i + 1] = hex[bytes[i] & 15];
	}
	ret_text[2 * len] = 0;
}
