/*
 * client/input.h: lines of a descriptor, on the loop.
 *
 * Owns      its buffer; the descriptor stays the caller's, and its flags are not touched.
 * Units     lines count from 1; sizes in bytes.
 * Errors    SC_E_IO (cannot be read), SC_E_DATA (a line is too long), through `failed` and
 *           sc_input_line.
 * Safety    the loop's thread; a line is good until the next call on the input.
 * Source    pipe(7), epoll_ctl(2) (a regular file cannot be watched: it is always readable).
 */
#ifndef SC_CLIENT_INPUT_H
#define SC_CLIENT_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"
#include "net/loop.h"

struct sc_input;

struct sc_input_hooks {
	void (*ready)(void *arg); /* more was read, or the end is there */
	void (*failed)(void *arg, const struct sc_err *err);
};

/* Nothing is read before sc_input_want. LINE_MAX: a longer line is refused. */
int sc_input_open(struct sc_loop *loop, int fd, size_t line_max, const struct sc_input_hooks *hooks, void *arg,
		  struct sc_input **ret_input, struct sc_err *err);
void sc_input_close(struct sc_input *input);
void sc_input_want(struct sc_input *input, bool on); /* read, or leave it to the kernel */
/* 1 and the next line, without its LF; 0: none is whole yet. The rest before the end is a line. */
int sc_input_line(struct sc_input *input, struct sc_span *ret_line, uint64_t *ret_number,
		struct sc_err *err);
bool sc_input_ended(const struct sc_input *input);   /* and all lines were taken */

#endif
