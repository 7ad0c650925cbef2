/* sub_keys.c: see durable/sub_keys.h. */
#include "durable/sub_keys.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/file.h"
#include "json/scan.h"
#include "net/sign.h"

#define FILE_NAME "subscription-keys"
#define FILE_MAX 4096
#define TOKEN_MAX 4096
#define SECRET_BYTES 32

struct sc_ds_keys {
	struct sc_sign_key *sign;
	unsigned char secret[SECRET_BYTES]; /* of the tokens */
	char id[64];                        /* "ds_" and 43 letters */
	char x[48];                         /* the public key */
};

static const char tried[] = "cannot use the keys of the subscriptions";

static int bad(struct sc_err *err, const char *path, const char *why, const char *next)
{
	sc_err_set(err, SC_E_CONFIG, tried, "%s", why);
	sc_err_on(err, "file", path);
	return sc_err_next(err, "%s", next);
}

/* {"ed25519":SEED,"hmac":SECRET}, in base64url. */
static int put_file(const unsigned char *seed, const unsigned char *secret, struct sc_bytes *out)
{
	int rc = sc_bytes_puts(out, "{\"ed25519\":\"");

	if (rc == 0)
		rc = sc_base64url_put(out, sc_span((const char *)seed, SC_SIGN_SEED));
	if (rc == 0)
		rc = sc_bytes_puts(out, "\",\"hmac\":\"");
	if (rc == 0)
		rc = sc_base64url_put(out, sc_span((const char *)secret, SECRET_BYTES));
	return rc < 0 ? rc : sc_bytes_puts(out, "\"}\n");
}

static bool get_secret(const struct sc_json *top, const char *name, unsigned char ret_bytes[32])
{
	char room[36];
	struct sc_bytes out = { .data = room, .cap = sizeof(room), .max = sizeof(room) };
	struct sc_json value;
	bool good = sc_json_get(top, name, &value) && value.kind == SC_JSON_STRING &&
		    value.text.len == 45 &&
		    sc_base64url_get(&out, sc_span(value.text.data + 1, 43)) == 0 && out.len == 32;

	if (good)
		memcpy(ret_bytes, room, 32);
	explicit_bzero(room, sizeof(room));
	return good;
}

static int make_file(const char *path, struct sc_bytes *text, struct sc_err *err)
{
	unsigned char both[SC_SIGN_SEED + SECRET_BYTES];
	int rc;

	sc_random(both, sizeof(both));
	sc_bytes_clear(text);
	rc = put_file(both, both + SC_SIGN_SEED, text);
	explicit_bzero(both, sizeof(both));
	if (rc < 0)
		return sc_err_nomem(err, tried);
	return sc_replace_file(path, text->data, text->len, 0600, true, err);
}

static int read_file(const char *path, struct sc_bytes *text, struct sc_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		if (errno == ENOENT)
			return make_file(path, text, err);
		sc_err_sys(err, SC_E_IO, errno, tried);
		return sc_err_on(err, "file", path);
	}
	if (st.st_mode & 077)
		return bad(err, path, "others may read it",
			   "chmod 600 it, or remove it: "
			   "then new keys are made");
	return sc_read_file(path, text, err);
}

static int name_key(struct sc_ds_keys *keys, struct sc_err *err)
{
	unsigned char public[SC_SIGN_PUBLIC], sum[SC_SHA256_BYTES];
	struct sc_bytes x = { .data = keys->x, .cap = sizeof(keys->x), .max = sizeof(keys->x) };
	struct sc_bytes id = { .data = keys->id, .cap = sizeof(keys->id), .max = sizeof(keys->id) };
	char thumb[128];
	int len, rc;

	sc_sign_public(keys->sign, public);
	rc = sc_base64url_put(&x, sc_span((const char *)public, sizeof(public)));
	if (rc == 0) {
		keys->x[x.len] = 0;
		len = snprintf(thumb, sizeof(thumb),
			       "{\"crv\":\"Ed25519\",\"kty\":\"OKP\",\"x\":\"%s\"}", keys->x);
		rc = sc_sha256(sc_span(thumb, (size_t)len), sum, err);
	}
	if (rc == 0)
		rc = sc_bytes_puts(&id, "ds_");
	if (rc == 0)
		rc = sc_base64url_put(&id, sc_span((const char *)sum, sizeof(sum)));
	if (rc == 0)
		keys->id[id.len] = 0;
	return rc;
}

