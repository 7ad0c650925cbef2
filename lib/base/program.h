/*
 * base/program.h: the frame of every program: parse, --help, --version, run, error line, stdout check.
 *
 * Owns      the process: signal dispositions of SIGPIPE, and stdout's final state.
 * Units     none.
 * Errors    run returns 0 or a negative sc_code with err set; the frame prints the one line and exits with
 *           the code's status. A positive return is an exit status as it is (1, or 128+n).
 * Safety    main thread.
 * Source    man/sc.7.
 *
 * Every program has these options from the frame, in the struct sc_common that must be the FIRST member
 * (named `common`) of its options: -h --help, --version, -v --verbose, -q --quiet, --json, --options-file FILE.
 * Defaults may also come from the environment: SC_SEAL_OPTIONS="--target 4M" for sc-seal.
 */
#ifndef SC_BASE_PROGRAM_H
#define SC_BASE_PROGRAM_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"

struct sc_common {
	int verbose;  /* -v info, -vv debug */
	bool quiet;   /* errors only */
	bool json;    /* reports, log lines and errors as JSON */
};

struct sc_example {
	const char *what;     /* "follow a log from its start" */
	const char *command;  /* one line */
};

/* One verb of a program such as sc-log; a program without verbs has exactly one, with name NULL. */
struct sc_verb {
	const char *name;
	const char *operands;        /* "LOG", "URL", "LOG NAME", "[NAME=]LOG..." */
	int operands_min, operands_max; /* max -1 = any */
	const char *summary;         /* one line for --help and the man page's verb list */
	const struct sc_opt *options; /* without the frame's own */
	size_t opts_size;            /* sizeof its options struct */
	int (*run)(const void *opts, char *const *operands, struct sc_err *err);
};

struct sc_program {
	const char *name;            /* "sc-seal" */
	const char *purpose;         /* NAME line of the man page: "seal rows into segments and archive them" */
	const char *description;     /* a paragraph or two for --help; the man page has more */
	const struct sc_verb *verbs;
	size_t verb_count;
	const struct sc_example *examples; /* three or more, ended by {NULL} */
	const int *statuses;         /* exit statuses this program can give, besides 0 and 64, ended by 0 */
};

int sc_program_main(const struct sc_program *program, int argc, char **argv);

/* A program without verbs. STATUSES and EXAMPLES are arrays, ended by 0 and {NULL}. */
#define SC_PROGRAM(NAME, PURPOSE, DESCRIPTION, OPERANDS, MIN, MAX, OPTS, OPTIONS, RUN, EXAMPLES, STATUSES) \
	int main(int argc, char **argv) \
	{ \
		static const struct sc_verb verb = { NULL, OPERANDS, MIN, MAX, PURPOSE, OPTIONS, \
						     sizeof(OPTS), RUN }; \
		static const struct sc_program program = { NAME, PURPOSE, DESCRIPTION, &verb, 1, EXAMPLES, \
							   STATUSES }; \
		return sc_program_main(&program, argc, argv); \
	}

/*
 * Messages to stderr, for bin/ only (libraries return errors). Each is one line,
 *     sc-serve: 2026-11-30T00:12:01.123Z warning: TEXT
 * or with --json {"time":..,"program":..,"level":"warning","text":..,FIELDS}. A message below the asked
 * level is dropped: default warnings and notices, -v info, -vv debug, -q errors only.
 */
enum sc_level { SC_ERROR, SC_WARNING, SC_NOTICE, SC_INFO, SC_DEBUG };
void sc_say(enum sc_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* FIELDS: members ready spelled ("\"port\":8765"), printed only with --json; may be NULL. */
void sc_say_fields(enum sc_level level, const char *fields, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
bool sc_says(enum sc_level level);
bool sc_wants_json(void);
const char *sc_program_name(void);

/* An error that does not end the program: printed at once, in the frame's form. */
void sc_say_err(enum sc_level level, const struct sc_err *err);

/* Version of the toolkit, "0.1.0". */
const char *sc_version(void);

#endif
