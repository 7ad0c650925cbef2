/*
 * base/usage.h: what a program prints about its options: help, completions, parts of its man page.
 *
 * Owns      nothing; the tables are the frame's.
 * Units     help fits 80 columns.
 * Errors    none here: they stay in OUT (ferror).
 * Safety    pure functions.
 * Source    mdoc(7); bash(1), "Programmable Completion"; zshcompsys(1).
 */
#ifndef SC_BASE_USAGE_H
#define SC_BASE_USAGE_H

#include <stdio.h>

#include "base/program.h"

struct sc_usage {
	const struct sc_program *program;
	const struct sc_opt *const *tables; /* each verb's options with the frame's behind them */
	const struct sc_opt *common;        /* the frame's alone */
};

/* VERB is an index into the program's verbs, or -1 for the whole of a program that has some. */
void sc_usage_help(FILE *out, const struct sc_usage *u, int verb);
void sc_usage_bash(FILE *out, const struct sc_usage *u);
void sc_usage_zsh(FILE *out, const struct sc_usage *u);
/* mdoc(7) source of the list in OPTIONS; with VERB -1 the frame's options only. */
void sc_usage_man_options(FILE *out, const struct sc_usage *u, int verb);
/* mdoc(7) source of the list in EXIT STATUS. */
void sc_usage_man_statuses(FILE *out, const struct sc_usage *u);

/* Shared by these: the argument's word ("N|earliest"), and the help with limits and default behind
 * it. */
void sc_usage_arg(const struct sc_opt *o, char *ret_text, size_t size);
void sc_usage_text(const struct sc_opt *o, char *ret_text, size_t size);
/* What an exit status says of a program. */
const char *sc_usage_status(const struct sc_program *program, int status);

#endif
