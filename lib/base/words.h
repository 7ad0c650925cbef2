/*
 * base/words.h: text into words, with a shell's quoting.
 *
 * Owns      the words are one allocation each list, freed by sc_words_free.
 * Units     none.
 * Errors    SC_E_USAGE naming the line (an open quote, a NUL byte), SC_E_NOMEM.
 * Safety    pure functions, any thread.
 * Source    POSIX shell, 2.2 Quoting; man/sc.7, "DEFAULTS".
 *
 * Blanks and newlines part words. 'x' is taken as it is; in "x" a backslash quotes \ " $ ` and
 * joins lines; elsewhere it quotes any character. A # at the start of a word begins a comment up to
 * the line's end. Nothing is expanded.
 */
#ifndef SC_BASE_WORDS_H
#define SC_BASE_WORDS_H

#include "base/bytes.h"
#include "base/err.h"

int sc_words_split(struct sc_span text, char ***ret_words, size_t *ret_count, struct sc_err *err);
void sc_words_free(char **words);

#endif
