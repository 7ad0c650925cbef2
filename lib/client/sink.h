/*
 * client/sink.h: the consumer's side of a subscription: where lines go, and which of them are
 * finished.
 *
 * Owns      its output, the child of --exec, its watches; not the descriptors.
 * Units     offsets count rows from 1; ms.
 * Errors    SC_E_IO (errnum EPIPE: the reader has left), SC_E_PARTIAL (the command failed),
 *           SC_E_DATA (a bad acknowledgement).
 * Safety    the loop's thread.
 * Source    man/sc-sub.1, "DELIVERY".
 *
 * Three manners of finishing a line:
 *   output     the reader of the pipe has taken it and gone on to the next (client/output.h)
 *   --exec     the command, given the line (or lines) on its standard input, ended with status 0
 *   --ack-fd   the consumer wrote the offset, or a higher one, back as a line of digits
 */
#ifndef SC_CLIENT_SINK_H
#define SC_CLIENT_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/loop.h"

struct sc_sink;

struct sc_sink_options {
	int fd;               /* lines go here; with exec it is only the command's standard output */
	const char *name;     /* of fd, for messages */
	const char *exec;     /* a shell command, or NULL */
	unsigned exec_rows;   /* most lines given to one run; 0 = 1 */
	int ack_fd;           /* -1 = none */
	void (*room)(void *arg);                            /* it was full and is not any more */
	void (*moved)(void *arg);                           /* a command or an acknowledgement has finished rows; or NULL */
	void (*failed)(void *arg, const struct sc_err *err);/* told once; nothing more is finished then */
	void *arg;
};

int sc_sink_new(struct sc_loop *loop, const struct sc_sink_options *options, struct sc_sink **ret_sink,
		struct sc_err *err);
void sc_sink_free(struct sc_sink *sink); /* a command that still runs is left to end by itself */

/* A line (or lines) with its LF; OFFSET 0 = the row has none. Empty: a row of which nothing is
 * delivered, finished with those before it. Once the sink has failed: its error. */
int sc_sink_put(struct sc_sink *sink, struct sc_span line, uint64_t offset, struct sc_err *err);
/* No more lines for the moment: let what is buffered out. */
int sc_sink_flush(struct sc_sink *sink, struct sc_err *err);
bool sc_sink_full(const struct sc_sink *sink);

/* The last offset that the consumer has finished; 0 = none. Never sinks. */
uint64_t sc_sink_done(struct sc_sink *sink);
/* No more lines come: the last one is finished once it was taken (client/output.h). */
void sc_sink_finish(struct sc_sink *sink);
/* Everything put is out and taken; with --exec and --ack-fd it is finished. */
bool sc_sink_idle(struct sc_sink *sink);
/* Before a cursor may move to sc_sink_done: file output is synced. */
int sc_sink_settle(struct sc_sink *sink, struct sc_err *err);

#endif
