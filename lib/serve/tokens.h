/*
 * serve/tokens.h: who may read and who may publish: tokens from a file.
 *
 * Owns      the texts, until sc_tokens_close.
 * Units     none.
 * Errors    SC_E_CONFIG with file and line; SC_E_IO, SC_E_NOLOG.
 * Safety    one thread.
 * Source    RFC 6750 (bearer), RFC 7617 (basic: the password is the token); man/sc-serve.1,
 *           "TOKENS".
 *
 * One token a line, with "read", "publish" or "all" in front; without a word it is all. '#' starts
 * a comment line. The file is read again when it has changed; a file that cannot be used then
 * leaves the tokens as they were.
 */
#ifndef SC_SERVE_TOKENS_H
#define SC_SERVE_TOKENS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

enum { SC_MAY_READ = 1, SC_MAY_PUBLISH = 2 };

struct sc_tokens;

int sc_tokens_open(const char *path, struct sc_tokens **ret_tokens, struct sc_err *err);
void sc_tokens_close(struct sc_tokens *tokens);
/* 1 read again, 0 unchanged, or why it cannot be used. */
int sc_tokens_refresh(struct sc_tokens *tokens, struct sc_err *err);
/* What the value of an Authorization header allows, SC_MAY_ bits; 0: nothing. Takes as long for a
 * wrong token as for a right one. */
unsigned sc_tokens_allow(const struct sc_tokens *tokens, struct sc_span authorization);

#endif
