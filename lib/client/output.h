/*
 * client/output.h: lines to a descriptor, and how many of them the reader has taken.
 *
 * Owns      its buffer and, for pipes and terminals, a second open of the descriptor; the
 *           descriptor itself stays the caller's and its flags are not touched (it may be shared
 *           with a shell).
 * Units     sizes in bytes; positions count bytes written since open.
 * Errors    SC_E_IO; errnum EPIPE when the reader has left.
 * Safety    one thread.
 * Source    pipe(7), ioctl_tty(2) FIONREAD, tcp(7) and unix(7) SIOCOUTQ.
 *
 * A pipe's write end tells by FIONREAD how much its reader has not taken. Who takes a line goes on
 * to work on it, so it counts only once a byte of a later one was taken, or, after
 * sc_output_finish, once all its own bytes were. A socket is the same, told by an empty send queue.
 * A regular file counts once it was synced (sc_output_settle), anything else once written.
 */
#ifndef SC_CLIENT_OUTPUT_H
#define SC_CLIENT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

#define SC_OUTPUT_BUFFER (1u << 20) /* lines held while the reader is busy */

struct sc_output;

/* NAME is for messages: "standard output". */
int sc_output_open(int fd, const char *name, struct sc_output **ret_output, struct sc_err *err);
void sc_output_close(struct sc_output *output); /* what is not written is dropped */

/* Buffer a line (with its LF). OFFSET marks it, 0 = no offset (never reported). The buffer takes
 * one line beyond its size, so a caller that stops when sc_output_full says so never fails here. */
int sc_output_put(struct sc_output *output, struct sc_span line, uint64_t offset,
		struct sc_err *err);
bool sc_output_full(const struct sc_output *output);
/* Write what can be written without waiting: 1 all is out, 0 the reader is busy. */
int sc_output_flush(struct sc_output *output, struct sc_err *err);
/* Wait until all is out, the reader leaves, or WAIT_MS passed: 1 or 0. */
int sc_output_drain(struct sc_output *output, int wait_ms, struct sc_err *err);
bool sc_output_empty(const struct sc_output *output);
/* The descriptor to poll: for writing while not empty, for errors always. */
int sc_output_fd(const struct sc_output *output);

/* Offset of the last line that the reader is done with, as said above; 0 = none yet. Never
 * sinks. */
uint64_t sc_output_taken(struct sc_output *output);
/* Everything is out, and nothing of it waits for the reader. */
bool sc_output_all_taken(const struct sc_output *output);
/* No more lines come: the last one counts as soon as it was taken. */
void sc_output_finish(struct sc_output *output);
/* Make a regular file's lines count: fdatasync. Nothing to do for the others. */
int sc_output_settle(struct sc_output *output, struct sc_err *err);
/* false: a file or the like, which never makes a writer wait and which poll(2) cannot watch. */
bool sc_output_polls(const struct sc_output *output);

#endif