static int take_keys(struct sc_ds_keys *keys, const char *path, struct sc_span text,
		     struct sc_err *err)
{
	unsigned char seed[SC_SIGN_SEED];
	struct sc_json top;
	int rc;

	if (sc_json_scan(text, &top, NULL) < 0 || !get_secret(&top, "ed25519", seed) ||
	    !get_secret(&top, "hmac", keys->secret))
		return bad(err, path, "it is no file of keys",
			   "put the right one back, or remove it: then new keys are made");
	rc = sc_sign_key_new(seed, &keys->sign, err);
	explicit_bzero(seed, sizeof(seed));
	return rc < 0 ? rc : name_key(keys, err);
}

int sc_ds_keys_open(const char *folder, struct sc_ds_keys **ret_keys, struct sc_err *err)
{
	struct sc_ds_keys *keys = sc_calloc(1, sizeof(*keys));
	struct sc_bytes text;
	char path[PATH_MAX];
	int rc;

	if (!keys)
		return sc_err_nomem(err, tried);
	sc_bytes_init(&text, FILE_MAX);
	if (snprintf(path, sizeof(path), "%s/" FILE_NAME, folder) >= (int)sizeof(path))
		rc = bad(err, folder, "its path is too long", "use a shorter one");
	else
		rc = read_file(path, &text, err);
	if (rc == 0)
		rc = take_keys(keys, path, sc_span(text.data, text.len), err);
	if (text.data)
		explicit_bzero(text.data, text.cap);
	sc_bytes_done(&text);
	if (rc < 0)
		sc_ds_keys_close(keys);
	else
		*ret_keys = keys;
	return rc;
}

void sc_ds_keys_close(struct sc_ds_keys *keys)
{
	if (!keys)
		return;
	sc_sign_key_free(keys->sign);
	explicit_bzero(keys, sizeof(*keys));
	free(keys);
}

const char *sc_ds_keys_id(const struct sc_ds_keys *keys)
{
	return keys->id;
}

int sc_ds_keys_put_set(const struct sc_ds_keys *keys, struct sc_bytes *out)
{
	return sc_bytes_putf(out,
			     "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"%s\","
			     "\"kid\":\"%s\",\"use\":\"sig\",\"alg\":\"EdDSA\"}]}\n",
			     keys->x, keys->id);
}

int sc_ds_keys_sign(const struct sc_ds_keys *keys, struct sc_span body, int64_t now_us,
		    struct sc_bytes *out, struct sc_err *err)
{
	unsigned char signature[SC_SIGN_BYTES];
	long long t = (long long)(now_us / 1000000);
	struct sc_bytes text;
	int rc;

	sc_bytes_init(&text, body.len + 64);
	rc = sc_bytes_putf(&text, "%lld.", t);
	if (rc == 0)
		rc = sc_bytes_put(&text, body.data, body.len);
	if (rc < 0)
		rc = sc_err_nomem(err, "cannot sign");
	else
		rc = sc_sign(keys->sign, sc_span(text.data, text.len), signature, err);
	sc_bytes_done(&text);
	if (rc < 0)
		return rc;
	rc = sc_bytes_putf(out, "t=%lld,kid=%s,ed25519=", t, keys->id);
	if (rc == 0)
		rc = sc_base64url_put(out, sc_span((const char *)signature, sizeof(signature)));
	return rc < 0 ? sc_err_nomem(err, "cannot sign") : 0;
}

/* -- tokens: base64url(JSON) "." base64url(HMAC of what is before the dot) -- */

