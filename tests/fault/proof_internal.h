/*
 * tests/fault/proof_internal.h: what proof.c and proof_sealed.c share.
 *
 * Errors    false, and a text of what is wrong.
 */
#ifndef SC_FAULT_PROOF_INTERNAL_H
#define SC_FAULT_PROOF_INTERNAL_H

#include "base/err.h"
#include "proof.h"

struct found {
	uint64_t first, last; /* 0 = no row */
	uint64_t source;      /* of the last row that came from it */
};

__attribute__((format(printf, 3, 4))) bool proof_wrong(char *text, size_t size, const char *format,
						       ...);
bool proof_failed(char *text, size_t size, const char *what, const struct sc_err *err);
/* Whole lines that follow those in F: the ones that were acknowledged. */
bool proof_lines(const struct expect *e, struct found *f, struct sc_span lines, char *text,
		 size_t size);

/*
 * The log, which holds the rows in [first, next) and one more, is sealed, compacted and archived,
 * as the next sc-seal would: it holds the same, and nothing is left over. Before that the archive
 * has what the log has not any more, and what was shipped; none of it is new to the log. After that,
 * where rows are shipped, the machine is lost, and the log made anew holds what the archive has.
 */
bool proof_sealed(const char *path, const struct expect *e, const struct moment *m, uint64_t first,
		  uint64_t next, char *text, size_t size);

#endif
