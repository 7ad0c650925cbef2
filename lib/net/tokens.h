/*
 * net/tokens.h: who may do what: tokens from a file.
 *
 * Owns      the texts, until sc_tokens_close.
 * Units     none.
 * Errors    SC_E_CONFIG with file and line; SC_E_IO, SC_E_NOLOG.
 * Safety    one thread.
 * Source    RFC 6750 (bearer), RFC 7617 (basic: the password is the token); man/sc-serve.1 and
 *           man/sc-streams.1, "TOKENS".
 *
 * One token a line, with one of the program's words in front; without a word it is what the last
 * of them says. '#' starts a comment line. The file is read again when it has changed; a file that
 * cannot be used then leaves the tokens as they were.
 */
#ifndef SC_NET_TOKENS_H
#define SC_NET_TOKENS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

struct sc_tokens;

struct sc_token_word {
	const char *word; /* "read"; NULL ends a list */
	unsigned may;     /* the program's bits, not 0 */
};

/* WORDS (one at least) stay the caller's, until the close. */
int sc_tokens_open(const char *path, const struct sc_token_word *words, struct sc_tokens **ret_tokens,
		   struct sc_err *err);
/* One token that is in no file, with what it may do; SC_E_CONFIG unless it is printable ASCII. NAME
 * is where it comes from, for messages. */
int sc_tokens_one(const char *name, const char *token, unsigned may, struct sc_tokens **ret_tokens,
		  struct sc_err *err);
void sc_tokens_close(struct sc_tokens *tokens);
/* 1 read again, 0 unchanged (or in no file), or why it cannot be used. */
int sc_tokens_refresh(struct sc_tokens *tokens, struct sc_err *err);
/* What the value of an Authorization header allows, as bits; 0: nothing. Takes as long for a wrong
 * token as for a right one. */
unsigned sc_tokens_allow(const struct sc_tokens *tokens, struct sc_span authorization);

#endif
