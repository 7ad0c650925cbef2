/*
 * client/exec.h: a shell command run once a line, or once a batch of lines, one run at a time.
 *
 * Owns      its buffer and the handle of the child.
 * Units     offsets count rows from 1.
 * Errors    SC_E_PARTIAL: the command failed; which offsets it had, and how it ended.
 * Safety    the loop's thread.
 * Source    sh(1), net/child.h; man/sc-sub.1, "DELIVERY".
 *
 * The command gets the lines on its standard input, and SC_FIRST_OFFSET and SC_OFFSET (the last) in
 * its environment. Its lines are finished when it ends with status 0, whether it read them or not.
 */
#ifndef SC_CLIENT_EXEC_H
#define SC_CLIENT_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/loop.h"

#define SC_EXEC_BUFFER (1u << 20) /* lines held while a run is busy */
#define SC_EXEC_ROWS_MAX 100000

struct sc_exec;

int sc_exec_new(struct sc_loop *loop, const char *command, unsigned rows_max,
		void (*room)(void *arg), void (*moved)(void *arg),
		void (*failed)(void *arg, const struct sc_err *err), void *arg,
		struct sc_exec **ret_exec, struct sc_err *err);
void sc_exec_free(struct sc_exec *exec);
/* An empty line is a row that needs no run: it is finished with the ones before it. */
int sc_exec_put(struct sc_exec *exec, struct sc_span line, uint64_t offset, struct sc_err *err);
int sc_exec_flush(struct sc_exec *exec, struct sc_err *err); /* starts a run if none is going on */
bool sc_exec_full(const struct sc_exec *exec);
bool sc_exec_idle(const struct sc_exec *exec);
uint64_t sc_exec_done(const struct sc_exec *exec);

#endif
