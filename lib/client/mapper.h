/*
 * client/mapper.h: what a feed sends, made into lines: JSON as it is, anything else wrapped, or
 * rows made by a jq program.
 *
 * Owns      its program and buffers.
 * Units     times in us since 1970 UTC.
 * Errors    SC_E_CONFIG (the program does not compile), SC_E_NOMEM. A message that gives no row is
 *           no error: it is counted, and told through `skipped`.
 * Safety    one thread.
 * Source    man/sc-capture.1, "ROWS".
 */
#ifndef SC_CLIENT_MAPPER_H
#define SC_CLIENT_MAPPER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum sc_binary { SC_BINARY_BASE64, SC_BINARY_DROP, SC_BINARY_TEXT };

struct sc_mapper_options {
	const char *program;  /* jq, or NULL: every message is a line */
	const char *raw;      /* column for the text of messages that give no usable row, or NULL */
	const char *stamp;    /* column for the time of receipt, or NULL */
	enum sc_binary binary;
	/* A message that was left out, and why. */
	void (*skipped)(void *arg, struct sc_span message, const struct sc_err *err);
	void *arg;
};

struct sc_mapper;

int sc_mapper_new(const struct sc_mapper_options *options, struct sc_mapper **ret_mapper,
		struct sc_err *err);
void sc_mapper_free(struct sc_mapper *mapper);
/* Append the message's lines (with LF) to OUT: none, one, or as many as the program gives.
 * *ret_lines: how many. */
int sc_mapper_lines(struct sc_mapper *mapper, struct sc_span message, bool binary, int64_t received_us,
		    struct sc_bytes *out, uint64_t *ret_lines, struct sc_err *err);
uint64_t sc_mapper_skipped(const struct sc_mapper *mapper);

#endif
