/*
 * store/place.h: where a store is: its URL taken apart, and put together with a key.
 *
 * Owns      the place owns its texts until sc_place_done.
 * Errors    SC_E_USAGE: what is not such a URL, or not a key.
 * Safety    pure.
 * Source    RFC 3986, RFC 8089; the names of buckets: the S3 user guide, "Bucket naming rules".
 */
#ifndef SC_STORE_PLACE_H
#define SC_STORE_PLACE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

enum sc_place_kind { SC_PLACE_FOLDER, SC_PLACE_S3, SC_PLACE_WEB };

struct sc_place {
	enum sc_place_kind kind;
	char *shown;  /* the URL without password, query and trailing slashes */
	char *path;   /* folder: absolute, decoded, no trailing slash (but "/") */
	char *bucket; /* s3 */
	char *prefix; /* s3: keys are PREFIX/KEY, or KEY when it is empty */
	char *base;   /* web: SCHEME://HOST[:PORT]/PATH, no trailing slash, no user */
	char *query;  /* web: "?..." or empty */
	char *user;   /* web: "NAME:PASSWORD", decoded, or NULL */
};

int sc_place_parse(const char *url, struct sc_place *ret_place, struct sc_err *err);
void sc_place_done(struct sc_place *place);
/* A key of an object, as store.h says. */
int sc_place_check_key(const char *key, struct sc_err *err);
/* SHOWN/KEY */
int sc_place_show(const struct sc_place *place, const char *key, struct sc_bytes *out);
/* Percent-encodes all but unreserved characters, and '/' when SLASH says so. */
int sc_place_encode(struct sc_bytes *out, struct sc_span text, bool slash);
/* Decodes %XX ('+' is a blank when PLUS says so); false: something that is not %XX. OUT gets no NUL. */
bool sc_place_decode(struct sc_bytes *out, struct sc_span text, bool plus);

#endif
