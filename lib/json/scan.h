/*
 * json/scan.h: the strict JSON scanner: one pass, no allocation, bytes never re-spelled.
 *
 * Owns      nothing; every span borrows from the text.
 * Units     positions are byte positions in the text, from 0.
 * Errors    SC_E_DATA, saying what is wrong at which byte.
 * Safety    pure functions, any thread; any bytes are safe input.
 * Source    RFC 8259; streamcast-wire 8.1; limits: nesting SC_JSON_DEPTH_MAX.
 */
#ifndef SC_JSON_SCAN_H
#define SC_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_JSON_DEPTH_MAX 512

enum sc_json_kind {
	SC_JSON_NULL, SC_JSON_FALSE, SC_JSON_TRUE,
	SC_JSON_INTEGER,   /* digits only: -0, 12, 18446744073709551615 */
	SC_JSON_NUMBER,    /* with a fraction or an exponent */
	SC_JSON_STRING, SC_JSON_ARRAY, SC_JSON_OBJECT
};
/* "an integer", "a string"... for messages */
const char *sc_json_kind_name(enum sc_json_kind kind);

struct sc_json {           /* one value inside a text that was scanned */
	enum sc_json_kind kind;
	struct sc_span text;   /* its bytes, without white space around it */
	bool newlines;         /* it holds LF or CR outside strings */
};

/* The whole TEXT is one JSON value with optional white space around it: strict RFC 8259, valid
 * UTF-8, no unpaired surrogates, no BOM, depth limited. Numbers are not ranged: 1e1000 is JSON. */
int sc_json_scan(struct sc_span text, struct sc_json *ret_value, struct sc_err *err);

/*
 * Walk the members or elements of a value that sc_json_scan accepted. Of any other bytes (a row of
 * a file that somebody made up) what this and the calls below say means nothing; but they end, and
 * read nothing outside of the value.
 */
struct sc_json_walk {
	const char *at, *end;
	bool object;
};
void sc_json_walk_init(struct sc_json_walk *walk, const struct sc_json *value);
/* false at the end. KEY is the raw text between the quotes (escapes as they are); empty for
 * arrays. */
bool sc_json_walk_next(struct sc_json_walk *walk, struct sc_span *ret_key,
		struct sc_json *ret_value);
/* The last member of that (unescaped) name; false if there is none or VALUE is not an object. */
bool sc_json_get(const struct sc_json *value, const char *name, struct sc_json *ret_member);

/* Raw key against a plain name, with escapes resolved. */
bool sc_json_key_is(struct sc_span raw_key, struct sc_span name);
/* The characters of a string value (its text, with the quotes) or of a raw key, as UTF-8, appended
 * to OUT. */
int sc_json_unescape(struct sc_span raw, struct sc_bytes *out);
/* Exact; false unless an INTEGER in range. */
bool sc_json_i64(const struct sc_json *value, int64_t *ret_value);
bool sc_json_u64(const struct sc_json *value, uint64_t *ret_value);
/* TEXT, valid UTF-8, as a JSON string with its quotes: only '"', '\\' and U+0000..1F are escaped
 * (\b \f \n \r \t by their letter, others \u00xx in lower case). On SC_E_NOMEM OUT is as it was,
 * here and below. */
int sc_json_put_string(struct sc_span text, struct sc_bytes *out);
/* Appends the value's bytes, white space outside strings dropped only where it is (or touches) LF
 * or CR. */
int sc_json_put_line(const struct sc_json *value, struct sc_bytes *out);

/* White space that JSON allows (space, tab, LF, CR) taken off both ends. */
struct sc_span sc_json_trim(struct sc_span text);
bool sc_utf8_valid(struct sc_span text);

#endif
