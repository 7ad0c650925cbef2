/*
 * net/sign.h: what a server signs: with a key that others check (Ed25519), or only itself (HMAC).
 *
 * Owns      a key until sc_sign_key_free, which also forgets its bytes.
 * Units     bytes.
 * Errors    SC_E_INTERNAL where the library cannot (Ed25519 forbidden by the system's policy);
 *           SC_E_NOMEM.
 * Safety    any thread, any number of them with one key.
 * Source    RFC 8032, RFC 2104, FIPS 180-4; OpenSSL 3.
 */
#ifndef SC_NET_SIGN_H
#define SC_NET_SIGN_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_SIGN_SEED 32
#define SC_SIGN_PUBLIC 32
#define SC_SIGN_BYTES 64
#define SC_HMAC_BYTES 32
#define SC_SHA256_BYTES 32

struct sc_sign_key;

/* The same seed is the same key. */
int sc_sign_key_new(const unsigned char seed[SC_SIGN_SEED], struct sc_sign_key **ret_key,
		    struct sc_err *err);
void sc_sign_key_free(struct sc_sign_key *key);
void sc_sign_public(const struct sc_sign_key *key, unsigned char ret_public[SC_SIGN_PUBLIC]);
int sc_sign(const struct sc_sign_key *key, struct sc_span text,
	    unsigned char ret_signature[SC_SIGN_BYTES], struct sc_err *err);

/* HMAC-SHA-256. */
int sc_hmac(const unsigned char key[32], struct sc_span text, unsigned char ret_mac[SC_HMAC_BYTES],
	    struct sc_err *err);
int sc_sha256(struct sc_span text, unsigned char ret_sum[SC_SHA256_BYTES], struct sc_err *err);
/* Takes as long whether they are the same or not. */
bool sc_same_secret(const void *a, const void *b, size_t len);

#endif
