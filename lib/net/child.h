/*
 * net/child.h: a child process on the loop: bytes for its input, its output gathered, its end told.
 *
 * Owns      copies of all that it is given; the process itself goes on when the handle is freed.
 * Units     bytes.
 * Errors    SC_E_INTERNAL with errno when it cannot be started, the command named; SC_E_NOMEM.
 * Safety    the loop's thread. The handle may be freed in `ended`.
 * Source    posix_spawn(3), pidfd_open(2), pipe(7).
 *
 * Signals are for the child as a shell's child expects them, not as the loop has them. Its input
 * ends after the bytes given; that it does not read them is no failure. What a process of its own
 * that it leaves behind writes later is not waited for.
 */
#ifndef SC_NET_CHILD_H
#define SC_NET_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/loop.h"

struct sc_child;

struct sc_child_options {
	char *const *argv;       /* looked up in PATH; NULL-terminated */
	const char *const *env;  /* "NAME=VALUE" over what we have, "NAME" takes it away; NULL-terminated, or NULL */
	struct sc_span input;
	size_t output_max;       /* gather its standard output up to this; 0: it is ours */
	size_t errors_max;       /* the same of its standard error */
};

struct sc_child_end {
	int status;                    /* as of waitpid(2) */
	int errnum;                    /* not 0: how it ended cannot be learned (SIGCHLD is ignored) */
	struct sc_span output, errors; /* what was gathered */
	bool output_cut, errors_cut;   /* there was more */
};

int sc_child_start(struct sc_loop *loop, const struct sc_child_options *options,
		   void (*ended)(void *arg, const struct sc_child_end *end), void *arg,
		   struct sc_child **ret_child, struct sc_err *err);
void sc_child_free(struct sc_child *child); /* nothing is told any more */
pid_t sc_child_pid(const struct sc_child *child);

#endif
