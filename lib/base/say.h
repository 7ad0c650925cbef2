/*
 * base/say.h: messages to stderr, for bin/ only (libraries return errors).
 *
 * Owns      stderr.
 * Units     none.
 * Errors    none: a message that cannot be written is lost.
 * Safety    any thread; one write(2) a message.
 * Source    man/sc.7, "MESSAGES".
 *
 * Each is one line,
 *     sc-serve: 2026-11-30T00:12:01.123Z warning: TEXT
 * or with --json {"time":..,"program":..,"level":"warning","text":..,FIELDS}. A message below the
 * asked level is dropped: default warnings and notices, -v info, -vv debug, -q errors only. A
 * warning that was said in the last minute is only counted; the count is told when it is said
 * again, or at the end.
 */
#ifndef SC_BASE_SAY_H
#define SC_BASE_SAY_H

#include <stdbool.h>

#include "base/err.h"

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

/* The frame's: who speaks, from which level down, how; the counts that are left; the last line (no
 * time). */
void sc_say_setup(const char *program, enum sc_level level, bool json);
void sc_say_finish(void);
void sc_say_last(const struct sc_err *err);

#endif
