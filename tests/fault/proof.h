/*
 * tests/fault/proof.h: is a log that survived what it must be?
 *
 * Units     offsets as everywhere; "when" is a record's number in the trace.
 * Errors    a text of what is wrong, or an empty one.
 */
#ifndef SC_FAULT_PROOF_H
#define SC_FAULT_PROOF_H

#include "base/bytes.h"
#include "disk.h"

#define ROWS_MAX 20000u

struct told {
	struct sc_span line;  /* as acknowledged, without LF */
	size_t when;          /* by which record it was */
	bool ends;            /* the last row of a commit */
};
struct expect {
	struct told *rows;    /* by offset */
	uint64_t last;        /* the highest that was ever acknowledged */
	struct sc_bytes text; /* the lines themselves */
	size_t split;         /* commits of more than one block */
	bool seals;           /* files that the index named went */
	bool ships;           /* a log can be made anew of the archive, whenever the machine is lost */
	const char *archived; /* the folder of the run when it archived, into "archive" there; NULL */
};
/* Everything that was acknowledged in a trace; the texts are borrowed from it. */
void expect_load(const struct trace *trace, struct expect *ret_expect, char *ret_wrong,
		 size_t size);
void expect_done(struct expect *expect);

struct moment {
	uint64_t acked;       /* rows up to here were acknowledged */
	uint64_t floor_done;  /* a trim to here was */
	uint64_t floor_begun; /* a trim to here may have happened */
	bool created;         /* the making of the log was */
	uint64_t schema_done; /* a migration to this version was; 0 = none */
	uint64_t schema_begun; /* a migration to this version may have happened */
	uint64_t shipped;     /* rows up to here were put into the archive: a ship ended */
};
void moment_pass(struct moment *m, const struct expect *e, const struct trace *trace, size_t when);

/*
 * Check the log at PATH and go on with it: append to it, seal it, archive it. APPEND_FIRST: open it
 * for appending before anybody reads. Rows have a member "mig" if the schema in force at their
 * offset has; those with a member "s" came from the source "src" with that offset.
 */
void proof_check(const char *path, const struct expect *e, const struct moment *m, bool append_first,
		 char *ret_wrong, size_t size);

#endif
