/*
 * store/digest.h: SHA-256 and MD5 of what is uploaded, in one pass.
 *
 * Owns      nothing.
 * Errors    SC_E_IO for the file, SC_E_DATA when it is shorter than said, SC_E_INTERNAL without SHA-256. Where the system
 *           forbids MD5 (FIPS), has_md5 is false, and what would be compared with it is not.
 * Safety    any thread.
 * Source    RFC 6234, RFC 1321; OpenSSL's EVP.
 */
#ifndef SC_STORE_DIGEST_H
#define SC_STORE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sc_digest;

struct sc_sums {
	unsigned char sha256[32], md5[16];
	bool has_md5;
};

int sc_digest_new(struct sc_digest **ret_digest, struct sc_err *err);
int sc_digest_put(struct sc_digest *digest, const void *data, size_t len, struct sc_err *err);
int sc_digest_end(struct sc_digest *digest, struct sc_sums *ret_sums, struct sc_err *err);
void sc_digest_free(struct sc_digest *digest);

int sc_digest_data(const void *data, size_t len, struct sc_sums *ret_sums, struct sc_err *err);
/* LEN bytes from AT on. */
int sc_digest_fd(int fd, uint64_t at, uint64_t len, struct sc_sums *ret_sums, struct sc_err *err);
/* 2 * len characters, lower case, and a NUL. */
void sc_digest_hex(const unsigned char *bytes, size_t len, char *ret_text);

#endif