static int put_claims(struct sc_span id, uint64_t generation, int64_t now_us, struct sc_bytes *out)
{
	uint64_t random[1];
	int rc = sc_bytes_puts(out, "{\"sub\":");

	sc_random(random, sizeof(random));
	if (rc == 0)
		rc = sc_json_put_string(id, out);
	return rc < 0 ? rc
		      : sc_bytes_putf(out, ",\"epoch\":%llu,\"exp\":%lld,\"jti\":\"%016llx\"}",
				      (unsigned long long)generation,
				      (long long)(now_us / 1000000 + SC_DS_TOKEN_S),
				      (unsigned long long)random[0]);
}

int sc_ds_token_put(const struct sc_ds_keys *keys, struct sc_span id, uint64_t generation,
		    int64_t now_us, struct sc_bytes *out, struct sc_err *err)
{
	unsigned char mac[SC_HMAC_BYTES];
	size_t start = out->len;
	struct sc_bytes claims;
	int rc;

	sc_bytes_init(&claims, TOKEN_MAX);
	rc = put_claims(id, generation, now_us, &claims);
	if (rc == 0)
		rc = sc_base64url_put(out, sc_span(claims.data, claims.len));
	sc_bytes_done(&claims);
	if (rc < 0)
		return sc_err_nomem(err, "cannot make a token");
	rc = sc_hmac(keys->secret, sc_span(out->data + start, out->len - start), mac, err);
	if (rc < 0)
		return rc;
	if (sc_bytes_putc(out, '.') < 0 ||
	    sc_base64url_put(out, sc_span((const char *)mac, sizeof(mac))) < 0)
		return sc_err_nomem(err, "cannot make a token");
	return 0;
}

static bool has_mac(const struct sc_ds_keys *keys, struct sc_span claims, struct sc_span mac)
{
	unsigned char right[SC_HMAC_BYTES];
	char room[48];
	struct sc_bytes given = { .data = room, .cap = sizeof(room), .max = sizeof(room) };

	return mac.len == 43 && sc_base64url_get(&given, mac) == 0 && given.len == SC_HMAC_BYTES &&
	       sc_hmac(keys->secret, claims, right, NULL) == 0 &&
	       sc_same_secret(right, room, SC_HMAC_BYTES);
}

static bool is_subject(const struct sc_json *top, struct sc_span id)
{
	struct sc_json value;
	struct sc_bytes text;
	bool same;

	sc_bytes_init(&text, TOKEN_MAX);
	same = sc_json_get(top, "sub", &value) && value.kind == SC_JSON_STRING &&
	       sc_json_unescape(value.text, &text) == 0 && text.len == id.len &&
	       memcmp(text.data, id.data, id.len) == 0;
	sc_bytes_done(&text);
	return same;
}

enum sc_ds_token sc_ds_token_check(const struct sc_ds_keys *keys, struct sc_span id,
				   struct sc_span token, int64_t now_us, uint64_t *ret_generation)
{
	const char *dot = token.len ? memchr(token.data, '.', token.len) : NULL;
	enum sc_ds_token result = SC_DS_TOKEN_INVALID;
	struct sc_json top, value;
	struct sc_bytes claims;
	uint64_t until_s;
	size_t len;

	if (!dot || token.len > TOKEN_MAX)
		return result;
	len = (size_t)(dot - token.data);
	if (!has_mac(keys, sc_span(token.data, len), sc_span(dot + 1, token.len - len - 1)))
		return result;
	sc_bytes_init(&claims, TOKEN_MAX);
	if (sc_base64url_get(&claims, sc_span(token.data, len)) == 0 &&
	    sc_json_scan(sc_span(claims.data, claims.len), &top, NULL) == 0 &&
	    (!id.data || is_subject(&top, id)) && sc_json_get(&top, "exp", &value) &&
	    sc_json_u64(&value, &until_s) && sc_json_get(&top, "epoch", &value) &&
	    sc_json_u64(&value, ret_generation))
		result = now_us / 1000000 > (int64_t)until_s ? SC_DS_TOKEN_EXPIRED
							     : SC_DS_TOKEN_GOOD;
	sc_bytes_done(&claims);
	return result;
}
