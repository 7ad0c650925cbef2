/*
 * base/program.h: the frame of every program: parse, --help, --version, run, error line, stdout
 * check.
 *
 * Owns      the process: signal dispositions of SIGPIPE and SIGXFSZ, and stdout's final state.
 * Units     none.
 * Errors    run returns 0 or a negative sc_code with err set; the frame prints the one line and
 *           exits with the code's status. A positive return is an exit status as it is (1, or
 *           128+n).
 * Safety    main thread.
 * Source    man/sc.7.
 *
 * Every program has these options from the frame, in the struct sc_common that must be the FIRST
 * member (named `common`) of its options: -h --help, --version, -v --verbose, -q --quiet, --json,
 * --options-file FILE. A program's table may hold one of these itself, into the same member, to say
 * more about it. Defaults also come from the options file and then the environment:
 * SC_SEAL_OPTIONS="--target 4M" for sc-seal.
 *
 * The frame ignores SIGPIPE and SIGXFSZ (put them back in a child before exec). A run that gives
 * SC_E_IO with errnum EPIPE while nobody reads stdout any more ends quietly with status 0.
 * Descriptors 0, 1 and 2 are always open; what was closed at start cannot be read (0) or written
 * (1, 2): EBADF.
 */
#ifndef SC_BASE_PROGRAM_H
#define SC_BASE_PROGRAM_H

#include <stdbool.h>

#include "base/err.h"
#include "base/opt.h"
#include "base/say.h"

struct sc_common {
	int verbose;  /* -v info, -vv debug */
	bool quiet;   /* errors only */
	bool json;    /* reports, log lines and errors as JSON */
	/* The frame's own. */
	bool help, version;
	const char *options_file;
	int print_completion;
	bool completion_asked, print_man_options, print_man_statuses;
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
	bool first_meant;            /* where no verb is named, the first is meant: "sc-streams DIR" */
	const char *partial;         /* what status 1 says here, where it is not that a part was done; NULL */
};

int sc_program_main(const struct sc_program *program, int argc, char **argv);

/* A program without verbs. STATUSES and EXAMPLES are arrays, ended by 0 and {NULL}. */
#define SC_PROGRAM(NAME, PURPOSE, DESCRIPTION, OPERANDS, MIN, MAX, OPTS, OPTIONS, RUN, EXAMPLES, STATUSES) \
	int main(int argc, char **argv) \
	{ \
		static const struct sc_verb verb = { NULL, OPERANDS, MIN, MAX, PURPOSE, OPTIONS, \
						     sizeof(OPTS), RUN }; \
		static const struct sc_program program = { NAME, PURPOSE, DESCRIPTION, &verb, 1, EXAMPLES, \
							   STATUSES, false, NULL }; \
		return sc_program_main(&program, argc, argv); \
	}

/* Version of the toolkit, "0.1.0". */
const char *sc_version(void);

#endif
