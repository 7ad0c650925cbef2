/* net/sign.c: see net/sign.h. */
#include "net/sign.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "base/file.h"
#include "net/tls.h"

struct sc_sign_key {
	EVP_PKEY *pkey;
	unsigned char public[SC_SIGN_PUBLIC];
};

static int failed(struct sc_err *err, const char *tried)
{
	return sc_err_set(err, SC_E_INTERNAL, tried, "%s", sc_tls_reason());
}

int sc_sign_key_new(const unsigned char seed[SC_SIGN_SEED], struct sc_sign_key **ret_key,
		    struct sc_err *err)
{
	static const char tried[] = "cannot use the key for signatures";
	struct sc_sign_key *key = sc_calloc(1, sizeof(*key));
	size_t len = SC_SIGN_PUBLIC;

	if (!key)
		return sc_err_nomem(err, tried);
	key->pkey = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, SC_SIGN_SEED);
	if (!key->pkey || EVP_PKEY_get_raw_public_key(key->pkey, key->public, &len) != 1 ||
	    len != SC_SIGN_PUBLIC) {
		sc_sign_key_free(key);
		return failed(err, tried);
	}
	*ret_key = key;
	return 0;
}

void sc_sign_key_free(struct sc_sign_key *key)
{
	if (!key)
		return;
	EVP_PKEY_free(key->pkey);
	free(key);
}

void sc_sign_public(const struct sc_sign_key *key, unsigned char ret_public[SC_SIGN_PUBLIC])
{
	memcpy(ret_public, key->public, SC_SIGN_PUBLIC);
}

int sc_sign(const struct sc_sign_key *key, struct sc_span text,
	    unsigned char ret_signature[SC_SIGN_BYTES], struct sc_err *err)
{
	static const char tried[] = "cannot sign";
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t len = SC_SIGN_BYTES;
	bool good;

	if (!ctx)
		return sc_err_nomem(err, tried);
	good = EVP_DigestSignInit(ctx, NULL, NULL, NULL, key->pkey) == 1 &&
	       EVP_DigestSign(ctx, ret_signature, &len, (const unsigned char *)text.data,
			      text.len) == 1 &&
	       len == SC_SIGN_BYTES;
	EVP_MD_CTX_free(ctx);
	return good ? 0 : failed(err, tried);
}

int sc_hmac(const unsigned char key[32], struct sc_span text, unsigned char ret_mac[SC_HMAC_BYTES],
	    struct sc_err *err)
{
	unsigned len = 0;

	if (!HMAC(EVP_sha256(), key, 32, (const unsigned char *)text.data, text.len, ret_mac,
		  &len) ||
	    len != SC_HMAC_BYTES)
		return failed(err, "cannot make a token");
	return 0;
}

int sc_sha256(struct sc_span text, unsigned char ret_sum[SC_SHA256_BYTES], struct sc_err *err)
{
	if (EVP_Digest(text.data, text.len, ret_sum, NULL, EVP_sha256(), NULL) != 1)
		return failed(err, "cannot make a digest");
	return 0;
}

bool sc_same_secret(const void *a, const void *b, size_t len)
{
	return CRYPTO_memcmp(a, b, len) == 0;
}
