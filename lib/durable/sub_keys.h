/*
 * durable/sub_keys.h: the keys of a server's subscriptions, and what is signed with them.
 *
 * Owns      the keys, until sc_ds_keys_close.
 * Units     us since 1970 UTC.
 * Errors    SC_E_CONFIG for a file that is no key file or that others may read; SC_E_IO,
 *           SC_E_NOMEM.
 * Safety    any thread, any number of them.
 * Source    durable-streams 20; RFC 7517, RFC 7638, RFC 8037 (keys as JSON); man/sc-streams.5.
 *
 * FOLDER/subscription-keys has two secrets: the seed of the Ed25519 key that signs what goes to
 * webhooks, and the key of the tokens that workers show. It is made once, with mode 0600.
 */
#ifndef SC_DURABLE_SUB_KEYS_H
#define SC_DURABLE_SUB_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_ds_keys;

int sc_ds_keys_open(const char *folder, struct sc_ds_keys **ret_keys, struct sc_err *err);
void sc_ds_keys_close(struct sc_ds_keys *keys);
/* The name of the signing key: "ds_" and the digest of its JWK. */
const char *sc_ds_keys_id(const struct sc_ds_keys *keys);
/* The public keys, as a JWK set. */
int sc_ds_keys_put_set(const struct sc_ds_keys *keys, struct sc_bytes *out);
/* The value of Webhook-Signature for BODY. */
int sc_ds_keys_sign(const struct sc_ds_keys *keys, struct sc_span body, int64_t now_us,
		    struct sc_bytes *out, struct sc_err *err);

/* A token for one wake of a subscription, for an hour. */
#define SC_DS_TOKEN_S 3600
int sc_ds_token_put(const struct sc_ds_keys *keys, struct sc_span id, uint64_t generation,
		    int64_t now_us, struct sc_bytes *out, struct sc_err *err);
/* ID with data NULL: of any subscription. */
enum sc_ds_token { SC_DS_TOKEN_GOOD, SC_DS_TOKEN_INVALID, SC_DS_TOKEN_EXPIRED };
enum sc_ds_token sc_ds_token_check(const struct sc_ds_keys *keys, struct sc_span id,
				   struct sc_span token, int64_t now_us, uint64_t *ret_generation);

#endif
