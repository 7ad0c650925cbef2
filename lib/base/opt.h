/*
 * base/opt.h: options described once.
 *
 * One table gives the parser, --help, the shell completions and the OPTIONS part of the man page.
 *
 * Owns      tables are static; parsed texts point into argv or the environment, lists are freed by
 *           sc_opt_done.
 * Units     sizes in bytes, durations in ms, times in us since 1970 UTC.
 * Errors    SC_E_USAGE, naming the flag and what it takes.
 * Safety    one thread, at start.
 * Source    our own.
 */
#ifndef SC_BASE_OPT_H
#define SC_BASE_OPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/parse.h"

enum sc_opt_kind {
	SC_OPT_FLAG,     /* bool: no value; --no-NAME unsets */
	SC_OPT_COUNT,    /* int: each use adds one (-v -v); --no-NAME starts again at 0 */
	SC_OPT_NUMBER,   /* int64_t, min..max */
	SC_OPT_OFFSET,   /* uint64_t; the word in `special` (say "earliest") gives 0 */
	SC_OPT_FACTOR,   /* double, above 0: "2", "0.5", "2x" */
	SC_OPT_SIZE,     /* uint64_t bytes: 8M, 64KiB, 1000 */
	SC_OPT_DURATION, /* int64_t ms: 30s, 5m, 1h30m, 250ms, 7d; a bare number is seconds; the word in
			  * `special` (say "none") gives -1 */
	SC_OPT_TIME,     /* int64_t us UTC: RFC 3339, epoch seconds or milliseconds (by size), 10m = ago, now */
	SC_OPT_TEXT,     /* const char * */
	SC_OPT_FILE,     /* const char *: completed as a path; "-" is standard input where it is read */
	SC_OPT_CHOICE,   /* int: index into choices */
	SC_OPT_LIST,     /* struct sc_opt_list: TEXT that may be given again and again, in order; --no-NAME empties it */
	SC_OPT_FILES,    /* struct sc_opt_list of paths */
	SC_OPT_FD,       /* int: an open descriptor's number; checked with fcntl; -1 when not given */
	SC_OPT_TITLE,    /* no option: starts a group in --help and the man page; the name is its title */
};

struct sc_opt_list {
	const char **items;
	size_t count;
};

struct sc_opt {
	const char *name;        /* "max-backlog"; NULL ends a table */
	char letter;             /* 'n' or 0; must agree with the one register of letters in base/opt.c */
	enum sc_opt_kind kind;
	const char *arg;         /* the argument's word in help: "N", "FILE"; NULL for flags */
	size_t into;             /* offsetof in the program's struct of options */
	const char *standard;    /* default, as the user would write it; NULL = zero of the kind; of a list
				  * it is only shown in --help */
	int64_t min, max;        /* limits; both 0 = the kind's own; a max below min = no maximum */
	const char *const *choices; /* NULL-terminated */
	const char *special;     /* one more word that is accepted (see OFFSET, DURATION) */
	const char *help;        /* one sentence, lower case, no full stop */
	const char *bare;        /* of a DURATION: the value where none follows; the next word is taken only when it is one */
	size_t seen;             /* offsetof a bool set when the option was given; 0 = none (so never the first member) */
	bool hidden;             /* works, but is in no help, completion or man page */
};

/* A group's title in a table of options. */
#define SC_OPT_GROUP(title) { .name = (title), .kind = SC_OPT_TITLE }

/* Groups are spliced into a table with a macro of initialisers, as SC_RANGE_OPTIONS(struct opts,
 * range). */

/* Fill *into with the defaults. */
int sc_opt_defaults(const struct sc_opt *table, void *into, struct sc_err *err);
/*
 * Parse argv[1..argc). Options and operands may be mixed; "--" ends options; "-" alone is an
 * operand; "--name=value" and "--name value" are the same; unique prefixes are NOT accepted; a
 * separate value that looks like an option ("--send --quiet") is refused: write "--send=--quiet".
 * *ret_operands: new array, NULL-terminated, freed by the caller.
 */
int sc_opt_parse(const struct sc_opt *table, int argc, char *const *argv, void *into,
		 char ***ret_operands, size_t *ret_count, struct sc_err *err);
/*
 * Options that come from elsewhere, say KIND "options file" and NAME "x": WORDS without operands.
 * An option that is only in FOREIGN (a table, or NULL: those of a program's other verbs) is passed
 * over.
 */
int sc_opt_words(const struct sc_opt *table, const struct sc_opt *foreign, const char *kind, const char *name,
		 size_t count, char *const *words, void *into, struct sc_err *err);
void sc_opt_done(const struct sc_opt *table, void *into); /* frees lists */

/* Options that are right by themselves, and not together: SC_E_USAGE. */
int sc_opt_clash(struct sc_err *err, const char *tried, const char *reason, const char *next);

/* What a value of this option looks like, in words: "a number from 1 to 100". */
void sc_opt_takes(const struct sc_opt *o, char *ret_text, size_t size);
/* Its limits ("from 1 to 100", "from 4K up"), empty if there are none. */
void sc_opt_limits(const struct sc_opt *o, char *ret_text, size_t size);
/* Its choices ("a, b or c"). */
void sc_opt_choices(const struct sc_opt *o, char *ret_text, size_t size);
bool sc_opt_has_value(const struct sc_opt *o);
bool sc_opt_is_list(const struct sc_opt *o);
/* The nearest of COUNT names to a misspelt one, NULL if none is near. */
const char *sc_opt_nearest(const char *word, const char *const *names, size_t count);

#endif
